//! The master without sockets, threads and clock: the same core, store and session logic that
//! [`crate::run`] drives, for a driver that decides itself what happens when. What it sends and
//! answers is handed out as messages.
//!
//! What is not here: any rule. Each method says what a connection's task says to the core in the
//! running program.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use common::attempt::{OutputFile, Stream};
use common::token::{JoinToken, Role};
use common::view::{AttemptState, JobState};
use common::wire::Refusal;
use common::wire::enrol::Wanted;
use common::wire::worker::{ToMaster, ToWorker};
use common::{
    Asked, AttemptId, BlobRef, HostId, IdSet, Incarnation, JobId, JobSpec, RequestId, Span, Time,
};
use link::Contents;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, unbounded_channel};
use uuid::Uuid;

use crate::core::{Answer, Around, Core, Outbox, SessionId, check_spec, content_is_here, greeted};
use crate::laws::Laws;
pub use crate::store::Logs;
use crate::store::{AttemptResult, Reader, Redeemed, Standing, StoreError, Writer};
use crate::{Config, MasterError};

/// When a certificate expires in a world without certificates.
const NEVER: Time = Time(u64::MAX >> 1);

/// The master's core with its store, and what it has to say.
pub struct Engine {
    core: Core,
    laws: Laws,
    contents: Arc<dyn Contents>,
    heartbeat: Span,
    reader: Reader,
    outboxes: BTreeMap<u64, Receiver<ToWorker>>,
    tell: UnboundedSender<(u64, Answered)>,
    told: UnboundedReceiver<(u64, Answered)>,
}

/// Somebody whose certificate is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// As the certificate names it.
    pub id: Uuid,
    /// The host that it is, if it is one.
    pub host: Option<HostId>,
    /// A host's or user's name.
    pub name: String,
}

/// What the core answers, once what it says is durable.
#[derive(Debug, Clone)]
pub enum Answered {
    /// To a submission: its number, and whether the request had been seen before.
    Submitted(Result<(JobId, bool), Refusal>),
    /// To a request, a cancellation, a retry or a wish to forget: how many tasks or jobs were
    /// affected.
    Changed(u64),
    /// To a request for a token.
    Token(JoinToken),
    /// To an enrolment: the identity that its certificate names, or why there is none.
    Enrolled(Result<Admitted, &'static str>),
}

/// What goes out on a worker's session.
#[derive(Debug, Clone, PartialEq)]
pub enum Letter {
    /// A message.
    Says(Box<ToWorker>),
    /// Its end: a newer session of the same host has taken over.
    Ends,
}

/// A job as the store has it.
#[derive(Debug, Clone)]
pub struct JobRecord {
    /// Its state as last written.
    pub state: JobState,
    /// What was submitted.
    pub spec: JobSpec,
    /// Tasks with a result.
    pub finished: IdSet,
    /// Tasks that failed.
    pub failed: IdSet,
    /// Tasks that were cancelled.
    pub cancelled: IdSet,
    /// What finished attempts left.
    pub results: Vec<ResultRecord>,
}

/// What a finished attempt left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultRecord {
    /// Which attempt.
    pub attempt: AttemptId,
    /// Where.
    pub host: HostId,
    /// What it printed.
    pub stdout: Stream,
    /// Its files.
    pub files: Vec<OutputFile>,
}

impl Engine {
    /// A master on the store in `dir`, of which the log lies in `logs`, started at `now`.
    ///
    /// # Errors
    /// If the store does not open.
    pub fn open(
        dir: &Path,
        now: Time,
        config: &Config,
        (contents, logs): (Arc<dyn Contents>, &dyn Logs),
        laws: Laws,
    ) -> Result<Self, MasterError> {
        // Nobody compares here beside the core: jobs of quorums compare their results byte by byte.
        let (compare, _) = unbounded_channel();
        let around = Around {
            blobs: Box::new(contents.clone()),
            room: None,
            compare,
        };
        let core = Core::begin(now, Writer::open_beside(dir, logs)?, config, around, laws)?;
        let ((tell, told), reader) = (unbounded_channel(), Reader::new(dir));
        let heartbeat = config.heartbeat.span();

        Ok(Self {
            core,
            laws,
            contents,
            heartbeat,
            reader,
            outboxes: BTreeMap::new(),
            tell,
            told,
        })
    }

    /// It is now this late: what is due happens.
    ///
    /// # Errors
    /// If the store fails; the master ends then, as after every error of the store.
    pub fn look_at_clock(&mut self, now: Time) -> Result<(), StoreError> {
        self.core.look_at_clock(now)
    }

    /// How long nothing needs to be done if nothing comes.
    pub fn patience(&self, now: Time) -> Span {
        self.core.patience(now)
    }

    /// Makes what has happened durable, then sends and answers.
    ///
    /// # Errors
    /// If the store fails.
    pub fn finish_group(&mut self) -> Result<(), StoreError> {
        self.core.write_experience_if_due()?;
        self.core.finish_group()
    }

    /// What has been sent since the last call, by session.
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

    /// What has been answered since the last call, each with the number that came with the
    /// question.
    pub fn answers(&mut self) -> Vec<(u64, Answered)> {
        std::iter::from_fn(|| self.told.try_recv().ok()).collect()
    }

    /// Whom a certificate names, if it is known and not revoked.
    ///
    /// # Errors
    /// If the store fails.
    pub fn authenticate(
        &mut self,
        id: Uuid,
        key_hash: &[u8; 32],
    ) -> Result<Option<Admitted>, StoreError> {
        Ok(match self.core.authenticate(id, *key_hash)? {
            Standing::In(peer) => Some(Admitted {
                id,
                host: peer.host,
                name: peer.name,
            }),
            _ => None,
        })
    }

    /// A worker opens a session with its first message; the refusal is for it.
    ///
    /// # Errors
    /// If the store fails.
    pub fn greet(
        &mut self,
        host: HostId,
        name: &str,
        session: u64,
        hello: ToMaster,
    ) -> Result<Result<(), Refusal>, StoreError> {
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
        self.core.on_connected(connected).map(Ok)
    }

    /// A worker says something; the inner error is why its session ends.
    ///
    /// # Errors
    /// If the store fails.
    pub fn hear(
        &mut self,
        host: HostId,
        session: u64,
        message: ToMaster,
    ) -> Result<Result<(), String>, StoreError> {
        match content_is_here(&*self.contents, &message) {
            Ok(()) => self.core.on_said(host, SessionId(session), message).map(Ok),
            Err(what) => Ok(Err(what)),
        }
    }

    /// A session has ended.
    ///
    /// # Errors
    /// If the store fails.
    pub fn disconnected(&mut self, host: HostId, session: u64) -> Result<(), StoreError> {
        self.outboxes.remove(&session);
        self.core.on_disconnected(host, SessionId(session))
    }

    /// A client submits a job, or only discloses it.
    ///
    /// # Errors
    /// If the store fails.
    pub fn submit(
        &mut self,
        ticket: u64,
        request: RequestId,
        user: &str,
        (spec, disclosed): (JobSpec, bool),
    ) -> Result<(), StoreError> {
        let taken = match check_spec(&spec, &Asked::default()) {
            Ok(()) => {
                self.core
                    .submit(request, user, (spec, Asked::default()), (disclosed, false))?
            }
            Err(refusal) => Err(refusal),
        };
        let answer = taken.map(|submitted| (submitted.job.unwrap_or(JobId(0)), submitted.again));
        self.answer(ticket, Answered::Submitted(answer));

        Ok(())
    }

    /// A client waits for tasks of a disclosed job.
    ///
    /// # Errors
    /// If the store fails.
    pub fn request(&mut self, ticket: u64, job: JobId, tasks: &IdSet) -> Result<(), StoreError> {
        let count = self.core.request(job, tasks)?.new;
        self.answer(ticket, Answered::Changed(count));
        Ok(())
    }

    /// A client needs nothing of a disclosed job that it has not requested.
    ///
    /// # Errors
    /// If the store fails.
    pub fn drop_unrequested(&mut self, ticket: u64, job: JobId) -> Result<(), StoreError> {
        let count = self.core.drop_unrequested(job)?;
        self.answer(ticket, Answered::Changed(count));
        Ok(())
    }

    /// A client cancels a job.
    ///
    /// # Errors
    /// If the store fails.
    pub fn cancel(&mut self, ticket: u64, job: JobId) -> Result<(), StoreError> {
        let count = self.core.cancel(job, None)?;
        self.answer(ticket, Answered::Changed(count));
        Ok(())
    }

    /// A client has failed and cancelled tasks of a job tried again.
    ///
    /// # Errors
    /// If the store fails.
    pub fn retry(&mut self, ticket: u64, job: JobId, tasks: &IdSet) -> Result<(), StoreError> {
        let count = self.core.retry(job, tasks, false)?;
        self.answer(ticket, Answered::Changed(count));
        Ok(())
    }

    /// A client has a settled job forgotten.
    ///
    /// # Errors
    /// If the store fails.
    pub fn forget(&mut self, ticket: u64, job: JobId) -> Result<(), StoreError> {
        let forgotten = self.core.forget(job)?;
        self.answer(ticket, Answered::Changed(u64::from(forgotten)));
        Ok(())
    }

    /// An admin makes a join token for workers, for so many uses within so much time.
    ///
    /// # Errors
    /// If the store fails.
    pub fn create_token(&mut self, ticket: u64, uses: u32, ttl: Span) -> Result<(), StoreError> {
        let (token, _) =
            self.core
                .create_token("admin", (Role::Worker, ttl, uses), "token", false, [0; 32])?;
        self.answer(ticket, Answered::Token(token));
        Ok(())
    }

    /// Somebody redeems a token.
    ///
    /// # Errors
    /// If the store fails.
    pub fn enrol(
        &mut self,
        ticket: u64,
        token: &JoinToken,
        name: &str,
        key_hash: [u8; 32],
    ) -> Result<(), StoreError> {
        let answer = match self.core.redeem(
            "somewhere",
            (token.id, &token.secret),
            name,
            (key_hash, Wanted::Any),
            NEVER,
        )? {
            Redeemed::Peer(peer) | Redeemed::Again(peer) => Ok(Admitted {
                id: peer.id,
                host: peer.host,
                name: peer.name,
            }),
            Redeemed::Wrong | Redeemed::Unfit(_) => Err("there is no such token"),
            Redeemed::Refused(why) => Err(why),
        };

        if self.laws.token_before_certificate {
            self.answer(ticket, Answered::Enrolled(answer));
        } else {
            self.telling(ticket, Answered::Enrolled(answer))();
        }

        Ok(())
    }

    /// Removes old content that nobody needs, as the sweeper does; gives how many bytes.
    ///
    /// # Errors
    /// If the store fails.
    pub fn sweep(&mut self, old: &[(BlobRef, std::time::SystemTime)]) -> Result<u64, StoreError> {
        self.core.sweep(old)
    }

    fn telling(&self, ticket: u64, answered: Answered) -> Answer {
        let tell = self.tell.clone();
        // Who asked may have gone.
        Box::new(move || drop(tell.send((ticket, answered))))
    }

    fn answer(&mut self, ticket: u64, answered: Answered) {
        let telling = self.telling(ticket, answered);
        self.core.answer_later(telling);
    }

    /// How often the master was started, as its attempts say it.
    pub fn incarnation(&self) -> Incarnation {
        self.core.incarnation()
    }

    /// How many jobs are in memory.
    pub fn open_jobs(&self) -> usize {
        self.core.open_jobs()
    }

    /// The job that a request made.
    ///
    /// # Errors
    /// If the store fails.
    pub fn job_of(&self, request: RequestId) -> Result<Option<JobId>, StoreError> {
        self.core.job_of(request)
    }

    /// A job as the store has it.
    ///
    /// # Errors
    /// If the store fails.
    pub fn record_of(&self, job: JobId) -> Result<Option<JobRecord>, StoreError> {
        let Some(restored) = self.core.stored(job)? else {
            return Ok(None);
        };
        let mut results = Vec::new();
        self.reader.attempts(job, (0, u32::MAX), |row| {
            if row.view.state == AttemptState::Finished {
                results.push((row.view.attempt, row.host, row.result));
            }
        })?;

        let record =
            |(attempt, host, result): (AttemptId, HostId, Result<Option<_>, StoreError>)| {
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
            finished: progress.finished,
            failed: progress.failed,
            cancelled: progress.cancelled,
            results,
        }))
    }
}
