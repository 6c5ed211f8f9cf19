//! The simulated world around the scheduler: hosts, owners and availability, the experiments on them, and the replay of
//! recorded runs. What is not here: any rule of scheduling.

pub mod availability;
pub mod experiment;
pub mod liars;
pub mod oracle;
pub mod platform;
mod replay;
pub mod report;
pub mod stats;
pub mod trace;
pub mod world;

pub use replay::{Record, replay};
