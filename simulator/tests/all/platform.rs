//! Platforms: their clocks follow their laws, by seed, and the fast hosts of one are the fast hosts
//! of all.

use simulator::platform::{HOSTS, Platform};

fn clocks(name: &str, seed: u64) -> Vec<f64> {
    Platform::named(name)
        .expect("a platform")
        .clocks_mhz(seed, HOSTS)
}

fn mean_and_sd(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (
        mean,
        (values
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>()
            / values.len() as f64)
            .sqrt(),
    )
}

#[test]
fn sdsc_has_the_papers_mean_and_deviation_for_every_seed() {
    for seed in 0..20 {
        let clocks = clocks("sdsc", seed);
        let (mean, sd) = mean_and_sd(&clocks);
        assert!(
            (mean - 1_200.0).abs() < 0.5 && (sd - 730.0).abs() < 0.5,
            "seed {seed}: {mean} {sd}"
        );
        assert!(clocks.iter().all(|clock| (300.0..=3_060.0).contains(clock)));
        assert!(
            clocks.iter().filter(|clock| **clock < mean).count() > HOSTS / 2 - 20,
            "left-heavy"
        );
    }
}

#[test]
fn lri_wisc_has_the_papers_labs_exactly() {
    let clocks = clocks("lri-wisc", 7);
    let count = |mhz: f64| clocks.iter().filter(|clock| **clock == mhz).count();
    assert_eq!((count(1_800.0), count(600.0), count(900.0)), (15, 83, 122));
}

#[test]
fn homogeneous_hosts_are_nearly_alike() {
    let (mean, sd) = mean_and_sd(&clocks("homogeneous", 1));
    assert!(
        (mean - 3_200.0).abs() < 40.0 && (sd - 170.0).abs() < 30.0,
        "{mean} {sd}"
    );
}

#[test]
fn the_internets_hosts_lie_within_the_strata_and_the_histogram() {
    let gimps = clocks("gimps", 1);
    let slow = gimps.iter().filter(|clock| **clock < 600.0).count();
    assert!(
        (98..=100).contains(&slow),
        "45 % of the hosts are below 600 MHz: {slow}"
    );

    let (mean, _) = mean_and_sd(&clocks("internet-2016", 1));
    // The histogram's own mean.
    assert!((mean - 2_945.0).abs() < 10.0, "{mean}");
    assert!(
        clocks("lab", 1)
            .iter()
            .all(|clock| [1_800.0, 1_860.0, 2_200.0, 2_330.0, 2_800.0, 3_000.0].contains(clock))
    );
}

#[test]
fn a_platform_is_a_function_of_name_and_seed() {
    for name in Platform::NAMES {
        assert_eq!(clocks(name, 3), clocks(name, 3), "{name}");
        assert_ne!(clocks(name, 3), clocks(name, 4), "{name}");
    }
    assert_eq!(Platform::named("SDSC"), None);
}

#[test]
fn no_host_overtakes_another_from_platform_to_platform() {
    let sdsc = clocks("sdsc", 5);
    for name in Platform::NAMES {
        let other = clocks(name, 5);
        for (a, b) in (0..HOSTS).flat_map(|a| (0..HOSTS).map(move |b| (a, b))) {
            assert!(
                sdsc[a] <= sdsc[b] || other[a] >= other[b],
                "{name}: hosts {a} and {b}"
            );
        }
    }
}
