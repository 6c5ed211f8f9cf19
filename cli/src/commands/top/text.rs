//! A text that is read over the list: why a job waits, a host, a task with its attempts, the keys. The words
//! are those of the commands (`job explain`, `host info`, `task info`). Long lines go on below.

use common::text::printable;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::keys::KeyAct;
use super::look::{Theme, Tone};

/// A line of a text, with nothing in it that acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextLine {
    text: String,
    tone: Tone,
}

impl TextLine {
    /// Makes a line of foreign text.
    pub(super) fn new(text: &str, tone: Tone) -> Self {
        Self {
            text: printable(text),
            tone,
        }
    }

    /// Adds to the end of the line.
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(&printable(text));
    }

    /// The length in bytes.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// The rows that the line takes on a screen of this width.
    fn rows(&self, width: usize) -> Vec<&str> {
        let mut rows = Vec::new();
        let mut start = 0;
        let mut wide = 0;

        for (at, c) in self.text.char_indices() {
            let mut bytes = [0; 4];
            let one = console::measure_text_width(c.encode_utf8(&mut bytes));
            if wide + one > width.max(2) {
                rows.push(&self.text[start..at]);
                start = at;
                wide = 0;
            }
            wide += one;
        }
        rows.push(&self.text[start..]);
        rows
    }
}

/// Splits a text of the commands into lines: headings of tables, in capitals, are strong.
pub(super) fn lines(text: &str) -> Vec<TextLine> {
    let tone = |line: &str| {
        let heading = line.len() > 3 && !line.chars().any(char::is_lowercase);
        if heading && line.chars().any(char::is_uppercase) {
            Tone::Strong
        } else {
            Tone::Plain
        }
    };
    text.lines()
        .map(|line| TextLine::new(line, tone(line)))
        .collect()
}

/// The part of some [`TextLine`]s that is on the screen.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextPlace {
    /// The first line on the screen.
    top: usize,
    /// Whether the end stays on the screen as lines are added.
    pub(super) follows: bool,
}

impl TextPlace {
    /// At the end, which it follows.
    pub(super) fn at_end() -> Self {
        Self {
            top: 0,
            follows: true,
        }
    }

    /// Returns the first line on a screen of this size.
    fn first(self, lines: &[TextLine], size: (usize, usize)) -> usize {
        let last = last_top(lines, size);
        if self.follows {
            last
        } else {
            self.top.min(last)
        }
    }

    /// Moves by a key; returns whether the key moves.
    pub(super) fn go(&mut self, act: KeyAct, lines: &[TextLine], size: (usize, usize)) -> bool {
        let top = self.first(lines, size);
        let page = size.1.saturating_sub(1).max(1);
        let to = match act {
            KeyAct::Down => top.saturating_add(1),
            KeyAct::Up => top.saturating_sub(1),
            KeyAct::PageDown => top.saturating_add(page),
            KeyAct::PageUp => top.saturating_sub(page),
            KeyAct::First => 0,
            KeyAct::Last => usize::MAX,
            _ => return false,
        };
        let last = last_top(lines, size);

        self.top = to.min(last);
        self.follows = act == KeyAct::Last || self.follows && self.top == last;
        true
    }

    /// Notes that so many lines are gone from the beginning.
    pub(super) fn shift(&mut self, lines: usize) {
        self.top = self.top.saturating_sub(lines);
    }
}

/// Returns the first of the [`TextLine`]s of the last screen.
fn last_top(lines: &[TextLine], (width, height): (usize, usize)) -> usize {
    let mut room = height;
    for (at, line) in lines.iter().enumerate().rev() {
        let rows = line.rows(width).len();
        if rows > room {
            return (at + 1).min(lines.len() - 1);
        }
        room -= rows;
    }
    0
}

/// Draws the lines that are on the screen, and returns what part of the text is above and on it, in
/// percent.
pub(super) fn draw(
    buf: &mut Buffer,
    area: Rect,
    (lines, place): (&[TextLine], TextPlace),
    theme: Theme,
) -> usize {
    let size = (usize::from(area.width), usize::from(area.height));
    let first = place.first(lines, size);
    let mut y = area.top();

    for (at, line) in lines.iter().enumerate().skip(first) {
        for row in line.rows(size.0) {
            if y >= area.bottom() {
                return 100 * at / lines.len();
            }
            buf.set_stringn(area.x, y, row, size.0, theme.style(line.tone));
            y += 1;
        }
    }
    100
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(count: usize) -> Vec<TextLine> {
        lines(
            &(1..=count)
                .map(|n| format!("line {n}\n"))
                .collect::<String>(),
        )
    }

    fn drawn(text: &[TextLine], place: TextPlace, width: u16, height: u16) -> Vec<String> {
        let area = Rect::new(0, 0, width, height);
        let mut buf = Buffer::empty(area);
        draw(&mut buf, area, (text, place), Theme { colours: false });
        let row = |y| (0..width).map(|x| buf[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| row(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn the_end_stays_on_the_screen_until_somebody_goes_up() {
        let mut text = some(9);
        let mut place = TextPlace::at_end();
        assert_eq!(drawn(&text, place, 10, 2), ["line 8", "line 9"]);
        text.push(TextLine::new("line 10", Tone::Plain));
        assert_eq!(drawn(&text, place, 10, 2), ["line 9", "line 10"]);

        place.go(KeyAct::Up, &text, (10, 2));
        text.push(TextLine::new("line 11", Tone::Plain));
        assert_eq!(drawn(&text, place, 10, 2), ["line 8", "line 9"]);
        place.go(KeyAct::Last, &text, (10, 2));
        assert_eq!(drawn(&text, place, 10, 2), ["line 10", "line 11"]);
    }

    #[test]
    fn long_lines_go_on_below_and_cannot_act() {
        let text = lines("WHY NOT\nabc\u{1b}[2Jdef");
        assert_eq!(text[0].tone, Tone::Strong);
        assert_eq!(
            drawn(&text, TextPlace::default(), 8, 3),
            ["WHY NOT", "abc\u{fffd}[2Jd", "ef"]
        );
    }
}
