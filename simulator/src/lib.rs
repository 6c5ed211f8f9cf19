//! The simulated world around the scheduler: hosts, owners and availability, the optimum, and the replay of recorded runs.
//! What is not here: any rule of scheduling.

pub mod availability;
pub mod oracle;
pub mod platform;
mod replay;
pub mod stats;
pub mod trace;

pub use replay::{Record, replay};
