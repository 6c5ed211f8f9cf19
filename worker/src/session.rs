//! The connection to the master: made again for ever, with one control stream for messages and
//! separate streams for content. The content of the messages is decided in [`crate::worker`].

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::site::SiteSettings;
use common::wire::RefusalCode;
use common::wire::stream::Open;
use common::wire::worker::{Delivery, ToMaster, ToWorker};
use common::{BlobRef, Completion, Content, Outcome, Span};
use link::handshake::is_master;
use link::{
    Carrier, Channel, Connection, Farewell, FrameReceiver, FrameSender, Identity, IdentityRequest,
    LinkError, Purpose, UnnamedPuts, masters,
};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;

use crate::admin;
use crate::alive::AliveSender;
use crate::blocking::{off, yielding};
use crate::elsewhere::{BeatWatch, Highest};
use crate::peers::InputPeers;
use crate::spool::blobs::Blobs;

/// The longest time that the master may take to answer a greeting.
const WELCOME: Duration = Duration::from_secs(10);
/// A session that lasted this long was a good one: the next connections begin with short pauses
/// again.
const STEADY: Duration = Duration::from_secs(5);
/// The factor by which the pauses are longer after a refusal than without an answer.
const REFUSED_SLOWER: u32 = 20;
/// The longest pause where there are several masters: one of them takes over within seconds.
const TAKEN_OVER: Duration = Duration::from_secs(3);
/// The longest time to wait for the master's clock.
const CLOCK: Duration = Duration::from_secs(6);
/// The number of uploads that run at a time.
const UPLOADS: usize = 4;
/// The most completions in a message.
const BATCH: usize = 512;
/// The approximate bound of a message of completions, in bytes.
const BATCH_BYTES: usize = 64 * 1024;
/// The pause before an upload that failed is tried again.
const UPLOAD_RETRY: Duration = Duration::from_secs(2);

/// An event of the connection.
#[derive(Debug)]
pub(crate) enum SessionEvent {
    /// The connection needs a greeting (`ToMaster::Hello`).
    Greet(oneshot::Sender<ToMaster>),
    /// The master has accepted the worker; with its heartbeat interval.
    Up(Uplink, Span),
    /// A message from the master.
    Said(ToWorker),
    /// Settings of the master. It is heard again once the other side drops its sender: they take
    /// longer than other messages, and would pile up.
    Settings(SiteSettings, oneshot::Sender<()>),
    /// The connection is lost; another is being made.
    Down,
    /// There is no connection, for this reason; another is being made.
    Out(String),
}

/// The way to the master while the connection lasts.
#[derive(Debug, Clone)]
pub(crate) struct Uplink {
    connection: Connection,
    outbox: UnboundedSender<ToMaster>,
    uploads: Arc<Semaphore>,
    blobs: Arc<Blobs>,
    /// Whether the worker holds attempts, which decides how often it sends.
    pub(crate) alive: AliveSender,
}

impl Uplink {
    /// Returns for how long nothing has come from the master.
    pub(crate) fn silent_for(&self) -> Span {
        self.alive.silent_for(&self.connection).into()
    }
}

/// The pauses before a connection is made again.
#[derive(Debug, Clone)]
pub(crate) struct Again {
    pub(crate) backoff: link::retry::Backoff,
    /// The pauses where the master is up and refuses this worker.
    pub(crate) refused: link::retry::Backoff,
    /// The time over which the master wants its workers to come back, until the next pause.
    pub(crate) spread: Duration,
    /// The interval at which a worker whose connection goes over TCP tries UDP.
    pub(crate) udp_every: Duration,
}

impl Again {
    /// Makes the pauses: from `base` up to `cap` while the master is unreachable.
    pub(crate) fn new(base: Duration, cap: Duration, udp_every: Duration) -> Self {
        let slower = |pause: Duration| pause.saturating_mul(REFUSED_SLOWER);
        let refused = link::retry::Backoff::new(slower(base), slower(cap));
        Self {
            backoff: link::retry::Backoff::new(base, cap),
            refused,
            spread: Duration::ZERO,
            udp_every,
        }
    }

    /// Returns the pause before the next try where the master does not refuse this worker.
    fn delay(&mut self) -> Duration {
        self.backoff.delay() + link::retry::draw(std::mem::take(&mut self.spread))
    }
}

/// Keeps a connection for ever; ends only when `tell` is closed. A refusal passes, too: a
/// certificate is renewed, a clock is set, a store is put back, an identity is approved. An
/// identity stored in `home` is renewed there in time.
pub(crate) async fn keep<T: From<SessionEvent> + Send + 'static>(
    mut identity: Identity,
    home: PathBuf,
    mut again: Again,
    blobs: Arc<Blobs>,
    tell: UnboundedSender<T>,
    (current, peers): (watch::Sender<Option<Connection>>, Arc<InputPeers>),
) {
    if masters::are_several(&identity.link.master) {
        again.backoff.at_most(TAKEN_OVER);
    }
    let run = link::identity::draw_run();
    let home = Identity::exists(&home).then_some(home);
    let grid = link::identity::read_certificate(&identity.certificate).map(|(name, _)| name.grid);
    let mut papers = Papers {
        highest: Highest::read(grid.unwrap_or_default(), home.as_deref()),
        home,
        run,
        refused: false,
        last: None,
    };
    while !tell.is_closed() {
        let result = converse(
            &mut identity,
            &mut papers,
            &blobs,
            &tell,
            (&current, &peers),
            &mut again,
        )
        .await;

        current.send_replace(None);
        let error = match result {
            Ok(Next::End) => return,
            Ok(Next::Again | Next::Anew) => continue,
            Err(error) => error,
        };
        papers.refused = matches!(error, LinkError::NotAccepted(_));

        let refused = is_refusal(&error);
        let (words, again_in) = match refused {
            true => (in_words(&identity, &error).await, again.refused.delay()),
            false => (error.to_string(), again.delay()),
        };
        let pause = Span::from(again_in);
        if refused {
            tracing::warn!(target: admin::REFUSED, error = %words, again_in = %pause, "the master refuses this worker");
        } else {
            tracing::warn!(error = %words, again_in = %pause, "not connected to the master; trying again");
        }

        let _ = tell.send(SessionEvent::Out(words).into());
        tokio::select! {
            () = tokio::time::sleep(again_in) => {}
            () = tell.closed() => return,
        }
    }
}

/// The step after a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// None: the worker leaves.
    End,
    /// Another connection at once: UDP gets through again, or there is a new certificate to show.
    Again,
    /// A greeting on the same connection: the gateway at its other end has another master.
    Anew,
}

/// Whether somebody, or something on this machine, must change before another try is of use. Such
/// tries come more slowly.
fn is_refusal(error: &LinkError) -> bool {
    match error {
        LinkError::Refused(_) => !error.passing(),
        LinkError::NotAccepted(_) | LinkError::BadIdentity(_) | LinkError::WrongMaster { .. } => {
            true
        }
        _ => false,
    }
}

/// Describes why the master refuses this worker, what that means, and whether a clock may be the
/// reason.
async fn in_words(identity: &Identity, error: &LinkError) -> String {
    let clocks = async {
        for way in [Carrier::Udp, Carrier::Tcp] {
            if let Ok(probe) = link::probe(identity, way).await {
                return probe.clocks();
            }
        }
        None
    };
    let clocks = tokio::time::timeout(CLOCK, clocks).await.ok().flatten();
    let clocks = clocks.map_or_else(String::new, |clocks| format!(" ({clocks})"));

    format!(
        "{error}{clocks}; it is tried again, ever more slowly. If that does not pass: join again with a new token and --rejoin"
    )
}

/// The worker's credentials and the number of its run.
struct Papers {
    /// The directory of its identity, if it is stored.
    home: Option<PathBuf>,
    /// The number of this run.
    run: uuid::Uuid,
    /// Whether the master rejected the identity the last time.
    refused: bool,
    /// The highest incarnation of a master so far.
    highest: Highest,
    /// The master that was connected last: if it fails, the next one is the first to be tried.
    last: Option<String>,
}

impl Papers {
    /// Renews the identity before the next connection, if that is due.
    async fn freshen(&self, identity: &mut Identity) -> Result<(), LinkError> {
        let Some(home) = &self.home else {
            return Ok(());
        };
        // What was named at the start counts, not what was when it joined.
        let master = identity.link.master.clone();
        *identity = match self.refused {
            // The certificate may have expired by the master's clock and not by this host's.
            true => link::renewal::refresh(home, Purpose::Worker, Some(&master)).await?,
            false => link::renewal::fresh(home, Purpose::Worker, Some(&master)).await?,
        };
        Ok(())
    }

    /// Renews the identity over a lasting connection, whenever that is due. Ends once that was done through a gateway,
    /// which has seen the old certificate and goes by it.
    async fn keep_fresh(&self, connection: &Connection, identity: &mut Identity) {
        let Some(home) = &self.home else {
            return std::future::pending().await;
        };
        let taken = |_: &Identity| match is_master(connection.quic()) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        link::renewal::keep_renewed(home, connection, identity, taken).await;
    }
}

/// Runs one connection, from its beginning to its end. Behind a gateway the master at the other end may
/// change meanwhile: each is greeted on a control stream of its own.
async fn converse<T: From<SessionEvent> + Send + 'static>(
    identity: &mut Identity,
    papers: &mut Papers,
    blobs: &Arc<Blobs>,
    tell: &UnboundedSender<T>,
    (current, peers): (&watch::Sender<Option<Connection>>, &Arc<InputPeers>),
    again: &mut Again,
) -> Result<Next, LinkError> {
    papers.freshen(identity).await?;
    if let Some(last) = &papers.last {
        identity.link.master = masters::beginning_after(&identity.link.master, last);
    }
    let connection = link::connect(identity, Purpose::Worker).await?;
    papers.last = Some(connection.master().to_owned());
    loop {
        let rooms = (current, peers);
        match serve_master(&connection, identity, papers, blobs, tell, rooms, again).await? {
            Next::Anew => tracing::info!("the gateway has another connection to a master"),
            next => return Ok(next),
        }
    }
}

/// Greets the master at the other end, and serves it until the connection ends or another one is there.
async fn serve_master<T: From<SessionEvent> + Send + 'static>(
    connection: &Connection,
    identity: &mut Identity,
    papers: &mut Papers,
    blobs: &Arc<Blobs>,
    tell: &UnboundedSender<T>,
    (current, peers): (&watch::Sender<Option<Connection>>, &Arc<InputPeers>),
    again: &mut Again,
) -> Result<Next, LinkError> {
    let several = masters::are_several(&identity.link.master);
    let here = connection.master().to_owned();
    let mut control = connection.open(&Open::Control).await?;

    // Outputs on their way must not hold up heartbeats.
    let _ = control.tx.raw().set_priority(1);
    let (ask, answer) = oneshot::channel();
    if tell.send(SessionEvent::Greet(ask).into()).is_err() {
        return Ok(Next::End);
    }

    let Ok(hello) = answer.await else {
        return Ok(Next::End);
    };
    control.tx.send(&hello).await?;

    let welcome = tokio::time::timeout(WELCOME, control.rx.expect::<ToWorker>());
    let welcome = welcome
        .await
        .map_err(|_| LinkError::Closed("the master did not answer the greeting".to_owned()))??;
    let (heartbeat, incarnation) = match &welcome {
        ToWorker::Welcome {
            host,
            name,
            heartbeat,
            incarnation,
            ..
        } => {
            if !is_master(connection.quic()) {
                papers.highest.check(*incarnation)?;
            } else if let Some(keep) = papers.highest.rise(*incarnation)? {
                let _ = off(keep).await;
            }
            tracing::info!(%host, %name, way = %connection.way(), "joined the master");
            control.tx.send(&ToMaster::Instance(papers.run)).await?;
            (*heartbeat, *incarnation)
        }
        ToWorker::Refused(refusal) => return Err(refusal.clone().into()),
        other => {
            return Err(LinkError::Protocol(format!(
                "{other:?} instead of a welcome"
            )));
        }
    };

    let since = tokio::time::Instant::now();

    let asker = IdentityRequest::of(identity)?;
    let at = (here.as_str(), connection.way());
    let (outbox, letters) = mpsc::unbounded_channel();
    let alive = AliveSender::of_masters(several);
    let beats = BeatWatch::default();
    let sender = outbox.downgrade();
    peers.connected(connection, identity, sender.clone()).await;
    current.send_replace(Some(connection.clone()));
    let uplink = Uplink {
        connection: connection.clone(),
        outbox,
        uploads: Arc::new(Semaphore::new(UPLOADS)),
        blobs: Arc::clone(blobs),
        alive: alive.clone(),
    };
    let _ = tell.send(SessionEvent::Up(uplink, heartbeat).into());
    let _ = tell.send(SessionEvent::Said(welcome).into());
    let Channel { tx, rx } = control;
    let leaving = AtomicBool::new(false);
    let end = tokio::select! {
        end = hear(rx, tell, (&alive, &beats)) => end,
        gone = alive.keep(connection, &sender) => {
            connection.close("no answer").await;
            Err(gone)
        }
        end = speak(tx, letters, (&beats, &leaving)) => end.map(|()| Next::End),
        gone = beats.another_is_active(&asker, at, incarnation), if several => {
            connection.close("another master is active").await;
            Err(gone)
        }
        () = papers.keep_fresh(connection, identity) => {
            connection.close("the certificate was renewed").await;
            Ok(Next::Again)
        }
        () = udp_is_back(&asker, &here, connection.way(), again.udp_every) => {
            tracing::info!("UDP gets through: connecting anew");
            connection.close("UDP gets through").await;
            Ok(Next::Again)
        }
    };

    // Two workers with one identity push each other out: they must do so ever more slowly.
    if since.elapsed() >= STEADY {
        again.backoff.reset();
        again.refused.reset();
    }

    again.spread = connection.spread();
    let _ = tell.send(SessionEvent::Down.into());
    match end {
        // The master may end the connection before it has confirmed the last word.
        Err(_) if leaving.load(Ordering::Relaxed) => Ok(Next::End),
        end => end,
    }
}

/// Resolves once a master that is reached over TCP answers over UDP.
async fn udp_is_back(asker: &IdentityRequest, here: &str, way: Carrier, every: Duration) {
    if way == Carrier::Udp {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(every).await;
        match asker.probe_at(here, Carrier::Udp).await {
            Ok(_) => return,
            Err(error) => tracing::debug!(%error, "still over TCP"),
        }
    }
}

async fn hear<T: From<SessionEvent>>(
    mut rx: FrameReceiver,
    tell: &UnboundedSender<T>,
    (alive, beats): (&AliveSender, &BeatWatch),
) -> Result<Next, LinkError> {
    while let Some(message) = rx.recv::<ToWorker>().await? {
        beats.heard();
        match message {
            ToWorker::SendEvery(every) => alive.set_idle_every(every),
            ToWorker::Anew => return Ok(Next::Anew),
            ToWorker::Refused(refusal) => return Err(refusal.into()),
            ToWorker::Site(settings) => {
                let (looking, looked) = oneshot::channel();
                let settings = SessionEvent::Settings(settings, looking);
                if tell.send(settings.into()).is_err() {
                    return Ok(Next::End);
                }
                let _ = looked.await;
            }
            message => {
                if tell.send(SessionEvent::Said(message).into()).is_err() {
                    return Ok(Next::End);
                }
            }
        }
    }

    Err(LinkError::Closed(
        "the master ended the conversation".to_owned(),
    ))
}

/// Sends the queued messages, all that are ready in one write. Returns successfully after
/// [`ToMaster::Leaving`], and notes in `left` that it was sent.
async fn speak(
    mut tx: FrameSender,
    mut letters: UnboundedReceiver<ToMaster>,
    (beats, left): (&BeatWatch, &AtomicBool),
) -> Result<(), LinkError> {
    let mut batch = Vec::new();
    while letters.recv_many(&mut batch, BATCH).await > 0 {
        let leaving = batch.contains(&ToMaster::Leaving);
        for letter in batch.drain(..) {
            // A connection anew would not make it shorter.
            if let Err(error) = tx.push(&letter) {
                tracing::error!(%error, "a message cannot be sent to the master, and is left out");
                continue;
            }
            if matches!(letter, ToMaster::Heartbeat { .. }) {
                beats.asked();
            }
        }
        left.store(leaving, Ordering::Relaxed);
        tx.flush().await?;
        if leaving {
            tx.finish();
            tx.delivered().await;
            return Ok(());
        }
    }

    Ok(())
}

impl Uplink {
    /// Returns what tells the master that this worker is dead.
    pub(crate) fn farewell(&self) -> Option<Farewell> {
        self.connection.farewell()
    }

    /// The connection itself, for streams beside the control stream.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Sends a message.
    pub(crate) fn say(&self, message: ToMaster) {
        // If the connection is gone, everything is sent again over the next one.
        let _ = self.outbox.send(message);
    }

    /// Delivers completions: those without blobs in batches, each of the others after its blobs.
    pub(crate) fn deliver(&self, deliveries: Vec<Delivery>) {
        let (heavy, light): (Vec<_>, Vec<_>) = deliveries
            .into_iter()
            .partition(|delivery| delivery.completion.blobs().next().is_some());
        for batch in batches(light) {
            self.say(ToMaster::Delivered(batch));
        }
        for delivery in heavy {
            tokio::spawn(self.clone().upload(delivery));
        }
    }

    async fn upload(self, delivery: Delivery) {
        let begun = tokio::time::Instant::now();
        let unnamed = UnnamedPuts::over(&self.connection);
        let mut puts = JoinSet::new();
        for blob in delivery.completion.blobs() {
            puts.spawn(self.clone().put(blob));
        }

        let Delivery {
            mut completion,
            ago,
        } = delivery;
        while let Some(put) = puts.join_next().await {
            match put {
                Ok(Put::Taken(blob)) => unnamed.add(blob),
                Ok(Put::Refused(blob, why)) => leave_out(&mut completion, blob, &why),
                Ok(Put::Damaged(blob, why)) => give_up(&mut completion, blob, &why),
                // The connection is gone, and the spool still has the completion; or it has been
                // acknowledged or given up.
                Ok(Put::Useless) | Err(_) => return,
            }
        }

        let ago = ago + Span::from(begun.elapsed());
        self.say(ToMaster::Delivered(vec![Delivery { completion, ago }]));
    }

    /// Uploads a blob, however many tries that takes.
    async fn put(self, blob: BlobRef) -> Put {
        let mut tries = 0_u32;
        loop {
            if !self.blobs.has(&blob) {
                // A blob that nobody holds any more has been acknowledged or given up.
                let gone = self.blobs.holds(&blob.hash);
                return if gone {
                    Put::Damaged(blob, "it is gone".to_owned())
                } else {
                    Put::Useless
                };
            }

            let put = {
                let Ok(_turn) = self.uploads.acquire().await else {
                    return Put::Useless;
                };
                link::content::put(&self.connection, &self.blobs.path_of(&blob), blob).await
            };
            let error = match put {
                Ok(()) => return Put::Taken(blob),
                Err(LinkError::Refused(refusal)) if refusal.code == RefusalCode::Invalid => {
                    return Put::Refused(blob, refusal.message);
                }
                Err(error) => error,
            };
            tries += 1;
            // While storage is away for long this is no news.
            if tries.is_power_of_two() {
                tracing::warn!(hash = %blob.hash, %error, tries, "the master has not taken an output");
            }
            if let Some(why) = self.damage(blob, &error).await {
                return Put::Damaged(blob, why);
            }

            tokio::select! {
                _ = self.connection.closed() => return Put::Useless,
                () = tokio::time::sleep(UPLOAD_RETRY) => {}
            }
        }
    }

    /// Returns what is wrong with a blob of the spool that did not arrive, if the fault is the
    /// blob's: sending it again would be of no use.
    async fn damage(&self, blob: BlobRef, error: &LinkError) -> Option<String> {
        let arrived_damaged =
            matches!(error, LinkError::Refused(refusal) if refusal.code == RefusalCode::Conflict);
        if !arrived_damaged && !matches!(error, LinkError::File { .. }) {
            return None;
        }

        let path = self.blobs.path_of(&blob);
        match yielding(move || link::content::hash_file(&path)).await {
            Ok(Ok(found)) if found == blob => None,
            Ok(Ok(_)) => Some("it has changed since it was written".to_owned()),
            Ok(Err(error)) => Some(error.to_string()),
            // The worker ends.
            Err(_) => None,
        }
    }

    /// Waits until the master has received everything, or is gone.
    pub(crate) async fn closed(&self) {
        self.outbox.closed().await;
    }

    /// Ends the connection.
    pub(crate) async fn close(&self) {
        self.connection.close("the worker leaves").await;
    }
}

/// The result of an upload.
enum Put {
    /// The master has it.
    Taken(BlobRef),
    /// The master will never accept this one; says why.
    Refused(BlobRef, String),
    /// The blob in the spool is damaged, so it cannot be sent any more; says how.
    Damaged(BlobRef, String),
    /// Nobody waits for it over this connection any more.
    Useless,
}

/// Gives a result up that was damaged on this host: its outcome becomes `ResultLost`, and the task
/// runs again.
fn give_up(completion: &mut Completion, blob: BlobRef, why: &str) {
    let lost = take_out(completion, blob);
    let what = format!("{} in the worker's spool: {why}", lost.join(", "));
    tracing::error!(attempt = %completion.attempt, what, "a result is lost: see this host's disk");
    completion.outcome = Outcome::ResultLost(what);
}

/// Removes from a completion a blob that the master will never accept; an attempt without it has
/// not succeeded.
fn leave_out(completion: &mut Completion, blob: BlobRef, why: &str) {
    let lost = take_out(completion, blob);
    if completion.outcome.success() {
        completion.outcome = Outcome::BadOutput(format!("{}: {why}", lost.join(", ")));
    }
}

/// Removes a blob from a completion, and returns the names of the streams and files that it was.
fn take_out(completion: &mut Completion, blob: BlobRef) -> Vec<String> {
    let mut lost = Vec::new();
    for (name, stream) in [
        ("standard output", &mut completion.stdout),
        ("standard error", &mut completion.stderr),
    ] {
        if stream.content.blob() == Some(blob) {
            stream.dropped += blob.size;
            stream.content = Content::default();
            lost.push(name.to_owned());
        }
    }

    let gone = completion.outputs.extract_if(.., |file| file.blob == blob);
    lost.extend(gone.map(|file| file.path.to_string()));
    lost
}

/// Splits deliveries into messages that are neither too many nor too long.
fn batches(deliveries: Vec<Delivery>) -> Vec<Vec<Delivery>> {
    let mut all = Vec::new();
    let mut batch = Vec::new();
    let mut bytes = 0;

    for delivery in deliveries {
        let size = about(&delivery);
        if !batch.is_empty() && (batch.len() >= BATCH || bytes + size > BATCH_BYTES) {
            all.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += size;
        batch.push(delivery);
    }

    if !batch.is_empty() {
        all.push(batch);
    }

    all
}

/// Estimates the bytes that a delivery without blobs takes.
fn about(delivery: &Delivery) -> usize {
    let inline = |content: &Content| {
        if let Content::Inline(bytes) = content {
            bytes.len()
        } else {
            0
        }
    };
    let Delivery { completion, .. } = delivery;
    let warnings: usize = completion.warnings.iter().map(String::len).sum();
    100 + completion.outcome.to_string().len()
        + warnings
        + inline(&completion.stdout.content)
        + inline(&completion.stderr.content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_a_master_names_is_waited_for_once() {
        let base = Duration::from_millis(100);
        let mut again = Again::new(base, base, Duration::from_secs(60));
        let mut first = || {
            again.spread = Duration::from_secs(10);
            (again.delay(), again.delay())
        };
        let drawn: Vec<_> = (0..50).map(|_| first()).collect();

        assert!(
            drawn
                .iter()
                .any(|(first, _)| *first > Duration::from_secs(5))
        );
        assert!(
            drawn
                .iter()
                .any(|(first, _)| *first < Duration::from_secs(5))
        );
        assert!(drawn.iter().all(|(_, second)| *second <= base));
    }
}
