//! Pages of a busy master: 10,000 hosts and a million tasks behind them, alone and with a hundred
//! viewers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tests::{Http, processor_s};

use super::flood::{at, timed};
use super::{connect, grid, herd, noops, runtime, submit};

const JOBS: u32 = 200;
const TASKS: u32 = 5_000;
/// The number of times that each page is asked for.
const LOOKS: u32 = 15;
/// The number of viewers, and the time between two looks of one, as the pages' script has it.
const VIEWERS: u32 = 100;
const PAUSE: Duration = Duration::from_secs(2);
/// The time over which the master's processor time is measured.
const PERIOD: Duration = Duration::from_secs(20);
/// The rounds of requests timed in turn, without and with viewers, and the requests of each: enough
/// that some ten of them are beyond the 99th percentile.
const ROUNDS: u32 = 4;
const TIMED: u32 = 250;
/// The requests timed while the viewers open their pages: some two seconds of them.
const OPENING: u32 = 70;

const PAGES: [&str; 12] = [
    "/",
    "/jobs",
    "/jobs?state=open",
    "/jobs/1",
    "/jobs/150",
    "/jobs/1/why",
    "/jobs/1/tasks/1",
    "/hosts",
    "/hosts/pc-0-1",
    "/calendar",
    "/trust",
    "/admin",
];

/// Measures the pages, the viewers, and the requests of others beside them.
pub(super) fn run(workers: u32, processes: u32) {
    let grid = grid();
    let mut herds = herd::start(&grid, &[grid.listen().to_owned()], workers, processes);
    herds.iter_mut().for_each(|herd| herd.wait_for("joined"));
    let runtime = runtime();
    runtime.block_on(async {
        let client = connect(&grid, "user").await;
        for _ in 0..JOBS {
            submit(&client, &noops(TASKS)).await;
        }
    });
    herds.iter_mut().for_each(|herd| herd.wait_for("holds"));

    let bearer = grid.bearer("admin", "admin");
    let http = Http::tcp(grid.http()).with("Authorization", &format!("Bearer {bearer}"));
    let master = grid.master_pid();
    pages(&http, master);

    let idle = share(master, PERIOD);
    let watching = Viewers::start(&http);
    watching.wait_until_all_look();
    let watched = share(master, PERIOD);
    drop(watching);
    println!(
        "\nOf one core the master takes {:.1} % without viewers and {:.1} % with {VIEWERS}: they cost {:.1} %.\n",
        idle * 100.0,
        watched * 100.0,
        (watched - idle) * 100.0
    );

    submissions(&grid, &http);
}

/// Times submissions alone, while a hundred people open their pages, and while they look at them.
fn submissions(grid: &tests::Grid, http: &Http) {
    let runtime = runtime();
    let (mut alone, mut opening, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let client = runtime.block_on(connect(grid, "user"));
        alone.extend(runtime.block_on(timed(&client, TIMED)).0);

        let watching = Viewers::start(http);
        opening.extend(runtime.block_on(timed(&client, OPENING)).0);
        watching.wait_until_all_look();
        beside.extend(runtime.block_on(timed(&client, TIMED)).0);
        drop(watching);
    }

    for times in [&mut alone, &mut opening, &mut beside] {
        times.sort_unstable_by(f64::total_cmp);
    }
    println!(
        "| submission | alone | while {VIEWERS} open a page within {} s | ratio | while they look | ratio |\n|---|---|---|---|---|---|",
        PAUSE.as_secs()
    );
    for (name, part) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        let [alone, opening, beside] = [&alone, &opening, &beside].map(|times| at(times, part));
        println!(
            "| {name} | {alone:.2} ms | {opening:.2} ms | {:.2} | {beside:.2} ms | {:.2} |",
            opening / alone,
            beside / alone
        );
    }
}

/// Prints what each page costs.
fn pages(http: &Http, master: u32) {
    println!("| page | processor of the master | median of {LOOKS} | KiB |\n|---|---|---|---|");
    for page in PAGES {
        http.get(page).expect(200);
        let before = processor_s(master);
        let mut times = Vec::new();
        let mut bytes = 0;
        for _ in 0..LOOKS {
            let begun = Instant::now();
            bytes = http.get(page).expect(200).body.len();
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        let spent_ms = (processor_s(master) - before) * 1e3 / f64::from(LOOKS);
        times.sort_unstable_by(f64::total_cmp);
        println!(
            "| `{page}` | {spent_ms:.1} ms | {:.1} ms | {:.1} |",
            at(&times, 0.5),
            bytes as f64 / 1_024.0
        );
    }
}

/// The part of a core that a process takes over some time.
fn share(pid: u32, period: Duration) -> f64 {
    let (begun, before) = (Instant::now(), processor_s(pid));
    std::thread::sleep(period);
    (processor_s(pid) - before) / begun.elapsed().as_secs_f64()
}

/// People who look at pages, until the value is dropped.
struct Viewers {
    over: Arc<AtomicBool>,
    /// The number of them that have their page.
    looking: Arc<AtomicU32>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Viewers {
    /// Starts them, each at a page of its own choice, at moments spread over the pause.
    fn start(http: &Http) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let looking = Arc::new(AtomicU32::new(0));
        let one = |number: u32| {
            let (over, looking, http) = (Arc::clone(&over), Arc::clone(&looking), http.clone());
            let page = PAGES[number as usize % PAGES.len()];
            std::thread::spawn(move || {
                std::thread::sleep(PAUSE * number / VIEWERS);
                look(&http, page, &over, &looking);
            })
        };
        let threads = (0..VIEWERS).map(one).collect();
        Self {
            over,
            looking,
            threads,
        }
    }

    /// Waits until each of them has opened its page: from then on only their scripts ask.
    fn wait_until_all_look(&self) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.looking.load(Ordering::Relaxed) < VIEWERS {
            assert!(Instant::now() < until, "some viewers get no page");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Viewers {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a viewer ends well");
        }
    }
}

/// Looks at a page again and again, as its script does: an unchanged page has no body.
fn look(http: &Http, page: &str, over: &AtomicBool, looking: &AtomicU32) {
    let mut mark = String::new();
    while !over.load(Ordering::Relaxed) {
        let answer = http.clone().with("If-None-Match", &mark).get(page);
        assert!(
            matches!(answer.status, 200 | 304),
            "{page}: {}",
            answer.status
        );
        if mark.is_empty() {
            looking.fetch_add(1, Ordering::Relaxed);
        }
        mark = answer.headers.get("etag").cloned().unwrap_or_default();
        std::thread::sleep(PAUSE);
    }
}
