//! Installers for Windows: `deskgrid package --format msi` puts a token into the worker's package as
//! `./release` makes it. Under Wine it is installed by `.ci/msi`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::{Grid, Started};

/// Makes the plain package in `dist`, of programs that do nothing.
const PLAIN: &str = "\
import pathlib, sys
sys.path.insert(0, 'packaging')
from tests.test_windows import package
made = package(pathlib.Path(sys.argv[1]), 1_700_000_000)
made.rename(pathlib.Path(sys.argv[2]) / made.name)";

/// Runs a command of the system, which has to succeed, and returns what it prints.
#[track_caller]
fn run(command: &mut Command) -> String {
    Started::new(command).finish().expect_code(0).stdout
}

fn lacks_tools() -> bool {
    let missing = ["wixl", "msibuild", "msiinfo", "msiextract"];
    let mut missing = missing.iter().filter(|tool| {
        let tried = Command::new(tool).arg("--version").output();
        tried.is_err()
    });
    let missing = missing.next();
    if let Some(tool) = missing {
        println!("SKIPPED: there is no {tool} (Debian: wixl msitools)");
    }
    missing.is_some()
}

fn plain_package(grid: &Grid) -> PathBuf {
    let dist = grid.dir().join("dist");
    fs::create_dir_all(&dist).expect("a directory can be made");
    let mut python = Command::new("python3");
    python.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    python.args(["-c", PLAIN]).arg(grid.dir().join("parts"));
    run(python.arg(&dist));
    dist
}

fn make(grid: &Grid, dist: &Path, name: &str, more: &[&str]) -> (PathBuf, String) {
    let made = grid.dir().join(name);
    let mut words = vec!["package", "--format", "msi", "--master", grid.listen()];
    words.extend(["--from", dist.to_str().expect("UTF-8")]);
    words.extend(["--out", made.to_str().expect("UTF-8")]);
    words.extend(more);
    let told = grid.admin(words).expect_code(0).stdout;
    (made, told)
}

/// The rows of a table, by their first column.
fn rows(package: &Path, table: &str) -> BTreeMap<String, Vec<String>> {
    let mut msiinfo = Command::new("msiinfo");
    let text = run(msiinfo.arg("export").arg(package).arg(table)).replace('\r', "");
    let rows = text.lines().skip(3).map(|line| {
        let mut row = line.split('\t').map(str::to_owned);
        (row.next().expect("a column"), row.collect())
    });
    rows.collect()
}

fn extracted(grid: &Grid, package: &Path) -> PathBuf {
    let out = package.with_extension("files");
    let mut msiextract = Command::new("msiextract");
    msiextract.current_dir(grid.dir()).arg("-C").arg(&out);
    run(msiextract.arg(package));
    out
}

fn file(below: &Path, name: &str) -> String {
    let all = walkdir::WalkDir::new(below).into_iter();
    let mut all = all.map(|entry| entry.expect("can be read").into_path());
    let found = all.find(|path| path.ends_with(name));
    fs::read_to_string(found.expect(name)).expect("a text")
}

#[test]
fn a_site_package_for_windows_has_the_token_in_a_file_and_in_no_table() {
    if lacks_tools() {
        return;
    }
    let grid = Grid::start();
    let dist = plain_package(&grid);
    let settings = format!("slots = 3\n{}", "# a remark\n".repeat(4_000));
    let written = grid.file("worker.toml", &settings);
    let more = ["--config", written.to_str().expect("UTF-8"), "--uses", "2"];
    let (made, told) = make(&grid, &dist, "site.msi", &more);
    assert!(
        told.contains("2 PCs") && told.contains("keeps a copy"),
        "{told}"
    );
    let mode = fs::metadata(&made).expect("it is there").mode();
    assert_eq!(mode & 0o777, 0o600, "it has the token");

    let files = extracted(&grid, &made);
    let join = file(&files, "join.toml");
    assert!(join.contains(grid.listen()), "{join}");
    let token = join.split('"').find(|word| word.starts_with("dg1."));
    let token = token.expect("a token");
    assert_eq!(file(&files, "worker.toml"), settings, "over several blocks");
    assert_eq!(rows(&made, "File")["Join"][1], "join.toml");
    assert_eq!(
        rows(&made, "Component")["Join"][1],
        "DATA",
        "the closed directory"
    );

    // Of the settings those that were changed on a PC stay, and nothing else is kept from being replaced.
    let attributes = |name: &str| rows(&made, "Component")[name][2].clone();
    assert_eq!([attributes("Settings"), attributes("Join")], ["272", "256"]);
    assert_eq!(rows(&made, "MsiFileHash")["Config"], ["0"; 5]);
    let mut tables = Command::new("msiinfo");
    for table in run(tables.arg("tables").arg(&made)).lines() {
        let text = format!("{:?}", rows(&made, table));
        assert!(!text.contains(token), "the token stands in {table}");
    }
}

#[test]
fn each_site_package_is_a_product_of_its_own_that_takes_the_place_of_any_other() {
    if lacks_tools() {
        return;
    }
    let grid = Grid::start();
    let dist = plain_package(&grid);
    let plain = dist.join("deskgrid-worker-0.1.0-windows-x86_64.msi");
    let (one, _) = make(&grid, &dist, "one.msi", &[]);
    let (other, _) = make(&grid, &dist, "other.msi", &[]);

    let all = [&plain, &one, &other];
    let said = |package: &Path| {
        let mut msiinfo = Command::new("msiinfo");
        run(msiinfo.arg("suminfo").arg(package))
    };
    let revision = |package: &Path| {
        let said = said(package);
        let line = said.lines().find(|line| line.starts_with("Revision"));
        line.expect("a number").to_owned()
    };
    let products = all.map(|package| rows(package, "Property")["ProductCode"].clone());
    let packages = all.map(|package| revision(package));
    for numbers in [products.map(|row| row[0].clone()), packages] {
        assert!(
            numbers[0] != numbers[1] && numbers[1] != numbers[2],
            "{numbers:?}"
        );
    }

    // Everything else is as it was: without settings the site's are those of the plain package.
    for table in [
        "Upgrade",
        "CustomAction",
        "InstallExecuteSequence",
        "MsiFileHash",
        "Registry",
    ] {
        assert_eq!(rows(&plain, table), rows(&one, table), "{table}");
    }
    let rest = |package: &Path| said(package).replace(&revision(package), "");
    assert_eq!(rest(&plain), rest(&one));
    let config = |package: &Path| file(&extracted(&grid, package), "worker.toml");
    assert_eq!(config(&plain), config(&one));
}
