//! The start of a command in namespaces of its own: what every task sees comes from a
//! [`View`], what is this task's alone is mounted over that.
//!
//! `init -> entrance -> first process -> command`. The entrance enters the control groups and joins
//! the view; the namespaces that it makes then are those of its children. The first process
//! arranges them, starts the command, and waits: what it leaves behind, the kernel ends with it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use common::wire::frame;
use rustix::fs::{Access, CWD, FileType, access, fstat};
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, move_mount, open_tree};
use rustix::process::{
    DumpableBehavior, Gid, Pid, Signal, Uid, WaitOptions, set_dumpable_behavior,
    set_parent_process_death_signal, wait, waitpid,
};
use rustix::thread::{
    LinkNameSpaceType, UnshareFlags, move_into_link_name_space, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use serde::{Deserialize, Serialize};

use super::birth::{Birth, NotBorn, spawn};
use super::confine::{View, ViewSpec};
use super::sys::{self, Fork};
use crate::os::{Launch, ProcessStatus};

/// The directories that are memory, each task's own.
const MEMORY: [&str; 2] = ["/tmp", "/dev/shm"];
/// The settings of the kernel in `/proc`, which a task sees read-only: those that belong to its own
/// namespaces, and those that its account may write to.
const OWN_SETTINGS: &str = "/proc/sys";
const SETTINGS: [&str; 3] = ["/proc/sysrq-trigger", "/proc/irq", "/proc/bus"];
/// The cover of a directory that a task is not to see.
const COVER: &std::ffi::CStr = c"mode=755,size=64k";
/// The exit code of an entrance or first process that could not do its work: the report says why.
const FAILED: i32 = 127;
/// The number that an exit code of the entrance adds to that of a signal.
const SIGNALLED: i32 = 128;

/// A command to be started in namespaces.
pub(super) struct Inside<'a> {
    pub launch: &'a Launch,
    pub spec: &'a ViewSpec,
    pub view: &'a View,
    /// The socket to the worker, which belongs to the init alone.
    pub control: BorrowedFd<'a>,
}

/// The reports of the first process about its command.
pub(super) struct FirstProcess(File);

/// A report of the entrance or of the first process.
#[derive(Debug, Serialize, Deserialize)]
enum InsideReport {
    /// The command runs.
    Started,
    /// It could not be started.
    NotStarted(Missed),
    /// It ended.
    Ended(ProcessStatus),
}

/// The stage that failed, with the error's number and words.
#[derive(Debug, Serialize, Deserialize)]
struct Missed {
    stage: MissedStage,
    number: Option<i32>,
    words: String,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum MissedStage {
    Process,
    Groups,
    Cage,
    Program,
}

impl Inside<'_> {
    /// Starts the command. Returns the entrance, which ends when the command has, and the reports
    /// of how that was.
    pub(super) fn start(&self, birth: &Birth<'_>) -> Result<(Pid, FirstProcess), NotBorn> {
        let (reports, say) = io::pipe().map_err(NotBorn::Process)?;
        let entrance = match sys::fork().map_err(NotBorn::Process)? {
            Fork::Parent(pid) => pid,
            Fork::Child => {
                drop(reports);
                let mut say = File::from(OwnedFd::from(say));
                let code = self.enter(birth, &mut say).unwrap_or_else(|missed| {
                    tell(&mut say, &InsideReport::NotStarted(missed));
                    FAILED
                });
                sys::exit(code)
            }
        };

        drop(say);
        let mut first = FirstProcess(File::from(OwnedFd::from(reports)));
        match first.next() {
            Some(InsideReport::Started) => Ok((entrance, first)),
            report => {
                let _ = waitpid(Some(entrance), WaitOptions::empty());
                Err(match report {
                    Some(InsideReport::NotStarted(missed)) => missed.into(),
                    _ => NotBorn::Process(io::Error::other("it was killed as it started")),
                })
            }
        }
    }

    /// Joins the view, and waits for the first process of the namespaces. Returns the exit code.
    fn enter(&self, birth: &Birth<'_>, say: &mut File) -> Result<i32, Missed> {
        sys::close(self.control);
        for mut door in birth.doors {
            door.write_all(b"0").map_err(missed(MissedStage::Groups))?;
        }

        let cage = missed(MissedStage::Cage);
        self.join().map_err(cage)?;
        match sys::fork().map_err(missed(MissedStage::Process))? {
            Fork::Child => {
                let code = self.first(birth, say).unwrap_or_else(|missed| {
                    tell(say, &InsideReport::NotStarted(missed));
                    FAILED
                });
                sys::exit(code)
            }
            Fork::Parent(first) => {
                let _ = set_parent_process_death_signal(Some(Signal::KILL));
                let ended = waitpid(Some(first), WaitOptions::empty());
                let signal = ended
                    .ok()
                    .flatten()
                    .and_then(|(_, end)| end.terminating_signal());
                Ok(signal.map_or(0, |signal| SIGNALLED + signal))
            }
        }
    }

    /// Becomes the task's account, joins the view, and makes the namespaces of its children.
    fn join(&self) -> io::Result<()> {
        if let Some((user, group)) = self.spec.account {
            let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
            set_thread_groups(&[])?;
            set_thread_res_gid(group, group, group)?;
            set_thread_res_uid(user, user, user)?;
        }

        move_into_link_name_space(self.view.owner.as_fd(), Some(LinkNameSpaceType::User))
            .map_err(|e| at("its users", e))?;
        move_into_link_name_space(self.view.mounts.as_fd(), Some(LinkNameSpaceType::Mount))
            .map_err(|e| at("its mounts", e))?;

        let mut own = UnshareFlags::NEWNS
            | UnshareFlags::NEWPID
            | UnshareFlags::NEWIPC
            | UnshareFlags::NEWUTS
            | UnshareFlags::NEWCGROUP;
        if !self.spec.network {
            own |= UnshareFlags::NEWNET;
        }
        sys::unshare(own).map_err(|e| at("namespaces of its own", e))
    }

    /// Arranges the namespaces, starts the command, and waits for its end.
    fn first(&self, birth: &Birth<'_>, say: &mut File) -> Result<i32, Missed> {
        let cage = missed(MissedStage::Cage);
        self.arrange().map_err(cage)?;
        if !same_namespace(&self.view.owner, &self.view.users) {
            move_into_link_name_space(self.view.users.as_fd(), Some(LinkNameSpaceType::User))
                .map_err(|e| cage(at("its users", e)))?;
        }
        for namespace in [&self.view.mounts, &self.view.owner, &self.view.users] {
            sys::close(namespace.as_fd());
        }

        // The command's process must be able to write to its own files in `/proc`.
        let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
        let birth = Birth {
            doors: &[],
            ..*birth
        };
        let command = spawn(&birth).map_err(Missed::from)?;

        // Nothing of what this process knows and may do is the task's.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        sys::give_up_capabilities();
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        tell(say, &InsideReport::Started);

        while let Ok(Some((pid, end))) = wait(WaitOptions::empty()) {
            if pid == command {
                let status = end.terminating_signal().map_or_else(
                    || ProcessStatus::Exited(end.exit_status().unwrap_or(FAILED)),
                    ProcessStatus::Signalled,
                );
                tell(say, &InsideReport::Ended(status));
                break;
            }
        }
        Ok(0)
    }

    /// Mounts what is the task's own over the view, and hides what is others'.
    fn arrange(&self) -> io::Result<()> {
        // Taken before the covers are there.
        let dir = Path::new(&self.launch.dir);
        let own = take(dir, false)?;
        let shown = self.launch.confines.shown.iter();
        let shown = shown
            .map(|(from, name)| Ok((take(Path::new(from), true)?, dir.join(name))))
            .collect::<io::Result<Vec<_>>>()?;
        let readable = self.readable_below_covers();
        let readable = readable
            .map(|path| Ok((take(path, true)?, path.to_owned())))
            .collect::<io::Result<Vec<_>>>()?;

        let covers = self.spec.sources.iter().map(Path::new);
        let covers: Vec<&Path> = covers.filter(|source| !in_memory(source)).collect();
        for cover in &covers {
            memory(cover, COVER)?;
        }
        self.own_file_systems()?;

        for (tree, path) in readable {
            place(&tree, &path)?;
        }
        place(&own, dir)?;
        for (tree, path) in &shown {
            place(tree, path)?;
        }
        for cover in covers {
            sys::set_read_only(CWD, cover).map_err(|e| at(cover.display(), e))?;
        }
        Ok(())
    }

    /// The readable paths that exist and that a cover hides.
    fn readable_below_covers(&self) -> impl Iterator<Item = &Path> {
        let paths = self.spec.readable.iter().map(Path::new);
        let sources = &self.spec.sources;
        paths.filter(move |path| {
            let below = |source: &std::ffi::OsString| path.starts_with(source);
            (in_memory(path) || sources.iter().any(below)) && path.exists()
        })
    }

    /// Mounts the file systems that show or hold what is the task's own.
    fn own_file_systems(&self) -> io::Result<()> {
        let harmless = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("proc", "/proc", "proc", harmless, None).map_err(|e| at("/proc", e))?;
        let writable = SETTINGS
            .into_iter()
            .filter(|path| access(*path, Access::WRITE_OK).is_ok());
        for path in writable.chain([OWN_SETTINGS]) {
            let tree = take(Path::new(path), true)?;
            place(&tree, Path::new(path))?;
        }

        let most = self.launch.limits.memory;
        let size = most.map_or(String::new(), |bytes| format!(",size={bytes}"));
        let options = std::ffi::CString::new(format!("mode=755{size}"))?;
        for path in MEMORY {
            memory(Path::new(path), &options)?;
        }

        let terminals = MountFlags::NOSUID | MountFlags::NOEXEC;
        let options = c"newinstance,ptmxmode=0666,mode=620";
        mount("devpts", "/dev/pts", "devpts", terminals, options).map_err(|e| at("/dev/pts", e))
    }
}

impl FirstProcess {
    fn next(&mut self) -> Option<InsideReport> {
        let mut prefix = [0; frame::PREFIX];
        self.0.read_exact(&mut prefix).ok()?;
        let mut bytes = vec![0; frame::length(prefix).ok()?];
        self.0.read_exact(&mut bytes).ok()?;
        frame::decode(&bytes).ok()
    }

    /// Returns how the command ended, once the entrance has; `None` if the first process did not
    /// come to say it.
    pub(super) fn ended(mut self) -> Option<ProcessStatus> {
        match self.next() {
            Some(InsideReport::Ended(status)) => Some(status),
            _ => None,
        }
    }
}

impl From<NotBorn> for Missed {
    fn from(not: NotBorn) -> Self {
        let stage = match not {
            NotBorn::Process(_) => MissedStage::Process,
            NotBorn::Groups(_) => MissedStage::Groups,
            NotBorn::Cage(_) => MissedStage::Cage,
            NotBorn::Program(_) => MissedStage::Program,
        };
        missed(stage)(not.into_error())
    }
}

impl From<Missed> for NotBorn {
    fn from(missed: Missed) -> Self {
        let error = match missed.number {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::other(missed.words),
        };
        match missed.stage {
            MissedStage::Process => Self::Process(error),
            MissedStage::Groups => Self::Groups(error),
            MissedStage::Cage => Self::Cage(error),
            MissedStage::Program => Self::Program(error),
        }
    }
}

fn missed(stage: MissedStage) -> impl Fn(io::Error) -> Missed + Copy {
    move |error| Missed {
        stage,
        number: error.raw_os_error(),
        words: error.to_string(),
    }
}

/// An error with the place where it happened.
fn at(place: impl std::fmt::Display, error: impl Into<io::Error>) -> io::Error {
    io::Error::other(format!("{place}: {}", error.into()))
}

fn tell(say: &mut File, report: &InsideReport) {
    // Where the init does not hear it, it is gone, and so is this process soon.
    let _ = frame::encode(report).map(|bytes| say.write_all(&bytes));
}

/// Whether a path lies where each task has memory of its own.
fn in_memory(path: &Path) -> bool {
    MEMORY.iter().any(|memory| path.starts_with(memory))
}

/// Takes the file or directory, with what is mounted below it, to be placed elsewhere.
fn take(path: &Path, read_only: bool) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, path, flags).map_err(|e| at(path.display(), e))?;
    if read_only {
        sys::set_read_only(&tree, Path::new("")).map_err(|e| at(path.display(), e))?;
    }
    Ok(tree)
}

/// Shows what was taken at this path, which is made if it is not there.
fn place(tree: &OwnedFd, path: &Path) -> io::Result<()> {
    if !path.exists() {
        if is_dir(tree) {
            fs::create_dir_all(path)?;
        } else {
            fs::create_dir_all(path.parent().unwrap_or(path))?;
            File::create(path)?;
        }
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, OsStr::new(""), CWD, path, flags).map_err(|e| at(path.display(), e))
}

fn is_dir(tree: &OwnedFd) -> bool {
    fstat(tree).is_ok_and(|meta| FileType::from_raw_mode(meta.st_mode) == FileType::Directory)
}

/// Whether two descriptors are of the same namespace.
fn same_namespace(one: &OwnedFd, other: &OwnedFd) -> bool {
    let number = |fd| fstat(fd).map(|meta| (meta.st_dev, meta.st_ino));
    matches!((number(one), number(other)), (Ok(one), Ok(other)) if one == other)
}

/// Mounts memory there.
fn memory(path: &Path, options: &std::ffi::CStr) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", path, "tmpfs", flags, options).map_err(|e| at(path.display(), e))
}
