//! Compares results for a quorum, and tells the scheduler which party owns each host. Byte-by-byte
//! comparison uses fingerprints and is answered at once; floats are compared outside the core. The
//! scheduler draws the conclusions.

use std::collections::BTreeMap;

use common::job::Compare;
use common::{AttemptId, HostId, JobId, TaskId};
use scheduler::Event;

use super::Core;
use crate::compare::Comparison;
use crate::store::StoreResult;

impl Core {
    /// Compares the result of `attempt` with those in `with`, as the scheduler asks.
    pub(super) fn on_compare(&mut self, attempt: AttemptId, with: &[AttemptId]) -> StoreResult<()> {
        let Some(job) = self.jobs.get(&attempt.task.job) else {
            return Ok(());
        };
        match job.spec.rules.quorum.compare {
            Compare::Bytes => {
                let agrees = self.equal_results(attempt, with)?;
                self.follow.push(Event::ResultCompared { attempt, agrees });
            }
            Compare::Floats(tolerance) => {
                // Nobody listens only while the master shuts down; the next one compares again.
                let _ = self.compare.send(Comparison {
                    user: job.view.user.clone(),
                    attempt,
                    with: with.to_vec(),
                    tolerance,
                });
            }
            Compare::Program => {
                let of_task = self.undecided.entry(attempt.task).or_default();
                of_task.insert(attempt, with.to_vec());
                self.changed.0 = true;
            }
        }

        Ok(())
    }

    /// The numbers of those attempts in `with` that have left the same as `attempt`, byte by byte. Where
    /// nothing is left any more there is nothing to agree with.
    fn equal_results(&self, attempt: AttemptId, with: &[AttemptId]) -> StoreResult<Vec<u32>> {
        let Some(mine) = self.store.result_of(attempt)? else {
            return Ok(Vec::new());
        };
        let mine = mine.fingerprint();

        let mut agrees = Vec::new();
        for other in with {
            let left = self.store.result_of(*other)?;
            let equal = left.is_some_and(|left| left.fingerprint() == mine);
            agrees.extend(equal.then_some(other.number));
        }
        Ok(agrees)
    }

    /// The next `most` results of a job that wait for the user's comparison program, `after` one of them or from
    /// the first on, each with the earlier results to compare with.
    pub(super) fn undecided(
        &self,
        job: JobId,
        after: Option<AttemptId>,
        most: usize,
    ) -> Vec<(AttemptId, Vec<AttemptId>)> {
        let first = after.map_or(TaskId::new(job, 0), |after| after.task);
        let tasks = first..=TaskId::new(job, u32::MAX);
        let of_job = self.undecided.range(tasks).flat_map(|(_, of)| of);
        of_job
            .filter(|(attempt, _)| after < Some(**attempt))
            .take(most)
            .map(|(attempt, with)| (*attempt, with.clone()))
            .collect()
    }

    /// Drops the waiting comparisons of a settled task.
    pub(super) fn nothing_undecided(&mut self, task: TaskId) {
        self.undecided.remove(&task);
    }

    /// Takes the verdict of the user's program on a result; false if no comparison waits for it.
    pub(super) fn judge(&mut self, attempt: AttemptId, agrees: Vec<u32>) -> StoreResult<bool> {
        let of_task = self.undecided.get_mut(&attempt.task);
        let waited = of_task.is_some_and(|of| of.remove(&attempt).is_some());
        if waited {
            self.on_compared(attempt, agrees)?;
        }
        Ok(waited)
    }

    /// Tells the scheduler of each host whose party has changed. A host without an owner is a party
    /// of its own.
    pub(super) fn tell_standings(&mut self) -> StoreResult<()> {
        let mut first = BTreeMap::new();
        let mut standings = Vec::new();
        for (id, host) in &mut self.hosts {
            let party = host
                .owner
                .as_ref()
                .map_or(*id, |owner| *first.entry(owner.clone()).or_insert(*id));
            if host.party.unwrap_or(*id) != party {
                host.party = Some(party);
                standings.push((*id, party));
            }
        }

        for (host, party) in standings {
            let valid = self.scheduler.host_valid(host);
            self.step(Event::HostStanding { host, party, valid })?;
        }

        Ok(())
    }

    /// Sets or clears the owner of a host.
    pub(super) fn own(&mut self, id: HostId, owner: Option<String>) -> StoreResult<()> {
        let Some(host) = self.hosts.get_mut(&id) else {
            return Ok(());
        };
        self.store.host_owner(id, owner.as_deref())?;
        host.owner = owner;
        self.tell_standings()?;
        self.step(Event::Tick)
    }

    /// Tells the scheduler which other results agree with that of `attempt`, as found outside the
    /// core.
    pub(super) fn on_compared(&mut self, attempt: AttemptId, agrees: Vec<u32>) -> StoreResult<()> {
        self.step(Event::ResultCompared { attempt, agrees })
    }
}

#[cfg(test)]
mod tests {
    use common::attempt::Completion;
    use common::view::AttemptState;
    use common::{Content, Time};

    use super::super::retention::tests::core;
    use crate::store::tests::{add_job_with, attempt, completion, spec, start};

    #[test]
    fn a_result_that_is_gone_agrees_with_none_not_even_with_one_that_has_nothing_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut core = core(dir.path(), Time(9), true);
        let job = add_job_with(&mut core.store, 1, (&spec(1), &[]), "ann");
        let [gone, first, second] = [1, 2, 3].map(|number| attempt(job, 1, number));
        for id in [first, second] {
            start(&mut core.store, id);
            let mut empty: Completion = completion(id, 7);
            empty.stdout.content = Content::Inline(Vec::new());
            empty.stdout.dropped = 0;
            empty.outputs = Vec::new();
            core.store
                .attempt_result(&empty, AttemptState::Finished, Time(9))
                .unwrap();
        }

        let agrees = core.equal_results(first, &[gone, second]).unwrap();
        assert_eq!(agrees, [3]);
        let agrees = core.equal_results(gone, &[first, second]).unwrap();
        assert!(agrees.is_empty(), "{agrees:?}");
    }
}
