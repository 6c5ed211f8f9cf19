//! Rolls new programs out to workers: keeps what an admin signed, offers it to hosts as [`super::rollout`] decides, and
//! hears what they say. The master cannot sign, and does not know whether a signature is good where it knows no key: the workers do.

mod orders;

use std::collections::{BTreeMap, BTreeSet};

use common::content::BlobHash;
use common::update::{UpdateAnswer, UpdateKey, UpdateStanding, UpdateStatement};
use common::wire::{UPDATE_VERSION, WEIGHING_VERSION};
use common::{HostId, Span, Time};

use super::Core;
use super::rollout::{
    HostPresence, RolloutNow, RolloutStep, STAGES, SeenHost, missing_as_failed, place,
    silent_in_words,
};
use crate::store::{
    Attendance, HostProgress, RolloutState, StoreResult, StoredProgress, StoredRollout,
};

/// The most steps of a rollout at a time, so that others are answered in between.
const STEPS: usize = 200;
/// Stages are parts of the hosts that were heard of within this time.
const HEARD_WITHIN: Span = Span::from_secs(14 * 86_400);
/// The time after which a rollout that is done is looked at if no host says or asks anything.
const LATE_EVERY: Span = Span::from_secs(60);
/// The time within which a host writes one line of the audit log at most, and takes back one of its own words.
const AUDIT_EVERY: Span = Span::from_secs(60);

/// The rollouts, and what hosts said to them.
#[derive(Debug, Default)]
pub(super) struct UpdateBook {
    key: Option<UpdateKey>,
    rollouts: BTreeMap<String, Rollout>,
    /// The start of this master.
    began: Time,
    /// The hosts that have connected to this master.
    sightings: BTreeMap<HostId, Sighting>,
    /// The hosts that leave for a program, or have: they have said that they are ready, and nothing since that tells otherwise.
    leaving: BTreeSet<HostId>,
    /// The times at which hosts were heard of by the masters before.
    heard: BTreeMap<HostId, Time>,
    /// The times of the last lines that hosts wrote to the audit log.
    audited: BTreeMap<HostId, Time>,
}

impl UpdateBook {
    /// Notes what a host says of a program: one that is ready may leave for it next.
    fn says(&mut self, id: HostId, standing: &UpdateStanding) {
        match standing {
            UpdateStanding::Ready => self.leaving.insert(id),
            _ => self.leaving.remove(&id),
        };
    }

    /// A host that closes is still there: a task may hold it, though it has a new program. One of an earlier version does not
    /// say once more that it is ready as it leaves: it may leave at any time from its first word on.
    pub(super) fn closes(&mut self, id: HostId) {
        let sighting = self.sightings.get(&id);
        if sighting.is_some_and(|seen| seen.version >= WEIGHING_VERSION) {
            self.leaving.remove(&id);
        }
    }
}

/// A host as this master has last seen it.
#[derive(Debug)]
struct Sighting {
    /// The message version of its session.
    version: u16,
    presence: HostPresence,
}

#[derive(Debug)]
struct Rollout {
    stored: StoredRollout,
    statement: UpdateStatement,
    hosts: BTreeMap<HostId, StoredProgress>,
    /// The hosts that were offered it once more, and when.
    again: BTreeMap<HostId, Time>,
    /// The hosts that have failed since they were away: the master's word, not theirs.
    missing: BTreeSet<HostId>,
    /// What it waits for.
    waits: String,
    /// The time at which it was last looked at.
    looked: Time,
    /// Whether a host has connected or answered since.
    stirred: bool,
}

impl Rollout {
    fn new(stored: StoredRollout, statement: UpdateStatement) -> Self {
        Self {
            stored,
            statement,
            hosts: BTreeMap::new(),
            again: BTreeMap::new(),
            missing: BTreeSet::new(),
            waits: String::new(),
            looked: Time::default(),
            stirred: true,
        }
    }

    fn is_stopped(&self) -> bool {
        matches!(self.stored.state, RolloutState::Stopped(_))
    }

    /// Whether its next step may be due. One that is done still goes to hosts that come later, unless it is a downgrade: a
    /// newer package wins.
    fn is_due(&self, now: Time) -> bool {
        match self.stored.state {
            RolloutState::Running => true,
            RolloutState::Done if self.statement.downgrade.is_some() => false,
            RolloutState::Done => self.stirred || now.since(self.looked) >= LATE_EVERY,
            RolloutState::Stopped(_) => false,
        }
    }
}

/// Whether a host that stands like this may come to stand like that. One that has come to an end does not begin again, and
/// takes its own word back seldom, so that it does not fill the store.
fn may_follow((before, since): &StoredProgress, next: &HostProgress, now: Time) -> bool {
    use HostProgress::{Failed, Offered, Ready, Refused, Runs, Unwanted};
    match (before, next) {
        (Offered, _) => !matches!(next, Offered),
        (Ready, _) => !matches!(next, Offered | Ready),
        (Runs(_), _) => matches!(next, Refused(_) | Unwanted(_) | Failed(_)),
        (Refused(_) | Unwanted(_) | Failed(_), _) => {
            matches!(next, Runs(_)) && now.since(*since) >= AUDIT_EVERY
        }
    }
}

impl Core {
    /// Reads the rollouts from the store.
    pub(super) fn restore_updates(&mut self) -> StoreResult<()> {
        self.updates.key = self.store.update_key()?;
        self.updates.began = self.now;
        self.updates.heard = self.store.hosts_heard()?;
        for (platform, stored) in self.store.rollouts()? {
            match UpdateStatement::read(&stored.update.statement) {
                Ok(statement) => {
                    let rollout = Rollout::new(stored, statement);
                    self.updates.rollouts.insert(platform, rollout);
                }
                Err(bad) => tracing::warn!(%bad, "a rollout in the store is left out"),
            }
        }

        for (platform, host, progress) in self.store.rollout_hosts()? {
            if let Some(rollout) = self.updates.rollouts.get_mut(&platform) {
                if progress.0 == missing_as_failed(rollout.stored.pace.patience) {
                    rollout.missing.insert(host);
                }
                rollout.hosts.insert(host, progress);
            }
        }
        Ok(())
    }

    /// Whether this content is a program that hosts get.
    pub(super) fn is_program(&self, hash: &BlobHash) -> bool {
        let rollouts = self.updates.rollouts.values();
        let mut current = rollouts.filter(|rollout| {
            rollout.stored.state != RolloutState::Done || !rollout.hosts.is_empty()
        });
        current.any(|rollout| rollout.statement.blob.hash == *hash)
    }

    /// Whether this content is a program that this host was offered.
    pub(super) fn is_offered(&self, host: HostId, hash: &BlobHash) -> bool {
        let mut rollouts = self.updates.rollouts.values();
        rollouts.any(|rollout| {
            rollout.statement.blob.hash == *hash && rollout.hosts.contains_key(&host)
        })
    }

    /// A host has connected: it is told again of a program that it was offered, unless that was stopped. One that ran it says
    /// whether it still does, and takes it again if it does not.
    pub(super) fn greet_update(&mut self, id: HostId, version: u16) {
        let presence = HostPresence::Here {
            since: self.now,
            finished: self.finished_on(id),
        };
        let sighting = Sighting { version, presence };
        self.updates.sightings.insert(id, sighting);
        let platform = self.platform_of(id);
        let Some(rollout) = self.updates.rollouts.get_mut(&platform) else {
            return;
        };

        // It may be the new program that connects, which has not come up before it says so. One that waits for its tasks
        // closes at once.
        if matches!(rollout.hosts.get(&id), Some((HostProgress::Ready, _))) {
            self.updates.leaving.insert(id);
        }
        rollout.stirred = true;
        // A newer package wins over a downgrade.
        let goes_up = !rollout.is_stopped() && rollout.statement.downgrade.is_none();
        let owes = match rollout.hosts.get(&id) {
            Some((HostProgress::Offered | HostProgress::Ready, _)) => !rollout.is_stopped(),
            Some((HostProgress::Runs(_), _)) => goes_up,
            // It was only away.
            Some((HostProgress::Failed(_), _)) if rollout.missing.contains(&id) => goes_up,
            _ => false,
        };
        if owes && version >= UPDATE_VERSION {
            let update = rollout.stored.update.clone();
            self.mail(id).update = Some(update);
        }
    }

    fn platform_of(&self, id: HostId) -> String {
        let host = self.hosts.get(&id);
        host.map_or_else(String::new, super::hosts::Host::platform_name)
    }

    /// Takes a host's [`UpdateAnswer`] to a new program.
    pub(super) fn on_update(&mut self, id: HostId, answer: UpdateAnswer) -> StoreResult<()> {
        let UpdateAnswer { hash, standing } = answer.sound();
        let mut rollouts = self.updates.rollouts.iter();
        let of_it = rollouts.find(|(_, rollout)| {
            rollout.statement.blob.hash == hash && rollout.hosts.contains_key(&id)
        });
        let Some(platform) = of_it.map(|(platform, _)| platform.clone()) else {
            return Ok(());
        };

        self.updates.says(id, &standing);
        let progress = match standing {
            UpdateStanding::Ready => HostProgress::Ready,
            UpdateStanding::Runs => HostProgress::Runs(self.finished_on(id)),
            UpdateStanding::Refused(why) => HostProgress::Refused(why),
            UpdateStanding::Unwanted(why) => HostProgress::Unwanted(why),
            UpdateStanding::RolledBack(why) => HostProgress::Failed(why),
        };
        self.progressed(&platform, id, progress)
    }

    /// Notes what has become of a program on a host.
    fn progressed(
        &mut self,
        platform: &str,
        id: HostId,
        progress: HostProgress,
    ) -> StoreResult<()> {
        let Some(rollout) = self.updates.rollouts.get_mut(platform) else {
            return Ok(());
        };
        let is_back = rollout.missing.contains(&id) && matches!(progress, HostProgress::Runs(_));
        let before = rollout.hosts.get(&id);
        if before.is_some_and(|before| !is_back && !may_follow(before, &progress, self.now)) {
            return Ok(());
        }

        let why = match &progress {
            HostProgress::Refused(why)
            | HostProgress::Unwanted(why)
            | HostProgress::Failed(why) => Some(why.clone()),
            _ => None,
        };
        let noted = (progress, self.now);
        self.store.set_rollout_host(platform, id, &noted)?;
        rollout.hosts.insert(id, noted);
        rollout.missing.remove(&id);
        rollout.stirred = true;
        let version = rollout.statement.version;

        // One host must not fill the log.
        let audited = self.updates.audited.get(&id);
        let lately = audited.is_some_and(|at| self.now.since(*at) < AUDIT_EVERY);
        if let (Some(why), Some((name, _)), false) = (why, self.host_words(id), lately) {
            self.audit(&name, "update", &format!("version {version}"), Err(&why))?;
            self.updates.audited.insert(id, self.now);
        }
        Ok(())
    }

    /// Takes the next steps of the rollouts that go on, or are done and may have more hosts now.
    pub(super) fn roll_on(&mut self) -> StoreResult<()> {
        self.look_at_hosts()?;
        let now = self.now;
        let rollouts = self.updates.rollouts.iter();
        let platforms: Vec<String> = rollouts
            .filter(|(_, rollout)| rollout.is_due(now))
            .map(|(platform, _)| platform.clone())
            .collect();

        for platform in platforms {
            self.roll(&platform)?;
        }
        Ok(())
    }

    /// Notes which hosts have gone.
    fn look_at_hosts(&mut self) -> StoreResult<()> {
        let here = |sighting: &Sighting| matches!(sighting.presence, HostPresence::Here { .. });
        let sightings = self.updates.sightings.iter();
        let gone: Vec<HostId> = sightings
            .filter(|(id, sighting)| here(sighting) && !self.is_connected(**id))
            .map(|(id, _)| *id)
            .collect();

        for id in gone {
            if let Some(sighting) = self.updates.sightings.get_mut(&id) {
                sighting.presence = HostPresence::Away(self.now);
            }
            if !self.updates.leaving.contains(&id) {
                self.was_switched_off(id)?;
            }
        }
        Ok(())
    }

    /// Whether a host was switched off before this master started, as far as can be told: it has not been seen since, and did
    /// not end in order. One that leaves for a program does, while a master is there.
    fn was_off_before(&self, platform: &str, id: HostId) -> bool {
        let rollout = self.updates.rollouts.get(platform);
        let progress = rollout.and_then(|rollout| rollout.hosts.get(&id));
        let host = self.hosts.get(&id);
        matches!(progress, Some((HostProgress::Ready, _)))
            && !self.updates.sightings.contains_key(&id)
            && host.is_some_and(|host| host.attendance != Attendance::Left)
    }

    /// A host is gone that did not leave for a new program. If it waited for its tasks with one, it starts as one that was
    /// offered it: its owner went home.
    fn was_switched_off(&mut self, id: HostId) -> StoreResult<()> {
        let platform = self.platform_of(id);
        let Some(rollout) = self.updates.rollouts.get_mut(&platform) else {
            return Ok(());
        };
        if !matches!(rollout.hosts.get(&id), Some((HostProgress::Ready, _))) {
            return Ok(());
        }

        let noted = (HostProgress::Offered, self.now);
        self.store.set_rollout_host(&platform, id, &noted)?;
        rollout.hosts.insert(id, noted);
        rollout.again.remove(&id);
        rollout.stirred = true;
        Ok(())
    }

    /// Takes the next steps of a rollout.
    fn roll(&mut self, platform: &str) -> StoreResult<()> {
        let mut hosts = self.seen(platform);
        let began = self.updates.began;
        let now = self.now;
        let Some(rollout) = self.updates.rollouts.get_mut(platform) else {
            return Ok(());
        };
        rollout.looked = now;
        rollout.stirred = false;

        for _ in 0..STEPS {
            let Some(rollout) = self.updates.rollouts.get(platform) else {
                return Ok(());
            };
            let stored = &rollout.stored;
            let at = RolloutNow {
                stage: stored.stage as usize,
                pace: stored.pace,
                now,
                early: stored.at < began && now.since(began) < stored.pace.patience,
            };
            let step = at.next_step(&hosts);
            let (RolloutStep::Offer(id)
            | RolloutStep::OfferAgain(id)
            | RolloutStep::LeaveOut(id)
            | RolloutStep::Missing(id)) = step
            else {
                if self.roll_stage(platform, step)? {
                    continue;
                }
                return Ok(());
            };

            self.roll_host(platform, id, &step)?;
            match self.seen_host(platform, id) {
                Some(seen) => hosts.insert(id, seen),
                None => hosts.remove(&id),
            };
        }
        Ok(())
    }

    /// Takes a [`RolloutStep`] about one host.
    fn roll_host(&mut self, platform: &str, id: HostId, step: &RolloutStep) -> StoreResult<()> {
        if matches!(step, RolloutStep::Missing(_)) && self.was_off_before(platform, id) {
            return self.was_switched_off(id);
        }
        let Some(rollout) = self.updates.rollouts.get_mut(platform) else {
            return Ok(());
        };

        let patience = rollout.stored.pace.patience;
        let progress = match step {
            RolloutStep::LeaveOut(_) => HostProgress::Refused(silent_in_words(patience)),
            RolloutStep::Missing(_) => missing_as_failed(patience),
            _ => HostProgress::Offered,
        };
        if progress == HostProgress::Offered {
            if *step == RolloutStep::OfferAgain(id) {
                rollout.again.insert(id, self.now);
            }
            let update = rollout.stored.update.clone();
            self.mail(id).update = Some(update);
        }
        self.progressed(platform, id, progress)?;

        if let (RolloutStep::Missing(_), Some(rollout)) =
            (step, self.updates.rollouts.get_mut(platform))
        {
            rollout.missing.insert(id);
        }
        Ok(())
    }

    /// Takes a [`RolloutStep`] about the whole rollout; returns whether another may follow.
    fn roll_stage(&mut self, platform: &str, step: RolloutStep) -> StoreResult<bool> {
        let Some(rollout) = self.updates.rollouts.get_mut(platform) else {
            return Ok(false);
        };

        match step {
            RolloutStep::Advance => {
                rollout.stored.stage += 1;
                self.store.set_rollout(platform, &rollout.stored)?;
                let percent = STAGES[rollout.stored.stage as usize % STAGES.len()];
                let what = format!("goes on to {percent} in a hundred hosts");
                self.audit("the master", "update", platform, Ok(&what))?;
                return Ok(true);
            }
            RolloutStep::Stop(why) => {
                let what = format!("stopped: {why}");
                self.end_rollout(platform, RolloutState::Stopped(why))?;
                self.audit("the master", "update", platform, Err(&what))?;
            }
            RolloutStep::Finish if rollout.stored.state == RolloutState::Running => {
                self.end_rollout(platform, RolloutState::Done)?;
                self.audit("the master", "update", platform, Ok("done"))?;
            }
            RolloutStep::Wait(why) => rollout.waits = why,
            _ => {}
        }
        Ok(false)
    }

    fn end_rollout(&mut self, platform: &str, state: RolloutState) -> StoreResult<()> {
        if let Some(rollout) = self.updates.rollouts.get_mut(platform) {
            rollout.stored.state = state;
            rollout.waits.clear();
            self.store.set_rollout(platform, &rollout.stored)?;
        }
        Ok(())
    }

    /// Returns the hosts of a rollout, each as a [`SeenHost`].
    fn seen(&self, platform: &str) -> BTreeMap<HostId, SeenHost> {
        let seen = self
            .hosts
            .keys()
            .filter_map(|id| Some((*id, self.seen_host(platform, *id)?)));
        seen.collect()
    }

    /// Returns a host as a rollout sees it, if it is one of its hosts: connected, lately heard of, or with the program.
    fn seen_host(&self, platform: &str, id: HostId) -> Option<SeenHost> {
        let rollout = self.updates.rollouts.get(platform)?;
        let host = self.hosts.get(&id)?;
        if self.is_revoked(id) || host.platform_name() != platform {
            return None;
        }

        let progress = rollout.hosts.get(&id).cloned();
        let stays = matches!(&progress, Some((of, _)) if *of != HostProgress::Offered);
        let (presence, counts) = self.presence_of(id);
        if !counts && !stays {
            return None;
        }

        Some(SeenHost {
            presence,
            finished: self.finished_on(id),
            progress,
            again: rollout.again.get(&id).copied(),
            place: place(&rollout.statement.blob.hash, id),
        })
    }

    /// Returns whether a host is connected with a version that takes programs, and whether the parts of the stages are of it, too.
    fn presence_of(&self, id: HostId) -> (HostPresence, bool) {
        let book = &self.updates;
        let Some(Sighting { version, presence }) = book.sightings.get(&id) else {
            // One of which no time is known has connected: the master before was ended in the midst.
            let heard = book.heard.get(&id).unwrap_or(&book.began);
            let lately = self.now.since(*heard) < HEARD_WITHIN;
            return (HostPresence::Away(book.began), lately);
        };

        let able = *version >= UPDATE_VERSION;
        match *presence {
            HostPresence::Away(since) => (*presence, able && self.now.since(since) < HEARD_WITHIN),
            HostPresence::Here { since, .. } if !able => (HostPresence::Away(since), false),
            HostPresence::Here { .. } if !self.is_connected(id) => {
                (HostPresence::Away(self.now), true)
            }
            here => (here, true),
        }
    }
}

#[cfg(test)]
mod tests;
