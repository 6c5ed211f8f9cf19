//! The needs of tasks, end to end: what hosts say they are, who runs what, what a task is
//! given, and what is said where nothing fits.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use tests::Grid;

/// Finishes the job, and returns what its task with this index printed.
fn printed(grid: &Grid, index: u32) -> String {
    grid.wait("last");
    let index = index.to_string();
    let cat = grid.deskgrid(["job", "cat", "last", "stdout", &index]);
    cat.expect_code(0).stdout.trim().to_owned()
}

fn script(grid: &Grid, name: &str, text: &str) -> String {
    let file = grid.file(name, format!("#!/bin/sh\n{text}\n"));
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&file, all).expect("it may be run");
    file.to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_host_says_what_it_is_and_lends_and_bears_labels_of_its_owner_and_of_admins() {
    let mut grid = Grid::start();
    grid.worker("pc")
        .slots(2)
        .config("labels = [\"lab3\"]")
        .start();

    let pc = grid.json(["host", "info", "pc"]);
    let system = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    assert_eq!(pc["platform"], Value::from(system));
    assert!(pc["cores_lent"].as_u64() >= Some(2), "{pc}");
    assert!(pc["memory_lent_mib"].as_u64() > Some(0), "{pc}");
    assert_eq!(pc["labels"], serde_json::json!(["lab3"]));

    let label = |words: &[&str]| {
        let all = [&["--output", "json", "host", "label", "pc"], words].concat();
        grid.admin(all).expect_code(0).json()
    };
    let labelled = label(&["fast", "new"]);
    assert_eq!(
        labelled["labels"],
        serde_json::json!(["fast", "lab3", "new"])
    );
    let labelled = label(&["--remove", "new", "--remove", "lab3"]);
    assert_eq!(
        labelled["labels"],
        serde_json::json!(["fast", "lab3"]),
        "the owner's stays"
    );

    grid.kill_master();
    grid.start_master();
    let back = |host: &Value| (host["state"] == "ready").then(|| host["labels"].clone());
    let labels = grid.until("it is back", &["host", "info", "pc"], back);
    assert_eq!(labels, serde_json::json!(["fast", "lab3"]));

    for (label, said) in [
        ("none", "pc has no label none"),
        ("lab3", "its owner has given it"),
    ] {
        let words = ["host", "label", "pc", "--remove", label];
        let same = grid.admin(words).expect_code(0);
        assert!(same.stderr.contains(said), "{label}: {same:?}");
    }

    grid.admin(["host", "label", "pc", "a b"]).expect_code(2);
    grid.admin(["host", "label", "nobody", "a"]).expect_code(1);
    grid.deskgrid(["host", "label", "pc", "a"]).expect_code(6);
}

#[test]
fn a_task_goes_where_its_label_is_as_soon_as_an_admin_gives_it() {
    let mut grid = Grid::start();
    grid.worker("pc").start();
    let warned = grid.deskgrid(["submit", "--needs", "label=lab3", "--", "true"]);
    assert!(
        warned
            .expect_code(0)
            .stderr
            .contains("does not have the label `lab3`"),
        "it is said at once"
    );

    let explained = grid.deskgrid(["job", "explain", "last"]);
    assert!(
        explained
            .expect_code(0)
            .stdout
            .contains("passed over: it does not have the label `lab3`"),
    );
    grid.admin(["host", "label", "pc", "lab3"]).expect_code(0);
    grid.wait("last");
}

#[test]
fn a_host_says_of_each_job_why_it_takes_no_more_and_only_of_jobs_that_the_asker_owns() {
    let mut grid = Grid::start();
    grid.worker("pc").slots(1).start();
    let explained = |who: &str| {
        grid.as_user(who, ["host", "explain", "pc"])
            .expect_code(0)
            .stdout
    };
    grid.until("it is ready", &["host", "explain", "pc"], |host| {
        (host["state"] == "ready").then_some(())
    });
    grid.login("another");
    let idle = explained("user");
    assert!(idle.contains("tasks may use 1 of 1 slot"), "{idle}");
    assert!(idle.contains("no job of yours is unfinished"), "{idle}");

    let unfit = grid.submit(["--array", "1-3", "--needs", "label=fast", "--", "true"]);
    let after = grid.submit(["--after", &unfit, "--", "true"]);
    let jobs = grid.json(["host", "explain", "pc"])["jobs"].clone();
    assert_eq!(jobs[0]["waiting"], 3, "{jobs}");
    let reason = |at: usize| jobs[at]["reason"].as_str().expect("words").to_owned();
    assert!(reason(0).starts_with("passed over: "), "{jobs}");
    assert!(reason(0).contains("fast"), "{jobs}");
    assert_eq!(jobs[1]["job"].to_string(), after, "{jobs}");
    let held = format!("ready: 1 of 1 slot free; waits for job {unfit}");
    assert!(reason(1).starts_with(&held), "{jobs}");

    assert!(explained("admin").contains("passed over: "));
    let another = explained("another");
    assert!(
        another.contains("no job of yours is unfinished"),
        "{another}"
    );
    let unknown = grid.deskgrid(["host", "explain", "no-such-pc"]);
    let unknown = unknown.expect_code(1).stderr;
    assert!(
        unknown.contains("there is no host `no-such-pc`"),
        "{unknown}"
    );
}

#[test]
fn memory_and_processors_are_counted_and_given_to_the_task() {
    let mut grid = Grid::start();
    grid.worker("pc").slots(4).start();
    let lent = &grid.json(["host", "info", "pc"])["memory_lent_mib"];
    let third = format!("mem={}M", lent.as_u64().expect("a number") / 3);

    // Three fit into the memory, beside a slot that stays free.
    grid.submit(["--array", "1-6", "--needs", &third, "--", "sleep", "300"]);
    let three = |job: &Value| (job["tasks"]["running"] == 3).then_some(());
    grid.until("three run", &["job", "info", "last"], three);
    let explained = grid.deskgrid(["job", "explain", "last"]).expect_code(0);
    assert!(
        explained.stdout.contains("a task needs"),
        "{}",
        explained.stdout
    );
    grid.submit(["--", "true"]);
    grid.wait("last");
    assert_eq!(grid.job("1")["tasks"]["running"], 3);
    grid.deskgrid(["job", "cancel", "1"]).expect_code(0);

    grid.submit([
        "--needs",
        "cpus=3",
        "--",
        "sh",
        "-c",
        "echo $OMP_NUM_THREADS",
    ]);
    assert_eq!(printed(&grid, 1), "3");
}

#[test]
fn a_task_that_takes_more_memory_than_it_asked_for_is_ended() {
    let mut grid = Grid::start();
    grid.worker("pc").start();
    let greedy = "x = bytearray(400 << 20); print(len(x))";
    let submit = |needs: &str| {
        grid.submit(["--needs", needs, "--", "python3", "-c", greedy]);
        let ended = grid.deskgrid(["job", "wait", "last", "--timeout", "60s"]);
        ended.code
    };
    assert_eq!(submit("mem=64M"), 3);
    assert_eq!(submit("mem=2G"), 0);

    // Its shell goes on and succeeds.
    let shell = format!("python3 -c '{greedy}'; echo on");
    grid.submit(["--needs", "mem=64M", "--", "sh", "-c", &shell]);
    grid.wait("last");
    let task = grid.json(["task", "info", "last.1"]);
    let warned = task["attempts"][0]["reason"].to_string();
    // Without control groups the program is refused the memory, and says so itself.
    let said = grid.deskgrid(["job", "cat", "last", "stderr"]).stdout;
    assert!(
        warned.contains("more memory than its 64 MiB") || said.contains("MemoryError"),
        "{task}: {said}"
    );
}

#[test]
fn graphics_processors_are_counted_and_hidden_from_those_that_ask_for_none() {
    let mut grid = Grid::start();
    // No test machine has one: this stands in the place of the driver's own program.
    let list = "echo 'Tesla T4, 15360'; echo 'Tesla T4, 15360'";
    let dir = script(&grid, "nvidia-smi", list);
    let dir = dir.trim_end_matches("/nvidia-smi");
    let path = format!("PATH={dir}:{}", std::env::var("PATH").unwrap_or_default());
    grid.wrap("pc", ["env", &path]);
    grid.worker("pc").slots(4).start();

    let pc = grid.json(["host", "info", "pc"]);
    assert_eq!(
        (&pc["gpus_lent"], &pc["gpus"][1]["name"]),
        (&2.into(), &"Tesla T4".into())
    );
    let show = "echo \"[$CUDA_VISIBLE_DEVICES]\"";
    grid.submit(["--needs", "gpu=2", "--", "sh", "-c", show]);
    assert_eq!(printed(&grid, 1), "[0,1]");
    grid.submit(["--", "sh", "-c", show]);
    assert_eq!(printed(&grid, 1), "[]");

    grid.submit(["--array", "1-4", "--needs", "gpu=1", "--", "sleep", "300"]);
    let two = |job: &Value| (job["tasks"]["running"] == 2).then_some(());
    grid.until("two run", &["job", "info", "last"], two);
}

#[test]
fn one_bag_runs_the_build_of_each_platform() {
    let mut grid = Grid::start();
    let linux = script(
        &grid,
        "solver-linux",
        "echo linux $1 $DESKGRID_PLATFORM; sleep 0.2",
    );
    // Said of a Linux host, so that the bag needs no Windows: what it runs is a script as well.
    let windows = script(
        &grid,
        "solver.exe",
        "echo windows $1 $DESKGRID_PLATFORM; sleep 0.2",
    );
    grid.worker("linux").start();
    grid.worker("windows")
        .config("platform = \"windows-x86_64\"")
        .start();
    grid.worker("arm")
        .config("platform = \"linux-aarch64\"")
        .start();

    let here = format!("linux-x86_64={linux}:solver");
    let there = format!("windows-x86_64={windows}:solver");
    let files = ["--input", &here, "--input", &there];
    let command = ["--", "./solver", "%{PLATFORM}"];
    let words = [&["--array", "1-12"][..], &files, &command].concat();
    grid.submit(words);

    let said: Vec<String> = (1..=12).map(|task| printed(&grid, task)).collect();
    let both = [
        "linux linux-x86_64 linux-x86_64",
        "windows windows-x86_64 windows-x86_64",
    ];
    assert!(
        said.iter().all(|line| both.contains(&line.as_str())),
        "{said:?}"
    );
    assert!(
        both.iter().all(|line| said.iter().any(|said| said == line)),
        "{said:?}"
    );

    grid.submit([&["--array", "1-9"][..], &files[2..], &["--", "sleep", "9"]].concat());
    let explained = grid.deskgrid(["job", "explain", "last"]).expect_code(0);
    assert!(
        explained
            .stdout
            .contains("no linux-aarch64 build of the input `solver`"),
        "{}",
        explained.stdout
    );
}

#[test]
fn needs_that_make_no_sense_are_refused_with_what_to_write_instead() {
    let grid = Grid::start();
    for (needs, said) in [
        ("ram=4G", "is nothing that a job can need"),
        ("mem=4", "write a number with M, G or T"),
        ("cpus=0", "asks for nothing"),
        ("os=windoze", "say one of linux, windows"),
        ("label=a b", "is no label"),
        ("cpus=2,cpus=3", "is given twice"),
    ] {
        let refused = grid.deskgrid(["submit", "--needs", needs, "--", "true"]);
        let refused = refused.expect_code(2);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
}

#[test]
fn four_small_tasks_stand_still_for_a_large_one_and_go_on_after_it() {
    let mut grid = Grid::start();
    grid.worker("pc").unconfined().slots(4).start();
    let waits_for = |name: &str| {
        let file = grid.dir().join(name);
        format!("while test ! -e {}; do sleep 0.05; done", file.display())
    };
    let counted = |state: &'static str, count: u64| {
        move |info: &Value| (info["tasks"][state] == count).then_some(())
    };

    let small = waits_for("gate");
    let small = grid.submit(["--disclose", "--array", "1-4", "--", "sh", "-c", &small]);
    for task in 1..=4 {
        grid.until_it_runs(&format!("{small}.{task}"));
    }
    let large = waits_for("hold");
    let large = grid.submit(["--needs", "cpus=4", "--", "sh", "-c", &large]);
    grid.until_it_runs(&format!("{large}.1"));
    let still = counted("suspended", 4);
    grid.until("they stand still", &["job", "info", &small], still);
    let told = grid.deskgrid(["job", "explain", &small]).expect_code(0);
    let why = format!("frozen on its host, made room for task {large}.1");
    assert!(told.stdout.contains(&why), "{}", told.stdout);

    grid.file("gate", "");
    grid.file("hold", "");
    for job in [&large, &small] {
        grid.wait(job);
    }
    let small = grid.job(&small);
    assert_eq!(small["attempts"], 4, "each went on where it was: {small}");
}
