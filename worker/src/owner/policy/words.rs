//! The policy's reasons in sentences for the owner, with names of sensors and numbers. Nothing is
//! decided here.

use common::Span;
use common::host::YieldReason;

use super::{ClosingReason, OwnerPolicy, Topic, Watched};
use crate::owner::rules::Whole;

impl OwnerPolicy {
    /// Returns every reason that holds, as of the last call of [`Self::decide`]; the decisive one
    /// comes first.
    pub fn why(&self) -> Vec<ClosingReason> {
        let finding = |reason| ClosingReason {
            reason,
            says: self.sentence(reason),
        };
        self.hard().chain(self.soft()).map(finding).collect()
    }

    fn sentence(&self, reason: YieldReason) -> String {
        let rules = &self.rules;
        match reason {
            YieldReason::PausedByOwner => self.paused(),
            YieldReason::OutsideHours => {
                format!(
                    "it is {}, and the owner lets tasks run at these hours: {}",
                    self.hour.1, rules.hours
                )
            }
            YieldReason::OnBattery => self.on_battery(),
            YieldReason::ExclusiveApp => self.exclusive(),
            YieldReason::LowMemory => self.low_memory(),
            YieldReason::StartingUp => self.starting(),
            YieldReason::InUse => self.used() + &self.meanwhile(),
            YieldReason::Busy => self.busy() + &self.meanwhile(),
            YieldReason::OtherGridAway => "the other grid cannot be reached".to_owned(),
        }
    }

    /// Returns the sentence for a blind sensor of this topic, if there is one.
    fn unseen(&self, topic: Topic, what: &str) -> Option<String> {
        let (sensor, why) = self.blind(topic)?;
        Some(format!(
            "cannot tell {what} ({}: {why}); what cannot be seen counts as the owner's",
            sensor.name
        ))
    }

    fn meanwhile(&self) -> String {
        match self.slots_in_use {
            0 => String::new(),
            shared => format!("; meanwhile {shared} of {} slots go on", self.slots),
        }
    }

    fn paused(&self) -> String {
        if let Some(says) = self.unseen(Topic::Switch, "whether the owner paused this worker") {
            return says;
        }
        let switch = self
            .named(Topic::Switch)
            .map_or("a switch", |(what, _)| what);
        format!(
            "the owner paused this worker ({switch}); `deskgrid worker resume` ends a pause of \
             `worker pause`, whoever put another file there has to remove it"
        )
    }

    fn on_battery(&self) -> String {
        if let Some(says) = self.unseen(Topic::Power, "whether this host runs on its battery") {
            return says;
        }

        let rule = &self.rules.battery;
        let wanted = match rule.charge_above {
            least if least < 1.0 => format!("with mains, or a charge above {}", per_cent(least)),
            _ => "with mains".to_owned(),
        };

        let after = rule.resume_after.span();
        match self.lowest_battery() {
            Some((charge, sensor)) => {
                let charge = per_cent(charge);
                format!(
                    "on battery, {charge} charged ({}); tasks resume {wanted} for {after}",
                    sensor.name
                )
            }
            None => format!("on battery until a moment ago; tasks resume {wanted} for {after}"),
        }
    }

    fn exclusive(&self) -> String {
        if let Some(says) = self.unseen(Topic::Programs, "which programs run") {
            return says;
        }

        let after = self.rules.programs.resume_after.span();
        match self.named(Topic::Programs) {
            Some((program, sensor)) => {
                format!(
                    "{program} runs ({}), which is to have this host; tasks resume {after} after its end",
                    sensor.name
                )
            }
            None => format!(
                "a program ran until a moment ago that is to have this host; tasks resume {after} after its end"
            ),
        }
    }

    fn low_memory(&self) -> String {
        if let Some(says) = self.unseen(Topic::Memory, "how much memory is left") {
            return says;
        }

        let rule = &self.rules.memory;
        let above = per_cent(rule.available_above);
        let below = per_cent(rule.pressure_below);
        let after = rule.free_after.span();
        let wanted = format!(
            "tasks resume when more than {above} are, and that is below {below}, for {after}"
        );

        match self.scarcest_memory() {
            Some((available, pressure, sensor)) => {
                let available = per_cent(available);
                let pressure = per_cent(pressure);
                let name = &sensor.name;
                format!(
                    "{available} of the memory are available, and programs wait for it {pressure} of the time ({name}); {wanted}"
                )
            }
            None => format!("memory was short until a moment ago; {wanted}"),
        }
    }

    fn starting(&self) -> String {
        let unseen = |sensor: &&Watched| self.rules.heeds(sensor.topic) && sensor.sight.is_none();
        let names: Vec<&str> = self
            .sensors
            .iter()
            .filter(unseen)
            .map(|sensor| sensor.name.as_str())
            .collect();
        let watch = self.rules.first_watch.span();
        let ends = self.watch_ends();
        let left = whole_seconds(ends.since(self.now));
        match names.as_slice() {
            [] if ends > self.started + watch => format!(
                "other programs load this host: whether that lasts is known in {left}, and no task starts before"
            ),
            [] => format!("this host is watched for {watch} before tasks may run; {left} are left"),
            names => format!("not every sensor has looked yet ({})", names.join(", ")),
        }
    }

    fn used(&self) -> String {
        if let Some(says) = self.unseen(Topic::Input, "whether somebody uses this host") {
            return says;
        }

        let wanted = self.input.wanted(self.now);
        let idle = self.input.idle(self.now).unwrap_or(Span::ZERO);
        let ago = whole_seconds(idle);
        let left = whole_seconds(Span(wanted.0.saturating_sub(idle.0)));
        let until = format!("tasks resume after {wanted} without input, in {left} at the earliest");

        match self.newest_input().filter(|(seen, _)| *seen <= idle) {
            Some((_, sensor)) => {
                let name = &sensor.name;
                format!("keyboard, mouse or a session was used {ago} ago ({name}); {until}")
            }
            None => format!("this host counts as used until {ago} ago; {until}"),
        }
    }

    fn busy(&self) -> String {
        if let Some(says) = self.unseen(Topic::Load, "how much others load this host") {
            return says;
        }

        let rule = &self.rules.load;
        let (load, sensor) = self
            .highest_load()
            .map_or((0.0, "no sensor"), |(load, s)| (load, s.name.as_str()));
        let (load, whole) = match rule.of {
            Whole::Processor => (load, "of one processor"),
            Whole::Host => (load / self.cores, "of all processors"),
        };
        let load = per_cent(load);
        let free = per_cent(rule.free_below);
        let after = rule.free_after.span();

        format!(
            "other programs use {load} {whole} ({sensor}); tasks resume when that has been below {free} for {after}"
        )
    }
}

/// Rounds a span down to seconds: it is told once, and goes on.
fn whole_seconds(span: Span) -> Span {
    Span::from_secs(span.0 / 1_000_000)
}

fn per_cent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}
