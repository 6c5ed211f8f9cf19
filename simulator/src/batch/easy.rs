//! First come, first served, with EASY backfilling: only the head of the queue has a reservation,
//! and other jobs may pass it if they do not delay it.

use super::job::{BatchJob, BatchOutcome, JobStay, arrivals};

struct RunningJob {
    stay: JobStay,
    /// The end of its request.
    until: f64,
}

struct EasyWorld<'a> {
    jobs: &'a [BatchJob],
    now: f64,
    free: u32,
    /// The waiting jobs, in their order.
    queue: Vec<usize>,
    running: Vec<RunningJob>,
    /// The number of kills of each job.
    killed: Vec<u32>,
    outcome: BatchOutcome,
}

/// Runs these jobs on `processors` processors and returns the outcome. A job that is killed at its
/// limit is submitted again, at the queue's end.
pub fn easy(jobs: &[BatchJob], processors: u32) -> BatchOutcome {
    let mut arrivals = arrivals(jobs, processors);
    let mut world = EasyWorld {
        jobs,
        now: 0.0,
        free: processors,
        queue: Vec::new(),
        running: Vec::new(),
        killed: vec![0; jobs.len()],
        outcome: BatchOutcome::new(jobs.len()),
    };
    loop {
        let end = world
            .running
            .iter()
            .map(|running| running.stay.to)
            .fold(f64::INFINITY, f64::min);
        let arrival = arrivals
            .peek()
            .map_or(f64::INFINITY, |job| jobs[*job].submit);
        world.now = end.min(arrival);
        if world.now.is_infinite() {
            return world.outcome;
        }

        world.end();
        while let Some(job) = arrivals.next_if(|job| jobs[*job].submit <= world.now) {
            world.queue.push(job);
        }

        world.start();
    }
}

impl EasyWorld<'_> {
    /// Ends the stays that end now.
    fn end(&mut self) {
        let now = self.now;
        let over = self
            .running
            .extract_if(.., |running| running.stay.to <= now);
        let mut over: Vec<_> = over.collect();
        over.sort_by_key(|running| running.stay.job);

        for RunningJob { stay, .. } in over {
            self.free += stay.processors;
            self.outcome.left(stay);
            if !stay.done {
                self.killed[stay.job] += 1;
                self.queue.push(stay.job);
            }
        }
    }

    /// Starts every job that may start now.
    fn start(&mut self) {
        let fits = |free: u32, job: usize| self.jobs[job].processors <= free;
        let mut free = self.free;
        let mut ahead = 0;

        while self.queue.get(ahead).is_some_and(|job| fits(free, *job)) {
            free -= self.jobs[self.queue[ahead]].processors;
            ahead += 1;
        }

        for job in self.queue.drain(..ahead).collect::<Vec<_>>() {
            self.run(job);
        }

        let Some(head) = self.queue.first().copied() else {
            return;
        };
        let (shadow, mut spare) = self.reservation(head);
        let mut at = 1;

        while at < self.queue.len() && self.free > 0 {
            let job = self.queue[at];
            let BatchJob { processors, .. } = self.jobs[job];
            let over = self.now + self.jobs[job].limit(self.killed[job]) > shadow;
            if processors > self.free || (over && processors > spare) {
                at += 1;
                continue;
            }
            spare -= if over { processors } else { 0 };
            self.queue.remove(at);
            self.run(job);
        }
    }

    /// The latest time at which the head of the queue can start, and the number of processors that
    /// it leaves free then.
    fn reservation(&self, head: usize) -> (f64, u32) {
        let mut ends: Vec<(f64, u32)> = self
            .running
            .iter()
            .map(|running| (running.until, running.stay.processors))
            .collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));

        let wanted = self.jobs[head].processors;
        let mut free = self.free;
        let mut ends = ends.into_iter().peekable();

        while let Some((until, processors)) = ends.next() {
            free += processors;
            // Stays that end at the same time free their processors together.
            if free >= wanted && ends.peek().is_none_or(|next| next.0 > until) {
                return (until, free - wanted);
            }
        }

        (f64::INFINITY, 0)
    }

    fn run(&mut self, job: usize) {
        let limit = self.jobs[job].limit(self.killed[job]);
        let stay = self.jobs[job].stay(job, self.now, limit);
        self.free -= stay.processors;
        self.running.push(RunningJob {
            stay,
            until: self.now + limit,
        });
    }
}
