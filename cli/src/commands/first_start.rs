//! Joins the grid at the first start of a worker that was installed unattended: by a file that a
//! package, a script or an image of the disk left. It tries until the master lets this PC in, and
//! then removes the file. Joining with flags, or with a person at the terminal, is `login`'s.

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::token::JoinToken;
use common::wire::enrol::WantedRole;
use link::retry::Backoff;
use link::{Identity, JoiningKey};
use serde::Deserialize;
use tokio::sync::watch;
use worker::admin;
use worker::control::{RestKind, WorkerRest};

use super::login::{COPY_WHOLE, Newcomer, check_role, other_name, own_name};
use crate::args::serve::master_address;
use crate::failure::{Exit, Failure};

/// The bounds of the pauses while the master is unreachable.
const UNREACHABLE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(5 * 60));
/// The bounds of the pauses while the master refuses the token.
const REFUSED: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(3_600));
/// The interval of the looks whether the file has another content.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The content of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstStart {
    /// The master's address.
    master: String,
    /// The join token. A PC that has joined needs none.
    #[serde(default)]
    token: String,
    /// The name to join under; empty: that of the host.
    #[serde(default)]
    name: String,
}

/// The word of a file that makes sense.
struct JoinWish {
    /// The text of the file.
    text: String,
    master: String,
    token: JoinToken,
    name: String,
}

/// Returns the identity in `home`; where there is none, joins by `file`, as often as it takes.
///
/// # Errors
/// If the file is missing or makes no sense at first, or a file cannot be read or written.
pub(super) async fn identity(home: &Path, file: &Path) -> Result<Identity, Failure> {
    if Identity::found(home)? {
        return known(home, file);
    }

    let file = &whole(file);
    let exposed = link::files::exposed(file, "the join token");
    let wish = first_wish(file).await?;
    if let Some(warning) = exposed {
        tracing::warn!("{warning}");
    }

    let why = format!("this PC joins a grid by {}", file.display());
    let (tell, why) = watch::channel((RestKind::Waits, why));
    let dir = home.parent().unwrap_or(home);
    resting(dir, &why, Box::pin(keep_joining(home, file, wish, &tell))).await
}

/// Joins, as often as it takes; `why` is why this PC has not yet.
async fn keep_joining(
    home: &Path,
    file: &Path,
    mut wish: JoinWish,
    why: &watch::Sender<WorkerRest>,
) -> Result<Identity, Failure> {
    let mut unreachable = Backoff::new(UNREACHABLE.0, UNREACHABLE.1);
    let mut refused = Backoff::new(REFUSED.0, REFUSED.1);
    loop {
        let key = JoiningKey::kept_in(home)?;
        let role = WantedRole::Worker;
        let error = match link::enrol_as(&wish.master, &wish.token, &key, &wish.name, role).await {
            Ok(identity) => {
                identity.save(home)?;
                tracing::info!(target: admin::JOINING, master = %identity.link.master, name = %identity.link.name, "joined the grid");
                if let Some(words) = other_name(&wish.name, &identity.link.name) {
                    tracing::info!("{words}");
                }
                remove(file);
                return Ok(identity);
            }
            Err(error) => Failure::from(error),
        };

        let (pauses, kind) = match error.exit {
            Exit::Unreachable => (&mut unreachable, RestKind::Away),
            _ => (&mut refused, RestKind::Refused),
        };
        let pause = pauses.delay();
        why.send_replace((kind, say(&error, pause, file)));
        if let Some(other) = changed(file, &wish.text, pause).await {
            wish = other;
            unreachable.reset();
            refused.reset();
        }
    }
}

/// Returns the path as anybody can use it, from whatever directory.
fn whole(file: &Path) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned())
}

/// Reads the file at the worker's start. One that makes no sense may be about to be written: it is looked at once more.
async fn first_wish(file: &Path) -> Result<JoinWish, Failure> {
    let mut looks = JoinLooks::default();
    loop {
        let text = std::fs::read_to_string(file).map_err(|e| unreadable(file, &e))?;
        match looks.look(text, file) {
            FileLook::Sense(wish) => return Ok(*wish),
            FileLook::Nonsense(failure) => return Err(failure),
            FileLook::Unsure => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

/// Looks at a file that somebody may be writing.
#[derive(Default)]
struct JoinLooks {
    /// The text of the last look, if it made no sense.
    before: Option<String>,
}

/// The result of one look.
enum FileLook {
    /// It makes sense.
    Sense(Box<JoinWish>),
    /// It makes none, for this reason, and did not the look before.
    Nonsense(Failure),
    /// It makes none, and may be half written.
    Unsure,
}

impl JoinLooks {
    fn look(&mut self, text: String, file: &Path) -> FileLook {
        match JoinWish::read(&text, file) {
            Ok(wish) => FileLook::Sense(Box::new(wish)),
            Err(failure) if self.before.as_ref() == Some(&text) => FileLook::Nonsense(failure),
            Err(_) => {
                self.before = Some(text);
                FileLook::Unsure
            }
        }
    }
}

/// Waits until the file is there and written to its end. Meanwhile the worker of `dir` rests, and
/// says so in its log and to whoever asks for its status.
#[cfg(any(windows, test))]
pub(super) async fn arrival(dir: &Path, file: &Path) {
    let file = &whole(file);
    let why = format!(
        "this PC has not joined a grid: the worker waits for {}; write that file, master = \"HOST:PORT\" and token = \"TOKEN\" on \
         lines of their own",
        file.display()
    );
    tracing::warn!(target: admin::JOINING, "{why}");
    let (_tell, why) = watch::channel((RestKind::Waits, why));
    resting(dir, &why, written(file)).await;
}

/// Does `work`. Meanwhile whoever asks the worker of `dir` for its status is told `why` it does not work yet.
async fn resting<T>(
    dir: &Path,
    why: &watch::Receiver<WorkerRest>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = std::pin::pin!(work);
    let answers = async {
        let mut failed = 0_u32;
        while let Err(error) = worker::control::rest(dir, why).await {
            failed = failed.saturating_add(1);
            // A pipe of Windows may be there for a moment longer than whoever answered at it before.
            if failed == 2 {
                tracing::warn!(%error, "`deskgrid worker status` does not find this worker");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };

    tokio::select! {
        done = &mut work => done,
        () = answers => work.await,
    }
}

/// Waits until the file is there and two looks in a row find the same in it.
#[cfg(any(windows, test))]
async fn written(file: &Path) {
    let mut before = None;
    while before.is_none() || before != std::fs::read_to_string(file).ok() {
        before = std::fs::read_to_string(file).ok();
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Loads the existing identity. A file that names another address of the master changes it; one that makes no sense stays
/// where it is, since the PC needs none.
fn known(home: &Path, file: &Path) -> Result<Identity, Failure> {
    let mut identity = Identity::load(home)?;
    check_role(home, identity.link.role, Newcomer::Worker)?;
    let Ok(text) = std::fs::read_to_string(file) else {
        return Ok(identity);
    };

    let master = match parsed(&text, file) {
        Ok(content) => content.master,
        Err(failure) => {
            say_nonsense(&failure, file);
            return Ok(identity);
        }
    };
    if master != identity.link.master {
        tracing::info!(before = %identity.link.master, now = %master, "the master has another address");
        identity.link.master = master;
        identity.save(home)?;
    }
    remove(file);

    Ok(identity)
}

impl JoinWish {
    /// Reads the text of the file, which has to have a token.
    fn read(text: &str, file: &Path) -> Result<Self, Failure> {
        let wish = parsed(text, file)?;
        let token: JoinToken = wish.token.parse().map_err(|e: common::token::BadToken| {
            let what = format!("the token in {}: {e}", file.display());
            Failure::usage(what, COPY_WHOLE)
        })?;

        let name = match wish.name.is_empty() {
            true => own_name(Newcomer::Worker),
            false => wish.name,
        };
        Ok(Self {
            text: text.to_owned(),
            master: wish.master,
            token,
            name,
        })
    }
}

/// Reads the text of the file. Errors do not repeat it: it has a token.
fn parsed(text: &str, file: &Path) -> Result<FirstStart, Failure> {
    let wrong = |why: &str| {
        let what = format!("{} is invalid: {why}", file.display());
        Failure::usage(
            what,
            "write: master = \"HOST:PORT\" and, on a line of its own, token = \"TOKEN\"",
        )
    };
    let mut content: FirstStart = toml::from_str(text).map_err(|e| wrong(e.message()))?;
    content.master = master_address(&content.master).map_err(|why| wrong(&why))?;
    Ok(content)
}

fn unreadable(file: &Path, error: &std::io::Error) -> Failure {
    let what = format!(
        "this PC has not joined a grid, and {} cannot be read",
        file.display()
    );
    let hint = "write the master's address and a join token into it, or join with --master and --join @FILE";
    Failure::new(Exit::NotAuthorised, "no-identity", what, hint).because(error)
}

/// Says why this PC has not been let in, and returns that for whoever asks.
fn say(failure: &Failure, pause: Duration, file: &Path) -> String {
    tracing::warn!(
        target: admin::JOINING,
        because = failure.because.as_deref(),
        again_in = %common::Span::from(pause),
        file = %file.display(),
        "cannot join the grid yet: {}", failure.what
    );

    format!(
        "this PC cannot join the grid with {} yet; it tries again: {}",
        file.display(),
        failure.line()
    )
}

/// Says that a file is not taken.
fn say_nonsense(failure: &Failure, file: &Path) {
    tracing::warn!(
        target: admin::JOINING,
        because = failure.what.as_str(),
        file = %file.display(),
        "the file to join by makes no sense and is not taken: write it anew"
    );
}

/// Says that a file cannot be read any more.
fn say_gone(error: &std::io::Error, file: &Path) {
    tracing::warn!(
        target: admin::JOINING,
        %error,
        file = %file.display(),
        "the file to join by is gone or cannot be read: what it said counts until the worker ends. Stop the worker if it is not to join"
    );
}

/// Waits for the pause; ends it early, with what the file says, once it has another content that makes sense. One that makes
/// none, or is gone, is told, and what it said before goes on counting.
async fn changed(file: &Path, text: &str, pause: Duration) -> Option<JoinWish> {
    let until = tokio::time::Instant::now() + pause;
    let mut looks = JoinLooks::default();
    let mut told = false;
    let mut gone = 0;

    loop {
        tokio::time::sleep_until(until.min(tokio::time::Instant::now() + LOOK_EVERY)).await;
        match std::fs::read_to_string(file) {
            Ok(now) if now == text => {}
            Ok(now) => match looks.look(now, file) {
                FileLook::Sense(wish) => return Some(*wish),
                FileLook::Nonsense(failure) if !told => {
                    say_nonsense(&failure, file);
                    told = true;
                }
                FileLook::Nonsense(_) | FileLook::Unsure => {}
            },
            Err(error) => {
                gone += 1;
                // At the first look somebody may be replacing it.
                if gone == 2 {
                    say_gone(&error, file);
                }
            }
        }
        if tokio::time::Instant::now() >= until {
            return None;
        }
    }
}

/// Removes the file, which is of no use any more.
fn remove(file: &Path) {
    if let Err(error) = std::fs::remove_file(file)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(file = %file.display(), %error, "the file with the join token cannot be removed: remove it by hand");
    }
}

#[cfg(test)]
mod tests {
    use worker::control::{ControlError, ControlRequest, ask};

    use super::*;

    #[tokio::test]
    async fn a_service_without_a_file_to_join_by_rests_and_says_so_until_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("join.toml");
        let asking = async {
            loop {
                match ask(dir.path(), &ControlRequest::Status).await {
                    Err(ControlError::Resting(_, why)) => break why,
                    Err(ControlError::NotRunning(_)) => tokio::task::yield_now().await,
                    other => panic!("{other:?}"),
                }
            }
        };
        let mut arrives = std::pin::pin!(arrival(dir.path(), &file));
        let why = tokio::select! {
            () = &mut arrives => panic!("there is no file"),
            why = asking => why,
        };
        assert!(why.contains("join.toml"), "{why}");

        std::fs::write(&file, "master = ").unwrap();
        let in_time = tokio::time::timeout(Duration::from_secs(60), arrives).await;
        in_time.expect("the file is there");
    }

    #[test]
    fn a_file_that_may_be_half_written_is_looked_at_again() {
        let file = Path::new("/etc/deskgrid/join.toml");
        let token = format!("dg1.7.{}.{}", "00".repeat(16), "ff".repeat(32));
        let whole = format!("master = \"grid\"\ntoken = \"{token}\"\n");
        assert!(token.parse::<JoinToken>().is_ok(), "{token}");

        for half in ["", "master = ", "master = \"grid\"\n"] {
            let mut looks = JoinLooks::default();
            let mut look = |text: &str| looks.look(text.to_owned(), file);
            assert!(matches!(look(half), FileLook::Unsure), "{half}");
            let FileLook::Sense(wish) = look(&whole) else {
                panic!("{half}");
            };
            assert_eq!((&*wish.master, &wish.text), ("grid:7411", &whole));

            // Nobody goes on writing.
            let mut looks = JoinLooks::default();
            let mut look = |text: &str| looks.look(text.to_owned(), file);
            assert!(matches!(look("other"), FileLook::Unsure), "{half}");
            assert!(matches!(look(half), FileLook::Unsure), "{half}");
            assert!(matches!(look(half), FileLook::Nonsense(_)), "{half}");
        }
    }

    #[test]
    fn a_file_that_makes_no_sense_is_refused_without_repeating_its_token() {
        let file = Path::new("/etc/deskgrid/join.toml");
        for text in [
            "",
            "token = \"dg1.7.00112233.ff\"",
            "master = \"http://grid\"\ntoken = \"dg1.7.00112233.ff\"",
            "master = \"grid\"\ntoken = dg1.7.00112233.ff",
            "master = \"grid\"\ntokn = \"dg1.7.00112233.ff\"",
        ] {
            let failure = parsed(text, file).err().expect(text);
            assert_eq!(failure.exit, Exit::Usage);
            let said = failure.text();
            assert!(
                said.contains("join.toml") && !said.contains("0011"),
                "{said}"
            );
        }

        let good = parsed("master = \"grid\"\n", file).expect("a PC that has joined");
        assert_eq!((&*good.master, &*good.token), ("grid:7411", ""));
    }
}
