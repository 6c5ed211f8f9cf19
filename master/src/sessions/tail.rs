//! Shows the output of a task while it runs: the worker is asked for it, and opens a stream that is
//! passed on. Nothing is asked for, sent or kept while nobody looks.

use std::time::Duration;

use common::attempt::StreamKind;
use common::selector::Selector;
use common::view::TaskState;
use common::wire::RefusalCode;
use common::wire::client::{Reply, TailFrom, TailNews};
use common::wire::stream::TailPart;
use common::{AttemptId, IdSet, TaskId};
use link::{Channel, LinkError};

use super::answer::Response;
use super::answers::{Answered, Asker, chosen, refuse};
use super::client::push;
use super::unshared::Unshared;
use crate::core::NoReply;
use crate::core::ask::{JobAsk, TailAsk};

/// The longest time that a worker may take to open its stream (`Open::Tail`).
const OPENS: Duration = Duration::from_secs(10);
/// The longest time to wait for news of a task without a live attempt, before it is looked at again.
const WAITING: Duration = Duration::from_secs(30);
/// The longest time to wait for news of an attempt whose stream has ended: its worker may have lost
/// the connection, and be back without the core having changed anything.
const ENDED: Duration = Duration::from_secs(1);
/// The shortest time between two looks.
const AGAIN: Duration = Duration::from_millis(200);
/// The most bytes of one part that is passed on.
const PART: usize = 64 * 1024;

/// Shows one stream of a task until the task is settled.
pub(super) async fn tail(
    asker: &Asker,
    task: TaskId,
    stream: StreamKind,
    from: TailFrom,
    tx: &mut Response,
) -> Answered<()> {
    let unshared = asker.unshared();
    asker.pick_one(task.job).await?;
    let this = Selector::Ids(IdSet::from_range(task.index, task.index));
    let spec = asker.spec(task.job).await?;
    chosen(task.job, &this, &spec)?;

    let (mut changed, _) = asker.counters();
    let mut viewer = Viewer {
        unshared,
        job: IdSet::from_range(task.job.0, task.job.0),
        at: from,
        begun: None,
        waits: None,
    };
    loop {
        changed.mark_unchanged();
        let patience = match viewer.look(asker, task, stream, tx).await? {
            Seen::Settled => return Ok(()),
            Seen::Nothing => WAITING,
            Seen::Some => ENDED,
        };
        tokio::select! {
            biased;
            ended = viewer.unshared.among(&viewer.job) => viewer.still_sees(asker, ended).await?,
            () = tx.gone() => return Ok(()),
            alive = changed.changed() => if alive.is_err() {
                return Err(NoReply::Stopped.into());
            },
            () = tokio::time::sleep(patience) => {}
        }
        tokio::select! {
            biased;
            ended = viewer.unshared.among(&viewer.job) => viewer.still_sees(asker, ended).await?,
            () = tokio::time::sleep(AGAIN) => {}
        }
    }
}

/// Whoever looks at a task, and how far that is.
struct Viewer {
    unshared: Unshared,
    /// The task's job.
    job: IdSet,
    /// The next byte.
    at: TailFrom,
    /// The attempt that was last said to begin.
    begun: Option<AttemptId>,
    /// The reason for waiting that was last told.
    waits: Option<String>,
}

/// The result of `Viewer::look`.
enum Seen {
    /// It has, or had, a live attempt.
    Some,
    /// It has no live attempt.
    Nothing,
    /// It is settled, or nobody looks any more.
    Settled,
}

impl Viewer {
    /// Refuses if the share of the task's job has `ended`, and the asker may no longer see it.
    async fn still_sees(&self, asker: &Asker, ended: Answered<IdSet>) -> Answered<()> {
        asker.still_seen(self.job.clone(), ended?).await.map(drop)
    }

    /// Shows what a live attempt of the task prints, to its end, as [`TailNews`].
    async fn look(
        &mut self,
        asker: &Asker,
        task: TaskId,
        stream: StreamKind,
        tx: &mut Response,
    ) -> Answered<Seen> {
        let mut ticket = asker.state().tails.enter();
        let ask = TailAsk {
            task,
            stream,
            from: self.at,
            ticket: ticket.number,
        };
        let found: Option<(AttemptId, String)> = asker.core(JobAsk::Tail(ask)).await?;
        let Some((attempt, host)) = found else {
            return self.without_attempt(asker, task, tx).await;
        };

        let opened = tokio::select! {
            opened = tokio::time::timeout(OPENS, ticket.stream()) => opened.ok().flatten(),
            () = tx.gone() => return Ok(Seen::Settled),
        };
        match opened {
            Some(channel) => self.pass_on(asker, channel, (attempt, host), tx).await?,
            None => {
                let why = format!(
                    "its host {host} does not answer now: it is not connected, or eight others look at its tasks' output"
                );
                self.wait(asker, why, tx).await?;
            }
        }
        Ok(Seen::Some)
    }

    /// Says with `TailNews::Waits` why a task without a live attempt has nothing to show, unless it is settled.
    async fn without_attempt(
        &mut self,
        asker: &Asker,
        task: TaskId,
        tx: &mut Response,
    ) -> Answered<Seen> {
        let this = Selector::Ids(IdSet::from_range(task.index, task.index));
        let mut listing = asker.listing(task.job, &this).await?;
        let view = asker.next_tasks(&mut listing).await?;
        let view = view.and_then(|views| views.into_iter().next());
        let Some(view) = view else {
            return Err(refuse(
                RefusalCode::NotFound,
                format!("there is no task {task} any more"),
                "",
            ));
        };

        match view.state {
            TaskState::Finished | TaskState::Failed | TaskState::Cancelled => {
                self.send(asker, TailNews::Settled, tx).await?;
                Ok(Seen::Settled)
            }
            TaskState::Waiting | TaskState::Disclosed => {
                self.wait(asker, format!("it is {}", view.state), tx)
                    .await?;
                Ok(Seen::Nothing)
            }
            // An attempt was started a moment ago.
            TaskState::Running | TaskState::Suspended => Ok(Seen::Some),
        }
    }

    /// Passes the output of an attempt on until the worker's stream ends.
    async fn pass_on(
        &mut self,
        asker: &Asker,
        mut channel: Channel,
        (attempt, host): (AttemptId, String),
        tx: &mut Response,
    ) -> Answered<()> {
        self.waits = None;
        if self.begun.replace(attempt) != Some(attempt) {
            self.send(asker, TailNews::Begins { attempt, host }, tx)
                .await?;
        }

        loop {
            let next = channel.rx.recv::<TailPart>();
            tokio::pin!(next);
            let part = loop {
                tokio::select! {
                    biased;
                    ended = self.unshared.among(&self.job) => {
                        self.still_sees(asker, ended).await?;
                    }
                    () = tx.gone() => return Ok(()),
                    part = &mut next => break part,
                }
            };
            match part {
                Ok(Some(part)) if part.bytes.len() <= PART => {
                    let next = part.offset.saturating_add(part.bytes.len() as u64);
                    self.at = TailFrom::Byte(attempt, next);
                    self.send(asker, TailNews::Part(part), tx).await?;
                }
                Ok(None) => return Ok(()),
                odd => {
                    let error = odd.err().unwrap_or_else(|| {
                        LinkError::Protocol("a part of an output is too long".to_owned())
                    });
                    tracing::debug!(%attempt, %error, "its output is not shown further");
                    return Ok(());
                }
            }
        }
    }

    async fn wait(&mut self, asker: &Asker, why: String, tx: &mut Response) -> Answered<()> {
        if self.waits.as_ref() == Some(&why) {
            return Ok(());
        }
        self.waits = Some(why.clone());
        self.send(asker, TailNews::Waits(why), tx).await
    }

    /// Sends [`TailNews`], in this user's turn.
    async fn send(&self, asker: &Asker, news: TailNews, tx: &mut Response) -> Answered<()> {
        let _turn = asker.answer_turn().await;
        push(tx, &Reply::Tail(news))?;
        Ok(tx.flush().await?)
    }
}
