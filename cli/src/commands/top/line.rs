//! The line to the master: carries out the requests of `App`, and connects again where the
//! connection is lost. Knows nothing of what is asked.

use std::collections::BTreeMap;

use common::wire::client::Reply;
use link::{Client, LinkError};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::ask::{AskSlot, GridAsk, GridNews};
use crate::failure::Failure;
use crate::state::StateDir;
use crate::watch::WayBack;

/// The news that may wait to be taken: a stream that brings them faster is held back.
const AHEAD: usize = 64;

/// News of one connection, or of the way to the next.
enum LineNews {
    /// To be passed on.
    Grid(GridNews),
    /// The connection with this number is gone.
    Gone(u64, LinkError),
    /// There is a new one.
    Connected(Client),
    /// The master lets nobody in any more.
    Refused(LinkError),
}

/// The line to the master, over a `Client`.
pub(super) struct MasterLine {
    state: StateDir,
    client: Option<Client>,
    /// The number of the connection.
    connection: u64,
    work: JoinSet<()>,
    streams: BTreeMap<AskSlot, AbortHandle>,
    tx: mpsc::Sender<LineNews>,
    rx: mpsc::Receiver<LineNews>,
}

impl MasterLine {
    /// A line that begins with this connection.
    pub(super) fn new(state: &StateDir, client: Client) -> Self {
        let (tx, rx) = mpsc::channel(AHEAD);
        Self {
            state: state.clone(),
            client: Some(client),
            connection: 0,
            work: JoinSet::new(),
            streams: BTreeMap::new(),
            tx,
            rx,
        }
    }

    /// Sends a [`GridAsk`]. Without a connection nothing comes of it: the one who asks is told of that.
    pub(super) fn send(&mut self, ask: GridAsk) {
        let Some(client) = self.client.clone() else {
            return;
        };
        let slot = match &ask {
            GridAsk::Once { slot, .. } | GridAsk::Stream { slot, .. } => *slot,
            GridAsk::Content { slot, .. } | GridAsk::Stop(slot) => *slot,
        };
        if let Some(before) = self.streams.remove(&slot) {
            before.abort();
        }

        let streams = matches!(ask, GridAsk::Stream { .. });
        let tx = self.tx.clone();
        let connection = self.connection;
        let handle = self.work.spawn(async move {
            let end = match carry_out(&client, ask, &tx).await {
                Ok(()) => return,
                Err(error) => LineNews::Gone(connection, error),
            };
            let _ = tx.send(end).await;
        });
        if streams {
            self.streams.insert(slot, handle);
        }
    }

    /// Waits for the next news.
    ///
    /// # Errors
    /// If the master does not let this identity in any more.
    pub(super) async fn news(&mut self) -> Result<GridNews, Failure> {
        loop {
            let news = tokio::select! {
                Some(news) = self.rx.recv() => news,
                Some(done) = self.work.join_next() => match done {
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    _ => continue,
                },
            };
            match news {
                LineNews::Grid(news) => return Ok(news),
                LineNews::Gone(connection, error) => {
                    if connection == self.connection && self.client.is_some() {
                        self.client = None;
                        self.connect_again();
                        return Ok(GridNews::Lost(error.to_string()));
                    }
                }
                LineNews::Connected(client) => {
                    let back = GridNews::Back(client.user().to_owned(), client.role());
                    self.client = Some(client);
                    return Ok(back);
                }
                LineNews::Refused(error) => return Err(error.into()),
            }
        }
    }

    fn connect_again(&mut self) {
        self.connection += 1;
        self.streams.clear();
        self.work.abort_all();
        let state = self.state.clone();
        let tx = self.tx.clone();

        self.work.spawn(async move {
            let news = match WayBack::new(&state, None).connect().await {
                Ok(Some(client)) => LineNews::Connected(client),
                Ok(None) => return,
                Err(error) => LineNews::Refused(error),
            };
            let _ = tx.send(news).await;
        });
    }
}

/// Carries out a request; an error means that the connection is gone.
async fn carry_out(
    client: &Client,
    ask: GridAsk,
    tx: &mpsc::Sender<LineNews>,
) -> Result<(), LinkError> {
    let tell = |news| async { tx.send(LineNews::Grid(news)).await.unwrap_or_default() };

    match ask {
        GridAsk::Once {
            slot,
            serial,
            request,
            most,
        } => {
            let answer = refusal(collect(client, &request, most).await)?;
            tell(GridNews::Answer(slot, serial, answer)).await;
        }
        GridAsk::Stream {
            slot,
            serial,
            request,
        } => {
            let mut replies = client.stream(&request).await?;
            let end = loop {
                match refusal(replies.next().await)? {
                    Ok(Some(reply)) => tell(GridNews::Piece(slot, serial, reply)).await,
                    Ok(None) => break Ok(()),
                    Err(failure) => break Err(failure),
                }
            };
            tell(GridNews::Ended(slot, serial, end)).await;
        }
        GridAsk::Content {
            slot,
            serial,
            blob,
            from,
        } => {
            let bytes = refusal(content(client, blob, from).await)?;
            tell(GridNews::Bytes(slot, serial, bytes)).await;
        }
        GridAsk::Stop(_) => {}
    }
    Ok(())
}

/// Tells refusals, which are answers, from the loss of the connection.
fn refusal<T>(answer: Result<T, LinkError>) -> Result<Result<T, Failure>, LinkError> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(error @ LinkError::Refused(_)) => Ok(Err(error.into())),
        Err(error) => Err(error),
    }
}

/// Collects replies until they hold `most` tasks or jobs, or all.
async fn collect(
    client: &Client,
    request: &common::wire::client::Request,
    most: usize,
) -> Result<Vec<Reply>, LinkError> {
    let mut replies = client.stream(request).await?;
    let mut all = Vec::new();
    let mut count = 0;

    while count < most
        && let Some(reply) = replies.next().await?
    {
        count += match &reply {
            Reply::Tasks(tasks) => tasks.len(),
            Reply::Jobs(jobs) => jobs.len(),
            _ => 0,
        };
        all.push(reply);
    }
    Ok(all)
}

async fn content(client: &Client, blob: common::BlobRef, from: u64) -> Result<Vec<u8>, LinkError> {
    let mut reader = client.content(blob.hash, from).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = reader.next().await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}
