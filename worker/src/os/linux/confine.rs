//! What an attempt gives up at each level of confinement, decided and prepared by its init before the command is born.
//! What is not here: which level an attempt gets, and the system calls by which the command's process gives things up
//! ([`super::birth`]).

mod bubblewrap;
mod filter;
mod landlock;

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use common::host::Confinement;

use super::birth::Cage;
use crate::os::Confines;
pub(super) use filter::Filters;

/// Directories of the system that a task may read and execute from, as far as they are there.
const SYSTEM: [&str; 9] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];
/// Where a task may only read.
const TO_READ: [&str; 3] = ["/etc", "/proc", "/sys"];

/// What a command is born into, and what its process becomes.
pub(super) struct Wrapped {
    pub cage: Cage,
    /// Which program is executed, with which arguments.
    pub program: CString,
    pub argv: Vec<CString>,
}

/// Prepares the confinement of a command in its directory. The error is for people.
pub(super) fn wrap(
    confines: &Confines,
    filters: &Filters,
    dir: &Path,
    program: CString,
    argv: Vec<CString>,
) -> Result<Wrapped, String> {
    let network = confines.network;
    match confines.level {
        Confinement::Process => Ok(Wrapped { cage: Cage::default(), program, argv }),
        Confinement::Landlock => {
            let rules = landlock::rules(confines, dir)?;
            let filter = filters.of(network, false).to_vec();
            let cage = Cage { rules: Some(rules), filter, ..strict() };
            Ok(Wrapped { cage, program, argv })
        }
        Confinement::Namespace | Confinement::Account => {
            // Abstract sockets belong to the network: with the host's network, they are the host's.
            let passed = filters.of(network, !network);
            let passed = filter::to_file(passed).map_err(|e| format!("its filter cannot be passed on: {e}"))?;
            let account = match confines.level {
                Confinement::Account => Some(confines.account.ok_or("this worker has no account for tasks")?),
                _ => None,
            };
            let bwrap = bubblewrap::find().ok_or("bubblewrap (`bwrap`) is not installed on this host")?;
            let zero = |_| "a path has a zero byte".to_owned();
            let argv = bubblewrap::argv(confines, dir, &program, argv).map_err(zero)?;
            // bubblewrap itself gives up its capabilities, after it has used them.
            let cage = Cage { passed: Some(passed), account, no_capabilities: false, ..strict() };
            let program = CString::new(bwrap.as_os_str().as_bytes()).map_err(zero)?;
            Ok(Wrapped { cage, program, argv })
        }
    }
}

/// What every level but the first gives up.
fn strict() -> Cage {
    let root = rustix::process::geteuid().is_root();
    Cage { no_new_privileges: true, no_capabilities: root, ..Cage::default() }
}
