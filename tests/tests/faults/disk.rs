//! A disk of a test's own: ext4 on a loop device, in a mount namespace that only the test and what
//! it starts there see. It can lose its power, fill up and become read-only.

#![allow(unsafe_code)]

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use rustix::ioctl::{Setter, ioctl, opcode};
use tempfile::TempDir;
use tests::eventually;

use super::space::Space;
use super::{have, skip};

/// `EXT4_IOC_SHUTDOWN`: from then on the file system writes nothing more.
const SHUTDOWN: rustix::ioctl::Opcode = opcode::read::<u32>(b'X', 125);
/// Without flushing its journal first.
const NO_LOG_FLUSH: u32 = 2;

/// A kind of file system.
pub(crate) struct DiskKind {
    /// The program that makes one, and its package.
    maker: (&'static str, &'static str),
    /// What that program is told.
    words: &'static [&'static str],
    /// How it is mounted.
    options: &'static str,
}

/// Content that is not synced is to be lost: the journal writes nothing by itself for as long as any test
/// runs.
const EXT4: DiskKind = DiskKind {
    maker: ("mkfs.ext4", "e2fsprogs"),
    words: &["-q", "-m", "0", "-F"],
    options: "loop,commit=900,noauto_da_alloc",
};

/// Its files can share content.
pub(crate) const BTRFS: DiskKind = DiskKind {
    maker: ("mkfs.btrfs", "btrfs-progs"),
    words: &["-q"],
    options: "loop",
};

/// Its files can share content.
pub(crate) const XFS: DiskKind = DiskKind {
    maker: ("mkfs.xfs", "xfsprogs"),
    words: &["-q", "-m", "reflink=1"],
    options: "loop",
};

/// A file system in a file.
pub(crate) struct Disk {
    place: TempDir,
    space: Space,
    kind: &'static DiskKind,
    slowed: Option<SlowDevice>,
}

/// The files of the kernel that bound what a block device does in a second, by the control groups of
/// version 1, and how slow a spinning disk is.
const BLKIO: &str = "/sys/fs/cgroup/blkio";
const SPINNING: [(&str, u64); 4] = [
    ("read_iops", 100),
    ("write_iops", 100),
    ("read_bps", 80 << 20),
    ("write_bps", 80 << 20),
];

/// A device that is bounded for everybody, until this is dropped.
struct SlowDevice(String);

impl SlowDevice {
    fn set(&self, bounds: impl Fn(u64) -> u64) -> io::Result<()> {
        SPINNING.iter().try_for_each(|(what, bound)| {
            let file = format!("{BLKIO}/blkio.throttle.{what}_device");
            fs::write(file, format!("{} {}", self.0, bounds(*bound)))
        })
    }
}

impl Drop for SlowDevice {
    fn drop(&mut self) {
        let _ = self.set(|_| 0);
    }
}

impl Disk {
    /// One of so many MiB; none where the machine cannot do that, which is said.
    pub(crate) fn new(mib: u64) -> Option<Self> {
        Self::of(&EXT4, mib)
    }

    /// One of this kind and so many MiB.
    pub(crate) fn of(kind: &'static DiskKind, mib: u64) -> Option<Self> {
        let (maker, package) = kind.maker;
        if !(have(maker, package) && have("unshare", "util-linux")) {
            return None;
        }

        let place = tempfile::Builder::new()
            .prefix("deskgrid-disk-")
            .tempdir()
            .expect("a temporary directory");
        match Self::mount(kind, &place, mib) {
            Ok(space) => Some(Self {
                place,
                space,
                kind,
                slowed: None,
            }),
            Err(why) => {
                skip(&format!("no disk of its own, by {maker}: {why}"));
                None
            }
        }
    }

    fn mount(kind: &DiskKind, place: &TempDir, mib: u64) -> Result<Space, String> {
        let image = place.path().join("image");
        File::create(&image)
            .and_then(|file| file.set_len(mib << 20))
            .map_err(|e| e.to_string())?;
        fs::create_dir(place.path().join("disk")).map_err(|e| e.to_string())?;

        let made = Command::new(kind.maker.0)
            .args(kind.words)
            .arg(&image)
            .output();
        let made = made.map_err(|e| e.to_string())?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).into_owned());
        }

        Space::new(&["-m"], &mount_words(kind, place.path()).join(" "))
    }

    /// The words that start something where the disk is to be seen.
    pub(crate) fn words(&self) -> Vec<OsString> {
        self.space.words()
    }

    /// Where it is mounted, as those see it who are started with [`Disk::words`].
    pub(crate) fn inside(&self) -> PathBuf {
        self.place.path().join("disk")
    }

    /// The same directory as the test itself sees it.
    pub(crate) fn seen(&self) -> PathBuf {
        self.space.path(&self.inside())
    }

    /// The power fails: what was not synced is lost. Everything that still writes there gets
    /// errors.
    pub(crate) fn cut_power(&self) {
        let root = File::open(self.seen()).expect("the disk is there");
        // SAFETY: this opcode takes a pointer to a 32-bit number, which it only reads.
        let cut = unsafe { ioctl(&root, Setter::<SHUTDOWN, u32>::new(NO_LOG_FLUSH)) };
        cut.expect("ext4 can be shut down");
    }

    /// The power is back: the file system is mounted again, and recovers. Nobody may have a file
    /// open there.
    pub(crate) fn restore_power(&self) {
        let inside = self.inside();
        let unmount = ["umount", inside.to_str().expect("UTF-8")];
        eventually("nobody uses the disk", Duration::from_secs(20), || {
            self.space.run(&unmount).ok()
        });
        let words = mount_words(self.kind, self.place.path());
        self.space
            .must(&words.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// Mounts it anew as read-only, or as writable.
    pub(crate) fn read_only(&self, yes: bool) {
        let how = if yes { "remount,ro" } else { "remount,rw" };
        self.space
            .must(&["mount", "-o", how, self.inside().to_str().expect("UTF-8")]);
    }

    /// From now on it is as slow as a spinning disk. Whether that can be had here; if not, it is said.
    pub(crate) fn spin(&mut self) -> bool {
        let device = rustix::fs::stat(self.seen()).expect("the disk is there");
        let (major, minor) = (
            rustix::fs::major(device.st_dev),
            rustix::fs::minor(device.st_dev),
        );
        let slowed = SlowDevice(format!("{major}:{minor}"));
        if let Err(error) = slowed.set(|bound| bound) {
            skip(&format!("no slow disk: {BLKIO}: {error}"));
            return false;
        }
        self.slowed = Some(slowed);
        true
    }

    /// Somebody else writes until not one more byte fits.
    pub(crate) fn fill(&self) {
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(self.seen().join("others"))
            .expect("not full yet");
        let mut piece = &[7u8; 1 << 20][..];
        loop {
            match file.write_all(piece).and_then(|()| file.sync_data()) {
                Ok(()) => {}
                Err(e) if full(&e) && piece.len() > 512 => piece = &piece[..piece.len() / 2],
                Err(e) if full(&e) => return,
                Err(e) => panic!("{e}"),
            }
        }
    }

    /// The bytes that files take on the disk, once all is written there.
    pub(crate) fn used(&self) -> u64 {
        let root = File::open(self.seen()).expect("the disk is there");
        rustix::fs::syncfs(&root).expect("the disk takes it");
        let stat = rustix::fs::fstatvfs(&root).expect("the disk says how full it is");
        (stat.f_blocks - stat.f_bfree) * stat.f_frsize
    }

    /// They remove it again.
    pub(crate) fn make_room(&self) {
        fs::remove_file(self.seen().join("others")).expect("it is there");
    }

    /// Puts the state directory of `who` onto the disk: a link leads there.
    pub(crate) fn take_in(&self, state: &Path) {
        fs::create_dir_all(state.parent().expect("below a directory"))
            .expect("a directory can be made");
        std::os::unix::fs::symlink(self.inside(), state).expect("a link can be made");
    }
}

fn mount_words(kind: &DiskKind, place: &Path) -> Vec<String> {
    let path = |name: &str| place.join(name).to_str().expect("UTF-8").to_owned();
    vec![
        "mount".to_owned(),
        "-o".to_owned(),
        kind.options.to_owned(),
        path("image"),
        path("disk"),
    ]
}

fn full(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOSPC.raw_os_error())
}
