//! Lays out tables and lists for people.

use common::text::printable;
use console::{Alignment, Style, measure_text_width, pad_str, truncate_str};

/// The space between two columns.
const GAP: &str = "  ";
/// The most characters of a [`bounded`] text.
const BOUND: usize = 40;

/// A table without lines: headings, then rows.
#[derive(Debug)]
pub struct Rows {
    rows: Vec<Vec<String>>,
    /// The widths of the columns of earlier pages; none before there are headings.
    widths: Vec<usize>,
    color: bool,
}

impl Rows {
    /// Makes an empty table with these headings; `color` colours headings and states.
    pub fn new(headings: &[&str], color: bool) -> Self {
        let bold = Style::new().bold().force_styling(color);
        let shown = headings.iter().map(|text| bold.apply_to(text).to_string());
        Self {
            rows: vec![shown.collect()],
            widths: vec![0; headings.len()],
            color,
        }
    }

    /// Makes a table of these rows, in which each cell has the heading of its column before it.
    pub(crate) fn of<R>(rows: impl IntoIterator<Item = R>, color: bool) -> Self
    where
        R: IntoIterator<Item = (&'static str, String)>,
    {
        let mut table = Self::new(&[], color);
        table.add_all(rows);
        table
    }

    /// Adds such rows as [`Rows::of`] takes.
    pub(crate) fn add_all<R>(&mut self, rows: impl IntoIterator<Item = R>)
    where
        R: IntoIterator<Item = (&'static str, String)>,
    {
        for row in rows {
            let (headings, cells): (Vec<_>, Vec<_>) = row.into_iter().unzip();
            if self.widths.is_empty() {
                *self = Self::new(&headings, self.color);
            }
            self.add(cells);
        }
    }

    /// Adds a row; words that name a state are coloured.
    pub fn add(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells
            .into_iter()
            .map(|text| {
                let style = style_of(&text).force_styling(self.color);
                style.apply_to(printable(&text)).to_string()
            })
            .collect();
        debug_assert_eq!(cells.len(), self.widths.len());
        self.rows.push(cells);
    }

    /// Returns the table as text, or `nothing` where it has no rows.
    pub fn text(mut self, nothing: &str) -> String {
        if self.rows.len() == 1 {
            return nothing.to_owned();
        }
        self.page()
    }

    /// Returns the rows added since the last page as text, the headings above the first ones, and
    /// drops them. Columns are at least as wide as on the pages before.
    pub fn page(&mut self) -> String {
        for row in &self.rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = measure_text_width(cell).max(*width);
            }
        }

        let mut out = String::new();
        for row in self.rows.drain(..) {
            let cells = row
                .iter()
                .zip(&self.widths)
                .map(|(cell, width)| pad_str(cell, *width, Alignment::Left, None));
            let line = cells.collect::<Vec<_>>().join(GAP);
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// Cuts a text after 40 characters, and marks the cut with `…`: users choose what stands there, and one long text is not to
/// widen the table for all. Another command shows the whole.
pub(crate) fn bounded(text: &str) -> String {
    truncate_str(&printable(text), BOUND, "…").into_owned()
}

fn style_of(word: &str) -> Style {
    let plain = Style::new();
    match word {
        "finished" | "ready" => plain.green(),
        "running" | "busy" => plain.cyan(),
        "suspended" | "suspect" | "draining" | "benched" | "staging" => plain.yellow(),
        "failed" | "lost" | "refused" => plain.red(),
        "cancelled" | "killed" => plain.black().bright(),
        _ => plain,
    }
}

/// Lays out names with their values, one below the other; pairs without a value are left out.
pub(crate) fn facts(pairs: &[(&str, Option<String>)]) -> String {
    let given: Vec<_> = pairs
        .iter()
        .filter_map(|(name, value)| Some((name, value.as_ref()?)))
        .collect();
    let width = given.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    given.iter().fold(String::new(), |out, (name, value)| {
        out + &format!("{name:width$}  {}\n", printable(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_plain_without_colour() {
        let mut rows = Rows::new(&["job", "state"], false);
        assert_eq!(Rows::new(&["job"], false).text("no jobs"), "no jobs");
        rows.add(["7".to_owned(), "running".to_owned()]);
        rows.add(["12345".to_owned(), "a\u{1b}[31mb".to_owned()]);
        assert_eq!(
            rows.text(""),
            "job    state\n7      running\n12345  a\u{fffd}[31mb\n"
        );
    }

    #[test]
    fn a_table_takes_its_headings_from_its_rows() {
        let row = |job: &str| [("job", job.to_owned()), ("state", "running".to_owned())];
        let text = |rows: &[&str]| Rows::of(rows.iter().map(|job| row(job)), false).text("none");
        assert_eq!(
            text(&["7", "8"]),
            "job  state\n7    running\n8    running\n"
        );
        assert_eq!(text(&[]), "none");
    }

    #[test]
    fn pages_of_a_table_have_one_heading_and_keep_their_widths() {
        let mut rows = Rows::new(&["job", "state"], false);
        rows.add(["12345".to_owned(), "running".to_owned()]);
        assert_eq!(rows.page(), "job    state\n12345  running\n");
        rows.add(["7".to_owned(), "failed".to_owned()]);
        assert_eq!(rows.page(), "7      failed\n");
    }

    #[test]
    fn a_long_text_is_cut_where_its_column_has_a_bound_and_whole_elsewhere() {
        let long = "ä".repeat(300);
        let mut rows = Rows::new(&["task", "item", "why"], false);
        rows.add(["7.1".to_owned(), bounded(&long), "x".to_owned()]);
        rows.add(["7.2".to_owned(), bounded(&"b".repeat(40)), long.clone()]);
        let text = rows.text("");

        let lines: Vec<&str> = text.lines().collect();
        let cut = format!("{}…", "ä".repeat(39));
        let blanks = " ".repeat(36);
        assert_eq!(lines[0], format!("task  item{blanks}  why"));
        assert_eq!(lines[1], format!("7.1   {cut}  x"));
        assert_eq!(lines[2], format!("7.2   {}  {long}", "b".repeat(40)));
    }

    #[test]
    fn states_have_colours_where_wanted() {
        let mut rows = Rows::new(&["state"], true);
        rows.add(["failed".to_owned()]);
        assert!(rows.text("").contains("\u{1b}["));
    }

    #[test]
    fn facts_line_up() {
        let text = facts(&[
            ("job", Some("7".into())),
            ("nothing", None),
            ("finished", Some("x".into())),
        ]);
        assert_eq!(text, "job       7\nfinished  x\n");
    }
}
