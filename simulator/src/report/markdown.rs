//! The pieces of Markdown that reports are made of. What is not here: what a report says.

use std::fmt::Write;

use super::figure::Figure;

/// A line, or a paragraph where `text` ends in a line's end.
pub(super) fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// A row of a table.
pub(super) fn row<T: AsRef<str>>(out: &mut String, fields: impl IntoIterator<Item = T>) {
    out.push('|');
    for field in fields {
        let _ = write!(out, " {} |", field.as_ref());
    }
    out.push('\n');
}

/// A table's head, of so many columns.
pub(super) fn heading<T: AsRef<str>>(out: &mut String, fields: &[T]) {
    row(out, fields);
    row(out, fields.iter().map(|_| "---"));
}

/// Fields of one's own.
pub(super) fn words<const N: usize>(fields: [&str; N]) -> Vec<String> {
    fields.map(str::to_owned).to_vec()
}

/// The section with every figure.
pub(super) fn pictures(out: &mut String, figures: &[Figure]) {
    line(out, "## Figures\n");
    line(
        out,
        "Each one's numbers are in the CSV file of the same name.\n",
    );
    images(out, figures);
}

/// Every figure, without a word.
pub(super) fn images(out: &mut String, figures: &[Figure]) {
    for figure in figures {
        let _ = writeln!(out, "![{}]({}.svg)\n", figure.title, figure.name);
    }
}

/// The section on how to get the report again: what follows `deskgrid reproduce`.
pub(super) fn again(out: &mut String, what: &str) {
    line(out, "## Again\n");
    let _ = writeln!(
        out,
        "`deskgrid reproduce {what}` gives these files again, byte for byte, on any number of threads."
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
