//! Rolls new programs out to workers: keeps what an admin signed, offers it to hosts as [`super::rollout`] decides, and
//! hears what they say. The master cannot sign, and does not know whether a signature is good where it knows no key: the workers do.

use std::collections::BTreeMap;

use common::content::BlobHash;
use common::update::{
    HostUpdateView, MOST_HOSTS, RolloutPace, RolloutView, SignedUpdate, UpdateAnswer, UpdateKey,
    UpdateOrder, UpdateStanding, UpdateStatement, UpdatesView,
};
use common::wire::{Refusal, RefusalCode, UPDATE_VERSION};
use common::{HostId, Time};
use link::signing::verified;

use super::rollout::{RolloutStep, STAGES, SeenHost, missing_in_words, next_step};
use super::{Core, SessionId};
use crate::store::{HostProgress, RolloutState, StoreError, StoredProgress, StoredRollout};

/// The most steps of a rollout at a time, so that others are answered in between.
const STEPS: usize = 200;

/// The rollouts, and what hosts said to them.
#[derive(Debug, Default)]
pub(super) struct UpdateBook {
    key: Option<UpdateKey>,
    rollouts: BTreeMap<String, Rollout>,
    /// The message version of each connected host.
    versions: BTreeMap<HostId, u16>,
}

#[derive(Debug)]
struct Rollout {
    stored: StoredRollout,
    statement: UpdateStatement,
    hosts: BTreeMap<HostId, StoredProgress>,
    /// What it waits for.
    waits: String,
}

impl Core {
    /// Reads the rollouts from the store.
    pub(super) fn restore_updates(&mut self) -> Result<(), StoreError> {
        self.updates.key = self.store.update_key()?;
        for (platform, stored) in self.store.rollouts()? {
            match UpdateStatement::read(&stored.update.statement) {
                Ok(statement) => {
                    let rollout = Rollout {
                        stored,
                        statement,
                        hosts: BTreeMap::new(),
                        waits: String::new(),
                    };
                    self.updates.rollouts.insert(platform, rollout);
                }
                Err(bad) => tracing::warn!(%bad, "a rollout in the store is left out"),
            }
        }

        for (platform, host, progress) in self.store.rollout_hosts()? {
            if let Some(rollout) = self.updates.rollouts.get_mut(&platform) {
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

    /// A host has connected: it is told again of a program that it was offered and has not answered for good.
    pub(super) fn greet_update(&mut self, id: HostId, version: u16) {
        self.updates.versions.insert(id, version);
        let platform = self.platform_of(id);
        let Some(rollout) = self.updates.rollouts.get(&platform) else {
            return;
        };

        let owes = match rollout.hosts.get(&id) {
            // One that has it says so; one that was stopped before it had it is not asked again.
            Some((HostProgress::Ready, _)) => true,
            Some((HostProgress::Offered, _)) => rollout.stored.state == RolloutState::Running,
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
    pub(super) fn on_update(
        &mut self,
        id: HostId,
        session: SessionId,
        answer: UpdateAnswer,
    ) -> Result<(), StoreError> {
        if !self.is_current(id, session) {
            return Ok(());
        }
        let UpdateAnswer { hash, standing } = answer.sound();
        let mut rollouts = self.updates.rollouts.iter();
        let of_it = rollouts.find(|(_, rollout)| {
            rollout.statement.blob.hash == hash && rollout.hosts.contains_key(&id)
        });
        let Some(platform) = of_it.map(|(platform, _)| platform.clone()) else {
            return Ok(());
        };

        let progress = match standing {
            UpdateStanding::Ready => HostProgress::Ready,
            UpdateStanding::Runs => HostProgress::Runs(self.finished_on(id)),
            UpdateStanding::Refused(why) => HostProgress::Refused(why),
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
    ) -> Result<(), StoreError> {
        let Some(rollout) = self.updates.rollouts.get_mut(platform) else {
            return Ok(());
        };
        let same = |before: &StoredProgress| {
            std::mem::discriminant(&before.0) == std::mem::discriminant(&progress)
        };
        if rollout.hosts.get(&id).is_some_and(same) {
            return Ok(());
        }

        let why = match &progress {
            HostProgress::Refused(why) | HostProgress::Failed(why) => Some(why.clone()),
            _ => None,
        };
        let noted = (progress, self.now);
        self.store.set_rollout_host(platform, id, &noted)?;
        rollout.hosts.insert(id, noted);
        let version = rollout.statement.version;
        if let (Some(why), Some((name, _))) = (why, self.host_words(id)) {
            self.audit(&name, "update", &format!("version {version}"), Err(&why))?;
        }
        Ok(())
    }

    /// Takes the next steps of the rollouts that go on.
    pub(super) fn roll_on(&mut self) -> Result<(), StoreError> {
        let running = |rollout: &Rollout| rollout.stored.state == RolloutState::Running;
        let rollouts = self.updates.rollouts.iter();
        let platforms: Vec<String> = rollouts
            .filter(|(_, rollout)| running(rollout))
            .map(|(platform, _)| platform.clone())
            .collect();

        for platform in platforms {
            for _ in 0..STEPS {
                if !self.roll_one(&platform)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Takes one [`RolloutStep`]; returns whether another may follow.
    fn roll_one(&mut self, platform: &str) -> Result<bool, StoreError> {
        let hosts = self.seen(platform);
        let Some(rollout) = self.updates.rollouts.get_mut(platform) else {
            return Ok(false);
        };

        let stage = rollout.stored.stage as usize;
        match next_step(stage, rollout.stored.pace, self.now, &hosts) {
            RolloutStep::Offer(id) => {
                let update = rollout.stored.update.clone();
                self.mail(id).update = Some(update);
                self.progressed(platform, id, HostProgress::Offered)?;
                Ok(true)
            }
            RolloutStep::Missing(id) => {
                let why = missing_in_words(rollout.stored.pace.patience);
                self.progressed(platform, id, HostProgress::Failed(why))?;
                Ok(true)
            }
            RolloutStep::Advance => {
                rollout.stored.stage += 1;
                self.store.set_rollout(platform, &rollout.stored)?;
                let percent = STAGES[rollout.stored.stage as usize % STAGES.len()];
                self.audit(
                    "the master",
                    "update",
                    platform,
                    Ok(&format!("goes on to {percent} in a hundred hosts")),
                )?;
                Ok(true)
            }
            RolloutStep::Stop(why) => {
                self.end_rollout(platform, RolloutState::Stopped(why.clone()))?;
                self.audit(
                    "the master",
                    "update",
                    platform,
                    Err(&format!("stopped: {why}")),
                )?;
                Ok(false)
            }
            RolloutStep::Finish => {
                self.end_rollout(platform, RolloutState::Done)?;
                self.audit("the master", "update", platform, Ok("done"))?;
                Ok(false)
            }
            RolloutStep::Wait(why) => {
                rollout.waits = why;
                Ok(false)
            }
        }
    }

    fn end_rollout(&mut self, platform: &str, state: RolloutState) -> Result<(), StoreError> {
        if let Some(rollout) = self.updates.rollouts.get_mut(platform) {
            rollout.stored.state = state;
            rollout.waits.clear();
            self.store.set_rollout(platform, &rollout.stored)?;
        }
        Ok(())
    }

    /// Returns the hosts of a rollout, each as a [`SeenHost`].
    fn seen(&self, platform: &str) -> BTreeMap<HostId, SeenHost> {
        let Some(rollout) = self.updates.rollouts.get(platform) else {
            return BTreeMap::new();
        };
        let hosts = self
            .hosts
            .iter()
            .filter(|(id, host)| !self.is_revoked(**id) && host.platform_name() == platform);

        let seen = hosts.filter_map(|(id, _)| {
            let progress = rollout.hosts.get(id).cloned();
            let able = self.updates.versions.get(id) >= Some(&UPDATE_VERSION);
            let connected = self.is_connected(*id) && able;
            (connected || progress.is_some()).then(|| {
                let finished = self.finished_on(*id);
                let seen = SeenHost {
                    connected,
                    finished,
                    progress,
                };
                (*id, seen)
            })
        });
        seen.collect()
    }

    /// Does what an admin asks about updates, and shows how they stand.
    pub(super) fn order_update(
        &mut self,
        by: &str,
        order: UpdateOrder,
    ) -> Result<Result<UpdatesView, Refusal>, StoreError> {
        match order {
            UpdateOrder::Show => {}
            UpdateOrder::Trust(key) => {
                self.store.set_update_key(&key)?;
                self.updates.key = Some(key);
                self.audit(
                    by,
                    "update key",
                    &key.to_string(),
                    Ok("joining hosts learn it"),
                )?;
            }
            UpdateOrder::Start {
                update,
                pace,
                dry_run,
            } => {
                let statement = match self.check_update(&update) {
                    Ok(statement) => statement,
                    Err(refusal) => {
                        self.audit(by, "update", "a new program", Err(&refusal.message))?;
                        return Ok(Err(refusal));
                    }
                };
                if !dry_run {
                    self.begin_rollout(by, update, statement, pace)?;
                }
            }
            UpdateOrder::Stop(platform) => {
                let rollout = self.updates.rollouts.get(platform.as_str());
                let runs =
                    rollout.is_some_and(|rollout| rollout.stored.state == RolloutState::Running);
                if !runs {
                    let what = format!("no rollout for {} goes on", platform.as_str());
                    return Ok(Err(Refusal::new(
                        RefusalCode::NotFound,
                        what,
                        "see: deskgrid host update status",
                    )));
                }
                self.end_rollout(
                    platform.as_str(),
                    RolloutState::Stopped(format!("{by} stopped it")),
                )?;
                self.audit(by, "update", platform.as_str(), Ok("stopped"))?;
            }
        }

        Ok(Ok(self.updates_view()))
    }

    /// Checks a [`SignedUpdate`] before its rollout begins.
    fn check_update(&self, update: &SignedUpdate) -> Result<UpdateStatement, Refusal> {
        let invalid = |what: String, hint: &str| Refusal::new(RefusalCode::Invalid, what, hint);
        let Some(key) = &self.updates.key else {
            let what = "this master knows no key for updates, so hosts could not have learned one";
            let refusal =
                Refusal::new(RefusalCode::Conflict, what, "deskgrid host update key FILE");
            return Err(refusal);
        };
        let statement = verified(update, key).map_err(|why| {
            invalid(why, "sign with the key that this master names to joining hosts: deskgrid host update status")
        })?;

        if !self.blobs.has(&statement.blob) {
            let what = "the program itself is not here".to_owned();
            return Err(invalid(what, "send it again"));
        }
        Ok(statement)
    }

    fn begin_rollout(
        &mut self,
        by: &str,
        update: SignedUpdate,
        statement: UpdateStatement,
        pace: RolloutPace,
    ) -> Result<(), StoreError> {
        let platform = statement.platform.as_str().to_owned();
        let stored = StoredRollout {
            update,
            pace,
            by: by.to_owned(),
            at: self.now,
            stage: 0,
            state: RolloutState::Running,
        };
        self.store.set_rollout(&platform, &stored)?;
        self.store.clear_rollout_hosts(&platform)?;
        let what = format!(
            "version {} begins, {}",
            statement.version, statement.blob.hash
        );
        self.audit(by, "update", &platform, Ok(&what))?;

        let rollout = Rollout {
            stored,
            statement,
            hosts: BTreeMap::new(),
            waits: String::new(),
        };
        self.updates.rollouts.insert(platform, rollout);
        self.roll_on()
    }

    fn updates_view(&self) -> UpdatesView {
        let rollouts = self.updates.rollouts.iter();
        UpdatesView {
            key: self.updates.key,
            rollouts: rollouts
                .map(|(platform, rollout)| self.rollout_view(platform, rollout))
                .collect(),
        }
    }

    fn rollout_view(&self, platform: &str, rollout: &Rollout) -> RolloutView {
        let (state, why) = match &rollout.stored.state {
            RolloutState::Running => ("running", rollout.waits.clone()),
            RolloutState::Stopped(why) => ("stopped", why.clone()),
            RolloutState::Done => ("done", String::new()),
        };
        let untold = self
            .seen(platform)
            .values()
            .filter(|host| host.progress.is_none())
            .count();
        let mut hosts: Vec<HostUpdateView> = rollout
            .hosts
            .iter()
            .filter_map(|(id, progress)| {
                let (name, _) = self.host_words(*id)?;
                Some(host_view(name, progress))
            })
            .collect();
        hosts.sort_by_key(|host| (host.why.is_empty(), host.state == "runs"));
        hosts.truncate(MOST_HOSTS);

        RolloutView {
            platform: rollout.statement.platform.clone(),
            version: rollout.statement.version,
            blake3: rollout.statement.blob.hash.to_string(),
            by: rollout.stored.by.clone(),
            at: rollout.stored.at,
            percent: STAGES[(rollout.stored.stage as usize).min(STAGES.len() - 1)],
            state: state.to_owned(),
            why,
            hosts,
            untold: untold as u64,
        }
    }
}

fn host_view(host: String, (progress, since): &(HostProgress, Time)) -> HostUpdateView {
    let (state, why) = match progress {
        HostProgress::Offered => ("offered", ""),
        HostProgress::Ready => ("ready", ""),
        HostProgress::Runs(_) => ("runs", ""),
        HostProgress::Refused(why) => ("refused", &**why),
        HostProgress::Failed(why) => ("failed", &**why),
    };

    HostUpdateView {
        host,
        state: state.to_owned(),
        since: *since,
        why: why.to_owned(),
    }
}
