//! The confinement of an attempt at each level, decided and prepared by its init before the command
//! is started. [`super::birth`] makes the system calls by which the command's process gives things
//! up.

mod bubblewrap;
mod filter;
mod landlock;
mod mask;
mod view;

use std::path::Path;

use common::host::Confinement;

use super::birth::Cage;
use crate::os::{Confines, Launch};
pub(super) use filter::Filters;
pub(super) use mask::{MOST, Mask, Place};
pub(crate) use view::donor_main;
pub(super) use view::{LIFE, View, ViewSpec, Views};

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

/// Prepares what the command's own process gives up. In namespaces the rest is decided by where
/// that process begins: see [`super::sandbox`]. The error is for people.
pub(super) fn cage(launch: &Launch, filters: &Filters, dir: &Path) -> Result<Cage, String> {
    let confines = &launch.confines;
    let account = confines.account;

    match confines.level {
        Confinement::Process => as_account(account, &confines.readable, dir, Cage::default()),
        Confinement::Landlock => {
            let cage = Cage {
                rules: Some(landlock::rules(confines, dir)?),
                filter: filters.of(confines.network, false).to_vec(),
                ..strict()
            };
            as_account(account, &confines.readable, dir, cage)
        }
        Confinement::Account if account.is_none() => {
            Err("this worker has no account for tasks".to_owned())
        }
        Confinement::Namespace | Confinement::Account => {
            let filter = filters.of(confines.network, true).to_vec();
            if filter.is_empty() {
                let why = "its filter could not be compiled for this kind of processor";
                return Err(why.to_owned());
            }
            Ok(Cage {
                filter,
                no_capabilities: true,
                ..strict()
            })
        }
    }
}

/// Adds the account that tasks have on this host, if they have one.
fn as_account(
    account: Option<(u32, u32)>,
    readable: &[String],
    dir: &Path,
    cage: Cage,
) -> Result<Cage, String> {
    if account.is_none() {
        return Ok(cage);
    }
    let mask = Mask::prepare(dir, readable).map_err(|error| {
        format!("the way to its directory cannot be opened to its account: {error}")
    })?;
    Ok(Cage {
        account,
        mask: Some(mask),
        ..cage
    })
}

/// Whether tasks with this confinement can see this file, and may execute it as far as the
/// confinement decides.
pub(in crate::os) fn shows(confines: &Confines, dir: &Path, file: &Path) -> bool {
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
