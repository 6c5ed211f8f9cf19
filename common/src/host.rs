//! Facts and states of a host and its owner, as the worker reports them.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::needs::{Capacity, Label, MAX_LABELS, Offers};
use crate::platform::HostPlatform;
use crate::time::Span;
use crate::units::Speed;

/// The longest host name, in bytes.
pub const MAX_HOST_NAME: usize = 64;
/// The longest name of a graphics processor, in bytes.
pub const MAX_GPU_NAME: usize = 100;
/// The most graphics processors of a host that are told.
pub const MAX_GPUS: usize = 64;

/// The properties of a host, as its worker measured them at start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// The host's own name; the master makes it unique.
    pub name: String,
    /// The number of tasks that it runs at a time.
    pub slots: u32,
    /// The measured speed of one slot.
    pub speed: Speed,
    /// Clock rate of the processor as the system reports it, in MHz.
    pub clock_mhz: u32,
    /// Logical processors.
    pub cores: u32,
    /// Main memory, in MiB.
    pub memory_mib: u64,
    /// Operating system, architecture and C library.
    pub platform: HostPlatform,
    /// The level at which the worker confines every task at least.
    pub confinement: Confinement,
    /// The highest level, for tasks whose jobs ask for more (`Needs::confinement`).
    pub confinement_most: Confinement,
    /// Whether tasks whose jobs ask for the network (`Needs::network`) get it.
    pub network: bool,
    /// The `Capacity` that its owner lends to all tasks together.
    pub lends: Capacity,
    /// The most memory that its owner lets one task take, in MiB.
    pub task_memory_mib: u32,
    /// The disk space that the directory of each task may take, in MiB.
    pub task_disk_mib: u32,
    /// Its graphics processors, lent or not.
    pub gpus: Vec<Gpu>,
    /// The labels that its owner gives it.
    pub labels: BTreeSet<Label>,
}

/// A graphics processor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Its name, as its driver says it.
    pub name: String,
    /// Its memory, in MiB; 0 if unknown.
    pub memory_mib: u32,
}

/// The level at which a worker keeps tasks away from the owner's things; each level includes the
/// one before it.
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
    /// Runs under a user account of its own.
    Account,
}

impl HostFacts {
    /// Returns the facts of a host of which only the name is known: it has no slots.
    pub fn unknown(name: String) -> Self {
        Self {
            name,
            slots: 0,
            speed: Speed::REFERENCE,
            clock_mhz: 0,
            cores: 0,
            memory_mib: 0,
            platform: HostPlatform::new("unknown", "unknown", ""),
            confinement: Confinement::Process,
            confinement_most: Confinement::Process,
            network: false,
            lends: Capacity {
                cores: 0,
                memory_mib: 0,
                gpus: 0,
            },
            task_memory_mib: 0,
            task_disk_mib: 0,
            gpus: Vec::new(),
            labels: BTreeSet::new(),
        }
    }

    /// Returns what the host offers to jobs: no frozen attempts, and no labels but its owner's.
    pub fn offers(&self) -> Offers {
        Offers {
            confinement: self.confinement_most,
            network: self.network,
            together: true,
            frozen: 0,
            platform: Some(self.platform.clone()),
            labels: self.labels.clone(),
            capacity: self.lends,
            task_memory_mib: self.task_memory_mib,
            task_disk_mib: self.task_disk_mib,
        }
    }

    /// Whether lists in it are short and its words are fit for screens.
    pub fn is_sound(&self) -> bool {
        let fine = |gpu: &Gpu| {
            let printable = |c: char| !crate::text::acts(c);
            gpu.name.len() <= MAX_GPU_NAME && gpu.name.chars().all(printable)
        };
        self.platform.is_sound()
            && self.labels.len() <= MAX_LABELS
            && self.gpus.len() <= MAX_GPUS
            && self.gpus.iter().all(fine)
    }
}

impl Confinement {
    /// Every level, the weakest first.
    pub const ALL: [Confinement; 4] = [
        Confinement::Process,
        Confinement::Landlock,
        Confinement::Namespace,
        Confinement::Account,
    ];
}

/// A word that names no level of [`Confinement`].
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

/// The reason why a host that is up runs no tasks, in words that its owner understands.
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
    /// A program runs that the owner wants to have the host for itself (`exclusive-app`).
    ExclusiveApp,
    /// The owner's programs need the memory.
    LowMemory,
    /// The worker has not watched the host for long enough yet.
    StartingUp,
    /// It is a bridge, and the other grid, which runs its tasks, cannot be reached.
    OtherGridAway,
}

/// The owner's present permission to run tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnerState {
    /// Tasks may run.
    Away,
    /// All tasks are suspended.
    Present(YieldReason),
    /// The owner is there and lets tasks use this many slots; tasks beyond them are suspended.
    Sharing(YieldReason, u32),
}

impl OwnerState {
    /// Returns the number of slots, of `all`, that tasks may use.
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

    /// Returns the reason why some or all slots are closed to tasks; `None` for
    /// [`OwnerState::Away`].
    pub fn reason(self) -> Option<YieldReason> {
        match self {
            OwnerState::Away => None,
            OwnerState::Present(reason) | OwnerState::Sharing(reason, _) => Some(reason),
        }
    }
}

/// The present usability of a host, which its worker sends with each heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The owner's permission to run tasks.
    pub owner: OwnerState,
    /// The part of each slot's processor that tasks can have while they run, between 0 and 1.
    pub cpu: f32,
    /// The time that the host has been up without a break.
    pub up_for: Span,
    /// The time that its owner has been in this state.
    pub owner_for: Span,
}

/// The time for which the owner's hours lend the host; tasks that run when they end are given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loan {
    /// The time until the present hours end.
    pub left: Span,
    /// The time from now until the host is lent again.
    pub again: Span,
    /// The length of the longest lending time of the week.
    pub longest: Span,
}

impl From<OwnerState> for Status {
    /// Returns the status of a host that came up just now, with its whole processor.
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
            YieldReason::OtherGridAway => "other-grid-away",
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
