//! Answers about tasks and what they have left, which are read portion by portion.

use common::selector::Selector;
use common::view::{OutputView, TaskView, Undecided};
use common::wire::RefusalCode;
use common::{AttemptId, JobId};

use crate::core::ask::JobAsk;
use crate::store::{AttemptRow, StoreResult};

use super::super::views::{KeptOfResults, ListedPortion, Listing, read_portion};
use super::{Answered, Asker, refuse};

/// The most undecided results that are looked at together, and that one request returns.
const SHOWN_UNDECIDED: usize = 32;

impl Asker {
    /// The next tasks of a listing; `None` after the last.
    pub(in crate::sessions) async fn next_tasks(
        &self,
        listing: &mut Listing,
    ) -> Answered<Option<Vec<TaskView>>> {
        let portion = self.next_portion(listing, KeptOfResults::Words).await?;
        Ok(portion.map(|portion| listing.tasks(portion)))
    }

    /// The next outputs of a listing; `None` after the last.
    pub(in crate::sessions) async fn next_outputs(
        &self,
        listing: &mut Listing,
    ) -> Answered<Option<Vec<OutputView>>> {
        let portion = self.next_portion(listing, KeptOfResults::Outputs).await?;
        let outputs = portion.map(|portion| listing.outputs(portion));
        Ok(outputs.transpose()?)
    }

    /// Reads the next portion of a listing; `None` after the last.
    async fn next_portion(
        &self,
        listing: &mut Listing,
        kept: KeptOfResults,
    ) -> Answered<Option<ListedPortion>> {
        let Some(tasks) = listing.next_portion() else {
            return Ok(None);
        };
        let job = listing.job();
        let portion = self
            .read(move |reader| read_portion(reader, job, tasks, kept))
            .await?;
        listing.pass(&portion);
        Ok(Some(portion))
    }

    /// The next results that wait for the user's comparison program, `after` one of them. Refused for a job that
    /// needs none.
    pub(in crate::sessions) async fn undecided(
        &self,
        job: JobId,
        after: Option<AttemptId>,
    ) -> Answered<Vec<Undecided>> {
        let listing = self.listing(job, &Selector::All).await?;
        if !listing.is_judged() {
            let what = format!("no program of yours compares results of job {job}");
            let hint = "that is for jobs of `deskgrid submit --quorum 2 --compare program`";
            return Err(refuse(RefusalCode::Conflict, what, hint));
        }

        let waiting: Vec<(AttemptId, Vec<AttemptId>)> = self
            .core(JobAsk::Undecided(job, after, SHOWN_UNDECIDED))
            .await?;
        let mut all = Vec::new();

        for (attempt, with) in waiting {
            let outputs = self.outputs_of(&listing, attempt, &with).await?;
            let of = |wanted: AttemptId| {
                outputs
                    .iter()
                    .find(|output| output.attempt == wanted)
                    .cloned()
            };
            if let Some(result) = of(attempt) {
                all.push(Undecided {
                    result,
                    others: with.into_iter().filter_map(of).collect(),
                });
            }
        }

        Ok(all)
    }

    /// The outputs of an attempt, and of others of its task.
    async fn outputs_of(
        &self,
        listing: &Listing,
        attempt: AttemptId,
        others: &[AttemptId],
    ) -> Answered<Vec<OutputView>> {
        let mut wanted = others.to_vec();
        wanted.push(attempt);
        let rows = self.read(move |reader| {
            let mut rows: Vec<AttemptRow> = Vec::new();
            for AttemptId { task, number, .. } in &wanted {
                let each = |row: AttemptRow| {
                    if wanted.contains(&row.view.attempt) {
                        rows.push(row);
                    }
                };
                reader.attempts_of(*task, (*number, *number), each)?;
            }
            Ok(rows)
        });

        let outputs = rows.await?.into_iter().map(|row| listing.output_of(row));
        Ok(outputs.collect::<StoreResult<_>>()?)
    }
}
