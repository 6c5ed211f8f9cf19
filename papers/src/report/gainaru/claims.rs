//! The paper's claims, the measured results, and verdicts on whether these confirm the claims.
//! Verdicts are computed from the results, not typed.

use super::scenarios::{LAWS, ScenarioResults, StrategyResults};
use crate::report::claim::{Claim, ClaimVerdict, percents};

fn times(values: &[f64]) -> String {
    values
        .iter()
        .map(|value| format!("x{value:.2}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The utilisation of one way among these.
fn used(cells: &[StrategyResults], who: &str) -> f64 {
    StrategyResults::of(cells, who).map_or(f64::NAN, |cell| cell.utilisation.value)
}

/// Computes every claim, in the paper's order.
pub(super) fn claims(found: &ScenarioResults) -> Vec<Claim> {
    let mut all = vec![table(found)];
    all.extend(gains(found));
    all.push(widths(found));
    all.extend(histories(found));
    all.extend(backfilling(found));
    all.extend(streams(found));
    all.extend(intrepid(found));
    all
}

/// The numbers of Table 1 as printed; the paper truncates them.
const TABLE: [&[f64]; 5] = [
    &[20.0],
    &[10.8, 13.4, 15.4, 17.1, 18.7, 20.0],
    &[10.86, 13.91, 18.69, 20.0],
    &[13.04, 20.0],
    &[17.39, 20.0],
];

fn table(found: &ScenarioResults) -> Claim {
    let same = |(known, (_, sequence)): (&&[f64], &(&str, scheduler::reservation::Sequence))| {
        let close = |(known, limit): (&f64, &f64)| (-1e-9..0.01).contains(&(limit - known));
        known.len() == sequence.limits.len() && known.iter().zip(&sequence.limits).all(close)
    };
    let right = TABLE
        .iter()
        .zip(&found.table)
        .filter(|pair| same(*pair))
        .count();

    Claim {
        claim: "Table 1: the sequences for the truncated normal law",
        paper: "five sequences",
        ours: format!("{right} of 5 to the printed digits"),
        verdict: ClaimVerdict::of(right == 5, right > 0),
    }
}

/// The factors by which TOptimal is better than the better of HPC and Neuroscience: in utilisation,
/// and in response time.
fn gain(found: &ScenarioResults, law: &str, widths: &str) -> (f64, f64) {
    let of = |who| found.cell(law, widths, who);
    let (Some(hpc), Some(neuro), Some(ours)) = (of("HPC"), of("Neuroscience"), of("TOptimal"))
    else {
        return (f64::NAN, f64::NAN);
    };
    (
        ours.utilisation.value / hpc.utilisation.value.max(neuro.utilisation.value),
        hpc.response.value.min(neuro.response.value) / ours.response.value,
    )
}

fn gains(found: &ScenarioResults) -> [Claim; 4] {
    let light = ["TruncN[6,16]", "Beta[0,1]"];
    let heavy = ["Exp[0,16]", "Pareto[1,20]"];
    let of = |laws: [&str; 2]| {
        laws.map(|law| ["Full", "Beta"].map(|widths| gain(found, law, widths)))
            .concat()
    };
    let light = of(light);
    let heavy = of(heavy);
    let more: Vec<f64> = light.iter().map(|gain| gain.0 - 1.0).collect();

    let sooner: Vec<f64> = light.iter().map(|gain| 1.0 - 1.0 / gain.1).collect();
    let times_more: Vec<f64> = heavy.iter().map(|gain| gain.0).collect();
    let times_sooner: Vec<f64> = heavy.iter().map(|gain| gain.1).collect();
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);

    [
        Claim {
            claim: "TOptimal's utilisation against the better of HPC and Neuroscience, truncated normal and Beta (Full, Beta each)",
            paper: "+10 to +11 %",
            verdict: ClaimVerdict::of((mean(&more) - 0.105).abs() < 0.015, least(&more) > 0.0),
            ours: percents(&more),
        },
        Claim {
            claim: "its response time there",
            paper: "12 to 14 % shorter",
            verdict: ClaimVerdict::of((mean(&sooner) - 0.13).abs() < 0.02, least(&sooner) > 0.0),
            ours: percents(&sooner),
        },
        Claim {
            claim: "its utilisation for the exponential and the Pareto law",
            paper: "more than x1.5",
            verdict: ClaimVerdict::of(least(&times_more) > 1.5, least(&times_more) > 1.0),
            ours: times(&times_more),
        },
        Claim {
            claim: "its response time there",
            paper: "more than x2.5 shorter",
            verdict: ClaimVerdict::of(least(&times_sooner) > 2.5, least(&times_sooner) > 1.0),
            ours: times(&times_sooner),
        },
    ]
}

fn widths(found: &ScenarioResults) -> Claim {
    let better = |(_, _, cells): &&(&str, &str, Vec<StrategyResults>)| {
        used(cells, "TOptimal") > used(cells, "HPC")
    };

    let paper = found.first.iter().filter(|(law, ..)| *law != LAWS[0].0);
    let all = paper.clone().count();
    let good = paper.filter(better).count();
    Claim {
        claim: "TOptimal uses the machine better than HPC whatever the laws of run times and processors (Figure 3)",
        paper: "16 of 16",
        ours: format!("{good} of {all}"),
        verdict: ClaimVerdict::of(good == all, 2 * good > all),
    }
}

fn histories(found: &ScenarioResults) -> [Claim; 2] {
    let best = found
        .histories
        .iter()
        .max_by(|a, b| a.1.utilisation.value.total_cmp(&b.1.utilisation.value));
    let runs = best.map_or(0, |(runs, _)| *runs);
    let hpc = used(&found.history_peers, "HPC");
    let off = |at: Option<&(u32, StrategyResults)>| {
        at.map_or(f64::NAN, |(_, cell)| cell.utilisation.value / hpc - 1.0)
    };
    let best_off = off(best);
    let last = off(found.histories.last());

    [
        Claim {
            claim: "Neuroscience is best when it looks at about 10 past runs (Figure 4)",
            paper: "10 runs",
            ours: format!("{runs} runs"),
            verdict: ClaimVerdict::of((5..=20).contains(&runs), (2..=50).contains(&runs)),
        },
        Claim {
            claim: "with a longer history it comes near HPC",
            paper: "yes",
            ours: format!(
                "from {} over HPC to {}",
                percents(&[best_off]),
                percents(&[last])
            ),
            verdict: ClaimVerdict::of(last.abs() < 0.5 * best_off, last < best_off),
        },
    ]
}

fn backfilling(found: &ScenarioResults) -> [Claim; 3] {
    let ratio = |a: &str, b: &str| -> Vec<f64> {
        found
            .second
            .iter()
            .map(|(_, cells)| used(cells, a) / used(cells, b))
            .collect()
    };
    let hpc = ratio("HPC, speculative", "HPC, classic");
    let ours = ratio("TOptimal, speculative", "TOptimal, classic");
    let crossing = ratio("HPC, speculative", "TOptimal, classic");
    let from = found
        .second
        .iter()
        .zip(&crossing)
        .find(|(_, ratio)| **ratio >= 1.0)
        .map(|((percent, _), _)| *percent);

    let hpc = mean(&hpc) - 1.0;
    let ours = mean(&ours) - 1.0;
    [
        Claim {
            claim: "speculative backfilling helps HPC drastically (Figure 5)",
            paper: "drastically",
            ours: format!("utilisation {} on average", percents(&[hpc])),
            verdict: ClaimVerdict::of(hpc > 0.15, hpc > 0.05),
        },
        Claim {
            claim: "and TOptimal only slightly",
            paper: "slightly",
            ours: format!("utilisation {} on average", percents(&[ours])),
            verdict: ClaimVerdict::of((0.0..0.5 * hpc).contains(&ours), ours < hpc),
        },
        Claim {
            claim: "from half small jobs on HPC with speculative backfilling needs no sequences",
            paper: "from 50 %",
            ours: from.map_or_else(|| "never".to_owned(), |percent| format!("from {percent} %")),
            verdict: ClaimVerdict::of(
                from.is_some_and(|from| (30..=60).contains(&from)),
                from.is_some(),
            ),
        },
    ]
}

fn streams(found: &ScenarioResults) -> [Claim; 3] {
    let best = |(_, cells): &&(f64, Vec<StrategyResults>)| {
        let used = |who| used(cells, who);
        // Differences beyond the third digit do not count.
        used("ATOptimal") + 5e-4 >= used("HPC").max(used("TOptimal"))
    };
    let over_hpc = |(_, cells): &&(f64, Vec<StrategyResults>)| {
        used(cells, "ATOptimal") + 5e-4 >= used(cells, "HPC")
    };
    let all = found.third.len();
    let good = found.third.iter().filter(best).count();
    let over = found.third.iter().filter(over_hpc).count();

    let large = |who: &str| -> Vec<f64> {
        found
            .third
            .iter()
            .map(|(_, cells)| {
                StrategyResults::of(cells, who).map_or(f64::NAN, |cell| cell.large.value)
            })
            .collect()
    };
    let topt = large("TOptimal");
    let atopt = large("ATOptimal");
    let hpc = large("HPC");
    let between = (0..all)
        .filter(|at| topt[*at] <= atopt[*at] + 0.5 && atopt[*at] <= hpc[*at] + 0.5)
        .count();
    let rising = atopt
        .windows(2)
        .filter(|pair| pair[1] + 0.5 >= pair[0])
        .count();

    let ends = |values: &[f64]| {
        (
            values.first().copied().unwrap_or(f64::NAN),
            values.last().copied().unwrap_or(f64::NAN),
        )
    };

    [
        Claim {
            claim: "with small work ATOptimal's utilisation is always highest (Figure 6)",
            paper: "at all rates",
            ours: format!("at {good} of {all} rates; at {over} not below HPC"),
            verdict: ClaimVerdict::of(good == all, 2 * over > all),
        },
        Claim {
            claim: "large jobs' responses: TOptimal's shortest, HPC's longest, ATOptimal's between (Figure 7)",
            paper: "at all rates",
            ours: format!(
                "at {between} of {all}: {:.0} h, {:.0} to {:.0} h, {:.0} h",
                ends(&topt).0,
                ends(&atopt).0,
                ends(&atopt).1,
                ends(&hpc).0
            ),
            verdict: ClaimVerdict::of(between == all, 2 * between > all),
        },
        Claim {
            claim: "and ATOptimal's rises with the rate",
            paper: "yes",
            ours: format!("in {rising} of {} steps", all - 1),
            verdict: ClaimVerdict::of(rising == all - 1, ends(&atopt).1 > ends(&atopt).0),
        },
    ]
}

fn intrepid(found: &ScenarioResults) -> [Claim; 3] {
    let of = |who: &str| StrategyResults::of(&found.fourth, who);
    let against = |who: &str, than: &str| match (of(who), of(than)) {
        (Some(a), Some(b)) => (
            a.utilisation.value / b.utilisation.value - 1.0,
            1.0 - a.response.value / b.response.value,
        ),
        _ => (f64::NAN, f64::NAN),
    };
    let plain = against("ATOptimal, classic", "HPC, classic");
    let hpc = against("HPC, speculative", "HPC, classic");
    let ours = against("ATOptimal, speculative", "ATOptimal, classic");
    let whole = against("ATOptimal, speculative", "HPC, classic");

    let told = |(used, response): (f64, f64)| {
        format!(
            "utilisation {}, response {}",
            percents(&[used]),
            percents(&[-response])
        )
    };

    let near = |(used, response): (f64, f64), low: f64, high: f64| {
        (low..=high).contains(&used) && (low..=high).contains(&response)
    };
    [
        Claim {
            claim: "two weeks on Intrepid: ATOptimal against HPC, both with classic backfilling (Figure 8)",
            paper: "both about 20 % better",
            ours: told(plain),
            verdict: ClaimVerdict::of(near(plain, 0.15, 0.25), plain.0 > 0.0 || plain.1 > 0.0),
        },
        Claim {
            claim: "speculative backfilling helps both further",
            paper: "yes",
            ours: format!("HPC: {}; ATOptimal: {}", told(hpc), told(ours)),
            verdict: ClaimVerdict::of(
                [hpc, ours].iter().all(|gain| gain.0 > 0.0 && gain.1 > 0.0),
                [hpc, ours].iter().any(|gain| gain.0 > 0.0 || gain.1 > 0.0),
            ),
        },
        Claim {
            claim: "both together, against HPC with classic backfilling",
            paper: "25 to 30 % better",
            ours: told(whole),
            verdict: ClaimVerdict::of(near(whole, 0.22, 0.33), whole.0 > 0.0 || whole.1 > 0.0),
        },
    ]
}
