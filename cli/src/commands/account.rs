//! `deskgrid account`: how good a user's estimates were.

use common::view::EstimatesView;
use common::wire::client::Request;

use super::Context;
use crate::args::AccountArgs;
use crate::failure::{Exit, Failure};
use crate::output::json::{Account, Estimates};
use crate::output::table::Rows;
use crate::session::Session;

/// Asks and prints.
pub(super) async fn run(context: &Context, args: AccountArgs) -> Result<Exit, Failure> {
    let session = Session::open(&context.state).await?;
    let estimates = session.estimates(&Request::Estimates { user: args.user }).await?;
    let text = || {
        let headings = ["USER", "PROGRAM", "TASKS", "TOOK/ESTIMATED", "MOSTLY", "QOE"];
        let mut rows = Rows::new(&headings, context.out.color());
        estimates.iter().for_each(|view| rows.add(row(view)));
        rows.text("no task has been measured yet\n")
    };
    let document = Account { estimates: estimates.iter().map(Estimates::from).collect() };
    context.out.show(&document, text, || estimates.iter().map(|view| view.program.clone()).collect())?;
    session.close().await;
    Ok(Exit::Well)
}

fn row(view: &EstimatesView) -> [String; 6] {
    let [ratio, mostly, qoe] = match &view.quality {
        None => ["nothing was estimated".to_owned(), String::new(), String::new()],
        Some(quality) => {
            let (ratio, low, high) = quality.ratio;
            [format!("{ratio:.2}"), format!("{low:.2} to {high:.2}"), format!("{:.0} %", 100.0 * quality.qoe)]
        }
    };
    [view.user.clone(), view.program.clone(), view.tasks.to_string(), ratio, mostly, qoe]
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::view::QualityView;

    #[test]
    fn a_row_says_how_long_tasks_took_by_what_was_estimated() {
        let quality = Some(QualityView { tasks: 9, ratio: (0.5, 0.25, 2.0), qoe: 0.75 });
        let view = EstimatesView { user: "ada".into(), program: "render".into(), tasks: 12, quality };
        assert_eq!(row(&view), ["ada", "render", "12", "0.50", "0.25 to 2.00", "75 %"].map(str::to_owned));
        let none = EstimatesView { quality: None, ..view };
        assert_eq!(row(&none)[3], "nothing was estimated");
    }
}
