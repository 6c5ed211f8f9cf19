//! Executes `deskgrid predict accuracy`: measures the master's own predictions of
//! waits. The predictor lives in `scheduler`.

use api::json::held;
use common::text::plural;
use common::view::{AccuracyView, ForetoldView};
use common::wire::client::{Reply, Request};
use serde::Serialize;
use simulator::batch::MethodQuality;

use crate::args::predict::AccuracyArgs;
use crate::commands::Context;
use crate::failure::{Exit, Failure};
use crate::output::waits::{PredictorQuality, table};
use crate::session::{Session, answer};

#[derive(Serialize)]
struct LiveAccuracy {
    /// The number of predictions whose wait is over, and (`open`) of those whose wait is not.
    judged: usize,
    open: u64,
    /// The number of predictions that are not judged, since there was nothing to predict.
    left_out: usize,
    predictors: Vec<PredictorQuality>,
}

/// Asks the master for its predictions and computes their quality.
pub(super) async fn run(context: &Context, args: &AccuracyArgs) -> Result<Exit, Failure> {
    let session = Session::open(&context.state).await?;
    let view = answer!(session.one(&Request::Accuracy).await?, Reply::Accuracy)?;
    session.close().await;

    let answer = reckon(view, args.scatter);
    let predictors = &answer.predictors;
    let ids = || predictors.iter().map(PredictorQuality::line).collect();
    let text = || {
        let rows = table(predictors, context.out.color());
        let LiveAccuracy { judged, open, .. } = answer;
        let left_out = match answer.left_out {
            0 => String::new(),
            1 => "; 1 more does not count: it came at once, or in less than half a second as predicted".to_owned(),
            left_out => format!(
                "; {left_out} more do not count: they came at once, or in less than half a second as predicted"
            ),
        };
        let came = plural(judged as u64, "prediction");
        format!("{came} came, {open} are open{left_out}\n{rows}")
    };
    context.show(&answer, text, ids)
}

fn reckon(mut view: AccuracyView, scatter: bool) -> LiveAccuracy {
    let left_out = view.leave_out_trivial();
    let kinds = [
        ("hosts together", &view.hosts),
        ("first start", &view.starts),
        ("job's end", &view.finishes),
    ];
    let predictors = kinds
        .into_iter()
        .filter_map(|(name, all)| judge(name, all, scatter))
        .collect();

    LiveAccuracy {
        judged: view.hosts.len() + view.starts.len() + view.finishes.len(),
        open: view.open,
        left_out,
        predictors,
    }
}

/// Measures the quality of these predictions; `None` if there are none.
fn judge(name: &'static str, all: &[ForetoldView], scatter: bool) -> Option<PredictorQuality> {
    let pairs = all
        .iter()
        .map(|one| (one.wait.secs(), one.came.secs()))
        .collect();
    let widths_s = all
        .iter()
        .map(|one| one.high.secs() - one.low.secs())
        .collect();

    Some(PredictorQuality::of(
        MethodQuality::of(name, pairs, held(all), widths_s)?,
        scatter,
    ))
}

#[cfg(test)]
mod tests {
    use common::{Span, Time};

    use super::*;

    #[test]
    fn predictions_are_judged_by_the_outcome() {
        let one = |wait: u64, came: u64| ForetoldView {
            hosts: 4,
            at: Time(0),
            wait: Span::from_secs(wait),
            low: Span::from_secs(wait / 2),
            high: Span::from_secs(wait * 2),
            came: Span::from_secs(came),
        };
        let hosts = vec![one(10, 11), one(20, 22), one(40, 44), one(80, 400)];
        let answer = reckon(
            AccuracyView {
                hosts,
                starts: Vec::new(),
                finishes: vec![one(0, 0), one(3, 0)],
                open: 3,
            },
            true,
        );
        assert_eq!((answer.judged, answer.open, answer.left_out), (4, 3, 2));
        assert_eq!(answer.predictors.len(), 1);

        let way = &answer.predictors[0];
        assert_eq!(
            (way.name, way.median_error_s, way.coverage),
            ("hosts together", 3.0, 0.75)
        );
        assert!(way.correlation > 0.9 && way.slope > 1.0 && (way.median_ratio - 1.1).abs() < 1e-9);
        assert_eq!(way.scatter.as_ref().map(Vec::len), Some(4));
    }
}
