//! The end of an attempt, read from the settled job of the other grid.

use common::view::{TaskState, TaskView};
use common::{Outcome, Span};
use worker::engine::AttemptEnding;

/// Returns the [`AttemptEnding`] that a settled task stands for, without its output. `limit` is the time limit that it had.
pub(crate) fn ending(task: &TaskView, limit: Option<Span>) -> AttemptEnding {
    let Some(attempt) = task.main_attempt() else {
        let why = task
            .reason
            .clone()
            .unwrap_or_else(|| task.state.to_string());
        return AttemptEnding::bare(Outcome::NotStarted(elsewhere(&why)));
    };
    let outcome = match task.state {
        TaskState::Finished => Outcome::Succeeded,
        TaskState::Failed => {
            let why = attempt.reason.as_deref().unwrap_or("no reason is told");
            told(why, attempt.exit_code, limit)
        }
        // Somebody there has cancelled it, or this bridge has before it was killed.
        state => Outcome::ResultLost(elsewhere(&state.to_string())),
    };

    AttemptEnding {
        cpu: attempt.cpu,
        took: Some((attempt.ran, attempt.suspended)),
        ..AttemptEnding::bare(outcome)
    }
}

/// Says that a reason is the other grid's.
pub(crate) fn elsewhere(why: &str) -> String {
    format!("the other grid says: {why}")
}

/// The words before the reason of an outcome of some kind, and what makes it.
type OutcomeWords = (&'static str, fn(String) -> Outcome);

/// Returns the outcome that is told in words, as [`Outcome`] prints them.
fn told(why: &str, code: Option<i32>, limit: Option<Span>) -> Outcome {
    if let Some(code) = code.filter(|code| *code != 0) {
        return Outcome::Exited(code);
    }
    let after = |words: &str| why.split_once(words).map(|(_, rest)| rest.to_owned());
    let number = |rest: &String| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    if let Some(signal) = after("ended by signal ").as_ref().and_then(number) {
        return Outcome::Signalled(signal);
    }
    if let Some(limit) = limit.filter(|_| why.contains("killed at its time limit of ")) {
        return Outcome::TimedOut(limit);
    }

    let missing = after("its expected output `");
    if let Some((pattern, _)) = missing
        .as_ref()
        .and_then(|rest| rest.rsplit_once("` is missing"))
    {
        return Outcome::MissingOutput(pattern.to_owned());
    }
    let kinds: [OutcomeWords; 5] = [
        ("an output could not be collected: ", Outcome::BadOutput),
        ("could not be started: ", Outcome::NotStarted),
        ("exceeded a limit: ", Outcome::OverLimit),
        // As masters of earlier versions tell it.
        ("ended at a limit of its host: ", Outcome::OverLimit),
        ("its result was lost on its host: ", Outcome::ResultLost),
    ];
    let kind = kinds
        .into_iter()
        .find_map(|(words, kind)| Some(kind(after(words)?)));
    kind.unwrap_or_else(|| Outcome::ResultLost(elsewhere(why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read_from_the_words_in_which_they_are_told() {
        let limit = Span::from_secs(7);
        for outcome in [
            Outcome::Exited(3),
            Outcome::Signalled(11),
            Outcome::Signalled(40),
            Outcome::TimedOut(limit),
            Outcome::MissingOutput("out/*.txt".to_owned()),
            Outcome::BadOutput("a: too long".to_owned()),
            Outcome::NotStarted("no such program".to_owned()),
            Outcome::OverLimit("memory".to_owned()),
            Outcome::ResultLost("a disk".to_owned()),
        ] {
            let words = outcome.to_string();
            assert_eq!(
                told(&words, outcome.exit_code(), Some(limit)),
                outcome,
                "{words}"
            );
        }
    }

    #[test]
    fn a_limit_is_read_from_the_words_of_earlier_versions_too() {
        let over = told("attempt 1 ended at a limit of its host: memory", None, None);
        assert_eq!(over, Outcome::OverLimit("memory".to_owned()));
    }

    #[test]
    fn what_is_told_in_other_words_is_no_failure_of_the_task() {
        let lost = told("host not heard of for 15m00s", None, None);
        assert!(matches!(lost, Outcome::ResultLost(why) if why.contains("not heard of")));
    }
}
