//! What hostile tasks do. Each act says with its exit code whether it succeeded: 0 if it did what
//! it is not to do, 42 if it was stopped. Every loop is bounded, so that a confinement that fails
//! harms nobody.
#![allow(unsafe_code)] // System calls that no library has a safe form of, made with arguments that do nothing.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

/// The exit code of an act that was stopped.
pub(crate) const STOPPED: i32 = 42;
/// The most that any act makes: processes, bytes of memory, files, bytes on disk or in a stream.
pub(crate) const PROCESSES: usize = 200;
const MEMORY: usize = 512 << 20;
const FILES: usize = 20_000;
const DISK: usize = 64 << 20;
pub(crate) const FLOOD: usize = 32 << 20;
/// How long an act at most waits for its end.
const LONG: Duration = Duration::from_secs(50);

/// System calls that no computation needs.
const CALLS: [(&str, libc::c_long); 9] = [
    ("ptrace", libc::SYS_ptrace),
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("keyctl", libc::SYS_keyctl),
    ("bpf", libc::SYS_bpf),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("userfaultfd", libc::SYS_userfaultfd),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("mount", libc::SYS_mount),
    ("unshare", libc::SYS_unshare),
];

/// Commits the act; its exit code.
pub(crate) fn commit(act: &str, target: &str) -> i32 {
    let done = match act {
        "read-home" => fs::read_to_string(target).map(drop),
        "write-outside" => fs::write(Path::new(target).join("written"), "x"),
        "connect-tcp" => TcpStream::connect(target).map(drop),
        "connect-unix" => UnixStream::connect(target).map(drop),
        "connect-abstract" => abstract_socket(target),
        "leave-listening" => leave_listening(target),
        "leave-in-flight" => leave_in_flight(target),
        "read-memory" => read_memory(target),
        "read-environment" => {
            fs::read(format!("/proc/{target}/environ")).and_then(|bytes| some(&bytes))
        }
        "kill-worker" => kill(target),
        "limit-others" => limit_others(target),
        "slow-others" => slow_others(target),
        "read-shared-memory" => read_shared_memory(target),
        "leave-memory" => leave_memory(target),
        "change-modes" => change_modes(target),
        "watch-files" => watch_files(target),
        "stat-files" => fs::metadata(target).map(drop),
        "read-command-line" => {
            fs::read(format!("/proc/{target}/cmdline")).and_then(|bytes| some(&bytes))
        }
        "set-kernel" => set_kernel(),
        "unlinked-files" => unlinked_files(),
        "locked-files" => locked_files(),
        "call-kernel" => call_kernel(),
        "leave-group" => leave_group(),
        "fork-bomb" => fork_bomb(),
        "hog-memory" => hog_memory(),
        "ignore-term" => ignore_term(),
        "flood-output" => flood(),
        "sparse-file" => File::create("out").and_then(|file| file.set_len(1 << 40)),
        "fill-disk" => fill_disk(),
        "many-files" => many_files(),
        "output-symlink" => std::os::unix::fs::symlink(target, "out"),
        "output-hard-link" => fs::hard_link(target, "out"),
        "output-pipe" => make_pipe(),
        "swap-output" => swap(target),
        _ => Err(io::Error::other("no such act")),
    };

    match done {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{act}: {error}");
            STOPPED
        }
    }
}

fn some(bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        Err(io::ErrorKind::NotFound.into())
    } else {
        Ok(())
    }
}

fn abstract_socket(name: &str) -> io::Result<()> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?).map(drop)
}

/// Listens at a name without a place, and leaves a process that goes on doing so.
fn leave_listening(name: &str) -> io::Result<()> {
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    abstract_socket(name)?;
    Command::new("setsid")
        .args(["sleep", "100"])
        .stdin(std::os::fd::OwnedFd::from(listener))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(drop)
}

/// Listens at a name without a place with a socket that waits in a message to itself.
fn leave_in_flight(name: &str) -> io::Result<()> {
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    let (one, other) = UnixStream::pair()?;
    let fds = [listener.as_fd(), one.as_fd(), other.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    let message = [io::IoSlice::new(b"x")];
    rustix::net::sendmsg(&one, &message, &mut ancillary, SendFlags::empty())?;
    abstract_socket(name)
}

/// Reads what lies first in another process's memory.
fn read_memory(pid: &str) -> io::Result<()> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let first = maps
        .split('-')
        .next()
        .and_then(|start| u64::from_str_radix(start, 16).ok());
    let mut memory = File::open(format!("/proc/{pid}/mem"))?;
    memory.seek(SeekFrom::Start(first.ok_or(io::ErrorKind::NotFound)?))?;
    memory.read_exact(&mut [0; 16])
}

fn kill(pid: &str) -> io::Result<()> {
    let pid = pid
        .parse()
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .ok_or(io::ErrorKind::NotFound)?;
    Ok(rustix::process::kill_process(
        pid,
        rustix::process::Signal::KILL,
    )?)
}

/// Whether one of the answers to system calls says that it was done.
fn any(answers: &[libc::c_long]) -> io::Result<()> {
    if answers.iter().any(|answer| *answer >= 0) {
        println!("{answers:?}");
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

fn number<T: std::str::FromStr>(text: &str) -> io::Result<T> {
    text.parse().map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Takes core dumps from another process: harmless, and every other limit is set by the same call.
fn limit_others(pid: &str) -> io::Result<()> {
    let pid = number(pid)?;
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };

    // SAFETY: the kernel reads one local struct.
    any(&[unsafe {
        libc::prlimit(
            pid,
            libc::RLIMIT_CORE,
            &raw const none,
            std::ptr::null_mut(),
        )
    }
    .into()])
}

fn slow_others(pid: &str) -> io::Result<()> {
    let pid: libc::pid_t = number(pid)?;
    // SAFETY: the kernel reads locals of the size that it is told; zeroes are valid values of both.
    unsafe {
        let (mut one, lowest): (libc::cpu_set_t, libc::sched_param) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::CPU_SET(0, &mut one);

        let mut attributes = [0_u8; 48];
        attributes[0] = 48;
        attributes[4] = libc::SCHED_IDLE as u8;
        any(&[
            libc::setpriority(libc::PRIO_PROCESS, pid as libc::id_t, 19).into(),
            libc::sched_setaffinity(pid, size_of::<libc::cpu_set_t>(), &raw const one).into(),
            libc::sched_setscheduler(pid, libc::SCHED_IDLE, &raw const lowest).into(),
            libc::sched_setparam(pid, &raw const lowest).into(),
            libc::syscall(libc::SYS_sched_setattr, pid, attributes.as_ptr(), 0),
            libc::syscall(libc::SYS_ioprio_set, 1, pid, 3 << 13),
        ])
    }
}

/// Attaches the segment of this key.
fn read_shared_memory(key: &str) -> io::Result<()> {
    let key: libc::key_t = number(key)?;
    // SAFETY: nothing is read of what is attached; the process ends soon.
    unsafe {
        let id = libc::shmget(key, 0, 0);
        let at = libc::shmat(id, std::ptr::null(), libc::SHM_RDONLY);
        any(&[if at as isize == -1 { -1 } else { 0 }])
    }
}

/// The name of a queue that stands for the key of other things.
pub(crate) fn queue(key: libc::key_t) -> std::ffi::CString {
    std::ffi::CString::new(format!("/deskgrid-{key}")).unwrap_or_default()
}

/// Makes one of each that stays when its maker ends.
fn leave_memory(key: &str) -> io::Result<()> {
    let (key, new) = (number(key)?, libc::IPC_CREAT | 0o666);
    // SAFETY: makes things of the kernel's; the name is a string.
    unsafe {
        any(&[
            libc::shmget(key, 1 << 20, new).into(),
            libc::msgget(key, new).into(),
            libc::semget(key, 1, new).into(),
            libc::mq_open(queue(key).as_ptr(), libc::O_CREAT | libc::O_RDWR, 0o666, 0).into(),
        ])
    }
}

fn change_modes(path: &str) -> io::Result<()> {
    let path = std::ffi::CString::new(path)?;
    let name = path.as_ptr();
    let times = [libc::timeval {
        tv_sec: 1,
        tv_usec: 0,
    }; 2];

    // SAFETY: the kernel reads strings and locals.
    unsafe {
        any(&[
            libc::chmod(name, 0o606).into(),
            libc::utimes(name, times.as_ptr()).into(),
            libc::setxattr(name, c"user.hostile".as_ptr(), c"x".as_ptr().cast(), 1, 0).into(),
            libc::chown(name, libc::uid_t::MAX, libc::getgid()).into(),
        ])
    }
}

fn watch_files(path: &str) -> io::Result<()> {
    use rustix::fs::inotify;
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    let at = Path::new(path).parent().ok_or(io::ErrorKind::NotFound)?;
    Ok(inotify::add_watch(&watch, at, inotify::WatchFlags::CREATE).map(drop)?)
}

/// Sets what becomes of core dumps to what it is.
fn set_kernel() -> io::Result<()> {
    let name = "/proc/sys/kernel/core_pattern";
    let now = fs::read_to_string(name)?;
    fs::write(name, now)
}

fn fill(file: &mut File) -> io::Result<()> {
    let piece = vec![b'x'; 1 << 20];
    (0..DISK >> 20).try_for_each(|_| file.write_all(&piece))
}

fn unlinked_files() -> io::Result<()> {
    let mut file = File::create("gone")?;
    fs::remove_file("gone")?;
    fill(&mut file)?;
    thread::sleep(LONG);
    Ok(())
}

fn locked_files() -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir("locked")?;
    let mut file = File::create("locked/file")?;
    fs::set_permissions("locked", fs::Permissions::from_mode(0o000))?;
    fill(&mut file)?;
    thread::sleep(LONG);
    Ok(())
}

/// Makes each of the calls with arguments that do nothing; they are stopped if all are refused.
fn call_kernel() -> io::Result<()> {
    for (name, number) in CALLS {
        // SAFETY: with zeroes, these calls do nothing or fail; the request of `ptrace` does not
        // exist.
        let answer = unsafe {
            libc::syscall(
                number,
                if name == "ptrace" { 0xFFFF } else { 0 },
                0,
                0,
                0,
                0,
            )
        };

        let error = io::Error::last_os_error();
        if answer != -1 || !matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) {
            println!("{name} was not refused");
            return Ok(());
        }
    }

    Err(io::ErrorKind::PermissionDenied.into())
}

/// Moves to the group above, where nobody would freeze it.
fn leave_group() -> io::Result<()> {
    let mut left = Err(io::ErrorKind::NotFound.into());
    for root in [
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/unified",
        "/sys/fs/cgroup/freezer",
    ] {
        left = left.or(fs::write(Path::new(root).join("cgroup.procs"), "0"));
    }
    left
}

/// As many processes as it may have, up to a bound; says how many. They end with the act.
fn fork_bomb() -> io::Result<()> {
    let mut children = Vec::new();
    let mut refused = None;
    while children.len() < PROCESSES && refused.is_none() {
        match Command::new("/bin/sleep")
            .arg("30")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
        {
            Ok(child) => children.push(child),
            Err(error) => refused = Some(error),
        }
    }

    println!("{}", children.len());
    children.iter_mut().for_each(|child| drop(child.kill()));
    refused.map_or(Ok(()), Err)
}

fn hog_memory() -> io::Result<()> {
    let mut held: Vec<Vec<u8>> = Vec::new();
    while held.len() << 20 < MEMORY {
        let mut more = Vec::new();
        more.try_reserve_exact(1 << 20).map_err(io::Error::other)?;
        // Zeroes that nobody wrote take no memory.
        more.resize(1 << 20, 1);
        held.push(more);
    }
    Ok(())
}

fn ignore_term() -> io::Result<()> {
    // SAFETY: ignoring a signal installs no handler.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
    fs::write(
        std::env::var("DESKGRID_PROGRESS").map_err(io::Error::other)?,
        "0.5\n",
    )?;
    thread::sleep(LONG);
    Ok(())
}

fn flood() -> io::Result<()> {
    let piece = vec![b'x'; 1 << 20];
    let mut out = io::stdout();
    (0..FLOOD >> 20).try_for_each(|_| out.write_all(&piece))
}

fn fill_disk() -> io::Result<()> {
    fill(&mut File::create("full")?)?;
    thread::sleep(LONG);
    Ok(())
}

fn many_files() -> io::Result<()> {
    fs::create_dir("d")?;
    (0..FILES).try_for_each(|number| File::create(format!("d/{number}")).map(drop))?;
    thread::sleep(LONG);
    Ok(())
}

fn make_pipe() -> io::Result<()> {
    Ok(rustix::fs::mkfifoat(
        rustix::fs::CWD,
        "out",
        rustix::fs::Mode::from_raw_mode(0o600),
    )?)
}

/// Leaves somebody behind who exchanges the output for a link to the target, again and again, and
/// ends.
fn swap(target: &str) -> io::Result<()> {
    let script = format!(
        "n=0; while [ $n -lt 20000 ]; do n=$((n+1)); ln -sfn {target} out; rm -f out; echo harmless > out; done"
    );
    fs::write("out", "harmless\n")?;
    Command::new("/usr/bin/setsid")
        .args(["/bin/sh", "-c", &script])
        .stdin(Stdio::null())
        .spawn()
        .map(drop)
}
