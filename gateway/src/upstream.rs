//! The connection to the active master: made again for ever, one for all workers. On it there is a
//! stream for each stream of a worker, since QUIC bounds, orders and repeats each of them alone.

use std::net::Ipv4Addr;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use common::Incarnation;
use common::wire::Versions;
use common::wire::gateway::{FromGateway, ToGateway};
use link::error::{NOT_LET_IN, ONLY_A_RENEWAL};
use link::retry::Backoff;
use link::{
    Channel, Connection, FrameReceiver, Identity, IdentityRequest, LinkError, Listener, Probe,
    Purpose, masters, probe_on, renewal,
};
use quinn::VarInt;

use crate::sessions::OpenSession;
use crate::{GatewayError, GatewayState, show};

/// The bounds of the pauses before the master is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// The same after a master that does not let this gateway in: a token or an admin has to change that.
const SLOW_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// The interval of the looks whether the master is there, and the looks in vain after which it is not.
const LOOK: Duration = Duration::from_secs(1);
const LOOKS_IN_VAIN: u32 = 5;
/// The time that the master may take to say who it is before the others are asked, where there are others.
const ANSWER: Duration = Duration::from_secs(5);
/// The longest time that the master may take to answer.
const WELCOME: Duration = Duration::from_secs(5);
/// The most bytes that wait here on all streams of the master's together. On each of them they are as
/// few as on any other stream, so a worker that does not read stops no other.
const WINDOW: VarInt = VarInt::from_u32(256 << 20);
/// The most bytes that wait for the master on all streams together.
const SEND_WINDOW: u64 = 16 << 20;
/// The time that a worker has to read the last words of the master's, before its connection is closed.
const LAST_WORD: Duration = Duration::from_secs(2);

/// A connection to a master that has let the gateway in. Cloning gives another handle.
#[derive(Debug, Clone)]
pub(crate) struct Upstream {
    connection: Connection,
    incarnation: Incarnation,
}

impl Upstream {
    /// Opens a stream that begins with this [`FromGateway`].
    pub(crate) async fn stream(&self, first: &FromGateway) -> Result<Channel, LinkError> {
        let mut channel = self.connection.open_bare().await?;
        channel.tx.send(first).await?;
        Ok(channel)
    }

    /// Resolves once nothing has come from the master for a while, though it is asked each second by QUIC's
    /// own means: another one may have taken over.
    async fn silent(&self) -> LinkError {
        let mut received = self.connection.received();
        let mut in_vain = 0;
        while in_vain < LOOKS_IN_VAIN {
            tokio::time::sleep(LOOK).await;
            let now = self.connection.received();
            in_vain = if now == received { in_vain + 1 } else { 0 };
            received = now;
        }
        self.connection.close("no answer").await;
        LinkError::Closed("the master does not answer any more".to_owned())
    }

    /// Resolves once the master's process is there and does not say who it is, since it is cut off from the store, and
    /// another master is active instead. Never, where there is only one.
    async fn taken_over(&self, asker: &IdentityRequest) -> LinkError {
        let here = self.connection.master();
        loop {
            let told = self.who_is_there();
            tokio::pin!(told);

            // As long as nobody else is active, one question waits: the store may only be slow.
            let mut patience = ANSWER;
            while tokio::time::timeout(patience, &mut told).await.is_err() {
                patience = LOOK;
                let at = (here, self.connection.way());
                if let Some(higher) = asker.higher_elsewhere(at, self.incarnation).await {
                    return LinkError::Closed(format!(
                        "the master at {here} does not answer, and another one is active since (incarnation {higher})"
                    ));
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Asks the master who it is, as whoever asks at this gateway does: its core answers, which needs the store.
    async fn who_is_there(&self) -> Result<Probe, LinkError> {
        // Nobody joins, so the address counts for nothing.
        let first = FromGateway::Enrol {
            from: Ipv4Addr::LOCALHOST.into(),
            wanted: None,
        };
        let mut channel = self.stream(&first).await?;
        probe_on(&mut channel).await
    }

    /// Whether the connection is there.
    pub(crate) fn is_there(&self) -> bool {
        self.connection.quic().close_reason().is_none()
    }

    /// Resolves once the connection is gone.
    pub(crate) async fn lost(&self) -> LinkError {
        self.connection.closed().await
    }
}

/// Keeps an [`Upstream`] to the active master. Ends only when the gateway is not let in at first: later that may be
/// the mistake of a moment, and is tried again ever more slowly.
pub(crate) async fn keep(
    gateway: &Arc<GatewayState>,
    mut identity: Identity,
    home: PathBuf,
    listener: Listener,
) -> Result<(), GatewayError> {
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
    let mut slowly = Backoff::new(SLOW_PAUSES.0, SLOW_PAUSES.1);
    let mut highest = Incarnation(0);
    let mut was_refused = false;
    // What was named at the start counts, not what was when it joined.
    let known = identity.link.master.clone();
    let several = masters::are_several(&known);
    // The master that was connected last: if it fails, the next one is the first to be tried.
    let mut last: Option<String> = None;
    loop {
        let ended = async {
            identity = match was_refused {
                // The certificate may have expired by the master's clock and not by this machine's.
                true => renewal::refresh(&home, Purpose::Gateway, Some(&known)).await?,
                false => renewal::fresh(&home, Purpose::Gateway, Some(&known)).await?,
            };
            show(&listener, &identity);
            if let Some(last) = &last {
                identity.link.master = masters::beginning_after(&known, last);
            }
            let asker = IdentityRequest::of(&identity)?;
            let connection = link::connect(&identity, Purpose::Gateway).await?;
            last = Some(connection.master().to_owned());
            let (upstream, rx) = greet(connection, highest).await?;
            highest = upstream.incarnation;
            backoff.reset();
            slowly.reset();

            tracing::info!(master = upstream.connection.master(), incarnation = %highest, "connected to the master");
            gateway.upstream.send_replace(Some(upstream.clone()));
            let renews = keep_fresh(&upstream, &mut identity, &home, &listener);
            tokio::select! {
                ended = hear(gateway, rx) => ended,
                lost = upstream.lost() => Err::<(), _>(lost),
                silent = upstream.silent() => Err(silent),
                gone = upstream.taken_over(&asker), if several => {
                    upstream.connection.close("another master is active").await;
                    Err(gone)
                }
                () = renews => Ok(()),
            }
        };
        let ended = ended.await;
        gateway.upstream.send_replace(None);

        let error = ended
            .err()
            .unwrap_or_else(|| LinkError::Closed("the master ended the conversation".to_owned()));
        was_refused = is_refusal(&error);
        if !was_refused {
            let delay = backoff.delay();
            tracing::warn!(%error, ?delay, "not connected to the master; trying again");
            tokio::time::sleep(delay).await;
            continue;
        }

        gateway
            .sessions
            .send_away("the master does not let this gateway in");
        if highest == Incarnation(0) && !is_expiry(&error) {
            return Err(error.into());
        }
        let delay = slowly.delay();
        tracing::error!(%error, ?delay, "this gateway is not let in; if that does not pass, join again with a new token and --rejoin");
        tokio::time::sleep(delay).await;
    }
}

/// Whether a master has answered that this gateway may not come.
fn is_refusal(error: &LinkError) -> bool {
    match error {
        LinkError::NotAccepted(_) | LinkError::WrongMaster { .. } => true,
        LinkError::Refused(_) => !error.passing(),
        _ => false,
    }
}

/// Whether the certificate has expired by the master's clock, so that a renewal helps.
fn is_expiry(error: &LinkError) -> bool {
    matches!(error, LinkError::NotAccepted(why) if why == ONLY_A_RENEWAL)
}

/// Greets the master at the other end, and is let in with [`ToGateway::Welcome`].
async fn greet(
    connection: Connection,
    highest: Incarnation,
) -> Result<(Upstream, FrameReceiver), LinkError> {
    connection.quic().set_receive_window(WINDOW);
    connection.quic().set_send_window(SEND_WINDOW);
    let control = async {
        let mut channel = connection.open_bare().await?;
        let versions = Versions::ours();
        channel.tx.send(&FromGateway::Control { versions }).await?;
        let welcome = channel.rx.expect::<ToGateway>().await?;
        Ok::<_, LinkError>((channel, welcome))
    };
    let (channel, welcome) = tokio::time::timeout(WELCOME, control)
        .await
        .map_err(|_| LinkError::Closed("the master did not answer the greeting".to_owned()))??;

    let incarnation = match welcome {
        ToGateway::Welcome { incarnation, .. } => incarnation,
        ToGateway::Refused(refusal) => return Err(refusal.into()),
        ToGateway::Close { .. } => {
            return Err(LinkError::Protocol("no welcome".to_owned()));
        }
    };
    if incarnation < highest {
        let why = format!(
            "the master at {} has incarnation {incarnation}, and one with {highest} was active before: it was taken over",
            connection.master()
        );
        connection.close("it was taken over").await;
        return Err(LinkError::Closed(why));
    }

    let upstream = Upstream {
        connection,
        incarnation,
    };
    let Channel { tx, rx } = channel;
    // The stream ends with the connection; its other direction carries nothing more.
    drop(tx);
    Ok((upstream, rx))
}

/// Closes the sessions that the master ends with [`ToGateway::Close`].
async fn hear(gateway: &GatewayState, mut rx: FrameReceiver) -> Result<(), LinkError> {
    while let Some(message) = rx.recv::<ToGateway>().await? {
        let ToGateway::Close { session, code, why } = message else {
            return Err(LinkError::Protocol("a second welcome".to_owned()));
        };
        let Some(OpenSession {
            connection, said, ..
        }) = gateway.sessions.find(session)
        else {
            continue;
        };

        let code = VarInt::from_u32(code);
        tokio::spawn(async move {
            if code != NOT_LET_IN {
                let _ = tokio::time::timeout(LAST_WORD, said.notified()).await;
            }
            connection.close(code, why.as_bytes());
        });
    }
    Ok(())
}

/// Renews the certificate whenever that is due, and shows workers the new one. Never ends.
async fn keep_fresh(
    upstream: &Upstream,
    identity: &mut Identity,
    home: &std::path::Path,
    listener: &Listener,
) {
    let taken = |renewed: &Identity| {
        show(listener, renewed);
        ControlFlow::Continue(())
    };
    renewal::keep_renewed(home, &upstream.connection, identity, taken).await;
}
