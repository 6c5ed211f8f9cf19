//! Jobs with random run times, and the ways in which users request time for them ([`RequestRule`]). The
//! jobs of a run are the same for every way of asking. The machine lives in `batch`.

use std::sync::Arc;

use scheduler::reservation::{
    LearnedLaw, NamedLaw, ObservedRun, RunTimeGrid, RunTimes, optimal, time_optimal,
};

use super::stats::half_width;
use super::threads::in_parallel;
use crate::availability::stream::RandomStream;
use crate::batch::{BatchJob, TabulatedLaw};

/// Points of the grid for sequences without small work (as of the paper's Table 1).
pub const TIME_POINTS: usize = 200;
/// Points of the grid for sequences with small work (as of the paper's Table 1).
pub const ADAPTIVE_POINTS: usize = 46;

/// The ways in which a user chooses the requested time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RequestRule {
    /// The longest possible time: classical HPC.
    Longest,
    /// The longest of this many random past runs, and after that the longest possible time:
    /// Neuroscience.
    Recent(u32),
    /// The sequence of TOptimal for the true law.
    TimeOptimal,
    /// The sequence of ATOptimal for the true law, with this rate of small work per processor.
    Adaptive(f64),
    /// The sequence of TOptimal for a law learned from this many runs.
    Learned(u32),
}

/// The distributions of the jobs' numbers of processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WidthLaw {
    /// All processors.
    Full,
    /// Half of the processors.
    Half,
    /// Normal around the half, cut to the machine.
    Normal,
    /// Beta(2, 2) over all processors.
    Beta,
}

/// A number of jobs of the same kind.
#[derive(Debug, Clone)]
pub struct JobGroup {
    /// The law of their run times.
    pub law: Arc<TabulatedLaw>,
    /// The distribution of their numbers of processors.
    pub widths: WidthLaw,
    /// The number of jobs.
    pub count: usize,
}

impl JobGroup {
    /// Creates `count` jobs of this law.
    pub fn new(law: NamedLaw, widths: WidthLaw, count: usize) -> Self {
        JobGroup {
            law: Arc::new(TabulatedLaw::new(law)),
            widths,
            count,
        }
    }
}

/// Jobs of some kinds on a machine, drawn anew for each run.
#[derive(Debug, Clone)]
pub struct JobDraw<'a> {
    /// The kinds of jobs.
    pub kinds: &'a [JobGroup],
    /// The machine's processors.
    pub processors: u32,
    /// The length of the interval in which they are submitted, at random times; 0 if all come at
    /// once.
    pub within: f64,
    /// The seed of everything random.
    pub seed: u64,
}

/// The requests of a kind's jobs, computed once for all of them.
enum Requests {
    Same(Arc<[f64]>),
    Recent(u32),
    Learned(u32),
}

impl Requests {
    fn of(asking: RequestRule, law: &NamedLaw) -> Self {
        let longest = law.support().1;
        let sequence =
            |points, zeta| Arc::from(optimal(&RunTimeGrid::of(law, points), zeta).limits);
        match asking {
            RequestRule::Longest => Requests::Same(Arc::from([longest])),
            RequestRule::TimeOptimal => Requests::Same(sequence(TIME_POINTS, 0.0)),
            RequestRule::Adaptive(zeta) => Requests::Same(sequence(ADAPTIVE_POINTS, zeta)),
            RequestRule::Recent(runs) => Requests::Recent(runs),
            RequestRule::Learned(runs) => Requests::Learned(runs),
        }
    }

    fn limits(&self, law: &NamedLaw, stream: &mut RandomStream) -> Arc<[f64]> {
        let longest = law.support().1;
        match self {
            Requests::Same(limits) => limits.clone(),
            Requests::Recent(runs) => {
                let recent = (0..*runs)
                    .map(|_| law.quantile(stream.unit()))
                    .fold(0.0, f64::max);
                Arc::from([recent, longest])
            }
            Requests::Learned(runs) => Arc::from(learned(law, *runs, stream)),
        }
    }
}

/// The sequence of requests that `runs` random runs of this law teach.
pub fn learned(law: &NamedLaw, runs: u32, stream: &mut RandomStream) -> Vec<f64> {
    let seen: Vec<ObservedRun> = (0..runs)
        .map(|_| ObservedRun::done(law.quantile(stream.unit())))
        .collect();
    let sequence = LearnedLaw::expected(&seen)
        .map(|learned| time_optimal(&RunTimeGrid::of(&learned, TIME_POINTS)));
    sequence.map_or_else(|| vec![law.support().1], |sequence| sequence.limits)
}

impl JobDraw<'_> {
    /// The jobs of a run, with requests chosen by `asking`. Run times, widths and times of
    /// submission do not depend on that.
    pub fn jobs(&self, asking: RequestRule, run: usize) -> Vec<BatchJob> {
        let run = u32::try_from(run).unwrap_or(u32::MAX);
        let mut jobs = Vec::new();
        for JobGroup { law, widths, count } in self.kinds {
            let requests = Requests::of(asking, law.law());
            for _ in 0..*count {
                let mut stream = RandomStream::new("batch job", self.seed, run, jobs.len());
                let time = law.quantile(stream.unit());
                let processors = self.width(*widths, &mut stream);
                let submit = self.within * stream.unit();
                let mut past = RandomStream::new("batch past", self.seed, run, jobs.len());
                let limits = requests.limits(law.law(), &mut past);
                jobs.push(BatchJob {
                    submit,
                    processors,
                    run: time,
                    limits,
                    law: Some(law.clone()),
                });
            }
        }

        jobs
    }

    fn width(&self, widths: WidthLaw, stream: &mut RandomStream) -> u32 {
        let all = f64::from(self.processors);
        let share = stream.unit();
        let of = |name: &str| {
            name.parse::<NamedLaw>()
                .map_or(0.5, |law| law.quantile(share))
        };
        let part = match widths {
            WidthLaw::Full => 1.0,
            WidthLaw::Half => 0.5,
            WidthLaw::Normal => of("truncnorm:0,1,0.5,0.3"),
            WidthLaw::Beta => of("beta:0,1,2,2"),
        };
        (part * all).round().clamp(1.0, all) as u32
    }
}

/// Calls `work` with the number of each run, on several threads, and returns the results in order.
pub fn each_run<T: Send>(threads: usize, runs: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    in_parallel(threads, &(0..runs).collect::<Vec<_>>(), |run| work(*run))
}

/// A mean over runs with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunMean {
    /// The mean.
    pub value: f64,
    /// Half of the width of the 95 % interval; `None` of one run.
    pub half: Option<f64>,
}

impl RunMean {
    /// Computes the mean of these values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().collect();
        RunMean {
            value: values.iter().sum::<f64>() / values.len() as f64,
            half: half_width(values),
        }
    }

    /// Formats the mean, and its interval if there is one, with so many decimals.
    pub fn text(self, decimals: usize) -> String {
        let value = self.value;
        let half = self.half.map(|half| format!(" ± {half:.decimals$}"));
        format!("{value:.decimals$}{}", half.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_of_asking_does_not_change_the_drawn_jobs() {
        let kinds = [JobGroup::new(
            "exponential:0,16,1".parse().unwrap(),
            WidthLaw::Beta,
            5,
        )];
        let draw = JobDraw {
            kinds: &kinds,
            processors: 100,
            within: 10.0,
            seed: 3,
        };
        let bare = |asking| -> Vec<(f64, u32, f64)> {
            draw.jobs(asking, 1)
                .iter()
                .map(|job| (job.submit, job.processors, job.run))
                .collect()
        };
        assert_eq!(bare(RequestRule::Longest), bare(RequestRule::Recent(10)));
        assert_eq!(bare(RequestRule::Longest), bare(RequestRule::TimeOptimal));

        let limits = |asking| {
            draw.jobs(asking, 1)
                .into_iter()
                .map(|job| job.limits.to_vec())
                .collect::<Vec<_>>()
        };
        assert!(
            limits(RequestRule::Longest)
                .iter()
                .all(|limits| *limits == [16.0])
        );
        assert!(
            limits(RequestRule::Recent(10))
                .iter()
                .all(|limits| limits.len() == 2 && limits[0] < limits[1])
        );
    }
}
