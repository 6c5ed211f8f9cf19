//! The sentences of the paper's section 5 that state results, each with the measured result and a
//! verdict on whether it confirms the sentence. Verdicts are computed from the results, not typed.

use super::devices::Device;
use super::table::{Cell, TrialTable, UserGroup};
use super::trial::{Counts, Pressure, Trial};
use super::{GRACES, HARD, MIDDLE, NONE, PROBABILISTIC, grace};
use crate::report::claim::{Claim, ClaimVerdict};

/// The largest difference that counts as none.
const EVEN: f64 = 0.04;

/// The results in the form that the sentences need.
struct ClaimResults<'a> {
    table: &'a TrialTable,
    /// The qualities of perfect (`exact`), bad and very bad estimates.
    exact: f64,
    bad: f64,
    very: f64,
}

/// The ratios that a sentence compares.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ratios {
    accepted: f64,
    kept: f64,
}

fn ratios(cell: Option<&Cell>, group: UserGroup) -> Ratios {
    cell.map_or(
        Ratios {
            accepted: f64::NAN,
            kept: f64::NAN,
        },
        |cell| Ratios {
            accepted: cell.acceptance(group).mean,
            kept: cell.guarantee(group).mean,
        },
    )
}

impl<'a> ClaimResults<'a> {
    fn cell(&self, device: Device, hosts: usize, qoe: f64, policy: &str) -> Option<&'a Cell> {
        self.table.usual(device, hosts, qoe, policy)
    }

    fn of(&self, device: Device, hosts: usize, qoe: f64, policy: &str) -> Ratios {
        ratios(self.cell(device, hosts, qoe, policy), UserGroup::A)
    }

    fn group(&self, policy: &str, group: UserGroup, qoe: f64) -> Ratios {
        ratios(
            self.table.groups(MIDDLE, qoe, policy, Pressure::Usual),
            group,
        )
    }

    /// The qualities above 0 at which the acceptance ratio is at least `least`, so that a
    /// comparison makes sense.
    fn qoes(&self, device: Device, policy: &str, least: f64) -> Vec<f64> {
        let some =
            |qoe: &f64| *qoe > 0.0 && self.of(device, MIDDLE, *qoe, policy).accepted >= least;
        self.table.qoes.iter().copied().filter(some).collect()
    }
}

/// The quotient of two counts of a cell.
fn part(cell: Option<&Cell>, of: impl Fn(&Counts) -> usize, all: impl Fn(&Counts) -> usize) -> f64 {
    cell.map_or(f64::NAN, |cell| cell.part(of, all))
}

/// Computes every sentence, in the paper's order.
pub(super) fn claims(table: &TrialTable) -> Vec<Claim> {
    let results = ClaimResults {
        table,
        exact: 0.0,
        bad: table.near(0.5),
        very: table.near(0.7),
    };
    let mut all = estimates(&results);
    all.extend(guarantees(&results));
    all.extend(hard(&results));
    all.extend(killed(&results));
    all.extend(similar(&results));

    all.extend(graces(&results));
    all.extend(probabilistic(&results));
    all.extend(groups(&results));
    all
}

fn estimates(results: &ClaimResults<'_>) -> Vec<Claim> {
    let ClaimResults {
        exact, bad, very, ..
    } = *results;
    let accepted = |hosts, qoe| results.of(Device::Poly, hosts, qoe, NONE).accepted;
    let falls = [8, 32, 128].map(|hosts| accepted(hosts, exact) - accepted(hosts, bad));
    let single = part(
        results.cell(Device::Poly, MIDDLE, bad, NONE),
        |c| c.single,
        |c| c.refused,
    );
    let none = results.of(Device::Poly, 128, very, NONE);
    let hopeless = part(
        results.cell(Device::Poly, 128, very, NONE),
        |c| c.hopeless,
        |c| c.bags,
    );

    vec![
        Claim {
            paper: "5.1",
            claim: "More error in the estimates has a significant effect on acceptance, especially in complex systems",
            ours: format!(
                "acceptance falls by {:.2}, {:.2}, {:.2} from Q = 0 to Q = {:.0} % with 8, 32, 128 hosts (PolyDevice)",
                falls[0],
                falls[1],
                falls[2],
                100.0 * bad
            ),
            verdict: ClaimVerdict::of(
                falls[1] > 0.1 && falls[2] > falls[1] && falls[1] > falls[0] - EVEN,
                falls[2] > 0.1,
            ),
        },
        Claim {
            paper: "5.1",
            claim: "In many cases that is due to a single large overestimate of a long job, which forces the schedule past the deadline",
            ours: format!(
                "{:.0} % of the refused bags would have been accepted, had the longest overestimate in each been right",
                100.0 * single
            ),
            verdict: ClaimVerdict::of(single > 0.3, single > 0.1),
        },
        Claim {
            paper: "5.1",
            claim: "With 128 hosts, a heavy rate of jobs and very bad estimates almost none are accepted",
            ours: format!(
                "{:.3} at Q = {:.0} % (PolyDevice)",
                none.accepted,
                100.0 * very
            ),
            verdict: ClaimVerdict::of(none.accepted < 0.05, none.accepted < 0.2),
        },
        Claim {
            paper: "5.1",
            claim: "That is because nearly every batch has at least one extremely long job with an overestimated run time",
            ours: format!(
                "{:.0} % of the bags there have a task whose estimate alone is beyond the deadline",
                100.0 * hopeless
            ),
            verdict: ClaimVerdict::of(hopeless > 0.9, hopeless > 0.5),
        },
        Claim {
            paper: "5.1",
            claim: "Where nothing is accepted the guarantee ratio is shown as 0",
            ours: format!("{:.2} where {:.3} is accepted", none.kept, none.accepted),
            verdict: ClaimVerdict::of(none.accepted > 0.0 || none.kept == 0.0, false),
        },
    ]
}

fn guarantees(results: &ClaimResults<'_>) -> Vec<Claim> {
    let ClaimResults { exact, bad, .. } = *results;
    let perfect = [Device::Poly, Device::Ns].map(|device| results.of(device, MIDDLE, exact, NONE));
    let qoes = results.qoes(Device::Poly, NONE, 0.05);
    let worst = qoes
        .iter()
        .map(|qoe| results.of(Device::Poly, MIDDLE, *qoe, NONE).kept)
        .fold(1.0, f64::min);
    let usual = results.of(Device::Poly, MIDDLE, bad, NONE);
    let low = results.group(NONE, UserGroup::B, bad);
    let fair = results.group(NONE, UserGroup::A, bad);

    vec![
        Claim {
            paper: "5.1",
            claim: "The guarantee ratio is perfect when the estimates are exact",
            ours: format!(
                "{:.3} (PolyDevice), {:.3} (NS-Device)",
                perfect[0].kept, perfect[1].kept
            ),
            verdict: ClaimVerdict::of(
                perfect.iter().all(|found| found.kept == 1.0),
                perfect[0].kept > 0.99,
            ),
        },
        Claim {
            paper: "5.1",
            claim: "Even when estimates vary widely it rarely drops",
            ours: format!(
                "at least {worst:.3} wherever 5 % or more are accepted (PolyDevice, N = 32)"
            ),
            verdict: ClaimVerdict::of(worst >= 0.97, worst >= 0.9),
        },
        Claim {
            paper: "5.1",
            claim: "Deadlines are somewhat permissive, but tight enough that not all batches are accepted",
            ours: format!(
                "with exact estimates {:.2} are accepted and {:.2} of them kept",
                perfect[0].accepted, perfect[0].kept
            ),
            verdict: ClaimVerdict::of(
                perfect[0].accepted < 1.0 && perfect[0].kept > 0.99,
                perfect[0].accepted < 1.0,
            ),
        },
        Claim {
            paper: "5.1",
            claim: "Overall the guarantee ratio is nearly perfect and the acceptance ratio is not",
            ours: format!(
                "{:.2} and {:.2} at Q = {:.0} %",
                usual.kept,
                usual.accepted,
                100.0 * bad
            ),
            verdict: ClaimVerdict::of(
                usual.kept > 0.97 && usual.accepted < 0.9,
                usual.kept > usual.accepted,
            ),
        },
        Claim {
            paper: "5.1",
            claim: "So users could provide underestimates on purpose to be accepted more often",
            ours: format!(
                "without enforcement {:.2} of those who underestimate are accepted, {:.2} of the others (NS-Device, both present)",
                low.accepted, fair.accepted
            ),
            verdict: ClaimVerdict::of(
                low.accepted > fair.accepted + EVEN,
                low.accepted > fair.accepted,
            ),
        },
    ]
}

fn hard(results: &ClaimResults<'_>) -> Vec<Claim> {
    let ClaimResults { bad, .. } = *results;
    let none = results.of(Device::Poly, MIDDLE, bad, NONE);
    let hard = results.of(Device::Poly, MIDDLE, bad, HARD);
    let cell = results.cell(Device::Poly, MIDDLE, bad, HARD);
    let killed = part(cell, |c| c.killed, |c| c.tasks);
    let lost = 1.0 - part(cell, |c| c.kept, |c| c.accepted);
    let gains = results.table.qoes.iter().map(|qoe| {
        results.of(Device::Poly, MIDDLE, *qoe, HARD).accepted
            - results.of(Device::Poly, MIDDLE, *qoe, NONE).accepted
    });
    let most = gains.fold(f64::NEG_INFINITY, f64::max);

    vec![
        Claim {
            paper: "5.1",
            claim: "When jobs that exceed their estimate are killed to accept others, many fewer batches complete",
            ours: format!(
                "guarantee {:.2} instead of {:.2} at Q = {:.0} % (PolyDevice)",
                hard.kept,
                none.kept,
                100.0 * bad
            ),
            verdict: ClaimVerdict::of(hard.kept < none.kept - 0.2, hard.kept < none.kept - EVEN),
        },
        Claim {
            paper: "5.1",
            claim: "That is aggravated by counting batches: one job killed slightly over time loses the whole batch",
            ours: format!(
                "{:.1} % of the tasks are killed, and {:.0} % of the batches lost",
                100.0 * killed,
                100.0 * lost
            ),
            verdict: ClaimVerdict::of(lost > 5.0 * killed, lost > killed),
        },
        Claim {
            paper: "5.1",
            claim: "There is little to no gain in acceptance",
            ours: format!("at most {most:+.3} at any Q"),
            verdict: ClaimVerdict::of(most < EVEN, most < 0.1),
        },
    ]
}

/// The sentences about killed tasks and the effect of killing them.
fn killed(results: &ClaimResults<'_>) -> Vec<Claim> {
    let cell = results.cell(Device::Poly, MIDDLE, results.bad, HARD);
    let close = part(cell, |c| c.close, |c| c.killed);
    let just = part(cell, |c| c.just, |c| c.killed);
    let freed = cell.map_or(f64::NAN, |cell| {
        cell.sum(|c| c.freed_s) / cell.sum(|c| c.asked_s)
    });

    vec![
        Claim {
            paper: "5.1",
            claim: "Many of the killed jobs were close to completion",
            ours: format!(
                "{:.0} % had a quarter of their run time left or less; {:.0} % had exceeded their estimate by a quarter or less",
                100.0 * close,
                100.0 * just
            ),
            verdict: ClaimVerdict::of(close > 0.5, close > 0.25),
        },
        Claim {
            paper: "5.1",
            claim: "So very little schedule time was freed",
            ours: format!("{:.1} % of what the accepted tasks take", 100.0 * freed),
            verdict: ClaimVerdict::of(freed < 0.05, freed < 0.1),
        },
    ]
}

/// The sentences that compare with the other device.
fn similar(results: &ClaimResults<'_>) -> Vec<Claim> {
    let ClaimResults { bad, .. } = *results;
    let ns = results.of(Device::Ns, MIDDLE, bad, NONE);
    let ns_hard = results.of(Device::Ns, MIDDLE, bad, HARD);
    vec![Claim {
        paper: "5.1",
        claim: "Real NS-2 run times give similar results (Figures 4 and 5)",
        ours: format!(
            "NS-Device at Q = {:.0} %: accepted {:.2} and {:.2}, kept {:.2} without and {:.2} with hard enforcement",
            100.0 * bad,
            ns.accepted,
            ns_hard.accepted,
            ns.kept,
            ns_hard.kept
        ),
        verdict: ClaimVerdict::of(
            ns.kept > 0.97
                && ns_hard.kept < ns.kept - 0.2
                && (ns.accepted - ns_hard.accepted).abs() < EVEN,
            ns_hard.kept < ns.kept,
        ),
    }]
}

fn graces(results: &ClaimResults<'_>) -> Vec<Claim> {
    let ClaimResults { bad, .. } = *results;
    let kept = |part: &&str| results.of(Device::Poly, MIDDLE, bad, &grace(part)).kept;
    let hard = results.of(Device::Poly, MIDDLE, bad, HARD).kept;
    let series = std::iter::once(hard)
        .chain(GRACES.iter().map(kept))
        .collect::<Vec<_>>();
    let rising = series.windows(2).all(|pair| pair[1] >= pair[0] - 0.01);
    let low = results.group(&grace("0.5"), UserGroup::B, bad);

    let fair = results.group(&grace("0.5"), UserGroup::A, bad);
    let words: Vec<String> = series.iter().map(|kept| format!("{kept:.2}")).collect();
    vec![
        Claim {
            paper: "5.2",
            claim: "Larger grace periods give more throughput, by the guarantee ratio",
            ours: format!(
                "{} for K = 0, 0.1, 0.25, 0.5, 1 at Q = {:.0} % (PolyDevice)",
                words.join(", "),
                100.0 * bad
            ),
            verdict: ClaimVerdict::of(
                rising && series[series.len() - 1] > hard + 0.2,
                series[series.len() - 1] > hard,
            ),
        },
        Claim {
            paper: "5.2",
            claim: "But that is an unfair policy that is easily manipulated",
            ours: format!(
                "at K = 0.5 those who underestimate have {:.2} accepted and {:.2} kept, the others {:.2} and {:.2} (NS-Device)",
                low.accepted, low.kept, fair.accepted, fair.kept
            ),
            verdict: ClaimVerdict::of(
                low.accepted > fair.accepted + EVEN && low.kept > 0.9,
                low.accepted > fair.accepted,
            ),
        },
    ]
}

fn probabilistic(results: &ClaimResults<'_>) -> Vec<Claim> {
    let ClaimResults { bad, .. } = *results;
    let of = |policy: &str| results.of(Device::Ns, MIDDLE, bad, policy);
    let none = of(NONE);
    let hard = of(HARD);
    let probabilistic = of(PROBABILISTIC);
    let apart = results
        .table
        .qoes
        .iter()
        .flat_map(|qoe| {
            let of = |policy: &str| results.of(Device::Ns, MIDDLE, *qoe, policy).accepted;
            [NONE, HARD].map(|policy| (of(policy) - of(PROBABILISTIC)).abs())
        })
        .fold(0.0, f64::max);

    let of_tasks = |policy: &str| {
        part(
            results.cell(Device::Ns, MIDDLE, bad, policy),
            |c| c.just,
            |c| c.tasks,
        )
    };
    let just_hard = of_tasks(HARD);
    let just_prob = of_tasks(PROBABILISTIC);
    let below: Vec<f64> = results.qoes(Device::Ns, NONE, 0.2);
    let under = below.iter().filter(|qoe| {
        let of = |policy: &str| results.of(Device::Ns, MIDDLE, **qoe, policy).kept;
        of(PROBABILISTIC) < of(NONE)
    });
    let under = under.count();

    let all = below.len();
    vec![
        Claim {
            paper: "5.3",
            claim: "Acceptance matches up with that of hard enforcement and of none",
            ours: format!("at most {apart:.3} apart at any Q (NS-Device, N = 32)"),
            verdict: ClaimVerdict::of(apart < EVEN, apart < 0.1),
        },
        Claim {
            paper: "5.3",
            claim: "The guarantee ratio is much improved",
            ours: format!(
                "{:.2} instead of {:.2} with hard enforcement at Q = {:.0} %",
                probabilistic.kept,
                hard.kept,
                100.0 * bad
            ),
            verdict: ClaimVerdict::of(
                probabilistic.kept > hard.kept + 0.2,
                probabilistic.kept > hard.kept,
            ),
        },
        Claim {
            paper: "5.3",
            claim: "That is since the policy rarely kills jobs that are near their estimate",
            ours: format!(
                "of all accepted tasks {:.2} % are killed within a quarter beyond their estimate, with hard enforcement {:.2} %",
                100.0 * just_prob,
                100.0 * just_hard
            ),
            verdict: ClaimVerdict::of(just_prob < 0.25 * just_hard, just_prob < just_hard),
        },
        Claim {
            paper: "5.3",
            claim: "It still does not approach that of the unpoliced system",
            ours: format!(
                "{:.2} and {:.2} at Q = {:.0} %; below it at {under} of {all} qualities with errors",
                probabilistic.kept,
                none.kept,
                100.0 * bad
            ),
            verdict: ClaimVerdict::of(
                probabilistic.kept < none.kept - EVEN && under == all,
                probabilistic.kept < none.kept,
            ),
        },
    ]
}

fn groups(results: &ClaimResults<'_>) -> Vec<Claim> {
    let ClaimResults { bad, .. } = *results;
    let fair = results.group(PROBABILISTIC, UserGroup::A, bad);
    let low = results.group(PROBABILISTIC, UserGroup::B, bad);
    let cell = results
        .table
        .groups(MIDDLE, bad, PROBABILISTIC, Pressure::Usual);
    let killed = |group| {
        cell.map_or(f64::NAN, |cell| {
            cell.part_of(group, |c| c.killed, |c| c.tasks)
        })
    };
    let killed_a = killed(UserGroup::A);

    let killed_b = killed(UserGroup::B);
    let ordered: Vec<f64> = results
        .table
        .qoes
        .iter()
        .copied()
        .filter(|qoe| *qoe > 0.0 && *qoe <= bad)
        .collect();
    let better = ordered.iter().filter(|qoe| {
        results.group(PROBABILISTIC, UserGroup::A, **qoe).kept
            > results.group(PROBABILISTIC, UserGroup::B, **qoe).kept
    });
    let better = better.count();
    let order =
        [NONE, PROBABILISTIC, HARD].map(|policy| results.of(Device::Ns, MIDDLE, bad, policy).kept);
    vec![
        Claim {
            paper: "5.4",
            claim: "Group A's users obtain better results: more of their accepted batches complete on time",
            ours: format!(
                "kept {:.2} (A) and {:.2} (B) at Q = {:.0} %; more of A's at {better} of {} qualities up to there",
                fair.kept,
                low.kept,
                100.0 * bad,
                ordered.len()
            ),
            verdict: ClaimVerdict::of(
                fair.kept > low.kept + 0.1 && better == ordered.len(),
                fair.kept > low.kept,
            ),
        },
        Claim {
            paper: "5.4",
            claim: "That is because very few of their jobs are killed, compared with group B's",
            ours: format!(
                "{:.2} % of A's tasks and {:.2} % of B's",
                100.0 * killed_a,
                100.0 * killed_b
            ),
            verdict: ClaimVerdict::of(killed_a < 0.5 * killed_b, killed_a < killed_b),
        },
        Claim {
            paper: "Fig. 8",
            claim: "Up to 50 % error, group A is accepted similarly often and kept much more often than group B",
            ours: format!(
                "A loses {:.2} of acceptance and gains {:.2} of guarantee",
                low.accepted - fair.accepted,
                fair.kept - low.kept
            ),
            verdict: ClaimVerdict::of(
                low.accepted - fair.accepted < 0.2 && fair.kept - low.kept > 0.2,
                fair.kept - low.kept > low.accepted - fair.accepted,
            ),
        },
        Claim {
            paper: "Fig. 9",
            claim: "No enforcement lets most batches complete, probabilistic enforcement lies between it and the hard one",
            ours: format!("kept {:.2}, {:.2} and {:.2}", order[0], order[1], order[2]),
            verdict: ClaimVerdict::of(
                order[0] > order[1] && order[1] > order[2] && order[0] > 0.9,
                order[0] > order[2],
            ),
        },
    ]
}

/// The results of ours next to their targets, under the tight deadlines with which the paper's
/// calendar was measured.
pub(super) fn targets(table: &TrialTable) -> Vec<(String, f64, f64)> {
    let bad = table.near(0.5);
    let found = |device| {
        let trial = Trial {
            pressure: Pressure::Tight,
            ..Trial::usual(device, MIDDLE, bad, super::OURS)
        };
        ratios(table.cell(&trial), UserGroup::A)
    };
    let poly = found(Device::Poly);
    let ns = found(Device::Ns);

    vec![
        ("acceptance, PolyDevice".to_owned(), poly.accepted, 0.85),
        ("acceptance, NS-Device".to_owned(), ns.accepted, 0.9),
        ("guarantee, PolyDevice".to_owned(), poly.kept, 0.97),
        ("guarantee, NS-Device".to_owned(), ns.kept, 0.97),
    ]
}
