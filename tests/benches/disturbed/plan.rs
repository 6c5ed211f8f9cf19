//! The cases: which disturbance hits which host when, and the least makespan that is possible then.

use std::fmt;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::contender::Ended;

/// The number of hosts, each with one slot.
pub(crate) const HOSTS: usize = 8;
/// The run times of tasks, in seconds.
pub(crate) const SIZES_S: [f64; 4] = [0.2, 1.0, 5.0, 30.0];
/// The least number of tasks, and the least time that all of them take, in seconds.
const LEAST_TASKS: usize = 4 * HOSTS;
const LEAST_S: f64 = 12.0;
/// The time that an owner stays, in seconds; and the speed of a host that is slow.
pub(crate) const STAY_S: f64 = 15.0;
pub(crate) const SLOW: f64 = 0.1;

/// The ways in which one host is disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disturbance {
    /// Every process of the host is killed.
    Killed,
    /// Every process of the host is stopped (SIGSTOP).
    Stopped,
    /// The task that runs there hangs; the next one does not.
    Hung,
    /// Packets are dropped in both directions.
    CutOff,
    /// The owner comes, and leaves after `STAY_S`.
    Owner,
    /// Tasks run at the speed `SLOW` from now on.
    Slow,
}

pub(crate) const DISTURBANCES: [Disturbance; 6] = [
    Disturbance::Killed,
    Disturbance::Stopped,
    Disturbance::Hung,
    Disturbance::CutOff,
    Disturbance::Owner,
    Disturbance::Slow,
];

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Killed => "killed",
            Self::Stopped => "stopped",
            Self::Hung => "hung",
            Self::CutOff => "cut-off",
            Self::Owner => "owner",
            Self::Slow => "slow",
        })
    }
}

/// One bag of equal tasks, and the disturbance that it meets.
pub(crate) struct Case {
    pub(crate) size_s: f64,
    pub(crate) tasks: usize,
    pub(crate) kind: Disturbance,
    pub(crate) host: usize,
    /// The seconds from the submission to the disturbance.
    pub(crate) at_s: f64,
}

impl Case {
    /// Draws host and moment; the same for each contender.
    pub(crate) fn draw(round: u64, size_s: f64, kind: Disturbance) -> Self {
        let seed = round * 1_000 + (size_s * 10.0) as u64 * 10 + kind as u64;
        let mut rng = StdRng::seed_from_u64(seed);
        let tasks = LEAST_TASKS.max((LEAST_S / size_s) as usize * HOSTS);
        let whole_s = (tasks / HOSTS) as f64 * size_s;
        Self {
            size_s,
            tasks,
            kind,
            host: rng.random_range(0..HOSTS),
            at_s: rng.random_range(0.1..0.9) * whole_s,
        }
    }

    /// The tasks that the disturbed host can complete within `t` seconds, if it begins none in
    /// vain.
    fn disturbed(&self, t: f64) -> usize {
        let whole = |s: f64| (s / self.size_s + 1e-9) as usize;
        let before = t.min(self.at_s);
        let after = (t - self.at_s).max(0.0);
        match self.kind {
            Disturbance::Killed | Disturbance::Stopped | Disturbance::CutOff => whole(before),
            Disturbance::Hung => whole(before) + whole(after),
            Disturbance::Owner => whole(before + (after - STAY_S).max(0.0)),
            Disturbance::Slow => whole(before + SLOW * after),
        }
    }

    /// The least makespan that is possible, in seconds.
    pub(crate) fn least_s(&self) -> f64 {
        let enough = |t: f64| {
            let each = (t / self.size_s + 1e-9) as usize;
            each * (HOSTS - 1) + self.disturbed(t) >= self.tasks
        };
        let mut bounds = (0.0, self.size_s * self.tasks as f64);
        while bounds.1 - bounds.0 > 1e-3 {
            let middle = (bounds.0 + bounds.1) / 2.0;
            if enough(middle) {
                bounds.1 = middle;
            } else {
                bounds.0 = middle;
            }
        }
        bounds.1
    }

    /// The time after which a run is given up, in seconds.
    pub(crate) fn patience_s(&self) -> f64 {
        5.0 * self.least_s() + 60.0
    }

    /// The makespan over (the least possible + 1 s); infinite for a run without an end.
    pub(crate) fn ratio(&self, ended: &Ended) -> f64 {
        match ended {
            Ended::After(s) => s / (self.least_s() + 1.0),
            Ended::GivenUp(_) | Ended::Failed(_) => f64::INFINITY,
        }
    }
}
