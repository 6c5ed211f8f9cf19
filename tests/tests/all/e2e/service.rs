//! The worker as a service: what would be done is shown, what is done is whole, and nothing of it
//! stays.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tests::Grid;

/// Every file below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let all = walkdir::WalkDir::new(dir)
        .sort_by_file_name()
        .into_iter()
        .flatten();
    all.filter(|entry| entry.file_type().is_file())
        .map(walkdir::DirEntry::into_path)
        .collect()
}

/// Runs `worker VERB` for a PC whose root is `root`, without a state directory given.
fn on_pc(grid: &Grid, words: &[&str]) -> tests::Output {
    let mut command = tests::clean("deskgrid", grid.dir());
    tests::Started::new(command.current_dir(grid.dir()).args(words)).finish()
}

#[test]
fn a_service_is_shown_before_anything_is_done() {
    let grid = Grid::start();
    let state = std::path::Path::new("/srv/pc-of-a-test");
    let dir = state.to_str().expect("UTF-8");
    let shown = on_pc(&grid, &["--dir", dir, "worker", "install", "--slots", "2"])
        .expect_code(0)
        .stdout;

    for word in [
        "[Service]",
        "ExecStart=",
        dir,
        "--slots 2",
        "systemctl enable",
        "--yes",
    ] {
        assert!(shown.contains(word), "{word} in: {shown}");
    }

    assert!(!state.exists(), "nothing was changed");
    on_pc(&grid, &["--dir", dir, "worker", "uninstall"]).expect_code(0);
}

#[test]
fn a_state_directory_that_the_unit_hides_is_refused_with_another_one() {
    let grid = Grid::start();
    for hidden in ["/tmp", "/var/tmp", "/home", "/root", "/run/user"] {
        let dir = format!("{hidden}/grid");
        let install = ["--dir", &dir, "worker", "install"];
        let said = on_pc(&grid, &install).expect_code(2).stderr;
        let why = format!("its unit hides {hidden}\n");
        for words in [why.as_str(), "DESKGRID_DIR", "/var/lib/deskgrid", "--user"] {
            assert!(said.contains(words), "{words} in: {said}");
        }
        on_pc(&grid, &["--dir", &dir, "worker", "install", "--user"]).expect_code(0);
    }
}

#[test]
fn a_service_is_installed_and_removed_as_a_whole() {
    let grid = Grid::start();
    let root = grid.dir().join("pc");
    let pc = root.to_str().expect("UTF-8");
    let settings = grid.file("owner.toml", "slots = 1\n");
    let token = grid.token("worker");
    let settings = settings.to_str().expect("UTF-8").to_owned();

    let install = [
        "worker", "install", "--root", pc, "--yes", "--config", &settings,
    ];
    let refused = on_pc(&grid, &install).expect_code(2);
    assert!(refused.stderr.contains("--join"), "{refused:?}");

    let joined = [&install[..], &["--master", grid.listen(), "--join", &token]].concat();
    on_pc(&grid, &joined).expect_code(0);

    let unit = root.join("etc/systemd/system/deskgrid-worker.service");
    assert!(
        !fs::read_to_string(&unit)
            .expect("the unit is there")
            .contains(&token),
        "the token is in no file"
    );

    assert_eq!(
        fs::read_to_string(root.join("etc/deskgrid/worker.toml")).expect("a copy"),
        "slots = 1\n"
    );
    assert!(
        root.join("var/lib/deskgrid/worker/identity/link.toml")
            .is_file(),
        "it has joined"
    );
    verify(&root);

    // A second time brings a new program and needs no token. It keeps another address of the grid.
    let both = format!("{},127.0.0.1:1", grid.listen());
    on_pc(&grid, &[&install[..], &["--master", &both]].concat()).expect_code(0);
    let link = root.join("var/lib/deskgrid/worker/identity/link.toml");
    let link = fs::read_to_string(link).expect("it has joined");
    assert!(link.contains(&both), "{link}");

    // Settings may come through a pipe, which gives what is in it once.
    let piped = [
        "worker",
        "install",
        "--root",
        pc,
        "--yes",
        "--config",
        "/dev/stdin",
    ];
    let mut command = tests::clean("deskgrid", grid.dir());
    command.current_dir(grid.dir()).args(piped);
    tests::Started::fed(&mut command, "slots = 2\n")
        .finish()
        .expect_code(0);
    let copied = fs::read_to_string(root.join("etc/deskgrid/worker.toml"));
    assert_eq!(copied.expect("a copy"), "slots = 2\n");

    let shown = on_pc(&grid, &["worker", "uninstall", "--root", pc, "--yes"])
        .expect_code(0)
        .stdout;
    assert!(shown.contains("removed"), "{shown}");
    assert_eq!(files(&root), Vec::<PathBuf>::new(), "nothing stays");

    let again = on_pc(&grid, &["worker", "uninstall", "--root", pc, "--yes"])
        .expect_code(0)
        .stdout;
    assert!(
        again.contains("nothing of a worker is installed"),
        "{again}"
    );
}

#[test]
fn who_removes_a_service_of_ones_own_is_told_that_lingering_stays() {
    let grid = Grid::start();
    let dir = |name: &str| grid.dir().join(name);
    let looked = || {
        let mut command = tests::clean("deskgrid", grid.dir());
        command
            .env("XDG_CONFIG_HOME", dir("config"))
            .env("XDG_DATA_HOME", dir("data"));
        command.args(["worker", "uninstall", "--user"]);
        tests::Started::new(&mut command)
            .finish()
            .expect_code(0)
            .stderr
    };
    assert_eq!(looked(), "", "there is nothing");

    grid.file("config/systemd/user/deskgrid-worker.service", "[Service]\n");
    let told = looked();
    assert!(told.contains("loginctl disable-linger"), "{told}");
}

#[test]
fn a_service_for_a_pc_that_nobody_sits_at_computes_at_once() {
    let grid = Grid::start();
    let root = grid.dir().join("pc");
    let token = grid.token("worker");
    grid.file("owner.toml", "slots = 1\n[owner]\nfirst_watch = \"1h\"\n");
    let to = ["worker", "install", "--root", "pc", "--yes", "--dedicated"];
    let join = ["--master", grid.listen(), "--join", &token];
    on_pc(
        &grid,
        &[&to[..], &["--config", "owner.toml"], &join].concat(),
    )
    .expect_code(0);

    let unit = fs::read_to_string(root.join("etc/systemd/system/deskgrid-worker.service"));
    let unit = unit.expect("the unit is there");
    let line = unit.lines().find_map(|l| l.strip_prefix("ExecStart="));
    let words = line.expect("a command").split(' ').map(|word| {
        let path = word.strip_prefix('/').map(|path| root.join(path));
        path.unwrap_or_else(|| word.into()).into_os_string()
    });
    let words: Vec<_> = words.collect();

    let mut service = Command::new(&words[0]);
    service.args(&words[1..]).args(["--tied"]);
    let _service = tests::Started::server(&mut service, &grid.dir().join("service.log"));
    grid.submit(["--wait", "--", "true"]);
}

#[cfg(unix)]
#[test]
fn a_service_installed_under_a_strict_umask_is_open_to_its_account_and_its_keys_are_not() {
    use std::os::unix::fs::PermissionsExt;

    let grid = Grid::start();
    let root = grid.dir().join("pc");
    let token = grid.token("worker");
    grid.file("owner.toml", "slots = 1\n");
    let before = root.join("var");
    fs::create_dir_all(&before).expect("a directory");
    fs::set_permissions(&before, fs::Permissions::from_mode(0o700)).expect("a mode");

    let plain = tests::clean("deskgrid", grid.dir());
    let mut strict = Command::new("sh");
    strict
        .args(["-c", "umask 077; exec \"$0\" \"$@\""])
        .arg(plain.get_program())
        .args(["worker", "install", "--root", "pc", "--yes"])
        .args(["--config", "owner.toml", "--master", grid.listen()])
        .args(["--join", &token])
        .current_dir(grid.dir());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => strict.env(name, value),
            None => strict.env_remove(name),
        };
    }
    let installed = tests::Started::new(&mut strict).finish().expect_code(0);

    let mode = |path: &str| {
        let meta = fs::metadata(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        format!("{path} {:o}", meta.permissions().mode() & 0o777)
    };
    for dir in [
        "usr/local/lib/deskgrid",
        "usr",
        "etc/deskgrid",
        "etc/systemd/system",
        "etc/sysusers.d",
        "var/lib/deskgrid",
        "usr/local/lib/deskgrid/deskgrid",
    ] {
        assert_eq!(mode(dir), format!("{dir} 755"));
    }
    for file in [
        "etc/deskgrid/worker.toml",
        "etc/systemd/system/deskgrid-worker.service",
        "etc/systemd/system/deskgrid.slice",
        "etc/sysusers.d/deskgrid.conf",
    ] {
        assert_eq!(mode(file), format!("{file} 644"));
    }

    let identity = "var/lib/deskgrid/worker/identity";
    assert_eq!(mode(identity), format!("{identity} 700"));
    for key in files(&root.join(identity)) {
        assert!(
            link::files::is_private(&key).is_ok_and(|it| it),
            "{}",
            key.display()
        );
    }

    // What an admin has closed since stays closed.
    let settings = root.join("etc/deskgrid/worker.toml");
    fs::set_permissions(&settings, fs::Permissions::from_mode(0o640)).expect("a mode");
    let again = ["worker", "install", "--root", "pc", "--yes"];
    on_pc(&grid, &[&again[..], &["--config", "owner.toml"]].concat()).expect_code(0);
    assert_eq!(
        mode("etc/deskgrid/worker.toml"),
        "etc/deskgrid/worker.toml 640"
    );

    assert_eq!(mode("var"), "var 700", "it was there, closed");
    let said = &installed.stderr;
    assert!(
        said.contains("chmod o+x") && said.contains("pc/var "),
        "{said}"
    );
    assert!(!said.contains("pc/usr"), "{said}");
}

#[test]
fn the_service_of_a_package_is_left_to_the_package() {
    let grid = Grid::start();
    let root = grid.dir().join("pc");
    let token = grid.token("worker");
    let join = ["--master", grid.listen(), "--join", &token];
    let settings = "pc/etc/deskgrid/worker.toml";
    grid.file(settings, "slots = 1\n");
    let there = |unit: &str| grid.file(&format!("pc/{unit}"), "[Service]\n");

    let dpkg = "pc/var/lib/dpkg/info/deskgrid-worker.list";
    for (unit, by_dpkg, removal) in [
        (
            "usr/lib/systemd/system/deskgrid-worker.service",
            false,
            "dnf remove deskgrid-worker",
        ),
        (
            "lib/systemd/system/deskgrid-worker.service",
            true,
            "apt purge deskgrid-worker",
        ),
    ] {
        let unit = there(unit);
        if by_dpkg {
            grid.file(dpkg, "/.\n");
        }

        let before = files(&root);
        let place = ["--root", "pc", "--yes"];
        let install = [&["worker", "install"][..], &place, &join].concat();
        let uninstall = [&["worker", "uninstall"][..], &place].concat();
        for words in [&install, &uninstall] {
            let said = on_pc(&grid, words).expect_code(1).stderr;
            assert!(
                said.contains(removal) && said.contains("deskgrid-worker.service"),
                "{said}"
            );
        }
        assert_eq!(files(&root), before, "nothing was changed");

        // A person's own worker is another service.
        let own = [&uninstall[..], &["--user"]].concat();
        on_pc(&grid, &own).expect_code(0);
        fs::remove_file(unit).expect("the package is removed");
    }

    // What is left of a worker can be removed once the package is.
    on_pc(&grid, &["worker", "uninstall", "--root", "pc", "--yes"]).expect_code(0);
    assert!(!grid.dir().join(settings).exists());
}

#[test]
fn what_hides_the_service_of_a_package_is_removed_and_the_rest_is_the_packages() {
    let grid = Grid::start();
    let root = grid.dir().join("pc");
    let token = grid.token("worker");
    grid.file("owner.toml", "slots = 1\n");
    let install = ["worker", "install", "--root", "pc", "--yes"];
    let join = ["--master", grid.listen(), "--join", &token];
    on_pc(
        &grid,
        &[&install[..], &["--config", "owner.toml"], &join].concat(),
    )
    .expect_code(0);

    grid.file(
        "pc/usr/lib/systemd/system/deskgrid-worker.service",
        "[Service]\n",
    );
    let uninstall = ["worker", "uninstall", "--root", "pc", "--yes"];
    on_pc(&grid, &uninstall).expect_code(0);
    for path in [
        "etc/systemd/system/deskgrid-worker.service",
        "etc/systemd/system/deskgrid.slice",
        "usr/local/lib/deskgrid/deskgrid",
    ] {
        assert!(!root.join(path).exists(), "{path}");
    }
    for path in [
        "usr/lib/systemd/system/deskgrid-worker.service",
        "etc/deskgrid/worker.toml",
        "var/lib/deskgrid/worker/identity/link.toml",
    ] {
        assert!(root.join(path).exists(), "{path}");
    }

    let said = on_pc(&grid, &uninstall).expect_code(1).stderr;
    assert!(said.contains("remove deskgrid-worker"), "{said}");
}

/// Has systemd look at the installed unit.
fn verify(root: &Path) {
    // What the unit leans on is there on a PC; here only the unit itself is of interest.
    let mut command = Command::new("systemd-analyze");
    command
        .args(["verify", "--man=no", "--recursive-errors=no", "--root"])
        .arg(root);
    command
        .args(["deskgrid-worker.service", "deskgrid.slice"])
        .stdin(Stdio::null());

    match command.output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let ours: Vec<&str> = said
                .lines()
                .filter(|line| line.contains("deskgrid"))
                .collect();
            assert!(
                output.status.success() && ours.is_empty(),
                "systemd does not like the unit: {said}"
            );
        }
        Err(error) => {
            println!("SKIPPED: systemd-analyze does not run here ({error}; Debian: systemd)");
        }
    }
}

#[test]
fn the_doctor_says_whether_a_worker_runs_here() {
    fn said(grid: &Grid, who: &str) -> (String, String) {
        let looked = grid.as_user(who, ["--output", "json", "doctor", "--dedicated"]);
        let findings = looked.json()["findings"].as_array().cloned();
        let mut findings = findings.expect("findings").into_iter();
        let found = findings.find(|finding| finding["check"] == "worker");
        let found = found.expect("it is looked for");
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        (text("what"), text("do"))
    }

    let mut grid = Grid::start();
    grid.worker("h1").dedicated().start();
    let (what, _) = said(&grid, "h1");
    assert!(what.contains("runs as h1"), "{what}");
    assert!(what.contains("slots"), "{what}");
    let (what, todo) = said(&grid, "user");
    assert!(what.contains("none has joined"), "{what}");
    assert_eq!(todo, "");

    grid.kill_worker("h1");
    let (what, todo) = said(&grid, "h1");
    assert!(what.contains("no worker runs in"), "{what}");
    assert!(todo.contains("deskgrid worker start"), "{todo}");
}

#[test]
fn the_doctor_reports_faults_with_their_cure() {
    let mut grid = Grid::start();
    // What sensors see on this machine is not this test's affair.
    let settings = "[sensors]\nevdev = \"off\"\nlogind = \"off\"\nx11 = \"off\"\nload = \"off\"\npower = \"off\"\n";
    let settings = grid.file("sensors.toml", settings);

    grid.worker("h1").start();
    let doctor = [
        "--output",
        "json",
        "doctor",
        "--config",
        settings.to_str().expect("UTF-8"),
    ];

    let of = |output: &tests::Output, check: &str| {
        let value = output.json();
        let all = value["findings"].as_array().expect("findings").clone();
        all.into_iter()
            .find(|finding| finding["check"] == check)
            .unwrap_or_else(|| panic!("{check} in {value}"))
    };

    let well = grid.as_user("h1", doctor).expect_code(0);
    assert_eq!(
        (&well.json()["wrong"], &well.json()["schema"]),
        (&false.into(), &1.into())
    );
    for check in [
        "worker: certificate",
        "worker: master over UDP",
        "worker: master over TCP",
        "worker: clock",
        "worker: accepted",
        "sensor: memory",
        "disk",
    ] {
        assert_ne!(of(&well, check)["severity"], "wrong", "{check}: {well:?}");
    }

    assert_eq!(
        grid.json(["host", "info", "h1"])["state"],
        "ready",
        "the worker that runs was not disturbed"
    );
    grid.as_user("user", doctor).expect_code(0);

    // Where nobody is looked for, it does not matter what sensors see.
    let dedicated = grid.as_user("h1", ["--output", "json", "doctor", "--dedicated"]);
    let what = of(&dedicated.expect_code(0), "sensors")["what"].to_string();
    assert!(what.contains("none is needed"), "{what}");

    grid.kill_master();
    let ill = grid.as_user("h1", doctor).expect_code(1);
    let master = of(&ill, "worker: master over UDP");
    assert_eq!(
        (&ill.json()["wrong"], &master["severity"]),
        (&true.into(), &"wrong".into())
    );
    assert!(
        master["do"]
            .as_str()
            .is_some_and(|todo| todo.contains("UDP")),
        "{master}"
    );

    let text = grid
        .as_user("h1", ["doctor", "--config", "sensors.toml"])
        .expect_code(1)
        .stdout;
    assert!(text.contains("WRONG") && text.contains("try:"), "{text}");
    grid.as_user("h1", ["doctor", "--config", "nowhere.toml"])
        .expect_code(2);
}
