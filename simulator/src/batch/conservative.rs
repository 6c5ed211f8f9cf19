//! First come, first served, with conservative backfilling: every job has a reservation from its
//! arrival on, which is only ever moved to an earlier time.

use super::calendar::FreeProcessors;
use super::job::{BatchJob, BatchOutcome, JobStay, arrivals};

#[derive(Clone, Copy)]
struct Reservation {
    start: f64,
    job: usize,
}

struct ConservativeWorld<'a> {
    jobs: &'a [BatchJob],
    now: f64,
    calendar: FreeProcessors,
    /// The reservations of the waiting jobs, by start.
    reserved: Vec<Reservation>,
    /// The running jobs, each with the end of its request.
    running: Vec<(JobStay, f64)>,
    killed: Vec<u32>,
    outcome: BatchOutcome,
}

/// Runs these jobs on `processors` processors and returns the outcome. A job that is killed at its
/// limit is submitted again, with a new reservation.
pub fn conservative(jobs: &[BatchJob], processors: u32) -> BatchOutcome {
    let mut arrivals = arrivals(jobs, processors);
    let mut world = ConservativeWorld {
        jobs,
        now: 0.0,
        calendar: FreeProcessors::new(0.0, processors),
        reserved: Vec::new(),
        running: Vec::new(),
        killed: vec![0; jobs.len()],
        outcome: BatchOutcome::new(jobs.len()),
    };
    loop {
        let end = world
            .running
            .iter()
            .map(|(stay, _)| stay.to)
            .fold(f64::INFINITY, f64::min);
        let start = world
            .reserved
            .iter()
            .map(|reserved| reserved.start)
            .fold(f64::INFINITY, f64::min);
        let arrival = arrivals
            .peek()
            .map_or(f64::INFINITY, |job| jobs[*job].submit);
        world.now = end.min(start).min(arrival);
        if world.now.is_infinite() {
            return world.outcome;
        }

        world.calendar.forget(world.now);
        world.end();
        while let Some(job) = arrivals.next_if(|job| jobs[*job].submit <= world.now) {
            world.reserve(job);
        }

        world.start();
    }
}

impl ConservativeWorld<'_> {
    fn limit(&self, job: usize) -> f64 {
        self.jobs[job].limit(self.killed[job])
    }

    /// Ends the stays that end now; moves reservations up if one ended early.
    fn end(&mut self) {
        let now = self.now;
        let over = self.running.extract_if(.., |(stay, _)| stay.to <= now);
        let mut over: Vec<_> = over.collect();
        over.sort_by_key(|(stay, _)| stay.job);

        let mut again = Vec::new();
        let mut early = false;
        for (stay, until) in over {
            early |= until > now;
            self.calendar.give_back(now, until, stay.processors);
            self.outcome.left(stay);
            if !stay.done {
                self.killed[stay.job] += 1;
                again.push(stay.job);
            }
        }

        if early {
            self.compress();
        }
        for job in again {
            self.reserve(job);
        }
    }

    /// Moves every reservation to the earliest time that the others leave, in their order. None
    /// becomes later.
    fn compress(&mut self) {
        self.reserved
            .sort_by(|a, b| a.start.total_cmp(&b.start).then(a.job.cmp(&b.job)));
        for at in 0..self.reserved.len() {
            let Reservation { start, job } = self.reserved[at];
            let limit = self.limit(job);
            let processors = self.jobs[job].processors;
            self.calendar.give_back(start, start + limit, processors);
            let earlier = self
                .calendar
                .earliest(self.now, processors, limit)
                .unwrap_or(start);
            self.calendar.take(earlier, earlier + limit, processors);
            self.reserved[at].start = earlier;
        }
    }

    fn reserve(&mut self, job: usize) {
        let limit = self.limit(job);
        let processors = self.jobs[job].processors;
        if let Some(start) = self.calendar.earliest(self.now, processors, limit) {
            self.calendar.take(start, start + limit, processors);
            self.reserved.push(Reservation { start, job });
        }
    }

    /// Starts the jobs whose reservation begins now.
    fn start(&mut self) {
        let now = self.now;
        for Reservation { job, .. } in self.reserved.extract_if(.., |it| it.start <= now) {
            let limit = self.jobs[job].limit(self.killed[job]);
            let stay = self.jobs[job].stay(job, now, limit);
            self.running.push((stay, now + limit));
        }
    }
}
