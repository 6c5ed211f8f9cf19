//! Fair shares: whose waiting job is next where several users wait. The user who had the fewest
//! slots lately, running tasks counted, goes first; priorities order the jobs of one user. What is
//! not here: the order of one user's jobs (`crate::policy::ordering`).
//!
//! Recent use is a user's average number of slots, weighted so that what lies one half-life back
//! counts half (as the user priority of HTCondor does). With `r` running tasks the average `a`
//! after `t` is `r + (a - r) 2^(-t / half-life)`. A user's claim is `(a + r) / weight`: the running
//! tasks count at once, so that slots that become free at the same time are divided, too.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};

use common::{JobId, Span, Time};
use serde::{Deserialize, Serialize};

use crate::policy::ordering::Rank;
use crate::state::job::{Job, Jobs, Lines};
use crate::state::queue::after;

/// How slots are divided among users.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sharing {
    /// After this time past use counts half.
    pub half_life: Span,
    /// How many times as many slots as others a user may have, by name; 1 for who is not named.
    pub weights: BTreeMap<String, f64>,
    /// The most tasks of a user that may run at a time, by name.
    pub most_running: BTreeMap<String, u32>,
    /// The same of everybody who is not named there.
    pub most_running_each: Option<u32>,
}

impl Default for Sharing {
    fn default() -> Self {
        let half_life = Span::from_secs(3_600);
        Self {
            half_life,
            weights: BTreeMap::new(),
            most_running: BTreeMap::new(),
            most_running_each: None,
        }
    }
}

/// What users had lately. Without [`Sharing`] all jobs count as one user's, and nothing is divided.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    sharing: Option<Sharing>,
    numbers: BTreeMap<String, u32>,
    users: Vec<User>,
    /// The time of the event that is being considered.
    pub(crate) now: Time,
}

/// A user with what he had.
#[derive(Debug)]
struct User {
    name: String,
    weight: f64,
    most: Option<u32>,
    /// The average number of slots as of `at`.
    average: f64,
    at: Time,
    running: u64,
}

/// How much a user had lately, as [`Shares::of`] tells it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Use {
    /// The average number of slots lately.
    pub(crate) average: f64,
    /// Tasks that run.
    pub(crate) running: u64,
    /// How many times as many slots as others the user may have.
    pub(crate) weight: f64,
    /// The most that may run.
    pub(crate) most: Option<u32>,
    /// Smaller goes first.
    pub(crate) claim: f64,
}

impl Shares {
    pub(crate) fn new(sharing: Option<Sharing>) -> Self {
        Self {
            sharing,
            ..Self::default()
        }
    }

    /// Whether users share.
    pub(crate) fn on(&self) -> bool {
        self.sharing.is_some()
    }

    /// The number of a user in ranks, made if need be; 0 for everybody where nobody shares.
    pub(crate) fn number(&mut self, name: &str) -> u32 {
        let Some(sharing) = &self.sharing else {
            return 0;
        };
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }

        let number = u32::try_from(self.users.len()).unwrap_or(u32::MAX);
        let weight = sharing
            .weights
            .get(name)
            .copied()
            .filter(|weight| *weight > 0.0)
            .unwrap_or(1.0);

        let most = sharing
            .most_running
            .get(name)
            .copied()
            .or(sharing.most_running_each);
        let user = User {
            name: name.to_owned(),
            weight,
            most,
            average: 0.0,
            at: self.now,
            running: 0,
        };

        self.numbers.insert(name.to_owned(), number);
        self.users.push(user);
        number
    }

    /// Notes that so many tasks of a user's job run instead of so many.
    pub(crate) fn note(&mut self, number: u32, before: u64, running: u64) {
        let half_life = self.half_life();
        let now = self.now;
        let Some(user) = self.users.get_mut(number as usize) else {
            return;
        };
        user.average = user.average_at(now, half_life);
        user.at = user.at.max(now);
        user.running = (user.running + running).saturating_sub(before);
    }

    /// What a user had lately.
    pub(crate) fn of(&self, number: u32) -> Option<Use> {
        let user = self.users.get(number as usize)?;
        let average = user.average_at(self.now, self.half_life());
        let claim = (average + user.running as f64) / user.weight;
        Some(Use {
            average,
            running: user.running,
            weight: user.weight,
            most: user.most,
            claim,
        })
    }

    /// How many more tasks of the user may start; none where there is no bound.
    pub(crate) fn room(&self, number: u32) -> Option<u64> {
        let user = self.users.get(number as usize)?;
        user.most
            .map(|most| u64::from(most).saturating_sub(user.running))
    }

    /// The averages of all users, to be kept over a restart.
    pub(crate) fn averages(&self) -> BTreeMap<String, f64> {
        let half_life = self.half_life();
        let averages = self
            .users
            .iter()
            .map(|user| (user.name.clone(), user.average_at(self.now, half_life)));
        averages
            .filter(|(_, average)| *average > LEAST_KEPT)
            .collect()
    }

    /// Takes averages of before a restart.
    pub(crate) fn restore(&mut self, averages: &BTreeMap<String, f64>) {
        for (name, average) in averages {
            let number = self.number(name);
            if let Some(user) = self.users.get_mut(number as usize) {
                user.average = average.max(0.0);
                user.at = self.now;
            }
        }
    }

    fn half_life(&self) -> Span {
        self.sharing
            .as_ref()
            .map_or(Span::ZERO, |sharing| sharing.half_life)
    }
}

/// Averages below this are not kept over a restart.
const LEAST_KEPT: f64 = 0.001;

impl User {
    fn average_at(&self, now: Time, half_life: Span) -> f64 {
        let running = self.running as f64;
        let half_lives = now.since(self.at).secs() / half_life.secs().max(1e-3);
        running + (self.average - running) * (-half_lives).exp2()
    }
}

/// How far a walk along a line has come: the last rank that was asked, of each class and user.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    latest: Option<Rank>,
    last: BTreeMap<(bool, bool, u32), Rank>,
}

impl Asked {
    /// Notes that this job need not be asked again on this walk.
    pub(crate) fn pass(&mut self, rank: Rank) {
        self.latest = Some(rank);
        self.last.insert(rank.class(), rank);
    }

    /// The rank that was passed last of this class and user, or where those begin.
    fn next_of(&self, line: &BTreeSet<Rank>, class: (bool, bool, u32)) -> Option<Rank> {
        let from = match self.last.get(&class) {
            Some(last) => Excluded(*last),
            None => Included(Rank::first_of(class)),
        };
        line.range((from, Unbounded))
            .next()
            .copied()
            .filter(|rank| rank.class() == class)
    }
}

impl Lines {
    /// The job of this line whose turn it is, after those that were asked, of users who may run
    /// more.
    pub(crate) fn next_turn(&self, line: &BTreeSet<Rank>, asked: &Asked) -> Option<Rank> {
        if !self.shares.on() {
            return after(line, asked.latest);
        }

        let mut best: Option<((bool, bool), f64, Rank)> = None;
        let mut from = line.first().copied();
        while let Some(rank) = from {
            let class = rank.class();
            let key = (class.0, class.1);
            if best.as_ref().is_some_and(|(found, ..)| *found != key) {
                break;
            }

            let may = self.shares.room(class.2).is_none_or(|room| room > 0);
            if may && let Some(next) = asked.next_of(line, class) {
                let claim = self.shares.of(class.2).map_or(0.0, |of| of.claim);
                if best.as_ref().is_none_or(|(_, least, _)| claim < *least) {
                    best = Some((key, claim, next));
                }
            }

            from = line
                .range((Excluded(Rank::last_of(class)), Unbounded))
                .next()
                .copied();
        }

        best.map(|(.., rank)| rank)
    }

    /// Whether a user with a waiting job that fits, promised nothing and not only disclosed, has
    /// fewer slots than this one, `yielded` of them counted that he is about to get.
    pub(crate) fn had_fewer(&self, user: u32, yielded: u32, fits: impl Fn(JobId) -> bool) -> bool {
        let Some(mine) = self.shares.of(user) else {
            return false;
        };
        let mut from = self
            .waiting
            .range(Rank::first_of((true, false, 0))..)
            .next();
        while let Some(rank) = from.filter(|rank| !rank.disclosed()) {
            let other = rank.user();
            let may = self.shares.room(other).is_none_or(|room| room > 0);
            let fewer = self
                .shares
                .of(other)
                .is_some_and(|of| of.claim + f64::from(yielded) / of.weight < mine.claim);
            if other != user && may && fewer && fits(rank.job) {
                return true;
            }

            let behind = (Excluded(Rank::last_of(rank.class())), Unbounded);
            from = self.waiting.range(behind).next();
        }
        false
    }

    /// How many tasks of the job at this rank may start before it is another user's turn.
    pub(crate) fn quota(&self, rank: Rank) -> u64 {
        let room = self.shares.room(rank.user()).unwrap_or(u64::MAX);
        if self.contested(rank) {
            room.min(1)
        } else {
            room
        }
    }

    /// Whether waiting jobs of this rank's class are another user's, too.
    fn contested(&self, rank: Rank) -> bool {
        if !self.shares.on() {
            return false;
        }

        let (unpromised, disclosed, user) = rank.class();
        let first = self
            .waiting
            .range(Rank::first_of((unpromised, disclosed, 0))..)
            .next();
        let last = self
            .waiting
            .range(..=Rank::last_of((unpromised, disclosed, u32::MAX)))
            .next_back();

        [first, last].into_iter().flatten().any(|other| {
            let class = other.class();
            (class.0, class.1) == (unpromised, disclosed) && class.2 != user
        })
    }

    /// Brings what the job's user has up to date after its tasks changed.
    pub(crate) fn share(&mut self, job: &mut Job) {
        if !self.shares.on() {
            return;
        }
        let running = job.running();
        let before = std::mem::replace(&mut job.shared, running);
        if before != running {
            self.shares.note(job.user, before, running);
        }
    }
}

impl Jobs {
    /// Why other users' jobs go before this one, in words; nothing where none do.
    pub(crate) fn why_behind_users(&self, job: &Job) -> Option<String> {
        let shares = &self.lines.shares;
        let mine = shares.of(job.user).filter(|_| shares.on())?;
        if let Some(most) = mine.most.filter(|most| mine.running >= u64::from(*most)) {
            return Some(format!(
                "{} of your tasks run, and the admin lets you run {most} at a time",
                mine.running
            ));
        }

        let (unpromised, disclosed, user) = job.rank.class();
        let mut ahead = Vec::new();
        let mut from = self
            .lines
            .waiting
            .range(Rank::first_of((unpromised, disclosed, 0))..)
            .next()
            .copied();

        while let Some(rank) =
            from.filter(|rank| (rank.class().0, rank.class().1) == (unpromised, disclosed))
        {
            let other = rank.class().2;
            ahead.extend(
                shares
                    .of(other)
                    .filter(|of| other != user && of.claim < mine.claim),
            );
            from = self
                .lines
                .waiting
                .range((Excluded(Rank::last_of(rank.class())), Unbounded))
                .next()
                .copied();
        }

        let first = ahead
            .iter()
            .min_by(|one, other| one.claim.total_cmp(&other.claim))?;
        let users = if ahead.len() == 1 {
            "another user's job goes".to_owned()
        } else {
            format!("jobs of {} other users go", ahead.len())
        };
        let weights = if first.weight == mine.weight {
            String::new()
        } else {
            format!("; their weight is {}, yours {}", first.weight, mine.weight)
        };
        Some(format!(
            "{users} first: they have fewer slots, now and lately ({} running and {:.1} on average, you {} and \
             {:.1}{weights})",
            first.running, first.average, mine.running, mine.average
        ))
    }
}
