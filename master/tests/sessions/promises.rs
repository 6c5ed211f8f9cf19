//! What becomes of a job's promise, as its user is told it, and over a restart.

use common::view::{AttemptState, PromiseState, PromiseStatus};

use super::*;

/// A bag with a deadline in so many seconds, and this estimate of each task in milliseconds.
fn bag(tasks: u32, estimate_ms: u64, deadline_s: u64) -> JobSpec {
    let rules = Rules {
        policy: "CALENDAR-HARD".into(),
        estimate: Some(Span::from_millis(estimate_ms)),
        deadline: Some(Span::from_secs(deadline_s)),
        retries: 1,
        ..Rules::default()
    };
    JobSpec {
        rules,
        ..noops(tasks)
    }
}

async fn promise(client: &Client, job: JobId) -> PromiseStatus {
    let mut views = job_views(client, one(job), Vec::new()).await;
    views.remove(0).promise.expect("it was promised")
}

/// A master with a job whose two attempts have run for longer than was estimated, the promise to
/// it, and a bag whose arrival ends these attempts: its tasks take an hour.
async fn killed(deadline_s: u64) -> (Master, Worker, Client, [JobId; 2], PromiseStatus) {
    let master = Master::start().await;
    let client = master.admin().await;
    let mut worker = master.host("pc").await;

    let (first, _) = submit(&client, 1, &bag(2, 1, deadline_s)).await.unwrap();
    worker.assignments(2).await;
    let promised = promise(&client, first).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (second, _) = submit(&client, 2, &bag(2, 3_600_000, 100_000))
        .await
        .unwrap();
    let attempts = task(&client, first).await.attempts;
    assert_eq!(attempts[0].state, AttemptState::Killed);
    (master, worker, client, [first, second], promised)
}

/// The first assignments after a restart: none runs before.
async fn first_again(master: &mut Master) -> (Client, Vec<Assignment>) {
    master.restart().await;
    let client = master.admin().await;
    let mut worker = master.host("another").await;
    let first = worker.assignments(2).await;
    (client, first)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promise_that_a_kill_made_anew_is_told_and_outlives_a_restart() {
    let (mut master, worker, client, [first, second], promised) = killed(50_000).await;
    let anew = promise(&client, first).await;
    assert!(
        anew.made > promised.made && anew.finish > promised.finish + Span::from_secs(3_000),
        "{promised:?}, then {anew:?}"
    );
    assert_eq!(anew.state, PromiseState::OnTime, "{anew:?}");

    drop(worker);
    let (client, _) = first_again(&mut master).await;
    let known = promise(&client, first).await;
    assert_eq!((known.made, known.finish), (anew.made, anew.finish));
    let status = promise(&client, second).await;
    assert_ne!(status.state, PromiseState::Withdrawn, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promise_that_a_kill_ended_is_told_and_stays_withdrawn_after_a_restart() {
    let (mut master, worker, client, [first, second], _) = killed(1_800).await;
    let told = promise(&client, first).await;
    assert_eq!(told.state, PromiseState::Withdrawn, "{told:?}");

    drop(worker);
    let (client, assigned) = first_again(&mut master).await;
    assert_eq!(promise(&client, first).await.state, PromiseState::Withdrawn);
    let of = |assignment: &Assignment| assignment.attempt.task.job;
    assert!(
        !assigned.iter().any(|one| of(one) == second),
        "they may be live elsewhere"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_refused_for_want_of_owners_says_so() {
    let master = Master::start().await;
    let client = master.admin().await;
    let _worker = master.host("pc").await;

    let mut spec = bag(1, 1_000, 100_000);
    spec.rules.quorum.size = 2;
    let refused = submit(&client, 1, &spec).await.unwrap_err();
    let told = format!("{refused:?}");
    let why = "2 results of different owners' hosts must agree, and all hosts that take work belong to 1 owner";
    assert!(
        told.contains(why) && told.contains("deskgrid host owner"),
        "{told}"
    );
}
