//! The cost of `deskgrid top` to its user with 10,000 hosts on the screen's list: processor time, by the time
//! that the pictures are of, and the bytes for the terminal: `cargo bench -p cli --bench top`.
//! Looks at a made-up grid; what the connection itself costs is not in it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The seconds that the pictures are of.
const SECONDS: u64 = 120;

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        now.tv_sec.unsigned_abs(),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

fn main() {
    println!(
        "| hosts | pictures | processor time | part of a processor | to the terminal | from the master |"
    );
    println!("|---|---|---|---|---|---|");
    for hosts in [100, 1_000, 10_000] {
        let before = processor_time();
        let seen = cli::rehearse_top(hosts, SECONDS);
        let used = processor_time().saturating_sub(before).as_secs_f64();
        println!(
            "| {hosts} | {} | {used:.2} s | {:.2} % | {} B/s | {} B/s |",
            seen.frames,
            100.0 * used / SECONDS as f64,
            seen.written / SECONDS,
            seen.received / SECONDS,
        );
    }
}
