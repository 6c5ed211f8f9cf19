//! EXCL-PRED-DUP (Kondo et al. 2004, section 6): "replicates each task when the number of ready
//! hosts is greater than the number of tasks to schedule". Duplicates go after all waiting tasks,
//! those of tasks on the slowest hosts first.
//!
//! Readings: the ready hosts are those that EXCL-PRED does not exclude. Only tasks that start from
//! then on are copied, once each; the paper finds "little improvement" since many tasks "began
//! execution before the point at which there are more ready hosts than tasks". Parameter `copies`
//! has the other reading, in which running tasks are copied too. Parameter `copies_max` bounds the
//! copies of a job, as EXCL-PRED-DUP* of the paper's Figure 11 does.
//!
//! `Starter::place_all` compares the hosts that the placement would take with the waiting tasks
//! before it starts each task, and puts a copy among the job's wishes if more hosts are left;
//! `Starter::copy` grants wishes after all waiting tasks, as far as [`Answer::may_copy`] lets it.

use super::{Answer, Requeue};
use crate::policy::setting::{HasSettings, Setting, name_of, number, one_of};

/// The options of the copies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dup {
    /// The tasks that are copied.
    pub which: Replicated,
    /// The lost copies that are started again.
    pub requeue: Requeue,
    /// The number of copies that a job may start, per task.
    pub copies_max: f64,
}

impl HasSettings for Dup {
    fn settings(&self) -> &'static [Setting<Self>] {
        &[
            Setting {
                name: "requeue",
                meaning: Requeue::MEANING,
                get: |answer| answer.requeue.name(),
                set: |answer, value| Requeue::named(value).map(|requeue| answer.requeue = requeue),
            },
            Setting {
                name: "copies",
                meaning: "which tasks are copied once hosts are to spare: those `started` from then on, or also the \
                          `running` ones",
                get: |answer| name_of(answer.which, &COPIES),
                set: |answer, value| {
                    answer.which = one_of(value, &COPIES, "`started` or `running`")?;
                    Ok(())
                },
            },
            Setting {
                name: "copies_max",
                meaning: "copies per task that a job may start",
                get: |answer| answer.copies_max.to_string(),
                set: |answer, value| {
                    answer.copies_max =
                        number(value, 0.0, f64::INFINITY, "copies per task, at least 0")?;
                    Ok(())
                },
            },
        ]
    }
}

impl Answer for Dup {
    fn describe(self) -> &'static str {
        "each task that starts while more hosts are ready than tasks wait, those on slow hosts first"
    }

    fn requeue(self) -> Requeue {
        self.requeue
    }

    fn may_copy(self, copies: u64, tasks: u64) -> bool {
        copies as f64 + 1.0 <= self.copies_max * tasks as f64
    }

    fn overlap(self) -> Option<Replicated> {
        Some(self.which)
    }
}

/// The names of the tasks that are copied.
const COPIES: [(&str, Replicated); 2] = [
    ("started", Replicated::Started),
    ("running", Replicated::Running),
];

/// The tasks that are copied once more hosts are ready than tasks wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replicated {
    /// Tasks that start from then on.
    Started,
    /// Also tasks that run already.
    Running,
}
