//! A client's session with the master.

use std::path::Path;
use std::time::{Duration, Instant};

use common::BlobRef;
use common::content::BlobHash;
use common::token::Role;
use common::wire::Versions;
use common::wire::client::{Reply, Request};
use common::wire::stream::Open;

use crate::channel::Channel;
use crate::content::{self, ByteCount};
use crate::endpoint::{Connection, Purpose, connect};
use crate::error::{LinkError, ONLY_A_RENEWAL};
use crate::identity::Identity;
use crate::{masters, renewal};

/// The time in which one of several masters has to answer the greeting.
const GREETED: Duration = Duration::from_secs(5);
/// The longest time to wait for one of several masters to become active, within which another one has taken over
/// (`takeover_after` of the master, and its start), and the pause between two looks.
const CHANGE: Duration = Duration::from_secs(10);
const CHANGE_PAUSE: Duration = Duration::from_millis(50);

/// A connection that the master has accepted.
#[derive(Debug, Clone)]
pub struct Client {
    connection: Connection,
    role: Role,
    user: String,
    version: u16,
    carried: ByteCount,
}

/// The replies to one [`Request`], as they come.
#[derive(Debug)]
pub struct Replies(Channel);

impl Replies {
    /// Returns the next reply; `None` after the last.
    ///
    /// # Errors
    /// If the master refused the request, or the connection is gone.
    pub async fn next(&mut self) -> Result<Option<Reply>, LinkError> {
        match self.0.rx.recv().await? {
            Some(Reply::Refused(refusal)) => Err(refusal.into()),
            reply => Ok(reply),
        }
    }
}

/// Content on its way.
#[derive(Debug)]
pub struct ContentReader {
    channel: Channel,
    size: u64,
}

impl ContentReader {
    /// Returns the length of the whole content, wherever this begins.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the next piece; `None` after the last.
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, LinkError> {
        let mut piece = Vec::new();
        while self.channel.rx.read_onto(&mut piece).await? {
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }
}

impl Client {
    /// Connects with the identity in `dir`, which is renewed first if that is due. Returns the identity, too.
    ///
    /// # Errors
    /// If there is none, or the master is out of reach or does not accept it.
    pub async fn enter(dir: &Path) -> Result<(Self, Identity), LinkError> {
        let identity = renewal::fresh(dir, Purpose::Client, None).await?;
        let client = Self::connect_or_refresh(dir, &identity).await?;
        Ok((client, identity))
    }

    /// Connects with the identity in `dir` as it is, for somebody who tries again and again: it is renewed only if the
    /// master asks for that.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    pub async fn enter_again(dir: &Path) -> Result<Self, LinkError> {
        Self::connect_or_refresh(dir, &Identity::load(dir)?).await
    }

    /// Connects with the identity that was read from `dir`, and renews it where only that is answered. Another task or
    /// program of its user may have renewed it since it was read: then the one that is in `dir` now counts.
    async fn connect_or_refresh(dir: &Path, identity: &Identity) -> Result<Self, LinkError> {
        match Self::connect(identity).await {
            // The certificate has expired by the master's clock, though maybe not by ours.
            Err(LinkError::NotAccepted(why)) if why == ONLY_A_RENEWAL => {
                let renewed = renewal::refresh(dir, Purpose::Client, None).await?;
                Self::connect(&renewed).await
            }
            Err(refused @ LinkError::NotAccepted(_)) => {
                let now = Identity::load(dir)?;
                if now.certificate == identity.certificate {
                    return Err(refused);
                }
                Self::connect(&now).await
            }
            connected => connected,
        }
    }

    /// Connects and sends `Request::Hello`. Of several masters, one that does not answer that is left for
    /// the others once. While all of those that answer stand by, or end or begin at the moment, one of them
    /// may be about to be active: they are asked for some seconds.
    ///
    /// # Errors
    /// If the master is out of reach, does not let this identity in, or is of another version.
    pub async fn connect(identity: &Identity) -> Result<Self, LinkError> {
        let asked = Instant::now();
        loop {
            let connected = Self::connect_now(identity).await;
            let silent = |error: &LinkError| matches!(error, LinkError::Unreachable { .. });
            let may_change =
                |error: &LinkError| error.passing() && (error.is_busy() || !silent(error));
            let is_changing = masters::are_several(&identity.link.master)
                && connected.as_ref().is_err_and(may_change);
            if !is_changing || asked.elapsed() > CHANGE {
                return connected;
            }
            tokio::time::sleep(CHANGE_PAUSE).await;
        }
    }

    /// Connects to a master that is active now.
    async fn connect_now(identity: &Identity) -> Result<Self, LinkError> {
        let known = &identity.link.master;
        let connection = connect(identity, Purpose::Client).await?;
        if !masters::are_several(known) {
            return Self::greeted(identity, connection).await;
        }

        let master = connection.master().to_owned();
        let greeted = Self::greeted(identity, connection);
        let error = match tokio::time::timeout(GREETED, greeted).await {
            Ok(Err(error)) if error.passing() => error,
            Ok(answered) => return answered,
            Err(_) => LinkError::Unreachable {
                master: master.clone(),
                why: format!("it did not answer a greeting within {GREETED:?}"),
            },
        };

        let mut others = identity.again();
        others.link.master = masters::beginning_after(known, &master);
        let connection = connect(&others, Purpose::Client).await?;
        if connection.master() == master {
            connection.close("it does not answer").await;
            return Err(error);
        }
        let greeted = tokio::time::timeout(GREETED, Self::greeted(identity, connection));
        greeted.await.unwrap_or(Err(error))
    }

    /// Sends the greeting over a new connection.
    async fn greeted(identity: &Identity, connection: Connection) -> Result<Self, LinkError> {
        let mut client = Self {
            connection,
            role: identity.link.role,
            user: identity.link.name.clone(),
            version: 0,
            carried: ByteCount::default(),
        };
        match client.hello().await {
            Ok(()) => Ok(client),
            Err(error) => {
                client.close().await;
                Err(error)
            }
        }
    }

    async fn hello(&mut self) -> Result<(), LinkError> {
        match self.ask(&Request::Hello(Versions::ours())).await?.pop() {
            Some(Reply::Welcome {
                version,
                role,
                user,
                ..
            }) => {
                self.version = version;
                self.role = role;
                self.user = user;
                Ok(())
            }
            other => Err(unexpected(other.as_ref())),
        }
    }

    /// Returns the role that the master gives this client.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the version of the messages that both ends speak.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Returns the name that the master gives this client.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Sends a request and returns its [`Replies`] as they come.
    ///
    /// # Errors
    /// If the request is too long, or the connection is gone.
    pub async fn stream(&self, request: &Request) -> Result<Replies, LinkError> {
        let mut channel = self.connection.open_bare().await?;
        channel.tx.push(&Open::Request)?;
        if !channel.tx.push_if_fits(request)? {
            return Err(LinkError::TooLong);
        }
        channel.tx.flush().await?;
        channel.tx.finish();
        Ok(Replies(channel))
    }

    /// Sends a request and returns all its replies.
    ///
    /// # Errors
    /// If the request is too long, the master refuses, or the connection is gone.
    pub async fn ask(&self, request: &Request) -> Result<Vec<Reply>, LinkError> {
        let mut replies = self.stream(request).await?;
        let mut all = Vec::new();
        while let Some(reply) = replies.next().await? {
            all.push(reply);
        }
        Ok(all)
    }

    /// Uploads a file's content, unless the master has it.
    ///
    /// # Errors
    /// If the file cannot be read or changes meanwhile, or the master does not take it.
    pub async fn put_file(&self, path: &Path) -> Result<BlobRef, LinkError> {
        let hashed = path.to_owned();
        let blob = tokio::task::spawn_blocking(move || content::hash_file(&hashed))
            .await
            .map_err(|e| LinkError::Closed(e.to_string()))??;
        content::put_counted(&self.connection, path, blob, &self.carried).await?;
        Ok(blob)
    }

    /// Uploads some content, unless the master has it.
    ///
    /// # Errors
    /// If the master does not take it.
    pub async fn put_bytes(&self, bytes: &[u8]) -> Result<BlobRef, LinkError> {
        let blob = content::hash_bytes(bytes);
        content::put_bytes(&self.connection, bytes, blob).await?;
        self.carried.add(blob.size);
        Ok(blob)
    }

    /// Fetches content into the file `path`, which is there only once it is whole and verified.
    ///
    /// # Errors
    /// If the master does not have it, or the file cannot be written.
    pub async fn fetch(&self, blob: BlobRef, path: &Path) -> Result<(), LinkError> {
        content::fetch_counted(&self.connection, blob, path, &self.carried).await
    }

    /// Returns the [`ByteCount`] of what this client and its clones upload and fetch.
    pub fn carried(&self) -> &ByteCount {
        &self.carried
    }

    /// Asks for content from this byte on. Whoever reads it has to see to it that it is whole.
    ///
    /// # Errors
    /// If the master does not have it, or has it for others only, or the connection is gone.
    pub async fn content(&self, hash: BlobHash, offset: u64) -> Result<ContentReader, LinkError> {
        let get = Open::Get {
            hash,
            offset,
            peers: false,
            failed: Vec::new(),
        };
        let mut channel = self.connection.open(&get).await?;
        channel.tx.finish();
        let size = content::found(&mut channel.rx).await?;
        Ok(ContentReader { channel, size })
    }

    /// Ends the session.
    pub async fn close(self) {
        self.connection.close("done").await;
    }

    /// Returns the connection of the session.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }
}

/// Makes the error for a reply that does not fit its request.
pub fn unexpected(reply: Option<&Reply>) -> LinkError {
    LinkError::Protocol(reply.map_or("an empty answer".to_owned(), |r| {
        format!("an answer to another question: {r:?}")
    }))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use common::wire::WIRE_VERSION;
    use common::wire::stream::GetReply;
    use common::{Incarnation, Time};
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

    use super::*;
    use crate::error::NOT_LET_IN;
    use crate::identity::LinkInfo;
    use crate::{listener, tls};

    const CONTENT: &[u8] = b"hello";

    fn authority() -> (CertificateDer<'static>, Issuer<'static, KeyPair>) {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        (certificate.der().clone(), Issuer::new(params, key))
    }

    fn leaf(
        issuer: &Issuer<'static, KeyPair>,
        name: &str,
    ) -> (CertificateDer<'static>, PrivatePkcs8KeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, issuer).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        (certificate.der().clone(), key)
    }

    /// Returns the place at which a master listens, and two identities of the same user there.
    fn place_and_user() -> (quinn::Endpoint, [Identity; 2]) {
        let (ca, issuer) = authority();
        let (server, server_key) = leaf(&issuer, tls::MASTER_NAME);
        let chain = tls::ServerChain {
            certificate: server,
            key: PrivateKeyDer::Pkcs8(server_key),
            ca: ca.clone(),
        };
        let config = tls::server_config(vec![chain], &[Purpose::Client.alpn()]).unwrap();

        let at: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let endpoint = listener::listen(at, config, [7; 32])
            .unwrap()
            .endpoint()
            .clone();
        let link = LinkInfo {
            master: endpoint.local_addr().unwrap().to_string(),
            name: "ann".to_owned(),
            role: Role::Client,
        };

        let identities = [(); 2].map(|()| {
            let (certificate, key) = leaf(&issuer, "ann");
            Identity {
                certificate,
                key,
                ca: ca.clone(),
                link: link.clone(),
                home: None,
                update_key: None,
            }
        });
        (endpoint, identities)
    }

    /// A client of a master that answers whoever asks for content so, and then sends [`CONTENT`].
    async fn client_told(replies: Vec<GetReply>) -> Client {
        let (endpoint, [identity, _]) = place_and_user();
        tokio::spawn(serve(endpoint, replies));
        Client::connect(&identity).await.unwrap()
    }

    async fn serve(endpoint: quinn::Endpoint, replies: Vec<GetReply>) {
        let connection = endpoint.accept().await.unwrap().await.unwrap();

        while let Ok((tx, rx)) = connection.accept_bi().await {
            let mut channel = Channel::new(tx, rx);
            match channel.rx.expect().await.unwrap() {
                Open::Request => {
                    let hello: Request = channel.rx.expect().await.unwrap();
                    assert!(matches!(hello, Request::Hello(_)), "{hello:?}");
                    let welcome = Reply::Welcome {
                        version: WIRE_VERSION,
                        role: Role::Client,
                        user: "ann".to_owned(),
                        incarnation: Incarnation(1),
                        now: Time(0),
                    };
                    channel.tx.send(&welcome).await.unwrap();
                }
                Open::Get { .. } => {
                    for reply in &replies {
                        channel.tx.send(reply).await.unwrap();
                    }
                    channel.tx.raw().write_all(CONTENT).await.unwrap();
                }
                other => panic!("{other:?}"),
            }
            channel.tx.finish();
            channel.tx.delivered().await;
        }
    }

    #[tokio::test]
    async fn who_is_refused_since_another_program_renewed_the_identity_comes_with_the_renewed_one()
    {
        let (endpoint, [former, renewed]) = place_and_user();
        let dir = tempfile::tempdir().unwrap();
        former.save(dir.path()).unwrap();
        let home = dir.path().to_owned();
        tokio::spawn(async move {
            let refused = endpoint.accept().await.unwrap().await.unwrap();
            renewed.save(&home).unwrap();
            refused.close(NOT_LET_IN, b"this identity was renewed elsewhere since");
            serve(endpoint, Vec::new()).await;
        });

        let entered = Client::connect_or_refresh(dir.path(), &former).await;
        assert!(entered.is_ok(), "{:?}", entered.err());
    }

    #[tokio::test]
    async fn content_is_read_however_often_its_master_says_that_it_waits_for_it() {
        let waits = || GetReply::Waits("the master fetches it from its storage".to_owned());
        let found = GetReply::Found(CONTENT.len() as u64);
        let client = client_told(vec![waits(), waits(), found]).await;
        let hash = content::hash_bytes(CONTENT).hash;
        let mut reader = client.content(hash, 0).await.unwrap();
        assert_eq!(reader.size(), CONTENT.len() as u64);

        let mut all = Vec::new();
        while let Some(piece) = reader.next().await.unwrap() {
            all.extend(piece);
        }
        assert_eq!(all, CONTENT);
    }
}
