//! How promises stand before their jobs are done.

use common::attempt::Phase;
use scheduler::{Event, Keeping};

use crate::world::{World, s};

fn kept(world: &World, job: common::JobId) -> Keeping {
    world
        .scheduler
        .keeping(job, world.now)
        .expect("it is promised something")
}

#[test]
fn a_promise_stands_as_its_attempts_and_hosts_do() {
    let mut world = World::new();
    let host = world.host(1).joins();
    let start = world.now;
    let job = world
        .job(2)
        .policy("CALENDAR")
        .retries(1)
        .estimates(&[10, 20])
        .deadline(40)
        .submit();

    let told = Keeping {
        made: start,
        deadline: start + s(40),
        promised: start + s(30),
        expected: Some(start + s(30)),
        overdue: 0,
        again: 0,
        open: 2,
    };
    assert_eq!(kept(&world, job), told);

    // Both are still there after a while: one runs for too long, so that the other is late.
    world.moves(host, Phase::Running);
    world.now = start + s(25);
    assert_eq!(
        kept(&world, job),
        Keeping {
            overdue: 1,
            expected: Some(start + s(45)),
            ..told
        }
    );

    // It fails, and is to be tried again.
    let attempt = world.attempt_on(host);
    world.send(Event::HostDrained { host });
    world.fails(host, attempt);
    assert_eq!(
        kept(&world, job),
        Keeping {
            again: 1,
            expected: None,
            ..told
        },
        "no host takes work"
    );

    world.send(Event::HostUndrained { host });
    assert_eq!(kept(&world, job).expected, Some(start + s(55)));
}

#[test]
fn a_job_without_a_promise_has_none_to_keep() {
    let mut world = World::new();
    let job = world.job(2).policy("PROMISE").estimate(s(5)).submit();
    assert_eq!(world.scheduler.keeping(job, world.now), None);
}
