//! Executes `deskgrid-lab predict accuracy --log`: measures the quality of predicted waits on a log.
//! The replay of the log lives in `simulator::batch`.

use std::path::Path;

use cli::terminal::{Exit, Failure, OutputForm, PredictorQuality, table};
use serde::Serialize;
use simulator::batch::{ForetoldLog, SwfLog, foretell};

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
    let log = SwfLog::read(file).map_err(|error| {
        let hint = "a log has a job on each line, 18 numbers, and comments behind `;` (Standard Workload Format)";
        Failure::usage("the log cannot be used", hint).because(error)
    })?;
    let ForetoldLog {
        taught,
        judged,
        processors,
        left_out,
        ways,
    } = foretell(&log);

    let predictors = ways
        .into_iter()
        .map(|way| PredictorQuality::of(way, scatter))
        .collect();
    let answer = RecordedAccuracy {
        log: file.display().to_string(),
        processors,
        left_out,
        taught,
        judged,
        predictors,
    };
    let ids = || {
        answer
            .predictors
            .iter()
            .map(PredictorQuality::line)
            .collect()
    };
    out.show(&answer, || text(&answer, out.color()), ids)?;

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
