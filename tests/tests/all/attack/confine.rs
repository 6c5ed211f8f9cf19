//! Tasks against the host that they run on, as a worker is by default. What each level stops, act
//! by act, is tested in the worker's own room.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tests::Grid;

/// A grid whose worker confines as it does by default; none where this machine has no namespaces.
fn by_default() -> Option<Grid> {
    let grid = Grid::with_worker();
    let host = grid.json(["host", "info", "h1"]);
    if host["confinement"] == "namespace" {
        return Some(grid);
    }
    println!(
        "SKIPPED: tasks are confined by {} here: {}",
        host["confinement"],
        grid.logs()
    );
    None
}

fn says(grid: &Grid, script: &str) -> String {
    let job = grid.submit(["--wait", "--", "sh", "-c", script]);
    grid.text(["job", "cat", &job, "stdout"])
}

#[test]
fn a_task_is_not_root_and_sees_no_process_of_others_and_sets_nothing_of_the_kernels() {
    let Some(grid) = by_default() else { return };
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").expect("it can be read");
    let act = "id -u; ls -d /proc/[0-9]* | wc -l; (echo '|/pwn' > /proc/sys/kernel/core_pattern) 2>/dev/null && echo set; true";
    let said = says(&grid, act);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() == 2 && lines[0] != "0", "{said}");
    assert!(
        lines[1].parse::<u32>().is_ok_and(|seen| seen < 10),
        "{said}"
    );

    assert_eq!(
        fs::read_to_string("/proc/sys/kernel/core_pattern").expect("it can be read"),
        pattern
    );
}

#[test]
fn a_task_cannot_end_its_worker_nor_lock_it_out_of_its_directory() {
    let Some(mut grid) = by_default() else { return };
    let pid = grid.running("h1").pid();
    let home = grid.state("h1").join("worker");
    let mode = |path: &std::path::Path| {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
    };
    let before = (mode(&home), mode(&home.join("identity")));
    let act = format!(
        "prlimit --pid {pid} --fsize=1:1 && echo limited; kill -KILL {pid} && echo killed; \
         renice 19 {pid} && echo slowed; chmod 0 {0} {0}/identity {0}/spool && echo locked; true",
        home.display()
    );
    assert_eq!(says(&grid, &act), "");

    assert_eq!((mode(&home), mode(&home.join("identity"))), before);
    assert_eq!(says(&grid, "echo alive"), "alive\n");
    assert_eq!(grid.running("h1").pid(), pid);
}

#[test]
fn why_a_program_could_not_be_started_is_said_as_well_as_without_namespaces() {
    let Some(grid) = by_default() else { return };
    let script = grid.file("script", "#!/no/such/interpreter\n");
    let text = grid.file("text", "no program\n");

    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its mode can be set");
    fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).expect("its mode can be set");

    let interpreter = grid.dir().join("sh");
    fs::copy("/bin/sh", &interpreter).expect("a shell can be copied");
    let blind = grid.file("blind", format!("#!{}\n", interpreter.display()));
    fs::set_permissions(&blind, fs::Permissions::from_mode(0o755)).expect("its mode can be set");

    let hidden = grid.dir().join("script");
    for (input, program, reason) in [
        (
            &script,
            "./script",
            "the interpreter or loader that it names is not",
        ),
        (&text, "./text", "is not a program of this system"),
        (
            &text,
            "./absent",
            "does not exist below the attempt's directory",
        ),
        (&text, "/no/such/program", "does not exist on this host"),
        (&text, hidden.to_str().expect("UTF-8"), "`readable_paths`"),
        (&blind, "./blind", "`readable_paths`"),
    ] {
        let input = input.to_str().expect("UTF-8");
        let job = grid.submit(["--retries", "0", "--input", input, "--", program]);
        grid.deskgrid(["job", "wait", &job]).expect_code(3);

        let tried = grid.attempts(&format!("{job}.1"));
        assert!(
            tried[0].to_string().contains(reason),
            "{program}: {tried:?}"
        );
        assert_eq!(
            tried[0]["exit_code"],
            serde_json::Value::Null,
            "{program}: {tried:?}"
        );
    }
}

#[test]
fn a_task_ends_with_the_exit_code_of_its_program() {
    let Some(grid) = by_default() else { return };
    let job = grid.submit(["--", "sh", "-c", "exit 1"]);
    grid.deskgrid(["job", "wait", &job]).expect_code(3);
    assert_eq!(grid.attempts(&format!("{job}.1"))[0]["exit_code"], 1);
}

#[test]
fn memory_of_a_task_is_bounded_without_a_control_group() {
    let mut grid = Grid::start();
    let limits = "memory_limit_bytes = 50000000\n";
    grid.worker("h1").config(limits).start();
    if grid.json(["host", "info", "h1"])["confinement"] != "namespace" {
        println!("SKIPPED: no namespaces here");
        return;
    }

    let sizes = "df -B1 --output=size /tmp /dev/shm | tail -n 2; echo x > /dev/null && echo null";
    let said = says(&grid, sizes);
    let lines: Vec<&str> = said.lines().collect();
    let bounded = |size: &str| {
        size.trim()
            .parse::<u64>()
            .is_ok_and(|size| size <= 50_003_968)
    };
    assert!(
        lines.len() == 3 && bounded(lines[0]) && bounded(lines[1]),
        "{said}"
    );

    let elsewhere =
        "for dir in / /dev /etc /usr; do (touch $dir/x) 2>/dev/null && echo $dir; done; true";
    assert_eq!(says(&grid, elsewhere), "", "nothing is written elsewhere");
}

/// The interpreter that tasks of every level can read.
const PYTHON: &str = "/usr/bin/python3";
/// A pool of processes, which needs a shared semaphore; says the kind of error without one.
const POOL: &str = r#"
import multiprocessing as m
if __name__ == "__main__":
    try:
        print(m.Pool(2).map(abs, [-1, 2]))
    except OSError as error:
        print(type(error).__name__)
"#;

/// The levels at which this machine can confine tasks, for a worker with this configuration.
fn levels(grid: &Grid, config: &str) -> Vec<String> {
    let file = grid.file("levels.toml", config);
    let file = file.to_str().expect("UTF-8");
    let found = grid.as_user("anybody", ["--output", "json", "doctor", "--config", file]);
    let found = found.json();
    let there = |finding: &&serde_json::Value| {
        let says = finding["what"].as_str().unwrap_or_default();
        says == "available" || says.starts_with("available, but")
    };
    let all = found["findings"].as_array().expect("findings").iter();
    all.filter(there)
        .filter_map(|finding| finding["check"].as_str()?.strip_prefix("confinement: "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn multiprocessing_works_at_each_level_but_landlock() {
    if !Path::new(PYTHON).exists() {
        println!("SKIPPED: Python's multiprocessing was tried at no level: there is no {PYTHON}");
        return;
    }

    let mut grid = Grid::start();
    let account = "account = \"nobody\"\nprocesses_limit = 0\n";
    let levels = levels(&grid, account);
    assert!(levels.contains(&"process".to_owned()), "{levels:?}");

    for level in ["process", "landlock", "namespace", "account"] {
        if !levels.iter().any(|there| there == level) {
            println!("SKIPPED: Python's multiprocessing at {level}: this machine lacks that level");
            continue;
        }

        let config = format!("confinement = \"{level}\"\n{account}");
        grid.worker(level).config(&config).start();
        assert_eq!(grid.json(["host", "info", level])["confinement"], level);
        let job = grid.submit(["--wait", "--", PYTHON, "-c", POOL]);
        let said = grid.deskgrid(["job", "cat", &job, "stdout"]).expect_code(0);

        // There is no /dev/shm at this level, as docs/confinement.md says.
        let expected = match level {
            "landlock" => "PermissionError\n",
            _ => "[1, 2]\n",
        };
        assert_eq!(said.stdout, expected, "{level}");
        grid.kill_worker(level);
        grid.admin(["host", "drain", level]).expect_code(0);
    }
}
