//! The books of the hosts: each one's state, its attempts and its free slots. Decisions live
//! elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use common::attempt::Phase;
use common::host::{OwnerState, YieldReason};
use common::needs::{Demand, Needs, Offers};
use common::view::HostState;
use common::{AttemptId, HostId, JobId, Span, Speed, TaskId, Time};

use crate::collections::dense::Dense;
use crate::prediction::experience::{Habit, Temper, TrackRecord};
use crate::prediction::reservation::Windows;
use crate::prediction::silence::Parting;
use crate::protocol::effect::{CopyReason, Effect, EndReason};
use crate::state::blame::Trouble;
use crate::state::books::HostAttempts;
use crate::state::fleet::Fleet;
use crate::state::owner_hours::HostLoan;
use crate::state::pool::{Place, Places, PoolId, Pools};
use crate::state::preemptible::PreemptibleAttempts;
use crate::state::queue::move_to;
use crate::state::room::Room;
use crate::state::settings::Settings;
use crate::state::silence::{Partings, Silence};

/// A host. The fields that each event touches come first and lie together: with thousands of hosts,
/// cache misses are most of the cost.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Host {
    pub(crate) id: HostId,
    pub(crate) slots: u32,
    pub(crate) speed: Speed,
    /// The resources that it has for jobs whose `Needs` name them.
    pub(crate) offers: Box<Offers>,
    pub(crate) owner: OwnerState,
    pub(crate) presence: Presence,
    pub(crate) liveness: Liveness,
    pub(crate) draining: bool,
    /// Whether its worker is about to leave.
    pub(crate) closing: bool,
    /// Its state as last announced.
    pub(crate) state: HostState,
    /// The owner's reason as last announced.
    announced: Option<YieldReason>,
    /// The number of lists of `Held` attempts that it has sent.
    pub(crate) beat: u32,
    /// The time of its last message in this incarnation of the master.
    pub(crate) heard: Option<Time>,
    /// The time of the message before that.
    pub(crate) heard_before: Option<Time>,
    /// The start of its silence; pauses of the master move it on.
    pub(crate) silent_since: Time,
    /// Whether it was silent and has not said since what it holds.
    pub(crate) back: bool,
    /// The time at which its connection was lost; `None` while connected, or if it never was.
    pub(crate) parted: Option<Time>,
    /// How it was lost.
    pub(crate) how: Parting,
    /// The time at which an attempt last ended on it.
    pub(crate) ended: Option<Time>,
    /// Its live attempts.
    pub(crate) books: HostAttempts,
    /// The room reserved for gangs.
    pub(crate) reserved: Room,
    /// The room that it lacks for a task for which what gets free there is saved up; none of it goes
    /// to other tasks.
    pub(crate) saved: Room,
    /// Whether it holds more than it lends, through no fault of the scheduler's: it was found to,
    /// or lends less than before.
    pub(crate) excused: bool,
    /// Whether its identity was revoked: it never comes back.
    pub(crate) revoked: bool,
    /// `delivered` counts the completions of live attempts that it delivered, `finished` its
    /// successes; both in this incarnation.
    pub(crate) delivered: u64,
    pub(crate) finished: u64,
    /// Its place among all hosts.
    place: Place,
    /// The time at which its silence is checked next.
    check: Option<Time>,
    /// The next check of its `backlog`, while it holds more attempts than slots.
    pub(crate) watch: Option<BacklogCheck>,
    /// Attempts that were lost with it, in this incarnation.
    pub(crate) lost: u64,
    pub(crate) since: Time,
    /// The part of a slot's processor that tasks get, as last reported.
    pub(crate) cpu: f64,
    /// Its processor shares up to `cpu_seen`.
    pub(crate) shares: SharesSeen,
    pub(crate) usual_share: UsualShare,
    /// `up_since` is when it came up, `owner_since` when its `owner` last changed.
    pub(crate) up_since: Time,
    pub(crate) owner_since: Time,
    /// The starts of the observed time: its uptime from `up_seen`, its owner from `owner_seen`, and
    /// `cpu_seen` when its processor share was last reported.
    pub(crate) up_seen: Time,
    pub(crate) owner_seen: Time,
    pub(crate) cpu_seen: Time,
    /// Its recent behaviour, and the `Temper` derived from it.
    pub(crate) habit: Habit,
    pub(crate) temper: Temper,
    /// Its availability on earlier days, as a `TrackRecord`.
    pub(crate) record: Option<TrackRecord>,
    /// The law of its idle windows' lengths, where known.
    pub(crate) windows: Option<Box<Windows>>,
    /// The time until which its owner lends it, where known.
    pub(crate) lent: Option<HostLoan>,
    /// `party` is one host of its owner, the same for all of them; `valid` is how many of its
    /// results in a row agreed with others'.
    pub(crate) party: HostId,
    pub(crate) valid: u32,
    /// Its failures for which it is held responsible, and its `Bench`, if any.
    pub(crate) trouble: Option<Box<Trouble>>,
    /// Its speed and record as counted in [`Fleet`].
    counted: Option<(Speed, Option<TrackRecord>)>,
}

/// The processor shares that a host reported so far, while its owner let tasks run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct SharesSeen {
    /// The length of that time, in seconds.
    time_s: f64,
    /// The processor time of one slot in it, in seconds.
    processor_s: f64,
}

impl SharesSeen {
    /// Adds some time with this share.
    pub(crate) fn add(&mut self, time_s: f64, share: f64) {
        self.time_s += time_s;
        self.processor_s += time_s * share;
    }

    /// Returns the mean share since `before`; `None` where nothing was added since.
    pub(crate) fn mean_since(self, before: Self) -> Option<f64> {
        let time_s = self.time_s - before.time_s;
        (time_s > 1e-6).then(|| (self.processor_s - before.processor_s) / time_s)
    }
}

/// The processor share that is usual on a host: the mean of those that it reported, the latest of which
/// count the most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct UsualShare {
    /// The weighted time, in seconds, and the processor time of one slot in it.
    seen: SharesSeen,
    /// The weight of what is common to all hosts, in seconds.
    common_s: f64,
}

impl Default for UsualShare {
    fn default() -> Self {
        Self {
            seen: SharesSeen::default(),
            common_s: 30.0,
        }
    }
}

impl UsualShare {
    /// The time, in seconds, after which a share counts `1 / e` of the latest one.
    const FORGOTTEN_S: f64 = 600.0;
    /// The longest time, in seconds, that one report stands for: after it nothing is known.
    const MOST_S: f64 = 120.0;

    /// Adds some time with this share.
    pub(crate) fn add(&mut self, time_s: f64, share: f64) {
        let kept = (-time_s.min(Self::MOST_S) / Self::FORGOTTEN_S).exp();
        self.common_s *= kept;
        self.seen.time_s *= kept;
        self.seen.processor_s *= kept;
        // The time that is added loses weight from its end to its beginning.
        self.seen.add(Self::FORGOTTEN_S * (1.0 - kept), share);
    }

    /// Returns the mean, where `common` is that of all hosts.
    pub(crate) fn mean(self, common: f64) -> f64 {
        let processor_s = self.seen.processor_s + self.common_s * common;
        processor_s / (self.seen.time_s + self.common_s)
    }
}

/// A host's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It held attempts before the master restarted, and has not joined since. Shown as suspect
    /// from the start. Its silence counts as with any other host, so that the tasks of a fleet that
    /// is about to reconnect are not duplicated.
    Awaited,
    Connected,
    Disconnected,
    /// It shut down in order.
    Left,
}

/// The next check of a host's backlog.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BacklogCheck {
    /// The time of the next check.
    pub(crate) at: Time,
    /// The host's `delivered` at the last check.
    delivered: u64,
    /// The number of checks in a row at which nothing had been delivered.
    pub(crate) quiet: u32,
}

/// A host's liveness, by its heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    Alive,
    Suspect,
    Lost,
}

/// The silence after which a host is not expected back.
pub const GONE_AFTER: Span = Span::from_secs(30 * 86_400);

/// A host's claim may exceed the time that it had by this span and one part in `SLACK_PART`: clocks differ.
const SLACK: Span = Span::from_secs(60);
const SLACK_PART: u64 = 16;

/// A live attempt, as its host sees it; the task's side is `LiveCopy`.
#[derive(Debug, Clone)]
pub(crate) struct HostAttempt {
    pub(crate) phase: Phase,
    pub(crate) ran: Span,
    pub(crate) progress: Option<f32>,
    pub(crate) assigned: Time,
    /// The earliest time at which it can have begun. Unlike `assigned` it is not moved by a pause of the master.
    pub(crate) since: Time,
    /// The time of its host's last report on it, if any.
    pub(crate) noted: Option<Time>,
    /// The time since which its inputs are fetched, if they are.
    pub(crate) staging_since: Option<Time>,
    /// `suspended_since` is set while it is suspended; `suspended` is the time suspended before
    /// that.
    pub(crate) suspended_since: Option<Time>,
    pub(crate) suspended: Span,
    /// The processor time that its whole tree took, once that is known.
    pub(crate) cpu: Option<Span>,
    /// The part of its task that was done when it started, from a checkpoint.
    pub(crate) resumed: f64,
    /// The `SharesSeen` of its host when it was assigned.
    pub(crate) shares: SharesSeen,
    /// Its `Demand`, as counted in `HostAttempts`.
    pub(crate) takes: Demand,
    /// The longest time for which it may run, as its host was told; `None` also where that was in an
    /// earlier life of the master.
    pub(crate) limit: Option<Span>,
    pub(crate) duplicate: bool,
    /// Whether it is frozen and takes no slot; `made_room_for` is the task for which it was
    /// preempted, where known.
    pub(crate) frozen: bool,
    pub(crate) made_room_for: Option<TaskId>,
    /// Whether it was told to stop; only its host does not know yet.
    pub(crate) stopping: bool,
    /// The host's `beat` when the attempt was assigned or last listed.
    pub(crate) seen: u32,
}

impl HostAttempt {
    /// The load of an attempt just assigned to a host whose last list had the number `beat`.
    pub(crate) fn assigned(now: Time, duplicate: bool, beat: u32) -> Self {
        Self {
            phase: Phase::Queued,
            ran: Span::ZERO,
            progress: None,
            noted: None,
            staging_since: None,
            suspended_since: None,
            suspended: Span::ZERO,
            cpu: None,
            resumed: 0.0,
            shares: SharesSeen::default(),
            takes: Demand::PLAIN,
            limit: None,
            assigned: now,
            since: now,
            duplicate,
            frozen: false,
            made_room_for: None,
            stopping: false,
            seen: beat,
        }
    }

    /// Whether its task counts as one that its user has running: it is neither frozen nor suspended.
    pub(crate) fn counts_as_running(&self) -> bool {
        !self.frozen && !matches!(self.phase, Phase::Suspended(_))
    }

    /// Returns as much of a time that its host claims for it as can be true.
    pub(crate) fn possible(&self, claimed: Span, now: Time) -> Span {
        within(claimed, now.since(self.since))
    }

    /// Returns its reported run time, as far as it can have run since it came on the books.
    pub(crate) fn ran_here(&self, now: Time) -> Span {
        within(self.ran, now.since(self.assigned))
    }
}

/// Bounds a claimed time by the time that there was, with some slack.
fn within(claimed: Span, had: Span) -> Span {
    claimed.min(had + SLACK + Span(had.0 / SLACK_PART))
}

impl Host {
    /// A host of which only its id is known.
    fn awaited(id: HostId, now: Time) -> Self {
        Self {
            id,
            slots: 0,
            speed: Speed::REFERENCE,
            offers: Box::default(),
            record: None,
            windows: None,
            lent: None,
            habit: Habit::default(),
            temper: Temper::COMMON,
            owner: OwnerState::Away,
            cpu: 1.0,
            shares: SharesSeen::default(),
            usual_share: UsualShare::default(),
            up_since: now,
            owner_since: now,
            up_seen: now,
            owner_seen: now,
            cpu_seen: now,
            presence: Presence::Awaited,
            draining: false,
            closing: false,
            liveness: Liveness::Alive,
            heard: None,
            heard_before: None,
            silent_since: now,
            back: false,
            parted: None,
            ended: None,
            how: Parting::Silent,
            check: None,
            watch: None,
            delivered: 0,
            beat: 0,
            books: HostAttempts::default(),
            reserved: Room::default(),
            saved: Room::default(),
            excused: false,
            revoked: false,
            state: HostState::Suspect,
            announced: None,
            since: now,
            place: Place::NONE,
            party: id,
            valid: 0,
            trouble: None,
            counted: None,
            finished: 0,
            lost: 0,
        }
    }

    /// Whether new work can be sent to it, if it has `free_slots`.
    pub(crate) fn takes_work(&self) -> bool {
        self.lets_go_on() && !self.draining && !self.closing && self.bench_lets()
    }

    /// Whether it could take work at some time: it was neither revoked nor away for [`GONE_AFTER`].
    pub(crate) fn is_expected(&self, now: Time) -> bool {
        let is_away = self.presence != Presence::Connected;
        let is_gone = is_away && now.since(self.silent_since) > GONE_AFTER;
        !(self.revoked || is_gone)
    }

    /// Whether the attempts on it can go on: it is connected and `Alive`, and its owner lets them.
    pub(crate) fn lets_go_on(&self) -> bool {
        self.presence == Presence::Connected
            && self.liveness == Liveness::Alive
            && self.owner.lets_run()
    }

    /// Whether it holds frozen attempts, and has a slot for one.
    pub(crate) fn may_thaw(&self) -> bool {
        self.books.frozen() > 0 && self.lets_go_on() && self.free_slots() > 0
    }

    /// Whether the time can be predicted from which tasks run there: it is `Alive`, and neither
    /// disconnected nor paused by its owner.
    pub(crate) fn foreseen(&self) -> bool {
        let paused =
            !self.owner.lets_run() && self.owner.reason() == Some(YieldReason::PausedByOwner);
        self.liveness == Liveness::Alive && self.presence != Presence::Disconnected && !paused
    }

    /// Returns the number of live attempts that take a slot or wait for one.
    pub(crate) fn in_slots(&self) -> usize {
        self.books.len() - self.books.frozen() as usize
    }

    /// Returns when the work that would be lost with a live attempt began, as far as known.
    pub(crate) fn began(&self, load: &HostAttempt, start_cost: Span) -> Time {
        match load.noted {
            Some(noted) if load.phase.executing() => noted - load.ran,
            _ => load.assigned + start_cost,
        }
    }

    /// Whether the owner keeps an attempt in this phase from running.
    pub(crate) fn holds_still(&self, phase: Phase) -> bool {
        match self.owner {
            _ if phase == Phase::Held => true,
            OwnerState::Away => false,
            OwnerState::Sharing(..) if self.owner.lets_run() => {
                matches!(phase, Phase::Suspended(_))
            }
            OwnerState::Present(_) | OwnerState::Sharing(..) => true,
        }
    }

    /// Returns the attempts beyond its slots that have not begun, the latest ones: those that it
    /// can return while its slots are taken.
    pub(crate) fn backlog(&self) -> Vec<AttemptId> {
        let idle = |load: &HostAttempt| matches!(load.phase, Phase::Queued | Phase::Staging);
        let idle = self.books.iter().filter(|(_, load)| idle(load));
        let mut idle: Vec<_> = idle.map(|(id, load)| (load.assigned, *id)).collect();
        idle.sort_unstable();

        let running = self.in_slots().saturating_sub(idle.len());
        let next = (self.usable_slots() as usize).saturating_sub(running);
        idle.into_iter()
            .skip(next)
            .map(|(_, attempt)| attempt)
            .collect()
    }

    /// Returns the number of quiet checks of its `backlog` in a row, this one included: checks at
    /// which nothing new was delivered.
    pub(crate) fn quiet_looks(&self) -> u32 {
        self.watch
            .filter(|watch| watch.delivered == self.delivered)
            .map_or(0, |watch| watch.quiet + 1)
    }

    /// Returns the reason that keeps an attempt in this phase from going on. An attempt that has
    /// not begun to execute when the owner returns is given back by the worker and needs no rescue.
    pub(crate) fn hold_up(&self, phase: Phase) -> Option<CopyReason> {
        if self.liveness != Liveness::Alive {
            return Some(CopyReason::Suspect);
        }
        if phase == Phase::Held {
            return Some(CopyReason::Frozen);
        }
        let reason = self
            .owner
            .reason()
            .filter(|_| phase.executing() && self.holds_still(phase));
        reason.map(CopyReason::Suspended)
    }

    /// Returns its silence, while its attempts may be gone.
    pub(crate) fn silence(&self, now: Time) -> Option<Silence> {
        let silent = self.parted.is_some() || self.liveness == Liveness::Suspect;
        silent.then(|| Silence {
            span: now.since(self.parted.unwrap_or(self.silent_since)),
            how: self.how,
        })
    }

    fn present_state(&self) -> HostState {
        match (self.liveness, self.owner) {
            (Liveness::Lost, _) => HostState::Lost,
            (Liveness::Suspect, _) => HostState::Suspect,
            _ if self.presence == Presence::Awaited => HostState::Suspect,
            (Liveness::Alive, _) if self.draining || self.closing => HostState::Draining,
            (Liveness::Alive, owner) if !owner.lets_run() => HostState::Suspended,
            (Liveness::Alive, _) if self.bench().is_some() => HostState::Benched,
            (Liveness::Alive, _) if self.free_slots() == 0 => HostState::Busy,
            (Liveness::Alive, _) => HostState::Ready,
        }
    }
}

/// All hosts, and the indices over them.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    pub(crate) table: Dense<HostId, Host>,
    pub(crate) index: Index,
}

/// Indices over the hosts' states, kept up to date by [`Index::update`].
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// All hosts that take work, for tasks without needs; `pools` has those that suit others.
    pub(crate) all: Places,
    pub(crate) pools: Pools,
    /// The number of times that a host came or its offers changed, and the hosts for which that
    /// happened since `unpark` looked.
    pub(crate) offered: u64,
    pub(crate) changed: BTreeSet<HostId>,
    /// Running attempts that may be preempted, see `PreemptibleAttempts`.
    pub(crate) standing: PreemptibleAttempts,
    /// Hosts that hold attempts, and until the end of the step those that did.
    busy: Dense<HostId, ()>,
    /// Ready hosts that hold frozen attempts, and were not set aside since they changed.
    pub(crate) thawable: BTreeSet<HostId>,
    /// The others, where only the bounds of these users keep such attempts from going on.
    pub(crate) set_aside: BTreeMap<u32, BTreeSet<HostId>>,
    pub(crate) partings: Partings,
    /// The next check of each host's silence.
    pub(crate) checks: BTreeSet<(Time, HostId)>,
    /// The next check of each host's backlog.
    pub(crate) backlogs: BTreeSet<(Time, HostId)>,
    /// The time at which each benched host may get its next task.
    pub(crate) benches: BTreeSet<(Time, HostId)>,
    /// Hosts of `Host::saved`, each with the job for which it is.
    pub(crate) saved: Vec<(HostId, JobId)>,
    /// Hosts with a loan in `Host::lent`.
    pub(crate) lent: BTreeSet<HostId>,
    /// The number of the gap at which the next turn of `windows::backfill` begins.
    pub(crate) gaps_from: usize,
    /// All hosts whose speed is known.
    pub(crate) fleet: Fleet,
    /// Hosts whose state may have changed in this step.
    pub(super) touched: Vec<HostId>,
}

impl Index {
    /// Notes that the host came or its offers changed.
    fn note_offers(&mut self, id: HostId) {
        self.offered += 1;
        self.changed.insert(id);
    }

    /// Has jobs ask anew for hosts that they declined.
    pub(crate) fn note_arrival(&mut self) {
        self.all.ready.arrivals += 1;
        self.pools.note_arrival();
    }

    /// Updates the indices after the host changed, and notes it for [`Hosts::announce`].
    pub(crate) fn update(&mut self, host: &mut Host, now: Time) {
        let takes_work = host.takes_work();
        if host.place.is_usable() != (takes_work && host.usable_slots() > 0)
            && !self.standing.is_bare()
        {
            host.books
                .attempts()
                .for_each(|attempt| self.standing.open(attempt, takes_work));
        }
        if host.excused {
            host.excused = false;
            host.excused = host.is_overcommitted();
        }

        if host.books.len() > 0 {
            self.busy.insert(host.id, ());
        }
        if host.may_thaw() {
            self.thawable.insert(host.id);
        } else if !self.thawable.is_empty() {
            self.thawable.remove(&host.id);
        }

        let slots = host.most_at_once(Demand::PLAIN).filter(|_| takes_work);
        let ready = takes_work && host.free_slots() > 0;
        let usable = (slots, host.speed);
        self.all.shift(host.id, &mut host.place, usable, ready, now);
        self.pools.update(host, now);

        if self.touched.last() != Some(&host.id) {
            self.touched.push(host.id);
        }
    }

    /// Whether the host is listed where it should be, and nowhere else but among the busy ones of this step.
    pub(crate) fn lists(&self, host: &Host) -> bool {
        let ready = host.takes_work() && host.free_slots() > 0;
        self.all.agrees(host.id, &host.place, ready)
            && self.pools.agree(host)
            && (host.books.len() == 0 || self.busy.get(&host.id).is_some())
    }

    /// Returns the time since which the host is among the ready ones for tasks of this pool.
    pub(crate) fn ready_since(&self, pool: Option<PoolId>, host: &Host) -> Option<Time> {
        match pool.and_then(|id| self.pools.get(id)) {
            Some(pool) => pool.ready_since(host.id),
            None => host.place.ready_since(),
        }
    }

    /// Returns the hosts for tasks of this pool; all hosts for those without one.
    pub(crate) fn places(&self, pool: Option<PoolId>) -> &Places {
        pool.and_then(|id| self.pools.get(id))
            .map_or(&self.all, |pool| &pool.places)
    }

    /// Schedules the check of the host's silence for `at`, in place of the one planned before.
    pub(crate) fn check_at(&mut self, host: &mut Host, at: Option<Time>) {
        move_to(&mut self.checks, &mut host.check, at, host.id);
    }

    /// Schedules the check of the host's backlog for `at`, in place of the one planned before;
    /// `quiet` checks in a row found nothing delivered.
    pub(crate) fn watch_backlog(&mut self, host: &mut Host, at: Option<Time>, quiet: u32) {
        let watch = at.map(|at| BacklogCheck {
            at,
            delivered: host.delivered,
            quiet,
        });
        if let Some(old) = std::mem::replace(&mut host.watch, watch) {
            self.backlogs.remove(&(old.at, host.id));
        }
        self.backlogs.extend(at.map(|at| (at, host.id)));
    }
}

impl Hosts {
    /// Returns the hosts that hold attempts, perhaps with some that did before this step.
    pub(crate) fn busy(&self) -> impl Iterator<Item = &Host> {
        let busy = self.index.busy.keys();
        busy.filter_map(|id| self.table.get(&id))
    }

    /// Returns the number of hosts of each speed that take work, busy or not, among those for tasks
    /// of this pool.
    fn speeds(&self, pool: Option<PoolId>) -> &BTreeMap<Speed, u32> {
        match pool.and_then(|id| self.index.pools.get(id)) {
            Some(pool) => pool.speeds(),
            None => self
                .index
                .all
                .speeds(self.table.values().map(|host| &host.place)),
        }
    }

    /// Whether the hosts that take work are all of one speed.
    pub(crate) fn alike(&self) -> bool {
        self.speeds(None).len() <= 1
    }

    /// Speed of the fastest host that takes work and suits jobs of this pool, busy or not.
    pub(crate) fn fastest(&self, pool: Option<PoolId>) -> Option<Speed> {
        self.speeds(pool).last_key_value().map(|(speed, _)| *speed)
    }

    /// Whether the host's `offers` meet these needs.
    pub(crate) fn offer(&self, id: HostId, needs: &Needs) -> bool {
        let suits = |host: &Host| host.suits(needs);
        // Most jobs need nothing: not worth a search.
        needs.is_plain() || self.table.get(&id).is_some_and(suits)
    }

    /// Whether the host has room for an attempt of this demand now.
    pub(crate) fn has_room(&self, id: HostId, takes: Demand) -> bool {
        self.table
            .get(&id)
            .is_some_and(|host| host.room_for(takes) > 0)
    }

    /// Sets the host's `offers`.
    pub(crate) fn set_offers(&mut self, id: HostId, offers: Offers, now: Time) {
        let host = self.entry(id, now);
        *host.offers = offers;
        self.index.note_offers(id);
        self.index_anew(id, now);
    }

    /// Reindexes the host after its `lent_room` has changed.
    pub(crate) fn index_anew(&mut self, id: HostId, now: Time) {
        let Some(host) = self.table.at_mut(&id) else {
            return;
        };
        host.excused = true;
        self.index.update(host, now);
        self.index.pools.qualify(host, now);
    }

    /// Returns the hosts with room for another task, the one that has had it longest first.
    pub(crate) fn ready(&self) -> impl Iterator<Item = &Host> {
        let ready = self.index.all.ready.by_since();
        ready.filter_map(|id| self.table.get(&id))
    }

    /// Returns the party of this host; an unknown one is a party of its own.
    pub(crate) fn party(&self, id: HostId) -> HostId {
        self.table.get(&id).map_or(id, |host| host.party)
    }

    /// Returns the pool for a job that has come with these `Needs`.
    pub(crate) fn pool(&mut self, needs: &Needs, now: Time) -> Option<PoolId> {
        self.index.pools.enter(needs, self.table.values(), now)
    }

    /// The host, made if it is not there.
    pub(crate) fn entry(&mut self, id: HostId, now: Time) -> &mut Host {
        let new = self.table.get(&id).is_none();
        let host = self.table.entry(id, || Host::awaited(id, now));
        if new {
            self.index.note_offers(id);
            self.index.pools.qualify(host, now);
        }
        host
    }

    /// Counts the host's speed and record in the `Fleet` after either became known.
    pub(crate) fn count(&mut self, id: HostId) {
        let Some(host) = self.table.at_mut(&id) else {
            return;
        };
        let counted = Some((host.speed, host.record));
        if host.counted != counted {
            if let Some((speed, record)) = std::mem::replace(&mut host.counted, counted) {
                self.index.fleet.count(-1, speed, record);
            }
            self.index.fleet.count(1, host.speed, host.record);
        }
    }

    pub(crate) fn get(&mut self, id: HostId) -> Option<&mut Host> {
        self.table.at_mut(&id)
    }

    /// Returns an attempt on the books of this host, with the host.
    pub(crate) fn on_books(&self, id: HostId, attempt: AttemptId) -> Option<(&Host, &HostAttempt)> {
        let host = self.table.get(&id)?;
        Some((host, host.books.get(&attempt)?))
    }

    /// Ends the step: emits `HostChanged` for each host whose state or owner's reason changed in it.
    pub(crate) fn announce(&mut self, now: Time, fx: &mut Vec<Effect>) {
        for id in self.index.touched.drain(..) {
            let Some(host) = self.table.at_mut(&id) else {
                continue;
            };
            if host.books.len() == 0 {
                self.index.busy.remove(&id);
            }
            let state = host.present_state();
            let owner = host.owner.reason();

            if (state, owner) != (host.state, host.announced) {
                if state != host.state {
                    host.since = now;
                }
                host.state = state;
                host.announced = owner;
                fx.push(Effect::HostChanged {
                    host: id,
                    state,
                    owner,
                });
            }
        }
    }

    /// Removes a live attempt from the host's books as its completion is delivered. Returns its
    /// load and the host's speed.
    pub(crate) fn deliver(
        &mut self,
        id: HostId,
        attempt: AttemptId,
        success: bool,
        now: Time,
    ) -> Option<(HostAttempt, Speed)> {
        let load = self.take(id, attempt, now)?;
        let host = self.get(id)?;
        host.delivered += 1;
        host.finished += u64::from(success);
        Some((load, host.speed))
    }

    /// Stops a live attempt; emits its stop and its end. Its slot becomes free at once or, with
    /// `Settings::stops_when_reported`, when the host's next report lacks it.
    pub(crate) fn stop(
        &mut self,
        host: HostId,
        attempt: AttemptId,
        why: EndReason,
        settings: &Settings,
        now: Time,
        fx: &mut Vec<Effect>,
    ) {
        let load = self.get(host).and_then(|host| host.books.at_mut(&attempt));
        match load {
            Some(load) if settings.stops_when_reported => {
                load.stopping = true;
                self.index.standing.remove(attempt);
            }
            _ => drop(self.take(host, attempt, now)),
        }

        fx.push(Effect::Stop {
            host,
            attempt,
            why: why.clone(),
        });
        fx.push(Effect::Ended { host, attempt, why });
    }

    /// Removes a live attempt from the host's `books`.
    pub(crate) fn take(
        &mut self,
        id: HostId,
        attempt: AttemptId,
        now: Time,
    ) -> Option<HostAttempt> {
        let host = self.table.at_mut(&id)?;
        let load = host.books.remove(&attempt)?;
        self.index.standing.remove(attempt);
        self.index.update(host, now);
        Some(load)
    }
}

/// Returns the time for which a live attempt has run, in seconds; its start takes `start_cost` if
/// nothing was reported of it.
pub(crate) fn ran_s(host: &Host, load: &HostAttempt, start_cost: Span, now: Time) -> f64 {
    match load.noted {
        Some(noted) if load.phase.executing() => {
            let since = if host.holds_still(load.phase) {
                Span::ZERO
            } else {
                now.since(noted)
            };
            load.ran.secs() + since.secs()
        }
        _ => now.since(load.assigned + start_cost).secs(),
    }
}
