//! Writes a trace as `hosts.csv` and `availability.csv`. What is not here: other formats.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Trace, TraceError};

impl Trace {
    /// Writes the trace into `dir`, which is made where it is missing. Numbers have six decimals, parts of the processor
    /// nine, and more where reading them would give another number: what is read back is the same trace.
    ///
    /// # Errors
    /// If a host's name cannot stand in the format, or a file cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), TraceError> {
        for host in &self.hosts {
            if host.name.is_empty() || host.name.trim() != host.name || host.name.contains([',', '"', '\n', '\r']) {
                return Err(TraceError::Unwritable(host.name.clone()));
            }
        }
        let io = |file: PathBuf| |source| TraceError::Io { file, source };
        fs::create_dir_all(dir).map_err(io(dir.to_owned()))?;
        for (name, text) in [("hosts.csv", self.hosts_csv()), ("availability.csv", self.availability_csv())] {
            fs::write(dir.join(name), text).map_err(io(dir.join(name)))?;
        }
        Ok(())
    }

    fn hosts_csv(&self) -> String {
        let mut text = String::from("host,clock_mhz\n");
        for host in &self.hosts {
            text += &host.name;
            field(&mut text, host.clock_mhz, 6);
            text.push('\n');
        }
        text
    }

    fn availability_csv(&self) -> String {
        let mut text = String::from("host,start_s,end_s,host_available,cpu_fraction\n");
        for host in &self.hosts {
            for segment in &host.segments {
                text += &host.name;
                field(&mut text, segment.start_s, 6);
                field(&mut text, segment.end_s, 6);
                text += if segment.up { ",1" } else { ",0" };
                field(&mut text, segment.cpu, 9);
                text.push('\n');
            }
        }
        text
    }
}

/// Adds a comma and the number, with so many decimals where they say it exactly.
fn field(text: &mut String, value: f64, decimals: usize) {
    text.push(',');
    let from = text.len();
    let _ = write!(text, "{value:.decimals$}");
    if text[from..].parse() != Ok(value) {
        text.truncate(from);
        let _ = write!(text, "{value}");
    }
}
