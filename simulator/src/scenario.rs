//! Scripted scenarios of deadlines, policing, disclosed tasks and ranks, as JSON: what somebody
//! wrote down by hand, done by the scheduler, and told with every event. What is not here: random
//! workloads (`report::wozniak`).
//!
//! A file is one scenario or several, in the forms of the project's vectors of known answers:
//!
//! - `calendar`: what runs and waits on so many equal hosts, and the new bag that comes `now`.
//!   Tasks take what was estimated; what should have ended already ends `now`. Answered with the
//!   starts and finishes of the new bag, and the earliest deadline that it could be promised.
//! - `kill`: an estimate and the time that has passed. Answered with who would be killed.
//! - `estimate_interval`: a run time and the quality of an estimate. Answered with the estimates
//!   that fit.
//! - `scenarios`: sets of tasks that users disclose, request and cancel, on equal servers. Answered
//!   with the visible response times, what was used and billed, and the trace.
//! - `grids`: jobs of tasks or of ranks, disclosed or not, on hosts that fail and whose owners come
//!   and go. Answered with when each job was settled, and the trace.
//! - `bags`: bags with their arrivals, estimates, run times and deadlines, on hosts of given
//!   speeds, under a policy.

mod form;
mod replay;
mod sets;
mod world;

pub use form::{BadScenario, Scenario, read};
pub use replay::{Answer, answer};
pub use sets::Sets;
pub use world::{OnGrid, OneJob};
