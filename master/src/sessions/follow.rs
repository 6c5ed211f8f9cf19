//! Followers of events: what the store has of them, read beside the core, and then what is
//! committed. A follower that reads slowly reads later, and holds nobody back; one whose events are
//! gone meanwhile is told from where it can go on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use common::content::BlobHash;
use common::event::{EventPage, EventView, Following, GridEvent, MAX_RESULT, ResultView};
use common::needs::Label;
use common::selector::Selector;
use common::view::OutputView;
use common::wire::client::Reply;
use common::wire::{RefusalCode, encode};
use common::{Content, HostId, IdSet, JobId, TaskId, Time};
use tokio::sync::watch;

use super::answer::Response;
use super::answers::{Answered, Asker, NoAnswer, few_labels, refuse};
use super::client::push;
use super::unshared::Unshared;
use super::views::length;
use crate::core::NoReply;
use crate::core::ask::{HostAsk, HostNames};
use crate::store::EventRow;

/// The shortest time between two looks for new events.
const PERIOD: Duration = Duration::from_millis(100);
/// The commits whose events are read at a time.
const ROWS: u32 = 256;
/// The events that are looked at together for their results, whatever number of commits they are
/// from: each look asks the core and the store a few times, in this user's turns.
const PORTION: usize = 1_000;
/// The bytes of results beyond which fewer events are looked at together: they stay in memory until the
/// follower has read them.
const RESULTS: usize = 1 << 20;
/// The bytes of events at which a page is full.
const FULL: usize = 100 * 1024;
/// The bytes of the largest event that is sent with its result.
const LARGEST: usize = 160 * 1024;
/// The events that a follower may pass over without a word before it is told how far it is.
const QUIET: u64 = 10_000;

/// A follower with what it asks for (`Following`) and how far it is.
struct Follower<'a> {
    asker: &'a Asker,
    unshared: Unshared,
    /// The jobs that it asks for, without those whose share has ended meanwhile; `None`: any. Of `labels`,
    /// those that were seen with them.
    jobs: Option<IdSet>,
    /// The labels that the jobs it asks for have; none where it names jobs otherwise.
    labels: BTreeSet<Label>,
    /// The hosts that it asks for; `None`: any.
    hosts: Option<BTreeSet<HostId>>,
    results: bool,
    /// The events whose results are looked for together.
    together: usize,
    /// The number of the last event that it was sent, or that is not for it.
    after: u64,
    /// The number that it was last told.
    told: u64,
    /// The events that are to be sent next.
    page: EventPage,
    /// The bytes of these events.
    size: usize,
    names: HostNames,
    /// The hosts whose names it knows.
    named: BTreeSet<HostId>,
}

/// An event as the store has it.
struct LoggedEvent {
    /// Its sequence number.
    seq: u64,
    /// The time of its commit.
    at: Time,
    event: GridEvent,
}

impl LoggedEvent {
    /// The events of one commit.
    fn of(row: EventRow) -> impl Iterator<Item = Self> {
        let EventRow { first, at, events } = row;
        (first..)
            .zip(events)
            .map(move |(seq, event)| Self { seq, at, event })
    }
}

/// Results that were looked for together.
#[derive(Default)]
struct FollowedResults {
    views: BTreeMap<TaskId, OutputView>,
    bytes: usize,
    /// The first task whose result would have been too much; those of later tasks are not here either.
    beyond: Option<TaskId>,
}

impl FollowedResults {
    /// Adds results, in the order of their tasks, as far as they are not too long together. Returns whether
    /// all were added.
    fn add(&mut self, views: Vec<OutputView>) -> bool {
        for view in views {
            let bytes = self.bytes + length(&view);
            if bytes > RESULTS && !self.views.is_empty() {
                self.beyond = Some(view.attempt.task);
                return false;
            }
            self.bytes = bytes;
            self.views.insert(view.attempt.task, view);
        }
        true
    }

    /// The number of these events before the first one whose result has still to be looked for.
    fn covered(&self, logged: &[LoggedEvent]) -> usize {
        let is_beyond = |LoggedEvent { event, .. }: &LoggedEvent| {
            let task = event.task().filter(|_| event.has_result());
            let both = task.zip(self.beyond);
            both.is_some_and(|(task, beyond)| task >= beyond)
        };
        logged.iter().position(is_beyond).unwrap_or(logged.len())
    }

    /// The number of events to look at together after `together` of them.
    fn next(&self, together: usize, covered: usize) -> usize {
        match self.beyond {
            Some(_) => self.views.len().max(covered),
            // What is found beyond is found in vain: so it grows slowly.
            None => (together + together / 8 + 1).min(PORTION),
        }
    }
}

/// Sends the events that are asked for until there is nothing more to come. It is refused once the asker may
/// see none of the jobs that it names any more.
pub(super) async fn follow(asker: &Asker, following: Following, tx: &mut Response) -> Answered<()> {
    let mut committed = asker.newest_event();
    let newest = *committed.borrow_and_update();
    let mut follower = Follower::new(asker, &following, newest).await?;
    follower.send_page(tx).await?;

    loop {
        let newest = *committed.borrow_and_update();
        follower.go_on(newest, tx).await?;
        if !following.wait {
            return follower.send_page(tx).await;
        }
        tokio::select! {
            biased;
            concerned = follower.unshared() => follower.look_at_shares(concerned?).await?,
            alive = stirred(&mut committed) => if !alive {
                return Err(NoReply::Stopped.into());
            },
            // Following ends with the client's stream.
            () = tx.gone() => return Ok(()),
        }
    }
}

/// Waits for events, and then a moment for more of them; false if there will be none.
async fn stirred(committed: &mut watch::Receiver<u64>) -> bool {
    let alive = committed.changed().await.is_ok();
    tokio::time::sleep(PERIOD).await;
    alive
}

impl<'a> Follower<'a> {
    async fn new(asker: &'a Asker, following: &Following, newest: u64) -> Answered<Self> {
        let unshared = asker.unshared();
        let jobs = match &following.jobs {
            None | Some(Selector::All) => None,
            // Jobs that are submitted later count too.
            Some(Selector::Labelled(_)) => Some(IdSet::new()),
            Some(named) => Some(asker.pick(named).await?),
        };
        following.jobs.as_ref().map_or(Ok(()), few_labels)?;
        let labels = match &following.jobs {
            Some(Selector::Labelled(labels)) => labels.clone(),
            _ => BTreeSet::new(),
        };
        let hosts = if following.hosts.is_empty() {
            None
        } else {
            let views = asker.hosts(following.hosts.clone()).await?;
            Some(views.iter().map(|view| view.id).collect())
        };

        let after = following.after.unwrap_or(newest);
        if after > newest {
            let what = format!("there is no event {after} yet: the newest has the number {newest}");
            let hint = format!("go on after {newest}; was the master put back to an older state?");
            return Err(refuse(RefusalCode::Invalid, what, hint));
        }

        Ok(Self {
            asker,
            unshared,
            jobs,
            labels,
            hosts,
            results: following.results,
            together: PORTION,
            after,
            told: after,
            page: EventPage::default(),
            size: 0,
            names: HostNames::default(),
            named: BTreeSet::new(),
        })
    }

    /// Waits until this user's share of some of the jobs that it names has ended, and returns those. Where it
    /// names none there is nothing to wait for.
    async fn unshared(&mut self) -> Answered<IdSet> {
        match &self.jobs {
            Some(jobs) if self.labels.is_empty() => self.unshared.among(jobs).await,
            _ => std::future::pending().await,
        }
    }

    /// Leaves out those of the `concerned` jobs that the user may not see any more; refuses if none is left.
    async fn look_at_shares(&mut self, concerned: IdSet) -> Answered<()> {
        if let Some(jobs) = self.jobs.clone() {
            self.jobs = Some(self.asker.still_seen(jobs, concerned).await?);
        }
        Ok(())
    }

    /// Sends what there is up to the event `newest`, as [`Reply::Events`].
    async fn go_on(&mut self, newest: u64, tx: &mut Response) -> Answered<()> {
        while self.after < newest {
            let after = self.after;
            let rows = self
                .asker
                .read(move |reader| reader.events(after, ROWS))
                .await?;
            let Some(newest_row) = rows.last() else {
                break;
            };
            let read = newest_row.last();
            self.look_at_labels(&rows).await?;
            let visible = self.visible(&rows).await?;
            let logged = rows
                .into_iter()
                .flat_map(LoggedEvent::of)
                .collect::<Vec<_>>();
            let new = logged.partition_point(|logged| logged.seq <= after);
            self.send_all(&logged[new..], visible.as_ref(), tx).await?;
            // Of damaged rows nothing is sent: whoever waited for more of them would read them for ever.
            if self.after < read {
                self.tell_gap(read + 1, tx).await?;
            }
            if !self.page.events.is_empty() || self.after - self.told >= QUIET {
                self.send_page(tx).await?;
            }
        }

        Ok(())
    }

    /// Notes which jobs of these events have the labels that are asked for.
    async fn look_at_labels(&mut self, rows: &[EventRow]) -> Answered<()> {
        let Some(jobs) = self.jobs.as_mut().filter(|_| !self.labels.is_empty()) else {
            return Ok(());
        };
        let events = rows.iter().flat_map(|row| &row.events);
        let mut new: IdSet = events.filter_map(GridEvent::job).map(|job| job.0).collect();
        new.subtract(jobs);

        let labels = self.labels.clone();
        let labelled = self
            .asker
            .read(move |reader| reader.labelled_of(&new, &labels));
        jobs.union_with(&labelled.await?);
        Ok(())
    }

    /// The jobs of these events that the client may see; `None` for an admin, who may see all.
    async fn visible(&self, rows: &[EventRow]) -> Answered<Option<IdSet>> {
        let Some(user) = self.asker.only_own() else {
            return Ok(None);
        };
        let events = rows.iter().flat_map(|row| &row.events);
        let jobs: IdSet = events.filter_map(GridEvent::job).map(|job| job.0).collect();

        let visible = self
            .asker
            .read(move |reader| reader.job_ids_of(&jobs, Some(&user), true))
            .await?;
        Ok(Some(visible))
    }

    /// Whether an event is one that was asked for, and that the client may see.
    fn shows(&self, event: &GridEvent, visible: Option<&IdSet>) -> bool {
        let asked = |job: JobId| self.jobs.as_ref().is_none_or(|jobs| jobs.contains(job.0));
        let may = |job: JobId| visible.is_none_or(|visible| visible.contains(job.0));
        let there = match &self.hosts {
            None => true,
            Some(hosts) => event.host().is_some_and(|host| hosts.contains(&host)),
        };

        match event {
            GridEvent::Restored => true,
            // Who is at which desk is for admins.
            GridEvent::HostChanged { .. } => visible.is_none() && self.jobs.is_none() && there,
            GridEvent::JobForgotten { job, user } => {
                let own = visible.is_none() || *user == self.asker.user;
                own && asked(*job) && there
            }
            other => other
                .job()
                .is_some_and(|job| asked(job) && may(job) && there),
        }
    }

    /// Sends those of these events that were asked for. Of results so many are in memory at a time as are not
    /// too long together.
    async fn send_all(
        &mut self,
        mut logged: &[LoggedEvent],
        visible: Option<&IdSet>,
        tx: &mut Response,
    ) -> Answered<()> {
        while !logged.is_empty() {
            let portion = &logged[..self.together.min(logged.len())];
            let shown = portion
                .iter()
                .filter(|logged| self.shows(&logged.event, visible));
            let found = self.outputs(shown).await?;

            let covered = found.covered(portion);
            self.together = found.next(self.together, covered);
            let (now, later) = logged.split_at(covered);
            self.portion(now, visible, found.views, tx).await?;
            logged = later;
        }

        Ok(())
    }

    /// Sends the events of a portion that were asked for, with these of their results.
    async fn portion(
        &mut self,
        portion: &[LoggedEvent],
        visible: Option<&IdSet>,
        mut outputs: BTreeMap<TaskId, OutputView>,
        tx: &mut Response,
    ) -> Answered<()> {
        for LoggedEvent { seq, at, event } in portion {
            // The numbers that a copy skips are those of no events, and it says itself that it is one.
            if *seq > self.after + 1 && *event != GridEvent::Restored {
                self.tell_gap(*seq, tx).await?;
            }
            if self.shows(event, visible) {
                let settled = event.task().filter(|_| event.has_result());
                let result = match settled.and_then(|task| outputs.remove(&task)) {
                    Some(output) => Some(Box::new(self.result(output).await)),
                    None => None,
                };
                let view = EventView {
                    seq: *seq,
                    at: *at,
                    event: event.clone(),
                    result,
                };
                self.add(view, tx).await?;
            }

            self.after = *seq;
        }

        Ok(())
    }

    /// Tells the follower that events between the last one and this one are gone.
    async fn tell_gap(&mut self, seq: u64, tx: &mut Response) -> Answered<()> {
        if !self.page.events.is_empty() {
            self.send_page(tx).await?;
        }
        let after = self.after;
        self.after = seq - 1;
        self.send(tx, &Reply::Lagged { after, from: seq }).await
    }

    /// Adds an event to `page`, and sends the page before that if both would be more than `FULL`.
    async fn add(&mut self, mut view: EventView, tx: &mut Response) -> Answered<()> {
        let bytes = |view: &EventView| encode(view).map_or(usize::MAX, |frame| frame.len());
        let mut size = bytes(&view);
        if size > LARGEST {
            // A list of very many files is left to be asked for.
            view.result = None;
            size = bytes(&view);
        }
        if !self.page.events.is_empty() && self.size.saturating_add(size) > FULL {
            self.send_page(tx).await?;
        }

        if let Some(host) = view.event.host()
            && self.named.insert(host)
        {
            if !self.names.contains_key(&host) {
                self.names = self.asker.core(HostAsk::Names).await?;
            }
            let name = self.names.get(&host).cloned();
            let name = name.unwrap_or_else(|| host.to_string());
            size += name.len();
            self.page.hosts.push((host, name));
        }
        self.size = self.size.saturating_add(size);
        self.page.upto = view.seq;
        self.page.events.push(view);
        Ok(())
    }

    /// Sends `page`, which tells how far the follower is even if it has no events.
    async fn send_page(&mut self, tx: &mut Response) -> Answered<()> {
        let page = std::mem::take(&mut self.page);
        let upto = page.upto.max(self.after);
        self.size = 0;
        self.told = upto;
        self.send(tx, &Reply::Events(EventPage { upto, ..page }))
            .await
    }

    /// Sends a reply, in this user's turn.
    async fn send(&self, tx: &mut Response, reply: &Reply) -> Answered<()> {
        let _turn = self.asker.answer_turn().await;
        push(tx, reply)?;
        Ok(tx.flush().await?)
    }

    /// The `OutputView`s of the tasks that these events settle, if they are asked for. Those of jobs that
    /// are gone, or that are damaged, are left out, and the last ones where they are too long together.
    async fn outputs(
        &self,
        shown: impl Iterator<Item = &LoggedEvent>,
    ) -> Answered<FollowedResults> {
        let mut found = FollowedResults::default();
        let mut asked = BTreeMap::<JobId, IdSet>::new();
        for LoggedEvent { event, .. } in shown.filter(|_| self.results) {
            if let Some(task) = event.task().filter(|_| event.has_result()) {
                asked.entry(task.job).or_default().insert(task.index);
            }
        }

        for (job, tasks) in asked {
            let mut listing = match self
                .asker
                .listing_of_outputs(job, &Selector::Ids(tasks))
                .await
            {
                Ok(listing) => listing,
                Err(NoAnswer::Refused(_)) => continue,
                Err(gone) => return Err(gone),
            };
            loop {
                match self.asker.next_outputs(&mut listing).await {
                    Ok(Some(views)) => {
                        if !found.add(views) {
                            return Ok(found);
                        }
                    }
                    Ok(None) | Err(NoAnswer::Refused(_)) => break,
                    Err(gone) => return Err(gone),
                }
            }
        }

        Ok(found)
    }

    /// An output with its content, if that is at most `MAX_RESULT`.
    async fn result(&self, output: OutputView) -> ResultView {
        let streams = [&output.stdout.0.content, &output.stderr.0.content];
        let inline = streams.iter().map(|c| match c {
            Content::Inline(bytes) => bytes.len() as u64,
            Content::Blob(_) => 0,
        });
        let blobs: BTreeMap<BlobHash, u64> = streams
            .iter()
            .filter_map(|content| content.blob())
            .chain(output.files.iter().map(|file| file.blob))
            .map(|blob| (blob.hash, blob.size))
            .collect();

        let mut contents = Vec::new();
        if inline.sum::<u64>() + blobs.values().sum::<u64>() <= MAX_RESULT {
            for (hash, size) in blobs {
                match self.asker.content(hash, size).await {
                    Some(bytes) => contents.push((hash, bytes)),
                    // All of it or nothing: a fetch says what is wrong.
                    None => {
                        contents.clear();
                        break;
                    }
                }
            }
        }
        ResultView { output, contents }
    }
}

impl Asker {
    /// Short content of the master's store; `None` if it is not there, or is damaged.
    async fn content(&self, hash: BlobHash, size: u64) -> Option<Vec<u8>> {
        let state = self.state();
        let _held = state.blobs.bring(&state.core, hash).await.ok()?;
        let path = state.blobs.local().path_of(&hash);
        let read = tokio::task::spawn_blocking(move || {
            use std::io::Read;
            let mut bytes = Vec::new();
            let file = std::fs::File::open(path).ok()?;
            file.take(MAX_RESULT + 1).read_to_end(&mut bytes).ok()?;
            Some(bytes)
        });

        let bytes = read.await.ok()??;
        let found = link::content::hash_bytes(&bytes);
        (found.hash == hash && found.size == size).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use common::attempt::Stream;
    use common::{AttemptId, Incarnation};

    use super::*;

    /// The attempt that finished a task of job 1.
    fn attempt(index: u32) -> AttemptId {
        AttemptId {
            task: TaskId::new(JobId(1), index),
            number: 1,
            incarnation: Incarnation(1),
        }
    }

    fn finished(seq: u64, index: u32) -> LoggedEvent {
        let event = GridEvent::TaskFinished {
            attempt: attempt(index),
            host: HostId(1),
        };
        let at = Time(seq);
        LoggedEvent { seq, at, event }
    }

    fn output(index: u32) -> OutputView {
        let stdout = Stream {
            content: Content::Inline(vec![b'x'; 250 << 10]),
            dropped: 0,
        };
        OutputView {
            attempt: attempt(index),
            host: "h1".to_owned(),
            stdout: (stdout, None),
            stderr: (Stream::default(), None),
            files: Vec::new(),
            warnings: Vec::new(),
            removed: false,
        }
    }

    /// The events that are sent after each look at the results of these tasks, whose events come in this
    /// order, and the results that were found in vain.
    fn looks(tasks: &[u32]) -> (Vec<usize>, usize) {
        let events: Vec<LoggedEvent> = (1..)
            .zip(tasks)
            .map(|(seq, index)| finished(seq, *index))
            .collect();
        let mut logged = &events[..];
        let mut together = PORTION;
        let mut looks = Vec::new();
        let mut in_vain = 0;

        while !logged.is_empty() {
            let portion = &logged[..together.min(logged.len())];
            let asked: IdSet = portion
                .iter()
                .filter_map(|logged| logged.event.task())
                .map(|task| task.index)
                .collect();
            let mut found = FollowedResults::default();
            found.add(asked.iter().map(output).collect());

            let covered = found.covered(portion);
            let (now, later) = logged.split_at(covered);
            let sent = |task: &TaskId| now.iter().any(|now| now.event.task() == Some(*task));
            assert!(found.bytes <= RESULTS);
            assert!(now.iter().all(|now| {
                let task = now.event.task();
                task.is_some_and(|task| found.views.contains_key(&task))
            }));
            in_vain += found.views.keys().filter(|task| !sent(task)).count();
            together = found.next(together, covered);
            looks.push(covered);
            logged = later;
        }
        (looks, in_vain)
    }

    #[test]
    fn events_with_long_results_are_sent_as_far_as_these_were_found() {
        let in_order: Vec<u32> = (1..=40).collect();
        assert_eq!(looks(&in_order), (vec![4; 10], 0));

        // Where tasks end in the opposite order, the result of the first event is found last.
        let opposite: Vec<u32> = (1..=40).rev().collect();
        let (looks, in_vain) = looks(&opposite);
        assert_eq!(looks.iter().sum::<usize>(), 40);
        assert!(looks.len() <= 20 && in_vain <= 40, "{looks:?}, {in_vain}");
    }
}
