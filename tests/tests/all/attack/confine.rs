//! Tasks against the host that they run on, as a worker is by default. What each level stops, act
//! by act, is tested in the worker's own room.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tests::Grid;

use crate::e2e::attempts;

/// A grid whose worker confines as it does by default; none where this machine has no namespaces.
fn by_default() -> Option<Grid> {
    let mut grid = Grid::start();
    grid.worker("h1").start();
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
    grid.deskgrid(["job", "cat", &job, "stdout"])
        .expect_code(0)
        .stdout
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
    ] {
        let input = input.to_str().expect("UTF-8");
        let job = grid.submit(["--retries", "0", "--input", input, "--", program]);
        grid.deskgrid(["job", "wait", &job]).expect_code(3);

        let tried = attempts(&grid, &format!("{job}.1"));
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
fn a_program_of_several_processes_shares_memory_and_ends_with_its_own_exit_code() {
    let Some(grid) = by_default() else { return };
    let pool = "[ -e /usr/bin/python3 ] || { echo '[1, 2]'; exit; }; exec /usr/bin/python3 -c 'import multiprocessing as m\n\
                if __name__ == \"__main__\": print(m.Pool(2).map(abs, [-1, 2]))'";
    assert_eq!(says(&grid, pool), "[1, 2]\n");
    let job = grid.submit(["--", "sh", "-c", "exit 1"]);
    grid.deskgrid(["job", "wait", &job]).expect_code(3);
    assert_eq!(attempts(&grid, &format!("{job}.1"))[0]["exit_code"], 1);
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
