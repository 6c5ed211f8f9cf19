//! Reads job files: TOML with the names of the flags of `deskgrid submit`.

use std::path::Path;

use clap::Args;

use super::{BuildError, items};
use crate::args::submit::{JobArgs, SubmitArgs};

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
    let not_text = |bad: std::str::Utf8Error| {
        let before = &bytes[..bad.valid_up_to()];
        BuildError::NotText {
            path: path.to_owned(),
            line: before.split(|byte| *byte == b'\n').count(),
        }
    };
    let text = std::str::from_utf8(bytes).map_err(not_text)?;

    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start).min(text.len());
        let start = text[..at].rfind('\n').map_or(0, |i| i + 1);
        let rest = &text[start..];
        let line = rest.lines().next().unwrap_or_default();

        let number = text[..at].matches('\n').count() + 1;
        let key = key(&text[..start + line.len()]);
        BuildError::JobFile {
            path: path.to_owned(),
            line: number,
            text: line.trim().to_owned(),
            why: in_words(error.message()),
            hint: key.map_or_else(|| ALL_KEYS.to_owned(), hint),
        }
    })
}

/// The page on job files. The first table has each key with its type and an example.
const PAGE: &str = include_str!("../../../docs/job-files.md");
/// The heading that ends the part of the page with the keys.
const KEYS_END: &str = "## Items from JSON";
/// The place where all keys are explained.
const ALL_KEYS: &str =
    "docs/job-files.md explains all keys, and deskgrid submit --help the flags of the same names";
/// The likeness of two names from which on one is taken for the other, mistyped.
const ALIKE: f64 = 0.85;

/// Returns the keys, each with its type in words and an example.
fn keys() -> impl Iterator<Item = [&'static str; 3]> {
    let table = PAGE.split(KEYS_END).next().unwrap_or_default();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| {
        let mut cells = row.trim_end_matches(" |").split(" | ");
        let key = cells.next()?.trim_end_matches('`');
        let kind = cells.next()?;
        let example = cells.nth(1)?.trim_matches('`');
        Some([key, kind, example])
    })
}

/// Returns the last key, or name of a section, in this part of a job file.
fn key(text: &str) -> Option<KeyInFile<'_>> {
    text.lines().rev().find_map(|line| {
        let line = line.trim();
        let (name, is_section) = match line.strip_prefix('[').and_then(|line| line.split_once(']'))
        {
            Some((name, _)) => (name.trim_start_matches('['), true),
            None => (line.split_once('=')?.0, false),
        };
        let name = name.trim().trim_matches(['"', '\'']);
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let is_key = !name.is_empty() && name.chars().all(letter);
        is_key.then_some(KeyInFile { name, is_section })
    })
}

/// A key of a job file, or the name of a section there, which no job file has.
#[derive(Debug, Clone, Copy)]
struct KeyInFile<'a> {
    name: &'a str,
    is_section: bool,
}

/// Says how the value of a key is written, or which key was meant.
fn hint(key: KeyInFile<'_>) -> String {
    let hint = hint_on(key.name);
    match key.is_section {
        true => format!("job files have no sections; {hint}"),
        false => hint,
    }
}

fn hint_on(key: &str) -> String {
    if let Some([key, kind, example]) = keys().find(|[known, ..]| *known == key) {
        return format!("`{key}`: {}; for example: {example}", without_links(kind));
    }

    let flags = SubmitArgs::augment_args(clap::Command::new("submit"));
    let flags = flags.get_arguments().filter_map(clap::Arg::get_long);
    let mut others = flags.filter(|flag| !keys().any(|[known, ..]| known == *flag));
    if let Some(flag) = others.find(|flag| *flag == key.replace('_', "-")) {
        return format!("give --{flag} on the command line: it belongs to one submission");
    }

    let alike = |[known, ..]: &[&str; 3]| strsim::jaro_winkler(known, &key.replace('_', "-"));
    let nearest = keys().max_by(|one, other| alike(one).total_cmp(&alike(other)));
    match nearest.filter(|nearest| alike(nearest) >= ALIKE) {
        Some([near, _, example]) => format!("`{near}`? For example: {example}"),
        None => ALL_KEYS.to_owned(),
    }
}

/// Names the pages of links by their files, as people find them.
fn without_links(text: &str) -> String {
    let mut parts = text.split("](");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (page, rest) = part.split_once(')').unwrap_or((part, ""));
        out.truncate(out.rfind('[').unwrap_or(out.len()));
        let page = page.split('#').next().unwrap_or(page);
        out += &format!("docs/{page}{rest}");
    }
    out
}

/// Says the words of the parser in those of the documents.
fn in_words(message: &str) -> String {
    if let Some(types) = message.strip_prefix("invalid type: ")
        && let Some((given, wanted)) = types.split_once(", expected ")
    {
        return format!("it is {}, and should be {}", kind(given), kind(wanted));
    }
    match message.strip_prefix("unknown field ") {
        Some(rest) => {
            let key = rest.split(',').next().unwrap_or(rest);
            format!("there is no key {key}")
        }
        None => message.to_owned(),
    }
}

/// Returns a type of the parser in words.
fn kind(of: &str) -> String {
    let known = match of {
        "map" => "a table",
        "sequence" | "a sequence" => "a list",
        "a string" | "path string" => "a text in quotes",
        "a boolean" => "true or false",
        "i32" | "i64" => "a whole number",
        "u32" | "u64" => "a whole number of 0 or more",
        _ => "",
    };
    if !known.is_empty() {
        return known.to_owned();
    }

    let prefixes = [
        ("string ", "the text "),
        ("integer ", "the number "),
        ("floating point ", "the number "),
        ("boolean ", ""),
    ];
    let read = prefixes.iter().find_map(|(prefix, word)| {
        let value = of.strip_prefix(prefix)?;
        Some(format!("{word}{}", value.trim_matches('`')))
    });
    read.unwrap_or_else(|| of.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn refused(text: &str) -> crate::failure::Failure {
        parse(text.as_bytes(), Path::new("job.toml"))
            .expect_err(text)
            .into()
    }

    #[test]
    fn the_page_on_job_files_lists_the_keys_that_are_read() {
        let flags = JobArgs::augment_args(clap::Command::new("job"));
        let known: BTreeSet<String> = flags
            .get_arguments()
            .map(|flag| flag.get_id().as_str().replace('_', "-"))
            .collect();
        let listed: BTreeSet<String> = keys().map(|[key, ..]| key.to_owned()).collect();
        assert_eq!(listed, known);
    }

    #[test]
    fn the_examples_on_the_page_on_job_files_are_read() {
        let file = Path::new("page.toml");
        for [key, _, example] in keys() {
            assert!(example.starts_with(&format!("{key} = ")), "{example}");
            let read = parse(example.as_bytes(), file);
            assert_ne!(read.expect(example), JobArgs::default(), "{example}");
        }

        let whole = PAGE.split("```").nth(1).unwrap();
        let read = parse(whole.trim_start_matches("toml").as_bytes(), file).unwrap();
        assert_eq!((read.retries, read.command.len()), (Some(2), 4));
    }

    #[test]
    fn both_names_of_the_flag_for_outputs_are_keys() {
        let outputs = |text: &str| {
            let job = parse(text.as_bytes(), Path::new("job.toml")).expect(text);
            job.output_file
        };
        assert_eq!(outputs("output-tree = [\"a\"]"), ["a"]);
        assert_eq!(outputs("output-file = [\"a\"]"), ["a"]);
    }

    #[test]
    fn a_value_of_another_type_is_refused_with_an_example_of_the_right_one() {
        for (text, why, hint) in [
            (
                "env = {A = \"b\"}",
                "it is a table, and should be a list",
                "env = [\"THREADS=1\"]",
            ),
            (
                "array = 3",
                "it is the number 3, and should be a text in quotes",
                "array = \"1-99:2\"",
            ),
            (
                "command = \"echo hi\"",
                "it is the text \"echo hi\", and should be a list",
                "command = [\"./sim\"",
            ),
            (
                "retries = \"x\"",
                "it is the text \"x\", and should be a whole number of 0 or more",
                "retries = 3",
            ),
            (
                "disclose = \"yes\"",
                "it is the text \"yes\", and should be true or false",
                "disclose = true",
            ),
            (
                "name = \"n\"\ncommand = [\n  \"echo\",\n  1,\n]",
                "it is the number 1, and should be a text in quotes",
                "command = [",
            ),
            (
                "timeout = \"soon\"",
                "`soon` is not a duration",
                "timeout = \"10m\"",
            ),
        ] {
            let failure = refused(text);
            let because = failure.because.clone().unwrap_or_default();
            assert!(because.contains(why), "{text}: {because}");
            assert!(failure.hint.contains(hint), "{text}: {}", failure.hint);
        }
    }

    #[test]
    fn a_file_that_is_not_utf_8_is_refused_with_the_line_instead_of_changed() {
        let bytes = b"name = \"n\"\ncommand = [\"x\"]\nenv = [\"CITY=K\xf6ln\"]\n";
        let bad = parse(bytes, Path::new("job.toml")).unwrap_err();
        assert!(matches!(bad, BuildError::NotText { line: 3, .. }), "{bad}");
        let failure = crate::failure::Failure::from(bad);
        assert_eq!(failure.what, "line 3 of job.toml is not UTF-8 text");

        let right = "name = \"Köln\"\n".as_bytes();
        let job = parse(right, Path::new("job.toml")).unwrap();
        assert_eq!(job.name.as_deref(), Some("Köln"));
    }

    #[test]
    fn a_section_is_refused_with_the_key_that_says_the_same() {
        let starts = "command = [\"x\"]\n";
        for (text, hint) in [
            (
                "[needs]\ngpu = 1",
                "`needs`: list of `KEY=VALUE` (os, arch, platform, ",
            ),
            ("[env]\nA = \"b\"", "for example: env = [\"THREADS=1\"]"),
            (
                "[[input]]\nfile = \"x\"",
                "(docs/needs.md); for example: input = [",
            ),
            ("[environment]\nA = 1", ALL_KEYS),
            ("[need]\ngpu = 1", "`needs`?"),
        ] {
            let failure = refused(&format!("{starts}{text}"));
            let start = "job files have no sections; ";
            let right = failure.hint.starts_with(start) && failure.hint.contains(hint);
            assert!(right, "{text}: {}", failure.hint);
        }
    }

    #[test]
    fn a_key_that_does_not_exist_is_refused_with_the_one_that_was_meant() {
        for (text, hint) in [
            (
                "output_file = [\"x\"]",
                "`output-file`? For example: output-file = [",
            ),
            ("retrys = 3", "`retries`?"),
            ("wait = true", "--wait on the command line"),
            ("dry_run = true", "--dry-run on the command line"),
            ("colour = 3", ALL_KEYS),
        ] {
            let failure = refused(text);
            let because = failure.because.clone().unwrap_or_default();
            assert!(
                because.starts_with("there is no key `"),
                "{text}: {because}"
            );
            assert!(failure.hint.contains(hint), "{text}: {}", failure.hint);
        }
    }
}
