//! The confinement of an attempt at each level, decided and prepared by its init before the command
//! is started. [`super::birth`] makes the system calls by which the command's process gives things
//! up.

mod bubblewrap;
mod filter;
mod landlock;
mod mask;

use std::ffi::{CStr, CString};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use common::host::Confinement;

use rustix::pipe::{PipeFlags, pipe_with};

use super::birth::Cage;
use crate::os::{Confines, Launch};
pub(super) use filter::Filters;
pub(super) use mask::{MOST, Mask, Place};

/// Directories of the system that a task may read and execute from, if they exist.
const SYSTEM: [&str; 9] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
];
/// Directories that a task may only read.
const TO_READ: [&str; 3] = ["/etc", "/proc", "/sys"];

/// The confinement of a command, and the program that its process becomes.
pub(super) struct Wrapped {
    pub cage: Cage,
    /// The program that is executed, and (`argv`) its arguments.
    pub program: CString,
    pub argv: Vec<CString>,
    /// The wrapper's status messages, if there is a wrapper.
    pub word: Option<WrapperStatus>,
}

/// Prepares the confinement of a command in its directory. The error is for people.
pub(super) fn wrap(
    launch: &Launch,
    filters: &Filters,
    dir: &Path,
    program: CString,
    argv: Vec<CString>,
) -> Result<Wrapped, String> {
    let confines = &launch.confines;
    let network = confines.network;
    let bare = |cage: Cage, program, argv| {
        Ok(Wrapped {
            cage,
            program,
            argv,
            word: None,
        })
    };

    match confines.level {
        Confinement::Process => bare(as_account(confines, dir, Cage::default())?, program, argv),
        Confinement::Landlock => {
            let rules = landlock::rules(confines, dir)?;
            let filter = filters.of(network, false).to_vec();
            let cage = Cage {
                rules: Some(rules),
                filter,
                ..strict()
            };
            bare(as_account(confines, dir, cage)?, program, argv)
        }
        Confinement::Namespace | Confinement::Account => {
            if confines.level == Confinement::Account && confines.account.is_none() {
                return Err("this worker has no account for tasks".to_owned());
            }
            in_namespaces(launch, filters, dir, &program, argv)
        }
    }
}

fn in_namespaces(
    launch: &Launch,
    filters: &Filters,
    dir: &Path,
    program: &CStr,
    argv: Vec<CString>,
) -> Result<Wrapped, String> {
    let confines = &launch.confines;
    let bwrap = bubblewrap::find().ok_or("bubblewrap (`bwrap`) is not installed on this host")?;
    let unpassed = |error: std::io::Error| format!("its filter cannot be passed on: {error}");
    let filter = filter::to_file(filters.of(confines.network, true)).map_err(unpassed)?;
    let (word, said) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
        .map_err(|error| unpassed(error.into()))?;
    let zero = |_| "a path has a zero byte".to_owned();
    let argv =
        bubblewrap::argv(confines, launch.limits.memory, dir, program, argv).map_err(zero)?;

    // bubblewrap gives up its capabilities itself, after it has used them.
    let cage = Cage {
        passed: vec![filter, said],
        no_capabilities: false,
        ..strict()
    };
    let program = CString::new(bwrap.as_os_str().as_bytes()).map_err(zero)?;

    Ok(Wrapped {
        cage: as_account(confines, dir, cage)?,
        program,
        argv,
        word: Some(WrapperStatus(word)),
    })
}

/// Adds the account that tasks have on this host, if they have one.
fn as_account(confines: &Confines, dir: &Path, cage: Cage) -> Result<Cage, String> {
    let Some(account) = confines.account else {
        return Ok(cage);
    };
    let mask = Mask::prepare(dir, &confines.readable);
    let mask = mask.map_err(|error| {
        format!("the way to its directory cannot be opened to its account: {error}")
    })?;
    Ok(Cage {
        account: Some(account),
        mask: Some(mask),
        ..cage
    })
}

/// The status messages of a wrapper. They alone tell an exit code of the wrapper's own from the
/// command's.
#[derive(Debug)]
pub(super) struct WrapperStatus(OwnedFd);

impl WrapperStatus {
    /// Whether the command was started, according to a wrapper that has ended by itself.
    pub(super) fn started(self) -> bool {
        let mut said = Vec::new();
        // Where nothing more comes, what has come is all.
        let _ = std::fs::File::from(self.0).read_to_end(&mut said);
        String::from_utf8_lossy(&said).contains(bubblewrap::STARTED)
    }
}

/// Whether tasks with this confinement can see this file, and may execute it as far as the
/// confinement decides.
pub(super) fn shows(confines: &Confines, dir: &Path, file: &Path) -> bool {
    let Ok(file) = file.canonicalize() else {
        return false;
    };
    let system = SYSTEM
        .into_iter()
        .chain(confines.readable.iter().map(String::as_str))
        .map(Path::new);
    let mut seen = system
        .chain([dir])
        .filter_map(|path| path.canonicalize().ok());
    confines.level == Confinement::Process || seen.any(|path| file.starts_with(path))
}

/// Returns the cage that every level but the first has.
fn strict() -> Cage {
    let root = rustix::process::geteuid().is_root();
    Cage {
        no_new_privileges: true,
        no_capabilities: root,
        ..Cage::default()
    }
}
