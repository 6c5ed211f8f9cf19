//! Followers of events, over the wire: what an event costs, and followers that read too slowly or
//! too late.

use common::event::{EventView, Following, GridEvent};
use common::host::YieldReason;
use common::wire::encode;

use super::*;

/// All that has happened beyond this event, as replies.
async fn past(client: &Client, after: u64, results: bool) -> Vec<Reply> {
    let following = Following {
        after: Some(after),
        results,
        ..Following::default()
    };
    within(client.ask(&Request::Follow(following)))
        .await
        .unwrap()
}

/// The events in these replies.
fn views(replies: &[Reply]) -> Vec<EventView> {
    let pages = replies.iter().filter_map(|reply| match reply {
        Reply::Events(page) => Some(page.events.clone()),
        _ => None,
    });
    pages.flatten().collect()
}

/// Runs a bag of so many tasks that do nothing.
async fn run(worker: &mut Worker, client: &Client, request: u128, tasks: u32) {
    submit(client, request, &noops(tasks)).await.unwrap();
    for _ in 0..tasks {
        let assigned = worker.assignments(1).await;
        worker.deliver(assigned[0].attempt).await;
    }
    let jobs = Selector::Last;
    let watch = Request::Watch {
        jobs,
        quiet: true,
        timeout: None,
    };
    within(client.ask(&watch)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_task_costs_its_followers_and_the_store_at_most_150_bytes() {
    const TASKS: u32 = 3_000;
    let master = Master::start().await;
    let mut worker = master.host("a-pc-with-quite-a-long-name").await;
    let admin = master.admin().await;
    run(&mut worker, &admin, 1, TASKS).await;

    let replies = past(&admin, 0, true).await;
    let all = views(&replies);
    let finished = |view: &&EventView| matches!(view.event, GridEvent::TaskFinished { .. });
    assert_eq!(all.iter().filter(finished).count(), TASKS as usize);
    let numbers: Vec<u64> = all.iter().map(|view| view.seq).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());

    let sent: usize = replies.iter().map(|r| encode(r).unwrap().len()).sum();
    let each = sent / TASKS as usize;
    assert!(each <= 150, "{each} bytes on the wire for each task");

    if database::is_used() {
        return; // There is no file to look into.
    }
    let db = master.store_file();
    // Beside its body, a row has two numbers and its header.
    let sql = "SELECT sum(length(body) + 24) FROM event";
    let kept: u32 = db.query_row(sql, [], |row| row.get(0)).unwrap();
    let each = kept / TASKS;
    assert!(each <= 150, "{each} bytes in the store for each task");
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_are_long_together_come_each_with_its_event() {
    const TASKS: u32 = 900;
    let master = Master::start().await;
    let mut worker = master.host("pc").await;
    worker.stdout = Content::Inline(vec![b'x'; 4_000]);
    let admin = master.admin().await;
    run(&mut worker, &admin, 1, TASKS).await;

    let all = views(&past(&admin, 0, true).await);
    let numbers: Vec<u64> = all.iter().map(|view| view.seq).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let finished = all.iter().filter_map(|view| match view.event {
        GridEvent::TaskFinished { .. } => Some(view.result.as_ref()?.output.attempt.task),
        _ => None,
    });
    let settled = all.iter().filter(|view| view.event.has_result());
    let settled: Vec<_> = settled.filter_map(|view| view.event.task()).collect();
    assert_eq!(settled.len(), TASKS as usize);
    assert_eq!(finished.collect::<Vec<_>>(), settled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_never_reads_is_put_out_and_holds_up_nobody() {
    const TASKS: u32 = 1_500;
    let settings = |config: &mut Config| {
        config.limits.answer_patience = ConfigDuration::from_secs(4);
    };
    let master = Master::with(settings).await;
    let mut worker = master.host("pc").await;
    worker.stdout = Content::Inline(vec![b'x'; 4_000]);
    let ann = master.enrol(Role::Client, "ann").await;
    let deaf = Client::connect(&ann).await.unwrap();
    let following = Following {
        after: Some(0),
        results: true,
        wait: true,
        ..Following::default()
    };
    let unread = deaf
        .stream(&Request::Follow(following.clone()))
        .await
        .unwrap();

    let client = Client::connect(&ann).await.unwrap();
    let mut replies = client.stream(&Request::Follow(following)).await.unwrap();
    let mut reading = async |tasks: u32| {
        let mut finished = 0;
        while finished < tasks {
            let reply = within(replies.next()).await.unwrap().unwrap();
            let with_result = |view: &&EventView| view.result.is_some();
            finished += views(&[reply]).iter().filter(with_result).count() as u32;
        }
    };
    tokio::join!(run(&mut worker, &client, 1, TASKS), reading(TASKS));

    let why = within(deaf.connection().closed()).await;
    assert!(why.to_string().contains("was not read"), "{why}");
    drop(unread);

    // Whoever reads is not put out, however long nothing happens.
    tokio::join!(run(&mut worker, &client, 2, 1), reading(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_comes_too_late_is_told_from_where_to_go_on() {
    let mut master = Master::start().await;
    let mut worker = master.host("pc").await;
    let admin = master.admin().await;
    run(&mut worker, &admin, 1, 20).await;
    let seen = views(&past(&admin, 0, false).await);
    let last = seen.last().unwrap().seq;
    drop(worker);

    // What is too much is removed once the content is swept.
    master.content_grace = Duration::from_secs(1);
    master.restart_with(|config| config.limits.events = 3).await;
    let admin = master.admin().await;
    let (after, from, events) = within(async {
        loop {
            let replies = past(&admin, 1, false).await;
            let lagged = replies.iter().find_map(|reply| match reply {
                Reply::Lagged { after, from } => Some((*after, *from)),
                _ => None,
            });
            if let Some((after, from)) = lagged {
                return (after, from, views(&replies));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(after, 1);
    assert!(from > 2 && events.first().is_none_or(|view| view.seq == from));

    // Whoever has seen the last one misses nothing; nobody gets what is not there yet.
    let replies = past(&admin, last, false).await;
    assert!(!replies.iter().any(|r| matches!(r, Reply::Lagged { .. })));
    let future = Following {
        after: Some(last + 1_000),
        ..Following::default()
    };
    let refused = refusal(&admin, &Request::Follow(future)).await;
    assert!(
        code(&refused) == RefusalCode::Invalid && refused.to_string().contains("no event"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_repeats_an_attempt_counts_with_the_last_report_of_it_alone() {
    let master = Master::start().await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let mut worker = master.worker(&pc, Vec::new()).await;
    let admin = master.admin().await;
    submit(&admin, 1, &noops(1)).await.unwrap();
    let attempt = worker.assignments(1).await.remove(0).attempt;

    let in_phase = |phase| HeldAttempt {
        phase,
        ..held(attempt)
    };
    let suspended = in_phase(Phase::Suspended(YieldReason::InUse));
    for last in [suspended.clone(), in_phase(Phase::Running)] {
        let round = [in_phase(Phase::Queued), held(attempt), suspended.clone()];
        let mut reports = vec![round; 50].concat();
        reports.extend(vec![last; 50]);
        let phases = ToMaster::Phases(reports);
        worker.tell(phases).await;
    }
    worker.deliver(attempt).await;
    worker.acknowledged(attempt).await;

    let all = views(&past(&admin, 0, false).await);
    let named = |name: &str| all.iter().filter(|view| view.event.name() == name).count();
    let told = ["task-running", "task-suspended", "task-resumed"].map(named);
    assert_eq!(told, [1; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_gets_beyond_damaged_events_and_is_told_which_they_are() {
    if database::is_used() {
        return; // There is no file to damage.
    }
    let master = Master::start().await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let mut worker = master.worker(&pc, Vec::new()).await;
    let admin = master.admin().await;
    run(&mut worker, &admin, 1, 3).await;
    let last = views(&past(&admin, 0, false).await).last().unwrap().seq;

    let db = rusqlite::Connection::open(master.dir.path().join("master/store.sqlite")).unwrap();
    let upto = i64::try_from(last).unwrap();
    db.execute("UPDATE event SET body = x'ff' WHERE last <= ?1", [upto])
        .unwrap();
    drop(db);
    let replies = past(&admin, 0, false).await;
    let gap = replies.iter().find_map(|reply| match reply {
        Reply::Lagged { after, from } => Some((*after, *from)),
        _ => None,
    });
    assert_eq!(gap, Some((0, last + 1)), "{replies:?}");

    run(&mut worker, &admin, 2, 1).await;
    let told = views(&past(&admin, 0, false).await);
    assert!(!told.is_empty() && told[0].seq == last + 1, "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_a_settled_job_that_runs_again_is_told_as_reopened() {
    let master = Master::start().await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let mut worker = master.worker(&pc, Vec::new()).await;
    let admin = master.admin().await;
    let (job, _) = submit(&admin, 1, &noops(1)).await.unwrap();
    let attempt = worker.assignments(1).await.remove(0).attempt;
    let blob = worker.put(&[7; 9_000]).await;
    worker.stdout = Content::Blob(blob);
    worker.deliver(attempt).await;
    worker.acknowledged(attempt).await;
    assert_eq!(state(&admin, job).await, JobState::Finished);

    super::content::damage(&master, blob);
    let tasks = Selector::All;
    let recompute = Request::Recompute { job, tasks };
    within(admin.ask(&recompute)).await.unwrap();
    worker.assignments(1).await;

    let following = Following {
        after: Some(0),
        wait: true,
        ..Following::default()
    };
    let mut replies = within(admin.stream(&Request::Follow(following)))
        .await
        .unwrap();
    let mut told = Vec::new();
    let assigned = |event: &&GridEvent| matches!(event, GridEvent::TaskAssigned { .. });
    while told.iter().filter(assigned).count() < 2 {
        let reply = within(replies.next()).await.unwrap().unwrap();
        told.extend(views(&[reply]).into_iter().map(|view| view.event));
    }
    let tasks = IdSet::from_range(1, 1);
    let reopened = GridEvent::TasksReopened { job, tasks };
    assert!(told.contains(&reopened), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_label_are_told_of_jobs_that_are_submitted_later_and_of_no_others() {
    let master = Master::start().await;
    let admin = master.admin().await;
    let label: common::needs::Label = "late".parse().unwrap();
    let following = Following {
        jobs: Some(Selector::Labelled([label.clone()].into())),
        after: Some(0),
        wait: true,
        ..Following::default()
    };
    let mut replies = within(admin.stream(&Request::Follow(following)))
        .await
        .unwrap();
    let first = within(replies.next()).await.unwrap().unwrap();
    assert!(views(&[first]).is_empty(), "nothing has happened");

    submit(&admin, 1, &noops(1)).await.unwrap();
    let asked = common::SubmitOptions {
        labels: [label].into(),
        ..common::SubmitOptions::default()
    };
    let labelled = Submission::Inline(Box::new(noops(1)), asked);
    let labelled = submission(2, labelled);
    within(admin.ask(&labelled)).await.unwrap();

    let mut told = Vec::new();
    while told.is_empty() {
        let reply = within(replies.next()).await.unwrap().unwrap();
        told = views(&[reply]);
    }
    let jobs: Vec<Option<JobId>> = told.iter().map(|view| view.event.job()).collect();
    assert_eq!(jobs, [Some(JobId(2))]);
}
