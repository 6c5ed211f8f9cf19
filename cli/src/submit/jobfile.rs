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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Args;

    use super::*;

    const PAGE: &str = include_str!("../../../docs/job-files.md");

    /// The keys of the page's first table, each with its example.
    fn rows() -> Vec<(String, String)> {
        let keys = PAGE.split("## Items from JSON").next().unwrap();
        let rows = keys.lines().filter_map(|line| line.strip_prefix("| `"));
        let cells = rows.map(|row| row.trim_end_matches(" |").split(" | "));
        cells
            .map(|cells| {
                let cells: Vec<&str> = cells.collect();
                assert_eq!(cells.len(), 4, "{cells:?}");
                let example = cells[3].trim_matches('`');
                (cells[0].trim_matches('`').to_owned(), example.to_owned())
            })
            .collect()
    }

    #[test]
    fn the_page_on_job_files_lists_the_keys_that_are_read() {
        let flags = JobArgs::augment_args(clap::Command::new("job"));
        let known: BTreeSet<String> = flags
            .get_arguments()
            .map(|flag| flag.get_id().as_str().replace('_', "-"))
            .collect();
        let listed: BTreeSet<String> = rows().into_iter().map(|(key, _)| key).collect();
        assert_eq!(listed, known);
    }

    #[test]
    fn the_examples_on_the_page_on_job_files_are_read() {
        let file = Path::new("page.toml");
        for (key, example) in rows() {
            assert!(example.starts_with(&format!("{key} = ")), "{example}");
            let read = parse(example.as_bytes(), file);
            assert_ne!(read.expect(&example), JobArgs::default(), "{example}");
        }

        let whole = PAGE.split("```").nth(1).unwrap();
        let read = parse(whole.trim_start_matches("toml").as_bytes(), file).unwrap();
        assert_eq!((read.retries, read.command.len()), (Some(2), 4));
    }
}
