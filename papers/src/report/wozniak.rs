//! Reproduces Wozniak, Jiang and Striegel, "Effects of Low-Quality Computation Time Estimates in
//! Policed Schedulers": bags with deadlines whose users estimate badly, under every way of
//! enforcement in the paper, and this project's policies beside them. The simulation lives in
//! `bags`.

mod claims;
pub mod devices;
mod figures;
mod table;
mod text;
pub mod trial;

use devices::Device;
use table::{Cell, TrialTable};
use trial::{Pressure, Trial, Users};

use super::{Brief, File};
use simulator::experiment::in_parallel;

/// The size of a report: [`Study::full`] or [`Study::quick`].
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// The seed of everything random.
    pub seed: u64,
    /// The number of threads; the report is the same on any number.
    pub threads: usize,
    /// The number of tests of each setting; the paper has 10.
    pub repetitions: u32,
    /// The number of bags in each test.
    pub bags: usize,
    /// The qualities of estimates, ascending; must include 0 and 0.5.
    pub qoes: Vec<f64>,
    /// Whether the report is shortened.
    pub quick: bool,
}

impl Study {
    /// Returns the study of this size.
    pub fn of(brief: &Brief) -> Self {
        let study = brief.study(Study::quick, Study::full);
        Study {
            repetitions: brief.runs.unwrap_or(study.repetitions),
            ..study
        }
    }

    /// The full report, with as many tests as the paper.
    pub fn full(seed: u64, threads: usize) -> Self {
        let qoes = (0..10).map(|tenth| f64::from(tenth) / 10.0).collect();
        Study {
            seed,
            threads,
            repetitions: 10,
            bags: 200,
            qoes,
            quick: false,
        }
    }

    /// A shortened report.
    pub fn quick(seed: u64, threads: usize) -> Self {
        Study {
            repetitions: 3,
            bags: 60,
            qoes: vec![0.0, 0.1, 0.3, 0.5, 0.7, 0.8],
            quick: true,
            ..Study::full(seed, threads)
        }
    }
}

/// The numbers of hosts.
const HOSTS: [usize; 3] = [8, 32, 128];
/// The number of hosts in comparisons that use only one.
const MIDDLE: usize = 32;
/// The grace periods.
const GRACES: [&str; 4] = ["0.1", "0.25", "0.5", "1"];
const NONE: &str = "CALENDAR";
const HARD: &str = "CALENDAR-HARD";
const PROBABILISTIC: &str = "CALENDAR-PROB";
/// This project's policy. It is told that its hosts are never disturbed.
const OURS: &str = "PROMISE:inflated=no";
/// This project's policy reduced to the correction of estimates: everything else is as in the
/// paper.
const CORRECTED: &str = "CALENDAR:calibrated=yes";
/// This project's policy with policing: kills attempts if a bag would be refused otherwise.
const OURS_POLICED: &str = "PROMISE:inflated=no:policing=probabilistic";
const NEEDED: &str = "CALENDAR-HARD:when=needed";

fn grace(part: &str) -> String {
    format!("CALENDAR-GRACE:policing=grace{part}")
}

/// Every trial that the report needs, each once.
fn trials(study: &Study) -> Vec<Trial> {
    let mut all = Vec::new();
    for qoe in study.qoes.iter().copied() {
        for device in [Device::Poly, Device::Ns] {
            for (hosts, policy) in HOSTS
                .iter()
                .flat_map(|hosts| [NONE, HARD].map(|policy| (*hosts, policy)))
            {
                all.push(Trial::usual(device, hosts, qoe, policy));
            }

            let middle = |policy: &str| Trial::usual(device, MIDDLE, qoe, policy);
            all.push(middle(OURS));
            for policy in [NONE, CORRECTED, OURS, OURS_POLICED] {
                all.push(Trial {
                    pressure: Pressure::Tight,
                    ..middle(policy)
                });
            }
        }

        all.extend(
            GRACES
                .iter()
                .map(|part| Trial::usual(Device::Poly, MIDDLE, qoe, &grace(part))),
        );
        all.extend(
            HOSTS
                .iter()
                .map(|hosts| Trial::usual(Device::Ns, *hosts, qoe, PROBABILISTIC)),
        );
        all.push(Trial::usual(Device::Ns, MIDDLE, qoe, NEEDED));

        for policy in [NONE, PROBABILISTIC, &grace("0.5"), OURS] {
            all.push(Trial {
                users: Users::Both,
                ..Trial::usual(Device::Ns, MIDDLE, qoe, policy)
            });
        }

        for policy in [NONE, OURS] {
            let trial = Trial::usual(Device::Ns, MIDDLE, qoe, policy);
            all.push(Trial {
                users: Users::Both,
                pressure: Pressure::Tight,
                ..trial
            });
        }
    }

    all
}

/// Makes the report's files. `say` hears the name of each step.
pub fn reproduce(study: &Study, say: &mut dyn FnMut(&str)) -> Vec<File> {
    say("bags with deadlines");
    let trials = trials(study);
    let jobs: Vec<(usize, u32)> = (0..trials.len())
        .flat_map(|trial| (0..study.repetitions).map(move |number| (trial, number)))
        .collect();
    let results = in_parallel(study.threads, &jobs, |(trial, number)| {
        trials[*trial].run(study.seed, *number, study.bags)
    });
    let mut cells: Vec<Cell> = trials.into_iter().map(Cell::new).collect();
    for ((trial, _), groups) in jobs.iter().zip(results) {
        cells[*trial].runs.push(groups);
    }

    let table = TrialTable {
        cells,
        qoes: study.qoes.clone(),
    };
    say("figures");

    let drawn = figures::figures(&table);
    let mut files = vec![
        File::new("report.md", text::report(study, &table, &drawn)),
        File::new("points.csv", table.csv()),
    ];
    files.extend(super::drawn(&drawn));

    files
}
