//! The few system calls that neither std nor rustix offers, each behind a safe function: fork of a single-threaded
//! process, posix_spawn with a scheduling policy, waiting with resource use, and waiting for SIGCHLD or a descriptor.
#![allow(unsafe_code)] // Thin wrappers over libc; every block says why it is sound.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use rustix::process::Pid;

use crate::os::Status;

/// Which side of a fork this is.
pub(super) enum Fork {
    Parent(Pid),
    Child,
}

/// Forks. The caller must have one thread only: the child goes on as an ordinary program.
pub(super) fn fork() -> io::Result<Fork> {
    // SAFETY: the spawner and the inits never start a thread, so the child's memory is in a consistent state.
    match unsafe { libc::fork() } {
        0 => Ok(Fork::Child),
        pid => positive(pid).map(Fork::Parent).ok_or_else(io::Error::last_os_error),
    }
}

fn positive(pid: libc::pid_t) -> Option<Pid> {
    if pid > 0 { Pid::from_raw(pid) } else { None }
}

extern "C" fn on_child(_: libc::c_int) {}

/// Makes SIGCHLD interrupt [`wait_for`] and nothing else, and the signals that end a session harmless: the processes
/// here end when the worker does, and not before the tasks below them.
pub(super) fn arrange_signals() {
    for (signal, handler) in [
        (libc::SIGCHLD, on_child as *const () as libc::sighandler_t),
        (libc::SIGTERM, libc::SIG_IGN),
        (libc::SIGINT, libc::SIG_IGN),
        (libc::SIGHUP, libc::SIG_IGN),
        (libc::SIGQUIT, libc::SIG_IGN),
        (libc::SIGPIPE, libc::SIG_IGN),
        (libc::SIGTSTP, libc::SIG_IGN),
    ] {
        // SAFETY: the handler does nothing, which is async-signal-safe; the struct is fully initialised by zeroing.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = handler;
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
    }
    block_sigchld();
}

fn block_sigchld() {
    // SAFETY: plain calls on a local, initialised signal set.
    unsafe {
        let mut set = empty_set();
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, ptr::null_mut());
    }
}

fn empty_set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// Waits until the descriptor has something (or is closed), a child has changed, or the time is over. True: the
/// descriptor.
pub(super) fn wait_for(fd: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> bool {
    // A negative descriptor is skipped by the kernel.
    let mut poll = libc::pollfd { fd: fd.map_or(-1, |fd| fd.as_raw_fd()), events: libc::POLLIN, revents: 0 };
    let time = timeout.map(|t| libc::timespec {
        tv_sec: libc::time_t::try_from(t.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(t.subsec_nanos() as i32),
    });
    let mask = empty_set();
    let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: one valid pollfd, a valid or null timespec, a valid mask; SIGCHLD is blocked except inside this call.
    unsafe { libc::ppoll(&raw mut poll, 1, time, &raw const mask) > 0 }
}

/// A child that ended.
pub(super) struct Reaped {
    pub pid: Pid,
    pub status: Status,
}

/// What [`reap`] found.
pub(super) enum Reap {
    Child(Reaped),
    /// There are children, none of which has ended.
    Alive,
    /// There are no children at all.
    Childless,
}

/// Takes one child that ended, without waiting.
pub(super) fn reap() -> Reap {
    let mut status = 0;
    // SAFETY: the pointer is to a local.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    match positive(pid) {
        None if pid < 0 => Reap::Childless,
        None => Reap::Alive,
        Some(pid) => {
            let status = if libc::WIFSIGNALED(status) {
                Status::Signalled(libc::WTERMSIG(status))
            } else {
                Status::Exited(libc::WEXITSTATUS(status))
            };
            Reap::Child(Reaped { pid, status })
        }
    }
}

/// Processor time of all descendants that were reaped, by this process or by their parents.
pub(super) fn children_cpu() -> Duration {
    let mut usage = MaybeUninit::zeroed();
    // SAFETY: getrusage fills the struct, and zeroes are a valid value of it.
    let usage: libc::rusage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let of = |t: libc::timeval| {
        Duration::from_secs(u64::try_from(t.tv_sec).unwrap_or(0))
            + Duration::from_micros(u64::try_from(t.tv_usec).unwrap_or(0))
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// Puts the calling process into the idle IO class, which its children inherit, or back into the usual one.
pub(super) fn idle_io(idle: bool) {
    const WHO_PROCESS: libc::c_int = 1;
    const CLASS_IDLE: libc::c_int = 3 << 13;
    // SAFETY: a system call with three numbers.
    unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, if idle { CLASS_IDLE } else { 0 }) };
}

/// The descriptors that a command gets as its standard ones.
pub(super) struct Stdio<'a> {
    pub stdin: BorrowedFd<'a>,
    pub stdout: BorrowedFd<'a>,
    pub stderr: BorrowedFd<'a>,
}

/// Starts a program in a session of its own and in `dir`, with every signal as it is by default and, if `idle`, under
/// SCHED_IDLE from its first instruction on. A vfork underneath: costs the same however big the caller is.
pub(super) fn spawn(
    program: &CStr,
    argv: &[CString],
    env: &[CString],
    dir: &CStr,
    stdio: &Stdio<'_>,
    idle: bool,
) -> io::Result<Pid> {
    let pointers = |list: &[CString]| -> Vec<*mut libc::c_char> {
        list.iter().map(|s| s.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    let mut flags =
        libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF | libc::c_int::from(libc::POSIX_SPAWN_SETSID);
    if idle {
        flags |= libc::POSIX_SPAWN_SETSCHEDULER;
    }
    let mut pid = 0;
    // SAFETY: attributes and actions are initialised before use and destroyed once; all strings and both
    // null-terminated arrays outlive the call; posix_spawn does not write through the argument pointers.
    let error = unsafe {
        let mut attributes = MaybeUninit::uninit();
        let mut actions = MaybeUninit::uninit();
        libc::posix_spawnattr_init(attributes.as_mut_ptr());
        libc::posix_spawn_file_actions_init(actions.as_mut_ptr());
        let (attr, act) = (attributes.as_mut_ptr(), actions.as_mut_ptr());
        let (none, mut all) = (empty_set(), empty_set());
        libc::sigfillset(&raw mut all);
        let lowest: libc::sched_param = MaybeUninit::zeroed().assume_init();
        libc::posix_spawnattr_setflags(attr, flags as libc::c_short);
        libc::posix_spawnattr_setsigmask(attr, &raw const none);
        libc::posix_spawnattr_setsigdefault(attr, &raw const all);
        libc::posix_spawnattr_setschedpolicy(attr, libc::SCHED_IDLE);
        libc::posix_spawnattr_setschedparam(attr, &raw const lowest);
        for (fd, number) in [(stdio.stdin, 0), (stdio.stdout, 1), (stdio.stderr, 2)] {
            libc::posix_spawn_file_actions_adddup2(act, fd.as_raw_fd(), number);
        }
        libc::posix_spawn_file_actions_addchdir_np(act, dir.as_ptr());
        let error = libc::posix_spawn(&raw mut pid, program.as_ptr(), act, attr, argv.as_ptr(), env.as_ptr());
        libc::posix_spawn_file_actions_destroy(act);
        libc::posix_spawnattr_destroy(attr);
        error
    };
    match positive(pid) {
        Some(pid) if error == 0 => Ok(pid),
        _ => Err(io::Error::from_raw_os_error(error)),
    }
}
