//! The file system that tasks in namespaces see, without what is each task's own: bubblewrap makes
//! it, and the spawner keeps it for the attempts of the next moment. To make one costs more than
//! most commands. [`super::sandbox`] joins it.
//!
//! No process lives in a view: the one that bubblewrap starts ([`donor_main`]) sends the view's
//! namespaces to the spawner, and ends.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use common::host::Confinement;
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg,
    sendmsg,
};
use rustix::process::{Signal, WaitOptions, kill_process, waitpid};
use serde::{Deserialize, Serialize};

use super::super::birth::{Birth, Cage, Stdio, spawn};
use super::super::sys;
use super::{as_account, bubblewrap, strict};
use crate::os::Launch;

/// The time for which a view serves the attempts that begin: what the owner mounts or installs
/// since is seen by those that begin later.
pub(in super::super) const LIFE: Duration = Duration::from_secs(1);
/// The longest time that bubblewrap may take. A file system that does not answer must not keep the
/// spawner from the other attempts for long.
const PATIENCE: Duration = Duration::from_secs(10);
/// The bytes of bubblewrap's own words that are read.
const WORDS: u64 = 1_000;
/// The name of the program on its descriptor 3, in the view.
const DONOR: &str = "/proc/self/fd/3";

/// The properties of a view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct ViewSpec {
    /// Whether the network is used, and so the names of hosts resolved.
    pub network: bool,
    /// Files and directories that are shown read-only beside those of the system.
    pub readable: Vec<String>,
    /// The account that runs the task, if it has its own.
    pub account: Option<(u32, u32)>,
    /// The directories from which each task takes what is its own. They are hidden from it.
    pub sources: Vec<OsString>,
}

/// The namespaces of a view.
#[derive(Debug)]
pub(in super::super) struct View {
    /// When it was made.
    pub made: Instant,
    /// Its mounts.
    pub mounts: OwnedFd,
    /// The users to whom the mounts belong.
    pub owner: OwnedFd,
    /// The users of the task: below `owner`, or the same.
    pub users: OwnedFd,
}

/// The views that attempts may join.
#[derive(Default)]
pub(in super::super) struct Views(Vec<(ViewSpec, View)>);

impl ViewSpec {
    /// Returns the view that a command needs; `None` at the levels that know none.
    pub(in super::super) fn of(launch: &Launch) -> Option<Self> {
        let confines = &launch.confines;
        if confines.level < Confinement::Namespace {
            return None;
        }

        let mut sources: Vec<OsString> = std::iter::once(&launch.dir)
            .chain(confines.shown.iter().map(|(from, _)| from))
            .filter_map(|path| Some(Path::new(path).parent()?.as_os_str().to_owned()))
            .collect();
        sources.sort();
        sources.dedup();

        Some(Self {
            network: confines.network,
            readable: confines.readable.clone(),
            account: confines.account,
            sources,
        })
    }
}

impl Views {
    /// Makes sure that there is a view of these properties. The error is for people.
    pub(in super::super) fn prepare(&mut self, spec: &ViewSpec) -> Result<(), String> {
        self.expire();
        if !self.0.iter().any(|(other, ..)| other == spec) {
            let view = View::make(spec)?;
            self.0.push((spec.clone(), view));
        }
        Ok(())
    }

    /// Takes the view of these properties out.
    pub(in super::super) fn take(mut self, spec: &ViewSpec) -> Option<View> {
        let at = self.0.iter().position(|(other, ..)| other == spec)?;
        Some(self.0.swap_remove(at).1)
    }

    /// Gives up the views that are too old.
    pub(in super::super) fn expire(&mut self) {
        self.0.retain(|(_, view)| view.made.elapsed() < LIFE);
    }

    /// Returns the time until the next view is too old.
    pub(in super::super) fn expires_in(&self) -> Option<Duration> {
        self.0
            .iter()
            .map(|(_, view)| LIFE.saturating_sub(view.made.elapsed()))
            .min()
    }
}

impl View {
    /// Has bubblewrap make a view.
    fn make(spec: &ViewSpec) -> Result<Self, String> {
        let failed = |error: io::Error| format!("its view of the files cannot be made: {error}");
        let bwrap =
            bubblewrap::find().ok_or("bubblewrap (`bwrap`) is not installed on this host")?;
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let (words, said) = io::pipe().map_err(failed)?;
        let program = File::open("/proc/self/exe").map_err(failed)?;
        let null = File::open("/dev/null").map_err(failed)?;
        let cage = Cage {
            passed: vec![program.into()],
            no_capabilities: false,
            ..strict()
        };
        // An account of their own passes to each source.
        let source = spec.sources.first().map_or(Path::new("/"), Path::new);
        let others = spec.sources.iter().skip(1);
        let others = others.map(|other| other.to_string_lossy().into_owned());
        let seen: Vec<String> = others.chain(spec.readable.iter().cloned()).collect();
        let cage = as_account(spec.account, &seen, source, cage)?;

        let zero = |_| "a path has a zero byte".to_owned();
        let argv = bubblewrap::argv(spec, [DONOR, crate::spawner::DONOR_ARG]).map_err(zero)?;
        let program = CString::new(bwrap.as_os_str().as_bytes()).map_err(zero)?;
        let dir = CString::new(source.as_os_str().as_bytes()).map_err(zero)?;
        let born = spawn(&Birth {
            programs: &[program],
            argv: &argv,
            env: &[],
            dir: &dir,
            stdio: Stdio {
                stdin: theirs.as_fd(),
                stdout: null.as_fd(),
                stderr: said.as_fd(),
            },
            doors: &[],
            cage: &cage,
            processors: None,
            lowest: false,
            limits: &[],
            step: None,
        });
        drop((theirs, said));
        let pid = born.map_err(|not| failed(not.error))?;

        let received = receive(&ours);
        // It has nothing more to do, or takes too long.
        let _ = kill_process(pid, Signal::KILL);
        let _ = waitpid(Some(pid), WaitOptions::empty());
        let namespaces = received.map_err(failed)?;
        namespaces.ok_or_else(|| {
            let mut text = String::new();
            let _ = words.take(WORDS).read_to_string(&mut text);
            format!("its view of the files cannot be made: {}", text.trim())
        })
    }
}

/// Receives the namespaces of a view; `None` if bubblewrap has ended without.
fn receive(socket: &UnixStream) -> io::Result<Option<View>> {
    let until = Instant::now() + PATIENCE;
    while !sys::wait_for(Some(socket.as_fd()), Some(until - Instant::now())) {
        if Instant::now() >= until {
            let why = format!("bubblewrap took longer than {PATIENCE:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
    }

    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let Ok([mounts, users]) = <[OwnedFd; 2]>::try_from(sys::descriptors(&mut ancillary)) else {
        return Ok(None);
    };
    let owner = sys::owner_of(&mounts)?;
    Ok(Some(View {
        made: Instant::now(),
        mounts,
        owner,
        users,
    }))
}

/// Sends the namespaces of the view that this process is in to the spawner, which is at the other
/// end of the standard input. Returns the exit code.
pub(crate) fn donor_main() -> i32 {
    let sent = File::open("/proc/self/ns/mnt").and_then(|mounts| {
        let users = File::open("/proc/self/ns/user")?;
        let fds = [mounts.as_fd(), users.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let socket = io::stdin();
        let byte = [IoSlice::new(&[0])];
        Ok(sendmsg(
            &socket,
            &byte,
            &mut ancillary,
            SendFlags::NOSIGNAL,
        )?)
    });
    i32::from(sent.is_err())
}
