//! What can be set of a master, and the defaults. `configs/master.toml` says the same with words
//! beside each key.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::Span;
use scheduler::policy::policing::Policing;
use serde::{Deserialize, Serialize};

use crate::MasterError;
use crate::limits::Limits;

/// Settings of a master. Durations read as `90s`, `1h30m`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where workers and clients connect (UDP).
    pub listen: SocketAddr,
    /// Where `/healthz` and `/metrics` are served (TCP); `none` for nowhere.
    #[serde(with = "optional_address")]
    pub http: Option<SocketAddr>,
    /// What else `/healthz` and `/metrics` are asked for by: names in a request's `Host`, besides
    /// addresses and localhost.
    pub http_hosts: Vec<String>,
    /// What people reach this master by, `HOST:PORT`; where none is given, the address that it
    /// listens on (loopback where that is every address).
    pub advertise: Option<String>,
    /// How often workers report.
    pub heartbeat: ConfigDuration,
    /// Without a word for this long a host gets no new work.
    pub suspect_after: ConfigDuration,
    /// Without a word for this long a host's attempts are lost.
    pub lease: ConfigDuration,
    /// A host that begins none of its tasks for so long, while others have nothing to do, loses
    /// them and gets no more.
    pub begin_within: ConfigDuration,
    /// How much work a host may hold beyond its slots, as time: matters only for tasks shorter than
    /// this.
    pub prefetch: ConfigDuration,
    /// How many attempts a host holds frozen for each of its slots, at most, so that what somebody
    /// waits for has the slots.
    pub frozen_per_slot: u32,
    /// Which attempts beyond their estimates may be killed for a bag with a deadline; where nothing
    /// is said, what the policy of each job says.
    pub policing: Option<Policing>,
    /// Whether hosts on which tasks fail that succeed elsewhere get fewer of them, or none for a
    /// while.
    pub benching: bool,
    /// Content that no job needs is removed once it is this old.
    pub content_grace: ConfigDuration,
    /// Jobs are forgotten, with their results, so many days after they were settled; 0: only when
    /// somebody says so.
    pub job_days: u32,
    /// For so many days it is kept how hosts were available; 0: it is not kept at all.
    pub availability_days: u32,
    /// The largest file that is taken, in bytes.
    pub max_blob_bytes: u64,
    /// How long a certificate of a worker or user holds; it is renewed by itself once a third of
    /// that is left.
    pub certificate_life: ConfigDuration,
    /// A certificate that expired while the master was away can be renewed for so long after it is
    /// back.
    pub renewal_grace: ConfigDuration,
    /// How slots are divided among users.
    pub sharing: SharingConfig,
    /// What one peer may take of the master.
    pub limits: Limits,
    /// So many bytes of the master's disk are never given to new work; a quarter of them is held by
    /// a file.
    pub reserve_bytes: u64,
    /// Where the scheduler's events and effects are written down, if anywhere.
    pub record: Option<PathBuf>,
    /// What this one start takes as it is, since an admin says so on the command line.
    #[serde(skip)]
    pub accept: Accept,
}

/// How slots are divided among users: the user who had the fewest lately goes first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SharingConfig {
    /// After this time past use counts half.
    pub half_life: ConfigDuration,
    /// The most tasks of a user that run at a time, for who is not named in `most_running`; none:
    /// any number.
    pub most_running_each: Option<u32>,
    /// The same, by the user's name.
    pub most_running: BTreeMap<String, u32>,
    /// How many times as many slots as others a user may have, by name; 1 for who is not named.
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
    /// As the scheduler takes it.
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

/// What a start would refuse to go on with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Accept {
    /// A store that is not as the master left it.
    pub store: bool,
    /// A clock that lies before the time at which the master was up last, or long after it.
    pub clock: bool,
}

/// The shortest life of certificates, in seconds: each is renewed several times within it, even
/// where the first tries fail.
const LEAST_LIFE_S: u64 = 600;

/// A duration in a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigDuration(pub Duration);

impl ConfigDuration {
    /// As the scheduler counts it.
    pub fn span(self) -> Span {
        self.0.into()
    }
}

impl Serialize for ConfigDuration {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&humantime::format_duration(self.0))
    }
}

impl<'de> Deserialize<'de> for ConfigDuration {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        humantime::parse_duration(&text)
            .map(ConfigDuration)
            .map_err(serde::de::Error::custom)
    }
}

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
        let seconds = |s| ConfigDuration(Duration::from_secs(s));
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], 7411)),
            http: Some(SocketAddr::from(([127, 0, 0, 1], 7412))),
            http_hosts: Vec::new(),
            advertise: None,
            heartbeat: seconds(60),
            suspect_after: seconds(150),
            lease: seconds(15 * 60),
            begin_within: seconds(15 * 60),
            prefetch: ConfigDuration(Duration::from_millis(100)),
            frozen_per_slot: 1,
            policing: None,
            benching: true,
            content_grace: seconds(60 * 60),
            job_days: 0,
            availability_days: 90,
            max_blob_bytes: 64 << 30,
            certificate_life: seconds(30 * 86_400),
            renewal_grace: seconds(7 * 86_400),
            sharing: SharingConfig::default(),
            limits: Limits::default(),
            reserve_bytes: 64 << 20,
            record: None,
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
        if config.certificate_life.0 < Duration::from_secs(LEAST_LIFE_S) {
            let said = config.certificate_life.0;
            let least = Duration::from_secs(LEAST_LIFE_S);
            let said = humantime::format_duration(said);
            let least = humantime::format_duration(least);
            let why = format!(
                "certificate_life is {said}, and the least is {least}: workers could not renew in time"
            );
            return Err(MasterError::Config(why));
        }

        Ok(config)
    }

    /// Reads a configuration file.
    ///
    /// # Errors
    /// As [`Config::parse`], and if the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, MasterError> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| MasterError::Config(format!("cannot read {}: {e}", path.display())))?;
        Self::parse(&text).map_err(|e| match e {
            MasterError::Config(why) => MasterError::Config(format!("{}: {why}", path.display())),
            other => other,
        })
    }
}
