//! Recomputes tasks whose results the master has lost or finds damaged, if their user wants that.
//! `link::content` finds such results in passing, and `master check` finds them for an admin.

use std::collections::BTreeSet;

use common::content::BlobHash;
use common::selector::Selector;
use common::view::OutputView;
use common::wire::client::Reply;
use common::wire::{Refusal, RefusalCode};
use common::{BlobRef, IdSet, JobId, JobSpec};

use super::answers::{Answered, Asker, NoAnswer, chosen, refuse};
use crate::core::ask::JobAsk;
use crate::run::SessionContext;

/// The tasks whose results are not whole, and the blobs that are damaged or gone.
#[derive(Debug, Default)]
struct Damage {
    tasks: IdSet,
    blobs: Vec<BlobHash>,
}

fn blobs_of(view: &OutputView) -> impl Iterator<Item = BlobRef> + '_ {
    let streams = [&view.stdout.0, &view.stderr.0]
        .into_iter()
        .filter_map(|stream| stream.content.blob());
    streams.chain(view.files.iter().map(|file| file.blob))
}

impl Damage {
    /// Reads all content that these attempts left. Damaged blobs are set aside, so that they can be
    /// uploaded anew.
    async fn look(&mut self, state: &SessionContext, views: &[OutputView]) -> Result<(), Refusal> {
        for view in views {
            for blob in blobs_of(view) {
                if !state.blobs.look_at(&state.core, blob).await? {
                    tracing::warn!(attempt = %view.attempt, hash = %blob.hash, "a result is damaged or gone");
                    self.tasks.insert(view.attempt.task.index);
                    self.blobs.push(blob.hash);
                }
            }
        }
        Ok(())
    }

    /// Leaves out the job's inputs: they stay its content, present or not.
    fn without_inputs(mut self, spec: &JobSpec) -> Self {
        let inputs: BTreeSet<_> = spec.content().into_iter().map(|blob| blob.hash).collect();
        self.blobs.retain(|hash| !inputs.contains(hash));
        self
    }
}

impl Asker {
    /// Recomputes those of these tasks whose results are not whole here.
    pub(super) async fn recompute(&self, job: JobId, tasks: &Selector) -> Answered<Reply> {
        self.pick_one(job).await?;
        let spec = self.spec(job).await?;
        if spec.work.ranks().is_some() {
            let what = format!(
                "no rank of job {job} is of use without the others: they cannot be computed again alone"
            );
            return Err(refuse(RefusalCode::Conflict, what, "submit it again"));
        }

        let tasks = Selector::Ids(chosen(job, tasks, &spec)?);
        let mut listing = self.listing(job, &tasks).await?;
        let mut damage = Damage::default();

        while let Some(views) = self.next_outputs(&mut listing).await? {
            let looked = damage.look(self.state(), &views).await;
            looked.map_err(NoAnswer::Refused)?;
        }

        self.look_for_place(&damage).await?;
        let Damage { tasks, blobs } = damage.without_inputs(&spec);
        let count: Result<u64, _> = self.core(JobAsk::Recompute(job, tasks, blobs)).await?;
        let count = count.map_err(NoAnswer::Refused)?;
        Ok(Reply::Changed(vec![(job, count)]))
    }

    /// Refuses damage that was found where the grid's content does not lie any more: what is mounted
    /// there can go, and then all of it seems to be lost.
    async fn look_for_place(&self, damage: &Damage) -> Answered<()> {
        let state = self.state();
        if damage.blobs.is_empty() || state.blobs.is_ours(state.authority.grid()).await {
            return Ok(());
        }
        let what = "the master's place for content has not the mark of this grid";
        let hint = "the admin has to see whether it is mounted; then try again";
        Err(refuse(RefusalCode::Unavailable, what, hint))
    }
}
