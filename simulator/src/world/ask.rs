//! What people ask for in a run: jobs, results of disclosed tasks, and to drop what nobody has
//! requested. What is not here: what comes of it.

use common::job::Rules;
use common::{IdSet, Ranks, Span};
use scheduler::estimates::Estimator;
use scheduler::event::{Bag, Terms};
use scheduler::malleable::{Malleable, Speedup};

/// A job of a run: as [`super::Run`] says of the one with which it begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Job<'a> {
    /// How many tasks it has; not asked of a job of ranks.
    pub tasks: u32,
    /// Work of each task, in seconds on a dedicated host of speed 1; of all ranks together where
    /// they are ranks.
    pub work_s: f64,
    /// The policy, with parameters where it has some.
    pub policy: &'a str,
    /// Whether its tasks keep their state.
    pub checkpoint: bool,
    /// Whether nobody waits for its tasks before they are requested.
    pub disclosed: bool,
    /// On how many hosts its tasks run at once, where they are ranks.
    pub ranks: Option<Ranks>,
    /// Whose it is.
    pub user: &'a str,
}

/// Something that is asked for while a run goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask<'a> {
    /// When, in seconds since the trace's start.
    pub at_s: f64,
    /// What.
    pub what: What<'a>,
}

/// What is asked for. Jobs are counted from 1 in the order in which they come: 1 is that of the
/// run.
#[derive(Debug, Clone, PartialEq)]
pub enum What<'a> {
    /// Another job is to be done.
    Submit(Job<'a>),
    /// Somebody waits for these tasks of a job from now on; for all of them where none are named.
    Request(u32, Option<IdSet>),
    /// Nobody needs what was not requested of a job.
    Drop(u32),
}

impl Ask<'_> {
    /// Whether it is for a job of ranks.
    pub(super) fn brings_ranks(&self) -> bool {
        matches!(&self.what, What::Submit(job) if job.ranks.is_some())
    }
}

impl Job<'_> {
    /// The index of its first task: ranks are counted from 0.
    pub(super) fn first_index(&self) -> u32 {
        u32::from(self.ranks.is_none())
    }

    /// How many tasks it may come to have where there are so many hosts.
    pub(super) fn most_tasks(&self, hosts: usize) -> usize {
        match self.ranks {
            Some(ranks) => (ranks.most.unwrap_or(u32::MAX) as usize)
                .min(hosts)
                .max(ranks.least as usize),
            None => self.tasks as usize,
        }
    }

    /// The work of each of its tasks where it has so many.
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

    /// As the scheduler is told of it.
    pub(super) fn bag(&self) -> Bag {
        let rules = Rules {
            max_losses: u32::MAX,
            policy: self.policy.to_owned(),
            estimate: self
                .ranks
                .is_none()
                .then(|| Span::from_secs_f64(self.work_s)),
            checkpoint: self.checkpoint,
            ..Rules::default()
        };

        let tasks = match self.ranks {
            Some(ranks) => Ranks::tasks(ranks.least),
            None if self.tasks == 0 => IdSet::new(),
            None => IdSet::from_range(1, self.tasks),
        };

        let estimator = Estimator {
            user: self.user.to_owned(),
            program: "task".to_owned(),
        };
        let terms = Terms {
            estimator,
            ..Terms::default()
        };

        Bag {
            terms,
            disclosed: self.disclosed,
            ranks: self.ranks,
            ..Bag::new(tasks, rules)
        }
    }
}
