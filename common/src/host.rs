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
    /// How well the worker confines tasks.
    pub confinement: Confinement,
}

/// How well a worker keeps tasks away from the owner's things; each level holds what the one before it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Confinement {
    /// A process tree of its own with limits, a clean environment and a directory of its own.
    Process,
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

impl From<OwnerState> for Status {
    /// A host that came up just now, with its whole processor.
    fn from(owner: OwnerState) -> Self {
        Self { owner, cpu: 1.0, up_for: Span::ZERO, owner_for: Span::ZERO }
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
        match self {
            Confinement::Process => f.pad("process"),
        }
    }
}
