//! Foreign text on its way to a screen: names, reasons and what tasks print. Somebody else chose its
//! characters.

/// The sign in the place of a character that is not shown.
pub const HIDDEN: char = '\u{fffd}';

/// Whether a terminal or a page acts on the character instead of showing it: control characters, and
/// those that change the direction of the text after them.
pub fn acts(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{061c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{feff}'
        )
}

/// Returns words from elsewhere that are fit to be stored and shown: at most `most` bytes, and blanks for
/// what [`acts`] on a terminal.
pub fn sound(words: &str, most: usize) -> String {
    let fit = |c: char| if acts(c) { ' ' } else { c };
    let mut sound: String = words.chars().take(most).map(fit).collect();
    sound.truncate(sound.floor_char_boundary(most));
    sound
}

/// Counts things in words, such as `1 task` or `2 tasks`.
pub fn plural(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Shows the first `most` characters of a name that is refused: what would not be seen is written as an escape,
/// such as `\n`; backslashes and quotes stand for themselves.
pub fn legible(name: &str, most: usize) -> String {
    let mut shown = String::with_capacity(name.len());
    for c in name.chars().take(most) {
        match c {
            '\\' | '\'' | '"' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    shown
}

/// Replaces the characters that would act by [`HIDDEN`].
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if acts(c) { HIDDEN } else { c })
        .collect()
}

/// Returns a text of several lines as [`printable`] does each of them. Who puts foreign words into one line of it
/// makes these printable first: they may have line breaks of their own.
pub fn printable_lines(text: &str) -> String {
    text.chars().map(in_lines).collect()
}

/// Returns what to show for a character of a text of several lines.
fn in_lines(c: char) -> char {
    match c {
        '\n' | '\t' => c,
        c if acts(c) => HIDDEN,
        c => c,
    }
}

/// The output of a task as a screen may show it, piece by piece: lines and tabs act, other
/// characters that would are replaced. A character may be cut by the end of a piece.
#[derive(Debug, Default)]
pub struct ShownOutput {
    text: PiecedText,
    /// Whether the last character was a carriage return, which begins a line unless one follows.
    returned: bool,
}

impl ShownOutput {
    /// Returns what to show of the next piece.
    pub fn piece(&mut self, bytes: &[u8]) -> String {
        let text = self.text.piece(bytes);
        let mut shown = String::with_capacity(text.len());
        for c in text.chars() {
            if std::mem::take(&mut self.returned) && c != '\n' {
                shown.push('\n');
            }
            match c {
                '\r' => self.returned = true,
                c => shown.push(in_lines(c)),
            }
        }
        shown
    }
}

/// The text of an output that comes piece by piece, as it is. A character that is cut by the end of a piece comes with the
/// next one.
#[derive(Debug, Default)]
pub struct PiecedText {
    /// The beginning of a character whose end has not come.
    begun: Vec<u8>,
}

impl PiecedText {
    /// Returns the text of the next piece, after what was begun before. Bytes that are no text are replaced.
    pub fn piece(&mut self, bytes: &[u8]) -> String {
        let mut whole = std::mem::take(&mut self.begun);
        whole.extend_from_slice(bytes);
        let last = whole.utf8_chunks().last();
        let cut = last.map_or(0, |chunk| match chunk.invalid() {
            cut if is_cut(cut) => cut.len(),
            _ => 0,
        });
        self.begun = whole.split_off(whole.len() - cut);
        String::from_utf8_lossy(&whole).into_owned()
    }

    /// The number of bytes that wait for the next piece.
    pub fn begun(&self) -> u64 {
        self.begun.len() as u64
    }

    /// Returns what waits for the next piece where none comes.
    pub fn end(&mut self) -> String {
        let begun = std::mem::take(&mut self.begun);
        String::from_utf8_lossy(&begun).into_owned()
    }
}

/// Whether these bytes, of no character, are the beginning of one.
fn is_cut(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_and_marks_of_direction_do_not_act() {
        assert_eq!(printable("a\u{1b}[2Jb\u{202e}c"), "a\u{fffd}[2Jb\u{fffd}c");
        assert_eq!(printable("größer 漢字 😀"), "größer 漢字 😀");
    }

    #[test]
    fn of_a_text_of_lines_only_the_breaks_act() {
        assert_eq!(
            printable_lines("one\n\ttwo\r\u{1b}]0;x\u{7}\n"),
            "one\n\ttwo\u{fffd}\u{fffd}]0;x\u{fffd}\n"
        );
    }

    #[test]
    fn a_carriage_return_overwrites_nothing() {
        let shown = ShownOutput::default().piece(b"10 %\r20 %\r\ndone\tx\x1b[31m\n");
        assert_eq!(shown, "10 %\n20 %\ndone\tx\u{fffd}[31m\n");
    }

    #[test]
    fn a_character_that_is_cut_comes_with_the_next_piece() {
        let mut text = PiecedText::default();
        assert_eq!((text.piece(b"a\xc3").as_str(), text.begun()), ("a", 1));
        assert_eq!((text.piece(b"").as_str(), text.begun()), ("", 1));
        assert_eq!(
            (text.piece(b"\xbcb").as_str(), text.begun()),
            ("\u{fc}b", 0)
        );
        assert_eq!(text.piece(b"\xff\xe2\x82"), "\u{fffd}");
        assert_eq!((text.begun(), text.end().as_str()), (2, "\u{fffd}"));
        assert_eq!((text.begun(), text.end().as_str()), (0, ""));
    }

    proptest! {
        #[test]
        fn pieces_of_text_are_the_whole(
            bytes in proptest::collection::vec(
                prop_oneof![any::<u8>(), Just(b'a'), Just(0xe2), Just(0x82), Just(0xac), Just(0xf0)],
                0..60,
            ),
            cut in 0usize..60,
        ) {
            let (one, other) = bytes.split_at(cut.min(bytes.len()));
            let mut text = PiecedText::default();
            let pieces = text.piece(one) + &text.piece(other) + &text.end();
            prop_assert_eq!(pieces, String::from_utf8_lossy(&bytes).into_owned());
        }

        #[test]
        fn pieces_show_what_the_whole_shows(
            bytes in proptest::collection::vec(
                prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(0xe2), Just(0x80), Just(0xae)],
                0..60,
            ),
            cut in 0usize..60,
        ) {
            let whole = ShownOutput::default().piece(&bytes);
            let (one, other) = bytes.split_at(cut.min(bytes.len()));
            let mut pieces = ShownOutput::default();
            let pieces = pieces.piece(one) + &pieces.piece(other);

            prop_assert!(whole.chars().all(|c| !acts(c) || c == '\n' || c == '\t'));
            prop_assert_eq!(pieces, whole);
        }
    }
}
