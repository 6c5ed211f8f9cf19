//! Takes join tokens out of the arguments and the environment. A token given as an argument or in
//! `DESKGRID_JOIN` is removed from both before anything else happens, since every account of the
//! machine, and every task, may read the arguments of a process. The other ways to give a token
//! live in `commands::login`.
//!
//! The arguments of a process can be replaced only by running a program. So this program runs
//! itself anew in the same process (`exec`), with `fd:N` in place of each token and the token in a
//! pipe.

use std::ffi::OsString;

use crate::args::value::JoinWord;

/// The environment variable that may hold a token.
const VARIABLE: &str = "DESKGRID_JOIN";

/// The command line with its tokens restored, and the token that the environment held.
pub(crate) struct Handed {
    /// The arguments, the program's name first.
    pub words: Vec<OsString>,
    /// The token from `DESKGRID_JOIN`.
    pub join: Option<JoinWord>,
}

/// Finds the values of `--join` in a command line: the index of each word, and the prefix
/// (`--join=` or empty) before the value.
#[cfg(any(unix, test))]
fn places(words: &[OsString]) -> Vec<(usize, &'static str)> {
    let ours = words.iter().take_while(|word| *word != "--").count();
    let place = |at: usize| {
        let behind = at > 1 && words[at - 1] == "--join";
        let joined = words[at]
            .to_str()
            .is_some_and(|word| word.starts_with("--join="));
        match (behind, joined) {
            (true, _) => Some((at, "")),
            (false, true) => Some((at, "--join=")),
            (false, false) => None,
        }
    };
    (1..ours).filter_map(place).collect()
}

/// Returns the arguments of this process for a start of the same worker once it has joined: without the
/// program's name and without tokens.
pub(crate) fn words_without_token() -> Vec<OsString> {
    without_token(std::env::args_os().skip(1).collect())
}

fn without_token(words: Vec<OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut skip = false;

    for word in words {
        let text = word.to_string_lossy();
        let joined = ["--join=", "--join-file="];
        if std::mem::take(&mut skip)
            || text == "--rejoin"
            || joined.iter().any(|flag| text.starts_with(flag))
        {
            continue;
        }
        skip = text == "--join" || text == "--join-file";
        if !skip {
            kept.push(word);
        }
    }
    kept
}

/// Runs this program anew in the same process, for a worker that has joined.
#[cfg(unix)]
pub(crate) fn start_anew() -> std::io::Result<crate::failure::Exit> {
    use std::os::unix::process::CommandExt;
    let first = std::env::args_os().next().unwrap_or_default();
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command
        .arg0(first)
        .args(words_without_token())
        .env_remove(VARIABLE);
    Err(command.exec())
}

/// No worker takes another program on this system.
#[cfg(not(unix))]
pub(crate) fn start_anew() -> std::io::Result<crate::failure::Exit> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(not(unix))]
pub(crate) fn take() -> Handed {
    let join = std::env::var(VARIABLE)
        .ok()
        .filter(|value| !value.is_empty())
        .map(JoinWord::from);
    Handed {
        words: std::env::args_os().collect(),
        join,
    }
}

#[cfg(unix)]
pub(crate) use unix::take;

#[cfg(unix)]
mod unix {
    use std::ffi::{OsStr, OsString};
    use std::io::{PipeReader, Read, Write};
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use rustix::io::{FdFlags, fcntl_setfd};

    use super::{Handed, VARIABLE, places};
    use crate::args::value::JoinWord;

    /// The prefix of a value that names the pipe of a token.
    const IN_PIPE: &str = "fd:";
    /// The greatest length of a token in bytes; a pipe holds more.
    const LONGEST: usize = 4_096;

    /// Returns the arguments and the token of the environment, once both are hidden. Where there is
    /// something to hide, runs the program anew in the same process instead of returning.
    pub(crate) fn take() -> Handed {
        let words: Vec<OsString> = std::env::args_os().collect();
        let join = std::env::var(VARIABLE)
            .ok()
            .filter(|value| !value.is_empty());
        let join = match hide(&words, join.as_deref()) {
            Ok(()) => {
                join.map(|value| told(&value).map_or_else(|| JoinWord::from(value), JoinWord::from))
            }
            Err(error) => {
                let name =
                    "note: the join token could not be taken out of this process's arguments";
                crate::output::note(&format!(
                    "{name} ({error}): others may read it; better use --join @FILE or --join -"
                ));
                join.map(JoinWord::from)
            }
        };

        Handed {
            words: restored(words),
            join,
        }
    }

    /// Runs this program anew in this process if there is a token to hide; else returns.
    fn hide(words: &[OsString], join: Option<&str>) -> std::io::Result<()> {
        let mut hidden: Vec<OsString> = words.to_vec();
        let mut pipes: Vec<PipeReader> = Vec::new();
        for (at, before) in places(words) {
            let value = words[at]
                .to_str()
                .and_then(|word| word.strip_prefix(before));
            if let Some(value) = value.filter(|value| is_secret(value)) {
                pipes.push(in_pipe(value)?);
                hidden[at] = format!("{before}{}", name(&pipes)).into();
            }
        }

        let mut command = Command::new(std::env::current_exe()?);
        if let Some(value) = join.filter(|value| is_secret(value)) {
            pipes.push(in_pipe(value)?);
            command.env(VARIABLE, name(&pipes));
        }

        if pipes.is_empty() {
            return Ok(());
        }

        for pipe in &pipes {
            // The new program must be able to open the pipe.
            std::fs::metadata(path_of(&pipe.as_raw_fd().to_string()))?;
            fcntl_setfd(pipe.as_fd(), FdFlags::empty())?;
        }

        let (first, rest) = hidden
            .split_first()
            .ok_or(std::io::ErrorKind::InvalidInput)?;
        Err(command.arg0(first).args(rest).exec())
    }

    /// Whether the value can be a token, and is to go through a pipe. An empty pipe could not be told from one
    /// that was read before.
    pub(super) fn is_secret(value: &str) -> bool {
        !value.is_empty()
            && !value.starts_with(['-', '@'])
            && !value.starts_with(IN_PIPE)
            && value.len() <= LONGEST
    }

    /// Makes a pipe that holds `value` and then ends.
    fn in_pipe(value: &str) -> std::io::Result<PipeReader> {
        let (reader, mut writer) = std::io::pipe()?;
        writer.write_all(value.as_bytes())?;
        Ok(reader)
    }

    fn name(pipes: &[PipeReader]) -> String {
        pipes
            .last()
            .map_or_else(String::new, |pipe| format!("{IN_PIPE}{}", pipe.as_raw_fd()))
    }

    fn path_of(number: &str) -> String {
        format!("/dev/fd/{number}")
    }

    /// Reads the content of the pipe that `value` names, or `None` if it names none. The pipe is
    /// empty afterwards, also for processes that inherit it.
    fn told(value: &str) -> Option<String> {
        let number = value
            .strip_prefix(IN_PIPE)
            .filter(|number| number.parse::<u32>().is_ok())?;
        let mut text = String::new();
        std::fs::File::open(path_of(number))
            .ok()?
            .take(LONGEST as u64)
            .read_to_string(&mut text)
            .ok()?;
        (!text.is_empty()).then_some(text)
    }

    /// Returns the arguments with each `fd:N` replaced by the content of its pipe.
    fn restored(mut words: Vec<OsString>) -> Vec<OsString> {
        for (at, before) in places(&words) {
            let value = words[at]
                .to_str()
                .and_then(|word| word.strip_prefix(before))
                .and_then(told);
            if let Some(value) = value {
                words[at] = OsStr::new(&format!("{before}{value}")).to_owned();
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_starts_anew_has_its_arguments_without_the_token() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let kept = |text: &str| without_token(words(text));
        assert_eq!(
            kept("--dir d worker start --join fd:3 --slots 1"),
            words("--dir d worker start --slots 1")
        );
        assert_eq!(
            kept("worker start --join=@t --rejoin --tied"),
            words("worker start --tied")
        );
        assert_eq!(
            kept("worker start --join-file=t --join-file t --tied"),
            words("worker start --tied")
        );
    }

    #[test]
    fn a_value_of_join_is_found_wherever_it_stands_and_not_in_the_command_of_a_task() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            places(&words("deskgrid worker start --join dg1.x --slots 1")),
            [(4, "")]
        );
        assert_eq!(
            places(&words("deskgrid login --join=dg1.x --master m")),
            [(2, "--join=")]
        );
        assert_eq!(places(&words("deskgrid submit -- tool --join dg1.x")), []);
        assert_eq!(places(&words("deskgrid login --joiner dg1.x")), []);
        assert_eq!(places(&words("deskgrid login --join-file token")), []);
    }

    #[cfg(unix)]
    #[test]
    fn only_what_can_be_a_token_is_hidden() {
        let long = "x".repeat(5_000);
        for other in ["", "-", "--slots", "@file", "fd:3", &long] {
            assert!(!unix::is_secret(other), "{other}");
        }
        for token in ["dg1.x", "x"] {
            assert!(unix::is_secret(token), "{token}");
        }
    }
}
