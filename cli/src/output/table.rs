//! Lays out tables and lists for people.

use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, Color, Table};

/// A table without lines: headings, then rows.
#[derive(Debug)]
pub struct Rows {
    table: Table,
    headings: usize,
}

impl Rows {
    /// Makes an empty table with these headings.
    pub fn new(headings: &[&str], color: bool) -> Self {
        let mut table = Table::new();
        table.load_style(NOTHING);
        table.force_no_tty();

        if color {
            table.enforce_styling();
            table.style_text_only();
        }

        table.set_header(
            headings
                .iter()
                .map(|text| Cell::new(text).add_attribute(Attribute::Bold)),
        );
        table.column_iter_mut().for_each(|column| {
            column.set_padding((0, 2));
        });

        Self {
            table,
            headings: headings.len(),
        }
    }

    /// Adds a row; words that name a state are coloured.
    pub fn add(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<Cell> = cells
            .into_iter()
            .map(|text| match color_of(&text) {
                Some(color) => Cell::new(printable(&text)).fg(color),
                None => Cell::new(printable(&text)),
            })
            .collect();
        debug_assert_eq!(cells.len(), self.headings);
        self.table.add_row(cells);
    }

    /// Returns the table as text, or `nothing` where it has no rows.
    pub fn text(&self, nothing: &str) -> String {
        if self.table.is_empty() {
            return nothing.to_owned();
        }
        self.table
            .lines()
            .fold(String::new(), |out, line| out + line.trim_end() + "\n")
    }
}

/// Replaces the control characters in a foreign text, which could move the cursor or change the
/// terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

fn color_of(word: &str) -> Option<Color> {
    match word {
        "finished" | "ready" => Some(Color::Green),
        "running" | "busy" => Some(Color::Cyan),
        "suspended" | "suspect" | "draining" | "benched" | "staging" => Some(Color::Yellow),
        "failed" | "lost" | "refused" => Some(Color::Red),
        "cancelled" | "killed" => Some(Color::DarkGrey),
        _ => None,
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
        assert_eq!(rows.text("no jobs"), "no jobs");
        rows.add(["7".to_owned(), "running".to_owned()]);
        rows.add(["12345".to_owned(), "a\u{1b}[31mb".to_owned()]);
        assert_eq!(
            rows.text(""),
            "job    state\n7      running\n12345  a\u{fffd}[31mb\n"
        );
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
