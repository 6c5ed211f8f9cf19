//! Policy names, against the scheduler's catalogue.

use super::BuildError;

/// The policy's name as the catalogue writes it.
pub(crate) fn known(given: &str) -> Result<String, BuildError> {
    let names: Vec<&str> = scheduler::catalogue().iter().map(|row| row.name).collect();
    match names.iter().find(|name| name.eq_ignore_ascii_case(given)) {
        Some(name) => Ok((*name).to_owned()),
        None => Err(BuildError::Policy { given: given.to_owned(), near: nearest(given, &names) }),
    }
}

/// The name that was probably meant.
pub(crate) fn nearest(given: &str, names: &[&str]) -> Option<String> {
    let given = given.to_uppercase();
    let likeness = |name: &&&str| strsim::jaro_winkler(&given, &name.to_uppercase());
    let best = names.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(&best) > 0.7).then(|| (*best).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_named_and_far_ones_are_not() {
        let names = ["FCFS", "PRI-CR", "DESKGRID"];
        assert_eq!(nearest("fcsf", &names).as_deref(), Some("FCFS"));
        assert_eq!(nearest("PRI_CR", &names).as_deref(), Some("PRI-CR"));
        assert_eq!(nearest("lottery", &names), None);
    }
}
