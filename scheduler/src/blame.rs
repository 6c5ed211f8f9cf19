//! Which host is to blame for failures: a retry goes to another host, a host on which a job's tasks fail while they
//! succeed elsewhere gets no more of that job for a while, and one that several jobs have put aside like that is
//! quarantined. What is not here: what a failure costs its task (`crate::attempts`).
//!
//! **A task** shuns each host on which it failed, while another host takes work and could run it, for ten minutes at
//! most.
//!
//! **A job** puts a host aside after `s` failures in a row there, at least three, if that many would come by chance with a
//! probability of less than one in a thousand, given how often its tasks fail elsewhere: `((f + 1) / (n + 2))^s` of `n`
//! ends elsewhere of which `f` were failures (the rule of succession). Until `s` ends elsewhere are known, and while
//! attempts run elsewhere, it gets no more either: a host that fails at once would have all tasks before others are
//! done with one. After a pause, which doubles with each failure, it is tried with one task.
//!
//! **A host** that three jobs in a row have put aside, with no success of any task in between, gets one task at a time,
//! after pauses that double; its first success, or an admin's `host resume`, ends that.

use std::collections::BTreeMap;

use common::{HostId, Span, Time};

use crate::host::{Host, Hosts};
use crate::job::{Job, Record};
use crate::policy::placement::Scene;
use crate::scheduler::Scheduler;

/// A host is put aside by a job after this many failures in a row, at least.
const LEAST_STREAK: u32 = 3;
/// It is if they would come by chance with less than this probability.
const CHANCE: f64 = 0.001;
/// A host that so many jobs in a row have put aside is quarantined.
const STRIKES: u32 = 3;
/// A task shuns a host on which it failed for so long at most, while others could run it.
const PATIENCE: Span = Span::from_secs(600);
/// The first pause, and the longest one.
const PAUSE: Span = Span::from_secs(30);
const LONGEST_PAUSE: Span = Span::from_secs(3_600);
/// A task that could not be started on so many hosts has failed: the fault is its own.
const UNSTARTABLE: usize = 3;

/// What a job knows of the hosts on which its tasks failed.
#[derive(Debug, Default)]
pub(crate) struct Blame {
    hosts: BTreeMap<HostId, Tally>,
    /// Ends of attempts on all hosts since the first failure.
    done: u64,
    failed: u64,
    /// How many tasks ever shunned a host.
    shunning: u64,
}

/// How attempts of a job ended on a host.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    done: u64,
    failed: u64,
    /// Failures in a row, up to now.
    streak: u32,
    aside: Option<Pause>,
}

/// For how long something is not tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pause {
    pub(crate) until: Time,
    span: Span,
    /// Whether its end was noticed: it is tried again.
    over: bool,
}

impl Pause {
    fn first(now: Time) -> Self {
        Self { until: now + PAUSE, span: PAUSE, over: false }
    }

    fn again(self, now: Time) -> Self {
        let span = Span(self.span.0.saturating_mul(2)).min(LONGEST_PAUSE);
        Self { until: now + span, span, over: false }
    }
}

/// The hosts on which a task failed.
#[derive(Debug, Default)]
pub(crate) struct Shunned {
    hosts: Vec<HostId>,
    /// On how many of them it could not even be started.
    unstarted: usize,
    /// Since when, by the latest failure.
    since: Time,
}

impl Blame {
    /// A task succeeded on the host.
    fn on_success(&mut self, host: HostId) {
        if self.hosts.is_empty() {
            return;
        }
        self.done += 1;
        if let Some(tally) = self.hosts.get_mut(&host) {
            *tally = Tally { done: tally.done + 1, failed: tally.failed, ..Tally::default() };
        }
    }

    /// A task failed on the host; whether that puts the host aside, which it was not before.
    fn on_failure(&mut self, host: HostId, now: Time) -> bool {
        self.failed += 1;
        let tally = self.hosts.entry(host).or_default();
        tally.failed += 1;
        tally.streak = tally.streak.saturating_add(1);
        if let Some(aside) = &mut tally.aside {
            *aside = aside.again(now);
            return false;
        }

        let tally = *tally;
        let (done, failed) = self.elsewhere(&tally);
        let chance = ((failed + 1) as f64 / (done + failed + 2) as f64).powf(f64::from(tally.streak));
        let aside = tally.streak >= LEAST_STREAK && done > 0 && chance < CHANCE;
        if aside && let Some(tally) = self.hosts.get_mut(&host) {
            tally.aside = Some(Pause::first(now));
        }
        aside
    }

    /// How many attempts succeeded and failed on other hosts.
    fn elsewhere(&self, tally: &Tally) -> (u64, u64) {
        (self.done.saturating_sub(tally.done), self.failed.saturating_sub(tally.failed))
    }

    /// When a pause of a host is over next.
    pub(crate) fn alarm(&self) -> Option<Time> {
        self.hosts.values().filter_map(|tally| tally.aside).filter(|aside| !aside.over).map(|aside| aside.until).min()
    }

    /// The time of an alarm has come; whether it was one of these.
    pub(crate) fn on_alarm(&mut self, now: Time) -> bool {
        let mut any = false;
        for aside in self.hosts.values_mut().filter_map(|tally| tally.aside.as_mut()) {
            if !aside.over && aside.until <= now {
                aside.over = true;
                any = true;
            }
        }
        any
    }
}

impl Job {
    /// Whether the host may have another task of the job, as far as failures are concerned.
    pub(crate) fn trusts(&self, id: HostId, hosts: &Hosts) -> bool {
        let Some(tally) = self.blame.hosts.get(&id) else { return true };
        let own = |host: &Host| host.books.attempts().any(|attempt| attempt.task.job == self.rank.job);
        if let Some(aside) = tally.aside {
            return aside.over && !hosts.table.get(&id).is_some_and(own);
        }
        let (done, failed) = self.blame.elsewhere(tally);
        tally.streak < LEAST_STREAK || done + failed >= u64::from(tally.streak) || !self.runs_elsewhere(id)
    }

    fn runs_elsewhere(&self, id: HostId) -> bool {
        self.records.values().any(|record| record.live.iter().any(|copy| copy.host != id))
    }

    /// Why the host gets none of the job's tasks, in words; nothing where it may have some.
    pub(crate) fn distrust(&self, host: &Host, hosts: &Hosts, now: Time) -> Option<String> {
        if self.trusts(host.id, hosts) {
            return None;
        }
        let tally = self.blame.hosts.get(&host.id)?;
        let (done, failed) = self.blame.elsewhere(tally);
        let what = format!("the last {} tasks of the job failed here", tally.streak);
        Some(match tally.aside {
            Some(aside) if !aside.over => format!(
                "{what}, while {done} of {} succeeded elsewhere; tried again in {}",
                done + failed,
                aside.until.since(now)
            ),
            Some(_) => format!("{what}, while {done} of {} succeeded elsewhere; one task tries it", done + failed),
            None => format!("{what}; it gets no more until some have ended elsewhere"),
        })
    }
}

impl Record {
    fn shun(&mut self, host: HostId, unstarted: bool, now: Time) {
        let shunned = self.shunned.get_or_insert_default();
        if !shunned.hosts.contains(&host) {
            shunned.hosts.push(host);
            shunned.unstarted += usize::from(unstarted);
        }
        shunned.since = now;
    }
}

impl Scene<'_> {
    /// Whether the task is not to go to this host, on which it failed, while another one could run it.
    pub(crate) fn shuns(&self, index: u32, host: HostId) -> bool {
        if self.job.blame.shunning == 0 {
            return false;
        }
        let Some(shunned) = self.job.records.get(&index).and_then(|record| record.shunned.as_ref()) else {
            return false;
        };
        shunned.hosts.contains(&host) && self.now < shunned.since + PATIENCE && self.has_other(&shunned.hosts)
    }

    /// Whether a host that is none of these takes work and may have a task of the job.
    fn has_other(&self, hosts: &[HostId]) -> bool {
        let needs = self.job.rules.needs;
        let other = |host: &Host| {
            host.takes_work() && !hosts.contains(&host.id) && needs.missing(host.offers).is_none() && {
                self.job.blame.hosts.get(&host.id).is_none_or(|tally| tally.aside.is_none())
            }
        };
        self.hosts.table.values().any(other)
    }

    /// The waiting task of the job that is next, of those that may go to this host.
    pub(crate) fn waiting_for(&self, host: HostId) -> Option<u32> {
        let requeued = match self.job.blame.shunning {
            0 => self.job.requeued.first(),
            _ => self.job.requeued.iter().find(|index| !self.shuns(*index, host)),
        };
        requeued.or_else(|| self.job.fresh.first())
    }
}

impl Scheduler {
    /// A task succeeded on the host: nothing is wrong with it.
    pub(crate) fn praise(&mut self, id: HostId, job: common::JobId) {
        if let Some(job) = self.jobs.table.get_mut(&job) {
            job.blame.on_success(id);
        }
        if let Some(host) = self.hosts.table.at_mut(&id)
            && host.strikes > 0
        {
            host.strikes = 0;
            self.set_quarantine(id, None);
        }
    }

    /// A task failed on the host. Whether that is to be charged to the host, and not to the task: where it could not be
    /// started, while other hosts could try.
    pub(crate) fn blame(&mut self, id: HostId, task: common::TaskId, unstarted: bool) -> bool {
        let now = self.now;
        let Some(job) = self.jobs.table.get_mut(&task.job) else { return false };
        let mut uncharged = false;
        if let Some(record) = job.records.at_mut(&task.index) {
            record.shun(id, unstarted, now);
            job.blame.shunning += 1;
            let shunned = job.records.get(&task.index).and_then(|record| record.shunned.as_ref());
            uncharged = unstarted
                && shunned.is_some_and(|shunned| {
                    let scene = job.scene(now, &self.settings, &self.hosts);
                    shunned.unstarted < UNSTARTABLE && scene.has_other(&shunned.hosts)
                });
        }
        let aside = job.blame.on_failure(id, now);
        if job.gang.is_some() {
            return uncharged;
        }

        let Some(host) = self.hosts.table.at_mut(&id) else { return uncharged };
        if let Some(pause) = host.quarantine {
            self.set_quarantine(id, Some(pause.again(now)));
        } else if aside {
            host.strikes += 1;
            if host.strikes >= STRIKES {
                self.set_quarantine(id, Some(Pause::first(now)));
            }
        }
        uncharged
    }

    /// Has the host get no work until this pause is over, or as any other.
    pub(crate) fn set_quarantine(&mut self, id: HostId, pause: Option<Pause>) {
        let Some(host) = self.hosts.table.at_mut(&id) else { return };
        if host.quarantine == pause {
            return;
        }
        if let Some(old) = std::mem::replace(&mut host.quarantine, pause) {
            self.hosts.index.quarantines.remove(&(old.until, id));
        }
        if let Some(pause) = pause.filter(|pause| !pause.over) {
            self.hosts.index.quarantines.insert((pause.until, id));
        }
        self.reindex(id);
    }

    /// Tries hosts again whose quarantine has lasted for long enough.
    pub(crate) fn on_quarantines(&mut self) {
        while let Some((at, id)) = self.hosts.index.quarantines.first().copied()
            && at <= self.now
        {
            self.hosts.index.quarantines.remove(&(at, id));
            let pause = self.hosts.table.get(&id).and_then(|host| host.quarantine);
            self.set_quarantine(id, pause.map(|pause| Pause { over: true, ..pause }));
        }
    }
}

impl Host {
    /// Whether it gets no work since tasks of several jobs failed here.
    pub(crate) fn is_quarantined(&self) -> bool {
        self.quarantine.is_some_and(|pause| !pause.over)
    }

    /// Whether it is tried with one task after a quarantine.
    pub(crate) fn on_trial(&self) -> bool {
        self.quarantine.is_some_and(|pause| pause.over)
    }
}
