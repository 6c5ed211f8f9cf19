//! Requested and disclosed tasks of a job, and the order in which the disclosed ones are expected
//! to be needed (Petrou et al. 2004).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use common::{AttemptId, HostId, IdSet, JobId, Span};

use crate::policy::ordering::{Batchactive, Disclosed, Rank, RequestedOrder};
use crate::state::blame::LOOKED_AT;
use crate::state::host::Hosts;
use crate::state::job::Job;
use crate::state::preemptible::NOTHING_LOST;

/// The run time taken for a task of which nothing is known.
const UNKNOWN: Span = Span::from_secs(60);
/// With these priors, an unknown user goes on with the next task nine times in ten.
const PRIOR_CANCELS: f64 = 0.5;
const PRIOR_DECISIONS: f64 = 5.0;
/// The number of steps between probabilities 0 and 1, so that a rank is a whole number.
const STEPS: f64 = (1_u64 << 52) as f64;

/// A user's record with disclosed tasks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Speculator {
    /// `cancels` counts the times that the rest of a job was dropped, `decisions` those that there
    /// was a rest to drop or to go on with.
    pub(crate) cancels: u32,
    pub(crate) decisions: u32,
    /// The number of unrequested tasks of settled jobs that were executed since the user's last
    /// request.
    pub(crate) unasked: u32,
    /// Whether the stored output of the user's unrequested tasks fills his share.
    pub(crate) full: bool,
    /// The user's jobs with tasks that may still be needed.
    pub(crate) jobs: BTreeSet<JobId>,
}

impl Speculator {
    /// Returns the probability that the user goes on after a result.
    pub(crate) fn goes_on(&self) -> f64 {
        1.0 - (f64::from(self.cancels) + PRIOR_CANCELS)
            / (f64::from(self.decisions) + PRIOR_DECISIONS)
    }

    pub(crate) fn decide(&mut self, dropped: bool) {
        self.cancels += u32::from(dropped);
        self.decisions += 1;
        self.unasked = 0;
    }
}

/// The requested tasks of a job, and the order in which the others are expected to be needed: by
/// index, under `Disclosed::Need` from the expected next one on.
#[derive(Debug)]
pub(crate) struct Speculation {
    answer: Batchactive,
    /// Whether the user dropped the unrequested tasks.
    dropped: bool,
    ids: IdSet,
    pub(crate) requested: IdSet,
    /// The index from which the next request is expected.
    next: u32,
    /// The places of tasks that count as requested: the first index of each range with its last one
    /// and their common place.
    places: BTreeMap<u32, (u32, u64)>,
    /// Such tasks that have had no attempt, by place; some may have had one since.
    line: VecDeque<(u64, IdSet)>,
    /// The same with their work, if each task has its own estimate and the order depends on work.
    sized: Option<BTreeSet<(Span, u64, u32)>>,
    /// Such tasks that wait after an attempt.
    again: TriedTasks,
    /// The work left of tasks that were preempted and kept their state.
    pub(crate) left: BTreeMap<u32, Span>,
    arrival: u64,
    /// The probability that the user goes on after a result.
    goes_on: f64,
    /// The number of tasks of the user's earlier jobs expected before this job's: the next one of
    /// each job that is open, and executed ones that were not requested.
    before: u32,
    /// Whether unrequested tasks may not start, since the user's share of stored output is full.
    full: bool,
}

/// Waiting tasks that count as requested and had attempts. Those that are in other places by now, or do not
/// wait, are let go of when it is their turn.
#[derive(Debug, Default)]
struct TriedTasks {
    /// Tasks that may wait anew, or in another place, and are in no line yet.
    noted: IdSet,
    /// Those that take as long as others of the job, where the order depends on work at all: by place.
    alike: BTreeSet<(u64, u32)>,
    /// Those whose own work is known, and the order depends on it: by work and place.
    sized: BTreeSet<(Span, u64, u32)>,
}

/// A task and the keys of its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskTurn {
    pub(crate) index: u32,
    /// Whether nobody has requested it.
    pub(crate) disclosed: bool,
    pub(crate) key: u64,
    pub(crate) place: u64,
}

impl Speculation {
    pub(crate) fn new(answer: Batchactive, ids: &IdSet, arrival: u64, sized: bool) -> Self {
        let sized = (sized && answer.requested == RequestedOrder::Srpt).then(BTreeSet::new);
        Self {
            answer,
            dropped: false,
            ids: ids.clone(),
            requested: IdSet::new(),
            next: ids.first().unwrap_or(0),
            places: BTreeMap::new(),
            line: VecDeque::new(),
            sized,
            again: TriedTasks::default(),
            left: BTreeMap::new(),
            arrival,
            goes_on: Speculator::default().goes_on(),
            before: 0,
            full: false,
        }
    }

    pub(crate) fn answer(&self) -> Batchactive {
        self.answer
    }

    /// Returns the index from which the next request is expected; 0 under orders that do not use
    /// it.
    pub(crate) fn expected(&self) -> u32 {
        if matches!(self.answer.disclosed, Disclosed::Need { .. }) {
            self.next
        } else {
            0
        }
    }

    /// Adds tasks of a job all of whose tasks are requested.
    pub(crate) fn grow(&mut self, tasks: &IdSet) {
        self.ids.union_with(tasks);
        self.requested.union_with(tasks);
    }

    /// Whether the task is treated as requested.
    pub(crate) fn urgent(&self, index: u32) -> bool {
        self.answer.disclosed == Disclosed::AsRequested || self.requested.contains(index)
    }

    /// Whether there are tasks that nobody has requested.
    pub(crate) fn speculates(&self) -> bool {
        self.requested.len() < self.ids.len()
    }

    /// Gives these tasks a place in the queue, instead of any that they have; `fresh` are those that
    /// have had no attempt.
    pub(crate) fn line_up(
        &mut self,
        tasks: &IdSet,
        fresh: &IdSet,
        place: u64,
        work: impl Fn(u32) -> Span,
    ) {
        for (first, last) in tasks.ranges() {
            self.remove_places(first, last);
            self.places.insert(first, (last, place));
        }

        let mut tried = tasks.clone();
        tried.subtract(fresh);
        self.again.noted.union_with(&tried);

        let fresh = tasks.intersection(fresh);
        match &mut self.sized {
            Some(sized) => sized.extend(fresh.iter().map(|index| (work(index), place, index))),
            None => self.line.push_back((place, fresh)),
        }
    }

    /// Removes these tasks from `places`; others of the same ranges keep theirs.
    fn remove_places(&mut self, first: u32, last: u32) {
        let before = self.places.range(..=last).rev();
        let touched: Vec<u32> = before
            .take_while(|(_, (end, _))| *end >= first)
            .map(|(start, _)| *start)
            .collect();
        for start in touched {
            let Some((end, place)) = self.places.remove(&start) else {
                continue;
            };
            if start < first {
                self.places.insert(start, (first - 1, place));
            }
            if end > last {
                self.places.insert(last + 1, (end, place));
            }
        }
    }

    /// Notes a request for tasks that were not requested before; returns whether it is not the
    /// first one.
    fn request(&mut self, tasks: &IdSet) -> bool {
        let again = !self.requested.is_empty();
        self.requested.union_with(tasks);
        let last = tasks.ranges().last().map_or(0, |(_, last)| last);
        self.next = self.next.max(last.saturating_add(1));
        again
    }

    fn place(&self, index: u32) -> u64 {
        let found = self
            .places
            .range(..=index)
            .next_back()
            .filter(|(_, (last, _))| *last >= index);
        found.map_or(self.arrival, |(_, (_, place))| *place)
    }

    /// Returns the turn of a task among its kind; the smallest goes first.
    pub(crate) fn turn(&self, index: u32, left: Span) -> TaskTurn {
        let disclosed = !self.urgent(index);
        let key = match self.answer.disclosed {
            Disclosed::Need { later } if disclosed => {
                self.needlessness(index, f64::from(later) / 100.0)
            }
            _ if !disclosed && self.answer.requested == RequestedOrder::Srpt => left.0,
            _ => 0,
        };
        let place = if disclosed {
            self.arrival
        } else {
            self.place(index)
        };

        TaskTurn {
            index,
            disclosed,
            key,
            place,
        }
    }

    /// Returns one minus the probability that a disclosed task is needed, in `STEPS`. The user has
    /// to go on once for each task from the expected next one up to this one, and once for each
    /// earlier job. `later` discounts each of these steps, since they take time: submitting tasks
    /// one by one gains nothing over submitting them together. Tasks that were passed over have
    /// probability 0.
    fn needlessness(&self, index: u32, later: f64) -> u64 {
        if index < self.next {
            return STEPS as u64;
        }
        let ahead = self.ids.rank(index) - self.ids.rank(self.next) + u64::from(self.before);
        let ahead = i32::try_from(ahead).unwrap_or(i32::MAX - 1);
        let needed = self.goes_on.powi(ahead + 1) * later.powi(ahead);
        ((1.0 - needed) * STEPS) as u64
    }

    /// Returns the next waiting task, of those without an attempt (`fresh`) and those with one
    /// (`tried`). `work` tells the work of a task, `own` that which is not the same for all others.
    pub(crate) fn first(
        &mut self,
        fresh: &IdSet,
        tried: &IdSet,
        work: impl Fn(u32) -> Span,
        own: impl Fn(u32) -> Option<Span>,
    ) -> Option<TaskTurn> {
        let again = self.first_tried(tried, &own).into_iter().flatten();
        let new = self.first_fresh(fresh);
        let again = again.map(|index| self.turn(index, self.work_left(index, &work)));
        let new = new.map(|index| self.turn(index, work(index)));
        let turns = again.chain(new);
        let urgent = turns.min_by_key(|turn| (turn.key, turn.place, turn.index));
        let disclosed = self.answer.disclosed;
        let alone = matches!(disclosed, Disclosed::Held | Disclosed::AsRequested);
        if urgent.is_some() || self.full || alone {
            return urgent;
        }

        let next = self.expected();
        let again = tried.first_beyond(next, &IdSet::new());
        let again = again.or_else(|| tried.first());
        let new = self.next_fresh(fresh, true);
        let passed = |index: &u32| (*index < next, *index);
        let index = again.into_iter().chain(new).min_by_key(passed)?;

        Some(self.turn(index, Span::ZERO))
    }

    /// Returns the next task that has had no attempt and counts as disclosed or as requested.
    fn next_fresh(&mut self, fresh: &IdSet, disclosed: bool) -> Option<u32> {
        if !disclosed {
            return self.first_fresh(fresh);
        }
        fresh
            .first_beyond(self.expected(), &self.requested)
            .or_else(|| fresh.first_beyond(0, &self.requested))
    }

    /// Notes that a task waits again after an attempt.
    pub(crate) fn note_again(&mut self, index: u32) {
        self.again.noted.insert(index);
    }

    /// Returns the work by which a task goes before others of its job, where that is its own.
    fn own_work(&self, index: u32, own: &impl Fn(u32) -> Option<Span>) -> Option<Span> {
        let left = self.left.get(&index).copied();
        let by_work = self.answer.requested == RequestedOrder::Srpt;
        left.or_else(|| own(index)).filter(|_| by_work)
    }

    /// Returns the work and place of a task with an attempt, if it waits and counts as requested.
    fn place_again(
        &self,
        index: u32,
        tried: &IdSet,
        own: &impl Fn(u32) -> Option<Span>,
    ) -> Option<(Option<Span>, u64)> {
        let waits = tried.contains(index) && self.urgent(index);
        waits.then(|| (self.own_work(index, own), self.place(index)))
    }

    /// Puts a task with an attempt in line, if it waits and counts as requested.
    fn line_up_tried(&mut self, index: u32, tried: &IdSet, own: &impl Fn(u32) -> Option<Span>) {
        match self.place_again(index, tried, own) {
            Some((Some(work), place)) => {
                self.again.sized.insert((work, place, index));
            }
            Some((None, place)) => {
                self.again.alike.insert((place, index));
            }
            None => {}
        }
    }

    /// Returns the first of the tasks with an attempt that count as requested: of those that take as long
    /// as others, and of those whose own work is known.
    fn first_tried(
        &mut self,
        tried: &IdSet,
        own: &impl Fn(u32) -> Option<Span>,
    ) -> [Option<u32>; 2] {
        for index in std::mem::take(&mut self.again.noted).iter() {
            self.line_up_tried(index, tried, own);
        }

        while let Some((place, index)) = self.again.alike.first().copied()
            && self.place_again(index, tried, own) != Some((None, place))
        {
            self.again.alike.pop_first();
            self.line_up_tried(index, tried, own);
        }
        while let Some((work, place, index)) = self.again.sized.first().copied()
            && self.place_again(index, tried, own) != Some((Some(work), place))
        {
            self.again.sized.pop_first();
            self.line_up_tried(index, tried, own);
        }

        let alike = self.again.alike.first().map(|(_, index)| *index);
        let sized = self.again.sized.first().map(|(.., index)| *index);
        [alike, sized]
    }

    /// Whether a waiting task with an attempt is in line, if it counts as requested.
    pub(crate) fn lists_again(&self, index: u32) -> bool {
        let again = &self.again;
        let sized = || again.sized.iter().any(|(.., of)| *of == index);
        let alike = again.alike.contains(&(self.place(index), index));
        !self.urgent(index) || again.noted.contains(index) || alike || sized()
    }

    /// Returns the next task that counts as requested and has had no attempt.
    fn first_fresh(&mut self, fresh: &IdSet) -> Option<u32> {
        if let Some(sized) = &mut self.sized {
            while let Some((.., index)) = sized.first() {
                if fresh.contains(*index) {
                    return Some(*index);
                }
                sized.pop_first();
            }
            return None;
        }

        while let Some((_, tasks)) = self.line.front_mut() {
            while let Some(index) = tasks.first() {
                if fresh.contains(index) {
                    return Some(index);
                }
                tasks.remove(index);
            }
            self.line.pop_front();
        }

        None
    }

    /// Returns the work left of a task; `work` gives that of a whole task.
    pub(crate) fn work_left(&self, index: u32, work: impl Fn(u32) -> Span) -> Span {
        self.left
            .get(&index)
            .copied()
            .unwrap_or_else(|| work(index))
    }
}

impl Job {
    /// Returns the run time of a task on a host of speed 1: the user's estimate, else the job's
    /// `task_work_s`, else `UNKNOWN`.
    pub(crate) fn work(&self, index: u32) -> Span {
        let known = self
            .estimate(index)
            .or_else(|| self.task_work_s().map(Span::from_secs_f64));
        known.unwrap_or(UNKNOWN)
    }

    /// Tells its requested from its disclosed tasks, if its policy asks for that. Where results are
    /// compared, all count as requested.
    pub(crate) fn speculate(&mut self, ids: &IdSet, disclosed: bool, place: u64) {
        let answer = self.policy.ordering.batchactive();
        let Some(answer) = answer.filter(|_| !self.rules.quorum.compares()) else {
            return;
        };

        let sized = !self.stack.terms.estimates.is_empty();
        let mut speculation = Speculation::new(answer, ids, place, sized);
        if !disclosed {
            speculation.request(ids);
        }
        if !disclosed || answer.disclosed == Disclosed::AsRequested {
            speculation.line_up(ids, ids, place, |index| self.work(index));
        }

        self.speculation = Some(Box::new(speculation));
    }

    /// Queues these tasks again as if they were new.
    pub(crate) fn line_up_again(&mut self, tasks: &IdSet, place: u64) {
        let Some(mut speculation) = self.speculation.take() else {
            return;
        };
        speculation.dropped = false;
        let all = speculation.answer.disclosed == Disclosed::AsRequested;
        let urgent = if all {
            tasks.clone()
        } else {
            tasks.intersection(&speculation.requested)
        };
        speculation.line_up(&urgent, &self.fresh, place, |index| self.work(index));
        self.speculation = Some(speculation);
    }

    /// Returns the next waiting task, where requested and disclosed ones are told apart.
    pub(crate) fn turn(&mut self) -> Option<TaskTurn> {
        let mut speculation = self.speculation.take()?;
        let work = |index| self.work(index);
        let own = |index| self.stack.estimate(index);
        let first = speculation.first(&self.fresh, &self.requeued, work, own);
        self.speculation = Some(speculation);
        first
    }

    /// Returns the turns of the waiting tasks of which one may start in the `first` one's: that and, where its task is
    /// kept from a host on which it failed, those of others that are requested or disclosed as it is, in order.
    pub(crate) fn turns_from(&mut self, first: TaskTurn) -> Vec<TaskTurn> {
        if !self.blame.keeps(first.index) {
            return vec![first];
        }

        let fresh = match &mut self.speculation {
            Some(speculation) => speculation.next_fresh(&self.fresh, first.disclosed),
            None => self.fresh.first(),
        };
        let turn = |index| match &self.speculation {
            Some(of) => of.turn(index, of.work_left(index, |index| self.work(index))),
            None => TaskTurn { index, ..first },
        };
        let others = self.requeued.iter().take(LOOKED_AT).chain(fresh);
        let others = others.filter(|index| *index != first.index).map(turn);
        let others = others.filter(|of| of.disclosed == first.disclosed);

        let mut turns: Vec<TaskTurn> = others.collect();
        turns.sort_by_key(|of| (of.key, of.place, of.index));
        turns.insert(0, first);
        turns
    }

    /// Returns the job's rank by its next waiting task, if there is one.
    pub(crate) fn turn_rank(&mut self) -> Option<Rank> {
        self.turn()
            .map(|turn| self.rank.next(turn.disclosed, turn.key, turn.place))
    }

    /// Sets the probability that its user goes on and the number of tasks expected before its own;
    /// returns whether either changed.
    pub(crate) fn expect(&mut self, goes_on: f64, before: u32) -> bool {
        let Some(speculation) = &mut self.speculation else {
            return false;
        };
        let known = (speculation.goes_on, speculation.before);
        speculation.goes_on = goes_on;
        speculation.before = before;
        known != (goes_on, before)
    }

    /// Whether it has unrequested tasks that were not dropped.
    pub(crate) fn speculates(&self) -> bool {
        let speculates =
            |speculation: &Speculation| speculation.speculates() && !speculation.dropped;
        self.speculation.as_deref().is_some_and(speculates)
    }

    /// Returns the number of its tasks that were executed without a request, unless they were
    /// dropped.
    pub(crate) fn unasked(&self) -> u32 {
        let Some(speculation) = self.speculation.as_deref().filter(|_| self.speculates()) else {
            return 0;
        };
        speculation
            .ids
            .iter()
            .filter(|index| {
                !speculation.requested.contains(*index) && self.finished.contains(*index)
            })
            .count() as u32
    }

    /// Sets whether its unrequested tasks may not start.
    pub(crate) fn hold_back(&mut self, full: bool) {
        if let Some(speculation) = &mut self.speculation {
            speculation.full = full;
        }
    }

    /// Returns the reason why its unrequested tasks wait, if it is not the lack of a slot.
    pub(crate) fn held_back(&self) -> Option<&'static str> {
        let speculation = self.speculation.as_deref()?;
        match speculation.answer.disclosed {
            Disclosed::Held => {
                Some("nobody has requested it, and this policy starts nothing before")
            }
            _ if speculation.full => Some(
                "nobody has requested it, and as much is kept of its user's unrequested output as may be: request or \
                 forget some",
            ),
            _ => None,
        }
    }

    /// Returns those of these waiting tasks that nobody has requested although a later one was, with the
    /// reason why they start last; `None` where there are none, or no later unrequested one waits.
    pub(crate) fn passed_over(&self, waiting: &IdSet) -> Option<(String, IdSet)> {
        let last = self.speculation.as_deref()?.expected().checked_sub(1)?;
        let unrequested = self.split(waiting).1;
        unrequested.first_beyond(last + 1, &IdSet::new())?;

        let tasks = unrequested.intersection(&IdSet::from_range(0, last));
        let why = format!(
            "nobody has requested it, though task {last}, which is behind it, was requested; unrequested tasks behind \
             task {last} are expected to be needed first"
        );
        (!tasks.is_empty()).then_some((why, tasks))
    }

    /// Notes a request for these tasks. Returns those that were not requested before, and whether
    /// it is not the job's first request.
    pub(crate) fn request(&mut self, tasks: Option<&IdSet>, place: u64) -> Option<(IdSet, bool)> {
        let mut speculation = self.speculation.take()?;
        let mut new = tasks.map_or_else(
            || speculation.ids.clone(),
            |tasks| tasks.intersection(&speculation.ids),
        );
        new.subtract(&speculation.requested);
        let again = !new.is_empty() && speculation.request(&new);
        if speculation.answer.disclosed != Disclosed::AsRequested {
            speculation.line_up(&new, &self.fresh, place, |index| self.work(index));
        }
        self.speculation = Some(speculation);
        (!new.is_empty()).then_some((new, again))
    }

    /// Drops the unrequested tasks. Returns them, the first time.
    pub(crate) fn drop_rest(&mut self) -> Option<IdSet> {
        let speculation = self
            .speculation
            .as_mut()
            .filter(|speculation| !speculation.dropped)?;
        speculation.dropped = speculation.speculates();
        let mut rest = speculation.ids.clone();
        rest.subtract(&speculation.requested);
        speculation.dropped.then_some(rest)
    }

    /// Splits these tasks into the needed ones and the unrequested ones.
    pub(crate) fn split(&self, tasks: &IdSet) -> (IdSet, IdSet) {
        let Some(Speculation { requested, .. }) = self.speculation.as_deref() else {
            return (tasks.clone(), IdSet::new());
        };
        let mut rest = tasks.clone();
        rest.subtract(requested);
        (tasks.intersection(requested), rest)
    }

    /// Whether the task is only disclosed: nobody has requested it.
    pub(crate) fn only_disclosed(&self, index: u32) -> bool {
        self.speculation
            .as_ref()
            .is_some_and(|speculation| !speculation.requested.contains(index))
    }

    /// Returns the number of waiting tasks that are unrequested, or of the others.
    pub(crate) fn waiting_as(&self, disclosed: bool) -> u64 {
        let unrequested = self.waiting_disclosed();
        if disclosed {
            unrequested
        } else {
            self.waiting() - unrequested
        }
    }

    /// Returns the number of waiting tasks that nobody has requested.
    pub(crate) fn waiting_disclosed(&self) -> u64 {
        let Some(Speculation { requested, .. }) = self.speculation.as_deref() else {
            return 0;
        };
        let rest = |waiting: &IdSet| waiting.len() - waiting.intersection(requested).len();
        rest(&self.fresh) + rest(&self.requeued)
    }
}

impl Hosts {
    /// Lists a live attempt of the job among those that may be preempted, if its task is only
    /// disclosed.
    pub(crate) fn stand(&mut self, id: HostId, attempt: AttemptId, job: &Job, start_cost: Span) {
        let urgent = |speculation: &Speculation| speculation.urgent(attempt.task.index);
        if job.speculation.as_deref().is_none_or(urgent) {
            return;
        }
        let Some(host) = self.table.get(&id) else {
            return;
        };
        let load = host.books.get(&attempt);
        let Some(load) = load.filter(|load| !load.frozen && !load.stopping) else {
            return;
        };

        let began = if job.rules.checkpoint {
            NOTHING_LOST
        } else {
            host.began(load, start_cost)
        };
        self.index.standing.insert(attempt, id, began);
        self.index.standing.open(attempt, host.takes_work());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn of_tried_tasks_that_wait_only_the_first_is_looked_at() {
        let answer = Batchactive {
            requested: RequestedOrder::Srpt,
            disclosed: Disclosed::Fcfs,
        };
        let all = IdSet::from_range(1, 20_000);
        let mut speculation = Speculation::new(answer, &all, 0, false);
        speculation.request(&all);
        speculation.line_up(&all, &IdSet::new(), 1, |_| Span::ZERO);

        let looks = Cell::new(0);
        let own = |_: u32| {
            looks.set(looks.get() + 1);
            None
        };
        for most in [20_002, 2] {
            looks.set(0);
            let turn = speculation.first(&IdSet::new(), &all, |_| Span::ZERO, own);
            assert_eq!(turn.map(|turn| turn.index), Some(1));
            assert!(looks.get() <= most, "{} looks", looks.get());
        }
    }

    proptest! {
        /// Tasks start and wait again, are requested, queued again, and keep their state.
        #[test]
        fn the_first_tried_task_is_that_which_a_look_at_each_finds(
            srpt in any::<bool>(),
            own_works in any::<bool>(),
            changes in prop::collection::vec((0_u32..5, 1_u32..30, 0_u32..6), 1..60),
        ) {
            let requested = if srpt { RequestedOrder::Srpt } else { RequestedOrder::Fcfs };
            let answer = Batchactive { requested, disclosed: Disclosed::Fcfs };
            let all = IdSet::from_range(1, 40);
            let none = IdSet::new();
            let mut speculation = Speculation::new(answer, &all, 0, own_works);
            let own = |index: u32| {
                let known = own_works && index.is_multiple_of(3);
                known.then_some(Span(u64::from(index * 7 % 40)))
            };
            let work = |index| own(index).unwrap_or(Span(20));
            let mut tried = IdSet::new();
            for (place, (change, index, more)) in (1..).zip(changes) {
                let range = IdSet::from_range(index, index + more);
                match change {
                    0 => {
                        tried.insert(index);
                        speculation.note_again(index);
                    }
                    1 => {
                        tried.remove(index);
                    }
                    2 => {
                        let mut new = range;
                        new.subtract(&speculation.requested);
                        speculation.request(&new);
                        speculation.line_up(&new, &none, place, work);
                    }
                    3 => {
                        let urgent = range.intersection(&speculation.requested);
                        speculation.line_up(&urgent, &none, place, work);
                    }
                    _ => {
                        speculation.left.insert(index, Span(u64::from(more * 6)));
                        tried.insert(index);
                        speculation.note_again(index);
                    }
                }

                let urgent = tried.iter().filter(|index| speculation.urgent(*index));
                let each = urgent.map(|index| speculation.turn(index, speculation.work_left(index, work)));
                let each = each.min_by_key(|turn| (turn.key, turn.place, turn.index));
                let found = speculation.first(&none, &tried, work, own);
                prop_assert_eq!(found.filter(|turn| !turn.disclosed), each);
            }
        }

        #[test]
        fn a_task_has_the_place_at_which_it_was_lined_up_last(
            ranges in prop::collection::vec((1_u32..30, 0_u32..12), 1..20)
        ) {
            let answer = Batchactive {
                requested: RequestedOrder::Fcfs,
                disclosed: Disclosed::Fcfs,
            };
            let mut speculation = Speculation::new(answer, &IdSet::from_range(1, 50), 0, false);
            let mut places = BTreeMap::new();
            for (place, (first, more)) in (1..).zip(ranges) {
                let tasks = IdSet::from_range(first, first + more);
                speculation.line_up(&tasks, &IdSet::new(), place, |_| Span::ZERO);
                places.extend(tasks.iter().map(|task| (task, place)));
            }

            for task in 1..=50 {
                let place = places.get(&task).copied().unwrap_or(0);
                prop_assert_eq!(speculation.place(task), place);
            }
        }
    }
}
