//! Results for owners' absences as windows, with limits and without, on a simulated desktop grid:
//! the numbers, and their section of the report.

use scheduler::reservation::{BadLaw, NamedLaw};

use super::Study;
use crate::report::markdown::Markdown;
use simulator::absences::{Came, Case, OwnerKnowledge, Owners, run};
use simulator::experiment::requests::{RunMean, each_run};

const HOSTS: usize = 20;
const TASKS: u32 = 100;
/// The number of earlier runs of the program that schedulers know.
const KNOWN: u32 = 30;

/// Laws of run times, each with the seconds in its unit: most tasks take about two hours, or one.
const LAWS: [(&str, &str, f64); 3] = [
    ("TruncN, 2 h ± 30 min", "truncnorm:0,20,8,2", 900.0),
    ("Exp, 1 h, up to 16 h", "exponential:0,16,1", 3_600.0),
    ("Pareto, 30 min to 10 h", "pareto:1,20,2.1", 1_800.0),
];

const fn way(policy: &'static str, told: bool) -> OwnerKnowledge<'static> {
    OwnerKnowledge {
        policy,
        deadline: false,
        told,
    }
}

const fn promised(policy: &'static str, told: bool) -> OwnerKnowledge<'static> {
    OwnerKnowledge {
        deadline: true,
        ..way(policy, told)
    }
}

/// The policies for owners who come unasked. The first one is the reference.
const HABITS: [OwnerKnowledge<'static>; 8] = [
    way("PRI-CR", false),
    way("deskgrid", false),
    way("TOPTIMAL", false),
    way("WINDOWS", true),
    way("WINDOWS:limits=learned", true),
    promised("PROMISE", false),
    promised("PROMISE:limits=learned", false),
    promised("PROMISE:limits=learned:windows=yes", true),
];

/// The policies for owners who set hours.
const HOURS: [OwnerKnowledge<'static>; 9] = [
    way("PRI-CR", false),
    way("PRI-CR", true),
    way("deskgrid", false),
    way("deskgrid", true),
    way("WINDOWS", true),
    way("WINDOWS:limits=learned", true),
    promised("PROMISE", false),
    promised("PROMISE", true),
    promised("PROMISE:limits=learned:windows=yes", true),
];

/// The results of one policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct AbsentRow {
    way: OwnerKnowledge<'static>,
    /// The makespan divided by that of the first policy, run by run.
    makespan: RunMean,
    /// The part of the attempts' run time that brought no result.
    wasted: RunMean,
    /// The numbers of killed (`killed`) and given back attempts, per task.
    killed: f64,
    given_back: f64,
}

/// The results by behaviour of owners and law.
pub(super) type Absent = Vec<(Owners, &'static str, Vec<AbsentRow>)>;

pub(super) fn measure(study: &Study) -> Result<Absent, BadLaw> {
    let mut found = Vec::new();
    for (owners, ways) in [(Owners::Habits, &HABITS[..]), (Owners::Hours, &HOURS)] {
        for (name, law, unit_s) in LAWS {
            let law: NamedLaw = law.parse()?;
            let came = each_run(study.threads, study.runs, |number| {
                let case = Case {
                    owners,
                    hosts: HOSTS,
                    tasks: TASKS,
                    law: &law,
                    unit_s,
                    known: KNOWN,
                    seed: study.seed,
                    run: u32::try_from(number).unwrap_or(u32::MAX),
                };
                ways.iter()
                    .map(|way| run(&case, *way))
                    .collect::<Vec<Came>>()
            });
            found.push((owners, name, lines(ways, &came)));
        }
    }

    Ok(found)
}

fn lines(ways: &[OwnerKnowledge<'static>], came: &[Vec<Came>]) -> Vec<AbsentRow> {
    let one = |(at, way): (usize, &OwnerKnowledge<'static>)| {
        let of = |number: fn(&Came) -> f64| {
            came.iter().map(|run| number(&run[at])).sum::<f64>() / came.len() as f64
        };
        AbsentRow {
            way: *way,
            makespan: RunMean::of(
                came.iter()
                    .map(|run| run[at].makespan_s / run[0].makespan_s),
            ),
            wasted: RunMean::of(came.iter().map(|run| run[at].wasted_s / run[at].ran_s)),
            killed: of(|came| f64::from(came.killed)) / f64::from(TASKS),
            given_back: of(|came| f64::from(came.given_back)) / f64::from(TASKS),
        }
    };
    ways.iter().enumerate().map(one).collect()
}

/// Appends the section of the report.
pub(super) fn section(out: &mut String, found: &Absent) {
    out.line("## Owners' absences as windows\n");
    out.line(
        "A bag of 100 tasks on 20 hosts of different speeds, submitted at any time of a working day (in the second part, of a night); 30 earlier runs of its \
         program are known. An owner who comes back suspends what runs, and after fifteen minutes it is given back and begins \
         anew. By habit: half of the owners sit at a desk from nine to five, with breaks; a quarter come in the evening; a \
         quarter is in and out from eight to eight. By hours: tasks may run from the evening to the morning and on weekends. \
         `told`: the scheduler has four weeks of records of each host, and its hours where there are any. The rows that \
         promise have a deadline of three weeks. Makespans by that of the first row, run by run.\n",
    );

    for owners in [Owners::Habits, Owners::Hours] {
        out.line(if owners == Owners::Habits {
            "By habit:\n"
        } else {
            "\nBy hours that owners set:\n"
        });

        out.heading(&[
            "law",
            "policy",
            "told",
            "makespan",
            "in vain",
            "killed, by task",
            "given back, by task",
        ]);

        for (_, law, lines) in found.iter().filter(|(of, ..)| *of == owners) {
            for line in lines {
                let reach = line.wasted.half;
                let reach = reach.map(|half| format!(" ± {:.1}", 100.0 * half));
                let reach = reach.unwrap_or_default();
                out.row([
                    *law,
                    line.way.policy,
                    if line.way.told { "yes" } else { "no" },
                    &line.makespan.text(3),
                    &format!("{:.1} %{reach}", 100.0 * line.wasted.value),
                    &format!("{:.2}", line.killed),
                    &format!("{:.2}", line.given_back),
                ]);
            }
        }
    }

    out.line("");
}
