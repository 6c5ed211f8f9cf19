//! Who may come in while many want to: how many connections may be between their first packet and their certificate, and
//! how many there may be at all.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// So many may be on their way in without having proved their address.
const UNPROVED: usize = 200;
/// So many may be on their way in at all.
const PENDING: usize = 1_600;
/// So many of them may come from one address.
const OF_ONE: usize = 400;

/// What is done with somebody who knocks.
#[derive(Debug)]
pub(crate) enum Knock {
    /// Let in; the handshake may go on while this is kept.
    In(Pending),
    /// First it has to prove its address.
    Prove,
    /// Not now.
    Away,
}

#[derive(Debug, Default)]
struct Count {
    all: usize,
    by: BTreeMap<IpAddr, usize>,
}

/// Counts those who are on their way in.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    most: usize,
    count: Arc<Mutex<Count>>,
}

/// Somebody on the way in.
#[derive(Debug)]
pub(crate) struct Pending {
    from: IpAddr,
    count: Arc<Mutex<Count>>,
}

impl Door {
    /// For so many connections at most.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, count: Arc::default() }
    }

    /// Somebody knocks while so many connections are open.
    pub(crate) fn knock(&self, from: IpAddr, proved: bool, open: usize) -> Knock {
        let from = super::place(from);
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let of_it = count.by.get(&from).copied().unwrap_or(0);
        if open > self.most {
            return Knock::Away;
        }
        if count.all >= UNPROVED && !proved {
            return Knock::Prove;
        }
        if count.all >= PENDING || of_it >= OF_ONE {
            return Knock::Away;
        }
        count.all += 1;
        *count.by.entry(from).or_default() += 1;
        Knock::In(Pending { from, count: Arc::clone(&self.count) })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        count.all -= 1;
        if let Some(of_it) = count.by.get_mut(&self.from) {
            *of_it -= 1;
            if *of_it == 0 {
                count.by.remove(&self.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_proves_its_address_and_one_address_never_takes_every_place() {
        let door = Door::new(10_000);
        let address = |n: u8| IpAddr::from([192, 0, 2, n]);
        let mut inside: Vec<Knock> = (0..UNPROVED).map(|_| door.knock(address(1), false, 0)).collect();
        assert!(inside.iter().all(|knock| matches!(knock, Knock::In(_))));
        assert!(matches!(door.knock(address(2), false, 0), Knock::Prove));
        inside.extend((UNPROVED..OF_ONE).map(|_| door.knock(address(1), true, 0)));
        assert!(matches!(door.knock(address(1), true, 0), Knock::Away));
        for n in 2..=4 {
            inside.extend((0..OF_ONE).map(|_| door.knock(address(n), true, 0)));
        }
        assert!(inside.iter().all(|knock| matches!(knock, Knock::In(_))) && inside.len() == PENDING);
        assert!(matches!(door.knock(address(5), true, 0), Knock::Away));
        drop(inside);
        assert!(matches!(door.knock(address(5), false, 0), Knock::In(_)));
        assert!(matches!(door.knock(address(5), true, 10_001), Knock::Away));
        let counted = door.count.lock().unwrap();
        assert_eq!((counted.all, counted.by.len()), (0, 0));
    }
}
