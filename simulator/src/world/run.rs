//! The parameters of one run ([`Run`]).

use common::needs::{Capacity, Needs, Offers};
use common::{Ranks, Span};
use scheduler::experience::TrackRecord;
use scheduler::{Experience, Settings, Sharing};

use super::ask::{RunJob, UserRequest};
use crate::kernel::without_heartbeats;

/// One job on one world from one instant on, with the requests of users that follow it.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    /// The time at which the job is submitted, in seconds since the trace's start.
    pub start_s: f64,
    /// The number of its tasks; ignored for a gang (see `ranks`).
    pub tasks: u32,
    /// The work of each task, in seconds on a dedicated host of speed 1; for a gang, the work of
    /// all ranks together.
    pub work_s: f64,
    /// The name of the policy, with parameters where it has some.
    pub policy: &'a str,
    /// Whether the job is disclosed: nobody waits for its tasks before they are requested (default
    /// no).
    pub disclosed: bool,
    /// The number of ranks that run at once, if the job is a gang (default none). The user's
    /// description of the speedup is taken as the truth; a parallelism that is not given is
    /// unlimited.
    pub ranks: Option<Ranks>,
    /// The requests of users after the job is submitted, in the order of time.
    pub asks: &'a [UserRequest<'a>],
    /// The number of frozen attempts that a host can hold beside those in its slots (default 0).
    pub frozen: u32,
    /// The number of slots of a host; each slot has the host's speed (default 1).
    pub slots: u32,
    /// The `Capacity` of each host, in the trace's order: it has a slot for each processor then, and
    /// `slots` counts for nothing (default none: everything).
    pub sizes: Option<&'a [Capacity]>,
    /// The `Needs` of the tasks of the first job (default none: nothing).
    pub needs: Option<&'a Needs>,
    /// The rules by which slots are divided among the users of the jobs (default none: all jobs count
    /// as one user's). The first job is somebody's.
    pub sharing: Option<&'a Sharing>,
    /// The cost of starting a task, beside its work (default 40 s; Kondo et al. 2004, section 3.1).
    pub start_cost: Span,
    /// The time between heartbeats of a host with a task (default 60 s; section 2.1).
    pub heartbeat: Span,
    /// The time at which the run gives up, in seconds since the trace's start (default: the trace's
    /// end).
    pub horizon_s: Option<f64>,
    /// Whether tasks checkpoint: the work done up to a host's last heartbeat is not lost with the
    /// host, at a cost of 2 % of its speed.
    pub checkpoint: bool,
    /// Whether idle hosts report every change of their processor's share, and not only the coming
    /// and going of owners.
    pub watch: bool,
    /// Whether heartbeats without news are delivered as well. Costs time and changes no result.
    pub every_heartbeat: bool,
    /// Whether to fill `RunOutcome::story` with every attempt.
    pub story: bool,
    /// Whether to fill `RunOutcome::foretold` with predictions of the makespan.
    pub foretell: bool,
    /// Whether to fill `RunOutcome::learned` with the scheduler's experience of hosts and copies.
    pub learn: bool,
    /// The seed of a random order in which hosts are numbered; `None` keeps the trace's order. FCFS
    /// takes hosts that became ready together by number.
    pub shuffle: Option<u64>,
    /// The experience of earlier days that the scheduler starts with.
    pub experience: Option<&'a Experience>,
    /// The availability of each host on earlier days where it is known, in the trace's order.
    pub records: Option<&'a [Option<TrackRecord>]>,
}

impl<'a> Run<'a> {
    /// Creates a run with the defaults of Kondo et al. 2004.
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
            sizes: None,
            needs: None,
            sharing: None,
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

    /// The settings of the run's scheduler. The world itself reports silent hosts, so leases never
    /// run out.
    pub(super) fn settings(&self) -> Settings {
        Settings {
            start_cost: self.start_cost,
            heartbeat: self.heartbeat,
            stops_when_reported: true,
            learns_errors: self.learn || self.foretell,
            sharing: self.sharing.cloned(),
            ..without_heartbeats()
        }
    }

    /// The job with which it begins.
    pub(super) fn job(&self) -> RunJob<'a> {
        RunJob {
            tasks: self.tasks,
            work_s: self.work_s,
            policy: self.policy,
            checkpoint: self.checkpoint,
            disclosed: self.disclosed,
            ranks: self.ranks,
            needs: self.needs,
            user: "somebody",
            after: &[],
        }
    }

    /// Returns the number of slots of the host at this place of the trace.
    pub(super) fn slots_at(&self, place: usize) -> u32 {
        let size = self.sizes.and_then(|sizes| sizes.get(place));
        size.map_or(self.slots, |size| size.cores)
    }

    /// Returns the `Offers` of the host at this place of the trace, if they are not everything.
    pub(super) fn offers_at(&self, place: usize) -> Option<Offers> {
        let size = self.sizes.and_then(|sizes| sizes.get(place)).copied();
        (self.frozen > 0 || size.is_some()).then(|| Offers {
            frozen: self.frozen,
            capacity: size.unwrap_or(Capacity::UNBOUNDED),
            ..Offers::default()
        })
    }

    /// Whether attempts may be frozen or be ranks that wait for each other. Hosts then report each
    /// change of phase at once.
    pub(super) fn tells_phases(&self) -> bool {
        self.frozen > 0 || self.ranks.is_some() || self.asks.iter().any(UserRequest::brings_ranks)
    }
}
