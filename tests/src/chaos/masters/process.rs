//! A master's process: the real code on a thread of its own, which waits for the world at each question to the
//! database, each pause, and between two groups. Killing it ends the thread where it waits.

use std::any::Any;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ::master::engine::{
    CoreReply, Engine, JobAsk, Letter, ObjectName, SimulatedAnswer, SimulatedDatabase,
    SimulatedFault, SimulatedStatement, StoreContender, Submitting, UpkeepAsk,
};
use ::master::{Config, MasterError, SafetyRules, StoreError};
use common::wire::worker::ToMaster;
use common::{
    BlobRef, HostId, IdSet, Incarnation, JobId, JobSpec, RequestId, Span, SubmitOptions, Time,
};

use link::Contents;
use scheduler::Parting;

use super::super::contents::Shelves;

/// The time between two looks at the lease. The program's is shorter.
const LOOK: Duration = Duration::from_millis(800);
/// The time between two sweeps, and the age from which content that nobody needs is removed.
const SWEEP: Span = Span::from_secs(3);
const GRACE: Span = Span::from_secs(8);

/// A client's wish.
#[derive(Debug, Clone)]
pub(super) enum Wish {
    Submit(RequestId, Box<JobSpec>),
    Forget(JobId),
}

/// Something that has come to an active master.
#[derive(Debug)]
pub(super) enum Came {
    Open(u64, HostId, Box<ToMaster>),
    Word(u64, HostId, Box<ToMaster>),
    Closed(u64, HostId),
    Ask(u64, Wish),
    /// Content was uploaded as the object of this number.
    Put(u64, BlobRef),
    /// Objects were deleted.
    Deleted(Vec<ObjectName>),
}

/// The answer to a wish.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Submitted(JobId),
    Refused(String),
    /// Whether content counts that was uploaded, or a job was forgotten.
    Whether(bool),
    Done,
}

/// What a master says after a group.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) letters: Vec<(u64, Letter)>,
    pub(super) answers: Vec<(u64, Answer)>,
    /// The sessions that it ends.
    pub(super) ended: Vec<u64>,
}

/// What a process waits for.
#[derive(Debug)]
pub(super) enum Call {
    Connect,
    Fly(u64, Vec<SimulatedStatement>),
    /// A session is over; nobody waits.
    Close(u64),
    /// An object is to be deleted; nobody waits.
    Delete(ObjectName),
    /// It says something, and does not wait.
    Said(Box<Said>),
    Sleep(Span),
    /// It has the store now.
    Took(Incarnation),
    /// A group is done; it waits for another, or this time.
    Idle(Span),
    /// It has ended.
    Ended(Why),
}

/// Why a process has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Why {
    /// It was asked to, and has given the store up.
    Stopped,
    /// Another master has the store.
    TakenOver,
    /// Something else, in words.
    Other(String),
}

/// What it waited for.
#[derive(Debug)]
pub(super) enum Reply {
    Connected(Result<u64, SimulatedFault>),
    Flown(Result<Vec<SimulatedAnswer>, SimulatedFault>),
    Go,
    Work(Vec<Came>),
    /// The next group is the last.
    Stop,
}

/// The end of a process that was killed.
struct Killed;

/// A process's way to the world.
#[derive(Debug)]
struct Line {
    calls: Sender<Call>,
    replies: Mutex<Receiver<Reply>>,
    now: Arc<AtomicU64>,
}

impl Line {
    fn call(&self, call: Call) -> Reply {
        let _ = self.calls.send(call);
        let replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = replies.recv();
        drop(replies);
        reply.unwrap_or_else(|_| resume_unwind(Box::new(Killed)))
    }
}

impl Line {
    fn says(&self, said: Said) {
        let _ = self.calls.send(Call::Said(Box::new(said)));
    }
}

impl SimulatedDatabase for Line {
    fn connect(&self) -> Result<u64, SimulatedFault> {
        match self.call(Call::Connect) {
            Reply::Connected(connected) => connected,
            other => unreachable!("{other:?}"),
        }
    }

    fn fly(
        &self,
        session: u64,
        statements: Vec<SimulatedStatement>,
    ) -> Result<Vec<SimulatedAnswer>, SimulatedFault> {
        match self.call(Call::Fly(session, statements)) {
            Reply::Flown(flown) => flown,
            other => unreachable!("{other:?}"),
        }
    }

    fn close(&self, session: u64) {
        let _ = self.calls.send(Call::Close(session));
    }

    fn delete(&self, name: ObjectName) {
        let _ = self.calls.send(Call::Delete(name));
    }

    fn now(&self) -> Time {
        Time(self.now.load(Ordering::Relaxed))
    }

    fn sleep(&self, time: Duration) {
        self.call(Call::Sleep(time.into()));
    }
}

/// What a process is started with.
pub(super) struct Setup {
    pub(super) id: String,
    /// How much its clock is ahead.
    pub(super) ahead: Span,
    pub(super) handed_over: bool,
    /// The directory for content that all masters share; without one it goes into the bucket.
    pub(super) directory: Option<Shelves>,
    pub(super) config: Config,
    pub(super) laws: SafetyRules,
    pub(super) now: Arc<AtomicU64>,
}

/// A process that runs.
pub(super) struct Process {
    calls: Receiver<Call>,
    replies: Option<Sender<Reply>>,
    thread: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts one. Its first call comes without a reply.
    pub(super) fn start(setup: Setup) -> Self {
        let (calls, from_process) = channel();
        let (replies, from_world) = channel();
        let line = Arc::new(Line {
            calls,
            replies: Mutex::new(from_world),
            now: setup.now.clone(),
        });
        let thread = std::thread::spawn(move || {
            let why = match serve(&line, &setup) {
                Ok(()) => Why::Stopped,
                Err(MasterError::Store(StoreError::Postgres(::master::PgError::TakenOver(_)))) => {
                    Why::TakenOver
                }
                Err(error) => Why::Other(error.to_string()),
            };
            let _ = line.calls.send(Call::Ended(why));
        });
        Self {
            calls: from_process,
            replies: Some(replies),
            thread: Some(thread),
        }
    }

    /// Gives it a reply.
    pub(super) fn resume(&self, reply: Reply) {
        if let Some(replies) = &self.replies {
            let _ = replies.send(reply);
        }
    }

    /// Waits for its next call.
    ///
    /// # Errors
    /// If it panicked, with its words.
    pub(super) fn next_call(&mut self) -> Result<Call, String> {
        self.calls.recv().map_err(|_| {
            let thread = self.thread.take().map(JoinHandle::join);
            match thread {
                Some(Err(panic)) => format!("panic: {}", words(&*panic)),
                _ => "a master's thread ended in silence".to_owned(),
            }
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.replies = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_default()
}

/// Stands by, then serves.
fn serve(line: &Arc<Line>, setup: &Setup) -> Result<(), MasterError> {
    let directory = setup.directory.clone();
    let directory = directory.map(|shelves| Arc::new(shelves) as Arc<dyn Contents>);
    let itself = (&*setup.id, setup.ahead, setup.handed_over);
    let mut contender =
        StoreContender::new(line.clone(), itself, &setup.config, directory, setup.laws);
    let mut engine = loop {
        match contender.look()? {
            Some(engine) => break engine,
            None => line.sleep(LOOK),
        }
    };
    line.call(Call::Took(engine.incarnation()));

    let clock = || line.now() + setup.ahead;
    let mut swept = clock();
    line.says(said(&mut engine, Vec::new()));
    loop {
        let patience = engine.patience(clock()).max(Span(1_000));
        let came = match line.call(Call::Idle(patience)) {
            Reply::Work(came) => came,
            Reply::Stop => {
                engine.finish()?;
                return Ok(());
            }
            other => unreachable!("{other:?}"),
        };

        let now = clock();
        let ended = hear(&mut engine, now, came)?;
        let sweeps = now.since(swept) >= SWEEP;
        if sweeps {
            swept = now;
            engine.sweep(now, GRACE)?;
        }
        let finished = engine.finish_group();
        let mut said = said(&mut engine, ended);
        if let Err(error) = finished {
            // What was said before the error has been said. That a session has ended says nothing.
            said.letters.retain(|(_, letter)| *letter != Letter::Ends);
            said.ended.clear();
            line.says(said);
            return Err(error.into());
        }
        line.says(said);
        if sweeps {
            let condemned = engine.condemned(now - GRACE);
            condemned.into_iter().for_each(|name| line.delete(name));
        }
    }
}

fn said(engine: &mut Engine, ended: Vec<u64>) -> Said {
    let answer = |reply| match reply {
        CoreReply::Submitted(taken) => match *taken {
            Ok(taken) => Answer::Submitted(taken.job.unwrap_or(JobId(0))),
            Err(refusal) => Answer::Refused(refusal.to_string()),
        },
        CoreReply::Whether(answer) => Answer::Whether(answer),
        _ => Answer::Done,
    };
    let replies = engine.replies().into_iter();
    Said {
        letters: engine.letters(),
        answers: replies
            .map(|(number, reply)| (number, answer(reply)))
            .collect(),
        ended,
    }
}

/// Considers what has come, as the core's thread does it. Returns the sessions that end.
fn hear(engine: &mut Engine, now: Time, came: Vec<Came>) -> Result<Vec<u64>, StoreError> {
    engine.look_at_clock(now)?;
    let mut ended = Vec::new();
    for came in came {
        match came {
            Came::Open(session, host, hello) => {
                let name = format!("pc-{}", host.0 - 1);
                if engine.greet(host, &name, session, *hello)?.is_err() {
                    ended.push(session);
                }
            }
            Came::Word(session, host, message) => {
                if engine.hear(host, session, *message)?.is_err() {
                    engine.disconnected(host, session, Parting::Closed)?;
                    ended.push(session);
                }
            }
            Came::Closed(session, host) => engine.disconnected(host, session, Parting::Silent)?,
            Came::Ask(number, wish) => engine.ask(number, wish.into_core())?,
            Came::Put(number, blob) => {
                let stored = UpkeepAsk::ContentStored {
                    blob,
                    generation: number.cast_signed(),
                    begun: now,
                };
                engine.ask(number, stored)?;
            }
            Came::Deleted(names) => engine.ask(0, UpkeepAsk::ObjectsDeleted(names))?,
        }
    }
    Ok(ended)
}

impl Wish {
    fn into_core(self) -> JobAsk {
        match self {
            Wish::Submit(request, spec) => JobAsk::Submit(Box::new(Submitting {
                request,
                user: "people".to_owned(),
                content: spec.content(),
                spec: *spec,
                asked: SubmitOptions::default(),
                hidden: IdSet::new(),
                disclosed: false,
                dry_run: false,
            })),
            Wish::Forget(job) => JobAsk::Forget(job),
        }
    }
}
