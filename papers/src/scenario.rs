//! Scripted scenarios of deadlines, policing, disclosed tasks and gangs, as JSON: written by hand,
//! run through the scheduler, and answered with every event. Random workloads live in
//! `report::wozniak`.
//!
//! A file is one scenario or several, in the forms of the project's vectors of known answers:
//!
//! - `calendar`: the tasks that run and wait on a number of equal hosts, and the new bag that comes
//!   `now`. Tasks take what was estimated; what should have ended already ends `now`. Answered with
//!   the starts and finishes of the new bag, and the earliest deadline that it could be promised.
//! - `kill`: an estimate and the time that has passed. Answered with the rules of policing
//!   that would kill the task.
//! - `estimate_interval`: a run time and the quality of an estimate. Answered with the interval of
//!   estimates that have this quality.
//! - `scenarios`: sets of tasks that users disclose, request and cancel, on equal servers. Answered
//!   with the visible response times, the used and the billed time, and the trace.
//! - `grids`: jobs of tasks or gangs, disclosed or not, on hosts that fail and whose owners come
//!   and go. Answered with the time at which each job was settled, and the trace.
//! - `bags`: bags with their arrivals, estimates, run times and deadlines, on hosts of given
//!   speeds, under a policy.

mod form;
mod replay;
mod sets;
mod world;

pub use form::{BadScenario, Scenario, read};
pub use replay::answer;
pub use sets::Sets;
pub use world::{OnGrid, ScenarioJob};
