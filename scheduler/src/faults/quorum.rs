//! Jobs with a quorum, whose results must agree before they count: the attempts that their tasks
//! still need, the hosts of these, and the consequences of a comparison. The caller compares the
//! results; the trust in hosts is decided in [`crate::policy::trust`].

use std::collections::{BTreeMap, BTreeSet};

use common::job::Rules;
use common::{AttemptId, HostId, IdSet, JobId, TaskId};

use crate::handlers::dispatch::Starter;
use crate::handlers::jobs::MAX_NUMBER;
use crate::policy::replication::{CopyPurpose, Urgency};
use crate::policy::trust::{TRUSTED_FROM, audited};
use crate::protocol::effect::{CopyReason, Effect, EndReason, Judgement, Settled, StartReason};
use crate::protocol::event::RestoredProgress;
use crate::state::blame::UNSTARTED;
use crate::state::host::Hosts;
use crate::state::job::{Job, TaskRecord};
use crate::state::opinions::{OpinionWait, OwnerSet};
use crate::state::question::OpenVotes;
use crate::state::scheduler::Scheduler;
use crate::state::wishes::Wish;

impl TaskRecord {
    fn question(&mut self) -> &mut OpenVotes {
        self.question.get_or_insert_default()
    }

    /// Whether several results of it are wanted, which must agree.
    pub(crate) fn wants_several(&self) -> bool {
        let question = self.question.as_ref();
        question.is_some_and(|question| question.wanted > 1)
    }
}

impl Job {
    /// Returns the number of further attempts of a task that are needed, held up ones not counted
    /// as live; 0 for a task that failed or was lost too often to be started once more.
    pub(crate) fn results_missing(record: &TaskRecord, rules: &Rules) -> usize {
        let Some(question) = &record.question else {
            return 0;
        };
        if record.is_spent(rules) || question.is_full() {
            return 0;
        }

        let missing = question.ballot.missing(question.wanted);
        let going = record.live.iter().filter(|copy| copy.hold_up.is_none());
        missing.saturating_sub(going.count())
    }

    /// Adds a wish for another attempt of a task with live ones, if it needs more results than
    /// those can give.
    pub(crate) fn want_results(&mut self, index: u32, max_copies: u32) {
        let Some(record) = self.records.get(&index) else {
            return;
        };
        let most = max_copies.max(self.rules.quorum.size) as usize;
        // One that few hosts could start is tried again once nothing else is under way.
        let may_start = record.live.len() < most && record.unstarted < UNSTARTED;
        let missing = may_start && Self::results_missing(record, &self.rules) > 0;

        match record.live.first() {
            Some(first) if missing => {
                let held_up = record.live.iter().find_map(|copy| copy.hold_up);
                let wanted = record
                    .question
                    .as_ref()
                    .map_or(0, |question| question.wanted);
                let why = held_up
                    .filter(|_| wanted <= 1)
                    .unwrap_or(CopyReason::Quorum(wanted));
                let urgency = Urgency {
                    class: CopyPurpose::Primary,
                    speed: common::Speed::REFERENCE,
                };
                self.wishes.add(
                    index,
                    urgency,
                    Wish {
                        of: first.attempt.number,
                        why,
                    },
                );
            }
            _ => self.wishes.remove(index),
        }
    }

    /// Returns the expected further attempts, each by its task, beside the live ones and the next
    /// attempt of each waiting task.
    pub(crate) fn opinions_due(&self) -> Vec<u32> {
        if !self.rules.quorum.compares() {
            return Vec::new();
        }

        let begun = self.begun_opinions_due();
        let fresh = self
            .fresh
            .iter()
            .map(|index| (index, self.rules.quorum.size as usize - 1));

        begun
            .chain(fresh)
            .flat_map(|(index, times)| std::iter::repeat_n(index, times))
            .collect()
    }

    /// Returns the tasks that had an attempt, each with the number of those further attempts.
    fn begun_opinions_due(&self) -> impl Iterator<Item = (u32, usize)> {
        self.records.iter().map(|(index, record)| {
            let next = usize::from(self.requeued.contains(index));
            let missing = Self::results_missing(record, &self.rules);
            (index, missing.saturating_sub(next))
        })
    }

    /// Returns the number of attempts that its waiting tasks will still take at least, those of unrequested
    /// tasks left out where these are held back, or where only requested ones are asked about.
    pub(crate) fn attempts_due(&self, requested: bool) -> u64 {
        let left_out = if requested || self.held_back().is_some() {
            self.waiting_disclosed()
        } else {
            0
        };
        let waiting = self.waiting().saturating_sub(left_out);
        if !self.rules.quorum.compares() {
            return waiting;
        }

        let begun = self.begun_opinions_due().map(|(_, times)| times as u64);
        let further = u64::from(self.rules.quorum.size).saturating_sub(1);
        waiting + begun.sum::<u64>() + self.fresh.len() * further
    }

    /// Returns the tasks of which a result is being compared.
    pub(crate) fn compared_now(&self) -> IdSet {
        let compared = self.records.iter().filter(|(_, record)| record.compares());
        compared.map(|(index, _)| index).collect()
    }

    /// Returns the parties that have results or live attempts of a task; `None` where that is not all that keeps it from
    /// hosts.
    fn owners_with(&self, index: u32, hosts: &Hosts) -> Option<OwnerSet> {
        let owners = self.records.get(&index)?.parties(hosts).collect();
        (!self.blame.keeps(index)).then_some(owners)
    }

    /// Returns how a task waits for another result.
    fn opinion_wait(&self, index: u32, hosts: &Hosts) -> OpinionWait {
        if !self.requeued.contains(index) {
            return OpinionWait::Not;
        }
        let owners = self.owners_with(index, hosts);
        owners.map_or(OpinionWait::Apart, OpinionWait::Behind)
    }

    /// Returns the waiting tasks that have results, and the tasks that want results beside those of
    /// their live attempts. One that wants a single result so far, and an attempt in the place of a
    /// held up one, is none of these.
    pub(crate) fn wants_opinions(&self) -> IdSet {
        let has_results = |index: &u32| {
            let record = self.records.get(index);
            record.is_some_and(|record| !record.votes().is_empty())
        };
        let waiting = self.requeued.iter().filter(has_results);
        let wishes = self.wishes.all().into_iter().map(|(index, ..)| index);
        let several = wishes.filter(|index| {
            let record = self.records.get(index);
            record.is_some_and(TaskRecord::wants_several)
        });
        waiting.chain(several).collect()
    }

    /// Forgets that results of these tasks were believed alone: they are gone, and nobody has to
    /// confirm them.
    pub(crate) fn believe_no_more(&mut self, tasks: &IdSet) {
        self.alone.retain(|_, results| {
            results.retain(|index, _| !tasks.contains(*index));
            !results.is_empty()
        });
    }

    /// Returns those of the tasks that have results of which two do not agree.
    pub(crate) fn differing(&self, tasks: &IdSet) -> IdSet {
        let differs = |index: &u32| {
            let question = self.records.get(index).and_then(|it| it.question.as_ref());
            question.is_some_and(|question| question.ballot.differs())
        };
        tasks.iter().filter(differs).collect()
    }
}

impl Starter<'_> {
    /// Sets the number of results that a task wants, with its first attempt: the job's
    /// `quorum.size`, or one where the host is believed alone and this is no audit.
    pub(crate) fn ask(&self, job: &mut Job, index: u32, host: HostId) {
        let quorum = job.rules.quorum;
        let valid = self.hosts.table.get(&host).map_or(0, |host| host.valid);
        let Some(record) = job.records.at_mut(&index) else {
            return;
        };
        let fresh = record.live.is_empty();
        let number = record.attempts + 1;
        let question = record.question();
        if !fresh || !question.ballot.votes().is_empty() {
            return;
        }

        let task = TaskId::new(job.rank.job, index);
        let attempt = AttemptId {
            task,
            number,
            incarnation: self.incarnation,
        };
        let alone = quorum.adaptive && !audited(self.settings.audit_seed, attempt, valid);
        question.wanted = if alone { 1 } else { quorum.size };
    }

    /// Places the tasks of a job whose results are compared: first the attempts that begun tasks
    /// want, then tasks that wait for another result, then fresh ones, each at once with all the
    /// attempts that it wants. The job's policy proposes the hosts.
    pub(crate) fn place_for_quorum(&mut self, job: &mut Job, fx: &mut Vec<Effect>) {
        self.prepare(job);
        self.place_wishes(job, fx);
        self.place_opinions(job, fx);

        while self.quota > 0
            && let Some(index) = job.fresh.first()
            && let Some(host) = self.proposed(job, index)
            && let Some((index, why)) = job.pop_waiting_fresh()
        {
            self.start(job, index, host, why, fx);
            self.place_wanted(job, index, fx);
        }
    }

    /// Starts attempts that begun tasks want. Where a task found no host, no other one does of which the
    /// same owners have results or attempts: hosts only fill up here.
    fn place_wishes(&mut self, job: &mut Job, fx: &mut Vec<Effect>) {
        if self.is_done() {
            return;
        }

        let mut refused: BTreeSet<OwnerSet> = BTreeSet::new();
        for (index, class, _) in job.wishes.all() {
            if class != CopyPurpose::Primary || self.is_done() {
                continue;
            }
            let owners = job.owners_with(index, self.hosts);
            let hopeless = owners.as_ref().is_some_and(|same| refused.contains(same));
            if !hopeless && !self.place_wanted(job, index, fx) {
                refused.extend(owners);
            }
        }
    }

    /// Starts waiting tasks that had attempts, each with all the attempts that it wants.
    fn place_opinions(&mut self, job: &mut Job, fx: &mut Vec<Effect>) {
        if self.is_done() || job.requeued.is_empty() {
            return;
        }

        let mut opinions = std::mem::take(&mut job.compared.opinions);
        let mut line = opinions.line_up(&|index| job.opinion_wait(index, self.hosts));
        while !self.is_done() {
            let look = |index| job.opinion_wait(index, self.hosts);
            let Some((index, group)) = opinions.next(&mut line, &look) else {
                break;
            };
            let Some(host) = self.proposed(job, index) else {
                line.refuse(group);
                continue;
            };

            let record = job.records.get(&index);
            let why = record.map_or(StartReason::First, TaskRecord::start_reason);
            opinions.take((index, group), &mut line);
            job.requeued.remove(index);
            self.start(job, index, host, why, fx);
            self.place_wanted(job, index, fx);
        }

        opinions.absorb(&job.compared.opinions);
        job.compared.opinions = opinions;
    }

    /// Whether no further attempt may start now.
    fn is_done(&self) -> bool {
        self.hosts.index.all.ready.is_empty() || self.quota == 0
    }

    /// Starts the attempts that a task wants, as far as hosts of other owners are ready. Returns whether one
    /// started.
    fn place_wanted(&mut self, job: &mut Job, index: u32, fx: &mut Vec<Effect>) -> bool {
        let mut any = false;
        while let Some(wish) = job.wishes.of(index)
            && let Some(host) = self.proposed(job, index)
        {
            job.wishes.remove(index);
            let why = StartReason::Duplicate(wish.of, wish.why);
            if self.start(job, index, host, why, fx).is_none() {
                break;
            }
            any = true;
        }
        any
    }
}

impl Scheduler {
    /// Takes over who owns a host and how far it is believed. Results that it has given are its
    /// new owner's from then on: the number of a party may come to stand for another owner.
    pub(crate) fn on_host_standing(&mut self, host: HostId, party: HostId, valid: u32) {
        let entry = self.hosts.entry(host, self.now);
        entry.valid = valid;
        if std::mem::replace(&mut entry.party, party) == party {
            return;
        }

        let compared = (self.jobs.table.values_mut()).filter(|job| job.rules.quorum.compares());
        for job in compared {
            job.compared.opinions.mix();
            for record in job.records.values_mut() {
                if let Some(question) = &mut record.question
                    && question.ballot.reown(host, party)
                {
                    let first = question.ballot.votes().first();
                    self.reowned.extend(first.map(|vote| vote.attempt.task));
                }
            }
        }
    }

    /// Settles the tasks of which results went to another party, as far as that decides them.
    pub(crate) fn settle_reowned(&mut self, fx: &mut Vec<Effect>) {
        for task in std::mem::take(&mut self.reowned) {
            let job = self.jobs.table.get(&task.job);
            let record = job.and_then(|job| job.records.get(&task.index));
            let latest = record.and_then(|record| record.votes().last());
            if let Some(after) = latest.map(|vote| vote.attempt) {
                self.settle_question(after, fx);
            }
        }
    }

    /// Handles the success of an attempt: the task is done, or has one more result to be compared.
    pub(crate) fn succeed(&mut self, host: HostId, attempt: AttemptId, fx: &mut Vec<Effect>) {
        let Some(job) = self.jobs.table.get_mut(&attempt.task.job) else {
            return;
        };
        let quorum = job.rules.quorum;
        if !quorum.compares() {
            return self.finish(attempt, fx);
        }

        let known = self.hosts.table.get(&host);
        let (party, valid) = known.map_or((host, 0), |host| (host.party, host.valid));
        let Some(record) = job.records.at_mut(&attempt.task.index) else {
            return;
        };
        record.end(
            attempt,
            &EndReason::Delivered(common::attempt::Outcome::Succeeded),
            false,
        );

        if let Some(ended) = record
            .ended
            .iter_mut()
            .find(|ended| ended.attempt == attempt)
        {
            ended.delivered = true;
        }

        let highest = record.attempts;
        let question = record.question();
        let trusted = quorum.adaptive && valid >= TRUSTED_FROM;

        if question.wanted == 1 && trusted && question.ballot.votes().is_empty() {
            job.alone
                .entry(host)
                .or_default()
                .insert(attempt.task.index, (attempt, highest));
            fx.push(Effect::Judged {
                host,
                attempt,
                judgement: Judgement::Alone(valid),
            });
            return self.finish(attempt, fx);
        }

        question.wanted = quorum.size;
        let with: Vec<AttemptId> = question
            .ballot
            .votes()
            .iter()
            .map(|vote| vote.attempt)
            .collect();

        question.ballot.add(attempt, host, party);
        fx.push(Effect::Judged {
            host,
            attempt,
            judgement: Judgement::Open(quorum.size),
        });
        if !with.is_empty() {
            fx.push(Effect::Compare { attempt, with });
        }

        self.settle_question(attempt, fx);
    }

    pub(crate) fn on_result_compared(
        &mut self,
        attempt: AttemptId,
        agrees: &[u32],
        fx: &mut Vec<Effect>,
    ) {
        let job = self.jobs.table.get_mut(&attempt.task.job);
        let Some(record) = job.and_then(|job| job.records.at_mut(&attempt.task.index)) else {
            return;
        };
        let Some(question) = &mut record.question else {
            return;
        };

        if question
            .ballot
            .votes()
            .iter()
            .any(|vote| vote.attempt == attempt)
        {
            question.ballot.compared(attempt.number, agrees);
            self.settle_question(attempt, fx);
        }
    }

    /// Settles a task's ballot if possible: enough results agree, more are wanted, or there is no
    /// hope, also since the task's retries are used up. `after` is the latest result.
    fn settle_question(&mut self, after: AttemptId, fx: &mut Vec<Effect>) {
        let task = after.task;
        let Some(job) = self.jobs.table.get_mut(&task.job) else {
            return;
        };
        let Some(record) = job.records.at_mut(&task.index) else {
            return;
        };
        let Some(question) = &record.question else {
            return;
        };
        let size = question.wanted;
        let results = question.ballot.votes().len();

        if let Some((counts, agreeing)) = question.ballot.winner(size) {
            return self.conclude(counts, &agreeing, fx);
        }
        if record.live.is_empty() && question.ballot.pending() == 0 {
            let most = u32::try_from(results).unwrap_or(u32::MAX);
            let none = question.is_full().then_some(Settled::NoQuorum(most));
            if let Some(settled) = none.or_else(|| record.spent(&job.rules)) {
                return self.give_up(task, settled, fx);
            }
        }
        if record.live.is_empty() && question.ballot.pending() > 0 {
            // It may have waited while a late result was on its way.
            job.requeued.remove(task.index);
        }
        if record.live.is_empty() && Job::results_missing(record, &job.rules) > 0 {
            job.requeue(task.index, (after.number, false));
        }

        job.refresh(task.index, self.settings.max_copies);
        self.jobs.lines.sync(job);
    }

    /// Finishes a task whose results agree with that of `counts`. Hosts that differ are not
    /// believed alone any more, and results of theirs that were, in this job, are compared again.
    fn conclude(&mut self, counts: AttemptId, agreeing: &[u32], fx: &mut Vec<Effect>) {
        let Some(job) = self.jobs.table.get_mut(&counts.task.job) else {
            return;
        };
        let Some(question) = job
            .records
            .get(&counts.task.index)
            .and_then(|record| record.question.as_ref())
        else {
            return;
        };

        let mut losers = Vec::new();
        for vote in question.ballot.votes().iter().filter(|vote| vote.compared) {
            let host = vote.host;
            let attempt = vote.attempt;
            let agrees = agreeing.contains(&attempt.number);
            let judgement = if agrees {
                Judgement::Agreed(counts.number)
            } else {
                Judgement::Differed(counts.number)
            };
            fx.push(Effect::Judged {
                host,
                attempt,
                judgement,
            });

            let Some(entry) = self.hosts.table.at_mut(&host) else {
                continue;
            };
            entry.valid = if agrees {
                entry.valid.saturating_add(1)
            } else {
                0
            };
            fx.push(Effect::HostTrusted {
                host,
                valid: entry.valid,
            });
            if !agrees {
                losers.push(host);
            }
        }

        for host in losers {
            self.doubt(counts.task.job, host, fx);
        }

        self.finish(counts, fx);
    }

    /// Reopens the tasks whose results a host was believed alone for, in this job: others must
    /// agree first.
    fn doubt(&mut self, id: JobId, host: HostId, fx: &mut Vec<Effect>) {
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };
        let mut alone = job.alone.remove(&host).unwrap_or_default();
        // A task that is under way has a record, and may have live attempts.
        alone.retain(|index, _| job.finished.contains(*index));
        if alone.is_empty() {
            return;
        }

        let tasks: IdSet = alone.keys().copied().collect();
        let mut finished = job.finished.set();
        finished.subtract(&tasks);
        job.finished = finished.into();

        let party = self.hosts.party(host);
        let size = job.rules.quorum.size;
        fx.push(Effect::TasksReopened { job: id, tasks });

        for (index, (attempt, highest)) in alone {
            let mut record = TaskRecord::reborn((highest, false));
            let question = record.question();
            question.wanted = size;
            question.ballot.add(attempt, host, party);
            job.records.insert(index, record);
            job.wait_again(index);
            fx.push(Effect::Judged {
                host,
                attempt,
                judgement: Judgement::Open(size),
            });
        }

        self.jobs.lines.sync(job);
    }

    /// Restores results from before a restart; they are compared anew.
    pub(crate) fn restore_results(
        &mut self,
        id: JobId,
        job: &mut Job,
        progress: &RestoredProgress,
        fx: &mut Vec<Effect>,
    ) {
        let size = job.rules.quorum.size;
        for record in job.records.values_mut() {
            record.question().wanted = size;
        }

        for (attempt, host) in progress
            .results
            .iter()
            .copied()
            .filter(|(attempt, _)| attempt.task.job == id)
        {
            let party = self.hosts.entry(host, self.now).party;
            let Some(record) = job.records.at_mut(&attempt.task.index) else {
                continue;
            };
            let ballot = &mut record.question().ballot;
            let with: Vec<AttemptId> = ballot.votes().iter().map(|vote| vote.attempt).collect();
            if ballot.add(attempt, host, party) && !with.is_empty() {
                fx.push(Effect::Compare { attempt, with });
                job.requeued.remove(attempt.task.index);
            }
        }

        restore_alone(id, job, progress);
        let tried: Vec<u32> = job.records.keys().collect();
        for index in tried {
            job.refresh(index, self.settings.max_copies);
        }
    }
}

/// Restores the results that were believed alone, each with the highest number of its task's attempts: a copy may have
/// been started after the attempt that counts.
fn restore_alone(id: JobId, job: &mut Job, progress: &RestoredProgress) {
    let finished = |index: u32| job.finished.contains(index);
    let listed = progress.tried.iter().filter(|tried| finished(tried.task));
    let highest: BTreeMap<u32, u32> = listed.map(|tried| (tried.task, tried.attempts)).collect();

    for (attempt, host) in progress.alone.iter().copied() {
        let index = attempt.task.index;
        if attempt.task.job == id && job.finished.contains(index) {
            let number = highest.get(&index).copied().unwrap_or(0);
            let number = number.max(attempt.number).min(MAX_NUMBER);
            let results = job.alone.entry(host).or_default();
            results.insert(index, (attempt, number));
        }
    }
}
