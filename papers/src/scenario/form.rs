//! The forms of scenario files ([`Scenario`]) and their reader.

use common::Speed;
use scheduler::policy::{LimitSource, Policy};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::sets::Sets;
use super::world::OnGrid;

/// A scenario.
#[derive(Debug, Clone, PartialEq)]
pub enum Scenario {
    /// The calendar's answer on a new bag.
    Calendar(CalendarEntry),
    /// The rules of policing that would kill a task.
    Kill(Kill),
    /// The interval of estimates of a quality.
    Interval(EstimateInterval),
    /// Bags with deadlines over time.
    Bags(Bags),
    /// Sets of tasks that users disclose, request and cancel.
    Sets(Sets),
    /// Jobs on hosts that come and go.
    Grid(OnGrid),
}

/// An entry of `calendar`. Times in seconds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct CalendarEntry {
    /// The time at which the new bag comes.
    pub now: f64,
    /// The number of hosts.
    pub hosts: u32,
    /// Start and estimate of each running task.
    #[serde(default)]
    pub running_start_est: Vec<(f64, f64)>,
    /// Estimates of the waiting tasks.
    #[serde(default)]
    pub waiting_est: Vec<f64>,
    /// Estimates of the new bag's tasks.
    pub new_est: Vec<f64>,
    /// The deadline of the new bag, as the time after `now`; none means any time.
    #[serde(default)]
    pub deadline: Option<f64>,
    /// A policy of the catalogue; CALENDAR by default.
    #[serde(default)]
    pub policy: Option<String>,
}

/// An entry of `kill`. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Kill {
    /// The estimate of the task.
    pub est: f64,
    /// The time for which it has run.
    pub elapsed: f64,
}

/// An entry of `estimate_interval`. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct EstimateInterval {
    /// The run time.
    pub c: f64,
    /// The quality of the estimate.
    pub qoe: f64,
}

/// An entry of `bags`. Times in seconds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bags {
    /// The hosts, as a list of speeds or a number of hosts of speed 1.
    pub hosts: ScenarioHosts,
    /// A policy of the catalogue, with parameters; by default PROMISE without disturbances.
    #[serde(default)]
    pub policy: Option<String>,
    /// The bags.
    pub bags: Vec<OneBag>,
}

/// Hosts of a scenario.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum ScenarioHosts {
    /// This many hosts of speed 1.
    Equal(u32),
    /// One host of each speed.
    Speeds(Vec<f64>),
}

/// A bag of a scenario.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneBag {
    /// The time at which it comes.
    pub at: f64,
    /// The user who submits it.
    #[serde(default)]
    pub user: String,
    /// The deadline, as the time after `at`.
    #[serde(default)]
    pub deadline: Option<f64>,
    /// Estimate and run time of each task.
    pub tasks: Vec<(f64, f64)>,
}

/// The reasons why a file is no scenario.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadScenario {
    /// The file is no JSON.
    #[error("it is no JSON: {0}")]
    Json(String),
    /// The file is JSON of another form.
    #[error(
        "it holds none of `calendar`, `kill`, `estimate_interval`, `bags`, `scenarios` and `grids`, and is no entry of them"
    )]
    Unknown,
    /// An entry lacks fields of its kind.
    #[error("it looks like an entry of `{kind}`, and lacks {}", quoted(lacks))]
    Lacks {
        /// The kind of the entry.
        kind: &'static str,
        /// The missing fields.
        lacks: Vec<&'static str>,
    },
    /// An entry cannot be read.
    #[error("entry {number} of `{kind}`: {why}")]
    Entry {
        /// The kind of the entry.
        kind: &'static str,
        /// The number of the entry, counted from 1.
        number: usize,
        /// The cause.
        why: String,
    },
}

fn quoted(fields: &[&str]) -> String {
    fields
        .iter()
        .map(|field| format!("`{field}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The fields that an entry of each kind must have.
const FIELDS: [(&str, &[&str]); 6] = [
    ("kill", &["est", "elapsed"]),
    ("estimate_interval", &["c", "qoe"]),
    ("calendar", &["now", "hosts", "new_est"]),
    ("scenarios", &["policy", "servers", "sets", "think"]),
    ("grids", &["hosts", "jobs"]),
    ("bags", &["hosts", "bags"]),
];

/// Builds the error for an unknown form: guesses the intended kind, the one with the fewest missing
/// fields, if any of its fields is there.
fn unknown(value: &Value) -> BadScenario {
    let Some(fields) = value.as_object() else {
        return BadScenario::Unknown;
    };
    let there = |names: &[&'static str]| {
        names
            .iter()
            .filter(|name| fields.contains_key(**name))
            .count()
    };

    // These fields are optional, and only this kind has them.
    let calendar = ["running_start_est", "waiting_est"]
        .iter()
        .any(|name| fields.contains_key(*name));
    let likely = FIELDS
        .iter()
        .filter(|(kind, names)| there(names) > 0 || (calendar && *kind == "calendar"));
    let nearest = likely
        .min_by_key(|(kind, names)| (calendar && *kind != "calendar", names.len() - there(names)));

    nearest.map_or(BadScenario::Unknown, |(kind, names)| {
        let lacks = names
            .iter()
            .copied()
            .filter(|name| !fields.contains_key(*name))
            .collect();
        BadScenario::Lacks { kind, lacks }
    })
}

/// The kinds of entries, each with a field that no other kind has.
const KINDS: [(&str, &str); 6] = [
    ("kill", "elapsed"),
    ("estimate_interval", "qoe"),
    ("calendar", "new_est"),
    ("scenarios", "sets"),
    ("grids", "jobs"),
    ("bags", "bags"),
];

/// Reads the scenarios of a file, each with its kind.
///
/// # Errors
/// If there are none, or one cannot be read.
pub fn read(text: &str) -> Result<Vec<(&'static str, Scenario)>, BadScenario> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| BadScenario::Json(error.to_string()))?;

    let alone = |value: &Value| value.as_object().and_then(kind_of);
    if let Some(kind) = alone(&value) {
        return Ok(vec![(kind, entry(kind, 1, &value)?)]);
    }

    let mut found = Vec::new();
    if let Value::Array(entries) = &value {
        for (number, value) in (1..).zip(entries) {
            let kind = alone(value).ok_or_else(|| unknown(value))?;
            found.push((kind, entry(kind, number, value)?));
        }
    }

    for (kind, _) in KINDS {
        let Some(Value::Array(entries)) = value.get(kind) else {
            continue;
        };
        for (number, value) in (1..).zip(entries) {
            found.push((kind, entry(kind, number, value)?));
        }
    }

    if found.is_empty() {
        Err(unknown(&value))
    } else {
        Ok(found)
    }
}

fn kind_of(fields: &Map<String, Value>) -> Option<&'static str> {
    let has = |(kind, field): &&(&str, &'static str)| match *kind {
        // `bags` names both a list of entries and a field of one entry.
        "bags" => fields.contains_key("hosts") && fields.contains_key("bags"),
        _ => fields.contains_key(*field),
    };
    KINDS.iter().find(has).map(|(kind, _)| *kind)
}

fn entry(kind: &'static str, number: usize, value: &Value) -> Result<Scenario, BadScenario> {
    let bad = |why: String| BadScenario::Entry { kind, number, why };
    let read = |error: serde_json::Error| bad(error.to_string());
    let value = value.clone();
    let scenario = match kind {
        "kill" => Scenario::Kill(serde_json::from_value(value).map_err(read)?),
        "estimate_interval" => Scenario::Interval(serde_json::from_value(value).map_err(read)?),
        "calendar" => Scenario::Calendar(serde_json::from_value(value).map_err(read)?),
        "scenarios" => Scenario::Sets(serde_json::from_value(value).map_err(read)?),
        "grids" => Scenario::Grid(serde_json::from_value(value).map_err(read)?),
        _ => Scenario::Bags(serde_json::from_value(value).map_err(read)?),
    };
    scenario.check().map_err(bad)?;

    Ok(scenario)
}

/// The longest time that a scenario may have, in seconds.
const LONGEST_S: f64 = 1e9;

pub(super) fn check_time(name: &str, value: f64) -> Result<(), String> {
    (0.0..=LONGEST_S)
        .contains(&value)
        .then_some(())
        .ok_or_else(|| format!("{name} must be seconds between 0 and {LONGEST_S:e}, not {value}"))
}

impl Scenario {
    fn check(&self) -> Result<(), String> {
        match self {
            Scenario::Kill(Kill { est, elapsed }) => {
                check_time("est", *est)?;
                check_time("elapsed", *elapsed)
            }
            Scenario::Interval(EstimateInterval { c, qoe }) => {
                check_time("c", *c)?;
                (0.0..1.0)
                    .contains(qoe)
                    .then_some(())
                    .ok_or_else(|| format!("qoe must be at least 0 and less than 1, not {qoe}"))
            }
            Scenario::Calendar(calendar) => calendar.check(),
            Scenario::Bags(bags) => bags.check(),
            Scenario::Sets(sets) => sets.check(),
            Scenario::Grid(grid) => grid.check(),
        }
    }
}

impl CalendarEntry {
    fn check(&self) -> Result<(), String> {
        check_time("now", self.now)?;
        self.deadline
            .map_or(Ok(()), |deadline| check_time("deadline", deadline))?;
        self.waiting_est
            .iter()
            .chain(&self.new_est)
            .try_for_each(|estimate| check_time("an estimate", *estimate))?;

        for (start, estimate) in &self.running_start_est {
            check_time("a start", *start)?;
            check_time("an estimate", *estimate)?;
            if *start > self.now {
                return Err(format!(
                    "what runs cannot have started after now, at {start}"
                ));
            }
        }

        if self.running_start_est.len() > self.hosts as usize {
            return Err("more runs than there are hosts".to_owned());
        }
        if self.new_est.is_empty() {
            return Err("new_est has no tasks".to_owned());
        }

        check_hosts(self.hosts as usize)?;
        check_policy(self.policy.as_deref())
    }
}

impl ScenarioHosts {
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            ScenarioHosts::Equal(hosts) => check_hosts(*hosts as usize),
            ScenarioHosts::Speeds(speeds) => {
                check_hosts(speeds.len())?;
                let bad = speeds.iter().find_map(|speed| Speed::new(*speed).err());
                bad.map_or(Ok(()), |bad| Err(bad.to_string()))
            }
        }
    }
}

impl Bags {
    fn check(&self) -> Result<(), String> {
        self.hosts.check()?;
        let mut before = 0.0;
        for bag in &self.bags {
            check_time("at", bag.at)?;
            bag.deadline
                .map_or(Ok(()), |deadline| check_time("deadline", deadline))?;
            if bag.at < before {
                return Err(format!(
                    "bags must be in the order of their times, and {} comes after {before}",
                    bag.at
                ));
            }

            before = bag.at;
            if bag.tasks.is_empty() {
                return Err("a bag has no tasks".to_owned());
            }
            for (estimate, takes) in &bag.tasks {
                check_time("an estimate", *estimate)?;
                check_time("a run time", *takes)?;
            }
        }

        check_policy(self.policy.as_deref())
    }
}

/// The largest number of hosts of a scenario.
const MOST_HOSTS: usize = 100_000;

fn check_hosts(hosts: usize) -> Result<(), String> {
    (1..=MOST_HOSTS)
        .contains(&hosts)
        .then_some(())
        .ok_or_else(|| format!("there must be 1 to {MOST_HOSTS} hosts, not {hosts}"))
}

/// Looks up a policy, and refuses one that ends attempts at limits which it learns: workers heed
/// them, and the worlds of scenarios do not.
pub(super) fn policy(name: &str) -> Result<Policy, String> {
    let policy = scheduler::policy::parse(name).map_err(|why| why.to_string())?;
    let only_chooses = policy.limits == LimitSource::Windowed { killing: false };
    if policy.limits.learns() && !only_chooses {
        return Err(format!(
            "{name} learns limits, and no attempt of a scenario ends at one: give another policy, or limits=given; \
             deskgrid-lab reproduce gainaru runs policies with such limits"
        ));
    }

    Ok(policy)
}

fn check_policy(name: Option<&str>) -> Result<(), String> {
    let Some(name) = name else { return Ok(()) };
    let policy = policy(name)?;
    matches!(policy.admission, scheduler::policy::Admission::Calendar(_))
        .then_some(())
        .ok_or_else(|| {
            format!(
                "the policy {} promises no deadlines; PROMISE does",
                policy.name
            )
        })
}
