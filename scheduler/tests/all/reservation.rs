//! Reservation sequences: known answers, brute force, the definition of the expected cost, and
//! learned laws. The known answers (`tests/vectors/gainaru.json`) were computed by independent
//! programs.

use proptest::prelude::*;
use scheduler::reservation::{
    GapCandidate, LearnedLaw, NamedLaw, ObservedRun, ProcessorGap, RunTimeGrid, RunTimes, Window,
    Windows, adaptive_time_optimal, cost_under, fill, gain, hour_of_week, limit_after, optimal,
    time_optimal,
};
use serde_json::Value;

use crate::known::{Chance, list, number};

fn vectors() -> Value {
    serde_json::from_str(include_str!("../vectors/gainaru.json"))
        .expect("the known answers are JSON")
}

fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .expect("a list")
        .iter()
        .map(number)
        .collect()
}

fn points(value: &Value) -> Vec<usize> {
    numbers(value)
        .into_iter()
        .map(|number| number as usize)
        .collect()
}

/// The law that the known answers call so: `tnorm mu=8 sigma=2 [0,20]`.
fn law(name: &str) -> NamedLaw {
    let (head, support) = name.split_once('[').expect("a support");
    let support = support.split(']').next().unwrap_or_default();
    let mut words = head.split_whitespace();
    let (family, given) = match words.next().expect("a family") {
        "tnorm" => ("truncnorm", vec![]),
        "beta22" => ("beta", vec!["2", "2"]),
        "exp" => ("exponential", vec![]),
        other => (other, vec![]),
    };

    let parameters = words.map(|word| word.split_once('=').expect("name=value").1);
    let all: Vec<&str> = std::iter::once(support)
        .chain(given)
        .chain(parameters)
        .collect();

    format!("{family}:{}", all.join(","))
        .parse()
        .unwrap_or_else(|why| panic!("{name}: {why}"))
}

fn near(found: f64, expected: f64, what: &dyn std::fmt::Debug) {
    // The answers have nine places.
    assert!(
        (found - expected).abs() <= 1e-9 * expected.abs().max(1.0) + 5e-10,
        "{found} for {expected}: {what:?}"
    );
}

#[test]
fn every_known_sequence_has_its_known_cost() {
    for case in list(&vectors(), "sequences") {
        let law = law(case["dist"].as_str().expect("a law"));
        let zeta = number(&case["zeta"]);
        let grid = RunTimeGrid::of(&law, number(&case["n"]) as usize);
        let found = optimal(&grid, zeta);
        near(found.cost, number(&case["E"]), case);
        near(
            grid.cost(zeta, &points(&case["idx"])),
            number(&case["E"]),
            case,
        );
        near(grid.cost(zeta, &found.points), number(&case["E"]), case);
    }
}

#[test]
fn small_cases_have_the_cost_that_trying_every_sequence_found() {
    for case in list(&vectors(), "small_brute_force") {
        let law = law(case["dist"].as_str().expect("a law"));
        let grid = RunTimeGrid::of(&law, number(&case["n"]) as usize);
        for (part, known) in grid.parts().iter().zip(numbers(&case["f"])) {
            assert!((part - known).abs() < 1e-9, "{part} for {known}: {case}");
        }
        near(
            optimal(&grid, number(&case["zeta"])).cost,
            number(&case["E"]),
            case,
        );
    }
}

#[test]
fn the_cost_of_a_limit_sequence_matches_theorem_1() {
    let law = law("tnorm mu=8 sigma=2 [0,20]");
    for case in list(&vectors(), "theorem1_values") {
        let grid = RunTimeGrid::of(&law, number(&case["n"]) as usize);
        near(
            grid.cost(number(&case["zeta"]), &points(&case["idx"])),
            number(&case["E"]),
            case,
        );
    }

    let exact = &vectors()["exact_small_case"];
    let grid = RunTimeGrid::new(0.0, 1.0, vec![0.0, 0.25, 0.25, 0.25, 0.25]);
    for case in list(exact, "values") {
        near(
            grid.cost(number(&case["zeta"]), &points(&case["idx"])),
            number(&case["E"]),
            case,
        );
    }
}

#[test]
fn table_1_comes_out_to_its_printed_digits() {
    let law = law("tnorm mu=8 sigma=2 [0,20]");
    let plain = time_optimal(&RunTimeGrid::of(&law, 200));
    let printed = |limits: &[f64], places: usize| -> Vec<String> {
        // The paper cuts digits off, it does not round.
        let cut = |limit: &f64| {
            (limit * 10_f64.powi(places as i32) + 1e-6).floor() / 10_f64.powi(places as i32)
        };
        limits
            .iter()
            .map(|limit| format!("{:.places$}", cut(limit)))
            .collect()
    };
    assert_eq!(
        printed(&plain.limits, 1),
        ["10.8", "13.4", "15.4", "17.1", "18.7", "20.0"]
    );
    assert!((plain.cost - 11.937_460_987).abs() < 1e-9, "{}", plain.cost);

    let adaptive = |zeta| {
        printed(
            &adaptive_time_optimal(&RunTimeGrid::of(&law, 46), zeta).limits,
            2,
        )
    };
    assert_eq!(adaptive(0.1), ["10.86", "13.91", "18.69", "20.00"]);
    assert_eq!(adaptive(0.5), ["13.04", "20.00"]);
    assert_eq!(adaptive(0.9), ["17.39", "20.00"]);
}

#[test]
fn runs_that_were_seen_give_the_known_limits() {
    for case in list(&vectors(), "empirical") {
        let runs: Vec<ObservedRun> = numbers(&case["runs"])
            .into_iter()
            .map(ObservedRun::done)
            .collect();
        let grid = RunTimeGrid::of(
            &LearnedLaw::observed(&runs).expect("there are runs"),
            number(&case["n"]) as usize,
        );
        let found = optimal(&grid, number(&case["zeta"]));
        near(found.cost, number(&case["E"]), case);
        for (limit, known) in found.limits.iter().zip(numbers(&case["seq"])) {
            near(*limit, known, case);
        }
    }
}

/// Returns the gain of a candidate in a window of random length of `processors` processors.
fn gain_while(
    open: &dyn Fn(f64) -> f64,
    horizon: f64,
    processors: f64,
    candidate: &GapCandidate<'_, NamedLaw>,
) -> f64 {
    Window::new(open, horizon, candidate.law)
        .gain(candidate.failed, candidate.processors / processors)
}

#[test]
fn gaps_have_their_known_gain() {
    for case in list(&vectors(), "gap_gain") {
        let law = law(case["dist"].as_str().expect("a law"));
        let candidate = GapCandidate {
            law: &law,
            failed: number(&case["low"]),
            processors: number(&case["p"]),
        };
        let gap = ProcessorGap {
            length: number(&case["gap"]),
            processors: number(&case["q"]),
        };
        let found = gain(gap, &candidate);
        assert!((found - number(&case["G"])).abs() < 1e-8, "{found}: {case}");

        let sure = |time: f64| if time <= gap.length { 1.0 } else { 0.0 };
        let open = gain_while(&sure, gap.length, gap.processors, &candidate);
        assert!(
            (open - found).abs() < 1e-9,
            "a window that is sure is a gap: {open} and {found}: {case}"
        );
    }
}

#[test]
fn a_gap_goes_to_the_candidate_with_the_largest_gain() {
    let short = law("uniform [0,10]");
    let long = law("uniform [5,10]");
    let one = |law, processors| GapCandidate {
        law,
        failed: 0.0,
        processors,
    };
    let gap = ProcessorGap {
        length: 4.0,
        processors: 10.0,
    };

    // Who cannot be done has no gain; who is wider has more; who is too wide has none; of equals
    // the first.
    assert_eq!(fill(gap, &[one(&long, 10.0)]), None);
    assert_eq!(
        fill(gap, &[one(&long, 10.0), one(&short, 3.0), one(&short, 6.0)]).map(|found| found.0),
        Some(2)
    );
    assert_eq!(
        fill(
            gap,
            &[one(&short, 11.0), one(&short, 6.0), one(&short, 6.0)]
        )
        .map(|found| found.0),
        Some(1)
    );

    // Who failed at 3 already has less chance to be done by 4.
    let failed = GapCandidate {
        failed: 3.0,
        ..one(&short, 10.0)
    };
    let exact = (16.0 - 9.0) / 20.0 / 4.0 / 0.7;
    assert!((gain(gap, &failed) - exact).abs() < 1e-9);
}

/// G as the sum of which its integral is the limit.
fn in_small_steps(gap: ProcessorGap, candidate: &GapCandidate<'_, NamedLaw>) -> f64 {
    let GapCandidate {
        law,
        failed,
        processors,
    } = candidate;
    let most = gap.length.min(law.support().1);
    let left = 1.0 - law.cdf(*failed);
    if *processors > gap.processors || most <= *failed || left <= 0.0 {
        return 0.0;
    }

    let at = |step: u32| failed + (most - failed) * f64::from(step) / 5_000.0;
    let part = |step| (at(step) + at(step + 1)) / 2.0 * (law.cdf(at(step + 1)) - law.cdf(at(step)));
    processors / gap.processors * (0..5_000).map(part).sum::<f64>() / gap.length / left
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_gap_is_filled_with_the_largest_gain_that_there_is(
        (length, processors) in (0.5..14.0_f64, 1_u8..12),
        who in prop::collection::vec((0.0..8.0_f64, 0.5..6.0_f64, 0.0..10.0_f64, 1_u8..12, any::<bool>()), 1..6),
    ) {
        let law = |(low, width, _, _, even): &(f64, f64, f64, u8, bool)| -> NamedLaw {
            let high = low + width;
            let mean = low + width / 3.0;
            let text = if *even { format!("uniform:{low},{high}") } else { format!("truncnorm:{low},{high},{mean},1") };
            text.parse().expect("a law")
        };
        let laws: Vec<NamedLaw> = who.iter().map(law).collect();
        let gap = ProcessorGap { length, processors: f64::from(processors) };
        let of = |(law, (_, _, failed, processors, _)): (_, &(f64, f64, f64, u8, bool))| {
            GapCandidate { law, failed: *failed, processors: f64::from(*processors) }
        };
        let candidates: Vec<GapCandidate<'_, NamedLaw>> = laws.iter().zip(&who).map(of).collect();
        let gains: Vec<f64> = candidates.iter().map(|candidate| in_small_steps(gap, candidate)).collect();
        for (candidate, slowly) in candidates.iter().zip(&gains) {
            prop_assert!((gain(gap, candidate) - slowly).abs() < 1e-3, "{} and {slowly}", gain(gap, candidate));
        }

        let most = gains.iter().copied().fold(0.0, f64::max);
        match fill(gap, &candidates) {
            Some((at, _)) => prop_assert!(gains[at] > most - 2e-3, "{} of {gains:?}", gains[at]),
            None => prop_assert!(most < 1e-3, "nobody though {gains:?}"),
        }
    }

    /// Each end that the window may have is a gap.
    #[test]
    fn the_gain_of_a_window_averages_its_possible_gaps_by_length(
        ends in prop::collection::vec((1_u8..=16, 0.05..1.0_f64), 1..6),
        (low, failed) in (0.0..12.0_f64, 0.0..15.0_f64),
    ) {
        let law: NamedLaw = format!("uniform:{low},16").parse().expect("a law");
        let all: f64 = ends.iter().map(|(_, weight)| weight).sum();
        let open = |time: f64| -> f64 {
            ends.iter().filter(|(end, _)| time <= f64::from(*end)).map(|(_, weight)| weight / all).sum()
        };
        let candidate = GapCandidate { law: &law, failed, processors: 1.0 };
        let use_of = |end: f64| gain(ProcessorGap { length: end, processors: 1.0 }, &candidate) * end;
        let useful: f64 = ends.iter().map(|(end, weight)| weight * use_of(f64::from(*end))).sum();

        let length: f64 = ends.iter().map(|(end, weight)| weight * f64::from(*end)).sum();
        let found = gain_while(&open, 16.0, 1.0, &candidate);
        prop_assert!((found - useful / length).abs() < 1e-9, "{found} and {}", useful / length);
    }
}

/// The expected cost by its definition: the mean over all run times of what this one costs.
fn by_definition(grid: &RunTimeGrid, zeta: f64, points: &[usize]) -> f64 {
    let cost = |run: usize| {
        let time = grid.time(run);
        let mut spent = 0.0;
        for &point in points {
            let limit = grid.time(point);
            if run <= point {
                return f64::max(spent + limit, (spent + time) / (1.0 - zeta));
            }
            spent += limit;
        }
        panic!("no limit suffices for {time}")
    };

    grid.parts()
        .iter()
        .enumerate()
        .skip(1)
        .map(|(run, part)| part * cost(run))
        .sum()
}

/// Every sequence over these points that ends with the last.
fn every_sequence(n: usize) -> impl Iterator<Item = Vec<usize>> {
    (0..1_u32 << (n - 1)).map(move |bits| {
        (1..n)
            .filter(|i| bits >> (i - 1) & 1 == 1)
            .chain([n])
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_programmes_equal_brute_force(
        weights in prop::collection::vec(prop_oneof![1 => Just(0.0), 4 => 0.01..1.0_f64], 1..10),
        low in prop_oneof![Just(0.0), 0.1..5.0_f64],
        step in 0.1..3.0_f64,
        zeta in prop_oneof![Just(0.0), 0.01..0.98_f64],
    ) {
        prop_assume!(weights.last().is_some_and(|weight| *weight > 0.0));
        let all: f64 = weights.iter().sum();
        let parts = std::iter::once(0.0).chain(weights.iter().map(|weight| weight / all));
        let grid = RunTimeGrid::new(low, step, parts.collect());
        let found = optimal(&grid, zeta);
        prop_assert_eq!(found.points.last(), Some(&grid.last()));

        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(1.0);
        let own = by_definition(&grid, zeta, &found.points);
        prop_assert!(close(found.cost, own), "{} and by definition {own}", found.cost);

        let mut least = f64::INFINITY;
        for points in every_sequence(grid.last()) {
            let cost = grid.cost(zeta, &points);
            prop_assert!(close(cost, by_definition(&grid, zeta, &points)), "{points:?}: {cost}");
            least = least.min(cost);
        }

        prop_assert!(close(found.cost, least), "{} and by trying all {least}", found.cost);
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn laws_rise_from_0_to_1_and_their_quantiles_are_theirs(
        which in 0..8_usize, from in 0.5..5.0_f64, wide in 1.0..20.0_f64, a in 0.5..4.0_f64, b in 0.5..4.0_f64,
    ) {
        let to = from + wide;
        let text = match which {
            0 => format!("truncnorm:{from},{to},{},{b}", from + wide / 2.0),
            1 => format!("exponential:{from},{to},{a}"),
            2 => format!("beta:{from},{to},{a},{b}"),
            3 => format!("pareto:{from},{to},{a}"),
            4 => format!("lognormal:{from},{to},{a},{b}"),
            5 => format!("weibull:{from},{to},{a},{}", from + b),
            6 => format!("gamma:{from},{to},{a},{b}"),
            _ => format!("uniform:{from},{to}"),
        };

        let Ok(law) = text.parse::<NamedLaw>() else { return Ok(()) };
        prop_assert_eq!(law.to_string().parse::<NamedLaw>(), Ok(law));

        let mut last = 0.0;
        for step in 0..=40 {
            let part = law.cdf(from + wide * f64::from(step) / 40.0);
            prop_assert!((last..=1.0).contains(&part), "{text} at step {step}: {part} after {last}");
            last = part;
        }

        prop_assert_eq!((law.cdf(from), law.cdf(to)), (0.0, 1.0));
        for share in [0.1, 0.5, 0.9] {
            prop_assert!((law.cdf(law.quantile(share)) - share).abs() < 1e-6, "{text}: {share}");
        }

        let mean: f64 = (0..200).map(|i| law.quantile((f64::from(i) + 0.5) / 200.0)).sum::<f64>() / 200.0;
        prop_assert!((law.mean() / mean - 1.0).abs() < 1e-2, "{text}: {} and {mean}", law.mean());
    }

    #[test]
    fn learned_laws_are_laws(
        runs in prop::collection::vec((0.0..100.0_f64, any::<bool>()), 1..30),
    ) {
        let runs: Vec<ObservedRun> = runs.into_iter().map(|(time, done)| ObservedRun { time, done }).collect();
        for law in [LearnedLaw::observed(&runs), LearnedLaw::expected(&runs)].into_iter().flatten() {
            let (low, high) = law.support();
            prop_assert_eq!((low, law.cdf(-1.0), law.cdf(high)), (0.0, 0.0, 1.0));
            let mut last = 0.0;
            for step in 0..=50 {
                let part = law.cdf(high * f64::from(step) / 50.0);
                prop_assert!((last..=1.0).contains(&part), "{part} after {last}: {law:?}");
                last = part;
            }
            let mean = (0..1_000).map(|i| law.quantile((f64::from(i) + 0.5) / 1_000.0)).sum::<f64>() / 1_000.0;
            prop_assert!((law.mean() - mean).abs() < 0.01 * high, "{} and {mean}: {law:?}", law.mean());
            let found = time_optimal(&RunTimeGrid::of(&law, 60));
            prop_assert!(found.cost.is_finite() && found.limits.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}

#[test]
fn without_runs_that_were_cut_off_the_estimate_is_the_share_of_runs() {
    let runs = [4.0, 1.0, 3.0, 3.0].map(ObservedRun::done);
    let law = LearnedLaw::observed(&runs).expect("there are runs");
    assert_eq!(
        [0.5, 1.0, 2.9, 3.0, 4.0].map(|time| law.cdf(time)),
        [0.0, 0.25, 0.25, 0.75, 1.0]
    );
    assert!((law.mean() - 2.75).abs() < 1e-12);
}

#[test]
fn a_run_that_was_cut_off_counts_among_those_that_take_longer() {
    // Kaplan and Meier: at 1 one of four, at 3 one of the two that were still watched.
    let runs = [
        ObservedRun::done(1.0),
        ObservedRun::cut(2.0),
        ObservedRun::done(3.0),
        ObservedRun::cut(5.0),
    ];
    let law = LearnedLaw::observed(&runs).expect("there are runs");
    assert_eq!([1.0, 2.5].map(|time| law.cdf(time)), [0.25, 0.25]);
    assert!((law.cdf(3.0) - 0.625).abs() < 1e-12);
    // What the longest run does not tell lies beyond it.
    let next = LearnedLaw::expected(&runs).expect("there are runs");
    assert!(next.support().1 > 5.0 && next.cdf(5.0) < 1.0);
    assert_eq!(LearnedLaw::observed(&[]), None);
    assert_eq!(LearnedLaw::expected(&[ObservedRun::done(0.0)]), None);
}

#[test]
fn a_few_runs_buy_most_of_the_optimum() {
    let laws = [
        "truncnorm:0,20,8,2",
        "truncnorm:6,16,8,2",
        "beta:0,1,2,2",
        "exponential:0,16,1",
        "pareto:1,20,2.1",
    ];
    for (k, least) in [(5, 0.86), (10, 0.91), (20, 0.94), (50, 0.96), (200, 0.97)] {
        for name in laws {
            let law: NamedLaw = name.parse().expect("a law");
            let best = time_optimal(&RunTimeGrid::of(&law, 200)).cost;
            let mut chance = Chance(k);
            let trials = 100;
            let efficiency = |_| {
                let runs: Vec<ObservedRun> = (0..k)
                    .map(|_| ObservedRun::done(law.quantile(chance.unit())))
                    .collect();
                let learned = LearnedLaw::expected(&runs).expect("there are runs");
                let found = time_optimal(&RunTimeGrid::of(&learned, 200));
                best / cost_under(&found.limits, &law)
            };
            let mean = (0..trials).map(efficiency).sum::<f64>() / f64::from(trials);
            assert!(mean >= least, "{name} from {k} runs: {mean:.3}");
        }
    }
}

#[test]
fn runs_that_all_took_the_same_teach_a_limit_just_above() {
    for count in [1, 5, 50] {
        let runs = vec![ObservedRun::done(7.0); count];
        let law = LearnedLaw::expected(&runs).expect("there are runs");
        let first = time_optimal(&RunTimeGrid::of(&law, 200)).limits[0];
        let most = if count == 1 { 10.5 } else { 7.1 };
        assert!(
            (7.0 - 1e-9..=most).contains(&first),
            "{count} runs: {first}"
        );
        assert!(
            (6.9..8.8).contains(&law.mean()),
            "{count} runs: {}",
            law.mean()
        );
    }
}

const DAY_S: f64 = 86_400.0;
const HOUR_S: f64 = 3_600.0;

/// A month of nights: idle from 18:00 to 08:00 on working days.
fn nights() -> Windows {
    let mut windows = Windows::default();
    // Day 4 of 1970 was a Monday.
    for day in (0..28).filter(|day| day % 7 < 5) {
        let begin_s = (4.0 + f64::from(day)) * DAY_S + 18.0 * HOUR_S;
        windows.observe(begin_s, begin_s + 14.0 * HOUR_S, true);
    }
    windows
}

/// A Monday that was not among them.
const MONDAY_S: f64 = 32.0 * DAY_S;

#[test]
fn windows_end_when_they_used_to_end() {
    let windows = nights();
    let outlook = windows.outlook(MONDAY_S + 19.0 * HOUR_S, HOUR_S);
    let until_five = outlook.open(10.0 * HOUR_S);
    let until_nine = outlook.open(14.0 * HOUR_S);
    assert!(
        until_five > 0.6 && until_nine < 0.6 * until_five,
        "{until_five} and {until_nine}"
    );
    assert!(windows.factor(8 + 24) > 3.0 * windows.factor(2 + 24));

    let mut last = 1.0;
    for hours in 0..40 {
        let open = outlook.open(f64::from(hours) * HOUR_S);
        assert!((0.0..=last).contains(&open), "{hours}: {open}");
        last = open;
    }
}

#[test]
fn a_window_is_filled_according_to_its_usual_duration() {
    let windows = nights();
    let law = |hours: (f64, f64)| -> NamedLaw {
        format!("uniform:{},{}", hours.0 * HOUR_S, hours.1 * HOUR_S)
            .parse()
            .expect("a law")
    };
    let short = law((1.0, 2.0));
    let long = law((8.0, 10.0));
    let candidates = [&short, &long].map(|law| GapCandidate {
        law,
        failed: 0.0,
        processors: 1.0,
    });
    let chosen = |hour: f64, age: f64| {
        let outlook = windows.outlook(MONDAY_S + DAY_S + hour * HOUR_S, age * HOUR_S);
        let open = |more_s: f64| outlook.open(more_s);
        let gain = |one: &GapCandidate<'_, NamedLaw>| gain_while(&open, 24.0 * HOUR_S, 1.0, one);
        usize::from(gain(&candidates[1]) > gain(&candidates[0]))
    };

    // In the evening there is time for the long one, towards the morning only for the short one.
    assert_eq!(chosen(-5.5, 0.5), 1);
    assert_eq!(chosen(6.0, 12.0), 0);

    // Who needs more than there is has no gain at all.
    let wide = GapCandidate {
        processors: 2.0,
        ..candidates[0]
    };
    assert_eq!(gain_while(&|_| 1.0, HOUR_S, 1.0, &wide), 0.0);
}

#[test]
fn the_week_begins_on_monday() {
    // 2026-03-02 was a Monday.
    assert_eq!(hour_of_week(1_772_409_600.0, 0.0), 0);
    assert_eq!(hour_of_week(1_772_409_600.0 - 1.0, 0.0), 167);
    assert_eq!(hour_of_week(1_772_409_600.0, -3_600.0), 167);
    assert_eq!(hour_of_week(1_772_409_600.0 + 26.5 * 3_600.0, 0.0), 26);
}

#[test]
fn laws_that_make_no_sense_are_refused_with_the_reason() {
    let refused = |text: &str| text.parse::<NamedLaw>().expect_err(text).to_string();
    for (text, words) in [
        ("normal:0,20,8,2", "no law `normal`"),
        ("truncnorm:0,20,8", "takes 4 numbers"),
        ("truncnorm:0,20,8,2,1", "not 5"),
        ("truncnorm:0,20,8,0", "sd is 0"),
        ("truncnorm:20,0,8,2", "no stretch of time"),
        ("truncnorm:0,20,800,2", "next to none"),
        ("pareto:0,20,2.1", "must begin after 0"),
        ("uniform:0,x", "`x` is not a number"),
        ("uniform:0,inf", "no stretch of time"),
    ] {
        assert!(refused(text).contains(words), "{text}: {}", refused(text));
    }
}

#[test]
fn limits_double_beyond_the_learned_ones() {
    let found = time_optimal(&RunTimeGrid::new(0.0, 2.0, vec![0.0, 0.5, 0.5]));
    let last = *found.limits.last().expect("there is one");
    let known = found.limits.len() as u32;
    assert_eq!(
        [known - 1, known, known + 2].map(|killed| limit_after(&found.limits, killed)),
        [last, 2.0 * last, 8.0 * last]
    );
}
