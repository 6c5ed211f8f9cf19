//! Who may come in while many want to: how many connections may be between their first packet and
//! their certificate, how many may join at a time without a word, and how many there may be at all.
//! Who is on the way in makes room for who comes later: a handshake takes a moment, and one that
//! takes longer is hardly meant.

use std::net::IpAddr;

use link::{BoundedPlaces, TakenPlace};

/// The most peers on their way in without a proved address.
const UNPROVED: usize = 200;
/// The most peers on their way in at all.
const PENDING: usize = 1_600;
/// So many of them may come from one address.
const OF_ONE: usize = 400;
/// The most peers that are about to join and have not named a token.
const SILENT: usize = 512;
/// So many of them may come from one address.
const SILENT_OF_ONE: usize = 64;

/// The answer to a new connection.
#[derive(Debug)]
pub(crate) enum Knock {
    /// Let in; the handshake may go on while this is kept.
    In(TakenPlace),
    /// First it has to prove its address.
    Prove,
    /// Not now.
    Away,
}

/// Counts those who are on their way in.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    most: usize,
    pending: BoundedPlaces,
    silent: BoundedPlaces,
}

impl Door {
    /// For so many connections at most.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            pending: BoundedPlaces::new(PENDING, OF_ONE),
            silent: BoundedPlaces::new(SILENT, SILENT_OF_ONE),
        }
    }

    /// Somebody knocks while so many connections are open. Where those are all that may be, who has
    /// not shown who it is makes room.
    pub(crate) fn knock(&self, from: IpAddr, proved: bool, open: usize) -> Knock {
        if open > self.most && !self.silent.oust() && !self.pending.oust() {
            return Knock::Away;
        }
        if self.pending.len() >= UNPROVED && !proved {
            return Knock::Prove;
        }
        Knock::In(self.pending.enter(from))
    }

    /// Somebody wants to join and has not said with which token.
    pub(crate) fn joins(&self, from: IpAddr) -> TakenPlace {
        self.silent.enter(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_proves_its_address_and_makes_room_for_who_comes_later() {
        let door = Door::new(10_000);
        let address = |n: u8| IpAddr::from([192, 0, 2, n]);
        let mut inside: Vec<Knock> = (0..UNPROVED)
            .map(|_| door.knock(address(1), false, 0))
            .collect();
        assert!(inside.iter().all(|knock| matches!(knock, Knock::In(_))));
        assert!(matches!(door.knock(address(2), false, 0), Knock::Prove));
        inside.extend((UNPROVED..=OF_ONE).map(|_| door.knock(address(1), true, 0)));

        assert_eq!(
            door.pending.len(),
            OF_ONE,
            "the first of them has lost its place"
        );
        assert!(
            matches!(door.knock(address(1), true, 10_001), Knock::In(_)),
            "another makes room"
        );
        drop(inside);
        assert!(matches!(door.knock(address(5), false, 0), Knock::In(_)));
        assert!(
            matches!(door.knock(address(5), true, 10_001), Knock::Away),
            "there is nobody to make room"
        );
    }
}
