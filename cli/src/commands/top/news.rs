//! The news from the master: where each answer goes, and what events say about jobs and hosts.

use common::event::{EventPage, GridEvent};
use common::selector::{Selector, parse_ids};
use common::text::plural;
use common::token::Role;
use common::view::{ExplainView, HostState, HostView, JobView, TaskView};
use common::wire::client::{Reply, Request};
use common::{IdSet, Span, TaskId};

use super::super::{host, job, task};
use super::app::{App, OpenPage, TextOf};
use super::ask::{AskSlot, GridAsk, GridNews, Pacer};
use super::log::LogRest;
use super::look::{Tone, of_host, of_task, shown};
use super::tasks::PageFound;
use super::text::{TextLine, lines};
use super::wants::{FAILURES, SEEN, UNSEEN};
use crate::failure::Failure;
use crate::output::when;

/// Says why nothing is known of one host.
const UNTOLD: &str = "of so many hosts the master tells the reasons of some only";

/// The news that are kept while the picture is frozen; of streams the oldest pieces are dropped.
const HELD: usize = 200;
/// The time until a stream that ended is begun again.
const AGAIN: Span = Span(2_000_000);

/// Collects what replies of one kind hold.
macro_rules! all {
    ($replies:expr, $kind:path) => {
        $replies
            .into_iter()
            .filter_map(|reply| match reply {
                $kind(some) => Some(some),
                _ => None,
            })
            .flatten()
            .collect::<Vec<_>>()
    };
}

impl App {
    /// Takes news from the master.
    pub(crate) fn hear(&mut self, news: GridNews) {
        if self.frozen.is_some() && !news.is_awaited() {
            self.hold(news);
            return;
        }

        match news {
            late if !late.counts(&self.pacer) => {}
            GridNews::Lost(why) => self.lose(&why),
            GridNews::Back(user, role) => self.come_back(user, role),
            GridNews::Piece(slot, _, reply) => self.piece(slot, reply),
            GridNews::Ended(slot, _, end) => self.ended(slot, end),
            GridNews::Answer(slot, _, answer) => self.answered(slot, answer),
            GridNews::Bytes(slot, _, bytes) => self.bytes(slot, bytes),
        }
        self.arrange();
    }

    /// Keeps news until the picture goes on. Answers and ends are not dropped, of which a slot has one at
    /// most: it would wait for them for ever.
    fn hold(&mut self, news: GridNews) {
        if let GridNews::Answer(slot, serial, _) = &news {
            self.pacer.came(*slot, *serial, self.now.up);
        }

        if self.held.len() >= HELD {
            let pacer = &self.pacer;
            self.held.retain(|news| news.counts(pacer));
        }
        if self.held.len() >= HELD {
            let oldest = self
                .held
                .iter()
                .position(|news| matches!(news, GridNews::Piece(..)));
            if let Some(oldest) = oldest {
                self.held.remove(oldest);
            }
        }
        self.held.push_back(news);
    }

    fn lose(&mut self, why: &str) {
        if self.lost.is_none() {
            self.lost = Some((self.now.wall, shown(why)));
        }
        if self.pacer.is_under_way(AskSlot::Change) {
            let done = self.changing;
            self.unsure = Some(done);
            let what = "the connection went before the master said whether that was done";
            self.say(format!("{what} ({done})"), Tone::Bad);
        }
        self.pacer.clear();
    }

    fn come_back(&mut self, user: String, role: Role) {
        if let Some((since, _)) = self.lost.take() {
            let away = self.now.wall.since(since);
            let back = format!("the master is back, after {away}");
            match self.unsure.take() {
                None => self.say(back, Tone::Good),
                Some(done) => {
                    let unknown =
                        format!("whether that was done ({done}) is not known: look at it");
                    self.say(format!("{back}; {unknown}"), Tone::Bad);
                }
            }
        }
        self.user = user;
        self.role = role;
        self.pacer.clear();
    }

    fn piece(&mut self, slot: AskSlot, reply: Reply) {
        match (slot, reply) {
            (AskSlot::Events, Reply::Events(page)) => {
                self.heed(&page);
                self.events.take(page);
            }
            (AskSlot::PastEvents, Reply::Events(page)) => self.events.take(page),
            (AskSlot::Log, Reply::Tail(news)) => {
                if let Some(OpenPage::Log(log)) = self.readings.last_mut() {
                    log.take(news);
                }
            }
            _ => {}
        }
    }

    /// Notes what events say about jobs and hosts.
    fn heed(&mut self, page: &EventPage) {
        for view in &page.events {
            match &view.event {
                GridEvent::JobForgotten { job, .. } => {
                    let gone = *job;
                    self.jobs.board.retain(|job| job.job != gone);
                }
                GridEvent::HostChanged { host, state, why } => {
                    let state = *state;
                    let why = why.clone();
                    if self.hosts.entry(host.0).is_none() {
                        self.pacer.soon(AskSlot::AllHosts, self.now.up, SEEN);
                    }
                    self.hosts.change(host.0, |host| {
                        // How many slots an owner who shares lends, the next list tells.
                        match state {
                            HostState::Ready if why.is_none() => {
                                host.slots_usable = host.facts.slots;
                            }
                            HostState::Suspended => host.slots_usable = 0,
                            _ => {}
                        }
                        host.state = state;
                        host.since = view.at;
                        host.reason = why;
                    });
                }
                GridEvent::JobSubmitted { job, .. }
                | GridEvent::JobStarted { job }
                | GridEvent::JobSettled { job, .. }
                | GridEvent::TasksReopened { job, .. }
                | GridEvent::TasksAdded { job, .. }
                | GridEvent::JobClosed { job } => {
                    self.jobs.hear(*job);
                    self.pacer.soon(AskSlot::SeenJobs, self.now.up, SEEN);
                }
                _ => {}
            }
        }
    }

    fn ended(&mut self, slot: AskSlot, end: Result<(), Failure>) {
        let pause = if slot == AskSlot::Log { SEEN } else { AGAIN };
        self.pacer.over(slot, self.now.up, pause);

        match (slot, end) {
            (AskSlot::Events, Err(_)) => self.events.restart(),
            (AskSlot::PastEvents, _) => self.events.past = true,
            (AskSlot::Log, Err(failure)) => {
                if let Some(OpenPage::Log(log)) = self.readings.last_mut() {
                    log.note(&failure.what);
                    log.settled = true;
                }
            }
            (AskSlot::Log, Ok(())) => self.fetch_rest(),
            _ => {}
        }
    }

    /// Asks for the output of a task that is settled.
    fn fetch_rest(&mut self) {
        if let Some(OpenPage::Log(log)) = self.readings.last()
            && log.settled
        {
            let TaskId { job, index } = log.task;
            let tasks = Selector::Ids(IdSet::from_range(index, index));
            let request = Request::Outputs { job, tasks };
            self.ask(AskSlot::LogRest, request, usize::MAX);
        }
    }

    fn answered(&mut self, slot: AskSlot, answer: Result<Vec<Reply>, Failure>) {
        let pause = match slot {
            AskSlot::OpenJobs | AskSlot::AllHosts => UNSEEN,
            AskSlot::OlderJobs | AskSlot::Change => Span::ZERO,
            _ => SEEN,
        };
        self.pacer.end(slot, self.now.up, pause);
        let replies = match answer {
            Ok(replies) => replies,
            Err(failure) if failure.code == "not-found" && slot == AskSlot::SeenJobs => {
                let asked = self.asked.remove(&slot).unwrap_or_default();
                if self.jobs.take_missing(&asked) {
                    self.pacer.soon(slot, self.now.up, Span::ZERO);
                }
                return;
            }
            // There is nothing of that kind.
            Err(failure) if failure.code == "not-found" && slot != AskSlot::Change => Vec::new(),
            Err(failure) => {
                let hint = Some(failure.hint).filter(|hint| !hint.is_empty());
                let hint = hint.map_or_else(String::new, |hint| format!("; try: {hint}"));
                self.say(shown(&format!("{}{hint}", failure.what)), Tone::Bad);
                return;
            }
        };

        match slot {
            AskSlot::OpenJobs => self.jobs.take_open(all!(replies, Reply::Jobs)),
            AskSlot::NewestJob => {
                let jobs: Vec<JobView> = all!(replies, Reply::Jobs);
                self.jobs.newest(jobs.last().map(|job| job.job));
            }
            AskSlot::OlderJobs | AskSlot::SeenJobs => {
                let asked = self.asked.remove(&slot).unwrap_or_default();
                let jobs = all!(replies, Reply::Jobs);
                match slot {
                    AskSlot::OlderJobs => self.jobs.take_older(&asked, jobs),
                    _ => self.jobs.take_seen(&asked, jobs),
                }
            }
            AskSlot::AllHosts => {
                let hosts: Vec<HostView> = all!(replies, Reply::Hosts);
                let there: IdSet = hosts.iter().map(|host| host.id.0).collect();
                self.hosts.retain(|host| there.contains(host.id.0));
                hosts.into_iter().for_each(|host| self.hosts.put(host));
                self.hosts.loaded = true;
            }
            AskSlot::SeenHosts => {
                let hosts: Vec<HostView> = all!(replies, Reply::Hosts);
                hosts.into_iter().for_each(|host| self.hosts.put(host));
            }
            AskSlot::Tasks => {
                let rows = self.rows();
                let found = self.tasks.take(all!(replies, Reply::Tasks), rows);
                if found == PageFound::Searching {
                    self.pacer.hurry(AskSlot::Tasks);
                }
            }
            AskSlot::Text => self.tell(replies),
            AskSlot::Change => self.changed(replies),
            AskSlot::LogRest => self.take_output(replies),
            AskSlot::Events | AskSlot::PastEvents | AskSlot::Log => {}
        }
    }

    /// Says what a change has done, and looks at it at once.
    fn changed(&mut self, replies: Vec<Reply>) {
        let done = self.changing;
        let mut said = Vec::new();
        for reply in replies {
            match reply {
                Reply::Changed(changed) => said.extend(
                    changed
                        .iter()
                        .map(|(id, tasks)| format!("job {id}: {} {done}", plural(*tasks, "task"))),
                ),
                Reply::Hosts(hosts) => {
                    said.extend(
                        hosts
                            .iter()
                            .map(|host| format!("{} {done}", shown(&host.facts.name))),
                    );
                    hosts.into_iter().for_each(|host| self.hosts.put(host));
                }
                _ => {}
            }
        }

        let nothing = "there was nothing left to do".to_owned();
        self.say(said.into_iter().next().unwrap_or(nothing), Tone::Good);
        for slot in [
            AskSlot::SeenJobs,
            AskSlot::SeenHosts,
            AskSlot::Tasks,
            AskSlot::Text,
        ] {
            self.pacer.soon(slot, self.now.up, Span::ZERO);
        }
    }

    fn take_output(&mut self, replies: Vec<Reply>) {
        let outputs = all!(replies, Reply::Outputs);
        let Some(OpenPage::Log(log)) = self.readings.last_mut() else {
            return;
        };

        if let LogRest::Fetch(blob, from) = log.take_output(outputs.last()) {
            let serial = self.pacer.begin(AskSlot::LogRest, self.now.up);
            self.asks.push(GridAsk::Content {
                slot: AskSlot::LogRest,
                serial,
                blob,
                from,
            });
        }
    }

    fn bytes(&mut self, slot: AskSlot, bytes: Result<Vec<u8>, Failure>) {
        self.pacer.end(slot, self.now.up, SEEN);
        if let Some(OpenPage::Log(log)) = self.readings.last_mut() {
            match bytes {
                Ok(bytes) => log.rest(&bytes),
                Err(failure) => log.note(&failure.what),
            }
        }
    }

    /// Takes the answer to what is read.
    fn tell(&mut self, replies: Vec<Reply>) {
        let Some(OpenPage::Text(of, text, _)) = self.readings.last_mut() else {
            return;
        };

        match (of, replies.into_iter().next()) {
            (TextOf::WhyJob(_, task, above), Some(Reply::Explained(view))) => {
                *text = why(&view, *task, above.as_deref().unwrap_or_default());
            }
            (TextOf::WhyJob(_, _, above), Some(Reply::Tasks(tasks))) => {
                *above = Some(tasks.iter().take(FAILURES).map(stands).collect());
                self.pacer.hurry(AskSlot::Text);
            }
            (TextOf::WhyJob(_, _, above @ None), None) => *above = Some(Vec::new()),
            (TextOf::WhyHost(host, known), Some(Reply::Explained(view))) => {
                let name = self
                    .hosts
                    .entry(host.0)
                    .map(|host| host.facts.name.as_str());
                let here = view
                    .hosts
                    .iter()
                    .find(|(host, _)| Some(host.as_str()) == name);
                let counted = |(row, _): &(String, String)| ExplainView::left_out(row).is_some();
                let why = match here {
                    Some((_, why)) => why.as_str(),
                    None if view.hosts.iter().any(counted) => UNTOLD,
                    None => "nothing keeps it from this host",
                };
                let line = format!("{} ({}): {why}", view.job.job, view.job.name);
                known.insert(view.job.job, line);
            }
            (TextOf::Task(_), Some(Reply::Tasks(tasks))) => {
                let described = tasks
                    .first()
                    .map(|view: &TaskView| task::describe(view, false));
                *text = lines(&described.unwrap_or_default());
            }
            (TextOf::Host(_), Some(Reply::Hosts(hosts))) => {
                hosts.into_iter().for_each(|host| self.hosts.put(host));
            }
            (_, None) => *text = lines("there is nothing like that any more"),
            _ => {}
        }
        self.retell();
    }

    /// Writes the texts that are made of what is known of a host.
    pub(super) fn retell(&mut self) {
        let waits = self.jobs.board.all().any(|job| job.tasks.waiting > 0);
        let Some(OpenPage::Text(of, text, _)) = self.readings.last_mut() else {
            return;
        };

        match of {
            TextOf::Host(id) => {
                if let Some(view) = self.hosts.entry(id.0) {
                    *text = lines(&host::describe(view));
                }
            }
            TextOf::WhyHost(id, known) => {
                if let Some(view) = self.hosts.entry(id.0) {
                    *text = of_a_host(view, known.values(), waits);
                }
            }
            TextOf::WhyJob(..) | TextOf::Task(_) => {}
        }
    }
}

impl GridNews {
    /// Whether they are of a request that is under way, or of none.
    fn counts(&self, pacer: &Pacer) -> bool {
        match self {
            GridNews::Lost(_) | GridNews::Back(..) => true,
            GridNews::Answer(slot, serial, _)
            | GridNews::Piece(slot, serial, _)
            | GridNews::Ended(slot, serial, _)
            | GridNews::Bytes(slot, serial, _) => pacer.is_current(*slot, *serial),
        }
    }

    /// Whether somebody may wait for them who has pressed a key.
    pub(super) fn is_awaited(&self) -> bool {
        match self {
            GridNews::Lost(_) | GridNews::Back(..) | GridNews::Bytes(..) => true,
            GridNews::Piece(..) | GridNews::Ended(..) => false,
            GridNews::Answer(slot, ..) => matches!(
                slot,
                AskSlot::Tasks | AskSlot::Text | AskSlot::Change | AskSlot::LogRest
            ),
        }
    }
}

/// The reasons why a job is not done, below the tasks that failed; of one task those that hold it
/// back, below its state.
fn why(view: &ExplainView, task: Option<u32>, above: &[TextLine]) -> Vec<TextLine> {
    let mut text = above.to_vec();
    let holds = |tasks: &str| {
        let ids = parse_ids(tasks).ok();
        ids.zip(task).is_some_and(|(ids, task)| ids.contains(task))
    };
    let reasons = view.waiting.iter().filter(|(_, tasks)| holds(tasks));
    text.extend(
        reasons.map(|(reason, _)| TextLine::new(&format!("it waits: {reason}"), Tone::Strong)),
    );

    if !text.is_empty() {
        text.push(TextLine::new("", Tone::Plain));
    }
    text.extend(lines(&job::explained(view, false)));
    text
}

/// Says how a task stands and why, in a line.
fn stands(task: &TaskView) -> TextLine {
    let main = task.main_attempt();
    let host = main.map_or_else(String::new, |attempt| format!(" on {}", attempt.host));
    let why = task.reason.as_deref();
    let why = why.or_else(|| main.and_then(|attempt| attempt.reason.as_deref()));
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    let line = format!("task {} is {}{host}{why}", task.task, task.state);
    TextLine::new(&line, of_task(task.state).1)
}

/// The reasons why a host gets no tasks.
fn of_a_host<'a>(
    view: &HostView,
    known: impl Iterator<Item = &'a String>,
    waits: bool,
) -> Vec<TextLine> {
    use HostState as S;
    let says = match view.state {
        S::Ready => "a slot is free for tasks",
        S::Busy => "every slot that it lends is taken",
        S::Suspended => "its owner needs it: tasks there stand still, and go on afterwards",
        S::Suspect => "nothing was heard of it for a while; its tasks still count as alive",
        S::Lost => "nothing was heard of it for longer than its lease: its tasks run elsewhere",
        S::Draining => "an admin drains it: it gets no new tasks",
        S::Benched => "tasks failed there: it gets one at a time, after pauses",
    };
    let why = view
        .reason
        .as_deref()
        .map_or_else(String::new, |why| format!(": {why}"));
    let since = when::date(view.since);
    let head = format!("{} is {}{why}, since {since}", view.facts.name, view.state);

    let mut text = vec![TextLine::new(&head, of_host(view.state).1)];
    text.extend(lines(&format!(
        "{says}\n\nWHY JOBS THAT WAIT DO NOT RUN HERE\n"
    )));
    let before = text.len();
    text.extend(known.map(|line| TextLine::new(&format!("job {line}"), Tone::Plain)));
    if text.len() == before {
        text.extend(lines(if waits {
            "asking the master ..."
        } else {
            "no job has tasks that wait"
        }));
    }
    text
}
