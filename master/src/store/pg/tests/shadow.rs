//! The same changes on both engines: in PostgreSQL by runs over arrays, in SQLite one by one, and then
//! every table is compared. Needs a server (`tests/postgres`), and passes without one.

use std::collections::BTreeSet;

use common::attempt::Spent;
use common::availability::AvailabilityInterval;
use common::checkpoint::Saved;
use common::content::BlobHash;
use common::host::OwnerState;
use common::job::{Rules, Work};
use common::view::{AttemptState, TaskState};
use common::{AttemptId, BlobRef, HostId, IdSet, JobId, JobSpec, RequestId, Span, TaskSet, Time};
use proptest::prelude::*;
use scheduler::effect::Judgement;

use super::super::{Inside, of_tests};
use crate::store::db::Db;
use crate::store::log::FileLogs;
use crate::store::tests::{attempt, completion};
use crate::store::value::values;
use crate::store::{NewAttempt, NewJob, StoreShadow, Writer, transfer};

/// The tasks of each of the two jobs.
const TASKS: u32 = 9;
/// A deed, the attempt that it is done to, and its form.
type Deed = (u8, u32, u32, u32, u8);

/// A change without its group.
fn deed() -> impl Strategy<Value = Deed> {
    (0..17_u8, 1..=2_u32, 1..=TASKS, 1..=2_u32, 0..4_u8)
}

fn add_job(store: &mut Writer, id: u128) -> JobId {
    let tasks = TaskSet {
        ids: IdSet::from_range(1, TASKS),
        items: Vec::new(),
    };
    let spec = JobSpec {
        name: "bag".into(),
        tasks,
        work: Work::Noop,
        rules: Rules::default(),
    };
    let new = NewJob {
        request: RequestId(uuid::Uuid::from_u128(id)),
        body_hash: [0; 32],
        user: "ann",
        spec: &spec,
        content: &spec.content(),
        estimates: &[],
        now: Time(1),
    };
    store.add_job(&new).unwrap()
}

fn state_of(n: u8) -> AttemptState {
    [
        AttemptState::Finished,
        AttemptState::Failed,
        AttemptState::Lost,
        AttemptState::Killed,
    ][usize::from(n % 4)]
}

/// Does it to a store, of which these attempts were started. Returns what the store said.
fn act(store: &mut Writer, (what, job, task, number, n): Deed, started: bool, at: u64) -> String {
    let job = JobId(job);
    let host = HostId(u32::from(n));
    let now = Time(1_000 + at);
    let id = attempt(job, task, number);
    let tasks = IdSet::from_range(task, (task + u32::from(n)).min(TASKS));
    match what {
        0..=3 if !started => store.add_attempt(&NewAttempt {
            attempt: id,
            host,
            duplicate: n == 0,
            now,
            why: "first",
        }),
        0 | 1 => store.attempt_started(id, now),
        2 | 3 => store.attempt_result(&completion(id, n), state_of(n), now),
        4 => store.attempt_ended(id, state_of(n), now, "why"),
        5 => store.attempt_not_charged(id),
        6 => {
            let of = spent(id, n);
            store.attempt_spent(host, &of, now)
        }
        7 => store.judged(id, Judgement::Agreed(u32::from(n))),
        8 => store.settle(job, &tasks, TaskState::Cancelled, "no need"),
        9 => store.reopen(job, &tasks),
        10 => {
            let kept = store.keep_back(&completion(id, n), state_of(n), now, "ann", now);
            return format!("{kept:?}");
        }
        11 => {
            let kept = store.keep_checkpoint(id, &saved(number, n), &[BlobHash([n; 32])]);
            return format!("{kept:?}");
        }
        12 => store.drop_checkpoints(job, &tasks),
        13 => {
            let stretch =
                AvailabilityInterval::of(Time(at), Time(at + 9), OwnerState::Away, f32::from(n));
            store.add_availability(host, &[&stretch]).map(drop)
        }
        14 => store.host_valid(host, task),
        15 => {
            let sql =
                "UPDATE attempt SET cpu = cpu + 1 WHERE job = $1 AND task = $2 AND number = $3";
            return format!("{:?}", store.count(sql, values![job.0, task, number]));
        }
        _ => return format!("{:?}", store.remove_oldest(None, now)),
    }
    .map_or_else(|error| error.to_string(), |()| String::new())
}

fn spent(attempt: AttemptId, n: u8) -> Spent {
    let span = Span(u64::from(n));
    Spent {
        attempt,
        ran: span,
        suspended: Span(1),
        cpu: span,
    }
}

fn saved(number: u32, n: u8) -> Saved {
    Saved {
        number,
        sequence: u32::from(n),
        taken: Time(5),
        files: 1,
        bytes: 9,
        manifest: BlobRef {
            hash: BlobHash([n; 32]),
            size: 40,
        },
    }
}

#[test]
fn a_group_of_many_tasks_is_a_few_statements() {
    let dir = tempfile::tempdir().unwrap();
    let Some(place) = of_tests(dir.path()) else {
        return;
    };
    let mut store = Writer::take(&place).unwrap();
    let statements = |store: &Writer| match store.db() {
        Db::Pg(pg) => match &*pg.inside.borrow() {
            Inside::Writes(group) => group.statements(),
            _ => panic!("it writes"),
        },
        Db::Lite(_) => panic!("it is in a file"),
    };
    add_job(&mut store, 1);
    for task in 1..=500 {
        let start = act(&mut store, (0, 1, task, 1, 0), false, 1);
        assert_eq!(start, "");
    }
    // The job itself, and the attempts.
    assert_eq!(statements(&store), 2);
    store.commit().unwrap();

    for task in 1..=500 {
        act(&mut store, (2, 1, task, 1, 0), true, 2);
        act(&mut store, (7, 1, task, 1, 1), true, 2);
        store.host_valid(HostId(task), 1).unwrap();
    }
    // The results, the content that they need, the verdicts and the hosts.
    assert_eq!(statements(&store), 4);
    store.commit().unwrap();
}

#[test]
fn a_copy_that_differs_is_found_with_the_group_after_which_it_does() {
    let Some((dir, place)) = super::place() else {
        return;
    };
    let url = std::env::var("DESKGRID_TEST_PG").unwrap();
    let shadow = StoreShadow::in_database(&url, place.schema()).unwrap();
    let mut store = Writer::open_beside(dir.path(), &FileLogs).unwrap();
    store.shadowed(shadow.clone());
    let add = "INSERT INTO host (id, name) VALUES ($1, $2)";
    store.change(add, values![1_i64, "one"]).unwrap();
    assert_eq!(store.count(add, values![2_i64, "two"]).unwrap(), 1);
    store.commit().unwrap();
    assert_eq!(shadow.verdict(), Ok(1));

    super::by_hand(&place, "UPDATE host SET name = 'other' WHERE id = 1");
    store.change(add, values![3_i64, "three"]).unwrap();
    store.commit().unwrap();
    let why = shadow.verdict().unwrap_err();
    assert!(
        why.contains("group 2") && why.contains("`host` differs"),
        "{why}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn groups_sent_by_runs_leave_the_same_tables_as_changes_one_by_one(
        groups in prop::collection::vec(prop::collection::vec(deed(), 1..80), 8)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let Some(place) = of_tests(dir.path()) else { return Ok(()) };
        let mut runs = Writer::take(&place).unwrap();
        let mut singles = Writer::open_beside(dir.path(), &FileLogs).unwrap();
        for store in [&mut runs, &mut singles] {
            add_job(store, 1);
            add_job(store, 2);
            for id in 0..4 {
                let sql = "INSERT INTO host (id, name) VALUES ($1, $2)";
                store.change(sql, values![id, format!("h{id}")]).unwrap();
            }
            store.commit().unwrap();
        }

        let mut started = BTreeSet::new();
        let mut at = 0;
        for group in groups {
            for deed in group {
                at += 10;
                let known = started.contains(&(deed.1, deed.2, deed.3));
                let said = act(&mut singles, deed, known, at);
                prop_assert_eq!(act(&mut runs, deed, known, at), said);
                if deed.0 <= 3 {
                    started.insert((deed.1, deed.2, deed.3));
                }
            }
            singles.commit().unwrap();
            runs.commit().unwrap();
            transfer::same(singles.db(), runs.db()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        }
    }
}
