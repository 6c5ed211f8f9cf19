//! Content is not had by naming its hash: who reads it, who may name it, and who is kept waiting by
//! whom. And whose jobs are whose to change.

use std::os::unix::fs::MetadataExt;

use common::content::BlobHash;
use common::job::{Compare, Quorum, Tolerance};
use common::wire::stream::{GetReply, PutReply};

use super::identity::audited;
use super::*;

const SECRET: &[u8] = b"what ann keeps to herself";

/// A job of one task that reads this content.
fn reads(blob: BlobRef) -> JobSpec {
    let mut command = CommandSpec::new(vec!["cat".parse().unwrap(), "in".parse().unwrap()]);
    command.inputs.push(Input {
        name: "in".parse().unwrap(),
        kind: InputKind::File,
        source: InputSource::Shared(blob),
    });
    JobSpec {
        work: Work::Command(command),
        ..noops(1)
    }
}

/// What is answered to whoever says that it has this content, before it has sent any.
async fn offer(connection: &Connection, blob: BlobRef) -> (PutReply, Channel) {
    let mut channel = connection.open(&Open::Put(blob)).await.unwrap();
    let reply = within(channel.rx.expect::<PutReply>()).await.unwrap();
    (reply, channel)
}

pub(super) fn get(hash: BlobHash) -> Open {
    Open::Get {
        hash,
        offset: 0,
        peers: false,
        failed: Vec::new(),
    }
}

async fn ask_for(connection: &Connection, hash: BlobHash) -> GetReply {
    let mut channel = connection.open(&get(hash)).await.unwrap();
    within(channel.rx.expect::<GetReply>()).await.unwrap()
}

fn not_here(reply: &GetReply) -> bool {
    matches!(reply, GetReply::Refused(refusal) if refusal.code == RefusalCode::NotFound)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hash_of_foreign_content_reveals_and_gives_nothing() {
    let master = Master::start().await;
    let ann = master.user("ann").await;
    let eve = master.user("eve").await;
    let secret = ann.put_bytes(SECRET).await.unwrap();
    submit(&ann, 1, &reads(secret)).await.unwrap();

    let nowhere = link::content::hash_bytes(b"never sent");
    for blob in [secret, nowhere] {
        let (reply, _) = offer(eve.connection(), blob).await;
        assert_eq!(
            reply,
            PutReply::Resume(0),
            "the same answer, whether it is there or not"
        );

        let refused = submit(&eve, 2, &reads(blob)).await.err().unwrap();
        assert!(
            code(&refused) == RefusalCode::Conflict && refused.to_string().contains("is not here"),
            "{refused}"
        );

        let dry_run = Request::Submit {
            id: RequestId(uuid::Uuid::from_u128(3)),
            spec: Submission::Blob(blob),
            disclosed: false,
            dry_run: true,
        };
        let refused = refusal(&eve, &dry_run).await;
        assert!(refused.to_string().contains("is not here"), "{refused}");
        assert!(not_here(&ask_for(eve.connection(), blob.hash).await));
    }

    audited(&master, "eve", "submit", false, "has not sent it").await;
    // With the bytes it is hers, too; of a job that is shared with her she may name it without.
    assert_eq!(eve.put_bytes(SECRET).await.unwrap(), secret);
    submit(&eve, 4, &reads(secret)).await.unwrap();

    let other = ann.put_bytes(b"another of ann's").await.unwrap();
    let (job, _) = submit(&ann, 5, &reads(other)).await.unwrap();
    share(&ann, one(job), "eve", true).await;

    assert_eq!(offer(eve.connection(), other).await.0, PutReply::Stored);
    submit(&eve, 6, &reads(other)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn uploaded_content_is_not_sent_again_while_it_is_needed() {
    let mut master = Master::start().await;
    let identity = master.enrol(Role::Client, "ann").await;
    let ann = Client::connect(&identity).await.unwrap();
    let blob = ann.put_bytes(SECRET).await.unwrap();
    assert_eq!(offer(ann.connection(), blob).await.0, PutReply::Stored);
    master.restart().await;

    let moved = towards(&master, &identity);
    let ann = Client::connect(&moved).await.unwrap();
    assert_eq!(offer(ann.connection(), blob).await.0, PutReply::Stored);

    let (job, _) = submit(&ann, 1, &reads(blob)).await.unwrap();
    cancel(&ann, one(job)).await;

    ann.ask(&Request::Forget { jobs: one(job) }).await.unwrap();
    submit(&ann, 2, &reads(blob)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_user_blocks_or_spoils_the_upload_of_another() {
    let master = Master::start().await;
    let ann = master.user("ann").await;
    let eve = master.user("eve").await;
    let blob = link::content::hash_bytes(SECRET);
    let (reply, mut squatting) = offer(eve.connection(), blob).await;
    assert_eq!(reply, PutReply::Resume(0));
    squatting.tx.raw().write_all(b"XXXX").await.unwrap();
    within(ann.put_bytes(SECRET)).await.unwrap();

    submit(&ann, 1, &reads(blob)).await.unwrap();
    // What the other one sends is wrong whatever ann has sent, and hers stays.
    squatting.tx.raw().write_all(&SECRET[4..]).await.unwrap();
    squatting.tx.finish();

    let answer = within(squatting.rx.expect::<PutReply>()).await.unwrap();
    assert!(
        matches!(&answer, PutReply::Refused(r) if r.code == RefusalCode::Conflict),
        "{answer:?}"
    );

    let dir = tempfile::tempdir().unwrap();
    ann.fetch(blob, &dir.path().join("back")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_gets_only_the_content_of_its_attempts() {
    let master = Master::start().await;
    let ann = master.user("ann").await;
    let given = ann.put_bytes(SECRET).await.unwrap();
    let other = ann.put_bytes(b"not for this host").await.unwrap();
    let mut worker = master.host("pc").await;
    let idle = master.host("idle").await;
    drain(&master.admin().await, "idle", true).await;

    submit(&ann, 1, &reads(given)).await.unwrap();
    let attempt = worker.assignments(1).await.remove(0).attempt;
    assert!(matches!(
        ask_for(&worker.connection, given.hash).await,
        GetReply::Found(_)
    ));
    assert!(not_here(&ask_for(&worker.connection, other.hash).await));
    assert!(not_here(&ask_for(&idle.connection, given.hash).await));
    audited(&master, "pc", "read", false, "no attempt that it was given").await;

    // Nor does it have anything by delivering a result of that name.
    worker.stdout = Content::Blob(other);
    worker.deliver(attempt).await;
    within(worker.connection.closed()).await;
    assert_eq!(state(&ann, JobId(1)).await, JobState::Running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_gets_the_files_of_the_state_from_which_its_attempt_starts() {
    let master = Master::start().await;
    let pc = master.enrol(Role::Worker, "pc").await;
    submit(&master.admin().await, 1, &saving_job())
        .await
        .unwrap();

    let mut worker = master.worker(&pc, Vec::new()).await;
    let first = worker.assignments(1).await.remove(0);

    let mut known = Vec::new();
    for (sequence, step) in [(1, &b"one"[..]), (2, b"two")] {
        let file = worker.put(step).await;
        let manifest = worker.put(&list_of(file)).await;
        worker
            .saved(first.attempt, sequence, Saving::Complete(manifest))
            .await;
        known.push((file, manifest));
    }

    // Of a file that it never brought it has no state.
    let ann = master.user("ann").await;
    let secret = ann.put_bytes(SECRET).await.unwrap();
    worker
        .saved(
            first.attempt,
            3,
            Saving::Complete(worker.put(&list_of(secret)).await),
        )
        .await;

    let second = worker.again(first.attempt).await;
    assert_eq!(from(&second).map(|saved| saved.sequence), Some(2));

    let (file, manifest) = known[1];
    for needed in [file, manifest] {
        assert!(matches!(
            ask_for(&worker.connection, needed.hash).await,
            GetReply::Found(_)
        ));
    }

    for other in [known[0].0, secret] {
        assert!(not_here(&ask_for(&worker.connection, other.hash).await));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn content_of_a_delivered_result_is_as_young_as_new() {
    let master = Master::start().await;
    let ann = master.user("ann").await;
    let mut worker = master
        .worker(&master.enrol(Role::Worker, "pc").await, Vec::new())
        .await;
    submit(&ann, 1, &noops(1)).await.unwrap();
    let attempt = worker.assignments(1).await.remove(0).attempt;
    let blob = worker.put(SECRET).await;

    // It was brought long ago, so that a sweep has it on its list.
    let store = link::BlobStore::open(&master.dir.path().join("master/content")).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH;
    let file = std::fs::File::options()
        .write(true)
        .open(store.path_of(&blob.hash));
    file.unwrap().set_modified(old).unwrap();

    worker.stdout = Content::Blob(blob);
    worker.deliver(attempt).await;
    worker.acknowledged(attempt).await;
    assert_ne!(store.modified(&blob.hash), Some(old));
}

/// Changes one byte of content that lies at the master, as a disk does that fails.
pub(super) fn damage(master: &Master, blob: BlobRef) {
    let path = master.content().path_of(&blob.hash);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[0] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_was_damaged_at_the_master_is_computed_again_on_demand() {
    let mut master = Master::start().await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let ann_identity = master.enrol(Role::Client, "ann").await;
    let ann = Client::connect(&ann_identity).await.unwrap();
    let mut worker = master.worker(&pc, Vec::new()).await;
    let (job, _) = submit(&ann, 1, &noops(2)).await.unwrap();
    let mut results = Vec::new();

    for fill in [7, 8] {
        let attempt = worker.assignments(1).await.remove(0).attempt;
        let blob = worker.put(&[fill; 9_000]).await;
        worker.stdout = Content::Blob(blob);
        worker.finish(attempt).await;
        results.push((attempt, blob));
    }

    assert_eq!(state(&ann, job).await, JobState::Finished);
    let recompute = Request::Recompute {
        job,
        tasks: Selector::All,
    };
    assert_eq!(changed(&ann, &recompute).await, [(job, 0)]);

    let (lost, blob) = results[1];
    damage(&master, blob);
    assert_eq!(changed(&ann, &recompute).await, [(job, 1)]);

    let again = worker.assignments(1).await.remove(0).attempt;
    assert_eq!((again.task, again.number), (lost.task, 2));
    worker.stdout = Content::Blob(worker.put(&[8; 9_000]).await);
    worker.finish(again).await;
    assert_eq!(state(&ann, job).await, JobState::Finished);

    let dir = tempfile::tempdir().unwrap();
    ann.fetch(blob, &dir.path().join("whole")).await.unwrap();

    let tasks = tasks(&ann, job).await;
    let why = tasks[usize::try_from(lost.task.index).unwrap() - 1].attempts[0]
        .reason
        .clone()
        .unwrap_or_default();
    assert!(why.contains("damaged or lost on the master"), "{why}");

    // The same over a restart, of a job that is settled and of which nothing is in memory.
    damage(&master, blob);
    master.restart().await;

    let moved = towards(&master, &ann_identity);
    let ann = Client::connect(&moved).await.unwrap();
    assert_eq!(changed(&ann, &recompute).await, [(job, 1)]);

    let mut worker = master.worker(&pc, Vec::new()).await;
    assert_eq!(worker.assignments(1).await.remove(0).attempt.number, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_cannot_be_read_at_present_are_kept() {
    let master = Master::start().await;
    let ann = master.user("ann").await;
    let mut worker = master.host("pc").await;
    let (job, _) = submit(&ann, 1, &noops(2)).await.unwrap();
    let blob = worker.put(&[7; 9_000]).await;
    worker.stdout = Content::Blob(blob);

    for attempt in worker.assignments(2).await {
        worker.finish(attempt.attempt).await;
    }
    assert_eq!(state(&ann, job).await, JobState::Finished);

    let recompute = Request::Recompute {
        job,
        tasks: Selector::Ids(IdSet::from_range(1, 1)),
    };
    let content = master.dir.path().join("master/content");
    let path = master.content().path_of(&blob.hash);
    let aside = master.dir.path().join("aside");

    // A directory in the place of the file can be opened and not be read.
    std::fs::rename(&path, &aside).unwrap();
    std::fs::create_dir(&path).unwrap();
    let refused = ann.ask(&recompute).await.err().unwrap();
    assert_eq!(code(&refused), RefusalCode::Unavailable, "{refused}");
    assert_eq!(state(&ann, job).await, JobState::Finished);
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(&aside, &path).unwrap();

    // Nor is anything lost while what is mounted there has gone.
    std::fs::rename(&content, &aside).unwrap();
    std::fs::create_dir(&content).unwrap();
    let refused = ann.ask(&recompute).await.err().unwrap();
    assert_eq!(code(&refused), RefusalCode::Unavailable, "{refused}");
    assert_eq!(state(&ann, job).await, JobState::Finished);
    std::fs::remove_dir_all(&content).unwrap();
    std::fs::rename(&aside, &content).unwrap();

    assert_eq!(changed(&ann, &recompute).await, [(job, 0)]);
    let dir = tempfile::tempdir().unwrap();
    ann.fetch(blob, &dir.path().join("whole")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_was_damaged_at_the_master_is_put_aside_and_comes_again_from_its_user() {
    let master = Master::start().await;
    let ann = master.user("ann").await;
    let blob = ann.put_bytes(SECRET).await.unwrap();
    submit(&ann, 1, &reads(blob)).await.unwrap();
    damage(&master, blob);

    let mut worker = master.host("pc").await;
    worker.assignments(1).await;

    let cache = tempfile::tempdir().unwrap();
    let cache = link::BlobStore::open(cache.path()).unwrap();
    let damaged = link::content::get(&worker.connection, &cache, blob)
        .await
        .err()
        .unwrap();
    assert!(matches!(damaged, LinkError::Damaged { .. }), "{damaged:?}");

    // From then on it is not here, and its user sends it instead of being told that it is.
    eventually(async || not_here(&ask_for(&worker.connection, blob.hash).await)).await;

    ann.put_bytes(SECRET).await.unwrap();
    link::content::get(&worker.connection, &cache, blob)
        .await
        .unwrap();
}

/// A KiB, in bytes.
const KIB: usize = 1 << 10;

fn little_room(config: &mut Config) {
    config.limits.unused_bytes_per_user = 100 * KIB as u64;
}

/// The bytes that have come of content that is under way.
fn came(master: &Master) -> u64 {
    let incoming = master.dir.path().join("master/content/incoming");
    let parts = std::fs::read_dir(incoming).unwrap();
    parts
        .map(|part| part.unwrap().metadata().unwrap().len())
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn content_without_a_job_counts_only_against_its_sender() {
    let master = Master::with(little_room).await;
    let ann = master.user("ann").await;
    let bob = master.user("bob").await;
    let first = ann.put_bytes(&[1; 60 * KIB]).await.unwrap();
    let refused = ann.put_bytes(&[2; 60 * KIB]).await.err().unwrap();
    let LinkError::Refused(refusal) = &refused else {
        panic!("{refused:?}")
    };

    assert!(
        refusal.message.contains("no job needs") && refusal.hint.contains("submit the jobs"),
        "{refusal:?}"
    );
    audited(&master, "ann", "put", false, "no job needs").await;
    bob.put_bytes(&[2; 60 * KIB]).await.unwrap();

    // What a job needs does not count; once that is forgotten it does again.
    let (job, _) = submit(&ann, 1, &reads(first)).await.unwrap();
    let second = ann.put_bytes(&[3; 60 * KIB]).await.unwrap();
    cancel(&ann, one(job)).await;

    ann.ask(&Request::Forget { jobs: one(job) }).await.unwrap();
    submit(&ann, 2, &reads(second)).await.unwrap();
    assert!(ann.put_bytes(&[4; 60 * KIB]).await.is_err());
    ann.put_bytes(&[4; 40 * KIB]).await.unwrap();

    // What is under way counts, and so does what broke off.
    let begun = link::content::hash_bytes(&[5; 40 * KIB]);
    let (reply, mut broken) = offer(bob.connection(), begun).await;
    assert_eq!(reply, PutReply::Resume(0));
    broken.tx.raw().write_all(&[5; 39 * KIB]).await.unwrap();

    eventually(async || came(&master) >= 39 * KIB as u64).await;
    assert!(bob.put_bytes(&[6; 2]).await.is_err());
    broken.tx.raw().reset(9u32.into()).unwrap();
    assert!(bob.put_bytes(&[6; 2]).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_come_of_a_file_counts_once_while_the_rest_is_under_way() {
    let master = Master::with(little_room).await;
    let ann = master.user("ann").await;
    let bytes = [1; 40 * KIB];
    let (reply, mut under_way) = offer(ann.connection(), link::content::hash_bytes(&bytes)).await;
    assert_eq!(reply, PutReply::Resume(0));
    let (most, rest) = bytes.split_at(39 * KIB);
    under_way.tx.raw().write_all(most).await.unwrap();
    eventually(async || came(&master) >= most.len() as u64).await;

    // Both together are as much as there is room for.
    ann.put_bytes(&[2; 60 * KIB]).await.unwrap();
    under_way.tx.raw().write_all(rest).await.unwrap();
    under_way.tx.finish();
    let stored: PutReply = within(under_way.rx.expect()).await.unwrap();
    assert_eq!(stored, PutReply::Stored);
    assert!(ann.put_bytes(&[3; 2]).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn tiny_files_without_a_job_count_as_what_a_disk_can_hold_of_them() {
    let master = Master::with(little_room).await;
    let ann = master.user("ann").await;
    let mut sent = 0_u8;
    while ann.put_bytes(&[sent]).await.is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 6, "16 KiB each in 100");

    // So do those that broke off, however little of them has come.
    let bob = master.user("bob").await;
    let mut begun = 0_u8;
    loop {
        let (reply, mut broken) =
            offer(bob.connection(), link::content::hash_bytes(&[begun])).await;
        if reply != PutReply::Resume(0) {
            break;
        }
        broken.tx.raw().finish().unwrap();
        begun += 1;
    }
    assert!((1..=6).contains(&begun), "{begun}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_broke_off_goes_on_with_every_byte_that_came() {
    let master = Master::start().await;
    let ann = master.user("ann").await;
    let bytes: Vec<u8> = (0..900_000u32).map(|i| (i * 7 % 251) as u8).collect();
    let blob = link::content::hash_bytes(&bytes);
    let (reply, mut broken) = offer(ann.connection(), blob).await;
    assert_eq!(reply, PutReply::Resume(0));
    broken.tx.raw().write_all(&bytes[..777_777]).await.unwrap();

    eventually(async || came(&master) >= 777_777).await;
    broken.tx.raw().reset(9u32.into()).unwrap();

    let (reply, mut again) = offer(ann.connection(), blob).await;
    assert_eq!(reply, PutReply::Resume(777_777));
    again.tx.raw().write_all(&bytes[777_777..]).await.unwrap();
    again.tx.finish();
    let stored: PutReply = within(again.rx.expect()).await.unwrap();
    assert_eq!(stored, PutReply::Stored);
}

/// What a request does to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It shows something of it.
    Looks,
    /// It changes it.
    Changes,
    /// No job is meant.
    Other,
}

/// Each kind of request that there is: a new one is to be sorted in here before this compiles.
fn kind(request: &Request) -> Kind {
    match request {
        Request::Jobs { .. }
        | Request::Watch { .. }
        | Request::Tasks { .. }
        | Request::Outputs { .. }
        | Request::Follow(_)
        | Request::Tail { .. }
        | Request::Explain { .. }
        | Request::Running { .. }
        | Request::Work { .. } => Kind::Looks,
        Request::Cancel { .. }
        | Request::Retry { .. }
        | Request::Recompute { .. }
        | Request::Forget { .. }
        | Request::Undecided { .. }
        | Request::Judge { .. }
        | Request::Share { .. }
        | Request::RequestTasks { .. }
        | Request::AddTasks { .. }
        | Request::Close { .. }
        | Request::CancelUnrequested { .. } => Kind::Changes,
        Request::Hello(_)
        | Request::Submit { .. }
        | Request::Estimates { .. }
        | Request::Account { .. }
        | Request::Accuracy
        | Request::Masters
        | Request::HandOver
        | Request::HostsWait { .. }
        | Request::HostExplain { .. }
        | Request::Hosts { .. }
        | Request::Drain { .. }
        | Request::Undrain { .. }
        | Request::HostForget { .. }
        | Request::HostOwner { .. }
        | Request::HostLabels { .. }
        | Request::Site
        | Request::SiteChange { .. }
        | Request::Update(_)
        | Request::TokenCreate { .. }
        | Request::TokenList
        | Request::TokenRevoke { .. }
        | Request::Availability { .. }
        | Request::Identities { .. }
        | Request::Approve { .. }
        | Request::Revoke { .. }
        | Request::Audit { .. } => Kind::Other,
    }
}

/// A request of each kind about a job of one task.
fn about(job: JobId) -> Vec<Request> {
    let attempt = AttemptId {
        task: common::TaskId::new(job, 1),
        number: 1,
        incarnation: common::Incarnation(1),
    };
    vec![
        Request::Jobs {
            jobs: one(job),
            states: Vec::new(),
        },
        Request::Watch {
            jobs: one(job),
            quiet: true,
            timeout: Some(Span::from_millis(1)),
        },
        Request::Tasks {
            job,
            tasks: Selector::All,
            states: Vec::new(),
        },
        Request::Outputs {
            job,
            tasks: Selector::All,
        },
        Request::Undecided { job },
        Request::Follow(common::event::Following {
            jobs: Some(one(job)),
            ..Default::default()
        }),
        Request::Explain { job },
        Request::Running { job },
        Request::Work { job },
        Request::Judge {
            attempt,
            agrees: Vec::new(),
        },
        Request::Share {
            jobs: one(job),
            user: "bob".into(),
            on: true,
        },
        Request::RequestTasks {
            job,
            tasks: Selector::All,
        },
        Request::CancelUnrequested { jobs: one(job) },
        Request::AddTasks {
            id: common::RequestId(uuid::Uuid::from_u128(9)),
            job,
            tasks: common::wire::client::Addition::Inline(common::NewTasks::Next),
            dry_run: false,
        },
        Request::Close { jobs: one(job) },
        Request::Retry {
            job,
            tasks: Selector::All,
            only_failed: false,
        },
        Request::Recompute {
            job,
            tasks: Selector::All,
        },
        Request::Cancel {
            jobs: one(job),
            tasks: None,
        },
        // Looking ends at once, as the job is cancelled.
        Request::Tail {
            task: attempt.task,
            stream: common::attempt::StreamKind::Stdout,
            from: common::wire::client::TailFrom::Start,
        },
        Request::Forget { jobs: one(job) },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_job_can_be_viewed_and_a_strangers_cannot() {
    let master = Master::start().await;
    let ann = master.user("ann").await;
    let bob = master.user("bob").await;
    let eve = master.user("eve").await;
    let admin = master.admin().await;
    let (job, _) = submit(&ann, 1, &noops(1)).await.unwrap();
    share(&ann, one(job), "bob", true).await;

    for request in &about(job) {
        let refused = async |client: &Client| {
            within(client.ask(request))
                .await
                .err()
                .map(|error| code(&error))
        };
        assert_eq!(
            refused(&eve).await,
            Some(RefusalCode::NotFound),
            "{request:?} of a stranger"
        );

        let expected = match kind(request) {
            Kind::Looks => None,
            Kind::Changes => Some(RefusalCode::NotAuthorised),
            Kind::Other => panic!("{request:?} is about no job"),
        };
        assert_eq!(
            refused(&bob).await,
            expected,
            "{request:?} of one with whom it is shared"
        );
        for (who, client) in [("its owner", &ann), ("an admin", &admin)] {
            let answer = refused(client).await;
            // The last of them forgets it: then it is not there for the second.
            let gone = matches!(request, Request::Forget { .. }) && who == "an admin";
            let may = matches!(answer, None | Some(RefusalCode::Conflict)) || gone;
            assert!(may, "{request:?} of {who}: {answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processor_time_that_an_attempt_cannot_have_had_is_neither_billed_nor_believed() {
    let master = Master::start().await;
    let ann = master.user("ann").await;
    let mut worker = master.host("pc").await;

    submit(&ann, 1, &noops(2)).await.unwrap();
    for wild in [1 << 62, u64::MAX] {
        let attempt = worker.assignments(1).await.remove(0).attempt;
        let completion = Completion {
            ran: Span::from_millis(5),
            cpu: Span(wild),
            ..Completion::bare(attempt, Outcome::Succeeded)
        };

        worker.deliver_this(completion).await;

        worker.acknowledged(attempt).await;
    }

    let billed_s = account(&ann).await.billed_s;
    assert!(billed_s > 0.0 && billed_s < 60.0, "{billed_s} s");
    audited(&master, "pc", "claim", false, "of processor time").await;
}

/// A job of so many tasks, of each of which two results are compared like this.
fn compared(tasks: u32, compare: Compare) -> JobSpec {
    let quorum = Quorum {
        size: 2,
        adaptive: false,
        compare,
    };
    let rules = Rules {
        quorum,
        ..Rules::default()
    };
    JobSpec {
        rules,
        ..noops(tasks)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tolerance_of_nonsense_is_refused_in_words() {
    let master = Master::start().await;
    let nan: Tolerance =
        postcard::from_bytes(&postcard::to_stdvec(&f64::NAN.to_bits()).unwrap()).unwrap();

    let spec = compared(1, Compare::Floats(nan));
    let refused = submit(&master.user("ann").await, 1, &spec)
        .await
        .err()
        .unwrap();
    assert!(
        code(&refused) == RefusalCode::Invalid && refused.to_string().contains("within NaN"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_results_that_a_program_is_to_compare_can_be_judged() {
    let master = Master::start().await;
    let ann = master.user("ann").await;
    let (job, _) = submit(&ann, 1, &noops(1)).await.unwrap();
    let refused = refusal(&ann, &Request::Undecided { job }).await;
    assert!(
        code(&refused) == RefusalCode::Conflict && refused.to_string().contains("no program"),
        "{refused}"
    );

    let judged = compared(1, Compare::Program);
    let (job, _) = submit(&ann, 2, &judged).await.unwrap();
    let waiting = within(ann.ask(&Request::Undecided { job })).await.unwrap();
    assert!(waiting.is_empty(), "{waiting:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn results_with_too_many_files_for_a_message_are_refused_after_those_of_other_tasks() {
    let master = Master::start().await;
    let ann = master.user("ann").await;
    let mut hosts = [master.host("one").await, master.host("other").await];
    // More than are looked at together.
    let tasks = 34;
    let spec = compared(tasks, Compare::Program);
    let (job, _) = submit(&ann, 1, &spec).await.unwrap();

    for _ in 0..tasks {
        for host in &mut hosts {
            let blob = host.put(SECRET).await;
            let file = |number: u32| OutputFile {
                path: format!("{number:0>150}").parse().unwrap(),
                blob,
                executable: false,
            };
            let attempt = host.assignments(1).await[0].attempt;
            // Those of one attempt fit into a message, and those of two do not.
            let is_last = attempt.task.index == tasks;
            let files = if is_last { 1 } else { 750 };
            host.outputs = (0..files).map(file).collect();
            host.finish(attempt).await;
        }
    }

    let waiting = within(ann.ask(&Request::Undecided { job })).await.unwrap();
    let [Reply::Undecided(undecided)] = &waiting[..] else {
        panic!("{} wait", waiting.len());
    };
    let attempt = undecided.result.attempt;
    assert_eq!(attempt.task.index, tasks);
    let agrees = undecided.others.iter().map(|other| other.attempt.number);
    let agrees = agrees.collect();
    within(ann.ask(&Request::Judge { attempt, agrees }))
        .await
        .unwrap();

    let refused = refusal(&ann, &Request::Undecided { job }).await;
    let named = refused.to_string().contains(&format!("task {job}.1"));
    assert!(
        code(&refused) == RefusalCode::Conflict && named,
        "{refused}"
    );
}

/// Has both hosts compute the only task of this user's job with results that are to be compared. The
/// first one's content is done `meanwhile` something to before the second one's comes.
async fn computed_twice(
    (user, request): (&Client, u128),
    hosts: &mut [Worker; 2],
    results: [&[u8]; 2],
    meanwhile: impl FnOnce(&BlobHash),
) -> JobId {
    let spec = compared(1, Compare::Floats(Tolerance::new(0.1).unwrap()));
    let (job, _) = submit(user, request, &spec).await.unwrap();

    let [first, second] = hosts;
    let attempt = first.assignments(1).await.remove(0).attempt;
    let blob = first.put(results[0]).await;
    first.stdout = Content::Blob(blob);
    first.finish(attempt).await;
    meanwhile(&blob.hash);

    let attempt = second.assignments(1).await.remove(0).attempt;
    second.stdout = Content::Blob(second.put(results[1]).await);
    second.finish(attempt).await;
    job
}

async fn until_finished(user: &Client, job: JobId) {
    eventually(async || state(user, job).await == JobState::Finished).await;
}

/// A master with two hosts, where the comparison of two results of ann's takes until somebody has written to a pipe.
#[cfg(unix)]
struct SlowComparison {
    master: Master,
    ann: Client,
    hosts: [Worker; 2],
    waits: JobId,
    pipe: std::path::PathBuf,
}

#[cfg(unix)]
impl SlowComparison {
    async fn start() -> Self {
        let master = Master::start().await;
        let ann = master.user("ann").await;
        let mut hosts = [master.host("one").await, master.host("other").await];

        let store = master.content();
        let mut pipe = std::path::PathBuf::new();
        let slow = |hash: &BlobHash| {
            pipe = store.path_of(hash);
            std::fs::remove_file(&pipe).unwrap();
            let made = std::process::Command::new("mkfifo").arg(&pipe).status();
            assert!(made.unwrap().success());
        };
        let waits = computed_twice((&ann, 1), &mut hosts, [b"1.00", b"1.01"], slow).await;
        Self {
            master,
            ann,
            hosts,
            waits,
            pipe,
        }
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_that_takes_long_keeps_only_its_own_user_waiting() {
    let SlowComparison {
        master,
        ann,
        mut hosts,
        waits,
        pipe,
    } = SlowComparison::start().await;
    let bob = master.user("bob").await;
    let decided = computed_twice((&bob, 2), &mut hosts, [b"2.00", b"2.01"], |_| ()).await;

    until_finished(&bob, decided).await;
    assert_ne!(state(&ann, waits).await, JobState::Finished);
    let written = tokio::task::spawn_blocking(move || std::fs::write(&pipe, b"1.00"));
    within(written).await.unwrap().unwrap();
    until_finished(&ann, waits).await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_reads_its_results_only_when_its_turn_has_come() {
    if database::is_used() {
        return; // There is no file to change.
    }
    let SlowComparison {
        master,
        ann,
        mut hosts,
        waits,
        pipe,
    } = SlowComparison::start().await;
    // Who opens a pipe to write waits for somebody who reads it: that is the first comparison.
    let opened =
        tokio::task::spawn_blocking(move || std::fs::OpenOptions::new().write(true).open(&pipe));
    let mut writes = within(opened).await.unwrap().unwrap();
    let second = computed_twice((&ann, 2), &mut hosts, [b"2.00", b"9.00"], |_| ()).await;

    // The second one waits. What the store has by its turn is compared, and nothing that was kept since.
    let same = "UPDATE attempt SET result = (SELECT result FROM attempt WHERE job = ?1 AND number = 1) WHERE job = ?1";
    let changed = master.store_file().execute(same, [second.0]).unwrap();
    assert_eq!(changed, 2);
    std::io::Write::write_all(&mut writes, b"1.00").unwrap();
    drop(writes);

    until_finished(&ann, waits).await;
    until_finished(&ann, second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_content_has_a_disk_of_its_own_room_is_held_on_that_too() {
    let mut master = Master::start().await;
    master.stop().await;
    let home = master.dir.path().join("master");
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else {
        return; // There is no second disk.
    };
    let device = |dir: &std::path::Path| std::fs::metadata(dir).unwrap().dev();
    if device(other.path()) == device(&home) {
        return;
    }

    std::fs::copy(home.join("content/grid"), other.path().join("grid")).unwrap();
    std::fs::remove_dir_all(home.join("content")).unwrap();
    std::os::unix::fs::symlink(other.path(), home.join("content")).unwrap();
    master.settings = |config| config.reserve_bytes = 32 << 20;
    master.again().await;
    for dir in [&home, other.path()] {
        let held = std::fs::metadata(dir.join("reserve")).map(|file| file.len());
        assert_eq!(held.unwrap_or(0), 8 << 20, "{}", dir.display());
    }
    let ann = master.user("ann").await;
    ann.put_bytes(SECRET).await.unwrap();
}
