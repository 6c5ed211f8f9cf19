//! Predictions of jobs whose tasks take unequal times: how often their intervals hold.

use std::collections::BTreeMap;

use common::{AttemptId, HostId, Incarnation, JobId, Span, Time};
use scheduler::event::Bag;
use scheduler::predict::Prediction;
use scheduler::{Effect, Event, Scheduler, Settings};

use crate::events;
use crate::known::Chance;
use crate::world::{s, steady_report};

const HOSTS: u32 = 10;
const TASKS: u32 = 120;
const MEAN_S: f64 = 120.0;
const BEAT_S: u64 = 15;

/// A grid whose hosts are always there, and one job of tasks of unequal length.
struct Lab {
    scheduler: Scheduler,
    now: Time,
    job: JobId,
    /// The length of each task, in seconds.
    lengths_s: Vec<f64>,
    running: BTreeMap<AttemptId, (HostId, Time)>,
    /// Predictions once these tasks are done.
    foretold: Vec<(u64, Option<Prediction>)>,
}

impl Lab {
    fn new(policy: &str, sigma: f64, seed: u64) -> Self {
        let mut chance = Chance(seed);
        let lengths_s = (0..TASKS)
            .map(|_| {
                // The sum of twelve is normal enough.
                let normal: f64 = (0..12).map(|_| chance.unit()).sum::<f64>() - 6.0;
                MEAN_S * (sigma * normal - sigma * sigma / 2.0).exp()
            })
            .collect();
        let mut lab = Self {
            scheduler: Scheduler::new(Settings::default(), Incarnation(1)),
            now: Time(1_000_000),
            job: JobId(1),
            lengths_s,
            running: BTreeMap::new(),
            foretold: [12, 60, 108].map(|done| (done, None)).to_vec(),
        };
        for host in (1..=HOSTS).map(HostId) {
            lab.send(events::joined(host, 1));
        }
        let rules = common::job::Rules {
            policy: policy.to_owned(),
            ..common::job::Rules::default()
        };
        lab.send(events::submitted(
            lab.job,
            Bag::new(common::IdSet::from_range(1, TASKS), rules),
        ));
        lab
    }

    fn send(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.scheduler.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Start { host, attempt, .. } => {
                    self.running.insert(attempt, (host, self.now));
                }
                Effect::Stop { attempt, .. } => {
                    self.running.remove(&attempt);
                }
                _ => {}
            }
        }
    }

    /// Lets the job end, and returns the time at which it did.
    fn run(&mut self) -> Time {
        let mut beat = self.now + s(BEAT_S);
        while !self.running.is_empty() {
            let ends = |(attempt, (host, since)): (&AttemptId, &(HostId, Time))| {
                let length_s = self.lengths_s[attempt.task.index as usize - 1];
                (*since + Span::from_secs_f64(length_s), *attempt, *host)
            };
            let (end, attempt, host) = self.running.iter().map(ends).min().expect("some run");
            let tick = self.scheduler.next_wakeup().unwrap_or(Time(u64::MAX));
            self.now = self.now.max(end.min(beat).min(tick));
            if tick <= self.now {
                self.send(Event::Tick);
            } else if beat <= self.now {
                (1..=HOSTS).map(HostId).for_each(|host| self.beats(host));
                beat = beat + s(BEAT_S);
            } else {
                let (_, since) = self.running.remove(&attempt).expect("it runs");
                self.send(events::succeeded(host, attempt, end.since(since)));
                self.foretell();
            }
        }
        self.now
    }

    fn beats(&mut self, host: HostId) {
        self.send(steady_report(host, &self.running, self.now));
    }

    fn foretell(&mut self) {
        let done = self
            .scheduler
            .job_counts(self.job)
            .map_or(0, |tasks| tasks.finished);
        let due = self
            .foretold
            .iter_mut()
            .find(|(at, what)| *at == done && what.is_none());
        if let Some((_, what)) = due {
            *what = self.scheduler.predict(self.job, self.now);
        }
    }
}

/// The parts of 60 jobs that ended before, within and after their intervals, as predicted when a
/// tenth, half and nine tenths of their tasks were done.
fn turned_out(policy: &str, sigma: f64) -> [[u32; 3]; 3] {
    let mut counts = [[0; 3]; 3];
    for seed in 0..60 {
        let mut lab = Lab::new(policy, sigma, seed);
        let end = lab.run();
        for (count, (_, found)) in counts.iter_mut().zip(&lab.foretold) {
            let found = found.as_ref().expect("a prediction");
            let place = usize::from(end >= found.low) + usize::from(end > found.high);
            count[place] += 1;
        }
    }
    counts
}

#[test]
fn intervals_hold_for_tasks_of_unequal_length() {
    for policy in ["deskgrid", "FCFS", "EXCL-PRED-TO"] {
        for sigma in [0.0, 0.3, 0.6, 1.0] {
            let counts = turned_out(policy, sigma);
            // Twelve tasks say little of how long the longest of a hundred others may be.
            let least = if sigma < 1.0 {
                [48, 48, 48]
            } else {
                [36, 42, 48]
            };
            let hold = counts
                .iter()
                .zip(least)
                .all(|([_, held, _], least)| *held >= least);
            assert!(hold, "{policy}, {sigma}: early, held, late {counts:?}");
        }
    }
}
