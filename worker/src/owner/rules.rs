//! The settings of the owner's policy ([`OwnerRules`]): the `[owner]` section of a worker's
//! configuration, each key with its unit and default. They are parsed once and checked; the
//! decisions are made in [`super::policy`].

use std::fmt::Display;
use std::path::PathBuf;

use common::Span;
use common::settings::ConfigDuration;
use serde::{Deserialize, Serialize};

use super::policy::hours::Hours;
use super::sight::Topic;

/// The bytes of memory that the worker takes itself, with its own processes and their files.
const OWN_MEMORY: u64 = 64 << 20;

/// The owner's rules: the times at which tasks may run, and the part of the host they may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OwnerRules {
    /// The number of slots that stay in use while input or load shows that the owner is there.
    pub slots_when_active: u32,
    /// The time that a task may be suspended before it is given back; `0s`: for ever.
    pub evict_after: ConfigDuration,
    /// The time for which the host is watched after the worker's start before tasks may run.
    pub first_watch: ConfigDuration,
    /// The hours of the week in which tasks may run; none: always.
    pub hours: Hours,
    /// Further switches: while one of these files exists, the worker is paused.
    pub pause_files: Vec<PathBuf>,
    /// The part of the host's processors that may have a task at a time, above 0 and at most 1.
    pub cpu_limit: f64,
    /// The part of the memory that tasks together may take while the owner is away, above 0 and at
    /// most 1.
    pub memory_share_idle: f64,
    /// The part of the memory that tasks together may take while the owner is there, from 0 to 1.
    pub memory_share_in_use: f64,
    /// The part of its disk that the cache of inputs and the running tasks together may take, above
    /// 0 and at most 1.
    pub disk_share: f64,
    /// The rule for keyboard, mouse, terminals and sessions.
    pub input: InputRule,
    /// The rule for processor time of the owner's programs.
    pub load: LoadRule,
    /// The rule for memory that the owner's programs need.
    pub memory: MemoryRule,
    /// The rule for mains and battery.
    pub battery: BatteryRule,
    /// The rule for programs that are to have the host for themselves.
    pub programs: ProgramsRule,
}

/// The rule for keyboard, mouse, terminals and sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InputRule {
    /// Whether the rule is heeded.
    pub heed: bool,
    /// Time without input before tasks start.
    pub idle: ConfigDuration,
    /// Time without input before suspended tasks are thawed, at most `idle`.
    pub resume: ConfigDuration,
}

/// The rule for the load by other programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoadRule {
    /// Whether the rule is heeded.
    pub heed: bool,
    /// The unit of the two thresholds.
    pub of: Whole,
    /// The load above which tasks are suspended.
    pub busy_above: f64,
    /// The time that the load must be above `busy_above` for that.
    pub busy_after: ConfigDuration,
    /// The load below which tasks are thawed.
    pub free_below: f64,
    /// The time that the load must be below `free_below` for that.
    pub free_after: ConfigDuration,
}

/// The unit of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Whole {
    /// One logical processor: 1.5 is one and a half of them.
    Processor,
    /// All logical processors together: 1 is all of them.
    Host,
}

/// The rule for scarce memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryRule {
    /// Whether the rule is heeded.
    pub heed: bool,
    /// The available part of the memory below which tasks are suspended.
    pub available_below: f64,
    /// The available part of the memory above which they are thawed.
    pub available_above: f64,
    /// The part of the time that programs wait for memory, above which tasks are suspended.
    pub pressure_above: f64,
    /// The part of the time that programs wait for memory, below which they are thawed.
    pub pressure_below: f64,
    /// The time that both must be well before tasks are thawed.
    pub free_after: ConfigDuration,
    /// The time that memory may be short while tasks are suspended until they are given back;
    /// `0s`: for ever.
    pub evict_after: ConfigDuration,
}

/// The rule for running on a battery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BatteryRule {
    /// Whether the rule is heeded.
    pub heed: bool,
    /// The charge above which tasks run on a battery, from 0 to 1; 1: they never do.
    pub charge_above: f64,
    /// The time that such a charge, or mains, must have lasted before tasks are thawed.
    pub resume_after: ConfigDuration,
}

/// The rule for programs that are to have the host for themselves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramsRule {
    /// Whether the rule is heeded.
    pub heed: bool,
    /// The time without any of them before tasks are thawed.
    pub resume_after: ConfigDuration,
}

impl Default for OwnerRules {
    fn default() -> Self {
        Self {
            slots_when_active: 0,
            evict_after: ConfigDuration::from_secs(900),
            first_watch: ConfigDuration::from_secs(10),
            hours: Hours::default(),
            pause_files: Vec::new(),
            cpu_limit: 1.0,
            memory_share_idle: 0.75,
            memory_share_in_use: 0.25,
            disk_share: 0.25,
            input: InputRule::default(),
            load: LoadRule::default(),
            memory: MemoryRule::default(),
            battery: BatteryRule::default(),
            programs: ProgramsRule::default(),
        }
    }
}

impl Default for InputRule {
    fn default() -> Self {
        Self {
            heed: true,
            idle: ConfigDuration::from_secs(180),
            resume: ConfigDuration::from_secs(180),
        }
    }
}

impl Default for LoadRule {
    fn default() -> Self {
        Self {
            heed: true,
            of: Whole::Processor,
            busy_above: 0.5,
            busy_after: ConfigDuration::from_secs(10),
            free_below: 0.25,
            free_after: ConfigDuration::from_secs(60),
        }
    }
}

impl Default for MemoryRule {
    fn default() -> Self {
        Self {
            heed: true,
            available_below: 0.10,
            available_above: 0.15,
            pressure_above: 0.20,
            pressure_below: 0.05,
            free_after: ConfigDuration::from_secs(60),
            evict_after: ConfigDuration::from_secs(60),
        }
    }
}

impl Default for BatteryRule {
    fn default() -> Self {
        Self {
            heed: true,
            charge_above: 1.0,
            resume_after: ConfigDuration::from_secs(30),
        }
    }
}

impl Default for ProgramsRule {
    fn default() -> Self {
        Self {
            heed: true,
            resume_after: ConfigDuration::from_secs(30),
        }
    }
}

/// The slots and the memory of the host, and the memory limit of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostSize {
    /// The number of slots as configured.
    pub slots: u32,
    /// The number of logical processors.
    pub cores: u32,
    /// The main memory, in bytes; 0 if unknown.
    pub memory: u64,
    /// The memory that the worker and its tasks can have at most, in bytes: less than `memory` in a
    /// container, or a service with a limit.
    pub memory_bound: u64,
    /// The memory that each task may take, in bytes; 0: no limit.
    pub memory_per_task: u64,
}

impl HostSize {
    /// Returns the memory that tasks may have together by this share of the host's, in bytes. Of a
    /// bound on the worker itself they leave it a sixteenth, and at least `OWN_MEMORY`, as far as
    /// that is not more than half.
    pub fn lent_memory(&self, share: f64) -> u64 {
        let part = (share * self.memory as f64) as u64;
        if self.memory_bound < self.memory {
            let own = (self.memory_bound / 16).max(OWN_MEMORY);
            part.min(self.memory_bound - own.min(self.memory_bound / 2))
        } else {
            part
        }
    }
}

impl OwnerRules {
    /// Returns the rules for a machine that nobody sits at: only switches and hours count, as in
    /// `configs/worker-dedicated.toml`.
    pub fn dedicated() -> Self {
        let mut rules = Self {
            first_watch: ConfigDuration::ZERO,
            memory_share_idle: 1.0,
            disk_share: 1.0,
            ..Self::default()
        };
        rules.memory_share_in_use = 1.0;
        rules.input.heed = false;
        rules.load.heed = false;
        rules.memory.heed = false;
        rules.battery.heed = false;

        rules.programs.heed = false;
        rules
    }

    /// Whether sensors of this topic matter.
    pub fn heeds(&self, topic: Topic) -> bool {
        match topic {
            Topic::Input => self.input.heed,
            Topic::Load => self.load.heed,
            Topic::Memory => self.memory.heed,
            Topic::Power => self.battery.heed,
            Topic::Programs => self.programs.heed,
            Topic::Switch => true,
        }
    }

    /// Returns the time that a task may be suspended; `None`: for ever.
    pub fn patience(&self) -> Option<Span> {
        limit(self.evict_after)
    }

    /// Returns the number of slots for tasks while the owner is away: at least one, and more than
    /// processors if the owner asks for them and gives all processors.
    pub fn slots_idle(&self, room: &HostSize) -> u32 {
        let processors = if self.cpu_limit < 1.0 {
            (self.cpu_limit * f64::from(room.cores)).floor() as u32
        } else {
            u32::MAX
        };
        room.slots
            .min(processors)
            .min(fitting(self.memory_share_idle, room))
            .max(1)
    }

    /// Returns the number of slots that stay in use while the owner is there.
    pub fn slots_in_use(&self, room: &HostSize) -> u32 {
        self.slots_when_active
            .min(self.slots_idle(room))
            .min(fitting(self.memory_share_in_use, room))
    }

    /// Returns the bytes that the cache of inputs may take: half of the worker's share of a disk of
    /// `disk` bytes, and at most `limit`.
    pub fn cache_bytes(&self, limit: u64, disk: Option<u64>) -> u64 {
        disk.map_or(limit, |disk| {
            limit.min((self.disk_share * disk as f64 / 2.0) as u64)
        })
    }

    /// Returns the bytes that the directory of each of `slots` tasks may take: an equal part of the
    /// other half of the worker's share of a disk of `disk` bytes, and at most `limit` (0: no
    /// limit).
    pub fn task_bytes(&self, limit: u64, disk: Option<u64>, slots: u32) -> u64 {
        let Some(disk) = disk else { return limit };
        let part = (self.disk_share * disk as f64 / 2.0 / f64::from(slots.max(1))) as u64;
        if limit == 0 {
            part.max(1)
        } else {
            limit.min(part.max(1))
        }
    }

    /// Checks every value; the error names the key and its valid range.
    ///
    /// # Errors
    /// If a value is out of its range, or two do not go together.
    pub fn check(&self) -> Result<(), String> {
        let input = &self.input;
        let load = &self.load;
        let memory = &self.memory;

        for (key, part) in [
            ("memory_share_in_use", self.memory_share_in_use),
            ("memory.available_below", memory.available_below),
            ("memory.available_above", memory.available_above),
            ("memory.pressure_above", memory.pressure_above),
            ("memory.pressure_below", memory.pressure_below),
            ("battery.charge_above", self.battery.charge_above),
        ] {
            held(key, part, (0.0..=1.0).contains(&part), "from 0 to 1")?;
        }

        for (key, part) in [
            ("cpu_limit", self.cpu_limit),
            ("memory_share_idle", self.memory_share_idle),
            ("disk_share", self.disk_share),
        ] {
            held(
                key,
                part,
                part > 0.0 && part <= 1.0,
                "above 0 and at most 1",
            )?;
        }

        let resume = input.resume;
        held(
            "input.resume",
            resume,
            resume > ConfigDuration::ZERO && resume <= input.idle,
            "above 0s and at most input.idle",
        )?;

        let busy = load.busy_above;
        let free = load.free_below;

        held(
            "load.busy_above",
            busy,
            busy > 0.0 && busy.is_finite(),
            "above 0",
        )?;

        held(
            "load.free_below",
            free,
            free > 0.0 && free <= busy,
            "above 0 and at most load.busy_above",
        )?;

        let above = memory.available_above;
        held(
            "memory.available_above",
            above,
            above >= memory.available_below,
            "at least memory.available_below",
        )?;

        let below = memory.pressure_below;
        held(
            "memory.pressure_below",
            below,
            below <= memory.pressure_above,
            "at most memory.pressure_above",
        )
    }
}

fn held(key: &str, value: impl Display, holds: bool, wanted: &str) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(format!("owner.{key} is {value}, and must be {wanted}"))
    }
}

/// Returns the number of tasks that fit in this part of the memory; `u32::MAX` if memory or the
/// limit of a task is unknown.
fn fitting(share: f64, room: &HostSize) -> u32 {
    if room.memory == 0 || room.memory_per_task == 0 {
        return u32::MAX;
    }
    u32::try_from(room.lent_memory(share) / room.memory_per_task).unwrap_or(u32::MAX)
}

/// Makes a limit; no time at all gives `None`, no limit.
pub(super) fn limit(time: ConfigDuration) -> Option<Span> {
    (time > ConfigDuration::ZERO).then(|| time.span())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_no_more_than_processors_and_memory_allow_and_never_none() {
        let room = HostSize {
            slots: 8,
            cores: 8,
            memory: 16 << 30,
            memory_bound: 16 << 30,
            memory_per_task: 0,
        };

        let rules = OwnerRules {
            slots_when_active: 4,
            ..OwnerRules::default()
        };
        assert_eq!((rules.slots_idle(&room), rules.slots_in_use(&room)), (8, 4));

        let half = OwnerRules {
            cpu_limit: 0.5,
            ..rules.clone()
        };
        assert_eq!((half.slots_idle(&room), half.slots_in_use(&room)), (4, 4));
        let many = HostSize { slots: 20, ..room };
        assert_eq!((rules.slots_idle(&many), half.slots_idle(&many)), (20, 4));

        let little = OwnerRules {
            cpu_limit: 0.01,
            ..rules.clone()
        };
        assert_eq!(
            (little.slots_idle(&room), little.slots_in_use(&room)),
            (1, 1)
        );

        // Three quarters of 16 GiB hold six tasks of 2 GiB, a quarter two.
        let limited = HostSize {
            memory_per_task: 2 << 30,
            ..room
        };
        assert_eq!(
            (rules.slots_idle(&limited), rules.slots_in_use(&limited)),
            (6, 2)
        );

        let unknown = HostSize {
            memory: 0,
            memory_bound: 0,
            ..limited
        };
        assert_eq!(
            (rules.slots_idle(&unknown), rules.slots_in_use(&unknown)),
            (8, 4)
        );
        assert_eq!(OwnerRules::default().slots_in_use(&room), 0);
    }

    #[test]
    fn a_share_is_one_of_the_hosts_memory_and_a_bound_on_the_worker_is_not_shared_once_more() {
        let gib = |n: u64| n << 30;
        let free = HostSize {
            slots: 8,
            cores: 8,
            memory: gib(16),
            memory_bound: gib(16),
            memory_per_task: 0,
        };
        assert_eq!(free.lent_memory(0.75), gib(12));
        assert_eq!(free.lent_memory(1.0), gib(16));

        // The service of a package has three quarters, of which the worker itself takes some.
        let service = HostSize {
            memory_bound: gib(12),
            ..free
        };
        assert_eq!(service.lent_memory(0.75), gib(12) / 16 * 15);
        assert_eq!(service.lent_memory(1.0), gib(12) / 16 * 15);
        assert_eq!(service.lent_memory(0.25), gib(4));

        // In a small container the worker needs more than its sixteenth.
        for (mib, lent) in [(512, 448), (256, 192), (64, 32)] {
            let container = HostSize {
                memory_bound: mib << 20,
                ..free
            };
            assert_eq!(container.lent_memory(0.75), lent << 20);
        }
    }

    #[test]
    fn the_cache_and_all_tasks_together_stay_within_the_share_of_the_disk() {
        let rules = OwnerRules {
            disk_share: 0.25,
            ..OwnerRules::default()
        };
        assert_eq!(
            (
                rules.cache_bytes(100, Some(400)),
                rules.task_bytes(100, Some(400), 2)
            ),
            (50, 25)
        );

        assert_eq!(
            (
                rules.cache_bytes(100, Some(8_000)),
                rules.task_bytes(100, Some(8_000), 2)
            ),
            (100, 100)
        );

        // No limit of a task's own is no reason to fill the disk; an unknown disk is.
        assert_eq!(
            (
                rules.task_bytes(0, Some(8_000), 2),
                rules.task_bytes(0, Some(0), 2)
            ),
            (500, 1)
        );

        assert_eq!(
            (
                rules.cache_bytes(100, None),
                rules.task_bytes(100, None, 2),
                rules.task_bytes(0, None, 2)
            ),
            (100, 100, 0)
        );
    }

    #[test]
    fn a_contradiction_is_refused_by_its_key() {
        type Spoil = fn(&mut OwnerRules);
        let cases: [(&str, Spoil); 9] = [
            ("owner.cpu_limit", |r| r.cpu_limit = 0.0),
            ("owner.cpu_limit", |r| r.cpu_limit = f64::NAN),
            ("owner.input.resume", |r| {
                r.input.resume = ConfigDuration::ZERO;
            }),
            ("owner.input.resume", |r| {
                r.input.resume = ConfigDuration::from_secs(181);
            }),
            ("owner.load.free_below", |r| r.load.free_below = 0.6),
            ("owner.load.busy_above", |r| {
                r.load.busy_above = f64::INFINITY;
            }),
            ("owner.memory.available_above", |r| {
                r.memory.available_above = 0.05;
            }),
            ("owner.memory.pressure_below", |r| {
                r.memory.pressure_below = 0.9;
            }),
            ("owner.battery.charge_above", |r| {
                r.battery.charge_above = 1.5;
            }),
        ];
        for (key, spoil) in cases {
            let mut rules = OwnerRules::default();
            assert_eq!(rules.check(), Ok(()));
            spoil(&mut rules);
            let error = rules.check().unwrap_err();
            assert!(
                error.starts_with(key) && error.contains("must be"),
                "{error}"
            );
        }

        assert_eq!(OwnerRules::dedicated().check(), Ok(()));
    }
}
