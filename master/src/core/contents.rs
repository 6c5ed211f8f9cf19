//! Records users' uploads, counts their bytes that no job of the user needs, and decides which
//! content a host needs for its attempts. The transfer and its limits live in `sessions::content`.

use common::content::BlobHash;
use common::job::Input;
use common::{AttemptId, BlobRef, HostId, IdSet, JobId, JobSpec, Span};

use super::Core;
use crate::store::StoreError;

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
    pub(super) fn content_came(&mut self, user: &str, blob: BlobRef) -> Result<(), StoreError> {
        let unused = self.store.content_came(user, blob, self.now)?;
        if unused > 0 {
            let sum = self.unused.entry(user.to_owned()).or_default();
            *sum = sum.saturating_add(unused);
        }
        Ok(())
    }

    /// The bytes that a user has uploaded and that none of that user's jobs needs.
    pub(super) fn unused_of(&self, user: &str) -> u64 {
        self.unused.get(user).copied().unwrap_or(0)
    }

    /// Marks the content that a job's `spec` names as needed, so that it no longer counts as unused
    /// by its user.
    pub(super) fn content_needed(&mut self, user: &str, spec: &JobSpec) -> Result<(), StoreError> {
        let Some(command) = spec.work.command() else {
            return Ok(());
        };
        let bytes = self.store.content_is_needed(user, command.blobs())?;
        if let Some(sum) = self.unused.get_mut(user) {
            *sum = sum.saturating_sub(bytes);
        }
        Ok(())
    }

    /// Recounts the bytes of unused content by user from the store.
    pub(super) fn count_unused(&mut self) -> Result<(), StoreError> {
        self.unused = self.store.unused_content()?;
        Ok(())
    }

    /// Forgets uploads made more than `grace` ago that no job of the sender needs: the sender must
    /// then upload the content again.
    pub(super) fn trim_content_of(&mut self, grace: Span) -> Result<(), StoreError> {
        self.store.trim_content_of(self.now - grace)?;
        self.count_unused()
    }

    /// Runs finished tasks again because content of their results (`gone`) is damaged or missing.
    /// Returns the number of tasks.
    pub(super) fn recompute(
        &mut self,
        job: JobId,
        tasks: &IdSet,
        gone: &[BlobHash],
    ) -> Result<u64, StoreError> {
        let tasks = self.store.lose_results(job, tasks, gone, self.now)?;
        if tasks.is_empty() {
            return Ok(0);
        }

        self.run_removed_again(job, &tasks)?;
        self.store.results_were_damaged(job, &tasks)?;
        self.renew_promise(job)?;
        self.changed.0 = true;
        Ok(tasks.len())
    }

    /// Whether the host needs this content for one of its attempts: as an input, or for the
    /// checkpoint that the attempt starts from.
    pub(super) fn needs_of(&self, host: HostId, hash: BlobHash) -> Result<ContentNeed, StoreError> {
        let mut lists = Vec::new();
        let place = self.hosts.get(&host);
        let platform = place.map_or_else(String::new, super::hosts::Host::platform_name);
        for attempt in self
            .scheduler
            .host(host)
            .map(|status| status.attempts)
            .unwrap_or_default()
        {
            if self.is_input_of(attempt, hash, &platform)
                || self.store.state_needs(attempt.task, &hash)?
            {
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

    fn is_input_of(&self, attempt: AttemptId, hash: BlobHash, platform: &str) -> bool {
        let Some(spec) = self.jobs.get(&attempt.task.job).map(|job| &job.spec) else {
            return false;
        };
        let Some(command) = spec.work.command() else {
            return false;
        };
        let position = spec.tasks.ids.rank(attempt.task.index);
        let is_it = |input: &Input| {
            let blob = input.blob(position, platform);
            blob.is_some_and(|blob| blob.hash == hash)
                || input.parts().iter().any(|part| part.hash == hash)
        };
        command.inputs.iter().any(is_it)
    }
}
