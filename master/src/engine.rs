//! The master without sockets, threads and clock: the same core, store and session logic that
//! [`crate::run`] drives, for a driver that itself decides the order of events. Its messages and
//! replies are handed out as values.
//!
//! It adds no rule: its [`Ask`] is the same that a connection's task gives to the core in the
//! running program.

mod contender;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use common::attempt::{OutputFile, Stream};
use common::view::{AfterView, AttemptState, JobState};
use common::wire::Refusal;
use common::wire::worker::{ToMaster, ToWorker};
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, JobSpec, RequestId, Span, Time};
use link::Contents;
use scheduler::Parting;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{Receiver, unbounded_channel};
use tokio::sync::oneshot;

use crate::content_place::ContentIndex;
pub use crate::core::ask::{
    Ask, CoreReply, HostAsk, JobAsk, PeerAsk, Redeeming, Submitting, TailAsk, TokenWish, UpkeepAsk,
};
use crate::core::{Around, Core, Outbox, SessionId, check_spec, greeted, with_its_content};
use crate::laws::SafetyRules;
use crate::store::{AttemptResult, Reader, StoreError, StoreResult, Writer};
pub use crate::store::{
    LEASE_TABLES, SimulatedAnswer, SimulatedDatabase, SimulatedFault, SimulatedStatement,
    SimulatedValue,
};
pub use crate::store::{Logs, ObjectName, Peer, PeerStatus, Redeemed, StoreShadow};
use crate::{Config, MasterError};
pub use contender::StoreContender;

/// The master's core with its store, its outboxes and the replies to come.
pub struct Engine {
    core: Core,
    laws: SafetyRules,
    contents: Arc<dyn Contents>,
    heartbeat: Span,
    reader: Reader,
    outboxes: BTreeMap<u64, Receiver<ToWorker>>,
    /// The pending replies, in the order of the asks.
    asked: Vec<(u64, oneshot::Receiver<CoreReply>)>,
}

/// A message on a worker's session, or its end.
#[derive(Debug, Clone, PartialEq)]
pub enum Letter {
    /// A message to the worker.
    Says(Box<ToWorker>),
    /// The end of the session: a newer one of the same host has taken over.
    Ends,
}

/// A job as the store has it.
#[derive(Debug, Clone)]
pub struct JobRecord {
    /// Its state as last written.
    pub state: JobState,
    /// The spec as it was submitted.
    pub spec: JobSpec,
    /// The jobs that have to end before it starts.
    pub after: Vec<AfterView>,
    /// Tasks with a result.
    pub finished: IdSet,
    /// Tasks that failed.
    pub failed: IdSet,
    /// Tasks that were cancelled.
    pub cancelled: IdSet,
    /// The results of finished attempts.
    pub results: Vec<ResultRecord>,
}

/// The result of a finished attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultRecord {
    /// The attempt.
    pub attempt: AttemptId,
    /// The host that ran it.
    pub host: HostId,
    /// Its standard output.
    pub stdout: Stream,
    /// Its files.
    pub files: Vec<OutputFile>,
}

impl Engine {
    /// Opens a master on the store in `dir`, whose log lies in `logs`, started at `now`. Its changes are made in
    /// the shadow as well, if there is one.
    ///
    /// # Errors
    /// If the store does not open.
    pub fn open(
        dir: &Path,
        now: Time,
        config: &Config,
        contents: Arc<dyn Contents>,
        logs: &dyn Logs,
        laws: SafetyRules,
        shadow: Option<&StoreShadow>,
    ) -> Result<Self, MasterError> {
        let mut store = Writer::open_beside(dir, logs)?;
        if let Some(shadow) = shadow {
            store.shadowed(shadow.clone());
        }
        let reader = Reader::new(dir);
        Self::on((store, reader), now, config, (contents, None), laws)
    }

    /// A master on an open store, started at `now`.
    fn on(
        (store, reader): (Writer, Reader),
        now: Time,
        config: &Config,
        (contents, objects): (Arc<dyn Contents>, Option<Arc<ContentIndex>>),
        laws: SafetyRules,
    ) -> Result<Self, MasterError> {
        // Nothing compares beside the core here: jobs with quorums compare their results byte by
        // byte.
        let (compare, _) = unbounded_channel();
        let around = Around {
            blobs: Box::new(contents.clone()),
            objects,
            room: None,
            compare,
        };
        let core = Core::begin(now, store, config, around, laws)?;
        let heartbeat = config.heartbeat.span();

        Ok(Self {
            core,
            laws,
            contents,
            heartbeat,
            reader,
            outboxes: BTreeMap::new(),
            asked: Vec::new(),
        })
    }

    /// Sets the present time. What is due by it is done with [`Self::finish_group`].
    ///
    /// # Errors
    /// If the store fails; the master ends then, as after every error of the store.
    pub fn look_at_clock(&mut self, now: Time) -> StoreResult<()> {
        self.core.look_at_clock(now)
    }

    /// The time until something is due if no ask arrives.
    pub fn patience(&self, now: Time) -> Span {
        self.core.patience(now)
    }

    /// Does what is due and makes all changes durable, then hands out messages and replies.
    ///
    /// # Errors
    /// If the store fails.
    pub fn finish_group(&mut self) -> StoreResult<()> {
        self.core.do_what_is_due()?;
        self.core.finish_group()
    }

    /// The messages since the last call, by session.
    pub fn letters(&mut self) -> Vec<(u64, Letter)> {
        let mut letters = Vec::new();
        self.outboxes.retain(|session, outbox| {
            loop {
                match outbox.try_recv() {
                    Ok(message) => letters.push((*session, Letter::Says(Box::new(message)))),
                    Err(TryRecvError::Empty) => return true,
                    Err(TryRecvError::Disconnected) => {
                        letters.push((*session, Letter::Ends));
                        return false;
                    }
                }
            }
        });

        letters
    }

    /// The replies since the last call, each with the ticket of its ask.
    pub fn replies(&mut self) -> Vec<(u64, CoreReply)> {
        let mut replies = Vec::new();
        self.asked
            .retain_mut(|(ticket, told)| match told.try_recv() {
                Ok(reply) => {
                    replies.push((*ticket, reply));
                    false
                }
                Err(error) => error == oneshot::error::TryRecvError::Empty,
            });

        replies
    }

    /// Asks the core, as a connection's task does. The reply is among [`Self::replies`] once it is
    /// durable.
    ///
    /// # Errors
    /// If the store fails.
    pub fn ask(&mut self, ticket: u64, ask: impl Into<Ask>) -> StoreResult<()> {
        let ask = ask.into();
        let (tell, told) = oneshot::channel();
        self.asked.push((ticket, told));

        match &ask {
            Ask::Job(JobAsk::Submit(job)) => {
                if let Err(refusal) = check_spec(&job.spec, &job.asked) {
                    let _ = tell.send(Box::new(Err(refusal)).into());
                    return Ok(());
                }
            }
            Ask::Peer(PeerAsk::Redeem(_)) if !self.laws.token_before_certificate => {
                let _ = tell.send(self.core.handle(ask)?);
                return Ok(());
            }
            _ => {}
        }

        self.core.consider(ask, Some(tell))
    }

    /// Asks the core, and returns the reply at once: for replies that tell nothing that must be
    /// durable.
    ///
    /// # Errors
    /// If the store fails.
    pub fn look(&mut self, ask: impl Into<Ask>) -> StoreResult<CoreReply> {
        self.core.handle(ask)
    }

    /// Opens a worker's session with its first message, a `Hello`. The inner error is the refusal
    /// to send.
    ///
    /// # Errors
    /// If the store fails.
    pub fn greet(
        &mut self,
        host: HostId,
        name: &str,
        session: u64,
        hello: ToMaster,
    ) -> StoreResult<Result<(), Refusal>> {
        let (outbox, inbox) = Outbox::loose();
        let connected = match greeted(
            hello,
            (host, name.to_owned()),
            SessionId(session),
            outbox,
            self.heartbeat,
        ) {
            Ok(connected) => connected,
            Err(refusal) => return Ok(Err(refusal)),
        };

        self.outboxes.insert(session, inbox);
        let connected = HostAsk::Connected(Box::new(connected));
        self.core.consider(connected.into(), None).map(Ok)
    }

    /// Takes a worker's message. The inner error is the reason why its session ends.
    ///
    /// # Errors
    /// If the store fails.
    pub fn hear(
        &mut self,
        host: HostId,
        session: u64,
        message: ToMaster,
    ) -> StoreResult<Result<(), String>> {
        if let Err(what) = with_its_content(&message, |blob| self.contents.has(blob)) {
            return Ok(Err(what));
        }
        let said = HostAsk::Said(host, SessionId(session), message);
        self.core.consider(said.into(), None).map(Ok)
    }

    /// Ends a session whose connection ended so.
    ///
    /// # Errors
    /// If the store fails.
    pub fn disconnected(&mut self, host: HostId, session: u64, how: Parting) -> StoreResult<()> {
        self.outboxes.remove(&session);
        let ended = HostAsk::Disconnected(host, SessionId(session), how);
        self.core.consider(ended.into(), None)
    }

    /// Ends in order, after the last group: the store is another master's.
    ///
    /// # Errors
    /// If the store fails.
    pub fn finish(&mut self) -> StoreResult<()> {
        self.core.finish()
    }

    /// The incarnation of this start, which its attempts carry.
    pub fn incarnation(&self) -> Incarnation {
        self.core.incarnation()
    }

    /// The number of jobs in memory.
    pub fn open_jobs(&self) -> usize {
        self.core.open_jobs()
    }

    /// Whether the content that counts as unused is what the store has. It reads all that was ever sent.
    ///
    /// # Errors
    /// If the store fails.
    pub fn unused_is_right(&self) -> StoreResult<bool> {
        self.core.unused_is_right()
    }

    /// The job that this request made, if any.
    ///
    /// # Errors
    /// If the store fails.
    pub fn job_of(&self, request: RequestId) -> StoreResult<Option<JobId>> {
        self.core.job_of(request)
    }

    /// The job's record in the store, if it has one.
    ///
    /// # Errors
    /// If the store fails.
    pub fn record_of(&self, job: JobId) -> StoreResult<Option<JobRecord>> {
        let Some(restored) = self.core.stored(job)? else {
            return Ok(None);
        };
        let mut results = Vec::new();
        self.reader.attempts(job, (0, u32::MAX), |row| {
            if row.view.state == AttemptState::Finished {
                results.push((row.view.attempt, row.host, row.result));
            }
        })?;

        let record = |(attempt, host, result): (AttemptId, HostId, StoreResult<Option<_>>)| {
            let AttemptResult { stdout, files, .. } = result?.unwrap_or_default();
            Ok::<_, StoreError>(ResultRecord {
                attempt,
                host,
                stdout,
                files,
            })
        };

        let results = results.into_iter().map(record).collect::<Result<_, _>>()?;
        let progress = restored.progress;
        Ok(Some(JobRecord {
            state: restored.view.state,
            spec: restored.spec,
            after: restored.view.after,
            finished: progress.finished,
            failed: progress.failed,
            cancelled: progress.cancelled,
            results,
        }))
    }
}
