//! How a job's attempts ended host by host, and what that says of a host for this job and for all:
//! data, and questions about one job or host.

use std::collections::{BTreeMap, BTreeSet};

use common::{HostId, JobId, Span, Time};

use crate::protocol::effect::StartReason;
use crate::state::host::{Host, Hosts, Liveness, Presence};
use crate::state::job::{Job, Record};

/// So many failures of a job in a row are the least that says something of a host.
const ROW: u32 = 3;
/// A host is blamed if so many failures in a row would be no likelier than this were it like the
/// others.
const CHANCE: f64 = 0.01;
/// A task that so many hosts could not start has failed.
pub(crate) const UNSTARTED: u32 = 3;
/// A task is kept from the hosts on which it failed for so long at most: those that are left may be
/// ones that its policy never takes, or be busy for days.
const PATIENCE: Span = Span::from_secs(600);
/// So many of the waiting tasks of a job are looked at for one that may go to a host.
pub(crate) const LOOKED_AT: usize = 64;

/// How a job's attempts ended, host by host.
#[derive(Debug, Default)]
pub(crate) struct Blame {
    hosts: BTreeMap<HostId, Tally>,
    failed: u64,
    succeeded: u64,
    /// When nothing that failed up to now is kept from its host any more.
    patience_ends: Option<Time>,
    /// Hosts that have failed so often in a row that each success elsewhere may tell against them.
    pub(crate) suspects: BTreeSet<HostId>,
}

/// How a job's attempts ended on one host.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    /// Failures since the last success.
    row: u32,
    failed: u64,
    succeeded: u64,
}

/// Why a host gets no more of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bar {
    /// So many attempts in a row failed here, and so many succeeded elsewhere.
    Blamed(u32, u64),
    /// So many in a row failed here; attempts elsewhere are still to tell whose fault that is.
    Undecided(u32),
}

/// What a host is held responsible for.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    /// Jobs that blame it, with no success since the first of them.
    pub(crate) strikes: BTreeSet<JobId>,
    pub(crate) bench: Option<Bench>,
}

/// A host gets nothing, or one task at a time.
#[derive(Debug)]
pub(crate) struct Bench {
    /// Why, in words.
    pub(crate) why: String,
    pub(crate) pause: Span,
    /// Whether that time has come.
    pub(crate) probing: bool,
}

impl Blame {
    /// Whether nothing of the job has failed anywhere.
    pub(crate) fn is_bare(&self) -> bool {
        self.failed == 0
    }

    pub(crate) fn note(&mut self, host: HostId, success: bool) {
        let tally = self.hosts.entry(host).or_default();
        if success {
            (tally.row, tally.succeeded, self.succeeded) =
                (0, tally.succeeded + 1, self.succeeded + 1);
            self.suspects.remove(&host);
        } else {
            (tally.row, tally.failed, self.failed) =
                (tally.row + 1, tally.failed + 1, self.failed + 1);
            if tally.row >= ROW {
                self.suspects.insert(host);
            }
        }
    }

    /// A task failed on a host: it is kept from there for a while.
    pub(crate) fn keep_away(&mut self, now: Time) {
        self.patience_ends = Some(now + PATIENCE);
    }

    /// When the job is to be looked at for that though nothing happens.
    pub(crate) fn alarm(&self) -> Option<Time> {
        self.patience_ends
    }

    /// The time of an alarm has come; whether it was this one.
    pub(crate) fn on_alarm(&mut self, now: Time) -> bool {
        self.patience_ends.take_if(|ends| *ends <= now).is_some()
    }

    /// Forgets what happened on a host.
    pub(crate) fn pardon(&mut self, host: HostId) {
        let tally = self.hosts.remove(&host).unwrap_or_default();
        self.failed -= tally.failed;
        self.succeeded -= tally.succeeded;
        self.suspects.remove(&host);
    }
}

impl Job {
    /// Whether the last that this host ended of the job failed: then it gets nothing of it ahead of
    /// its slots. What fails at once looks short, and would be handed out by the hundred.
    pub(crate) fn failed_last(&self, host: HostId) -> bool {
        self.blame
            .hosts
            .get(&host)
            .is_some_and(|tally| tally.row > 0)
    }

    /// Why this host gets no more of the job, if it does not.
    pub(crate) fn bar(&self, host: HostId) -> Option<Bar> {
        let blame = &self.blame;
        if !blame.suspects.contains(&host) {
            return None;
        }

        let tally = blame.hosts.get(&host)?;
        let failed = blame.failed - tally.failed;
        let succeeded = blame.succeeded - tally.succeeded;

        if succeeded == 0 {
            let live = |record: &Record| {
                record
                    .live
                    .iter()
                    .any(|copy| copy.host != host && copy.hold_up.is_none())
            };
            let undecided = failed == 0 && self.records.values().any(live);
            return undecided.then_some(Bar::Undecided(tally.row));
        }

        let likely = (failed + 1) as f64 / (failed + succeeded + 2) as f64;
        let row = i32::try_from(tally.row).unwrap_or(i32::MAX);

        // A host that has done much of the job has had as many chances for such a row.
        let chance = likely.powi(row) * (1 + tally.succeeded) as f64;
        (chance <= CHANCE).then_some(Bar::Blamed(tally.row, succeeded))
    }

    /// Whether a task of the job is kept from this host, since it failed there and another host is
    /// to try it. Another one counts while it takes work, busy or not; of a task that could not
    /// even be started here, also while its owner is there or it is silent.
    pub(crate) fn shuns(&self, index: u32, host: HostId, hosts: &Hosts) -> bool {
        let Some(record) = self
            .records
            .get(&index)
            .filter(|_| self.blame.patience_ends.is_some())
        else {
            return false;
        };
        let Some((_, unstarted)) = record.failed_on.iter().find(|(on, _)| *on == host) else {
            return false;
        };
        self.another(record, hosts, *unstarted)
    }

    /// Whether a host on which this task has not failed could run it: now, or (`known`) at some
    /// time.
    fn another(&self, record: &Record, hosts: &Hosts, known: bool) -> bool {
        hosts.table.values().any(|host| {
            let there = if known {
                host.may_come_back()
            } else {
                host.takes_work()
            };
            there
                && !record.failed_on.iter().any(|(on, _)| *on == host.id)
                && self.rules.needs.missing(host.offers).is_none()
                && !matches!(self.bar(host.id), Some(Bar::Blamed(..)))
        })
    }

    /// Whether a task that could not be started on so many hosts has no other host to go to.
    pub(crate) fn nowhere_to_start(&self, index: u32, hosts: &Hosts) -> bool {
        let Some(record) = self.records.get(&index) else {
            return false;
        };
        record.unstarted >= UNSTARTED || !self.another(record, hosts, true)
    }

    /// Whether some waiting task of the job may go to this host.
    pub(crate) fn has_work_for(&self, host: HostId, hosts: &Hosts) -> bool {
        self.blame.is_bare() || !self.fresh.is_empty() || self.next_for(host, hosts).is_some()
    }

    /// The next task that had an attempt and may go to this host.
    fn next_for(&self, host: HostId, hosts: &Hosts) -> Option<u32> {
        self.requeued
            .iter()
            .take(LOOKED_AT)
            .find(|index| !self.shuns(*index, host, hosts))
    }

    /// The next task that may go to this host, out of the waiting ones.
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

impl Record {
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
    /// Whether it is one that may take work at some time, as far as is known.
    fn may_come_back(&self) -> bool {
        let there =
            self.presence != Presence::Left && self.liveness != Liveness::Lost && !self.draining;
        there && self.bench().is_none()
    }

    pub(crate) fn bench(&self) -> Option<&Bench> {
        self.trouble.as_ref()?.bench.as_ref()
    }

    /// Whether it may have a task as far as its bench is concerned: only one at a time, after a
    /// pause.
    pub(crate) fn bench_lets(&self) -> bool {
        self.bench()
            .is_none_or(|bench| bench.probing && self.books.len() == 0)
    }
}
