//! Two masters of which one, or both, do not reach the database or the grid for a while.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tests::{Output, Started, eventually};
use uuid::Uuid;

use super::pair::{LEASE_AND_MORE, LONG, Pair};
use super::proxy::{Proxy, Weather};
use super::way::Way;

/// A pair of which these masters reach the database by a way of its own.
fn start(by_way: &[usize]) -> Option<(Way, Pair)> {
    let mut pair = Pair::prepared()?;
    let way = Way::to(&pair.server.url);
    for which in by_way {
        pair.masters[*which].store = way.url();
    }
    pair.begin();
    Some((way, pair))
}

/// A user and a worker that know only the first master's address.
struct Faithful {
    /// Its worker, with one slot.
    _worker: Started,
    /// The job whose task that worker runs, until the test says that it may end.
    job: String,
    runs: PathBuf,
    may_end: PathBuf,
}

impl Faithful {
    fn join(pair: &Pair) -> Self {
        let first = pair.masters[0].address.clone();
        let token = pair.token("client");
        let login = [
            "login", "--master", &first, "--join", &token, "--name", "faithful",
        ];
        pair.run("faithful", &login).expect_code(0);

        let token = pair.token("worker");
        let mut command = pair.command("lone");
        command.args([
            "worker", "start", "--tied", "--name", "lone", "--slots", "1",
        ]);
        command.args(["--config", "pc.toml", "--master", &first, "--join", &token]);
        let worker = Started::server(&mut command, &pair.log("lone"));
        eventually("it may be named", LONG, || {
            let label = pair.run("first", &["host", "label", "lone", "lone"]);
            (label.code == 0).then_some(())
        });

        let (runs, may_end) = (
            pair.dir.path().join("runs"),
            pair.dir.path().join("may-end"),
        );
        let script = format!(
            "echo runs >> {}; while [ ! -e {} ]; do sleep 0.05; done",
            runs.display(),
            may_end.display()
        );
        let words = ["submit", "--needs", "label=lone", "--", "sh", "-c", &script];
        let job = pair.json(&words)["job"].to_string();
        eventually("its task runs", LONG, || runs.exists().then_some(()));
        Self {
            _worker: worker,
            job,
            runs,
            may_end,
        }
    }

    /// Whether the worker has a result to deliver.
    fn has_result(pair: &Pair) -> bool {
        let log = pair.state("lone").join("worker/spool/log");
        fs::metadata(log).is_ok_and(|log| log.len() > 0)
    }

    /// Submits with this request id at the first master.
    fn submit(pair: &Pair, request: &str) -> Started {
        let words = ["submit", "--request-id", request, "--", "true"];
        Started::new(pair.command("faithful").args(words))
    }
}

/// The user of a master that was cut off is told why it does not go on, once that is known; or before, after ten seconds,
/// that its database does not answer.
fn expect_to_be_sent_away(answer: &Output) {
    let refused = answer.code == 1 && answer.stderr.contains("has kept changes waiting for");
    if refused {
        return assert_eq!(answer.stdout, "", "{answer:?}");
    }
    assert_eq!((answer.code, &*answer.stdout), (7, ""), "{answer:?}");
    for words in [
        "error: the connection to the master ended",
        "because: another master has the store",
        "try: try again",
    ] {
        assert!(answer.stderr.contains(words), "no {words:?} in {answer:?}");
    }
}

/// The first master is cut off from the database in this way until the other one has taken over, and comes back.
fn cut_off(apart: impl Fn(&Way, bool)) {
    let Some((way, pair)) = start(&[0]) else {
        return;
    };
    let (job, file) = pair.submit(8, 1.0);
    eventually("some have run", LONG, || file.exists().then_some(()));
    let faithful = Faithful::join(&pair);
    let joins = pair.joins();

    apart(&way, true);
    let since = Instant::now();
    // Nothing of what comes to it now can be committed: a submission, and a result.
    eventually("it cannot commit", LONG, || {
        (!pair.is_active(0)).then_some(())
    });
    let request = Uuid::from_bytes(rand::random()).to_string();
    let submitting = Faithful::submit(&pair, &request);
    fs::write(&faithful.may_end, "").expect("a file of the test's own");
    eventually("there is a result", LONG, || {
        Faithful::has_result(&pair).then_some(())
    });
    pair.until_active(1);
    println!("active after {:.2?}", since.elapsed());
    // Its worker finds that nobody answers, and goes where the active one is; the old one still listens.
    eventually("the worker goes to the active master", LONG, || {
        (pair.joins() > joins).then_some(())
    });
    let later = pair.json(&["submit", "--", "true"])["job"].to_string();
    pair.wait(&later);
    assert!(!pair.is_active(0), "it cannot know that");

    let known = pair.json(&["job", "info", &faithful.job]);
    assert_eq!(known["tasks"]["finished"].as_u64(), Some(0), "{known}");
    let jobs = || pair.server.psql("SELECT count(*) FROM deskgrid.job");
    assert_eq!(jobs(), "3", "the submission is not there");

    let joins = pair.joins();
    apart(&way, false);
    eventually("it says that it was taken over", LONG, || {
        let said = pair.said("first");
        said.contains("has taken the store over").then_some(())
    });
    pair.until_standing(0);
    pair.expect_once(&job, 8, &file);
    assert_eq!(pair.joins(), joins, "the worker stays where it is");

    // Whoever knows only the old one finds the active one by it, and all is done once.
    expect_to_be_sent_away(&submitting.finish());
    assert_eq!(jobs(), "3");
    Faithful::submit(&pair, &request).finish().expect_code(0);
    Faithful::submit(&pair, &request).finish().expect_code(0);
    assert_eq!(jobs(), "4", "one request, one job");
    // Had its result been acknowledged, nobody would have it, and the task would run again.
    pair.expect_once(&faithful.job, 1, &faithful.runs);
}

#[test]
fn a_master_whose_database_does_not_let_it_in_tells_nobody_anything_and_its_worker_leaves_it() {
    cut_off(Way::cut);
}

#[test]
fn a_master_whose_database_is_silent_tells_nobody_anything_and_its_worker_leaves_it() {
    cut_off(Way::silence);
}

#[test]
fn a_gateway_leaves_a_master_that_is_cut_off_from_its_database_and_its_workers_stay_connected() {
    let Some((way, pair)) = start(&[0]) else {
        return;
    };
    let (_gateway, address) = pair.gateway("gw1");
    let _worker = pair.worker("behind", &address);
    eventually("it may be named", LONG, || {
        let label = pair.run("first", &["host", "label", "behind", "behind"]);
        (label.code == 0).then_some(())
    });
    let submit = || {
        let words = ["submit", "--needs", "label=behind", "--", "true"];
        let job = pair.json(&words)["job"].to_string();
        pair.wait(&job);
    };
    submit();
    assert_eq!(pair.joins_of("behind"), 1);

    way.cut(true);
    pair.until_active(1);
    let since = Instant::now();
    // The old one's process goes on listening, and waits for its database for five minutes.
    eventually("the worker greets the active master", LONG, || {
        (pair.joins_of("behind") > 1).then_some(())
    });
    println!("served by the active master after {:.2?}", since.elapsed());
    submit();
    assert!(!pair.is_active(0), "it cannot know that");
    let said = pair.said("gw1");
    assert!(said.contains("another one is active since"), "{said}");
    let said = pair.said("behind");
    assert!(!said.contains("not connected to the master"), "{said}");

    way.cut(false);
    pair.until_standing(0);
    submit();
    assert_eq!(pair.joins_of("behind"), 2, "it stays where it is");
}

#[test]
fn a_master_that_dies_behind_a_silent_way_is_taken_over_although_its_connection_stays() {
    let Some((way, mut pair)) = start(&[0]) else {
        return;
    };
    let (job, file) = pair.submit(8, 0.5);
    eventually("some have run", LONG, || file.exists().then_some(()));
    way.silence(true);
    pair.kill(0);
    let connected =
        "SELECT count(*) FROM pg_stat_activity a JOIN deskgrid.lease l ON a.pid = l.backend";
    assert_eq!(
        pair.server.psql(connected),
        "1",
        "nobody has told the database"
    );
    pair.until_active(1);
    pair.expect_once(&job, 8, &file);
}

#[test]
fn when_both_masters_were_cut_off_from_the_database_the_active_one_goes_on() {
    let Some((way, pair)) = start(&[0, 1]) else {
        return;
    };
    let (job, file) = pair.submit(6, 0.5);
    eventually("some have run", LONG, || file.exists().then_some(()));
    let token = pair.lease();

    way.cut(true);
    eventually("the second one says so", LONG, || {
        let (status, said) = pair.health(1)?;
        (status == "503" && said.contains("could not take over")).then_some(())
    });
    std::thread::sleep(LEASE_AND_MORE);
    way.cut(false);

    pair.until_standing(1);
    pair.until_active(0);
    pair.expect_once(&job, 6, &file);
    assert_eq!(pair.lease(), token);
}

#[test]
fn a_master_that_stands_still_for_less_than_the_lease_stays_the_active_one() {
    let Some(mut pair) = Pair::start_with("content", "takeover_after = \"15s\"\n") else {
        return;
    };
    let (job, file) = pair.submit(6, 0.5);
    eventually("some have run", LONG, || file.exists().then_some(()));
    let token = pair.lease();

    // The lease is fifteen seconds, of which an idle master lets nearly one pass: it has just committed.
    let reached = pair.reached();
    eventually("it commits", LONG, || {
        (pair.reached() > reached).then_some(())
    });
    pair.process(0).signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(5));
    pair.process(0).signal(Signal::CONT);

    pair.expect_once(&job, 6, &file);
    pair.until_active(0);
    pair.until_standing(1);
    assert_eq!(pair.lease(), token);
}

#[test]
fn a_commit_whose_answer_is_lost_is_told_once_and_done_once() {
    let Some((way, pair)) = start(&[0]) else {
        return;
    };
    let (job, file) = pair.submit(6, 0.5);
    let jobs = |pair: &Pair| pair.server.psql("SELECT count(*) FROM deskgrid.job");
    for commits in [1, 2, 5] {
        way.lose_answers(commits);
        let request = Uuid::from_bytes(rand::random()).to_string();
        let words = ["submit", "--request-id", &request, "--", "true"];
        let told: Value = pair.json(&words);
        eventually("all of them are lost", LONG, || {
            (way.answers_to_lose() == 0).then_some(())
        });

        let count = jobs(&pair);
        assert_eq!(
            pair.json(&words)["job"],
            told["job"],
            "one request, one job"
        );
        assert_eq!(jobs(&pair), count);
        let told = told["job"].to_string();
        pair.wait(&told);
    }
    assert_eq!(jobs(&pair), "4");
    pair.expect_once(&job, 6, &file);
    assert!(
        pair.said("first")
            .contains("the connection to PostgreSQL broke")
    );
    pair.until_standing(1);
    pair.until_active(0);
}

#[test]
fn of_three_masters_that_start_at_once_on_an_empty_database_one_makes_the_grid() {
    let Some(mut pair) = Pair::prepared() else {
        return;
    };
    pair.add_master("third");
    for which in 0..3 {
        pair.launch(which);
    }
    let active = eventually("one is active", LONG, || {
        (0..3).find(|which| pair.is_active(*which))
    });
    let others: Vec<usize> = (0..3).filter(|which| *which != active).collect();
    for which in &others {
        // Each had made keys of its own, or none yet.
        let ended = eventually("it is refused", LONG, || pair.process(*which).ended());
        assert_ne!(ended, 0);
        let said = pair.said(pair.masters[*which].name);
        assert!(said.contains("copy ca.der and ca.key.der"), "{said}");
    }

    for which in &others {
        pair.copy_keys_to(active, *which);
        pair.launch(*which);
        pair.until_standing(*which);
    }
    pair.until_active(active);
    pair.kill(active);
    let next = eventually("one of the others is active", LONG, || {
        others.iter().find(|which| pair.is_active(**which)).copied()
    });
    let last = others
        .into_iter()
        .find(|which| *which != next)
        .expect("two");
    pair.until_standing(last);
}

#[test]
fn a_master_that_reaches_nobody_but_the_database_stays_active_until_an_admin_has_it_hand_over() {
    let Some(mut pair) = Pair::prepared() else {
        return;
    };
    let first = &mut pair.masters[0];
    let proxy = Proxy::new(
        first.listen.parse().expect("an address"),
        Weather::FINE,
        super::seed(),
    );
    first.address = proxy.address();
    pair.begin();
    let (job, file) = pair.submit(6, 0.5);
    eventually("some have run", LONG, || file.exists().then_some(()));
    let (lease, joins) = (pair.lease(), pair.joins());

    proxy.cut();
    eventually("the worker asks the other one", LONG, || {
        pair.said("pc").contains("stands by").then_some(())
    });
    std::thread::sleep(LEASE_AND_MORE);
    pair.until_standing(1);
    assert_eq!(
        pair.lease(),
        lease,
        "it lives, as far as the database knows"
    );

    // The admin on its own machine reaches it.
    let admin = pair.state("first").join("client/link.toml");
    let text = fs::read_to_string(&admin).expect("the admin is known");
    let there = format!("{},{}", pair.masters[0].listen, pair.masters[1].listen);
    fs::write(&admin, text.replace(&proxy.address(), &there)).expect("a file of the test's own");
    pair.run("first", &["master", "hand-over"]).expect_code(0);
    pair.until_active(1);
    eventually("the worker is back", LONG, || {
        (pair.joins() > joins).then_some(())
    });
    pair.expect_once(&job, 6, &file);
}

#[test]
fn a_master_that_is_taken_over_while_it_starts_stands_by() {
    let Some((way, mut pair)) = start(&[1]) else {
        return;
    };
    let (job, file) = pair.submit(6, 0.5);
    eventually("some have run", LONG, || file.exists().then_some(()));
    let lease = pair.lease();

    // The second one has taken the store over, and does not come to read it.
    way.silence_after_takeover();
    pair.kill(0);
    eventually("it has the lease", LONG, || {
        (pair.lease() != lease).then_some(())
    });
    pair.launch(0);
    pair.until_active(0);
    way.silence(false);
    pair.until_standing(1);
    assert_eq!(pair.process(1).ended(), None);
    pair.expect_once(&job, 6, &file);

    // It can still take the store over.
    pair.kill(0);
    pair.until_active(1);
}
