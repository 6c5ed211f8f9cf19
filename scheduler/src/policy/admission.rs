//! May this job enter, and if not, why?

use crate::protocol::effect::Refused;
use crate::protocol::event::Bag;

/// Who is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Every job that makes sense; no deadline is promised.
    AcceptAll,
    /// Also jobs with a deadline, if the calendar says that it can be kept (Wozniak et al., section
    /// 4).
    Calendar(Reckoning),
}

/// How the calendar is reckoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reckoning {
    /// Whether estimates are corrected by what is known of who estimates.
    pub calibrated: bool,
    /// Whether run times are lengthened by what owners and other load are expected to take.
    pub inflated: bool,
    /// In which order a bag's tasks are put on the calendar, and started.
    pub stacking: Stacking,
    /// Whether tasks with learned limits are matched with how long hosts should stay idle.
    pub windows: bool,
}

/// An order of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stacking {
    /// By index.
    Given,
    /// Those with the longest estimates first; of equals by index.
    LongestFirst,
}

impl Admission {
    /// # Errors
    /// Says why the bag may not enter. Whether its deadline can be kept is asked elsewhere.
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

    /// How it reckons, if it promises anything.
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
