//! Answers to clients: [`Asker`] asks the core about live jobs and hosts, and the store about
//! settled ones.

mod explain;
mod hosts;
mod jobs;
mod masters;
mod peers;
mod tasks;
mod work;

pub(super) use explain::shortened;
pub(super) use jobs::{JobListing, chosen, few_labels};

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use api::Turn;
use common::token::Role;
use common::view::EstimatesView;
use common::wire::client::Reply;
use common::wire::{Refusal, RefusalCode};
use common::{JobId, Span};
use link::LinkError;
use tokio::sync::watch;
use uuid::Uuid;

use super::rights::Right;
use super::unshared::Unshared;
use crate::core::NoReply;
use crate::core::ask::{Ask, CoreReply, JobAsk, UpkeepAsk};
use crate::run::SessionContext;
use crate::store::{Peer, StoreError, StoreResult};

/// The turns that a request has for free; each further one counts as a request of its own.
const TURNS: u32 = 4;
/// The most jobs that one turn looks at.
const JOBS_A_TURN: u32 = 100;

/// A client together with its present request.
pub(super) struct Asker {
    pub(super) user: String,
    id: Uuid,
    role: Role,
    right: Right,
    state: Arc<SessionContext>,
    /// The turns that the request has had.
    turns: AtomicU32,
}

/// The reason why a request gets no answer.
pub(super) enum NoAnswer {
    /// The client is told the refusal.
    Refused(Refusal),
    /// The client's stream is gone.
    Link(LinkError),
}

/// The outcome of a request.
pub(super) type Answered<T> = Result<T, NoAnswer>;

impl From<LinkError> for NoAnswer {
    fn from(error: LinkError) -> Self {
        NoAnswer::Link(error)
    }
}

impl From<NoReply> for NoAnswer {
    fn from(why: NoReply) -> Self {
        NoAnswer::Refused(why.into())
    }
}

impl From<StoreError> for NoAnswer {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the store could not be read");
        if let StoreError::Rotten { .. } = &error {
            let hint = "tell the admin (`deskgrid master check` says what else is damaged); other tasks can be had by number";
            return refuse(RefusalCode::Conflict, error.to_string(), hint);
        }
        refuse(
            RefusalCode::Unavailable,
            error.to_string(),
            "see the master's log",
        )
    }
}

pub(super) fn refuse(
    code: RefusalCode,
    what: impl Into<String>,
    hint: impl Into<String>,
) -> NoAnswer {
    NoAnswer::Refused(Refusal::new(code, what, hint))
}

pub(super) fn no_job(job: JobId) -> NoAnswer {
    refuse(
        RefusalCode::NotFound,
        format!("there is no job {job}"),
        "see `deskgrid job list --all`",
    )
}

impl Asker {
    pub(super) fn new(state: Arc<SessionContext>, peer: &Peer, right: Right) -> Self {
        Self {
            user: peer.name.clone(),
            id: peer.id,
            role: peer.role,
            right,
            state,
            turns: AtomicU32::new(0),
        }
    }

    /// The state that all sessions share.
    pub(super) fn state(&self) -> &SessionContext {
        &self.state
    }

    /// Waits until this user may ask again, at `Limits::requests_per_s`.
    pub(super) async fn pace(&self) {
        let wait = self.state.counters.pace(self.id, self.state.clock.now());
        if wait > Span::ZERO {
            tokio::time::sleep(wait.into()).await;
        }
    }

    /// Waits for the right to ask the core or the store once. After `TURNS` turns each further one
    /// waits as a request of its own does.
    async fn turn(&self) -> Turn {
        if self.turns.fetch_add(1, Ordering::Relaxed) >= TURNS {
            self.pace().await;
        }
        self.state.counters.gate.enter(self.id).await
    }

    /// Waits for the right to have one answer on its way, at `Counters::answers`.
    pub(super) async fn answer_turn(&self) -> Turn {
        self.state.counters.answers.enter(self.id).await
    }

    /// Writes a refusal into the audit log.
    pub(super) fn refused(&self, what: &'static str, subject: &str, why: &str) {
        self.state.refused(&self.user, what, subject, why);
    }

    /// Counters that grow whenever a job changes and whenever one settles.
    pub(super) fn counters(&self) -> (watch::Receiver<u64>, watch::Receiver<u64>) {
        (
            self.state.core.changed.clone(),
            self.state.core.settled.clone(),
        )
    }

    /// Returns an `Unshared` that tells of shares with this user that end from now on. Whoever looks at jobs for long takes it
    /// before the right to look is checked.
    pub(super) fn unshared(&self) -> Unshared {
        Unshared::new(self.state.core.unshared.resubscribe(), self.only_own())
    }

    /// The sequence number of the newest event that is durable.
    pub(super) fn newest_event(&self) -> watch::Receiver<u64> {
        self.state.core.newest_event.clone()
    }

    /// Sends an ask to the core, in this user's turn. It is refused while the store does not answer for long.
    pub(super) async fn core<T: TryFrom<CoreReply>>(&self, ask: impl Into<Ask>) -> Answered<T> {
        let _turn = self.turn().await;
        Ok(self.state.for_people.ask(ask).await?)
    }

    /// Reads the store beside the core, on a thread that may block.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&crate::store::Reader) -> StoreResult<T> + Send + 'static,
    ) -> Answered<T> {
        let reader = self.state.reader.clone();
        let _turn = self.turn().await;
        match tokio::task::spawn_blocking(move || work(&reader)).await {
            Ok(read) => Ok(read?),
            Err(_) => Err(NoReply::Stopped.into()),
        }
    }

    /// Refuses a request of `Right::Administer` unless an admin asks.
    pub(super) fn authorise(&self) -> Answered<()> {
        match (self.right, self.role) {
            (Right::Administer(what), role) if role != Role::Admin => {
                let hint = "admin commands work on the master with its --dir";
                Err(refuse(
                    RefusalCode::NotAuthorised,
                    format!("{what} needs the role admin, not {role}"),
                    hint,
                ))
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn welcome(&self, version: u16) -> Answered<Reply> {
        let (incarnation, now) = self.core(UpkeepAsk::Present).await?;
        Ok(Reply::Welcome {
            version,
            role: self.role,
            user: self.user.clone(),
            incarnation,
            now,
        })
    }

    /// The user whose account is looked at: `user` or, if none is named, the client's own. `None`
    /// means every user's, for an admin.
    pub(super) fn account_of(&self, user: Option<String>) -> Option<String> {
        user.or_else(|| self.only_own())
    }

    /// The accuracy of estimates: the client's own or, for an admin, those of `user` or of all
    /// users.
    pub(super) async fn estimates(&self, user: Option<String>) -> Answered<Vec<EstimatesView>> {
        let user = self.account_of(user);
        self.core(JobAsk::Estimates(user)).await
    }
}
