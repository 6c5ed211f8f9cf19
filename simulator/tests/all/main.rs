//! Tests of the simulator through its public doors.

mod engine;
mod engine_oracle;
mod grid;
mod oracle;
mod trace;
