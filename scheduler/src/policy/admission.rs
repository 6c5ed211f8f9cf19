//! The policy's answer on admission: whether a job may enter, and the reason if not.

use super::setting::{HasSettings, Parametric, Setting, YES_OR_NO, name_of, one_of, yes_or_no};
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
    /// Whether estimates are corrected by the known quality of their `EstimateSource`.
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

/// The names of orders.
const STACKINGS: [(&str, Stacking); 2] = [
    ("given", Stacking::Given),
    ("longest-first", Stacking::LongestFirst),
];

impl HasSettings for Reckoning {
    fn settings(&self) -> &'static [Setting<Self>] {
        &[
            Setting {
                name: "calibrated",
                meaning: "whether estimates are corrected by what is known of who estimates (`yes` or `no`)",
                get: |reckoning| name_of(reckoning.calibrated, &YES_OR_NO),
                set: |reckoning, value| yes_or_no(value).map(|yes| reckoning.calibrated = yes),
            },
            Setting {
                name: "inflated",
                meaning: "whether run times are lengthened by what owners and other load should take (`yes` or `no`)",
                get: |reckoning| name_of(reckoning.inflated, &YES_OR_NO),
                set: |reckoning, value| yes_or_no(value).map(|yes| reckoning.inflated = yes),
            },
            Setting {
                name: "stacking",
                meaning: "in which order a bag's tasks are put on the calendar and started: as `given`, or `longest-first`",
                get: |reckoning| name_of(reckoning.stacking, &STACKINGS),
                set: |reckoning, value| {
                    reckoning.stacking = one_of(value, &STACKINGS, "`given` or `longest-first`")?;
                    Ok(())
                },
            },
            Setting {
                name: "windows",
                meaning: "whether each host gets the task of a job with learned limits that should make the most of its idle window, by \
                          how the host was recorded to be available (`yes` or `no`)",
                get: |reckoning| name_of(reckoning.windows, &YES_OR_NO),
                set: |reckoning, value| yes_or_no(value).map(|yes| reckoning.windows = yes),
            },
        ]
    }
}

impl Admission {
    pub(super) fn parametric(&mut self) -> Option<&mut dyn Parametric> {
        match self {
            Admission::AcceptAll => None,
            Admission::Calendar(reckoning) => Some(reckoning),
        }
    }

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
