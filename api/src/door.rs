//! The door behind which the grid lies: whoever serves the API answers its requests here, the
//! master in its own process and a gateway over its connection to the master.

use std::pin::Pin;

use axum::http::HeaderMap;
use bytes::Bytes;
use common::BlobRef;
use common::content::BlobHash;
use common::token::Role;
use common::wire::Refusal;
use common::wire::client::{Reply, Request};
use tokio::sync::mpsc;

/// Something that is to come.
pub type Coming<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The replies to one request, as they come; the answer is given up when this is dropped.
pub type Replies = mpsc::Receiver<Result<Reply, Refusal>>;

/// Content, piece by piece.
pub type Pieces = mpsc::Receiver<Result<Bytes, Refusal>>;

/// Content that was found.
#[derive(Debug)]
pub struct FoundContent {
    /// Its whole length.
    pub size: u64,
    /// The bytes that were asked for.
    pub pieces: Pieces,
}

/// The one who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    /// The user's name.
    pub user: String,
    /// The user's rights.
    pub role: Role,
    /// The number by which the door knows the user.
    pub id: uuid::Uuid,
    /// The access token that let the user in, if one did: answers end when it does not count any
    /// more.
    pub token: Option<u32>,
}

/// The grid, for those who were let in.
pub trait Door: Send + Sync + 'static {
    /// Asks the master. The first refusal ends the replies.
    fn ask(&self, who: &Who, request: Request) -> Replies;

    /// Fetches content from this byte on, with its whole length.
    fn get(
        &self,
        who: &Who,
        hash: BlobHash,
        from: u64,
    ) -> Coming<'_, Result<FoundContent, Refusal>>;

    /// Sends content, of which the hash is verified.
    fn put(&self, who: &Who, blob: BlobRef, content: Pieces) -> Coming<'_, Result<(), Refusal>>;
}

/// The entrance of one server: whom it is for, and who may pass.
pub trait Entrance: Send + Sync + 'static {
    /// Whether a request to this host (its `Host`) is meant for this server.
    fn is_ours(&self, host: &str) -> bool;

    /// Whether only the programs of one user can connect, so that none has to prove anything.
    fn is_private(&self) -> bool {
        false
    }

    /// Returns the one whom the headers prove; `None` without a proof that counts.
    fn admit<'a>(&'a self, headers: &'a HeaderMap) -> Coming<'a, Option<Who>>;

    /// Exchanges a ticket, which counts once, for the value of `Set-Cookie`; `None` without tickets
    /// here.
    fn exchange(&self, _ticket: &str) -> Option<String> {
        None
    }

    /// Whether people get in with a token that they paste into a form.
    fn takes_tokens(&self) -> bool {
        false
    }

    /// Whether what browsers send is encrypted on its way.
    fn is_encrypted(&self) -> bool {
        false
    }

    /// Says how one gets in here.
    fn way_in(&self) -> &'static str;
}
