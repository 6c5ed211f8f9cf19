//! An independent account of what the scheduler may do: it reads the events and the effects, keeps
//! its own plain books, and after every step compares them with each other and with the scheduler's
//! views. It decides nothing.
//!
//! The invariants by name: *no task lost* (an open task waits or has a live attempt), *one visible
//! result* (a task settles once), *one host's books* (an attempt is on the books of the one host
//! that it was given to), *live effects* (only live attempts are stopped, ended or said to
//! execute), *slots* (never exceeded but by prefetch), *room* (no host is given more than it lends), *fresh numbers* (no attempt number twice),
//! *charges* (retries and losses as the rules say), *sums* (counts add up), *no idling* (no slot is
//! free while a task waits).

#[path = "model/after.rs"]
mod after;
#[path = "model/found.rs"]
mod found;
#[path = "model/restart.rs"]
mod restart;
#[path = "model/room.rs"]
mod room;

use std::collections::{BTreeMap, BTreeSet};

use common::attempt::{HeldAttempt, Outcome, Phase};
use common::host::{OwnerState, Status};
use common::job::Rules;
use common::needs::{Capacity, Demand, Offers};
use common::view::{HostState, JobState, TaskState};
use common::{AttemptId, EndCondition, HostId, IdSet, Incarnation, JobId, Span, TaskId, Time};
use scheduler::effect::{CopyReason, EndReason, Settled, StartReason, Verdict};
use scheduler::event::{Bag, RestoredProgress, Terms, Tried};
use scheduler::policy::Ordering;
use scheduler::{Effect, Event, Scheduler, Settings};

#[path = "model/told.rs"]
mod told;

use told::{eager, learns_limits, preempted, speaker};

/// More attempts of one task than this are not all remembered; beyond it verdicts are not foreseen.
const SURELY_REMEMBERED: u32 = 32;

pub(crate) struct Model {
    pub(crate) settings: Settings,
    pub(crate) incarnation: Incarnation,
    pub(crate) jobs: BTreeMap<JobId, ModelJob>,
    hosts: BTreeMap<HostId, ModelHost>,
    /// The latest return of a host that was awaited.
    back: Option<Time>,
    offers: BTreeMap<HostId, Offers>,
    /// Whether the last event was offers of a host: nothing starts before the next one.
    more_comes: bool,
    /// Hosts that are lent for a time: whether something starts there is a matter of that time.
    lent: BTreeSet<HostId>,
    /// Every attempt ever started.
    pub(crate) attempts: BTreeMap<AttemptId, ModelAttempt>,
    /// Attempts that were stopped, and keep their slots until their hosts report without them.
    stopping: BTreeMap<AttemptId, HostId>,
    /// Jobs that the restarted scheduler has not been told of yet.
    to_restore: BTreeMap<JobId, ModelJob>,
    /// The jobs for which the job just submitted waits, and one of these for which it waits in vain.
    submitted: Option<(JobId, BTreeMap<JobId, EndCondition>, Option<JobId>)>,
    /// Jobs that are to be cancelled, each with the job that did not succeed.
    missed: BTreeSet<(JobId, JobId)>,
    now: Time,
}

#[derive(Clone)]
pub(crate) struct ModelJob {
    rules: Rules,
    terms: Terms,
    all: BTreeSet<u32>,
    finished: BTreeSet<u32>,
    failed: BTreeSet<u32>,
    cancelled: BTreeSet<u32>,
    pub(crate) highest: BTreeMap<u32, u32>,
    failures: BTreeMap<u32, u32>,
    losses: BTreeMap<u32, u32>,
    started: u64,
    duplicates: u64,
    measured: bool,
    /// Whether the time of its tasks may be known.
    foreseen: bool,
    settled: bool,
    /// Reopened since the last failure: it goes on even if too many tasks had failed before.
    pardoned: bool,
    /// Whether its tasks came without a request, and those that still have none.
    disclosed: bool,
    unrequested: BTreeSet<u32>,
    /// The jobs that have to end before.
    after: BTreeMap<JobId, EndCondition>,
    /// Whether it is open.
    takes_more: bool,
    /// When its deadline was promised, and the end predicted then.
    promised: Option<(Time, Time)>,
}

struct ModelHost {
    slots: usize,
    owner: OwnerState,
    joined: bool,
    connected: bool,
    left: bool,
    draining: bool,
    closing: bool,
    silent_since: Time,
    parted: Option<Time>,
    health: Health,
    announced: HostState,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Health {
    Alive,
    Suspect,
    Lost,
}

#[derive(Clone)]
pub(crate) struct ModelAttempt {
    pub(crate) host: HostId,
    pub(crate) live: bool,
    /// Started again elsewhere while its host was silent.
    replaced: bool,
    phase: Phase,
    /// Whether it takes no slot.
    frozen: bool,
    delivered: bool,
    charged: bool,
    /// Given back, or taken back.
    returned: bool,
    /// Of an earlier life of its task, or from before a restart without being live then.
    bygone: bool,
}

impl ModelJob {
    fn open(&self, index: u32) -> bool {
        self.all.contains(&index) && !self.closed(index)
    }

    fn closed(&self, index: u32) -> bool {
        self.finished.contains(&index)
            || self.failed.contains(&index)
            || self.cancelled.contains(&index)
    }

    fn all_closed(&self) -> bool {
        !self.takes_more && self.all.iter().all(|index| self.closed(*index))
    }

    fn has_all_requested(&self) -> bool {
        let mut requested = self.all.difference(&self.unrequested).peekable();
        self.disclosed
            && requested.peek().is_some()
            && requested.all(|index| !self.cancelled.contains(index))
    }

    fn state(&self) -> JobState {
        if !self.all_closed() {
            return if self.started == 0 {
                JobState::Waiting
            } else {
                JobState::Running
            };
        }
        match (self.failed.is_empty(), self.cancelled.is_empty()) {
            (false, _) => JobState::Failed,
            (_, false) if !self.has_all_requested() => JobState::Cancelled,
            _ => JobState::Finished,
        }
    }
}

impl ModelHost {
    fn awaited(now: Time) -> Self {
        Self {
            slots: 0,
            owner: OwnerState::Away,
            joined: false,
            connected: false,
            left: false,
            draining: false,
            closing: false,
            silent_since: now,
            parted: None,
            health: Health::Alive,
            announced: HostState::Suspect,
        }
    }

    fn takes_work(&self) -> bool {
        self.connected
            && self.health == Health::Alive
            && self.usable() > 0
            && !self.draining
            && !self.closing
    }

    /// Slots that the owner leaves to tasks.
    fn usable(&self) -> usize {
        match self.owner {
            OwnerState::Away => self.slots,
            OwnerState::Present(_) => 0,
            OwnerState::Sharing(_, slots) => self.slots.min(slots as usize),
        }
    }

    fn suspended(&self) -> bool {
        matches!(
            self.owner,
            OwnerState::Present(_) | OwnerState::Sharing(_, 0)
        )
    }

    fn state(&self, live: usize) -> HostState {
        match self.health {
            Health::Lost => HostState::Lost,
            Health::Suspect => HostState::Suspect,
            Health::Alive if !self.joined => HostState::Suspect,
            Health::Alive if self.draining || self.closing => HostState::Draining,
            Health::Alive if self.suspended() => HostState::Suspended,
            Health::Alive if live >= self.usable() => HostState::Busy,
            Health::Alive => HostState::Ready,
        }
    }
}

impl Model {
    pub(crate) fn new(settings: Settings, incarnation: Incarnation) -> Self {
        let jobs = BTreeMap::new();
        let to_restore = BTreeMap::new();
        let hosts = BTreeMap::new();
        let attempts = BTreeMap::new();
        let offers = BTreeMap::new();
        let lent = BTreeSet::new();
        let stopping = BTreeMap::new();

        Self {
            settings,
            incarnation,
            jobs,
            hosts,
            back: None,
            offers,
            more_comes: false,
            lent,
            attempts,
            stopping,
            to_restore,
            submitted: None,
            missed: BTreeSet::new(),
            now: Time(0),
        }
    }

    /// Considers one step.
    pub(crate) fn check(
        &mut self,
        now: Time,
        event: &Event,
        effects: &[Effect],
        scheduler: &Scheduler,
    ) {
        self.consider(now, event, effects, scheduler);
        self.more_comes = matches!(event, Event::HostOffers { .. });
        self.compare(scheduler);
    }

    /// Notes an event and its effects. Where a step has several events, each is considered before
    /// the books are compared.
    pub(crate) fn consider(
        &mut self,
        now: Time,
        event: &Event,
        effects: &[Effect],
        scheduler: &Scheduler,
    ) {
        self.now = self.now.max(now);
        let verdict = self.foresee_verdict(event);
        self.note(event);
        self.note_order(event);
        self.note_doubted(effects);
        if let Event::AttemptEnded { attempt, .. } = event
            && let Some(job) = self.jobs.get_mut(&attempt.task.job)
        {
            job.foreseen = true;
        }

        let mut listed: &[HeldAttempt] = self.listed(event);
        let mut verdicts = Vec::new();
        for (at, effect) in effects.iter().enumerate() {
            // Losses come first; what else a host's list brings about is seen once attempts are
            // taken back.
            let settles = matches!(
                effect,
                Effect::TaskSettled { .. } | Effect::TasksCancelled { .. }
            );
            let losing = matches!(
                effect,
                Effect::Stop { .. } | Effect::Ended { .. } | Effect::JobSettled { .. }
            );
            if !settles && (!losing || preempted(effect).is_some()) {
                self.adopt(std::mem::take(&mut listed), event, effects, scheduler);
            }

            if let Effect::Acknowledge {
                host,
                attempt,
                verdict,
            } = effect
            {
                let Event::AttemptEnded {
                    host: by,
                    attempt: of,
                    ..
                } = event
                else {
                    panic!("nothing was delivered")
                };
                assert_eq!((host, attempt), (by, of), "acknowledges what was delivered");
                verdicts.push(*verdict);
            }

            self.apply_order(effect);
            self.apply(event, effect, effects.get(at + 1));
            if let Effect::JobAdmitted { job } = effect {
                self.admit_in_order(*job);
            }
        }

        self.adopt(listed, event, effects, scheduler);
        self.expect_verdict(event, &verdict, &verdicts);
    }

    /// What may become of a delivered completion.
    fn foresee_verdict(&self, event: &Event) -> Vec<Verdict> {
        let Event::AttemptEnded {
            host,
            attempt,
            outcome,
            ..
        } = event
        else {
            return Vec::new();
        };

        let known = self
            .attempts
            .get(attempt)
            .filter(|known| known.host == *host);
        if known.is_some_and(|known| known.live) {
            return vec![Verdict::Taken];
        }

        let Some(job) = self.jobs.get(&attempt.task.job) else {
            return vec![Verdict::Unknown];
        };
        if !job.open(attempt.task.index) {
            let closed = job.closed(attempt.task.index);
            return vec![if closed {
                Verdict::Late
            } else {
                Verdict::Unknown
            }];
        }

        let highest = job.highest.get(&attempt.task.index).copied().unwrap_or(0);
        match known {
            _ if highest >= SURELY_REMEMBERED => {
                vec![Verdict::Taken, Verdict::Late, Verdict::Unknown]
            }
            Some(known) if known.bygone => vec![Verdict::Late],
            Some(known) if outcome.success() && !known.delivered => vec![Verdict::Taken],
            Some(_) => vec![Verdict::Late],
            // Of another host, or made up: of no use, whatever it is called.
            None if attempt.number <= highest => vec![Verdict::Unknown, Verdict::Late],
            None => vec![Verdict::Unknown],
        }
    }

    fn expect_verdict(&self, event: &Event, expected: &[Verdict], verdicts: &[Verdict]) {
        let Event::AttemptEnded {
            attempt, outcome, ..
        } = event
        else {
            return;
        };

        assert_eq!(
            verdicts.len(),
            1,
            "one completion of {attempt}, one acknowledgement"
        );
        assert!(
            expected.contains(&verdicts[0]),
            "{attempt} {outcome}: {:?} instead of {expected:?}",
            verdicts[0]
        );
        if verdicts[0] == Verdict::Taken && outcome.success() {
            let finished = self
                .jobs
                .get(&attempt.task.job)
                .is_some_and(|job| job.finished.contains(&attempt.task.index));
            assert!(finished, "a result that is taken settles {attempt}");
        }
    }

    /// What the event itself says.
    #[expect(clippy::too_many_lines, reason = "one story")]
    fn note(&mut self, event: &Event) {
        match event {
            Event::JobRestored { job, bag, progress } => {
                let known = self
                    .to_restore
                    .remove(job)
                    .unwrap_or_else(|| ModelJob::new(bag));
                self.jobs.insert(
                    *job,
                    ModelJob {
                        measured: false,
                        ..known
                    },
                );

                for (_, host, _) in progress.tried.iter().flat_map(|tried| &tried.live) {
                    self.hosts
                        .entry(*host)
                        .or_insert_with(|| ModelHost::awaited(self.now));
                }
            }
            Event::TasksRequested { job, tasks } => {
                if let Some(job) = self.jobs.get_mut(job) {
                    job.unrequested.retain(|index| {
                        tasks.as_ref().is_some_and(|tasks| !tasks.contains(*index))
                    });
                }
            }
            Event::HostOffers { host, offers } => {
                self.offers.insert(*host, (**offers).clone());
            }
            Event::HostLent { host, loan } => {
                self.lent.remove(host);
                self.lent.extend(loan.map(|_| *host));
            }
            Event::HostJoined {
                host,
                slots,
                status: Status { owner, .. },
                ..
            } => {
                let host = self
                    .hosts
                    .entry(*host)
                    .or_insert_with(|| ModelHost::awaited(self.now));
                if !host.joined {
                    self.back = Some(self.now);
                }
                host.slots = *slots as usize;
                host.owner = *owner;
                host.joined = true;
                host.connected = true;
                host.left = false;

                host.closing = false;
                host.silent_since = self.now;
                host.parted = None;
                host.health = Health::Alive;
            }
            Event::HostHeard {
                host,
                status: Status { owner, .. },
                ..
            }
            | Event::OwnerChanged { host, owner } => {
                self.hear(*host, Some(*owner));
            }
            Event::AttemptsMoved { host, .. }
            | Event::AttemptEnded { host, .. }
            | Event::AttemptsReturned { host, .. } => self.hear(*host, None),
            Event::HostDisconnected { host, .. } => {
                if let Some(host) = self.hosts.get_mut(host) {
                    host.parted = if host.connected {
                        Some(self.now)
                    } else {
                        host.parted
                    };
                    host.connected = false;
                }
            }
            Event::HostClosing { host } => {
                if let Some(host) = self.hosts.get_mut(host) {
                    host.closing = true;
                }
            }
            Event::HostLeft { host } | Event::HostRevoked { host } => {
                if let Some(host) = self.hosts.get_mut(host) {
                    host.left = true;
                    host.connected = false;
                    host.health = Health::Lost;
                    host.joined = true;
                }
            }
            Event::HostDrained { host } | Event::HostUndrained { host } => {
                let host = self
                    .hosts
                    .entry(*host)
                    .or_insert_with(|| ModelHost::awaited(self.now));
                host.draining = matches!(event, Event::HostDrained { .. });
            }
            Event::MasterPaused { span } => {
                for host in self.hosts.values_mut() {
                    host.silent_since = (host.silent_since + *span).min(self.now);
                    host.parted = host.parted.map(|parted| (parted + *span).min(self.now));
                }
            }
            Event::Tick => self.look_for_silence(),
            _ => {}
        }

        self.note_stopped(event);
        for held in self.listed(event) {
            let Some(attempt) = self.attempts.get_mut(&held.attempt) else {
                continue;
            };
            if attempt.live && Some(attempt.host) == speaker(event) {
                attempt.phase = held.phase;
                let lists = !matches!(event, Event::AttemptsMoved { .. });
                if lists && std::mem::take(&mut attempt.replaced) {
                    let job = self.jobs.get_mut(&held.attempt.task.job);
                    job.expect("the job is there").duplicates += 1;
                }
                attempt.frozen |=
                    held.phase == Phase::Held && matches!(event, Event::HostJoined { .. });
            }
        }
    }

    /// Attempts of which their hosts say that they are over.
    fn note_stopped(&mut self, event: &Event) {
        match event {
            Event::HostJoined { host, held, .. } | Event::HostHeard { host, held, .. } => {
                self.stopping.retain(|attempt, on| {
                    on != host || held.iter().any(|held| held.attempt == *attempt)
                });
            }
            Event::HostLeft { host } => self.stopping.retain(|_, on| on != host),
            Event::AttemptEnded { attempt, .. } => drop(self.stopping.remove(attempt)),
            Event::AttemptsReturned { attempts, .. } => {
                self.stopping
                    .retain(|attempt, _| !attempts.contains(attempt));
            }
            _ => {}
        }
    }

    /// Hosts without a connection may be suspect as soon as `rescue_after` has passed; when they
    /// are is learned from earlier silences.
    fn note_doubted(&mut self, effects: &[Effect]) {
        for effect in effects {
            let Effect::HostChanged { host, state, .. } = effect else {
                continue;
            };
            let host = self.hosts.get_mut(host).expect("the host is there");
            let span = host.parted.map(|parted| self.now.since(parted));
            if *state == HostState::Suspect
                && host.health == Health::Alive
                && span.is_some_and(|span| span >= self.settings.rescue_after)
            {
                host.health = Health::Suspect;
            }
        }
    }

    /// Hosts that have been silent for too long.
    fn look_for_silence(&mut self) {
        let others_come = self.now < self.back.unwrap_or(Time(0)) + Span::from_secs(8);
        for host in self
            .hosts
            .values_mut()
            .filter(|host| host.health != Health::Lost)
        {
            let silent = self.now.since(host.silent_since);
            if silent >= self.settings.lease {
                host.health = Health::Lost;
            } else if silent >= self.settings.suspect_after
                || !host.joined && !host.left && silent >= Span::from_secs(40) && !others_come
            {
                host.health = Health::Suspect;
            }
        }
    }

    fn hear(&mut self, id: HostId, owner: Option<OwnerState>) {
        let Some(host) = self.hosts.get_mut(&id) else {
            return;
        };
        if host.joined && !host.left {
            host.silent_since = self.now;
            host.health = Health::Alive;
            host.parted = host.parted.map(|_| self.now);
            host.owner = owner.unwrap_or(host.owner);
        }
    }

    fn listed<'a>(&self, event: &'a Event) -> &'a [HeldAttempt] {
        match event {
            Event::HostJoined { held, .. } | Event::AttemptsMoved { held, .. } => held,
            Event::HostHeard { held, host, .. }
                if self.hosts.get(host).is_some_and(|h| h.joined && !h.left) =>
            {
                held
            }
            _ => &[],
        }
    }

    fn live_of(&self, task: TaskId) -> Vec<AttemptId> {
        if !self.jobs.contains_key(&task.job) {
            return Vec::new();
        }

        let first = AttemptId {
            task,
            number: 0,
            incarnation: Incarnation(0),
        };
        let own = self
            .attempts
            .range(first..)
            .take_while(|(id, _)| id.task == task);

        own.filter(|(_, attempt)| attempt.live)
            .map(|(id, _)| *id)
            .collect()
    }

    fn live_on(&self, host: HostId) -> Vec<AttemptId> {
        let live = |(id, attempt): (&AttemptId, &ModelAttempt)| {
            (attempt.live && attempt.host == host).then_some(*id)
        };
        self.attempts
            .iter()
            .filter(|(id, _)| self.jobs.contains_key(&id.task.job))
            .filter_map(live)
            .collect()
    }

    fn in_slots(&self, host: HostId) -> usize {
        self.on_books(host)
            .iter()
            .filter(|attempt| !self.attempts[attempt].frozen)
            .count()
    }

    /// Whether the host is in this state. One with free slots can be busy, where what it holds takes
    /// more than slots, or its room is saved.
    fn check_state(&self, host: HostId, state: HostState) {
        let known = self.hosts[&host].state(self.in_slots(host));
        let odd = |attempt: &AttemptId| !self.takes_of(*attempt).is_plain();
        let full = state == HostState::Busy && known == HostState::Ready;
        if full && (self.saves() || self.on_books(host).iter().any(odd)) {
            return;
        }
        assert_eq!(state, known, "state of {host}");
    }

    /// The live attempts of a host, and those that it has not stopped yet.
    fn on_books(&self, host: HostId) -> Vec<AttemptId> {
        let mut books = self.live_on(host);
        let stopping = self.stopping.iter().filter(|(_, on)| **on == host);
        books.extend(stopping.map(|(attempt, _)| *attempt));
        books.sort_unstable();
        books
    }

    fn hold(&mut self, host: HostId, attempt: AttemptId, frozen: bool) {
        assert!(
            self.is_live(host, attempt),
            "live effects: {attempt} is not live on {host}"
        );
        let known = self.attempts.get_mut(&attempt).expect("live");
        (known.frozen, known.phase) = (frozen, if frozen { Phase::Held } else { Phase::Running });
    }

    #[expect(clippy::too_many_lines, reason = "one story")]
    fn apply(&mut self, event: &Event, effect: &Effect, next: Option<&Effect>) {
        match effect {
            Effect::JobAdmitted { job } => {
                let Event::JobSubmitted {
                    job: asked, bag, ..
                } = event
                else {
                    panic!("nothing was submitted")
                };
                assert_eq!(job, asked);
                assert!(
                    self.jobs.insert(*job, ModelJob::new(bag)).is_none(),
                    "{job} is admitted twice"
                );
            }
            Effect::Promised { job, offer } => {
                assert!(matches!(event, Event::JobSubmitted { job: asked, .. } if asked == job));
                assert!(
                    self.jobs[job]
                        .terms
                        .deadline
                        .is_some_and(|deadline| offer.finish <= deadline)
                );
                let told = Some((self.now, offer.finish));
                self.jobs.get_mut(job).expect("it is admitted").promised = told;
            }
            Effect::PromiseRenewed { job, made, finish } => {
                let deadline = self.jobs[job].terms.deadline;
                let kept = deadline.is_some_and(|deadline| *finish <= deadline);
                assert!(
                    kept && *made == self.now,
                    "{job} is promised what nobody can keep"
                );
                self.jobs.get_mut(job).expect("it is there").promised = Some((*made, *finish));
            }
            Effect::PromiseWithdrawn { job } => {
                let job = self.jobs.get_mut(job).expect("it had a promise");
                assert!(job.terms.deadline.take().is_some(), "twice withdrawn");
            }
            Effect::JobRefused { job, .. } => {
                assert!(matches!(event, Event::JobSubmitted { job: asked, .. } if asked == job));
            }
            Effect::Start {
                host,
                attempt,
                limit,
                why,
                ..
            } => self.on_start(*host, *attempt, *limit, why),
            Effect::Stop { host, attempt, why } => {
                assert!(
                    self.is_live(*host, *attempt),
                    "live effects: {attempt} is stopped, but not live on {host}"
                );
                let ended = Effect::Ended {
                    host: *host,
                    attempt: *attempt,
                    why: why.clone(),
                };
                assert_eq!(next, Some(&ended), "what is stopped is off the books");
                if self.settings.stops_when_reported {
                    self.stopping.insert(*attempt, *host);
                }
            }
            // Told again, it is as it was; what its host said meanwhile holds.
            Effect::Freeze {
                by: None,
                host,
                attempt,
            } => assert!(self.is_live(*host, *attempt)),
            Effect::Freeze { host, attempt, .. } => self.hold(*host, *attempt, true),
            Effect::Thaw { host, attempt } => self.hold(*host, *attempt, false),
            Effect::Executing { attempt } => {
                let host = speaker(event).expect("a host says so");
                assert!(
                    self.is_live(host, *attempt) || self.stopping.contains_key(attempt),
                    "live effects: {attempt} executes, but is not live on {host}"
                );
                // A list may name it twice, with another phase the second time.
                let executes =
                    |held: &HeldAttempt| held.attempt == *attempt && held.phase.executing();
                assert!(self.listed(event).iter().any(executes), "{host} says so");
            }
            Effect::Ended { host, attempt, why } => {
                let policed = matches!(why, EndReason::Policed { .. });
                let arrives = matches!(event, Event::JobSubmitted { bag, .. } if bag.terms.deadline.is_some());
                assert!(
                    !policed || arrives || *event == Event::Tick,
                    "{attempt} is killed though no bag arrives or waits"
                );
                self.on_ended(*host, *attempt, why);
            }
            Effect::Acknowledge { attempt, host, .. } => {
                let given = self
                    .attempts
                    .get_mut(attempt)
                    .filter(|given| given.host == *host);
                if let Some(given) = given {
                    given.delivered = true;
                }
            }
            Effect::Abandon { host, attempts } => {
                for attempt in attempts {
                    assert!(
                        !self.is_live(*host, *attempt),
                        "{attempt} is live on {host}, and is to be dropped"
                    );
                    assert!(
                        self.listed(event)
                            .iter()
                            .any(|held| held.attempt == *attempt),
                        "{attempt} was not listed"
                    );
                }
            }
            Effect::TaskSettled { task, settled } => self.on_task_settled(event, *task, settled),
            Effect::TasksCancelled { job, tasks, .. } => {
                let job = self.jobs.get_mut(job).expect("the job is there");
                for index in tasks.iter() {
                    assert!(
                        job.open(index),
                        "one visible result: {index} is cancelled, but settled"
                    );
                    job.cancelled.insert(index);
                }
            }
            Effect::TasksReopened { job, tasks } => self.on_reopened(*job, tasks),
            Effect::JobSettled { job, state } => {
                let job = self.jobs.get_mut(job).expect("the job is there");
                assert!(
                    !std::mem::replace(&mut job.settled, true),
                    "a job settles once"
                );
                assert_eq!(job.state(), *state);
                assert!(
                    job.all_closed(),
                    "a job settles when all its tasks are settled"
                );
            }
            Effect::HostChanged { host, state, .. } => {
                self.check_state(*host, *state);
                let host = self.hosts.get_mut(host).expect("the host is there");
                host.announced = *state;
            }
            _ => panic!("no job of these worlds compares results or has ranks: {effect:?}"),
        }
    }

    fn is_live(&self, host: HostId, attempt: AttemptId) -> bool {
        self.attempts
            .get(&attempt)
            .is_some_and(|known| known.live && known.host == host)
    }

    fn on_start(
        &mut self,
        host: HostId,
        attempt: AttemptId,
        limit: Option<Span>,
        why: &StartReason,
    ) {
        let TaskId { job, index } = attempt.task;
        let live = self.live_of(attempt.task);
        let silent = self.all_silent(&live);
        let held = self.in_slots(host);
        self.check_room(host, attempt);
        let job = self.jobs.get_mut(&job).expect("the job is there");
        let to = &self.hosts[&host];
        assert!(
            to.takes_work(),
            "{attempt} is given to {host}, which takes no work"
        );
        assert!(
            job.open(index),
            "{attempt} is started, but its task is settled"
        );

        let longest = job.rules.timeout.unwrap_or(Span(u64::MAX));
        // A learned limit may be beyond every time that there is.
        let limited = learns_limits(&job.rules.policy) || matches!(why, StartReason::Gap(_));
        let sooner = limited && limit.is_some_and(|limit| limit <= longest);
        assert!(
            limit == job.rules.timeout || sooner,
            "{attempt} may run for {limit:?}"
        );
        assert_eq!(attempt.incarnation, self.incarnation);

        let highest = job.highest.insert(index, attempt.number).unwrap_or(0);
        assert_eq!(attempt.number, highest + 1, "fresh numbers: {attempt}");
        match why {
            StartReason::First => assert!(highest == 0 && live.is_empty()),
            StartReason::Retry(n) | StartReason::Requeued(n) | StartReason::NextLimit(n) => {
                assert!((1..=highest).contains(n), "{attempt} follows attempt {n}");
                assert!(live.is_empty(), "{attempt} is started beside {live:?}");
            }
            StartReason::Gap(_) => assert!(live.is_empty(), "{attempt} is started beside {live:?}"),
            StartReason::AnotherResult(_) => panic!("no job here compares results"),
            StartReason::Duplicate(n, _) => {
                assert!(
                    live.iter().any(|live| live.number == *n),
                    "{attempt} is a copy of a live attempt"
                );
                assert!(
                    live.len() < self.settings.max_copies as usize,
                    "{attempt} is one copy too many"
                );
                assert_eq!(
                    silent,
                    matches!(why, StartReason::Duplicate(_, CopyReason::Suspect)),
                    "{attempt} beside {live:?}: {why:?}"
                );
                if silent {
                    for live in &live {
                        self.attempts.get_mut(live).expect("live").replaced = true;
                    }
                } else {
                    job.duplicates += u64::from(!why.is_another_result());
                }
            }
        }

        let most = if job.measured {
            to.usable() + self.settings.max_prefetch as usize
        } else {
            to.usable()
        };
        assert!(
            held < most,
            "slots: {attempt} is given to {host}, which holds {held}"
        );
        job.started += 1;

        let given = ModelAttempt {
            host,
            live: true,
            replaced: false,
            phase: Phase::Queued,
            frozen: false,
            delivered: false,
            charged: false,
            returned: false,
            bygone: false,
        };
        self.attempts.insert(attempt, given);
    }

    fn on_ended(&mut self, host: HostId, attempt: AttemptId, why: &EndReason) {
        assert!(
            self.is_live(host, attempt),
            "live effects: {attempt} is ended, but not live on {host}"
        );

        let known = self.attempts.get_mut(&attempt).expect("live");
        known.live = false;
        known.replaced = false;
        known.returned = matches!(why, EndReason::Returned | EndReason::Preempted { .. });

        let job = self
            .jobs
            .get_mut(&attempt.task.job)
            .expect("the job is there");
        let executing = known.phase.executing() && !known.frozen;
        let index = attempt.task.index;

        match why {
            EndReason::Delivered(Outcome::Succeeded) => {}
            EndReason::Delivered(Outcome::Stopped)
            | EndReason::LeaseExpired(_)
            | EndReason::Forgotten
                if executing =>
            {
                known.charged = true;
                *job.losses.entry(index).or_default() += 1;
            }
            EndReason::Delivered(Outcome::Stopped) => {}
            EndReason::Delivered(Outcome::TimedOut(limit)) if job.rules.timeout != Some(*limit) => {
            }
            EndReason::Policed {
                estimate, elapsed, ..
            } => {
                assert!(elapsed > estimate, "{attempt} is within its estimate");
                *job.failures.entry(index).or_default() += 1;
            }
            EndReason::Delivered(_) => *job.failures.entry(index).or_default() += 1,
            _ => {}
        }

        if matches!(why, EndReason::Delivered(_)) {
            job.measured = true;
        }
    }

    fn on_task_settled(&mut self, event: &Event, task: TaskId, settled: &Settled) {
        let live = self.live_of(task);
        let job = self.jobs.get_mut(&task.job).expect("the job is there");
        assert!(
            job.open(task.index),
            "one visible result: {task} is settled twice"
        );

        match settled {
            Settled::Finished(attempt) => {
                let Event::AttemptEnded {
                    host,
                    attempt: of,
                    outcome,
                    ..
                } = event
                else {
                    panic!("nothing came")
                };

                assert!(attempt == of && outcome.success() && attempt.task == task);
                assert_eq!(
                    self.attempts[attempt].host, *host,
                    "the result comes from the host that had the attempt"
                );
                job.finished.insert(task.index);
            }
            Settled::Failed(attempt, _) => {
                assert_eq!(attempt.task, task);
                let failures = job.failures.get(&task.index).copied().unwrap_or(0);
                assert!(
                    failures > job.rules.retries,
                    "charges: {task} failed {failures} times only"
                );
                job.failed.insert(task.index);
                job.pardoned = false;
            }
            Settled::FailedTooOften(n) => {
                assert_eq!(job.failures.get(&task.index), Some(n));
                assert!(
                    *n > job.rules.retries,
                    "charges: {task} failed {n} times only"
                );
                job.failed.insert(task.index);
                job.pardoned = false;
            }
            Settled::NoQuorum(_) => panic!("no job here compares results"),
            Settled::CrowdedOut(n) => {
                assert!(
                    *n > job.rules.max_losses,
                    "charges: {task} was given back {n} times only"
                );
                job.failed.insert(task.index);
                job.pardoned = false;
            }
            Settled::LostTooOften(n) => {
                assert_eq!(job.losses.get(&task.index), Some(n));
                assert!(
                    *n > job.rules.max_losses,
                    "charges: {task} was lost {n} times only"
                );
                job.failed.insert(task.index);
                job.pardoned = false;
            }
        }

        assert!(live.is_empty(), "{task} is settled while {live:?} live");
    }

    fn on_reopened(&mut self, id: JobId, tasks: &IdSet) {
        let job = self.jobs.get_mut(&id).expect("the job is there");
        for index in tasks.iter() {
            let closed = job.failed.remove(&index)
                || job.cancelled.remove(&index)
                || job.finished.remove(&index);
            assert!(closed, "{index} is reopened, but was not settled");
            job.failures.remove(&index);
            job.losses.remove(&index);

            for (_, old) in self
                .attempts
                .iter_mut()
                .filter(|(a, _)| a.task == TaskId::new(id, index))
            {
                old.bygone = true;
            }
        }

        job.settled = false;
        job.pardoned = true;
    }

    /// Compares the books with what the scheduler shows.
    pub(crate) fn compare(&mut self, scheduler: &Scheduler) {
        self.jobs.retain(|id, job| {
            let there = scheduler.job_state(*id).is_some();
            assert!(
                there || job.all_closed(),
                "job {id} is forgotten, but not settled"
            );
            there
        });

        let jobs = &self.jobs;
        let to_restore = &self.to_restore;
        let there = |job: JobId| jobs.contains_key(&job) || to_restore.contains_key(&job);
        self.attempts.retain(|attempt, _| there(attempt.task.job));
        assert_eq!(
            scheduler.jobs().collect::<Vec<_>>(),
            self.jobs.keys().copied().collect::<Vec<_>>()
        );
        for (id, job) in &self.jobs {
            self.compare_job(*id, job, scheduler);
        }

        for (id, host) in &self.hosts {
            let status = scheduler.host(*id).expect("every host is shown");
            assert_eq!(
                status.attempts,
                self.on_books(*id),
                "one host's books: {id}"
            );
            self.check_state(*id, status.state);
            assert_eq!(
                status.state, host.announced,
                "changes of {id} are announced"
            );
            assert!(
                host.health == Health::Lost || scheduler.next_wakeup().is_some(),
                "{id} is watched"
            );
        }
    }

    fn compare_job(&self, id: JobId, job: &ModelJob, scheduler: &Scheduler) {
        assert_eq!(scheduler.job_state(id), Some(job.state()));
        assert_eq!(
            job.settled,
            job.all_closed(),
            "job {id} says so when it is settled"
        );
        assert_eq!(
            scheduler.job_attempts(id),
            Some((job.started, job.duplicates))
        );

        let over = job
            .rules
            .max_fails
            .is_some_and(|limit| job.failed.len() as u64 > limit);
        assert!(
            !over || job.pardoned || job.all_closed(),
            "job {id} goes on after too many failures"
        );

        let shown: Vec<AttemptId> = scheduler
            .live_attempts(id)
            .map(|live| live.attempt)
            .collect();
        let live: Vec<AttemptId> = self
            .attempts
            .iter()
            .filter(|(a, known)| known.live && a.task.job == id)
            .map(|(a, _)| *a)
            .collect();
        assert_eq!(
            shown.iter().copied().collect::<BTreeSet<_>>(),
            live.iter().copied().collect(),
            "job {id}"
        );
        assert_eq!(shown.len(), live.len());

        let mut states: BTreeMap<TaskState, BTreeSet<u32>> = BTreeMap::new();
        for index in &job.all {
            let state = self.task_state(id, job, *index);
            assert_eq!(
                scheduler.task_state(TaskId::new(id, *index)),
                Some(state),
                "task {id}.{index}"
            );
            states.entry(state).or_default().insert(*index);
        }

        let in_state = |state| states.get(&state).cloned().unwrap_or_default();
        for state in TaskState::ALL {
            let shown: BTreeSet<u32> = scheduler
                .tasks_in(id, *state)
                .expect("the job is there")
                .iter()
                .collect();
            assert_eq!(
                shown,
                in_state(*state),
                "no task lost: {state} tasks of job {id}"
            );
        }

        let counts = scheduler.job_counts(id).expect("the job is there");
        let n = |state| in_state(state).len() as u64;
        let waiting = n(TaskState::Waiting);
        let running = n(TaskState::Running);
        let suspended = n(TaskState::Suspended);
        assert_eq!(
            (counts.waiting, counts.running, counts.suspended),
            (waiting, running, suspended),
            "sums"
        );

        assert_eq!(counts.disclosed, n(TaskState::Disclosed), "sums");
        assert_eq!(
            counts.total,
            waiting + counts.disclosed + running + suspended + counts.settled(),
            "sums"
        );

        let offers = |host| self.offers.get(host).cloned().unwrap_or_default();
        let does = |host| job.rules.needs.suits(&offers(host));
        let alone = !self.saves_beside(id);
        let free = |id, host: &ModelHost| {
            let there = host.takes_work() && !self.lent.contains(&id);
            there && alone && self.in_slots(id) < host.usable() && self.has_room(id, job)
        };

        let idle = self
            .hosts
            .iter()
            .find(|(id, host)| !self.bounded() && !self.more_comes && free(**id, host) && does(id));
        if let Some((host, _)) = idle {
            let known = job.rules.policy == "deskgrid" && job.foreseen;
            let eager = eager(&job.rules.policy) && !known && job.after.is_empty();
            let waits = if eager { waiting } else { 0 };
            assert_eq!(
                waits, 0,
                "no idling: tasks of job {id} wait while {host} has a free slot"
            );
            // Tasks whose time is known are copied for what that gains, and else by this rule.
            let rescues = job.rules.policy == "deskgrid" && !job.foreseen;
            assert!(
                !rescues || !self.any_stuck(id, job),
                "{host} could rescue a task of {id}"
            );
        }
    }

    /// Whether these live attempts of a task are all on silent hosts.
    fn all_silent(&self, live: &[AttemptId]) -> bool {
        let silent = |attempt| self.hosts[&self.attempts[attempt].host].health == Health::Suspect;
        !live.is_empty() && live.iter().all(silent)
    }

    /// Whether a task with these live attempts waits to be started again.
    fn waits_again(&self, live: &[AttemptId]) -> bool {
        self.all_silent(live) && live.len() < self.settings.max_copies as usize
    }

    fn any_stuck(&self, id: JobId, job: &ModelJob) -> bool {
        job.all.iter().any(|index| {
            let live = self.live_of(TaskId::new(id, *index));
            let stuck = |attempt: &AttemptId| {
                let host = &self.hosts[&self.attempts[attempt].host];
                let phase = self.attempts[attempt].phase;
                let still = host.suspended()
                    || host.owner != OwnerState::Away && matches!(phase, Phase::Suspended(_));
                host.health == Health::Suspect || (still && phase.executing())
            };
            !live.is_empty()
                && live.len() < self.settings.max_copies as usize
                && live.iter().all(stuck)
        })
    }

    fn task_state(&self, id: JobId, job: &ModelJob, index: u32) -> TaskState {
        let live = self.live_of(TaskId::new(id, index));
        let of = |counts: &BTreeMap<u32, u32>| counts.get(&index).copied().unwrap_or(0);
        if job.closed(index) {
            assert!(
                live.is_empty(),
                "{id}.{index} is settled while {live:?} live"
            );
        }

        let spent = of(&job.failures) > job.rules.retries || of(&job.losses) > job.rules.max_losses;
        match () {
            () if job.finished.contains(&index) => TaskState::Finished,
            () if job.failed.contains(&index) => TaskState::Failed,
            () if job.cancelled.contains(&index) => TaskState::Cancelled,
            () if live.is_empty() || self.waits_again(&live) && !spent => {
                assert!(
                    !live.is_empty() || of(&job.failures) <= job.rules.retries,
                    "charges: {id}.{index} should have failed"
                );
                assert!(
                    !live.is_empty() || of(&job.losses) <= job.rules.max_losses,
                    "charges: {id}.{index} was lost too often"
                );
                if job.unrequested.contains(&index) {
                    TaskState::Disclosed
                } else {
                    TaskState::Waiting
                }
            }
            () if live
                .iter()
                .all(|a| matches!(self.attempts[a].phase, Phase::Suspended(_) | Phase::Held)) =>
            {
                TaskState::Suspended
            }
            () => TaskState::Running,
        }
    }
}

impl ModelJob {
    fn new(bag: &Bag) -> Self {
        Self {
            rules: bag.rules.clone(),
            terms: bag.terms.clone(),
            all: bag.tasks.iter().collect(),
            finished: BTreeSet::new(),
            failed: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            highest: BTreeMap::new(),
            failures: BTreeMap::new(),
            losses: BTreeMap::new(),
            started: 0,
            duplicates: 0,
            measured: false,
            foreseen: bag.rules.estimate.is_some(),
            settled: false,
            pardoned: false,
            disclosed: bag.disclosed,
            unrequested: unrequested(bag),
            after: (bag.after.iter())
                .map(|after| (after.job, after.how))
                .collect(),
            takes_more: bag.open,
            promised: None,
        }
    }
}

/// Tasks of which the policy knows that nobody waits for them.
fn unrequested(bag: &Bag) -> BTreeSet<u32> {
    let policy = scheduler::policy::policy(&bag.rules.policy);
    let told_apart =
        policy.is_some_and(|policy| matches!(policy.ordering, Ordering::Batchactive(_)));
    if bag.disclosed && told_apart {
        bag.tasks.iter().collect()
    } else {
        BTreeSet::new()
    }
}
