//! An open session of a user, in which single tasks are timed.

use std::path::Path;
use std::time::Instant;

use common::job::{Rules, Work};
use common::selector::Selector;
use common::view::JobState;
use common::wire::client::{Reply, Request};
use common::{IdSet, JobId, JobSpec, RequestId, TaskSet};
use link::{Client, Identity};
use tokio::runtime::Runtime;

/// The connection of a user who is logged in.
pub(crate) struct BenchSession {
    runtime: Runtime,
    client: Client,
}

impl BenchSession {
    /// Opens the session of the user whose identity is in this directory.
    pub(crate) fn open(state: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let identity = Identity::load(state).expect("the user is logged in");
        let client = runtime
            .block_on(Client::connect(&identity))
            .expect("the master answers");
        Self { runtime, client }
    }

    /// Submits one task and waits for its end; gives the seconds.
    pub(crate) fn one(&self, work: Work) -> f64 {
        let Self { runtime, client } = self;
        let spec = spec(work);
        runtime.block_on(async {
            let start = Instant::now();
            let job = submit(client, spec).await;
            let jobs = Selector::Ids(IdSet::from_range(job.0, job.0));
            let watch = Request::Watch {
                jobs,
                quiet: true,
                timeout: None,
            };
            let mut replies = client.stream(&watch).await.expect("asks");
            while let Some(reply) = replies.next().await.expect("answers") {
                if matches!(&reply, Reply::Jobs(jobs) if jobs.iter().all(|job| job.state == JobState::Finished)) {
                    return start.elapsed().as_secs_f64();
                }
            }
            panic!("the watch ended before the job");
        })
    }
}

async fn submit(client: &Client, spec: JobSpec) -> JobId {
    let id = RequestId(uuid::Uuid::from_u128(rand::random()));
    let request = Request::Submit {
        id,
        spec: spec.into(),
        disclosed: false,
        dry_run: false,
    };
    match client.ask(&request).await.expect("answers").pop() {
        Some(Reply::Submitted { job: Some(job), .. }) => job,
        other => panic!("not submitted: {other:?}"),
    }
}

fn spec(work: Work) -> JobSpec {
    let tasks = TaskSet {
        ids: IdSet::from_range(1, 1),
        items: Vec::new(),
    };
    JobSpec {
        name: "bench".into(),
        tasks,
        work,
        rules: Rules::default(),
    }
}
