//! Do results agree? Byte by byte that follows from their hashes and is said at once; numbers are
//! compared beside the core. And whose the hosts are. What is not here: what follows from either
//! (that is the scheduler's).

use std::collections::BTreeMap;

use common::job::Compare;
use common::{AttemptId, HostId, JobId, TaskId};
use scheduler::Event;

use super::Core;
use crate::compare::Comparison;
use crate::store::StoreError;

impl Core {
    /// The scheduler wants to know with which of these results this one agrees.
    pub(super) fn on_compare(
        &mut self,
        attempt: AttemptId,
        with: &[AttemptId],
    ) -> Result<(), StoreError> {
        let Some(job) = self.jobs.get(&attempt.task.job) else {
            return Ok(());
        };
        match job.spec.rules.quorum.compare {
            Compare::Bytes => {
                let mine = self
                    .store
                    .result_of(attempt)?
                    .unwrap_or_default()
                    .fingerprint();
                let mut agrees = Vec::new();
                for other in with {
                    if self
                        .store
                        .result_of(*other)?
                        .unwrap_or_default()
                        .fingerprint()
                        == mine
                    {
                        agrees.push(other.number);
                    }
                }

                self.follow.push(Event::ResultCompared { attempt, agrees });
            }
            Compare::Floats(tolerance) => {
                let mine = self.store.result_of(attempt)?.unwrap_or_default();
                let mut others = Vec::new();
                for other in with {
                    others.push((
                        other.number,
                        self.store.result_of(*other)?.unwrap_or_default(),
                    ));
                }

                // Nobody listens only while the master shuts down; the next one compares again.
                let _ = self.compare.send(Comparison {
                    attempt,
                    mine,
                    others,
                    tolerance,
                });
            }
            Compare::Program => {
                self.undecided.insert(attempt, with.to_vec());
                self.changed.0 = true;
            }
        }

        Ok(())
    }

    /// The first so many results of a job that wait for a program of the user's, each with those
    /// that were there before.
    pub(crate) fn undecided(&self, job: JobId, most: usize) -> Vec<(AttemptId, Vec<AttemptId>)> {
        let of_job = self
            .undecided
            .iter()
            .filter(|(attempt, _)| attempt.task.job == job);
        of_job
            .take(most)
            .map(|(attempt, with)| (*attempt, with.clone()))
            .collect()
    }

    /// The task is settled: nothing of it waits any more.
    pub(super) fn nothing_undecided(&mut self, task: TaskId) {
        if !self.undecided.is_empty() {
            self.undecided.retain(|attempt, _| attempt.task != task);
        }
    }

    /// What a program of the user's says of a result; false where nobody waits for that.
    pub(crate) fn judge(
        &mut self,
        attempt: AttemptId,
        agrees: Vec<u32>,
    ) -> Result<bool, StoreError> {
        let waited = self.undecided.remove(&attempt).is_some();
        if waited {
            self.on_compared(attempt, agrees)?;
        }
        Ok(waited)
    }

    /// Tells the scheduler whose each host is, where that has changed: hosts without an owner are
    /// each their own.
    pub(super) fn tell_standings(&mut self) -> Result<(), StoreError> {
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

    /// Says whose a host is.
    pub(crate) fn own(&mut self, id: HostId, owner: Option<String>) -> Result<(), StoreError> {
        let Some(host) = self.hosts.get_mut(&id) else {
            return Ok(());
        };
        self.store.host_owner(id, owner.as_deref())?;
        host.owner = owner;
        self.tell_standings()
    }

    /// With which other results that of an attempt agrees, as it was found beside the core.
    pub(crate) fn on_compared(
        &mut self,
        attempt: AttemptId,
        agrees: Vec<u32>,
    ) -> Result<(), StoreError> {
        self.step(Event::ResultCompared { attempt, agrees })
    }
}
