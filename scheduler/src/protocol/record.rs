//! The recording of a scheduler's run: its settings, every event with its time, and the effects.
//! Bytes in and bytes out; the caller stores them, and the simulator replays them.

use std::borrow::Cow;

use common::journal::{self, BadEntry};
use common::{Incarnation, Time};
use serde::{Deserialize, Serialize};

use crate::{Effect, Event, Settings};

/// The first bytes of a recording. The number rises with each change of [`Event`], [`Effect`] or
/// [`Settings`], whose bytes would mean something else then.
pub const MAGIC: &[u8; 18] = b"deskgrid record 3\n";

/// An entry of a recording. One that is read owns what it holds.
#[derive(Debug, Serialize, Deserialize)]
enum RecordEntry<'a> {
    Begun(Cow<'a, Settings>, Incarnation),
    Event(Time, Cow<'a, Event>),
    Effects(Cow<'a, [Effect]>),
}

/// The life of one scheduler.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulerLife {
    /// The settings it was made with.
    pub settings: Settings,
    /// The incarnation that its attempts carried.
    pub incarnation: Incarnation,
    /// The steps in order. A step that breaks off with its recording is left out.
    pub steps: Vec<Step>,
}

/// One event and its effects.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The time of the event.
    pub at: Time,
    /// The event.
    pub event: Event,
    /// The effects, in order.
    pub effects: Vec<Effect>,
}

/// An error in bytes that should be a recording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// They do not begin with [`MAGIC`].
    #[error("this is not a recording of a deskgrid master of this version")]
    NotOne,
    /// An entry is damaged.
    #[error("the recording is broken at byte {at}: {why}")]
    Broken {
        /// The number of bytes before it.
        at: usize,
        /// The reason.
        why: BadEntry,
    },
    /// A step comes before any [`begin`], at this byte.
    #[error("the recording is broken at byte {0}: it does not say whose step this is")]
    Headless(usize),
}

/// Appends the begin of a scheduler's life.
///
/// # Errors
/// If it cannot be encoded.
pub fn begin(
    settings: &Settings,
    incarnation: Incarnation,
    out: &mut Vec<u8>,
) -> Result<(), BadEntry> {
    let settings = Cow::Borrowed(settings);
    journal::append(&RecordEntry::Begun(settings, incarnation), out)
}

/// Appends an event, before it is given to the scheduler.
///
/// # Errors
/// If it cannot be encoded.
pub fn event(at: Time, event: &Event, out: &mut Vec<u8>) -> Result<(), BadEntry> {
    journal::append(&RecordEntry::Event(at, Cow::Borrowed(event)), out)
}

/// Appends the effects of the last event.
///
/// # Errors
/// If it cannot be encoded.
pub fn effects(effects: &[Effect], out: &mut Vec<u8>) -> Result<(), BadEntry> {
    journal::append(&RecordEntry::Effects(Cow::Borrowed(effects)), out)
}

/// Reads the runs in a recording. An entry that breaks off at the end is left out: its writer was
/// killed.
///
/// # Errors
/// If the bytes are not a recording, or are damaged.
pub fn read(bytes: &[u8]) -> Result<Vec<SchedulerLife>, BadRecord> {
    if !bytes.starts_with(MAGIC) {
        return Err(BadRecord::NotOne);
    }

    let mut runs = Vec::<SchedulerLife>::new();
    let mut pending = None;
    let mut at = MAGIC.len();

    while let Some((entry, length)) =
        journal::first(&bytes[at..]).map_err(|why| BadRecord::Broken { at, why })?
    {
        match (entry, runs.last_mut()) {
            (RecordEntry::Begun(settings, incarnation), _) => {
                runs.push(SchedulerLife {
                    settings: settings.into_owned(),
                    incarnation,
                    steps: Vec::new(),
                });
                pending = None;
            }
            (RecordEntry::Event(at, event), Some(_)) => pending = Some((at, event.into_owned())),
            (RecordEntry::Effects(effects), Some(run)) => {
                let effects = effects.into_owned();
                let step = pending.take();
                run.steps
                    .extend(step.map(|(at, event)| Step { at, event, effects }));
            }
            (_, None) => return Err(BadRecord::Headless(at)),
        }

        at += length;
    }

    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for incarnation in [Incarnation(1), Incarnation(2)] {
            begin(&Settings::default(), incarnation, &mut bytes).unwrap();
            for n in 1..4 {
                event(Time(n), &Event::Tick, &mut bytes).unwrap();
                effects(
                    &[Effect::JobAdmitted {
                        job: common::JobId(n as u32),
                    }],
                    &mut bytes,
                )
                .unwrap();
            }
        }

        bytes
    }

    #[test]
    fn a_record_is_read_back_without_its_torn_end() {
        let bytes = recorded();
        let runs = read(&bytes).unwrap();
        assert_eq!(
            runs.iter()
                .map(|run| (run.incarnation.0, run.steps.len()))
                .collect::<Vec<_>>(),
            [(1, 3), (2, 3)]
        );

        let last = &runs[1].steps[2];
        assert_eq!((last.at, &last.event), (Time(3), &Event::Tick));
        assert_eq!(
            last.effects,
            [Effect::JobAdmitted {
                job: common::JobId(3)
            }]
        );

        let torn = read(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!((torn[0].steps.len(), torn[1].steps.len()), (3, 2));
    }

    #[test]
    fn other_bytes_and_damage_are_told_apart() {
        for other in ["something else", "deskgrid record 1\n"] {
            assert_eq!(read(other.as_bytes()), Err(BadRecord::NotOne));
        }
        let mut bytes = recorded();
        bytes[MAGIC.len() + journal::PREFIX] = 9;
        assert!(matches!(
            read(&bytes),
            Err(BadRecord::Broken { at: 18, .. })
        ));
        let mut headless = MAGIC.to_vec();
        event(Time(1), &Event::Tick, &mut headless).unwrap();
        assert_eq!(read(&headless), Err(BadRecord::Headless(18)));
    }
}
