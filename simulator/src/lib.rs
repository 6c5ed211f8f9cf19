//! The simulated world around the scheduler: hosts, owners and availability, the experiments on
//! them, the replay of recorded runs, and a batch machine for jobs of many processors. The rules of
//! scheduling live in the `scheduler` crate; the loop under every run but the batch machine's lives
//! in `kernel`.

pub mod absences;
pub mod availability;
pub mod bags;
pub mod batch;
pub mod experiment;
pub mod figure;
pub mod kernel;
pub mod oracle;
pub mod platform;
mod replay;
pub mod stats;
pub mod trace;
pub mod users;
pub mod world;

pub use kernel::Observer;
pub use replay::{Recording, replay};
