//! A whole worker against a master that does what the test says, over real QUIC: what is sent and
//! when, over broken connections, crashes, the owner and refusals.
//!
//! Without libtest, for the reason that `processes.rs` gives.
#![allow(clippy::unwrap_used)] // A test's panic is its message.

#[path = "scripted_master/disk.rs"]
mod disk;
mod door;
#[path = "scripted_master/given_back.rs"]
mod given_back;
#[path = "scripted_master/memory.rs"]
mod memory;
#[path = "scripted_master/record.rs"]
mod record;
mod runner;
#[path = "scripted_master/site.rs"]
mod site;
#[path = "scripted_master/states.rs"]
mod states;
#[path = "scripted_master/update.rs"]
mod update;

use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Instant;

use common::attempt::{Outcome, Phase};
use common::checkpoint::{Checkpointing, Saved, Saving};
use common::host::{Confinement, OwnerState, YieldReason};
use common::manifest::{ListedFile, Manifest};
use common::settings::ConfigDuration;
use common::wire::worker::{
    Assignment, BUSY_EVERY, Command, Errand, StagedInput, StagedKind, ToMaster, ToWorker,
};
use common::wire::{Refusal, RefusalCode};
use common::{AttemptId, BlobRef, Content, Span, Time};
use disk::{
    a_task_has_ended_although_the_disk_has_not_taken_its_output,
    a_worker_starts_whatever_its_earlier_tasks_have_left,
    the_disk_of_a_frozen_task_is_looked_at_once_it_goes_on,
};
use door::{
    Master, PATIENCE, Worker, command, id, no_attempt_left, pid, sh, state, until, welcomed,
    welcomed_as, within,
};
use given_back::{
    a_worker_that_shuts_down_says_so_over_the_next_connection,
    what_a_worker_gives_back_as_it_ends_unheard_is_said_by_its_next_run,
};
use link::{BlobStore, Identity};
use memory::a_task_that_fills_the_memory_fails_and_the_one_beside_it_goes_on;
use record::what_was_recorded_is_sent_until_it_is_kept;
use site::{
    of_settings_in_a_row_the_last_ones_hold_and_are_answered_last,
    settings_are_kept_before_they_are_answered_and_told_to_masters_that_know_of_them,
    settings_that_come_faster_than_they_can_be_read_do_not_pile_up,
};
use states::{
    a_state_larger_than_a_worker_saves_is_gone_on_from_as_far_as_its_disk_allows,
    a_state_whose_copy_on_this_host_is_damaged_is_fetched_again,
};
use update::{
    a_program_that_the_master_cannot_give_for_a_while_is_fetched_once_it_can,
    a_worker_that_leaves_for_a_new_program_says_that_it_is_ready_as_its_last_word,
    an_order_to_end_counts_while_the_worker_leaves_for_a_new_program,
};
use worker::{Choice, Config, WorkerError};

/// As which the program is a worker that waits to be killed.
const BE_A_WORKER: &str = "be-a-worker";

type Test = fn() -> Pin<Box<dyn Future<Output = ()>>>;

macro_rules! tests {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), || Box::pin($name()))),*] };
}

const TESTS: &[(&str, Test)] = tests![
    a_command_runs_with_its_inputs_and_delivers_its_outputs,
    a_command_sees_the_processors_of_its_slot_and_is_told_how_many,
    an_unacknowledged_result_is_delivered_again_after_reconnecting,
    the_death_of_a_killed_worker_is_told_to_the_master_by_its_spawner,
    a_killed_worker_delivers_what_it_had_finished_and_has_forgotten_the_rest,
    the_owner_freezes_everything_and_gets_the_backlog_off_the_host,
    abandoned_attempts_end_without_a_word,
    an_attempt_whose_stop_was_lost_ends_with_the_answer_to_a_heartbeat,
    a_watched_attempt_is_reported_more_often_than_usual,
    the_status_says_how_the_host_can_be_used,
    a_worker_promises_to_send_often_while_it_holds_attempts_and_else_as_told,
    a_state_is_saved_now_and_then_and_given_back,
    a_state_is_saved_when_the_owner_comes_and_when_the_worker_ends,
    a_worker_that_is_to_end_before_it_has_begun_ends_in_order,
    the_disk_of_a_frozen_task_is_looked_at_once_it_goes_on,
    a_task_has_ended_although_the_disk_has_not_taken_its_output,
    a_worker_starts_whatever_its_earlier_tasks_have_left,
    a_state_that_is_not_whole_is_not_used,
    a_state_that_is_too_large_is_refused_and_the_task_goes_on,
    a_state_larger_than_a_worker_saves_is_gone_on_from_as_far_as_its_disk_allows,
    a_state_whose_copy_on_this_host_is_damaged_is_fetched_again,
    an_attempt_stopped_while_its_state_is_placed_leaves_nothing,
    a_task_that_fills_the_memory_fails_and_the_one_beside_it_goes_on,
    a_shutdown_gives_running_attempts_back_and_says_goodbye,
    what_a_worker_gives_back_as_it_ends_unheard_is_said_by_its_next_run,
    a_worker_that_shuts_down_says_so_over_the_next_connection,
    a_refused_worker_says_why_and_tries_again_until_it_is_let_in,
    two_workers_never_share_a_directory,
    noops_are_acknowledged_by_the_thousand,
    progress_is_in_the_heartbeat,
    an_idle_worker_sends_heartbeats_as_often_as_its_master_wants_them,
    an_input_that_cannot_be_had_is_named,
    an_absent_master_is_reported_without_waiting,
    what_was_recorded_is_sent_until_it_is_kept,
    settings_are_kept_before_they_are_answered_and_told_to_masters_that_know_of_them,
    of_settings_in_a_row_the_last_ones_hold_and_are_answered_last,
    settings_that_come_faster_than_they_can_be_read_do_not_pile_up,
    a_program_that_the_master_cannot_give_for_a_while_is_fetched_once_it_can,
    a_worker_that_leaves_for_a_new_program_says_that_it_is_ready_as_its_last_word,
    an_order_to_end_counts_while_the_worker_leaves_for_a_new_program,
];

fn main() {
    worker::spawner::main_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
    };

    if args.first().is_some_and(|a| a == BE_A_WORKER) {
        let dir = PathBuf::from(&args[1]);
        let identity = Identity::load(&dir.join("identity")).unwrap();
        let run = worker::run(dir, config(), identity, std::future::pending());
        runtime().block_on(Box::pin(run)).unwrap();
        return;
    }

    runner::run(&args, TESTS, |test| {
        runtime().block_on(async {
            tokio::time::timeout(3 * PATIENCE, test())
                .await
                .expect("the test hangs");
        });
    });
}

/// Its tasks write what the tests look at, beside their own directories.
fn config() -> Config {
    Config {
        confinement: Choice::This(Confinement::Process),
        checkpoint_limit_bytes: 1_000,
        slots: 2,
        grace: ConfigDuration::from_millis(200),
        reconnect_base: ConfigDuration::from_millis(5),
        reconnect_cap: ConfigDuration::from_millis(20),
        owner: worker::owner::rules::OwnerRules::dedicated(),
        ..Config::default()
    }
}

async fn a_command_runs_with_its_inputs_and_delivers_its_outputs() {
    let (master, _stop, mut worker) = welcomed().await;
    let tool = master.blobs.add_reader(
        &b"#!/bin/sh\ncat; tr a-z A-Z < data/in.txt > out.txt; echo $DESKGRID_TASK_ID >&2\n"[..],
    );
    let data = master.blobs.add_reader(&b"some input"[..]).unwrap();
    let mut work = sh(1, "");
    *command(&mut work) = Command {
        argv: vec!["./tool".to_owned()],
        inputs: vec![
            StagedInput {
                path: "tool".parse().unwrap(),
                blob: tool.unwrap(),
                kind: StagedKind::Program,
            },
            StagedInput {
                path: "data/in.txt".parse().unwrap(),
                blob: data,
                kind: StagedKind::File,
            },
        ],
        outputs: vec!["*.txt".to_owned()],
        stdin: Some("data/in.txt".parse().unwrap()),
        ..command(&mut work).clone()
    };

    worker.assign(vec![work]).await;
    let done = worker.delivered().await.remove(0);
    assert_eq!(done.outcome, Outcome::Succeeded, "{done:?}");
    assert_eq!(done.stdout.content, Content::Inline(b"some input".to_vec()));
    assert_eq!(done.stderr.content, Content::Inline(b"1\n".to_vec()));

    let [output] = &done.outputs[..] else {
        panic!("{done:?}")
    };
    assert_eq!(
        fs::read(master.blobs.path_of(&output.blob.hash)).unwrap(),
        b"SOME INPUT",
        "before the message"
    );
    assert!(no_attempt_left(&master.home()));
    worker.acknowledge(vec![done.attempt]).await;

    worker.holds(&[]).await;
    // The blob goes with its completion; both are the spool's business alone by now.
    let spooled = BlobStore::open(&master.home().join("spool/blobs")).unwrap();
    until(|| spooled.list().unwrap().is_empty()).await;
}

async fn a_command_sees_the_processors_of_its_slot_and_is_told_how_many() {
    let (_master, _stop, mut worker) = welcomed().await;
    let look =
        "grep Cpus_allowed_list: /proc/self/status; echo $OMP_NUM_THREADS $GOMAXPROCS; nproc";
    let mut work = [sh(1, look), sh(2, look)];
    work.iter_mut().for_each(|w| command(w).keep_stdout = true);
    command(&mut work[1]).env = vec![("GOMAXPROCS".to_owned(), "7".to_owned())];
    worker.assign(work.into()).await;

    let mut said = Vec::new();
    while said.len() < 2 {
        for done in worker.delivered().await {
            assert_eq!(done.outcome, Outcome::Succeeded);
            let Content::Inline(text) = done.stdout.content else {
                panic!("{:?}", done.stdout)
            };
            said.push((done.attempt, String::from_utf8(text.to_vec()).unwrap()));
        }
    }
    said.sort();

    // Two slots: on a processor each where there are two, anywhere where there are more.
    let words: Vec<Vec<&str>> = said
        .iter()
        .map(|(_, t)| t.split_whitespace().collect())
        .collect();
    for words in &words {
        assert_eq!(words[2], words[4], "{said:?}");
    }
    assert_eq!(words[0][3], words[0][2]);
    assert_eq!(words[1][3], "7");
    if std::thread::available_parallelism().unwrap().get() == 2 {
        assert_ne!(words[0][1], words[1][1], "{said:?}");
    }
}

async fn an_unacknowledged_result_is_delivered_again_after_reconnecting() {
    let (mut master, _stop, mut worker) = welcomed().await;
    let go = master.dir.path().join("go");
    let wait = format!(
        "while [ ! -e {} ]; do sleep 0.01; done; exit 3",
        go.display()
    );
    worker.assign(vec![sh(1, "exit 4"), sh(2, &wait)]).await;

    assert_eq!(worker.delivered().await[0].outcome, Outcome::Exited(4));
    worker.connection.close(0u32.into(), b"broken");

    // It goes on computing while nobody listens, and says so where it was heard of again.
    fs::write(&go, "").unwrap();
    let worker = master.greeted().await;
    assert!(
        worker
            .held
            .iter()
            .any(|held| held.attempt == id(1) && held.phase == Phase::Ended),
        "{:?}",
        worker.held
    );

    worker
        .connection
        .close(0u32.into(), b"broken before its welcome");

    let mut worker = master.welcome(vec![]).await;
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.extend(
            worker
                .delivered()
                .await
                .into_iter()
                .map(|c| (c.attempt, c.outcome)),
        );
        seen.sort_by_key(|(id, _)| *id);
        seen.dedup();
    }

    assert_eq!(
        seen,
        [(id(1), Outcome::Exited(4)), (id(2), Outcome::Exited(3))]
    );
    worker.acknowledge(vec![id(1), id(2)]).await;

    worker.holds(&[]).await;
}

/// A master, and a process with a worker in its `home()`.
fn with_worker_process() -> (Master, std::process::Child) {
    let master = Master::new();
    let home = master.home();
    master.identity.save(&home.join("identity")).unwrap();
    let process = worker_process(&master);
    (master, process)
}

/// A process with a worker in the master's `home()`, until it is killed.
fn worker_process(master: &Master) -> std::process::Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .arg(BE_A_WORKER)
        .arg(master.home())
        .spawn()
        .unwrap()
}

async fn the_death_of_a_killed_worker_is_told_to_the_master_by_its_spawner() {
    let (mut master, mut process) = with_worker_process();
    let mut worker = master.welcome(vec![]).await;
    worker.assign(vec![sh(1, "true")]).await;
    worker.delivered().await;
    process.kill().unwrap();
    process.wait().unwrap();

    // Silence alone would end it as timed out.
    assert_eq!(
        within(worker.connection.closed()).await,
        quinn::ConnectionError::Reset
    );
}

async fn a_killed_worker_delivers_what_it_had_finished_and_has_forgotten_the_rest() {
    let (mut master, mut process) = with_worker_process();
    let running = master.dir.path().join("pid");
    let script = format!("echo $$ > {}; sleep 600", running.display());

    let mut worker = master.welcome(vec![]).await;
    worker
        .assign(vec![sh(1, "head -c 100000 /dev/zero"), sh(2, &script)])
        .await;

    let first = worker.delivered().await.remove(0);
    let task = pid(&running).await;
    process.kill().unwrap();
    process.wait().unwrap();
    until(|| state(task).is_none()).await;

    let mut process = worker_process(&master);
    let mut worker = master.welcome(vec![]).await;
    assert_eq!(
        worker
            .held
            .iter()
            .map(|h| (h.attempt, h.phase))
            .collect::<Vec<_>>(),
        [(id(1), Phase::Ended)]
    );

    assert_eq!(worker.delivered().await, [first]);
    assert!(
        no_attempt_left(&master.home()),
        "what the crash left is removed"
    );
    process.kill().unwrap();
    process.wait().unwrap();
}

async fn the_owner_freezes_everything_and_gets_the_backlog_off_the_host() {
    let (master, _stop, mut worker) = welcomed().await;
    let path = |n| master.dir.path().join(format!("pid{n}"));
    let script = |n| format!("echo $$ > {}; while :; do :; done", path(n).display());
    worker
        .assign(vec![sh(1, &script(1)), sh(2, &script(2))])
        .await;

    let pids = [pid(&path(1)).await, pid(&path(2)).await];
    worker.assign(vec![sh(3, "true"), sh(4, "true")]).await;

    let queued = [
        (id(1), Phase::Running),
        (id(2), Phase::Running),
        (id(3), Phase::Staging),
        (id(4), Phase::Staging),
    ];
    worker.holds(&queued).await;

    let pause = master.home().join(worker::PAUSE_FILE);
    let asked = Instant::now();
    fs::write(&pause, "").unwrap();

    // They never sleep by themselves.
    until(|| {
        pids.iter()
            .all(|pid| state(*pid).is_some_and(|state| state != 'R'))
    })
    .await;
    println!("  frozen {:?} after the owner's word", asked.elapsed());

    let paused = OwnerState::Present(YieldReason::PausedByOwner);
    let mut owner = None;
    let mut returned = Vec::new();

    let mut suspended = 0;
    while owner.is_none() || returned.len() < 2 || suspended < 2 {
        worker
            .until(|message| {
                match message {
                    ToMaster::Owner(state) => owner = Some(state),
                    ToMaster::Returned { attempts, .. } => returned.extend(attempts),
                    ToMaster::Phases(held) => {
                        suspended = held
                            .iter()
                            .filter(|h| h.phase == Phase::Suspended(YieldReason::PausedByOwner))
                            .count();
                    }
                    _ => return None,
                }
                Some(())
            })
            .await;
    }

    returned.sort_unstable();
    assert_eq!((owner, returned), (Some(paused), vec![id(3), id(4)]));
    worker.assign(vec![sh(5, "true")]).await;

    assert_eq!(worker.returned().await, [id(5)]);
    fs::remove_file(&pause).unwrap();
    until(|| pids.iter().all(|pid| state(*pid) == Some('R'))).await;
    worker.stop(id(1)).await;

    let stopped = worker.delivered().await.remove(0);
    assert_eq!(
        (stopped.attempt, &stopped.outcome),
        (id(1), &Outcome::Stopped)
    );
    assert!(
        stopped.suspended > Span::ZERO && stopped.cpu > Span::ZERO,
        "{stopped:?}"
    );
}

async fn abandoned_attempts_end_without_a_word() {
    let (mut master, _stop, mut worker) = welcomed().await;
    let path = master.dir.path().join("pid");
    let script = format!(
        "trap '' TERM; echo $$ > {}; while :; do sleep 0.01; done",
        path.display()
    );
    worker.assign(vec![sh(1, &script), sh(2, "exit 1")]).await;

    let task = pid(&path).await;
    assert_eq!(worker.delivered().await[0].attempt, id(2));
    worker.connection.close(0u32.into(), b"broken");

    let mut worker = master.welcome(vec![id(1), id(2)]).await;
    until(|| state(task).is_none()).await;
    worker.holds(&[]).await;
    until(|| no_attempt_left(&master.home())).await;
    worker.assign(vec![sh(3, "exit 3")]).await;

    let rest: Vec<_> = worker
        .delivered()
        .await
        .into_iter()
        .map(|c| c.attempt)
        .collect();
    assert_eq!(rest, [id(3)], "nothing of the abandoned ones is delivered");
}

async fn an_attempt_whose_stop_was_lost_ends_with_the_answer_to_a_heartbeat() {
    let (master, _stop, mut worker) = welcomed().await;
    let path = master.dir.path().join("pid");

    worker
        .assign(vec![sh(
            1,
            &format!(
                "trap '' TERM; echo $$ > {}; while :; do sleep 0.01; done",
                path.display()
            ),
        )])
        .await;

    let task = pid(&path).await;
    worker.holds(&[(id(1), Phase::Running)]).await;
    let abandon = vec![id(1)];
    worker.tell(ToWorker::Beat { abandon }).await;

    until(|| state(task).is_none()).await;
    worker.holds(&[]).await;
}

async fn a_watched_attempt_is_reported_more_often_than_usual() {
    let mut master = Master::new();
    let (_stop, _run) = master.start();
    let mut worker = master.welcome_with(vec![], Span::from_secs(3_600)).await;
    worker
        .assign(vec![Assignment {
            report_every: Some(Span::from_secs(1)),
            ..sh(1, "sleep 600")
        }])
        .await;
    // Two, since the first could be the one that each connection begins with.
    worker.holds(&[(id(1), Phase::Running)]).await;
    worker.holds(&[(id(1), Phase::Running)]).await;
}

async fn a_worker_promises_to_send_often_while_it_holds_attempts_and_else_as_told() {
    let (_master, _stop, mut worker) = welcomed().await;
    let promise = |message| match message {
        ToMaster::Alive(next) => Some(next),
        _ => None,
    };
    assert_eq!(worker.until(promise).await, BUSY_EVERY);

    // Longer than this test waits for anything.
    let slow = Span::from_secs(100);
    worker.tell(ToWorker::SendEvery(slow)).await;
    assert_eq!(worker.until(promise).await, slow);

    worker.assign(vec![sh(1, "sleep 600")]).await;
    assert_eq!(worker.until(promise).await, BUSY_EVERY);
}

async fn the_status_says_how_the_host_can_be_used() {
    let (master, _stop, mut worker) = welcomed().await;
    let before = worker.status;
    assert_eq!(before.owner, OwnerState::Away);

    let next = |message| {
        if let ToMaster::Heartbeat { status, .. } = message {
            Some(status)
        } else {
            None
        }
    };
    let status = worker.until(next).await;
    assert!((0.0..=1.0).contains(&status.cpu), "{status:?}");
    assert!(
        status.up_for > before.up_for && status.owner_for > before.owner_for,
        "{before:?} {status:?}"
    );
    fs::write(master.home().join("pause"), "").unwrap();

    let present = |message| next(message).filter(|status| status.owner != OwnerState::Away);
    let came = worker.until(present).await;
    assert!(
        came.owner_for < came.up_for && came.up_for > status.up_for,
        "{status:?} {came:?}"
    );
}

/// A command that keeps its state, saved so often, from this state on.
fn saving(index: u32, script: &str, every: Span, from: Option<Saved>) -> Assignment {
    let mut work = sh(index, script);
    command(&mut work).checkpoint = Some(Checkpointing { every, from });
    work
}

/// Puts `$1` into the state, as programs should.
const SAVE: &str = "save() { echo $1 > $DESKGRID_CHECKPOINT_DIR/aside && mv $DESKGRID_CHECKPOINT_DIR/aside $DESKGRID_CHECKPOINT_DIR/step; };";
const SELDOM: Span = Span::from_secs(3_600);

impl Worker {
    /// What it says next of a state.
    async fn checkpoint(&mut self) -> (AttemptId, u32, Saving) {
        let said = |message| match message {
            ToMaster::Checkpoint {
                attempt,
                sequence,
                saving,
            } => Some((attempt, sequence, saving)),
            _ => None,
        };
        self.until(said).await
    }

    /// The attempts that it gives back next.
    async fn returned(&mut self) -> Vec<AttemptId> {
        self.until(|message| match message {
            ToMaster::Returned { attempts, .. } => Some(attempts),
            _ => None,
        })
        .await
    }
}

impl Master {
    /// Keeps the list of these files.
    fn list(&self, files: Vec<ListedFile>) -> BlobRef {
        let list = Manifest::from(files).to_bytes().unwrap();
        self.blobs.add_reader(&list[..]).unwrap()
    }

    /// A complete state with this list.
    fn saved(&self, manifest: BlobRef) -> Saved {
        Saved {
            number: 1,
            sequence: 1,
            taken: Time(1),
            files: 1,
            bytes: 2,
            manifest,
        }
    }

    fn read(&self, blob: BlobRef) -> Vec<u8> {
        fs::read(self.blobs.path_of(&blob.hash)).unwrap()
    }

    /// What a state consists of.
    fn listed(&self, manifest: BlobRef) -> Vec<ListedFile> {
        Manifest::from_bytes(&self.read(manifest)).unwrap().files
    }

    /// The files of a state.
    fn files(&self, manifest: BlobRef) -> Vec<(String, String)> {
        let text = |blob| String::from_utf8(self.read(blob)).unwrap();
        let files = self.listed(manifest).into_iter();
        files
            .map(|file| (file.path.to_string(), text(file.blob)))
            .collect()
    }
}

/// The files of a state whose one file `step` has this content.
fn step(text: &str) -> [(String, String); 1] {
    [("step".to_owned(), text.to_owned())]
}

async fn a_state_is_saved_now_and_then_and_given_back() {
    let (mut master, _stop, mut worker) = welcomed().await;
    let script = format!(
        "{SAVE} save 5; while [ ! -e {}/go ]; do sleep 0.01; done; save 6; sleep 600",
        master.dir.path().display()
    );
    worker
        .assign(vec![saving(1, &script, Span::from_secs(1), None)])
        .await;

    let (attempt, sequence, Saving::Complete(manifest)) = worker.checkpoint().await else {
        panic!("not saved")
    };
    assert_eq!((attempt, sequence), (id(1), 1));
    assert_eq!(master.files(manifest), step("5\n"));

    // Over a new connection what was said last is said again, and once more when the content, of
    // which the master may have thrown away what it was not told of, is there for certain. What has
    // not changed is not another state.
    worker.connection.close(0u32.into(), b"broken");
    let files = master.listed(manifest).into_iter();
    let content: Vec<_> = files.map(|file| file.blob).chain([manifest]).collect();
    for blob in &content {
        master.blobs.remove(&blob.hash).unwrap();
    }

    let mut worker = master.welcome(vec![]).await;
    let mut there = false;
    while !there {
        assert_eq!(
            worker.checkpoint().await,
            (id(1), 1, Saving::Complete(manifest))
        );
        there = content.iter().all(|blob| master.blobs.has(blob));
    }

    assert_eq!(master.files(manifest), step("5\n"));
    fs::write(master.dir.path().join("go"), "").unwrap();

    let second = |message| match message {
        ToMaster::Checkpoint {
            sequence: 1,
            saving,
            ..
        } if saving == Saving::Complete(manifest) => None,
        ToMaster::Checkpoint {
            sequence, saving, ..
        } => Some((sequence, saving)),
        _ => None,
    };
    let (2, Saving::Complete(newer)) = worker.until(second).await else {
        panic!("not the second")
    };
    assert_eq!(master.files(newer), step("6\n"));

    let again = saving(
        2,
        "cat $DESKGRID_CHECKPOINT_DIR/step",
        SELDOM,
        Some(master.saved(newer)),
    );
    worker.assign(vec![again]).await;

    let done = worker.delivered().await.remove(0);
    assert_eq!(
        done.stdout.content,
        Content::Inline(b"6\n".to_vec()),
        "{done:?}"
    );
}

async fn a_state_is_saved_when_the_owner_comes_and_when_the_worker_ends() {
    // The task ends by itself once it has saved, however long the processors are busy.
    let (master, stop, mut worker) = welcomed_as(Config {
        grace: ConfigDuration::from_secs(60),
        ..config()
    })
    .await;
    let ready = master.dir.path().join("ready");
    let pause = master.home().join("pause");
    let script = format!(
        "{SAVE} save 1; trap 'save 2; exit 0' TERM; echo $$ > {}; while :; do sleep 0.01; done",
        ready.display()
    );
    worker.assign(vec![saving(1, &script, SELDOM, None)]).await;

    pid(&ready).await;
    fs::write(&pause, "").unwrap();

    let (_, 1, Saving::Complete(manifest)) = worker.checkpoint().await else {
        panic!("not saved")
    };
    assert_eq!(master.files(manifest), step("1\n"));
    fs::remove_file(&pause).unwrap();
    worker.holds(&[(id(1), Phase::Running)]).await;
    drop(stop);

    let mut states = Vec::new();
    let back = |message| match message {
        ToMaster::Checkpoint {
            saving: Saving::Complete(manifest),
            ..
        } => {
            states.push(manifest);
            None
        }
        ToMaster::Returned { attempts, .. } => Some(attempts),
        _ => None,
    };
    assert_eq!(worker.until(back).await, [id(1)]);
    assert_eq!(
        states.iter().map(|s| master.files(*s)).collect::<Vec<_>>(),
        [step("2\n")]
    );
}

async fn a_worker_that_is_to_end_before_it_has_begun_ends_in_order() {
    let master = Master::new();
    let (stop, run) = master.start();
    drop(stop);
    assert_eq!(
        within(run).await.unwrap().unwrap(),
        worker::WorkerEnd::Asked
    );
}

async fn a_state_that_is_not_whole_is_not_used() {
    let (master, _stop, mut worker) = welcomed().await;
    let count = "ls -A $DESKGRID_CHECKPOINT_DIR | wc -l";
    let there = master.blobs.add_reader(&b"there"[..]).unwrap();
    let missing = link::content::hash_bytes(b"never sent");
    let damaged = master.blobs.add_reader(&b"healthy"[..]).unwrap();
    fs::write(master.blobs.path_of(&damaged.hash), b"damaged").unwrap();

    let list = |blobs: &[BlobRef]| {
        let path = |n: usize| format!("f{n}").parse().unwrap();
        let files = blobs
            .iter()
            .enumerate()
            .map(|(n, blob)| ListedFile::new(path(n), *blob));
        master.list(files.collect())
    };
    let torn = {
        let whole = fs::read(master.blobs.path_of(&list(&[there, missing]).hash)).unwrap();
        master.blobs.add_reader(&whole[..whole.len() - 1]).unwrap()
    };
    let states = [
        list(&[there, missing]),
        list(&[there, damaged]),
        torn,
        missing,
    ];
    for (index, manifest) in (1..).zip(states) {
        worker
            .assign(vec![saving(
                index,
                count,
                SELDOM,
                Some(master.saved(manifest)),
            )])
            .await;

        let (attempt, 0, Saving::FromScratch(why)) = worker.checkpoint().await else {
            panic!("used")
        };
        assert!(attempt == id(index) && !why.is_empty());

        let done = worker.delivered().await.remove(0);
        assert_eq!(
            done.stdout.content,
            Content::Inline(b"0\n".to_vec()),
            "{index}: {why}"
        );
    }

    worker
        .assign(vec![saving(
            9,
            count,
            SELDOM,
            Some(master.saved(list(&[there]))),
        )])
        .await;

    assert_eq!(
        worker.delivered().await[0].stdout.content,
        Content::Inline(b"1\n".to_vec()),
        "and a whole one is"
    );
}

async fn a_state_that_is_too_large_is_refused_and_the_task_goes_on() {
    let (master, _stop, mut worker) = welcomed().await;
    let go = master.dir.path().join("go");
    let script = format!(
        "head -c 2000 /dev/zero > $DESKGRID_CHECKPOINT_DIR/large; while [ ! -e {} ]; do sleep 0.01; done; echo on",
        go.display()
    );
    worker
        .assign(vec![saving(1, &script, Span::from_secs(1), None)])
        .await;

    let (_, _, Saving::Refused(why)) = worker.checkpoint().await else {
        panic!("taken")
    };
    assert!(why.contains("2000 bytes") && why.contains("1000"), "{why}");
    fs::write(&go, "").unwrap();

    let done = worker.delivered().await.remove(0);
    assert_eq!(
        (done.outcome, done.stdout.content),
        (Outcome::Succeeded, Content::Inline(b"on\n".to_vec()))
    );
}

async fn an_attempt_stopped_while_its_state_is_placed_leaves_nothing() {
    let (master, _stop, mut worker) = welcomed_as(Config {
        checkpoint_limit_bytes: 1 << 30,
        checkpoint_files_limit: 3_000,
        ..config()
    })
    .await;
    let blob = master.blobs.add_reader(&[7; 20_000][..]).unwrap();
    let files = (0..3_000).map(|n| ListedFile::new(format!("{n}/file").parse().unwrap(), blob));

    let state = master.saved(master.list(files.collect()));
    worker
        .assign(vec![saving(1, "true", SELDOM, Some(state))])
        .await;

    // Its first files are there.
    let attempts = master.home().join("attempts");
    let placed = || {
        let mut dirs = fs::read_dir(&attempts).into_iter().flatten().flatten();
        dirs.any(|dir| dir.path().join(".deskgrid-checkpoint/5").exists())
    };
    until(placed).await;

    worker.stop(id(1)).await;

    worker.holds(&[]).await;
    until(|| no_attempt_left(&master.home())).await;

    // A copy that went on would make its directory anew.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert!(no_attempt_left(&master.home()));
}

async fn a_shutdown_gives_running_attempts_back_and_says_goodbye() {
    let mut master = Master::new();
    let (stop, run) = master.start();
    let mut worker = master.welcome(vec![]).await;
    let path = master.dir.path().join("pid");
    let script = format!(
        "trap '' TERM; echo $$ > {}; while :; do sleep 0.01; done",
        path.display()
    );
    worker.assign(vec![sh(1, &script)]).await;

    let task = pid(&path).await;
    drop(stop);

    assert_eq!(worker.returned().await, [id(1)]);
    assert_eq!(state(task), None);
    worker
        .until(|message| (message == ToMaster::Leaving).then_some(()))
        .await;
    within(run).await.unwrap().unwrap();
    assert!(no_attempt_left(&master.home()));
}

async fn a_refused_worker_says_why_and_tries_again_until_it_is_let_in() {
    let mut master = Master::new();
    let (stop, run) = master.start();
    for (code, why) in [
        (RefusalCode::Version, "too old"),
        (RefusalCode::NotAuthorised, "not known here"),
    ] {
        let mut worker = master.greeted().await;
        let refusal = Refusal::new(code, why, "upgrade");
        worker.tell(ToWorker::Refused(refusal)).await;

        within(async {
            loop {
                let report =
                    worker::control::ask(&master.home(), &worker::control::ControlRequest::Status)
                        .await
                        .unwrap();
                if report
                    .not_connected_because
                    .is_some_and(|because| because.contains(why))
                {
                    return assert!(!report.connected);
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    // Whom TLS, or the master's table, does not let in comes back as well.
    for code in [link::error::NOT_LET_IN, quinn::VarInt::from_u32(2)] {
        let worker = master.greeted().await;
        worker.connection.close(code, b"this identity was revoked");
    }

    let _worker = master.welcome(vec![]).await;
    drop(stop);
    within(run).await.unwrap().unwrap();
}

async fn two_workers_never_share_a_directory() {
    let mut master = Master::new();
    let (stop, first) = master.start();
    let _worker = master.welcome(vec![]).await;
    let (_stop, second) = master.start();
    let error = within(second).await.unwrap().unwrap_err();
    assert!(
        matches!(error, WorkerError::InUse(_)) && error.to_string().contains("another worker"),
        "{error}"
    );
    drop(stop);
    within(first).await.unwrap().unwrap();
}

async fn noops_are_acknowledged_by_the_thousand() {
    let (_master, _stop, mut worker) = welcomed().await;
    let total = 20_000;
    let batch = 500;
    let begun = Instant::now();
    let mut sent = 0;

    let mut done = 0;
    while done < total {
        // About a thousand under way, as a master does that prefetches.
        while sent < total && sent - done < 2 * batch {
            let work = (sent..sent + batch).map(|i| Assignment {
                attempt: id(i + 1),
                limit: None,
                report_every: None,
                work: Errand::Noop,
            });
            worker.assign(work.collect()).await;
            sent += batch;
        }

        let ended: Vec<_> = worker
            .delivered()
            .await
            .into_iter()
            .map(|c| c.attempt)
            .collect();
        done += ended.len() as u32;
        worker.acknowledge(ended).await;
    }

    println!(
        "  {:.0} noops/s",
        f64::from(total) / begun.elapsed().as_secs_f64()
    );
    worker.holds(&[]).await;
}

async fn an_idle_worker_sends_heartbeats_as_often_as_its_master_wants_them() {
    let (_master, _stop, mut worker) = welcomed().await;

    // Between the promises to be there, which are seconds apart, it sends many heartbeats.
    let mut promises = 0;
    let mut beats = 0;
    let counted = worker.until(|message| {
        match message {
            ToMaster::Alive(_) => promises += 1,
            ToMaster::Heartbeat { .. } if promises > 0 => beats += 1,
            _ => {}
        }
        (promises == 2).then_some(())
    });
    counted.await;
    assert!(
        beats >= 5,
        "{beats} heartbeats in three seconds, due every 50 ms"
    );
}

async fn progress_is_in_the_heartbeat() {
    let (_master, _stop, mut worker) = welcomed().await;
    worker
        .assign(vec![sh(
            1,
            "echo 0.25 a quarter > $DESKGRID_PROGRESS; sleep 600",
        )])
        .await;

    let held = worker.until(|message| match message {
        ToMaster::Heartbeat { held, .. } => held.into_iter().find(|held| held.progress.is_some()),
        _ => None,
    });
    let held = held.await;
    assert_eq!(
        (held.attempt, held.phase, held.progress),
        (id(1), Phase::Running, Some(0.25))
    );
    let words = worker.until(|message| match message {
        ToMaster::Words(words) => Some(words),
        _ => None,
    });
    assert_eq!(words.await, [(id(1), "a quarter".to_owned())]);
}

async fn an_input_that_cannot_be_had_is_named() {
    let (master, _stop, mut worker) = welcomed().await;
    let nowhere = link::content::hash_bytes(b"nobody has this");
    let mut work = sh(1, "true");
    command(&mut work).inputs = vec![StagedInput {
        path: "data.bin".parse().unwrap(),
        blob: nowhere,
        kind: StagedKind::File,
    }];

    worker.assign(vec![work]).await;
    let done = worker.delivered().await.remove(0);
    let Outcome::NotStarted(why) = &done.outcome else {
        panic!("{done:?}")
    };

    assert!(
        why.starts_with("its input `data.bin` cannot be fetched"),
        "{why}"
    );
    until(|| no_attempt_left(&master.home())).await;
}

async fn an_absent_master_is_reported_without_waiting() {
    let mut master = Master::new();
    // Nothing listens on the discard port of loopback.
    master.identity.link.master = "127.0.0.1:9".to_owned();
    let (stop, run) = master.start();
    until(|| master.home().join("spool/log").exists()).await;
    drop(stop);
    within(run).await.unwrap().unwrap();
}
