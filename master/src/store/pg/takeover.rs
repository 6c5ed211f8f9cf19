//! The takeover of a store: one transaction that gives the lease another token, so that groups of the master
//! before fail. A replica that takes the place of its primary may lack it; there it is done again.

use common::Time;

use super::super::value::SqlValue;
use super::super::{micros, seconds_of_era};
use super::error::DbError;
use super::lease::{LeaseSeen, MasterMember};
use super::session::DbSession;
use super::tables;

/// A takeover that was committed.
#[derive(Debug)]
pub(super) struct Takeover {
    /// The `token` that the lease got.
    pub(super) token: i64,
    /// The master that has the store since.
    member: MasterMember,
    /// The time, by its clock.
    at: Time,
    /// The `token` before, and the last `turn` of it.
    from: (i64, i64),
}

impl Takeover {
    /// Takes the store at `now` in one transaction, if it is still as `seen`.
    pub(super) fn take(
        session: &DbSession,
        member: &MasterMember,
        seen: &LeaseSeen,
        now: Time,
    ) -> Result<Option<Self>, DbError> {
        let from = (seen.token, seen.turn);
        if !hold(session, from)? {
            return Ok(None);
        }

        // The token is the incarnation, whose own rules count: see `Writer::begin`.
        let last = session.rows("SELECT value FROM meta WHERE key = 'incarnation'", &[])?;
        let last = last.first().map(|row| row.get::<Vec<u8>>(0));
        let last = last.and_then(|bytes| bytes.try_into().ok());
        let last = last.map_or(0, |bytes| i64::from(u32::from_le_bytes(bytes)));
        let takeover = Self {
            token: (seen.token.max(last) + 1).max(seconds_of_era(now).into()),
            member: member.clone(),
            at: now,
            from,
        };
        takeover.commit(session, seen)?;
        Ok(Some(takeover))
    }

    /// Whether the store was taken from just this state of it.
    pub(super) fn is_from(&self, seen: &LeaseSeen) -> bool {
        self.from == (seen.token, seen.turn)
    }

    /// Whether this is the lease of another master, which took the store after this takeover, or instead of it on
    /// a server that lacks it.
    pub(super) fn is_lost_to(&self, seen: &LeaseSeen) -> bool {
        let is_own = seen.token == self.token && seen.member == self.member.id;
        seen.token > self.from.0 && !is_own
    }

    /// Takes the store again, with the same token, on a server that lacks the takeover. Does nothing where it is
    /// not as `seen` any more.
    pub(super) fn again(&self, session: &DbSession, seen: &LeaseSeen) -> Result<(), DbError> {
        if hold(session, (seen.token, seen.turn))? {
            self.commit(session, seen)?;
        }
        Ok(())
    }

    /// Changes the lease in the transaction that [`hold`] has begun, and commits it.
    fn commit(&self, session: &DbSession, seen: &LeaseSeen) -> Result<(), DbError> {
        let (before, turn) = self.from;
        let values = [
            SqlValue::Int(self.token),
            SqlValue::Text(&self.member.id),
            SqlValue::Text(&self.member.name),
            SqlValue::Text(&self.member.address),
            SqlValue::Int(micros(self.at)),
            SqlValue::Int(turn),
            SqlValue::Int(before),
        ];
        session.count(tables::TAKE, &values)?;

        let layout = usize::try_from(seen.layout).unwrap_or(usize::MAX);
        session.execute(tables::upgrade(layout))?;
        session.count(tables::TRIM, &[SqlValue::Int(self.token), SqlValue::Int(0)])?;
        session.count(tables::STANDS_NOT, &[SqlValue::Text(&self.member.id)])?;
        session.execute("COMMIT".to_owned())
    }

    /// One with this `token`, of nobody.
    #[cfg(test)]
    pub(super) fn of_tests(token: i64) -> Self {
        Self {
            token,
            member: MasterMember::here("test".to_owned(), String::new()),
            at: Time(0),
            from: (0, 0),
        }
    }
}

/// Begins a transaction that holds the lease, if it still has this `token` and this last `turn`.
fn hold(session: &DbSession, (token, turn): (i64, i64)) -> Result<bool, DbError> {
    let of = [SqlValue::Int(token)];
    session.execute("BEGIN; SET LOCAL lock_timeout = '1s'".to_owned())?;
    let held = !session.rows(tables::HOLD, &of)?.is_empty();
    let last: i64 = session.rows(tables::LAST_TURN, &of)?[0].get(0);
    let is_same = held && last == turn;
    if !is_same {
        session.execute("ROLLBACK".to_owned())?;
    }
    Ok(is_same)
}
