//! One input device: its use, by the system's description, and the events that mean that somebody
//! is there.

use std::fs;
use std::path::Path;

use common::{Span, Time};

/// Kinds of events, from the kernel's `input-event-codes.h`.
const EV_KEY: usize = 1;
const EV_REL: usize = 2;
const EV_ABS: usize = 3;
/// The property of a device that measures its own acceleration.
const PROP_ACCELEROMETER: usize = 6;
/// Keys of the main block of a keyboard.
const KEYBOARD: std::ops::RangeInclusive<usize> = 1..=83;
/// Buttons of mice, joysticks, touchpads and pens.
const BUTTONS: std::ops::RangeInclusive<usize> = 0x100..=0x15f;

/// A `struct input_event`: two machine words of time, then type, code (16 bits each) and value (32
/// bits).
pub(super) const EVENT: usize = 2 * size_of::<usize>() + 8;

/// The use of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeviceKind {
    /// Somebody sits at it: a keyboard, a mouse, a touchpad.
    Seat,
    /// Some buttons: that of the power, those of a headset.
    Buttons,
    /// Nothing that a person touches: a lid, a loudspeaker, an accelerometer.
    Ignored,
}

/// Numbers of bits that are set.
#[derive(Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    /// As the system writes them: words in hexadecimal, the highest first.
    fn read(file: &Path) -> Option<Self> {
        let text = fs::read_to_string(file).ok()?;
        let words: Option<Vec<u64>> = text
            .split_whitespace()
            .rev()
            .map(|w| u64::from_str_radix(w, 16).ok())
            .collect();
        words.map(Self)
    }

    fn has(&self, bit: usize) -> bool {
        let width = usize::BITS as usize;
        self.0
            .get(bit / width)
            .is_some_and(|word| (word >> (bit % width)) & 1 == 1)
    }
}

/// Returns the use of the device whose description is in `dir` (`/sys/class/input/event3/device`).
/// A device without description counts as one that somebody sits at.
pub(super) fn kind(dir: &Path) -> DeviceKind {
    let capabilities = dir.join("capabilities");
    let Some(events) = Bits::read(&capabilities.join("ev")) else {
        return DeviceKind::Seat;
    };
    let properties = Bits::read(&dir.join("properties")).unwrap_or_default();
    if properties.has(PROP_ACCELEROMETER) || !(events.has(EV_KEY) || events.has(EV_REL)) {
        return DeviceKind::Ignored;
    }
    let keys = Bits::read(&capabilities.join("key")).unwrap_or_default();
    let seat = events.has(EV_REL) || KEYBOARD.chain(BUTTONS).any(|key| keys.has(key));
    if seat {
        DeviceKind::Seat
    } else {
        DeviceKind::Buttons
    }
}

/// The meaning of several events together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Touch {
    /// Nothing of a person.
    None,
    /// Something moved, or a key that was held repeats.
    Moved,
    /// A key or button went down or up.
    Pressed,
}

/// The strongest of the events in `bytes`; what they say beyond that is not looked at.
pub(super) fn touch(bytes: &[u8]) -> Touch {
    bytes
        .chunks_exact(EVENT)
        .map(one)
        .max()
        .unwrap_or(Touch::None)
}

fn one(event: &[u8]) -> Touch {
    let at = EVENT - 8;
    let kind = usize::from(u16::from_ne_bytes([event[at], event[at + 1]]));
    let value = i32::from_ne_bytes([event[at + 4], event[at + 5], event[at + 6], event[at + 7]]);
    match kind {
        EV_KEY if matches!(value, 0 | 1) => Touch::Pressed,
        EV_KEY | EV_REL | EV_ABS => Touch::Moved,
        _ => Touch::None,
    }
}

/// Tells a person from a device that moves all the time, such as a joystick that drifts: no person
/// moves anything for `LONGEST`, half an hour, without a pause, and without a button.
#[derive(Debug, Default)]
pub(super) struct Chatter {
    last: Option<Time>,
    /// The time since which it has moved without a pause.
    run: Time,
}

impl Chatter {
    /// The shortest time without movement that is a pause.
    const PAUSE: Span = Span::from_secs(10);
    /// The longest time that a person goes on without a pause.
    const LONGEST: Span = Span::from_secs(30 * 60);

    /// Whether a touch at this time was a person's.
    pub(super) fn is_person(&mut self, now: Time, touch: Touch) -> bool {
        if touch == Touch::None {
            return false;
        }
        let paused = self.last.is_none_or(|last| now.since(last) > Self::PAUSE);
        if paused || touch == Touch::Pressed {
            self.run = now;
        }
        self.last = Some(now);
        now.since(self.run) < Self::LONGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(ev: &str, key: &str, properties: &str) -> DeviceKind {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("capabilities")).unwrap();
        fs::write(dir.path().join("capabilities/ev"), ev).unwrap();
        fs::write(dir.path().join("capabilities/key"), key).unwrap();
        fs::write(dir.path().join("properties"), properties).unwrap();
        kind(dir.path())
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn devices_are_classified_by_their_abilities() {
        let keyboard = "402000000 3803078f800d001 feffffdfffefffff fffffffffffffffe\n";
        for (ev, key, properties, expected) in [
            ("120013\n", keyboard, "0\n", DeviceKind::Seat),
            ("17\n", "1f0000 0 0 0 0\n", "0\n", DeviceKind::Seat), // A mouse.
            ("b\n", "420 30000 0 0 0 0\n", "5\n", DeviceKind::Seat), // A touchpad.
            ("3\n", "10000000000000 0\n", "0\n", DeviceKind::Buttons), // The power button.
            ("21\n", "0\n", "0\n", DeviceKind::Ignored),           // A lid.
            ("40001\n", "0\n", "0\n", DeviceKind::Ignored),        // A loudspeaker.
            ("9\n", "0\n", "40\n", DeviceKind::Ignored),           // An accelerometer.
            ("b\n", "10000 0 0 0 0\n", "40\n", DeviceKind::Ignored),
        ] {
            assert_eq!(
                described(ev, key, properties),
                expected,
                "{ev:?} {key:?} {properties:?}"
            );
        }

        assert_eq!(
            kind(Path::new("/nonexistent")),
            DeviceKind::Seat,
            "what is not described could be anything"
        );
    }

    fn event(kind: u16, value: i32) -> Vec<u8> {
        let mut bytes = vec![0xee; EVENT - 8];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(30u16.to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
        bytes
    }

    #[test]
    fn presses_and_movements_are_told_from_the_rest() {
        for (kind, value, expected) in [
            (1, 1, Touch::Pressed),
            (1, 0, Touch::Pressed),
            (1, 2, Touch::Moved),
            (2, -3, Touch::Moved),
            (3, 800, Touch::Moved),
            (0, 0, Touch::None),
            (4, 30, Touch::None),
            (5, 1, Touch::None),
            (17, 1, Touch::None),
        ] {
            assert_eq!(touch(&event(kind, value)), expected, "{kind} {value}");
        }

        assert_eq!(
            touch(&[event(4, 30), event(1, 1), event(0, 0)].concat()),
            Touch::Pressed
        );
        assert_eq!(
            touch(&event(1, 1)[..EVENT - 1]),
            Touch::None,
            "half an event is none"
        );
    }

    #[test]
    fn only_a_device_that_never_rests_is_no_person() {
        let mut chatter = Chatter::default();
        let at = |s: u64| Time(0) + Span::from_secs(s);
        assert!((0..1_800).all(|s| chatter.is_person(at(s), Touch::Moved)));
        assert!(
            (1_800..4_000).all(|s| !chatter.is_person(at(s), Touch::Moved)),
            "it drifts"
        );
        assert!(
            chatter.is_person(at(4_000), Touch::Pressed),
            "but somebody pressed its button"
        );
        assert!(chatter.is_person(at(4_001), Touch::Moved));

        assert!((4_002..9_000).any(|s| !chatter.is_person(at(s), Touch::Moved)));
        assert!(chatter.is_person(at(9_020), Touch::Moved), "it had stopped");
        assert!(!chatter.is_person(at(9_021), Touch::None));
    }
}
