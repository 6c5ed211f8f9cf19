//! The outcomes of a job's attempts host by host, and the tests on them: which host is barred from
//! the job, or benched for all jobs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use common::{HostId, JobId, Span, Time};

use crate::protocol::effect::StartReason;
use crate::state::host::{Host, Hosts, Liveness, Presence};
use crate::state::job::{Job, LiveCopy, TaskRecord};
use crate::state::scheduler::Scheduler;

/// The least number of failures of a job in a row that can blame a host.
const ROW: u32 = 3;
/// A host is blamed (`Exclusion::Blamed`) if its row of failures has at most this probability on the
/// other hosts.
const CHANCE: f64 = 0.01;
/// A task that this many attempts could not start fails.
pub(crate) const UNSTARTED: u32 = 3;
/// After a task could not be started on this many hosts, it waits for no host that is not there now.
const UNSTARTED_HOSTS: usize = 2;
/// The longest time for which a task is kept from the hosts on which it failed: its policy may
/// never choose the others, or they may be busy for days.
const PATIENCE: Span = Span::from_secs(600);
/// The number of a job's waiting tasks that are searched for one that may go to a host.
pub(crate) const LOOKED_AT: usize = 64;

/// The outcomes of a job's attempts, host by host.
#[derive(Debug, Default)]
pub(crate) struct Blame {
    hosts: BTreeMap<HostId, Tally>,
    failed: u64,
    succeeded: u64,
    /// The tasks that are kept from the hosts on which they failed, each with the end of that.
    patience_ends: BTreeMap<u32, Time>,
    /// The same ends in their order; some are not true any more.
    ends: VecDeque<(Time, u32)>,
    /// Hosts with at least `ROW` failures in a row, so that each success elsewhere may blame them.
    pub(crate) suspects: BTreeSet<HostId>,
    /// Those of them that the job does not blame yet: successes elsewhere may change that.
    unjudged: BTreeSet<HostId>,
}

/// The outcomes of a job's attempts on one host.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    /// Failures since the last success.
    row: u32,
    failed: u64,
    succeeded: u64,
}

/// The reason why a host gets no more tasks of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Exclusion {
    /// The number of attempts that failed here in a row, and of those that succeeded elsewhere.
    Blamed(u32, u64),
    /// The number of attempts that failed here in a row; attempts elsewhere are still to show
    /// whether the host or the job is at fault.
    Undecided(u32),
}

/// The failures for which a host is held responsible, and its `bench`.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    /// Jobs that blame it, with no success since the first of them.
    pub(crate) strikes: BTreeSet<JobId>,
    /// The latest times at which it gave attempts back unasked, each with the way, with no success since the first.
    pub(crate) returns: Vec<(Time, &'static str)>,
    pub(crate) bench: Option<Bench>,
}

/// A bench: the host gets no task or, once `probing`, one at a time.
#[derive(Debug)]
pub(crate) struct Bench {
    /// The reason, in words.
    pub(crate) why: String,
    pub(crate) pause: Span,
    /// Whether the pause is over.
    pub(crate) probing: bool,
}

impl Blame {
    /// Whether no attempt of the job has failed anywhere.
    pub(crate) fn is_bare(&self) -> bool {
        self.failed == 0
    }

    /// Whether this task failed somewhere, and others are to try it.
    pub(crate) fn keeps(&self, index: u32) -> bool {
        self.patience_ends.contains_key(&index)
    }

    /// Whether a task failed somewhere, and others are to try it.
    pub(crate) fn keeps_any(&self) -> bool {
        !self.patience_ends.is_empty()
    }

    /// Returns the hosts with a failed attempt in their `Tally`.
    fn failed_on(&self) -> impl Iterator<Item = HostId> {
        let failed = self.hosts.iter().filter(|(_, tally)| tally.failed > 0);
        failed.map(|(host, _)| *host)
    }

    pub(crate) fn note(&mut self, host: HostId, success: bool) {
        let tally = self.hosts.entry(host).or_default();
        if success {
            (tally.row, tally.succeeded, self.succeeded) =
                (0, tally.succeeded + 1, self.succeeded + 1);
            self.suspects.remove(&host);
            self.unjudged.remove(&host);
        } else {
            (tally.row, tally.failed, self.failed) =
                (tally.row + 1, tally.failed + 1, self.failed + 1);
            if tally.row >= ROW && self.suspects.insert(host) {
                self.unjudged.insert(host);
            }
        }
    }

    /// Keeps a task that failed on a host from there until [`PATIENCE`] has passed.
    pub(crate) fn keep_away(&mut self, index: u32, now: Time) {
        self.patience_ends.insert(index, now + PATIENCE);
        self.ends.push_back((now + PATIENCE, index));
    }

    /// Returns the first of `patience_ends`, when the job is to be considered even if nothing happens.
    pub(crate) fn alarm(&self) -> Option<Time> {
        self.ends.front().map(|(at, _)| *at)
    }

    /// Handles an alarm of the job; returns whether one of `patience_ends` is over.
    pub(crate) fn on_alarm(&mut self, now: Time) -> bool {
        let mut over = false;
        while let Some((at, index)) = self.ends.pop_front_if(|(at, _)| *at <= now) {
            if self.patience_ends.get(&index) == Some(&at) {
                self.patience_ends.remove(&index);
                over = true;
            }
        }
        over
    }

    /// Forgets the outcomes on a host, and takes it off the `suspects`.
    pub(crate) fn pardon(&mut self, host: HostId) {
        let tally = self.hosts.remove(&host).unwrap_or_default();
        self.failed -= tally.failed;
        self.succeeded -= tally.succeeded;
        self.suspects.remove(&host);
        self.unjudged.remove(&host);
    }
}

impl Job {
    /// Whether the last attempt of the job on this host failed: then the host gets none of it
    /// beyond its slots. A task that fails at once looks short, and hundreds would be prefetched.
    pub(crate) fn failed_last(&self, host: HostId) -> bool {
        let tally = self.blame.hosts.get(&host);
        tally.is_some_and(|tally| tally.row > 0)
    }

    /// Returns the hosts that the job blames since this outcome on `host`; each host is returned once.
    pub(crate) fn newly_blamed(&mut self, host: HostId, success: bool) -> Vec<HostId> {
        let unjudged = &self.blame.unjudged;
        // A failure makes others less suspicious, and without a success nobody is blamed.
        let judged = if success {
            unjudged.range(HostId(0)..)
        } else {
            unjudged.range(host..=host)
        };
        let any = self.blame.succeeded > 0;
        let blames = |host: &HostId| any && matches!(self.bar(*host), Some(Exclusion::Blamed(..)));
        let blamed: Vec<HostId> = judged.copied().filter(blames).collect();

        for host in &blamed {
            self.blame.unjudged.remove(host);
        }
        blamed
    }

    /// Returns the reason why this host gets no more of the job, if it does not.
    pub(crate) fn bar(&self, host: HostId) -> Option<Exclusion> {
        let blame = &self.blame;
        if !blame.suspects.contains(&host) {
            return None;
        }

        let tally = blame.hosts.get(&host)?;
        let failed = blame.failed - tally.failed;
        let succeeded = blame.succeeded - tally.succeeded;

        if succeeded == 0 {
            let goes_on = |copy: &LiveCopy| copy.host != host && copy.hold_up.is_none();
            let undecided = failed == 0 && self.copies().any(goes_on);
            return undecided.then_some(Exclusion::Undecided(tally.row));
        }

        let likely = (failed + 1) as f64 / (failed + succeeded + 2) as f64;
        let row = i32::try_from(tally.row).unwrap_or(i32::MAX);

        // A host that has run many tasks of the job has had as many chances for such a row.
        let chance = likely.powi(row) * (1 + tally.succeeded) as f64;
        (chance <= CHANCE).then_some(Exclusion::Blamed(tally.row, succeeded))
    }

    /// Whether a task of the job is kept from this host, since it failed there and another host is
    /// to try it. Another host counts while it takes work, busy or not. If the task could not even
    /// be started here, and was tried nowhere else, a host counts also while its owner is present or
    /// it is silent.
    pub(crate) fn shuns(&self, index: u32, host: HostId, hosts: &Hosts) -> bool {
        let kept = self.blame.keeps(index);
        let Some(record) = self.records.get(&index).filter(|_| kept) else {
            return false;
        };
        let Some((_, unstarted)) = record.failed_on.iter().find(|(on, _)| *on == host) else {
            return false;
        };
        self.another(record, hosts, *unstarted)
    }

    /// Whether a host on which this task has not failed could run it: now or, if the task could not
    /// be started on one host only, at some time.
    fn another(&self, record: &TaskRecord, hosts: &Hosts, unstarted: bool) -> bool {
        let never = record.failed_on.iter().filter(|(_, unstarted)| *unstarted);
        let known = unstarted && never.count() < UNSTARTED_HOSTS;
        hosts.table.values().any(|host| {
            let there = if known {
                host.may_come_back()
            } else {
                host.takes_work()
            };
            there
                && !record.failed_on.iter().any(|(on, _)| *on == host.id)
                && host.suits(&self.rules.needs)
                && !matches!(self.bar(host.id), Some(Exclusion::Blamed(..)))
        })
    }

    /// Returns the hosts with a [`Self::bar`].
    pub(crate) fn barred(&self) -> BTreeSet<HostId> {
        let suspects = self.blame.suspects.iter().copied();
        suspects.filter(|host| self.bar(*host).is_some()).collect()
    }

    /// Returns the hosts that get no further attempt of this task: the `barred` ones, and those that it
    /// shuns.
    pub(crate) fn avoided(
        &self,
        index: u32,
        barred: &BTreeSet<HostId>,
        hosts: &Hosts,
    ) -> BTreeSet<HostId> {
        let failed_on = self.records.get(&index).map(|record| &record.failed_on);
        let failed_on = failed_on.into_iter().flatten().map(|(host, _)| *host);
        let shunned = failed_on.filter(|host| self.shuns(index, *host, hosts));
        barred.iter().copied().chain(shunned).collect()
    }

    /// Whether a task that could not be started has failed [`UNSTARTED`] times, or has no other
    /// host to go to.
    pub(crate) fn nowhere_to_start(&self, index: u32, hosts: &Hosts) -> bool {
        let Some(record) = self.records.get(&index) else {
            return false;
        };
        record.unstarted >= UNSTARTED || !self.another(record, hosts, true)
    }

    /// Whether a waiting task of the job may go to this host.
    pub(crate) fn has_work_for(&self, host: HostId, hosts: &Hosts) -> bool {
        self.blame.is_bare() || !self.fresh.is_empty() || self.next_for(host, hosts).is_some()
    }

    /// Returns the next task of `requeued` that may go to this host.
    fn next_for(&self, host: HostId, hosts: &Hosts) -> Option<u32> {
        self.requeued
            .iter()
            .take(LOOKED_AT)
            .find(|index| !self.shuns(*index, host, hosts))
    }

    /// Takes the next waiting task that may go to this host.
    pub(crate) fn pop_for(&mut self, host: HostId, hosts: &Hosts) -> Option<(u32, StartReason)> {
        if self.blame.is_bare() {
            return self.pop_waiting();
        }
        match self.next_for(host, hosts) {
            Some(index) => self.take_waiting(index).map(|why| (index, why)),
            None => self.pop_waiting_fresh(),
        }
    }
}

impl Scheduler {
    /// Returns the hosts that waiting tasks with a promise may have to avoid: those where tasks of
    /// their jobs failed.
    pub(crate) fn hosts_apart(&self) -> BTreeSet<HostId> {
        let line = self.jobs.lines.waiting.iter();
        let line = line.take_while(|rank| rank.promised());
        let jobs = line.filter_map(|rank| self.jobs.table.get(&rank.job));
        let failed = jobs.filter(|job| !job.blame.is_bare());
        failed.flat_map(|job| job.blame.failed_on()).collect()
    }
}

impl TaskRecord {
    /// Notes that an attempt failed on this host, or could not even be started there.
    pub(crate) fn failed_on(&mut self, host: HostId, unstarted: bool) {
        self.unstarted += u32::from(unstarted);
        match self.failed_on.iter_mut().find(|(on, _)| *on == host) {
            Some((_, never)) => *never |= unstarted,
            None => self.failed_on.push((host, unstarted)),
        }
    }
}

impl Host {
    /// Whether it may take work at some time, as far as known.
    fn may_come_back(&self) -> bool {
        let there =
            self.presence != Presence::Left && self.liveness != Liveness::Lost && !self.draining;
        there && self.bench().is_none()
    }

    pub(crate) fn bench(&self) -> Option<&Bench> {
        self.trouble.as_ref()?.bench.as_ref()
    }

    /// Whether its bench permits a task: one at a time, after a pause.
    pub(crate) fn bench_lets(&self) -> bool {
        self.bench()
            .is_none_or(|bench| bench.probing && self.books.len() == 0)
    }
}
