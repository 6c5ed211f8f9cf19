//! Decides which users may renew a certificate that expired while the master was away: nobody could
//! renew it then. Hosts may renew theirs in any case.

use common::{Span, Time};

use crate::clock::Clock;
use crate::core::note_of;
use crate::store::{StoreResult, Writer};

/// The uncertainty of the last time noted as up: twice the period of the notes, for a machine that
/// was asleep when one was due.
const COARSE: Span = Span::from_secs(1_200);

/// The last absence of the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Away {
    /// The last time noted as up; `None` before the first start.
    since: Option<Time>,
    /// The time of the present start.
    back: Time,
    /// The time after `back` for which certificates that expired since `since` are renewed.
    grace: Span,
}

impl Away {
    /// Reads the last time at which the master was up.
    pub(crate) fn read(store: &Writer, clock: Clock, grace: Span) -> StoreResult<Self> {
        let since = store.note("up")?.and_then(note_of);
        Ok(Self {
            since,
            back: clock.now(),
            grace,
        })
    }

    /// Whether a certificate that expired at `until_s` can be renewed at `now_s` (both in seconds
    /// since 1970).
    pub(crate) fn excuses(&self, until_s: i64, now_s: i64) -> bool {
        let at = |s: i64| Time(u64::try_from(s).unwrap_or(0).saturating_mul(1_000_000));
        let until = at(until_s);
        let now = at(now_s);
        let expired_while_away =
            self.since.is_some_and(|since| until + COARSE >= since) && until <= self.back;
        // Certificates count whole seconds.
        expired_while_away && self.grace > Span::ZERO && now <= self.back + self.grace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certificates_that_expired_while_the_master_was_away_are_excused() {
        let at = |s| Time(0) + Span::from_secs(s);
        let away = Away {
            since: Some(at(100_000)),
            back: at(200_000),
            grace: Span::from_secs(1_000),
        };
        assert!(away.excuses(150_000, 200_500));
        assert!(!away.excuses(150_000, 201_001), "too late");
        assert!(!away.excuses(90_000, 200_500), "it could have been renewed");
        assert!(!away.excuses(200_100, 200_500), "the master was there");

        assert!(
            !Away {
                since: None,
                ..away
            }
            .excuses(150_000, 200_500),
            "never up before"
        );
    }
}
