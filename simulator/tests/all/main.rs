//! Tests of the simulator through its public doors.

mod engine;
mod grid;
