//! The joiner's side of enrolment: check the master, then show the token, then keep the
//! certificate.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::time::Duration;

use common::token::JoinToken;
use common::update::UpdateKey;
use common::wire::Versions;
use common::wire::enrol::{Enrol, EnrolReply, WantedRole};
use common::{Incarnation, Time};
use rcgen::KeyPair;

use crate::channel::Channel;
use crate::endpoint::{Caller, Carrier, Purpose};
use crate::error::{LinkError, bad_identity};
use crate::files;
use crate::identity::{
    Identity, JOINING_KEY, LinkInfo, kept_key, key_hash, public_key_hash, signing_request,
};
use crate::tls::TrustedEnds;
use crate::transport::KeepAlive;
use crate::{handshake, masters, tls, wall_clock};

/// The pause before the same request is repeated after the connection broke off.
const AGAIN: Duration = Duration::from_millis(500);
/// The longest time that one of several masters may take to say who it is: one that is cut off from its store never does.
const ELSEWHERE: Duration = Duration::from_secs(8);

/// The key of an identity that has not joined yet, made on this machine. Where the answer of the master was
/// lost, the token may be used up: the same key gets the same answer again.
#[derive(Debug)]
pub struct JoiningKey(KeyPair);

impl JoiningKey {
    /// Makes a key.
    ///
    /// # Errors
    /// If this machine cannot.
    pub fn make() -> Result<Self, LinkError> {
        KeyPair::generate().map(Self).map_err(bad_identity)
    }

    /// Reads the key of an earlier try from `dir`, or makes one and writes it there. It is removed once an
    /// identity is saved there ([`Identity::save`]).
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn kept_in(dir: &Path) -> Result<Self, LinkError> {
        files::private_dir(dir).map_err(LinkError::file("cannot make", dir))?;
        kept_key(&dir.join(JOINING_KEY)).map(Self)
    }
}

/// Redeems `token` at `master` for whatever it is for with a new key, as [`enrol_as`] does.
///
/// # Errors
/// As [`enrol_as`].
pub async fn enrol(master: &str, token: &JoinToken, name: &str) -> Result<Identity, LinkError> {
    let key = JoiningKey::make()?;
    enrol_as(master, token, &key, name, WantedRole::Any).await
}

/// Redeems `token` at `master` (`HOST:PORT`, or several) for an identity called `name` with this `key`, of
/// the kind that is `wanted`. The token's secret leaves this machine only after the master has shown a
/// chain to the CA key that the token names.
///
/// # Errors
/// If the master is out of reach, is another one, or refuses the token.
pub async fn enrol_as(
    master: &str,
    token: &JoinToken,
    JoiningKey(key): &JoiningKey,
    name: &str,
    wanted: WantedRole,
) -> Result<Identity, LinkError> {
    let csr = signing_request(key)?;
    let request = Enrol {
        versions: Versions::ours(),
        token: token.id,
        secret: token.secret,
        csr,
        name: name.to_owned(),
        wanted,
    };
    let reply = match redeem(master, token, &request).await {
        // The token may be used up by now; the master gives the same key the same answer.
        Err(LinkError::Closed(_)) => {
            tokio::time::sleep(AGAIN).await;
            redeem(master, token, &request).await?
        }
        first => first?,
    };
    let (reply, update_key) = with_key(reply);
    match reply {
        EnrolReply::Refused(refusal) => Err(refusal.into()),
        EnrolReply::Here { .. }
        | EnrolReply::StandsBy { .. }
        | EnrolReply::EnrolledWithKey { .. } => Err(LinkError::other_answer()),
        EnrolReply::Enrolled {
            certificate,
            ca,
            role,
            name,
        } => {
            if key_hash(&ca)? != token.ca_key_hash {
                let why = "it answered with another CA than the one in the token".to_owned();
                return Err(LinkError::WrongMaster {
                    master: master.to_owned(),
                    why,
                });
            }

            if key_hash(&certificate)? != public_key_hash(key) {
                let why = "a certificate for another key: ask the admin to revoke this name";
                return Err(LinkError::Protocol(why.to_owned()));
            }

            Ok(Identity {
                certificate: certificate.into(),
                key: key.serialize_der().into(),
                ca: ca.into(),
                link: LinkInfo {
                    master: master.to_owned(),
                    name,
                    role,
                },
                home: None,
                update_key,
            })
        }
    }
}

/// Takes the key for new programs out of a reply.
fn with_key(reply: EnrolReply) -> (EnrolReply, Option<UpdateKey>) {
    match reply {
        EnrolReply::EnrolledWithKey {
            certificate,
            ca,
            role,
            name,
            update_key,
        } => {
            let enrolled = EnrolReply::Enrolled {
                certificate,
                ca,
                role,
                name,
            };
            (enrolled, Some(update_key))
        }
        reply => (reply, None),
    }
}

/// Asks one master after the other, and those that they say are active, until one takes the token or
/// refuses it.
async fn redeem(known: &str, token: &JoinToken, request: &Enrol) -> Result<EnrolReply, LinkError> {
    let mut errors = Vec::new();
    let mut to_ask: VecDeque<String> = masters::addresses(known).map(str::to_owned).collect();
    let mut named: BTreeSet<String> = to_ask.iter().cloned().collect();
    while let Some(master) = to_ask.pop_front() {
        match redeem_at(&master, token, request).await {
            Ok(EnrolReply::StandsBy { active, .. }) => {
                to_ask.extend(active.clone().filter(|at| named.insert(at.clone())));
                errors.push(LinkError::StandsBy { master, active });
            }
            Err(error @ LinkError::Unreachable { .. }) => errors.push(error),
            answered => return answered,
        }
    }
    Err(masters::merged(known, errors))
}

async fn redeem_at(
    master: &str,
    token: &JoinToken,
    request: &Enrol,
) -> Result<EnrolReply, LinkError> {
    // A gateway that passes the token of a user on could use it itself.
    let ends = match request.wanted {
        WantedRole::Worker => TrustedEnds::MastersAndGateways,
        WantedRole::User | WantedRole::Any | WantedRole::Gateway => TrustedEnds::Masters,
    };
    let tls = tls::joiner_config(token.ca_key_hash, Purpose::Enrol.alpn(), ends)?;
    let connection = Caller::new(master, &token.ca_key_hash, tls, KeepAlive::PATIENT)?
        .connect_patiently()
        .await?;
    let mut channel = connection.open_bare().await?;
    channel.tx.send(request).await?;
    channel.tx.finish();
    let reply = channel.rx.expect::<EnrolReply>().await?;
    let master = handshake::is_master(connection.quic());
    connection.close("enrolled").await;

    // A gateway could name a key of its own.
    match master {
        true => Ok(reply),
        false => Ok(with_key(reply).0),
    }
}

/// A master that was asked who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The versions that the master understands, and its program version.
    pub versions: Versions,
    /// Its clock when it answered.
    pub now: Time,
    /// The time that the question and its answer took.
    pub took: Duration,
    /// This machine's clock when the answer had come.
    pub heard: Time,
    /// Its incarnation; of one that stands by the highest that it knows of.
    pub incarnation: Incarnation,
    /// Its words on the others, if it stands by.
    pub standby: Option<Standby>,
}

/// The words of a master that stands by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standby {
    /// The address of the active one, if it knows that.
    pub active: Option<String>,
    /// The reason why it could not take over at present, if there is one.
    pub trouble: Option<String>,
}

/// A clock that is off by more is worth a word, in seconds.
const OFF_S: f64 = 60.0;

impl Probe {
    /// By how many seconds this machine's clock is ahead of the master's. That is taken to have been read in
    /// the middle of the answer.
    pub fn off_s(&self) -> f64 {
        self.heard.secs() - self.took.as_secs_f64() / 2.0 - self.now.secs()
    }

    /// Says how far this machine's clock and the master's are apart, where that is more than a
    /// minute.
    pub fn clocks(&self) -> Option<String> {
        let off_s = self.off_s();
        let way = if off_s < 0.0 { "behind" } else { "ahead of" };
        (off_s.abs() > OFF_S).then(|| {
            format!(
                "this machine's clock is {} {way} the master's",
                coarse(off_s.abs())
            )
        })
    }
}

/// A span in the words of one unit, for people.
pub fn coarse(seconds: f64) -> String {
    let (unit, of) = match seconds {
        s if s >= 2.0 * 365.0 * 86_400.0 => ("years", 365.0 * 86_400.0),
        s if s >= 2.0 * 86_400.0 => ("days", 86_400.0),
        s if s >= 2.0 * 3_600.0 => ("hours", 3_600.0),
        s if s >= 120.0 => ("minutes", 60.0),
        _ => ("seconds", 1.0),
    };
    format!("{:.0} {unit}", seconds / of)
}

/// Describes a master that would not talk to this identity because it stands by, as it seems.
pub(crate) async fn standing(identity: &Identity, master: &str) -> LinkError {
    let probed = async {
        let asker = IdentityRequest::of(identity)?;
        asker.probe_at(master, Carrier::Udp).await
    };
    let master = master.to_owned();
    match probed.await {
        Ok(Probe {
            standby: Some(Standby { active, .. }),
            ..
        }) => LinkError::StandsBy { master, active },
        // It has become active in this moment, or is gone.
        Ok(_) | Err(LinkError::Unreachable { .. } | LinkError::Closed(_)) => LinkError::StandsBy {
            master,
            active: None,
        },
        Err(error) => error,
    }
}

/// Asks the master of `identity` by one way who it is, without using the identity: changes nothing
/// there, and is answered also where the identity would not be.
///
/// # Errors
/// If the master is out of reach, is another one, or too old to answer.
pub async fn probe(identity: &Identity, way: Carrier) -> Result<Probe, LinkError> {
    IdentityRequest::of(identity)?.probe(way).await
}

/// The data needed to ask a master for its identity.
#[derive(Debug, Clone)]
pub struct IdentityRequest {
    master: String,
    ca_key_hash: [u8; 32],
}

impl IdentityRequest {
    /// For the master of an identity.
    ///
    /// # Errors
    /// If the identity's parts are broken.
    pub fn of(identity: &Identity) -> Result<Self, LinkError> {
        Ok(Self {
            master: identity.link.master.clone(),
            ca_key_hash: key_hash(&identity.ca)?,
        })
    }

    /// Asks by one way; of several masters the first that answers.
    ///
    /// # Errors
    /// As for [`probe`].
    pub async fn probe(&self, way: Carrier) -> Result<Probe, LinkError> {
        let mut errors = Vec::new();
        for master in masters::addresses(&self.master) {
            match self.probe_at(master, way).await {
                Ok(probe) => return Ok(probe),
                Err(error) => errors.push(error),
            }
        }
        Err(masters::merged(&self.master, errors))
    }

    /// Asks the master at this address by one way.
    ///
    /// # Errors
    /// As for [`probe`].
    pub async fn probe_at(&self, master: &str, way: Carrier) -> Result<Probe, LinkError> {
        let ends = TrustedEnds::MastersAndGateways;
        let tls = tls::joiner_config(self.ca_key_hash, Purpose::Enrol.alpn(), ends)?;
        let connection = Caller::new(master, &self.ca_key_hash, tls, KeepAlive::PATIENT)?
            .connect_by(way)
            .await?;

        let mut channel = connection.open_bare().await?;
        let probe = probe_on(&mut channel).await;
        connection.close("that was all").await;
        probe
    }

    /// Asks the other masters than the one at the address `here`, which has the incarnation `than` and is reached by this
    /// way. Returns the first higher incarnation that one of them knows of: the master here was taken over.
    pub async fn higher_elsewhere(
        &self,
        (here, way): (&str, Carrier),
        than: Incarnation,
    ) -> Option<Incarnation> {
        for master in masters::addresses(&self.master).filter(|master| *master != here) {
            let probe = tokio::time::timeout(ELSEWHERE, self.probe_at(master, way)).await;
            let known = probe.ok().and_then(Result::ok);
            let higher = known.map(|probe| probe.incarnation);
            if higher.is_some_and(|higher| higher > than) {
                return higher;
            }
        }
        None
    }
}

/// Asks on a stream on which a master enrols joiners who it is, as [`probe`] does. Its core answers that, and only
/// while the store is its own: until then the question waits.
///
/// # Errors
/// If the connection is gone, or the master is too old to answer.
pub async fn probe_on(channel: &mut Channel) -> Result<Probe, LinkError> {
    let asked = std::time::Instant::now();
    let nothing = Enrol {
        versions: Versions::ours(),
        token: 0,
        secret: [0; 16],
        csr: Vec::new(),
        name: String::new(),
        wanted: WantedRole::Any,
    };
    channel.tx.send(&nothing).await?;
    channel.tx.finish();

    let reply = channel.rx.expect::<EnrolReply>().await?;
    let took = asked.elapsed();
    let heard = wall_clock();
    let (versions, now, incarnation, standby) = match reply {
        EnrolReply::Here {
            versions,
            now,
            incarnation,
        } => (versions, now, incarnation, None),
        EnrolReply::StandsBy {
            versions,
            now,
            active,
            incarnation,
            trouble,
        } => {
            let standby = Standby { active, trouble };
            (versions, now, incarnation, Some(standby))
        }
        EnrolReply::Refused(refusal) => return Err(refusal.into()),
        EnrolReply::Enrolled { .. } | EnrolReply::EnrolledWithKey { .. } => {
            return Err(LinkError::other_answer());
        }
    };
    Ok(Probe {
        versions,
        now,
        took,
        heard,
        incarnation,
        standby,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_are_apart_are_told_in_words_and_others_are_not_mentioned() {
        let at = |s: f64| Time((s * 1e6) as u64);
        let master = 1e9;
        let probe = Probe {
            versions: Versions::ours(),
            now: at(master),
            took: Duration::from_secs(2),
            heard: at(master),
            incarnation: Incarnation(7),
            standby: None,
        };
        let told = |off_s: f64| {
            let heard = at(master + 1.0 + off_s);
            let probe = Probe {
                heard,
                ..probe.clone()
            };
            probe.clocks()
        };
        assert_eq!(told(59.0), None);
        assert_eq!(
            told(-3.0 * 86_400.0).as_deref(),
            Some("this machine's clock is 3 days behind the master's")
        );

        assert_eq!(
            told(7_200.0).as_deref(),
            Some("this machine's clock is 2 hours ahead of the master's")
        );
        assert_eq!(
            told(3_650.0 * 86_400.0).as_deref(),
            Some("this machine's clock is 10 years ahead of the master's")
        );
        assert_eq!(
            told(90.0).as_deref(),
            Some("this machine's clock is 90 seconds ahead of the master's")
        );
    }
}
