//! The results of all trials, looked up by trial ([`TrialTable`]).

use std::fmt::Write;

use super::devices::Device;
use super::trial::{Counts, Pressure, Trial, Users};
use crate::report::Spread;
use simulator::figure::{field, number};

/// A trial with the counts of each test.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) trial: Trial,
    /// The counts of groups A and B, by test.
    pub(super) runs: Vec<[Counts; 2]>,
}

/// The cells of all trials.
pub(super) struct TrialTable {
    pub(super) cells: Vec<Cell>,
    pub(super) qoes: Vec<f64>,
}

/// A group of users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UserGroup {
    A,
    B,
}

impl Cell {
    pub(super) fn new(trial: Trial) -> Self {
        Cell {
            trial,
            runs: Vec::new(),
        }
    }

    /// The mean of `of` for one group, over the tests.
    pub(super) fn mean(&self, group: UserGroup, of: impl Fn(&Counts) -> f64) -> Spread {
        Spread::of(self.runs.iter().map(|run| of(&run[group as usize])))
    }

    pub(super) fn acceptance(&self, group: UserGroup) -> Spread {
        self.mean(group, Counts::acceptance)
    }

    pub(super) fn guarantee(&self, group: UserGroup) -> Spread {
        self.mean(group, Counts::guarantee)
    }

    /// The sum of a count over all tests and groups.
    pub(super) fn sum(&self, of: impl Fn(&Counts) -> f64) -> f64 {
        self.runs.iter().flatten().map(of).sum()
    }

    /// The quotient of two counts, over all tests and groups; 0 / 0 is 0.
    pub(super) fn part(
        &self,
        of: impl Fn(&Counts) -> usize,
        all: impl Fn(&Counts) -> usize,
    ) -> f64 {
        let of = self.sum(|counts| of(counts) as f64);
        let all = self.sum(|counts| all(counts) as f64);
        if all > 0.0 { of / all } else { 0.0 }
    }

    /// The quotient of two counts of one group; 0 / 0 is 0.
    pub(super) fn part_of(
        &self,
        group: UserGroup,
        of: impl Fn(&Counts) -> usize,
        all: impl Fn(&Counts) -> usize,
    ) -> f64 {
        let sum = |count: &dyn Fn(&Counts) -> usize| {
            self.runs
                .iter()
                .map(|run| count(&run[group as usize]))
                .sum()
        };
        super::trial::part(sum(&of), sum(&all))
    }
}

impl TrialTable {
    /// Looks up the cell of this trial.
    pub(super) fn cell(&self, trial: &Trial) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.trial == *trial)
    }

    /// Looks up the trial of group A alone under the usual pressure.
    pub(super) fn usual(
        &self,
        device: Device,
        hosts: usize,
        qoe: f64,
        policy: &str,
    ) -> Option<&Cell> {
        self.cell(&Trial::usual(device, hosts, qoe, policy))
    }

    /// Looks up the trial of both groups with `NS-Device`.
    pub(super) fn groups(
        &self,
        hosts: usize,
        qoe: f64,
        policy: &str,
        pressure: Pressure,
    ) -> Option<&Cell> {
        self.cell(&Trial {
            users: Users::Both,
            pressure,
            ..Trial::usual(Device::Ns, hosts, qoe, policy)
        })
    }

    /// The tried quality nearest to `qoe`.
    pub(super) fn near(&self, qoe: f64) -> f64 {
        let off = |other: &f64| (other - qoe).abs();
        self.qoes
            .iter()
            .copied()
            .min_by(|a, b| off(a).total_cmp(&off(b)))
            .unwrap_or(qoe)
    }

    /// The CSV of all means, one setting and group on a line.
    pub(super) fn csv(&self) -> String {
        let mut out = String::from(
            "device,hosts,qoe,policy,pressure,group,tests,acceptance,acceptance_sd,guarantee,guarantee_sd,tasks,killed,\
             refused,single\n",
        );
        for cell in &self.cells {
            let Trial {
                device,
                hosts,
                qoe,
                policy,
                users,
                pressure,
            } = &cell.trial;

            let groups: &[UserGroup] = if *users == Users::Both {
                &[UserGroup::A, UserGroup::B]
            } else {
                &[UserGroup::A]
            };
            for group in groups {
                let acceptance = cell.acceptance(*group);
                let guarantee = cell.guarantee(*group);
                let count =
                    |of: fn(&Counts) -> usize| cell.mean(*group, |counts| of(counts) as f64).mean;
                let _ = writeln!(
                    out,
                    "{},{hosts},{},{},{pressure:?},{group:?},{},{},{},{},{},{},{},{},{}",
                    device.name(),
                    number(*qoe),
                    field(policy),
                    cell.runs.len(),
                    number(acceptance.mean),
                    number(acceptance.sd),
                    number(guarantee.mean),
                    number(guarantee.sd),
                    number(count(|counts| counts.tasks)),
                    number(count(|counts| counts.killed)),
                    number(count(|counts| counts.refused)),
                    number(count(|counts| counts.single)),
                );
            }
        }

        out
    }
}
