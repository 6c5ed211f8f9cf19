//! Our simulated world beside SimGrid's, on exported profiles. Only where `DESKGRID_SIMGRID` is
//! set: it takes python3-simgrid, which it installs from Debian where it may.

use std::path::Path;
use std::process::Command;

use simulator::availability::Model;
use simulator::platform::Platform;
use simulator::world::{PreparedTrace, Run, Simulator};

/// Debian's own Python, whatever else there is.
const PYTHON: &str = "/usr/bin/python3";

/// Whether SimGrid is there, or could be had.
fn simgrid() -> bool {
    if std::env::var_os("DESKGRID_SIMGRID").is_none() {
        println!("skipped: DESKGRID_SIMGRID is not set");
        return false;
    }

    let there = || {
        Command::new(PYTHON)
            .args(["-c", "import simgrid"])
            .output()
            .is_ok_and(|done| done.status.success())
    };
    if there() {
        return true;
    }

    println!("installing python3-simgrid");
    let installed = Command::new("apt-get")
        .args(["install", "-qq", "-y", "python3-simgrid"])
        .status();
    assert!(
        installed.is_ok_and(|status| status.success()) && there(),
        "apt-get install python3-simgrid"
    );

    true
}

/// When each task was done, in SimGrid.
fn in_simgrid(dir: &Path, start_s: f64, tasks: u32, flops: f64) -> Vec<f64> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simgrid/fcfs.py");
    let arguments = [start_s.to_string(), tasks.to_string(), flops.to_string()];
    let done = Command::new(PYTHON)
        .arg(script)
        .arg(dir)
        .args(arguments)
        .output()
        .expect("Python runs");
    let text = String::from_utf8_lossy(&done.stdout);
    let times: Vec<f64> = text.lines().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(
        times.len(),
        tasks as usize,
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );

    times
}

#[test]
fn fcfs_takes_as_long_as_in_simgrid_on_the_same_profiles() {
    if !simgrid() {
        return;
    }

    for (model, seed, hosts, tasks, work_s) in [
        ("default", 1, 40, 60, 300.0),
        ("default", 2, 25, 80, 900.0),
        ("heavy-suspension", 3, 40, 60, 300.0),
        ("heavy-failure", 4, 30, 90, 300.0),
    ] {
        let clocks = Platform::named("sdsc")
            .expect("a platform")
            .clocks_mhz(seed, hosts);
        let trace = Model::named(model).expect("a model").trace(seed, 0, clocks);
        let world = PreparedTrace::new(&trace).expect("clock rates that hosts have");
        let start_s = 14_400.0;

        // With a task for each host at least, hosts that are ready together need no order.
        assert!(world.ready_hosts(start_s) <= tasks as usize);
        let ours = Simulator::default()
            .run(&world, &Run::new(start_s, tasks, work_s, "FCFS"))
            .expect("taken");
        let ours_s = ours.makespan_s.expect("the day is long enough");
        let dir = tempfile::tempdir().expect("a directory");
        trace.write_simgrid(dir.path()).expect("written");

        let theirs = in_simgrid(dir.path(), start_s, tasks, work_s * 1_500e6);
        let theirs_s = theirs.iter().copied().fold(0.0, f64::max);
        println!("{model}: {ours_s} s here, {theirs_s} s in SimGrid");
        assert!(
            (ours_s / theirs_s - 1.0).abs() < 1e-6,
            "{model}: {ours_s} against {theirs_s}"
        );

        for (ours, theirs) in ours.completions_s.iter().zip(&theirs) {
            assert!(
                (ours - theirs).abs() < 1e-6 * theirs_s,
                "{model}: {ours} against {theirs}"
            );
        }
    }
}
