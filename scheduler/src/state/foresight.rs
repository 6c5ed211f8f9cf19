//! The scheduler's expectations of hosts: its `Experience` and the curves fitted to it, kept up to
//! date by events.

use std::cell::{OnceCell, RefCell};

use common::attempt::Phase;
use common::{Span, Time};

use crate::prediction::completion_law::{AttemptHost, CompletionLaw};
use crate::prediction::experience::{Common, Curves, Experience, JobStage, Temper};
use crate::prediction::malleable::Lives;
use crate::prediction::predict::{Prediction, rate_of};
use crate::prediction::silence::Parting;
use crate::state::host::{Host, HostAttempt, Hosts, Liveness, Presence, SharesSeen, ran_s};
use crate::state::job::Job;
use crate::state::promise::Promise;
use crate::state::settings::Settings;
use crate::state::silence::{Partings, Silence};
use crate::state::small_work::{Remembered, SmallWork};

/// The curves are fitted anew after this many more observations, and this part more of all
/// suspensions (`REFRESH_PART`).
const REFRESH: u32 = 64;
const REFRESH_PART: f64 = 0.1;
/// The time, in seconds, for which a reported processor share counts in predictions like what is usual on
/// the host.
const SHARE_LASTS_S: f64 = 60.0;
/// From this reported progress on, a task's own pace is known. It replaces the pace of its kind if
/// it is slower by more than the factor `OWN_WAY`.
const FIRST_PROGRESS: f64 = 0.05;
const OWN_WAY: f64 = 3.0;
/// The most attempts whose reported progress is looked at to tell the work of a job's tasks.
const ASKED: usize = 256;
/// The least time that an attempt is expected to go on for: one second, or this part of its whole
/// time if that is less.
const LEAST_LEFT_S: f64 = 1.0;
const LEAST_LEFT_PART: f64 = 0.1;

/// The `Experience`, and the curves fitted to it.
#[derive(Debug)]
pub(crate) struct Foresight {
    pub(crate) experience: Experience,
    /// The laws of programs' run times, in seconds on a host of speed 1.
    pub(crate) lives: Lives,
    /// A summary of `experience`, made at the start and after many observations. Whoever asks, and when, changes nothing:
    /// else a look at a host would change what is started next.
    common: Common,
    /// Fitted to `common` when first asked for.
    curves: OnceCell<Curves>,
    observed: u32,
    /// The amount of small work, which fills gaps in reservations.
    pub(crate) small: SmallWork,
    /// The longest of the latest starts of attempts of all jobs, where one is known.
    pub(crate) longest_start: Option<Span>,
    pub(crate) remembered: RefCell<Remembered>,
}

impl From<Experience> for Foresight {
    fn from(experience: Experience) -> Self {
        Self {
            common: experience.common(),
            experience,
            lives: Lives::default(),
            curves: OnceCell::new(),
            observed: 0,
            small: SmallWork::default(),
            longest_start: None,
            remembered: RefCell::default(),
        }
    }
}

impl Default for Foresight {
    fn default() -> Self {
        Experience::default().into()
    }
}

/// A host, with the processor share that its tasks are expected to get.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostShare<'a> {
    pub(crate) host: &'a Host,
    share: f64,
}

impl HostShare<'_> {
    /// Returns the work of these tasks that a slot of the host does in a second.
    pub(crate) fn rate(self, work: WorkPerTask) -> f64 {
        work.rate(self.host.speed.factor() * self.share)
    }
}

/// The run time of a job's tasks, in seconds on a host of speed 1 whose processor is free.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WorkPerTask {
    /// The mean.
    pub(crate) mean_s: f64,
    /// The longest that was seen, or estimated where none was seen.
    pub(crate) longest_s: f64,
    /// The part of it in which the task computes, from 0 to 1; for the rest it waits, for which no
    /// processor is needed.
    pub(crate) computing: f64,
}

impl WorkPerTask {
    /// The work of tasks that compute all the time, and all take the same time.
    pub(crate) fn computing(mean_s: f64) -> Self {
        Self {
            mean_s,
            longest_s: mean_s,
            computing: 1.0,
        }
    }

    /// Returns the work that such a task does in a second where one that only computes does `rate`.
    pub(crate) fn rate(self, rate: f64) -> f64 {
        rate_of(self.computing, rate)
    }
}

fn age_s(since: Time, at: Time) -> f64 {
    at.since(since).secs()
}

impl Foresight {
    /// Returns the common properties of all hosts.
    pub(crate) fn common(&self) -> &Common {
        &self.common
    }

    /// Returns the fitted curves of failures, suspensions and resumptions.
    pub(crate) fn curves(&self) -> &Curves {
        self.curves.get_or_init(|| self.common.curves())
    }

    fn note(&mut self) {
        self.observed += 1;
        if self.observed >= REFRESH
            && f64::from(self.observed) >= REFRESH_PART * self.experience.suspension.events()
        {
            self.observed = 0;
            self.common = self.experience.common();
            self.curves = OnceCell::new();
        }
    }

    /// Notes that the host went down at `at`.
    pub(crate) fn on_failure(&mut self, host: &mut Host, at: Time) {
        let from = age_s(host.up_since, host.up_seen);
        let to = age_s(host.up_since, at);
        self.experience.failure.observe(from, to, true);
        host.habit.failures += 1.0;
        host.habit.up_s += to - from;
        self.observe_owner(host, at, false);
        self.note();
        host.temper = Temper::of(&host.habit, self.common());
    }

    /// Notes that the host's silence, if it has one, is over: whether its attempts were gone.
    pub(crate) fn on_silence_ended(&mut self, host: &Host, gone: bool, now: Time) {
        if let Some(Silence { span, how }) = host.silence(now) {
            self.experience.silences.observe(span, how, gone);
        }
    }

    /// Returns the probability that the attempts of a host with this silence are gone.
    pub(crate) fn gone(&self, silence: Silence) -> f64 {
        self.experience.silences.gone(silence.span, silence.how)
    }

    /// Returns when a silent host becomes suspect: after `suspect_after`, or sooner if its
    /// connection is lost and its attempts are more likely gone than not, or it is awaited in vain.
    pub(crate) fn suspect_at(&self, host: &Host, partings: &Partings, settings: &Settings) -> Time {
        let silent = host.silent_since + settings.suspect_after.min(settings.lease);
        let likely = self.experience.silences.likely_gone_after(host.how);
        match (host.parted, likely) {
            (Some(parted), Some(span)) => silent.min(parted + span.max(settings.rescue_after)),
            (None, _) if host.presence == Presence::Awaited => {
                silent.min(partings.awaited_until(host.silent_since))
            }
            _ => silent,
        }
    }

    /// Notes that the owner came or went at `at`.
    pub(crate) fn on_owner_turned(&mut self, host: &mut Host, at: Time) {
        if host.owner.lets_run() {
            host.habit.turns += 1.0;
            host.habit.away_s += age_s(host.owner_seen, at);
        }
        self.observe_owner(host, at, true);
        self.note();
        host.temper = Temper::of(&host.habit, self.common());
    }

    fn observe_owner(&mut self, host: &Host, at: Time, turned: bool) {
        let from = age_s(host.owner_since, host.owner_seen);
        let to = age_s(host.owner_since, at);
        match host.owner.lets_run() {
            true => self.experience.suspension.observe(from, to, turned),
            false => self.experience.resumption.observe(from, to, turned),
        }
    }

    /// Notes the host's processor share up to `at`, before a new one is set or its owner comes or goes.
    pub(crate) fn on_cpu(&mut self, host: &mut Host, at: Time) {
        self.observe_cpu(host, at);
        if host.owner.lets_run() {
            let share = self.share(host);
            host.usual_share.add(age_s(host.cpu_seen, at), share);
        }
        host.shares = self.shares(host, at);
        host.cpu_seen = at;
    }

    fn observe_cpu(&mut self, host: &Host, at: Time) {
        if host.owner.lets_run() {
            self.experience
                .observe_cpu(age_s(host.cpu_seen, at), host.cpu);
        }
    }

    /// Notes that a job's last task has finished: its copies move the price of its `JobKind`, and
    /// its predictions are compared with the outcome. A promise was made for all its tasks: it is not
    /// compared where some were cancelled.
    pub(crate) fn on_job_done(&mut self, job: &Job, now: Time) {
        let name = job.policy.name;
        let errors = &mut self.experience.errors;
        if let Some(Promise { made, finish, .. }) = job.promised() {
            if let Some(finish) = finish.filter(|_| job.cancelled.is_empty()) {
                let prediction = Prediction::roughly(made, finish);
                errors.note(name, JobStage::Early, made, prediction, now);
            }
            return;
        }

        let Some(kind) = job.plan.kind else { return };
        for noted in &job.plan.predicted {
            errors.note(name, noted.stage, noted.at, noted.prediction, now);
        }

        if let Some(answer) = job.policy.replication.gain() {
            let copies = job.duplicates as f64 / job.counts().total.max(1) as f64;
            self.experience
                .prices
                .learn(kind, copies, answer.budget(job.rules.checkpoint));
        }
    }

    /// Returns the experience with the intervals that are still open at `now`, as far as they were
    /// observed.
    pub(crate) fn upto<'a>(&self, hosts: impl Iterator<Item = &'a Host>, now: Time) -> Experience {
        let mut experience = Self::from(self.experience.clone());
        for host in hosts {
            let from = age_s(host.up_since, host.up_seen);
            let to = age_s(host.up_since, now);
            experience.experience.failure.observe(from, to, false);
            experience.observe_owner(host, now, false);
            experience.observe_cpu(host, now);
        }
        experience.experience
    }

    /// Returns the `AttemptHost` of an attempt on this host: the state that decides how it runs there.
    pub(crate) fn place(host: &Host, now: Time) -> AttemptHost {
        AttemptHost {
            up_s: age_s(host.up_since, now),
            owner_s: age_s(host.owner_since, now),
            suspended: !host.owner.lets_run(),
            temper: host.temper,
        }
    }

    /// Returns the `SharesSeen` of a host up to `now`.
    pub(crate) fn shares(&self, host: &Host, now: Time) -> SharesSeen {
        let mut shares = host.shares;
        if host.owner.lets_run() {
            shares.add(age_s(host.cpu_seen, now), self.share(host));
        }
        shares
    }

    /// Returns the mean processor share that an attempt had up to its host's last report, which says for
    /// how long it ran.
    pub(crate) fn reported_share(&self, host: &Host, load: &HostAttempt) -> f64 {
        let reported = load.noted.unwrap_or(host.cpu_seen);
        let mean = self.shares(host, reported).mean_since(load.shares);
        mean.unwrap_or_else(|| self.share(host))
    }

    /// Returns the mean processor share that an attempt had on its host.
    pub(crate) fn mean_share(&self, host: &Host, load: &HostAttempt, now: Time) -> f64 {
        let shares = self.shares(host, now);
        let mean = shares.mean_since(load.shares);
        mean.unwrap_or_else(|| self.share(host))
    }

    /// Returns the work that an attempt has done so far, in seconds on a host of speed 1, and that
    /// which it did in a second. It computes for the part `computing` of its work; the processor
    /// share that it had counts if it is `shared`.
    pub(crate) fn work_done(
        &self,
        (host, computing): (&Host, f64),
        load: &HostAttempt,
        shared: bool,
        start_cost: Span,
        now: Time,
    ) -> (f64, f64) {
        let share = if shared {
            self.mean_share(host, load, now)
        } else {
            1.0
        };
        let rate = rate_of(computing, host.speed.factor() * share);
        (ran_s(host, load, start_cost, now) * rate, rate)
    }

    /// Returns the processor share that tasks get on this host while they run.
    pub(crate) fn share(&self, host: &Host) -> f64 {
        if host.owner.lets_run() && host.cpu >= 0.01 {
            host.cpu.max(0.05)
        } else {
            self.common().cpu
        }
    }

    /// Returns the host with the share that it last reported, on which policies decide.
    pub(crate) fn as_reported<'a>(&self, host: &'a Host) -> HostShare<'a> {
        let share = self.share(host);
        HostShare { host, share }
    }

    /// Returns the host with the mean share that such a task should get which runs there now, for
    /// predictions: the reported one lasts for [`SHARE_LASTS_S`], and then comes what is usual on the
    /// host.
    pub(crate) fn on_average<'a>(&self, host: &'a Host, work: WorkPerTask) -> HostShare<'a> {
        let usual = self.in_the_long_run(host);
        let task_s = work.mean_s / usual.rate(work);
        let now = self.share(host);
        let share = (now * SHARE_LASTS_S + usual.share * task_s) / (SHARE_LASTS_S + task_s);
        HostShare { host, share }
    }

    /// Returns the host with the share that is usual there, for predictions of what starts later.
    pub(crate) fn in_the_long_run<'a>(&self, host: &'a Host) -> HostShare<'a> {
        let share = self.usual_share(host);
        HostShare { host, share }
    }

    /// Returns the processor share that is usual on the host.
    pub(crate) fn usual_share(&self, host: &Host) -> f64 {
        host.usual_share.mean(self.common().cpu)
    }

    /// Returns the seconds that a task of which `part` is left takes on a free slot of this host.
    pub(crate) fn task_s(
        host: HostShare<'_>,
        work: WorkPerTask,
        part: f64,
        start_cost: Span,
    ) -> f64 {
        start_cost.secs() + part * work.mean_s / host.rate(work)
    }

    /// Returns the seconds that a task takes at this speed, with the usual processor share.
    pub(crate) fn usual_task_s(&self, work: WorkPerTask, speed: f64, start_cost: Span) -> f64 {
        start_cost.secs() + work.mean_s / work.rate(speed * self.common().cpu)
    }

    /// Returns the part of its task that an attempt has done by `now`, as far as known from its
    /// host's reports.
    pub(crate) fn done(
        host: HostShare<'_>,
        load: &HostAttempt,
        work: WorkPerTask,
        start_cost: Span,
        now: Time,
    ) -> f64 {
        let rate = host.rate(work) / work.mean_s;
        Self::done_at(rate, host.host, load, start_cost, now)
    }

    /// Returns the seconds that an attempt has run on its host, those before its checkpoint
    /// included, and those that its whole task takes there.
    pub(crate) fn ran_s(
        host: HostShare<'_>,
        load: &HostAttempt,
        work: WorkPerTask,
        start_cost: Span,
        now: Time,
    ) -> (f64, f64) {
        let whole_s = work.mean_s / host.rate(work);
        let done_s = Self::done(host, load, work, start_cost, now) * whole_s;
        (done_s.max(load.ran.secs()), whole_s)
    }

    /// The same as `done` for a host that does the part `rate` of the task in a second.
    fn done_at(rate: f64, host: &Host, load: &HostAttempt, start_cost: Span, now: Time) -> f64 {
        let (since, done) = match (load.noted, load.progress) {
            (Some(noted), Some(progress)) if load.phase.executing() => (noted, f64::from(progress)),
            (Some(noted), None) if load.phase.executing() => {
                (noted, load.resumed + load.ran.secs() * rate)
            }
            (Some(noted), _) if load.phase == Phase::Queued => (noted + start_cost, load.resumed),
            _ => (load.assigned + start_cost, load.resumed),
        };
        let ran_s = if host.holds_still(load.phase) {
            0.0
        } else {
            age_s(since, now)
        };
        (done + ran_s * rate).clamp(0.0, 1.0)
    }

    /// Returns the mean work of a job's tasks by the progress that running ones report, in seconds
    /// on a host of speed 1; `None` where none does.
    pub(crate) fn work_by_progress_s(&self, job: &Job, hosts: &Hosts) -> Option<f64> {
        if !job.reports_progress {
            return None;
        }

        let live = job.records.values().flat_map(|record| &record.live);
        let work = job.takes(0.0);
        let works = live.take(ASKED).filter_map(|copy| {
            let host = hosts.table.get(&copy.host)?;
            let load = host.books.get(&copy.attempt)?;
            let full_s = own_full_s(load)?;
            let share = self.reported_share(host, load);
            Some(full_s * work.rate(host.speed.factor() * share))
        });

        let (sum_s, count) = works.fold((0.0, 0_u32), |(sum_s, n), work_s| (sum_s + work_s, n + 1));
        (count > 0).then(|| sum_s / f64::from(count))
    }

    /// Returns the part of its task in the newest checkpoint of an attempt: the part done at its
    /// host's last report, which a silent host made before it fell silent. That it is back, without the
    /// attempt, is no report of it.
    pub(crate) fn saved(
        &self,
        host: &Host,
        load: &HostAttempt,
        job: &Job,
        settings: &Settings,
        now: Time,
    ) -> f64 {
        if !job.rules.checkpoint {
            return 0.0;
        }
        let Some(work_s) = job.usual_task_work_s() else {
            return load.progress.map_or(load.resumed, f64::from);
        };

        let ago = settings.reports(&job.policy);
        let heard = host.heard_before.unwrap_or(host.silent_since);
        let reported = (now - ago).min(heard.max(load.assigned));
        let on = self.as_reported(host);
        Self::done(on, load, job.takes(work_s), settings.start_cost, reported)
    }

    /// Returns the expected time to the end of a live attempt, in seconds from now; suspensions
    /// count with their mean.
    pub(crate) fn expected_s(
        &self,
        on: HostShare<'_>,
        load: &HostAttempt,
        work: WorkPerTask,
        start_cost: Span,
        now: Time,
    ) -> f64 {
        let left_s = Self::left_s(on, load, work, start_cost, now);

        match Self::stay_s(on.host, load, now) {
            Some(stay_s) => left_s + stay_s,
            None => left_s * self.curves().stretch,
        }
    }

    /// Returns the seconds for which a live attempt that stands still is expected to go on doing so;
    /// `None` for one that runs.
    pub(crate) fn stay_s(host: &Host, load: &HostAttempt, now: Time) -> Option<f64> {
        let partly = host.owner.lets_run();
        let since = load
            .suspended_since
            .filter(|_| partly)
            .unwrap_or(host.owner_since);
        let stays = host.holds_still(load.phase);
        stays.then(|| (0.7 * age_s(since, now)).max(60.0))
    }

    /// Returns the `CompletionLaw` of a live attempt's completion time.
    pub(crate) fn law(
        &self,
        on: HostShare<'_>,
        load: &HostAttempt,
        work: WorkPerTask,
        start_cost: Span,
        now: Time,
    ) -> CompletionLaw {
        let host = on.host;
        let left_s = Self::left_s(on, load, work, start_cost, now);
        let place = AttemptHost {
            suspended: host.holds_still(load.phase),
            ..Self::place(host, now)
        };
        let mut law = CompletionLaw::of(left_s, place, self.curves());
        let doubted = host.liveness != Liveness::Alive || host.how == Parting::Together;
        if let Some(silence) = host.silence(now).filter(|_| doubted) {
            law.alive *= 1.0 - self.gone(silence);
        }

        law
    }

    /// Returns the run time that a live attempt still needs on its host, in seconds, without
    /// suspensions.
    pub(crate) fn left_s(
        on: HostShare<'_>,
        load: &HostAttempt,
        work: WorkPerTask,
        start_cost: Span,
        now: Time,
    ) -> f64 {
        let host = on.host;
        let started = load.assigned + start_cost;
        let rate = on.rate(work);
        let full_s = work.mean_s / rate;
        let done = Self::done_at(full_s.recip(), host, load, start_cost, now);
        let left_s = age_s(now, started) + (1.0 - done) * full_s;

        // An attempt that is overdue is expected to end soon, but later the longer it is overdue.
        let overdue_s = age_s(started, now) - (1.0 - load.resumed) * full_s;
        let soon_s = LEAST_LEFT_S.min(LEAST_LEFT_PART * full_s);
        let late_s = if done >= 1.0 {
            0.1 * overdue_s.max(0.0)
        } else {
            0.0
        };
        let left_s = left_s.max(soon_s + late_s);
        match own_left_s(load, full_s, now) {
            Some(own_s) => left_s.max(own_s),
            None => left_s.max(beyond_s(host, load, work.longest_s / rate, started, now)),
        }
    }
}

/// Returns the seconds that an attempt has run beyond `longest_s`, the longest run seen, on its
/// host: it is expected to run for at least as long again. One of which its host has said nothing
/// counts as running since `started`, when it should have begun.
fn beyond_s(host: &Host, load: &HostAttempt, longest_s: f64, started: Time, now: Time) -> f64 {
    if load.noted.is_none() && !host.holds_still(load.phase) {
        return age_s(started, now) - longest_s;
    }

    let running = load.phase.executing() && !host.holds_still(load.phase);
    let since_s = load
        .noted
        .filter(|_| running)
        .map_or(0.0, |noted| age_s(noted, now));
    load.ran.secs() + since_s - longest_s
}

/// Returns the seconds that a whole task takes on its host by the progress that it reports.
pub(crate) fn own_full_s(load: &HostAttempt) -> Option<f64> {
    let progress = load.progress.map(f64::from)?;
    let own = progress - load.resumed;
    let told = own > FIRST_PROGRESS && progress <= 1.0 && load.phase.executing();
    told.then(|| load.ran.secs() / own)
}

/// Returns the seconds that a task still needs whose reported progress is far behind that of its
/// kind: its own pace decides, and never makes it faster than its kind.
fn own_left_s(load: &HostAttempt, full_s: f64, now: Time) -> Option<f64> {
    let (noted, progress) = (load.noted?, load.progress.map(f64::from)?);
    let own_full_s = own_full_s(load).filter(|own_full_s| *own_full_s > OWN_WAY * full_s)?;
    Some((1.0 - progress) * own_full_s - age_s(noted, now))
}
