//! The JSON that commands print: the types are those of the API.

use std::path::Path;

pub(crate) use api::json::{
    AccountAnswer, AddJson, EventLine, ExplainAnswer, FailureCause, JobInfo, Json, List,
    LostEvents, NewTokenAnswer, PredictionAnswer, RequestAnswer, Retried, SubmitAnswer,
};
use serde::ser::{SerializeMap, Serializer};

/// Writes a path as text, which has U+FFFD for what is not UTF-8. Without this such a path would end the program.
pub(crate) fn path_text<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}

/// Writes a path as `path`, and its bytes as `path_bytes` where the text does not have all of it.
pub(crate) fn path_fields<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    let mut fields = to.serialize_map(None)?;
    fields.serialize_entry("path", &path.to_string_lossy())?;
    if path.to_str().is_none() {
        fields.serialize_entry("path_bytes", path.as_os_str().as_encoded_bytes())?;
    }
    fields.end()
}

#[cfg(test)]
pub(crate) mod tests {
    /// Holds documents against the golden file of this name, or writes it.
    pub(crate) fn golden(file: &str, documents: &[(&str, String)]) {
        let path = format!("{}/../tests/golden/{file}.txt", env!("CARGO_MANIFEST_DIR"));
        let lines: Vec<String> = documents
            .iter()
            .map(|(name, document)| format!("{name} = {document}\n"))
            .collect();
        if std::env::var_os("DESKGRID_BLESS").is_some() {
            std::fs::write(&path, lines.concat()).unwrap();
        }

        let kept =
            std::fs::read_to_string(&path).expect("run this test once with DESKGRID_BLESS=1");
        let kept: Vec<&str> = kept.split_inclusive('\n').collect();
        assert_eq!(kept, lines, "{path}");
    }
}
