//! The one thread that owns the scheduler and the store's writer. It works in groups: take all asks
//! that have arrived, step the scheduler for each event, make everything durable in one commit, and
//! only then send messages and replies. While a commit runs, the next group collects.

mod again;
mod agree;
mod apply;
pub(crate) mod ask;
mod assign;
mod availability;
mod check;
mod claims;
mod contents;
mod events;
mod experience;
mod hear;
mod hosts;
mod idle;
mod jobs;
mod kept;
mod mail;
mod order;
mod overdue;
mod peers;
mod progress;
mod promises;
mod record;
mod retention;
mod rollout;
mod site;
mod speculation;
mod starts;
mod tail;
mod together;
mod updates;
mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use common::event::GridEvent;
use common::wire::{Refusal, RefusalCode};
use common::{AttemptId, HostId, Incarnation, JobId, Span, TaskId, Time};
use link::{Contents, LinkError};
use scheduler::{Effect, Event, Scheduler, Settings};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{OwnedSemaphorePermit, broadcast, oneshot, watch};

use crate::clock::Clock;
use crate::compare::Comparison;
use crate::content_place::{ContentIndex, ContentPlace};
use crate::laws::SafetyRules;
use crate::limits::Limits;
use crate::numbers;
use crate::room::DiskRoom;
use crate::store::{StoreResult, StoreWait, TakenUp, Writer};
use crate::{Config, MasterError};
use ask::{Ask, Asking, CoreReply, UpkeepAsk};
use hosts::Delivered;
use record::Recorder;

pub(crate) use check::{check_addition, check_spec};
pub(crate) use contents::{ContentNeed, OldBlob};
pub(crate) use experience::note_of;
pub(crate) use hear::{greeted, with_its_content};
pub(crate) use hosts::{Connected, Forgetting, SessionId};
pub(crate) use jobs::{LiveJob, SubmitReply, content_is_missing};
pub(crate) use mail::{HostMail, Outbox};
pub(crate) use order::{AddReply, Adding};
pub(crate) use peers::{EndedShare, Judged};
pub(crate) use site::SiteViews;
pub(crate) use speculation::RequestOutcome;

/// The most asks in one commit, so that replies do not wait without bound under load.
const GROUP: usize = 4_096;
/// The longest time between two looks at the clock.
const BEAT: Span = Span::from_secs(1);
/// The gap between two looks from which the machine, or this process, counts as having stood still.
const PAUSE: Span = Span::from_secs(5);

/// The core's thread, with its result.
pub(crate) type Thread = std::thread::JoinHandle<StoreResult<()>>;

/// The time for which a store that does not answer keeps people waiting.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most ended shares that somebody who looks at a job may not have heard of yet; beyond that all that
/// is looked at is checked again.
const ENDED_SHARES: usize = 256;

/// A `CoreHandle` by which any task asks the core.
#[derive(Clone)]
pub(crate) struct CoreHandle {
    inbox: Sender<Asking>,
    /// The core's wait for its store.
    wait: StoreWait,
    /// Whether whoever asks is told when that is long; else it is waited for.
    impatient: bool,
    /// Counts changes of any job, for clients that watch progress.
    pub(crate) changed: watch::Receiver<u64>,
    /// Counts settled jobs, for clients that wait for the end.
    pub(crate) settled: watch::Receiver<u64>,
    /// Hears of shares that have ended, for clients that look at a job for long; each has a receiver of
    /// its own.
    pub(crate) unshared: Arc<broadcast::Receiver<Arc<EndedShare>>>,
    /// The sequence number of the newest event that is durable, for followers.
    pub(crate) newest_event: watch::Receiver<u64>,
}

/// The scheduler with the store and the mail that it drives.
pub(crate) struct Core {
    now: Time,
    laws: SafetyRules,
    store: Writer,
    scheduler: Scheduler,
    incarnation: Incarnation,
    blobs: Box<dyn Contents>,
    /// The objects that have the content, if it lies in a bucket. They change with the store.
    objects: Option<Arc<ContentIndex>>,
    /// The disk to look after, if there is one.
    room: Option<Arc<DiskRoom>>,
    /// The time after which a silent host's attempts are given up.
    lease: Span,
    /// Whether an attempt that a host cannot start is charged to that host, and not to the task.
    benching: bool,
    jobs: BTreeMap<JobId, jobs::UnsettledJob>,
    /// The number of unsettled jobs of each user, and the bytes of their specs.
    open_of: BTreeMap<String, (u32, u64)>,
    hosts: BTreeMap<HostId, hosts::Host>,
    /// Their names.
    names: ask::HostNames,
    /// The hosts whose counts changed in the present group.
    counted: BTreeSet<HostId>,
    mail: BTreeMap<HostId, HostMail>,
    /// Replies to send once the group is durable.
    replies: Vec<(oneshot::Sender<CoreReply>, CoreReply)>,
    /// Events that follow from effects, stepped before all others.
    follow: Vec<Event>,
    /// The time at which the start of a job was last predicted and stored.
    foretold: Time,
    /// The same for the end of a job.
    foretold_finish: Time,
    /// The user whose request to cancel is carried out, or was the last.
    canceller: String,
    /// Jobs settled by the present event; they leave memory after it.
    leaving: Vec<JobId>,
    effects: Vec<Effect>,
    recorder: Option<Recorder>,
    notebook: experience::Notebook,
    /// The time for which records of availability are kept; `None` keeps none.
    availability_kept: Option<Span>,
    limits: Limits,
    /// The time for which settled jobs are kept; `None` keeps them until they are forgotten by hand.
    jobs_kept: Option<Span>,
    /// The time before which nothing is forgotten for its age.
    ageing_from: Time,
    /// The outputs kept of executed tasks that nobody has requested.
    shelf: kept::KeptBytes,
    /// The bytes of each user's uploads that no job of that user needs.
    unused: BTreeMap<String, u64>,
    /// Settled jobs of which their users need nothing more.
    dropped: BTreeSet<JobId>,
    /// The most attempts that a host holds frozen for each of its slots.
    frozen_per_slot: u32,
    /// Takes results to be compared beside the core.
    compare: UnboundedSender<Comparison>,
    /// Results that wait for the user's comparison program, with the earlier results of their
    /// tasks.
    undecided: BTreeMap<TaskId, BTreeMap<AttemptId, Vec<AttemptId>>>,
    changed: (bool, watch::Sender<u64>),
    settled: (bool, watch::Sender<u64>),
    /// Shares that the present group has ended.
    unshared: (Vec<EndedShare>, broadcast::Sender<Arc<EndedShare>>),
    /// The words of live attempts' programs about their progress.
    words: BTreeMap<AttemptId, String>,
    /// The settings for workers.
    site: site::SiteBook,
    updates: updates::UpdateBook,
    stuck: overdue::StuckHosts,
    /// The events of the present group.
    events: events::EventBook,
    newest_event: watch::Sender<u64>,
    /// The time from which on rows of forgotten jobs are removed, if there may be any.
    clears: Option<Time>,
    /// The sweeps for the beginning of the next group.
    sweeps: Vec<(Vec<OldBlob>, Option<oneshot::Sender<CoreReply>>)>,
    /// Whether the present group is the last one.
    stopping: bool,
}

/// The reason why an ask has no reply.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NoReply {
    /// The core has ended.
    Stopped,
    /// The store has not answered for so long, and the core was not asked.
    NotAsked(Duration),
    /// The store does not answer, and the core may still do what it was asked.
    InDoubt,
}

impl From<NoReply> for Refusal {
    fn from(why: NoReply) -> Self {
        let (what, hint) = match why {
            NoReply::Stopped => (
                "the master is shutting down".to_owned(),
                "try again when it is back",
            ),
            NoReply::NotAsked(since) => (
                format!(
                    "the database of the master's store has kept changes waiting for {} s: nothing is taken until it does",
                    since.as_secs()
                ),
                "try again later; the admin finds more in the master's log",
            ),
            NoReply::InDoubt => (
                format!(
                    "the database of the master's store has kept changes waiting for {} s: this may still be done once it does",
                    PATIENCE.as_secs()
                ),
                "try again later: what is submitted again under the same request id counts once",
            ),
        };

        Refusal::new(RefusalCode::Unavailable, what, hint)
    }
}

impl CoreHandle {
    /// The same for asks of people: while the store does not answer for long, they get a refusal
    /// instead of the reply.
    pub(crate) fn of_people(&self) -> Self {
        Self {
            impatient: true,
            ..self.clone()
        }
    }

    /// Asks the core, and returns the reply once it is durable.
    pub(crate) async fn ask<T: TryFrom<CoreReply>>(
        &self,
        ask: impl Into<Ask>,
    ) -> Result<T, NoReply> {
        if self.impatient {
            let waited = self.wait.so_far();
            if waited >= PATIENCE {
                return Err(NoReply::NotAsked(waited));
            }
        }

        let (tell, told) = oneshot::channel();
        self.send(ask.into(), Some(tell), None)?;
        let told = tokio::select! {
            biased;
            told = told => told,
            () = self.store_is_stuck(), if self.impatient => return Err(NoReply::InDoubt),
        };
        let reply = T::try_from(told.map_err(|_| NoReply::Stopped)?);
        debug_assert!(reply.is_ok(), "a reply of the wrong kind");
        reply.map_err(|_| NoReply::Stopped)
    }

    /// Resolves once the store has kept the core waiting for `PATIENCE`.
    async fn store_is_stuck(&self) {
        loop {
            let left = PATIENCE.saturating_sub(self.wait.so_far());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }

    /// Asks the core without waiting for a reply. Returns whether the core is there: one that has ended needs no
    /// more messages.
    pub(crate) fn tell(&self, ask: impl Into<Ask>) -> bool {
        self.send(ask.into(), None, None).is_ok()
    }

    /// Asks like `tell`, and gives `turn` back once the core has considered the ask.
    pub(crate) fn tell_in_turn(&self, ask: impl Into<Ask>, turn: OwnedSemaphorePermit) {
        let _ = self.send(ask.into(), None, Some(turn));
    }

    fn send(
        &self,
        ask: Ask,
        tell: Option<oneshot::Sender<CoreReply>>,
        turn: Option<OwnedSemaphorePermit>,
    ) -> Result<(), NoReply> {
        let asking = Asking { ask, tell, turn };
        self.inbox.send(asking).map_err(|_| NoReply::Stopped)
    }
}

/// Loads the store into a core and starts its thread. The thread ends, with its result and a closed
/// store, when it is told to or every handle is gone. It also ends if the store fails, without
/// closing it.
pub(crate) fn start(
    clock: Clock,
    store: Writer,
    config: &Config,
    blobs: ContentPlace,
    compare: UnboundedSender<Comparison>,
    room: Arc<DiskRoom>,
) -> Result<(CoreHandle, Incarnation, Thread), MasterError> {
    let around = Around {
        objects: blobs.index(),
        blobs: Box::new(blobs),
        room: Some(room),
        compare,
    };
    let mut core = Core::begin(clock.now(), store, config, around, SafetyRules::KEPT)?;
    let changed = core.changed.1.subscribe();
    let settled = core.settled.1.subscribe();
    let unshared = Arc::new(core.unshared.1.subscribe());
    let newest_event = core.newest_event.subscribe();
    let incarnation = core.incarnation;
    let wait = core.store.wait();
    let (inbox, asked) = mpsc::channel();
    let thread = std::thread::Builder::new()
        .name("core".to_owned())
        .spawn(move || {
            let ended = core.run(&asked, clock);
            // Sessions whose outbox goes with the core find that it has ended.
            drop(asked);
            if ended.is_err() && !core.store.is_shared() {
                // A store that failed is not closed: closing would copy pages into it that may not
                // have reached the disk. The next start reads what is durable.
                std::mem::forget(core);
            }
            ended
        })
        .map_err(|e| MasterError::Core(e.to_string()))?;

    Ok((
        CoreHandle {
            inbox,
            wait,
            impatient: false,
            changed,
            settled,
            unshared,
            newest_event,
        },
        incarnation,
        thread,
    ))
}

/// The core's surroundings.
pub(crate) struct Around {
    /// The content of files.
    pub(crate) blobs: Box<dyn Contents>,
    /// The objects that have it, if it lies in a bucket.
    pub(crate) objects: Option<Arc<ContentIndex>>,
    /// The disk to look after, if there is one.
    pub(crate) room: Option<Arc<DiskRoom>>,
    /// Takes results to be compared beside the core.
    pub(crate) compare: UnboundedSender<Comparison>,
}

impl Core {
    /// Loads the store into a core, and counts this as one more start of the master.
    pub(crate) fn begin(
        now: Time,
        mut store: Writer,
        config: &Config,
        around: Around,
        laws: SafetyRules,
    ) -> Result<Self, MasterError> {
        let (counted, taken_up) = store.begin(now)?;
        if store.is_shared() {
            // What is read next can take long, and others watch whether this master commits.
            store.commit()?;
        }
        let incarnation = if laws.fence_by_incarnation {
            counted
        } else {
            Incarnation(1)
        };
        let is_copy = taken_up.is_some();
        if let Some(TakenUp { copied, tokens }) = taken_up {
            tracing::warn!(copied_s = copied.0 / 1_000_000, tokens, %incarnation, "the store is a copy: join tokens of then are revoked");
        }

        let settings = Settings {
            suspect_after: config.suspect_after.span(),
            lease: config.lease.span(),
            heartbeat: config.heartbeat.span(),
            prefetch_window: config.prefetch.span(),
            policing: config.policing,
            benching: config.benching,
            measures_starts: true,
            sharing: Some(config.sharing.rules()),
            audit_seed: u64::from_le_bytes(store.meta("audit seed", rand::random)?),
            ..Settings::default()
        };
        let open = |path: &PathBuf| {
            Recorder::open(path, &settings, incarnation)
                .map_err(LinkError::file("cannot record to", path.clone()))
        };
        let recorder = config.record.as_ref().map(open).transpose()?;
        if is_copy {
            store.skip_events(incarnation);
        }
        let shelf = kept::KeptBytes::of(&config.limits, store.kept_by_user()?);
        let mut core = Core {
            now,
            laws,
            store,
            scheduler: Scheduler::new(settings, incarnation),
            incarnation,
            blobs: around.blobs,
            objects: around.objects,
            room: around.room,
            lease: config.lease.span(),
            benching: config.benching,
            jobs: BTreeMap::new(),
            open_of: BTreeMap::new(),
            hosts: BTreeMap::new(),
            names: ask::HostNames::default(),
            counted: BTreeSet::new(),
            mail: BTreeMap::new(),
            replies: Vec::new(),
            follow: Vec::new(),
            foretold: Time::default(),
            foretold_finish: Time::default(),
            canceller: String::new(),
            leaving: Vec::new(),
            effects: Vec::new(),
            recorder,
            notebook: experience::Notebook::default(),
            availability_kept: retention::kept_for(config.availability_days),
            limits: config.limits.clone(),
            jobs_kept: retention::kept_for(config.job_days),
            ageing_from: Time::default(),
            shelf,
            unused: BTreeMap::new(),
            dropped: BTreeSet::new(),
            frozen_per_slot: config.frozen_per_slot,
            compare: around.compare,
            undecided: BTreeMap::new(),
            changed: (false, watch::Sender::new(0)),
            settled: (false, watch::Sender::new(0)),
            unshared: (Vec::new(), broadcast::Sender::new(ENDED_SHARES)),
            words: BTreeMap::new(),
            site: site::SiteBook::default(),
            updates: updates::UpdateBook::default(),
            stuck: overdue::StuckHosts::default(),
            events: events::EventBook::of(config),
            newest_event: watch::Sender::new(0),
            sweeps: Vec::new(),
            // A run before this one may have left some.
            clears: Some(now),
            stopping: false,
        };
        if is_copy {
            core.note_event(GridEvent::Restored);
        }
        core.restore()?;
        core.doubt_clock(config.accept.clock)?;

        core.unused = core.store.unused_content()?;
        core.finish_group()?;
        Ok(core)
    }

    fn run(&mut self, inbox: &Receiver<Asking>, clock: Clock) -> StoreResult<()> {
        while !self.stopping {
            let first = match inbox.recv_timeout(self.patience(clock.now()).into()) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };

            self.look_at_clock(clock.now())?;
            self.look_at_disk();
            for asking in first.into_iter().chain(inbox.try_iter()).take(GROUP) {
                self.consider(asking.ask, asking.tell)?;
                drop(asking.turn);
            }

            self.do_what_is_due()?;
            self.finish_group()?;
        }

        self.finish()
    }

    /// Ends in order, after the last group: from now on a plain copy of the store's file is whole, and a
    /// database another master's.
    pub(crate) fn finish(&mut self) -> StoreResult<()> {
        self.store.finish()
    }

    /// Handles an ask; its reply goes to `tell` once the group is durable.
    pub(crate) fn consider(
        &mut self,
        ask: Ask,
        tell: Option<oneshot::Sender<CoreReply>>,
    ) -> StoreResult<()> {
        let reply = match ask {
            Ask::Upkeep(UpkeepAsk::Sweep(old)) if self.sweeps_later() => {
                self.sweeps.push((old, tell));
                return Ok(());
            }
            ask => self.handle(ask)?,
        };
        self.replies.extend(tell.map(|tell| (tell, reply)));
        Ok(())
    }

    /// The time until something is due if no ask arrives.
    pub(crate) fn patience(&self, now: Time) -> Span {
        if !self.sweeps.is_empty() {
            return Span::ZERO;
        }
        let due = [self.scheduler.next_wakeup(), self.clears];
        let due = due.into_iter().flatten().min();
        due.map_or(BEAT, |at| at.since(now)).min(BEAT)
    }

    /// Begins a group: sets the present time.
    pub(crate) fn look_at_clock(&mut self, now: Time) -> StoreResult<()> {
        let before = std::mem::replace(&mut self.now, now);
        self.sweep_waiting()?;
        self.clear_forgotten()?;
        let gap = self.now.since(before);
        if gap > PAUSE {
            tracing::warn!("stood still for {gap}: all leases are extended");
            self.step(Event::MasterPaused { span: gap })?;
        }
        Ok(())
    }

    /// Does what is due by now, after the asks that have come: a heartbeat that waited while the store was slow
    /// is heard before its host's lease ends.
    pub(crate) fn do_what_is_due(&mut self) -> StoreResult<()> {
        let wakeup = self.scheduler.next_wakeup();
        if wakeup.is_some_and(|at| at <= self.now) {
            self.step(Event::Tick)?;
        }
        self.write_experience_if_due()
    }

    /// Keeps enough of the disk free for the store, even if others have filled it.
    fn look_at_disk(&self) {
        if let Some(room) = &self.room {
            room.tend_store();
        }
    }

    /// Steps the scheduler with one event, and applies all its effects and the events that
    /// `follow`.
    fn step(&mut self, event: Event) -> StoreResult<()> {
        self.step_with(event, None)
    }

    /// Steps like `step`, for an event with the completion that it delivers.
    fn step_with(&mut self, event: Event, delivered: Option<&Delivered>) -> StoreResult<()> {
        self.follow.push(event);
        while let Some(event) = self.follow.pop() {
            let mut effects = std::mem::take(&mut self.effects);
            if let Some(recorder) = &mut self.recorder {
                recorder.event(self.now, &event);
            }

            self.scheduler.step(self.now, event, &mut effects);
            if let Some(recorder) = &mut self.recorder {
                recorder.effects(&effects);
            }
            for effect in effects.drain(..) {
                self.apply(effect, delivered)?;
            }

            self.effects = effects;
            for job in std::mem::take(&mut self.leaving) {
                self.leave(job);
                self.follow.push(Event::JobForgotten { job });
            }
        }

        Ok(())
    }

    /// Commits the group, then sends the mail and the replies.
    pub(crate) fn finish_group(&mut self) -> StoreResult<()> {
        if !self.laws.acknowledge_after_commit {
            self.send_and_reply();
        }

        self.write_counts()?;
        self.write_events()?;
        let started = std::time::Instant::now();
        if self.store.commit()? {
            metrics::counter!(numbers::COMMITS).increment(1);
            metrics::histogram!(numbers::COMMIT_S).record(started.elapsed().as_secs_f64());
        }

        self.send_and_reply();
        let newest = self.store.newest_event();
        self.newest_event
            .send_if_modified(|told| std::mem::replace(told, newest) != newest);
        if let Some(recorder) = &mut self.recorder {
            recorder.flush();
        }

        for (flag, counter) in [&mut self.changed, &mut self.settled] {
            if std::mem::take(flag) {
                counter.send_modify(|n| *n += 1);
            }
        }
        for ended in self.unshared.0.drain(..) {
            // Perhaps nobody looks at any job.
            let _ = self.unshared.1.send(Arc::new(ended));
        }

        Ok(())
    }

    fn send_and_reply(&mut self) {
        for (host, mail) in std::mem::take(&mut self.mail) {
            self.send(host, mail);
        }
        for (tell, reply) in self.replies.drain(..) {
            // The asker may be gone by now.
            let _ = tell.send(reply);
        }
    }

    /// The incarnation of this start, greater than that of every earlier start on this store.
    pub(crate) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }
}
