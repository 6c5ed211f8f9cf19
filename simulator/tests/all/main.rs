//! Tests of the simulator through its public doors.

mod availability;
mod batch;
mod engine;
mod engine_experiment;
mod engine_oracle;
mod formats;
mod grid;
mod oracle;
mod platform;
mod simgrid;
mod stats;
mod still;
mod trace;
