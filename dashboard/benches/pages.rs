//! The cost of pages: what the server computes for each, on a grid in memory of a million tasks in
//! 200 jobs and 10,000 hosts, and on one of a tenth of that. The master's part is not in it.

#[path = "../tests/all/door.rs"]
mod door;

use std::time::Instant;

use door::{Memory, PAGES, Size, fetch, pages};

/// The number of times that each page is fetched.
const TIMES: usize = 15;

#[tokio::main]
async fn main() {
    println!(
        "server time of a page, in ms: median (least to most) of {TIMES}, and its size in KiB"
    );
    for (hosts, jobs, tasks) in [(1_000, 20, 5_000), (10_000, 200, 5_000)] {
        let grid = Memory::new(Size {
            hosts,
            jobs,
            tasks,
            mark: "",
        });
        let pages = pages(&grid);
        println!("\n{hosts} hosts, {jobs} jobs of {tasks} tasks");
        for path in PAGES {
            let mut took = Vec::new();
            let mut size = 0;
            for _ in 0..TIMES {
                let begin = Instant::now();
                size = fetch(&pages, path, "").await.2.len();
                took.push(begin.elapsed().as_secs_f64() * 1e3);
            }
            took.sort_by(f64::total_cmp);
            let (least, median, most) = (took[0], took[TIMES / 2], took[TIMES - 1]);
            println!(
                "  {path:28} {median:6.1} ({least:.1} to {most:.1}) {:6.1}",
                size as f64 / 1024.0
            );
        }
    }
}
