//! The wait of the store's writer for its database, for those who wait behind it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::locked;

/// The writer's present wait for its database. Cloning gives another handle.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoreWait(Arc<Mutex<Option<Instant>>>);

/// A [`StoreWait`] that lasts until this is dropped.
pub(super) struct BegunWait<'a>(&'a StoreWait);

impl StoreWait {
    /// Begins a wait.
    pub(super) fn begin(&self) -> BegunWait<'_> {
        *locked(&self.0) = Some(Instant::now());
        BegunWait(self)
    }

    /// The time that the present wait has lasted; zero if there is none.
    pub(crate) fn so_far(&self) -> Duration {
        locked(&self.0).map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Drop for BegunWait<'_> {
    fn drop(&mut self) {
        *locked(&self.0.0) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_lasts_until_it_is_over() {
        let wait = StoreWait::default();
        assert_eq!(wait.so_far(), Duration::ZERO);
        let begun = wait.begin();
        std::thread::sleep(Duration::from_millis(2));
        assert!(wait.clone().so_far() >= Duration::from_millis(2));
        drop(begun);
        assert_eq!(wait.so_far(), Duration::ZERO);
    }
}
