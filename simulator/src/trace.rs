//! Availability of hosts over time ([`Trace`]): read, written and cut, in this project's exchange
//! format and in those of others. Generated traces come from `availability`. Parquet is not read
//! here, since it needs a library of its own.

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

use common::Speed;
use common::units::{BadSpeed, REFERENCE_MHZ};

pub(crate) use draft::finite;
pub use error::{Flaw, TraceError};
pub use read::read_clocks_mhz;

/// The processor share below which tasks are suspended (Kondo et al. 2004, section 3.1).
pub const LEAST_CPU: f64 = 0.01;

/// The availability of a set of hosts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// The trace's start, in seconds since the Unix epoch; 0 where it is unknown.
    pub origin_s: i64,
    /// The hosts.
    pub hosts: Vec<TracedHost>,
}

/// A host with its availability.
#[derive(Debug, Clone, PartialEq)]
pub struct TracedHost {
    /// The name of the host.
    pub name: String,
    /// The clock rate of its processor, in MHz.
    pub clock_mhz: f64,
    /// The segments in order, without overlaps. Nothing is known about the gaps; the simulated
    /// world takes the host for down there.
    pub segments: Vec<Segment>,
    /// A note for each of `segments`, in their order; may be shorter if nothing is known of the
    /// rest.
    pub notes: Vec<Note>,
}

/// Facts about a segment that the simulated world does not use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Note {
    /// Whether the owner used the host, where that is known.
    pub owner_active: Option<bool>,
    /// The reason why the host was in this state, or in some formats why the segment ended, in the
    /// words or numbers of the recorder.
    pub reason: Option<Arc<str>>,
}

/// An interval in which nothing changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// The start, in seconds since the trace's start.
    pub start_s: f64,
    /// The end, in seconds since the trace's start.
    pub end_s: f64,
    /// Whether the host is up.
    pub up: bool,
    /// The part of its processor that tasks can have, between 0 and 1; below [`LEAST_CPU`] (0.01)
    /// tasks are suspended.
    pub cpu: f64,
}

impl Segment {
    /// A segment in which the host is down.
    pub(crate) fn down(start_s: f64, end_s: f64) -> Self {
        Segment {
            start_s,
            end_s,
            up: false,
            cpu: 0.0,
        }
    }

    /// Whether a task makes progress in it: the host is up and its owner leaves at least a
    /// hundredth of the processor.
    pub fn ready(&self) -> bool {
        self.up && self.cpu >= LEAST_CPU
    }

    /// The length in seconds.
    pub fn length_s(&self) -> f64 {
        self.end_s - self.start_s
    }
}

impl Trace {
    /// Creates hosts named `h000`, `h001` and so on from their clocks in MHz and their segments. If
    /// one list is longer than the other, its rest is left out.
    pub fn from_parts(clocks_mhz: Vec<f64>, segments: Vec<Vec<Segment>>) -> Self {
        let hosts = clocks_mhz.into_iter().zip(segments).enumerate();
        let host =
            |(n, (clock_mhz, segments))| TracedHost::new(format!("h{n:03}"), clock_mhz, segments);
        Trace {
            origin_s: 0,
            hosts: hosts.map(host).collect(),
        }
    }

    /// The end of the last segment, in seconds since the trace's start. Nothing is known of any
    /// host beyond it.
    pub fn end_s(&self) -> f64 {
        let ends = self
            .hosts
            .iter()
            .filter_map(|host| host.segments.last())
            .map(|segment| segment.end_s);
        ends.fold(0.0, f64::max)
    }

    /// Returns a copy in which every host is down where nothing is known of it, from the trace's
    /// start to its end.
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

    /// Returns the part between two times, in seconds since the trace's start. Where the origin is
    /// known, the part's own time begins in the second of `from_s`, if that is later than the
    /// trace's start.
    #[must_use]
    pub fn between(&self, from_s: f64, to_s: f64) -> Self {
        let later_s = if self.origin_s == 0 {
            0
        } else {
            from_s.max(0.0).floor() as i64
        };
        let part = |host: &TracedHost| host.between(from_s, to_s).counted_from(later_s);
        Trace {
            origin_s: self.origin_s.saturating_add(later_s),
            hosts: self.hosts.iter().map(part).collect(),
        }
    }
}

impl TracedHost {
    /// Creates a host without `notes`.
    pub fn new(name: impl Into<String>, clock_mhz: f64, segments: Vec<Segment>) -> Self {
        Self {
            name: name.into(),
            clock_mhz,
            segments,
            notes: Vec::new(),
        }
    }

    /// The speed of its processor.
    ///
    /// # Errors
    /// If its clock rate is so low or so high that there is no such [`Speed`].
    pub fn speed(&self) -> Result<Speed, BadSpeed> {
        Speed::new(self.clock_mhz / REFERENCE_MHZ)
    }

    /// Each segment with its [`Note`], which is empty where there is none.
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

    /// Returns a copy that is down where nothing is known, up to `end_s`.
    fn without_gaps(&self, end_s: f64) -> Self {
        let mut whole = Vec::new();
        let mut at_s = 0.0;
        let down = |start_s, end_s| (Segment::down(start_s, end_s), Note::default());
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

    /// Returns the host with its times counted from `later_s` seconds later on.
    fn counted_from(mut self, later_s: i64) -> Self {
        if later_s == 0 {
            return self;
        }
        for segment in &mut self.segments {
            segment.start_s = moment::counted_from(later_s, segment.start_s);
            segment.end_s = moment::counted_from(later_s, segment.end_s);
        }
        self
    }
}
