//! Lists of many jobs, hosts and tokens, and watches, which come some at a time.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_of_jobs_comes_whole_and_in_order() {
    let master = Master::start().await;
    let ann = master.user("ann").await;
    for request in 1..=230 {
        submit(&ann, request, &noops(1)).await.unwrap();
    }

    let settled = IdSet::from_range(20, 140);
    let cancelled = cancel(&ann, Selector::Ids(settled.clone())).await;
    let expected: Vec<_> = settled.iter().map(|id| (JobId(id), 1)).collect();
    assert_eq!(cancelled, expected);

    let list = async |jobs, states| -> Vec<(u32, bool)> {
        let views = job_views(&ann, jobs, states).await;
        views
            .iter()
            .map(|view| (view.job.0, view.state.settled()))
            .collect()
    };

    let all: Vec<_> = (1..=230).map(|id| (id, settled.contains(id))).collect();
    let of = |wanted: bool| {
        all.iter()
            .copied()
            .filter(|(_, settled)| *settled == wanted)
            .collect::<Vec<_>>()
    };

    assert_eq!(list(Selector::All, Vec::new()).await, all);
    assert_eq!(
        list(Selector::All, vec![JobState::Cancelled]).await,
        of(true)
    );
    assert_eq!(
        list(Selector::Ids(IdSet::new()), Vec::new()).await,
        of(false)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_unfinished_jobs_takes_no_longer_for_those_that_have_ended() {
    let mut master = Master::start().await;
    let identity = master.enrol(Role::Client, "ann").await;
    let ann = Client::connect(&identity).await.unwrap();
    for request in 1..=1_900 {
        submit(&ann, request, &noops(1)).await.unwrap();
    }
    cancel(&ann, Selector::Ids(IdSet::from_range(1, 1_899))).await;

    // Thirty-eight turns more, as for the jobs that have ended, would take 25 s.
    master
        .restart_with(|config| config.limits.requests_per_s = 1)
        .await;
    let ann = Client::connect(&towards(&master, &identity)).await.unwrap();
    let unfinished = Request::Jobs {
        jobs: Selector::All,
        states: vec![JobState::Waiting, JobState::Running],
    };
    let replies = tokio::time::timeout(Duration::from_secs(15), ann.ask(&unfinished))
        .await
        .expect("the turns of this one list alone")
        .unwrap();
    let [Reply::Jobs(views)] = &replies[..] else {
        panic!("{replies:?}")
    };
    let listed: Vec<u32> = views.iter().map(|view| view.job.0).collect();
    assert_eq!(listed, [1_900]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_hears_of_all_jobs_first_then_of_those_that_were_open_until_none_is() {
    let master = Master::start().await;
    let ann = master.user("ann").await;
    for request in 1..=3 {
        submit(&ann, request, &noops(1)).await.unwrap();
    }

    cancel(&ann, one(JobId(1))).await;

    let mut watched = ann
        .stream(&Request::Watch {
            jobs: Selector::All,
            quiet: false,
            timeout: None,
        })
        .await
        .unwrap();

    let mut told = Vec::new();
    while let Some(reply) = watched.next().await.unwrap() {
        let Reply::Jobs(views) = reply else {
            panic!("{reply:?}")
        };
        told.push(
            views
                .iter()
                .map(|view| (view.job.0, view.state.settled()))
                .collect::<Vec<_>>(),
        );

        let next = match told.last().unwrap()[..] {
            [(1, true), (2, false), (3, false)] => JobId(3),
            [(2, false), (3, true)] => JobId(2),
            _ => continue,
        };
        cancel(&ann, one(next)).await;
    }

    told.dedup();
    let [first, .., last] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(first[..], [(1, true), (2, false), (3, false)]);
    assert!(
        told[1..]
            .iter()
            .all(|round| round.iter().all(|(id, _)| *id != 1)),
        "{told:?}"
    );

    assert!(
        last.contains(&(2, true)) && last.iter().all(|(_, settled)| *settled),
        "{told:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_waiting_job_of_a_list_says_when_it_should_start() {
    let master = Master::start().await;
    let ann = master.user("ann").await;
    let mut worker = master.host("pc").await;

    for request in 1..=120 {
        submit(&ann, request, &noops(2)).await.unwrap();
    }

    worker.assignments(2).await;
    let views = job_views(&ann, Selector::Ids(IdSet::new()), Vec::new()).await;
    let mut last = common::Time::default();

    for view in views.iter().filter(|view| view.state == JobState::Waiting) {
        let starts = view
            .starts
            .unwrap_or_else(|| panic!("job {} waits", view.job));
        assert!(
            starts.low <= starts.start && starts.start <= starts.high,
            "{starts:?}"
        );
        assert!(
            last <= starts.start || view.job.0 % 100 == 1,
            "job {} before who is ahead",
            view.job
        );
        last = starts.start;
    }

    assert!(last > common::Time::default(), "somebody waits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_very_many_scattered_tasks_is_explained_in_short() {
    let master = Master::start().await;
    let admin = master.admin().await;
    let odd: IdSet = (0..60_000).map(|number| 2 * number + 1).collect();
    let tasks = TaskSet {
        ids: odd.clone(),
        items: Vec::new(),
    };
    let spec = JobSpec { tasks, ..noops(1) };
    let described = postcard::to_stdvec(&(&spec, common::SubmitOptions::default())).unwrap();
    let blob = admin.put_bytes(&described).await.unwrap();
    let request = submission(1, Submission::Blob(blob));
    admin.ask(&request).await.unwrap();

    let view = explain(&admin, JobId(1)).await;
    let (why, named) = &view.waiting[0];
    let named = common::selector::parse_ids(named).unwrap();
    assert!(!named.is_empty() && named == odd.intersection(&named));
    let more = odd.len() - named.len();
    assert!(
        why.contains(&format!("{more} tasks not named here")),
        "{why}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_for_each_of_6_000_hosts_is_listed() {
    if database::is_used() {
        return; // There is no file to write into.
    }
    let mut master = Master::start().await;
    master.stop().await;
    let sql = "WITH RECURSIVE pc (id) AS (SELECT 101 UNION ALL SELECT id + 1 FROM pc WHERE id < 6100)
         INSERT INTO token (id, secret_hash, role, name, uses_left, expires)
         SELECT id, zeroblob(32), 'worker', 'one-of-the-many-pcs-of-this-site-' || id, 1, 4102444800000000 FROM pc";
    master.store_file().execute(sql, []).unwrap();
    // The master would notice that somebody has changed it.
    master.settings = |config| config.accept.store = true;
    master.again().await;

    let admin = master.admin().await;
    let replies = within(admin.ask(&Request::TokenList)).await.unwrap();
    let listed = replies.into_iter().flat_map(|reply| match reply {
        Reply::Tokens(tokens) => tokens,
        other => panic!("{other:?}"),
    });
    let listed = listed.map(|token| token.id).filter(|id| *id > 100);
    assert_eq!(
        listed.collect::<Vec<_>>(),
        (101..=6_100).collect::<Vec<u32>>()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_are_named_are_listed_in_that_order_and_each_once() {
    let master = Master::start().await;
    for number in 0..60 {
        drop(master.host(&format!("pc-{number}")).await);
    }

    let named: Vec<String> = (0..60).rev().map(|number| format!("pc-{number}")).collect();
    let names = named
        .iter()
        .flat_map(|name| [name.clone(), named[0].clone()]);
    let names: Vec<String> = names.collect();
    let listed = host_views(&master.admin().await, names).await.into_iter();
    let listed: Vec<String> = listed.map(|host| host.facts.name).collect();
    assert_eq!(listed, named);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_selection_the_jobs_that_are_not_settled_are_listed() {
    let master = Master::start().await;
    let ann = master.user("ann").await;
    let (cancelled, _) = submit(&ann, 1, &noops(1)).await.unwrap();
    let (open, _) = submit(&ann, 2, &noops(1)).await.unwrap();

    submit(&master.admin().await, 3, &noops(1)).await.unwrap();
    cancel(&ann, one(cancelled)).await;

    let views = job_views(&ann, Selector::Ids(IdSet::new()), Vec::new()).await;
    assert_eq!(
        views.iter().map(|view| view.job).collect::<Vec<_>>(),
        [open]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_says_of_the_first_jobs_only_when_they_are_finished_and_a_single_job_always() {
    let master = Master::start().await;
    let _worker = master.host("pc").await;
    let admin = master.admin().await;

    for id in 1..=34 {
        let rules = Rules {
            estimate: Some(Span::from_secs(60)),
            ..Rules::default()
        };
        submit(&admin, id, &JobSpec { rules, ..noops(1) })
            .await
            .unwrap();
    }

    let predicted = async |jobs: Selector, states: Vec<JobState>| {
        let views = job_views(&admin, jobs, states).await;
        views
            .iter()
            .filter(|view| view.predicted.is_some())
            .map(|view| view.job.0)
            .collect::<Vec<_>>()
    };

    let numbers = |first, last| (first..=last).collect::<Vec<_>>();
    for all in [Selector::Ids(IdSet::new()), Selector::All] {
        assert_eq!(predicted(all, Vec::new()).await, numbers(1, 32));
    }

    // The two that run are not among them.
    assert_eq!(
        predicted(Selector::All, vec![JobState::Waiting]).await,
        numbers(3, 34)
    );
    assert_eq!(
        predicted(Selector::Ids(IdSet::from_range(34, 34)), Vec::new()).await,
        [34]
    );
}
