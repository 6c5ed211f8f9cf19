//! Tests of the simulator through its public doors.

mod availability;
mod batch;
mod checked;
mod engine;
mod engine_experiment;
mod engine_oracle;
mod formats;
mod grid;
mod growth;
#[allow(dead_code, reason = "masters do not restart here")]
#[path = "../../../scheduler/tests/all/model.rs"]
mod model;
mod observer;
mod oracle;
mod platform;
mod sharing;
mod simgrid;
mod stats;
mod still;
mod trace;
