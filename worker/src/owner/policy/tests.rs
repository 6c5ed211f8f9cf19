//! What the policy promises, over any sequence of sights, and some days in an office.

use std::collections::BTreeMap;

use common::host::YieldReason::{
    Busy, ExclusiveApp, InUse, LowMemory, OnBattery, OtherGridAway, OutsideHours, PausedByOwner,
    StartingUp,
};
use proptest::prelude::*;

use super::*;

/// One sensor of each topic, and a second one of input.
const SENSORS: [(&str, Topic); 7] = [
    ("x11", Topic::Input),
    ("logind", Topic::Input),
    ("cpu", Topic::Load),
    ("psi", Topic::Memory),
    ("ac", Topic::Power),
    ("procs", Topic::Programs),
    ("switch", Topic::Switch),
];
const ROOM: HostSize = HostSize {
    slots: 4,
    cores: 4,
    memory: 0,
    memory_bound: 0,
    memory_per_task: 0,
};

fn s(seconds: f64) -> Span {
    Span::from_secs_f64(seconds)
}

fn at(seconds: f64) -> Time {
    Time(0) + s(seconds)
}

fn idle(seconds: f64) -> Sight {
    Sight::Seen(Reading::Idle(s(seconds)))
}

fn load(processors: f64) -> Sight {
    Sight::Seen(Reading::Load(processors))
}

fn memory(available: f64, pressure: f64) -> Sight {
    Sight::Seen(Reading::Memory {
        available,
        pressure,
    })
}

fn battery(charge: Option<f64>) -> Sight {
    Sight::Seen(Reading::Battery(charge))
}

fn program(name: Option<&str>) -> Sight {
    Sight::Seen(Reading::Program(name.map(str::to_owned)))
}

fn paused(by: Option<&str>) -> Sight {
    Sight::Seen(Reading::Paused(by.map(str::to_owned)))
}

fn absent() -> Sight {
    Sight::Absent("no such thing".to_owned())
}

fn unknown() -> Sight {
    Sight::Unknown("permission denied".to_owned())
}

/// A host on a Monday at midnight, of which time passes only as a test says.
struct Desk {
    policy: OwnerPolicy,
    now: f64,
}

impl Desk {
    /// Everything was seen, nothing stands against tasks, and nobody has been there for an hour.
    fn quiet(rules: OwnerRules) -> Self {
        let mut desk = Self::new(rules);
        let sights = [
            idle(3_600.0),
            absent(),
            load(0.0),
            memory(0.5, 0.0),
            battery(None),
            program(None),
            paused(None),
        ];
        for (sensor, sight) in sights.into_iter().enumerate() {
            desk.sees(sensor, sight);
        }

        desk
    }

    fn new(rules: OwnerRules) -> Self {
        assert_eq!(rules.check(), Ok(()));
        let sensors = SENSORS.map(|(name, topic)| (name.to_owned(), topic));
        Self {
            policy: OwnerPolicy::new(rules, &ROOM, sensors, at(0.0)),
            now: 0.0,
        }
    }

    fn hour(&self) -> WeekTime {
        WeekTime::new(0, s(self.now))
    }

    fn decide(&mut self) -> Decision {
        let hour = self.hour();
        self.policy.decide(at(self.now), hour)
    }

    fn sees(&mut self, sensor: usize, sight: Sight) -> Decision {
        self.policy.saw(at(self.now), sensor, sight);
        self.decide()
    }

    fn after(&mut self, seconds: f64) -> Decision {
        self.now += seconds;
        self.decide()
    }

    /// Wakes up as it is told for so long; what was decided when, as far as it changed.
    fn sleep(&mut self, seconds: f64) -> Vec<(f64, Decision)> {
        let end = self.now + seconds;
        let mut turns = vec![(self.now, self.decide())];
        while let Some(next) = self
            .policy
            .next_wakeup()
            .map(Time::secs)
            .filter(|next| *next <= end)
        {
            self.now = next;
            let decision = self.decide();
            if turns.last().is_some_and(|(_, last)| *last != decision) {
                turns.push((self.now, decision));
            }
        }

        self.now = end;
        turns
    }

    fn says(&self) -> String {
        self.policy
            .why()
            .into_iter()
            .map(|finding| format!("{}: {}", finding.reason, finding.says))
            .collect()
    }
}

/// The defaults, without a first watch.
fn plain() -> OwnerRules {
    OwnerRules {
        first_watch: ConfigDuration::ZERO,
        ..OwnerRules::default()
    }
}

fn hours(windows: &[&str]) -> OwnerRules {
    let windows: Vec<String> = windows.iter().map(|w| (*w).to_owned()).collect();
    OwnerRules {
        hours: windows.try_into().unwrap(),
        ..plain()
    }
}

#[test]
fn a_key_press_freezes_at_once_and_three_minutes_without_another_thaw() {
    let mut desk = Desk::quiet(plain());
    assert_eq!(desk.decide(), Decision::Run);
    desk.after(100.0);
    assert_eq!(desk.sees(0, idle(0.0)), Decision::Freeze(InUse));
    desk.after(12.0);

    let says = desk.says();
    assert_eq!(
        says,
        "in-use: keyboard, mouse or a session was used 12.0s ago (x11); tasks resume after 3m00s without input, in 2m48s at the earliest"
    );
    assert_eq!(
        desk.sleep(1_000.0),
        [(112.0, Decision::Freeze(InUse)), (280.0, Decision::Run)]
    );

    // The other sensor's newer input counts; the older one of the first does not undo it.
    assert_eq!(desk.sees(1, idle(1.0)), Decision::Freeze(InUse));
    assert_eq!(desk.sees(0, idle(5_000.0)), Decision::Freeze(InUse));
    assert!(desk.says().contains("(logind)"));
}

#[test]
fn a_start_wants_more_quiet_than_a_resumption_that_comes_before_the_eviction() {
    let mut rules = plain();
    rules.input.idle = ConfigDuration::from_secs(900);
    rules.input.resume = ConfigDuration::from_secs(300);
    rules.evict_after = ConfigDuration::from_secs(600);

    let mut desk = Desk::quiet(rules.clone());
    desk.sees(0, idle(0.0));
    assert_eq!(
        desk.sleep(400.0)[1..],
        [(300.0, Decision::Run)],
        "suspended for less than the eviction takes"
    );

    let mut desk = Desk::quiet(rules);
    desk.sees(0, idle(0.0));
    desk.after(290.0);
    desk.sees(0, idle(0.0));
    desk.after(280.0);
    desk.sees(0, idle(0.0));

    // At 870 it has been quiet for 300 seconds, but nothing is left since 600 that could go on.
    assert_eq!(desk.sleep(2_000.0)[1..], [(570.0 + 900.0, Decision::Run)]);
}

#[test]
fn an_input_that_cannot_be_seen_is_the_owners() {
    let mut desk = Desk::quiet(plain());
    assert_eq!(desk.sees(1, unknown()), Decision::Freeze(InUse));
    assert_eq!(
        desk.after(1e6),
        Decision::Freeze(InUse),
        "for as long as it is so"
    );

    let says = desk.says();
    assert!(
        says.contains("(logind: permission denied); what cannot be seen counts as the owner's"),
        "{says}"
    );
    assert_eq!(
        desk.sees(1, idle(1e6)),
        Decision::Freeze(InUse),
        "what was hidden may have been input"
    );
    assert_eq!(desk.sleep(1e4)[1..], [(1e6 + 180.0, Decision::Run)]);
}

#[test]
fn a_host_without_a_seat_is_not_in_use() {
    let mut desk = Desk::quiet(plain());
    desk.sees(0, idle(3.0));

    let mut server = Desk::new(plain());
    for (sensor, sight) in [
        absent(),
        absent(),
        load(0.0),
        absent(),
        absent(),
        absent(),
        paused(None),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(
            server.decide(),
            Decision::Freeze(StartingUp),
            "sensor {sensor} has not looked"
        );
        server.sees(sensor, sight);
    }

    assert_eq!(server.decide(), Decision::Run);
    assert_eq!(
        server.sees(0, idle(170.0)),
        Decision::Freeze(InUse),
        "somebody has plugged in a keyboard"
    );
    assert_eq!(server.sleep(100.0)[1..], [(10.0, Decision::Run)]);
}

#[test]
fn a_short_spike_of_load_freezes_nothing_and_a_lull_thaws_nothing() {
    let mut desk = Desk::quiet(plain());
    assert_eq!(desk.sees(2, load(2.0)), Decision::Run);
    desk.after(9.0);
    assert_eq!(desk.sees(2, load(0.4)), Decision::Run);
    assert_eq!(desk.sleep(100.0).len(), 1, "half a spike is none");
    desk.sees(2, load(2.0));
    assert_eq!(desk.sleep(20.0)[1..], [(119.0, Decision::Freeze(Busy))]);

    let says = desk.says();
    let expected = "busy: other programs use 200 % of one processor (cpu); tasks resume when that has been below 25 % for 1m00s";
    assert_eq!(says, expected);
    desk.sees(2, load(0.1));
    desk.after(59.0);
    assert_eq!(
        desk.sees(2, load(0.3)),
        Decision::Freeze(Busy),
        "between the two thresholds everything stays as it is"
    );

    desk.after(1e3);
    assert_eq!(desk.sees(2, load(0.1)), Decision::Freeze(Busy));
    assert_eq!(
        desk.sleep(100.0)[1..]
            .iter()
            .map(|(_, d)| *d)
            .collect::<Vec<_>>(),
        [Decision::Run]
    );
}

#[test]
fn a_load_can_be_a_part_of_the_whole_host() {
    let mut rules = plain();
    rules.load.of = Whole::Host;
    rules.load.busy_above = 0.25;
    rules.load.free_below = 0.25;

    let mut desk = Desk::quiet(rules);
    desk.sees(2, load(0.9));
    assert_eq!(
        desk.sleep(60.0).len(),
        1,
        "0.9 of 4 processors are less than a quarter"
    );
    desk.sees(2, load(1.1));
    assert_eq!(desk.sleep(60.0).len(), 2);
    assert!(
        desk.says().contains("28 % of all processors"),
        "{}",
        desk.says()
    );
}

#[test]
fn a_sharing_owner_leaves_slots_except_against_a_hard_reason() {
    let mut desk = Desk::quiet(OwnerRules {
        slots_when_active: 2,
        ..plain()
    });
    assert_eq!(desk.sees(0, idle(0.0)), Decision::Yield(InUse, 2));
    assert!(
        desk.says().ends_with("; meanwhile 2 of 4 slots go on"),
        "{}",
        desk.says()
    );
    assert_eq!(
        desk.sees(5, program(Some("game"))),
        Decision::Freeze(ExclusiveApp)
    );
    assert_eq!(
        desk.policy.why().len(),
        2,
        "every reason is told, the first one decides"
    );
    desk.sees(5, program(None));

    assert_eq!(desk.sleep(31.0)[1..], [(30.0, Decision::Yield(InUse, 2))]);
    let mut generous = Desk::quiet(OwnerRules {
        slots_when_active: 9,
        ..plain()
    });
    assert_eq!(generous.sees(0, idle(0.0)), Decision::Run);
}

#[test]
fn hours_open_and_close_on_time() {
    let mut desk = Desk::quiet(hours(&["mon-fri 18:00-08:00"]));
    let h = 3_600.0;
    let day = desk.sleep(24.0 * h);
    assert_eq!(
        day,
        [
            (0.0, Decision::Freeze(OutsideHours)),
            (18.0 * h, Decision::Run)
        ],
        "Monday's night began on Monday"
    );

    assert_eq!(
        desk.sleep(20.0 * h)[1..],
        [
            (32.0 * h, Decision::Freeze(OutsideHours)),
            (42.0 * h, Decision::Run)
        ]
    );

    desk.after(13.0 * h);
    let expected = "outside-hours: it is wed 09:00, and the owner lets tasks run at these hours: mon-fri 18:00-08:00";
    assert_eq!(desk.says(), expected);
}

#[test]
fn batteries_programs_memory_and_switches_freeze_at_once_and_thaw_when_it_has_lasted() {
    for (sensor, bad, good, reason, after_s) in [
        (4, battery(Some(0.9)), battery(None), OnBattery, 30.0),
        (5, program(Some("game")), program(None), ExclusiveApp, 30.0),
        (3, memory(0.05, 0.0), memory(0.5, 0.0), LowMemory, 60.0),
        (3, memory(0.5, 0.3), memory(0.5, 0.0), LowMemory, 60.0),
        (
            6,
            paused(Some("/w/pause")),
            paused(None),
            PausedByOwner,
            0.0,
        ),
        (6, unknown(), paused(None), PausedByOwner, 0.0),
        (4, unknown(), absent(), OnBattery, 30.0),
    ] {
        let mut desk = Desk::quiet(OwnerRules {
            slots_when_active: 4,
            ..plain()
        });
        assert_eq!(desk.decide(), Decision::Run);
        assert_eq!(desk.sees(sensor, bad), Decision::Freeze(reason));

        let says = desk.says();
        let name = if reason == PausedByOwner {
            "paused"
        } else {
            SENSORS[sensor].0
        };
        assert!(says.contains(name), "{says}");
        desk.after(7.0);
        desk.sees(sensor, good);

        let thawed = desk.sleep(100.0).last().copied();
        assert_eq!(thawed, Some((7.0 + after_s, Decision::Run)), "{reason}");
    }
}

#[test]
fn a_charge_can_be_enough() {
    let mut rules = plain();
    rules.battery.charge_above = 0.6;

    let mut desk = Desk::quiet(rules);
    assert_eq!(desk.sees(4, battery(Some(0.7))), Decision::Run);
    assert_eq!(
        desk.sees(4, battery(Some(0.6))),
        Decision::Freeze(OnBattery)
    );
    assert!(
        desk.says().contains("60 % charged (ac)") && desk.says().contains("a charge above 60 %"),
        "{}",
        desk.says()
    );
}

#[test]
fn memory_that_suspended_tasks_hold_is_given_back() {
    let mut desk = Desk::quiet(plain());
    desk.sees(3, memory(0.01, 0.5));

    let turns = desk.sleep(600.0);
    assert_eq!(
        turns,
        [
            (0.0, Decision::Freeze(LowMemory)),
            (60.0, Decision::Evict(LowMemory))
        ]
    );

    desk.sees(3, memory(0.12, 0.0));
    assert_eq!(desk.sleep(600.0).len(), 1, "more, but not enough");
    desk.sees(3, memory(0.2, 0.0));
    assert_eq!(desk.sleep(600.0)[1..], [(1_260.0, Decision::Run)]);
}

#[test]
fn memory_that_is_there_again_is_not_asked_of_suspended_tasks() {
    let mut desk = Desk::quiet(plain());
    desk.sees(3, memory(0.01, 0.5));
    desk.after(30.0);
    desk.sees(3, memory(0.5, 0.0));
    assert_eq!(
        desk.sleep(100.0),
        [(30.0, Decision::Freeze(LowMemory)), (90.0, Decision::Run)]
    );

    // What has lasted counts again once it is short again.
    desk.sees(3, memory(0.01, 0.5));
    desk.after(59.0);
    desk.sees(3, memory(0.5, 0.0));
    desk.after(2.0);
    assert_eq!(desk.sees(3, memory(0.01, 0.5)), Decision::Evict(LowMemory));
}

#[test]
fn after_a_relief_memory_must_stay_short_for_as_long_again() {
    let mut desk = Desk::quiet(plain());
    desk.sees(3, memory(0.01, 0.5));
    let evicted = Decision::Evict(LowMemory);
    assert_eq!(desk.sleep(70.0)[1..], [(60.0, evicted)]);

    desk.policy.relieve(at(70.0));
    assert_eq!(
        desk.sleep(600.0),
        [(70.0, Decision::Freeze(LowMemory)), (130.0, evicted)]
    );
}

#[test]
fn a_worker_that_starts_watches_first() {
    let mut desk = Desk::quiet(OwnerRules::default());
    assert_eq!(desk.decide(), Decision::Freeze(StartingUp));
    assert_eq!(desk.sleep(60.0)[1..], [(10.0, Decision::Run)]);
    // Where neither input nor load can be seen there is nothing to watch.
    let mut desk = Desk::quiet(OwnerRules::default());
    for sensor in 0..3 {
        desk.sees(sensor, absent());
    }
    assert_eq!(desk.decide(), Decision::Run);
}

#[test]
fn no_task_starts_on_a_host_that_was_busy_from_the_beginning() {
    let mut desk = Desk::quiet(OwnerRules::default());
    desk.after(0.5);
    desk.sees(2, load(2.0));
    assert_eq!(
        desk.says(),
        "starting-up: other programs load this host: whether that lasts is known in 10.0s, and no task starts before"
    );
    desk.after(6.0);
    let turns = desk.sleep(20.0);
    assert_eq!(
        turns,
        [
            (6.5, Decision::Freeze(StartingUp)),
            (10.5, Decision::Freeze(Busy))
        ]
    );

    // A spike puts nothing off, nor does a load that begins later.
    let mut desk = Desk::quiet(OwnerRules::default());
    desk.after(9.0);
    desk.sees(2, load(2.0));
    desk.after(3.0);
    assert_eq!(desk.sees(2, load(0.0)), Decision::Run);
    desk.sees(2, load(2.0));
    assert_eq!(desk.after(9.0), Decision::Run);
}

#[test]
fn rules_that_are_not_heeded_count_for_nothing() {
    let mut desk = Desk::new(OwnerRules::dedicated());
    assert_eq!(
        desk.sees(6, paused(None)),
        Decision::Run,
        "no other sensor has to look"
    );
    for sensor in 0..6 {
        assert_eq!(desk.sees(sensor, unknown()), Decision::Run);
    }

    assert_eq!(
        desk.sees(6, paused(Some("x"))),
        Decision::Freeze(PausedByOwner)
    );
}

/// Something happens.
#[derive(Debug, Clone)]
enum Op {
    Sees(usize, Sight),
    Passes(f64),
    /// As long as the policy says that nothing changes.
    Sleeps,
}

fn part() -> impl Strategy<Value = f64> {
    prop_oneof![4 => 0.0..1.0, 1 => Just(0.0), 1 => Just(1.0)]
}

fn sight(sensor: usize) -> BoxedStrategy<Sight> {
    let seen = match SENSORS[sensor].1 {
        Topic::Input => prop_oneof![0.0..400.0, Just(0.0), Just(1e6), 85.0..95.0, 175.0..185.0]
            .prop_map(idle)
            .boxed(),
        Topic::Load => prop_oneof![0.0..2.0, 0.2..0.3, 0.45..0.55, Just(f64::NAN)]
            .prop_map(load)
            .boxed(),
        Topic::Memory => (part(), part())
            .prop_map(|(a, p)| memory(a * 0.3, p * 0.3))
            .boxed(),
        Topic::Power => proptest::option::of(part()).prop_map(battery).boxed(),
        Topic::Programs => any::<bool>()
            .prop_map(|runs| program(runs.then_some("game")))
            .boxed(),
        Topic::Switch => any::<bool>()
            .prop_map(|on| paused(on.then_some("file")))
            .boxed(),
    };
    prop_oneof![8 => seen, 1 => Just(absent()), 1 => Just(unknown())].boxed()
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..SENSORS.len()).prop_flat_map(|sensor| sight(sensor).prop_map(move |seen| Op::Sees(sensor, seen))),
        // Going back, too: such clocks exist.
        3 => prop_oneof![0.0..3.0, 0.0..100.0, 0.0..2_000.0, -50.0..0.0].prop_map(Op::Passes),
        3 => Just(Op::Sleeps),
    ]
}

fn rules() -> impl Strategy<Value = OwnerRules> {
    let windows = prop_oneof![
        Just(vec![]),
        Just(vec!["mon 00:05-00:20", "mon 01:00-tue 02:00"]),
        Just(vec!["00:10-23:00"])
    ];
    (
        0u32..5,
        windows,
        prop_oneof![Just(0), Just(30)],
        prop_oneof![Just(180), Just(300)],
    )
        .prop_map(|(slots_when_active, windows, first_watch_s, idle_s)| {
            let windows = windows
                .into_iter()
                .filter(|w| w.parse::<hours::Hours>().is_ok());
            let hours = windows
                .map(str::to_owned)
                .collect::<Vec<_>>()
                .try_into()
                .unwrap();
            let mut rules = OwnerRules {
                slots_when_active,
                hours,
                first_watch: ConfigDuration::from_secs(first_watch_s),
                ..plain()
            };
            rules.input.idle = ConfigDuration::from_secs(idle_s);
            rules.evict_after = ConfigDuration::from_secs(200);
            rules.battery.charge_above = 0.5;

            rules
        })
}

/// For how long a reason holds at least once it holds.
fn least(reason: YieldReason) -> f64 {
    match reason {
        InUse => 90.0,
        Busy | LowMemory => 60.0,
        OnBattery | ExclusiveApp => 30.0,
        OutsideHours | PausedByOwner | StartingUp | OtherGridAway => 0.0,
    }
}

/// What no sensor's present word lets pass, told without the policy.
fn forbidden(desk: &Desk, rules: &OwnerRules) -> bool {
    let sights = |topic: Topic| {
        desk.policy
            .sensors()
            .iter()
            .filter(move |w| w.topic == topic)
            .map(|w| w.sight.as_ref())
    };
    let any = |topic: Topic, bad: &dyn Fn(Time, &Reading) -> bool| {
        sights(topic).any(|sight| match sight {
            None | Some((_, Sight::Unknown(_))) => true,
            Some((at, Sight::Seen(reading))) => bad(*at, reading),
            Some((_, Sight::Absent(_))) => false,
        })
    };

    let shares = rules.slots_when_active > 0;
    let touched = |at: Time, reading: &Reading| matches!(reading, Reading::Idle(idle) if (*idle + desk.policy.now.since(at)).secs() < 90.0);
    any(Topic::Switch, &|_, reading| {
        matches!(reading, Reading::Paused(Some(_)))
    }) || any(Topic::Programs, &|_, reading| {
        matches!(reading, Reading::Program(Some(_)))
    }) || any(
        Topic::Power,
        &|_, reading| matches!(reading, Reading::Battery(Some(charge)) if *charge <= 0.5),
    ) || any(
        Topic::Memory,
        &|_, r| matches!(r, Reading::Memory { available, pressure } if *available < 0.1 || *pressure > 0.2),
    ) || !rules.hours.allow(desk.hour())
        || !shares && any(Topic::Input, &touched)
        || !shares && sights(Topic::Load).any(|s| matches!(s, None | Some((_, Sight::Unknown(_)))))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_task_runs_while_a_rule_forbids_it_and_none_flaps_faster_than_its_patience(
        rules in rules(),
        ops in proptest::collection::vec(op(), 0..150),
    ) {
        let mut desk = Desk::new(rules.clone());
        let mut holds = BTreeMap::<YieldReason, f64>::new();
        let mut latest = 0.0_f64;
        let mut touched = false;

        for op in ops {
            match op {
                Op::Sees(sensor, sight) => desk.policy.saw(at(desk.now), sensor, sight),
                Op::Passes(seconds) => desk.now = (desk.now + seconds).max(0.0),
                Op::Sleeps => desk.now = desk.policy.next_wakeup().map_or(desk.now, Time::secs),
            }

            let decision = desk.decide();
            latest = latest.max(desk.now);

            let slots = decision.slots(4);
            prop_assert!(slots == 0 || !forbidden(&desk, &rules), "{decision:?}, and {:?}", desk.policy.sensors());
            prop_assert!(slots == 4 || slots == 0 || slots == rules.slots_when_active);

            let now: Vec<YieldReason> = desk.policy.why().into_iter().map(|finding| finding.reason).collect();
            prop_assert_eq!(decision.reason(), now.first().copied().filter(|_| slots < 4));
            for reason in [PausedByOwner, OutsideHours, OnBattery, ExclusiveApp, LowMemory, InUse, Busy, StartingUp] {
                let before = holds.get(&reason).copied();
                let is = now.contains(&reason);
                if let (Some(since), false) = (before, is) {
                    // The first input that is seen may be older: it suspends nothing that ran for
                    // long.
                    let lasted = latest - since;
                    let first = reason == InUse && !std::mem::replace(&mut touched, true);
                    prop_assert!(first || lasted + 1e-5 >= least(reason), "{reason} held for {lasted} s only");
                }
                if is { holds.entry(reason).or_insert(latest); } else { holds.remove(&reason); }
            }

            prop_assert!(desk.policy.next_wakeup().is_none_or(|next| next > desk.policy.now));
        }
    }

    #[test]
    fn the_policy_changes_only_at_its_wakeup(
        rules in rules(),
        ops in proptest::collection::vec(op(), 0..60),
        looks in proptest::collection::vec(0.0..1.0, 1..5),
    ) {
        let mut desk = Desk::new(rules.clone());
        let mut restless = Desk::new(rules);
        for op in ops {
            match op {
                Op::Sees(sensor, sight) => {
                    desk.policy.saw(at(desk.now), sensor, sight.clone());
                    restless.policy.saw(at(desk.now), sensor, sight);
                }
                Op::Passes(seconds) => desk.now += seconds.max(0.0),
                Op::Sleeps => {
                    let before = desk.decide();
                    let from = desk.now;
                    let until = desk.policy.next_wakeup().map_or(from + 1e5, Time::secs);
                    for look in &looks {
                        restless.now = from + look * (until - from - 1e-6).max(0.0);
                        prop_assert_eq!(restless.decide(), before, "{} s of {} s", look, until - from);
                    }
                    desk.now = until;
                }
            }

            restless.now = desk.now;
            let a = desk.decide();
            let b = restless.decide();
            prop_assert_eq!(a, b, "who looks more often sees the same");
        }
    }
}
