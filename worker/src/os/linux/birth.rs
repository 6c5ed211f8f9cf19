//! The start of a command: a new process enters its control groups, takes its standard streams,
//! gives up its privileges, and becomes the program. The cost does not depend on the size of the
//! caller. [`super::confine`] decides what it gives up.
#![allow(unsafe_code)] // Between birth and program only system calls are allowed; every block says why it is sound.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::ptr;

use rustix::process::{Pid, Resource};
use rustix::thread::{CpuSet, sched_setaffinity};
use seccompiler::sock_filter;

use super::confine::{MOST, Mask, Place};
use super::sys::{ARRANGED, empty_set, handle, positive};

/// The descriptors that a command gets as its standard ones. All are above 3.
#[derive(Clone, Copy)]
pub(super) struct Stdio<'a> {
    pub stdin: BorrowedFd<'a>,
    pub stdout: BorrowedFd<'a>,
    pub stderr: BorrowedFd<'a>,
}

/// The privileges that a new process gives up before it becomes its program, for good and for all
/// its descendants.
#[derive(Debug, Default)]
pub(super) struct Cage {
    /// The user and group that it runs under from then on, without any other group.
    pub account: Option<(u32, u32)>,
    /// The view that hides what bars that account's way to its directory.
    pub mask: Option<Mask>,
    /// Whether it gives up its capabilities; for good only together with `no_new_privileges`.
    pub no_capabilities: bool,
    /// Whether programs with a set-user-id bit give it nothing.
    pub no_new_privileges: bool,
    /// The Landlock ruleset that restricts it.
    pub rules: Option<OwnedFd>,
    /// The filter that restricts its system calls.
    pub filter: Vec<sock_filter>,
    /// The descriptors that the program finds as number 3 and the next ones.
    pub passed: Vec<OwnedFd>,
}

/// A program and everything that its process needs before it.
#[derive(Clone, Copy)]
pub(super) struct Birth<'a> {
    /// The paths at which the program may lie: it is the first of them that can be executed.
    pub programs: &'a [CString],
    pub argv: &'a [CString],
    pub env: &'a [CString],
    pub dir: &'a CStr,
    pub stdio: Stdio<'a>,
    /// The files of the control groups that it enters by writing to them.
    pub doors: &'a [File],
    pub cage: &'a Cage,
    /// The processors that it is bound to.
    pub processors: Option<CpuSet>,
    /// Whether it runs at the lowest priorities, as commands do.
    pub lowest: bool,
    /// The most that it may use of each of these resources.
    pub limits: &'a [(Resource, u64)],
    /// Its step out of the namespaces of a caller that is their first process.
    pub step: Option<WayOut<'a>>,
}

/// The way out of an init's namespaces for a process that is born among them.
#[derive(Debug, Clone, Copy)]
pub(super) struct WayOut<'a> {
    /// The users that it has from then on, if they are not the init's.
    pub users: Option<BorrowedFd<'a>>,
}

/// The reason why a program was not reached.
#[derive(Debug)]
pub(super) struct NotBorn {
    /// The stage that was not passed.
    pub stage: BirthStage,
    pub error: io::Error,
}

impl NotBorn {
    fn at(stage: BirthStage, error: impl Into<io::Error>) -> Self {
        Self {
            stage,
            error: error.into(),
        }
    }
}

/// The stage of a birth, which tells where an error belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum BirthStage {
    /// The process is made.
    Process,
    /// It enters its control groups.
    Groups,
    /// Its limits are set.
    Limits,
    /// It is confined.
    Cage,
    /// The program is executed.
    Program,
}

/// The data that the new process needs before its program, prepared in advance: it may not
/// allocate.
struct BirthPlan<'a> {
    programs: *const *const libc::c_char,
    argv: *const *const libc::c_char,
    env: *const *const libc::c_char,
    dir: *const libc::c_char,
    stdio: [libc::c_int; 3],
    doors: *const libc::c_int,
    doors_count: usize,
    processors: Option<CpuSet>,
    lowest: bool,
    limits: &'a [(Resource, u64)],
    /// Whether the caller is the first process of its namespaces, and the users to be joined.
    step: Option<libc::c_int>,
    account: Option<(u32, u32)>,
    mask: Option<&'a Mask>,
    no_capabilities: bool,
    no_new_privileges: bool,
    rules: libc::c_int,
    filter: libc::sock_fprog,
    passed: &'a [OwnedFd],
    stage: BirthStage,
    /// The error number that kept the program from being reached; 0 if none.
    error: libc::c_int,
}

/// The stack on which the new process gets to its program, in bytes.
const STACK: usize = 64 * 1024;
/// The lowest nice value. Under SCHED_IDLE it changes nothing; it counts where that could not be
/// set.
const NICE: libc::c_int = 19;
/// The number of the first descriptor that is passed on beside the standard ones.
const PASSED: libc::c_int = 3;
/// The lowest descriptor number that is out of the way of `passed`.
const ABOVE: libc::c_int = 10;
/// The empty view that covers what bars the way.
const EMPTY: &CStr = c"mode=755,size=64k";

/// Starts a program in a session of its own and in its directory, with every signal as it is by
/// default, if wished at the lowest processor and IO priority from its first instruction on.
///
/// posix_spawn would do for a part of it, but glibc's refuses SCHED_IDLE, and to set it on the
/// running program would come too late for what that has forked by then.
pub(super) fn spawn(birth: &Birth<'_>) -> Result<Pid, NotBorn> {
    let pointers = |list: &[CString]| -> Vec<*const libc::c_char> {
        list.iter()
            .map(|s| s.as_ptr())
            .chain([ptr::null()])
            .collect()
    };
    let programs = pointers(birth.programs);
    let argv = pointers(birth.argv);
    let env = pointers(birth.env);
    let doors: Vec<libc::c_int> = birth.doors.iter().map(AsRawFd::as_raw_fd).collect();
    let stdio = &birth.stdio;
    let cage = birth.cage;
    let passed = cage
        .passed
        .iter()
        .map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, ABOVE))
        .collect::<Result<Vec<_>, _>>();
    let passed = passed.map_err(|error| NotBorn::at(BirthStage::Process, error))?;

    let mut plan = BirthPlan {
        programs: programs.as_ptr(),
        argv: argv.as_ptr(),
        env: env.as_ptr(),
        dir: birth.dir.as_ptr(),
        stdio: [stdio.stdin, stdio.stdout, stdio.stderr].map(|fd| fd.as_raw_fd()),
        doors: doors.as_ptr(),
        doors_count: doors.len(),
        processors: birth.processors,
        lowest: birth.lowest,
        limits: birth.limits,
        step: birth
            .step
            .map(|step| step.users.map_or(-1, |users| users.as_raw_fd())),
        account: cage.account,
        mask: cage.mask.as_ref(),
        no_capabilities: cage.no_capabilities,
        no_new_privileges: cage.no_new_privileges,
        rules: cage.rules.as_ref().map_or(-1, AsRawFd::as_raw_fd),
        filter: libc::sock_fprog {
            len: u16::try_from(cage.filter.len())
                .map_err(|e| NotBorn::at(BirthStage::Cage, io::Error::other(e)))?,
            // The kernel copies it, and the two types are the same struct of the kernel's.
            filter: cage.filter.as_ptr().cast_mut().cast(),
        },
        passed: &passed,
        stage: BirthStage::Groups,
        error: 0,
    };

    let mut stack = vec![0_u128; STACK / size_of::<u128>()];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;

    // SAFETY: CLONE_VFORK suspends this, the only thread, until the child has left this memory by
    // exec or exit, so the child's use of the stack (its aligned end is passed) and of `plan` is
    // exclusive and over at the return. `become_program` only makes system calls, and all that
    // `plan` points to outlives the call.
    let pid = unsafe {
        let top = stack.as_mut_ptr_range().end;
        libc::clone(become_program, top.cast(), flags, (&raw mut plan).cast())
    };
    let Some(pid) = positive(pid) else {
        let error = io::Error::last_os_error();
        return Err(NotBorn::at(BirthStage::Process, error));
    };

    // SAFETY: plain reads; volatile because the compiler did not see the child write.
    let (error, stage) = unsafe {
        (
            ptr::read_volatile(&raw const plan.error),
            ptr::read_volatile(&raw const plan.stage),
        )
    };
    if error == 0 {
        return Ok(pid);
    }

    // The child has exited; it is reaped here so that nobody takes it for a command.
    // SAFETY: waiting for a child of this process.
    unsafe { libc::waitpid(pid.as_raw_nonzero().get(), ptr::null_mut(), 0) };
    Err(NotBorn::at(stage, io::Error::from_raw_os_error(error)))
}

/// The child's way from its birth to its program.
extern "C" fn become_program(plan: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `spawn` passes its plan, which nobody else uses meanwhile. Only system calls: no
    // allocation, no locks, no unwinding. The signal table is this process's own copy (no
    // CLONE_SIGHAND).
    unsafe {
        let plan = &mut *plan.cast::<BirthPlan<'_>>();
        libc::setsid();
        if plan.lowest {
            lower_session();
            lower_priorities();
        }
        if plan.step.is_some() {
            // Of the caller too, whose memory this is: nothing that runs from now on looks into it.
            libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        }
        // A container may forbid it; then it uses any.
        if let Some(set) = &plan.processors {
            let _ = sched_setaffinity(None, set);
        }

        if enter_groups(plan) {
            for (number, fd) in plan.stdio.iter().enumerate() {
                libc::dup2(*fd, number as libc::c_int);
            }
            for (signal, _) in ARRANGED {
                handle(signal, libc::SIG_DFL);
            }

            let none = empty_set();
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());

            plan.stage = BirthStage::Limits;
            if set_limits(plan.limits) {
                // Before the account changes: the way to the directory need not be open to it.
                plan.stage = BirthStage::Program;
                if libc::chdir(plan.dir) == 0 {
                    plan.stage = BirthStage::Cage;
                    if enter_cage(plan) {
                        plan.stage = BirthStage::Program;
                        plan.error = execute_first(plan);
                        libc::_exit(127)
                    }
                }
            }
        }

        plan.error = *libc::__errno_location();
        libc::_exit(127)
    }
}

/// Becomes the first of the programs that can be executed. Returns the error number if none can: that of the first which
/// is there and cannot be executed, else the last that says more than that there is no file.
unsafe fn execute_first(plan: &BirthPlan<'_>) -> libc::c_int {
    let mut told = libc::ENOENT;
    let mut program = plan.programs;

    // SAFETY: system calls with strings that the plan's owner holds; the list of them ends with a null pointer.
    unsafe {
        while !(*program).is_null() {
            libc::execve(*program, plan.argv, plan.env);
            match *libc::__errno_location() {
                libc::ENOENT | libc::ENOTDIR => {}
                error @ (libc::E2BIG
                | libc::ENOEXEC
                | libc::ENOMEM
                | libc::EPERM
                | libc::ETXTBSY
                | libc::ELIBBAD) => return error,
                // The file is not executable, or its directory is closed to this process, loops, or lies on a file server
                // that is away.
                error => told = error,
            }
            program = program.add(1);
        }
    }
    told
}

/// Moves the calling process into its control groups; false if it may not.
unsafe fn enter_groups(plan: &BirthPlan<'_>) -> bool {
    // SAFETY: system calls with descriptors that `spawn`'s caller holds, and a static byte.
    (0..plan.doors_count)
        .all(|at| unsafe { libc::write(*plan.doors.add(at), c"0".as_ptr().cast(), 1) == 1 })
}

/// Sets the limits of the calling process; false if one cannot be set.
unsafe fn set_limits(limits: &[(Resource, u64)]) -> bool {
    // SAFETY: system calls with numbers and a local.
    limits.iter().all(|(resource, most)| unsafe {
        let most = libc::rlimit {
            rlim_cur: *most as libc::rlim_t,
            rlim_max: *most as libc::rlim_t,
        };
        let none = ptr::null_mut::<libc::rlimit>();
        libc::syscall(
            libc::SYS_prlimit64,
            0,
            *resource as libc::c_int,
            &raw const most,
            none,
        ) == 0
    })
}

/// Leaves what the caller's namespaces keep for the caller: in a fresh one for shared memory, queues
/// and semaphores nothing is left of another command's, and that for control groups begins at those
/// which the process has just entered.
unsafe fn step_out(users: libc::c_int) -> bool {
    // SAFETY: system calls with numbers and a descriptor that `spawn`'s caller holds.
    unsafe {
        libc::syscall(
            libc::SYS_unshare,
            libc::CLONE_NEWIPC | libc::CLONE_NEWCGROUP,
        ) == 0
            && (users < 0 || libc::syscall(libc::SYS_setns, users, libc::CLONE_NEWUSER) == 0)
    }
}

/// Gives up what the plan says, the means for the next step last; false if one step fails.
unsafe fn enter_cage(plan: &BirthPlan<'_>) -> bool {
    // Raw system calls: glibc's functions of these names would speak to other threads of this
    // memory's. SAFETY: system calls with numbers, descriptors that `spawn`'s caller holds, and
    // pointers into the plan.
    unsafe {
        if let Some(users) = plan.step
            && !step_out(users)
        {
            return false;
        }

        if let Some(mask) = plan.mask {
            put_on(mask);
            // Through the new view; the old one is where nothing of it can be reached by name.
            if libc::chdir(plan.dir) != 0 {
                return false;
            }
        }

        if let Some((user, group)) = plan.account {
            let none = ptr::null::<libc::gid_t>();
            let changed = libc::syscall(libc::SYS_setgroups, 0_usize, none) == 0
                && libc::syscall(libc::SYS_setresgid, group, group, group) == 0
                && libc::syscall(libc::SYS_setresuid, user, user, user) == 0;
            // A container may forbid views of one's own: then the way must be open as it is.
            if !changed || libc::access(plan.dir, libc::X_OK) != 0 {
                return false;
            }
        }

        if plan.no_capabilities && !give_up_capabilities() {
            return false;
        }
        if plan.no_new_privileges && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return false;
        }

        for (number, fd) in plan.passed.iter().enumerate() {
            if libc::dup2(fd.as_raw_fd(), PASSED + number as libc::c_int) < 0 {
                return false;
            }
        }

        if plan.rules >= 0 && libc::syscall(libc::SYS_landlock_restrict_self, plan.rules, 0) != 0 {
            return false;
        }

        let set_filter = || {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                0,
                &raw const plan.filter,
            )
        };
        plan.filter.len == 0 || set_filter() == 0
    }
}

/// Changes the calling process's view of the file system, as far as it may.
unsafe fn put_on(mask: &Mask) {
    let none = ptr::null::<libc::c_char>();
    // SAFETY: system calls with strings that the plan's owner holds, and static ones.
    unsafe {
        if libc::unshare(libc::CLONE_NEWNS) != 0 {
            return;
        }

        // What the owner mounts or ejects meanwhile, he does here too.
        libc::mount(
            none,
            c"/".as_ptr(),
            none,
            libc::MS_REC | libc::MS_SLAVE,
            ptr::null(),
        );

        // Taken before the cover is there; what this view of the file system has not opened cannot
        // be put into it.
        let mut trees = [-1; MOST];
        for (tree, path) in trees.iter_mut().zip(&mask.shown) {
            let flags = libc::OPEN_TREE_CLONE
                | libc::OPEN_TREE_CLOEXEC
                | libc::AT_RECURSIVE as libc::c_uint;
            *tree = libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags)
                as libc::c_int;
        }

        let (empty, flags) = (c"tmpfs".as_ptr(), libc::MS_NOSUID | libc::MS_NODEV);
        if trees[0] < 0
            || libc::mount(
                empty,
                mask.over.as_ptr(),
                empty,
                flags,
                EMPTY.as_ptr().cast(),
            ) != 0
        {
            return;
        }

        // What fails here is missed in the end: the directory cannot be entered.
        for place in &mask.places {
            match place {
                Place::Dir(path) => libc::mkdir(path.as_ptr(), 0o755),
                Place::File(path) => libc::mknod(path.as_ptr(), libc::S_IFREG | 0o444, 0),
            };
        }

        for (tree, path) in trees.into_iter().zip(&mask.shown) {
            let to = (libc::AT_FDCWD, path.as_ptr());
            libc::syscall(
                libc::SYS_move_mount,
                tree,
                c"".as_ptr(),
                to.0,
                to.1,
                libc::MOVE_MOUNT_F_EMPTY_PATH,
            );
        }
    }
}

/// Gives up all capabilities. Programs of root would get them back, but for the privileges that
/// none can gain any more.
unsafe fn give_up_capabilities() -> bool {
    /// Of capset's interface, the one for 64 capabilities.
    const VERSION: u32 = 0x2008_0522;
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }

    let header = Header {
        version: VERSION,
        pid: 0,
    };
    let none = [0_u32; 6];

    // SAFETY: a system call with two locals of the size that the kernel reads.
    unsafe { libc::syscall(libc::SYS_capset, &raw const header, &raw const none) == 0 }
}

/// The lowest weight for the calling process's session, where the kernel shares processors among
/// sessions: priorities count only within one. Where control groups do that instead, it changes
/// nothing.
unsafe fn lower_session() {
    // SAFETY: system calls with static strings and a descriptor that is closed here.
    unsafe {
        let file = libc::open(
            c"/proc/self/autogroup".as_ptr(),
            libc::O_WRONLY | libc::O_CLOEXEC,
        );
        if file >= 0 {
            libc::write(file, c"19".as_ptr().cast(), 2);
            libc::close(file);
        }
    }
}

/// Gives a session the lowest weight, by this file of one of its processes, where its birth could not:
/// the kernel takes one such order in 100 ms, from all accounts without privileges together. Returns
/// whether it was not taken now either.
pub(super) fn lower_session_later(file: &Path) -> bool {
    let weight = fs::read_to_string(file).unwrap_or_default();
    let is_usual = weight.contains(" nice ") && !weight.trim_end().ends_with(" nice 19");
    is_usual && fs::write(file, "19").is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// Lowest processor and IO priority for the calling process. A container may forbid it; then so be
/// it.
unsafe fn lower_priorities() {
    const WHO_PROCESS: libc::c_int = 1;
    const CLASS_IDLE: libc::c_int = 3 << 13;
    // SAFETY: system calls with numbers and a local.
    unsafe {
        let lowest: libc::sched_param = MaybeUninit::zeroed().assume_init();
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const lowest);
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
        libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_with_the_usual_weight_gets_the_lowest_one_and_others_are_left() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("autogroup");
        assert!(!lower_session_later(&file) && !file.exists());
        for (weight, then) in [
            ("/autogroup-7 nice 0\n", "19"),
            ("/autogroup-7 nice 19\n", "/autogroup-7 nice 19\n"),
            ("", ""),
        ] {
            fs::write(&file, weight).unwrap();
            assert!(!lower_session_later(&file), "{weight}");
            assert_eq!(fs::read_to_string(&file).unwrap(), then);
        }
    }
}
