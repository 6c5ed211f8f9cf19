//! Availability of hosts over time: what is recorded, generated, imported, exported and replayed,
//! in the formats that others use. What is not here: where it comes from, and Parquet, which needs
//! a library of its own.

mod activitywatch;
mod avt;
mod boinc;
mod draft;
mod error;
mod fta;
mod moment;
mod read;
mod simgrid;
mod write;

use std::sync::Arc;

pub use error::{Flaw, TraceError};
pub use read::read_clocks_mhz;

/// Below this part of the processor tasks are suspended (Kondo et al. 2004, section 3.1).
pub const LEAST_CPU: f64 = 0.01;

/// Seconds since the Unix epoch of a date and time in ISO 8601, with `Z` or an offset from UTC
/// (without either it is taken for UTC), from 1970 on.
pub fn parse_date_s(text: &str) -> Option<f64> {
    moment::Moment::parse_iso(text).map(|moment| moment.since(0))
}

/// How a set of hosts was available.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// The trace's start, in seconds since the Unix epoch; 0 where nobody knows it.
    pub origin_s: i64,
    /// The hosts.
    pub hosts: Vec<TracedHost>,
}

/// A host with its availability.
#[derive(Debug, Clone, PartialEq)]
pub struct TracedHost {
    /// Its name.
    pub name: String,
    /// Clock rate of its processor, in MHz.
    pub clock_mhz: f64,
    /// In order, none before the end of the one before. Where there is none, nothing is known; the
    /// simulated world takes the host for down there.
    pub segments: Vec<Segment>,
    /// What else is known of each segment, in their order; shorter where of the rest nothing is.
    pub notes: Vec<Note>,
}

/// What people want to know of a segment, and the simulated world does not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Note {
    /// Whether the owner used the host, where that is known.
    pub owner_active: Option<bool>,
    /// Why the host was as it was, or of some formats why the segment ended, in the words or
    /// numbers of whoever recorded it.
    pub reason: Option<Arc<str>>,
}

/// A stretch of time in which nothing changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Seconds since the trace's start.
    pub start_s: f64,
    /// Seconds since the trace's start.
    pub end_s: f64,
    /// Whether the host is up.
    pub up: bool,
    /// The part of its processor that tasks can have, between 0 and 1; below 0.01 tasks are
    /// suspended.
    pub cpu: f64,
}

impl Segment {
    /// Whether a task makes progress in it: the host is up and its owner leaves at least a
    /// hundredth of the processor.
    pub fn ready(&self) -> bool {
        self.up && self.cpu >= LEAST_CPU
    }

    /// How long it is, in seconds.
    pub fn length_s(&self) -> f64 {
        self.end_s - self.start_s
    }
}

impl Trace {
    /// Hosts named `h000`, `h001` and so on, from their clocks in MHz and their segments. Where one
    /// list is longer than the other, its rest is left out.
    pub fn from_parts(clocks_mhz: Vec<f64>, segments: Vec<Vec<Segment>>) -> Self {
        let hosts = clocks_mhz.into_iter().zip(segments).enumerate();
        let host =
            |(n, (clock_mhz, segments))| TracedHost::new(format!("h{n:03}"), clock_mhz, segments);
        Trace {
            origin_s: 0,
            hosts: hosts.map(host).collect(),
        }
    }

    /// When the last segment ends, in seconds since the trace's start. Nothing is known of any host
    /// beyond it.
    pub fn end_s(&self) -> f64 {
        let ends = self
            .hosts
            .iter()
            .filter_map(|host| host.segments.last())
            .map(|segment| segment.end_s);
        ends.fold(0.0, f64::max)
    }

    /// The same with every host down where nothing is known of it, from the trace's start to its
    /// end.
    #[must_use]
    pub fn without_gaps(&self) -> Self {
        let end_s = self.end_s();
        Trace {
            origin_s: self.origin_s,
            hosts: self
                .hosts
                .iter()
                .map(|host| host.without_gaps(end_s))
                .collect(),
        }
    }

    /// What lies between two times, in seconds since the trace's start. Its start stays where it
    /// was.
    #[must_use]
    pub fn between(&self, from_s: f64, to_s: f64) -> Self {
        Trace {
            origin_s: self.origin_s,
            hosts: self
                .hosts
                .iter()
                .map(|host| host.between(from_s, to_s))
                .collect(),
        }
    }
}

impl TracedHost {
    /// A host of which nothing but its segments is known.
    pub fn new(name: impl Into<String>, clock_mhz: f64, segments: Vec<Segment>) -> Self {
        Self {
            name: name.into(),
            clock_mhz,
            segments,
            notes: Vec::new(),
        }
    }

    /// Each segment with what else is known of it.
    pub fn noted(&self) -> impl Iterator<Item = (Segment, Note)> + '_ {
        let notes = self
            .notes
            .iter()
            .cloned()
            .chain(std::iter::repeat_with(Note::default));
        self.segments.iter().copied().zip(notes)
    }

    fn of_noted(&self, noted: impl Iterator<Item = (Segment, Note)>) -> Self {
        let (segments, notes): (_, Vec<Note>) = noted.unzip();
        let notes = if self.notes.is_empty() {
            Vec::new()
        } else {
            notes
        };
        Self {
            name: self.name.clone(),
            clock_mhz: self.clock_mhz,
            segments,
            notes,
        }
    }

    /// Down where nothing is known, up to `end_s`.
    fn without_gaps(&self, end_s: f64) -> Self {
        let mut whole = Vec::new();
        let mut at_s = 0.0;
        let down = |start_s, end_s| {
            (
                Segment {
                    start_s,
                    end_s,
                    up: false,
                    cpu: 0.0,
                },
                Note::default(),
            )
        };
        for (segment, note) in self.noted() {
            if segment.start_s > at_s {
                whole.push(down(at_s, segment.start_s));
            }
            at_s = segment.end_s;
            whole.push((segment, note));
        }

        if end_s > at_s {
            whole.push(down(at_s, end_s));
        }

        self.of_noted(whole.into_iter())
    }

    fn between(&self, from_s: f64, to_s: f64) -> Self {
        let cut = |(s, note): (Segment, Note)| {
            let cut = Segment {
                start_s: s.start_s.max(from_s),
                end_s: s.end_s.min(to_s),
                ..s
            };
            (cut.start_s < cut.end_s || cut == s && s.start_s <= s.end_s).then_some((cut, note))
        };
        self.of_noted(self.noted().filter_map(cut))
    }
}
