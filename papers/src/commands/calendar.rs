//! Executes `deskgrid-lab predict kill` and `predict calendar`: asks the rules of policing and the
//! calendar of deadlines. `simulate --scenario` shows the events that follow.

use std::path::Path;

use cli::terminal::{Exit, Failure, OutputForm, Rows};
use papers::scenario::{Scenario, answer, read};
use scheduler::policy::policing::Rule;
use serde::Serialize;
use serde_json::Value;

use crate::args::KillArgs;

/// The fields of a scenario's answer that hold the calendar's answer for the new bag.
const TOLD: [&str; 3] = ["starts", "finishes", "earliest_feasible_deadline"];

/// The answer of `deskgrid-lab predict kill`: the rules under which the attempt would be killed.
#[derive(Serialize)]
struct KillAnswer {
    est: f64,
    elapsed: f64,
    hard: bool,
    /// Whether the rule with a grace kills, with the grace `grace_part`.
    grace: bool,
    grace_part: f64,
    /// The probability of a kill under the probabilistic rule.
    prob: f64,
}

/// Prints the rules under which an attempt would be killed.
pub(super) fn kill(out: &OutputForm, args: &KillArgs) -> Result<Exit, Failure> {
    let KillArgs {
        est,
        elapsed,
        grace,
    } = *args;
    for (flag, value) in [("est", est), ("elapsed", elapsed), ("grace", grace)] {
        if !(value.is_finite() && value >= 0.0) {
            return Err(Failure::usage(
                format!("--{flag} {value} is no time"),
                "give a number that is not negative",
            ));
        }
    }

    let chance = |rule: Rule| rule.chance(est, elapsed);
    let answer = KillAnswer {
        est,
        elapsed,
        hard: chance(Rule::Hard) == 1.0,
        grace: chance(Rule::Grace(grace)) == 1.0,
        grace_part: grace,
        prob: chance(Rule::Probabilistic),
    };

    let word = |killed: bool| if killed { "killed" } else { "goes on" };
    let text = || {
        format!(
            "hard: {}\ngrace {grace}: {}\nprobabilistic: killed with {:.4}\n",
            word(answer.hard),
            word(answer.grace),
            answer.prob
        )
    };
    out.show(&answer, text, || vec![answer.prob.to_string()])?;

    Ok(Exit::Well)
}

/// The answers for a file of several entries.
#[derive(Serialize)]
struct Calendars {
    calendar: Vec<Value>,
}

/// Prints the times that the calendar gives to the tasks of a file's new bags.
pub(super) fn calendar(out: &OutputForm, path: &Path) -> Result<Exit, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::unreadable(
            format!("cannot read the calendar {}", path.display()),
            &error,
        )
    })?;

    let cannot = || format!("the calendar {} cannot be used", path.display());
    let hint = "docs/deadlines.md shows its form: now, hosts, running_start_est, waiting_est and new_est, in seconds";
    let found = read(&text).map_err(|why| Failure::usage(cannot(), hint).because(why))?;
    if let Some((kind, _)) = found
        .iter()
        .find(|(_, scenario)| !matches!(scenario, Scenario::Calendar(_)))
    {
        let hint = "deskgrid-lab simulate --scenario takes every kind";
        return Err(
            Failure::usage(cannot(), hint).because(format!("it holds an entry of `{kind}`"))
        );
    }

    let mut answers: Vec<Value> = found.iter().map(|(_, scenario)| answer(scenario)).collect();
    for answer in &mut answers {
        if let Value::Object(fields) = answer {
            fields.retain(|field, _| TOLD.contains(&field.as_str()));
        }
    }

    let text = || {
        answers
            .iter()
            .map(|answer| table(answer, out.color()))
            .collect::<Vec<_>>()
            .join("\n")
    };

    let ids = || {
        answers
            .iter()
            .map(|answer| answer["earliest_feasible_deadline"].to_string())
            .collect()
    };
    match &answers[..] {
        [only] => out.show(only, text, ids)?,
        _ => out.show(
            &Calendars {
                calendar: answers.clone(),
            },
            text,
            ids,
        )?,
    }

    Ok(Exit::Well)
}

fn table(answer: &Value, color: bool) -> String {
    let numbers = |field: &str| answer[field].as_array().cloned().unwrap_or_default();
    let mut rows = Rows::new(&["TASK", "START", "FINISH"], color);
    for (task, (start, finish)) in numbers("starts")
        .iter()
        .zip(numbers("finishes"))
        .enumerate()
    {
        rows.add([
            (task + 1).to_string(),
            start.to_string(),
            finish.to_string(),
        ]);
    }

    let earliest = &answer["earliest_feasible_deadline"];
    format!(
        "{}earliest deadline that could be promised: {earliest}\n",
        rows.text("no tasks\n")
    )
}
