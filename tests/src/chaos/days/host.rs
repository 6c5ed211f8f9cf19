//! A PC on a recorded day: its availability, the worker's real engine while it is on, its tasks, and
//! the completions that its disk keeps.

use std::collections::BTreeMap;

use ::worker::engine::{CrashRules, Decision, Engine};
use common::host::{Confinement, HostFacts, Status, YieldReason};
use common::{AttemptId, Completion, HostId, Span, Time};
use simulator::trace::{LEAST_CPU, TracedHost};

/// The beginning of an interval in which a host does not change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Turn {
    pub(super) at: Time,
    pub(super) up: bool,
    /// The part of the processor that tasks have; 0 while they are suspended.
    pub(super) cpu: f64,
}

/// A PC.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) turns: Vec<Turn>,
    /// The index of the next turn.
    pub(super) next: usize,
    pub(super) host: HostId,
    pub(super) facts: HostFacts,
    /// Counts the times that it was switched on: what was planned for an earlier one is void.
    pub(super) run: u64,
    pub(super) on: Option<Running>,
    /// The completions that the master has not acknowledged.
    pub(super) kept: BTreeMap<AttemptId, (Completion, Time)>,
}

/// A worker that runs.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) engine: Engine,
    pub(super) session: u64,
    pub(super) welcome: bool,
    pub(super) up_since: Time,
    pub(super) owner_since: Time,
    pub(super) cpu: f64,
    pub(super) tasks: BTreeMap<AttemptId, Task>,
    pub(super) wakeup: Option<Time>,
    /// The usual and the present interval of heartbeats, and the time of the next one.
    pub(super) usual: Span,
    pub(super) every: Span,
    pub(super) beat_at: Time,
}

/// A command on a host.
#[derive(Debug)]
pub(super) struct Task {
    /// The processor seconds that it needs yet.
    pub(super) left_s: f64,
    /// The time up to which its processor seconds are counted, while it runs.
    pub(super) since: Option<Time>,
    /// Counts the plans for its end: an earlier one is void.
    pub(super) plan: u64,
}

impl Task {
    /// Counts the processor seconds that it had up to `now` at this share.
    pub(super) fn count(&mut self, now: Time, cpu: f64) {
        if let Some(since) = &mut self.since {
            self.left_s -= now.since(*since).secs() * cpu;
            *since = now;
        }
    }
}

impl Host {
    /// Makes a PC that is off, with its turns in the trace.
    pub(super) fn new(traced: &TracedHost, host: HostId) -> Self {
        let facts = HostFacts {
            name: traced.name.clone(),
            slots: 1,
            speed: traced.speed().expect("a clock rate that hosts have"),
            clock_mhz: traced.clock_mhz as u32,
            cores: 1,
            memory_mib: 512,
            confinement: Confinement::Process,
            confinement_most: Confinement::Process,
            network: true,
            ..HostFacts::unknown(String::new())
        };
        Self {
            turns: turns(traced),
            next: 0,
            host,
            facts,
            run: 0,
            on: None,
            kept: BTreeMap::new(),
        }
    }

    /// Switches it on as it is in its present interval, with the given session to be opened.
    pub(super) fn switch_on(&mut self, session: u64, usual: Span, cpu: f64) {
        self.run += 1;
        let (up_since, owner_since) = self.since();
        let ended = self.kept.keys().copied();
        let engine = Engine::new(1, Span::from_secs(5), None, ended, CrashRules::KEPT);
        self.on = Some(Running {
            engine,
            session,
            welcome: false,
            up_since,
            owner_since,
            cpu,
            tasks: BTreeMap::new(),
            wakeup: None,
            usual,
            every: usual,
            beat_at: Time(u64::MAX),
        });
    }

    /// The times since which it has been on, and its owner as at present.
    fn since(&self) -> (Time, Time) {
        let past = &self.turns[..self.next];
        let now = past.last().copied();
        let since = |same: &dyn Fn(&Turn) -> bool| {
            let run = past.iter().rev().take_while(|turn| same(turn));
            run.last().map_or(Time(0), |turn| turn.at)
        };
        let away = now.is_some_and(|turn| turn.cpu > 0.0);
        (
            since(&|turn| turn.up),
            since(&|turn| turn.up && (turn.cpu > 0.0) == away),
        )
    }

    /// What its owner allows in an interval with this share.
    pub(super) fn decision(cpu: f64) -> Decision {
        if cpu > 0.0 {
            Decision::Run
        } else {
            Decision::Freeze(YieldReason::InUse)
        }
    }

    /// What it reports of itself.
    pub(super) fn status(&self, now: Time) -> Status {
        let Some(on) = &self.on else {
            return Status::from(Self::decision(0.0).owner(1));
        };
        Status {
            owner: Self::decision(on.cpu).owner(1),
            cpu: on.cpu as f32,
            up_for: now.since(on.up_since),
            owner_for: now.since(on.owner_since),
        }
    }
}

/// The turns of a host: it is off in the gaps of its trace and after it.
fn turns(traced: &TracedHost) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut push = |at: Time, up: bool, cpu: f64| {
        let turn = Turn { at, up, cpu };
        if turns
            .last()
            .is_none_or(|last| (last.up, last.cpu) != (up, cpu))
        {
            turns.push(turn);
        }
    };

    let mut until = Time(0);
    for segment in &traced.segments {
        let start = Time::from_secs_f64(segment.start_s);
        if start > until {
            push(until, false, 0.0);
        }
        let usable = segment.up && segment.cpu >= LEAST_CPU;
        push(start, segment.up, if usable { segment.cpu } else { 0.0 });
        until = Time::from_secs_f64(segment.end_s);
    }
    push(until, false, 0.0);
    turns
}
