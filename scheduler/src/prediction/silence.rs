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

/// How the connection of a host ended, which says much of whether its attempts are gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Parting {
    /// Nothing came for longer than it had promised: a cable, a lid, a Wi-Fi, a PC without power.
    #[default]
    Silent,
    /// At the same time as those of many others. The scheduler finds that out by itself.
    Together,
    /// One of the two ends closed it in order.
    Closed,
    /// By a stateless reset: its process has died.
    Reset,
}

/// The ends of earlier silences, by how they began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Silences {
    alone: Ends,
    together: Ends,
    /// The last field of what is stored: [`Told`] says why.
    pub told: Told,
}

/// The ends of silences whose begin was told by the other end. They are stored apart from all other
/// experience, which older programs read without them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Told {
    closed: Ends,
    reset: Ends,
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
        Self {
            alone: Ends::prior(2.0, 0.125, 1),
            together: Ends::prior(0.5, 0.5, 2),
            told: Told::default(),
        }
    }
}

impl Default for Told {
    /// The prior: a service starts its worker again within some seconds, and its tasks have died
    /// with the first one; whoever closes in order may come another way.
    fn default() -> Self {
        let ends = Ends::prior(2.0, 0.125, 0);
        Self {
            closed: ends.clone(),
            reset: ends,
        }
    }
}

impl Silences {
    /// Returns the probability that the attempts of a host are gone that parted so and has been
    /// silent for `silent`.
    pub fn gone(&self, silent: Span, how: Parting) -> f64 {
        self.of(how).gone_from(class(silent))
    }

    /// Returns the silence after which attempts are more likely gone than not; `None`: no silence
    /// so far was long enough.
    pub fn likely_gone_after(&self, how: Parting) -> Option<Span> {
        let ends = self.of(how);
        (0..CLASSES)
            .find(|class| ends.gone_from(*class) >= LIKELY)
            .map(shortest)
    }

    /// Whether it costs less to wait for a host that is silent than to do the work of `done` again at once: for
    /// a while in which it may come back with that work, or until its lease ends in `lease`.
    pub(crate) fn worth_waiting(
        &self,
        silent: Span,
        how: Parting,
        lease: Span,
        done: Span,
    ) -> bool {
        let gone = self.gone(silent, how);
        let pays = |back: f64, wait_s: f64| back * done.secs() > gone * wait_s;
        let one = silent.max(Span::from_secs(1));
        let doubled = (1..=CLASSES).map(|times| Span(one.0 << times));
        let mut sooner = doubled.filter(|span| *span < silent + lease);
        pays(1.0 - gone, lease.secs())
            || sooner.any(|span| {
                pays(
                    1.0 - gone / self.gone(span, how),
                    span.secs() - silent.secs(),
                )
            })
    }

    /// Learns the end of a silence: whether the attempts were gone.
    pub(crate) fn observe(&mut self, silent: Span, how: Parting, gone: bool) {
        let ends = match how {
            Parting::Silent => &mut self.alone,
            Parting::Together => &mut self.together,
            Parting::Closed => &mut self.told.closed,
            Parting::Reset => &mut self.told.reset,
        };
        ends.gone *= FADING;
        ends.returned.iter_mut().for_each(|count| *count *= FADING);
        *if gone {
            &mut ends.gone
        } else {
            &mut ends.returned[class(silent)]
        } += 1.0;
    }

    fn of(&self, how: Parting) -> &Ends {
        match how {
            Parting::Silent => &self.alone,
            Parting::Together => &self.together,
            Parting::Closed => &self.told.closed,
            Parting::Reset => &self.told.reset,
        }
    }
}

impl Ends {
    /// Makes counts of silences: `gone` that were, and `class_returned` back in each of four classes from `first` on.
    fn prior(gone: f64, class_returned: f64, first: usize) -> Self {
        let mut returned = [0.0; CLASSES];
        returned[first..first + 4].fill(class_returned);
        Self { gone, returned }
    }

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
    use super::Parting::{Closed, Reset, Silent, Together};
    use super::*;

    fn taught(silent_s: u64, how: Parting, gone: bool, times: usize) -> Silences {
        let mut silences = Silences::default();
        for _ in 0..times {
            silences.observe(Span::from_secs(silent_s), how, gone);
        }
        silences
    }

    #[test]
    fn a_host_alone_is_doubted_at_once_and_many_at_once_only_later() {
        let silences = Silences::default();

        assert_eq!(silences.gone(Span::from_secs(1), Silent), 0.8);
        assert_eq!(silences.likely_gone_after(Silent), Some(Span::ZERO));
        assert_eq!(silences.gone(Span::from_secs(1), Together), 0.2);
        assert_eq!(
            silences.likely_gone_after(Together),
            Some(Span::from_secs(32)),
            "a switch may start for half a minute"
        );
    }

    #[test]
    fn silences_that_ended_well_teach_patience_up_to_their_length() {
        let silences = taught(5, Silent, false, 20);

        assert!(silences.gone(Span::from_secs(1), Silent) < 0.2);
        assert_eq!(
            silences.likely_gone_after(Silent),
            Some(Span::from_secs(8)),
            "they had lasted from 4 s to 8 s"
        );
        assert_eq!(
            silences.gone(Span::from_secs(1), Together),
            0.2,
            "another kind of silence"
        );
    }

    #[test]
    fn lost_hosts_teach_to_doubt_at_once() {
        let patient = taught(5, Together, false, 20);
        let mut silences = patient.clone();
        for _ in 0..100 {
            silences.observe(Span::from_secs(900), Together, true);
        }

        assert_eq!(silences.likely_gone_after(Together), Some(Span::ZERO));
        assert!(silences.gone(Span::ZERO, Together) > patient.gone(Span::ZERO, Together));
    }

    #[test]
    fn a_probability_grows_with_the_silence_and_is_never_certain() {
        for silences in [
            taught(0, Silent, false, 1_000),
            taught(300, Together, false, 1_000),
            taught(60, Reset, true, 1_000),
        ] {
            for how in [Silent, Together, Closed, Reset] {
                let of = |s: u64| silences.gone(Span::from_secs(s), how);
                let grows = (0..2_000).all(|s| of(s) <= of(s + 1));
                assert!(grows && of(0) >= 0.0 && of(2_001) <= 1.0 - DOUBT);
            }
        }
    }
}
