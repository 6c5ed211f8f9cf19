//! The JSON of users' accounts.

use common::view::{AccountView, EstimatesView, ShareView, SpreadView};
use schemars::JsonSchema;
use serde::Serialize;

use super::promise::QualityJson;
use super::{Object, all};

/// The processor time spent on a user's tasks, or on those of one job.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AccountJson {
    /// The user, such as `ann`.
    pub user: String,
    /// The job; left out where the account is of all the user's jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<u32>,
    /// The number of tasks that were tried or requested.
    pub tasks: u64,
    /// The number of those that were requested.
    pub requested: u64,
    /// The number of those that were requested and executed.
    pub finished: u64,
    /// Processor time spent on them.
    pub used_s: f64,
    /// Processor time spent on requested tasks; only this is billed.
    pub billed_s: f64,
    /// Processor time spent on tasks that were not requested.
    pub free_s: f64,
    /// The bytes kept of output that nobody has requested.
    pub kept_bytes: u64,
    /// The ratio of all processor time to that of requested tasks; `null` where there is none.
    pub scaled_if_all_billed: Option<f64>,
    /// The ratio of all processor time to that of tasks that were waited for.
    pub scaled_by_waited_for: Option<f64>,
    /// The times that results were waited for; `null` where there is none.
    pub visible_response_s: Option<SpreadJson>,
    /// The same as multiples of the tasks' run times; `null` where there is none.
    pub visible_slowdown: Option<SpreadJson>,
    /// The user's share of the grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<ShareJson>,
}

impl Object for AccountView {
    type Json = AccountJson;

    fn json(&self) -> AccountJson {
        AccountJson {
            user: self.user.clone(),
            job: self.job.map(|job| job.0),
            tasks: self.tasks,
            requested: self.requested,
            finished: self.finished,
            used_s: self.used_s,
            billed_s: self.billed_s,
            free_s: self.free_s,
            kept_bytes: self.kept_bytes,
            scaled_if_all_billed: self.scaled_if_all_billed,
            scaled_by_waited_for: self.scaled_by_waited_for,
            visible_response_s: self.response_s.as_ref().map(Object::json),
            visible_slowdown: self.slowdown.as_ref().map(Object::json),
            share: self.share.as_ref().map(Object::json),
        }
    }
}

/// The spread of a set of values.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SpreadJson {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The quantile 0.9.
    pub p90: f64,
    /// The quantile 0.99.
    pub p99: f64,
}

impl Object for SpreadView {
    type Json = SpreadJson;

    fn json(&self) -> SpreadJson {
        let Self {
            mean,
            p50,
            p90,
            p99,
        } = *self;
        SpreadJson {
            mean,
            p50,
            p90,
            p99,
        }
    }
}

/// A user's part of the grid; `due` is what users of their weights are due.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ShareJson {
    /// The number of slots that the user's tasks take now.
    pub slots: u64,
    /// The recent average of that number.
    pub average_slots: f64,
    /// The part of the recent averages of all users, from 0 to 1.
    pub part: f64,
    /// The part that is due to the user.
    pub due: f64,
    /// The user's weight.
    pub weight: f64,
    /// The most tasks of the user that may run at a time; `null`: any number.
    pub most_running: Option<u32>,
}

impl Object for ShareView {
    type Json = ShareJson;

    fn json(&self) -> ShareJson {
        ShareJson {
            slots: self.slots,
            average_slots: self.average,
            part: self.part,
            due: self.due,
            weight: self.weight,
            most_running: self.most_running,
        }
    }
}

/// The quality of a user's estimates for a program, with their names.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EstimatesJson {
    /// The user, such as `ann`.
    pub user: String,
    /// The program, such as `sim`.
    pub program: String,
    /// The number of tasks that were measured.
    pub tasks: u64,
    /// The quality; `null` where nothing was estimated.
    pub quality: Option<QualityJson>,
}

impl Object for EstimatesView {
    type Json = EstimatesJson;

    fn json(&self) -> EstimatesJson {
        EstimatesJson {
            user: self.user.clone(),
            program: self.program.clone(),
            tasks: self.tasks,
            quality: self.quality.as_ref().map(Object::json),
        }
    }
}

/// Accounts and estimates.
#[derive(Debug, Clone, Copy)]
pub struct AccountAnswer<'a>(pub &'a [AccountView], pub &'a [EstimatesView]);

/// The resources spent on users' tasks, and the quality of the users' estimates.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AccountsJson {
    /// The accounts.
    pub accounts: Vec<AccountJson>,
    /// The quality of estimates.
    pub estimates: Vec<EstimatesJson>,
}

impl Object for AccountAnswer<'_> {
    type Json = AccountsJson;

    fn json(&self) -> AccountsJson {
        AccountsJson {
            accounts: all(self.0),
            estimates: all(self.1),
        }
    }
}
