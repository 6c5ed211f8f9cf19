//! The paper's statements about results, each with the measured result and a verdict on whether it
//! confirms the statement. Verdicts are computed from the results, not typed.

use super::points::{Axis, BilledScheduler, Factors, Measured, Measurements, Slice};
use crate::report::claim::{Claim, ClaimVerdict};
use crate::report::markdown::percent;

/// The largest difference between means that counts as none: with other users the paper's third
/// digit changes.
pub(super) const TOLERANCE: f64 = 0.15;
/// The factor below which two bars count as equal.
const SAME: f64 = 1.08;

/// A mean factor: its name, the paper's value, that of an independent simulation of the same
/// points, and ours.
pub(super) struct MeanFactor {
    pub(super) what: &'static str,
    pub(super) paper: f64,
    pub(super) reference: f64,
    pub(super) found: Factors,
    pub(super) with_need: Factors,
}

impl MeanFactor {
    pub(super) fn near(&self) -> bool {
        (self.found.mean() - self.reference).abs() <= TOLERANCE
    }
}

/// The four means of Figures 4 and 5.
pub(super) fn means(results: &Measurements) -> [MeanFactor; 4] {
    use BilledScheduler::{
        BatchFcfs, BatchSrpt, FcfsFcfs, FcfsNeed, InteractiveFcfs, InteractiveSrpt, SrptFcfs,
        SrptNeed,
    };

    let mean = |what, paper, reference, worse, [better, need]: [BilledScheduler; 2]| MeanFactor {
        what,
        paper,
        reference,
        found: results.factors(worse, better),
        with_need: results.factors(worse, need),
    };
    [
        mean(
            "interactive SRPT over SRPTxFCFS",
            1.525,
            1.594,
            InteractiveSrpt,
            [SrptFcfs, SrptNeed],
        ),
        mean(
            "batch SRPT over SRPTxFCFS",
            1.537,
            1.648,
            BatchSrpt,
            [SrptFcfs, SrptNeed],
        ),
        mean(
            "interactive FCFS over FCFSxFCFS",
            1.615,
            1.694,
            InteractiveFcfs,
            [FcfsFcfs, FcfsNeed],
        ),
        mean(
            "batch FCFS over FCFSxFCFS",
            1.595,
            1.613,
            BatchFcfs,
            [FcfsFcfs, FcfsNeed],
        ),
    ]
}

/// Computes every statement.
pub(super) fn claims(results: &Measurements) -> Vec<Claim> {
    let mut all = shares(results);
    all.extend(users(results));
    all.extend(others(results));
    all
}

fn shares(results: &Measurements) -> Vec<Claim> {
    use BilledScheduler::{
        BatchFcfs, BatchSrpt, FcfsFcfs, InteractiveFcfs, InteractiveSrpt, SrptFcfs,
    };
    let interactive = results.factors(InteractiveSrpt, SrptFcfs);
    let batch = results.factors(BatchSrpt, SrptFcfs);
    let twice = [interactive.at_least(2.0), batch.at_least(2.0)];
    let same = 1.0 - interactive.at_least(1.05);
    let fcfs = [
        results.factors(InteractiveFcfs, FcfsFcfs),
        results.factors(BatchFcfs, FcfsFcfs),
    ];
    let fcfs_twice = fcfs.map(|factors| factors.at_least(2.0));

    let finished = |of: BilledScheduler| {
        results
            .points
            .iter()
            .map(|(_, runs)| runs[of as usize].finished())
            .sum::<u64>()
    };
    let more = |of: BilledScheduler| finished(SrptFcfs) as f64 / finished(of) as f64 - 1.0;

    vec![
        Claim {
            paper: "4.1, Figure 4",
            claim: "at least twice as good in about 20 % of the runs against both",
            ours: format!(
                "{} interactive, {} batch",
                percent(twice[0]),
                percent(twice[1])
            ),
            verdict: ClaimVerdict::of(twice.iter().all(|part| (part - 0.2).abs() <= 0.05), false),
        },
        Claim {
            paper: "4.1, Figure 4",
            claim: "at least three times as good as interactive in 10 % of the runs",
            ours: percent(interactive.at_least(3.0)),
            verdict: ClaimVerdict::of((interactive.at_least(3.0) - 0.1).abs() <= 0.04, false),
        },
        Claim {
            paper: "4.1, Figure 4",
            claim: "the same as interactive in about 65 % of the runs",
            ours: format!("{} below a factor of 1.05", percent(same)),
            verdict: ClaimVerdict::of((same - 0.65).abs() <= 0.06, false),
        },
        Claim {
            paper: "4.1, Figure 5",
            claim: "without sizes the improvements are quite similar: at least twice as good in about 20 %",
            ours: format!(
                "{} interactive, {} batch",
                percent(fcfs_twice[0]),
                percent(fcfs_twice[1])
            ),
            verdict: ClaimVerdict::of(
                fcfs_twice.iter().all(|part| (part - 0.2).abs() <= 0.06),
                false,
            ),
        },
        Claim {
            paper: "4.1",
            claim: "task throughput is not hurt, and better in many cases",
            ours: format!(
                "{:+.1} % finished over interactive, {:+.1} % over batch",
                100.0 * more(InteractiveSrpt),
                100.0 * more(BatchSrpt)
            ),
            verdict: ClaimVerdict::of(
                more(InteractiveSrpt) > -0.005 && more(BatchSrpt) > -0.005,
                false,
            ),
        },
    ]
}

/// The mean of one bar.
fn bar(slice: &Slice, x: f64, contender: BilledScheduler, of: impl Fn(&Measured) -> f64) -> f64 {
    slice.mean(slice.at(x), contender, of)
}

fn three(slice: &Slice, x: f64, of: impl Fn(&Measured) -> f64 + Copy) -> [f64; 3] {
    [
        BilledScheduler::BatchSrpt,
        BilledScheduler::InteractiveSrpt,
        BilledScheduler::SrptFcfs,
    ]
    .map(|contender| bar(slice, x, contender, of))
}

fn users(results: &Measurements) -> Vec<Claim> {
    let slice = results.slice(Axis::Users);
    let xs: Vec<f64> = slice.values.iter().map(|(x, ..)| *x).collect();
    let crossing = xs.iter().copied().find(|x| {
        let [batch, interactive, _] = three(slice, *x, Measured::vresp_s);
        batch > interactive
    });
    let best = |of: fn(&Measured) -> f64| {
        xs.iter().all(|x| {
            let [batch, interactive, ours] = three(slice, *x, of);
            ours <= SAME * batch && ours <= SAME * interactive
        })
    };

    let [_, interactive_16, ours_16] = three(slice, 16.0, Measured::vresp_s);
    let most = xs.iter().all(|x| {
        let [batch, interactive, ours] = three(slice, *x, |run| run.finished() as f64);
        SAME * ours >= batch.max(interactive)
    });
    let [batch_load, interactive_load, ours_load] = three(slice, 8.0, Measured::load);

    vec![
        Claim {
            paper: "4.2, Figure 7",
            claim: "batch is better than interactive with few users, worse with many (the caption has it the other way round)",
            ours: crossing.map_or("never worse".to_owned(), |x| {
                format!("worse from {x:.0} users on")
            }),
            verdict: ClaimVerdict::of(crossing.is_some_and(|x| (4.0..=8.0).contains(&x)), false),
        },
        Claim {
            paper: "4.2, Figure 7",
            claim: "batchactive is best, or as good as the best, with any number of users",
            ours: if best(Measured::vresp_s) {
                "so here"
            } else {
                "not everywhere"
            }
            .to_owned(),
            verdict: ClaimVerdict::of(best(Measured::vresp_s), false),
        },
        Claim {
            paper: "4.2, Figure 7",
            claim: "with the most users interactive and batchactive are equal",
            ours: format!("with 16 users {interactive_16:.0} s and {ours_16:.0} s"),
            verdict: ClaimVerdict::of(interactive_16 / ours_16 <= SAME, false),
        },
        Claim {
            paper: "4.2, Figure 8",
            claim: "the same holds of visible slowdown, which can be below one",
            ours: format!(
                "with 2 users {:.2}",
                bar(slice, 2.0, BilledScheduler::SrptFcfs, Measured::vslow)
            ),
            verdict: ClaimVerdict::of(
                best(Measured::vslow)
                    && bar(slice, 2.0, BilledScheduler::SrptFcfs, Measured::vslow) < 1.0,
                false,
            ),
        },
        Claim {
            paper: "4.2, Figure 9",
            claim: "batchactive finishes the most tasks",
            ours: if most { "so here" } else { "not everywhere" }.to_owned(),
            verdict: ClaimVerdict::of(most, false),
        },
        Claim {
            paper: "4.2, Figure 10",
            claim: "the loads of batch and batchactive are similar, that of interactive is lower",
            ours: format!("with 8 users {batch_load:.3}, {ours_load:.3} and {interactive_load:.3}"),
            verdict: ClaimVerdict::of(
                (ours_load - batch_load).abs() < 0.1 && interactive_load < batch_load,
                false,
            ),
        },
    ]
}

fn others(results: &Measurements) -> Vec<Claim> {
    let change = results.slice(Axis::Change);
    let tasks = results.slice(Axis::Tasks);
    let service = results.slice(Axis::Service);
    let think = results.slice(Axis::Think);
    let [from, to] = [0.0, 0.2].map(|x| three(change, x, Measured::vresp_s));
    let growth = |at: usize| to[at] / from[at];
    let slow = |tasks_max: f64| three(tasks, f64::midpoint(1.0, tasks_max), Measured::vslow);
    let one = slow(1.0);

    let sixteen = slow(16.0);
    let hundred = slow(128.0);
    let most = slow(1_024.0);
    let gain = |slice: &Slice, x: f64| {
        let [_, interactive, ours] = three(slice, x, Measured::vresp_s);
        interactive / ours
    };
    let spread =
        one.iter().copied().fold(0.0, f64::max) / one.iter().copied().fold(f64::INFINITY, f64::min);
    vec![
        Claim {
            paper: "4.2, Figure 11",
            claim: "dropping more does nothing to interactive, more to batch than to batchactive",
            ours: format!(
                "mean 0 to 0.2: batch {:.0} to {:.0} s, interactive {:.0} to {:.0} s, batchactive {:.0} to {:.0} s",
                from[0], to[0], from[1], to[1], from[2], to[2]
            ),
            verdict: ClaimVerdict::of(
                (growth(1) - 1.0).abs() < 0.1 && growth(0) > growth(2) && growth(2) > 1.0,
                false,
            ),
        },
        Claim {
            paper: "4.2, Figure 12",
            claim: "with one task in a set all are the same",
            ours: format!("{:.2}, {:.2} and {:.2}", one[0], one[1], one[2]),
            verdict: ClaimVerdict::of(spread < SAME, false),
        },
        Claim {
            paper: "4.2, Figure 12",
            claim: "sets of several tasks bring slowdowns below one to batchactive, which is always best",
            ours: format!(
                "up to 16 tasks: batch {:.2}, interactive {:.2}, batchactive {:.2}",
                sixteen[0], sixteen[1], sixteen[2]
            ),
            verdict: ClaimVerdict::of(
                sixteen[2] < 1.0 && sixteen[2] <= sixteen[0].min(sixteen[1]),
                false,
            ),
        },
        Claim {
            paper: "4.2, Figure 12",
            claim: "batch is unusable from about 100 tasks on, over 170 at 1,024",
            ours: format!(
                "up to 128 tasks {:.1} (interactive {:.2}), up to 1,024 {:.0}",
                hundred[0], hundred[1], most[0]
            ),
            verdict: ClaimVerdict::of(hundred[0] > 2.0 * hundred[1] && most[0] > 100.0, false),
        },
        Claim {
            paper: "4.2, Figure 13",
            claim: "the shorter the service, the more is gained; nothing once a server always has requested work",
            ours: format!(
                "{:.1} times at 360 s, {:.1} at 720 s, {:.2} at 3,600 s",
                gain(service, 360.0),
                gain(service, 720.0),
                gain(service, 3_600.0)
            ),
            verdict: ClaimVerdict::of(
                gain(service, 360.0) > gain(service, 720.0) && gain(service, 3_600.0) < SAME,
                false,
            ),
        },
        Claim {
            paper: "4.2",
            claim: "the longer users think, the more is gained",
            ours: format!(
                "{:.2} times at 20 s, {:.1} at 7,220 s, {:.1} at 18,020 s",
                gain(think, 20.0),
                gain(think, 7_220.0),
                gain(think, 18_020.0)
            ),
            verdict: ClaimVerdict::of(
                gain(think, 20.0) < gain(think, 7_220.0)
                    && gain(think, 7_220.0) < gain(think, 18_020.0),
                false,
            ),
        },
    ]
}
