//! Shows the progress of jobs to people: a bar on a terminal, a line now and then elsewhere. Always
//! on standard error.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use common::view::{Forecast, JobView, TaskCounts};
use common::{JobId, Time};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{note, when};

/// The least time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows progress on standard error.
#[derive(Debug)]
pub(crate) enum Progress {
    /// A bar, on a terminal.
    Bar(ProgressBar),
    /// Lines, elsewhere.
    Lines {
        /// The time of the last line; `None` before the first.
        written: Option<Instant>,
    },
}

impl Progress {
    /// Makes a bar if standard error is a terminal, else lines.
    pub(crate) fn new() -> Self {
        if std::io::stderr().is_terminal() {
            Progress::Bar(bar(0, "[{elapsed_precise}] {bar:32} {pos}/{len} {msg}"))
        } else {
            Progress::Lines { written: None }
        }
    }

    /// Shows the present state of the jobs.
    pub(crate) fn show(&mut self, jobs: &BTreeMap<JobId, JobView>) {
        let counts = (jobs.values()).fold(TaskCounts::default(), |sum, job| sum + job.tasks);
        let text = line(&counts, latest(jobs), when::now());

        match self {
            Progress::Bar(bar) => {
                if bar.length() == Some(0) {
                    // Only now is there something to draw.
                    bar.enable_steady_tick(Duration::from_millis(200));
                }
                bar.set_length(counts.total);
                bar.set_position(counts.settled());
                bar.set_message(text);
            }
            Progress::Lines { written } => {
                let done = counts.settled() == counts.total;
                if done || written.is_none_or(|at| at.elapsed() >= LINE_EVERY) {
                    *written = Some(Instant::now());
                    note(&format!("{}/{} {text}", counts.settled(), counts.total));
                }
            }
        }
    }

    /// Returns a function that prints a line for people without disturbing the bar.
    pub(crate) fn teller(&self) -> impl FnMut(&str) + use<> {
        let bar = match self {
            Progress::Bar(bar) => Some(bar.clone()),
            Progress::Lines { .. } => None,
        };
        move |text| match &bar {
            Some(bar) => bar.suspend(|| note(text)),
            None => note(text),
        }
    }

    /// Removes the bar.
    pub(crate) fn end(&self) {
        if let Progress::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// Makes a bar of this length that looks as the `template` says.
pub(crate) fn bar(length: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(length);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
    }
    bar
}

/// Returns the forecast for the end of all of these jobs; `None` if one that goes on has none.
fn latest(jobs: &BTreeMap<JobId, JobView>) -> Option<Forecast> {
    let open = jobs.values().filter(|job| !job.state.settled());
    let forecasts: Vec<Forecast> = open.map(|job| job.predicted).collect::<Option<_>>()?;
    let intervals: Option<Vec<_>> = forecasts.iter().map(|one| one.interval).collect();
    Some(Forecast {
        finish: forecasts.iter().map(|one| one.finish).max()?,
        interval: intervals.and_then(|all| {
            let low = all.iter().map(|(low, _)| *low).max()?;
            let high = all.iter().map(|(_, high)| *high).max()?;
            Some((low, high))
        }),
    })
}

/// Describes the remaining time, with the ends of the interval that holds it with 80 %.
fn remaining(forecast: &Forecast, now: Time) -> String {
    let last = forecast.interval.map_or(forecast.finish, |(_, high)| high);
    if last <= now {
        return "later than predicted".to_owned();
    }

    let eta = format!("ETA {}", forecast.finish.since(now));
    match forecast.interval {
        Some((low, high)) if low < high => {
            format!("{eta} ({} to {})", low.since(now), high.since(now))
        }
        _ => eta,
    }
}

/// Describes the states of a job's tasks, and the remaining time.
fn line(counts: &TaskCounts, forecast: Option<Forecast>, now: Time) -> String {
    let words = [
        (counts.running, "running"),
        (counts.suspended, "suspended"),
        (counts.failed, "failed"),
        (counts.cancelled, "cancelled"),
    ];
    let mut parts: Vec<String> = words
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, word)| format!("{n} {word}"))
        .collect();
    if counts.settled() == counts.total {
        parts.insert(0, format!("{} finished", counts.finished));
    } else if let Some(forecast) = forecast {
        parts.push(remaining(&forecast, now));
    }

    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_shows_the_counts_that_matter() {
        let counts = TaskCounts {
            total: 10,
            finished: 4,
            running: 2,
            suspended: 1,
            ..TaskCounts::default()
        };
        let at = |second: u64| Time(second * 1_000_000);
        let said = |interval, now| {
            let finish = at(65);
            line(&counts, Some(Forecast { finish, interval }), at(now))
        };
        assert_eq!(said(None, 5), "2 running, 1 suspended, ETA 1m00s");
        assert_eq!(
            said(Some((at(50), at(95))), 5),
            "2 running, 1 suspended, ETA 1m00s (45.0s to 1m30s)"
        );
        assert_eq!(
            said(Some((at(50), at(95))), 100),
            "2 running, 1 suspended, later than predicted"
        );

        let done = TaskCounts {
            total: 10,
            finished: 9,
            failed: 1,
            ..TaskCounts::default()
        };
        assert_eq!(line(&done, None, Time(0)), "9 finished, 1 failed");
    }
}
