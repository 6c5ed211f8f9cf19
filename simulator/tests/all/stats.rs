//! What is said of traces: known answers, laws found again, and the calibration against the paper.

use proptest::prelude::*;
use simulator::availability::Model;
use simulator::stats::{Lognormal, Weibull, calibration, stats};
use simulator::trace::{Segment, Trace};

fn up(start_s: f64, end_s: f64, cpu: f64) -> Segment {
    Segment {
        start_s,
        end_s,
        up: true,
        cpu,
    }
}

fn down(start_s: f64, end_s: f64) -> Segment {
    Segment {
        start_s,
        end_s,
        up: false,
        cpu: 0.0,
    }
}

#[test]
fn the_calibrated_model_is_like_the_papers_traces() {
    let table = calibration(&Model::named("default").expect("a model"), 1, 40);
    // Against the paper, or where it says nothing or what cannot be (the optimum of 6 minutes),
    // against the reference.
    for (name, expected, tolerance) in [
        ("failure_5min_percent", 6.33, 2.0),
        ("failure_15min_percent", 11.6, 1.5),
        ("failure_25min_percent", 16.8, 1.5),
        ("failure_35min_percent", 22.0, 1.5),
        ("power_cv_percent", 13.0, 3.0),
        ("ready_at_start_hosts", 150.0, 6.0),
        ("day_to_day_work_min", 110.0, 12.0),
        ("suspended_percent", 6.0, 1.0),
        ("partly_loaded_percent", 11.0, 1.5),
        ("availability_interval_min", 102.0, 10.0),
        ("optimal_100x5min_min", 9.8, 0.6),
    ] {
        let ours = table.ours(name).expect(name);
        assert!(
            (ours - expected).abs() <= tolerance,
            "{name}: {ours} against {expected}"
        );
    }
}

#[test]
fn the_other_models_match_their_names() {
    let ours = |model: &str, name: &str| {
        calibration(&Model::named(model).expect("a model"), 2, 15)
            .ours(name)
            .expect("told")
    };
    for (model, name, expected, tolerance) in [
        ("memoryless", "failure_35min_percent", 41.0, 2.5),
        ("heavy-failure", "failure_35min_percent", 48.0, 3.0),
        ("heavy-suspension", "suspended_percent", 26.0, 2.5),
        ("quiet", "suspended_percent", 3.0, 1.0),
    ] {
        let ours = ours(model, name);
        assert!(
            (ours - expected).abs() <= tolerance,
            "{model}, {name}: {ours} against {expected}"
        );
    }
}

#[test]
fn a_small_trace_is_described_by_hand() {
    let first = vec![
        up(0.0, 3_000.0, 1.0),
        up(3_000.0, 4_000.0, 0.0),
        down(4_000.0, 6_000.0),
    ];
    let found = stats(&Trace::from_parts(
        vec![1_500.0, 1_500.0],
        vec![first, vec![up(0.0, 6_000.0, 1.0)]],
    ));
    assert_eq!((found.hosts, found.segments), (2, 4));
    assert_eq!(
        (
            found.availability.count,
            found.availability.mean_s,
            found.availability.median_s
        ),
        (2, 5_000.0, 5_000.0)
    );

    assert_eq!(
        (found.unavailability.count, found.unavailability.mean_s),
        (1, 2_000.0)
    );
    assert_eq!(found.unavailability.weibull, None, "one length has no law");

    // Of five minutes: the first host's starts from 2,700 s on fail, five of fifty; the second's
    // last five are cut off.
    let share = found.failure_by_task_s[&300].expect("told");
    assert!((share - 5.0 / (50.0 + 95.0)).abs() < 1e-9, "{share}");

    // Twice the power in ten steps of twenty.
    let varies = found.power_cv.expect("it is long enough");
    assert!((varies - 1.0 / 3.0).abs() < 1e-9, "{varies}");
}

#[test]
fn a_task_into_a_time_of_which_nothing_is_known_neither_fails_nor_succeeds() {
    let tried = |segments: Vec<Segment>| {
        let found = stats(&Trace::from_parts(vec![1_500.0], vec![segments]));
        found.failure_by_task_s[&300]
    };
    assert_eq!(
        tried(vec![up(0.0, 250.0, 1.0), up(50_000.0, 50_250.0, 1.0)]),
        None
    );
    assert_eq!(
        tried(vec![up(0.0, 250.0, 1.0), down(50_000.0, 50_250.0)]),
        None
    );
    assert_eq!(
        tried(vec![up(0.0, 250.0, 1.0), down(250.0, 300.0)]),
        Some(1.0)
    );
    assert_eq!(
        tried(vec![up(0.0, 250.0, 1.0), up(250.0, 600.0, 1.0)]),
        Some(0.0)
    );
}

#[test]
fn the_longest_interval_of_an_idle_trace_is_the_trace() {
    let found = stats(&Trace::from_parts(
        vec![1_000.0],
        vec![vec![down(0.0, 500.0)]],
    ));
    assert_eq!(
        (
            found.availability.count,
            found.availability.mean_s,
            found.power_cv
        ),
        (0, 0.0, Some(0.0))
    );

    assert!(found.failure_by_task_s.values().all(Option::is_none));
    let short = stats(&Trace::from_parts(
        vec![1_000.0],
        vec![vec![up(0.0, 250.0, 1.0)]],
    ));
    assert_eq!(
        (short.power_mean, short.power_cv),
        (None, None),
        "not five minutes long"
    );
}

#[test]
fn a_trace_of_centuries_is_described_in_longer_steps() {
    let latest_s = 1e10;
    let found = stats(&Trace::from_parts(
        vec![1_500.0],
        vec![vec![
            up(0.0, latest_s / 2.0, 1.0),
            down(latest_s / 2.0, latest_s),
        ]],
    ));
    let power = found.power_mean.expect("it is long enough");
    assert!((power - 0.5).abs() < 1e-5, "{power}");
    let hour = found.by_hour[13].power.expect("it is long enough");
    assert!((hour - 0.5).abs() < 1e-3, "{hour}");
}

/// The middle of each of `n` equal shares of a law.
fn quantiles(n: usize, law: impl Fn(f64) -> f64) -> Vec<f64> {
    (0..n).map(|at| law((at as f64 + 0.5) / n as f64)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_weibull_law_is_found_again(shape in 0.3..4.0_f64, scale in 1e-3..1e6_f64) {
        let fitted = Weibull::fit(&quantiles(4_000, |p| scale * (-(1.0 - p).ln()).powf(1.0 / shape))).expect("a law");
        prop_assert!((fitted.shape / shape - 1.0).abs() < 0.01, "{fitted:?}");
        prop_assert!((fitted.scale / scale - 1.0).abs() < 0.01, "{fitted:?}");
    }

    #[test]
    fn a_weibull_fit_is_the_likeliest_near_it(values in prop::collection::vec(0.1..1e5_f64, 3..40)) {
        let likelihood = |law: Weibull| -> f64 {
            values.iter().map(|x| (law.shape / law.scale).ln() + (law.shape - 1.0) * (x / law.scale).ln() - (x / law.scale).powf(law.shape)).sum()
        };
        let fitted = Weibull::fit(&values).expect("a law");
        for (a, b) in [(1.01, 1.0), (0.99, 1.0), (1.0, 1.01), (1.0, 0.99)] {
            let other = Weibull { shape: fitted.shape * a, scale: fitted.scale * b };
            prop_assert!(likelihood(fitted) >= likelihood(other), "{fitted:?} {other:?}");
        }
    }

    #[test]
    fn a_lognormal_fit_is_of_the_logarithms(mu in -3.0..12.0_f64, sigma in 0.1..2.0_f64) {
        let fitted = Lognormal::fit(&[(mu - sigma).exp(), (mu + sigma).exp()]).expect("a law");
        prop_assert!((fitted.mu - mu).abs() < 1e-9 && (fitted.sigma - sigma).abs() < 1e-9, "{fitted:?}");
    }
}

#[test]
fn lengths_that_are_all_alike_have_no_law() {
    assert_eq!(Weibull::fit(&[5.0, 5.0, 5.0]), None);
    assert_eq!(Lognormal::fit(&[5.0, 5.0, 5.0]), None);
    assert_eq!(Weibull::fit(&[]), None);
    assert_eq!(Lognormal::fit(&[]), None);

    // The rounded mean of some numbers of equal logarithms is none of them.
    for length_s in [5.0, 60.0, 300.0, 3_600.0] {
        for count in 1..40 {
            let lengths_s = vec![length_s; count];
            assert_eq!(Lognormal::fit(&lengths_s), None, "{count} of {length_s} s");
            assert_eq!(Weibull::fit(&lengths_s), None, "{count} of {length_s} s");
        }
    }
}
