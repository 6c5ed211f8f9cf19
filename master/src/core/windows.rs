//! How long hosts' idle windows last, from how they were recorded to be available: told to the
//! scheduler when a host connects. What is not here: recording, and what follows.

use common::availability::{LEAST_CPU, Stretch};
use common::{HostId, Span};
use scheduler::Event;
use scheduler::reservation::Windows;

use super::Core;
use crate::store::StoreError;

/// What is older says little of how the host is used now.
const RECENT: Span = Span::from_secs(28 * 86_400);
/// So many stretches of a host are looked at, the newest ones.
const MOST: u32 = 5_000;
/// Stretches that are no farther apart are one: a restart of the worker ends no window.
const NEAR: Span = Span::from_secs(60);

impl Core {
    /// Tells the scheduler how long the host's windows last, where anything is recorded.
    pub(super) fn tell_windows(&mut self, host: HostId) -> Result<(), StoreError> {
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

/// What these stretches, the oldest first, say of windows; nothing where there is none.
fn windows(recorded: &[Stretch]) -> Option<Windows> {
    let mut windows = Windows::default();
    let mut open = None::<Stretch>;
    let mut any = false;

    for stretch in recorded {
        let usable = stretch.reason.is_none() && stretch.cpu >= LEAST_CPU;
        open = match open.take() {
            Some(before) if usable && stretch.start.since(before.end) <= NEAR => Some(Stretch {
                end: stretch.end,
                ..before
            }),
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

    /// A week of hours from nine to seventeen, in the first half of each of which nobody is there.
    fn recorded() -> Vec<Stretch> {
        let at =
            |day: u64, hour: u64, minute: u64| Time(((day * 24 + hour) * 60 + minute) * 60_000_000);
        let hours = (4..11).flat_map(|day| (9..17).map(move |hour| (day, hour)));
        let halves = hours.flat_map(|(day, hour)| {
            let there = OwnerState::Present(YieldReason::InUse);
            let idle = Stretch::of(at(day, hour, 0), at(day, hour, 30), OwnerState::Away, 1.0);
            [
                idle,
                Stretch::of(at(day, hour, 30), at(day, hour + 1, 0), there, 0.0),
            ]
        });
        halves.collect()
    }

    #[test]
    fn windows_are_what_was_recorded_between_the_owners_visits() {
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
