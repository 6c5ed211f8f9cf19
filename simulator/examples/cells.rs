//! Policies over the cells of Kondo et al. 2004, as a table: ratio to the optimum, copies and waste. For tuning; the
//! reports are made by `deskgrid reproduce`.

use std::time::Instant;

use simulator::experiment::{Contender, Grid, GridError, KONDO_JOBS, Row, Site, SourceError, summarize};
use simulator::trace::Trace;

#[path = "../tests/all/grid.rs"]
#[allow(dead_code)]
mod grid;

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize, or: &str| given.get(at).cloned().unwrap_or_else(|| or.to_owned());
    let (policies, platforms) = (word(0, "FCFS,PRI-CR"), word(1, "sdsc,gimps"));
    let starts_per_day = word(2, "6").parse().expect("starts per day");
    let threads = word(3, "2").parse().expect("threads");
    let checkpoint = word(4, "") == "ck";
    let sources: Vec<_> = platforms.split(',').map(source).collect();
    let site = |(name, source)| Site { platform: String::from(name), model: "day 0".into(), source, experience: None };
    let grid = Grid {
        sites: platforms.split(',').zip(sources.iter().map(|s| s as _)).map(site).collect(),
        jobs: KONDO_JOBS.to_vec(),
        contenders: policies.split(',').map(|name| Contender { checkpoint, ..Contender::named(name) }).collect(),
        days: vec![0],
        starts_per_day,
        starts_s: None,
        seed: 1,
        threads,
    };
    let began = Instant::now();
    let rows: Result<Vec<Row>, GridError> = grid.rows();
    let rows = rows.unwrap_or_else(|error| panic!("{error}"));
    let spent = began.elapsed().as_secs_f64();
    print(&grid, &rows);
    println!("{} runs, {:.0} runs/s", rows.len(), rows.len() as f64 / spent);
}

fn source(platform: &str) -> impl Fn(u32) -> Result<Trace, SourceError> + use<> {
    let trace = grid::shared_day(&format!("default-{platform}-0"));
    move |_| trace.clone().ok_or_else(|| SourceError("the shared days are not there".into()))
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
