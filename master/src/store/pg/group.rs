//! The writer's side: changes are kept until they are known to be durable, so that a group whose
//! commit is in doubt can be decided, and sent again. `turn` decides: it has a row for each group
//! that was committed, and the fence lets a group pass only while the lease is this master's. How the
//! lease is taken is in `lease`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use common::{Span, Time};
use tokio_postgres::error::SqlState;

use super::super::StoreResult;
use super::super::value::SqlValue;
use super::cells::{DbRow, KeptValue};
use super::error::DbError;
use super::lease::LeaseSeen;
use super::recent::RecentGroups;
use super::runs::{KeptChange, KeptText, runs};
use super::session::{DbSession, Ready, refused};
use super::takeover::Takeover;
use super::{Database, PgError, tables};
use crate::laws::SafetyRules;
use crate::numbers;

/// The time for which a database that does not answer is asked again: longer than another server
/// needs to take its place.
const PATIENCE: Span = Span::from_secs(300);
/// The time after its last commit from which a master makes sure, with an empty turn, that the store
/// is still its own: that is how others see that it lives, and before that it tells nobody anything.
/// A little below the second in which the core looks at its clock anyway.
const SURE_FOR: Span = Span::from_millis(900);
/// The time after which a group is sent again for which the server had no room.
const ROOM_AGAIN: Duration = Duration::from_secs(1);
/// The number of turns after which old ones are removed.
const TRIM_EVERY: i64 = 1_000;

/// The number of changes of one kind from which one statement over arrays is sent for them: it is
/// planned each time, for the rows that it has and the size that the table has by then.
const MANY: usize = 4;
const BEGIN: &str = "BEGIN";
/// For a transaction with statements over arrays. Each row is looked up by its key: without statistics the server
/// would rather read a table of 100,000 rows for 1,000 of them.
const FOR_MANY: &str =
    "SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_seqscan = off;
    SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off";

/// The changes since the last commit, and the connection that they go to.
pub(super) struct Group {
    session: DbSession,
    /// How the store became this master's. Its token is that of the lease for as long.
    takeover: Takeover,
    /// The number of groups that were committed before that.
    before: u64,
    /// The last turn that was committed.
    turn: i64,
    /// The groups that were committed before it.
    recent: RecentGroups,
    changes: Vec<KeptChange>,
    /// The number of changes that the open transaction has.
    sent: usize,
    /// Whether a transaction is open.
    begun: bool,
    /// The time at which the last group that was committed was sent, on a clock that counts the sleep of the
    /// machine.
    sure_at: Time,
    laws: SafetyRules,
    /// The texts of statements, each once.
    texts: HashMap<Arc<str>, Arc<KeptText>>,
}

/// The outcome of a group whose connection was lost.
enum Decided {
    Committed,
    Lost,
    /// It is lost, and so are all groups after this turn, which were committed once.
    WentBack(i64),
    /// All groups are lost, and so is the takeover.
    NotTaken,
}

impl Group {
    /// The group of a master that has just taken the lease, over this session, after so many groups of
    /// others.
    pub(super) fn of(
        place: &Database,
        session: DbSession,
        takeover: Takeover,
        before: u64,
    ) -> Self {
        Self {
            session,
            takeover,
            before,
            turn: 0,
            recent: RecentGroups::default(),
            changes: Vec::new(),
            sent: 0,
            begun: false,
            sure_at: place.since_boot(),
            laws: place.laws(),
            texts: HashMap::new(),
        }
    }

    /// The token of the lease.
    pub(super) fn token(&self) -> i64 {
        self.takeover.token
    }

    /// The number of groups that were ever committed.
    pub(super) fn reached(&self) -> u64 {
        self.before + self.turn.unsigned_abs()
    }

    /// Counts further groups on from so many.
    pub(super) fn counts_on_from(&mut self, commits: u64) {
        self.before = self.before.max(commits);
        let before = i64::try_from(self.before).unwrap_or(i64::MAX);
        self.note(tables::COUNTS_ON, &[SqlValue::Int(before)]);
    }

    /// Makes sure that the lease is still this master's, if that was long ago: with a turn that has no
    /// changes. Returns whether there was one.
    pub(super) fn be_sure(&mut self, place: &Database) -> StoreResult<bool> {
        let due = place.since_boot().since(self.sure_at) >= SURE_FOR;
        let due = due && self.changes.is_empty() && !self.begun && self.laws.sure_before_telling;
        if due {
            self.commit(place)?;
        }
        Ok(due)
    }

    /// Sends what was not sent yet, so that from here to the commit nobody else can take the lease.
    pub(super) fn hold(&mut self, place: &Database) -> StoreResult<()> {
        self.send(place, false).map(drop)
    }

    /// Gives the lease up, after the last commit. Where another transaction has it for long, a master takes it or
    /// has taken it, and nothing is left to give up.
    pub(super) fn resign(&mut self) -> StoreResult<()> {
        let token = [SqlValue::Int(self.token())];
        match self.session.count(tables::RESIGN, &token) {
            Err(error) if !error.is(&SqlState::LOCK_NOT_AVAILABLE) => Err(refused(&error).into()),
            _ => Ok(()),
        }
    }

    /// Gives the schema this name, and the lease up, in one group: while this master has the lease nobody else
    /// takes the store, and afterwards there is none.
    pub(super) fn put_aside(&mut self, place: &Database, name: &str) -> StoreResult<()> {
        self.hold(place)?;
        let token = [SqlValue::Int(self.token())];
        let rename = format!(
            "ALTER SCHEMA \"{}\" RENAME TO \"{name}\"; COMMIT",
            place.schema()
        );
        let resigned = self.session.count(tables::RESIGN, &token);
        let renamed = resigned.and_then(|_| self.session.execute(rename));
        Ok(place.answered(renamed)?)
    }

    /// Notes a change for the next commit.
    pub(super) fn note(&mut self, sql: &str, values: &[SqlValue<'_>]) {
        self.keep(sql, values, false);
    }

    fn keep(&mut self, sql: &str, values: &[SqlValue<'_>], counted: bool) {
        let text = match self.texts.get(sql) {
            Some(known) => known.clone(),
            None => {
                let text = Arc::new(KeptText::new(sql));
                self.texts.insert(text.sql.clone(), text.clone());
                text
            }
        };

        let values = values.iter().map(KeptValue::from).collect();
        self.changes.push(KeptChange {
            text,
            values,
            counted,
        });
    }

    /// Makes a change, and waits for the number of rows that it changed.
    pub(super) fn count(
        &mut self,
        place: &Database,
        sql: &str,
        values: &[SqlValue<'_>],
    ) -> StoreResult<usize> {
        self.keep(sql, values, true);
        metrics::counter!(numbers::QUESTIONS).increment(1);
        let counts = self.send(place, false)?;
        Ok(counts.last().copied().unwrap_or(0) as usize)
    }

    /// The rows of the answer, as of all changes so far.
    pub(super) fn rows(
        &mut self,
        place: &Database,
        sql: &str,
        values: &[SqlValue<'_>],
    ) -> StoreResult<Vec<DbRow>> {
        // A long restore is a sign of life, too.
        self.be_sure(place)?;
        metrics::counter!(numbers::QUESTIONS).increment(1);
        let held = self.begun;
        loop {
            // Also after the connection was lost nobody else can take what was held.
            if self.sent < self.changes.len() || (held && !self.begun) {
                self.send(place, false)?;
            }

            match self.session.rows(sql, values) {
                Ok(rows) => return Ok(rows),
                Err(error) if error.passes() => {
                    self.decide(place, &error)?;
                }
                Err(error) => return Err(refused(&error).into()),
            }
        }
    }

    /// Makes all changes durable.
    pub(super) fn commit(&mut self, place: &Database) -> StoreResult<()> {
        if (self.turn + 1) % TRIM_EVERY == 0 {
            self.note(
                tables::TRIM,
                &[SqlValue::Int(self.token()), SqlValue::Int(self.turn)],
            );
        }
        self.send(place, true)?;
        if self.laws.silent_after_lease {
            self.in_time(place)?;
        }
        Ok(())
    }

    /// Commits turns without changes until an answer comes within the lease: this process, or the database, may have
    /// stood still meanwhile, so that another master has taken over.
    fn in_time(&mut self, place: &Database) -> StoreResult<()> {
        let begun = place.since_boot();
        loop {
            let took = place.since_boot().since(self.sure_at);
            if took < place.silent_after() {
                return Ok(());
            }
            if place.since_boot().since(begun) > PATIENCE {
                return Err(PgError::TooSlow(took).into());
            }
            tracing::warn!(
                %took,
                "the answer to a commit came after the lease may have been over: nobody is told anything before one comes in time"
            );
            self.send(place, true)?;
        }
    }

    /// Sends what was not sent yet, with the commit if wanted, until it has arrived. Returns the
    /// numbers of rows that the changes of the last flight changed.
    fn send(&mut self, place: &Database, commit: bool) -> StoreResult<Vec<u64>> {
        loop {
            let sent_at = place.since_boot();
            let error = match self.fly(commit) {
                Ok(counts) => {
                    self.begun = true;
                    self.sent = self.changes.len();
                    if commit {
                        self.end(place);
                        self.sure_at = sent_at;
                    }
                    return Ok(counts);
                }
                Err(error) => error,
            };

            if !came(&error) && !error.passes() {
                return Err(self.refused(&error).into());
            }
            if let Decided::Committed = self.decide(place, &error)? {
                self.end(place);
                if !self.laws.barrier_before_telling {
                    return Ok(Vec::new());
                }
                // What is seen there need not be on the server's replica yet; what is committed after it says so.
                return self.send(place, true);
            }
            if lacks_room(&error) {
                self.wait_for_room(place)?;
            }
        }
    }

    fn end(&mut self, place: &Database) {
        let changes = std::mem::take(&mut self.changes);
        self.note_turn(place, changes);
        self.sent = 0;
        self.begun = false;
    }

    /// Counts a turn that was committed with these changes.
    fn note_turn(&mut self, place: &Database, changes: Vec<KeptChange>) {
        self.turn += 1;
        self.recent.keep(self.turn, changes, place.since_boot());
        place.has_reached(self.token(), self.turn);
    }

    /// Waits a moment, and commits a turn without changes, for which there may be room: otherwise others
    /// would take this master for dead.
    fn wait_for_room(&mut self, place: &Database) -> StoreResult<()> {
        place.sleep(ROOM_AGAIN);
        let committed = match self.fly_with(Some(self.turn + 1), &[], true) {
            Ok(_) => true,
            Err(error) if error.passes() => {
                matches!(self.decide(place, &error)?, Decided::Committed)
            }
            Err(error) => return Err(self.refused(&error).into()),
        };
        if committed {
            self.note_turn(place, Vec::new());
        }
        Ok(())
    }

    /// Sends what was not sent yet, with the commit if wanted. Returns the numbers of changed rows, of
    /// a change that is counted at its place.
    pub(super) fn fly(&self, commit: bool) -> Result<Vec<u64>, DbError> {
        let begins = (!self.begun).then_some(self.turn + 1);
        self.fly_with(begins, &self.changes[self.sent..], commit)
    }

    /// Sends these changes, as the first ones of this turn if there is one, with the commit if wanted.
    fn fly_with(
        &self,
        begins: Option<i64>,
        changes: &[KeptChange],
        commit: bool,
    ) -> Result<Vec<u64>, DbError> {
        let mut statements: Vec<Ready> = Vec::new();
        if let Some(turn) = begins {
            let fence: Arc<str> = Arc::from(tables::FENCE);
            let insert: Arc<str> = Arc::from(tables::TURN);
            let token = KeptValue::Int(self.token());
            let turn = KeptValue::Int(turn);
            if self.laws.fence_by_lease {
                statements.push(self.session.ready(&fence, [token.clone()].into_iter())?);
            }
            statements.push(self.session.ready(&insert, [token, turn].into_iter())?);
        }

        let mut has_many = false;
        for run in runs(changes) {
            let run: Vec<&KeptChange> = run.into_iter().map(|at| &changes[at]).collect();
            has_many |= self.prepare_run(&run, &mut statements)?;
        }

        metrics::counter!(numbers::STATEMENTS).increment(statements.len() as u64);
        let before = match (begins, has_many) {
            (Some(_), false) => Some(BEGIN.to_owned()),
            (Some(_), true) => Some(format!("{BEGIN}; {FOR_MANY}")),
            (None, true) => Some(FOR_MANY.to_owned()),
            (None, false) => None,
        };
        self.session
            .fly(before, statements, commit.then_some("COMMIT"))
    }

    /// The number of statements that the changes since the last flight take.
    #[cfg(test)]
    pub(super) fn statements(&self) -> usize {
        let runs = runs(&self.changes[self.sent..]);
        let statements = |run: &Vec<usize>| if run.len() < MANY { run.len() } else { 1 };
        runs.iter().map(statements).sum()
    }

    /// Adds the statements for changes that are sent together. Returns whether it is one for all.
    fn prepare_run(&self, run: &[&KeptChange], to: &mut Vec<Ready>) -> Result<bool, DbError> {
        if let [first, ..] = run
            && run.len() >= MANY
            && let Some(row) = &first.text.row
            && let Some(one_for_all) = self.session.ready_for_many(row, run)?
        {
            to.push(one_for_all);
            return Ok(true);
        }

        for change in run {
            to.push(
                self.session
                    .ready(&change.text.sql, change.values.iter().cloned())?,
            );
        }
        Ok(false)
    }

    /// Connects again, and finds out what became of the open group. Nothing of it was told to
    /// anybody yet.
    fn decide(&mut self, place: &Database, error: &DbError) -> StoreResult<Decided> {
        let why = match lacks_room(error) {
            true => "PostgreSQL has no room for the changes; they are sent until it has",
            false => "the connection to PostgreSQL broke; it is made anew",
        };
        tracing::warn!(error = error.words(), "{why}");
        let begun = place.since_boot();
        let mut pause = Duration::from_millis(50);
        loop {
            let again = DbSession::to_write(place).and_then(|session| {
                let look = || {
                    let lease = LeaseSeen::read(&session)?;
                    if self.laws.barrier_before_telling {
                        session.rows(tables::MOVE, &[SqlValue::Int(self.token())])?;
                    }
                    Ok::<_, DbError>(lease)
                };
                let lease = look().map_err(|error| place.away(&error))?;
                Ok((session, lease))
            });

            match again {
                Ok((session, lease)) => {
                    self.session = session;
                    self.begun = false;
                    self.sent = 0;
                    match self.judge(&lease)? {
                        // What has become of that is looked at next.
                        Decided::NotTaken => self.take_again(&lease)?,
                        Decided::WentBack(to) if !self.write_again(to)? => {}
                        Decided::WentBack(_) => return Ok(Decided::Lost),
                        decided => return Ok(decided),
                    }
                    // It answers, and still does not take what it lacks.
                    if place.since_boot().since(begun) > PATIENCE {
                        return Err(PgError::Refused(error.words().to_owned()).into());
                    }
                }
                Err(error) if place.since_boot().since(begun) > PATIENCE => {
                    return Err(error.into());
                }
                Err(error) => tracing::warn!(%error, "the store waits for its database"),
            }
            place.sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Writes the groups after turn `to` again. Returns whether that was done: if not, the connection
    /// broke once more, and how far it came is to be looked up.
    fn write_again(&self, to: i64) -> StoreResult<bool> {
        let behind = self.turn.abs_diff(to);
        if !self.laws.lost_groups_again {
            return Ok(true);
        }
        let Some(groups) = self.recent.after(to) else {
            return Err(PgError::WentBack(behind).into());
        };

        tracing::warn!(
            groups = behind,
            "the database lacks the last groups of changes, which it had confirmed: a replica that was behind took over"
        );
        for group in groups {
            match self.fly_with(Some(group.turn), &group.changes, true) {
                Ok(_) => metrics::counter!(numbers::WRITTEN_AGAIN).increment(1),
                Err(error) if came(&error) || error.passes() => return Ok(false),
                Err(error) => return Err(self.refused(&error).into()),
            }
        }
        tracing::warn!(
            groups = behind,
            "what the database lacked was written again: nothing is lost"
        );
        Ok(true)
    }

    /// The error of a group that does not pass with time: the fence has refused it, or the server.
    fn refused(&self, error: &DbError) -> PgError {
        if !error.is(&SqlState::DIVISION_BY_ZERO) {
            return refused(error);
        }
        let holder = LeaseSeen::read(&self.session).map(|lease| lease.holder);
        PgError::TakenOver(holder.unwrap_or_default())
    }

    fn judge(&self, lease: &LeaseSeen) -> StoreResult<Decided> {
        if self.takeover.is_lost_to(lease) {
            return Err(PgError::TakenOver(lease.holder.clone()).into());
        }

        if lease.token < self.token() {
            // What the master before has committed is not here, nor is what it may commit now.
            let has_all = self.turn == 0 || self.recent.after(0).is_some();
            return match self.takeover.is_from(lease) && has_all {
                true => Ok(Decided::NotTaken),
                false => Err(PgError::WentBack(self.lacking(lease)).into()),
            };
        }

        match lease.turn - self.turn {
            0 => Ok(Decided::Lost),
            1 => Ok(Decided::Committed),
            _ => Ok(Decided::WentBack(lease.turn)),
        }
    }

    /// The number of groups that a server lacks which lacks the takeover, too: all since, and what was there before.
    fn lacking(&self, lease: &LeaseSeen) -> u64 {
        self.reached() - lease.reached().min(self.before)
    }

    /// Takes the store again from the state that it was taken from: a replica that lacked the takeover, and all since,
    /// took the place of the server that had it. Another master there may be quicker.
    fn take_again(&self, lease: &LeaseSeen) -> StoreResult<()> {
        tracing::warn!(
            "the database lacks the takeover by which this master has the store: a replica that was behind took over. It is done again"
        );
        match self.takeover.again(&self.session, lease) {
            Err(error) if !error.passes() => Err(self.refused(&error).into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Forgets what could be written again, as after a long time.
    #[cfg(test)]
    pub(super) fn forget_recent(&mut self) {
        self.recent.forget();
    }
}

/// Whether a turn is there already: the commit that was in doubt has arrived meanwhile.
fn came(error: &DbError) -> bool {
    error.constraint() == Some("turn_pkey")
}

/// Whether the server lacks what time may bring: room on its disk, memory, connections.
fn lacks_room(error: &DbError) -> bool {
    error.code().is_some_and(|code| code.starts_with("53"))
}
