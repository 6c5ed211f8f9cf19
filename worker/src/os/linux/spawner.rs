//! The spawner: a small process that the worker starts once, while it is small itself, and that forks one watching
//! process ([`super::init`]) for each attempt, so that a big worker never forks.
//!
//! It never sees what an attempt does: it passes three descriptors on. It is the subreaper above the watching
//! processes, and kills what they would leave behind if one of them were killed.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Resource, Rlimit, getpid, set_child_subreaper, setrlimit, setsid, umask};

use super::sys::{self, Fork, Reap};
use super::{init, tree};
use crate::os::Status;

/// The descriptors of a new attempt.
pub(super) struct Wires {
    pub control: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// How long killed orphans may take to end before they are looked for again.
const ORPHANS: Duration = Duration::from_millis(20);

/// The spawner's whole life; its standard input is the socket to the worker. Returns its exit code.
pub(crate) fn spawner_main() -> i32 {
    sys::close_inherited();
    sys::arrange_signals();
    // Each of these makes tasks more harmless; none is needed for them to run.
    let _ = setsid();
    let _ = set_child_subreaper(Some(getpid()));
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    umask(Mode::from_raw_mode(0o022));
    let null = match OpenOptions::new().read(true).write(true).open("/dev/null") {
        Ok(null) => null,
        Err(_) => return 1,
    };
    let mut inits = BTreeSet::new();
    while serve_one(&null, &mut inits) {}
    // The worker is gone. Each init sees that too, ends its tree and then itself.
    while !matches!(sys::reap(), Reap::Childless) {
        sys::wait_for(None, Some(ORPHANS));
    }
    0
}

/// Waits for one thing to happen and deals with it; false once the worker is gone.
fn serve_one(null: &File, inits: &mut BTreeSet<i32>) -> bool {
    if sys::wait_for(Some(io::stdin().as_fd()), None) {
        match receive() {
            Ok(Some(wires)) => match sys::fork() {
                Ok(Fork::Parent(pid)) => {
                    inits.insert(pid.as_raw_nonzero().get());
                }
                Ok(Fork::Child) => init::run(wires, null),
                // The closed control socket tells the worker.
                Err(_) => drop(wires),
            },
            Ok(None) => return false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    let mut orphans = false;
    while let Reap::Child(child) = sys::reap() {
        let was_init = inits.remove(&child.pid.as_raw_nonzero().get());
        orphans |= was_init && child.status != Status::Exited(0);
    }
    if orphans {
        kill_orphans(inits);
    }
    true
}

/// An init was killed: what ran below it is now below this process, and is not to live on.
fn kill_orphans(inits: &mut BTreeSet<i32>) {
    loop {
        let known = inits.clone();
        let spared = |pid: Pid| known.contains(&pid.as_raw_nonzero().get());
        tree::kill(&spared);
        while let Reap::Child(child) = sys::reap() {
            inits.remove(&child.pid.as_raw_nonzero().get());
        }
        if tree::members(&spared).is_empty() {
            return;
        }
        sys::wait_for(None, Some(ORPHANS));
    }
}

/// The descriptors of the next attempt; none once the worker is gone.
fn receive() -> io::Result<Option<Wires>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let got = recvmsg(io::stdin().as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    if got.bytes == 0 {
        return Ok(None);
    }
    let fds: Vec<OwnedFd> = ancillary
        .drain()
        .filter_map(|message| if let RecvAncillaryMessage::ScmRights(fds) = message { Some(fds) } else { None })
        .flatten()
        .collect();
    let [control, stdout, stderr] = <[OwnedFd; 3]>::try_from(fds)
        .map_err(|fds| io::Error::new(io::ErrorKind::InvalidData, format!("{} descriptors instead of 3", fds.len())))?;
    Ok(Some(Wires { control, stdout, stderr }))
}
