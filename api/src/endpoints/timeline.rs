//! The hosts on which the attempts of a job ran over time.

use common::Time;
use common::date::date;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::answer::{JsonAnswer, JsonDocument};
use crate::call::Call;
use crate::json::{TimelineJson, now};
use crate::problem::Problem;
use crate::table::{NoBody, Table};
use crate::timeline::{DrawnTasks, MOST_COLUMNS, Timeline};

/// The columns of a timeline, and its rows, if nothing is said of them.
const COLUMNS: u16 = 240;
const ROWS: u16 = 100;

pub(super) fn add(table: &mut Table) {
    table
        .get("/jobs/{job}/timeline", "timeline")
        .about(
            "Says on which hosts the attempts of a job ran, and how that went, in columns of time.",
        )
        .serve(timeline);
}

/// The part of a timeline that is wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TimelineQuery {
    /// The number of columns: `240` if nothing is said, at most 1,000.
    columns: Option<u16>,
    /// The most hosts: `100` if nothing is said.
    hosts: Option<u16>,
    /// The begin of the first column; without it the first assignment.
    from: Option<String>,
    /// The end of the last column; without it the last end, or now.
    to: Option<String>,
}

/// Reads a time in ISO 8601.
fn time(name: &str, text: Option<&String>) -> Result<Option<Time>, Problem> {
    let hint = "write it like 2026-03-01T09:30:00Z";
    let wrong = || Problem::senseless(format!("`{name}` is no time"), hint);
    text.map(|text| date(text).ok_or_else(wrong)).transpose()
}

async fn timeline(call: Call, query: TimelineQuery, _: NoBody) -> JsonAnswer<TimelineJson> {
    let columns = usize::from(query.columns.unwrap_or(COLUMNS));
    if !(1..=MOST_COLUMNS).contains(&columns) {
        let what = format!("a timeline has 1 to {MOST_COLUMNS} columns");
        return Err(Problem::senseless(what, ""));
    }
    let from = time("from", query.from.as_ref())?;
    let to = time("to", query.to.as_ref())?;
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        return Err(Problem::senseless("`from` is later than `to`", ""));
    }

    let job = call.this_job().await?;
    let DrawnTasks { tasks, part } = DrawnTasks::fetch(&call.grid, &job).await?;
    let drawn = Timeline::of(&tasks, columns, (from, to), now());
    let hosts = usize::from(query.hosts.unwrap_or(ROWS));
    let document = TimelineJson::of(drawn.as_ref(), columns, hosts, part);
    Ok(JsonDocument(document))
}
