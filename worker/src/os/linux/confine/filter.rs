//! The filters of system calls: they refuse what no computation needs, and what could reach another
//! process, the kernel's internals or the network. They list refused calls, not allowed ones:
//! programs that only compute must run, whatever language they are written in.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, sock_filter,
};

/// System calls that are refused whatever their arguments.
const REFUSED: &[libc::c_long] = &[
    // Other processes' insides.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_perf_event_open,
    // What is mounted where, and other views of the system.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    QUOTACTL_FD,
    libc::SYS_acct,
    libc::SYS_fanotify_init,
    libc::SYS_open_by_handle_at,
    // Keys, which the owner's programs share with everything of his account.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // The kernel's own code, and parts of it that are large and hard to confine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The machine as such.
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// The numbers of two calls that the `libc` crate does not list yet; they are the same on every
/// processor.
const OPEN_TREE_ATTR: libc::c_long = 467;
const QUOTACTL_FD: libc::c_long = 443;
/// The number of a call that `libc` lists for one C library of ARM, and not for the other.
#[cfg(target_arch = "aarch64")]
const KEXEC_FILE_LOAD: libc::c_long = 294;
#[cfg(not(target_arch = "aarch64"))]
const KEXEC_FILE_LOAD: libc::c_long = libc::SYS_kexec_file_load;

/// System calls refused as well where the task shares processes and memory with the owner's
/// programs, whatever the arguments.
const REFUSED_AMONG_OTHERS: &[libc::c_long] = &[
    // Shared memory, queues and semaphores of System V, and queues of POSIX: they are the
    // account's, and outlive it all.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // What happens in the owner's directories. Whoever may not watch looks again and again.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_inotify_init,
    libc::SYS_inotify_init1,
];

/// System calls refused there for every process but the calling thread, each with the position of
/// the argument that names the process; 0 is the calling one.
const ONLY_ONESELF: &[(libc::c_long, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_migrate_pages, 0),
    (libc::SYS_move_pages, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];

/// By which a call names all processes of an account: the call, the argument, and its value.
const WHOLE_ACCOUNT: [(libc::c_long, u8, u64); 2] = [
    (libc::SYS_setpriority, 0, libc::PRIO_USER as u64),
    (libc::SYS_ioprio_set, 0, IOPRIO_WHO_USER),
];
const IOPRIO_WHO_USER: u64 = 3;

/// Namespaces that `clone` could make.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;
/// Requests by which a terminal could be made to believe that its owner typed something.
const TYPING: [libc::Ioctl; 2] = [libc::TIOCSTI, libc::TIOCLINUX];
/// The netlink protocol that may be used where the network is allowed: it finds routes and
/// addresses.
const ROUTES: libc::c_int = libc::NETLINK_ROUTE;
/// The lowest number of the system calls of the 32-bit pointer flavour of x86_64, which the list
/// does not contain.
#[cfg(target_arch = "x86_64")]
const OTHER_FLAVOUR: u32 = 0x4000_0000;

/// Every filter that an attempt could get, compiled once.
#[derive(Debug, Default)]
pub(in super::super) struct Filters {
    /// The filters, by whether the network is allowed, and whether the task is in namespaces of its
    /// own.
    programs: BTreeMap<(bool, bool), BpfProgram>,
}

impl Filters {
    /// Compiles the filters. The error is for people.
    pub(in super::super) fn compile() -> Result<Self, String> {
        let mut programs = BTreeMap::new();
        for (network, apart) in [(false, false), (true, false), (false, true), (true, true)] {
            programs.insert(
                (network, apart),
                compile(network, apart).map_err(|error| error.to_string())?,
            );
        }
        Ok(Self { programs })
    }

    /// The filter where the network may be used, and where the task is in namespaces of its own;
    /// empty if there is none.
    pub(super) fn of(&self, network: bool, apart: bool) -> &[sock_filter] {
        self.programs
            .get(&(network, apart))
            .map_or(&[], Vec::as_slice)
    }
}

/// CallRules by the number of the system call that they are about; a call without any condition is
/// refused.
type CallRules = BTreeMap<i64, Vec<SeccompRule>>;

/// The kernel translates a filter anew for every command, and goes through the way of every call there
/// is: the instructions are few, and halve the calls instead of asking for one after the other.
fn compile(network: bool, apart: bool) -> Result<BpfProgram, seccompiler::BackendError> {
    let dispatched = dispatch(&stretches(rules(network, apart)?)?);
    Ok(prelude()?.into_iter().chain(dispatched).collect())
}

/// Returns the instructions that refuse these calls (`EPERM`) and allow all others, one after the other.
fn refuse(rules: CallRules) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = std::env::consts::ARCH.try_into()?;
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()
}

/// Consecutive calls of the same verdict, from this number on.
struct Stretch {
    from: u32,
    verdict: BpfProgram,
}

/// Returns the stretches of all calls, from number 0 on.
fn stretches(rules: CallRules) -> Result<Vec<Stretch>, seccompiler::BackendError> {
    let mut all: Vec<Stretch> = Vec::new();
    let mut add = |from: u32, verdict: BpfProgram| match all.last_mut() {
        Some(last) if last.from == from => last.verdict = verdict,
        Some(last) if last.verdict == verdict => {}
        _ => all.push(Stretch { from, verdict }),
    };

    add(0, vec![answer(libc::SECCOMP_RET_ALLOW)]);
    for (call, conditions) in rules {
        let number = u32::try_from(call).unwrap_or(u32::MAX);
        let verdict = match conditions.is_empty() {
            true => vec![answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32)],
            false => refuse(CallRules::from([(call, conditions)]))?,
        };
        add(number, verdict);
        add(number + 1, vec![answer(libc::SECCOMP_RET_ALLOW)]);
    }

    // What follows a refused call may be refused, too.
    all.dedup_by(|next, last| next.verdict == last.verdict);
    Ok(all)
}

/// Returns instructions that halve the stretches until one is left, the number of the call being
/// loaded.
fn dispatch(stretches: &[Stretch]) -> BpfProgram {
    let (lower, upper) = stretches.split_at(stretches.len() / 2);
    let (Some(middle), false) = (upper.first(), lower.is_empty()) else {
        return upper
            .first()
            .map_or_else(Vec::new, |only| only.verdict.clone());
    };

    let (below, from) = (dispatch(lower), dispatch(upper));
    let length = below.len();
    // A condition reaches no further than 255 instructions.
    let head = match u8::try_from(length) {
        Ok(length) => vec![step(IF_AT_LEAST, length, 0, middle.from)],
        Err(_) => vec![
            step(IF_AT_LEAST, 0, 1, middle.from),
            step(JUMP, 0, 0, length as u32),
        ],
    };
    head.into_iter().chain(below).chain(from).collect()
}

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

fn step(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Ends with this verdict.
fn answer(verdict: u32) -> sock_filter {
    step(RETURN, 0, 0, verdict)
}

#[allow(clippy::unnecessary_cast)] // Their type differs between C libraries.
fn rules(network: bool, apart: bool) -> Result<CallRules, seccompiler::BackendError> {
    let mut rules: CallRules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();

    // Abstract sockets belong to the network: with the host's network, they are the host's.
    rules.insert(libc::SYS_socket, sockets(network, apart && !network)?);
    // What cannot be looked into could hold files open that nobody counts.
    let unseen = rule([
        is(0, SeccompCmpOp::Eq, libc::PR_SET_DUMPABLE as u64),
        is(1, SeccompCmpOp::Eq, 0),
    ])?;
    rules.insert(libc::SYS_prctl, vec![unseen]);
    if !apart {
        refuse_reach(&mut rules)?;
    }

    let clone = (0..libc::c_int::BITS)
        .map(|bit| 1 << bit)
        .filter(|flag| NAMESPACES & flag != 0);
    let clone = clone.map(|flag| rule([is(0, SeccompCmpOp::MaskedEq(flag as u64), flag as u64)]));
    rules.insert(libc::SYS_clone, clone.collect::<Result<_, _>>()?);

    let typing = TYPING
        .into_iter()
        .map(|request| rule([is(1, SeccompCmpOp::Eq, request as u64)]));
    rules.insert(libc::SYS_ioctl, typing.collect::<Result<_, _>>()?);

    Ok(rules)
}

/// Refuses what reaches other processes, where there are others.
fn refuse_reach(rules: &mut CallRules) -> Result<(), seccompiler::BackendError> {
    rules.extend(REFUSED_AMONG_OTHERS.iter().map(|call| (*call, Vec::new())));
    for (call, argument) in ONLY_ONESELF {
        rules
            .entry(*call)
            .or_default()
            .push(rule([is(*argument, SeccompCmpOp::Ne, 0)])?);
    }

    for (call, argument, value) in WHOLE_ACCOUNT {
        rules
            .entry(call)
            .or_default()
            .push(rule([is(argument, SeccompCmpOp::Eq, value)])?);
    }

    Ok(())
}

/// The conditions on which a socket is refused; none where it always is.
fn sockets(network: bool, named: bool) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let not = |family: libc::c_int| is(0, SeccompCmpOp::Ne, family as u64);
    if network {
        let netlink = is(0, SeccompCmpOp::Eq, libc::AF_NETLINK as u64);
        let others = [
            not(libc::AF_INET),
            not(libc::AF_INET6),
            not(libc::AF_NETLINK),
        ];
        return Ok(vec![
            rule(others)?,
            rule([netlink, is(2, SeccompCmpOp::Ne, ROUTES as u64)])?,
        ]);
    }

    if named {
        Ok(vec![rule([not(libc::AF_UNIX)])?])
    } else {
        Ok(Vec::new())
    }
}

type Condition = Result<SeccompCondition, seccompiler::BackendError>;

/// A condition on the low 32 bits of an argument, which are all that the kernel looks at in these
/// calls.
fn is(argument: u8, operator: SeccompCmpOp, value: u64) -> Condition {
    SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        operator,
        value & u64::from(u32::MAX),
    )
}

/// A rule that holds where all conditions do.
fn rule(
    conditions: impl IntoIterator<Item = Condition>,
) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(conditions.into_iter().collect::<Result<Vec<_>, _>>()?)
}

/// Returns the instructions before the others: those of an empty list, which end a program of another
/// processor's calls, and those for calls that are reported as missing. The arguments of clone3 are in
/// memory, where no filter can look; a program that is told that clone3 is missing takes clone.
fn prelude() -> Result<BpfProgram, seccompiler::BackendError> {
    let missing = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    let mut steps = refuse(CallRules::new())?;
    // Its last one allows what none of the list's refused.
    steps.pop();
    steps.extend([
        // The number of the call is the first word.
        step(LOAD, 0, 0, 0),
        #[cfg(target_arch = "x86_64")]
        step(IF_AT_LEAST, 1, 0, OTHER_FLAVOUR),
        step(IF_EQUAL, 0, 1, libc::SYS_clone3 as u32),
        answer(missing),
    ]);
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a filter on a call with these arguments (their low halves); returns the verdict, and the
    /// number of instructions on the way.
    fn run(program: &[sock_filter], call: u32, arguments: [u32; 6]) -> (u32, usize) {
        let arch = match std::env::consts::ARCH {
            "x86_64" => 0xc000_003e,
            _ => 0xc000_00b7,
        };
        let word = |offset: u32| match offset {
            0 => call,
            4 => arch,
            16.. if offset.is_multiple_of(8) => arguments[(offset as usize - 16) / 8],
            _ => 0,
        };
        let (mut at, mut accumulator, mut count) = (0, 0_u32, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            let jump = |condition| usize::from(if condition { jt } else { jf });
            count += 1;
            at += 1;
            match libc::c_int::from(code) as u32 {
                0x20 => accumulator = word(k),
                0x54 => accumulator &= k,
                0x05 => at += k as usize,
                0x15 => at += jump(accumulator == k),
                0x25 => at += jump(accumulator > k),
                0x35 => at += jump(accumulator >= k),
                0x06 => return (k, count),
                other => panic!("an instruction {other:#x}"),
            }
        }
    }

    #[test]
    fn a_dispatched_filter_says_of_every_call_what_the_list_says_on_a_short_way() {
        let values = [
            0,
            1,
            2,
            3,
            4,
            10,
            16,
            17,
            0x5412,
            0x541c,
            0x2000_0000,
            0x1000_0000,
            17,
        ];
        for (network, apart) in [(false, false), (true, false), (false, true), (true, true)] {
            let list: BpfProgram = prelude()
                .unwrap()
                .into_iter()
                .chain(refuse(rules(network, apart).unwrap()).unwrap())
                .collect();
            let dispatched = compile(network, apart).unwrap();
            let mut refused = 0;
            for call in 0..600 {
                for first in values {
                    for second in values {
                        let arguments = [first, second, second, 0, 0, 0];
                        let (verdict, steps) = run(&dispatched, call, arguments);
                        assert_eq!(
                            verdict,
                            run(&list, call, arguments).0,
                            "call {call} {arguments:?}"
                        );
                        refused += u32::from(verdict != libc::SECCOMP_RET_ALLOW);
                        assert!(steps < 100, "call {call}: {steps} instructions");
                    }
                }
            }
            assert!(refused > 0);
        }
    }

    #[test]
    fn every_filter_compiles_and_is_short() {
        let filters = Filters::compile().unwrap();
        assert_eq!(filters.programs.len(), 4);
        for program in filters.programs.values() {
            // The kernel translates them anew for every command.
            assert!(
                program.len() > REFUSED.len() && program.len() < 400,
                "{}",
                program.len()
            );
        }

        let closed = filters.of(false, false);
        let open = filters.of(true, false);
        assert_ne!(closed, open);
    }
}
