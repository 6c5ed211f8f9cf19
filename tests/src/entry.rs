//! A gateway for workers, as a process of the built `deskgrid`.

use std::time::Duration;

use crate::{Grid, Started, eventually, free_addresses};

/// The longest that anything here may take.
const LONG: Duration = Duration::from_secs(60);

/// A gateway: its name, its address and its process.
pub struct WorkerGateway {
    name: &'static str,
    /// The address at which workers find it.
    pub address: String,
    /// The process.
    pub process: Started,
}

impl WorkerGateway {
    /// One that has joined this grid, and has a connection to its master.
    pub fn start(grid: &Grid, name: &'static str) -> Self {
        Self::start_with(grid, name, &[])
    }

    /// The same with more words on its command line.
    pub fn start_with(grid: &Grid, name: &'static str, more: &[&str]) -> Self {
        let (address, _) = free_addresses();
        let token = grid.token("gateway");
        let words = [
            "gateway",
            "start",
            "--master",
            grid.listen(),
            "--join",
            &token,
            "--name",
            name,
            "--listen",
            &address,
        ];
        let process = grid.server(name, words.iter().chain(more));
        let gateway = Self {
            name,
            address,
            process,
        };
        gateway.until_connected(grid, 1);
        gateway
    }

    /// Waits until it was connected to the master so often.
    pub fn until_connected(&self, grid: &Grid, times: usize) {
        eventually("the gateway is connected", LONG, || {
            let log = grid.log(self.name);
            let said = std::fs::read_to_string(log).unwrap_or_default();
            let connected = said
                .lines()
                .filter(|line| line.contains(" connected to the master"));
            (connected.count() >= times).then_some(())
        });
    }

    /// Ends it in order, and starts it again at the same address.
    pub fn restart(&mut self, grid: &Grid) {
        self.process.terminate();
        eventually("it ends", LONG, || self.process.ended());
        let words = ["gateway", "start", "--listen", &self.address];
        self.process = grid.server(self.name, words);
        self.until_connected(grid, 2);
    }
}
