//! The trial of a container: this program, started in it, tries what it is to be kept from. A level of confinement that holds
//! nothing is not offered, whatever the system says of it.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::token;
use crate::os::ProcessStatus;
use crate::spawner;

/// The longest time that a trial may take, the look of a virus scanner at the copied program included.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The exit code of a trial in which everything held.
const HELD: i32 = 64;
/// The marks that are added to it for what did not hold, with words.
const FOUND: [(i32, &str); 6] = [
    (OUTSIDE, "is not in a container"),
    (READ, "reads the worker's files"),
    (REACHED, "reaches a port without leave to use the network"),
    (KEPT_OUT, "cannot write to its own directory"),
    (HOMELESS, "has no directory for temporary files"),
    (CHILDLESS, "starts no other program"),
];
const OUTSIDE: i32 = 1;
const READ: i32 = 2;
const REACHED: i32 = 4;
const KEPT_OUT: i32 = 8;
const HOMELESS: i32 = 16;
const CHILDLESS: i32 = 32;
/// The longest time that a connection may take.
const CONNECTING: Duration = Duration::from_secs(2);
/// The names of the program in the container's directory, and of a file that is written there.
const PROGRAM: &str = "probe.exe";
const OWN: &str = "own";

/// A trial that is prepared.
pub(crate) struct ContainerTrial {
    /// A file of the worker's that a task must not read.
    secret: PathBuf,
    /// A port of this host that a task must not reach.
    _port: TcpListener,
    /// The command to be run in the container.
    pub argv: Vec<String>,
}

impl ContainerTrial {
    /// Prepares a trial in `dir`, the directory of the container. The program is copied there, because a container reads no
    /// other of the worker's files.
    ///
    /// # Errors
    /// If a file or port cannot be had.
    pub(crate) fn prepare(dir: &Path) -> io::Result<Self> {
        let program = dir.join(PROGRAM);
        fs::copy(super::this_program(), &program)?;
        let secret = dir.with_extension("secret");
        fs::write(&secret, "what no task reads")?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = port.local_addr()?.to_string();

        let text = |path: &Path| {
            let text = path.to_str().ok_or("its path is not UTF-8");
            text.map(str::to_owned).map_err(io::Error::other)
        };
        let argv = vec![
            text(&program)?,
            spawner::ARG.to_owned(),
            text(&secret)?,
            address,
        ];
        Ok(Self {
            secret,
            _port: port,
            argv,
        })
    }
}

impl Drop for ContainerTrial {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.secret);
    }
}

/// Says what the end of a trial shows.
///
/// # Errors
/// Names what the container did not hold, or says that the trial did not take place.
pub(crate) fn judge(status: ProcessStatus) -> Result<(), String> {
    let code = match status {
        ProcessStatus::Exited(code) if (HELD..2 * HELD).contains(&code) => code - HELD,
        _ => {
            return Err(format!(
                "the program that tries it did not run to its end there: {status:?}"
            ));
        }
    };

    let found = FOUND.iter().filter(|(mark, _)| code & mark != 0);
    let found: Vec<&str> = found.map(|(_, what)| *what).collect();
    if found.is_empty() {
        Ok(())
    } else {
        Err(format!("a program there {}", found.join(", ")))
    }
}

/// Tries it from inside, in the container's directory, and returns the exit code.
pub(super) fn main() -> i32 {
    let mut words = std::env::args_os().skip(2);
    let (Some(secret), Some(port)) = (words.next(), words.next()) else {
        return 1;
    };
    match port.to_string_lossy().parse() {
        Ok(port) => look(Path::new("."), Path::new(&secret), port),
        Err(_) => 1,
    }
}

/// Tries it with `own` for the container's directory, and returns the exit code.
fn look(own: &Path, secret: &Path, port: SocketAddr) -> i32 {
    // Any other failure to read does not show that it was refused.
    let refused = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    let temporary = std::env::temp_dir().join(format!("probe-{}", std::process::id()));
    let child = Command::new("cmd").args(["/d", "/c", "exit 0"]).status();

    let marks = [
        (!token::in_container().unwrap_or(false), OUTSIDE),
        (!fs::read(secret).is_err_and(refused), READ),
        (
            TcpStream::connect_timeout(&port, CONNECTING).is_ok(),
            REACHED,
        ),
        (fs::write(own.join(OWN), "mine").is_err(), KEPT_OUT),
        (fs::write(&temporary, "mine").is_err(), HOMELESS),
        (!child.is_ok_and(|status| status.success()), CHILDLESS),
    ];
    let _ = fs::remove_file(temporary);

    let found = marks.into_iter().filter(|(found, _)| *found);
    HELD + found.map(|(_, mark)| mark).sum::<i32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_nothing_holds_is_found_out() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("probe");
        fs::create_dir(&inside).unwrap();
        let trial = ContainerTrial::prepare(&inside).unwrap();
        let port = trial.argv[3].parse().unwrap();
        let code = look(&inside, Path::new(&trial.argv[2]), port);
        assert_eq!(code, HELD + OUTSIDE + READ + REACHED);
        let why = judge(ProcessStatus::Exited(code)).unwrap_err();
        for part in ["not in a container", "reads the worker's files", "a port"] {
            assert!(why.contains(part), "{part}: {why}");
        }

        // A file that is not there was not refused.
        let secret = trial.secret.clone();
        drop(trial);
        assert!(!secret.exists());
        assert_eq!(look(&inside, &secret, port) & READ, READ);
    }

    #[test]
    fn a_trial_shows_something_only_if_it_ran_to_its_end() {
        assert_eq!(judge(ProcessStatus::Exited(HELD)), Ok(()));
        // What Windows answers for a program whose libraries cannot begin.
        let failed = 0xC000_0142_u32.cast_signed();
        for status in [
            ProcessStatus::Exited(0),
            ProcessStatus::Exited(1),
            ProcessStatus::Exited(2 * HELD),
            ProcessStatus::Exited(failed),
            ProcessStatus::Signalled(9),
        ] {
            let why = judge(status).unwrap_err();
            assert!(why.contains("did not run to its end"), "{why}");
        }
    }
}
