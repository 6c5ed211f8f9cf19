//! A PC that sleeps and wakes while a task is there. Sessions and watchers are told of by a clock
//! that counts sleep, so it leaps; the worker's own one stands still meanwhile.

use super::*;
use crate::engine::{CrashRules, Engine, EngineInput};
use crate::machine::MachineEvent;
use crate::machine::tests::{command, id};
use crate::owner::policy::hours::WeekTime;
use crate::owner::policy::{Decision, OwnerPolicy};
use crate::owner::rules::{HostSize, OwnerRules};
use crate::owner::sight::Topic;
use common::attempt::{HeldAttempt, Phase};
use common::host::YieldReason::InUse;
use common::settings::ConfigDuration;
use common::wire::worker::ToWorker;

/// The time without input after which tasks go on, and the limit of the task, in seconds.
const QUIET: u64 = 180;
const LIMIT: u64 = 3_600;
const NIGHT: u64 = 8 * 3_600;

struct SleepyPc {
    pc: Pc,
    policy: OwnerPolicy,
    engine: Engine,
    /// The seconds since the PC was started, and those of them that the worker was awake.
    boot: u64,
    awake: u64,
}

impl SleepyPc {
    /// A task runs in front of a screen at which nobody has sat for two hours.
    fn working() -> Self {
        let rules = OwnerRules {
            first_watch: ConfigDuration::ZERO,
            ..OwnerRules::default()
        };
        let room = HostSize {
            slots: 1,
            cores: 1,
            memory: 0,
            memory_bound: 0,
            memory_per_task: 0,
        };
        let sensors = [("input".to_owned(), Topic::Input)];
        let mut sleepy = Self {
            pc: Pc::new(&[(1, Active)]),
            policy: OwnerPolicy::new(rules, &room, sensors, at(0)),
            engine: Engine::new(1, Span::from_secs(5), None, [], CrashRules::KEPT),
            boot: 10_000,
            awake: 0,
        };
        sleepy.pc.sessions.came(7, 1).unwrap();
        sleepy.says(7_200);
        assert_eq!(sleepy.looks(), Decision::Run);

        let given = vec![command(1, Some(Span::from_secs(LIMIT)))];
        sleepy.happens(EngineInput::Said(ToWorker::Assign(given)));
        sleepy.happens(EngineInput::Happened(MachineEvent::Staged(id(1))));
        assert_eq!(sleepy.stays(60, 7_200), Decision::Run);
        sleepy
    }

    fn happens(&mut self, input: EngineInput) {
        self.engine.step(at(self.awake), input, &mut Vec::new());
    }

    /// The watcher says for how many seconds nobody has touched anything.
    fn says(&mut self, idle: u64) {
        self.pc.sessions.said(7, at(self.boot), word(idle));
    }

    /// The service looks, decides, and does what its clock asks for.
    fn looks(&mut self) -> Decision {
        let input = self.pc.input(at(self.boot));
        self.policy.saw(at(self.awake), 0, input);
        let hour = WeekTime::new(0, Span::ZERO);
        let decision = self.policy.decide(at(self.awake), hour);
        self.happens(EngineInput::Happened(MachineEvent::Decided(decision)));
        self.happens(EngineInput::Happened(MachineEvent::Tick));
        decision
    }

    /// Lets `seconds` pass without a touch, from the idle time `idle` on, and returns the last decision.
    fn stays(&mut self, seconds: u64, idle: u64) -> Decision {
        let mut decision = self.policy.decided().1;
        for second in 1..=seconds {
            self.boot += 1;
            self.awake += 1;
            self.says(idle + second);
            decision = self.looks();
        }
        decision
    }

    fn sleeps(&mut self) {
        self.boot += NIGHT;
    }

    fn task(&self) -> HeldAttempt {
        self.engine.machine().held(at(self.awake)).remove(0)
    }
}

#[test]
fn after_sleep_the_owner_is_there_until_a_watcher_speaks_and_the_task_goes_on_after_the_usual_time()
{
    let mut pc = SleepyPc::working();
    pc.sleeps();
    assert_eq!(
        pc.looks(),
        Decision::Freeze(InUse),
        "no watcher has spoken since"
    );
    assert_eq!(pc.stays(QUIET - 1, 7_260 + NIGHT), Decision::Freeze(InUse));
    assert_eq!(pc.stays(2, 7_260 + NIGHT + QUIET - 1), Decision::Run);
    assert!(pc.task().ran < Span::from_secs(65), "{:?}", pc.task());
}

#[test]
fn whoever_wakes_a_pc_by_a_key_has_it_for_themselves() {
    let mut pc = SleepyPc::working();
    pc.sleeps();
    pc.says(0);
    assert_eq!(pc.looks(), Decision::Freeze(InUse));
    assert_eq!(pc.stays(QUIET - 1, 0), Decision::Freeze(InUse));
    assert_eq!(pc.stays(2, QUIET - 1), Decision::Run);
}

#[test]
fn a_night_of_sleep_is_no_run_time_and_takes_no_task_over_its_limit() {
    let mut pc = SleepyPc::working();
    pc.sleeps();
    // Woken by a timer, with a watcher that speaks before the service looks.
    pc.says(7_260 + NIGHT);
    assert_eq!(pc.looks(), Decision::Run);
    assert_eq!(pc.task().ran, Span::from_secs(60));
    assert_eq!(pc.stays(LIMIT - 61, 7_260 + NIGHT), Decision::Run);
    assert_eq!(pc.task().phase, Phase::Running);
}
