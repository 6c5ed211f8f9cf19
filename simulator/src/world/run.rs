//! What is asked of one run. What is not here: how it goes.

use common::{Ranks, Span};
use scheduler::experience::TrackRecord;
use scheduler::{Experience, Settings};

use super::ask::{Ask, Job};

/// One job on one world, from one instant on; and what people ask for while it is there.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    /// When the job is submitted, in seconds since the trace's start.
    pub start_s: f64,
    /// How many tasks it has; not asked of a job of ranks.
    pub tasks: u32,
    /// Work of each task, in seconds on a dedicated host of speed 1; of all ranks together where
    /// they are ranks.
    pub work_s: f64,
    /// The policy, with parameters where it has some.
    pub policy: &'a str,
    /// Whether nobody waits for its tasks before they are requested (default no).
    pub disclosed: bool,
    /// On how many hosts its tasks run at once, where they are ranks (default none): what its user
    /// says of it, which is how it is; of a parallelism of which nothing is said there is no end.
    pub ranks: Option<Ranks>,
    /// What people ask for from then on, in the order of time: another job, results, or to drop
    /// what nobody requested.
    pub asks: &'a [Ask<'a>],
    /// How many attempts a host can hold frozen, beside those in its slots, so that others have
    /// these (default 0).
    pub frozen: u32,
    /// How many tasks a host runs at a time; each slot has the host's speed (default 1).
    pub slots: u32,
    /// What starting a task costs beside its work (default 40 s; Kondo et al. 2004, section 3.1).
    pub start_cost: Span,
    /// How often a host with a task reports (default 60 s; section 2.1).
    pub heartbeat: Span,
    /// When to give up, in seconds since the trace's start (default: the trace's end).
    pub horizon_s: Option<f64>,
    /// Whether tasks keep their state: what was done up to a host's last heartbeat is not lost with
    /// it, for 2 % of its speed.
    pub checkpoint: bool,
    /// Whether idle hosts tell of every change of their processor's share, and not only when owners
    /// come and go.
    pub watch: bool,
    /// Whether heartbeats that say nothing new are delivered as well. Costs time and changes
    /// nothing.
    pub every_heartbeat: bool,
    /// Whether the outcome is to tell of every attempt.
    pub story: bool,
    /// Whether the outcome is to say what was predicted on the way.
    pub foretell: bool,
    /// Whether the outcome is to say what was learned, of hosts and of copies.
    pub learn: bool,
    /// Numbers the hosts in a random order with this seed, and not in the trace's order: FCFS takes
    /// hosts that became ready together by number.
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
            disclosed: false,
            ranks: None,
            asks: &[],
            frozen: 0,
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

    /// The job with which it begins.
    pub(super) fn job(&self) -> Job<'a> {
        let Run {
            tasks,
            work_s,
            policy,
            checkpoint,
            disclosed,
            ranks,
            ..
        } = *self;

        Job {
            tasks,
            work_s,
            policy,
            checkpoint,
            disclosed,
            ranks,
            user: "somebody",
        }
    }

    /// Whether attempts may stand still or wait for each other: then their hosts say at once how
    /// far they are.
    pub(super) fn tells_phases(&self) -> bool {
        self.frozen > 0 || self.ranks.is_some() || self.asks.iter().any(Ask::brings_ranks)
    }
}
