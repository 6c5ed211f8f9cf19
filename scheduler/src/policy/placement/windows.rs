//! Windows, deskgrid's own rule after the speculative backfilling of Gainaru et al. 2019, section
//! 4.3: the fastest host gets the waiting task that should make the most of the time for which its
//! owner was recorded to stay away.
//!
//! [`Answer::candidates`] names the host, as PRI-CR does. [`Answer::fills_windows`] has the starter ask
//! `Job::makes_the_most_of` in `windows::idle` for the task. The law of a host's windows comes from
//! its recorded availability (`Event::HostWindows`), and the run times from past runs of the same
//! user and program; where either is unknown, the next task in order starts.

use super::Answer;

#[derive(Debug, Clone, Copy)]
pub(super) struct FillWindows;

impl Answer for FillWindows {
    fn describe(self) -> &'static str {
        "the fastest ready host; there the waiting task that should make the most of the time for which the host was \
         recorded to stay idle"
    }

    fn fills_windows(self) -> bool {
        true
    }
}
