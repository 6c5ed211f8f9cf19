//! What the benchmarks have in common: the numbers of their command lines, and how measurements
//! are told.

use std::str::FromStr;

/// Returns the number that follows this word of the command line, or the usual one.
pub fn argument<T: FromStr>(name: &str, usual: T) -> T {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    let given = args.nth(1).and_then(|arg| arg.parse().ok());
    given.unwrap_or(usual)
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
