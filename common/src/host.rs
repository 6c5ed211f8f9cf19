//! What a worker says about its host and about the host's owner.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Span;
use crate::units::Speed;

/// The longest host name, in bytes.
pub const MAX_HOST_NAME: usize = 64;

/// What a host is, as its worker measured it at start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// What people call the host; the master makes it unique.
    pub name: String,
    /// How many tasks it runs at a time.
    pub slots: u32,
    /// Speed of one slot, measured.
    pub speed: Speed,
    /// Clock rate of the processor as the system reports it, in MHz.
    pub clock_mhz: u32,
    /// Logical processors.
    pub cores: u32,
    /// Main memory, in MiB.
    pub memory_mib: u64,
    /// Operating system and architecture, such as `linux x86_64`.
    pub os: String,
    /// How well the worker confines every task at least.
    pub confinement: Confinement,
    /// How well it confines those whose jobs ask for more.
    pub confinement_most: Confinement,
    /// Whether tasks whose jobs ask for the network get it.
    pub network: bool,
}

/// How well a worker keeps tasks away from the owner's things; each level holds what the one before
/// it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confinement {
    /// A process tree of its own with limits, a clean environment and a directory of its own.
    Process,
    /// Reads only the system, writes only its own directory, reaches no other process and no
    /// network; held by Landlock and a filter of system calls.
    Landlock,
    /// Sees only the system and its own directory, and no process but its own; held by namespaces.
    Namespace,
    /// Runs under an account of its own.
    Account,
}

/// What a host has for jobs that ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offers {
    /// How well it can confine.
    pub confinement: Confinement,
    /// Whether it gives the network.
    pub network: bool,
    /// Whether it can start an attempt together with those of other hosts.
    pub together: bool,
    /// How many attempts it can hold frozen beside those that run.
    pub frozen: u32,
}

impl Default for Offers {
    /// Everything that jobs ask for: what is assumed of hosts of which nothing is said. Such a host
    /// holds nothing frozen.
    fn default() -> Self {
        Self {
            confinement: Confinement::Account,
            network: true,
            together: true,
            frozen: 0,
        }
    }
}

impl HostFacts {
    /// What it has for jobs that ask for it.
    pub fn offers(&self) -> Offers {
        Offers {
            confinement: self.confinement_most,
            network: self.network,
            together: true,
            frozen: 0,
        }
    }
}

impl Confinement {
    /// All of them, the weakest first.
    pub const ALL: [Confinement; 4] = [
        Confinement::Process,
        Confinement::Landlock,
        Confinement::Namespace,
        Confinement::Account,
    ];
}

/// A word that names no level of confinement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no level of confinement: say `process`, `landlock`, `namespace` or `account`")]
pub struct BadConfinement(pub String);

impl std::str::FromStr for Confinement {
    type Err = BadConfinement;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let level = Self::ALL
            .into_iter()
            .find(|level| level.to_string() == text);
        level.ok_or_else(|| BadConfinement(text.to_owned()))
    }
}

/// Why a host does not run tasks though it is up, in words that its owner understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum YieldReason {
    /// Keyboard, mouse or a session is in use.
    InUse,
    /// The owner's programs load the host.
    Busy,
    /// The host runs on its battery.
    OnBattery,
    /// The owner allows tasks at other hours.
    OutsideHours,
    /// The owner paused the worker.
    PausedByOwner,
    /// A program runs that the owner wants to have the host for itself.
    ExclusiveApp,
    /// The owner's programs need the memory.
    LowMemory,
    /// The worker has not watched the host for long enough yet.
    StartingUp,
}

/// Whether the owner lets tasks run now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnerState {
    /// Tasks may run.
    Away,
    /// All tasks are suspended.
    Present(YieldReason),
    /// The owner is there and lets tasks use this many slots; what runs beyond them is suspended.
    Sharing(YieldReason, u32),
}

impl OwnerState {
    /// How many of `all` slots tasks may use.
    pub fn slots(self, all: u32) -> u32 {
        match self {
            OwnerState::Away => all,
            OwnerState::Present(_) => 0,
            OwnerState::Sharing(_, slots) => slots.min(all),
        }
    }

    /// Whether any task may run.
    pub fn lets_run(self) -> bool {
        self.slots(1) > 0
    }

    /// Why not everything may run, if so.
    pub fn reason(self) -> Option<YieldReason> {
        match self {
            OwnerState::Away => None,
            OwnerState::Present(reason) | OwnerState::Sharing(reason, _) => Some(reason),
        }
    }
}

/// How its host can be used at present, as a worker says with each heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Whether the owner lets tasks run.
    pub owner: OwnerState,
    /// The part of each slot's processor that tasks can have while they run, between 0 and 1.
    pub cpu: f32,
    /// For how long the host has been up without a break.
    pub up_for: Span,
    /// For how long its owner has been in this state.
    pub owner_for: Span,
}

/// How long a host is lent, by its owner's hours: what runs there when they end is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loan {
    /// In how long that is.
    pub left: Span,
    /// In how long from now it is lent again.
    pub again: Span,
    /// How long the longest such time of the week is.
    pub longest: Span,
}

impl From<OwnerState> for Status {
    /// A host that came up just now, with its whole processor.
    fn from(owner: OwnerState) -> Self {
        Self {
            owner,
            cpu: 1.0,
            up_for: Span::ZERO,
            owner_for: Span::ZERO,
        }
    }
}

impl fmt::Display for YieldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            YieldReason::InUse => "in-use",
            YieldReason::Busy => "busy",
            YieldReason::OnBattery => "on-battery",
            YieldReason::OutsideHours => "outside-hours",
            YieldReason::PausedByOwner => "paused-by-owner",
            YieldReason::ExclusiveApp => "exclusive-app",
            YieldReason::LowMemory => "low-memory",
            YieldReason::StartingUp => "starting-up",
        })
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Confinement::Process => "process",
            Confinement::Landlock => "landlock",
            Confinement::Namespace => "namespace",
            Confinement::Account => "account",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_as_they_are_shown_and_in_order() {
        for level in Confinement::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        assert!(Confinement::ALL.is_sorted() && "jail".parse::<Confinement>().is_err());
    }
}
