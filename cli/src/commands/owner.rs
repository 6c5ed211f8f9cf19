//! Executes `deskgrid worker status`, `pause`, `resume` and `page`: requests of this machine's owner
//! to its worker, without the master.

#[cfg(feature = "whole")]
mod page;

use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;

use common::owner::{DayReport, StatusReport};
use common::site::SiteReport;
use common::units::Bytes;
use common::update::UpdateReport;
use serde::Serialize;
use worker::control::{self, ControlError, ControlRequest, RestKind};

use super::Context;
use crate::args::value::Dur;
use crate::failure::{Exit, Failure};
use crate::output::table::{Rows, facts};

#[cfg(feature = "whole")]
pub(super) use page::page;

/// The state of the owner's switch after a command.
#[derive(Debug, Serialize)]
struct Switched {
    /// Whether the owner's pause holds now.
    paused: bool,
    /// The time at which the pause ends by itself.
    until: Option<String>,
    /// Whether a worker runs, even if it has not joined yet.
    running: bool,
    /// The decision on tasks of a worker that has joined, and the reason for restrictions.
    decision: Option<String>,
    reason: Option<String>,
    says: Option<String>,
}

/// The worker whose switch was turned.
enum TurnedWorker {
    Works(Box<StatusReport>),
    /// It has not joined yet.
    Rests,
    /// None runs.
    Absent,
}

/// The silence of a connected master from which on it is told to people, in seconds.
const NOTEWORTHY_S: f64 = 1.0;

/// Prints the worker's state.
pub(super) async fn status(context: &Context, why: bool) -> Result<Exit, Failure> {
    let dir = context.state.worker();
    let report = control::ask(&dir, &ControlRequest::Status)
        .await
        .map_err(|error| failure(error, &dir))?;
    let color = context.out.color();
    context.show(
        &report,
        || describe(&report, why, color),
        || vec![report.decision.clone()],
    )
}

/// Pauses the worker.
pub(super) async fn pause(context: &Context, lasts: Option<Dur>) -> Result<Exit, Failure> {
    let until = lasts.map(end_of).transpose()?;
    turn(context, &ControlRequest::Pause { until }).await
}

/// Returns the end of a pause that begins now.
fn end_of(lasts: Dur) -> Result<String, Failure> {
    if lasts.0.is_zero() {
        return Err(Failure::usage(
            "a pause of no time pauses nothing",
            "give a time, such as --for 2h; `deskgrid worker resume` ends a pause",
        ));
    }

    let end = SystemTime::now().checked_add(lasts.0);
    let end = end.filter(|end| *end < far()).ok_or_else(|| {
        let hint = "leave --for out: it lasts until resumed";
        Failure::usage("a pause cannot be that long", hint)
    })?;
    Ok(humantime::format_rfc3339_millis(end).to_string())
}

/// The last moment whose year has four digits.
fn far() -> SystemTime {
    SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(253_402_300_799)
}

/// Ends the owner's pause, if there is one.
pub(super) async fn resume(context: &Context) -> Result<Exit, Failure> {
    turn(context, &ControlRequest::Resume).await
}

async fn turn(context: &Context, ask: &ControlRequest) -> Result<Exit, Failure> {
    let dir = context.state.worker();
    let was_paused = control::paused(&dir).is_some();
    let done = carry_out(&dir, ask).await;
    let worker = done.map_err(|error| failure(error, &dir))?;
    let switched = switched(ask, worker);
    let word = if switched.paused { "paused" } else { "resumed" };
    context.show(
        &switched,
        || sentence(&switched, was_paused, &dir),
        || vec![word.to_owned()],
    )
}

/// Pauses or resumes, with a worker or without one.
async fn carry_out(dir: &Path, ask: &ControlRequest) -> Result<TurnedWorker, ControlError> {
    match control::ask(dir, ask).await {
        Ok(report) => Ok(TurnedWorker::Works(Box::new(report))),
        // It has turned the switch before it answers.
        Err(ControlError::Resting(..)) => Ok(TurnedWorker::Rests),
        Err(ControlError::NotRunning(_)) => {
            control::without(dir, ask).map(|()| TurnedWorker::Absent)
        }
        Err(error) => Err(error),
    }
}

fn switched(ask: &ControlRequest, worker: TurnedWorker) -> Switched {
    let until = match ask {
        ControlRequest::Pause { until } => until.clone(),
        _ => None,
    };
    let running = !matches!(worker, TurnedWorker::Absent);
    let TurnedWorker::Works(report) = worker else {
        let paused = matches!(ask, ControlRequest::Pause { .. });
        return Switched {
            paused,
            until,
            running,
            decision: None,
            reason: None,
            says: None,
        };
    };

    let paused = report.why.iter().any(|why| why.reason == "paused-by-owner");
    let says = report.why.into_iter().next().map(|why| why.says);
    Switched {
        paused,
        until,
        running,
        decision: Some(report.decision),
        reason: report.reason,
        says,
    }
}

fn sentence(switched: &Switched, was_paused: bool, dir: &Path) -> String {
    let resumed = match was_paused {
        true => "resumed",
        false => "nothing was paused",
    };
    let until = switched
        .until
        .as_ref()
        .map_or_else(String::new, |until| format!(" until {until}"));

    if switched.decision.is_none() {
        let which = match switched.running {
            true => "the worker has not joined a grid yet; it".to_owned(),
            false => format!("no worker runs in {}; the next one", dir.display()),
        };
        return match switched.paused {
            true => format!("{which} is paused{until} from its start"),
            false => format!("{which} is not paused"),
        };
    }

    match (&switched.says, &switched.reason) {
        (Some(says), _) if switched.paused && switched.until.is_none() => format!("paused: {says}"),
        _ if switched.paused => format!("paused{until}"),
        (Some(says), Some(reason)) => format!("{resumed}; tasks wait ({reason}): {says}"),
        _ => resumed.to_owned(),
    }
}

/// Says whether inputs are passed on to other hosts; `None` for a worker that does not say.
fn sharing(report: &StatusReport) -> Option<String> {
    let [sent, came] = [report.inputs_sent_bytes, report.inputs_from_hosts_bytes].map(Bytes);
    let says = &report.shares_inputs;
    (!says.is_empty()).then(|| format!("{says}; {sent} sent to other hosts, {came} came from some"))
}

/// Says what was lent today.
fn today_in_words(day: &DayReport) -> String {
    let lasts = |seconds: f64| common::Span::from_secs_f64(seconds).to_string();
    let DayReport {
        processor_s,
        ran_s,
        suspended_s,
        tasks_done,
        ..
    } = day;
    format!(
        "{} of processor time; tasks ran {}, were frozen {}; {tasks_done} done",
        lasts(*processor_s),
        lasts(*ran_s),
        lasts(*suspended_s)
    )
}

/// Says how many settings come from the master, and whether the newest were refused; `None` where
/// there is nothing to say.
fn site_in_words(site: &SiteReport) -> Option<String> {
    let refused = site
        .refused
        .as_ref()
        .map(|refused| format!("the newest from the master were refused: {}", refused.why));
    let held = match site.settings.len() {
        0 => None,
        1 => Some("1 from the master (--why shows it)".to_owned()),
        more => Some(format!("{more} from the master (--why shows them)")),
    };

    match (held, refused) {
        (Some(held), Some(refused)) => Some(format!("{held}; {refused}")),
        (held, refused) => held.or(refused),
    }
}

/// Says which program runs in place of the installed one; `None` where it is the installed one.
fn program_in_words(update: &UpdateReport) -> Option<String> {
    let installed = update.instead_of.as_ref()?;
    Some(format!(
        "from the master, in place of the installed {installed} (--why shows since when)"
    ))
}

/// Lists what came of new programs from the master; empty where none ever came.
fn programs(update: &UpdateReport, color: bool) -> String {
    let mut rows = Rows::new(&["at", "version", "program"], color);
    for event in &update.events {
        rows.add([event.at.clone(), event.version.clone(), event.what.clone()]);
    }
    match update.events.is_empty() {
        true => String::new(),
        false => format!("\n{}", rows.text("")),
    }
}

/// The most characters of a value in a table; the JSON has all of it.
const SHOWN: usize = 60;

/// A value that fits into a table.
fn short(value: &str) -> String {
    let mut shown: String = value.chars().take(SHOWN).collect();
    if value.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// Lists the settings from the master, and how they changed; empty where there never were any.
fn settings(site: &SiteReport, color: bool) -> String {
    let headings = ["setting", "from the master", "yours", "for", "since", ""];
    let mut rows = Rows::new(&headings, color);
    for setting in &site.settings {
        let later = "counts from the worker's next start";
        rows.add([
            setting.key.clone(),
            short(&setting.value),
            short(&setting.own),
            short(&setting.scope),
            setting.since.clone(),
            if setting.in_force { "" } else { later }.to_owned(),
        ]);
    }
    let mut changes = Rows::new(&["changed", "setting", "was", "is", "for"], color);
    for change in &site.changes {
        let value =
            |value: &Option<String>| value.as_deref().map_or_else(|| "none".to_owned(), short);
        changes.add([
            change.at.clone(),
            change.key.clone(),
            value(&change.was),
            value(&change.is),
            short(&change.scope),
        ]);
    }

    if site.changes.is_empty() {
        return String::new();
    }
    let none = "no settings from the master hold; your own do\n";
    format!("\n{}\n{}", rows.text(none), changes.text(""))
}

fn describe(report: &StatusReport, why: bool, color: bool) -> String {
    let lasts = |seconds: f64| common::Span::from_secs_f64(seconds).to_string();
    let state = match (report.decision.as_str(), &report.reason) {
        ("run", _) | (_, None) => "may run".to_owned(),
        ("yield", Some(reason)) => format!(
            "may run in {} of {} slots: {reason}",
            report.slots_usable, report.slots
        ),
        (_, Some(reason)) => format!("suspended: {reason}"),
    };

    let connected = match report.connected {
        true => "connected",
        false => "not connected",
    };
    let silent = match report.silent_for_s >= NOTEWORTHY_S {
        true => format!(", nothing heard for {}", lasts(report.silent_for_s)),
        false => String::new(),
    };

    let mut text = facts(&[
        (
            "host",
            Some(format!("{}, deskgrid {}", report.host, report.version)),
        ),
        (
            "master",
            Some(format!(
                "{}, {connected} for {}{silent}",
                report.master,
                lasts(report.connected_for_s)
            )),
        ),
        ("because", report.not_connected_because.clone()),
        ("out of service", report.out_of_service.clone()),
        (
            "tasks",
            Some(format!("{state}, for {}", lasts(report.decided_for_s))),
        ),
        ("why", report.why.first().map(|why| why.says.clone())),
        (
            "slots",
            Some(format!(
                "{} of {} usable",
                report.slots_usable, report.slots
            )),
        ),
        ("confinement", Some(report.confinement.clone())),
        ("sharing", sharing(report)),
        ("settings", report.site.as_ref().and_then(site_in_words)),
        ("program", report.update.as_ref().and_then(program_in_words)),
        ("today", report.today.as_ref().map(today_in_words)),
    ]);

    let mut attempts = Rows::new(&["attempt", "phase", "why", "ran", "suspended"], color);
    for held in &report.attempts {
        let reason = held.reason.clone().unwrap_or_default();
        attempts.add([
            held.attempt.clone(),
            held.phase.clone(),
            reason,
            lasts(held.run_s),
            lasts(held.suspended_s),
        ]);
    }

    text += &format!("\n{}", attempts.text("no attempts are held\n"));
    if why {
        let mut reasons = Rows::new(&["reason", "says"], color);
        report
            .why
            .iter()
            .for_each(|why| reasons.add([why.reason.clone(), why.says.clone()]));

        let mut sensors = Rows::new(&["sensor", "looks at", "state", "sees"], color);
        for sensor in &report.sensors {
            sensors.add([
                sensor.sensor.clone(),
                sensor.topic.clone(),
                sensor.state.clone(),
                sensor.sees.clone(),
            ]);
        }

        let none = "nothing stands against tasks\n";
        text += &format!(
            "\n{}\n{}",
            reasons.text(none),
            sensors.text("no sensors look\n")
        );
        text += &report
            .site
            .as_ref()
            .map_or_else(String::new, |site| settings(site, color));
        text += &report
            .update
            .as_ref()
            .map_or_else(String::new, |update| programs(update, color));
    }

    text
}

/// Returns why there is no answer, and what to do.
pub(super) fn failure(error: ControlError, dir: &Path) -> Failure {
    match error {
        ControlError::NotRunning(_) => {
            let what = format!("no worker runs in {}", dir.display());
            let hint = "start one with `deskgrid worker start`, or name its directory with --dir; one that could not join yet says why in its log";
            let paused = control::paused(dir);
            Failure {
                because: paused.map(|by| format!("the next one to start here is paused by {by}")),
                ..Failure::error("not-running", what, hint)
            }
        }
        ControlError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            let what = format!(
                "this account may not speak with the worker in {}",
                dir.display()
            );
            let hint = "run it as the worker's account or root (sudo), or name your own worker's directory with --dir";
            Failure::new(Exit::NotAuthorised, "no-permission", what, hint).because(source)
        }
        ControlError::Io { source, .. } => {
            Failure::cannot("speak with the worker in", dir, &source)
        }
        ControlError::Resting(kind, why) => {
            let hint = "the worker's log says when it tries next; another address or token in that file counts within seconds";
            match kind {
                RestKind::Away => Failure::new(Exit::Unreachable, "unreachable", why, hint),
                _ => Failure::new(Exit::NotAuthorised, "not-joined", why, hint),
            }
        }
        ControlError::Refused(why) => {
            let hint = "check the worker's directory, and who may write there";
            Failure::error("refused", "the worker was not paused or resumed", hint).because(why)
        }
    }
}

#[cfg(test)]
mod tests {
    use common::Time;
    use common::owner::{AttemptReport, EndedTask, RuleSpan, SensorReport, TaskEnd, Why};
    use common::site::{SiteChange, SiteRefusal, SiteSetting};

    use super::*;

    fn report() -> StatusReport {
        let says = "keyboard used".to_owned();
        StatusReport {
            host: "desk-1".to_owned(),
            master: "grid:7411".to_owned(),
            connected: false,
            connected_for_s: 61.0,
            silent_for_s: 0.0,
            not_connected_because: Some("this identity is not known here".to_owned()),
            out_of_service: Some("drained: by an admin".to_owned()),
            decision: "yield".to_owned(),
            reason: Some("in-use".to_owned()),
            decided_for_s: 12.0,
            paused_until: None,
            why: vec![Why {
                reason: "in-use".to_owned(),
                says,
            }],
            sensors: vec![SensorReport {
                sensor: "x11".to_owned(),
                topic: "input".to_owned(),
                state: "seen".to_owned(),
                sees: "nobody has touched anything for 12.0s".to_owned(),
                ago_s: Some(12.0),
            }],
            attempts: vec![AttemptReport {
                attempt: "7.3#1".to_owned(),
                phase: "suspended".to_owned(),
                reason: Some("in-use".to_owned()),
                run_s: 3.0,
                suspended_s: 12.0,
                progress: None,
            }],
            slots: 4,
            slots_usable: 1,
            confinement: "process".to_owned(),
            shares_inputs: "yes".to_owned(),
            inputs_sent_bytes: 3_000_000,
            inputs_from_hosts_bytes: 0,
            today: Some(today()),
            update: None,
            site: Some(site()),
            version: "1.2.3".to_owned(),
        }
    }

    fn site() -> SiteReport {
        let at = || "2023-11-14T22:13:20.000000Z".to_owned();
        let [key, scope, value] = ["owner.input.idle", "all", "\"9m\""].map(str::to_owned);
        SiteReport {
            takes: true,
            settings: vec![SiteSetting {
                key: key.clone(),
                value: value.clone(),
                own: "\"3m\"".to_owned(),
                scope: scope.clone(),
                since: at(),
                in_force: true,
            }],
            changes: vec![SiteChange {
                at: at(),
                key,
                scope,
                was: None,
                is: Some(value),
            }],
            refused: Some(SiteRefusal {
                at: at(),
                why: "there is no setting `x`".to_owned(),
            }),
        }
    }

    fn today() -> DayReport {
        let at = |s: u64| Time(1_700_000_000_000_000 + s * 1_000_000);
        DayReport {
            began: at(0),
            now: at(90),
            utc_offset_s: 3_600,
            processor_s: 75.0,
            ran_s: 80.0,
            suspended_s: 5.0,
            tasks_done: 2,
            tasks_given_back: 1,
            tasks_failed: 0,
            rules: vec![RuleSpan {
                from: at(78),
                to: None,
                reason: Some("in-use".to_owned()),
                slots: 1,
            }],
            last_tasks: vec![EndedTask {
                attempt: "7.2#1".to_owned(),
                ended: at(60),
                how: TaskEnd::GivenBack,
                ran_s: 40.0,
                suspended_s: 5.0,
            }],
        }
    }

    #[test]
    fn a_status_is_told_in_plain_words_and_with_why_down_to_each_sensor() {
        let text = describe(&report(), false, false);
        for part in [
            "desk-1, deskgrid 1.2.3",
            "grid:7411, not connected for 1m01s",
            "this identity is not known here",
            "drained: by an admin",
            "may run in 1 of 4 slots: in-use, for 12.0s",
            "1m15s of processor time; tasks ran 1m20s, were frozen 5.0s; 2 done",
            "keyboard used",
            "7.3#1    suspended  in-use",
            "1 from the master (--why shows it); the newest from the master were refused: there is no setting `x`",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }

        let silent = StatusReport {
            connected: true,
            silent_for_s: 4.0,
            ..report()
        };
        let silent = describe(&silent, false, false);
        assert!(
            silent.contains("grid:7411, connected for 1m01s, nothing heard for 4.0s"),
            "{silent}"
        );
        assert!(!text.contains("nothing heard"));

        assert!(!text.contains("x11"));
        let more = describe(&report(), true, false);
        assert!(
            more.starts_with(&text) && more.contains("x11     input     seen   nobody has touched"),
            "{more}"
        );
        let setting = r#"owner.input.idle  "9m"             "3m"   all  2023-11-14T22:13:20"#;
        assert!(more.contains(setting), "{more}");
    }

    #[test]
    fn the_fields_for_scripts_stay() {
        let json = crate::output::document(&report());
        let expected = r#"{"schema":1,"host":"desk-1","master":"grid:7411","connected":false,"connected_for_s":61.0,"silent_for_s":0.0,"not_connected_because":"this identity is not known here","out_of_service":"drained: by an admin","decision":"yield","reason":"in-use","decided_for_s":12.0,"paused_until":null,"why":[{"reason":"in-use","says":"keyboard used"}],"sensors":[{"sensor":"x11","topic":"input","state":"seen","sees":"nobody has touched anything for 12.0s","ago_s":12.0}],"attempts":[{"attempt":"7.3#1","phase":"suspended","reason":"in-use","run_s":3.0,"suspended_s":12.0,"progress":null}],"slots":4,"slots_usable":1,"confinement":"process","shares_inputs":"yes","inputs_sent_bytes":3000000,"inputs_from_hosts_bytes":0,"today":{"began":"2023-11-14T22:13:20.000000Z","now":"2023-11-14T22:14:50.000000Z","utc_offset_s":3600,"processor_s":75.0,"ran_s":80.0,"suspended_s":5.0,"tasks_done":2,"tasks_given_back":1,"tasks_failed":0,"rules":[{"from":"2023-11-14T22:14:38.000000Z","to":null,"reason":"in-use","slots":1}],"last_tasks":[{"attempt":"7.2#1","ended":"2023-11-14T22:14:20.000000Z","how":"given-back","ran_s":40.0,"suspended_s":5.0}]},"site":{"takes":true,"settings":[{"key":"owner.input.idle","value":"\"9m\"","own":"\"3m\"","scope":"all","since":"2023-11-14T22:13:20.000000Z","in_force":true}],"changes":[{"at":"2023-11-14T22:13:20.000000Z","key":"owner.input.idle","scope":"all","was":null,"is":"\"9m\""}],"refused":{"at":"2023-11-14T22:13:20.000000Z","why":"there is no setting `x`"}},"update":null,"version":"1.2.3"}"#;
        assert_eq!(json, expected);
    }
}
