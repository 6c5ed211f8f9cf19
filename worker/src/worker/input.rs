//! The inputs of the worker's loop, and which senders make them.

use common::AttemptId;
use common::progress::ProgressReport;

use super::site::SiteKept;
use super::update::ProgramNews;
use crate::control::ControlQuestion;
use crate::machine::MachineEvent;
use crate::owner::sensors::Sighted;
use crate::record::book::DueIntervals;
use crate::session::SessionEvent;
use crate::share::ProcessorTimes;
use crate::spool::writer::Spooled;

/// An input of the loop.
#[derive(Debug)]
pub(super) enum LoopInput {
    Machine(MachineEvent),
    Session(SessionEvent),
    Spool(Spooled),
    Sighted(Sighted),
    Asked(ControlQuestion),
    Beat(Vec<(AttemptId, ProgressReport)>),
    Load(Option<ProcessorTimes>),
    Recorded(DueIntervals),
    SiteKept(SiteKept),
    Program(ProgramNews),
}

impl From<MachineEvent> for LoopInput {
    fn from(event: MachineEvent) -> Self {
        LoopInput::Machine(event)
    }
}

impl From<SessionEvent> for LoopInput {
    fn from(session: SessionEvent) -> Self {
        LoopInput::Session(session)
    }
}

impl From<Spooled> for LoopInput {
    fn from(spooled: Spooled) -> Self {
        LoopInput::Spool(spooled)
    }
}

impl From<DueIntervals> for LoopInput {
    fn from(due: DueIntervals) -> Self {
        LoopInput::Recorded(due)
    }
}

impl From<ControlQuestion> for LoopInput {
    fn from(question: ControlQuestion) -> Self {
        LoopInput::Asked(question)
    }
}

impl From<Sighted> for LoopInput {
    fn from(sighted: Sighted) -> Self {
        LoopInput::Sighted(sighted)
    }
}
