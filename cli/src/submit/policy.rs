//! Checks policy names against the catalogue of the `scheduler`.

use scheduler::policy::{BadPolicy, Width};

use super::BuildError;

/// Returns the policy with the catalogue's spelling of its name and the given parameters
/// (`NAME:parameter=value`), for a job that runs on several hosts at once (`wide`) or one that does
/// not.
pub(crate) fn known(given: &str, wide: bool) -> Result<String, BuildError> {
    let (name, parameters) = given.find(':').map_or((given, ""), |at| given.split_at(at));
    match scheduler::policy::parse(given) {
        Ok(row) if row.width != Width::Rigid && !wide => Err(BuildError::ManyRanks(row.name)),
        Ok(row) if row.width == Width::Rigid && wide => Err(BuildError::OneHost(row.name)),
        Ok(row) => Ok(format!("{}{parameters}", row.name)),
        Err(BadPolicy::Unknown(_)) => {
            let names: Vec<&str> = scheduler::catalogue().iter().map(|row| row.name).collect();
            Err(BuildError::Policy {
                given: name.to_owned(),
                near: nearest(name, &names),
            })
        }
        Err(bad) => Err(BuildError::PolicyParameter(bad)),
    }
}

/// Adds `limits=learned` to the policy, if it has that parameter and does not set it.
pub(crate) fn with_learned_limits(policy: String) -> String {
    let says = policy
        .split(':')
        .skip(1)
        .any(|parameter| parameter.starts_with("limits="));
    let can = scheduler::policy::parse(&policy).is_ok_and(|row| {
        row.parameters()
            .iter()
            .any(|parameter| parameter.name == "limits")
    });
    if can && !says {
        format!("{policy}:limits=learned")
    } else {
        policy
    }
}

/// Returns the policy's name, if it promises no deadlines.
pub(crate) fn promises_nothing(policy: &str) -> Option<&'static str> {
    let row = scheduler::policy::parse(policy).ok()?;
    (row.admission == scheduler::policy::Admission::AcceptAll).then_some(row.name)
}

/// Returns whether the policy learns limits from a job's own runs.
pub(crate) fn learns_limits(policy: &str) -> bool {
    scheduler::policy::parse(policy).is_ok_and(|row| row.limits.learns())
}

/// Returns whether the policy starts disclosed tasks only once they are requested.
pub(crate) fn holds_disclosed(policy: &str) -> bool {
    scheduler::policy::parse(policy).is_ok_and(|row| row.holds_disclosed())
}

/// The fewest letters for which a name is suggested: one or two letters are like too many names.
const SHORTEST_LIKE: usize = 3;

/// Returns the name most like `given`, the one that was probably meant.
pub(crate) fn nearest(given: &str, names: &[&str]) -> Option<String> {
    if given.chars().count() < SHORTEST_LIKE {
        return None;
    }
    let given = given.to_uppercase();
    let likeness = |name: &&&str| strsim::jaro_winkler(&given, &name.to_uppercase());
    let best = names
        .iter()
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(&best) > 0.7).then(|| (*best).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_in_the_catalogue_and_keep_their_parameters() {
        let known = |given: &str| known(given, false);
        assert_eq!(
            super::known("priced:price=0.3", true).unwrap(),
            "PRICED:price=0.3"
        );
        assert!(matches!(
            super::known("PRI-CR", true),
            Err(BuildError::OneHost("PRI-CR"))
        ));
        assert_eq!(known("pri-cr-wait:wait=60").unwrap(), "PRI-CR-WAIT:wait=60");
        assert!(matches!(
            known("PRI-CR:wait=60"),
            Err(BuildError::PolicyParameter(_))
        ));
        assert!(matches!(known("pred"), Err(BuildError::ManyRanks("PRED"))));

        assert!(matches!(
            known("PRI_CR:wait=60"),
            Err(BuildError::Policy { near: Some(_), .. })
        ));
    }

    #[test]
    fn limits_are_learned_where_a_policy_can() {
        let with = |policy: &str| with_learned_limits(policy.to_owned());
        assert_eq!(with("PROMISE"), "PROMISE:limits=learned");
        assert_eq!(
            with("CALENDAR:policing=hard"),
            "CALENDAR:policing=hard:limits=learned"
        );
        for policy in ["PROMISE:limits=given", "FCFS", "TOPTIMAL"] {
            assert_eq!(with(policy), policy);
        }

        assert!(
            learns_limits("TOPTIMAL")
                && learns_limits("PROMISE:limits=learned")
                && !learns_limits("PROMISE")
        );
    }

    #[test]
    fn near_misses_are_named_and_far_ones_are_not() {
        let names = ["FCFS", "PRI-CR", "deskgrid"];
        assert_eq!(nearest("fcsf", &names).as_deref(), Some("FCFS"));
        assert_eq!(nearest("PRI_CR", &names).as_deref(), Some("PRI-CR"));
        assert_eq!(nearest("lottery", &names), None);
        assert_eq!(nearest("x", &["EXCL-S1"]), None);
    }
}
