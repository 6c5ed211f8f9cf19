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

pub use days::{FIRST_DAY, Generated, HOSTS, Recorded, TRAINING_DAYS};
pub use grid::{Contender, Day, Grid, GridError, Job, KONDO_JOBS, Row, Site, Source, SourceError};
pub use history::{BUSINESS_HOURS_S, Knowledge, experience_of, track_records};
pub use measure::{Figure, Reading, Summary, summarize};
pub use stats::{Interval, geometric_mean};
pub use threads::in_parallel;
