//! Linux: a spawner process, an init process for each attempt that runs, control groups or signals to
//! whole trees.
//!
//! `worker -> spawner -> init -> command -> ...`: see [`spawner`] and [`init`]. This file is the
//! worker's end; [`idle`] keeps inits from one attempt to the next.

mod birth;
mod cgroup;
mod confine;
mod idle;
mod init;
mod load;
mod memory;
mod processors;
mod sandbox;
mod spawner;
mod start;
mod sys;
mod tree;
mod watch;

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as Socket;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use common::wire::frame;
use link::Farewell;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, send, sendmsg};
use rustix::process::Signal;
use rustix::time::ClockId;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::unix::{program, since_zero};
use super::{Launch, ProcessOrder, WatcherReport, files};
use crate::blocking::off;
pub(crate) use cgroup::memory_bound;
pub use cgroup::{Grounds, Survey};
pub(crate) use confine::donor_main;
pub(super) use confine::shows;
use idle::IdleInits;
use init::{InitReport, InitSpec};
pub(crate) use load::Accounts;
pub(crate) use memory::give_back_code;
pub(crate) use processors::cores;
pub(crate) use spawner::spawner_main;
pub(super) use sys::nobody_writes;
pub(crate) use sys::{close_inherited, give_up_capabilities};
pub(crate) use watch::DirWatch;

const THAW: Signal = Signal::CONT;
/// Asks an init how much memory its attempt holds. It is none of the bytes that are orders.
const MEASURE: u8 = b'M';
/// The longest time to look for the reason why a program could not be executed.
const LOOK: Duration = Duration::from_secs(5);
/// The turns of those looks: those that hang keep no more threads than this.
static LOOKS: Semaphore = Semaphore::const_new(8);

fn byte_of(order: ProcessOrder) -> u8 {
    match order {
        ProcessOrder::Terminate => b'T',
        ProcessOrder::Kill => b'K',
        ProcessOrder::Freeze => b'F',
        ProcessOrder::Thaw => b'C',
    }
}

fn order_of(byte: u8) -> Option<ProcessOrder> {
    [
        ProcessOrder::Terminate,
        ProcessOrder::Kill,
        ProcessOrder::Freeze,
        ProcessOrder::Thaw,
    ]
    .into_iter()
    .find(|order| byte_of(*order) == byte)
}

/// The worker's end of one of a command's standard streams.
pub type Output = pipe::Receiver;

/// The starter of commands. It holds the spawner, and starts another one if that is gone.
pub struct Launcher {
    program: PathBuf,
    grounds: Grounds,
    spawner: Mutex<Spawner>,
    idle: Arc<IdleInits>,
    null: OwnedFd,
}

struct Spawner {
    child: Child,
    socket: Socket,
    /// The farewell that it has.
    farewell: Option<Farewell>,
}

/// A command that was started (or will turn out not to have been).
pub struct Process {
    /// The socket to its init; `None` once it has ended.
    control: Option<UnixStream>,
    inbox: Vec<u8>,
    spec: InitSpec,
    idle: Arc<IdleInits>,
    /// The message by which it was started.
    message: Vec<u8>,
    /// The search for the reason why its program could not be executed.
    explaining: Option<JoinHandle<String>>,
    /// The standard output, if it is kept.
    pub stdout: Option<Output>,
    /// The standard error, if it is kept.
    pub stderr: Option<Output>,
}

impl Launcher {
    /// Starts the spawner: `program` called with [`crate::spawner::ARG`]. Attempts get control
    /// groups on `grounds`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(program: PathBuf, grounds: Grounds) -> io::Result<Self> {
        let spawner = Mutex::new(Spawner::start(&program, &grounds)?);
        let null = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
        Ok(Self {
            program,
            grounds,
            spawner,
            idle: Arc::default(),
            null: null.into(),
        })
    }

    /// Starts a command. A standard output or error that is not kept goes to `/dev/null`.
    ///
    /// # Errors
    /// If no spawner can be had, or no more descriptors. That the command itself does not start is
    /// a [`WatcherReport`].
    pub async fn launch(
        &self,
        launch: &Launch,
        keep_stdout: bool,
        keep_stderr: bool,
    ) -> io::Result<Process> {
        let mut process = Process {
            control: None,
            inbox: Vec::new(),
            spec: InitSpec::of(launch),
            idle: Arc::clone(&self.idle),
            message: Vec::new(),
            explaining: None,
            stdout: None,
            stderr: None,
        };
        let (stdout, out) = output(keep_stdout)?;
        let (stderr, err) = output(keep_stderr)?;
        (process.stdout, process.stderr) = (stdout, stderr);
        let [out, err] = [&out, &err].map(|own| own.as_ref().unwrap_or(&self.null));

        if let Err(why) = hand_over(launch, [out, err]).await {
            let report = InitReport::NotStarted(why);
            process.inbox = frame::encode(&report).map_err(io::Error::other)?;
            return Ok(process);
        }

        process.message = init::message(launch)?;
        process.control = Some(
            self.begin(&process.spec, &process.message, [out, err])
                .await?,
        );
        Ok(process)
    }

    /// Has an init start the command of this message: one that has just served another attempt, or a
    /// new one.
    async fn begin(
        &self,
        spec: &InitSpec,
        message: &[u8],
        streams: [&OwnedFd; 2],
    ) -> io::Result<UnixStream> {
        // One that has been killed meanwhile takes no message.
        if let Some(idle) = self.idle.take(spec)
            && tell(&idle, message, streams).await.is_ok()
        {
            return Ok(idle);
        }

        let (ours, theirs) = Socket::pair()?;
        ours.set_nonblocking(true)?;
        self.pass(&theirs, &spawner::message(spawner::INIT, spec)?)?;
        drop(theirs);
        let ours = UnixStream::from_std(ours)?;
        tell(&ours, message, streams).await?;
        Ok(ours)
    }

    /// Has the spawner send this when the worker dies, so that the master notices at once; `None`
    /// takes it back.
    pub(crate) fn keep_farewell(&self, farewell: Option<Farewell>) {
        let mut spawner = self.spawner.lock().unwrap_or_else(PoisonError::into_inner);
        if spawner.farewell != farewell
            && let Err(error) = spawner.keep_farewell(farewell)
        {
            // The next command starts another one, which gets it.
            tracing::debug!(%error, "the spawner process takes no farewell");
        }
    }

    fn pass(&self, socket: &Socket, message: &[u8]) -> io::Result<()> {
        let mut spawner = self.spawner.lock().unwrap_or_else(PoisonError::into_inner);
        let Err(error) = spawner.pass(socket, message) else {
            return Ok(());
        };

        tracing::warn!(%error, "the spawner process is gone; starting another");
        let farewell = spawner.farewell.take();
        *spawner = Spawner::start(&self.program, &self.grounds)?;
        spawner.keep_farewell(farewell)?;
        spawner.pass(socket, message)
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        // The spawner ends after the last of them.
        self.idle.close();
    }
}

/// Gives the directory of an attempt and its streams to the account that runs it, if it has one. The
/// error is for people.
async fn hand_over(launch: &Launch, streams: [&OwnedFd; 2]) -> Result<(), String> {
    let Some((user, group)) = launch.confines.account else {
        return Ok(());
    };
    let dir = PathBuf::from(&launch.dir);
    let is_empty = std::fs::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_none());
    let handed = if is_empty {
        // Not worth another thread.
        files::hand_over(&dir, user, group)
    } else {
        off(move || files::hand_over(&dir, user, group))
            .await
            .flatten()
    };
    handed.map_err(|e| format!("its directory cannot be handed to its account: {e}"))?;

    for stream in streams {
        start::hand_over_pipe(stream, user, group);
    }
    Ok(())
}

/// Sends a message to an init, with the streams of a command.
async fn tell(init: &UnixStream, message: &[u8], [out, err]: [&OwnedFd; 2]) -> io::Result<()> {
    let fds = [out.as_fd(), err.as_fd()];
    let sent = init
        .async_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            send_with(init.as_fd(), message, &fds, &mut space)
        })
        .await?;
    let mut rest = &message[sent..];
    while !rest.is_empty() {
        let more = || Ok(send(init, rest, SendFlags::NOSIGNAL)?);
        let count = init.async_io(Interest::WRITABLE, more).await?;
        rest = &rest[count..];
    }
    Ok(())
}

/// Sends the message, or its beginning, and the descriptors with its first byte.
fn send_with(
    socket: BorrowedFd<'_>,
    message: &[u8],
    fds: &[BorrowedFd<'_>],
    space: &mut [MaybeUninit<u8>],
) -> io::Result<usize> {
    let mut ancillary = SendAncillaryBuffer::new(space);
    ancillary.push(SendAncillaryMessage::ScmRights(fds));
    let message = [IoSlice::new(message)];
    Ok(sendmsg(
        socket,
        &message,
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?)
}

/// Returns the worker's and the command's end of an output stream that is kept.
fn output(keep: bool) -> io::Result<(Option<Output>, Option<OwnedFd>)> {
    if !keep {
        return Ok((None, None));
    }
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    Ok((Some(pipe::Receiver::from_owned_fd(read)?), Some(write)))
}

/// Lets a command write this many bytes before it is read again, as far as the system allows; false
/// where it never does.
pub(crate) fn enlarge(output: &Output, bytes: usize) -> bool {
    // The user's share of pipe memory may be used up; then it goes slower.
    let _ = rustix::pipe::fcntl_setpipe_size(output, bytes);
    true
}

impl Spawner {
    fn start(program: &PathBuf, grounds: &Grounds) -> io::Result<Self> {
        let (socket, theirs) = Socket::pair()?;
        let child = Command::new(program)
            .arg0("deskgrid-spawner")
            .arg(crate::spawner::ARG)
            .args(grounds.to_args())
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self {
            child,
            socket,
            farewell: None,
        })
    }

    fn keep_farewell(&mut self, farewell: Option<Farewell>) -> io::Result<()> {
        let message = spawner::message(spawner::FAREWELL, &farewell)?;
        self.farewell = farewell;
        io::Write::write_all(&mut &self.socket, &message)
    }

    /// Sends a message, and the socket with its first byte.
    fn pass(&self, socket: &Socket, message: &[u8]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let sent = send_with(self.socket.as_fd(), message, &[socket.as_fd()], &mut space)?;
        io::Write::write_all(&mut &self.socket, &message[sent..])
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        // Nobody has died.
        let _ = self.keep_farewell(None);
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let _ = self.child.wait();
    }
}

impl Process {
    /// Passes an order on. An order after the end has no effect.
    pub fn order(&self, order: ProcessOrder) {
        self.tell(byte_of(order));
    }

    /// Asks how much memory its processes hold, which [`WatcherReport::Holds`] answers unless it ends before. Returns
    /// whether this system can tell.
    pub fn measure(&self) -> bool {
        self.tell(MEASURE);
        true
    }

    fn tell(&self, byte: u8) {
        // Past tokio, whose view of the socket may be older than its state: a byte always fits
        // while the reader lives, and if it is dead there is nothing to order.
        let _ = self
            .control
            .as_ref()
            .map(|control| send(control, &[byte], SendFlags::DONTWAIT | SendFlags::NOSIGNAL));
    }

    /// Returns the next report; there is none after [`WatcherReport::Ended`] or [`WatcherReport::NotStarted`].
    /// Safe to cancel.
    pub async fn report(&mut self) -> WatcherReport {
        loop {
            if let Some(explaining) = &mut self.explaining {
                let why = explaining.await.unwrap_or_else(|panic| panic.to_string());
                self.explaining = None;
                return WatcherReport::NotStarted(why);
            }
            if let Some(report) = self.buffered() {
                if let Some(report) = self.understand(report) {
                    return report;
                }
                continue;
            }

            let heard = match &mut self.control {
                Some(control) => control.read_buf(&mut self.inbox).await.unwrap_or(0),
                None => 0,
            };
            if heard == 0 {
                // Its watcher was killed: the spawner kills what was below it.
                return WatcherReport::Ended {
                    status: init::LOST,
                    cpu: common::Span::ZERO,
                    over: None,
                };
            }
        }
    }

    fn buffered(&mut self) -> Option<InitReport> {
        let prefix = self.inbox.first_chunk::<{ frame::PREFIX }>()?;
        let length = frame::length(*prefix).ok()?;
        let report = frame::decode(self.inbox.get(frame::PREFIX..frame::PREFIX + length)?).ok()?;
        self.inbox.drain(..frame::PREFIX + length);
        Some(report)
    }

    /// Returns what a report means to the worker; `None` if that has to be looked for first. After the last one the
    /// init is not this command's any more.
    fn understand(&mut self, report: InitReport) -> Option<WatcherReport> {
        Some(match report {
            InitReport::Frozen => WatcherReport::Frozen,
            InitReport::Restless => WatcherReport::Restless,
            InitReport::Holds(bytes) => WatcherReport::Holds(bytes),
            InitReport::NotStarted(why) => WatcherReport::NotStarted(why),
            InitReport::NoProgram(number) => {
                let message = std::mem::take(&mut self.message);
                self.explaining = Some(tokio::spawn(explain(message, number)));
                return None;
            }
            InitReport::Ended {
                status,
                cpu,
                over,
                again,
            } => {
                if let (Some(control), Some(again)) = (self.control.take(), again) {
                    let until = Instant::now() + Duration::from(again);
                    self.idle.put(self.spec.clone(), control, until);
                }
                WatcherReport::Ended { status, cpu, over }
            }
        })
    }
}

/// Explains why the program of the command in this [`init::message`] could not be executed, with the number of the
/// error. What the command names may lie on a file server that is away: then nobody waits long.
async fn explain(message: Vec<u8>, number: Option<i32>) -> String {
    let error = move || {
        number.map_or_else(
            || io::Error::other("it could not be executed"),
            io::Error::from_raw_os_error,
        )
    };
    let Ok(launch) = init::launch_in(&message) else {
        return error().to_string();
    };

    let name = launch.argv[0].clone();
    let look = move || {
        let dir = Path::new(&launch.dir);
        program::find(&launch, dir).map_or_else(
            |why| why,
            |program| program::why_not(&launch, dir, &program, &error()),
        )
    };
    let Ok(turn) = tokio::time::timeout(LOOK, LOOKS.acquire()).await else {
        return format!(
            "program `{name}` could not be executed, and this host cannot say why while it waits for the file systems of \
             other commands"
        );
    };

    let look = move || {
        let _turn = turn;
        look()
    };
    match tokio::time::timeout(LOOK, off(look)).await {
        Ok(why) => why.unwrap_or_else(|panic| panic.to_string()),
        Err(_) => format!(
            "program `{name}` could not be executed, and this host could not look for it within {LOOK:?}: a file system \
             of its path or of `PATH` does not answer"
        ),
    }
}

/// Returns the path of this program, valid also if its file was replaced meanwhile.
pub(crate) fn this_program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// Returns the time since the host was started, with suspensions of the host.
pub(crate) fn since_boot() -> common::Time {
    common::Time(0) + since_zero(ClockId::Boottime)
}

/// Returns the time since the host was started, without suspensions of the host.
pub(crate) fn awake() -> common::Span {
    since_zero(ClockId::Monotonic)
}

/// Returns the version of Landlock in the kernel; 0 if none.
pub(crate) fn landlock_version() -> u32 {
    sys::landlock_version()
}

/// Returns the identity of this run of the host (`boot_id`).
pub(crate) fn boot_id() -> Option<uuid::Uuid> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .ok()?
        .trim()
        .parse()
        .ok()
}
