//! Retention of old rows: finds settled jobs to forget, and removes tokens that expired. Content is
//! swept elsewhere, once nothing names it, and the record of availability has limits of its own
//! (`trim_availability`).

use common::{JobId, Time};
use rusqlite::params;

use super::writer::Writer;
use super::{StoreError, micros};

impl Writer {
    /// The first `most` jobs, by number, that were settled before `then`.
    pub(crate) fn settled_before(&self, then: Time, most: u32) -> Result<Vec<JobId>, StoreError> {
        let sql = "SELECT id FROM job WHERE state NOT IN ('waiting', 'running') AND ended < ? ORDER BY id LIMIT ?";
        let mut query = self.db().prepare_cached(sql)?;
        let ids = query.query_map((micros(then), most), |row| row.get(0).map(JobId))?;
        Ok(ids.collect::<Result<_, _>>()?)
    }

    /// Removes tokens that expired before `then`. Returns their number.
    pub(crate) fn trim_tokens(&mut self, then: Time) -> Result<usize, StoreError> {
        let there = "SELECT 1 FROM token WHERE expires < ?";
        // Only a change opens a transaction, which costs a sync.
        if !self.db().prepare_cached(there)?.exists([micros(then)])? {
            return Ok(0);
        }
        self.change("DELETE FROM token WHERE expires < ?", params![micros(then)])
    }
}
