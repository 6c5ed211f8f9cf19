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
            tips.extend((!tip.contains(HIDDEN)).then(|| tip.replace("subcommand", "command")));
        } else if let Some(line) = line.strip_prefix("Usage: ") {
            usage = Some(
                GIVEN
                    .iter()
                    .fold(line.to_owned(), |line, given| line.replace(given, "")),
            );
        } else if let Some(values) = listed(line) {
            tips.push(format!("one of {values}"));
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
    let kind = error.kind();
    let no_command = matches!(
        kind,
        ErrorKind::InvalidSubcommand | ErrorKind::MissingSubcommand
    );
    // The usage of commands does not say which ones there are.
    tips.extend(usage.filter(|_| !no_command));
    if kind == ErrorKind::MissingRequiredArgument {
        tips.extend(details.iter().filter_map(|one| instead(one)));
        return Failure::usage(missing(&details), tips.join("; or: "));
    }
    if tips.is_empty() || no_command {
        tips.push(format!("{} --help", named(whole, words)));
    }

    Failure {
        because: (!details.is_empty()).then(|| details.join(" ")),
        ..Failure::usage(in_words(&what), tips.join("; or: "))
    }
}

/// Flags that clap takes for part of the usage where a variable of the environment has given them.
const GIVEN: [&str; 2] = [" --dir <DIR>", " --output <MODE>"];

/// Arguments of which clap says that they are missing, and flags that can stand in place of them.
const INSTEAD: [(&str, &str); 4] = [
    ("<JOBS>", "--label <LABEL>"),
    ("--dist <LAW:NUMBERS>", "--runs <FILE>"),
    ("<OWNER>", "--nobody"),
    ("<LABELS>...", "--remove <LABEL>"),
];

/// Names the flag that can stand in place of a missing argument, if there is one.
fn instead(missing: &str) -> Option<String> {
    let (_, flag) = INSTEAD.iter().find(|(argument, _)| *argument == missing)?;
    Some(format!("{flag} instead"))
}

/// Names missing arguments: values without brackets around them, flags with their values.
fn missing(arguments: &[String]) -> String {
    let plain = |argument: &String| {
        let argument = argument.trim_end_matches("...");
        let inner = argument
            .strip_prefix('<')
            .and_then(|rest| rest.strip_suffix('>'));
        inner.unwrap_or(argument).replace("|--", " or --")
    };
    let names: Vec<String> = arguments.iter().map(plain).collect();
    let are = if names.len() == 1 { "is" } else { "are" };
    format!("{} {are} missing", names.join(" and "))
}

/// Returns the values or commands of which one has to be given.
fn listed(line: &str) -> Option<&str> {
    ["[possible values: ", "[subcommands: "]
        .iter()
        .find_map(|start| line.strip_prefix(start)?.strip_suffix(']'))
}

/// Says in plain words what clap and the parsers of numbers and addresses say in their own.
fn in_words(what: &str) -> String {
    let quoted = |text: &str| text.trim_matches('\'').to_owned();
    if let Some(name) = what.strip_prefix("unrecognized subcommand ") {
        return format!("there is no command `{}`", quoted(name));
    }
    if let Some(name) = what.strip_suffix(" requires a subcommand but one was not provided") {
        return format!("`{}` needs one of its commands", quoted(name));
    }

    let Some((start, why)) = what.rsplit_once("': ") else {
        return what.to_owned();
    };
    let why = match why {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "it is no whole number".to_owned()
        }
        "invalid float literal" | "cannot parse float from empty string" => {
            "it is no number".to_owned()
        }
        "invalid socket address syntax" => "it is no address with a port".to_owned(),
        "number too large to fit in target type" => "it is too large".to_owned(),
        _ => {
            let range = why.split_once(" is not in ").map_or("", |(_, range)| range);
            match range.split_once("..=") {
                Some((least, most)) => format!("it has to be from {least} to {most}"),
                None => return what.to_owned(),
            }
        }
    };
    format!("{start}': {why}")
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
        for (line, what, hint) in [
            (
                "job fetch 7",
                "--into <DIR> is missing",
                "deskgrid job fetch --into <DIR> <JOB>",
            ),
            (
                "job info",
                "JOBS is missing",
                "deskgrid job info <JOBS>; or: --label <LABEL> instead",
            ),
            (
                "predict limits",
                "--dist <LAW:NUMBERS> is missing",
                "; or: --runs <FILE> instead",
            ),
            ("host owner x", "OWNER is missing", "; or: --nobody instead"),
            (
                "host label x",
                "LABELS is missing",
                "; or: --remove <LABEL> instead",
            ),
            (
                "master move",
                "--to <URL> or --from <URL> is missing",
                "deskgrid master move",
            ),
            (
                "host update start",
                "--program <F> and --key <F> are missing",
                "deskgrid host update start",
            ),
        ] {
            let failure = wrong(&format!("deskgrid --dir x {line}"));
            assert_eq!((&*failure.what, &failure.because), (what, &None));
            assert!(failure.hint.contains(hint), "{failure:?}");
            assert!(!failure.hint.contains("--dir"), "{failure:?}");
        }

        let failure = wrong("deskgrid --output json submit --timeout soon -- x");
        assert!(
            failure.what.contains("or `auto`") && failure.hint == "deskgrid submit --help",
            "{failure:?}"
        );
    }

    #[cfg(feature = "whole")]
    #[test]
    fn mistakes_are_told_in_plain_words() {
        for (line, what, hint) in [
            (
                "worker start --slots x",
                "invalid value 'x' for '--slots <N>': it is no whole number",
                "deskgrid worker start --help",
            ),
            (
                "worker start --slots 0",
                "invalid value '0' for '--slots <N>': it has to be from 1 to 4096",
                "deskgrid worker start --help",
            ),
            (
                "token create --role client --uses 0",
                "invalid value '0' for '--uses <N>': it has to be from 1 to 4294967295",
                "deskgrid token create --help",
            ),
            (
                "predict limits --runs x --zeta x",
                "invalid value 'x' for '--zeta <RATE>': it is no number",
                "deskgrid predict limits --help",
            ),
            ("nosuch", "there is no command `nosuch`", "deskgrid --help"),
            (
                "worker statu",
                "there is no command `statu`",
                "some similar commands exist: 'start', 'status'; or: deskgrid worker --help",
            ),
        ] {
            let failure = wrong(&format!("deskgrid {line}"));
            assert_eq!((&*failure.what, &*failure.hint), (what, hint));
        }

        let failure = wrong("deskgrid job --dir x");
        assert_eq!(failure.what, "`deskgrid job` needs one of its commands");
        assert!(
            failure.hint.starts_with("one of list, info, "),
            "{failure:?}"
        );
        assert!(failure.hint.ends_with("; or: deskgrid job --help"));
        let failure = wrong("deskgrid completions no");
        assert!(failure.hint.contains("one of bash, "), "{failure:?}");
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
