//! What the doctor finds about this machine: the program, sensors of the owner, confinement, disk.

use std::path::{Path, PathBuf};

use worker::owner::sensors::{self, View};
use worker::owner::sight::Sight;

use super::Finding;
use crate::state::StateDir;

/// Less room than this is worth a word, in bytes.
const ROOM_NOTE: u64 = 5 << 30;
/// Less room than this is wrong, in bytes.
const ROOM_WRONG: u64 = 512 << 20;

/// The program, and whether there is anything to look at.
pub(super) fn program(state: &StateDir) -> Vec<Finding> {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let mut findings = vec![Finding::ok("program", format!("deskgrid {}, {os} {arch}", env!("CARGO_PKG_VERSION")))];
    if super::master::identities(state).is_empty() {
        let what = format!("no identity in {}: this machine has not joined a grid with it", state.root().display());
        let todo = "name the right directory with --dir, or join: deskgrid worker start, or deskgrid login";
        findings.push(Finding::note("identity", what, todo));
    }
    findings
}

/// What each sensor sees now.
pub(super) async fn sensors(config: &worker::Config) -> Vec<Finding> {
    let (all, patience) = (sensors::all(&config.sensors, Path::new("")), config.sensors.patience());
    let views = tokio::task::spawn_blocking(move || sensors::look(all, patience)).await.unwrap_or_default();
    if views.is_empty() {
        return vec![Finding::wrong(
            "sensors",
            "no sensor looks for the owner here",
            "see [sensors] in the worker's settings",
        )];
    }
    views.iter().map(sensor).collect()
}

fn sensor(view: &View) -> Finding {
    let (check, what) = (format!("sensor: {}", view.name), sensors::words(&view.sight));
    match view.sight {
        Sight::Seen(_) | Sight::Absent(_) => Finding::ok(check, what),
        Sight::Unknown(_) => {
            let todo = format!(
                "tasks wait as long as this is so: let the worker look, or, if something else sees the same, set {} = \"off\" in [sensors]",
                view.name
            );
            Finding::wrong(check, what, todo)
        }
    }
}

/// How well tasks are confined.
pub(super) fn confinement() -> Finding {
    Finding::ok("confinement", format!("level `{}`", worker::confinement()))
}

/// How much room there is for what is kept.
pub(super) fn disk(state: &StateDir) -> Vec<Finding> {
    let there: Option<PathBuf> = state.root().ancestors().find(|dir| dir.is_dir()).map(Path::to_owned);
    let Some(dir) = there else { return Vec::new() };
    match rustix::fs::statvfs(&dir) {
        Ok(disk) => vec![room(&dir, disk.f_bavail * disk.f_frsize)],
        Err(error) => {
            let what = format!("cannot tell how much room {} has: {error}", dir.display());
            vec![Finding::wrong("disk", what, "check that the directory can be read")]
        }
    }
}

fn room(dir: &Path, free: u64) -> Finding {
    let what = format!("{:.1} GiB free in {}", free as f64 / f64::from(1 << 30), dir.display());
    let todo = "make room; a worker's cache of inputs is bounded by cache_limit_bytes";
    match free {
        free if free < ROOM_WRONG => Finding::wrong("disk", what, todo),
        free if free < ROOM_NOTE => Finding::note("disk", what, todo),
        _ => Finding::ok("disk", what),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;
    use worker::owner::sight::{Reading, Topic};

    #[test]
    fn what_is_not_known_is_wrong_and_what_is_not_there_is_not() {
        let see = |sight| sensor(&View { name: "evdev", topic: Topic::Input, sight });
        assert_eq!(see(Sight::Seen(Reading::Idle(common::Span::from_secs(3)))).severity, Severity::Ok);
        assert_eq!(see(Sight::Absent("no device".to_owned())).severity, Severity::Ok);
        let unknown = see(Sight::Unknown("cannot open it".to_owned()));
        assert!(
            unknown.severity == Severity::Wrong && unknown.todo.is_some_and(|todo| todo.contains("evdev = \"off\""))
        );
    }

    #[test]
    fn a_full_disk_is_wrong() {
        let severities = [100 << 30, 1 << 30, 1 << 20].map(|free| room(Path::new("/x"), free).severity);
        assert_eq!(severities, [Severity::Ok, Severity::Note, Severity::Wrong]);
    }
}
