//! What users do: which sets they bring, how long each task takes, how long they think, and when
//! they have seen enough. What is not here: what comes of it.

use common::Span;

use super::Which;

/// What users do. It does not depend on when their results come, so that schedulers can be compared
/// on the same users.
pub trait Plan {
    /// How many users there are.
    fn users(&self) -> usize;
    /// How many tasks a set of a user's has; none where the user stops.
    fn tasks(&self, user: usize, set: usize) -> Option<usize>;
    /// What a task takes.
    fn takes(&self, which: Which) -> Span;
    /// How long its user thinks about the result.
    fn thinks(&self, which: Which) -> Span;
    /// Whether the user then drops the rest of the set.
    fn drops(&self, which: Which) -> bool;
}

/// Sets that somebody wrote down.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// Of each user, of each set, what its tasks take.
    pub sets: Vec<Vec<Vec<Span>>>,
    /// How long users think.
    pub think: Span,
    /// Of each user, of each set, after how many results the rest is dropped.
    pub drop_after: Vec<Vec<usize>>,
}

impl Plan for Script {
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

/// A point of the paper's parameters (Table 2). Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// Users.
    pub users: usize,
    /// The most that a user's probability to drop the rest after a result can be.
    pub change_max: f64,
    /// The most tasks that the sets of a user can have.
    pub tasks_max: u32,
    /// Mean time of a task.
    pub service_s: f64,
    /// Mean time that users think.
    pub think_s: f64,
}

/// Users by chance: how likely each one drops a set, and how many tasks each one's sets have, is
/// drawn once for each user, everything else for each task.
#[derive(Debug, Clone)]
pub struct Random {
    seed: u64,
    parameters: Parameters,
    /// Of each user how likely it drops a set, and its sets' tasks.
    users: Vec<(f64, usize)>,
}

/// What is drawn.
#[derive(Clone, Copy)]
enum Draw {
    Change = 1,
    Size,
    Service,
    Think,
    Drop,
}

impl Random {
    /// Users of this seed.
    pub fn new(seed: u64, parameters: Parameters) -> Self {
        let of = |user: usize| {
            let which = Which {
                user,
                set: 0,
                task: 0,
            };
            let change = unit(seed, Draw::Change, which) * parameters.change_max;
            let size =
                (unit(seed, Draw::Size, which) * f64::from(parameters.tasks_max)) as usize + 1;
            (change, size.min(parameters.tasks_max.max(1) as usize))
        };
        Self {
            seed,
            parameters,
            users: (0..parameters.users).map(of).collect(),
        }
    }

    fn exponential(&self, draw: Draw, which: Which, mean_s: f64) -> Span {
        Span::from_secs_f64(-mean_s * unit(self.seed, draw, which).ln())
    }
}

impl Plan for Random {
    fn users(&self) -> usize {
        self.users.len()
    }

    fn tasks(&self, user: usize, _set: usize) -> Option<usize> {
        Some(self.users[user].1)
    }

    fn takes(&self, which: Which) -> Span {
        self.exponential(Draw::Service, which, self.parameters.service_s)
    }

    fn thinks(&self, which: Which) -> Span {
        self.exponential(Draw::Think, which, self.parameters.think_s)
    }

    fn drops(&self, which: Which) -> bool {
        unit(self.seed, Draw::Drop, which) < self.users[which.user].0
    }
}

/// A number strictly between 0 and 1 that only depends on what it is for.
fn unit(seed: u64, draw: Draw, Which { user, set, task }: Which) -> f64 {
    let words = [draw as u64, user as u64, set as u64, task as u64];
    let mixed = words
        .iter()
        .fold(mix(seed), |mixed, word| mix(mixed ^ mix(*word)));
    ((mixed >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
}

/// One step of the generator SplitMix64: every bit of what goes in changes about half of what comes
/// out.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}
