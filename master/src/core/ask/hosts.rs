//! Requests to the core about hosts, and the messages of their workers.

use common::checkpoint::Saved;
use common::content::BlobHash;
use common::needs::Label;
use common::site::SiteScope;
use common::update::UpdateOrder;
use common::wire::worker::ToMaster;
use common::{AttemptId, HostId, Span};
use scheduler::Parting;

use super::{Ask, CoreReply};
use crate::core::{Connected, Core, SessionId};
use crate::store::StoreResult;

/// A request about hosts, or a message of a worker.
pub enum HostAsk {
    /// Opens the session of a worker that said `Hello`. Gives `Done`.
    Connected(Box<Connected>),
    /// Applies another message of a worker's session. Gives `Done`.
    Said(HostId, SessionId, ToMaster),
    /// Ends a session whose connection ended so. Gives `Done`.
    Disconnected(HostId, SessionId, Parting),
    /// Whether a checkpoint of this attempt can be of use, and is this host's to save. Gives
    /// `Whether`.
    TakesState(HostId, AttemptId),
    /// A complete checkpoint of an attempt is here, with these files. Gives `Done`.
    Saved(HostId, AttemptId, Saved, Vec<BlobHash>),
    /// A checkpoint was not saved, or not used. Gives `Done`.
    NotSaved {
        /// The host that says so.
        host: HostId,
        /// Its attempt.
        attempt: AttemptId,
        /// The reason.
        why: String,
        /// Whether the attempt started from scratch for it.
        from_scratch: bool,
    },
    /// Whether the host needs this content for its attempts. Gives `Needs`.
    Needs(HostId, BlobHash),
    /// The hosts of these names, without the attempts of others than `user`. Gives `Hosts`.
    Views {
        /// Names, or `host-N`.
        names: Vec<String>,
        /// The user whose attempts are shown; `None` for all users'.
        user: Option<String>,
    },
    /// Lists the next hosts, a portion of them; none is left after an empty one. Gives `Hosts`.
    Listed {
        /// The host before them.
        after: Option<HostId>,
        /// Only this user's attempts are shown, if one is named.
        user: Option<String>,
    },
    /// Why the host of this name takes no more tasks, of all users' jobs or of one's. Gives `HostExplained`.
    Explain(String, Option<String>),
    /// The names of all hosts. Gives `Names`.
    Names,
    /// The predicted wait until this many hosts are free. Gives `Wait`.
    Wait(u32),
    /// Starts or ends a drain. Gives `Hosts`.
    Drain(String, bool),
    /// Sets or clears a host's owner. Gives `Hosts`.
    Own(String, Option<String>),
    /// Leaves a revoked host out of lists. Gives `Forgotten`.
    Forget {
        /// The admin.
        by: String,
        /// The host's name, or `host-N`.
        name: String,
    },
    /// Changes the labels of a host. Gives `Hosts`.
    Label {
        /// The host's name, or `host-N`.
        host: String,
        /// Labels that it gets.
        add: Vec<Label>,
        /// Labels that it has no more.
        remove: Vec<Label>,
    },
    /// The settings for workers. Gives `Site`.
    Site,
    /// Stores or withdraws settings for workers. Gives `Site`, with the hosts for which these hold.
    SiteChange {
        /// The admin.
        by: String,
        /// The hosts for which they hold.
        scope: SiteScope,
        /// The settings; `None`: these hosts have none.
        text: Option<String>,
    },
    /// Shows or changes the rollouts of new programs, for this admin. Gives `Updates`.
    Update(String, Box<UpdateOrder>),
    /// The key for updates that joining hosts learn. Gives `UpdateKey`.
    UpdateKey,
    /// Takes the next steps of the rollouts. Gives `Done`.
    RollOn,
    /// Takes back attempts that hosts have not begun within this time. Gives `Done`.
    TakeBack(Span),
    /// Forgets old records of this host's availability. Gives `Done`.
    TrimAvailability(HostId),
}

impl From<HostAsk> for Ask {
    fn from(ask: HostAsk) -> Self {
        Ask::Host(ask)
    }
}

impl Core {
    pub(super) fn handle_host(&mut self, ask: HostAsk) -> StoreResult<CoreReply> {
        Ok(match ask {
            HostAsk::Connected(connected) => self.on_connected(*connected)?.into(),
            HostAsk::Said(host, session, message) => {
                self.on_said(host, session, message)?;
                // It may be benched, or no more, though its state is another one.
                self.tell_service(host);
                ().into()
            }
            HostAsk::Disconnected(host, session, how) => {
                self.on_disconnected(host, session, how)?.into()
            }
            HostAsk::TakesState(host, attempt) => self.takes_state(host, attempt)?.into(),
            HostAsk::Saved(host, attempt, saved, blobs) => {
                self.on_saved(host, attempt, saved, &blobs)?.into()
            }
            HostAsk::NotSaved {
                host,
                attempt,
                why,
                from_scratch,
            } => self.on_not_saved(host, attempt, &why, from_scratch)?.into(),
            HostAsk::Needs(host, hash) => self.needs_of(host, hash)?.into(),
            HostAsk::Views { names, user } => self.host_views(&names, user.as_deref()).into(),
            HostAsk::Listed { after, user } => Ok(self.hosts_after(after, user.as_deref())).into(),
            HostAsk::Explain(name, user) => self.explain_host(name, user.as_deref()).into(),
            HostAsk::Names => self.host_names().into(),
            HostAsk::Wait(hosts) => self.hosts_wait(hosts).into(),
            HostAsk::Drain(name, draining) => {
                self.change_host(name, |core, host| core.drain(host, draining))?
            }
            HostAsk::Own(name, owner) => {
                self.change_host(name, |core, host| core.own(host, owner))?
            }
            HostAsk::Forget { by, name } => self.forget_host(&by, &name)?.into(),
            HostAsk::Label { host, add, remove } => {
                self.change_host(host, |core, host| core.label(host, add, &remove))?
            }
            HostAsk::Site => Ok(self.site_views()).into(),
            HostAsk::SiteChange { by, scope, text } => self.change_site(&by, &scope, text)?.into(),
            HostAsk::Update(by, order) => self.order_update(&by, *order)?.into(),
            HostAsk::UpdateKey => self.update_key().into(),
            HostAsk::RollOn => self.roll_on()?.into(),
            HostAsk::TakeBack(within) => self.take_back(within)?.into(),
            HostAsk::TrimAvailability(host) => self.trim_availability(host)?.into(),
        })
    }

    /// Changes the host of this name, and shows it.
    fn change_host(
        &mut self,
        name: String,
        change: impl FnOnce(&mut Self, HostId) -> StoreResult<()>,
    ) -> StoreResult<CoreReply> {
        let Some(host) = self.find_host(&name) else {
            return Ok(CoreReply::Hosts(Err(name)));
        };
        change(self, host)?;
        Ok(self.host_views(&[name], None).into())
    }
}
