//! The plan for the worker as a daemon of launchd, the service manager of macOS: the files, their content, and the
//! commands. `commands::service` carries it out.
#![cfg_attr(not(target_os = "macos"), allow(dead_code))] // Elsewhere it is only tested.

use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::service::{ServiceFile, ServiceFlags, Words, words};

/// The name of the daemon.
const LABEL: &str = "org.deskgrid.worker";
/// The account that it runs as.
const ACCOUNT: &str = "_deskgrid";
/// The property list of the package, whose daemon waits for a file to join by.
const PACKAGED: &str = include_str!("../../configs/org.deskgrid.worker.plist");
/// The files that the package brings beside those of `worker install`, and the file to join by that was written for it,
/// which holds a token until the worker has joined.
const OF_THE_PACKAGE: [&str; 3] = [
    "/usr/local/libexec/deskgrid/deskgrid-worker",
    "/etc/deskgrid/worker.toml.default",
    "/var/db/deskgrid/join.toml",
];
/// The script that makes the account.
const MAKE_ACCOUNT: &str = include_str!("../../packaging/macos/account.sh");

/// The paths of the daemon's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LaunchdPaths {
    /// The state directory, which holds the subdirectory `worker`.
    pub dir: PathBuf,
}

impl LaunchdPaths {
    /// The path of the daemon's property list.
    pub(crate) fn unit(&self) -> PathBuf {
        PathBuf::from(format!("/Library/LaunchDaemons/{LABEL}.plist"))
    }

    /// The path of the program's copy.
    pub(crate) fn program(&self) -> PathBuf {
        "/usr/local/libexec/deskgrid/deskgrid".into()
    }

    /// The path of the copy of the owner's settings.
    pub(crate) fn settings(&self) -> PathBuf {
        "/etc/deskgrid/worker.toml".into()
    }

    fn account(&self) -> PathBuf {
        "/usr/local/libexec/deskgrid/account.sh".into()
    }

    /// Returns the files to write, apart from the copies of program and settings.
    ///
    /// # Errors
    /// If a path cannot be written in a property list.
    pub(crate) fn files(&self, flags: ServiceFlags) -> Result<Vec<ServiceFile>, Failure> {
        let mut start: Words = ["worker", "start"].map(str::to_owned).into();
        if flags.settings {
            start.extend(["--config".to_owned(), word(&self.settings())?]);
        }
        if let Some(slots) = flags.slots {
            start.extend(["--slots".to_owned(), slots.to_string()]);
        }
        if flags.dedicated {
            start.push("--dedicated".to_owned());
        }

        let program = word(&self.program())?;
        let unit = ServiceFile {
            path: self.unit(),
            text: plist(program, &word(&self.dir)?, start),
        };
        let account = ServiceFile {
            path: self.account(),
            text: MAKE_ACCOUNT.to_owned(),
        };
        Ok(vec![unit, account])
    }

    /// Returns the commands to run once the files are written. One that runs already needs a moment to go.
    pub(crate) fn start(&self) -> Vec<Words> {
        let worker = self.dir.join("worker").display().to_string();
        let unit = self.unit().display().to_string();
        let again = format!(
            "launchctl bootout system/{LABEL} 2>/dev/null; \
             for i in 1 2 3 4 5 6 7 8; do launchctl bootstrap system {unit} && exit; sleep 5; done; exit 1"
        );
        vec![
            words(&["sh", &self.account().display().to_string()]),
            words(&["chown", "-R", &format!("{ACCOUNT}:{ACCOUNT}"), &worker]),
            words(&["sh", "-c", &again]),
        ]
    }

    /// Returns the commands to run before the files are removed.
    pub(crate) fn stop(&self) -> Vec<Words> {
        vec![words(&["launchctl", "bootout", &format!("system/{LABEL}")])]
    }

    /// Returns the commands to run once the files are removed.
    pub(crate) fn forget(&self) -> Vec<Words> {
        let delete = |what: &str| words(&["dscl", ".", "-delete", &format!("/{what}/{ACCOUNT}")]);
        vec![delete("Users"), delete("Groups")]
    }

    /// Returns every path to remove: files, and directories with their content, whether `worker install` or the package
    /// has made them.
    pub(crate) fn all(&self) -> Vec<PathBuf> {
        let files = [self.unit(), self.account(), self.program(), self.settings()];
        let packaged = OF_THE_PACKAGE.map(PathBuf::from);
        // Not the state directory itself: a user may have state there, too.
        let worker = self.dir.join("worker");
        files.into_iter().chain(packaged).chain([worker]).collect()
    }
}

/// Returns the property list of a daemon that calls the program with these words: that of the package, with other
/// words and another log.
fn plist(program: String, dir: &str, start: Words) -> String {
    let global = ["--dir".to_owned(), dir.to_owned()];
    let words: String = [program]
        .into_iter()
        .chain(global)
        .chain(start)
        .map(|word| format!("    <string>{}</string>\n", escaped(&word)))
        .collect();

    let [head, rest] = halves(PACKAGED, "<array>\n");
    let [_, rest] = halves(rest, "  </array>");
    let log = escaped(&format!("{dir}/worker/worker.log"));
    let rest = rest.replace("/var/db/deskgrid/worker/worker.log", &log);
    format!("{head}<array>\n{words}  </array>{rest}")
}

/// Returns what lies before and after a mark.
fn halves<'a>(text: &'a str, mark: &str) -> [&'a str; 2] {
    let (before, after) = text.split_once(mark).unwrap_or((text, ""));
    [before, after]
}

/// Returns the state directory that a property list names.
pub(crate) fn dir_of(plist: &str) -> Option<PathBuf> {
    let (_, rest) = plist.split_once("<string>--dir</string>")?;
    let (dir, _) = rest.split_once("<string>")?.1.split_once("</string>")?;
    let dir = dir.replace("&lt;", "<").replace("&gt;", ">");
    Some(PathBuf::from(dir.replace("&amp;", "&")))
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns a path as a word of a property list.
fn word(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().filter(|_| path.is_absolute());
    let text = text.filter(|text| !text.chars().any(char::is_control));
    text.map(str::to_owned).ok_or_else(|| {
        let what = format!("{} cannot be used by a service", path.display());
        Failure::usage(what, "choose an absolute path without odd characters")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_property_list_calls_the_worker_and_names_its_directory() {
        let paths = LaunchdPaths {
            dir: "/Volumes/A & <B>".into(),
        };
        let flags = ServiceFlags {
            slots: Some(3),
            settings: true,
            dedicated: true,
            page: false,
        };
        let files = paths.files(flags).unwrap();
        let text = &files[0].text;
        let called: Vec<_> = text
            .split("<array>")
            .nth(1)
            .unwrap()
            .split("</array>")
            .next()
            .unwrap()
            .lines()
            .filter_map(|line| {
                line.trim()
                    .strip_prefix("<string>")?
                    .strip_suffix("</string>")
            })
            .collect();
        let wanted = "/usr/local/libexec/deskgrid/deskgrid --dir DIR worker start --config /etc/deskgrid/worker.toml --slots 3 --dedicated";
        let wanted = wanted.replace("DIR", "/Volumes/A_&amp;_&lt;B&gt;");
        assert_eq!(
            called.join(" ").replace("A &amp; &lt;", "A_&amp;_&lt;"),
            wanted
        );
        assert_eq!(dir_of(text), Some(paths.dir.clone()));
        assert_eq!(dir_of(""), None);

        let odd = LaunchdPaths { dir: "here".into() };
        assert!(odd.files(flags).is_err());
        assert!(files.iter().all(|file| paths.all().contains(&file.path)));
    }

    #[test]
    fn the_property_list_of_the_package_is_the_generated_one_that_waits_for_a_file_to_join_by() {
        let start = words(&[
            "start",
            "--config",
            "/etc/deskgrid/worker.toml",
            "--first-start",
            "/var/db/deskgrid/join.toml",
        ]);
        let program = "/usr/local/libexec/deskgrid/deskgrid-worker".to_owned();
        assert_eq!(plist(program, "/var/db/deskgrid", start), PACKAGED);
    }

    #[test]
    fn uninstall_removes_what_the_package_has_brought_and_the_token_for_it() {
        let all = LaunchdPaths {
            dir: dir_of(PACKAGED).unwrap(),
        }
        .all();
        // The paths as the package's own parts name them.
        let [_, words] = halves(PACKAGED, "<array>");
        let [words, _] = halves(words, "</array>");
        let named = words
            .lines()
            .filter_map(|line| {
                line.trim()
                    .strip_prefix("<string>/")?
                    .strip_suffix("</string>")
            })
            .map(|path| PathBuf::from(format!("/{path}")))
            .filter(|path| path != Path::new("/var/db/deskgrid"));
        let script = include_str!("../../packaging/macos/postinstall");
        let copied = script
            .split_whitespace()
            .filter(|word| word.starts_with("/etc/deskgrid/") || word.ends_with("account.sh"))
            .map(PathBuf::from);

        let made: Vec<PathBuf> = named.chain(copied).collect();
        assert!(made.len() >= 6, "{made:?}");
        for path in made {
            assert!(all.contains(&path), "{} stays", path.display());
        }
    }
}
