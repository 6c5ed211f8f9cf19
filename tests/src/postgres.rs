//! The PostgreSQL that `tests/postgres` has started for a command.

use std::path::Path;
use std::process::Command;

use crate::process::Started;

/// A new database on that server.
#[derive(Debug, Clone)]
pub struct Postgres {
    /// Its address, `postgres://…`.
    pub url: String,
    /// The server's first process.
    pub server: u32,
}

impl Postgres {
    /// Makes a database. `None` where the environment names no server.
    ///
    /// # Panics
    /// If the server makes none.
    pub fn with_database() -> Option<Self> {
        let given = |name| std::env::var(format!("DESKGRID_TEST_PG{name}")).ok();
        let (url, bin, server) = (given("")?, given("_BIN")?, given("_PID")?);
        let name = format!("bench_{:032x}", rand::random::<u128>());
        let psql = Path::new(&bin).join("psql");
        // Where the package was unpacked.
        let unpacked = psql.ancestors().nth(4)?;
        let mut command = Command::new(&psql);
        command.env("LD_LIBRARY_PATH", unpacked.join("lib/x86_64-linux-gnu"));
        let make = format!("CREATE DATABASE {name} TEMPLATE template0");
        command.args(["-qAt", "-d", &url, "-c", &make]);
        Started::new(&mut command).finish().expect_code(0);

        let (front, _) = url.rsplit_once('/')?;
        Some(Self {
            url: format!("{front}/{name}"),
            server: server.parse().ok()?,
        })
    }
}
