//! The simulated world around the scheduler: hosts, owners and availability, the experiments on them, and the replay of
//! recorded runs. What is not here: any rule of scheduling.

mod replay;
pub mod trace;
pub mod world;

pub use replay::{Record, replay};
