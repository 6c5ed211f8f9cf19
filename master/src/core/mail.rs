//! Collects the changes for one host (`HostMail`) and packs them into as few messages as the frame
//! limit allows.

use common::AttemptId;
use common::site::SiteSettings;
use common::update::SignedUpdate;
use common::wire::Refusal;
use common::wire::worker::{Assignment, Errand, TailOrder, ToWorker};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::sessions::live::PeerLink;

/// The changes for one host, in the order in which they are sent.
#[derive(Debug, Default)]
pub(crate) struct HostMail {
    /// The `Welcome`, sent first.
    pub(crate) welcome: Option<ToWorker>,
    /// New attempts.
    pub(crate) assign: Vec<Assignment>,
    /// New attempts that start together with others elsewhere.
    pub(crate) together: Vec<Assignment>,
    /// Attempts of `together` that may start.
    pub(crate) begin: Vec<AttemptId>,
    /// Attempts to end, each with the reason.
    pub(crate) stop: Vec<(AttemptId, String)>,
    /// Attempts to end after their state is saved, each with the reason.
    pub(crate) give_way: Vec<(AttemptId, String)>,
    /// Attempts to freeze (`true`) or to thaw (`false`), in this order.
    pub(crate) hold: Vec<(AttemptId, bool)>,
    /// Completions that are durable.
    pub(crate) acknowledge: Vec<AttemptId>,
    /// Held attempts that the host is to abandon.
    pub(crate) abandon: Vec<AttemptId>,
    /// Whether a heartbeat wants its answer.
    pub(crate) beat: bool,
    /// The number up to which recorded availability is durable.
    pub(crate) kept: Option<u64>,
    /// Attempts whose output somebody looks at.
    pub(crate) tail: Vec<TailOrder>,
    /// The reason why the host gets no new tasks, where it changed.
    pub(crate) out_of_service: Option<Option<String>>,
    /// The settings for the host.
    pub(crate) site: Option<SiteSettings>,
    /// The new program for the host.
    pub(crate) update: Option<SignedUpdate>,
    /// The reason for refusing the worker; if set, nothing else is sent.
    pub(crate) refuse: Option<Refusal>,
}

/// The bytes to which messages grow; with one more entry of at most as much they stay below the
/// frame limit.
const FULL: usize = 100 * 1024;
/// An upper bound on the bytes of an id.
const ID_BYTES: usize = 24;
/// The bytes of the largest assignment that is taken, as [`assignment_bytes`] counts.
pub(crate) const MAX_ASSIGNMENT: usize = FULL;
/// An upper bound on the bytes of a text's length.
pub(super) const LENGTH_BYTES: usize = 4;
/// An upper bound on the bytes of an input without its name.
pub(super) const INPUT_BYTES: usize = 48;
/// An upper bound on the bytes of an assignment without its command's texts: what it has, with a
/// checkpoint, takes less than these ids.
pub(super) const FIXED_BYTES: usize = 12 * ID_BYTES;

/// Returns an upper bound on the bytes that an assignment takes in a message.
pub(crate) fn assignment_bytes(assignment: &Assignment) -> usize {
    let Errand::Command(command) = &assignment.work else {
        return 2 * ID_BYTES;
    };
    let text = |s: &str| s.len() + LENGTH_BYTES;
    let strings = command
        .argv
        .iter()
        .chain(&command.outputs)
        .map(|s| text(s))
        .sum::<usize>();

    let env = command
        .env
        .iter()
        .map(|(k, v)| text(k) + text(v))
        .sum::<usize>();
    let inputs = command
        .inputs
        .iter()
        .map(|input| text(input.path.as_str()) + INPUT_BYTES)
        .sum::<usize>();

    let stdin = command.stdin.as_ref().map_or(0, |p| text(p.as_str()));
    FIXED_BYTES + strings + env + inputs + stdin
}

impl HostMail {
    /// Takes out an assignment that was not sent yet; false if there is none. An order to stop it
    /// would arrive before it.
    pub(crate) fn take_back(&mut self, attempt: AttemptId) -> bool {
        let before = self.assign.len() + self.together.len();
        self.assign
            .retain(|assignment| assignment.attempt != attempt);
        self.together
            .retain(|assignment| assignment.attempt != attempt);
        self.assign.len() + self.together.len() < before
    }

    /// The messages, in the order in which they must arrive.
    pub(crate) fn messages(self) -> Vec<ToWorker> {
        if let Some(refusal) = self.refuse {
            return vec![ToWorker::Refused(refusal)];
        }

        let mut messages: Vec<ToWorker> = self.welcome.into_iter().collect();
        for ids in self.acknowledge.chunks(FULL / ID_BYTES) {
            messages.push(ToWorker::Acknowledged(ids.to_vec()));
        }

        for (id, why) in self.stop {
            match messages.last_mut() {
                Some(ToWorker::Stop {
                    attempts,
                    why: before,
                }) if *before == why && attempts.len() < FULL / ID_BYTES => {
                    attempts.push(id);
                }
                _ => messages.push(ToWorker::Stop {
                    attempts: vec![id],
                    why,
                }),
            }
        }

        messages.extend(self.give_way.into_iter().map(|(id, why)| ToWorker::Yield {
            attempts: vec![id],
            why,
        }));
        for (id, held) in self.hold {
            match messages.last_mut() {
                Some(ToWorker::Hold { attempts, frozen })
                    if *frozen == held && attempts.len() < FULL / ID_BYTES =>
                {
                    attempts.push(id);
                }
                _ => messages.push(ToWorker::Hold {
                    attempts: vec![id],
                    frozen: held,
                }),
            }
        }

        if self.beat || !self.abandon.is_empty() {
            let mut chunks = self.abandon.chunks(FULL / ID_BYTES);
            messages.push(ToWorker::Beat {
                abandon: chunks.next().unwrap_or_default().to_vec(),
            });
            messages.extend(chunks.map(|ids| ToWorker::Beat {
                abandon: ids.to_vec(),
            }));
        }

        messages.extend(batches(self.assign).into_iter().map(ToWorker::Assign));
        messages.extend(
            batches(self.together)
                .into_iter()
                .map(ToWorker::AssignTogether),
        );
        messages.extend(
            self.begin
                .chunks(FULL / ID_BYTES)
                .map(|ids| ToWorker::Begin(ids.to_vec())),
        );
        messages.extend(self.kept.map(|last| ToWorker::Kept { last }));
        messages.extend(self.tail.into_iter().map(ToWorker::Tail));
        messages.extend(self.out_of_service.map(ToWorker::OutOfService));
        messages.extend(self.site.map(ToWorker::Site));
        messages.extend(self.update.map(|update| ToWorker::Update(Box::new(update))));

        messages
    }
}

/// Splits assignments into portions of at most `FULL` bytes, as [`assignment_bytes`] counts.
fn batches(assignments: Vec<Assignment>) -> Vec<Vec<Assignment>> {
    let mut batches = Vec::<Vec<Assignment>>::new();
    let mut bytes = 0;
    for assignment in assignments {
        let more = assignment_bytes(&assignment);
        match batches.last_mut() {
            Some(batch) if bytes < FULL => {
                bytes += more;
                batch.push(assignment);
            }
            _ => {
                bytes = more;
                batches.push(vec![assignment]);
            }
        }
    }

    batches
}

/// The most messages that wait for a worker that does not read them.
const WAITING: usize = 1_024;

/// The queue of messages to a worker. Dropping it ends the session, and so does a worker that does
/// not read.
pub struct Outbox {
    tx: Sender<ToWorker>,
    /// Closes the session.
    close: Box<dyn Fn() + Send>,
}

impl Outbox {
    /// The queue to the worker of this connection, and its receiving end.
    pub(crate) fn new(connection: PeerLink) -> (Self, Receiver<ToWorker>) {
        Self::closing(Box::new(move || {
            connection.close(link::error::NOT_NOW, b"it does not read what it is told");
        }))
    }

    /// The queue to a worker without a connection. If it is full, messages are dropped.
    pub(crate) fn loose() -> (Self, Receiver<ToWorker>) {
        Self::closing(Box::new(|| {}))
    }

    fn closing(close: Box<dyn Fn() + Send>) -> (Self, Receiver<ToWorker>) {
        let (tx, rx) = channel(WAITING);
        (Self { tx, close }, rx)
    }

    /// Returns the sending end, for messages beside the core's.
    pub(crate) fn sender(&self) -> &Sender<ToWorker> {
        &self.tx
    }

    /// Sends a message, or closes the session if the queue is full. A session that is closing takes
    /// nothing: the worker's next session settles what the message held.
    pub(super) fn send(&self, message: ToWorker) {
        if matches!(self.tx.try_send(message), Err(TrySendError::Full(_))) {
            (self.close)();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::needs::Demand;
    use common::wire::encode;
    use common::wire::worker::Command;
    use common::{Incarnation, JobId, TaskId};

    fn attempt(index: u32) -> AttemptId {
        AttemptId {
            task: TaskId::new(JobId(u32::MAX), index),
            number: u32::MAX,
            incarnation: Incarnation(u32::MAX),
        }
    }

    #[test]
    fn a_worker_that_reads_nothing_is_put_out_before_much_waits_for_it() {
        let (closed, seen) = std::sync::mpsc::channel();
        let (outbox, mut inbox) = Outbox::closing(Box::new(move || closed.send(()).unwrap()));
        for _ in 0..WAITING {
            outbox.send(ToWorker::Goodbye);
        }
        assert!(seen.try_recv().is_err());
        outbox.send(ToWorker::Goodbye);
        assert!(seen.try_recv().is_ok());
        assert_eq!(inbox.len(), WAITING);
        assert!(inbox.try_recv().is_ok());
    }

    #[test]
    fn every_message_fits_a_frame_and_nothing_is_lost() {
        let command = |n: usize| Command {
            argv: vec!["x".repeat(n)],
            env: vec![("A".into(), "b".repeat(50)); 20],
            inputs: Vec::new(),
            outputs: vec!["*".into()],
            stdin: None,
            keep_stdout: true,
            keep_stderr: true,
            checkpoint: None,
            confinement: None,
            network: false,
            takes: Demand::PLAIN,
        };

        let big = |i: u32| Assignment {
            attempt: attempt(i),
            limit: None,
            report_every: None,
            work: Errand::Command(Box::new(command(90_000))),
        };
        let mut two = HostMail {
            assign: vec![big(1), big(2)],
            ..HostMail::default()
        };
        assert!(two.take_back(attempt(1)) && !two.take_back(attempt(1)));
        assert!(matches!(&two.messages()[..], [ToWorker::Assign(left)] if left.len() == 1));

        let ids: Vec<AttemptId> = (u32::MAX - 20_000..u32::MAX).map(attempt).collect();
        let mail = HostMail {
            assign: (0..10).map(big).collect(),
            stop: ids.iter().map(|id| (*id, "because".to_owned())).collect(),
            acknowledge: ids.clone(),
            abandon: ids.clone(),
            ..HostMail::default()
        };
        let messages = mail.messages();
        assert!(messages.iter().all(|m| encode(m).is_ok()));

        let count = |f: fn(&ToWorker) -> usize| messages.iter().map(f).sum::<usize>();
        assert_eq!(
            count(|m| if let ToWorker::Assign(a) = m {
                a.len()
            } else {
                0
            }),
            10
        );

        assert_eq!(
            count(|m| if let ToWorker::Stop { attempts, .. } = m {
                attempts.len()
            } else {
                0
            }),
            20_000
        );

        assert_eq!(
            count(|m| if let ToWorker::Acknowledged(a) = m {
                a.len()
            } else {
                0
            }),
            20_000
        );

        assert_eq!(
            count(|m| if let ToWorker::Beat { abandon } = m {
                abandon.len()
            } else {
                0
            }),
            20_000
        );
    }
}
