//! Tests of the simulator through its public doors.

mod oracle;
mod trace;
