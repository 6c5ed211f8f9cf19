//! Policing: attempts that are killed to make room for a new bag (Wozniak, Jiang and Striegel,
//! section 4, equations 2 to 4). Only attempts beyond their estimates are, and only when a bag
//! arrives, or would be late that arrived before (`deadline::overruns`).

use std::fmt;
use std::str::FromStr;

use common::{AttemptId, Time};
use serde::{Deserialize, Serialize};

use super::setting::{name_of, number, one_of};
use super::trust::mixed;

/// The rule for killing attempts beyond their estimates. Its text form is the rule, followed by
/// `:always` unless it applies only when needed: `hard`, `grace0.25:always`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Policing {
    /// The excess from which on an attempt may be killed.
    pub rule: Rule,
    /// The occasions on which attempts may be killed.
    pub when: KillOccasion,
}

/// The permitted excess of an attempt over its estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// Any excess is permitted.
    Off,
    /// No excess is permitted.
    Hard,
    /// An excess of this part of the estimate is permitted (the paper's K).
    Grace(f64),
    /// The attempt is killed with the probability 1 - estimate / elapsed.
    Probabilistic,
}

/// The occasions on which an arriving bag may have attempts killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillOccasion {
    /// Always, all of those that may be.
    Always,
    /// Only if the bag would be refused otherwise, and is not then; as few attempts as that takes,
    /// the farthest beyond first.
    Needed,
}

impl Rule {
    /// Returns the probability with which an attempt is killed that was estimated to take
    /// `estimate_s` and has run for `elapsed_s`.
    pub fn chance(self, estimate_s: f64, elapsed_s: f64) -> f64 {
        let sure = |yes: bool| if yes { 1.0 } else { 0.0 };
        match self {
            Rule::Off => 0.0,
            Rule::Hard => sure(elapsed_s > estimate_s),
            Rule::Grace(part) => sure(elapsed_s > estimate_s * (1.0 + part)),
            Rule::Probabilistic if elapsed_s > estimate_s => 1.0 - estimate_s / elapsed_s,
            Rule::Probabilistic => 0.0,
        }
    }
}

impl FromStr for Rule {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = "`off`, `hard`, `grace` with a part of the estimate such as `grace0.25`, or `probabilistic`";
        if let Some(part) = text.strip_prefix("grace") {
            return Ok(Rule::Grace(number(part, 0.0, 1e6, wanted)?));
        }

        let rules = [
            ("off", Rule::Off),
            ("hard", Rule::Hard),
            ("probabilistic", Rule::Probabilistic),
        ];
        one_of(text, &rules, wanted)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Off => f.write_str("off"),
            Rule::Hard => f.write_str("hard"),
            Rule::Grace(part) => write!(f, "grace{part}"),
            Rule::Probabilistic => f.write_str("probabilistic"),
        }
    }
}

/// The names of occasions.
const OCCASIONS: [(&str, KillOccasion); 2] = [
    ("always", KillOccasion::Always),
    ("needed", KillOccasion::Needed),
];

impl FromStr for KillOccasion {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        one_of(text, &OCCASIONS, "`always` or `needed`")
    }
}

impl fmt::Display for KillOccasion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name_of(*self, &OCCASIONS))
    }
}

impl FromStr for Policing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (rule, when) = text.split_once(':').unwrap_or((text, "needed"));
        let both = rule.parse().and_then(|rule| {
            let when = when.parse()?;
            Ok(Policing { rule, when })
        });
        both.map_err(|wanted: &str| format!("policing `{text}` is not {wanted}"))
    }
}

impl TryFrom<String> for Policing {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Policing> for String {
    fn from(policing: Policing) -> String {
        policing.to_string()
    }
}

impl fmt::Display for Policing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.rule, self.when)
    }
}

impl Policing {
    /// Kills no attempt.
    pub const OFF: Policing = Policing {
        rule: Rule::Off,
        when: KillOccasion::Needed,
    };

    /// Whether the attempt is killed now, if the occasion permits it. The random draw depends only
    /// on the attempt and the time.
    pub(crate) fn condemns(
        self,
        attempt: AttemptId,
        now: Time,
        estimate_s: f64,
        elapsed_s: f64,
    ) -> bool {
        let chance = self.rule.chance(estimate_s, elapsed_s);
        chance > 0.0 && uniform(attempt, now) < chance
    }

    pub(crate) fn describe(self) -> &'static str {
        match (self.rule, self.when) {
            (Rule::Off, _) => "none: what exceeds its estimate goes on",
            (Rule::Hard, KillOccasion::Always) => {
                "whenever a bag arrives, all that exceed their estimate are killed"
            }
            (Rule::Grace(_), KillOccasion::Always) => {
                "whenever a bag arrives, all that exceed their estimate by more than a grace are killed"
            }
            (Rule::Probabilistic, KillOccasion::Always) => {
                "whenever a bag arrives, what exceeds its estimate is killed with the probability 1 - estimate / elapsed"
            }
            (Rule::Hard, KillOccasion::Needed) => {
                "what exceeds its estimate is killed where a bag would be refused otherwise, as few as that takes"
            }
            (Rule::Grace(_), KillOccasion::Needed) => {
                "what exceeds its estimate by more than a grace is killed where a bag would be refused otherwise, as few \
                 as that takes"
            }
            (Rule::Probabilistic, KillOccasion::Needed) => {
                "what exceeds its estimate may be killed, with the probability 1 - estimate / elapsed, where a bag would \
                 be refused otherwise; as few as that takes"
            }
        }
    }
}

/// Returns a pseudorandom number between 0 and 1 that depends on these two only.
fn uniform(attempt: AttemptId, now: Time) -> f64 {
    let parts = [
        u64::from(attempt.task.job.0),
        u64::from(attempt.task.index),
        u64::from(attempt.number),
        now.0,
    ];
    (mixed(0, parts) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use common::{Incarnation, JobId, TaskId};
    use proptest::prelude::*;

    use super::*;

    fn attempt(index: u32) -> AttemptId {
        AttemptId {
            task: TaskId::new(JobId(7), index),
            number: 1,
            incarnation: Incarnation(1),
        }
    }

    #[test]
    fn the_dice_are_fair() {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let drawn: Vec<f64> = (0..20_000)
            .map(|at| uniform(attempt(at % 40), Time(u64::from(at) * 1_000_003)))
            .collect();
        let squares: Vec<f64> = drawn.iter().map(|value| value * value).collect();
        assert!((mean(&drawn) - 0.5).abs() < 0.01 && (mean(&squares) - 1.0 / 3.0).abs() < 0.01);
        let low = (0..1_000)
            .filter(|index| uniform(attempt(*index), Time(5)) < 0.25)
            .count();
        assert!((200..300).contains(&low), "{low} of 1000");
    }

    #[test]
    fn as_text_it_reads_as_it_is_written() {
        for (text, rule, when) in [
            ("off", Rule::Off, KillOccasion::Needed),
            ("hard:always", Rule::Hard, KillOccasion::Always),
            ("grace0.25", Rule::Grace(0.25), KillOccasion::Needed),
            (
                "probabilistic:needed",
                Rule::Probabilistic,
                KillOccasion::Needed,
            ),
        ] {
            let policing: Policing = text.parse().unwrap();
            assert_eq!(policing, Policing { rule, when });
            assert_eq!(policing.to_string().parse(), Ok(policing));
        }

        for (text, wanted) in [
            ("soft", "`hard`"),
            ("gracex", "`grace0.25`"),
            ("hard:often", "`always` or `needed`"),
        ] {
            let why = text.parse::<Policing>().unwrap_err();
            assert!(why.contains(text) && why.contains(wanted), "{why}");
        }
    }

    proptest! {
        #[test]
        fn an_attempt_within_its_estimate_is_never_killed(
            estimate_s in 0.0..1e6_f64, part in 0.0..=1.0_f64, grace in 0.0..3.0_f64, now: u64, index: u32,
        ) {
            for rule in [Rule::Off, Rule::Hard, Rule::Grace(grace), Rule::Probabilistic] {
                let policing = Policing { rule, when: KillOccasion::Always };
                prop_assert!(!policing.condemns(attempt(index), Time(now), estimate_s, part * estimate_s));
            }
        }

        #[test]
        fn a_grace_of_nothing_is_hard_and_the_chance_grows_with_the_time(
            estimate_s in 0.001..1e6_f64, over in 0.0..9.0_f64, more in 0.0..9.0_f64,
        ) {
            let elapsed_s = estimate_s * (1.0 + over);
            let chance = |rule: Rule| rule.chance(estimate_s, elapsed_s);
            prop_assert_eq!(chance(Rule::Hard), chance(Rule::Grace(0.0)));
            prop_assert!(chance(Rule::Probabilistic) <= chance(Rule::Hard));
            let later = Rule::Probabilistic.chance(estimate_s, elapsed_s + more);
            prop_assert!(later >= chance(Rule::Probabilistic) && later < 1.0);
        }
    }
}
