//! The state of `top`: keys and news in, requests and a picture out. It reads no clock, no terminal and no
//! network. What it asks for is in `wants`, what comes of it in `news`, the picture in `draw`.

use std::collections::{BTreeMap, VecDeque};

use common::attempt::StreamKind;
use common::selector::Selector;
use common::token::Role;
use common::view::{HostState, HostView, TaskState};
use common::wire::client::Request;
use common::{HostId, IdSet, JobId, Span, TaskId, Time};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::ask::{AskSlot, GridAsk, GridNews, Pacer, TopMoment};
use super::board::Board;
use super::events::EventList;
use super::jobs::JobBook;
use super::keys::{KEYS, KeyAct, meaning};
use super::log::TaskLog;
use super::look::{Theme, Tone};
use super::tasks::TaskBook;
use super::text::{TextLine, TextPlace, lines};

/// A tab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tab {
    Jobs,
    Tasks,
    Hosts,
    Events,
}

/// The thing that an `OpenPage::Text` is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TextOf {
    /// The reasons why tasks of this job wait, or of this task; with the tasks that failed, or with
    /// this one, once they are there.
    WhyJob(JobId, Option<u32>, Option<Vec<TextLine>>),
    /// The reasons why a host gets no tasks; by job, as far as they are known.
    WhyHost(HostId, BTreeMap<JobId, String>),
    /// A task with its attempts.
    Task(TaskId),
    /// A host.
    Host(HostId),
}

/// Something that is read over the list, as `App::readings` hold it.
#[derive(Debug)]
pub(super) enum OpenPage {
    /// A text that is fetched anew while it is read.
    Text(TextOf, Vec<TextLine>, TextPlace),
    /// The output of a task.
    Log(TaskLog),
}

/// A change that is asked about before it is made.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) text: String,
    request: Request,
    done: &'static str,
}

/// Something that takes all keys.
#[derive(Debug)]
pub(super) enum Over {
    /// The help page.
    Help(Vec<TextLine>, TextPlace),
    /// A filter that is being typed.
    Typing(String),
    /// A question.
    Question(Question),
}

/// The subject of a key such as `w` ([`KeyAct::Why`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Job(JobId),
    Task(TaskId),
    Host(HostId),
}

/// The state of `top`.
pub(crate) struct App {
    pub(super) now: TopMoment,
    pub(super) size: (u16, u16),
    pub(super) theme: Theme,
    pub(super) master: String,
    pub(super) user: String,
    pub(super) role: Role,
    /// The time since which there is no connection, and the reason.
    pub(super) lost: Option<(Time, String)>,
    pub(super) tab: Tab,
    pub(super) jobs: JobBook,
    pub(super) tasks: TaskBook,
    pub(super) hosts: Board<HostView>,
    pub(super) events: EventList,
    pub(super) readings: Vec<OpenPage>,
    pub(super) over: Option<Over>,
    /// The filter of each tab.
    pub(super) filters: [String; 4],
    /// A sentence for people, and the time at which it goes.
    pub(super) notice: Option<(String, Tone, Span)>,
    /// The time at which the picture was frozen, and the news since then.
    pub(super) frozen: Option<TopMoment>,
    pub(super) held: VecDeque<GridNews>,
    pub(super) pacer: Pacer,
    pub(super) asks: Vec<GridAsk>,
    /// The word for the change that is under way.
    pub(super) changing: &'static str,
    /// The word for a change whose answer was lost with the connection.
    pub(super) unsure: Option<&'static str>,
    /// The jobs that were asked for, by slot.
    pub(super) asked: BTreeMap<AskSlot, IdSet>,
    over_now: bool,
}

/// The time for which `App::notice` stays.
const NOTICE: Span = Span(8_000_000);
/// The smallest screen that `App::draw` fills.
pub(super) const LEAST: (u16, u16) = (60, 15);

impl App {
    /// Begins with the jobs.
    pub(crate) fn new(master: &str, user: &str, role: Role, colours: bool, now: TopMoment) -> Self {
        Self {
            now,
            size: LEAST,
            theme: Theme { colours },
            master: master.to_owned(),
            user: user.to_owned(),
            role,
            lost: None,
            tab: Tab::Jobs,
            jobs: JobBook::default(),
            tasks: TaskBook::default(),
            hosts: Board::default(),
            events: EventList::new(),
            readings: Vec::new(),
            over: None,
            filters: Default::default(),
            notice: None,
            frozen: None,
            held: VecDeque::new(),
            pacer: Pacer::default(),
            asks: Vec::new(),
            changing: "",
            unsure: None,
            asked: BTreeMap::new(),
            over_now: false,
        }
    }

    /// Whether somebody quit.
    pub(crate) fn is_over(&self) -> bool {
        self.over_now
    }

    /// Takes the size of the screen.
    pub(crate) fn resize(&mut self, width: u16, height: u16) {
        self.size = (width, height);
        self.pacer.hurry(AskSlot::Tasks);
    }

    /// Takes the time, of which `App` has no other.
    pub(crate) fn tick(&mut self, now: TopMoment) {
        self.now = now;
        if self
            .notice
            .as_ref()
            .is_some_and(|(_, _, until)| *until <= now.up)
        {
            self.notice = None;
        }
    }

    /// The time that the picture shows.
    pub(super) fn shown_time(&self) -> Time {
        self.frozen.unwrap_or(self.now).wall
    }

    /// The rows of the list that is shown.
    pub(super) fn rows(&self) -> usize {
        let around = if self.tab == Tab::Tasks { 6 } else { 5 };
        usize::from(self.size.1.saturating_sub(around))
    }

    /// The width and height of a text.
    pub(super) fn text_size(&self) -> (usize, usize) {
        (
            usize::from(self.size.0),
            usize::from(self.size.1.saturating_sub(5)),
        )
    }

    /// Brings the lists up to date.
    pub(super) fn arrange(&mut self) {
        let rows = self.rows();
        self.jobs.board.arrange(rows);
        self.hosts.arrange(rows);
        self.events.arrange(rows);
    }

    /// Shows the tasks of a job (`Tab::Tasks`).
    pub(crate) fn open_job(&mut self, job: JobId, task: Option<u32>) {
        if self.tasks.job != Some(job) || task.is_some() {
            self.filters[Tab::Tasks as usize].clear();
        }
        self.tasks.open(job, task);
        self.show_tab(Tab::Tasks);
    }

    /// Shows a [`Tab`].
    pub(crate) fn show_tab(&mut self, tab: Tab) {
        if tab == Tab::Tasks
            && self.tasks.job.is_none()
            && let Some(job) = self.jobs.board.chosen().map(|job| job.job)
        {
            self.tasks.open(job, None);
        }
        self.close_readings();
        self.tab = tab;
        self.pacer.hurry(AskSlot::Tasks);
        self.pacer.soon(AskSlot::SeenJobs, self.now.up, Span::ZERO);
        self.pacer.soon(AskSlot::SeenHosts, self.now.up, Span::ZERO);
    }

    fn close_readings(&mut self) {
        while !self.readings.is_empty() {
            self.close_reading();
        }
    }

    fn close_reading(&mut self) {
        if let Some(OpenPage::Log(_)) = self.readings.pop() {
            self.asks.push(GridAsk::Stop(AskSlot::Log));
            self.pacer.hurry(AskSlot::Log);
            self.pacer.hurry(AskSlot::LogRest);
        }
        self.pacer.hurry(AskSlot::Text);
    }

    fn read(&mut self, of: TextOf) {
        let reading = OpenPage::Text(of, lines("asking the master ..."), TextPlace::default());
        self.readings.push(reading);
        self.pacer.hurry(AskSlot::Text);
        self.retell();
    }

    pub(super) fn say(&mut self, text: impl Into<String>, tone: Tone) {
        self.notice = Some((text.into(), tone, self.now.up + NOTICE));
    }

    /// Takes a key.
    pub(crate) fn press(&mut self, key: &KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        let act = meaning(key, |act| self.takes(act));

        match (&mut self.over, act, key.code) {
            (_, Some(act), _) => self.act(act),
            (Some(Over::Typing(text)), None, KeyCode::Char(c))
                if key.modifiers.difference(KeyModifiers::SHIFT).is_empty() =>
            {
                text.push(c);
                self.refilter();
            }
            (Some(Over::Typing(text)), None, KeyCode::Backspace) => {
                text.pop();
                self.refilter();
            }
            _ => {}
        }
        self.arrange();
    }

    /// Whether a key with this meaning does something now.
    pub(super) fn takes(&self, act: KeyAct) -> bool {
        use KeyAct as K;
        let moves = matches!(
            act,
            K::Down | K::Up | K::PageDown | K::PageUp | K::First | K::Last
        );
        if self.size.0 < LEAST.0 || self.size.1 < LEAST.1 {
            return act == K::Quit;
        }
        match &self.over {
            Some(Over::Question(_)) => return matches!(act, K::Yes | K::No),
            Some(Over::Typing(_)) => return matches!(act, K::Keep | K::Drop),
            Some(Over::Help(..)) => return moves || matches!(act, K::Back | K::Quit),
            None => {}
        }

        let reading = self.readings.last();
        let log = matches!(reading, Some(OpenPage::Log(_)));
        match act {
            K::Yes | K::No | K::Keep | K::Drop => false,
            K::Open => reading.is_none() && self.opens(),
            K::Back => reading.is_some() || self.tab != Tab::Jobs || self.has_filter(),
            K::Why => !log && !self.is_why() && self.subject().is_some(),
            K::Log => !log && matches!(self.subject(), Some(Subject::Task(_))),
            K::OtherStream => log,
            K::Cancel => self.cancelling().is_some(),
            K::Retry => self.retrying().is_some(),
            K::Drain => self.draining().is_some(),
            K::Filter => reading.is_none(),
            K::Sort => reading.is_none() && self.tab != Tab::Events,
            K::Jobs | K::Tasks | K::Hosts | K::Events | K::Freeze | K::Help | K::Quit => true,
            K::Down | K::Up | K::PageDown | K::PageUp | K::First | K::Last => true,
        }
    }

    fn has_filter(&self) -> bool {
        !self.filters[self.tab as usize].is_empty()
    }

    fn is_why(&self) -> bool {
        let Some(OpenPage::Text(of, ..)) = self.readings.last() else {
            return false;
        };
        matches!(of, TextOf::WhyJob(..) | TextOf::WhyHost(..))
    }

    fn opens(&self) -> bool {
        match self.tab {
            Tab::Events => {
                let event = self.events.chosen();
                event.is_some_and(|event| event.job.is_some() || event.host.is_some())
            }
            _ => self.subject().is_some(),
        }
    }

    /// The subject of what is read, else of the line that is chosen.
    fn subject(&self) -> Option<Subject> {
        match self.readings.last() {
            Some(OpenPage::Log(log)) => return Some(Subject::Task(log.task)),
            Some(OpenPage::Text(of, ..)) => {
                return Some(match of {
                    TextOf::WhyJob(job, None, _) => Subject::Job(*job),
                    TextOf::WhyJob(job, Some(task), _) => Subject::Task(TaskId::new(*job, *task)),
                    TextOf::Task(task) => Subject::Task(*task),
                    TextOf::WhyHost(host, _) | TextOf::Host(host) => Subject::Host(*host),
                });
            }
            None => {}
        }

        match self.tab {
            Tab::Jobs => self.jobs.board.chosen().map(|job| Subject::Job(job.job)),
            Tab::Tasks => self.tasks.chosen().map(|task| Subject::Task(task.task)),
            Tab::Hosts => self.hosts.chosen().map(|host| Subject::Host(host.id)),
            Tab::Events => self.events.chosen().and_then(|event| {
                let task = event.task.map(Subject::Task);
                task.or(event.job.map(Subject::Job))
                    .or(event.host.map(Subject::Host))
            }),
        }
    }

    fn act(&mut self, act: KeyAct) {
        match act {
            KeyAct::Yes => self.answer(true),
            KeyAct::No => self.answer(false),
            KeyAct::Keep => self.over = None,
            KeyAct::Drop => {
                self.over = Some(Over::Typing(String::new()));
                self.refilter();
                self.over = None;
            }
            KeyAct::Open => self.open(),
            KeyAct::Back => self.back(),
            KeyAct::Why => self.why(),
            KeyAct::Log => self.log(),
            KeyAct::OtherStream => self.other_stream(),
            KeyAct::Cancel => self.ask_whether(Self::cancelling),
            KeyAct::Retry => {
                if let Some((request, done)) = self.retrying() {
                    self.change(request, done);
                }
            }
            KeyAct::Drain => self.ask_whether(Self::draining),
            KeyAct::Filter => {
                self.over = Some(Over::Typing(self.filters[self.tab as usize].clone()));
            }
            KeyAct::Sort => self.sort(),
            KeyAct::Freeze => self.freeze(),
            KeyAct::Help => self.over = Some(Over::Help(help(), TextPlace::default())),
            KeyAct::Quit => self.over_now = true,
            KeyAct::Jobs => self.show_tab(Tab::Jobs),
            KeyAct::Tasks => self.show_tab(Tab::Tasks),
            KeyAct::Hosts => self.show_tab(Tab::Hosts),
            KeyAct::Events => self.show_tab(Tab::Events),
            _ => self.go(act),
        }
    }

    fn go(&mut self, act: KeyAct) {
        let size = self.text_size();
        let rows = self.rows();
        if let Some(Over::Help(lines, place)) = &mut self.over {
            place.go(act, lines, size);
            return;
        }
        match self.readings.last_mut() {
            Some(OpenPage::Text(_, lines, place)) => {
                place.go(act, lines, size);
                return;
            }
            Some(OpenPage::Log(log)) => {
                log.place.go(act, &log.lines, size);
                return;
            }
            None => {}
        }

        match self.tab {
            Tab::Jobs => {
                self.jobs.board.go(act, rows);
                if act == KeyAct::Last {
                    self.jobs.look_further();
                }
                self.pacer
                    .soon(AskSlot::SeenJobs, self.now.up, Span(200_000));
            }
            Tab::Tasks => {
                if self.tasks.go(act, rows) == Some(true) {
                    self.pacer.hurry(AskSlot::Tasks);
                }
            }
            Tab::Hosts => {
                self.hosts.go(act, rows);
                self.pacer
                    .soon(AskSlot::SeenHosts, self.now.up, Span(200_000));
            }
            Tab::Events => {
                self.events.go(act, rows);
            }
        }
    }

    fn open(&mut self) {
        if self.tab != Tab::Events {
            match self.subject() {
                Some(Subject::Job(job)) => self.open_job(job, None),
                Some(Subject::Task(task)) => self.read(TextOf::Task(task)),
                Some(Subject::Host(host)) => self.read(TextOf::Host(host)),
                None => {}
            }
            return;
        }

        let Some(event) = self.events.chosen() else {
            return;
        };
        match (event.job, event.task.map(|task| task.index), event.host) {
            (Some(job), task, _) => self.open_job(job, task),
            (None, _, Some(host)) => {
                self.filters[Tab::Hosts as usize].clear();
                self.hosts.filter("");
                self.show_tab(Tab::Hosts);
                self.arrange();
                self.hosts.choose(host.0);
            }
            (None, _, None) => {}
        }
    }

    fn back(&mut self) {
        if matches!(self.over, Some(Over::Help(..))) {
            self.over = None;
        } else if !self.readings.is_empty() {
            self.close_reading();
        } else if self.has_filter() {
            self.act(KeyAct::Drop);
        } else {
            self.show_tab(Tab::Jobs);
        }
    }

    fn why(&mut self) {
        match self.subject() {
            Some(Subject::Job(job)) => self.read(TextOf::WhyJob(job, None, None)),
            Some(Subject::Task(task)) => {
                self.read(TextOf::WhyJob(task.job, Some(task.index), None));
            }
            Some(Subject::Host(host)) => self.read(TextOf::WhyHost(host, BTreeMap::new())),
            None => {}
        }
    }

    fn log(&mut self) {
        if let Some(Subject::Task(task)) = self.subject() {
            self.readings
                .push(OpenPage::Log(TaskLog::new(task, StreamKind::Stdout)));
            self.pacer.hurry(AskSlot::Log);
        }
    }

    fn other_stream(&mut self) {
        let Some(OpenPage::Log(log)) = self.readings.last_mut() else {
            return;
        };
        let other = match log.stream {
            StreamKind::Stdout => StreamKind::Stderr,
            StreamKind::Stderr => StreamKind::Stdout,
        };
        *log = TaskLog::new(log.task, other);
        self.asks.push(GridAsk::Stop(AskSlot::Log));
        self.pacer.hurry(AskSlot::Log);
        self.pacer.hurry(AskSlot::LogRest);
    }

    fn sort(&mut self) {
        match self.tab {
            Tab::Jobs => self.jobs.board.sort_next(),
            Tab::Hosts => self.hosts.sort_next(),
            Tab::Tasks => {
                self.tasks.next_state();
                self.pacer.hurry(AskSlot::Tasks);
            }
            Tab::Events => {}
        }
    }

    fn refilter(&mut self) {
        let Some(Over::Typing(text)) = &self.over else {
            return;
        };
        let text = text.clone();

        match self.tab {
            Tab::Jobs => self.jobs.board.filter(&text),
            Tab::Hosts => self.hosts.filter(&text),
            Tab::Events => self.events.filter(&text),
            Tab::Tasks => match self.tasks.filter(&text) {
                Ok(()) => {
                    self.notice = None;
                    self.pacer.hurry(AskSlot::Tasks);
                }
                Err(why) => self.say(why, Tone::Bad),
            },
        }
        self.filters[self.tab as usize] = text;
    }

    fn freeze(&mut self) {
        if self.frozen.take().is_none() {
            self.frozen = Some(self.now);
            return;
        }
        for news in std::mem::take(&mut self.held) {
            self.hear(news);
        }
    }

    /// The question whether to cancel, with what it would do.
    fn cancelling(&self) -> Option<Question> {
        let mut done = "cancelled";
        let (job, tasks, text) = match self.subject()? {
            Subject::Job(job) => {
                let view = self
                    .jobs
                    .board
                    .entry(job.0)
                    .filter(|job| !job.state.settled())?;
                let tasks = &view.tasks;
                let left = tasks.total - tasks.settled();
                let live = tasks.running + tasks.suspended;
                let name = super::look::shown(&view.name);
                let closes = if view.open { "; that closes it" } else { "" };
                let text = format!(
                    "Cancel job {job} ({name})? {left} tasks are left, {live} of them started{closes}"
                );
                if view.open {
                    done = "cancelled; it is closed";
                }
                (job, None, text)
            }
            Subject::Task(task) => {
                let known = self
                    .tasks
                    .seen()
                    .map(|(view, _)| view)
                    .find(|view| view.task == task);
                let settled = |state| {
                    matches!(
                        state,
                        TaskState::Finished | TaskState::Failed | TaskState::Cancelled
                    )
                };
                let state = known
                    .map(|view| view.state)
                    .filter(|state| !settled(*state))?;
                let this = Selector::Ids(IdSet::from_range(task.index, task.index));
                (
                    task.job,
                    Some(this),
                    format!("Cancel task {task}? It is {state}"),
                )
            }
            Subject::Host(_) => return None,
        };
        let jobs = Selector::Ids(IdSet::from_range(job.0, job.0));

        Some(Question {
            text,
            request: Request::Cancel { jobs, tasks },
            done,
        })
    }

    /// The request that runs failed tasks again.
    fn retrying(&self) -> Option<(Request, &'static str)> {
        let (job, tasks, only_failed) = match self.subject()? {
            Subject::Job(job) => {
                self.jobs
                    .board
                    .entry(job.0)
                    .filter(|job| job.tasks.failed > 0)?;
                (job, Selector::All, true)
            }
            Subject::Task(task) => {
                let mut seen = self.tasks.seen().map(|(view, _)| view);
                let view = seen.find(|view| view.task == task)?;
                let again = matches!(view.state, TaskState::Failed | TaskState::Cancelled);
                let this = Selector::Ids(IdSet::from_range(task.index, task.index));
                again.then_some((task.job, this, false))?
            }
            Subject::Host(_) => return None,
        };

        let request = Request::Retry {
            job,
            tasks,
            only_failed,
        };
        Some((request, "to run again"))
    }

    /// The question whether to drain a host, or to give it tasks again.
    fn draining(&self) -> Option<Question> {
        let Subject::Host(host) = self.subject()? else {
            return None;
        };
        let view = self
            .hosts
            .entry(host.0)
            .filter(|_| self.role == Role::Admin)?;
        let host = view.facts.name.clone();
        let name = super::look::shown(&host);

        Some(match view.state {
            HostState::Draining | HostState::Benched => Question {
                text: format!("Give {name} tasks again? It is {}", view.state),
                request: Request::Undrain { host },
                done: "gets tasks again",
            },
            _ => Question {
                text: format!("Drain {name}? It gets no new tasks; those that run there go on"),
                request: Request::Drain { host },
                done: "drains: it gets no new tasks",
            },
        })
    }

    fn ask_whether(&mut self, question: impl Fn(&Self) -> Option<Question>) {
        self.over = question(self).map(Over::Question);
    }

    fn answer(&mut self, yes: bool) {
        if let Some(Over::Question(question)) = self.over.take()
            && yes
        {
            self.change(question.request, question.done);
        }
    }

    fn change(&mut self, request: Request, done: &'static str) {
        if self.lost.is_some() || self.pacer.is_under_way(AskSlot::Change) {
            self.say("not now: the master does not answer", Tone::Bad);
            return;
        }
        self.changing = done;
        self.ask(AskSlot::Change, request, usize::MAX);
    }
}

/// The help page: the table [`KEYS`], and the letters.
fn help() -> Vec<TextLine> {
    let keys = KEYS
        .iter()
        .map(|row| format!("  {:<8} {}\n", row.keys, row.help));
    let text = format!(
        "KEYS\n{}\nLETTERS\n  \
         of jobs and tasks: W waiting, R running, S suspended, F finished, X failed, C cancelled, D disclosed, N refused\n  \
         of hosts: R ready, B busy, S suspended (its owner needs it), ? suspect, L lost, D draining, X benched\n  \
         bars: █ finished, × failed, ▒ running, = suspended, - cancelled, · to come\n\n\
         The words behind a filter must all be there. Times are UTC. docs/top.md has more.\n",
        keys.collect::<String>()
    );
    lines(&text)
}
