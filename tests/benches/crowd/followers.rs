//! Followers of a bag of many short tasks: whether each event is seen exactly once while followers
//! and the master are killed, and the bytes of each task's events.

use std::time::Instant;

use common::event::{EventView, Following, GridEvent};
use common::wire::client::{Reply, Request};
use common::wire::encode;
use link::Client;
use serde_json::Value;
use tests::Grid;

use super::{connect, grid, noops, runtime, submit};

/// The most bytes that the events of a task may take.
const MOST_BYTES: u64 = 150;

/// Runs so many tasks that do nothing, and prints what their events cost.
pub(super) fn run(tasks: u32) {
    let mut grid = grid();
    grid.worker("h1").slots(2).dedicated().start();
    let follower = follow(&grid, 0);
    let runtime = runtime();
    let began = Instant::now();
    let job =
        runtime.block_on(async { submit(&connect(&grid, "user").await, &noops(tasks)).await });
    let job = job.to_string();

    let at_first = reached(&grid, &job, tasks / 8);
    let mut seen = numbers(&follower.killed().stdout);
    let second = follow(&grid, last(&seen));
    let at_master = reached(&grid, &job, tasks / 4);
    grid.kill_master();
    grid.start_master();
    let at_second = reached(&grid, &job, tasks / 2);
    seen.extend(numbers(&second.killed().stdout));
    grid.deskgrid(["job", "wait", &job]).expect_code(0);
    let took_s = began.elapsed().as_secs_f64();
    seen.extend(numbers(&past(&grid, last(&seen))));

    let replies = runtime.block_on(async { all(&connect(&grid, "admin").await).await });
    let views: Vec<&EventView> = replies.iter().flat_map(views).collect();
    let whole: Vec<u64> = views.iter().map(|view| view.seq).collect();
    let finished = |view: &&&EventView| matches!(view.event, GridEvent::TaskFinished { .. });
    let finished = views.iter().filter(finished).count();
    let sent: usize = replies.iter().map(|r| encode(r).expect("sent").len()).sum();
    let wire = sent as u64 / u64::from(tasks);
    let store = stored(&grid) / u64::from(tasks);

    println!(
        "{tasks} no-op tasks, {took_s:.1} s; a follower was killed when {at_first} were finished, the master at {at_master}, \
         the next follower at {at_second}."
    );
    println!("| events | bytes of a task on the wire | in the store | most |\n|---|---|---|---|");
    println!("| {} | {wire} | {store} | {MOST_BYTES} |", whole.len());

    let gapless = whole.iter().copied().eq(1..=whole.len() as u64);
    let once = seen == whole && gapless && finished == tasks as usize;
    let cheap = wire.max(store) <= MOST_BYTES;
    println!(
        "\nEach event seen exactly once, by its followers in turn: {}. At most {MOST_BYTES} bytes: {}.",
        word(once),
        word(cheap)
    );
    assert!(once && cheap, "see above");
}

fn word(kept: bool) -> &'static str {
    if kept { "kept" } else { "not kept" }
}

/// Starts a command that follows all events beyond this one.
fn follow(grid: &Grid, after: u64) -> tests::Started {
    let after = after.to_string();
    grid.background_as("admin", ["--output", "json", "events", "--after", &after])
}

/// The events beyond this one so far, as the command prints them.
fn past(grid: &Grid, after: u64) -> String {
    let after = after.to_string();
    let args = ["--output", "json", "events", "--past", "--after", &after];
    grid.admin(args).expect_code(0).stdout
}

/// The numbers of the events in whole lines of what a follower has printed.
fn numbers(text: &str) -> Vec<u64> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let number = |line: &str| {
        let event: Value = serde_json::from_str(line).expect("a JSON value on each line");
        event["seq"].as_u64().expect("a number")
    };
    whole.lines().map(number).collect()
}

fn last(seen: &[u64]) -> u64 {
    seen.last().copied().unwrap_or(0)
}

/// Waits until so many tasks are finished, and returns how many are.
fn reached(grid: &Grid, job: &str, count: u32) -> u64 {
    grid.until("some tasks are finished", &["job", "info", job], |job| {
        let finished = job["tasks"]["finished"].as_u64()?;
        (finished >= u64::from(count)).then_some(finished)
    })
}

/// All events so far, with results, as the master sends them.
async fn all(client: &Client) -> Vec<Reply> {
    let following = Following {
        after: Some(0),
        results: true,
        ..Following::default()
    };
    let asked = client.ask(&Request::Follow(following)).await;
    asked.expect("the events are told")
}

fn views(reply: &Reply) -> &[EventView] {
    match reply {
        Reply::Events(page) => &page.events,
        _ => &[],
    }
}

/// The bytes of all events in the master's store: beside its body, a row has two numbers and its
/// header.
fn stored(grid: &Grid) -> u64 {
    let path = grid.state("admin").join("master/store.sqlite");
    let db = rusqlite::Connection::open(path).expect("a store");
    let sql = "SELECT sum(length(body) + 24) FROM event";
    let bytes: i64 = db
        .query_row(sql, [], |row| row.get(0))
        .expect("events are kept");
    bytes.unsigned_abs()
}
