//! Tests of the simulator through its public doors.

mod availability;
mod batch;
mod deadlines;
mod downey;
mod engine;
mod engine_experiment;
mod engine_oracle;
mod formats;
mod gainaru;
mod grid;
mod liars;
mod oracle;
mod petrou;
mod platform;
mod simgrid;
mod stats;
mod still;
mod trace;
