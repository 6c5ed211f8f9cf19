//! The availability of this host: looks at it are merged into intervals in which nothing changed.
//! Pure: the content of a look and its time are arguments. The intervals are kept by [`kept`] and
//! [`book`].

pub(crate) mod book;
pub(crate) mod kept;

use common::availability::AvailabilityInterval;
use common::host::OwnerState;
use common::{Span, Time};

/// The largest difference of the processor part from the mean of an interval that still counts as
/// the same.
const ALIKE: f32 = 0.05;
/// An interval is given out once it is this many look intervals long, so that a crash costs little
/// of it.
const LOOKS: u64 = 30;
/// A wall clock that was set back by more than this was wrong before. If it was set back by less,
/// nothing is recorded until it is where it had been.
const SET_BACK: Span = Span::from_secs(3_600);

/// The content of a look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Look {
    /// The time of the look, by the wall clock.
    pub at: Time,
    /// The owner's state.
    pub owner: OwnerState,
    /// The part of each slot's processor that tasks could have since the look before.
    pub cpu: f32,
}

/// The result of a look.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct News {
    /// The time to which the clock was set back: records after it are to be forgotten, because the
    /// clock was wrong.
    pub forget_after: Option<Time>,
    /// The intervals that are complete, in order.
    pub over: Vec<AvailabilityInterval>,
}

/// Merges looks into intervals. The ones that it gives out never overlap, whatever the clock does,
/// except those that it says are to be forgotten.
#[derive(Debug, Clone)]
pub(crate) struct AvailabilityRecorder {
    every: Span,
    run: Option<AvailabilityInterval>,
    /// The time of the last look, if the time between it and the next one can be recorded.
    before: Option<Time>,
    /// The end of the recorded time.
    until: Time,
}

impl AvailabilityRecorder {
    /// Makes a recorder of looks that come every `every`; everything before `until` is recorded
    /// already.
    pub(crate) fn new(every: Span, until: Time) -> Self {
        Self {
            every,
            run: None,
            before: None,
            until,
        }
    }

    /// Takes a look. Its content counts from the look before on. If that one was more than 2.5
    /// times `every` ago, the host slept or the clock was set, and nothing is recorded for the gap.
    pub(crate) fn look(&mut self, look: Look) -> News {
        let mut news = News::default();
        if look.at < self.until {
            self.on_set_back(look.at, &mut news);
            return news;
        }

        let from = self
            .before
            .replace(look.at)
            .map(|before| before.max(self.until));
        let known = from.filter(|from| {
            *from < look.at && look.at.since(*from).0 <= self.every.0.saturating_mul(5) / 2
        });
        let Some(from) = known else {
            news.over.extend(self.run.take());
            return news;
        };
        let now = AvailabilityInterval::of(from, look.at, look.owner, look.cpu);

        self.until = look.at;
        if let Some(run) = &mut self.run {
            if run.join(&now, ALIKE) {
                news.over.extend(
                    self.run
                        .take_if(|run| run.length().0 >= self.every.0.saturating_mul(LOOKS)),
                );
                return news;
            }
            news.over.extend(self.run.take());
        }

        self.run = Some(now);
        news
    }

    fn on_set_back(&mut self, at: Time, news: &mut News) {
        self.before = None;
        let run = self.run.take();
        if self.until.since(at) > SET_BACK {
            self.until = at;
            news.forget_after = Some(at);
        } else {
            news.over.extend(run);
        }
    }

    /// Returns the interval that is not complete yet, when there are no more looks.
    pub(crate) fn end(&mut self) -> Option<AvailabilityInterval> {
        self.before = None;
        self.run.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::host::YieldReason;
    use proptest::prelude::*;

    const EVERY: Span = Span::from_secs(10);
    const PAUSED: OwnerState = OwnerState::Present(YieldReason::PausedByOwner);

    fn at(s: u64) -> Time {
        Time(1_700_000_000_000_000) + Span::from_secs(s)
    }

    /// Everything that these looks (second, owner, part of the processor) lead to, the end
    /// included.
    fn record(looks: &[(u64, OwnerState, f32)]) -> Vec<(u64, u64, f32, Option<String>)> {
        let mut recorder = AvailabilityRecorder::new(EVERY, Time(0));
        let mut over = Vec::new();
        for &(s, owner, cpu) in looks {
            let news = recorder.look(Look {
                at: at(s),
                owner,
                cpu,
            });
            assert_eq!(news.forget_after, None);
            over.extend(news.over);
        }

        over.extend(recorder.end());
        let second = |time: Time| time.since(at(0)).0 / 1_000_000;
        over.into_iter()
            .map(|s| (second(s.start), second(s.end), s.cpu, s.reason))
            .collect()
    }

    fn looks(
        range: std::ops::Range<u64>,
        owner: OwnerState,
        cpu: f32,
    ) -> Vec<(u64, OwnerState, f32)> {
        range.map(|n| (n * 10, owner, cpu)).collect()
    }

    #[test]
    fn looks_that_are_alike_are_one_stretch_with_their_mean() {
        let found = record(&[
            (0, OwnerState::Away, 0.2),
            (10, OwnerState::Away, 0.98),
            (20, OwnerState::Away, 1.0),
        ]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0, found[0].1, &found[0].3), (0, 20, &None));
        assert!((found[0].2 - 0.99).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn a_pause_and_a_return_of_the_owner_are_seen() {
        let all = [
            looks(0..4, OwnerState::Away, 1.0),
            looks(4..7, PAUSED, 1.0),
            looks(7..9, OwnerState::Away, 1.0),
        ];
        let why = Some("paused-by-owner".to_owned());
        assert_eq!(
            record(&all.concat()),
            [(0, 30, 1.0, None), (30, 60, 0.0, why), (60, 80, 1.0, None)]
        );
    }

    #[test]
    fn an_idle_host_has_a_stretch_in_five_minutes() {
        let found = record(&looks(0..181, OwnerState::Away, 1.0));
        assert_eq!(
            found.iter().map(|s| (s.0, s.1)).collect::<Vec<_>>(),
            [
                (0, 300),
                (300, 600),
                (600, 900),
                (900, 1_200),
                (1_200, 1_500),
                (1_500, 1_800)
            ]
        );
    }

    #[test]
    fn a_sleep_and_a_clock_that_leaps_are_gaps() {
        let all = [
            looks(0..3, OwnerState::Away, 1.0),
            looks(400..403, OwnerState::Away, 1.0),
        ];
        assert_eq!(
            record(&all.concat()),
            [(0, 20, 1.0, None), (4_000, 4_020, 1.0, None)]
        );
    }

    #[test]
    fn a_clock_that_is_set_back_a_little_is_waited_for() {
        let all = [
            looks(10..13, OwnerState::Away, 1.0),
            looks(9..15, OwnerState::Away, 1.0),
        ];
        assert_eq!(
            record(&all.concat()),
            [(100, 120, 1.0, None), (120, 140, 1.0, None)]
        );
    }

    #[test]
    fn a_clock_that_is_set_back_by_much_was_wrong() {
        let mut recorder = AvailabilityRecorder::new(EVERY, Time(0));
        let year = 31_536_000;
        for s in [year, year + 10, year + 20] {
            recorder.look(Look {
                at: at(s),
                owner: OwnerState::Away,
                cpu: 1.0,
            });
        }

        let news = recorder.look(Look {
            at: at(30),
            owner: OwnerState::Away,
            cpu: 1.0,
        });
        assert_eq!(
            news,
            News {
                forget_after: Some(at(30)),
                over: Vec::new()
            }
        );

        recorder.look(Look {
            at: at(40),
            owner: OwnerState::Away,
            cpu: 1.0,
        });
        recorder.look(Look {
            at: at(50),
            owner: OwnerState::Away,
            cpu: 1.0,
        });

        let run = recorder.end().expect("recorded again");
        assert_eq!((run.start, run.end), (at(40), at(50)));
    }

    #[test]
    fn intervals_from_before_a_restart_are_not_recorded_again() {
        let mut recorder = AvailabilityRecorder::new(EVERY, at(15));
        for s in [0, 10, 20, 30] {
            recorder.look(Look {
                at: at(s),
                owner: OwnerState::Away,
                cpu: 1.0,
            });
        }
        let run = recorder.end().expect("recorded");
        assert_eq!((run.start, run.end), (at(20), at(30)));
    }

    proptest! {
        #[test]
        fn intervals_never_overlap_under_any_clock(
            steps in prop::collection::vec((prop_oneof![6 => 8i64..12, 1 => -40_000i64..40_000, 1 => Just(0i64)], 0u8..3, 0.0f32..=1.0), 1..120)
        ) {
            let mut recorder = AvailabilityRecorder::new(EVERY, Time(0));
            let mut now = 1_000_000i64;
            let mut all = Vec::<AvailabilityInterval>::new();

            for (step, owner, cpu) in steps {
                now = (now + step).max(0);
                let owner = [OwnerState::Away, PAUSED, OwnerState::Present(YieldReason::InUse)][usize::from(owner)];
                let news = recorder.look(Look { at: Time(now as u64 * 1_000_000), owner, cpu });
                if let Some(after) = news.forget_after {
                    all.retain(|s| s.end <= after);
                }
                all.extend(news.over);
            }

            all.extend(recorder.end());
            prop_assert!(all.iter().all(AvailabilityInterval::is_sound), "{all:?}");
            prop_assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start), "{all:?}");
        }
    }
}
