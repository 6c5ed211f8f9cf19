//! Tests of the reports, scenarios and liars through the public doors of `papers`.

mod deadlines;
mod downey;
mod gainaru;
mod grids;
mod kondo;
mod liars;
mod petrou;
