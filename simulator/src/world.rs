//! The simulated world: hosts that go up and down and whose owners come and go as a trace records,
//! attempts that compute on them, and the real `Scheduler`, which receives the events and gives the
//! effects that it would over real connections.
//!
//! The world contains no rule of scheduling. It calls the scheduler's two doors and obeys its
//! effects.

mod ask;
mod checkpoint;
mod course;
mod host;
mod outcome;
mod plan;
mod run;
mod simulator;
mod still;

pub use ask::{RunJob, UserRequest, UserRequestKind};
pub use course::{PreparedTrace, UpInterval};
pub use outcome::{
    AttemptFate, AttemptStory, MakespanPrediction, RunError, RunOutcome, Standstill,
};
pub use run::Run;
pub use simulator::{Simulator, numbers};
