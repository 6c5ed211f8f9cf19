//! Several masters of one grid, as its worker sees them: which incarnation was the highest that it
//! served, and whether another master has become the active one while this one's machine still
//! answers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::Incarnation;
use link::{Carrier, IdentityRequest, LinkError};
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

/// The file beside the identity with the grid and the highest incarnation of a master there.
const FILE: &str = "incarnation";
/// The time that the master may take to answer a heartbeat before the others are asked, and the time
/// between two such rounds.
const ANSWER: Duration = Duration::from_secs(5);

/// The highest incarnation that a master of this grid had. Whoever comes with a lower one was taken
/// over, or runs on an older store.
#[derive(Debug)]
pub struct Highest {
    grid: Uuid,
    seen: Incarnation,
    /// The file in which it is kept over restarts of the worker, if it is.
    path: Option<PathBuf>,
}

impl Highest {
    /// Reads what was seen of this grid, in the directory of the identity if it is stored.
    pub fn read(grid: Uuid, home: Option<&Path>) -> Self {
        let path = home.map(|home| home.join(FILE));
        let text = path.as_deref().map(std::fs::read_to_string);
        let seen = text.and_then(Result::ok).and_then(|text| {
            let (of, seen) = text.trim().split_once(' ')?;
            (of.parse() == Ok(grid)).then_some(seen.parse().ok()?)
        });
        Self {
            grid,
            seen: Incarnation(seen.unwrap_or(0)),
            path,
        }
    }

    /// Refuses a master with a lower incarnation than another one had.
    ///
    /// # Errors
    /// If this is one.
    pub fn check(&self, incarnation: Incarnation) -> Result<(), LinkError> {
        if incarnation < self.seen {
            let file = self.path.as_ref().map_or_else(String::new, |path| {
                format!(
                    " If its store was put back on purpose with a wrong clock, remove {}",
                    path.display()
                )
            });
            return Err(LinkError::Closed(format!(
                "this master has incarnation {incarnation}, and one with {} was active before: it was taken over, or its store is an \
                 older one.{file}",
                self.seen
            )));
        }
        Ok(())
    }

    /// Takes a master with this incarnation for the active one. Not for what a gateway says: it could
    /// name one that no master ever has.
    ///
    /// # Errors
    /// As for [`Self::check`].
    pub fn serve(&mut self, incarnation: Incarnation) -> Result<(), LinkError> {
        if let Some(keep) = self.rise(incarnation)? {
            keep();
        }
        Ok(())
    }

    /// As [`serve`](Self::serve), but returns the work that keeps the incarnation over restarts, if it is a new one: a
    /// write that is synced.
    pub(crate) fn rise(
        &mut self,
        incarnation: Incarnation,
    ) -> Result<Option<impl FnOnce() + Send + use<>>, LinkError> {
        self.check(incarnation)?;
        let path = self.path.clone().filter(|_| incarnation > self.seen);
        self.seen = self.seen.max(incarnation);
        let text = format!("{} {incarnation}\n", self.grid);

        Ok(path.map(|path| {
            move || {
                if let Err(error) = link::files::write_whole(&path, text.as_bytes(), 0o600) {
                    tracing::warn!(%error, "which master was the last is not remembered");
                }
            }
        }))
    }
}

/// Watches that the master answers heartbeats.
#[derive(Debug, Clone)]
pub(crate) struct BeatWatch {
    /// The time of the first heartbeat after which nothing was heard.
    unanswered: watch::Sender<Option<Instant>>,
}

impl Default for BeatWatch {
    fn default() -> Self {
        Self {
            unanswered: watch::Sender::new(None),
        }
    }
}

impl BeatWatch {
    /// A `ToMaster::Heartbeat` is sent.
    pub(crate) fn asked(&self) {
        self.unanswered.send_if_modified(|at| {
            let first = at.is_none();
            if first {
                *at = Some(Instant::now());
            }
            first
        });
    }

    /// The master said something.
    pub(crate) fn heard(&self) {
        self.unanswered.send_if_modified(|at| at.take().is_some());
    }

    /// Resolves once the master at the address `here`, which is reached by this way, does not answer, and another one is
    /// active instead: with a higher incarnation than this. Never, where there is only one.
    pub(crate) async fn another_is_active(
        &self,
        asker: &IdentityRequest,
        (here, way): (&str, Carrier),
        than: Incarnation,
    ) -> LinkError {
        let mut unanswered = self.unanswered.subscribe();
        loop {
            let since = unanswered.wait_for(Option::is_some).await;
            let Some(since) = since.ok().and_then(|since| *since) else {
                return std::future::pending().await;
            };
            tokio::time::sleep_until(since + ANSWER).await;
            if unanswered.borrow().is_none() {
                continue;
            }

            if let Some(higher) = asker.higher_elsewhere((here, way), than).await {
                return LinkError::Closed(format!(
                    "the master at {here} does not answer, and another one is active since (incarnation {higher})"
                ));
            }
            tokio::time::sleep(ANSWER).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_with_a_lower_incarnation_than_was_seen_is_not_served_even_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let grid = Uuid::from_u128(5);
        let read = |grid| Highest::read(grid, Some(dir.path()));
        let mut highest = read(grid);
        highest.serve(Incarnation(7)).unwrap();
        highest.serve(Incarnation(7)).unwrap();
        highest.serve(Incarnation(9)).unwrap();
        assert!(highest.serve(Incarnation(8)).is_err());
        // What is only checked is not remembered.
        highest.check(Incarnation(u32::MAX)).unwrap();

        let refused = read(grid).serve(Incarnation(8)).unwrap_err();
        assert!(refused.passing(), "another master may answer");
        let told = refused.to_string();
        assert!(
            told.contains("incarnation 8") && told.contains('9'),
            "{told}"
        );
        read(grid).serve(Incarnation(9)).unwrap();
        read(Uuid::from_u128(6)).serve(Incarnation(1)).unwrap();
    }

    #[test]
    fn what_cannot_be_read_counts_as_nothing_seen() {
        let dir = tempfile::tempdir().unwrap();
        let grid = Uuid::from_u128(5);
        for text in ["", "x", "00000000-0000-0000-0000-000000000005", "x 8"] {
            std::fs::write(dir.path().join(FILE), text).unwrap();
            let mut highest = Highest::read(grid, Some(dir.path()));
            highest.serve(Incarnation(1)).unwrap();
        }
    }
}
