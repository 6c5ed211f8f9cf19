//! What admins order about updates, and how they are shown.

use common::Time;
use common::update::{
    HostUpdateView, MOST_HOSTS, RolloutPace, RolloutView, SignedUpdate, UpdateKey, UpdateOrder,
    UpdateStatement, UpdatesView,
};
use common::wire::{Refusal, RefusalCode};
use link::signing::verified;

use super::super::Core;
use super::super::rollout::{HostPresence, STAGES};
use super::Rollout;
use crate::store::{HostProgress, RolloutState, StoreResult, StoredRollout};

impl Core {
    /// Returns the key that hosts learn as they join.
    pub(in crate::core) fn update_key(&self) -> Option<UpdateKey> {
        self.updates.key
    }

    /// Does what an admin asks about updates, and shows how they stand.
    pub(in crate::core) fn order_update(
        &mut self,
        by: &str,
        order: UpdateOrder,
    ) -> StoreResult<Result<UpdatesView, Refusal>> {
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
                // One that is done still goes to hosts that come later.
                let rollout = self.updates.rollouts.get(platform.as_str());
                if rollout.is_none_or(Rollout::is_stopped) {
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
    ) -> StoreResult<()> {
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

        let rollout = Rollout::new(stored, statement);
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
            .filter(|host| {
                host.progress.is_none() && matches!(host.presence, HostPresence::Here { .. })
            })
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
        HostProgress::Refused(why) | HostProgress::Unwanted(why) => ("refused", &**why),
        HostProgress::Failed(why) => ("failed", &**why),
    };

    HostUpdateView {
        host,
        state: state.to_owned(),
        since: *since,
        why: why.to_owned(),
    }
}
