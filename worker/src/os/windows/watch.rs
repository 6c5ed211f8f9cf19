//! Notices files that come and go in one directory, without looking again and again.

use std::path::Path;
use std::thread;
use std::time::Duration;

use super::sys::Changes;

/// The factor by which to wait longer where every change is reported: only a file system that
/// others change (over a network) must be looked at then.
const PATIENCE: u32 = 10;

/// The names in a directory, not what is below them.
#[derive(Debug)]
pub(crate) struct DirWatch(Option<Changes>);

impl DirWatch {
    /// Watches the directory, if the system can.
    pub(crate) fn new(dir: &Path) -> Self {
        Self(Changes::of(dir).ok())
    }

    /// Waits until a name has come or gone. Without a watch, and now and then with one, returns
    /// after `pause`.
    pub(crate) fn wait(&self, pause: Duration) {
        let told = self
            .0
            .as_ref()
            .is_some_and(|changes| changes.wait(pause * PATIENCE).is_ok());
        if !told {
            // A watch that fails is as good as none.
            thread::sleep(pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_comes_ends_the_wait() {
        let dir = tempfile::tempdir().unwrap();
        let watch = DirWatch::new(dir.path());
        let file = dir.path().join("pause");
        let path = file.clone();
        let waiting = thread::spawn(move || {
            // Ten times this would be longer than any test may take.
            watch.wait(Duration::from_secs(60));
            path.exists()
        });
        std::fs::write(&file, "").unwrap();
        assert!(waiting.join().unwrap());
    }
}
