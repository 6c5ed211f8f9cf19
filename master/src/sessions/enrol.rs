//! The master's side of enrolment: a token for a certificate.

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
pub(super) async fn serve(state: &State, connection: &Connection) -> Result<(), LinkError> {
    let (tx, rx) = within_deadline(async { Ok(connection.accept_bi().await?) }).await?;
    let mut channel = Channel::new(tx, rx);
    let request = within_deadline(channel.rx.expect::<Enrol>()).await?;
    let reply = match answer(state, request).await? {
        Ok(reply) => reply,
        Err(refusal) => EnrolReply::Refused(refusal),
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

async fn answer(state: &State, request: Enrol) -> Result<Result<EnrolReply, Refusal>, LinkError> {
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
    let Enrol { token, secret, name, .. } = request;
    let redeemed = state.core.ask(move |core| core.redeem(token, &secret, &name, key_hash)).await.map_err(stopped)?;
    let Peer { id, role, name, .. } = match redeemed {
        Redeemed::Peer(peer) => peer,
        Redeemed::Refused(why) => {
            let hint = "ask an admin for a new one: deskgrid token create --role ROLE";
            return Ok(Err(Refusal::new(RefusalCode::NotAuthorised, why, hint)));
        }
    };
    let certificate =
        state.authority.issue(&csr.public_key, role, id).map_err(|e| LinkError::BadIdentity(e.to_string()))?;
    let ca = state.authority.certificate().to_vec();
    Ok(Ok(EnrolReply::Enrolled { certificate: certificate.to_vec(), ca, role, name }))
}
