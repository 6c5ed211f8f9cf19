//! Asks the host of a running task for its output, for somebody who looks.

use common::AttemptId;
use common::wire::client::TailFrom;
use common::wire::worker::TailOrder;

use super::Core;
use super::ask::TailAsk;

impl Core {
    /// Asks the host of a live attempt of the task with a `TailOrder`, and returns the attempt with the host's name;
    /// `None` if there is none that a host could show. If several are live, it is the one that was
    /// shown before, or else the one that has run for longest.
    pub(super) fn tail(&mut self, ask: TailAsk) -> Option<(AttemptId, String)> {
        let before = match ask.from {
            TailFrom::Byte(attempt, _) => Some(attempt),
            TailFrom::Start | TailFrom::Newest => None,
        };
        let live = self.scheduler.live_attempts(ask.task.job);
        let live = live.filter(|live| live.attempt.task == ask.task);
        let best = live.max_by_key(|live| {
            let again = Some(live.attempt) == before;
            let ran = live.ran_by(self.now);
            (again, live.phase.executing(), ran, live.attempt.number)
        })?;

        let (attempt, host) = (best.attempt, best.host);
        let from = match ask.from {
            TailFrom::Byte(shown, byte) if shown == attempt => Some(byte),
            TailFrom::Newest => None,
            TailFrom::Byte(..) | TailFrom::Start => Some(0),
        };

        self.mail(host).tail.push(TailOrder {
            attempt,
            stream: ask.stream,
            from,
            ticket: ask.ticket,
        });
        Some((attempt, self.host_name(host)))
    }
}
