//! The status of hosts, jobs and attempts, as plain values; reading it changes nothing.

use crate::state::job::waiting;
use std::collections::BTreeMap;

use common::attempt::Phase;
use common::host::OwnerState;
use common::view::{HostState, JobState, TaskCounts, TaskState};
use common::{AttemptId, HostId, IdSet, JobId, Span, Speed, TaskId, Time};

use crate::prediction::estimates::Estimates;
use crate::prediction::experience::Experience;
use crate::prediction::predict::{PredictedSlot, Prediction, completion_s, spread};
use crate::state::foresight::WorkPerTask;
use crate::state::host::{Host, Liveness, Presence};
use crate::state::job::{Job, TaskRecord};
use crate::state::scheduler::Scheduler;

/// A host as known to the scheduler.
#[derive(Debug, Clone, PartialEq)]
pub struct HostStatus {
    /// Its state.
    pub state: HostState,
    /// The reason for its state, where there is one.
    pub reason: Option<String>,
    /// The time of its last change of state.
    pub since: Time,
    /// The time of its last message, in this incarnation.
    pub heard: Option<Time>,
    /// The owner's state in its last report.
    pub owner: OwnerState,
    /// Whether work could be sent to it.
    pub connected: bool,
    /// Whether it is to get no new work.
    pub draining: bool,
    /// The number of tasks that it runs at a time.
    pub slots: u32,
    /// The number of slots that its owner lets tasks use.
    pub usable_slots: u32,
    /// The speed of one slot.
    pub speed: Speed,
    /// Live attempts on its books.
    pub attempts: Vec<AttemptId>,
    /// The number of attempts that succeeded there, in this incarnation.
    pub finished: u64,
    /// The number of attempts that were lost with it, in this incarnation.
    pub lost: u64,
}

/// A live attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveAttempt {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its host.
    pub host: HostId,
    /// Its phase in its host's last report.
    pub phase: Phase,
    /// The run time in its host's last report, without suspensions.
    pub ran: Span,
    /// The time suspended before `suspended_since`, as reported in this incarnation.
    pub suspended: Span,
    /// The begin of its suspension, if it is suspended.
    pub suspended_since: Option<Time>,
    /// The part done, between 0 and 1, where the program reports it.
    pub progress: Option<f32>,
    /// The time at which it was assigned to its host (or taken back from the store, or from the
    /// host's list).
    pub assigned: Time,
    /// Whether it was started while another attempt was live.
    pub duplicate: bool,
}

/// The least work that a task counts for, in seconds on a host of speed 1; it bounds the ratio of
/// other tasks' work to it.
const LEAST_WORK_S: f64 = 1e-6;

impl Scheduler {
    /// Returns the jobs that are not forgotten.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.jobs.table.keys().copied()
    }

    /// Returns the job's state; `None` where there is no such job.
    pub fn job_state(&self, job: JobId) -> Option<JobState> {
        self.jobs.table.get(&job).map(Job::state)
    }

    /// Returns the number of the job's tasks in each state, in constant time.
    pub fn job_counts(&self, job: JobId) -> Option<TaskCounts> {
        self.jobs.table.get(&job).map(Job::counts)
    }

    /// Returns the number of the job's attempts started so far, and that of duplicates among them.
    pub fn job_attempts(&self, job: JobId) -> Option<(u64, u64)> {
        self.jobs
            .table
            .get(&job)
            .map(|job| (job.attempts, job.duplicates))
    }

    /// Returns the job's tasks in this state.
    pub fn tasks_in(&self, job: JobId, state: TaskState) -> Option<IdSet> {
        let job = self.jobs.table.get(&job)?;
        let recorded = || {
            job.records
                .iter()
                .filter(|(_, record)| record.state() == state)
                .map(|(index, _)| index)
                .filter(|index| !job.requeued.contains(*index))
        };
        Some(match state {
            TaskState::Disclosed => job.split(&waiting(job)).1,
            TaskState::Waiting => job.split(&waiting(job)).0,
            TaskState::Running | TaskState::Suspended => recorded().collect(),
            TaskState::Finished => job.finished.set(),
            TaskState::Failed => job.failed.clone(),
            TaskState::Cancelled => job.cancelled.clone(),
        })
    }

    /// Returns the task's state; `None` where there is no such task.
    pub fn task_state(&self, task: TaskId) -> Option<TaskState> {
        self.jobs.table.get(&task.job)?.task_state(task.index)
    }

    /// Returns the live attempts of the task, oldest first.
    pub fn task_attempts(&self, task: TaskId) -> Vec<LiveAttempt> {
        let record = self
            .jobs
            .table
            .get(&task.job)
            .and_then(|job| job.records.get(&task.index));
        record.map_or_else(Vec::new, |record| self.live(record).collect())
    }

    /// Returns the live attempts of the job, by task, oldest first.
    pub fn live_attempts(&self, job: JobId) -> impl Iterator<Item = LiveAttempt> + '_ {
        let records = self
            .jobs
            .table
            .get(&job)
            .into_iter()
            .flat_map(|job| job.records.values());
        records.flat_map(|record| self.live(record))
    }

    fn live<'a>(&'a self, record: &'a TaskRecord) -> impl Iterator<Item = LiveAttempt> + 'a {
        record.live.iter().filter_map(|copy| {
            let load = self.hosts.table.get(&copy.host)?.books.get(&copy.attempt)?;
            let attempt = copy.attempt;
            let host = copy.host;
            let phase = load.phase;
            let ran = load.ran;
            let progress = load.progress;
            let assigned = load.assigned;
            let duplicate = load.duplicate;

            let suspended = load.suspended;
            let suspended_since = load.suspended_since;
            Some(LiveAttempt {
                attempt,
                host,
                phase,
                ran,
                suspended,
                suspended_since,
                progress,
                assigned,
                duplicate,
            })
        })
    }

    /// Returns the hosts that were ever heard of, or awaited, in this incarnation.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + '_ {
        self.hosts.table.keys()
    }

    /// Returns the host; `None` where it was never heard of or awaited in this incarnation.
    pub fn host(&self, host: HostId) -> Option<HostStatus> {
        self.hosts.table.get(&host).map(|host| HostStatus {
            state: host.state,
            reason: host.reason(),
            since: host.since,
            heard: host.heard,
            owner: host.owner,
            connected: host.presence == Presence::Connected,
            draining: host.draining,
            slots: host.slots,
            usable_slots: host.usable_slots(),
            speed: host.speed,
            attempts: host.books.attempts().collect(),
            finished: host.finished,
            lost: host.lost,
        })
    }

    /// Returns the number of a host's results in a row that agreed with others'.
    pub fn host_valid(&self, host: HostId) -> u32 {
        self.hosts.table.get(&host).map_or(0, |host| host.valid)
    }

    /// Returns the experience so far, with the intervals that are still open now.
    pub fn experience(&self) -> Experience {
        let hosts = self.hosts.table.values();
        let up = hosts.filter(|host| host.heard.is_some() && host.liveness != Liveness::Lost);
        let known = self
            .jobs
            .speculators
            .iter()
            .filter(|(_, speculator)| speculator.decisions > 0);
        let drops = known
            .map(|(user, speculator)| (user.clone(), (speculator.cancels, speculator.decisions)))
            .collect();
        let shares = self.jobs.lines.shares.averages();

        Experience {
            drops,
            shares,
            ..self.foresight.upto(up, self.now)
        }
    }

    /// Returns the known quality of users' estimates.
    pub fn estimates(&self) -> &Estimates {
        &self.foresight.experience.estimates
    }

    /// Predicts the completion of the job's last task. `None` where its tasks' run times are
    /// unknown (neither a finished one nor an estimate), where no host takes work or will once its
    /// owner leaves, or where the job is settled.
    pub fn predict_finish(&self, id: JobId, now: Time) -> Option<Time> {
        let job = self.jobs.table.get(&id).filter(|job| !job.settled())?;
        if job.promise.is_some() {
            return self.promised_finish(id, now);
        }
        if job.gang.is_some() {
            return self.finish_together(id, now);
        }

        let work_s = job.task_work_s()?.max(LEAST_WORK_S);
        let mut tasks = job.waiting() as f64;
        let start_cost = self.settings.start_cost;

        if tasks > 0.0 {
            // Jobs of unknown work are taken to be like the one asked about. Each task takes its
            // start as well.
            let ahead = self.jobs.ahead_of(job.rank, now);
            let start_s = start_cost.secs() * self.hosts.index.mean_speed().unwrap_or(1.0);
            tasks += (ahead.work_s(work_s) + ahead.tasks as f64 * start_s) / (work_s + start_s);
        }

        let work = job.takes(work_s);
        let begun = job
            .records
            .iter()
            .filter(|(index, record)| !record.live.is_empty() && !job.requeued.contains(*index));
        let ends_s: Vec<f64> = begun
            .map(|(_, record)| self.task_end_s(record, work, now))
            .collect();

        // These cannot be predicted where they are: they count as waiting.
        tasks += ends_s.iter().filter(|end_s| end_s.is_infinite()).count() as f64;
        let running_s = ends_s
            .into_iter()
            .filter(|end_s| end_s.is_finite())
            .fold(0.0, f64::max);
        let waiting_s = if tasks > 0.0 {
            self.queue_s(work_s, tasks.ceil() as u64, now)
        } else {
            0.0
        };
        let left_s = running_s.max(waiting_s);

        left_s
            .is_finite()
            .then(|| now + Span::from_secs_f64(left_s))
    }

    /// Returns the seconds until a begun task should be done where it is, by the first of its
    /// attempts; infinite where that cannot be predicted, since their hosts are silent, or paused
    /// by their owners.
    fn task_end_s(&self, record: &TaskRecord, work: WorkPerTask, now: Time) -> f64 {
        let ends = record.live.iter().filter_map(|copy| {
            let host = self
                .hosts
                .table
                .get(&copy.host)
                .filter(|host| host.foreseen())?;
            let load = host.books.get(&copy.attempt)?;
            Some(
                self.foresight
                    .expected_s(host, load, work, self.settings.start_cost, now),
            )
        });
        ends.fold(f64::INFINITY, f64::min)
    }

    /// Returns the time, in seconds from now, by which the hosts that take work could complete
    /// `tasks` tasks; if none does, the hosts that will once their owners leave.
    pub(crate) fn queue_s(&self, work_s: f64, tasks: u64, now: Time) -> f64 {
        let start_cost = self.settings.start_cost;
        let mut servers = Vec::new();
        let mut works = BTreeMap::new();

        // A running attempt takes as long as others of its job, if that is known.
        let work_of = |id| {
            let job = self.jobs.table.get(&id);
            let mean_s = job.and_then(Job::task_work_s).unwrap_or(work_s);
            job.map_or(
                WorkPerTask {
                    mean_s,
                    longest_s: mean_s,
                },
                |job| job.takes(mean_s),
            )
        };

        for host in self.hosts.table.values().filter(|host| host.takes_work()) {
            let task_s = self.foresight.task_s(host, work_s, 1.0, start_cost)
                * self.foresight.curves().stretch;
            let task_s = task_s.max(1e-6);
            let busy = host.books.iter().map(
                |(
                    AttemptId {
                        task: TaskId { job, .. },
                        ..
                    },
                    load,
                )| {
                    let work = *works.entry(*job).or_insert_with(|| work_of(*job));
                    self.foresight.expected_s(host, load, work, start_cost, now)
                },
            );

            let free = std::iter::repeat_n(0.0, host.free_slots());
            servers.extend(
                busy.chain(free)
                    .map(|free_s| PredictedSlot { free_s, task_s }),
            );
        }

        if servers.is_empty() {
            servers = self.servers_to_come(work_s, now);
        }

        completion_s(&servers, tasks, 0.0)
    }

    /// Predicts the completion of the job's last task, with an interval of 80 %; `None` where
    /// [`Self::predict_finish`] returns it.
    pub fn predict(&self, id: JobId, now: Time) -> Option<Prediction> {
        let finish = self.predict_finish(id, now)?;
        let job = self.jobs.table.get(&id)?;
        let errors = self
            .foresight
            .experience
            .errors
            .of(job.policy.name, job.stage());
        let (low, high) = spread(errors);
        let left_s = finish.since(now).secs();
        let at = |factor: f64| now + Span::from_secs_f64(left_s * factor);

        Some(Prediction {
            finish,
            low: at(low),
            high: at(high),
        })
    }

    /// Predicts the job's completion once at each `JobStage`, so that the predictions can be compared
    /// with the outcome.
    pub(crate) fn note_prediction(&mut self, id: JobId) {
        let Some(job) = self
            .jobs
            .table
            .get(&id)
            .filter(|job| job.plan.kind.is_some() && !job.settled())
        else {
            return;
        };
        let stage = job.stage();
        if job
            .plan
            .predicted
            .last()
            .is_some_and(|(last, ..)| *last >= stage)
        {
            return;
        }

        let finish = self.predict_finish(id, self.now);
        if let (Some(finish), Some(job)) = (finish, self.jobs.table.get_mut(&id)) {
            job.plan.predicted.push((stage, self.now, finish));
        }
    }
}

impl Host {
    /// Returns the reason for its `state`, in words, where there is one.
    pub(crate) fn reason(&self) -> Option<String> {
        match (self.state, self.presence, self.owner) {
            (_, Presence::Left, _) => Some("its worker shut down".to_owned()),
            (HostState::Suspect | HostState::Lost, Presence::Awaited, _) => {
                Some("not reconnected since the master restarted".to_owned())
            }
            (HostState::Suspect, Presence::Disconnected, _) => {
                Some("not connected at the moment".to_owned())
            }
            (HostState::Suspect, ..) => Some("heartbeats are missing".to_owned()),
            (HostState::Draining, ..) if self.closing => {
                Some("its worker is shutting down".to_owned())
            }
            (HostState::Lost, ..) => Some("not heard of beyond its lease".to_owned()),
            (HostState::Draining | HostState::Suspended, _, owner) if !owner.lets_run() => {
                owner.reason().map(|reason| reason.to_string())
            }
            (HostState::Benched, ..) => self.bench().map(|bench| bench.why.clone()),
            (_, Presence::Disconnected, _) => Some("not connected at the moment".to_owned()),
            (_, _, OwnerState::Sharing(reason, slots)) => Some(format!(
                "{reason}: tasks may use {slots} of {} slots",
                self.slots
            )),
            _ => None,
        }
    }
}
