//! The content that some job needs: as an input or a result (`blob_use`), for a saved state (`checkpoint_blob`) or as
//! output that nobody has requested yet (`kept_blob`). Who may name content is in `uploads`; the sweeps that
//! remove what no job needs are the core's.

use std::collections::BTreeSet;

use common::content::BlobHash;

use super::StoreResult;
use super::db::Db;
use super::reader::Reader;
use super::value::{SqlValue, numbered};
use super::writer::Writer;

/// The most hashes of one question: a power of two.
const ASKED: usize = 1_024;

/// Returns the values of portions of hashes, each for one question. Each text of a question is prepared and kept, so there
/// are few: the last hash fills one up.
pub(super) fn portions(hashes: &[BlobHash]) -> impl Iterator<Item = Vec<SqlValue<'_>>> {
    hashes.chunks(ASKED).map(|portion| {
        let values = portion.iter().map(|hash| SqlValue::Bytes(&hash.0));
        let mut values: Vec<SqlValue<'_>> = values.collect();
        let last = values[portion.len() - 1];
        values.resize(portion.len().next_power_of_two(), last);
        values
    })
}

/// Returns the text that asks which of so many hashes some job needs.
fn question(count: usize) -> String {
    let asked = numbered(1..=count);
    format!(
        "SELECT hash FROM blob_use WHERE hash IN ({asked})
         UNION SELECT hash FROM checkpoint_blob WHERE hash IN ({asked})
         UNION SELECT hash FROM kept_blob WHERE hash IN ({asked})"
    )
}

/// Returns those of the `hashes` that some job needs.
fn needed(db: &Db, hashes: &[BlobHash]) -> StoreResult<BTreeSet<BlobHash>> {
    let mut needed = BTreeSet::new();
    for values in portions(hashes) {
        db.each(&question(values.len()), &values, |row| {
            needed.insert(BlobHash(row.get(0)?));
            Ok(())
        })?;
    }
    Ok(needed)
}

impl Reader {
    /// Returns those of the `hashes` that some job needs, as of the last commit.
    pub(crate) fn needed(&self, hashes: &[BlobHash]) -> StoreResult<BTreeSet<BlobHash>> {
        self.with(|db| needed(db, hashes))
    }
}

impl Writer {
    /// Whether some job needs this content.
    pub(crate) fn needs_blob(&self, hash: &BlobHash) -> StoreResult<bool> {
        Ok(!needed(self.db(), &[*hash])?.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use common::checkpoint::Saved;
    use common::view::AttemptState;
    use common::{BlobRef, Time};

    use super::super::tests::{add_job_with, attempt, completion, file, open, spec, start};
    use super::*;

    impl Writer {
        /// Returns those of the `hashes` that some job needs.
        pub(crate) fn needed(&self, hashes: &[BlobHash]) -> StoreResult<BTreeSet<BlobHash>> {
            needed(self.db(), hashes)
        }
    }

    #[test]
    fn of_many_hashes_those_are_told_that_a_job_a_saved_state_or_kept_output_needs() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(&dir);
        let hashes: Vec<BlobHash> = (0..2_500).map(|n| file(n, 9).hash).collect();
        let inputs: Vec<BlobRef> = (0..2_500).step_by(3).map(|n| file(n, 9)).collect();
        let job = add_job_with(&mut store, 1, (&spec(2), &inputs), "ann");
        add_job_with(&mut store, 2, (&spec(1), &inputs[..5]), "bob");
        store.disclose(job, Time(1)).unwrap();
        assert!(store.needed(&hashes[1..3]).unwrap().is_empty());

        let saved = Saved {
            number: 1,
            sequence: 1,
            taken: Time(5),
            files: 1,
            bytes: 9,
            manifest: file(1, 9),
        };
        start(&mut store, attempt(job, 1, 1));
        store
            .keep_checkpoint(attempt(job, 1, 1), &saved, &[])
            .unwrap();
        start(&mut store, attempt(job, 2, 1));
        let mut left = completion(attempt(job, 2, 1), 0);
        left.outputs[0].blob = file(2, 9);
        let finished = AttemptState::Finished;
        store
            .keep_back(&left, finished, Time(9), "ann", Time(9))
            .unwrap();

        let mut expected: BTreeSet<BlobHash> = inputs.iter().map(|blob| blob.hash).collect();
        expected.extend([file(1, 9).hash, file(2, 9).hash]);
        assert_eq!(store.needed(&hashes).unwrap(), expected);
        store.commit().unwrap();
        let reader = Reader::new(dir.path());
        assert_eq!(reader.needed(&hashes).unwrap(), expected);
        assert_eq!(reader.needed(&hashes[3..4]).unwrap().len(), 1);
        assert!(reader.needed(&[]).unwrap().is_empty());
    }
}
