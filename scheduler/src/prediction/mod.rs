//! What can be said of the future from what was seen: run times, survival of hosts, waits, and what
//! each prediction was worth. Pure arithmetic over plain values.
//!
//! - Models from papers: [`reservation`] (Gainaru et al. 2019), [`malleable`] (Downey 1997).
//! - What is learned, and kept over restarts in [`experience`]: [`estimates`], [`runs`], `lessons`,
//!   `widths`, `prices`, `pace`, `survival`.
//! - What follows: [`predict`] (the end of a job), `completion_law` (the end of one attempt).
//!
//! Times are in seconds of work on a host of speed 1 unless a name says otherwise. Nothing here knows
//! which hosts and jobs there are; whoever does asks with numbers.

pub(crate) mod completion_law;
pub mod estimates;
pub mod experience;
pub(crate) mod lessons;
pub mod malleable;
pub(crate) mod pace;
pub mod predict;
pub(crate) mod prices;
pub mod reservation;
pub mod runs;
pub(crate) mod survival;
pub(crate) mod widths;
