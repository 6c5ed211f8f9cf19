//! deskgrid's own policy on thousands of hosts.

use simulator::experiment::{Contender, DaySource, Generated, HOSTS};
use simulator::oracle::Oracle;
use simulator::world::{PreparedTrace, Run, Simulator};

const WORK_S: f64 = 300.0;
const START_S: f64 = 18_000.0;

/// Returns the makespan over the least possible one, and the copies per task, of two tasks for each
/// of these hosts.
fn measured(hosts: usize) -> (f64, f64) {
    let source = |hosts| Generated::named("homogeneous", "default", 1, hosts).expect("it is known");
    let who = Contender::named("deskgrid");
    let known = source(HOSTS)
        .knowledge(1, &[], std::slice::from_ref(&who), 1)
        .expect("a day");
    let trace = source(hosts).day(101).expect("a day");
    let tasks = 2 * u32::try_from(hosts).expect("a number of hosts");

    let run = Run {
        watch: true,
        experience: Some(known.of(&who)),
        ..Run::new(START_S, tasks, WORK_S, "deskgrid")
    };
    let outcome = Simulator::default()
        .run(
            &PreparedTrace::new(&trace).expect("clock rates that hosts have"),
            &run,
        )
        .expect("a policy of the catalogue");

    let least_s = Oracle::new(&trace, START_S, WORK_S, 40.0, 1)
        .makespan_s(tasks)
        .expect("the day is long enough");
    let took_s = outcome.makespan_s.expect("the day is long enough");
    (
        took_s / least_s,
        f64::from(outcome.replicas) / f64::from(tasks),
    )
}

#[test]
fn copies_are_worth_as_much_on_thousands_of_hosts_as_on_hundreds() {
    let (few, _) = measured(HOSTS);
    let (many, copies) = measured(3_000);
    assert!(many < 1.15 && many < few + 0.1, "{few} and {many}");
    assert!((0.05..0.3).contains(&copies), "{copies}");
}
