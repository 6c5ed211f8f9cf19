//! Records users' uploads, counts their bytes that no job of the user needs, and decides which
//! content a host needs for its attempts. The transfer and its limits live in `sessions::content`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use common::content::BlobHash;
use common::job::{Input, InputSource};
use common::{AttemptId, BlobRef, HostId, IdSet, JobId, Span, Time};

use super::Core;
use crate::store::{LiveObject, ObjectName, StoreResult, UnusedBytes};

/// The longest time between the begin of an upload and the note that it is there. What the storage
/// has for longer, and no note of, is taken for left over (`sweep`).
const LONGEST_UPLOAD: Span = Span::from_secs(12 * 3_600);

/// Some content with its last time of use.
pub(crate) type OldBlob = (BlobRef, SystemTime);

/// Whether a host needs some content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentNeed {
    /// The host needs the content itself.
    This,
    /// The host needs the content if one of these lists of files names it: they are the checkpoints
    /// from which its attempts start.
    FilesOf(Vec<BlobRef>),
}

impl Core {
    /// Notes that `user` has uploaded this content.
    pub(super) fn content_came(&mut self, user: &str, blob: BlobRef) -> StoreResult<()> {
        let unused = self.store.content_came(user, blob, self.now)?;
        if unused > 0 {
            self.add_to_unused([(user.to_owned(), unused)].into());
        }
        Ok(())
    }

    /// The bytes that a user has uploaded and that none of that user's jobs needs.
    pub(super) fn unused_of(&self, user: &str) -> u64 {
        self.unused.get(user).copied().unwrap_or(0)
    }

    /// Whether what is counted as unused, which is kept by differences, is what the store has.
    pub(crate) fn unused_is_right(&self) -> StoreResult<bool> {
        let counted = self.unused.iter().filter(|(_, bytes)| **bytes > 0);
        Ok(counted.eq(&self.store.unused_content()?))
    }

    /// Marks the content of a user's new job as needed, so that it no longer counts as unused by that user.
    pub(super) fn content_needed(&mut self, job: JobId, user: &str) -> StoreResult<()> {
        let bytes = self.store.content_is_needed(job, user)?;
        self.take_off_unused([(user.to_owned(), bytes)].into());
        Ok(())
    }

    /// Counts content as unused no longer.
    fn take_off_unused(&mut self, bytes: UnusedBytes) {
        for (user, bytes) in bytes {
            if let Entry::Occupied(mut sum) = self.unused.entry(user) {
                let left = sum.get().saturating_sub(bytes);
                if left == 0 {
                    sum.remove();
                } else {
                    *sum.get_mut() = left;
                }
            }
        }
    }

    /// Counts content as unused again, since the job that needed it was forgotten.
    pub(super) fn add_to_unused(&mut self, bytes: UnusedBytes) {
        for (user, bytes) in bytes {
            let sum = self.unused.entry(user).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }

    /// Notes that content was uploaded to the bucket as the object of this number. Returns whether it
    /// counts on: the upload of one that began long ago may have been taken for left over.
    pub(super) fn content_stored(
        &mut self,
        blob: BlobRef,
        generation: i64,
        begun: Time,
    ) -> StoreResult<bool> {
        let Some(objects) = self.objects.clone() else {
            return Ok(false);
        };
        if self.now > begun + LONGEST_UPLOAD {
            return Ok(false);
        }

        let hash = blob.hash;
        let now = self.now;
        if objects.has(&blob) {
            // Somebody else was quicker: this object is one too many.
            self.store
                .condemn_unknown(ObjectName { hash, generation }, now)?;
            return self.content_counts(&hash);
        }
        // An object of another size is none of this content.
        self.condemn(&hash)?;
        if !self.store.add_object(generation, blob, now)? {
            return Ok(false);
        }
        let live = LiveObject {
            generation,
            size: blob.size,
            counted_on: now,
        };
        objects.add(hash, live);
        Ok(true)
    }

    /// Notes that somebody counts on content of the bucket. False if it is not there.
    pub(super) fn content_counts(&mut self, hash: &BlobHash) -> StoreResult<bool> {
        let counts = self
            .objects
            .as_ref()
            .is_some_and(|objects| objects.counts(hash, self.now));
        if counts {
            self.store.object_counts(hash, self.now)?;
        }
        Ok(counts)
    }

    /// Condemns the object with this content, if there is one in a bucket.
    pub(super) fn condemn(&mut self, hash: &BlobHash) -> StoreResult<()> {
        let live = self.objects.as_ref().and_then(|objects| objects.get(hash));
        match live {
            Some(live) => self.content_lost(ObjectName {
                hash: *hash,
                generation: live.generation,
            }),
            None => Ok(()),
        }
    }

    /// Condemns an object of the bucket that counts no more.
    pub(super) fn content_lost(&mut self, name: ObjectName) -> StoreResult<()> {
        let Some(objects) = &self.objects else {
            return Ok(());
        };
        if objects
            .get(&name.hash)
            .is_some_and(|live| live.generation == name.generation)
        {
            objects.remove(&name.hash);
        }
        self.store.condemn_object(name, self.now)
    }

    /// Condemns the objects `names` of the bucket that the store does not know.
    pub(super) fn condemn_unknown(&mut self, names: &[ObjectName]) -> StoreResult<()> {
        let now = self.now;
        names
            .iter()
            .try_for_each(|name| self.store.condemn_unknown(*name, now))
    }

    /// Whether a sweep has to wait for the next group. Where content lies in a directory it is removed at
    /// once, and the changes of this group because of which no job needs it may still be lost. From a
    /// bucket nothing is removed but what a durable group has condemned.
    pub(super) fn sweeps_later(&self) -> bool {
        self.objects.is_none() && self.laws.commit_before_removing
    }

    /// Does the sweeps that have waited for the commit of the group before this one.
    pub(super) fn sweep_waiting(&mut self) -> StoreResult<()> {
        for (old, tell) in std::mem::take(&mut self.sweeps) {
            let bytes = self.sweep(&old)?;
            self.replies.extend(tell.map(|tell| (tell, bytes.into())));
        }
        Ok(())
    }

    /// Removes the blobs of these that no job needs and that were not used since the given time,
    /// and returns their bytes.
    pub(super) fn sweep(&mut self, old: &[OldBlob]) -> StoreResult<u64> {
        // A master that was taken over must not remove what the new one counts on. From a bucket it
        // removes nothing but in a group, which then fails.
        if self.objects.is_none() {
            self.store.hold()?;
        }

        let mut bytes = 0;
        let mut gone = Vec::new();
        for (blob, at) in old {
            // A blob that was used meanwhile, or is needed, stays. Whether it was used is looked at last: while
            // the store answers, this master may have lost it, and another one counts on the blob.
            let is_used = |core: &Self| core.blobs.modified(&blob.hash) != Some(*at);
            let before = !self.laws.use_before_removing && is_used(self);
            if before || self.is_program(&blob.hash) || self.store.needs_blob(&blob.hash)? {
                continue;
            }
            if self.laws.use_before_removing && is_used(self) {
                continue;
            }

            self.condemn(&blob.hash)?;
            match self.blobs.remove(&blob.hash) {
                Ok(()) => {
                    bytes += blob.size;
                    gone.push(blob.hash);
                }
                Err(error) => {
                    tracing::warn!(hash = %blob.hash, %error, "content that nobody needs stays");
                }
            }
        }

        if !gone.is_empty() {
            let counted = self.store.content_went(&gone)?;
            self.take_off_unused(counted);
        }
        Ok(bytes)
    }

    /// Forgets uploads of this content made more than `grace` ago that no job of the sender needs: the sender
    /// must then upload the content again.
    pub(super) fn trim_content_of(&mut self, grace: Span, old: &[BlobHash]) -> StoreResult<()> {
        let counted = self.store.trim_content_of(old, self.now - grace)?;
        self.take_off_unused(counted);
        Ok(())
    }

    /// Whether the host needs this content for one of its attempts: as an input, or for the
    /// checkpoint that the attempt starts from.
    pub(super) fn needs_of(&self, host: HostId, hash: BlobHash) -> StoreResult<ContentNeed> {
        if self.is_offered(host, &hash) {
            return Ok(ContentNeed::This);
        }

        let place = self.hosts.get(&host);
        let platform = place.map_or_else(String::new, super::hosts::Host::platform_name);
        let status = self.scheduler.host(host);
        let attempts = status.map(|status| status.attempts).unwrap_or_default();
        if self.is_input_of_any(&attempts, hash, &platform) {
            return Ok(ContentNeed::This);
        }

        let mut lists = Vec::new();
        for attempt in attempts {
            // Of a job without checkpoints the store need not be asked.
            let job = self.jobs.get(&attempt.task.job);
            if job.is_some_and(|job| !job.spec.rules.checkpoint) {
                continue;
            }
            if self.store.state_needs(attempt.task, &hash)? {
                return Ok(ContentNeed::This);
            }
            if let Some(saved) = self.store.started_from(attempt)? {
                if saved.manifest.hash == hash {
                    return Ok(ContentNeed::This);
                }
                lists.push(saved.manifest);
            }
        }

        Ok(ContentNeed::FilesOf(lists))
    }

    /// Whether one of these attempts has this content as an input. Each job is looked at once, however many
    /// of its tasks are among them.
    fn is_input_of_any(&self, attempts: &[AttemptId], hash: BlobHash, platform: &str) -> bool {
        let mut of_jobs: BTreeMap<JobId, BTreeSet<u32>> = BTreeMap::new();
        for AttemptId { task, .. } in attempts {
            of_jobs.entry(task.job).or_default().insert(task.index);
        }
        let mut jobs = of_jobs.iter();
        jobs.any(|(job, tasks)| self.is_input_of(*job, tasks, hash, platform))
    }

    fn is_input_of(
        &self,
        job: JobId,
        tasks: &BTreeSet<u32>,
        hash: BlobHash,
        platform: &str,
    ) -> bool {
        let Some(spec) = self.jobs.get(&job).map(|job| &job.spec) else {
            return false;
        };
        let Some(command) = spec.work.command() else {
            return false;
        };

        let is_per_task = |input: &Input| matches!(input.source, InputSource::PerTask(_));
        let places = match command.inputs.iter().any(is_per_task) {
            true => places_of(&spec.tasks.ids, tasks),
            false => Vec::new(),
        };
        let is_at = |input: &Input, place: u64| {
            let blob = input.blob(place, platform);
            blob.is_some_and(|blob| blob.hash == hash)
        };
        let is_it = |input: &Input| match is_per_task(input) {
            true => places.iter().any(|place| is_at(input, *place)),
            false => is_at(input, 0),
        };
        let is_part = |input: &Input| input.parts().iter().any(|part| part.hash == hash);
        command
            .inputs
            .iter()
            .any(|input| is_it(input) || is_part(input))
    }
}

/// The places of these tasks in the order of all indices of their job, found in one pass.
fn places_of(ids: &IdSet, tasks: &BTreeSet<u32>) -> Vec<u64> {
    let mut places = Vec::new();
    let mut before = 0;
    let mut tasks = tasks.iter().copied().peekable();
    for (first, last) in ids.ranges() {
        while let Some(task) = tasks.next_if(|task| *task <= last) {
            if let Some(further) = task.checked_sub(first) {
                places.push(before + u64::from(further));
            }
        }
        if tasks.peek().is_none() {
            break;
        }
        before += u64::from(last - first) + 1;
    }
    places
}

#[cfg(test)]
mod tests {
    use link::BlobStore;

    use super::super::retention::tests::core;
    use super::*;
    use crate::store::counted;
    use crate::store::tests::{add_job_with, spec};

    #[test]
    fn a_sweep_removes_what_no_job_needs_and_nobody_has_used_since_it_was_listed() {
        let dir = tempfile::tempdir().unwrap();
        let mut core = core(dir.path(), Time(1_700_000_000_000_000), true);
        let files = BlobStore::open(&dir.path().join("content")).unwrap();
        let put = |text: &str| files.add_reader(text.as_bytes()).unwrap();
        let needed: Vec<BlobRef> = (0..40).map(|n| put(&format!("input {n}"))).collect();
        let used = put("sent again");
        let left_over = [put("one"), put("three")];

        add_job_with(&mut core.store, 1, (&spec(1), &needed), "ann");

        let old = files.list().unwrap();
        assert_eq!(old.len(), 43);
        files.touch(&used);
        assert_eq!(core.sweep(&old).unwrap(), 3 + 5);
        assert!(needed.iter().all(|blob| files.has(blob)) && files.has(&used));
        assert!(!left_over.iter().any(|blob| files.has(blob)));
        assert_eq!(core.sweep(&old).unwrap(), 0);
    }

    #[test]
    fn what_counts_against_a_user_follows_each_upload_sweep_and_trim() {
        let dir = tempfile::tempdir().unwrap();
        let mut core = core(dir.path(), Time(1_700_000_000_000_000), true);
        let files = BlobStore::open(&dir.path().join("content")).unwrap();
        let [swept, trimmed, kept] =
            ["swept", "trimmed", "kept"].map(|text| files.add_reader(text.as_bytes()).unwrap());
        let one = counted(kept.size);
        for sent in [swept, trimmed] {
            core.content_came("ann", sent).unwrap();
        }
        core.now = core.now + Span::from_secs(10);
        core.content_came("ann", kept).unwrap();
        assert_eq!(core.unused_of("ann"), 3 * one);

        let mut old = files.list().unwrap();
        old.retain(|(blob, _)| *blob == swept);
        assert_eq!(core.sweep(&old).unwrap(), swept.size);
        assert_eq!(core.unused_of("ann"), 2 * one);

        let hashes = [trimmed.hash, kept.hash];
        core.trim_content_of(Span::from_secs(5), &hashes).unwrap();
        assert_eq!(core.unused_of("ann"), one);
        core.trim_content_of(Span::from_secs(5), &hashes).unwrap();
        assert_eq!(core.unused, core.store.unused_content().unwrap());
        assert!(core.unused_is_right().unwrap());
        core.add_to_unused([("ann".to_owned(), 1)].into());
        assert!(!core.unused_is_right().unwrap());
    }

    #[test]
    fn the_places_of_tasks_are_their_ranks_and_strange_tasks_have_none() {
        let ids = IdSet::from_ranges(vec![(3, 3), (5, 9), (20, 1_000), (u32::MAX, u32::MAX)]);
        let tasks: BTreeSet<u32> = [3, 5, 9, 20, 777, u32::MAX].into();
        let ranks: Vec<u64> = tasks.iter().map(|task| ids.rank(*task)).collect();
        assert_eq!(places_of(&ids, &tasks), ranks);

        let strange: BTreeSet<u32> = [0, 4, 10, 19, 1_001].into();
        assert!(places_of(&ids, &strange).is_empty());
        assert!(places_of(&ids, &BTreeSet::new()).is_empty());
        assert_eq!(places_of(&ids, &[4, 6].into()), vec![2]);
    }
}
