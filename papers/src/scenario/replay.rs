//! Runs scenarios and computes their answers ([`answer`]).

use common::{Span, Speed, Time};
use scheduler::effect::Refused;
use scheduler::estimates::Estimator;
use scheduler::policy::Admission;
use scheduler::policy::policing::Rule;
use serde_json::{Value, json};

use super::form::{Bags, CalendarEntry, Kill, Scenario, ScenarioHosts};
use crate::report::wozniak::devices::estimate_interval;
use crate::report::wozniak::trial::part;
use simulator::bags::{
    BagEvent, BagEventKind, BagResults, BagTask, SubmittedBag, WantedResults, run,
};

/// A deadline so late that it never matters, in any unit.
const LATER: Span = Span(u64::MAX / 4);
/// The largest number of seconds that is counted in nanoseconds: sums of times and of [`LATER`]
/// then cannot overflow.
const MOST_FINE_S: f64 = 1e9;

/// The unit of time of a replay. The scheduler counts whole units and never asks for their length,
/// unless an estimate is inflated or corrected. A calendar can therefore be replayed in
/// nanoseconds, and its sums of many estimates are exact to far less than a microsecond.
#[derive(Debug, Clone, Copy)]
struct TimeUnit {
    per_s: f64,
}

impl TimeUnit {
    /// The clock of all other scenarios: microseconds.
    const USUAL: TimeUnit = TimeUnit { per_s: 1e6 };

    fn of(calendar: &CalendarEntry, policy: &str) -> Self {
        let running = calendar
            .running_start_est
            .iter()
            .map(|(_, estimate_s)| estimate_s);
        let all_s = calendar.now
            + running
                .chain(&calendar.waiting_est)
                .chain(&calendar.new_est)
                .sum::<f64>();
        let plain = scheduler::policy::parse(policy).is_ok_and(|policy| match policy.admission {
            Admission::Calendar(reckoning) => !reckoning.inflated && !reckoning.calibrated,
            Admission::AcceptAll => false,
        });

        if plain && all_s <= MOST_FINE_S {
            TimeUnit { per_s: 1e9 }
        } else {
            TimeUnit::USUAL
        }
    }

    fn span(self, s: f64) -> Span {
        Span((s.max(0.0) * self.per_s).round() as u64)
    }

    fn time(self, s: f64) -> Time {
        Time(self.span(s).0)
    }

    fn secs(self, Time(units): Time) -> f64 {
        units as f64 / self.per_s
    }

    /// Creates a task that takes what was estimated.
    fn as_said(self, estimate_s: f64) -> BagTask {
        let estimate = self.span(estimate_s);
        BagTask {
            estimate,
            takes: estimate,
        }
    }
}

/// Runs a scenario and returns its answer: the fields of the vectors, and for scenarios over time
/// `trace` and `metrics`.
pub fn answer(scenario: &Scenario) -> Value {
    match scenario {
        Scenario::Kill(kill) => kills(*kill),
        Scenario::Interval(interval) => {
            let (lo, hi, most) = estimate_interval(interval.c, interval.qoe);
            json!({ "c": interval.c, "qoe": interval.qoe, "lo": lo, "hi": hi, "groupB_hi": most })
        }
        Scenario::Calendar(calendar) => calendar_answer(calendar),
        Scenario::Bags(bags) => bags_answer(bags),
        Scenario::Sets(sets) => sets.answer(),
        Scenario::Grid(grid) => grid.answer(),
    }
}

fn kills(Kill { est, elapsed }: Kill) -> Value {
    let sure = |rule: Rule| rule.chance(est, elapsed) == 1.0;
    json!({
        "est": est,
        "elapsed": elapsed,
        "hard": sure(Rule::Hard),
        "grace_0.25": sure(Rule::Grace(0.25)),
        "grace_0.5": sure(Rule::Grace(0.5)),
        "grace_1": sure(Rule::Grace(1.0)),
        "prob": Rule::Probabilistic.chance(est, elapsed),
    })
}

fn calendar_answer(calendar: &CalendarEntry) -> Value {
    let policy = calendar
        .policy
        .clone()
        .unwrap_or_else(|| "CALENDAR".to_owned());
    let bag = |at: Time, deadline: Span, tasks: Vec<BagTask>| SubmittedBag {
        at,
        estimator: Estimator::default(),
        policy: policy.clone(),
        deadline: Some(deadline),
        tasks,
    };

    let clock = TimeUnit::of(calendar, &policy);
    let tasks = |estimates_s: &[f64]| {
        let each = estimates_s.iter();
        each.map(|estimate_s| clock.as_said(*estimate_s)).collect()
    };
    let now = clock.time(calendar.now);
    let mut running = calendar.running_start_est.clone();
    running.sort_by(|a, b| a.0.total_cmp(&b.0));

    let mut asked = Vec::new();
    for (start_s, estimate_s) in running {
        let start = clock.time(start_s);
        let said = clock.as_said(estimate_s);
        let takes = said.takes.max(now.since(start));
        asked.push(bag(start, LATER, vec![BagTask { takes, ..said }]));
    }

    if !calendar.waiting_est.is_empty() {
        asked.push(bag(now, LATER, tasks(&calendar.waiting_est)));
    }

    let number = asked.len();
    let deadline = calendar
        .deadline
        .map_or(LATER, |deadline_s| clock.span(deadline_s));
    asked.push(bag(now, deadline, tasks(&calendar.new_est)));

    let speeds = vec![Speed::REFERENCE; calendar.hosts as usize];
    let told = run(
        &speeds,
        &asked,
        WantedResults {
            moments: true,
            plan_of: Some(number),
            single: false,
        },
    );
    let mut plan = told.plan.clone();
    plan.sort_by_key(|planned| planned.task);

    let last = plan
        .iter()
        .map(|planned| planned.finish)
        .max()
        .unwrap_or(now);
    json!({
        "starts": plan.iter().map(|planned| clock.secs(planned.start)).collect::<Vec<_>>(),
        "finishes": plan.iter().map(|planned| clock.secs(planned.finish)).collect::<Vec<_>>(),
        "earliest_feasible_deadline": clock.secs(last),
        "accepted": told.fates[number].accepted,
        "trace": trace(&told.moments, clock),
        "metrics": metrics(&asked[number..], &told, number, clock),
    })
}

fn bags_answer(bags: &Bags) -> Value {
    let speeds: Vec<Speed> = match &bags.hosts {
        ScenarioHosts::Equal(hosts) => vec![Speed::REFERENCE; *hosts as usize],
        ScenarioHosts::Speeds(speeds) => speeds
            .iter()
            .map(|speed| Speed::new(*speed).unwrap_or(Speed::REFERENCE))
            .collect(),
    };

    let clock = TimeUnit::USUAL;
    let policy = bags
        .policy
        .clone()
        .unwrap_or_else(|| "PROMISE:inflated=no".to_owned());
    let one = |bag: &super::form::OneBag| SubmittedBag {
        at: clock.time(bag.at),
        estimator: Estimator {
            user: bag.user.clone(),
            program: String::new(),
        },
        policy: policy.clone(),
        deadline: bag.deadline.map(|deadline_s| clock.span(deadline_s)),
        tasks: bag
            .tasks
            .iter()
            .map(|(estimate_s, takes_s)| BagTask {
                takes: clock.span(*takes_s),
                ..clock.as_said(*estimate_s)
            })
            .collect(),
    };
    let asked: Vec<SubmittedBag> = bags.bags.iter().map(one).collect();
    let told = run(
        &speeds,
        &asked,
        WantedResults {
            moments: true,
            ..WantedResults::default()
        },
    );
    json!({ "trace": trace(&told.moments, clock), "metrics": metrics(&asked, &told, 0, clock) })
}

/// The acceptance and guarantee ratios of the bags from `from` on, and the fate of each.
fn metrics(asked: &[SubmittedBag], told: &BagResults, from: usize, clock: TimeUnit) -> Value {
    let fates = &told.fates[from..];
    let count =
        |of: fn(&simulator::bags::BagFate) -> bool| fates.iter().filter(|fate| of(fate)).count();
    let accepted = count(|fate| fate.accepted);
    let kept = count(|fate| fate.accepted && fate.kept);
    let deadline = |asked: &SubmittedBag| {
        asked
            .deadline
            .filter(|span| *span != LATER)
            .map(|span| asked.at + span)
    };

    let each = fates
        .iter()
        .zip(asked)
        .zip(from..)
        .map(|((fate, asked), bag)| {
            json!({
                "bag": bag,
                "accepted": fate.accepted,
                "predicted_finish": fate.offer.map(|offer| clock.secs(offer.finish)),
                "probability": fate.offer.map(|offer| offer.probability),
                "probation": fate.offer.map(|offer| offer.probation),
                "finished": fate.finished.map(|at| clock.secs(at)),
                "deadline": deadline(asked).map(|at| clock.secs(at)),
                "kept": fate.accepted && fate.kept,
                "killed": fate.killed.iter().map(|(task, _)| *task).collect::<Vec<_>>(),
            })
        });

    json!({
        "submitted": fates.len(),
        "accepted": accepted,
        "kept": kept,
        "acceptance_ratio": part(accepted, fates.len()),
        "guarantee_ratio": part(kept, accepted),
        "killed": fates.iter().map(|fate| fate.killed.len()).sum::<usize>(),
        "bags": each.collect::<Vec<_>>(),
    })
}

/// The events as (time, event, bag, task), each with its further fields.
fn trace(moments: &[BagEvent], clock: TimeUnit) -> Vec<Value> {
    moments.iter().map(|moment| told(moment, clock)).collect()
}

fn told(moment: &BagEvent, clock: TimeUnit) -> Value {
    let at = clock.secs(moment.at);
    let bag = moment.bag;
    match &moment.what {
        BagEventKind::Accepted(offer) => json!([
            at,
            "accept",
            bag,
            offer.map(|offer| clock.secs(offer.finish))
        ]),
        BagEventKind::Refused(Refused::TooLate { earliest, fits }) => {
            let fits: Vec<u32> = fits.iter().map(|index| index - 1).collect();
            json!([at, "refuse", bag, { "earliest_feasible_deadline": clock.secs(*earliest), "fits": fits }])
        }
        BagEventKind::Refused(why) => json!([at, "refuse", bag, { "because": why.to_string() }]),
        BagEventKind::Started(task, host) => json!([at, "start", bag, task, host.0]),
        BagEventKind::Killed(task, Span(ran)) => {
            json!([at, "kill", bag, task, clock.secs(Time(*ran))])
        }
        BagEventKind::Done(task) => json!([at, "finish", bag, task]),
    }
}
