//! The owner's control of the worker of this machine, without the master: one line of JSON to a
//! socket in the worker's directory (on Windows a named pipe), one line back. The transports
//! restrict who may connect.
//!
//! A pause is a file ([`crate::owner::pause`]), so it survives the worker and can be made without
//! one. The command line formats the answers for people.

#[cfg(test)]
mod tests;
#[cfg_attr(unix, path = "control/unix.rs")]
#[cfg_attr(windows, path = "control/windows.rs")]
mod transport;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use common::Time;
use common::owner::StatusReport;

use crate::owner::pause;
use crate::owner::sight::{Reading, Sight};

/// The longest line in either direction, in bytes.
const MAX_LINE: u64 = 4 << 20;
/// The longest time that the other end may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A request of the owner's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask")]
pub enum ControlRequest {
    /// Returns the worker's state.
    Status,
    /// Pauses all tasks until this time (RFC 3339) or until told otherwise.
    Pause {
        /// The end of the pause, if it is to end by itself.
        until: Option<String>,
    },
    /// Ends the pause.
    Resume,
}

/// The worker's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub enum ControlAnswer {
    /// Done; with the worker's present state.
    Report(Box<StatusReport>),
    /// The worker does not work yet.
    Resting {
        /// The kind of the reason. A worker of an older version does not say.
        #[serde(default)]
        kind: RestKind,
        /// The reason, in words.
        why: String,
    },
    /// Refused.
    Refused {
        /// The reason, in words.
        why: String,
    },
}

/// The reason why a worker does not work yet: its kind, and the words.
pub type WorkerRest = (RestKind, String);

/// The kind of a [`WorkerRest`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestKind {
    /// Nothing has failed yet.
    #[default]
    Waits,
    /// The master is unreachable.
    Away,
    /// The master does not let it in.
    Refused,
}

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No worker runs in this directory.
    #[error("no worker runs in {dir}", dir = .0.display())]
    NotRunning(PathBuf),
    /// The socket cannot be used, or the conversation broke off.
    #[error("cannot speak with the worker in {dir}", dir = .dir.display())]
    Io {
        /// The worker's directory.
        dir: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The worker does not work yet; with its reason.
    #[error("{1}")]
    Resting(RestKind, String),
    /// The worker refused; with its reason.
    #[error("{0}")]
    Refused(String),
}

/// Sends a request to the worker of this directory and returns its report.
///
/// # Errors
/// If none runs there, it does not answer, or it does not answer with a report.
pub async fn ask(dir: &Path, ask: &ControlRequest) -> Result<StatusReport, ControlError> {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    let failed = |source: io::Error| match source.kind() {
        NotFound | ConnectionRefused => ControlError::NotRunning(dir.to_owned()),
        _ => ControlError::Io {
            dir: dir.to_owned(),
            source,
        },
    };

    let broken = |source: io::Error| ControlError::Io {
        dir: dir.to_owned(),
        source,
    };
    let in_time = |_| broken(io::ErrorKind::TimedOut.into());
    let stream = tokio::time::timeout(PATIENCE, transport::connect(dir))
        .await
        .map_err(in_time)?
        .map_err(failed)?;

    let answer = tokio::time::timeout(PATIENCE, say(stream, ask))
        .await
        .map_err(in_time)?
        .map_err(broken)?;
    match serde_json::from_str(&answer).map_err(|error| broken(error.into()))? {
        ControlAnswer::Report(report) => Ok(*report),
        ControlAnswer::Resting { kind, why } => Err(ControlError::Resting(kind, why)),
        ControlAnswer::Refused { why } => Err(ControlError::Refused(why)),
    }
}

async fn say(stream: impl AsyncRead + AsyncWrite, ask: &ControlRequest) -> io::Result<String> {
    let (from, mut to) = tokio::io::split(stream);
    to.write_all(&line(ask)?).await?;
    let mut answer = String::new();
    BufReader::new(from.take(MAX_LINE))
        .read_line(&mut answer)
        .await?;
    Ok(answer)
}

fn line(what: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    Ok(line)
}

/// Carries out a request without a worker as far as possible: a pause will be there when it starts.
///
/// # Errors
/// If the pause file cannot be changed: there may never have been a worker in this directory.
pub fn without(dir: &Path, ask: &ControlRequest) -> Result<(), ControlError> {
    switch(ask, dir).map(drop).map_err(ControlError::Refused)
}

/// Returns the pause file of this directory, and the end of the pause, if a pause is in force.
pub fn paused(dir: &Path) -> Option<String> {
    match pause::sight(&dir.join(pause::PAUSE_FILE)) {
        Sight::Seen(Reading::Paused(switch)) => switch,
        _ => None,
    }
}

/// A question to the worker's loop, with the new sight of the owner's own switch if the request has
/// just changed it.
#[derive(Debug)]
pub(crate) struct ControlQuestion {
    /// The sight of the switch in the worker's directory.
    pub switch: Option<Sight>,
    /// The channel for the answer: a report, or why the worker does not work yet.
    pub answer: oneshot::Sender<Result<StatusReport, WorkerRest>>,
}

/// Answers whoever asks a worker that does not work yet: with the newest `why`. Ends only if it cannot; the
/// conversations end with it, since the next one to answer here needs the pipe of Windows to itself.
///
/// # Errors
/// If the socket cannot be made.
pub async fn rest(dir: &Path, why: &watch::Receiver<WorkerRest>) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let mut listener = transport::Listener::bind(dir)?;
    let (tell, mut asked) = mpsc::unbounded_channel::<ControlQuestion>();
    let mut conversations = JoinSet::new();

    loop {
        tokio::select! {
            stream = listener.accept() => {
                conversations.spawn(converse(stream?, dir.to_owned(), tell.clone()));
            }
            Some(question) = asked.recv() => {
                let _ = question.answer.send(Err(why.borrow().clone()));
            }
            Some(_) = conversations.join_next() => {}
        }
    }
}

/// Answers requests on the socket of `dir` until `tell` is closed.
///
/// # Errors
/// If the socket cannot be made.
pub(crate) fn serve<T: From<ControlQuestion> + Send + 'static>(
    dir: PathBuf,
    tell: UnboundedSender<T>,
) -> io::Result<()> {
    let mut listener = transport::Listener::bind(&dir)?;
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = tell.closed() => return,
            };
            match accepted {
                Ok(stream) => drop(tokio::spawn(converse(stream, dir.clone(), tell.clone()))),
                Err(error) => {
                    tracing::warn!(%error, "the owner's socket");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    });

    Ok(())
}

/// Handles one request and its answer.
async fn converse<T: From<ControlQuestion> + Send + 'static>(
    stream: transport::Stream,
    dir: PathBuf,
    tell: UnboundedSender<T>,
) {
    let talk = async {
        let (from, mut to) = tokio::io::split(stream);
        let mut from = BufReader::new(from.take(MAX_LINE));
        let mut asked = String::new();
        from.read_line(&mut asked).await?;

        let answer = match serde_json::from_str::<ControlRequest>(&asked) {
            Ok(ask) => answer(ask, dir, &tell).await,
            Err(error) => ControlAnswer::Refused {
                why: format!("this worker does not understand what it was asked: {error}"),
            },
        };
        to.write_all(&line(&answer)?).await?;
        to.shutdown().await?;

        // The asking end must close first: a pipe that this end closes loses what was not read yet.
        from.read_line(&mut asked).await
    };
    if let Ok(Err(error)) = tokio::time::timeout(PATIENCE, talk).await {
        tracing::debug!(%error, "somebody who asked has gone");
    }
}

async fn answer<T: From<ControlQuestion> + Send + 'static>(
    ask: ControlRequest,
    dir: PathBuf,
    tell: &UnboundedSender<T>,
) -> ControlAnswer {
    let refused = |why: String| ControlAnswer::Refused { why };
    let switched = tokio::task::spawn_blocking(move || {
        let switch = switch(&ask, &dir)?;
        Ok::<_, String>((switch, pause_ends(&dir)))
    });
    let (switch, paused_until) = match switched.await {
        Ok(Ok(switched)) => switched,
        Ok(Err(why)) => return refused(why),
        Err(error) => return refused(error.to_string()),
    };

    let (answer, report) = oneshot::channel();
    if tell
        .send(ControlQuestion { switch, answer }.into())
        .is_err()
    {
        return refused("the worker is about to end".to_owned());
    }

    match report.await {
        Err(_) => refused("the worker is about to end".to_owned()),
        Ok(Err((kind, why))) => ControlAnswer::Resting { kind, why },
        Ok(Ok(report)) => ControlAnswer::Report(Box::new(StatusReport {
            paused_until,
            ..report
        })),
    }
}

/// Returns the end of the pause in this directory, if there is one that ends by itself.
pub fn pause_ends(dir: &Path) -> Option<Time> {
    let now = Timestamp::now();
    let pause = pause::look(&dir.join(pause::PAUSE_FILE), now).ok()??;
    u64::try_from(pause.until?.as_microsecond()).ok().map(Time)
}

/// Turns the switch as asked; returns its new sight if it was turned.
fn switch(ask: &ControlRequest, dir: &Path) -> Result<Option<Sight>, String> {
    let failed = |error: io::Error| format!("{}: {error}", dir.join(pause::PAUSE_FILE).display());
    match ask {
        ControlRequest::Status => return Ok(None),
        ControlRequest::Pause { until } => {
            let until = until.as_deref().map(str::parse::<Timestamp>).transpose();
            pause::pause(dir, until.map_err(|error| error.to_string())?).map_err(failed)?;
        }
        ControlRequest::Resume => drop(pause::resume(dir).map_err(failed)?),
    }
    Ok(Some(pause::sight(&dir.join(pause::PAUSE_FILE))))
}
