//! Defines the flags of `deskgrid package`: installers of the worker for a site, each with a join
//! token inside.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::serve::master_address;
use super::value::Dur;

/// The kinds of installers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InstallerKind {
    /// A script with everything inside, for any Linux with systemd.
    Sh,
    /// A package for Debian, Ubuntu and their like.
    Deb,
    /// A package for Fedora, RHEL and their like.
    Rpm,
    /// A package for Windows.
    Msi,
}

/// The flags of `deskgrid package`.
#[derive(Debug, Args)]
pub(crate) struct PackageArgs {
    /// sh: a script for any Linux with systemd; deb, rpm: a package for Debian and Ubuntu, Fedora and RHEL; msi: one for Windows
    #[arg(long, value_name = "KIND", hide_possible_values = true)]
    pub format: InstallerKind,
    /// Directory with the plain packages of the worker, as `./release` makes them
    #[arg(long, value_name = "DIR", default_value = "dist")]
    pub from: PathBuf,
    /// Number of PCs that can join by it
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub uses: u32,
    /// Time until its token expires
    #[arg(long, value_name = "DUR", default_value = "1d")]
    pub ttl: Dur,
    /// A TOML file with the settings of the site's workers [default: those of the plain package]
    #[arg(long, value_name = "F")]
    pub config: Option<PathBuf>,
    /// The master's address as the PCs reach it [default: as this machine does]
    #[arg(long, value_name = "HOST:PORT", value_parser = master_address)]
    pub master: Option<String>,
    /// Name of its token in lists and logs [default: package]
    #[arg(
        long,
        value_name = "NAME",
        default_value = "package",
        hide_default_value = true
    )]
    pub name: String,
    /// Let PCs that join by it wait until an admin approves them
    #[arg(long)]
    pub approve: bool,
    /// Architecture of the PCs, of those for which there are plain packages
    #[arg(long, value_name = "ARCH", default_value = "x86_64", value_parser = ["x86_64", "aarch64"])]
    pub arch: String,
    /// File to write [default: deskgrid-worker-site, with the ending of its kind]
    #[arg(long, value_name = "F")]
    pub out: Option<PathBuf>,
}

/// The examples below the help of `deskgrid package`.
pub(crate) const PACKAGE: &str = "\
Examples:
  deskgrid package --format sh --uses 200 --ttl 7d --config worker.toml
  deskgrid package --format deb --uses 200 --ttl 7d --out office.deb
  deskgrid package --format msi --uses 200 --ttl 7d --out office.msi
  deskgrid package --format sh --master grid.example.org:7411
Whoever can read the installer can let PCs join until its token is used up, expired or revoked: keep \
it where only your admins and the PCs' installers can read it. On a PC the token can be read by root \
alone, and is removed once the PC has joined; Windows keeps a copy of an msi beside. docs/roll-out.md says how to distribute it.";
