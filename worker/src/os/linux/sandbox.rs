//! The namespaces of an init that serves attempts in namespaces, one after the other: what every
//! task sees comes from a [`View`], what is this init's alone is mounted over that, and of each
//! attempt its directory is there while it runs.
//!
//! The init is the first process of these namespaces, so the kernel hands it whatever a task leaves
//! and lets nothing outlive it. Between two attempts nobody else is in them, and all that a task can
//! write to beside its own directory is looked at: where any of it is not as it was, the init serves
//! no other attempt. Shared memory and queues are in a namespace of each command's own.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, RawDir, SeekFrom, access, fstat, mkdirat, openat,
    seek, unlinkat,
};
use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, move_mount, open_tree, unmount,
};
use rustix::process::{DumpableBehavior, Gid, Uid, set_dumpable_behavior};
use rustix::thread::{
    LinkNameSpaceType, UnshareFlags, move_into_link_name_space, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use super::birth::WayOut;
use super::confine::{View, ViewSpec};
use super::sys;
use crate::os::Launch;

/// The directories that are memory, each init's own.
const MEMORY: [&str; 2] = ["/tmp", "/dev/shm"];
/// The terminals, each init's own.
const TERMINALS: &str = "/dev/pts";
/// The sockets of a network (`AF_UNIX`) that a task without leave can make: no others.
const SOCKETS: &str = "/proc/self/net/unix";
/// The settings of the kernel in `/proc`, which a task sees read-only: those that belong to its own
/// namespaces, and those that its account may write to.
const OWN_SETTINGS: &str = "/proc/sys";
const SETTINGS: [&str; 3] = ["/proc/sysrq-trigger", "/proc/irq", "/proc/bus"];
/// The cover of a directory that a task is not to see.
const COVER: &std::ffi::CStr = c"mode=755,size=64k";
/// The bytes of names that are read at a time.
const NAMES: usize = 4096;

/// The namespaces of an `Init`, entered by way of a [`View`].
#[derive(Debug)]
pub(super) struct Sandbox {
    /// The users of the task, if they are not the init's.
    users: Option<OwnedFd>,
    /// The directories from which attempts take what is their own, below their covers.
    sources: Vec<(PathBuf, OwnedFd)>,
    covers: Vec<Cover>,
    /// The places that tasks can write to beside their own directory, as it was before the first of them;
    /// `None` if that cannot be told.
    kept: Option<Vec<Kept>>,
    /// The list of sockets in the network that is the init's own, if it has one. A socket that was
    /// sent through itself outlives its processes for a moment.
    sockets: Option<File>,
}

/// An empty directory over one that tasks are not to see.
#[derive(Debug)]
struct Cover {
    path: PathBuf,
    /// The same one, where the init can write to it.
    writable: OwnedFd,
}

/// A directory or file that every task can write to, with its [`KeptState`] before the first.
#[derive(Debug)]
struct Kept {
    opened: OwnedFd,
    state: KeptState,
}

/// All that a task could change of it.
#[derive(Debug, PartialEq, Eq)]
struct KeptState {
    /// Kind and mode, owner, group, names, size, and the times of the last changes.
    meta: [u64; 9],
    flags: Option<u32>,
    attributes: Vec<u8>,
    entries: BTreeSet<Vec<u8>>,
}

/// Enters a view and makes the namespaces of the children of this process: to be called by one that
/// ends soon, whose child is then their first process.
pub(super) fn enter(spec: &ViewSpec, view: &View) -> io::Result<()> {
    if let Some((user, group)) = spec.account {
        let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
    }

    move_into_link_name_space(view.owner.as_fd(), Some(LinkNameSpaceType::User))
        .map_err(|e| at("its users", e))?;
    move_into_link_name_space(view.mounts.as_fd(), Some(LinkNameSpaceType::Mount))
        .map_err(|e| at("its mounts", e))?;

    let mut own = UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWUTS;
    if !spec.network {
        own |= UnshareFlags::NEWNET;
    }
    sys::unshare(own).map_err(|e| at("namespaces of its own", e))
}

impl Sandbox {
    /// Arranges the namespaces, as their first process.
    pub(super) fn arrange(spec: &ViewSpec, view: View, memory: Option<u64>) -> io::Result<Self> {
        // The tasks have its account: none of them is to look into it.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;

        // Taken before the covers are there.
        let sources = spec.sources.iter().map(|source| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = openat(CWD, source, flags, Mode::empty());
            Ok((
                PathBuf::from(source),
                opened.map_err(|e| at(source.display(), e))?,
            ))
        });
        let sources = sources.collect::<io::Result<Vec<_>>>()?;
        let readable = readable_below_covers(spec);
        let readable = readable
            .map(|path| Ok((take(CWD, path, true)?, path.to_owned())))
            .collect::<io::Result<Vec<_>>>()?;

        own_file_systems(memory)?;
        let covered = readable
            .iter()
            .filter(|(_, path)| in_memory(path) && cover_of(path) != *path);
        let covered: BTreeSet<PathBuf> = covered
            .map(|(_, path)| path)
            .chain(sources.iter().map(|(path, _)| path))
            .map(|path| cover_of(path))
            .filter(|cover| !MEMORY.map(Path::new).contains(&cover.as_path()))
            .collect();
        let covers = covered
            .into_iter()
            .map(Cover::make)
            .collect::<io::Result<Vec<_>>>()?;
        for (tree, path) in readable {
            place(&tree, &path)?;
        }
        for cover in &covers {
            sys::set_read_only(CWD, &cover.path).map_err(|e| at(cover.path.display(), e))?;
        }

        let users = (!same_namespace(&view.owner, &view.users)).then_some(view.users);
        let sockets = (!spec.network).then(|| File::open(SOCKETS)).transpose()?;
        // Where attempts lie in the memory itself, it changes with each of them.
        let bare = |(path, _): &(PathBuf, OwnedFd)| MEMORY.map(Path::new).contains(&path.as_path());
        let kept = if sources.iter().any(bare) {
            None
        } else {
            let ptmx = Path::new(TERMINALS).join("ptmx");
            let kept = MEMORY
                .map(Path::new)
                .into_iter()
                .chain([Path::new(TERMINALS), &ptmx]);
            Some(kept.map(Kept::look).collect::<io::Result<Vec<_>>>()?)
        };
        Ok(Self {
            users,
            sources,
            covers,
            kept,
            sockets,
        })
    }

    /// The way of a command's process out of what the init keeps for itself: a [`WayOut`].
    pub(super) fn step(&self) -> WayOut<'_> {
        WayOut {
            users: self.users.as_ref().map(AsFd::as_fd),
        }
    }

    /// Shows the directory of an attempt, with what is shown in it.
    pub(super) fn show(&self, launch: &Launch) -> io::Result<()> {
        let dir = Path::new(&launch.dir);
        let own = self.take(dir, false)?;
        let shown = launch.confines.shown.iter();
        let shown = shown
            .map(|(from, name)| Ok((self.take(Path::new(from), true)?, dir.join(name))))
            .collect::<io::Result<Vec<_>>>()?;

        if !dir.exists() {
            let cover = self.covers.iter().find(|c| dir.starts_with(&c.path));
            match cover {
                Some(cover) => cover.make_place(dir)?,
                None => fs::create_dir_all(dir)?,
            }
        }
        move_to(&own, dir)?;
        for (tree, path) in &shown {
            place(tree, path)?;
        }
        Ok(())
    }

    /// Takes the directory of the attempt that [`Sandbox::show`] has shown away again.
    pub(super) fn hide(&self, launch: &Launch) -> io::Result<()> {
        let dir = Path::new(&launch.dir);
        unmount(dir, UnmountFlags::DETACH).map_err(|e| at(dir.display(), e))?;
        if let Some(cover) = self.covers.iter().find(|c| dir.starts_with(&c.path)) {
            cover.remove_place(dir);
        }
        Ok(())
    }

    /// Whether all that tasks can write to is as it was before the first one, and no socket of theirs
    /// is left.
    pub(super) fn is_untouched(&self) -> bool {
        if self.sockets.as_ref().is_some_and(|list| !lists_none(list)) {
            return false;
        }
        let Some(kept) = &self.kept else {
            return false;
        };
        kept.iter()
            .all(|kept| state_of(&kept.opened).is_ok_and(|now| now == kept.state))
    }

    /// Takes a file or directory from one of the sources.
    fn take(&self, path: &Path, read_only: bool) -> io::Result<OwnedFd> {
        let parent = path.parent().unwrap_or(path);
        let name = Path::new(path.file_name().unwrap_or_default());
        match self.sources.iter().find(|(source, _)| source == parent) {
            Some((_, source)) => take(source, name, read_only),
            None => take(CWD, path, read_only),
        }
    }
}

/// Whether a list of sockets has nothing below its head.
fn lists_none(list: &File) -> bool {
    let mut text = [0; NAMES];
    let count = list.read_at(&mut text, 0);
    count.is_ok_and(|count| {
        let ends = text[..count].iter().filter(|byte| **byte == b'\n');
        ends.count() == 1 && text[count - 1] == b'\n'
    })
}

impl Cover {
    /// Covers this directory, which is made where it would lie in memory.
    fn make(path: PathBuf) -> io::Result<Self> {
        if in_memory(&path) {
            fs::create_dir(&path)?;
        }
        memory(&path, COVER)?;
        let writable = take(CWD, &path, false)?;
        Ok(Self { path, writable })
    }

    /// The directories from below the cover down to this one.
    fn ways(&self, dir: &Path) -> Vec<PathBuf> {
        let below = dir.strip_prefix(&self.path).unwrap_or(Path::new(""));
        let ways = below.ancestors().filter(|way| *way != Path::new(""));
        ways.map(Path::to_owned).collect()
    }

    /// Makes the place for a directory.
    fn make_place(&self, dir: &Path) -> io::Result<()> {
        let make = |way: &Path| mkdirat(&self.writable, way, Mode::from_raw_mode(0o755));
        let ways = self.ways(dir);
        // The directories above it are there since the first attempt.
        if let Some(last) = ways.first()
            && make(last).is_ok()
        {
            return Ok(());
        }

        for way in ways.iter().rev() {
            match make(way) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(at(dir.display(), error)),
            }
        }
        Ok(())
    }

    /// Removes the place of a directory. Those above it stay for the next one: no task can write to them.
    fn remove_place(&self, dir: &Path) {
        if let Ok(way) = dir.strip_prefix(&self.path) {
            let _ = unlinkat(&self.writable, way, AtFlags::REMOVEDIR);
        }
    }
}

impl Kept {
    fn look(path: &Path) -> io::Result<Self> {
        // Opening the multiplexer would make a terminal.
        let flags = if path.is_dir() {
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
        } else {
            OFlags::PATH | OFlags::CLOEXEC
        };
        let opened = openat(CWD, path, flags, Mode::empty()).map_err(|e| at(path.display(), e))?;
        let state = state_of(&opened).map_err(|e| at(path.display(), e))?;
        Ok(Self { opened, state })
    }
}

fn state_of(opened: &OwnedFd) -> io::Result<KeptState> {
    let meta = fstat(opened)?;
    let is_dir = FileType::from_raw_mode(meta.st_mode) == FileType::Directory;
    let mut entries = BTreeSet::new();
    let mut attributes = Vec::new();
    let mut flags = None;
    if is_dir {
        seek(opened, SeekFrom::Start(0))?;
        let mut space = [MaybeUninit::uninit(); NAMES];
        let mut names = RawDir::new(opened, &mut space);
        while let Some(entry) = names.next() {
            entries.insert(entry?.file_name().to_bytes().to_vec());
        }

        // Not every file system has these.
        let mut list = [0; NAMES];
        let count = rustix::fs::flistxattr(opened, &mut list[..]).unwrap_or(0);
        attributes.extend_from_slice(&list[..count]);
        flags = rustix::fs::ioctl_getflags(opened).ok().map(|f| f.bits());
    }

    #[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
    // Their types differ between processors.
    let meta = [
        meta.st_mode as u64,
        meta.st_uid as u64,
        meta.st_gid as u64,
        meta.st_nlink as u64,
        meta.st_size as u64,
        meta.st_mtime as u64,
        meta.st_mtime_nsec as u64,
        meta.st_ctime as u64,
        meta.st_ctime_nsec as u64,
    ];
    Ok(KeptState {
        meta,
        flags,
        attributes,
        entries,
    })
}

/// The readable paths that exist and that a cover or memory hides.
fn readable_below_covers(spec: &ViewSpec) -> impl Iterator<Item = &Path> {
    let paths = spec.readable.iter().map(Path::new);
    paths.filter(move |path| {
        let below = |source: &OsString| path.starts_with(source);
        (in_memory(path) || spec.sources.iter().any(below)) && path.exists()
    })
}

/// Mounts the file systems that show or hold what is the init's own.
fn own_file_systems(most: Option<u64>) -> io::Result<()> {
    let harmless = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", harmless, None).map_err(|e| at("/proc", e))?;
    let writable = SETTINGS
        .into_iter()
        .filter(|path| access(*path, Access::WRITE_OK).is_ok());
    for path in writable.chain([OWN_SETTINGS]) {
        let tree = take(CWD, Path::new(path), true)?;
        move_to(&tree, Path::new(path))?;
    }

    let size = most.map_or(String::new(), |bytes| format!(",size={bytes}"));
    let options = std::ffi::CString::new(format!("mode=755{size}"))?;
    for path in MEMORY {
        memory(Path::new(path), &options)?;
    }

    let terminals = MountFlags::NOSUID | MountFlags::NOEXEC;
    let options = c"newinstance,ptmxmode=0666,mode=620";
    mount("devpts", TERMINALS, "devpts", terminals, options).map_err(|e| at(TERMINALS, e))
}

/// An error with the place where it happened.
fn at(place: impl std::fmt::Display, error: impl Into<io::Error>) -> io::Error {
    io::Error::other(format!("{place}: {}", error.into()))
}

/// Whether a path lies where each init has memory of its own.
fn in_memory(path: &Path) -> bool {
    MEMORY.iter().any(|memory| path.starts_with(memory))
}

/// The directory that is covered to hide what lies at this path: in memory the first one below it,
/// so that nothing of what the cover needs can be changed by a task.
fn cover_of(path: &Path) -> PathBuf {
    let memory = MEMORY.map(Path::new).into_iter();
    let Some(memory) = memory.into_iter().find(|memory| path.starts_with(memory)) else {
        return path.to_owned();
    };
    let below = path.strip_prefix(memory).unwrap_or(path);
    match below.components().next() {
        Some(Component::Normal(first)) => memory.join(first),
        _ => memory.to_owned(),
    }
}

/// Takes the file or directory, with what is mounted below it, to be placed elsewhere.
fn take(from: impl AsFd, path: &Path, read_only: bool) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(from, path, flags).map_err(|e| at(path.display(), e))?;
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
    move_to(tree, path)
}

fn move_to(tree: &OwnedFd, path: &Path) -> io::Result<()> {
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
