//! Disks that fail: power loss, no space, read-only, two masters at once. And disks whose files can
//! share content.

use std::fs;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::Signal;
use tests::{Grid, Started, eventually};

use super::disk::{BTRFS, Disk, XFS};
use super::ledger::Ledger;
use super::{PLAIN, long, seed, worker};

/// A grid whose master's directory lies on the disk; nothing runs yet.
fn on(disk: &Disk, config: &str) -> Grid {
    let mut grid = Grid::prepared_fast(config);
    disk.take_in(&grid.state("admin"));
    grid.wrap("admin", disk.words());
    grid
}

#[test]
fn a_fetch_that_fills_the_users_disk_leaves_nothing_half_done_there() {
    let Some(disk) = Disk::new(32) else { return };
    let mut grid = Grid::start();
    worker(&mut grid, "h1", 2).start();
    let job = grid.submit([
        "--array",
        "1-3",
        "--output-file",
        "large",
        "--wait",
        "--",
        "sh",
        "-c",
        "head -c 20000000 /dev/urandom > large",
    ]);

    grid.wrap("user", disk.words());
    let into = disk.inside().join("results");
    let fetch = [
        "job",
        "fetch",
        &job,
        "--into",
        into.to_str().expect("UTF-8"),
    ];
    let refused = grid.deskgrid(fetch).expect_code(1).stderr;
    assert!(refused.contains("try: make room on the disk"), "{refused}");

    let files = |task: u32| fs::read_dir(disk.seen().join(format!("results/{task}"))).ok();
    let names: Vec<_> = (1..=3)
        .filter_map(files)
        .flatten()
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert!(names.iter().all(|name| name == "large"), "{names:?}");
}

#[test]
fn no_acknowledged_work_is_lost_when_the_masters_power_fails() {
    let Some(disk) = Disk::new(512) else { return };
    let mut rng = StdRng::seed_from_u64(seed());
    let mut grid = on(&disk, "");
    grid.begin();
    worker(&mut grid, "h1", 2).start();

    let mut ledger = Ledger::new(0.05);
    for _ in 0..if long() { 20 } else { 2 } {
        // At least one promise has been given when the power fails.
        ledger.submit(&grid, 2);
        let bag = ledger.plan(1);
        let client = ledger.submission(&grid, bag);
        std::thread::sleep(Duration::from_millis(rng.random_range(0..700)));
        disk.cut_power();
        grid.kill_master();
        disk.restore_power();
        grid.start_master();
        ledger.note(bag, &client.finish());
        ledger.check(&grid);
    }

    ledger.settle(&grid);
}

#[test]
fn a_master_whose_disk_is_gone_ends_with_the_reason() {
    let Some(disk) = Disk::new(512) else { return };
    let mut grid = on(&disk, "");
    grid.begin();

    let mut ledger = Ledger::new(0.0);
    ledger.submit(&grid, 1);
    disk.cut_power();

    // Files are refused, and the master stands; a submission without any has to be written down.
    let bag = ledger.plan(1);
    let refused = ledger.submission(&grid, bag).finish();
    assert!(
        refused.code != 0 && grid.master().ended().is_none(),
        "{refused:?}"
    );

    let client = grid.background(["submit", "--", "true"]);
    let code = eventually("the master ends", Duration::from_secs(60), || {
        grid.master().ended()
    });
    assert_eq!(code, 1);
    assert!(grid.logs().contains("the store failed"), "it says why");
    drop(client);
    disk.restore_power();

    grid.start_master();
    ledger.check(&grid);
}

#[test]
fn finished_work_of_a_worker_survives_its_power_loss() {
    let Some(disk) = Disk::new(512) else { return };
    // Leases outlast everything here: whatever is run again was lost by the disk.
    let mut grid =
        Grid::with_master("heartbeat = \"1s\"\nsuspect_after = \"30s\"\nlease = \"5m\"\n");
    disk.take_in(&grid.state("h1"));
    grid.wrap("h1", disk.words());
    worker(&mut grid, "h1", 2).start();

    let mut ledger = Ledger::new(1.0);
    let first = ledger.submit(&grid, 1).to_string();
    ledger.nap(4.0);

    let second = ledger.submit(&grid, 1).to_string();
    for job in [&first, &second] {
        grid.until_it_runs(&format!("{job}.1"));
    }

    // They end while the master is away: their results are in the worker's spool alone. The second
    // is written there only after the first was synced.
    grid.kill_master();
    let log = disk.seen().join("worker/spool/log");
    let spooled = || fs::metadata(&log).map_or(0, |meta| meta.len());
    let one = eventually("a result is spooled", Duration::from_secs(60), || {
        Some(spooled()).filter(|n| *n > 0)
    });
    eventually(
        "another one is being spooled",
        Duration::from_secs(60),
        || (spooled() > one).then_some(()),
    );
    disk.cut_power();

    grid.kill_worker("h1");
    disk.restore_power();
    grid.start_master();
    worker(&mut grid, "h1", 2).start();
    ledger.settle(&grid);
    assert_eq!(
        grid.attempts(&format!("{first}.1")).len(),
        1,
        "it was not run again"
    );
}

#[test]
fn a_worker_with_a_full_disk_delivers_and_others_take_the_rest() {
    let Some(disk) = Disk::new(192) else { return };
    let mut grid = Grid::with_master("");
    disk.take_in(&grid.state("h1"));
    grid.wrap("h1", disk.words());
    worker(&mut grid, "h1", 2).start();

    let go = grid.dir().join("go");
    let waits = format!(
        "while [ ! -e {} ]; do sleep 0.1; done; echo done",
        go.display()
    );
    let running = grid.submit(["--array", "1-2", "--", "sh", "-c", &waits]);
    grid.until("both run", &["job", "info", &running], |j| {
        (j["tasks"]["running"] == 2).then_some(())
    });

    // Results that need no file find their way, although nothing can be written down.
    disk.fill();
    fs::write(&go, "").unwrap();
    grid.wait(&running);

    // What needs room runs elsewhere, and no task is charged for it.
    worker(&mut grid, "h2", 1).start();
    let input = grid.file("input", vec![7; 3 << 20]);
    let place = format!("{}:in", input.display());
    let needy = [
        "--array",
        "1-8",
        "--retries",
        "0",
        "--input",
        &place,
        "--",
        "sh",
        "-c",
        "wc -c < in",
    ];
    let needy = grid.submit(needy);
    grid.wait(&needy);

    let seen = grid.job(&needy);
    assert_eq!(
        (&seen["tasks"]["finished"], &seen["tasks"]["failed"]),
        (&8.into(), &0.into()),
        "{seen}"
    );

    // With room again, the worker is still there and takes work.
    disk.make_room();
    grid.kill_worker("h2");
    grid.deskgrid(["submit", "--wait", "--", "true"])
        .expect_code(0);
    assert!(grid.running("h1").ended().is_none());
}

#[test]
fn a_large_input_is_one_on_the_disk_and_each_tasks_own_where_files_can_share_content() {
    const INPUT: u64 = 96 << 20;
    for kind in [&BTRFS, &XFS] {
        let Some(disk) = Disk::of(kind, 512) else {
            continue;
        };
        let mut grid = Grid::with_master("");
        disk.take_in(&grid.state("h1"));
        grid.wrap("h1", disk.words());
        let share = format!("{PLAIN}[owner]\ndisk_share = 1.0\n");
        grid.worker("h1")
            .slots(2)
            .config(&share)
            .dedicated()
            .start();

        // Both write to the file, and then hold it until they may end.
        let dir = grid.dir().to_owned();
        let hold = format!(
            "printf %s $0 >> in && : > {0}/$0 && while [ ! -e {0}/go ]; do sleep 0.1; done; tail -c 2 in; wc -c < in",
            dir.display()
        );
        let input = grid.file("input", vec![7; INPUT as usize]);
        let place = format!("{}:in", input.display());
        let before = disk.used();
        let job = grid.submit([
            "--array",
            "1-2",
            "--input",
            &place,
            "--",
            "sh",
            "-c",
            &hold,
            "%{TASK_ID}",
        ]);
        eventually("both have written", Duration::from_secs(120), || {
            let failed = grid.job(&job)["tasks"]["failed"] != 0;
            assert!(!failed, "{:?}", grid.deskgrid(["job", "info", &job]));
            ["1", "2"]
                .iter()
                .all(|name| dir.join(name).exists())
                .then_some(())
        });
        let taken = disk.used().saturating_sub(before);
        assert!(
            (INPUT..2 * INPUT).contains(&taken),
            "{taken} bytes for the cache and two tasks"
        );

        fs::write(dir.join("go"), "").unwrap();
        grid.wait(&job);
        for task in ["1", "2"] {
            let said = grid.deskgrid(["job", "cat", &job, "stdout", task]);
            let expected = format!("\u{7}{task}{}\n", INPUT + 1);
            assert_eq!(said.expect_code(0).stdout, expected);
        }
    }
}

#[test]
fn a_full_disk_stops_new_work_but_not_results_and_is_left_behind() {
    let Some(disk) = Disk::new(192) else { return };
    let mut grid = on(&disk, "reserve_bytes = 67108864\n");
    grid.begin();
    worker(&mut grid, "h1", 4).start();

    let pid = grid.master_pid();
    let mut ledger = Ledger::new(0.3);
    let under_way = ledger.submit(&grid, 6).to_string();
    let some = |j: &serde_json::Value| (j["tasks"]["finished"].as_u64() >= Some(2)).then_some(());
    grid.until("it is under way", &["job", "info", &under_way], some);
    disk.fill();

    let refused = ledger.plan(1);
    let output = ledger.submission(&grid, refused).finish();
    assert_ne!(output.code, 0, "{output:?}");

    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(
        said.contains("the master's disk is nearly full") && said.contains("more space"),
        "{said}"
    );

    let bare = grid.deskgrid(["submit", "--", "true"]);
    assert!(
        bare.code != 0 && bare.stderr.contains("nearly full"),
        "also without files: {bare:?}"
    );

    grid.wait(&under_way);

    // What was given away is taken by others as well; what is known can still be read, and the
    // master stands.
    disk.fill();
    ledger.check(&grid);
    assert_eq!(
        (grid.master_pid(), grid.master().ended()),
        (pid, None),
        "the same master all the time"
    );

    disk.make_room();
    let held = disk.seen().join("master/reserve");
    eventually("room is held again", Duration::from_secs(30), || {
        fs::metadata(&held)
            .is_ok_and(|meta| meta.len() == 16 << 20)
            .then_some(())
    });
    ledger.settle(&grid);
    assert_eq!(
        (grid.master_pid(), grid.master().ended()),
        (pid, None),
        "the same master all the time"
    );
}

#[test]
fn a_master_that_starts_on_a_full_disk_says_that_it_is_full_and_not_that_its_store_is_damaged() {
    let Some(disk) = Disk::new(192) else { return };
    let mut grid = on(&disk, "");
    grid.begin();
    worker(&mut grid, "h1", 1).start();
    let mut ledger = Ledger::new(0.0);
    ledger.submit(&grid, 2);
    disk.fill();
    grid.master().signal(Signal::TERM);
    eventually("the master ends in order", Duration::from_secs(30), || {
        grid.master().ended()
    });

    // What it held back is given away, too.
    let held = disk.seen().join("master/reserve");
    fs::remove_file(held).expect("it holds room back");
    disk.fill();
    grid.launch_master();
    let code = eventually("the master ends", Duration::from_secs(30), || {
        grid.master().ended()
    });
    let logs = grid.logs();
    assert_eq!(code, 1, "it ends by itself, and by no signal: {logs}");
    let says = ["is full", "Nothing is damaged", "make room"];
    assert!(says.iter().all(|words| logs.contains(words)), "{logs}");
    assert!(!logs.contains("backup"), "{logs}");

    let words = grid.admin(["master", "check"]);
    assert!(words.code != 0, "{words:?}");
    let said = format!("{}{}", words.stdout, words.stderr);
    assert!(
        said.contains("is full") && !said.contains("backup"),
        "{said}"
    );

    disk.make_room();
    grid.start_master();
    ledger.settle(&grid);
}

#[test]
fn a_master_on_a_read_only_disk_says_so_and_changes_nothing() {
    let Some(disk) = Disk::new(512) else { return };
    let mut grid = on(&disk, "");
    grid.begin();
    worker(&mut grid, "h1", 1).start();

    let mut ledger = Ledger::new(0.0);
    ledger.submit(&grid, 2);
    grid.master().signal(Signal::TERM);
    eventually("the master ends in order", Duration::from_secs(30), || {
        grid.master().ended()
    });
    disk.read_only(true);
    grid.launch_master();

    let code = eventually("the master ends", Duration::from_secs(30), || {
        grid.master().ended()
    });
    assert_eq!(code, 1);
    assert!(
        grid.logs().to_lowercase().contains("read-only"),
        "it says why"
    );
    disk.read_only(false);
    grid.start_master();
    ledger.settle(&grid);
}

#[test]
fn only_one_of_many_masters_starts_on_a_directory() {
    let mut grid = Grid::prepared_fast("");
    let words = [
        "master",
        "start",
        "--listen",
        "127.0.0.1:0",
        "--http",
        "none",
    ];
    let mut masters: Vec<Started> = (0..6).map(|_| grid.background_as("admin", words)).collect();
    eventually("all but one have ended", Duration::from_secs(60), || {
        (masters.iter_mut().filter_map(Started::ended).count() == 5).then_some(())
    });

    let place = masters
        .iter_mut()
        .position(|master| master.ended().is_none())
        .expect("one remains");
    masters.remove(place).kill();
    for master in masters {
        let output = master.finish().expect_code(1);
        assert!(output.stderr.contains("another master"), "{output:?}");
    }

    grid.begin();
}
