//! Values of the messages about what a job's tasks run, and what they hold.

use common::job::Rules;
use common::view::{HostExplainView, HostJobView, HostView, WorkView};
use common::wire::client::{Reply, Request};
use common::wire::worker::{ToMaster, ToWorker};
use common::{AttemptId, JobId, Span};

pub(super) fn reply() -> Reply {
    Reply::Work(Box::new(WorkView {
        command: vec!["./run".into(), "%{TASK_ID}".into()],
        env: vec!["SEED=7".into()],
        stdin: Some("in.txt".into()),
        inputs: vec!["run".into(), "data/".into()],
        outputs: vec!["out.txt".into()],
        cut: 0,
        checkpoint: Some(Span::from_secs(60)),
        rules: Rules::default(),
    }))
}

pub(super) fn host_explain() -> Request {
    Request::HostExplain {
        host: "desk-3".into(),
    }
}

pub(super) fn gives_way(attempt: AttemptId) -> ToWorker {
    ToWorker::Yield {
        attempts: vec![attempt],
        why: "made room for task 7.3".into(),
    }
}

pub(super) fn host(host: HostView) -> Reply {
    Reply::HostExplained(Box::new(HostExplainView {
        host,
        jobs: vec![HostJobView {
            job: JobId(7),
            waiting: 70_000,
            why: "passed over: it is slow".into(),
        }],
        more: 300,
    }))
}

pub(super) fn undecided() -> Reply {
    Reply::Undecided(Box::new(common::view::Undecided {
        result: super::values::output_view(),
        others: vec![super::values::output_view()],
    }))
}

pub(super) fn weighed(attempt: AttemptId) -> ToMaster {
    ToMaster::Weighed {
        attempt,
        bytes: Some(3 << 30),
    }
}
