//! Lists about the tasks of a job, read page by page while the master sends them: they may be longer than what should be in
//! memory at a time. Tasks in more ranges than one request holds are asked for in portions.

use common::selector::Selector;
use common::view::{OutputView, TaskView};
use common::wire::client::{Reply, Request};
use common::wire::{Refusal, RefusalCode};
use common::{IdSet, JobId};
use link::client::{Replies, unexpected};
use link::{Client, LinkError};

use crate::failure::Failure;

/// The tasks on one page: so many are in memory at a time, and as many again.
const TASKS_A_PAGE: usize = 10_000;
/// The outputs on one page. Each may have up to 8 KiB of what its task printed.
const OUTPUTS_A_PAGE: usize = 1_000;
/// The most ranges in one request. Each takes ten bytes at most, and a message holds 256 KiB.
const RANGES_A_REQUEST: usize = 20_000;

/// A list that the master sends while it is read.
pub(crate) struct Pages<T> {
    client: Client,
    job: JobId,
    /// The requests for the portions that follow, the last one first.
    rest: Vec<Request>,
    /// Whether there is more than one portion.
    in_portions: bool,
    /// The replies to the request before these.
    replies: Option<Replies>,
    /// Whether a portion had tasks of the job.
    any: bool,
    /// The refusal of the first portion that had none.
    missing: Option<Refusal>,
    /// Returns the entries in a reply.
    entries: fn(Reply) -> Result<Vec<T>, LinkError>,
    /// The number of entries with which a page is full.
    full: usize,
}

/// Tasks that the master sends while they are read.
pub(crate) type TaskPages = Pages<TaskView>;

/// Outputs of tasks that the master sends while they are read.
pub(crate) type OutputPages = Pages<OutputView>;

impl TaskPages {
    /// Asks for tasks of `job`, by a request for each portion of them.
    pub(super) fn of_tasks(
        client: &Client,
        job: JobId,
        tasks: Selector,
        request: impl Fn(Selector) -> Request,
    ) -> Self {
        let entries = |reply: Reply| match reply {
            Reply::Tasks(tasks) => Ok(tasks),
            other => Err(unexpected(Some(&other))),
        };
        let requests = portions(tasks).into_iter().map(request).collect();
        Self::new(client, job, requests, entries, TASKS_A_PAGE)
    }
}

impl OutputPages {
    /// Asks for the outputs of tasks of `job`.
    pub(super) fn of_outputs(client: &Client, job: JobId, tasks: Selector) -> Self {
        let entries = |reply: Reply| match reply {
            Reply::Outputs(outputs) => Ok(outputs),
            other => Err(unexpected(Some(&other))),
        };
        let request = |tasks| Request::Outputs { job, tasks };
        let requests = portions(tasks).into_iter().map(request).collect();
        Self::new(client, job, requests, entries, OUTPUTS_A_PAGE)
    }
}

impl<T> Pages<T> {
    fn new(
        client: &Client,
        job: JobId,
        requests: Vec<Request>,
        entries: fn(Reply) -> Result<Vec<T>, LinkError>,
        full: usize,
    ) -> Self {
        let in_portions = requests.len() > 1;
        Self {
            client: client.clone(),
            job,
            rest: requests.into_iter().rev().collect(),
            in_portions,
            replies: None,
            any: false,
            missing: None,
            entries,
            full,
        }
    }

    /// Returns the next page; empty after the last.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn next(&mut self) -> Result<Vec<T>, Failure> {
        let mut page = Vec::new();
        while page.len() < self.full {
            let Some(replies) = &mut self.replies else {
                let Some(request) = self.rest.pop() else {
                    break;
                };
                self.replies = Some(self.client.stream(&request).await?);
                continue;
            };

            match replies.next().await {
                Ok(Some(reply)) => {
                    self.any = true;
                    page.extend((self.entries)(reply)?);
                }
                Ok(None) => {
                    self.any = true;
                    self.replies = None;
                }
                // Of a list in one request, only tasks that are not there are refused, and only if all are.
                Err(LinkError::Refused(refusal))
                    if self.in_portions && refusal.code == RefusalCode::NotFound =>
                {
                    self.replies = None;
                    self.expect_job().await?;
                    self.missing = self.missing.take().or(Some(refusal));
                }
                Err(error) => return Err(error.into()),
            }
        }

        match self.missing.take() {
            Some(refusal) if !self.any => Err(refusal.into()),
            _ => Ok(page),
        }
    }

    /// Returns all that is left.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn all(mut self) -> Result<Vec<T>, Failure> {
        let mut all = Vec::new();
        loop {
            let page = self.next().await?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }

    /// Checks that the job itself is there: one that was forgotten meanwhile has no list that is whole.
    async fn expect_job(&self) -> Result<(), Failure> {
        let request = Request::Jobs {
            jobs: Selector::Ids(IdSet::from_range(self.job.0, self.job.0)),
            states: Vec::new(),
        };
        self.client.ask(&request).await?;
        Ok(())
    }
}

/// Divides what is selected so that each part fits into a request: at least one, in order.
pub(super) fn portions(selected: Selector) -> Vec<Selector> {
    let Selector::Ids(ids) = &selected else {
        return vec![selected];
    };
    if ids.ranges().len() <= RANGES_A_REQUEST {
        return vec![selected];
    }

    let ranges: Vec<(u32, u32)> = ids.ranges().collect();
    let portion = |some: &[(u32, u32)]| Selector::Ids(IdSet::from_ranges(some.to_vec()));
    ranges.chunks(RANGES_A_REQUEST).map(portion).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test's panic is its message")]

    use super::*;

    #[test]
    fn very_many_ranges_are_asked_for_in_portions_that_fit_into_messages() {
        let first = u32::MAX - 100_001;
        let ids: IdSet = (first..u32::MAX).step_by(2).collect();
        let whole = Request::Outputs {
            job: JobId(u32::MAX),
            tasks: Selector::Ids(ids.clone()),
        };
        assert!(common::wire::encode(&whole).is_err());

        let mut found = IdSet::new();
        for tasks in portions(Selector::Ids(ids.clone())) {
            let Selector::Ids(some) = &tasks else {
                panic!("{tasks:?}");
            };
            assert!(found.ranges().last() < some.ranges().next());
            found.union_with(some);
            let job = JobId(u32::MAX);
            common::wire::encode(&Request::Outputs { job, tasks }).unwrap();
        }
        assert_eq!(found, ids);
    }

    #[test]
    fn what_fits_is_asked_for_at_once() {
        let one = Selector::Ids(IdSet::from_range(1, u32::MAX));
        for whole in [
            Selector::All,
            Selector::Last,
            one,
            Selector::Ids(IdSet::new()),
        ] {
            assert_eq!(portions(whole.clone()), [whole]);
        }
    }
}
