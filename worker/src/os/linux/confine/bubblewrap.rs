//! The command line of bubblewrap, which gives a task its view of the system.

use std::ffi::{CStr, CString, NulError, OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::SYSTEM;
use crate::os::Confines;

/// The paths where bubblewrap is installed; no `PATH` decides that.
const PLACES: [&str; 5] = [
    "/usr/bin/bwrap",
    "/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/run/wrappers/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
];
/// The directory needed to resolve names of hosts where the network is allowed, beside `/etc`.
const RESOLVER: &str = "/run/systemd/resolve";
/// The text on its descriptor 4 when a command that was started has ended.
pub(super) const STARTED: &str = "\"exit-code\"";
/// The arguments for every task; the filter of system calls is descriptor 3.
const ALWAYS: [&str; 14] = [
    "bwrap",
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--die-with-parent",
    "--cap-drop",
    "ALL",
    "--seccomp",
    "3",
    "--json-status-fd",
    "4",
    "--",
];
/// Kernel settings that a task could change if its account may: it sees them read-only.
const SETTINGS: &str = "/proc/sys";

/// Returns the path of `bwrap`, if it is installed.
pub(super) fn find() -> Option<PathBuf> {
    PLACES.iter().map(PathBuf::from).find(|path| path.is_file())
}

/// Returns the arguments with which bubblewrap runs `program` with `argv` in `dir`. Its `/tmp` and
/// `/dev/shm` may hold `memory` bytes each.
pub(super) fn argv(
    confines: &Confines,
    memory: Option<u64>,
    dir: &Path,
    program: &CStr,
    argv: Vec<CString>,
) -> Result<Vec<CString>, NulError> {
    let view = FileSystemView::default()
        .system(confines, memory)
        .own(dir, &confines.shown);
    let end = ALWAYS.len() - 1;
    let always = ALWAYS.map(OsString::from);
    let net = (!confines.network).then(|| OsString::from("--unshare-net"));
    let before = always[..end]
        .iter()
        .cloned()
        .chain(net)
        .chain(view.0)
        .chain([always[end].clone()]);
    let before = before
        .map(|arg| CString::new(arg.into_vec()))
        .collect::<Result<Vec<_>, _>>()?;

    Ok(before
        .into_iter()
        .chain([program.to_owned()])
        .chain(argv.into_iter().skip(1))
        .collect())
}

/// The file system as a task sees it, as arguments.
#[derive(Debug, Default)]
struct FileSystemView(Vec<OsString>);

impl FileSystemView {
    fn add<const N: usize>(mut self, args: [&OsStr; N]) -> Self {
        self.0.extend(args.map(OsStr::to_owned));
        self
    }

    /// Shows the path at the same place, read-only.
    fn read_only(self, path: &Path) -> Self {
        self.add(["--ro-bind-try".as_ref(), path.as_os_str(), path.as_os_str()])
    }

    /// Shows the system's directories.
    fn system(self, confines: &Confines, memory: Option<u64>) -> Self {
        let mut view = self;
        for path in SYSTEM.map(Path::new) {
            // On most systems `/bin` and its like are links into `/usr`.
            view = match fs::read_link(path) {
                Ok(target) => {
                    view.add(["--symlink".as_ref(), target.as_os_str(), path.as_os_str()])
                }
                Err(_) => view.read_only(path),
            };
        }

        view = ["/etc", "/sys"]
            .into_iter()
            .fold(view, |view, path| view.read_only(Path::new(path)));
        view = view
            .add(["--proc", "/proc"].map(OsStr::new))
            .read_only(Path::new(SETTINGS));
        view = view.add(["--dev", "/dev"].map(OsStr::new));
        view = ["/dev/shm", "/tmp"]
            .into_iter()
            .fold(view, |view, path| view.memory(path, memory));
        if confines.network {
            view = view.read_only(Path::new(RESOLVER));
        }

        confines
            .readable
            .iter()
            .fold(view, |view, path| view.read_only(Path::new(path)))
    }

    /// Mounts a `tmpfs` there, of at most this size in bytes.
    fn memory(mut self, path: &str, most: Option<u64>) -> Self {
        if let Some(most) = most {
            let size = most.to_string();
            self = self.add(["--size".as_ref(), size.as_ref()]);
        }
        self.add(["--tmpfs".as_ref(), path.as_ref()])
    }

    /// Shows the attempt's own directory, at its own place, and in it what is shown read-only. The
    /// rest between the places is memory, too, and of any size: nothing is written there.
    fn own(self, dir: &Path, shown: &[(OsString, String)]) -> Self {
        let at = dir.as_os_str();
        let mut own = self.add(["--bind".as_ref(), at, at]);
        for (from, name) in shown {
            own = own.add(["--ro-bind".as_ref(), from, dir.join(name).as_os_str()]);
        }
        let closed = own.add(["--remount-ro", "/dev", "--remount-ro", "/"].map(OsStr::new));
        closed.add(["--chdir".as_ref(), at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_comes_last_and_the_network_only_where_it_is_allowed() {
        let line = |network| {
            let confines = Confines {
                network,
                ..Confines::default()
            };
            let words = vec![c"sh".to_owned(), c"-c".to_owned()];
            let argv = argv(&confines, None, Path::new("/the/dir"), c"/bin/sh", words).unwrap();
            argv.iter()
                .map(|arg| String::from_utf8_lossy(arg.as_bytes()).into_owned())
                .collect::<Vec<_>>()
        };
        let closed = line(false);
        let open = line(true);
        assert!(
            closed.contains(&"--unshare-net".to_owned())
                && !open.contains(&"--unshare-net".to_owned())
        );
        assert_eq!(closed[closed.len() - 3..], ["--", "/bin/sh", "-c"]);
        assert!(
            closed.join(" ").contains(
                "--bind /the/dir /the/dir --remount-ro /dev --remount-ro / --chdir /the/dir --"
            ),
            "{closed:?}"
        );
    }
}
