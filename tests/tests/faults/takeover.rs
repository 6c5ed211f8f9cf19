//! Several masters on one database: the active one is killed, stopped or told to hand over, and what
//! was acknowledged is there, once, at the next one. They need a PostgreSQL (`tests/postgres cargo
//! nextest run -p tests --test faults takeover`), and pass without one.
//!
//! `DESKGRID_ROUNDS=10` measures: so many takeovers and hand-overs, with a line for each (`--no-capture`).

use std::fs;
use std::time::{Duration, Instant};

use link::{Identity, Purpose};
use rustix::process::Signal;
use tests::{Started, eventually};
use uuid::Uuid;

use super::front::Front;
use super::pair::{LONG, Pair};
use super::storage::Storage;
use super::way::Way;

/// The times that a fault is repeated, and measured.
fn rounds() -> usize {
    let rounds = std::env::var("DESKGRID_ROUNDS").ok();
    rounds.and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Says the median and the range of some times.
fn measured(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let (first, last) = (times[0], times[times.len() - 1]);
    let median = times[times.len() / 2];
    println!(
        "{what}: median {:.2} s, {:.2} to {:.2} s, of {}",
        median.as_secs_f64(),
        first.as_secs_f64(),
        last.as_secs_f64(),
        times.len()
    );
}

#[test]
fn a_copy_of_a_database_that_was_given_up_is_refused_in_a_directory_without_its_mark() {
    let Some(mut pair) = Pair::with_first() else {
        return;
    };
    pair.process(0).terminate();
    eventually("it ends in order", LONG, || pair.process(0).ended());

    // Nobody may be connected while a database is copied.
    let name = pair.server.url.rsplit('/').next().expect("an address");
    let copy = format!("{name}_copy");
    let admin = pair.server.beside("postgres");
    eventually("the master's connections end", LONG, || {
        let count = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'");
        (admin.psql(&count) == "0").then_some(())
    });
    admin.psql(&format!("CREATE DATABASE {copy} TEMPLATE {name}"));

    // The lease in the copy is the copy's own, and nobody has it: the mark is missing.
    pair.masters[1].store = pair.server.beside(&copy).url;
    pair.launch(1);
    eventually("it is refused", LONG, || {
        let said = pair.said("second");
        (said.contains("the file `mark` in") && said.contains("--accept-store")).then_some(())
    });
    pair.launch(0);
    pair.until_active(0);
}

#[test]
fn a_master_on_a_database_has_its_size_among_the_numbers() {
    let Some(mut pair) = Pair::prepared() else {
        return;
    };
    pair.launch(0);
    pair.until_active(0);
    let size = "SELECT pg_database_size(current_database())";
    let least: u64 = pair
        .server
        .psql("SELECT pg_database_size('template0')")
        .parse()
        .expect("a number");
    let told = pair
        .number(0, "deskgrid_store_bytes")
        .expect("the number is there");
    let most: u64 = pair.server.psql(size).parse().expect("a number");
    assert!(
        (least..=most).contains(&told),
        "{least} <= {told} <= {most}"
    );
}

#[test]
fn after_a_kill_of_the_active_master_the_other_one_serves_and_nothing_is_lost_or_done_twice() {
    let Some(mut pair) = Pair::start() else {
        return;
    };
    let (mut served, mut back) = (Vec::new(), Vec::new());
    for round in 0..rounds() {
        let (active, other) = (round % 2, (round + 1) % 2);
        let (job, file) = pair.submit(12, 1.0);
        // Somebody waits over the fault, and somebody else submits in the middle of it.
        let waiting = Started::new(pair.command("user").args(["job", "wait", &job]));
        eventually("some have run", LONG, || file.exists().then_some(()));
        let joins = pair.joins();

        pair.kill(active);
        let since = Instant::now();
        let request = Uuid::from_bytes(rand::random()).to_string();
        let submitted = eventually("a submission is taken", LONG, || {
            let words = [
                "--output",
                "json",
                "submit",
                "--request-id",
                &request,
                "--",
                "true",
            ];
            let answer = pair.run("user", &words);
            (answer.code == 0).then(|| answer.json()["job"].to_string())
        });
        served.push(since.elapsed());
        eventually("the worker is back", LONG, || {
            (pair.joins() > joins).then_some(())
        });
        back.push(since.elapsed());

        pair.expect_once(&job, 12, &file);
        assert_eq!(waiting.finish().code, 0, "whoever waits goes on waiting");
        let again = pair.json(&["submit", "--request-id", &request, "--", "true"]);
        assert_eq!(again["job"].to_string(), submitted, "one request, one job");
        let status = pair.json(&["master", "status"]);
        assert_eq!(
            status["active"]["address"], *pair.masters[other].listen,
            "{status}"
        );

        pair.launch(active);
        pair.until_standing(active);
        println!(
            "round {round}: served {:.2?}, worker back {:.2?}",
            served[round], back[round]
        );
    }
    measured("clients served again after kill -9", served);
    measured("worker back after kill -9", back);
}

#[test]
fn a_master_that_stood_still_until_another_took_over_commits_nothing_and_stands_by() {
    let Some(mut pair) = Pair::start() else {
        return;
    };
    let (job, file) = pair.submit(8, 1.0);
    eventually("some have run", LONG, || file.exists().then_some(()));

    pair.process(0).signal(Signal::STOP);
    let stopped = Instant::now();
    println!("served after a stop: {:.2?}", pair.until_served(stopped));
    pair.until_active(1);
    let later = pair.json(&["submit", "--", "true"])["job"].to_string();
    let turns = "SELECT count(*) FROM turn t JOIN lease l ON t.token < l.token";
    let before = pair.server.psql(turns);

    pair.process(0).signal(Signal::CONT);
    eventually("it says that it was taken over", LONG, || {
        pair.said("first")
            .contains("has taken the store over")
            .then_some(())
    });
    pair.until_standing(0);
    assert_eq!(
        pair.server.psql(turns),
        before,
        "no group of the old one was committed"
    );

    pair.expect_once(&job, 8, &file);
    pair.wait(&later);
    let (job, file) = pair.submit(2, 0.0);
    pair.expect_once(&job, 2, &file);
    let status = pair.json(&["master", "status"]);
    let states: Vec<_> = [0, 1]
        .map(|at| status["masters"][at]["state"].clone())
        .into();
    assert_eq!(states, ["stands by", "active"], "{status}");
}

/// Names both masters to the admin of the first one.
fn tell_admin_of_both(pair: &Pair) {
    let admin = pair.state("first").join("client/link.toml");
    let text = fs::read_to_string(&admin).expect("it has joined");
    let text = text.replace(&pair.masters[0].listen, &pair.both());
    fs::write(&admin, text).expect("a file in its directory can be written");
}

#[test]
fn a_command_that_comes_right_after_a_kill_is_answered_by_the_next_master() {
    let Some(mut pair) = Pair::start() else {
        return;
    };
    pair.until_standing(1);
    pair.kill(0);
    pair.run("user", &["job", "list"]).expect_code(0);
}

#[test]
fn a_user_who_comes_while_a_master_hands_over_is_served_by_the_next_one() {
    let Some(pair) = Pair::start() else {
        return;
    };
    tell_admin_of_both(&pair);

    std::thread::scope(|scope| {
        let hands_over = scope.spawn(|| pair.run("first", &["master", "hand-over"]));
        while !hands_over.is_finished() {
            // What is on its way when the master goes away may fail, and not what comes then.
            let told = pair.run("user", &["job", "list"]);
            assert!(!told.stderr.contains("stands by"), "{}", told.stderr);
        }
        hands_over.join().unwrap().expect_code(0);
    });
}

#[test]
fn a_master_that_hands_over_says_within_which_time_workers_are_to_come_back() {
    let Some(pair) = Pair::start() else {
        return;
    };
    tell_admin_of_both(&pair);
    let identity = Identity::load(&pair.state("user").join("client")).expect("an identity");

    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let within = runtime.block_on(async {
        let connection = link::connect(&identity, Purpose::Client).await;
        let connection = connection.expect("the active master lets a user in");
        let hands_over = std::thread::scope(|scope| {
            let command = scope.spawn(|| pair.run("first", &["master", "hand-over"]));
            command.join().expect("it ends")
        });
        hands_over.expect_code(0);
        connection.closed().await;
        connection.spread()
    });

    // Four milliseconds each: for the worker, this user, and perhaps the admin who hands over.
    let (two, few) = (Duration::from_millis(8), Duration::from_millis(40));
    assert!((two..=few).contains(&within), "{within:?}");
}

#[test]
fn a_hand_over_takes_moments_and_a_job_goes_on_through_it() {
    let Some(mut pair) = Pair::start() else {
        return;
    };
    tell_admin_of_both(&pair);

    let mut took = Vec::new();
    let mut back = Vec::new();
    for round in 0..rounds() {
        let (job, file) = pair.submit(6, 0.5);
        eventually("some have run", LONG, || file.exists().then_some(()));
        let joins = pair.joins();
        let since = Instant::now();
        let answer = pair.run("first", &["--output", "json", "master", "hand-over"]);
        let answer = answer.expect_code(0).json();
        assert_eq!(
            answer["active"],
            *pair.masters[(round + 1) % 2].listen,
            "{answer}"
        );
        took.push(Duration::from_secs_f64(answer["took_s"].as_f64().unwrap()));
        eventually("the worker is back", LONG, || {
            (pair.joins() > joins).then_some(())
        });
        back.push(since.elapsed());
        pair.expect_once(&job, 6, &file);
        pair.until_standing(round % 2);
        println!(
            "round {round}: {:.2?}, worker back {:.2?}",
            took[round], back[round]
        );
    }
    measured("hand-over", took);
    measured("worker back after a hand-over", back);

    let (active, other) = (rounds() % 2, (rounds() + 1) % 2);
    pair.kill(other);
    eventually("nobody stands by", LONG, || {
        let answer = pair.run("first", &["master", "hand-over"]);
        (answer.code != 0 && answer.stderr.contains("no other master stands by")).then_some(())
    });
    pair.until_active(active);
    pair.run("user", &["master", "hand-over"]).expect_code(6);
}

#[test]
fn tasks_that_do_nothing_wait_for_no_answer_of_the_database_and_share_statements() {
    let Some(pair) = Pair::start() else {
        return;
    };
    let numbers = || {
        let number = |name| pair.number(0, name).expect("a number");
        [
            number("deskgrid_store_questions_total"),
            number("deskgrid_store_statements_total"),
        ]
    };
    let before = numbers();
    pair.run("user", &["submit", "--noop", "--array", "1-2000", "--wait"])
        .expect_code(0);
    let after = numbers();
    // The submission asks a few things; single statements would be 4,000.
    let questions = after[0] - before[0];
    assert!(questions < 50, "{questions} questions");
    let statements = after[1] - before[1];
    assert!((2..1_000).contains(&statements), "{statements} statements");
}

#[test]
fn of_two_masters_that_start_at_once_one_is_active_and_one_without_keys_or_content_is_refused() {
    let Some(mut pair) = Pair::prepared() else {
        return;
    };
    pair.launch(0);
    pair.until_active(0);
    pair.launch(1);
    let refused = eventually("it ends", LONG, || pair.process(1).ended());
    assert_ne!(refused, 0);
    assert!(
        pair.said("second").contains("copy ca.der and ca.key.der"),
        "{}",
        pair.said("second")
    );

    // Nor is one that would not find the files of the grid.
    pair.copy_keys();
    "not-mounted".clone_into(&mut pair.masters[1].content);
    pair.launch(1);
    let refused = eventually("it ends", LONG, || pair.process(1).ended());
    assert_ne!(refused, 0);
    let said = pair.said("second");
    assert!(said.contains("lies in another place"), "{said}");
    assert!(!pair.dir.path().join("not-mounted").exists());

    // Once it has seen the store live, it knows later how far that was.
    "content".clone_into(&mut pair.masters[1].content);
    pair.launch(1);
    pair.until_standing(1);
    pair.kill(0);
    pair.kill(1);
    for _ in 0..3 {
        pair.launch(0);
        pair.launch(1);
        let health = || [0, 1].map(|which| pair.health(which).map(|(_, said)| said));
        let both = eventually("both answer", LONG, || match health() {
            [Some(first), Some(second)] => Some([first, second]),
            _ => None,
        });
        let active = both.iter().filter(|said| *said == "ok\n").count();
        let standing = both
            .iter()
            .filter(|said| said.contains("stands by"))
            .count();
        assert_eq!((active, standing), (1, 1), "{both:?}");
        pair.kill(0);
        pair.kill(1);
    }
}

#[test]
fn a_master_that_stands_by_names_the_active_one_under_its_own_name_only() {
    let Some(pair) = Pair::start() else {
        return;
    };
    pair.until_standing(1);
    for path in ["/healthz", "/jobs"] {
        let (status, said) = pair.page_of("evil.example", 1, path).expect("an answer");
        assert_eq!(status, "421", "{said}");
        assert!(!said.contains("active master"), "{said}");
    }
}

#[test]
fn a_standby_that_loses_its_database_says_so_and_does_not_take_over() {
    let Some(mut pair) = Pair::with_first() else {
        return;
    };
    let way = Way::to(&pair.server.url);
    pair.masters[1].store = way.url();
    pair.launch(1);
    pair.until_standing(1);

    way.cut(true);
    let trouble = eventually("it says that it could not take over", LONG, || {
        let (status, said) = pair.health(1)?;
        (status == "503").then_some(said)
    });
    assert!(trouble.contains("could not take over"), "{trouble}");
    // Longer than the lease.
    std::thread::sleep(Duration::from_secs(7));
    assert_eq!(pair.health(1).unwrap().0, "503");
    pair.until_active(0);

    way.cut(false);
    pair.until_standing(1);
    pair.kill(0);
    pair.until_active(1);
}

#[test]
fn a_deletion_of_a_master_that_stood_still_takes_nothing_that_was_uploaded_again_since() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let Some(mut pair) = Pair::start_with(&storage.content(), &storage.settings()) else {
        return;
    };
    // Its result has the same bytes as its input.
    let submit = |pair: &Pair, bytes: &[u8]| {
        fs::write(pair.dir.path().join("in"), bytes).expect("a file of the test's own");
        let words = ["submit", "--input", "in", "--output-file", "out", "--"];
        let job = pair.json(&[&words[..], &["cp", "in", "out"]].concat())["job"].to_string();
        pair.wait(&job);
        job
    };
    let needed: Vec<u8> = (0..500).flat_map(|_| new_bytes()).collect();
    let job = submit(&pair, &needed);
    let before = storage.objects_of(&needed);

    // No job needs it any more. The deletion is on its way when its master stops.
    storage.set(Front::HoldsDeletion);
    pair.run("user", &["job", "forget", &job]).expect_code(0);
    eventually("the first master deletes it", LONG, || {
        storage.proxy().holds().then_some(())
    });
    pair.process(0).signal(Signal::STOP);
    pair.until_active(1);

    // A job needs the same again, and the other master has it uploaded; only then the deletion arrives.
    let again = submit(&pair, &needed);
    let since = storage.objects_of(&needed);
    assert!(since.iter().any(|path| !before.contains(path)), "{since:?}");
    storage.proxy().release();
    eventually("it is deleted", LONG, || {
        storage.proxy().has_answered().then_some(())
    });
    eventually("what was condemned is gone", LONG, || {
        let there = storage.objects_of(&needed);
        before
            .iter()
            .all(|path| !there.contains(path))
            .then_some(())
    });
    let there = storage.objects_of(&needed);
    assert!(
        there.iter().any(|path| storage.read(path) == needed),
        "{there:?}"
    );

    // The first one, which wakes and has no file of it, takes over and fetches it from there.
    pair.process(0).signal(Signal::CONT);
    pair.until_standing(0);
    pair.kill(0);
    let cache = pair.state("first").join("master/cache");
    fs::remove_dir_all(cache).expect("there is a cache");
    pair.launch(0);
    pair.until_standing(0);
    pair.kill(1);
    pair.until_active(0);
    pair.run("user", &["job", "fetch", &again, "--into", "fetched"])
        .expect_code(0);
    let fetched = super::bridge::files_named(&pair.dir.path().join("fetched"), "out");
    assert_eq!(fs::read(&fetched[0]).expect("it was fetched"), needed);
}

fn new_bytes() -> [u8; 16] {
    rand::random()
}
