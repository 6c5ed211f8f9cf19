//! The settings of a master and their defaults. `configs/master.toml` explains each key.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use common::settings::ConfigDuration;
use scheduler::policy::policing::Policing;
use serde::{Deserialize, Serialize};

use crate::MasterError;
use crate::content_place::{BucketPlace, ContentSetting, S3Settings};
use crate::limits::Limits;
use crate::store::Database;

/// Settings of a master. Durations read as `90s`, `1h30m`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The address at which workers and clients connect (UDP).
    pub listen: SocketAddr,
    /// The address at which `/healthz` and `/metrics` are served (TCP); `none` for nowhere.
    #[serde(with = "optional_address")]
    pub http: Option<SocketAddr>,
    /// Further names of this master that a request's `Host` may carry for `/healthz` and
    /// `/metrics`, besides addresses and localhost.
    pub http_hosts: Vec<String>,
    /// The certificate chain for HTTP, as PEM, if TLS is used there.
    pub http_certificate: Option<PathBuf>,
    /// The key of that certificate, as PEM.
    pub http_key: Option<PathBuf>,
    /// Whether a proxy with TLS stands before the HTTP address.
    pub http_behind_proxy: bool,
    /// The address that people use for this master, `HOST:PORT`; by default the address that it
    /// listens on (loopback if that is every address).
    pub advertise: Option<String>,
    /// The address of the PostgreSQL database that has the store; `None`: a file of SQLite's in the
    /// master's directory.
    pub store: Option<String>,
    /// The place of the content of files: a bucket, `s3://BUCKET[/PREFIX]`, or a directory that masters
    /// on several machines share, only with `store`; `None`: `content` in the master's own.
    pub content: Option<String>,
    /// The settings of the storage that has the bucket.
    pub s3: S3Settings,
    /// The time without a commit of the active master after which one that stands by takes over.
    pub takeover_after: ConfigDuration,
    /// The interval of workers' heartbeats.
    pub heartbeat: ConfigDuration,
    /// The time without a message after which a host gets no new work.
    pub suspect_after: ConfigDuration,
    /// The time without a message after which a host's attempts are lost.
    pub lease: ConfigDuration,
    /// The time after which a host that begins none of its tasks, while others have nothing to do,
    /// loses them and gets no more: within an hour a tenth of the connected hosts at most, and one in any case.
    /// Where more than that, and than two, begin nothing at a time, none is.
    pub begin_within: ConfigDuration,
    /// The work that a host may hold beyond its slots, as time; it matters only for tasks shorter
    /// than this.
    pub prefetch: ConfigDuration,
    /// The most attempts that a host holds frozen for each of its slots, so that tasks somebody
    /// waits for get the slots.
    pub frozen_per_slot: u32,
    /// The rule by which attempts that exceed their estimates may be killed for a bag with a
    /// deadline; if unset, each job's policy decides.
    pub policing: Option<Policing>,
    /// Whether hosts on which tasks fail that succeed elsewhere get fewer tasks, or none for a
    /// while.
    pub benching: bool,
    /// The age from which content that no job needs is removed.
    pub content_grace: ConfigDuration,
    /// The days after which settled jobs are forgotten, with their results; 0: only by hand.
    pub job_days: u32,
    /// The days for which the availability of hosts is kept; 0: it is not kept at all.
    pub availability_days: u32,
    /// The days for which events are kept for followers, at least 1.
    pub event_days: u32,
    /// The size of the largest file that is taken, in bytes.
    pub max_blob_bytes: u64,
    /// Whether hosts that agree pass large inputs on to others of their network.
    pub peer_transfer: bool,
    /// The most hosts that one host passes inputs on to at a time, at least 1.
    pub peer_fan_out: u32,
    /// The life of a worker's or user's certificate; it is renewed automatically once a third of it
    /// is left.
    pub certificate_life: ConfigDuration,
    /// The time after the master is back for which a certificate that expired meanwhile can be
    /// renewed.
    pub renewal_grace: ConfigDuration,
    /// The rules that divide slots among users.
    pub sharing: SharingConfig,
    /// The limits of one peer, and of all together.
    pub limits: Limits,
    /// The bytes of the master's disk that new work does not get; a file holds a quarter of them.
    pub reserve_bytes: u64,
    /// The file that records the scheduler's events and effects, if any (`--record`).
    pub record: Option<PathBuf>,
    /// The findings that this one start accepts, as an admin asked on the command line.
    #[serde(skip)]
    pub accept: Accept,
}

/// The rules that divide slots among users: the user who used the least lately goes first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SharingConfig {
    /// The time after which past use counts half.
    pub half_life: ConfigDuration,
    /// The most running tasks of a user who is not named in `most_running`; `None`: any number.
    pub most_running_each: Option<u32>,
    /// The most running tasks of a user, by name.
    pub most_running: BTreeMap<String, u32>,
    /// The weight of a user's share against those of others, by name; 1 for a user who is not
    /// named.
    pub weights: BTreeMap<String, f64>,
}

impl Default for SharingConfig {
    fn default() -> Self {
        let scheduler::Sharing {
            half_life,
            weights,
            most_running,
            most_running_each,
        } = scheduler::Sharing::default();
        Self {
            half_life: ConfigDuration(half_life.into()),
            most_running_each,
            most_running,
            weights,
        }
    }
}

impl SharingConfig {
    /// Converts to the scheduler's form.
    pub(crate) fn rules(&self) -> scheduler::Sharing {
        scheduler::Sharing {
            half_life: self.half_life.span(),
            weights: self.weights.clone(),
            most_running: self.most_running.clone(),
            most_running_each: self.most_running_each,
        }
    }

    fn check(&self) -> Result<(), MasterError> {
        if self.half_life.0.is_zero() {
            return Err(MasterError::Config(
                "sharing.half_life must be longer than 0s".to_owned(),
            ));
        }

        let odd = self
            .weights
            .iter()
            .find(|(_, weight)| !(weight.is_finite() && **weight > 0.0));
        match odd {
            Some((user, weight)) => {
                let why = format!(
                    "sharing.weights: the weight of {user} is {weight}, and must be above 0"
                );
                Err(MasterError::Config(why))
            }
            None => Ok(()),
        }
    }
}

/// The findings that would otherwise keep a master from starting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Accept {
    /// Whether to accept a store that is not as the master left it (`--accept-store`).
    pub store: bool,
    /// Whether to accept a clock that is before the time at which the master was last up, or long
    /// after it (`--accept-clock`).
    pub clock: bool,
}

/// The shortest life of certificates: it leaves time for several renewals, even if the first tries
/// fail.
const LEAST_LIFE: ConfigDuration = ConfigDuration::from_secs(600);

/// The shortest age of content that senders can rely on: they count on what they have sent every ten minutes, and one such
/// word may be lost.
const SAFE_GRACE: ConfigDuration = ConfigDuration::from_secs(30 * 60);

/// The least time without a commit before a takeover.
const LEAST_TAKEOVER: ConfigDuration = ConfigDuration::from_secs(3);

/// The least reserve but none, in bytes: a quarter of it is held, and the store takes some of that.
const LEAST_RESERVE: u64 = 8 * crate::room::STORE_NEEDS;

mod optional_address {
    use std::net::SocketAddr;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        address: &Option<SocketAddr>,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        match address {
            Some(address) => s.collect_str(address),
            None => s.serialize_str("none"),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Option<SocketAddr>, D::Error> {
        match String::deserialize(d)?.as_str() {
            "none" => Ok(None),
            text => text.parse().map(Some).map_err(D::Error::custom),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        let seconds = ConfigDuration::from_secs;
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], 7411)),
            http: Some(SocketAddr::from(([127, 0, 0, 1], 7412))),
            http_hosts: Vec::new(),
            http_certificate: None,
            http_key: None,
            http_behind_proxy: false,
            advertise: None,
            heartbeat: seconds(60),
            suspect_after: seconds(150),
            lease: seconds(15 * 60),
            begin_within: seconds(15 * 60),
            prefetch: ConfigDuration::from_millis(100),
            frozen_per_slot: 1,
            policing: None,
            benching: true,
            content_grace: seconds(60 * 60),
            job_days: 0,
            availability_days: 90,
            event_days: 7,
            max_blob_bytes: 64 << 30,
            peer_transfer: true,
            peer_fan_out: 2,
            certificate_life: seconds(30 * 86_400),
            renewal_grace: seconds(7 * 86_400),
            sharing: SharingConfig::default(),
            limits: Limits::default(),
            reserve_bytes: 64 << 20,
            record: None,
            store: None,
            content: None,
            s3: S3Settings::default(),
            takeover_after: seconds(5),
            accept: Accept::default(),
        }
    }
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// If it is not TOML, has a key that does not exist, or a value that makes no sense.
    pub fn parse(text: &str) -> Result<Self, MasterError> {
        let config: Self = toml::from_str(text).map_err(|e| MasterError::Config(e.to_string()))?;
        let beat = config.heartbeat.0;
        let suspect = config.suspect_after.0;

        let lease = config.lease.0;
        if beat.is_zero() || suspect <= beat || lease <= suspect {
            let why = "the times must be in this order: 0 < heartbeat < suspect_after < lease";
            return Err(MasterError::Config(why.to_owned()));
        }

        config.sharing.check()?;
        if (1..LEAST_RESERVE).contains(&config.reserve_bytes) {
            let why = format!(
                "reserve_bytes is {}, and the least is {LEAST_RESERVE}, or 0 for none: of a smaller one nothing would be left for \
                 results, since the store itself needs some",
                config.reserve_bytes
            );
            return Err(MasterError::Config(why));
        }

        if config.takeover_after < LEAST_TAKEOVER {
            let why = format!(
                "takeover_after is {}, and the least is {LEAST_TAKEOVER}: the active master says only every second that it is there",
                config.takeover_after
            );
            return Err(MasterError::Config(why));
        }

        if config.event_days == 0 {
            let why = "event_days is 0, and the least is 1: a follower that was away for a moment would miss events";
            return Err(MasterError::Config(why.to_owned()));
        }

        if config.peer_fan_out == 0 {
            let why = "peer_fan_out is 0, and the least is 1: peer_transfer = false keeps hosts from passing inputs on";
            return Err(MasterError::Config(why.to_owned()));
        }

        let said = config.certificate_life;
        if said < LEAST_LIFE {
            let why = format!(
                "certificate_life is {said}, and the least is {LEAST_LIFE}: workers could not renew in time"
            );
            return Err(MasterError::Config(why));
        }

        Ok(config)
    }

    /// The place of the content, for a master in `home`.
    ///
    /// # Errors
    /// If it is no bucket's address, or a directory for a store that no other master can have.
    pub(crate) fn content_in(&self, home: &Path) -> Result<ContentSetting, MasterError> {
        let Some(content) = &self.content else {
            let dir = home.join(crate::operations::CONTENT);
            return Ok(ContentSetting::Directory(dir));
        };
        match BucketPlace::parse(content, &self.s3) {
            Some(place) => Ok(ContentSetting::Bucket(place.map_err(MasterError::Config)?)),
            None if self.store.is_none() => {
                let why = format!(
                    "content names the directory {content}, which is for masters that share a database, and no such is named: leave it \
                     out, or give the store, too (--store postgres://…)"
                );
                Err(MasterError::Config(why))
            }
            None => Ok(ContentSetting::Directory(PathBuf::from(content))),
        }
    }

    /// Refuses an address for HTTP at which tokens and results would cross a network as they are.
    ///
    /// # Errors
    /// If there is neither TLS nor a proxy that has it.
    pub(crate) fn check_http(&self) -> Result<(), MasterError> {
        let has_tls = match (&self.http_certificate, &self.http_key) {
            (Some(_), Some(_)) => true,
            (None, None) => false,
            _ => {
                let why = "http_certificate and http_key belong together: give both, or none";
                return Err(MasterError::Config(why.to_owned()));
            }
        };
        match self.http {
            Some(address) if !address.ip().is_loopback() && !has_tls && !self.http_behind_proxy => {
                let why = format!(
                    "http is {address}, where others on the network could read tokens and results: give http_certificate and \
                     http_key, or say http_behind_proxy = true if a proxy with TLS stands before it, or listen on 127.0.0.1"
                );
                Err(MasterError::Config(why))
            }
            _ => Ok(()),
        }
    }

    /// Reads a configuration file.
    ///
    /// # Errors
    /// As [`Config::parse`], and if the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, MasterError> {
        let text = std::fs::read_to_string(path).map_err(|source| MasterError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let config = Self::parse(&text).map_err(|e| match e {
            MasterError::Config(why) => MasterError::Config(format!("{}: {why}", path.display())),
            other => other,
        })?;

        if config.has_password()
            && let Some(warning) = link::files::exposed(path, "the password of the database")
        {
            tracing::warn!("{warning}");
        }
        if let Some(warning) = config.too_short_for_senders() {
            tracing::warn!("{}: {warning}", path.display());
        }
        Ok(config)
    }

    /// Says what comes of content that is removed too soon, if it is.
    fn too_short_for_senders(&self) -> Option<String> {
        let said = self.content_grace;
        (said < SAFE_GRACE).then(|| {
            format!(
                "content_grace is {said}, and the least that senders can rely on is {SAFE_GRACE}: what takes longer to send in \
                 whole, such as a result of many files, loses its first files and is sent anew, again and again"
            )
        })
    }

    /// Whether the address of the store has a password in it.
    fn has_password(&self) -> bool {
        let place = self.store.as_deref().map(Database::parse);
        place.is_some_and(|place| place.is_ok_and(|place| place.has_password()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_that_senders_cannot_rely_on_is_told_with_what_comes_of_it() {
        let told = |text: &str| Config::parse(text).unwrap().too_short_for_senders();
        for safe in ["", "content_grace = \"30m\"", "content_grace = \"2h\""] {
            assert_eq!(told(safe), None);
        }
        let told = told("content_grace = \"5m\"").unwrap();
        assert!(told.contains("is 5m") && told.contains("is 30m"), "{told}");
    }
}
