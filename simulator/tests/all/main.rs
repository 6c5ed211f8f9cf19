//! Tests of the simulator through its public doors.

mod engine;
mod engine_oracle;
mod grid;
mod availability;
mod oracle;
mod platform;
mod stats;
mod trace;
