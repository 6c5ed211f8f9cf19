//! The policy's answer on width: the number of hosts that a gang waits for. Only the job at the
//! head of its queue decides, and no job passes it. The waits are predicted by
//! `prediction::malleable`.

use super::policing::Policing;
use super::setting::{HasSettings, Setting, YES_OR_NO, name_of, number, one_of, yes_or_no};
use super::{LimitSource, Policy};
use crate::prediction::malleable::{Bias, Malleable, corrected_s};

/// The rule by which a job waits for more hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Width {
    /// It takes the present hosts.
    Rigid,
    /// All hosts that are free at once, up to its average parallelism (Downey's AVG).
    Average,
    /// The number of hosts with the earliest predicted completion, the wait included (PRED, BIAS).
    Soonest(Soonest),
    /// Its average parallelism, but only for a limited time (HEUR).
    Patient {
        /// The part of the time saved by more hosts for which it waits.
        k: f64,
    },
}

/// The predicted waits, in seconds, for each number of free hosts between two; `None` where they
/// never are.
pub type WaitsByWidth<'a> = dyn Fn(u32, u32) -> Vec<Option<f64>> + 'a;

/// The options of the search for the earliest completion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Soonest {
    /// The correction of predictions.
    pub correction: Correction,
    /// Whether a job that waited starts on just the number of hosts that it waited for, even if
    /// more are free by then.
    pub lock: bool,
    /// The least part of the run time that a wait must save.
    pub risk: f64,
    /// The cost of a second of waiting for each job behind, in seconds of one's own.
    pub price: f64,
}

/// The correction of predictions for their bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Correction {
    /// No correction.
    None,
    /// By the line of the paper's section 5.4: ln Q' = 1.7 + 0.6 ln Q.
    Paper,
    /// The line learned from earlier predictions.
    Learned,
}

/// Intercept and slope of the paper's correction.
const PAPER: (f64, f64) = (1.7, 0.6);
/// The least number of seconds between decisions of a job that waits.
const SOONEST_S: f64 = 1.0;

impl Soonest {
    /// Uncorrected predictions, and no other option.
    pub const PLAIN: Soonest = Soonest {
        correction: Correction::None,
        lock: false,
        risk: 0.0,
        price: 0.0,
    };
}

/// The names of corrections.
const CORRECTIONS: [(&str, Correction); 3] = [
    ("none", Correction::None),
    ("paper", Correction::Paper),
    ("learned", Correction::Learned),
];

impl HasSettings for Width {
    fn settings(&self) -> &'static [Setting<Self>] {
        match self {
            Width::Rigid | Width::Average => &[],
            Width::Soonest(_) => &SOONEST,
            Width::Patient { .. } => &PATIENT,
        }
    }
}

impl Width {
    /// Returns the options of the search for the earliest completion; of another rule the plain ones.
    pub(crate) fn soonest(&self) -> Soonest {
        match self {
            Width::Soonest(answer) => *answer,
            _ => Soonest::PLAIN,
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut Soonest)) {
        if let Width::Soonest(answer) = self {
            change(answer);
        }
    }
}

const SOONEST: [Setting<Width>; 4] = [
    Setting {
        name: "correction",
        meaning: "what becomes of predicted waits: nothing (`none`), the line of the `paper`, or the one that is `learned`",
        get: |width| name_of(width.soonest().correction, &CORRECTIONS),
        set: |width, value| {
            let correction = one_of(value, &CORRECTIONS, "`none`, `paper` or `learned`")?;
            width.change(|answer| answer.correction = correction);
            Ok(())
        },
    },
    Setting {
        name: "lock",
        meaning: "whether who held out starts on just as many hosts as it held out for (`yes` or `no`)",
        get: |width| name_of(width.soonest().lock, &YES_OR_NO),
        set: |width, value| yes_or_no(value).map(|lock| width.change(|answer| answer.lock = lock)),
    },
    Setting {
        name: "risk",
        meaning: "the part of its run time that a job must expect to save if it is to hold out",
        get: |width| width.soonest().risk.to_string(),
        set: |width, value| {
            let risk = number(value, 0.0, 1.0, "a part from 0 to 1")?;
            width.change(|answer| answer.risk = risk);
            Ok(())
        },
    },
    Setting {
        name: "price",
        meaning: "what a second of waiting costs for each job behind, in seconds of one's own",
        get: |width| width.soonest().price.to_string(),
        set: |width, value| {
            let price = number(value, 0.0, 1e6, "a number of at least 0")?;
            width.change(|answer| answer.price = price);
            Ok(())
        },
    },
];

const PATIENT: [Setting<Width>; 1] = [Setting {
    name: "k",
    meaning: "for which part of the time that more hosts would save a job waits for them",
    get: |width| match width {
        Width::Patient { k } => k.to_string(),
        _ => String::new(),
    },
    set: |width, value| {
        let k = number(value, 0.0, 1e6, "a number of at least 0")?;
        *width = Width::Patient { k };
        Ok(())
    },
}];

/// The names of limits of ranks.
const OF_RANKS: [(&str, LimitSource); 2] = [
    ("given", LimitSource::Fixed),
    ("learned", LimitSource::Learned(Policing::OFF)),
];

/// The limits of ranks.
pub(super) const LIMITS: [Setting<Policy>; 1] = [Setting {
    name: "limits",
    meaning: "whether ranks run until the job's own timeout (`given`), or until limits that past runs of the same user and program \
              on as many hosts teach (`learned`)",
    get: |policy| name_of(policy.limits, &OF_RANKS),
    set: |policy, value| {
        policy.limits = one_of(value, &OF_RANKS, "`given` or `learned`")?;
        Ok(())
    },
}];

/// The question of how many hosts a job waits for.
#[derive(Debug, Clone, Copy)]
pub struct WidthQuestion<'a> {
    /// The job.
    pub job: &'a Malleable,
    /// The fewest hosts that it may have.
    pub least: u32,
    /// The most hosts that it may have.
    pub most: u32,
    /// The number of hosts that it could have at once.
    pub free: u32,
    /// The number of jobs that wait behind it.
    pub behind: u32,
    /// The present time, in seconds.
    pub now_s: f64,
    /// Its present wait, if any.
    pub held: Option<Holdout>,
    /// The bias of earlier predictions.
    pub bias: &'a Bias,
}

/// A job's wait for more hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Holdout {
    /// The number of hosts that it waits for.
    pub hosts: u32,
    /// The begin of the wait, in seconds.
    pub since_s: f64,
    /// The corrected prediction of the wait, in seconds.
    pub expected_s: f64,
    /// The uncorrected prediction.
    pub predicted_s: f64,
    /// The time of its next decision, at the latest.
    pub until_s: f64,
}

impl Holdout {
    /// Returns the rest of the expected wait at this time, in seconds.
    pub fn left_s(&self, now_s: f64) -> f64 {
        (self.since_s + self.expected_s - now_s).max(0.0)
    }
}

/// The answer to a [`WidthQuestion`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WidthChoice {
    /// Starts at once on this many hosts.
    Start(u32),
    /// Waits for more hosts.
    Hold(Holdout),
}

/// A number of hosts, with the predicted wait and run time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WidthOption {
    /// The number of hosts.
    pub hosts: u32,
    /// The corrected prediction of the wait for them, in seconds.
    pub wait_s: f64,
    /// The uncorrected prediction.
    pub predicted_s: f64,
    /// The run time on them, in seconds.
    pub run_s: f64,
}

impl WidthOption {
    /// Returns the predicted time to completion, in seconds.
    pub fn total_s(&self) -> f64 {
        self.wait_s + self.run_s
    }
}

impl WidthQuestion<'_> {
    /// Returns the number of hosts that it can have at once, if that is enough.
    fn now(&self) -> Option<u32> {
        let hosts = self.free.min(self.most);
        (hosts >= self.least.max(1)).then_some(hosts)
    }

    fn way(&self, hosts: u32, predicted_s: f64, line: Option<(f64, f64)>) -> WidthOption {
        let wait_s = line.map_or(predicted_s, |line| corrected_s(line, predicted_s));
        WidthOption {
            hosts,
            wait_s,
            predicted_s,
            run_s: self.job.run_s(hosts),
        }
    }

    fn hold(&self, way: &WidthOption) -> Holdout {
        Holdout {
            hosts: way.hosts,
            since_s: self.now_s,
            expected_s: way.wait_s,
            predicted_s: way.predicted_s,
            until_s: self.now_s + way.wait_s.max(SOONEST_S),
        }
    }
}

impl Width {
    /// Decides the question. `waits` predicts, for each number of hosts between two, the seconds
    /// until they are free, if ever. `None` where the job can neither start nor ever have enough
    /// hosts.
    pub fn choose(
        &self,
        asked: &WidthQuestion<'_>,
        waits: &WaitsByWidth<'_>,
    ) -> Option<WidthChoice> {
        let now = asked.now();
        match (self, now) {
            (Width::Rigid | Width::Average, Some(hosts)) => Some(WidthChoice::Start(hosts)),
            (_, Some(hosts)) if hosts >= asked.most && !self.locked(asked) => {
                Some(WidthChoice::Start(hosts))
            }
            (Width::Patient { k }, Some(hosts)) => Some(patient(*k, asked, hosts)),
            (Width::Soonest(way), _) => way.choose(asked, waits),
            (_, None) => Some(WidthChoice::Hold(enough(asked, waits)?)),
        }
    }

    fn locked(&self, asked: &WidthQuestion<'_>) -> bool {
        matches!(self, Width::Soonest(Soonest { lock: true, .. })) && asked.held.is_some()
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Width::Rigid => "takes every slot it can get, at once",
            Width::Average => "takes as many free hosts as it can use, at once",
            Width::Soonest(Soonest { price, .. }) if price > 0.0 => {
                "holds out for as many hosts as end it the soonest by prediction, its waiting at the price of all who wait behind"
            }
            Width::Soonest(_) => "holds out for as many hosts as end it the soonest by prediction",
            Width::Patient { .. } => {
                "holds out for as many hosts as it can use, for a part of the time that they would save"
            }
        }
    }
}

/// Waits for the fewest hosts that are enough.
fn enough(asked: &WidthQuestion<'_>, waits: &WaitsByWidth<'_>) -> Option<Holdout> {
    let least = asked.least.max(1);
    let wait_s = waits(least, least).first().copied().flatten()?;
    Some(asked.hold(&asked.way(least, wait_s, None)))
}

fn patient(k: f64, asked: &WidthQuestion<'_>, hosts: u32) -> WidthChoice {
    let patience_s = k * (asked.job.run_s(hosts) - asked.job.run_s(asked.most));
    match asked.held {
        Some(held) if asked.now_s >= held.until_s => WidthChoice::Start(hosts),
        // A job that had too few hosts so far begins to be patient now.
        Some(held) if held.hosts == asked.most => WidthChoice::Hold(held),
        _ => WidthChoice::Hold(Holdout {
            hosts: asked.most,
            since_s: asked.now_s,
            expected_s: patience_s,
            predicted_s: patience_s,
            until_s: asked.now_s + patience_s,
        }),
    }
}

impl Soonest {
    fn choose(&self, asked: &WidthQuestion<'_>, waits: &WaitsByWidth<'_>) -> Option<WidthChoice> {
        let now = asked.now();
        if let (Some(held), Some(hosts)) = (asked.held, now)
            && held.hosts <= hosts
            && held.hosts >= asked.least
        {
            return Some(WidthChoice::Start(if self.lock {
                held.hosts
            } else {
                hosts
            }));
        }

        let ways = self.ways(asked, waits);
        let best = self.best(asked, &ways)?;
        Some(if now == Some(best.hosts) {
            WidthChoice::Start(best.hosts)
        } else {
            WidthChoice::Hold(asked.hold(best))
        })
    }

    /// Returns every way to run, by the number of hosts: first the one that could start at once, if
    /// any.
    pub fn ways(&self, asked: &WidthQuestion<'_>, waits: &WaitsByWidth<'_>) -> Vec<WidthOption> {
        let line = match self.correction {
            Correction::None => None,
            Correction::Paper => Some(PAPER),
            Correction::Learned => Some(asked.bias.line()),
        };

        let now = asked.now();
        let first = now.map_or(asked.least.max(1), |hosts| hosts + 1);
        let later = if first > asked.most {
            Vec::new()
        } else {
            waits(first, asked.most)
        };
        let later = (first..)
            .zip(later)
            .filter_map(|(hosts, wait)| Some(asked.way(hosts, wait?, line)));

        now.map(|hosts| asked.way(hosts, 0.0, None))
            .into_iter()
            .chain(later)
            .collect()
    }

    /// Returns the way of the earliest completion, or of the least cost; among equals the one with
    /// the fewest hosts.
    pub fn best<'a>(
        &self,
        asked: &WidthQuestion<'_>,
        ways: &'a [WidthOption],
    ) -> Option<&'a WidthOption> {
        let dear = 1.0 + self.price * f64::from(asked.behind);
        let cost_s = |way: &WidthOption| dear * way.wait_s + way.run_s;
        let best = ways.iter().reduce(|best, way| {
            if cost_s(way) < cost_s(best) {
                way
            } else {
                best
            }
        })?;

        let at_once = ways.first().filter(|way| asked.now() == Some(way.hosts));
        Some(
            at_once
                .filter(|way| way.run_s - cost_s(best) <= self.risk * way.run_s)
                .unwrap_or(best),
        )
    }
}
