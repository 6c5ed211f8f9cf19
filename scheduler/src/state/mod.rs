//! The scheduler's state: jobs, hosts, settings, and the data that each feature keeps about them.
//!
//! - [`scheduler`] holds all of it and is the entry point: one `Event` in, its `Effect`s out.
//! - [`job`] and [`host`] are the books of each; `books`, `queue`, `ready`, `fleet`, `shares`,
//!   `preemptible`, `pool` are indices over them, updated whenever an entry changes; `room` counts
//!   what a host has left.
//! - `promise`, `after`, `gang`, `speculation`, `question`, `opinions`, `blame`, `memory`, `owner_hours`, `terms`, `small_work`
//!   hold the data of the features of similar names, with the functions of one job or one host.
//!
//! Every change of a job or a host goes through their methods, so that every index stays true.
//! `consistency` checks some of that after each step in builds with debug assertions; the tests'
//! model recomputes all of it. Decisions are made in the modules above.

pub(crate) mod after;
pub(crate) mod blame;
pub(crate) mod books;
mod consistency;
pub(crate) mod fleet;
pub(crate) mod foresight;
pub(crate) mod gang;
pub(crate) mod host;
pub(crate) mod job;
pub(crate) mod memory;
pub(crate) mod opinions;
pub(crate) mod owner_hours;
pub(crate) mod pool;
pub(crate) mod preemptible;
pub(crate) mod promise;
pub(crate) mod question;
pub(crate) mod queue;
pub(crate) mod ready;
pub(crate) mod room;
pub(crate) mod scene;
pub(crate) mod scheduler;
pub(crate) mod settings;
pub(crate) mod shares;
pub(crate) mod silence;
pub(crate) mod small_work;
pub(crate) mod speculation;
pub(crate) mod terms;
pub(crate) mod wishes;
pub(crate) mod work;
