//! The settings that can come from the master ([`SiteRules`]), and how they bound the owner's own.
//! `configs/site.toml` has each of them.

use common::settings::ConfigDuration;
use serde::Deserialize;

use super::bounds::{AtLeast, AtMost, Cap, Off};
use crate::config::Config;
use crate::owner::policy::hours::Hours;
use crate::owner::rules::{
    BatteryRule, InputRule, LoadRule, MemoryRule, OwnerRules, ProgramsRule, Whole,
};

/// The keys of [`SiteRules`].
pub(super) const KEYS: [&str; 26] = [
    "slots",
    "memory_limit_bytes",
    "processes_limit",
    "disk_limit_bytes",
    "cache_limit_bytes",
    "share_inputs",
    "owner.slots_when_active",
    "owner.evict_after",
    "owner.hours",
    "owner.input.idle",
    "owner.input.resume",
    "owner.load.busy_above",
    "owner.load.busy_after",
    "owner.load.free_below",
    "owner.load.free_after",
    "owner.memory.available_below",
    "owner.memory.available_above",
    "owner.memory.pressure_above",
    "owner.memory.pressure_below",
    "owner.memory.free_after",
    "owner.memory.evict_after",
    "owner.battery.charge_above",
    "owner.battery.resume_after",
    "owner.programs.resume_after",
    "lend_gpus",
    "file_limit_bytes",
];

/// The settings of one text from the master. Each has the meaning that it has in a worker's own
/// file, and can only bound the owner's value.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SiteRules {
    slots: Option<Cap<u32>>,
    lend_gpus: Option<Off>,
    share_inputs: Option<Off>,
    memory_limit_bytes: Option<Cap<u64>>,
    processes_limit: Option<Cap<u64>>,
    disk_limit_bytes: Option<Cap<u64>>,
    file_limit_bytes: Option<Cap<u64>>,
    cache_limit_bytes: Option<AtMost<u64>>,
    owner: OwnerBounds,
}

/// The bounds on [`OwnerRules`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct OwnerBounds {
    slots_when_active: Option<AtMost<u32>>,
    evict_after: Option<Cap<ConfigDuration>>,
    hours: Option<Hours>,
    input: Option<InputBounds>,
    load: Option<LoadBounds>,
    memory: Option<MemoryBounds>,
    battery: Option<BatteryBounds>,
    programs: Option<ProgramsBounds>,
}

/// The bounds on an [`InputRule`], which is heeded where they are given.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct InputBounds {
    idle: Option<AtLeast<ConfigDuration>>,
    resume: Option<AtLeast<ConfigDuration>>,
}

/// The bounds on a [`LoadRule`], in processors.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LoadBounds {
    busy_above: Option<AtMost<f64>>,
    busy_after: Option<AtMost<ConfigDuration>>,
    free_below: Option<AtMost<f64>>,
    free_after: Option<AtLeast<ConfigDuration>>,
}

/// The bounds on a [`MemoryRule`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MemoryBounds {
    available_below: Option<AtLeast<f64>>,
    available_above: Option<AtLeast<f64>>,
    pressure_above: Option<AtMost<f64>>,
    pressure_below: Option<AtMost<f64>>,
    free_after: Option<AtLeast<ConfigDuration>>,
    evict_after: Option<Cap<ConfigDuration>>,
}

/// The bounds on a [`BatteryRule`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BatteryBounds {
    charge_above: Option<AtLeast<f64>>,
    resume_after: Option<AtLeast<ConfigDuration>>,
}

/// The bounds on a [`ProgramsRule`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ProgramsBounds {
    resume_after: Option<AtLeast<ConfigDuration>>,
}

impl SiteRules {
    /// Checks that each value is in its range.
    ///
    /// # Errors
    /// Names the key and the range.
    pub(super) fn check(&self) -> Result<(), String> {
        let part = |value: f64| (0.0..=1.0).contains(&value);
        let least = |key, bound: Option<AtLeast<f64>>| {
            in_range(key, bound.is_none_or(|bound| bound.is(part)), "from 0 to 1")
        };
        let most = |key, bound: Option<AtMost<f64>>| {
            in_range(key, bound.is_none_or(|bound| bound.is(part)), "from 0 to 1")
        };
        let load = |key, bound: Option<AtMost<f64>>| {
            let sound = |value: f64| value > 0.0 && value.is_finite();
            in_range(key, bound.is_none_or(|bound| bound.is(sound)), "above 0")
        };

        if let Some(bounds) = &self.owner.load {
            load("owner.load.busy_above", bounds.busy_above)?;
            load("owner.load.free_below", bounds.free_below)?;
        }
        if let Some(bounds) = &self.owner.memory {
            least("owner.memory.available_below", bounds.available_below)?;
            least("owner.memory.available_above", bounds.available_above)?;
            most("owner.memory.pressure_above", bounds.pressure_above)?;
            most("owner.memory.pressure_below", bounds.pressure_below)?;
        }
        if let Some(bounds) = &self.owner.battery {
            least("owner.battery.charge_above", bounds.charge_above)?;
        }

        match &self.owner.hours {
            Some(hours) if hours.always() => {
                Err("owner.hours has no window, which would be every hour; leave it out".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Bounds what the worker lends from its start on.
    pub(super) fn bound(&self, config: &mut Config) {
        let limit = |own: &mut u64, bound: Option<Cap<u64>>| *own = capped(*own, bound);
        if let Some(slots) = self.slots {
            config.slots = slots.with(config.slots_here());
        }

        limit(&mut config.memory_limit_bytes, self.memory_limit_bytes);
        limit(&mut config.processes_limit, self.processes_limit);
        limit(&mut config.disk_limit_bytes, self.disk_limit_bytes);
        limit(&mut config.file_limit_bytes, self.file_limit_bytes);
        config.cache_limit_bytes = most(true, config.cache_limit_bytes, self.cache_limit_bytes);

        let off = |own: &mut bool, off: Option<Off>| {
            *own = off.map_or(*own, |off| off.with(*own));
        };
        off(&mut config.lend_gpus, self.lend_gpus);
        off(&mut config.share_inputs, self.share_inputs);
    }

    /// Returns the stricter of these settings and the rules, on a host with this many processors.
    pub(super) fn strictest(&self, rules: OwnerRules, cores: u32) -> OwnerRules {
        let bounds = &self.owner;
        OwnerRules {
            slots_when_active: most(true, rules.slots_when_active, bounds.slots_when_active),
            evict_after: capped(rules.evict_after, bounds.evict_after),
            hours: match &bounds.hours {
                Some(hours) => rules.hours.within(hours),
                None => rules.hours.clone(),
            },
            input: with(&rules.input, bounds.input.as_ref(), InputBounds::bound),
            load: with(&rules.load, bounds.load.as_ref(), |bounds, own| {
                bounds.bound(own, cores)
            }),
            memory: with(&rules.memory, bounds.memory.as_ref(), MemoryBounds::bound),
            battery: with(
                &rules.battery,
                bounds.battery.as_ref(),
                BatteryBounds::bound,
            ),
            programs: with(
                &rules.programs,
                bounds.programs.as_ref(),
                ProgramsBounds::bound,
            ),
            ..rules
        }
    }
}

/// Passes a bound that is `sound`, in the range of its key.
fn in_range(key: &str, sound: bool, range: &str) -> Result<(), String> {
    sound
        .then_some(())
        .ok_or_else(|| format!("{key} must be {range}"))
}

/// Bounds a rule where there are bounds for it.
fn with<R: Clone, B>(own: &R, bounds: Option<&B>, bound: impl FnOnce(&B, &R) -> R) -> R {
    bounds.map_or_else(|| own.clone(), |bounds| bound(bounds, own))
}

/// Bounds a value from above. The bound itself holds where the owner does not heed the rule.
fn most<T: PartialOrd + Copy>(heed: bool, own: T, bound: Option<AtMost<T>>) -> T {
    bound.map_or(own, |bound| bound.with(heed.then_some(own)))
}

/// Bounds a value from below. The bound itself holds where the owner does not heed the rule.
fn least<T: PartialOrd + Copy>(heed: bool, own: T, bound: Option<AtLeast<T>>) -> T {
    bound.map_or(own, |bound| bound.with(heed.then_some(own)))
}

/// Bounds a value from above of which none (0) means that there is no limit.
fn capped<T: PartialOrd + Copy + Default>(own: T, bound: Option<Cap<T>>) -> T {
    bound.map_or(own, |bound| bound.with(own))
}

impl InputBounds {
    fn bound(&self, own: &InputRule) -> InputRule {
        let resume = least(own.heed, own.resume, self.resume);
        InputRule {
            heed: true,
            // Before the first task nobody waits for less than before a frozen one goes on.
            idle: least(own.heed, own.idle, self.idle).max(resume),
            resume,
        }
    }
}

impl LoadBounds {
    fn bound(&self, own: &LoadRule, cores: u32) -> LoadRule {
        let processors = |load: f64| match own.of {
            Whole::Processor => load,
            Whole::Host => load * f64::from(cores.max(1)),
        };
        let busy_above = most(own.heed, processors(own.busy_above), self.busy_above);
        let free_below = most(own.heed, processors(own.free_below), self.free_below);

        LoadRule {
            heed: true,
            of: Whole::Processor,
            busy_above,
            busy_after: most(own.heed, own.busy_after, self.busy_after),
            free_below: free_below.min(busy_above),
            free_after: least(own.heed, own.free_after, self.free_after),
        }
    }
}

impl MemoryBounds {
    fn bound(&self, own: &MemoryRule) -> MemoryRule {
        let available_below = least(own.heed, own.available_below, self.available_below);
        let available_above = least(own.heed, own.available_above, self.available_above);
        let pressure_above = most(own.heed, own.pressure_above, self.pressure_above);
        let pressure_below = most(own.heed, own.pressure_below, self.pressure_below);

        MemoryRule {
            heed: true,
            available_below,
            available_above: available_above.max(available_below),
            pressure_above,
            pressure_below: pressure_below.min(pressure_above),
            free_after: least(own.heed, own.free_after, self.free_after),
            evict_after: capped(own.evict_after, self.evict_after),
        }
    }
}

impl BatteryBounds {
    fn bound(&self, own: &BatteryRule) -> BatteryRule {
        BatteryRule {
            heed: true,
            charge_above: least(own.heed, own.charge_above, self.charge_above),
            resume_after: least(own.heed, own.resume_after, self.resume_after),
        }
    }
}

impl ProgramsBounds {
    fn bound(&self, own: &ProgramsRule) -> ProgramsRule {
        ProgramsRule {
            heed: true,
            resume_after: least(own.heed, own.resume_after, self.resume_after),
        }
    }
}
