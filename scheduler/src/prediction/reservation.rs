//! Reservation sequences for tasks of random run time (Gainaru et al., ICPP 2019): laws of run
//! times, named or learned from runs; the sequence of limits of least cost; the expected use of a
//! window of time. Times are in any one unit, the same for all arguments. Attempts are killed by
//! `policy::limits`.

mod adaptive;
mod gain;
mod grid;
mod law;
mod learned;
mod parse;
mod sequence;
mod windows;

pub use adaptive::adaptive_time_optimal;
pub use gain::{GapCandidate, ProcessorGap, Window, fill, gain};
pub use grid::RunTimeGrid;
pub use law::{BadLaw, Family, NamedLaw, RunTimes};
pub(crate) use learned::product_limit;
pub use learned::{LearnedLaw, ObservedRun};
pub use sequence::{Sequence, cost_under, limit_after, time_optimal};
pub use windows::{Outlook, Windows, hour_of_week};

/// Returns the sequence of the least expected time until a task is done. Without small work (`zeta`
/// 0) it comes from the plain programme, else from the one with a stream of small work that arrives
/// at `zeta` times the processors' rate (0 up to but not 1).
pub fn optimal(grid: &RunTimeGrid, zeta: f64) -> Sequence {
    if zeta > 0.0 {
        adaptive_time_optimal(grid, zeta)
    } else {
        time_optimal(grid)
    }
}
