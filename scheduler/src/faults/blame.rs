//! Blame for failures: the task or the host. A retry goes to another host while one could take it.
//! A host on which a job's tasks fail while they succeed elsewhere gets no more of that job, and
//! after several jobs it is benched: it gets one task at a time, until one succeeds. A host that gives
//! back what it gets, loses it each time that it connects anew or that its worker dies, or ends it at a limit that
//! cannot have been reached is benched too, since the same tasks would go to it again at once. Charges to tasks are made
//! in `crate::handlers::attempts`.

use std::collections::BTreeSet;

use crate::state::blame::{Bench, Exclusion, LOOKED_AT};

use common::attempt::{HeldAttempt, Outcome};
use common::{AttemptId, HostId, JobId, Span};

use crate::protocol::effect::Effect;
use crate::state::host::{Host, HostAttempt};
use crate::state::job::Job;
use crate::state::scheduler::Scheduler;

/// The number of jobs whose blame, with no success in between, benches a host.
const STRIKES: usize = 3;
/// The first pause of a benched host; doubled with each task that fails there, up to [`LONGEST`].
const PAUSE: Span = Span::from_secs(60);
/// The first pause of a host without room on its disk, or that gives tasks back; `LONGEST` bounds both.
const SHORT_PAUSE: Span = Span::from_secs(15);
const LONGEST: Span = Span::from_secs(15 * 60);
/// The number of unasked returns within [`COUNTED`], with no success in between, that benches a host. One or two happen to
/// a sound host: an assignment and news of its owner may cross on their way.
const RETURNS: usize = 3;
/// The time for which a return counts.
const COUNTED: Span = Span::from_secs(60 * 60);
/// A host may give back an attempt that it has had for longer than this: even if it does so each time, that costs the
/// master little.
const AT_ONCE: Span = Span::from_secs(60);

/// Whether this outcome may be the host's fault. A limit is not, whether the user set it or the host's owner: a task that
/// needs more than one PC lends may succeed on a larger one, and both PCs are sound.
fn blamable(outcome: &Outcome) -> bool {
    use Outcome::{BadOutput, Exited, MissingOutput, NotStarted, Signalled};
    matches!(
        outcome,
        Exited(_) | Signalled(_) | MissingOutput(_) | BadOutput(_) | NotStarted(_)
    )
}

impl Scheduler {
    /// Whether hosts are held responsible for failures of this job. For a lack of room they are in any case.
    pub(crate) fn blames(&self, id: JobId) -> bool {
        let job = self.jobs.table.get(&id);
        self.settings.benching && job.is_some_and(|job| job.gang.is_none())
    }

    /// Judges an attempt's host by its outcome.
    pub(crate) fn judge_host(
        &mut self,
        id: HostId,
        attempt: AttemptId,
        outcome: &Outcome,
        fx: &mut Vec<Effect>,
    ) {
        if !self.settings.benching {
            return;
        }
        if let Outcome::NoRoom(why) = outcome {
            return self.bench(id, format!("has no room for tasks: {why}"), SHORT_PAUSE);
        }
        // It was not told to stop: then the attempt would have been off the books.
        if matches!(outcome, Outcome::Stopped) {
            return self.note_return(id, "ended tasks that nobody told it to end");
        }

        let of = attempt.task.job;
        let success = outcome.success();
        if success {
            self.clear_host(id);
        }
        // A rank may fail because another one did, but where a rank succeeds, nothing is wrong with the host.
        if !self.blames(of) || !success && !blamable(outcome) {
            return;
        }
        if !success {
            self.probe_failed(id);
        }

        let Some(job) = self.jobs.table.get_mut(&of) else {
            return;
        };
        job.blame.note(id, success);

        let barred = job.bar(id).is_some();
        for host in job.newly_blamed(id, success) {
            self.strike(host, of);
        }
        if barred {
            self.take_back_all(id, of, fx);
        }
    }

    /// Takes back the attempts of a job that a host holds beyond its slots.
    fn take_back_all(&mut self, id: HostId, of: JobId, fx: &mut Vec<Effect>) {
        let host = self.hosts.table.get(&id);
        let backlog = host.map(Host::backlog).unwrap_or_default();
        for attempt in backlog.into_iter().filter(|attempt| attempt.task.job == of) {
            self.take_back(id, attempt, fx);
        }
    }

    /// Notes that a job blames a host; after [`STRIKES`] jobs it is benched.
    fn strike(&mut self, id: HostId, by: JobId) {
        let Some(host) = self.hosts.get(id) else {
            return;
        };
        let trouble = host.trouble.get_or_insert_default();
        if !trouble.strikes.insert(by) {
            return;
        }

        let jobs = trouble.strikes.len();
        if jobs >= STRIKES {
            self.bench(
                id,
                format!("tasks of {jobs} jobs failed here and succeeded elsewhere"),
                PAUSE,
            );
        }
    }

    /// Whether a host gives attempts back soon after it got them, and nothing that is known explains it: its owner is away,
    /// its worker does not shut down, nobody drains it, and none of them was to make room. An owner who comes back takes
    /// slots from tasks, also where some stay theirs: then what has not begun goes back.
    pub(crate) fn returns_at_once(&self, id: HostId, attempts: &[AttemptId]) -> bool {
        let Some(host) = self.hosts.table.get(&id) else {
            return false;
        };
        let owner_is_there = host.owner.reason().is_some();
        let is_explained = !host.lets_go_on() || owner_is_there || host.draining || host.closing;
        let at_once = |attempt: &AttemptId| {
            let load = host.books.get(attempt);
            let load = load.filter(|load| !load.stopping && !load.frozen);
            load.is_some_and(|load| self.now.since(load.since) < AT_ONCE)
        };
        self.settings.benching && !is_explained && attempts.iter().any(at_once)
    }

    /// Whether a host that has connected anew lists none of the attempts that it has, and was given one of them
    /// just now.
    pub(crate) fn has_lost_all(&self, id: HostId, held: &[HeldAttempt]) -> bool {
        let Some(host) = self.hosts.table.get(&id) else {
            return false;
        };
        let mut held = held.iter();
        let has_some = held.any(|held| host.books.contains(&held.attempt));
        let given: Vec<AttemptId> = host.books.attempts().collect();
        !has_some && self.returns_at_once(id, &given)
    }

    /// Whether an attempt is said to have reached a limit although its host has not had it for half as long; or
    /// where nobody set a limit, although its host has just got it.
    pub(crate) fn is_too_soon(&self, outcome: &Outcome, load: &HostAttempt) -> bool {
        let had = self.now.since(load.since);
        let least = load.limit.map_or(AT_ONCE, |limit| Span(limit.0 / 2));
        self.settings.benching && matches!(outcome, Outcome::TimedOut(_)) && had < least
    }

    /// Notes that a host gave attempts back unasked, or as good as did; after [`RETURNS`] times it is benched, and the
    /// reason has the `way` of each. One that is benched already has failed its probe.
    pub(crate) fn note_return(&mut self, id: HostId, way: &'static str) {
        let now = self.now;
        let Some(host) = self.hosts.get(id) else {
            return;
        };
        let trouble = host.trouble.get_or_insert_default();
        let returns = &mut trouble.returns;
        returns.retain(|(at, _)| now.since(*at) < COUNTED);
        returns.push((now, way));

        let beyond = returns.len().saturating_sub(RETURNS);
        returns.drain(..beyond);
        let often = returns.len() >= RETURNS;
        let ways: BTreeSet<&str> = returns.iter().map(|(_, way)| *way).collect();
        let probing = trouble.bench.as_ref().is_some_and(|bench| bench.probing);

        if probing {
            self.probe_failed(id);
        } else if often {
            self.bench(id, Vec::from_iter(ways).join("; "), SHORT_PAUSE);
        }
    }

    fn bench(&mut self, id: HostId, why: String, pause: Span) {
        let now = self.now;
        let Some(host) = self.hosts.table.at_mut(&id) else {
            return;
        };
        let trouble = host.trouble.get_or_insert_default();
        let before = trouble.bench.take();
        // What ends together on a benched host says the same; only a failed probe says more.
        let pause = match &before {
            Some(bench) if bench.probing => longer(bench.pause),
            Some(bench) => bench.pause,
            None => pause,
        };
        let until = now + pause;

        trouble.bench = Some(Bench {
            why,
            pause,
            probing: false,
        });
        self.hosts.index.benches.retain(|(_, of)| *of != id);
        self.hosts.index.benches.insert((until, id));
        self.reindex(id);
    }

    /// Benches a host for longer after its probing task failed.
    fn probe_failed(&mut self, id: HostId) {
        let bench = self.hosts.table.get(&id).and_then(Host::bench);
        if let Some(bench) = bench.filter(|bench| bench.probing) {
            let why = bench.why.clone();
            let pause = bench.pause;
            self.bench(id, why, pause);
        }
    }

    /// Clears a host of all blame after a success.
    fn clear_host(&mut self, id: HostId) {
        let Some(host) = self.hosts.table.at_mut(&id) else {
            return;
        };
        let trouble = host.trouble.take();
        if trouble.is_some_and(|trouble| trouble.bench.is_some()) {
            self.hosts.index.benches.retain(|(_, of)| *of != id);
            self.reindex(id);
        }
    }

    /// Clears a host of all blame, also within jobs, as an admin orders.
    pub(crate) fn pardon(&mut self, id: HostId) {
        self.clear_host(id);
        for job in self.jobs.table.values_mut() {
            job.blame.pardon(id);
        }
    }

    /// Lets each benched host whose pause is over have one task.
    pub(crate) fn probe_benched(&mut self) {
        while let Some((at, id)) = self.hosts.index.benches.first().copied()
            && at <= self.now
        {
            self.hosts.index.benches.pop_first();
            let trouble = self.hosts.get(id).and_then(|host| host.trouble.as_mut());
            if let Some(bench) = trouble.and_then(|trouble| trouble.bench.as_mut()) {
                bench.probing = true;
                self.reindex(id);
            }
        }
    }

    /// Returns the reason why a host is passed over for a job after failures there, if it is.
    pub(crate) fn why_blamed(&self, host: &Host, job: &Job) -> Option<String> {
        match job.bar(host.id) {
            Some(Exclusion::Blamed(row, elsewhere)) => {
                return Some(format!(
                    "{row} attempts of this job in a row failed here, and {elsewhere} succeeded elsewhere: it gets no more \
                     of the job"
                ));
            }
            Some(Exclusion::Undecided(row)) => {
                return Some(format!(
                    "{row} attempts of this job in a row failed here: it waits for the end of those elsewhere"
                ));
            }
            None => {}
        }

        let kept = job
            .requeued
            .iter()
            .take(LOOKED_AT)
            .filter(|index| job.shuns(*index, host.id, &self.hosts))
            .count();
        let only = kept > 0 && !job.has_work_for(host.id, &self.hosts);

        only.then(|| "what waits of this job failed here, and goes to another host".to_owned())
    }
}

fn longer(pause: Span) -> Span {
    Span(pause.0.saturating_mul(2)).min(LONGEST)
}
