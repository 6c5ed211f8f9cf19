//! The connection to the other grid: made again for ever, with one stream that tells how the bridge's jobs
//! stand there.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::JobId;
use common::event::{Following, GridEvent};
use common::needs::Label;
use common::selector::Selector;
use common::view::{AttemptState, HostView, JobState, JobView, OutputView, TaskView};
use common::wire::RefusalCode;
use common::wire::client::{Reply, Request};
use link::client::{Replies, unexpected};
use link::retry::Backoff;
use link::{Client, Identity, LinkError, renewal};
use tokio::sync::watch;
use tokio::time::Instant;
use worker::delegate::{Desk, Report};

/// The time for which the other grid may be out of reach before nothing more is begun.
const AWAY: Duration = Duration::from_secs(5);
/// The pauses between two tries to reach it.
const AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// The same where it refuses this user.
const REFUSED: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(100));
/// The pause before jobs are looked up whose events may be missing.
const AFTER_LAG: Duration = Duration::from_secs(1);

/// The state of a job, as far as a bridge needs to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum JobStanding {
    /// Nothing of it runs.
    Waits,
    /// Its command was started.
    Runs,
    /// It is settled.
    Settled,
}

/// The [`JobStanding`] of each job that somebody waits for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standings(Arc<Mutex<BTreeMap<JobId, watch::Sender<JobStanding>>>>);

impl Standings {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<JobId, watch::Sender<JobStanding>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells from now on how a job stands.
    pub(crate) fn watch(&self, job: JobId) -> watch::Receiver<JobStanding> {
        let mut all = self.lock();
        let told = all
            .entry(job)
            .or_insert_with(|| watch::Sender::new(JobStanding::Waits));
        told.subscribe()
    }

    /// Returns the jobs that somebody waits for.
    fn watched(&self) -> Vec<JobId> {
        self.lock().keys().copied().collect()
    }

    /// Nobody waits for a job any more.
    pub(crate) fn forget(&self, job: JobId) {
        self.lock().remove(&job);
    }

    /// Notes news of a job; it does not go back.
    pub(crate) fn note(&self, job: JobId, standing: JobStanding) {
        if let Some(told) = self.lock().get(&job) {
            told.send_if_modified(|before| {
                let further = standing > *before;
                *before = standing.max(*before);
                further
            });
        }
    }
}

/// The [`Client`], while there is a connection.
pub(crate) type OtherGridWay = watch::Receiver<Option<Client>>;

/// Keeps a [`Client`] with the identity in `home` for ever, follows the jobs with this label, and tells the
/// desk while there is none for long.
pub(crate) async fn keep(
    home: PathBuf,
    label: Label,
    way: watch::Sender<Option<Client>>,
    standings: Standings,
    desk: Desk,
) {
    let mut pauses = Backoff::new(AGAIN.0, AGAIN.1);
    let mut refused = Backoff::new(REFUSED.0, REFUSED.1);
    let mut lost = Instant::now();
    let mut told: Option<String> = None;
    loop {
        let error = match open(&home, &label).await {
            Ok((client, identity, news)) => {
                pauses.reset();
                refused.reset();
                tracing::info!(user = client.user(), "connected to the other grid");
                way.send_replace(Some(client.clone()));
                if told.take().is_some() {
                    desk.report(Report::Away(None));
                }

                let ended = tokio::select! {
                    ended = listen(&client, news, &standings) => ended,
                    never = keep_renewed(&home, &client, identity) => never,
                };
                way.send_replace(None);
                client.close().await;
                lost = Instant::now();
                ended
            }
            Err(error) => error,
        };

        let delay = match error.passing() {
            true => pauses.delay(),
            false => refused.delay(),
        };
        tracing::warn!(%error, ?delay, "not connected to the other grid; trying again");
        let words = format!("the other grid cannot be reached: {error}");
        if (lost.elapsed() >= AWAY || !error.passing()) && told.as_ref() != Some(&words) {
            desk.report(Report::Away(Some(words.clone())));
            told = Some(words);
        }
        tokio::time::sleep(delay).await;
    }
}

/// Connects, and begins to follow.
async fn open(home: &Path, label: &Label) -> Result<(Client, Identity, Replies), LinkError> {
    let (client, identity) = Client::enter(home).await?;
    let following = Following {
        jobs: Some(Selector::Labelled([label.clone()].into())),
        wait: true,
        ..Following::default()
    };
    let mut news = client.stream(&Request::Follow(following)).await?;
    // What happens from this answer on is told.
    match news.next().await? {
        Some(Reply::Events(_)) => Ok((client, identity, news)),
        other => Err(unexpected(other.as_ref())),
    }
}

/// Renews the certificate whenever that is due, over the connection that stands: results are on their way there.
/// Never ends.
async fn keep_renewed(home: &Path, client: &Client, mut identity: Identity) -> LinkError {
    let taken = |_: &Identity| ControlFlow::Continue(());
    renewal::keep_renewed(home, client.connection(), &mut identity, taken).await;
    std::future::pending().await
}

/// Takes news until the connection is gone; returns why it is.
async fn listen(client: &Client, mut news: Replies, standings: &Standings) -> LinkError {
    loop {
        if let Err(error) = take(client, &mut news, standings).await {
            return error;
        }
    }
}

/// Takes the next news. Where events are missing, it asks over the same connection how each job stands that somebody
/// waits for.
async fn take(client: &Client, news: &mut Replies, standings: &Standings) -> Result<(), LinkError> {
    let page = match news.next().await? {
        Some(Reply::Events(page)) => page,
        Some(Reply::Lagged { .. }) => {
            tokio::time::sleep(AFTER_LAG).await;
            for job in standings.watched() {
                let now = standing(client, job).await?;
                standings.note(job, now.unwrap_or(JobStanding::Settled));
            }
            return Ok(());
        }
        Some(other) => return Err(unexpected(Some(&other))),
        None => return Err(LinkError::Closed("it tells nothing more".to_owned())),
    };

    for told in page.events {
        match told.event {
            GridEvent::TaskRunning { attempt, .. } => {
                standings.note(attempt.task.job, JobStanding::Runs);
            }
            GridEvent::JobSettled { job, .. } => standings.note(job, JobStanding::Settled),
            _ => {}
        }
    }
    Ok(())
}

/// No replies where there is nothing to reply of: a job that was removed.
fn there(replies: Result<Vec<Reply>, LinkError>) -> Result<Vec<Reply>, LinkError> {
    match replies {
        Err(LinkError::Refused(refusal)) if refusal.code == RefusalCode::NotFound => Ok(Vec::new()),
        replies => replies,
    }
}

/// Returns how a job stands now; `None` if there is no such job.
///
/// # Errors
/// If the master refuses or the connection is gone.
pub(crate) async fn standing(
    client: &Client,
    job: JobId,
) -> Result<Option<JobStanding>, LinkError> {
    let jobs = Request::Jobs {
        jobs: only(job),
        states: Vec::new(),
    };
    let mut found: Option<JobView> = None;
    for reply in there(client.ask(&jobs).await)? {
        match reply {
            Reply::Jobs(jobs) => found = jobs.into_iter().find(|view| view.job == job).or(found),
            other => return Err(unexpected(Some(&other))),
        }
    }

    let Some(view) = found else { return Ok(None) };
    if view.state.settled() {
        return Ok(Some(JobStanding::Settled));
    }
    if view.state == JobState::Waiting {
        return Ok(Some(JobStanding::Waits));
    }
    let runs = task(client, job).await?.is_some_and(|task| {
        let main = task.main_attempt().map(|attempt| attempt.state);
        matches!(main, Some(AttemptState::Running | AttemptState::Suspended))
    });
    Ok(Some(match runs {
        true => JobStanding::Runs,
        false => JobStanding::Waits,
    }))
}

/// Returns the one task of a job; `None` if there is none.
///
/// # Errors
/// If the master refuses or the connection is gone.
pub(crate) async fn task(client: &Client, job: JobId) -> Result<Option<TaskView>, LinkError> {
    let tasks = Request::Tasks {
        job,
        tasks: Selector::All,
        states: Vec::new(),
    };
    match there(client.ask(&tasks).await)?.pop() {
        Some(Reply::Tasks(mut tasks)) => Ok(tasks.pop()),
        None => Ok(None),
        Some(other) => Err(unexpected(Some(&other))),
    }
}

/// Returns the output of a job's one task, if it left any.
///
/// # Errors
/// If the master refuses or the connection is gone.
pub(crate) async fn output(client: &Client, job: JobId) -> Result<Option<OutputView>, LinkError> {
    let outputs = Request::Outputs {
        job,
        tasks: Selector::All,
    };
    match there(client.ask(&outputs).await)?.pop() {
        Some(Reply::Outputs(mut outputs)) => Ok(outputs.pop()),
        None => Ok(None),
        Some(other) => Err(unexpected(Some(&other))),
    }
}

/// Cancels a job; one that is settled or gone stays as it is.
///
/// # Errors
/// If the master refuses, so that the job may run on, or the connection is gone.
pub(crate) async fn cancel(client: &Client, job: JobId) -> Result<(), LinkError> {
    let cancel = Request::Cancel {
        jobs: only(job),
        tasks: None,
    };
    there(client.ask(&cancel).await).map(drop)
}

/// Returns the hosts of the other grid.
///
/// # Errors
/// If the master refuses or the connection is gone.
pub(crate) async fn hosts(client: &Client) -> Result<Vec<HostView>, LinkError> {
    let mut all = Vec::new();
    for reply in client.ask(&Request::Hosts { names: Vec::new() }).await? {
        match reply {
            Reply::Hosts(hosts) => all.extend(hosts),
            other => return Err(unexpected(Some(&other))),
        }
    }
    Ok(all)
}

fn only(job: JobId) -> Selector {
    Selector::Ids(common::IdSet::from_range(job.0, job.0))
}
