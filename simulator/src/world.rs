//! The simulated world: hosts that are up and down and whose owners come and go as a trace says,
//! tasks that compute on them, and the scheduler, which hears and says exactly what it would over
//! real connections.
//!
//! What is not here: any rule of scheduling. The world calls the scheduler's two doors and does
//! what it is told.

mod ask;
mod course;
mod host;
mod outcome;
mod plan;
mod run;
mod simulator;
mod still;

pub use ask::{Ask, Job, What};
pub use course::{Interval, World};
pub use outcome::{AttemptStory, Fate, Foretold, Outcome, RunError, Standstill};
pub use run::Run;
pub use simulator::Simulator;
