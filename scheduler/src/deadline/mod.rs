//! Jobs with deadlines: the admission test and what follows from a promise (Wozniak, Jiang and
//! Striegel).
//!
//! - [`calendar`]: slots with the times at which they are free, onto which work is stacked.
//! - [`admission`]: what the calendar says of a bag, and which promised task starts where.
//! - [`reserve`]: what is reserved for tasks whose limits are learned.
//! - [`policing`]: attempts beyond their estimates may be killed for a bag that comes.
//! - [`slack`]: while deadlines leave time, users who had fewer slots go first.
//! - [`status`]: whether a promise should be kept, and what is in its way.
//!
//! A promise that was given is not taken back: a later bag is refused rather than an earlier one
//! delayed on the calendar.

pub(crate) mod admission;
pub(crate) mod calendar;
pub(crate) mod policing;
pub(crate) mod reserve;
pub(crate) mod slack;
pub(crate) mod status;
