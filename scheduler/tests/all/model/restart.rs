//! The model across a restart of the master.

use common::After;

use super::*;

impl Model {
    /// What the store would give back to a master that starts again.
    pub(crate) fn restored(&self) -> Vec<Event> {
        let set = |tasks: &BTreeSet<u32>| tasks.iter().copied().collect::<IdSet>();
        let restore = |(id, job): (&JobId, &ModelJob)| {
            let tried = |(index, highest): (&u32, &u32)| {
                let live = |attempt: AttemptId| {
                    let known = &self.attempts[&attempt];
                    (attempt, known.host, known.phase.executing())
                };
                Tried {
                    task: *index,
                    attempts: *highest,
                    failures: job.failures.get(index).copied().unwrap_or(0),
                    losses: job.losses.get(index).copied().unwrap_or(0),
                    live: self
                        .live_of(TaskId::new(*id, *index))
                        .into_iter()
                        .map(live)
                        .collect(),
                    // The model takes none of them back.
                    lost: Vec::new(),
                    ended: Vec::new(),
                    outlived: Vec::new(),
                    policed: Span::ZERO,
                }
            };

            let progress = RestoredProgress {
                finished: set(&job.finished),
                failed: set(&job.failed),
                cancelled: set(&job.cancelled),
                tried: job.highest.iter().map(tried).collect(),
                attempts: job.started,
                duplicates: job.duplicates,
                promised: job.promised,
                requested: set(&job.all.difference(&job.unrequested).copied().collect()),
                ..RestoredProgress::default()
            };

            Event::JobRestored {
                job: *id,
                bag: Box::new(Bag {
                    tasks: set(&job.all),
                    rules: job.rules.clone(),
                    terms: job.terms.clone(),
                    disclosed: job.disclosed,
                    ranks: None,
                    after: (job.after.iter())
                        .map(|(job, how)| After {
                            job: *job,
                            how: *how,
                        })
                        .collect(),
                    open: job.takes_more,
                }),
                progress: Box::new(progress),
            }
        };
        self.jobs.iter().map(restore).collect()
    }

    /// The master has restarted: what was not in its store is forgotten.
    pub(crate) fn restart(&mut self, incarnation: Incarnation) {
        self.incarnation = incarnation;
        self.now = Time(0);
        self.hosts.clear();
        self.to_restore = std::mem::take(&mut self.jobs);

        for attempt in self.attempts.values_mut() {
            attempt.phase = if attempt.phase.executing() {
                Phase::Running
            } else {
                Phase::Queued
            };
            attempt.bygone = !attempt.live;
            attempt.replaced = false;
            attempt.frozen = false;
        }
    }
}
