//! Executes `deskgrid account`: prints the resources spent on a user's tasks, and the quality of
//! the user's estimates.

use common::view::{AccountView, EstimatesView, SpreadView};
use common::wire::client::Request;
use serde::Serialize;

use super::Context;
use crate::args::AccountArgs;
use crate::failure::{Exit, Failure};
use crate::output::json::Estimates;
use crate::output::table::Rows;
use crate::session::Session;

/// Asks the master and prints the accounts.
pub(super) async fn run(context: &Context, args: AccountArgs) -> Result<Exit, Failure> {
    let session = Session::open(&context.state).await?;
    let accounts = session
        .accounts(&Request::Account {
            user: args.user.clone(),
            jobs: args.jobs,
        })
        .await?;

    let estimates = session
        .estimates(&Request::Estimates { user: args.user })
        .await?;
    let users = || {
        accounts
            .iter()
            .filter(|account| account.job.is_none())
            .map(|account| account.user.clone())
    };

    let text = || {
        let headings = [
            "USER", "JOB", "TASKS", "FINISHED", "USED", "BILLED", "FREE", "SCALED", "WAITED",
            "P90", "SLOWDOWN", "P90", "KEPT",
        ];
        let mut rows = Rows::new(&headings, context.out.color());
        accounts.iter().for_each(|account| rows.add(spent(account)));

        let spent = rows.text("nothing was spent yet\n");
        let headings = [
            "USER",
            "PROGRAM",
            "TASKS",
            "TOOK/ESTIMATED",
            "MOSTLY",
            "QOE",
        ];
        let mut rows = Rows::new(&headings, context.out.color());
        estimates.iter().for_each(|view| rows.add(row(view)));

        format!("{spent}\n{}", rows.text("no task has been measured yet\n"))
    };

    let document = Accounts {
        accounts: accounts.iter().map(Account::from).collect(),
        estimates: estimates.iter().map(Estimates::from).collect(),
    };
    context.out.show(&document, text, || users().collect())?;
    session.close().await;

    Ok(Exit::Well)
}

fn row(view: &EstimatesView) -> [String; 6] {
    let [ratio, mostly, qoe] = match &view.quality {
        None => [
            "nothing was estimated".to_owned(),
            String::new(),
            String::new(),
        ],
        Some(quality) => {
            let (ratio, low, high) = quality.ratio;
            [
                format!("{ratio:.2}"),
                format!("{low:.2} to {high:.2}"),
                format!("{:.0} %", 100.0 * quality.qoe),
            ]
        }
    };

    [
        view.user.clone(),
        view.program.clone(),
        view.tasks.to_string(),
        ratio,
        mostly,
        qoe,
    ]
}

fn spent(account: &AccountView) -> [String; 13] {
    let seconds = |s: f64| format!("{s:.1}s");
    let of = |spread: Option<SpreadView>, pick: fn(&SpreadView) -> f64| spread.as_ref().map(pick);
    let some = |value: Option<f64>| value.map(seconds).unwrap_or_default();
    [
        account.user.clone(),
        account
            .job
            .map_or_else(|| "all".to_owned(), |job| job.to_string()),
        account.tasks.to_string(),
        account.finished.to_string(),
        seconds(account.used_s),
        seconds(account.billed_s),
        seconds(account.free_s),
        scaled(account),
        some(of(account.response_s, |spread| spread.mean)),
        some(of(account.response_s, |spread| spread.p90)),
        factor(of(account.slowdown, |spread| spread.mean)),
        factor(of(account.slowdown, |spread| spread.p90)),
        if account.kept_bytes > 0 {
            format!("{} bytes", account.kept_bytes)
        } else {
            String::new()
        },
    ]
}

/// Formats both readings of scaled billed resources: over the requested tasks, and over the tasks
/// that were waited for.
fn scaled(account: &AccountView) -> String {
    let both = [account.scaled_if_all_billed, account.scaled_by_waited_for];
    both.into_iter()
        .flatten()
        .map(|scaled| format!("{scaled:.2}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn factor(value: Option<f64>) -> String {
    value.map(|value| format!("{value:.2}")).unwrap_or_default()
}

/// The accounts and estimates, for scripts.
#[derive(Serialize)]
struct Accounts {
    accounts: Vec<Account>,
    estimates: Vec<Estimates>,
}

#[derive(Serialize)]
struct Account {
    user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<u32>,
    tasks: u64,
    requested: u64,
    finished: u64,
    used_s: f64,
    billed_s: f64,
    free_s: f64,
    kept_bytes: u64,
    scaled_if_all_billed: Option<f64>,
    scaled_by_waited_for: Option<f64>,
    visible_response_s: Option<Spread>,
    visible_slowdown: Option<Spread>,
}

#[derive(Serialize)]
struct Spread {
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
}

impl From<SpreadView> for Spread {
    fn from(
        SpreadView {
            mean,
            p50,
            p90,
            p99,
        }: SpreadView,
    ) -> Self {
        Spread {
            mean,
            p50,
            p90,
            p99,
        }
    }
}

impl From<&AccountView> for Account {
    fn from(view: &AccountView) -> Self {
        Account {
            user: view.user.clone(),
            job: view.job.map(|job| job.0),
            tasks: view.tasks,
            requested: view.requested,
            finished: view.finished,
            used_s: view.used_s,
            billed_s: view.billed_s,
            free_s: view.free_s,
            kept_bytes: view.kept_bytes,
            scaled_if_all_billed: view.scaled_if_all_billed,
            scaled_by_waited_for: view.scaled_by_waited_for,
            visible_response_s: view.response_s.map(Spread::from),
            visible_slowdown: view.slowdown.map(Spread::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::document;
    use crate::output::json::tests::golden;
    use common::JobId;
    use common::view::QualityView;

    #[test]
    fn the_json_of_accounts_is_as_it_was() {
        let bare = AccountView {
            user: "ann".into(),
            job: None,
            tasks: 9,
            requested: 8,
            finished: 7,
            used_s: 12.5,
            billed_s: 10.0,
            free_s: 2.5,
            kept_bytes: 300,
            scaled_if_all_billed: None,
            scaled_by_waited_for: None,
            response_s: None,
            slowdown: None,
        };
        let spread = SpreadView {
            mean: 1.5,
            p50: 1.0,
            p90: 2.0,
            p99: 4.0,
        };
        let full = AccountView {
            job: Some(JobId(7)),
            scaled_if_all_billed: Some(1.25),
            scaled_by_waited_for: Some(2.0),
            response_s: Some(spread),
            slowdown: Some(spread),
            ..bare.clone()
        };
        let accounts = Accounts {
            accounts: vec![Account::from(&full), Account::from(&bare)],
            estimates: Vec::new(),
        };
        golden("json-accounts", &[("accounts", document(&accounts))]);
    }

    #[test]
    fn a_row_says_how_long_tasks_took_by_what_was_estimated() {
        let quality = Some(QualityView {
            tasks: 9,
            ratio: (0.5, 0.25, 2.0),
            qoe: 0.75,
        });
        let view = EstimatesView {
            user: "ada".into(),
            program: "render".into(),
            tasks: 12,
            quality,
        };
        assert_eq!(
            row(&view),
            ["ada", "render", "12", "0.50", "0.25 to 2.00", "75 %"].map(str::to_owned)
        );

        let none = EstimatesView {
            quality: None,
            ..view
        };
        assert_eq!(row(&none)[3], "nothing was estimated");
    }
}
