//! The interface of the core: every `Ask`, a closed enum of plain values, and the `CoreReply` to
//! each. Sessions, periodic tasks and the simulator all come in here. `sessions::rights` decides
//! who may ask; each noun's own module does what is asked.

mod hosts;
mod jobs;
mod peers;
mod upkeep;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::identity::IdentityView;
use common::token::JoinToken;
use common::update::{UpdateKey, UpdatesView};
use common::view::{
    EstimatesView, ExplainView, HostExplainView, HostView, JobView, RunningView, ShareView,
    TokenView, WaitView,
};
use common::wire::Refusal;
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, JobSpec, Time};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use uuid::Uuid;

use super::{
    AddReply, ContentNeed, Core, Forgetting, Judged, LiveJob, RequestOutcome, SiteViews,
    SubmitReply,
};
use crate::numbers::GridNumbers;
use crate::store::{PeerStatus, Redeemed, StoreResult};

pub use hosts::HostAsk;
pub use jobs::{JobAsk, Submitting, TailAsk};
pub use peers::{PeerAsk, Redeeming, TokenWish};
pub use upkeep::UpkeepAsk;

/// A request to the core.
pub enum Ask {
    /// A request about jobs and their tasks.
    Job(JobAsk),
    /// A request about hosts, or a message of a worker.
    Host(HostAsk),
    /// About identities, join tokens and the audit log.
    Peer(PeerAsk),
    /// About the master's own upkeep.
    Upkeep(UpkeepAsk),
}

/// The hosts by number, with their names: shared, since a list of few tasks may be of ten thousand
/// hosts.
pub(crate) type HostNames = Arc<BTreeMap<HostId, String>>;

/// Declares the replies, each with the conversion from its value and back.
macro_rules! replies {
    ($($(#[doc = $doc:literal])* $name:ident($value:ty),)*) => {
        /// The core's reply to an [`Ask`], each kind of value by its own variant. Each ask says
        /// which one it gives.
        pub enum CoreReply {
            $($(#[doc = $doc])* $name($value),)*
        }

        $(
            impl From<$value> for CoreReply {
                fn from(value: $value) -> Self {
                    Self::$name(value)
                }
            }

            impl TryFrom<CoreReply> for $value {
                type Error = WrongReply;

                fn try_from(reply: CoreReply) -> Result<Self, WrongReply> {
                    match reply {
                        CoreReply::$name(value) => Ok(value),
                        _ => Err(WrongReply),
                    }
                }
            }
        )*
    };
}

replies! {
    /// It is done.
    Done(()),
    /// Whether something was changed, or is so.
    Whether(bool),
    /// The number of tasks, jobs or bytes.
    Count(u64),
    /// Numbers of jobs.
    Ids(IdSet),
    /// The outcome of a submission.
    Submitted(Box<Result<SubmitReply, Refusal>>),
    /// The spec of an open job, with the last of its tasks; `None` if the job is not open.
    OpenTo(Option<Box<JobSpec>>),
    /// The outcome of an addition to an open job.
    Added(Result<AddReply, Refusal>),
    /// The number of tasks that are left of a job that was closed; `None` if it is not open.
    Closed(Option<u64>),
    /// The number of tasks that are tried or computed again, or why none is.
    Retried(Result<u64, Refusal>),
    /// Tasks were requested, or why none is.
    Requested(Result<RequestOutcome, Refusal>),
    /// Each job with 1 if sharing it changed, else 0; `None` if there is no such user.
    Shared(Option<Vec<(JobId, u64)>>),
    /// Jobs as they are now.
    Jobs(Vec<JobView>),
    /// The state of a job's tasks, if it is not settled.
    Tasks((Option<LiveJob>, HostNames)),
    /// The reasons why tasks wait, if the job is not settled.
    Explained(Box<Option<(ExplainView, HostNames)>>),
    /// Why a host takes no more tasks, or the name that no host has.
    HostExplained(Result<Box<HostExplainView>, String>),
    /// The live attempts of a job.
    Running(Vec<RunningView>),
    /// Results that wait for the user's program, each with those before it.
    Undecided(Vec<(AttemptId, Vec<AttemptId>)>),
    /// The attempt whose output is to come, with its host's name.
    Tailed(Option<(AttemptId, String)>),
    /// The quality of estimates.
    Estimates(Vec<EstimatesView>),
    /// Shares of users, by name.
    UserShares(BTreeMap<String, ShareView>),
    /// Hosts; the error is a name that none has.
    Hosts(Result<Vec<HostView>, String>),
    /// The outcome of forgetting a host.
    Forgotten(Forgetting),
    /// The names of all hosts.
    Names(HostNames),
    /// The settings for workers, or why they were not changed.
    Site(Result<SiteViews, Refusal>),
    /// The rollouts of new programs, or why they were not changed.
    Updates(Result<UpdatesView, Refusal>),
    /// The key for updates that joining hosts learn, if there is one.
    UpdateKey(Option<UpdateKey>),
    /// The predicted wait for free hosts.
    Wait(WaitView),
    /// Whether a host needs some content.
    Needs(ContentNeed),
    /// A join token with its view.
    Token((JoinToken, TokenView)),
    /// Join tokens.
    Tokens(Vec<TokenView>),
    /// The outcome of redeeming a token.
    Redeemed(Redeemed),
    /// The standing of an identity.
    Standing(PeerStatus),
    /// The expiry of a certificate, if there is one.
    Expiry(Option<Time>),
    /// Identities; the error is a name that nobody has.
    Identities(Result<Vec<(Uuid, IdentityView)>, String>),
    /// The outcome of an approval or revocation.
    Judged(Judged),
    /// The incarnation, and the time by the master's clock.
    Present((Incarnation, Time)),
    /// The grid in numbers.
    Numbers(Box<GridNumbers>),
}

/// A reply is of another kind than its ask has: a mistake in this program.
#[derive(Debug)]
pub struct WrongReply;

/// An ask on its way to the core.
pub(super) struct Asking {
    pub(super) ask: Ask,
    /// Takes the reply, if a session waits for it.
    pub(super) tell: Option<oneshot::Sender<CoreReply>>,
    /// Given back once the core has considered the ask.
    pub(super) turn: Option<OwnedSemaphorePermit>,
}

impl Core {
    /// Handles an ask. Its changes are durable only after `finish_group`, and no reply is sent
    /// before.
    ///
    /// # Errors
    /// If the store fails; the core ends then.
    pub(crate) fn handle(&mut self, ask: impl Into<Ask>) -> StoreResult<CoreReply> {
        match ask.into() {
            Ask::Job(ask) => self.handle_job(ask),
            Ask::Host(ask) => self.handle_host(ask),
            Ask::Peer(ask) => self.handle_peer(ask),
            Ask::Upkeep(ask) => self.handle_upkeep(ask),
        }
    }
}
