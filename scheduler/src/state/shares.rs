//! Fair shares: the order of users with waiting jobs. The user who had the fewest slots lately,
//! running tasks counted, goes first. The order of one user's jobs, by priority, lives in
//! `crate::policy::ordering`.
//!
//! A running task takes a slot, or as many as the processors that it needs; where results are compared,
//! each of its attempts does. Recent use is a user's
//! average number of slots, weighted so that what lies one half-life back counts half (as the user
//! priority of HTCondor does). With `r` slots taken the average `a` after `t` is
//! `r + (a - r) 2^(-t / half-life)`. A user's claim is `(a + r) / weight`: the slots taken now
//! count at once, so that those that become free at the same time are divided, too.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound::{self, Excluded, Included, Unbounded};

use common::{JobId, Span, Time};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::policy::ordering::Rank;
use crate::state::job::{Job, Jobs, Lines};
use crate::state::queue::after;
use crate::state::scheduler::Scheduler;

/// The rules by which slots are divided among users.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sharing {
    /// The time after which past use counts half (default a week).
    pub half_life: Span,
    /// Weights by user name; a user of weight 2 gets twice the slots of others. 1 without an entry.
    pub weights: BTreeMap<String, f64>,
    /// The most tasks of a user that may run at a time, by name.
    pub most_running: BTreeMap<String, u32>,
    /// The same bound for each user without an entry in `most_running`.
    pub most_running_each: Option<u32>,
}

impl Default for Sharing {
    fn default() -> Self {
        let half_life = Span::from_secs(7 * 86_400);
        Self {
            half_life,
            weights: BTreeMap::new(),
            most_running: BTreeMap::new(),
            most_running_each: None,
        }
    }
}

impl Sharing {
    /// Returns the most tasks of this user that may run at a time.
    fn most_of(&self, name: &str) -> Option<u32> {
        let own = self.most_running.get(name).copied();
        own.or(self.most_running_each)
    }
}

/// The running tasks of a job, and the slots that they take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct JobUse {
    /// The number of these tasks.
    pub(crate) running: u64,
    /// The number of slots that they take.
    pub(crate) slots: u64,
}

/// The recent use of all users. Without [`Sharing`] all jobs count as one user's, and nothing is
/// divided.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    sharing: Option<Sharing>,
    numbers: BTreeMap<String, u32>,
    users: Vec<UserUse>,
    /// Users of whom more goes on since hosts that were set aside for their bounds were last looked at.
    pub(crate) woken: BTreeSet<u32>,
    /// The time of the event that is being handled.
    pub(crate) now: Time,
}

/// A user's recent use.
#[derive(Debug)]
struct UserUse {
    name: String,
    weight: f64,
    most: Option<u32>,
    /// The average number of slots as of `at`.
    average: f64,
    at: Time,
    /// The number of running tasks.
    running: u64,
    /// The number of slots that these take.
    slots: u64,
}

/// A user's use at the time of the present event, as returned by [`Shares::of`].
struct RecentUse<'a> {
    user: &'a UserUse,
    /// The recent average number of slots.
    average: f64,
    /// The claim `(average + slots) / weight`; the smallest goes first.
    claim: f64,
}

/// A user's part of the grid, now and lately.
#[derive(Debug, Clone, PartialEq)]
pub struct UserShare {
    /// The user.
    pub user: String,
    /// The number of slots that the user's tasks take now.
    pub slots: u64,
    /// The recent average of that number.
    pub average: f64,
    /// The part of the recent averages of all users, from 0 to 1; 0 where nobody used anything.
    pub part: f64,
    /// The part that is due to the user beside those who have tasks now, by weight: over 0, and at
    /// most 1.
    pub due: f64,
    /// The user's weight in [`Sharing`].
    pub weight: f64,
    /// The most tasks of the user that may run at a time.
    pub most: Option<u32>,
}

impl Shares {
    pub(crate) fn new(sharing: Option<Sharing>) -> Self {
        Self {
            sharing,
            ..Self::default()
        }
    }

    /// Whether slots are divided among users.
    pub(crate) fn on(&self) -> bool {
        self.sharing.is_some()
    }

    /// Returns the user's number in ranks, the next one for a user that has none; 0 for every user
    /// where slots are not divided.
    pub(crate) fn known_number(&self, name: &str) -> u32 {
        match self.on() {
            true => *self.numbers.get(name).unwrap_or(&self.next_number()),
            false => 0,
        }
    }

    fn next_number(&self) -> u32 {
        u32::try_from(self.users.len()).unwrap_or(u32::MAX)
    }

    /// Returns the user's number in ranks, made if needed; 0 for every user where slots are not
    /// divided.
    pub(crate) fn number(&mut self, name: &str) -> u32 {
        let Some(sharing) = &self.sharing else {
            return 0;
        };
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }

        let number = self.next_number();
        let weight = sharing.weights.get(name).copied();
        let weight = weight.filter(|weight| *weight > 0.0);
        let user = UserUse {
            name: name.to_owned(),
            weight: weight.unwrap_or(1.0),
            most: sharing.most_of(name),
            average: 0.0,
            at: self.now,
            running: 0,
            slots: 0,
        };

        self.numbers.insert(name.to_owned(), number);
        self.users.push(user);
        number
    }

    /// Notes what the tasks of a user's job take, in place of `before`.
    pub(crate) fn note(&mut self, number: u32, before: JobUse, taken: JobUse) {
        let half_life = self.half_life();
        let now = self.now;
        let Some(user) = self.users.get_mut(number as usize) else {
            return;
        };
        if user.most.is_some() && taken.running > before.running {
            self.woken.insert(number);
        }
        user.average = user.average_at(now, half_life);
        user.at = user.at.max(now);
        user.running = (user.running + taken.running).saturating_sub(before.running);
        user.slots = (user.slots + taken.slots).saturating_sub(before.slots);
    }

    /// Returns a user's recent use.
    fn of(&self, number: u32) -> Option<RecentUse<'_>> {
        let user = self.users.get(number as usize)?;
        let average = user.average_at(self.now, self.half_life());
        let claim = (average + user.slots as f64) / user.weight;
        Some(RecentUse {
            user,
            average,
            claim,
        })
    }

    /// Returns the number of further tasks of the user that may start; `None` without a bound.
    pub(crate) fn room(&self, number: u32) -> Option<u64> {
        let user = self.users.get(number as usize)?;
        user.most
            .map(|most| u64::from(most).saturating_sub(user.running))
    }

    /// Whether hosts that were set aside for the user's bound need no look.
    pub(crate) fn keeps_aside(&self, number: u32) -> bool {
        self.room(number) == Some(0) && !self.woken.contains(&number)
    }

    /// Returns the same; `u64::MAX` without a bound.
    pub(crate) fn may_start(&self, number: u32) -> u64 {
        self.room(number).unwrap_or(u64::MAX)
    }

    /// Returns the most tasks of the user that may run at a time; `None` without a bound.
    pub(crate) fn most(&self, number: u32) -> Option<u32> {
        self.users.get(number as usize)?.most
    }

    /// Returns the same for a user by name, who may be unknown yet, with the user's number.
    pub(crate) fn most_of(&self, name: &str) -> Option<(u32, u32)> {
        let most = self.sharing.as_ref()?.most_of(name)?;
        Some((self.known_number(name), most))
    }

    /// Divides this many slots among users, as they fall to each by claim while all of them have waiting
    /// tasks: smaller claims are raised to the same height. Empty where slots are not divided.
    pub(crate) fn divide(
        &self,
        users: impl Iterator<Item = u32>,
        slots: f64,
    ) -> BTreeMap<u32, f64> {
        if !self.on() {
            return BTreeMap::new();
        }
        let half_life = self.half_life();
        let users: BTreeSet<u32> = users.collect();
        let uses = users.iter().filter_map(|number| {
            let user = self.users.get(*number as usize)?;
            Some((*number, user, user.average_at(self.now, half_life)))
        });
        let uses: Vec<(u32, &UserUse, f64)> = uses.collect();
        let at = |claim: f64, (_, user, average): &(u32, &UserUse, f64)| {
            let most = user.most.map_or(f64::INFINITY, f64::from);
            (claim * user.weight - average).clamp(0.0, most)
        };

        let mut low = 0.0;
        let mut high = 1.0;
        let given = |claim: f64| uses.iter().map(|of| at(claim, of)).sum::<f64>();
        while given(high) < slots && high < HIGHEST_CLAIM {
            high *= 2.0;
        }
        for _ in 0..DIVISION_PASSES {
            let middle = 0.5 * (low + high);
            if given(middle) < slots {
                low = middle;
            } else {
                high = middle;
            }
        }

        uses.iter().map(|of| (of.0, at(high, of))).collect()
    }

    /// Returns the averages of all users, to be kept over a restart.
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

    /// Takes over the averages saved before a restart.
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

/// The claim at which the division of slots ends, where users may not take more.
const HIGHEST_CLAIM: f64 = 1e12;
/// The passes of the division; further ones change nothing that matters.
const DIVISION_PASSES: u32 = 40;
/// Averages below this are not kept over a restart.
const LEAST_KEPT: f64 = 1e-6;

impl UserUse {
    fn average_at(&self, now: Time, half_life: Span) -> f64 {
        let slots = self.slots as f64;
        let half_lives = now.since(self.at).secs() / half_life.secs().max(1e-3);
        slots + (self.average - slots) * (-half_lives).exp2()
    }
}

/// The state of a walk along a queue: the last rank passed, of each class and user.
#[derive(Debug, Default)]
pub(crate) struct ShareWalk {
    latest: Option<Rank>,
    last: BTreeMap<(bool, bool, u32), Rank>,
    /// The users whose turn may come, for as long as nothing is started or ended on the walk: a job that
    /// declines all ready hosts changes nobody's claim.
    turns: Option<BinaryHeap<Reverse<UserTurn>>>,
}

/// The turn of a user in a class of ranks; the least one is first.
#[derive(Debug, Clone, Copy, PartialEq)]
struct UserTurn {
    class: (bool, bool),
    claim: f64,
    user: u32,
}

impl Eq for UserTurn {}

impl PartialOrd for UserTurn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for UserTurn {
    fn cmp(&self, other: &Self) -> Ordering {
        let class = self.class.cmp(&other.class);
        class
            .then(self.claim.total_cmp(&other.claim))
            .then(self.user.cmp(&other.user))
    }
}

impl ShareWalk {
    /// Notes that this job is done with on this walk.
    pub(crate) fn pass(&mut self, rank: Rank) {
        self.latest = Some(rank);
        self.last.insert(rank.class(), rank);
    }

    /// Notes that attempts were started or ended on this walk, so that users' claims are others.
    pub(crate) fn claims_changed(&mut self) {
        self.turns = None;
    }

    /// Returns the next rank of this class and user after the last one passed.
    fn next_of(&self, line: &AskedLine<'_>, class: (bool, bool, u32)) -> Option<Rank> {
        let from = match self.last.get(&class) {
            Some(last) => Excluded(*last),
            None => Included(Rank::first_of(class)),
        };
        line.next(from).filter(|rank| rank.class() == class)
    }
}

/// A queue, and those parts of it of which jobs are asked.
pub(crate) struct AskedLine<'a> {
    pub(crate) all: &'a BTreeSet<Rank>,
    pub(crate) asked: SmallVec<[&'a BTreeSet<Rank>; 4]>,
}

impl AskedLine<'_> {
    /// Returns the first rank from here on that is asked.
    fn next(&self, from: Bound<Rank>) -> Option<Rank> {
        let next = |part: &&BTreeSet<Rank>| part.range((from, Unbounded)).next().copied();
        self.asked.iter().filter_map(next).min()
    }
}

/// Returns the first rank of each class and user in this queue, from this class and user on.
fn firsts(line: &BTreeSet<Rank>, from: (bool, bool, u32)) -> impl Iterator<Item = Rank> {
    let first = line.range(Rank::first_of(from)..).next().copied();
    std::iter::successors(first, |rank| after(line, Some(Rank::last_of(rank.class()))))
}

impl Lines {
    /// Returns the next job of this queue whose turn it is, not passed yet and of a user who may
    /// run more tasks.
    pub(crate) fn next_turn(&self, line: &AskedLine<'_>, asked: &mut ShareWalk) -> Option<Rank> {
        if !self.shares.on() {
            return line.next(asked.latest.map_or(Unbounded, Excluded));
        }

        let mut turns = match asked.turns.take() {
            Some(turns) => turns,
            None => self.turns(line.all),
        };
        let next = loop {
            let Some(Reverse(UserTurn { class, user, .. })) = turns.peek().copied() else {
                break None;
            };
            match asked.next_of(line, (class.0, class.1, user)) {
                Some(rank) => break Some(rank),
                None => drop(turns.pop()),
            }
        };
        asked.turns = Some(turns);
        next
    }

    /// Whether no job of another user is asked on this walk before the one at this rank, which is
    /// next, is done with: of those in its class none is left that may start.
    pub(crate) fn is_alone(&self, line: &AskedLine<'_>, asked: &ShareWalk, rank: Rank) -> bool {
        let (unpromised, disclosed, user) = rank.class();
        let Some(turns) = &asked.turns else {
            return false;
        };
        let class = (unpromised, disclosed);
        turns.iter().all(|Reverse(turn)| {
            let rival = turn.class == class && turn.user != user;
            !rival || asked.next_of(line, (class.0, class.1, turn.user)).is_none()
        })
    }

    /// Returns the next job that wants copies.
    pub(crate) fn next_to_copy(&self, asked: &mut ShareWalk) -> Option<Rank> {
        let all = &self.copying;
        let line = AskedLine {
            all,
            asked: SmallVec::from_elem(all, 1),
        };
        self.next_turn(&line, asked)
    }

    /// Returns the turns of the users in this queue who may run more tasks.
    fn turns(&self, line: &BTreeSet<Rank>) -> BinaryHeap<Reverse<UserTurn>> {
        let turn = |rank: Rank| {
            let (unpromised, disclosed, user) = rank.class();
            // Ranks with a promise do not tell users apart.
            let may = rank.promised() || self.shares.may_start(user) > 0;
            may.then(|| {
                Reverse(UserTurn {
                    class: (unpromised, disclosed),
                    claim: self.shares.of(user).map_or(0.0, |of| of.claim),
                    user,
                })
            })
        };
        firsts(line, (false, false, 0)).filter_map(turn).collect()
    }

    /// Whether another user has a smaller claim than this one, with `yielded` further slots counted
    /// as the other's, and a waiting job that fits, without a promise and not only disclosed.
    pub(crate) fn had_fewer(&self, user: u32, yielded: u32, fits: impl Fn(JobId) -> bool) -> bool {
        let Some(mine) = self.shares.of(user) else {
            return false;
        };

        firsts(&self.waiting, (true, false, 0))
            .take_while(|rank| !rank.disclosed())
            .any(|rank| {
                let other = rank.user();
                let fewer = self
                    .shares
                    .of(other)
                    .is_some_and(|of| of.claim + f64::from(yielded) / of.user.weight < mine.claim);
                let may = self.shares.may_start(other) > 0;
                other != user && may && fewer && fits(rank.job)
            })
    }

    /// Returns the number of tasks of the job that may start before another user's turn. Ranks with
    /// a promise do not tell users apart, and come up at their user's bound too.
    pub(crate) fn quota(&self, job: &Job) -> u64 {
        let room = self.shares.may_start(job.user);
        if self.contested(job.rank) {
            room.min(1)
        } else {
            room
        }
    }

    /// Whether jobs of another user wait in this rank's class.
    fn contested(&self, rank: Rank) -> bool {
        if !self.shares.on() {
            return false;
        }

        let (unpromised, disclosed, _) = rank.class();
        let from = Rank::first_of((unpromised, disclosed, 0));
        let upto = Rank::last_of((unpromised, disclosed, u32::MAX));
        let mut there = self.waiting.range(from..=upto);
        let ends = [there.next(), there.next_back()];
        ends.into_iter()
            .flatten()
            .any(|other| other.user() != rank.user())
    }

    /// Updates the use of the job's user after tasks of it started, as if after each of them. Where
    /// results are compared, a task has several attempts, and `share` counts them.
    pub(crate) fn share_each(&mut self, job: &mut Job) {
        if !self.shares.on() || job.rules.quorum.compares() {
            return;
        }
        let slots = u64::from(job.demand.cores.max(1));
        while job.shared.running < job.running() {
            let taken = JobUse {
                running: job.shared.running + 1,
                slots: job.shared.slots + slots,
            };
            self.shares.note(job.user, job.shared, taken);
            job.shared = taken;
        }
    }

    /// Updates the use of the job's user after its tasks changed.
    pub(crate) fn share(&mut self, job: &mut Job) {
        if !self.shares.on() {
            return;
        }
        let taken = job.takes_now();
        let before = std::mem::replace(&mut job.shared, taken);
        if before != taken {
            self.shares.note(job.user, before, taken);
        }
    }
}

impl Job {
    /// Returns what its running tasks take: a slot each, and where results are compared one for each
    /// attempt that is not suspended.
    fn takes_now(&self) -> JobUse {
        let running = self.running();
        let compares = self.rules.quorum.compares();
        let attempts = if compares {
            self.compared.running
        } else {
            running
        };
        let slots = attempts * u64::from(self.demand.cores.max(1));
        JobUse { running, slots }
    }
}

impl Scheduler {
    /// Returns each user's part of the grid as of `now`, in the order of names; empty without
    /// [`Settings::sharing`](crate::Settings::sharing).
    pub fn user_shares(&self, now: Time) -> Vec<UserShare> {
        let lines = &self.jobs.lines;
        let shares = &lines.shares;
        let averages: Vec<f64> = shares
            .users
            .iter()
            .map(|user| user.average_at(now.max(user.at), shares.half_life()))
            .collect();
        let total: f64 = averages.iter().sum();

        let waiting: BTreeSet<u32> = firsts(&lines.waiting, (false, false, 0))
            .map(Rank::user)
            .collect();
        let busy = |number: u32, user: &UserUse| user.slots > 0 || waiting.contains(&number);
        let weights = (0..).zip(&shares.users);
        let busy_weight: f64 = weights
            .filter(|(number, user)| busy(*number, user))
            .map(|(_, user)| user.weight)
            .sum();

        let share = |(number, (user, average)): (u32, (&UserUse, &f64))| {
            let own = if busy(number, user) { 0.0 } else { user.weight };
            UserShare {
                user: user.name.clone(),
                slots: user.slots,
                average: *average,
                part: if total > 0.0 { average / total } else { 0.0 },
                due: user.weight / (busy_weight + own),
                weight: user.weight,
                most: user.most,
            }
        };
        let mut all: Vec<UserShare> = (0..)
            .zip(shares.users.iter().zip(&averages))
            .map(share)
            .collect();
        all.sort_by(|one, other| one.user.cmp(&other.user));
        all
    }
}

impl Jobs {
    /// Returns the reason why other users' jobs go before this one, in words; `None` if they do
    /// not. Jobs that want no slots that this one wants do not count.
    pub(crate) fn why_behind_users(
        &self,
        job: &Job,
        mut same_slots: impl FnMut(JobId) -> bool,
    ) -> Option<String> {
        let shares = &self.lines.shares;
        let mine = shares.of(job.user).filter(|_| shares.on())?;
        let together = job.fewest_together();
        let beyond = |most: &u32| mine.user.running + together > u64::from(*most);
        if let Some(most) = mine.user.most.filter(beyond) {
            let wants = match together {
                1 => String::new(),
                ranks => format!(", this job starts {ranks} together"),
            };
            return Some(format!(
                "{} of your tasks run{wants}, and the admin lets you run {most} at a time",
                mine.user.running
            ));
        }

        let (unpromised, disclosed, user) = job.rank.class();
        let ahead: Vec<RecentUse<'_>> = firsts(&self.lines.waiting, (unpromised, disclosed, 0))
            .map(Rank::class)
            .take_while(|class| (class.0, class.1) == (unpromised, disclosed))
            .filter(|class| class.2 != user)
            .filter_map(|class| Some((class, shares.of(class.2)?)))
            .filter(|(class, of)| {
                let may = shares.may_start(class.2) > 0;
                let upto = Rank::first_of(*class)..=Rank::last_of(*class);
                let mut jobs = self.lines.waiting.range(upto);
                may && of.claim < mine.claim && jobs.any(|rank| same_slots(rank.job))
            })
            .map(|(_, of)| of)
            .collect();

        let first = ahead
            .iter()
            .min_by(|one, other| one.claim.total_cmp(&other.claim))?;
        let users = if ahead.len() == 1 {
            "another user's job goes".to_owned()
        } else {
            format!("jobs of {} other users go", ahead.len())
        };
        let theirs = first.user.weight;
        let yours = mine.user.weight;
        let weights = if theirs == yours {
            String::new()
        } else {
            format!("; their weight is {theirs}, yours {yours}")
        };
        Some(format!(
            "{users} first: they have less of the grid, now and lately together (slots: {} now and {} on average, \
             you {} and {}{weights})",
            first.user.slots,
            rounded(first.average),
            mine.user.slots,
            rounded(mine.average)
        ))
    }
}

/// Returns a number of slots in words, with more digits where it is small.
fn rounded(slots: f64) -> String {
    if slots < 0.1 {
        format!("{slots:.4}")
    } else {
        format!("{slots:.1}")
    }
}
