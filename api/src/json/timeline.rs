//! The JSON of a job's timeline, and of predictions beside what came.

use common::view::{AccuracyView, ForetoldView};
use schemars::JsonSchema;
use serde::Serialize;

use super::{IsoTime, Object, Seconds, all, form};
use crate::timeline::{Did, Timeline};

/// The timeline of a job: for each host, what it did in each of so many equal columns of time.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TimelineJson {
    /// The begin of the first column; `null` where nothing ran yet.
    pub begin: Option<IsoTime>,
    /// The end of the last column.
    pub end: Option<IsoTime>,
    /// The number of columns.
    pub columns: usize,
    /// The hosts with the most attempts, those first.
    pub hosts: Vec<TimelineRow>,
    /// The number of hosts that are left out.
    pub more_hosts: usize,
    /// The tasks that are drawn, `null` if they are all of the job's.
    pub tasks: Option<DrawnRange>,
}

/// The tasks of a large job that are drawn.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DrawnRange {
    /// The number of the first.
    pub first: u32,
    /// The number of the last.
    pub last: u32,
}

/// The row of one host.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TimelineRow {
    /// The host's name.
    pub host: String,
    /// The number of its attempts.
    pub attempts: u64,
    /// Its work, in order; there is nothing between two spans that do not touch.
    pub spans: Vec<TimelineSpan>,
}

/// Columns in which a host did the same.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TimelineSpan {
    /// The first column, from 0.
    pub from: usize,
    /// The column behind the last.
    pub to: usize,
    /// The work; of several things in one column the most notable.
    pub did: Did,
}

impl TimelineJson {
    /// Makes the form of a timeline with at most `hosts` rows.
    pub(crate) fn of(
        timeline: Option<&Timeline<'_>>,
        columns: usize,
        hosts: usize,
        part: Option<(u32, u32)>,
    ) -> Self {
        let rows = timeline.map_or(&[][..], |timeline| &timeline.rows);
        let shown = rows.iter().take(hosts).map(|row| TimelineRow {
            host: row.host.to_owned(),
            attempts: row.attempts,
            spans: row
                .spans()
                .map(|(from, to, did)| TimelineSpan { from, to, did })
                .collect(),
        });

        Self {
            begin: timeline.map(|timeline| IsoTime(timeline.begin)),
            end: timeline.map(|timeline| IsoTime(timeline.end)),
            columns,
            hosts: shown.collect(),
            more_hosts: rows.len().saturating_sub(hosts),
            tasks: part.map(|(first, last)| DrawnRange { first, last }),
        }
    }
}

/// Predictions of the master beside what came.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AccuracyJson {
    /// The number of predictions whose outcome is not known yet.
    pub open: u64,
    /// The number of predictions that are left out below, since there was nothing to predict: it came at
    /// once, or in less than half a second as predicted.
    pub left_out: usize,
    /// Completions of jobs, from the first prediction of each.
    pub ends: PredictionsJson,
    /// First starts of jobs that had to wait.
    pub starts: PredictionsJson,
    /// Waits for several hosts at once.
    pub hosts: PredictionsJson,
}

form! {
    /// Predictions of one kind.
    pub struct PredictionsJson of [ForetoldView] as found {
        /// The number of them.
        pub judged: usize = found.len(),
        /// The number whose 80 % interval held.
        pub held: usize = held(found),
        /// The predictions, the oldest first, at most 1,000.
        pub predictions: Vec<ForetoldJson> = all(found),
    }
}

form! {
    /// A prediction and what came.
    pub struct ForetoldJson of ForetoldView as view {
        /// The number of hosts that were waited for together; `0` for other waits.
        pub hosts: u32 = view.hosts,
        /// The time of the prediction.
        pub at: IsoTime = IsoTime(view.at),
        /// The predicted wait.
        pub wait_s: Seconds = Seconds(view.wait),
        /// The lower end of its interval.
        pub low_s: Seconds = Seconds(view.low),
        /// The upper end of its interval.
        pub high_s: Seconds = Seconds(view.high),
        /// The actual wait.
        pub came_s: Seconds = Seconds(view.came),
    }
}

/// Returns the number of predictions whose interval held.
pub fn held(predictions: &[ForetoldView]) -> usize {
    predictions.iter().filter(|one| one.held()).count()
}

impl Object for AccuracyView {
    type Json = AccuracyJson;

    fn json(&self) -> AccuracyJson {
        let mut judged = self.clone();
        AccuracyJson {
            left_out: judged.leave_out_trivial(),
            open: self.open,
            ends: judged.finishes.json(),
            starts: judged.starts.json(),
            hosts: judged.hosts.json(),
        }
    }
}
