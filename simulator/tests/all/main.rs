//! Tests of the simulator through its public doors.

mod availability;
mod oracle;
mod platform;
mod stats;
mod trace;
