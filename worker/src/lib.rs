//! The volunteer's side of deskgrid: it takes attempts from the master, runs each in a confined
//! process tree while the owner lets it, and delivers their results, over any number of broken
//! connections and crashes.
//!
//! The deciding part is pure (`machine`); the acting parts are around it: `session` talks to the
//! master, `attempt` runs an attempt, `spool` keeps finished results, `given_back` what is given back, `cache` keeps inputs,
//! `record` notes the availability of the host, `diary` its day for the owner, [`owner`] watches for the owner, [`os`] holds
//! everything that differs between systems, and `worker` ties them together. Scheduling is the
//! master's.
//!
//! # What a task finds
//!
//! Its command runs without a shell, in a fresh directory that holds its inputs and is removed
//! afterwards, in a session of its own, at the lowest processor and IO priority. Its environment is
//! `PATH` and `LANG` (from the [`Config`]), `HOME` and `TMPDIR` (its directory), what the job sets,
//! the master's `DESKGRID_*`, and `DESKGRID_PROGRESS`: into the file of that name it may write how
//! far it is, as a number from 0 to 1 and perhaps some words, as often as it likes. It is bound to the processors of its
//! slot, and variables such as `OMP_NUM_THREADS` say how many those are. When the command ends, whatever is
//! left of its process tree is killed.

pub mod admin;
mod alive;
mod attempt;
mod blocking;
mod cache;
mod config;
mod confinement;
pub mod control;
pub mod delegate;
mod diary;
mod elsewhere;
pub mod engine;
mod error;
mod facts;
mod given_back;
mod json_file;
mod lock;
mod machine;
pub mod os;
pub mod owner;
mod peers;
mod platform;
mod record;
mod seats;
mod session;
mod share;
pub mod site;
pub mod spawner;
mod spool;
pub mod update;
mod worker;

pub use config::Config;
pub use confinement::{Choice, NetworkRule, in_force};
pub use error::WorkerError;
pub use owner::hour::end_of_today;
pub use owner::pause::PAUSE_FILE;
pub use worker::{WorkerEnd, repair, run};
