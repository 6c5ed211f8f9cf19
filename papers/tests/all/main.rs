//! Tests of the reports, scenarios and liars through the public doors of `papers`.

mod checked;
mod deadlines;
mod downey;
mod gainaru;
mod grids;
mod kondo;
mod liars;
#[allow(dead_code, reason = "masters do not restart here")]
#[path = "../../../scheduler/tests/all/model.rs"]
mod model;
#[path = "../../../simulator/tests/all/observer.rs"]
mod observer;
mod petrou;
