//! Decides how a new program for workers goes round: to one host in a hundred, then to ten, then to all. Pure: it sees what
//! hosts have said and the time, and says what comes next. Sending, storing and showing are `updates`'.

use std::collections::BTreeMap;

use common::content::BlobHash;
use common::update::RolloutPace;
use common::{HostId, Span, Time};

use crate::store::HostProgress;

/// The parts of the hosts that the stages reach, in hundredths.
pub(super) const STAGES: [u32; 3] = [1, 10, 100];
/// The most hosts that fetch a program at a time: the master's line has other work.
const FETCH_AT_ONCE: usize = 20;
/// In the last stage so many hosts of a hundred are on their way to the program at a time, or [`FETCH_AT_ONCE`], so that
/// failures are seen before all have it.
const ON_THE_WAY: usize = 5;
/// In the last stage so many hosts of a hundred may fail; in those before, none.
const MAY_FAIL: u32 = 2;
/// Before the last stage so many hosts may refuse it once they have looked at it, besides the part that the stage reaches.
const MAY_REFUSE: usize = 5;
/// Whether a host is connected, and since when it is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostPresence {
    /// It is, with this session.
    Here {
        /// The begin of the session.
        since: Time,
        /// The attempts that it had finished then.
        finished: u64,
    },
    /// It is not, as far as this master has seen.
    Away(Time),
}

/// A host as the rollout sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SeenHost {
    /// Whether it is connected.
    pub(super) presence: HostPresence,
    /// The attempts that it has finished.
    pub(super) finished: u64,
    /// What has become of the offer, and since when; `None`: it was not told.
    pub(super) progress: Option<(HostProgress, Time)>,
    /// The time at which the offer was made once more.
    pub(super) again: Option<Time>,
    /// Its [`place`].
    pub(super) place: u64,
}

/// How far a rollout is.
#[derive(Debug, Clone, Copy)]
pub(super) struct RolloutNow {
    /// The stage, from 0.
    pub(super) stage: usize,
    pub(super) pace: RolloutPace,
    pub(super) now: Time,
    /// Whether hosts have not had the time to come back to a master that has just started.
    pub(super) early: bool,
}

/// The next step of a rollout, from [`RolloutNow::next_step`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RolloutStep {
    /// Offers the program to this host.
    Offer(HostId),
    /// Offers it once more to this host, which has not answered.
    OfferAgain(HostId),
    /// Leaves out this host, which has not answered the second time.
    LeaveOut(HostId),
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

/// The place of a host in the order in which hosts get a program. Each program has an order of its own.
pub(super) fn place(program: &BlobHash, id: HostId) -> u64 {
    let hash = blake3::keyed_hash(&program.0, &id.0.to_le_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_le_bytes(first)
}

/// The number of hosts that `percent` of so many are: at least one.
fn part(percent: u32, hosts: usize) -> usize {
    (hosts * percent as usize).div_ceil(100)
}

impl SeenHost {
    fn is_here(&self) -> bool {
        matches!(self.presence, HostPresence::Here { .. })
    }

    /// Whether it has been away for this long.
    fn is_away_for(&self, span: Span, now: Time) -> bool {
        matches!(self.presence, HostPresence::Away(since) if now.since(since) >= span)
    }

    /// Whether it is one of those that the stages are parts of.
    fn counts(&self) -> bool {
        !self.has_refused()
    }

    /// Whether it does not take the program, for whatever reason.
    fn has_refused(&self) -> bool {
        matches!(
            self.progress,
            Some((HostProgress::Refused(_) | HostProgress::Unwanted(_), _))
        )
    }

    /// Whether it is fetching the program, as far as known.
    fn is_fetching(&self) -> bool {
        self.is_here() && matches!(self.progress, Some((HostProgress::Offered, _)))
    }

    /// Whether it has a place in the stage. One that went away before it had the program may never come again.
    fn is_told(&self) -> bool {
        match self.progress {
            None => false,
            Some((HostProgress::Offered, _)) => self.is_here(),
            Some(_) => !self.has_refused(),
        }
    }

    /// Whether it has run the program for long enough, in its present session.
    fn is_settled(&self, pace: RolloutPace, now: Time) -> bool {
        let (Some((HostProgress::Runs(before), ran)), HostPresence::Here { since, finished }) =
            (&self.progress, self.presence)
        else {
            return false;
        };
        now.since(since.max(*ran)) >= pace.settle
            || self.finished.saturating_sub(finished.max(*before)) >= pace.settle_tasks
    }

    /// Whether it has been connected for longer than patience without an answer to the last offer.
    fn is_silent(&self, pace: RolloutPace, now: Time) -> bool {
        let (Some((HostProgress::Offered, told)), HostPresence::Here { since, .. }) =
            (&self.progress, self.presence)
        else {
            return false;
        };
        let last = self.again.map_or(*told, |again| again.max(*told));
        now.since(last.max(since)) >= pace.patience
    }
}

impl RolloutNow {
    fn is_last(&self) -> bool {
        self.stage + 1 >= STAGES.len()
    }

    /// Decides the next step. The caller takes it and asks again, until it is to wait.
    pub(super) fn next_step(&self, hosts: &BTreeMap<HostId, SeenHost>) -> RolloutStep {
        let all = hosts.values().filter(|host| host.counts()).count();
        let quota = part(STAGES[self.stage.min(STAGES.len() - 1)], all);

        if let Some(missing) = self.missing(hosts) {
            return RolloutStep::Missing(missing);
        }
        let bad = self.too_many_failed(all, hosts);
        if let Some(why) = bad.or_else(|| self.too_many_refused(quota, hosts)) {
            return RolloutStep::Stop(why);
        }
        if let Some((id, host)) = hosts
            .iter()
            .find(|(_, host)| host.is_silent(self.pace, self.now))
        {
            return match host.again {
                None => RolloutStep::OfferAgain(*id),
                Some(_) => RolloutStep::LeaveOut(*id),
            };
        }

        let told = hosts.values().filter(|host| host.is_told()).count();
        if told < quota && self.has_room(all, hosts) {
            let untold = hosts
                .iter()
                .filter(|(_, host)| host.is_here() && host.progress.is_none());
            if let Some((id, _)) = untold.min_by_key(|(id, host)| (host.place, **id)) {
                return RolloutStep::Offer(*id);
            }
        }

        match self.waits(all, quota, hosts) {
            Some(why) => RolloutStep::Wait(why),
            None if self.is_last() => RolloutStep::Finish,
            None => RolloutStep::Advance,
        }
    }

    /// Returns a host that has left for the new program, or ran it, and has not come back in time.
    fn missing(&self, hosts: &BTreeMap<HostId, SeenHost>) -> Option<HostId> {
        let late = |host: &SeenHost| match &host.progress {
            Some((HostProgress::Ready, _)) => true,
            // In the last stage people switch off PCs that have run it for days.
            Some((HostProgress::Runs(_), _)) => !self.is_last(),
            _ => false,
        };
        let mut away = hosts
            .iter()
            .filter(|(_, host)| host.is_away_for(self.pace.patience, self.now));
        away.find(|(_, host)| late(host)).map(|(id, _)| *id)
    }

    fn too_many_failed(&self, all: usize, hosts: &BTreeMap<HostId, SeenHost>) -> Option<String> {
        let failed = hosts.values().filter_map(|host| match &host.progress {
            Some((HostProgress::Failed(why), _)) => Some(why),
            _ => None,
        });
        let reasons: Vec<&String> = failed.collect();
        let most = if self.is_last() {
            all * MAY_FAIL as usize / 100
        } else {
            0
        };

        (reasons.len() > most).then(|| match reasons.as_slice() {
            [one] => format!("it failed on a host: {one}"),
            many => format!("it failed on {} hosts, such as: {}", many.len(), many[0]),
        })
    }

    /// Says why a program stops that hosts have fetched and do not take: others would fetch it in vain, too.
    fn too_many_refused(&self, quota: usize, hosts: &BTreeMap<HostId, SeenHost>) -> Option<String> {
        let refused = hosts.values().filter_map(|host| match &host.progress {
            Some((HostProgress::Refused(why), _)) => Some(why),
            _ => None,
        });
        let reasons: Vec<&String> = refused.collect();

        (!self.is_last() && reasons.len() > quota + MAY_REFUSE).then(|| {
            format!(
                "{} hosts refused it, such as: {}",
                reasons.len(),
                reasons[0]
            )
        })
    }

    /// Whether one more host may fetch the program now.
    fn has_room(&self, all: usize, hosts: &BTreeMap<HostId, SeenHost>) -> bool {
        let fetching = hosts.values().filter(|host| host.is_fetching()).count();
        let ready = hosts
            .values()
            .filter(|host| matches!(host.progress, Some((HostProgress::Ready, _))));
        let on_the_way = fetching + ready.count();
        let most = FETCH_AT_ONCE.max(all * ON_THE_WAY / 100);
        fetching < FETCH_AT_ONCE && (!self.is_last() || on_the_way < most)
    }

    /// Returns what the stage waits for, if anything, as [`RolloutStep::Wait`] says it.
    fn waits(
        &self,
        all: usize,
        quota: usize,
        hosts: &BTreeMap<HostId, SeenHost>,
    ) -> Option<String> {
        if all == 0 {
            return Some("no host of this platform is here that takes it".to_owned());
        }

        let mut fetching = 0;
        let mut leaving = 0;
        let mut settling = 0;
        let mut settled = 0;
        for host in hosts.values() {
            match &host.progress {
                Some((HostProgress::Offered, _)) => fetching += usize::from(host.is_here()),
                Some((HostProgress::Ready, _)) => leaving += 1,
                Some((HostProgress::Runs(_), _)) if host.is_settled(self.pace, self.now) => {
                    settled += 1;
                }
                // One that is switched off is not waited for at the end.
                Some((HostProgress::Runs(_), _)) => {
                    let off = self.is_last() && host.is_away_for(self.pace.patience, self.now);
                    settling += usize::from(!off);
                }
                _ => {}
            }
        }

        let under_way = fetching + leaving + settling;
        let others = if self.is_last() {
            0
        } else {
            quota.saturating_sub(settled + under_way)
        };
        let waits = [
            (fetching, "to fetch it"),
            (
                leaving,
                "to start it, once tasks have ended, and to be back",
            ),
            (settling, "to have run it for long enough"),
            (others, "to be here that take it"),
        ];
        let words = waits.iter().filter(|(count, _)| *count > 0);
        let words: Vec<String> = words
            .map(|(count, what)| format!("{count} {what}"))
            .collect();

        if !words.is_empty() {
            return Some(format!("hosts of this stage: {}", words.join(", ")));
        }
        self.early
            .then(|| "hosts to be back after the master's start".to_owned())
    }
}

/// The failure of a host that is missing, with the time for which it was waited for. After a restart
/// of the master it is known by these words: they are the master's, and no host's.
pub(super) fn missing_as_failed(patience: Span) -> HostProgress {
    HostProgress::Failed(format!(
        "it has the new program and was away for {patience}"
    ))
}

/// The reason for which a host is left out that does not answer, in words.
pub(super) fn silent_in_words(patience: Span) -> String {
    format!("it was offered the program twice and did not answer within {patience}")
}

#[cfg(test)]
mod tests;
