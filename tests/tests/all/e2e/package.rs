//! Installers for a site: `deskgrid package` puts a token into a plain package of the worker, and a
//! PC on which it is installed joins at its first start. Real installations are `.ci/packages`'s.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tests::{Grid, Output, Started, eventually, program};

const PATIENCE: Duration = Duration::from_secs(60);

/// Whether a tool that installers need is missing; says so.
fn lacks(tool: &str, package: &str) -> bool {
    let missing = Command::new(tool).arg("--version").output().is_err();
    if missing {
        println!("SKIPPED: there is no {tool} (Debian: {package})");
    }
    missing
}

/// Runs a command of the system, which has to succeed.
#[track_caller]
fn run(command: &mut Command) -> Output {
    Started::new(command).finish().expect_code(0)
}

/// The plain archive of the worker in `dist`, as `./release` packs it. Its program is the one under
/// test.
fn plain_archive(grid: &Grid) {
    let top = "dist/tree/deskgrid-worker-1.0.0-linux-x86_64";
    grid.file(
        &format!("{top}/lib/systemd/system/deskgrid-worker.service"),
        "[Service]\nExecStart=/usr/bin/deskgrid-worker\n[Install]\nWantedBy=multi-user.target\n",
    );
    grid.file(
        &format!("{top}/lib/sysusers.d/deskgrid-worker.conf"),
        "u deskgrid - \"deskgrid worker\" /var/lib/deskgrid\n",
    );
    grid.file(&format!("{top}/share/man/man8/deskgrid-worker.8"), "page\n");
    let link = grid.dir().join(top).join("deskgrid-worker");
    std::os::unix::fs::symlink(program("deskgrid"), link).expect("a link can be made");

    let archive = grid
        .dir()
        .join("dist/deskgrid-worker-1.0.0-linux-x86_64.tar.xz");
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(grid.dir().join("dist/tree"));
    // The program is as large as a debug build is: packed as it is, by the fastest way.
    tar.env("XZ_OPT", "-0").arg("-cJf").arg(archive);
    run(tar.arg("deskgrid-worker-1.0.0-linux-x86_64"));
}

/// Makes an installer for the grid as its admin.
fn make(grid: &Grid, kind: &str, more: &[&str]) -> Output {
    make_as(grid, "admin", kind, more)
}

fn make_as(grid: &Grid, who: &str, kind: &str, more: &[&str]) -> Output {
    make_fed(grid, who, kind, more, "")
}

/// Makes an installer with this text on standard input, which is a pipe.
fn make_fed(grid: &Grid, who: &str, kind: &str, more: &[&str], input: &str) -> Output {
    let dist = grid.dir().join("dist");
    let out = grid.dir().join(format!("site.{kind}"));
    let mut command = grid.command(who);
    command
        .args(["package", "--format", kind, "--from"])
        .arg(dist);
    command.arg("--out").arg(out).args(more);
    Started::fed(&mut command, input).finish()
}

/// Runs the script for the root of an image.
#[track_caller]
fn install(grid: &Grid, root: &Path, more: &[&str]) -> Output {
    let mut shell = Command::new("sh");
    shell.arg(grid.dir().join("site.sh")).arg("--root");
    run(shell.arg(root).args(more))
}

/// The files below a directory.
fn files(root: &Path) -> Vec<PathBuf> {
    let all = walkdir::WalkDir::new(root).sort_by_file_name().into_iter();
    let all = all.map(|entry| entry.expect("can be read").into_path());
    all.filter(|path| !path.is_dir()).collect()
}

#[test]
fn a_pc_installed_by_a_site_script_joins_at_its_first_start_and_keeps_no_token() {
    if lacks("xz", "xz-utils") || lacks("systemctl", "systemd") {
        return;
    }
    let grid = Grid::start();
    plain_archive(&grid);
    // Through a pipe, which gives what is in it once.
    let more = ["--master", grid.listen(), "--config", "/dev/stdin"];
    let more = [&more[..], &["--uses", "2", "--ttl", "1h"]].concat();
    let made = make_fed(&grid, "admin", "sh", &more, "slots = 3\n");
    assert!(made.expect_code(0).stdout.contains("2 PCs can join by it"));
    let mode = fs::metadata(grid.dir().join("site.sh")).expect("it is there");
    assert_eq!(mode.mode() & 0o777, 0o600, "it has the token");

    let root = grid.dir().join("image");
    fs::create_dir(&root).expect("a directory can be made");
    let first = install(&grid, &root, &[]).stdout;
    assert!(first.contains("joins at its first start"), "{first}");
    let before = files(&root);
    let again = install(&grid, &root, &[]).stdout;
    assert!(again.contains("nothing was changed"), "{again}");
    assert_eq!(files(&root), before, "another run");
    let join = root.join("etc/deskgrid/join.toml");
    fs::write(&join, "token = \"another\"\n").expect("is written");
    let another = install(&grid, &root, &[]).stdout;
    assert!(another.contains("only the token was replaced"), "{another}");
    let mode = fs::metadata(&join).expect("a file to join by").mode();
    assert_eq!(mode & 0o777, 0o600, "the token is for root alone");
    let kept = fs::read_to_string(root.join("etc/deskgrid/worker.toml"));
    assert_eq!(kept.expect("settings"), "slots = 3\n");
    assert!(
        files(&root)
            .iter()
            .any(|file| file.ends_with("multi-user.target.wants/deskgrid-worker.service"))
    );
    // A PC that has started before its image was made would not make the account itself.
    let accounts = fs::read_to_string(root.join("etc/passwd")).expect("accounts");
    assert!(accounts.starts_with("deskgrid:"), "{accounts}");

    let mut command = Command::new(root.join("usr/bin/deskgrid-worker"));
    command
        .args(["--dir"])
        .arg(root.join("var/lib/deskgrid"))
        .args(["worker", "start", "--tied", "--first-start"])
        .arg(&join);
    let worker = Started::server(&mut command, &grid.dir().join("image.log"));
    eventually("the joining, and the file's removal", PATIENCE, || {
        (!join.exists()).then_some(())
    });
    let hosts = grid.json(["host", "list"]);
    assert_eq!(hosts["hosts"].as_array().map(Vec::len), Some(1), "{hosts}");

    // On a PC that has joined an upgrade brings no token, and keeps settings that were changed.
    fs::write(root.join("etc/deskgrid/worker.toml"), "slots = 2\n").expect("is written");
    let third = install(&grid, &root, &[]).stdout;
    assert!(!join.exists(), "no token on a PC that has joined");
    for word in [
        "over the one before",
        "worker.toml.before",
        "has joined before",
    ] {
        assert!(third.contains(word), "{word}: {third}");
    }
    let fourth = install(&grid, &root, &[]).stdout;
    assert!(fourth.contains("nothing was changed"), "{fourth}");
    let before = fs::read_to_string(root.join("etc/deskgrid/worker.toml.before"));
    assert_eq!(before.expect("the changed settings"), "slots = 2\n");

    drop(worker);
    install(&grid, &root, &["--uninstall"]);
    let books = root.join("etc");
    let mut left = files(&root);
    left.retain(|file| file.parent() != Some(&books));
    assert_eq!(
        left,
        Vec::<PathBuf>::new(),
        "only the books of accounts stay"
    );
}

#[test]
fn a_site_package_for_debian_has_a_token_that_only_root_can_read() {
    if lacks("dpkg-deb", "dpkg") {
        return;
    }
    let grid = Grid::start();
    let control = "Package: deskgrid-worker\nVersion: 1.0.0\nArchitecture: amd64\nMaintainer: nobody <n@example.org>\nDescription: a try\n";
    grid.file("dist/tree/DEBIAN/control", control);
    grid.file("dist/tree/DEBIAN/conffiles", "/etc/deskgrid/worker.toml\n");
    grid.file("dist/tree/etc/deskgrid/worker.toml", "# plain\n");
    let program = grid.file("dist/tree/usr/bin/deskgrid-worker", "program");
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).expect("a mode can be set");
    let plain = grid.dir().join("dist/deskgrid-worker_1.0.0_amd64.deb");
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zgzip", "--build"]);
    run(build.arg(grid.dir().join("dist/tree")).arg(plain));

    let settings = grid.file("worker.toml", "slots = 3\n");
    let settings = settings.to_str().expect("UTF-8");
    let more = ["--master", grid.listen(), "--config", settings];
    make(&grid, "deb", &more).expect_code(0);

    let made = grid.dir().join("site.deb");
    let listed = run(Command::new("dpkg-deb").arg("--contents").arg(&made)).stdout;
    let line = listed.lines().find(|line| line.ends_with("join.toml"));
    assert!(
        line.is_some_and(|line| line.starts_with("-rw------- root/root")),
        "{listed}"
    );
    let out = grid.dir().join("unpacked");
    run(Command::new("dpkg-deb").arg("-R").arg(&made).arg(&out));
    let text = fs::read_to_string(out.join("etc/deskgrid/join.toml")).expect("a file to join by");
    assert!(
        text.contains("dg1.") && text.contains(grid.listen()),
        "{text}"
    );
    let kept = fs::read_to_string(out.join("etc/deskgrid/site.toml"));
    assert_eq!(kept.expect("settings"), "slots = 3\n");
    let program = fs::metadata(out.join("usr/bin/deskgrid-worker")).expect("a program");
    assert_eq!(program.mode() & 0o777, 0o755);
}

/// Builds the plain package of this version as `./release` does, with files of this test.
fn plain_rpm(grid: &Grid, version: &str) -> PathBuf {
    let tree = grid.dir().join("tree");
    let spec = format!(
        "Name: deskgrid-worker\nVersion: {version}\nRelease: 1\nSummary: a try\nLicense: MIT\nAutoReqProv: no\n\
         %description\na try\n%install\ncp -a {}/. %{{buildroot}}/\n%files\n%defattr(-,root,root)\n\
         %dir /etc/deskgrid\n%config(noreplace) /etc/deskgrid/worker.toml\n/usr/bin/deskgrid-worker\n",
        tree.display()
    );
    let spec = grid.file("try.spec", &spec);
    let mut build = Command::new("rpmbuild");
    build.args(["-bb", "--quiet", "--target", "x86_64"]);
    for (name, value) in [
        ("_topdir", grid.dir().join("rpm").display().to_string()),
        ("_rpmdir", grid.dir().join("dist").display().to_string()),
        (
            "_build_name_fmt",
            "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm".to_owned(),
        ),
        ("_binary_payload", "w9.gzdio".to_owned()),
        ("_build_id_links", "none".to_owned()),
        ("debug_package", "%{nil}".to_owned()),
        ("__os_install_post", "%{nil}".to_owned()),
    ] {
        build.arg("--define").arg(format!("{name} {value}"));
    }
    run(build.arg(spec));
    let name = format!("dist/deskgrid-worker-{version}-1.x86_64.rpm");
    grid.dir().join(name)
}

#[test]
fn a_site_package_of_rpm_has_a_token_that_only_root_can_read_and_leaves_nothing() {
    if lacks("rpmbuild", "rpm") || lacks("rpm", "rpm") {
        return;
    }
    let grid = Grid::start();
    grid.file("tree/etc/deskgrid/worker.toml", "# plain\n");
    let program = grid.file("tree/usr/bin/deskgrid-worker", "program");
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).expect("a mode can be set");
    let plain = plain_rpm(&grid, "1.0.0");
    let settings = grid.file("worker.toml", "slots = 3\n");
    let settings = settings.to_str().expect("UTF-8");
    let more = ["--master", grid.listen(), "--config", settings];
    make(&grid, "rpm", &more).expect_code(0);
    let made = grid.dir().join("site.rpm");
    let mode = fs::metadata(&made).expect("it is there").mode();
    assert_eq!(mode & 0o777, 0o600, "it has the token");

    // Every sum is right, and what anybody can ask of a package has no token.
    let rpm = |words: &[&str]| {
        let mut command = Command::new("rpm");
        command.args(words);
        run(command.arg(&made)).stdout
    };
    let sums = rpm(&["-Kv"]);
    for sum in ["Header SHA256 digest: OK", "Payload SHA256 digest: OK"] {
        assert!(sums.contains(sum), "{sums}");
    }
    let listed = rpm(&["-qlvp"]);
    let line = listed.lines().find(|line| line.ends_with("join.toml"));
    assert!(
        line.is_some_and(|line| line.starts_with("-rw-------")),
        "{listed}"
    );
    let told = rpm(&["-qip", "--scripts", "--provides"]) + &rpm(&["-qp", "--xml"]);
    assert!(!told.contains("dg1."), "{told}");

    let id = run(Command::new("id").arg("-u")).stdout;
    if id.trim() != "0" {
        println!("SKIPPED: only root installs packages");
        return;
    }
    let root = grid.dir().join("root");
    fs::create_dir(&root).expect("a directory can be made");
    let on_pc = |words: &[&str]| {
        let mut command = Command::new("rpm");
        command.arg("--root").arg(&root).args(words);
        // Debian's rpm keeps its books in a person's home otherwise.
        command.args(["--define", "_dbpath /var/lib/rpm"]);
        run(&mut command)
    };
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let alone = ["--nodeps", "--noscripts"];
    let made = path(&made);
    on_pc(&[&["-i"], &alone[..], &[&made]].concat());
    let etc = root.join("etc/deskgrid");
    let join = etc.join("join.toml");
    let mode = fs::metadata(&join).expect("a file to join by").mode();
    assert_eq!(mode & 0o777, 0o600, "the token is for root alone");
    let text = fs::read_to_string(&join).expect("a file to join by");
    let secret = text.split('"').find(|word| word.starts_with("dg1."));
    let secret = secret.expect("a token").to_owned();
    assert!(text.contains(grid.listen()), "{text}");
    let kept = fs::read_to_string(etc.join("site.toml"));
    assert_eq!(kept.expect("settings"), "slots = 3\n");
    let program = fs::metadata(root.join("usr/bin/deskgrid-worker")).expect("a program");
    assert_eq!(program.mode() & 0o777, 0o755);

    // The worker takes the file away, its script the settings; neither is missed.
    fs::rename(etc.join("site.toml"), etc.join("worker.toml")).expect("can be moved");
    fs::remove_file(&join).expect("can be removed");
    let checked = on_pc(&["-V", "--nodeps", "deskgrid-worker", "--noconfig"]).stdout;
    assert_eq!(checked, "");
    for file in files(&root) {
        let bytes = fs::read(&file).expect("can be read");
        let at = bytes
            .windows(secret.len())
            .position(|part| part == secret.as_bytes());
        assert_eq!(at, None, "the token lies in {}", file.display());
    }

    // A newer installer brings a token, a newer plain package takes it and keeps the settings.
    on_pc(&[&["-U", "--replacepkgs"], &alone[..], &[&made]].concat());
    assert!(join.exists());
    fs::rename(etc.join("site.toml"), etc.join("worker.toml")).expect("can be moved");
    fs::remove_file(&plain).expect("can be removed");
    let newer = path(&plain_rpm(&grid, "2.0.0"));
    on_pc(&[&["-U"], &alone[..], &[&newer]].concat());
    assert!(!join.exists());
    let kept = fs::read_to_string(etc.join("worker.toml"));
    assert_eq!(kept.expect("settings"), "slots = 3\n");

    on_pc(&[&["-e"], &alone[..], &["deskgrid-worker"]].concat());
    let left = files(&root);
    let books = root.join("var/lib/rpm");
    let left: Vec<_> = left
        .iter()
        .filter(|file| !file.starts_with(&books))
        .collect();
    let saved = etc.join("worker.toml.rpmsave");
    assert_eq!(left, [&saved], "the package's script removes that");
}

#[test]
fn a_second_installer_names_the_token_of_the_first_and_how_to_end_it() {
    let grid = Grid::start();
    grid.file("dist/deskgrid-worker-1.0.0-linux-x86_64.tar.xz", "packed");
    let make = |more: &[&str]| make(&grid, "sh", &[&["--master", grid.listen()], more].concat());
    let first = make(&["--uses", "7"]).expect_code(0).stdout;
    assert!(!first.contains("earlier"), "{first}");
    let other = make(&["--name", "lab"]).expect_code(0).stdout;
    assert!(!other.contains("earlier"), "of another name: {other}");

    let second = make(&[]).expect_code(0).stdout;
    let listed = grid.admin(["--output", "json", "token", "list"]);
    let listed = listed.expect_code(0).json();
    let tokens = listed["tokens"].as_array().expect("tokens");
    let first = tokens.iter().find(|token| token["uses_left"] == 7);
    let first = first.expect("the first one counts on")["id"].to_string();
    let told = format!("deskgrid token revoke {first}\n");
    assert!(
        second.contains(&told) && second.contains("for 7 more"),
        "{second}"
    );

    grid.admin(["token", "revoke", &first]).expect_code(0);
    let third = make(&[]).expect_code(0).stdout;
    assert!(!third.contains(&told), "{third}");
}

#[test]
fn a_master_that_no_pc_can_find_is_refused_or_named_before_the_file_is_made() {
    let grid = Grid::start();
    grid.file("dist/deskgrid-worker-1.0.0-linux-x86_64.tar.xz", "packed");
    for (master, why) in [
        ("not a host", "`not a host` is no address"),
        ("10.0.0.300", "`10.0.0.300` is no address"),
        ("grid:seven", "`seven` is no port"),
        ("https://grid", "it is a URL"),
    ] {
        let refused = make(&grid, "sh", &["--master", master])
            .expect_code(2)
            .stderr;
        let told = refused.contains(why) && refused.contains("such as grid.example.org:7411");
        assert!(told, "{master}: {refused}");
    }
    assert!(!grid.dir().join("site.sh").exists());

    // A name that this machine does not know may be one that the PCs know.
    let made = make(&grid, "sh", &["--master", "no-such-host.invalid"]).expect_code(0);
    let noted = "finds no address for no-such-host.invalid:7411";
    assert!(made.stderr.contains(noted), "{made:?}");
}

#[test]
fn an_installer_that_cannot_be_made_costs_no_token_and_says_why() {
    let grid = Grid::start();
    let missing = make(&grid, "sh", &["--master", "grid:7411"]).expect_code(2);
    assert!(missing.stderr.contains("dist"), "{missing:?}");
    assert!(
        missing.stderr.contains("./release --worker-only"),
        "{missing:?}"
    );

    grid.file("dist/deskgrid-worker-1.0.0-linux-x86_64.tar.xz", "packed");
    let own = make(&grid, "sh", &[]).expect_code(2);
    assert!(own.stderr.contains("--master HOST:PORT"), "{own:?}");

    let wrong = grid.file("wrong.toml", "slotz = 3\n");
    let wrong = [
        "--master",
        "grid:7411",
        "--config",
        wrong.to_str().expect("UTF-8"),
    ];
    let wrong = make(&grid, "sh", &wrong).expect_code(2);
    assert!(wrong.stderr.contains("slotz"), "{wrong:?}");

    grid.file("dist/deskgrid-worker_1.0.0_amd64.deb", "no package");
    let broken = make(&grid, "deb", &["--master", "grid:7411"]).expect_code(2);
    assert!(broken.stderr.contains("./release"), "{broken:?}");

    let lead = "\u{0}".repeat(200);
    for text in ["no package", &lead] {
        grid.file("dist/deskgrid-worker-1.0.0-1.x86_64.rpm", text);
        let broken = make(&grid, "rpm", &["--master", "grid:7411"]).expect_code(2);
        assert!(broken.stderr.contains("no package of RPM"), "{broken:?}");
    }

    grid.file(
        "dist/deskgrid-worker-1.0.0-windows-x86_64.msi",
        "no package",
    );
    let broken = make(&grid, "msi", &["--master", "grid:7411"]).expect_code(2);
    assert!(broken.stderr.contains("./release"), "{broken:?}");

    grid.file("dist/deskgrid-worker-2.0.0-linux-x86_64.tar.xz", "packed");
    let two = make(&grid, "sh", &["--master", "grid:7411"]).expect_code(2);
    assert!(two.stderr.contains("several"), "{two:?}");

    fs::remove_file(
        grid.dir()
            .join("dist/deskgrid-worker-2.0.0-linux-x86_64.tar.xz"),
    )
    .expect("is removed");
    let nobody = make_as(&grid, "user", "sh", &["--master", "grid:7411"]);
    assert_eq!(nobody.code, 6, "only admins make tokens: {nobody:?}");

    let tokens = grid.admin(["token", "list"]).expect_code(0);
    assert!(!tokens.stdout.contains("package"), "{tokens:?}");
    assert!(!grid.dir().join("site.sh").exists() && !grid.dir().join("site.sh.new").exists());
}
