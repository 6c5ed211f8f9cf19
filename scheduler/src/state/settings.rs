//! The scheduler's few settings. Policies are set by job, from `policy::catalogue`.

use common::Span;
use serde::{Deserialize, Serialize};

use crate::policy::Policy;
use crate::policy::policing::Policing;
use crate::state::shares::Sharing;

/// The scheduler's time limits, bounds and options. Spans are in microseconds, as everywhere in the
/// scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// A host that is silent for this long gets no new work (default 150 s).
    pub suspect_after: Span,
    /// A host whose connection has been lost for this long counts as silent, if by then its attempts
    /// are more likely gone than not (default 1 s).
    pub rescue_after: Span,
    /// A host that is silent for this long is lost, and its attempts with it (default 15 min).
    pub lease: Span,
    /// The work of short tasks that each slot may hold ready beside the one it runs (default 100
    /// ms; 0: none). A host that delivers nothing for twenty times as long loses what it holds
    /// ready.
    pub prefetch_window: Span,
    /// The most attempts that a host may hold beyond its slots (default 1,024).
    pub max_prefetch: u32,
    /// The most attempts of one task that may live at a time (default 6).
    pub max_copies: u32,
    /// The time that starting a task takes beside its work, on any host, as predictions take it
    /// (default 0; Kondo et al. 2004, section 3.1, have 40 s).
    pub start_cost: Span,
    /// Whether the start cost is measured, so that `start_cost` is only what is taken before the
    /// first attempt (default no: simulated hosts have theirs); the master says yes.
    pub measures_starts: bool,
    /// The interval of hosts' reports, as predictions take it (default 60 s).
    pub heartbeat: Span,
    /// Whether a slot whose attempt was stopped becomes free only once its host reports without it
    /// (as in Kondo et al. 2004, where hosts learn of it with their next heartbeat), and not at
    /// once (default).
    pub stops_when_reported: bool,
    /// The master's secret that decides which results are audited (default 0).
    pub audit_seed: u64,
    /// The attempts beyond their estimates that may be killed for a bag with a deadline, whatever
    /// the policies of their jobs say; `None` (default): as those say.
    pub policing: Option<Policing>,
    /// Whether hosts are held responsible for failures there: retries go elsewhere, an attempt that
    /// cannot be started is not charged to its task, and hosts with nothing but failures are
    /// benched for a while. No paper has this (default: no); the master says yes.
    pub benching: bool,
    /// Whether to learn how predictions turn out (default yes): the completion of each job is
    /// predicted at every `JobStage`, which costs more than scheduling a job of 400 tasks does
    /// otherwise. Runs whose predictions nobody asks for say no.
    pub learns_errors: bool,
    /// The division of slots among users; `None` (default): jobs of all users wait in one queue, by
    /// priority and arrival.
    pub sharing: Option<Sharing>,
}

impl Settings {
    /// Returns the interval at which hosts report attempts of jobs under this policy: the policy's
    /// own, or that of heartbeats.
    pub(crate) fn reports(&self, policy: &Policy) -> Span {
        policy.reports().unwrap_or(self.heartbeat)
    }

    /// Returns the interval between checks of a backlog: ten windows, since one window is the time
    /// that the backlog is expected to take.
    pub(crate) fn backlog_look(&self) -> Span {
        Span(self.prefetch_window.0.saturating_mul(10).max(1))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            suspect_after: Span::from_secs(150),
            rescue_after: Span::from_secs(1),
            lease: Span::from_secs(15 * 60),
            prefetch_window: Span::from_millis(100),
            max_prefetch: 1_024,
            max_copies: 6,
            start_cost: Span::ZERO,
            measures_starts: false,
            heartbeat: Span::from_secs(60),
            stops_when_reported: false,
            audit_seed: 0,
            policing: None,
            benching: false,
            learns_errors: true,
            sharing: None,
        }
    }
}
