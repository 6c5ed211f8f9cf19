//! Fills in the report of a worker to its owner, [`StatusReport`].

use common::attempt::HeldAttempt;
use common::host::HostFacts;
use common::owner::{AttemptReport, DayReport, SensorReport, StatusReport, Why};
use common::site::SiteReport;
use common::update::UpdateReport;
use common::{Span, Time};

use crate::machine::Machine;
use crate::owner::guard::Guard;
use crate::owner::policy::{Decision, Watched};
use crate::owner::sight::{Reading, Sight, Topic};

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
    /// The reason why the master gives it no new tasks, if so.
    pub(crate) out_of_service: Option<&'a str>,
    pub(crate) policy: &'a Guard,
    pub(crate) machine: &'a Machine,
    /// Whether it passes inputs on, and the bytes that it has sent and got so.
    pub(crate) sharing: (String, (u64, u64)),
    /// The day so far.
    pub(crate) today: DayReport,
    /// The settings from the master.
    pub(crate) site: SiteReport,
    /// New programs from the master.
    pub(crate) update: UpdateReport,
}

impl ReportSources<'_> {
    /// Makes the report at this time.
    pub(crate) fn report(self, now: Time) -> StatusReport {
        let (since, decision) = self.policy.decided();
        let why = self.policy.why().into_iter();
        let sensors = self.policy.sensors().iter();
        let (shares_inputs, (inputs_sent_bytes, inputs_from_hosts_bytes)) = self.sharing;
        StatusReport {
            host: self.host.to_owned(),
            master: self.master.to_owned(),
            connected: self.connected.0,
            connected_for_s: now.since(self.connected.1).secs(),
            silent_for_s: self.silent_for.secs(),
            not_connected_because: self.out.map(str::to_owned),
            out_of_service: self.out_of_service.map(str::to_owned),
            decision: word(decision).to_owned(),
            reason: decision.reason().map(|reason| reason.to_string()),
            decided_for_s: now.since(since).secs(),
            paused_until: None,
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
            today: Some(self.today),
            site: Some(self.site),
            update: Some(self.update),
            version: common::update::program_version().to_owned(),
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
        Phase::Ended => (
            "ended",
            Some("the master has not confirmed its result yet".to_owned()),
        ),
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
        Reading::Program(None) => "no program that is to have the host for itself runs".to_owned(),
        Reading::Paused(Some(switch)) => format!("paused by {switch}"),
        Reading::Paused(None) => "not paused".to_owned(),
    }
}
