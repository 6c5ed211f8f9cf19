//! Reads the `time_stats_log` that every BOINC client keeps: when it ran, and when its tasks were
//! allowed to compute. Its `net_*` events are skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::draft::{Draft, TimeInterval, finish};
use super::moment::Moment;
use super::{Flaw, Note, Trace, TraceError};

/// The reason for a host that was on but gave nothing; the log says no more.
const SUSPENDED: &str = "suspended";

impl Trace {
    /// Reads a `time_stats_log`, or each file of a directory as the log of one host. The host is
    /// named after its file (without `time_stats_log.` before the name, or `.txt` or `.log` behind),
    /// or after the directory if the file is just `time_stats_log`.
    ///
    /// Between `power_on` and `power_off` the host is up, and between `proc_start` and `proc_stop`
    /// tasks have its whole processor. Between `power_off` and the next `power_on` it is down. If a
    /// `power_off` is missing, nothing is known from the last event on. Clock rates are unknown,
    /// and 1500 MHz stands for them.
    ///
    /// # Errors
    /// If a file cannot be read, or has invalid contents; the error then names the line.
    pub fn read_boinc(path: &Path) -> Result<Self, TraceError> {
        let drafts = files(path)?
            .into_iter()
            .map(|file| read(&file))
            .collect::<Result<Vec<_>, _>>()?;
        if drafts.iter().all(|draft| draft.stretches.is_empty()) {
            return Err(TraceError::flawed(path, 1, Flaw::Nothing));
        }

        Ok(finish(drafts))
    }
}

fn files(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    if !fs::metadata(path).map_err(TraceError::io(path))?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }

    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(TraceError::io(path))? {
        let file = entry.map_err(TraceError::io(path))?.path();
        if file.is_file() {
            files.push(file);
        }
    }

    files.sort();
    let why =
        "there are no files in it: give a time_stats_log, or a directory with one for each host";

    if files.is_empty() {
        Err(TraceError::NotThere {
            path: path.to_owned(),
            why,
        })
    } else {
        Ok(files)
    }
}

/// The name of the file in BOINC's data directory.
const LOG: &str = "time_stats_log";

/// The name of the host of a log: `pc1` of `pc1`, `pc1.txt` and `time_stats_log.pc1`, and that of its
/// directory of a `time_stats_log`.
fn name(file: &Path) -> String {
    let whole = file.file_name().unwrap_or_default().to_string_lossy();
    let plain = [".txt", ".log"]
        .iter()
        .find_map(|ending| whole.strip_suffix(ending))
        .unwrap_or(&whole);
    if plain == LOG {
        let dir = file.parent().and_then(Path::file_name);
        return dir.map_or_else(
            || plain.to_owned(),
            |dir| dir.to_string_lossy().into_owned(),
        );
    }

    let after = plain
        .strip_prefix(LOG)
        .and_then(|rest| rest.strip_prefix('.'));
    after.unwrap_or(plain).to_owned()
}

fn read(file: &Path) -> Result<Draft, TraceError> {
    let text = fs::read_to_string(file).map_err(TraceError::io(file))?;
    let mut log = BoincLog {
        draft: Draft::new(name(file)),
        state: BoincState::Unknown,
        since: None,
    };
    for (n, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        log.take(line)
            .map_err(|flaw| TraceError::flawed(file, n + 1, flaw))?;
    }

    Ok(log.draft)
}

#[derive(Clone, Copy, PartialEq)]
enum BoincState {
    Unknown,
    Off,
    Suspended,
    Computing,
}

struct BoincLog {
    draft: Draft,
    state: BoincState,
    /// The time of the last event.
    since: Option<Moment>,
}

impl BoincLog {
    fn take(&mut self, line: &str) -> Result<(), Flaw> {
        let mut words = line.split_whitespace();
        let at = Moment::parse("the time", words.next().unwrap_or_default())?;
        let event = words.next().ok_or(Flaw::Short {
            expected: 2,
            found: 1,
        })?;

        if let Some(before) = self.since.filter(|before| at.order(before).is_lt()) {
            return Err(Flaw::Unordered {
                at_s: at.since(0),
                before_s: before.since(0),
            });
        }

        let next = match (event, self.state) {
            // The client ended without writing `power_off`.
            ("power_on", BoincState::Suspended | BoincState::Computing) => {
                self.state = BoincState::Unknown;
                BoincState::Suspended
            }
            ("power_on", _) | ("proc_stop", BoincState::Suspended | BoincState::Computing) => {
                BoincState::Suspended
            }
            ("power_off", _) => BoincState::Off,
            ("proc_start", BoincState::Suspended | BoincState::Computing) => BoincState::Computing,
            // Nothing is known before the first `power_on`, and nothing runs after `power_off`.
            ("proc_start" | "proc_stop", state) => state,
            (
                "net_connected" | "net_not_connected" | "net_unknown" | "platform" | "version",
                state,
            ) => state,
            (other, _) => return Err(Flaw::UnknownEvent(other.to_owned())),
        };

        if let (Some(start), false) = (self.since, self.state == BoincState::Unknown) {
            self.stretch(start, at)?;
        }

        self.state = next;
        self.since = Some(at);
        Ok(())
    }

    /// Adds the time between two events, to the last segment if the state has not changed.
    fn stretch(&mut self, start: Moment, end: Moment) -> Result<(), Flaw> {
        if start.order(&end).is_eq() {
            return Ok(());
        }

        let up = self.state != BoincState::Off;
        let cpu = if self.state == BoincState::Computing {
            1.0
        } else {
            0.0
        };

        let reason = (self.state == BoincState::Suspended).then(|| Arc::from(SUSPENDED));
        match self.draft.stretches.last_mut() {
            Some(last)
                if (last.up, last.cpu == cpu) == (up, true) && last.end.order(&start).is_eq() =>
            {
                last.end = end;
                Ok(())
            }
            _ => self.draft.push(TimeInterval {
                start,
                end,
                up,
                cpu,
                note: Note {
                    owner_active: None,
                    reason,
                },
            }),
        }
    }
}
