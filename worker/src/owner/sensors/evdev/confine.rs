//! Takes from the process that reads input devices what it does not need: it can see every key, so
//! it must not be able to do anything with that. Each restriction holds by itself; what a system
//! does not have is left out.

use std::collections::BTreeMap;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::set_no_new_privs;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use super::watcher::DeviceDirs;

/// The newest rules that are asked for; an older kernel holds those that it knows.
const RULES: ABI = ABI::V6;

/// The system calls that the process needs from here on: read devices and directories, wait, report
/// to the worker, and end. No new process, no program, no socket, no other process's memory.
const CALLS: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_openat,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_lseek,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_ppoll,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Confines the calling process, which must have one thread only.
pub(super) fn confine(places: &DeviceDirs) {
    // Each of these makes the process more harmless; none is needed for it to watch.
    let _ = set_no_new_privs(true);
    for resource in [Resource::Fsize, Resource::Core, Resource::Nproc] {
        let _ = setrlimit(
            resource,
            Rlimit {
                current: Some(0),
                maximum: Some(0),
            },
        );
    }

    crate::os::give_up_capabilities();
    let _ = only_read(places);
    let _ = only_call();
}

/// No files but devices and their descriptions, and these only to read; no network.
fn only_read(places: &DeviceDirs) -> Result<(), RulesetError> {
    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    Ruleset::default()
        .handle_access(AccessFs::from_all(RULES))?
        .handle_access(AccessNet::from_all(RULES))?
        .scope(Scope::from_all(RULES))?
        .create()?
        .add_rules(path_beneath_rules([&places.input, &places.sys], read))?
        .restrict_self()?;
    Ok(())
}

/// Older forms of some calls, which processors that came later do not have.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[libc::c_long] = &[
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_stat,
    libc::SYS_lstat,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[libc::c_long] = &[];

fn only_call() -> Result<(), Box<dyn std::error::Error>> {
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    let calls = CALLS.iter().chain(OLD_CALLS);
    let calls: BTreeMap<libc::c_long, Vec<_>> = calls.map(|call| (*call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let filter: BpfProgram =
        SeccompFilter::new(calls, refuse, SeccompAction::Allow, arch)?.try_into()?;
    seccompiler::apply_filter(&filter)?;
    Ok(())
}
