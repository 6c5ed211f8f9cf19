//! Since when storage for content has not done what it was asked, for those who wait for it.

use std::sync::Mutex;

use common::{Span, Time};

use super::fault::{BucketError, BucketFault};
use crate::locked;

/// The time without another failure after which one is old: what waits tries again every few seconds.
const OLD: Span = Span::from_secs(60);

/// The failures of the storage since it last did what it was asked.
#[derive(Debug, Default)]
pub(super) struct StorageTrouble(Mutex<Option<Failures>>);

#[derive(Debug, Clone, Copy)]
struct Failures {
    fault: BucketFault,
    first: Time,
    last: Time,
    /// The last that stands in the log.
    logged: Time,
}

impl StorageTrouble {
    /// The storage did what it was asked.
    pub(super) fn is_over(&self) {
        let ended = locked(&self.0).take();
        if ended.is_some() {
            tracing::info!("the storage for content answers again");
        }
    }

    /// The storage did not do what it was asked. That stands in the log at first, where it fails in another way, and once a minute.
    pub(super) fn note(&self, error: &BucketError, now: Time) {
        let mut failures = locked(&self.0);
        let known = failures.filter(|known| known.fault == error.fault && now < known.last + OLD);
        let is_told = known.is_some_and(|known| now < known.logged + OLD);
        if !is_told {
            tracing::warn!(%error, hint = error.fault.hint(), "the storage for content cannot be used");
        }

        *failures = Some(Failures {
            fault: error.fault,
            first: known.map_or(now, |known| known.first),
            last: now,
            logged: known.filter(|_| is_told).map_or(now, |known| known.logged),
        });
    }

    /// Returns the words for people at this time; `None` if nobody waits for the storage.
    pub(super) fn words(&self, now: Time) -> Option<String> {
        let failures = *locked(&self.0);
        let Failures { fault, first, .. } = failures.filter(|known| now < known.last + OLD)?;
        let since_s = now.since(first).secs() as u64;
        Some(format!(
            "files wait for the master's storage, which has failed for {since_s} s: {fault}. A task whose output waits keeps its slot"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_told_until_the_storage_answers_or_nobody_asks_it() {
        let trouble = StorageTrouble::default();
        let error = BucketError {
            place: "s3://grid".to_owned(),
            fault: BucketFault::Away,
            detail: String::new(),
        };
        let at = |s: u64| Time(s * 1_000_000);
        assert_eq!(trouble.words(at(5)), None);
        trouble.note(&error, at(10));
        trouble.note(&error, at(40));
        let told = trouble.words(at(50)).unwrap();
        assert!(
            told.contains("for 40 s: the storage does not answer"),
            "{told}"
        );
        assert_eq!(trouble.words(at(101)), None, "nobody waits any more");

        trouble.note(&error, at(200));
        assert!(trouble.words(at(205)).unwrap().contains("for 5 s"));
        trouble.is_over();
        assert_eq!(trouble.words(at(206)), None);
    }
}
