//! Who makes room when somebody waits: an attempt of a task that goes after the one that is next, the one with the least to
//! lose (Petrou et al. 2004, section 3.3: requested tasks before disclosed ones, whatever runs). What is not here: which task
//! is next (`crate::speculation`).

use std::cmp::Reverse;

use common::{AttemptId, HostId, JobId, Span, TaskId};

use crate::dispatch::after;
use crate::effect::Effect;
use crate::host::{Host, Load};
use crate::job::{Job, Jobs};
use crate::policy::ordering::{Disclosed, Requested};
use crate::promises::elapsed_s;
use crate::scheduler::Scheduler;
use crate::speculation::Turn;

/// A task that wants room.
struct Claim {
    job: JobId,
    /// Its index, where that is known: tasks of jobs that tell nothing apart are all alike.
    turn: Turn,
    /// Whether it may take the place of a task of its own kind that goes after it.
    overtakes: bool,
}

/// An attempt that can make room, with what there is to choose among such.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    host: HostId,
    attempt: AttemptId,
    turn: Turn,
    /// The work that is left.
    left: Span,
    /// The work that would be lost.
    loss: Span,
}

impl Candidate {
    /// Who is chosen first has the greatest: nobody waits for it, it loses the least, and it goes last of those.
    fn order(&self) -> (bool, Reverse<Span>, u64, u64, u32, Reverse<AttemptId>) {
        let Turn { disclosed, key, place, index } = self.turn;
        (disclosed, Reverse(self.loss), key, place, index, Reverse(self.attempt))
    }
}

impl Scheduler {
    /// Lets tasks that go first take the places of running ones that go after them.
    pub(crate) fn make_room(&mut self, fx: &mut Vec<Effect>) {
        if self.jobs.speculating.is_empty() || self.jobs.lines.waiting.is_empty() {
            return;
        }
        let table = &self.jobs.table;
        self.jobs.speculating.retain(|id| table.get(id).is_some_and(|job| !job.settled()));
        let mut last = None;
        while let Some(rank) = after(&self.jobs.lines.waiting, last) {
            last = Some(rank);
            if rank.promised() {
                continue;
            }
            let Some(claim) = self.claim(rank.job) else { continue };
            if claim.turn.disclosed && !claim.overtakes {
                continue;
            }
            let Some(chosen) = self.candidate(&claim) else { continue };
            if !self.give_room(&chosen, &claim, fx) {
                // It was not taken after all: whoever is next may have it.
                return self.place_waiting(fx);
            }
            last = None;
        }
    }

    /// What the job's next task is, as one that wants room.
    fn claim(&mut self, id: JobId) -> Option<Claim> {
        let job = self.jobs.table.get_mut(&id)?;
        let Some(speculation) = job.speculation.as_ref() else {
            let index = job.requeued.first().or(job.fresh.first())?;
            let turn = Turn { index, disclosed: false, key: 0, place: 0 };
            return Some(Claim { job: id, turn, overtakes: false });
        };
        let answer = speculation.answer();
        let turn = job.turn()?;
        let overtakes = match turn.disclosed {
            true => answer.disclosed == Disclosed::Need,
            false => answer.requested == Requested::Srpt,
        };
        Some(Claim { job: id, turn, overtakes })
    }

    /// Who is to make room for it, if anybody.
    fn candidate(&self, claim: &Claim) -> Option<Candidate> {
        let claimant = self.jobs.table.get(&claim.job)?;
        let mut best: Option<Candidate> = None;
        for job in self.jobs.speculating.iter().filter_map(|id| self.jobs.table.get(id)) {
            for copy in job.records.values().flat_map(|record| record.live.iter()) {
                let Some(host) = self.hosts.table.get(&copy.host) else { continue };
                let Some(load) = host.books.get(&copy.attempt).filter(|load| !load.stopping) else { continue };
                let Some(found) = self.standing(job, host, copy.attempt, load) else { continue };
                if goes_after(&found, claim, job, claimant)
                    && best.as_ref().is_none_or(|best| best.order() < found.order())
                    && self.would_take(claimant, host)
                {
                    best = Some(found);
                }
            }
        }
        best
    }

    /// Whether the job would use a slot of this host.
    fn would_take(&self, job: &Job, host: &Host) -> bool {
        let scene = job.scene(self.now, &self.settings, &self.hosts);
        host.takes_work()
            && job.rules.needs.missing(host.offers).is_none()
            && job.policy.placement.objection(&scene, &job.plan, host).is_none()
    }

    fn standing(&self, job: &Job, host: &Host, attempt: AttemptId, load: &Load) -> Option<Candidate> {
        let speculation = job.speculation.as_deref()?;
        let index = attempt.task.index;
        let done = Span::from_secs_f64(elapsed_s(host, load, self.settings.start_cost, self.now));
        let left = Span(speculation.work_left(index, |index| job.work(index)).0.saturating_sub(done.0));
        let loss = if job.rules.checkpoint { Span::ZERO } else { done };
        Some(Candidate { host: host.id, attempt, turn: speculation.turn(index, left), left, loss })
    }

    /// One attempt goes, and the claimant's task comes; false if it does not.
    fn give_room(&mut self, chosen: &Candidate, claim: &Claim, fx: &mut Vec<Effect>) -> bool {
        let Candidate { host, attempt, left, loss, .. } = *chosen;
        let TaskId { job: id, index } = attempt.task;
        let started = |jobs: &Jobs| jobs.table.get(&claim.job).map(|job| job.attempts);
        let before = started(&self.jobs);
        let Some(job) = self.jobs.table.get_mut(&id) else { return false };
        let kept = job.rules.checkpoint;
        if let Some(speculation) = job.speculation.as_mut().filter(|_| kept && loss == Span::ZERO) {
            speculation.left.insert(index, left);
        }
        self.preempt(host, attempt, TaskId::new(claim.job, claim.turn.index), kept, fx);
        self.place_job(claim.job, fx);
        started(&self.jobs) != before
    }
}

/// Whether what runs goes after what wants room. Among tasks of one kind only what keeps its state makes room.
fn goes_after(running: &Candidate, claim: &Claim, job: &Job, claimant: &Job) -> bool {
    if running.turn.disclosed != claim.turn.disclosed {
        return running.turn.disclosed;
    }
    let answer = |job: &Job| job.speculation.as_ref().map(|speculation| speculation.answer());
    let priority = |job: &Job| Reverse(job.rules.priority);
    claim.overtakes
        && job.rules.checkpoint
        && answer(job) == answer(claimant)
        && (priority(job), running.turn.key) > (priority(claimant), claim.turn.key)
}
