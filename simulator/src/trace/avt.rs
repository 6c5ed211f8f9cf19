//! Reads and writes the AVT format (Godfrey): a line for each host, `name n up1 down1 ... upn
//! downn`, in whole seconds. It only says when hosts are up.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::draft::{Draft, TimeInterval, finish};
use super::moment::{Moment, absolute};
use super::{Flaw, Note, Trace, TraceError, TracedHost};

impl Trace {
    /// Reads an AVT file. Hosts are down outside their intervals, from the earliest time of the
    /// file to the latest. Clock rates are unknown, and 1500 MHz stands for them.
    ///
    /// # Errors
    /// If the file cannot be read, or has invalid contents; the error then names the line.
    pub fn read_avt(file: &Path) -> Result<Self, TraceError> {
        let text = fs::read_to_string(file).map_err(TraceError::io(file))?;
        let flawed = |line, flaw| TraceError::flawed(file, line, flaw);
        let mut hosts = Vec::new();

        let mut lines = BTreeMap::new();
        for (n, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }

            let host = host(line).map_err(|flaw| flawed(n + 1, flaw))?;
            if let Some(before) = lines.insert(host.name.clone(), n + 1) {
                return Err(flawed(
                    n + 1,
                    Flaw::HostTwice {
                        host: host.name,
                        before,
                    },
                ));
            }

            hosts.push(host);
        }

        if hosts.is_empty() {
            return Err(flawed(1, Flaw::Nothing));
        }

        Ok(finish(hosts).without_gaps())
    }

    /// Writes an AVT file with the intervals in which hosts are up, in whole seconds since 1970, or
    /// since the trace's start where the origin is unknown. Parts of the processor, owners, reasons
    /// and clock rates are lost, and unknown time counts as down.
    ///
    /// # Errors
    /// If a host's name has spaces, or the file cannot be written.
    pub fn write_avt(&self, file: &Path) -> Result<(), TraceError> {
        let mut text = String::from("# host intervals up1 down1 ... upn downn (seconds)\n");
        for host in &self.hosts {
            let word = !host.name.is_empty()
                && !host.name.contains(|c: char| c.is_whitespace() || c == '#');
            if !word {
                return Err(TraceError::NotAWord(host.name.clone()));
            }

            let intervals = intervals(host);
            let _ = write!(text, "{} {}", host.name, intervals.len());
            for (up_s, down_s) in intervals {
                let _ = write!(
                    text,
                    " {} {}",
                    absolute(self.origin_s, up_s),
                    absolute(self.origin_s, down_s)
                );
            }

            text.push('\n');
        }

        fs::write(file, text).map_err(TraceError::io(file))
    }
}

/// The intervals in which the host is up, rounded to seconds.
fn intervals(host: &TracedHost) -> Vec<(f64, f64)> {
    let mut intervals: Vec<(f64, f64)> = Vec::new();
    let mut before = None;
    for segment in &host.segments {
        let start_s = segment.start_s.round();
        let end_s = segment.end_s.round();
        match intervals.last_mut() {
            _ if !segment.up => {}
            Some(last) if before == Some(segment.start_s) => last.1 = end_s,
            _ => intervals.push((start_s, end_s)),
        }
        before = segment.up.then_some(segment.end_s);
    }

    intervals
}

fn host(line: &str) -> Result<Draft, Flaw> {
    let mut words = line.split_whitespace();
    let mut host = Draft::new(words.next().unwrap_or_default());
    let count = words.next().ok_or(Flaw::Short {
        expected: 2,
        found: 1,
    })?;
    let wrong = || Flaw::NotANumber {
        column: "the number of intervals",
        text: count.to_owned(),
    };
    let announced: usize = count.parse().map_err(|_| wrong())?;

    let times: Vec<&str> = words.collect();
    if announced.checked_mul(2) != Some(times.len()) {
        return Err(Flaw::Intervals {
            announced,
            numbers: times.len(),
        });
    }

    for pair in times.chunks_exact(2) {
        let start = Moment::parse("up", pair[0])?;
        let end = Moment::parse("down", pair[1])?;
        host.push(TimeInterval {
            start,
            end,
            up: true,
            cpu: 1.0,
            note: Note::default(),
        })?;
    }

    Ok(host)
}
