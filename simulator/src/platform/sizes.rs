//! The sizes of hosts beside their clock rates: processors and memory ([`SizeLaw`]).

use common::needs::{Capacity, Demand};

use crate::availability::stream::RandomStream;

/// The distribution of processors and memory over hosts: kinds of PCs, each with its share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeLaw {
    name: &'static str,
    kinds: &'static [(f64, u32, u32)],
}

/// PCs of an office, as bought over some years: shares, processors, and GiB of memory. Chosen by
/// us, after no measurement: small, usual and large PCs in one fleet, so that needs that some hosts
/// cannot meet, and needs that leave parts of others unused, both occur.
pub const OFFICE: SizeLaw = SizeLaw {
    name: "office-sizes",
    kinds: &[
        (0.20, 2, 4),
        (0.40, 4, 8),
        (0.15, 4, 16),
        (0.15, 8, 16),
        (0.08, 8, 32),
        (0.02, 16, 64),
    ],
};

impl SizeLaw {
    /// Draws what `hosts` hosts lend; no host lends a graphics processor.
    pub fn draw(&self, seed: u64, hosts: usize) -> Vec<Capacity> {
        let mut stream = RandomStream::new(self.name, seed, 0, 0);
        (0..hosts).map(|_| self.one(stream.unit())).collect()
    }

    /// Whether one of the kinds of host can hold an attempt with this demand.
    pub fn can_hold(&self, takes: &Demand) -> bool {
        let size = |&(_, cores, gib): &(f64, u32, u32)| capacity(cores, gib);
        self.kinds
            .iter()
            .map(size)
            .any(|size| size.holds(*takes) > 0)
    }

    fn one(&self, share: f64) -> Capacity {
        let mut left = share;
        let kind = self.kinds.iter().find(|(part, ..)| {
            left -= part;
            left < 0.0
        });
        let (_, cores, gib) = kind.or(self.kinds.last()).copied().unwrap_or((1.0, 1, 1));
        capacity(cores, gib)
    }
}

fn capacity(cores: u32, gib: u32) -> Capacity {
    Capacity {
        cores,
        memory_mib: gib * 1024,
        gpus: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_office_has_each_kind_of_pc_in_its_share() {
        let all = OFFICE.draw(1, 10_000);
        assert_eq!(all, OFFICE.draw(1, 10_000));
        for (part, cores, gib) in OFFICE.kinds {
            let like = |size: &&Capacity| size.cores == *cores && size.memory_mib == gib * 1024;
            let seen = all.iter().filter(like).count() as f64 / all.len() as f64;
            assert!((seen - part).abs() < 0.02, "{cores} processors: {seen}");
        }
        let sum: f64 = OFFICE.kinds.iter().map(|(part, ..)| part).sum();
        assert!((sum - 1.0).abs() < 1e-9);
    }
}
