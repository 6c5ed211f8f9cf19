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

macro_rules! inputs_from {
    ($($of:ident = $input:ident),+ $(,)?) => {
        $(impl From<$of> for LoopInput {
            fn from(of: $of) -> Self {
                LoopInput::$input(of)
            }
        })+
    };
}

inputs_from! {
    MachineEvent = Machine,
    SessionEvent = Session,
    Spooled = Spool,
    DueIntervals = Recorded,
    ControlQuestion = Asked,
    Sighted = Sighted,
}
