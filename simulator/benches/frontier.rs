//! Measures the gain of copies: the 36 cells of Kondo et al. 2004 under `deskgrid` and variants of it, on the
//! days that parameters are chosen on.
//!
//! Run with `cargo bench -p simulator --bench frontier`; `-- deskgrid:copies_max=100` for these
//! policies, `-- kept` where tasks keep their state, `-- cells` for each cell, `-- losses` for what
//! the last tasks did, `-- day=101 days=8 starts=6` for other days, `-- model=quiet` for another
//! availability, `-- sdsc` for these platforms.

use common::units::REFERENCE_MHZ;
use simulator::experiment::{
    Contender, Day, Generated, HOSTS, JobSize, KONDO_JOBS, Knowledge, PolicyGrid, Site,
    TRAINING_DAYS, summarize,
};
use simulator::oracle::Oracle;
use simulator::trace::Trace;
use simulator::world::{AttemptFate, PreparedTrace, Run, Simulator};

const SEED: u64 = 1;
/// The first of the days on which parameters are chosen, their number, and the starts on each.
const FIRST_DAY: usize = 20;
const DAYS: usize = 12;
const PER_DAY: usize = 2;
const PLATFORMS: [&str; 4] = ["sdsc", "gimps", "lri-wisc", "homogeneous"];
/// The cost of starting a task, in seconds.
const START_COST_S: f64 = 40.0;

/// The arguments of the command line, and whether it is a benchmark: `cargo test --benches` runs
/// this too, and should only see it work then.
struct Asked {
    words: Vec<String>,
    whole: bool,
}

impl Asked {
    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|asked| asked == word)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix(name))
    }

    fn number(&self, name: &str, usual: usize) -> usize {
        let asked = self.value(name).filter(|_| self.whole);
        asked.map_or(if self.whole { usual } else { 1 }, |value| {
            value.parse().expect("a number")
        })
    }

    fn platforms(&self) -> Vec<&'static str> {
        let some: Vec<&str> = PLATFORMS
            .into_iter()
            .filter(|name| self.has(name))
            .collect();
        if some.is_empty() {
            PLATFORMS.to_vec()
        } else {
            some
        }
    }

    fn contenders(&self) -> Vec<Contender> {
        let policies = self.words.iter().map(String::as_str);
        let mut policies: Vec<&str> = policies
            .filter(|word| scheduler::policy::parse(word).is_ok())
            .collect();
        if policies.is_empty() {
            policies.push("deskgrid");
        }

        let contender = |policy: &str| Contender {
            checkpoint: self.has("kept"),
            ..Contender::named(policy)
        };
        policies.into_iter().map(contender).collect()
    }
}

fn main() {
    let asked = Asked {
        words: std::env::args()
            .skip(1)
            .filter(|arg| !arg.starts_with('-'))
            .collect(),
        whole: std::env::args().any(|arg| arg == "--bench"),
    };
    let model = asked.value("model=").unwrap_or("default").to_owned();
    let contenders = asked.contenders();
    let training = if asked.whole { TRAINING_DAYS } else { 1 };
    let learned = |platform: &&str| {
        let source = Generated::named(platform, &model, SEED, HOSTS).expect("it is known");
        let known = source.knowledge(training, &KONDO_JOBS, &contenders, 1);
        (platform.to_string(), source, known.expect("days"))
    };
    let platforms: Vec<(String, Generated, Knowledge)> =
        asked.platforms().iter().map(learned).collect();

    let sites = platforms.iter().map(|(platform, source, known)| Site {
        platform: platform.clone(),
        model: model.clone(),
        source,
        knowledge: Some(known),
    });
    let first = asked
        .value("day=")
        .map_or(FIRST_DAY, |day| day.parse().expect("a day"));
    let starts = asked.number("starts=", PER_DAY);
    let runs = asked.number("days=", DAYS) * starts;
    let grid = PolicyGrid {
        sites: sites.collect(),
        jobs: KONDO_JOBS.to_vec(),
        days: Day::spread(SEED, first as u32, runs, starts),
        needs: None,
        foretell: false,
        seed: SEED,
        threads: 1,
        contenders,
    };

    if asked.has("losses") {
        losses(&grid);
    } else {
        ratios(&grid, asked.has("cells"));
    }
}

/// Prints makespans by the optimum, copies and wasted processor time.
fn ratios(grid: &PolicyGrid<'_>, each: bool) {
    let rows = grid.rows().expect("policies of the catalogue");
    let (cells, summaries) = summarize(grid, &rows);
    println!("| cell | policy | times optimal | copies per task | wasted processor time |");
    println!("|---|---|---|---|---|");
    for cell in cells.iter().filter(|_| each) {
        println!(
            "| {} | {} | {:.3} | {:.3} | {:.3} |",
            named(grid, cell.site, grid.jobs[cell.job]),
            grid.contenders[cell.contender].label,
            cell.ratio.value,
            cell.replicas,
            cell.cpu_waste
        );
    }

    for all in summaries.iter().filter(|all| each || all.site.is_none()) {
        let site = all.site.map_or("all", |site| &grid.sites[site].platform);
        println!(
            "| {site} | {} | {:.4}, worst {:.3} | {:.4}, most {:.4} | {:.3} |",
            grid.contenders[all.contender].label,
            all.geo.value,
            all.worst,
            all.mean_replicas,
            all.max_replicas,
            all.cpu_waste
        );
    }
}

fn named(grid: &PolicyGrid<'_>, site: usize, job: JobSize) -> String {
    let platform = &grid.sites[site].platform;
    format!("{platform}, {} x {:.0} min", job.tasks, job.work_s / 60.0)
}

/// Prints for each cell what the last task of its jobs did until it was done, in parts of the least
/// possible makespan: it waited, earlier attempts came to nothing, and the one that delivered it
/// ran, for as long as its host needs and for disturbances. Then which part of the last tasks came
/// from their first attempt, and which from an attempt after a loss; the others are from copies.
fn losses(grid: &PolicyGrid<'_>) {
    println!("| cell | policy | waited | failed | ran | disturbed | first | after a loss |");
    println!("|---|---|---|---|---|---|---|---|");
    for (at, site) in grid.sites.iter().enumerate() {
        for job in &grid.jobs {
            for who in &grid.contenders {
                let mut sum = [0.0; 7];
                for day in &grid.days {
                    let trace = site.source.day(day.day).expect("a day");
                    for start_s in &day.starts_s {
                        let run = Run {
                            watch: true,
                            story: true,
                            checkpoint: who.checkpoint,
                            experience: site.knowledge.map(|known| known.of(who)),
                            shuffle: Some(SEED),
                            ..Run::new(*start_s, job.tasks, job.work_s, &who.policy)
                        };
                        let last = last_task(&trace, &run).unwrap_or_default();
                        sum.iter_mut()
                            .zip(last)
                            .for_each(|(sum, part)| *sum += part);
                    }
                }

                let starts: usize = grid.days.iter().map(|day| day.starts_s.len()).sum();
                let [least_s, times @ .., first, again] = sum;
                let times = times.map(|time_s| format!("{:.2}", time_s / least_s));
                println!(
                    "| {} | {} | {} | {:.2} | {:.2} |",
                    named(grid, at, *job),
                    who.label,
                    times.join(" | "),
                    first / starts as f64,
                    again / starts as f64
                );
            }
        }
    }
}

/// Returns the least possible makespan of a run, then what its last task did, in seconds, and 1 for
/// the kind of the attempt that delivered it; `None` if the run is not done before the trace's end.
fn last_task(trace: &Trace, run: &Run<'_>) -> Option<[f64; 7]> {
    let oracle = Oracle::new(trace, run.start_s, run.work_s, START_COST_S, 1);
    let least_s = oracle.makespan_s(run.tasks)?;
    let outcome = Simulator::default()
        .run(
            &PreparedTrace::new(trace).expect("clock rates that hosts have"),
            run,
        )
        .expect("a policy of the catalogue");
    let delivered = outcome.story.iter();
    let last = delivered.filter(|story| story.fate == AttemptFate::Delivered);
    let last = last.max_by(|a, b| a.ended_s.total_cmp(&b.ended_s))?;
    let first = outcome.story.iter().find(|story| story.task == last.task)?;

    let clock_mhz = trace.hosts[last.host as usize].clock_mhz;
    let alone_s = START_COST_S + run.work_s * REFERENCE_MHZ / clock_mhz;
    let is_first = last.number == first.number;
    Some([
        least_s,
        first.began_s,
        last.began_s - first.began_s,
        alone_s,
        last.ended_s - last.began_s - alone_s,
        f64::from(u8::from(is_first)),
        f64::from(u8::from(!is_first && !last.replica)),
    ])
}
