//! Forgets settled jobs, events and expired tokens by age, unless the clock is in doubt. `availability`
//! trims the records of hosts, and `sweep` removes content.

use common::{IdSet, Span};

use super::{Core, note_of};
use crate::store::StoreResult;

/// The seconds of a day.
pub(super) const DAY: u64 = 86_400;
/// The most jobs that one turn forgets, so that other asks do not wait long.
const PORTION: u32 = 100;
/// The rows of forgotten jobs that one turn removes, and the time until the next turn that does.
const ROWS: u32 = 2_000;
const CLEAR_EVERY: Span = Span::from_millis(100);
/// The time for which expired tokens stay in lists.
const TOKENS: Span = Span::from_secs(90 * DAY);

/// The gap since the master was last up from which the clock may be wrong.
const JUMP: Span = Span::from_secs(7 * DAY);
/// The time after a gap of more than `JUMP` during which nothing is forgotten for its age.
const DOUBT: Span = Span::from_secs(DAY);
/// The key in `meta` of the time from which on things are forgotten for their age.
const AGEING_FROM: &str = "ageing from";
/// The actor's name in the audit log.
const WHO: &str = "this machine";

/// The time that a setting in days stands for; `None` for 0.
pub(super) fn kept_for(days: u32) -> Option<Span> {
    let day = Span::from_secs(DAY).0;
    (days > 0).then_some(Span(day.saturating_mul(u64::from(days))))
}

impl Core {
    /// Compares the clock at a start with the time at which the master was last up. A longer gap
    /// than `JUMP` puts the clock in doubt: a machine that was off loses nothing by waiting, but
    /// with a wrong clock things would be forgotten that are not old. The doubt outlasts further
    /// starts, unless an admin says that the clock is right.
    pub(super) fn doubt_clock(&mut self, accepted: bool) -> StoreResult<()> {
        if accepted {
            return self.store.remove_meta(AGEING_FROM);
        }

        let up = self.store.note("up")?.and_then(note_of);
        let jump = up.map_or(Span::ZERO, |up| self.now.since(up));
        if jump > JUMP {
            self.ageing_from = self.now + DOUBT;
            self.store
                .set_meta(AGEING_FROM, &self.ageing_from.0.to_le_bytes())?;
            let why = format!("the clock shows {jump} more than when the master was up last");
            tracing::warn!(
                "{why}: if that is wrong, stop the master and set the clock. For a day nothing is forgotten because it is old; \
                 --accept-clock says that the clock is right"
            );
            return self.audit(WHO, "start", "the clock", Ok(&why));
        }

        let noted = self.store.note(AGEING_FROM)?.and_then(note_of);
        self.ageing_from = noted.unwrap_or_default();
        Ok(())
    }

    /// Whether the clock is trusted to tell the age of things.
    pub(super) fn believes_clock(&self) -> bool {
        self.now >= self.ageing_from
    }

    /// Forgets expired tokens, and a portion of the old events and of the jobs that settled long
    /// ago. Returns whether there may be more.
    pub(super) fn retire(&mut self) -> StoreResult<bool> {
        if !self.believes_clock() {
            return self.trim_events();
        }

        let tokens = self.store.trim_tokens(self.now - TOKENS)?;
        if tokens > 0 {
            let what = format!("{tokens} join tokens");
            self.audit(WHO, "forget", &what, Ok("they expired long ago"))?;
        }

        let events = self.trim_events()?;
        let Some(span) = self.jobs_kept else {
            return Ok(events);
        };
        let old = self.store.settled_before(self.now - span, PORTION)?;
        for job in &old {
            self.forget(*job)?;
        }
        if !old.is_empty() {
            let jobs: IdSet = old.iter().map(|job| job.0).collect();
            tracing::info!(%jobs, "forgotten: they were settled long ago");
            let why = format!("settled more than {span} ago: {jobs}");
            let what = format!("{} jobs", old.len());
            self.audit(WHO, "forget", &what, Ok(&why))?;
        }
        Ok(events || old.len() == PORTION as usize)
    }

    /// Removes a portion of the rows of forgotten jobs if it is time.
    pub(super) fn clear_forgotten(&mut self) -> StoreResult<()> {
        if self.clears.is_none_or(|at| at > self.now) {
            return Ok(());
        }

        let cleared = self.store.clear_forgotten(self.now, ROWS)?;
        self.clears = cleared.more.then(|| self.now + CLEAR_EVERY);
        self.add_to_unused(cleared.unused);
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use common::identity::IdentityState;
    use common::job::{CommandSpec, Rules, Work};
    use common::{HostId, JobSpec, RequestId, TaskSet, Time};
    use link::BlobStore;
    use uuid::Uuid;

    use super::super::ask::UpkeepAsk;
    use super::super::{Around, SafetyRules};
    use super::*;
    use crate::store::{Attendance, NewJob, Reader, RestoredHost, Writer};
    use crate::{Accept, Config};

    const START: Time = Time(1_700_000_000_000_000);

    pub(in crate::core) fn core(dir: &Path, now: Time, accept_clock: bool) -> Core {
        let config = Config {
            job_days: 30,
            accept: Accept {
                store: false,
                clock: accept_clock,
            },
            ..Config::default()
        };
        let (compare, _) = tokio::sync::mpsc::unbounded_channel();
        let around = Around {
            blobs: Box::new(BlobStore::open(&dir.join("content")).unwrap()),
            objects: None,
            room: None,
            compare,
        };
        Core::begin(
            now,
            Writer::open(dir).unwrap(),
            &config,
            around,
            SafetyRules::KEPT,
        )
        .unwrap()
    }

    /// A host of this name of which nothing more is known.
    pub(in crate::core) fn restored(id: HostId, name: &str) -> RestoredHost {
        RestoredHost {
            labels: BTreeSet::new(),
            id,
            name: name.to_owned(),
            facts: None,
            draining: false,
            finished: 0,
            lost: 0,
            heard: None,
            identity: IdentityState::Active,
            owner: None,
            valid: 0,
            attendance: Attendance::Expected,
        }
    }

    /// A stopped master's directory with a job that was settled at `START`.
    fn with_a_settled_job() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Writer::open(dir.path()).unwrap();
        let spec = JobSpec {
            name: "bag".into(),
            tasks: TaskSet {
                ids: IdSet::from_range(1, 1),
                items: Vec::new(),
            },
            work: Work::Command(CommandSpec::new(vec!["true".parse().unwrap()])),
            rules: Rules::default(),
        };
        let new = NewJob {
            request: RequestId(Uuid::nil()),
            body_hash: [0; 32],
            user: "ann",
            spec: &spec,
            content: &spec.content(),
            estimates: &[],
            now: START,
        };
        store.add_job(&new).unwrap();
        store.set_meta("up", &START.0.to_le_bytes()).unwrap();
        store.commit().unwrap();
        drop(store);

        let db = rusqlite::Connection::open(dir.path().join("store.sqlite")).unwrap();
        let ended = i64::try_from(START.0).unwrap();
        db.execute(
            "UPDATE job SET state = 'cancelled', cancelled = 1, ended = ?",
            [ended],
        )
        .unwrap();
        drop(db);
        dir
    }

    fn retired(core: &mut Core) -> usize {
        core.retire().unwrap();
        core.finish_group().unwrap();
        usize::from(core.store.state_of(common::JobId(1)).unwrap().is_none())
    }

    #[test]
    fn a_clock_that_has_jumped_ahead_makes_nothing_old_for_a_day_or_until_an_admin_says_so() {
        let later = START + Span::from_secs(60 * DAY);
        let dir = with_a_settled_job();
        let mut first = core(dir.path(), later, false);
        assert_eq!(retired(&mut first), 0);
        first.note_up().unwrap();
        first.finish_group().unwrap();
        drop(first);

        // The wrong time was noted meanwhile, which must not end the doubt.
        let mut second = core(dir.path(), later + Span::from_secs(60), false);
        assert_eq!(retired(&mut second), 0);
        second.now = later + Span::from_secs(DAY);
        assert_eq!(retired(&mut second), 1);
        drop(second);

        let told = Reader::new(dir.path()).audit(10).unwrap();
        let told: Vec<_> = told.iter().map(|e| (&*e.what, &*e.subject)).collect();
        assert_eq!(told, [("start", "the clock"), ("forget", "1 jobs")]);

        let dir = with_a_settled_job();
        assert_eq!(retired(&mut core(dir.path(), later, false)), 0);
        assert_eq!(
            retired(&mut core(dir.path(), later, true)),
            1,
            "it is right"
        );
    }

    #[test]
    fn a_clock_that_was_set_back_again_leaves_no_doubt_behind() {
        let dir = with_a_settled_job();
        let mut wrong = core(dir.path(), START + Span::from_secs(600 * DAY), false);
        assert!(!wrong.believes_clock());
        wrong.finish_group().unwrap();
        drop(wrong);

        let mut right = core(dir.path(), START + Span::from_secs(DAY), true);
        assert!(right.believes_clock() && retired(&mut right) == 0);
        drop(right);
        let mut right = core(dir.path(), START + Span::from_secs(31 * DAY), true);
        assert_eq!(retired(&mut right), 1, "after its thirty days");
    }

    #[test]
    fn a_large_old_job_is_gone_at_once_and_its_rows_go_turn_by_turn_also_after_a_restart() {
        let dir = with_a_settled_job();
        let db = rusqlite::Connection::open(dir.path().join("store.sqlite")).unwrap();
        let sql = "WITH RECURSIVE task (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM task WHERE number < 5000)
                   INSERT INTO attempt (job, task, number, incarnation, host, state, duplicate, assigned, ended, start_why)
                   SELECT 1, number, 1, 1, 1, 'lost', FALSE, 1, 2, 'first' FROM task";
        assert_eq!(db.execute(sql, []), Ok(5_000));
        let rows = || -> i64 {
            let sql = "SELECT COUNT(*) FROM attempt";
            db.query_row(sql, [], |row| row.get(0)).unwrap()
        };

        let mut now = START + Span::from_secs(60 * DAY);
        let mut core = core(dir.path(), now, true);
        assert_eq!(retired(&mut core), 1);
        let mut left: i64 = rows();
        let mut turns = 0;
        while left > 0 {
            turns += 1;
            if turns == 2 {
                drop(core);
                core = self::core(dir.path(), now, true);
            }
            // Whoever asks meanwhile is answered with the turn.
            now = now + core.patience(now);
            core.look_at_clock(now).unwrap();
            core.handle(UpkeepAsk::Ping).unwrap();
            core.finish_group().unwrap();

            let before = std::mem::replace(&mut left, rows());
            assert!(before - left <= 2_000, "{before} rows, then {left}");
            assert!(turns < 100, "{left} rows are left");
        }
        assert!(turns >= 3);
        assert_eq!(retired(&mut core), 1, "it stays away");
    }
}
