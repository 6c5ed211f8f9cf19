//! A database with a replica: its primary dies, and the replica takes its place, while masters work on
//! it. What was acknowledged is there, once.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tests::{Http, Replicated, Started, eventually};
use uuid::Uuid;

use super::pair::{LEASE_AND_MORE, LONG, Pair};

/// A pair on a primary with a replica. `None` where there is no server; says so.
fn start(synchronous: bool) -> Option<(Replicated, Pair)> {
    let Some(servers) = Replicated::start(synchronous) else {
        super::skip("DESKGRID_TEST_PG_BIN names no PostgreSQL (tests/postgres does)");
        return None;
    };
    let mut pair = Pair::on(servers.database());
    pair.begin();
    Some((servers, pair))
}

/// Submits with this request id, until that is acknowledged. Returns the answer.
fn submit(pair: &Pair, request: &str) -> Value {
    eventually("a submission is acknowledged", LONG, || {
        let words = ["--output", "json", "submit", "--request-id", request];
        let answer = pair.run("user", &[&words[..], &["--", "true"]].concat());
        (answer.code == 0).then(|| answer.json())
    })
}

fn new_request() -> String {
    Uuid::from_bytes(rand::random()).to_string()
}

/// The job of a submission that was acknowledged, which must be the job of a repeat as well.
fn expect_one_job(pair: &Pair, request: &str, answer: &Value) {
    let again = pair.json(&["submit", "--request-id", request, "--", "true"]);
    assert_eq!(again["job"], answer["job"], "one request, one job");
    let job = again["job"].to_string();
    pair.wait(&job);
}

#[test]
fn a_replica_that_confirms_commits_takes_over_from_a_killed_primary_and_nothing_is_lost() {
    let Some((mut servers, mut pair)) = start(true) else {
        return;
    };
    let (job, file) = pair.submit(12, 0.5);
    eventually("some have run", LONG, || file.exists().then_some(()));
    let token = pair.lease();

    servers.kill_primary();
    let request = new_request();
    let answer = std::thread::scope(|scope| {
        let submitting = scope.spawn(|| submit(&pair, &request));
        servers.promote();
        submitting.join().expect("it is acknowledged")
    });
    expect_one_job(&pair, &request, &answer);
    pair.expect_once(&job, 12, &file);
    // The master that was active goes on, and the other one stands by at the new primary.
    pair.until_active(0);
    pair.until_standing(1);
    assert_eq!(pair.lease(), token);

    let (job, file) = pair.submit(4, 0.5);
    eventually("some have run", LONG, || file.exists().then_some(()));
    pair.kill(0);
    pair.until_active(1);
    pair.expect_once(&job, 4, &file);
    expect_one_job(&pair, &request, &answer);
    let _ = fs::remove_file(file);
}
#[test]
fn a_replica_that_was_behind_takes_over_and_the_master_writes_again_what_it_lacks() {
    let Some((mut servers, mut pair)) = start(false) else {
        return;
    };
    let (job, file) = pair.submit(6, 0.5);
    eventually("some have run", LONG, || file.exists().then_some(()));
    let token = pair.lease();

    // Jobs, their results and an account that only the primary has.
    servers.follow(false);
    let lacking: Vec<(String, Value)> = (0..3)
        .map(|_| {
            let request = new_request();
            let answer = submit(&pair, &request);
            (request, answer)
        })
        .collect();
    pair.expect_once(&job, 6, &file);
    let login = pair.token("client");
    servers.kill_primary();
    servers.promote();

    // Whoever asks meanwhile is not told that there is no such job.
    let known = lacking[0].1["job"].to_string();
    eventually("it says what it has written again", LONG, || {
        let answer = pair.run("user", &["job", "info", &known]);
        assert!(!answer.stderr.contains("there is no job"), "{answer:?}");
        pair.said("first").contains("written again").then_some(())
    });
    for (request, answer) in &lacking {
        expect_one_job(&pair, request, answer);
    }
    pair.expect_once(&job, 6, &file);
    let master = pair.both();
    pair.run(
        "late",
        &[
            "login", "--master", &master, "--join", &login, "--name", "late",
        ],
    )
    .expect_code(0);
    pair.until_active(0);
    pair.until_standing(1);
    assert_eq!(pair.lease(), token);

    // And the next master reads it all from there.
    pair.kill(0);
    pair.until_active(1);
    for (request, answer) in &lacking {
        expect_one_job(&pair, request, answer);
    }
}

/// The second master has taken the store over from the first one, which was killed, on a primary whose replica
/// follows no more: since before that master's last commits, or since after them.
fn taken_over(lacks_commits: bool) -> Option<(Replicated, Pair)> {
    let (servers, mut pair) = start(false)?;
    let (job, file) = pair.submit(4, 0.0);
    pair.expect_once(&job, 4, &file);

    pair.process(1).signal(Signal::STOP);
    if lacks_commits {
        servers.follow(false);
        submit(&pair, &new_request());
    }
    pair.kill(0);
    if !lacks_commits {
        let all = "SELECT bool_and(replay_lsn >= pg_current_wal_lsn()) FROM pg_stat_replication";
        eventually("the replica has all that is there", LONG, || {
            (servers.ask_primary(all) == "t").then_some(())
        });
        servers.follow(false);
    }
    pair.process(1).signal(Signal::CONT);
    pair.until_active(1);
    Some((servers, pair))
}

#[test]
fn a_replica_that_lacks_the_takeover_itself_gets_it_again_with_all_that_came_after_it() {
    let Some((mut servers, mut pair)) = taken_over(false) else {
        return;
    };
    let token = pair.lease();
    let lacking: Vec<(String, Value)> = (0..3)
        .map(|_| {
            let request = new_request();
            let answer = submit(&pair, &request);
            (request, answer)
        })
        .collect();
    servers.kill_primary();
    servers.promote();

    eventually("it says that it has taken the store again", LONG, || {
        let said = pair.said("second");
        (said.contains("lacks the takeover") && said.contains("nothing is lost")).then_some(())
    });
    pair.until_active(1);
    assert_eq!(pair.lease(), token);
    for (request, answer) in &lacking {
        expect_one_job(&pair, request, answer);
    }

    // And the next master reads it all from there.
    pair.launch(0);
    pair.until_standing(0);
    pair.kill(1);
    pair.until_active(0);
    for (request, answer) in &lacking {
        expect_one_job(&pair, request, answer);
    }
}

#[test]
fn a_replica_that_lacks_what_the_master_before_the_takeover_confirmed_is_not_built_upon() {
    let Some((mut servers, mut pair)) = taken_over(true) else {
        return;
    };
    let token = pair.lease();
    servers.kill_primary();
    servers.promote();

    let code = eventually("it ends", LONG, || pair.process(1).ended());
    assert_ne!(code, 0);
    let said = pair.said("second");
    for word in [
        "PostgreSQL lacks the last",
        "so that nothing is built upon that",
        "--accept-store",
    ] {
        assert!(said.contains(word), "no {word:?}");
    }
    assert_ne!(pair.lease(), token, "the takeover is not there");
}

#[test]
fn a_primary_that_dies_with_its_master_loses_nothing_where_the_replica_confirms_commits() {
    let Some((mut servers, mut pair)) = start(true) else {
        return;
    };
    let (job, file) = pair.submit(8, 0.5);
    eventually("some have run", LONG, || file.exists().then_some(()));
    let request = new_request();
    let answer = submit(&pair, &request);
    pair.kill(0);
    servers.kill_primary();
    servers.promote();

    pair.until_active(1);
    expect_one_job(&pair, &request, &answer);
    pair.expect_once(&job, 8, &file);
}

#[test]
fn a_replica_that_lacks_what_a_dead_master_confirmed_is_taken_over_only_if_that_is_accepted() {
    let Some((mut servers, mut pair)) = start(false) else {
        return;
    };
    let before = new_request();
    let known = submit(&pair, &before);
    expect_one_job(&pair, &before, &known);
    servers.follow(false);
    let lost = submit(&pair, &new_request())["job"].to_string();
    // The one that stands by has seen that.
    let reached = pair.reached();
    eventually("it has seen how far the store is", LONG, || {
        (pair.marked(1)? >= reached).then_some(())
    });
    pair.kill(0);
    servers.kill_primary();
    servers.promote();

    eventually("it says that something is missing", LONG, || {
        let (status, said) = pair.health(1)?;
        (status == "503" && said.contains("lacks the last") && said.contains("--accept-store"))
            .then_some(())
    });
    pair.kill(1);
    pair.launch(1);
    let refused = eventually("it is refused", LONG, || pair.process(1).ended());
    assert_ne!(refused, 0, "nor is it forgotten by a restart");
    pair.masters[1].words.push("--accept-store".to_owned());
    pair.launch(1);
    pair.until_active(1);
    expect_one_job(&pair, &before, &known);
    pair.run("user", &["job", "info", &lost]).expect_code(1);
    let (job, file) = pair.submit(2, 0.1);
    pair.expect_once(&job, 2, &file);
    assert!(job.parse::<u64>().expect("a number") > lost.parse().expect("a number"));
}

/// The connections of masters' that wait for the replica to confirm a commit.
fn waiting(servers: &Replicated) -> u64 {
    let sql = "SELECT count(*) FROM pg_stat_activity
               WHERE wait_event = 'SyncRep' AND application_name = 'deskgrid'";
    servers.ask_primary(sql).parse().expect("a number")
}

/// Submissions and additions over HTTP while commits wait: each is refused after a while, in words, and
/// may be carried out all the same. Returns how to submit again.
fn refused_over_http(programs: &Http, open: &str) -> Http {
    let submitting = programs.clone().with("Idempotency-Key", &new_request());
    let refused = submitting.post("/api/v1/jobs", &job_of_one()).expect(503);
    let refused = refused.json();
    assert_eq!(refused["code"], "unavailable", "{refused}");
    let words = |field: &str| refused[field].as_str().expect("words").to_owned();
    assert!(
        words("title").contains("this may still be done"),
        "{refused}"
    );
    assert!(words("try").contains("counts once"), "{refused}");

    // By now whoever comes is told at once, and nothing of it is done later.
    let task = json!({"items": ["more"]});
    let tasks = programs.post(&format!("/api/v1/jobs/{open}/tasks"), &task);
    for later in [tasks, programs.get(&format!("/api/v1/jobs/{open}"))] {
        let told = later.expect(503).json();
        let title = told["title"].as_str().expect("words");
        assert!(title.contains("nothing is taken until it does"), "{told}");
    }
    submitting
}

fn job_of_one() -> Value {
    json!({"command": ["true"]})
}

/// Commits wait for longer than the lease, since nobody confirms them, until `end` ends that.
fn stalled(end: impl FnOnce(&Replicated)) {
    let Some((servers, pair)) = start(true) else {
        return;
    };
    let (job, file) = pair.submit(6, 1.0);
    eventually("some have run", LONG, || file.exists().then_some(()));
    let (lease, joins) = (pair.lease(), pair.joins());
    let programs = pair.programs(0);
    let open = pair.json(&["submit", "--open", "--", "true"])["job"].to_string();
    let mut waits = Started::new(pair.command("user").args(["job", "wait", &job]));

    servers.follow(false);
    let submitting = refused_over_http(&programs, &open);
    let (status, said) = pair.health(0).expect("it answers");
    assert_eq!((&*status, &*said), ("503", "the store does not answer\n"));
    assert!(waiting(&servers) > 0);
    let request = new_request();
    let refused = pair.until_refused(&request);
    assert!(
        refused.contains("has kept changes waiting for"),
        "{refused}"
    );
    assert!(refused.contains("try: try again later"), "{refused}");
    std::thread::sleep(LEASE_AND_MORE);
    assert_eq!(waits.ended(), None, "whoever waits goes on waiting");
    assert!(!pair.is_active(1), "nobody can commit");

    end(&servers);
    pair.until_active(0);
    pair.until_standing(1);
    let answer = submit(&pair, &request);
    expect_one_job(&pair, &request, &answer);
    let first = submitting.post("/api/v1/jobs", &job_of_one()).json();
    let again = submitting.post("/api/v1/jobs", &job_of_one()).expect(200);
    assert_eq!(again.json()["job"], first["job"], "one request, one job");
    let tasks = pair.json(&["job", "info", &open])["tasks"]["total"].clone();
    assert_eq!(tasks, 1, "what was not taken is not done later");
    pair.expect_once(&job, 6, &file);
    assert_eq!(waits.finish().code, 0);
    assert_eq!(pair.lease(), lease, "there was no takeover");
    assert_eq!(pair.joins(), joins, "the worker has stayed");
}

#[test]
fn while_the_replica_that_confirms_commits_is_away_nothing_is_told_and_nobody_takes_over() {
    stalled(|servers| servers.follow(true));
}

#[test]
fn a_master_goes_on_once_nobody_waits_for_a_replica_that_is_gone() {
    stalled(Replicated::wait_for_no_replica);
}

#[test]
fn a_commit_that_was_visible_before_it_was_confirmed_is_told_only_after_the_failover() {
    let Some((mut servers, pair)) = start(true) else {
        return;
    };
    let jobs = "SELECT count(*) FROM deskgrid.job";
    let mut told = 0;
    // It takes luck that the commit which waits is that of a submission, and not an idle master's.
    let (request, mut submitting) = loop {
        servers.follow(false);
        let request = new_request();
        let words = ["submit", "--request-id", &request, "--", "true"];
        let submitting = Started::new(pair.command("user").args(words));
        eventually("a commit waits", LONG, || {
            (waiting(&servers) > 0).then_some(())
        });
        std::thread::sleep(Duration::from_secs(1));

        // After a restart what was not confirmed is there as well.
        servers.kill_primary();
        servers.start_primary();
        if servers.ask_primary(jobs) != told.to_string() {
            break (request, submitting);
        }
        servers.follow(true);
        let answer = submit(&pair, &request);
        expect_one_job(&pair, &request, &answer);
        told += 1;
    };
    // The master has come back, sees it, and waits for a commit after it.
    let comes_back = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%UPDATE lease%'";
    eventually("the next commit waits", LONG, || {
        (servers.ask_primary(comes_back) == "1").then_some(())
    });
    assert_ne!(submitting.ended(), Some(0), "nothing was acknowledged");

    servers.kill_primary();
    servers.promote();
    pair.until_active(0);
    let answer = submit(&pair, &request);
    expect_one_job(&pair, &request, &answer);
    assert_eq!(pair.server.psql(jobs), (told + 1).to_string());
}
