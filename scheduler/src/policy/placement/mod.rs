//! On which ready host does the next task start, or on none yet? One file per answer; this one has
//! what they share.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use common::job::Needs;
use common::{HostId, Span, Speed, Time};

use crate::host::{Host, Hosts};
use crate::job::Job;
use crate::plan::Plan;
use crate::settings::Settings;

mod excl_pred;
mod excl_s;
mod fcfs;
pub(crate) mod lookahead;
mod pri_cr;
mod pri_cr_wait;
mod pri_history;

pub use excl_pred::ExclPred;
pub use excl_s::ExclS;
pub use pri_cr_wait::PriCrWait;

/// Which ready host is best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Placement {
    /// The one that has been ready for longest.
    Fcfs,
    /// The fastest one.
    PriCr,
    /// The fastest one, after a wait for more hosts.
    PriCrWait(PriCrWait),
    /// The fastest of those that used to stay for long enough.
    PriHistory,
    /// The fastest one, unless it is slow among all hosts.
    ExclS(ExclS),
    /// The fastest one, unless it would be done after the predicted end of the job.
    ExclPred(ExclPred),
    /// The one that is done soonest, unless a busy host would be done sooner.
    Lookahead,
    /// The fastest one; there the task starts that should make the most of its owner's absence.
    Windows,
    /// Of promised jobs the one that the calendar names; of others the fastest one.
    Calendar,
}

/// The hosts with a free slot, in every order that an answer asks for.
#[derive(Debug, Default)]
pub(crate) struct ReadyHosts {
    /// The only one, where it became so alone: while tasks wait, each host that has room is taken
    /// at once.
    alone: Option<(HostId, Time, Speed)>,
    by_since: BTreeMap<(Time, HostId), Speed>,
    /// How many hosts have ever become ready.
    pub(crate) arrivals: u64,
    /// Kept from when it is first asked for.
    by_speed: OnceCell<BTreeSet<(Reverse<Speed>, Time, HostId)>>,
}

impl ReadyHosts {
    pub(crate) fn insert(&mut self, host: HostId, since: Time, speed: Speed) {
        self.arrivals += 1;
        if self.is_empty() {
            self.alone = Some((host, since, speed));
            return;
        }
        for (host, since, speed) in self.alone.take().into_iter().chain([(host, since, speed)]) {
            self.by_since.insert((since, host), speed);
            if let Some(by_speed) = self.by_speed.get_mut() {
                by_speed.insert((Reverse(speed), since, host));
            }
        }
    }

    pub(crate) fn remove(&mut self, host: HostId, since: Time, speed: Speed) {
        if self.alone.take_if(|alone| alone.0 == host).is_some() {
            return;
        }
        self.by_since.remove(&(since, host));
        if let Some(by_speed) = self.by_speed.get_mut() {
            by_speed.remove(&(Reverse(speed), since, host));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.alone.is_none() && self.by_since.is_empty()
    }

    pub(crate) fn len(&self) -> u64 {
        self.by_since.len() as u64 + u64::from(self.alone.is_some())
    }

    /// The one ready for longest first.
    pub(crate) fn by_since(&self) -> impl Iterator<Item = HostId> + '_ {
        let alone = self.alone.iter().map(|(host, ..)| *host);
        alone.chain(self.by_since.keys().map(|(_, host)| *host))
    }

    /// The fastest first; of equals the one ready for longest.
    pub(crate) fn by_speed(&self) -> impl Iterator<Item = (Speed, HostId)> + '_ {
        let alone = self.alone.iter().map(|(host, _, speed)| (*speed, *host));
        let of =
            |((since, host), speed): (&(Time, HostId), &Speed)| (Reverse(*speed), *since, *host);
        let by_speed = self
            .by_speed
            .get_or_init(|| self.by_since.iter().map(of).collect());
        alone.chain(by_speed.iter().map(|(speed, _, host)| (speed.0, *host)))
    }
}

/// What an answer sees.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) now: Time,
    pub(crate) settings: &'a Settings,
    pub(crate) hosts: &'a Hosts,
    pub(crate) job: &'a Job,
}

impl<'a> Scene<'a> {
    /// Tasks of the job that wait for a first or another attempt.
    fn waiting(&self) -> u64 {
        self.job.waiting() + self.job.wishes.primaries()
    }

    /// Tasks of the job that are not settled.
    fn unsettled(&self) -> u64 {
        self.job.unsettled()
    }

    /// Tasks of the job that are finished.
    fn finished(&self) -> u64 {
        self.job.finished.len()
    }

    /// Work of one task, in seconds on a host of speed 1, where it is known.
    fn work_s(&self) -> Option<f64> {
        self.job.task_work_s()
    }

    /// What hosts must offer.
    fn needs(&self) -> Needs {
        self.job.rules.needs
    }

    /// Whether the host offers what the job needs, and should be there for long enough.
    pub(crate) fn does(&self, id: HostId) -> bool {
        let now = self.now;
        let start_cost = self.settings.start_cost;
        let lasts = |host: &Host| self.job.too_long_for(host, now, start_cost).is_none();
        self.hosts.offer(id, self.needs())
            && self.job.bar(id).is_none()
            && (self.hosts.index.lent.is_empty() || self.hosts.table.get(&id).is_none_or(lasts))
    }

    /// The ready hosts that do for the job, the one ready for longest first.
    pub(crate) fn ready_by_since(&self) -> impl Iterator<Item = HostId> + use<'a> {
        let scene = *self;
        self.hosts
            .index
            .ready
            .by_since()
            .filter(move |id| scene.does(*id))
    }

    /// The same, the fastest first.
    pub(crate) fn ready_by_speed(&self) -> impl Iterator<Item = (Speed, HostId)> + use<'a> {
        let scene = *self;
        self.hosts
            .index
            .ready
            .by_speed()
            .filter(move |(_, id)| scene.does(*id))
    }

    /// Whether another attempt of the task may go to this host: none of its live ones is there, and
    /// where results are compared none is on a host of the same owner, and none of its results is
    /// from one.
    pub(crate) fn may_run(&self, index: u32, host: HostId) -> bool {
        if self.job.shuns(index, host, self.hosts) {
            return false;
        }
        if !self.job.rules.quorum.compares() {
            return !self.job.is_on(index, host);
        }

        let party = |id: HostId| self.hosts.table.get(&id).map_or(id, |host| host.party);
        let mine = party(host);
        self.job.records.get(&index).is_none_or(|record| {
            let results = record
                .question
                .iter()
                .flat_map(|question| question.ballot.votes());
            record.live.iter().all(|copy| party(copy.host) != mine)
                && results.into_iter().all(|vote| vote.party != mine)
        })
    }

    /// How long a task takes on a free slot of this speed, the start included.
    pub(crate) fn duration_at(&self, work_s: f64, speed: Speed) -> Span {
        self.settings.start_cost + Span::from_secs_f64(work_s / speed.factor())
    }
}

impl Placement {
    /// Whether [`Self::prepare`] does anything.
    pub(crate) fn prepares(self) -> bool {
        matches!(self, Placement::PriCrWait(_) | Placement::ExclPred(_))
    }

    /// Brings the job's plan up to date before hosts are proposed.
    pub(crate) fn prepare(self, scene: &Scene<'_>, plan: &mut Plan) {
        match self {
            Placement::PriCrWait(answer) => answer.prepare(scene, plan),
            Placement::ExclPred(answer) => answer.prepare(scene, plan),
            _ => {}
        }
    }

    /// The host to take next, if `fit` has nothing against it; none where the job had better wait.
    pub(crate) fn propose(
        self,
        scene: &Scene<'_>,
        plan: &Plan,
        fit: impl Fn(HostId) -> bool,
    ) -> Option<HostId> {
        match self {
            Placement::Fcfs => fcfs::propose(scene, fit),
            Placement::PriCr | Placement::Lookahead | Placement::Windows | Placement::Calendar => {
                pri_cr::propose(scene, fit)
            }
            Placement::PriCrWait(_) if !plan.waited => None,
            Placement::PriCrWait(_) => pri_cr::propose(scene, fit),
            Placement::PriHistory => pri_history::propose(scene, fit),
            Placement::ExclS(answer) => answer.propose(scene, fit),
            Placement::ExclPred(answer) => answer.propose(scene, plan, fit),
        }
    }

    /// How many ready hosts it would take, one after the other.
    pub(crate) fn eligible(self, scene: &Scene<'_>, plan: &Plan) -> u64 {
        match self {
            Placement::PriCrWait(_) if !plan.waited => 0,
            Placement::ExclS(answer) => answer.fast(scene).count() as u64,
            Placement::ExclPred(_) => ExclPred::in_time(scene, plan).count() as u64,
            _ => scene.hosts.index.ready.len(),
        }
    }

    /// The free slots in the order in which it takes them, where that is worth finding out for all
    /// of them at once.
    pub(crate) fn order(self, scene: &Scene<'_>) -> Option<Vec<HostId>> {
        (self == Placement::PriHistory).then(|| pri_history::order(scene))
    }

    /// Why a ready host is not taken though tasks wait; none where it would be.
    pub(crate) fn objection(self, scene: &Scene<'_>, plan: &Plan, host: &Host) -> Option<String> {
        match self {
            Placement::PriCrWait(answer) => answer.objection(scene, plan),
            Placement::ExclS(answer) => answer.objection(scene, host),
            Placement::ExclPred(answer) => answer.objection(scene, plan, host),
            Placement::Lookahead => plan.declined.filter(|(until, _)| scene.now < *until).map(|(until, _)| {
                let left = until.since(scene.now);
                format!("a busy host should be done sooner than this one; looked at again in {left} at the latest")
            }),
            _ => None,
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Placement::Fcfs => "the host that has been ready for longest",
            Placement::PriCr => {
                "the fastest ready host; of equals the one that has been ready for longest"
            }
            Placement::Windows => {
                "the fastest ready host; there the waiting task that should make the most of the time for which the host was \
                 recorded to stay idle"
            }
            Placement::PriCrWait(_) => {
                "none until enough hosts are ready or the wait is over, then the fastest"
            }
            Placement::PriHistory => {
                "first hosts whose availability intervals used to hold a whole task, then the others, by the work that \
                 they did per second"
            }
            Placement::ExclS(_) => {
                "the fastest ready host, never one that is too slow among all hosts"
            }
            Placement::Lookahead => {
                "the host expected to be done soonest, failures and suspensions counted; none where a busy host will \
                 be done sooner"
            }
            Placement::Calendar => {
                "of promised jobs the host on which the calendar has the task done first, none while that one is busy; of \
                 others the fastest ready host"
            }
            Placement::ExclPred(_) => {
                "the fastest ready host, unless it would be done after the predicted end of the job; from that end on \
                 any"
            }
        }
    }
}
