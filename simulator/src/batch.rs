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

pub use calendar::Calendar;
pub use conservative::conservative;
pub use easy::easy;
pub use elastic::{Arrival, Elastic, Kept, Ruled, Told, Waits};
pub use foretell::{Foretold, HELD, Way, foretell};
pub use job::{Job, Outcome, Stay};
pub use rounds::{Backfill, rounds};
pub use stream::{Filled, filled};
pub use swf::{Log, Record};
pub use table::Tabulated;
