//! Waits of a real log, predicted when each job was submitted from what was known then: the
//! scheduler's predictor (`scheduler::malleable`) beside an average of the last waits and one of
//! all.

use std::collections::{BTreeMap, VecDeque};

use scheduler::malleable::{
    Accuracy, HostHolder, LearnedLives, Lives, Margin, WaitingJob, Within, starts_s,
};
use scheduler::reservation::ObservedRun;

use super::swf::{SwfJob, SwfLog};

/// The number of waits in the simplest average.
const LAST: usize = 10;
/// The share of the waits that prediction intervals are to contain.
pub const HELD: f64 = 0.8;
/// The number of further runs after which the laws of all programs together are computed anew.
const FRESH: u64 = 50;
/// The largest number of waiting jobs whose ends a prediction considers; of those beyond, only the
/// processors count.
const QUEUE: usize = 64;

/// The quality of one way to predict.
#[derive(Debug, Clone, PartialEq)]
pub struct MethodQuality {
    /// The name: "deskgrid", "last 10 waits" or "all waits".
    pub name: &'static str,
    /// The accuracy of the corrected prediction.
    pub accuracy: Accuracy,
    /// The mean absolute error, in seconds.
    pub mean_error_s: f64,
    /// The share of waits within its intervals of [`HELD`].
    pub coverage: f64,
    /// The median width of these intervals, in seconds.
    pub median_width_s: f64,
    /// The pairs of predicted and true wait, in seconds.
    pub pairs: Vec<(f64, f64)>,
}

impl MethodQuality {
    /// Computes the quality from `pairs` of predicted and true waits, of which `held` lay within
    /// intervals of widths `widths_s`; all in seconds. `None` without pairs.
    pub fn of(
        name: &'static str,
        pairs: Vec<(f64, f64)>,
        held: usize,
        mut widths_s: Vec<f64>,
    ) -> Option<Self> {
        let accuracy = Accuracy::of(&pairs)?;
        widths_s.sort_by(f64::total_cmp);

        Some(Self {
            name,
            accuracy,
            mean_error_s: mean(
                pairs
                    .iter()
                    .map(|(predicted, came)| (came - predicted).abs()),
            ),
            coverage: held as f64 / pairs.len() as f64,
            median_width_s: widths_s.get(widths_s.len() / 2).copied().unwrap_or(0.0),
            pairs,
        })
    }
}

/// The results of [`foretell`] for a log.
#[derive(Debug, Clone, PartialEq)]
pub struct ForetoldLog {
    /// The number of jobs that only taught.
    pub taught: usize,
    /// The number of jobs that were judged after them.
    pub judged: usize,
    /// The machine's processors.
    pub processors: u32,
    /// The number of jobs that were left out because they are wider than the machine.
    pub left_out: usize,
    /// The predictor, the average of the last waits, and the average of all.
    pub ways: Vec<MethodQuality>,
}

/// A job of the log.
#[derive(Debug, Clone, Copy)]
struct LoggedJob {
    submit_s: f64,
    start_s: f64,
    end_s: f64,
    hosts: u32,
    limit_s: f64,
    user: u64,
}

impl LoggedJob {
    fn of(record: &SwfJob, processors: u32) -> Option<Self> {
        let wait_s = record.wait_s?;
        let run_s = record.run_s.filter(|run_s| *run_s > 0.0)?;
        let hosts = record
            .held()
            .filter(|hosts| (1..=processors).contains(hosts))?;
        let start_s = record.submit_s + wait_s;
        let limit_s = record
            .requested_s
            .filter(|limit_s| *limit_s > 0.0)
            .unwrap_or(f64::INFINITY);

        Some(LoggedJob {
            submit_s: record.submit_s,
            start_s,
            end_s: start_s + run_s,
            hosts,
            limit_s,
            user: record.user.unwrap_or(u64::MAX),
        })
    }
}

/// Predicts every wait of a log, in its order, from what had ended by then. The first half of the
/// jobs only teaches, the second half is judged.
pub fn foretell(log: &SwfLog) -> ForetoldLog {
    let processors = log.machine();
    let fitting = |processors| {
        let records = log.records.iter();
        records.filter_map(move |record| LoggedJob::of(record, processors))
    };
    let mut jobs: Vec<LoggedJob> = fitting(processors).collect();
    let left_out = fitting(u32::MAX).count() - jobs.len();
    jobs.sort_by(|a, b| a.submit_s.total_cmp(&b.submit_s));

    let mut known = KnownNow::new(&jobs, processors);
    let mut ways = ["deskgrid", "last 10 waits", "all waits"].map(LearningPredictor::new);
    let taught = jobs.len() / 2;

    for (number, job) in jobs.iter().enumerate() {
        known.until(job.submit_s, &mut ways);
        let raw_s = [
            known.predicted_s(number),
            mean(known.last.iter().copied()),
            known.sum_s / known.count.max(1.0),
        ];
        for (way, raw_s) in ways.iter_mut().zip(raw_s) {
            way.predict(
                number,
                raw_s,
                (number >= taught).then_some(job.start_s - job.submit_s),
            );
        }

        known.queue.push_back(number);
    }

    ForetoldLog {
        taught,
        judged: jobs.len() - taught,
        processors,
        left_out,
        ways: ways
            .into_iter()
            .filter_map(|way| MethodQuality::of(way.name, way.pairs, way.held, way.widths_s))
            .collect(),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// One way to predict, with the errors that it learned from.
struct LearningPredictor {
    name: &'static str,
    margin: Margin,
    /// The predictions before correction, by job.
    raw_s: BTreeMap<usize, f64>,
    pairs: Vec<(f64, f64)>,
    held: usize,
    widths_s: Vec<f64>,
}

impl LearningPredictor {
    fn new(name: &'static str) -> Self {
        LearningPredictor {
            name,
            margin: Margin::default(),
            raw_s: BTreeMap::new(),
            pairs: Vec::new(),
            held: 0,
            widths_s: Vec::new(),
        }
    }

    fn predict(&mut self, job: usize, raw_s: f64, came_s: Option<f64>) {
        self.raw_s.insert(job, raw_s);
        let Some(came_s) = came_s else { return };
        let edge = |part: f64| self.margin.quantile_s(raw_s, part);
        let low_s = edge((1.0 - HELD) / 2.0);
        let high_s = edge((1.0 + HELD) / 2.0);

        // The waits of a log are whole seconds.
        self.held += usize::from((low_s.floor()..=high_s.ceil()).contains(&came_s));
        self.widths_s.push(high_s - low_s);

        // Averages are judged without correction.
        let used_s = if self.name == "deskgrid" {
            edge(0.5)
        } else {
            raw_s
        };
        self.pairs.push((used_s, came_s));
    }

    fn started(&mut self, job: usize, came_s: f64) {
        if let Some(raw_s) = self.raw_s.remove(&job) {
            self.margin.observe(raw_s, came_s);
        }
    }
}

/// The knowledge at a time.
struct KnownNow<'a> {
    jobs: &'a [LoggedJob],
    processors: u32,
    lives: Lives,
    pooled: LearnedLives,
    pooled_at: u64,
    /// The laws of users, until one of their runs ends.
    users: BTreeMap<u64, LearnedLives>,
    /// The waiting jobs, in their order; `running` holds the running ones. Each is given by its
    /// place among all.
    queue: VecDeque<usize>,
    running: Vec<usize>,
    last: VecDeque<f64>,
    sum_s: f64,
    count: f64,
}

impl<'a> KnownNow<'a> {
    fn new(jobs: &'a [LoggedJob], processors: u32) -> Self {
        let lives = Lives::default();
        KnownNow {
            jobs,
            processors,
            pooled: lives.pooled(),
            lives,
            pooled_at: 0,
            users: BTreeMap::new(),
            queue: VecDeque::new(),
            running: Vec::new(),
            last: VecDeque::new(),
            sum_s: 0.0,
            count: 0.0,
        }
    }

    /// Learns everything that started and ended by `now_s`.
    fn until(&mut self, now_s: f64, ways: &mut [LearningPredictor]) {
        let (started, waiting): (Vec<usize>, Vec<usize>) = self
            .queue
            .iter()
            .partition(|job| self.jobs[**job].start_s <= now_s);
        self.queue = waiting.into();
        for job in started {
            let came_s = self.jobs[job].start_s - self.jobs[job].submit_s;
            ways.iter_mut().for_each(|way| way.started(job, came_s));
            if self.last.len() == LAST {
                self.last.pop_front();
            }
            self.last.push_back(came_s);
            self.sum_s += came_s;
            self.count += 1.0;
            self.running.push(job);
        }

        let (ended, running): (Vec<usize>, Vec<usize>) = self
            .running
            .iter()
            .partition(|job| self.jobs[**job].end_s <= now_s);
        self.running = running;
        for job in ended {
            let job = &self.jobs[job];
            let run = ObservedRun::done(job.end_s - job.start_s);
            self.lives.observe(&job.user.to_string(), run);
            self.users.remove(&job.user);
        }

        if self.lives.observed() >= self.pooled_at + FRESH {
            self.pooled = self.lives.pooled();
            self.pooled_at = self.lives.observed();
            self.users.clear();
        }
    }

    /// The predicted wait of a job that is submitted now, as if no job passed another.
    fn predicted_s(&mut self, job: usize) -> f64 {
        let now_s = self.jobs[job].submit_s;
        let used: u32 = self.running.iter().map(|job| self.jobs[*job].hosts).sum();
        let free = self.processors.saturating_sub(used);
        let ahead = self.queue.iter().copied().take(QUEUE).chain([job]);
        let ahead: Vec<usize> = ahead.collect();
        let all = self.queue.iter().chain([&job]);
        let need: u32 = all.map(|job| self.jobs[*job].hosts).sum();
        if need <= free {
            return 0.0;
        }

        for job in self.running.iter().chain(&ahead) {
            let user = self.jobs[*job].user;
            let law = || self.lives.law(&self.pooled, &user.to_string(), &[]);
            self.users.entry(user).or_insert_with(law);
        }

        let within = |job: &usize| {
            let LoggedJob { limit_s, user, .. } = self.jobs[*job];
            Some(Within {
                law: self.users.get(&user)?,
                limit_s,
            })
        };
        let running: Vec<(usize, Within<'_>)> = self
            .running
            .iter()
            .filter_map(|job| Some((*job, within(job)?)))
            .collect();
        let waiting: Vec<(usize, Within<'_>)> = ahead
            .iter()
            .filter_map(|job| Some((*job, within(job)?)))
            .collect();
        let units: Vec<HostHolder<'_>> = running
            .iter()
            .map(|(job, law)| HostHolder {
                hosts: self.jobs[*job].hosts,
                age_s: now_s - self.jobs[*job].start_s,
                law,
            })
            .collect();

        let queue: Vec<WaitingJob<'_>> = waiting
            .iter()
            .map(|(job, law)| WaitingJob {
                hosts: self.jobs[*job].hosts,
                law,
            })
            .collect();
        starts_s(free, &units, &queue)
            .last()
            .copied()
            .flatten()
            .unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of ten processors on which every job takes all of them for about a minute, one
    /// after the other.
    fn log(count: u32) -> SwfLog {
        let mut free_s: f64 = 0.0;
        let record = |job: u32| {
            let submit_s = f64::from(job) * 61.0 - f64::from(job % 7) * 13.0;
            let start_s = free_s.max(submit_s);
            let run_s = 55.0 + f64::from(job * 7 % 11);
            free_s = start_s + run_s;
            SwfJob {
                job: u64::from(job),
                submit_s,
                wait_s: Some(start_s - submit_s),
                run_s: Some(run_s),
                processors: Some(10),
                requested: Some(10),
                requested_s: None,
                status: Some(1),
                user: Some(1),
                executable: None,
            }
        };
        SwfLog {
            processors: Some(10),
            records: (1..=count).map(record).collect(),
        }
    }

    #[test]
    fn waits_that_follow_from_the_queue_are_predicted_and_averages_are_not() {
        let found = foretell(&log(600));
        assert_eq!(
            (found.taught, found.judged, found.ways.len()),
            (300, 300, 3)
        );

        let [ours, last, all] = &found.ways[..] else {
            panic!("three ways")
        };
        let error_s = |way: &MethodQuality| way.accuracy.median_error_s;
        assert!(
            error_s(ours) < 0.5 * error_s(last).min(error_s(all)),
            "{found:?}"
        );
        assert!((ours.coverage - HELD).abs() < 0.12, "{}", ours.coverage);
    }
}
