//! The owner's policy, and beside it the same one with the settings from the master added
//! ([`Guard`]). What tasks may do is the stricter of both decisions: the owner's own policy runs
//! unchanged whatever comes from the master, so nothing that comes from there can let a task run.

use common::Time;
use common::host::Loan;

use super::policy::hours::WeekTime;
use super::policy::{ClosingReason, Decision, OwnerPolicy, Watched};
use super::rules::{HostSize, OwnerRules};
use super::sight::{Reading, Sight, Topic};

/// The end of a sentence about a reason that the owner's own rules do not have.
const BY_SITE: &str = "; this is so by the settings from the master";

/// Both policies.
#[derive(Debug)]
pub struct Guard {
    own: OwnerPolicy,
    /// The policy of the owner's rules together with the settings from the master, if there are any.
    site: Option<OwnerPolicy>,
    /// The one that is being replaced, between [`Self::leave`] and [`Self::restrict`].
    before: Option<OwnerPolicy>,
    /// All sensors. The owner's own policy knows the first of them.
    sensors: Vec<Watched>,
    /// The number of each of them; one that is left is not given again.
    numbers: Vec<usize>,
    next: usize,
    slots: u32,
    decision: (Time, Decision),
}

impl Guard {
    /// Makes both policies before any sight, without settings from the master: no task runs.
    /// The tasks have `slots` slots, at most as many as the owner's rules give them.
    pub fn new(
        rules: OwnerRules,
        room: &HostSize,
        slots: u32,
        sensors: impl IntoIterator<Item = (String, Topic)>,
        now: Time,
    ) -> Self {
        let own = OwnerPolicy::new(rules, room, sensors, now);
        let next = own.sensors().len();
        Self {
            sensors: own.sensors().to_vec(),
            numbers: (0..next).collect(),
            next,
            decision: own.decided(),
            site: None,
            before: None,
            slots,
            own,
        }
    }

    /// Leaves the sensors that came for settings and whose number does not stay. To be followed by
    /// [`Self::restrict`]: until then no settings hold.
    pub fn leave(&mut self, stays: impl Fn(usize) -> bool) {
        let own = self.own.sensors().len();
        let stay = |number: usize| number < own || stays(number);
        let mut numbers = self.numbers.iter();
        self.sensors
            .retain(|_| numbers.next().is_some_and(|number| stay(*number)));
        self.numbers.retain(|number| stay(*number));
        self.before = self.site.take();
    }

    /// Returns the number of the next sensor that comes with [`Self::restrict`]; those behind it
    /// count on from there.
    pub fn next_sensor(&self) -> usize {
        self.next
    }

    /// Replaces the rules with settings from the master; `None`: only the owner's own rules
    /// hold. More sensors may have come for them. What holds by the settings before holds on for its
    /// time, as far as the new ones heed it.
    pub fn restrict(
        &mut self,
        now: Time,
        rules: Option<OwnerRules>,
        room: &HostSize,
        more: impl IntoIterator<Item = (String, Topic)>,
    ) {
        for (name, topic) in more {
            self.sensors.push(Watched {
                name,
                topic,
                sight: None,
            });
            self.numbers.push(self.next);
            self.next += 1;
        }

        let before = self.before.take().or(self.site.take());
        self.site = rules.map(|rules| {
            let named = self
                .sensors
                .iter()
                .map(|sensor| (sensor.name.clone(), sensor.topic));
            let mut site = OwnerPolicy::new(rules, room, named, now);
            if let Some(before) = &before {
                site.go_on_from(before);
            }
            for (number, sensor) in self.sensors.iter().enumerate() {
                if let Some((at, sight)) = &sensor.sight {
                    site.saw(now, number, aged(sight, now.since(*at)));
                }
            }
            site
        });
    }

    /// Takes a new sight of the sensor with this number. Of one that was left it takes none.
    pub fn saw(&mut self, now: Time, sensor: usize, sight: Sight) {
        let mut numbers = self.numbers.iter();
        let Some(sensor) = numbers.position(|number| *number == sensor) else {
            return;
        };

        if let Some(watched) = self.sensors.get_mut(sensor) {
            watched.sight = Some((now, sight.clone()));
        }
        if let Some(site) = &mut self.site {
            site.saw(now, sensor, sight.clone());
        }
        self.own.saw(now, sensor, sight);
    }

    /// Notes in both policies that a part of the memory that suspended tasks held is free.
    pub fn relieve(&mut self, now: Time) {
        self.own.relieve(now);
        self.site.iter_mut().for_each(|site| site.relieve(now));
    }

    /// Decides what tasks may do from now on, at this hour of the week.
    pub fn decide(&mut self, now: Time, hour: WeekTime) -> Decision {
        let own = self.own.decide(now, hour);
        let site = self.site.as_mut().map(|site| site.decide(now, hour));
        let decision = match site {
            Some(site) if is_stricter(site, own, self.slots) => site,
            _ => own,
        };
        if decision != self.decision.1 {
            self.decision = (now, decision);
        }
        decision
    }

    /// Returns the last decision, and the time since which it has been the same.
    pub fn decided(&self) -> (Time, Decision) {
        self.decision
    }

    /// Returns the time for which the hours lend the host: the shorter of both loans.
    pub fn loan(&self) -> Option<Loan> {
        let site = self.site.as_ref().and_then(OwnerPolicy::loan);
        match (self.own.loan(), site) {
            (Some(own), Some(site)) => Some(Loan {
                left: own.left.min(site.left),
                again: if own.left <= site.left {
                    own.again
                } else {
                    site.again
                },
                longest: own.longest.min(site.longest).max(own.left.min(site.left)),
            }),
            (own, site) => own.or(site),
        }
    }

    /// Returns the time at which [`Self::decide`] must be called again if there is no new sight.
    pub fn next_wakeup(&self) -> Option<Time> {
        let site = self.site.as_ref().and_then(OwnerPolicy::next_wakeup);
        self.own.next_wakeup().into_iter().chain(site).min()
    }

    /// Returns every reason that holds; the decisive one comes first.
    pub fn why(&self) -> Vec<ClosingReason> {
        let own = self.own.why();
        let Some(site) = &self.site else { return own };
        let of_site = site.why().into_iter().map(|reason| {
            let known = own.iter().any(|own| own.reason == reason.reason);
            let says = if known {
                reason.says
            } else {
                reason.says + BY_SITE
            };
            ClosingReason { says, ..reason }
        });
        let of_site: Vec<ClosingReason> = of_site.collect();

        let decisive = self.decision.1.reason();
        let leads = |all: &[ClosingReason]| all.first().map(|first| first.reason) == decisive;
        let (mut first, then) = if leads(&own) && !leads(&of_site) {
            (own, of_site)
        } else {
            (of_site, own)
        };
        for reason in then {
            if first.iter().all(|told| told.reason != reason.reason) {
                first.push(reason);
            }
        }
        first
    }

    /// Returns the sensors, in the order of their numbers.
    pub fn sensors(&self) -> &[Watched] {
        &self.sensors
    }
}

/// Whether `a` leaves tasks less than `b`, in a worker with so many slots.
fn is_stricter(a: Decision, b: Decision, slots: u32) -> bool {
    let left = |decision: Decision| (decision.slots(slots), !decision.evicts());
    left(a) < left(b)
}

/// Returns a sight as it would be told this long after it was seen.
fn aged(sight: &Sight, ago: common::Span) -> Sight {
    match sight {
        Sight::Seen(Reading::Idle(idle)) => Sight::Seen(Reading::Idle(*idle + ago)),
        other => other.clone(),
    }
}
