//! The grid as a whole, and the one who asks.

use common::token::Role;
use common::wire::client::{Reply, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::collect;
use crate::answer::{JsonAnswer, JsonDocument};
use crate::call::Call;
use crate::json::{AccountAnswer, AccountsJson, AccuracyJson, Object, PredictedWait, Word};
use crate::problem::Problem;
use crate::table::{NoBody, NoQuery, Table};

pub(super) fn add(table: &mut Table) {
    table
        .get("/whoami", "whoami")
        .about("Says who you are, and what you may do.")
        .serve(whoami);

    table
        .get("/account", "account")
        .about("Shows the resources spent on users' tasks, and the quality of their estimates.")
        .serve(account);
    table
        .get("/predict/wait", "predictWait")
        .about("Says when so many hosts should be free together.")
        .serve(wait);
    table
        .get("/predict/accuracy", "predictAccuracy")
        .about("Shows predictions beside what came, and how many intervals held.")
        .serve(accuracy);
}

async fn accuracy(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<AccuracyJson> {
    match call.grid.one(Request::Accuracy).await? {
        Reply::Accuracy(view) => Ok(JsonDocument(view.json())),
        _ => Err(Problem::unexpected()),
    }
}

/// The hosts that are wanted together.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WaitQuery {
    /// The number of hosts.
    hosts: u32,
}

async fn wait(call: Call, query: WaitQuery, _: NoBody) -> JsonAnswer<PredictedWait> {
    let WaitQuery { hosts } = query;
    match call.grid.one(Request::HostsWait { hosts }).await? {
        Reply::HostsWait(view) => Ok(JsonDocument(view.json())),
        _ => Err(Problem::unexpected()),
    }
}

/// The one who asks.
#[derive(Debug, Serialize, JsonSchema)]
struct WhoamiJson {
    /// The user's name, such as `ann`.
    user: String,
    /// The user's rights.
    role: Word<Role>,
    /// The version of the program that answers.
    program: &'static str,
}

async fn whoami(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<WhoamiJson> {
    Ok(JsonDocument(WhoamiJson {
        user: call.grid.who.user.clone(),
        role: Word(call.grid.who.role),
        program: common::update::program_version(),
    }))
}

/// The user whose account is wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AccountQuery {
    /// The user; without it your own, or for an admin everybody's.
    user: Option<String>,
    /// Whether to show each job as well.
    #[serde(default)]
    jobs: bool,
}

async fn account(call: Call, query: AccountQuery, _: NoBody) -> JsonAnswer<AccountsJson> {
    let AccountQuery { user, jobs } = query;
    let estimates = Request::Estimates { user: user.clone() };
    let accounts = collect!(call.grid, Request::Account { user, jobs }, Reply::Accounts);
    let estimates = collect!(call.grid, estimates, Reply::Estimates);
    Ok(JsonDocument(AccountAnswer(&accounts, &estimates).json()))
}
