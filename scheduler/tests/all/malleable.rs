//! Jobs that run on more or fewer hosts: known answers, predictors against simulation and against
//! each other, learned laws, and what each rule of width does. The known answers
//! (`tests/vectors/downey.json`) were computed by independent programs.

use proptest::prelude::*;
use scheduler::malleable::{
    Bias, HostHolder, Lifetime, Lives, MachineState, Malleable, Speedup, UniformLog,
};
use scheduler::policy::width::{Holdout, Soonest, Width, WidthChoice, WidthQuestion};
use scheduler::reservation::ObservedRun;
use serde_json::Value;

use crate::known::{Chance, list, number};

fn vectors() -> Value {
    serde_json::from_str(include_str!("../vectors/downey.json"))
        .expect("the known answers are JSON")
}

fn near(found: f64, expected: f64, what: &dyn std::fmt::Debug) {
    assert!(
        (found - expected).abs() <= 1e-6 * expected.abs().max(1.0),
        "{found} for {expected}: {what:?}"
    );
}

fn units<'a>(case: &Value, law: &'a UniformLog) -> Vec<HostHolder<'a>> {
    let unit = |unit: &Value| HostHolder {
        hosts: number(&unit[1]) as u32,
        age_s: number(&unit[0]),
        law,
    };
    list(case, "jobs").iter().map(unit).collect()
}

fn malleable(work_s: f64, parallelism: f64, sigma: f64) -> Malleable {
    Malleable {
        work_s,
        speedup: Speedup::new(parallelism, sigma).expect("a curve"),
    }
}

#[test]
fn every_known_speedup_comes_out() {
    for case in list(&vectors(), "speedup") {
        let speedup = Speedup::new(number(&case[0]), number(&case[1])).expect("a curve");
        near(speedup.on(number(&case[2]) as u32), number(&case[3]), case);
    }
}

#[test]
fn every_known_prediction_comes_out() {
    for case in list(&vectors(), "predict") {
        let law = UniformLog::new(number(&case["b0"]), number(&case["b1"])).expect("a law");
        let machine = MachineState::new(0, units(case, &law));
        let need = number(&case["need"]) as u32;
        let found = machine.wait(need);
        assert_eq!(
            u64::from(found.benefactors),
            case["benefactors"].as_u64().expect("a count"),
            "{case}"
        );

        for (name, found) in [
            ("A", found.median_s),
            ("B", found.mean_s),
            ("used", found.used_s),
        ] {
            match (case[name].as_f64(), found) {
                (Some(known), Some(found)) => near(found, known, case),
                (known, found) => assert_eq!(known, found, "{name}: {case}"),
            }
        }

        // With some hosts free already, as many more are needed.
        let partly = MachineState::new(5, units(case, &law)).wait(need + 5);
        near(
            partly.used_s.unwrap_or(-1.0),
            found.used_s.unwrap_or(-1.0),
            case,
        );
    }
}

#[test]
fn every_known_decision_comes_out() {
    let law = UniformLog::between(2.0, 12.0).expect("a law");
    for case in list(&vectors(), "decisions") {
        let free = number(&case["free"]) as u32;
        let machine = MachineState::new(free, units(case, &law));
        let job = malleable(
            number(&case["L"]),
            number(&case["A"]),
            number(&case["sigma"]),
        );
        let bias = Bias::default();
        let asked = question(&job, free, &bias);
        let ways = Soonest::PLAIN.ways(&asked, &|least, most| machine.waits_s(least, most));
        let best = Soonest::PLAIN
            .best(&asked, &ways)
            .expect("it can start at once");
        assert_eq!(f64::from(best.hosts), number(&case["n_star"]), "{case}");

        near(job.run_s(free), number(&case["R_free"]), case);
        near(best.wait_s, number(&case["Q_star"]), case);
        near(best.total_s(), number(&case["total"]), case);
    }
}

fn question<'a>(job: &'a Malleable, free: u32, bias: &'a Bias) -> WidthQuestion<'a> {
    WidthQuestion {
        job,
        least: 1,
        most: job.most(),
        free,
        behind: 0,
        now_s: 1_000.0,
        held: None,
        bias,
    }
}

/// Eight hosts held since ten minutes, by work of e^2 to e^12 seconds.
fn busy(law: &UniformLog) -> MachineState<'_> {
    MachineState::new(
        4,
        vec![
            HostHolder {
                hosts: 8,
                age_s: 600.0,
                law,
            },
            HostHolder {
                hosts: 8,
                age_s: 20.0,
                law,
            },
        ],
    )
}

fn decide(width: Width, question: &WidthQuestion<'_>) -> WidthChoice {
    let law = UniformLog::between(2.0, 12.0).expect("a law");
    width
        .choose(question, &|least, most| busy(&law).waits_s(least, most))
        .expect("there is a way")
}

fn held(choice: WidthChoice) -> Holdout {
    let WidthChoice::Hold(held) = choice else {
        panic!("{choice:?}")
    };
    held
}

#[test]
fn long_work_holds_out_and_short_work_does_not() {
    let bias = Bias::default();
    let short = malleable(200.0, 12.0, 0.0);
    let long = malleable(100_000.0, 12.0, 0.0);
    let plain = Width::Soonest(Soonest::PLAIN);
    assert_eq!(
        decide(plain, &question(&short, 4, &bias)),
        WidthChoice::Start(4)
    );

    let first = held(decide(plain, &question(&long, 4, &bias)));
    assert_eq!((first.hosts, first.since_s), (12, 1_000.0));
    assert_eq!(first.until_s, 1_000.0 + first.expected_s);
    assert_eq!(
        decide(Width::Average, &question(&long, 4, &bias)),
        WidthChoice::Start(4)
    );
    assert_eq!(
        decide(plain, &question(&long, 64, &bias)),
        WidthChoice::Start(12)
    );

    // Who holds out starts when that many are free, and on more if it is not locked in.
    let mut later = question(&long, 10, &bias);
    later.held = Some(Holdout { hosts: 9, ..first });
    assert_eq!(decide(plain, &later), WidthChoice::Start(10));
    assert_eq!(
        decide(
            Width::Soonest(Soonest {
                lock: true,
                ..Soonest::PLAIN
            }),
            &later
        ),
        WidthChoice::Start(9)
    );
}

#[test]
fn risk_and_jobs_waiting_behind_shorten_the_wait_for_hosts() {
    let bias = Bias::default();
    let job = malleable(20_000.0, 12.0, 0.0);
    let plain = held(decide(
        Width::Soonest(Soonest::PLAIN),
        &question(&job, 4, &bias),
    ));
    let saved = 1.0 - (plain.expected_s + job.run_s(plain.hosts)) / job.run_s(4);
    let risk = |risk| {
        Width::Soonest(Soonest {
            risk,
            ..Soonest::PLAIN
        })
    };
    assert_eq!(
        held(decide(risk(saved - 0.01), &question(&job, 4, &bias))).hosts,
        plain.hosts
    );

    assert_eq!(
        decide(risk(saved + 0.01), &question(&job, 4, &bias)),
        WidthChoice::Start(4)
    );

    let priced = Width::Soonest(Soonest {
        price: 1.0,
        ..Soonest::PLAIN
    });
    assert_eq!(
        held(decide(priced, &question(&job, 4, &bias))).hosts,
        plain.hosts
    );

    let crowded = WidthQuestion {
        behind: 50,
        ..question(&job, 4, &bias)
    };
    assert_eq!(decide(priced, &crowded), WidthChoice::Start(4));
}

#[test]
fn patience_lasts_for_a_share_of_the_possible_saving() {
    let bias = Bias::default();
    let job = malleable(1_200.0, 12.0, 0.0);
    let patient = Width::Patient { k: 0.2 };
    let first = held(decide(patient, &question(&job, 4, &bias)));
    assert_eq!(
        (first.hosts, first.until_s),
        (12, 1_000.0 + 0.2 * (300.0 - 100.0))
    );

    let still = WidthQuestion {
        held: Some(first),
        now_s: 1_039.0,
        ..question(&job, 5, &bias)
    };
    assert_eq!(decide(patient, &still), WidthChoice::Hold(first));
    assert_eq!(
        decide(
            patient,
            &WidthQuestion {
                now_s: 1_040.0,
                ..still
            }
        ),
        WidthChoice::Start(5)
    );
}

#[test]
fn a_malleable_job_starts_on_no_fewer_hosts_than_its_minimum() {
    let bias = Bias::default();
    let job = malleable(1_000.0, 12.0, 0.5);
    for width in [
        Width::Rigid,
        Width::Average,
        Width::Patient { k: 0.2 },
        Width::Soonest(Soonest::PLAIN),
    ] {
        let asked = WidthQuestion {
            least: 6,
            ..question(&job, 4, &bias)
        };
        assert!(held(decide(width, &asked)).hosts >= 6, "{width:?}");

        let never = WidthQuestion {
            least: 21,
            most: 30,
            ..question(&job, 4, &bias)
        };
        let law = UniformLog::PATIENT;
        assert_eq!(
            width.choose(&never, &|least, most| busy(&law).waits_s(least, most)),
            None,
            "{width:?}"
        );
    }
}

#[test]
fn parameters_of_the_rows_are_read_and_bad_ones_refused() {
    let soonest = |name: &str| match scheduler::policy::parse(name).expect(name).width {
        Width::Soonest(way) => way,
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(soonest("PRED:price=0.3").price, 0.3);
    assert_eq!(soonest("PRED"), Soonest::PLAIN);
    assert_eq!(
        soonest("BIAS-LOCK-RISK:correction=paper:lock=no:risk=0"),
        soonest("BIAS-PAPER")
    );
    assert_eq!(
        scheduler::policy::parse("HEUR:k=0.5").expect("a row").width,
        Width::Patient { k: 0.5 }
    );

    for wrong in [
        "AVG:k=1",
        "PRED:lock=maybe",
        "PRED:risk=2",
        "HEUR:k=-1",
        "BIAS:correction=best",
    ] {
        assert!(scheduler::policy::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn lifetimes_are_learned_by_program_and_from_all_where_little_is_known() {
    let mut lives = Lives::default();
    let median = |law: &dyn Lifetime| {
        MachineState::new(
            0,
            vec![HostHolder {
                hosts: 1,
                age_s: 0.0,
                law,
            }],
        )
        .wait(1)
        .median_s
    };
    assert_eq!(median(&lives.pooled()), median(&UniformLog::PATIENT));

    for number in 0..200 {
        lives.observe("short", ObservedRun::done(50.0 + f64::from(number % 20)));
        lives.observe("long", ObservedRun::done(5_000.0 + f64::from(number % 20)));
    }

    let pooled = lives.pooled();
    let of = |program| median(&lives.law(&pooled, program, &[])).expect("it ends");
    assert!((of("short") - 60.0).abs() < 5.0 && (of("long") - 5_010.0).abs() < 100.0);

    // Nobody knows it: half are short, half are long.
    let other = lives.law(&pooled, "other", &[]);
    assert!(
        (other.ended(0.0, 100.0) - 0.5).abs() < 0.05,
        "{}",
        other.ended(0.0, 100.0)
    );

    // Who is older than the short ones is a long one.
    assert!(other.ended(200.0, 1_000.0) < 0.1 && other.ended(200.0, 6_000.0) > 0.9);
    // What still runs counts among those that take longer.
    let running = lives.law(&pooled, "short", &[500.0; 100]);
    assert!(
        running.ended(0.0, 100.0) < 0.75,
        "{}",
        running.ended(0.0, 100.0)
    );
}

#[test]
fn hosts_that_leave_and_come_back_are_reckoned_with() {
    let law = UniformLog::between(2.0, 12.0).expect("a law");
    // Two hosts are away: they come back as work ends.
    let away = |age_s| HostHolder {
        hosts: 1,
        age_s,
        law: &law,
    };
    let coming = MachineState::new(1, vec![away(600.0), away(600.0)]);
    let wait = coming.wait(2);
    assert_eq!(wait.benefactors, 2);
    assert!(
        wait.used_s.expect("one comes back")
            < MachineState::new(1, vec![away(600.0)])
                .wait(2)
                .mean_s
                .expect("it may")
    );

    // Where hosts leave again, it takes longer to have two together, or for ever.
    let leaving = MachineState::new(1, vec![away(600.0), away(600.0)]).leaving(&law);
    assert!(
        leaving
            .wait(2)
            .mean_s
            .is_none_or(|s| s > coming.wait(2).mean_s.expect("finite"))
    );

    assert_eq!(leaving.wait(3).mean_s, None);
    assert_eq!(coming.wait(4).used_s, None);
}

#[test]
fn quantiles_are_those_of_the_waits_that_come() {
    let law = UniformLog::between(2.0, 12.0).expect("a law");
    let running = [(60.0, 3), (600.0, 5), (3_600.0, 2), (9.0, 1), (40.0, 4)];
    let units = running.iter().map(|(age_s, hosts)| HostHolder {
        hosts: *hosts,
        age_s: *age_s,
        law: &law,
    });
    let machine = MachineState::new(2, units.collect());
    let mut chance = Chance(7);
    let mut waits: Vec<f64> = (0..20_000)
        .map(|_| {
            // What is left of each, drawn by inverting its survival, until seven more are free.
            let left = running.iter().map(|(age_s, hosts)| {
                let alive = (1.0 - law.cdf(*age_s)) * chance.unit();
                ((1.0 - alive + 0.2) / 0.1 - age_s.ln(), *hosts)
            });
            let mut left: Vec<(f64, u32)> = left
                .zip(running)
                .map(|((ln_ratio, hosts), (age_s, _))| (age_s * ln_ratio.exp() - age_s, hosts))
                .collect();
            left.sort_by(|a, b| a.0.total_cmp(&b.0));

            let mut free = 0;
            left.into_iter()
                .find(|(_, hosts)| {
                    free += hosts;
                    free >= 7
                })
                .expect("they all end")
                .0
        })
        .collect();
    waits.sort_by(f64::total_cmp);

    for part in [0.1, 0.5, 0.9] {
        let found = machine.quantile_s(9, part).expect("it comes");
        let below = waits.partition_point(|wait| *wait <= found) as f64 / waits.len() as f64;
        assert!((below - part).abs() < 0.015, "{part}: {found} s, {below}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn speedups_rise_to_the_parallelism_and_never_beyond(a in 1.0..200.0_f64, sigma in 0.0..5.0_f64) {
        let speedup = Speedup::new(a, sigma).expect("a curve");
        let mut last = 0.0;
        for hosts in 1..500 {
            let found = speedup.on(hosts);
            // At least the bound of Eager et al. (equation 3), at most the hosts and the
            // parallelism.
            let n = f64::from(hosts);
            prop_assert!(found >= last - 1e-9 && found <= n.min(a) + 1e-9, "{hosts}: {found} after {last}");
            prop_assert!(found >= a * n / (a + n - 1.0) - 1e-9, "{hosts}: {found}");
            last = found;
        }
    }

    #[test]
    fn waits_all_at_once_are_those_one_by_one_and_meet_their_equations(
        jobs in prop::collection::vec((1.0..100_000.0_f64, 1_u32..40), 1..12),
        free in 0_u32..20,
        ends in (0.0..4.0_f64, 8.0..14.0_f64),
    ) {
        let law = UniformLog::between(ends.0, ends.1).expect("a law");
        let units: Vec<HostHolder<'_>> = jobs.iter().map(|(age_s, hosts)| HostHolder { hosts: *hosts, age_s: *age_s, law: &law }).collect();
        let machine = MachineState::new(free, units.clone());

        let all = machine.waits_s(1, machine.hosts() + 2);
        for (hosts, found) in (1..).zip(&all) {
            let one = machine.wait(hosts);
            match (one.used_s, *found) {
                (Some(a), Some(b)) => prop_assert!((a - b).abs() <= 1e-6 * a.max(1.0), "{hosts}: {a} and {b}"),
                (a, b) => prop_assert_eq!(a, b),
            }
            let Some(mean_s) = one.mean_s.filter(|s| *s > 0.0) else { continue };
            let freed = |s: f64| units.iter().map(|u| f64::from(u.hosts) * law.ended(u.age_s, s)).sum::<f64>();
            let need = f64::from(hosts - free);
            prop_assert!(freed(mean_s * (1.0 + 1e-6) + 1e-6) >= need - 1e-9, "{hosts}: {mean_s}");
            prop_assert!(freed(mean_s * (1.0 - 1e-6) - 1e-6) <= need + 1e-9, "{hosts}: {mean_s}");
        }

        prop_assert_eq!(all[all.len() - 1], None);
    }

    #[test]
    fn the_laws_of_all_waits_at_once_are_those_one_by_one(
        ages in prop::collection::vec(1.0..100_000.0_f64, 1..40),
        free in 0_u32..5,
        ends in (0.0..4.0_f64, 8.0..14.0_f64),
    ) {
        const PARTS: [f64; 3] = [0.1, 0.5, 0.9];
        let law = UniformLog::between(ends.0, ends.1).expect("a law");
        let ages = ages.iter().filter(|age_s| law.ended(**age_s, 1.0) < 1.0);
        let units: Vec<HostHolder<'_>> = ages.map(|age_s| HostHolder { hosts: 1, age_s: *age_s, law: &law }).collect();
        let machine = MachineState::new(free, units);
        let all = machine.quantiles_s(PARTS);
        prop_assert_eq!(all.len() as u32, machine.hosts() - free);

        for (hosts, found) in (free + 1..).zip(all) {
            for (part, found) in PARTS.into_iter().zip(found) {
                let (Some(found), Some(one)) = (found, machine.quantile_s(hosts, part)) else { panic!("{hosts} never come") };
                prop_assert!((found - one).abs() <= 0.03 * one + 0.5, "{hosts}, {part}: {found} and {one}");
            }
        }
    }

    #[test]
    fn a_sample_of_many_holders_predicts_what_all_of_them_do(
        ages in prop::collection::vec(1.0..100_000.0_f64, 600..2_000),
        gangs in prop::collection::vec((1.0..100_000.0_f64, 2_u32..4), 0..200),
        ends in (0.0..4.0_f64, 8.0..14.0_f64),
        part in 0.1..0.9_f64,
    ) {
        let law = UniformLog::between(ends.0, ends.1).expect("a law");
        let units = ages.iter().map(|age_s| (*age_s, 1)).chain(gangs);
        let units: Vec<HostHolder<'_>> = units.map(|(age_s, hosts)| HostHolder { hosts, age_s, law: &law }).collect();
        let all = MachineState::new(3, units.clone());
        let sample = MachineState::sampled(3, [units]);
        prop_assert_eq!(sample.hosts(), all.hosts());

        for hosts in [4, 6, 20, 100] {
            let [wait, sampled] = [&all, &sample].map(|machine| machine.wait(hosts));
            prop_assert_eq!(sampled.benefactors, wait.benefactors, "{} hosts", hosts);
            let both = [(wait.used_s, sampled.used_s), (all.quantile_s(hosts, part), sample.quantile_s(hosts, part))];
            for pair in both {
                let (Some(exact), Some(found)) = pair else { panic!("{hosts} never come") };
                prop_assert!((found - exact).abs() <= 0.05 * exact + 0.05, "{hosts}: {found}, not {exact}");
            }
        }
    }

    #[test]
    fn learned_laws_are_laws_of_lifetimes(
        runs in prop::collection::vec((0.5..1e6_f64, any::<bool>()), 0..80),
        running in prop::collection::vec(0.0..1e5_f64, 0..10),
        age in prop_oneof![Just(0.0), 0.1..1e7_f64],
    ) {
        let mut lives = Lives::default();
        for (time, done) in runs {
            lives.observe("p", ObservedRun { time, done });
        }

        let law = lives.law(&lives.pooled(), "p", &running);
        prop_assert_eq!(law.ended(age, 0.0), 0.0);

        let mut last = 0.0;
        for step in 0..60 {
            let ended = law.ended(age, 1.5_f64.powi(step) - 1.0);
            prop_assert!((last - 1e-12..=1.0).contains(&ended), "step {step}: {ended} after {last}");
            last = ended;
        }

        let longest_s = law.longest_s(age);
        prop_assert!(law.ended(age, longest_s * 1.000_001 + 1e-6) > 1.0 - 1e-9, "{age} for {longest_s}");
    }
}
