//! The paper's greedy heuristic (section 4.3): jobs are planned in rounds, the largest requests
//! first, each at the earliest time that the calendar of the round's requests leaves; a killed job
//! returns in the next round. The unused rest of a request is a gap, which other jobs may backfill.
//! In `conservative`, by contrast, all requests move up when a job ends early.

use scheduler::reservation::{self, GapCandidate, ProcessorGap};

use super::calendar::FreeProcessors;
use super::job::{BatchJob, BatchOutcome, JobStay, arrivals};
use super::table::TabulatedLaw;

/// The ways to backfill gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backfill {
    /// No backfilling: requests stay where they were planned.
    Nothing,
    /// Backfills jobs whose requests fit.
    Fitting,
    /// If no request fits, backfills the job that is expected to use the gap best, and kills it at
    /// the gap's end.
    Speculative,
}

/// A request of this round that has not begun.
struct PlannedRequest {
    start: f64,
    job: usize,
}

struct RunningRequest {
    stay: JobStay,
    /// The end of its use of the processors.
    until: f64,
    speculative: bool,
}

/// The facts known about a job.
#[derive(Clone, Default)]
struct JobFacts {
    killed: u32,
    /// A time that its run time exceeds.
    failed: f64,
    /// Whether it has a speculative run now.
    trying: bool,
}

struct RoundsWorld<'a> {
    jobs: &'a [BatchJob],
    processors: u32,
    backfill: Backfill,
    now: f64,
    planned: Vec<PlannedRequest>,
    running: Vec<RunningRequest>,
    /// The jobs to be planned in the next round.
    waiting: Vec<usize>,
    past: Vec<JobFacts>,
    outcome: BatchOutcome,
}

/// Runs these jobs on `processors` processors and returns the outcome.
pub fn rounds(jobs: &[BatchJob], processors: u32, backfill: Backfill) -> BatchOutcome {
    let mut arrivals = arrivals(jobs, processors);
    let mut world = RoundsWorld {
        jobs,
        processors,
        backfill,
        now: 0.0,
        planned: Vec::new(),
        running: Vec::new(),
        waiting: Vec::new(),
        past: vec![JobFacts::default(); jobs.len()],
        outcome: BatchOutcome::new(jobs.len()),
    };

    loop {
        let arrival = arrivals
            .peek()
            .map_or(f64::INFINITY, |job| jobs[*job].submit);
        if world.planned.is_empty() && world.running.is_empty() {
            if world.waiting.is_empty() {
                if arrival.is_infinite() {
                    return world.outcome;
                }
                world.now = world.now.max(arrival);
            }
        } else {
            world.now = world.next().min(arrival.max(world.now));
        }

        world.end();
        world.begin();
        while let Some(job) = arrivals.next_if(|job| jobs[*job].submit <= world.now) {
            world.waiting.push(job);
        }

        if world.planned.is_empty() && world.running.is_empty() {
            world.plan();
            world.begin();
        }

        world.fill();
    }
}

impl RoundsWorld<'_> {
    fn limit(&self, job: usize) -> f64 {
        self.jobs[job].limit(self.past[job].killed)
    }

    /// Sorts jobs by their requests, in processors times time, the largest first.
    fn largest_first(&self, jobs: &mut [usize]) {
        let size = |job: usize| f64::from(self.jobs[job].processors) * self.limit(job);
        jobs.sort_by(|a, b| size(*b).total_cmp(&size(*a)).then(a.cmp(b)));
    }

    /// The time at which the next job ends or begins.
    fn next(&self) -> f64 {
        let ends = self.running.iter().map(|running| running.stay.to);
        ends.chain(self.planned.iter().map(|planned| planned.start))
            .fold(f64::INFINITY, f64::min)
    }

    /// Begins a round with all waiting jobs.
    fn plan(&mut self) {
        let mut all = std::mem::take(&mut self.waiting);
        self.largest_first(&mut all);
        let mut calendar = FreeProcessors::new(self.now, self.processors);
        for job in all {
            let limit = self.limit(job);
            let processors = self.jobs[job].processors;
            if let Some(start) = calendar.earliest(self.now, processors, limit) {
                calendar.take(start, start + limit, processors);
                self.planned.push(PlannedRequest { start, job });
            }
        }
    }

    /// Ends the stays that end now.
    fn end(&mut self) {
        let now = self.now;
        let over = self
            .running
            .extract_if(.., |running| running.stay.to <= now);
        let mut over: Vec<_> = over.collect();
        over.sort_by_key(|running| running.stay.job);
        for RunningRequest {
            stay, speculative, ..
        } in over
        {
            self.outcome.left(stay);
            let past = &mut self.past[stay.job];
            past.trying = false;

            if stay.done {
                self.planned.retain(|planned| planned.job != stay.job);
                continue;
            }

            past.failed = past.failed.max(stay.to - stay.from);
            if !speculative {
                past.killed += 1;
            }

            // A job with a request in this round keeps it.
            if self.planned.iter().all(|planned| planned.job != stay.job) {
                self.waiting.insert(0, stay.job);
            }
        }
    }

    /// Begins the jobs that are planned for now.
    fn begin(&mut self) {
        let now = self.now;
        let due = self.planned.extract_if(.., |planned| planned.start <= now);
        for PlannedRequest { job, .. } in due.collect::<Vec<_>>() {
            self.run(job);
        }
    }

    /// Runs a job with its request, from now on.
    fn run(&mut self, job: usize) {
        let limit = self.limit(job);
        let stay = self.jobs[job].stay(job, self.now, limit);
        self.occupy(stay, self.now + limit);
    }

    /// Runs a job in a gap that ends at `until`.
    fn attempt(&mut self, job: usize, until: f64) {
        // Uses the gap's end itself, and not now plus the gap's length: rounding could let the run
        // overlap the next request.
        let end = self.now + self.jobs[job].run;
        self.past[job].trying = true;
        let stay = JobStay {
            job,
            from: self.now,
            to: end.min(until),
            processors: self.jobs[job].processors,
            done: end <= until,
        };
        self.occupy(stay, until);
    }

    fn occupy(&mut self, stay: JobStay, until: f64) {
        self.running.push(RunningRequest {
            stay,
            until,
            speculative: self.past[stay.job].trying,
        });
    }

    /// Backfills the free processors until the next request begins, or the round ends.
    fn fill(&mut self) {
        while self.backfill != Backfill::Nothing {
            let used: u32 = self
                .running
                .iter()
                .map(|running| running.stay.processors)
                .sum();
            let free = self.processors - used;

            let next = self
                .planned
                .iter()
                .map(|planned| planned.start)
                .fold(f64::INFINITY, f64::min);
            let round = self
                .running
                .iter()
                .map(|running| running.until)
                .fold(self.now, f64::max);
            let until = if next.is_finite() { next } else { round };
            if free == 0 || until <= self.now {
                return;
            }

            let mut who: Vec<usize> = self.planned.iter().map(|planned| planned.job).collect();
            who.extend(&self.waiting);
            who.retain(|job| self.jobs[*job].processors <= free && !self.past[*job].trying);
            self.largest_first(&mut who);

            if let Some(job) = who
                .iter()
                .copied()
                .find(|job| self.now + self.limit(*job) <= until)
            {
                self.planned.retain(|planned| planned.job != job);
                self.waiting.retain(|waiting| *waiting != job);
                self.run(job);
            } else if let Some(job) = self.speculate(&who, free, until - self.now) {
                self.waiting.retain(|waiting| *waiting != job);
                self.attempt(job, until);
            } else {
                return;
            }
        }
    }

    /// The job of `who` that is expected to use a gap best into which no request fits.
    fn speculate(&self, who: &[usize], free: u32, length: f64) -> Option<usize> {
        if self.backfill != Backfill::Speculative {
            return None;
        }

        let known = |job: &usize| Some((*job, self.jobs[*job].law.as_deref()?));
        let known: Vec<(usize, &TabulatedLaw)> = who.iter().filter_map(known).collect();
        let mut candidates: Vec<GapCandidate<'_, TabulatedLaw>> = Vec::with_capacity(known.len());

        for (job, law) in &known {
            candidates.push(GapCandidate {
                law,
                failed: self.past[*job].failed,
                processors: f64::from(self.jobs[*job].processors),
            });
        }

        let gap = ProcessorGap {
            length,
            processors: f64::from(free),
        };
        reservation::fill(gap, &candidates).map(|(at, _)| known[at].0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn job(processors: u32, run: f64, limits: &[f64]) -> BatchJob {
        let law = TabulatedLaw::new("uniform:0,10".parse().unwrap());
        BatchJob {
            submit: 0.0,
            processors,
            run,
            limits: Arc::from(limits),
            law: Some(Arc::new(law)),
        }
    }

    #[test]
    fn requests_are_planned_largest_first_and_stay_where_they_are() {
        // The wide one first, then both others side by side, though the wide one is done at 1.
        let jobs = [
            job(5, 3.0, &[6.0]),
            job(5, 2.0, &[4.0]),
            job(10, 1.0, &[5.0]),
        ];
        let outcome = rounds(&jobs, 10, Backfill::Nothing);
        assert_eq!(outcome.ends, [8.0, 7.0, 1.0]);
        assert!((outcome.utilisation(&jobs, 10) - 35.0 / 80.0).abs() < 1e-12);
    }

    #[test]
    fn a_killed_request_returns_after_the_round_with_a_longer_limit() {
        let jobs = [job(10, 5.0, &[4.0, 8.0]), job(10, 1.0, &[3.0])];
        let outcome = rounds(&jobs, 10, Backfill::Nothing);
        // Killed at 4; the other one from 4 to 5; then 5 more.
        assert_eq!(
            (outcome.ends.clone(), outcome.kills()),
            (vec![10.0, 5.0], 1)
        );
        // Beyond the last limit requests double: 2, 4, 8.
        let long = [job(1, 7.0, &[2.0])];
        assert_eq!(rounds(&long, 1, Backfill::Nothing).ends, [13.0]);
    }

    #[test]
    fn gaps_are_filled_with_requests_that_fit_and_speculatively_with_others() {
        // The wide one ends at 1 and leaves a gap until 6, in which 5 fit.
        let jobs = [job(10, 1.0, &[6.0]), job(10, 3.0, &[5.0])];
        assert_eq!(rounds(&jobs, 10, Backfill::Nothing).ends, [1.0, 9.0]);
        assert_eq!(rounds(&jobs, 10, Backfill::Fitting).ends, [1.0, 4.0]);

        // 5.5 do not fit; but 3 would.
        let jobs = [job(10, 1.0, &[6.0]), job(10, 3.0, &[5.5])];
        assert_eq!(rounds(&jobs, 10, Backfill::Fitting).ends, [1.0, 9.0]);
        assert_eq!(rounds(&jobs, 10, Backfill::Speculative).ends, [1.0, 4.0]);

        // A job whose speculative run failed keeps its place in the round.
        let jobs = [job(10, 1.0, &[6.0]), job(10, 5.25, &[5.5])];
        let outcome = rounds(&jobs, 10, Backfill::Speculative);
        assert_eq!(
            (outcome.ends.clone(), outcome.kills()),
            (vec![1.0, 11.25], 1)
        );
    }

    #[test]
    fn a_gap_ends_just_where_the_next_request_begins() {
        // 0.3 and what is left up to 0.9 are more than 0.9, as numbers are rounded.
        let early = 0.3;
        let next = 0.9;
        assert!(early + (next - early) > next);
        let jobs = [job(10, early, &[next]), job(10, next, &[next - 0.1, 9.0])];
        let outcome = rounds(&jobs, 10, Backfill::Speculative);
        assert_eq!(outcome.stays[1].to.to_bits(), next.to_bits());
        assert_eq!(outcome.kills(), 2);
    }

    #[test]
    fn an_arrival_waits_for_the_rounds_end_unless_a_gap_fits() {
        let late = BatchJob {
            submit: 2.0,
            ..job(4, 1.0, &[2.0])
        };
        let jobs = [job(8, 6.0, &[8.0]), late];
        assert_eq!(rounds(&jobs, 10, Backfill::Fitting).ends, [6.0, 7.0]);

        let narrow = BatchJob {
            processors: 2,
            ..jobs[1].clone()
        };
        assert_eq!(
            rounds(&[jobs[0].clone(), narrow], 10, Backfill::Fitting).ends,
            [6.0, 3.0]
        );

        let alone = [BatchJob {
            submit: 3.0,
            ..jobs[1].clone()
        }];
        assert_eq!(rounds(&alone, 10, Backfill::Nothing).ends, [4.0]);
    }
}
