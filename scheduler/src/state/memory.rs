//! The memory that attempts of a job held where it was short, and what its tasks count as for that:
//! at least as much as they ask for, and no more than a host lends that takes work, or on which a task
//! of the job has succeeded. It is not kept over restarts.

use common::Time;
use common::needs::Needs;
use common::units::Bytes;

use crate::state::job::Job;

/// The step to which what is learned is rounded up, in MiB: jobs with about the same share a pool.
const STEP_MIB: u32 = 64;
/// The bytes of that.
const STEP: u64 = (STEP_MIB as u64) << 20;

/// The memory that attempts of a job were found to hold, and to get along with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldMemory {
    /// The memory that each task asks for, in MiB.
    asked_mib: u32,
    /// The most that one held when memory was short; 0 where none was given back for that.
    bytes: u64,
    /// The least that a host lends, in MiB, on which a task has succeeded.
    enough_mib: u32,
    /// The look at the hosts with which the demand was last computed.
    pub(crate) look: HostsLook,
}

/// A look at all hosts for what they lend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HostsLook {
    /// The number of `Index::offered` and of usable slots.
    pub(crate) known: (u64, u64),
    pub(crate) at: Time,
    /// Whether a host suits the job and takes work.
    pub(crate) found: bool,
}

impl Default for HeldMemory {
    fn default() -> Self {
        Self {
            asked_mib: 0,
            bytes: 0,
            enough_mib: u32::MAX,
            look: HostsLook::default(),
        }
    }
}

impl HeldMemory {
    /// Returns the demand where the largest host lends so much, all in MiB. One task that holds much keeps no other
    /// one from hosts that are large enough for most.
    pub(crate) fn demand_mib(&self, most_mib: u32) -> u32 {
        let steps = u32::try_from(self.bytes.div_ceil(STEP)).unwrap_or(u32::MAX);
        let held_mib = steps.saturating_mul(STEP_MIB);
        held_mib
            .min(most_mib)
            .min(self.enough_mib)
            .max(self.asked_mib)
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
    /// so does what disclosed tasks make room with. A result to compare may be wanted of a host that is smaller than
    /// the one on which the task held much.
    pub(crate) fn learns_memory(&self) -> bool {
        let fixed = self.gang.is_some() || self.promise.is_some() || self.speculation.is_some();
        !fixed && !self.rules.quorum.compares()
    }

    /// Notes that an attempt held so many bytes when memory was short, and returns whether none had held as much.
    pub(crate) fn note_held(&mut self, bytes: u64) -> bool {
        if self.held.bytes == 0 {
            self.held.asked_mib = self.demand.memory_mib;
        }
        let more = bytes > self.held.bytes;
        self.held.bytes = self.held.bytes.max(bytes);
        more
    }

    /// Notes that a task succeeded on a host that lends so much, in MiB, and returns whether that is less than was
    /// known to be enough.
    pub(crate) fn note_enough(&mut self, lent_mib: u32) -> bool {
        let less = lent_mib < self.held.enough_mib;
        self.held.enough_mib = self.held.enough_mib.min(lent_mib);
        less
    }

    /// Returns what its tasks count as and why, in words, where that is more than they ask for.
    pub(crate) fn why_larger(&self) -> Option<String> {
        let held = self.held;
        (held.bytes > 0 && self.demand.memory_mib > held.asked_mib).then(|| {
            format!(
                "each task counts as {} of memory, since its attempts held {} when memory was short",
                Bytes(u64::from(self.demand.memory_mib) << 20),
                Bytes(held.bytes)
            )
        })
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
            ..HeldMemory::default()
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

        let proved = HeldMemory {
            enough_mib: 2_048,
            ..held(0, 3 * GIB)
        };
        assert_eq!(proved.demand_mib(4_096), 2_048);
    }
}
