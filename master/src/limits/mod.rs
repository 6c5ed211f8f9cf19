//! Limits on the master's resources that one peer may take, so that it cannot starve the rest:
//! rates, amounts and turns. The mechanisms are pure, in modules of their own; here they are put
//! together for the sessions.
//!
//! The limits of QUIC (streams and windows) are set with the endpoint, that of a message with its
//! frame; the limit of a file is `Config::max_blob_bytes`.

mod bucket;
mod files;
mod log;

use std::net::IpAddr;
use std::sync::Mutex;

use api::{Gate, Turn};
use common::settings::ConfigDuration;
use common::{HostId, Span, Time};
use link::door::ConnectionDoor;
use link::place_of;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::locked;

pub(crate) use bucket::{Buckets, Rate};
pub(crate) use files::FileTransfers;
pub(crate) use log::{Attempted, Coalescer};

/// The limits of one peer, and of all peers together. Listed in `configs/master.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Connections of all peers together.
    pub connections: u32,
    /// Connections of one user.
    pub connections_per_user: u32,
    /// Slots of one host, whatever it says that it has.
    pub slots_per_host: u32,
    /// Requests of one user per second, on average; a user that asks more often waits. A request
    /// that looks at many jobs counts as many.
    pub requests_per_s: u32,
    /// Requests of one user that are being answered at a time; the others wait in a queue in which
    /// every user has a turn.
    pub requests_at_a_time: u32,
    /// The time that a client may take to read the next piece of an answer, before the connection
    /// is closed.
    pub answer_patience: ConfigDuration,
    /// Jobs of one user that are not settled.
    pub open_jobs_per_user: u32,
    /// Bytes that the specs of one user's unsettled jobs take together.
    pub open_spec_bytes_per_user: u64,
    /// Bytes that the spec of one job takes.
    pub spec_bytes: u64,
    /// Bytes kept of outputs that nobody has requested, of all users together. The oldest are
    /// removed first.
    pub unrequested_bytes: u64,
    /// Bytes kept of unrequested outputs of one user.
    pub unrequested_bytes_per_user: u64,
    /// Bytes of files that one user has uploaded and that no job of that user needs (yet); at most
    /// half of the room.
    pub unused_bytes_per_user: u64,
    /// Events kept for followers. The oldest are removed first.
    pub events: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            connections_per_user: 256,
            slots_per_host: 512,
            requests_per_s: 200,
            requests_at_a_time: 8,
            answer_patience: ConfigDuration::from_secs(30),
            open_jobs_per_user: 10_000,
            open_spec_bytes_per_user: 512 << 20,
            spec_bytes: 128 << 20,
            unrequested_bytes: 16 << 30,
            unrequested_bytes_per_user: 4 << 30,
            unused_bytes_per_user: 256 << 30,
            events: 5_000_000,
        }
    }
}

/// Requests of all users that are being answered at a time.
const REQUESTS: usize = 64;
/// Answers of all users that are on their way at a time: made, and not yet read by the client.
const ANSWERS: usize = 256;
/// Answers of one user that are on their way at a time.
const ANSWERS_OF_ONE: usize = 32;
/// Files of one user that are on their way at a time, to the master or from it.
const CONTENTS_OF_ONE: usize = 64;
/// Submissions of all users, and of one, that are read from content and checked at a time: each may take
/// some hundred MiB of memory.
const DESCRIPTIONS: usize = 2;
const DESCRIPTIONS_OF_ONE: usize = 1;
/// The burst of requests that a user may send at once, in seconds of `requests_per_s`.
const BURST_S: f64 = 10.0;
/// The most keys in each table with an entry of their own; those beyond share one entry.
const TOLD_APART: usize = 10_000;
/// Wrong tokens from one address: five at once, then one in twelve seconds.
const GUESSES: Rate = Rate {
    per_s: 1.0 / 12.0,
    burst: 5.0,
};
/// Wrong tokens from all addresses together.
const ALL_GUESSES: Rate = Rate {
    per_s: 5.0,
    burst: 100.0,
};
/// Renewals of one identity: ten at once, then one in a minute.
const RENEWALS: Rate = Rate {
    per_s: 1.0 / 60.0,
    burst: 10.0,
};

/// Content that a host asks for and does not need: so many times at once, then five in a second.
const ASKED_IN_VAIN: Rate = Rate {
    per_s: 5.0,
    burst: 500.0,
};
/// Hosts for which lists of files are read at a time, to see whether a host needs one of the files.
const LISTS: usize = 4;

/// The counters of all limits while the master runs.
pub(crate) struct Counters {
    guesses: Mutex<(Buckets<IpAddr>, Buckets<()>)>,
    renewals: Mutex<Buckets<Uuid>>,
    requests: Mutex<Buckets<Uuid>>,
    in_vain: Mutex<Buckets<HostId>>,
    /// The queue of requests, `REQUESTS` of them at a time.
    pub(crate) gate: Gate,
    /// The queue of answers on their way, `ANSWERS` of them at a time.
    pub(crate) answers: Gate,
    /// The queue of users' content streams, `FileTransfers::contents` of them at a time.
    pub(crate) contents: Gate,
    /// The queue of submissions that are read from content, `DESCRIPTIONS` of them at a time.
    pub(crate) descriptions: Gate,
    /// The queue of hosts for which lists of files are read, `LISTS` of them at a time.
    lists: Gate,
    /// The admission of connections.
    pub(crate) door: ConnectionDoor,
    log: Mutex<Coalescer>,
}

impl Counters {
    pub(crate) fn new(limits: &Limits, files: &FileTransfers) -> Self {
        let per_s = f64::from(limits.requests_per_s.max(1));
        let requests = Rate {
            per_s,
            burst: per_s * BURST_S,
        };

        Self {
            guesses: Mutex::new((
                Buckets::new(GUESSES, TOLD_APART),
                Buckets::new(ALL_GUESSES, 1),
            )),
            renewals: Mutex::new(Buckets::new(RENEWALS, TOLD_APART)),
            requests: Mutex::new(Buckets::new(requests, TOLD_APART)),
            in_vain: Mutex::new(Buckets::new(ASKED_IN_VAIN, TOLD_APART)),
            gate: Gate::new(REQUESTS, limits.requests_at_a_time.max(1) as usize),
            answers: Gate::new(ANSWERS, ANSWERS_OF_ONE),
            contents: Gate::new(files.contents, CONTENTS_OF_ONE),
            descriptions: Gate::new(DESCRIPTIONS, DESCRIPTIONS_OF_ONE),
            lists: Gate::new(LISTS, 1),
            door: ConnectionDoor::new(limits.connections as usize),
            log: Mutex::default(),
        }
    }

    /// Whether a token from this address may be tried now; the error is the time until then.
    pub(crate) fn may_guess(&self, from: IpAddr, now: Time) -> Result<(), Span> {
        let guesses = locked(&self.guesses);
        match guesses
            .0
            .wait(&place_of(from), now)
            .max(guesses.1.wait(&(), now))
        {
            Span::ZERO => Ok(()),
            wait => Err(wait),
        }
    }

    /// Counts a wrong token from this address.
    pub(crate) fn guessed(&self, from: IpAddr, now: Time) {
        let mut guesses = locked(&self.guesses);
        guesses.0.take(place_of(from), now);
        guesses.1.take((), now);
    }

    /// Whether this identity may renew its certificate now; the error is the time until then.
    pub(crate) fn may_renew(&self, id: Uuid, now: Time) -> Result<(), Span> {
        let mut renewals = locked(&self.renewals);
        match renewals.wait(&id, now) {
            Span::ZERO => {
                renewals.take(id, now);
                Ok(())
            }
            wait => Err(wait),
        }
    }

    /// The time that this user's request has to wait. Counts the request.
    pub(crate) fn pace(&self, id: Uuid, now: Time) -> Span {
        let mut requests = locked(&self.requests);
        let wait = requests.wait(&id, now);
        requests.take(id, now);
        wait
    }

    /// The time until this host may ask for content: a while after it has asked much in vain.
    pub(crate) fn may_ask_for_content(&self, host: HostId, now: Time) -> Span {
        locked(&self.in_vain).wait(&host, now)
    }

    /// Counts content that this host has asked for and does not need.
    pub(crate) fn asked_in_vain(&self, host: HostId, now: Time) {
        locked(&self.in_vain).take(host, now);
    }

    /// Waits until lists of files may be read for this host.
    pub(crate) async fn lists_turn(&self, host: HostId) -> Turn {
        let key = Uuid::from_u128(u128::from(host.0));
        self.lists.enter(key).await
    }

    /// Notes a refusal, and returns the entries to write into the audit log now.
    pub(crate) fn note(&self, now: Time, attempted: Attempted) -> Vec<crate::store::AuditEntry> {
        locked(&self.log).note(now, attempted)
    }

    /// The entries for repeats since the last call, to be written now.
    pub(crate) fn repeats(&self, now: Time) -> Vec<crate::store::AuditEntry> {
        locked(&self.log).turn(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_asks_for_content_in_vain_waits_and_no_other_does() {
        let counters = Counters::new(&Limits::default(), &FileTransfers::raise());
        let pc = HostId(1);
        let now = Time(1_700_000_000_000_000);
        for _ in 0..500 {
            assert_eq!(counters.may_ask_for_content(pc, now), Span::ZERO);
            counters.asked_in_vain(pc, now);
        }
        assert_eq!(
            counters.may_ask_for_content(pc, now),
            Span::from_millis(200)
        );
        assert_eq!(counters.may_ask_for_content(HostId(2), now), Span::ZERO);

        // Requests that were already being answered then count like those that come one by one.
        for _ in 0..49 {
            counters.asked_in_vain(pc, now);
        }
        assert_eq!(counters.may_ask_for_content(pc, now), Span::from_secs(10));
        let later = now + Span::from_secs(10);
        assert_eq!(counters.may_ask_for_content(pc, later), Span::ZERO);
    }
}
