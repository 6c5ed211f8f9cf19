//! The spawner: a small process that the worker starts once, while it is small itself, and that
//! forks one watching process ([`super::init`]) for each attempt, so that a big worker never forks.
//!
//! It never sees what an attempt does: it passes three descriptors on, and keeps the views of the
//! file system that attempts may share. It is the subreaper above the watching processes, and kills
//! what they would leave behind if one of them were killed. When the worker dies, it tells the
//! master.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, recvmsg};
use rustix::process::{
    Pid, Resource, Rlimit, getpid, set_child_subreaper, setrlimit, setsid, umask,
};

use link::Farewell;
use serde::Serialize;

use super::cgroup::{Grounds, Pool};
use super::confine::{Filters, ViewSpec, Views};
use super::sys::{self, Fork, Reap};
use super::{init, tree};
use crate::os::ProcessStatus;

/// The descriptors of a new attempt.
pub(super) struct Wires {
    pub control: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// The first byte of a message with the descriptors of an attempt, and the view that it needs
/// (`Option<ViewSpec>`).
pub(super) const ATTEMPT: u8 = b'A';
/// The first byte of a message with a farewell (`Option<Farewell>`).
pub(super) const FAREWELL: u8 = b'F';
/// The bytes of a message before its content, which is postcard: the first one, and the content's
/// length, little endian.
pub(super) const HEAD: usize = 5;
/// The tries to send a farewell, and the pause between them: the dead worker's port is free once
/// the system has closed all that it had open.
const FAREWELL_TRIES: u32 = 500;
const FAREWELL_PAUSE: Duration = Duration::from_millis(2);

/// Returns a message to the spawner.
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
    Start(Wires, Option<ViewSpec>),
    Farewell(Option<Farewell>),
}

impl Inits {
    /// Forks an init for an attempt that needs this view.
    fn begin(&mut self, wires: Wires, spec: Option<ViewSpec>, null: &File) {
        let prepared = spec.map(|spec| self.views.prepare(&spec).map(|()| spec));
        let (number, room) = self.rooms.take().unzip();
        match sys::fork() {
            Ok(Fork::Parent(pid)) => drop(self.running.insert(pid.as_raw_nonzero().get(), number)),
            Ok(Fork::Child) => {
                let views = std::mem::take(&mut self.views);
                let view = prepared.and_then(|spec| spec.map(|spec| views.take(&spec)).transpose());
                init::run(wires, room, view, &self.filters, null)
            }
            Err(error) => {
                number
                    .into_iter()
                    .for_each(|number| self.rooms.give_back(number));
                init::refuse(wires, &error);
            }
        }
    }

    /// Records a child that ended; returns whether it was an init that left processes behind.
    fn ended(&mut self, pid: Pid, status: ProcessStatus) -> bool {
        let Some(number) = self.running.remove(&pid.as_raw_nonzero().get()) else {
            return false;
        };
        if let (Some(number), false) = (number, status == ProcessStatus::Exited(0)) {
            // Nobody dies in a frozen group of version 1.
            let room = self.rooms.room(number);
            room.kill();
            room.thaw();
        }

        number
            .into_iter()
            .for_each(|number| self.rooms.give_back(number));
        status != ProcessStatus::Exited(0)
    }
}

/// Waits for one event and handles it; returns false once the worker is gone.
fn serve_one(null: &File, inits: &mut Inits) -> bool {
    if sys::wait_for(Some(io::stdin().as_fd()), inits.views.expires_in()) {
        match receive() {
            Ok(Some(Order::Start(wires, spec))) => inits.begin(wires, spec, null),
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
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
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

    let [control, stdout, stderr] = <[OwnedFd; 3]>::try_from(sys::descriptors(&mut ancillary))
        .map_err(|fds| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{} descriptors instead of 3", fds.len()),
            )
        })?;
    let wires = Wires {
        control,
        stdout,
        stderr,
    };
    let spec = postcard::from_bytes(&content).map_err(io::Error::other)?;
    Ok(Some(Order::Start(wires, spec)))
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
