//! Retention of old rows: finds settled jobs to forget, and removes tokens that expired. Content is
//! swept elsewhere, once nothing names it, and the record of availability has limits of its own
//! (`trim_availability`).

use common::{JobId, Time};

use super::value::values;
use super::writer::Writer;
use super::{StoreResult, micros};

impl Writer {
    /// The first `most` jobs, by number, that were settled before `then`.
    pub(crate) fn settled_before(&self, then: Time, most: u32) -> StoreResult<Vec<JobId>> {
        let sql = "SELECT id FROM job WHERE state NOT IN ('waiting', 'running') AND ended < $1 ORDER BY id LIMIT $2";
        let then = micros(then);
        self.db()
            .all(sql, values![then, most], |row| row.get(0).map(JobId))
    }

    /// Removes tokens that expired before `then`. Returns their number.
    pub(crate) fn trim_tokens(&mut self, then: Time) -> StoreResult<usize> {
        let there = "SELECT 1 FROM token WHERE expires < $1";
        // Only a change opens a transaction, which costs a sync.
        if !self.db().exists(there, values![micros(then)])? {
            return Ok(0);
        }
        self.count(
            "DELETE FROM token WHERE expires < $1",
            values![micros(then)],
        )
    }
}
