//! The common part of Linux and macOS: files, accounts, programs.

pub(crate) mod account;
pub(crate) mod files;
// Tested on Linux, too, where it is not used.
#[cfg(any(target_os = "macos", test))]
pub(crate) mod group;
#[cfg(any(target_os = "macos", test))]
pub(crate) mod guard;
pub(in crate::os) mod program;

/// Whether this process may become another user.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
