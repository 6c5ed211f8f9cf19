//! The report at the end of the demo, made from the master's records.

use std::path::PathBuf;

use common::view::{AttemptState, AttemptView, HostState, HostView, JobView, TaskState, TaskView};
use common::{Span, Time};
use serde::Serialize;

use super::mandelbrot::Size;
use crate::failure::{Exit, Failure};
use crate::output::json;
use crate::output::table::{Rows, facts};

/// The records of the demo, as the master has them.
#[derive(Debug)]
pub(super) struct DemoReport {
    /// The path of the picture.
    pub(super) picture: PathBuf,
    /// The size of the picture.
    pub(super) size: Size,
    /// The job.
    pub(super) job: JobView,
    /// The tasks of the job, with their attempts.
    pub(super) tasks: Vec<TaskView>,
    /// The hosts at the end of the job.
    pub(super) hosts: Vec<HostView>,
    /// The host that the pretended owner came to, if one did.
    pub(super) disturbed: Option<String>,
}

#[derive(Serialize)]
pub(super) struct DemoDocument {
    #[serde(serialize_with = "json::path_text")]
    picture: PathBuf,
    width_px: u32,
    height_px: u32,
    tasks: u64,
    attempts: u64,
    duplicates: u64,
    makespan_s: f64,
    predicted_makespan_s: Option<f64>,
    disturbed: Option<String>,
    hosts: Vec<HostRow>,
    story: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct HostRow {
    host: String,
    speed: f64,
    finished: usize,
    attempts: usize,
    duplicates: usize,
    cpu_s: f64,
    suspended_s: f64,
}

impl DemoReport {
    /// Returns the report for scripts.
    pub(super) fn json(&self) -> DemoDocument {
        DemoDocument {
            picture: self.picture.clone(),
            width_px: self.size.width,
            height_px: self.size.height,
            tasks: self.job.tasks.total,
            attempts: self.job.attempts,
            duplicates: self.job.duplicates,
            makespan_s: self.makespan().secs(),
            predicted_makespan_s: self.job.predicted_makespan.map(Span::secs),
            disturbed: self.disturbed.clone(),
            hosts: self.rows(),
            story: self.story(),
        }
    }

    /// Returns the report for people.
    pub(super) fn text(&self, color: bool) -> String {
        let job = &self.job;
        let predicted = job.predicted_makespan.map(|span| span.to_string());
        let summary = facts(&[
            ("makespan", Some(self.makespan().to_string())),
            (
                "predicted makespan",
                Some(predicted.unwrap_or_else(|| "no prediction was possible".to_owned())),
            ),
            (
                "tasks",
                Some(format!("{}, in {} attempts", job.tasks.total, job.attempts)),
            ),
            ("duplicates", Some(job.duplicates.to_string())),
        ]);

        let row = |row: HostRow| {
            [
                ("HOST", row.host),
                ("SPEED", format!("{:.2}", row.speed)),
                ("TASKS FINISHED", row.finished.to_string()),
                ("ATTEMPTS", row.attempts.to_string()),
                ("DUPLICATES", row.duplicates.to_string()),
                ("CPU", Span::from_secs_f64(row.cpu_s).to_string()),
                (
                    "SUSPENDED",
                    Span::from_secs_f64(row.suspended_s).to_string(),
                ),
            ]
        };
        let rows = Rows::of(self.rows().into_iter().map(row), color);

        let file = self.picture.display();
        let picture = format!("the picture ({}) is in {file}\n", self.size);
        format!(
            "{summary}\n{}\n{}\n\n{picture}",
            rows.text(""),
            self.story().join("\n")
        )
    }

    fn makespan(&self) -> Span {
        self.job
            .finished
            .map_or(Span::ZERO, |end| end.since(self.job.submitted))
    }

    fn attempts_on<'a>(
        &'a self,
        host: &'a str,
    ) -> impl Iterator<Item = (&'a TaskView, &'a AttemptView)> {
        let all = self
            .tasks
            .iter()
            .flat_map(|task| task.attempts.iter().map(move |attempt| (task, attempt)));
        all.filter(move |(_, attempt)| attempt.host == host)
    }

    fn rows(&self) -> Vec<HostRow> {
        let row = |host: &HostView| {
            let name = host.facts.name.as_str();
            let count = |which: fn(&AttemptView) -> bool| {
                self.attempts_on(name).filter(|(_, a)| which(a)).count()
            };
            HostRow {
                host: name.to_owned(),
                speed: host.facts.speed.factor(),
                finished: count(|attempt| attempt.state == AttemptState::Finished),
                attempts: count(|_| true),
                duplicates: count(|attempt| attempt.duplicate),
                cpu_s: self
                    .attempts_on(name)
                    .map(|(_, attempt)| attempt.cpu.secs())
                    .sum(),
                suspended_s: self.suspended(host).secs(),
            }
        };
        let mut rows: Vec<_> = self.hosts.iter().map(row).collect();
        rows.sort_by(|a, b| a.host.cmp(&b.host));

        rows
    }

    /// Returns the time for which the host's owner kept it from the bag.
    fn suspended(&self, host: &HostView) -> Span {
        let end = self.job.finished.unwrap_or(host.since);
        if host.state == HostState::Suspended && host.since >= self.job.submitted {
            return end.since(host.since);
        }
        let name = host.facts.name.as_str();
        self.attempts_on(name)
            .map(|(_, attempt)| attempt.suspended)
            .max()
            .unwrap_or(Span::ZERO)
    }

    /// Tells, in sentences, how the disturbed host reacted.
    fn story(&self) -> Vec<String> {
        let Some(name) = &self.disturbed else {
            let why = if self.hosts.len() < 2 {
                "There is only one host, and nobody who could take over: no owner was pretended (try --hosts 2)."
            } else {
                "The bag was done before the pretended owner could come (try more --tasks)."
            };
            return vec![why.to_owned()];
        };
        let Some(host) = self.hosts.iter().find(|host| host.facts.name == *name) else {
            return Vec::new();
        };
        let reason = host.reason.as_deref().unwrap_or("the owner is back");
        let came = host.since.since(self.job.submitted);
        let mut story = vec![format!("{name}'s owner came at {came} ({reason}).")];
        story.extend(
            self.attempts_on(name)
                .filter(|(_, attempt)| held_at(attempt, host.since))
                .map(|(task, attempt)| fate(task, attempt, host.since)),
        );

        story
    }
}

/// Returns whether the attempt was assigned to its host at this time.
fn held_at(attempt: &AttemptView, time: Time) -> bool {
    attempt.assigned <= time && attempt.finished.is_none_or(|end| end > time)
}

/// Tells what became of a task that was on a host when its owner came.
fn fate(task: &TaskView, there: &AttemptView, came: Time) -> String {
    let name = task.task;
    let frozen = if there.started.is_some() {
        "was frozen there"
    } else {
        "had not begun there"
    };

    let winner = task
        .attempts
        .iter()
        .find(|attempt| attempt.state == AttemptState::Finished);
    match winner {
        Some(winner) if winner.attempt == there.attempt => {
            format!(
                "Task {name} {frozen} for {} and then went on to its end.",
                there.suspended
            )
        }
        Some(winner) => {
            let what = if winner.duplicate {
                "a duplicate"
            } else {
                "another attempt"
            };

            let end = winner.finished.unwrap_or(winner.assigned);
            let waited = winner.assigned.since(came);
            let took = end.since(winner.assigned);
            let start = format!("started {waited} later, once every other task had been given out");
            let start = if winner.duplicate {
                start
            } else {
                format!("started {waited} later")
            };
            format!(
                "Task {name} {frozen} and was finished by {what} on {}, {start}, in {took}.",
                winner.host
            )
        }
        None => format!("Task {name} {frozen}."),
    }
}

/// Reports that the demo's bag did not finish.
pub(super) fn unfinished(job: &JobView, tasks: &[TaskView]) -> Failure {
    let what = format!(
        "{} of {} tiles were computed",
        job.tasks.finished, job.tasks.total
    );
    let failed = tasks.iter().find(|task| task.state == TaskState::Failed);
    let reason = failed.and_then(|task| task.attempts.last()?.reason.clone());
    Failure {
        because: reason,
        ..Failure::new(Exit::TasksFailed, "tasks-failed", what, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::host::{Confinement, HostFacts};
    use common::view::{JobState, TaskCounts};
    use common::{AttemptId, HostId, Incarnation, JobId, Speed, TaskId};

    const START: Time = Time(1_000_000_000);

    fn at(seconds: u64) -> Time {
        START + Span::from_secs(seconds)
    }

    fn host(number: u32, state: HostState, since: Time) -> HostView {
        let facts = HostFacts {
            name: format!("desk-{number}"),
            slots: 1,
            speed: Speed::REFERENCE,
            clock_mhz: 1_500,
            cores: 1,
            memory_mib: 1,
            confinement: Confinement::Process,
            confinement_most: Confinement::Landlock,
            network: true,
            ..HostFacts::unknown(String::new())
        };
        HostView {
            id: HostId(number),
            facts,
            state,
            reason: (state == HostState::Suspended).then(|| "paused-by-owner".to_owned()),
            gone: false,
            since,
            heard: None,
            cpu_availability: None,
            undisturbed_1h: None,
            owner_active: None,
            slots_usable: 1,
            attempts: Vec::new(),
            finished: 0,
            lost: 0,
            belongs_to: None,
            agreed: 0,
            labels: Default::default(),
        }
    }

    fn attempt(
        index: u32,
        number: u32,
        host: u32,
        state: AttemptState,
        from: u64,
        to: u64,
    ) -> AttemptView {
        AttemptView {
            attempt: AttemptId {
                task: TaskId::new(JobId(1), index),
                number,
                incarnation: Incarnation(1),
            },
            host: format!("desk-{host}"),
            state,
            duplicate: number > 1,
            assigned: at(from),
            started: Some(at(from)),
            finished: Some(at(to)),
            ran: Span::from_secs(to - from),
            cpu: Span::from_secs(1),
            suspended: Span::ZERO,
            suspended_since: None,
            exit_code: None,
            reason: None,
            started_from: None,
            saved: None,
            checkpoint_problem: None,
            belief: None,
            progress: None,
            words: None,
        }
    }

    fn report(disturbed: bool, tasks: Vec<Vec<AttemptView>>, hosts: Vec<HostView>) -> DemoReport {
        let task = |attempts: Vec<AttemptView>| {
            let task = attempts[0].attempt.task;
            TaskView {
                task,
                item: None,
                state: TaskState::Finished,
                reason: None,
                attempts,
                speculation: None,
            }
        };

        let job = JobView {
            job: JobId(1),
            name: "m".into(),
            user: "u".into(),
            state: JobState::Finished,
            policy: "P".into(),
            priority: 0,
            tasks: TaskCounts {
                total: 2,
                finished: 2,
                ..TaskCounts::default()
            },
            attempts: 3,
            duplicates: 1,
            submitted: START,
            started: Some(START),
            finished: Some(at(20)),
            predicted: None,
            predicted_makespan: Some(Span::from_secs(18)),
            reason: None,
            promise: None,
            limits: None,
            starts: None,
            width: None,
            progress: None,
            labels: std::collections::BTreeSet::new(),
            after: Vec::new(),
            open: false,
            needs: String::new(),
        };

        DemoReport {
            picture: "p.png".into(),
            size: Size {
                width: 4,
                height: 3,
            },
            job,
            tasks: tasks.into_iter().map(task).collect(),
            hosts,
            disturbed: disturbed.then(|| "desk-2".to_owned()),
        }
    }

    #[test]
    fn the_story_follows_the_frozen_task_to_its_duplicate() {
        let tasks = vec![
            vec![attempt(1, 1, 1, AttemptState::Finished, 0, 9)],
            vec![
                attempt(2, 1, 2, AttemptState::Killed, 5, 20),
                attempt(2, 2, 1, AttemptState::Finished, 18, 20),
            ],
        ];
        let report = report(
            true,
            tasks,
            vec![
                host(2, HostState::Suspended, at(8)),
                host(1, HostState::Ready, at(20)),
            ],
        );
        assert_eq!(
            report.story(),
            [
                "desk-2's owner came at 8.0s (paused-by-owner).",
                "Task 1.2 was frozen there and was finished by a duplicate on desk-1, started 10.0s later, once every \
                 other task had been given out, in 2.0s."
            ]
        );

        let rows = report.rows();
        assert_eq!(
            (
                rows[0].host.as_str(),
                rows[0].finished,
                rows[0].duplicates,
                rows[0].suspended_s
            ),
            ("desk-1", 2, 1, 0.0)
        );

        assert_eq!(
            (
                rows[1].host.as_str(),
                rows[1].finished,
                rows[1].attempts,
                rows[1].suspended_s
            ),
            ("desk-2", 0, 1, 12.0)
        );

        let text = report.text(false);
        assert!(
            text.contains("makespan            20.0s")
                && text.contains("predicted makespan  18.0s"),
            "{text}"
        );
    }

    #[test]
    fn without_an_owner_it_says_why_there_was_none() {
        let tasks = || vec![vec![attempt(1, 1, 1, AttemptState::Finished, 0, 9)]];
        let ready = |number| host(number, HostState::Ready, START);
        assert!(report(false, tasks(), vec![ready(1)]).story()[0].contains("only one host"));
        assert!(
            report(false, tasks(), vec![ready(1), ready(2)]).story()[0]
                .contains("before the pretended owner")
        );
    }

    #[test]
    fn a_bag_that_did_not_finish_names_the_cause() {
        let mut report = report(
            false,
            vec![vec![attempt(1, 1, 1, AttemptState::Failed, 0, 9)]],
            Vec::new(),
        );
        report.tasks[0].state = TaskState::Failed;
        report.tasks[0].attempts[0].reason = Some("no such program".into());
        let failure = unfinished(&report.job, &report.tasks);
        assert_eq!(
            (failure.exit, failure.because.as_deref()),
            (Exit::TasksFailed, Some("no such program"))
        );
    }
}
