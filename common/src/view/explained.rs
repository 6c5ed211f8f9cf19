//! The rows of [`ExplainView::hosts`] that count hosts instead of naming one, where there are too
//! many for a message.

use super::ExplainView;
use crate::text::plural;

/// The end of a row's name that counts hosts, before the plural's `s`.
const MORE: &str = "more host";

impl ExplainView {
    /// Returns the name of a row that stands for so many hosts without naming them.
    pub fn more_hosts(count: usize) -> String {
        plural(count as u64, MORE)
    }

    /// Returns the number of hosts that the row of this name stands for; `None` if it names a host.
    pub fn left_out(row: &str) -> Option<usize> {
        // A host's name has no space.
        let (count, what) = row.split_once(' ')?;
        let count = count.parse().ok()?;
        (what.trim_end_matches('s') == MORE).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_counts_hosts_is_told_from_one_that_names_a_host() {
        for count in [1, 2, 9_980] {
            let row = ExplainView::more_hosts(count);
            assert_eq!(ExplainView::left_out(&row), Some(count), "{row}");
        }
        for name in ["desk-3", "7", "host", ""] {
            assert_eq!(ExplainView::left_out(name), None, "{name}");
        }
    }
}
