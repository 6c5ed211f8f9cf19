//! One small scenario, told as it goes under each policy of the catalogue, and kept as text. After
//! a change that is meant: `DESKGRID_BLESS=1 cargo test -p scheduler goldens`, then read the
//! difference.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use common::attempt::{Outcome, Phase};
use common::{AttemptId, HostId, Span};
use scheduler::effect::Settled;
use scheduler::{Effect, Event, Policy, catalogue};

use crate::events;
use crate::world::{World, s};

/// Seconds on a host of speed 1.
const TASK_S: f64 = 60.0;
/// Hosts in the order in which they join, a second apart, with their speeds.
const HOSTS: [(u32, f64); 5] = [(1, 0.5), (2, 1.0), (3, 2.0), (4, 1.0), (5, 1.5)];

/// A fleet in which every task takes its time, told second by second.
struct Story {
    world: World,
    text: String,
    /// What each live attempt still has to run, in seconds, where it is; frozen ones are those of
    /// suspended hosts.
    left_s: BTreeMap<AttemptId, (HostId, f64)>,
    frozen: Option<HostId>,
    silent: Option<HostId>,
}

impl Story {
    fn tell(&mut self, effects: &[Effect]) {
        for effect in effects {
            let line = match effect {
                Effect::Start {
                    host, attempt, why, ..
                } => {
                    let speed = self
                        .world
                        .scheduler
                        .host(*host)
                        .expect("it is there")
                        .speed
                        .factor();
                    self.left_s.insert(*attempt, (*host, TASK_S / speed));
                    format!("{attempt} starts on {host}: {why}")
                }
                Effect::Ended { host, attempt, why } => {
                    self.left_s.remove(attempt);
                    format!("{attempt} ends on {host}: {why}")
                }
                Effect::HostChanged { host, state, .. } => format!("{host} is {state}"),
                Effect::TaskSettled {
                    task,
                    settled: Settled::Finished(by),
                } => {
                    format!("task {task} is finished by {by}")
                }
                Effect::JobAdmitted { job } => format!("job {job} is let in"),
                Effect::JobSettled { job, state } => format!("job {job} is {state}"),
                Effect::Stop { .. } | Effect::Acknowledge { .. } | Effect::Executing { .. } => {
                    continue;
                }
                other => format!("{other:?}"),
            };

            let at = self.world.now.0 / 1_000_000;
            writeln!(self.text, "{at:5} {line}").expect("text takes text");
        }
    }

    fn send(&mut self, event: Event) {
        let effects = self.world.send(event);
        self.tell(&effects);
    }

    /// One second: attempts run, heartbeats come every 30 s, and what is done is delivered (the
    /// first attempt of task 4 fails).
    fn second(&mut self) {
        let effects = self.world.pass(s(1));
        self.tell(&effects);

        let second = self.world.now.0 / 1_000_000;
        for (host, _) in HOSTS {
            let host = HostId(host);
            if self.silent != Some(host)
                && second % 30 == u64::from(host.0)
                && self.world.scheduler.host(host).is_some()
            {
                let effects = self.world.beats(host);
                self.tell(&effects);
            }
        }

        for (host, left_s) in self.left_s.values_mut() {
            *left_s -= if self.frozen == Some(*host) { 0.0 } else { 1.0 };
        }

        let done = |(_, (host, left_s)): &(&AttemptId, &(HostId, f64))| {
            *left_s <= 0.0 && self.silent != Some(*host)
        };
        let done: Vec<_> = self
            .left_s
            .iter()
            .filter(done)
            .map(|(attempt, (host, _))| (*attempt, *host))
            .collect();
        for (attempt, host) in done {
            let first_of_4 = (attempt.task.index, attempt.number) == (4, 1);
            let outcome = if first_of_4 {
                Outcome::Exited(1)
            } else {
                Outcome::Succeeded
            };

            if self.left_s.contains_key(&attempt) {
                self.send(events::ended(
                    host,
                    attempt,
                    outcome,
                    Span::from_secs_f64(TASK_S),
                ));
            }
        }
    }

    fn until(&mut self, second: u64) {
        while self.world.now.0 < second * 1_000_000 {
            self.second();
        }
    }
}

fn story(policy: &Policy) -> String {
    let mut story = Story {
        world: World::new(),
        text: String::new(),
        left_s: BTreeMap::new(),
        frozen: None,
        silent: None,
    };
    for (host, speed) in HOSTS {
        let (_, effects) = story.world.host(host).speed(speed).joins_with();
        story.tell(&effects);
        story.second();
    }

    let job = story.world.job(9).policy(policy.name).retries(1).submit();
    let effects = story
        .world
        .history
        .last()
        .expect("just submitted")
        .2
        .clone();
    story.tell(&effects);
    story.until(70);
    for host in [HostId(3), HostId(5)] {
        story.world.moves(host, Phase::Running);
    }

    let effects = story.world.owner_comes(HostId(3));
    story.tell(&effects);
    story.frozen = Some(HostId(3));
    story.until(75);
    story.silent = Some(HostId(2));
    story.until(400);
    story.frozen = None;

    let effects = story.world.owner_goes(HostId(3));
    story.tell(&effects);
    story.until(1_500);
    assert!(story.world.job_state(job).settled(), "{}", story.text);
    story.text
}

fn golden(policy: &Policy) -> PathBuf {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/goldens");
    PathBuf::from(directory).join(format!("{}.txt", policy.name))
}

#[test]
fn every_policy_goes_as_its_golden_tells() {
    for policy in catalogue() {
        let told = story(policy);
        let path = golden(policy);
        if std::env::var_os("DESKGRID_BLESS").is_some() {
            std::fs::write(&path, &told).expect("goldens can be written");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            told == kept,
            "{} went differently from {}:\n{told}",
            policy.name,
            path.display()
        );
    }
}

#[test]
fn every_golden_belongs_to_a_policy() {
    let directory = golden(&catalogue()[0])
        .parent()
        .expect("a directory")
        .to_owned();
    let mut kept: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("goldens are there")
        .map(|entry| entry.expect("readable").path())
        .collect();
    kept.sort();
    let mut expected: Vec<PathBuf> = catalogue().iter().map(golden).collect();
    expected.sort();
    assert_eq!(kept, expected);
}
