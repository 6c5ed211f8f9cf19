//! Answers about hosts and what was recorded of their availability.

use std::collections::HashSet;

use common::host::MAX_HOST_NAME;
use common::needs::{Label, MAX_LABELS};
use common::site::SiteScope;
use common::update::{UpdateOrder, UpdatesView};
use common::view::{AvailabilityView, HostExplainView, HostView};
use common::wire::client::Reply;
use common::wire::{Refusal, RefusalCode};
use common::{HostId, Time};

use crate::core::ask::HostAsk;
use crate::core::{Forgetting, SiteViews};

use super::{Answered, Asker, NoAnswer, refuse};

/// The most recorded intervals of a host's availability in one message.
const RECORDED_PORTION: usize = 1_000;
/// The number of hosts that the core looks up by name in one turn: it looks for each among all hosts.
const NAMES_A_TURN: usize = 50;

fn no_host(name: &str) -> NoAnswer {
    refuse(
        RefusalCode::NotFound,
        format!("there is no host `{name}`"),
        "see `deskgrid host list`",
    )
}

/// Returns the names in their order, each only once.
fn each_once(mut names: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

impl Asker {
    pub(in crate::sessions) async fn hosts_wait(&self, hosts: u32) -> Answered<Reply> {
        Ok(Reply::HostsWait(self.core(HostAsk::Wait(hosts)).await?))
    }

    pub(in crate::sessions) async fn hosts(&self, names: Vec<String>) -> Answered<Vec<HostView>> {
        let user = self.only_own();
        // In portions, between which the core answers others.
        let mut all = Vec::new();
        if !names.is_empty() {
            for names in each_once(names).chunks(NAMES_A_TURN) {
                let (names, user) = (names.to_vec(), user.clone());
                let portion = self.hosts_of(HostAsk::Views { names, user }).await?;
                all.extend(portion);
            }
            return Ok(all);
        }

        loop {
            let after = all.last().map(|host: &HostView| host.id);
            let portion = self.hosts_after(after).await?;
            if portion.is_empty() {
                return Ok(all);
            }
            all.extend(portion);
        }
    }

    /// Returns the next hosts of a list of all, by number; none after the last.
    pub(in crate::sessions) async fn hosts_after(
        &self,
        after: Option<HostId>,
    ) -> Answered<Vec<HostView>> {
        let user = self.only_own();
        self.hosts_of(HostAsk::Listed { after, user }).await
    }

    /// Reads recorded intervals of a host's availability between two times, and the time from which
    /// to ask for more.
    pub(in crate::sessions) async fn availability(
        &self,
        host: &HostView,
        since: Time,
        until: Time,
    ) -> Answered<(AvailabilityView, Option<Time>)> {
        let id = host.id;
        let (known_since, stretches) = self
            .read(move |reader| reader.availability(id, since, until, RECORDED_PORTION))
            .await?;
        let next = stretches
            .last()
            .map(|last| last.end)
            .filter(|_| stretches.len() >= RECORDED_PORTION);
        let connected = host.cpu_availability.is_some();
        let (host, speed) = (host.facts.name.clone(), host.facts.speed);

        Ok((
            AvailabilityView {
                host,
                speed,
                known_since,
                connected,
                stretches,
            },
            next,
        ))
    }

    /// Returns why a host takes no more tasks of the jobs that the asker owns; of all jobs for an admin.
    pub(in crate::sessions) async fn explain_host(&self, name: String) -> Result<Reply, NoAnswer> {
        let ask = HostAsk::Explain(name, self.only_own());
        let view: Result<Box<HostExplainView>, String> = self.core(ask).await?;
        view.map(Reply::HostExplained)
            .map_err(|name| no_host(&name))
    }

    pub(in crate::sessions) async fn drain(
        &self,
        host: String,
        draining: bool,
    ) -> Answered<Vec<HostView>> {
        self.hosts_of(HostAsk::Drain(host, draining)).await
    }

    /// Leaves a revoked host out of lists from now on.
    pub(in crate::sessions) async fn forget_host(&self, name: String) -> Answered<Vec<HostView>> {
        let by = self.user.clone();
        let of = name.clone();
        match self.core(HostAsk::Forget { by, name: of }).await? {
            Forgetting::Done(view) => Ok(vec![*view]),
            Forgetting::Unknown => Err(no_host(&name)),
            Forgetting::MayReturn => Err(refuse(
                RefusalCode::Conflict,
                format!("`{name}` may come back: its identity was not revoked"),
                format!("deskgrid host revoke {name}"),
            )),
        }
    }

    /// Asks for hosts, or for a change of one.
    async fn hosts_of(&self, ask: HostAsk) -> Answered<Vec<HostView>> {
        let views: Result<Vec<HostView>, String> = self.core(ask).await?;
        views.map_err(|name| no_host(&name))
    }

    /// Returns the settings for workers, and which hosts have them.
    pub(in crate::sessions) async fn site(&self) -> Answered<SiteViews> {
        let views: Result<SiteViews, Refusal> = self.core(HostAsk::Site).await?;
        views.map_err(NoAnswer::Refused)
    }

    /// Stores or withdraws settings for workers.
    pub(in crate::sessions) async fn change_site(
        &self,
        scope: SiteScope,
        text: Option<String>,
    ) -> Answered<SiteViews> {
        let by = self.user.clone();
        let ask = HostAsk::SiteChange { by, scope, text };
        let views: Result<SiteViews, Refusal> = self.core(ask).await?;
        views.map_err(NoAnswer::Refused)
    }

    /// Shows or changes the rollouts of new programs.
    pub(in crate::sessions) async fn update(
        &self,
        order: Box<UpdateOrder>,
    ) -> Answered<UpdatesView> {
        let by = self.user.clone();
        let views: Result<UpdatesView, Refusal> = self.core(HostAsk::Update(by, order)).await?;
        views.map_err(NoAnswer::Refused)
    }

    pub(in crate::sessions) async fn own(
        &self,
        host: String,
        owner: Option<String>,
    ) -> Answered<Vec<HostView>> {
        if owner
            .as_ref()
            .is_some_and(|owner| owner.is_empty() || owner.len() > MAX_HOST_NAME)
        {
            return Err(refuse(
                RefusalCode::Invalid,
                format!("an owner's name has 1 to {MAX_HOST_NAME} bytes"),
                "",
            ));
        }

        self.hosts_of(HostAsk::Own(host, owner)).await
    }

    pub(in crate::sessions) async fn label(
        &self,
        host: String,
        add: Vec<Label>,
        remove: Vec<Label>,
    ) -> Answered<Vec<HostView>> {
        let too_many = || {
            refuse(
                RefusalCode::Invalid,
                format!("a host has {MAX_LABELS} labels at most"),
                "take some away first: deskgrid host label HOST --remove LABEL",
            )
        };
        if add.len() > MAX_LABELS {
            return Err(too_many());
        }

        let wanted = add.clone();
        let ask = HostAsk::Label { host, add, remove };
        let views = self.hosts_of(ask).await?;
        let whole = |view: &HostView| wanted.iter().all(|label| view.labels.contains(label));
        if views.iter().all(whole) {
            Ok(views)
        } else {
            Err(too_many())
        }
    }
}
