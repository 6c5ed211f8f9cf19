//! Checks that the books of jobs and of hosts agree. In builds with debug assertions, each step
//! ends with a check of the hosts that it touched and of one job, in rotation: tests and simulated
//! runs look at everything sooner or later, and a step costs the same however large the grid is.

use std::ops::Bound;

use common::{AttemptId, HostId, JobId, TaskId};

use crate::state::host::Host;
use crate::state::job::{Job, TaskRecord};
use crate::state::room::Room;
use crate::state::scheduler::Scheduler;

/// At most so many touched hosts are checked in a step, and so many attempts of each.
const CHECKED: usize = 4;
/// The sum of what is saved is checked for jobs of at most so many waiting tasks.
const SUMMED: u64 = 64;

impl Scheduler {
    /// Panics if a host touched in this step, or the job whose turn it is, contradicts the rest.
    pub(crate) fn check(&self) {
        for id in self.hosts.index.touched.iter().rev().take(CHECKED) {
            if let Some(host) = self.hosts.table.get(id) {
                self.check_host(host);
            }
        }

        self.check_set_aside(CHECKED);
        let last = self.jobs.table.last_key_value().map_or(0, |(id, _)| id.0);
        let turn = JobId((self.events % (u64::from(last) + 1)) as u32);
        let from = (Bound::Included(turn), Bound::Unbounded);
        if let Some((id, job)) = self.jobs.table.range(from).next() {
            self.check_job(*id, job);
        }
    }

    fn check_host(&self, host: &Host) {
        let id = host.id;
        debug_assert!(self.hosts.index.lists(host), "{id:?} is ready");
        debug_assert!(!host.is_overcommitted(), "{id:?} is overcommitted");
        let one_by_one = host.books.iter().map(|(_, load)| load.room());
        let taken = one_by_one.fold(Room::default(), Room::plus);
        let counted = host.books.taken();
        debug_assert_eq!(counted, taken, "the room that attempts take of {id:?}");

        for (attempt, load) in host.books.iter().take(CHECKED) {
            let known = self.jobs.table.get(&attempt.task.job);
            let listed = known.is_some_and(|job| is_live(job, *attempt, id));
            let known = listed || load.stopping;
            debug_assert!(known, "{attempt:?} is only in the books of {id:?}");
        }
    }

    fn check_job(&self, id: JobId, job: &Job) {
        let total = job.counts().total;
        let settled = job.finished.len() + job.failed.len() + job.cancelled.len();
        debug_assert_eq!(settled + job.unsettled(), total, "tasks of {id:?}");
        let requeued = job.requeued.len();
        let begun = job.records.len() as u64;
        debug_assert!(requeued <= begun, "requeued tasks of {id:?}");
        if requeued <= SUMMED {
            let waiting = job.requeued.iter();
            let waiting = waiting.filter_map(|index| job.records.get(&index));
            let saved: u64 = waiting.map(TaskRecord::saved_fixed).sum();
            debug_assert_eq!(job.saved_fixed, saved, "what is saved of {id:?}");
        }
        job.check_places(&self.jobs.lines);

        let index = (self.events / 2 % total.max(1)) as u32;
        if let Some(record) = job.records.get(&index) {
            self.check_record(TaskId::new(id, index), job, record);
        }
    }

    fn check_record(&self, task: TaskId, job: &Job, record: &TaskRecord) {
        // A task whose results are being compared neither waits nor runs.
        let waits = job.requeued.contains(task.index);
        let runs = !record.live.is_empty();
        let both = waits && runs && !record.is_silent();
        debug_assert!(!both, "{task:?} waits and runs");
        let compares = record.compares();
        debug_assert!(waits || runs || compares, "{task:?} neither waits nor runs");
        let idle = !runs && compares;
        debug_assert_eq!(record.compared, idle, "{task:?} is counted as compared");

        if waits && job.rules.quorum.compares() {
            let listed = job.compared.opinions.has(task.index);
            debug_assert!(listed, "{task:?} waits, and is not listed");
        }
        if let Some(speculation) = job.speculation.as_ref().filter(|_| waits) {
            let listed = speculation.lists_again(task.index);
            debug_assert!(listed, "{task:?} waits, and is in no line");
        }

        let most = self.settings.max_copies.max(job.rules.quorum.size) as usize;
        debug_assert!(
            job.gang.is_some() || record.live.len() <= most,
            "{task:?} has {} attempts at a time, and may have {most}",
            record.live.len()
        );

        for copy in &record.live {
            let host = self.hosts.table.get(&copy.host);
            let held = host.is_some_and(|host| host.books.contains(&copy.attempt));
            debug_assert!(held, "{:?} is unknown to {:?}", copy.attempt, copy.host);
        }
    }
}

/// Whether the job lists the attempt as live on this host.
fn is_live(job: &Job, attempt: AttemptId, host: HostId) -> bool {
    job.records.get(&attempt.task.index).is_some_and(|record| {
        record
            .live
            .iter()
            .any(|copy| copy.attempt == attempt && copy.host == host)
    })
}
