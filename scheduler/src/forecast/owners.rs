//! Owners for the results of a quorum: the tasks that want more of them than there are owners left
//! with hosts for them, so that nobody can say when the job ends. Which results count is decided in
//! `faults`.

use std::collections::{BTreeMap, BTreeSet};

use common::job::Rules;
use common::needs::Needs;
use common::{HostId, IdSet};

use crate::forecast::starts::kept;
use crate::policy::trust::TRUSTED_FROM;
use crate::state::host::{Host, Hosts};
use crate::state::job::{Job, TaskRecord};
use crate::state::scheduler::Scheduler;

/// The owners left for jobs, by what their tasks need and whether a host may be believed alone. Of use
/// within one question.
pub(crate) type KnownOwners<'a> = BTreeMap<(&'a Needs, bool), OwnersLeft>;

/// The owners of the hosts that take tasks of a job, or will once their owners leave.
pub(crate) struct OwnersLeft {
    parties: BTreeSet<HostId>,
    /// Whether one of those hosts is believed alone, under a quorum that allows it.
    believed: bool,
}

impl OwnersLeft {
    /// Whether tasks without a result and a live attempt can have as many results as they want.
    fn suffice(&self, rules: &Rules) -> bool {
        self.believed || self.parties.len() >= rules.quorum.size as usize
    }

    /// Whether a task has results or live attempts, and wants more beside them than these owners can give.
    fn lacked_by(&self, record: &TaskRecord, rules: &Rules, hosts: &Hosts) -> bool {
        let Some(question) = record.question.as_deref() else {
            return false;
        };
        if record.is_spent(rules) || question.is_full() {
            return false;
        }

        // What stands still on a host may go on there.
        let wanted = question.ballot.missing(question.wanted);
        let further = wanted.saturating_sub(record.live.len());
        if further == 0 || record.votes().is_empty() && record.live.is_empty() {
            return false;
        }

        self.lack(record, further, hosts) > 0
    }

    /// Returns how many of `further` results of a task none of these owners can give.
    fn lack(&self, record: &TaskRecord, further: usize, hosts: &Hosts) -> usize {
        if further == 0 {
            return 0;
        }
        let used: BTreeSet<HostId> = record.parties(hosts).collect();
        let gone = used.intersection(&self.parties).count();
        further.saturating_sub(self.parties.len() - gone)
    }
}

impl Scheduler {
    fn owners_left(&self, rules: &Rules) -> OwnersLeft {
        let hosts = self.hosts.table.values();
        let able = |host: &&Host| host.suits(&rules.needs) && (host.takes_work() || kept(host));
        let able: Vec<&Host> = hosts.filter(able).collect();
        OwnersLeft {
            parties: able.iter().map(|host| host.party).collect(),
            believed: rules.quorum.adaptive && able.iter().any(|host| host.valid >= TRUSTED_FROM),
        }
    }

    /// Whether no task of a job with these rules could have as many results as must agree.
    pub(crate) fn has_too_few_owners(&self, rules: &Rules) -> bool {
        rules.quorum.compares() && !self.owners_left(rules).suffice(rules)
    }

    /// Whether some task of the job cannot have as many results as must agree before hosts of other
    /// owners come.
    pub(crate) fn lacks_owners(&self, job: &Job) -> bool {
        if !job.rules.quorum.compares() {
            return false;
        }

        let owners = self.owners_left(&job.rules);
        let begins = |(index, record): (u32, &TaskRecord)| {
            job.requeued.contains(index) && record.votes().is_empty() && record.live.is_empty()
        };
        let untried = !job.fresh.is_empty() || !job.after.tasks.is_empty();
        if !owners.suffice(&job.rules) && (untried || job.records.iter().any(begins)) {
            return true;
        }
        let mut records = job.records.values();
        records.any(|record| owners.lacked_by(record, &job.rules, &self.hosts))
    }

    /// Returns the number of [`Job::attempts_due`] without those for which no owner is left; `known` holds
    /// the owners by the jobs' needs.
    pub(crate) fn attempts_possible<'a>(
        &self,
        job: &'a Job,
        requested: bool,
        known: &mut KnownOwners<'a>,
    ) -> u64 {
        let due = job.attempts_due(requested);
        let quorum = job.rules.quorum;
        if due == 0 || !quorum.compares() {
            return due;
        }

        let owners = known
            .entry((&job.rules.needs, quorum.adaptive))
            .or_insert_with(|| self.owners_left(&job.rules));
        let lacking = job.records.values().map(|record| {
            let missing = Job::results_missing(record, &job.rules);
            owners.lack(record, missing, &self.hosts) as u64
        });
        let of_fresh = u64::from(quorum.size).saturating_sub(owners.parties.len() as u64);
        due.saturating_sub(lacking.sum::<u64>() + job.fresh.len() * of_fresh)
    }

    /// Returns the tasks with results or live attempts that want more results than there are owners
    /// left for.
    pub(crate) fn without_owners(&self, job: &Job) -> IdSet {
        let owners = self.owners_left(&job.rules);
        let records = job.records.iter();
        let lacking =
            records.filter(|(_, record)| owners.lacked_by(record, &job.rules, &self.hosts));
        lacking.map(|(index, _)| index).collect()
    }
}
