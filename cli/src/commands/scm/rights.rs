//! Closes the service's directory, which holds the key, to all but the accounts in `MAY`: commands
//! of `icacls`, in their order.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::Failure;

/// The accounts that may use the directory: the system, the administrators and `LocalService`, by
/// number, since their names are translated.
const MAY: [&str; 3] = [
    "*S-1-5-18:(OI)(CI)F",
    "*S-1-5-32-544:(OI)(CI)F",
    "*S-1-5-19:(OI)(CI)F",
];
/// The administrators become the owner, and rules that somebody made go.
const TAKE: [&[&str]; 2] = [&["/setowner", "*S-1-5-32-544", "/q"], &["/reset", "/q"]];

/// The words of one call of `icacls`.
pub(super) struct RightsStep(Vec<String>);

impl fmt::Display for RightsStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "icacls {}", self.0.join(" "))
    }
}

/// Returns the steps that close `state`. Who has made it before the first installation
/// (`made_before`) is its owner and may have rights of their own: they are taken back, from the
/// directory first, and once it is closed from what lies in it. Of a link (`/l`) the link is meant.
pub(super) fn steps(state: &Path, made_before: bool) -> Vec<RightsStep> {
    let step = |of: &str, words: &[&str], more: &[&str]| {
        let words = [&[of], words, more].concat();
        RightsStep(words.into_iter().map(str::to_owned).collect())
    };
    let dir = state.to_string_lossy();
    let close = step(&dir, &["/inheritance:r", "/grant:r"], &MAY);
    if !made_before {
        return vec![close];
    }

    let mut steps: Vec<RightsStep> = TAKE.map(|words| step(&dir, words, &[])).into();
    steps.push(close);
    // A pattern that matches nothing would be an error.
    if std::fs::read_dir(state).is_ok_and(|mut files| files.next().is_some()) {
        let files = state.join("*");
        steps.extend(TAKE.map(|words| step(&files.to_string_lossy(), words, &["/t", "/l"])));
    }
    steps
}

/// Carries out the steps, up to the first that fails.
pub(super) fn carry_out(steps: &[RightsStep]) -> Result<(), Failure> {
    for step in steps {
        let mut command = Command::new("icacls");
        let status = command.args(&step.0).stdout(Stdio::null()).status();
        let status = status.map_err(|e| Failure::io("icacls cannot be run", &e))?;
        if !status.success() {
            let what = format!("the directory could not be closed to others: {step} ({status})");
            let hint = "run this from a prompt that was started as administrator";
            return Err(Failure::error("service", what, hint));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(state: &Path, made_before: bool) -> Vec<String> {
        let dir = state.to_string_lossy().into_owned();
        let steps = steps(state, made_before);
        let said = steps
            .iter()
            .map(|step| step.to_string().replace(&dir, "STATE"));
        said.collect()
    }

    #[test]
    fn a_directory_that_somebody_made_before_is_taken_and_closed_before_what_lies_in_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let close = format!("icacls STATE /inheritance:r /grant:r {}", MAY.join(" "));
        let take = [
            "icacls STATE /setowner *S-1-5-32-544 /q",
            "icacls STATE /reset /q",
            &close,
        ];
        assert_eq!(words(dir.path(), true), take);

        std::fs::write(dir.path().join("worker.toml"), "").unwrap();
        let all = words(dir.path(), true);
        assert_eq!(all[..3], take);
        assert_eq!(
            all[3..],
            [
                r"icacls STATE\* /setowner *S-1-5-32-544 /q /t /l",
                r"icacls STATE\* /reset /q /t /l"
            ]
        );
    }

    #[test]
    fn a_repeated_installation_resets_no_rights_where_the_key_lies() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("key"), "").unwrap();
        let steps = words(dir.path(), false);
        assert!(
            steps.len() == 1 && !steps[0].contains("/reset"),
            "{steps:?}"
        );
    }
}
