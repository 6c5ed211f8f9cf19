//! The waiting tasks of a job whose results are compared, by the owners that have results of them: where
//! one of these finds no host, no other one of the same owners does, so that one look is enough for all.
//! It decides nothing: which results are wanted, and where, is decided in `crate::faults::quorum`.

use std::collections::{BTreeMap, BTreeSet};

use common::{HostId, IdSet};

/// The owners that have results of a task.
pub(crate) type OwnerSet = BTreeSet<HostId>;

/// How a task waits for another result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OpinionWait {
    /// It does not wait.
    Not,
    /// It is kept from hosts for other reasons than their owners as well.
    Apart,
    /// It waits for a host of another owner than these.
    Behind(OwnerSet),
}

/// A task in line, with the number of its group; `None` for one that waits `Apart`.
type InLine = (u32, Option<usize>);

/// The tasks that wait behind the same owners.
#[derive(Debug)]
struct OpinionGroup {
    owners: OwnerSet,
    tasks: IdSet,
}

/// The waiting tasks.
#[derive(Debug, Default)]
pub(crate) struct WaitingOpinions {
    numbers: BTreeMap<OwnerSet, usize>,
    /// The group of each number, none of them empty. A task that waits in another way by now is let go of when
    /// it is its turn.
    groups: BTreeMap<usize, OpinionGroup>,
    /// Tasks that are in no group.
    apart: IdSet,
}

/// The order of looks at waiting tasks: the next one of each group, and those of none.
#[derive(Debug, Default)]
pub(crate) struct OpinionLine {
    next: BTreeSet<InLine>,
    refused: BTreeSet<usize>,
}

impl WaitingOpinions {
    /// Notes that a task waits again.
    pub(crate) fn note(&mut self, index: u32) {
        self.apart.insert(index);
    }

    /// Adds tasks that were noted in another one meanwhile.
    pub(crate) fn absorb(&mut self, other: &Self) {
        self.apart.union_with(&other.apart);
    }

    /// Divides all tasks into groups anew at the next look, since hosts have other owners.
    pub(crate) fn mix(&mut self) {
        for group in std::mem::take(&mut self.groups).into_values() {
            self.apart.union_with(&group.tasks);
        }
        self.numbers.clear();
    }

    /// Whether it has this task.
    pub(crate) fn has(&self, index: u32) -> bool {
        let mut groups = self.groups.values();
        groups.any(|group| group.tasks.contains(index)) || self.apart.contains(index)
    }

    /// Puts a task into its group; returns its place in line, if it waits.
    fn sort_in(&mut self, index: u32, wait: OpinionWait) -> Option<InLine> {
        let owners = match wait {
            OpinionWait::Not => return None,
            OpinionWait::Apart => {
                self.apart.insert(index);
                return Some((index, None));
            }
            OpinionWait::Behind(owners) => owners,
        };

        let last = self.groups.last_key_value();
        let next = last.map_or(0, |(number, _)| number + 1);
        let number = self.numbers.get(&owners).copied().unwrap_or(next);
        let group = self.groups.entry(number).or_insert_with(|| {
            self.numbers.insert(owners.clone(), number);
            let tasks = IdSet::new();
            OpinionGroup { owners, tasks }
        });
        group.tasks.insert(index);

        Some((index, Some(number)))
    }

    /// Returns the order of looks at its tasks; `look` tells how a task waits.
    pub(crate) fn line_up(&mut self, look: &impl Fn(u32) -> OpinionWait) -> OpinionLine {
        for index in std::mem::take(&mut self.apart).iter() {
            self.sort_in(index, look(index));
        }

        let groups = self.groups.iter();
        let firsts =
            groups.filter_map(|(number, group)| Some((group.tasks.first()?, Some(*number))));
        let apart = self.apart.iter().map(|index| (index, None));
        OpinionLine {
            next: firsts.chain(apart).collect(),
            refused: BTreeSet::new(),
        }
    }

    /// Returns the next task to look at.
    pub(crate) fn next(
        &mut self,
        line: &mut OpinionLine,
        look: &impl Fn(u32) -> OpinionWait,
    ) -> Option<InLine> {
        while let Some((index, group)) = line.next.pop_first() {
            let Some(number) = group else {
                return Some((index, None));
            };
            if line.refused.contains(&number) {
                continue;
            }

            let wait = look(index);
            let is_behind = |owners: &OwnerSet| self.numbers.get(owners) == Some(&number);
            if matches!(&wait, OpinionWait::Behind(owners) if is_behind(owners)) {
                return Some((index, group));
            }
            self.take((index, group), line);
            line.next.extend(self.sort_in(index, wait));
        }

        None
    }

    /// Takes a task out that is next in line; the next one of its group follows. A group without tasks goes, but
    /// none that was refused: that keeps its task, so that no new group has its number in the same line.
    pub(crate) fn take(&mut self, (index, group): InLine, line: &mut OpinionLine) {
        let Some(number) = group else {
            self.apart.remove(index);
            return;
        };
        let Some(OpinionGroup { owners, tasks }) = self.groups.get_mut(&number) else {
            return;
        };
        tasks.remove(index);

        match tasks.first() {
            Some(first) => {
                line.next.insert((first, group));
            }
            None => {
                self.numbers.remove(owners);
                self.groups.remove(&number);
            }
        }
    }
}

impl OpinionLine {
    /// Notes that no host was found for a task of this group: none is looked for for others of it.
    pub(crate) fn refuse(&mut self, group: Option<usize>) {
        self.refused.extend(group);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    /// The owners of these bits; of none where the task waits apart.
    fn behind(bits: u32) -> OpinionWait {
        if bits == 0 {
            return OpinionWait::Apart;
        }
        let owners = (0..3).filter(|owner| bits & (1 << owner) != 0);
        OpinionWait::Behind(owners.map(HostId).collect())
    }

    #[test]
    fn one_look_is_enough_for_all_tasks_of_the_same_owners() {
        let mut opinions = WaitingOpinions::default();
        (1..=20_000).for_each(|index| opinions.note(index));
        let looks = Cell::new(0);
        let look = |index| {
            looks.set(looks.get() + 1);
            behind(1 + index % 2)
        };
        opinions.line_up(&look);
        assert_eq!(looks.get(), 20_000);

        looks.set(0);
        let mut line = opinions.line_up(&look);
        let mut found = Vec::new();
        while let Some((index, group)) = opinions.next(&mut line, &look) {
            found.push(index);
            line.refuse(group);
        }
        assert_eq!((found, looks.get()), (vec![1, 2], 2));
    }

    #[test]
    fn groups_whose_tasks_have_started_cost_nothing_any_more() {
        let mut opinions = WaitingOpinions::default();
        for index in 1..=1_000 {
            opinions.note(index);
            // The two hosts that have results of a task are another pair each time.
            let look = |index| OpinionWait::Behind([0, index].map(HostId).into());
            let mut line = opinions.line_up(&look);
            assert_eq!(line.next.len(), 1);
            let next = opinions.next(&mut line, &look).unwrap();
            assert_eq!(next.0, index);
            opinions.take(next, &mut line);
            assert!(opinions.next(&mut line, &look).is_none());
        }
        assert!(opinions.groups.is_empty() && opinions.numbers.is_empty());
    }

    proptest! {
        /// Tasks come and go, and get more results while they wait; then hosts of one owner take some. They
        /// are those that a look at each in turn would find.
        #[test]
        fn tasks_start_as_if_each_was_looked_at(
            rounds in prop::collection::vec(
                (prop::collection::vec((0_u32..12, 0_u32..3, 0_u32..8), 0..12), 0_u32..3, 1_usize..4),
                1..20,
            )
        ) {
            let mut opinions = WaitingOpinions::default();
            let mut waiting: BTreeMap<u32, u32> = BTreeMap::new();
            for (changes, owner, most) in rounds {
                for (index, change, bits) in changes {
                    match change {
                        0 => {
                            waiting.insert(index, bits);
                            opinions.note(index);
                        }
                        1 => {
                            waiting.remove(&index);
                        }
                        _ => {
                            waiting.entry(index).and_modify(|has| *has |= bits);
                        }
                    }
                }

                let may_have = |bits: u32| bits & (1 << owner) == 0;
                let each = waiting.iter().filter(|(_, bits)| may_have(**bits));
                let each: Vec<u32> = each.map(|(index, _)| *index).take(most).collect();
                let mut found = Vec::new();
                let look = |waiting: &BTreeMap<u32, u32>, index: u32| {
                    waiting.get(&index).map_or(OpinionWait::Not, |bits| behind(*bits))
                };
                let mut line = opinions.line_up(&|index| look(&waiting, index));
                while found.len() < most {
                    let next = opinions.next(&mut line, &|index| look(&waiting, index));
                    let Some((index, group)) = next else { break };
                    if may_have(waiting[&index]) {
                        opinions.take((index, group), &mut line);
                        waiting.remove(&index);
                        found.push(index);
                    } else {
                        line.refuse(group);
                    }
                }
                prop_assert_eq!(found, each);
                prop_assert!(waiting.keys().all(|index| opinions.has(*index)));
                prop_assert_eq!(opinions.numbers.len(), opinions.groups.len());
                prop_assert!(opinions.groups.values().all(|group| !group.tasks.is_empty()));
            }
        }
    }
}
