//! The state of a worker, as it reports it to its owner. Every value is plain and has its unit in
//! its name; the names are stable.

use common::attempt::HeldAttempt;
use common::host::HostFacts;
use common::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::owner::policy::{Decision, OwnerPolicy, Watched};
use crate::owner::sight::{Reading, Sight, Topic};

/// The state of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// The host's name in its identity.
    pub host: String,
    /// The master's address.
    pub master: String,
    /// Whether it is connected to the master.
    pub connected: bool,
    /// The time that it has, or has not, been connected, in seconds.
    pub connected_for_s: f64,
    /// The time for which nothing has come from the master over the connection, in seconds; 0 while
    /// it answers.
    #[serde(default)]
    pub silent_for_s: f64,
    /// The reason why it is not connected, if that is known.
    pub not_connected_because: Option<String>,
    /// The decision on what tasks may do: `run`, `yield` (in some slots), `freeze`, `evict`.
    pub decision: String,
    /// The reason why tasks may not use everything, if so: a word of `YieldReason`.
    pub reason: Option<String>,
    /// The time since the last change of the decision, in seconds.
    pub decided_for_s: f64,
    /// Every reason that holds, with a sentence; the first one is decisive.
    pub why: Vec<Why>,
    /// The sensors with their last sights.
    pub sensors: Vec<SensorReport>,
    /// The attempts that it holds, including finished ones whose results are on their way.
    pub attempts: Vec<AttemptReport>,
    /// The number of tasks that it runs at a time.
    pub slots: u32,
    /// The number of slots that the owner lets tasks use now.
    pub slots_usable: u32,
    /// The level at which every task is confined.
    pub confinement: String,
    /// Whether it passes inputs on to other hosts: `yes`, or the reason why not.
    #[serde(default)]
    pub shares_inputs: String,
    /// The bytes of inputs that it has sent to other hosts since its start.
    #[serde(default)]
    pub inputs_sent_bytes: u64,
    /// The bytes of inputs that came from other hosts since its start.
    #[serde(default)]
    pub inputs_from_hosts_bytes: u64,
    /// The program's version.
    pub version: String,
}

/// A reason for closing slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// The reason, as a word of `YieldReason`.
    pub reason: String,
    /// A sentence with the sensor, its value, and the condition under which tasks are thawed.
    pub says: String,
}

/// A sensor and its last sight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SensorReport {
    /// Its name.
    pub sensor: String,
    /// The topic that it looks at.
    pub topic: String,
    /// `seen`, `absent`, `unknown`, or `waiting` before its first look.
    pub state: String,
    /// Its last sight, in words.
    pub sees: String,
    /// The time since it last reported something new, in seconds.
    pub ago_s: Option<f64>,
}

/// An attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptReport {
    /// The attempt.
    pub attempt: String,
    /// `queued`, `staging`, `running`, `suspended`, `ended`.
    pub phase: String,
    /// The reason of its suspension, if it is suspended.
    pub reason: Option<String>,
    /// The time that it has run, without suspensions, in seconds.
    pub run_s: f64,
    /// The length of its present suspension, in seconds.
    pub suspended_s: f64,
    /// The part done, if its program reports it.
    pub progress: Option<f32>,
}

/// The sources of a report.
pub(crate) struct ReportSources<'a> {
    pub(crate) host: &'a str,
    pub(crate) master: &'a str,
    pub(crate) facts: &'a HostFacts,
    /// Whether the worker is connected to the master, and the time since which that is so.
    pub(crate) connected: (bool, Time),
    /// The time for which nothing has come over the connection.
    pub(crate) silent_for: Span,
    /// The reason why it is not connected, if so.
    pub(crate) out: Option<&'a str>,
    pub(crate) policy: &'a OwnerPolicy,
    pub(crate) machine: &'a Machine,
    /// Whether it passes inputs on, and the bytes that it has sent and got so.
    pub(crate) sharing: (String, (u64, u64)),
}

impl ReportSources<'_> {
    /// Makes the report at this time.
    pub(crate) fn report(&self, now: Time) -> StatusReport {
        let (since, decision) = self.policy.decided();
        let why = self.policy.why().into_iter();
        let sensors = self.policy.sensors().iter();
        let (shares_inputs, (inputs_sent_bytes, inputs_from_hosts_bytes)) = self.sharing.clone();
        StatusReport {
            host: self.host.to_owned(),
            master: self.master.to_owned(),
            connected: self.connected.0,
            connected_for_s: now.since(self.connected.1).secs(),
            silent_for_s: self.silent_for.secs(),
            not_connected_because: self.out.map(str::to_owned),
            decision: word(decision).to_owned(),
            reason: decision.reason().map(|reason| reason.to_string()),
            decided_for_s: now.since(since).secs(),
            why: why
                .map(|finding| Why {
                    reason: finding.reason.to_string(),
                    says: finding.says,
                })
                .collect(),
            sensors: sensors.map(|sensor| sensor_report(sensor, now)).collect(),
            attempts: self.machine.held(now).iter().map(attempt_report).collect(),
            slots: self.facts.slots,
            slots_usable: decision.slots(self.facts.slots),
            confinement: self.facts.confinement.to_string(),
            shares_inputs,
            inputs_sent_bytes,
            inputs_from_hosts_bytes,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Run => "run",
        Decision::Yield(..) => "yield",
        Decision::Freeze(_) => "freeze",
        Decision::Evict(_) => "evict",
    }
}

fn attempt_report(held: &HeldAttempt) -> AttemptReport {
    use common::attempt::Phase;
    let (phase, reason) = match held.phase {
        Phase::Queued => ("queued", None),
        Phase::Staging => ("staging", None),
        Phase::Running => ("running", None),
        Phase::Suspended(reason) => ("suspended", Some(reason.to_string())),
        Phase::Ended => ("ended", None),
        Phase::Ready => ("ready", None),
        Phase::Held => ("suspended", Some("another task goes first".to_owned())),
    };

    AttemptReport {
        attempt: held.attempt.to_string(),
        phase: phase.to_owned(),
        reason,
        run_s: held.ran.secs(),
        suspended_s: held.frozen_for.secs(),
        progress: held.progress,
    }
}

fn sensor_report(watched: &Watched, now: Time) -> SensorReport {
    let topic = match watched.topic {
        Topic::Input => "input",
        Topic::Load => "load",
        Topic::Memory => "memory",
        Topic::Power => "power",
        Topic::Programs => "programs",
        Topic::Switch => "switch",
    };

    let (state, sees) = match &watched.sight {
        None => ("waiting", "has not looked yet".to_owned()),
        Some((at, Sight::Seen(reading))) => ("seen", words(reading, now.since(*at))),
        Some((_, Sight::Absent(how))) => ("absent", how.clone()),
        Some((_, Sight::Unknown(why))) => ("unknown", why.clone()),
    };

    let ago_s = watched.sight.as_ref().map(|(at, _)| now.since(*at).secs());
    let sensor = watched.name.clone();
    let topic = topic.to_owned();
    let state = state.to_owned();
    SensorReport {
        sensor,
        topic,
        state,
        sees,
        ago_s,
    }
}

/// Describes a reading that is `ago` old.
fn words(reading: &Reading, ago: Span) -> String {
    let per_cent = |part: f64| format!("{:.0} %", part * 100.0);
    match reading {
        Reading::Idle(idle) => format!("nobody has touched anything for {}", *idle + ago),
        Reading::Load(load) => format!("other programs use {} of one processor", per_cent(*load)),
        Reading::Memory {
            available,
            pressure,
        } => {
            let available = per_cent(*available);
            let pressure = per_cent(*pressure);
            format!(
                "{available} of the memory available, programs wait for it {pressure} of the time"
            )
        }
        Reading::Battery(Some(charge)) => format!("on battery, {} charged", per_cent(*charge)),
        Reading::Battery(None) => "on mains".to_owned(),
        Reading::Program(Some(program)) => format!("{program} runs"),
        Reading::Program(None) => "none of the listed programs runs".to_owned(),
        Reading::Paused(Some(switch)) => format!("paused by {switch}"),
        Reading::Paused(None) => "not paused".to_owned(),
    }
}
