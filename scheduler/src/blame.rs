//! Whose fault is a failure: the task's, or the host's? A retry goes to another host while one
//! could take it; a host on which a job's tasks fail while they succeed elsewhere gets no more of
//! that job, and after several jobs nothing but one task at a time, until one succeeds. What is not
//! here: what is charged to a task (`crate::attempts`).

use std::collections::{BTreeMap, BTreeSet};

use common::attempt::Outcome;
use common::{AttemptId, HostId, JobId, Span, Time};

use crate::effect::{Effect, StartReason};
use crate::host::{Host, Hosts, Liveness, Presence};
use crate::job::{Job, Record};
use crate::scheduler::Scheduler;

/// So many failures of a job in a row are the least that says something of a host.
const ROW: u32 = 3;
/// A host is blamed if so many failures in a row would be no likelier than this were it like the
/// others.
const CHANCE: f64 = 0.01;
/// A host that is blamed by so many jobs, with no success in between, is benched.
const STRIKES: usize = 3;
/// A task that so many hosts could not start has failed.
pub(crate) const UNSTARTED: u32 = 3;
/// How long a benched host gets nothing at first; doubled with each task that fails there, up to
/// [`LONGEST`].
const PAUSE: Span = Span::from_secs(60);
/// The same of a host without room on its disk.
const NO_ROOM_PAUSE: Span = Span::from_secs(15);
const LONGEST: Span = Span::from_secs(15 * 60);
/// A task is kept from the hosts on which it failed for so long at most: those that are left may be
/// ones that its policy never takes, or be busy for days.
const PATIENCE: Span = Span::from_secs(600);
/// So many of the waiting tasks of a job are looked at for one that may go to a host.
const LOOKED_AT: usize = 64;

/// How a job's attempts ended, host by host.
#[derive(Debug, Default)]
pub(crate) struct Blame {
    hosts: BTreeMap<HostId, Tally>,
    failed: u64,
    succeeded: u64,
    /// When nothing that failed up to now is kept from its host any more.
    patience_ends: Option<Time>,
    /// Hosts that have failed so often in a row that each success elsewhere may tell against them.
    suspects: BTreeSet<HostId>,
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
    strikes: BTreeSet<JobId>,
    pub(crate) bench: Option<Bench>,
}

/// A host gets nothing, or one task at a time.
#[derive(Debug)]
pub(crate) struct Bench {
    /// Why, in words.
    pub(crate) why: String,
    pause: Span,
    /// Whether that time has come.
    pub(crate) probing: bool,
}

impl Blame {
    /// Whether nothing of the job has failed anywhere.
    pub(crate) fn is_bare(&self) -> bool {
        self.failed == 0
    }

    fn note(&mut self, host: HostId, success: bool) {
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
    fn pardon(&mut self, host: HostId) {
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

/// Whether this says something of the host. What ran into a limit that its user set says nothing.
fn blamable(outcome: &Outcome) -> bool {
    use Outcome::{BadOutput, Exited, MissingOutput, NotStarted, Signalled};
    matches!(
        outcome,
        Exited(_) | Signalled(_) | MissingOutput(_) | BadOutput(_) | NotStarted(_)
    )
}

impl Scheduler {
    /// Whether hosts are held responsible for what fails there, and for this job.
    pub(crate) fn blames(&self, id: JobId) -> bool {
        self.settings.benching
            && self
                .jobs
                .table
                .get(&id)
                .is_some_and(|job| job.gang.is_none())
    }

    /// What the end of an attempt says of its host.
    pub(crate) fn judge_host(
        &mut self,
        id: HostId,
        attempt: AttemptId,
        outcome: &Outcome,
        fx: &mut Vec<Effect>,
    ) {
        let of = attempt.task.job;
        if !self.blames(of) {
            return;
        }
        if let Outcome::NoRoom(why) = outcome {
            return self.bench(id, format!("has no room for tasks: {why}"), NO_ROOM_PAUSE);
        }

        let success = outcome.success();
        if !success && !blamable(outcome) {
            return;
        }

        if success {
            self.clear_host(id);
        } else {
            self.probe_failed(id);
        }

        let Some(job) = self.jobs.table.get_mut(&of) else {
            return;
        };
        job.blame.note(id, success);

        let barred = job.bar(id).is_some();
        let blamed = |host: &HostId| matches!(job.bar(*host), Some(Bar::Blamed(..)));
        let blamed: Vec<HostId> = job.blame.suspects.iter().copied().filter(blamed).collect();
        for host in blamed {
            self.strike(host, of);
        }
        if barred {
            self.take_back_all(id, of, fx);
        }
    }

    /// What a host holds of a job beyond its slots goes elsewhere.
    fn take_back_all(&mut self, id: HostId, of: JobId, fx: &mut Vec<Effect>) {
        let backlog = self
            .hosts
            .table
            .get(&id)
            .map(Host::backlog)
            .unwrap_or_default();
        for attempt in backlog.into_iter().filter(|attempt| attempt.task.job == of) {
            self.take_back(id, attempt, fx);
        }
    }

    /// A job blames a host; after several jobs it is benched.
    fn strike(&mut self, id: HostId, by: JobId) {
        let Some(host) = self.hosts.get(id) else {
            return;
        };
        let trouble = host.trouble.get_or_insert_default();
        if !trouble.strikes.insert(by) {
            return;
        }

        let jobs = trouble.strikes.len();
        if jobs >= STRIKES {
            self.bench(
                id,
                format!("tasks of {jobs} jobs failed here and succeeded elsewhere"),
                PAUSE,
            );
        }
    }

    fn bench(&mut self, id: HostId, why: String, pause: Span) {
        let now = self.now;
        let Some(host) = self.hosts.table.at_mut(&id) else {
            return;
        };
        let trouble = host.trouble.get_or_insert_default();
        let before = trouble.bench.take();
        let pause = before.as_ref().map_or(pause, |bench| longer(bench.pause));
        let until = now + pause;

        trouble.bench = Some(Bench {
            why,
            pause,
            probing: false,
        });
        self.hosts.index.benches.retain(|(_, of)| *of != id);
        self.hosts.index.benches.insert((until, id));
        self.reindex(id);
    }

    /// What a benched host was tried with failed, too: it waits for longer.
    fn probe_failed(&mut self, id: HostId) {
        let bench = self.hosts.table.get(&id).and_then(Host::bench);
        if let Some(bench) = bench.filter(|bench| bench.probing) {
            let why = bench.why.clone();
            let pause = bench.pause;
            self.bench(id, why, pause);
        }
    }

    /// A host has proved itself.
    fn clear_host(&mut self, id: HostId) {
        let Some(host) = self.hosts.table.at_mut(&id) else {
            return;
        };
        if host
            .trouble
            .take()
            .is_some_and(|trouble| trouble.bench.is_some())
        {
            self.hosts.index.benches.retain(|(_, of)| *of != id);
            self.reindex(id);
        }
    }

    /// An admin says that a host is in order: it is held responsible for nothing that was before.
    pub(crate) fn pardon(&mut self, id: HostId) {
        self.clear_host(id);
        for job in self.jobs.table.values_mut() {
            job.blame.pardon(id);
        }
    }

    /// Lets the benched hosts whose pause is over have one task each.
    pub(crate) fn probe_benched(&mut self) {
        while let Some((at, id)) = self.hosts.index.benches.first().copied()
            && at <= self.now
        {
            self.hosts.index.benches.pop_first();
            let trouble = self
                .hosts
                .table
                .at_mut(&id)
                .and_then(|host| host.trouble.as_mut());
            if let Some(bench) = trouble.and_then(|trouble| trouble.bench.as_mut()) {
                bench.probing = true;
                self.reindex(id);
            }
        }
    }

    /// Why a host is passed over for a job since tasks failed there.
    pub(crate) fn why_blamed(&self, host: &Host, job: &Job) -> Option<String> {
        match job.bar(host.id) {
            Some(Bar::Blamed(row, elsewhere)) => {
                return Some(format!(
                    "{row} attempts of this job in a row failed here, and {elsewhere} succeeded elsewhere: it gets no more \
                     of the job"
                ));
            }
            Some(Bar::Undecided(row)) => {
                return Some(format!(
                    "{row} attempts of this job in a row failed here: it waits for the end of those elsewhere"
                ));
            }
            None => {}
        }

        let kept = job
            .requeued
            .iter()
            .take(LOOKED_AT)
            .filter(|index| job.shuns(*index, host.id, &self.hosts))
            .count();
        let only = kept > 0 && !job.has_work_for(host.id, &self.hosts);

        only.then(|| "what waits of this job failed here, and goes to another host".to_owned())
    }
}

fn longer(pause: Span) -> Span {
    Span(pause.0.saturating_mul(2)).min(LONGEST)
}
