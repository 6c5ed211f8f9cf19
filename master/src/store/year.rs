//! A test of one simulated year: jobs, results, hosts' availability and tokens come day by day, and
//! old rows are removed by the rules of retention. The store's file must stop growing once
//! everything that it keeps has been kept for as long as it may be.

use std::path::Path;

use common::availability::AvailabilityInterval;
use common::host::{OwnerState, YieldReason};
use common::job::{Rules, Work};
use common::token::Role;
use common::view::{AttemptState, JobState, JobView, TaskCounts, TaskState};
use common::{HostId, IdSet, JobId, JobSpec, RequestId, Span, TaskSet, Time};

use super::audit::AuditEntry;
use super::tests::{attempt, completion};
use super::{NewAttempt, NewJob, NewToken, Writer};

const DAY: u64 = 86_400_000_000;
/// The time, in microseconds, for which settled jobs and the record of availability are kept.
const KEEP: u64 = 30 * DAY;
const HOSTS: u32 = 8;
const JOBS: u32 = 6;
const TASKS: u32 = 40;

fn spec() -> JobSpec {
    let tasks = TaskSet {
        ids: IdSet::from_range(1, TASKS),
        items: Vec::new(),
    };
    JobSpec {
        name: "nightly".into(),
        tasks,
        work: Work::Noop,
        rules: Rules::default(),
    }
}

/// Runs a job from its submission to its end: most tasks finish, some fail, one is tried twice.
fn run_job(store: &mut Writer, number: u128, now: Time) {
    let request = RequestId(uuid::Uuid::from_u128(number));
    let new = NewJob {
        request,
        body_hash: [1; 32],
        user: "ann",
        spec: &spec(),
        content: &spec().content(),
        estimates: &[],
        now,
    };
    let job = store.add_job(&new).unwrap();

    for index in 1..=TASKS {
        for try_number in 1..=1 + u32::from(index == 7) {
            let id = attempt(job, index, try_number);
            let host = HostId(1 + (index % HOSTS));
            store
                .add_attempt(&NewAttempt {
                    attempt: id,
                    host,
                    duplicate: false,
                    now,
                    why: "first attempt",
                })
                .unwrap();

            let state = if index % 13 == 0 || (index == 7 && try_number == 1) {
                AttemptState::Failed
            } else {
                AttemptState::Finished
            };
            let hash = (number as u8).wrapping_mul(31).wrapping_add(index as u8);
            store
                .attempt_result(&completion(id, hash), state, now + Span::from_secs(60))
                .unwrap();
        }
    }

    let failed: IdSet = (1..=TASKS).filter(|index| index % 13 == 0).collect();
    store
        .settle(job, &failed, TaskState::Failed, "its retries are used up")
        .unwrap();
    settle(store, job, failed.len(), now);
}

fn settle(store: &mut Writer, job: JobId, failed: u64, now: Time) {
    let total = u64::from(TASKS);
    let view = super::reader::job_view(store.db(), job).unwrap().unwrap();
    let tasks = TaskCounts {
        finished: total - failed,
        failed,
        ..view.tasks
    };
    let row = JobView {
        state: JobState::Failed,
        tasks,
        started: Some(now),
        finished: Some(now + Span::from_secs(3_600)),
        attempts: total + 1,
        ..view
    };
    store.update_job(&row).unwrap();
}

/// Records one day of a host's availability, on which its owner comes and goes all day.
fn record_day(store: &mut Writer, host: HostId, midnight: Time) {
    for quarter in 0..48 {
        let at = |part: u64| midnight + Span(part * DAY / 96);
        let owner = if quarter % 2 == 0 {
            OwnerState::Away
        } else {
            OwnerState::Present(YieldReason::InUse)
        };
        let stretch = AvailabilityInterval::of(
            at(2 * quarter),
            at(2 * quarter + 1),
            owner,
            0.5 + (quarter as f32) / 100.0,
        );
        store.add_availability(host, &[&stretch]).unwrap();
    }
}

/// The size of the store's file, in bytes, after a commit and a checkpoint of the log.
fn size(store: &mut Writer, dir: &Path) -> u64 {
    store.commit().unwrap();
    store.finish().unwrap();
    std::fs::metadata(dir.join("store.sqlite")).unwrap().len()
}

fn without_syncs(store: &Writer) {
    let sql = "PRAGMA synchronous = OFF";
    store.db().each(sql, &[], |_| Ok(())).unwrap();
}

/// Simulates `days` days in which rows are kept for `keep` (with `None`, for ever). Returns the
/// size of the file at the end of each day, in bytes.
fn live(days: u64, keep: Option<u64>) -> Vec<u64> {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Writer::open(dir.path()).unwrap();

    // Only the size matters here, so no time is spent on syncs.
    without_syncs(&store);
    for host in 1..=HOSTS {
        store
            .add_peer(Role::Worker, "desk", [host as u8; 32], Time(0))
            .unwrap();
    }

    let mut sizes = Vec::new();
    for day in 1..=days {
        let midnight = Time(day * DAY);
        (0..JOBS)
            .for_each(|n| run_job(&mut store, u128::from(day) * 100 + u128::from(n), midnight));
        (1..=HOSTS).for_each(|host| record_day(&mut store, HostId(host), midnight));

        let secret_hash = [day as u8; 32];
        let expires = midnight + Span(DAY);
        let token = NewToken {
            secret_hash,
            role: Role::Worker,
            name: "a day's",
            uses: 1,
            expires,
            approval: false,
            speaks_for: None,
        };
        store.add_token(&token).unwrap();

        if let Some(keep) = keep {
            let then = Time(midnight.0.saturating_sub(keep));
            // The core does this in its sweep.
            for job in store.settled_before(then, 100).unwrap() {
                store.forget_job(job).unwrap();
            }
            super::tests::clear(&mut store);
            (1..=HOSTS).for_each(|host| {
                store
                    .trim_availability(HostId(host), then, Some(100_000), 10_000)
                    .unwrap();
            });
            store.trim_tokens(then).unwrap();
        }

        sizes.push(size(&mut store, dir.path()));
    }

    assert_eq!(
        super::look(&dir.path().join("store.sqlite"))
            .unwrap()
            .faults,
        Vec::<String>::new()
    );

    sizes
}

#[test]
fn with_retention_the_store_stops_growing_and_without_it_does_not() {
    if super::pg::in_tests() {
        return; // There is no file.
    }
    let kept = live(365, Some(KEEP));
    let full = *kept[30..60].iter().max().unwrap();
    let most = *kept.iter().max().unwrap();
    assert!(
        most <= full + full / 20,
        "after the first full month the file grows from {full} to {most} bytes"
    );

    let last = kept[364];
    assert!(
        last >= full / 2,
        "and what is to be kept is kept: {last} of {full} bytes"
    );

    let for_ever = live(90, None);
    assert!(
        for_ever[89] > 2 * most,
        "without retention it has {} bytes, with it {most}",
        for_ever[89]
    );
    assert!(for_ever.is_sorted());
}

#[test]
fn the_log_of_refused_strangers_is_bounded() {
    if super::pg::in_tests() {
        return; // There is no file.
    }
    let dir = tempfile::tempdir().unwrap();
    let mut store = Writer::open(dir.path()).unwrap();
    without_syncs(&store);

    let mut sizes = Vec::new();
    for day in 0..16 {
        for n in 0..10_000 {
            let who = format!("192.0.2.{}", n % 250);
            let subject = format!("token {n}");
            let why = "there is no such token".to_owned();
            let at = Time(day * DAY + n);
            store
                .add_audit(&AuditEntry {
                    at,
                    who,
                    what: "enrol",
                    subject,
                    allowed: false,
                    why,
                    count: 1,
                })
                .unwrap();
        }

        sizes.push(size(&mut store, dir.path()));
    }

    assert!(
        sizes[4] > 4 * sizes[0] && sizes[15] <= sizes[10] + sizes[10] / 100,
        "{sizes:?}"
    );
    assert_eq!(
        super::Reader::new(dir.path()).audit(1).unwrap()[0].at,
        Time(15 * DAY + 9_999),
        "the newest are there"
    );
}
