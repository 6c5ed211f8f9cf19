//! What one peer may take of the master: jobs, bytes, connections, and nobody else's turn.

#[path = "memory.rs"]
mod memory;

use common::wire::client::Addition;
use common::{After, EndCondition, NewTasks, SubmitOptions, TaskId};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_so_many_unsettled_jobs_and_no_more_and_others_have_theirs() {
    let mut master = Master::with(|config| config.limits.open_jobs_per_user = 3).await;
    let ann = master.enrol(Role::Client, "ann").await;
    let client = Client::connect(&ann).await.unwrap();
    for id in 1..=3 {
        submit(&client, id, &noops(1)).await.unwrap();
    }

    let fourth = submit(&client, 4, &noops(1)).await.err().unwrap();
    assert!(
        code(&fourth) == RefusalCode::Conflict && fourth.to_string().contains("3 jobs"),
        "{fourth}"
    );
    assert!(
        submit(&client, 1, &noops(1)).await.unwrap().1,
        "the same request is the same job"
    );
    let bob = master.user("bob").await;
    submit(&bob, 5, &noops(1)).await.unwrap();

    // Also after a restart; and what is settled does not count.
    master.restart().await;

    let client = Client::connect(&towards(&master, &ann)).await.unwrap();
    assert_eq!(
        code(&submit(&client, 4, &noops(1)).await.err().unwrap()),
        RefusalCode::Conflict
    );

    cancel(&client, one(JobId(1))).await;

    submit(&client, 4, &noops(1)).await.unwrap();
}

/// A master, its admin, and a job of theirs that was cancelled.
async fn with_a_settled_job() -> (Master, Client, JobId) {
    let master = Master::start().await;
    let client = master.admin().await;
    let (settled, _) = submit(&client, 1, &noops(1)).await.unwrap();
    cancel(&client, Selector::Last).await;
    (master, client, settled)
}

/// Stops the master, damages what its store has of jobs, and starts it again with these settings.
async fn goes_on_damaged(master: &mut Master, damage: &str, settings: fn(&mut Config)) {
    master.stop().await;
    assert!(master.store_file().execute(damage, []).unwrap() > 0);
    master.settings = settings;
    master.again().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_settled_job_that_goes_before_another_one_only_the_state_is_read() {
    if database::is_used() {
        return; // There is no file to damage.
    }
    let (mut master, _client, settled) = with_a_settled_job().await;

    // A master that reads the spec of the settled job in its core ends.
    let damage = format!("UPDATE job SET spec = x'FF' WHERE id = {settled}");
    let settings = |config: &mut Config| config.accept.store = true;
    goes_on_damaged(&mut master, &damage, settings).await;

    let client = master.admin().await;
    let after = |how| {
        let asked = SubmitOptions {
            after: vec![After { job: settled, how }],
            ..SubmitOptions::default()
        };
        submission(2, Submission::Inline(Box::new(noops(1)), asked))
    };
    let refused = refusal(&client, &after(EndCondition::Ok)).await;
    assert_eq!(code(&refused), RefusalCode::Conflict);
    let taken = within(client.ask(&after(EndCondition::Any))).await.unwrap();
    assert!(
        matches!(taken[..], [Reply::Submitted { job: Some(_), .. }]),
        "{taken:?}"
    );
}

/// A job that is open for more tasks.
fn open(spec: JobSpec) -> Submission {
    let asked = SubmitOptions {
        open: true,
        ..SubmitOptions::default()
    };
    Submission::Inline(Box::new(spec), asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_is_refused_where_its_user_has_no_room_for_the_job_or_for_added_tasks() {
    // There is room for two jobs without a word to spare.
    let master = Master::with(|config| {
        let body = postcard::to_stdvec(&(noops(1), SubmitOptions::default(), false)).unwrap();
        config.limits.open_jobs_per_user = 2;
        config.limits.open_spec_bytes_per_user = 2 * body.len() as u64 + 50;
    })
    .await;
    let client = master.admin().await;
    let dry = |id: u128, spec: &JobSpec| Request::Submit {
        id: RequestId(uuid::Uuid::from_u128(id)),
        spec: spec.clone().into(),
        disclosed: false,
        dry_run: true,
    };

    submit(&client, 1, &noops(1)).await.unwrap();
    client.ask(&dry(2, &noops(1))).await.unwrap();
    let why = refusal(&client, &dry(2, &wordy(200))).await;
    assert!(
        code(&why) == RefusalCode::Conflict
            && why.to_string().contains("unsettled jobs would take"),
        "{why}"
    );

    client.ask(&submission(3, open(noops(1)))).await.unwrap();
    let why = refusal(&client, &dry(4, &noops(1))).await;
    assert!(
        code(&why) == RefusalCode::Conflict && why.to_string().contains("2 jobs"),
        "{why}"
    );

    let add = |dry_run| Request::AddTasks {
        id: RequestId(uuid::Uuid::from_u128(5)),
        job: JobId(2),
        tasks: Addition::Inline(NewTasks::Ids((1..=400_u32).map(|at| 2 * at).collect())),
        dry_run,
    };
    for dry_run in [true, false] {
        let why = refusal(&client, &add(dry_run)).await;
        assert!(
            code(&why) == RefusalCode::Conflict
                && why.to_string().contains("unsettled jobs would take"),
            "{why}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_job_for_which_there_is_no_room_is_refused_before_it_is_loaded() {
    if database::is_used() {
        return; // There is no file to damage.
    }
    let (mut master, client, settled) = with_a_settled_job().await;
    for id in 2..=4 {
        submit(&client, id, &noops(1)).await.unwrap();
    }

    // A master that loads the settled job ends.
    let settings = |config: &mut Config| {
        config.accept.store = true;
        config.limits.open_jobs_per_user = 3;
    };
    let damage = format!("UPDATE job SET estimates = x'FF' WHERE id = {settled}");
    goes_on_damaged(&mut master, &damage, settings).await;

    let client = master.admin().await;
    let retry = Request::Retry {
        job: settled,
        tasks: Selector::All,
        only_failed: false,
    };
    for _ in 0..2 {
        let refused = within(client.ask(&retry)).await.err().unwrap();
        assert!(
            code(&refused) == RefusalCode::Conflict && refused.to_string().contains("3 jobs"),
            "{refused}"
        );
    }
}

/// Asks `again` for a job that was settled, whose user has as many others as there may be: that is
/// refused until one of them, `open`, is settled, too.
async fn comes_back_where_there_is_room(
    client: &Client,
    (settled, open): (JobId, JobId),
    again: &Request,
) {
    let refused = within(client.ask(again)).await.err().unwrap();
    assert!(
        code(&refused) == RefusalCode::Conflict && refused.to_string().contains("3 jobs"),
        "{refused}"
    );
    assert!(state(client, settled).await.settled());

    cancel(client, one(open)).await;
    assert_eq!(changed(client, again).await, [(settled, 1)]);
    assert!(!state(client, settled).await.settled());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_job_is_tried_again_only_where_its_user_has_room_for_it() {
    let master = Master::with(|config| config.limits.open_jobs_per_user = 3).await;
    let ann = master.enrol(Role::Client, "ann").await;
    let client = Client::connect(&ann).await.unwrap();
    let (settled, _) = submit(&client, 1, &noops(1)).await.unwrap();
    cancel(&client, Selector::Last).await;
    let (open, _) = submit(&client, 2, &noops(1)).await.unwrap();
    for id in 3..=4 {
        submit(&client, id, &noops(1)).await.unwrap();
    }

    let retry = Request::Retry {
        job: settled,
        tasks: Selector::All,
        only_failed: false,
    };
    comes_back_where_there_is_room(&client, (settled, open), &retry).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_job_is_computed_again_only_where_its_user_has_room_for_it() {
    let master = Master::with(|config| config.limits.open_jobs_per_user = 3).await;
    let ann = master.enrol(Role::Client, "ann").await;
    let client = Client::connect(&ann).await.unwrap();
    let mut worker = master.host("pc").await;
    let (settled, _) = submit(&client, 1, &noops(1)).await.unwrap();
    let attempt = worker.assignments(1).await.remove(0).attempt;
    let blob = worker.put(&[7; 9_000]).await;
    worker.stdout = Content::Blob(blob);
    worker.finish(attempt).await;
    content::damage(&master, blob);

    let (open, _) = submit(&client, 2, &noops(1)).await.unwrap();
    for id in 3..=4 {
        submit(&client, id, &noops(1)).await.unwrap();
    }
    let recompute = Request::Recompute {
        job: settled,
        tasks: Selector::All,
    };
    comes_back_where_there_is_room(&client, (settled, open), &recompute).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn evicted_output_of_a_settled_job_is_requested_only_where_its_user_has_room_for_it() {
    let master = Master::with(|config| {
        config.limits.open_jobs_per_user = 3;
        config.limits.unrequested_bytes_per_user = 6_000;
    })
    .await;
    let mut ann = shelf::User::of(&master, "ann", 1).await;
    let mut worker = master.host("pc").await;
    let settled = ann.disclose(1).await;
    worker.executes(1, 3_000).await;
    // Both have been started when the first of them is kept, so the second evicts the oldest.
    ann.disclose(2).await;
    worker.executes(2, 3_000).await;

    let open = ann.disclose(1).await;
    for _ in 0..2 {
        ann.disclose(1).await;
    }
    let request = Request::RequestTasks {
        job: settled,
        tasks: Selector::All,
    };
    comes_back_where_there_is_room(&ann.client, (settled, open), &request).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_job_of_which_nothing_is_to_be_tried_again_is_not_loaded_for_that() {
    if database::is_used() {
        return; // There is no file to damage.
    }
    let mut master = Master::start().await;
    let mut worker = master.host("pc").await;
    let client = master.admin().await;
    let (finished, _) = submit(&client, 1, &noops(1)).await.unwrap();
    let attempt = worker.assignments(1).await.remove(0).attempt;
    worker.finish(attempt).await;
    let (cancelled, _) = submit(&client, 2, &noops(1)).await.unwrap();
    cancel(&client, Selector::Last).await;

    // A master that loads one of them ends.
    let damage = "UPDATE job SET estimates = x'FF'";
    goes_on_damaged(&mut master, damage, |config| config.accept.store = true).await;

    let client = master.admin().await;
    for (job, only_failed) in [(finished, false), (finished, true), (cancelled, true)] {
        let retry = Request::Retry {
            job,
            tasks: Selector::All,
            only_failed,
        };
        assert_eq!(changed(&client, &retry).await, [(job, 0)]);
    }
}

fn wordy(bytes: usize) -> JobSpec {
    JobSpec {
        name: "x".repeat(bytes),
        ..noops(1)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_no_task_could_have_are_refused_before_they_are_read() {
    let master = Master::start().await;
    let client = master.admin().await;
    let spec = JobSpec {
        work: Work::Command(CommandSpec::new(vec!["".parse().unwrap(); 100_000])),
        ..noops(1)
    };

    let described = postcard::to_stdvec(&(&spec, common::SubmitOptions::default())).unwrap();
    let blob = client.put_bytes(&described).await.unwrap();
    let refused = refusal(&client, &submission(9, Submission::Blob(blob))).await;
    assert_eq!(code(&refused), RefusalCode::Invalid, "{refused}");
    assert!(refused.to_string().contains("broken"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn descriptions_of_jobs_are_bounded_one_by_one_and_together() {
    let master = Master::with(|config| {
        config.limits.spec_bytes = 4_000;
        config.limits.open_spec_bytes_per_user = 300;
    })
    .await;
    let client = master.admin().await;
    let large = client
        .put_bytes(&postcard::to_stdvec(&wordy(5_000)).unwrap())
        .await
        .unwrap();
    let refused = refusal(&client, &submission(9, Submission::Blob(large))).await;
    assert!(
        code(&refused) == RefusalCode::Invalid && refused.to_string().contains("takes 4000"),
        "{refused}"
    );

    let mut taken = 0;
    while submit(&client, taken + 1, &wordy(60)).await.is_ok() {
        taken += 1;
    }

    assert!(
        (1..=4).contains(&taken),
        "{taken} jobs of more than sixty bytes in three hundred"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_so_many_connections_and_a_worker_keeps_its_newest() {
    let master = Master::with(|config| config.limits.connections_per_user = 2).await;
    let ann = master.enrol(Role::Client, "ann").await;
    let kept = [
        Client::connect(&ann).await.unwrap(),
        Client::connect(&ann).await.unwrap(),
    ];
    submit(&kept[1], 1, &noops(1)).await.unwrap();

    // Both are asked something: neither makes room.
    let mut watched = Vec::new();
    for client in &kept {
        let watch = Request::Watch {
            jobs: Selector::All,
            quiet: true,
            timeout: None,
        };
        let mut replies = client.stream(&watch).await.unwrap();
        within(replies.next()).await.unwrap();
        watched.push(replies);
    }

    let third = Client::connect(&ann).await.err().unwrap();
    assert!(
        third.passing() && third.to_string().contains("2 connections already"),
        "{third:?}"
    );

    let [one, two] = kept;
    one.close().await;
    eventually(async || Client::connect(&ann).await.is_ok()).await;

    submit(&two, 2, &noops(1)).await.unwrap();

    let pc = master.enrol(Role::Worker, "pc").await;
    // Greeted, so it was let in before the others came.
    let oldest = master.worker(&pc, Vec::new()).await;
    let mut others = Vec::new();
    for _ in 0..4 {
        others.push(link::connect(&pc, Purpose::Worker).await.unwrap());
    }

    assert!(within(oldest.connection.closed()).await.passing());
    master.worker(&pc, Vec::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_too_many_waits_for_another_to_end() {
    let master = Master::start().await;
    let ann = master.user("ann").await;
    let mut silent = Vec::new();

    while let Ok(opened) = tokio::time::timeout(
        Duration::from_millis(500),
        ann.connection().open(&Open::Request),
    )
    .await
    {
        silent.push(opened.unwrap());
        assert!(silent.len() <= 16, "more streams than are allowed");
    }
    assert!(silent.len() >= 8);

    // Credit for new ones comes once some have ended.
    silent.truncate(4);
    within(ann.connection().open_bare()).await.unwrap();
}

/// Has a worker say all of this again and again and read nothing, while another one gets its answers.
async fn talks_without_end(master: &Master, mut loud: Worker, said: Vec<ToMaster>) {
    let flood = tokio::spawn(async move {
        loop {
            for message in said.iter().cycle().take(200) {
                loud.control.tx.push(message).unwrap();
            }
            if loud.control.tx.flush().await.is_err() {
                return;
            }
        }
    });

    let mut quiet = master.host("quiet").await;
    submit(&master.admin().await, 1, &noops(2)).await.unwrap();
    within(async {
        for _ in 0..20 {
            quiet.tell(heartbeat(Vec::new())).await;
            while !matches!(quiet.next().await, ToWorker::Beat { .. }) {}
        }
    })
    .await;

    flood.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_talks_without_end_and_reads_nothing_holds_up_nobody_else() {
    let master = Master::start().await;
    let loud = master.host("loud").await;
    // Each heartbeat wants an answer, and none is read.
    talks_without_end(&master, loud, vec![heartbeat(Vec::new())]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_says_without_end_that_it_saved_no_state_holds_up_nobody_else() {
    let master = Master::start().await;
    let mut loud = master.host("loud").await;
    submit(&master.admin().await, 2, &saving_job())
        .await
        .unwrap();
    let attempt = loud.assignments(1).await.remove(0).attempt;

    // The core writes each of them down.
    let why = || "no room".to_owned();
    let said = [Saving::Refused(why()), Saving::FromScratch(why())];
    let said = said.map(|saving| ToMaster::Checkpoint {
        attempt,
        sequence: 1,
        saving,
    });
    talks_without_end(&master, loud, said.into()).await;
}

/// Makes tasks from 1 that print what the placeholder of this name stands for, so often.
fn repeats(name: &str, times: usize, tasks: u32) -> JobSpec {
    let text = format!("%{{{name}}}").repeat(times);
    let argv = vec!["echo".parse().unwrap(), text.parse().unwrap()];
    JobSpec {
        work: Work::Command(CommandSpec::new(argv)),
        ..noops(tasks)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_no_message_could_describe_to_its_host_is_refused_and_no_session_ends() {
    let master = Master::start().await;
    let client = master.admin().await;
    let mut quiet = master.host("quiet").await;

    // Each is short for the first task, the first job, or a host with a short name.
    let long = [
        repeats("TASK_ID", 20_000, 100_000),
        repeats("JOB_ID", 11_000, 1),
        repeats("HOST", 1_400, 1),
    ];
    for (id, spec) in (1..).zip(&long) {
        let refused = submit(&client, id, spec).await.err().unwrap();
        assert_eq!(code(&refused), RefusalCode::Invalid, "{refused}");
        assert!(refused.to_string().contains("102400 at most"), "{refused}");
    }

    // An item is in the command and in the environment.
    let items = |items: Vec<String>| JobSpec {
        tasks: TaskSet {
            ids: IdSet::from_range(1, items.len() as u32),
            items,
        },
        ..repeats("ITEM", 1, 1)
    };
    let listed = items(vec!["short".into(), "x".repeat(60_000), "short".into()]);
    let refused = submit(&client, 4, &listed).await.err().unwrap();
    assert!(refused.to_string().contains("task 2:"), "{refused}");

    let (job, _) = submitted(&client, &submission(5, open(items(vec!["short".into()]))))
        .await
        .unwrap();
    let add = |id: u128, item: String| Request::AddTasks {
        id: RequestId(uuid::Uuid::from_u128(id)),
        job,
        tasks: Addition::Inline(NewTasks::Items(vec![item])),
        dry_run: false,
    };
    let refused = refusal(&client, &add(6, "x".repeat(150_000))).await;
    assert_eq!(code(&refused), RefusalCode::Invalid, "{refused}");
    assert!(refused.to_string().contains("task 2:"), "{refused}");

    // The same session goes on, and what fits is done.
    client.ask(&add(7, "y".repeat(40_000))).await.unwrap();
    for index in 1..=2 {
        let attempt = quiet.assignments(1).await.remove(0).attempt;
        assert_eq!(attempt.task, TaskId::new(job, index));
        quiet.finish(attempt).await;
    }
}

/// How many workers come back at once in a test; a benchmark does the same with ten thousand.
const CROWD: u32 = 300;

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_workers_comes_back_after_a_restart_and_no_lease_is_lost() {
    let mut master = Master::start().await;
    let token = master.token(Role::Worker, CROWD).await;
    let mut identities = Vec::new();

    for n in 0..CROWD {
        identities.push(
            link::enrol(&master.address(), &token, &format!("pc{n}"))
                .await
                .unwrap(),
        );
    }

    let (job, _) = submit(&master.admin().await, 1, &noops(2 * CROWD))
        .await
        .unwrap();
    let mut holders = Vec::new();
    for identity in identities {
        let mut worker = master.worker(&identity, Vec::new()).await;
        let held: Vec<AttemptId> = worker
            .assignments(2)
            .await
            .iter()
            .map(|a| a.attempt)
            .collect();
        holders.push((identity, held));
    }

    master.restart().await;

    // All at once, as often as it takes.
    let master = &master;
    let back = holders.iter().map(|(identity, attempts)| async move {
        let held: Vec<HeldAttempt> = attempts.iter().map(|attempt| held(*attempt)).collect();
        let mut worker = comes_back(master, identity, held).await;
        let ToWorker::Welcome { abandon, .. } = &worker.welcome else {
            panic!("{:?}", worker.welcome)
        };
        assert!(abandon.is_empty());
        for attempt in attempts {
            worker.finish(*attempt).await;
        }
    });
    let mut all: Vec<_> = back.map(Box::pin).collect();
    let everybody = std::future::poll_fn(|cx| {
        all.retain_mut(|one| one.as_mut().poll(cx).is_pending());
        if all.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    });
    tokio::time::timeout(Duration::from_secs(120), everybody)
        .await
        .expect("everybody is back");

    let views = job_views(&master.admin().await, one(job), Vec::new()).await;
    assert_eq!(
        (views[0].state, views[0].attempts),
        (JobState::Finished, u64::from(2 * CROWD)),
        "no attempt was lost"
    );
}

/// A worker that tries until it has an answer.
async fn comes_back(master: &Master, identity: &Identity, held: Vec<HeldAttempt>) -> Worker {
    let hello = hello(held);
    let mut backoff = link::retry::Backoff::default();
    loop {
        match master.greeted(identity, &hello).await {
            Ok(worker) => return worker,
            Err(error) => assert!(error.passing(), "{error:?}"),
        }

        tokio::time::sleep(backoff.delay()).await;
    }
}

/// The names of the hosts that are drained.
async fn drained(master: &Master) -> Vec<String> {
    let hosts = host_views(&master.admin().await, Vec::new()).await;
    hosts
        .into_iter()
        .filter(|host| host.state == HostState::Draining)
        .map(|host| host.facts.name)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_begin_nothing_are_drained_one_by_one_and_not_all_at_once() {
    let master =
        Master::with(|config| config.begin_within = ConfigDuration::from_millis(1_000)).await;
    let mut stuck = Vec::new();
    for name in ["one", "two", "three"] {
        stuck.push(master.host(name).await);
    }
    submit(&master.admin().await, 1, &noops(6)).await.unwrap();
    let mut given = Vec::new();
    for worker in &mut stuck {
        given.push(worker.assignments(1).await.remove(0).attempt);
    }

    // It stays ready, whatever is copied to it.
    let roomy = HostFacts {
        slots: 64,
        ..facts()
    };
    let hello = greeting(Versions::ours(), roomy, Vec::new());
    let ready = master.enrol(Role::Worker, "ready").await;
    let _ready = master.worker_with(&ready, &hello).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(drained(&master).await, Vec::<String>::new());

    for (worker, attempt) in stuck.iter_mut().zip(given).take(2) {
        worker.tell(ToMaster::Phases(vec![held(attempt)])).await;
    }
    eventually(async || !drained(&master).await.is_empty()).await;
    assert_eq!(drained(&master).await, ["three"]);
}
