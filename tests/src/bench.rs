//! What the benchmarks have in common: the numbers of their command lines, and how measurements
//! are told.

use std::str::FromStr;

/// Returns the number that follows this word of the command line, or the usual one without the word.
///
/// # Panics
/// If something else follows it.
pub fn argument<T: FromStr>(name: &str, usual: T) -> T {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    if args.next().is_none() {
        return usual;
    }
    let given = args.next().unwrap_or_default();
    let Ok(number) = given.parse() else {
        panic!("{name} {given}: no number that this benchmark knows");
    };
    number
}

/// Returns the middle one with the smallest and the largest, each with so many digits.
pub fn spread(values: &[f64], digits: usize) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [first, .., last] = sorted[..] else {
        return sorted
            .first()
            .map_or_else(String::new, |one| format!("{one:.digits$}"));
    };
    let middle = sorted[sorted.len() / 2];
    format!("{middle:.digits$} ({first:.digits$}–{last:.digits$})")
}
