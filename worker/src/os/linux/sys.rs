//! The few system calls that neither std nor rustix offers, each behind a safe function: fork of a
//! single-threaded process, reaping, waiting for a child or a descriptor, and what namespaces need.
//! How a program is started is in [`super::birth`].
#![allow(unsafe_code)] // Thin wrappers over libc; every block says why it is sound.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage};
use rustix::process::Pid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, CpuSet, UnshareFlags, sched_getaffinity, set_capabilities,
};

use crate::os::ProcessStatus;
use crate::os::unix::{cpu_time, process_status};

/// The side of a fork.
pub(super) enum Fork {
    Parent(Pid),
    Child,
}

/// Forks. The caller must have one thread only: the child goes on as an ordinary program.
pub(super) fn fork() -> io::Result<Fork> {
    // SAFETY: the spawner and the inits never start a thread, so the child's memory is in a
    // consistent state.
    match unsafe { libc::fork() } {
        0 => Ok(Fork::Child),
        pid => positive(pid)
            .map(Fork::Parent)
            .ok_or_else(io::Error::last_os_error),
    }
}

pub(super) fn positive(pid: libc::pid_t) -> Option<Pid> {
    if pid > 0 { Pid::from_raw(pid) } else { None }
}

/// Whether no process has this file, which was opened for reading, open for writing or mapped so. The system
/// grants a lease only then. It is given back at once; a process that asks to write meanwhile is told of by a
/// signal that does nothing.
///
/// # Errors
/// If the file system grants no leases.
pub(in crate::os) fn nobody_writes(file: &File) -> io::Result<bool> {
    // The signal by which the system tells of such a process would end this one.
    const F_SETSIG: libc::c_int = 10;

    let set = |command: libc::c_int, value: libc::c_int| {
        // SAFETY: these commands take a descriptor, which is open, and a number.
        match unsafe { libc::fcntl(file.as_raw_fd(), command, value) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    set(F_SETSIG, libc::SIGURG)?;
    match set(libc::F_SETLEASE, libc::F_RDLCK) {
        Ok(()) => set(libc::F_SETLEASE, libc::F_UNLCK).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

extern "C" fn on_child(_: libc::c_int) {}

/// The signals that the spawner and the inits treat in their own way, and how. Those that end a
/// session are harmless: these processes end when the worker does, and not before the tasks below
/// them.
pub(super) const ARRANGED: [(libc::c_int, libc::sighandler_t); 7] = [
    (libc::SIGCHLD, libc::SIG_DFL), // Replaced by a handler, which no program inherits.
    (libc::SIGTERM, libc::SIG_IGN),
    (libc::SIGINT, libc::SIG_IGN),
    (libc::SIGHUP, libc::SIG_IGN),
    (libc::SIGQUIT, libc::SIG_IGN),
    (libc::SIGPIPE, libc::SIG_IGN),
    (libc::SIGTSTP, libc::SIG_IGN),
];

/// Makes SIGCHLD interrupt [`wait_for`] and nothing else, and every other signal as [`ARRANGED`]
/// says or, whatever was inherited, as it is by default.
pub(super) fn arrange_signals() {
    (1..=libc::SIGRTMAX()).for_each(|signal| handle(signal, libc::SIG_DFL));
    ARRANGED
        .iter()
        .for_each(|(signal, handler)| handle(*signal, *handler));
    handle(libc::SIGCHLD, on_child as *const () as libc::sighandler_t);
    block_sigchld();
}

/// Only a system call: also for a child on its way to its program.
pub(super) fn handle(signal: libc::c_int, handler: libc::sighandler_t) {
    // SAFETY: the only handler of ours does nothing, which is async-signal-safe; zeroes are a valid
    // action.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = handler;
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

fn block_sigchld() {
    // SAFETY: plain calls on a local, initialised signal set.
    unsafe {
        let mut set = empty_set();
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, ptr::null_mut());
    }
}

pub(super) fn empty_set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// Closes what this process inherited beside its standard descriptors: nothing of whoever started
/// the worker is to reach a task. To be called before anything is opened.
pub(crate) fn close_inherited() {
    let open = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    let fds: Vec<libc::c_int> = open
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    for fd in fds.into_iter().filter(|fd| *fd > 2) {
        // SAFETY: nothing in this process owns a descriptor yet; closing one that is closed already
        // only fails.
        unsafe { libc::close(fd) };
    }
}

/// Waits until the descriptor has something (or is closed), a child has changed, or the time is
/// over. True: the descriptor.
pub(super) fn wait_for(fd: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> bool {
    // A negative descriptor is skipped by the kernel.
    let mut poll = libc::pollfd {
        fd: fd.map_or(-1, |fd| fd.as_raw_fd()),
        events: libc::POLLIN,
        revents: 0,
    };
    let time = timeout.map(|t| libc::timespec {
        tv_sec: t.as_secs().try_into().unwrap_or(i32::MAX.into()),
        tv_nsec: libc::c_long::from(t.subsec_nanos() as i32),
    });
    let mask = empty_set();
    let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);

    // SAFETY: one valid pollfd, a valid or null timespec, a valid mask; SIGCHLD is blocked except
    // inside this call.
    unsafe { libc::ppoll(&raw mut poll, 1, time, &raw const mask) > 0 }
}

/// A child that ended.
pub(super) struct Reaped {
    pub pid: Pid,
    pub status: ProcessStatus,
}

/// The result of [`reap`].
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
            let status = process_status(status);
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
    cpu_time(&usage)
}

/// Forks a child of this process's parent. The caller must have one thread only, and end soon: it
/// hears nothing of the child.
pub(super) fn fork_sibling() -> io::Result<Fork> {
    let flags = libc::CLONE_PARENT | libc::SIGCHLD;
    let none = ptr::null_mut::<libc::c_void>();
    // SAFETY: as in `fork`: without a stack of its own the child goes on in a copy of this memory,
    // which no other thread was changing.
    match unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) } {
        0 => Ok(Fork::Child),
        pid => positive(pid as libc::pid_t)
            .map(Fork::Parent)
            .ok_or_else(io::Error::last_os_error),
    }
}

/// The properties that another process of the same account can change of this one, with no more than its number.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Standing {
    limits: Vec<Option<[u64; 2]>>,
    /// The kernel's `sched_attr`, as far as this system fills it.
    schedule: [u8; SCHEDULE],
    processors: Option<Vec<bool>>,
    io: libc::c_long,
}

/// The size of the kernel's `sched_attr` with clamps.
const SCHEDULE: usize = 56;

/// Returns the standing of this process.
pub(super) fn standing() -> Standing {
    /// The kinds of resources that the kernel limits (`RLIM_NLIMITS`).
    const KINDS: libc::c_int = 16;
    const WHO_PROCESS: libc::c_int = 1;
    let limit = |kind: libc::c_int| {
        let mut now = [0_u64; 2];
        let none = ptr::null::<u64>();
        // SAFETY: the kernel fills two numbers.
        let done = unsafe { libc::syscall(libc::SYS_prlimit64, 0, kind, none, now.as_mut_ptr()) };
        (done == 0).then_some(now)
    };
    let mut schedule = [0; SCHEDULE];
    // SAFETY: the kernel fills at most as many bytes as it is told that there are; the second call
    // has numbers only.
    let io = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            0,
            schedule.as_mut_ptr(),
            SCHEDULE,
            0,
        );
        libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0)
    };
    let processors = sched_getaffinity(None).ok();

    Standing {
        limits: (0..KINDS).map(limit).collect(),
        schedule,
        processors: processors.map(|set| (0..CpuSet::MAX_CPU).map(|n| set.is_set(n)).collect()),
        io,
    }
}

/// Takes the descriptors that came with a message.
pub(super) fn descriptors(ancillary: &mut RecvAncillaryBuffer<'_>) -> Vec<OwnedFd> {
    let rights = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    rights.flatten().collect()
}

/// Gives up all capabilities of this process. It may have none.
pub(crate) fn give_up_capabilities() {
    let none = CapabilitySet::empty();
    let _ = set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    );
}

/// Returns the version of Landlock in the kernel; 0 if it has none, or has it switched off.
pub(super) fn landlock_version() -> u32 {
    const VERSION: libc::c_uint = 1;
    let none = ptr::null::<libc::c_void>();
    // SAFETY: with this flag, the other arguments must be null and zero; nothing is made.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, VERSION) };
    u32::try_from(version).unwrap_or(0)
}

/// Takes pages of this program's code out of its resident memory; they are read from its file again when they are used.
pub(super) fn unmap_code(code: Range<usize>) -> io::Result<()> {
    let start = ptr::with_exposed_provenance_mut(code.start);
    // SAFETY: nobody writes to code, so that its pages are those of the file whenever they are mapped.
    let done = unsafe { libc::madvise(start, code.len(), libc::MADV_DONTNEED) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Ends a forked process, and runs nothing that its parent has arranged for its own end.
pub(super) fn exit(code: i32) -> ! {
    // SAFETY: ends this process; memory and files are the kernel's to clean up.
    unsafe { libc::_exit(code) }
}

/// Gives the calling process, or its future children, namespaces of their own.
pub(super) fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: a process of one thread, and the table of descriptors is not among what it leaves.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// Returns the user namespace to which a namespace belongs.
pub(super) fn owner_of(namespace: &OwnedFd) -> io::Result<OwnedFd> {
    /// `NS_GET_USERNS`.
    const GET_OWNER: libc::c_ulong = 0xb701;
    // SAFETY: the call takes no argument, and makes a descriptor that belongs to nobody else.
    unsafe {
        let fd = libc::ioctl(namespace.as_raw_fd(), GET_OWNER as _);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Makes a mount, with all below it, read-only: at this path, or that of the descriptor if the path
/// is empty.
pub(super) fn set_read_only(fd: impl AsFd, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let change = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };

    // SAFETY: the path and the change are locals, and the size is the change's.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd.as_fd().as_raw_fd(),
            path.as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const change,
            size_of_val(&change),
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
