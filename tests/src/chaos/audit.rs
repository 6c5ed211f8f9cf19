//! What must be true of a run, whatever happens: every acknowledged submission is there, every
//! acknowledged result stays what it was, each task has one, each attempt is given out once, no
//! token buys more than it may, and what a worker has finished is not lost on it.
//!
//! Each of these is looked at from outside: by what was said to somebody, and by what the store has
//! then.

use std::collections::{BTreeMap, BTreeSet};

use common::attempt::HeldAttempt;
use common::view::AfterView;
use common::wire::worker::{Assignment, Delivery, ToMaster, ToWorker};
use common::{After, AttemptId, JobId, JobSpec, RequestId, TaskId};
use link::Contents;
use master::engine::{Engine, JobRecord, ResultRecord};
use uuid::Uuid;

use super::barrier::Barrier;
use super::contents::Shelves;
use super::master::who;
use super::people::{Ask, Told, Wish};
use super::tasks;

/// What the store of the master must have: put back when a copy of it is.
#[derive(Debug, Clone, Default)]
pub(super) struct Promised {
    submissions: BTreeMap<RequestId, (JobId, Wish)>,
    /// The jobs of which a task has started: those before them had ended.
    released: BTreeSet<JobId>,
    /// Somebody may have had them removed.
    forgettable: BTreeSet<JobId>,
    /// Somebody has asked for another try.
    retried: BTreeSet<JobId>,
    results: BTreeMap<TaskId, ResultRecord>,
    /// Attempts that this store has given out.
    given: BTreeSet<AttemptId>,
    /// The last of them for each rank.
    ranks: BTreeMap<TaskId, AttemptId>,
    tokens: BTreeMap<u32, (u32, u32)>,
    peers: BTreeMap<Uuid, [u8; 32]>,
}

/// Everything that was promised and seen.
#[derive(Debug, Default)]
pub(super) struct Audit {
    /// By the present store.
    pub(super) promised: Promised,
    /// Every attempt ever given out, to which worker, and of which command.
    given: BTreeMap<AttemptId, (usize, Option<String>)>,
    /// Attempts that workers were given under identities which they have no more.
    strange: BTreeSet<AttemptId>,
    /// Successes that each worker delivered.
    succeeded: BTreeSet<(usize, AttemptId)>,
    /// Attempts of which some worker has delivered the end.
    ended: BTreeSet<AttemptId>,
    /// What each worker has delivered, and was not told that it may forget.
    owed: BTreeMap<usize, BTreeSet<AttemptId>>,
    /// What each worker has in memory only, because its disk is full: it may deliver that, and lose
    /// it when it dies.
    unsaved: BTreeMap<usize, BTreeSet<AttemptId>>,
    /// Workers that lie.
    pub(super) liars: BTreeSet<usize>,
    /// Successes that lie in each worker's spool, or have.
    spooled: BTreeSet<(usize, AttemptId)>,
    /// Completions that each worker was told are durable at the master.
    acknowledged: BTreeSet<(usize, AttemptId)>,
    /// Successes that have just been acknowledged, or dropped: their tasks are settled.
    fresh: BTreeSet<AttemptId>,
    /// What ranks wait for.
    barrier: Barrier,
}

fn nonce(work: &Assignment) -> Option<String> {
    match &work.work {
        common::wire::worker::Errand::Noop => None,
        common::wire::worker::Errand::Command(command) => command.argv.get(1).cloned(),
    }
}

impl Audit {
    /// The master is about to send work: where it is a job's first, every job before it has ended as
    /// it had to.
    pub(super) fn on_first(&mut self, message: &ToWorker, engine: &Engine) -> Result<(), String> {
        let (ToWorker::Assign(work) | ToWorker::AssignTogether(work)) = message else {
            return Ok(());
        };
        let failed = |error: master::StoreError| format!("the store cannot be read: {error}");
        for job in work.iter().map(|work| work.attempt.task.job) {
            if !self.promised.released.insert(job) {
                continue;
            }
            let after = engine.record_of(job).map_err(failed)?;
            for before in after.into_iter().flat_map(|record| record.after) {
                // What was tried again may be open again, and what is settled may be gone.
                let changed = [&self.promised.retried, &self.promised.forgettable];
                if changed.iter().any(|jobs| jobs.contains(&before.job)) {
                    continue;
                }
                let record = engine.record_of(before.job).map_err(failed)?;
                let ended = record.is_some_and(|record| {
                    record.state.settled() && before.how.is_met_by(record.state)
                });
                if !ended || before.left.is_some() {
                    return Err(format!("job {job} starts before {before:?} has ended"));
                }
            }
        }
        Ok(())
    }

    /// The master sends a message to a worker.
    pub(super) fn on_sent(&mut self, worker: usize, message: &ToWorker) -> Result<(), String> {
        match message {
            ToWorker::Assign(work) => work.iter().try_for_each(|work| self.on_given(worker, work)),
            ToWorker::AssignTogether(work) => {
                for work in work {
                    self.promised.ranks.insert(work.attempt.task, work.attempt);
                    self.barrier.on_given(work.attempt);
                }
                work.iter().try_for_each(|work| self.on_given(worker, work))
            }
            ToWorker::Begin(attempts) => attempts
                .iter()
                .try_for_each(|attempt| self.on_begin(*attempt)),
            ToWorker::Stop { attempts, why } | ToWorker::Yield { attempts, why } => attempts
                .iter()
                .try_for_each(|attempt| self.barrier.on_stop(*attempt, why)),
            ToWorker::Acknowledged(attempts) => {
                let done = |id: &&AttemptId| {
                    self.succeeded.contains(&(worker, **id)) && self.counts(worker, **id)
                };
                let done: Vec<AttemptId> = attempts.iter().filter(done).copied().collect();
                self.fresh.extend(done);
                self.barrier.on_acknowledged(worker, attempts);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A worker drops completions. Where no acknowledgement came for a success, its task is settled
    /// in another way.
    pub(super) fn on_dropped(&mut self, worker: usize, attempts: &[AttemptId]) {
        let lost = attempts.iter().filter(|id| {
            let done = self.spooled.contains(&(worker, **id));
            // What somebody wanted to be tried again, he did not want as it was.
            let wanted = !self.promised.retried.contains(&id.task.job);
            let acknowledged = self.acknowledged.contains(&(worker, **id));
            done && wanted && !acknowledged && self.counts(worker, **id)
        });
        let lost: Vec<AttemptId> = lost.copied().collect();
        self.fresh.extend(lost);
    }

    /// Whether the present store gave the attempt to this worker, and the worker is honest.
    fn counts(&self, worker: usize, attempt: AttemptId) -> bool {
        let given = self
            .given
            .get(&attempt)
            .is_some_and(|(to, _)| *to == worker);
        given
            && !self.liars.contains(&worker)
            && !self.strange.contains(&attempt)
            && self.promised.given.contains(&attempt)
    }

    /// What the master says to somebody is about to be looked at: an attempt that is to begin is
    /// the one of its rank that counts, even if others were given out since, and lost.
    pub(super) fn on_word(&mut self, message: &ToWorker) {
        if let ToWorker::Begin(attempts) = message {
            self.promised
                .ranks
                .extend(attempts.iter().map(|attempt| (attempt.task, *attempt)));
        }
    }

    /// The master has a rank begin: every other one of its job must be ready, or done, unless the
    /// job has begun before.
    fn on_begin(&mut self, attempt: AttemptId) -> Result<(), String> {
        let job = attempt.task.job;
        let own = self
            .promised
            .ranks
            .range(TaskId::new(job, 0)..=TaskId::new(job, u32::MAX));
        let done = |task: &TaskId| {
            self.succeeded
                .iter()
                .any(|(_, attempt)| attempt.task == *task)
        };
        let trusted = |id: &AttemptId| {
            self.given
                .get(id)
                .is_some_and(|(worker, _)| !self.liars.contains(worker))
        };

        // One that has failed for good keeps nobody waiting, where its job bears that.
        let open = own.filter(|(task, latest)| {
            trusted(latest) && !done(task) && !self.ended.contains(latest)
        });
        self.barrier
            .on_begin(attempt, open.map(|(_, latest)| *latest))
    }

    /// The master's memory is gone.
    pub(super) fn on_master_gone(&mut self) {
        self.barrier.on_master_gone();
    }

    /// A worker has an attempt's files in place.
    pub(super) fn on_staged(&mut self, attempt: AttemptId) {
        self.barrier.on_staged(attempt);
    }

    /// A worker starts an attempt's command.
    pub(super) fn on_started(&self, worker: usize, attempt: AttemptId) -> Result<(), String> {
        self.barrier.on_started(worker, attempt)
    }

    /// A worker is another one from now on: what it holds is not its own to the master.
    pub(super) fn on_new_identity(&mut self, worker: usize) {
        let held = self.given.iter().filter(|(_, (to, _))| *to == worker);
        self.strange.extend(held.map(|(attempt, _)| *attempt));
    }

    /// A worker's spool has made these durable.
    pub(super) fn on_spooled(&mut self, worker: usize, deliveries: &[Delivery]) {
        let done = deliveries
            .iter()
            .filter(|delivery| delivery.completion.outcome.success());
        self.spooled
            .extend(done.map(|delivery| (worker, delivery.completion.attempt)));
    }

    /// A worker's disk had no room for these.
    pub(super) fn on_unsaved(&mut self, worker: usize, deliveries: &[Delivery]) {
        self.unsaved.entry(worker).or_default().extend(
            deliveries
                .iter()
                .map(|delivery| delivery.completion.attempt),
        );
    }

    /// A worker's disk had room for everything that waited for it.
    pub(super) fn on_saved(&mut self, worker: usize) {
        self.unsaved.remove(&worker);
    }

    /// A worker's process is gone, and what it had in memory only. Returns whether it had delivered
    /// some of that.
    pub(super) fn on_worker_gone(&mut self, worker: usize) -> bool {
        let unsaved = self.unsaved.remove(&worker).unwrap_or_default();
        let Some(owed) = self.owed.get_mut(&worker) else {
            return false;
        };
        let before = owed.len();
        owed.retain(|attempt| !unsaved.contains(attempt));
        owed.len() < before
    }

    fn on_given(&mut self, worker: usize, work: &Assignment) -> Result<(), String> {
        let attempt = work.attempt;
        self.promised.given.insert(attempt);
        match self.given.insert(attempt, (worker, nonce(work))) {
            Some((before, what)) if (before, &what) != (worker, &nonce(work)) => Err(format!(
                "attempt {attempt:?} was given out twice: to worker-{before} for {what:?}, then to worker-{worker} for {:?}",
                nonce(work)
            )),
            _ => Ok(()),
        }
    }

    /// A worker sends a message to the master.
    pub(super) fn on_said(&mut self, worker: usize, message: &ToMaster) -> Result<(), String> {
        match message {
            ToMaster::Delivered(deliveries) => {
                deliveries
                    .iter()
                    .for_each(|delivery| self.on_delivered(worker, delivery));
            }
            ToMaster::Hello { held, .. } => return self.on_hello(worker, held),
            _ => {}
        }
        Ok(())
    }

    fn on_delivered(&mut self, worker: usize, Delivery { completion, .. }: &Delivery) {
        if completion.outcome.success() {
            self.succeeded.insert((worker, completion.attempt));
        }
        self.ended.insert(completion.attempt);
        if !self.liars.contains(&worker) {
            self.owed
                .entry(worker)
                .or_default()
                .insert(completion.attempt);
        }
    }

    fn on_hello(&mut self, worker: usize, held: &[HeldAttempt]) -> Result<(), String> {
        let owed = self.owed.entry(worker).or_default();
        match owed
            .iter()
            .find(|attempt| !held.iter().any(|held| held.attempt == **attempt))
        {
            Some(lost) => Err(format!(
                "worker-{worker} delivered {lost:?}, was never told that it may forget it, and comes back without it"
            )),
            None => Ok(()),
        }
    }

    /// The master told a worker that these are not wanted any more.
    pub(super) fn on_told(&mut self, worker: usize, message: &ToWorker) {
        if let ToWorker::Begin(attempts) = message {
            self.barrier.on_told(worker, attempts);
        }
        if let ToWorker::Acknowledged(attempts) = message {
            self.acknowledged
                .extend(attempts.iter().map(|attempt| (worker, *attempt)));
        }

        let gone = match message {
            ToWorker::Acknowledged(attempts) | ToWorker::Beat { abandon: attempts } => attempts,
            ToWorker::Welcome { abandon, .. } => abandon,
            _ => return,
        };
        let owed = self.owed.entry(worker).or_default();
        owed.retain(|attempt| !gone.contains(attempt));
    }

    /// The master hears a question: what it may do from now on.
    pub(super) fn on_asked(&mut self, ask: &Ask) {
        match ask {
            Ask::Forget(job) => self.promised.forgettable.insert(*job),
            Ask::Retry(job, _) => self.promised.retried.insert(*job),
            _ => false,
        };
    }

    /// The master answers a question.
    pub(super) fn on_answered(&mut self, ask: &Ask, answered: &Told) -> Result<(), String> {
        match (ask, answered) {
            (Ask::Submit(request, wish), Told::Submitted(Ok((job, _)))) => {
                let before = self
                    .promised
                    .submissions
                    .insert(*request, (*job, (**wish).clone()));
                match before {
                    // Nobody remembers the request of a job that was forgotten.
                    Some((other, _))
                        if other != *job && self.promised.forgettable.contains(&other) =>
                    {
                        Ok(())
                    }
                    Some((other, _)) if other != *job => {
                        Err(format!("{request} is job {other}, and then {job}"))
                    }
                    Some((_, other)) if other.spec != wish.spec => {
                        Err(format!("{request} was taken with another body"))
                    }
                    _ => Ok(()),
                }
            }
            (Ask::Token(uses), Told::Token(token)) => {
                self.promised.tokens.insert(token.id, (*uses, 0));
                Ok(())
            }
            (Ask::Enrol(token, key), Told::Enrolled(Ok(admitted))) => {
                // The same key is given the same identity again.
                let new = self.promised.peers.insert(admitted.id, *key).is_none();
                let (uses, used) = self.promised.tokens.entry(token.id).or_insert((0, 0));
                *used += u32::from(new);
                match used <= uses {
                    true => Ok(()),
                    false => Err(format!(
                        "token {} was good for {uses} certificates, and bought {used}",
                        token.id
                    )),
                }
            }
            _ => Ok(()),
        }
    }

    /// Looks through the store.
    pub(super) fn look(
        &mut self,
        engine: &mut Engine,
        contents: &Shelves,
        all: bool,
    ) -> Result<(), String> {
        let failed = |error: master::StoreError| format!("the store cannot be read: {error}");
        for (id, key) in &self.promised.peers {
            if all && who(engine, *id, *key).map_err(failed)?.is_none() {
                return Err(format!("{id} has a certificate, and is not known"));
            }
        }

        let fresh = std::mem::take(&mut self.fresh);
        let mut open = 0;
        let submissions: Vec<_> = self
            .promised
            .submissions
            .iter()
            .map(|(request, (job, _))| (*request, *job))
            .collect();
        for (request, job) in submissions {
            let touched = fresh.iter().any(|attempt| attempt.task.job == job);
            if !all && !touched {
                continue;
            }

            let Some(record) = engine.record_of(job).map_err(failed)? else {
                if self.promised.forgettable.contains(&job) {
                    continue;
                }
                return Err(format!("job {job} was acknowledged, and is not there"));
            };

            if engine.job_of(request).map_err(failed)? != Some(job) {
                return Err(format!("the request {request} is not job {job} any more"));
            }

            open += usize::from(!record.state.settled());
            self.look_at(job, request, &record, contents)?;
            for attempt in fresh.iter().filter(|attempt| attempt.task.job == job) {
                settled(attempt.task, &record).map_err(|why| {
                    format!("{attempt:?} was done, its worker may forget it, and {why}")
                })?;
            }
        }

        if all && open > engine.open_jobs() {
            return Err(format!(
                "{open} acknowledged jobs are open, and {} are in memory",
                engine.open_jobs()
            ));
        }

        Ok(())
    }

    fn look_at(
        &mut self,
        job: JobId,
        request: RequestId,
        record: &JobRecord,
        contents: &Shelves,
    ) -> Result<(), String> {
        if self
            .promised
            .submissions
            .get(&request)
            .is_none_or(|(_, wish)| !is_that(wish, record))
        {
            return Err(format!("job {job} is not what was submitted"));
        }
        for result in &record.results {
            let task = result.attempt.task;
            self.look_at_result(result, record, contents)?;
            match self.promised.results.insert(task, result.clone()) {
                Some(before) if before != *result => {
                    return Err(format!(
                        "task {task} had the result of {before:?}, and now of {result:?}"
                    ));
                }
                _ => {}
            }
        }

        let tasks: BTreeSet<u32> = record
            .results
            .iter()
            .map(|result| result.attempt.task.index)
            .collect();
        if tasks.len() != record.results.len() {
            return Err(format!("a task of job {job} has more than one result"));
        }

        let lost = self
            .promised
            .results
            .range(TaskId::new(job, 0)..=TaskId::new(job, u32::MAX));
        match lost
            .map(|(task, _)| task.index)
            .find(|index| !record.finished.contains(*index))
        {
            Some(index) => Err(format!("task {job}.{index} had a result, and has none")),
            None => Ok(()),
        }
    }

    fn look_at_result(
        &self,
        result: &ResultRecord,
        record: &JobRecord,
        contents: &Shelves,
    ) -> Result<(), String> {
        let attempt = result.attempt;
        let given = self.given.get(&attempt).map(|(worker, _)| *worker);
        if let Some(file) = result.files.iter().find(|file| !contents.has(&file.blob)) {
            return Err(format!("the file {} of {attempt} is not there", file.path));
        }
        if given.is_some_and(|worker| self.liars.contains(&worker)) {
            return Ok(());
        }

        let Some(command) = record.spec.work.command() else {
            return Ok(());
        };
        let argv: Vec<String> = command
            .argv
            .iter()
            .take(2)
            .map(ToString::to_string)
            .collect();
        let (stdout, files) = tasks::result(&argv[0], &argv[1], attempt.task.index);

        match (&result.stdout, &result.files) == (&stdout, &files) {
            true => Ok(()),
            false => Err(format!(
                "the result of {attempt:?} is not that of {argv:?}: {:?}",
                result.stdout
            )),
        }
    }

    /// Open jobs that are to end some time.
    pub(super) fn unsettled(&self, engine: &Engine) -> Vec<JobId> {
        let jobs = self.promised.submissions.values().map(|(job, _)| *job);
        let open = |job: &JobId| matches!(engine.record_of(*job), Ok(Some(record)) if !record.state.settled());
        jobs.filter(open).collect()
    }

    /// Attempts that were ever given out, for those who lie about them.
    pub(super) fn attempts(&self) -> Vec<AttemptId> {
        self.given.keys().copied().collect()
    }
}

/// Whether a job is the one that was submitted: how many ranks it has is settled when it starts.
fn is_that(wish: &Wish, record: &JobRecord) -> bool {
    let after = record.after.iter();
    let after: Vec<After> = after
        .map(|AfterView { job, how, .. }| After {
            job: *job,
            how: *how,
        })
        .collect();
    if after != wish.after {
        return false;
    }

    let (submitted, spec) = (&wish.spec, &record.spec);
    let Some(ranks) = submitted.work.ranks() else {
        return submitted == spec;
    };
    let there = spec.tasks.ids.len() as u32;
    let may_be = there >= ranks.least && ranks.most.is_none_or(|most| there <= most);
    let same = JobSpec {
        tasks: submitted.tasks.clone(),
        ..spec.clone()
    } == *submitted;
    same && may_be && spec.tasks.ids == common::Ranks::tasks(there)
}

fn settled(task: TaskId, record: &JobRecord) -> Result<(), String> {
    let settled = [&record.finished, &record.failed, &record.cancelled]
        .iter()
        .any(|set| set.contains(task.index));
    if settled {
        Ok(())
    } else {
        Err(format!("task {task} is open"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::{Completion, Incarnation, Outcome, Span};

    fn delivery() -> Delivery {
        let attempt = AttemptId {
            task: TaskId::new(JobId(1), 0),
            number: 1,
            incarnation: Incarnation(7),
        };
        Delivery {
            completion: Completion {
                ran: Span::from_secs(1),
                ..Completion::bare(attempt, Outcome::Succeeded)
            },
            ago: Span::ZERO,
        }
    }

    /// An audit of a worker that has delivered a completion, which its full disk did not take.
    fn delivered_from_memory() -> Audit {
        let mut audit = Audit::default();
        audit.on_unsaved(0, &[delivery()]);
        audit.on_delivered(0, &delivery());
        audit
    }

    #[test]
    fn a_completion_that_is_in_memory_only_may_be_lost_with_its_worker() {
        let mut audit = delivered_from_memory();
        assert!(audit.on_hello(0, &[]).is_err(), "the worker still runs");
        assert!(audit.on_worker_gone(0));
        assert_eq!(audit.on_hello(0, &[]), Ok(()));
    }

    #[test]
    fn a_completion_for_which_there_was_room_later_may_not_be_lost() {
        let mut audit = delivered_from_memory();
        audit.on_saved(0);
        assert!(!audit.on_worker_gone(0));
        assert!(audit.on_hello(0, &[]).is_err());
    }
}
