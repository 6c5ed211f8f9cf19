//! One trial ([`Trial`]): two hundred bags of one device, whose users estimate well or badly, and
//! the counts of their fates.

use common::{Span, Speed, Time};
use scheduler::estimates::Estimator;

use super::devices::{Device, Figures, estimate_interval};
use simulator::availability::stream::RandomStream;
use simulator::bags::{BagFate, BagTask, SubmittedBag, WantedResults, run};

/// The requested share of the hosts' time.
pub(super) const LOAD: f64 = 0.95;
/// The limit of closeness: a killed task whose rest was at most this part of its run time was close
/// to completion; one that had exceeded its estimate by at most this part was near its estimate.
pub(super) const CLOSE: f64 = 0.25;

/// The setting of a trial, which [`Trial::run`] runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// The device that gives the run times.
    pub device: Device,
    /// The number of hosts; a bag has twice as many tasks.
    pub hosts: usize,
    /// The quality of the estimates, Q.
    pub qoe: f64,
    /// A policy of the catalogue, with parameters.
    pub policy: String,
    /// The groups of users who submit bags.
    pub users: Users,
    /// The load and the deadlines.
    pub pressure: Pressure,
}

/// The groups of users in a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Users {
    /// Group A only: estimates anywhere in the interval.
    Fair,
    /// Equal numbers of group A and of group B; the latter always estimate too low.
    Both,
}

/// The load and the tightness of deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressure {
    /// The pressure of the report's other trials: load 0.95, deadlines 1.5 times the longest task
    /// and 2 mean ones.
    Usual,
    /// Load 1, and deadlines 1.1 times the longest task and 2 mean ones.
    Tight,
}

impl Pressure {
    /// The load, and the factor of the longest task in deadlines.
    pub(super) fn figures(self) -> (f64, f64) {
        match self {
            Pressure::Usual => (LOAD, 1.5),
            Pressure::Tight => (1.0, 1.1),
        }
    }
}

/// The counts of one group's bags in one trial.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// The number of submitted bags.
    pub bags: usize,
    /// The number of accepted bags.
    pub accepted: usize,
    /// The number of accepted bags that were done by their deadlines.
    pub kept: usize,
    /// The number of tasks of accepted bags.
    pub tasks: usize,
    /// The number of killed tasks.
    pub killed: usize,
    /// The number of killed tasks that were close to completion (see `CLOSE`).
    pub close: usize,
    /// The number of killed tasks that had just exceeded their estimate (see `CLOSE`).
    pub just: usize,
    /// The remaining run time of killed tasks, in seconds.
    pub freed_s: f64,
    /// The run time of all tasks of accepted bags, in seconds; see [`Self::freed_s`].
    pub asked_s: f64,
    /// The number of refused bags.
    pub refused: usize,
    /// The number of refused bags that were refused because of a single task's overestimate; see
    /// [`Self::refused`].
    pub single: usize,
    /// The number of bags with a task whose estimate alone exceeds the deadline.
    pub hopeless: usize,
}

impl Counts {
    /// The acceptance ratio: accepted bags divided by submitted ones.
    pub fn acceptance(&self) -> f64 {
        part(self.accepted, self.bags)
    }

    /// The guarantee ratio: accepted bags that were done in time divided by all accepted ones; 0 if
    /// none was accepted, as in the paper.
    pub fn guarantee(&self) -> f64 {
        part(self.kept, self.accepted)
    }

    fn add(&mut self, asked: &SubmittedBag, fate: &BagFate) {
        self.bags += 1;
        let deadline = asked.deadline.unwrap_or_default();
        self.hopeless += usize::from(asked.tasks.iter().any(|task| task.estimate > deadline));

        if !fate.accepted {
            self.refused += 1;
            self.single += usize::from(fate.single);
            return;
        }

        self.accepted += 1;
        self.kept += usize::from(fate.kept);
        self.tasks += asked.tasks.len();
        self.asked_s += asked
            .tasks
            .iter()
            .map(|task| task.takes.secs())
            .sum::<f64>();
        self.killed += fate.killed.len();

        for (task, ran) in &fate.killed {
            let BagTask { estimate, takes } = asked.tasks[*task];
            let left_s = takes.secs() - ran.secs();
            self.freed_s += left_s;
            self.close += usize::from(left_s <= CLOSE * takes.secs());
            self.just += usize::from(ran.secs() <= (1.0 + CLOSE) * estimate.secs());
        }
    }
}

pub(crate) fn part(of: usize, all: usize) -> f64 {
    if all == 0 {
        0.0
    } else {
        of as f64 / all as f64
    }
}

impl Trial {
    /// A trial as in the paper: one group of users under the usual pressure.
    pub fn usual(device: Device, hosts: usize, qoe: f64, policy: &str) -> Self {
        Trial {
            device,
            hosts,
            qoe,
            policy: policy.to_owned(),
            users: Users::Fair,
            pressure: Pressure::Usual,
        }
    }

    /// Runs it once and returns the counts of groups A and B. Arrivals and run times depend on the
    /// seed, the device and the number of hosts alone.
    pub fn run(&self, seed: u64, repetition: u32, bags: usize) -> [Counts; 2] {
        let asked = self.bags(seed, repetition, bags);
        let wanted = WantedResults {
            single: true,
            ..WantedResults::default()
        };
        let told = run(&vec![Speed::REFERENCE; self.hosts], &asked, wanted);
        let mut groups = [Counts::default(); 2];
        for (bag, fate) in asked.iter().zip(&told.fates) {
            groups[usize::from(bag.estimator.user == GROUPS[1])].add(bag, fate);
        }
        groups
    }

    fn bags(&self, seed: u64, repetition: u32, bags: usize) -> Vec<SubmittedBag> {
        let Figures { mean_s, max_s, .. } = self.device.table_1();
        let (load, longest) = self.pressure.figures();
        let stream = |name| {
            RandomStream::new(
                name,
                seed ^ (self.device as u64) << 32,
                repetition,
                self.hosts,
            )
        };
        let (mut times, mut takes, mut says, mut who) = (
            stream("arrivals"),
            stream("run times"),
            stream("estimates"),
            stream("groups"),
        );

        let size = 2 * self.hosts;
        let interval_s = size as f64 * mean_s / (self.hosts as f64 * load);
        let deadline = Span::from_secs_f64(longest * max_s + 2.0 * mean_s);
        let mut at_s = 0.0;
        let mut bag = || {
            at_s += times.between(0.0, 2.0 * interval_s);
            let low = self.users == Users::Both && who.chance(0.5);
            let mut task = || {
                let takes_s = self.device.draw(&mut takes);
                let (least_s, most_s, most_low_s) = estimate_interval(takes_s, self.qoe);
                let estimate_s = says.between(least_s, if low { most_low_s } else { most_s });
                BagTask {
                    estimate: Span::from_secs_f64(estimate_s),
                    takes: Span::from_secs_f64(takes_s),
                }
            };

            SubmittedBag {
                at: Time::from_secs_f64(at_s),
                estimator: Estimator {
                    user: GROUPS[usize::from(low)].to_owned(),
                    program: self.device.name().to_owned(),
                },
                policy: self.policy.clone(),
                deadline: Some(deadline),
                tasks: (0..size).map(|_| task()).collect(),
            }
        };
        (0..bags).map(|_| bag()).collect()
    }
}

/// The names of the two groups of users.
const GROUPS: [&str; 2] = ["A", "B"];
