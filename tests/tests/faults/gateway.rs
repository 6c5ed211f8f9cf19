//! Workers behind gateways: their tasks end with the right results, inputs come once, who is revoked is
//! put out, and neither the death of a gateway nor that of a master costs an attempt.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use link::Purpose;
use rustix::process::Signal;
use tests::{Grid, WorkerGateway, eventually, free_addresses};

use super::pair::Pair;
use super::worker;

/// The longest that anything here may take.
const LONG: Duration = Duration::from_secs(60);
/// A lease that does not run out within a test: what ends an attempt then is not its lease.
const MASTER: &str = "heartbeat = \"1s\"\nsuspect_after = \"30s\"\nlease = \"10m\"\n";

fn said(grid: &Grid, who: &str) -> String {
    fs::read_to_string(grid.dir().join(format!("{who}.log"))).unwrap_or_default()
}

/// How often a worker was let in so far.
fn joins(grid: &Grid, who: &str) -> usize {
    said(grid, who).matches("joined the master").count()
}

fn audit(grid: &Grid) -> String {
    grid.admin(["audit"]).expect_code(0).stdout
}

/// A number of the master's at `/metrics`.
fn number(grid: &Grid, name: &str) -> u64 {
    let found = grid
        .metrics()
        .lines()
        .find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    found.unwrap_or(0)
}

/// Submits tasks that sleep for so long and then write a line each to a common file.
fn naps(grid: &Grid, tasks: u32, nap_s: f64) -> (String, PathBuf) {
    let file = grid.dir().join(format!("lines-{tasks}-{nap_s}"));
    let script = format!(
        "sleep {nap_s}; echo $DESKGRID_TASK_ID >> {}",
        file.display()
    );
    let array = format!("1-{tasks}");
    let job = grid.submit([
        "--policy", "FCFS", "--array", &array, "--", "sh", "-c", &script,
    ]);
    (job, file)
}

/// Waits for a job of which each task must have run once, in one attempt.
fn expect_once(grid: &Grid, job: &str, tasks: usize, file: &Path) {
    grid.wait(job);
    let text = fs::read_to_string(file).expect("a file of the test's own");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(
        (lines.len(), text.lines().count()),
        (tasks, tasks),
        "{text}"
    );
    // What was on its way to a gateway that died has never begun, and costs nobody anything.
    let told = grid.json(["task", "list", job]);
    for task in told["tasks"].as_array().expect("tasks") {
        let attempts = task["attempts"].as_array().expect("attempts");
        let begun = attempts
            .iter()
            .filter(|attempt| !attempt["started"].is_null());
        assert_eq!(begun.count(), 1, "{task}");
        let ends = attempts
            .iter()
            .filter_map(|attempt| attempt["reason"].as_str());
        let leases = ends.filter(|why| why.contains("not heard of"));
        assert_eq!(leases.count(), 0, "no lease ran out: {task}");
    }
}

fn lost(grid: &Grid) -> u64 {
    let hosts = grid.json(["host", "list"]);
    let hosts = hosts["hosts"].as_array().expect("hosts");
    hosts
        .iter()
        .map(|host| host["lost"].as_u64().expect("a number"))
        .sum()
}

#[test]
fn tasks_behind_a_gateway_end_with_the_right_results_and_join_and_upload_through_it() {
    let mut grid = Grid::with_master(MASTER);
    let gateway = WorkerGateway::start(&grid, "gw1");
    worker(&mut grid, "pc", 2).via(&gateway.address).start();
    let input = grid.file("in.txt", "of the user\n");
    let script = "cat in.txt; head -c 3000000 /dev/zero | tr '\\0' $DESKGRID_TASK_ID > big.bin";
    let job = grid.submit([
        "--array",
        "1-6",
        "--input",
        input.to_str().unwrap(),
        "--output-file",
        "big.bin",
        "--",
        "sh",
        "-c",
        script,
    ]);
    grid.wait(&job);

    let printed = grid.text(["job", "cat", &job, "stdout"]);
    assert_eq!(printed, "of the user\n".repeat(6));
    let fetched = grid.fetch(&job, "results");
    let mut bytes: Vec<u8> = Vec::new();
    for entry in walkdir(&fetched, "big.bin") {
        let content = fs::read(&entry).expect("it was fetched");
        assert_eq!(content.len(), 3_000_000, "{}", entry.display());
        assert!(content.iter().all(|byte| *byte == content[0]));
        bytes.push(content[0]);
    }
    bytes.sort_unstable();
    assert_eq!(bytes, b"123456");
    assert_eq!(joins(&grid, "pc"), 1);

    let through = "deskgrid_gateway_workers{gateway=\"gw1\"}";
    assert_eq!(number(&grid, through), 1);
    grid.kill_worker("pc");
    eventually("the worker is not counted any more", LONG, || {
        let none = format!("{through} 0");
        grid.metrics().contains(&none).then_some(())
    });
}

/// The files of this name below a directory.
fn walkdir(dir: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("it can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(walkdir(&path, name));
        } else if path.file_name().is_some_and(|file| file == name) {
            found.push(path);
        }
    }
    found
}

#[test]
fn an_input_comes_to_a_gateway_once_for_all_its_workers_and_is_kept_over_a_restart() {
    let mut grid = Grid::with_master(MASTER);
    let mut gateway = WorkerGateway::start(&grid, "gw1");
    for name in ["pc1", "pc2", "pc3"] {
        worker(&mut grid, name, 1).via(&gateway.address).start();
    }
    let size = 8_000_000;
    let input = grid.file("in.bin", vec![7; size]);
    let script = "test $(wc -c < in.bin) = 8000000 && sleep 1";
    let submit = || {
        let words = [
            "--array",
            "1-3",
            "--input",
            input.to_str().unwrap(),
            "--",
            "sh",
            "-c",
            script,
        ];
        let job = grid.submit(words);
        grid.wait(&job);
        job
    };
    let job = submit();
    let hosts = |job: &str| {
        let told = grid.json(["task", "list", job]);
        let tasks = told["tasks"].as_array().expect("tasks").clone();
        let each = tasks
            .iter()
            .map(|task| task["attempts"][0]["host"].to_string());
        each.collect::<BTreeSet<_>>()
    };
    assert_eq!(hosts(&job).len(), 3, "each host has had it");
    let sent = || number(&grid, "deskgrid_content_sent_bytes_total{by=\"master\"}");
    assert_eq!(sent(), size as u64, "once");

    // A worker that comes later has it from the file in the cache.
    gateway.restart(&grid);
    let _ = fs::remove_dir_all(grid.state("pc1").join("worker/cache"));
    worker(&mut grid, "pc4", 1).via(&gateway.address).start();
}

#[test]
fn a_revoked_host_is_put_out_at_its_gateway_and_a_revoked_gateway_with_all_its_workers() {
    let mut grid = Grid::with_master(MASTER);
    let gateway = WorkerGateway::start(&grid, "gw1");
    for name in ["pc1", "pc2"] {
        worker(&mut grid, name, 1).via(&gateway.address).start();
    }

    grid.admin(["identity", "revoke", "pc1"]).expect_code(0);
    eventually("the host is put out", LONG, || {
        said(&grid, "pc1")
            .contains("this identity was revoked")
            .then_some(())
    });
    assert!(
        !said(&grid, "pc2").contains("not connected"),
        "the other one stays"
    );
    eventually("it is refused again", LONG, || {
        audit(&grid)
            .contains("through the gateway gw1")
            .then_some(())
    });
    eventually("it hears why each time", LONG, || {
        let told = said(&grid, "pc1");
        assert!(!told.contains("the stream ended where an answer"), "{told}");
        (told.matches("this identity was revoked").count() >= 3).then_some(())
    });

    let looked = grid.as_user("pc1", ["doctor"]).stdout;
    assert!(
        looked.contains("whether it was revoked only the master knows"),
        "{looked}"
    );

    grid.admin(["identity", "revoke", "gw1"]).expect_code(0);
    eventually("the gateway says why", LONG, || {
        let told = said(&grid, "gw1");
        let why = told.contains("this identity was revoked") && told.contains("--rejoin");
        why.then_some(())
    });
    eventually("its worker is gone", LONG, || {
        said(&grid, "pc2")
            .contains("not connected to the master")
            .then_some(())
    });
}

#[test]
fn a_workers_certificate_makes_no_gateway_neither_before_the_master_nor_before_workers() {
    let mut grid = Grid::with_master(MASTER);
    worker(&mut grid, "pc", 1).start();
    let stolen = grid.state("fake").join("gateway/identity");
    fs::create_dir_all(&stolen).expect("a directory of the test's own");
    for name in ["certificate.der", "key.der", "ca.der", "link.toml"] {
        let from = grid.state("pc").join("worker/identity").join(name);
        fs::copy(from, stolen.join(name)).expect("a file of the test's own");
    }

    // As it is, and then as if it were a gateway's.
    let refused = grid.as_user("fake", ["gateway", "start"]).expect_code(6);
    assert!(
        refused.stderr.contains("is for a worker"),
        "{}",
        refused.stderr
    );
    let link = stolen.join("link.toml");
    let text = fs::read_to_string(&link).expect("a file of the test's own");
    fs::write(&link, text.replace("\"worker\"", "\"gateway\"")).expect("a file of the test's own");
    let (address, _) = free_addresses();
    let refused = grid
        .as_user("fake", ["gateway", "start", "--listen", &address])
        .expect_code(6);
    assert!(
        refused.stderr.contains("of role worker may not do this"),
        "{}",
        refused.stderr
    );
    let audit = audit(&grid);
    assert!(
        audit.contains("as gateway") && audit.contains("of role worker may not"),
        "{audit}"
    );

    // Where there is no master to refuse it, workers do, and the token is not told.
    let (nowhere, _) = free_addresses();
    let fake = grid.server(
        "fake",
        [
            "gateway", "start", "--listen", &address, "--master", &nowhere,
        ],
    );
    eventually("it listens", LONG, || {
        said(&grid, "fake")
            .contains("gateway listens at")
            .then_some(())
    });
    let token = grid.token("worker");
    let joins = [
        "worker", "start", "--master", &address, "--join", &token, "--name", "other",
    ];
    let refused = grid.as_user("other", joins);
    assert_ne!(refused.code, 0);
    assert!(
        refused.stderr.contains("is not the master"),
        "{}",
        refused.stderr
    );
    drop(fake);
}

#[test]
fn a_user_takes_no_gateway_for_the_master_and_keeps_the_token() {
    let grid = Grid::with_master(MASTER);
    let gateway = WorkerGateway::start(&grid, "gw1");
    let token = grid.token("client");
    let login = |master: &str| {
        let words = [
            "login", "--master", master, "--join", &token, "--name", "ann",
        ];
        grid.as_user("ann", words)
    };
    let refused = login(&gateway.address);
    assert_ne!(refused.code, 0);
    for word in ["is not the master", "that is a gateway"] {
        assert!(refused.stderr.contains(word), "{}", refused.stderr);
    }
    login(grid.listen()).expect_code(0);
}

#[test]
fn workers_of_a_gateway_that_is_killed_are_at_the_other_one_soon_and_lose_no_attempt() {
    let mut grid = Grid::with_master(MASTER);
    let mut first = WorkerGateway::start(&grid, "gw1");
    let second = WorkerGateway::start(&grid, "gw2");
    let both = format!("{},{}", first.address, second.address);
    let names = ["pc1", "pc2", "pc3"];
    for name in names {
        worker(&mut grid, name, 2).via(&both).start();
    }
    let (job, file) = naps(&grid, 18, 4.0);
    eventually("some have ended", LONG, || file.exists().then_some(()));

    first.process.kill();
    let since = Instant::now();
    for name in names {
        eventually("the worker is back", LONG, || {
            (joins(&grid, name) > 1).then_some(())
        });
    }
    println!(
        "{} workers back after {:.1} s",
        names.len(),
        since.elapsed().as_secs_f64()
    );
    expect_once(&grid, &job, 18, &file);
}

#[test]
fn workers_stay_connected_to_their_gateway_while_the_master_is_killed_and_started_again() {
    let mut grid = Grid::with_master(MASTER);
    let gateway = WorkerGateway::start(&grid, "gw1");
    for name in ["pc1", "pc2"] {
        worker(&mut grid, name, 2).via(&gateway.address).start();
    }
    let (job, file) = naps(&grid, 12, 2.0);
    eventually("some have ended", LONG, || file.exists().then_some(()));

    grid.kill_master();
    grid.start_master();
    for name in ["pc1", "pc2"] {
        eventually("the worker greets the next one", LONG, || {
            (joins(&grid, name) > 1).then_some(())
        });
    }
    expect_once(&grid, &job, 12, &file);
    for name in ["pc1", "pc2"] {
        let told = said(&grid, name);
        assert!(
            told.contains("the gateway has another connection to a master"),
            "{told}"
        );
        assert!(!told.contains("not connected to the master"), "{told}");
    }
}

#[test]
fn a_worker_that_stands_still_is_put_out_and_keeps_no_other_waiting() {
    let mut grid = Grid::with_master(MASTER);
    let gateway = WorkerGateway::start(&grid, "gw1");
    for name in ["pc1", "pc2"] {
        worker(&mut grid, name, 1).via(&gateway.address).start();
    }
    grid.running("pc1").signal(Signal::STOP);
    let job = grid.submit(["--array", "1-40", "--noop"]);
    grid.until(
        "the other one has done some",
        &["job", "info", &job],
        |job| (job["tasks"]["finished"].as_u64()? > 10).then_some(()),
    );
    grid.until(
        "the master knows that it is silent",
        &["host", "list"],
        |told| {
            let hosts = told["hosts"].as_array()?;
            let still = hosts.iter().find(|host| host["host"] == "pc1")?;
            (still["state"] != "ready" && still["state"] != "busy").then_some(())
        },
    );

    grid.running("pc1").signal(Signal::CONT);
    grid.wait(&job);
    assert_eq!(lost(&grid), 0);
}

#[test]
fn a_takeover_by_the_other_master_is_the_gateways_business_and_its_workers_stay_connected() {
    let Some(mut pair) = Pair::with_first() else {
        return;
    };
    pair.launch(1);
    pair.until_standing(1);
    let both = pair.both();
    let login = [
        "login",
        "--master",
        &both,
        "--join",
        &pair.token("client"),
        "--name",
        "user",
    ];
    pair.run("user", &login).expect_code(0);

    let (_gateway, address) = pair.gateway("gw1");
    let _worker = pair.worker("pc", &address);
    pair.until_worker_is_there();

    let (job, file) = pair.submit(12, 1.0);
    eventually("some have run", LONG, || file.exists().then_some(()));
    pair.kill(0);
    let since = Instant::now();
    eventually("the worker greets the other master", LONG, || {
        (pair.joins() > 1).then_some(())
    });
    println!(
        "served by the other master after {:.1} s",
        since.elapsed().as_secs_f64()
    );
    pair.expect_once(&job, 12, &file);
    let told = pair.said("pc");
    assert!(
        told.contains("the gateway has another connection to a master"),
        "{told}"
    );
    assert!(!told.contains("not connected to the master"), "{told}");
}

#[test]
fn a_worker_beyond_the_most_of_a_gateway_goes_to_the_next_address() {
    let mut grid = Grid::with_master(MASTER);
    let gateway = WorkerGateway::start_with(&grid, "gw1", &["--most-workers", "1"]);
    let both = format!("{},{}", gateway.address, grid.listen());
    worker(&mut grid, "pc1", 1).via(&gateway.address).start();
    worker(&mut grid, "pc2", 1).via(&both).start();
    let job = grid.submit(["--array", "1-8", "--", "true"]);
    grid.wait(&job);

    // Only the second one has lost nothing when the gateway is gone.
    drop(gateway);
    eventually("the first one is sent away", LONG, || {
        said(&grid, "pc1")
            .contains("not connected to the master")
            .then_some(())
    });
    assert!(!said(&grid, "pc2").contains("does not answer any more"));
}

#[test]
fn a_pc_that_joins_through_a_gateway_learns_no_key_for_new_programs_from_it() {
    let mut grid = Grid::with_master(MASTER);
    let gateway = WorkerGateway::start(&grid, "gw1");
    let key = grid.dir().join("update.key").display().to_string();
    grid.admin(["host", "update", "key", &key]).expect_code(0);

    worker(&mut grid, "behind", 1).via(&gateway.address).start();
    worker(&mut grid, "direct", 1).start();
    let learned = |grid: &Grid, name: &str| {
        let identity = grid.state(name).join("worker/identity");
        identity.join("update.key").exists()
    };
    assert!(learned(&grid, "direct"));
    assert!(
        !learned(&grid, "behind"),
        "a gateway could have named a key of its own"
    );
}

#[test]
fn a_certificate_is_renewed_through_a_gateway_for_who_holds_its_key() {
    let grid = Grid::with_master(MASTER);
    let gateway = WorkerGateway::start(&grid, "gw1");
    let token = grid.token("worker").parse().expect("a token");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut pc = link::enrol(grid.listen(), &token, "pc")
            .await
            .expect("it joins");
        pc.link.master.clone_from(&gateway.address);
        let connection = link::connect(&pc, Purpose::Worker)
            .await
            .expect("it is let in");
        let renewed = link::renewal::renew(&connection, &pc)
            .await
            .expect("it is renewed");
        assert_ne!(renewed.certificate, pc.certificate);
        // Also once more where the old one was shown.
        let again = link::renewal::renew(&connection, &renewed).await;
        let renewed = again.expect("it is renewed again");

        let connection = link::connect(&renewed, Purpose::Worker).await;
        let connection = connection.expect("the new one is let in");
        let again = link::renewal::renew(&connection, &renewed).await;
        again.expect("and renewed");
    });
}

#[test]
fn a_pc_that_has_joined_goes_to_the_gateway_that_is_named_at_its_next_start() {
    let mut grid = Grid::with_master(MASTER);
    let gateway = WorkerGateway::start(&grid, "gw1");
    worker(&mut grid, "pc", 1).start();
    grid.kill_worker("pc");
    worker(&mut grid, "pc", 1).via(&gateway.address).launch();
    eventually("it is behind the gateway", LONG, || {
        (number(&grid, "deskgrid_gateway_workers{gateway=\"gw1\"}") == 1).then_some(())
    });
}

#[test]
fn a_gateway_without_room_on_its_disk_passes_inputs_on() {
    let mut grid = Grid::with_master(MASTER);
    let input = grid.file("in.bin", vec![7u8; 8_000_000]);
    // No file of this process may be larger than 1 MiB, as if the disk were full.
    let limited = "trap '' XFSZ; ulimit -f 2048; exec \"$0\" \"$@\"";
    grid.wrap("gw1", ["sh", "-c", limited]);
    let gateway = WorkerGateway::start(&grid, "gw1");
    worker(&mut grid, "pc1", 1).via(&gateway.address).start();

    let job = grid.submit([
        "--input",
        input.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        "test $(wc -c < in.bin) = 8000000",
    ]);
    grid.wait(&job);
    let told = said(&grid, "gw1");
    assert!(
        told.contains("cannot be kept here, and is passed on"),
        "{told}"
    );
}
