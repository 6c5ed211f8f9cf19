//! Tasks that are added to a job which is open for them.

use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::idset::IdSet;
use crate::job::{MAX_TASK_RANGES, TaskSet};
use crate::selector::MAX_IDS;

/// New tasks of an open job. They do the job's own work by its own rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewTasks {
    /// One more task, with the number after the job's last one.
    Next,
    /// Tasks with these indices, which the job does not have yet.
    Ids(IdSet),
    /// One task for each item, with the numbers after the job's last one.
    Items(#[serde(deserialize_with = "bounded::list::<_, _, { MAX_IDS as usize }>")] Vec<String>),
}

/// The error for new tasks that a job cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAddition {
    /// There is no new task.
    #[error("no task is to be added")]
    Nothing,
    /// The job has a task with this index.
    #[error("the job has a task {0} already")]
    There(u32),
    /// The job's tasks have items.
    #[error(
        "each task of the job has an item: add items, with --each-line or --from-json, and not indices"
    )]
    NoItems,
    /// The job's tasks have no items.
    #[error("the tasks of the job have no items: add indices, with --array, and not items")]
    Items,
    /// The job would have more than [`MAX_IDS`] tasks.
    #[error("the job would have {0} tasks; the most is {MAX_IDS}")]
    TooMany(u64),
    /// The numbers of the job's tasks would form more than [`MAX_TASK_RANGES`] separate ranges.
    #[error(
        "the numbers of the job's tasks would form {0} separate ranges; the most is {MAX_TASK_RANGES}: leave no gaps"
    )]
    TooManyRanges(usize),
    /// The numbers are used up.
    #[error(
        "there is no number left after the job's last task, {0}: give the indices, with --array"
    )]
    NoNumber(u32),
    /// An item has a zero byte.
    #[error("an item has a zero byte")]
    ZeroByte,
}

impl BadAddition {
    /// Says what to ask for instead.
    pub fn hint(&self) -> &'static str {
        match self {
            BadAddition::Nothing => {
                "--array 1-100, --each-line F or --from-json F; without any of them it is one more task"
            }
            BadAddition::There(_) => {
                "leave out the numbers that the job has: deskgrid task list JOB shows them"
            }
            BadAddition::NoItems => {
                "--each-line F, or --from-json F, with an item for each new task"
            }
            BadAddition::Items => "--array 101-200, or no list at all for one more task",
            BadAddition::TooMany(_) => "add fewer, and submit the others as a job of their own",
            BadAddition::TooManyRanges(_) => {
                "number the new tasks one after the other: --array 101-200"
            }
            BadAddition::NoNumber(_) => "--array with numbers below that one",
            BadAddition::ZeroByte => "take the zero byte out of the item",
        }
    }
}

impl NewTasks {
    /// Checks what can be checked without the job.
    ///
    /// # Errors
    /// Names the first thing that makes no sense.
    pub fn check(&self) -> Result<(), BadAddition> {
        match self {
            NewTasks::Items(items) if items.iter().any(|item| item.contains('\0')) => {
                Err(BadAddition::ZeroByte)
            }
            _ if self.count() == 0 => Err(BadAddition::Nothing),
            _ if self.count() > MAX_IDS => Err(BadAddition::TooMany(self.count())),
            NewTasks::Ids(ids) => in_few_ranges(ids.ranges().len()),
            _ => Ok(()),
        }
    }

    /// Returns the number of new tasks.
    pub fn count(&self) -> u64 {
        match self {
            NewTasks::Next => 1,
            NewTasks::Ids(ids) => ids.len(),
            NewTasks::Items(items) => items.len() as u64,
        }
    }

    /// Returns the tasks with their numbers, of a job that has these tasks already.
    ///
    /// # Errors
    /// If the job cannot have them.
    pub fn beside(self, there: &TaskSet) -> Result<TaskSet, BadAddition> {
        self.check()?;
        let total = there.ids.len() + self.count();
        if total > MAX_IDS {
            return Err(BadAddition::TooMany(total));
        }

        let count = self.count();
        let last = there.ids.last().unwrap_or(0);
        let next = || {
            let end = u32::try_from(u64::from(last) + count);
            end.map(|end| IdSet::from_range(last + 1, end))
                .map_err(|_| BadAddition::NoNumber(last))
        };
        let listed = !there.items.is_empty();

        match self {
            NewTasks::Next | NewTasks::Ids(_) if listed => Err(BadAddition::NoItems),
            NewTasks::Items(_) if !listed => Err(BadAddition::Items),
            NewTasks::Next => Ok(TaskSet {
                ids: next()?,
                items: Vec::new(),
            }),
            NewTasks::Items(items) => Ok(TaskSet {
                ids: next()?,
                items,
            }),
            NewTasks::Ids(ids) => match there.ids.intersection(&ids).first() {
                Some(index) => Err(BadAddition::There(index)),
                None => {
                    // The union has at most so many ranges; it is made only where that may be too many.
                    if there.ids.ranges().len() + ids.ranges().len() > MAX_TASK_RANGES {
                        let mut all = there.ids.clone();
                        all.union_with(&ids);
                        in_few_ranges(all.ranges().len())?;
                    }
                    Ok(TaskSet {
                        ids,
                        items: Vec::new(),
                    })
                }
            },
        }
    }
}

/// Refuses tasks whose numbers form more than [`MAX_TASK_RANGES`] ranges.
fn in_few_ranges(ranges: usize) -> Result<(), BadAddition> {
    if ranges > MAX_TASK_RANGES {
        return Err(BadAddition::TooManyRanges(ranges));
    }
    Ok(())
}

impl TaskSet {
    /// Adds tasks that [`NewTasks::beside`] has numbered.
    pub fn add(&mut self, new: TaskSet) {
        self.ids.union_with(&new.ids);
        self.items.extend(new.items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(first: u32, last: u32) -> TaskSet {
        TaskSet {
            ids: IdSet::from_range(first, last),
            items: Vec::new(),
        }
    }

    fn listed(items: &[&str]) -> TaskSet {
        TaskSet {
            ids: IdSet::from_range(1, items.len() as u32),
            items: items.iter().map(|item| (*item).to_owned()).collect(),
        }
    }

    #[test]
    fn new_tasks_are_numbered_on_and_keep_their_items() {
        let mut there = listed(&["a", "b"]);
        let new = NewTasks::Items(vec!["c".into(), "d".into()]);
        there.add(new.beside(&there).unwrap());
        assert_eq!(there.ids, IdSet::from_range(1, 4));
        assert_eq!(
            (there.item(2), there.item(3), there.item(4)),
            ("b", "c", "d")
        );

        let next = NewTasks::Next.beside(&plain(3, 9)).unwrap();
        assert_eq!(next.ids, IdSet::from_range(10, 10));
        let given = NewTasks::Ids(IdSet::from_range(1, 2)).beside(&plain(3, 9));
        assert_eq!(given.unwrap().ids, IdSet::from_range(1, 2));
    }

    #[test]
    fn tasks_that_the_job_cannot_have_are_refused() {
        let ids = |first, last| NewTasks::Ids(IdSet::from_range(first, last));
        let item = |text: &str| NewTasks::Items(vec![text.to_owned()]);
        let most = MAX_IDS as u32;
        for (new, there, want) in [
            (
                NewTasks::Items(Vec::new()),
                listed(&["a"]),
                BadAddition::Nothing,
            ),
            (
                NewTasks::Ids(IdSet::new()),
                plain(1, 2),
                BadAddition::Nothing,
            ),
            (ids(2, 5), plain(1, 2), BadAddition::There(2)),
            (ids(2, 5), listed(&["a"]), BadAddition::NoItems),
            (NewTasks::Next, listed(&["a"]), BadAddition::NoItems),
            (item("b"), plain(1, 2), BadAddition::Items),
            (item("b\0"), listed(&["a"]), BadAddition::ZeroByte),
            (
                NewTasks::Next,
                plain(1, most),
                BadAddition::TooMany(MAX_IDS + 1),
            ),
            (
                NewTasks::Next,
                plain(u32::MAX, u32::MAX),
                BadAddition::NoNumber(u32::MAX),
            ),
        ] {
            let refused = new.beside(&there).unwrap_err();
            assert_eq!(refused, want);
            let hint = refused.hint();
            assert!(!hint.contains("nothing was added"), "{hint}");
        }
    }

    #[test]
    fn gaps_between_the_numbers_of_tasks_are_bounded() {
        let most = MAX_TASK_RANGES as u32;
        let odd = |first: u32, count: u32| (0..count).map(move |at| first + 2 * at).collect();
        let there = TaskSet {
            ids: odd(1, most - 1),
            items: Vec::new(),
        };

        let beside = |ids: IdSet| NewTasks::Ids(ids).beside(&there).map(|new| new.ids.len());
        assert_eq!(beside(IdSet::from_range(2, 2)), Ok(1));
        assert_eq!(beside(odd(3 * most, 1)), Ok(1));
        let too_many = Err(BadAddition::TooManyRanges(MAX_TASK_RANGES + 1));
        assert_eq!(beside(odd(3 * most, 2)), too_many);
        assert_eq!(
            NewTasks::Ids(odd(1, most + 1)).check(),
            too_many.map(|_: u64| ())
        );
    }
}
