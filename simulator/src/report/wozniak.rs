//! Wozniak, Jiang and Striegel, "Effects of Low-Quality Computation Time Estimates in Policed
//! Schedulers", again: bags with deadlines whose users estimate badly, enforced in every way of the
//! paper, and ours beside them. What is not here: the simulation.

mod claims;
pub mod devices;
mod figures;
mod table;
mod text;
pub mod trial;

use devices::Device;
use table::{Cell, Table};
use trial::{Pressure, Trial, Users};

use super::figure::Figure;
use super::kondo::File;
use super::svg::draw;
use crate::experiment::in_parallel;

/// How thorough a report is.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// Of everything that is random.
    pub seed: u64,
    /// On how many threads; the report is the same on any number.
    pub threads: usize,
    /// Tests of each setting; the paper has 10.
    pub repetitions: u32,
    /// Bags in each test.
    pub bags: usize,
    /// Qualities of estimates, ascending; 0 and 0.5 among them.
    pub qoes: Vec<f64>,
}

impl Study {
    /// As many tests as the paper has.
    pub fn full(seed: u64, threads: usize) -> Self {
        let qoes = (0..10).map(|tenth| f64::from(tenth) / 10.0).collect();
        Study {
            seed,
            threads,
            repetitions: 10,
            bags: 200,
            qoes,
        }
    }

    /// A first look.
    pub fn quick(seed: u64, threads: usize) -> Self {
        Study {
            repetitions: 3,
            bags: 60,
            qoes: vec![0.0, 0.1, 0.3, 0.5, 0.7, 0.8],
            ..Study::full(seed, threads)
        }
    }
}

/// Numbers of hosts.
const HOSTS: [usize; 3] = [8, 32, 128];
/// The number of hosts where only one is looked at.
const MIDDLE: usize = 32;
/// Grace periods.
const GRACES: [&str; 4] = ["0.1", "0.25", "0.5", "1"];
const NONE: &str = "CALENDAR";
const HARD: &str = "CALENDAR-HARD";
const PROBABILISTIC: &str = "CALENDAR-PROB";
/// Ours. Its hosts are never disturbed, and it is told so.
const OURS: &str = "PROMISE:inflated=no";
/// Ours, where nothing but the correction of estimates is different from the paper's.
const CORRECTED: &str = "CALENDAR:calibrated=yes";
/// Ours, with attempts killed where a bag would be refused otherwise.
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

/// Makes the report's files. `say` hears what is done next.
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

    let table = Table {
        cells,
        qoes: study.qoes.clone(),
    };
    say("figures");

    let drawn = figures::figures(&table);
    let mut files = vec![
        File {
            name: "report.md".into(),
            text: text::report(study, &table, &drawn),
        },
        File {
            name: "points.csv".into(),
            text: table.csv(),
        },
    ];
    files.extend(drawn.iter().flat_map(both));

    files
}

/// A figure's picture and its numbers.
fn both(figure: &Figure) -> [File; 2] {
    let file = |ending, text| File {
        name: format!("{}.{ending}", figure.name),
        text,
    };
    [file("svg", draw(figure)), file("csv", figure.csv())]
}
