//! The `availability` table: one row for each interval of a host's recorded availability. Intervals
//! of one host do not overlap, and consecutive equal ones are merged into one row.

use common::availability::AvailabilityInterval;
use common::{HostId, Time};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::reader::Reader;
use super::writer::Writer;
use super::{StoreError, micros, time};

/// The tolerance of `cpu`, as a part of the processor, up to which consecutive intervals are
/// merged.
const ALIKE: f32 = 0.01;

impl Writer {
    /// Adds the intervals that a host's worker has recorded. Their parts before the end of the last
    /// stored interval are dropped, so an interval that is sent twice is stored once.
    pub(crate) fn add_availability(
        &mut self,
        host: HostId,
        stretches: &[&AvailabilityInterval],
    ) -> Result<(), StoreError> {
        let mut last = last(self.db(), host)?;
        for stretch in stretches {
            let start = last
                .as_ref()
                .map_or(stretch.start, |last| last.end.max(stretch.start));
            if start >= stretch.end {
                continue;
            }

            let mut now = AvailabilityInterval {
                start,
                ..(*stretch).clone()
            };
            if let Some(mut before) = last.filter(|before| before.end == now.start)
                && before.join(&now, ALIKE)
            {
                now = before;
            }
            self.change(
                "INSERT OR REPLACE INTO availability (host, start, end, cpu, owner, reason) VALUES (?, ?, ?, ?, ?, ?)",
                params![host.0, micros(now.start), micros(now.end), now.cpu, now.owner_active, now.reason],
            )?;
            last = Some(now);
        }

        Ok(())
    }

    /// The newest `most` intervals of a host that end after `since`, the oldest of them first.
    pub(crate) fn recorded(
        &self,
        host: HostId,
        since: Time,
        most: u32,
    ) -> Result<Vec<AvailabilityInterval>, StoreError> {
        let mut query = self.db().prepare_cached(
            "SELECT start, end, cpu, owner, reason FROM availability WHERE host = ? AND end > ?
             ORDER BY start DESC LIMIT ?",
        )?;
        let rows = query.query_map((host.0, micros(since), most), stretch)?;
        let mut newest = rows.collect::<Result<Vec<_>, _>>()?;
        newest.reverse();

        Ok(newest)
    }

    /// Removes a host's intervals that ended before `oldest`, and its oldest rows beyond `most`.
    pub(crate) fn trim_availability(
        &mut self,
        host: HostId,
        oldest: Time,
        most: u32,
    ) -> Result<(), StoreError> {
        let first = "SELECT end FROM availability WHERE host = ? ORDER BY start LIMIT 1";
        let first: Option<i64> = self
            .db()
            .prepare_cached(first)?
            .query_row([host.0], |row| row.get(0))
            .optional()?;
        let beyond =
            "SELECT start FROM availability WHERE host = ? ORDER BY start DESC LIMIT 1 OFFSET ?";
        let beyond: Option<i64> = self
            .db()
            .prepare_cached(beyond)?
            .query_row((host.0, most), |row| row.get(0))
            .optional()?;

        // Only a change opens a transaction, which costs a sync.
        if beyond.is_some() || first.is_some_and(|end| end <= micros(oldest)) {
            self.change(
                "DELETE FROM availability WHERE host = ?1 AND (end <= ?2 OR start <= ?3)",
                (host.0, micros(oldest), beyond.unwrap_or(-1)),
            )?;
        }

        Ok(())
    }
}

impl Reader {
    /// The start of a host's first recorded interval, and its first `most` intervals that end after
    /// `since` and begin before `until`, clipped to that range.
    pub(crate) fn availability(
        &self,
        host: HostId,
        since: Time,
        until: Time,
        most: usize,
    ) -> Result<(Option<Time>, Vec<AvailabilityInterval>), StoreError> {
        self.with(|db| {
            let first: Option<i64> = db
                .prepare_cached("SELECT min(start) FROM availability WHERE host = ?")?
                .query_row([host.0], |row| row.get(0))?;

            // The row that contains `since`, if any, is the last one that begins before it.
            let mut query = db.prepare_cached(
                "SELECT start, end, cpu, owner, reason FROM availability WHERE host = ?1 AND end > ?2 AND start < ?3
                 AND start >= coalesce((SELECT max(start) FROM availability WHERE host = ?1 AND start <= ?2), 0)
                 ORDER BY start LIMIT ?4",
            )?;
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let rows = query.query_map((host.0, micros(since), micros(until), most), stretch)?;
            let cut = |s: AvailabilityInterval| AvailabilityInterval { start: s.start.max(since), end: s.end.min(until), ..s };
            let mut stretches = rows.map(|row| row.map(cut)).collect::<Result<Vec<_>, _>>()?;
            stretches.retain(|stretch| stretch.start < stretch.end);

            Ok((first.map(time), stretches))
        })
    }
}

fn last(db: &Connection, host: HostId) -> Result<Option<AvailabilityInterval>, StoreError> {
    let sql = "SELECT start, end, cpu, owner, reason FROM availability WHERE host = ? ORDER BY start DESC LIMIT 1";
    Ok(db
        .prepare_cached(sql)?
        .query_row([host.0], stretch)
        .optional()?)
}

fn stretch(row: &Row<'_>) -> rusqlite::Result<AvailabilityInterval> {
    Ok(AvailabilityInterval {
        start: time(row.get(0)?),
        end: time(row.get(1)?),
        cpu: row.get(2)?,
        owner_active: row.get(3)?,
        reason: row.get(4)?,
    })
}
