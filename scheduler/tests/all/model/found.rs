//! The model of attempts that were given up and that their hosts still hold.

use super::*;

impl Model {
    /// Attempts that were given up and that their host still holds may have been taken back, and
    /// may have made room since.
    pub(super) fn adopt(
        &mut self,
        listed: &[HeldAttempt],
        event: &Event,
        effects: &[Effect],
        scheduler: &Scheduler,
    ) {
        let Some(id) = speaker(event) else { return };
        let Some(books) = scheduler.host(id).map(|host| host.attempts) else {
            return;
        };
        for held in listed {
            self.find_again(id, held.attempt);
            let Some(known) = self.attempts.get(&held.attempt) else {
                continue;
            };
            let made_room = effects
                .iter()
                .any(|effect| preempted(effect) == Some(held.attempt));
            let stopping = self.stopping.contains_key(&held.attempt);
            if known.live || stopping || !(made_room || books.contains(&held.attempt)) {
                continue;
            }

            assert_eq!(
                known.host, id,
                "one host's books: {} is taken back by the host that had it",
                held.attempt
            );
            assert!(
                !known.delivered && !known.returned && !known.bygone,
                "{} is over",
                held.attempt
            );

            let TaskId { job, index } = held.attempt.task;
            let live = self.live_of(held.attempt.task);
            assert!(
                live.len() < self.settings.max_copies as usize,
                "{index} has {live:?} already"
            );

            let job = self.jobs.get_mut(&job).expect("the job is there");
            assert!(
                job.open(index),
                "{} is taken back though its task is settled",
                held.attempt
            );

            let attempt = self.attempts.get_mut(&held.attempt).expect("known");
            (attempt.live, attempt.phase, attempt.frozen) =
                (true, held.phase, held.phase == Phase::Held);
        }
    }

    /// An attempt that its host still holds was no loss.
    fn find_again(&mut self, host: HostId, attempt: AttemptId) {
        let TaskId { job, index } = attempt.task;
        let Some(known) = self.attempts.get_mut(&attempt) else {
            return;
        };
        let job = self.jobs.get_mut(&job).filter(|job| job.open(index));
        if let Some(job) = job
            && !known.live
            && known.host == host
            && !known.delivered
            && std::mem::take(&mut known.charged)
        {
            *job.losses.get_mut(&index).expect("charged") -= 1;
        }
    }
}
