//! The `availability` table: one row for each interval of a host's recorded availability. Intervals
//! of one host do not overlap, and consecutive equal ones are merged into one row.

use common::availability::AvailabilityInterval;
use common::{HostId, Time};

use super::db::Db;
use super::reader::Reader;
use super::value::{SqlRow, values};
use super::writer::Writer;
use super::{StoreResult, micros, time};

/// The tolerance of `cpu`, as a part of the processor, up to which consecutive intervals are
/// merged.
const ALIKE: f32 = 0.01;

impl Writer {
    /// Adds the intervals that a host's worker has recorded. Their parts before the end of the last
    /// stored interval are dropped, so an interval that is sent twice is stored once. Returns the number
    /// of new rows.
    pub(crate) fn add_availability(
        &mut self,
        host: HostId,
        stretches: &[&AvailabilityInterval],
    ) -> StoreResult<usize> {
        let mut added = 0;
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
            } else {
                added += 1;
            }
            self.change(
                "INSERT INTO availability (host, start, \"end\", cpu, owner, reason) VALUES ($1, $2, $3, $4, $5, $6)
                 ON CONFLICT (host, start) DO UPDATE SET \"end\" = excluded.\"end\", cpu = excluded.cpu,
                 owner = excluded.owner, reason = excluded.reason",
                values![host.0, micros(now.start), micros(now.end), now.cpu, now.owner_active, now.reason],
            )?;
            last = Some(now);
        }

        Ok(added)
    }

    /// The newest `most` intervals of a host that end after `since`, the oldest of them first.
    pub(crate) fn recorded(
        &self,
        host: HostId,
        since: Time,
        most: u32,
    ) -> StoreResult<Vec<AvailabilityInterval>> {
        let sql = "SELECT start, \"end\", cpu, owner, reason FROM availability WHERE host = $1 AND \"end\" > $2
                   ORDER BY start DESC LIMIT $3";
        let since = micros(since);
        let mut newest: Vec<_> = self.db().all(sql, values![host.0, since, most], stretch)?;
        newest.reverse();

        Ok(newest)
    }

    /// Removes a portion of a host's intervals that ended before `oldest`, and where `most` is given of
    /// its oldest rows beyond that many, for which all rows are read. Returns whether there may be more.
    pub(crate) fn trim_availability(
        &mut self,
        host: HostId,
        oldest: Time,
        most: Option<u32>,
        portion: u32,
    ) -> StoreResult<bool> {
        // No two overlap: the last but one of those that began before has ended before, too.
        let sql = "SELECT start, \"end\" FROM availability WHERE host = $1 AND start < $2 ORDER BY start DESC LIMIT 2";
        let oldest = micros(oldest);
        let began: Vec<(i64, i64)> = self.db().all(sql, values![host.0, oldest], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
        let ended = began.into_iter().find(|(_, end)| *end <= oldest);

        let beyond = match most {
            Some(most) => {
                let sql = "SELECT start FROM availability WHERE host = $1 ORDER BY start DESC LIMIT 1 OFFSET $2";
                self.db()
                    .first(sql, values![host.0, most], |row| row.get::<i64>(0))?
            }
            None => None,
        };

        // Only a change opens a transaction, which costs a sync.
        let Some(last) = ended.map(|(start, _)| start).max(beyond) else {
            return Ok(false);
        };
        let sql = "DELETE FROM availability WHERE host = $1 AND start IN
                   (SELECT start FROM availability WHERE host = $1 AND start <= $2 ORDER BY start LIMIT $3)";
        let gone = self.count(sql, values![host.0, last, portion])?;
        Ok(gone == portion as usize)
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
    ) -> StoreResult<(Option<Time>, Vec<AvailabilityInterval>)> {
        self.with(|db| {
            let sql = "SELECT min(start) FROM availability WHERE host = $1";
            let first: Option<i64> = db.one_value(sql, values![host.0])?;

            // The row that contains `since`, if any, is the last one that begins before it.
            let sql = "SELECT start, \"end\", cpu, owner, reason FROM availability WHERE host = $1 AND \"end\" > $2
                       AND start < $3
                       AND start >= coalesce((SELECT max(start) FROM availability WHERE host = $1 AND start <= $2), 0)
                       ORDER BY start LIMIT $4";
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let cut = |s: AvailabilityInterval| AvailabilityInterval { start: s.start.max(since), end: s.end.min(until), ..s };
            let (from, to) = (micros(since), micros(until));
            let key = values![host.0, from, to, most];
            let mut stretches: Vec<_> = db.all(sql, key, |row| stretch(row).map(cut))?;
            stretches.retain(|stretch| stretch.start < stretch.end);

            Ok((first.map(time), stretches))
        })
    }
}

fn last(db: &Db, host: HostId) -> StoreResult<Option<AvailabilityInterval>> {
    let sql = "SELECT start, \"end\", cpu, owner, reason FROM availability WHERE host = $1 ORDER BY start DESC LIMIT 1";
    db.first(sql, values![host.0], stretch)
}

fn stretch(row: &SqlRow<'_>) -> StoreResult<AvailabilityInterval> {
    Ok(AvailabilityInterval {
        start: time(row.get(0)?),
        end: time(row.get(1)?),
        cpu: row.get(2)?,
        owner_active: row.get(3)?,
        reason: row.get(4)?,
    })
}
