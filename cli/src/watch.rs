//! Waits for jobs. The master pushes changes and is never polled; a lost connection is made again.
//! `WayBack` does that for other commands as well.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use common::selector::Selector;
use common::view::{JobState, JobView};
use common::wire::client::{Reply, Request};
use common::{IdSet, JobId, Span};
use link::retry::Backoff;
use link::{Client, LinkError};

use crate::failure::{Exit, Failure};
use crate::output::note;
use crate::session::{Session, answer};
use crate::state::StateDir;
use crate::wait_reporter::WaitReporter;

/// The jobs to wait for, and how to wait.
pub(crate) struct Watch<'a> {
    way: WayBack<'a>,
    jobs: Selector,
    quiet: bool,
    reporter: Option<WaitReporter<'a>>,
}

/// Reconnects to a master that was away.
#[derive(Debug)]
pub(crate) struct WayBack<'a> {
    state: &'a StateDir,
    deadline: Option<Instant>,
    backoff: Backoff,
}

impl<'a> WayBack<'a> {
    /// Tries until `deadline`, or for ever if there is none.
    pub(crate) fn new(state: &'a StateDir, deadline: Option<Instant>) -> Self {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
        let identity = link::Identity::load(&state.client());
        if identity.is_ok_and(|known| link::masters::are_several(&known.link.master)) {
            // Another master takes over within seconds.
            backoff.at_most(Duration::from_secs(1));
        }
        Self {
            state,
            deadline,
            backoff,
        }
    }

    /// Connects again, with as many attempts as it takes; `None` if the deadline passes first.
    ///
    /// # Errors
    /// If the master does not let this identity in any more.
    pub(crate) async fn connect(&mut self) -> Result<Option<Client>, LinkError> {
        loop {
            if self.over() {
                return Ok(None);
            }
            let delay = self.backoff.delay();
            tokio::time::sleep(self.left().map_or(delay, |left| delay.min(left))).await;
            match self.try_once().await {
                Ok(client) => return Ok(Some(client)),
                Err(error) if error.passing() => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn try_once(&self) -> Result<Client, LinkError> {
        // The session's own task renews the identity. To do so before each try would keep all other programs of this
        // user waiting while the master is away.
        let connecting = Box::pin(crate::session::enter_again(self.state));
        let Some(left) = self.left() else {
            return connecting.await;
        };

        let master = link::Identity::load(&self.state.client())?.link.master;
        let connected = tokio::time::timeout(left, connecting).await;
        connected.unwrap_or_else(|_| {
            Err(LinkError::Unreachable {
                master,
                why: "time is over".to_owned(),
            })
        })
    }

    fn left(&self) -> Option<Duration> {
        self.deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Returns whether the deadline has passed or is less than 50 ms away: the master's clock may
    /// be that much ahead of ours.
    fn over(&self) -> bool {
        self.left()
            .is_some_and(|left| left < Duration::from_millis(50))
    }
}

/// The reason why a stream of answers was broken off.
pub(crate) enum Interrupted {
    /// The connection; see `LinkError::passing`.
    Link(LinkError),
    /// The action on an answer failed.
    Here(Failure),
}

/// Says that a command goes on over another connection after this failure.
pub(crate) fn note_lost(failure: &Failure) {
    note(&format!("{}; connecting again", failure.line()));
}

impl From<LinkError> for Interrupted {
    fn from(error: LinkError) -> Self {
        Interrupted::Link(error)
    }
}

/// The end of a wait, with the jobs as they were last seen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ended {
    /// The jobs that were waited for.
    pub jobs: Vec<JobView>,
    /// Whether the timeout passed before all jobs were settled.
    pub timed_out: bool,
}

impl Ended {
    /// Returns the exit code that says how the jobs ended.
    pub(crate) fn exit(&self) -> Exit {
        if self.timed_out {
            return Exit::TimedOut;
        }
        let well = self.jobs.iter().all(|job| job.state == JobState::Finished);
        if well { Exit::Well } else { Exit::TasksFailed }
    }
}

impl<'a> Watch<'a> {
    /// Waits for `jobs`, at most for `timeout`; with `quiet` the master need not report progress.
    pub(crate) fn new(
        state: &'a StateDir,
        jobs: Selector,
        timeout: Option<Duration>,
        quiet: bool,
    ) -> Self {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Self {
            way: WayBack::new(state, deadline),
            jobs,
            quiet,
            reporter: None,
        }
    }

    /// Also says, through `reporter`, why nothing happens.
    pub(crate) fn telling(self, reporter: WaitReporter<'a>) -> Self {
        Self {
            reporter: Some(reporter),
            ..self
        }
    }

    /// Waits, first over `session`, and calls `seen` with all jobs, by number, whenever they change.
    ///
    /// # Errors
    /// If the master refuses. An unreachable master is waited for.
    pub(crate) async fn run(
        mut self,
        session: Session,
        mut seen: impl FnMut(&BTreeMap<JobId, JobView>),
    ) -> Result<Ended, Failure> {
        let mut last = BTreeMap::new();
        let mut client = session.client().clone();
        let mut reporter = self.reporter.take();
        loop {
            let following = self.follow(&client, &mut last, &mut seen);
            match WaitReporter::beside(&mut reporter, &client, following).await {
                Ok(()) => return Ok(self.ended(last)),
                Err(error) if error.passing() => note(&format!("{error}; connecting again")),
                Err(error) => return Err(error.into()),
            }
            let Some(again) = self.way.connect().await? else {
                return Ok(self.ended(last));
            };
            client = again;
        }
    }

    /// Follows one stream of answers to its regular end.
    async fn follow(
        &mut self,
        client: &Client,
        last: &mut BTreeMap<JobId, JobView>,
        seen: &mut impl FnMut(&BTreeMap<JobId, JobView>),
    ) -> Result<(), LinkError> {
        let timeout = self.way.left().map(Span::from);
        let request = Request::Watch {
            jobs: self.jobs.clone(),
            quiet: self.quiet,
            timeout,
        };
        let mut replies = client.stream(&request).await?;
        let mut known = 0;

        while let Some(reply) = replies.next().await? {
            let jobs = answer!(reply, Reply::Jobs)?;
            // Numbers rise through the first listing: a number that does not means that the listing
            // is complete, and every awaited job is known.
            let again = jobs
                .first()
                .zip(last.keys().next_back())
                .is_some_and(|(first, last)| first.job <= *last);
            last.extend(jobs.into_iter().map(|job| (job.job, job)));

            // `last` and `all` keep their first meaning after a reconnection. There may be very many jobs: they are
            // gone through only when there are others.
            if (again || self.jobs == Selector::Last) && known != last.len() {
                self.jobs = Selector::Ids(last.keys().map(|job| job.0).collect::<IdSet>());
                known = last.len();
            }

            seen(last);
        }

        if last.values().all(|job| job.state.settled()) || self.way.over() {
            return Ok(());
        }

        Err(LinkError::Closed(
            "the master ended the answer early".to_owned(),
        ))
    }

    fn ended(&self, last: BTreeMap<JobId, JobView>) -> Ended {
        let timed_out =
            last.is_empty() && self.way.over() || last.values().any(|job| !job.state.settled());
        Ended {
            jobs: last.into_values().collect(),
            timed_out,
        }
    }
}
