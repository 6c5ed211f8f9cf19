//! Notes about a live attempt, kept behind the reason of its start. Only the newest notes are kept,
//! within a limit on their length.

use common::TaskId;

/// The greatest length of the reason of an attempt's start and its notes together, in bytes.
const MOST: usize = 1_000;
const BETWEEN: &str = "; ";
const FROZEN: &str = "frozen, and so made room for task ";
const LEFT_OUT: &str = "what was noted earlier is left out";

/// Adds a note that an attempt was frozen for task `by` to `before`, the reason of its start and
/// its notes so far. If the text becomes longer than `MOST` bytes, the oldest notes are replaced by
/// `LEFT_OUT`. The reason of the start stays whole, however long it is.
pub(super) fn with_frozen(before: &str, by: TaskId) -> String {
    let note = format!("{FROZEN}{by}");
    let all = format!("{before}{BETWEEN}{note}");
    if all.len() <= MOST {
        return all;
    }

    let first = [FROZEN, LEFT_OUT]
        .iter()
        .filter_map(|note| before.find(&format!("{BETWEEN}{note}")))
        .min();
    let (start, notes) = before.split_at(first.unwrap_or(before.len()));
    let notes: Vec<&str> = notes
        .split(BETWEEN)
        .filter(|note| !note.is_empty() && *note != LEFT_OUT)
        .collect();
    let mut room =
        MOST.saturating_sub(start.len() + BETWEEN.len() * 2 + LEFT_OUT.len() + note.len());
    let fits = |earlier: &&&str| {
        let fits = room.checked_sub(earlier.len() + BETWEEN.len());
        room = fits.unwrap_or(0);
        fits.is_some()
    };
    let kept = notes.iter().rev().take_while(fits).count();
    let newest = notes[notes.len() - kept..]
        .iter()
        .copied()
        .chain([note.as_str()]);

    [start, LEFT_OUT]
        .into_iter()
        .chain(newest)
        .collect::<Vec<_>>()
        .join(BETWEEN)
}

#[cfg(test)]
mod tests {
    use common::JobId;

    use super::*;

    #[test]
    fn the_newest_notes_stay_behind_why_it_was_started_and_it_is_said_that_earlier_ones_went() {
        let start = "the fastest of 3 hosts; killed if it takes longer than 5s";
        let task = |n: u32| TaskId::new(JobId(n), 1);
        let mut said = with_frozen(start, task(1));
        assert_eq!(
            said,
            format!("{start}; frozen, and so made room for task 1.1")
        );

        for n in 2..=200 {
            said = with_frozen(&said, task(n));
            assert!(
                said.starts_with(start) && said.ends_with(&format!("{FROZEN}{n}.1")),
                "{said}"
            );
            assert!(
                said.len() <= MOST && said.contains(LEFT_OUT) != said.contains("task 1.1;"),
                "{said}"
            );
        }

        assert_eq!(said.matches(LEFT_OUT).count(), 1);
        let newest: Vec<_> = said.split(BETWEEN).skip(3).collect();
        assert!(newest.len() > 15, "{said}");
        assert!(
            newest
                .iter()
                .rev()
                .zip((1..=200).rev())
                .all(|(note, n)| **note == format!("{FROZEN}{n}.1")),
            "{said}"
        );

        let long = "x".repeat(2 * MOST);
        assert!(with_frozen(&long, task(7)).starts_with(&long));
    }
}
