//! The init of one attempt: starts the command, watches over its process tree, and ends only when nothing of it is
//! left. Forked by the spawner; speaks with the worker over the attempt's control socket.
//!
//! The worker's end of that socket closes when the worker dies, however it dies: then the tree is killed.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::wire::frame;
use rustix::process::{Pid, Resource, Rlimit, Signal, getpid, set_child_subreaper, setrlimit};

use super::spawner::Wires;
use super::sys::{self, Reap, Stdio};
use super::{THAW, order_of, tree};
use crate::os::{Launch, Limits, Order, Report, Status};

/// How long killed processes may take to end before they are looked for again.
const DYING: Duration = Duration::from_millis(20);
/// The longest launch message, in bytes: what the wire allows for a command, and room for the environment.
const MAX_LAUNCH: usize = 2 * frame::MAX_FRAME;

/// The init's whole life.
pub(super) fn run(wires: Wires, null: &File) -> ! {
    let code = if watch_over(wires, null).is_ok() { 0 } else { 1 };
    std::process::exit(code)
}

fn watch_over(wires: Wires, null: &File) -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    // The worker learns of the spawner's death by this socket's end: no init may hold it.
    rustix::stdio::dup2_stdin(null)?;
    let mut control = UnixStream::from(wires.control);
    let launch = read_launch(&mut control)?;
    match start(&launch, &wires.stdout, &wires.stderr, null) {
        Err(why) => send(&mut control, &Report::NotStarted(why)),
        Ok(main) => {
            drop((wires.stdout, wires.stderr));
            attend(main, &mut control)
        }
    }
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

fn send(control: &mut UnixStream, report: &Report) -> io::Result<()> {
    let bytes = frame::encode(report).map_err(|_| io::ErrorKind::InvalidData)?;
    control.write_all(&bytes)
}

/// Until nothing of the tree is left.
fn attend(main: Pid, control: &mut UnixStream) -> io::Result<()> {
    let mut frozen = false;
    loop {
        let mut ended = None;
        while let Reap::Child(child) = sys::reap() {
            if child.pid == main {
                ended = Some(child.status);
            }
        }
        if let Some(status) = ended {
            end_tree();
            return send(control, &Report::Ended { status, cpu: sys::children_cpu().into() });
        }
        if sys::wait_for(Some(control.as_fd()), None) && !obey(control, &mut frozen) {
            end_tree();
            return Ok(());
        }
    }
}

/// Carries out the orders that have come; false if the worker is gone.
fn obey(control: &mut UnixStream, frozen: &mut bool) -> bool {
    let mut orders = [0; 64];
    let count = match control.read(&mut orders) {
        Ok(0) => return false,
        Ok(count) => count,
        Err(error) => return error.kind() == io::ErrorKind::Interrupted,
    };
    for order in orders[..count].iter().filter_map(|byte| order_of(*byte)) {
        match order {
            Order::Terminate => tree::signal(Signal::TERM, &|_| false),
            Order::Kill => tree::kill(&|_| false),
            Order::Freeze => {
                *frozen = true;
                if tree::freeze(&|_| false) && send(control, &Report::Frozen).is_err() {
                    return false;
                }
            }
            Order::Thaw if *frozen => {
                *frozen = false;
                tree::signal(THAW, &|_| false);
            }
            Order::Thaw => {}
        }
    }
    true
}

/// Kills and reaps until the kernel says that there is no child left: as this process is the subreaper, that proves
/// that no descendant is left either.
fn end_tree() {
    loop {
        match sys::reap() {
            Reap::Childless => return,
            Reap::Child(_) => {}
            Reap::Alive => {
                tree::kill(&|_| false);
                sys::wait_for(None, Some(DYING));
            }
        }
    }
}

/// Starts the command, at the lowest priorities. The error is for people.
fn start(launch: &Launch, stdout: &OwnedFd, stderr: &OwnedFd, null: &File) -> Result<Pid, String> {
    let dir = PathBuf::from(std::ffi::OsString::from_vec(launch.dir.clone()));
    let program = find_program(launch, &dir)?;
    let zero = |_| "an argument or variable has a zero byte".to_owned();
    let strings = |list: Vec<Vec<u8>>| list.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>().map_err(zero);
    let argv = strings(launch.argv.iter().map(|a| a.clone().into_bytes()).collect())?;
    let env = strings(launch.env.iter().map(|(k, v)| format!("{k}={v}").into_bytes()).collect())?;
    let (path, at) =
        (CString::new(program.as_os_str().as_bytes()).map_err(zero)?, CString::new(&*launch.dir).map_err(zero)?);
    let input = match &launch.stdin {
        None => None,
        Some(name) => {
            Some(File::open(dir.join(name)).map_err(|e| format!("its standard input `{name}` cannot be opened: {e}"))?)
        }
    };
    let stdin: BorrowedFd<'_> = input.as_ref().map_or(null.as_fd(), AsFd::as_fd);
    let stdio = Stdio { stdin, stdout: stdout.as_fd(), stderr: stderr.as_fd() };
    limit(launch.limits)?;
    sys::spawn(&path, &argv, &env, &at, &stdio).map_err(|error| why_not(&launch.argv[0], &dir, &program, &error))
}

fn limit(limits: Limits) -> Result<(), String> {
    for (resource, most) in
        [(Resource::As, limits.memory), (Resource::Fsize, limits.file), (Resource::Nofile, limits.open_files)]
    {
        if most.is_some() {
            setrlimit(resource, Rlimit { current: most, maximum: most })
                .map_err(|e| format!("the limit on {resource:?} cannot be set to {most:?}: {e}"))?;
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
        io::ErrorKind::NotFound => format!("program `{name}` does not exist (relative to the attempt's directory)"),
        io::ErrorKind::PermissionDenied => {
            format!("program `{name}` may not be executed: is the input marked executable?")
        }
        _ if error.raw_os_error() == Some(libc::ENOEXEC) => {
            format!("program `{name}` is not a program of this system and has no `#!` line")
        }
        _ => format!("program `{name}`: {error}"),
    }
}

/// What a status is called here when the command's init itself was killed.
pub(super) const LOST: Status = Status::Signalled(libc::SIGKILL);
