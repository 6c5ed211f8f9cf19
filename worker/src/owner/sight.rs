//! The vocabulary between the sensors, which look, and the policy, which decides: the owner's use
//! of the host as a [`Sight`].

use common::Span;

/// The subject of a sensor. Several sensors may have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// Keyboard, mouse, terminals, sessions.
    Input,
    /// Processor time of programs that are not the grid's.
    Load,
    /// Memory that is available, and the time that programs wait for it.
    Memory,
    /// Mains or battery.
    Power,
    /// Programs that are to have the host for themselves.
    Programs,
    /// The owner's switches.
    Switch,
}

/// The result of one look.
#[derive(Debug, Clone, PartialEq)]
pub enum Sight {
    /// A value was read.
    Seen(Reading),
    /// There is no such thing on this host (no display, no battery), so it is ignored; says how
    /// that is known.
    Absent(String),
    /// There may be something, but it cannot be seen; says why. This counts as the owner's
    /// presence, never as absence.
    Unknown(String),
}

/// A value that a sensor read.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// For [`Topic::Input`]: the time without input.
    Idle(Span),
    /// For [`Topic::Load`]: the number of processors that other programs kept busy since the last
    /// look; 1.5 is one and a half.
    Load(f64),
    /// For [`Topic::Memory`]: the available memory and the pressure on it.
    Memory {
        /// The part of the memory that is still available to programs, between 0 and 1.
        available: f64,
        /// The part of the last ten seconds in which some program waited for memory, between 0 and
        /// 1.
        pressure: f64,
    },
    /// For [`Topic::Power`]: the charge of the battery that the host runs on, between 0 and 1;
    /// `None` on mains.
    Battery(Option<f64>),
    /// For [`Topic::Programs`]: the first of the owner's list that runs.
    Program(Option<String>),
    /// For [`Topic::Switch`]: the switch with which the owner paused the worker, if it is paused.
    Paused(Option<String>),
}
