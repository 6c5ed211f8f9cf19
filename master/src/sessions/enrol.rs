//! The master's side of enrolment: a token for a certificate.

use std::net::IpAddr;

use common::host::MAX_HOST_NAME;
use common::wire::enrol::{Enrol, EnrolReply};
use common::wire::{Refusal, RefusalCode, Versions};
use link::{Channel, LinkError};
use quinn::Connection;

use super::{stopped, within_deadline};
use crate::authority::read_request;
use crate::run::State;
use crate::store::{Peer, Redeemed};

/// One request, one reply.
pub(super) async fn serve(
    state: &State,
    connection: &Connection,
    from: IpAddr,
    wanted: Option<&str>,
) -> Result<(), LinkError> {
    let (tx, rx) = within_deadline(async { Ok(connection.accept_bi().await?) }).await?;
    let mut channel = Channel::new(tx, rx);
    let request = within_deadline(channel.rx.expect::<Enrol>()).await?;
    let (token, name) = (request.token, request.name.clone());
    let reply = match answer(state, request, from, wanted).await? {
        Ok(reply) => reply,
        Err(refusal) => {
            tracing::warn!(token, name, %from, why = refusal.message, "enrolment refused");
            state.refused(&from.to_string(), "enrol", &format!("token {token}, as {name}"), &refusal.message);
            EnrolReply::Refused(refusal)
        }
    };
    channel.tx.send(&reply).await?;
    channel.tx.finish();
    channel.tx.delivered().await;
    Ok(())
}

/// Whether a name can stand in lists, file names and logs.
fn good_name(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !name.is_empty() && name.len() <= MAX_HOST_NAME && name.chars().all(fine)
}

async fn answer(
    state: &State,
    request: Enrol,
    from: IpAddr,
    wanted: Option<&str>,
) -> Result<Result<EnrolReply, Refusal>, LinkError> {
    if let Err(refusal) = Versions::ours().agree(&request.versions) {
        return Ok(Err(refusal));
    }
    if request.csr.is_empty() {
        let now = state.core.ask(|core| Ok(core.now())).await.map_err(stopped)?;
        return Ok(Ok(EnrolReply::Here { versions: Versions::ours(), now }));
    }
    if !good_name(&request.name) {
        let what = "the name must be 1 to 64 letters, digits, dots, dashes or underscores";
        return Ok(Err(Refusal::new(RefusalCode::Invalid, what, "choose another with --name")));
    }
    let Ok((csr, key_hash)) = read_request(&request.csr) else {
        return Ok(Err(Refusal::new(RefusalCode::Invalid, "the certificate request is broken", "")));
    };
    // A few at a time: so that many guesses at once count as well as one after the other.
    let _turn = state.counters.gate.enter(uuid::Uuid::nil()).await;
    if let Err(wait) = state.counters.may_guess(from, state.clock.now()) {
        let what = "too many wrong join tokens came from this address";
        return Ok(Err(Refusal::new(RefusalCode::Unavailable, what, format!("try again in {wait}"))));
    }
    let Enrol { token, secret, name, .. } = request;
    let (address, expires) = (from.to_string(), state.authority.expiry());
    let redeemed = state.core.ask(move |core| core.redeem(&address, (token, &secret), &name, key_hash, expires)).await;
    let refuse = |why: &str| {
        let hint = "ask an admin for a new one: deskgrid token create --role ROLE";
        Ok(Err(Refusal::new(RefusalCode::NotAuthorised, why, hint)))
    };
    let Peer { id, role, name, .. } = match redeemed.map_err(stopped)? {
        Redeemed::Peer(peer) | Redeemed::Again(peer) => peer,
        Redeemed::Refused(why) => return refuse(why),
        Redeemed::Wrong => {
            state.counters.guessed(from, state.clock.now());
            return refuse("there is no such join token");
        }
    };
    let certificate =
        state.authority.issue(&csr.public_key, role, id).map_err(|e| LinkError::BadIdentity(e.to_string()))?;
    let ca = state.authority.wanted(wanted).to_vec();
    Ok(Ok(EnrolReply::Enrolled { certificate: certificate.to_vec(), ca, role, name }))
}
