//! Tests of the store by itself: committed changes are there after reopening, and a store that
//! cannot be opened gives the reason.

use std::sync::Arc;

use common::attempt::{Outcome, OutputFile, Stream};
use common::availability::AvailabilityInterval;
use common::checkpoint::Saved;
use common::content::BlobHash;
use common::host::{OwnerState, YieldReason};
use common::job::{CommandSpec, Rules, Work};
use common::manifest::{ListedFile, Manifest};
use common::view::{AttemptState, TaskState};
use common::{
    AttemptId, BlobRef, Completion, Content, HostId, IdSet, Incarnation, JobId, JobSpec, Ranks,
    RequestId, Span, TaskId, TaskSet, Time,
};
use link::BlobStore;

use super::uploads::LEAST_COUNTED;
use super::{NewAddition, NewAttempt, NewJob, Promised, Reader, StoreError, Writer};

pub(super) fn open(dir: &tempfile::TempDir) -> Writer {
    Writer::open(dir.path()).unwrap()
}

pub(crate) fn spec(tasks: u32) -> JobSpec {
    let tasks = TaskSet {
        ids: IdSet::from_range(1, tasks),
        items: Vec::new(),
    };
    JobSpec {
        name: "bag".into(),
        tasks,
        work: Work::Noop,
        rules: Rules::default(),
    }
}

pub(super) fn add_job(store: &mut Writer, id: u128, spec: &JobSpec) -> JobId {
    add_job_of(store, id, spec, "ann")
}

fn add_job_of(store: &mut Writer, id: u128, spec: &JobSpec, user: &str) -> JobId {
    add_job_with(store, id, (spec, &spec.content()), user)
}

/// A job of `user` that needs this content, whatever its spec says.
pub(crate) fn add_job_with(
    store: &mut Writer,
    id: u128,
    (spec, content): (&JobSpec, &[BlobRef]),
    user: &str,
) -> JobId {
    let request = RequestId(uuid::Uuid::from_u128(id));
    store
        .add_job(&NewJob {
            request,
            body_hash: [0; 32],
            user,
            spec,
            content,
            estimates: &[],
            now: Time(1),
        })
        .unwrap()
}

/// The `n`-th of many files, of this size.
pub(super) fn file(n: u32, size: u64) -> BlobRef {
    BlobRef {
        hash: BlobHash(*blake3::hash(&n.to_le_bytes()).as_bytes()),
        size,
    }
}

pub(crate) fn attempt(job: JobId, index: u32, number: u32) -> AttemptId {
    AttemptId {
        task: TaskId::new(job, index),
        number,
        incarnation: Incarnation(1),
    }
}

#[test]
fn a_spec_in_use_is_in_memory_once_until_tasks_are_added() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Writer::open(dir.path()).unwrap();
    let job = add_job(&mut store, 1, &spec(3));
    store.commit().unwrap();

    let reader = Reader::new(dir.path());
    let read = || reader.clone().spec(job).unwrap().unwrap();
    let first = read();
    assert!(Arc::ptr_eq(&first, &read()));

    let tasks = TaskSet {
        ids: IdSet::from_range(4, 5),
        items: Vec::new(),
    };
    let addition = NewAddition {
        request: RequestId(uuid::Uuid::from_u128(2)),
        body_hash: [0; 32],
        user: "ann",
        job,
        tasks: &tasks,
        now: Time(2),
    };
    store.add_tasks(&addition).unwrap();
    store.commit().unwrap();
    assert_eq!(read().tasks.ids, IdSet::from_range(1, 5));
    assert_eq!(first.tasks.ids, IdSet::from_range(1, 3));
    assert_eq!(reader.spec(JobId(job.0 + 1)).unwrap(), None);
}

pub(crate) fn start(store: &mut Writer, attempt: AttemptId) {
    store
        .add_attempt(&NewAttempt {
            attempt,
            host: HostId(1),
            duplicate: false,
            now: Time(2),
            why: "first",
        })
        .unwrap();
}

/// A state of attempt 1 with one file, at the master, and that file.
pub(crate) fn state(files: &BlobStore, sequence: u32) -> (Saved, BlobRef) {
    let file = files.add_reader(&sequence.to_le_bytes()[..]).unwrap();
    let listed = vec![ListedFile::new("step".parse().unwrap(), file)];
    let list = Manifest::from(listed).to_bytes().unwrap();
    let saved = Saved {
        number: 1,
        sequence,
        taken: Time(u64::from(sequence)),
        files: 1,
        bytes: file.size,
        manifest: files.add_reader(&list[..]).unwrap(),
    };
    (saved, file)
}

pub(crate) fn completion(attempt: AttemptId, hash: u8) -> Completion {
    let blob = BlobRef {
        hash: BlobHash([hash; 32]),
        size: 9,
    };
    Completion {
        attempt,
        outcome: Outcome::Succeeded,
        ran: Span(5),
        suspended: Span(1),
        cpu: Span(4),
        stdout: Stream {
            content: Content::Inline(b"hi".to_vec()),
            dropped: 3,
        },
        stderr: Stream::default(),
        outputs: vec![OutputFile {
            path: "out".parse().unwrap(),
            blob,
            executable: false,
        }],
        warnings: Vec::new(),
        confined: None,
    }
}

fn stretch(start: u64, end: u64, cpu: f32) -> AvailabilityInterval {
    AvailabilityInterval::of(Time(start), Time(end), OwnerState::Away, cpu)
}

/// The recorded intervals of the host: start, end and part of the processor.
fn recorded(dir: &tempfile::TempDir, since: u64, until: u64) -> Vec<(u64, u64, f32)> {
    let found = Reader::new(dir.path())
        .availability(HostId(1), Time(since), Time(until), 100)
        .unwrap()
        .1;
    found
        .into_iter()
        .map(|s| (s.start.0, s.end.0, s.cpu))
        .collect()
}

#[test]
fn a_doubled_recording_is_stored_once_without_overlap() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    let first = stretch(10, 20, 0.5);
    let second = stretch(20, 40, 0.9);

    for _ in 0..2 {
        store
            .add_availability(HostId(1), &[&first, &second])
            .unwrap();
    }

    store
        .add_availability(
            HostId(1),
            &[
                &stretch(30, 60, 0.25),
                &stretch(5, 8, 1.0),
                &stretch(80, 90, 0.25),
            ],
        )
        .unwrap();

    store
        .add_availability(HostId(2), &[&stretch(0, 5, 1.0)])
        .unwrap();
    store.commit().unwrap();
    assert_eq!(
        recorded(&dir, 0, 100),
        [(10, 20, 0.5), (20, 40, 0.9), (40, 60, 0.25), (80, 90, 0.25)]
    );
    assert_eq!(
        recorded(&dir, 15, 45),
        [(15, 20, 0.5), (20, 40, 0.9), (40, 45, 0.25)]
    );
    assert_eq!(recorded(&dir, 60, 80), []);

    let found = Reader::new(dir.path())
        .availability(HostId(1), Time(70), Time(100), 100)
        .unwrap();
    assert_eq!(
        found.0,
        Some(Time(10)),
        "known since before what was asked for"
    );
}

#[test]
fn neighbours_that_are_alike_are_one_row_and_old_rows_go() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    for start in 0..50 {
        store
            .add_availability(HostId(1), &[&stretch(start * 10, start * 10 + 10, 1.0)])
            .unwrap();
    }

    let busy = AvailabilityInterval::of(
        Time(500),
        Time(510),
        OwnerState::Present(YieldReason::Busy),
        1.0,
    );
    store
        .add_availability(HostId(1), &[&busy, &stretch(520, 530, 1.0)])
        .unwrap();
    store.commit().unwrap();
    assert_eq!(
        recorded(&dir, 0, 1_000),
        [(0, 500, 1.0), (500, 510, 0.0), (520, 530, 1.0)]
    );

    let why = Reader::new(dir.path())
        .availability(HostId(1), Time(0), Time(1_000), 100)
        .unwrap()
        .1
        .remove(1);
    assert_eq!(why, busy);
    store
        .trim_availability(HostId(1), Time(500), None, 100)
        .unwrap();
    store.commit().unwrap();
    let left = [(500, 510, 0.0), (520, 530, 1.0)];
    assert_eq!(recorded(&dir, 0, 1_000), left);
    // One that has not ended by then stays whole.
    store
        .trim_availability(HostId(1), Time(505), None, 100)
        .unwrap();
    store.commit().unwrap();
    assert_eq!(recorded(&dir, 0, 1_000), left);
    store
        .trim_availability(HostId(1), Time(0), Some(1), 100)
        .unwrap();

    store.commit().unwrap();
    assert_eq!(recorded(&dir, 0, 1_000), [(520, 530, 1.0)]);
    store
        .trim_availability(HostId(1), Time(0), Some(1), 100)
        .unwrap();
    assert!(!store.commit().unwrap(), "nothing to do is no change");
}

#[test]
fn recorded_intervals_that_are_old_or_too_many_go_in_portions() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    let apart: Vec<_> = (0..7).map(|n| stretch(n * 10, n * 10 + 5, 1.0)).collect();
    let apart: Vec<_> = apart.iter().collect();
    assert_eq!(store.add_availability(HostId(1), &apart).unwrap(), 7);
    let mut left = |oldest, most| {
        let trimmed = store.trim_availability(HostId(1), Time(oldest), most, 2);
        let more = trimmed.unwrap();
        let rows = store.recorded(HostId(1), Time(0), 100).unwrap();
        (more, rows.len(), rows[0].start)
    };

    assert_eq!(left(25, None), (true, 5, Time(20)));
    assert_eq!(left(25, None), (false, 4, Time(30)));
    assert_eq!(left(25, None), (false, 4, Time(30)));
    assert_eq!(left(0, Some(1)), (true, 2, Time(50)));
    assert_eq!(left(0, Some(1)), (false, 1, Time(60)));
}

#[test]
fn a_reopened_store_gives_back_how_far_a_job_was() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    let job = add_job(&mut store, 1, &spec(6));
    for index in 1..=4 {
        start(&mut store, attempt(job, index, 1));
    }

    let finished = AttemptState::Finished;
    store
        .attempt_result(&completion(attempt(job, 1, 1), 7), finished, Time(9))
        .unwrap();
    store
        .attempt_ended(
            attempt(job, 2, 1),
            AttemptState::Failed,
            Time(9),
            "ended with exit code 1",
        )
        .unwrap();

    store.attempt_started(attempt(job, 3, 1), Time(3)).unwrap();
    store
        .attempt_ended(attempt(job, 3, 1), AttemptState::Lost, Time(9), "lost")
        .unwrap();
    store
        .settle(
            job,
            &IdSet::from_range(5, 6),
            TaskState::Cancelled,
            "asked for",
        )
        .unwrap();

    assert!(store.commit().unwrap() && !store.commit().unwrap());
    drop(store);

    let restored = open(&dir).restore_jobs().unwrap().remove(0);
    assert_eq!((restored.view.job, restored.spec), (job, spec(6)));

    let progress = restored.progress;
    assert_eq!(
        (
            progress.finished.to_string(),
            progress.cancelled.to_string()
        ),
        ("1".into(), "5-6".into())
    );

    let tried: Vec<_> = progress
        .tried
        .iter()
        .map(|t| (t.task, t.failures, t.losses, t.live.len()))
        .collect();
    assert_eq!(tried, [(2, 1, 0, 0), (3, 0, 1, 0), (4, 0, 0, 1)]);

    let mut rows = Vec::new();
    Reader::new(dir.path())
        .attempts(job, (1, 1), |row| rows.push(row))
        .unwrap();
    assert_eq!(rows[0].view.started, Some(Time(3)));
    assert_eq!(
        rows[0]
            .result
            .as_ref()
            .unwrap()
            .as_ref()
            .unwrap()
            .stdout
            .dropped,
        3
    );
}

#[test]
fn a_job_of_more_attempts_than_one_question_reads_comes_back_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    // A question reads ten thousand: the first ends between the two attempts of a task.
    let tasks = 5_002;
    let job = add_job(&mut store, 1, &spec(tasks));
    start(&mut store, attempt(job, 1, 1));
    for index in 2..=tasks {
        start(&mut store, attempt(job, index, 1));
        start(&mut store, attempt(job, index, 2));
    }
    store.commit().unwrap();

    let progress = store.restore_job(job).unwrap().unwrap().progress;
    assert_eq!(progress.attempts, 10_003);
    let live: Vec<_> = progress
        .tried
        .iter()
        .map(|tried| (tried.task, tried.live.len()))
        .collect();
    let twice = (2..=tasks).map(|task| (task, 2));
    assert_eq!(live, [(1, 1)].into_iter().chain(twice).collect::<Vec<_>>());
}

#[test]
fn an_uncommitted_change_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    let kept = add_job(&mut store, 1, &spec(1));
    store.commit().unwrap();
    add_job(&mut store, 2, &spec(1));
    drop(store);
    assert_eq!(
        Reader::new(dir.path()).job_ids(None, true).unwrap(),
        IdSet::from_range(kept.0, kept.0)
    );
}

#[test]
fn a_user_finds_only_own_and_shared_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    for (id, user) in [(1, "ann"), (2, "bob"), (3, "bob"), (4, "eve")] {
        add_job_of(&mut store, id, &spec(1), user);
    }

    store.share(JobId(3), "ann", true).unwrap();
    store.commit().unwrap();

    let found = |of: Option<&str>, shared| {
        let reader = Reader::new(dir.path());
        let all = reader.job_ids(of, shared).unwrap();
        // Restricted to given numbers, the same jobs are found, and no other.
        let named: IdSet = [1, 3, 4, 900].into_iter().collect();
        assert_eq!(
            reader.job_ids_of(&named, of, shared).unwrap(),
            all.intersection(&named)
        );
        all.to_string()
    };
    assert_eq!(found(None, false), "1-4");

    let of = |user| (found(Some(user), false), found(Some(user), true));
    assert_eq!(of("ann"), ("1".to_owned(), "1,3".to_owned()));
    assert_eq!(of("bob"), ("2-3".to_owned(), "2-3".to_owned()));
    assert_eq!(of("nobody"), (String::new(), String::new()));
    assert_eq!(
        Reader::new(dir.path())
            .shared_with("ann")
            .unwrap()
            .to_string(),
        "3"
    );
}

#[test]
fn reopened_tasks_are_open_again_and_their_failures_forgiven() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    let job = add_job(&mut store, 1, &spec(9));
    start(&mut store, attempt(job, 4, 1));
    store
        .attempt_ended(
            attempt(job, 4, 1),
            AttemptState::Failed,
            Time(9),
            "ended with exit code 1",
        )
        .unwrap();

    store
        .settle(job, &IdSet::from_range(2, 7), TaskState::Failed, "why")
        .unwrap();
    store.reopen(job, &IdSet::from_range(4, 5)).unwrap();

    let progress = store.restore_job(job).unwrap().unwrap().progress;
    assert_eq!(progress.failed.to_string(), "2-3,6-7");
    assert_eq!(
        (
            progress.tried[0].task,
            progress.tried[0].attempts,
            progress.tried[0].failures
        ),
        (4, 1, 0)
    );
}

/// Removes all rows of forgotten jobs.
pub(super) fn clear(store: &mut Writer) {
    while store.clear_forgotten(Time(9), 1_000).unwrap().more {}
}

#[test]
fn a_forgotten_job_leaves_nothing_and_needs_no_content_that_only_it_needed() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    let one = add_job(&mut store, 1, &spec(1));

    let two = add_job(&mut store, 2, &spec(1));
    for (job, hashes) in [(one, [1, 2]), (two, [2, 3])] {
        for (number, hash) in (1..).zip(hashes) {
            start(&mut store, attempt(job, 1, number));
            store
                .attempt_result(
                    &completion(attempt(job, 1, number), hash),
                    AttemptState::Finished,
                    Time(9),
                )
                .unwrap();
        }
    }

    let needed =
        |store: &Writer| [1, 2, 3].map(|hash| store.needs_blob(&BlobHash([hash; 32])).unwrap());
    store.forget_job(one).unwrap();
    clear(&mut store);
    assert_eq!(needed(&store), [false, true, true]);
    store.forget_job(two).unwrap();
    clear(&mut store);
    assert_eq!(needed(&store), [false; 3]);
    store.commit().unwrap();

    for table in ["job", "attempt", "settled", "blob_use", "forgotten"] {
        let sql = format!("SELECT count(*) FROM {table}");
        let left: i64 = store.db().one(&sql, &[], |row| row.get(0)).unwrap();
        assert_eq!(left, 0, "{table}");
    }
}

/// A disclosed job of four tasks, of which the first `tasks` were executed at times 11, 12, ...
fn executed(store: &mut Writer, tasks: u32) -> JobId {
    let job = add_job(store, 1, &spec(4));
    store.disclose(job, Time(1)).unwrap();
    for index in 1..=tasks {
        let id = attempt(job, index, 1);
        let at = Time(u64::from(10 + index));
        start(store, id);
        assert!(store.is_unrequested(id.task).unwrap());
        let finished = AttemptState::Finished;
        assert_eq!(
            store
                .keep_back(&completion(id, index as u8), finished, at, "ann", at)
                .unwrap(),
            2 + 9
        );
    }

    job
}

#[test]
fn only_unrequested_output_is_evicted_oldest_first() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    let job = executed(&mut store, 3);

    assert_eq!(
        store.kept_by_user().unwrap(),
        [("ann".to_owned(), 33)].into()
    );
    store
        .request(job, &IdSet::from_range(1, 1), Time(20))
        .unwrap();
    assert_eq!(store.release(job, &IdSet::from_range(1, 1)).unwrap(), 11);

    let needed =
        |store: &Writer| [1, 2, 3].map(|hash| store.needs_blob(&BlobHash([hash; 32])).unwrap());
    assert_eq!(needed(&store), [true; 3]);
    assert_eq!(store.remove_oldest(Some("bob"), Time(30)).unwrap(), None);

    let removed = store.remove_oldest(None, Time(30)).unwrap().unwrap();
    assert_eq!(
        (
            removed.attempt.task.index,
            removed.user.as_str(),
            removed.bytes
        ),
        (2, "ann", 11)
    );

    assert_eq!(needed(&store), [true, false, true]);
    assert_eq!(
        store
            .remove_oldest(Some("ann"), Time(31))
            .unwrap()
            .unwrap()
            .attempt
            .task
            .index,
        3
    );

    assert_eq!(
        store.remove_oldest(None, Time(32)).unwrap(),
        None,
        "what was requested stays"
    );
    assert_eq!(
        (needed(&store), store.kept_of(job).unwrap()),
        ([true, false, false], 0)
    );
    store.commit().unwrap();
    assert!(
        Reader::new(dir.path())
            .may_read("ann", &BlobHash([1; 32]))
            .unwrap()
    );

    let mut rows = Vec::new();
    let each = |row: super::AttemptRow| rows.push((row.removed, row.result.unwrap().is_some()));
    Reader::new(dir.path()).attempts(job, (1, 4), each).unwrap();
    assert_eq!(
        rows,
        [
            (None, true),
            (Some(Time(30)), false),
            (Some(Time(31)), false)
        ]
    );

    let looked = super::look::of_tests(dir.path());
    assert!(
        !looked
            .faults
            .iter()
            .any(|fault| fault.contains("requested")),
        "{:?}",
        looked.faults
    );
}

#[test]
fn a_task_without_its_output_is_finished_until_it_is_requested() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    let job = executed(&mut store, 2);

    store.remove_oldest(None, Time(30)).unwrap().unwrap();
    store.commit().unwrap();
    drop(store);

    let mut store = open(&dir);
    let finished = |store: &Writer| {
        store
            .restore_job(job)
            .unwrap()
            .unwrap()
            .progress
            .finished
            .to_string()
    };
    assert_eq!(
        (finished(&store), store.kept_of(job).unwrap()),
        ("1-2".to_owned(), 11)
    );

    let all = IdSet::from_range(1, 4);
    assert_eq!(store.removed(job, &all).unwrap(), [(1, 1)]);
    store.result_is_gone(job, 1).unwrap();
    store.result_is_gone(job, 2).unwrap();
    assert_eq!(
        (finished(&store), store.removed(job, &all).unwrap()),
        ("2".to_owned(), vec![])
    );

    let tried = store.restore_job(job).unwrap().unwrap().progress.tried;
    assert_eq!(
        (
            tried[0].task,
            tried[0].attempts,
            tried[0].losses,
            tried[0].lost.len()
        ),
        (1, 1, 0, 0)
    );

    store.forget_job(job).unwrap();
    clear(&mut store);
    assert_eq!(
        (
            store.kept_by_user().unwrap().len(),
            store.needs_blob(&BlobHash([2; 32])).unwrap()
        ),
        (0, false)
    );
}

#[test]
fn the_cost_of_a_stopped_attempt_is_charged_once_to_its_host() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    let job = add_job(&mut store, 1, &spec(2));
    let stopped = attempt(job, 1, 1);
    let live = attempt(job, 2, 1);
    [stopped, live]
        .into_iter()
        .for_each(|id| start(&mut store, id));

    store
        .attempt_ended(stopped, AttemptState::Killed, Time(9), "cancelled")
        .unwrap();

    let spent = |attempt, cpu| common::attempt::Spent {
        attempt,
        ran: Span(5),
        suspended: Span(2),
        cpu: Span(cpu),
    };
    store
        .attempt_spent(HostId(2), &spent(stopped, 3), Time(20))
        .unwrap();
    store
        .attempt_spent(HostId(1), &spent(stopped, 4), Time(20))
        .unwrap();
    store
        .attempt_spent(HostId(1), &spent(stopped, 6), Time(30))
        .unwrap();
    store
        .attempt_spent(HostId(1), &spent(live, 7), Time(20))
        .unwrap();
    store.commit().unwrap();

    let mut rows = Vec::new();
    let each =
        |row: super::AttemptRow| rows.push((row.view.cpu.0, row.view.ran.0, row.view.started));
    Reader::new(dir.path()).attempts(job, (1, 2), each).unwrap();
    assert_eq!(rows, [(4, 5, Some(Time(13))), (0, 0, None)]);
}

#[test]
fn the_hosts_of_ranks_are_known_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    let work = Work::Ranks(
        CommandSpec::new(vec!["solve".parse().unwrap()]),
        Ranks::new(2, Some(2)),
    );
    let tasks = TaskSet {
        ids: Ranks::tasks(2),
        items: Vec::new(),
    };
    let ranks = add_job(
        &mut store,
        1,
        &JobSpec {
            work,
            tasks,
            ..spec(2)
        },
    );

    let bag = add_job(&mut store, 2, &spec(2));
    for job in [ranks, bag] {
        for (index, number, state) in [(1, 1, AttemptState::Lost), (1, 2, AttemptState::Finished)] {
            let id = attempt(job, index, number);
            let host = HostId(10 + number);
            store
                .add_attempt(&NewAttempt {
                    attempt: id,
                    host,
                    duplicate: false,
                    now: Time(2),
                    why: "first",
                })
                .unwrap();
            store.attempt_ended(id, state, Time(9), "why").unwrap();
        }
    }

    store.commit().unwrap();
    drop(store);

    let store = open(&dir);
    let done_on = |job| store.restore_job(job).unwrap().unwrap().progress.done_on;
    assert_eq!((done_on(ranks), done_on(bag)), (vec![HostId(12)], vec![]));
}

#[test]
fn the_time_of_an_assignment_is_told_to_its_host_alone_while_it_lives_and_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    let job = add_job(&mut store, 1, &spec(2));
    let id = attempt(job, 1, 1);
    let told = |store: &Writer| {
        let of = |host| store.assigned(id, HostId(host)).unwrap();
        (of(1), of(2))
    };
    assert_eq!(told(&store), (None, None));
    start(&mut store, id);
    assert_eq!(told(&store), (Some((Time(2), None)), None));

    let ended = AttemptState::Killed;
    store.attempt_ended(id, ended, Time(9), "no need").unwrap();
    let both = Some((Time(2), Some(Time(9))));
    assert_eq!(told(&store), (both, None));
    store.commit().unwrap();
    drop(store);
    let mut store = open(&dir);
    assert_eq!(told(&store), (both, None));
    store.forget_job(job).unwrap();
    clear(&mut store);
    assert_eq!(told(&store), (None, None));
}

#[test]
fn an_account_of_whatever_sums_is_found_sound() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    for user in 1..200 {
        let spent_s = f64::from(user) / 7.0;
        let account = scheduler::billing::Account {
            tasks: 1,
            used_s: spent_s,
            billed_s: -spent_s,
            ..Default::default()
        };
        store
            .add_to_account(&format!("user {user}"), &account)
            .unwrap();
    }
    store.commit().unwrap();
    drop(store);
    assert_eq!(
        super::look::of_tests(dir.path()).faults,
        Vec::<String>::new()
    );
}

#[test]
fn content_of_a_forgotten_job_counts_against_its_sender_again_from_then_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    let job = add_job(&mut store, 1, &spec(1));
    let theirs = completion(attempt(job, 1, 1), 4);
    start(&mut store, theirs.attempt);
    store
        .attempt_result(&theirs, AttemptState::Finished, Time(5))
        .unwrap();
    let blob = theirs.outputs[0].blob;
    store.content_came("ann", blob, Time(6)).unwrap();
    assert!(store.unused_content().unwrap().is_empty());

    store.forget_job(job).unwrap();
    let cleared = store.clear_forgotten(Time(50), 100).unwrap();
    assert_eq!(cleared.unused["ann"], LEAST_COUNTED);
    let unused: Vec<_> = store.unused_content().unwrap().into_iter().collect();
    assert_eq!(unused, [("ann".to_owned(), LEAST_COUNTED)]);
    let trimmed = store.trim_content_of(&[blob.hash], Time(50)).unwrap();
    assert!(trimmed.is_empty() && store.unused_content().unwrap().len() == 1);
    let trimmed = store.trim_content_of(&[blob.hash], Time(51)).unwrap();
    assert_eq!(trimmed["ann"], LEAST_COUNTED);
    assert!(store.unused_content().unwrap().is_empty());
}

#[test]
fn forgetting_gives_the_space_back() {
    if super::pg::in_tests() {
        return; // There is no file.
    }
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    let pages = |store: &Writer| {
        let count: i64 = store
            .db()
            .one("PRAGMA page_count", &[], |row| row.get(0))
            .unwrap();
        count
    };
    let before = pages(&store);
    let job = add_job(&mut store, 1, &spec(5_000));
    (1..=5_000).for_each(|index| start(&mut store, attempt(job, index, 1)));

    store.commit().unwrap();
    assert!(pages(&store) > before + 50);
    store.forget_job(job).unwrap();
    clear(&mut store);
    store.commit().unwrap();
    assert!(
        pages(&store) < before + 10,
        "{} pages, {before} before",
        pages(&store)
    );
}

#[test]
fn a_newer_or_damaged_store_is_refused_and_left_alone() {
    if super::pg::in_tests() {
        return; // There is no file.
    }
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    (1..200).for_each(|id| assert!(add_job(&mut store, id, &spec(1)).0 > 0));
    store.commit().unwrap();
    store
        .db()
        .each("PRAGMA user_version = 99", &[], |_| Ok(()))
        .unwrap();
    drop(store);
    assert!(matches!(
        Writer::open(dir.path()),
        Err(StoreError::Newer { found: 99, .. })
    ));

    let path = dir.path().join("store.sqlite");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100..3_000].fill(0xAA);
    std::fs::write(&path, &bytes).unwrap();

    let error = Writer::open(dir.path()).err().unwrap();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn the_newest_state_of_an_open_task_is_kept_with_its_content_until_the_task_is_settled() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    let job = add_job(&mut store, 1, &spec(2));
    start(&mut store, attempt(job, 1, 1));
    start(&mut store, attempt(job, 1, 2));

    let blob = |fill: u8| BlobHash([fill; 32]);
    let saved = |number, sequence, list: u8| Saved {
        number,
        sequence,
        taken: Time(5),
        files: 1,
        bytes: 9,
        manifest: BlobRef {
            hash: blob(list),
            size: 40,
        },
    };

    let needed = |store: &Writer| {
        (1..=6)
            .filter(|n| store.needs_blob(&blob(*n)).unwrap())
            .collect::<Vec<u8>>()
    };
    store
        .keep_checkpoint(attempt(job, 1, 1), &saved(1, 7, 1), &[blob(2)])
        .unwrap();
    assert_eq!(needed(&store), [1, 2]);
    store
        .starts_from(attempt(job, 1, 2), &saved(1, 7, 1))
        .unwrap();
    store
        .keep_checkpoint(attempt(job, 1, 2), &saved(2, 1, 3), &[blob(2), blob(4)])
        .unwrap();
    assert_eq!(
        needed(&store),
        [2, 3, 4],
        "the first state of an attempt that went on from it"
    );

    store
        .keep_checkpoint(attempt(job, 1, 1), &saved(1, 8, 5), &[blob(6)])
        .unwrap();
    assert_eq!(
        (
            needed(&store),
            store.checkpoint(TaskId::new(job, 1)).unwrap()
        ),
        (vec![2, 3, 4], Some(saved(2, 1, 3)))
    );

    store.commit().unwrap();
    drop(store);

    let mut store = open(&dir);
    assert_eq!(
        store.checkpoint(TaskId::new(job, 1)).unwrap(),
        Some(saved(2, 1, 3))
    );
    assert!(
        store
            .wants_checkpoint(attempt(job, 1, 2), HostId(1))
            .unwrap()
    );
    assert!(
        !store
            .wants_checkpoint(attempt(job, 1, 2), HostId(2))
            .unwrap(),
        "another host's"
    );

    assert!(
        !store
            .wants_checkpoint(attempt(job, 1, 3), HostId(1))
            .unwrap(),
        "never given out"
    );

    store
        .settle(job, &IdSet::from_range(1, 1), TaskState::Failed, "test")
        .unwrap();
    assert!(
        !store
            .wants_checkpoint(attempt(job, 1, 2), HostId(1))
            .unwrap(),
        "settled"
    );

    store
        .drop_checkpoints(job, &IdSet::from_range(1, 1))
        .unwrap();
    assert_eq!(
        (
            needed(&store),
            store.checkpoint(TaskId::new(job, 1)).unwrap()
        ),
        (vec![], None)
    );
}

#[test]
fn a_state_gives_way_only_to_one_that_has_more_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    let job = add_job(&mut store, 1, &spec(1));
    let list = BlobRef {
        hash: BlobHash([1; 32]),
        size: 40,
    };
    let state = |number, sequence| Saved {
        number,
        sequence,
        taken: Time(5),
        files: 0,
        bytes: 0,
        manifest: list,
    };
    let keep = |store: &mut Writer, number, sequence| {
        store
            .keep_checkpoint(attempt(job, 1, number), &state(number, sequence), &[])
            .unwrap();
        let kept = store.checkpoint(TaskId::new(job, 1)).unwrap().unwrap();
        (kept.number, kept.sequence)
    };

    let end = |store: &mut Writer, number| {
        store
            .attempt_ended(attempt(job, 1, number), AttemptState::Lost, Time(9), "lost")
            .unwrap();
    };
    (1..=4).for_each(|number| start(&mut store, attempt(job, 1, number)));
    assert_eq!(keep(&mut store, 1, 1), (1, 1), "there was none");
    assert_eq!(keep(&mut store, 1, 3), (1, 3), "the same attempt's next");
    assert_eq!(keep(&mut store, 1, 2), (1, 3), "one that came late");
    assert_eq!(
        keep(&mut store, 2, 1),
        (1, 3),
        "a copy that began from scratch"
    );

    store.starts_from(attempt(job, 1, 3), &state(1, 1)).unwrap();
    assert_eq!(
        keep(&mut store, 3, 1),
        (1, 3),
        "a copy that began with less, while the other goes on"
    );
    store.starts_from(attempt(job, 1, 4), &state(1, 3)).unwrap();
    end(&mut store, 1);
    assert_eq!(
        keep(&mut store, 2, 2),
        (1, 3),
        "from scratch, however long the other is gone"
    );
    assert_eq!(
        keep(&mut store, 3, 2),
        (3, 2),
        "nobody goes on from the kept one any more"
    );

    assert_eq!(keep(&mut store, 4, 1), (3, 2), "it lives");
    end(&mut store, 3);
    assert_eq!(keep(&mut store, 4, 2), (4, 2));
    end(&mut store, 4);
    assert_eq!(
        keep(&mut store, 3, 3),
        (4, 2),
        "the last words of one that is gone itself"
    );
}

#[test]
fn an_estimate_for_each_task_comes_back_with_its_job() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    let said = [Span(5), Span(7_000_000)];

    for (id, estimates) in [(1, &said[..]), (2, &[])] {
        let request = RequestId(uuid::Uuid::from_u128(id));
        let new = NewJob {
            request,
            body_hash: [0; 32],
            user: "ann",
            spec: &spec(2),
            content: &[],
            estimates,
            now: Time(1),
        };
        store.add_job(&new).unwrap();
    }

    store.commit().unwrap();
    drop(store);

    let jobs = open(&dir).restore_jobs().unwrap();
    assert_eq!(
        jobs.iter()
            .map(|job| &job.estimates[..])
            .collect::<Vec<_>>(),
        [&said[..], &[]]
    );

    assert!(jobs[0].bytes > jobs[1].bytes, "they count");
    let looked = super::look::of_tests(dir.path());
    assert!(looked.faults.is_empty(), "{:?}", looked.faults);
}

#[test]
fn a_renewed_promise_ranks_behind_those_accepted_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(&dir);
    let at = |secs| Time(Span::from_secs(secs).0);
    let mut job = |id: u32, submitted, promise: Option<(u64, bool)>| {
        let request = RequestId(uuid::Uuid::from_u128(id.into()));
        let new = NewJob {
            request,
            body_hash: [0; 32],
            user: "ann",
            spec: &spec(1),
            content: &[],
            estimates: &[],
            now: at(submitted),
        };
        let job = store.add_job(&new).unwrap();
        let deadline = at(99);
        let finish = at(90);
        let probability = 0.9;

        let probation = false;
        let limits = None;
        if let Some((made, withdrawn)) = promise {
            let promised = Promised {
                made: at(made),
                deadline,
                finish,
                probability,
                probation,
                withdrawn,
                limits,
            };
            store.keep_promise(job, &promised).unwrap();
        }

        assert_eq!(job, JobId(id));
    };
    job(1, 10, Some((10, false)));
    job(2, 11, Some((22, false))); // made anew

    job(3, 12, Some((25, true))); // counts no more
    job(4, 20, Some((20, false)));
    job(5, 21, None);
    job(6, 15, Some((15, false))); // the master's clock was set back
    job(7, 23, Some((23, false)));
    store.commit().unwrap();
    drop(store);

    let jobs = open(&dir).restore_jobs().unwrap();
    let order: Vec<u32> = jobs.iter().map(|restored| restored.view.job.0).collect();
    assert_eq!(order, [1, 3, 4, 5, 6, 2, 7]);
}
