//! The start of an attempt's command: which program it is, what it may use, and, where it does not start, why. What is
//! not here: its confinement ([`super::confine`]) and its birth ([`super::birth`]).

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};

use super::birth::{Birth, NotBorn, Stdio, spawn};
use super::cgroup::Room;
use super::confine::{Filters, Wrapped, wrap};
use crate::os::{Launch, Limits};

/// Starts the command in its room, at the lowest priorities. Where it cannot enter the room, it runs without. The error is
/// for people.
pub(super) fn start(
    launch: &Launch,
    room: &mut Room,
    filters: &Filters,
    stdout: &OwnedFd,
    stderr: &OwnedFd,
    null: &File,
) -> Result<Pid, String> {
    let dir = PathBuf::from(&launch.dir);
    let program = find_program(launch, &dir)?;
    let zero = |_| "an argument or variable has a zero byte".to_owned();
    let strings = |list: Vec<Vec<u8>>| list.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>().map_err(zero);
    let argv = strings(launch.argv.iter().map(|a| a.clone().into_bytes()).collect())?;
    let env = strings(launch.env.iter().map(|(k, v)| format!("{k}={v}").into_bytes()).collect())?;
    let path = CString::new(program.as_os_str().as_bytes()).map_err(zero)?;
    let at = CString::new(launch.dir.as_bytes()).map_err(zero)?;
    let input = match &launch.stdin {
        None => None,
        Some(name) => {
            Some(File::open(dir.join(name)).map_err(|e| format!("its standard input `{name}` cannot be opened: {e}"))?)
        }
    };
    let stdin: BorrowedFd<'_> = input.as_ref().map_or(null.as_fd(), AsFd::as_fd);
    let Wrapped { cage, program: wrapped, argv } = wrap(&launch.confines, filters, &dir, path, argv)?;
    if let Some((user, group)) = cage.account {
        hand_over(&dir, user, group).map_err(|e| format!("its directory cannot be handed to its account: {e}"))?;
    }
    let doors = enter(room, launch, cage.account.is_some())?;
    let stdio = Stdio { stdin, stdout: stdout.as_fd(), stderr: stderr.as_fd() };
    let birth = Birth { program: &wrapped, argv: &argv, env: &env, dir: &at, stdio, doors: &doors, cage: &cage };
    let born = match spawn(&birth) {
        Err(NotBorn::Groups(_)) => {
            *room = Room::default();
            limit(launch.limits, true, cage.account.is_some())?;
            spawn(&Birth { doors: &[], ..birth })
        }
        born => born,
    };
    born.map_err(|not| match not {
        NotBorn::Program(error) => why_not(&launch.argv[0], &dir, &program, &error),
        NotBorn::Cage(error) => format!("it cannot be confined at the level `{}`: {error}", launch.confines.level),
        NotBorn::Process(error) | NotBorn::Groups(error) => format!("this host has no process for it: {error}"),
    })
}

/// Sets the limits, in the room as far as it has them; gives the doors to the room.
fn enter(room: &mut Room, launch: &Launch, own_account: bool) -> Result<Vec<File>, String> {
    let doors = room.limit(launch.limits.memory, launch.limits.processes).and_then(|()| room.doors());
    let doors = doors.unwrap_or_else(|_| {
        *room = Room::default();
        Vec::new()
    });
    let bare = |limited: bool| !limited;
    limit(launch.limits, bare(room.limits_memory()), own_account && bare(room.limits_processes()))?;
    Ok(doors)
}

/// Gives a directory with all that is in it to an account. Nothing of the account's runs yet.
fn hand_over(dir: &Path, user: u32, group: u32) -> io::Result<()> {
    for entry in walkdir::WalkDir::new(dir) {
        std::os::unix::fs::lchown(entry?.path(), Some(user), Some(group))?;
    }
    Ok(())
}

/// Sets the limits of each process: of its memory only where that of all of them cannot be limited. Of processes the
/// kernel counts all of an account's, so that makes sense only where tasks have one of their own.
fn limit(limits: Limits, memory: bool, processes: bool) -> Result<(), String> {
    for (resource, most) in [
        (Resource::As, limits.memory.filter(|_| memory)),
        (Resource::Nproc, limits.processes.filter(|_| processes)),
        (Resource::Fsize, limits.file),
        (Resource::Nofile, limits.open_files),
    ] {
        if let Some(most) = most {
            // Nobody may go above what the system allows already.
            let most = getrlimit(resource).maximum.map_or(most, |now| now.min(most));
            setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
                .map_err(|e| format!("the limit on {resource:?} cannot be set to {most}: {e}"))?;
        }
    }
    Ok(())
}

/// Where the program is: as given if it has a slash, else in the command's own `PATH`.
fn find_program(launch: &Launch, dir: &Path) -> Result<PathBuf, String> {
    let name = launch.argv.first().filter(|name| !name.is_empty()).ok_or("the command is empty")?;
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let path = launch.env.iter().find(|(key, _)| key == "PATH").map_or("", |(_, value)| value);
    let may_run = |file: &PathBuf| file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok();
    let places = path.split(':').filter(|place| place.starts_with('/'));
    places.map(|place| Path::new(place).join(name)).find(may_run).ok_or_else(|| {
        let hint = if dir.join(name).exists() {
            format!("; to run the input of that name, say `./{name}`")
        } else {
            String::new()
        };
        format!("program `{name}` not found in PATH ({path}){hint}")
    })
}

fn why_not(name: &str, dir: &Path, program: &Path, error: &io::Error) -> String {
    let there = dir.join(program);
    match error.kind() {
        _ if !dir.is_dir() => format!("the attempt's directory {} is not there", dir.display()),
        io::ErrorKind::NotFound if there.exists() => {
            format!("program `{name}` is there, but the interpreter or loader that it names is not")
        }
        io::ErrorKind::NotFound if program.is_absolute() => format!("program `{name}` does not exist on this host"),
        io::ErrorKind::NotFound => format!("program `{name}` does not exist below the attempt's directory"),
        io::ErrorKind::PermissionDenied => {
            format!("program `{name}` may not be executed: is the input marked executable?")
        }
        _ if error.raw_os_error() == Some(libc::ENOEXEC) => {
            format!("program `{name}` is not a program of this system and has no `#!` line")
        }
        _ => format!("program `{name}`: {error}"),
    }
}
