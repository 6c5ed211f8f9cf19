//! The report on lying hosts: the escaped results and the cost of each scheme, as Markdown and as
//! CSV.

use std::fmt::Write;

use super::{Crowd, JobSeries, Lie, Outcomes, Scheme, run};
use crate::report::{Brief, File};

/// The size of a report: [`Study::full`] or [`Study::quick`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Study {
    /// The seed of everything random.
    pub seed: u64,
    /// The number of crowds of each kind.
    pub crowds: u32,
    /// The number of hosts of each crowd.
    pub hosts: u32,
    /// The jobs that each crowd computes.
    pub load: JobSeries,
}

impl Study {
    /// Returns the study of this size.
    pub fn of(brief: &Brief) -> Self {
        let study = if brief.quick {
            Study::quick(brief.seed)
        } else {
            Study::full(brief.seed)
        };
        Study {
            crowds: brief.runs.unwrap_or(study.crowds),
            ..study
        }
    }

    /// The full report.
    pub fn full(seed: u64) -> Self {
        Self {
            seed,
            crowds: 5,
            hosts: 200,
            load: JobSeries {
                jobs: 20,
                tasks: 1_000,
            },
        }
    }

    /// A smaller report that takes a few seconds.
    pub fn quick(seed: u64) -> Self {
        Self {
            seed,
            crowds: 2,
            hosts: 100,
            load: JobSeries {
                jobs: 8,
                tasks: 400,
            },
        }
    }
}

/// The schemes that are compared; the first one is the reference.
const SCHEMES: [Scheme; 4] = [
    Scheme {
        name: "the first result",
        size: 1,
        adaptive: false,
    },
    Scheme {
        name: "--quorum 2",
        size: 2,
        adaptive: false,
    },
    Scheme {
        name: "--quorum 3",
        size: 3,
        adaptive: false,
    },
    Scheme {
        name: "--quorum 2 --adaptive",
        size: 2,
        adaptive: true,
    },
];

/// The crowds: the part of the hosts that lies, the way they lie, and the label in the table.
const CROWDS: [(f64, Lie, &str); 11] = [
    (0.0, Lie::Always, "nobody lies"),
    (0.01, Lie::Now, "1 %, one result in ten, each its own"),
    (0.01, Lie::Always, "1 %, always, each its own"),
    (0.10, Lie::Now, "10 %, one result in ten, each its own"),
    (0.10, Lie::Always, "10 %, always, each its own"),
    (0.10, Lie::OnceTrusted, "10 %, once trusted, each its own"),
    (0.01, Lie::InConcert, "1 % in concert, the same task in ten"),
    (
        0.10,
        Lie::InConcert,
        "10 % in concert, the same task in ten",
    ),
    (0.01, Lie::AlwaysInConcert, "1 % in concert, always"),
    (0.10, Lie::AlwaysInConcert, "10 % in concert, always"),
    (
        0.10,
        Lie::OneOwner,
        "10 % in concert, the same task in ten, all of one owner",
    ),
];

/// The outcomes of a crowd under a scheme.
struct CrowdRow {
    crowd: &'static str,
    scheme: Scheme,
    outcomes: Outcomes,
}

/// Runs all crowds under all schemes and returns the report's files; `talk` hears each crowd's
/// label.
pub fn report(study: &Study, talk: &mut dyn FnMut(&str)) -> Vec<File> {
    let mut rows = Vec::new();
    for (part, lie, crowd) in CROWDS {
        talk(crowd);
        for scheme in SCHEMES {
            let mut outcomes = Outcomes::default();
            for n in 0..study.crowds {
                let seed = study.seed.wrapping_mul(1_000).wrapping_add(u64::from(n));
                outcomes.add(&run(
                    &Crowd::new(study.hosts, part, lie, seed),
                    scheme,
                    study.load,
                ));
            }

            rows.push(CrowdRow {
                crowd,
                scheme,
                outcomes,
            });
        }
    }

    vec![
        File::new("report.md", text(study, &rows)),
        File::new("liars.csv", csv(&rows)),
    ]
}

fn text(study: &Study, rows: &[CrowdRow]) -> String {
    let Study {
        seed,
        crowds,
        hosts,
        load,
    } = *study;

    let mut text = format!(
        "# Hosts that lie\n\n\
         Made by `deskgrid-lab reproduce liars` with seed {seed}: the scheduler that runs live gives {jobs} jobs of {tasks} tasks,\n\
         one after the other, to {hosts} hosts of speeds between a half and twice the reference host, {crowds} crowds of each\n\
         kind. A result *escapes* if it is wrong and counts. *Extra work* is attempts beyond one for each task; *longer*\n\
         is how much longer all jobs take than where the first result counts. Hosts earn belief over all jobs; liars \"once\n\
         trusted\" are honest until their results are believed alone.\n\n\
         | liars | believed | escaped | of 1,000,000 | caught | failed | extra work | longer |\n\
         |---|---|--:|--:|--:|--:|--:|--:|\n",
        jobs = load.jobs,
        tasks = load.tasks,
    );

    let mut first_s = 0.0;
    for CrowdRow {
        crowd,
        scheme,
        outcomes,
    } in rows
    {
        if scheme.size == 1 {
            first_s = outcomes.makespan_s;
        }

        let _ = writeln!(
            text,
            "| {crowd} | {} | {} | {:.0} | {} | {} | {:.1} % | {:.1} % |",
            scheme.name,
            outcomes.wrong,
            1e6 * outcomes.escape_rate(),
            outcomes.caught,
            outcomes.failed,
            100.0 * outcomes.extra_work(),
            100.0 * (outcomes.makespan_s / first_s - 1.0),
        );
    }

    text + READING
}

const READING: &str = "
Liars that do not agree with each other escape no quorum: two wrong results that differ confirm nothing. Liars in concert
escape when chance gives a task to as many of them as must agree, which is why owners matter: hosts of one owner never
confirm each other, so that many hosts in one hand are worth one vote. Adaptive belief costs less and lets through what a
host says after it has earned belief and before an audit finds it out; what it was believed in the same job is then
looked at again, what it was believed in jobs before is not.
";

fn csv(rows: &[CrowdRow]) -> String {
    let mut text =
        "liars,quorum,adaptive,finished,wrong,failed,caught,attempts,escape_rate,extra_work,makespan_s\n".to_owned();
    for CrowdRow {
        crowd,
        scheme,
        outcomes,
    } in rows
    {
        let Outcomes {
            finished,
            wrong,
            failed,
            attempts,
            caught,
            makespan_s,
        } = *outcomes;

        let escape = outcomes.escape_rate();
        let extra = outcomes.extra_work();
        let _ = writeln!(
            text,
            "\"{crowd}\",{},{},{finished},{wrong},{failed},{caught},{attempts},{escape},{extra},{makespan_s}",
            scheme.size, scheme.adaptive
        );
    }

    text
}
