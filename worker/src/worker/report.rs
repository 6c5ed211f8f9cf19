//! Fills in the report of a worker to its owner, [`StatusReport`].

use common::attempt::HeldAttempt;
use common::owner::{AttemptReport, SensorReport, StatusReport, Why};
use common::{Span, Time};

use super::Shell;
use crate::owner::policy::{Decision, Watched};
use crate::owner::sight::{Reading, Sight, Topic};

impl Shell {
    /// Returns the state of the worker, for its owner.
    pub(super) fn report(&mut self) -> StatusReport {
        let now = self.now();
        let today = self.day.report();
        let (since, decision) = self.policy.decided();
        let why = self.policy.why().into_iter();
        let sensors = self.policy.sensors().iter();
        let held = self.engine.machine().held(now);
        let slots = self.facts.slots;
        let uplink = self.uplink.as_ref();
        let silent_for = uplink.map_or(Span::ZERO, |(uplink, _)| uplink.silent_for());
        let (inputs_sent_bytes, inputs_from_hosts_bytes) = self.peers.bytes();

        StatusReport {
            host: self.link.name.clone(),
            master: self.link.master.clone(),
            connected: uplink.is_some(),
            connected_for_s: now.since(self.turned).secs(),
            silent_for_s: silent_for.secs(),
            not_connected_because: self.out.clone(),
            out_of_service: self.out_of_service.clone(),
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
            attempts: held.iter().map(attempt_report).collect(),
            slots,
            slots_usable: decision.slots(slots),
            confinement: self.facts.confinement.to_string(),
            shares_inputs: self.peers.state(),
            inputs_sent_bytes,
            inputs_from_hosts_bytes,
            today: Some(today),
            site: Some(self.site.report()),
            update: Some(self.update.report()),
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

    let seen_at = watched.sight.as_ref().map(|(at, _)| *at);
    SensorReport {
        sensor: watched.name.clone(),
        topic: topic.to_owned(),
        state: state.to_owned(),
        sees,
        ago_s: seen_at.map(|at| now.since(at).secs()),
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
