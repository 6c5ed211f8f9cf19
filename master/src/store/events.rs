//! The events that followers are told: one row for each commit in which something happened. A row
//! is written in the transaction of the changes that it tells of, so none is told that did not
//! come to stay, and none is left out.

use common::event::GridEvent;
use common::{AttemptId, HostId, Incarnation, JobId, Time};

use super::db::Db;
use super::forgotten::PAGES;
use super::reader::Reader;
use super::value::values;
use super::writer::Writer;
use super::{StoreResult, from_postcard, micros, time, to_postcard};

/// The room for events in each second since incarnations are counted: more than a master ever
/// writes on the average, so that numbers of an older line are not given out again.
const EVENTS_PER_S: u64 = 1_000;

/// The [`GridEvent`]s of one commit.
#[derive(Debug)]
pub(crate) struct EventRow {
    /// The sequence number of the first of them.
    pub(crate) first: u64,
    /// The time of the commit.
    pub(crate) at: Time,
    /// The events.
    pub(crate) events: Vec<GridEvent>,
}

impl EventRow {
    /// The sequence number of the last event, also where none of them could be read.
    pub(crate) fn last(&self) -> u64 {
        (self.first + self.events.len() as u64).saturating_sub(1)
    }
}

/// The sequence number of the newest event; 0 if there is none.
pub(super) fn newest(db: &Db) -> StoreResult<u64> {
    let newest: Option<i64> = db.one_value("SELECT max(last) FROM event", &[])?;
    Ok(newest.unwrap_or(0).max(0) as u64)
}

impl Writer {
    /// The sequence number of the newest event, committed or not.
    pub(crate) fn newest_event(&self) -> u64 {
        self.newest_event
    }

    /// Adds events with the next sequence numbers.
    pub(crate) fn add_events(&mut self, at: Time, events: &[GridEvent]) -> StoreResult<()> {
        if events.is_empty() {
            return Ok(());
        }
        self.newest_event += events.len() as u64;
        let last = self.newest_event;
        let body = to_postcard(&events)?;
        self.change(
            "INSERT INTO event (last, at, body) VALUES ($1, $2, $3)",
            values![last, micros(at), body],
        )
    }

    /// The host that an attempt was assigned to.
    pub(crate) fn host_of(&self, id: AttemptId) -> StoreResult<Option<HostId>> {
        let sql = "SELECT host FROM attempt WHERE job = $1 AND task = $2 AND number = $3";
        let key = values![id.task.job.0, id.task.index, id.number];
        self.db().first(sql, key, |row| row.get(0).map(HostId))
    }

    /// The user who submitted a job.
    pub(crate) fn user_of(&self, job: JobId) -> StoreResult<Option<String>> {
        let sql = "SELECT \"user\" FROM job WHERE id = $1";
        self.db().value(sql, values![job.0])
    }

    /// Leaves out the sequence numbers that the master of the original may have given out since
    /// this copy of its store was made.
    pub(crate) fn skip_events(&mut self, incarnation: Incarnation) {
        let beyond = u64::from(incarnation.0) * EVENTS_PER_S;
        self.newest_event = self.newest_event.max(beyond);
    }

    /// Removes events of before `then`, and so many that `most` are left and perhaps some more of one
    /// commit, in rows of at most `portion`; the newest row stays. The numbers that a copy has skipped
    /// last do not count. Returns whether there may be more to remove.
    pub(crate) fn trim_events(&mut self, then: Time, most: u64, portion: u32) -> StoreResult<bool> {
        let floor = i64::try_from(self.newest_event.saturating_sub(most)).unwrap_or(i64::MAX);
        let newest = self.newest_event;
        let sql = "SELECT last, at, coalesce((SELECT min(last) FROM event WHERE last > $1)
            - (SELECT max(last) FROM event WHERE last <= $1) - 1, 0) FROM event WHERE last < $2 ORDER BY last LIMIT $3";
        let oldest: Vec<[i64; 3]> = self.db().all(sql, values![floor, newest, portion], |row| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?])
        })?;

        let goes = |[last, at, gap]: &&[i64; 3]| *last <= floor - gap || *at < micros(then);
        let going: Vec<i64> = oldest.iter().take_while(goes).map(|row| row[0]).collect();

        // Only a change opens a transaction, which costs a sync.
        let Some(last) = going.last() else {
            return Ok(false);
        };
        self.change("DELETE FROM event WHERE last <= $1", values![last])?;
        self.give_back(PAGES)?;
        Ok(going.len() == portion as usize)
    }
}

impl Reader {
    /// The events beyond `after`, of at most `rows` commits. A row that is damaged is left out with
    /// an error in the log: what follows it then begins later than expected.
    pub(crate) fn events(&self, after: u64, rows: u32) -> StoreResult<Vec<EventRow>> {
        self.with(|db| {
            let sql = "SELECT last, at, body FROM event WHERE last > $1 ORDER BY last LIMIT $2";
            let mut found = Vec::new();
            let mut damaged = None;
            db.each(sql, values![after, rows], |row| {
                let last = row.get::<i64>(0)?.max(0) as u64;
                let body: Vec<u8> = row.get(2)?;
                match from_postcard::<Vec<GridEvent>>(&body) {
                    Ok(events) => found.push(EventRow {
                        first: (last + 1).saturating_sub(events.len() as u64),
                        at: time(row.get(1)?),
                        events,
                    }),
                    Err(error) => {
                        tracing::error!(last, %error, "events are damaged, and are left out");
                        damaged = Some((last, time(row.get(1)?)));
                    }
                }
                Ok(())
            })?;

            // Whoever reads on gets beyond damage at the end.
            if let (true, Some((last, at))) = (found.is_empty(), damaged) {
                found.push(EventRow {
                    first: last + 1,
                    at,
                    events: Vec::new(),
                });
            }
            Ok(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(job: u32) -> GridEvent {
        GridEvent::JobStarted { job: JobId(job) }
    }

    /// The numbers and jobs of the events beyond `after`.
    fn told(reader: &Reader, after: u64) -> Vec<(u64, u32)> {
        let rows = reader.events(after, 100).unwrap();
        let numbered = rows
            .into_iter()
            .flat_map(|row| (row.first..).zip(row.events));
        numbered
            .filter_map(|(seq, event)| Some((seq, event.job()?.0)))
            .collect()
    }

    #[test]
    fn numbers_go_on_over_restarts_and_nothing_is_told_that_was_not_committed() {
        let dir = tempfile::tempdir().unwrap();
        let reader = Reader::new(dir.path());
        let mut store = Writer::open(dir.path()).unwrap();
        store.add_events(Time(5), &[]).unwrap();
        assert!(!store.commit().unwrap(), "nothing happened");
        store
            .add_events(Time(5), &[started(1), started(2)])
            .unwrap();
        store.commit().unwrap();
        store.add_events(Time(6), &[started(3)]).unwrap();
        drop(store); // Killed before the commit.

        let mut store = Writer::open(dir.path()).unwrap();
        assert_eq!(store.newest_event(), 2);
        store.add_events(Time(7), &[started(4)]).unwrap();
        store.commit().unwrap();
        assert_eq!(told(&reader, 0), [(1, 1), (2, 2), (3, 4)]);
        assert_eq!(told(&reader, 2), [(3, 4)]);
    }

    #[test]
    fn old_events_go_and_the_newest_stay_so_that_numbers_never_come_again() {
        let dir = tempfile::tempdir().unwrap();
        let reader = Reader::new(dir.path());
        let mut store = Writer::open(dir.path()).unwrap();
        for n in 1..=6u32 {
            store
                .add_events(Time(u64::from(n) * 10), &[started(n), started(n)])
                .unwrap();
            store.commit().unwrap();
        }

        assert!(store.trim_events(Time(31), 100, 2).unwrap(), "more to do");
        assert!(!store.trim_events(Time(31), 100, 2).unwrap());
        store.commit().unwrap();
        assert_eq!(told(&reader, 0).first(), Some(&(7, 4)));

        store.trim_events(Time(0), 3, 100).unwrap();
        store.commit().unwrap();
        assert_eq!(told(&reader, 0).first(), Some(&(9, 5)));
        store.trim_events(Time(1_000), 0, 100).unwrap();
        store.commit().unwrap();
        drop(store);
        assert_eq!(Writer::open(dir.path()).unwrap().newest_event(), 12);
        assert_eq!(told(&reader, 0), [(11, 6), (12, 6)]);
    }

    #[test]
    fn a_copy_gives_out_no_number_that_the_original_may_have_used() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Writer::open(dir.path()).unwrap();
        store.add_events(Time(5), &[started(1)]).unwrap();
        store.skip_events(Incarnation(7));
        store.add_events(Time(6), &[GridEvent::Restored]).unwrap();
        assert_eq!(store.newest_event(), 7_001);
    }

    #[test]
    fn events_of_before_a_restoration_stay_though_the_numbers_jump_by_more_than_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let reader = Reader::new(dir.path());
        let mut store = Writer::open(dir.path()).unwrap();
        for n in 1..=2 {
            store.add_events(Time(5), &[started(n)]).unwrap();
        }
        store.skip_events(Incarnation(7));
        store.add_events(Time(6), &[GridEvent::Restored]).unwrap();
        store.add_events(Time(7), &[started(3)]).unwrap();
        store.commit().unwrap();

        for (most, left) in [
            (4, &[(1, 1), (2, 2), (7_002, 3)][..]),
            (3, &[(2, 2), (7_002, 3)]),
        ] {
            store.trim_events(Time(0), most, 100).unwrap();
            store.commit().unwrap();
            assert_eq!(told(&reader, 0), left);
        }
    }

    #[test]
    fn damaged_events_are_left_out_and_those_behind_them_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let reader = Reader::new(dir.path());
        let mut store = Writer::open(dir.path()).unwrap();
        for n in 1..=3 {
            store.add_events(Time(5), &[started(n)]).unwrap();
        }
        let host = GridEvent::HostChanged {
            host: HostId(1),
            state: common::view::HostState::Ready,
            why: None,
        };
        store.add_events(Time(5), &[host]).unwrap();
        store
            .change(
                "UPDATE event SET body = $1 WHERE last IN (2, 4)",
                values![[0_u8]],
            )
            .unwrap();
        store.commit().unwrap();
        assert_eq!(told(&reader, 0), [(1, 1), (3, 3)]);
        let end = reader.events(3, 10).unwrap();
        assert_eq!((end.len(), end[0].last(), end[0].events.len()), (1, 4, 0));
    }
}
