//! Silences of hosts: the probability that a host of which nothing is heard has lost its attempts,
//! learned from what earlier silences turned out to be.

use common::Span;
use serde::{Deserialize, Serialize};

/// Silences are told apart by their length, in classes that double: below 2 s, from 2 s to 4 s, and
/// so on; the last one is open.
const CLASSES: usize = 9;
/// The weight of earlier silences after each further one.
const FADING: f64 = 0.98;
/// From this probability on, attempts are taken to be gone: a copy of them is worth a slot that
/// would be idle.
const LIKELY: f64 = 0.5;
/// A silence of any length may still end.
const DOUBT: f64 = 0.02;

/// The ends of earlier silences: of hosts that fell silent one by one, and of many at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Silences {
    alone: Ends,
    together: Ends,
}

/// How silences of one kind ended. Later silences count for more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Ends {
    /// The silences after which the attempts were gone.
    gone: f64,
    /// Those after which the host was back with its attempts, by length.
    returned: [f64; CLASSES],
}

impl Default for Silences {
    /// The prior: a host that falls silent alone is mostly switched off, and cables and lids are
    /// back within half a minute; many at once are cut off by a switch, which starts within one.
    fn default() -> Self {
        let ends = |gone, class_returned: f64, first: usize| {
            let mut returned = [0.0; CLASSES];
            returned[first..first + 4].fill(class_returned);
            Ends { gone, returned }
        };
        Self {
            alone: ends(2.0, 0.125, 1),
            together: ends(0.5, 0.5, 2),
        }
    }
}

impl Silences {
    /// Returns the probability that the attempts of a host are gone that has been silent for
    /// `silent`, alone or together with many others.
    pub fn gone(&self, silent: Span, together: bool) -> f64 {
        self.of(together).gone_from(class(silent))
    }

    /// Returns the silence after which attempts are more likely gone than not; `None`: no silence
    /// so far was long enough.
    pub fn likely_gone_after(&self, together: bool) -> Option<Span> {
        let ends = self.of(together);
        (0..CLASSES)
            .find(|class| ends.gone_from(*class) >= LIKELY)
            .map(shortest)
    }

    /// Learns the end of a silence: whether the attempts were gone.
    pub(crate) fn observe(&mut self, silent: Span, together: bool, gone: bool) {
        let ends = if together {
            &mut self.together
        } else {
            &mut self.alone
        };
        ends.gone *= FADING;
        ends.returned.iter_mut().for_each(|count| *count *= FADING);
        *if gone {
            &mut ends.gone
        } else {
            &mut ends.returned[class(silent)]
        } += 1.0;
    }

    fn of(&self, together: bool) -> &Ends {
        if together {
            &self.together
        } else {
            &self.alone
        }
    }
}

impl Ends {
    /// Returns the probability that the attempts are gone after a silence of this class: hosts that
    /// were back sooner no longer count.
    fn gone_from(&self, class: usize) -> f64 {
        let back_later: f64 = self.returned[class..].iter().sum();
        let gone = self.gone / (self.gone + back_later).max(f64::MIN_POSITIVE);
        gone.min(1.0 - DOUBT)
    }
}

fn class(silent: Span) -> usize {
    let doubled = (silent.secs() as u64).max(1).ilog2() as usize;
    doubled.min(CLASSES - 1)
}

/// Returns the shortest silence of the class.
fn shortest(class: usize) -> Span {
    match class {
        0 => Span::ZERO,
        class => Span::from_secs(1 << class),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taught(silent_s: u64, together: bool, gone: bool, times: usize) -> Silences {
        let mut silences = Silences::default();
        for _ in 0..times {
            silences.observe(Span::from_secs(silent_s), together, gone);
        }
        silences
    }

    #[test]
    fn a_host_alone_is_doubted_at_once_and_many_at_once_only_later() {
        let silences = Silences::default();

        assert_eq!(silences.gone(Span::from_secs(1), false), 0.8);
        assert_eq!(silences.likely_gone_after(false), Some(Span::ZERO));
        assert_eq!(silences.gone(Span::from_secs(1), true), 0.2);
        assert_eq!(
            silences.likely_gone_after(true),
            Some(Span::from_secs(32)),
            "a switch may start for half a minute"
        );
    }

    #[test]
    fn silences_that_ended_well_teach_patience_up_to_their_length() {
        let silences = taught(5, false, false, 20);

        assert!(silences.gone(Span::from_secs(1), false) < 0.2);
        assert_eq!(
            silences.likely_gone_after(false),
            Some(Span::from_secs(8)),
            "they had lasted from 4 s to 8 s"
        );
        assert_eq!(
            silences.gone(Span::from_secs(1), true),
            0.2,
            "another kind of silence"
        );
    }

    #[test]
    fn lost_hosts_teach_to_doubt_at_once() {
        let patient = taught(5, true, false, 20);
        let mut silences = patient.clone();
        for _ in 0..100 {
            silences.observe(Span::from_secs(900), true, true);
        }

        assert_eq!(silences.likely_gone_after(true), Some(Span::ZERO));
        assert!(silences.gone(Span::ZERO, true) > patient.gone(Span::ZERO, true));
    }

    #[test]
    fn a_probability_grows_with_the_silence_and_is_never_certain() {
        for silences in [
            taught(0, false, false, 1_000),
            taught(300, true, false, 1_000),
            taught(60, false, true, 1_000),
        ] {
            for together in [false, true] {
                let of = |s: u64| silences.gone(Span::from_secs(s), together);
                let grows = (0..2_000).all(|s| of(s) <= of(s + 1));
                assert!(grows && of(0) >= 0.0 && of(2_001) <= 1.0 - DOUBT);
            }
        }
    }
}
