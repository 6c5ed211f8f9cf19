//! A trace made ready for many runs: integer times, sums of what each host could compute up to each
//! instant, and every change of every host in one list. What is not here: anything that a run
//! changes.

use common::host::{OwnerState, Status, YieldReason};
use common::units::REFERENCE_MHZ;
use common::{Span, Speed, Time};

use scheduler::experience::Habit;

use crate::trace::{Segment, Trace};

/// Below this part of the processor tasks are suspended (Kondo et al. 2004, section 3.1: "<1 % CPU
/// availability").
pub(crate) const LEAST_CPU: f64 = 0.01;

/// The hosts of a trace, ready to be simulated. Made once, used by any number of runs.
#[derive(Debug, Clone, Default)]
pub struct World {
    pub(super) courses: Vec<Course>,
    /// Every change of a host, by time, then host.
    pub(super) changes: Vec<Change>,
    end: Time,
}

/// A time between two failures of a host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// When it began, in seconds since the trace's start.
    pub start_s: f64,
    /// When it ended.
    pub end_s: f64,
    /// What a task could have done, in seconds on a dedicated host of speed 1.
    pub work_s: f64,
}

/// A host's next stretch begins. Says what most need to know of it, so that they need not look for
/// it in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Change {
    pub(super) at: Time,
    pub(super) host: u32,
    pub(super) stretch: u32,
    pub(super) was_up: bool,
    pub(super) up: bool,
    /// Whether tasks can compute from now on.
    pub(super) ready: bool,
}

/// One host over the whole trace. Its stretches cover everything from time 0; after the last one it
/// is down.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Course {
    pub(super) speed: Speed,
    pub(super) stretches: Vec<Stretch>,
    /// When each stretch begins: close together, since that is searched.
    starts: Vec<Time>,
    /// What the host and its owner did up to the beginning of each stretch.
    pasts: Vec<Habit>,
}

/// A stretch of time in which a host does not change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stretch {
    pub(super) start: Time,
    /// When the next one begins; never after the last.
    pub(super) end: Time,
    pub(super) up: bool,
    /// The part of the processor that tasks can have, as the host says.
    pub(super) cpu: f32,
    /// The same, but 0 where tasks are suspended.
    usable: f64,
    /// Processor seconds that a task could have had since time 0, up to this stretch.
    cpu_before_s: f64,
    /// Time during which a task could have run since time 0, up to this stretch.
    ran_before: Span,
    up_since: Time,
    owner_since: Time,
    /// When the host goes down next; meaningless while it is down.
    pub(super) down_at: Time,
}

impl World {
    /// The world of a trace. Times are rounded to microseconds; where a host has no segment it is
    /// down.
    pub fn new(trace: &Trace) -> Self {
        let course = |host: &crate::trace::TracedHost| {
            let speed = Speed::new(host.clock_mhz / REFERENCE_MHZ).unwrap_or(Speed::REFERENCE);
            let stretches = stretches(&host.segments);
            let starts = stretches.iter().map(|stretch| stretch.start).collect();
            Course {
                speed,
                starts,
                pasts: pasts(&stretches),
                stretches,
            }
        };
        let courses: Vec<Course> = trace.hosts.iter().map(course).collect();
        let mut changes = Vec::new();

        for (host, course) in (0..).zip(&courses) {
            let pairs = (1..).zip(course.stretches.iter().zip(&course.stretches[1..]));
            changes.extend(pairs.map(|(stretch, (before, after))| {
                let was_up = before.up;
                let up = after.up;
                let ready = after.ready();
                Change {
                    at: after.start,
                    host,
                    stretch,
                    was_up,
                    up,
                    ready,
                }
            }));
        }

        changes.sort_unstable();
        let ends = courses.iter().filter_map(|course| course.stretches.last());
        let end = ends.map(|last| last.start).max().unwrap_or_default();
        World {
            courses,
            changes,
            end,
        }
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> usize {
        self.courses.len()
    }

    /// When the trace ends, in seconds since its start.
    pub fn end_s(&self) -> f64 {
        self.end.secs()
    }

    /// How many hosts are up, with a processor for tasks, at `at_s` seconds since the trace's
    /// start.
    pub fn ready_hosts(&self, at_s: f64) -> usize {
        self.ready(at_s).count()
    }

    /// The places of the hosts that are up, with a processor for tasks, at `at_s` seconds since the
    /// trace's start.
    pub fn ready(&self, at_s: f64) -> impl Iterator<Item = usize> + '_ {
        let at = Time(Span::from_secs_f64(at_s).0);
        self.courses
            .iter()
            .enumerate()
            .filter(move |(_, course)| course.at(at).ready())
            .map(|(place, _)| place)
    }

    /// The stretches between two failures of a host, so far as they lie between two times, in
    /// seconds since the trace's start.
    pub fn intervals(
        &self,
        host: usize,
        from_s: f64,
        to_s: f64,
    ) -> impl Iterator<Item = Interval> + '_ {
        let time = |s: f64| Time(Span::from_secs_f64(s).0);
        let from = time(from_s);
        let to = time(to_s);
        let course = &self.courses[host];
        let begins = course
            .stretches
            .iter()
            .filter(|stretch| stretch.up && stretch.up_since == stretch.start);
        let parts = begins.map(move |first| (first.start.max(from), first.down_at.min(to)));

        parts
            .filter(|(start, end)| start < end)
            .map(|(start, end)| {
                let work_s = (course.at(end).cpu_s(end) - course.at(start).cpu_s(start))
                    * course.speed.factor();
                Interval {
                    start_s: start.secs(),
                    end_s: end.secs(),
                    work_s,
                }
            })
    }

    pub(super) fn end(&self) -> Time {
        self.end
    }
}

/// The stretches of a host: segments in integer time, neighbours that are alike joined, gaps and
/// the time after the last one down.
fn stretches(segments: &[Segment]) -> Vec<Stretch> {
    let mut plain: Vec<(Time, bool, f64)> = vec![(Time(0), false, 0.0)];
    let mut until = Time(0);
    let mut push = |start: Time, up: bool, cpu: f64| {
        let cpu = if up { cpu } else { 0.0 };
        if plain.last().is_some_and(|last| last.0 == start) {
            plain.pop();
        }
        if plain
            .last()
            .is_none_or(|last| (last.1, last.2.to_bits()) != (up, cpu.to_bits()))
        {
            plain.push((start, up, cpu));
        }
    };

    for segment in segments {
        let time = |s: f64| Time(Span::from_secs_f64(s).0);
        let start = time(segment.start_s).max(until);
        let end = time(segment.end_s);
        if end <= start {
            continue;
        }
        if start > until {
            push(until, false, 0.0);
        }
        push(start, segment.up, segment.cpu);
        until = end;
    }

    push(until, false, 0.0);
    // The end is kept even where the host was down before it, so that the trace's length is known.
    if plain.last().is_some_and(|last| last.0 < until) {
        plain.push((until, false, 0.0));
    }

    summed(&plain)
}

/// Adds to each stretch what lies before and behind it.
fn summed(plain: &[(Time, bool, f64)]) -> Vec<Stretch> {
    let mut out: Vec<Stretch> = Vec::with_capacity(plain.len());
    for &(start, up, cpu) in plain {
        let usable = if up && cpu >= LEAST_CPU { cpu } else { 0.0 };
        let before = out.last();
        let stretch = Stretch {
            start,
            end: Time(u64::MAX),
            up,
            cpu: cpu as f32,
            usable,
            cpu_before_s: before.map_or(0.0, |b| b.cpu_s(start)),
            ran_before: before.map_or(Span::ZERO, |b| b.ran(start)),
            up_since: before.filter(|b| b.up && up).map_or(start, |b| b.up_since),
            owner_since: before
                .filter(|b| b.up && up && b.ready() == (usable > 0.0))
                .map_or(start, |b| b.owner_since),
            down_at: start,
        };
        out.push(stretch);
    }

    let mut down_at = Time(u64::MAX);
    let mut end = Time(u64::MAX);
    for stretch in out.iter_mut().rev() {
        stretch.end = std::mem::replace(&mut end, stretch.start);
        if !stretch.up {
            down_at = stretch.start;
        }
        stretch.down_at = down_at;
    }

    out
}

/// What a host and its owner did up to the beginning of each of its stretches.
fn pasts(stretches: &[Stretch]) -> Vec<Habit> {
    let mut past = Habit::default();
    let mut pasts = vec![past];
    for (stretch, next) in stretches.iter().zip(&stretches[1..]) {
        past.away_s = next.ran_before.secs();
        past.up_s += if stretch.up {
            next.start.since(stretch.start).secs()
        } else {
            0.0
        };
        past.turns += f64::from(stretch.ready() && next.up && !next.ready());
        past.failures += f64::from(stretch.up && !next.up);
        pasts.push(past);
    }

    pasts
}

impl Course {
    /// The number of the stretch at this time.
    pub(super) fn index(&self, at: Time) -> usize {
        self.starts
            .partition_point(|start| *start <= at)
            .saturating_sub(1)
    }

    pub(super) fn at(&self, at: Time) -> &Stretch {
        &self.stretches[self.index(at)]
    }

    /// The stretch at this time, which is in the stretch of number `hint` or later.
    pub(super) fn at_after(&self, hint: usize, at: Time) -> &Stretch {
        let later = self.stretches[hint + 1..]
            .iter()
            .take_while(|stretch| stretch.start <= at);
        later.last().unwrap_or(&self.stretches[hint])
    }

    /// What the host and its owner did from time 0 to this time.
    pub(super) fn habit(&self, until: Time) -> Habit {
        let last = self.index(until);
        let now = &self.stretches[last];
        let before = self.pasts[last];
        let up_s = if now.up {
            until.since(now.start).secs()
        } else {
            0.0
        };
        Habit {
            away_s: now.ran(until).secs(),
            up_s: before.up_s + up_s,
            ..before
        }
    }

    /// When a task that begins to compute at `from`, in the stretch of number `hint` or later, has
    /// had `cpu_s` processor seconds; none where the host goes down before that.
    pub(super) fn finish(&self, hint: usize, from: Time, cpu_s: f64) -> Option<Time> {
        let goal = self.at_after(hint, from).cpu_s(from) + cpu_s;
        let up = self.stretches[hint..]
            .iter()
            .take_while(|stretch| stretch.up);
        up.filter(|stretch| stretch.end > from)
            .find_map(|stretch| stretch.reaches(goal, from))
    }
}

impl Stretch {
    /// Whether a task can compute.
    pub(super) fn ready(&self) -> bool {
        self.usable > 0.0
    }

    /// When a task that computes from `from` on has had so many processor seconds since time 0, if
    /// that is in this stretch.
    pub(super) fn reaches(&self, goal_s: f64, from: Time) -> Option<Time> {
        if self.usable <= 0.0 || self.cpu_s(self.end) + 1e-9 < goal_s {
            return None;
        }
        let left_us = ((goal_s - self.cpu_before_s) / self.usable * 1e6).ceil();
        Some((self.start + Span(left_us.max(0.0) as u64)).clamp(from, self.end))
    }

    /// Processor seconds that a task could have had since time 0, at a time in this stretch.
    pub(super) fn cpu_s(&self, at: Time) -> f64 {
        self.cpu_before_s + self.usable * at.since(self.start).secs()
    }

    /// Time during which a task could have run since time 0, at a time in this stretch.
    pub(super) fn ran(&self, at: Time) -> Span {
        if self.ready() {
            self.ran_before + at.since(self.start)
        } else {
            self.ran_before
        }
    }

    /// What the host says of itself at a time in this stretch.
    pub(super) fn status(&self, at: Time) -> Status {
        Status {
            owner: owner(self.ready()),
            cpu: self.cpu,
            up_for: at.since(self.up_since),
            owner_for: at.since(self.owner_since),
        }
    }
}

/// What a host says of its owner.
pub(super) fn owner(ready: bool) -> OwnerState {
    if ready {
        OwnerState::Away
    } else {
        OwnerState::Present(YieldReason::InUse)
    }
}
