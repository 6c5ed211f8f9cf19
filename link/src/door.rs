//! Admits connections to a master or a gateway while many want in. It bounds the connections between
//! their first packet and their certificate, the joiners that have not named a token, and all
//! connections together. An older handshake makes room for a newer one: it takes a moment, and one
//! that takes longer is hardly meant.

use std::net::IpAddr;

use std::time::Duration;

use common::wire::enrol::Enrol;
use quinn::{Connection, Incoming};

use crate::channel::Channel;
use crate::crowd::{BoundedPlaces, TakenPlace};
use crate::error::LinkError;

/// The most connections of one worker: some that are dead are noticed late.
pub const OF_A_WORKER: usize = 4;
/// The time a joiner may take until it has sent its request with a token.
pub const SILENCE: Duration = Duration::from_secs(5);

/// The most pending handshakes before new ones must prove their address.
const UNPROVED: usize = 200;
/// The most pending handshakes.
const PENDING: usize = 1_600;
/// The most pending handshakes from one address.
const OF_ONE: usize = 400;
/// The most joiners that have not named a token.
const SILENT: usize = 512;
/// The most such joiners from one address.
const SILENT_OF_ONE: usize = 64;

/// The answer to a new connection.
#[derive(Debug)]
enum Knock {
    /// The connection is let in; the handshake may go on while the `TakenPlace` is kept.
    In(TakenPlace),
    /// The peer has to prove its address first.
    Prove,
    /// The connection is refused for now.
    Away,
}

/// The counts of connections on their way in.
#[derive(Debug, Clone)]
pub struct ConnectionDoor {
    most: usize,
    pending: BoundedPlaces,
    silent: BoundedPlaces,
}

impl ConnectionDoor {
    /// A door for `most` open connections.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            pending: BoundedPlaces::new(PENDING, OF_ONE),
            silent: BoundedPlaces::new(SILENT, SILENT_OF_ONE),
        }
    }

    /// Lets a new connection in while `open` connections exist: the handshake may go on while the [`TakenPlace`] is
    /// kept. One that has to prove its address first, or to come later, is told so.
    pub fn let_in(&self, incoming: Incoming, open: usize) -> Option<(Incoming, TakenPlace)> {
        let from = incoming.remote_address().ip();
        let proved = incoming.remote_address_validated();

        match self.knock(from, proved, open) {
            Knock::In(place) => Some((incoming, place)),
            Knock::Prove => {
                // Fails only if the address is proved already.
                let _ = incoming.retry();
                None
            }
            Knock::Away => {
                incoming.refuse();
                None
            }
        }
    }

    /// Answers a new connection while `open` connections exist. If these are the most allowed, a
    /// peer that has not shown who it is makes room.
    fn knock(&self, from: IpAddr, proved: bool, open: usize) -> Knock {
        if open > self.most && !self.silent.oust() && !self.pending.oust() {
            return Knock::Away;
        }
        if self.pending.len() >= UNPROVED && !proved {
            return Knock::Prove;
        }
        Knock::In(self.pending.enter(from))
    }

    /// Enters a joiner that has not named its token.
    pub fn joins(&self, from: IpAddr) -> TakenPlace {
        self.silent.enter(from)
    }
}

/// Hears the request of a joiner that has this place; or says why there was none in time.
///
/// # Errors
/// If its connection is gone, or what it says is no request.
pub async fn hear_joiner(
    connection: &Connection,
    silent: &mut TakenPlace,
) -> Result<Result<(Channel, Enrol), &'static str>, LinkError> {
    let said = async {
        let (tx, rx) = connection.accept_bi().await?;
        let mut channel = Channel::new(tx, rx);
        let request = channel.rx.expect::<Enrol>().await?;
        Ok::<_, LinkError>((channel, request))
    };

    tokio::select! {
        said = tokio::time::timeout(SILENCE, said) => match said {
            Ok(said) => said.map(Ok),
            Err(_) => Ok(Err("it did not say within five seconds with which token it joins")),
        },
        () = silent.lost() => Ok(Err("others came after it, and it had not said with which token it joins")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_proves_its_address_and_makes_room_for_latecomers() {
        let door = ConnectionDoor::new(10_000);
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
