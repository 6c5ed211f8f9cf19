//! Parts of the command line that are built once a command of theirs is parsed. One command needs
//! one part of two dozen: to build all of them took a quarter of a start's page faults.

use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};

/// The arguments or verbs of a command, which clap learns of when that command is parsed.
#[derive(Debug)]
pub(crate) struct Deferred<T>(pub(crate) T);

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(T::from_arg_matches(matches)?))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(|command| described_as_before(command, T::augment_args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(|command| described_as_before(command, T::augment_args_for_update))
    }
}

impl<T: Subcommand> Subcommand for Deferred<T> {
    fn augment_subcommands(command: Command) -> Command {
        command.defer(|command| described_as_before(command, T::augment_subcommands))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        command.defer(|command| described_as_before(command, T::augment_subcommands_for_update))
    }

    fn has_subcommand(name: &str) -> bool {
        T::has_subcommand(name)
    }
}

/// Adds to the command and keeps its description: the doc comment of a type with arguments would
/// take the place of the command's own.
fn described_as_before(command: Command, add: fn(Command) -> Command) -> Command {
    let about = command.get_about().cloned().unwrap_or_default();
    let long_about = command.get_long_about().cloned();

    let command = add(command).about(about).long_about(None);
    match long_about {
        Some(long_about) => command.long_about(long_about),
        None => command,
    }
}
