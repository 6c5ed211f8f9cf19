//! Experiments: policies compared with each other and with the optimum, on platforms, over days and
//! hours, for jobs of several sizes. Single runs live in `world`, the figures in
//! `figure`.

mod days;
mod grid;
mod history;
mod measure;
pub mod requests;
pub mod rows;
mod stats;
mod threads;

pub use crate::platform::HOSTS;
pub use days::{FIRST_DAY, Generated, Recorded, TRAINING_DAYS};
pub use grid::{
    Contender, Day, DaySource, GridError, JobSize, KONDO_JOBS, PolicyGrid, RunRow, STARTS_S, Site,
    SourceError,
};
pub use history::Knowledge;
pub use measure::{MeasuredNumber, Measurement, Summary, summarize};
pub use stats::{ConfidenceInterval, geometric_mean, half_width};
pub use threads::in_parallel;
