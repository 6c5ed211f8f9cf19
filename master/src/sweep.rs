//! Removes what nobody needs any more: jobs that settled long ago if the admin wants that, content
//! of forgotten jobs or of submissions that did not come, and old records of hosts.

mod bucket;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use common::BlobRef;
use common::content::BlobHash;
use common::wire::RefusalCode;
use link::Contents;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::content_place::ContentPlace;
use crate::core::ask::{HostAsk, HostNames, UpkeepAsk};
use crate::core::{NoReply, OldBlob};
use crate::operations::SweepHold;
use crate::run::SessionContext;
use crate::sessions::checkpoint::read_list;
use crate::store::Reader;
use bucket::BucketSweep;

/// The most blobs that a reader looks up at a time.
const PORTION: usize = 1_000;
/// The most blobs that one turn of the core removes, so that other asks do not wait long: it asks about each again.
const REMOVED: usize = 100;

/// The sweeps for which a list that cannot be read keeps content that nobody needs: it may come back.
const UNREAD: u32 = 24;

/// The lists of saved states that could not be read, with the number of sweeps for which that is so.
type UnreadLists = BTreeMap<BlobHash, u32>;

/// The longest time between two sweeps: what is to go after a week goes although a master is
/// restarted each week.
const EVERY: Duration = Duration::from_secs(3_600);

/// Returns the turns of sweeping: each `EVERY`, or each `grace` where that is shorter, the first one
/// that long after the start.
fn turns(grace: Duration) -> Interval {
    let period = grace.min(EVERY);
    let mut turns = tokio::time::interval_at(Instant::now() + period, period);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    turns
}

/// Sweeps in [`turns`] until the core has ended.
pub(crate) async fn serve(state: Arc<SessionContext>) {
    let grace = state.config.content_grace.0.max(Duration::from_secs(1));
    let mut turns = turns(grace);
    let mut bucket = BucketSweep::default();
    let mut unread = UnreadLists::new();

    loop {
        turns.tick().await;
        // Hosts are trimmed one at a time and in portions, so that other asks do not wait long.
        let Ok(hosts) = state.core.ask::<HostNames>(HostAsk::Names).await else {
            return;
        };
        for host in hosts.keys() {
            loop {
                match state.core.ask(HostAsk::TrimAvailability(*host)).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(_) => return,
                }
            }
        }

        loop {
            match state.core.ask(UpkeepAsk::Retire).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => return,
            }
        }

        let hold = match SweepHold::for_sweeping(&state.home) {
            Ok(Some(hold)) => hold,
            Ok(None) => {
                tracing::info!("content is not swept now: a backup counts on it");
                continue;
            }
            Err(error) => {
                tracing::warn!(%error, "content is not swept: its lock does not work");
                continue;
            }
        };

        if !state.blobs.is_ours(state.authority.grid()).await {
            let place = state.blobs.objects().map_or_else(
                || state.blobs.local().root().display().to_string(),
                |objects| objects.place().to_string(),
            );
            tracing::error!(%place, "content is not swept: its place has not the mark of this grid, is it there?");
            continue;
        }

        let unneeded = removable(&state, grace, &mut unread).await;
        let unneeded = unneeded.unwrap_or_else(|error| {
            tracing::warn!(%error, "the content that nobody needs could not be found");
            Vec::new()
        });

        let mut bytes = 0;
        for portion in unneeded.chunks(REMOVED).map(<[OldBlob]>::to_vec) {
            match state.core.ask::<u64>(UpkeepAsk::Sweep(portion)).await {
                Ok(removed) => bytes += removed,
                Err(_) => return,
            }
        }

        if trim_content(&state, grace).await.is_err() {
            return;
        }
        if bytes > 0 {
            tracing::info!(bytes, "content that no job needs was removed");
        }

        // Only what was condemned goes from a bucket, which no store names any more. It may take long.
        drop(hold);
        if let Some(objects) = state.blobs.objects() {
            let swept = bucket.sweep(&state, objects, grace).await;
            if let Err(why) = swept {
                tracing::warn!(why, "the bucket is not swept to the end; it is tried again");
            }
        }
    }
}

/// Has the core forget who has sent content longer than `grace` ago that no job of the sender needs. A reader looks for
/// it in portions, so that the core has to do only with what goes.
async fn trim_content(state: &SessionContext, grace: Duration) -> Result<(), NoReply> {
    let mut after = None;
    loop {
        let reader = state.reader.clone();
        let before = state.clock.now() - grace.into();
        let found = move || reader.sent_before(before, after.as_ref(), PORTION as u32);
        let found = tokio::task::spawn_blocking(found).await;
        let found = found.map_err(std::io::Error::other);
        let sent = match found.and_then(|found| found.map_err(std::io::Error::other)) {
            Ok(sent) => sent,
            Err(error) => {
                tracing::warn!(%error, "the uploads that no job needs could not be found");
                return Ok(());
            }
        };

        for old in sent.old.chunks(REMOVED).map(<[BlobHash]>::to_vec) {
            let trim = UpkeepAsk::TrimContent(grace.into(), old);
            state.core.ask::<()>(trim).await?;
        }
        let Some(next) = sent.next else {
            return Ok(());
        };
        after = Some(next);
    }
}

/// The blobs that were not uploaded or used for `grace`. Partial uploads of that age are removed at
/// once.
fn old(blobs: &ContentPlace, grace: Duration) -> std::io::Result<Vec<OldBlob>> {
    let now = SystemTime::now();
    let is_old = |at: &SystemTime| now.duration_since(*at).is_ok_and(|age| age >= grace);
    blobs.local().drop_parts(grace)?;
    Ok(blobs
        .list()?
        .into_iter()
        .filter(|(_, at)| is_old(at))
        .collect())
}

/// Finds the `old` blobs that no job needed at the last commit. The core, which knows what has changed since,
/// looks at these alone.
fn unneeded(
    blobs: &ContentPlace,
    reader: &Reader,
    grace: Duration,
) -> std::io::Result<Vec<OldBlob>> {
    let old = old(blobs, grace)?;
    let mut unneeded: Vec<OldBlob> = Vec::new();
    for portion in old.chunks(PORTION) {
        let hashes: Vec<BlobHash> = portion.iter().map(|(blob, _)| blob.hash).collect();
        let needed = reader.needed(&hashes).map_err(std::io::Error::other)?;
        let of_nobody = portion
            .iter()
            .filter(|(blob, _)| !needed.contains(&blob.hash));
        unneeded.extend(of_nobody.copied());
    }
    Ok(unneeded)
}

/// Finds the `unneeded` blobs without those of states from which attempts still have to start.
async fn removable(
    state: &SessionContext,
    grace: Duration,
    unread: &mut UnreadLists,
) -> std::io::Result<Vec<OldBlob>> {
    let blobs = state.blobs.clone();
    let reader = state.reader.clone();
    let found = tokio::task::spawn_blocking(move || {
        let unneeded = unneeded(&blobs, &reader, grace)?;
        if unneeded.is_empty() {
            return Ok((unneeded, BTreeSet::new()));
        }
        // Asked after that: a state that was its task's newest then has no blob among them.
        let starts = reader.earlier_starts().map_err(std::io::Error::other)?;
        Ok::<_, std::io::Error>((unneeded, starts))
    });
    let (unneeded, starts) = found.await.map_err(std::io::Error::other).flatten()?;

    let mut states = Vec::new();
    for list in starts {
        states.push((list.hash, content_of_state(state, list).await));
    }
    Ok(without_states(unneeded, states, unread))
}

/// Takes the content of these states, each with the hash of its list, out of the `unneeded` blobs. Where a list
/// cannot be read nobody knows what it names: then nothing is removed, but not for ever.
fn without_states(
    mut unneeded: Vec<OldBlob>,
    states: Vec<(BlobHash, std::io::Result<BTreeSet<BlobHash>>)>,
    unread: &mut UnreadLists,
) -> Vec<OldBlob> {
    let before = std::mem::take(unread);
    let mut kept = BTreeSet::new();
    for (list, content) in states {
        match content {
            Ok(content) => kept.extend(content),
            Err(error) => {
                let sweeps = before
                    .get(&list)
                    .map_or(1, |sweeps| sweeps.saturating_add(1));
                tracing::warn!(
                    %list, %error, sweeps,
                    "a saved state from which a task is to start cannot be read: no content is removed, and after \
                     {UNREAD} such sweeps its content may be; does the disk work?"
                );
                unread.insert(list, sweeps);
            }
        }
    }

    if unread.values().any(|sweeps| *sweeps <= UNREAD) {
        return Vec::new();
    }
    unneeded.retain(|(blob, _)| !kept.contains(&blob.hash));
    unneeded
}

/// Brings the list of a saved state, and finds the state's content.
async fn content_of_state(
    state: &SessionContext,
    list: BlobRef,
) -> std::io::Result<BTreeSet<BlobHash>> {
    let held = match state.blobs.bring(&state.core, list.hash).await {
        Ok(held) => held,
        // Nothing can start from a state without its list.
        Err(refusal) if refusal.code == RefusalCode::NotFound => return Ok(BTreeSet::new()),
        Err(refusal) => return Err(std::io::Error::other(refusal)),
    };

    let blobs = state.blobs.clone();
    let read = tokio::task::spawn_blocking(move || {
        let _held = held;
        listed_content(&blobs, list)
    });
    read.await.map_err(std::io::Error::other).flatten()
}

/// Returns the content of a saved state: this list of files and what it names. The files of one whose list is
/// damaged or gone are of no use.
pub(crate) fn listed_content(
    blobs: &ContentPlace,
    list: BlobRef,
) -> std::io::Result<BTreeSet<BlobHash>> {
    let mut content = BTreeSet::from([list.hash]);
    if blobs.local().verify(&list)?
        && let Ok(read) = read_list(blobs, list)
    {
        content.extend(read.files.iter().map(|file| file.blob.hash));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use common::Time;
    use common::checkpoint::Saved;
    use common::view::AttemptState;
    use link::BlobStore;

    use super::*;
    use crate::store::Writer;
    use crate::store::tests::{add_job_with, attempt, spec, start, state};

    #[tokio::test(start_paused = true)]
    async fn a_sweep_comes_within_an_hour_however_long_content_is_kept() {
        for (grace_s, period_s) in [(7 * 86_400, 3_600), (3_600, 3_600), (2, 2)] {
            let start = Instant::now();
            let mut turns = turns(Duration::from_secs(grace_s));
            for turn in 1..=3 {
                turns.tick().await;
                assert_eq!(start.elapsed().as_secs(), turn * period_s, "{grace_s} s");
            }
        }
    }

    #[test]
    fn the_core_looks_only_at_old_content_that_no_job_needed_at_the_last_commit() {
        let dir = tempfile::tempdir().unwrap();
        let files = BlobStore::open(&dir.path().join("content")).unwrap();
        let [needed, left_over] =
            ["an input", "left over"].map(|text| files.add_reader(text.as_bytes()).unwrap());
        let mut store = Writer::open(dir.path()).unwrap();
        add_job_with(&mut store, 1, (&spec(1), &[needed]), "ann");

        let place = ContentPlace::Directory(files);
        let reader = store.reader(dir.path());
        let found = |grace: Duration| -> Vec<BlobRef> {
            let found = unneeded(&place, &reader, grace).unwrap();
            found.iter().map(|(blob, _)| *blob).collect()
        };
        assert_eq!(found(Duration::ZERO).len(), 2, "nothing is committed");
        store.commit().unwrap();
        assert_eq!(found(Duration::ZERO), [left_over]);
        assert_eq!(found(Duration::from_secs(3_600)), []);
    }

    #[test]
    fn a_list_that_cannot_be_read_keeps_content_from_being_swept_for_a_while_only() {
        let [list, other, left_over] = [1, 2, 3].map(|byte| BlobHash([byte; 32]));
        let unneeded = [list, other, left_over].map(|hash| {
            let size = 1;
            (BlobRef { hash, size }, SystemTime::UNIX_EPOCH)
        });
        let mut unread = UnreadLists::new();
        let mut removed = |reads: bool| -> Vec<BlobHash> {
            let first = match reads {
                true => Ok(BTreeSet::from([list])),
                false => Err(std::io::Error::other("it does not read")),
            };
            let states = vec![(list, first), (other, Ok(BTreeSet::from([other])))];
            let removed = without_states(unneeded.to_vec(), states, &mut unread);
            removed.iter().map(|(blob, _)| blob.hash).collect()
        };

        assert_eq!(removed(false), []);
        assert_eq!(removed(true), [left_over]);
        for _ in 0..UNREAD {
            assert_eq!(removed(false), [], "it may come back");
        }
        assert_eq!(removed(false), [list, left_over]);
    }

    #[test]
    fn a_state_stays_until_the_attempts_that_start_from_it_have_saved_or_ended() {
        let dir = tempfile::tempdir().unwrap();
        let files = BlobStore::open(&dir.path().join("content")).unwrap();
        let mut store = Writer::open(dir.path()).unwrap();
        let job = add_job_with(&mut store, 1, (&spec(1), &[]), "ann");
        let [first, one, two] = [1, 2, 3].map(|number| attempt(job, 1, number));
        start(&mut store, first);
        let states = [1, 2, 3, 4].map(|sequence| state(&files, sequence));

        for (saved, file) in &states {
            store.keep_checkpoint(first, saved, &[file.hash]).unwrap();
            // One copy is to start from the second one, and one from the third.
            let copy = match saved.sequence {
                2 => Some(one),
                3 => Some(two),
                _ => None,
            };
            if let Some(copy) = copy {
                start(&mut store, copy);
                store.starts_from(copy, saved).unwrap();
            }
        }
        store.commit().unwrap();

        let place = ContentPlace::Directory(files);
        let reader = store.reader(dir.path());
        let gone = || -> BTreeSet<BlobRef> {
            let found = unneeded(&place, &reader, Duration::ZERO).unwrap();
            let starts = reader.earlier_starts().unwrap();
            let kept: BTreeSet<BlobHash> = starts
                .into_iter()
                .flat_map(|list| listed_content(&place, list).unwrap())
                .collect();
            let blobs = found.iter().map(|(blob, _)| *blob);
            blobs.filter(|blob| !kept.contains(&blob.hash)).collect()
        };
        let of = |states: &[(Saved, BlobRef)]| -> BTreeSet<BlobRef> {
            let blobs = states.iter().map(|(saved, file)| [saved.manifest, *file]);
            blobs.flatten().collect()
        };
        assert_eq!(gone(), of(&states[..1]));

        // What the first copy saves is the newest state word for word.
        let (newest, file) = states[3];
        let own = Saved {
            number: 2,
            sequence: 1,
            ..newest
        };
        store.keep_checkpoint(one, &own, &[file.hash]).unwrap();
        store.commit().unwrap();
        assert_eq!(gone(), of(&states[..2]));

        let killed = AttemptState::Killed;
        store.attempt_ended(two, killed, Time(9), "test").unwrap();
        store.commit().unwrap();
        assert_eq!(gone(), of(&states[..3]));
    }
}
