//! The status of hosts, jobs and attempts, as plain values; reading it changes nothing.

use crate::state::job::waiting;

use common::attempt::Phase;
use common::host::OwnerState;
use common::view::{HostState, JobState, TaskCounts, TaskState};
use common::{AttemptId, HostId, IdSet, JobId, Span, Speed, TaskId, Time};

use crate::prediction::completion_law::CompletionLaw;
use crate::prediction::estimates::Estimates;
use crate::prediction::experience::Experience;
use crate::state::foresight::Foresight;
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

/// The time for which a host's survival is told, in seconds.
const HOUR_S: f64 = 3_600.0;

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
    /// The time of that report, if it told that the attempt runs.
    pub running_since: Option<Time>,
    /// The time at which its host's owner came or its connection was lost, if that is so now.
    pub stood: Option<Time>,
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

impl LiveAttempt {
    /// Returns the run time at `now`: as reported, and while the attempt runs the time since then, as far as its
    /// host was connected and its owner let it run.
    pub fn ran_by(&self, now: Time) -> Span {
        let until = self.stood.map_or(now, |stood| stood.min(now));
        let since = self.running_since.map(|since| until.since(since));
        self.ran + since.unwrap_or(Span::ZERO)
    }
}

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
        let job = self.jobs.table.get(&job)?;
        Some((job.attempts, job.duplicates))
    }

    /// Returns the job's tasks in this state.
    pub fn tasks_in(&self, job: JobId, state: TaskState) -> Option<IdSet> {
        let job = self.jobs.table.get(&job)?;
        let begun = job
            .records
            .iter()
            .filter(|(index, record)| record.state() == state && !job.requeued.contains(*index));
        Some(match state {
            TaskState::Disclosed => job.split(&waiting(job)).1,
            TaskState::Waiting => {
                let mut waiting = job.split(&waiting(job)).0;
                waiting.union_with(&job.after.tasks);
                waiting
            }
            TaskState::Running | TaskState::Suspended => begun.map(|(index, _)| index).collect(),
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
        let job = self.jobs.table.get(&task.job);
        let record = job.and_then(|job| job.records.get(&task.index));
        let live = record.into_iter().flat_map(|record| self.live(record));
        live.collect()
    }

    /// Returns the live attempts of the job, by task, oldest first.
    pub fn live_attempts(&self, job: JobId) -> impl Iterator<Item = LiveAttempt> + '_ {
        let job = self.jobs.table.get(&job).into_iter();
        let records = job.flat_map(|job| job.records.values());
        records.flat_map(|record| self.live(record))
    }

    fn live<'a>(&'a self, record: &'a TaskRecord) -> impl Iterator<Item = LiveAttempt> + 'a {
        record.live.iter().filter_map(|copy| {
            let on = self.hosts.table.get(&copy.host)?;
            let load = on.books.get(&copy.attempt)?;
            let running_since = load.noted.filter(|_| load.phase == Phase::Running);
            let owner_came = on.holds_still(load.phase).then_some(on.owner_since);
            Some(LiveAttempt {
                attempt: copy.attempt,
                host: copy.host,
                phase: load.phase,
                ran: load.ran,
                running_since,
                stood: owner_came.or(on.parted),
                suspended: load.suspended,
                suspended_since: load.suspended_since,
                progress: load.progress,
                assigned: load.assigned,
                duplicate: load.duplicate,
            })
        })
    }

    /// Returns the hosts that were ever heard of, or awaited, in this incarnation.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + '_ {
        self.hosts.table.keys()
    }

    /// Returns the reason why a host is benched, if it is.
    pub fn why_benched(&self, host: HostId) -> Option<&str> {
        let bench = self.hosts.table.get(&host)?.bench()?;
        Some(&bench.why)
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

    /// Returns the probability that an attempt that begins on this host now runs for an hour undisturbed: that the host is
    /// not lost and its owner not back before. `None` while it is away, silent or its owner keeps tasks off.
    pub fn undisturbed_1h(&self, host: HostId) -> Option<f64> {
        let host = self.hosts.table.get(&host);
        let host = host.filter(|host| host.lets_go_on())?;
        let place = Foresight::place(host, self.now);
        let law = CompletionLaw::of(HOUR_S, place, self.foresight.curves());
        Some(law.alive * law.undisturbed)
    }

    /// Returns the number of a host's results in a row that agreed with others'.
    pub fn host_valid(&self, host: HostId) -> u32 {
        self.hosts.table.get(&host).map_or(0, |host| host.valid)
    }

    /// Returns the experience so far, with the intervals that are still open now.
    pub fn experience(&self) -> Experience {
        let hosts = self.hosts.table.values();
        let up = hosts.filter(|host| host.heard.is_some() && host.liveness != Liveness::Lost);
        let users = self.jobs.speculators.iter();
        let known = users.filter(|(_, speculator)| speculator.decisions > 0);
        let drops = known
            .map(|(user, speculator)| (user.clone(), (speculator.cancels, speculator.decisions)));

        Experience {
            drops: drops.collect(),
            shares: self.jobs.lines.shares.averages(),
            ..self.foresight.upto(up, self.now)
        }
    }

    /// Returns the known quality of users' estimates.
    pub fn estimates(&self) -> &Estimates {
        &self.foresight.experience.estimates
    }
}

impl Host {
    /// Returns the reason for its `state`, in words, where there is one.
    pub(crate) fn reason(&self) -> Option<String> {
        let why = match (self.state, self.presence, self.owner) {
            (_, Presence::Left, _) => "its worker shut down",
            (HostState::Suspect | HostState::Lost, Presence::Awaited, _) => {
                "not reconnected since the master restarted"
            }
            (HostState::Suspect, Presence::Disconnected, _) => "not connected at the moment",
            (HostState::Suspect, ..) => "heartbeats are missing",
            (HostState::Draining, ..) if self.closing => "its worker is shutting down",
            (HostState::Lost, ..) => "not heard of beyond its lease",
            (HostState::Draining | HostState::Suspended, _, owner) if !owner.lets_run() => {
                return owner.reason().map(|reason| reason.to_string());
            }
            (HostState::Benched, ..) => return self.bench().map(|bench| bench.why.clone()),
            (_, Presence::Disconnected, _) => "not connected at the moment",
            (_, _, OwnerState::Sharing(reason, slots)) => {
                let all = self.slots;
                return Some(format!("{reason}: tasks may use {slots} of {all} slots"));
            }
            _ => return None,
        };
        Some(why.to_owned())
    }
}
