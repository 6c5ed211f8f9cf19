//! Executes `deskgrid-lab predict accuracy --log`: measures the quality of predicted waits on a log.
//! The replay of the log lives in `simulator::batch`.

use std::path::Path;

use cli::terminal::{Exit, Failure, OutputForm, PredictorQuality, table};
use serde::Serialize;
use simulator::batch::{SwfLog, foretell};

use super::bad_log;

#[derive(Serialize)]
struct RecordedAccuracy {
    log: String,
    processors: u32,
    /// The number of jobs that are wider than the machine.
    left_out: usize,
    taught: usize,
    judged: usize,
    predictors: Vec<PredictorQuality>,
}

/// Measures the predictors on a log.
pub(super) fn run(out: &OutputForm, file: &Path, scatter: bool) -> Result<Exit, Failure> {
    let found = foretell(&SwfLog::read(file).map_err(bad_log)?);
    let predictors = found.ways.into_iter();
    let answer = RecordedAccuracy {
        log: file.display().to_string(),
        processors: found.processors,
        left_out: found.left_out,
        taught: found.taught,
        judged: found.judged,
        predictors: predictors
            .map(|way| PredictorQuality::of(way, scatter))
            .collect(),
    };

    let lines = || {
        let predictors = answer.predictors.iter();
        predictors.map(PredictorQuality::line).collect()
    };
    out.show(&answer, || text(&answer, out.color()), lines)?;

    Ok(Exit::Well)
}

fn text(answer: &RecordedAccuracy, color: bool) -> String {
    let rows = table(&answer.predictors, color);
    let wider = match answer.left_out {
        0 => String::new(),
        more => format!(
            "; {more} left out that are wider than the machine's {} processors",
            answer.processors
        ),
    };
    format!(
        "{} jobs judged after {} that taught{wider}\n{rows}",
        answer.judged, answer.taught
    )
}
