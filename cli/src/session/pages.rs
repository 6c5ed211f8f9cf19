//! Lists about the tasks of a job, read page by page while the master sends them: they may be longer than what should be in
//! memory at a time. Tasks in more ranges than one request holds are asked for in portions.

use common::attempt::Stream;
use common::content::Content;
use common::selector::{Selector, beyond};
use common::view::{OutputView, TaskView};
use common::wire::client::{Reply, Request};
use common::wire::{Refusal, RefusalCode};
use common::{IdSet, JobId, TaskId};
use link::client::Replies;
use link::{Client, LinkError};

use super::answer;
use crate::failure::Failure;

/// The tasks on one page: so many are in memory at a time, and as many again.
const TASKS_A_PAGE: usize = 10_000;
/// The size of a page of outputs in memory, in bytes.
const OUTPUT_PAGE_BYTES: usize = 16 << 20;
/// The bytes that an output takes beside what its task printed, and those of one of its files.
const OUTPUT_BYTES: usize = 1 << 10;
const FILE_BYTES: usize = 128;
/// The most ranges in one request. Each takes ten bytes at most, and a message holds 256 KiB.
const RANGES_A_REQUEST: usize = 20_000;

/// The end that answers requests: the master, but in tests.
pub(crate) trait Answerer {
    /// The replies to one request.
    type AnswerStream;

    /// Sends a request.
    async fn send(&self, request: &Request) -> Result<Self::AnswerStream, LinkError>;

    /// Returns the next reply; `None` after the last.
    async fn next(replies: &mut Self::AnswerStream) -> Result<Option<Reply>, LinkError>;
}

impl Answerer for Client {
    type AnswerStream = Replies;

    async fn send(&self, request: &Request) -> Result<Replies, LinkError> {
        self.stream(request).await
    }

    async fn next(replies: &mut Replies) -> Result<Option<Reply>, LinkError> {
        replies.next().await
    }
}

/// A list that the master sends while it is read.
pub(crate) struct PagedList<T, A: Answerer = Client> {
    master: A,
    job: JobId,
    /// The tasks that are asked for later, the last ones first.
    rest: Vec<Selector>,
    /// Whether one request was too short for all of them.
    in_portions: bool,
    /// The tasks that were asked for last, with the replies.
    now: Option<(Selector, A::AnswerStream)>,
    /// The task of the last entry on a page.
    last: Option<TaskId>,
    /// Whether there were tasks of the job among those that were asked for.
    any: bool,
    /// The refusal of the first portion without any.
    missing: Option<Refusal>,
    kind: PageKind<T>,
}

/// The traits of one kind of list.
struct PageKind<T> {
    request: Box<dyn Fn(Selector) -> Request + Send + Sync>,
    /// Returns the entries in a reply.
    entries: fn(Reply) -> Result<Vec<T>, LinkError>,
    /// Returns the size of an entry.
    size: fn(&T) -> usize,
    /// The size of a page.
    full: usize,
    /// Returns the task of an entry.
    task: fn(&T) -> TaskId,
    /// Whether each page has a request of its own.
    apart: bool,
}

/// Tasks that the master sends while they are read.
pub(crate) type TaskPages = PagedList<TaskView>;

/// Outputs of tasks. Each page has a request of its own: the master does not wait for long until an answer is read, and
/// whoever prints a page may have to wait for its reader, or for more content.
pub(crate) type OutputPages = PagedList<OutputView>;

impl TaskPages {
    /// Asks for tasks of `job`, by a request for each portion of them.
    pub(super) fn of_tasks(
        client: &Client,
        job: JobId,
        tasks: Selector,
        request: impl Fn(Selector) -> Request + Send + Sync + 'static,
    ) -> Self {
        let kind = PageKind {
            request: Box::new(request),
            entries: |reply| answer!(reply, Reply::Tasks),
            size: |_| 1,
            full: TASKS_A_PAGE,
            task: |view| view.task,
            apart: false,
        };
        Self::new(client.clone(), job, tasks, kind)
    }
}

impl OutputPages {
    /// Asks for the outputs of tasks of `job`.
    pub(super) fn of_outputs(client: &Client, job: JobId, tasks: Selector) -> Self {
        let kind = PageKind::of_outputs(job, OUTPUT_PAGE_BYTES);
        Self::new(client.clone(), job, tasks, kind)
    }
}

impl PageKind<OutputView> {
    fn of_outputs(job: JobId, full: usize) -> Self {
        Self {
            request: Box::new(move |tasks| Request::Outputs { job, tasks }),
            entries: |reply| answer!(reply, Reply::Outputs),
            size: size_of_output,
            full,
            task: |output| output.attempt.task,
            apart: true,
        }
    }
}

fn size_of_output(output: &OutputView) -> usize {
    let printed = |stream: &Stream| match &stream.content {
        Content::Inline(bytes) => bytes.len(),
        Content::Blob(_) => 0,
    };
    OUTPUT_BYTES
        + FILE_BYTES * output.files.len()
        + printed(&output.stdout.0)
        + printed(&output.stderr.0)
}

impl<T, A: Answerer> PagedList<T, A> {
    fn new(master: A, job: JobId, tasks: Selector, kind: PageKind<T>) -> Self {
        let mut rest = portions(tasks);
        rest.reverse();
        Self {
            master,
            job,
            in_portions: rest.len() > 1,
            rest,
            now: None,
            last: None,
            any: false,
            missing: None,
            kind,
        }
    }

    /// Returns the next page as [`PagedList::next`] does, or over the connection that `again` makes: while
    /// the reader of what is printed stands still, a connection may be lost.
    ///
    /// # Errors
    /// If the master refuses, or both connections are gone.
    pub(crate) async fn next_over(
        &mut self,
        again: impl Future<Output = Result<A, LinkError>>,
    ) -> Result<Vec<T>, Failure> {
        let mut left = self.rest.clone();
        left.extend(self.left_of_now());

        match self.next().await {
            Err(failure) if failure.is_away() => {
                self.master = again.await?;
                self.now = None;
                self.rest = left;
                self.next().await
            }
            page => page,
        }
    }

    /// Returns the next page; empty after the last.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn next(&mut self) -> Result<Vec<T>, Failure> {
        let mut page = Vec::new();
        let mut size = 0;
        while size < self.kind.full {
            let Some((_, replies)) = &mut self.now else {
                let Some(tasks) = self.rest.pop() else {
                    break;
                };
                let request = (self.kind.request)(tasks.clone());
                self.now = Some((tasks, self.master.send(&request).await?));
                continue;
            };

            let reply = A::next(replies).await;
            match reply {
                Ok(Some(reply)) => {
                    self.any = true;
                    let entries = (self.kind.entries)(reply)?;
                    size += entries.iter().map(self.kind.size).sum::<usize>();
                    page.extend(entries);
                }
                Ok(None) => {
                    self.any = true;
                    self.now = None;
                }
                // Tasks that are not there are refused only where there is no other one in the same request.
                Err(LinkError::Refused(refusal))
                    if refusal.code == RefusalCode::NotFound && (self.in_portions || self.any) =>
                {
                    self.now = None;
                    self.expect_job().await?;
                    self.missing = self.missing.take().or(Some(refusal));
                }
                Err(error) => return Err(error.into()),
            }
        }

        self.end_page(page.last());
        match self.missing.take() {
            Some(refusal) if !self.any => Err(refusal.into()),
            _ => Ok(page),
        }
    }

    /// Gives up the rest of an answer, where the next page has a request of its own.
    fn end_page(&mut self, last: Option<&T>) {
        self.last = last.map(self.kind.task).or(self.last);
        if self.kind.apart {
            let left = self.left_of_now();
            self.now = None;
            self.rest.extend(left);
        }
    }

    /// Returns those of the tasks that were asked for last that come after the last page.
    fn left_of_now(&self) -> Option<Selector> {
        let (tasks, _) = self.now.as_ref()?;
        match self.last {
            Some(last) => rest_of(tasks, last),
            None => Some(tasks.clone()),
        }
    }

    /// Returns the next page as [`PagedList::next`] does; `None` after the last.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn page(&mut self) -> Result<Option<Vec<T>>, Failure> {
        let page = self.next().await?;
        Ok(Some(page).filter(|page| !page.is_empty()))
    }

    /// Returns all that is left.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(crate) async fn all(mut self) -> Result<Vec<T>, Failure> {
        let mut all = Vec::new();
        while let Some(page) = self.page().await? {
            all.extend(page);
        }
        Ok(all)
    }

    /// Checks that the job itself is there: one that was forgotten meanwhile has no list that is whole.
    async fn expect_job(&self) -> Result<(), Failure> {
        let request = Request::Jobs {
            jobs: Selector::Ids(IdSet::from_range(self.job.0, self.job.0)),
            states: Vec::new(),
        };
        let mut replies = self.master.send(&request).await?;
        while A::next(&mut replies).await?.is_some() {}
        Ok(())
    }
}

/// Returns those of the tasks that come after this one; `None` if there can be none.
fn rest_of(tasks: &Selector, last: TaskId) -> Option<Selector> {
    match tasks {
        Selector::All | Selector::Beyond(_) => Some(Selector::Beyond(last.index)),
        Selector::Ids(ids) => {
            let rest = ids.intersection(&beyond(last.index));
            (!rest.is_empty()).then_some(Selector::Ids(rest))
        }
        Selector::Last | Selector::Labelled(_) => None,
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

    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;

    use common::{AttemptId, Incarnation};

    use super::*;

    const JOB: JobId = JobId(7);

    /// A master with the outputs of these tasks of a job, which it answers two at a time.
    struct Master {
        tasks: IdSet,
        /// The number of replies that it has given to each request for outputs.
        given: RefCell<Vec<usize>>,
        /// The number of replies before the connection is lost.
        lost_after: Cell<usize>,
    }

    impl Answerer for &Master {
        type AnswerStream = (Self, VecDeque<Result<Reply, LinkError>>);

        async fn send(&self, request: &Request) -> Result<Self::AnswerStream, LinkError> {
            let Request::Outputs { job, tasks } = request else {
                return Ok((*self, VecDeque::new()));
            };
            self.given.borrow_mut().push(0);
            let picked = tasks.pick(&self.tasks);
            if picked.is_empty() && matches!(tasks, Selector::Ids(_)) {
                let refusal = Refusal::new(RefusalCode::NotFound, "job 7 has no task", "");
                return Ok((*self, [Err(refusal.into())].into()));
            }

            let outputs: Vec<OutputView> = picked.iter().map(|index| output(*job, index)).collect();
            let replies = outputs
                .chunks(2)
                .map(|some| Ok(Reply::Outputs(some.to_vec())));
            Ok((*self, replies.collect()))
        }

        async fn next(
            (master, replies): &mut Self::AnswerStream,
        ) -> Result<Option<Reply>, LinkError> {
            *master.given.borrow_mut().last_mut().unwrap() += 1;
            let left = master.lost_after.get().checked_sub(1);
            master.lost_after.set(left.unwrap_or(usize::MAX));
            if left.is_none() {
                return Err(LinkError::Closed("lost".to_owned()));
            }
            replies.pop_front().transpose()
        }
    }

    fn output(job: JobId, index: u32) -> OutputView {
        let attempt = AttemptId {
            task: TaskId::new(job, index),
            number: 1,
            incarnation: Incarnation(1),
        };
        let stream = || (Stream::default(), None);
        OutputView {
            attempt,
            host: "h".to_owned(),
            stdout: stream(),
            stderr: stream(),
            files: Vec::new(),
            warnings: Vec::new(),
            removed: false,
        }
    }

    /// Reads the outputs of tasks in pages of three, or of four where two replies come to that; each page has a request
    /// of its own where it is `apart`.
    async fn pages(
        master: &Master,
        tasks: Selector,
        apart: bool,
    ) -> Result<Vec<Vec<u32>>, Failure> {
        let kind = PageKind {
            apart,
            ..PageKind::of_outputs(JOB, 3 * OUTPUT_BYTES)
        };
        let mut pages = PagedList::new(master, JOB, tasks, kind);
        let mut all = Vec::new();
        loop {
            let page = pages.next_over(async { Ok(master) }).await?;
            if page.is_empty() {
                return Ok(all);
            }
            all.push(
                page.iter()
                    .map(|output| output.attempt.task.index)
                    .collect(),
            );
        }
    }

    #[tokio::test]
    async fn outputs_come_page_by_page_and_no_answer_waits_while_a_page_is_read() {
        let master = Master {
            tasks: [1, 2, 3, 5, 8, 13, 21, 34, 55].into_iter().collect(),
            given: RefCell::default(),
            lost_after: Cell::new(usize::MAX),
        };
        let expected: [&[u32]; 3] = [&[1, 2, 3, 5], &[8, 13, 21, 34], &[55]];
        let all = pages(&master, Selector::All, true).await.unwrap();
        assert_eq!(all, expected);
        // Of each page but the last its two replies were taken, and the answer was given up.
        assert_eq!(*master.given.borrow(), [2, 2, 2]);

        let some = Selector::Ids(IdSet::from_range(3, 20));
        let expected: [&[u32]; 1] = [&[3, 5, 8, 13]];
        assert_eq!(pages(&master, some, true).await.unwrap(), expected);
        let last = pages(&master, Selector::Last, true).await.unwrap();
        assert_eq!(last, [[55]]);
        let none = Selector::Ids(IdSet::from_range(6, 7));
        let refused = pages(&master, none, true).await.unwrap_err();
        assert_eq!(refused.code, "not-found");
    }

    #[tokio::test]
    async fn a_list_goes_on_after_the_last_page_wherever_its_connection_is_lost() {
        let tasks: IdSet = (1..=9).collect();
        let some = Selector::Ids(IdSet::from_range(2, 8));
        for (asked, apart) in [(Selector::All, false), (some, false), (Selector::All, true)] {
            let expected: Vec<u32> = asked.pick(&tasks).iter().collect();
            for lost_after in 0..6 {
                let master = Master {
                    tasks: tasks.clone(),
                    given: RefCell::default(),
                    lost_after: Cell::new(lost_after),
                };
                let read = pages(&master, asked.clone(), apart).await.unwrap();
                assert_eq!(read.concat(), expected, "{asked:?}, {lost_after}");
            }
        }
    }

    #[test]
    fn the_next_page_begins_after_the_last_task_of_the_one_before() {
        let last = TaskId::new(JOB, 5);
        let ids = |first, last| Selector::Ids(IdSet::from_range(first, last));
        assert_eq!(rest_of(&Selector::All, last), Some(Selector::Beyond(5)));
        assert_eq!(
            rest_of(&Selector::Beyond(2), last),
            Some(Selector::Beyond(5))
        );
        assert_eq!(rest_of(&ids(1, 9), last), Some(ids(6, 9)));
        assert_eq!(rest_of(&ids(1, 5), last), None);
        assert_eq!(rest_of(&Selector::Last, last), None);
    }

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
