//! The network of the simulated world: packets are lost, doubled, late and out of order, and ways
//! are cut, also in one direction only. Over it lie connections as QUIC gives them: each direction
//! in order and without gaps while the connection lasts, which is until either end has heard
//! nothing for too long.
//!
//! What is not here: what is said.

use std::collections::BTreeMap;

use common::wire::worker::{ToMaster, ToWorker};
use common::{BlobRef, Span, Time};
use uuid::Uuid;

use super::chance::Chance;
use super::people::{Ask, Told};

/// An end that has heard nothing for this long gives the connection up.
pub(super) const IDLE: Span = Span::from_secs(12);
/// What was not confirmed after this long is sent again.
pub(super) const AGAIN: Span = Span::from_millis(700);
/// So much at most is sent again at a time.
const WINDOW: usize = 16;

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// The worker's.
    Worker,
    /// The master's.
    Master,
}

impl End {
    /// The one over there.
    pub(super) fn other(self) -> Self {
        match self {
            End::Worker => End::Master,
            End::Master => End::Worker,
        }
    }
}

/// What travels in order on a connection. The bytes of messages are those of the real wire.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Frame {
    /// Who wants to talk, as a certificate says it.
    Open(Uuid, [u8; 32]),
    /// A message in one direction or the other.
    Word(Vec<u8>),
    /// There will be nothing more; whether the other end was refused.
    Close(bool),
}

/// What travels by itself.
#[derive(Debug, Clone)]
pub(super) enum Packet {
    /// One of the frames towards an end.
    Frame(u64, End, u64, Frame),
    /// All frames before this number have arrived at that end.
    Confirm(u64, End, u64),
    /// Nobody here knows of that connection.
    Unknown(u64, End),
    /// Content, on a stream of its own, and that it is there.
    Put(u64, BlobRef),
    /// As it says.
    Stored(u64, BlobRef),
    /// Somebody asks the master.
    Ask(u64, Box<Ask>),
    /// The master answers.
    Answer(u64, Box<Told>),
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Lane {
    sent: u64,
    unconfirmed: BTreeMap<u64, Frame>,
    arrived: u64,
    early: BTreeMap<u64, Frame>,
}

/// A connection between a worker and the master.
#[derive(Debug)]
pub(super) struct Connection {
    /// Which worker.
    pub(super) worker: usize,
    /// Towards the worker, and towards the master.
    lanes: [Lane; 2],
    /// Whether each end still knows of it.
    pub(super) open: [bool; 2],
    /// When each end last heard of the other.
    heard: [Time; 2],
    /// What came before a message at the master: whose session it is.
    pub(super) host: Option<(common::HostId, String)>,
    /// Whether the worker was let in.
    pub(super) welcome: bool,
}

/// How the ways to one worker are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Way {
    /// Of a hundred packets so many are lost.
    pub(super) loss: u64,
    /// Of a hundred packets so many come twice.
    pub(super) doubles: u64,
    /// The longest that a packet takes, in milliseconds.
    pub(super) slowest_ms: u64,
    /// Until when nothing arrives at the worker, and at the master.
    pub(super) cut: [Time; 2],
}

/// All connections, and the ways.
#[derive(Debug, Default)]
pub(super) struct Net {
    /// By number.
    pub(super) connections: BTreeMap<u64, Connection>,
    next: u64,
    /// One for each worker, then one for all clients.
    pub(super) ways: Vec<Way>,
}

impl Net {
    /// These ways, and no connection.
    pub(super) fn new(ways: Vec<Way>) -> Self {
        Self {
            ways,
            ..Self::default()
        }
    }

    /// A worker begins a connection.
    pub(super) fn connect(&mut self, worker: usize, now: Time) -> u64 {
        self.next += 1;
        let lanes = [Lane::default(), Lane::default()];
        let open = [true, false];
        let new = Connection {
            worker,
            lanes,
            open,
            heard: [now; 2],
            host: None,
            welcome: false,
        };
        self.connections.insert(self.next, new);

        self.next
    }

    /// Puts a frame onto its lane; gives its number.
    pub(super) fn push(&mut self, connection: u64, to: End, frame: Frame) -> Option<u64> {
        let there = self.connections.get_mut(&connection)?;
        if !there.open[to.other() as usize] {
            return None;
        }
        let lane = &mut there.lanes[to as usize];
        lane.unconfirmed.insert(lane.sent, frame);
        lane.sent += 1;
        Some(lane.sent - 1)
    }

    /// What of a lane is to be sent (again): nothing where all is confirmed or the sender has given
    /// up.
    pub(super) fn unconfirmed(&self, connection: u64, to: End) -> Vec<(u64, Frame)> {
        let Some(there) = self.connections.get(&connection) else {
            return Vec::new();
        };
        if !there.open[to.other() as usize] {
            return Vec::new();
        }
        let lane = &there.lanes[to as usize];
        lane.unconfirmed
            .iter()
            .take(WINDOW)
            .map(|(number, frame)| (*number, frame.clone()))
            .collect()
    }

    /// A frame has arrived at an end that knows of the connection: all that can be read now, in
    /// order, and up to where everything has arrived.
    pub(super) fn arrive(
        &mut self,
        connection: u64,
        to: End,
        number: u64,
        frame: Frame,
        now: Time,
    ) -> (Vec<Frame>, u64) {
        let Some(there) = self.connections.get_mut(&connection) else {
            return (Vec::new(), 0);
        };
        there.heard[to as usize] = now;

        let lane = &mut there.lanes[to as usize];
        if number >= lane.arrived {
            lane.early.insert(number, frame);
        }

        let mut ready = Vec::new();
        while let Some(next) = lane.early.remove(&lane.arrived) {
            ready.push(next);
            lane.arrived += 1;
        }

        (ready, lane.arrived)
    }

    /// The frames towards `to` before this number have arrived, as the sender hears.
    pub(super) fn confirm(&mut self, connection: u64, to: End, before: u64, now: Time) {
        if let Some(there) = self.connections.get_mut(&connection) {
            there.heard[to.other() as usize] = now;
            there.lanes[to as usize]
                .unconfirmed
                .retain(|number, _| *number >= before);
        }
    }

    /// Whether an end has heard nothing for too long.
    pub(super) fn is_idle(&self, connection: u64, end: End, now: Time) -> bool {
        let there = self.connections.get(&connection);
        there.is_some_and(|there| {
            there.open[end as usize] && now.since(there.heard[end as usize]) >= IDLE
        })
    }

    /// Whether an end knows of the connection.
    pub(super) fn is_open(&self, connection: u64, end: End) -> bool {
        self.connections
            .get(&connection)
            .is_some_and(|there| there.open[end as usize])
    }

    /// The master learns of a connection, once.
    pub(super) fn accept(&mut self, connection: u64, now: Time) {
        if let Some(there) = self.connections.get_mut(&connection)
            && there.host.is_none()
        {
            there.open[End::Master as usize] = true;
            there.heard[End::Master as usize] = now;
        }
    }

    /// Whether nothing of the connection has arrived at the master yet.
    pub(super) fn is_new(&self, connection: u64) -> bool {
        let there = self.connections.get(&connection);
        there.is_some_and(|there| {
            there.lanes[End::Master as usize].arrived == 0 && !there.open[End::Master as usize]
        })
    }

    /// An end gives the connection up.
    pub(super) fn close(&mut self, connection: u64, end: End) {
        let Some(there) = self.connections.get_mut(&connection) else {
            return;
        };
        there.open[end as usize] = false;
        if there.open == [false; 2] {
            self.connections.remove(&connection);
        }
    }

    /// When a packet on its way arrives: not at all, once, or twice.
    pub(super) fn arrivals(
        &self,
        way: usize,
        to: End,
        now: Time,
        chance: &mut Chance,
    ) -> Vec<Time> {
        let Some(way) = self.ways.get(way) else {
            return Vec::new();
        };
        if now < way.cut[to as usize] || chance.percent(way.loss) {
            return Vec::new();
        }

        let copies = 1 + usize::from(chance.percent(way.doubles));
        let delay =
            |chance: &mut Chance| now + Span(chance.between(500, 1_000 * way.slowest_ms.max(1)));
        (0..copies).map(|_| delay(chance)).collect()
    }
}

/// A message's bytes.
pub(super) fn to_master(message: &ToMaster) -> Frame {
    Frame::Word(common::wire::encode(message).unwrap_or_default())
}

/// A message's bytes.
pub(super) fn to_worker(message: &ToWorker) -> Frame {
    Frame::Word(common::wire::encode(message).unwrap_or_default())
}

/// The message in these bytes.
pub(super) fn read<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let body = bytes.get(common::wire::frame::PREFIX..).unwrap_or_default();
    common::wire::decode(body).map_err(|bad| bad.to_string())
}
