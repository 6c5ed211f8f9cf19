//! Predictions: run times, survival of hosts, waits, and the errors of each prediction. Pure
//! arithmetic over plain values.
//!
//! - Models from papers: [`reservation`] (Gainaru et al. 2019), [`malleable`] (Downey 1997).
//! - Learned values, kept over restarts in [`experience`]: [`estimates`], [`runs`], `lessons`,
//!   `widths`, `prices`, `pace`, `survival`, `silence`.
//! - Predictions from them: [`predict`] and `finish_law` (the completion of a job),
//!   `completion_law` (that of one attempt).
//!
//! Times are in seconds of work on a host of speed 1 unless a name says otherwise. Hosts and jobs
//! are unknown here: callers pass numbers.

pub(crate) mod completion_law;
pub mod estimates;
pub mod experience;
pub(crate) mod finish_law;
pub(crate) mod lessons;
pub mod malleable;
pub(crate) mod pace;
pub mod predict;
pub(crate) mod prices;
pub mod reservation;
pub mod runs;
pub(crate) mod silence;
pub(crate) mod spread;
pub(crate) mod start_cost;
pub(crate) mod survival;
pub(crate) mod widths;
