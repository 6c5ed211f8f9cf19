//! The planned events of a run ([`WorldEvent`]), packed for the agenda ([`Packed`]).

use common::Time;

use crate::kernel::Planned;

/// The kinds of planned event, in their order at one instant. One that no longer fits is skipped
/// when it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorldEvent {
    /// This attempt has done its work.
    Done(u32),
    /// This attempt enters a phase that its host reports at once.
    Moved(u32),
    /// This host's heartbeat is missed for the first time.
    Missed(u32),
    /// This host sends a heartbeat that has news.
    Beat(u32),
}

/// A [`WorldEvent`] with its time as one integer, since there are many and they are compared often: from
/// the highest bit on, the time, the kind, and the number of the attempt or host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Packed(u128);

impl Planned for Packed {
    type Due = WorldEvent;

    fn new(at: Time, what: WorldEvent) -> Self {
        let (kind, number) = match what {
            WorldEvent::Done(attempt) => (0, attempt),
            WorldEvent::Moved(attempt) => (1, attempt),
            WorldEvent::Missed(host) => (2, host),
            WorldEvent::Beat(host) => (3, host),
        };
        let what = kind << 62 | u64::from(number);
        Packed(u128::from(at.0) << 64 | u128::from(what))
    }

    fn open(self) -> (Time, WorldEvent) {
        let what = self.0 as u64;
        let number = what as u32;
        let what = match what >> 62 {
            0 => WorldEvent::Done(number),
            1 => WorldEvent::Moved(number),
            2 => WorldEvent::Missed(number),
            _ => WorldEvent::Beat(number),
        };
        (Time((self.0 >> 64) as u64), what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_come_before_news_before_missed_heartbeats_before_heartbeats_each_by_number() {
        let sorted = [
            WorldEvent::Done(1),
            WorldEvent::Done(u32::MAX),
            WorldEvent::Moved(0),
            WorldEvent::Missed(0),
            WorldEvent::Missed(u32::MAX),
            WorldEvent::Beat(7),
        ];
        let packed = sorted.map(|what| Packed::new(Time(9), what));
        assert!(packed.is_sorted());
        assert_eq!(packed.map(Packed::open), sorted.map(|what| (Time(9), what)));
        assert!(Packed::new(Time(8), WorldEvent::Beat(7)) < packed[0]);
    }
}
