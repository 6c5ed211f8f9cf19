//! Jobs with a promise go before all others, but not sooner than their deadlines require: while
//! there is slack, a slot that the calendar has for one of them goes to a user with a smaller
//! claim. The division of slots among users lives in `crate::state::shares`.
//!
//! No paper has this: Wozniak, Jiang and Striegel have one queue. It is off where users do not
//! share.

use common::{HostId, JobId, Span};

use crate::state::job::Job;
use crate::state::promise::Slack;
use crate::state::scheduler::Scheduler;

/// The least slack for lending a slot: the time kept for an attempt of unknown run time.
const RESERVE: Span = Span::from_secs(600);
/// The slack must be this many times the work of a task, if that is known.
const KNOWN: f64 = 2.0;
/// The slack is computed anew after this part of it has passed, and at least `LEAST`.
const PARTS: u64 = 8;
const LEAST: Span = Span::from_secs(1);

impl Scheduler {
    /// Returns the time for which all jobs with a promise could wait and then still be done in half
    /// of the time left: so they meet their deadlines also with half of the hosts, or of the speed.
    fn spare(&mut self) -> Span {
        if let Some(slack) = self.jobs.slack.filter(|slack| self.now < slack.until) {
            return slack.spare;
        }
        let spare = self.find_spare().unwrap_or(Span::ZERO);
        let until = self.now + Span(spare.0 / PARTS).max(LEAST);
        self.jobs.slack = Some(Slack { spare, until });
        spare
    }

    fn find_spare(&self) -> Option<Span> {
        // A user who estimated too little holds nobody's slots back by it.
        let reckoner = self.reckoner_by_estimates(self.waiting_reckoning()?);

        let mut calendar = reckoner.calendar(&Default::default());
        let mut least: Option<Span> = None;
        reckoner.stack_line(&mut calendar, &Default::default(), |job, _, entry| {
            if let Some(promise) = job.promise {
                let takes = entry.finish.since(self.now);
                let slack = promise.deadline.since(entry.finish);
                let slack = Span(slack.0.saturating_sub(takes.0));
                least = Some(least.map_or(slack, |least| least.min(slack)));
            }
            true
        });
        least
    }

    /// Returns the reason, in words, why a job with a promise may not be next; `None` where it is.
    pub(crate) fn why_yields(&self, job: &Job) -> Option<String> {
        let leaves_time = self.jobs.slack.is_some_and(|slack| slack.spare >= RESERVE);
        let yields = job.promise.is_some()
            && leaves_time
            && self.jobs.lines.had_fewer(job.user, 0, |_| true);
        yields.then(|| {
            "its deadline leaves time, so another user, who has fewer slots, goes first".to_owned()
        })
    }

    /// Whether a slot of this host goes to another user than that of this job with a promise, after
    /// `yielded` slots that did.
    pub(crate) fn yields(&mut self, id: JobId, host: HostId, yielded: u32) -> bool {
        if !self.jobs.lines.shares.on() {
            return false;
        }
        let spare = self.spare();
        if spare < RESERVE {
            return false;
        }

        let Some(user) = self.jobs.table.get(&id).map(|job| job.user) else {
            return false;
        };
        let fits = |other: JobId| {
            self.jobs.table.get(&other).is_some_and(|other| {
                let known_s = other.usual_task_work_s().unwrap_or(0.0);
                // Of a kind that nobody has measured one task at a time shows how long they take.
                let alone = yielded == 0 && other.running() == 0;
                (other.is_measured() || alone)
                    && spare.secs() >= KNOWN * known_s
                    && self.hosts.offer(host, &other.rules.needs)
                    && (other.demand.is_plain() || self.hosts.has_room(host, other.demand))
            })
        };
        self.jobs.lines.had_fewer(user, yielded, fits)
    }
}
