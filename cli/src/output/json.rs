//! The JSON that commands print: the types are those of the API.

pub(crate) use api::json::{
    AccountAnswer, AddAnswer, EventLine, ExplainAnswer, FailureCause, JobInfo, Json, List,
    LostEvents, NewTokenAnswer, PredictionAnswer, RequestAnswer, Retried, SubmitAnswer,
};

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
