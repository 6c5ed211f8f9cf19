//! Says whether a worker runs on this machine, and what it does: it is asked as its owner asks it.

use common::Span;
use common::owner::StatusReport;
use worker::control::{self, ControlError, ControlRequest, RestKind};

use super::{Finding, Severity};
use crate::commands::owner;
use crate::state::StateDir;

/// The name of the check.
const CHECK: &str = "worker";

/// Asks the worker of this state directory, which may have joined a grid or not.
pub(super) async fn worker(state: &StateDir, has_joined: bool) -> Finding {
    let dir = state.worker();
    let join = state.root().join("join.toml");
    match control::ask(&dir, &ControlRequest::Status).await {
        Ok(report) => running(&report),
        Err(ControlError::NotRunning(_)) if !has_joined && join.exists() => {
            let join = join.display();
            let what = format!("none runs here that joins a grid by {join}");
            let todo = format!(
                "deskgrid --dir {} worker start --first-start {join}, or its service: the log says what is wrong with that file",
                state.root().display()
            );
            Finding::wrong(CHECK, what, todo)
        }
        Err(ControlError::NotRunning(_)) if !has_joined => Finding::ok(
            CHECK,
            format!(
                "none runs in {}, and none has joined a grid from there (--dir names another directory)",
                dir.display()
            ),
        ),
        Err(error @ ControlError::Resting(RestKind::Away | RestKind::Refused, _)) => {
            Finding::failed(CHECK, &owner::failure(error, &dir))
        }
        // An owner may have ended it.
        Err(error) => Finding {
            severity: Severity::Note,
            ..Finding::failed(CHECK, &owner::failure(error, &dir))
        },
    }
}

fn running(report: &StatusReport) -> Finding {
    let lasts = |seconds: f64| Span::from_secs_f64(seconds).to_string();
    let reason = report.reason.as_ref();
    let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
    let tasks = format!(
        "tasks may use {} of {} slots{reason}, for {}",
        report.slots_usable,
        report.slots,
        lasts(report.decided_for_s)
    );

    let StatusReport { host, master, .. } = report;
    let lasts = lasts(report.connected_for_s);
    if report.connected {
        let what = format!("runs as {host}, connected to {master} for {lasts}; {tasks}");
        return match &report.out_of_service {
            Some(why) => Finding::note(
                CHECK,
                format!("{what}; out of service: {why}"),
                format!("an admin of the grid can end that; `deskgrid host info {host}` says more"),
            ),
            None => Finding::ok(CHECK, what),
        };
    }
    let because = report.not_connected_because.as_ref();
    let because = because.map_or_else(String::new, |because| format!(": {because}"));
    Finding::note(
        CHECK,
        format!("runs as {host}, not connected to {master} for {lasts}{because}; {tasks}"),
        "it tries again by itself; see what is said here of its master, and its log",
    )
}
