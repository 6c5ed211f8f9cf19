//! Large inputs go from the master to one host and from there to the others, where admins and
//! owners let them.

use serde_json::Value;
use tests::Grid;

/// The bytes of the input: less than a part of a tree, more than the least that is shared.
const BYTES: usize = 6_000_000;

/// The bytes of inputs that were sent `by` the master or by hosts.
pub(crate) fn sent(grid: &Grid, by: &str) -> u64 {
    let metrics = grid.metrics();
    let name = format!("deskgrid_content_sent_bytes_total{{by=\"{by}\"}} ");
    let found = metrics.lines().find_map(|line| line.strip_prefix(&name));
    found.map_or(0, |number| number.parse().expect("a number"))
}

/// Expects that so many bytes of inputs were sent by the master, and so many by hosts.
#[track_caller]
fn expect_sent(grid: &Grid, master: u64, hosts: u64) {
    assert_eq!((sent(grid, "master"), sent(grid, "hosts")), (master, hosts));
}

/// A file that no compression makes smaller, as an input called `in`.
pub(crate) fn large(grid: &Grid, name: &str, bytes: usize) -> String {
    let content: Vec<u8> = (0..bytes).map(|_| rand::random()).collect();
    let path = grid.file(name, content);
    format!("{}:in", path.display())
}

/// A job whose ranks, each on another host, all read the input to its end.
fn read_on(grid: &Grid, hosts: &str, input: &str) {
    let read = ["--", "sh", "-c", "cat in | wc -c"];
    let job = grid.submit([&["--width", hosts, "--input", input][..], &read].concat());
    grid.wait(&job);
    let count = grid.text(["job", "cat", &job, "stdout"]);
    assert!(count.contains(&BYTES.to_string()), "{count}");
}

fn status(grid: &Grid, worker: &str) -> Value {
    let told = grid.as_user(worker, ["--output", "json", "worker", "status"]);
    told.expect_code(0).json()
}

#[test]
fn an_input_of_many_hosts_leaves_the_master_once() {
    // On a busy machine heartbeats come late, and never all four hosts would be free at once.
    let patient = "heartbeat = \"500ms\"\nsuspect_after = \"30s\"\nlease = \"60s\"\n";
    let mut grid = Grid::with_master(patient);
    for name in ["h1", "h2", "h3", "h4"] {
        grid.worker(name).start();
    }
    let input = large(&grid, "input", BYTES);
    read_on(&grid, "4", &input);
    // On a machine that lets a worker wait for seconds, one may be given up for another.
    let bytes = BYTES as u64;
    let hosts = sent(&grid, "hosts");
    assert!(sent(&grid, "master") < 2 * bytes && hosts > 2 * bytes);

    // The owners see it.
    let sums = ["h1", "h2", "h3", "h4"].map(|name| {
        let told = status(&grid, name);
        assert_eq!(told["shares_inputs"], "yes", "{told}");
        let number = |key: &str| told[key].as_u64().expect("a number");
        [
            number("inputs_sent_bytes"),
            number("inputs_from_hosts_bytes"),
        ]
    });
    let sum = |at: usize| sums.iter().map(|of| of[at]).sum::<u64>();
    assert!(sum(0) >= hosts && sum(1) == hosts, "{sums:?} of {hosts}");
}

#[test]
fn what_a_worker_has_from_before_it_passes_on_after_a_restart() {
    let mut grid = Grid::with_worker();
    let input = large(&grid, "input", BYTES);
    read_on(&grid, "1", &input);
    grid.kill_worker("h1");
    grid.worker("h1").start();
    grid.worker("h2").start();
    read_on(&grid, "2", &input);
    let bytes = BYTES as u64;
    expect_sent(&grid, bytes, bytes);
}

#[test]
fn an_owner_who_says_no_passes_nothing_on_and_still_gets_it_from_others() {
    let mut grid = Grid::start();
    grid.worker("no1").config("share_inputs = false\n").start();
    let input = large(&grid, "input", BYTES);
    read_on(&grid, "1", &input);
    grid.worker("no2").config("share_inputs = false\n").start();
    read_on(&grid, "2", &input);
    let bytes = BYTES as u64;
    expect_sent(&grid, 2 * bytes, 0);

    // With the content comes a host that shares it.
    grid.worker("yes").start();
    read_on(&grid, "3", &input);
    expect_sent(&grid, 3 * bytes, 0);
    grid.worker("no3").config("share_inputs = false\n").start();
    read_on(&grid, "4", &input);
    expect_sent(&grid, 3 * bytes, bytes);
    assert_eq!(status(&grid, "yes")["inputs_sent_bytes"], bytes);
    let told = status(&grid, "no1");
    let why = told["shares_inputs"].as_str().expect("a text");
    assert!(why.contains("share_inputs is false"), "{told}");
}

#[test]
fn while_tasks_may_not_run_nothing_is_passed_on() {
    let mut grid = Grid::with_worker();
    let input = large(&grid, "input", BYTES);
    read_on(&grid, "1", &input);
    let paused = grid.as_user("h1", ["worker", "pause"]);
    paused.expect_code(0);
    grid.worker("h2").start();
    read_on(&grid, "1", &input);
    let bytes = BYTES as u64;
    expect_sent(&grid, 2 * bytes, 0);

    let told = status(&grid, "h1");
    assert_eq!(told["shares_inputs"], "not now: tasks may not run");
    grid.as_user("h1", ["worker", "resume"]).expect_code(0);
    assert_eq!(status(&grid, "h1")["shares_inputs"], "yes");
}

#[test]
fn an_admin_who_says_no_has_every_host_served_by_the_master() {
    let mut grid = Grid::start_with("peer_transfer = false\n");
    for name in ["h1", "h2", "h3"] {
        grid.worker(name).start();
    }
    let input = large(&grid, "input", BYTES);
    read_on(&grid, "3", &input);
    let bytes = BYTES as u64;
    expect_sent(&grid, 3 * bytes, 0);
}

#[test]
fn parts_of_a_tree_are_passed_on_too() {
    let mut grid = Grid::start();
    for name in ["h1", "h2", "h3"] {
        grid.worker(name).start();
    }
    let mut whole = 0;
    for n in 0..600 {
        let content: Vec<u8> = (0..20_000).map(|_| rand::random()).collect();
        whole += content.len() as u64;
        grid.file(&format!("tree/m{}/f{n}", n % 7), content);
    }
    let tree = format!("{}:tree", grid.dir().join("tree").display());
    let words = ["--width", "3", "--input-tree", &tree];
    let read = ["--", "sh", "-c", "cat tree/m*/f* | wc -c"];
    let job = grid.submit([&words[..], &read].concat());
    grid.wait(&job);

    let (master, hosts) = (sent(&grid, "master"), sent(&grid, "hosts"));
    // The list, and a last part that is small, come from the master.
    assert!(master < whole + whole / 2, "{master} of {whole}");
    assert!(hosts > whole + whole / 2, "{hosts} of {whole}");
}
