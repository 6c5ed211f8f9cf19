//! Drives the scheduler by hand: two hosts of different speeds, one job of ten tasks, no clock but a
//! counter. Also built for WebAssembly by `.ci/wasm`, which proves that nothing outside is needed.

use std::collections::BTreeMap;

use common::attempt::Outcome;
use common::host::OwnerState;
use common::job::Rules;
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Span, Speed, Time};
use scheduler::event::Bag;
use scheduler::{Effect, Event, Scheduler, Settings};

/// The work of each task, in seconds on a host of speed 1.
const WORK_S: f64 = 60.0;
/// The speeds of `host-1` and `host-2`.
const SPEEDS: [f64; 2] = [1.0, 2.0];

/// How long a task runs on this host.
fn run_time(host: HostId) -> Span {
    Span::from_secs_f64(WORK_S / SPEEDS[host.0 as usize - 1])
}

fn main() {
    let mut scheduler = Scheduler::new(Settings::default(), Incarnation(1));
    let mut effects = Vec::new();
    let mut now = Time(0);

    for (host, speed) in (1..).map(HostId).zip(SPEEDS) {
        let joined = Event::HostJoined {
            host,
            slots: 1,
            speed: Speed::new(speed).expect("a positive speed"),
            status: OwnerState::Away.into(),
            held: Vec::new(),
        };
        scheduler.step(now, joined, &mut effects);
    }
    let submitted = Event::JobSubmitted {
        job: JobId(1),
        bag: Box::new(Bag::new(IdSet::from_range(1, 10), Rules::default())),
        tested: None,
    };
    scheduler.step(now, submitted, &mut effects);

    // What runs, by the time at which it will be done.
    let mut running: BTreeMap<(Time, HostId), AttemptId> = BTreeMap::new();
    loop {
        for effect in std::mem::take(&mut effects) {
            match effect {
                Effect::Start {
                    host, attempt, why, ..
                } => {
                    println!("{}: {attempt} starts on {host}: {why}", now.since(Time(0)));
                    running.insert((now + run_time(host), host), attempt);
                }
                Effect::JobSettled { job, .. } => {
                    println!("{}: job {job} is done", now.since(Time(0)));
                    return;
                }
                _ => {}
            }
        }

        // The scheduler may want to be woken before anything ends.
        let wakeup = scheduler.next_wakeup();
        let Some(((at, host), attempt)) = running.pop_first() else {
            println!("nothing runs, and the job is not done");
            return;
        };
        if let Some(wakeup) = wakeup.filter(|wakeup| *wakeup < at) {
            running.insert((at, host), attempt);
            now = wakeup;
            scheduler.step(now, Event::Tick, &mut effects);
            continue;
        }

        now = at;
        let ended = Event::AttemptEnded {
            host,
            attempt,
            outcome: Outcome::Succeeded,
            ran: run_time(host),
        };
        scheduler.step(now, ended, &mut effects);
    }
}
