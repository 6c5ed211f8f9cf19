//! Reads the Standard Workload Format (version 2.2), with a job on each line. Invalid contents are
//! refused with file, line and reason.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::job::BatchJob;
use crate::trace::{Flaw, TraceError, finite};

/// The fields of a line; further ones are ignored.
const FIELDS: [&str; 18] = [
    "job",
    "submit",
    "wait",
    "run",
    "processors",
    "cpu",
    "memory",
    "requested_processors",
    "requested_time",
    "requested_memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding_job",
    "think_time",
];

/// A job of a log: one line of the file. Times are in seconds; values that the log does not know
/// are `None`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SwfJob {
    /// The job's number.
    pub job: u64,
    /// The time of submission, from the log's start.
    pub submit_s: f64,
    /// The time for which it waited.
    pub wait_s: Option<f64>,
    /// The time for which it ran.
    pub run_s: Option<f64>,
    /// The number of processors it had.
    pub processors: Option<u32>,
    /// The number of processors it requested.
    pub requested: Option<u32>,
    /// The time it requested.
    pub requested_s: Option<f64>,
    /// The status: 1 for completed, 0 for failed, 5 for cancelled, 2 to 4 for a part of a job.
    pub status: Option<i64>,
    /// The user who submitted it.
    pub user: Option<u64>,
    /// The number of its program.
    pub executable: Option<u64>,
}

impl SwfJob {
    /// The number of processors it requested, or had if that is not known.
    fn wanted(&self) -> Option<u32> {
        self.requested.or(self.processors)
    }

    /// The number of processors it had, or requested if that is not known.
    pub(super) fn held(&self) -> Option<u32> {
        self.processors.or(self.requested)
    }
}

/// A log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SwfLog {
    /// The machine's processors, or else its nodes, if the log's head states them.
    pub processors: Option<u32>,
    /// The jobs, in the log's order.
    pub records: Vec<SwfJob>,
}

impl SwfLog {
    /// Reads a log.
    ///
    /// # Errors
    /// If the file cannot be read, or has invalid contents; the error then names the line.
    pub fn read(file: &Path) -> Result<Self, TraceError> {
        let text = fs::read_to_string(file).map_err(TraceError::io(file))?;
        let mut log = SwfLog::default();
        let mut nodes = None;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if let Some(comment) = line.strip_prefix(';') {
                log.processors = stated(comment, "MaxProcs:").or(log.processors);
                nodes = stated(comment, "MaxNodes:").or(nodes);
            } else if !line.is_empty() {
                let flawed = |flaw| TraceError::flawed(file, number + 1, flaw);
                log.records.push(record(line).map_err(flawed)?);
            }
        }

        if log.records.is_empty() {
            let line = text.lines().count().max(1);
            return Err(TraceError::flawed(file, line, Flaw::NoJobs));
        }

        log.processors = log.processors.or(nodes);
        Ok(log)
    }

    /// The number of processors of the machine: what the head states, or else as many as the widest
    /// job that ran takes.
    pub fn machine(&self) -> u32 {
        let ran = |job: &&SwfJob| job.run_s.is_some_and(|run_s| run_s > 0.0);
        let widths = self.records.iter().filter(ran);
        let widest = widths.filter_map(|job| job.wanted().max(job.held())).max();
        self.processors.or(widest).unwrap_or(1)
    }

    /// The jobs for a machine of `processors` processors: those that ran, and requested no more
    /// processors than it has. A job's request is its estimate, or its run time if it has none;
    /// runs end at their estimates.
    pub fn jobs(&self, processors: u32) -> Vec<BatchJob> {
        let one = |record: &SwfJob| {
            let run = record.run_s.filter(|run| *run > 0.0)?;
            let wanted = record
                .wanted()
                .filter(|wanted| (1..=processors).contains(wanted))?;
            let estimate = record
                .requested_s
                .filter(|estimate| *estimate > 0.0)
                .unwrap_or(run);

            Some(BatchJob {
                submit: record.submit_s,
                processors: wanted,
                run: run.min(estimate),
                limits: Arc::from([estimate]),
                law: None,
            })
        };
        self.records.iter().filter_map(one).collect()
    }
}

/// The number that a line of the head states after `name`; further words may follow it.
fn stated(comment: &str, name: &str) -> Option<u32> {
    let value = comment.trim().strip_prefix(name)?;
    let number = value.split_whitespace().next()?.parse().ok()?;
    (number > 0).then_some(number)
}

fn record(line: &str) -> Result<SwfJob, Flaw> {
    let fields: Vec<&str> = line.split_whitespace().take(FIELDS.len()).collect();
    if fields.len() < FIELDS.len() {
        return Err(Flaw::Short {
            expected: FIELDS.len(),
            found: fields.len(),
        });
    }

    let mut numbers = [0.0; FIELDS.len()];
    for ((number, field), column) in numbers.iter_mut().zip(&fields).zip(FIELDS) {
        *number = finite(column, field)?;
    }

    let known = |at: usize| Some(numbers[at]).filter(|number: &f64| *number >= 0.0);
    let sure = |at: usize| {
        known(at).ok_or(Flaw::Negative {
            column: FIELDS[at],
            value: numbers[at],
        })
    };

    let count = |at: usize| match known(at) {
        Some(number) if number > f64::from(u32::MAX) => Err(Flaw::TooLarge {
            column: FIELDS[at],
            text: fields[at].to_owned(),
        }),
        number => Ok(number.map(|number| number as u32)),
    };

    Ok(SwfJob {
        job: sure(0)? as u64,
        submit_s: sure(1)?,
        wait_s: known(2),
        run_s: known(3),
        processors: count(4)?,
        requested: count(7)?,
        requested_s: known(8),
        status: known(10).map(|status| status as i64),
        user: known(11).map(|user| user as u64),
        executable: known(13).map(|executable| executable as u64),
    })
}
