//! The Landlock ruleset of one attempt: the files that it may use, and the processes and ports that
//! it may reach.

use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use super::{SYSTEM, TO_READ};
use crate::os::Confines;

/// The newest version of Landlock whose restrictions are all used; older kernels restrict what they
/// can.
const KNOWN: ABI = ABI::V9;
/// Devices that keep nothing and belong to nobody.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];
const SOURCES: [&str; 2] = ["/dev/random", "/dev/urandom"];
/// The directory needed to resolve names of hosts where the network is allowed, beside `/etc`.
const RESOLVER: &str = "/run/systemd/resolve";

/// The ruleset of an attempt in `dir`. The error is for people.
pub(super) fn rules(confines: &Confines, dir: &Path) -> Result<OwnedFd, String> {
    let ruleset = build(confines, dir)
        .map_err(|error| format!("its Landlock rules cannot be made: {error}"))?;
    Option::<OwnedFd>::from(ruleset)
        .ok_or_else(|| "the kernel of this host has no Landlock".to_owned())
}

fn build(confines: &Confines, dir: &Path) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?;
    if !confines.network {
        ruleset = ruleset.handle_access(AccessNet::from_all(KNOWN))?;
    }

    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let execute = read | AccessFs::Execute;
    let mut rules = LandlockRules(ruleset.create()?);
    let extra = confines.readable.iter().map(String::as_str);
    for path in SYSTEM.into_iter().chain(extra) {
        rules = rules.allow(Path::new(path), execute)?;
    }

    for path in TO_READ
        .into_iter()
        .chain(SOURCES)
        .chain(confines.network.then_some(RESOLVER))
    {
        rules = rules.allow(Path::new(path), read)?;
    }
    for path in DEVICES {
        rules = rules.allow(
            Path::new(path),
            AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate,
        )?;
    }

    let devices = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    Ok(rules.allow(dir, AccessFs::from_all(KNOWN) & !devices)?.0)
}

struct LandlockRules(RulesetCreated);

impl LandlockRules {
    /// Allows this at and below a path, if it is there.
    fn allow(self, path: &Path, access: BitFlags<AccessFs>) -> Result<Self, RulesetError> {
        let Ok(fd) = PathFd::new(path) else {
            return Ok(self);
        };
        let access = if path.is_dir() {
            access
        } else {
            access & AccessFs::from_file(KNOWN)
        };
        self.0
            .add_rule(PathBeneath::new(fd, access))
            .map(LandlockRules)
    }
}
