//! The behaviour of users ([`UserPlan`]): the sets that they disclose, the run time of each task, their
//! think times, and when they drop the rest of a set.

use common::Span;

use super::Which;

/// The behaviour of users. It does not depend on when results come, so that policies can be
/// compared on the same users.
pub trait UserPlan {
    /// The number of users.
    fn users(&self) -> usize;
    /// The number of tasks in a user's set; `None` once the user stops.
    fn tasks(&self, user: usize, set: usize) -> Option<usize>;
    /// The run time of a task.
    fn takes(&self, which: Which) -> Span;
    /// The time for which the user thinks about a task's result.
    fn thinks(&self, which: Which) -> Span;
    /// Whether the user drops the rest of the set after this result.
    fn drops(&self, which: Which) -> bool;
}

/// Sets with given tasks, written by hand.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// The run time of each task, by user and set.
    pub sets: Vec<Vec<Vec<Span>>>,
    /// The think time after each result.
    pub think: Span,
    /// The number of results after which the rest of a set is dropped, by user and set.
    pub drop_after: Vec<Vec<usize>>,
}

impl UserPlan for Script {
    fn users(&self) -> usize {
        self.sets.len()
    }

    fn tasks(&self, user: usize, set: usize) -> Option<usize> {
        self.sets[user].get(set).map(Vec::len)
    }

    fn takes(&self, Which { user, set, task }: Which) -> Span {
        self.sets[user][set][task]
    }

    fn thinks(&self, _which: Which) -> Span {
        self.think
    }

    fn drops(&self, Which { user, set, task }: Which) -> bool {
        self.drop_after
            .get(user)
            .and_then(|sets| sets.get(set))
            .is_some_and(|after| task + 1 >= *after)
    }
}

/// A point of the paper's parameters (Table 2). Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StudyPoint {
    /// The number of users.
    pub users: usize,
    /// The largest probability with which a user drops the rest of a set after a result.
    pub change_max: f64,
    /// The largest number of tasks in a user's sets.
    pub tasks_max: u32,
    /// The mean run time of a task.
    pub service_s: f64,
    /// The mean think time.
    pub think_s: f64,
}

/// Random users. The probability to drop a set and the number of tasks in a set are drawn once for
/// each user; everything else is drawn for each task.
#[derive(Debug, Clone)]
pub struct Random {
    seed: u64,
    parameters: StudyPoint,
    /// The probability to drop the rest of a set, and the number of tasks in a set, by user.
    users: Vec<(f64, usize)>,
}

/// The quantities that are drawn; each has its own random numbers in `unit`.
#[derive(Clone, Copy)]
enum DrawnQuantity {
    Change = 1,
    Size,
    Service,
    Think,
    Drop,
}

impl Random {
    /// Draws the users of this seed.
    pub fn new(seed: u64, parameters: StudyPoint) -> Self {
        let of = |user: usize| {
            let which = Which {
                user,
                set: 0,
                task: 0,
            };
            let change = unit(seed, DrawnQuantity::Change, which) * parameters.change_max;
            let size = (unit(seed, DrawnQuantity::Size, which) * f64::from(parameters.tasks_max))
                as usize
                + 1;
            (change, size.min(parameters.tasks_max.max(1) as usize))
        };
        Self {
            seed,
            parameters,
            users: (0..parameters.users).map(of).collect(),
        }
    }

    fn exponential(&self, draw: DrawnQuantity, which: Which, mean_s: f64) -> Span {
        Span::from_secs_f64(-mean_s * unit(self.seed, draw, which).ln())
    }
}

impl UserPlan for Random {
    fn users(&self) -> usize {
        self.users.len()
    }

    fn tasks(&self, user: usize, _set: usize) -> Option<usize> {
        Some(self.users[user].1)
    }

    fn takes(&self, which: Which) -> Span {
        self.exponential(DrawnQuantity::Service, which, self.parameters.service_s)
    }

    fn thinks(&self, which: Which) -> Span {
        self.exponential(DrawnQuantity::Think, which, self.parameters.think_s)
    }

    fn drops(&self, which: Which) -> bool {
        unit(self.seed, DrawnQuantity::Drop, which) < self.users[which.user].0
    }
}

/// A random number strictly between 0 and 1 that depends on the arguments only.
fn unit(seed: u64, draw: DrawnQuantity, Which { user, set, task }: Which) -> f64 {
    let words = [draw as u64, user as u64, set as u64, task as u64];
    let mixed = words
        .iter()
        .fold(mix(seed), |mixed, word| mix(mixed ^ mix(*word)));
    ((mixed >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
}

/// One step of the generator SplitMix64: each bit of `word` changes about half of the result's
/// bits.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}
