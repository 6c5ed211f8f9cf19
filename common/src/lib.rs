//! The vocabulary shared by every crate of deskgrid: ids, time and speed units, job specs, results,
//! views, and the messages on the wire with their byte codec.
//!
//! There is no input or output, async, clock or randomness here: every value is made from
//! arguments.

pub mod additions;
pub mod after;
pub mod attempt;
pub mod availability;
mod bounded;
pub mod checkpoint;
pub mod content;
pub mod date;
pub mod event;
pub mod host;
pub mod identity;
pub mod ids;
pub mod idset;
pub mod interpreter;
pub mod job;
pub mod journal;
pub mod kernel;
pub mod manifest;
pub mod needs;
pub mod owner;
pub mod path;
pub mod platform;
pub mod progress;
pub mod ranks;
pub mod selector;
pub mod settings;
pub mod site;
pub mod template;
pub mod text;
pub mod time;
pub mod token;
pub mod units;
pub mod update;
pub mod view;
pub mod wire;

pub use additions::NewTasks;
pub use after::{After, EndCondition};
pub use attempt::{Completion, Outcome};
pub use content::{BlobRef, Content};
pub use ids::{AttemptId, HostId, Incarnation, JobId, RequestId, TaskId};
pub use idset::IdSet;
pub use job::{JobSpec, SubmitOptions, TaskSet};
pub use ranks::Ranks;
pub use time::{Span, Time};
pub use units::Speed;
