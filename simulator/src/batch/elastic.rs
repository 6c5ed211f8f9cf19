//! First come, first served, for malleable jobs: the head of the queue asks the scheduler's rule
//! (`scheduler::policy::width`) whether to start or to hold out for more processors, and no job
//! passes it.

use std::collections::VecDeque;

use scheduler::malleable::{Bias, HostHolder, Lifetime, MachineState, Malleable, Pending};
use scheduler::policy::width::{Holdout, Width, WidthChoice, WidthQuestion};

/// A job that arrives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arrival {
    /// The time of submission, in seconds.
    pub submit_s: f64,
    /// The job itself.
    pub job: Malleable,
}

/// The sources for the times at which processors will be free.
#[derive(Clone, Copy)]
pub enum WaitSource<'a> {
    /// The predictors, with this law of lifetimes.
    Predicted(&'a (dyn Lifetime + Sync)),
    /// The truth, which only a simulator knows: no job passes the head, so it follows from the
    /// running jobs' ends.
    Known,
}

/// The rule under which the machine runs.
#[derive(Clone, Copy)]
pub struct Ruled<'a> {
    /// The rule for the number of processors that the head of the queue holds out for.
    pub width: Width,
    /// The source for the time at which they will be free.
    pub waits: WaitSource<'a>,
}

/// The stay of a job on its processors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ElasticStay {
    /// The place of the job among all.
    pub job: usize,
    /// The start of the stay, in seconds.
    pub from_s: f64,
    /// The end of the stay, in seconds.
    pub to_s: f64,
    /// The number of processors.
    pub hosts: u32,
    /// The number of free processors when the job first decided.
    pub offered: u32,
}

/// A prediction for which a job held out, with the outcome.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HoldOut {
    /// The corrected prediction, in seconds.
    pub expected_s: f64,
    /// The prediction before correction, in seconds.
    pub predicted_s: f64,
    /// The time after which so many processors were free, in seconds.
    pub came_s: f64,
}

/// The state of the machine at one time. [`Elastic::what_if`] works on a copy of it.
#[derive(Debug, Clone)]
pub struct Elastic<'a> {
    arrivals: &'a [Arrival],
    processors: u32,
    next: usize,
    now_s: f64,
    free: u32,
    queue: VecDeque<usize>,
    running: Vec<ElasticStay>,
    /// The number of free processors when the head first decided. `held` is what it holds out for,
    /// `pending` holds the predictions that are not yet judged.
    offered: Option<u32>,
    held: Option<Holdout>,
    pending: Pending,
}

impl<'a> Elastic<'a> {
    /// Creates an empty machine and the jobs that will come, in their order.
    pub fn new(arrivals: &'a [Arrival], processors: u32) -> Self {
        Elastic {
            arrivals,
            processors,
            next: 0,
            now_s: 0.0,
            free: processors,
            queue: VecDeque::new(),
            running: Vec::new(),
            offered: None,
            held: None,
            pending: Pending::default(),
        }
    }

    /// Runs until every job has started, and returns every stay, by its start. `bias` learns from
    /// predictions that can be judged. `deciding` sees the machine whenever a head is about to
    /// decide for the first time. `told` hears of every prediction for which a head held out, once
    /// for each number of processors.
    pub fn run(
        mut self,
        ruled: &Ruled<'_>,
        bias: &mut Bias,
        deciding: &mut dyn FnMut(&Elastic<'a>),
        told: &mut dyn FnMut(HoldOut),
    ) -> Vec<ElasticStay> {
        let mut kept = Vec::with_capacity(self.arrivals.len());
        while self.advance() {
            while self.free > 0 && !self.queue.is_empty() {
                if self.offered.is_none() {
                    self.offered = Some(self.free);
                    deciding(&self);
                }

                self.judge(bias);
                match self.choose(ruled, bias) {
                    Some(WidthChoice::Start(hosts)) => kept.extend(self.start(hosts)),
                    Some(WidthChoice::Hold(held)) => {
                        self.hold(held, told);
                        break;
                    }
                    None => break,
                }
            }
        }

        kept
    }

    /// The stay that the head, which is about to decide, would have if it alone followed this rule;
    /// `None` if it would never start.
    pub fn what_if(&self, ruled: &Ruled<'_>, bias: &Bias) -> Option<ElasticStay> {
        let mut fork = self.clone();
        let mut bias = *bias;
        loop {
            if fork.free > 0 {
                fork.judge(&mut bias);
                match fork.choose(ruled, &bias)? {
                    WidthChoice::Start(hosts) => return fork.start(hosts),
                    WidthChoice::Hold(held) => fork.hold(held, &mut |_| ()),
                }
            }
            if !fork.advance() {
                return None;
            }
        }
    }

    /// The job at the head of the queue, and the present time in seconds.
    pub fn head(&self) -> Option<(usize, f64)> {
        self.queue.front().map(|job| (*job, self.now_s))
    }

    /// The number of free processors.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Advances to the next event. Returns false once there is none.
    fn advance(&mut self) -> bool {
        let arrival_s = self
            .arrivals
            .get(self.next)
            .map_or(f64::INFINITY, |arrival| arrival.submit_s);
        let end_s = self
            .running
            .iter()
            .map(|kept| kept.to_s)
            .fold(f64::INFINITY, f64::min);
        let prompt_s = self.held.map_or(f64::INFINITY, |held| held.until_s);
        let next_s = arrival_s.min(end_s).min(prompt_s);
        if next_s.is_infinite() || (self.queue.is_empty() && arrival_s.is_infinite()) {
            return false;
        }

        self.now_s = self.now_s.max(next_s);
        let now_s = self.now_s;
        let freed: u32 = self
            .running
            .iter()
            .filter(|kept| kept.to_s <= now_s)
            .map(|kept| kept.hosts)
            .sum();

        self.running.retain(|kept| kept.to_s > now_s);
        self.free += freed;
        while self
            .arrivals
            .get(self.next)
            .is_some_and(|arrival| arrival.submit_s <= now_s)
        {
            self.queue.push_back(self.next);
            self.next += 1;
        }
        true
    }

    /// Lets `bias` learn from the predictions whose outcome is known now.
    fn judge(&mut self, bias: &mut Bias) {
        let came = self.pending.came(self.free, self.now_s);
        came.into_iter()
            .for_each(|(predicted_s, came_s)| bias.observe(predicted_s, came_s));
    }

    fn choose(&self, ruled: &Ruled<'_>, bias: &Bias) -> Option<WidthChoice> {
        let job = &self.arrivals[*self.queue.front()?].job;
        let asked = WidthQuestion {
            job,
            least: 1,
            most: job.most().min(self.processors),
            free: self.free,
            behind: self.queue.len() as u32 - 1,
            now_s: self.now_s,
            held: self.held,
            bias,
        };

        match ruled.waits {
            WaitSource::Known => ruled
                .width
                .choose(&asked, &|least, most| self.known_s(least, most)),
            WaitSource::Predicted(law) => {
                let units = self.running.iter();
                let units = units.map(|kept| HostHolder {
                    hosts: kept.hosts,
                    age_s: self.now_s - kept.from_s,
                    law,
                });
                let machine = MachineState::new(self.free, units.collect());
                ruled
                    .width
                    .choose(&asked, &|least, most| machine.waits_s(least, most))
            }
        }
    }

    /// The time in seconds until each number of processors from `least` to `most` is free, if the
    /// head waits for them.
    fn known_s(&self, least: u32, most: u32) -> Vec<Option<f64>> {
        let mut ends: Vec<&ElasticStay> = self.running.iter().collect();
        ends.sort_by(|a, b| a.to_s.total_cmp(&b.to_s).then(a.job.cmp(&b.job)));

        let mut ends = ends.into_iter();
        let mut free = self.free;
        let mut at_s = self.now_s;
        let mut one = |hosts: u32| {
            while free < hosts {
                let kept = ends.next()?;
                free += kept.hosts;
                at_s = kept.to_s;
            }
            Some(at_s - self.now_s)
        };
        (least..=most).map(&mut one).collect()
    }

    fn hold(&mut self, held: Holdout, told: &mut dyn FnMut(HoldOut)) {
        if self.pending.told(held.hosts, held.predicted_s, self.now_s)
            && let Some(came_s) = self
                .known_s(held.hosts, held.hosts)
                .first()
                .copied()
                .flatten()
        {
            told(HoldOut {
                expected_s: held.expected_s,
                predicted_s: held.predicted_s,
                came_s,
            });
        }

        self.held = Some(held);
    }

    fn start(&mut self, hosts: u32) -> Option<ElasticStay> {
        let job = self.queue.pop_front()?;
        let to_s = self.now_s + self.arrivals[job].job.run_s(hosts);
        let offered = self.offered.take().unwrap_or(self.free);
        let kept = ElasticStay {
            job,
            from_s: self.now_s,
            to_s,
            hosts,
            offered,
        };

        self.free -= hosts;
        self.running.push(kept);
        self.held = None;
        self.pending = Pending::default();
        Some(kept)
    }
}

#[cfg(test)]
mod tests {
    use scheduler::malleable::{Speedup, UniformLog};
    use scheduler::policy::width::Soonest;

    use super::*;

    fn arrival(submit_s: f64, work_s: f64, parallelism: f64) -> Arrival {
        let speedup = Speedup::new(parallelism, 0.0).unwrap();
        Arrival {
            submit_s,
            job: Malleable { work_s, speedup },
        }
    }

    fn stays(arrivals: &[Arrival], ruled: Ruled<'_>) -> Vec<(f64, f64, u32)> {
        let kept =
            Elastic::new(arrivals, 10).run(&ruled, &mut Bias::default(), &mut |_| (), &mut |_| ());
        kept.iter()
            .map(|kept| (kept.from_s, kept.to_s, kept.hosts))
            .collect()
    }

    const OPTIMAL: Ruled<'_> = Ruled {
        width: Width::Soonest(Soonest::PLAIN),
        waits: WaitSource::Known,
    };

    #[test]
    fn jobs_of_average_width_run_long_and_optimal_ones_wait() {
        // Eight processors are busy until 10; then 100 s of work for ten.
        let jobs = [arrival(0.0, 80.0, 8.0), arrival(1.0, 100.0, 10.0)];
        let taken = stays(
            &jobs,
            Ruled {
                width: Width::Average,
                ..OPTIMAL
            },
        );
        assert_eq!(taken, [(0.0, 10.0, 8), (1.0, 51.0, 2)]);
        assert_eq!(stays(&jobs, OPTIMAL), [(0.0, 10.0, 8), (10.0, 20.0, 10)]);

        // Predictions that are much too long keep it from waiting.
        let law = UniformLog::between(7.0, 14.0).unwrap();
        assert_eq!(
            stays(
                &jobs,
                Ruled {
                    waits: WaitSource::Predicted(&law),
                    ..OPTIMAL
                }
            ),
            taken
        );
    }

    #[test]
    fn a_patient_job_waits_for_a_part_of_the_expected_gain() {
        let jobs = [arrival(0.0, 800.0, 8.0), arrival(1.0, 100.0, 10.0)];
        let patient = Ruled {
            width: Width::Patient { k: 0.2 },
            ..OPTIMAL
        };
        // 50 s or 10 s: it waits for 8 s, in vain.
        assert_eq!(stays(&jobs, patient)[1], (9.0, 59.0, 2));
    }

    #[test]
    fn no_job_passes_the_head_of_the_queue() {
        let jobs = [
            arrival(0.0, 80.0, 8.0),
            arrival(1.0, 100.0, 10.0),
            arrival(2.0, 1.0, 1.0),
        ];
        assert_eq!(stays(&jobs, OPTIMAL)[2], (20.0, 21.0, 1));

        // Unless its waiting is priced: then the head does not wait.
        let priced = Width::Soonest(Soonest {
            price: 10.0,
            ..Soonest::PLAIN
        });
        let jobs = [
            jobs[0],
            Arrival {
                submit_s: 0.5,
                ..jobs[1]
            },
            Arrival {
                submit_s: 0.5,
                ..jobs[2]
            },
        ];
        assert_eq!(
            stays(
                &jobs,
                Ruled {
                    width: priced,
                    ..OPTIMAL
                }
            )[1]
            .0,
            0.5
        );
    }

    #[test]
    fn a_hypothetical_question_changes_nothing() {
        let jobs = [arrival(0.0, 80.0, 8.0), arrival(1.0, 100.0, 10.0)];
        let mut seen = Vec::new();
        let average = Ruled {
            width: Width::Average,
            ..OPTIMAL
        };
        let mut look = |world: &Elastic<'_>| seen.extend(world.what_if(&OPTIMAL, &Bias::default()));
        let kept =
            Elastic::new(&jobs, 10).run(&average, &mut Bias::default(), &mut look, &mut |_| ());
        assert_eq!((seen[1].from_s, seen[1].to_s), (10.0, 20.0));
        assert_eq!((kept[1].from_s, kept[1].to_s), (1.0, 51.0));
    }
}
