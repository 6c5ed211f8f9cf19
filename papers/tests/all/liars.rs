//! What escapes a quorum when hosts lie, and what that costs.

use papers::liars::{Crowd, JobSeries, Lie, Outcomes, Scheme, Study, report, run};

const LOAD: JobSeries = JobSeries {
    jobs: 4,
    tasks: 300,
};

fn under(part: f64, lie: Lie, size: u32, adaptive: bool) -> Outcomes {
    run(
        &Crowd::new(60, part, lie, 7),
        Scheme {
            name: "",
            size,
            adaptive,
        },
        LOAD,
    )
}

#[test]
fn disagreeing_liars_escape_no_quorum() {
    for lie in [Lie::Now, Lie::Always] {
        let bare = under(0.1, lie, 1, false);
        assert!(bare.escape_rate() > 0.005, "{lie:?}: {bare:?}");

        let twice = under(0.1, lie, 2, false);
        assert_eq!(
            (twice.wrong, twice.failed, twice.finished),
            (0, 0, 1_200),
            "{lie:?}"
        );
        assert!(
            (1.0..1.35).contains(&twice.extra_work()),
            "{lie:?}: {}",
            twice.extra_work()
        );
        assert!(twice.caught > 0, "{lie:?}");
    }
}

#[test]
fn belief_that_is_earned_costs_less_and_lets_little_through() {
    let full = under(0.0, Lie::Always, 2, false);
    let earned = under(0.0, Lie::Always, 2, true);
    assert_eq!((full.extra_work(), full.wrong, earned.wrong), (1.0, 0, 0));
    assert!(earned.extra_work() < 0.8, "{}", earned.extra_work());

    let bare = under(0.1, Lie::OnceTrusted, 1, false);
    let sleepers = under(0.1, Lie::OnceTrusted, 2, true);
    assert_eq!(
        bare.wrong, 0,
        "nobody is ever trusted where nothing is compared"
    );
    assert!(
        sleepers.caught > 0 && sleepers.escape_rate() < 0.02,
        "{sleepers:?}"
    );

    let always = under(0.1, Lie::Always, 2, true);
    assert_eq!(always.wrong, 0, "who always lies never earns belief");
}

#[test]
fn liars_in_concert_escape_unless_they_are_one_owners_or_too_few() {
    // Chance gives a task to as many of them as must agree: more often to two before two honest
    // ones than to three before three. Several crowds, since which hosts are fast matters too.
    let crowds = |size| {
        let mut all = Outcomes::default();
        for seed in 1..=6 {
            let scheme = Scheme {
                name: "",
                size,
                adaptive: false,
            };
            all.add(&run(
                &Crowd::new(60, 0.1, Lie::AlwaysInConcert, seed),
                scheme,
                LOAD,
            ));
        }

        all
    };
    let two = crowds(2);
    let three = crowds(3);
    assert!(
        two.escape_rate() > 0.005 && three.wrong < two.wrong,
        "{two:?} {three:?}"
    );
    assert_eq!(
        under(0.1, Lie::OneOwner, 2, false).wrong,
        0,
        "one owner has one vote"
    );
    assert_eq!(
        under(0.01, Lie::AlwaysInConcert, 2, false).wrong,
        0,
        "one liar has nobody to agree with"
    );
}

#[test]
fn the_report_is_the_same_each_time_and_has_a_row_for_everything() {
    let study = Study {
        crowds: 1,
        hosts: 30,
        load: JobSeries { jobs: 2, tasks: 60 },
        ..Study::quick(3)
    };

    let mut heard = 0;
    let files = report(&study, &mut |_| heard += 1);
    assert_eq!(files, report(&study, &mut |_| ()));
    assert_eq!((heard, files[1].text.lines().count()), (11, 45));
    assert!(
        files[0]
            .text
            .contains("| nobody lies | --quorum 2 | 0 | 0 | 0 | 0 | 100.0 %"),
        "{}",
        files[0].text
    );
}
