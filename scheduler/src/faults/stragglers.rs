//! Stragglers: attempts that hold a job up though hosts are idle, since they run for much longer
//! than any of their kind. Each gets a copy, whatever the length of its job's tasks, and whatever
//! the job has spent on copies: the slots would idle otherwise. Copies weighed by their gain live
//! in `handlers::lookahead`; a task whose attempts are all on silent hosts waits to be started again
//! (`Job::refresh`).

use common::attempt::Phase;
use common::{Span, Time};

use crate::forecast::overdue::{due_on, due_s, ran_s};
use crate::handlers::dispatch::Starter;
use crate::protocol::effect::{CopyReason, Effect, StartReason};
use crate::state::foresight::Foresight;
use crate::state::host::{Host, HostAttempt, Hosts};
use crate::state::job::{Job, TaskRecord};

/// The time, in seconds, after which an attempt that is not begun is overdue, if its host has a
/// slot for it.
const NOT_BEGUN_S: f64 = 10.0;
/// An attempt that is staged is overdue after this many times the longest start known: of many hosts that
/// fetch the same inputs the last ones wait for the others.
const STAGING: f64 = 5.0;
/// The least time, in seconds, after which that is so, and while no start of its job is known: other jobs'
/// inputs may be smaller, and a copy fetches them once more.
const OWN_LEAST_S: f64 = 30.0;
const OTHERS_LEAST_S: f64 = 600.0;
/// The interval, in seconds, between attempts to copy an overdue attempt that no idle host would
/// take.
const AGAIN_S: f64 = 1.0;

/// The reason why a command was not started yet.
#[derive(Clone, Copy)]
enum Unbegun {
    /// Its host has not begun with it.
    Begin,
    /// Its inputs are being fetched.
    Inputs,
}

/// An attempt that is the only one of its task that goes on.
pub(crate) struct Going {
    pub(crate) index: u32,
    number: u32,
    wants: Option<Unbegun>,
    /// The time that it has run, or has waited to begin or for its inputs.
    pub(crate) ran_s: f64,
    /// The time at which it is overdue.
    pub(crate) due_s: f64,
}

impl Going {
    /// Returns the reason to copy it, if it is overdue.
    pub(crate) fn overdue(&self, job: &Job) -> Option<CopyReason> {
        let ran = Span::from_secs_f64(self.ran_s);
        if self.ran_s < self.due_s {
            return None;
        }
        match self.wants {
            Some(Unbegun::Begin) => return Some(CopyReason::NotBegun(ran)),
            Some(Unbegun::Inputs) => return Some(CopyReason::NotStaged(ran)),
            None => {}
        }
        let longest = Span::from_secs_f64(job.longest_s()?);
        Some(CopyReason::Overdue { ran, longest })
    }
}

impl Starter<'_> {
    /// Copies attempts that run for much longer than any of their kind to idle hosts.
    pub(crate) fn copy_stuck(&mut self, job: &mut Job, fx: &mut Vec<Effect>) {
        if !job.copies_overdue() || job.waiting() > 0 {
            return;
        }
        if job.plan.overdue.is_some_and(|at| self.now < at) {
            return;
        }

        // An attempt that starts now is overdue no sooner than this.
        let fastest = self
            .hosts
            .fastest(job.pool)
            .map_or(1.0, common::Speed::factor);
        let longest = job.longest_s();
        let ran_s = longest.map_or(f64::INFINITY, |longest_s| due_s(longest_s, fastest));
        let queued_s = if self.settings.benching {
            NOT_BEGUN_S
        } else {
            f64::INFINITY
        };
        let staged_s = staging_due_s(job, self.foresight).unwrap_or(f64::INFINITY);
        let mut next_s = ran_s.min(queued_s).min(staged_s);
        if next_s.is_infinite() {
            return;
        }
        let going: Vec<Going> = going(
            job,
            self.hosts,
            self.foresight,
            self.settings.benching,
            self.settings.max_copies,
            self.now,
        )
        .collect();

        for going in going {
            let record = job.records.get(&going.index);
            if record.is_none_or(|record| record.is_spent(&job.rules)) {
                continue;
            }
            let Some(why) = going.overdue(job) else {
                next_s = next_s.min(going.due_s - going.ran_s);
                continue;
            };
            let why = StartReason::Duplicate(going.number, why);
            let host = self.proposed(job, going.index);
            let begun = host.and_then(|host| self.begin(job, going.index, host, false, why, fx));
            if begun.is_none() {
                next_s = next_s.min(AGAIN_S);
            }
        }

        job.plan.overdue = Some(self.now + Span::from_secs_f64(next_s) + Span(1));
    }
}

/// Returns the attempts that are the only ones of their tasks to go on, each with its age; running
/// ones only where the longest run time of their kind is known.
pub(crate) fn going(
    job: &Job,
    hosts: &Hosts,
    foresight: &Foresight,
    benching: bool,
    max_copies: u32,
    now: Time,
) -> impl Iterator<Item = Going> {
    let longest_s = job.longest_s();
    let staged_s = staging_due_s(job, foresight);
    job.records.iter().filter_map(move |(index, record)| {
        let (host, load, number) = alone(record, hosts, max_copies)?;
        if let Some(since) = load.staging_since {
            let since = since.max(host.owner_since);
            return staged_s.filter(|_| has_free_slot(host)).map(|due_s| Going {
                index,
                number,
                wants: Some(Unbegun::Inputs),
                ran_s: now.since(since).secs(),
                due_s,
            });
        }
        if !load.phase.executing() {
            let waits = load.phase == Phase::Queued && has_slot_for(host);
            return (benching && waits).then(|| Going {
                index,
                number,
                wants: Some(Unbegun::Begin),
                ran_s: now.since(load.assigned).secs(),
                due_s: NOT_BEGUN_S,
            });
        }

        let longest_s = longest_s?.max(job.own_estimate_s(index));
        Some(Going {
            index,
            number,
            wants: None,
            ran_s: ran_s(host, load, now),
            due_s: due_on(job, host, longest_s),
        })
    })
}

/// Returns the time, in seconds, after which an attempt of the job whose inputs are being fetched is
/// overdue; `None` where no start is known.
fn staging_due_s(job: &Job, foresight: &Foresight) -> Option<f64> {
    let due_s = |longest: Span, least_s| (STAGING * longest.secs()).max(least_s);
    let own = job.longest_start.map(|own| due_s(own, OWN_LEAST_S));
    own.or_else(|| Some(due_s(foresight.longest_start?, OTHERS_LEAST_S)))
}

/// Whether the host has a slot for an attempt whose inputs are there.
fn has_free_slot(host: &Host) -> bool {
    let live = host.books.in_slots();
    let running = live.filter(|(_, load)| load.phase.executing());
    running.count() < host.usable_slots() as usize
}

/// Whether an attempt queued on the host could run: the host takes work, and nothing runs there.
fn has_slot_for(host: &Host) -> bool {
    let mut live = host.books.in_slots();
    host.takes_work() && live.all(|(_, load)| load.phase == Phase::Queued)
}

/// Returns the attempt of a task that goes on, if there is only one, with its host, load and
/// number. Where two go on, a third would hardly end any sooner.
fn alone<'a>(
    record: &TaskRecord,
    hosts: &'a Hosts,
    max_copies: u32,
) -> Option<(&'a Host, &'a HostAttempt, u32)> {
    if record.live.len() >= max_copies as usize {
        return None;
    }

    let mut going = record.live.iter().filter(|copy| copy.hold_up.is_none());
    let copy = going.next().filter(|_| going.next().is_none())?;
    let (host, load) = hosts.on_books(copy.host, copy.attempt)?;
    (!load.stopping).then_some((host, load, copy.attempt.number))
}
