//! The directory where this machine keeps the state of deskgrid, with a subdirectory for each part
//! that runs here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The state directory (`--dir`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateDir(PathBuf);

impl StateDir {
    /// Takes this directory as the state directory.
    pub(crate) fn at(dir: PathBuf) -> Self {
        Self(dir)
    }

    /// Returns the directory given by `--dir` or `DESKGRID_DIR`, or else the default one of this
    /// user.
    ///
    /// # Errors
    /// If none was given and the user has no home.
    pub(crate) fn find(given: Option<&Path>) -> Result<Self, Failure> {
        if let Some(dir) = given {
            return Ok(Self(dir.to_owned()));
        }
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        usual(variable).map(Self).ok_or_else(|| {
            Failure::usage(
                "there is no home directory to keep state in",
                "name one with --dir DIR",
            )
        })
    }

    /// The subdirectory of the worker.
    pub(crate) fn worker(&self) -> PathBuf {
        self.0.join("worker")
    }

    /// The subdirectory of the gateway.
    #[cfg(feature = "whole")]
    pub(crate) fn gateway(&self) -> PathBuf {
        self.0.join("gateway")
    }

    /// The subdirectory of the bridge.
    #[cfg(feature = "whole")]
    pub(crate) fn bridge(&self) -> PathBuf {
        self.0.join("bridge")
    }

    /// The subdirectory of the identity with which commands speak to the master.
    pub(crate) fn client(&self) -> PathBuf {
        self.0.join("client")
    }

    /// The path of the state directory itself.
    pub(crate) fn root(&self) -> &Path {
        &self.0
    }
}

fn usual(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if cfg!(windows) {
        return variable("LOCALAPPDATA").map(|dir| PathBuf::from(dir).join("deskgrid"));
    }
    let state = variable("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute());
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    state.or_else(home).map(|dir| dir.join("deskgrid"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_usual_place_follows_the_xdg_rules() {
        let with = |pairs: &'static [(&str, &str)]| {
            usual(move |name| {
                pairs
                    .iter()
                    .find(|(n, _)| *n == name)
                    .map(|(_, value)| value.into())
            })
        };
        assert_eq!(
            with(&[("XDG_STATE_HOME", "/s"), ("HOME", "/h")]),
            Some("/s/deskgrid".into())
        );
        assert_eq!(
            with(&[("XDG_STATE_HOME", "relative"), ("HOME", "/h")]),
            Some("/h/.local/state/deskgrid".into())
        );
        assert_eq!(with(&[]), None);
    }
}
