//! Writes profiles of SimGrid: for each host a file of the times when it is on and a file of its
//! speed, and a platform that names them. Networks are not written, and nothing is read.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{Trace, TraceError, TracedHost};

/// The part of its speed that a suspended host keeps. It is not 0: in SimGrid (3.32), tasks that
/// compute when the speed becomes 0 go on as if nothing had happened.
const SUSPENDED: f64 = 1e-9;

impl Trace {
    /// Writes `platform.xml` into `dir`, which is created if missing, and for each of its hosts a
    /// `state_file` and a `speed_file`. A clock rate of 1 MHz is a speed of 1 Mf. Dates are seconds
    /// since the trace's start; hosts are off where nothing is known, and after the trace. While
    /// tasks are suspended the speed is a billionth. The trace's origin, owners and reasons are
    /// lost.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write_simgrid(&self, dir: &Path) -> Result<(), TraceError> {
        let write = |name: &str, text: &str| {
            let file = dir.join(name);
            fs::write(&file, text).map_err(TraceError::io(&file))
        };
        fs::create_dir_all(dir).map_err(TraceError::io(dir))?;

        let mut platform = String::from(
            "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n\
             <platform version=\"4.1\">\n  <zone id=\"deskgrid\" routing=\"Full\">\n",
        );
        for (n, host) in self.without_gaps().hosts.iter().enumerate() {
            let state = format!("host{n}.state");
            let speed = format!("host{n}.speed");
            let _ = writeln!(
                platform,
                "    <host id=\"{}\" speed=\"{}Mf\" state_file=\"{state}\" speed_file=\"{speed}\"/>",
                escaped(&host.name),
                host.clock_mhz
            );

            write(
                &state,
                &profile(host, "0", |segment| u8::from(segment.up).to_string()),
            )?;
            write(
                &speed,
                &profile(host, &SUSPENDED.to_string(), |segment| {
                    offered(segment).to_string()
                }),
            )?;
        }

        platform += "  </zone>\n</platform>\n";
        write("platform.xml", &platform)
    }
}

/// The lines of a profile: one for each change, and one for the end of the record.
fn profile(host: &TracedHost, last: &str, value: impl Fn(&super::Segment) -> String) -> String {
    let mut text = String::new();
    let mut before = String::new();
    for segment in host
        .segments
        .iter()
        .filter(|segment| segment.length_s() > 0.0)
    {
        let now = value(segment);
        if now != before {
            let _ = writeln!(text, "{} {now}", segment.start_s);
        }
        before = now;
    }

    let end_s = host.segments.last().map_or(0.0, |segment| segment.end_s);
    let _ = writeln!(text, "{end_s} {last}");
    text
}

fn offered(segment: &super::Segment) -> f64 {
    if segment.ready() {
        segment.cpu
    } else {
        SUSPENDED
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
