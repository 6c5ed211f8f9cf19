//! Reads the export of ActivityWatch's AFK watcher, which records when somebody used the host's
//! keyboard and mouse. Other watchers of ActivityWatch are not read.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use super::draft::{Draft, TimeInterval, finish};
use super::moment::{LATEST_S, Moment};
use super::{Flaw, Note, Trace, TraceError};

/// The largest overlap of two events, in seconds, that the watcher's coarse clock explains; a
/// larger one is an error.
const COARSE_S: f64 = 1.0;

#[derive(Deserialize)]
struct Export {
    buckets: BTreeMap<String, Bucket>,
}

#[derive(Deserialize)]
struct Bucket {
    #[serde(rename = "type")]
    kind: String,
    hostname: Option<String>,
    #[serde(default)]
    events: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct WatchedEvent {
    timestamp: String,
    duration: f64,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    status: String,
}

impl Trace {
    /// Reads an export with buckets of the type `afkstatus`; each bucket is a host. While somebody
    /// uses the host, tasks have nothing of its processor, else all of it; between events nothing
    /// is known. Events may come in any order, since exports begin with the newest. Clock rates are
    /// unknown, and 1500 MHz stands for them.
    ///
    /// # Errors
    /// If the file cannot be read, or has invalid contents.
    pub fn read_activitywatch(file: &Path) -> Result<Self, TraceError> {
        let text = fs::read_to_string(file).map_err(TraceError::io(file))?;
        let flawed = |line, flaw| TraceError::flawed(file, line, flaw);
        let json =
            |error: &serde_json::Error| flawed(error.line().max(1), Flaw::Json(error.to_string()));
        let export: Export = serde_json::from_str(&text).map_err(|error| json(&error))?;
        let mut drafts = Vec::new();

        for (id, bucket) in export
            .buckets
            .into_iter()
            .filter(|(_, bucket)| bucket.kind == "afkstatus")
        {
            // Values parsed from JSON have no line numbers, so the line is found by the text of the
            // timestamp, which occurs only once.
            drafts.push(
                host(&id, bucket).map_err(|(mark, flaw)| flawed(line_of(&text, &mark), flaw))?,
            );
        }

        if drafts.iter().all(|draft| draft.stretches.is_empty()) {
            return Err(flawed(1, Flaw::Nothing));
        }

        Ok(finish(drafts))
    }
}

/// The line in which a text first occurs, counted from 1.
fn line_of(text: &str, mark: &str) -> usize {
    text.find(mark)
        .map_or(1, |at| text[..at].matches('\n').count() + 1)
}

/// Converts a bucket to a host. The error holds the text to look for in the file, and the flaw
/// there.
fn host(id: &str, bucket: Bucket) -> Result<Draft, (String, Flaw)> {
    let name = bucket
        .hostname
        .filter(|name| !name.is_empty() && name != "unknown");
    let mut draft =
        Draft::new(name.unwrap_or_else(|| id.trim_start_matches("aw-watcher-afk_").to_owned()));

    let mut events = Vec::new();
    for value in bucket.events {
        let mark = value
            .get("timestamp")
            .and_then(|text| text.as_str())
            .unwrap_or(id)
            .to_owned();
        let event: WatchedEvent = serde_json::from_value(value)
            .map_err(|error| (mark.clone(), Flaw::Json(error.to_string())))?;
        events.push(
            read(&event)
                .map_err(|flaw| (mark.clone(), flaw))
                .map(|event| (event, mark))?,
        );
    }

    events.sort_by(|((start, ..), _), ((other, ..), _)| start.order(other));
    for ((start, duration_s, active), mark) in events {
        let end = start.plus(duration_s);
        let before = draft.stretches.last().map(|last| last.end);
        let coarse = before.filter(|before| {
            start.order(before).is_lt() && start.plus(COARSE_S).order(before).is_ge()
        });
        let start = coarse.unwrap_or(start);
        if end.order(&start).is_le() {
            continue;
        }

        let stretch = TimeInterval {
            start,
            end,
            up: true,
            cpu: if active { 0.0 } else { 1.0 },
            note: Note {
                owner_active: Some(active),
                reason: active.then(|| Arc::from("in-use")),
            },
        };
        draft.push(stretch).map_err(|flaw| (mark, flaw))?;
    }

    Ok(draft)
}

/// The start of an event, its length in seconds, and whether somebody was there.
fn read(event: &WatchedEvent) -> Result<(Moment, f64, bool), Flaw> {
    let start = Moment::parse_iso(&event.timestamp)
        .ok_or_else(|| Flaw::NotADate(event.timestamp.clone()))?;
    if event.duration < 0.0 {
        return Err(Flaw::Negative {
            column: "duration",
            value: event.duration,
        });
    }

    let end_s = start.plus(event.duration).since(0);
    if !event.duration.is_finite() || end_s > LATEST_S as f64 {
        return Err(Flaw::TooLarge {
            column: "the end of the event",
            text: format!("{} and {} s", event.timestamp, event.duration),
        });
    }

    match event.data.status.as_str() {
        "afk" => Ok((start, event.duration, false)),
        "not-afk" => Ok((start, event.duration, true)),
        other => Err(Flaw::Status(other.to_owned())),
    }
}
