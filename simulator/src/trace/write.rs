//! Writes a trace in the exchange format, as `hosts.csv` and `availability.csv`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{Segment, Trace, TraceError, TracedHost};

impl Trace {
    /// Writes the trace into `dir`, which is created if missing. Numbers have six decimals, parts
    /// of the processor nine, and more where fewer would be read as another number. `Trace::read`
    /// gives the same trace again, except that the format has no origin, no owner and no reason,
    /// and that a host is down where nothing is known of it.
    ///
    /// # Errors
    /// If a host's name cannot be written in the format, or a file cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), TraceError> {
        for host in &self.hosts {
            if host.name.is_empty()
                || host.name.trim() != host.name
                || host.name.contains([',', '"', '\n', '\r'])
            {
                return Err(TraceError::Unwritable(host.name.clone()));
            }
        }

        fs::create_dir_all(dir).map_err(TraceError::io(dir))?;

        let whole = self.as_exchanged();
        for (name, text) in [
            ("hosts.csv", whole.hosts_csv()),
            ("availability.csv", whole.availability_csv()),
        ] {
            let file = dir.join(name);
            fs::write(&file, text).map_err(TraceError::io(&file))?;
        }

        Ok(())
    }

    /// Returns the segments as the format has them: without gaps and without segments of no length.
    /// Each host ends with its own record.
    fn as_exchanged(&self) -> Self {
        let end_s = self.end_s();
        let whole = |host: &TracedHost| {
            let long =
                |segments: &[Segment]| segments.iter().any(|segment| segment.length_s() > 0.0);
            let own_s = host
                .segments
                .last()
                .filter(|_| long(&host.segments))
                .map_or(end_s, |last| last.end_s);
            let mut whole = host.without_gaps(own_s);
            whole.notes.clear();
            whole.segments.retain(|segment| segment.length_s() > 0.0);
            whole
        };
        Trace {
            origin_s: 0,
            hosts: self.hosts.iter().map(whole).collect(),
        }
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

/// Appends a comma and the number, with `decimals` decimals if these are exact.
fn field(text: &mut String, value: f64, decimals: usize) {
    text.push(',');
    let from = text.len();
    let _ = write!(text, "{value:.decimals$}");
    if text[from..].parse() != Ok(value) {
        text.truncate(from);
        let _ = write!(text, "{value}");
    }
}
