//! Real input: files go to workers that share no directory with the user, and results come back.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use common::BlobRef;
use link::{BlobStore, Client, Identity, UnnamedPuts};
use tests::{Grid, eventually};

/// Every file of deskgrid's own sources, as absolute paths.
fn sources() -> Vec<String> {
    let top = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .canonicalize()
        .expect("the source tree");
    let kept =
        |entry: &walkdir::DirEntry| !matches!(entry.file_name().to_str(), Some("target" | ".git"));

    let files = walkdir::WalkDir::new(&top)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(kept)
        .flatten();
    let files = files.filter(|entry| entry.file_type().is_file());

    files
        .map(|entry| {
            entry
                .path()
                .to_str()
                .expect("our names are UTF-8")
                .to_owned()
        })
        .collect()
}

#[test]
fn hashing_the_source_tree_on_two_workers_equals_hashing_it_locally() {
    let mut grid = Grid::start();
    grid.worker("left").slots(2).start();
    grid.worker("right").slots(2).start();

    let sources = sources();
    assert!(sources.len() > 50, "{} files", sources.len());

    let list = grid.file("list.txt", sources.join("\n"));
    let list = list.to_str().expect("UTF-8");
    let job = grid.submit([
        "--each-line",
        list,
        "--input",
        "%{ITEM}:given",
        "--output-file",
        "out.txt",
        "--wait",
        "--",
        "sh",
        "-c",
        "b3=$(sha256sum < given); echo \"$b3 $DESKGRID_ITEM\" > out.txt",
    ]);
    let results = grid.fetch(&job, "results");

    for (task, path) in (1..).zip(&sources) {
        let theirs = std::fs::read_to_string(results.join(format!("{task}/out.txt")))
            .expect("a result for each file");
        let hashed = std::process::Command::new("sha256sum")
            .stdin(std::fs::File::open(path).expect("is there"))
            .output();
        let ours = String::from_utf8(hashed.expect("sha256sum runs").stdout).expect("text");
        assert_eq!(theirs.trim(), format!("{} {path}", ours.trim()), "{path}");
    }

    let hosts = grid.json(["host", "list"]);
    let idle: Vec<_> = hosts["hosts"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|h| h["finished"] == 0)
        .collect();
    assert!(idle.is_empty(), "both hosts took part: {hosts}");
}

#[test]
fn a_large_file_goes_there_and_back_unharmed_and_may_be_standard_input() {
    let grid = Grid::with_worker();

    let mut content = vec![0u8; 9_000_001];
    rand::Rng::fill_bytes(&mut rand::rng(), &mut content);
    grid.file("big.bin", &content);

    let job = grid.submit([
        "--input",
        "big.bin",
        "--stdin",
        "big.bin",
        "--output-file",
        "sub/*.bin",
        "--wait",
        "--",
        "sh",
        "-c",
        "mkdir sub && cat > sub/copy.bin",
    ]);

    let into = grid.fetch(&job, "back");

    assert!(
        std::fs::read(into.join("sub/copy.bin")).expect("is back") == content,
        "the copy differs"
    );
}

#[test]
fn outputs_of_a_failed_task_can_be_fetched_and_a_missing_one_is_named() {
    let grid = Grid::with_worker();

    let wait = |args: &[&str]| {
        let done = grid
            .deskgrid([&["--output", "quiet", "submit"], args].concat())
            .expect_code(3);
        done.stdout.trim().to_owned()
    };
    let failed = wait(&[
        "--output-file",
        "o.txt",
        "--wait",
        "--",
        "sh",
        "-c",
        "echo partial > o.txt; echo why >&2; exit 9",
    ]);
    let into = grid.dir().join("failed");

    grid.deskgrid([
        "job",
        "fetch",
        &failed,
        "--into",
        into.to_str().expect("UTF-8"),
    ])
    .expect_code(3);

    assert_eq!(
        std::fs::read_to_string(into.join("o.txt")).expect("fetched"),
        "partial\n"
    );
    assert_eq!(grid.text(["job", "cat", &failed, "stderr"]), "why\n");

    assert_eq!(grid.attempts(&format!("{failed}.1"))[0]["exit_code"], 9);

    let missing = wait(&[
        "--output-file",
        "never.txt",
        "--wait",
        "--",
        "touch",
        "other.txt",
    ]);
    let told = grid.text(["task", "info", &format!("{missing}.1")]);
    assert!(
        told.contains("the task left `other.txt`, which no --output-file names"),
        "{told}"
    );
    let reason = grid.attempts(&format!("{missing}.1"))[0]["reason"].to_string();
    assert!(reason.contains("never.txt"), "{reason}");
}

#[test]
fn what_a_failed_attempt_left_makes_room_for_the_result_of_a_retry_unless_it_was_changed() {
    let grid = Grid::with_worker();
    let job = grid.submit([
        "--array",
        "1-2",
        "--output-file",
        "o.txt",
        "--stdout",
        "log",
        "--",
        "sh",
        "-c",
        "echo attempt $0; echo attempt $0 > o.txt; [ $0 != 1 ]",
        "%{ATTEMPT_ID}",
    ]);
    grid.deskgrid(["job", "wait", &job]).expect_code(3);

    let into = grid.dir().join("results");
    let path = into.to_str().expect("UTF-8");
    let fetch = ["job", "fetch", &job, "--into", path];
    grid.deskgrid(fetch).expect_code(3);
    let read = |name: &str| std::fs::read_to_string(into.join(name)).expect("fetched");
    assert_eq!(
        (read("1/o.txt"), read("1/log")),
        ("attempt 1\n".into(), "attempt 1\n".into())
    );

    grid.deskgrid(["job", "retry", &job]).expect_code(0);
    grid.wait(&job);
    std::fs::write(into.join("2/o.txt"), "the user's\n").expect("it can be written");
    let refused = grid.deskgrid(fetch).expect_code(1).stderr;
    assert!(
        refused.contains("2/o.txt is there already and differs"),
        "{refused}"
    );
    assert_eq!(
        (read("1/o.txt"), read("2/o.txt")),
        ("attempt 1\n".into(), "the user's\n".into())
    );

    std::fs::write(into.join("2/o.txt"), "attempt 1\n").expect("it can be written");
    let told = grid.text(fetch);
    assert!(told.contains("; 4 were replaced"), "{told}");
    for name in ["1/o.txt", "1/log", "2/o.txt", "2/log"] {
        assert_eq!(read(name), "attempt 2\n", "{name}");
    }

    // The results are the user's from now on.
    std::fs::write(into.join("1/o.txt"), "attempt 1\n").expect("it can be written");
    grid.deskgrid(fetch).expect_code(1);
}

#[test]
fn what_was_unpacked_makes_room_in_the_same_way_and_is_fetched_once() {
    let grid = Grid::with_worker();
    let words = "mkdir out; echo attempt $0 > out/a:b; ln -s to$0 out/link; [ $0 != 1 ]";
    let output = ["--output-tree", "out"];
    let program = ["--", "sh", "-c", words, "%{ATTEMPT_ID}"];
    let job = grid.submit(output.into_iter().chain(program));
    grid.deskgrid(["job", "wait", &job]).expect_code(3);

    let into = grid.dir().join("results");
    let path = into.to_str().expect("UTF-8");
    let fetch = ["--output", "json", "job", "fetch", &job, "--into", path];
    let odd = into.join("out/a:b");
    let there = || {
        let link = std::fs::read_link(into.join("out/link")).expect("unpacked");
        (std::fs::read_to_string(&odd).expect("unpacked"), link)
    };
    let of = |attempt: u32| {
        (
            format!("attempt {attempt}\n"),
            format!("to{attempt}").into(),
        )
    };
    grid.deskgrid(fetch).expect_code(3);
    assert_eq!(there(), of(1));

    grid.deskgrid(["job", "retry", &job]).expect_code(0);
    grid.wait(&job);
    std::fs::write(&odd, "the user's\n").expect("it can be written");
    let refused = grid.deskgrid(fetch).expect_code(1).stderr;
    assert!(refused.contains("out/a:b is there already"), "{refused}");
    assert_eq!(there().0, "the user's\n");

    std::fs::write(&odd, "attempt 1\n").expect("it can be written");
    let kept = || grid.deskgrid(fetch).expect_code(0).json()["files"][0]["kept"].clone();
    kept();
    assert_eq!(there(), of(2));
    assert_eq!(kept(), true, "nothing has changed");

    // What is missing comes back; the results are the user's from now on.
    std::fs::remove_file(&odd).expect("it can be removed");
    assert_eq!((kept(), there()), (false.into(), of(2)));
    std::fs::write(&odd, "attempt 1\n").expect("it can be written");
    grid.deskgrid(fetch).expect_code(1);
}

#[test]
fn tasks_run_in_a_fresh_directory_with_a_clean_environment() {
    let grid = Grid::with_worker();

    let job = grid.submit([
        "--array",
        "3-4",
        "--env",
        "COLOUR=blue-%{TASK_ID}",
        "--wait",
        "--",
        "sh",
        "-c",
        "ls -A; env",
    ]);
    let text = grid.text(["job", "cat", &job, "stdout", "4"]);
    let lines: Vec<&str> = text.lines().collect();

    for wanted in [
        &format!("DESKGRID_JOB_ID={job}"),
        "DESKGRID_TASK_ID=4",
        "DESKGRID_HOST=h1",
        "COLOUR=blue-4",
    ] {
        assert!(lines.contains(&wanted), "{wanted} in {text}");
    }

    assert!(
        !text.contains("CARGO") && !text.contains("RUST"),
        "the worker's environment leaks: {text}"
    );
    assert!(lines[0].contains('='), "the directory is not empty: {text}");
}

#[test]
fn words_of_a_task_that_look_like_a_join_token_reach_it_as_they_were() {
    let grid = Grid::with_worker();
    let words = ["--join", "x", "--join=y", "--join", "", "--join="];
    let job = grid.submit([&["--wait", "printf", "%s|"][..], &words].concat());
    let printed = grid.deskgrid(["job", "cat", &job, "stdout"]).expect_code(0);
    assert_eq!(printed.stdout, "--join|x|--join=y|--join||--join=|");
}

#[test]
fn an_output_that_the_master_never_takes_fails_its_task_with_the_reason_and_frees_the_host() {
    let mut grid = Grid::with_master("max_blob_bytes = 100000");
    grid.worker("h1").start();

    let output = grid.deskgrid([
        "submit",
        "--wait",
        "--output-file",
        "*.bin",
        "--",
        "sh",
        "-c",
        "head -c 200000 /dev/zero > big.bin; echo little > small.bin",
    ]);
    output.expect_code(3);

    let task = grid.json(["task", "info", "1.1"]);
    let reason = task["attempts"][0]["reason"].as_str().expect("a reason");
    assert!(
        reason.contains("big.bin") && reason.contains("larger than"),
        "{reason}"
    );

    let results = grid.dir().join("results");
    let into = results.to_str().expect("UTF-8");
    grid.deskgrid(["job", "fetch", "1", "--into", into])
        .expect_code(3);

    assert_eq!(
        std::fs::read_to_string(results.join("small.bin")).expect("the other output is there"),
        "little\n"
    );
    grid.deskgrid(["submit", "--wait", "--", "true"])
        .expect_code(0);
}

#[test]
fn a_task_cannot_change_a_large_input_for_those_after_it() {
    for level in ["process", "landlock", "namespace"] {
        let mut grid = Grid::start();
        let config = format!("confinement = \"{level}\"\n");
        grid.worker("h1").slots(1).config(&config).start();
        let mut content = vec![0u8; 17 << 20];
        rand::Rng::fill_bytes(&mut rand::rng(), &mut content);
        let whole = blake3::hash(&content).to_hex();
        grid.file("big.bin", &content);

        // Whatever fails of this fails only here.
        let damage = "chmod 777 in.bin; printf x >> in.bin; \
                      dd if=/dev/zero of=in.bin bs=1 count=9 conv=notrunc; ln in.bin other; \
                      printf x >> other; truncate -s 5 in.bin; mv in.bin moved; printf x >> moved; \
                      touch -d 2001-01-01 moved; setfattr -n user.a -v b moved; true";
        let submit = |words: &str, output: &str| {
            let job = grid.submit([
                "--input",
                "big.bin:in.bin",
                "--output-file",
                output,
                "--wait",
                "--",
                "sh",
                "-c",
                words,
            ]);
            grid.fetch(&job, &job)
        };

        submit(&format!("({damage}) > said 2>&1"), "said");
        for _ in 0..2 {
            let into = submit("cat in.bin > copy.bin; echo done > end", "*");
            let copy = std::fs::read(into.join("copy.bin")).expect("fetched");
            assert_eq!(blake3::hash(&copy).to_hex(), whole, "at {level}");
            assert!(!into.join("in.bin").exists(), "it is no result");
        }
    }
}

#[test]
fn a_task_with_odd_outputs_finishes_and_says_what_became_of_them() {
    let grid = Grid::with_worker();
    let job = grid.submit([
        "--output-file",
        "**",
        "--wait",
        "--",
        "sh",
        "-c",
        "echo good > good.txt; echo odd > run_12:30.log; ln -s good.txt latest; mkfifo pipe",
    ]);

    let reason = grid.attempts(&format!("{job}.1"))[0]["reason"].to_string();
    for said in [
        "succeeded",
        "2 of its outputs lie in `deskgrid-apart.tar`",
        "`pipe` is a named pipe",
    ] {
        assert!(reason.contains(said), "{said}: {reason}");
    }

    let into = grid.dir().join("back");
    let to = into.to_str().expect("UTF-8");
    let fetched = grid
        .deskgrid(["job", "fetch", &job, "--into", to])
        .expect_code(0);
    assert!(
        fetched.stderr.contains("`pipe` is a named pipe"),
        "{fetched:?}"
    );
    let good = std::fs::read_to_string(into.join("good.txt")).expect("fetched");
    assert_eq!(good, "good\n");
    let odd = std::fs::read_to_string(into.join("run_12:30.log")).expect("unpacked");
    assert_eq!(odd, "odd\n");
    let latest = std::fs::read_link(into.join("latest")).expect("a link");
    assert_eq!(latest, std::path::Path::new("good.txt"));
    assert!(!into.join("deskgrid-apart.tar").exists());
    assert!(
        !fetched.stderr.contains("deskgrid-apart.tar"),
        "all of it was put in place: {fetched:?}"
    );
}

#[test]
fn archives_that_stay_are_told_of_in_one_note_however_many_they_are() {
    let grid = Grid::with_worker();
    let script = "ln -s /etc/passwd out";
    let wanted = ["--array", "1-3", "--output-file", "**", "--wait"];
    let job = grid.submit(wanted.into_iter().chain(["--", "sh", "-c", script]));

    let into = grid.dir().join("back");
    let fetch = ["job", "fetch", &job, "--into"];
    let to = [into.to_str().expect("UTF-8")];
    let told = grid.deskgrid([&fetch[..], &to].concat()).expect_code(0);
    let told = told.stderr;
    let one = format!(
        "3 archives are kept, such as {}/1/deskgrid-apart.tar: `out`: ",
        to[0]
    );
    assert!(told.contains(&one), "{told}");
    assert_eq!(
        told.matches("lie in `deskgrid-apart.tar`").count(),
        1,
        "{told}"
    );
    assert_eq!(told.matches("deskgrid-apart.tar").count(), 2, "{told}");
}

#[test]
fn names_that_a_task_gave_its_outputs_do_not_act_on_the_terminal_of_who_fetches_them() {
    let grid = Grid::with_worker();
    let words = "mkfifo \"$(printf 'p\\033]0;x\\007\\nerror: p')\"; ln -s nowhere \"$(printf 'l\\033[2J\\nerror: l')\"";
    let job = grid.submit(["--output-file", "**", "--wait", "--", "sh", "-c", words]);

    let into = grid.dir().join("back");
    let fetch = [
        "job",
        "fetch",
        &job,
        "--into",
        into.to_str().expect("UTF-8"),
    ];
    let quiet = |said: &str| {
        let acts = |c: char| c.is_control() && c != '\n';
        assert!(!said.chars().any(acts), "{said:?}");
        said.lines()
            .filter(|line| line.starts_with("error: "))
            .count()
    };
    let fetched = grid.deskgrid(fetch).expect_code(0);
    assert!(fetched.stderr.contains("is a named pipe"), "{fetched:?}");
    assert_eq!(quiet(&fetched.stderr), 0, "{fetched:?}");

    let link = into.join("l\u{1b}[2J\nerror: l");
    std::fs::remove_file(&link).expect("it was unpacked");
    std::fs::write(&link, "mine").expect("writable");
    let refused = grid.deskgrid(fetch).expect_code(1);
    assert!(
        refused.stderr.contains("is there already and differs"),
        "{refused:?}"
    );
    assert_eq!(quiet(&refused.stderr), 1, "{refused:?}");
}

#[test]
fn the_list_of_fetched_files_has_the_unpacked_ones_under_their_own_names() {
    let grid = Grid::with_worker();
    let words = "echo good > good.txt; echo odd > run_12:30.log; ln -s good.txt latest; mkdir empty; \
                 printf x > \"$(printf 'caf\\351\\001')\"";
    let job = grid.submit(["--output-file", "**", "--wait", "--", "sh", "-c", words]);

    let path = |name: &str| grid.dir().join(name).to_str().expect("UTF-8").to_owned();
    let (into, manifest) = (path("back"), path("list.jsonl"));
    let fetch = ["job", "fetch", &job, "--into", &into, "--manifest"];
    for kept in [false, true] {
        grid.deskgrid([&fetch[..], &[manifest.as_str()]].concat())
            .expect_code(0);
        let listed = std::fs::read_to_string(&manifest).expect("it is there");
        let lines = listed.lines().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(line["kept"], kept, "{line}");
            let name = line["path"].as_str().expect("a path").to_owned();
            let name = name.strip_prefix(&format!("{into}/")).expect("below");
            (name.to_owned(), line)
        });
        let lines: std::collections::BTreeMap<String, serde_json::Value> = lines.collect();

        let names: Vec<&str> = lines.keys().map(String::as_str).collect();
        let odd = "caf\u{fffd}\u{1}";
        assert_eq!(names, [odd, "good.txt", "latest", "run_12:30.log"]);
        assert_eq!(lines["run_12:30.log"]["bytes"], 4);
        assert_eq!(lines["latest"]["link"], "good.txt");
        let whole = [into.as_bytes(), b"/caf\xe9\x01"].concat();
        assert_eq!(lines[odd]["path_bytes"], serde_json::json!(whole));
    }
}

#[test]
fn a_list_on_standard_output_has_it_for_itself() {
    let grid = Grid::with_worker();
    let job = grid.submit(["--output-file", "o", "--wait", "--", "touch", "o"]);
    let into = grid.dir().join("back");
    let to = into.to_str().expect("UTF-8");
    let fetch = |more: &[&str]| {
        let words = ["job", "fetch", &job, "--into", to, "--manifest", "-"];
        grid.deskgrid([&words[..], more].concat())
    };

    let refused = fetch(&["--output", "json"]).expect_code(2);
    assert!(
        refused.stderr.contains("name a file after --manifest"),
        "{refused:?}"
    );
    assert!(!into.exists(), "nothing was fetched");

    let file = into.join("o").to_str().expect("UTF-8").to_owned();
    for more in [&[][..], &["--output", "quiet"]] {
        let listed = fetch(more).expect_code(0);
        let line: serde_json::Value = serde_json::from_str(&listed.stdout).expect("one line");
        assert_eq!(line["path"], file, "{listed:?}");
        let said = listed.stderr.contains("1 file in");
        assert_eq!(said, more.is_empty(), "{listed:?}");
    }
}

#[test]
fn a_directory_of_thousands_of_files_comes_back_as_it_was() {
    let grid = Grid::with_worker();
    let words = "mkdir -p tree/empty tree/d; i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); : > tree/d/file-with-a-long-name-$i; done; \
                 ln -s d tree/link; printf x > tree/run; chmod +x tree/run";
    let job = grid.submit(["--output-tree", "tree", "--wait", "--", "sh", "-c", words]);

    let into = grid.fetch(&job, "back").join("tree");
    let files = std::fs::read_dir(into.join("link")).expect("the link leads to `d`");
    assert_eq!(files.count(), 3_000);
    assert!(into.join("empty").is_dir());
    use std::os::unix::fs::PermissionsExt;
    let run = std::fs::metadata(into.join("run")).expect("the program");
    assert_eq!(run.permissions().mode() & 0o111, 0o111);
    let there = std::fs::read_dir(into.parent().expect("a parent")).expect("fetched");
    assert_eq!(there.count(), 1, "nothing but the tree");
}

#[test]
fn directories_go_there_and_come_back_and_a_doubled_percent_sign_is_literal() {
    let grid = Grid::with_worker();
    grid.file("data/a.txt", "a");
    grid.file("data/deep/b.txt", "b");
    let words =
        "mkdir -p out/deep; cat data/a.txt data/deep/b.txt > out/deep/all; echo \"$0\" > out/said";
    let job = grid.submit([
        "--input",
        "data/",
        "--output-file",
        "out/",
        "--wait",
        "--",
        "sh",
        "-c",
        words,
        "%%{TASK_ID} is %{TASK_ID}",
    ]);

    let into = grid.fetch(&job, "back");
    let read = |name: &str| std::fs::read_to_string(into.join(name)).expect("fetched");
    assert_eq!(read("out/deep/all"), "ab");
    assert_eq!(read("out/said"), "%{TASK_ID} is 1\n");

    let printed = grid.submit(["--wait", "--", "echo", "hello"]);
    let nothing = grid
        .deskgrid([
            "job",
            "fetch",
            &printed,
            "--into",
            into.to_str().expect("UTF-8"),
        ])
        .expect_code(0);
    assert!(
        nothing
            .stderr
            .contains(&format!("job cat {printed} stdout")),
        "{nothing:?}"
    );
}

#[test]
fn fetched_directories_can_sort_by_number_and_a_list_names_the_item_of_each_file() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(4).start();
    let items: Vec<String> = (1..=12).map(|n| format!("frame \"{n}\"")).collect();
    let list = grid.file("list.txt", items.join("\n"));
    let list = list.to_str().expect("UTF-8");
    let job = grid.submit([
        "--each-line",
        list,
        "--output-file",
        "frame",
        "--wait",
        "--",
        "sh",
        "-c",
        "echo \"$0\" > frame",
        "%{ITEM}",
    ]);

    let path = |name: &str| grid.dir().join(name).to_str().expect("UTF-8").to_owned();
    let (into, manifest) = (path("frames"), path("frames.jsonl"));
    let fetch = ["job", "fetch", &job, "--into", &into, "--pad"];
    grid.deskgrid([&fetch[..], &["--manifest", &manifest]].concat())
        .expect_code(0);

    let mut names: Vec<String> = std::fs::read_dir(&into)
        .expect("it is there")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    names.sort();
    let expected: Vec<String> = (1..=12).map(|n| format!("{n:02}")).collect();
    assert_eq!(names, expected);

    let listed = std::fs::read_to_string(&manifest).expect("it is there");
    let lines = listed.lines().zip(&items).enumerate();
    let checked = lines.map(|(at, (line, item))| {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(line["task"], format!("{job}.{}", at + 1));
        assert_eq!(line["state"], "finished");
        assert_eq!(&line["item"], item);
        let file = line["path"].as_str().expect("a path");
        let content = std::fs::read_to_string(file).expect("fetched");
        assert_eq!(content.trim_end(), item);
    });
    assert_eq!(checked.count(), 12);
}

#[test]
fn the_list_of_fetched_files_takes_the_place_of_no_other_file() {
    let grid = Grid::with_worker();
    let words = ["--output-file", "out.txt", "--wait", "--", "sh", "-c"];
    let job = grid.submit([&words[..], &["echo result > out.txt"]].concat());

    let into = grid.dir().join("results");
    let to = into.to_str().expect("UTF-8");
    let fetch = |manifest: &str, more: &[&str]| {
        let words = ["job", "fetch", &job, "--into", to, "--manifest", manifest];
        grid.deskgrid([&words[..], more].concat())
    };
    let out = into.join("out.txt");
    let taken = out.to_str().expect("UTF-8");
    let refused = fetch(taken, &["--force"]).expect_code(1).stderr;
    assert!(
        refused.contains("is the place of an output of task"),
        "{refused}"
    );
    assert!(!into.exists(), "nothing was fetched");

    let mine = grid.file("list.jsonl", "mine\n");
    let list = mine.to_str().expect("UTF-8");
    let read = || std::fs::read_to_string(&mine).expect("it is there");
    let refused = fetch(list, &[]).expect_code(1).stderr;
    assert!(
        refused.contains("is there already, and is no list"),
        "{refused}"
    );
    assert_eq!((read().as_str(), into.exists()), ("mine\n", false));
    let at = grid.dir().join("no/such/list.jsonl");
    let at = at.to_str().expect("UTF-8");
    let refused = fetch(at, &[]).expect_code(1).stderr;
    let whole = format!("cannot write the list {at}: its directory is not there");
    assert!(refused.contains(&whole), "{refused}");
    let dir = grid.dir().to_str().expect("UTF-8");
    for force in [&[][..], &["--force"]] {
        let refused = fetch(dir, force).expect_code(1).stderr;
        assert!(refused.contains("is a directory"), "{refused}");
        assert!(!refused.contains("--force"), "{refused}");
    }
    assert!(!into.exists(), "nothing was fetched");

    fetch(list, &["--force"]).expect_code(0);
    assert!(read().contains("\"kept\":false"), "{}", read());
    fetch(list, &[]).expect_code(0);
    assert!(read().contains("\"kept\":true"), "{}", read());
    // One name serves the fetches of all jobs, though not what somebody has made of it.
    let next = grid.submit([&words[..], &["echo next > out.txt"]].concat());
    let elsewhere = grid.dir().join("next");
    let elsewhere = elsewhere.to_str().expect("UTF-8");
    let fetch_next = ["job", "fetch", &next, "--into", elsewhere];
    let fetch_next = [&fetch_next[..], &["--manifest", list]].concat();
    grid.deskgrid(&fetch_next).expect_code(0);
    assert!(read().contains(&format!("\"{next}.1\"")), "{}", read());
    let changed = read() + "mine\n";
    std::fs::write(&mine, &changed).expect("it can be written");
    grid.deskgrid(&fetch_next).expect_code(1);
    assert_eq!(read(), changed);
    let other = into.join("../results/out.txt");
    fetch(other.to_str().expect("UTF-8"), &[]).expect_code(1);
    let result = std::fs::read_to_string(&out).expect("fetched");
    assert_eq!(result, "result\n");
    fetch("/dev/null", &[]).expect_code(0);

    // The fetch makes the directory of its list.
    let third = grid.dir().join("third");
    let inside = third.join("list.jsonl");
    let names = [&third, &inside].map(|path| path.to_str().expect("UTF-8"));
    let words = [
        "job",
        "fetch",
        &next,
        "--into",
        names[0],
        "--manifest",
        names[1],
    ];
    grid.deskgrid(words).expect_code(0);
    assert!(inside.is_file());
}

#[test]
fn padded_numbers_are_as_long_in_each_fetch_of_a_job() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(4).start();
    let tasks = ["--array", "1,8,1000", "--output-file", "o", "--wait"];
    let job = grid.submit([&tasks[..], &["--", "touch", "o"]].concat());

    let into = grid.dir().join("padded");
    let to = into.to_str().expect("UTF-8");
    for (chosen, there) in [
        ("8", &["0008"][..]),
        ("1", &["0001", "0008"][..]),
        ("all", &["0001", "0008", "1000"][..]),
    ] {
        let fetch = ["job", "fetch", &job, "--into", to, "--pad"];
        grid.deskgrid([&fetch[..], &["--tasks", chosen]].concat())
            .expect_code(0);
        let entries = std::fs::read_dir(&into).expect("it is there");
        let names: BTreeSet<String> = entries
            .map(|entry| entry.expect("an entry").file_name())
            .map(|name| name.into_string().expect("UTF-8"))
            .collect();
        assert!(names.iter().eq(there), "{chosen}: {names:?}");
    }
}

#[test]
fn files_of_an_open_job_lie_below_their_task_from_the_first_fetch_on() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(4).start();
    let words = "echo $DESKGRID_TASK_ID > 2";
    let job = grid.submit(["--open", "--output-file", "2", "--", "sh", "-c", words]);

    let into = grid.dir().join("open");
    for tasks in 1..=2 {
        let done = |view: &serde_json::Value| (view["tasks"]["finished"] == tasks).then_some(());
        grid.until("all tasks are done", &["job", "info", &job], done);
        grid.fetch(&job, "open");

        let files = walkdir::WalkDir::new(&into).sort_by_file_name().into_iter();
        let files = files.map(|entry| entry.expect("can be read"));
        let files = files.filter(|entry| entry.file_type().is_file());
        let there: Vec<_> = files.map(walkdir::DirEntry::into_path).collect();
        let each: Vec<_> = (1..=tasks)
            .map(|task| into.join(format!("{task}/2")))
            .collect();
        assert_eq!(there, each);
        if tasks == 1 {
            grid.deskgrid(["submit", "--into", &job]).expect_code(0);
        }
    }

    let to = into.to_str().expect("UTF-8");
    let padded = grid.deskgrid(["job", "fetch", &job, "--into", to, "--pad"]);
    let said = padded.expect_code(0).stderr;
    assert!(said.contains("is open: with more tasks --pad"), "{said}");
}

#[test]
fn the_only_task_of_a_job_that_was_fetched_while_open_keeps_its_directory_once_it_is_closed() {
    let grid = Grid::with_worker();
    // A file of that name would meet the directory.
    let words = "echo out > 1";
    let job = grid.submit(["--open", "--output-file", "1", "--", "sh", "-c", words]);
    let done = |view: &serde_json::Value| (view["tasks"]["finished"] == 1).then_some(());
    grid.until("the task is done", &["job", "info", &job], done);
    let into = grid.fetch(&job, "kept");
    grid.deskgrid(["job", "close", &job]).expect_code(0);

    let to = into.to_str().expect("UTF-8");
    let said = grid.text(["job", "fetch", &job, "--into", to]);
    assert!(said.contains("1 was already there"), "{said}");
    assert!(into.join("1/1").is_file());
    assert!(grid.fetch(&job, "other").join("1").is_file());
}

#[test]
fn an_item_with_brackets_and_braces_names_its_output() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(4).start();
    let items = ["a[1]", "b[", "c]", "d{e}", "f!g,h"];
    let list = grid.file("list.txt", items.join("\n"));
    let list = list.to_str().expect("UTF-8");
    let job = grid.submit([
        "--each-line",
        list,
        "--output-file",
        "%{ITEM}.png",
        "--output-file",
        "%{ITEM}/*",
        "--wait",
        "--",
        "sh",
        "-c",
        "mkdir \"$0\" && echo one > \"$0.png\" && echo two > \"$0/x\"",
        "%{ITEM}",
    ]);

    let into = grid.fetch(&job, "back");
    for (task, item) in (1..).zip(items) {
        for (name, content) in [
            (format!("{item}.png"), "one\n"),
            (format!("{item}/x"), "two\n"),
        ] {
            let path = into.join(format!("{task}/{name}"));
            let found = std::fs::read_to_string(path).expect("fetched");
            assert_eq!(found, content, "{name}");
        }
    }
}

#[test]
fn a_stream_whose_file_has_no_place_is_named_and_costs_a_fetch_nothing_else() {
    let grid = Grid::with_worker();
    // What a pattern matches is known only once the task has run.
    let job = grid.submit([
        "--array",
        "1-2",
        "--output-file",
        "*.txt",
        "--stdout",
        "1.txt",
        "--wait",
        "--",
        "sh",
        "-c",
        "echo printed; echo output > $0.txt",
        "%{TASK_ID}",
    ]);

    let into = grid.dir().join("back");
    let to = into.to_str().expect("UTF-8");
    let fetch = ["job", "fetch", &job, "--into", to];
    let told = grid.deskgrid(fetch).expect_code(0).stderr;
    let words = format!("task {job}.1: its stdout is not fetched: another file of the task has");
    assert!(told.contains(&words), "{told}");
    let hint = format!("deskgrid job cat {job} stdout 1 shows it");
    assert!(told.contains(&hint), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");

    let read = |name: &str| std::fs::read_to_string(into.join(name)).expect("fetched");
    assert_eq!(
        [read("1/1.txt"), read("2/1.txt"), read("2/2.txt")],
        ["output\n", "printed\n", "output\n"]
    );

    let list = grid.file("items", "a\n/abs\n");
    let list = list.to_str().expect("UTF-8");
    let stdout = ["--stdout", "%{ITEM}.txt", "--", "true"];
    let refused = grid
        .deskgrid([&["submit", "--each-line", list][..], &stdout].concat())
        .expect_code(2);
    assert!(refused.stderr.contains("task 2"), "{refused:?}");
    let open = ["submit", "--open", "--each-line"];
    let good = grid.file("good", "a\n");
    let good = good.to_str().expect("UTF-8");
    let words = [&["--output", "quiet"][..], &open, &[good], &stdout].concat();
    let job = grid.deskgrid(words).expect_code(0);
    let job = job.stdout.trim();
    let refused = grid
        .deskgrid(["submit", "--into", job, "--each-line", list])
        .expect_code(2);
    assert!(refused.stderr.contains("task 3"), "{refused:?}");
}

#[test]
fn results_of_a_job_that_has_not_finished_are_fetched_and_told_from_whole_ones() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(4).start();
    let job = grid.submit([
        "--array",
        "1-4",
        "--output-file",
        "o.txt",
        "--",
        "sh",
        "-c",
        "echo $0 > o.txt; case $0 in 2) exit 9;; 4) exec sleep 600;; esac",
        "%{TASK_ID}",
    ]);
    grid.until(
        "three have ended, one runs",
        &["job", "info", &job],
        |info| (info["tasks"]["finished"] == 2 && info["tasks"]["failed"] == 1).then_some(()),
    );

    let path = |name: &str| grid.dir().join(name).to_str().expect("UTF-8").to_owned();
    let (into, manifest) = (path("partly"), path("partly.jsonl"));
    let fetch = ["job", "fetch", &job, "--into", &into];
    grid.file("mine.txt", "mine\n");
    let mine = path("mine.txt");
    let refused = grid.deskgrid([&fetch[..], &["--manifest", mine.as_str()]].concat());
    let below_a_file = grid.deskgrid(["job", "fetch", &job, "--into", &mine]);
    for told in [refused, below_a_file].map(|ended| ended.expect_code(1).stderr) {
        assert!(!told.contains("what it left is in"), "{told}");
    }
    let told = grid.deskgrid(fetch).expect_code(3).stderr;
    for words in [
        "1 of 4 tasks is not done yet".to_owned(),
        format!("task {job}.2 failed: what it left is in {into}/2"),
    ] {
        assert!(told.contains(&words), "`{words}` in: {told}");
    }

    let more = ["--output", "json", "--manifest", &manifest];
    let document = grid.deskgrid([&fetch[..], &more].concat()).expect_code(3);
    let document = document.json();
    assert_eq!(document["unfinished"]["failed"], "2", "{document}");
    assert_eq!(document["unfinished"]["running"], "4", "{document}");
    let listed = std::fs::read_to_string(&manifest).expect("it is there");
    let lines = listed
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let files = document["files"].as_array().expect("a list");
    for files in [files.clone(), lines.collect()] {
        let states: Vec<&str> = files
            .iter()
            .map(|file| file["state"].as_str().expect("a state"))
            .collect();
        assert_eq!(states, ["finished", "failed", "finished"]);
    }

    let whole = [&fetch[..], &["--tasks", "1,3"]].concat();
    let told = grid.deskgrid(whole).expect_code(0).stderr;
    assert_eq!(told, "");
}

#[test]
fn the_page_on_commands_lists_the_environment_of_a_task() {
    const PAGE: &str = include_str!("../../../../docs/commands.md");
    let section = PAGE.split("## The environment of a task").nth(1);
    let section = section.and_then(|rest| rest.split("\n## ").next());
    let rows = section.expect("the section").lines();
    let names = rows.filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let listed: BTreeSet<&str> = names
        .flat_map(|names| names.split(", "))
        .map(|name| name.trim_matches('`'))
        .collect();

    let grid = Grid::with_worker();
    let job = grid.submit(["--checkpoint", "1m", "--wait", "--", "/usr/bin/env"]);
    let printed = grid.deskgrid(["job", "cat", &job, "stdout"]).expect_code(0);
    let found: BTreeSet<&str> = printed
        .stdout
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    assert_eq!(listed, found);
}

#[test]
fn content_that_a_sender_still_collects_stays_beyond_the_grace_of_content_that_nobody_needs() {
    let grid = Grid::start_with("content_grace = \"4s\"\n");
    let identity = Identity::load(&grid.state("user").join("client")).expect("the user's");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");

    let client = runtime
        .block_on(Client::connect(&identity))
        .expect("a master");
    let put = |bytes: &[u8]| runtime.block_on(client.put_bytes(bytes)).expect("room");
    let collected = put(b"part of a large set of files");
    let announcing = runtime.block_on(async {
        let often = Duration::from_millis(100);
        UnnamedPuts::announced_every(client.connection(), often)
    });
    announcing.add(collected);
    let left_over = put(b"of a submission that did not come");

    let of_master = BlobStore::open(&grid.state("admin").join("master/content")).expect("content");
    assert!(of_master.has(&collected) && of_master.has(&left_over));
    let gone = |blob: &BlobRef| (!of_master.has(blob)).then_some(());
    let patience = Duration::from_secs(30);
    eventually("a sweep", patience, || gone(&left_over));
    assert!(of_master.has(&collected));

    drop(announcing);
    eventually("another sweep", patience, || gone(&collected));
}
