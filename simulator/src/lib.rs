//! The simulated world around the scheduler: hosts, owners and availability, the experiments on
//! them, the replay of recorded runs, and a batch machine for jobs of many processors. The rules of
//! scheduling live in the `scheduler` crate.

pub mod absences;
pub mod availability;
pub mod bags;
pub mod batch;
pub mod experiment;
pub mod figure;
pub mod oracle;
pub mod platform;
mod replay;
pub mod stats;
pub mod trace;
pub mod users;
pub mod world;

pub use replay::{Record, replay};
