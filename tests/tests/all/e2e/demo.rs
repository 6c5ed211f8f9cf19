//! The five-minute tour, in half a minute.

use std::process::Command;
use std::time::Duration;

use tests::{Started, alive_with, program};

use super::all_gone;

#[test]
fn the_demo_needs_nothing_but_the_program_and_leaves_a_picture_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let temp = dir.path().join("tmp");
    let home = dir.path().join("home");
    for new in [&temp, &home] {
        std::fs::create_dir(new).expect("a directory can be made");
    }

    // The program alone: the demo needs nothing that lies beside it.
    let alone = dir.path().join("deskgrid");
    std::fs::copy(program("deskgrid"), &alone).expect("the program can be copied");
    let mut demo = Command::new(&alone);
    demo.args([
        "demo",
        "--hosts",
        "3",
        "--tasks",
        "60",
        "--width-px",
        "192",
        "--height-px",
        "120",
    ]);

    demo.current_dir(dir.path())
        .env("TMPDIR", &temp)
        .env("HOME", &home)
        .env_remove("XDG_STATE_HOME");
    demo.env_remove("DESKGRID_DIR")
        .env_remove("DESKGRID_OUTPUT");

    let output = Started::new(&mut demo).finish().expect_code(0);

    let mark = dir.path().to_string_lossy().into_owned();
    all_gone(&mark, Duration::from_secs(30));
    assert_eq!(alive_with(&mark), []);

    let picture = std::fs::read(dir.path().join("demo.png")).expect("the demo leaves a picture");
    assert!(
        picture.starts_with(b"\x89PNG\r\n\x1a\n") && picture.len() > 10_000,
        "{} bytes",
        picture.len()
    );
    for empty in [&temp, &home] {
        let left: Vec<_> = walkdir::WalkDir::new(empty)
            .min_depth(1)
            .into_iter()
            .flatten()
            .collect();
        assert!(left.is_empty(), "the demo left {left:?}");
    }

    let mut names: Vec<_> = std::fs::read_dir(dir.path())
        .expect("is there")
        .flatten()
        .map(|e| e.file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["demo.png", "deskgrid", "home", "tmp"]);

    let summary = output.stdout.to_lowercase() + &output.stderr.to_lowercase();
    assert!(summary.contains("makespan"), "{output:?}");
    assert!(
        summary.contains("duplicate") || summary.contains("requeue"),
        "the disturbance is explained: {output:?}"
    );
}
