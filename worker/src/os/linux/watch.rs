//! Notices files that come and go in one directory, without looking again and again.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

/// The factor by which to wait longer where every change is reported: only a file system that
/// others change (over a network) must be looked at then.
const PATIENCE: u32 = 10;

/// The names in a directory, not what is below them.
#[derive(Debug)]
pub(crate) struct DirWatch(Option<OwnedFd>);

impl DirWatch {
    /// Watches the directory, if the system has a watch left for it.
    pub(crate) fn new(dir: &Path) -> Self {
        let watch = || {
            let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
            let news = inotify::WatchFlags::CREATE
                | inotify::WatchFlags::DELETE
                | inotify::WatchFlags::MOVE;
            inotify::add_watch(&fd, dir, news).map(|_| fd)
        };
        Self(watch().ok())
    }

    /// Waits until a name has come or gone. Without a watch, and now and then with one, returns
    /// after `pause`.
    pub(crate) fn wait(&self, pause: Duration) {
        let Some(fd) = &self.0 else {
            return thread::sleep(pause);
        };
        let Ok(timeout) = Timespec::try_from(pause * PATIENCE) else {
            return thread::sleep(pause);
        };
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => {}
            Ok(_) => {
                let mut space = [MaybeUninit::uninit(); 4_096];
                let mut events = inotify::Reader::new(fd, &mut space);
                while events.next().is_ok() {}
            }
            // A watch that fails is as good as none.
            Err(_) => thread::sleep(pause),
        }
    }
}
