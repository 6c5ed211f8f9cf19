//! Executes `deskgrid-lab simulate --scenario`: replays scripted scenarios. Their format and the
//! simulation live in `simulator`.

use std::collections::BTreeMap;
use std::path::Path;

use cli::terminal::{Exit, Failure, OutputForm};
use papers::scenario::{answer, read};
use serde_json::Value;

/// Replays the scenarios of a file. Several are answered by kind, and a single one with its own
/// fields.
pub(super) fn run(out: &OutputForm, path: &Path) -> Result<Exit, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::unreadable(
            format!("cannot read the scenario {}", path.display()),
            &error,
        )
    })?;
    let scenarios = read(&text).map_err(|why| {
        let hint = "docs/deadlines.md, docs/batchactive.md and docs/foresight.md show the forms of scenarios";
        Failure::usage(format!("the scenario {} cannot be used", path.display()), hint).because(why)
    })?;
    let answers: Vec<_> = scenarios
        .iter()
        .map(|(kind, scenario)| (*kind, answer(scenario)))
        .collect();
    let text = answers
        .iter()
        .map(|(_, answer)| words(answer))
        .collect::<Vec<_>>()
        .join("\n");
    let lines = || text.lines().map(str::to_owned).collect();

    if let [(_, only)] = &answers[..] {
        out.show(only, || text.clone(), lines)?;
        return Ok(Exit::Well);
    }

    let mut by_kind: BTreeMap<&'static str, Vec<Value>> = BTreeMap::new();
    for (kind, answer) in answers {
        by_kind.entry(kind).or_default().push(answer);
    }

    out.show(&by_kind, || text.clone(), lines)?;
    Ok(Exit::Well)
}

/// Formats the trace line by line, then each other field on a line of its own.
fn words(answer: &Value) -> String {
    let mut out: Vec<String> = Vec::new();
    for entry in answer["trace"].as_array().into_iter().flatten() {
        let fields: Vec<String> = entry.as_array().into_iter().flatten().map(word).collect();
        out.push(fields.join(" "));
    }

    for (field, value) in answer
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(field, _)| *field != "trace")
    {
        match value {
            Value::Object(fields) => out.extend(
                fields
                    .iter()
                    .map(|(name, value)| format!("{name}: {}", word(value))),
            ),
            value => out.push(format!("{field}: {}", word(value))),
        }
    }

    out.join("\n")
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
