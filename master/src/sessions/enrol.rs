//! The master's side of enrolment: issues a certificate for a join token.

use std::net::IpAddr;

use common::host::MAX_HOST_NAME;
use common::token::Role;
use common::update::UpdateKey;
use common::wire::enrol::{Enrol, EnrolReply};
use common::wire::{Refusal, RefusalCode, UPDATE_VERSION, Versions};
use common::{Incarnation, Time};
use link::door::{SILENCE, hear_joiner};
use link::error::NOT_NOW;
use link::{Channel, LinkError};
use quinn::Connection;

use super::{MESSAGE_DEADLINE, stopped};
use crate::authority::read_request;
use crate::core::ask::{HostAsk, PeerAsk, Redeeming, UpkeepAsk};
use crate::run::SessionContext;
use crate::store::{Peer, Redeemed};

/// Serves one enrolment: one request, one reply.
pub(super) async fn serve(
    state: &SessionContext,
    connection: &Connection,
    from: IpAddr,
    wanted: Option<&str>,
) -> Result<(), LinkError> {
    let mut silent = state.counters.door.joins(from);
    let (mut channel, request) = match hear_joiner(connection, &mut silent).await? {
        Ok(heard) => heard,
        Err(why) => {
            state.refused(&from.to_string(), "enrol", "the master", why);
            connection.close(NOT_NOW, why.as_bytes());
            return Err(LinkError::Closed(why.to_owned()));
        }
    };

    drop(silent);
    reply(state, &mut channel, request, (from, wanted)).await
}

/// Serves one enrolment that came to a gateway, as [`serve`] does.
pub(super) async fn serve_through(
    state: &SessionContext,
    channel: &mut Channel,
    from: IpAddr,
    wanted: Option<&str>,
) -> Result<(), LinkError> {
    let request = tokio::time::timeout(SILENCE, channel.rx.expect::<Enrol>());
    let request = request
        .await
        .map_err(|_| LinkError::Closed("it did not say with which token it joins".to_owned()))??;
    reply(state, channel, request, (from, wanted)).await
}

/// Answers a joiner at this address.
async fn reply(
    state: &SessionContext,
    channel: &mut Channel,
    request: Enrol,
    (from, wanted): (IpAddr, Option<&str>),
) -> Result<(), LinkError> {
    let token = request.token;
    let name = request.name.clone();
    let reply = match answer(state, request, from, wanted).await? {
        Ok(reply) => reply,
        Err(refusal) => {
            state.refused(
                &from.to_string(),
                "enrol",
                &format!("token {token}, as {name}"),
                &refusal.message,
            );
            EnrolReply::Refused(refusal)
        }
    };

    channel.tx.send(&reply).await?;
    channel.tx.finish();

    // A joiner that does not read the answer has no certificate.
    let _ = tokio::time::timeout(MESSAGE_DEADLINE, channel.tx.delivered()).await;
    Ok(())
}

/// Whether a name is fit for lists, file names and logs: 1 to `MAX_HOST_NAME` ASCII letters,
/// digits, dots, dashes or underscores.
fn good_name(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !name.is_empty() && name.len() <= MAX_HOST_NAME && name.chars().all(fine)
}

/// The refusal of a token by a peer of the wrong role; the token can still be used.
fn unfit(role: Role) -> Refusal {
    let hint = match role {
        Role::Worker => "use it with: deskgrid worker start --master HOST:PORT",
        Role::Gateway => "use it with: deskgrid gateway start --master HOST:PORT",
        Role::Client | Role::Admin => "ask for one made with: deskgrid token create --role worker",
    };
    let what = format!("this token is for a {role}; it was not used up");
    Refusal::new(RefusalCode::NotAuthorised, what, hint)
}

async fn answer(
    state: &SessionContext,
    request: Enrol,
    from: IpAddr,
    wanted: Option<&str>,
) -> Result<Result<EnrolReply, Refusal>, LinkError> {
    if let Err(refusal) = Versions::ours().agree(&request.versions) {
        return Ok(Err(refusal));
    }

    if request.csr.is_empty() {
        let (incarnation, now): (Incarnation, Time) =
            state.core.ask(UpkeepAsk::Present).await.map_err(stopped)?;
        return Ok(Ok(EnrolReply::Here {
            versions: Versions::ours(),
            now,
            incarnation,
        }));
    }

    if !good_name(&request.name) {
        let what = "the name must be 1 to 64 letters, digits, dots, dashes or underscores";
        return Ok(Err(Refusal::new(
            RefusalCode::Invalid,
            what,
            "choose another with --name",
        )));
    }

    let Ok((csr, key_hash)) = read_request(&request.csr) else {
        return Ok(Err(Refusal::new(
            RefusalCode::Invalid,
            "the certificate request is broken",
            "",
        )));
    };

    // Few enrolments run at a time, so that parallel guesses count like successive ones.
    let _turn = state.counters.gate.enter(uuid::Uuid::nil()).await;
    if let Err(wait) = state.counters.may_guess(from, state.clock.now()) {
        let what = "too many wrong join tokens came from this address";
        return Ok(Err(Refusal::new(
            RefusalCode::Unavailable,
            what,
            format!("try again in {wait}"),
        )));
    }

    let redeeming = Redeeming {
        from: from.to_string(),
        token: request.token,
        secret: request.secret,
        name: request.name,
        key_hash,
        wanted: request.wanted,
        expires: state.authority.expiry(),
    };
    let redeemed = state.core.ask(PeerAsk::Redeem(redeeming)).await;
    let refuse = |why: &str| {
        let hint = "ask an admin for a new one: deskgrid token create --role ROLE";
        Ok(Err(Refusal::new(RefusalCode::NotAuthorised, why, hint)))
    };
    let Peer { id, role, name, .. } = match redeemed.map_err(stopped)? {
        Redeemed::Peer(peer) | Redeemed::Waiting(peer) | Redeemed::Again(peer) => peer,
        Redeemed::Unfit(role) => return Ok(Err(unfit(role))),
        Redeemed::Refused(why) => return refuse(why),
        Redeemed::Wrong => {
            state.counters.guessed(from, state.clock.now());
            return refuse("there is no such join token");
        }
    };

    let certificate = state
        .authority
        .issue(&csr.public_key, role, id)
        .map_err(|e| LinkError::BadIdentity(e.to_string()))?;
    let ca = state.authority.wanted(wanted).to_vec();

    let takes = role == Role::Worker && request.versions.max >= UPDATE_VERSION;
    let update_key: Option<UpdateKey> = if takes {
        state.core.ask(HostAsk::UpdateKey).await.map_err(stopped)?
    } else {
        None
    };
    if let Some(update_key) = update_key {
        return Ok(Ok(EnrolReply::EnrolledWithKey {
            certificate: certificate.to_vec(),
            ca,
            role,
            name,
            update_key,
        }));
    }

    Ok(Ok(EnrolReply::Enrolled {
        certificate: certificate.to_vec(),
        ca,
        role,
        name,
    }))
}
