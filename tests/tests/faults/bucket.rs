//! A master whose content lies in a bucket: it comes back from there, storage that is away is waited
//! for, and objects that are missing, damaged or left over do no harm. They need storage (`tests/s3 cargo
//! nextest run …`), and are skipped without.

use std::fs;
use std::time::Duration;

use tests::{Grid, eventually};

use super::front::Front;
use super::storage::Storage;
use super::worker;

/// The longest that anything here may take.
pub(super) const LONG: Duration = Duration::from_secs(90);

/// A grid whose content lies in this storage.
pub(super) fn grid(storage: &Storage) -> Grid {
    Grid::start_with(&storage.settings())
}

/// Removes the files that the master has of its bucket; it must not run.
pub(super) fn forget_cache(grid: &Grid) {
    fs::remove_dir_all(grid.state("admin").join("master/cache")).expect("there is a cache");
}

/// Bytes that no other test has.
pub(super) fn bytes(mark: &str, count: usize) -> Vec<u8> {
    let seed = format!("{mark} {}", rand::random::<u64>());
    seed.bytes().cycle().take(count).collect()
}

/// Submits a task that gives its input back as a file, changed in its first byte.
pub(super) fn submit(grid: &Grid, content: &[u8]) -> String {
    let input = grid.file(&format!("in-{}", rand::random::<u32>()), content);
    let place = format!("{}:in", input.display());
    let script = "printf X > out; tail -c +2 in >> out";
    grid.submit([
        "--retries",
        "9",
        "--input",
        &place,
        "--output-file",
        "out",
        "--",
        "sh",
        "-c",
        script,
    ])
}

/// The output of [`submit`].
pub(super) fn output(content: &[u8]) -> Vec<u8> {
    [b"X", &content[1..]].concat()
}

/// Fetches the outputs of a job in vain; returns what the user is told.
#[track_caller]
pub(super) fn fetch_fails(grid: &Grid, job: &str) -> String {
    let failed = grid.deskgrid(["job", "fetch", job, "--into", "failed"]);
    assert_ne!(failed.code, 0, "{failed:?}");
    failed.stderr
}

/// Fetches the output of a job, wherever it lies below the directory.
pub(super) fn fetched(grid: &Grid, job: &str, name: &str) -> Vec<u8> {
    let mut open = vec![grid.fetch(job, name)];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).expect("a directory").flatten() {
            match entry.file_type().expect("a type").is_dir() {
                true => open.push(entry.path()),
                false if entry.file_name() == "out" => {
                    return fs::read(entry.path()).expect("a file");
                }
                false => {}
            }
        }
    }
    panic!("{job} has no output");
}

#[test]
fn content_in_a_bucket_comes_back_to_a_master_that_has_no_file_of_it() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let mut grid = grid(&storage);
    worker(&mut grid, "h1", 1).start();

    // One in a piece, and one in parts.
    for size in [100_000, 20 << 20] {
        let content = bytes("both ways", size);
        let job = submit(&grid, &content);
        grid.wait(&job);
        assert_eq!(storage.objects_of(&content).len(), 1);
        assert_eq!(storage.objects_of(&output(&content)).len(), 1);

        grid.kill_master();
        forget_cache(&grid);
        grid.start_master();
        assert!(
            fetched(&grid, &job, &format!("fetched-{size}")) == output(&content),
            "it came whole"
        );
    }

    // What no job needs goes, and nothing else.
    let kept = bytes("kept", 10_000);
    let job = submit(&grid, &kept);
    grid.wait(&job);
    for other in ["1", "2"] {
        grid.deskgrid(["job", "forget", other]).expect_code(0);
    }
    eventually("the others' objects are deleted", LONG, || {
        (storage.objects().len() == 2).then_some(())
    });
    assert_eq!(storage.objects_of(&kept).len(), 1);
    assert_eq!(fetched(&grid, &job, "fetched-kept"), output(&kept));
}

#[test]
fn a_bucket_of_another_grid_is_refused() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let first = grid(&storage);
    let mut second = Grid::prepared_fast(&storage.settings());
    second.launch_master();
    let code = eventually("the second ends", LONG, || second.master().ended());
    assert_ne!(code, 0);
    assert!(
        second.logs().contains("holds that of another grid"),
        "{}",
        second.logs()
    );

    // Nor does the grid take another place for its own.
    let Some(other) = Storage::new() else { return };
    drop(first);
    let mut moved = grid(&other);
    moved.kill_master();
    moved.file("master.toml", storage.settings());
    moved.launch_master();
    let code = eventually("it ends", LONG, || moved.master().ended());
    assert_ne!(code, 0);
    assert!(moved.logs().contains("another grid"), "{}", moved.logs());
}

#[test]
fn while_a_bucket_is_away_results_wait_and_those_without_files_go_on() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let mut grid = grid(&storage);
    worker(&mut grid, "h1", 2).start();
    let go = grid.dir().join("go");
    let script = format!(
        "while [ ! -e {} ]; do sleep 0.1; done; seq 30000 > out",
        go.display()
    );
    let waits = grid.submit(["--output-file", "out", "--", "sh", "-c", &script]);
    grid.until_it_runs(&format!("{waits}.1"));

    for front in [Front::Closed, Front::Unavailable] {
        storage.set(front);
        fs::write(&go, "").expect("a file can be written");
        let plain = grid.submit(["--", "echo", "no file"]);
        grid.wait(&plain);

        let input = grid.file("refused", bytes("refused", 1_000));
        let place = format!("{}:in", input.display());
        let refused = grid.deskgrid(["submit", "--input", &place, "--", "cat", "in"]);
        assert_ne!(refused.code, 0);
        assert!(
            refused.stderr.contains("storage") && refused.stderr.contains("try:"),
            "{}",
            refused.stderr
        );
        let seen = grid.job(&waits);
        assert_eq!(seen["tasks"]["finished"], 0, "{seen}");
        let why = grid.deskgrid(["job", "explain", &waits]).stdout;
        assert!(why.contains("files wait for the master's storage"), "{why}");
    }

    // Its master can even be started meanwhile.
    grid.kill_master();
    grid.start_master();
    storage.set(Front::Open);
    grid.wait(&waits);
    let lines = String::from_utf8(fetched(&grid, &waits, "waited")).expect("UTF-8");
    assert_eq!(lines.lines().count(), 30_000);
}

#[test]
fn an_upload_whose_master_dies_before_it_is_noted_comes_again_under_another_name() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let mut grid = grid(&storage);
    worker(&mut grid, "h1", 1).start();
    let content = bytes("dies", 30_000);
    let go = grid.dir().join("go");
    let input = grid.file("dies", &content);
    let place = format!("{}:in", input.display());
    let script = format!(
        "while [ ! -e {} ]; do sleep 0.1; done; (printf X; tail -c +2 in) > out",
        go.display()
    );
    let job = grid.submit([
        "--input",
        &place,
        "--output-file",
        "out",
        "--",
        "sh",
        "-c",
        &script,
    ]);
    grid.until_it_runs(&format!("{job}.1"));

    storage.set(Front::Mute);
    fs::write(&go, "").expect("a file can be written");
    let result = output(&content);
    eventually("the result is in the bucket", LONG, || {
        (storage.proxy().has_answered() && !storage.objects_of(&result).is_empty()).then_some(())
    });
    grid.kill_master();
    let left_over = storage.objects_of(&result);
    storage.set(Front::Open);
    grid.start_master();

    grid.wait(&job);
    let now = storage.objects_of(&result);
    assert!(now.len() > left_over.len(), "{now:?}");
    assert!(
        left_over.iter().all(|name| now.contains(name)),
        "it is younger than a day"
    );
    forget_cache_of_running(&mut grid);
    assert_eq!(fetched(&grid, &job, "fetched"), result);
}

/// The same for a master that runs.
pub(super) fn forget_cache_of_running(grid: &mut Grid) {
    grid.kill_master();
    forget_cache(grid);
    grid.start_master();
}

#[test]
fn an_object_of_a_bucket_that_is_missing_or_damaged_is_found_and_can_be_sent_again() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let mut grid = grid(&storage);
    worker(&mut grid, "h1", 1).start();
    let content = bytes("input", 50_000);
    let (input, result) = (content.clone(), output(&content));
    let job = submit(&grid, &content);
    grid.wait(&job);

    let check = |grid: &Grid| grid.admin(["master", "check"]);
    check(&grid).expect_code(0);
    let only = |of: &[u8]| storage.objects_of(of).pop().expect("an object");
    storage.write(
        &only(&result),
        b"something else, as long as it is not the same",
    );
    storage.remove(&only(&input));
    let told = check(&grid).expect_code(1).stdout;
    for hash in [blake3::hash(&result), blake3::hash(&input)] {
        assert!(told.contains(&format!("content {hash} is")), "{told}");
    }
    assert!(
        told.contains(&format!("of job {job}")) && told.contains("try:"),
        "{told}"
    );

    // What comes out is never the damaged one.
    forget_cache_of_running(&mut grid);
    fetch_fails(&grid, &job);

    // The master, which was started anew, compares the bucket with what it has noted; then a submission
    // sends the input again.
    let lost = format!(
        "missing or damaged in the storage: it is put aside, and can be sent again hash={}",
        blake3::hash(&input)
    );
    eventually("the master misses the input", LONG, || {
        grid.logs().contains(&lost).then_some(())
    });
    let again = submit(&grid, &content);
    grid.wait(&again);
    assert_eq!(fetched(&grid, &again, "again"), result);
    grid.deskgrid(["job", "retry", &job, "--damaged"])
        .expect_code(0);
    grid.wait(&job);
    assert_eq!(fetched(&grid, &job, "recomputed"), result);
    check(&grid).expect_code(0);
}

#[test]
fn a_backup_and_a_check_do_not_wait_while_a_bucket_is_swept() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let mut grid = grid(&storage);
    worker(&mut grid, "h1", 1).start();
    let job = submit(&grid, &bytes("not needed", 10_000));
    grid.wait(&job);
    let kept = submit(&grid, &bytes("kept", 10_000));
    grid.wait(&kept);

    storage.set(Front::HoldsDeletion);
    grid.deskgrid(["job", "forget", &job]).expect_code(0);
    eventually("its objects are being deleted", LONG, || {
        storage.proxy().holds().then_some(())
    });
    let archive = grid.dir().join("backup.tar");
    let archive = archive.to_str().expect("UTF-8");
    let backup = grid.admin(["master", "backup", archive]);
    backup.expect_code(0);
    grid.admin(["master", "check"]).expect_code(0);
    assert!(!storage.proxy().has_answered(), "it is swept still");

    storage.proxy().release();
    eventually("what nobody needs is deleted", LONG, || {
        (storage.objects().len() == 2).then_some(())
    });
}

#[test]
fn a_check_of_a_bucket_that_breaks_off_calls_nothing_damaged() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let mut grid = grid(&storage);
    worker(&mut grid, "h1", 1).start();
    let content = bytes("large", 12 << 20);
    let job = submit(&grid, &content);
    grid.wait(&job);
    let check = |grid: &Grid| grid.admin(["master", "check"]);
    check(&grid).expect_code(0);

    storage.set(Front::BreaksOff);
    let told = check(&grid).expect_code(1).stdout;
    assert!(
        told.contains("was not read to its end") && told.contains("then check again"),
        "{told}"
    );
    for wrong in ["damaged", "missing"] {
        assert!(!told.contains(wrong), "{told}");
    }

    storage.set(Front::Open);
    check(&grid).expect_code(0);
}

#[test]
fn a_backup_beside_a_bucket_names_content_and_starts_only_if_that_is_accepted() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let mut grid = grid(&storage);
    worker(&mut grid, "h1", 1).start();
    let content = bytes("backup", 20_000);
    let job = submit(&grid, &content);
    grid.wait(&job);

    let archive = grid.dir().join("backup.tar");
    let archive = archive.to_str().expect("UTF-8").to_owned();
    let said = grid.admin(["master", "backup", &archive]).expect_code(0);
    assert!(
        said.stdout
            .contains(&format!("stays in {}", storage.content())),
        "{}",
        said.stdout
    );
    grid.kill_master();
    grid.as_user("restored", ["master", "restore", &archive])
        .expect_code(0);
    grid.as_user("restored", ["master", "check"]).expect_code(0);

    grid.move_master("restored");
    grid.launch_master();
    let code = eventually("it ends", LONG, || grid.master().ended());
    assert_ne!(code, 0);
    assert!(grid.logs().contains("--accept-store"), "{}", grid.logs());

    // With an admin's word it is the grid's master, and has its content.
    let config = grid.dir().join("master.toml");
    let start = [
        "master",
        "start",
        "--accept-store",
        "--listen",
        grid.listen(),
        "--config",
    ];
    let mut start: Vec<&str> = start.to_vec();
    start.push(config.to_str().expect("UTF-8"));
    let _accepted = grid.background_as("restored", start);
    grid.as_user("restored", ["master", "wait", "--timeout", "60s"])
        .expect_code(0);
    assert_eq!(fetched(&grid, &job, "fetched"), output(&content));
}

#[test]
fn no_grid_begins_beside_a_bucket_that_is_not_there() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let grid = Grid::prepared("");
    grid.file("master.toml", storage.settings());
    let config = grid.dir().join("master.toml");
    let config = config.to_str().expect("UTF-8");
    let start = [
        "master",
        "start",
        "--config",
        config,
        "--listen",
        "127.0.0.1:0",
        "--http",
        "none",
    ];
    let start = [&start[..], &["--content", "s3://no-such-bucket"]].concat();
    let refused = grid.as_user("new", start).expect_code(1);
    assert!(
        refused.stderr.contains("there is no such bucket"),
        "{refused:?}"
    );
    let home = grid.dir().join("new/master");
    assert!(!home.join("store.sqlite").exists(), "a store was begun");
}

#[test]
fn a_first_start_whose_mark_does_not_reach_the_bucket_can_be_tried_again() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let mut grid = Grid::prepared(&storage.settings());
    storage.set(Front::Drops);
    grid.launch_master();
    let code = eventually("it ends", LONG, || grid.master().ended());
    assert_ne!(code, 0, "{}", grid.logs());

    storage.set(Front::Open);
    grid.begin();
}

#[test]
fn the_doctor_tries_a_bucket_out_and_says_what_is_wrong() {
    let Some(storage) = Storage::new() else {
        return;
    };
    let key = "aws_access_key_id = deskgrid\naws_secret_access_key = ";
    let secret = std::env::var("AWS_SECRET_ACCESS_KEY").expect("tests/s3 sets it");
    let mut grid = Grid::prepared("");
    let with_key = |grid: &Grid, name: &str, secret: &str| {
        let path = grid.file(name, format!("[default]\n{key}{secret}\n"));
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&path, private).expect("a file of the test's own");
        format!(
            "{}credentials = \"{}\"\n",
            storage.settings(),
            path.display()
        )
    };
    let settings = with_key(&grid, "key", &secret);
    grid.file("master.toml", settings);
    let wrong = with_key(&grid, "wrong-key", "another secret");
    let wrong = grid.file("wrong.toml", wrong);
    let right = grid.dir().join("master.toml");
    let look = |grid: &Grid, config: &std::path::Path, content: &str| {
        let config = config.to_str().expect("UTF-8");
        let words = ["doctor", "--master-config", config, "--content", content];
        grid.admin(words).stdout
    };

    let content = storage.content();
    let said = look(&grid, &right, &content);
    assert!(
        said.contains("can be listed, written, read and deleted from"),
        "{said}"
    );
    let said = look(&grid, &wrong, &content);
    assert!(
        said.contains("does not take the access key") && said.contains("try:"),
        "{said}"
    );
    assert!(!said.contains("another secret"), "{said}");
    for (odd, word) in [
        ("s3:/grid", "is for masters that share a database"),
        ("s3://a b", "s3://BUCKET"),
    ] {
        let said = look(&grid, &right, odd);
        assert!(said.contains(word) && said.contains("try:"), "{said}");
    }
    let said = look(&grid, &right, "s3://no-such-bucket");
    assert!(said.contains("there is no such bucket"), "{said}");
    storage.set(Front::Closed);
    let said = look(&grid, &right, &content);
    assert!(said.contains("the storage does not answer"), "{said}");

    // With such a key a master starts, and tells it to nobody.
    storage.set(Front::Open);
    grid.begin();
    let args = fs::read(format!("/proc/{}/cmdline", grid.master_pid())).expect("it runs");
    let args = String::from_utf8_lossy(&args).into_owned();
    for told in [args, grid.logs()] {
        assert!(!told.contains(&secret), "{told}");
    }
}
