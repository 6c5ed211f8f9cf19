//! Executes `deskgrid task tail` and `deskgrid job cat --follow`: prints what a task writes while
//! it runs, and at its end the rest from its result. A lost connection is made again.

use common::attempt::StreamKind;
use common::selector::Selector;
use common::text::{PiecedText, ShownOutput};
use common::view::{OutputView, TaskState};
use common::wire::client::{Reply, Request, TailFrom, TailNews};
use common::wire::stream::TailPart;
use common::{AttemptId, IdSet, TaskId};
use link::client::unexpected;
use serde::Serialize;

use super::Context;
use super::cat::{note_removed, written};
use super::unconfirmed::UnconfirmedResults;
use crate::args::OutputMode;
use crate::args::value::{OneJob, OneTask};
use crate::failure::{Exit, Failure};
use crate::output::{document, note};
use crate::session::Session;
use crate::watch::{Interrupted, WayBack, note_lost};

/// The times that a master may refuse a result for now. It may be shutting down; what it cannot read, it cannot read
/// later either.
pub(super) const REFUSALS: u32 = 6;

/// Some output of a running task, as a line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    task: String,
    attempt: String,
    host: &'a str,
    offset: u64,
    text: String,
}

/// A task whose output is printed.
struct Tail<'a> {
    context: &'a Context,
    task: TaskId,
    stream: StreamKind,
    /// The next byte.
    at: TailFrom,
    /// The attempt that is shown, with its host.
    shown: Option<(AttemptId, String)>,
    /// The output so far, as a terminal shows it.
    screen: ShownOutput,
    /// The output of the shown attempt so far, as lines of JSON have it.
    text: PiecedText,
    /// Whether the notes on the result are printed.
    told: bool,
    /// The times that the master has refused the result for now.
    refused: u32,
}

/// Prints one stream of each of these tasks from its beginning, one task after the other.
pub(super) async fn each(
    context: &Context,
    session: &Session,
    job: OneJob,
    stream: StreamKind,
    tasks: Selector,
) -> Result<Exit, Failure> {
    let job = session.job_id(job).await?;
    let mut session = session.clone();
    for view in session.tasks(job, tasks, Vec::new()).await? {
        let tail = Tail::new(context, view.task, stream, TailFrom::Start);
        session = tail.run(session).await?;
    }

    Ok(Exit::Well)
}

/// Prints the newest output of a task, and then what it writes.
pub(super) async fn newest(
    context: &Context,
    session: &Session,
    task: OneTask,
    stderr: bool,
) -> Result<Exit, Failure> {
    let job = session.job_id(task.job).await?;
    let task = TaskId::new(job, task.index);
    let stream = if stderr {
        StreamKind::Stderr
    } else {
        StreamKind::Stdout
    };

    let tail = Tail::new(context, task, stream, TailFrom::Newest);
    tail.run(session.clone()).await?;
    Ok(Exit::Well)
}

/// Whether a result that was not had is tried over another connection. A master that is away is waited for; one that
/// has `refused` it too often is believed.
fn goes_round(failure: &Failure, refused: &mut u32) -> bool {
    if failure.exit != Exit::Unreachable {
        *refused += 1;
    }
    failure.is_away() && *refused < REFUSALS
}

impl<'a> Tail<'a> {
    /// Begins with this byte of one stream of a task.
    fn new(context: &'a Context, task: TaskId, stream: StreamKind, at: TailFrom) -> Self {
        Self {
            context,
            task,
            stream,
            at,
            shown: None,
            screen: ShownOutput::default(),
            text: PiecedText::default(),
            told: false,
            refused: 0,
        }
    }

    /// Prints until the task is settled. Returns the session, whose connection may be another one by then.
    async fn run(mut self, mut session: Session) -> Result<Session, Failure> {
        let mut way = WayBack::new(&self.context.state, None);
        loop {
            match self.follow(&session).await {
                // The master may go away between the end of the task and its result, too.
                Ok(true) => match self.rest(&session).await {
                    Ok(()) => return Ok(session),
                    Err(failure) if goes_round(&failure, &mut self.refused) => note_lost(&failure),
                    Err(failure) => return Err(failure),
                },
                Ok(false) => note("the master ended the answer; connecting again"),
                Err(Interrupted::Link(error)) if error.passing() => {
                    note(&format!("{error}; connecting again"));
                }
                Err(Interrupted::Link(error)) => return Err(error.into()),
                Err(Interrupted::Here(failure)) => return Err(failure),
            }

            let Some(client) = way.connect().await? else {
                return Ok(session);
            };
            session = session.over(client);
        }
    }

    /// Prints what one answer brings; true if the task is settled.
    async fn follow(&mut self, session: &Session) -> Result<bool, Interrupted> {
        let request = Request::Tail {
            task: self.task,
            stream: self.stream,
            from: self.at,
        };

        let mut replies = session.client().stream(&request).await?;
        while let Some(reply) = replies.next().await? {
            match reply {
                Reply::Tail(TailNews::Begins { attempt, host }) => {
                    self.begins(attempt, host).map_err(Interrupted::Here)?;
                }
                Reply::Tail(TailNews::Part(part)) => self.part(&part).map_err(Interrupted::Here)?,
                Reply::Tail(TailNews::Waits(why)) => {
                    note(&format!("{}: nothing to show for now: {why}", self.task));
                }
                Reply::Tail(TailNews::Settled) => return Ok(true),
                other => return Err(Interrupted::Link(unexpected(Some(&other)))),
            }
        }
        Ok(false)
    }

    fn begins(&mut self, attempt: AttemptId, host: String) -> Result<(), Failure> {
        match &self.shown {
            Some((before, _)) if *before == attempt => {}
            Some((before, on)) => {
                note(&format!(
                    "{before} on {on} is over, and no result counts yet: {attempt} on {host} follows, from its beginning"
                ));
                self.end_text()?;
                self.at = TailFrom::Byte(attempt, 0);
                self.told = false;
            }
            None if self.at == TailFrom::Start => self.at = TailFrom::Byte(attempt, 0),
            None => {}
        }
        self.shown = Some((attempt, host));
        Ok(())
    }

    fn part(&mut self, part: &TailPart) -> Result<(), Failure> {
        let Some((attempt, host)) = self.shown.clone() else {
            return Ok(());
        };
        if let TailFrom::Byte(_, next) = self.at
            && part.offset > next
        {
            let missing = part.offset - next;
            note(&format!(
                "{attempt}: {missing} bytes are left out: they were written faster than they are shown, or too many are kept"
            ));
            self.end_text()?;
        }

        let next = part.offset.saturating_add(part.bytes.len() as u64);
        self.piece(&part.bytes, part.offset, attempt, &host)?;
        self.at = TailFrom::Byte(attempt, next);
        Ok(())
    }

    /// Prints a piece of output that begins at this byte.
    fn piece(
        &mut self,
        bytes: &[u8],
        offset: u64,
        attempt: AttemptId,
        host: &str,
    ) -> Result<(), Failure> {
        if self.context.out.mode() != OutputMode::Json {
            return self.context.out.of_task(&mut self.screen, bytes);
        }
        let offset = offset.saturating_sub(self.text.begun());
        let text = self.text.piece(bytes);
        self.line(text, offset, attempt, host)
    }

    /// Prints what has come of a character whose end does not come.
    fn end_text(&mut self) -> Result<(), Failure> {
        let begun = self.text.begun();
        let text = self.text.end();
        match (self.at, &self.shown) {
            (TailFrom::Byte(attempt, next), Some((_, host))) => {
                self.line(text, next.saturating_sub(begun), attempt, host)
            }
            _ => Ok(()),
        }
    }

    /// Prints text as a line of JSON, if there is any.
    fn line(
        &self,
        text: String,
        offset: u64,
        attempt: AttemptId,
        host: &str,
    ) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        let line = Line {
            task: self.task.to_string(),
            attempt: attempt.to_string(),
            host,
            offset,
            text,
        };
        let line = format!("{}\n", document(&line));
        self.context.out.bytes(line.as_bytes())
    }

    /// Says once what the result is: that outputs were removed, that the task was cancelled, since what was printed ends
    /// like the output of one that finished, and that others have not confirmed it, if they were to.
    async fn tell(&mut self, session: &Session, outputs: &[OutputView]) -> Result<(), Failure> {
        if self.told {
            return Ok(());
        }
        let TaskId { job, index } = self.task;
        let this = IdSet::from_range(index, index);
        let one = Selector::Ids(this.clone());
        let states = vec![TaskState::Cancelled];
        let cancelled = session.tasks(job, one.clone(), states).await?;
        let unconfirmed = match outputs.is_empty() {
            true => UnconfirmedResults::default(),
            false => UnconfirmedResults::of(session, job, &one).await?,
        };

        // From here on nothing is asked after something was printed.
        note_removed(session, outputs).await?;
        if !cancelled.is_empty() {
            note(&format!("{} was cancelled", self.task));
        }
        for line in unconfirmed.notes(job, &this) {
            note(&line);
        }
        self.told = true;
        Ok(())
    }

    /// Prints what the result of the settled task has beyond what was printed.
    async fn rest(&mut self, session: &Session) -> Result<(), Failure> {
        let this = Selector::Ids(IdSet::from_range(self.task.index, self.task.index));
        let outputs = session.outputs(self.task.job, this).await?;
        self.tell(session, &outputs).await?;

        for output in &outputs {
            let (bytes, _) = written(session, output, self.stream).await?;
            let printed = match (self.at, &self.shown) {
                (TailFrom::Byte(attempt, next), _) if attempt == output.attempt => next,
                (_, Some((before, _))) if *before != output.attempt => {
                    note(&format!(
                        "the result is that of {} on {}: its output follows",
                        output.attempt, output.host
                    ));
                    self.end_text()?;
                    0
                }
                _ => 0,
            };
            let skip = usize::try_from(printed).unwrap_or(usize::MAX);
            if let Some(rest) = bytes.get(skip..).filter(|rest| !rest.is_empty()) {
                self.piece(rest, printed, output.attempt, &output.host)?;
                let next = printed.saturating_add(rest.len() as u64);
                self.at = TailFrom::Byte(output.attempt, next);
                self.shown = Some((output.attempt, output.host.clone()));
            }
        }
        self.end_text()
    }
}

#[cfg(test)]
mod tests {
    use common::wire::{Refusal, RefusalCode};
    use link::LinkError;

    use super::*;

    #[test]
    fn a_master_that_is_away_is_waited_for_and_one_that_cannot_read_a_result_is_believed() {
        let refusal = |code| Failure::from(LinkError::Refused(Refusal::new(code, "m", "")));
        let mut refused = 0;
        let stands_by = || LinkError::StandsBy {
            master: "h:1".into(),
            active: None,
        };
        for _ in 0..REFUSALS * 2 {
            let away = [LinkError::Closed("gone".into()), stands_by()].map(Failure::from);
            assert!(away.iter().all(|failure| goes_round(failure, &mut refused)));
        }
        assert!(!goes_round(&refusal(RefusalCode::NotFound), &mut refused));

        let mut refused = 0;
        let tries =
            (0..).take_while(|_| goes_round(&refusal(RefusalCode::Unavailable), &mut refused));
        assert_eq!(tries.count() + 1, REFUSALS as usize);
    }
}
