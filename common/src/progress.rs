//! The progress that a program reports: a number from 0 to 1 and, if it likes, some words. It
//! writes both into the file that `DESKGRID_PROGRESS` names.

use crate::text::acts;

/// The variable that names the file.
pub const PROGRESS_VARIABLE: &str = "DESKGRID_PROGRESS";
/// The most bytes of the file that are read.
pub const MAX_REPORT: usize = 512;
/// The most bytes of words that are shown.
pub const MAX_WORDS: usize = 200;

/// A report of progress.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressReport {
    /// The part done, between 0 and 1; `None` if the program wrote something else.
    pub part: Option<f32>,
    /// The program's words; empty without any. Where there is no part they say what is wrong.
    pub words: String,
}

impl ProgressReport {
    /// Reads the beginning of the file: the first line has the number, and then perhaps words.
    /// `None` if nothing stands there.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..MAX_REPORT).unwrap_or(bytes);
        let text = String::from_utf8_lossy(bytes);
        let line = text.trim_start().lines().next()?.trim();
        let (number, words) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let part = number.parse().ok().and_then(sound_part);
        let words = match part {
            Some(_) => words_of(words),
            None => {
                let number: String = number.chars().take(20).collect();
                words_of(&format!(
                    "what it wrote to ${PROGRESS_VARIABLE} is ignored: `{number}` is not a number from 0 to 1"
                ))
            }
        };
        Some(Self { part, words })
    }
}

/// Returns the part if it is between 0 and 1.
pub fn sound_part(part: f32) -> Option<f32> {
    // The sign of a zero would be shown.
    (0.0..=1.0).contains(&part).then_some(part.abs())
}

/// Returns words as they may be shown: at most [`MAX_WORDS`] bytes, without control characters.
pub fn words_of(text: &str) -> String {
    let mut words = String::new();
    for c in text.trim().chars() {
        if words.len() + c.len_utf8() > MAX_WORDS {
            break;
        }
        words.push(if acts(c) { ' ' } else { c });
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(Option<f32>, String)> {
        ProgressReport::read(text.as_bytes()).map(|progress| (progress.part, progress.words))
    }

    #[test]
    fn a_number_and_words_are_read_from_the_first_line() {
        let part = |part, words: &str| Some((Some(part), words.to_owned()));
        assert_eq!(read("0.5"), part(0.5, ""));
        assert_eq!(read("  1\n"), part(1.0, ""));
        let zero = read("-0").and_then(|(part, _)| part).expect("a number");
        assert!(zero.is_sign_positive());
        assert_eq!(
            read("0 \t reading images \nmore"),
            part(0.0, "reading images")
        );
        assert_eq!(read("2.5e-1 a\u{7}b\u{202e}c"), part(0.25, "a b c"));
        assert_eq!(read(""), None);
        assert_eq!(read(" \n \n"), None);
    }

    #[test]
    fn what_is_no_progress_is_ignored_with_a_word() {
        for odd in ["NaN", "7", "-0.1", "inf", "50%", "\u{0}", "half of it"] {
            let (part, words) = read(odd).expect("something stands there");
            assert_eq!(part, None, "{odd}");
            assert!(words.contains("is not a number from 0 to 1"), "{words}");
        }
        let odd = ProgressReport::read(&[0xff; 5_000]).expect("something stands there");
        assert!(odd.part.is_none() && odd.words.len() <= MAX_WORDS);
    }

    #[test]
    fn words_are_cut_between_characters() {
        let (_, words) = read(&format!("0.5 {}", "é".repeat(240))).expect("progress");
        assert!(
            words.len() <= MAX_WORDS && words.chars().all(|c| c == 'é'),
            "{words}"
        );
    }
}
