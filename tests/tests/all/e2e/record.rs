//! A recorded run of a real grid, replayed: the scheduler is a function of its events, under every
//! policy.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use common::JobId;
use scheduler::effect::EndReason;
use scheduler::record::{self, SchedulerLife};
use scheduler::{Effect, Event, Parting};
use simulator::{Recording, replay};
use tests::Grid;

use super::running;

/// Times that let a short test see suspicion and loss, and where the record goes.
fn config(dir: &std::path::Path) -> String {
    let record = dir.join("record");
    let times = "heartbeat = \"300ms\"\nsuspect_after = \"1s\"\nlease = \"2s\"\n";
    format!("{times}record = {:?}\n", record.display().to_string())
}

/// A policy as it can be tried in seconds: one that collects hosts for minutes does so for one
/// second.
fn quick(policy: &scheduler::Policy) -> String {
    let waits = policy
        .parameters()
        .iter()
        .any(|parameter| parameter.name == "wait");
    if waits {
        format!("{}:wait=1", policy.name)
    } else {
        policy.name.to_owned()
    }
}

/// The recorded runs of the grid, once the master is gone.
fn runs(path: &std::path::Path) -> Vec<SchedulerLife> {
    record::read(&fs::read(path).expect("there is a record")).expect("it is whole")
}

#[test]
fn a_recorded_live_run_replays_to_the_same_effects_under_every_policy() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let mut grid = Grid::with_master(&config(home.path()));
    for (host, speed) in [("slow", "0.4"), ("middle", "1.0"), ("fast", "2.5")] {
        grid.worker(host)
            .slots(2)
            .config(&format!("speed = {speed}\n"))
            .start();
    }

    let mark = super::long_sleep();
    let blocker = grid.submit([
        "--policy",
        "PRI-CR",
        "--",
        "sh",
        "-c",
        &format!("test $DESKGRID_ATTEMPT_ID != 1 || sleep {mark}"),
    ]);

    running(&format!("sleep {mark}"));
    let mut policies = BTreeMap::new();

    // Rules of width are for jobs of many ranks.
    for row in scheduler::catalogue()
        .iter()
        .filter(|row| row.width == scheduler::policy::Width::Rigid)
    {
        let policy = quick(row);
        let bag = grid.submit([
            "--policy",
            &policy,
            "--estimate",
            "1s",
            "--array",
            "1-4",
            "--",
            "sleep",
            "0.3",
        ]);
        policies.insert(JobId(bag.parse().expect("a number")), policy);
    }

    // The owner of one host comes and goes; another host, the one with the long task, dies with all
    // that it does.
    let switch = grid.state("middle").join("worker").join("pause");
    fs::write(&switch, "").expect("a file can be written");
    grid.until("its owner is seen", &["host", "info", "middle"], |h| {
        (h["state"] == "suspended").then_some(())
    });
    grid.kill_worker("fast");
    fs::remove_file(&switch).expect("it is there");
    grid.worker("fast").slots(2).config("speed = 2.5\n").start();

    grid.deskgrid(["job", "wait", "all", "--timeout", "60s"])
        .expect_code(0);
    assert_eq!(grid.job(&blocker)["state"], "finished");

    // The next run begins with what this one leaves open.
    let open = grid.submit(["--array", "1-3", "--", "sleep", &mark]);
    running(&format!("sleep {mark}"));
    grid.kill_master();
    grid.start_master();
    grid.until("the hosts are back", &["job", "info", &open], |j| {
        (j["tasks"]["running"].as_u64() > Some(0)).then_some(())
    });
    grid.deskgrid(["job", "cancel", &open]).expect_code(0);

    grid.kill_master();

    let runs = runs(&home.path().join("record"));
    assert_eq!(runs.len(), 2, "one for each start of the master");
    for run in &runs {
        let events = run
            .steps
            .iter()
            .map(|step| (step.at, step.event.clone()))
            .collect();
        let again = replay(&Recording {
            settings: run.settings.clone(),
            incarnation: run.incarnation,
            events,
        });
        for (step, effects) in run.steps.iter().zip(&again) {
            assert_eq!(
                step.effects, *effects,
                "at {:?}, after {:?}",
                step.at, step.event
            );
        }

        assert_eq!(run.steps.len(), again.len());
    }

    the_record_shows(&runs[0], &policies);
    let begins = |what: fn(&Event) -> bool| runs[1].steps.iter().any(|step| what(&step.event));
    assert!(
        begins(|event| matches!(event, Event::HostKnown { .. })),
        "hosts of the run before"
    );
    assert!(
        begins(|event| matches!(event, Event::JobRestored { .. })),
        "the job of the run before"
    );
}

/// The run was what the test is about: every policy started tasks, an owner came, a host was lost.
fn the_record_shows(run: &SchedulerLife, policies: &BTreeMap<JobId, String>) {
    let mut started = BTreeSet::new();
    let mut present = false;
    let mut lost = false;
    let mut died = false;

    for step in &run.steps {
        present |= matches!(
            step.event,
            Event::OwnerChanged {
                owner: common::host::OwnerState::Present(_),
                ..
            }
        );

        died |= matches!(
            step.event,
            Event::HostDisconnected {
                how: Parting::Reset,
                ..
            }
        );

        if let Event::JobSubmitted { job, bag, .. } = &step.event
            && let Some(policy) = policies.get(job)
        {
            assert_eq!(bag.rules.policy, *policy);
        }
        for effect in &step.effects {
            match effect {
                Effect::Start { attempt, .. } => drop(started.insert(attempt.task.job)),
                Effect::Ended { why, .. } => {
                    lost |= matches!(why, EndReason::Forgotten | EndReason::LeaseExpired(_));
                }
                _ => {}
            }
        }
    }

    assert!(
        policies.keys().all(|job| started.contains(job)),
        "{policies:?}: only {started:?} were started"
    );
    assert!(
        present && lost && died,
        "an owner came: {present}; an attempt was lost: {lost}; its worker's death was told: {died}"
    );
}
