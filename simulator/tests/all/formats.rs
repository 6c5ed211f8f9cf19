//! Traces in the formats of others: what a format can hold survives, and what cannot be is refused
//! with its line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use simulator::stats::stats;
use simulator::trace::{Note, Segment, Trace, TraceError, TracedHost};

/// Where a shared file lies: beside the project, or where `DESKGRID_SHARED` says. None where it is
/// not there.
fn shared(name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let file = std::env::var_os("DESKGRID_SHARED")
        .map_or_else(beside, PathBuf::from)
        .join("data")
        .join(name);
    if !file.exists() {
        eprintln!("skipped: no {}", file.display());
        return None;
    }
    Some(file)
}

/// A file of this name and text in a directory of its own.
fn file(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join(name);
    std::fs::write(&file, text).expect("written");
    (dir, file)
}

/// The line and the message of a refusal.
fn refusal(read: fn(&Path) -> Result<Trace, TraceError>, text: &str) -> (usize, String) {
    let (_dir, file) = file("f", text);
    let error = read(&file).expect_err(text);
    let message = error.to_string();
    assert!(
        message.contains(file.file_name().expect("a name").to_str().expect("text")),
        "{message}"
    );
    let TraceError::Flawed { line, .. } = error else {
        panic!("{message}")
    };
    (line, message)
}

/// Every one of these texts is refused, with this line and for this reason.
fn refused(read: fn(&Path) -> Result<Trace, TraceError>, cases: &[(&str, usize, &str)]) {
    for (text, line, reason) in cases {
        let (found, message) = refusal(read, text);
        assert_eq!(found, *line, "{message}");
        assert!(message.contains(reason), "{message} should say {reason}");
    }
}

fn segment(start_s: f64, end_s: f64, up: bool, cpu: f64) -> Segment {
    Segment {
        start_s,
        end_s,
        up,
        cpu,
    }
}

/// A genuine table: 3,577 nodes of LANL (2005). Means and medians are known; published fits were
/// made of it.
#[test]
fn the_archives_table_has_its_published_counts_means_and_laws() {
    let Some(file) = shared("fta/lanl05_event_trace.tab") else {
        return;
    };
    let trace = Trace::read_fta(&file).expect("a genuine table");
    let found = stats(&trace);
    assert_eq!((found.hosts, found.segments), (3_577, 43_325));
    assert_eq!(
        (found.availability.count, found.unavailability.count),
        (19_874, 23_451)
    );

    for (what, seconds, hours) in [
        ("mean up", found.availability.mean_s, 1_779.99),
        ("median up", found.availability.median_s, 280.28),
        ("mean down", found.unavailability.mean_s, 5.88),
        ("median down", found.unavailability.median_s, 0.97),
    ] {
        assert!(
            (seconds / 3_600.0 - hours).abs() <= 0.005,
            "{what}: {} h",
            seconds / 3_600.0
        );
    }

    // Javadi, Kondo, Iosup and Epema 2013, in hours, rounded to their digits.
    let up = found.availability;
    let down = found.unavailability;
    let weibull = up.weibull.expect("a law");
    let lognormal = up.lognormal.expect("a law");

    assert!(
        (weibull.shape - 0.48).abs() < 0.005 && (weibull.scale / 3_600.0 - 816.6).abs() < 1.0,
        "{weibull:?}"
    );
    assert!(
        (lognormal.mu - 3_600_f64.ln() - 5.56).abs() < 0.005
            && (lognormal.sigma - 2.39).abs() < 0.005
    );

    let weibull = down.weibull.expect("a law");
    let lognormal = down.lognormal.expect("a law");
    assert!(
        (weibull.shape - 0.58).abs() < 0.005 && (weibull.scale / 3_600.0 - 2.18).abs() < 0.005,
        "{weibull:?}"
    );
    assert!(
        (lognormal.mu - 3_600_f64.ln() - 0.05).abs() < 0.005
            && (lognormal.sigma - 1.42).abs() < 0.005
    );
}

#[test]
fn the_archives_table_is_the_same_after_a_round_trip() {
    let Some(file) = shared("fta/lanl05_event_trace.tab") else {
        return;
    };
    let trace = Trace::read_fta(&file).expect("a genuine table");
    let dir = tempfile::tempdir().expect("a directory");
    trace.write_fta(dir.path()).expect("written");
    assert!(Trace::read_fta(dir.path()).expect("read") == trace);
}

#[test]
fn tables_of_the_archive_are_read_by_position_with_padding_states_and_nodes() {
    let dir = tempfile::tempdir().expect("a directory");
    let write =
        |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("written");

    let events = "#event_id\tcomponent_id\n0\t0\t7\t1\tpc\t1\t1000000000.5\t1000000060\tNULL\n\
                  1\t0\t7\t1\tpc\t0\t \t\t1000000060\t\t1000000070\t5\n0\t0\t8\t1\tpc\t1\t1000000000\t1000000001\t2\n";
    write("x_event_trace.tab", events);
    write("x_event_state.tab", "0\t0\t7\t1\t1\t0.25\tin-use\n");
    write(
        "x_node.tab",
        "8\t1\tpc\tNULL\tNULL\tNULL\tAMD 2.0 GHz\tL\t1\t1\t1\t1\t1\t1\t1\tNULL\n",
    );

    let trace = Trace::read_fta(dir.path()).expect("sound");
    assert_eq!(trace.origin_s, 1_000_000_000);

    let names: Vec<_> = trace
        .hosts
        .iter()
        .map(|host| (host.name.as_str(), host.clock_mhz))
        .collect();
    assert_eq!(names, [("pc", 1_500.0), ("pc-2", 2_000.0)]);
    assert_eq!(
        trace.hosts[0].segments,
        [
            segment(0.5, 60.0, true, 0.25),
            segment(60.0, 70.0, false, 0.0)
        ]
    );

    let reasons: Vec<_> = trace.hosts[0]
        .noted()
        .map(|(_, note)| (note.owner_active, note.reason))
        .collect();
    assert_eq!(
        reasons,
        [
            (Some(true), Some("in-use".into())),
            (None, Some("5".into()))
        ]
    );
}

#[test]
fn a_table_with_a_byte_order_mark_loses_no_event() {
    let events = "\u{feff}0\t0\t1\t1\tpc\t1\t10\t20\t0\n1\t0\t1\t1\tpc\t0\t20\t30\t0\n";
    let (_dir, path) = file("event_trace.tab", events);
    let trace = Trace::read_fta(&path).expect("sound");
    assert_eq!(
        trace.hosts[0].segments,
        [
            segment(10.0, 20.0, true, 1.0),
            segment(20.0, 30.0, false, 0.0)
        ]
    );
}

#[test]
fn a_clock_rate_that_no_processor_has_is_refused_with_its_line_in_the_table_of_nodes() {
    let dir = tempfile::tempdir().expect("a directory");
    let write =
        |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("written");
    write(
        "event_trace.tab",
        "0\t0\t8\t1\tpc\t1\t1000000000\t1000000001\t2\n",
    );
    write(
        "node.tab",
        "# node_id\n8\t1\tpc\tNULL\tNULL\tNULL\t2400000000 MHz\tL\t1\t1\t1\t1\t1\t1\t1\tNULL\n",
    );

    let refused = Trace::read_fta(dir.path()).expect_err("no processor has it");
    let message = refused.to_string();
    assert!(
        message.contains("node.tab, line 2: the clock of host \"pc\" is 2400000000 MHz"),
        "{message}"
    );
}

#[test]
fn an_unexportable_trace_is_refused_with_its_line() {
    refused(
        Trace::read_fta,
        &[
            (
                "0\t0\t1\t1\tpc\t1\t10\t20\n",
                1,
                "8 fields where a line of this format has 9",
            ),
            (
                "# h\n0\t0\t1\t1\tpc\t1\t10\t20\t0\n1\t0\t1\t1\tpc\t0\t19\t30\t0\n",
                3,
                "overlap",
            ),
            (
                "# h\n0\t0\t1\t1\tpc\t1\t20\t10\t0\n",
                2,
                "not after its start",
            ),
            ("0\t0\t1\t1\tpc\t2\t10\t20\t0\n", 1, "event_type is \"2\""),
            (
                "0\t0\t1\t1\tpc\t1\t-10\t20\t0\n",
                1,
                "event_start_time is -10",
            ),
            (
                "0\t0\t1\t1\tpc\t1\tNULL\t20\t0\n",
                1,
                "event_start_time is \"NULL\"",
            ),
            ("0\t0\t1\t1\tpc\t1\t10\t1e300\t0\n", 1, "too large"),
            (
                "0\t0\t1\t1\tpc\t1\t10\t999999999999\t0\n",
                1,
                "event_stop_time is 999999999999, which is too large",
            ),
            ("# h\n", 1, "nothing is said"),
            ("", 1, "nothing is said"),
        ],
    );

    let dir = tempfile::tempdir().expect("a directory");
    let message = Trace::read_fta(dir.path()).expect_err("empty").to_string();
    assert!(message.contains("event_trace.tab"), "{message}");

    let write =
        |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("written");
    write("event_trace.tab", "0\t0\t1\t1\tpc\t1\t10\t20\t0\n");

    for (state, reason) in [
        ("9\t0\t1\t1\t1\t0.5\tx", "no event 9"),
        ("0\t0\t1\t1\t1\t1.5\tx", "cpu_fraction is 1.5"),
    ] {
        write("event_state.tab", state);
        let message = Trace::read_fta(dir.path()).expect_err(reason).to_string();
        assert!(
            message.contains(reason) && message.contains("event_state.tab, line 1"),
            "{message}"
        );
    }
}

#[test]
fn avt_holds_when_hosts_are_up() {
    let (_dir, path) = file(
        "a.avt",
        "# two hosts\nh1 2 0 10 20 30\nh2 0 # never\nh3 1 5 40\n",
    );
    let trace = Trace::read_avt(&path).expect("sound");
    let up = |at: usize| -> Vec<(f64, f64)> {
        trace.hosts[at]
            .segments
            .iter()
            .filter(|s| s.up)
            .map(|s| (s.start_s, s.end_s))
            .collect()
    };
    assert_eq!(
        (up(0), up(1), up(2)),
        (vec![(0.0, 10.0), (20.0, 30.0)], vec![], vec![(5.0, 40.0)])
    );
    assert!(
        trace
            .hosts
            .iter()
            .all(|host| host.segments.last().map(|s| s.end_s) == Some(40.0)),
        "down outside"
    );

    refused(
        Trace::read_avt,
        &[
            (
                "h 1 5\n",
                1,
                "1 intervals are announced, and 1 times follow",
            ),
            ("h 1 5 6 7 8\n", 1, "4 times follow"),
            ("h 99999999999999999999 5 6\n", 1, "number of intervals"),
            ("# x\nh 2 5 6 3 9\n", 2, "overlap"),
            ("h 1 9 5\n", 1, "not after its start"),
            ("h 1 -9 5\n", 1, "up is -9"),
            ("h\n", 1, "1 fields"),
            ("h 0\nh 0\n", 2, "line 1 has it already"),
            ("\n", 1, "nothing is said"),
        ],
    );
}

#[test]
fn a_boinc_log_says_when_the_host_was_on_and_when_tasks_ran() {
    let log = "1000000000.25 platform x86_64\n1000000000.25 version 7.1.2\n1000000001 power_on\n\
               1000000001 net_connected\n1000000010 proc_start\n1000000020 net_unknown\n1000000040 proc_stop\n\
               1000000050 power_off\n1000000100 power_on\n1000000101 proc_start\n1000000150 net_unknown\n\
               1000000200 power_on\n1000000210 proc_start\n1000000220 power_off\n";
    let (_dir, path) = file("time_stats_log", log);
    let trace = Trace::read_boinc(&path).expect("sound");
    let found: Vec<_> = trace.hosts[0]
        .segments
        .iter()
        .map(|s| (s.start_s, s.end_s, s.up, s.cpu))
        .collect();
    let expected = [
        (0.0, 9.0, true, 0.0),
        (9.0, 39.0, true, 1.0),
        (39.0, 49.0, true, 0.0),
        (49.0, 99.0, false, 0.0),
        (99.0, 100.0, true, 0.0),
        (100.0, 149.0, true, 1.0),
        // From the last event on nothing is known: there was no power_off.
        (199.0, 209.0, true, 0.0),
        (209.0, 219.0, true, 1.0),
    ];
    assert_eq!(found, expected);

    assert_eq!(trace.origin_s, 1_000_000_001);
    refused(
        Trace::read_boinc,
        &[
            (
                "1000000000 power_on\n999999999 power_off\n",
                2,
                "before the last one",
            ),
            ("1000000000 powr_on\n", 1, "\"powr_on\" is no event"),
            ("1000000000\n", 1, "1 fields"),
            ("soon power_on\n", 1, "the time is \"soon\""),
            ("1000000000 power_on\n", 1, "nothing is said"),
        ],
    );
}

#[test]
fn a_directory_of_boinc_logs_has_a_host_for_each() {
    let dir = tempfile::tempdir().expect("a directory");
    let logs = dir.path().join("logs");
    std::fs::create_dir(&logs).expect("a directory");
    for name in [
        "a.log",
        "pc1.lab.org",
        "pc2.txt",
        "time_stats_log",
        "time_stats_log.pc3",
        "time_stats_log.pc4.lab.org",
    ] {
        std::fs::write(
            logs.join(name),
            "1000000000 power_on\n1000000010 power_off\n",
        )
        .expect("written");
    }

    let trace = Trace::read_boinc(&logs).expect("sound");
    assert_eq!(
        trace
            .hosts
            .iter()
            .map(|host| host.name.as_str())
            .collect::<Vec<_>>(),
        ["a", "pc1.lab.org", "pc2", "logs", "pc3", "pc4.lab.org"]
    );
}

/// An export with these events, one on a line.
fn export(events: &str) -> String {
    format!(
        "{{\"buckets\":{{\"aw-watcher-afk_pc\":{{\"type\":\"afkstatus\",\"hostname\":\"pc\",\"events\":[\n{events}\n]}},\
         \"aw-watcher-window_pc\":{{\"type\":\"currentwindow\",\"events\":[{{}}]}}}}}}"
    )
}

fn event(at: &str, duration: &str, status: &str) -> String {
    format!(
        "{{\"timestamp\":\"{at}\",\"duration\":{duration},\"data\":{{\"status\":\"{status}\"}}}}"
    )
}

#[test]
fn an_afk_export_says_when_the_owner_was_there() {
    let events = [
        event("2023-11-14T22:15:00+00:00", "60", "not-afk"),
        event("2023-11-14T23:14:20.500000+01:00", "20.75", "afk"),
        event("2023-11-14T22:13:20Z", "60.501", "not-afk"),
        event("2023-11-14T22:13:20Z", "0", "afk"),
    ];
    let (_dir, path) = file("aw.json", &export(&events.join(",\n")));
    let trace = Trace::read_activitywatch(&path).expect("sound");
    assert_eq!(
        (trace.origin_s, trace.hosts[0].name.as_str()),
        (1_700_000_000, "pc")
    );

    let found: Vec<_> = trace.hosts[0]
        .noted()
        .map(|(s, note)| (s.start_s, s.end_s, s.cpu, note.owner_active))
        .collect();

    // The overlap of a thousandth of a second is the watcher's.
    let expected = [
        (0.0, 60.501, 0.0, Some(true)),
        (60.501, 81.25, 1.0, Some(false)),
        (100.0, 160.0, 0.0, Some(true)),
    ];
    assert_eq!(found, expected);

    let at = "2023-11-14T22:13:20Z";
    let bad = |events: [String; 2]| export(&events.join(",\n"));
    let cases = [
        (
            bad([
                event(at, "60", "afk"),
                event("2023-11-14T22:13:50Z", "60", "afk"),
            ]),
            3,
            "overlap",
        ),
        (
            bad([event(at, "60", "afk"), event("yesterday", "60", "afk")]),
            3,
            "\"yesterday\" is no date",
        ),
        (
            bad([
                event(at, "60", "afk"),
                event("2024-11-14T22:13:50Z", "-1", "afk"),
            ]),
            3,
            "duration is -1",
        ),
        (
            bad([
                event(at, "60", "afk"),
                event("2024-11-14T22:13:50Z", "1e20", "afk"),
            ]),
            3,
            "too large",
        ),
        (
            bad([
                event(at, "60", "afk"),
                event("2287-11-14T22:13:50Z", "1", "afk"),
            ]),
            3,
            "2287-11-14T22:13:50Z and 1 s, which is too large",
        ),
        (
            bad([
                event(at, "60", "afk"),
                event("2024-11-14T22:13:50Z", "1", "maybe"),
            ]),
            3,
            "status is \"maybe\"",
        ),
        (
            bad([
                event(at, "60", "afk"),
                event("2024-11-14T22:13:50Z", "null", "afk"),
            ]),
            3,
            "not an export",
        ),
        (export(""), 1, "nothing is said"),
        ("{\"buckets\":\n{".to_owned(), 2, "not an export"),
    ];
    for (text, line, reason) in cases {
        refused(Trace::read_activitywatch, &[(&text, line, reason)]);
    }
}

#[test]
fn simgrid_gets_a_platform_and_two_profiles_for_each_host() {
    let hosts = vec![
        TracedHost::new(
            "a & b",
            2_400.0,
            vec![
                segment(0.0, 10.0, true, 1.0),
                segment(10.0, 20.0, true, 0.5),
            ],
        ),
        TracedHost::new(
            "c",
            600.5,
            vec![
                segment(5.0, 7.25, true, 0.001),
                segment(7.25, 20.0, false, 0.0),
            ],
        ),
    ];

    let dir = tempfile::tempdir().expect("a directory");
    Trace {
        origin_s: 1_700_000_000,
        hosts,
    }
    .write_simgrid(dir.path())
    .expect("written");

    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("there");
    let platform = read("platform.xml");
    let line = "<host id=\"a &amp; b\" speed=\"2400Mf\" state_file=\"host0.state\" speed_file=\"host0.speed\"/>";
    assert!(platform.contains(line), "{platform}");

    let state = read("host0.state");
    let speed = read("host0.speed");
    assert_eq!(
        (state.as_str(), speed.as_str()),
        ("0 1\n20 0\n", "0 1\n10 0.5\n20 0.000000001\n")
    );

    let state = read("host1.state");
    let speed = read("host1.speed");

    // A speed of nothing at all is none that SimGrid can suspend a task with.
    assert_eq!(
        (state.as_str(), speed.as_str()),
        (
            "0 0\n5 1\n7.25 0\n20 0\n",
            "0 0.000000001\n20 0.000000001\n"
        )
    );
}

#[test]
fn gaps_are_down_in_formats_that_have_none() {
    let hosts = vec![TracedHost::new(
        "a",
        1.0,
        vec![
            segment(5.0, 6.0, true, 1.0),
            segment(6.0, 6.0, false, 0.0),
            segment(6.0, 7.0, true, 1.0),
            segment(8.0, 8.0, false, 0.0),
        ],
    )];
    let trace = Trace {
        hosts,
        ..Trace::default()
    };
    let dir = tempfile::tempdir().expect("a directory");
    trace.write(dir.path()).expect("written");

    let down = |start_s, end_s| segment(start_s, end_s, false, 0.0);
    let read = Trace::read(dir.path()).expect("sound");
    assert_eq!(
        read.hosts[0].segments,
        [
            down(0.0, 5.0),
            segment(5.0, 6.0, true, 1.0),
            segment(6.0, 7.0, true, 1.0),
            down(7.0, 8.0)
        ],
        "outages of no length are lost"
    );
}

#[test]
fn a_part_of_a_trace_is_cut_where_it_is_asked_for() {
    let mut host = TracedHost::new(
        "a",
        1.0,
        vec![
            segment(0.0, 10.0, true, 1.0),
            segment(10.0, 30.0, true, 0.5),
        ],
    );
    host.notes = vec![Note {
        owner_active: Some(true),
        reason: None,
    }];

    let cut = Trace {
        hosts: vec![host],
        ..Trace::default()
    }
    .between(4.0, 12.0);
    assert_eq!(
        cut.hosts[0].segments,
        [
            segment(4.0, 10.0, true, 1.0),
            segment(10.0, 12.0, true, 0.5)
        ]
    );

    assert_eq!(cut.hosts[0].notes[0].owner_active, Some(true));
}

#[test]
fn a_part_of_a_recorded_trace_begins_in_its_own_first_second() {
    let segments = vec![
        segment(0.0, 999.25, true, 1.0),
        segment(999.25, 12_345.000_001, false, 0.0),
        segment(12_345.000_001, 20_000.0, true, 1.0),
    ];
    let trace = Trace {
        origin_s: 1_000_000_000,
        hosts: vec![TracedHost::new("a", 1_500.0, segments)],
    };

    let cut = trace.between(12_000.5, 18_000.5);
    assert_eq!(cut.origin_s, 1_000_012_000);
    assert_eq!(
        cut.hosts[0].segments,
        [
            segment(0.5, 345.000_001, false, 0.0),
            segment(345.000_001, 6_000.5, true, 1.0)
        ]
    );

    // The host gives its power from 345 s on: nothing in the first step of 300 s, most of the second.
    let power = stats(&cut).power_mean.expect("it is long enough");
    assert!((power - (20.0 - 1.15) / 20.0).abs() < 0.001, "{power}");
    assert_eq!(trace.between(-5.0, 500.0).origin_s, 1_000_000_000);
}

/// A stretch: the gap before it and its length in microseconds, up, part of the processor, owner,
/// reason.
type Piece = (u64, u64, bool, f64, Option<bool>, Option<usize>);
/// What a recorder may have seen: of each host its clock rate and its stretches.
type Seen = Vec<(f64, Vec<Piece>)>;

fn seen() -> impl Strategy<Value = (i64, Seen)> {
    let gap = prop_oneof![3 => Just(0_u64), 1 => 1..10_000_000_000_u64];
    let piece = (
        gap,
        0..100_000_000_000_u64,
        any::<bool>(),
        0.0..=1.0_f64,
        any::<Option<bool>>(),
        any::<Option<usize>>(),
    );
    let host = (0.001..5e5_f64, prop::collection::vec(piece, 1..8));
    (
        prop_oneof![Just(0_i64), 1_000_000_000..2_000_000_000_i64],
        prop::collection::vec(host, 1..5),
    )
}

const REASONS: [&str; 5] = ["in-use", "on-battery", "8000", "2", "a word and another"];

fn made(origin_s: i64, seen: &Seen) -> Trace {
    let host = |(n, (clock_mhz, pieces)): (usize, &(f64, Vec<Piece>))| {
        let mut host = TracedHost::new(format!("pc-{n}"), *clock_mhz, Vec::new());
        // The earliest segment begins with the trace.
        let mut at_us = 0_u64;
        for (k, &(gap_us, length_us, up, cpu, owner_active, why)) in pieces.iter().enumerate() {
            let start_us = at_us + if (n, k) == (0, 0) { 0 } else { gap_us };
            at_us = start_us + length_us;
            let cpu = if up { cpu } else { 0.0 };
            host.segments
                .push(segment(start_us as f64 / 1e6, at_us as f64 / 1e6, up, cpu));
            let reason = why.map(|why| Arc::from(REASONS[why % REASONS.len()]));
            host.notes.push(Note {
                owner_active,
                reason,
            });
        }

        if host.notes.iter().all(|note| *note == Note::default()) {
            host.notes.clear();
        }

        host
    };
    Trace {
        origin_s,
        hosts: seen.iter().enumerate().map(host).collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_archives_tables_lose_nothing((origin_s, seen) in seen()) {
        let trace = made(origin_s, &seen);
        let dir = tempfile::tempdir().expect("a directory");
        trace.write_fta(dir.path()).expect("written");
        prop_assert_eq!(Trace::read_fta(dir.path()).expect("read"), trace);
    }

    #[test]
    fn avt_keeps_every_interval_to_the_second((origin_s, seen) in seen()) {
        let trace = made(origin_s, &seen);
        let dir = tempfile::tempdir().expect("a directory");
        let first = dir.path().join("1");
        let second = dir.path().join("2");

        trace.write_avt(&first).expect("written");
        let read = match Trace::read_avt(&first) {
            Ok(read) => read,
            Err(why) => return Err(TestCaseError::fail(why.to_string())),
        };
        read.write_avt(&second).expect("written");
        prop_assert_eq!(std::fs::read_to_string(&first).unwrap(), std::fs::read_to_string(&second).unwrap());

        for (ours, theirs) in trace.hosts.iter().zip(&read.hosts) {
            let up = |host: &TracedHost| host.segments.iter().filter(|s| s.up).map(Segment::length_s).sum::<f64>();
            prop_assert!((up(ours) - up(theirs)).abs() <= ours.segments.len() as f64 + 1e-6);
        }
    }

    #[test]
    fn the_exchange_format_loses_only_unsupported_fields((origin_s, seen) in seen()) {
        let trace = made(origin_s, &seen);
        let dir = tempfile::tempdir().expect("a directory");
        trace.write(dir.path()).expect("written");
        prop_assume!(trace.end_s() > 0.0);
        let read = Trace::read(dir.path()).expect("read");
        for (ours, theirs) in trace.hosts.iter().zip(&read.hosts) {
            prop_assert_eq!((&ours.name, ours.clock_mhz), (&theirs.name, theirs.clock_mhz));
            let known = |segment: &&Segment| segment.length_s() > 0.0 && (segment.up || segment.cpu > 0.0);
            let (ours, theirs): (Vec<_>, Vec<_>) =
                (ours.segments.iter().filter(known).collect(), theirs.segments.iter().filter(known).collect());
            prop_assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn readers_answer_any_text_with_a_trace_or_a_reason(text in "[-0-9a-z#\t\n .:{}\"eE]{0,200}") {
        let (_dir, path) = file("f", &text);
        for read in [Trace::read_avt, Trace::read_boinc, Trace::read_activitywatch, Trace::read_fta] {
            if let Ok(trace) = read(&path) {
                for host in &trace.hosts {
                    prop_assert!(host.segments.windows(2).all(|pair| pair[0].end_s <= pair[1].start_s));
                }
            }
        }
    }
}
