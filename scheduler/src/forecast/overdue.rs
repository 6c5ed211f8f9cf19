//! Attempts that run for much longer than any of their kind: the rule by which they are overdue. What is done
//! about them is in `faults::stragglers`.

use common::Time;

use crate::forecast::starts::age_s;
use crate::prediction::predict::rate_of;
use crate::state::host::{Host, HostAttempt};
use crate::state::job::Job;

/// The run time at which an attempt is overdue, as a multiple of the longest run seen of its kind.
const OVERDUE: f64 = 3.0;
/// The least run time, in seconds, at which an attempt is overdue.
const LEAST_S: f64 = 5.0;

/// Whether this host holds an attempt of the job that is overdue: what else it holds of the job is held up, too.
pub(crate) fn holds_up(job: &Job, host: &Host, now: Time) -> bool {
    let Some(longest_s) = job.longest_s() else {
        return false;
    };
    host.books.iter().any(|(attempt, load)| {
        let index = attempt.task.index;
        let running = attempt.task.job == job.rank.job && load.phase.executing();
        let longest_s = longest_s.max(job.own_estimate_s(index));
        running && ran_s(host, load, now) >= due_on(job, host, longest_s)
    })
}

/// Returns the run time, in seconds, at which an attempt that does work at this rate is overdue, if the
/// longest run of its kind was `longest_s` of work.
pub(crate) fn due_s(longest_s: f64, rate: f64) -> f64 {
    (OVERDUE * longest_s / rate).max(LEAST_S)
}

/// Returns the same for an attempt at a task of this job on this host.
pub(crate) fn due_on(job: &Job, host: &Host, longest_s: f64) -> f64 {
    due_s(longest_s, rate_of(job.computing(), host.speed.factor()))
}

/// Returns the seconds that an attempt has run, without suspensions.
pub(crate) fn ran_s(host: &Host, load: &HostAttempt, now: Time) -> f64 {
    if host.holds_still(load.phase) {
        load.ran.secs()
    } else {
        age_s(load, now)
    }
}
