//! Executes `deskgrid predict`: computes sequences of limits for a distribution of run times or for
//! observed runs; waits for hosts are in `wait`. The dynamic programmes live in
//! `scheduler::reservation`.

mod accuracy;
mod wait;

use std::path::Path;

use scheduler::reservation::{LearnedLaw, ObservedRun, RunTimeGrid, RunTimes, Sequence, optimal};
use serde::Serialize;

use super::Context;
use crate::args::predict::{LimitsArgs, PredictCommand};
use crate::failure::{Exit, Failure};
use crate::output::table::Rows;

/// The default numbers of grid points: without small work, and with.
const POINTS: u32 = 200;
const ADAPTIVE_POINTS: u32 = 46;
/// The most points with small work: the cost of the dynamic programme grows with their fifth power.
const MOST_ADAPTIVE: u32 = 500;

#[derive(Serialize)]
struct PredictAnswer {
    /// The distribution of run times; `null` where observed runs are given.
    dist: Option<String>,
    runs: Option<RunsJson>,
    n: u32,
    zeta: f64,
    from: f64,
    to: f64,
    mean: f64,
    #[serde(flatten)]
    sequence: SequenceJson,
    /// The sequence for the next runs, fitted to the observed ones instead of taking them as they
    /// are.
    #[serde(skip_serializing_if = "Option::is_none")]
    learned: Option<SequenceJson>,
}

#[derive(Serialize)]
struct RunsJson {
    file: String,
    count: usize,
    killed: usize,
}

#[derive(Serialize)]
struct SequenceJson {
    algorithm: &'static str,
    /// The limits, and their indices among the points.
    sequence: Vec<f64>,
    indices: Vec<usize>,
    /// The probability that a task is done by the attempt with this limit or an earlier one.
    done: Vec<f64>,
    /// The first entry of `done`.
    p_first: f64,
    expected_cost: f64,
}

impl SequenceJson {
    fn of(sequence: Sequence, zeta: f64) -> Self {
        let algorithm = if zeta > 0.0 { "ATOptimal" } else { "TOptimal" };
        let Sequence {
            cost,
            points,
            limits,
            done,
        } = sequence;

        let p_first = done.first().copied().unwrap_or(0.0);
        SequenceJson {
            algorithm,
            sequence: limits,
            indices: points,
            done,
            p_first,
            expected_cost: cost,
        }
    }
}

/// Executes one kind of `deskgrid predict`.
pub(super) async fn run(context: &Context, command: &PredictCommand) -> Result<Exit, Failure> {
    match command {
        PredictCommand::Limits(args) => limits(context, args),
        PredictCommand::Accuracy(args) => accuracy::run(context, args).await,
        PredictCommand::Wait(args) => wait::wait(context, args).await,
    }
}

fn limits(context: &Context, args: &LimitsArgs) -> Result<Exit, Failure> {
    let n = points(args)?;
    let answer = match (&args.dist, &args.runs) {
        (Some(law), _) => of_law(law, law.to_string(), n, args.zeta),
        (None, Some(file)) => of_runs(file, n, args.zeta)?,
        (None, None) => {
            return Err(Failure::usage(
                "nothing to go by",
                "give a law with --dist, or a file with --runs",
            ));
        }
    };

    let text = || text(&answer, context.out.color());
    let limits = &answer.sequence.sequence;
    let ids = || limits.iter().map(f64::to_string).collect();
    context.show(&answer, text, ids)
}

fn points(args: &LimitsArgs) -> Result<u32, Failure> {
    let zeta = args.zeta;
    if !(0.0..1.0).contains(&zeta) {
        let what = format!("--zeta {zeta} is no rate of small work by processor");
        return Err(Failure::usage(
            what,
            "give a number from 0 to below 1: at 1 the processors never catch up",
        ));
    }

    let n = args
        .n
        .unwrap_or(if zeta > 0.0 { ADAPTIVE_POINTS } else { POINTS });
    if zeta > 0.0 && n > MOST_ADAPTIVE {
        let what = format!("--n {n} is too many points with small work");
        return Err(Failure::usage(
            what,
            format!("give at most {MOST_ADAPTIVE}; few more than 46 change nothing"),
        ));
    }

    Ok(n)
}

fn of_law(law: &impl RunTimes, dist: String, n: u32, zeta: f64) -> PredictAnswer {
    let (from, to) = law.support();
    let sequence = SequenceJson::of(optimal(&RunTimeGrid::of(law, n as usize), zeta), zeta);
    PredictAnswer {
        dist: Some(dist),
        runs: None,
        n,
        zeta,
        from,
        to,
        mean: law.mean(),
        sequence,
        learned: None,
    }
}

fn of_runs(file: &Path, n: u32, zeta: f64) -> Result<PredictAnswer, Failure> {
    let runs = read(file)?;
    let nothing = || {
        let what = format!("{} tells of no run that took any time", file.display());
        Failure::usage(
            what,
            "a line for each run: how long it took, with a + if it was killed then",
        )
    };
    let seen = LearnedLaw::observed(&runs).ok_or_else(nothing)?;
    let next = LearnedLaw::expected(&runs).ok_or_else(nothing)?;
    let learned = SequenceJson::of(optimal(&RunTimeGrid::of(&next, n as usize), zeta), zeta);
    let killed = runs.iter().filter(|run| !run.done).count();
    let told = RunsJson {
        file: file.display().to_string(),
        count: runs.len(),
        killed,
    };

    Ok(PredictAnswer {
        dist: None,
        runs: Some(told),
        learned: Some(learned),
        ..of_law(&seen, String::new(), n, zeta)
    })
}

/// Reads the observed runs from a file.
fn read(file: &Path) -> Result<Vec<ObservedRun>, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::unreadable(format!("cannot read {}", file.display()), &error))?;
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    let told = lines.enumerate().filter(|(_, line)| !line.is_empty());

    told.map(|(number, line)| {
        run_of(line).ok_or_else(|| {
            let what = format!("{}, line {}: `{line}` is no run time", file.display(), number + 1);
            Failure::usage(what, "a line has one number, not negative, with a + behind it if the run was killed then")
        })
    })
    .collect()
}

fn run_of(line: &str) -> Option<ObservedRun> {
    let (time, done) = line
        .strip_suffix('+')
        .map_or((line, true), |time| (time.trim_end(), false));
    let time = time
        .parse::<f64>()
        .ok()
        .filter(|time| time.is_finite() && *time >= 0.0)?;
    Some(ObservedRun { time, done })
}

fn text(answer: &PredictAnswer, color: bool) -> String {
    let mut out = one(&answer.sequence, color);
    if let Some(learned) = &answer.learned {
        out = format!(
            "Of the runs that were seen:\n{out}\nFor the next ones, which may differ:\n{}",
            one(learned, color)
        );
    }
    out
}

fn one(sequence: &SequenceJson, color: bool) -> String {
    let mut rows = Rows::new(&["ATTEMPT", "LIMIT", "DONE BY THEN"], color);
    for (number, (limit, done)) in sequence.sequence.iter().zip(&sequence.done).enumerate() {
        rows.add([
            (number + 1).to_string(),
            format!("{limit:.4}"),
            format!("{:.2} %", 100.0 * done),
        ]);
    }

    format!(
        "{}{}: expected cost {:.6}\n",
        rows.text("no limits"),
        sequence.algorithm,
        sequence.expected_cost
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_a_time_and_perhaps_a_plus() {
        assert_eq!(run_of("12.5"), Some(ObservedRun::done(12.5)));
        assert_eq!(run_of("12.5 +"), Some(ObservedRun::cut(12.5)));
        for wrong in ["", "+", "-1", "x", "inf", "1 2", "1++"] {
            assert_eq!(run_of(wrong), None, "{wrong}");
        }
    }
}
