//! Describes what a job's tasks run, for `deskgrid job info`.

use common::job::{Compare, Rules};
use common::template::{Template, TemplateValues};
use common::text::printable;
use common::view::{AttemptView, TaskView, WorkView};

/// The number of inputs that are named where a program is missing.
const SHOWN_INPUTS: usize = 5;
/// The placeholders whose values no view has.
const UNKNOWN: [&str; 3] = ["PLATFORM", "RANK", "WIDTH"];

/// Returns the command as one would type it; `None` where tasks run nothing.
pub(super) fn command(work: &WorkView) -> Option<String> {
    typed(work, str::to_owned)
}

/// Returns the command of one attempt. A word stays as it was submitted if a client does not know all of its
/// placeholders.
pub(super) fn command_of(work: &WorkView, values: &TemplateValues<'_>) -> Option<String> {
    typed(work, |word| expanded(word, values))
}

/// Returns the word with its placeholders replaced, if a client knows all of them.
pub(super) fn expanded(word: &str, values: &TemplateValues<'_>) -> String {
    match word.parse::<Template>() {
        Ok(word) if !UNKNOWN.iter().any(|name| word.mentions(name)) => word.expand(values),
        _ => word.to_owned(),
    }
}

/// Returns the values of an attempt's placeholders, as far as a client knows them.
pub(super) fn values_of<'a>(task: &'a TaskView, attempt: &'a AttemptView) -> TemplateValues<'a> {
    TemplateValues {
        attempt: attempt.attempt,
        host: &attempt.host,
        platform: "",
        item: task.item.as_deref().unwrap_or_default(),
        width: None,
    }
}

fn typed(work: &WorkView, shown: impl Fn(&str) -> String) -> Option<String> {
    let words = work.command.iter().map(|word| quoted(&shown(word)));
    let cut = work.cut > 0 && work.command.len() >= WorkView::SHOWN;
    let words: Vec<String> = words.chain(cut.then(|| "...".to_owned())).collect();
    let stdin = work.stdin.as_ref();
    let stdin = stdin.map_or_else(String::new, |name| format!(" < {}", quoted(&shown(name))));
    (!words.is_empty()).then(|| words.join(" ") + &stdin)
}

/// Returns the inputs and outputs in words; `None` where there are none.
pub(super) fn files(work: &WorkView) -> Option<String> {
    let some = |what: &str, names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
    };
    let parts = [
        some("in:", &work.inputs),
        some("out:", &work.outputs),
        (work.cut > 0).then(|| format!("({} more, or longer, not shown)", work.cut)),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Says more of a task that ended in this way since its program was not there or may not be executed, and names its
/// inputs as `shown`; `None` of any other end.
pub(super) fn on_missing_program(
    end: &str,
    work: &WorkView,
    shown: impl Fn(&str) -> String,
) -> Option<String> {
    let by_shell = missing_program(end)?;
    let names = work.inputs.iter().take(SHOWN_INPUTS);
    let names: Vec<String> = names.map(|name| quoted(&shown(name))).collect();
    let names = names.join(", ");
    let has = match work.inputs.len().saturating_sub(SHOWN_INPUTS) {
        0 if names.is_empty() => "has no inputs (submit --input FILE places one there)".to_owned(),
        0 => format!("has: {names}"),
        _ if work.cut > 0 => format!("has: {names} (and more)"),
        more => format!("has: {names} (and {more} more)"),
    };
    Some(format!("{by_shell}the task's directory {has}"))
}

/// Returns the meaning of the exit code of a task that ended in this way, empty where it has none; `None` unless its
/// program was not there or may not be executed.
pub(super) fn missing_program(end: &str) -> Option<&'static str> {
    let mut parts = end.split("; ");
    match parts.find_map(|part| part.strip_prefix("ended with exit code ")) {
        Some("126") => Some(
            "by a shell's convention 126 is a file that may not be executed (chmod +x before you submit it); ",
        ),
        Some("127") => Some(
            "by a shell's convention 127 is a program that is not found (an input is called as ./NAME), or a library of \
             it is missing; ",
        ),
        _ if end.contains("not found in PATH") => Some(""),
        _ if end.contains("does not exist below the attempt") => Some(""),
        _ => None,
    }
}

/// Returns the settings that are not the usual ones, as options of `submit`; `None` where all are.
/// Usually no rank of a job that runs `together` may fail.
pub(super) fn settings(work: &WorkView, together: bool) -> Option<String> {
    let rules = &work.rules;
    let usual = Rules::default();
    let env = work
        .env
        .iter()
        .map(|pair| format!("--env {}", quoted(pair)));
    let options = [
        rules
            .estimate
            .map(|estimate| format!("--estimate {estimate}")),
        rules.timeout.map(|timeout| format!("--timeout {timeout}")),
        (rules.retries != usual.retries).then(|| format!("--retries {}", rules.retries)),
        (rules.max_losses != usual.max_losses)
            .then(|| format!("--max-losses {}", rules.max_losses)),
        rules
            .max_fails
            .filter(|most| *most > 0 || !together)
            .map(|most| format!("--max-fails {most}")),
        work.checkpoint.map(|each| format!("--checkpoint {each}")),
        quorum(rules),
    ];

    let options: Vec<String> = options.into_iter().flatten().chain(env).collect();
    (!options.is_empty()).then(|| options.join(" "))
}

/// Returns the rule for comparing results; `None` where none are compared.
fn quorum(rules: &Rules) -> Option<String> {
    let quorum = rules.quorum;
    let adaptive = if quorum.adaptive { " --adaptive" } else { "" };
    let compare = match quorum.compare {
        Compare::Bytes => String::new(),
        other => format!(" --compare {other}"),
    };
    quorum
        .compares()
        .then(|| format!("--quorum {}{adaptive}{compare}", quorum.size))
}

/// Returns a word in the quotes that a shell would need for it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%{}".contains(c);
    let expands = word.contains('{') && (word.contains(',') || word.contains(".."));
    if !word.is_empty() && !expands && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", printable(word).replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use common::job::Quorum;

    use super::*;

    #[test]
    fn the_settings_say_how_results_are_compared() {
        let said = |size, adaptive, compare: &str| {
            let quorum = Quorum {
                size,
                adaptive,
                compare: compare.parse().unwrap(),
            };
            let rules = Rules {
                quorum,
                ..Rules::default()
            };
            settings(&WorkView::empty(rules), false)
        };

        assert_eq!(said(1, false, "bytes"), None);
        assert_eq!(said(2, false, "bytes").unwrap(), "--quorum 2");
        let judged = said(3, false, "program").unwrap();
        assert_eq!(judged, "--quorum 3 --compare program");
        let close = said(2, true, "float:1e-6").unwrap();
        assert_eq!(close, "--quorum 2 --adaptive --compare float:1e-6");
    }

    #[test]
    fn a_missing_program_is_set_beside_the_inputs_that_are_there() {
        let work = |inputs: u32, cut| WorkView {
            inputs: (1..=inputs).map(|input| format!("in{input}")).collect(),
            cut,
            ..WorkView::empty(Rules::default())
        };
        let said = |end: &str, work: WorkView| {
            on_missing_program(end, &work, str::to_owned).unwrap_or_default()
        };

        let nowhere = "could not be started: program `x` not found in PATH (/bin)";
        let two = "the task's directory has: in1, in2";
        assert_eq!(said(nowhere, work(2, 3)), two);
        assert!(said(nowhere, work(8, 0)).ends_with("in5 (and 3 more)"));
        assert!(said(nowhere, work(8, 1)).ends_with("in5 (and more)"));
        assert!(said(nowhere, work(0, 0)).contains("has no inputs ("));

        let by_shell = said(
            "first attempt; ended with exit code 127; a warning",
            work(2, 0),
        );
        let told = ["a shell's convention", "./NAME", "library"];
        assert!(
            told.iter().all(|words| by_shell.contains(words)) && by_shell.ends_with(two),
            "{by_shell}"
        );
        assert!(said("ended with exit code 126", work(2, 0)).contains("chmod +x"));
        for other in [12, 1260, 1275] {
            let end = format!("ended with exit code {other}");
            assert_eq!(said(&end, work(2, 0)), "", "another code");
        }
    }

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        let cases = [
            ("./run.sh", "./run.sh"),
            ("%{TASK_ID}", "%{TASK_ID}"),
            ("{a,b}", "'{a,b}'"),
            ("{1..9}", "'{1..9}'"),
            ("", "''"),
            ("sleep 4", "'sleep 4'"),
            ("it's", "'it'\\''s'"),
        ];
        for (word, shown) in cases {
            assert_eq!(quoted(word), shown);
        }
    }
}
