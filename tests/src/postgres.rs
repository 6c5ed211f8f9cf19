//! The PostgreSQL that `tests/postgres` has started for a command.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::Started;

/// A database on a server of PostgreSQL.
#[derive(Debug, Clone)]
pub struct Postgres {
    /// Its address, `postgres://…`.
    pub url: String,
    /// The server's first process.
    pub server: u32,
    programs: PathBuf,
}

impl Postgres {
    /// Makes a database on the server that the environment names. `None` where it names none.
    ///
    /// # Panics
    /// If the server makes none.
    pub fn with_database() -> Option<Self> {
        let given = |name| std::env::var(format!("DESKGRID_TEST_PG{name}")).ok();
        let (url, server) = (given("")?, given("_PID")?);
        let admin = Self::at(&url, &programs()?, server.parse().ok()?);
        let name = format!("bench_{:032x}", rand::random::<u128>());
        admin.psql(&format!("CREATE DATABASE {name} TEMPLATE template0"));

        Some(admin.beside(&name))
    }

    /// The database at this address, of a server with this first process and these programs.
    pub(crate) fn at(url: &str, programs: &Path, server: u32) -> Self {
        Self {
            url: url.to_owned(),
            server,
            programs: programs.to_owned(),
        }
    }

    /// Another database of the same server.
    ///
    /// # Panics
    /// If the address of this one names no database.
    pub fn beside(&self, name: &str) -> Self {
        let (front, _) = self.url.rsplit_once('/').expect("an address");
        let url = format!("{front}/{name}");
        Self {
            url,
            ..self.clone()
        }
    }

    /// Asks the database by hand; of several servers the one that takes changes.
    ///
    /// # Panics
    /// If it refuses.
    #[track_caller]
    pub fn psql(&self, sql: &str) -> String {
        let mut command = Command::new(self.programs.join("psql"));
        command
            .env("LD_LIBRARY_PATH", libraries(&self.programs))
            .env("PGTARGETSESSIONATTRS", "read-write")
            .args(["-qAt", "-d", &self.url, "-c", sql]);
        let asked = Started::new(&mut command).finish();
        asked.expect_code(0).stdout.trim().to_owned()
    }
}

/// The directory of the server's programs. `None` where the environment names none.
pub(crate) fn programs() -> Option<PathBuf> {
    std::env::var_os("DESKGRID_TEST_PG_BIN").map(PathBuf::from)
}

/// The directories of the libraries that came with these programs, which need not be installed.
pub(crate) fn libraries(programs: &Path) -> String {
    let unpacked = programs.ancestors().nth(4).unwrap_or(Path::new("/"));
    ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"]
        .map(|dir| unpacked.join(dir).display().to_string())
        .join(":")
}
