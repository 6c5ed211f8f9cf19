//! The pieces of Markdown of which reports are made.

use std::fmt::{Display, Write};
use std::path::Path;

use simulator::figure::Figure;

/// Appends a line, or a paragraph if `text` ends in a line's end.
pub(super) fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// Appends a row of a table.
pub(super) fn row<T: AsRef<str>>(out: &mut String, fields: impl IntoIterator<Item = T>) {
    out.push('|');
    for field in fields {
        let _ = write!(out, " {} |", field.as_ref());
    }
    out.push('\n');
}

/// Appends the head of a table with these columns.
pub(super) fn heading<T: AsRef<str>>(out: &mut String, fields: &[T]) {
    row(out, fields);
    row(out, fields.iter().map(|_| "---"));
}

/// Converts fields to owned strings.
pub(super) fn words<const N: usize>(fields: [&str; N]) -> Vec<String> {
    fields.map(str::to_owned).to_vec()
}

/// Appends the section with every figure.
pub(super) fn pictures(out: &mut String, figures: &[Figure]) {
    line(out, "## Figures\n");
    line(
        out,
        "Each one's numbers are in the CSV file of the same name.\n",
    );
    images(out, figures);
}

/// Appends every figure, without text.
pub(super) fn images(out: &mut String, figures: &[Figure]) {
    for figure in figures {
        let _ = writeln!(out, "![{}]({}.svg)\n", figure.title, figure.name);
    }
}

/// Returns what is said after a log's jobs if some of them are wider than the machine.
pub(super) fn left_out(jobs: usize) -> String {
    match jobs {
        0 => String::new(),
        1 => "; 1 job that is wider than the machine is left out".to_owned(),
        more => format!("; {more} jobs that are wider than the machine are left out"),
    }
}

/// Appends the section with the points that a paper leaves open, each with its reading.
pub(super) fn readings(out: &mut String, readings: &[(&str, &str)]) {
    line(out, "## How the paper was read\n");
    heading(out, &["what it leaves open", "as read here"]);
    for (open, taken) in readings {
        row(out, [open, taken]);
    }
    line(out, "");
}

/// Appends the section on how to make the report on this `paper` again.
pub(super) fn again(
    out: &mut String,
    paper: &str,
    quick: bool,
    seed: u64,
    runs: &dyn Display,
    log: Option<&Path>,
) {
    let quick = if quick { " --quick" } else { "" };
    let log = log.map_or_else(String::new, |log| format!(" --log {}", log.display()));

    line(out, "## Again\n");
    let _ = writeln!(
        out,
        "`deskgrid-lab reproduce {paper}{quick} --seed {seed} --runs {runs}{log}` gives these files again, byte for \
         byte, on any number of threads."
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_rule_below_its_head() {
        let mut out = String::new();
        heading(&mut out, &words(["a", "b"]));
        row(&mut out, ["1".to_owned(), "2".to_owned()]);
        assert_eq!(out, "| a | b |\n| --- | --- |\n| 1 | 2 |\n");
    }
}
