//! The command line of bubblewrap, which makes the view of the file system that tasks in namespaces
//! have.

use std::ffi::{CString, NulError, OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::{SYSTEM, ViewSpec};

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
/// The first arguments. A `/proc` can be mounted only in a process namespace of one's own.
const ALWAYS: [&str; 6] = [
    "bwrap",
    "--unshare-user",
    "--unshare-pid",
    "--die-with-parent",
    "--cap-drop",
    "ALL",
];

/// Returns the path of `bwrap`, if it is installed.
pub(super) fn find() -> Option<PathBuf> {
    PLACES.iter().map(PathBuf::from).find(|path| path.is_file())
}

/// Returns the arguments with which bubblewrap makes the view and runs the command in it.
pub(super) fn argv(spec: &ViewSpec, command: [&str; 2]) -> Result<Vec<CString>, NulError> {
    let view = FileSystemView::default().system(spec).shown(spec);
    let before = ALWAYS.into_iter().map(OsString::from);
    let after = ["--"].into_iter().chain(command).map(OsString::from);
    before
        .chain(view.0)
        .chain(after)
        .map(|arg| CString::new(arg.into_vec()))
        .collect()
}

/// The file system as tasks see it, as arguments.
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

    /// Shows the system's directories. What is each task's own is mounted later over `/proc`,
    /// `/tmp`, `/dev/pts` and `/dev/shm`.
    fn system(self, spec: &ViewSpec) -> Self {
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
        view = view.add(["--proc", "/proc", "--dev", "/dev", "--dir", "/tmp"].map(OsStr::new));
        if spec.network {
            view = view.read_only(Path::new(RESOLVER));
        }
        view
    }

    /// Shows the directories from which tasks take their own, and what they may read.
    fn shown(self, spec: &ViewSpec) -> Self {
        let view = spec.sources.iter().fold(self, |view, source| {
            view.add(["--bind".as_ref(), source, source])
        });
        let view = spec
            .readable
            .iter()
            .fold(view, |view, path| view.read_only(Path::new(path)));
        view.add(["--remount-ro", "/dev", "--remount-ro", "/"].map(OsStr::new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_owner_lets_tasks_read_is_shown_after_the_sources_and_nothing_can_be_changed() {
        let spec = ViewSpec {
            network: false,
            readable: vec!["/opt/tools".to_owned()],
            account: None,
            sources: vec!["/opt".into()],
        };
        let argv = argv(&spec, ["sh", "-c"]).unwrap();
        let words: Vec<_> = argv.iter().map(|arg| arg.to_string_lossy()).collect();
        assert_eq!(words[words.len() - 3..], ["--", "sh", "-c"]);
        assert!(
            words.join(" ").contains(
                "--bind /opt /opt --ro-bind-try /opt/tools /opt/tools --remount-ro /dev --remount-ro / --"
            ),
            "{words:?}"
        );
    }
}
