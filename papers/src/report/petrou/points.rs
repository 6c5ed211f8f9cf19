//! The points at which schedulers are compared, the measurements at each ([`Measured`]), and
//! summaries of results.

use std::fmt::Write;

use common::Time;
use scheduler::billing::Account;

use simulator::figure::number;
use simulator::users::{Audience, StudyPoint, TaskFate, Which};

/// The time at which measuring begins: the first two days do not count (section 4.3).
const START: Time = Time(2 * 86_400 * 1_000_000);

/// A scheduler with its way of billing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BilledScheduler {
    InteractiveSrpt,
    BatchSrpt,
    SrptFcfs,
    InteractiveFcfs,
    BatchFcfs,
    FcfsFcfs,
    SrptNeed,
    FcfsNeed,
}

/// All contenders, in the order of their places in a point's results.
pub(super) const CONTENDERS: [BilledScheduler; 8] = [
    BilledScheduler::InteractiveSrpt,
    BilledScheduler::BatchSrpt,
    BilledScheduler::SrptFcfs,
    BilledScheduler::InteractiveFcfs,
    BilledScheduler::BatchFcfs,
    BilledScheduler::FcfsFcfs,
    BilledScheduler::SrptNeed,
    BilledScheduler::FcfsNeed,
];

/// The contenders in the bars of Figures 7 to 13, and ours.
pub(super) const SHOWN: [BilledScheduler; 4] = [
    BilledScheduler::BatchSrpt,
    BilledScheduler::InteractiveSrpt,
    BilledScheduler::SrptFcfs,
    BilledScheduler::SrptNeed,
];

impl BilledScheduler {
    /// The policy's name in the scheduler's catalogue.
    pub(super) fn policy(self) -> &'static str {
        match self {
            BilledScheduler::InteractiveSrpt => "INTERACTIVE-SRPT",
            BilledScheduler::BatchSrpt => "BATCH-SRPT",
            BilledScheduler::SrptFcfs => "SRPTxFCFS",
            BilledScheduler::InteractiveFcfs => "INTERACTIVE-FCFS",
            BilledScheduler::BatchFcfs => "BATCH-FCFS",
            BilledScheduler::FcfsFcfs => "FCFSxFCFS",
            BilledScheduler::SrptNeed => "SRPTxNEED",
            BilledScheduler::FcfsNeed => "FCFSxNEED",
        }
    }

    /// The name in figures.
    pub(super) fn name(self) -> &'static str {
        match self {
            BilledScheduler::InteractiveSrpt | BilledScheduler::InteractiveFcfs => "interactive",
            BilledScheduler::BatchSrpt | BilledScheduler::BatchFcfs => "batch",
            BilledScheduler::SrptFcfs | BilledScheduler::FcfsFcfs => "batchactive",
            BilledScheduler::SrptNeed | BilledScheduler::FcfsNeed => "by need (ours)",
        }
    }
}

/// The measurements of a run after its first two days.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    servers: f64,
    days_s: f64,
    busy_s: f64,
    /// The waits for results that users got, and the time spent on sets that their users have
    /// finished.
    account: Account,
}

impl Measured {
    pub(super) fn new(servers: usize, end: Time) -> Self {
        Measured {
            servers: servers as f64,
            days_s: end.since(START).secs(),
            ..Measured::default()
        }
    }

    /// The number of results that users got.
    pub fn finished(&self) -> u64 {
        self.account.finished
    }

    /// The mean visible response time, in seconds.
    pub fn vresp_s(&self) -> f64 {
        self.account.response.mean().unwrap_or(f64::NAN)
    }

    /// The mean visible slowdown.
    pub fn vslow(&self) -> f64 {
        self.account.slowdown.mean().unwrap_or(f64::NAN)
    }

    /// The share of the time in which a server was busy.
    pub fn load(&self) -> f64 {
        self.busy_s / (self.servers * self.days_s)
    }

    /// The factor by which a batch scheduler bills more than what was requested, in the paper's
    /// words (section 3.1).
    pub fn scaled_billed(&self) -> f64 {
        self.account.scaled_if_all_billed().unwrap_or(f64::NAN)
    }

    /// Like `scaled_billed`, for what was not yet executed when it was requested.
    pub fn scaled_billed_waited(&self) -> f64 {
        self.account.scaled_by_waited_for().unwrap_or(f64::NAN)
    }
}

impl Audience for Measured {
    fn finished(&mut self, at: Time, _which: Which, fate: &TaskFate) {
        if let Some(response) = fate.entry().visible_response().filter(|_| at >= START) {
            self.account.wait(response, fate.takes);
        }
    }

    fn ran(&mut self, from: Time, to: Time) {
        self.busy_s += to.since(from.max(START)).secs();
    }

    fn through(&mut self, at: Time, _user: usize, _set: usize, fates: &[TaskFate]) {
        if at >= START {
            fates
                .iter()
                .for_each(|fate| self.account.spend(&fate.entry()));
        }
    }
}

/// The 3,168 points within the ranges of Table 2.
pub fn grid() -> Vec<StudyPoint> {
    let services_s: Vec<f64> = (0..=10).map(|n| 20.0 + 360.0 * f64::from(n)).collect();
    let thinks_s: Vec<f64> = (0..=5).map(|n| 20.0 + 3_600.0 * f64::from(n)).collect();
    combined([1, 7, 13, 19], &services_s, &thinks_s)
}

/// Every combination of these numbers of tasks and times, with each number of users.
fn combined(tasks: [u32; 4], services_s: &[f64], thinks_s: &[f64]) -> Vec<StudyPoint> {
    let mut points = Vec::new();
    for users in [4, 8, 12, 16] {
        for change_max in [0.0, 0.2, 0.4] {
            for tasks_max in tasks {
                for service_s in services_s.iter().copied() {
                    for think_s in thinks_s.iter().copied() {
                        points.push(StudyPoint {
                            users,
                            change_max,
                            tasks_max,
                            service_s,
                            think_s,
                        });
                    }
                }
            }
        }
    }

    points
}

/// The parameters of Table 3.
pub(super) const TABLE_3: StudyPoint = StudyPoint {
    users: 8,
    change_max: 0.2,
    tasks_max: 15,
    service_s: 600.0,
    think_s: 6_000.0,
};

/// The 432 points around Table 3 at which our policies are measured: servers there are neither idle
/// nor always busy, so that a policy can gain something.
pub(super) fn around() -> Vec<StudyPoint> {
    let services_s = [300.0, 600.0, 1_200.0];
    let thinks_s = [3_000.0, 6_000.0, 12_000.0];
    combined([7, 15, 31, 63], &services_s, &thinks_s)
}

/// The contenders at the points around Table 3.
pub(super) const PAIRS: [BilledScheduler; 4] = [
    BilledScheduler::SrptFcfs,
    BilledScheduler::SrptNeed,
    BilledScheduler::FcfsFcfs,
    BilledScheduler::FcfsNeed,
];

/// Pairs of a scheduler of the paper and ours.
pub(super) const WITH_OURS: [(BilledScheduler, BilledScheduler); 2] = [
    (BilledScheduler::SrptFcfs, BilledScheduler::SrptNeed),
    (BilledScheduler::FcfsFcfs, BilledScheduler::FcfsNeed),
];

/// The number of the grid's points at which our policies are measured again.
const WORST: usize = 20;

/// The values on an axis: the position, the parameters, and the number of servers.
type AxisValues = Vec<(f64, StudyPoint, usize)>;

/// A slice: one parameter varies, everything else is as in Table 3.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Slice {
    pub(super) axis: Axis,
    pub(super) values: AxisValues,
    /// The runs of each value and each bar.
    pub(super) runs: Vec<[Vec<Measured>; SHOWN.len()]>,
}

/// The parameter that a slice varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    Users,
    Change,
    Tasks,
    Service,
    Think,
    Servers,
}

impl Slice {
    pub(super) fn all(stride: usize) -> Vec<Slice> {
        let base = TABLE_3;
        let users = (1..=9).map(|half| 2 * half);
        let users = users.map(|users: usize| (users as f64, StudyPoint { users, ..base }, 1));
        let change = (0..=4).map(|tenth| f64::from(tenth) / 10.0);
        let change = change.map(|change_max| {
            let point = StudyPoint { change_max, ..base };
            (change_max / 2.0, point, 1)
        });

        let tasks = (0..=10).map(|power| {
            let tasks_max = 1_u32 << power;
            let mean = f64::from(1 + tasks_max) / 2.0;
            let point = StudyPoint {
                tasks_max,
                change_max: 0.1,
                ..base
            };
            (mean, point, 1)
        });

        let service = (1..=10).map(|step| 360.0 * f64::from(step));
        let service = service.map(|service_s| (service_s, StudyPoint { service_s, ..base }, 1));
        let think = (0..=5).map(|step| 20.0 + 3_600.0 * f64::from(step));
        let think = think.map(|think_s| (think_s, StudyPoint { think_s, ..base }, 1));
        let servers = [1, 2, 4, 8, 16].map(|n: usize| {
            let users = 8 * n;
            (n as f64, StudyPoint { users, ..base }, n)
        });

        let all: [(Axis, AxisValues); 6] = [
            (Axis::Users, users.collect()),
            (Axis::Change, change.collect()),
            (Axis::Tasks, tasks.collect()),
            (Axis::Service, service.collect()),
            (Axis::Think, think.collect()),
            (Axis::Servers, servers.to_vec()),
        ];
        all.into_iter()
            .map(|(axis, values)| Slice::of(axis, values.into_iter().step_by(stride).collect()))
            .collect()
    }

    fn of(axis: Axis, values: AxisValues) -> Slice {
        let runs = values
            .iter()
            .map(|_| std::array::from_fn(|_| Vec::new()))
            .collect();
        Slice { axis, values, runs }
    }

    pub(super) fn note(&mut self, value: usize, place: usize, measured: Measured) {
        self.runs[value][place].push(measured);
    }

    /// The mean of `of` over the runs of a bar.
    pub(super) fn mean(
        &self,
        value: usize,
        contender: BilledScheduler,
        of: impl Fn(&Measured) -> f64,
    ) -> f64 {
        let runs = self.bar(value, contender);
        runs.iter().map(of).sum::<f64>() / runs.len() as f64
    }

    /// The runs of a bar.
    pub(super) fn bar(&self, value: usize, contender: BilledScheduler) -> &[Measured] {
        let place = SHOWN
            .iter()
            .position(|shown| *shown == contender)
            .unwrap_or(0);
        &self.runs[value][place]
    }

    /// The index of the value nearest to `x`.
    pub(super) fn at(&self, x: f64) -> usize {
        let far = |place: &usize| (self.values[*place].0 - x).abs();
        (0..self.values.len())
            .min_by(|a, b| far(a).total_cmp(&far(b)).then(a.cmp(b)))
            .unwrap_or(0)
    }
}

/// All measurements.
pub(super) struct Measurements {
    /// The points of the grid, each with its contenders.
    pub(super) points: Vec<(StudyPoint, Vec<Measured>)>,
    pub(super) slices: Vec<Slice>,
    /// The points around Table 3, each with the contenders of [`PAIRS`].
    pub(super) around: Vec<Vec<Measured>>,
    /// For each pair of [`WITH_OURS`], the factors with other users at the points of the grid where
    /// ours did worst.
    pub(super) again: Vec<Factors>,
}

impl Measurements {
    /// The factors by which ours is better around Table 3: under SRPT, and under FCFS.
    pub(super) fn gains(&self) -> [Factors; 2] {
        [0, 2].map(|paper: usize| {
            Factors::of(
                self.around
                    .iter()
                    .map(|runs| runs[paper].vresp_s() / runs[paper + 1].vresp_s()),
            )
        })
    }

    pub(super) fn slice(&self, axis: Axis) -> &Slice {
        let at = self
            .slices
            .iter()
            .position(|slice| slice.axis == axis)
            .unwrap_or(0);
        &self.slices[at]
    }

    /// The factors by which `better` has a smaller mean than `worse`, by point.
    pub(super) fn factors(&self, worse: BilledScheduler, better: BilledScheduler) -> Factors {
        Factors::of(
            self.points
                .iter()
                .map(|(_, runs)| factor(runs, worse, better)),
        )
    }

    /// The points of the grid at which this factor is smallest.
    pub(super) fn worst(&self, worse: BilledScheduler, better: BilledScheduler) -> Vec<StudyPoint> {
        let factors = self
            .points
            .iter()
            .map(|(point, runs)| (factor(runs, worse, better), *point));
        let mut points: Vec<(f64, StudyPoint)> =
            factors.filter(|(factor, _)| factor.is_finite()).collect();
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        points
            .into_iter()
            .take(WORST)
            .map(|(_, point)| point)
            .collect()
    }

    /// The factors by which a batch scheduler bills more than the batchactive one, which bills only
    /// what was requested.
    pub(super) fn billed(&self, of: impl Fn(&Measured) -> f64) -> Factors {
        Factors::of(
            self.points
                .iter()
                .map(|(_, runs)| of(&runs[BilledScheduler::BatchFcfs as usize])),
        )
    }

    /// The CSV of all runs of the grid, one on a line.
    pub(super) fn csv(&self) -> String {
        let mut out = String::from(
            "users,change_max,tasks_max,service_s,think_s,policy,finished,vresp_s,vslow,load,scaled_billed,\
             scaled_billed_waited\n",
        );
        for (point, runs) in &self.points {
            for (contender, run) in CONTENDERS.iter().zip(runs) {
                let place = format!(
                    "{},{},{},{},{},{}",
                    point.users,
                    point.change_max,
                    point.tasks_max,
                    point.service_s,
                    point.think_s,
                    contender.policy()
                );
                let measured = [
                    run.vresp_s(),
                    run.vslow(),
                    run.load(),
                    run.scaled_billed(),
                    run.scaled_billed_waited(),
                ];

                let _ = writeln!(
                    out,
                    "{place},{},{}",
                    run.finished(),
                    measured.map(number).join(",")
                );
            }
        }

        out
    }
}

fn factor(runs: &[Measured], worse: BilledScheduler, better: BilledScheduler) -> f64 {
    runs[worse as usize].vresp_s() / runs[better as usize].vresp_s()
}

/// Factors over points, ascending.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Factors(Vec<f64>);

impl Factors {
    /// Sorts the factors, without those that could not be measured because both took no time at
    /// all.
    pub(super) fn of(factors: impl Iterator<Item = f64>) -> Self {
        let mut factors: Vec<f64> = factors.filter(|factor| factor.is_finite()).collect();
        factors.sort_by(f64::total_cmp);
        Factors(factors)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// The part of the points at which the factor is at least `factor`.
    pub(super) fn at_least(&self, factor: f64) -> f64 {
        self.0.iter().filter(|found| **found >= factor).count() as f64 / self.0.len() as f64
    }

    pub(super) fn quantile(&self, part: f64) -> f64 {
        let at = (part * (self.0.len().max(1) - 1) as f64).round() as usize;
        self.0.get(at).copied().unwrap_or(f64::NAN)
    }
}
