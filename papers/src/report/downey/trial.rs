//! The paper's workload, the rules that are compared on it, and the measurements of each. The
//! machine lives in `batch`, the rules in `scheduler::policy::width`.

use scheduler::malleable::{Bias, Malleable, Speedup, UniformLog};
use scheduler::policy::width::{Soonest, Width};

use simulator::availability::stream::RandomStream;
use simulator::batch::{Arrival, Elastic, ElasticStay, HoldOut, Ruled, WaitSource};

/// The number of processors of the paper's machine, and the part of it that the work of a day's
/// first half would take if all speedups were linear.
pub(super) const PROCESSORS: u32 = 128;
pub(super) const LOAD: f64 = 0.75;
/// The length of the first half of a day, in which jobs arrive, in seconds.
const DAYTIME_S: f64 = 43_200.0;
/// The natural logarithms of the least and the largest work, in seconds, and of the largest average
/// parallelism; the largest sigma.
pub(super) const LN_WORK: (f64, f64) = (2.0, 12.0);
const SIGMA_MOST: f64 = 2.0;

/// The mean work of a job, in seconds.
fn mean_work_s() -> f64 {
    (LN_WORK.1.exp() - LN_WORK.0.exp()) / (LN_WORK.1 - LN_WORK.0)
}

/// Draws the jobs of `days` days, each of which begins with an empty machine (sections 2.2 and 4).
pub(super) fn workload(seed: u64, days: u32) -> Vec<Vec<Arrival>> {
    let rate = LOAD * f64::from(PROCESSORS) / mean_work_s();
    let day = |day: u32| {
        let mut stream = RandomStream::new("downey-workload", seed, day, 0);
        let mut jobs = Vec::new();
        let mut submit_s = 0.0;

        loop {
            submit_s -= stream.unit().ln() / rate;
            if submit_s > DAYTIME_S {
                return jobs;
            }
            let work_s = stream.between(LN_WORK.0, LN_WORK.1).exp();
            let parallelism = (f64::from(PROCESSORS).ln() * stream.unit()).exp().ceil();
            let sigma = stream.between(0.0, SIGMA_MOST);
            let speedup = Speedup::new(parallelism, sigma);
            jobs.extend(speedup.map(|speedup| Arrival {
                submit_s,
                job: Malleable { work_s, speedup },
            }));
        }
    };
    (0..days).map(day).collect()
}

/// A rule with its name in the report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NamedRule {
    pub(super) label: &'static str,
    /// The rule's name in the scheduler's catalogue.
    pub(super) policy: &'static str,
    /// Whether it knows the true times at which processors become free, where others predict them.
    pub(super) knows: bool,
}

const fn row(label: &'static str, policy: &'static str) -> NamedRule {
    NamedRule {
        label,
        policy,
        knows: false,
    }
}

pub(super) const AVG: NamedRule = row("AVG", "AVG");
pub(super) const OPT: NamedRule = NamedRule {
    label: "OPT",
    policy: "PRED",
    knows: true,
};
pub(super) const PRED: NamedRule = row("PRED", "PRED");
pub(super) const BIAS: NamedRule = row("BIAS", "BIAS-PAPER");
/// The name of BIAS corrected by the fit of its own predictions.
pub(super) const SELF_FITTED: &str = "BIAS, self-fitted";
pub(super) const HEUR: NamedRule = row("HEUR", "HEUR");
pub(super) const OURS: NamedRule = row("PRICED", "PRICED");

/// The rules that are asked what they would do for single jobs (Table 1).
pub(super) const ASKED: [NamedRule; 5] = [OPT, PRED, BIAS, HEUR, OURS];

/// The rules that all jobs follow (Table 2); the first one is the reference.
pub(super) const FOLLOWED: [NamedRule; 14] = [
    AVG,
    OPT,
    PRED,
    BIAS,
    row("BIAS, lock-in", "BIAS-PAPER:lock=yes"),
    row("BIAS, lock-in, risk 20 %", "BIAS-PAPER:lock=yes:risk=0.2"),
    HEUR,
    row(SELF_FITTED, "BIAS"),
    row("BIAS, self-fitted, lock-in", "BIAS-LOCK"),
    row("BIAS, self-fitted, lock-in, risk 20 %", "BIAS-LOCK-RISK"),
    row("price 0.1", "PRICED:price=0.1"),
    row("price 0.3", "PRICED:price=0.3"),
    OURS,
    row("price 3", "PRICED:price=3"),
];

impl NamedRule {
    fn ruled<'a>(&self, law: &'a UniformLog) -> Ruled<'a> {
        let row = scheduler::policy::parse(self.policy);
        let width = row.map_or(Width::Soonest(Soonest::PLAIN), |row| row.width);
        Ruled {
            width,
            waits: if self.knows {
                WaitSource::Known
            } else {
                WaitSource::Predicted(law)
            },
        }
    }
}

/// The results of [`system`], with one rule that all jobs follow.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct System {
    pub(super) jobs: usize,
    /// The mean time from submission to end, in seconds.
    pub(super) turnaround_s: f64,
    /// The mean efficiency over time and processors, until the queue of a day is empty.
    pub(super) utilisation: f64,
    /// The predictions for which jobs held out, with their outcomes.
    pub(super) told: Vec<HoldOut>,
    /// The intercept and slope that were learned by the end.
    pub(super) line: (f64, f64),
}

/// The jobs of a draw as they ran, for figures.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct SeenJobs {
    /// The processors, time in seconds, work in seconds, and average parallelism of each job.
    pub(super) jobs: Vec<(u32, f64, f64, f64)>,
    /// The number of jobs that had as many processors as they could use when they were first
    /// offered some.
    pub(super) spoiled: usize,
}

/// The results of [`baseline`], for one draw of the workload.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Baseline {
    pub(super) seen: SeenJobs,
    /// The saving of each single job that would hold out while all others follow AVG, in seconds, by
    /// the rules in [`ASKED`], in the same order.
    pub(super) savings_s: Vec<Vec<f64>>,
}

/// Runs AVG, and asks the other rules what they would do for single jobs under it.
pub(super) fn baseline(days: &[Vec<Arrival>]) -> Baseline {
    let law = UniformLog::PATIENT;
    let mut found = Baseline {
        savings_s: vec![Vec::new(); ASKED.len()],
        ..Baseline::default()
    };
    let none = Bias::default();

    for arrivals in days {
        let savings_s = &mut found.savings_s;
        let mut deciding = |world: &Elastic<'_>| {
            let Some((job, now_s)) = world.head() else {
                return;
            };
            let job = &arrivals[job].job;
            if world.free() >= job.most().min(PROCESSORS) {
                return;
            }

            let docile_s = job.run_s(world.free());
            for (contender, savings_s) in ASKED.iter().zip(savings_s.iter_mut()) {
                let stay = world.what_if(&contender.ruled(&law), &none);
                let held = stay.filter(|stay| stay.from_s > now_s);
                savings_s.extend(held.map(|stay| docile_s - (stay.to_s - now_s)));
            }
        };

        let kept = Elastic::new(arrivals, PROCESSORS).run(
            &AVG.ruled(&law),
            &mut Bias::default(),
            &mut deciding,
            &mut |_| (),
        );
        for stay in kept {
            let job = &arrivals[stay.job].job;
            found.seen.spoiled += usize::from(stay.offered >= job.most().min(PROCESSORS));
            found.seen.jobs.push((
                stay.hosts,
                stay.to_s - stay.from_s,
                job.work_s,
                job.speedup.parallelism(),
            ));
        }
    }

    found
}

/// Runs a system in which all jobs follow one rule. The corrections it learns are kept from day to
/// day.
pub(super) fn system(days: &[Vec<Arrival>], contender: &NamedRule) -> System {
    let law = UniformLog::PATIENT;
    let ruled = contender.ruled(&law);
    let mut bias = Bias::default();
    let mut told = Vec::new();
    let mut jobs = 0;
    let mut turnaround_s = 0.0;
    let mut useful_s = 0.0;
    let mut whole_s = 0.0;

    for arrivals in days {
        let kept =
            Elastic::new(arrivals, PROCESSORS)
                .run(&ruled, &mut bias, &mut |_| (), &mut |one| told.push(one));

        // The end of `DAYTIME_S`, or the start of the last job if that is later.
        let until_s = kept
            .iter()
            .map(|stay| stay.from_s)
            .fold(DAYTIME_S, f64::max);
        whole_s += f64::from(PROCESSORS) * until_s;
        for ElasticStay {
            job,
            from_s,
            to_s,
            hosts,
            ..
        } in kept
        {
            turnaround_s += to_s - arrivals[job].submit_s;
            useful_s += arrivals[job].job.speedup.on(hosts) * (to_s.min(until_s) - from_s);
            jobs += 1;
        }
    }

    let turnaround_s = turnaround_s / jobs as f64;
    System {
        jobs,
        turnaround_s,
        utilisation: useful_s / whole_s,
        told,
        line: bias.line(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workload_has_the_papers_load() {
        let days = workload(1, 40);
        let jobs: usize = days.iter().map(Vec::len).sum();
        // 255 on a day.
        assert!((jobs as f64 / 40.0 - 255.0).abs() < 12.0, "{jobs}");
        let works = || days.iter().flatten().map(|arrival| arrival.job.work_s);
        assert!(works().all(|work_s| (LN_WORK.0.exp()..LN_WORK.1.exp()).contains(&work_s)));
        let mean_s = works().sum::<f64>() / jobs as f64;
        assert!((mean_s / mean_work_s() - 1.0).abs() < 0.1, "{mean_s}");
        assert_eq!(days, workload(1, 40));
        assert_ne!(days, workload(2, 40));
    }

    #[test]
    fn every_row_exists_and_jobs_are_done_under_each() {
        let days = workload(3, 1);
        for contender in FOLLOWED {
            assert!(
                scheduler::policy::parse(contender.policy).is_ok(),
                "{}",
                contender.policy
            );
            let found = system(&days, &contender);
            assert_eq!(found.jobs, days[0].len(), "{}", contender.label);
            assert!(
                (0.2..1.0).contains(&found.utilisation),
                "{}: {found:?}",
                contender.label
            );
        }
    }

    #[test]
    fn no_job_with_perfect_knowledge_loses_by_waiting() {
        let found = baseline(&workload(4, 6));
        assert!(found.savings_s[0].len() > 50 && found.savings_s[0].iter().all(|s| *s > 0.0));

        // Patience often does not pay.
        let lost = found.savings_s[3].iter().filter(|s| **s < 0.0).count();
        assert!(lost * 2 > found.savings_s[3].len());
        assert!(found.seen.spoiled * 2 > found.seen.jobs.len());
    }
}
