//! A real browser that looks at pages, for the tests of those. Where there is no Chromium, or its
//! driver was not fetched (`./test` does both), this says so and looks at nothing.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Returns the browser's program; `None`, with a word, where something is missing.
pub(super) fn chromium() -> Option<PathBuf> {
    let chromium = find("chromium").or_else(|| find("google-chrome"));
    let driver = browser_dir().join("node_modules/playwright-core").is_dir();
    let (Some(chromium), true, Some(_)) = (chromium, driver, find("node")) else {
        eprintln!("skipped: no chromium, no node, or no driver (npm ci in tests/browser)");
        return None;
    };
    Some(chromium)
}

fn browser_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("browser")
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

/// Runs a scenario of `browser.mjs` on the site behind `link`; `help` does what it asks for, and
/// returns what it says. Returns the other lines that it printed.
#[track_caller]
pub(super) fn browse(
    chromium: &Path,
    link: &str,
    scenario: &str,
    arguments: &[&str],
    mut help: impl FnMut(&str) -> String,
) -> Vec<String> {
    let mut child = Command::new("node")
        .arg(browser_dir().join("browser.mjs"))
        .args([scenario, link])
        .arg(chromium)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("node runs");

    let mut said = Vec::new();
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    for line in lines.map_while(Result::ok) {
        match line.strip_prefix("ask ") {
            Some(what) => answer(&mut child, &help(what)),
            None => said.push(line),
        }
    }

    let ended = child.wait_with_output().expect("it ends");
    let why = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{scenario}: {why}");
    said
}

fn answer(child: &mut Child, words: &str) {
    let to = child.stdin.as_mut().expect("piped");
    writeln!(to, "{words}").expect("it reads");
}
