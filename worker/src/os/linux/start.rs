//! The start of an attempt's command: its limits, and the reason if it does not start.
//! [`super::program`] finds the program, [`super::confine`] prepares its confinement, and
//! [`super::birth`] makes the process, where it has namespaces of its own in [`super::inside`].

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::process::{Gid, Pid, Resource, Rlimit, Uid, getrlimit, setrlimit};

use super::birth::{Birth, NotBorn, Stdio, spawn};
use super::cgroup::Room;
use super::confine::{Filters, View, ViewSpec, cage};
use super::inside::{FirstProcess, Inside};
use super::processors::set_of;
use super::program;
use crate::os::{AttemptLimits, Launch};

/// A command that was started.
pub(super) struct Started {
    pub main: Pid,
    /// The reports about the command, if the main process is only its entrance to namespaces.
    pub first: Option<FirstProcess>,
}

/// The means of an init to start a command.
pub(super) struct InitMeans<'a> {
    pub filters: &'a Filters,
    /// The view to be joined, or why there is none; nothing at levels without.
    pub view: Option<Result<View, String>>,
    pub null: &'a File,
    pub control: BorrowedFd<'a>,
    pub stdout: &'a OwnedFd,
    pub stderr: &'a OwnedFd,
}

/// Starts the command in its room, at the lowest priorities. Where it cannot enter the room, it
/// runs without. The error is for people.
pub(super) fn start(
    launch: &Launch,
    room: &mut Room,
    means: &InitMeans<'_>,
) -> Result<Started, String> {
    let dir = PathBuf::from(&launch.dir);
    let program = program::find(launch, &dir)?;
    let zero = |_| "an argument or variable has a zero byte".to_owned();
    let strings = |list: Vec<Vec<u8>>| {
        list.into_iter()
            .map(CString::new)
            .collect::<Result<Vec<_>, _>>()
            .map_err(zero)
    };
    let argv = strings(launch.argv.iter().map(|a| a.clone().into_bytes()).collect())?;
    let env = strings(
        launch
            .env
            .iter()
            .map(|(k, v)| format!("{k}={v}").into_bytes())
            .collect(),
    )?;

    let path = CString::new(program.as_os_str().as_bytes()).map_err(zero)?;
    let at = CString::new(launch.dir.as_bytes()).map_err(zero)?;
    let input = match &launch.stdin {
        None => None,
        Some(name) => Some(
            File::open(dir.join(name))
                .map_err(|e| format!("its standard input `{name}` cannot be opened: {e}"))?,
        ),
    };
    let stdin: BorrowedFd<'_> = input.as_ref().map_or(means.null.as_fd(), AsFd::as_fd);
    let cage = cage(launch, means.filters, &dir)?;

    let account = launch.confines.account;
    if let Some((user, group)) = account {
        hand_over(&dir, user, group)
            .map_err(|e| format!("its directory cannot be handed to its account: {e}"))?;
        [means.stdout, means.stderr]
            .into_iter()
            .for_each(|pipe| hand_over_pipe(pipe, user, group));
    }

    let doors = enter(room, launch, account.is_some())?;
    let stdio = Stdio {
        stdin,
        stdout: means.stdout.as_fd(),
        stderr: means.stderr.as_fd(),
    };
    let birth = Birth {
        program: &path,
        argv: &argv,
        env: &env,
        dir: &at,
        stdio,
        doors: &doors,
        cage: &cage,
        processors: set_of(&launch.processors),
        lowest: true,
    };
    let born = match bear(launch, means, &birth)? {
        Err(NotBorn::Groups(_)) => {
            *room = Room::default();
            limit(launch.limits, true, account.is_some())?;
            let birth = Birth {
                doors: &[],
                ..birth
            };
            bear(launch, means, &birth)?
        }
        born => born,
    };

    born.map_err(|not| match not {
        NotBorn::Program(error) => program::why_not(launch, &dir, &program, &error),
        NotBorn::Cage(error) if error.kind() == io::ErrorKind::PermissionDenied && account.is_some() => format!(
            "the account of tasks cannot reach {}, and this system lets the worker open no way there: {error}; start the \
             worker with a directory that other accounts may pass, such as --state-dir /var/lib/deskgrid",
            dir.display()
        ),
        NotBorn::Cage(error) => format!("it cannot be confined at the level `{}`: {error}", launch.confines.level),
        NotBorn::Process(error) | NotBorn::Groups(error) => format!("this host has no process for it: {error}"),
    })
}

/// Starts the command's process, in namespaces of its own if there is a view to join.
fn bear(
    launch: &Launch,
    means: &InitMeans<'_>,
    birth: &Birth<'_>,
) -> Result<Result<Started, NotBorn>, String> {
    let (Some(view), Some(spec)) = (&means.view, ViewSpec::of(launch)) else {
        return Ok(spawn(birth).map(|main| Started { main, first: None }));
    };
    let inside = Inside {
        launch,
        spec: &spec,
        view: view.as_ref().map_err(Clone::clone)?,
        control: means.control,
    };
    let started = |(main, first)| Started {
        main,
        first: Some(first),
    };
    Ok(inside.start(birth).map(started))
}

/// Sets the limits, in the room as far as it has them; gives the doors to the room.
fn enter(room: &mut Room, launch: &Launch, own_account: bool) -> Result<Vec<File>, String> {
    let doors = room
        .limit(launch.limits.memory, launch.limits.processes)
        .and_then(|()| room.doors());
    let doors = doors.unwrap_or_else(|_| {
        *room = Room::default();
        Vec::new()
    });
    let bare = |limited: bool| !limited;
    limit(
        launch.limits,
        bare(room.limits_memory()),
        own_account && bare(room.limits_processes()),
    )?;

    Ok(doors)
}

/// Gives a directory with all that is in it to an account, but for files that are the worker's
/// under another name. Nothing of the account's runs yet.
fn hand_over(dir: &Path, user: u32, group: u32) -> io::Result<()> {
    for entry in walkdir::WalkDir::new(dir) {
        let entry = entry?;
        if !entry.file_type().is_file() || entry.metadata()?.nlink() == 1 {
            std::os::unix::fs::lchown(entry.path(), Some(user), Some(group))?;
        }
    }
    Ok(())
}

/// Gives a standard stream to an account, which can then open it by its name, too. What is not a
/// pipe is not the attempt's own.
fn hand_over_pipe(stream: &OwnedFd, user: u32, group: u32) {
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

/// Sets the limits of each process: of its memory only where that of all of them cannot be limited.
/// Of processes the kernel counts all of an account's, so that makes sense only where tasks have
/// one of their own.
fn limit(limits: AttemptLimits, memory: bool, processes: bool) -> Result<(), String> {
    for (resource, most) in [
        (Resource::As, limits.memory.filter(|_| memory)),
        (Resource::Nproc, limits.processes.filter(|_| processes)),
        (Resource::Fsize, limits.file),
        (Resource::Nofile, limits.open_files),
    ] {
        if let Some(most) = most {
            // Nobody may go above what the system allows already.
            let most = getrlimit(resource)
                .maximum
                .map_or(most, |now| now.min(most));
            setrlimit(
                resource,
                Rlimit {
                    current: Some(most),
                    maximum: Some(most),
                },
            )
            .map_err(|e| format!("the limit on {resource:?} cannot be set to {most}: {e}"))?;
        }
    }

    Ok(())
}
