//! What is asked of one run. What is not here: how it goes.

use common::job::Rules;
use common::{IdSet, Span};
use scheduler::estimates::Estimator;
use scheduler::event::{Bag, Terms};
use scheduler::experience::TrackRecord;
use scheduler::{Experience, Settings};

/// One job on one world, from one instant on.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    /// When the job is submitted, in seconds since the trace's start.
    pub start_s: f64,
    /// How many tasks it has.
    pub tasks: u32,
    /// Work of each task, in seconds on a dedicated host of speed 1.
    pub work_s: f64,
    /// The policy, with parameters where it has some.
    pub policy: &'a str,
    /// How many tasks a host runs at a time; each slot has the host's speed (default 1).
    pub slots: u32,
    /// What starting a task costs beside its work (default 40 s; Kondo et al. 2004, section 3.1).
    pub start_cost: Span,
    /// How often a host with a task reports (default 60 s; section 2.1).
    pub heartbeat: Span,
    /// When to give up, in seconds since the trace's start (default: the trace's end).
    pub horizon_s: Option<f64>,
    /// Whether tasks keep their state: what was done up to a host's last heartbeat is not lost with it, for 2 % of its
    /// speed.
    pub checkpoint: bool,
    /// Whether idle hosts tell of every change of their processor's share, and not only when owners come and go.
    pub watch: bool,
    /// Whether heartbeats that say nothing new are delivered as well. Costs time and changes nothing.
    pub every_heartbeat: bool,
    /// Whether the outcome is to tell of every attempt.
    pub story: bool,
    /// Whether the outcome is to say what was predicted on the way.
    pub foretell: bool,
    /// Whether the outcome is to say what was learned, of hosts and of copies.
    pub learn: bool,
    /// Numbers the hosts in a random order with this seed, and not in the trace's order: FCFS takes hosts that became
    /// ready together by number.
    pub shuffle: Option<u64>,
    /// What was learned on earlier days.
    pub experience: Option<&'a Experience>,
    /// How each host was available on earlier days, where that is known, in the trace's order.
    pub records: Option<&'a [Option<TrackRecord>]>,
}

impl<'a> Run<'a> {
    /// A run with the defaults of Kondo et al. 2004.
    pub fn new(start_s: f64, tasks: u32, work_s: f64, policy: &'a str) -> Self {
        Run {
            start_s,
            tasks,
            work_s,
            policy,
            slots: 1,
            start_cost: Span::from_secs(40),
            heartbeat: Span::from_secs(60),
            horizon_s: None,
            checkpoint: false,
            watch: false,
            every_heartbeat: false,
            story: false,
            foretell: false,
            learn: false,
            shuffle: None,
            experience: None,
            records: None,
        }
    }

    /// Settings of the run's scheduler. Silence is told by the world, so leases never run out.
    pub(super) fn settings(&self) -> Settings {
        let never = Span(u64::MAX / 4);
        Settings {
            suspect_after: never,
            lease: never,
            prefetch_window: Span::ZERO,
            start_cost: self.start_cost,
            heartbeat: self.heartbeat,
            stops_when_reported: true,
            ..Settings::default()
        }
    }

    pub(super) fn bag(&self) -> Bag {
        let rules = Rules {
            max_losses: u32::MAX,
            policy: self.policy.to_owned(),
            estimate: Some(Span::from_secs_f64(self.work_s)),
            checkpoint: self.checkpoint,
            ..Rules::default()
        };
        let tasks = if self.tasks == 0 { IdSet::new() } else { IdSet::from_range(1, self.tasks) };
        let estimator = Estimator { user: "somebody".to_owned(), program: "task".to_owned() };
        Bag { terms: Terms { estimator, ..Terms::default() }, ..Bag::new(tasks, rules) }
    }
}
