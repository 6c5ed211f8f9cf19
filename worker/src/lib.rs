//! The volunteer's side of deskgrid: takes attempts from the master, runs each in a confined process tree while the
//! owner lets it, and delivers what they left, over any number of broken connections and crashes.
//!
//! What decides is pure ([`machine`]); what acts is around it: [`session`] talks to the master, [`attempt`] makes an
//! attempt, [`spool`] keeps what is finished, [`cache`] keeps inputs, [`owner`] watches for the owner, [`os`] is all that
//! differs between systems. [`worker`] ties them together. What is not here: scheduling, which is the master's.

mod attempt;
mod cache;
mod config;
mod error;
mod facts;
mod machine;
pub mod os;
pub mod owner;
mod session;
pub mod spawner;
mod spool;
mod worker;

pub use config::Config;
pub use error::WorkerError;
pub use worker::{PAUSE_FILE, run};
