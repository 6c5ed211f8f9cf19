//! Joins the grid at the first start of a worker that was installed unattended: by a file that a
//! package, a script or an image of the disk left. It tries until the master lets this PC in, and
//! then removes the file. Joining with flags, or with a person at the terminal, is `login`'s.

use std::path::Path;
use std::time::Duration;

use common::token::JoinToken;
use common::wire::enrol::WantedRole;
use link::retry::Backoff;
use link::{Identity, JoiningKey, LinkError};
use serde::Deserialize;
use worker::admin;

use super::login::{Newcomer, check_role, other_name, own_name};
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

/// Returns the identity in `home`; where there is none, joins by `file`, as often as it takes.
///
/// # Errors
/// If the file is missing or makes no sense, or a file cannot be read or written.
pub(super) async fn identity(home: &Path, file: &Path) -> Result<Identity, Failure> {
    if Identity::found(home)? {
        return known(home, file);
    }

    let mut exposed = link::files::exposed(file, "the join token");
    let mut unreachable = Backoff::new(UNREACHABLE.0, UNREACHABLE.1);
    let mut refused = Backoff::new(REFUSED.0, REFUSED.1);
    loop {
        let text = std::fs::read_to_string(file).map_err(|e| unreadable(file, &e))?;
        if let Some(warning) = exposed.take() {
            tracing::warn!("{warning}");
        }
        let (wished, joined) = join(home, &text, file).await?;
        let error = match joined {
            Ok(identity) => {
                identity.save(home)?;
                tracing::info!(target: admin::JOINING, master = %identity.link.master, name = %identity.link.name, "joined the grid");
                if let Some(words) = other_name(&wished, &identity.link.name) {
                    tracing::info!("{words}");
                }
                remove(file);
                return Ok(identity);
            }
            Err(error) => error,
        };

        let passing = matches!(error, LinkError::Unreachable { .. } | LinkError::Closed(_));
        let pauses = if passing {
            &mut unreachable
        } else {
            &mut refused
        };
        let pause = pauses.delay();
        say(error, pause, file);
        if changed(file, &text, pause).await {
            unreachable.reset();
            refused.reset();
        }
    }
}

/// Waits until the file is there and written to its end. Meanwhile the worker of `dir` rests, and
/// says so in its log and to whoever asks for its status.
#[cfg(any(windows, test))]
pub(super) async fn arrival(dir: &Path, file: &Path) {
    let why = format!(
        "this PC has not joined a grid: the worker waits for {} with the master's address and a join token",
        file.display()
    );
    tracing::warn!(target: admin::JOINING, "{why}");

    tokio::select! {
        () = written(file) => {}
        // Without the socket it waits all the same.
        Err(error) = worker::control::rest(dir, &why) => {
            tracing::warn!(%error, "`deskgrid worker status` will not find this worker");
            written(file).await;
        }
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

/// Loads the existing identity. A file that names another address of the master changes it.
fn known(home: &Path, file: &Path) -> Result<Identity, Failure> {
    let mut identity = Identity::load(home)?;
    check_role(home, identity.link.role, Newcomer::Worker)?;
    let Ok(text) = std::fs::read_to_string(file) else {
        return Ok(identity);
    };

    let master = parsed(&text, file)?.master;
    if master != identity.link.master {
        tracing::info!(before = %identity.link.master, now = %master, "the master has another address");
        identity.link.master = master;
        identity.save(home)?;
    }
    remove(file);

    Ok(identity)
}

/// Asks the master to let this PC in, once, under the name that comes first.
async fn join(
    home: &Path,
    text: &str,
    file: &Path,
) -> Result<(String, Result<Identity, LinkError>), Failure> {
    let FirstStart {
        master,
        token,
        name,
    } = parsed(text, file)?;
    let token: JoinToken = token.parse().map_err(|e: common::token::BadToken| {
        let what = format!("the token in {}: {e}", file.display());
        Failure::usage(
            what,
            "copy it whole; or give the file that has it as @FILE; or ask for a new one",
        )
    })?;
    let name = if name.is_empty() {
        own_name(Newcomer::Worker)
    } else {
        name
    };

    let key = JoiningKey::kept_in(home)?;
    let joined = link::enrol_as(&master, &token, &key, &name, WantedRole::Worker).await;
    Ok((name, joined))
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

fn say(error: LinkError, pause: Duration, file: &Path) {
    let failure = Failure::from(error);
    tracing::warn!(
        target: admin::JOINING,
        because = failure.because.as_deref().unwrap_or(&failure.what),
        again_in = %humantime::format_duration(Duration::from_secs(pause.as_secs())),
        file = %file.display(),
        "cannot join the grid yet: {}", failure.what
    );
}

/// Waits for the pause; ends it early, with `true`, once the file has another content.
async fn changed(file: &Path, text: &str, pause: Duration) -> bool {
    let until = tokio::time::Instant::now() + pause;
    loop {
        tokio::time::sleep_until(until.min(tokio::time::Instant::now() + LOOK_EVERY)).await;
        if std::fs::read_to_string(file).is_ok_and(|now| now != text) {
            return true;
        }
        if tokio::time::Instant::now() >= until {
            return false;
        }
    }
}

/// Removes the file, which is of no use any more.
fn remove(file: &Path) {
    if let Err(error) = std::fs::remove_file(file) {
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
                    Err(ControlError::Resting(why)) => break why,
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
