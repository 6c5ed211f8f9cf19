//! Jobs with deadlines: the admission test and the consequences of a promise (Wozniak, Jiang and
//! Striegel).
//!
//! - [`calendar`]: slots with the times at which they are free, onto which work is stacked.
//! - [`admission`]: the admission test of a bag.
//! - [`own_tasks`]: the corrections of estimates by the job's own tasks.
//! - [`reserve`]: the time reserved for tasks whose limits are learned.
//! - [`policing`]: the killing of attempts beyond their estimates for a new bag.
//! - [`overruns`]: the same later on, for a bag that was admitted and would be late.
//! - [`lapse`]: a job whose deadline is over is an ordinary one from then on.
//! - [`slack`]: while deadlines leave time, users with fewer slots go first.
//! - [`starts`]: the starts of tasks with a promise.
//! - [`status`]: the prospects of a promise, and the obstacles to it.
//!
//! Until its deadline a promise is never taken back: a later bag is refused rather than an earlier one
//! delayed on the calendar.

pub(crate) mod admission;
pub(crate) mod calendar;
pub(crate) mod lapse;
pub(crate) mod overruns;
pub(crate) mod own_tasks;
pub(crate) mod policing;
pub(crate) mod reserve;
pub(crate) mod slack;
pub(crate) mod starts;
pub(crate) mod status;
