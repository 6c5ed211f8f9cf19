//! The views of a grid's masters.

use serde::{Deserialize, Serialize};

use crate::ids::Incarnation;
use crate::time::{Span, Time};

/// The masters of a grid, as the active one knows them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MastersView {
    /// The address at which the active one is reached.
    pub address: String,
    /// Its incarnation, higher than that of every master before it.
    pub incarnation: Incarnation,
    /// The time from which it has been active, by its own clock.
    pub since: Time,
    /// The place of its store, in words.
    pub store: String,
    /// The masters that stand by, or did so within a day.
    pub standbys: Vec<StandbyView>,
}

/// A master that stands by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StandbyView {
    /// Its process in words.
    pub name: String,
    /// The address at which it is reached.
    pub address: String,
    /// The time since it last said that it stands by.
    pub said: Span,
}
