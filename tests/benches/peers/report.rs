//! The table for BENCHMARKS.md.

use std::process::Command;

use crate::measure::Samples;

/// What was measured of one contender in one row.
pub(crate) struct Entry {
    /// Who.
    pub(crate) who: &'static str,
    /// What came out, or why nothing did.
    pub(crate) what: Result<String, String>,
}

/// A row: one question, every contender's answer, and the target.
pub(crate) struct Row {
    /// What is measured.
    pub(crate) title: &'static str,
    /// What deskgrid must reach.
    pub(crate) target: &'static str,
    /// The answers.
    pub(crate) entries: Vec<Entry>,
}

/// `1,234/s (1,100–1,300)`.
pub(crate) fn rate(samples: &Samples) -> Option<String> {
    let (middle, least, most) = samples.summary()?;
    Some(format!(
        "{}/s ({}–{})",
        grouped(middle),
        grouped(least),
        grouped(most)
    ))
}

/// `12.3 ms (11.0–14.2)`, or in microseconds where that says more.
pub(crate) fn millis(samples: &Samples) -> Option<String> {
    let (middle, least, most) = samples.summary()?;
    let (unit, factor) = if middle < 100e-6 {
        ("µs", 1e6)
    } else {
        ("ms", 1e3)
    };
    Some(format!(
        "{:.2} {unit} ({:.2}–{:.2})",
        middle * factor,
        least * factor,
        most * factor
    ))
}

fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Prints everything as Markdown.
pub(crate) fn print(rows: &[Row], rounds: u32) {
    println!(
        "Machine: {}. Date: {}. Commit: {}.",
        machine(),
        said("date", &["-u", "+%Y-%m-%d"]),
        commit()
    );

    println!(
        "Medians of {rounds} rounds in turn, with the least and the most; CPU is of every process that took part.\n"
    );
    println!("| what | who | measured | deskgrid's target |\n|---|---|---|---|");
    for row in rows {
        for (at, entry) in row.entries.iter().enumerate() {
            let (title, target) = if at == 0 {
                (row.title, row.target)
            } else {
                ("", "")
            };

            let measured = match &entry.what {
                Ok(text) => text.clone(),
                Err(why) => format!(
                    "not measured: {}",
                    why.lines().next().unwrap_or("no reason given")
                ),
            };
            println!("| {title} | {} | {measured} | {target} |", entry.who);
        }
    }
}

fn machine() -> String {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|l| l.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown", |(_, m)| m);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    format!(
        "{cpus} x {model}, Linux {}, load {load} at the end",
        said("uname", &["-r"])
    )
}

fn commit() -> String {
    let dirty = if said("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty() {
        ""
    } else {
        " (changed)"
    };
    format!(
        "{}{dirty}",
        said("git", &["rev-parse", "--short=10", "HEAD"])
    )
}

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .output()
        .map(|o| o.stdout)
        .unwrap_or_default();
    String::from_utf8_lossy(&output).trim().to_owned()
}
