//! Predictions of jobs' waits, their ends among them, with the actual waits. They outlive their jobs, so that the accuracy
//! of predictions can be reported. The newest `KEPT` are kept. The prediction itself is made in the
//! scheduler.

use common::view::{AccuracyView, ForetoldView};
use common::{JobId, Span, Time};

use super::db::Db;
use super::reader::Reader;
use super::value::values;
use super::writer::Writer;
use super::{StoreResult, micros, span, time};

/// The number of predictions that are kept. `TOLD` is the most of each kind that are reported.
const KEPT: i64 = 10_000;
const TOLD: i64 = 1_000;

/// Something that a job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Its first start.
    Start,
    /// This number of hosts, to be free together.
    Hosts(u32),
    /// Its end.
    Finish,
}

impl Awaited {
    /// The value of the column `hosts`.
    fn column(self) -> u32 {
        match self {
            Awaited::Start => 0,
            Awaited::Hosts(hosts) => hosts,
            Awaited::Finish => u32::MAX,
        }
    }

    /// Whether a value of the column `hosts` is of the same kind, as a condition.
    fn condition(self) -> &'static str {
        match self {
            Awaited::Start => "hosts = 0",
            Awaited::Hosts(_) => "hosts BETWEEN 1 AND 4294967294",
            Awaited::Finish => "hosts = 4294967295",
        }
    }
}

/// A prediction of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitPrediction {
    /// Its purpose.
    pub(crate) awaited: Awaited,
    /// The time at which it was made.
    pub(crate) at: Time,
    /// The predicted wait, from `at`.
    pub(crate) wait: Span,
    /// The lower end of the interval that contains the actual wait with a probability of 80 %.
    pub(crate) low: Span,
    /// The upper end of that interval.
    pub(crate) high: Span,
}

impl Writer {
    /// Stores a prediction, if it is the job's first one of this kind and number of hosts.
    pub(crate) fn foretell(&mut self, job: JobId, foretold: &WaitPrediction) -> StoreResult<()> {
        let hosts = foretold.awaited.column();
        let at = micros(foretold.at);
        self.change(
            "INSERT INTO foretold (job, hosts, at, wait, low, high) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
            values![job.0, hosts, at, foretold.wait.0, foretold.low.0, foretold.high.0],
        )?;

        let oldest = "DELETE FROM foretold WHERE at < (SELECT at FROM foretold ORDER BY at DESC LIMIT 1 OFFSET $1)";
        self.change(oldest, values![KEPT])
    }

    /// Stores the actual wait of a job's predictions for this, which is there now: for hosts, of
    /// those for up to that number.
    pub(crate) fn came(&mut self, job: JobId, awaited: Awaited, now: Time) -> StoreResult<()> {
        let least = match awaited {
            Awaited::Hosts(_) => 1,
            Awaited::Start | Awaited::Finish => awaited.column(),
        };
        let sql = "UPDATE foretold SET came = CASE WHEN $1 > at THEN $1 - at ELSE 0 END
                   WHERE job = $2 AND came IS NULL AND hosts BETWEEN $3 AND $4";
        self.change(sql, values![micros(now), job.0, least, awaited.column()])
    }

    /// Removes the job's predictions for this that have no actual wait yet: what is awaited now is not
    /// what they were made for.
    pub(crate) fn withdraw(&mut self, job: JobId, awaited: Awaited) -> StoreResult<()> {
        self.change(
            "DELETE FROM foretold WHERE job = $1 AND came IS NULL AND hosts = $2",
            values![job.0, awaited.column()],
        )
    }

    /// Removes the job's predictions that have no actual wait yet and can get none any more.
    pub(crate) fn never_came(&mut self, job: JobId) -> StoreResult<()> {
        self.change(
            "DELETE FROM foretold WHERE job = $1 AND came IS NULL",
            values![job.0],
        )
    }
}

impl Reader {
    /// The predicted and actual waits, to judge the accuracy of predictions, and the number of
    /// predictions that are still open.
    pub(crate) fn accuracy(&self) -> StoreResult<AccuracyView> {
        self.with(|db| {
            let sql = "SELECT count(*) FROM foretold WHERE came IS NULL";
            let open: i64 = db.one_value(sql, &[])?;
            let open = u64::try_from(open).unwrap_or_default();
            Ok(AccuracyView {
                hosts: newest(db, Awaited::Hosts(1))?,
                starts: newest(db, Awaited::Start)?,
                finishes: newest(db, Awaited::Finish)?,
                open,
            })
        })
    }
}

/// The newest `TOLD` predictions of one kind with an actual wait, the oldest of them first.
fn newest(db: &Db, kind: Awaited) -> StoreResult<Vec<ForetoldView>> {
    let condition = kind.condition();
    let sql = format!(
        "SELECT hosts, at, wait, low, high, came FROM foretold WHERE came IS NOT NULL AND {condition}
         ORDER BY at DESC, job DESC, hosts DESC LIMIT $1",
    );
    let mut found: Vec<ForetoldView> = db.all(&sql, values![TOLD], |row| {
        Ok(ForetoldView {
            hosts: match kind {
                Awaited::Hosts(_) => row.get(0)?,
                Awaited::Start | Awaited::Finish => 0,
            },
            at: time(row.get(1)?),
            wait: span(row.get(2)?),
            low: span(row.get(3)?),
            high: span(row.get(4)?),
            came: span(row.get(5)?),
        })
    })?;
    found.reverse();

    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Time {
        Time(Span::from_secs(secs).0)
    }

    fn s(secs: u64) -> Span {
        Span::from_secs(secs)
    }

    #[test]
    fn predictions_are_kept_with_their_outcomes() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Writer::open(dir.path()).unwrap();
        let foretold = |awaited, wait| WaitPrediction {
            awaited,
            at: at(100),
            wait: s(wait),
            low: s(1),
            high: s(90),
        };
        for (awaited, wait) in [
            (Awaited::Start, 30),
            (Awaited::Hosts(4), 20),
            (Awaited::Hosts(8), 60),
            (Awaited::Hosts(8), 70),
            (Awaited::Finish, 80),
        ] {
            store.foretell(JobId(1), &foretold(awaited, wait)).unwrap();
        }

        store
            .foretell(JobId(2), &foretold(Awaited::Start, 5))
            .unwrap();
        store.came(JobId(1), Awaited::Hosts(6), at(125)).unwrap();
        store.came(JobId(1), Awaited::Start, at(126)).unwrap();
        store.came(JobId(1), Awaited::Finish, at(190)).unwrap();
        store.commit().unwrap();

        let reader = Reader::new(dir.path());
        let found = reader.accuracy().unwrap();
        let pairs = |all: &[ForetoldView]| {
            all.iter()
                .map(|f| (f.hosts, f.wait, f.came))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (pairs(&found.hosts), found.open),
            (vec![(4, s(20), s(25))], 2)
        );
        assert_eq!(pairs(&found.starts), [(0, s(30), s(26))]);
        assert_eq!(pairs(&found.finishes), [(0, s(80), s(90))]);
        store.never_came(JobId(1)).unwrap();

        store.never_came(JobId(2)).unwrap();
        store.commit().unwrap();
        assert_eq!(reader.accuracy().unwrap().open, 0);
        assert_eq!(pairs(&reader.accuracy().unwrap().hosts).len(), 1);
    }

    #[test]
    fn a_prediction_that_is_withdrawn_gets_no_outcome() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Writer::open(dir.path()).unwrap();
        for awaited in [Awaited::Start, Awaited::Finish] {
            let foretold = WaitPrediction {
                awaited,
                at: at(100),
                wait: s(30),
                low: s(1),
                high: s(90),
            };
            store.foretell(JobId(1), &foretold).unwrap();
        }

        store.withdraw(JobId(1), Awaited::Finish).unwrap();
        store.came(JobId(1), Awaited::Start, at(126)).unwrap();
        store.came(JobId(1), Awaited::Finish, at(190)).unwrap();
        store.commit().unwrap();
        let found = Reader::new(dir.path()).accuracy().unwrap();
        assert_eq!((found.starts.len(), found.finishes.len()), (1, 0));
        assert_eq!(found.open, 0);
    }
}
