//! The spawner: a small process that the worker starts once, while it is small itself, and that
//! forks the watching processes ([`super::init`]) of attempts, so that a big worker never forks.
//!
//! It never sees what an attempt does: it passes a socket on, and keeps the views of the file system
//! that attempts may share. It is the subreaper above the watching processes, and kills
//! what they would leave behind if one of them were killed. When the worker dies, it tells the
//! master.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSliceMut, PipeReader, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, recvmsg};
use rustix::process::{
    Pid, Resource, Rlimit, WaitOptions, getpid, set_child_subreaper, setrlimit, setsid, umask,
    waitpid,
};

use link::Farewell;
use serde::Serialize;

use super::cgroup::{Grounds, Pool};
use super::confine::{Filters, Views};
use super::init::{self, InitSpec, Post};
use super::sys::{self, Fork, Reap};
use super::tree;
use crate::os::ProcessStatus;

/// The first byte of a message with the socket of a new init, and what it is to be (`InitSpec`).
pub(super) const INIT: u8 = b'I';
/// The first byte of a message with a farewell (`Option<Farewell>`).
pub(super) const FAREWELL: u8 = b'F';
/// The bytes of a message before its content, which is postcard: the first one, and the content's
/// length, little endian.
pub(super) const HEAD: usize = 5;
/// The tries to send a farewell, and the pause between them: the dead worker's port is free once
/// the system has closed all that it had open.
const FAREWELL_TRIES: u32 = 500;
const FAREWELL_PAUSE: Duration = Duration::from_millis(2);

/// Returns a message to the spawner, or to an init: this byte, a length and the content.
pub(super) fn message(first: u8, content: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![first];
    bytes.resize(HEAD, 0);
    let mut bytes = postcard::to_extend(content, bytes).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len() - HEAD).map_err(io::Error::other)?;
    bytes[1..HEAD].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// The time that killed orphans may take to end before they are looked for again.
const ORPHANS: Duration = Duration::from_millis(20);

/// Runs the spawner; its standard input is the socket to the worker. Returns its exit code.
pub(crate) fn spawner_main() -> i32 {
    sys::close_inherited();
    sys::arrange_signals();

    // Each of these makes tasks more harmless; none is needed for them to run.
    let _ = setsid();
    let _ = set_child_subreaper(Some(getpid()));
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let _ = setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: Some(0),
        },
    );

    umask(Mode::from_raw_mode(0o022));
    let null = match OpenOptions::new().read(true).write(true).open("/dev/null") {
        Ok(null) => null,
        Err(_) => return 1,
    };

    let grounds = Grounds::from_args(std::env::args_os().skip(2));
    let rooms = Pool::new(grounds, std::process::id());

    // Where there is none for this kind of processor, what needs one does not start.
    let filters = Filters::compile().unwrap_or_default();
    let mut state = Inits {
        rooms,
        filters,
        views: Views::default(),
        running: BTreeMap::new(),
        farewell: None,
    };
    while serve_one(&null, &mut state) {}

    if let Some(farewell) = &state.farewell {
        send_farewell(farewell);
    }

    // The worker is gone. Each init sees that too, ends its tree and then itself.
    while !matches!(sys::reap(), Reap::Childless) {
        sys::wait_for(None, Some(ORPHANS));
    }

    state.rooms.remove();
    0
}

/// The inits that run, and the control groups of their attempts.
struct Inits {
    rooms: Pool,
    filters: Filters,
    views: Views,
    /// The room number, if there is one, by process id.
    running: BTreeMap<i32, Option<u32>>,
    /// Sent if the worker dies.
    farewell: Option<Farewell>,
}

/// Tells the master of the worker that it is dead. Without that it would notice by the worker's
/// silence.
fn send_farewell(farewell: &Farewell) {
    for _ in 0..FAREWELL_TRIES {
        if farewell.send().is_ok() {
            return;
        }
        sys::wait_for(None, Some(FAREWELL_PAUSE));
    }
}

/// A message of the worker.
enum Order {
    Start(OwnedFd, InitSpec),
    Farewell(Option<Farewell>),
}

impl Inits {
    /// Forks an init.
    fn begin(&mut self, control: OwnedFd, spec: InitSpec, null: &File) {
        let prepared = spec.view.as_ref().map(|view| self.views.prepare(view));
        let (number, room) = self.rooms.take().unzip();
        let pipe = prepared.as_ref().map(|_| io::pipe()).transpose();
        let forked = pipe.and_then(|pipe| Ok((pipe, sys::fork()?)));

        match forked {
            Ok((pipe, Fork::Parent(pid))) => {
                let (successor, says) = pipe.unzip();
                drop(says);
                let init = successor.map_or(pid, |pipe| follow_to_successor(pid, pipe));
                self.running.insert(init.as_raw_nonzero().get(), number);
            }
            Ok((pipe, Fork::Child)) => {
                let (hears, successor) = pipe.unzip();
                drop(hears);
                let views = std::mem::take(&mut self.views);
                let view = prepared
                    .zip(spec.view.as_ref())
                    .and_then(|(prepared, view)| prepared.map(|()| views.take(view)).transpose());
                init::run(Post {
                    spec,
                    control,
                    room,
                    view,
                    filters: &self.filters,
                    null,
                    successor: successor.map(OwnedFd::from),
                })
            }
            Err(error) => {
                self.give_back(number);
                init::refuse(control, &error);
            }
        }
    }

    fn give_back(&mut self, room: Option<u32>) {
        room.into_iter()
            .for_each(|number| self.rooms.give_back(number));
    }

    /// Records a child that ended; returns whether it was an init that left processes behind.
    fn ended(&mut self, pid: Pid, status: ProcessStatus) -> bool {
        let Some(number) = self.running.remove(&pid.as_raw_nonzero().get()) else {
            return false;
        };
        if let (Some(number), false) = (number, status == ProcessStatus::Exited(0)) {
            self.rooms.room(number).clear();
        }

        self.give_back(number);
        status != ProcessStatus::Exited(0)
    }
}

/// Waits until an init has made the one that takes its place, a child of this process too, and has
/// ended; returns that one, or the first where it stays.
fn follow_to_successor(pid: Pid, mut successor: PipeReader) -> Pid {
    let mut number = [0; size_of::<i32>()];
    let said = successor.read_exact(&mut number);
    let Some(next) = said
        .ok()
        .and_then(|()| Pid::from_raw(i32::from_le_bytes(number)))
    else {
        return pid;
    };
    let _ = waitpid(Some(pid), WaitOptions::empty());
    next
}

/// Waits for one event and handles it; returns false once the worker is gone.
fn serve_one(null: &File, inits: &mut Inits) -> bool {
    if sys::wait_for(Some(io::stdin().as_fd()), inits.views.expires_in()) {
        match receive() {
            Ok(Some(Order::Start(control, spec))) => inits.begin(control, spec, null),
            Ok(Some(Order::Farewell(farewell))) => inits.farewell = farewell,
            Ok(None) => return false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }

    inits.views.expire();
    let mut orphans = false;
    while let Reap::Child(child) = sys::reap() {
        orphans |= inits.ended(child.pid, child.status);
    }
    if orphans {
        kill_orphans(inits);
    }

    true
}

/// Kills the processes of an init that was killed: they are now below this process.
fn kill_orphans(inits: &mut Inits) {
    loop {
        let known = inits.running.clone();
        let spared = |pid: Pid| known.contains_key(&pid.as_raw_nonzero().get());
        tree::kill(&spared);
        while let Reap::Child(child) = sys::reap() {
            inits.ended(child.pid, child.status);
        }
        if tree::members(&spared).is_empty() {
            return;
        }
        sys::wait_for(None, Some(ORPHANS));
    }
}

/// Receives the next message; `None` once the worker is gone.
fn receive() -> io::Result<Option<Order>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let got = recvmsg(
        io::stdin().as_fd(),
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    if got.bytes == 0 {
        return Ok(None);
    }
    let content = receive_content()?;
    if byte == [FAREWELL] {
        let farewell = postcard::from_bytes(&content).map_err(io::Error::other)?;
        return Ok(Some(Order::Farewell(farewell)));
    }

    let [control] = <[OwnedFd; 1]>::try_from(sys::descriptors(&mut ancillary)).map_err(|fds| {
        let why = format!("{} descriptors instead of 1", fds.len());
        io::Error::new(io::ErrorKind::InvalidData, why)
    })?;
    let spec = postcard::from_bytes(&content).map_err(io::Error::other)?;
    Ok(Some(Order::Start(control, spec)))
}

/// Receives what follows a message's first byte.
fn receive_content() -> io::Result<Vec<u8>> {
    let mut length = [0; HEAD - 1];
    read_exact(&mut length)?;
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Fills the buffer from the socket. The library's standard input would read ahead, beyond
/// messages with descriptors.
fn read_exact(mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match rustix::io::read(io::stdin().as_fd(), &mut *buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => buffer = &mut buffer[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
