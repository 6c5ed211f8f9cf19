//! What the spool promises over crashes.

use std::fs::{File, OpenOptions};
use std::io::Write;

use common::attempt::{OutputFile, Stream};
use common::{Content, Incarnation, JobId, TaskId};

use super::*;

fn attempt(index: u32) -> AttemptId {
    AttemptId {
        task: TaskId::new(JobId(1), index),
        number: 1,
        incarnation: Incarnation(1),
    }
}

fn completion(index: u32, outputs: Vec<OutputFile>) -> Completion {
    Completion {
        ran: Span(5),
        cpu: Span(3),
        stdout: Stream {
            content: Content::Inline(vec![7; index as usize]),
            dropped: 0,
        },
        outputs,
        ..Completion::bare(attempt(index), Outcome::Exited(index as i32))
    }
}

fn moment(at: u64) -> HostMoment {
    HostMoment {
        boot: Some(Uuid::from_u128(9)),
        at: Time(at),
    }
}

fn open(dir: &Path) -> Spool {
    Spool::open(dir).unwrap()
}

fn ids(spool: &Spool) -> Vec<u32> {
    spool.ids().map(|id| id.task.index).collect()
}

fn output(spool: &Spool, dir: &Path, bytes: &[u8]) -> OutputFile {
    let path = dir.join("output");
    std::fs::write(&path, bytes).unwrap();
    let blob = spool.blobs.add(&mut File::open(path).unwrap()).unwrap();
    OutputFile {
        path: "output".parse().unwrap(),
        blob,
        executable: false,
    }
}

fn append(spool: &mut Spool, completions: &[Completion], ended: HostMoment) {
    spool
        .append(completions.iter().map(|completion| (completion, ended)))
        .unwrap();
}

#[test]
fn whole_records_survive_a_log_torn_at_any_byte() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = open(dir.path());
    let mut ends = vec![0];

    for index in 1..=5 {
        append(&mut spool, &[completion(index, vec![])], moment(1));
        ends.push(spool.length);
    }

    drop(spool);
    let whole = std::fs::read(dir.path().join("log")).unwrap();
    for cut in 0..=whole.len() {
        std::fs::write(dir.path().join("log"), &whole[..cut]).unwrap();
        let survivors = ends
            .iter()
            .filter(|end| **end > 0 && **end <= cut as u64)
            .count();
        assert_eq!(ids(&open(dir.path())).len(), survivors, "cut at {cut}");
    }
}

#[test]
fn a_flipped_byte_costs_no_record_before_it_and_the_log_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = open(dir.path());
    append(
        &mut spool,
        &[completion(1, vec![]), completion(2, vec![])],
        moment(1),
    );

    let mut bytes = std::fs::read(dir.path().join("log")).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    drop(spool);
    std::fs::write(dir.path().join("log"), &bytes).unwrap();

    let mut spool = open(dir.path());
    assert_eq!(ids(&spool), [1]);
    append(&mut spool, &[completion(3, vec![])], moment(1));
    drop(spool);
    assert_eq!(ids(&open(dir.path())), [1, 3]);
}

#[test]
fn damaged_records_cost_none_behind_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = open(dir.path());
    let mut ends = Vec::new();
    for index in 1..=5 {
        append(&mut spool, &[completion(index, vec![])], moment(1));
        ends.push(spool.length as usize);
    }
    drop(spool);

    let whole = std::fs::read(dir.path().join("log")).unwrap();
    let left_after = |damaged: &[usize]| {
        let mut bytes = whole.clone();
        damaged.iter().for_each(|at| bytes[*at] ^= 1);
        std::fs::write(dir.path().join("log"), &bytes).unwrap();
        let left = ids(&open(dir.path()));
        // Nothing is lost a second time.
        assert_eq!(ids(&open(dir.path())), left);
        left
    };
    let first = mark().len();
    assert_eq!(left_after(&[HEAD + 3]), [1, 2, 3, 4, 5], "in the mark");
    assert_eq!(left_after(&[first + HEAD + 3]), [2, 3, 4, 5]);
    assert_eq!(left_after(&[first + 5]), [2, 3, 4, 5], "in its checksum");
    assert_eq!(left_after(&[ends[0] - 1, ends[1] - 1]), [3, 4, 5]);
    assert_eq!(left_after(&[ends[2] - 1]), [1, 2, 4, 5]);
    assert_eq!(left_after(&[ends[4] - 1]), [1, 2, 3, 4]);
}

#[test]
fn of_a_record_damaged_meanwhile_the_master_hears_that_it_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = open(dir.path());
    let three = [1, 2, 3].map(|index| completion(index, vec![]));
    append(&mut spool, &three, moment(1));

    let mut bytes = std::fs::read(dir.path().join("log")).unwrap();
    bytes[mark().len() + HEAD + 3] ^= 1;
    std::fs::write(dir.path().join("log"), &bytes).unwrap();
    let read = spool.read(&[1, 2, 3].map(attempt), moment(1));
    let outcomes: Vec<_> = read.iter().map(|one| &one.completion.outcome).collect();
    assert!(
        matches!(
            outcomes[..],
            [
                Outcome::ResultLost(_),
                Outcome::Exited(2),
                Outcome::Exited(3)
            ]
        ),
        "{outcomes:?}"
    );
    assert_eq!(read[0].completion.attempt, attempt(1));
}

#[test]
fn a_record_of_version_1_reads_as_it_was_written_with_the_mark_and_without_it() {
    // If this fails the layout has changed: raise the version in `MARK`, and write down the new bytes.
    let ended = [&[1, 16][..], &[0; 15], &[9, 1]].concat();
    let attempt_1 = [1, 1, 1, 1];
    let payload = [
        &ended[..],
        &attempt_1,
        &[1, 2, 5, 0, 3],
        &[0, 1, 7, 0],
        &[0, 0, 0],
        &[0, 0, 0],
    ];
    let record = seal([vec![0; HEAD], payload.concat()].concat(), 0);

    for log in [record.clone(), [mark(), record].concat()] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(LOG), log).unwrap();
        let read = open(dir.path()).read(&[attempt(1)], moment(1));
        let written = Delivery {
            completion: completion(1, vec![]),
            ago: Span::ZERO,
        };
        assert_eq!(read, [written]);
    }
}

#[test]
fn results_of_another_version_are_put_aside_with_their_blobs_and_new_ones_are_kept() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("spool");
    let mut spool = open(&dir);
    let left = output(&spool, home.path(), b"left");
    append(&mut spool, &[completion(1, vec![left.clone()])], moment(1));
    drop(spool);

    let record = |payload: &[u8]| seal([&[0; HEAD][..], payload].concat(), 0);
    let ours = std::fs::read(dir.join(LOG)).unwrap();
    let newer = [&record(b"deskgrid spool 2")[..], &ours[mark().len()..]].concat();
    for (number, theirs) in [(1, newer), (2, record(b"\xffolder"))] {
        std::fs::write(dir.join(LOG), &theirs).unwrap();
        let mut spool = open(&dir);
        assert_eq!(ids(&spool), [0u32; 0]);
        append(&mut spool, &[completion(7, vec![])], moment(1));
        drop(spool);
        assert_eq!(ids(&open(&dir)), [7]);

        let aside = home.path().join(format!("spool.unknown-{number}"));
        assert_eq!(std::fs::read(aside.join(LOG)).unwrap(), theirs);
        let kept = Blobs::open(&aside.join("blobs")).unwrap().has(&left.blob);
        assert_eq!(kept, number == 1);
    }
}

#[test]
fn garbage_after_the_records_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    append(&mut open(dir.path()), &[completion(1, vec![])], moment(1));
    OpenOptions::new()
        .append(true)
        .open(dir.path().join("log"))
        .unwrap()
        .write_all(&[0xff; 40])
        .unwrap();
    assert_eq!(ids(&open(dir.path())), [1]);
}

#[test]
fn completions_are_read_back_as_they_were_with_their_age() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = open(dir.path());
    append(&mut spool, &[completion(1, vec![])], moment(1_000));
    drop(spool);

    let spool = open(dir.path());
    let wanted = [attempt(1), attempt(2)];
    let read = spool.read(&wanted, moment(5_000));
    assert_eq!(
        read,
        [Delivery {
            completion: completion(1, vec![]),
            ago: Span(4_000)
        }]
    );

    let other_boot = HostMoment {
        boot: Some(Uuid::from_u128(10)),
        at: Time(5_000),
    };
    assert_eq!(spool.read(&wanted, other_boot)[0].ago, Span::ZERO);
}

#[test]
fn on_every_system_the_age_of_a_result_of_the_same_run_is_known() {
    let ended = crate::worker::moment();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(crate::worker::moment().since(ended) > Span::ZERO);
}

#[test]
fn a_blob_goes_with_its_last_completion_and_not_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = open(dir.path());
    let a = output(&spool, dir.path(), b"same");
    let b = output(&spool, dir.path(), b"same");
    let blob = a.blob;

    append(
        &mut spool,
        &[completion(1, vec![a]), completion(2, vec![b])],
        moment(1),
    );
    spool.forget(&[attempt(1)]).unwrap();
    assert!(spool.blobs.has(&blob));

    // A crash now brings both back: the acknowledgement was not recorded, and the blob is still
    // there.
    drop(spool);
    let mut spool = open(dir.path());
    assert_eq!(ids(&spool), [1, 2]);
    spool.forget(&[attempt(1), attempt(2)]).unwrap();
    assert!(!spool.blobs.has(&blob));
    drop(spool);

    // And after that one, neither: the blob went, so both were acknowledged.
    assert_eq!(ids(&open(dir.path())), [0u32; 0]);
}

#[test]
fn blobs_without_a_record_are_swept_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let spool = open(dir.path());
    let orphan = output(&spool, dir.path(), b"crashed before its record").blob;
    assert!(spool.blobs.has(&orphan));
    drop(spool);
    assert!(!open(dir.path()).blobs.has(&orphan));
}

#[test]
fn whatever_lies_among_unfinished_blobs_is_removed_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let incoming = dir.path().join("blobs/incoming");
    std::fs::create_dir_all(incoming.join("stray/within")).unwrap();
    std::fs::write(incoming.join("unfinished"), "x").unwrap();
    open(dir.path());
    assert_eq!(std::fs::read_dir(incoming).unwrap().count(), 0);
}

#[test]
fn the_log_shrinks_when_little_of_it_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = open(dir.path());
    let many: Vec<_> = (1..=2_000).map(|i| completion(i, vec![])).collect();
    append(&mut spool, &many, moment(1));
    assert!(spool.length > COMPACT_ABOVE);

    let all_but_ten: Vec<_> = (1..=1_990).map(attempt).collect();
    spool.forget(&all_but_ten).unwrap();
    assert!(spool.length < COMPACT_ABOVE / 4);

    let left: Vec<u32> = (1_991..=2_000).collect();
    assert_eq!(ids(&spool), left);
    assert_eq!(
        spool.read(&[attempt(1_995)], moment(1))[0].completion,
        completion(1_995, vec![])
    );
    drop(spool);
    assert_eq!(ids(&open(dir.path())), left);
}

/// Hands in these requests; what is said then, and whether some wait.
fn work(
    desk: &mut writer::PendingRequests,
    requests: Vec<writer::SpoolRequest>,
) -> (Vec<writer::Spooled>, bool) {
    requests.into_iter().for_each(|request| desk.take(request));
    let mut said = Vec::new();
    desk.work(moment(1), &mut |spooled| said.push(spooled))
        .unwrap();
    (said, desk.waiting())
}

/// A log on a disk with room for so many bytes.
#[derive(Debug)]
struct Small {
    bytes: Vec<u8>,
    room: Arc<std::sync::atomic::AtomicUsize>,
}

impl Medium for Small {
    fn read(&self) -> io::Result<Vec<u8>> {
        Ok(self.bytes.clone())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        bytes.copy_from_slice(&self.bytes[offset as usize..][..bytes.len()]);
        Ok(())
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if offset as usize + bytes.len() > self.room.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.truncate(offset as usize);
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.bytes.resize(length as usize, 0);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Both lie on the disk for a while.
        let both = self.bytes.len() + bytes.len();
        if both > self.room.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes = bytes.to_vec();
        Ok(())
    }
}

#[test]
fn on_a_full_disk_new_completions_are_delivered_from_memory_and_saved_once_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = Arc::new(Blobs::open(&dir.path().join("blobs")).unwrap());
    let room = Arc::new(std::sync::atomic::AtomicUsize::new(1 << 20));
    let small = Small {
        bytes: Vec::new(),
        room: Arc::clone(&room),
    };
    let mut desk = writer::PendingRequests::new(Spool::on(Box::new(small), blobs).unwrap());
    let mut work = |requests| work(&mut desk, requests);

    let append = |completions| writer::SpoolRequest::Append {
        completions,
        more: false,
    };
    let old: Vec<Completion> = (200..400).map(|index| completion(index, vec![])).collect();
    let ids: Vec<AttemptId> = old.iter().map(|old| old.attempt).collect();

    assert!(
        matches!(&work(vec![append(old)]).0[..], [writer::Spooled::Durable(all)] if all.len() == 200)
    );
    room.store(
        CUT_ABOVE as usize + 1_000,
        std::sync::atomic::Ordering::Relaxed,
    );

    let new = (1..=4)
        .map(|index| completion(1_000 + index, vec![]))
        .collect();
    let (said, waits) = work(vec![append(new)]);
    assert!(
        matches!(&said[..], [writer::Spooled::Unsaved(all)] if all.len() == 4),
        "{said:?}"
    );
    assert!(waits);

    // The master may ask for them again. What it has is removed meanwhile, and that makes the room.
    let again = vec![attempt(1_001), attempt(1_002)];
    let (said, waits) = work(vec![writer::SpoolRequest::Read(again)]);
    assert!(
        matches!(&said[..], [writer::Spooled::Read(all)] if all.len() == 2),
        "{said:?}"
    );
    assert!(waits);

    let (said, waits) = work(vec![writer::SpoolRequest::Forget(
        [&ids[..], &[attempt(1_001)]].concat(),
    )]);
    assert!(said.is_empty() && waits, "{said:?}");

    // They become durable without another word, and are there after a restart.
    let (said, waits) = work(vec![]);
    assert!(said.is_empty() && !waits, "{said:?}");

    let (said, _) = work(vec![writer::SpoolRequest::Read(vec![
        attempt(1_001),
        attempt(1_002),
    ])]);
    assert!(
        matches!(&said[..], [writer::Spooled::Read(all)] if all.len() == 1),
        "{said:?}"
    );
}

#[test]
fn on_a_full_disk_an_acknowledgement_costs_no_result_that_waits_for_room() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = Arc::new(Blobs::open(&dir.path().join("blobs")).unwrap());
    let room = Arc::new(std::sync::atomic::AtomicUsize::new(1 << 30));
    let small = Small {
        bytes: Vec::new(),
        room: Arc::clone(&room),
    };
    let mut spool = Spool::on(Box::new(small), blobs).unwrap();
    let old: Vec<Completion> = (1..=2_000).map(|index| completion(index, vec![])).collect();
    append(&mut spool, &old, moment(1));
    room.store(spool.length as usize, std::sync::atomic::Ordering::Relaxed);

    let mut desk = writer::PendingRequests::new(spool);
    let mut work = |requests| work(&mut desk, requests);
    let new = writer::SpoolRequest::Append {
        completions: vec![completion(3_000, vec![])],
        more: false,
    };
    let acknowledged = (1..=1_990).map(attempt).collect();
    let (said, waits) = work(vec![new, writer::SpoolRequest::Forget(acknowledged)]);
    assert!(
        matches!(&said[..], [writer::Spooled::Unsaved(one)] if one.len() == 1),
        "{said:?}"
    );
    assert!(waits);

    room.store(1 << 30, std::sync::atomic::Ordering::Relaxed);
    let (_, waits) = work(vec![]);
    assert!(!waits);
    let left = vec![attempt(1_995), attempt(3_000)];
    let (said, _) = work(vec![writer::SpoolRequest::Read(left)]);
    assert!(
        matches!(&said[..], [writer::Spooled::Read(both)] if both.len() == 2),
        "{said:?}"
    );
}

#[test]
fn a_completion_too_long_for_a_message_is_replaced_by_one_that_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let spool = open(dir.path());
    let lost = output(&spool, dir.path(), b"lost");
    let mut desk = writer::PendingRequests::new(spool);
    let warnings = vec!["x".repeat(common::wire::MAX_FRAME)];
    let long = |index, outcome| Completion {
        outcome,
        warnings: warnings.clone(),
        ..completion(index, vec![lost.clone()])
    };

    desk.take(writer::SpoolRequest::Append {
        completions: vec![
            long(1, Outcome::Succeeded),
            completion(2, vec![]),
            long(3, Outcome::Exited(3)),
        ],
        more: false,
    });
    let mut outcomes = Vec::new();
    desk.work(moment(1), &mut |said| match said {
        writer::Spooled::Durable(all) => {
            outcomes.extend(all.into_iter().map(|one| one.completion.outcome));
        }
        other => panic!("{other:?}"),
    })
    .unwrap();
    assert!(
        matches!(
            &outcomes[..],
            [
                Outcome::BadOutput(_),
                Outcome::Exited(2),
                Outcome::Exited(3)
            ]
        ),
        "{outcomes:?}"
    );

    drop(desk);
    let spool = open(dir.path());
    assert_eq!(ids(&spool), [1, 2, 3]);
    assert!(!spool.blobs.has(&lost.blob));
}

#[test]
fn an_empty_log_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = open(dir.path());
    let many: Vec<_> = (1..=1_000).map(|i| completion(i, vec![])).collect();
    append(&mut spool, &many, moment(1));
    spool
        .forget(&(1..=1_000).map(attempt).collect::<Vec<_>>())
        .unwrap();
    assert_eq!(std::fs::metadata(dir.path().join("log")).unwrap().len(), 0);
    append(&mut spool, &[completion(7, vec![])], moment(1));
    drop(spool);
    assert_eq!(ids(&open(dir.path())), [7]);
}

/// A log on a disk that takes its time.
#[derive(Debug)]
struct Slow {
    small: Small,
    synced: Arc<std::sync::atomic::AtomicBool>,
}

impl Medium for Slow {
    fn read(&self) -> io::Result<Vec<u8>> {
        self.small.read()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.small.read_at(bytes, offset)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.small.write_at(bytes, offset)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.small.cut(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        std::thread::sleep(std::time::Duration::from_secs(3));
        self.synced
            .store(true, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.small.replace(bytes)
    }
}

#[tokio::test]
async fn a_worker_that_leaves_waits_for_a_slow_disk_and_not_long_for_a_full_one() {
    for room in [1 << 20, 0] {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Arc::new(Blobs::open(&dir.path().join("blobs")).unwrap());
        let synced = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let slow = Slow {
            small: Small {
                bytes: Vec::new(),
                room: Arc::new(room.into()),
            },
            synced: Arc::clone(&synced),
        };
        let spool = Spool::on(Box::new(slow), blobs).unwrap();
        let (tell, _said) = tokio::sync::mpsc::unbounded_channel::<writer::Spooled>();
        let (requests, thread) = writer::start(spool, || moment(1), tell).unwrap();
        requests
            .send(writer::SpoolRequest::Append {
                completions: vec![completion(1, vec![])],
                more: false,
            })
            .unwrap();
        drop(requests);

        let begun = std::time::Instant::now();
        thread.finish().await;
        assert_eq!(
            synced.load(std::sync::atomic::Ordering::Relaxed),
            room > 0,
            "with room for {room} bytes"
        );
        assert!(begun.elapsed() < std::time::Duration::from_secs(10));
    }
}
