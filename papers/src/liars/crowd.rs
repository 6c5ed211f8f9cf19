//! The crowd of hosts ([`Crowd`]): their speeds, their owners, and the liars among them.

use common::{AttemptId, HostId, Speed, TaskId};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// The ways in which liars lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Each liar has its own wrong result for one task in ten, like a broken host.
    Now,
    /// Each liar has its own wrong result, always.
    Always,
    /// Each liar has its own wrong result, but only while it is trusted without a quorum.
    OnceTrusted,
    /// All liars have the same wrong result for the same one task in ten; each has its own owner.
    InConcert,
    /// Like `InConcert`, but for every task.
    AlwaysInConcert,
    /// Like `InConcert`, but all liars are hosts of one owner.
    OneOwner,
}

/// The contents of a result; equal ones agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    Truth,
    /// A wrong result that no other attempt has.
    Own(AttemptId),
    /// The wrong result that all liars in concert have for this task.
    Agreed(TaskId),
}

/// The hosts and the liars among them.
#[derive(Debug, Clone)]
pub struct Crowd {
    speeds: Vec<Speed>,
    liars: Vec<bool>,
    lie: Lie,
    seed: u64,
}

impl Crowd {
    /// Draws `hosts` hosts, of which the part `part` (at least one, if not 0) lies. The same seed
    /// gives the same crowd.
    pub fn new(hosts: u32, part: f64, lie: Lie, seed: u64) -> Self {
        let mut draw = ChaCha8Rng::seed_from_u64(seed);
        // Speeds lie between a half and twice the reference host.
        let speed = |draw: &mut ChaCha8Rng| {
            2f64.powf(2.0 * (f64::from(draw.next_u32()) / 2f64.powi(32)) - 1.0)
        };
        let speeds = (0..hosts)
            .map(|_| Speed::new(speed(&mut draw)).unwrap_or(Speed::REFERENCE))
            .collect();
        let mut order: Vec<(u64, usize)> = (0..hosts as usize)
            .map(|host| (draw.next_u64(), host))
            .collect();
        order.sort_unstable();

        let count = (part * f64::from(hosts)).ceil() as usize;
        let mut liars = vec![false; hosts as usize];
        order
            .iter()
            .take(count)
            .for_each(|(_, host)| liars[*host] = true);

        Self {
            speeds,
            liars,
            lie,
            seed,
        }
    }

    pub(super) fn secret(&self) -> u64 {
        self.seed ^ 0x5EED
    }

    /// Each host with its speed and the host that stands for its owner.
    pub(super) fn hosts(&self) -> impl Iterator<Item = (HostId, Speed, HostId)> + '_ {
        let first = self.liars.iter().position(|liar| *liar).map(id);
        (0..self.speeds.len()).map(move |at| {
            let party = first
                .filter(|_| self.lie == Lie::OneOwner && self.liars[at])
                .unwrap_or(id(at));
            (id(at), self.speeds[at], party)
        })
    }

    pub(super) fn speed(&self, host: HostId) -> Speed {
        self.speeds
            .get(host.0 as usize - 1)
            .copied()
            .unwrap_or(Speed::REFERENCE)
    }

    /// The result that a host delivers for an attempt, after `valid` agreeing results in a row.
    pub(super) fn says(&self, host: HostId, attempt: AttemptId, valid: u32) -> Says {
        if !self
            .liars
            .get(host.0 as usize - 1)
            .is_some_and(|liar| *liar)
        {
            return Says::Truth;
        }

        let one_in_ten = |of: [u32; 3]| {
            let seed = of.into_iter().fold(self.seed, |seed, part| {
                seed.wrapping_mul(31).wrapping_add(u64::from(part))
            });
            ChaCha8Rng::seed_from_u64(seed)
                .next_u32()
                .is_multiple_of(10)
        };

        let task = attempt.task;
        let agreed = one_in_ten([task.job.0, task.index, 0]);
        match self.lie {
            Lie::Now if one_in_ten([task.job.0, task.index, host.0]) => Says::Own(attempt),
            Lie::Always => Says::Own(attempt),
            Lie::OnceTrusted if valid >= scheduler::policy::trust::TRUSTED_FROM => {
                Says::Own(attempt)
            }
            Lie::InConcert | Lie::OneOwner if agreed => Says::Agreed(task),
            Lie::AlwaysInConcert => Says::Agreed(task),
            _ => Says::Truth,
        }
    }
}

fn id(at: usize) -> HostId {
    HostId(u32::try_from(at + 1).unwrap_or(u32::MAX))
}
