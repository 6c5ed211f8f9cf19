//! Lists of items: one task each.

use std::io::Read;
use std::path::Path;

use super::BuildError;

/// One item per line; empty lines are skipped. `-` is standard input.
pub(super) fn lines(path: &Path) -> Result<Vec<String>, BuildError> {
    let bytes = read(path, "the list of items")?;
    let mut items = Vec::new();
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let not_text = |_| BuildError::NotText { path: path.to_owned(), line: number + 1 };
        let line = std::str::from_utf8(line).map_err(not_text)?;
        if !line.is_empty() {
            items.push(line.to_owned());
        }
    }
    at_least_one(items, path)
}

/// The values of a JSON array: strings as they are, anything else as compact JSON.
pub(super) fn json(path: &Path) -> Result<Vec<String>, BuildError> {
    let bytes = read(path, "the list of items")?;
    let values: Vec<serde_json::Value> = serde_json::from_slice(&bytes)
        .map_err(|error| BuildError::Json { path: path.to_owned(), why: error.to_string() })?;
    let items = values.into_iter().map(|value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    });
    at_least_one(items.collect(), path)
}

fn at_least_one(items: Vec<String>, path: &Path) -> Result<Vec<String>, BuildError> {
    if items.is_empty() { Err(BuildError::NoItems { path: path.to_owned() }) } else { Ok(items) }
}

/// The whole file, or standard input for `-`.
pub(super) fn read(path: &Path, what: &'static str) -> Result<Vec<u8>, BuildError> {
    let result = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    result.map_err(|source| BuildError::Read { what, path: path.to_owned(), source })
}
