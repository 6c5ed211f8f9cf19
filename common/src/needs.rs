//! The needs of a job's tasks and the offers of hosts: which host suits, and what one attempt takes
//! of it. Which host a task gets is decided by the scheduler.

mod parse;

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::host::Confinement;
use crate::platform::{HostPlatform, PlatformName};
use crate::text::plural;

pub use parse::mebibytes;

/// The longest label, in bytes.
const MAX_LABEL: usize = 64;
/// The most labels that a job may need, and that a host may have from one side.
pub const MAX_LABELS: usize = 32;
/// The largest counted need: more than any host has, and far from where sums overflow.
const MOST: u32 = 1 << 24;

/// A word that an owner or an admin gives a host, so that jobs can ask for it: letters, digits,
/// `.`, `-` and `_`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Label(String);

impl Label {
    /// Returns the word.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Label {
    type Error = BadNeeds;
    fn try_from(text: String) -> Result<Self, BadNeeds> {
        let sound = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let whole = !text.is_empty() && text.len() <= MAX_LABEL && text.bytes().all(sound);
        if whole && text.as_bytes()[0].is_ascii_alphanumeric() {
            Ok(Label(text))
        } else {
            Err(BadNeeds::Label(text))
        }
    }
}

impl std::str::FromStr for Label {
    type Err = BadNeeds;
    fn from_str(text: &str) -> Result<Self, BadNeeds> {
        text.to_owned().try_into()
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The countable parts of a host that one attempt takes while it runs, beside its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Demand {
    /// Logical processors; at least 1.
    pub cores: u32,
    /// Main memory, in MiB; 0: none is stated, and none is counted.
    pub memory_mib: u32,
    /// Graphics processors.
    pub gpus: u32,
}

impl Demand {
    /// The demand of a task whose job states none: one processor, and memory that is not counted.
    pub const PLAIN: Demand = Demand {
        cores: 1,
        memory_mib: 0,
        gpus: 0,
    };

    /// Returns the number of attempts with this demand for which so much is enough at a time.
    pub fn times_in(&self, cores: u64, memory_mib: u64, gpus: u64) -> u64 {
        let part = |there: u64, each: u32| there.checked_div(each.into()).unwrap_or(u64::MAX);
        part(cores, self.cores)
            .min(part(memory_mib, self.memory_mib))
            .min(part(gpus, self.gpus))
    }

    /// Whether it is [`Demand::PLAIN`].
    pub fn is_plain(&self) -> bool {
        *self == Self::PLAIN
    }
}

impl Default for Demand {
    fn default() -> Self {
        Self::PLAIN
    }
}

/// The countable parts of a host that its owner lends to all tasks together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Capacity {
    /// Logical processors.
    pub cores: u32,
    /// Main memory, in MiB.
    pub memory_mib: u32,
    /// Graphics processors.
    pub gpus: u32,
}

impl Capacity {
    /// Returns the number of attempts with this demand that it holds at a time.
    pub fn holds(&self, takes: Demand) -> u64 {
        let [cores, memory, gpus] = [self.cores, self.memory_mib, self.gpus].map(u64::from);
        takes.times_in(cores, memory, gpus)
    }

    /// More than any sum of demands.
    pub const UNBOUNDED: Capacity = Capacity {
        cores: u32::MAX,
        memory_mib: u32::MAX,
        gpus: u32::MAX,
    };
}

/// The needs of a job's tasks: abilities that a host must have, and what each attempt takes of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Needs {
    /// The lowest level of confinement; `None`: the level at which the host confines every task.
    pub confinement: Option<Confinement>,
    /// Whether the tasks use the network.
    pub network: bool,
    /// The operating system, as in [`HostPlatform::os`].
    pub os: Option<String>,
    /// The processor architecture, as in [`HostPlatform::arch`].
    pub arch: Option<String>,
    /// The kind of C library, as in [`HostPlatform::libc`] before the version.
    pub libc: Option<String>,
    /// The labels that the host must have, all of them.
    pub labels: BTreeSet<Label>,
    /// The disk space of a task's directory, in MiB; 0: none is stated.
    pub disk_mib: u32,
    /// The `Demand` of each attempt.
    pub takes: Demand,
    /// The inputs that are there for some platforms only. The master fills this in from the job's
    /// inputs; a submission leaves it empty.
    pub builds: Vec<Builds>,
}

/// The platforms for which there is a build of an input.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Builds {
    /// The input's name.
    pub input: String,
    /// The platforms.
    pub platforms: BTreeSet<PlatformName>,
}

/// The abilities of a host, and what its owner lends of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Offers {
    /// The highest level of confinement.
    pub confinement: Confinement,
    /// Whether tasks may use the network.
    pub network: bool,
    /// Whether it can start an attempt together with those of other hosts (a gang).
    pub together: bool,
    /// The number of attempts that it can hold frozen beside the running ones.
    pub frozen: u32,
    /// Its platform; `None`: not known, and it suits no job that asks for one.
    pub platform: Option<HostPlatform>,
    /// Its labels, from its owner and from admins.
    pub labels: BTreeSet<Label>,
    /// The room of all tasks together. There is a processor for each slot at least, whatever
    /// stands here.
    pub capacity: Capacity,
    /// The most memory that its owner lets one task take, in MiB.
    pub task_memory_mib: u32,
    /// The disk space that a task's directory may take, in MiB.
    pub task_disk_mib: u32,
}

impl Default for Offers {
    /// Returns what is assumed of a host that has said nothing: everything but a platform and
    /// labels. Such a host holds no frozen attempt.
    fn default() -> Self {
        Self {
            confinement: Confinement::Account,
            network: true,
            together: true,
            frozen: 0,
            platform: None,
            labels: BTreeSet::new(),
            capacity: Capacity::UNBOUNDED,
            task_memory_mib: u32::MAX,
            task_disk_mib: u32::MAX,
        }
    }
}

impl Needs {
    /// Whether any host will do, and an attempt takes no more than its slot.
    pub fn is_plain(&self) -> bool {
        let Needs {
            confinement,
            network,
            os,
            arch,
            libc,
            labels,
            disk_mib,
            takes,
            builds,
        } = self;

        confinement.is_none()
            && !network
            && os.is_none()
            && arch.is_none()
            && libc.is_none()
            && labels.is_empty()
            && *disk_mib == 0
            && takes.is_plain()
            && builds.is_empty()
    }

    /// Whether a host with these offers could run such a task if it runs nothing else.
    pub fn suits(&self, offers: &Offers) -> bool {
        self.is_plain() || self.lacks(offers).next().is_none()
    }

    /// Returns every reason why a host with these offers never runs such a task, even if it runs
    /// nothing else; `None` if it could.
    pub fn missing(&self, offers: &Offers) -> Option<String> {
        if self.is_plain() {
            return None;
        }
        let lacks: Vec<String> = self.lacks(offers).collect();
        (!lacks.is_empty()).then(|| lacks.join("; "))
    }

    fn lacks(&self, offers: &Offers) -> impl Iterator<Item = String> {
        self.missing_abilities(offers)
            .into_iter()
            .chain(self.missing_platform(offers.platform.as_ref()))
            .chain(self.missing_room(offers))
            .flatten()
    }

    fn missing_abilities(&self, offers: &Offers) -> [Option<String>; 3] {
        let level = self.confinement.filter(|level| *level > offers.confinement);
        let labels: Vec<String> = self
            .labels
            .difference(&offers.labels)
            .map(|label| format!("`{label}`"))
            .collect();
        [
            level.map(|level| {
                format!(
                    "it confines at most at the level `{}`, and the job needs `{level}`",
                    offers.confinement
                )
            }),
            (self.network && !offers.network)
                .then(|| "its owner gives no task the network, and the job needs it".to_owned()),
            match labels.as_slice() {
                [] => None,
                [label] => Some(format!("it does not have the label {label}")),
                labels => Some(format!("it does not have the labels {}", labels.join(", "))),
            },
        ]
    }

    fn missing_platform(&self, platform: Option<&HostPlatform>) -> [Option<String>; 4] {
        let asked = self.os.is_some() || self.arch.is_some() || self.libc.is_some();
        let Some(platform) = platform else {
            let unknown = asked || !self.builds.is_empty();
            let why = unknown.then(|| "its platform is not known".to_owned());
            return [why, None, None, None];
        };

        let differs = |what: &str, wanted: &Option<String>, there: &str| {
            let wanted = wanted.as_deref().filter(|wanted| *wanted != there)?;
            let there = if there.is_empty() { "unknown" } else { there };
            Some(format!(
                "its {what} is `{there}`, and the job needs `{wanted}`"
            ))
        };
        let lacks = |builds: &&Builds| {
            let name = platform.name();
            !builds.platforms.iter().any(|built| *built == *name)
        };
        let builds = self.builds.iter().find(lacks);
        [
            differs("operating system", &self.os, &platform.os),
            differs("processor", &self.arch, &platform.arch),
            differs("C library", &self.libc, platform.libc_kind()),
            builds.map(|builds| {
                let name = platform.name();
                format!("no {name} build of the input `{}`", builds.input)
            }),
        ]
    }

    fn missing_room(&self, offers: &Offers) -> [Option<String>; 4] {
        let takes = self.takes;
        let lent = offers.capacity;
        let memory = if takes.memory_mib > lent.memory_mib {
            Some(format!(
                "it lends {} of memory, and a task needs {}",
                Mib(lent.memory_mib),
                Mib(takes.memory_mib)
            ))
        } else if takes.memory_mib > offers.task_memory_mib {
            Some(format!(
                "its owner lets a task take {} of memory, and this one needs {}",
                Mib(offers.task_memory_mib),
                Mib(takes.memory_mib)
            ))
        } else {
            None
        };
        [
            // A slot always has a processor.
            (takes.cores > lent.cores.max(1)).then(|| {
                format!(
                    "it lends {}, and a task needs {}",
                    plural(u64::from(lent.cores), "processor"),
                    takes.cores
                )
            }),
            memory,
            (takes.gpus > lent.gpus).then(|| {
                format!(
                    "it lends {}, and a task needs {}",
                    plural(u64::from(lent.gpus), "GPU"),
                    takes.gpus
                )
            }),
            (self.disk_mib > offers.task_disk_mib).then(|| {
                format!(
                    "a task's directory may take {} there, and this one needs {}",
                    Mib(offers.task_disk_mib),
                    Mib(self.disk_mib)
                )
            }),
        ]
    }

    /// Checks that a submission could ask for this.
    ///
    /// # Errors
    /// Names the first thing that makes no sense.
    pub fn check(&self) -> Result<(), BadNeeds> {
        let words = [
            ("os", &self.os, parse::SYSTEMS),
            ("arch", &self.arch, parse::PROCESSORS),
            ("libc", &self.libc, parse::LIBRARIES),
        ];
        for (key, word, known) in words {
            if let Some(word) = word.as_deref().filter(|word| !known.contains(word)) {
                return Err(BadNeeds::Word(key, word.to_owned(), known.join(", ")));
            }
        }
        if self.takes.cores == 0 {
            return Err(BadNeeds::Nothing("cpus"));
        }

        let counted = [
            ("cpus", self.takes.cores),
            ("mem", self.takes.memory_mib),
            ("gpu", self.takes.gpus),
            ("disk", self.disk_mib),
        ];
        if let Some((key, _)) = counted.into_iter().find(|(_, count)| *count > MOST) {
            return Err(BadNeeds::TooMuch(key));
        }
        if self.labels.len() > MAX_LABELS {
            return Err(BadNeeds::TooManyLabels(self.labels.len()));
        }
        if self.builds.is_empty() {
            Ok(())
        } else {
            Err(BadNeeds::BuildsGiven)
        }
    }
}

impl fmt::Display for Needs {
    /// Writes the needs as `--needs` reads them, without confinement, network and builds, which
    /// have flags of their own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [("os", &self.os), ("arch", &self.arch), ("libc", &self.libc)];
        let mut parts: Vec<String> = words
            .into_iter()
            .filter_map(|(key, word)| Some(format!("{key}={}", word.as_ref()?)))
            .collect();

        let Demand {
            cores,
            memory_mib,
            gpus,
        } = self.takes;
        if cores > 1 {
            parts.push(format!("cpus={cores}"));
        }
        for (key, mib) in [("mem", memory_mib), ("disk", self.disk_mib)] {
            if mib > 0 {
                parts.push(format!("{key}={}", Mib(mib).short()));
            }
        }
        if gpus > 0 {
            parts.push(format!("gpu={gpus}"));
        }

        parts.extend(self.labels.iter().map(|label| format!("label={label}")));
        f.write_str(&parts.join(","))
    }
}

/// A size in MiB, written in the largest unit in which it is whole.
struct Mib(u32);

impl Mib {
    /// Writes it as `--needs` reads it: `4G`, `1536M`.
    fn short(&self) -> String {
        match self.0 {
            mib if mib % (1 << 20) == 0 => format!("{}T", mib >> 20),
            mib if mib % (1 << 10) == 0 => format!("{}G", mib >> 10),
            mib => format!("{mib}M"),
        }
    }
}

impl fmt::Display for Mib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            mib if mib > 0 && mib % 1024 == 0 => write!(f, "{} GiB", mib / 1024),
            mib => write!(f, "{mib} MiB"),
        }
    }
}

/// The error for needs that make no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadNeeds {
    /// The text has no `=`.
    #[error(
        "`{0}` is no need: write KEY=VALUE, such as os=windows, mem=4G, cpus=4, gpu=1 or label=lab3"
    )]
    NoPair(String),
    /// The key is unknown.
    #[error(
        "`{0}` is nothing that a job can need: say os, arch, platform, libc, cpus, mem, gpu, disk or label"
    )]
    Key(String),
    /// The key stands there twice.
    #[error(
        "`{0}` is given twice (`platform` gives `os` and `arch`): only labels may be given more than once"
    )]
    Twice(&'static str),
    /// The word of this key is none of those known, which are listed.
    #[error("`{0}={1}` names nothing that is known: say one of {2}")]
    Word(&'static str, String, String),
    /// The value is no whole number.
    #[error("`{0}={1}` is no count: write a whole number, such as {0}=2")]
    Count(&'static str, String),
    /// The value is no size.
    #[error("`{0}={1}` is no size: write a number with M, G or T, such as {0}=4G")]
    Size(&'static str, String),
    /// The value is zero.
    #[error("`{0}=0` asks for nothing: leave it out")]
    Nothing(&'static str),
    /// The value is more than any host can have.
    #[error("`{0}` is more than any host can have")]
    TooMuch(&'static str),
    /// The text is no label.
    #[error(
        "`{}` is no label: 1 to {MAX_LABEL} letters, digits, dots, dashes and underscores, a letter or digit first",
        .0.escape_debug()
    )]
    Label(String),
    /// There are more than [`MAX_LABELS`] labels.
    #[error("{0} labels are too many: {MAX_LABELS} at most")]
    TooManyLabels(usize),
    /// The text is no platform.
    #[error(
        "`{}` is no platform: write SYSTEM-PROCESSOR, such as linux-x86_64 or windows-x86_64",
        .0.escape_debug()
    )]
    Platform(String),
    /// The submission fills in what the master does.
    #[error("the job's needs name builds of inputs: the inputs themselves do that")]
    BuildsGiven,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(text: &str) -> Needs {
        let needs = Needs::parse([text]).unwrap_or_else(|bad| panic!("{bad}"));
        assert_eq!(needs.check(), Ok(()));
        needs
    }

    fn pc() -> Offers {
        Offers {
            confinement: Confinement::Landlock,
            network: false,
            platform: Some(HostPlatform::new("linux", "x86_64", "gnu 2.36")),
            labels: BTreeSet::from(["lab3".parse().unwrap()]),
            capacity: Capacity {
                cores: 4,
                memory_mib: 8192,
                gpus: 0,
            },
            task_memory_mib: 6144,
            task_disk_mib: 1000,
            ..Offers::default()
        }
    }

    #[test]
    fn a_host_that_lacks_something_says_what() {
        for fine in [
            "os=linux",
            "platform=linux-x86_64",
            "libc=gnu",
            "cpus=4",
            "mem=6G",
            "label=lab3",
            "disk=1000M",
            "os=linux,arch=x86_64,cpus=2,mem=1G,label=lab3",
        ] {
            assert_eq!(needs(fine).missing(&pc()), None, "{fine}");
        }

        for (asked, why) in [
            (
                "os=windows",
                "its operating system is `linux`, and the job needs `windows`",
            ),
            (
                "arch=aarch64",
                "its processor is `x86_64`, and the job needs `aarch64`",
            ),
            (
                "libc=musl",
                "its C library is `gnu`, and the job needs `musl`",
            ),
            ("cpus=5", "it lends 4 processors, and a task needs 5"),
            ("mem=9G", "it lends 8 GiB of memory, and a task needs 9 GiB"),
            (
                "mem=7G",
                "its owner lets a task take 6 GiB of memory, and this one needs 7 GiB",
            ),
            ("gpu=1", "it lends 0 GPUs, and a task needs 1"),
            (
                "disk=1G",
                "a task's directory may take 1000 MiB there, and this one needs 1 GiB",
            ),
            ("label=lab3,label=fast", "it does not have the label `fast`"),
            (
                "label=fast,label=big",
                "it does not have the labels `big`, `fast`",
            ),
            (
                "label=fast,os=windows,cpus=8,gpu=1",
                "it does not have the label `fast`; its operating system is `linux`, and the job needs `windows`; \
                 it lends 4 processors, and a task needs 8; it lends 0 GPUs, and a task needs 1",
            ),
        ] {
            assert_eq!(needs(asked).missing(&pc()).as_deref(), Some(why), "{asked}");
        }
    }

    #[test]
    fn confinement_and_network_are_met_by_hosts_that_offer_as_much_or_more() {
        let needs = |confinement, network| Needs {
            confinement,
            network,
            ..Needs::default()
        };
        for level in [
            None,
            Some(Confinement::Process),
            Some(Confinement::Landlock),
        ] {
            assert_eq!(needs(level, false).missing(&pc()), None, "{level:?}");
        }

        let strict = needs(Some(Confinement::Namespace), false).missing(&pc());
        assert!(strict.unwrap().contains("`namespace`"));
        let online = needs(None, true).missing(&pc());
        assert!(online.unwrap().contains("network"));

        let all = needs(Some(Confinement::Account), true);
        assert_eq!(all.missing(&Offers::default()), None);
    }

    #[test]
    fn a_host_without_a_build_of_each_input_does_not_suit() {
        let builds = |platforms: &[&str]| Needs {
            builds: vec![Builds {
                input: "solver".to_owned(),
                platforms: platforms.iter().map(|name| name.parse().unwrap()).collect(),
            }],
            ..Needs::default()
        };
        assert_eq!(
            builds(&["linux-x86_64", "windows-x86_64"]).missing(&pc()),
            None
        );
        assert_eq!(
            builds(&["windows-x86_64"]).missing(&pc()).as_deref(),
            Some("no linux-x86_64 build of the input `solver`")
        );
        assert_eq!(
            builds(&["linux-x86_64"])
                .missing(&Offers::default())
                .as_deref(),
            Some("its platform is not known")
        );
        assert_eq!(
            builds(&["linux-x86_64"]).check(),
            Err(BadNeeds::BuildsGiven)
        );
    }

    #[test]
    fn needs_are_shown_as_they_are_read() {
        for text in [
            "os=windows,arch=x86_64,cpus=4,mem=4G,disk=1536M,gpu=1,label=a,label=b",
            "libc=musl,mem=1T",
        ] {
            assert_eq!(needs(text).to_string(), text);
        }
        assert_eq!(needs("cpus=1"), Needs::default());
        assert_eq!(Needs::default().to_string(), "");
        assert!(Needs::default().is_plain() && !needs("mem=1M").is_plain());
    }

    #[test]
    fn labels_with_odd_bytes_are_refused() {
        for good in ["lab3", "A.b-c_d", "3"] {
            assert_eq!(good.parse::<Label>().unwrap().as_str(), good);
        }
        let long = "x".repeat(MAX_LABEL + 1);
        for bad in [
            "",
            "-a",
            "a b",
            "a\n",
            "ä",
            "a=b",
            "a,b",
            "\u{202e}x",
            &long,
        ] {
            assert!(bad.parse::<Label>().is_err(), "{bad:?}");
        }
        let shown = "a\u{1b}[2J".parse::<Label>().unwrap_err().to_string();
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
        assert!(postcard::from_bytes::<Label>(&postcard::to_stdvec("a b").unwrap()).is_err());
    }
}
