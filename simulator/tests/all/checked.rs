//! Every simulated world with the scheduler's independent model plugged in: after each step the
//! model's books agree with the scheduler's. What is not here: whether results are good.

use common::{Span, Speed, Time};
use scheduler::estimates::Estimator;
use scheduler::reservation::NamedLaw;
use simulator::absences::{self, Case, OwnerKnowledge, Owners};
use simulator::bags::{self, BagTask, SubmittedBag, WantedResults};
use simulator::experiment::DaySource;
use simulator::experiment::Generated;
use simulator::users::{self, Audience, Random, Servers, StudyPoint};
use simulator::world::{PreparedTrace, Run, RunJob, Simulator, UserRequest, UserRequestKind};

use crate::observer::Checked;

#[test]
fn the_model_agrees_with_every_step_of_bags() {
    for policy in ["CALENDAR", "PROMISE", "PROMISE:limits=learned", "FCFS"] {
        let asked: Vec<SubmittedBag> = (0..8)
            .map(|bag: u64| SubmittedBag {
                at: Time(Span::from_secs(20 * bag).0),
                estimator: Estimator {
                    user: format!("user {}", bag % 3),
                    program: String::new(),
                },
                policy: policy.to_owned(),
                deadline: (policy != "FCFS").then(|| Span::from_secs(150 + 10 * bag)),
                tasks: (1..=1 + bag % 5)
                    .map(|task| BagTask {
                        estimate: Span::from_secs(20 + 5 * task),
                        takes: Span::from_secs(15 + (7 * task + bag) % 25),
                    })
                    .collect(),
            })
            .collect();

        let mut checked = Checked::default();
        let speeds = [1.0, 0.7, 1.4].map(|speed| Speed::new(speed).expect("a speed"));
        let told = bags::run_watched(&speeds, &asked, WantedResults::default(), &mut checked);
        assert_eq!(
            told,
            bags::run(&speeds, &asked, WantedResults::default()),
            "{policy}"
        );
        checked.saw(30, 15);
    }
}

struct Nobody;

impl Audience for Nobody {}

#[test]
fn the_model_agrees_with_every_step_of_users() {
    for policy in ["SRPTxFCFS", "FCFSxNEED"] {
        for (frozen, keep) in [(0, true), (1, true), (0, false)] {
            let plan = Random::new(
                3,
                StudyPoint {
                    users: 4,
                    change_max: 0.4,
                    tasks_max: 6,
                    service_s: 600.0,
                    think_s: 400.0,
                },
            );

            let count = 2;
            let servers = Servers {
                count,
                frozen,
                keep,
            };
            let until = Time(Span::from_secs(86_400).0);
            let mut checked = Checked::default();
            users::run_watched(&plan, policy, servers, until, &mut Nobody, &mut checked);
            checked.saw(200, 100);
        }
    }
}

#[test]
fn the_model_agrees_with_every_step_of_absences() {
    let law: NamedLaw = "truncnorm:0,20,8,2".parse().expect("a law");
    for owners in [Owners::Habits, Owners::Hours] {
        let case = Case {
            owners,
            hosts: 6,
            tasks: 20,
            law: &law,
            unit_s: 900.0,
            known: 10,
            seed: 1,
            run: 0,
        };
        for (policy, deadline) in [
            ("PRI-CR", false),
            ("deskgrid", false),
            ("TOPTIMAL", false),
            ("WINDOWS:limits=learned", false),
            ("PROMISE:limits=learned:windows=yes", true),
        ] {
            let way = OwnerKnowledge {
                policy,
                deadline,
                told: true,
            };
            let mut checked = Checked::default();
            let came = absences::run_watched(&case, way, &mut checked);
            assert_eq!(came, absences::run(&case, way), "{policy}");
            checked.saw(40, 20);
        }
    }
}

#[test]
fn the_model_agrees_with_every_step_of_the_world_of_traces() {
    let source = Generated::named("sdsc", "default", 1, 12).expect("a platform and a model");
    let world = PreparedTrace::new(&source.day(101).expect("generated days are there"))
        .expect("clock rates that hosts have");
    let asks = [
        UserRequest {
            at_s: 15_000.0,
            what: UserRequestKind::Submit(RunJob {
                tasks: 20,
                work_s: 300.0,
                policy: "SRPTxFCFS",
                checkpoint: false,
                disclosed: true,
                ranks: None,
                needs: None,
                after: &[],
                user: "another",
            }),
        },
        UserRequest {
            at_s: 16_000.0,
            what: UserRequestKind::Request(2, None),
        },
    ];

    for row in scheduler::catalogue() {
        for (slots, frozen, asks) in [(1, 0, &asks[..0]), (2, 1, &asks[..])] {
            let run = Run {
                slots,
                frozen,
                asks,
                watch: true,
                checkpoint: slots == 2,
                ..Run::new(14_400.0, 30, 900.0, row.name)
            };
            let mut simulator = Simulator::default();
            let mut checked = Checked::default();
            let outcome = simulator.run_watched(&world, &run, &mut checked);
            assert_eq!(outcome, simulator.run(&world, &run), "{}", row.name);
            if outcome.is_ok() {
                checked.saw(60, 30);
            }
        }
    }
}
