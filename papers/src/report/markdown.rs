//! The pieces of Markdown of which reports are made.

use std::fmt::{Display, Write};
use std::path::Path;

use simulator::figure::Figure;

/// The text of a report, to which Markdown is appended.
pub(super) trait Markdown {
    /// Appends a line, or a paragraph if `text` ends in a line's end.
    fn line(&mut self, text: &str);

    /// Appends a row of a table.
    fn row<T: AsRef<str>>(&mut self, fields: impl IntoIterator<Item = T>);

    /// Appends the head of a table with these columns.
    fn heading<T: AsRef<str>>(&mut self, fields: &[T]) {
        self.row(fields);
        self.row(fields.iter().map(|_| "---"));
    }
}

impl Markdown for String {
    fn line(&mut self, text: &str) {
        self.push_str(text);
        self.push('\n');
    }

    fn row<T: AsRef<str>>(&mut self, fields: impl IntoIterator<Item = T>) {
        self.push('|');
        for field in fields {
            let _ = write!(self, " {} |", field.as_ref());
        }
        self.push('\n');
    }
}

/// Converts fields to owned strings.
pub(super) fn words<const N: usize>(fields: [&str; N]) -> Vec<String> {
    fields.map(str::to_owned).to_vec()
}

/// Formats a part as a percentage with one decimal.
pub(super) fn percent(part: f64) -> String {
    format!("{:.1} %", 100.0 * part)
}

/// Appends the section with every figure.
pub(super) fn pictures(out: &mut String, figures: &[Figure]) {
    out.line("## Figures\n");
    out.line("Each one's numbers are in the CSV file of the same name.\n");
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

    out.line("## Again\n");
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
        out.heading(&["a", "b"]);
        out.row(["1".to_owned(), "2".to_owned()]);
        assert_eq!(out, "| a | b |\n| --- | --- |\n| 1 | 2 |\n");
    }
}
