//! Every screen of `top`, drawn into memory from keys and news.

use std::collections::BTreeSet;

use common::event::{EventPage, EventView, GridEvent};
use common::selector::Selector;
use common::token::Role;
use common::view::{
    ExplainView, Forecast, HostState, JobState, JobView, PromiseState, PromiseStatus, StartView,
    TaskCounts, TaskState, TaskView,
};
use common::wire::client::{Reply, Request, TailNews};
use common::wire::stream::TailPart;
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Span, TaskId};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};

use super::app::App;
use super::ask::{AskSlot, GridAsk, GridNews, TopMoment};
use super::keys::KEYS;
use super::rehearsal::{MORNING, host};
use crate::failure::{Exit, Failure};

/// `top` on a screen in memory, with a master that the test speaks for.
struct Stage {
    app: App,
    asks: Vec<GridAsk>,
    size: (u16, u16),
}

fn moment(seconds: u64) -> TopMoment {
    TopMoment {
        wall: MORNING + Span::from_secs(600 + seconds),
        up: Span::from_secs(seconds),
    }
}

impl Stage {
    fn new() -> Self {
        Self::of(Role::Admin, false)
    }

    fn of(role: Role, colours: bool) -> Self {
        let mut app = App::new("grid:7411", "ann", role, colours, moment(0));
        app.resize(120, 30);
        let mut stage = Self {
            app,
            asks: Vec::new(),
            size: (120, 30),
        };
        stage.go_on();
        stage
    }

    /// With three jobs and three hosts, as after the first answers.
    fn with_a_grid() -> Self {
        let mut stage = Self::new();
        stage.fill();
        stage
    }

    fn fill(&mut self) {
        let counts = |total, finished, running, failed| TaskCounts {
            total,
            finished,
            running,
            failed,
            waiting: total - finished - running - failed,
            ..TaskCounts::default()
        };
        let mut render = job(7, "render", counts(1_000, 312, 12, 2));
        render.promise = Some(PromiseStatus {
            made: MORNING,
            deadline: MORNING + Span::from_secs(1_200),
            finish: MORNING + Span::from_secs(700),
            probability: 0.9,
            probation: false,
            state: PromiseState::AtRisk,
            why: "hosts left".to_owned(),
        });
        let mut waits = job(9, "waits", counts(5, 0, 0, 0));
        waits.starts = Some(StartView {
            start: MORNING + Span::from_secs(700),
            low: MORNING + Span::from_secs(650),
            high: MORNING + Span::from_secs(900),
        });
        self.answer(AskSlot::OpenJobs, Reply::Jobs(vec![render, waits]));
        let done = job(8, "done", counts(10, 10, 0, 0));
        self.answer(
            AskSlot::NewestJob,
            Reply::Jobs(vec![job(9, "waits", counts(5, 0, 0, 0))]),
        );
        self.answer(AskSlot::OlderJobs, Reply::Jobs(vec![done]));

        let hosts = vec![
            host(1, HostState::Ready, None),
            host(2, HostState::Suspended, Some("in-use")),
            host(3, HostState::Lost, Some("heartbeats are missing")),
        ];
        self.answer(AskSlot::AllHosts, Reply::Hosts(hosts));
    }

    fn go_on(&mut self) {
        let wants = self.app.wants();
        self.asks.extend(wants);
    }

    /// Lets time pass.
    fn at(&mut self, seconds: u64) {
        self.app.tick(moment(seconds));
        self.go_on();
    }

    fn press(&mut self, keys: &str) {
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                key => KeyCode::Char(key),
            };
            self.app.press(&KeyEvent::new(code, KeyModifiers::NONE));
            self.go_on();
        }
    }

    /// Takes the newest request in this slot, with its number.
    #[track_caller]
    fn asked(&mut self, slot: AskSlot) -> (u64, Option<Request>) {
        let of = |ask: &GridAsk| match ask {
            GridAsk::Once {
                slot: s,
                serial,
                request,
                ..
            }
            | GridAsk::Stream {
                slot: s,
                serial,
                request,
            } => (*s == slot).then(|| (*serial, Some(request.clone()))),
            GridAsk::Content {
                slot: s, serial, ..
            } => (*s == slot).then_some((*serial, None)),
            GridAsk::Stop(_) => None,
        };
        let found = self.asks.iter().rposition(|ask| of(ask).is_some());
        let at = found.unwrap_or_else(|| panic!("nothing is asked for {slot:?}"));
        of(&self.asks.remove(at)).expect("it was found")
    }

    #[track_caller]
    fn answer(&mut self, slot: AskSlot, reply: Reply) {
        let (serial, _) = self.asked(slot);
        self.hear(GridNews::Answer(slot, serial, Ok(vec![reply])));
    }

    fn hear(&mut self, news: GridNews) {
        self.app.hear(news);
        self.go_on();
    }

    fn terminal(&mut self) -> Terminal<TestBackend> {
        let backend = TestBackend::new(self.size.0, self.size.1);
        let mut terminal = Terminal::new(backend).expect("it is in memory");
        let draw = |frame: &mut ratatui::Frame<'_>| self.app.draw(frame.buffer_mut());
        terminal.draw(draw).expect("it is in memory");
        terminal
    }

    /// The picture as lines.
    fn lines(&mut self) -> Vec<String> {
        let terminal = self.terminal();
        let text = super::once::text(terminal.backend().buffer(), false);
        text.lines().map(str::to_owned).collect()
    }

    #[track_caller]
    fn shows(&mut self, words: &[&str]) {
        let lines = self.lines();
        let text = lines.join("\n");
        for word in words {
            assert!(text.contains(word), "{word:?} is not in:\n{text}");
        }
    }

    fn keys(&mut self) -> String {
        self.lines().pop().expect("a last line")
    }
}

/// A job with some tasks.
fn job(number: u32, name: &str, tasks: TaskCounts) -> JobView {
    let state = match tasks {
        TaskCounts {
            total, finished, ..
        } if total == finished => JobState::Finished,
        TaskCounts {
            running: 0,
            finished: 0,
            ..
        } => JobState::Waiting,
        _ => JobState::Running,
    };
    let open = state == JobState::Running;
    let minutes = |count: u64| MORNING + Span::from_secs(60 * count);
    JobView {
        job: JobId(number),
        name: name.to_owned(),
        user: "ann".to_owned(),
        state,
        policy: "REP-SUSPEND".to_owned(),
        priority: 0,
        needs: String::new(),
        tasks,
        attempts: tasks.running + tasks.finished + tasks.failed,
        duplicates: 0,
        submitted: MORNING,
        started: Some(MORNING),
        finished: (state == JobState::Finished).then(|| minutes(3)),
        predicted: open.then(|| Forecast {
            finish: minutes(12),
            interval: Some((minutes(10), minutes(15))),
        }),
        predicted_makespan: None,
        reason: None,
        promise: None,
        limits: None,
        starts: None,
        width: None,
        progress: None,
        labels: BTreeSet::default(),
        after: Vec::new(),
        open: false,
    }
}

fn task(index: u32, state: TaskState) -> TaskView {
    TaskView {
        task: TaskId::new(JobId(7), index),
        item: None,
        state,
        reason: None,
        attempts: Vec::new(),
        speculation: None,
    }
}

fn event(seq: u64, event: GridEvent) -> EventView {
    EventView {
        seq,
        at: MORNING + Span::from_secs(seq),
        event,
        result: None,
    }
}

/// Answers a request for tasks of a job that has those with the numbers 1 to `total`, as the master
/// would, every third of them failed.
fn tasks_of(total: u32, request: &Request) -> Vec<TaskView> {
    let Request::Tasks { tasks, states, .. } = request else {
        panic!("{request:?}")
    };
    let all = IdSet::from_range(1, total);
    let view = |index: u32| match index % 3 {
        0 => task(index, TaskState::Failed),
        _ => task(index, TaskState::Waiting),
    };
    let views = tasks
        .pick(&all)
        .iter()
        .map(view)
        .collect::<Vec<_>>()
        .into_iter();
    let wanted = views.filter(|view| states.is_empty() || states.contains(&view.state));
    wanted.take(16 * 24).collect()
}

impl Stage {
    /// Answers for tasks until nothing more is asked for; returns the number of answers.
    fn serve_tasks(&mut self, total: u32) -> usize {
        let mut answers = 0;
        let waits = |ask: &GridAsk| {
            matches!(
                ask,
                GridAsk::Once {
                    slot: AskSlot::Tasks,
                    ..
                }
            )
        };
        while self.asks.iter().any(waits) {
            let (serial, request) = self.asked(AskSlot::Tasks);
            let views = tasks_of(total, &request.expect("a request"));
            answers += 1;
            self.asks.retain(|ask| !waits(ask));
            self.hear(GridNews::Answer(
                AskSlot::Tasks,
                serial,
                Ok(vec![Reply::Tasks(views)]),
            ));
        }
        answers
    }

    /// The first and the last task on the screen.
    fn seen_tasks(&self) -> (u32, u32) {
        let seen: Vec<u32> = self
            .app
            .tasks
            .seen()
            .map(|(task, _)| task.task.index)
            .collect();
        (seen[0], seen[seen.len() - 1])
    }
}

#[test]
fn jobs_are_shown_with_bar_finish_and_promise_before_anything_is_set() {
    let mut stage = Stage::new();
    stage.shows(&["asking the master ..."]);
    stage.fill();
    stage.shows(&[
        "grid:7411  ann, admin  1 of 3 hosts lend 2 slots; 1 job runs, 1 waits",
        "JOB NAME",
        "7 render",
        "R running",
        "312/1000",
        "██×▒",
        "in 2m00s (now to 5m00s)",
        "at-risk by 08:20",
        "W waiting",
        "starts in 1m40s (50.0s..5m00s)",
        "8 done",
        "F finished",
    ]);
    let lines = stage.lines();
    let place = |word: &str| lines.iter().position(|line| line.contains(word));
    assert!(place("7 render") < place("9 waits") && place("9 waits") < place("8 done"));
}

#[test]
fn only_what_is_on_the_screen_is_asked_for_and_at_most_once_a_second() {
    let mut stage = Stage::with_a_grid();
    let mut count = std::collections::BTreeMap::new();
    for quarter in 0..80 {
        let now = TopMoment {
            wall: MORNING,
            up: Span(quarter * 250_000),
        };
        stage.app.tick(now);
        stage.go_on();
        let asks = std::mem::take(&mut stage.asks);
        for ask in asks {
            if let GridAsk::Once { slot, serial, .. } = ask {
                let reply = match slot {
                    AskSlot::SeenJobs => Reply::Jobs(vec![job(7, "render", TaskCounts::default())]),
                    _ => Reply::Hosts(Vec::new()),
                };
                stage
                    .app
                    .hear(GridNews::Answer(slot, serial, Ok(vec![reply])));
                *count.entry(slot).or_insert(0) += 1;
            }
        }
    }

    assert!(count[&AskSlot::SeenJobs] <= 20, "{count:?}");
    assert!(!count.contains_key(&AskSlot::SeenHosts) && !count.contains_key(&AskSlot::Tasks));
    assert!(
        count[&AskSlot::AllHosts] <= 2 && count[&AskSlot::OpenJobs] <= 2,
        "{count:?}"
    );
}

#[test]
fn a_page_of_a_million_tasks_costs_a_screen() {
    let mut stage = Stage::with_a_grid();
    stage.press("\n");
    let (serial, request) = stage.asked(AskSlot::Tasks);
    let Some(Request::Tasks {
        tasks: Selector::Ids(ids),
        ..
    }) = &request
    else {
        panic!("{request:?}")
    };
    assert!(ids.len() <= 60, "asked for {} tasks", ids.len());
    let views = tasks_of(1_000_000, &request.expect("there is one"));
    stage.hear(GridNews::Answer(
        AskSlot::Tasks,
        serial,
        Ok(vec![Reply::Tasks(views)]),
    ));
    assert_eq!(stage.seen_tasks(), (1, 24));
    stage.shows(&[
        "job 7 render",
        "312/1000 finished",
        "2 failed",
        "12 running",
    ]);

    stage.press("G");
    assert!(stage.serve_tasks(1_000_000) <= 3);
    assert_eq!(stage.seen_tasks(), (999_977, 1_000_000));
    stage
        .app
        .press(&KeyEvent::new(KeyCode::PageUp, KeyModifiers::NONE));
    stage.go_on();
    assert_eq!(stage.serve_tasks(1_000_000), 1);
    assert_eq!(stage.seen_tasks(), (999_953, 999_976));
    stage.press("gk");
    stage.serve_tasks(1_000_000);
    assert_eq!(stage.seen_tasks(), (1, 24));
}

#[test]
fn tasks_are_filtered_by_number_and_state_and_paged_backwards_as_well() {
    let mut stage = Stage::with_a_grid();
    stage.press("\n");
    stage.serve_tasks(1_000_000);
    stage.press("/fai\n");
    stage.serve_tasks(1_000_000);
    stage.shows(&["only failed", "/fai", "X failed"]);
    assert_eq!(stage.seen_tasks(), (3, 72));

    stage.press("G");
    assert!(stage.serve_tasks(1_000_000) <= 40);
    assert_eq!(stage.seen_tasks(), (999_930, 999_999));
    assert_eq!(
        stage.app.tasks.chosen().map(|task| task.task.index),
        Some(999_999)
    );

    stage.press("/\x1b/90-120 w\n");
    stage.serve_tasks(1_000_000);
    assert_eq!(stage.seen_tasks(), (91, 119));
    stage.press("/\x1b/x");
    stage.shows(&["tasks are filtered by number (100-200) and state (failed): `x` is neither"]);
}

#[test]
fn a_host_says_why_it_gets_no_tasks() {
    let mut stage = Stage::with_a_grid();
    stage.press("3");
    stage.shows(&[
        "HOST",
        "desk-2",
        "S suspended",
        "in-use",
        "L lost",
        "10m00s",
    ]);
    stage.press("j\n");
    stage.shows(&["host desk-2", "in-use"]);
    stage.press("w");
    stage.shows(&["why desk-2 gets no tasks", "its owner needs it"]);
    explained(&mut stage, "desk-2".to_owned());
    stage.shows(&["job 7 (render): in-use"]);
    stage.press("\x1b\x1b");
    stage.shows(&["FINISHED", "desk-1"]);
}

/// Answers the question why a job waits: this host is in use.
fn explained(stage: &mut Stage, host: String) {
    let (serial, request) = stage.asked(AskSlot::Text);
    let Some(Request::Explain { job: asked }) = request else {
        panic!("{request:?}")
    };
    let view = ExplainView {
        job: job(asked.0, "render", TaskCounts::default()),
        waiting: Vec::new(),
        hosts: vec![(host, "in-use".to_owned())],
        duplicates: Vec::new(),
        share: None,
    };
    let reply = Reply::Explained(Box::new(view));
    stage.hear(GridNews::Answer(AskSlot::Text, serial, Ok(vec![reply])));
}

#[test]
fn a_host_that_a_long_answer_only_counts_is_not_said_to_be_free() {
    let mut stage = Stage::with_a_grid();
    stage.press("3");
    stage.press("j\n");
    stage.press("w");
    explained(&mut stage, ExplainView::more_hosts(9_000));
    stage.shows(&["job 7 (render): of so many hosts"]);
}

#[test]
fn a_job_and_a_task_say_why_they_wait() {
    let mut stage = Stage::with_a_grid();
    stage.press("jw");
    stage.shows(&["why job 9 is not done"]);
    let view = ExplainView {
        job: job(
            9,
            "waits",
            TaskCounts {
                total: 5,
                waiting: 5,
                ..TaskCounts::default()
            },
        ),
        waiting: vec![("no host is free".to_owned(), "1-5".to_owned())],
        hosts: vec![("desk-2".to_owned(), "in-use".to_owned())],
        duplicates: Vec::new(),
        share: None,
    };
    let reply = Reply::Explained(Box::new(view));
    stage.answer(AskSlot::Text, reply.clone());
    stage.shows(&[
        "WAIT BECAUSE",
        "no host is free",
        "WHY NOT HERE",
        "desk-2",
        "in-use",
    ]);

    stage.press("\x1b1k\n");
    stage.serve_tasks(10);
    stage.press("w");
    stage.answer(
        AskSlot::Text,
        Reply::Tasks(vec![task(1, TaskState::Waiting)]),
    );
    stage.answer(AskSlot::Text, reply);
    stage.shows(&[
        "why task 7.1 is not done",
        "task 7.1 is waiting",
        "it waits: no host is free",
    ]);
}

#[test]
fn a_job_of_which_tasks_failed_says_first_which_and_why() {
    let mut stage = Stage::with_a_grid();
    stage.press("w");
    let mut failed = task(3, TaskState::Failed);
    failed.reason = Some("exit code 1".to_owned());
    let (serial, request) = stage.asked(AskSlot::Text);
    assert!(
        matches!(request, Some(Request::Tasks { states, .. }) if states == [TaskState::Failed])
    );
    let reply = Reply::Tasks(vec![failed]);
    stage.hear(GridNews::Answer(AskSlot::Text, serial, Ok(vec![reply])));
    let view = ExplainView {
        job: job(
            7,
            "render",
            TaskCounts {
                total: 5,
                waiting: 1,
                failed: 1,
                running: 3,
                ..TaskCounts::default()
            },
        ),
        waiting: vec![("no host is free".to_owned(), "1-5".to_owned())],
        hosts: Vec::new(),
        duplicates: Vec::new(),
        share: None,
    };
    stage.answer(AskSlot::Text, Reply::Explained(Box::new(view)));
    let lines = stage.lines();
    let place = |word: &str| lines.iter().position(|line| line.contains(word));
    assert!(
        place("task 7.3 is failed: exit code 1") < place("no host is free"),
        "{lines:#?}"
    );
    assert!(place("task 7.3 is failed: exit code 1").is_some());
}

#[test]
fn the_log_follows_a_task_and_shows_the_rest_once_it_is_settled() {
    let mut stage = Stage::with_a_grid();
    stage.press("\n");
    stage.serve_tasks(10);
    stage.press("l");
    let (serial, _) = stage.asked(AskSlot::Log);
    let attempt = AttemptId {
        task: TaskId::new(JobId(7), 1),
        number: 1,
        incarnation: Incarnation(1),
    };
    let tell = |stage: &mut Stage, news| {
        stage.hear(GridNews::Piece(AskSlot::Log, serial, Reply::Tail(news)));
    };
    tell(
        &mut stage,
        TailNews::Begins {
            attempt,
            host: "desk-1".to_owned(),
        },
    );
    let bytes = b"step 1\n\x1b[2J\xe2\x80\xaestep 2\n".to_vec();
    tell(&mut stage, TailNews::Part(TailPart { offset: 0, bytes }));
    stage.shows(&[
        "stdout of task 7.1: attempt 1 on desk-1",
        "step 1",
        "\u{fffd}[2J\u{fffd}step 2",
    ]);
    assert!(stage.keys().contains("e stdout/stderr") && !stage.keys().contains("why"));

    tell(&mut stage, TailNews::Settled);
    stage.hear(GridNews::Ended(AskSlot::Log, serial, Ok(())));
    stage.answer(AskSlot::LogRest, Reply::Outputs(Vec::new()));
    stage.shows(&["which is settled", "it has left no output"]);
    stage.press("e");
    assert!(matches!(
        stage.asked(AskSlot::Log).1,
        Some(Request::Tail {
            stream: common::attempt::StreamKind::Stderr,
            ..
        })
    ));
}

#[test]
fn cancelling_asks_first_and_says_what_it_did() {
    let mut stage = Stage::with_a_grid();
    stage.press("c");
    stage.shows(&["Cancel job 7 (render)? 686 tasks are left, 12 of them started"]);
    assert_eq!(stage.keys().trim(), "y yes  n Esc no");
    stage.press("qn");
    let change = |stage: &Stage| {
        let of = |ask: &GridAsk| {
            matches!(
                ask,
                GridAsk::Once {
                    slot: AskSlot::Change,
                    ..
                }
            )
        };
        stage.asks.iter().any(of)
    };
    assert!(!change(&stage) && !stage.app.is_over());

    stage.press("cy");
    let (serial, request) = stage.asked(AskSlot::Change);
    assert!(matches!(request, Some(Request::Cancel { tasks: None, .. })));
    let reply = Reply::Changed(vec![(JobId(7), 686)]);
    stage.hear(GridNews::Answer(AskSlot::Change, serial, Ok(vec![reply])));
    stage.shows(&["job 7: 686 tasks cancelled"]);

    stage.press("r");
    let (serial, request) = stage.asked(AskSlot::Change);
    assert!(matches!(
        request,
        Some(Request::Retry {
            only_failed: true,
            ..
        })
    ));
    let refused = Failure::new(
        Exit::NotAuthorised,
        "not-authorised",
        "it is not yours",
        "ask ann",
    );
    stage.hear(GridNews::Answer(AskSlot::Change, serial, Err(refused)));
    stage.shows(&["it is not yours; try: ask ann"]);
}

#[test]
fn only_admins_drain_hosts_and_only_after_a_question() {
    let mut user = Stage::of(Role::Client, false);
    user.fill();
    user.press("3d");
    assert!(!user.keys().contains("drain") && user.app.over.is_none());

    let mut stage = Stage::with_a_grid();
    stage.press("3d");
    stage.shows(&["Drain desk-1? It gets no new tasks; those that run there go on"]);
    stage.press("y");
    let (_, request) = stage.asked(AskSlot::Change);
    assert_eq!(
        request,
        Some(Request::Drain {
            host: "desk-1".to_owned()
        })
    );
}

#[test]
fn events_come_by_themselves_and_lead_to_what_they_are_about() {
    let mut stage = Stage::with_a_grid();
    stage.press("4");
    let (serial, _) = stage.asked(AskSlot::Events);
    let page = |events: Vec<EventView>, upto| {
        Reply::Events(EventPage {
            events,
            hosts: vec![(HostId(2), "desk-2".to_owned())],
            upto,
        })
    };
    stage.hear(GridNews::Piece(
        AskSlot::Events,
        serial,
        page(Vec::new(), 40),
    ));
    let (past, request) = stage.asked(AskSlot::PastEvents);
    assert!(matches!(request, Some(Request::Follow(following)) if !following.wait));

    let changed = |state, why: Option<&str>| GridEvent::HostChanged {
        host: HostId(2),
        state,
        why: why.map(str::to_owned),
    };
    let new = page(vec![event(41, changed(HostState::Ready, None))], 41);
    stage.hear(GridNews::Piece(AskSlot::Events, serial, new));
    let old = page(vec![event(39, GridEvent::JobStarted { job: JobId(7) })], 40);
    stage.hear(GridNews::Piece(AskSlot::PastEvents, past, old));
    stage.hear(GridNews::Ended(AskSlot::PastEvents, past, Ok(())));
    let lines = stage.lines();
    let place = |word: &str| lines.iter().position(|line| line.contains(word));
    assert!(place("job 7 started").is_some_and(|at| Some(at) < place("host desk-2 ready")));

    stage.press("\n");
    stage.shows(&["2 of 3 hosts lend"]);
    assert_eq!(
        stage.app.hosts.chosen().map(|host| host.id),
        Some(HostId(2))
    );
    stage.press("4k\n");
    stage.shows(&["job 7 render"]);
}

#[test]
fn a_master_that_goes_away_is_said_and_the_picture_goes_on_when_it_is_back() {
    let mut stage = Stage::with_a_grid();
    stage.at(20);
    stage.hear(GridNews::Lost("the connection was closed".to_owned()));
    stage.shows(&["MASTER AWAY since", "the connection was closed", "7 render"]);
    stage.size = (60, 15);
    stage.app.resize(60, 15);
    stage.shows(&["MASTER AWAY since 08:10:20, connecting again"]);
    stage.size = (120, 30);
    stage.app.resize(120, 30);
    stage.asks.clear();
    stage.at(60);
    assert!(stage.asks.is_empty(), "{:?}", stage.asks);

    stage.hear(GridNews::Back("ann".to_owned(), Role::Admin));
    stage.shows(&["the master is back, after 40.0s"]);
    let (serial, _) = stage.asked(AskSlot::OpenJobs);
    stage.asked(AskSlot::Events);
    let jobs = Reply::Jobs(vec![job(
        7,
        "render",
        TaskCounts {
            total: 2,
            finished: 1,
            running: 1,
            ..TaskCounts::default()
        },
    )]);
    stage.hear(GridNews::Answer(AskSlot::OpenJobs, serial, Ok(vec![jobs])));
    stage.shows(&["1/2"]);
}

#[test]
fn a_change_whose_answer_was_lost_with_the_connection_is_said_to_be_unknown() {
    let mut stage = Stage::with_a_grid();
    let away = || GridNews::Lost("the connection was closed".to_owned());
    let back = || GridNews::Back("ann".to_owned(), Role::Admin);
    stage.press("cy");
    stage.asked(AskSlot::Change);
    stage.hear(away());
    stage.shows(&["before the master said whether that was done (cancelled)"]);
    stage.at(20);
    stage.hear(back());
    stage.shows(&["the master is back", "(cancelled) is not known"]);

    stage.hear(away());
    stage.hear(back());
    let lines = stage.lines().join("\n");
    assert!(!lines.contains("is not known"), "{lines}");
}

#[test]
fn a_master_that_is_silent_is_said() {
    let mut stage = Stage::with_a_grid();
    stage.at(2);
    stage.at(9);
    stage.shows(&["no answer for"]);
}

#[test]
fn a_frozen_picture_stands_still_until_it_goes_on() {
    let mut stage = Stage::with_a_grid();
    stage.press(" ");
    let before = stage.lines();
    assert!(before[0].contains("FROZEN"));
    let (serial, _) = stage.asked(AskSlot::Events);
    let started = event(1, GridEvent::JobStarted { job: JobId(7) });
    let page = EventPage {
        events: vec![started],
        hosts: Vec::new(),
        upto: 1,
    };
    stage.hear(GridNews::Piece(
        AskSlot::Events,
        serial,
        Reply::Events(page),
    ));
    stage.at(30);
    assert_eq!(stage.lines(), before);

    stage.press(" 4");
    stage.shows(&["job 7 started"]);
}

#[test]
fn what_was_answered_while_the_picture_stood_still_is_heard_however_much_came_after_it() {
    let mut stage = Stage::with_a_grid();
    stage.at(15);
    let (events, _) = stage.asked(AskSlot::Events);
    let (serial, _) = stage.asked(AskSlot::AllHosts);
    stage.press(" ");
    stage.at(16);
    let hosts = Reply::Hosts(vec![host(4, HostState::Ready, None)]);
    stage.hear(GridNews::Answer(AskSlot::AllHosts, serial, Ok(vec![hosts])));
    for upto in 1..=500 {
        let page = EventPage {
            events: Vec::new(),
            hosts: Vec::new(),
            upto,
        };
        let page = Reply::Events(page);
        stage.hear(GridNews::Piece(AskSlot::Events, events, page));
    }
    assert!(stage.app.held.len() <= 201);

    stage.at(60);
    stage.press(" 3");
    stage.shows(&["desk-4"]);
    // The master took a second for it, whatever the time until it was heard.
    stage.asks.clear();
    stage.at(80);
    stage.asked(AskSlot::AllHosts);
}

#[test]
fn a_stream_that_ended_is_begun_again_soon_however_long_it_lasted() {
    let mut stage = Stage::with_a_grid();
    let (serial, _) = stage.asked(AskSlot::Events);
    stage.press(" ");
    stage.at(1_000);
    let end = Failure::error("unavailable", "the master is busy", "");
    stage.hear(GridNews::Ended(AskSlot::Events, serial, Err(end)));
    stage.press(" ");
    stage.asks.clear();
    stage.at(1_003);
    stage.asked(AskSlot::Events);
}

#[test]
fn the_bottom_line_and_the_help_page_are_made_of_the_table_of_keys() {
    let mut stage = Stage::with_a_grid();
    let keys = stage.keys();
    for row in KEYS
        .iter()
        .filter(|row| keys.contains(&format!("{} {}", row.keys, row.word)))
    {
        assert!(stage.app.takes(row.act), "{}", row.help);
    }
    assert!(keys.contains("Enter open  w why  c cancel") && !keys.contains("drain"));

    stage.size = (120, 60);
    stage.app.resize(120, 60);
    stage.press("?");
    let text = stage.lines().join("\n");
    for row in KEYS {
        assert!(
            text.contains(&format!("  {:<8} {}", row.keys, row.help)),
            "{}",
            row.help
        );
    }
    stage.press("\x1b");
    assert!(stage.app.over.is_none());
    stage.press("q");
    assert!(stage.app.is_over());
}

#[test]
fn any_screen_can_be_drawn_and_one_that_is_too_small_says_so() {
    let mut stage = Stage::with_a_grid();
    for (width, height) in [
        (60, 15),
        (61, 16),
        (80, 24),
        (300, 100),
        (59, 40),
        (120, 14),
        (1, 1),
        (10, 2),
    ] {
        stage.size = (width, height);
        stage.app.resize(width, height);
        for keys in ["1", "2", "3", "4", "3\nw", "1w", "?", "\x1b/", "\x1bc", "n"] {
            stage.press(keys);
            let lines = stage.lines();
            let small = width < 60 || height < 15;
            assert_eq!(
                small && width > 30,
                lines[0].starts_with("top needs 60 columns and 15 lines")
            );
        }
        stage.press("\x1b\x1b1");
    }
}

#[test]
fn states_have_a_letter_and_colours_only_where_they_are_wanted() {
    for (colours, want) in [(true, Color::Cyan), (false, Color::Reset)] {
        let mut stage = Stage::of(Role::Admin, colours);
        stage.fill();
        stage.press("j");
        let terminal = stage.terminal();
        let buf = terminal.backend().buffer();
        let at = buf.content.windows(9).position(|cells| {
            cells
                .iter()
                .map(ratatui::buffer::Cell::symbol)
                .collect::<String>()
                == "R running"
        });
        let cell = &buf.content[at.expect("a job that runs")];
        assert_eq!(cell.fg, want);
        let chosen = buf
            .content
            .iter()
            .filter(|cell| cell.modifier.contains(Modifier::REVERSED));
        assert!(
            chosen.count() >= 120,
            "the chosen line is seen without colours"
        );
    }
}

#[test]
fn names_and_reasons_of_others_cannot_act() {
    let mut stage = Stage::new();
    let evil = "a\u{1b}]0;gone\u{7}\u{202e}b\nc";
    let mut bad = job(
        1,
        evil,
        TaskCounts {
            total: 1,
            waiting: 1,
            ..TaskCounts::default()
        },
    );
    bad.reason = Some(evil.to_owned());
    stage.answer(AskSlot::OpenJobs, Reply::Jobs(vec![bad]));
    let mut hosts = vec![host(1, HostState::Suspended, Some(evil))];
    hosts[0].facts.name = evil.to_owned();
    stage.answer(AskSlot::AllHosts, Reply::Hosts(hosts));
    for keys in ["1", "c", "n3", "\n", "w", "\x1b\x1bd", "n2"] {
        stage.press(keys);
        let text = stage.lines().concat();
        assert!(!text.chars().any(common::text::acts), "{keys}: {text}");
    }
    stage.press("1");
    stage.shows(&["a\u{fffd}]0;gone\u{fffd}\u{fffd}b\u{fffd}c"]);
}

#[test]
fn a_job_that_is_gone_hides_no_other() {
    let mut stage = Stage::with_a_grid();
    stage.at(5);
    let missing = || Failure::error("not-found", "there is no job 9", "");
    let (serial, request) = stage.asked(AskSlot::SeenJobs);
    assert!(
        matches!(request, Some(Request::Jobs { jobs: Selector::Ids(ids), .. }) if ids.len() == 2)
    );
    stage.hear(GridNews::Answer(AskSlot::SeenJobs, serial, Err(missing())));
    stage.shows(&["7 render", "9 waits"]);

    for _ in 0..2 {
        let (serial, request) = stage.asked(AskSlot::SeenJobs);
        let Some(Request::Jobs {
            jobs: Selector::Ids(ids),
            ..
        }) = request
        else {
            panic!()
        };
        let answer = match ids.contains(9) {
            true => Err(missing()),
            false => Ok(vec![Reply::Jobs(vec![job(
                7,
                "render",
                TaskCounts {
                    total: 4,
                    running: 4,
                    ..TaskCounts::default()
                },
            )])]),
        };
        stage.hear(GridNews::Answer(AskSlot::SeenJobs, serial, answer));
        stage.at(6);
        stage.at(7);
    }
    stage.shows(&["7 render", "0/4", "8 done"]);
    assert!(!stage.lines().join("").contains("9 waits"));
}

#[test]
fn older_jobs_are_found_behind_the_numbers_that_a_restored_master_skips() {
    let mut stage = Stage::new();
    let settled = |number| {
        let counts = TaskCounts {
            total: 1,
            finished: 1,
            ..TaskCounts::default()
        };
        job(number, "old", counts)
    };
    stage.answer(AskSlot::OpenJobs, Reply::Jobs(Vec::new()));
    stage.answer(AskSlot::NewestJob, Reply::Jobs(vec![settled(10_006)]));
    let desk = host(1, HostState::Ready, None);
    stage.answer(AskSlot::AllHosts, Reply::Hosts(vec![desk]));

    let mut answers = 0;
    while !stage.app.is_whole() {
        let (serial, request) = stage.asked(AskSlot::OlderJobs);
        let Some(Request::Jobs {
            jobs: Selector::Beyond(before),
            ..
        }) = &request
        else {
            panic!("{request:?}")
        };
        let there = [1, 2, 3, 4, 5, 10_006].into_iter();
        let views = there.filter(|number| number > before).map(settled);
        let views = Ok(vec![Reply::Jobs(views.collect())]);
        stage.hear(GridNews::Answer(AskSlot::OlderJobs, serial, views));
        answers += 1;
    }
    assert!(answers <= 10, "{answers} answers for six jobs");
    stage.shows(&["10006 old", "5 old", "1 old"]);
}

#[test]
fn older_jobs_are_fetched_as_far_as_somebody_looks() {
    let mut stage = Stage::new();
    let settled = |number| {
        job(
            number,
            "old",
            TaskCounts {
                total: 1,
                finished: 1,
                ..TaskCounts::default()
            },
        )
    };
    stage.answer(AskSlot::OpenJobs, Reply::Jobs(Vec::new()));
    stage.answer(AskSlot::NewestJob, Reply::Jobs(vec![settled(100_000)]));
    let (serial, request) = stage.asked(AskSlot::OlderJobs);
    assert!(matches!(
        &request,
        Some(Request::Jobs {
            jobs: Selector::Beyond(99_800),
            ..
        })
    ));
    let some: Vec<JobView> = (99_801..=100_000).map(settled).collect();
    stage.hear(GridNews::Answer(
        AskSlot::OlderJobs,
        serial,
        Ok(vec![Reply::Jobs(some)]),
    ));
    let older = |stage: &Stage| {
        let of = |ask: &GridAsk| {
            matches!(
                ask,
                GridAsk::Once {
                    slot: AskSlot::OlderJobs,
                    ..
                }
            )
        };
        stage.asks.iter().any(of)
    };
    assert!(!older(&stage), "the screen is full");
    stage.press("G");
    assert!(older(&stage), "the end of the list is on the screen");
}
