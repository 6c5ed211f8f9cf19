//! The start of an attempt's command: its limits, and the reason if it does not start.
//! [`super::confine`] prepares its confinement, and [`super::birth`] makes the process. What only the
//! worker itself can do, it does before: it hands the directory over to the account of tasks.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::fs::FileType;
use rustix::process::{
    DumpableBehavior, Gid, Pid, Resource, Uid, getrlimit, set_dumpable_behavior,
};

use super::birth::{Birth, BirthStage, NotBorn, Stdio, spawn};
use super::cgroup::OpenRoom;
use super::confine::{Filters, cage};
use super::processors::set_of;
use super::sandbox::Sandbox;
use crate::os::unix::program;
use crate::os::{AttemptLimits, Launch};

/// The means of an init to start commands.
pub(super) struct InitMeans<'a> {
    pub filters: &'a Filters,
    /// The namespaces that the init is the first process of, if it is.
    pub sandbox: Option<&'a Sandbox>,
    pub null: &'a File,
}

/// The reason why a command was not started.
#[derive(Debug)]
pub(super) enum NotBegun {
    /// In words for people.
    Because(String),
    /// Its program was not reached, with this error, which the worker explains.
    Program(io::Error),
}

impl From<String> for NotBegun {
    fn from(why: String) -> Self {
        Self::Because(why)
    }
}

/// Starts the command in its room, at the lowest priorities. Where it cannot enter the room, it
/// runs without.
pub(super) fn start(
    launch: &Launch,
    room: &mut OpenRoom,
    means: &InitMeans<'_>,
    [stdout, stderr]: &[OwnedFd; 2],
) -> Result<Pid, NotBegun> {
    let dir = PathBuf::from(&launch.dir);
    let zero = |_| "an argument or variable has a zero byte".to_owned();
    let argv = launch.argv.iter().map(|word| CString::new(word.as_str()));
    let argv = argv.collect::<Result<Vec<_>, _>>().map_err(zero)?;
    let env = launch
        .env
        .iter()
        .map(|(key, value)| CString::new(format!("{key}={value}")));
    let env = env.collect::<Result<Vec<_>, _>>().map_err(zero)?;

    let programs = program::candidates(launch)?;
    let programs = programs
        .into_iter()
        .map(|path| CString::new(path.into_os_string().into_vec()));
    let programs = programs.collect::<Result<Vec<_>, _>>().map_err(zero)?;
    let at = CString::new(launch.dir.as_bytes()).map_err(zero)?;
    let input = match &launch.stdin {
        None => None,
        Some(name) => Some(
            File::open(dir.join(name))
                .map_err(|e| format!("its standard input `{name}` cannot be opened: {e}"))?,
        ),
    };
    let cage = cage(launch, means.filters, &dir)?;

    let birth = Birth {
        programs: &programs,
        argv: &argv,
        env: &env,
        dir: &at,
        stdio: Stdio {
            stdin: input.as_ref().map_or(means.null.as_fd(), AsFd::as_fd),
            stdout: stdout.as_fd(),
            stderr: stderr.as_fd(),
        },
        doors: &[],
        cage: &cage,
        processors: set_of(&launch.processors),
        lowest: true,
        limits: &[],
        step: means.sandbox.map(Sandbox::step),
    };
    let entered = means.bear(&Birth {
        doors: room.doors(),
        limits: &limits(launch, room),
        ..birth
    });
    let refused = |not: &NotBorn| not.stage == BirthStage::Groups;
    let born = if entered.as_ref().is_err_and(refused) {
        *room = OpenRoom::default();
        means.bear(&Birth {
            limits: &limits(launch, room),
            ..birth
        })
    } else {
        entered
    };

    born.map_err(|NotBorn { stage, error }| match stage {
        BirthStage::Program => NotBegun::Program(error),
        BirthStage::Limits => NotBegun::Because(format!("its limits cannot be set: {error}")),
        BirthStage::Cage if error.kind() == io::ErrorKind::PermissionDenied && launch.confines.account.is_some() => NotBegun::Because(format!(
            "the account of tasks cannot reach {}, and this system lets the worker open no way there: {error}; start the \
             worker with a directory that other accounts may pass, such as --state-dir /var/lib/deskgrid",
            dir.display()
        )),
        BirthStage::Cage => NotBegun::Because(confined(launch, &error)),
        BirthStage::Process | BirthStage::Groups => NotBegun::Because(format!("this host has no process for it: {error}")),
    })
}

/// Explains that a command cannot be confined as it has to be.
pub(super) fn confined(launch: &Launch, error: &io::Error) -> String {
    let level = launch.confines.level;
    format!("it cannot be confined at the level `{level}`: {error}")
}

impl InitMeans<'_> {
    /// Starts the command's process.
    fn bear(&self, birth: &Birth<'_>) -> Result<Pid, NotBorn> {
        if self.sandbox.is_some() {
            // It writes to its own files in `/proc` before it hides this memory again.
            let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
        }
        let born = spawn(birth);
        if self.sandbox.is_some() {
            let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        }
        born
    }
}

/// Gives a standard stream to an account, which can then open it by its name, too. What is not a
/// pipe is not the attempt's own.
pub(super) fn hand_over_pipe(stream: &OwnedFd, user: u32, group: u32) {
    let is_pipe = rustix::fs::fstat(stream)
        .is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::Fifo);
    if is_pipe {
        let _ = rustix::fs::fchown(
            stream,
            Some(Uid::from_raw(user)),
            Some(Gid::from_raw(group)),
        );
    }
}

/// The limits of each process: of its memory only where that of all of them cannot be limited. Of
/// processes the kernel counts all of an account's, so that makes sense only where tasks have one of
/// their own.
fn limits(launch: &Launch, room: &OpenRoom) -> Vec<(Resource, u64)> {
    let own_account = launch.confines.account.is_some();
    let AttemptLimits {
        memory,
        processes,
        file,
        open_files,
    } = launch.limits;
    let wanted = [
        (Resource::As, memory.filter(|_| !room.limits_memory())),
        (
            Resource::Nproc,
            processes.filter(|_| own_account && !room.limits_processes()),
        ),
        (Resource::Fsize, file),
        (Resource::Nofile, open_files),
    ];

    // Nobody may go above what the system allows already.
    let allowed = |resource, most: u64| {
        getrlimit(resource)
            .maximum
            .map_or(most, |now| now.min(most))
    };
    let wanted = wanted.into_iter();
    wanted
        .filter_map(|(resource, most)| Some((resource, allowed(resource, most?))))
        .collect()
}
