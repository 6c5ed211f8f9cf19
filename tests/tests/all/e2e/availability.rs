//! How hosts are available is recorded, kept, exported, and replayed in the simulator.

use std::fs;
use std::time::Duration;

use serde_json::Value;
use tests::{Grid, eventually};

/// Looks so often that a test sees what takes minutes else.
const LOOKS: &str = "look_every = \"200ms\"\n";

/// Why a paused host does nothing, as its worker notes it.
const WORD: &[u8] = b"paused-by-owner";

/// A line of availability.csv.
#[derive(Debug, Clone, PartialEq)]
struct Segment {
    start_s: f64,
    end_s: f64,
    up: bool,
    cpu: f64,
}

/// What the master has recorded of all hosts, as the admin exports it into a directory of this
/// name; nothing where it has nothing yet.
fn exported(grid: &Grid, name: &str) -> Vec<Segment> {
    let dir = grid.dir().join(name);
    let args = ["trace", "export", "--force", "--format", "csv", "--out"].map(Into::into);
    let done = grid.admin(args.into_iter().chain([dir.clone().into_os_string()]));

    if done.code != 0 {
        assert!(done.stderr.contains("nothing is recorded"), "{done:?}");
        return Vec::new();
    }

    let text = fs::read_to_string(dir.join("availability.csv")).expect("was written");
    let segment = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse().expect("a number");
        Segment {
            start_s: number(1),
            end_s: number(2),
            up: fields[3] == "1",
            cpu: number(4),
        }
    };
    text.lines().skip(1).map(segment).collect()
}

/// Waits until the record has these states one after the other, whatever is between them.
fn until_recorded(grid: &Grid, what: &str, states: &[fn(&Segment) -> bool]) -> Vec<Segment> {
    eventually(what, Duration::from_secs(90), || {
        let segments = exported(grid, "look");
        let mut rest = segments.iter();
        states
            .iter()
            .all(|state| rest.any(state))
            .then(|| segments.clone())
    })
}

fn usable(segment: &Segment) -> bool {
    segment.up && segment.cpu >= 0.01
}

fn suspended(segment: &Segment) -> bool {
    segment.up && segment.cpu == 0.0
}

fn down(segment: &Segment) -> bool {
    !segment.up
}

#[test]
fn a_pause_and_a_dead_worker_are_in_the_record_and_the_record_drives_the_simulator() {
    let mut grid = Grid::start();
    grid.worker("h1").config(LOOKS).start();
    until_recorded(&grid, "the host is recorded", &[usable]);

    let switch = grid.state("h1").join("worker").join("pause");
    fs::write(&switch, "").expect("a file can be written");
    until_recorded(&grid, "the pause is recorded", &[usable, suspended]);
    fs::remove_file(&switch).expect("is there");
    until_recorded(
        &grid,
        "the end of the pause is recorded",
        &[usable, suspended, usable],
    );
    grid.kill_worker("h1");

    grid.worker("h1").config(LOOKS).start();
    let segments = until_recorded(
        &grid,
        "the host was down in between",
        &[usable, suspended, usable, down, usable],
    );
    assert!(
        segments
            .windows(2)
            .all(|pair| pair[0].end_s == pair[1].start_s),
        "{segments:?}"
    );

    assert_eq!(segments[0].start_s, 0.0);

    let refused = grid
        .deskgrid(["trace", "export", "--format", "csv", "--out", "no"])
        .expect_code(6);
    assert!(refused.stderr.contains("admin"), "{refused:?}");
    simulated(&grid, &segments);
}

/// Files that differ from those of the trace in `t` stay as they are, unless `--force` is given.
fn nothing_is_overwritten(grid: &Grid) {
    let exports = [
        (
            "trace export --from t --format avt --out kept",
            "availability.avt",
        ),
        ("trace import --format fta fta --out kept", "hosts.csv"),
        ("trace stats t --svg kept", "hours.svg"),
        (
            "simulate --platform homogeneous --policy FCFS --tasks 2 --size 5m --runs 1 --out kept",
            "summary.csv",
        ),
    ];
    for (line, name) in exports {
        let file = grid.file(&format!("kept/{name}"), "mine");
        let words: Vec<&str> = line.split(' ').collect();
        let tests::Output { stdout, stderr, .. } = grid.deskgrid(words.clone()).expect_code(1);
        let said = format!("{name} is there already and differs");
        assert!(
            stderr.contains(&said) && stderr.contains("--force"),
            "{stderr}"
        );
        let answers = ["simulate", "trace stats"];
        let answers = answers.iter().any(|first| line.starts_with(first));
        assert_eq!(
            !stdout.is_empty(),
            answers,
            "what took its time is told: {stdout}"
        );
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "mine");

        let forced = [&words[..], &["--force"]].concat();
        grid.deskgrid(forced).expect_code(0);
        assert_ne!(fs::read_to_string(&file).expect("it is there"), "mine");
        grid.deskgrid(words).expect_code(0);
    }
    let names = fs::read_dir(grid.dir().join("kept")).expect("it is there");
    let hidden = |name: &std::ffi::OsString| name.to_string_lossy().starts_with('.');
    let names = names.map(|entry| entry.expect("an entry").file_name());
    assert!(!names.into_iter().any(|name| hidden(&name)));
}

/// The record as it is drives a simulation, and in slow motion one in which tasks are done.
fn simulated(grid: &Grid, segments: &[Segment]) {
    exported(grid, "record");
    let run = |dir: &str, code| {
        let asked = [
            "--output",
            "json",
            "simulate",
            "--trace",
            dir,
            "--policy",
            "FCFS,OPTIMAL",
            "--start",
            "0",
            "--tasks",
            "3",
        ];
        let answer = grid
            .deskgrid(asked.into_iter().chain(["--size", "1s"]))
            .expect_code(code)
            .json();

        answer["rows"].as_array().expect("rows").clone()
    };
    // In a record of seconds nothing can be done.
    assert_eq!(run("record", 1).len(), 2);

    let hosts = fs::read_to_string(grid.dir().join("record/hosts.csv")).expect("was written");
    grid.file("slow/hosts.csv", hosts);

    let mut text = "host,start_s,end_s,host_available,cpu_fraction\n".to_owned();
    for Segment {
        start_s,
        end_s,
        up,
        cpu,
    } in segments
    {
        let start_s = start_s * 1_000.0;
        let end_s = end_s * 1_000.0;
        text += &format!("h1,{start_s},{end_s},{},{cpu}\n", u8::from(*up));
    }
    grid.file("slow/availability.csv", text);

    let rows = run("slow", 0);
    assert!(
        rows.iter().all(|row| row["finished"] == Value::Bool(true)),
        "{rows:?}"
    );

    // Three tasks of a second each, with 40 s before each of them.
    let makespan_s = rows[0]["makespan_s"].as_f64().expect("a number");
    assert!(makespan_s > 3.0 * 40.0, "{makespan_s}");
}

#[test]
fn availability_is_recorded_after_an_absence_of_the_master() {
    let mut grid = Grid::start();
    grid.worker("h1").config(LOOKS).start();

    let before = until_recorded(&grid, "the host is recorded", &[usable])
        .last()
        .expect("a segment")
        .end_s;
    grid.kill_master();

    let spool = grid.state("h1").join("worker").join("availability");
    let switch = grid.state("h1").join("worker").join("pause");
    fs::write(&switch, "").expect("a file can be written");
    eventually(
        "the pause is kept on the worker",
        Duration::from_secs(60),
        || {
            let kept = fs::read(&spool).unwrap_or_default();
            kept.windows(WORD.len())
                .any(|bytes| bytes == WORD)
                .then_some(())
        },
    );

    fs::remove_file(&switch).expect("is there");
    // The worker dies, too, before it has told anybody.
    grid.kill_worker("h1");
    grid.start_master();
    grid.worker("h1").config(LOOKS).start();

    let after = until_recorded(&grid, "the pause is recorded", &[suspended]);
    let pause = after
        .iter()
        .find(|segment| suspended(segment))
        .expect("was found");
    assert!(pause.start_s >= before, "{pause:?} after {before}");
}

#[test]
fn a_record_survives_the_ways_of_other_formats() {
    let mut grid = Grid::start();
    grid.kill_master();
    grid.file("t/hosts.csv", "host,clock_mhz\na,3000\nb,1500\n");

    let lines = "a,0,100,1,0.5\na,100,250,0,0\na,250,400,1,1\nb,0,400,1,1\n";
    grid.file(
        "t/availability.csv",
        format!("host,start_s,end_s,host_available,cpu_fraction\n{lines}"),
    );
    for (format, files) in [
        (
            "fta",
            &["event_trace.tab", "event_state.tab", "node.tab"][..],
        ),
        ("avt", &["availability.avt"]),
        ("simgrid", &["platform.xml", "host0.state", "host1.speed"]),
        ("parquet", &["availability.parquet"]),
    ] {
        let done = grid.json([
            "trace", "export", "--from", "t", "--format", format, "--out", format,
        ]);
        assert_eq!(
            (&done["hosts"], &done["segments"]),
            (&2.into(), &4.into()),
            "{done}"
        );
        for file in files {
            assert!(
                grid.dir().join(format).join(file).is_file(),
                "{format}/{file}"
            );
        }
    }

    grid.deskgrid([
        "trace", "import", "--format", "fta", "fta", "--out", "again",
    ])
    .expect_code(0);

    let read = |path: &str| fs::read_to_string(grid.dir().join(path)).expect("was written");
    assert_eq!(
        read("again/hosts.csv"),
        "host,clock_mhz\na,3000.000000\nb,1500.000000\n"
    );

    let stats = |path: &str| grid.json(["trace", "stats", path]);
    assert_eq!(stats("again"), stats("t"));
    nothing_is_overwritten(&grid);
    grid.deskgrid([
        "trace",
        "import",
        "--format",
        "avt",
        "avt/availability.avt",
        "--out",
        "up",
    ])
    .expect_code(0);

    assert_eq!(
        stats("up")["availability"]["mean_s"],
        stats("t")["availability"]["mean_s"]
    );

    let drawn = grid.json(["trace", "stats", "t", "--svg", "figures"]);
    assert_eq!(drawn["by_hour"].as_array().map(Vec::len), Some(24));
    for figure in ["availability", "unavailability", "failures", "hours"] {
        assert!(
            read(&format!("figures/{figure}.svg")).starts_with("<svg"),
            "{figure}"
        );
    }

    let wrong = grid
        .deskgrid([
            "trace",
            "import",
            "--format",
            "fta",
            "t/hosts.csv",
            "--out",
            "x",
        ])
        .expect_code(2);
    for word in ["hosts.csv, line 2", "1 fields", "try:"] {
        assert!(wrong.stderr.contains(word), "`{word}` in {}", wrong.stderr);
    }

    let wrong = grid
        .deskgrid(["trace", "stats", "t", "--since", "2h"])
        .expect_code(2);
    assert!(
        wrong.stderr.contains("nobody knows when"),
        "{}",
        wrong.stderr
    );
}
