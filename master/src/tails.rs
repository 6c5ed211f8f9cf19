//! Brings whoever looks at the output of a running task together with the stream that the task's
//! worker opens for it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use link::Channel;
use tokio::sync::oneshot;

use crate::locked;

/// Those who look and have no stream yet.
#[derive(Debug, Default)]
pub(crate) struct Tails {
    waiting: Mutex<BTreeMap<u64, oneshot::Sender<Channel>>>,
}

/// The entry of one who looks, until it is dropped.
#[derive(Debug)]
pub(crate) struct TailTicket<'a> {
    tails: &'a Tails,
    /// Its number, which only the asked worker knows.
    pub(crate) number: u64,
    stream: oneshot::Receiver<Channel>,
}

impl Tails {
    /// Enters one who looks.
    pub(crate) fn enter(&self) -> TailTicket<'_> {
        let number = rand::random();
        let (give, stream) = oneshot::channel();
        locked(&self.waiting).insert(number, give);
        TailTicket {
            tails: self,
            number,
            stream,
        }
    }

    /// Gives a worker's stream to whoever has this number; a stream that nobody waits for ends.
    pub(crate) fn give(&self, number: u64, channel: Channel) {
        if let Some(waiting) = locked(&self.waiting).remove(&number) {
            let _ = waiting.send(channel);
        }
    }
}

impl TailTicket<'_> {
    /// Waits for the worker's stream; `None` if it is not to come.
    pub(crate) async fn stream(&mut self) -> Option<Channel> {
        (&mut self.stream).await.ok()
    }
}

impl Drop for TailTicket<'_> {
    fn drop(&mut self) {
        locked(&self.tails.waiting).remove(&self.number);
    }
}
