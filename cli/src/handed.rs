//! Join tokens on their way into this process: a token that was given as an argument or in
//! `DESKGRID_JOIN` is taken out of both before anything else happens, since every account of the
//! machine, and every task, may read the arguments of a process. What is not here: the other ways
//! to give a token (`commands::login`).
//!
//! The arguments of a process can be replaced only by running a program: so this one runs itself
//! anew, in the same process, with the words `fd:N` where the token was and the token in a pipe.

use std::ffi::OsString;

use crate::args::value::JoinWord;

/// The variable that may hold a token.
const VARIABLE: &str = "DESKGRID_JOIN";

/// The command line as it was meant, and the token that the environment held.
pub(crate) struct Handed {
    /// The words.
    pub words: Vec<OsString>,
    /// From the environment.
    pub join: Option<JoinWord>,
}

/// Where in a command line a value of `--join` stands: in a word of its own, or behind `--join=`.
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

    /// What stands for a token that lies in a pipe.
    const IN_PIPE: &str = "fd:";
    /// No token is longer, and a pipe holds more.
    const LONGEST: usize = 4_096;

    /// Takes tokens out of the arguments and the environment, and gives what they were. Does not
    /// return where there were any, but in the same process anew.
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
                    "{name} ({error}): others may read it; better use --join-file or --join -"
                ));
                join.map(JoinWord::from)
            }
        };

        Handed {
            words: restored(words),
            join,
        }
    }

    /// Runs this program anew in this process, where there is something to hide.
    fn hide(words: &[OsString], join: Option<&str>) -> std::io::Result<()> {
        let secret =
            |value: &str| value != "-" && !value.starts_with(IN_PIPE) && value.len() <= LONGEST;

        let mut hidden: Vec<OsString> = words.to_vec();
        let mut pipes: Vec<PipeReader> = Vec::new();
        for (at, before) in places(words) {
            let value = words[at]
                .to_str()
                .and_then(|word| word.strip_prefix(before));
            if let Some(value) = value.filter(|value| secret(value)) {
                pipes.push(in_pipe(value)?);
                hidden[at] = format!("{before}{}", name(&pipes)).into();
            }
        }

        let mut command = Command::new(std::env::current_exe()?);
        if let Some(value) = join.filter(|value| secret(value)) {
            pipes.push(in_pipe(value)?);
            command.env(VARIABLE, name(&pipes));
        }

        if pipes.is_empty() {
            return Ok(());
        }

        for pipe in &pipes {
            // It must be found there again.
            std::fs::metadata(path_of(&pipe.as_raw_fd().to_string()))?;
            fcntl_setfd(pipe.as_fd(), FdFlags::empty())?;
        }

        let (first, rest) = hidden
            .split_first()
            .ok_or(std::io::ErrorKind::InvalidInput)?;
        Err(command.arg0(first).args(rest).exec())
    }

    /// A pipe that holds the value, and then ends.
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

    /// What a pipe held; none where the value does not name one. Once read it is empty, and stays
    /// so for whoever inherits it.
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

    /// The words with what pipes hold in place of their names.
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
        assert_eq!(places(&words("deskgrid login --join-file dg1.x")), []);
    }
}
