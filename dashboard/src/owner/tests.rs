//! The owner's page from made-up reports.

use common::owner::{AttemptReport, DayReport, RuleSpan, Why};
use common::site::{SiteChange, SiteRefusal, SiteReport, SiteSetting};
use common::{Span, Time};

use super::*;

const MIDNIGHT: Time = Time(1_700_000_000_000_000);

fn at(minutes: u64) -> Time {
    MIDNIGHT + Span::from_secs(60 * minutes)
}

/// A report of a worker with four slots, of which so many can be used for this reason, with tasks in
/// these phases.
fn report(usable: u32, reason: Option<&str>, phases: &[&str]) -> StatusReport {
    let attempt = |phase: &&str| AttemptReport {
        attempt: "7.3#1".to_owned(),
        phase: (*phase).to_owned(),
        reason: None,
        run_s: 60.0,
        suspended_s: 0.0,
        progress: None,
    };
    let why = reason.map(|reason| Why {
        reason: reason.to_owned(),
        says: format!("it is {reason} <b>here</b>\u{1b}[2J"),
    });
    StatusReport {
        host: "desk-1".to_owned(),
        master: "grid:7411".to_owned(),
        connected: true,
        connected_for_s: 9.0,
        silent_for_s: 0.0,
        not_connected_because: None,
        out_of_service: None,
        decision: "as tested".to_owned(),
        reason: reason.map(str::to_owned),
        decided_for_s: 120.0,
        paused_until: None,
        why: why.into_iter().collect(),
        sensors: Vec::new(),
        attempts: phases.iter().map(attempt).collect(),
        slots: 4,
        slots_usable: usable,
        confinement: "process".to_owned(),
        shares_inputs: String::new(),
        inputs_sent_bytes: 0,
        inputs_from_hosts_bytes: 0,
        today: Some(day()),
        site: None,
        update: None,
        version: "1".to_owned(),
    }
}

fn day() -> DayReport {
    let rule = |from: u64, to: Option<u64>, reason: Option<&str>| RuleSpan {
        from: at(from),
        to: to.map(at),
        reason: reason.map(str::to_owned),
        slots: if reason.is_some() { 0 } else { 4 },
    };
    DayReport {
        began: MIDNIGHT,
        now: at(720),
        utc_offset_s: 0,
        processor_s: 7_200.0,
        ran_s: 9_000.0,
        suspended_s: 600.0,
        tasks_done: 12,
        tasks_given_back: 0,
        tasks_failed: 0,
        rules: vec![
            rule(0, Some(540), None),
            rule(540, Some(718), Some("in-use")),
            rule(718, None, None),
        ],
        last_tasks: Vec::new(),
    }
}

/// The text of a page, without its marks.
fn text(markup: &Markup) -> String {
    let mut inside = false;
    let shown = markup.0.chars().filter(|c| {
        inside = *c == '<' || inside && *c != '>';
        !inside && *c != '>'
    });
    shown.collect()
}

fn said(report: &StatusReport) -> String {
    let clock = |time: Time| crate::when::local_clock(time, at(720), 0);
    text(&sentence::state(report, at(720), &clock))
}

#[test]
fn the_state_is_one_sentence_with_its_time_and_reason() {
    for (usable, reason, phases, words) in [
        (
            0,
            Some("in-use"),
            &["suspended"][..],
            "A task has been frozen since 10:11 because you use the PC.",
        ),
        (
            0,
            Some("busy"),
            &["suspended", "suspended"],
            "2 tasks have been frozen since 10:11 because your programs need the processors.",
        ),
        (
            0,
            Some("on-battery"),
            &[],
            "No task may run (since 10:11) because the PC runs on its battery.",
        ),
        (
            1,
            Some("in-use"),
            &["running", "suspended"],
            "A task runs and a task is frozen: tasks have had 1 of 4 slots since 10:11 because you use the PC.",
        ),
        (
            4,
            None,
            &["running", "ended"],
            "A task runs: nothing has stood against them since 10:11.",
        ),
        (
            4,
            None,
            &[],
            "No task is here: nothing has stood against them since 10:11.",
        ),
    ] {
        let told = said(&report(usable, reason, phases));
        assert_eq!(told, format!("Your PC is yours. {words}"));
    }

    let paused = StatusReport {
        paused_until: Some(at(780)),
        ..report(0, Some("paused-by-owner"), &[])
    };
    assert!(
        said(&paused).ends_with("because tasks are paused, until 11:13."),
        "{}",
        said(&paused)
    );
}

#[test]
fn the_rules_of_the_day_are_a_strip_and_a_list() {
    let shown = day::sections(&day()).0;
    for part in [
        "x=\"0.00%\" width=\"37.50%\"",
        "x=\"37.50%\" width=\"12.36%\"",
        "you used it",
        "2 h 58 min",
        ">now<",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }

    let long = DayReport {
        rules: std::iter::repeat_n(day().rules, 10).flatten().collect(),
        ..day()
    };
    assert!(day::sections(&long).0.contains("Earlier today"));
}

#[test]
fn words_from_outside_stay_text() {
    let hostile = StatusReport {
        master: "<script>alert(1)</script>\u{202e}".to_owned(),
        ..report(0, Some("in-use"), &["suspended"])
    };
    let shown = there(&hostile).0;
    assert!(
        !shown.contains("<script") && !shown.contains("<b>"),
        "{shown}"
    );
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
}

#[test]
fn only_a_paused_worker_can_be_resumed() {
    let shown = |reason| there(&report(0, Some(reason), &[])).0;
    assert!(shown("paused-by-owner").contains("action=\"/resume\""));
    assert!(!shown("in-use").contains("action=\"/resume\""));
    assert!(gone(Some("switch")).0.contains("action=\"/resume\""));
}

#[tokio::test]
async fn an_answer_to_a_button_that_failed_stays_and_a_look_that_failed_is_made_again() {
    let button = back(Err("it has ended".to_owned()));
    let look = failed("it has ended", Renewal::Always);
    for (answer, looks) in [(button, false), (look, true)] {
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
        let body = body.expect("a body");
        let shown = String::from_utf8_lossy(&body);
        assert!(shown.contains("it has ended"), "{shown}");
        assert_eq!(shown.contains("data-every="), looks, "{shown}");
        assert_eq!(shown.contains("http-equiv"), looks, "{shown}");
    }
}

#[test]
fn settings_from_the_master_stand_beside_the_owners_own_with_their_last_changes() {
    let change = |n: u32| SiteChange {
        at: format!("2026-11-26T17:{n:02}:02.123456Z"),
        key: "owner.hours".to_owned(),
        scope: "label <b>lab".to_owned(),
        was: (n > 0).then(|| format!("window {n}")),
        is: Some("x".repeat(3_000)),
    };
    let with = |site| StatusReport {
        site: Some(site),
        ..report(4, None, &[])
    };
    let site = SiteReport {
        takes: true,
        settings: vec![SiteSetting {
            key: "slots".to_owned(),
            value: "1<i>\u{202e}".to_owned(),
            own: "3".to_owned(),
            scope: "all".to_owned(),
            since: "2026-11-26T17:01:02.123456Z".to_owned(),
            in_force: false,
        }],
        changes: (0..10).map(change).collect(),
        refused: Some(SiteRefusal {
            at: String::new(),
            why: "there is no setting `<script>`".to_owned(),
        }),
    };
    let shown = there(&with(site.clone())).0;
    for part in [
        "<td>slots</td>",
        "<td>3</td>",
        "2026-11-26 17:01 UTC, counts from the worker's next start",
        "there is no setting `&lt;script&gt;`",
        "settings_from_master = false",
        "<td>none</td>",
        "Earlier",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("<i>") && !shown.contains("<b>") && !shown.contains('\u{202e}'));
    assert!(!shown.contains(&"x".repeat(81)));
    let newest = shown.find("window 9").expect("the last change");
    assert!(newest < shown.find("window 8").expect("the one before"));

    let none = SiteReport {
        settings: Vec::new(),
        takes: false,
        ..site
    };
    assert!(there(&with(none)).0.contains("None hold; your own do."));
    let never = there(&with(SiteReport::default())).0;
    assert!(!never.contains("Settings from the master"), "{never}");
}
