//! What a sensor can say of the owner's use of the host: the words between the sensors, which look,
//! and the policy, which decides. What is not here: what follows from any of it.

use common::Span;

/// What a sensor looks at. Several sensors may look at the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// Keyboard, mouse, terminals, sessions.
    Input,
    /// Processor time of programs that are not the grid's.
    Load,
    /// Memory that is left, and how hard programs wait for it.
    Memory,
    /// Mains or battery.
    Power,
    /// Programs that are to have the host for themselves.
    Programs,
    /// The owner's switches.
    Switch,
}

/// What one look gave.
#[derive(Debug, Clone, PartialEq)]
pub enum Sight {
    /// It was seen.
    Seen(Reading),
    /// There is no such thing on this host (no display, no battery), so nothing follows; says how
    /// that is known.
    Absent(String),
    /// There may be something, and it cannot be seen; says why. To be taken as the owner's
    /// presence, never as absence.
    Unknown(String),
}

/// What was seen.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// Of [`Topic::Input`]: for how long nobody has touched anything.
    Idle(Span),
    /// Of [`Topic::Load`]: processors that the programs of others kept busy since the look before;
    /// 1.5 is one and a half.
    Load(f64),
    /// Of [`Topic::Memory`].
    Memory {
        /// The part of the memory that programs could still have, between 0 and 1.
        available: f64,
        /// The part of the last ten seconds in which some program waited for memory, between 0 and
        /// 1.
        pressure: f64,
    },
    /// Of [`Topic::Power`]: the charge of the battery that the host runs on, between 0 and 1;
    /// nothing on mains.
    Battery(Option<f64>),
    /// Of [`Topic::Programs`]: the first of the owner's list that runs.
    Program(Option<String>),
    /// Of [`Topic::Switch`]: whether the owner paused the worker, and with which switch.
    Paused(Option<String>),
}
