//! The communication between two ends of deskgrid: QUIC endpoints with mutual TLS, identities and
//! enrolment, framed streams, content transfer, and a client's session.
//!
//! The master decides who may do what; scheduling and running tasks are in other crates.

pub mod alive;
pub mod channel;
pub mod client;
pub mod content;
pub mod crowd;
pub mod door;
pub mod endpoint;
mod enrol;
pub mod error;
mod farewell;
pub mod files;
pub mod handshake;
pub mod identity;
pub mod listener;
pub mod masters;
mod networks;
pub mod peer;
pub mod proof;
pub mod renewal;
pub mod retry;
pub mod signing;
#[cfg(windows)]
mod socket;
pub mod tls;
mod transport;
mod tunnel;
mod unnamed;

pub use channel::{Channel, FrameReceiver, FrameSender};
pub use client::{Client, Replies};
pub use content::{BlobStore, Contents};
pub use crowd::{BoundedPlaces, TakenPlace, place_of};
pub use endpoint::{Carrier, Connection, Purpose, connect};
pub use enrol::{
    IdentityRequest, JoiningKey, Probe, Standby, coarse, enrol, enrol_as, probe, probe_on,
};
pub use error::{LinkError, is_full};
pub use farewell::Farewell;
pub use identity::{Identity, PeerName, Validity};
pub use listener::Listener;
pub use tunnel::{Cut, TunnelDoor, TunnelLimits};
pub use unnamed::UnnamedPuts;

/// Returns the present time by the wall clock, which people see and may set.
pub fn wall_clock() -> common::Time {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    common::Time(0) + common::Span::from(since)
}
