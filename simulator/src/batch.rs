//! A machine of many processors with a queue of jobs that hold several of them at once. It is a
//! world of its own, since the live scheduler's tasks have one slot each. The rules for requests
//! and for backfilling gaps are the scheduler's (`scheduler::reservation`).

mod calendar;
mod conservative;
mod easy;
mod elastic;
mod foretell;
mod job;
mod rounds;
mod stream;
mod swf;
mod table;

pub use calendar::FreeProcessors;
pub use conservative::conservative;
pub use easy::easy;
pub use elastic::{Arrival, Elastic, ElasticStay, HoldOut, Ruled, WaitSource};
pub use foretell::{ForetoldLog, HELD, MethodQuality, foretell};
pub use job::{BatchJob, BatchOutcome, JobStay};
pub use rounds::{Backfill, rounds};
pub use stream::{Filled, filled};
pub use swf::{SwfJob, SwfLog};
pub use table::TabulatedLaw;
