//! What somebody with small means tries, so that nobody else is served: answers that are not read,
//! connections that say nothing, tunnels, half requests over HTTP, commands that are not ended; and
//! tokens that are read where they lie.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use common::attempt::{HeldAttempt, Phase};
use common::host::{Confinement, HostFacts, OwnerState, Status};
use common::selector::Selector;
use common::wire::client::Request;
use common::wire::stream::Open;
use common::wire::worker::{ToMaster, ToWorker};
use common::wire::{ALPN_ENROL, Versions};
use common::{JobId, Span, Speed};
use link::{Purpose, tls};
use tests::{Grid, Http, eventually};

use crate::hostile::{HERE, Hostile, RUNTIME, dial};

const PATIENCE: Duration = Duration::from_secs(60);

/// The arguments and the environment of a process.
fn told(pid: u32) -> String {
    let read = |what: &str| {
        fs::read(format!("/proc/{pid}/{what}")).map(|b| String::from_utf8_lossy(&b).into_owned())
    };
    format!(
        "{} {}",
        read("cmdline").unwrap_or_default(),
        read("environ").unwrap_or_default()
    )
}

/// A process and everything below it.
fn family(pid: u32) -> Vec<u32> {
    let children =
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let below = children
        .split_whitespace()
        .filter_map(|child| child.parse().ok())
        .flat_map(family);
    std::iter::once(pid).chain(below).collect()
}

/// Returns the words that start a dedicated worker of one slot.
fn starts_dedicated(master: &str) -> [String; 7] {
    [
        "worker",
        "start",
        "--dedicated",
        "--slots",
        "1",
        "--master",
        master,
    ]
    .map(str::to_owned)
}

#[test]
fn a_join_token_is_in_no_argument_and_no_environment_of_a_worker() {
    let mut grid = Grid::start();
    let tokens: Vec<String> = (0..4).map(|_| grid.token("worker")).collect();
    let file = grid.file("token", format!("{}\n", tokens[2]));
    let words = |how: &[&str]| {
        let more: Vec<String> = how.iter().map(|word| (*word).to_owned()).collect();
        [starts_dedicated(grid.listen()).to_vec(), more].concat()
    };
    let as_argument = words(&["--name", "argument", "--join", &tokens[0]]);
    let in_one_word = words(&["--name", "word", &format!("--join={}", tokens[1])]);

    let of_file = words(&["--name", "file", "--join", &format!("@{}", file.display())]);

    let of_environment = words(&["--name", "environment"]);
    grid.wrap(
        "environment",
        ["env".to_owned(), format!("DESKGRID_JOIN={}", tokens[3])],
    );

    let ways = [
        ("argument", as_argument),
        ("word", in_one_word),
        ("file", of_file),
        ("environment", of_environment),
    ];
    let running: Vec<_> = ways
        .iter()
        .map(|(who, words)| (*who, grid.background_as(who, words)))
        .collect();
    // A host is listed before its worker has written down who it is.
    grid.until("four hosts", &["host", "list"], |list| {
        let ready = list["hosts"].as_array()?.iter();
        let ready = ready.filter(|host| host["state"] == "ready").count();
        (ready == 4).then_some(())
    });

    for (who, worker) in &running {
        for pid in family(worker.pid()) {
            let told = told(pid);
            assert!(
                tokens.iter().all(|token| !told.contains(token)),
                "{who}: {told}"
            );
        }
    }

    drop(running);
    let job = grid.submit(["--", "true"]);

    // Who has joined needs no token, and may be told of the master's address.
    let again = grid.background_as("file", starts_dedicated(grid.listen()));
    let waited = grid.deskgrid(["job", "wait", &job, "--timeout", "60s"]);
    assert_eq!(waited.code, 0, "{waited:?}; {:?}", again.killed());
}

#[test]
fn a_token_is_read_from_standard_input_and_a_wrong_one_is_not_repeated() {
    let mut grid = Grid::start();
    let file: PathBuf = grid.file("token", format!("{}\n", grid.token("client")));
    let shell = format!("exec \"$@\" < '{}'", file.display());
    grid.wrap("piped", ["sh", "-c", &shell, "sh"]);

    let login = ["login", "--master", grid.listen(), "--join"];
    grid.as_user("piped", [&login[..], &["-"]].concat())
        .expect_code(0);
    let file = grid.file("other-token", format!("{}\n", grid.token("client")));
    let named = ["--join-file", file.to_str().expect("UTF-8")];
    grid.as_user("named", [&login[..3], &named].concat())
        .expect_code(0);

    let slip = format!("{}x", grid.token("client"));
    let refused = grid
        .as_user("slip", [&login[..], &[&slip]].concat())
        .expect_code(2);
    assert!(
        !refused.stderr.contains(&slip) && refused.stderr.contains("not a join token"),
        "{refused:?}"
    );
}

#[test]
fn a_users_token_given_to_a_worker_is_not_used_up() {
    let grid = Grid::start();
    let token = grid.token("client");
    let start = ["worker", "start", "--master", grid.listen(), "--join"];
    // The first try leaves a key to join with, and no identity.
    for _ in 0..2 {
        let refused = grid.as_user("pc", [&start[..], &[token.as_str()]].concat());
        let told = refused.expect_code(6).stderr;
        assert!(
            told.contains("this token is for a client")
                && told.contains("create --role worker")
                && !told.contains("--rejoin"),
            "{told}"
        );
    }
    grid.as_user(
        "ann",
        [
            "login",
            "--master",
            grid.listen(),
            "--join",
            &token,
            "--name",
            "ann",
        ],
    )
    .expect_code(0);

    let list = grid
        .admin(["--output", "json", "identity", "list"])
        .expect_code(0)
        .json();
    let names: Vec<_> = list["identities"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| &one["identity"])
        .collect();
    assert_eq!(names.len(), 3, "admin, user and ann: {names:?}");
}

#[test]
fn answers_that_nobody_reads_are_bounded_and_their_reader_is_dropped() {
    let hostile = Hostile::of(Grid::with_master("[limits]\nanswer_patience = \"3s\"\n"));
    let eve = hostile.enrol("client", "eve");
    let first = hostile.client(&eve);
    let job = hostile.grid.submit(["--array", "1-200000", "--", "true"]);
    hostile
        .grid
        .deskgrid(["job", "share", &job, "--with", "eve"])
        .expect_code(0);

    let job = JobId(job.parse().expect("a number"));
    let before = tests::resident(hostile.grid.master_pid());
    let request = Request::Tasks {
        job,
        tasks: Selector::All,
        states: Vec::new(),
    };
    let unread = hostile.now(async {
        let mut clients = Vec::new();
        for _ in 0..20 {
            clients.push(
                link::Client::connect(&eve)
                    .await
                    .expect("lets in whom it knows"),
            );
        }

        let mut unread = Vec::new();
        for client in &clients {
            for _ in 0..15 {
                unread.push((
                    client.clone(),
                    client.stream(&request).await.expect("a stream"),
                ));
            }
        }

        unread
    });

    // While it goes on, others are served, and memory stays within what a few answers take.
    for _ in 0..5 {
        hostile.grid.deskgrid(["job", "list"]).expect_code(0);
        let grown = tests::resident(hostile.grid.master_pid()).saturating_sub(before);
        assert!(grown < 300 << 20, "{} MiB more", grown >> 20);
    }

    hostile.audited("eve", "read", "was not read");
    let gone = eventually("a connection is closed", PATIENCE, || {
        unread
            .iter()
            .find_map(|(client, _)| client.connection().quic().close_reason())
    });
    assert!(gone.to_string().contains("was not read"), "{gone}");
    drop((first, unread));
}

#[test]
fn silent_joiners_keep_no_other_joiner_out() {
    let hostile = Hostile::of(Grid::start());
    let ann = hostile.enrol("client", "ann");
    let hash = link::identity::key_hash(&ann.ca).expect("a CA");
    let dial = dial(
        tls::joiner_config(hash, ALPN_ENROL, tls::TrustedEnds::Masters).expect("settings"),
        hostile.grid.listen(),
    );
    let silent: Vec<_> = RUNTIME.block_on(async {
        let mut silent = Vec::new();
        for _ in 0..450 {
            silent.push(dial.try_connect().await);
        }
        silent
    });
    assert!(
        silent.iter().all(Result::is_ok),
        "each is let in, and an older one goes"
    );

    hostile.client(&ann);
    hostile.enrol("client", "bob");
    hostile.audited(HERE, "enrol", "others came after it");

    let last = silent
        .last()
        .and_then(|last| last.as_ref().ok())
        .expect("a connection");
    let why = hostile.now(last.closed()).to_string();
    assert!(
        why.contains("did not say within five seconds") || why.contains("others came after"),
        "{why}"
    );
}

#[test]
fn tunnels_of_strangers_are_few_and_short() {
    let hostile = Hostile::of(Grid::start());
    let files = || {
        fs::read_dir(format!("/proc/{}/fd", hostile.grid.master_pid()))
            .expect("its files")
            .count()
    };
    let before = files();
    let mut tunnels: Vec<TcpStream> = Vec::new();

    for _ in 0..300 {
        let mut tunnel = TcpStream::connect(hostile.grid.listen()).expect("TCP is open");
        // Who is cut while it greets is not heard.
        let _ = tunnel.write_all(b"deskgrd1");
        tunnels.push(tunnel);
    }

    eventually("the older ones are cut", PATIENCE, || {
        (files() < before + 80).then_some(())
    });
    hostile.grid.deskgrid(["job", "list"]).expect_code(0);
    hostile.audited(HERE, "connect", "had not shown who it is");
    hostile.audited(HERE, "connect", "did not show who it is within ten seconds");
    eventually("all are cut", PATIENCE, || {
        (files() < before + 10).then_some(())
    });
}

/// The status with which the master answers who calls it by this name.
fn status(grid: &Grid, host: &str) -> u16 {
    let master = Http::tcp(grid.http()).with("Host", host);
    master.get("/healthz").status
}

#[test]
fn half_requests_over_http_are_few_and_short_and_strange_hosts_are_refused() {
    let grid = Grid::start();
    let mut halves: Vec<TcpStream> = Vec::new();
    for _ in 0..300 {
        let mut half = TcpStream::connect(grid.http()).expect("the master serves HTTP");
        let _ = half.write_all(b"GET /metrics HTTP/1.1\r\nX: ");
        halves.push(half);
    }

    assert_eq!(status(&grid, "localhost"), 200);
    for half in &mut halves {
        half.set_read_timeout(Some(PATIENCE)).expect("can be set");
        let end = half.read(&mut [0; 16]);
        let waits = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!end.as_ref().is_err_and(waits), "{end:?}");
    }

    for ours in [grid.http(), "127.0.0.1", "[::1]:7412", "LOCALHOST:1"] {
        assert_eq!(status(&grid, ours), 200, "{ours}");
    }

    assert_eq!(status(&grid, "evil.example.com"), 421);
}

#[test]
fn commands_that_wait_or_only_ask_leave_no_connection_behind() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();
    for _ in 0..12 {
        grid.deskgrid(["submit", "--wait", "--", "true"])
            .expect_code(0);
        grid.wait("last");
        grid.deskgrid(["submit", "--dry-run", "--", "true"])
            .expect_code(0);
        grid.deskgrid(["job", "info", "4000000"]).expect_code(1);
    }

    let list = grid
        .admin(["--output", "json", "identity", "list"])
        .expect_code(0)
        .json();
    let user = list["identities"]
        .as_array()
        .and_then(|all| all.iter().find(|one| one["identity"] == "user"));
    let left = user
        .and_then(|user| user["connections"].as_u64())
        .expect("a number");
    assert!(left <= 3, "{left} connections are left");
}

#[test]
fn the_oldest_idle_connection_of_a_user_makes_room_for_a_new_one() {
    let hostile = Hostile::of(Grid::with_master("[limits]\nconnections_per_user = 4\n"));
    let ann = hostile.enrol("client", "ann");
    let idle: Vec<_> = (0..4).map(|_| hostile.client(&ann)).collect();
    let new = hostile.client(&ann);
    let closed = || {
        idle.iter()
            .find_map(|one| one.connection().quic().close_reason())
    };
    let why = eventually("an idle connection is closed", PATIENCE, closed).to_string();
    assert!(why.contains("asked nothing"), "{why}");

    hostile
        .now(new.ask(&Request::Jobs {
            jobs: Selector::All,
            states: Vec::new(),
        }))
        .expect("is served");
}

/// A host that takes whatever it is given, begins none of it, and says that it is alive.
async fn hoard(identity: link::Identity) -> Result<(), link::LinkError> {
    let connection = link::connect(&identity, Purpose::Worker).await?;
    let mut control = connection.open(&Open::Control).await?;
    let facts = HostFacts {
        name: "hoarder".into(),
        slots: 4_096,
        speed: Speed::REFERENCE,
        clock_mhz: 3_000,
        cores: 4_096,
        memory_mib: 1 << 20,
        confinement: Confinement::Namespace,
        confinement_most: Confinement::Namespace,
        network: true,
        ..HostFacts::unknown(String::new())
    };

    let status: Status = OwnerState::Away.into();
    let hello = ToMaster::Hello {
        versions: Versions::ours(),
        facts: Box::new(facts),
        status,
        held: Vec::new(),
    };
    control.tx.send(&hello).await?;

    let mut held: Vec<HeldAttempt> = Vec::new();
    let mut beats = tokio::time::interval(Duration::from_millis(200));
    loop {
        tokio::select! {
            message = control.rx.expect::<ToWorker>() => match message? {
                ToWorker::Assign(some) => held.extend(some.iter().map(|one| HeldAttempt {
                    attempt: one.attempt,
                    phase: Phase::Queued,
                    ran: Span::ZERO,
                    frozen_for: Span::ZERO,
                    progress: None,
                })),
                ToWorker::Beat { abandon } => held.retain(|one| !abandon.contains(&one.attempt)),
                _ => {}
            },
            _ = beats.tick() => {
                control.tx.send(&ToMaster::Heartbeat { status, held: held.clone() }).await?;
            }
        }
    }
}

#[test]
fn a_host_that_takes_work_and_only_heartbeats_loses_it() {
    let mut hostile = Hostile::of(Grid::with_master(
        "heartbeat = \"500ms\"\nsuspect_after = \"20s\"\nlease = \"10m\"\nbegin_within = \"2s\"\n",
    ));
    let identity = hostile.enrol("worker", "hoarder");
    let hoarding = RUNTIME.spawn(hoard(identity));

    hostile
        .grid
        .until("it is ready", &["host", "list"], |list| {
            (list["hosts"][0]["state"] == "ready").then_some(())
        });

    let slots = hostile.grid.json(["host", "list"])["hosts"][0]["slots"].as_u64();
    assert_eq!(
        slots,
        Some(512),
        "it has as many slots as one host may have"
    );

    let job = hostile.grid.submit(["--array", "1-20", "--", "true"]);
    hostile
        .grid
        .until("it holds all of them", &["host", "list"], |list| {
            (list["hosts"][0]["attempts"].as_array()?.len() == 20).then_some(())
        });
    hostile.grid.worker("honest").slots(2).start();
    hostile
        .grid
        .deskgrid(["job", "wait", &job, "--timeout", "180s"])
        .expect_code(0);

    let list = hostile.grid.json(["host", "list"]);
    let hoarder = list["hosts"]
        .as_array()
        .and_then(|all| all.iter().find(|host| host["host"] == "hoarder"));
    assert_eq!(hoarder.expect("is there")["state"], "draining", "{list}");

    let log = hostile.admin(["audit", "--last", "100"]);
    assert!(
        log.to_string().contains("it began none of 20 tasks within"),
        "{log}"
    );
    hoarding.abort();
}
