//! May this job enter, and if not, why?

use crate::effect::Refused;
use crate::event::Bag;

/// Who is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Every job that makes sense.
    AcceptAll,
}

impl Admission {
    /// # Errors
    /// Says why the bag may not enter.
    pub(crate) fn admit(self, bag: &Bag) -> Result<(), Refused> {
        match self {
            Admission::AcceptAll if bag.tasks.is_empty() => Err(Refused::Empty),
            Admission::AcceptAll => Ok(()),
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Admission::AcceptAll => "every job that has tasks",
        }
    }
}
