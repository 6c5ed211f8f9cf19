//! A worker's control stream. Its messages are passed on as they come; the gateway itself watches that
//! the worker is there, as a master does. When the master is gone, the worker stays connected and is
//! told of the next one.

use std::time::Duration;

use bytes::Bytes;
use common::wire::decode;
use common::wire::stream::Open;
use common::wire::worker::{ToMaster, ToWorker};
use link::alive::AliveWatch;
use link::error::NOT_NOW;
use link::{Channel, FrameReceiver, FrameSender, LinkError};
use tokio::sync::mpsc::{Receiver, channel};

use crate::ELSEWHERE;
use crate::door::NO_MASTER;
use crate::session::{REASON, STALL, WorkerSession};

/// The time for which workers wait here for a master. Then they are sent elsewhere.
const HOLD: Duration = Duration::from_secs(30);
/// The length up to which a message of a worker may be a promise to send again.
const PROMISE: usize = 16;
/// The first bytes of `ToWorker::Assign` and `ToWorker::AssignTogether`.
const ASSIGNS: [u8; 2] = [2, 8];
/// The most bytes that are kept for one write.
const FULL: usize = 64 * 1024;
/// The most messages of the gateway's own that wait for a worker.
const OWN: usize = 8;

/// The way in which a control stream ended.
enum ControlEnd {
    /// The worker's stream, or its connection.
    Worker,
    /// The master's stream: it said all that it had to say.
    Master,
    /// The connection to the master, or this stream of it.
    Lost,
}

/// Serves a worker's control stream ([`Open::Control`]).
pub(crate) async fn serve(session: &WorkerSession, worker: Channel) -> Result<(), LinkError> {
    let master = session.gateway.upstream.borrow().clone();
    let Some(master) = master else {
        leave(session, NO_MASTER);
        return Ok(());
    };
    let mut upstream = match session.pass(&Open::Control).await {
        Ok(upstream) => upstream,
        // The master's reason, if it has one, comes on another stream.
        Err(error) => {
            hear_why(session).await;
            return Err(error);
        }
    };
    let _ = upstream.tx.raw().set_priority(1);

    let (outbox, mut own) = channel(OWN);
    let alive = AliveWatch::new(session.gateway.workers.enter(), &outbox);
    let Channel { mut tx, mut rx } = worker;
    let _ = tx.raw().set_priority(1);
    let ended = tokio::select! {
        ended = up(&mut rx, upstream.tx, &alive) => ended,
        ended = down(session, upstream.rx, (&mut tx, &mut own), &alive) => ended,
        broken = alive.broken(&session.connection) => Err(broken),
        _ = master.lost() => Ok(ControlEnd::Lost),
    };

    match ended {
        Ok(ControlEnd::Worker) => Ok(()),
        Ok(ControlEnd::Lost) if !master.is_there() => wait(session, rx, tx, &alive).await,
        Ok(ControlEnd::Master) => {
            tx.finish();
            tx.delivered().await;
            session.said.notify_one();
            Ok(())
        }
        Ok(ControlEnd::Lost) => {
            hear_why(session).await;
            Ok(())
        }
        Err(error) => {
            session
                .connection
                .close(ELSEWHERE, error.to_string().as_bytes());
            Err(error)
        }
    }
}

/// Waits until the worker was told the master's reason for ending its session, which comes on another stream.
async fn hear_why(session: &WorkerSession) {
    session.said.notify_one();
    let closed = session.connection.closed();
    if tokio::time::timeout(REASON, closed).await.is_err() {
        leave(session, "the master broke the conversation off");
    }
}

/// Passes the worker's messages on, but for those that are `heard` here.
async fn up(
    rx: &mut FrameReceiver,
    mut tx: FrameSender,
    alive: &AliveWatch,
) -> Result<ControlEnd, LinkError> {
    while let Some(body) = rx.recv_body().await? {
        if !heard(&body, alive) {
            tx.push_body(&body)?;
        }
        while tx.pending() < FULL
            && let Some(body) = rx.take_body()?
        {
            if !heard(&body, alive) {
                tx.push_body(&body)?;
            }
        }
        if tx.flush().await.is_err() {
            return std::future::pending().await;
        }
    }

    // The last words may be on their way.
    tx.finish();
    tx.delivered().await;
    Ok(ControlEnd::Worker)
}

/// Whether a message is for the gateway: [`ToMaster::Alive`], a promise to send again.
fn heard(body: &Bytes, alive: &AliveWatch) -> bool {
    if body.len() > PROMISE {
        return false;
    }
    match decode(body) {
        Ok(ToMaster::Alive(next)) => {
            alive.on_promise(next);
            true
        }
        _ => false,
    }
}

/// Passes the master's messages on. A worker that takes none of them for a while is put out: the
/// others behind the same connection are not to wait for it.
async fn down(
    session: &WorkerSession,
    mut rx: FrameReceiver,
    (tx, own): (&mut FrameSender, &mut Receiver<ToWorker>),
    alive: &AliveWatch,
) -> Result<ControlEnd, LinkError> {
    let mut answered = false;
    loop {
        tokio::select! {
            body = rx.recv_body() => match body {
                Ok(Some(body)) => {
                    if !std::mem::replace(&mut answered, true) {
                        session.gateway.sessions.answered(session.shown.number);
                    }
                    note(&body, alive, tx)?;
                }
                // One that is not let in is told why on another stream.
                Ok(None) if !answered => return Ok(ControlEnd::Lost),
                Ok(None) => return Ok(ControlEnd::Master),
                Err(_) => return Ok(ControlEnd::Lost),
            },
            Some(message) = own.recv() => tx.push(&message)?,
        }
        while tx.pending() < FULL
            && let Some(body) = rx.take_body()?
        {
            note(&body, alive, tx)?;
        }

        match tokio::time::timeout(STALL, tx.flush()).await {
            Ok(flushed) => flushed?,
            Err(_) => return Err(session.is_slow()),
        }
    }
}

fn note(body: &Bytes, alive: &AliveWatch, tx: &mut FrameSender) -> Result<(), LinkError> {
    if body.first().is_some_and(|kind| ASSIGNS.contains(kind)) {
        alive.on_assigned();
    }
    tx.push_body(body)
}

/// Keeps the worker until there is a master again, and has it greet that one ([`ToWorker::Anew`]). What it says meanwhile
/// is dropped: it says again all that counts.
async fn wait(
    session: &WorkerSession,
    mut rx: FrameReceiver,
    mut tx: FrameSender,
    alive: &AliveWatch,
) -> Result<(), LinkError> {
    let mut upstream = session.gateway.upstream.subscribe();
    let again = async {
        // The one that was lost may still be there for a moment.
        loop {
            let found = upstream.wait_for(Option::is_some).await;
            let master = found.ok().and_then(|found| found.clone());
            let Some(master) = master else {
                return std::future::pending().await;
            };
            if master.is_there() {
                return;
            }
            if upstream.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    };
    let listen = async {
        while let Ok(Some(body)) = rx.recv_body().await {
            heard(&body, alive);
        }
    };

    tokio::select! {
        () = again => {
            let anew = async {
                tx.send(&ToWorker::Anew).await?;
                tx.finish();
                tx.delivered().await;
                Ok::<_, LinkError>(())
            };
            match tokio::time::timeout(STALL, anew).await {
                Ok(told) => told?,
                Err(_) => return Err(session.is_slow()),
            }
        }
        () = listen => {}
        () = tokio::time::sleep(HOLD) => {
            leave(session, "this gateway has had no connection to a master for a while");
        }
        broken = alive.broken(&session.connection) => {
            session.connection.close(ELSEWHERE, broken.to_string().as_bytes());
        }
    }
    Ok(())
}

/// Sends a worker elsewhere, as after [`HOLD`].
fn leave(session: &WorkerSession, why: &str) {
    session.connection.close(NOT_NOW, why.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::Span;
    use common::wire::encode;
    use common::wire::frame::PREFIX;

    #[test]
    fn promises_and_assignments_are_known_by_their_bytes() {
        let promise = encode(&ToMaster::Alive(Span(u64::MAX))).unwrap();
        assert!(promise.len() - PREFIX <= PROMISE);
        for (kind, message) in ASSIGNS.into_iter().zip([
            ToWorker::Assign(Vec::new()),
            ToWorker::AssignTogether(Vec::new()),
        ]) {
            assert_eq!(encode(&message).unwrap()[PREFIX], kind);
        }
    }
}
