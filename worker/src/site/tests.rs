//! What settings from the master can do to a worker, and what they cannot.

use std::fs;

use common::host::YieldReason::{InUse, OnBattery, OutsideHours};
use common::site::{SiteScope, SiteText};
use common::{Span, Time};
use proptest::prelude::*;

use super::*;
use crate::owner::guard::Guard;
use crate::owner::policy::hours::WeekTime;
use crate::owner::policy::{Decision, OwnerPolicy};
use crate::owner::rules::HostSize;
use crate::owner::sight::{Reading, Sight, Topic};

const ROOM: HostSize = HostSize {
    slots: 4,
    cores: 4,
    memory: 0,
    memory_bound: 0,
    memory_per_task: 0,
};
/// The sensors of a host; the owner's own policy may know only some of them.
const SENSORS: [Topic; 6] = [
    Topic::Switch,
    Topic::Input,
    Topic::Load,
    Topic::Memory,
    Topic::Power,
    Topic::Programs,
];

fn settings(texts: &[&str]) -> SiteSettings {
    let texts = texts.iter().map(|text| SiteText {
        scope: SiteScope::All,
        text: (*text).to_owned(),
    });
    SiteSettings {
        digest: 7,
        texts: texts.collect(),
    }
}

fn site(own: &Config, texts: &[&str]) -> SiteState {
    let dir = tempfile::tempdir().unwrap();
    let mut site = SiteState::open(dir.path(), own, Time(0));
    assert_eq!(site.take(settings(texts), Time(0)).refused, None);
    site
}

fn named(topics: &[Topic]) -> Vec<(String, Topic)> {
    topics
        .iter()
        .map(|topic| (format!("{topic:?}"), *topic))
        .collect()
}

/// A guard and the owner's own policy alone, at the same sights.
struct Pair {
    guard: Guard,
    own: OwnerPolicy,
    now: Time,
}

impl Pair {
    /// Sensors beyond the switch are there where the rules heed them; others come with the settings.
    fn new(rules: &OwnerRules, slots: u32) -> Self {
        let now = Time(1_000_000);
        let known = named(&SENSORS);
        let known = known.into_iter().filter(|(_, topic)| rules.heeds(*topic));
        let known: Vec<_> = known.collect();
        Self {
            guard: Guard::new(rules.clone(), &ROOM, slots, known.clone(), now),
            own: OwnerPolicy::new(rules.clone(), &ROOM, known, now),
            now,
        }
    }

    fn restrict(&mut self, rules: Option<OwnerRules>) {
        let there: Vec<Topic> = self.guard.sensors().iter().map(|s| s.topic).collect();
        let more = named(&SENSORS).into_iter().filter(|(_, topic)| {
            !there.contains(topic) && rules.as_ref().is_some_and(|rules| rules.heeds(*topic))
        });
        let more: Vec<_> = more.collect();
        self.guard.restrict(self.now, rules, &ROOM, more);
    }

    fn sees(&mut self, topic: Topic, sight: &Sight) {
        let number = self.guard.sensors().iter().position(|s| s.topic == topic);
        if let Some(number) = number {
            self.guard.saw(self.now, number, sight.clone());
            self.own.saw(self.now, number, sight.clone());
        }
    }

    fn decide(&mut self, hour: WeekTime) -> (Decision, Decision) {
        let decisions = (
            self.guard.decide(self.now, hour),
            self.own.decide(self.now, hour),
        );
        assert_eq!(self.guard.decided().1, decisions.0);
        decisions
    }
}

fn noon() -> WeekTime {
    WeekTime::new(0, Span::from_secs(12 * 3_600))
}

fn idle(s: u64) -> Sight {
    Sight::Seen(Reading::Idle(Span::from_secs(s)))
}

#[test]
fn a_stricter_setting_holds_at_once_and_a_looser_one_changes_nothing() {
    let mut own = Config::default();
    own.owner.load.heed = false;
    own.owner.memory.heed = false;
    own.owner.first_watch = common::settings::ConfigDuration::ZERO;
    let mut pair = Pair::new(&own.owner, 4);
    let quiet = |pair: &mut Pair| {
        pair.sees(Topic::Switch, &Sight::Seen(Reading::Paused(None)));
        pair.sees(Topic::Input, &idle(240));
        pair.sees(Topic::Power, &Sight::Seen(Reading::Battery(None)));
        pair.sees(Topic::Programs, &Sight::Seen(Reading::Program(None)));
    };
    quiet(&mut pair);
    assert_eq!(pair.decide(noon()), (Decision::Run, Decision::Run));

    let strict = site(&own, &["[owner.input]\nidle = \"10m\""]);
    pair.restrict(strict.strictest(4));
    assert_eq!(pair.decide(noon()).0, Decision::Freeze(InUse));
    let why = pair.guard.why();
    assert!(
        why[0].says.ends_with("by the settings from the master"),
        "{why:?}"
    );
    assert_eq!(pair.own.why(), []);

    let loose = site(&own, &["[owner.input]\nidle = \"1m\"\nresume = \"1s\""]);
    pair.restrict(loose.strictest(4));
    assert_eq!(pair.decide(noon()), (Decision::Run, Decision::Run));

    let nights = "[owner]\nhours = [\"18:00-08:00\"]";
    pair.restrict(site(&own, &[nights]).strictest(4));
    assert_eq!(pair.decide(noon()).0, Decision::Freeze(OutsideHours));
    pair.restrict(None);
    assert_eq!(pair.decide(noon()), (Decision::Run, Decision::Run));
}

#[test]
fn of_several_texts_the_strictest_value_of_each_key_counts() {
    let own = Config::default();
    let texts = [
        "slots = 3\n[owner]\nhours = [\"18:00-08:00\"]\nevict_after = \"10m\"",
        "slots = 2\nmemory_limit_bytes = 1000\nlend_gpus = false\n[owner]\nhours = [\"mon-fri\"]\nevict_after = \"1h\"",
    ];
    let site = site(&own, &texts);
    let rules = site.strictest(4).unwrap();
    assert_eq!(rules.patience(), Some(Span::from_secs(600)));
    assert!(!rules.hours.allow(noon()));
    assert!(
        !rules
            .hours
            .allow(WeekTime::new(5, Span::from_secs(20 * 3_600)))
    );
    assert!(
        rules
            .hours
            .allow(WeekTime::new(1, Span::from_secs(20 * 3_600)))
    );

    let mut config = Config {
        slots: 8,
        processes_limit: 0,
        ..own
    };
    site.bound(&mut config);
    assert_eq!((config.slots, config.memory_limit_bytes), (2, 1_000));
    assert!(!config.lend_gpus && config.share_inputs && config.processes_limit == 0);
}

#[test]
fn sensors_that_only_the_settings_need_count_as_the_owners_presence_until_they_look() {
    let own = Config {
        owner: OwnerRules::dedicated(),
        ..Config::default()
    };
    let mut pair = Pair::new(&own.owner, 4);
    pair.sees(Topic::Switch, &Sight::Seen(Reading::Paused(None)));
    assert_eq!(pair.decide(noon()), (Decision::Run, Decision::Run));

    pair.restrict(site(&own, &["[owner.battery]\ncharge_above = 1.0"]).strictest(4));
    let (now, alone) = pair.decide(noon());
    assert!(now.slots(4) == 0 && alone == Decision::Run, "{now:?}");
    pair.sees(Topic::Power, &Sight::Seen(Reading::Battery(None)));
    assert_eq!(pair.decide(noon()).0, Decision::Run);
    pair.sees(Topic::Power, &Sight::Seen(Reading::Battery(Some(0.9))));
    assert_eq!(pair.decide(noon()).0, Decision::Freeze(OnBattery));
}

#[test]
fn sensors_that_no_setting_needs_any_more_are_left_and_heard_no_more() {
    let own = Config {
        owner: OwnerRules::dedicated(),
        ..Config::default()
    };
    let battery = site(&own, &["[owner.battery]\ncharge_above = 1.0"]);
    let mut pair = Pair::new(&own.owner, 4);
    pair.sees(Topic::Switch, &Sight::Seen(Reading::Paused(None)));
    let alone = pair.guard.sensors().len();

    let first = pair.guard.next_sensor();
    pair.restrict(battery.strictest(4));
    pair.sees(Topic::Power, &Sight::Seen(Reading::Battery(Some(0.9))));
    assert_eq!(pair.decide(noon()).0, Decision::Freeze(OnBattery));
    pair.guard.leave(|_| false);
    pair.restrict(None);
    assert_eq!(pair.guard.sensors().len(), alone);
    assert_eq!(pair.decide(noon()).0, Decision::Run);

    // Another one comes with the next settings; what the first one says yet is not its word.
    let mains = Sight::Seen(Reading::Battery(None));
    let second = pair.guard.next_sensor();
    assert_ne!(second, first);
    pair.restrict(battery.strictest(4));
    pair.guard.saw(pair.now, first, mains.clone());
    assert_eq!(pair.decide(noon()).0.slots(4), 0);
    pair.guard.saw(pair.now, second, mains);
    assert_eq!(pair.decide(noon()).0, Decision::Run);
}

#[test]
fn new_settings_do_not_end_the_waiting_times_of_those_before() {
    let own = Config {
        owner: OwnerRules::dedicated(),
        ..Config::default()
    };
    let battery = "[owner.battery]\ncharge_above = 1.0\nresume_after = \"10m\"";
    let input = "[owner.input]\nidle = \"10m\"";
    for (text, topic, there, gone, reason) in [
        (
            battery,
            Topic::Power,
            Sight::Seen(Reading::Battery(Some(0.9))),
            Sight::Seen(Reading::Battery(None)),
            OnBattery,
        ),
        (
            input,
            Topic::Input,
            Sight::Unknown("no permission".to_owned()),
            idle(3_600),
            InUse,
        ),
    ] {
        let mut pair = Pair::new(&own.owner, 4);
        pair.sees(Topic::Switch, &Sight::Seen(Reading::Paused(None)));
        pair.restrict(site(&own, &[text]).strictest(4));
        pair.sees(topic, &there);
        pair.sees(topic, &gone);
        assert_eq!(pair.decide(noon()).0, Decision::Freeze(reason));

        pair.now = pair.now + Span::from_secs(60);
        pair.guard.leave(|_| true);
        pair.restrict(site(&own, &[text, "slots = 3"]).strictest(4));
        assert_eq!(pair.decide(noon()).0, Decision::Freeze(reason));
        pair.now = pair.now + Span::from_secs(539);
        assert_eq!(pair.decide(noon()).0, Decision::Freeze(reason));
        pair.now = pair.now + Span::from_secs(1);
        assert_eq!(pair.decide(noon()).0, Decision::Run);
    }
}

#[test]
fn what_cannot_come_from_the_master_is_refused_by_its_key() {
    for (text, why) in [
        ("slotz = 1", "there is no setting `slotz`"),
        ("[owner]\ninputs = 3", "there is no setting `owner.inputs`"),
        (
            "[owner]\ninput = 3",
            "`owner.input` is a table of settings, and has none here",
        ),
        ("confinement = \"process\"", "`confinement` cannot come"),
        ("network = \"always\"", "`network` cannot come"),
        ("readable_paths = [\"/\"]", "`readable_paths` cannot come"),
        ("account = \"root\"", "`account` cannot come"),
        ("path = \"/tmp\"", "`path` cannot come"),
        (
            "settings_from_master = true",
            "`settings_from_master` cannot",
        ),
        (
            "[owner]\npause_files = []",
            "`owner.pause_files` cannot come",
        ),
        (
            "[owner.input]\nheed = false",
            "`owner.input.heed` cannot come",
        ),
        ("[sensors]\nevdev = \"off\"", "`sensors.evdev` cannot come"),
        ("[sensors]", "`sensors` cannot come"),
        (
            "share_inputs = true",
            "only `false` can come from the master",
        ),
        ("lend_gpus = true", "only `false` can come from the master"),
        ("slots = 0", "none at all would be no limit"),
        ("memory_limit_bytes = 0", "none at all would be no limit"),
        (
            "[owner]\nevict_after = \"0s\"",
            "none at all would be no limit",
        ),
        ("[owner]\nhours = []", "owner.hours has no window"),
        ("[owner]\nhours = [\"mon 9-17\"]", "`9` is no time of day"),
        (
            "[owner.load]\nbusy_above = nan",
            "owner.load.busy_above must be above 0",
        ),
        ("[owner.battery]\ncharge_above = 2", "must be from 0 to 1"),
        ("slots = \"two\"", "expected u32"),
        ("[owner]\nslots_when_active = -1", "expected u32"),
        ("slots = ", "TOML parse error"),
    ] {
        let told = check(text).unwrap_err();
        assert!(told.contains(why) && !told.contains('\n'), "{text}: {told}");
    }
}

#[test]
fn every_key_that_can_come_from_the_master_is_one_of_a_workers_own() {
    let own = every_key_of(&Config::default());
    for key in KEYS {
        assert!(own.contains(key), "{key}");
    }
    let shipped = include_str!("../../../configs/site.toml");
    let (_, keys) = read(shipped).unwrap();
    let named: BTreeSet<&str> = keys.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(named, KEYS.into_iter().collect());
}

#[test]
fn refused_settings_leave_those_before_and_an_owner_who_takes_none_gets_none() {
    let own = Config::default();
    let dir = tempfile::tempdir().unwrap();
    let mut site = SiteState::open(dir.path(), &own, Time(0));
    assert_eq!(site.answer(), None);
    site.take(settings(&["slots = 2"]), Time(1));
    let before = site.strictest(4);
    let refused = site.take(
        settings(&["slots = 1", "confinement = \"process\""]),
        Time(2),
    );
    let why = refused.refused.unwrap();
    assert!(
        why.contains("`confinement`") && why.ends_with("(settings of all)"),
        "{why}"
    );
    assert_eq!(site.strictest(4), before);
    let report = site.report();
    assert_eq!(
        (report.settings.len(), &*report.settings[0].value),
        (1, "2")
    );
    assert!(report.takes && report.refused.unwrap().why.contains("`confinement`"));

    let file = SiteFile::below(dir.path());
    file.write(&site.record()).unwrap();
    let none = Config {
        settings_from_master: false,
        ..own.clone()
    };
    let mut closed = SiteState::open(dir.path(), &none, Time(3));
    assert_eq!(closed.strictest(4), None);
    let answer = closed.take(settings(&["slots = 1"]), Time(4));
    assert!(answer.refused.unwrap().contains("takes no settings"));
    assert!(!closed.report().takes && closed.report().settings.is_empty());
}

#[test]
fn the_owner_sees_each_setting_with_its_own_value_and_when_it_changed() {
    let own = Config::default();
    let dir = tempfile::tempdir().unwrap();
    let mut site = SiteState::open(dir.path(), &own, Time(0));
    let day = |n: u64| Time(n * 86_400_000_000);
    site.take(
        settings(&["slots = 2\n[owner.input]\nidle = \"5m\""]),
        day(1),
    );
    site.take(
        settings(&["slots = 2\n[owner.input]\nidle = \"9m\""]),
        day(2),
    );
    SiteFile::below(dir.path()).write(&site.record()).unwrap();

    let mut site = SiteState::open(dir.path(), &own, day(3));
    let report = site.report();
    let [idle, slots] = &report.settings[..] else {
        panic!("{report:?}");
    };
    assert_eq!(
        (&*idle.key, &*idle.value, &*idle.own),
        ("owner.input.idle", "\"9m\"", "\"3m\"")
    );
    assert_eq!(
        (&*idle.scope, idle.since.get(..10)),
        ("all", Some("1970-01-03"))
    );
    assert_eq!(
        (&*slots.key, slots.since.get(..10)),
        ("slots", Some("1970-01-02"))
    );
    assert!(
        idle.in_force && slots.in_force,
        "limits count from this start on"
    );

    site.take(SiteSettings::default(), day(4));
    let report = site.report();
    assert!(report.settings.is_empty());
    let last = report.changes.last().unwrap();
    assert_eq!((last.at.get(..10), &last.is), (Some("1970-01-05"), &None));
    assert_eq!(report.changes.len(), 5, "{:?}", report.changes);
}

#[test]
fn a_limit_that_came_since_the_start_counts_from_the_next_one_and_says_so() {
    let site = site(
        &Config::default(),
        &["slots = 2\n[owner]\nslots_when_active = 1"],
    );
    let forces: Vec<_> = site
        .report()
        .settings
        .iter()
        .map(|s| (s.key.clone(), s.in_force))
        .collect();
    assert_eq!(
        forces,
        [
            ("owner.slots_when_active".to_owned(), true),
            ("slots".to_owned(), false)
        ]
    );
}

#[test]
fn a_damaged_file_is_begun_anew_and_an_older_record_replaces_no_newer_one() {
    let own = Config::default();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("site.json"), "{\"texts\": 3}").unwrap();
    let mut site = SiteState::open(dir.path(), &own, Time(0));
    assert_eq!((site.answer(), site.strictest(4)), (None, None));

    let file = SiteFile::below(dir.path());
    site.take(settings(&["slots = 3"]), Time(1));
    let older = site.record();
    site.take(settings(&["slots = 2"]), Time(2));
    file.write(&site.record()).unwrap();
    file.write(&older).unwrap();
    let read = SiteState::open(dir.path(), &own, Time(3));
    assert_eq!(read.report().settings[0].value, "2");
    assert!(link::files::is_private(&dir.path().join("site.json")).unwrap());
}

/// Whether an answer refuses for this reason, and what held before holds on.
#[track_caller]
fn refuses(new: SiteSettings, why: &str) {
    let dir = tempfile::tempdir().unwrap();
    let mut site = SiteState::open(dir.path(), &Config::default(), Time(0));
    site.take(settings(&["slots = 2"]), Time(1));
    let refused = site.take(new, Time(2)).refused.expect("a refusal");
    assert!(refused.contains(why), "{refused}");
    assert_eq!(site.report().settings.len(), 1);
}

#[test]
fn more_texts_than_can_hold_for_a_host_and_scopes_that_name_none_are_refused() {
    refuses(settings(&["slots = 1"; 67]), "66 at most");
    for name in ["x".repeat(65), "desk\u{1b}[2J".to_owned(), String::new()] {
        let mut named = settings(&["slots = 1"]);
        named.texts[0].scope = SiteScope::Host(name);
        refuses(named, "names no host");
    }
}

#[test]
fn a_reason_is_one_short_line_that_a_terminal_can_show() {
    for text in [
        "\"\\u001b[2J\\u202e\" = 1".to_owned(),
        format!("slots = {}", "[".repeat(2_000)),
        format!("{} = 1", "a".repeat(2_900)),
        format!("slots = \"\\u001b{}\"", "x".repeat(2_000)),
        format!("[owner]\nhours = [\"{}\"]", "y".repeat(2_900)),
    ] {
        let told = check(&text).unwrap_err();
        assert!(told.len() <= common::site::MAX_REASON, "{}", told.len());
        assert!(!told.contains(common::text::acts), "{told:?}");
    }
}

#[test]
fn a_kept_file_that_was_changed_gives_no_more_than_the_master_could() {
    let own = Config::default();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("site.json");
    let mut site = SiteState::open(dir.path(), &own, Time(0));
    site.take(settings(&["slots = 2"]), Time(1));
    SiteFile::below(dir.path()).write(&site.record()).unwrap();
    let kept = fs::read_to_string(&path).unwrap();
    for (from, to) in [
        ("slots = 2", "share_inputs = true".to_owned()),
        ("slots = 2", "#".repeat(common::site::MAX_SITE_TEXT + 1)),
        ("slots = 2", "# \\u001b[2J".to_owned()),
        ("\"All\"", "{\"Host\": \"\\u001b[2J\"}".to_owned()),
    ] {
        fs::write(&path, kept.replace(from, &to)).unwrap();
        let site = SiteState::open(dir.path(), &own, Time(3));
        assert_eq!(site.strictest(4), None, "{to}");
        assert!(site.report().settings.is_empty(), "{to}");
        assert_eq!(site.answer(), None, "it does not say that they hold");
    }
}

#[test]
fn an_owner_who_forbids_settings_does_not_say_that_the_earlier_ones_hold() {
    let own = Config::default();
    let dir = tempfile::tempdir().unwrap();
    let mut site = SiteState::open(dir.path(), &own, Time(0));
    site.take(settings(&["slots = 2"]), Time(1));
    SiteFile::below(dir.path()).write(&site.record()).unwrap();

    let none = Config {
        settings_from_master: false,
        ..own.clone()
    };
    assert_eq!(SiteState::open(dir.path(), &none, Time(2)).answer(), None);
    let again = SiteState::open(dir.path(), &own, Time(3)).answer();
    assert_eq!(again.expect("they were kept").digest, 7);
}

/// A number in a text of settings, or none.
fn optional(key: &'static str, most: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        (1..=most).prop_map(move |n| format!("{key} = {n}\n")),
    ]
}

fn span(key: &'static str) -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        (1u32..900).prop_map(move |s| format!("{key} = \"{s}s\"\n")),
    ]
}

fn part(key: &'static str) -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        (1u32..=10).prop_map(move |tenths| format!("{key} = {:.1}\n", f64::from(tenths) / 10.0)),
    ]
}

fn joined(head: &'static str, parts: Vec<BoxedStrategy<String>>) -> impl Strategy<Value = String> {
    let all = parts.prop_map(move |lines| match lines.concat() {
        lines if lines.is_empty() => lines,
        lines => format!("{head}{lines}"),
    });
    prop_oneof![Just(String::new()), all]
}

/// A text of the settings under `[owner]`: of a worker's own file, or from the master.
fn text() -> impl Strategy<Value = String> {
    let owner = vec![
        optional("slots_when_active", 4).boxed(),
        span("evict_after").boxed(),
        prop_oneof![
            Just(String::new()),
            Just("hours = [\"mon,wed\"]\n".to_owned())
        ]
        .boxed(),
    ];
    let input = vec![span("idle").boxed(), span("resume").boxed()];
    let load = vec![
        part("busy_above").boxed(),
        span("busy_after").boxed(),
        part("free_below").boxed(),
        span("free_after").boxed(),
    ];
    let memory = vec![
        part("available_below").boxed(),
        part("available_above").boxed(),
        part("pressure_above").boxed(),
        part("pressure_below").boxed(),
        span("free_after").boxed(),
        span("evict_after").boxed(),
    ];
    let battery = vec![part("charge_above").boxed(), span("resume_after").boxed()];
    (
        joined("[owner]\n", owner),
        joined("[owner.input]\n", input),
        joined("[owner.load]\n", load),
        joined("[owner.memory]\n", memory),
        joined("[owner.battery]\n", battery),
    )
        .prop_map(|(a, b, c, d, e)| a + &b + &c + &d + &e)
}

/// Own rules that make sense, heeded or not.
fn rules() -> impl Strategy<Value = OwnerRules> {
    let own = text().prop_filter_map("contradicts itself", |text| {
        text.parse::<Config>().ok().map(|config| config.owner)
    });
    let own = prop_oneof![
        own,
        Just(OwnerRules::default()),
        Just(OwnerRules::dedicated())
    ];
    (own, any::<[bool; 5]>()).prop_map(|(mut own, heeds)| {
        own.input.heed &= heeds[0];
        own.load.heed &= heeds[1];
        own.memory.heed &= heeds[2];
        own.battery.heed &= heeds[3];
        own.programs.heed &= heeds[4];
        own
    })
}

#[derive(Debug, Clone)]
enum Act {
    Sees(Topic, Sight),
    Passes(u64),
    Sends(Vec<String>),
}

fn act() -> impl Strategy<Value = Act> {
    let sight = prop_oneof![
        (0u64..1_000).prop_map(|s| (Topic::Input, idle(s))),
        (0u32..40).prop_map(|n| (Topic::Load, Sight::Seen(Reading::Load(f64::from(n) / 10.0)))),
        (0u32..=20, 0u32..=20).prop_map(|(a, p)| (
            Topic::Memory,
            Sight::Seen(Reading::Memory {
                available: f64::from(a) / 20.0,
                pressure: f64::from(p) / 20.0,
            })
        )),
        proptest::option::of(0u32..=10).prop_map(|charge| (
            Topic::Power,
            Sight::Seen(Reading::Battery(charge.map(|n| f64::from(n) / 10.0)))
        )),
        any::<bool>().prop_map(|there| (
            Topic::Programs,
            Sight::Seen(Reading::Program(there.then(|| "game".to_owned())))
        )),
        any::<bool>().prop_map(|there| (
            Topic::Switch,
            Sight::Seen(Reading::Paused(there.then(|| "pause".to_owned())))
        )),
        (0usize..6).prop_map(|n| (SENSORS[n], Sight::Unknown("no permission".to_owned()))),
        (0usize..6).prop_map(|n| (SENSORS[n], Sight::Absent("none".to_owned()))),
    ];
    prop_oneof![
        6 => sight.prop_map(|(topic, sight)| Act::Sees(topic, sight)),
        3 => (0u64..600).prop_map(Act::Passes),
        1 => proptest::collection::vec(text(), 0..3).prop_map(Act::Sends),
    ]
}

proptest! {
    #[test]
    fn whatever_comes_from_the_master_no_task_runs_that_the_owners_own_rules_would_suspend(
        rules in rules(),
        acts in proptest::collection::vec(act(), 1..60),
        slots in 1u32..=4,
    ) {
        let own = Config { owner: rules.clone(), ..Config::default() };
        let dir = tempfile::tempdir().unwrap();
        let mut site = SiteState::open(dir.path(), &own, Time(0));
        let mut pair = Pair::new(&rules, slots);
        let mut second = 0;
        for act in acts {
            match act {
                Act::Sees(topic, sight) => pair.sees(topic, &sight),
                Act::Passes(s) => {
                    second += s;
                    pair.now = pair.now + Span::from_secs(s);
                }
                Act::Sends(texts) => {
                    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                    let answer = site.take(settings(&texts), pair.now);
                    prop_assert_eq!(answer.refused, None);
                    pair.restrict(site.strictest(ROOM.cores));
                }
            }

            let hour = WeekTime::new(0, Span::from_secs(second * 100));
            let (guarded, alone) = pair.decide(hour);
            prop_assert!(guarded.slots(slots) <= alone.slots(slots), "{guarded:?}, {alone:?}");
            prop_assert!(guarded.evicts() || !alone.evicts(), "{guarded:?}, {alone:?}");

            let patience = site.strictest(ROOM.cores).map(|rules| rules.patience());
            let own = rules.patience().unwrap_or(Span(u64::MAX));
            prop_assert!(patience.flatten().is_none_or(|patience| patience <= own));
            prop_assert!(rules.patience().is_none() || patience != Some(None));
        }
    }

    #[test]
    fn bounds_never_raise_what_the_owner_lends(
        slots in 0u32..20, memory in 0u64..20, disk in 0u64..20, cache in 0u64..20,
        to in 1u32..20, bytes in 1u64..20,
    ) {
        let own = Config {
            slots,
            memory_limit_bytes: memory,
            disk_limit_bytes: disk,
            cache_limit_bytes: cache,
            share_inputs: false,
            lend_gpus: false,
            ..Config::default()
        };
        let text = format!(
            "slots = {to}\nmemory_limit_bytes = {bytes}\ndisk_limit_bytes = {bytes}\ncache_limit_bytes = {bytes}"
        );
        let mut config = own.clone();
        site(&own, &[&text]).bound(&mut config);
        let limit = |limit: u64| if limit == 0 { u64::MAX } else { limit };
        prop_assert!(config.slots_here() <= own.slots_here());
        prop_assert!(limit(config.memory_limit_bytes) <= limit(own.memory_limit_bytes));
        prop_assert!(limit(config.disk_limit_bytes) <= limit(own.disk_limit_bytes));
        prop_assert!(config.cache_limit_bytes <= own.cache_limit_bytes);
        prop_assert!(!config.share_inputs && !config.lend_gpus);
    }
}
