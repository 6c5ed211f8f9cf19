//! The JSON of users' accounts.

use common::view::{AccountView, EstimatesView, ShareView, SpreadView};

use super::promise::QualityJson;
use super::{Object, all, form};

form! {
    /// The processor time spent on a user's tasks, or on those of one job.
    pub struct AccountJson of AccountView as view {
        /// The user, such as `ann`.
        pub user: String = view.user.clone(),
        /// The job; left out where the account is of all the user's jobs.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub job: Option<u32> = view.job.map(|job| job.0),
        /// The number of tasks that were tried or requested.
        pub tasks: u64 = view.tasks,
        /// The number of those that were requested.
        pub requested: u64 = view.requested,
        /// The number of those that were requested and executed.
        pub finished: u64 = view.finished,
        /// Processor time spent on them.
        pub used_s: f64 = view.used_s,
        /// Processor time spent on requested tasks; only this is billed.
        pub billed_s: f64 = view.billed_s,
        /// Processor time spent on tasks that were not requested.
        pub free_s: f64 = view.free_s,
        /// The bytes kept of output that nobody has requested.
        pub kept_bytes: u64 = view.kept_bytes,
        /// The ratio of all processor time to that of requested tasks; `null` where there is none.
        pub scaled_if_all_billed: Option<f64> = view.scaled_if_all_billed,
        /// The ratio of all processor time to that of tasks that were waited for.
        pub scaled_by_waited_for: Option<f64> = view.scaled_by_waited_for,
        /// The times that results were waited for; `null` where there is none.
        pub visible_response_s: Option<SpreadJson> = view.response_s.as_ref().map(Object::json),
        /// The same as multiples of the tasks' run times; `null` where there is none.
        pub visible_slowdown: Option<SpreadJson> = view.slowdown.as_ref().map(Object::json),
        /// The user's share of the grid.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub share: Option<ShareJson> = view.share.as_ref().map(Object::json),
    }
}

form! {
    /// The spread of a set of values.
    pub struct SpreadJson of SpreadView as view {
        /// The mean.
        pub mean: f64 = view.mean,
        /// The median.
        pub p50: f64 = view.p50,
        /// The quantile 0.9.
        pub p90: f64 = view.p90,
        /// The quantile 0.99.
        pub p99: f64 = view.p99,
    }
}

form! {
    /// A user's part of the grid; `due` is what users of their weights are due.
    pub struct ShareJson of ShareView as view {
        /// The number of slots that the user's tasks take now.
        pub slots: u64 = view.slots,
        /// The recent average of that number.
        pub average_slots: f64 = view.average,
        /// The part of the recent averages of all users, from 0 to 1.
        pub part: f64 = view.part,
        /// The part that is due to the user.
        pub due: f64 = view.due,
        /// The user's weight.
        pub weight: f64 = view.weight,
        /// The most tasks of the user that may run at a time; `null`: any number.
        pub most_running: Option<u32> = view.most_running,
    }
}

form! {
    /// The quality of a user's estimates for a program, with their names.
    pub struct EstimatesJson of EstimatesView as view {
        /// The user, such as `ann`.
        pub user: String = view.user.clone(),
        /// The program, such as `sim`.
        pub program: String = view.program.clone(),
        /// The number of tasks that were measured.
        pub tasks: u64 = view.tasks,
        /// The quality; `null` where nothing was estimated.
        pub quality: Option<QualityJson> = view.quality.as_ref().map(Object::json),
    }
}

/// Accounts and estimates.
#[derive(Debug, Clone, Copy)]
pub struct AccountAnswer<'a>(pub &'a [AccountView], pub &'a [EstimatesView]);

form! {
    /// The resources spent on users' tasks, and the quality of the users' estimates.
    pub struct AccountsJson of AccountAnswer<'_> as answer {
        /// The accounts.
        pub accounts: Vec<AccountJson> = all(answer.0),
        /// The quality of estimates.
        pub estimates: Vec<EstimatesJson> = all(answer.1),
    }
}
