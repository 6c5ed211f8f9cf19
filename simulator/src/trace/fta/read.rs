//! Reads `event_trace` and, if they lie beside it, `event_state` and `node`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::draft::{Draft, TimeInterval, checked_clock, finish, finite};
use super::super::moment::Moment;
use super::super::{Flaw, Note, Trace, TraceError};
use super::{NULL, OWN_TYPES};

/// The numbers of fields in a line of each table.
const EVENT_FIELDS: usize = 9;
const STATE_FIELDS: usize = 7;
const NODE_FIELDS: usize = 16;

/// Platform, node and component, which identify the source of events.
type Key = (String, String, String);

impl Trace {
    /// Reads FTA tables: `path` is the directory that holds them, or the file of `event_trace`.
    /// File names may have text before and after the tables' own names, as in
    /// `lanl05_event_trace.tab`.
    ///
    /// Each component of a node is a host; names that occur again get a number. An event of type 1
    /// without a state has the whole processor. Times between events are unknown. The end reason of
    /// an event becomes the segment's reason. Clock rates are taken from `proc_model` if it names
    /// one (`1500 MHz`, `Xeon 2.4 GHz`), and are 1500 MHz otherwise.
    ///
    /// # Errors
    /// If there is no `event_trace`, or a file cannot be read or has invalid contents; the error
    /// then names the line.
    pub fn read_fta(path: &Path) -> Result<Self, TraceError> {
        let tables = Tables::find(path)?;
        let mut hosts = FtaHosts::default();
        each(&tables.events, EVENT_FIELDS, |line, fields| {
            hosts.add_event(line, fields)
        })?;

        if hosts.drafts.is_empty() {
            return Err(TraceError::flawed(&tables.events, 1, Flaw::Nothing));
        }

        if let Some(states) = tables.states {
            each(&states, STATE_FIELDS, |_, fields| hosts.add_state(fields))?;
        }

        if let Some(nodes) = tables.nodes {
            each(&nodes, NODE_FIELDS, |_, fields| hosts.add_node(fields))?;
        }

        Ok(finish(hosts.drafts))
    }
}

/// The paths of the tables.
struct Tables {
    events: PathBuf,
    states: Option<PathBuf>,
    nodes: Option<PathBuf>,
}

impl Tables {
    fn find(path: &Path) -> Result<Self, TraceError> {
        if !fs::metadata(path).map_err(TraceError::io(path))?.is_dir() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let beside = |table: &str| {
                let other = path.with_file_name(name.replace("event_trace", table));
                (other != path && other.is_file()).then_some(other)
            };
            return Ok(Tables {
                events: path.to_owned(),
                states: beside("event_state"),
                nodes: beside("node"),
            });
        }

        let mut files = Vec::new();
        for entry in fs::read_dir(path).map_err(TraceError::io(path))? {
            files.push(entry.map_err(TraceError::io(path))?.path());
        }

        files.sort();
        let named = |table: &str| {
            let of_table = |file: &&PathBuf| {
                let stem = file.file_stem().unwrap_or_default().to_string_lossy();
                stem == table || stem.ends_with(&format!("_{table}"))
            };
            files.iter().find(of_table).cloned()
        };

        let why =
            "there is no file event_trace.tab: give the directory with the tables, or that file";

        let events = named("event_trace").ok_or(TraceError::NotThere {
            path: path.to_owned(),
            why,
        })?;
        Ok(Tables {
            events,
            states: named("event_state"),
            nodes: named("node"),
        })
    }
}

/// Passes each line of a table to `take`, with at least `expected` fields.
fn each(
    file: &Path,
    expected: usize,
    mut take: impl FnMut(usize, &[&str]) -> Result<(), Flaw>,
) -> Result<(), TraceError> {
    let text = fs::read_to_string(file).map_err(TraceError::io(file))?;
    let text = text.trim_start_matches('\u{feff}');
    for (n, line) in text.lines().enumerate() {
        let header = n == 0 && !line.trim_start().starts_with(|c: char| c.is_ascii_digit());
        if header || line.trim().is_empty() || line.starts_with('#') {
            continue;
        }

        let fields = fields(line, expected);
        let short = Flaw::Short {
            expected,
            found: fields.len(),
        };
        let taken = if fields.len() < expected {
            Err(short)
        } else {
            take(n + 1, &fields)
        };
        taken.map_err(|flaw| TraceError::flawed(file, n + 1, flaw))?;
    }

    Ok(())
}

/// The fields of a line. Some tables pad with tabulators: if a line has too many fields, but
/// `expected` non-empty ones, the empty fields are dropped.
fn fields(line: &str, expected: usize) -> Vec<&str> {
    let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
    if fields.len() <= expected {
        return fields;
    }

    let filled: Vec<&str> = fields
        .iter()
        .copied()
        .filter(|field| !field.is_empty())
        .collect();
    if filled.len() == expected {
        filled
    } else {
        fields
    }
}

/// The hosts that are built from the tables.
#[derive(Default)]
struct FtaHosts {
    drafts: Vec<Draft>,
    places: BTreeMap<Key, usize>,
    /// The index of the stretch of each event, by host and event.
    events: BTreeMap<(usize, String), usize>,
}

impl FtaHosts {
    fn add_event(&mut self, _: usize, fields: &[&str]) -> Result<(), Flaw> {
        let [
            event,
            component,
            node,
            platform,
            name,
            kind,
            start,
            stop,
            why,
        ] = first(fields);

        let up = match kind.parse::<u64>() {
            Ok(0) => false,
            Ok(1) => true,
            Ok(own) if own > OWN_TYPES => return Ok(()),
            _ => return Err(Flaw::EventType(kind.to_owned())),
        };

        let key = (platform.to_owned(), node.to_owned(), component.to_owned());
        let name = if known(name).is_some() { name } else { node };
        if name.is_empty() {
            return Err(Flaw::NoName);
        }

        let drafts = &mut self.drafts;
        let place = *self.places.entry(key).or_insert_with(|| {
            drafts.push(Draft::new(name));
            drafts.len() - 1
        });
        let start = Moment::parse("event_start_time", start)?;
        let end = Moment::parse("event_stop_time", stop)?;
        let note = Note {
            owner_active: None,
            reason: known(why).map(Arc::from),
        };
        let draft = &mut drafts[place];
        self.events
            .insert((place, event.to_owned()), draft.stretches.len());

        draft.push(TimeInterval {
            start,
            end,
            up,
            cpu: if up { 1.0 } else { 0.0 },
            note,
        })
    }

    fn add_state(&mut self, fields: &[&str]) -> Result<(), Flaw> {
        let [event, component, node, platform, owner, part, why] = first(fields);
        let place = self
            .places
            .get(&(platform.to_owned(), node.to_owned(), component.to_owned()));
        let at =
            place.and_then(|place| Some((*place, *self.events.get(&(*place, event.to_owned()))?)));
        let Some((place, at)) = at else {
            return Err(Flaw::NoEvent {
                event: event.to_owned(),
                node: node.to_owned(),
                component: component.to_owned(),
            });
        };

        let stretch = &mut self.drafts[place].stretches[at];
        if let Some(part) = known(part) {
            stretch.cpu = finite("f_val", part)?;
            if !(0.0..=1.0).contains(&stretch.cpu) {
                return Err(Flaw::Fraction(stretch.cpu));
            }
        }

        // Other sites count other things in this field.
        stretch.note.owner_active = match owner {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        };
        if let Some(why) = known(why) {
            stretch.note.reason = Some(Arc::from(why));
        }

        Ok(())
    }

    fn add_node(&mut self, fields: &[&str]) -> Result<(), Flaw> {
        let node = fields[0];
        let platform = fields[1];
        let Some(named_mhz) = clock_mhz(fields[6]) else {
            return Ok(());
        };
        let clock_mhz = checked_clock(known(fields[2]).unwrap_or(node), named_mhz)?;
        let from = (platform.to_owned(), node.to_owned(), String::new());

        for (_, place) in self
            .places
            .range(from..)
            .take_while(|(key, _)| key.0 == platform && key.1 == node)
        {
            self.drafts[*place].clock_mhz = clock_mhz;
        }

        Ok(())
    }
}

/// The first `N` fields of a line that has at least as many.
fn first<'t, const N: usize>(fields: &[&'t str]) -> [&'t str; N] {
    let mut first = [""; N];
    first
        .iter_mut()
        .zip(fields)
        .for_each(|(to, from)| *to = from);
    first
}

/// The text of a field, or `None` if the field is unknown.
fn known(field: &str) -> Option<&str> {
    (!field.is_empty() && !field.eq_ignore_ascii_case(NULL)).then_some(field)
}

/// The clock rate that a processor's description names, in MHz.
fn clock_mhz(model: &str) -> Option<f64> {
    let lower = model.to_ascii_lowercase();
    for (unit, factor) in [("ghz", 1_000.0), ("mhz", 1.0)] {
        let Some(before) = lower.find(unit).map(|at| lower[..at].trim_end()) else {
            continue;
        };
        let from = before
            .rfind(|c: char| !c.is_ascii_digit() && c != '.')
            .map_or(0, |at| at + 1);
        let value = before.get(from..)?.parse::<f64>().ok()? * factor;
        return (value.is_finite() && value > 0.0).then_some(value);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_rates_are_found_in_descriptions() {
        for (model, expected) in [
            ("1500 MHz", Some(1_500.0)),
            ("600.5MHz", Some(600.5)),
            ("Intel Xeon CPU @ 2.5 GHz, 4 cores", Some(2_500.0)),
            ("Pentium III", None),
            ("0 MHz", None),
            ("é GHz", None),
        ] {
            assert_eq!(clock_mhz(model), expected, "{model}");
        }
    }

    #[test]
    fn tabulators_that_pad_are_no_fields() {
        assert_eq!(fields("1\t2\t \t\t3", 3), ["1", "2", "3"]);
        assert_eq!(fields("1\t\t3", 3), ["1", "", "3"]);
    }
}
