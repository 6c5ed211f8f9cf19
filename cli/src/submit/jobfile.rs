//! Reads job files: TOML with the names of the flags of `deskgrid submit`.

use std::path::Path;

use super::{BuildError, items};
use crate::args::submit::JobArgs;

/// Reads the job file at `path`; `-` is standard input.
///
/// # Errors
/// If it cannot be read, or a key or value in it is not understood: names the line.
pub(crate) fn read(path: &Path) -> Result<JobArgs, BuildError> {
    parse(&items::read(path, "the job file")?, path)
}

/// Parses the content of the job file at `path`.
///
/// # Errors
/// As [`read`].
pub(crate) fn parse(bytes: &[u8], path: &Path) -> Result<JobArgs, BuildError> {
    let text = String::from_utf8_lossy(bytes);
    toml::from_str(&text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start).min(text.len());
        let start = text[..at].rfind('\n').map_or(0, |i| i + 1);
        let line = text[start..]
            .lines()
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned();

        let number = text[..at].matches('\n').count() + 1;
        BuildError::JobFile {
            path: path.to_owned(),
            line: number,
            text: line,
            why: error.message().to_owned(),
        }
    })
}
