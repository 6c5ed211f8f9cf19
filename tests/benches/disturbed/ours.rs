//! deskgrid with the shipped settings, and a user at the command line.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tests::{Grid, Started, eventually};

use super::contender::{Contender, Forecast};
use super::network::{MASTER, Network};
use super::plan::{Case, HOSTS};

/// The longest time until a host is ready again: one whose worker died several times gets no task for a while.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) struct Ours {
    /// Ends before the grid.
    submit: Option<Started>,
    grid: Grid,
    estimated: bool,
    /// The number of the newest job of the cases before; 0 if there was none.
    before: u64,
    /// The host whose worker the case ends.
    ends: Option<usize>,
}

fn name(host: usize) -> String {
    format!("h{host}")
}

impl Ours {
    pub(crate) fn start(network: &Network, estimated: bool) -> Self {
        let mut grid = Grid::prepared("");
        grid.listen_at(&format!("{MASTER}:7411"), "127.0.0.1:7412");
        grid.begin();
        for host in 0..HOSTS {
            grid.wrap(&name(host), Network::words(host));
            start_worker(&mut grid, network, host);
        }

        Self {
            submit: None,
            grid,
            estimated,
            before: 0,
            ends: None,
        }
    }

    /// Ends what the case before has left: its job, the pause of its owner, a worker that was killed. Waits until
    /// every host is ready.
    pub(crate) fn heal(&mut self, network: &Network) {
        self.submit = None;
        if let Some(job) = self.newest() {
            self.before = job["job"].as_u64().expect("a number");
            if job["state"] == "running" || job["state"] == "waiting" {
                let cancel = ["job", "cancel", &self.before.to_string()].map(str::to_owned);
                self.grid.deskgrid(cancel).expect_code(0);
            }
        }

        if let Some(host) = self.ends.take() {
            let worker = self.grid.running(&name(host));
            eventually("the worker ends", PATIENCE, || worker.ended());
            start_worker(&mut self.grid, network, host);
        }
        for host in 0..HOSTS {
            let resumed = self.grid.as_user(&name(host), ["worker", "resume"]);
            resumed.expect_code(0);
        }
        eventually("every host is ready", PATIENCE, || {
            let hosts = self.grid.json(["host", "list"]);
            let mut hosts = hosts["hosts"].as_array()?.iter();
            hosts.all(|host| host["state"] == "ready").then_some(())
        });
    }

    fn newest(&self) -> Option<Value> {
        let jobs = self.grid.json(["job", "list", "--all"]);
        let jobs = jobs["jobs"].as_array()?.iter();
        jobs.max_by_key(|job| job["job"].as_u64()).cloned()
    }
}

fn start_worker(grid: &mut Grid, network: &Network, host: usize) {
    let config = format!(
        "confinement = \"process\"\nspeed = 1.0\npath = \"{}\"\n",
        network.path(host)
    );
    grid.worker(&name(host)).config(&config).start();
}

impl Contender for Ours {
    fn submit(&mut self, case: &Case) -> Result<(), String> {
        let array = format!("1-{}", case.tasks);
        let size = case.size_s.to_string();
        let estimate = format!("{}ms", case.size_s * 1_000.0);
        let mut args = vec!["submit", "--wait", "--array", &array];
        if self.estimated {
            args.extend(["--estimate", &estimate]);
        }
        args.extend(["--", "paced", &size]);
        self.submit = Some(self.grid.background(args));
        Ok(())
    }

    fn done(&mut self) -> Result<bool, String> {
        let submit = self.submit.as_mut().expect("submitted before");
        match submit.ended() {
            None => Ok(false),
            Some(0) => Ok(true),
            Some(code) => Err(format!("`submit --wait` ended with {code}")),
        }
    }

    fn forecast(&mut self) -> Option<Forecast> {
        let job = self.newest()?;
        if job["job"].as_u64()? <= self.before {
            return None;
        }
        let count = |name: &str| job["tasks"][name].as_f64();
        let date = |name: &str| -> Option<SystemTime> {
            humantime::parse_rfc3339(job[name].as_str()?).ok()
        };
        let low = date("predicted_low");
        Some(Forecast {
            done: count("finished")? / count("total")?,
            interval: low.and_then(|low| Some((low, date("predicted_high")?))),
        })
    }

    fn worker(&mut self, host: usize) -> u32 {
        self.ends = Some(host);
        self.grid.running(&name(host)).pid()
    }

    fn owner(&mut self, host: usize, _at: &Path, comes: bool) {
        let word = if comes { "pause" } else { "resume" };
        self.grid
            .as_user(&name(host), ["worker", word])
            .expect_code(0);
    }
}
