//! The simulated world around the scheduler. So far it holds the replay of a recorded run; the discrete-event world of
//! hosts, owners and availability traces, the oracle and the reproductions of the papers are not here yet.

mod replay;
pub mod trace;

pub use replay::{Record, replay};
