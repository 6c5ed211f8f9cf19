//! The rollouts of new programs for workers, and what has become of each on hosts. How they go on is no affair of
//! the store's.

use std::collections::BTreeMap;

use common::update::{RolloutPace, SignedUpdate, UpdateKey};
use common::{HostId, Time};
use serde::{Deserialize, Serialize};

use super::value::values;
use super::writer::Writer;
use super::{StoreResult, time, to_postcard};

/// The key in `meta` of the key that joining hosts learn.
const UPDATE_KEY: &str = "update key";

/// How a [`StoredRollout`] stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RolloutState {
    /// It goes on.
    Running,
    /// No more hosts get it, for this reason.
    Stopped(String),
    /// Every host that was there has it, or has refused it. Those that come later are offered it.
    Done,
}

/// How a host that was offered the program stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HostProgress {
    /// It was told.
    Offered,
    /// It has the program, and leaves to start it.
    Ready,
    /// It runs it, since it had finished this many attempts.
    Runs(u64),
    /// It does not take it, for this reason, and has looked at it or not answered.
    Refused(String),
    /// It did not come up there, for this reason.
    Failed(String),
    /// It does not take it, for this reason, and has not looked at it.
    Unwanted(String),
}

/// A rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredRollout {
    /// The program, as the admin signed it.
    pub(crate) update: SignedUpdate,
    /// How it goes on.
    pub(crate) pace: RolloutPace,
    /// The admin.
    pub(crate) by: String,
    /// The time at which it began.
    pub(crate) at: Time,
    /// The stage, from 0.
    pub(crate) stage: u32,
    /// How it stands.
    pub(crate) state: RolloutState,
}

/// What has become of a rollout on a host, and since when.
pub(crate) type StoredProgress = (HostProgress, Time);

impl Writer {
    /// Stores a rollout in place of the one for the same platform.
    pub(crate) fn set_rollout(
        &mut self,
        platform: &str,
        rollout: &StoredRollout,
    ) -> StoreResult<()> {
        self.change(
            "INSERT INTO rollout (platform, body) VALUES ($1, $2)
             ON CONFLICT (platform) DO UPDATE SET body = excluded.body",
            values![platform, to_postcard(rollout)?],
        )
    }

    /// Forgets what has become of a rollout on hosts.
    pub(crate) fn clear_rollout_hosts(&mut self, platform: &str) -> StoreResult<()> {
        self.change(
            "DELETE FROM rollout_host WHERE platform = $1",
            values![platform],
        )
    }

    /// Stores what has become of a rollout on a host.
    pub(crate) fn set_rollout_host(
        &mut self,
        platform: &str,
        host: HostId,
        progress: &StoredProgress,
    ) -> StoreResult<()> {
        self.change(
            "INSERT INTO rollout_host (platform, host, body) VALUES ($1, $2, $3)
             ON CONFLICT (platform, host) DO UPDATE SET body = excluded.body",
            values![platform, host.0, to_postcard(progress)?],
        )
    }

    /// Returns each [`StoredRollout`] with its platform.
    pub(crate) fn rollouts(&self) -> StoreResult<Vec<(String, StoredRollout)>> {
        let sql = "SELECT platform, body FROM rollout ORDER BY platform";
        self.db()
            .all(sql, &[], |row| Ok((row.get(0)?, row.decoded(1)?)))
    }

    /// Returns each [`StoredProgress`] with its platform and host.
    pub(crate) fn rollout_hosts(&self) -> StoreResult<Vec<(String, HostId, StoredProgress)>> {
        let sql = "SELECT platform, host, body FROM rollout_host ORDER BY platform, host";
        self.db().all(sql, &[], |row| {
            Ok((row.get(0)?, HostId(row.get(1)?), row.decoded(2)?))
        })
    }

    /// Returns the time at which each host was last heard of, as far as it was stored.
    pub(crate) fn hosts_heard(&self) -> StoreResult<BTreeMap<HostId, Time>> {
        let sql = "SELECT id, heard FROM host WHERE heard IS NOT NULL ORDER BY id";
        self.db()
            .all(sql, &[], |row| Ok((HostId(row.get(0)?), time(row.get(1)?))))
    }

    /// Stores the [`UpdateKey`] that joining hosts learn.
    pub(crate) fn set_update_key(&mut self, key: &UpdateKey) -> StoreResult<()> {
        self.set_meta(UPDATE_KEY, &key.0)
    }

    /// Returns the [`UpdateKey`] that joining hosts learn.
    pub(crate) fn update_key(&self) -> StoreResult<Option<UpdateKey>> {
        Ok(self.db().meta_of(UPDATE_KEY)?.map(UpdateKey))
    }
}
