//! Installers of the worker for a site: a plain package of the worker with a file to join by and the
//! site's settings inside. The plain packages are `./release`'s, the first start is
//! `commands::first_start`'s.

mod deb;
mod msi;
mod rpm;
mod script;

use std::path::{Path, PathBuf};

use crate::args::package::InstallerKind;
use crate::failure::Failure;

/// The file by which a PC joins. Only root can read it from its first byte on.
const JOIN: &str = "etc/deskgrid/join.toml";
/// The site's settings, which the package's script puts in place: so they count as changed on the
/// PC, and a plain package of a newer version keeps them.
const SETTINGS: &str = "etc/deskgrid/site.toml";
/// A file of every plain package, of the same owner.
const PATTERN: &str = "etc/deskgrid/worker.toml";

/// The content that an installer has beside the plain package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SiteFiles {
    /// The master's address, as PCs reach it.
    pub master: String,
    /// The text of the settings, if they are not those of the plain package.
    pub settings: Option<String>,
}

/// The plain package from which an installer is made.
#[derive(Debug)]
pub(crate) struct PlainPackage {
    kind: InstallerKind,
    arch: String,
    version: String,
    bytes: Vec<u8>,
}

/// The ways in which no installer comes out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadPackage {
    /// The directory has no plain package of this kind.
    #[error("there is no plain package `{wanted}` in {}", dir.display())]
    Absent {
        /// The form of its name.
        wanted: String,
        /// The directory.
        dir: PathBuf,
    },
    /// The directory has several.
    #[error("there are several plain packages `{wanted}` in {}", dir.display())]
    Several {
        /// The form of their names.
        wanted: String,
        /// The directory.
        dir: PathBuf,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The plain package is not as `./release` makes it.
    #[error("the plain package is not as `./release` makes it: {0}")]
    Form(String),
}

impl From<BadPackage> for Failure {
    fn from(error: BadPackage) -> Self {
        let hint = match &error {
            BadPackage::Absent { .. } => {
                "make the packages with ./release --worker-only, or name their directory with --from"
            }
            BadPackage::Several { .. } => "leave only the one that is wanted",
            BadPackage::Unreadable { .. } => "check the name, and who may read it",
            BadPackage::Form(_) => "make it anew with ./release --worker-only",
        };
        Failure::usage(error.to_string(), hint)
    }
}

impl InstallerKind {
    /// The ending of an installer's name.
    pub(crate) fn ending(self) -> &'static str {
        match self {
            Self::Sh => "sh",
            Self::Deb => "deb",
            Self::Rpm => "rpm",
            Self::Msi => "msi",
        }
    }

    /// The parts of a plain package's name before and after the version.
    fn plain_name(self, arch: &str) -> (&'static str, String) {
        match self {
            Self::Sh => ("deskgrid-worker-", format!("-linux-{arch}.tar.xz")),
            Self::Deb => {
                let machine = if arch == "aarch64" { "arm64" } else { "amd64" };
                ("deskgrid-worker_", format!("_{machine}.deb"))
            }
            Self::Rpm => ("deskgrid-worker-", format!("-1.{arch}.rpm")),
            Self::Msi => ("deskgrid-worker-", format!("-windows-{arch}.msi")),
        }
    }
}

impl PlainPackage {
    /// Finds and reads the plain package for an installer.
    ///
    /// # Errors
    /// If there is none, or more than one, or it cannot be read.
    pub(crate) fn find(
        dir: &Path,
        kind: InstallerKind,
        arch: &str,
    ) -> Result<PlainPackage, BadPackage> {
        let unreadable = |path: &Path, error| BadPackage::Unreadable {
            path: path.to_owned(),
            error,
        };
        let (before, after) = kind.plain_name(arch);
        let wanted = format!("{before}VERSION{after}");
        let entries = match std::fs::read_dir(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let dir = dir.to_owned();
                return Err(BadPackage::Absent { wanted, dir });
            }
            entries => entries.map_err(|error| unreadable(dir, error))?,
        };
        let mut found: Vec<(String, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().to_str()?.to_owned();
                let version = name.strip_prefix(before)?.strip_suffix(&*after)?;
                Some((version.to_owned(), entry.path()))
            })
            .collect();

        let dir = dir.to_owned();
        let Some((version, path)) = found.pop() else {
            return Err(BadPackage::Absent { wanted, dir });
        };
        if !found.is_empty() {
            return Err(BadPackage::Several { wanted, dir });
        }

        let bytes = std::fs::read(&path).map_err(|error| unreadable(&path, error))?;
        Ok(PlainPackage {
            kind,
            arch: arch.to_owned(),
            version,
            bytes,
        })
    }

    /// Makes the installer.
    ///
    /// # Errors
    /// If the plain package is not as `./release` makes it.
    pub(crate) fn installer(&self, site: &SiteFiles, token: &str) -> Result<Vec<u8>, BadPackage> {
        match self.kind {
            InstallerKind::Sh => Ok(script::installer(self, site, token)),
            InstallerKind::Deb => deb::installer(&self.bytes, site, token),
            InstallerKind::Rpm => rpm::installer(&self.bytes, site, token),
            InstallerKind::Msi => msi::installer(&self.bytes, site, token),
        }
    }
}

impl SiteFiles {
    /// The text of the file by which a PC joins.
    fn join_file(&self, token: &str) -> String {
        let word = |text: &str| toml::Value::from(text).to_string();
        format!("master = {}\ntoken = {}\n", word(&self.master), word(token))
    }
}
