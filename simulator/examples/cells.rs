//! Policies over the cells of Kondo et al. 2004, as a table: ratio to the optimum, copies and waste. For tuning; the
//! reports are made by `deskgrid reproduce`.
//!
//! `cargo run --release -p simulator --example cells -- POLICIES [PLATFORMS] [DAYS] [STARTS] [THREADS] [MODEL] [ck]`,
//! with lists separated by commas and days as `101..121`.

use std::time::Instant;

use simulator::experiment::{
    Contender, Day, Generated, Grid, HOSTS, KONDO_JOBS, Row, Site, Source, TRAINING_DAYS, summarize,
};

/// Of platforms, models and starts.
const SEED: u64 = 1;
const FOUR: &str = "sdsc,gimps,lri-wisc,homogeneous";

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize, or: &str| given.get(at).cloned().unwrap_or_else(|| or.to_owned());
    let (policies, platforms, model) = (word(0, "FCFS,PRI-CR"), word(1, FOUR), word(5, "default"));
    let (from, to) = word(2, "101..121").split_once("..").map(|(a, b)| (number(a), number(b))).expect("FROM..TO");
    let starts = number(&word(3, "6")) as usize;
    let checkpoint = word(6, "") == "ck";
    let source = |name| Generated::named(name, &model, SEED, HOSTS).expect("a platform and a model that there are");
    let sources: Vec<Generated> = platforms.split(',').map(source).collect();
    let contenders: Vec<Contender> =
        policies.split(',').map(|name| Contender { checkpoint, ..Contender::named(name) }).collect();
    let threads = number(&word(4, "2")) as usize;
    let learned: Vec<_> = sources
        .iter()
        .map(|source| {
            source.knowledge(TRAINING_DAYS, &KONDO_JOBS, &contenders, threads).unwrap_or_else(|error| panic!("{error}"))
        })
        .collect();
    let site = |(platform, (source, knowledge))| Site {
        platform: String::from(platform),
        model: model.clone(),
        source: source as &dyn Source,
        knowledge: Some(knowledge),
    };
    let grid = Grid {
        sites: platforms.split(',').zip(sources.iter().zip(&learned)).map(site).collect(),
        jobs: KONDO_JOBS.to_vec(),
        contenders,
        days: (from..to).flat_map(|day| Day::spread(SEED, day, starts, starts)).collect(),
        foretell: false,
        seed: SEED,
        threads,
    };
    let began = Instant::now();
    let rows = grid.rows().unwrap_or_else(|error| panic!("{error}"));
    let spent = began.elapsed().as_secs_f64();
    print(&grid, &rows);
    println!("{} runs, {:.0} runs/s", rows.len(), rows.len() as f64 / spent);
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is not a number"))
}

fn print(grid: &Grid<'_>, rows: &[Row]) {
    let (readings, summaries) = summarize(grid, rows);
    for reading in &readings {
        let job = grid.jobs[reading.job];
        println!(
            "{:30} {:12} {:>4} x {:>2.0}  ratio {:6.3}  replicas {:5.1} %  waste {:5.1} %  unfinished {}",
            grid.contenders[reading.contender].label,
            grid.sites[reading.site].platform,
            job.tasks,
            job.work_s / 60.0,
            reading.ratio.value,
            100.0 * reading.replicas,
            100.0 * reading.cpu_waste,
            reading.unfinished,
        );
    }
    for summary in &summaries {
        println!(
            "{:30} {:12} geo {:6.3}  worst {:6.3}  replicas {:5.1} % (max {:5.1} %)  waste {:5.1} %  unfinished {}",
            grid.contenders[summary.contender].label,
            summary.site.map_or("all", |site| &grid.sites[site].platform),
            summary.geo.value,
            summary.worst,
            100.0 * summary.mean_replicas,
            100.0 * summary.max_replicas,
            100.0 * summary.cpu_waste,
            summary.unfinished,
        );
    }
}
