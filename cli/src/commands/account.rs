//! Executes `deskgrid account`: prints the resources spent on a user's tasks, and the quality of
//! the user's estimates.

use common::units::Bytes;
use common::view::{AccountView, EstimatesView, SpreadView};
use common::wire::client::Request;

use super::Context;
use crate::args::AccountArgs;
use crate::failure::{Exit, Failure};
use crate::output::figures::{amount, percent};
use crate::output::json::{AccountAnswer, Json};
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
            "USER",
            "JOB",
            "TASKS",
            "FINISHED",
            "USED",
            "BILLED",
            "FREE",
            "USED/BILLED",
            "USED/WAITED FOR",
            "WAITED",
            "WAITED P90",
            "SLOWDOWN",
            "SLOWDOWN P90",
            "KEPT",
        ];
        let mut rows = Rows::new(&headings, context.out.color());
        accounts.iter().for_each(|account| rows.add(spent(account)));

        let spent = rows.text("nothing was spent yet\n");
        let shares = shares(&accounts, context.out.color());
        let headings = [
            "USER",
            "PROGRAM",
            "TASKS",
            "TOOK/ESTIMATED",
            "MOSTLY",
            "OFF BY",
        ];
        let mut rows = Rows::new(&headings, context.out.color());
        let (known, unknown): (Vec<_>, Vec<_>) =
            estimates.iter().partition(|view| view.quality.is_some());
        known.into_iter().for_each(|view| rows.add(row(view)));

        let table = rows.text("no task with an estimate has been measured yet\n");
        format!("{spent}\n{shares}\n{table}{}", unestimated(unknown.len()))
    };

    let document = AccountAnswer(&accounts, &estimates);
    context.show(&Json(&document), text, || users().collect())
}

/// The table of users' shares of the grid.
fn shares(accounts: &[AccountView], color: bool) -> String {
    let headings = [
        "USER",
        "SLOTS NOW",
        "LATELY",
        "OF ALL",
        "DUE",
        "WEIGHT",
        "AT MOST",
    ];
    let mut rows = Rows::new(&headings, color);
    for account in accounts {
        let Some(share) = &account.share else {
            continue;
        };
        rows.add([
            account.user.clone(),
            share.slots.to_string(),
            amount(share.average, ""),
            percent(share.part),
            percent(share.due),
            share.weight.to_string(),
            share
                .most_running
                .map(|n| n.to_string())
                .unwrap_or_default(),
        ]);
    }

    rows.text("nobody has had a slot lately\n")
}

/// Says below the table how many programs are not in it; empty if none.
fn unestimated(programs: usize) -> String {
    match programs {
        0 => String::new(),
        1 => "\n1 program ran without estimates\n".to_owned(),
        count => format!("\n{count} programs ran without estimates\n"),
    }
}

/// A ratio with two digits at least.
fn times(ratio: f64) -> String {
    let digits = (1.0 - ratio.abs().max(1e-9).log10().floor()).clamp(2.0, 9.0);
    format!("{ratio:.0$}", digits as usize)
}

fn row(view: &EstimatesView) -> [String; 6] {
    let [ratio, mostly, qoe] = match &view.quality {
        None => <[String; 3]>::default(),
        Some(quality) => {
            let (ratio, low, high) = quality.ratio;
            [
                times(ratio),
                format!("{} to {}", times(low), times(high)),
                percent(quality.qoe),
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

fn spent(account: &AccountView) -> [String; 14] {
    let seconds = |s: f64| amount(s, "s");
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
        factor(account.scaled_if_all_billed),
        factor(account.scaled_by_waited_for),
        some(of(account.response_s, |spread| spread.mean)),
        some(of(account.response_s, |spread| spread.p90)),
        factor(of(account.slowdown, |spread| spread.mean)),
        factor(of(account.slowdown, |spread| spread.p90)),
        if account.kept_bytes > 0 {
            Bytes(account.kept_bytes).to_string()
        } else {
            String::new()
        },
    ]
}

fn factor(value: Option<f64>) -> String {
    value.map(|value| format!("{value:.2}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::document;
    use crate::output::json::tests::golden;
    use common::JobId;
    use common::view::{QualityView, ShareView};

    fn bare() -> AccountView {
        AccountView {
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
            share: Some(ShareView {
                slots: 3,
                average: 1.5,
                part: 0.75,
                due: 0.5,
                weight: 1.0,
                most_running: None,
            }),
        }
    }

    #[test]
    fn the_json_of_accounts_is_as_it_was() {
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
            share: None,
            ..bare()
        };
        let accounts = [full, bare()];
        let accounts = document(&Json(&AccountAnswer(&accounts, &[])));
        golden("json-accounts", &[("accounts", accounts)]);
    }

    #[test]
    fn what_was_used_is_set_beside_what_was_billed_and_what_was_waited_for() {
        let account = AccountView {
            scaled_if_all_billed: Some(1.25),
            scaled_by_waited_for: Some(2.0),
            ..bare()
        };
        assert_eq!(spent(&account)[7..9], ["1.25", "2.00"]);
    }

    #[test]
    fn an_account_row_groups_tasks_by_their_estimate() {
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

        let tiny = EstimatesView {
            quality: Some(QualityView {
                tasks: 9,
                ratio: (0.004_21, 0.000_3, 12.0),
                qoe: 0.75,
            }),
            ..view
        };
        assert_eq!(row(&tiny)[3..5], ["0.0042", "0.00030 to 12.00"]);

        assert_eq!(unestimated(0), "");
        assert_eq!(unestimated(3), "\n3 programs ran without estimates\n");
    }
}
