//! Traces in directories: what is written is read, and what cannot be is refused with its line.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use simulator::trace::{Segment, Trace, TraceError, TracedHost};

/// Where a shared day lies: beside the project, or where `DESKGRID_SHARED` says.
pub(crate) fn shared(name: &str) -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let shared = std::env::var_os("DESKGRID_SHARED").map_or_else(beside, PathBuf::from);
    shared.join("data/availability").join(name)
}

/// A shared day.
pub(crate) fn shared_day(name: &str) -> Option<Trace> {
    let dir = shared(name);
    if !dir.is_dir() {
        eprintln!("skipped: no {}", dir.display());
        return None;
    }
    Some(Trace::read(&dir).expect("a shared day"))
}

fn in_a_directory(hosts: &str, availability: &str) -> Result<Trace, TraceError> {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("hosts.csv"), hosts).expect("written");
    std::fs::write(dir.path().join("availability.csv"), availability).expect("written");
    Trace::read(dir.path())
}

const HOSTS: &str = "host,clock_mhz\na,1500\nb,600.5\n";
const HEADER: &str = "host,start_s,end_s,host_available,cpu_fraction\n";
const SOUND: &str = "a,0,10,1,0.5\nb,0,10,0,0\na,10,20,0,0\n";

/// The file, the line and the whole message.
fn refusal(hosts: &str, availability: &str) -> (String, usize, String) {
    let error = in_a_directory(hosts, availability).expect_err("refused");
    let message = error.to_string();
    let TraceError::Flawed { file, line, .. } = error else {
        panic!("{message}")
    };

    (
        file.file_name()
            .expect("a file")
            .to_string_lossy()
            .into_owned(),
        line,
        message,
    )
}

#[test]
fn the_hosts_of_a_directory_keep_their_order_and_their_segments() {
    let trace = in_a_directory(HOSTS, &format!("{HEADER}{SOUND}")).expect("sound");
    let names: Vec<_> = trace
        .hosts
        .iter()
        .map(|host| (host.name.as_str(), host.clock_mhz))
        .collect();
    assert_eq!(names, [("a", 1_500.0), ("b", 600.5)]);
    assert_eq!(
        trace.hosts[0].segments[1],
        Segment {
            start_s: 10.0,
            end_s: 20.0,
            up: false,
            cpu: 0.0
        }
    );

    assert_eq!(trace.end_s(), 20.0);
}

#[test]
fn columns_are_known_by_name_and_others_are_left_alone() {
    let swapped = "end_s,host,note,start_s,cpu_fraction,host_available\r\n10,a,x,0,0.5,1\r\n";
    let trace = in_a_directory("clock_mhz,host\n900,a\n", swapped).expect("sound");
    assert_eq!(
        trace.hosts[0].segments,
        [Segment {
            start_s: 0.0,
            end_s: 10.0,
            up: true,
            cpu: 0.5
        }]
    );
}

#[test]
fn segments_that_cannot_be_are_refused_with_line_and_reason() {
    for (lines, line, reason) in [
        (
            "a,0,10,1,1\na,11,20,1,1\n",
            3,
            "a gap: nothing is said about host \"a\" from 10 s to 11 s",
        ),
        ("a,5,10,1,1\n", 2, "from 0 s to 5 s"),
        ("a,0,10,1,1\na,9,20,1,1\n", 3, "overlap"),
        ("b,0,10,1,1\na,10,20,1,1\na,0,10,1,1\n", 3, "a gap"),
        ("a,0,10,1,1\na,10,10,1,1\n", 3, "not after its start"),
        ("a,10,0,1,1\n", 2, "not after its start"),
        ("a,-1,10,1,1\n", 2, "start_s is -1"),
        ("a,0,10,1,1.01\n", 2, "cpu_fraction is 1.01"),
        ("a,0,10,1,-0.1\n", 2, "cpu_fraction is -0.1"),
        ("a,0,10,yes,1\n", 2, "host_available is \"yes\""),
        ("a,0,10,1,NaN\n", 2, "cpu_fraction is \"NaN\""),
        ("a,0,inf,1,1\n", 2, "end_s is \"inf\""),
        (
            "a,0,10,1,1\na,10,1e300,1,1\n",
            3,
            "end_s is 1e300, which is too large",
        ),
        ("a,0,1e15,1,1\n", 2, "end_s is 1e15, which is too large"),
        ("a,zero,10,1,1\n", 2, "start_s is \"zero\""),
        (
            "a,0,10,1,1\n\nc,0,10,1,1\n",
            4,
            "host \"c\" is not in hosts.csv",
        ),
        ("a,0,10,1\n", 2, "4 fields where the header names 5"),
        ("a,0,10,1,1,9\n", 2, "6 fields"),
        ("\"a\",0,10,1,1\n", 2, "quotation marks"),
    ] {
        let (file, found, message) = refusal(HOSTS, &format!("{HEADER}{lines}"));
        assert_eq!(
            (file.as_str(), found),
            ("availability.csv", line),
            "{message}"
        );
        assert!(message.contains(reason), "{message} should say {reason}");
    }

    let (_, line, message) = refusal(HOSTS, "host,start_s,end_s,cpu_fraction\na,0,1,1\n");
    assert!(
        line == 1 && message.contains("no column `host_available`"),
        "{message}"
    );

    let (_, line, message) = refusal(
        HOSTS,
        "host,start_s,end_s,host_available,cpu_fraction,host\n",
    );
    assert!(
        line == 1 && message.contains("`host` is named twice"),
        "{message}"
    );
}

#[test]
fn hosts_that_cannot_be_are_refused_with_line_and_reason() {
    for (hosts, line, reason) in [
        (
            "host,clock_mhz\na,1500\na,900\n",
            3,
            "a second time; line 2 has it already",
        ),
        ("host,clock_mhz\na,0\n", 2, "between 0.001 and 500000"),
        ("host,clock_mhz\na,-3\n", 2, "between 0.001 and 500000"),
        ("host,clock_mhz\na,2400000\n", 2, "in another unit"),
        (
            "host,clock_mhz\na,500000\nb,3000000000\n",
            3,
            "the clock of host \"b\" is 3000000000 MHz",
        ),
        ("host,clock_mhz\na,inf\n", 2, "clock_mhz is \"inf\""),
        ("host,clock_mhz\n,100\n", 2, "no name"),
        ("host,clock_mhz\n", 1, "no hosts"),
        ("host,speed\na,1\n", 1, "no column `clock_mhz`"),
        ("", 1, "no column `host`"),
        (
            "host,clock_mhz\na,1500\nb,1\nlast,700\n",
            4,
            "host \"last\" has no line in availability.csv",
        ),
    ] {
        let (file, found, message) = refusal(hosts, &format!("{HEADER}{SOUND}"));
        assert_eq!((file.as_str(), found), ("hosts.csv", line), "{message}");
        assert!(message.contains(reason), "{message} should say {reason}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let message = Trace::read(dir.path())
        .expect_err("nothing there")
        .to_string();
    assert!(message.contains("hosts.csv"), "{message}");
}

#[test]
fn a_name_that_the_format_cannot_hold_is_not_written() {
    let dir = tempfile::tempdir().expect("a directory");
    for name in ["", "a,b", "a\"", " a", "a\nb"] {
        let host = TracedHost::new(name, 1.0, Vec::new());
        let error = Trace {
            hosts: vec![host],
            ..Trace::default()
        }
        .write(dir.path())
        .expect_err("refused");
        assert!(matches!(error, TraceError::Unwritable(_)), "{error}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 0);
}

#[test]
fn the_shared_days_are_written_byte_for_byte() {
    for name in ["default-sdsc-0", "default-gimps-0"] {
        let Some(day) = shared_day(name) else { return };
        let dir = tempfile::tempdir().expect("a directory");
        day.write(dir.path()).expect("written");
        for file in ["hosts.csv", "availability.csv"] {
            let bytes = |dir: &Path| std::fs::read(dir.join(file)).expect("there");
            assert!(bytes(dir.path()) == bytes(&shared(name)), "{name}/{file}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_written_trace_is_read_back(hosts in prop::collection::vec((0.001..5e5_f64, prop::collection::vec((1e-7..1e6_f64, any::<bool>(), 0.0..=1.0_f64), 1..8)), 1..5)) {
        let segments = hosts.iter().map(|(_, pieces)| {
            let mut at_s = 0.0;
            pieces.iter().map(|(length_s, up, cpu)| {
                let start_s = at_s;
                        at_s += length_s;
                Segment { start_s, end_s: at_s, up: *up, cpu: *cpu }
            }).filter(|segment| segment.end_s > segment.start_s).collect()
        });
        let trace = Trace::from_parts(hosts.iter().map(|host| host.0).collect(), segments.collect());
        let dir = tempfile::tempdir().expect("a directory");
        trace.write(dir.path()).expect("written");
        prop_assert_eq!(Trace::read(dir.path()).expect("read"), trace);
    }
}
