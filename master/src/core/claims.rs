//! Bounds the time that a worker claims for an attempt: at most the time since the attempt was
//! assigned, and the processor time of all the host's cores. Of one that the master has ended, the time
//! after its end counts only until its host must have heard of it. Billing is done elsewhere.

use common::attempt::{Outcome, Spent};
use common::{AttemptId, Completion, HostId, Span};
use scheduler::Event;

use super::Core;
use crate::store::StoreResult;

/// The slack for differing clocks and for processor time counted in ticks: this span plus one part
/// in `SLACK_PART` of the time is believed.
const SLACK: Span = Span::from_millis(100);
const SLACK_PART: u64 = 16;
/// The most that is believed of any time, whatever the clock says: a hundred years of processor time
/// are nine months on 128 cores. The store can add up the times of 2,900 such attempts of a task.
const MOST: Span = Span::from_secs(100 * 365 * 86_400);
/// Of attempts that ran for less, most of the time is the start of a process.
const LEAST_RAN: Span = Span::from_millis(50);

/// A host's claim for an attempt, as far as it is believed.
pub(super) struct BelievedClaim {
    /// The most that is possible.
    possible: Spent,
    /// The part that counts, unless a result that came after the end of its attempt is taken all the same.
    pub(super) spent: Spent,
}

/// Returns the claim cut to what is possible on a host with `cores` cores within `had`, and to [`MOST`].
fn bounded(claimed: Spent, had: Span, cores: u32) -> Spent {
    let with_slack = |span: Span| {
        Span(
            span.0
                .saturating_add(SLACK.0)
                .saturating_add(span.0 / SLACK_PART),
        )
    };
    let most = with_slack(had).min(MOST);
    let ran = claimed.ran.min(most);
    let suspended = claimed.suspended.min(most);
    let of_cores = with_slack(ran).0.saturating_mul(u64::from(cores.max(1)));
    let cpu = claimed.cpu.min(Span(of_cores)).min(MOST);

    Spent {
        ran,
        suspended,
        cpu,
        ..claimed
    }
}

/// Returns the event with the processor time of a completed attempt, which tells tasks that wait
/// from tasks that compute. `None` where that cannot be known: for one that ended within
/// [`LEAST_RAN`], or whose host measures no processor time.
pub(super) fn used(host: HostId, outcome: &Outcome, spent: Spent) -> Option<Event> {
    let Spent {
        attempt, ran, cpu, ..
    } = spent;
    let known = outcome.success() && ran >= LEAST_RAN && cpu > Span::ZERO;
    known.then_some(Event::AttemptUsed { host, attempt, cpu })
}

impl Core {
    /// Returns the believed part of a host's claim for its own attempt. Audits the host's first
    /// claim beyond that.
    pub(super) fn believed(&mut self, host: HostId, claimed: Spent) -> StoreResult<BelievedClaim> {
        let Some((assigned, ended)) = self.store.assigned(claimed.attempt, host)? else {
            // Nothing counts of an attempt that the host was not given.
            let nothing = Spent {
                ran: Span::ZERO,
                suspended: Span::ZERO,
                cpu: Span::ZERO,
                ..claimed
            };
            return Ok(BelievedClaim {
                possible: nothing,
                spent: nothing,
            });
        };

        // If the clock was set back meanwhile, the elapsed time is unknown.
        let had = if assigned > self.now {
            MOST
        } else {
            self.now.since(assigned)
        };
        let cores = self.cores_of(host);
        let believed = bounded(claimed, had, cores);
        if believed != claimed && self.first_wild_claim(host) {
            let Spent {
                attempt, ran, cpu, ..
            } = claimed;
            let why = format!(
                "it claims to have run for {ran} with {cpu} of processor time, and got the attempt {had} ago: {} and {} count",
                believed.ran, believed.cpu
            );
            tracing::warn!(%host, %attempt, why, "a claim that cannot be true");

            let name = self.host_name(host);
            self.audit(&name, "claim", &format!("attempt {attempt}"), Err(&why))?;
        }

        // A host that is cut off computes on: that is no wild claim, but nobody waits for it. A lost
        // attempt that was found again is waited for, though its end is stored.
        let until_heard = ended
            .filter(|ended| *ended >= assigned && !self.lives_on(host, claimed.attempt))
            .map(|ended| ended.since(assigned) + self.lease);
        Ok(BelievedClaim {
            possible: believed,
            spent: until_heard.map_or(believed, |had| bounded(believed, had, cores)),
        })
    }

    fn lives_on(&self, host: HostId, attempt: AttemptId) -> bool {
        let live = self.scheduler.task_attempts(attempt.task);
        live.iter()
            .any(|live| live.attempt == attempt && live.host == host)
    }

    /// Applies `believed` to a completion. A completion of an attempt that the host was never given
    /// is still answered, with all times zero. Returns what counts of it if it is not taken.
    pub(super) fn hold_against_time(
        &mut self,
        host: HostId,
        completion: &mut Completion,
    ) -> StoreResult<Spent> {
        let BelievedClaim { possible, spent } = self.believed(host, Spent::of(completion))?;
        completion.ran = possible.ran;
        completion.suspended = possible.suspended;
        completion.cpu = possible.cpu;
        Ok(spent)
    }
}

#[cfg(test)]
mod tests {
    use common::view::AttemptState;
    use common::{Incarnation, JobId, TaskId, Time};

    use super::super::retention::tests::core;
    use super::*;
    use crate::store::tests::{add_job_with, attempt, spec, start};

    fn spent(ran: Span, cpu: Span) -> Spent {
        let attempt = AttemptId {
            task: TaskId::new(JobId(1), 1),
            number: 1,
            incarnation: Incarnation(1),
        };
        Spent {
            attempt,
            ran,
            suspended: Span::ZERO,
            cpu,
        }
    }

    #[test]
    fn the_processor_time_of_a_success_is_told_unless_it_was_short_or_not_measured() {
        let told =
            |outcome: Outcome, ran: Span, cpu: Span| used(HostId(1), &outcome, spent(ran, cpu));
        let (long, cpu) = (Span::from_secs(9), Span::from_millis(3));
        let event = told(Outcome::Succeeded, long, cpu).expect("a success of nine seconds");
        let host = HostId(1);
        let attempt = spent(long, cpu).attempt;
        assert_eq!(event, Event::AttemptUsed { host, attempt, cpu });

        assert_eq!(told(Outcome::Exited(1), long, cpu), None);
        assert_eq!(told(Outcome::Succeeded, long, Span::ZERO), None);
        assert_eq!(told(Outcome::Succeeded, Span::from_millis(20), cpu), None);
    }

    #[test]
    fn impossible_reports_are_cut_to_the_possible() {
        let hour = Span::from_secs(3_600);
        let honest = spent(hour, Span::from_secs(2 * 3_600));
        assert_eq!(bounded(honest, hour, 2), honest);

        for wild in [u64::MAX, 1 << 62, 1 << 40] {
            let cut = bounded(spent(Span(wild), Span(wild)), hour, 2);
            assert!(
                cut.ran < hour + Span::from_secs(300) && cut.cpu < Span::from_secs(2 * 4_100),
                "{wild}: {cut:?}"
            );
        }

        assert!(
            bounded(spent(Span(5), Span(u64::MAX)), hour, 1).cpu < Span::from_secs(1),
            "of the time that it ran"
        );
    }

    #[test]
    fn claims_from_before_the_clock_was_set_back_add_up_in_the_account_of_their_user() {
        let dir = tempfile::tempdir().unwrap();
        let mut core = core(dir.path(), Time(1), true);
        let job = add_job_with(&mut core.store, 1, (&spec(1), &[]), "ann");
        let host = HostId(1);
        for number in 1..=20 {
            let id = attempt(job, 1, number);
            start(&mut core.store, id);
            let state = AttemptState::Killed;
            core.store
                .attempt_ended(id, state, core.now, "no need")
                .unwrap();
            let claim = Spent {
                attempt: id,
                ..spent(Span(u64::MAX), Span(u64::MAX))
            };
            let counts = core.believed(host, claim).unwrap().spent;
            assert_eq!((counts.ran, counts.cpu), (MOST, MOST));
            core.store.attempt_spent(host, &counts, core.now).unwrap();
        }

        core.store.forget_job(job).unwrap();
        core.store.clear_forgotten(core.now, 100).unwrap();
    }

    #[test]
    fn what_is_claimed_long_after_the_end_of_an_attempt_counts_until_its_host_had_to_hear_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let month = Span::from_secs(30 * 86_400);
        let now = Time(2) + month;
        let mut core = core(dir.path(), now, true);
        let job = add_job_with(&mut core.store, 1, (&spec(2), &[]), "ann");
        let killed = attempt(job, 1, 1);
        let lives = attempt(job, 2, 1);
        start(&mut core.store, killed);
        start(&mut core.store, lives);
        let second = Span::from_secs(1);
        let state = AttemptState::Killed;
        core.store
            .attempt_ended(killed, state, Time(2) + second, "no need")
            .unwrap();

        let claim = |attempt| Spent {
            attempt,
            ..spent(month, month)
        };
        let believed = core.believed(HostId(1), claim(killed)).unwrap();
        let most = bounded(claim(killed), second + core.lease, 1);
        assert_eq!(believed.spent, most);
        assert!(most.cpu < Span::from_secs(3_600), "{most:?}");
        assert_eq!(believed.possible, claim(killed), "if its result is taken");
        let believed = core.believed(HostId(1), claim(lives)).unwrap();
        assert_eq!(believed.spent, claim(lives), "it has computed for a month");

        // A time that it can have computed counts in full.
        let short = spent(second, second);
        let short = Spent {
            attempt: killed,
            ..short
        };
        assert_eq!(core.believed(HostId(1), short).unwrap().spent, short);
    }
}
