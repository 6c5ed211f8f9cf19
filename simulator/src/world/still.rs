//! Attempts that do not compute although their hosts could: ranks that wait for each other, frozen
//! attempts whose slot another has, and those whose slot a stopped one has not left. The scheduler
//! decides which attempts these are.

use common::needs::Demand;
use common::{AttemptId, HostId, Span, Time};
use scheduler::Event;

use super::host::{ComputeState, Numbers};
use super::outcome::{AttemptFate, Standstill};
use super::plan::WorldEvent;
use super::simulator::RunState;
use crate::kernel::{NEVER, Observer, World as _, owner};

impl<O: Observer> RunState<'_, '_, O> {
    /// Reports the phase of an attempt to the scheduler: its files are in place, it was told to
    /// begin, or it was frozen or thawed.
    pub(super) fn on_moved(&mut self, number: u32) {
        let attempt = &self.sim.attempts[number as usize];
        if attempt.end.is_some() {
            return;
        }

        let place = attempt.host as usize;
        let stretch = self.stretch(place);
        if matches!(attempt.pace, ComputeState::Waits(_)) && !stretch.ready() {
            return self.give_back(place);
        }

        let held = vec![attempt.held(&stretch, self.kernel.now)];
        self.step(Event::AttemptsMoved {
            host: self.id(place),
            held,
        });
    }

    /// Gives back the ranks on a host that have not begun, because its owner is there. Attempts of
    /// other jobs begin as soon as they come.
    pub(super) fn give_back(&mut self, place: usize) {
        if !self.tells_phases {
            return;
        }

        let waits = |number: &u32| {
            matches!(
                self.sim.attempts[*number as usize].pace,
                ComputeState::Waits(_)
            )
        };

        let (back, held): (Numbers, Numbers) =
            self.sim.hosts[place].held.iter().copied().partition(waits);
        if back.is_empty() {
            return;
        }

        self.sim.hosts[place].held = held;
        let attempts = back
            .iter()
            .map(|number| self.sim.attempts[*number as usize].id)
            .collect();
        back.into_iter()
            .for_each(|number| self.finish(number, AttemptFate::Returned));
        self.on_fewer(place);

        let host = self.id(place);
        let ready = self.stretch(place).ready();
        self.sim.hosts[place].told.0 = ready;
        self.step(Event::OwnerChanged {
            host,
            owner: owner(ready),
        });
        self.step(Event::AttemptsReturned { host, attempts });
    }

    /// Returns the time at which a host has room for an attempt of this demand that it is given now.
    /// Where attempts that the scheduler has stopped are in its way, that is when the host hears of
    /// it.
    pub(super) fn room_at(&self, place: usize, takes: Demand) -> Time {
        let host = &self.sim.hosts[place];
        let held = host.held.iter();
        let held = held.map(|number| &self.sim.attempts[*number as usize]);
        if !held.clone().any(|attempt| attempt.stopped) {
            return self.kernel.now;
        }

        // Frozen attempts leave their slots and processors, and keep their memory.
        let in_slots = held.clone().filter(|attempt| !attempt.is_still());
        let slots = in_slots.clone().count() as u32 + 1;
        let cores = in_slots.map(|attempt| self.sim.job(attempt.id).takes.cores);
        let cores = cores.sum::<u32>() + takes.cores;
        let memory = held.map(|attempt| u64::from(self.sim.job(attempt.id).takes.memory_mib));
        let memory = memory.sum::<u64>() + u64::from(takes.memory_mib);

        let size = self.run.sizes.and_then(|sizes| sizes.get(place));
        let fits = slots <= self.run.slots_at(place)
            && size.is_none_or(|size| cores <= size.cores && memory <= u64::from(size.memory_mib));
        if fits { self.kernel.now } else { host.beat_at }
    }

    /// Begins a rank: all ranks of its gang are ready.
    pub(super) fn begin_rank(&mut self, host: HostId, id: AttemptId) {
        let Some((place, number)) = self.held_at(host, id) else {
            return;
        };
        let attempt = &mut self.sim.attempts[number as usize];
        if matches!(attempt.pace, ComputeState::Waits(_)) {
            attempt.from = self.kernel.now;
            attempt.from_cpu_s = 0.0;
            attempt.from_ran = Span::ZERO;
            self.go_on_from(place, number);
        }
    }

    /// Freezes an attempt, so that another gets its slot.
    pub(super) fn freeze(&mut self, host: HostId, id: AttemptId) {
        let Some((place, number)) = self.held_at(host, id) else {
            return;
        };
        let now = self.kernel.now;
        let stretch = self.stretch(place);
        let attempt = &mut self.sim.attempts[number as usize];
        if attempt.pace != ComputeState::Free {
            return;
        }

        let cpu_s = attempt.cpu_s(&stretch, now);
        let ran = attempt.ran(&stretch, now);
        let done = attempt.done(&stretch, now);

        attempt.from_cpu_s = cpu_s;
        attempt.from_ran = ran;
        attempt.done_at = NEVER;
        attempt.pace = ComputeState::Still(now);

        if self.sim.job(id).checkpoint {
            // Its state is saved when it is frozen.
            let part = &mut self.sim.task(id.task).part;
            *part = part.max(done);
        }

        self.plan(now, WorldEvent::Moved(number));
    }

    /// Thaws an attempt that has a slot again.
    pub(super) fn thaw(&mut self, host: HostId, id: AttemptId) {
        let Some((place, number)) = self.held_at(host, id) else {
            return;
        };
        if let ComputeState::Still(since) = self.sim.attempts[number as usize].pace {
            self.stood_still(id, place, since);
            self.go_on_from(place, number);
        }
    }

    /// Lets an attempt compute from now on. What it had before is read from `from_cpu_s` and
    /// `from_ran`, which then become its host's sums again.
    fn go_on_from(&mut self, place: usize, number: u32) {
        let now = self.kernel.now;
        let stretch = self.stretch(place);
        let attempt = &mut self.sim.attempts[number as usize];
        let had_s = attempt.from_cpu_s;
        let ran = attempt.from_ran;
        let left_s = ((1.0 - attempt.part) / attempt.part_per_s - had_s).max(0.0);

        attempt.from = attempt.from.min(now);
        attempt.from_cpu_s = stretch.cpu_s(now) - had_s;
        attempt.from_ran = Span(stretch.ran(now).0.saturating_sub(ran.0));
        attempt.pace = ComputeState::Free;

        let done_at = self.computed(place, now, left_s);
        self.sim.attempts[number as usize].done_at = done_at.unwrap_or(NEVER);
        if let Some(at) = done_at {
            self.plan(at, WorldEvent::Done(number));
        }

        self.plan(now, WorldEvent::Moved(number));
    }

    /// Notes the interval in which an attempt was frozen, if the run keeps the story.
    pub(super) fn stood_still(&mut self, id: AttemptId, place: usize, since: Time) {
        if self.run.story {
            let after_s = |at: Time| at.since(self.start).secs();
            self.outcome.still.push(Standstill {
                job: id.task.job.0,
                task: id.task.index,
                number: id.number,
                host: place as u32,
                from_s: after_s(since),
                to_s: after_s(self.kernel.now),
            });
        }
    }
}
