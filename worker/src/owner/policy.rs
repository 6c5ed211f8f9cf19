//! The owner's policy: a pure state machine that decides what tasks may do, from the sights of
//! sensors, the hours of the week and the time that passes. It reads no sensors and no clock.
//!
//! Each rule is a condition with delays both ways, so that a short spike neither freezes nor thaws
//! anything. A sensor that cannot see counts as the owner's presence. Of several reasons that hold,
//! the first is reported. The hard ones (`hard`) come first and leave no slot; input and load leave
//! the slots that the owner shares.

pub mod hours;
mod input;
mod latch;
#[cfg(test)]
mod tests;
mod words;

use common::host::{Loan, OwnerState, YieldReason};
use common::settings::ConfigDuration;
use common::{Span, Time};

use super::rules::{HostSize, OwnerRules, Whole, limit};
use super::sight::{Reading, Sight, Topic};
use hours::WeekTime;
use input::InputPolicy;
use latch::{Latch, Pull};

/// The decision on what tasks may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Tasks may use every slot.
    Run,
    /// Tasks may use this many slots; tasks beyond them are suspended.
    Yield(YieldReason, u32),
    /// All tasks are suspended.
    Freeze(YieldReason),
    /// All tasks are suspended, and suspended ones are given back at once.
    Evict(YieldReason),
}

impl std::fmt::Display for Decision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Decision::Run => f.write_str("tasks may run"),
            Decision::Yield(reason, slots) => write!(f, "tasks may use {slots} slots: {reason}"),
            Decision::Freeze(reason) => write!(f, "tasks are suspended: {reason}"),
            Decision::Evict(reason) => write!(f, "tasks are given back: {reason}"),
        }
    }
}

impl Decision {
    /// Returns the number of slots, of `all`, that may be used.
    pub fn slots(self, all: u32) -> u32 {
        self.owner(all).slots(all)
    }

    /// Returns the reason why not all may be used; `None` for [`Decision::Run`].
    pub fn reason(self) -> Option<YieldReason> {
        match self {
            Decision::Run => None,
            Decision::Yield(reason, _) | Decision::Freeze(reason) | Decision::Evict(reason) => {
                Some(reason)
            }
        }
    }

    /// Whether suspended tasks are given back.
    pub fn evicts(self) -> bool {
        matches!(self, Decision::Evict(_))
    }

    /// Returns the state that the master is told, by a worker with `all` slots.
    pub fn owner(self, all: u32) -> OwnerState {
        match self {
            Decision::Yield(reason, 0) | Decision::Freeze(reason) | Decision::Evict(reason) => {
                OwnerState::Present(reason)
            }
            Decision::Yield(reason, slots) if slots < all => OwnerState::Sharing(reason, slots),
            Decision::Run | Decision::Yield(..) => OwnerState::Away,
        }
    }
}

/// A reason for closing slots, in words for the owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosingReason {
    /// The reason itself.
    pub reason: YieldReason,
    /// A sentence with the sensor, its value, and the condition under which tasks are thawed.
    pub says: String,
}

/// A sensor and its last sight.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched {
    /// The sensor's name.
    pub name: String,
    /// The sensor's topic.
    pub topic: Topic,
    /// The last sight and its time; `None` before the first look.
    pub sight: Option<(Time, Sight)>,
}

/// The state machine; each worker has one.
#[derive(Debug)]
pub struct OwnerPolicy {
    rules: OwnerRules,
    /// Logical processors.
    cores: f64,
    slots_in_use: u32,
    slots: u32,
    started: Time,
    now: Time,
    /// The last given hour of the week, and the time at which it was given.
    hour: (Time, WeekTime),
    sensors: Vec<Watched>,
    input: InputPolicy,
    load: Latch,
    memory: Latch,
    battery: Latch,
    program: Latch,
    switch: Latch,
    decision: (Time, Decision),
}

impl OwnerPolicy {
    /// Makes the state machine before any sight: no task runs. `sensors` are their names and
    /// topics; their order numbers them.
    pub fn new(
        rules: OwnerRules,
        room: &HostSize,
        sensors: impl IntoIterator<Item = (String, Topic)>,
        now: Time,
    ) -> Self {
        let none = ConfigDuration::ZERO;
        let latch =
            |on: ConfigDuration, off: ConfigDuration| Latch::new(now, on.span(), off.span());
        let idle = rules.input.idle.span();
        let resume = rules.input.resume.span();
        let sensors = sensors
            .into_iter()
            .map(|(name, topic)| Watched {
                name,
                topic,
                sight: None,
            })
            .collect();

        Self {
            cores: f64::from(room.cores.max(1)),
            slots: rules.slots_idle(room),
            slots_in_use: rules.slots_in_use(room),
            started: now,
            now,
            hour: (now, WeekTime::new(0, Span::ZERO)),
            sensors,
            input: InputPolicy::new(idle, resume, rules.patience()),
            load: latch(rules.load.busy_after, rules.load.free_after),
            memory: latch(none, rules.memory.free_after),
            battery: latch(none, rules.battery.resume_after),
            program: latch(none, rules.programs.resume_after),
            switch: latch(none, none),
            decision: (now, Decision::Freeze(YieldReason::StartingUp)),
            rules,
        }
    }

    /// Goes on from the policy that this one replaces: what has begun there holds here for its time,
    /// by the rules of this one.
    pub fn go_on_from(&mut self, before: &Self) {
        if self.rules.heeds(Topic::Input) {
            self.input
                .seen(self.now, before.input.idle(self.now), false);
        }

        for (topic, latch, was) in [
            (Topic::Load, &mut self.load, &before.load),
            (Topic::Memory, &mut self.memory, &before.memory),
            (Topic::Power, &mut self.battery, &before.battery),
            (Topic::Programs, &mut self.program, &before.program),
            (Topic::Switch, &mut self.switch, &before.switch),
        ] {
            if self.rules.heeds(topic) {
                latch.go_on_from(was);
            }
        }
    }

    /// Takes a new sight of a sensor.
    pub fn saw(&mut self, now: Time, sensor: usize, sight: Sight) {
        self.advance(now);
        let now = self.now;
        let Some(watched) = self.sensors.get_mut(sensor) else {
            return;
        };
        watched.sight = Some((now, sight));

        let topic = watched.topic;
        if !self.rules.heeds(topic) {
            return;
        }

        match topic {
            Topic::Input => {
                let newest = self.newest_input().map(|(idle, _)| idle);
                let blind = self.blind(topic).is_some();
                self.input.seen(now, newest, blind);
            }
            Topic::Load => self.load.pull(now, self.load_pull()),
            Topic::Memory => self.memory.pull(now, self.memory_pull()),
            Topic::Power => self.battery.pull(now, self.battery_pull()),
            Topic::Programs => self.program.pull(now, self.presence_pull(topic)),
            Topic::Switch => self.switch.pull(now, self.presence_pull(topic)),
        }
    }

    /// Notes that a part of the memory that suspended tasks held is free: `evict_after` counts from now on.
    pub fn relieve(&mut self, now: Time) {
        self.advance(now);
        self.memory.recount(self.now);
    }

    /// Decides what tasks may do from now on, at this hour of the week.
    pub fn decide(&mut self, now: Time, hour: WeekTime) -> Decision {
        self.advance(now);
        self.hour = (self.now, hour);
        let decision = self.weigh();
        if decision != self.decision.1 {
            self.decision = (self.now, decision);
        }
        decision
    }

    /// Returns the time for which the owner's hours lend the host, counted from the last decision.
    pub fn loan(&self) -> Option<Loan> {
        self.rules.hours.loan(self.hour.1, self.rules.patience())
    }

    /// Returns the last decision, and the time since which it has been the same.
    pub fn decided(&self) -> (Time, Decision) {
        self.decision
    }

    /// Returns the time at which [`Self::decide`] must be called again if there is no new sight:
    /// before that, the answer stays as it is. That holds as long as nobody sets the clock; with
    /// hours to heed, it is at most a minute ahead.
    pub fn next_wakeup(&self) -> Option<Time> {
        let latches = [
            &self.load,
            &self.memory,
            &self.battery,
            &self.program,
            &self.switch,
        ];
        let turns = latches.into_iter().filter_map(Latch::turns_at);

        let watched = Some(self.watch_ends());
        let edge = self.rules.hours.changes_in(self.hour.1);
        let edge = edge.map(|left| self.hour.0 + left.min(Span::from_secs(60)));
        let more = [
            self.input.turns_at(),
            self.memory_evicts_at(),
            watched,
            edge,
        ];

        turns
            .chain(more.into_iter().flatten())
            .filter(|at| *at > self.now)
            .min()
    }

    /// Returns the sensors, in the order of their numbers.
    pub fn sensors(&self) -> &[Watched] {
        &self.sensors
    }

    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        let now = self.now;
        self.input.advance(now);
        for latch in [
            &mut self.load,
            &mut self.memory,
            &mut self.battery,
            &mut self.program,
            &mut self.switch,
        ] {
            latch.advance(now);
        }
    }

    fn weigh(&self) -> Decision {
        if let Some(reason) = self.hard().next() {
            return if self.memory_evicts() {
                Decision::Evict(reason)
            } else {
                Decision::Freeze(reason)
            };
        }

        match self.soft().next() {
            None => Decision::Run,
            Some(_) if self.slots_in_use >= self.slots => Decision::Run,
            Some(reason) if self.slots_in_use == 0 => Decision::Freeze(reason),
            Some(reason) => Decision::Yield(reason, self.slots_in_use),
        }
    }

    /// Iterates over the reasons in force that leave no slot.
    fn hard(&self) -> impl Iterator<Item = YieldReason> {
        let closed = !self.rules.hours.allow(self.hour.1);
        [
            (self.switch.on(), YieldReason::PausedByOwner),
            (closed, YieldReason::OutsideHours),
            (self.battery.on(), YieldReason::OnBattery),
            (self.program.on(), YieldReason::ExclusiveApp),
            (self.memory.on(), YieldReason::LowMemory),
            (self.starting_up(), YieldReason::StartingUp),
        ]
        .into_iter()
        .filter_map(|(holds, reason)| holds.then_some(reason))
    }

    /// Iterates over the reasons in force that leave the slots which the owner shares.
    fn soft(&self) -> impl Iterator<Item = YieldReason> {
        [
            (self.input.in_use(), YieldReason::InUse),
            (self.load.on(), YieldReason::Busy),
        ]
        .into_iter()
        .filter_map(|(holds, reason)| holds.then_some(reason))
    }

    /// Whether a heeded sensor has not looked yet, or input or load have not been watched for long
    /// enough.
    fn starting_up(&self) -> bool {
        let heeded = || {
            self.sensors
                .iter()
                .filter(|sensor| self.rules.heeds(sensor.topic))
        };
        let there = |sensor: &Watched| !matches!(sensor.sight, Some((_, Sight::Absent(_))));
        let watching = self.now < self.watch_ends();
        heeded().any(|sensor| sensor.sight.is_none())
            || watching
                && heeded().any(|s| matches!(s.topic, Topic::Input | Topic::Load) && there(s))
    }

    /// Returns the end of the first watch. It lasts until it is known whether a load seen in it is
    /// more than a spike: a task that started before would be suspended a moment later.
    fn watch_ends(&self) -> Time {
        let end = self.started + self.rules.first_watch.span();
        match self.load.rises() {
            Some((since, at)) if since < end => at.max(end),
            _ => end,
        }
    }

    /// Returns the time at which suspended tasks are given back because of the memory that they
    /// hold, if it stays short until then. While it is there again, nobody asks for theirs.
    fn memory_evicts_at(&self) -> Option<Time> {
        let after = limit(self.rules.memory.evict_after)?;
        let short = self.memory.on() && !self.memory.falls();
        short.then(|| self.memory.turned() + after)
    }

    fn memory_evicts(&self) -> bool {
        self.memory_evicts_at().is_some_and(|at| at <= self.now)
    }

    /// Iterates over the last sights of the sensors of this topic.
    fn sights(&self, topic: Topic) -> impl Iterator<Item = (&Watched, Time, &Sight)> {
        let of = move |sensor: &&Watched| sensor.topic == topic;
        self.sensors
            .iter()
            .filter(of)
            .filter_map(|sensor| sensor.sight.as_ref().map(|(at, s)| (sensor, *at, s)))
    }

    /// Iterates over the last readings of the sensors of this topic.
    fn readings(&self, topic: Topic) -> impl Iterator<Item = (&Watched, Time, &Reading)> {
        self.sights(topic)
            .filter_map(|(sensor, at, sight)| match sight {
                Sight::Seen(reading) => Some((sensor, at, reading)),
                Sight::Absent(_) | Sight::Unknown(_) => None,
            })
    }

    /// Returns a sensor of this topic whose sight is `Unknown`, and the reason.
    fn blind(&self, topic: Topic) -> Option<(&Watched, &str)> {
        self.sights(topic)
            .find_map(|(sensor, _, sight)| match sight {
                Sight::Unknown(why) => Some((sensor, why.as_str())),
                Sight::Seen(_) | Sight::Absent(_) => None,
            })
    }

    /// Returns the shortest time without input, and the sensor that saw it.
    fn newest_input(&self) -> Option<(Span, &Watched)> {
        let idle = self
            .readings(Topic::Input)
            .filter_map(|(sensor, at, reading)| match reading {
                Reading::Idle(idle) => Some((*idle + self.now.since(at), sensor)),
                _ => None,
            });
        idle.min_by_key(|(idle, _)| *idle)
    }

    /// Returns the largest load by others that a sensor sees, in processors.
    fn highest_load(&self) -> Option<(f64, &Watched)> {
        let load = self
            .readings(Topic::Load)
            .filter_map(|(sensor, _, reading)| match reading {
                Reading::Load(load) => Some((*load, sensor)),
                _ => None,
            });
        load.max_by(|(a, _), (b, _)| a.total_cmp(b))
    }

    /// Converts a threshold of the load to processors.
    fn processors(&self, part: f64) -> f64 {
        match self.rules.load.of {
            Whole::Processor => part,
            Whole::Host => part * self.cores,
        }
    }

    fn load_pull(&self) -> Pull {
        let busy = self.processors(self.rules.load.busy_above);
        let free = self.processors(self.rules.load.free_below);
        match self.highest_load() {
            _ if self.blind(Topic::Load).is_some() => Pull::Force,
            Some((load, _)) if load.is_nan() || load > busy => Pull::On,
            Some((load, _)) if load >= free => Pull::Neither,
            _ => Pull::Off,
        }
    }

    /// Returns the least available memory and the highest pressure that sensors see.
    fn scarcest_memory(&self) -> Option<(f64, f64, &Watched)> {
        let memory =
            self.readings(Topic::Memory)
                .filter_map(|(sensor, _, reading)| match reading {
                    Reading::Memory {
                        available,
                        pressure,
                    } => Some((*available, *pressure, sensor)),
                    _ => None,
                });

        memory.reduce(|(available, pressure, sensor), (a, p, s)| {
            (
                available.min(a),
                pressure.max(p),
                if a < available { s } else { sensor },
            )
        })
    }

    fn memory_pull(&self) -> Pull {
        let rule = &self.rules.memory;
        match self.scarcest_memory() {
            _ if self.blind(Topic::Memory).is_some() => Pull::Force,
            Some((a, p, _)) if a < rule.available_below || p > rule.pressure_above => Pull::On,
            Some((a, p, _))
                if a > rule.available_above && p < rule.pressure_below.max(f64::MIN_POSITIVE) =>
            {
                Pull::Off
            }
            Some(_) => Pull::Neither,
            None => Pull::Off,
        }
    }

    /// Returns the lowest charge of a battery that the host runs on, if a sensor sees one.
    fn lowest_battery(&self) -> Option<(f64, &Watched)> {
        let charge = self
            .readings(Topic::Power)
            .filter_map(|(sensor, _, reading)| match reading {
                Reading::Battery(charge) => charge.map(|charge| (charge, sensor)),
                _ => None,
            });
        charge.min_by(|(a, _), (b, _)| a.total_cmp(b))
    }

    fn battery_pull(&self) -> Pull {
        let least = self.rules.battery.charge_above;
        match self.lowest_battery() {
            _ if self.blind(Topic::Power).is_some() => Pull::Force,
            Some((charge, _)) if charge > least && least < 1.0 => Pull::Off,
            Some(_) => Pull::On,
            None => Pull::Off,
        }
    }

    /// Returns the switch or program that a sensor of this topic names.
    fn named(&self, topic: Topic) -> Option<(&str, &Watched)> {
        self.readings(topic)
            .find_map(|(sensor, _, reading)| match reading {
                Reading::Paused(Some(what)) | Reading::Program(Some(what)) => {
                    Some((what.as_str(), sensor))
                }
                _ => None,
            })
    }

    fn presence_pull(&self, topic: Topic) -> Pull {
        match (self.blind(topic), self.named(topic)) {
            (Some(_), _) => Pull::Force,
            (None, Some(_)) => Pull::On,
            (None, None) => Pull::Off,
        }
    }
}
