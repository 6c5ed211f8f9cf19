//! Tells a waiting user why nothing of a job runs: in one line, and again when the reason changes.
//! The waiting itself lives in `watch`.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use common::text::printable;
use common::view::{ExplainView, JobView};
use common::wire::RefusalCode;
use common::wire::client::{Reply, Request};
use common::{IdSet, JobId};
use link::{Client, LinkError};
use tokio::time::Instant;

use crate::commands::{nothing_is_left, nothing_left};

/// Time before the first look: a job that was submitted just now may be about to start.
const FIRST: Duration = Duration::from_secs(1);
/// Time between two looks where something has changed; it doubles while nothing does.
const EVERY: Duration = Duration::from_secs(5);
/// The longest time between two looks, at which `EVERY` stops doubling.
const EVERY_AT_MOST: Duration = Duration::from_secs(30);
/// The least time between two printed lines.
const SAY_EVERY: Duration = Duration::from_secs(30);
/// The number of settled jobs that one look may skip.
const PASSED_OVER: usize = 8;

/// Looks now and then whether anything of the awaited jobs runs, and says why not.
pub(crate) struct WaitReporter<'a> {
    /// The jobs that were not settled when last seen.
    jobs: IdSet,
    /// The progress of the job at the last look, if nothing of it ran.
    before: Option<ProgressMark>,
    said: Option<(Instant, String)>,
    say: Box<dyn FnMut(&str) + 'a>,
}

/// The progress of a job: its values change whenever the job moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProgressMark {
    job: JobId,
    attempts: u64,
    settled: u64,
}

impl ProgressMark {
    /// Returns the progress, or `None` where something of the job runs.
    fn of(job: &JobView) -> Option<Self> {
        (job.tasks.running == 0).then_some(Self {
            job: job.job,
            attempts: job.attempts,
            settled: job.tasks.settled(),
        })
    }
}

impl<'a> WaitReporter<'a> {
    /// Watches `jobs`, which are not settled; `say` prints a line for people.
    pub(crate) fn new(jobs: IdSet, say: impl FnMut(&str) + 'a) -> Self {
        Self {
            jobs,
            before: None,
            said: None,
            say: Box::new(say),
        }
    }

    /// Runs `work` and returns its result; meanwhile `reporter`, if given, says why nothing runs.
    pub(crate) async fn beside<T>(
        reporter: &mut Option<Self>,
        client: &Client,
        work: impl Future<Output = T>,
    ) -> T {
        let Some(reporter) = reporter else {
            return work.await;
        };
        tokio::select! {
            done = work => done,
            never = reporter.watch(client) => match never {},
        }
    }

    /// Looks and tells until it is dropped. Errors of the connection are left to the caller that
    /// waits over the same connection.
    async fn watch(&mut self, client: &Client) -> Infallible {
        tokio::time::sleep(FIRST).await;
        let mut pause = EVERY;
        loop {
            let before = self.before;
            if let Ok(Some(view)) = self.look(client).await {
                self.saw(&view, Instant::now());
            }

            tokio::time::sleep(pause).await;
            pause = if self.before == before {
                (pause * 2).min(EVERY_AT_MOST)
            } else {
                EVERY
            };
        }
    }

    /// Asks the master to explain the first job that is not settled.
    async fn look(&mut self, client: &Client) -> Result<Option<Box<ExplainView>>, LinkError> {
        for _ in 0..PASSED_OVER {
            let Some(job) = self.jobs.first() else {
                return Ok(None);
            };
            let request = Request::Explain { job: JobId(job) };
            let answer = client.ask(&request).await;
            if let Some(view) = self.take(job, answer)? {
                return Ok(Some(view));
            }
        }

        Ok(None)
    }

    /// Takes the answer for a job. One that is settled, or was forgotten meanwhile, is not asked about again.
    fn take(
        &mut self,
        job: u32,
        answer: Result<Vec<Reply>, LinkError>,
    ) -> Result<Option<Box<ExplainView>>, LinkError> {
        match answer.map(|mut replies| replies.pop()) {
            Ok(Some(Reply::Explained(view))) if !view.job.state.settled() => return Ok(Some(view)),
            Err(LinkError::Refused(refusal)) if refusal.code == RefusalCode::NotFound => {}
            Ok(_) => {}
            Err(error) => return Err(error),
        }
        self.jobs.remove(job);
        Ok(None)
    }

    /// Says why nothing runs, if nothing ran and nothing changed between two looks.
    fn saw(&mut self, view: &ExplainView, now: Instant) {
        let mark = ProgressMark::of(&view.job);
        let still = mark.is_some() && mark == self.before;
        self.before = mark;
        if !still {
            // A later standstill for the same reason is worth a new line.
            if let Some((_, key)) = &mut self.said {
                key.clear();
            }
            return;
        }

        let why = why(view);
        let key = without_numbers(&why);
        let told = self.said.as_ref().is_some_and(|(at, before)| {
            *before == key || now.saturating_duration_since(*at) < SAY_EVERY
        });
        if !told {
            let job = view.job.job;
            (self.say)(&format!("note: {why}; see 'deskgrid job explain {job}'"));
            self.said = Some((now, key));
        }
    }
}

/// Returns the words of `text` without its numbers: two texts with equal words give the same
/// reason.
fn without_numbers(text: &str) -> String {
    let words = text
        .split_whitespace()
        .map(|word| word.trim_start_matches('('));
    let words = words.filter(|word| !word.starts_with(|c: char| c.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ")
}

/// Says why nothing of the job runs: the states of its hosts if none would take a task, else the
/// reasons for which its tasks wait.
fn why(view: &ExplainView) -> String {
    let job = &view.job;
    if nothing_is_left(job) {
        return nothing_left(job);
    }
    let held = job.after.iter().any(|after| after.left.is_some());
    if let (true, Some((why, _))) = (held, view.waiting.first()) {
        return format!("job {} {}", job.job, printable(why));
    }
    if view.hosts.is_empty() {
        return "no host takes work: none is connected".to_owned();
    }

    let begun_or_waiting = view.job.tasks.waiting + view.job.tasks.suspended > 0;
    let free = |(_, why): &(String, String)| kind(why) == "ready" || kind(why) == "passed over";
    if begun_or_waiting && !view.hosts.iter().any(free) {
        return match view.hosts.iter().map(hosts_in).sum::<usize>() {
            _ if view.hosts.iter().any(|(_, why)| kind(why) != "busy") => {
                format!("no host takes work: {}", fleet(&view.hosts))
            }
            1 => "it waits for a free slot: the one host is busy with other tasks".to_owned(),
            hosts => format!("it waits for a free slot: {hosts} hosts are busy with other tasks"),
        };
    }

    let mut reasons: Vec<&str> = view.waiting.iter().map(|(why, _)| why.as_str()).collect();
    reasons.dedup();
    let reasons = if reasons.is_empty() {
        fleet(&view.hosts)
    } else {
        reasons.join("; ")
    };
    format!(
        "no task of job {} runs: {}",
        view.job.job,
        printable(&reasons)
    )
}

/// Returns the host's state, which stands at the head of the reason.
fn kind(why: &str) -> &str {
    let kind = why.split_once(": ").map_or(why, |(kind, _)| kind);
    // `2 slots, 1 slot held for jobs of several ranks`.
    if kind.starts_with(|c: char| c.is_ascii_digit()) {
        return "busy";
    }
    kind
}

/// Whether a host that is passed over for this reason takes work, or will once its owner leaves: nobody
/// knows when one ends a pause.
pub(crate) fn takes_work(why: &str) -> bool {
    why != "suspended: paused-by-owner"
        && matches!(kind(why), "ready" | "busy" | "suspended" | "benched")
}

/// Returns the number of hosts that a row stands for.
fn hosts_in((host, _): &(String, String)) -> usize {
    ExplainView::left_out(host).unwrap_or(1)
}

/// Counts the hosts in each state: `3 suspended (other programs are busy), 1 benched`.
fn fleet(hosts: &[(String, String)]) -> String {
    let mut kinds: BTreeMap<&str, (usize, Vec<&str>)> = BTreeMap::new();
    for row in hosts {
        let (_, why) = row;
        let (number, reasons) = kinds.entry(kind(why)).or_default();
        *number += hosts_in(row);
        let reason = why.split_once(": ").map_or("", |(_, reason)| reason);
        let reason = in_words(reason);
        if !reason.is_empty() && !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }

    let mut parts: Vec<_> = kinds.into_iter().collect();
    parts.sort_by_key(|(kind, (number, _))| (std::cmp::Reverse(*number), *kind));
    let part = |(kind, (number, reasons)): (&str, (usize, Vec<&str>))| match kind {
        "busy" => format!("{number} busy with other tasks"),
        "suspended" if !reasons.is_empty() => {
            format!("{number} suspended ({})", reasons.join("; "))
        }
        kind => format!("{number} {kind}"),
    };
    let text = parts.into_iter().map(part).collect::<Vec<_>>().join(", ");
    printable(&text).to_string()
}

/// Translates an owner's `reason` for somebody who does not know the names of host states.
fn in_words(reason: &str) -> &str {
    match reason {
        "in-use" => "somebody uses the PC",
        "busy" => "other programs are busy",
        "on-battery" => "on battery",
        "outside-hours" => "outside the owner's hours",
        "paused-by-owner" => "paused by the owner",
        "exclusive-app" => "a program wants the PC for itself",
        "low-memory" => "other programs need the memory",
        "starting-up" => "the worker has just started",
        "other-grid-away" => "a bridge whose other grid is away",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use common::Time;
    use common::view::{JobState, TaskCounts};
    use common::wire::Refusal;

    use super::*;

    fn view(tasks: TaskCounts, hosts: &[&str], waiting: &[&str]) -> ExplainView {
        let job = JobView {
            job: JobId(1),
            name: "x".to_owned(),
            user: "ann".to_owned(),
            state: JobState::Waiting,
            policy: "deskgrid".to_owned(),
            priority: 0,
            tasks,
            attempts: 0,
            duplicates: 0,
            submitted: Time(0),
            started: None,
            finished: None,
            predicted: None,
            predicted_makespan: None,
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
        let hosts = hosts.iter().enumerate();
        ExplainView {
            job,
            waiting: waiting
                .iter()
                .map(|why| ((*why).to_owned(), "1".to_owned()))
                .collect(),
            hosts: hosts
                .map(|(n, why)| (format!("h{n}"), (*why).to_owned()))
                .collect(),
            duplicates: Vec::new(),
            share: None,
        }
    }

    fn waiting() -> TaskCounts {
        TaskCounts {
            total: 2,
            waiting: 2,
            ..TaskCounts::default()
        }
    }

    #[test]
    fn a_job_that_was_forgotten_keeps_no_other_one_from_being_explained() {
        let mut reporter = WaitReporter::new(IdSet::from_range(1, 3), |_| {});
        let refused = |code| Err(LinkError::from(Refusal::new(code, "it is not so", "")));
        assert!(reporter.take(1, refused(RefusalCode::Unavailable)).is_err());
        assert_eq!(reporter.jobs, IdSet::from_range(1, 3), "it is there");
        let forgotten = reporter.take(1, refused(RefusalCode::NotFound));
        assert!(forgotten.is_ok_and(|view| view.is_none()));

        let mut settled = view(TaskCounts::default(), &[], &[]);
        settled.job.state = JobState::Finished;
        let passed_over = reporter.take(2, Ok(vec![Reply::Explained(Box::new(settled))]));
        assert!(passed_over.is_ok_and(|view| view.is_none()));
        let waits = view(waiting(), &[], &[]);
        let told = reporter.take(3, Ok(vec![Reply::Explained(Box::new(waits))]));
        assert!(told.is_ok_and(|view| view.is_some()));
        assert_eq!(reporter.jobs, IdSet::from_range(3, 3));
    }

    #[test]
    fn a_reason_that_keeps_all_hosts_is_put_in_plain_words() {
        let hosts = [
            "suspended: busy",
            "suspended: busy",
            "suspended: in-use",
            "benched: tasks failed here",
            "busy: 1 slot, 1 attempt held",
        ];
        assert_eq!(
            why(&view(waiting(), &hosts, &["no slot is free"])),
            "no host takes work: 3 suspended (other programs are busy; somebody uses the PC), 1 benched, \
             1 busy with other tasks"
        );
        let busy = "busy: 1 slot, 1 attempt held";
        assert_eq!(
            why(&view(waiting(), &[busy, busy], &["no slot is free"])),
            "it waits for a free slot: 2 hosts are busy with other tasks"
        );
        assert_eq!(
            why(&view(waiting(), &[], &["no host has joined"])),
            "no host takes work: none is connected"
        );
    }

    #[test]
    fn waiting_beside_free_hosts_is_explained() {
        let reasons = ["it needs 4 hosts at once: 2 of 3 that will do are free"];
        assert_eq!(
            why(&view(waiting(), &["ready: 1 of 1 slot free"], &reasons)),
            format!("no task of job 1 runs: {}", reasons[0])
        );
    }

    #[test]
    fn only_a_job_that_stands_still_is_told_of_and_a_new_reason_only_after_a_while() {
        let mut said: Vec<String> = Vec::new();
        let mut reporter =
            WaitReporter::new(IdSet::from_range(1, 1), |line| said.push(line.to_owned()));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let suspended = view(waiting(), &["suspended: in-use"], &["x"]);
        let more = view(
            waiting(),
            &["suspended: in-use", "suspended: in-use"],
            &["x"],
        );
        let benched = view(waiting(), &["benched: tasks failed here"], &["x"]);

        reporter.saw(&suspended, at(1));
        reporter.saw(&suspended, at(6));
        reporter.saw(&more, at(16));
        reporter.saw(&benched, at(20));
        reporter.saw(&benched, at(37));
        reporter.saw(&benched, at(67));

        // A running job gives no reason to say anything, and neither does one that has just moved.
        let running = TaskCounts {
            running: 1,
            waiting: 1,
            total: 2,
            ..TaskCounts::default()
        };
        reporter.saw(&view(running, &["suspended: in-use"], &["x"]), at(100));
        reporter.saw(&view(running, &["suspended: in-use"], &["x"]), at(105));
        reporter.saw(&suspended, at(110));
        reporter.saw(&suspended, at(115));

        drop(reporter);
        assert_eq!(
            said,
            [
                "note: no host takes work: 1 suspended (somebody uses the PC); see 'deskgrid job explain 1'",
                "note: no host takes work: 1 benched; see 'deskgrid job explain 1'",
                "note: no host takes work: 1 suspended (somebody uses the PC); see 'deskgrid job explain 1'",
            ]
        );
    }
}
