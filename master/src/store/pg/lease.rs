//! The lease by which one master at a time has the store, as any master sees it. When it may be taken is
//! decided in [`crate::duty`], how it is in `takeover`; that nobody else commits afterwards is the fence's
//! doing (`group`).

use std::time::{Duration, Instant};

use common::view::StandbyView;
use common::{Span, Time};
use tokio_postgres::error::SqlState;

use super::super::value::SqlValue;
use super::super::{StoreError, StoreResult, Writer, schema, time};
use super::cells::DbRow;
use super::error::DbError;
use super::group::Group;
use super::session::DbSession;
use super::takeover::Takeover;
use super::{Database, Pg, tables};

/// The time for which the end of another master's connection is waited for.
const ENDS: Duration = Duration::from_secs(10);

/// A master, as other masters know it from `lease` and `member`.
#[derive(Debug, Clone)]
pub(crate) struct MasterMember {
    /// The number of its directory.
    pub(crate) id: String,
    /// The process in words.
    pub(crate) name: String,
    /// The address at which workers and clients reach it.
    pub(crate) address: String,
}

impl MasterMember {
    /// This process, for a directory with this number.
    pub(crate) fn here(id: String, address: String) -> Self {
        Self {
            id,
            name: format!("process {} on {}", std::process::id(), crate::run::node()),
            address,
        }
    }
}

/// The lease at one look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaseSeen {
    /// The fencing token: the incarnation of the master that has the store, or was the last one.
    pub(crate) token: i64,
    /// The number of groups that it has committed.
    pub(crate) turn: i64,
    /// The `MasterMember::id` of it; empty: it has given the store up.
    pub(crate) member: String,
    /// The process in words.
    pub(crate) holder: String,
    /// Its address.
    pub(crate) address: String,
    /// Whether its connection to the database lives.
    connected: bool,
    /// The version of the tables.
    pub(super) layout: i64,
    /// The time at which it took the store, by its own clock.
    pub(crate) taken: Time,
    /// The groups that were committed before it.
    commits: i64,
}

impl LeaseSeen {
    /// Reads the lease ([`tables::LEASE`]).
    pub(super) fn read(session: &DbSession) -> Result<Self, DbError> {
        session
            .rows(tables::LEASE, &[])
            .map(|rows| Self::of(&rows[0]))
    }

    pub(super) fn of(row: &DbRow) -> Self {
        Self {
            token: row.get(0),
            turn: row.get(1),
            member: row.get(2),
            holder: row.get(3),
            address: row.get(4),
            connected: row.get(5),
            layout: row.get(6),
            taken: time(row.get(7)),
            commits: row.get(8),
        }
    }

    /// Whether the store can be had at once: nobody has it, or the one that had it was an earlier run
    /// on the directory with this number, which has ended.
    pub(crate) fn is_left_to(&self, id: &str) -> bool {
        self.member.is_empty() || self.member == id && !self.connected
    }

    /// Whether a master has the store, and its connection lives.
    pub(super) fn is_held(&self) -> bool {
        !self.member.is_empty() && self.connected
    }

    /// A lease of this member, whose connection has ended.
    #[cfg(test)]
    pub(crate) fn of_tests(member: &str, token: i64, turn: i64) -> Self {
        Self {
            token,
            turn,
            member: member.to_owned(),
            holder: String::new(),
            address: String::new(),
            connected: false,
            layout: 1,
            taken: Time(0),
            commits: 0,
        }
    }

    /// Fails if this program does not know the version of the tables.
    fn check_layout(&self) -> StoreResult<()> {
        schema::check_known(usize::try_from(self.layout).unwrap_or(usize::MAX))
    }

    /// The number of groups that were ever committed: `commits` and `turn`.
    pub(crate) fn reached(&self) -> u64 {
        (self.commits + self.turn).unsigned_abs()
    }
}

/// A master that wants the store.
pub(crate) struct LeaseContender {
    place: Database,
    member: MasterMember,
    session: Option<DbSession>,
    /// Whether it was found that no pooler stands between.
    is_direct: bool,
}

impl LeaseContender {
    /// One that has not connected yet.
    pub(crate) fn new(place: &Database, member: MasterMember) -> Self {
        Self {
            place: place.clone(),
            member,
            session: None,
            is_direct: false,
        }
    }

    /// Looks at the row of `lease`; where there is no store yet, the tables are made. Those of a newer program
    /// are an error ([`StoreError::Newer`]): this master could not take them over, and stands by no more.
    pub(crate) fn look(&mut self) -> StoreResult<LeaseSeen> {
        let seen = self.with(|session, place, _| {
            make_tables(session, place)?;
            LeaseSeen::read(session)
        })?;

        if let Err(newer) = seen.check_layout() {
            // An active master that is told to hand over counts on those that are noted.
            let left = self.with(|session, _, member| {
                session.count(tables::STANDS_NOT, &[SqlValue::Text(&member.id)])
            });
            if let Err(error) = left {
                tracing::warn!(%error, "others may go on counting on this master");
            }
            return Err(newer);
        }
        Ok(seen)
    }

    /// Says to the other masters, in the table `member`, that this one stands by.
    pub(crate) fn note(&mut self) -> StoreResult<()> {
        self.with(|session, _, member| {
            let said = [&member.id, &member.name, &member.address];
            session.count(tables::STANDS_BY, &said.map(|text| SqlValue::Text(text)))
        })?;
        Ok(())
    }

    /// Takes the store at `now` from the master that `seen` shows, if that has not committed anything
    /// since. Its tables are upgraded. `None` if it has, or another one was quicker.
    pub(crate) fn take(&mut self, seen: &LeaseSeen, now: Time) -> StoreResult<Option<Writer>> {
        seen.check_layout()?;
        let taken = self.with(|session, _, member| {
            let taken = Takeover::take(session, member, seen, now);
            if taken.is_err() {
                let _ = session.execute("ROLLBACK".to_owned());
            }
            match taken {
                // A stopped process may hold an open group for ever: it will find itself fenced.
                Err(error) if error.is(&SqlState::LOCK_NOT_AVAILABLE) => {
                    tracing::warn!(holder = seen.holder, "its open transaction is ended");
                    session.rows(tables::CUT_OFF, &[SqlValue::Int(seen.token)])?;
                    Ok(None)
                }
                taken => taken,
            }
        });
        let (Some(takeover), Some(session)) = (taken?, self.session.take()) else {
            return Ok(None);
        };

        let pg = Pg::of(
            self.place.clone(),
            Group::of(&self.place, session, takeover, seen.reached()),
        );
        Writer::on(super::super::db::Db::Pg(pg)).map(Some)
    }

    /// Has `take` take the store once nobody has it; `None` if another master still has it after some
    /// seconds, in which the connection of one that has just ended may still be there.
    pub(crate) fn once_left<E: From<StoreError>>(
        &mut self,
        mut take: impl FnMut(&mut Self, &LeaseSeen) -> Result<Option<Writer>, E>,
    ) -> Result<Option<Writer>, E> {
        let since = Instant::now();
        while since.elapsed() < ENDS {
            let seen = self.look()?;
            if seen.is_left_to(&self.member.id)
                && let Some(store) = take(self, &seen)?
            {
                return Ok(Some(store));
            }
            std::thread::sleep(Duration::from_millis(50));
        }

        Ok(None)
    }

    /// Does something over the session, which is made first where there is none, and given up after an
    /// error.
    fn with<T>(
        &mut self,
        act: impl FnOnce(&DbSession, &Database, &MasterMember) -> Result<T, DbError>,
    ) -> StoreResult<T> {
        let session = match self.session.take().filter(DbSession::is_open) {
            Some(session) => session,
            None => DbSession::to_write(&self.place)?,
        };
        if !self.is_direct {
            session.look_for_pooler(&self.place)?;
            self.is_direct = true;
        }

        let done = self
            .place
            .answered(act(&session, &self.place, &self.member))?;
        self.session = Some(session);
        Ok(done)
    }
}

/// Makes the schema and the tables, if they are not there.
fn make_tables(session: &DbSession, place: &Database) -> Result<(), DbError> {
    if session.has_table("lease")? {
        return Ok(());
    }
    let made = session.execute(format!("BEGIN; {} COMMIT", tables::made(place.schema())));
    if made.is_err() {
        session.execute("ROLLBACK".to_owned())?;
        // Another master that starts at the same time may have made them.
        if session.has_table("lease")? {
            return Ok(());
        }
    }
    made
}

/// The masters that stand by, or did so lately, by the rows of [`tables::MEMBERS`].
pub(super) fn standbys(rows: &[DbRow]) -> Vec<StandbyView> {
    let standby = |row: &DbRow| StandbyView {
        name: row.get(0),
        address: row.get(1),
        said: Span::from_secs_f64(f64::from(row.get::<f32>(2))),
    };
    rows.iter().map(standby).collect()
}
