//! Pages of a busy master: 10,000 hosts and a million tasks behind them, alone and with a hundred
//! viewers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
/// The rounds of requests timed in turn, without and with viewers, and the requests of each.
const ROUNDS: u32 = 3;
const TIMED: u32 = 150;

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
    let mut herds = herd::start(&grid, workers, processes);
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
    std::thread::sleep(PAUSE);
    let watched = share(master, PERIOD);
    drop(watching);
    println!(
        "\nOf one core the master takes {:.1} % without viewers and {:.1} % with {VIEWERS}: they cost {:.1} %.\n",
        idle * 100.0,
        watched * 100.0,
        (watched - idle) * 100.0
    );

    let mut calm = Vec::new();
    let mut beside = Vec::new();
    for _ in 0..ROUNDS {
        let client = runtime.block_on(connect(&grid, "user"));
        calm.extend(runtime.block_on(timed(&client, TIMED)).0);
        let watching = Viewers::start(&http);
        beside.extend(runtime.block_on(timed(&client, TIMED)).0);
        drop(watching);
    }
    calm.sort_unstable_by(f64::total_cmp);
    beside.sort_unstable_by(f64::total_cmp);
    println!("| submission | alone | beside {VIEWERS} viewers | ratio |\n|---|---|---|---|");
    for (name, part) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        let (alone, beside) = (at(&calm, part), at(&beside, part));
        println!(
            "| {name} | {alone:.2} ms | {beside:.2} ms | {:.2} |",
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
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Viewers {
    /// Starts them, each at a page of its own choice, at moments spread over the pause.
    fn start(http: &Http) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let one = |number: u32| {
            let (over, http) = (Arc::clone(&over), http.clone());
            let page = PAGES[number as usize % PAGES.len()];
            std::thread::spawn(move || {
                std::thread::sleep(PAUSE * number / VIEWERS);
                look(&http, page, &over);
            })
        };
        let threads = (0..VIEWERS).map(one).collect();
        Self { over, threads }
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
fn look(http: &Http, page: &str, over: &AtomicBool) {
    let mut mark = String::new();
    while !over.load(Ordering::Relaxed) {
        let answer = http.clone().with("If-None-Match", &mark).get(page);
        assert!(
            matches!(answer.status, 200 | 304),
            "{page}: {}",
            answer.status
        );
        mark = answer.headers.get("etag").cloned().unwrap_or_default();
        std::thread::sleep(PAUSE);
    }
}
