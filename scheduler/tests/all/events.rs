//! Events as tests send them, for every world that they speak to, and what is in them. What is usual is left out.

use common::attempt::{HeldAttempt, Outcome};
use common::host::{OwnerState, Status};
use common::needs::Offers;
use common::{AttemptId, HostId, IdSet, JobId, Span, Speed};
use scheduler::Event;
use scheduler::event::{Bag, RestoredProgress, Tried};

/// A job that was not tested before.
pub(crate) fn submitted(job: JobId, bag: Bag) -> Event {
    Event::JobSubmitted {
        job,
        bag: Box::new(bag),
        tested: None,
    }
}

pub(crate) fn restored(job: JobId, bag: Bag, progress: RestoredProgress) -> Event {
    Event::JobRestored {
        job,
        bag: Box::new(bag),
        progress: Box::new(progress),
    }
}

pub(crate) fn cancelled(job: JobId, tasks: Option<IdSet>) -> Event {
    Event::JobCancelled { job, tasks }
}

pub(crate) fn retried(job: JobId, tasks: IdSet) -> Event {
    Event::JobRetried { job, tasks }
}

pub(crate) fn gone(job: JobId, tasks: Vec<(u32, u32)>) -> Event {
    Event::ResultsGone { job, tasks }
}

/// A host of the usual speed, whose owner is away, and which holds nothing.
pub(crate) fn joined(host: HostId, slots: u32) -> Event {
    Event::HostJoined {
        host,
        slots,
        speed: Speed::REFERENCE,
        status: OwnerState::Away.into(),
        held: Vec::new(),
    }
}

pub(crate) fn offered(host: HostId, offers: Offers) -> Event {
    let offers = Box::new(offers);
    Event::HostOffers { host, offers }
}

pub(crate) fn heard(host: HostId, status: Status, held: Vec<HeldAttempt>) -> Event {
    Event::HostHeard { host, status, held }
}

pub(crate) fn owner(host: HostId, owner: OwnerState) -> Event {
    Event::OwnerChanged { host, owner }
}

pub(crate) fn moved(host: HostId, held: Vec<HeldAttempt>) -> Event {
    Event::AttemptsMoved { host, held }
}

pub(crate) fn returned(host: HostId, attempts: Vec<AttemptId>) -> Event {
    Event::AttemptsReturned { host, attempts }
}

pub(crate) fn succeeded(host: HostId, attempt: AttemptId, ran: Span) -> Event {
    ended(host, attempt, Outcome::Succeeded, ran)
}

pub(crate) fn ended(host: HostId, attempt: AttemptId, outcome: Outcome, ran: Span) -> Event {
    Event::AttemptEnded {
        host,
        attempt,
        outcome,
        ran,
    }
}

/// A task of a restored job that has had so many attempts, of which nothing else is known.
pub(crate) fn tried(task: u32, attempts: u32) -> Tried {
    Tried {
        task,
        attempts,
        failures: 0,
        losses: 0,
        live: Vec::new(),
        lost: Vec::new(),
        ended: Vec::new(),
        outlived: Vec::new(),
        policed: Span::ZERO,
    }
}
