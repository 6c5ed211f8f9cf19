//! A gateway of one user (`deskgrid dashboard`, or a worker's `deskgrid worker page`), for tests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::http::Http;
use crate::process::{Started, eventually};

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    process: Started,
    log: PathBuf,
    first: Value,
}

/// The values that the gateway has printed.
fn printed(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let whole = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    whole
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

impl Gateway {
    /// Waits until the gateway has said where it is.
    pub(crate) fn new(process: Started, log: &Path) -> Self {
        let first = eventually("the gateway is up", Duration::from_secs(30), || {
            printed(log).into_iter().next()
        });
        Self {
            process,
            log: log.to_owned(),
            first,
        }
    }

    /// The path of its socket.
    ///
    /// # Panics
    /// If it has none.
    pub fn socket(&self) -> PathBuf {
        self.first["socket"].as_str().expect("a socket").into()
    }

    /// The way in for programs.
    pub fn programs(&self) -> Http {
        Http::unix(self.socket())
    }

    /// The address that the gateway printed first, with its ticket.
    ///
    /// # Panics
    /// If it printed none.
    pub fn link(&self) -> String {
        self.first["url"].as_str().expect("an address").to_owned()
    }

    /// The address of its port.
    ///
    /// # Panics
    /// If it printed none.
    pub fn address(&self) -> String {
        let link = self.link();
        let rest = link.strip_prefix("http://").expect("HTTP");
        rest.split('/').next().expect("an address").to_owned()
    }

    /// Somebody presses Enter; returns the next address.
    pub fn another_link(&mut self) -> String {
        let before = printed(&self.log).len();
        self.process.write("\n");
        eventually("another address", Duration::from_secs(30), || {
            let next = printed(&self.log).into_iter().nth(before)?;
            next["url"].as_str().map(str::to_owned)
        })
    }

    /// A browser that opens this address.
    ///
    /// # Panics
    /// If it is not let in.
    pub fn browser(&self, link: &str) -> Http {
        let (_, ticket) = link.split_once('#').expect("a ticket");
        let page = Http::tcp(&self.address()).with("Sec-Fetch-Site", "same-origin");
        let answer = page
            .send("POST", "/in", Some(ticket.as_bytes()))
            .expect(204);
        let cookie = answer.headers["set-cookie"]
            .split(';')
            .next()
            .expect("a cookie");
        page.with("Cookie", cookie)
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// The process.
    pub fn process(&mut self) -> &mut Started {
        &mut self.process
    }
}
