//! A grid whose store is on one of the two engines.

use std::time::{Duration, Instant};

use tests::{Grid, Http, Postgres, children_processor_s, processor_s};

use crate::session::BenchSession;

/// The engine of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineKind {
    /// A file of SQLite's.
    Sqlite,
    /// A database of a server's that `tests/postgres` has started.
    Postgres,
}

/// The time between two looks whether a master answers.
const LOOK: Duration = Duration::from_millis(5);
/// The longest that a start may take.
const LONGEST: Duration = Duration::from_secs(120);

/// A master with the shipped settings, and a worker.
pub(crate) struct EngineGrid {
    kind: EngineKind,
    grid: Grid,
    /// The first process of the database's server.
    server: Option<u32>,
}

impl EngineGrid {
    /// Starts it, with a worker of so many slots (none: no worker). `None` where there is no server; says so.
    pub(crate) fn start(kind: EngineKind, slots: u32) -> Option<Self> {
        let (config, server) = match kind {
            EngineKind::Sqlite => (String::new(), None),
            EngineKind::Postgres => {
                let Some(Postgres { url, server, .. }) = Postgres::with_database() else {
                    eprintln!(
                        "no PostgreSQL: run this by `tests/postgres cargo bench -p tests --bench store`"
                    );
                    return None;
                };
                (format!("store = \"{url}\"\n"), Some(server))
            }
        };
        let mut grid = Grid::with_master(&config);
        if slots > 0 {
            grid.worker("bench").slots(slots).start();
        }
        Some(Self { kind, grid, server })
    }

    /// The name of the engine.
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            EngineKind::Sqlite => "SQLite",
            EngineKind::Postgres => "PostgreSQL",
        }
    }

    /// Submits so many tasks without a process, and waits for their end.
    pub(crate) fn noops(&self, count: u32) {
        let array = format!("1-{count}");
        let submit = ["submit", "--noop", "--array", &array, "--wait"];
        self.grid.deskgrid(submit).expect_code(0);
    }

    /// Submits so many, and does not wait. Returns the job.
    pub(crate) fn queue(&self, count: u32) -> String {
        let array = format!("1-{count}");
        self.grid.submit(["--noop", "--array", &array])
    }

    /// Cancels a job.
    pub(crate) fn cancel(&self, job: &str) {
        self.grid.deskgrid(["job", "cancel", job]).expect_code(0);
    }

    /// Kills the master, and starts it. Returns the seconds until `/healthz` says that all is well: it is
    /// asked so often that its answer's time is the master's own, not that of a command's pauses.
    pub(crate) fn restarted_s(&mut self) -> f64 {
        self.grid.kill_master();
        let start = Instant::now();
        self.grid.launch_master();

        let health = Http::tcp(self.grid.http());
        while !is_well(&health) {
            assert!(start.elapsed() < LONGEST, "the master does not answer");
            std::thread::sleep(LOOK);
        }
        start.elapsed().as_secs_f64()
    }

    /// An open session of the user's.
    pub(crate) fn session(&self) -> BenchSession {
        BenchSession::open(&self.grid.state("user").join("client"))
    }

    /// The processor time of the master so far, in seconds.
    pub(crate) fn master_s(&self) -> f64 {
        processor_s(self.grid.master_pid())
    }

    /// The processor time of the database's server so far, in seconds.
    pub(crate) fn server_s(&self) -> f64 {
        self.server.map_or(0.0, |first| {
            let below = children(first).into_iter().map(processor_s);
            processor_s(first) + children_processor_s(first) + below.sum::<f64>()
        })
    }
}

/// Whether a master answers that it serves; one that waits for the lease of a database does not.
fn is_well(http: &Http) -> bool {
    let Ok((answer, mut body)) = http.open("GET", "/healthz", None) else {
        return false;
    };
    answer.status == 200 && body.line().as_deref() == Some("ok")
}

/// The processes that this one has started.
fn children(of: u32) -> Vec<u32> {
    let path = format!("/proc/{of}/task/{of}/children");
    let listed = std::fs::read_to_string(path).unwrap_or_default();
    let pids = listed.split_whitespace();
    pids.filter_map(|pid| pid.parse().ok()).collect()
}
