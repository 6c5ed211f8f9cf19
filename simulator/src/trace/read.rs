//! Reads a trace in the exchange format, from `hosts.csv` and `availability.csv`. Invalid contents
//! are refused with file, line and reason; nothing is repaired.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::draft::{checked_clock, finite};
use super::moment::LATEST_S;
use super::{Flaw, Segment, Trace, TraceError, TracedHost};

impl Trace {
    /// Reads the trace in `dir`: `hosts.csv` with the columns `host,clock_mhz` (MHz, from
    /// 0.001 to 500,000), and `availability.csv` with
    /// `host,start_s,end_s,host_available,cpu_fraction` (seconds from the trace's start, 0 or 1,
    /// part of the processor). The segments of a host begin at 0 and follow each other without
    /// gaps; those of different hosts may be interleaved.
    ///
    /// # Errors
    /// If a file cannot be read, or has invalid contents; the error then names the line.
    pub fn read(dir: &Path) -> Result<Self, TraceError> {
        let (mut hosts, lines) = read_hosts(dir, "hosts.csv")?;
        let file = CsvTable::open(dir, "availability.csv", SEGMENT_COLUMNS)?;
        for row in file.rows() {
            let (line, fields) = row?;
            add_segment(&mut hosts, &lines, fields).map_err(|flaw| file.flawed(line, flaw))?;
        }

        if let Some(host) = hosts.iter().find(|host| host.segments.is_empty()) {
            let flaw = Flaw::NoSegments(host.name.clone());
            let line = lines[&host.name].line;
            return Err(TraceError::flawed(&dir.join("hosts.csv"), line, flaw));
        }

        Ok(Trace { origin_s: 0, hosts })
    }
}

const HOST_COLUMNS: [&str; 2] = ["host", "clock_mhz"];
const SEGMENT_COLUMNS: [&str; 5] = ["host", "start_s", "end_s", "host_available", "cpu_fraction"];

/// Reads the clock rates, in MHz, of a file like `hosts.csv`.
///
/// # Errors
/// If it cannot be read, or has invalid contents; the error then names the line.
pub fn read_clocks_mhz(file: &Path) -> Result<Vec<f64>, TraceError> {
    let dir = file.parent().unwrap_or(Path::new(""));
    let name = file.file_name().unwrap_or_default();
    let (hosts, _) = read_hosts(dir, &name.to_string_lossy())?;
    Ok(hosts.into_iter().map(|host| host.clock_mhz).collect())
}

/// The place of a host in the trace, and its line in `hosts.csv`.
struct HostLine {
    at: usize,
    line: usize,
}

fn read_hosts(
    dir: &Path,
    name: &str,
) -> Result<(Vec<TracedHost>, BTreeMap<String, HostLine>), TraceError> {
    let file = CsvTable::open(dir, name, HOST_COLUMNS)?;
    let mut hosts = Vec::new();
    let mut places = BTreeMap::<String, HostLine>::new();

    for row in file.rows() {
        let (line, [name, clock]) = row?;
        let host = host(name, clock).map_err(|flaw| file.flawed(line, flaw))?;
        if let Some(HostLine { line: before, .. }) = places.get(name) {
            return Err(file.flawed(
                line,
                Flaw::HostTwice {
                    host: host.name,
                    before: *before,
                },
            ));
        }

        places.insert(
            host.name.clone(),
            HostLine {
                at: hosts.len(),
                line,
            },
        );

        hosts.push(host);
    }

    if hosts.is_empty() {
        return Err(file.flawed(1, Flaw::NoHosts));
    }

    Ok((hosts, places))
}

fn host(name: &str, clock: &str) -> Result<TracedHost, Flaw> {
    if name.is_empty() {
        return Err(Flaw::NoName);
    }
    let clock_mhz = checked_clock(name, finite("clock_mhz", clock)?)?;
    Ok(TracedHost::new(name, clock_mhz, Vec::new()))
}

fn add_segment(
    hosts: &mut [TracedHost],
    places: &BTreeMap<String, HostLine>,
    fields: [&str; 5],
) -> Result<(), Flaw> {
    let [name, start, end, up, cpu] = fields;
    let place = places
        .get(name)
        .ok_or_else(|| Flaw::UnknownHost(name.to_owned()))?;
    let host = &mut hosts[place.at];
    let start_s = time("start_s", start)?;
    let end_s = time("end_s", end)?;
    if end_s <= start_s {
        return Err(Flaw::Backwards { start_s, end_s });
    }

    let before_s = host.segments.last().map_or(0.0, |segment| segment.end_s);
    if start_s > before_s {
        return Err(Flaw::Gap {
            host: host.name.clone(),
            from_s: before_s,
            to_s: start_s,
        });
    }

    if start_s < before_s {
        return Err(Flaw::Overlap {
            host: host.name.clone(),
            start_s,
            before_s,
        });
    }

    let up = match up {
        "0" => false,
        "1" => true,
        other => return Err(Flaw::NeitherUpNorDown(other.to_owned())),
    };

    let cpu = finite("cpu_fraction", cpu)?;
    if !(0.0..=1.0).contains(&cpu) {
        return Err(Flaw::Fraction(cpu));
    }

    host.segments.push(Segment {
        start_s,
        end_s,
        up,
        cpu,
    });

    Ok(())
}

fn time(column: &'static str, text: &str) -> Result<f64, Flaw> {
    match finite(column, text)? {
        value if value < 0.0 => Err(Flaw::Negative { column, value }),
        value if value > LATEST_S as f64 => Err(Flaw::TooLarge {
            column,
            text: text.to_owned(),
        }),
        value => Ok(value),
    }
}

/// A file of lines with named columns, of which `N` are read.
struct CsvTable<const N: usize> {
    file: PathBuf,
    text: String,
    columns: [usize; N],
    width: usize,
}

impl<const N: usize> CsvTable<N> {
    fn open(dir: &Path, name: &str, wanted: [&'static str; N]) -> Result<Self, TraceError> {
        let file = dir.join(name);
        let text = fs::read_to_string(&file).map_err(TraceError::io(&file))?;
        let header = text
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches('\u{feff}');

        match columns(header, wanted) {
            Ok((columns, width)) => Ok(CsvTable {
                file,
                text,
                columns,
                width,
            }),
            Err(flaw) => Err(TraceError::flawed(&file, 1, flaw)),
        }
    }

    /// The non-empty lines after the header, each with its number and the `N` fields.
    fn rows(&self) -> impl Iterator<Item = Result<(usize, [&str; N]), TraceError>> {
        let lines = self
            .text
            .lines()
            .enumerate()
            .skip(1)
            .filter(|(_, text)| !text.trim().is_empty());
        lines.map(|(n, text)| match self.fields(text) {
            Ok(fields) => Ok((n + 1, fields)),
            Err(flaw) => Err(self.flawed(n + 1, flaw)),
        })
    }

    fn fields<'t>(&self, text: &'t str) -> Result<[&'t str; N], Flaw> {
        if text.contains('"') {
            return Err(Flaw::Quoted);
        }

        let mut wanted = [""; N];
        let mut found = 0;
        for field in text.split(',') {
            if let Some(at) = self.columns.iter().position(|column| *column == found) {
                wanted[at] = field.trim();
            }
            found += 1;
        }

        if found == self.width {
            Ok(wanted)
        } else {
            Err(Flaw::Fields {
                expected: self.width,
                found,
            })
        }
    }

    fn flawed(&self, line: usize, flaw: Flaw) -> TraceError {
        TraceError::flawed(&self.file, line, flaw)
    }
}

/// The places of the `wanted` columns in the header, and the number of all columns.
fn columns<const N: usize>(
    header: &str,
    wanted: [&'static str; N],
) -> Result<([usize; N], usize), Flaw> {
    let names: Vec<_> = header.split(',').map(str::trim).collect();
    let mut columns = [0; N];
    for (column, name) in columns.iter_mut().zip(wanted) {
        let mut places = names
            .iter()
            .enumerate()
            .filter(|(_, found)| **found == name)
            .map(|(at, _)| at);
        *column = places
            .next()
            .ok_or_else(|| Flaw::NoColumn(name, wanted.join(",")))?;
        if places.next().is_some() {
            return Err(Flaw::ColumnTwice(name));
        }
    }

    Ok((columns, names.len()))
}
