//! The choice of freezer and confinement for this worker: the owner's wishes and the host's
//! abilities give the settings in force ([`InForce`]). They are settled once, when the worker
//! starts. The mechanisms are in [`crate::os`].

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

use common::host::{Confinement, HostFacts};
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::error::WorkerError;
use crate::os::{self, Abilities, Confines, Freezer, Grounds, Launcher, Means, Survey, files};

/// The levels that `auto` chooses from: the first of these that the host has. In a container of Windows many usual programs do not
/// run, so that one has to be asked for there.
const BY_DEFAULT: &[Confinement] = if cfg!(windows) {
    &[Confinement::Process]
} else {
    &[
        Confinement::Namespace,
        Confinement::Landlock,
        Confinement::Process,
    ]
};
/// The reason why a level that the host has is not in force.
const NOT_CHOSEN: &str = if cfg!(windows) {
    "jobs or the configuration have to ask for it"
} else {
    "the configuration says so"
};
/// The file, below the worker's directory, that lists the control groups that it made.
const RECORD: &str = "cgroups";
/// The number of hexadecimal digits of a hash that tell the directories of workers apart.
const DIGITS: usize = 16;

/// A setting of the owner's: `auto`, or one value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    try_from = "String",
    into = "String",
    bound = "T: Copy + Display + FromStr, T::Err: Display"
)]
pub enum Choice<T> {
    /// The best that this host has.
    #[default]
    Auto,
    /// This value and nothing else.
    This(T),
}

impl<T: FromStr> TryFrom<String> for Choice<T> {
    type Error = T::Err;
    fn try_from(text: String) -> Result<Self, T::Err> {
        if text == "auto" {
            Ok(Self::Auto)
        } else {
            text.parse().map(Self::This)
        }
    }
}

impl<T: Display> From<Choice<T>> for String {
    fn from(choice: Choice<T>) -> Self {
        match choice {
            Choice::Auto => "auto".to_owned(),
            Choice::This(this) => this.to_string(),
        }
    }
}

/// The tasks that may use the network. No level below `landlock` keeps any from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkRule {
    /// No task.
    Never,
    /// The tasks whose jobs ask for it.
    #[default]
    Asked,
    /// Every task.
    Always,
}

/// The settings in force at this worker.
#[derive(Debug, Clone)]
pub(crate) struct InForce {
    /// The control groups of the attempts.
    pub grounds: Grounds,
    /// The level at which every attempt is confined at least.
    pub level: Confinement,
    /// The highest level that an attempt may ask for.
    pub most: Confinement,
    /// The tasks that may use the network.
    pub network: NetworkRule,
    means: Means,
    /// The abilities of this host.
    pub abilities: Abilities,
}

/// The control groups that a worker made outside its directory. Dropping the value removes them; no
/// task may be left then.
#[must_use]
pub(crate) struct Traces(Survey);

impl Drop for Traces {
    fn drop(&mut self) {
        self.0.remove();
    }
}

impl InForce {
    /// Settles the settings for the worker of directory `dir`, whose lock the caller holds, and
    /// starts the `Launcher`. Processes that an earlier worker of the same directory left in its
    /// control groups are killed.
    pub(crate) async fn settle(
        dir: &Path,
        config: &Config,
    ) -> Result<(Self, Launcher, Traces), WorkerError> {
        let name = blake3::hash(dir.as_os_str().as_encoded_bytes()).to_hex();
        let traces = Traces(Survey::make(&name[..DIGITS]));
        let survey = &traces.0;
        survey
            .replace(&dir.join(RECORD))
            .map_err(WorkerError::file("cannot write", dir.join(RECORD)))?;

        let grounds = choose_grounds(survey, config.freezer)?;
        let limit = config.owner.cpu_limit;
        if let Err(why) = survey.throttle(limit)
            && limit < 1.0
        {
            tracing::warn!(
                cpu_limit = limit,
                "the limit bounds the number of slots only: {why}"
            );
        }

        let means = config.means();
        if os::is_root() {
            files::let_through(dir).map_err(WorkerError::file("cannot change the mode of", dir))?;
        }

        let launcher =
            Launcher::start(os::this_program(), grounds.clone()).map_err(WorkerError::Spawner)?;

        let abilities = Abilities::find(survey, &launcher, dir, &means).await;
        let (level, most) = choose_level(&abilities, config.confinement)?;
        let force = Self {
            grounds,
            level,
            most,
            network: config.network,
            means,
            abilities,
        };
        survey.narrow(&force.grounds);

        Ok((force, launcher, traces))
    }

    /// Adds what tasks are confined by to the properties of this host.
    pub(crate) fn describe(&self, facts: &mut HostFacts) {
        facts.confinement = self.level;
        facts.confinement_most = self.most;
        facts.network = self.network != NetworkRule::Never;
    }

    /// Logs the settings in force, and a warning if there is one.
    pub(crate) fn announce(&self) {
        let tasks_as = self.tasks_as();
        tracing::info!(freezer = %self.grounds.freezer(), confinement = %self.level, most = %self.most, tasks_as, "how tasks are kept apart from the owner");
        if let Some(warning) = self.warning() {
            tracing::warn!("{warning}");
        }
    }

    /// Returns the account that tasks run under, in words.
    pub(crate) fn tasks_as(&self) -> String {
        self.means.tasks_as(self.level)
    }

    /// Returns a warning for the owner about gaps of the confinement, if there are any.
    pub(crate) fn warning(&self) -> Option<String> {
        let why = |level| {
            self.abilities
                .missing(level)
                .unwrap_or(NOT_CHOSEN)
                .to_owned()
        };

        match self.level {
            Confinement::Process => Some(format!(
                "tasks are confined by process only, as {}: they can read and write what this account can; no landlock: {}; \
                 no namespace: {}",
                self.tasks_as(),
                why(Confinement::Landlock),
                why(Confinement::Namespace)
            )),
            Confinement::Landlock => {
                let open = format!(
                    "tasks are confined by landlock: they can change modes and times of files of {}, and see which programs \
                     run; no namespace: {}",
                    self.tasks_as(),
                    why(Confinement::Namespace)
                );
                let gap = self
                    .abilities
                    .level(self.level)
                    .and_then(|ability| ability.gap.clone());
                Some(gap.map_or(open.clone(), |gap| format!("{open}; {gap}")))
            }
            Confinement::Namespace | Confinement::Account => None,
        }
    }

    /// Returns the confinement of an attempt whose job asks for `wished` and `network`. The error
    /// says why this host cannot provide it.
    pub(crate) fn confines(
        &self,
        wished: Option<Confinement>,
        network: bool,
    ) -> Result<Confines, String> {
        let least = wished.map_or(self.level, |wished| wished.max(self.level));
        let missing = |level| self.abilities.missing(level);
        let there = Confinement::ALL
            .into_iter()
            .find(|level| *level >= least && missing(*level).is_none());
        let level = there.unwrap_or(least);
        if let Some(why) = missing(level) {
            return Err(format!(
                "this host cannot confine at the level `{level}`: {why}"
            ));
        }

        let network = match self.network {
            NetworkRule::Never if network => {
                return Err("this host's owner gives no task the network".to_owned());
            }
            NetworkRule::Never => false,
            NetworkRule::Asked => network,
            NetworkRule::Always => true,
        };
        Ok(Confines {
            network,
            ..self.means.confines(level)?
        })
    }
}

fn choose_grounds(survey: &Survey, wish: Choice<Freezer>) -> Result<Grounds, WorkerError> {
    match wish {
        Choice::This(freezer) => survey
            .grounds(freezer)
            .map_err(|why| WorkerError::Unavailable {
                key: "freezer",
                wish: freezer.to_string(),
                why,
            }),
        Choice::Auto => Ok(Freezer::ALL
            .into_iter()
            .find_map(|f| survey.grounds(f).ok())
            .unwrap_or_default()),
    }
}

/// Returns the level of a worker with this configuration on a host with these abilities, and the
/// account that its tasks run under, in words.
///
/// # Errors
/// If the host lacks the level that the configuration demands.
pub fn in_force(
    abilities: &Abilities,
    config: &Config,
) -> Result<(Confinement, String), WorkerError> {
    let (level, _) = choose_level(abilities, config.confinement)?;
    Ok((level, config.means().tasks_as(level)))
}

/// Returns the level in force, and the highest one that the host has.
fn choose_level(
    abilities: &Abilities,
    wish: Choice<Confinement>,
) -> Result<(Confinement, Confinement), WorkerError> {
    let missing = |level| match abilities.level(level) {
        Some(ability) => ability.missing.clone(),
        None => Some("this worker does not know it".to_owned()),
    };
    let there = |level: &Confinement| missing(*level).is_none();
    let most = Confinement::ALL
        .into_iter()
        .filter(there)
        .max()
        .unwrap_or(Confinement::Process);
    let level = match wish {
        Choice::This(level) => match missing(level) {
            None => level,
            Some(why) => {
                return Err(WorkerError::Unavailable {
                    key: "confinement",
                    wish: level.to_string(),
                    why,
                });
            }
        },
        Choice::Auto => BY_DEFAULT.iter().copied().find(there).ok_or_else(|| {
            WorkerError::NoTask(missing(Confinement::Process).unwrap_or_default())
        })?,
    };

    Ok((level, most))
}

#[cfg(test)]
mod tests {
    use crate::os::Ability;

    use super::*;

    /// A host on which these levels are missing.
    fn host(missing: &[Confinement]) -> Abilities {
        let ability = |what| {
            let missing = missing
                .contains(&what)
                .then(|| "it is not there".to_owned());
            Ability {
                what,
                missing,
                gap: None,
            }
        };
        let levels = Confinement::ALL.map(ability).into();

        Abilities {
            freezers: Vec::new(),
            levels,
            no_memory_limit: None,
            no_process_limit: None,
            no_processor_group: None,
        }
    }

    #[cfg(windows)]
    #[test]
    fn the_default_is_process_also_where_there_is_a_container() {
        let found = choose_level(&host(&[Confinement::Account]), Choice::Auto);
        let expected = (Confinement::Process, Confinement::Namespace);
        assert_eq!(found.unwrap(), expected);
    }

    #[cfg(not(windows))]
    #[test]
    fn the_default_is_namespace_where_it_can_be_had_else_landlock_else_process_with_the_reason() {
        use Confinement::{Account, Landlock, Namespace, Process};
        let auto = |missing: &[_]| choose_level(&host(missing), Choice::Auto).unwrap();
        assert_eq!(auto(&[]), (Namespace, Account));
        assert_eq!(auto(&[Account]), (Namespace, Namespace));
        assert_eq!(auto(&[Namespace, Account]), (Landlock, Landlock));
        assert_eq!(auto(&[Landlock, Account]), (Namespace, Namespace));
        assert_eq!(auto(&[Landlock, Namespace, Account]), (Process, Process));

        let nothing = choose_level(&host(&Confinement::ALL), Choice::Auto)
            .unwrap_err()
            .to_string();
        assert!(nothing.contains("it is not there"), "{nothing}");
        // Nobody is told to say what is said already.
        assert!(!nothing.contains("auto"), "{nothing}");

        let in_force = |missing: &[_]| {
            let (level, most) = auto(missing);
            let grounds = Grounds::default();
            let means = Means::default();
            InForce {
                grounds,
                level,
                most,
                network: NetworkRule::Asked,
                means,
                abilities: host(missing),
            }
        };
        assert_eq!(in_force(&[]).warning(), None);
        for weaker in [&[Namespace][..], &[Landlock, Namespace]] {
            assert!(
                in_force(weaker)
                    .warning()
                    .unwrap()
                    .contains("no namespace: it is not there")
            );
        }
    }

    #[test]
    fn a_level_that_the_owner_demands_and_the_host_lacks_stops_the_worker() {
        let demanded = |level, missing: &[_]| choose_level(&host(missing), Choice::This(level));
        let error = demanded(Confinement::Namespace, &[Confinement::Namespace])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("confinement = \"namespace\"") && error.contains("it is not there"),
            "{error}"
        );
        assert_eq!(
            demanded(Confinement::Process, &[]).unwrap(),
            (Confinement::Process, Confinement::Account)
        );
    }

    #[test]
    fn a_job_gets_the_higher_of_its_own_and_the_hosts_level_and_the_network_as_the_owner_says() {
        let missing = [Confinement::Account];
        let wish = Choice::This(Confinement::Namespace);
        let (level, most) = choose_level(&host(&missing), wish).unwrap();
        let grounds = Grounds::default();
        let means = Means::default();
        let abilities = host(&missing);
        let mut it = InForce {
            grounds,
            level,
            most,
            network: NetworkRule::Asked,
            means,
            abilities,
        };
        let level = |it: &InForce, wish| it.confines(wish, false).map(|confines| confines.level);
        assert_eq!(level(&it, None), Ok(Confinement::Namespace));

        assert_eq!(
            level(&it, Some(Confinement::Process)),
            Ok(Confinement::Namespace)
        );
        assert_eq!(
            level(&it, Some(Confinement::Namespace)),
            Ok(Confinement::Namespace)
        );
        assert!(
            level(&it, Some(Confinement::Account))
                .unwrap_err()
                .contains("it is not there")
        );

        for (network, asked, gets) in [
            (NetworkRule::Asked, false, Ok(false)),
            (NetworkRule::Asked, true, Ok(true)),
            (NetworkRule::Always, false, Ok(true)),
            (NetworkRule::Never, false, Ok(false)),
            (NetworkRule::Never, true, Err(())),
        ] {
            it.network = network;
            assert_eq!(
                it.confines(None, asked).map(|c| c.network).map_err(drop),
                gets,
                "{network:?} {asked}"
            );
        }
    }

    #[test]
    fn a_job_that_asks_for_a_level_that_the_host_lacks_gets_the_next_higher_one() {
        let missing = [Confinement::Landlock, Confinement::Account];
        let abilities = host(&missing);
        let wish = Choice::This(Confinement::Process);
        let (level, most) = choose_level(&abilities, wish).unwrap();
        let it = InForce {
            grounds: Grounds::default(),
            level,
            most,
            network: NetworkRule::Asked,
            means: Means::default(),
            abilities,
        };
        let given = |wish| it.confines(wish, false).map(|confines| confines.level);
        assert_eq!(given(None), Ok(Confinement::Process));
        assert_eq!(
            given(Some(Confinement::Landlock)),
            Ok(Confinement::Namespace)
        );
        assert!(given(Some(Confinement::Account)).is_err());
    }

    #[test]
    fn wishes_are_words() {
        let read = |text: &str| Choice::<Freezer>::try_from(text.to_owned());
        assert_eq!(read("auto"), Ok(Choice::Auto));
        assert_eq!(read("cgroup1"), Ok(Choice::This(Freezer::Cgroup1)));
        assert!(read("ice").unwrap_err().contains("cgroup2"));
        assert_eq!(
            String::from(Choice::This(Confinement::Landlock)),
            "landlock"
        );
    }
}
