//! The cost of a crowd to its master, directly and behind gateways, and to those.

use std::time::{Duration, Instant};

use tests::{Grid, Http, WorkerGateway};

/// The time over which processor time is counted, of a crowd of which each worker runs a task.
const CALM: Duration = Duration::from_secs(60);
/// So often the master is asked for its workers.
const LOOK: Duration = Duration::from_millis(100);
/// The longest time that they may take to come back.
const MOST: Duration = Duration::from_secs(300);
/// The gateways' names.
const NAMES: [&str; 8] = ["gw1", "gw2", "gw3", "gw4", "gw5", "gw6", "gw7", "gw8"];

/// A process that serves the crowd: its memory without one, and its processor time so far.
struct Measured {
    pid: u32,
    empty: u64,
    spent_s: f64,
}

impl Measured {
    fn new(pid: u32) -> Self {
        Self {
            pid,
            empty: tests::resident(pid),
            spent_s: 0.0,
        }
    }

    /// KiB of memory for each of so many workers.
    fn kib_each(&self, workers: u32) -> f64 {
        let grown = tests::resident(self.pid).saturating_sub(self.empty);
        grown as f64 / 1_024.0 / f64::from(workers)
    }

    fn begin(&mut self) {
        self.spent_s = tests::processor_s(self.pid);
    }

    /// Milliseconds of processor time for each of so many workers in a minute.
    fn ms_each(&self, workers: u32) -> f64 {
        let spent_s = tests::processor_s(self.pid) - self.spent_s;
        spent_s * 1_000.0 * 60.0 / CALM.as_secs_f64() / f64::from(workers)
    }
}

/// Measures so many workers, directly first and then behind so many gateways.
pub(super) fn run(workers: u32, gateways: u32) {
    println!(
        "| workers | by way of | all joined after | the master's memory for each | its processor time for each in a minute \
         | a gateway's memory for each | its processor time for each in a minute | a killed gateway's are back after | all back after a restart | attempts |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for gateways in [0, gateways] {
        measure(workers, gateways);
    }
}

fn measure(workers: u32, count: u32) {
    let mut grid = super::grid();
    let names = &NAMES[..(count as usize).min(NAMES.len())];
    let more = ["--most-workers", "60000"];
    let mut gateways: Vec<WorkerGateway> = names
        .iter()
        .map(|name| WorkerGateway::start_with(&grid, name, &more))
        .collect();
    let ways: Vec<String> = match gateways.is_empty() {
        true => vec![grid.listen().to_owned()],
        // Each worker knows two of them.
        false => (0..gateways.len())
            .map(|at| {
                let next = &gateways[(at + 1) % gateways.len()];
                format!("{},{}", gateways[at].address, next.address)
            })
            .collect(),
    };

    let mut master = Measured::new(grid.master_pid());
    let mut between: Vec<Measured> = gateways
        .iter()
        .map(|one| Measured::new(one.process.pid()))
        .collect();
    let began = Instant::now();
    let processes = if gateways.is_empty() { 4 } else { count };
    let (mut herds, job) = super::busy_herds(&grid, &ways, workers, processes);
    let joined = began.elapsed();

    master.begin();
    between.iter_mut().for_each(Measured::begin);
    std::thread::sleep(CALM);
    let of_master = (master.kib_each(workers), master.ms_each(workers));
    let each = workers / count.max(1);
    let of_gateways = (
        mean(between.iter().map(|one| one.kib_each(each))),
        mean(between.iter().map(|one| one.ms_each(each))),
    );

    // The first one dies, and its workers go to the second one; those of the others see the master start again.
    let moved = (!gateways.is_empty()).then(|| {
        let began = Instant::now();
        drop(gateways.remove(0));
        while through(&grid, &names[1..]) < workers {
            assert!(began.elapsed() < MOST, "workers are missing");
            std::thread::sleep(LOOK);
        }
        began.elapsed()
    });
    grid.kill_master();
    let began = Instant::now();
    grid.start_master();
    herds.iter_mut().for_each(|herd| herd.wait_for("back"));
    let back = began.elapsed();
    let view = super::delivered(&grid, &mut herds, job);

    let (way, kib, ms) = match gateways.is_empty() {
        true => ("directly".to_owned(), "–".to_owned(), "–".to_owned()),
        false => (
            format!("{count} gateways"),
            format!("{:.1} KiB", of_gateways.0),
            format!("{:.2} ms", of_gateways.1),
        ),
    };
    let moved = moved.map_or("–".to_owned(), |moved| {
        format!("{:.1} s", moved.as_secs_f64())
    });
    println!(
        "| {workers} | {way} | {:.1} s | {:.1} KiB | {:.2} ms | {kib} | {ms} | {moved} | {:.1} s | {} |",
        joined.as_secs_f64(),
        of_master.0,
        of_master.1,
        back.as_secs_f64(),
        view["attempts"],
    );
}

/// The number of workers that the master sees connected through these gateways.
fn through(grid: &Grid, names: &[&str]) -> u32 {
    let metrics = Http::tcp(grid.http()).get("/metrics");
    let of = |name: &str| {
        let series = format!("deskgrid_gateway_workers{{gateway=\"{name}\"}} ");
        let value = metrics
            .text()
            .lines()
            .find_map(|line| line.strip_prefix(&series)?.parse().ok());
        value.unwrap_or(0)
    };
    names.iter().map(|name| of(name)).sum()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
