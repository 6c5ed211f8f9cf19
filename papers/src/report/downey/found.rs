//! The numbers behind the report: every draw of the workload under every rule ([`DrawResults`]).

use std::fmt::Write;

use scheduler::malleable::Accuracy;

use super::Study;
use super::trial::{
    ASKED, Baseline, FOLLOWED, NamedRule, SeenJobs, System, baseline, system, workload,
};
use crate::report::Spread;
use simulator::batch::{ForetoldLog, HoldOut};
use simulator::experiment::in_parallel;
use simulator::figure::number;

/// A row of Table 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table1Row {
    pub(super) label: &'static str,
    /// The part of all jobs that would hold out.
    pub(super) rebels: Spread,
    /// The mean time that this saves over all jobs, in minutes.
    pub(super) minutes: Spread,
    /// The part of the jobs that hold out that lose by it.
    pub(super) lose: Spread,
    /// The median (`median_s`) and mean time that the jobs that hold out save, in seconds.
    pub(super) median_s: Spread,
    pub(super) mean_s: Spread,
}

/// A row of Table 2.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Followed {
    pub(super) label: &'static str,
    pub(super) policy: &'static str,
    /// The mean turnaround, in seconds.
    pub(super) turnaround_s: Spread,
    /// The changes of turnaround (`slower`) and utilisation against AVG on the same draw, as parts.
    pub(super) slower: Spread,
    pub(super) utilised: Spread,
    /// Utilisation itself.
    pub(super) utilisation: Spread,
    /// The accuracy of the predictions for which jobs held out: slope, intercept and correlation on
    /// logarithmic scales.
    pub(super) trend: Option<[Spread; 3]>,
    /// The slope and intercept that were learned.
    pub(super) learned: [Spread; 2],
}

/// The results of all draws.
pub(super) struct DrawResults {
    pub(super) asked: Vec<Table1Row>,
    pub(super) followed: Vec<Followed>,
    pub(super) jobs: usize,
    /// The part of jobs under AVG that had all the processors they could use; then the median and
    /// mean run time, in seconds.
    pub(super) spoiled: Spread,
    pub(super) median_s: Spread,
    pub(super) mean_s: Spread,
    /// The first draw under AVG, for figures. The predictions of PRED and self-fitted BIAS on it
    /// follow.
    pub(super) seen: SeenJobs,
    pub(super) scatter: [Vec<HoldOut>; 2],
    pub(super) real: Option<ForetoldLog>,
    /// The numbers of each draw: seed, rule, turnaround in seconds, utilisation.
    rows: Vec<(u64, &'static str, f64, f64)>,
}

/// The indices in [`FOLLOWED`] of the rules whose predictions are drawn.
const SCATTERED: [usize; 2] = [2, 7];

enum Done {
    Baseline(Baseline),
    System(System),
}

impl DrawResults {
    pub(super) fn new(study: &Study, real: Option<ForetoldLog>, say: &mut dyn FnMut(&str)) -> Self {
        say(&format!(
            "{} rules; draws of {} days each: {}",
            FOLLOWED.len(),
            study.days,
            study.runs
        ));

        let seeds: Vec<u64> = (0..u64::from(study.runs.max(1)))
            .map(|run| study.seed.wrapping_add(run))
            .collect();
        let days: Vec<_> = seeds
            .iter()
            .map(|seed| workload(*seed, study.days))
            .collect();
        let mut work: Vec<(usize, Option<&NamedRule>)> =
            (0..seeds.len()).map(|seed| (seed, None)).collect();
        work.extend(
            (0..seeds.len()).flat_map(|seed| FOLLOWED.iter().map(move |rule| (seed, Some(rule)))),
        );

        let done = in_parallel(study.threads, &work, |(seed, rule)| match rule {
            None => Done::Baseline(baseline(&days[*seed])),
            Some(rule) => Done::System(system(&days[*seed], rule)),
        });
        let mut baselines = Vec::new();
        let mut systems = Vec::new();

        for one in done {
            match one {
                Done::Baseline(one) => baselines.push(one),
                Done::System(one) => systems.push(one),
            }
        }

        Self::of(&seeds, baselines, &systems, real)
    }

    fn of(
        seeds: &[u64],
        mut baselines: Vec<Baseline>,
        systems: &[System],
        real: Option<ForetoldLog>,
    ) -> Self {
        let by_draw: Vec<&[System]> = systems.chunks(FOLLOWED.len()).collect();
        let rows = seeds.iter().zip(&by_draw).flat_map(|(seed, systems)| {
            FOLLOWED
                .iter()
                .zip(*systems)
                .map(|(rule, s)| (*seed, rule.label, s.turnaround_s, s.utilisation))
        });

        let runs_s = |seen: &SeenJobs| {
            let mut all: Vec<f64> = seen.jobs.iter().map(|job| job.1).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let spoiled = |one: &Baseline| one.seen.spoiled as f64 / one.seen.jobs.len() as f64;

        DrawResults {
            asked: (0..ASKED.len()).map(|at| asked(at, &baselines)).collect(),
            followed: (0..FOLLOWED.len())
                .map(|at| followed(at, &by_draw))
                .collect(),
            jobs: systems.first().map_or(0, |one| one.jobs),
            spoiled: Spread::of(baselines.iter().map(spoiled)),
            median_s: Spread::of(baselines.iter().map(|one| median(&runs_s(&one.seen)))),
            mean_s: Spread::of(baselines.iter().map(|one| mean(&runs_s(&one.seen)))),
            scatter: SCATTERED.map(|at| {
                by_draw
                    .first()
                    .map_or(Vec::new(), |systems| systems[at].told.clone())
            }),
            rows: rows.collect(),
            seen: baselines
                .first_mut()
                .map(|one| std::mem::take(&mut one.seen))
                .unwrap_or_default(),
            real,
        }
    }

    /// Looks up a row of Table 1.
    pub(super) fn asked(&self, label: &str) -> Option<&Table1Row> {
        self.asked.iter().find(|line| line.label == label)
    }

    /// Looks up a row of Table 2.
    pub(super) fn followed(&self, label: &str) -> Option<&Followed> {
        self.followed.iter().find(|line| line.label == label)
    }

    /// The CSV of each draw's numbers.
    pub(super) fn csv(&self) -> String {
        let mut out = String::from("seed,rule,turnaround_s,utilisation\n");
        for (seed, label, turnaround_s, utilisation) in &self.rows {
            let label = simulator::figure::field(label);
            let _ = writeln!(
                out,
                "{seed},{label},{},{}",
                number(*turnaround_s),
                number(*utilisation)
            );
        }
        out
    }
}

fn asked(at: usize, baselines: &[Baseline]) -> Table1Row {
    let over = |of: &dyn Fn(&[f64], f64) -> f64| {
        Spread::of(baselines.iter().map(|one| {
            let mut savings_s = one.savings_s[at].clone();
            savings_s.sort_by(f64::total_cmp);
            of(&savings_s, one.seen.jobs.len() as f64)
        }))
    };
    Table1Row {
        label: ASKED[at].label,
        rebels: over(&|savings_s, jobs| savings_s.len() as f64 / jobs),
        minutes: over(&|savings_s, jobs| savings_s.iter().sum::<f64>() / 60.0 / jobs),
        lose: over(&|savings_s, _| {
            savings_s.partition_point(|saving_s| *saving_s < 0.0) as f64
                / (savings_s.len() as f64).max(1.0)
        }),
        median_s: over(&|savings_s, _| median(savings_s)),
        mean_s: over(&|savings_s, _| mean(savings_s)),
    }
}

fn followed(at: usize, by_draw: &[&[System]]) -> Followed {
    let over = |of: &dyn Fn(&System, &System) -> f64| {
        Spread::of(by_draw.iter().map(|systems| of(&systems[at], &systems[0])))
    };
    let trends: Vec<Accuracy> = by_draw
        .iter()
        .filter_map(|systems| accuracy(&systems[at].told))
        .collect();
    let trend = |of: fn(&Accuracy) -> f64| Spread::of(trends.iter().map(of));

    Followed {
        label: FOLLOWED[at].label,
        policy: FOLLOWED[at].policy,
        turnaround_s: over(&|own, _| own.turnaround_s),
        slower: over(&|own, avg| own.turnaround_s / avg.turnaround_s - 1.0),
        utilised: over(&|own, avg| own.utilisation / avg.utilisation - 1.0),
        utilisation: over(&|own, _| own.utilisation),
        trend: (!trends.is_empty()).then(|| {
            [
                trend(|one| one.slope),
                trend(|one| one.intercept),
                trend(|one| one.correlation),
            ]
        }),
        learned: [over(&|own, _| own.line.1), over(&|own, _| own.line.0)],
    }
}

fn accuracy(told: &[HoldOut]) -> Option<Accuracy> {
    let pairs: Vec<(f64, f64)> = told
        .iter()
        .map(|one| (one.expected_s, one.came_s))
        .collect();
    Accuracy::of(&pairs)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / (values.len() as f64).max(1.0)
}

fn median(sorted: &[f64]) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    (sorted[last / 2] + sorted[last.div_ceil(2)]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::super::trial::{PRED, SELF_FITTED};
    use super::*;

    #[test]
    fn plotted_predictions_belong_to_their_rules() {
        assert_eq!(
            SCATTERED.map(|at| FOLLOWED[at].label),
            [PRED.label, SELF_FITTED]
        );
    }

    #[test]
    fn a_spread_is_a_mean_and_a_deviation() {
        let found = Spread::of([1.0, 2.0, 3.0]);
        assert_eq!((found.mean, found.sd), (2.0, 1.0));
        assert_eq!(Spread::of([4.0]).sd, 0.0);
    }
}
