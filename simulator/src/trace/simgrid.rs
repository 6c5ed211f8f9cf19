//! Profiles of SimGrid: for each host a file of when it is on and a file of its speed, and a platform that names them.
//! What is not here: a reader, and networks.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{Trace, TraceError, TracedHost};

impl Trace {
    /// Writes `platform.xml` into `dir`, which is made where it is missing, and for each of its hosts a `state_file` and
    /// a `speed_file`. A clock rate of 1 MHz is a speed of 1 Mf. Dates are seconds since the trace's start; hosts are off
    /// where nothing is known, and after the trace. The start in time, owners and reasons are lost.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write_simgrid(&self, dir: &Path) -> Result<(), TraceError> {
        let write = |name: &str, text: &str| {
            let file = dir.join(name);
            fs::write(&file, text).map_err(|source| TraceError::Io { file, source })
        };
        fs::create_dir_all(dir).map_err(|source| TraceError::Io { file: dir.to_owned(), source })?;
        let mut platform = String::from(
            "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n\
             <platform version=\"4.1\">\n  <zone id=\"deskgrid\" routing=\"Full\">\n",
        );
        for (n, host) in self.without_gaps().hosts.iter().enumerate() {
            let (state, speed) = (format!("host{n}.state"), format!("host{n}.speed"));
            let _ = writeln!(
                platform,
                "    <host id=\"{}\" speed=\"{}Mf\" state_file=\"{state}\" speed_file=\"{speed}\"/>",
                escaped(&host.name),
                host.clock_mhz
            );
            write(&state, &profile(host, |segment| u8::from(segment.up).to_string()))?;
            write(&speed, &profile(host, |segment| if segment.ready() { segment.cpu } else { 0.0 }.to_string()))?;
        }
        platform += "  </zone>\n</platform>\n";
        write("platform.xml", &platform)
    }
}

/// A line for each change.
fn profile(host: &TracedHost, value: impl Fn(&super::Segment) -> String) -> String {
    let (mut text, mut before) = (String::new(), String::new());
    for segment in host.segments.iter().filter(|segment| segment.length_s() > 0.0) {
        let now = value(segment);
        if now != before {
            let _ = writeln!(text, "{} {now}", segment.start_s);
        }
        before = now;
    }
    let end_s = host.segments.last().map_or(0.0, |segment| segment.end_s);
    if before != "0" {
        let _ = writeln!(text, "{end_s} 0");
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
