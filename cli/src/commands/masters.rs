//! Executes `deskgrid master status` and `deskgrid master hand-over`: which masters a grid has, and
//! that another one takes the store.

use std::time::{Duration, Instant};

use common::Incarnation;
use common::view::{MastersView, StandbyView};
use common::wire::client::{Reply, Request};
use link::client::unexpected;
use link::{Carrier, Client, Identity, IdentityRequest, LinkError, Probe, masters};
use serde::Serialize;

use super::Context;
use crate::failure::{Exit, Failure};
use crate::output::table::Rows;
use crate::output::when;
use crate::session::Session;

/// The time that each master may take to answer.
const ANSWER: Duration = Duration::from_secs(3);
/// The time in which another master has to answer after a hand-over, and the pause between two tries.
const HANDED_OVER: Duration = Duration::from_secs(30);
/// The time that one of several may take to say whether it is active.
const LOOK: Duration = Duration::from_secs(1);
/// The time for which only the masters that stood by are asked.
const TAKEN_BY_ANOTHER: Duration = Duration::from_secs(8);
const AGAIN: Duration = Duration::from_millis(20);
/// The state of a master that waits for the store.
const STANDS_BY: &str = "stands by";

/// One master, as `master status` found it.
#[derive(Debug, Serialize)]
struct MasterJson {
    address: String,
    /// `active`, `stands by` or `silent`.
    state: &'static str,
    incarnation: Option<Incarnation>,
    /// The reason why it does not answer, or could not take over.
    trouble: Option<String>,
}

/// The active master in its own words.
#[derive(Debug, Serialize)]
struct ActiveJson {
    address: String,
    incarnation: Incarnation,
    since: String,
    store: String,
    standbys: Vec<StandbyJson>,
}

#[derive(Debug, Serialize)]
struct StandbyJson {
    name: String,
    address: String,
    /// The seconds since it last said that it stands by.
    said_s: f64,
}

#[derive(Debug, Serialize)]
struct StatusJson {
    masters: Vec<MasterJson>,
    active: Option<ActiveJson>,
}

#[derive(Debug, Serialize)]
struct HandedOverJson<'a> {
    before: &'a str,
    active: &'a str,
    incarnation: Incarnation,
    /// The seconds from the request until the other master answered.
    took_s: f64,
}

/// Shows the masters.
pub(super) async fn status(context: &Context) -> Result<Exit, Failure> {
    let identity = Identity::load(&context.state.client())?;
    let asker = IdentityRequest::of(&identity)?;
    let mut found = Vec::new();
    for address in masters::addresses(&identity.link.master) {
        found.push(described(address, ask(&asker, address).await));
    }

    let view = match Session::open(&context.state).await {
        Ok(session) => {
            let view = masters_of(session.client(), &Request::Masters).await;
            session.close().await;
            Some(view?)
        }
        // What each of them said is the answer.
        Err(failure) if failure.passing() => None,
        Err(failure) => return Err(failure),
    };
    let exit = if view.is_some() {
        Exit::Well
    } else {
        Exit::Unreachable
    };

    let document = StatusJson {
        masters: found,
        active: view.as_ref().map(active),
    };
    let color = context.out.color();
    let text = || status_text(&document, view.as_ref(), color);
    let active = || view.iter().map(|view| view.address.clone()).collect();
    context.show(&document, text, active)?;
    Ok(exit)
}

/// Asks a master by either way who it is.
async fn ask(asker: &IdentityRequest, address: &str) -> Result<Probe, LinkError> {
    let mut last = LinkError::Unreachable {
        master: address.to_owned(),
        why: format!("no answer within {ANSWER:?}"),
    };
    for way in [Carrier::Udp, Carrier::Tcp] {
        match tokio::time::timeout(ANSWER, asker.probe_at(address, way)).await {
            Ok(Ok(probe)) => return Ok(probe),
            Ok(Err(error)) => last = error,
            Err(_) => {}
        }
    }
    Err(last)
}

fn described(address: &str, probe: Result<Probe, LinkError>) -> MasterJson {
    let (state, incarnation, trouble) = match probe {
        Ok(Probe {
            standby: Some(standby),
            ..
        }) => (STANDS_BY, None, standby.trouble),
        Ok(probe) => ("active", Some(probe.incarnation), None),
        Err(LinkError::Unreachable { why, .. }) => ("silent", None, Some(why)),
        Err(error) => ("silent", None, Some(error.to_string())),
    };
    MasterJson {
        address: address.to_owned(),
        state,
        incarnation,
        trouble,
    }
}

fn active(view: &MastersView) -> ActiveJson {
    let standby = |one: &StandbyView| StandbyJson {
        name: one.name.clone(),
        address: one.address.clone(),
        said_s: one.said.secs(),
    };
    ActiveJson {
        address: view.address.clone(),
        incarnation: view.incarnation,
        since: when::iso(view.since),
        store: view.store.clone(),
        standbys: view.standbys.iter().map(standby).collect(),
    }
}

fn status_text(document: &StatusJson, view: Option<&MastersView>, color: bool) -> String {
    let mut rows = Rows::new(&["MASTER", "STATE", "INCARNATION", "NOTE"], color);
    for master in &document.masters {
        rows.add([
            master.address.clone(),
            master.state.to_owned(),
            master
                .incarnation
                .map_or_else(String::new, |incarnation| incarnation.to_string()),
            master.trouble.clone().unwrap_or_default(),
        ]);
    }
    let mut text = rows.text("");

    let Some(view) = view else {
        let standbys = || {
            let masters = document.masters.iter();
            masters.filter(|master| master.state == STANDS_BY)
        };
        text.push_str(if standbys().any(|master| master.trouble.is_some()) {
            "no master answers as the active one, and none takes over: their database does not answer\n"
        } else if standbys().next().is_some() {
            "no master is active: one that stands by takes over within seconds; see their logs\n"
        } else {
            "no master answers: is it running, and is its UDP port open? start it with: deskgrid master start\n"
        });
        return text;
    };
    let since = when::date(view.since);
    text.push_str(&format!(
        "active since {since}: {}, with its store in {}\n",
        view.address, view.store
    ));
    for one in &view.standbys {
        text.push_str(&format!(
            "stands by: {} ({}), as it said {} ago\n",
            one.address, one.name, one.said
        ));
    }
    text
}

/// Has another master take the store, and waits until that answers.
pub(super) async fn hand_over(context: &Context) -> Result<Exit, Failure> {
    let session = Session::open(&context.state).await?;
    let before = masters_of(session.client(), &Request::Masters).await?;
    let begun = Instant::now();
    match masters_of(session.client(), &Request::HandOver).await {
        Ok(_) => {}
        // It ends its connections as soon as another one may have the store.
        Err(failure) if failure.passing() => {}
        Err(failure) => return Err(failure),
    }

    let identity = Identity::load(&context.state.client())?;
    let after = follower(identity, &before, begun).await?;
    if after.address == before.address {
        let what = "no other master took the store: the same one has it again";
        let hint = "see the logs of those that stand by; deskgrid master status lists them";
        return Err(Failure::error("not-taken", what, hint));
    }
    let took = begun.elapsed();

    let document = HandedOverJson {
        before: &before.address,
        active: &after.address,
        incarnation: after.incarnation,
        took_s: took.as_secs_f64(),
    };
    let text = || {
        format!(
            "the master at {} is active, {:.2} s after it was asked for; the one at {} stands by\n",
            after.address,
            took.as_secs_f64(),
            before.address
        )
    };
    context.show(&document, text, || vec![after.address.clone()])
}

/// Waits for the master that is active after the one before, and asks it.
async fn follower(
    mut identity: Identity,
    before: &MastersView,
    begun: Instant,
) -> Result<MastersView, Failure> {
    let asker = IdentityRequest::of(&identity)?;
    let others = before.standbys.iter().map(|one| &*one.address);
    let all: Vec<String> = others
        .chain(masters::addresses(&identity.link.master))
        .map(str::to_owned)
        .collect();

    loop {
        for address in &all {
            // Where none of the others takes the store, the same one has it again.
            if *address == before.address && begun.elapsed() < TAKEN_BY_ANOTHER {
                continue;
            }
            let probe = tokio::time::timeout(LOOK, asker.probe_at(address, Carrier::Udp)).await;
            let Ok(Ok(probe)) = probe else { continue };
            if probe.standby.is_none() && probe.incarnation > before.incarnation {
                address.clone_into(&mut identity.link.master);
                let client = crate::session::connect(&identity).await?;
                let view = masters_of(&client, &Request::Masters).await;
                client.close().await;
                return view;
            }
        }
        if begun.elapsed() > HANDED_OVER {
            let why = "none of the masters has become active".to_owned();
            return Err(LinkError::Closed(why).into());
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn masters_of(client: &Client, request: &Request) -> Result<MastersView, Failure> {
    match client.ask(request).await?.pop() {
        Some(Reply::Masters(view)) => Ok(*view),
        other => Err(unexpected(other.as_ref()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standby_is_promised_only_where_one_stands_by() {
        let told = |state| {
            let master = MasterJson {
                address: "h:1".to_owned(),
                state,
                incarnation: None,
                trouble: None,
            };
            let document = StatusJson {
                masters: vec![master],
                active: None,
            };
            status_text(&document, None, false)
        };
        assert!(told("silent").contains("start it with: deskgrid master start"));
        assert!(told(STANDS_BY).contains("one that stands by takes over within seconds"));
    }
}
