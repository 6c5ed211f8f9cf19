//! Tells the scheduler how long a host's idle windows last when the host connects, from its
//! recorded availability. Recording lives in `availability`.

use common::availability::{AvailabilityInterval, LEAST_CPU};
use common::{HostId, Span};
use scheduler::Event;
use scheduler::reservation::Windows;

use super::Core;
use crate::store::StoreResult;

/// The age up to which recorded availability is used: older records say little of present use.
const RECENT: Span = Span::from_secs(28 * 86_400);
/// The most recorded intervals of a host that are read, the newest ones.
const MOST: u32 = 5_000;
/// The gap up to which consecutive usable intervals count as one: a restart of the worker ends no
/// window.
const NEAR: Span = Span::from_secs(60);

impl Core {
    /// Tells the scheduler how long the host's windows last, where anything is recorded.
    pub(super) fn tell_windows(&mut self, host: HostId) -> StoreResult<()> {
        let recorded = self.store.recorded(host, self.now - RECENT, MOST)?;
        let Some(windows) = windows(&recorded) else {
            return Ok(());
        };
        self.step(Event::HostWindows {
            host,
            windows: Box::new(windows),
        })
    }
}

/// Builds `Windows` from recorded intervals, the oldest first; `None` if they contain no window.
fn windows(recorded: &[AvailabilityInterval]) -> Option<Windows> {
    let mut windows = Windows::default();
    let mut open = None::<AvailabilityInterval>;
    let mut any = false;

    for stretch in recorded {
        let usable = stretch.reason.is_none() && stretch.cpu >= LEAST_CPU;
        open = match open.take() {
            Some(before) if usable && stretch.start.since(before.end) <= NEAR => {
                Some(AvailabilityInterval {
                    end: stretch.end,
                    ..before
                })
            }
            before => {
                if let Some(before) = before {
                    windows.observe(before.start.secs(), before.end.secs(), true);
                    any = true;
                }
                usable.then(|| stretch.clone())
            }
        };
    }

    if let Some(last) = open {
        windows.observe(last.start.secs(), last.end.secs(), false);
        any = true;
    }

    any.then_some(windows)
}

#[cfg(test)]
mod tests {
    use common::Time;
    use common::host::{OwnerState, YieldReason};

    use super::*;

    /// A week of hours from nine to seventeen, in the first half of each of which the owner is
    /// away.
    fn recorded() -> Vec<AvailabilityInterval> {
        let at =
            |day: u64, hour: u64, minute: u64| Time(((day * 24 + hour) * 60 + minute) * 60_000_000);
        let hours = (4..11).flat_map(|day| (9..17).map(move |hour| (day, hour)));
        let halves = hours.flat_map(|(day, hour)| {
            let there = OwnerState::Present(YieldReason::InUse);
            let idle = AvailabilityInterval::of(
                at(day, hour, 0),
                at(day, hour, 30),
                OwnerState::Away,
                1.0,
            );
            [
                idle,
                AvailabilityInterval::of(at(day, hour, 30), at(day, hour + 1, 0), there, 0.0),
            ]
        });
        halves.collect()
    }

    #[test]
    fn windows_are_the_recorded_times_between_owner_visits() {
        assert_eq!(windows(&[]), None);
        let windows = windows(&recorded()).expect("something is recorded");
        let outlook = windows.outlook(recorded()[0].start.secs(), 0.0);
        assert!(
            outlook.open(20.0 * 60.0) > 0.8,
            "{}",
            outlook.open(20.0 * 60.0)
        );
        assert!(
            outlook.open(50.0 * 60.0) < 0.2,
            "{}",
            outlook.open(50.0 * 60.0)
        );
    }
}
