//! The books of the hosts: what each one is, holds and may take. What is not here: decisions, and
//! tasks.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use common::attempt::Phase;
use common::host::{Offers, OwnerState, YieldReason};
use common::job::Needs;
use common::view::HostState;
use common::{AttemptId, HostId, Span, Speed, TaskId, Time};

use crate::collections::dense::Dense;
use crate::prediction::experience::{Habit, Temper, TrackRecord};
use crate::prediction::reservation::Windows;
use crate::protocol::effect::{CopyReason, Effect};
use crate::state::blame::Trouble;
use crate::state::books::Books;
use crate::state::fleet::Fleet;
use crate::state::owner_hours::Lent;
use crate::state::preemptible::Standing;
use crate::state::ready::ReadyHosts;

/// A host. What each event touches comes first and lies together: with thousands of hosts, finding
/// it in memory is most of the cost.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Host {
    pub(crate) id: HostId,
    pub(crate) slots: u32,
    pub(crate) speed: Speed,
    /// What it has for jobs that ask for it.
    pub(crate) offers: Offers,
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
    /// Counts the lists of held attempts that it sent.
    pub(crate) beat: u32,
    /// Its slots as counted among the usable ones, if it has any.
    usable_slots: Option<NonZeroU32>,
    /// When it was last heard of, in this incarnation.
    pub(crate) heard: Option<Time>,
    /// From when on its silence counts; pauses of the master move it on.
    pub(crate) silent_since: Time,
    /// Since when it has not been connected, if it is not though it was.
    pub(crate) parted: Option<Time>,
    /// Its live attempts, and how many of them are frozen and take no slot.
    pub(crate) books: Books,
    pub(crate) frozen: u32,
    /// Slots that are kept free for jobs of several ranks.
    pub(crate) reserved: u32,
    /// Completions of live attempts that it delivered, and attempts that succeeded here, in this
    /// incarnation.
    pub(crate) delivered: u64,
    pub(crate) finished: u64,
    /// Since when it has been one of the ready hosts, while it is.
    ready: Option<Time>,
    /// Its speed as counted among the usable ones, if it is; by that it is found among the ready
    /// hosts as well.
    usable_speed: Speed,
    /// When its silence is looked at next.
    check: Option<Time>,
    /// While it holds more than its slots.
    pub(crate) watch: Option<Watch>,
    /// Attempts that were lost with it, in this incarnation.
    pub(crate) lost: u64,
    pub(crate) since: Time,
    /// The part of a slot's processor that tasks can have, as last said.
    pub(crate) cpu: f64,
    /// Since when it has been up, and its owner as now.
    pub(crate) up_since: Time,
    pub(crate) owner_since: Time,
    /// From when on it is watched in that, and when its processor share was last said.
    pub(crate) up_seen: Time,
    pub(crate) owner_seen: Time,
    pub(crate) cpu_seen: Time,
    /// What it did lately, and what follows from that.
    pub(crate) habit: Habit,
    pub(crate) temper: Temper,
    /// How it was available on earlier days.
    pub(crate) record: Option<TrackRecord>,
    /// How long its idle windows last, where that is known.
    pub(crate) windows: Option<Box<Windows>>,
    /// Until when its owner lends it, where that is known.
    pub(crate) lent: Option<Lent>,
    /// One host of its owner's, the same for all of them; and how many of its results in a row
    /// agreed with others'.
    pub(crate) party: HostId,
    pub(crate) valid: u32,
    /// What it is held responsible for, if anything.
    pub(crate) trouble: Option<Box<Trouble>>,
    /// Its speed and rate as counted in the fleet.
    counted: Option<(Speed, Option<TrackRecord>)>,
}

/// Whether it can be talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It held attempts before the master restarted, and has not joined since. Shown as suspect
    /// from the start; its silence counts as with any other host, so that a fleet which is about to
    /// reconnect is not duplicated.
    Awaited,
    Connected,
    Disconnected,
    /// It shut down in order.
    Left,
}

/// How a backlog is watched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch {
    /// When it is looked at next.
    pub(crate) at: Time,
    /// The host's `delivered` at the last look.
    delivered: u64,
    /// How many looks in a row found that nothing had been delivered.
    pub(crate) quiet: u32,
}

/// What its heartbeats say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    Alive,
    Suspect,
    Lost,
}

/// A live attempt, as its host sees it.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) phase: Phase,
    pub(crate) ran: Span,
    pub(crate) progress: Option<f32>,
    pub(crate) assigned: Time,
    /// When its host last reported it, if ever.
    pub(crate) noted: Option<Time>,
    /// Since when it has been suspended, if it is; and for how long it was before that.
    pub(crate) suspended_since: Option<Time>,
    pub(crate) suspended: Span,
    /// The part of its task that was done when it started, from a checkpoint.
    pub(crate) resumed: f64,
    pub(crate) duplicate: bool,
    /// Whether it was told to stand still, and takes no slot; and for which task, as far as is
    /// known.
    pub(crate) frozen: bool,
    pub(crate) made_room_for: Option<TaskId>,
    /// Whether it was told to stop, and only its host does not know yet.
    pub(crate) stopping: bool,
    /// The host's `beat` when the attempt was assigned or last listed.
    pub(crate) seen: u32,
}

impl Load {
    /// What has just been given to a host, after its list number `beat`.
    pub(crate) fn assigned(now: Time, duplicate: bool, beat: u32) -> Self {
        Self {
            phase: Phase::Queued,
            ran: Span::ZERO,
            progress: None,
            noted: None,
            suspended_since: None,
            suspended: Span::ZERO,
            resumed: 0.0,
            assigned: now,
            duplicate,
            frozen: false,
            made_room_for: None,
            stopping: false,
            seen: beat,
        }
    }
}

impl Host {
    /// A host of which nothing is known but that it should be there.
    fn awaited(id: HostId, now: Time) -> Self {
        Self {
            id,
            slots: 0,
            speed: Speed::REFERENCE,
            offers: Offers::default(),
            record: None,
            windows: None,
            lent: None,
            habit: Habit::default(),
            temper: Temper::COMMON,
            owner: OwnerState::Away,
            cpu: 1.0,
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
            silent_since: now,
            parted: None,
            check: None,
            watch: None,
            delivered: 0,
            beat: 0,
            books: Books::default(),
            reserved: 0,
            frozen: 0,
            state: HostState::Suspect,
            announced: None,
            since: now,
            ready: None,
            usable_speed: Speed::REFERENCE,
            usable_slots: None,
            party: id,
            valid: 0,
            trouble: None,
            counted: None,
            finished: 0,
            lost: 0,
        }
    }

    /// Whether new work can be sent to it, if it has room.
    pub(crate) fn takes_work(&self) -> bool {
        self.lets_go_on() && !self.draining && !self.closing && self.bench_lets()
    }

    /// Whether what it holds can go on.
    pub(crate) fn lets_go_on(&self) -> bool {
        self.presence == Presence::Connected
            && self.liveness == Liveness::Alive
            && self.owner.lets_run()
    }

    /// Whether it can be told, if only by what is usual, when it lets tasks go on.
    pub(crate) fn foreseen(&self) -> bool {
        let paused =
            !self.owner.lets_run() && self.owner.reason() == Some(YieldReason::PausedByOwner);
        self.liveness == Liveness::Alive && self.presence != Presence::Disconnected && !paused
    }

    /// How many of its slots its owner lets tasks use.
    pub(crate) fn usable_slots(&self) -> u32 {
        self.owner.slots(self.slots)
    }

    /// Its slots and its speed as they are counted among the usable ones.
    fn counted_usable(&self) -> Option<(u32, Speed)> {
        self.usable_slots
            .map(|slots| (slots.get(), self.usable_speed))
    }

    pub(crate) fn free_slots(&self) -> usize {
        (self.usable_slots() as usize)
            .saturating_sub(self.in_slots())
            .saturating_sub(self.reserved as usize)
    }

    /// How many live attempts take a slot, or wait for one.
    pub(crate) fn in_slots(&self) -> usize {
        self.books.len().saturating_sub(self.frozen as usize)
    }

    /// Has a live attempt stand still for another's sake, or go on.
    pub(crate) fn hold(&mut self, attempt: &AttemptId, frozen: bool) {
        if let Some(load) = self
            .books
            .at_mut(attempt)
            .filter(|load| load.frozen != frozen)
        {
            load.frozen = frozen;
            self.frozen = if frozen {
                self.frozen + 1
            } else {
                self.frozen.saturating_sub(1)
            };
        }
    }

    /// When the work that would be lost with a live attempt was begun, as far as is known.
    pub(crate) fn began(&self, load: &Load, start_cost: Span) -> Time {
        match load.noted {
            Some(noted) if load.phase.executing() => noted - load.ran,
            _ => load.assigned + start_cost,
        }
    }

    /// Takes a live attempt off the books.
    fn remove(&mut self, attempt: &AttemptId) -> Option<Load> {
        let load = self.books.remove(attempt)?;
        self.frozen -= u32::from(load.frozen);
        Some(load)
    }

    /// Whether an attempt here in this phase is held still by the owner.
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

    /// Attempts beyond its slots that have not begun, the latest ones: what it can do without while
    /// its slots are taken.
    pub(crate) fn backlog(&self) -> Vec<AttemptId> {
        let idle = |load: &Load| matches!(load.phase, Phase::Queued | Phase::Staging);
        let mut idle: Vec<_> = self
            .books
            .iter()
            .filter(|(_, load)| idle(load))
            .map(|(id, l)| (l.assigned, *id))
            .collect();
        idle.sort_unstable();

        let running = self.in_slots().saturating_sub(idle.len());
        let next = (self.usable_slots() as usize).saturating_sub(running);
        idle.into_iter()
            .skip(next)
            .map(|(_, attempt)| attempt)
            .collect()
    }

    /// How many looks at its backlog in a row, this one included, find that nothing was delivered.
    pub(crate) fn quiet_looks(&self) -> u32 {
        self.watch
            .filter(|watch| watch.delivered == self.delivered)
            .map_or(0, |watch| watch.quiet + 1)
    }

    /// What keeps an attempt here in this phase from going on. One that an owner's return finds
    /// unexecuted is given back by the worker: nobody has to rescue it.
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

/// All hosts, and what is asked of them all at once.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    pub(crate) table: Dense<HostId, Host>,
    pub(crate) index: Index,
}

/// What follows from the hosts' states, kept up to date by [`Index::update`].
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) ready: ReadyHosts,
    /// Attempts that could make room.
    pub(crate) standing: Standing,
    /// Ready hosts that hold frozen attempts.
    pub(crate) thawable: BTreeSet<HostId>,
    /// When each host's silence is looked at next.
    pub(crate) checks: BTreeSet<(Time, HostId)>,
    /// When each backlog is looked at next.
    pub(crate) backlogs: BTreeSet<(Time, HostId)>,
    /// When each benched host may have its next task.
    pub(crate) benches: BTreeSet<(Time, HostId)>,
    /// Slots of hosts that take work, busy ones included, and the sum of their speeds in
    /// millionths.
    pub(crate) usable_slots: u64,
    usable_speed: u128,
    /// How many hosts of each speed take work. Kept from when it is first asked for.
    usable_speeds: OnceCell<BTreeMap<Speed, u32>>,
    /// Hosts that are lent for a time.
    pub(crate) lent: BTreeSet<HostId>,
    /// All hosts whose speed is known.
    pub(crate) fleet: Fleet,
    /// Hosts whose state may have changed in this step.
    touched: Vec<HostId>,
}

impl Index {
    /// Brings the host's places up to date after it changed, and notes it for [`Hosts::announce`].
    pub(crate) fn update(&mut self, host: &mut Host, now: Time) {
        let takes_work = host.takes_work();
        let slots = NonZeroU32::new(host.usable_slots()).filter(|_| takes_work);
        let usable = slots.map(|slots| (slots.get(), host.speed));

        let before = host.counted_usable();
        if usable.is_some() != before.is_some() && !self.standing.is_bare() {
            host.books
                .attempts()
                .for_each(|attempt| self.standing.open(attempt, takes_work));
        }

        if usable != before {
            let millionths =
                |(slots, speed): (u32, Speed)| u128::from(slots) * (speed.factor() * 1e6) as u128;
            self.usable_slots -= before.map_or(0, |(slots, _)| u64::from(slots));
            self.usable_slots += usable.map_or(0, |(slots, _)| u64::from(slots));
            self.usable_speed -= before.map_or(0, millionths);
            self.usable_speed += usable.map_or(0, millionths);

            if let Some(speeds) = self.usable_speeds.get_mut() {
                recount(
                    speeds,
                    before.map(|(_, speed)| speed),
                    usable.map(|(_, speed)| speed),
                );
            }
        }

        let ready = takes_work && host.free_slots() > 0;
        if host.frozen > 0 && host.lets_go_on() && host.free_slots() > 0 {
            self.thawable.insert(host.id);
        } else if !self.thawable.is_empty() {
            self.thawable.remove(&host.id);
        }

        if let Some(since) = host
            .ready
            .filter(|_| !ready || host.usable_speed != host.speed)
        {
            self.ready.remove(host.id, since, host.usable_speed);
            host.ready = None;
        }
        host.usable_slots = slots;
        host.usable_speed = host.speed;

        if ready && host.ready.is_none() {
            host.ready = Some(now);
            self.ready.insert(host.id, now, host.speed);
        }

        if self.touched.last() != Some(&host.id) {
            self.touched.push(host.id);
        }
    }

    /// Looks at the host's silence at `at` and not at the time planned before.
    pub(crate) fn check_at(&mut self, host: &mut Host, at: Option<Time>) {
        if host.check == at {
            return;
        }
        if let Some(old) = std::mem::replace(&mut host.check, at) {
            self.checks.remove(&(old, host.id));
        }
        if let Some(at) = at {
            self.checks.insert((at, host.id));
        }
    }

    /// Looks at the host's backlog at `at`, after so many quiet looks, and not at the time planned
    /// before.
    pub(crate) fn watch_backlog(&mut self, host: &mut Host, at: Option<Time>, quiet: u32) {
        let watch = at.map(|at| Watch {
            at,
            delivered: host.delivered,
            quiet,
        });
        if let Some(old) = std::mem::replace(&mut host.watch, watch) {
            self.backlogs.remove(&(old.at, host.id));
        }
        if let Some(at) = at {
            self.backlogs.insert((at, host.id));
        }
    }

    /// Mean speed of the slots that take work.
    pub(crate) fn mean_speed(&self) -> Option<f64> {
        (self.usable_slots > 0).then(|| self.usable_speed as f64 / 1e6 / self.usable_slots as f64)
    }
}

/// One host less of one speed, and one more of another.
fn recount(speeds: &mut BTreeMap<Speed, u32>, less: Option<Speed>, more: Option<Speed>) {
    if let Some(speed) = less
        && let Some(hosts) = speeds.get_mut(&speed)
    {
        *hosts -= 1;
        if *hosts == 0 {
            speeds.remove(&speed);
        }
    }
    if let Some(speed) = more {
        *speeds.entry(speed).or_default() += 1;
    }
}

impl Hosts {
    /// How many hosts of each speed take work, busy or not.
    fn speeds(&self) -> &BTreeMap<Speed, u32> {
        self.index.usable_speeds.get_or_init(|| {
            let mut speeds = BTreeMap::new();
            let usable = self.table.values().filter_map(Host::counted_usable);
            usable.for_each(|(_, speed)| recount(&mut speeds, None, Some(speed)));
            speeds
        })
    }

    /// Whether the hosts that take work are all of one speed.
    pub(crate) fn alike(&self) -> bool {
        self.speeds().len() <= 1
    }

    /// Speed of the fastest host that takes work, busy or not.
    pub(crate) fn fastest(&self) -> Option<Speed> {
        self.speeds().last_key_value().map(|(speed, _)| *speed)
    }

    /// Whether the host offers what is needed.
    pub(crate) fn offer(&self, id: HostId, needs: Needs) -> bool {
        // Most jobs need nothing: not worth a search.
        needs == Needs::default()
            || self
                .table
                .get(&id)
                .is_some_and(|host| needs.missing(host.offers).is_none())
    }

    /// The host, made if it is not there.
    pub(crate) fn entry(&mut self, id: HostId, now: Time) -> &mut Host {
        self.table.entry(id, || Host::awaited(id, now))
    }

    /// The host's speed, or its record, is known now.
    pub(crate) fn count(&mut self, id: HostId) {
        let Some(host) = self.table.at_mut(&id) else {
            return;
        };
        let counted = Some((host.speed, host.record));
        if host.counted != counted {
            if let Some((speed, record)) = std::mem::replace(&mut host.counted, counted) {
                self.index.fleet.remove(speed, record);
            }
            self.index.fleet.add(host.speed, host.record);
        }
    }

    pub(crate) fn get(&mut self, id: HostId) -> Option<&mut Host> {
        self.table.at_mut(&id)
    }

    /// Says which hosts are in another state than before the step.
    pub(crate) fn announce(&mut self, now: Time, fx: &mut Vec<Effect>) {
        for id in self.index.touched.drain(..) {
            let Some(host) = self.table.at_mut(&id) else {
                continue;
            };
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

    /// Takes a live attempt off the host's books whose completion it delivers; also says how fast
    /// it ran.
    pub(crate) fn deliver(
        &mut self,
        id: HostId,
        attempt: AttemptId,
        success: bool,
        now: Time,
    ) -> Option<(Load, Speed)> {
        let host = self.table.at_mut(&id)?;
        let load = host.remove(&attempt)?;
        self.index.standing.remove(attempt);
        host.delivered += 1;
        host.finished += u64::from(success);
        self.index.update(host, now);

        Some((load, host.speed))
    }

    /// A live attempt is to end. Its slot is free at once, or only when the host reports without
    /// it.
    pub(crate) fn stop(&mut self, id: HostId, attempt: AttemptId, now: Time, when_reported: bool) {
        let load = self
            .table
            .at_mut(&id)
            .and_then(|host| host.books.at_mut(&attempt));
        match load {
            Some(load) if when_reported => {
                load.stopping = true;
                self.index.standing.remove(attempt);
            }
            _ => drop(self.take(id, attempt, now)),
        }
    }

    /// Takes a live attempt off the host's books.
    pub(crate) fn take(&mut self, id: HostId, attempt: AttemptId, now: Time) -> Option<Load> {
        let host = self.table.at_mut(&id)?;
        let load = host.remove(&attempt)?;
        self.index.standing.remove(attempt);
        self.index.update(host, now);
        Some(load)
    }
}

/// What an attempt has done so far if it runs at its host's speed, in seconds on a host of speed 1.
pub(crate) fn elapsed_s(host: &Host, load: &Load, start_cost: Span, now: Time) -> f64 {
    let ran_s = match load.noted {
        Some(noted) if load.phase.executing() => {
            let since = if host.holds_still(load.phase) {
                Span::ZERO
            } else {
                now.since(noted)
            };
            load.ran.secs() + since.secs()
        }
        _ => now.since(load.assigned + start_cost).secs(),
    };
    ran_s * host.speed.factor()
}
