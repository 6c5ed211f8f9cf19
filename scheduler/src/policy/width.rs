//! How many hosts should a job hold out for? Only the job at the head of its queue decides, and
//! nobody passes it. What is not here: when so many hosts will be free (`malleable`).

use crate::prediction::malleable::{Bias, Malleable, corrected_s};

/// Whether a job waits until it can have more hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Width {
    /// It takes what there is.
    Rigid,
    /// As many free hosts as there are at once, up to its average parallelism (Downey's AVG).
    Average,
    /// As many as end it the soonest, by predictions of when they will be free (PRED, BIAS).
    Soonest(Soonest),
    /// Its average parallelism, but not for long (HEUR).
    Patient {
        /// For which part of the time that more hosts would save.
        k: f64,
    },
}

/// In how many seconds each number of hosts between two should be free, where that will ever be.
pub type Waits<'a> = dyn Fn(u32, u32) -> Vec<Option<f64>> + 'a;

/// How the soonest end is looked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Soonest {
    /// What becomes of predictions first.
    pub correction: Correction,
    /// Whether a job that held out starts on just as many hosts as it held out for, even if more
    /// are free by then.
    pub lock: bool,
    /// Whoever would save less than this part of the run time does not hold out.
    pub risk: f64,
    /// What a second of waiting costs for each job behind, in seconds of one's own.
    pub price: f64,
}

/// How predictions are corrected for their bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Correction {
    /// Not at all.
    None,
    /// By the line of the paper's section 5.4: ln Q' = 1.7 + 0.6 ln Q.
    Paper,
    /// By what earlier predictions were worth.
    Learned,
}

/// Intercept and slope of the paper's correction.
const PAPER: (f64, f64) = (1.7, 0.6);
/// Who holds out decides anew after at least so many seconds.
const SOONEST_S: f64 = 1.0;

impl Soonest {
    /// Predictions as they are, and nothing else.
    pub const PLAIN: Soonest = Soonest {
        correction: Correction::None,
        lock: false,
        risk: 0.0,
        price: 0.0,
    };
}

/// What is to be decided.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Which job.
    pub job: &'a Malleable,
    /// The fewest and the most hosts that it may have.
    pub least: u32,
    /// See `least`.
    pub most: u32,
    /// Hosts that it could have at once.
    pub free: u32,
    /// Jobs that wait behind it.
    pub behind: u32,
    /// Now, in seconds.
    pub now_s: f64,
    /// What it holds out for so far.
    pub held: Option<Holdout>,
    /// What earlier predictions were worth.
    pub bias: &'a Bias,
}

/// A job that holds out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Holdout {
    /// For how many hosts.
    pub hosts: u32,
    /// Since when, in seconds.
    pub since_s: f64,
    /// In how many seconds it expects them, as corrected; and as it was predicted.
    pub expected_s: f64,
    /// See `expected_s`.
    pub predicted_s: f64,
    /// When it decides anew, at the latest.
    pub until_s: f64,
}

impl Holdout {
    /// In how many seconds it still expects them, at this time in seconds.
    pub fn left_s(&self, now_s: f64) -> f64 {
        (self.since_s + self.expected_s - now_s).max(0.0)
    }
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Choice {
    /// To start at once on so many hosts.
    Start(u32),
    /// To hold out.
    Hold(Holdout),
}

/// A way to run, with when it should be done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Way {
    /// On how many hosts.
    pub hosts: u32,
    /// When they should be free, in seconds from now, as corrected; and as it was predicted.
    pub wait_s: f64,
    /// See `wait_s`.
    pub predicted_s: f64,
    /// How long it then runs, in seconds.
    pub run_s: f64,
}

impl Way {
    /// In how many seconds it should be done.
    pub fn total_s(&self) -> f64 {
        self.wait_s + self.run_s
    }
}

impl Question<'_> {
    /// How many hosts it can have at once, if that is enough.
    fn now(&self) -> Option<u32> {
        let hosts = self.free.min(self.most);
        (hosts >= self.least.max(1)).then_some(hosts)
    }

    fn way(&self, hosts: u32, predicted_s: f64, line: Option<(f64, f64)>) -> Way {
        let wait_s = line.map_or(predicted_s, |line| corrected_s(line, predicted_s));
        Way {
            hosts,
            wait_s,
            predicted_s,
            run_s: self.job.run_s(hosts),
        }
    }
}

impl Width {
    /// Decides. `waits` tells for each number of hosts between two in how many seconds they should
    /// be free, where that will ever be. None where the job can neither start nor ever have enough
    /// hosts.
    pub fn choose(&self, asked: &Question<'_>, waits: &Waits<'_>) -> Option<Choice> {
        let now = asked.now();
        match (self, now) {
            (Width::Rigid | Width::Average, Some(hosts)) => Some(Choice::Start(hosts)),
            (_, Some(hosts)) if hosts >= asked.most && !self.locked(asked) => {
                Some(Choice::Start(hosts))
            }
            (Width::Patient { k }, Some(hosts)) => Some(patient(*k, asked, hosts)),
            (Width::Soonest(way), _) => way.choose(asked, waits),
            (_, None) => Some(Choice::Hold(enough(asked, waits)?)),
        }
    }

    fn locked(&self, asked: &Question<'_>) -> bool {
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
fn enough(asked: &Question<'_>, waits: &Waits<'_>) -> Option<Holdout> {
    let least = asked.least.max(1);
    let wait_s = waits(least, least).first().copied().flatten()?;
    Some(asked.hold(&asked.way(least, wait_s, None)))
}

fn patient(k: f64, asked: &Question<'_>, hosts: u32) -> Choice {
    let patience_s = k * (asked.job.run_s(hosts) - asked.job.run_s(asked.most));
    match asked.held {
        Some(held) if asked.now_s >= held.until_s => Choice::Start(hosts),
        // Who had too few hosts so far begins to be patient now.
        Some(held) if held.hosts == asked.most => Choice::Hold(held),
        _ => Choice::Hold(Holdout {
            hosts: asked.most,
            since_s: asked.now_s,
            expected_s: patience_s,
            predicted_s: patience_s,
            until_s: asked.now_s + patience_s,
        }),
    }
}

impl Question<'_> {
    fn hold(&self, way: &Way) -> Holdout {
        let Way {
            hosts,
            wait_s,
            predicted_s,
            ..
        } = *way;

        let until_s = self.now_s + wait_s.max(SOONEST_S);
        Holdout {
            hosts,
            since_s: self.now_s,
            expected_s: wait_s,
            predicted_s,
            until_s,
        }
    }
}

impl Soonest {
    fn choose(&self, asked: &Question<'_>, waits: &Waits<'_>) -> Option<Choice> {
        let now = asked.now();
        if let (Some(held), Some(hosts)) = (asked.held, now)
            && held.hosts <= hosts
            && held.hosts >= asked.least
        {
            return Some(Choice::Start(if self.lock { held.hosts } else { hosts }));
        }

        let ways = self.ways(asked, waits);
        let best = self.best(asked, &ways)?;
        Some(if now == Some(best.hosts) {
            Choice::Start(best.hosts)
        } else {
            Choice::Hold(asked.hold(best))
        })
    }

    /// Every way to run that there is, by the number of hosts: first what could start at once, if
    /// anything.
    pub fn ways(&self, asked: &Question<'_>, waits: &Waits<'_>) -> Vec<Way> {
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

    /// The way that should end the soonest, or cost the least; of equals the one with the fewest
    /// hosts.
    pub fn best<'a>(&self, asked: &Question<'_>, ways: &'a [Way]) -> Option<&'a Way> {
        let dear = 1.0 + self.price * f64::from(asked.behind);
        let cost_s = |way: &Way| dear * way.wait_s + way.run_s;
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
