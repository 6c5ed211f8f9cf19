//! What copies bring: the 36 cells of Kondo et al. 2004 under `deskgrid` and variants of it, on the
//! days that parameters are chosen on.
//!
//! Run with `cargo bench -p simulator --bench frontier`; `-- deskgrid:copies_max=100` for these
//! policies, `-- kept` where tasks keep their state, `-- cells` for each cell, `-- day=101 days=8`
//! for other days, `-- model=quiet` for another availability, `-- sdsc` for these platforms.

use common::units::REFERENCE_MHZ;
use simulator::experiment::{
    Contender, Day, Generated, HOSTS, KONDO_JOBS, Knowledge, PolicyGrid, Site, TRAINING_DAYS,
    summarize,
};
use simulator::oracle::Oracle;
use simulator::world::{AttemptFate, PreparedTrace, Run, Simulator};

const SEED: u64 = 1;
/// The first of the days on which parameters are chosen, their number, and the starts on each.
const FIRST_DAY: u32 = 20;
const DAYS: usize = 12;
const PER_DAY: usize = 2;
const PLATFORMS: [&str; 4] = ["sdsc", "gimps", "lri-wisc", "homogeneous"];

fn main() {
    // `cargo test --benches` runs this too: it should only be seen to work then.
    let whole = std::env::args().any(|arg| arg == "--bench");
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let named = |name: &str| {
        let value = asked.iter().find_map(|arg| arg.strip_prefix(name));
        value.map(str::to_owned)
    };
    let number = |name: &str, usual: usize| {
        named(name).map_or(usual, |value| value.parse().expect("a number"))
    };
    let model = named("model=").unwrap_or_else(|| "default".to_owned());
    let kept = asked.iter().any(|arg| arg == "kept");
    let first = number("day=", FIRST_DAY as usize) as u32;
    let days = if whole { number("days=", DAYS) } else { 1 };
    let per_day = if whole { number("starts=", PER_DAY) } else { 1 };
    let training = if whole { TRAINING_DAYS } else { 1 };

    let mut policies: Vec<&String> = asked
        .iter()
        .filter(|arg| arg.starts_with("deskgrid") || arg.starts_with("EXCL"))
        .collect();
    let usual = "deskgrid".to_owned();
    if policies.is_empty() {
        policies.push(&usual);
    }
    let contenders: Vec<Contender> = policies
        .iter()
        .map(|policy| Contender {
            checkpoint: kept,
            ..Contender::named(policy)
        })
        .collect();
    let mut platforms: Vec<&str> = PLATFORMS.to_vec();
    let some: Vec<&str> = platforms
        .iter()
        .copied()
        .filter(|name| asked.iter().any(|arg| arg == name))
        .collect();
    if !some.is_empty() {
        platforms = some;
    }

    let sources: Vec<Generated> = platforms
        .iter()
        .map(|platform| Generated::named(platform, &model, SEED, HOSTS).expect("it is known"))
        .collect();
    let known: Vec<Knowledge> = sources
        .iter()
        .map(|source| {
            let known = source.knowledge(training, &KONDO_JOBS, &contenders, 1);
            known.expect("days")
        })
        .collect();
    let parts = platforms.iter().zip(sources.iter().zip(&known));
    let grid = PolicyGrid {
        sites: parts
            .map(|(platform, (source, knowledge))| Site {
                platform: String::from(*platform),
                model: model.clone(),
                source,
                knowledge: Some(knowledge),
            })
            .collect(),
        jobs: KONDO_JOBS.to_vec(),
        contenders,
        days: Day::spread(SEED, first, days * per_day, per_day),
        needs: None,
        foretell: false,
        seed: SEED,
        threads: 1,
    };

    if asked.iter().any(|arg| arg == "losses") {
        return losses(&grid);
    }
    let rows = grid.rows().expect("policies of the catalogue");
    let (cells, summaries) = summarize(&grid, &rows);
    if asked.iter().any(|arg| arg == "cells") {
        for cell in &cells {
            let job = grid.jobs[cell.job];
            println!(
                "{:<12} {:>4} x {:>4.0} s {:<26} {:.3} copies {:.3} waste {:.3} optimum {:.0} s",
                grid.sites[cell.site].platform,
                job.tasks,
                job.work_s,
                grid.contenders[cell.contender].label,
                cell.ratio.value,
                cell.replicas,
                cell.cpu_waste,
                cell.optimal_s
            );
        }
    }
    for summary in &summaries {
        let site = summary
            .site
            .map_or("all", |site| &grid.sites[site].platform);
        if summary.site.is_some() && !asked.iter().any(|arg| arg == "sites" || arg == "cells") {
            continue;
        }
        println!(
            "{site:<12} {:<26} geo {:.4} worst {:.3} copies {:.4} most {:.4} waste {:.3} unfinished {}",
            grid.contenders[summary.contender].label,
            summary.geo.value,
            summary.worst,
            summary.mean_replicas,
            summary.max_replicas,
            summary.cpu_waste,
            summary.unfinished
        );
    }
}

/// Prints for each cell what the job's last task did until it was done, in parts of the optimum: it
/// waited, its first attempts came to nothing, and the one that delivered it ran, of which a part was
/// disturbance; and how many of the last tasks came from their first attempt, from one after a loss,
/// and from a copy.
fn losses(grid: &PolicyGrid<'_>) {
    for site in &grid.sites {
        for job in &grid.jobs {
            for who in &grid.contenders {
                let mut sum = [0.0; 8];
                for day in &grid.days {
                    let trace = site.source.day(day.day).expect("a day");
                    let world = PreparedTrace::new(&trace);
                    for start_s in &day.starts_s {
                        let least_s = Oracle::new(&trace, *start_s, job.work_s, 40.0, 1)
                            .makespan_s(job.tasks);
                        let run = Run {
                            watch: true,
                            story: true,
                            checkpoint: who.checkpoint,
                            experience: site.knowledge.map(|known| known.of(who)),
                            shuffle: Some(SEED),
                            ..Run::new(*start_s, job.tasks, job.work_s, &who.policy)
                        };
                        let outcome = Simulator::default().run(&world, &run).expect("a policy");
                        let delivered = outcome
                            .story
                            .iter()
                            .filter(|story| story.fate == AttemptFate::Delivered);
                        let Some(last) = delivered.max_by(|a, b| a.ended_s.total_cmp(&b.ended_s))
                        else {
                            continue;
                        };
                        let of_task: Vec<_> = outcome
                            .story
                            .iter()
                            .filter(|story| story.task == last.task)
                            .collect();
                        let first = of_task[0];
                        let least_s = least_s.expect("an optimum");
                        let alone_s = 40.0
                            + job.work_s * REFERENCE_MHZ
                                / trace.hosts[last.host as usize].clock_mhz;
                        sum[0] += least_s;
                        sum[1] += first.began_s;
                        sum[2] += last.began_s - first.began_s;
                        sum[3] += alone_s;
                        sum[4] += last.ended_s - last.began_s - alone_s;
                        sum[5] += f64::from(u8::from(last.number == first.number));
                        sum[6] += f64::from(u8::from(last.number != first.number && !last.replica));
                        sum[7] += world.ready_hosts(*start_s) as f64;
                    }
                }
                let runs: f64 = grid.days.iter().map(|day| day.starts_s.len() as f64).sum();
                println!(
                    "{:<12} {:>4} x {:>4.0} s {:<24} waited {:.2} failed {:.2} ran {:.2} disturbed {:.2}; first {:.2} again {:.2}; ready {:.0}",
                    site.platform,
                    job.tasks,
                    job.work_s,
                    who.label,
                    sum[1] / sum[0],
                    sum[2] / sum[0],
                    sum[3] / sum[0],
                    sum[4] / sum[0],
                    sum[5] / runs,
                    sum[6] / runs,
                    sum[7] / runs
                );
            }
        }
    }
}
