//! The predicted completion time of a job. Pure functions; the callers gather the values.

use common::{Span, Time};

/// The predicted completion of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prediction {
    /// The predicted completion of its last task.
    pub finish: Time,
    /// The lower end of the interval that holds the completion with a probability of 80 %, by the
    /// errors of earlier predictions of the kind.
    pub low: Time,
    /// The upper end of that interval.
    pub high: Time,
}

/// The makespan of `tasks` tasks of `work_s` (seconds on a host of speed 1) on `hosts` hosts of
/// mean rate `rate` (work per second), each task with `start_cost` beside its work: wr = ceil(T /
/// N) (s / r) of Kondo et al. 2004, section 5.2, with the start cost in each round, which the
/// paper's formula leaves open. `None` without hosts.
pub fn makespan(tasks: u64, hosts: u64, work_s: f64, rate: f64, start_cost: Span) -> Option<Span> {
    if hosts == 0 || rate <= 0.0 {
        return None;
    }
    let round_s = work_s / rate + start_cost.secs();
    Some(Span::from_secs_f64(tasks.div_ceil(hosts) as f64 * round_s))
}

/// A slot that will complete tasks one after the other. Times in seconds from now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PredictedSlot {
    /// The time until it is free.
    pub(crate) free_s: f64,
    /// The run time of a task there.
    pub(crate) task_s: f64,
}

/// Returns the earliest time, in seconds from now, by which these servers complete `tasks` tasks;
/// infinite without servers. `least_s` is a known lower bound that shortens the search.
pub(crate) fn completion_s(servers: &[PredictedSlot], tasks: u64, least_s: f64) -> f64 {
    // This is called often: it has no division, and no conversion to integers of more than 32 bits.
    let rates: Vec<_> = servers
        .iter()
        .map(|server| (server.free_s, server.task_s.recip()))
        .collect();
    let by = |at_s: f64, (free_s, rate): (f64, f64)| ((at_s - free_s) * rate) as i32;
    let enough = |at_s: f64| {
        rates
            .iter()
            .map(|of| u64::from(by(at_s, *of).max(0).unsigned_abs()))
            .sum::<u64>()
            >= tasks
    };

    let Some(first_s) = servers
        .iter()
        .map(|s| s.free_s + s.task_s)
        .min_by(f64::total_cmp)
    else {
        return f64::INFINITY;
    };

    let mut low_s = 0.0;
    let mut high_s = first_s.max(1.1 * least_s);
    while !enough(high_s) {
        low_s = high_s;
        high_s = 1.5 * high_s + 1.0;
        if !high_s.is_finite() {
            return f64::INFINITY;
        }
    }

    while high_s - low_s > 0.5 + 1e-3 * high_s {
        let middle_s = 0.5 * (low_s + high_s);
        if enough(middle_s) {
            high_s = middle_s;
        } else {
            low_s = middle_s;
        }
    }

    high_s
}

/// The rule by which servers take tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filling {
    /// A task waits for the server that would be done with it soonest.
    Soonest,
    /// Each free server takes the next task, in no order of speed.
    Free,
    /// Each free server takes the next task, the fastest one first.
    FastestFree,
}

/// Returns the servers that take any of `tasks` tasks, each with the start of its last one in
/// seconds from now; `None` where they never complete them.
pub(crate) fn last_tasks(
    servers: &[PredictedSlot],
    tasks: u64,
    rule: Filling,
) -> Option<Vec<(usize, f64)>> {
    // The tasks that end before a time are those that start before it on servers that are free a
    // task's time sooner.
    let begun = if rule == Filling::Soonest { 0.0 } else { 1.0 };
    let shifted: Vec<PredictedSlot> = servers
        .iter()
        .map(|server| PredictedSlot {
            free_s: server.free_s - begun * server.task_s,
            ..*server
        })
        .collect();
    let until_s = completion_s(&shifted, tasks, 0.0);
    if !until_s.is_finite() {
        return None;
    }

    // The last task of each, and its place among the last ones of all: by start, or by end.
    let mut last: Vec<(f64, f64, usize, f64)> = Vec::new();
    let mut taken = 0;
    for (at, server) in shifted.iter().enumerate() {
        let rounds = ((until_s - server.free_s) / server.task_s).floor();
        if rounds >= 1.0 {
            let place_s = server.free_s + rounds * server.task_s;
            let tie_s = if rule == Filling::FastestFree {
                server.task_s
            } else {
                0.0
            };
            last.push((place_s, tie_s, at, rounds));
            taken += rounds as u64;
        }
    }
    last.sort_by(|a, b| {
        a.0.total_cmp(&b.0)
            .then(a.1.total_cmp(&b.1))
            .then(a.2.cmp(&b.2))
    });

    // The time is a little late: what is too much was taken last.
    let mut excess = taken.saturating_sub(tasks);
    for (place_s, _, at, rounds) in last.iter_mut().rev() {
        if excess == 0 {
            break;
        }
        excess -= 1;
        *rounds -= 1.0;
        *place_s -= shifted[*at].task_s;
    }

    let start_s = |place_s: f64, at: usize| (place_s - (1.0 - begun) * servers[at].task_s).max(0.0);
    let some = last.into_iter().filter(|(_, _, _, rounds)| *rounds >= 1.0);
    Some(
        some.map(|(place_s, _, at, _)| (at, start_s(place_s, at)))
            .collect(),
    )
}

/// The ends of an interval whose prediction has no law, as factors on the predicted time left.
pub(crate) const UNKNOWN: (f64, f64) = (0.7, 2.0);
/// The least distance of an interval's ends from its middle, as a logarithm of the time left, and
/// the shortest time that counts as left, in seconds.
const LEAST_WIDTH: f64 = 0.1;
const LEAST_LEFT_S: f64 = 0.1;
/// The most by which earlier errors move an end of an interval away from its middle, as a logarithm: a score
/// of a narrow interval says little about a wide one.
const MOST_WIDER: f64 = std::f64::consts::LN_10;

impl Prediction {
    /// Returns a prediction at `now` of which no more than the middle is known.
    pub(crate) fn roughly(now: Time, finish: Time) -> Self {
        let left_s = finish.since(now).secs();
        let at = |factor: f64| now + Span::from_secs_f64(left_s * factor);
        Self {
            finish,
            low: at(UNKNOWN.0),
            high: at(UNKNOWN.1),
        }
    }

    /// Returns the logarithms of the time left at `now` by the middle, and of the factors from it
    /// down to the lower end and up to the upper end.
    fn widths(&self, now: Time) -> (f64, f64, f64) {
        let log = |at: Time| at.since(now).secs().max(LEAST_LEFT_S).ln();
        let middle = log(self.finish);
        let below = (middle - log(self.low)).max(LEAST_WIDTH);
        let above = (log(self.high) - middle).max(LEAST_WIDTH);
        (middle, below, above)
    }

    /// Returns the place of the actual completion in the interval of a prediction that was made at
    /// `made`: 0 in its middle, -1 at its lower end, 1 at its upper one, and so on outside.
    pub(crate) fn score(&self, made: Time, completed: Time) -> f64 {
        let (middle, below, above) = self.widths(made);
        let off = completed.since(made).secs().max(LEAST_LEFT_S).ln() - middle;
        off / if off < 0.0 { below } else { above }
    }

    /// Returns the prediction made at `now` with an interval between these scores.
    pub(crate) fn corrected(self, now: Time, low: f64, high: f64) -> Self {
        let (middle, below, above) = self.widths(now);
        let at = |score: f64| {
            let width = if score < 0.0 { below } else { above };
            let wider = (score.abs() - 1.0) * width;
            let off = (width + wider.min(MOST_WIDER)).copysign(score);
            now + Span::from_secs_f64((middle + off).exp())
        };
        Self {
            low: at(low).min(self.finish),
            high: at(high).max(self.finish),
            ..self
        }
    }
}

/// Returns the scores between which lie 80 % of the earlier ones (see [`Prediction::score`]),
/// together with some that stand for intervals that hold as they should.
pub(crate) fn spread(scores: &[f32]) -> (f64, f64) {
    let mut sorted: Vec<f32> = scores.iter().chain(&PRIOR_SCORES).copied().collect();
    sorted.sort_by(f32::total_cmp);
    (next_quantile(&sorted, 0.1), next_quantile(&sorted, 0.9))
}

/// Returns the quantile of this part for a sample of one more than these sorted values, at least one: the
/// next one is equally likely to fall between any two.
pub(crate) fn next_quantile(sorted: &[f32], part: f64) -> f64 {
    let place = (part * (sorted.len() + 1) as f64 - 1.0).clamp(0.0, (sorted.len() - 1) as f64);
    at_place(sorted, place)
}

/// Returns the value at this place of some sorted ones, interpolated between its neighbours.
pub(crate) fn at_place(sorted: &[f32], place: f64) -> f64 {
    let low = place as usize;
    let rest = place - place.floor();
    let a = f64::from(sorted[low]);
    let b = f64::from(sorted[(low + 1).min(sorted.len() - 1)]);
    a + rest * (b - a)
}

/// Scores at equal distances in probability, of a normal distribution of which 80 % lie between -1
/// and 1.
const PRIOR_SCORES: [f32; 9] = [-1.0, -0.66, -0.41, -0.2, 0.0, 0.2, 0.41, 0.66, 1.0];

/// Returns the work that a task does in a second where one that only computes does `rate`, if it computes
/// for this part of its work: the time that it waits is the same on each host.
pub(crate) fn rate_of(computing: f64, rate: f64) -> f64 {
    if computing >= 1.0 {
        return rate;
    }
    (1.0 - computing + computing / rate).recip()
}

/// The time that a task takes, by the host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TaskDuration {
    /// Its work, in seconds on a host of speed 1.
    pub(crate) work: Span,
    /// The part of that in which it computes, from 0 to 1.
    pub(crate) computing: f64,
    /// The time that it takes to start on any host.
    pub(crate) start_cost: Span,
}

impl TaskDuration {
    /// Returns the time that it takes where a task that only computes does work at this rate.
    pub(crate) fn at(self, rate: f64) -> Span {
        duration(self.work, self.start_cost, rate_of(self.computing, rate))
    }
}

/// Returns the run time of this work at this rate.
pub(crate) fn duration(work: Span, start_cost: Span, rate: f64) -> Span {
    start_cost + Span::from_secs_f64(work.secs() / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_makespan_takes_as_many_rounds_as_the_bag_fills() {
        let start = Span::from_secs(40);
        assert_eq!(
            makespan(401, 200, 300.0, 1.5, start),
            Some(Span::from_secs(3 * 240))
        );
        assert_eq!(makespan(1, 0, 300.0, 1.5, start), None);
    }

    #[test]
    fn the_interval_holds_four_of_five_earlier_outcomes() {
        let (low, high) = spread(&[]);
        assert!((low + 1.0).abs() < 1e-6 && (high - 1.0).abs() < 1e-6);

        let scores: Vec<f32> = (1..=991).map(|n| 2.0 + n as f32 / 1_000.0).collect();
        let (low, high) = spread(&scores);
        assert!((low - 2.09).abs() < 0.02, "{low}");
        assert!((high - 2.9).abs() < 0.02, "{high}");
    }

    #[test]
    fn a_score_is_the_place_in_the_interval_and_gives_it_back() {
        let at = |s: u64| Time(0) + Span::from_secs(s);
        let made = at(100);
        let prediction = Prediction {
            finish: at(200),
            low: at(150),
            high: at(500),
        };

        for (score, completed) in [(0.0, 200), (-1.0, 150), (-2.0, 125), (1.0, 500), (0.5, 300)] {
            let found = prediction.score(made, at(completed));
            assert!((found - score).abs() < 1e-6, "{completed} s: {found}");
        }
        let wider = prediction.corrected(made, -2.0, 0.5);
        assert!(wider.low.since(at(125)).secs() < 1e-3 && at(300).since(wider.high).secs() < 1e-3);
        assert_eq!(wider.finish, prediction.finish);
        let shifted = prediction.corrected(made, 0.5, 1.0);
        assert_eq!(shifted.low, prediction.finish, "the middle lies inside");
    }

    #[test]
    fn errors_of_narrow_intervals_widen_a_wide_one_by_a_bounded_factor() {
        let prediction = Prediction::roughly(Time(0), Time(0) + Span::from_secs(60));
        let wide = prediction.corrected(Time(0), -40.0, 40.0);
        let high_s = wide.high.since(Time(0)).secs();
        let low_s = wide.low.since(Time(0)).secs();
        assert!((1_199.0..1_201.0).contains(&high_s), "{high_s}");
        assert!((4.1..4.3).contains(&low_s), "{low_s}");
    }

    #[test]
    fn servers_complete_tasks_one_after_the_other() {
        let servers = [
            PredictedSlot {
                free_s: 0.0,
                task_s: 10.0,
            },
            PredictedSlot {
                free_s: 5.0,
                task_s: 20.0,
            },
        ];
        for (tasks, at_s) in [(1, 10.0), (2, 20.0), (3, 25.0), (4, 30.0), (6, 45.0)] {
            let found_s = completion_s(&servers, tasks, 0.0);
            assert!(
                found_s >= at_s && found_s <= at_s + 0.6,
                "{tasks} tasks by {found_s}, not {at_s}"
            );
        }

        assert_eq!(completion_s(&[], 1, 0.0), f64::INFINITY);
    }

    #[test]
    fn the_last_tasks_are_those_of_a_list_schedule_or_of_the_soonest_ends() {
        let slot = |free_s: f64, task_s: f64| PredictedSlot { free_s, task_s };
        let servers = [slot(0.0, 10.0), slot(5.0, 20.0), slot(0.0, 100.0)];
        let last = |tasks, rule| last_tasks(&servers, tasks, rule).expect("they end");

        // 10 and 20 s on the first, 25 s on the second one: the slow one is not waited for.
        assert_eq!(last(3, Filling::Soonest), [(0, 10.0), (1, 5.0)]);
        // At once on both free ones, and the third one at 5 s.
        assert_eq!(last(3, Filling::Free), [(0, 0.0), (2, 0.0), (1, 5.0)]);
        assert_eq!(last(1, Filling::FastestFree), [(0, 0.0)]);
        assert_eq!(last_tasks(&[], 1, Filling::Free), None);
    }

    #[test]
    fn a_completion_search_ends_for_endless_and_countless_tasks() {
        let endless = PredictedSlot {
            free_s: 0.0,
            task_s: f64::INFINITY,
        };
        assert_eq!(completion_s(&[endless], 1, 0.0), f64::INFINITY);
        let servers = [PredictedSlot {
            free_s: 0.0,
            task_s: 1e-6,
        }; 3];
        assert!(completion_s(&servers, u64::MAX, 0.0) > 1e6);
    }
}
