//! A day of recorded availability in the simulated world: the real engines of the master and of each
//! worker serve one job, while hosts go off and on and owners come and go as the day's trace says.
//! Nothing else goes wrong here, so the makespan can be compared with that of the simulator, which
//! has the scheduler alone.
//!
//! Made up are the network (each message takes a millisecond), the spool (at once durable), and the
//! tasks: they take the job's work at their host's speed and share of the processor.

mod day;
mod host;

use common::Span;
use simulator::trace::Trace;

/// One job on one day.
#[derive(Debug, Clone)]
pub struct LiveRun<'a> {
    /// The hosts with their availability.
    pub trace: &'a Trace,
    /// The time at which the job is submitted, in seconds since the trace's start.
    pub start_s: f64,
    /// The number of its tasks.
    pub tasks: u32,
    /// The work of each task, in seconds on a dedicated host of speed 1; also the job's estimate.
    pub work_s: f64,
    /// The name of the policy.
    pub policy: &'a str,
    /// The time that staging a task takes.
    pub start_cost: Span,
    /// The seed of the order in which hosts enrol.
    pub seed: u64,
}

/// The results of a run. Times are seconds since the job was submitted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveOutcome {
    /// The time at which the last task was done; `None` if that was not before the trace's end.
    pub makespan_s: Option<f64>,
    /// The number of attempts that workers were given.
    pub attempts: u32,
    /// The 80 % intervals of the makespan that `job info` showed when a tenth, half and nine tenths
    /// of the tasks were done.
    pub intervals_s: [Option<(f64, f64)>; 3],
    /// The number of messages that the master considered.
    pub messages: u64,
}

/// Serves the job of a run.
///
/// # Errors
/// Says what has happened that must not: the master failed, or refused something.
pub fn live(run: &LiveRun<'_>) -> Result<LiveOutcome, String> {
    day::Day::begin(run)?.live()
}
