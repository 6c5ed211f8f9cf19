//! A backup with many files of content is put in place: how often the disk is synced for it, and
//! whether all is there after the power failed.

use std::ffi::OsString;
use std::fs;

use tests::Grid;

use super::disk::Disk;
use super::{have, worker};

/// The files of content in the backup.
const FILES: u64 = 40;

/// A grid, and a backup of its master: a directory with so many `FILES`.
fn backed_up() -> (Grid, String) {
    let mut grid = Grid::start();
    worker(&mut grid, "h1", 2).start();
    let array = format!("1-{FILES}");
    grid.submit([
        "--array",
        &array,
        "--output-file",
        "out",
        "--wait",
        "--",
        "sh",
        "-c",
        "seq $DESKGRID_TASK_ID 3000 > out",
    ]);

    let to = grid.dir().join("backup").to_string_lossy().into_owned();
    let told = grid
        .admin(["--output", "json", "master", "backup", &to])
        .expect_code(0)
        .json();
    assert_eq!(told["content_files"].as_u64(), Some(FILES), "{told}");
    (grid, to)
}

#[test]
fn a_restore_syncs_the_disk_and_not_each_file() {
    if !have("strace", "strace") {
        return;
    }
    let (mut grid, backup) = backed_up();
    let log = grid.dir().join("trace");
    let words = ["strace", "-f", "-q", "-e", "signal=none"];
    let mut words: Vec<OsString> = words.map(Into::into).into();
    words.extend(["-e", "trace=fsync,fdatasync,syncfs", "-o"].map(OsString::from));
    words.push(log.clone().into());
    grid.wrap("elsewhere", words);
    grid.as_user("elsewhere", ["master", "restore", &backup])
        .expect_code(0);

    let text = fs::read_to_string(&log).expect("a log");
    assert!(text.contains("syncfs("), "{text}");
    let syncs = text.lines().filter(|line| line.contains("sync("));
    assert!(syncs.count() < 10, "{text}");
}

#[test]
fn a_restored_master_is_whole_after_its_power_failed() {
    let Some(disk) = Disk::new(192) else { return };
    let (mut grid, backup) = backed_up();
    disk.take_in(&grid.state("elsewhere"));
    grid.wrap("elsewhere", disk.words());
    grid.as_user("elsewhere", ["master", "restore", &backup])
        .expect_code(0);
    disk.cut_power();
    disk.restore_power();

    let told = grid
        .as_user("elsewhere", ["--output", "json", "master", "check"])
        .expect_code(0)
        .json();
    assert_eq!(told["content_files"].as_u64(), Some(FILES), "{told}");
}
