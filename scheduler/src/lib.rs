//! The pure brain of deskgrid: events in, effects out, one step at a time.
//!
//! What is not here: clocks (time is an argument), input and output, async, randomness without a seed, hash order.

mod ahead;
mod attempts;
mod books;
mod calendar;
mod dense;
mod dispatch;
pub mod effect;
pub mod estimates;
pub mod event;
pub mod experience;
mod explain;
mod few;
mod fleet;
mod foresight;
mod gathered;
mod host;
mod host_events;
mod job;
mod job_events;
mod laws;
pub mod ledger;
mod lessons;
mod pace;
mod plan;
mod police;
pub mod policy;
pub mod predict;
mod promises;
mod quorum;
pub mod record;
pub mod reservation;
mod room;
mod scheduler;
mod settings;
mod speculation;
mod stack;
mod survival;
mod views;
mod wishes;

pub use effect::Effect;
pub use event::Event;
pub use experience::Experience;
pub use explain::Explanation;
pub use policy::{Policy, catalogue};
pub use predict::Prediction;
pub use promises::Planned;
pub use scheduler::Scheduler;
pub use settings::Settings;
pub use views::{HostStatus, LiveAttempt};
