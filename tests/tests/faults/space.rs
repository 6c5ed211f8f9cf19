//! Namespaces of a test's own: a process holds them, and they are gone with everything in them when
//! it ends, which it does with the test at the latest. Nothing in them has a name that anybody else
//! could meet.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// A process that holds namespaces.
pub(crate) struct Space {
    holder: Child,
    /// As long as this is open the holder lives.
    tie: Option<ChildStdin>,
    flags: &'static [&'static str],
}

impl Space {
    /// New namespaces, as `unshare` and `nsenter` both call them (`-m`, `-n`), after `script` has
    /// run in them. Where that does not work: why.
    pub(crate) fn new(flags: &'static [&'static str], script: &str) -> Result<Self, String> {
        let script = format!("set -e\n{script}\necho ready\nexec cat >/dev/null");
        let propagation: &[&str] = if flags.contains(&"-m") {
            &["--propagation", "private"]
        } else {
            &[]
        };

        let mut command = Command::new("unshare");
        command
            .args(flags)
            .args(propagation)
            .args(["--", "sh", "-c", &script]);

        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut holder = child.map_err(|e| format!("unshare: {e}"))?;
        let tie = holder.stdin.take();
        let mut first = String::new();
        let said = BufReader::new(holder.stdout.take().expect("piped")).read_line(&mut first);
        if said.is_ok() && first.trim() == "ready" {
            return Ok(Self { holder, tie, flags });
        }

        drop(tie);
        let output = holder.wait_with_output().map_err(|e| e.to_string())?;
        Err(format!(
            "no namespace of its own ({}): {}",
            flags.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    }

    /// The words that enter it.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let pid = self.holder.id().to_string();
        let flags = self.flags.iter().copied();
        ["nsenter", "-t", &pid]
            .into_iter()
            .chain(flags)
            .chain(["--"])
            .map(Into::into)
            .collect()
    }

    /// The process that holds it.
    pub(crate) fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// Where the test finds a path of the space.
    pub(crate) fn path(&self, inside: &Path) -> PathBuf {
        let below = inside.strip_prefix("/").unwrap_or(inside);
        PathBuf::from(format!("/proc/{}/root", self.pid())).join(below)
    }

    /// Runs a command in it; an error says what it said.
    pub(crate) fn run(&self, words: &[&str]) -> Result<String, String> {
        let enter = self.words();
        let output = Command::new(&enter[0])
            .args(&enter[1..])
            .args(words)
            .output()
            .map_err(|e| e.to_string())?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }

        Err(format!(
            "{}: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    }

    /// The same, where it must work.
    #[track_caller]
    pub(crate) fn must(&self, words: &[&str]) -> String {
        self.run(words).unwrap_or_else(|e| panic!("{e}"))
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.tie = None;
        let _ = self.holder.wait();
    }
}
