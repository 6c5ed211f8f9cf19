//! Parses the command line; prints help, and mistakes in the shape of all other errors.

use std::ffi::OsString;
use std::io::Write;

use clap::error::{ContextKind, ErrorKind};
use clap::{ColorChoice, Parser, ValueEnum};

use crate::args::OutputMode;
use crate::failure::{Exit, Failure};
use crate::output::OutputForm;

/// Parses the command line. If that fails, or help was asked for, the text is printed and the exit
/// code returned.
///
/// # Errors
/// If the words are not a command.
pub fn parse<C: Parser>(words: &[OsString]) -> Result<C, Exit> {
    let color = flag(words, "--color").and_then(|value| ColorChoice::from_str(&value, true).ok());
    let command = C::command().color(color.unwrap_or(ColorChoice::Auto));
    one_help(command)
        .try_get_matches_from(words)
        .and_then(|matches| C::from_arg_matches(&matches))
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
                OutputForm::failure(
                    mode(words),
                    &failure(&complete(C::command()), &error, words),
                );
                let _ = std::io::stderr().flush();
                Exit::Usage
            }
        })
}

/// Gives all commands help of one layout. By itself clap takes another one, several times as long,
/// for commands of which a flag has described values.
pub(crate) fn one_help(command: clap::Command) -> clap::Command {
    let help = clap::Arg::new("help")
        .short('h')
        .long("help")
        .help("Print help")
        .help_heading(None::<&'static str>)
        .global(true)
        .action(clap::ArgAction::HelpShort);
    command.disable_help_flag(true).arg(help)
}

/// Gives all commands that help, and builds those parts that wait until they are parsed.
pub(crate) fn complete(command: clap::Command) -> clap::Command {
    let mut command = one_help(command);
    command.build();
    command
}

/// Converts clap's error into a failure like any other.
fn failure(whole: &clap::Command, error: &clap::Error, words: &[OsString]) -> Failure {
    if let Some(what) = negative(error, words) {
        let what = without_tokens(&what).0;
        return Failure::usage(what, format!("{} --help", named(whole, words)));
    }
    let (text, hidden) = without_tokens(&error.render().to_string());
    let mut lines = text.lines();
    let what = lines.next().unwrap_or_default();
    let what = what
        .strip_prefix("error: ")
        .unwrap_or(what)
        .trim_end_matches(':')
        .to_owned();
    let mut details = Vec::new();
    let mut tips = Vec::new();
    if hidden {
        tips.push(
            "a join token is given by --join @FILE, or --join - and standard input".to_owned(),
        );
    }

    let mut usage = None;
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(tip) = line.strip_prefix("tip: ") {
            // A tip that repeats a hidden token is of no use.
            tips.extend((!tip.contains(HIDDEN)).then(|| tip.to_owned()));
        } else if let Some(line) = line.strip_prefix("Usage: ") {
            usage = Some(line.to_owned());
        } else if !line.starts_with("For more information") {
            details.push(line.to_owned());
        }
    }

    if what.contains("invalid socket address") {
        tips.push("an address and a port, as 127.0.0.1:7411".to_owned());
    }
    let pairs = words
        .windows(2)
        .map(|pair| [0, 1].map(|at| pair[at].to_string_lossy()));
    let number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let mut several = pairs.filter(|pair| pair.iter().all(|word| number(word)));
    tips.extend(
        several
            .next()
            .map(|[one, other]| format!("numbers in one word: {one},{other}")),
    );
    tips.extend(in_lab(whole, words).then(|| IN_LAB.to_owned()));
    tips.extend(usage);
    if tips.is_empty() {
        tips.push(format!("{} --help", named(whole, words)));
    }

    let failure = Failure::usage(what, tips.join("; or: "));
    if details.is_empty() {
        failure
    } else {
        failure.because(details.join(" "))
    }
}

/// Describes the error where the unexpected argument is a negative value: clap takes it for a flag.
fn negative(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let is_negative = |word: &OsString| {
        let word = word.to_string_lossy();
        let rest = word.strip_prefix('-').unwrap_or_default();
        rest.starts_with(|c: char| c.is_ascii_digit())
    };
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }

    let pair = words.windows(2).find(|pair| is_negative(&pair[1]))?;
    let [flag, value] = [0, 1].map(|at| pair[at].to_string_lossy());
    let given = error.get(ContextKind::InvalidArg)?.to_string();
    let is_it = value.starts_with(&given) && flag.starts_with("--");
    is_it.then(|| format!("{flag} is never negative: {value}"))
}

/// The tip for a command of `deskgrid-lab`.
const IN_LAB: &str = "`deskgrid-lab` has this command";
/// Commands and flags of `deskgrid-lab`, by the words with which they begin.
const LAB: [&[&str]; 7] = [
    &["reproduce"],
    &["simulate", "--scenario"],
    &["predict", "calendar"],
    &["predict", "kill"],
    &["predict", "width"],
    &["predict", "--state"],
    &["predict", "--log"],
];

/// Whether the words given to `deskgrid` are a command of `deskgrid-lab`.
fn in_lab(whole: &clap::Command, words: &[OsString]) -> bool {
    let has = |word: &str| words.iter().any(|given| given == word);
    whole.get_name() == "deskgrid" && LAB.iter().any(|all| all.iter().all(|word| has(word)))
}

/// The text that replaces a join token.
const HIDDEN: &str = "(a join token)";

/// Replaces everything in the text that looks like a join token, and returns whether it did: a
/// token typed in the wrong place must not appear in logs as well.
fn without_tokens(text: &str) -> (String, bool) {
    const START: &str = "dg1.";
    let lower = text.to_ascii_lowercase();
    let mut kept = String::new();
    let mut at = 0;
    while let Some(found) = lower[at..].find(START) {
        kept += &text[at..at + found];
        kept += HIDDEN;
        let rest = &text[at + found..];
        let token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        at = text.len() - rest.trim_start_matches(token).len();
    }

    kept += &text[at..];
    (kept, at > 0)
}

/// The command that the words begin with, as far as they name one.
fn named(whole: &clap::Command, words: &[OsString]) -> String {
    let mut command = whole;
    let mut name = whole.get_name().to_owned();
    for word in words.iter().skip(1).map(|word| word.to_string_lossy()) {
        if let Some(sub) = command.find_subcommand(&*word) {
            name = format!("{name} {word}");
            command = sub;
        }
    }
    name
}

/// The form in which errors are printed if the command line itself is wrong.
fn mode(words: &[OsString]) -> OutputMode {
    let given = flag(words, "--output").or_else(|| std::env::var("DESKGRID_OUTPUT").ok());
    given
        .and_then(|value| OutputMode::from_str(&value, true).ok())
        .unwrap_or(OutputMode::Cli)
}

/// The value of a flag among words that may not parse as a whole.
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
    use clap::CommandFactory;

    use super::*;
    #[cfg(feature = "whole")]
    use crate::args::Cli as Program;
    #[cfg(not(feature = "whole"))]
    use crate::args::WorkerCli as Program;

    fn wrong(line: &str) -> Failure {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        failure(
            &complete(Program::command()),
            &Program::command().try_get_matches_from(&words).unwrap_err(),
            &words,
        )
    }

    #[cfg(feature = "whole")]
    #[test]
    fn a_wrong_flag_names_the_closest_one() {
        let failure = wrong("deskgrid submit --arry 1-3 -- x");
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.what.contains("--arry"), "{failure:?}");
        assert!(failure.hint.contains("--array"), "{failure:?}");
    }

    #[cfg(feature = "whole")]
    #[test]
    fn a_negative_value_is_not_taken_for_a_flag() {
        for line in [
            "deskgrid submit --estimate -5s -- true",
            "deskgrid submit --deadline -2h -- x -7",
            "deskgrid job wait 1 --timeout -5s",
        ] {
            let failure = wrong(line);
            assert!(
                failure.what.contains(" is never negative: -"),
                "{failure:?}"
            );
            assert!(failure.hint.ends_with(" --help"), "{failure:?}");
        }
        for line in [
            "deskgrid submit -5 -- true",
            "deskgrid submit --arry 3 -- x -7",
        ] {
            let failure = wrong(line);
            assert!(
                failure.what.starts_with("unexpected argument"),
                "{failure:?}"
            );
        }
    }

    #[cfg(feature = "whole")]
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

    #[cfg(feature = "whole")]
    #[test]
    fn a_command_of_the_laboratory_is_named_as_such() {
        for line in [
            "deskgrid reproduce kondo",
            "deskgrid predict calendar --state x",
            "deskgrid predict wait --width 2 --state x",
            "deskgrid simulate --scenario x",
        ] {
            let failure = wrong(line);
            assert!(failure.hint.contains(IN_LAB), "{line}: {failure:?}");
        }
        assert!(!wrong("deskgrid predict wait").hint.contains(IN_LAB));
    }

    #[cfg(feature = "whole")]
    #[test]
    fn what_is_nearly_right_gets_a_tip() {
        let cases = [
            ("deskgrid job info 8 9", "8,9"),
            ("deskgrid master start --listen 127.0.0.1", "127.0.0.1:7411"),
        ];
        for (line, tip) in cases {
            let failure = wrong(line);
            assert!(failure.hint.contains(tip), "{line}: {failure:?}");
        }
    }

    #[test]
    fn a_join_token_in_a_wrong_place_is_not_repeated() {
        let token = "dg1.7.00112233445566778899aabbccddeeff.ffee";
        let everywhere = [
            "deskgrid TOKEN",
            "deskgrid --TOKEN",
            "deskgrid --output TOKEN worker status",
            "deskgrid worker start --slots xTOKEN,TOKEN",
        ];
        let whole = [
            "deskgrid login TOKEN",
            "deskgrid token create TOKEN",
            "deskgrid token create --uses TOKEN",
        ];
        let whole = whole.iter().filter(|_| cfg!(feature = "whole"));
        for line in everywhere.iter().chain(whole) {
            let failure = wrong(&line.replace("TOKEN", token));
            let said = format!("{failure:?}");
            assert!(
                !said.contains("0011") && !said.contains("ffee"),
                "{line}: {said}"
            );
            assert!(
                said.contains(HIDDEN) && failure.hint.contains("--join @FILE"),
                "{line}: {said}"
            );
        }

        let (kept, hidden) = without_tokens("a DG1.2.x, or `dg1.`: no");
        assert_eq!(
            (&*kept, hidden),
            ("a (a join token), or `(a join token)`: no", true)
        );
        assert_eq!(without_tokens("none"), ("none".to_owned(), false));
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
