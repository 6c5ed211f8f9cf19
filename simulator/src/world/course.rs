//! A trace prepared for many runs ([`PreparedTrace`]): integer times, running sums of the processor time
//! that each host could give, and every change of every host in one list. No run changes any of it.

use common::host::Status;
use common::units::BadSpeed;
use common::{Span, Speed, Time};

use scheduler::experience::Habit;

use crate::kernel::owner;
use crate::trace::{LEAST_CPU, Segment, Trace, TracedHost};

/// The hosts of a trace, prepared for simulation. Made once and used by any number of runs.
#[derive(Debug, Clone, Default)]
pub struct PreparedTrace {
    pub(super) courses: Vec<HostCourse>,
    /// Every change of a host, sorted by time, then host.
    pub(super) changes: Vec<Change>,
    end: Time,
}

/// An interval between two failures of a host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpInterval {
    /// The beginning, in seconds since the trace's start.
    pub start_s: f64,
    /// The end, in seconds since the trace's start.
    pub end_s: f64,
    /// The work that a task could have done in it, in seconds on a dedicated host of speed 1.
    pub work_s: f64,
}

/// The beginning of a host's next [`SteadyInterval`]. Copies the fields that most readers need, which
/// saves them an access to the stretch in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Change {
    pub(super) at: Time,
    pub(super) host: u32,
    pub(super) stretch: u32,
    pub(super) was_up: bool,
    pub(super) up: bool,
    /// Whether tasks can compute in the new stretch.
    pub(super) ready: bool,
}

/// One host over the whole trace. Its stretches cover everything from time 0; after the last one
/// the host is down.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HostCourse {
    pub(super) speed: Speed,
    pub(super) stretches: Vec<SteadyInterval>,
    /// The start of each stretch, kept close together because `index` searches it.
    starts: Vec<Time>,
    /// The habits of the host and its owner up to the start of each stretch.
    pasts: Vec<Habit>,
}

/// An interval in which a host does not change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SteadyInterval {
    pub(super) start: Time,
    /// The start of the next stretch; `Time(u64::MAX)` for the last one.
    pub(super) end: Time,
    pub(super) up: bool,
    /// The share of the processor that tasks can have, as the host reports it.
    pub(super) cpu: f32,
    /// The value of `cpu`, but 0 where tasks are suspended (below [`LEAST_CPU`]).
    usable: f64,
    /// Processor seconds that a task could have had from time 0 to `start`.
    cpu_before_s: f64,
    /// The time for which a task could have run from time 0 to `start`.
    ran_before: Span,
    up_since: Time,
    owner_since: Time,
    /// The time at which the host goes down next; meaningless while it is down.
    pub(super) down_at: Time,
}

impl PreparedTrace {
    /// Prepares the world of a trace. Times are rounded to microseconds; a host is down in the gaps
    /// between its segments.
    ///
    /// # Errors
    /// If there is no speed of a host's clock rate.
    pub fn new(trace: &Trace) -> Result<Self, BadSpeed> {
        let courses = trace.hosts.iter().map(HostCourse::of);
        let courses: Vec<HostCourse> = courses.collect::<Result<_, _>>()?;
        let mut changes = Vec::new();

        for (host, course) in (0..).zip(&courses) {
            let pairs = (1..).zip(course.stretches.iter().zip(&course.stretches[1..]));
            changes.extend(pairs.map(|(stretch, (before, after))| Change {
                at: after.start,
                host,
                stretch,
                was_up: before.up,
                up: after.up,
                ready: after.ready(),
            }));
        }

        changes.sort_unstable();
        let ends = courses.iter().filter_map(|course| course.stretches.last());
        let end = ends.map(|last| last.start).max().unwrap_or_default();
        Ok(PreparedTrace {
            courses,
            changes,
            end,
        })
    }

    /// The number of hosts.
    pub fn hosts(&self) -> usize {
        self.courses.len()
    }

    /// The end of the trace, in seconds since its start.
    pub fn end_s(&self) -> f64 {
        self.end.secs()
    }

    /// The number of hosts that are up and have a processor for tasks, at `at_s` seconds since the
    /// trace's start.
    pub fn ready_hosts(&self, at_s: f64) -> usize {
        self.ready(at_s).count()
    }

    /// The places in the trace of the hosts that are up and have a processor for tasks, at `at_s`
    /// seconds since the trace's start.
    pub fn ready(&self, at_s: f64) -> impl Iterator<Item = usize> + '_ {
        let at = Time::from_secs_f64(at_s);
        self.courses
            .iter()
            .enumerate()
            .filter(move |(_, course)| course.at(at).ready())
            .map(|(place, _)| place)
    }

    /// The intervals between two failures of `host`, cut to the time from `from_s` to `to_s`, both
    /// in seconds since the trace's start.
    pub fn intervals(
        &self,
        host: usize,
        from_s: f64,
        to_s: f64,
    ) -> impl Iterator<Item = UpInterval> + '_ {
        let from = Time::from_secs_f64(from_s);
        let to = Time::from_secs_f64(to_s);
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
                UpInterval {
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

/// Converts a host's segments to stretches: times become integers, consecutive equal segments are
/// merged, and the host is down in gaps and after the last segment.
fn stretches(segments: &[Segment]) -> Vec<SteadyInterval> {
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
        let start = Time::from_secs_f64(segment.start_s).max(until);
        let end = Time::from_secs_f64(segment.end_s);
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
    // Keeps the trace's end even where the host was down before it: `PreparedTrace::end` needs it.
    if plain.last().is_some_and(|last| last.0 < until) {
        plain.push((until, false, 0.0));
    }

    summed(&plain)
}

/// Adds to each stretch the sums up to its start, and the ends and failures that follow it.
fn summed(plain: &[(Time, bool, f64)]) -> Vec<SteadyInterval> {
    let mut out: Vec<SteadyInterval> = Vec::with_capacity(plain.len());
    for &(start, up, cpu) in plain {
        let usable = if up && cpu >= LEAST_CPU { cpu } else { 0.0 };
        let before = out.last();
        let stretch = SteadyInterval {
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

/// Counts the habits of a host and its owner up to the start of each stretch.
fn pasts(stretches: &[SteadyInterval]) -> Vec<Habit> {
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

impl HostCourse {
    /// Prepares one host.
    fn of(host: &TracedHost) -> Result<Self, BadSpeed> {
        let speed = host.speed()?;
        let stretches = stretches(&host.segments);
        let starts = stretches.iter().map(|stretch| stretch.start).collect();
        Ok(HostCourse {
            speed,
            starts,
            pasts: pasts(&stretches),
            stretches,
        })
    }

    /// The index of the stretch that contains `at`.
    pub(super) fn index(&self, at: Time) -> usize {
        self.starts
            .partition_point(|start| *start <= at)
            .saturating_sub(1)
    }

    pub(super) fn at(&self, at: Time) -> &SteadyInterval {
        &self.stretches[self.index(at)]
    }

    /// The stretch that contains `at`, searched from the index `hint` on.
    pub(super) fn at_after(&self, hint: usize, at: Time) -> &SteadyInterval {
        let later = self.stretches[hint + 1..]
            .iter()
            .take_while(|stretch| stretch.start <= at);
        later.last().unwrap_or(&self.stretches[hint])
    }

    /// The habits of the host and its owner from time 0 to `until`.
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

    /// The time at which a task that begins to compute at `from`, in the stretch `hint` or later,
    /// has had `cpu_s` processor seconds; `None` if the host goes down before that.
    pub(super) fn finish(&self, hint: usize, from: Time, cpu_s: f64) -> Option<Time> {
        let goal = self.at_after(hint, from).cpu_s(from) + cpu_s;
        let up = self.stretches[hint..]
            .iter()
            .take_while(|stretch| stretch.up);
        up.filter(|stretch| stretch.end > from)
            .find_map(|stretch| stretch.reaches(goal, from))
    }
}

impl SteadyInterval {
    /// Whether a task can compute in it.
    pub(super) fn ready(&self) -> bool {
        self.usable > 0.0
    }

    /// The time at which a task that computes from `from` on reaches `goal_s` processor seconds,
    /// counted from time 0; `None` if that is not in this stretch.
    pub(super) fn reaches(&self, goal_s: f64, from: Time) -> Option<Time> {
        if self.usable <= 0.0 || self.cpu_s(self.end) + 1e-9 < goal_s {
            return None;
        }
        let left_us = ((goal_s - self.cpu_before_s) / self.usable * 1e6).ceil();
        Some((self.start + Span(left_us.max(0.0) as u64)).clamp(from, self.end))
    }

    /// Processor seconds that a task could have had from time 0 to `at`, a time in this stretch.
    pub(super) fn cpu_s(&self, at: Time) -> f64 {
        self.cpu_before_s + self.usable * at.since(self.start).secs()
    }

    /// The time for which a task could have run from time 0 to `at`, a time in this stretch.
    pub(super) fn ran(&self, at: Time) -> Span {
        if self.ready() {
            self.ran_before + at.since(self.start)
        } else {
            self.ran_before
        }
    }

    /// The `Status` that the host reports at `at`, a time in this stretch.
    pub(super) fn status(&self, at: Time) -> Status {
        Status {
            owner: owner(self.ready()),
            cpu: self.cpu,
            up_for: at.since(self.up_since),
            owner_for: at.since(self.owner_since),
        }
    }
}
