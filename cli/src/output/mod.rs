//! Prints a command's one value in one of three forms: for people, for scripts, or as bare ids.

#[cfg(feature = "whole")]
pub(crate) mod figures;
#[cfg(any(feature = "whole", test))]
pub(crate) mod json;
pub(crate) mod table;
#[cfg(feature = "whole")]
pub(crate) mod waits;
pub(crate) mod when;

use std::io::{self, ErrorKind, IsTerminal, Write};

pub(crate) use api::json::document;
use clap::ColorChoice;
use common::text::{ShownOutput, printable_lines};
use serde::Serialize;

use crate::args::{OutputMode, Printing};
use crate::failure::Failure;

/// The form and the colours in which a command prints.
#[derive(Debug, Clone, Copy)]
pub struct OutputForm {
    mode: OutputMode,
    color: bool,
}

/// Whether a page is the first of its list, and the last.
#[derive(Debug, Clone, Copy)]
pub struct PagePlace {
    /// Whether no page came before it.
    pub first: bool,
    /// Whether none comes after it.
    pub last: bool,
}

impl OutputForm {
    /// Takes form and colours from the flags.
    pub fn new(printing: &Printing) -> Self {
        Self {
            mode: printing.output,
            color: colored(printing.color),
        }
    }

    /// The form in which to print.
    pub fn mode(&self) -> OutputMode {
        self.mode
    }

    /// Whether standard output takes colours.
    pub fn color(&self) -> bool {
        self.color
    }

    /// Prints the one value of a command: `json` as a document, `text` for people, or each of `ids`
    /// on a line. Where its reader went away (`deskgrid submit --wait | true`) it counts as printed:
    /// how the command ended is what its exit code says, to whoever looks at that.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn show<T: Serialize>(
        &self,
        json: &T,
        text: impl FnOnce() -> String,
        ids: impl FnOnce() -> Vec<String>,
    ) -> Result<(), Failure> {
        unless_unread(self.value(json, text, ids))
    }

    /// Prints one value in the form that was asked for.
    fn value<T: Serialize>(
        &self,
        json: &T,
        text: impl FnOnce() -> String,
        ids: impl FnOnce() -> Vec<String>,
    ) -> Result<(), Failure> {
        let out = match self.mode {
            OutputMode::Json => document(json),
            OutputMode::Cli => text(),
            OutputMode::Quiet => ids().join("\n"),
        };
        let newline = if out.is_empty() || out.ends_with('\n') {
            ""
        } else {
            "\n"
        };

        self.bytes(format!("{out}{newline}").as_bytes())
    }

    /// Prints a page of one long list like [`OutputForm::show`], so that not all of it is in memory
    /// at once: the pages together give the same bytes. `json` is a document whose last field is
    /// the page.
    ///
    /// # Errors
    /// As [`OutputForm::bytes`].
    pub fn show_page<T: Serialize>(
        &self,
        json: &T,
        text: impl FnOnce() -> String,
        ids: impl FnOnce() -> Vec<String>,
        place: PagePlace,
    ) -> Result<(), Failure> {
        if self.mode != OutputMode::Json || (place.first && place.last) {
            return self.value(json, text, ids);
        }

        let document = document(json);
        let page = document.strip_suffix("]}").unwrap_or(&document);
        let items = page.split_once('[').map_or(page, |(_, items)| items);
        let begun = if place.first {
            page.to_owned()
        } else {
            format!(",{items}")
        };
        let end = if place.last { "]}\n" } else { "" };
        self.bytes(format!("{begun}{end}").as_bytes())
    }

    /// Writes bytes to standard output as they are.
    ///
    /// # Errors
    /// If standard output cannot be written, or nobody reads it any more: that ends the command well and without a word.
    pub fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::unread()),
            result => {
                result.map_err(|error| Failure::io("cannot write to standard output", &error))
            }
        }
    }

    /// Writes what a task printed: as it is, but on a terminal without what would act there.
    ///
    /// # Errors
    /// As [`OutputForm::bytes`].
    pub fn of_task(&self, shown: &mut ShownOutput, bytes: &[u8]) -> Result<(), Failure> {
        if io::stdout().is_terminal() {
            self.bytes(shown.piece(bytes).as_bytes())
        } else {
            self.bytes(bytes)
        }
    }

    /// Prints the command's failure to standard error, in the form of `mode`.
    pub fn failure(mode: OutputMode, failure: &Failure) {
        let text = match mode {
            OutputMode::Json => format!("{}\n", failure.json()),
            OutputMode::Cli | OutputMode::Quiet => failure.text(),
        };
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

/// Takes what nobody reads any more for printed: for commands whose exit code says more than that it was.
pub(crate) fn unless_unread(printed: Result<(), Failure>) -> Result<(), Failure> {
    match printed {
        Err(failure) if failure.is_unread() => Ok(()),
        printed => printed,
    }
}

/// Prints a line for people beside the value, or several; names in it may be of others, and nothing of it acts on a
/// terminal. A closed standard error is no reason to fail.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", printable_lines(text));
}

fn colored(choice: ColorChoice) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            !refused && io::stdout().is_terminal()
        }
    }
}
