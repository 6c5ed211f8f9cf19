//! The laboratory: reproduces the figures of the papers behind the scheduler, answers vectors of
//! known answers, and measures quorums against hosts that lie. The binary is `deskgrid-lab`; what
//! people run a grid with is in `cli`.

pub mod liars;
pub mod report;
pub mod scenario;
