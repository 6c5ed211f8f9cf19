//! Files of the worker's directory that hold one value as JSON. What becomes of one that cannot be
//! read is for its owner to say.

use std::io;
use std::path::Path;

use link::files::unless_gone;
use serde::de::DeserializeOwned;

/// Reads the value of a file; `None` if there is no file.
///
/// # Errors
/// If the file cannot be read, or holds no such value.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let text = unless_gone(std::fs::read(path))?;
    let value = text.map(|text| serde_json::from_slice(&text));
    Ok(value.transpose()?)
}
