//! A trace under construction: hosts with intervals of absolute time as a file's lines give them,
//! checked one by one. Nothing is repaired.

use std::collections::BTreeMap;

use super::moment::Moment;
use super::{Flaw, Note, Segment, Trace, TracedHost};

/// The clock rate, in MHz, of hosts whose format gives none: speed 1.
pub(super) const UNKNOWN_CLOCK_MHZ: f64 = common::units::REFERENCE_MHZ;

/// The clock rates, in MHz, that a file can give a host: others are in another unit, as those in kHz. Of live hosts, whose
/// speed an admin may set, they are speeds up to 333.
const CLOCKS_MHZ: std::ops::RangeInclusive<f64> = 0.001..=500_000.0;

/// Checks the clock rate, in MHz, that a file gives a host.
pub(super) fn checked_clock(host: &str, clock_mhz: f64) -> Result<f64, Flaw> {
    if CLOCKS_MHZ.contains(&clock_mhz) {
        return Ok(clock_mhz);
    }
    let host = host.to_owned();
    Err(Flaw::Clock { host, clock_mhz })
}

/// Parses a field that must be a finite number.
pub(crate) fn finite(column: &'static str, text: &str) -> Result<f64, Flaw> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
    value.ok_or_else(|| Flaw::NotANumber {
        column,
        text: text.to_owned(),
    })
}

/// An interval of absolute time.
#[derive(Debug, Clone)]
pub(super) struct TimeInterval {
    pub(super) start: Moment,
    pub(super) end: Moment,
    pub(super) up: bool,
    pub(super) cpu: f64,
    pub(super) note: Note,
}

/// A host under construction.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) clock_mhz: f64,
    pub(super) stretches: Vec<TimeInterval>,
}

impl Draft {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            clock_mhz: UNKNOWN_CLOCK_MHZ,
            stretches: Vec::new(),
        }
    }

    /// Adds a stretch that begins where the last one ends, or later. Its length may be zero: some
    /// formats record restarts that way.
    pub(super) fn push(&mut self, stretch: TimeInterval) -> Result<(), Flaw> {
        let start_s = stretch.start.since(0);
        let end_s = stretch.end.since(0);
        if stretch.end.order(&stretch.start).is_lt() {
            return Err(Flaw::Backwards { start_s, end_s });
        }

        if let Some(last) = self
            .stretches
            .last()
            .filter(|last| stretch.start.order(&last.end).is_lt())
        {
            return Err(Flaw::Overlap {
                host: self.name.clone(),
                start_s,
                before_s: last.end.since(0),
            });
        }

        if !(0.0..=1.0).contains(&stretch.cpu) {
            return Err(Flaw::Fraction(stretch.cpu));
        }

        self.stretches.push(stretch);
        Ok(())
    }
}

/// Builds the trace of these hosts. Its origin is the second in which the earliest stretch begins,
/// or 0 where times are too small to count from 1970. Repeated names get a number.
pub(super) fn finish(drafts: Vec<Draft>) -> Trace {
    let starts = drafts
        .iter()
        .filter_map(|draft| draft.stretches.first())
        .map(|first| first.start);
    let origin_s = starts.min_by(Moment::order).map_or(0, Moment::origin_s);
    let mut uses: BTreeMap<String, u32> =
        drafts.iter().map(|draft| (draft.name.clone(), 0)).collect();
    let mut unique = |name: String| {
        let used = uses.get(&name).copied().unwrap_or(0);
        if used == 0 {
            uses.insert(name.clone(), 1);
            return name;
        }
        let free = (used + 1..)
            .find(|n| !uses.contains_key(&format!("{name}-{n}")))
            .unwrap_or(u32::MAX);
        let new = format!("{name}-{free}");
        uses.insert(name, free);
        uses.insert(new.clone(), 1);
        new
    };

    let host = |draft: Draft| {
        let segment = |s: &TimeInterval| Segment {
            start_s: s.start.since(origin_s),
            end_s: s.end.since(origin_s),
            up: s.up,
            cpu: s.cpu,
        };
        let segments = draft.stretches.iter().map(segment).collect();
        let notes: Vec<Note> = draft
            .stretches
            .into_iter()
            .map(|stretch| stretch.note)
            .collect();
        let notes = if notes.iter().all(|note| *note == Note::default()) {
            Vec::new()
        } else {
            notes
        };

        TracedHost {
            name: unique(draft.name),
            clock_mhz: draft.clock_mhz,
            segments,
            notes,
        }
    };
    Trace {
        origin_s,
        hosts: drafts.into_iter().map(host).collect(),
    }
}
