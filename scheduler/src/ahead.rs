//! How deskgrid's own policy starts attempts: it gathers what is known of hosts and attempts, lets the pure parts
//! ([`crate::policy::placement::lookahead`], [`crate::policy::replication::gain`]) decide, and applies that.

use common::{HostId, Span};

use crate::dispatch::Starter;
use crate::effect::{CopyReason, Effect, StartReason};
use crate::experience::JobClass;
use crate::foresight::Foresight;
use crate::host::Host;
use crate::job::Job;
use crate::laws::Law;
use crate::policy::placement::Lookahead;
use crate::policy::placement::lookahead::{Server, completion_s, expected_s};
use crate::policy::replication::Gain;
use crate::policy::replication::gain::{Gains, Open, Search};

/// Copies are searched for at most so often.
const TICK_S: f64 = 15.0;
/// The most copies of one task, and copies per task that one job may start, as a multiple of what it may on average.
const MOST_LIVE: usize = 6;
const MOST_COPIES: f64 = 4.0;
/// Near its end, when at most this part of the tasks is left, a job's copies are cheaper.
const ENDGAME: f64 = 0.1;
const ENDGAME_PRICE: f64 = 0.4;

/// A ready host, as a job sees it. Times in seconds.
struct Ready {
    host: HostId,
    task_s: f64,
    /// Smaller is better.
    key: f64,
    law: Law,
}

impl Starter<'_> {
    /// Gives waiting tasks to the ready hosts that will be done soonest. False where too little is known of the tasks,
    /// or where they are too short for that.
    pub(crate) fn place_ahead(&mut self, answer: Lookahead, job: &mut Job, fx: &mut Vec<Effect>) -> bool {
        let Some(work_s) = job.task_work_s() else { return false };
        let Some(mean_s) = self.mean_task_s(work_s) else { return false };
        if mean_s < answer.least_task_s {
            return false;
        }
        let slots = self.hosts.index.usable_slots.max(1) as f64;
        let per_host = job.scene(self.now, self.settings, self.hosts).unsettled as f64 / slots;
        job.plan.class.get_or_insert(JobClass::of(per_host, mean_s));
        let ready = self.ready(work_s, mean_s);
        let waiting = job.waiting();
        let end_s = self.queue_end_s(work_s, &ready, waiting);
        for candidate in ready.iter().filter(|ready| ready.task_s <= end_s + 1.0) {
            while self.hosts.table.get(&candidate.host).is_some_and(|host| host.free_slots() > 0) {
                let Some((index, why)) = job.pop_waiting() else { return true };
                self.start(job, index, candidate.host, why, fx);
            }
        }
        true
    }

    /// A task's time on a mean host, in seconds.
    fn mean_task_s(&self, work_s: f64) -> Option<f64> {
        let speed = self.hosts.index.mean_speed()?;
        Some(self.settings.start_cost.secs() + work_s / (speed * self.foresight.curves.cpu))
    }

    /// The ready hosts, the best one first.
    fn ready(&self, work_s: f64, mean_s: f64) -> Vec<Ready> {
        let curves = &self.foresight.curves;
        let of = |id: HostId| {
            let host = self.hosts.table.get(&id)?;
            let task_s = self.foresight.task_s(host, work_s, 1.0, self.settings.start_cost);
            let place = Foresight::place(host, self.now);
            let key = expected_s(task_s, mean_s, place, curves);
            Some(Ready { host: id, task_s, key, law: Law::of(task_s, place, curves) })
        };
        let mut ready: Vec<_> = self.hosts.index.ready.by_since().filter_map(of).collect();
        ready.sort_by(|a, b| a.key.total_cmp(&b.key).then(a.host.cmp(&b.host)));
        ready
    }

    /// By when, in seconds from now, all hosts together could complete the job's waiting tasks.
    fn queue_end_s(&self, work_s: f64, ready: &[Ready], waiting: u64) -> f64 {
        let fleet_speed = self.hosts.index.usable_slots as f64 * self.hosts.index.mean_speed().unwrap_or(0.0);
        // No schedule is sooner than if the work could be divided at will.
        let least_s = waiting as f64 * work_s / fleet_speed;
        if ready.iter().all(|ready| ready.task_s <= least_s) {
            return least_s;
        }
        let mut servers = Vec::with_capacity(ready.len());
        for Ready { host, task_s, .. } in ready {
            let slots = self.hosts.table.get(host).map_or(0, |host| host.free_slots());
            servers.extend(std::iter::repeat_n(Server { free_s: 0.0, task_s: *task_s }, slots));
        }
        for host in self.hosts.table.values().filter(|host| host.liveness == crate::host::Liveness::Alive) {
            let task_s = self.foresight.task_s(host, work_s, 1.0, self.settings.start_cost);
            for load in host.books.values() {
                let law = self.foresight.law(host, load, work_s, self.settings.start_cost, self.now);
                servers.push(Server { free_s: law.expected_s(&self.foresight.curves), task_s });
            }
        }
        completion_s(&servers, waiting)
    }

    /// Copies the tasks whose copies gain enough. False where too little is known of the tasks.
    pub(crate) fn copy_for_gain(&mut self, answer: Gain, job: &mut Job, fx: &mut Vec<Effect>) -> bool {
        let (Some(work_s), Some(class)) = (job.task_work_s(), job.plan.class) else { return false };
        let Some(task_s) = self.mean_task_s(work_s) else { return false };
        let most = MOST_COPIES * answer.copies_max * job.counts().total as f64;
        if self.now < job.plan.search || job.duplicates as f64 + 1.0 > most {
            return true;
        }
        let next = self.now + Span::from_secs_f64(TICK_S);
        (job.plan.search, job.plan.review) = (next, Some(next));
        let ready = self.ready(work_s, task_s);
        let Some(best_s) = ready.iter().map(|ready| ready.task_s).min_by(f64::total_cmp) else { return true };
        let begin_s = if job.waiting() > 0 { self.queue_end_s(work_s, &ready, job.waiting()) } else { 0.0 };
        let open = self.open(job, work_s);
        let undone = open.len() as u64 + job.waiting();
        let endgame = undone as f64 <= ENDGAME * job.counts().total as f64;
        let price = self.foresight.experience.prices.price(class) * if endgame { ENDGAME_PRICE } else { 1.0 };
        let notice_s = job.policy.reports().unwrap_or(self.settings.heartbeat).secs();
        let curves = &self.foresight.curves;
        let mut gains = Gains::new(Search { curves, open, begin_s, task_s, best_s, notice_s });
        for candidate in &ready {
            let Some((at, gain_s)) = gains.best(&candidate.law, |task| !job.is_on(task, candidate.host)) else { break };
            if gain_s < price * task_s || job.duplicates as f64 + 1.0 > most {
                break;
            }
            let index = gains.task(at);
            let Some(of) = job.records.get(&index).and_then(|r| r.live.first()).map(|copy| copy.attempt.number) else {
                break;
            };
            let why = StartReason::Duplicate(of, CopyReason::Gain(Span::from_secs_f64(gain_s)));
            self.begin(job, index, candidate.host, false, why, fx);
            let live = job.records.get(&index).map_or(0, |record| record.live.len());
            gains.add(at, candidate.law, live < self.most_live());
        }
        true
    }

    /// How many attempts of one task may live at a time.
    fn most_live(&self) -> usize {
        MOST_LIVE.min(self.settings.max_copies as usize)
    }

    /// The job's tasks with live attempts, and when those will be done.
    fn open(&self, job: &Job, work_s: f64) -> Vec<Open> {
        let law = |host: &Host, attempt| {
            let load = host.books.get(attempt)?;
            Some(self.foresight.law(host, load, work_s, self.settings.start_cost, self.now))
        };
        let most = self.most_live();
        let running = job.records.iter().filter(|(_, record)| !record.live.is_empty());
        let open = running.map(|(task, record)| {
            let laws = record.live.iter().filter_map(|copy| law(self.hosts.table.get(&copy.host)?, &copy.attempt));
            Open { task: *task, laws: laws.collect(), room: record.live.len() < most }
        });
        open.collect()
    }
}
