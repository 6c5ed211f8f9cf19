//! The Python peers' packages, installed from PyPI into a directory below `target/`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The releases that are measured.
const PACKAGES: [&str; 2] = ["hyperqueue==0.27.0", "distributed==2026.8.0"];

/// A directory below `target/` with the Python peers in it.
pub(crate) fn python() -> Result<PathBuf, String> {
    let venv = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/peers"));
    let python = venv.join("bin/python");
    let installed = run(Command::new(&python).args(["-c", "import hyperqueue, distributed"]));
    if installed.is_err() {
        eprintln!("installing {PACKAGES:?} from PyPI into {}", venv.display());
        run(Command::new("python3").args(["-m", "venv"]).arg(venv))?;
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet"])
            .args(PACKAGES))?;
    }
    Ok(python)
}

/// Runs a command to its end. Fails with what it wrote to standard error.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{command:?}: {e}"))?;
    let error = || {
        format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )
    };
    if output.status.success() {
        Ok(())
    } else {
        Err(error())
    }
}
