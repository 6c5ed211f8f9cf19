//! The memory that attempts of a job held where it was short, and what its tasks count as for that:
//! at least as much as they ask for, and no more than one host lends. It is not kept over restarts.

use common::needs::Needs;
use common::units::Bytes;

use crate::state::job::Job;

/// The step to which what is learned is rounded up, in MiB: jobs with about the same share a pool.
const STEP_MIB: u32 = 64;
/// The bytes of that.
const STEP: u64 = (STEP_MIB as u64) << 20;

/// The most that an attempt of a job held when memory was short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldMemory {
    /// The memory that each task asks for, in MiB.
    asked_mib: u32,
    bytes: u64,
    /// The number of `Index::offered` and of usable slots for which the demand was last computed.
    pub(crate) looked: (u64, u64),
}

impl HeldMemory {
    /// Returns the demand where the largest host lends so much, all in MiB.
    pub(crate) fn demand_mib(&self, most_mib: u32) -> u32 {
        let steps = u32::try_from(self.bytes.div_ceil(STEP)).unwrap_or(u32::MAX);
        let held_mib = steps.saturating_mul(STEP_MIB);
        held_mib.min(most_mib).max(self.asked_mib)
    }

    /// Returns these needs of a job without what was learned.
    pub(crate) fn asked(&self, needs: &Needs) -> Needs {
        let mut asked = needs.clone();
        asked.takes.memory_mib = self.asked_mib;
        asked
    }
}

impl Job {
    /// Whether its tasks may come to need more than they ask for. What ranks and promises were computed with stays, and
    /// so does what disclosed tasks make room with.
    pub(crate) fn learns_memory(&self) -> bool {
        self.gang.is_none() && self.promise.is_none() && self.speculation.is_none()
    }

    /// Notes that an attempt held so many bytes when memory was short.
    pub(crate) fn note_held(&mut self, bytes: u64) {
        let held = self.held.get_or_insert(HeldMemory {
            asked_mib: self.demand.memory_mib,
            bytes: 0,
            looked: (0, 0),
        });
        held.bytes = held.bytes.max(bytes);
    }

    /// Returns what its tasks count as and why, in words, where that is more than they ask for.
    pub(crate) fn why_larger(&self) -> Option<String> {
        let held = self
            .held
            .filter(|held| self.demand.memory_mib > held.asked_mib)?;
        Some(format!(
            "each task counts as {} of memory, since its attempts held {} when memory was short",
            Bytes(u64::from(self.demand.memory_mib) << 20),
            Bytes(held.bytes)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_demand_is_what_was_held_within_what_is_asked_for_and_what_is_lent() {
        let held = |asked_mib, bytes| HeldMemory {
            asked_mib,
            bytes,
            looked: (0, 0),
        };

        for (asked_mib, bytes, most_mib, demand_mib) in [
            (0, 3 * GIB, 4_096, 3_072),
            (0, 3 * GIB + 1, 4_096, 3_136),
            (0, 1, 4_096, 64),
            (0, 1, 32, 32),
            (0, 3 * GIB, 2_048, 2_048),
            (4_000, 3 * GIB, 8_192, 4_000),
            (4_000, 3 * GIB, 2_048, 4_000),
            (0, u64::MAX, u32::MAX, u32::MAX),
            (0, 0, 4_096, 0),
        ] {
            assert_eq!(held(asked_mib, bytes).demand_mib(most_mib), demand_mib);
        }
    }
}
