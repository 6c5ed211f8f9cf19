//! The init of attempts: starts a command, watches over its process tree, and reports the end when
//! nothing of it is left. Then it serves the next attempt that wants the same of it, for a second at
//! the most. Forked by the spawner; speaks with the worker over a socket.
//!
//! The worker's end of that socket closes when the worker dies, however it dies: then the tree is
//! killed.

use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use common::Span;
use common::units::Bytes;
use common::wire::frame;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, getpid, set_child_subreaper};
use serde::{Deserialize, Serialize};

use super::cgroup::{OpenRoom, Room};
use super::confine::{Filters, LIFE, View, ViewSpec};
use super::sandbox::{self, Sandbox};
use super::start::{self, InitMeans, NotBegun};
use super::sys::{self, Fork, Reap, Standing};
use super::{MEASURE, THAW, birth, memory, order_of, spawner, tree};
use crate::os::{AttemptLimits, Launch, ProcessOrder, ProcessStatus};

/// The time that killed processes may take to end before they are looked for again.
const DYING: Duration = Duration::from_millis(20);
/// The first and the longest pause between looks at a tree that is being frozen, and the one from which on the
/// worker knows that it takes long.
const SETTLE: Duration = Duration::from_micros(200);
const SETTLE_MOST: Duration = Duration::from_secs(5);
const SETTLE_LONG: Duration = Duration::from_secs(1);
/// The time from a command's start to the first look whether its session has the lowest weight, by which
/// the pause before each further one is longer; and the most looks.
const LOWER: Duration = Duration::from_millis(110);
const LOWERS: u32 = 40;
/// The first byte of a launch message, with the descriptors of the standard output and error; then
/// come its length and a [`Launch`]. It is none of the bytes that are orders.
const LAUNCH: u8 = b'L';
/// The bytes of a launch message before its content.
const LAUNCH_HEAD: usize = spawner::HEAD;
/// The longest launch message, in bytes: what the wire allows for a command, and room for the
/// environment.
const MAX_LAUNCH: usize = 2 * frame::MAX_FRAME;
/// The bytes that are read at a time: most launch messages as a whole.
const PIECE: usize = 16 * 1024;

/// The properties that an init has for all attempts that it serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InitSpec {
    /// The view of the file system that it joins, at the levels with namespaces.
    pub view: Option<ViewSpec>,
    /// The limits, which its control groups hold as far as they can.
    pub limits: AttemptLimits,
}

/// A report to the worker, which makes a `WatcherReport` of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum InitReport {
    /// The command could not be started, and nothing runs; says why.
    NotStarted(String),
    /// Its program could not be executed, with the number of the error.
    NoProgram(Option<i32>),
    /// Every process of the tree is frozen.
    Frozen,
    /// Some process of it still runs; it is told to stop again.
    Restless,
    /// The memory that its processes hold, in bytes; `None` if that cannot be told.
    Holds(Option<u64>),
    /// The command ended, and no process of its tree is left.
    Ended {
        status: ProcessStatus,
        cpu: Span,
        over: Option<String>,
        /// The time for which the next attempt may be given to this init; `None` if it ends.
        again: Option<Span>,
    },
}

impl InitSpec {
    /// Returns the properties that a command needs.
    pub(super) fn of(launch: &Launch) -> Self {
        Self {
            view: ViewSpec::of(launch),
            limits: launch.limits,
        }
    }
}

/// Returns the message (`LAUNCH`) that starts a command.
pub(super) fn message(launch: &Launch) -> io::Result<Vec<u8>> {
    spawner::message(LAUNCH, launch)
}

/// Returns the command that a whole [`message`] starts.
pub(super) fn launch_in(message: &[u8]) -> io::Result<Launch> {
    let content = message.get(LAUNCH_HEAD..).unwrap_or_default();
    postcard::from_bytes(content).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// All that the spawner gives to an init.
pub(super) struct Post<'a> {
    pub spec: InitSpec,
    pub control: OwnedFd,
    /// The control groups of its attempts, if there are some.
    pub room: Option<Room>,
    /// The view that it joins at the levels with namespaces, or why there is none.
    pub view: Option<Result<View, String>>,
    pub filters: &'a Filters,
    pub null: &'a File,
    /// Takes the number of the process that becomes the init in place of this one.
    pub successor: Option<OwnedFd>,
}

/// Runs the init.
pub(super) fn run(post: Post<'_>) -> ! {
    let code = i32::from(become_init(post).is_err());
    // Not by the library's exit: this process may share the spawner's buffers.
    sys::exit(code)
}

/// Tells the worker, in place of an init, that there is none.
pub(super) fn refuse(control: OwnedFd, error: &io::Error) {
    let why = format!("this host has no room for another process: {error}");
    // Where the worker does not hear it, it sees the socket close.
    let _ = send(&mut UnixStream::from(control), &InitReport::NotStarted(why));
}

/// Takes its place: that of the first process of namespaces of its own, or below the spawner.
fn become_init(post: Post<'_>) -> io::Result<()> {
    // The worker learns of the spawner's death by this socket's end: no init may hold it.
    rustix::stdio::dup2_stdin(post.null)?;
    let limits = post.spec.limits;
    // Opened where they can be: an init among namespaces reaches none of them.
    let room = post.room.unwrap_or_default();
    let room = room.open(limits.memory, limits.processes);
    let mut init = Init {
        control: UnixStream::from(post.control),
        room: room.unwrap_or_default(),
        filters: post.filters,
        null: post.null,
        made: Instant::now(),
        sandbox: None,
        standing: sys::standing(),
    };

    let Some(view) = post.view else {
        set_child_subreaper(Some(getpid()))?;
        return init.serve();
    };
    let failed = |error: io::Error| format!("it cannot be confined by namespaces: {error}");
    let entered = match (view, &post.spec.view) {
        (Ok(view), Some(spec)) => sandbox::enter(spec, &view).map_err(failed).map(|()| view),
        (view, _) => view,
    };
    let view = match entered {
        Ok(view) => view,
        Err(why) => {
            // The spawner goes on with this process.
            drop(post.successor);
            return init.turn_away(why);
        }
    };
    init.made = view.made;

    match sys::fork_sibling()? {
        Fork::Parent(pid) => {
            let number = pid.as_raw_nonzero().get().to_le_bytes();
            let said = post
                .successor
                .map(|said| File::from(said).write_all(&number));
            said.unwrap_or(Ok(()))
        }
        Fork::Child => {
            drop(post.successor);
            let Some(spec) = &post.spec.view else {
                return Ok(());
            };
            match Sandbox::arrange(spec, view, limits.memory) {
                Ok(sandbox) => init.sandbox = Some(sandbox),
                Err(error) => return init.turn_away(failed(error)),
            }
            init.serve()
        }
    }
}

/// The init at its work.
struct Init<'a> {
    control: UnixStream,
    room: OpenRoom,
    filters: &'a Filters,
    null: &'a File,
    /// When the oldest thing of what it has was made.
    made: Instant,
    sandbox: Option<Sandbox>,
    /// Its own standing before the first command.
    standing: Standing,
}

impl Init<'_> {
    /// Serves attempts, each a [`Launch`], until the worker is gone, or it may serve no more of them.
    fn serve(&mut self) -> io::Result<()> {
        let mut hidden = Ok(());
        while let Some((launch, streams)) = receive(&mut self.control)? {
            let before = (self.room.kills_for_memory(), sys::children_cpu());
            let started = hidden.and_then(|()| self.start(&launch, &streams));
            drop(streams);
            let main = match started {
                Ok(main) => main,
                Err(NotBegun::Because(why)) => {
                    return send(&mut self.control, &InitReport::NotStarted(why));
                }
                Err(NotBegun::Program(error)) => {
                    let report = InitReport::NoProgram(error.raw_os_error());
                    return send(&mut self.control, &report);
                }
            };
            if !self.follow(main, &launch, before)? {
                return Ok(());
            }

            // Behind the report: nobody waits for it.
            hidden = match &self.sandbox {
                Some(sandbox) => sandbox.hide(&launch).map_err(|error| {
                    format!("the directory of the attempt before it cannot be hidden: {error}")
                        .into()
                }),
                None => Ok(()),
            };
        }
        Ok(())
    }

    /// Answers the first attempt with the reason why there is no init for it.
    fn turn_away(&mut self, why: String) -> io::Result<()> {
        match receive(&mut self.control)? {
            Some(_) => send(&mut self.control, &InitReport::NotStarted(why)),
            None => Ok(()),
        }
    }

    fn start(&mut self, launch: &Launch, streams: &[OwnedFd; 2]) -> Result<Pid, NotBegun> {
        if let Some(sandbox) = &self.sandbox {
            sandbox
                .show(launch)
                .map_err(|error| start::confined(launch, &error))?;
        }
        let means = InitMeans {
            filters: self.filters,
            sandbox: self.sandbox.as_ref(),
            null: self.null,
        };
        start::start(launch, &mut self.room, &means, streams)
    }

    /// Follows a command to the end of its tree, and reports it: what has been counted before it began
    /// is not its own. Returns whether this init serves another attempt.
    fn follow(
        &mut self,
        main: Pid,
        launch: &Launch,
        (starved, cpu): (u64, Duration),
    ) -> io::Result<bool> {
        let tree = Tree {
            main,
            room: &self.room,
            rest: Rest::Awake,
            lowers: Some((1, Instant::now() + LOWER)),
        };
        let Some(status) = tree.attend(&mut self.control)? else {
            return Ok(false);
        };

        let starved = self.room.kills_for_memory() > starved;
        let over = launch.limits.memory.filter(|_| starved);
        let over = over.map(|limit| {
            let limit = Bytes(limit);
            format!(
                "it wanted more memory than its {limit}, as its job's needs or the host's owner set them"
            )
        });
        let again = self.serves_again();
        let report = InitReport::Ended {
            status,
            cpu: sys::children_cpu().saturating_sub(cpu).into(),
            over,
            again: again.map(Span::from),
        };
        send(&mut self.control, &report)?;
        Ok(again.is_some())
    }

    /// Returns the time for which it may be given another attempt: not at all where anything that the
    /// last one could change is not as it was.
    fn serves_again(&self) -> Option<Duration> {
        let left = LIFE.checked_sub(self.made.elapsed())?;
        let untouched = self.sandbox.as_ref().is_none_or(Sandbox::is_untouched);
        (untouched && sys::standing() == self.standing).then_some(left)
    }
}

/// Receives the next command with its standard output and error; `None` if the worker has no more.
/// Orders to the one before it that came too late are passed over.
fn receive(control: &mut UnixStream) -> io::Result<Option<(Launch, [OwnedFd; 2])>> {
    let mut bytes = Vec::new();
    let mut fds = Vec::new();
    let mut piece = vec![0; PIECE];
    loop {
        if let Some(length) = bytes.get(1..LAUNCH_HEAD) {
            let length = length
                .iter()
                .rev()
                .fold(0, |all, byte| all << 8 | usize::from(*byte));
            if length > MAX_LAUNCH {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let here = bytes.len() - LAUNCH_HEAD;
            if here < length {
                bytes.resize(LAUNCH_HEAD + length, 0);
                control.read_exact(&mut bytes[LAUNCH_HEAD + here..])?;
            }
            let launch = launch_in(&bytes)?;
            let fds = fds.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
            return Ok(Some((launch, fds)));
        }

        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let pieces = &mut [IoSliceMut::new(&mut piece)];
        let got = recvmsg(&*control, pieces, &mut ancillary, RecvFlags::CMSG_CLOEXEC);
        let count = match got {
            Ok(got) if got.bytes == 0 => return Ok(None),
            Ok(got) => got.bytes,
            Err(rustix::io::Errno::INTR) => continue,
            // What the worker had to say was said.
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        fds.append(&mut sys::descriptors(&mut ancillary));
        let late = bytes.is_empty();
        let fresh = piece[..count]
            .iter()
            .skip_while(|byte| late && **byte != LAUNCH);
        bytes.extend(fresh);
    }
}

fn send(control: &mut UnixStream, report: &InitReport) -> io::Result<()> {
    let bytes = frame::encode(report).map_err(|_| io::ErrorKind::InvalidData)?;
    control.write_all(&bytes)
}

/// The attempt's processes.
struct Tree<'a> {
    main: Pid,
    room: &'a OpenRoom,
    rest: Rest,
    /// The next try to give the command's session the lowest weight, by number and time.
    lowers: Option<(u32, Instant)>,
}

/// The freezing state of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Awake,
    /// Told to stop; told again and looked at after this pause, which is over then.
    Settling(Duration, Instant),
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

            let settles = match self.rest {
                Rest::Settling(_, due) => Some(due),
                Rest::Awake | Rest::Frozen => None,
            };
            let lowers = self.lowers.map(|(_, due)| due);
            let due = settles.into_iter().chain(lowers).min();
            let pause = due.map(|due| due.saturating_duration_since(Instant::now()));
            let alive = if sys::wait_for(Some(control.as_fd()), pause) {
                self.obey(control)
            } else {
                self.lower();
                self.settle(control)
            };
            if !alive {
                self.end();
                return Ok(None);
            }
        }
    }

    /// Gives the command's session the lowest weight, if it is time for that and it has another.
    fn lower(&mut self) {
        let now = Instant::now();
        let Some((tries, _)) = self.lowers.filter(|(_, due)| *due <= now) else {
            return;
        };
        let file = format!("/proc/{}/autogroup", self.main.as_raw_nonzero());
        let again = birth::lower_session_later(Path::new(&file)) && tries < LOWERS;
        // The system takes one such write at a time: those of tasks that start together come apart.
        let apart = self.main.as_raw_nonzero().get().unsigned_abs() % 100;
        let apart = Duration::from_millis(apart.into());
        self.lowers = again.then(|| (tries + 1, now + LOWER * (tries + 1) + apart));
    }

    /// Carries out the orders that have come; returns false if the worker is gone.
    fn obey(&mut self, control: &mut UnixStream) -> bool {
        let mut orders = [0; 64];
        let count = match control.read(&mut orders) {
            Ok(0) => return false,
            Ok(count) => count,
            Err(error) => return error.kind() == io::ErrorKind::Interrupted,
        };
        let orders = &orders[..count];
        let served = orders
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
            });
        // After the other orders: the child that measures must not be among the processes that they freeze.
        served && (!orders.contains(&MEASURE) || self.measure(control))
    }

    /// Reports the memory that the processes hold; returns false if the worker is gone. Where no control group tells, a
    /// child of this process looks: who looks at a process may have to wait for it, and the orders do not.
    fn measure(&self, control: &mut UnixStream) -> bool {
        if let Some(held) = self.room.memory_held() {
            return send(control, &InitReport::Holds(Some(held))).is_ok();
        }

        let members = tree::members(&|_| false);
        match sys::fork() {
            Ok(Fork::Parent(_)) => true,
            Ok(Fork::Child) => {
                let held = memory::held_by(&members);
                let sent = send(control, &InitReport::Holds(held));
                sys::exit(i32::from(sent.is_err()))
            }
            Err(_) => send(control, &InitReport::Holds(None)).is_ok(),
        }
    }

    /// Asks every process to end.
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
        self.rest = Rest::Settling(SETTLE, Instant::now());
        self.settle(control)
    }

    /// Tells a tree to stop that has not come to rest, and reports one that has; returns false if the
    /// worker is gone. A child that changes ends no pause before its time.
    fn settle(&mut self, control: &mut UnixStream) -> bool {
        let begun = Instant::now();
        let pause = match self.rest {
            Rest::Settling(pause, due) if due <= begun => pause,
            _ => return true,
        };
        let frozen = if self.room.freezes() {
            self.room.freeze()
        } else {
            tree::freeze(&|_| false)
        };
        if frozen {
            self.rest = Rest::Frozen;
            return send(control, &InitReport::Frozen).is_ok();
        }

        // Looks at each process take the owner's processor: they get a part of the time.
        let now = Instant::now();
        let next = (2 * pause).max(now - begun).min(SETTLE_MOST);
        self.rest = Rest::Settling(next, now + next);
        let news = pause < SETTLE_LONG && next >= SETTLE_LONG;
        !news || send(control, &InitReport::Restless).is_ok()
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The next report that this end of the socket has got.
    fn reported(from: &mut UnixStream) -> InitReport {
        let mut prefix = [0; frame::PREFIX];
        from.read_exact(&mut prefix).unwrap();
        let mut report = vec![0; frame::length(prefix).unwrap()];
        from.read_exact(&mut report).unwrap();
        frame::decode(&report).unwrap()
    }

    #[test]
    fn a_tree_that_does_not_stop_is_told_again_until_it_does() {
        let dir = tempfile::tempdir().unwrap();
        let room = OpenRoom::of_files(dir.path());
        let told = dir.path().join("cgroup.freeze");
        let (mut init, mut worker) = UnixStream::pair().unwrap();
        let mut tree = Tree {
            main: getpid(),
            room: &room,
            rest: Rest::Awake,
            lowers: None,
        };
        assert!(tree.freeze(&mut init));
        for _ in 0..3 {
            fs::write(&told, "").unwrap();
            while fs::read_to_string(&told).unwrap() != "1" {
                assert!(matches!(tree.rest, Rest::Settling(..)) && tree.settle(&mut init));
            }
        }

        // It has taken long by now.
        tree.rest = Rest::Settling(SETTLE_LONG / 2, Instant::now());
        assert!(tree.settle(&mut init));
        assert!(matches!(reported(&mut worker), InitReport::Restless));
        let Rest::Settling(pause, due) = tree.rest else {
            panic!("{:?}", tree.rest)
        };
        assert!(pause == SETTLE_LONG && due > Instant::now());

        fs::write(dir.path().join("cgroup.events"), "frozen 1").unwrap();
        tree.rest = Rest::Settling(SETTLE_MOST, Instant::now());
        assert!(tree.settle(&mut init));
        assert_eq!(tree.rest, Rest::Frozen);
        assert!(matches!(reported(&mut worker), InitReport::Frozen));
    }
}
