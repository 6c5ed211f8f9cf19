//! The decisions of a rollout, one by one, and over whole fleets that do as they are told.

use super::*;
use proptest::prelude::*;

const PACE: RolloutPace = RolloutPace {
    settle: Span::from_secs(60),
    settle_tasks: 5,
    patience: Span::from_secs(100),
};

fn at(s: u64) -> Time {
    Time(0) + Span::from_secs(s)
}

const HERE: HostPresence = HostPresence::Here {
    since: Time(0),
    finished: 0,
};

fn fleet(hosts: u32) -> BTreeMap<HostId, SeenHost> {
    let program = BlobHash([1; 32]);
    let host = |id| SeenHost {
        presence: HERE,
        finished: 0,
        progress: None,
        again: None,
        place: place(&program, id),
    };
    (1..=hosts).map(HostId).map(|id| (id, host(id))).collect()
}

fn runs(_: HostId) -> HostProgress {
    HostProgress::Runs(0)
}

fn wait_for(step: &RolloutStep, words: &str) {
    assert!(
        matches!(step, RolloutStep::Wait(why) if why.contains(words)),
        "{step:?}"
    );
}

/// A rollout over a fleet in which hosts do as they are told.
struct Rehearsal {
    hosts: BTreeMap<HostId, SeenHost>,
    stage: usize,
    now: u64,
    early: bool,
    offered: Vec<HostId>,
}

impl Rehearsal {
    fn of(hosts: u32) -> Self {
        Self {
            hosts: fleet(hosts),
            stage: 0,
            now: 0,
            early: false,
            offered: Vec::new(),
        }
    }

    fn put(&mut self, id: HostId, progress: HostProgress) {
        let since = at(self.now);
        self.hosts.get_mut(&id).unwrap().progress = Some((progress, since));
    }

    fn leaves(&mut self, id: HostId) {
        self.hosts.get_mut(&id).unwrap().presence = HostPresence::Away(at(self.now));
    }

    fn comes(&mut self, id: HostId) {
        let host = self.hosts.get_mut(&id).unwrap();
        host.presence = HostPresence::Here {
            since: at(self.now),
            finished: host.finished,
        };
    }

    /// Takes steps until it waits or ends; `meets` says what becomes of each offer.
    fn run(&mut self, meets: impl Fn(HostId) -> HostProgress) -> RolloutStep {
        for _ in 0..10_000 {
            let at_now = RolloutNow {
                stage: self.stage,
                pace: PACE,
                now: at(self.now),
                early: self.early,
            };
            match at_now.next_step(&self.hosts) {
                RolloutStep::Offer(id) => {
                    self.offered.push(id);
                    self.put(id, meets(id));
                }
                RolloutStep::OfferAgain(id) => {
                    self.offered.push(id);
                    self.hosts.get_mut(&id).unwrap().again = Some(at(self.now));
                }
                RolloutStep::LeaveOut(id) => self.put(id, HostProgress::Refused("silent".into())),
                RolloutStep::Missing(id) => self.put(id, HostProgress::Failed("gone".into())),
                RolloutStep::Advance => self.stage += 1,
                end => return end,
            }
        }
        panic!("it does not end");
    }
}

#[test]
fn each_stage_waits_until_its_hosts_have_run_it_for_long_enough() {
    let mut all = Rehearsal::of(200);
    for (offered, stage) in [(2, 0), (20, 1), (200, 2)] {
        let step = all.run(|_| HostProgress::Runs(0));
        assert!(
            matches!(&step, RolloutStep::Wait(why) if why.contains("long enough")),
            "{step:?}"
        );
        assert_eq!((all.offered.len(), all.stage), (offered, stage));
        all.now += 60;
    }
    assert_eq!(all.run(|_| HostProgress::Runs(0)), RolloutStep::Finish);
}

#[test]
fn only_so_many_hosts_fetch_it_at_a_time() {
    let mut all = Rehearsal::of(200);
    all.stage = 2;
    all.run(|_| HostProgress::Offered);
    assert_eq!(all.offered.len(), FETCH_AT_ONCE);
}

#[test]
fn finished_tasks_count_in_place_of_time() {
    let mut one = Rehearsal::of(1);
    assert!(matches!(
        one.run(|_| HostProgress::Runs(7)),
        RolloutStep::Wait(_)
    ));
    one.hosts.get_mut(&HostId(1)).unwrap().finished = 12;
    assert_eq!(one.run(|_| HostProgress::Runs(7)), RolloutStep::Finish);
}

#[test]
fn the_first_failure_stops_it_before_the_last_stage_and_two_in_a_hundred_there() {
    let mut early = Rehearsal::of(100);
    let step = early.run(|_| HostProgress::Failed("it ended twice".into()));
    assert_eq!(
        step,
        RolloutStep::Stop("it failed on a host: it ended twice".into())
    );
    assert_eq!(early.offered.len(), 1);

    let failing = |few: usize| {
        let mut late = Rehearsal::of(100);
        late.stage = 2;
        let mut bad: Vec<HostId> = late.hosts.keys().copied().collect();
        bad.truncate(few);
        late.run(|id| {
            if bad.contains(&id) {
                HostProgress::Failed("x".into())
            } else {
                HostProgress::Runs(0)
            }
        })
    };
    assert!(matches!(failing(2), RolloutStep::Wait(_)));
    assert!(matches!(failing(3), RolloutStep::Stop(_)));
}

#[test]
fn a_host_that_left_for_it_and_does_not_come_back_is_a_failure_and_one_that_was_switched_off_before_is_not()
 {
    let mut all = Rehearsal::of(3);
    wait_for(&all.run(|_| HostProgress::Ready), "to start it");
    let first = all.offered[0];
    all.leaves(first);
    all.now = 99;
    wait_for(&all.run(|_| HostProgress::Ready), "to start it");
    all.now = 100;
    assert!(matches!(
        all.run(|_| HostProgress::Ready),
        RolloutStep::Stop(_)
    ));

    let mut off = Rehearsal::of(3);
    off.run(|_| HostProgress::Offered);
    let first = off.offered[0];
    off.leaves(first);
    off.now = 1_000;
    wait_for(&off.run(runs), "long enough");
    assert_eq!((off.offered.len(), off.stage), (2, 0));
}

#[test]
fn patience_with_a_host_that_leaves_for_it_begins_when_it_leaves() {
    let mut all = Rehearsal::of(3);
    all.run(|_| HostProgress::Ready);
    // Its tasks have taken their hour.
    all.now = 3_600;
    let first = all.offered[0];
    all.leaves(first);
    wait_for(&all.run(runs), "to start it");
    all.now += 100;
    assert!(matches!(all.run(runs), RolloutStep::Stop(_)));
}

#[test]
fn a_host_that_comes_and_goes_has_not_run_it_for_long_enough() {
    let mut one = Rehearsal::of(100);
    one.run(runs);
    let first = one.offered[0];
    for _ in 0..20 {
        one.now += 30;
        one.leaves(first);
        wait_for(&one.run(runs), "1 to have run it for long enough");
        one.now += 30;
        one.hosts.get_mut(&first).unwrap().finished += 3;
        one.comes(first);
        wait_for(&one.run(runs), "1 to have run it for long enough");
    }
    assert_eq!((one.stage, one.offered.len()), (0, 1));

    one.now += 60;
    wait_for(&one.run(runs), "9 to have run it for long enough");
    assert_eq!(one.stage, 1);
}

#[test]
fn a_host_that_runs_it_and_goes_away_is_a_failure_before_the_last_stage_and_not_waited_for_there() {
    for stage in 0..3 {
        let mut all = Rehearsal::of(10);
        all.stage = stage;
        all.run(runs);
        let first = all.offered[0];
        all.leaves(first);
        all.now += 99;
        wait_for(&all.run(runs), "1 to have run it for long enough");
        all.now += 1;
        let step = all.run(runs);
        if stage < 2 {
            assert!(matches!(step, RolloutStep::Stop(_)), "{step:?}");
        } else {
            assert_eq!(step, RolloutStep::Finish);
        }
    }
}

#[test]
fn hosts_that_are_away_count_in_the_parts_of_the_stages() {
    let mut few = Rehearsal::of(1_000);
    let away: Vec<HostId> = few.hosts.keys().copied().skip(4).collect();
    away.iter().for_each(|id| few.leaves(*id));

    wait_for(&few.run(runs), "6 to be here that take it");
    few.now += 60;
    wait_for(&few.run(runs), "6 to be here that take it");
    assert_eq!((few.stage, few.offered.len()), (0, 4));
    away.iter().for_each(|id| few.comes(*id));
    few.run(runs);
    few.now += 60;
    few.run(runs);
    assert_eq!((few.stage, few.offered.len()), (1, 100));
}

#[test]
fn nothing_goes_on_before_hosts_had_the_time_to_come_back_to_the_master() {
    for stage in 0..3 {
        let mut all = Rehearsal::of(10);
        all.stage = stage;
        all.early = true;
        all.run(runs);
        all.now += 60;
        wait_for(&all.run(runs), "after the master's start");
        assert_eq!(all.stage, stage);
        all.early = false;
        let step = all.run(runs);
        assert!(all.stage > stage || step == RolloutStep::Finish, "{step:?}");
    }
}

#[test]
fn hosts_that_come_when_it_is_done_are_offered_it() {
    let mut all = Rehearsal::of(3);
    all.stage = 2;
    all.leaves(HostId(2));
    all.run(runs);
    all.now += 60;
    assert_eq!(all.run(runs), RolloutStep::Finish);
    all.now += 3_600;
    all.comes(HostId(2));
    wait_for(&all.run(runs), "1 to have run it for long enough");
    assert_eq!(all.offered.last(), Some(&HostId(2)));
}

#[test]
fn in_the_last_stage_few_are_on_the_way_to_it_at_a_time() {
    for (hosts, most) in [(200, 20), (10_000, 500)] {
        let mut all = Rehearsal::of(hosts);
        all.stage = 2;
        all.run(|_| HostProgress::Ready);
        assert_eq!(all.offered.len(), most);
    }
}

#[test]
fn a_program_that_hosts_fetch_and_refuse_does_not_go_round_all_of_them() {
    let mut all = Rehearsal::of(1_000);
    let step = all.run(|_| HostProgress::Refused("it does not say its version".into()));
    let RolloutStep::Stop(why) = step else {
        panic!("{step:?}");
    };
    assert!(why.contains("it does not say its version"), "{why}");
    assert_eq!(all.offered.len(), 10 + MAY_REFUSE + 1);

    // Those that refuse it unseen have cost nothing.
    let mut others = Rehearsal::of(1_000);
    others.run(|id| {
        if id.0 % 10 == 0 {
            HostProgress::Runs(0)
        } else {
            HostProgress::Unwanted("the owner".into())
        }
    });
    let took = others.hosts.values().filter(|host| host.is_told()).count();
    assert!(others.offered.len() > took + 10 && took > 0, "{took}");
}

#[test]
fn a_host_that_does_not_answer_is_asked_once_more_and_then_left_out() {
    let mut all = Rehearsal::of(3);
    wait_for(&all.run(|_| HostProgress::Offered), "1 to fetch it");
    let silent = all.offered[0];
    all.now = 99;
    all.run(|_| HostProgress::Offered);
    assert_eq!(all.offered, [silent]);

    all.now = 100;
    wait_for(&all.run(|_| HostProgress::Offered), "1 to fetch it");
    assert_eq!(all.offered, [silent, silent]);
    // What it said to a session before does not count.
    all.now = 150;
    all.comes(silent);
    all.now = 249;
    wait_for(&all.run(|_| HostProgress::Offered), "1 to fetch it");
    assert_eq!(all.offered.len(), 2);

    all.now = 250;
    wait_for(&all.run(runs), "long enough");
    assert!(!all.hosts[&silent].counts());
    assert_eq!(all.offered.len(), 3);
}

#[test]
fn each_program_has_an_order_of_its_own() {
    let first = |program: u8| {
        let ids = (1..=100).map(HostId);
        ids.min_by_key(|id| place(&BlobHash([program; 32]), *id))
    };
    let firsts: std::collections::BTreeSet<_> = (0..20).map(first).collect();
    assert!(firsts.len() > 10, "{firsts:?}");
    assert_eq!(first(7), first(7));
}

#[test]
fn a_fleet_that_refuses_it_is_neither_a_failure_nor_done() {
    let mut all = Rehearsal::of(5);
    let step = all.run(|_| HostProgress::Unwanted("the owner".into()));
    assert!(
        matches!(&step, RolloutStep::Wait(why) if why.contains("takes it")),
        "{step:?}"
    );
    assert_eq!(all.offered.len(), 5);
}

fn progress() -> impl Strategy<Value = Option<HostProgress>> {
    prop_oneof![
        4 => Just(None),
        1 => Just(Some(HostProgress::Offered)),
        1 => Just(Some(HostProgress::Ready)),
        2 => Just(Some(HostProgress::Runs(0))),
        1 => Just(Some(HostProgress::Refused("r".into()))),
        1 => Just(Some(HostProgress::Unwanted("u".into()))),
        1 => Just(Some(HostProgress::Failed("f".into()))),
    ]
}

proptest! {
    #[test]
    fn no_stage_reaches_more_hosts_than_its_part_and_none_goes_on_past_a_failure(
        hosts in proptest::collection::vec((progress(), any::<bool>(), 0..100u64), 0..150),
        stage in 0..3usize,
        now in 0..300u64,
        early in any::<bool>(),
    ) {
        let seen: BTreeMap<HostId, SeenHost> = hosts.into_iter().enumerate().map(|(place, (progress, here, since))| {
            let progress = progress.map(|progress| (progress, at(since)));
            let presence = if here { HostPresence::Here { since: at(since), finished: 0 } } else { HostPresence::Away(at(since)) };
            let host = SeenHost { presence, finished: 0, progress, again: None, place: place as u64 };
            (HostId(place as u32 + 1), host)
        }).collect();
        let failed = seen.values().any(|host| matches!(host.progress, Some((HostProgress::Failed(_), _))));
        let told = seen.values().filter(|host| host.is_told()).count();
        let all = seen.values().filter(|host| host.counts()).count();
        let at_now = RolloutNow { stage, pace: PACE, now: at(now), early };
        match at_now.next_step(&seen) {
            RolloutStep::Offer(id) => {
                prop_assert!(told < part(STAGES[stage], all));
                prop_assert!(seen[&id].is_here() && seen[&id].progress.is_none());
                prop_assert!(!failed || stage == 2);
            }
            RolloutStep::OfferAgain(id) | RolloutStep::LeaveOut(id) => prop_assert!(seen[&id].is_fetching()),
            RolloutStep::Advance => {
                prop_assert!(!failed && !early && stage < 2 && all > 0);
                let settled = seen.values().filter(|host| host.is_settled(PACE, at(now)));
                prop_assert!(settled.count() >= part(STAGES[stage], all));
                prop_assert!(seen.values().all(|host| !matches!(host.progress, Some((HostProgress::Ready, _)))));
            }
            RolloutStep::Stop(why) => prop_assert!(failed || why.contains("refused")),
            RolloutStep::Finish => prop_assert!(stage == 2 && !early),
            RolloutStep::Missing(id) => prop_assert!(!seen[&id].is_here()),
            RolloutStep::Wait(why) => prop_assert!(!why.is_empty()),
        }
    }
}
