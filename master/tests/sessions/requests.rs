//! What can be requested of a disclosed job, and what is said where it cannot.

use super::shelf::{User, recorded};
use super::*;

impl User {
    async fn request(&self, job: JobId, tasks: &str) -> Result<u64, LinkError> {
        let tasks = tasks.parse().unwrap();
        self.changed(&Request::RequestTasks { job, tasks }).await
    }

    async fn changed(&self, request: &Request) -> Result<u64, LinkError> {
        match &within(self.client.ask(request)).await?[..] {
            [Reply::Changed(changed)] => Ok(changed[0].1),
            other => panic!("{other:?}"),
        }
    }

    async fn billed_s(&self) -> f64 {
        account(&self.client).await.billed_s
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_tasks_are_neither_requested_nor_billed_until_retried() {
    let master = Master::start().await;
    let mut ann = User::of(&master, "ann", 1).await;
    let mut worker = master.host("pc").await;
    let job = ann.disclose(3).await;

    worker.executes(1, 6).await;
    let jobs = one(job);
    assert_eq!(
        ann.changed(&Request::CancelUnrequested { jobs })
            .await
            .unwrap(),
        2
    );

    let refused = ann.request(job, "2-3").await.err().unwrap();
    assert!(
        code(&refused) == RefusalCode::Conflict && refused.to_string().contains("cancelled"),
        "{refused}"
    );

    let LinkError::Refused(Refusal { hint, .. }) = refused else {
        unreachable!()
    };
    assert!(
        hint.contains(&format!("job retry {job} --tasks 2-3")),
        "{hint}"
    );
    assert_eq!(ann.request(job, "all").await.unwrap(), 1, "the first one");

    let billed_s = ann.billed_s().await;
    assert_eq!(
        ann.request(job, "1-2").await.unwrap(),
        0,
        "the first one was requested before"
    );

    let retry = Request::Retry {
        job,
        tasks: "2".parse().unwrap(),
        only_failed: false,
    };
    assert_eq!(changed(&ann.client, &retry).await, [(job, 1)]);

    assert_eq!(
        (ann.request(job, "2-3").await.unwrap(), ann.billed_s().await),
        (1, billed_s)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_jobs_teach_how_likely_disclosed_tasks_are_requested() {
    let mut master = recorded(|_| ()).await;
    let mut ann = User::of(&master, "ann", 1).await;
    let mut worker = master.host("pc").await;
    let job = ann.disclose(3).await;

    worker.executes(3, 6).await;
    for tasks in ["1", "2"] {
        assert_eq!(ann.request(job, tasks).await.unwrap(), 1);
    }

    let jobs = one(job);
    for _ in 0..2 {
        assert_eq!(
            ann.changed(&Request::CancelUnrequested { jobs: jobs.clone() })
                .await
                .unwrap(),
            0,
            "all is executed"
        );
    }

    master.stop().await;
    let decided = master
        .steps()
        .into_iter()
        .filter_map(|step| match step.event {
            Event::RestDecided { user, dropped } => Some((user, dropped)),
            _ => None,
        });
    let of_ann = |dropped| ("ann".to_owned(), dropped);
    assert_eq!(
        decided.collect::<Vec<_>>(),
        [None, Some(false), Some(true)].map(of_ann)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_an_absent_task_names_it_and_changes_nothing() {
    let master = Master::start().await;
    let mut ann = User::of(&master, "ann", 1).await;
    let job = ann.disclose(3).await;
    let jobs = one(job);
    let of = |tasks: &str| -> [Request; 3] {
        let tasks: Selector = tasks.parse().unwrap();
        [
            Request::RequestTasks {
                job,
                tasks: tasks.clone(),
            },
            Request::Retry {
                job,
                tasks: tasks.clone(),
                only_failed: false,
            },
            Request::Cancel {
                jobs: jobs.clone(),
                tasks: Some(tasks),
            },
        ]
    };
    for (given, missing) in [("7", 7), ("2-900", 4), ("1,3,9,20", 9)] {
        for request in of(given) {
            let refused = ann.changed(&request).await.err().unwrap();
            assert_eq!(code(&refused), RefusalCode::NotFound);
            assert!(
                refused
                    .to_string()
                    .contains(&format!("job {job} has no task {missing}")),
                "{refused}"
            );
        }
    }

    let [request, _, cancel] = of("2-3");
    assert_eq!(
        ann.changed(&request).await.unwrap(),
        2,
        "none had been requested"
    );
    assert_eq!(
        ann.changed(&cancel).await.unwrap(),
        2,
        "none had been cancelled"
    );

    // Of a settled job as well; but of all jobs those are meant that have such tasks.
    let other = ann.disclose(1).await;
    let all = Request::Cancel {
        jobs: Selector::All,
        tasks: Some("1".parse().unwrap()),
    };
    let cancelled = within(ann.client.ask(&all)).await.unwrap();
    assert_eq!(cancelled, [Reply::Changed(vec![(job, 1), (other, 1)])]);

    let [.., cancel] = of("7");
    assert_eq!(
        code(&ann.changed(&cancel).await.err().unwrap()),
        RefusalCode::NotFound
    );

    let more = Request::Cancel {
        jobs: Selector::All,
        tasks: Some("3".parse().unwrap()),
    };
    ann.changed(&more).await.unwrap();
}
