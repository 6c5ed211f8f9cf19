//! Reads lists of items, each of which becomes one task.

use std::io::Read;
use std::path::Path;

use common::Span;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::BuildError;
use crate::args::submit::JobArgs;
use crate::args::value::{Dur, EstimatesArg};
use crate::files::unmarked;

/// Reads one item per line; empty lines are skipped. `-` is standard input.
pub(super) fn lines(path: &Path) -> Result<Vec<String>, BuildError> {
    let bytes = read(path, "the list of items")?;
    let mut items = Vec::new();
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let not_text = |_| BuildError::NotText {
            path: path.to_owned(),
            line: number + 1,
        };
        let line = std::str::from_utf8(line).map_err(not_text)?;
        if !line.is_empty() {
            items.push(line.to_owned());
        }
    }

    at_least_one(items, path)
}

/// Reads the values of a JSON array, or of JSON Lines (strings as they are, anything else as it was
/// written, without blanks), and the `estimate` of each, if it has one.
pub(super) fn json(path: &Path) -> Result<(Vec<String>, Vec<Option<Span>>), BuildError> {
    let bytes = read(path, "the list of items")?;
    let bad = |error: serde_json::Error| BuildError::Json {
        path: path.to_owned(),
        why: error.to_string(),
    };
    let values = values(&bytes).map_err(bad)?;

    let mut items = Vec::new();
    let mut estimates = Vec::new();
    for (number, value) in (1..).zip(values) {
        let text = value.get();
        // Numbers are not read: their digits may be more than a float has.
        let read = || serde_json::from_str::<ItemEstimate>(text);
        let said = text.starts_with('{').then(read).transpose();
        let said = said.map_err(bad)?.and_then(|item| item.estimate);
        estimates.push(said.map(|said| estimate(&said, number)).transpose()?);
        items.push(match text.starts_with('"') {
            true => serde_json::from_str(text).map_err(bad)?,
            false => without_blanks(text),
        });
    }

    Ok((at_least_one(items, path)?, estimates))
}

/// The part of an item that is read: its own estimate.
#[derive(Deserialize)]
struct ItemEstimate {
    estimate: Option<Value>,
}

/// Returns JSON without the blanks between its parts.
fn without_blanks(json: &str) -> String {
    let mut quoted = false;
    let mut escaped = false;

    let mut kept = |c: &char| {
        let is_quote = *c == '"' && !escaped;
        escaped = quoted && *c == '\\' && !escaped;
        quoted ^= is_quote;
        quoted || !c.is_ascii_whitespace()
    };
    json.chars().filter(|c| kept(c)).collect()
}

/// Returns the values of the one array that `bytes` are, or else all values in them, one after the
/// other.
fn values(bytes: &[u8]) -> serde_json::Result<Vec<&RawValue>> {
    let values = serde_json::Deserializer::from_slice(bytes).into_iter();
    let values = values.collect::<serde_json::Result<Vec<&RawValue>>>()?;
    match &values[..] {
        [all] if all.get().starts_with('[') => serde_json::from_str(all.get()),
        _ => Ok(values),
    }
}

/// The longest run time that may be estimated, in seconds.
const LONGEST_S: f64 = 1e9;

/// Reads the estimate of an item: a duration, or a number of seconds.
fn estimate(said: &Value, item: usize) -> Result<Span, BuildError> {
    let read = match said {
        Value::Number(s) => s
            .as_f64()
            .filter(|s| (0.0..=LONGEST_S).contains(s))
            .map(Span::from_secs_f64),
        Value::String(text) => duration(text),
        _ => None,
    };

    let bad = || BuildError::Estimate {
        place: format!("item {item}"),
        given: said.to_string(),
    };
    read.filter(|estimate| *estimate > Span::ZERO)
        .ok_or_else(bad)
}

fn duration(text: &str) -> Option<Span> {
    text.parse::<Dur>().ok().map(Dur::span)
}

/// Reads one estimate per line; empty lines are skipped.
pub(super) fn estimates(path: &Path) -> Result<Vec<Span>, BuildError> {
    let bytes = read(path, "the estimates")?;
    let lines = (1..)
        .zip(bytes.split(|byte| *byte == b'\n'))
        .filter(|(_, line)| !line.trim_ascii().is_empty());
    let one = |(number, line): (usize, &[u8])| {
        let text = String::from_utf8_lossy(line.trim_ascii()).into_owned();
        let read = duration(&text).filter(|estimate| *estimate > Span::ZERO);
        let place = || format!("line {number} of {}", path.display());
        read.ok_or_else(|| BuildError::Estimate {
            place: place(),
            given: text,
        })
    };
    at_least_one(lines.map(one).collect::<Result<_, _>>()?, path)
}

fn at_least_one<T>(items: Vec<T>, path: &Path) -> Result<Vec<T>, BuildError> {
    if items.is_empty() {
        Err(BuildError::NoItems {
            path: path.to_owned(),
        })
    } else {
        Ok(items)
    }
}

/// Refuses standard input where it would be read twice: all that is in it goes to the first.
pub(super) fn check_stdin(job_file: Option<&Path>, job: &JobArgs) -> Result<(), BuildError> {
    let estimates = match &job.estimates {
        Some(EstimatesArg::File(path)) => Some(path.as_path()),
        _ => None,
    };
    let given = [
        ("--job-file", job_file),
        ("--each-line", job.each_line.as_deref()),
        ("--from-json", job.from_json.as_deref()),
        ("--estimates", estimates),
    ];

    let is_stdin = |path: &Path| path == Path::new("-") || path == Path::new("/dev/stdin");
    let mut from_stdin = given
        .iter()
        .filter(|(_, path)| path.is_some_and(is_stdin))
        .map(|(flag, _)| *flag);
    match (from_stdin.next(), from_stdin.next()) {
        (Some(first), Some(second)) => Err(BuildError::StdinTwice(first, second)),
        _ => Ok(()),
    }
}

/// Reads the whole file, or standard input for `-`, without a mark of UTF-8 at the front.
pub(super) fn read(path: &Path, what: &'static str) -> Result<Vec<u8>, BuildError> {
    let result = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map(|_| bytes)
    } else {
        std::fs::read(path)
    };

    result.map(unmarked).map_err(|source| BuildError::Read {
        what,
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_from_windows_has_the_items_that_its_editor_shows() {
        let dir = tempfile::tempdir().unwrap();
        let file = |content: &str| {
            let path = dir.path().join("list");
            std::fs::write(&path, content).unwrap();
            path
        };

        let items = lines(&file("\u{feff}0.1\r\n\r\ntwo words \r\nlast\r")).unwrap();
        assert_eq!(items, ["0.1", "two words ", "last"]);
        let (items, _) = json(&file("\u{feff}[\"a\",\r\n 1]\r\n")).unwrap();
        assert_eq!(items, ["a", "1"]);
        let times = estimates(&file("\u{feff}90s\r\n2m\r\n")).unwrap();
        assert_eq!(times, [90, 120].map(Span::from_secs));
        let job = read(&file("\u{feff}name = \"n\"\r\n"), "the job file").unwrap();
        assert_eq!(job, b"name = \"n\"\r\n");

        let nothing = lines(&file("\u{feff}\r\n")).unwrap_err();
        assert!(matches!(nothing, BuildError::NoItems { .. }), "{nothing}");
    }
}
