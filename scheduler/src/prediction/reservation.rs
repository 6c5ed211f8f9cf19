//! Reservation sequences for tasks whose run time is a matter of chance (Gainaru et al., ICPP
//! 2019): laws of run times, with a name or learned from runs; the sequence of limits that costs
//! the least; how well a window of time would be used. Times are in any one unit, the same for all
//! numbers of a question. What is not here: who is killed, and when (`policy::limits`).

mod adaptive;
mod gain;
mod grid;
mod law;
mod learned;
mod parse;
mod sequence;
mod windows;

pub use adaptive::adaptive_time_optimal;
pub use gain::{Candidate, Gap, Window, fill, fill_while, gain, gain_while};
pub use grid::Grid;
pub use law::{BadLaw, Family, Law, RunTimes};
pub(crate) use learned::product_limit;
pub use learned::{Learned, Run};
pub use parse::LAWS;
pub use sequence::{Sequence, cost_under, limit_after, time_optimal};
pub use windows::{Outlook, Windows, hour_of_week};

/// The least expected time until a task is done: by the plain programme where nothing fills gaps
/// (`zeta` 0), else by the one that knows of a stream of small work that arrives at `zeta` times
/// the processors' rate (0 up to but not 1).
pub fn optimal(grid: &Grid, zeta: f64) -> Sequence {
    if zeta > 0.0 {
        adaptive_time_optimal(grid, zeta)
    } else {
        time_optimal(grid)
    }
}
