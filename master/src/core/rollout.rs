//! Decides how a new program for workers goes round: to one host in a hundred, then to ten, then to all. Pure: it sees what
//! hosts have said and the time, and says what comes next. Sending, storing and showing are `updates`'.

use std::collections::BTreeMap;

use common::update::RolloutPace;
use common::{HostId, Span, Time};

use crate::store::HostProgress;

/// The parts of the hosts that the stages reach, in hundredths.
pub(super) const STAGES: [u32; 3] = [1, 10, 100];
/// The most hosts that fetch a program at a time: the master's line has other work.
const FETCH_AT_ONCE: usize = 20;
/// In the last stage so many hosts of a hundred may fail; in those before, none.
const MAY_FAIL: u32 = 2;

/// A host as the rollout sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SeenHost {
    /// Whether it is connected.
    pub(super) connected: bool,
    /// The attempts that it has finished.
    pub(super) finished: u64,
    /// What has become of the offer, and since when; `None`: it was not told.
    pub(super) progress: Option<(HostProgress, Time)>,
}

/// The next step of a rollout, from [`next_step`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RolloutStep {
    /// Offers the program to this host.
    Offer(HostId),
    /// This host has not come back in time.
    Missing(HostId),
    /// The next stage begins.
    Advance,
    /// It stops, for this reason.
    Stop(String),
    /// It is done.
    Finish,
    /// Nothing to do yet; says what it waits for.
    Wait(String),
}

/// The place of a host in the order in which hosts get a program. It depends on the host alone.
fn place(id: HostId) -> (u64, HostId) {
    let hash = blake3::hash(&id.0.to_le_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hash.as_bytes()[..8]);
    (u64::from_le_bytes(first), id)
}

/// The number of hosts that `percent` of so many are: at least one.
fn part(percent: u32, hosts: usize) -> usize {
    (hosts * percent as usize).div_ceil(100)
}

/// Whether a host is one of those that the stages are parts of. Those that went away before they had the program
/// may never come again.
fn counts(host: &SeenHost) -> bool {
    match host.progress {
        Some((HostProgress::Refused(_), _)) => false,
        None | Some((HostProgress::Offered, _)) => host.connected,
        Some(_) => true,
    }
}

/// Decides the next step. The caller takes it and asks again, until it is to wait.
pub(super) fn next_step(
    stage: usize,
    pace: RolloutPace,
    now: Time,
    hosts: &BTreeMap<HostId, SeenHost>,
) -> RolloutStep {
    let last = stage + 1 >= STAGES.len();
    let percent = STAGES[stage.min(STAGES.len() - 1)];
    let all = hosts.values().filter(|host| counts(host)).count();

    if let Some(missing) = missing(pace, now, hosts) {
        return RolloutStep::Missing(missing);
    }
    if let Some(why) = too_many_failed(last, all, hosts) {
        return RolloutStep::Stop(why);
    }

    let told = |host: &&SeenHost| counts(host) && host.progress.is_some();
    let quota = part(percent, all);
    let fetching = |host: &&SeenHost| {
        host.connected && matches!(host.progress, Some((HostProgress::Offered, _)))
    };
    if hosts.values().filter(told).count() < quota
        && hosts.values().filter(fetching).count() < FETCH_AT_ONCE
    {
        let untold = hosts
            .iter()
            .filter(|(_, host)| host.connected && host.progress.is_none());
        if let Some((id, _)) = untold.min_by_key(|(id, _)| place(**id)) {
            return RolloutStep::Offer(*id);
        }
    }

    match waits(pace, now, hosts) {
        Some(why) => RolloutStep::Wait(why),
        None if all == 0 => {
            RolloutStep::Wait("no host of this platform is here that takes it".to_owned())
        }
        None if last => RolloutStep::Finish,
        None => RolloutStep::Advance,
    }
}

/// Returns a host that has left for the new program and has not come back in time.
fn missing(pace: RolloutPace, now: Time, hosts: &BTreeMap<HostId, SeenHost>) -> Option<HostId> {
    let late = |host: &SeenHost| match &host.progress {
        Some((HostProgress::Ready, since)) => !host.connected && now.since(*since) >= pace.patience,
        _ => false,
    };
    hosts.iter().find(|(_, host)| late(host)).map(|(id, _)| *id)
}

fn too_many_failed(last: bool, all: usize, hosts: &BTreeMap<HostId, SeenHost>) -> Option<String> {
    let failed = hosts.values().filter_map(|host| match &host.progress {
        Some((HostProgress::Failed(why), _)) => Some(why),
        _ => None,
    });
    let reasons: Vec<&String> = failed.collect();
    let most = if last {
        all * MAY_FAIL as usize / 100
    } else {
        0
    };

    (reasons.len() > most).then(|| match reasons.as_slice() {
        [one] => format!("it failed on a host: {one}"),
        many => format!("it failed on {} hosts, such as: {}", many.len(), many[0]),
    })
}

/// Returns what the stage waits for, if anything, as [`RolloutStep::Wait`] says it.
fn waits(pace: RolloutPace, now: Time, hosts: &BTreeMap<HostId, SeenHost>) -> Option<String> {
    let mut fetching = 0;
    let mut leaving = 0;
    let mut settling = 0;
    for host in hosts.values() {
        match &host.progress {
            // One that went away before it had the program is asked again when it returns.
            Some((HostProgress::Offered, _)) if host.connected => fetching += 1,
            Some((HostProgress::Ready, _)) => leaving += 1,
            Some((HostProgress::Runs(before), since)) => {
                let ran = now.since(*since) >= pace.settle;
                let worked = host.finished.saturating_sub(*before) >= pace.settle_tasks;
                settling += u32::from(!ran && !worked);
            }
            _ => {}
        }
    }

    let waits = [
        (fetching, "to fetch it"),
        (
            leaving,
            "to start it, once tasks have ended, and to be back",
        ),
        (settling, "to have run it for long enough"),
    ];
    let words = waits.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = words
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!words.is_empty()).then(|| format!("hosts of this stage: {}", words.join(", ")))
}

/// The time for which a host that is missing was waited for, in words.
pub(super) fn missing_in_words(patience: Span) -> String {
    format!("it left for the new program and was not back within {patience}")
}

#[cfg(test)]
mod tests {
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

    fn fleet(hosts: u32) -> BTreeMap<HostId, SeenHost> {
        let host = SeenHost {
            connected: true,
            finished: 0,
            progress: None,
        };
        (1..=hosts).map(|id| (HostId(id), host.clone())).collect()
    }

    /// A rollout over a fleet in which hosts do as they are told.
    struct Rehearsal {
        hosts: BTreeMap<HostId, SeenHost>,
        stage: usize,
        now: u64,
        offered: Vec<HostId>,
    }

    impl Rehearsal {
        fn of(hosts: u32) -> Self {
            Self {
                hosts: fleet(hosts),
                stage: 0,
                now: 0,
                offered: Vec::new(),
            }
        }

        fn put(&mut self, id: HostId, progress: HostProgress) {
            let since = at(self.now);
            self.hosts.get_mut(&id).unwrap().progress = Some((progress, since));
        }

        /// Takes steps until it waits or ends; `meets` says what becomes of each offer.
        fn run(&mut self, meets: impl Fn(HostId) -> HostProgress) -> RolloutStep {
            for _ in 0..10_000 {
                match next_step(self.stage, PACE, at(self.now), &self.hosts) {
                    RolloutStep::Offer(id) => {
                        self.offered.push(id);
                        self.put(id, meets(id));
                    }
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
        assert!(matches!(
            all.run(|_| HostProgress::Ready),
            RolloutStep::Wait(_)
        ));
        let first = all.offered[0];
        all.hosts.get_mut(&first).unwrap().connected = false;
        all.now = 99;
        assert!(matches!(
            all.run(|_| HostProgress::Ready),
            RolloutStep::Wait(_)
        ));
        all.now = 100;
        assert!(matches!(
            all.run(|_| HostProgress::Ready),
            RolloutStep::Stop(_)
        ));

        let mut off = Rehearsal::of(3);
        off.run(|_| HostProgress::Offered);
        let first = off.offered[0];
        off.hosts.get_mut(&first).unwrap().connected = false;
        off.now = 1_000;
        let step = off.run(|_| HostProgress::Runs(0));
        assert!(
            matches!(&step, RolloutStep::Wait(why) if why.contains("long enough")),
            "{step:?}"
        );
        assert_eq!((off.offered.len(), off.stage), (2, 0));
    }

    #[test]
    fn a_fleet_that_refuses_it_is_neither_a_failure_nor_done() {
        let mut all = Rehearsal::of(5);
        let step = all.run(|_| HostProgress::Refused("the owner".into()));
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
            1 => Just(Some(HostProgress::Failed("f".into()))),
        ]
    }

    proptest! {
        #[test]
        fn no_stage_reaches_more_hosts_than_its_part_and_none_goes_on_past_a_failure(
            hosts in proptest::collection::vec((progress(), any::<bool>(), 0..100u64), 0..150),
            stage in 0..3usize,
            now in 0..300u64,
        ) {
            let seen: BTreeMap<HostId, SeenHost> = hosts.into_iter().enumerate().map(|(at_, (progress, connected, since))| {
                let progress = progress.map(|progress| (progress, at(since)));
                (HostId(at_ as u32 + 1), SeenHost { connected, finished: 0, progress })
            }).collect();
            let failed = seen.values().any(|host| matches!(host.progress, Some((HostProgress::Failed(_), _))));
            let counted = seen.values().filter(|host| counts(host));
            let told = counted.clone().filter(|host| host.progress.is_some()).count();
            let all = counted.count();
            match next_step(stage, PACE, at(now), &seen) {
                RolloutStep::Offer(id) => {
                    prop_assert!(told < part(STAGES[stage], all));
                    prop_assert!(seen[&id].connected && seen[&id].progress.is_none());
                    prop_assert!(!failed || stage == 2);
                }
                RolloutStep::Advance => {
                    prop_assert!(!failed && stage < 2 && all > 0);
                    let settled = seen.values().filter(|host| {
                        matches!(host.progress, Some((HostProgress::Runs(_), since)) if at(now).since(since) >= PACE.settle)
                    });
                    prop_assert!(settled.count() >= part(STAGES[stage], all));
                    prop_assert!(seen.values().all(|host| !matches!(host.progress, Some((HostProgress::Ready, _)))));
                }
                RolloutStep::Stop(_) => prop_assert!(failed),
                RolloutStep::Finish => prop_assert_eq!(stage, 2),
                RolloutStep::Missing(id) => prop_assert!(!seen[&id].connected),
                RolloutStep::Wait(why) => prop_assert!(!why.is_empty()),
            }
        }
    }
}
