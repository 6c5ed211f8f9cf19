//! Parses the command line; prints help, and mistakes in the shape of all other errors.

use std::ffi::OsString;
use std::io::Write;

use clap::error::ErrorKind;
use clap::{ColorChoice, CommandFactory, FromArgMatches, ValueEnum};

use crate::args::{Cli, OutputMode};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// The parsed command line, or how the program exits without one: help and mistakes have then been
/// printed.
///
/// # Errors
/// If the words are not a command.
pub(crate) fn parse(words: &[OsString]) -> Result<Cli, Exit> {
    let color = flag(words, "--color").and_then(|value| ColorChoice::from_str(&value, true).ok());
    let command = Cli::command().color(color.unwrap_or(ColorChoice::Auto));
    command
        .try_get_matches_from(words)
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                let _ = error.print();
                Exit::Well
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let _ = error.print();
                Exit::Usage
            }
            _ => {
                Output::failure(mode(words), &failure(&error, words));
                let _ = std::io::stderr().flush();
                Exit::Usage
            }
        })
}

/// What clap found wrong, as a failure like any other.
fn failure(error: &clap::Error, words: &[OsString]) -> Failure {
    let text = error.render().to_string();
    let mut lines = text.lines();
    let what = lines.next().unwrap_or_default();
    let what = what
        .strip_prefix("error: ")
        .unwrap_or(what)
        .trim_end_matches(':')
        .to_owned();
    let mut details = Vec::new();
    let mut tips = Vec::new();

    let mut usage = None;
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(tip) = line.strip_prefix("tip: ") {
            tips.push(tip.to_owned());
        } else if let Some(line) = line.strip_prefix("Usage: ") {
            usage = Some(line.to_owned());
        } else if !line.starts_with("For more information") {
            details.push(line.to_owned());
        }
    }

    tips.extend(usage);
    if tips.is_empty() {
        tips.push(format!("{} --help", named(words)));
    }

    let failure = Failure::usage(what, tips.join("; or: "));
    if details.is_empty() {
        failure
    } else {
        failure.because(details.join(" "))
    }
}

/// The command that the words begin with, as far as they name one.
fn named(words: &[OsString]) -> String {
    let whole = Cli::command();
    let mut command = &whole;
    let mut name = "deskgrid".to_owned();
    for word in words.iter().skip(1).map(|word| word.to_string_lossy()) {
        if let Some(sub) = command.find_subcommand(&*word) {
            name = format!("{name} {word}");
            command = sub;
        }
    }
    name
}

/// How errors are to be printed when the command line itself is wrong.
fn mode(words: &[OsString]) -> OutputMode {
    let given = flag(words, "--output").or_else(|| std::env::var("DESKGRID_OUTPUT").ok());
    given
        .and_then(|value| OutputMode::from_str(&value, true).ok())
        .unwrap_or(OutputMode::Cli)
}

/// The value of a flag among words that may not make sense as a whole.
fn flag(words: &[OsString], name: &str) -> Option<String> {
    let words: Vec<_> = words
        .iter()
        .map(|word| word.to_string_lossy())
        .take_while(|word| word != "--")
        .collect();
    words.iter().enumerate().find_map(|(i, word)| {
        let rest = word.strip_prefix(name)?;
        match rest.strip_prefix('=') {
            Some(value) => Some(value.to_owned()),
            None if rest.is_empty() => words.get(i + 1).map(ToString::to_string),
            None => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(line: &str) -> Failure {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        failure(
            &Cli::command().try_get_matches_from(&words).unwrap_err(),
            &words,
        )
    }

    #[test]
    fn a_wrong_flag_says_what_was_meant() {
        let failure = wrong("deskgrid submit --arry 1-3 -- x");
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.what.contains("--arry"), "{failure:?}");
        assert!(failure.hint.contains("--array"), "{failure:?}");
    }

    #[test]
    fn a_missing_argument_is_named() {
        let failure = wrong("deskgrid job fetch 7");
        assert!(
            failure
                .because
                .as_deref()
                .is_some_and(|because| because.contains("--into")),
            "{failure:?}"
        );

        let failure = wrong("deskgrid --output json submit --timeout soon -- x");
        assert!(
            failure.what.contains("or `auto`") && failure.hint == "deskgrid submit --help",
            "{failure:?}"
        );
    }

    #[test]
    fn flags_are_found_in_a_broken_line() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            mode(&words("deskgrid --output json nonsense")),
            OutputMode::Json
        );
        assert_eq!(
            mode(&words("deskgrid nonsense --output=quiet")),
            OutputMode::Quiet
        );
        assert_eq!(
            flag(&words("deskgrid submit -- x --output json"), "--output"),
            None
        );
    }
}
