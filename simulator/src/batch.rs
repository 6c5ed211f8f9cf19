//! A machine of many processors with a queue of jobs that hold several of them at once: a world of
//! its own, since the live scheduler's tasks have one slot each. Requests, and what is put into a
//! gap, are the scheduler's (`scheduler::reservation`), as is how many processors a job holds out
//! for (`scheduler::policy::width`). What is not here: desktops, and experiments on this world.

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
