//! Submits a bag of tasks from Rust, waits for it and prints what each task wrote: what `deskgrid
//! submit --wait` and `deskgrid job cat` do, as a program of one's own.
//!
//! `submit-bag DIR TASKS -- CMD ARG...`, where DIR is the state directory of a machine that has an
//! identity (of the master's, or after `deskgrid login`). For example: `submit-bag
//! ~/.local/state/deskgrid 3 -- echo 'task %{TASK_ID}'`.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use common::job::{CommandSpec, Rules, Work};
use common::selector::Selector;
use common::view::JobState;
use common::wire::client::{Reply, Request};
use common::{Content, IdSet, JobId, JobSpec, RequestId, TaskSet};
use link::{Client, Identity};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [dir, tasks, dashes, command @ ..] = &words[..] else {
        eprintln!("usage: submit-bag DIR TASKS -- CMD ARG...");
        return ExitCode::from(2);
    };
    match (tasks.parse(), dashes.as_str()) {
        (Ok(tasks), "--") if !command.is_empty() => match run(dir.as_ref(), tasks, command).await {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(3),
            Err(error) => {
                eprintln!("submit-bag: {error}");
                ExitCode::FAILURE
            }
        },
        _ => {
            eprintln!("usage: submit-bag DIR TASKS -- CMD ARG...");
            ExitCode::from(2)
        }
    }
}

/// Submits, waits, prints; says whether every task finished.
async fn run(dir: &Path, tasks: u32, command: &[String]) -> Result<bool, Box<dyn Error>> {
    let client = Client::connect(&Identity::load(&dir.join("client"))?).await?;
    let job = submit(&client, tasks, command).await?;
    eprintln!("job {job}: waiting for {tasks} tasks");
    let finished = wait(&client, job).await?;
    print(&client, job).await?;
    client.close().await;
    Ok(finished)
}

async fn submit(client: &Client, tasks: u32, command: &[String]) -> Result<JobId, Box<dyn Error>> {
    let argv = command
        .iter()
        .map(|word| word.parse())
        .collect::<Result<Vec<_>, _>>()?;
    let spec = JobSpec {
        name: "submit-bag".to_owned(),
        tasks: TaskSet {
            ids: IdSet::from_range(1, tasks),
            items: Vec::new(),
        },
        work: Work::Command(CommandSpec::new(argv)),
        rules: Rules {
            retries: 1,
            ..Rules::default()
        },
    };
    spec.check()?;

    // Sent again with the same id after a broken connection, it would give the same job and not a
    // second one.
    let id = RequestId(uuid::Uuid::from_u128(rand::random()));
    let request = Request::Submit {
        id,
        spec: spec.into(),
        disclosed: false,
        dry_run: false,
    };
    match client.ask(&request).await?.pop() {
        Some(Reply::Submitted { job: Some(job), .. }) => Ok(job),
        other => Err(format!("not an answer to a submission: {other:?}").into()),
    }
}

/// The master says when something changes; nobody asks again and again.
async fn wait(client: &Client, job: JobId) -> Result<bool, Box<dyn Error>> {
    let mut replies = client
        .stream(&Request::Watch {
            jobs: only(job),
            quiet: true,
            timeout: None,
        })
        .await?;

    let mut state = JobState::Waiting;
    while let Some(reply) = replies.next().await? {
        if let Reply::Jobs(jobs) = reply {
            state = jobs.first().map_or(state, |job| job.state);
        }
    }

    Ok(state == JobState::Finished)
}

async fn print(client: &Client, job: JobId) -> Result<(), Box<dyn Error>> {
    for reply in client
        .ask(&Request::Outputs {
            job,
            tasks: Selector::All,
        })
        .await?
    {
        let Reply::Outputs(outputs) = reply else {
            continue;
        };
        for output in outputs {
            match &output.stdout.0.content {
                Content::Inline(bytes) => std::io::stdout().write_all(bytes)?,
                Content::Blob(blob) => eprintln!(
                    "task {}: {} bytes; see job cat",
                    output.attempt.task, blob.size
                ),
            }
        }
    }

    Ok(())
}

fn only(job: JobId) -> Selector {
    Selector::Ids(IdSet::from_range(job.0, job.0))
}
