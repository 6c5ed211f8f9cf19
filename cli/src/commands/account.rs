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
        let color = context.out.color();
        let spent = Rows::of(accounts.iter().map(spent), color).text("nothing was spent yet\n");
        let shares = shares(&accounts, color);

        let (known, unknown): (Vec<_>, Vec<_>) =
            estimates.iter().partition(|view| view.quality.is_some());
        let table = Rows::of(known.into_iter().map(row), color)
            .text("no task with an estimate has been measured yet\n");
        format!("{spent}\n{shares}\n{table}{}", unestimated(unknown.len()))
    };

    let document = AccountAnswer(&accounts, &estimates);
    context.show(&Json(&document), text, || users().collect())
}

/// The table of users' shares of the grid.
fn shares(accounts: &[AccountView], color: bool) -> String {
    let rows = accounts.iter().filter_map(|account| {
        let share = account.share.as_ref()?;
        let most = share.most_running.map(|n| n.to_string());
        Some([
            ("USER", account.user.clone()),
            ("SLOTS NOW", share.slots.to_string()),
            ("LATELY", amount(share.average, "")),
            ("OF ALL", percent(share.part)),
            ("DUE", percent(share.due)),
            ("WEIGHT", share.weight.to_string()),
            ("AT MOST", most.unwrap_or_default()),
        ])
    });

    Rows::of(rows, color).text("nobody has had a slot lately\n")
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

fn row(view: &EstimatesView) -> [(&'static str, String); 6] {
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
        ("USER", view.user.clone()),
        ("PROGRAM", view.program.clone()),
        ("TASKS", view.tasks.to_string()),
        ("TOOK/ESTIMATED", ratio),
        ("MOSTLY", mostly),
        ("OFF BY", qoe),
    ]
}

fn spent(account: &AccountView) -> [(&'static str, String); 14] {
    let seconds = |s: f64| amount(s, "s");
    let of = |spread: Option<SpreadView>, pick: fn(&SpreadView) -> f64| spread.as_ref().map(pick);
    let some = |value: Option<f64>| value.map(seconds).unwrap_or_default();
    let job = account.job.map(|job| job.to_string());
    let kept = (account.kept_bytes > 0).then(|| Bytes(account.kept_bytes).to_string());
    let waited = account.response_s;
    let slowdown = account.slowdown;

    [
        ("USER", account.user.clone()),
        ("JOB", job.unwrap_or_else(|| "all".to_owned())),
        ("TASKS", account.tasks.to_string()),
        ("FINISHED", account.finished.to_string()),
        ("USED", seconds(account.used_s)),
        ("BILLED", seconds(account.billed_s)),
        ("FREE", seconds(account.free_s)),
        ("USED/BILLED", factor(account.scaled_if_all_billed)),
        ("USED/WAITED FOR", factor(account.scaled_by_waited_for)),
        ("WAITED", some(of(waited, |spread| spread.mean))),
        ("WAITED P90", some(of(waited, |spread| spread.p90))),
        ("SLOWDOWN", factor(of(slowdown, |spread| spread.mean))),
        ("SLOWDOWN P90", factor(of(slowdown, |spread| spread.p90))),
        ("KEPT", kept.unwrap_or_default()),
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
        let cells = spent(&account).map(|(_, cell)| cell);
        assert_eq!(cells[7..9], ["1.25", "2.00"]);
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
            row(&view).map(|(_, cell)| cell),
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
        let cells = row(&tiny).map(|(_, cell)| cell);
        assert_eq!(cells[3..5], ["0.0042", "0.00030 to 12.00"]);

        assert_eq!(unestimated(0), "");
        assert_eq!(unestimated(3), "\n3 programs ran without estimates\n");
    }
}
