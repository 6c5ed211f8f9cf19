//! The owner's switches: files that pause the worker while they exist. One lies in the worker's own
//! directory, and may hold the end of the pause; the owner can name more in `Rules::pause_files`.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::sensors::Sensor;
use super::sight::{Reading, Sight, Topic};
use crate::os::DirWatch;

/// The name of the owner's switch in a worker's directory: while this file exists, every task is
/// frozen. A first line such as `until 2026-11-21T17:00:00Z` ends the pause by itself; any other
/// content is ignored.
pub const PAUSE_FILE: &str = "pause";
/// The word before the end of a pause.
const UNTIL: &str = "until ";
/// The most that is read of a switch, in bytes.
const MOST: u64 = 4096;

/// A pause in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// The end of the pause, if it ends by itself.
    pub until: Option<Timestamp>,
}

/// Pauses the worker of this directory, whether it runs or not.
///
/// # Errors
/// If the file cannot be written.
pub fn pause(dir: &Path, until: Option<Timestamp>) -> io::Result<()> {
    let text = until.map_or_else(
        || "paused\n".to_owned(),
        |until| format!("{UNTIL}{until}\n"),
    );
    // Renamed into place: a sensor must not find it half written. And made anew: whoever the
    // directory belongs to must not lead an admin's command to another file with a link.
    let aside = dir.join(format!("{PAUSE_FILE}.new"));
    link::files::remove(&aside)?;
    File::create_new(&aside)?.write_all(text.as_bytes())?;
    fs::rename(aside, dir.join(PAUSE_FILE))
}

/// Ends the pause of this directory's worker; returns whether there was one.
///
/// # Errors
/// If the file cannot be removed.
pub fn resume(dir: &Path) -> io::Result<bool> {
    let removed = link::files::unless_gone(fs::remove_file(dir.join(PAUSE_FILE)))?;
    Ok(removed.is_some())
}

/// Returns the pause that a switch holds, if it is in force at `now`.
///
/// # Errors
/// If the file cannot be accessed.
pub fn look(file: &Path, now: Timestamp) -> io::Result<Option<Pause>> {
    if !file.try_exists()? {
        return Ok(None);
    }

    // A switch that cannot be read, or has other content, is a switch nevertheless.
    let text = text_of(file).unwrap_or_default();
    let until = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix(UNTIL));
    let until = until.and_then(|time| time.trim().parse::<Timestamp>().ok());

    Ok(until
        .is_none_or(|until| now < until)
        .then_some(Pause { until }))
}

/// Reads the beginning of a switch. What is no plain file has none: a pipe could keep who reads it
/// waiting for ever.
fn text_of(file: &Path) -> io::Result<String> {
    let mut text = Vec::new();
    if fs::metadata(file)?.is_file() {
        File::open(file)?.take(MOST).read_to_end(&mut text)?;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Looks at a switch now.
pub(crate) fn sight(file: &Path) -> Sight {
    sighted(file).0
}

/// Looks at a switch now; also returns the end of its pause, if it ends by itself.
fn sighted(file: &Path) -> (Sight, Option<Timestamp>) {
    let shown = file.display();
    match look(file, Timestamp::now()) {
        Ok(None) => (Sight::Seen(Reading::Paused(None)), None),
        Ok(Some(Pause { until: None })) => {
            (Sight::Seen(Reading::Paused(Some(shown.to_string()))), None)
        }
        Ok(Some(Pause { until: Some(until) })) => (
            Sight::Seen(Reading::Paused(Some(format!("{shown}, until {until}")))),
            Some(until),
        ),
        // A switch that cannot be accessed may well exist.
        Err(error) => (Sight::Unknown(format!("{shown}: {error}")), None),
    }
}

/// The sensor that looks at one switch.
#[derive(Debug)]
pub struct PauseFile {
    file: PathBuf,
    dir: DirWatch,
    /// The end of the pause that the last look saw.
    until: Option<Timestamp>,
}

impl PauseFile {
    /// Makes the sensor of this file, which need not exist, nor its directory.
    pub fn new(file: PathBuf) -> Self {
        let dir = DirWatch::new(file.parent().unwrap_or(Path::new("/")));
        Self {
            file,
            dir,
            until: None,
        }
    }
}

impl Sensor for PauseFile {
    fn name(&self) -> &'static str {
        "pause file"
    }

    fn topic(&self) -> Topic {
        Topic::Switch
    }

    fn sense(&mut self) -> Sight {
        let (sight, until) = sighted(&self.file);
        self.until = until;
        sight
    }

    fn wait(&mut self, pause: Duration) {
        // A watch of the directory waits for ten times as long where nothing comes or goes.
        let left = self
            .until
            .map(|until| Timestamp::now().duration_until(until).unsigned_abs() / 10);
        self.dir
            .wait(left.map_or(pause, |left| left.clamp(Duration::from_millis(1), pause)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_pause_holds_until_it_is_ended_or_its_time_has_come() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(PAUSE_FILE);
        let now = at("2026-11-21T12:00:00Z");
        assert_eq!(look(&file, now).unwrap(), None);
        pause(dir.path(), None).unwrap();
        assert_eq!(look(&file, now).unwrap(), Some(Pause { until: None }));

        let until = at("2026-11-21T13:00:00Z");
        pause(dir.path(), Some(until)).unwrap();
        assert_eq!(
            look(&file, now).unwrap(),
            Some(Pause { until: Some(until) })
        );
        assert_eq!(look(&file, until).unwrap(), None);
        assert!(resume(dir.path()).unwrap() && !resume(dir.path()).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_switch_with_anything_else_in_it_has_no_end() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("switch");
        for content in [
            &b""[..],
            b"until tea\n",
            b"until\n",
            b"\xff\xfe",
            b"\nuntil 2020-01-01T00:00:00Z",
        ] {
            fs::write(&file, content).unwrap();
            assert_eq!(
                look(&file, Timestamp::now()).unwrap(),
                Some(Pause { until: None }),
                "{content:?}"
            );
        }

        fs::write(&file, "until 2020-01-01T00:00:00Z").unwrap();
        assert_eq!(look(&file, Timestamp::now()).unwrap(), None);
    }

    /// An admin pauses a worker in a directory that belongs to another account.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_pause_writes_through_no_link_and_reads_no_pipe() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        use std::os::unix::fs::symlink;

        let dir = tempfile::tempdir().unwrap();
        let other = dir.path().join("other");
        fs::write(&other, "theirs").unwrap();
        symlink(&other, dir.path().join("pause.new")).unwrap();
        symlink(&other, dir.path().join(PAUSE_FILE)).unwrap();
        pause(dir.path(), None).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "theirs");
        let file = dir.path().join(PAUSE_FILE);
        assert_eq!(fs::read_to_string(&file).unwrap(), "paused\n");
        assert!(resume(dir.path()).unwrap() && other.exists());

        mknodat(CWD, &file, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let found = look(&file, Timestamp::now()).unwrap();
        assert_eq!(found, Some(Pause { until: None }));
    }

    #[test]
    fn a_sensor_reports_its_switch_and_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let mut sensor = PauseFile::new(dir.path().join(PAUSE_FILE));
        assert_eq!(sensor.sense(), Sight::Seen(Reading::Paused(None)));
        pause(dir.path(), Some(Timestamp::MAX)).unwrap();
        let Sight::Seen(Reading::Paused(Some(says))) = sensor.sense() else {
            panic!("not paused")
        };
        let place = dir.path().join(PAUSE_FILE).display().to_string();
        assert!(says.contains(&format!("{place}, until 9999-")), "{says}");
    }

    /// Where there can be no file, Windows says that there is none.
    #[cfg(unix)]
    #[test]
    fn an_unreadable_device_is_not_taken_for_absent() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let mut blind = PauseFile::new(dir.path().join("file").join("switch"));
        assert!(matches!(blind.sense(), Sight::Unknown(why) if why.contains("file/switch")));
    }
}
