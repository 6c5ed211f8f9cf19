//! Hosts: their sessions, the messages of their workers, and their views.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use common::attempt::{HeldAttempt, Spent};
use common::host::{HostFacts, OwnerState, Status, YieldReason};
use common::identity::IdentityState;
use common::needs::{Capacity, Label, MAX_LABELS, Offers};
use common::view::{HostState, HostView};
use common::wire::worker::{Delivery, ToWorker};
use common::wire::{Refusal, RefusalCode, SERVICE_VERSION};
use common::{Completion, HostId, Span, Time};
use scheduler::experience::Habit;
use scheduler::{Event, GONE_AFTER, Parting};
use uuid::Uuid;

use super::ask::HostNames;
use super::claims::used;
use super::{Core, HostMail, Outbox};
use crate::numbers::GridNumbers;
use crate::store::{Attendance, RestoredHost, StoreResult};

/// Why a host that was revoked takes no tasks.
pub(super) const REVOKED: &str = "its identity was revoked";

/// Tells the sessions of one host apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionId(pub u64);

/// The outcome of forgetting a host.
pub enum Forgetting {
    /// It is forgotten; the host as it was shown until now.
    Done(Box<HostView>),
    /// There is no such host.
    Unknown,
    /// Its identity was not revoked: it could come back.
    MayReturn,
}

/// A host that has enrolled.
pub(super) struct Host {
    pub(super) name: String,
    facts: Option<HostFacts>,
    session: Option<(SessionId, Outbox)>,
    /// The message version of its last session.
    pub(super) version: Option<u16>,
    /// The reason why it gets no new tasks, as its session was told last.
    pub(super) out_of_service: Option<String>,
    draining: bool,
    /// The owner of the host, as an admin named it.
    pub(super) owner: Option<String>,
    /// The labels from admins.
    labels: BTreeSet<Label>,
    /// The host that stands for all hosts of the same owner, as the scheduler was last told; the
    /// host itself by default.
    pub(super) party: Option<HostId>,
    /// The time since which this process has known the host.
    known: Time,
    heard: Option<Time>,
    /// The share of a slot's processor that tasks could have, as last reported.
    cpu: Option<f32>,
    finished: u64,
    lost: u64,
    /// Whether its identity is let in.
    identity: IdentityState,
    pub(super) attendance: Attendance,
    /// The runs of its worker that were seen.
    runs: WorkerRuns,
    /// Whether the host has claimed an impossible time for an attempt.
    claimed_wildly: bool,
    /// When the rows of its availability were counted last.
    pub(super) rows_counted: Option<Time>,
    /// The rows that were added to its availability since.
    pub(super) rows_added: usize,
    /// The state that followers were told, with the owner's reason.
    pub(super) told: Option<(HostState, Option<YieldReason>)>,
}

/// The runs of a host's worker, each with the number it gave itself.
#[derive(Debug, Default)]
struct WorkerRuns {
    /// The present run, or the last one.
    current: Option<Uuid>,
    /// Earlier runs, the oldest first.
    before: VecDeque<Uuid>,
    /// When it was told last that two workers use one identity.
    told: Option<Time>,
}

/// A `Completion` that a host delivers.
pub(super) struct Delivered {
    pub(super) completion: Completion,
    /// The end of its attempt.
    pub(super) ended: Time,
    /// The part of its times that counts if it is not taken.
    pub(super) spent: Spent,
}

/// The memory in MiB that a host must have for each attempt, running or frozen, before another one
/// is frozen.
const FROZEN_MIB: u64 = 512;
/// The most hosts that are listed at a time: meanwhile nobody else is answered.
const PORTION: usize = 500;
/// The most cores that a host is believed to have.
const MOST_CORES: u32 = 4_096;
/// The most earlier runs of a worker that are remembered.
const RUNS: usize = 32;
/// The time within which it is told once of a host that two workers use its identity.
const TOLD_EVERY: Span = Span::from_secs(60);

impl WorkerRuns {
    /// Enters a run. Returns false if another run has replaced it before: two workers then use one
    /// identity.
    fn enter(&mut self, run: Uuid) -> bool {
        if self.before.contains(&run) {
            return false;
        }
        if let Some(before) = self.current.replace(run).filter(|before| *before != run) {
            self.before.push_back(before);
            if self.before.len() > RUNS {
                self.before.pop_front();
            }
        }
        true
    }
}

/// A worker that has sent `Hello`.
pub struct Connected {
    /// The host that its certificate names.
    pub host: HostId,
    /// The host's unique name.
    pub name: String,
    /// This session.
    pub session: SessionId,
    /// The outbox for its messages. Dropping it ends the session.
    pub outbox: Outbox,
    /// The version that both speak.
    pub version: u16,
    /// The interval of its heartbeats.
    pub heartbeat: Span,
    /// The facts of the host, such as its slots and speed.
    pub facts: HostFacts,
    /// The present `Status` of the host.
    pub status: Status,
    /// The attempts that it holds.
    pub held: Vec<HeldAttempt>,
}

impl Host {
    fn new(name: String, now: Time) -> Self {
        Self {
            name,
            facts: None,
            session: None,
            version: None,
            out_of_service: None,
            draining: false,
            owner: None,
            party: None,
            labels: BTreeSet::new(),
            known: now,
            heard: None,
            cpu: None,
            finished: 0,
            lost: 0,
            identity: IdentityState::Active,
            attendance: Attendance::Expected,
            runs: WorkerRuns::default(),
            claimed_wildly: false,
            rows_counted: None,
            rows_added: 0,
            told: None,
        }
    }

    /// Returns the name of its platform; empty if its worker has not connected yet.
    pub(super) fn platform_name(&self) -> String {
        let facts = self.facts.as_ref();
        facts.map_or_else(String::new, |facts| facts.platform.name())
    }

    /// Whether it is connected with a version that takes [`ToWorker::OutOfService`].
    fn is_told_of_service(&self) -> bool {
        self.session.is_some() && self.version >= Some(SERVICE_VERSION)
    }
}

/// Returns the number of attempts that a host can hold frozen: `per_slot` for each slot, if its
/// memory has `FROZEN_MIB` for each attempt.
fn holds_frozen(facts: &HostFacts, per_slot: u32) -> u32 {
    let rooms = u32::try_from(facts.memory_mib / FROZEN_MIB).unwrap_or(u32::MAX);
    facts
        .slots
        .saturating_mul(per_slot)
        .min(rooms.saturating_sub(facts.slots))
}

/// Says what a host waits for that has joined with a token for which an admin approves each.
fn waits_for_approval(name: &str) -> String {
    format!("waits for an admin's approval: deskgrid identity approve {name}")
}

impl Core {
    pub(super) fn restore_host(&mut self, restored: RestoredHost) -> StoreResult<()> {
        let RestoredHost { id, draining, .. } = restored;
        let known = restored.facts.as_ref().map(|facts| Event::HostKnown {
            host: id,
            speed: facts.speed,
            record: None,
            habit: Habit::default(),
        });

        let host = Host {
            facts: restored.facts,
            draining,
            owner: restored.owner,
            labels: restored.labels,
            finished: restored.finished,
            lost: restored.lost,
            heard: restored.heard,
            identity: restored.identity,
            attendance: restored.attendance,
            ..Host::new(restored.name, self.now)
        };
        self.note_name(id, &host.name);
        self.hosts.insert(id, host);
        if restored.identity == IdentityState::Revoked {
            return Ok(());
        }

        if restored.valid > 0 {
            self.step(Event::HostStanding {
                host: id,
                party: id,
                valid: restored.valid,
            })?;
        }

        known.map_or(Ok(()), |known| self.step(known))?;
        self.tell_offers(id)?;
        if draining {
            self.step(Event::HostDrained { host: id })?;
        }

        match restored.attendance {
            Attendance::Left => self.step(Event::HostLeft { host: id }),
            // Only a revoked host is forgotten, and the scheduler knows none of them.
            Attendance::Expected | Attendance::Forgotten => Ok(()),
        }
    }

    /// Opens a session for a worker that said hello. An earlier session of the same host ends.
    pub(super) fn on_connected(&mut self, connected: Connected) -> StoreResult<()> {
        if self.is_revoked(connected.host) {
            return Ok(());
        }

        let Connected { name, facts, .. } = connected;
        let id = connected.host;
        tracing::info!(host = name, slots = facts.slots, speed = %facts.speed, "joined");
        let facts = HostFacts {
            slots: facts.slots.min(self.limits.slots_per_host),
            ..facts
        };
        let slots = facts.slots;
        let speed = facts.speed;
        self.store.host_facts(id, &facts)?;
        let now = self.now;
        self.note_name(id, &name);
        let host = self
            .hosts
            .entry(id)
            .or_insert_with(|| Host::new(name.clone(), now));

        let left = host.attendance == Attendance::Left;
        let session = (connected.session, connected.outbox);
        if host.session.replace(session).is_some() && !left {
            // This also happens after a connection that died unnoticed; only repetitions are
            // suspicious. One whose worker has left in order may be open for a moment more.
            tracing::warn!(
                host = name,
                "a newer session replaces an older one: do two workers use one identity?"
            );
        }

        host.facts = Some(HostFacts {
            name: name.clone(),
            ..facts
        });
        host.version = Some(connected.version);
        host.out_of_service = None;
        host.heard = Some(now);
        host.cpu = Some(connected.status.cpu);
        self.attend(id, Attendance::Expected)?;

        // Mail for the earlier session is dropped: the held attempts that the worker lists settle
        // it.
        self.mail.remove(&id);
        self.tell_offers(id)?;
        self.tell_windows(id)?;
        self.speaks(id);
        self.step(Event::HostJoined {
            host: id,
            slots,
            speed,
            status: connected.status,
            held: connected.held.clone(),
        })?;
        self.note_phases(id, &connected.held);

        let mail = self.mail(id);
        let abandon = std::mem::take(&mut mail.abandon);
        let incarnation = self.incarnation;
        let welcome = ToWorker::Welcome {
            version: connected.version,
            host: id,
            name,
            incarnation,
            heartbeat: connected.heartbeat,
            abandon,
        };
        self.mail(id).welcome = Some(welcome);
        self.tell_service(id);
        self.greet_site(id, connected.version);
        self.greet_update(id, connected.version);

        Ok(())
    }

    /// Tells the scheduler what a host offers, where its facts are known.
    fn tell_offers(&mut self, id: HostId) -> StoreResult<()> {
        let Some(host) = self.hosts.get(&id) else {
            return Ok(());
        };
        let Some(facts) = &host.facts else {
            return Ok(());
        };

        let own = facts.offers();
        let capacity = Capacity {
            cores: own
                .capacity
                .cores
                .clamp(facts.slots, MOST_CORES.max(facts.slots)),
            ..own.capacity
        };
        let offers = Offers {
            together: true,
            frozen: holds_frozen(facts, self.frozen_per_slot),
            capacity,
            labels: own.labels.union(&host.labels).cloned().collect(),
            ..own
        };
        self.step(Event::HostOffers {
            host: id,
            offers: Box::new(offers),
        })
    }

    /// Changes the labels of a host.
    pub(super) fn label(
        &mut self,
        id: HostId,
        add: Vec<Label>,
        remove: &[Label],
    ) -> StoreResult<()> {
        let Some(host) = self.hosts.get(&id) else {
            return Ok(());
        };
        let mut labels = host.labels.clone();
        labels.retain(|label| !remove.contains(label));
        labels.extend(add);
        if labels.len() > MAX_LABELS {
            return Ok(());
        }

        self.store.host_labels(id, &labels)?;
        let site = self.site_of(id);
        if let Some(host) = self.hosts.get_mut(&id) {
            host.labels = labels;
        }
        self.update_site(id, &site);
        self.tell_offers(id)?;
        self.step(Event::Tick)
    }

    /// Enters a run of a host's worker. A run that another one has replaced before gets a
    /// `Refusal`.
    pub(super) fn on_instance(
        &mut self,
        id: HostId,
        session: SessionId,
        run: Uuid,
    ) -> StoreResult<()> {
        let now = self.now;
        let Some(host) = self
            .hosts
            .get_mut(&id)
            .filter(|h| h.session.as_ref().is_some_and(|(s, _)| *s == session))
        else {
            return Ok(());
        };
        if host.runs.enter(run) {
            return Ok(());
        }

        let name = host.name.clone();
        let told = host.runs.told.filter(|at| now.since(*at) < TOLD_EVERY);
        host.runs.told = told.or(Some(now));
        let why = format!("another worker has the identity of {name}, too");
        let hint = "was this PC's disk copied? join again with a token of its own: deskgrid worker start --rejoin \
                    --master HOST:PORT --join TOKEN";
        self.mail(id).refuse = Some(Refusal::new(RefusalCode::Conflict, &why, hint));
        if told.is_some() {
            return Ok(()); // One host must not fill the log.
        }

        tracing::warn!(
            host = name,
            "two workers use one identity: the one that was replaced before is sent away"
        );
        self.audit(&name, "clone", "its identity", Err(&why))
    }

    /// Ends a session. Nothing changes if the host has a newer one.
    pub(super) fn on_disconnected(
        &mut self,
        id: HostId,
        session: SessionId,
        how: Parting,
    ) -> StoreResult<()> {
        let current = self.is_current(id, session);

        match self.hosts.get_mut(&id) {
            Some(host) if current => {
                tracing::info!(host = host.name, ?how, "disconnected");
                host.session = None;
                self.experience_gained();
                self.counted.insert(id);
                self.step(Event::HostDisconnected { host: id, how })
            }
            _ => Ok(()),
        }
    }

    /// Handles the last message of a worker that shuts down in order.
    pub(super) fn on_leaving(&mut self, id: HostId) -> StoreResult<()> {
        self.attend(id, Attendance::Left)?;
        self.on_event(id, Event::HostLeft { host: id })
    }

    /// Notes and stores whether a host is expected back.
    fn attend(&mut self, id: HostId, attendance: Attendance) -> StoreResult<()> {
        match self.hosts.get_mut(&id) {
            Some(host) if host.attendance != attendance => {
                host.attendance = attendance;
                self.store.host_attendance(id, attendance)
            }
            _ => Ok(()),
        }
    }

    /// Gives the scheduler an `Event` of a host's worker.
    pub(super) fn on_event(&mut self, host: HostId, event: Event) -> StoreResult<()> {
        self.note_heard(host);
        self.speaks(host);
        self.step(event)
    }

    pub(super) fn is_revoked(&self, id: HostId) -> bool {
        let host = self.hosts.get(&id);
        host.is_some_and(|host| host.identity == IdentityState::Revoked)
    }

    /// Makes a host that is `Waiting` one that is let in. A revocation is for good.
    pub(super) fn on_approved(&mut self, id: HostId) {
        if let Some(host) = self.hosts.get_mut(&id)
            && host.identity == IdentityState::Waiting
        {
            host.identity = IdentityState::Active;
        }
    }

    /// Shuts out a revoked host: its attempts are to run elsewhere, and its messages no longer
    /// count.
    pub(super) fn on_revoked(&mut self, id: HostId) -> StoreResult<()> {
        // Its session stays until the revoking session closes the connection, with the reason.
        if let Some(host) = self.hosts.get_mut(&id) {
            host.identity = IdentityState::Revoked;
        }
        self.mail.remove(&id);
        self.step(Event::HostRevoked { host: id })
    }

    pub(super) fn is_current(&self, id: HostId, session: SessionId) -> bool {
        let current = self.hosts.get(&id).and_then(|host| host.session.as_ref());
        current.is_some_and(|(current, _)| *current == session) && !self.is_revoked(id)
    }

    /// Takes a heartbeat with the host's `Status`; it is to be answered.
    pub(super) fn on_heartbeat(
        &mut self,
        host: HostId,
        status: Status,
        held: Vec<HeldAttempt>,
    ) -> StoreResult<()> {
        self.mail(host).beat = true;
        if let Some(host) = self.hosts.get_mut(&host) {
            host.cpu = Some(status.cpu);
        }
        self.on_phases(host, &held.clone(), Event::HostHeard { host, status, held })
    }

    /// Handles an event that reports the phases of attempts.
    pub(super) fn on_phases(
        &mut self,
        host: HostId,
        held: &[HeldAttempt],
        event: Event,
    ) -> StoreResult<()> {
        self.on_event(host, event)?;
        self.note_phases(host, held);
        Ok(())
    }

    /// Takes a `Delivery` from any session of the host. Its completion is acknowledged after the
    /// commit, whether it counts or not.
    pub(super) fn on_delivery(&mut self, host: HostId, delivery: Delivery) -> StoreResult<()> {
        if self.is_revoked(host) {
            return Ok(());
        }

        let Delivery {
            mut completion,
            ago,
        } = delivery;
        let spent = self.hold_against_time(host, &mut completion)?;
        completion.outcome = completion.outcome.sound();

        self.foresee_share(&completion)?;
        self.note_heard(host);
        self.speaks(host);
        if let Some(used) = used(host, &completion.outcome, Spent::of(&completion)) {
            self.step(used)?;
        }
        let ended = Event::AttemptEnded {
            host,
            attempt: completion.attempt,
            outcome: completion.outcome.clone(),
            ran: completion.ran,
        };

        let delivered = Delivered {
            completion,
            ended: self.now - ago,
            spent,
        };
        self.step_with(ended, Some(&delivered))?;
        self.tell_stirred()
    }

    /// The name of a host, and its labels from its owner and from admins.
    pub(super) fn host_words(&self, id: HostId) -> Option<(String, BTreeSet<Label>)> {
        let host = self.hosts.get(&id)?;
        let own = host.facts.iter().flat_map(|facts| &facts.labels);
        let labels = own.chain(&host.labels).cloned().collect();
        Some((host.name.clone(), labels))
    }

    /// Returns the number of attempts that the host has finished.
    pub(super) fn finished_on(&self, id: HostId) -> u64 {
        self.hosts.get(&id).map_or(0, |host| host.finished)
    }

    /// Whether the host's worker is connected.
    pub(super) fn is_connected(&self, id: HostId) -> bool {
        self.hosts
            .get(&id)
            .is_some_and(|host| host.session.is_some())
    }

    /// The number of cores of the host, clamped to 1..=`MOST_CORES`.
    pub(super) fn cores_of(&self, id: HostId) -> u32 {
        let facts = self.hosts.get(&id).and_then(|host| host.facts.as_ref());
        facts.map_or(1, |facts| facts.cores.clamp(1, MOST_CORES))
    }

    /// Whether this is the host's first impossible claim since the master started.
    pub(super) fn first_wild_claim(&mut self, id: HostId) -> bool {
        self.hosts
            .get_mut(&id)
            .is_some_and(|host| !std::mem::replace(&mut host.claimed_wildly, true))
    }

    fn note_heard(&mut self, id: HostId) {
        let now = self.now;
        if let Some(host) = self.hosts.get_mut(&id) {
            host.heard = Some(now);
        }
    }

    pub(super) fn on_host_changed(
        &mut self,
        id: HostId,
        state: HostState,
        owner: Option<YieldReason>,
    ) {
        self.note_host(id, state, owner);
        self.tell_service(id);
        let Some(host) = self.hosts.get(&id) else {
            return;
        };
        match owner {
            Some(reason) => tracing::info!(host = host.name, %state, %reason),
            // Changes between ready and busy come with every task: too many for a higher log level.
            None => tracing::debug!(host = host.name, %state),
        }
    }

    /// Counts attempts of a host. `write_counts` stores the counts with the present group.
    pub(super) fn count_host(&mut self, id: HostId, finished: u64, lost: u64) {
        if let Some(host) = self.hosts.get_mut(&id) {
            host.finished += finished;
            host.lost += lost;
            self.counted.insert(id);
        }
    }

    /// Stores the counts that changed in the present group, so that they agree with the results
    /// that it makes durable.
    pub(super) fn write_counts(&mut self) -> StoreResult<()> {
        for id in std::mem::take(&mut self.counted) {
            if let Some(host) = self.hosts.get(&id) {
                let heard = host.heard.unwrap_or(self.now);
                self.store
                    .host_counts(id, host.finished, host.lost, heard)?;
            }
        }
        Ok(())
    }

    /// Leaves a revoked host out of lists from now on; attempts that it ran keep its name.
    pub(super) fn forget_host(&mut self, by: &str, name: &str) -> StoreResult<Forgetting> {
        let found = self.find_host(name).filter(|id| !self.is_forgotten(*id));
        let Some((id, view)) = found.and_then(|id| Some((id, self.host_view(id)?))) else {
            return Ok(Forgetting::Unknown);
        };
        if !self.is_revoked(id) {
            return Ok(Forgetting::MayReturn);
        }

        self.attend(id, Attendance::Forgotten)?;
        self.audit(
            by,
            "forget",
            &view.facts.name,
            Ok("the host is in no list any more"),
        )?;
        Ok(Forgetting::Done(Box::new(view)))
    }

    /// Whether an admin has forgotten this host.
    pub(super) fn is_forgotten(&self, id: HostId) -> bool {
        let host = self.hosts.get(&id);
        host.is_some_and(|host| host.attendance == Attendance::Forgotten)
    }

    /// Starts or ends a drain.
    pub(super) fn drain(&mut self, id: HostId, draining: bool) -> StoreResult<()> {
        if let Some(host) = self.hosts.get_mut(&id) {
            host.draining = draining;
        }
        self.store.host_draining(id, draining)?;
        self.step(if draining {
            Event::HostDrained { host: id }
        } else {
            Event::HostUndrained { host: id }
        })?;
        self.tell_service(id);
        Ok(())
    }

    /// Tells a connected host why it gets no new tasks, or only one at a time, where that has changed.
    pub(super) fn tell_service(&mut self, id: HostId) {
        let Some(host) = self.hosts.get(&id).filter(|host| host.is_told_of_service()) else {
            return;
        };
        let why = match host.draining {
            true => Some(format!(
                "drained: an admin can end that with 'deskgrid host resume {}'",
                host.name
            )),
            false => self.scheduler.why_benched(id).map(|why| {
                format!(
                    "benched: {why}; it gets one task at a time after a pause, until one succeeds"
                )
            }),
        };

        if why != host.out_of_service {
            self.mail(id).out_of_service = Some(why.clone());
            self.hosts
                .entry(id)
                .and_modify(|host| host.out_of_service = why);
        }
    }

    /// The views of the hosts of these names (a name, or `host-N`), with the attempts of all jobs or
    /// of one user's. The error is a name that no host has.
    pub(super) fn host_views(
        &self,
        names: &[String],
        user: Option<&str>,
    ) -> Result<Vec<HostView>, String> {
        names
            .iter()
            .map(|name| {
                self.find_host(name)
                    .filter(|id| !self.is_forgotten(*id))
                    .and_then(|id| self.host_view_for(id, user))
                    .ok_or_else(|| name.clone())
            })
            .collect()
    }

    /// Views of the next hosts after this one, a portion of them.
    pub(super) fn hosts_after(&self, after: Option<HostId>, user: Option<&str>) -> Vec<HostView> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.hosts.range((from, Bound::Unbounded));
        next.map(|(id, _)| *id)
            .filter(|id| !self.is_forgotten(*id))
            .filter_map(|id| self.host_view_for(id, user))
            .take(PORTION)
            .collect()
    }

    /// The view of a host, with the attempts of this user only if one is named.
    pub(super) fn host_view_for(&self, id: HostId, user: Option<&str>) -> Option<HostView> {
        let mut view = self.host_view(id)?;
        if let Some(user) = user {
            view.attempts
                .retain(|attempt| self.is_of(attempt.task.job, user));
        }
        Some(view)
    }

    /// The host with this name, or of this number.
    pub(super) fn find_host(&self, name: &str) -> Option<HostId> {
        let by_name = self
            .hosts
            .iter()
            .find(|(_, host)| host.name == name)
            .map(|(id, _)| *id);
        let by_number =
            || common::wire::client::host_number(name).filter(|id| self.hosts.contains_key(id));
        by_name.or_else(by_number)
    }

    fn host_view(&self, id: HostId) -> Option<HostView> {
        let host = self.hosts.get(&id)?;
        // The host has enrolled but not started: only its name is known.
        let facts = host
            .facts
            .clone()
            .unwrap_or_else(|| HostFacts::unknown(host.name.clone()));

        let status = self.scheduler.host(id);
        let connected = status.as_ref().is_some_and(|s| s.connected);
        let heard = host.heard.unwrap_or(host.known);
        // Of one that has just joined nothing is lost: its worker is about to connect.
        let unseen = match host.heard {
            Some(_) => HostState::Lost,
            None => HostState::Suspect,
        };
        let never = || {
            let since = if host.heard.is_some() {
                "since the master started"
            } else {
                "yet"
            };
            Some(format!("its worker has not connected {since}"))
        };
        Some(HostView {
            id,
            facts: HostFacts {
                name: host.name.clone(),
                ..facts
            },
            state: status.as_ref().map_or(unseen, |s| s.state),
            reason: match host.identity {
                IdentityState::Revoked => Some(REVOKED.to_owned()),
                IdentityState::Waiting => Some(waits_for_approval(&host.name)),
                IdentityState::Active => status.as_ref().map_or_else(never, |s| s.reason.clone()),
            },
            gone: self.is_revoked(id) || !connected && self.now.since(heard) > GONE_AFTER,
            since: status.as_ref().map_or(host.known, |s| s.since),
            heard: host.heard,
            cpu_availability: host.cpu.filter(|_| connected).map(f64::from),
            undisturbed_1h: self.scheduler.undisturbed_1h(id),
            slots_usable: status.as_ref().map_or(0, |s| s.usable_slots),
            owner_active: status
                .as_ref()
                .filter(|s| s.connected)
                .map(|s| s.owner != OwnerState::Away),
            attempts: status.map_or_else(Vec::new, |s| s.attempts),
            finished: host.finished,
            lost: host.lost,
            belongs_to: host.owner.clone(),
            agreed: self.scheduler.host_valid(id),
            labels: host.labels.clone(),
        })
    }

    /// The names of all hosts, for lists that the store makes.
    pub(super) fn host_names(&self) -> HostNames {
        Arc::clone(&self.names)
    }

    /// The name of a host, or its number if it is not known.
    pub(super) fn host_name(&self, id: HostId) -> String {
        self.hosts
            .get(&id)
            .map_or_else(|| id.to_string(), |host| host.name.clone())
    }

    fn note_name(&mut self, id: HostId, name: &str) {
        if self.names.get(&id).is_none_or(|known| known != name) {
            Arc::make_mut(&mut self.names).insert(id, name.to_owned());
        }
    }

    pub(super) fn send(&mut self, id: HostId, mail: HostMail) {
        let Some((_, outbox)) = self.hosts.get(&id).and_then(|host| host.session.as_ref()) else {
            return;
        };
        for message in mail.messages() {
            outbox.send(message);
        }
    }

    /// The number of hosts in each `HostState`.
    /// Counts hosts and slots for the metrics.
    pub(super) fn count_hosts(&self, numbers: &mut GridNumbers) {
        for host in self.hosts.keys().filter_map(|id| self.scheduler.host(*id)) {
            *numbers.hosts.entry(host.state).or_default() += 1;
            if !host.connected {
                continue;
            }
            let busy = u64::from(host.slots).min(host.attempts.len() as u64);
            let lent = u64::from(host.usable_slots).max(busy);
            numbers.slots.busy += busy;
            numbers.slots.free += lent - busy;
            numbers.slots.kept += u64::from(host.slots).saturating_sub(lent);
        }
    }
}
