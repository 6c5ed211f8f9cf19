//! The starts of waiting gangs, and their ends: each waits for its hosts, and for the gangs ahead of it.

use std::cell::LazyCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use common::needs::Needs;
use common::{HostId, JobId, Span, Time};

use super::width_choice::PredictedWaits;
use crate::forecast::starts::{LifetimeLaws, at_least};
use crate::policy::width::WidthChoice;
use crate::state::job::Job;
use crate::state::scheduler::Scheduler;

/// The predicted start of a gang.
#[derive(Clone, Copy)]
struct GangStart {
    /// The number of hosts that it starts on.
    hosts: u32,
    /// The number of hosts that there are for it and for those ahead.
    all: u32,
    /// The wait in seconds, between the ends of its interval.
    wait_s: [f64; 3],
}

/// The gangs of a line that have started: the hosts that they hold together, and their ends in seconds,
/// each with its number of hosts.
#[derive(Default)]
struct StartedGangs {
    held: u32,
    ends: BinaryHeap<Reverse<(Time, u32)>>,
    last_s: f64,
}

impl StartedGangs {
    /// Starts the next gang of the line: not before those ahead of it, and once they leave it enough hosts.
    fn start(&mut self, start: GangStart, run_s: f64) -> GangStart {
        let mut start_s = start.wait_s[1].max(self.last_s);
        while let Some(Reverse((end, hosts))) = self.ends.peek().copied() {
            let is_over = end.secs() <= start_s;
            if !is_over && self.held.saturating_add(start.hosts) <= start.all {
                break;
            }
            start_s = start_s.max(end.secs());
            self.held -= hosts;
            self.ends.pop();
        }

        self.last_s = start_s;
        self.held += start.hosts;
        let end = Time::default() + Span::from_secs_f64(start_s + run_s);
        self.ends.push(Reverse((end, start.hosts)));
        GangStart {
            wait_s: at_least(start.wait_s, start_s),
            ..start
        }
    }
}

impl Scheduler {
    /// Predicts the start of each of these gangs, in seconds from now, between the ends of its
    /// interval: at once, or when the hosts that it waits for should be free, those ahead of it served.
    pub(crate) fn waits_together(&self, ids: &[JobId], now: Time) -> Vec<(JobId, [f64; 3])> {
        let starts = self.gang_starts(ids, now).into_iter();
        starts.map(|(id, start)| (id, start.wait_s)).collect()
    }

    /// Returns the predicted completion time of a gang, where its speedup is known.
    pub(crate) fn finish_together(&self, id: JobId, now: Time) -> Option<Time> {
        let gang = self.jobs.table.get(&id)?.gang.as_ref()?;
        if gang.formed.is_some() {
            return Some(self.held_until(gang, now)?.max(now));
        }

        let run = self.paced(gang.scaling?);
        let start = self.gang_starts(&[id], now).remove(&id)?;
        let [_, wait_s, _] = start.wait_s;
        Some(now + Span::from_secs_f64(wait_s + run.run_s(start.hosts)))
    }

    /// Predicts the starts of these gangs, by those of all gangs in the line before them.
    fn gang_starts(&self, ids: &[JobId], now: Time) -> BTreeMap<JobId, GangStart> {
        let wanted: BTreeSet<JobId> = ids.iter().copied().collect();
        let last = wanted
            .iter()
            .filter_map(|id| self.jobs.table.get(id))
            .map(|job| job.rank)
            .max();
        let line = self.jobs.gangs.union(&wanted);
        let mut line: Vec<&Job> = line
            .filter_map(|id| self.jobs.table.get(id))
            .filter(|job| Some(job.rank) <= last)
            .filter(|job| job.gang.as_ref().is_some_and(|gang| gang.formed.is_none()))
            .collect();
        line.sort_by_key(|job| job.rank);

        let mut alike = BTreeMap::<&Needs, Vec<&Job>>::new();
        for job in line {
            alike.entry(&job.rules.needs).or_default().push(job);
        }
        alike.retain(|_, jobs| jobs.iter().any(|job| wanted.contains(&job.rank.job)));
        let unknown_s = LazyCell::new(|| LifetimeLaws::of(self).unknown_s(0.5));

        let mut starts = BTreeMap::new();
        for (needs, jobs) in alike {
            let alone = self.starts_alone(needs, &jobs, now);
            let mut started = StartedGangs::default();
            for job in jobs {
                let Some(start) = alone.get(&job.rank.job) else {
                    continue;
                };
                let scaling = job.gang.as_ref().and_then(|gang| gang.scaling);
                let run_s = scaling.map(|scaling| self.paced(scaling).run_s(start.hosts));
                let start = started.start(*start, run_s.unwrap_or_else(|| *unknown_s));
                starts.insert(job.rank.job, start);
            }
        }

        starts.retain(|id, _| wanted.contains(id));
        starts
    }

    /// Predicts the starts of gangs with these needs, of each as if no other of them waited: hosts that are
    /// kept for one of them are free.
    fn starts_alone(&self, needs: &Needs, jobs: &[&Job], now: Time) -> BTreeMap<JobId, GangStart> {
        let kept = self.kept_hosts(|of| {
            let gang = self.jobs.table.get(&of);
            gang.is_some_and(|gang| gang.rules.needs == *needs)
        });
        self.with_machine(needs, &kept, now, |machine| {
            let waits = PredictedWaits::of(machine);
            let start = |job: &Job| self.start_alone(job, &kept, &waits, now);
            let found = jobs.iter().map(|job| (job.rank.job, start(job)));
            found.filter_map(|(id, start)| Some((id, start?))).collect()
        })
    }

    fn start_alone(
        &self,
        job: &Job,
        kept: &[HostId],
        waits: &PredictedWaits<'_>,
        now: Time,
    ) -> Option<GangStart> {
        let gang = job.gang.as_ref()?;
        let chosen = || {
            let free = self.free_with(job.rank.job, kept) as u32;
            self.choose(&self.view(job, gang, free), waits, now)
        };

        let all = waits.machine.hosts();
        let start = match gang.holdout.map(WidthChoice::Hold).or_else(chosen)? {
            WidthChoice::Start(hosts) => GangStart {
                hosts,
                all,
                wait_s: [0.0; 3],
            },
            WidthChoice::Hold(held) => {
                let hosts = held.hosts;
                let [low_s, high_s] = waits.edges_s(hosts);
                // What was expected when it began to wait counts unless the hosts say otherwise now.
                let expected_s = held.left_s(now.secs());
                let is_likely = (low_s..=high_s).contains(&expected_s);
                let left_s = Some(expected_s).filter(|_| is_likely);
                let left_s = left_s.or_else(|| waits.one_s(hosts))?;
                GangStart {
                    hosts,
                    all,
                    wait_s: [low_s.min(left_s), left_s, high_s.max(left_s)],
                }
            }
        };
        Some(start)
    }
}
