//! The requests of users in a run ([`UserRequest`]): submitting a job, requesting results of disclosed
//! tasks, and dropping the tasks that nobody has requested.

use common::job::Rules;
use common::needs::Needs;
use common::{After, EndCondition, IdSet, JobId, Ranks, Span};
use scheduler::estimates::Estimator;
use scheduler::event::{Bag, Terms};
use scheduler::malleable::{Malleable, Speedup};

/// A job of a run, described as in [`super::Run`], which holds the first one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunJob<'a> {
    /// The number of its tasks; ignored for a gang (see `ranks`).
    pub tasks: u32,
    /// The work of each task, in seconds on a dedicated host of speed 1; for a gang, the work of
    /// all ranks together.
    pub work_s: f64,
    /// The name of the policy, with parameters where it has some.
    pub policy: &'a str,
    /// Whether its tasks checkpoint.
    pub checkpoint: bool,
    /// Whether its tasks are disclosed: nobody waits for them before they are requested.
    pub disclosed: bool,
    /// The number of ranks that run at once, if the job is a gang.
    pub ranks: Option<Ranks>,
    /// The `Needs` of its tasks, if they need more than a slot.
    pub needs: Option<&'a Needs>,
    /// The name of the user who submits it.
    pub user: &'a str,
    /// The jobs that have to end before it starts, by number.
    pub after: &'a [u32],
}

/// A request that a user makes while a run goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct UserRequest<'a> {
    /// The time of the request, in seconds since the trace's start.
    pub at_s: f64,
    /// The kind of request.
    pub what: UserRequestKind<'a>,
}

/// The kinds of request. Jobs are counted from 1 in the order in which they come; job 1 is that of
/// the `Run`.
#[derive(Debug, Clone, PartialEq)]
pub enum UserRequestKind<'a> {
    /// Submits another job.
    Submit(RunJob<'a>),
    /// Requests these tasks of a disclosed job, or all of its tasks with `None`.
    Request(u32, Option<IdSet>),
    /// Cancels the tasks of a job that were not requested.
    Drop(u32),
}

impl UserRequest<'_> {
    /// Whether it submits a gang.
    pub(super) fn brings_ranks(&self) -> bool {
        matches!(&self.what, UserRequestKind::Submit(job) if job.ranks.is_some())
    }
}

impl RunJob<'_> {
    /// The index of its first task: 0 for a gang, whose ranks are counted from 0, and 1 otherwise.
    pub(super) fn first_index(&self) -> u32 {
        u32::from(self.ranks.is_none())
    }

    /// The largest number of tasks that it can have in a world of `hosts` hosts.
    pub(super) fn most_tasks(&self, hosts: usize) -> usize {
        match self.ranks {
            Some(ranks) => (ranks.most.unwrap_or(u32::MAX) as usize)
                .min(hosts)
                .max(ranks.least as usize),
            None => self.tasks as usize,
        }
    }

    /// The work of each of its tasks if it has `tasks` of them: for a gang, the run time that its
    /// `Speedup` gives.
    pub(super) fn task_work_s(&self, tasks: u32) -> f64 {
        let Some(ranks) = self.ranks else {
            return self.work_s;
        };
        let speedup = Speedup::new(
            ranks.parallelism.unwrap_or(f64::from(tasks.max(1))),
            ranks.sigma.unwrap_or(0.0),
        );

        speedup.map_or(self.work_s, |speedup| {
            Malleable {
                work_s: self.work_s,
                speedup,
            }
            .run_s(tasks)
        })
    }

    /// Converts it to the `Bag` that the scheduler receives.
    pub(super) fn bag(&self) -> Bag {
        let rules = Rules {
            max_losses: u32::MAX,
            policy: self.policy.to_owned(),
            estimate: self
                .ranks
                .is_none()
                .then(|| Span::from_secs_f64(self.work_s)),
            checkpoint: self.checkpoint,
            needs: self.needs.cloned().unwrap_or_default(),
            ..Rules::default()
        };

        let tasks = match self.ranks {
            Some(ranks) => Ranks::tasks(ranks.least),
            None if self.tasks == 0 => IdSet::new(),
            None => IdSet::from_range(1, self.tasks),
        };

        let terms = Terms {
            estimator: Estimator {
                user: self.user.to_owned(),
                program: "task".to_owned(),
            },
            ..Terms::default()
        };

        let ends = |job: &u32| After {
            job: JobId(*job),
            how: EndCondition::Ok,
        };
        let after = self.after.iter().map(ends).collect();

        Bag {
            terms,
            disclosed: self.disclosed,
            ranks: self.ranks,
            after,
            ..Bag::new(tasks, rules)
        }
    }
}
