//! The looks of things: a tone for each state, with its letter for those who do not tell colours
//! apart, bars, and columns that fit the screen.

use common::text::printable;
use common::view::{HostState, JobState, PromiseState, TaskCounts, TaskState};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span as Piece};

/// The meaning of a colour, which `Theme` turns into a style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Quiet,
    Strong,
    Running,
    Waiting,
    Suspended,
    Good,
    Bad,
}

/// The colours of a picture; without them only bold and dim letters are used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Theme {
    /// Whether there are colours.
    pub(super) colours: bool,
}

impl Theme {
    /// Returns the style of a tone.
    pub(super) fn style(self, tone: Tone) -> Style {
        let (colour, more) = match tone {
            Tone::Plain => (None, Modifier::empty()),
            Tone::Quiet => (None, Modifier::DIM),
            Tone::Strong => (None, Modifier::BOLD),
            Tone::Running => (Some(Color::Cyan), Modifier::empty()),
            Tone::Waiting => (Some(Color::Blue), Modifier::empty()),
            Tone::Suspended => (Some(Color::Yellow), Modifier::empty()),
            Tone::Good => (Some(Color::Green), Modifier::empty()),
            Tone::Bad => (Some(Color::Red), Modifier::BOLD),
        };
        let style = Style::new().add_modifier(more);

        match colour.filter(|_| self.colours) {
            Some(colour) => style.fg(colour),
            None => style,
        }
    }

    /// Returns text of others in a tone, with nothing in it that acts.
    pub(super) fn text(self, text: &str, tone: Tone) -> Line<'static> {
        Line::styled(shown(text), self.style(tone))
    }

    /// Returns a state as its letter and word.
    pub(super) fn state(self, (letter, tone): (char, Tone), word: &str) -> Line<'static> {
        Line::styled(format!("{letter} {word}"), self.style(tone))
    }

    /// Returns the tasks of a job as a bar, each state as wide as its part of the tasks.
    pub(super) fn bar(self, tasks: &TaskCounts, width: u16) -> Line<'static> {
        let parts = [
            (tasks.finished, "█", Tone::Good),
            (tasks.failed, "×", Tone::Bad),
            (tasks.cancelled, "-", Tone::Quiet),
            (tasks.running, "▒", Tone::Running),
            (tasks.suspended, "=", Tone::Suspended),
            (tasks.waiting + tasks.disclosed, "·", Tone::Quiet),
        ];
        let mut before = 0u64;
        let mut drawn = 0usize;
        let mut line = Line::default();

        for (count, sign, tone) in parts {
            before = before.saturating_add(count);
            let upto = before as f64 / tasks.total.max(1) as f64 * f64::from(width);
            let upto = (upto.floor() as usize).min(width.into());
            // The last cell is filled only when all is done, and a few tasks are seen, too.
            let least = drawn + usize::from(count > 0 && drawn + 1 < usize::from(width));
            let upto = upto.max(least);
            if upto > drawn {
                let piece = Piece::styled(sign.repeat(upto - drawn), self.style(tone));
                line.push_span(piece);
                drawn = upto;
            }
        }
        line
    }
}

/// The longest piece of foreign text that is put on a line.
const LONGEST: usize = 512;

/// Returns foreign text as a screen may show it, cut where no line is long enough.
pub(super) fn shown(text: &str) -> String {
    let end = text
        .char_indices()
        .nth(LONGEST)
        .map_or(text.len(), |(at, _)| at);
    printable(&text[..end])
}

pub(super) fn of_job(state: JobState) -> (char, Tone) {
    match state {
        JobState::Waiting => ('W', Tone::Waiting),
        JobState::Running => ('R', Tone::Running),
        JobState::Finished => ('F', Tone::Good),
        JobState::Failed => ('X', Tone::Bad),
        JobState::Cancelled => ('C', Tone::Quiet),
        JobState::Refused => ('N', Tone::Bad),
    }
}

pub(super) fn of_task(state: TaskState) -> (char, Tone) {
    match state {
        TaskState::Disclosed => ('D', Tone::Quiet),
        TaskState::Waiting => ('W', Tone::Waiting),
        TaskState::Running => ('R', Tone::Running),
        TaskState::Suspended => ('S', Tone::Suspended),
        TaskState::Finished => ('F', Tone::Good),
        TaskState::Failed => ('X', Tone::Bad),
        TaskState::Cancelled => ('C', Tone::Quiet),
    }
}

pub(super) fn of_host(state: HostState) -> (char, Tone) {
    match state {
        HostState::Ready => ('R', Tone::Good),
        HostState::Busy => ('B', Tone::Running),
        HostState::Suspended => ('S', Tone::Suspended),
        HostState::Suspect => ('?', Tone::Suspended),
        HostState::Lost => ('L', Tone::Bad),
        HostState::Draining => ('D', Tone::Waiting),
        HostState::Benched => ('X', Tone::Bad),
    }
}

pub(super) fn of_promise(state: PromiseState) -> Tone {
    match state {
        PromiseState::OnTime | PromiseState::Kept => Tone::Good,
        PromiseState::AtRisk => Tone::Suspended,
        PromiseState::Broken => Tone::Bad,
        PromiseState::Withdrawn => Tone::Quiet,
    }
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    /// Its heading.
    pub(super) title: &'static str,
    /// Its least width.
    pub(super) width: u16,
    /// The part that it gets of what is left.
    pub(super) grows: u16,
    /// Its place among those that are left out where the screen is narrow: the highest goes first;
    /// 0 stays.
    pub(super) rank: u8,
    /// Whether its text ends at its right.
    pub(super) right: bool,
}

/// Returns a [`Column`] of text.
pub(super) const fn text(title: &'static str, width: u16, grows: u16, rank: u8) -> Column {
    Column {
        title,
        width,
        grows,
        rank,
        right: false,
    }
}

/// Returns a [`Column`] of numbers.
pub(super) const fn number(title: &'static str, width: u16, rank: u8) -> Column {
    Column {
        title,
        width,
        grows: 0,
        rank,
        right: true,
    }
}

/// Returns the place of each column on a screen of this width: `None` for those left out.
pub(super) fn fitted(columns: &[Column], width: u16) -> Vec<Option<(u16, u16)>> {
    let mut kept: Vec<bool> = vec![true; columns.len()];
    let needed = |kept: &[bool]| -> u16 {
        let all = columns.iter().zip(kept).filter(|(_, kept)| **kept);
        all.map(|(column, _)| column.width + 1).sum()
    };
    while needed(&kept) > width {
        let ranked = columns.iter().enumerate().filter(|(at, _)| kept[*at]);
        let Some((at, column)) = ranked.max_by_key(|(_, column)| column.rank) else {
            break;
        };
        if column.rank == 0 {
            break;
        }
        kept[at] = false;
    }

    let spare = width.saturating_sub(needed(&kept));
    let all = columns.iter().zip(&kept).filter(|(_, kept)| **kept);
    let shares: u16 = all.map(|(column, _)| column.grows).sum();
    let mut x = 0;
    let place = |(column, kept): (&Column, &bool)| {
        kept.then(|| {
            let more = (spare * column.grows).checked_div(shares).unwrap_or(0);
            let at = x;
            x += column.width + more + 1;
            (at, column.width + more)
        })
    };
    columns.iter().zip(&kept).map(place).collect()
}

/// Draws the cells of a row at the places of their columns.
pub(super) fn draw_row(
    buf: &mut Buffer,
    area: Rect,
    columns: &[Column],
    places: &[Option<(u16, u16)>],
    cells: &[Line<'_>],
) {
    for ((column, place), cell) in columns.iter().zip(places).zip(cells) {
        let Some((x, width)) = *place else { continue };
        let long = u16::try_from(cell.width()).unwrap_or(u16::MAX);
        let shift = if column.right {
            width.saturating_sub(long)
        } else {
            0
        };
        let room = width.min(area.width.saturating_sub(x));
        if room == 0 {
            continue;
        }
        buf.set_line(area.x + x + shift, area.y, cell, room - shift.min(room));
        if long > room {
            buf[(area.x + x + room - 1, area.y)].set_symbol("…");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_only_when_all_is_done() {
        let theme = Theme { colours: false };
        let tasks = |finished, running| TaskCounts {
            total: 1_000,
            finished,
            running,
            waiting: 1_000 - finished - running,
            ..TaskCounts::default()
        };

        let drawn = |tasks| theme.bar(&tasks, 10).to_string();
        assert_eq!(drawn(tasks(0, 0)), "··········");
        assert_eq!(drawn(tasks(1, 1)), "█▒········");
        assert_eq!(drawn(tasks(500, 200)), "█████▒▒···");
        assert_eq!(drawn(tasks(999, 1)), "█████████▒");
        assert_eq!(drawn(tasks(1_000, 0)), "██████████");
    }

    #[test]
    fn narrow_screens_leave_out_the_least_columns() {
        let columns = [text("A", 10, 1, 0), number("B", 10, 2), text("C", 10, 1, 1)];
        let there = |width| -> Vec<bool> {
            let places = fitted(&columns, width);
            places.iter().map(Option::is_some).collect()
        };
        assert_eq!(there(40), [true, true, true]);
        assert_eq!(there(30), [true, false, true]);
        assert_eq!(there(15), [true, false, false]);
        assert_eq!(
            fitted(&columns, 43),
            [Some((0, 15)), Some((16, 10)), Some((27, 15))]
        );
    }

    #[test]
    fn foreign_text_is_cut_and_cannot_act() {
        let long = format!("\u{1b}]0;x\u{7}\u{202e}{}", "a".repeat(10_000_000));
        let text = shown(&long);
        assert!(text.chars().count() == LONGEST && !text.chars().any(common::text::acts));
    }
}
