//! The policy's answer on admission: whether a job may enter, and the reason if not.

use crate::protocol::effect::Refused;
use crate::protocol::event::Bag;

/// The rule by which jobs are admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Every valid job; no deadline is promised.
    AcceptAll,
    /// Also jobs with a deadline, if the calendar shows that it can be met (Wozniak et al., section
    /// 4).
    Calendar(Reckoning),
}

/// The way in which the calendar is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reckoning {
    /// Whether estimates are corrected by the known quality of their `Source`.
    pub calibrated: bool,
    /// Whether run times are lengthened by the expected suspensions and other load.
    pub inflated: bool,
    /// The order in which a bag's tasks are put on the calendar, and started.
    pub stacking: Stacking,
    /// Whether tasks with learned limits are matched with the expected idle windows of hosts.
    pub windows: bool,
}

/// The order of a bag's tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stacking {
    /// By index.
    Given,
    /// Longest estimates first; among equals by index.
    LongestFirst,
}

impl Admission {
    /// # Errors
    /// The reason why the bag may not enter. Its deadline is tested in
    /// `crate::deadline::admission`.
    pub(crate) fn admit(self, policy: &str, bag: &Bag) -> Result<(), Refused> {
        let tasks = bag.tasks.len();
        let given = bag.terms.estimates.len() as u64;
        if tasks == 0 {
            return Err(Refused::Empty);
        }
        if given != 0 && given != tasks {
            return Err(Refused::Estimates { tasks, given });
        }

        match self {
            Admission::AcceptAll if bag.terms.deadline.is_some() => {
                Err(Refused::NoPromises(policy.to_owned()))
            }
            Admission::AcceptAll | Admission::Calendar(_) => Ok(()),
        }
    }

    /// Returns the calendar's `Reckoning`, if it promises deadlines.
    pub(crate) fn reckoning(self) -> Option<Reckoning> {
        match self {
            Admission::AcceptAll => None,
            Admission::Calendar(reckoning) => Some(reckoning),
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Admission::AcceptAll => "every job that has tasks; no deadline is promised",
            Admission::Calendar(Reckoning {
                calibrated: false, ..
            }) => {
                "a job with a deadline if all its tasks end in time by their estimates, behind everything that was \
                 accepted before; every other job that has tasks"
            }
            Admission::Calendar(Reckoning {
                calibrated: true, ..
            }) => {
                "a job with a deadline if all its tasks end in time, behind everything that was accepted before, by \
                 estimates that are corrected by how good its user's were; every other job that has tasks"
            }
        }
    }
}
