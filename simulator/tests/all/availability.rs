//! Generated availability: whole, by seed, and each day, host and stream for itself.

use proptest::prelude::*;
use simulator::availability::{DAY_ENDS_S, Model};
use simulator::trace::{Segment, Trace};

fn model(name: &str) -> Model {
    Model::named(name).expect("a model")
}

fn covers_the_day(segments: &[Segment]) -> bool {
    let joined = segments
        .windows(2)
        .all(|pair| pair[0].end_s == pair[1].start_s);
    let sound = segments
        .iter()
        .all(|s| s.start_s < s.end_s && (0.0..=1.0).contains(&s.cpu) && (s.up || s.cpu == 0.0));
    let ends = (
        segments.first().map(|s| s.start_s),
        segments.last().map(|s| s.end_s),
    );
    joined && sound && ends == (Some(0.0), Some(DAY_ENDS_S))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_host_of_every_model_is_accounted_for_all_day(seed: u64, day in 0_u32..1_000, name in prop::sample::select(&Model::NAMES[..])) {
        for segments in model(name).day(seed, day, 40) {
            prop_assert!(covers_the_day(&segments), "{name}: {segments:?}");
        }
    }

    #[test]
    fn a_day_is_a_function_of_seed_and_number(seed: u64, day in 0_u32..1_000) {
        let model = model("default");
        prop_assert_eq!(model.day(seed, day, 30), model.day(seed, day, 30));
        prop_assert_ne!(model.day(seed, day, 30), model.day(seed, day + 1, 30));
        prop_assert_ne!(model.day(seed, day, 30), model.day(seed ^ 1, day, 30));
    }

    #[test]
    fn more_hosts_change_none_of_the_first(seed: u64, day in 0_u32..1_000) {
        let few = model("default").day(seed, day, 10);
        let many = model("default").day(seed, day, 50);
        prop_assert_eq!(&few[..], &many[..10]);
    }
}

#[test]
fn the_models_are_unlike_each_other() {
    let days: Vec<_> = Model::NAMES
        .map(|name| model(name).day(9, 2, 30))
        .into_iter()
        .collect();
    for (a, first) in days.iter().enumerate() {
        for (b, second) in days.iter().enumerate().skip(a + 1) {
            assert_ne!(first, second, "{} and {}", Model::NAMES[a], Model::NAMES[b]);
        }
    }
    assert_eq!(Model::named("nocturnal"), None);
}

#[test]
fn a_hosts_nature_lasts_from_day_to_day() {
    // The mean length of a host's long intervals on even days tells something of that on odd days.
    let hosts = 120;
    let mean_up = |parity: u32| {
        let mut sums = vec![(0.0, 0.0); hosts];
        for day in (parity..60).step_by(2) {
            for (sum, segments) in sums.iter_mut().zip(model("default").day(4, day, hosts)) {
                let failures = segments
                    .windows(2)
                    .filter(|pair| pair[0].up && !pair[1].up)
                    .count();
                sum.0 += segments
                    .iter()
                    .filter(|s| s.up)
                    .map(Segment::length_s)
                    .sum::<f64>();
                sum.1 += failures as f64;
            }
        }

        sums.into_iter()
            .map(|(up_s, failures)| (up_s / failures).ln())
            .collect::<Vec<_>>()
    };
    let even = mean_up(0);
    let odd = mean_up(1);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let a = mean(&even);

    let b = mean(&odd);
    let product = |x: &[f64], y: &[f64], p: f64, q: f64| {
        x.iter().zip(y).map(|(x, y)| (x - p) * (y - q)).sum::<f64>()
    };
    let correlation = product(&even, &odd, a, b)
        / (product(&even, &even, a, a) * product(&odd, &odd, b, b)).sqrt();
    assert!(correlation > 0.6, "{correlation}");
}

#[test]
fn a_generated_day_survives_being_written() {
    let clocks = simulator::platform::Platform::named("sdsc")
        .expect("a platform")
        .clocks_mhz(1, 25);
    let trace = model("default").trace(1, 0, clocks);
    let dir = tempfile::tempdir().expect("a directory");
    trace.write(dir.path()).expect("written");
    assert_eq!(Trace::read(dir.path()).expect("read"), trace);
}
