//! The init of one attempt: starts the command, watches over its process tree, and ends only when
//! nothing of it is left. Forked by the spawner; speaks with the worker over the attempt's control
//! socket.
//!
//! The worker's end of that socket closes when the worker dies, however it dies: then the tree is
//! killed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use common::units::Bytes;
use common::wire::frame;
use rustix::process::{Pid, Signal, getpid, set_child_subreaper};

use super::cgroup::Room;
use super::confine::{Filters, View};
use super::spawner::Wires;
use super::start::{InitMeans, Started};
use super::sys::{self, Reap};
use super::{THAW, order_of, start, tree};
use crate::os::{Launch, ProcessOrder, ProcessStatus, WatcherReport};

/// The time that killed processes may take to end before they are looked for again.
const DYING: Duration = Duration::from_millis(20);
/// The first and the longest pause between looks at a control group that is being frozen.
const SETTLE: Duration = Duration::from_micros(200);
const SETTLE_MOST: Duration = Duration::from_millis(10);
/// The longest launch message, in bytes: what the wire allows for a command, and room for the
/// environment.
const MAX_LAUNCH: usize = 2 * frame::MAX_FRAME;

/// Runs the init. `room` are the attempt's control groups, if it has some, and `view` the view of
/// the file system that it joins at the levels with namespaces, or why there is none.
pub(super) fn run(
    wires: Wires,
    room: Option<Room>,
    view: Option<Result<View, String>>,
    filters: &Filters,
    null: &File,
) -> ! {
    let room = room.unwrap_or_default();
    let code = if watch_over(wires, room, view, filters, null).is_ok() {
        0
    } else {
        1
    };
    std::process::exit(code)
}

/// Tells the worker, in place of an init, that there is none.
pub(super) fn refuse(wires: Wires, error: &io::Error) {
    let why = format!("this host has no room for another process: {error}");
    // Where the worker does not hear it, it sees the socket close.
    let _ = send(
        &mut UnixStream::from(wires.control),
        &WatcherReport::NotStarted(why),
    );
}

fn watch_over(
    wires: Wires,
    mut room: Room,
    view: Option<Result<View, String>>,
    filters: &Filters,
    null: &File,
) -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    // The worker learns of the spawner's death by this socket's end: no init may hold it.
    rustix::stdio::dup2_stdin(null)?;

    let mut control = UnixStream::from(wires.control);
    let launch = read_launch(&mut control)?;
    let starved = room.kills_for_memory();

    let means = InitMeans {
        filters,
        view,
        null,
        control: control.as_fd(),
        stdout: &wires.stdout,
        stderr: &wires.stderr,
    };
    let started = start::start(&launch, &mut room, &means);
    // A view that is held keeps what it shows from being ejected.
    drop(means);

    let Started { main, first } = match started {
        Err(why) => return send(&mut control, &WatcherReport::NotStarted(why)),
        Ok(started) => started,
    };
    drop((wires.stdout, wires.stderr));
    let tree = Tree {
        main,
        room: &room,
        rest: Rest::Awake,
    };
    let Some(status) = tree.attend(&mut control)? else {
        return Ok(());
    };
    let status = match first {
        Some(first) => first.ended().unwrap_or(status),
        None => status,
    };

    let starved = room.kills_for_memory() > starved && status != ProcessStatus::Exited(0);
    let over = launch.limits.memory.filter(|_| starved);
    let over = over.map(|limit| {
        let limit = Bytes(limit);
        format!("it wanted more memory than the {limit} that a task has here")
    });
    send(
        &mut control,
        &WatcherReport::Ended {
            status,
            cpu: sys::children_cpu().into(),
            over,
        },
    )
}

fn read_launch(control: &mut UnixStream) -> io::Result<Launch> {
    let mut length = [0; 4];
    control.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_LAUNCH {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    control.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn send(control: &mut UnixStream, report: &WatcherReport) -> io::Result<()> {
    let bytes = frame::encode(report).map_err(|_| io::ErrorKind::InvalidData)?;
    control.write_all(&bytes)
}

/// The attempt's processes.
struct Tree<'a> {
    main: Pid,
    room: &'a Room,
    rest: Rest,
}

/// The freezing state of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Awake,
    /// Told to stop; looked at again after this time.
    Settling(Duration),
    Frozen,
}

impl Tree<'_> {
    /// Attends the tree until nothing of it is left. Returns how its main process ended, or `None`
    /// if the worker is gone.
    fn attend(mut self, control: &mut UnixStream) -> io::Result<Option<ProcessStatus>> {
        loop {
            let mut ended = None;
            while let Reap::Child(child) = sys::reap() {
                if child.pid == self.main {
                    ended = Some(child.status);
                }
            }

            if let Some(status) = ended {
                self.end();
                return Ok(Some(status));
            }

            let pause = if let Rest::Settling(pause) = self.rest {
                Some(pause)
            } else {
                None
            };
            let alive = if sys::wait_for(Some(control.as_fd()), pause) {
                self.obey(control)
            } else {
                self.settle(control)
            };
            if !alive {
                self.end();
                return Ok(None);
            }
        }
    }

    /// Carries out the orders that have come; returns false if the worker is gone.
    fn obey(&mut self, control: &mut UnixStream) -> bool {
        let mut orders = [0; 64];
        let count = match control.read(&mut orders) {
            Ok(0) => return false,
            Ok(count) => count,
            Err(error) => return error.kind() == io::ErrorKind::Interrupted,
        };
        orders[..count]
            .iter()
            .filter_map(|byte| order_of(*byte))
            .all(|order| match order {
                ProcessOrder::Terminate => {
                    self.terminate();
                    true
                }
                ProcessOrder::Kill => {
                    self.kill();
                    true
                }
                ProcessOrder::Freeze => self.freeze(control),
                ProcessOrder::Thaw => {
                    self.thaw();
                    true
                }
            })
    }

    /// Asks every process to end. Those that arrange the command's namespaces pay no attention.
    fn terminate(&self) {
        if self.room.freezes() {
            self.room.signal(Signal::TERM);
        } else {
            tree::signal(Signal::TERM);
        }
    }

    fn kill(&self) {
        if self.room.freezes() {
            self.room.kill();
        } else {
            tree::kill(&|_| false);
        }
    }

    /// Starts to freeze every process; returns false if the worker is gone.
    fn freeze(&mut self, control: &mut UnixStream) -> bool {
        if !self.room.freezes() {
            self.rest = Rest::Frozen;
            return !tree::freeze(&|_| false) || send(control, &WatcherReport::Frozen).is_ok();
        }
        self.room.freeze();
        self.rest = Rest::Settling(SETTLE);
        self.settle(control)
    }

    /// Reports a tree that has just come to rest; returns false if the worker is gone.
    fn settle(&mut self, control: &mut UnixStream) -> bool {
        let Rest::Settling(pause) = self.rest else {
            return true;
        };
        if self.room.is_frozen() {
            self.rest = Rest::Frozen;
            return send(control, &WatcherReport::Frozen).is_ok();
        }
        self.rest = Rest::Settling((2 * pause).min(SETTLE_MOST));
        true
    }

    fn thaw(&mut self) {
        if self.rest == Rest::Awake {
            return;
        }
        self.rest = Rest::Awake;
        if self.room.freezes() {
            self.room.thaw();
        } else {
            tree::signal(THAW);
        }
    }

    /// Kills and reaps until the kernel says that there is no child left: as this process is the
    /// subreaper, that proves that no descendant is left either. Leaves the room thawed.
    fn end(&mut self) {
        let mut everywhere = !self.room.freezes();
        loop {
            match sys::reap() {
                Reap::Childless => break,
                Reap::Child(_) => {}
                Reap::Alive => {
                    self.kill();
                    if everywhere {
                        // A process that may write to control groups may have left its own.
                        tree::kill(&|_| false);
                    }
                    everywhere = !everywhere || !self.room.freezes();
                    sys::wait_for(None, Some(DYING));
                }
            }
        }

        if self.rest != Rest::Awake {
            self.room.thaw();
        }
    }
}

/// The status that is reported when the command's init itself was killed.
pub(super) const LOST: ProcessStatus = ProcessStatus::Signalled(libc::SIGKILL);
