//! What goes from the store because it is old: settled jobs, and tokens that nobody can use any
//! more. What is not here: the content of files, which is swept once nothing names it, and the
//! record of availability, which has bounds of its own.

use common::{JobId, Time};
use rusqlite::params;

use super::writer::Writer;
use super::{StoreError, micros};

impl Writer {
    /// The first so many jobs that were settled before `then`.
    pub(crate) fn settled_before(&self, then: Time, most: u32) -> Result<Vec<JobId>, StoreError> {
        let sql = "SELECT id FROM job WHERE state NOT IN ('waiting', 'running') AND ended < ? ORDER BY id LIMIT ?";
        let mut query = self.db().prepare_cached(sql)?;
        let ids = query.query_map((micros(then), most), |row| row.get(0).map(JobId))?;
        Ok(ids.collect::<Result<_, _>>()?)
    }

    /// Removes tokens that expired before `then`; says how many.
    pub(crate) fn trim_tokens(&mut self, then: Time) -> Result<usize, StoreError> {
        let there = "SELECT 1 FROM token WHERE expires < ?";
        // Only a change opens a transaction, which costs a sync.
        if !self.db().prepare_cached(there)?.exists([micros(then)])? {
            return Ok(0);
        }
        self.change("DELETE FROM token WHERE expires < ?", params![micros(then)])
    }
}
