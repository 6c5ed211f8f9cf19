//! The state of tasks that checkpoint: the part of a task that the master holds, from which its next
//! attempt goes on. Attempts that are frozen save theirs in `still`.

use common::AttemptId;

use super::host::Attempt;
use super::outcome::AttemptFate;
use super::simulator::RunState;
use crate::kernel::Observer;

impl<O: Observer> RunState<'_, '_, O> {
    /// The part of the task that the master holds, at which its next attempt begins.
    pub(super) fn safe_part(&self, id: AttemptId) -> f64 {
        if !self.sim.job(id).checkpoint || id.number == 1 {
            return 0.0;
        }
        let ended = self.sim.task_of(id.task).part;
        let unended = self.sim.unended.get(&id.task).into_iter().flatten();
        unended
            .map(|number| self.shipped(&self.sim.attempts[*number as usize]))
            .fold(ended, f64::max)
    }

    /// Notes an attempt that has begun on its host, if its task checkpoints.
    pub(super) fn note_begun(&mut self, number: u32) {
        let id = self.sim.attempts[number as usize].id;
        if self.sim.job(id).checkpoint {
            self.sim.unended.entry(id.task).or_default().push(number);
        }
    }

    /// Keeps the part that an attempt which ends has shipped, if its task checkpoints and needs it.
    pub(super) fn keep_part(&mut self, number: u32, fate: AttemptFate) {
        let attempt = &self.sim.attempts[number as usize];
        let id = attempt.id;
        if !self.sim.job(id).checkpoint {
            return;
        }

        let shipped = self.shipped(attempt);
        if let Some(unended) = self.sim.unended.get_mut(&id.task) {
            unended.retain(|other| *other != number);
        }
        if fate != AttemptFate::Delivered {
            let part = &mut self.sim.task(id.task).part;
            *part = part.max(shipped);
        }
    }

    /// The part of its task that an attempt had done at its host's last heartbeat.
    fn shipped(&self, attempt: &Attempt) -> f64 {
        let beat = self.sim.hosts[attempt.host as usize].last_beat(self.kernel.now);
        if beat < attempt.began {
            0.0
        } else {
            attempt.done(self.world.courses[attempt.host as usize].at(beat), beat)
        }
    }
}
