//! Executes `deskgrid job judge`: a program of the user's says which results of a job agree. It
//! runs here, with the user's rights, on the user's own results; nobody else runs it. The quorum
//! that follows is counted by the master.

mod copies;

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

use common::selector::Selector;
use common::text::plural;
use common::view::Undecided;
use common::wire::client::Request;
use common::{IdSet, JobId, Span};
use copies::CopiesDir;
use serde::Serialize;
use tokio::process::Command;

use super::{Context, fetch, interruptible};
use crate::args::value::OneJob;
use crate::failure::{Exit, Failure};
use crate::output::note;
use crate::session::Session;

/// The longest wait for a change before the master is asked again for results to judge.
const PATIENCE: Span = Span::from_secs(2);

#[derive(Serialize)]
struct JudgeAnswer {
    job: u32,
    compared: u64,
    differed: u64,
}

/// Compares results as they become available, until the job is settled or the user interrupts it.
pub(super) async fn run(
    context: &Context,
    session: &Session,
    job: OneJob,
    command: &[OsString],
) -> Result<Exit, Failure> {
    let job = session.job_id(job).await?;
    copies::remove_left(&std::env::temp_dir());
    // The copies of results go with it, also when it is interrupted.
    let judged = interruptible(judge(session, job, command), || interruption(job)).await?;
    context.show(&judged, || judged.text(), || vec![job.to_string()])
}

impl JudgeAnswer {
    /// Returns a line for people.
    fn text(&self) -> String {
        format!(
            "job {}: {} of results compared, {} differ\n",
            self.job,
            plural(self.compared, "pair"),
            self.differed
        )
    }
}

fn interruption(job: JobId) -> Failure {
    let what = "interrupted; what was compared is told to the master";
    let hint = format!("deskgrid job judge {job} goes on, with the same program");
    Failure::error("interrupted", what, hint)
}

/// Compares results until the job is settled.
async fn judge(
    session: &Session,
    job: JobId,
    command: &[OsString],
) -> Result<JudgeAnswer, Failure> {
    let mut judged = JudgeAnswer {
        job: job.0,
        compared: 0,
        differed: 0,
    };
    loop {
        let waiting = session.undecided(job).await?;
        if waiting.is_empty() && settled(session, job).await? {
            return Ok(judged);
        }

        for undecided in &waiting {
            let agrees = compare(session, undecided, command).await?;
            judged.compared += undecided.others.len() as u64;
            judged.differed += (undecided.others.len() - agrees.len()) as u64;
            session
                .changed(&Request::Judge {
                    attempt: undecided.result.attempt,
                    agrees,
                })
                .await?;
        }
    }
}

/// Returns whether the job is settled; waits up to `PATIENCE` for that, or for any change.
async fn settled(session: &Session, job: JobId) -> Result<bool, Failure> {
    let jobs = Selector::Ids(IdSet::from_range(job.0, job.0));
    let request = Request::Watch {
        jobs: jobs.clone(),
        quiet: true,
        timeout: Some(PATIENCE),
    };
    session.client().ask(&request).await?;
    Ok(session
        .jobs(jobs, Vec::new())
        .await?
        .iter()
        .all(|job| job.state.settled()))
}

/// Returns the numbers of the other attempts whose results the program finds to agree with this
/// one.
async fn compare(
    session: &Session,
    undecided: &Undecided,
    command: &[OsString],
) -> Result<Vec<u32>, Failure> {
    let place = CopiesDir::make(&std::env::temp_dir())
        .map_err(|e| Failure::io("cannot make a temporary directory", &e))?;

    let mine = place.path().join("new");
    lay(session, &undecided.result, &mine).await?;

    let mut agrees = Vec::new();
    for other in &undecided.others {
        let number = other.attempt.number;
        let theirs = place.path().join(number.to_string());
        lay(session, other, &theirs).await?;
        let agree = call(command, &theirs, &mine).await?;
        let word = if agree { "agrees with" } else { "differs from" };
        note(&format!(
            "{} {word} {}",
            undecided.result.attempt, other.attempt
        ));
        agrees.extend(agree.then_some(number));
    }

    Ok(agrees)
}

async fn lay(
    session: &Session,
    output: &common::view::OutputView,
    dir: &Path,
) -> Result<(), Failure> {
    std::fs::create_dir(dir).map_err(|e| Failure::cannot("make", dir, &e))?;
    fetch::lay_out(session, output, dir).await
}

async fn call(command: &[OsString], one: &Path, two: &Path) -> Result<bool, Failure> {
    let (program, args) = command
        .split_first()
        .ok_or_else(|| Failure::usage("there is no program", ""))?;
    let shown = program.to_string_lossy().into_owned();
    let mut call = Command::new(program);
    call.args(args)
        .arg(one)
        .arg(two)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true);

    let status = call
        .status()
        .await
        .map_err(|e| Failure::io(format!("cannot run {shown}"), &e))?;
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => {
            let hint = "exit code 0 means that two results agree, 1 that they do not; mend it, and judge again";
            Err(Failure::error(
                "judge",
                format!("{shown} ended with {status}"),
                hint,
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pair_of_results_is_counted_as_one() {
        let text = |compared, differed| {
            let answer = JudgeAnswer {
                job: 7,
                compared,
                differed,
            };
            answer.text()
        };
        assert_eq!(text(1, 0), "job 7: 1 pair of results compared, 0 differ\n");
        assert_eq!(text(3, 1), "job 7: 3 pairs of results compared, 1 differ\n");
    }
}
