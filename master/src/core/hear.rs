//! Applies a worker's messages to the core (`Core::on_said`). Transport lives in `sessions`; so
//! does content, which is read before the core hears of it.

use common::host::{Loan, Status};
use common::wire::worker::ToMaster;
use common::wire::{Refusal, RefusalCode, Versions};
use common::{BlobRef, HostId, Span};
use scheduler::Event;

use super::{Connected, Core, Outbox, SessionId};
use crate::store::StoreResult;

/// The most slots that a greeting may name: more than the command line takes, so that a larger
/// number is a mistake or hostile.
const MAX_SLOTS: u32 = 4_096;

/// Reads the first message of a worker: a `Connected` if it is a valid `Hello`, a refusal
/// otherwise.
pub(crate) fn greeted(
    hello: ToMaster,
    (host, name): (HostId, String),
    session: SessionId,
    outbox: Outbox,
    heartbeat: Span,
) -> Result<Connected, Refusal> {
    let invalid =
        |what: &str| Refusal::new(RefusalCode::Invalid, what, "is this a deskgrid worker?");

    let ToMaster::Hello {
        versions,
        facts,
        status,
        held,
    } = hello
    else {
        return Err(invalid("the first message must be Hello"));
    };

    let version = Versions::ours().agree(&versions)?;
    if !(1..=MAX_SLOTS).contains(&facts.slots) {
        return Err(invalid(&format!(
            "a host has 1 to {MAX_SLOTS} slots, not {}",
            facts.slots
        )));
    }

    if !facts.is_sound() {
        return Err(invalid(
            "the host's platform, labels or graphics processors are no words that one can show",
        ));
    }

    Ok(Connected {
        host,
        name,
        session,
        outbox,
        version,
        heartbeat,
        facts: *facts,
        status: sound(status),
        held: super::progress::sound(held),
    })
}

/// Returns the status with `cpu` clamped to 0..=1 (0 if it is not finite).
fn sound(status: Status) -> Status {
    let cpu = if status.cpu.is_finite() {
        status.cpu.clamp(0.0, 1.0)
    } else {
        0.0
    };
    Status { cpu, ..status }
}

/// The longest time that a loan may state, as an owner's hours repeat every week.
const WEEK: Span = Span::from_secs(7 * 86_400);

/// Returns the loan with its times cut to at most a week, and `again` and `longest` raised to at
/// least `left`.
fn possible(loan: Loan) -> Loan {
    let left = loan.left.min(WEEK);
    Loan {
        left,
        again: loan.again.clamp(left, WEEK),
        longest: loan.longest.clamp(left, WEEK),
    }
}

/// Checks that all content of the completions in a `Delivered` message is `there`; the error names a
/// completion that came without its content.
pub(crate) fn with_its_content(
    message: &ToMaster,
    there: impl Fn(&BlobRef) -> bool,
) -> Result<(), String> {
    let ToMaster::Delivered(deliveries) = message else {
        return Ok(());
    };
    let whole = |completion: &common::Completion| completion.blobs().all(|blob| there(&blob));
    match deliveries
        .iter()
        .find(|delivery| !whole(&delivery.completion))
    {
        Some(broken) => Err(format!(
            "the completion of {} came without its content",
            broken.completion.attempt
        )),
        None => Ok(()),
    }
}

impl Core {
    /// Handles a worker's message after the greeting. `Hello` and `Checkpoint` are ignored here:
    /// the content of a checkpoint is read first, elsewhere.
    pub(super) fn on_said(
        &mut self,
        host: HostId,
        session: SessionId,
        message: ToMaster,
    ) -> StoreResult<()> {
        match message {
            ToMaster::Hello { .. } | ToMaster::Checkpoint { .. } => Ok(()),
            ToMaster::Delivered(deliveries) => deliveries
                .into_iter()
                .try_for_each(|delivery| self.on_delivery(host, delivery)),
            ToMaster::Instance(run) => self.on_instance(host, session, run),
            // The rest of an earlier session is dropped: the present one has reported what the host
            // holds. A revoked host has none that counts.
            _ if !self.is_current(host, session) => Ok(()),
            ToMaster::Heartbeat { status, held } => {
                let held = super::progress::sound(held);
                self.on_heartbeat(host, sound(status), held)
            }
            ToMaster::Phases(held) => {
                let held = super::progress::sound(held);
                self.on_phases(host, &held.clone(), Event::AttemptsMoved { host, held })
            }
            ToMaster::Words(words) => {
                self.on_words(host, words);
                Ok(())
            }
            ToMaster::Returned { attempts, why } => {
                tracing::debug!(%host, count = attempts.len(), why, "returned");
                self.on_event(host, Event::AttemptsReturned { host, attempts })
            }
            ToMaster::Weighed { attempt, bytes } => {
                tracing::debug!(%host, %attempt, ?bytes, "weighed");
                let weighed = Event::AttemptWeighed {
                    host,
                    attempt,
                    bytes,
                };
                self.on_event(host, weighed)
            }
            ToMaster::Owner(owner) => self.on_event(host, Event::OwnerChanged { host, owner }),
            ToMaster::Closing => {
                self.updates.closes(host);
                self.on_event(host, Event::HostClosing { host })
            }
            ToMaster::Leaving => self.on_leaving(host),
            ToMaster::Recorded { last, stretches } => self.on_recorded(host, last, &stretches),
            ToMaster::Spent(spent) => {
                let spent = self.believed(host, spent)?.spent;
                self.store.attempt_spent(host, &spent, self.now)
            }
            // The session has seen to it.
            ToMaster::Alive(_) | ToMaster::Shares(_) | ToMaster::Fetched { .. } => Ok(()),
            ToMaster::Site(answer) => self.on_site(host, answer),
            ToMaster::Update(answer) => self.on_update(host, answer),
            ToMaster::Lent(loan) => self.on_event(
                host,
                Event::HostLent {
                    host,
                    loan: loan.map(possible),
                },
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use common::host::OwnerState;
    use common::view::HostState;
    use common::{Speed, Time};

    use super::super::retention::tests::{core, restored};
    use super::*;

    #[test]
    fn a_heartbeat_that_waited_for_a_slow_store_is_heard_before_the_lease_ends() {
        let dir = tempfile::tempdir().unwrap();
        let start = Time(1_700_000_000_000_000);
        let mut core = core(dir.path(), start, true);
        let host = HostId(1);
        let status = Status::from(OwnerState::Away);
        core.step(Event::HostJoined {
            host,
            slots: 1,
            speed: Speed::REFERENCE,
            status,
            held: Vec::new(),
        })
        .unwrap();
        let state = |core: &Core| core.scheduler.host(host).unwrap().state;

        // The master looks at the clock every second until shortly before the lease ends, and then after it.
        let lease = crate::Config::default().lease.span();
        let second = Span::from_secs(1);
        let mut now = start;
        while now + second < start + lease {
            now = now + second;
            core.look_at_clock(now).unwrap();
            core.do_what_is_due().unwrap();
        }
        assert_eq!(state(&core), HostState::Suspect);

        core.look_at_clock(now + Span::from_secs(3)).unwrap();
        assert_eq!(state(&core), HostState::Suspect, "nothing is decided yet");
        core.step(Event::HostHeard {
            host,
            status,
            held: Vec::new(),
        })
        .unwrap();
        core.do_what_is_due().unwrap();
        assert_eq!(state(&core), HostState::Ready);
    }
    #[test]
    fn a_heartbeat_of_no_current_session_is_not_answered() {
        let dir = tempfile::tempdir().unwrap();
        let mut core = core(dir.path(), Time(1_700_000_000_000_000), true);
        let host = HostId(1);
        core.restore_host(restored(host, "pc")).unwrap();

        let heartbeat = ToMaster::Heartbeat {
            status: Status::from(OwnerState::Away),
            held: Vec::new(),
        };
        core.on_said(host, SessionId(7), heartbeat).unwrap();
        assert!(!core.mail.get(&host).is_some_and(|mail| mail.beat));
    }
}
