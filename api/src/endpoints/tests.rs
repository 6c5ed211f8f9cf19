//! Endpoints of a grid that has very many hosts or tasks: how much they ask of it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request as HttpRequest, StatusCode};
use common::content::BlobHash;
use common::event::EventPage;
use common::selector::Selector;
use common::token::Role;
use common::view::{CounterView, HostView, JobView, TaskCounts, TaskState, TaskView};
use common::wire::client::{Reply, Request, Submission};
use common::wire::{Refusal, RefusalCode};
use common::{BlobRef, HostId, IdSet, JobId, Span, TaskId, Time};
use serde_json::Value;
use tokio::sync::mpsc;
use tower::ServiceExt;
use uuid::Uuid;

use crate::body::next;
use crate::json::tests::{bare_host, bare_job};
use crate::{Coming, Door, FoundContent, OwnSocket, Pieces, Replies, SitePages, Who, router};

/// A grid that answers from a script, as fast as its answers are taken.
struct Scripted {
    script: fn(&Request) -> Vec<Reply>,
    asked: Mutex<Vec<Request>>,
    /// The replies that were taken.
    taken: Arc<AtomicUsize>,
}

impl Scripted {
    fn new(script: fn(&Request) -> Vec<Reply>) -> Arc<Self> {
        Arc::new(Self {
            script,
            asked: Mutex::default(),
            taken: Arc::default(),
        })
    }

    fn server(self: &Arc<Self>) -> Router {
        let who = Who {
            user: "ann".to_owned(),
            role: Role::Client,
            id: Uuid::from_u128(1),
            token: None,
        };

        let grid = Arc::clone(self);
        router(grid, Arc::new(OwnSocket(who)), SitePages::default())
    }

    /// Asks its API, and returns the document of the answer.
    async fn answer(self: &Arc<Self>, request: HttpRequest<Body>) -> Value {
        self.answer_with(StatusCode::OK, request).await
    }

    /// Asks its API for an answer with this status, and returns its document.
    async fn answer_with(
        self: &Arc<Self>,
        expected: StatusCode,
        request: HttpRequest<Body>,
    ) -> Value {
        let answer = self.server().oneshot(request).await.unwrap();
        let status = answer.status();
        let bytes = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        assert_eq!(status, expected, "{}", String::from_utf8_lossy(&bytes));
        serde_json::from_slice(&bytes).unwrap()
    }
}

impl Door for Scripted {
    fn ask(&self, _: &Who, request: Request) -> Replies {
        let replies = (self.script)(&request);
        self.asked.lock().unwrap().push(request);
        let taken = Arc::clone(&self.taken);
        let (tx, rx) = mpsc::channel(1);
        tokio::spawn(async move {
            for reply in replies {
                let reply = match reply {
                    Reply::Refused(refusal) => Err(refusal),
                    reply => Ok(reply),
                };
                if tx.send(reply).await.is_err() {
                    return;
                }
                taken.fetch_add(1, Ordering::SeqCst);
            }
        });
        rx
    }

    fn get(&self, _: &Who, _: BlobHash, _: u64) -> Coming<'_, Result<FoundContent, Refusal>> {
        unreachable!("no content is asked for")
    }

    fn put(&self, _: &Who, _: BlobRef, _: Pieces) -> Coming<'_, Result<(), Refusal>> {
        unreachable!("no content is sent")
    }
}

fn get(path: &str) -> HttpRequest<Body> {
    HttpRequest::get(path).body(Body::empty()).unwrap()
}

fn post(path: &str, body: impl Into<Body>) -> HttpRequest<Body> {
    let request = HttpRequest::post(path).header("content-type", "application/json");
    request.body(body.into()).unwrap()
}

/// A job of very many cancelled tasks, of which 300 are asked for by number.
fn mostly_cancelled(request: &Request) -> Vec<Reply> {
    let cancelled = |index| TaskView {
        task: TaskId::new(JobId(7), index),
        item: None,
        state: TaskState::Cancelled,
        reason: None,
        attempts: Vec::new(),
        speculation: None,
    };

    match request {
        Request::RequestTasks { .. } => vec![Reply::Changed(vec![(JobId(7), 3)])],
        Request::Jobs { .. } => {
            let tasks = TaskCounts {
                total: 1_000_000,
                cancelled: 999_997,
                ..TaskCounts::default()
            };
            vec![Reply::Jobs(vec![JobView {
                tasks,
                ..bare_job()
            }])]
        }
        Request::Tasks {
            tasks: Selector::Ids(_),
            ..
        } => {
            let page = |page: u32| -> Vec<TaskView> {
                let places = 1..=100;
                places.map(|place| cancelled(100 * page + place)).collect()
            };
            (0..3).map(page).map(Reply::Tasks).collect()
        }
        other => unreachable!("that would be very many: {other:?}"),
    }
}

#[tokio::test]
async fn cancelled_tasks_are_counted_without_being_asked_for_one_by_one() {
    let grid = Scripted::new(mostly_cancelled);
    let all = grid.answer(post("/api/v1/jobs/7/request", "{}")).await;
    assert_eq!(all["requested"], 3);
    assert_eq!(all["cancelled"], 999_997);
    let asked = grid.asked.lock().unwrap().clone();
    let tasks = |request: &Request| matches!(request, Request::Tasks { .. });
    assert!(!asked.iter().any(tasks), "{asked:?}");

    let some = post("/api/v1/jobs/7/request", "{\"tasks\": \"1-300\"}");
    assert_eq!(grid.answer(some).await["cancelled"], 300);
}

/// Cancels what nobody has requested, and knows nothing else.
fn unrequested_alone(request: &Request) -> Vec<Reply> {
    let Request::CancelUnrequested { .. } = request else {
        unreachable!("nobody asks this here: {request:?}");
    };
    vec![Reply::Changed(vec![(JobId(7), 50)])]
}

#[tokio::test]
async fn tasks_that_are_named_and_unrequested_ones_are_not_cancelled_together() {
    let grid = Scripted::new(unrequested_alone);
    let both = post(
        "/api/v1/jobs/7/cancel",
        r#"{"tasks": "1-3", "unrequested": true}"#,
    );
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    let refused = grid.answer_with(status, both).await;
    assert_eq!(refused["title"], "`tasks` and `unrequested` are both given");
    assert!(grid.asked.lock().unwrap().is_empty());

    let alone = post("/api/v1/jobs/7/cancel", r#"{"unrequested": true}"#);
    grid.answer(alone).await;
    assert_eq!(grid.asked.lock().unwrap().len(), 1);
}

/// Promises no deadline; the name of the job says what it offers instead.
fn no_promise(request: &Request) -> Vec<Reply> {
    let Request::Submit {
        spec: Submission::Inline(spec, _),
        ..
    } = request
    else {
        unreachable!("nobody asks this here: {request:?}");
    };
    let later = (Time(60_000_000), Span::from_secs(60));
    let fits: u32 = if spec.name.contains("part") { 2 } else { 0 };
    vec![Reply::NotPromised(Box::new(CounterView {
        why: "its deadline cannot be kept".to_owned(),
        earliest: spec.name.contains("later").then_some(later),
        fits: (1..=fits).collect(),
    }))]
}

#[tokio::test]
async fn a_deadline_that_cannot_be_promised_comes_with_advice_to_ask_for_what_can() {
    let grid = Scripted::new(no_promise);
    let cases = [
        (
            r#"{"command": ["true"], "name": "later-part"}"#,
            "ask for earliest_deadline, or for the tasks that fit",
        ),
        (
            r#"{"command": ["true"], "name": "later"}"#,
            "ask for earliest_deadline",
        ),
        (
            r#"{"command": ["true"], "name": "part"}"#,
            "ask for the tasks that fit",
        ),
        (
            r#"{"command": ["true"], "name": "none"}"#,
            "give it more time, or ask again later",
        ),
    ];
    for (job, advice) in cases {
        let request = post("/api/v1/jobs", job);
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        let refused = grid.answer_with(status, request).await;
        assert_eq!(refused["code"], "not-promised");
        assert_eq!(refused["try"], advice, "{refused}");
    }
}

/// Promises no deadline; why says what date was asked for.
fn date_asked_for(request: &Request) -> Vec<Reply> {
    let Request::Submit {
        spec: Submission::Inline(_, asked),
        ..
    } = request
    else {
        unreachable!("nobody asks this here: {request:?}");
    };
    vec![Reply::NotPromised(Box::new(CounterView {
        why: format!("{:?}", asked.deadline),
        earliest: None,
        fits: IdSet::default(),
    }))]
}

#[tokio::test]
async fn a_deadline_over_http_is_any_date_of_the_command_line() {
    let grid = Scripted::new(date_asked_for);
    let day_s = 1_796_083_200;
    for (deadline, due_s) in [
        ("2026-12-01", day_s),
        ("2026-12-01 23:59", day_s + 86_340),
        ("2026-12-01T01:30:00+01:30", day_s),
    ] {
        let job = format!(r#"{{"command": ["true"], "deadline": "{deadline}"}}"#);
        let request = post("/api/v1/jobs", job);
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        let answer = grid.answer_with(status, request).await;
        let due = Some(Time(due_s * 1_000_000));
        assert_eq!(answer["title"], format!("{due:?}"), "{deadline}: {answer}");
    }

    let request = post(
        "/api/v1/jobs",
        r#"{"command": ["true"], "deadline": "soon"}"#,
    );
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    let refused = grid.answer_with(status, request).await;
    let title = refused["title"].as_str().unwrap();
    assert!(title.contains("neither a date such as"), "{title}");
}

/// Ten thousand hosts, a hundred in a reply.
fn many_hosts(request: &Request) -> Vec<Reply> {
    let Request::Hosts { names } = request else {
        unreachable!("nobody asks this here: {request:?}");
    };
    assert!(names.is_empty());
    let host = |number| HostView {
        id: HostId(number),
        ..bare_host()
    };
    let reply = |first: u32| Reply::Hosts((first..first + 100).map(host).collect());
    (0..100).map(|place| reply(100 * place)).collect()
}

#[tokio::test]
async fn a_page_of_hosts_takes_no_more_replies_than_it_has_hosts() {
    let grid = Scripted::new(many_hosts);
    let first = grid.answer(get("/api/v1/hosts?limit=1")).await;
    assert_eq!(first["hosts"].as_array().unwrap().len(), 1);
    // One is taken, one more lies in the channel.
    assert!(grid.taken.load(Ordering::SeqCst) <= 2);

    let mut path = "/api/v1/hosts?limit=1000".to_owned();
    let mut found = Vec::new();
    loop {
        let page = grid.answer(get(&path)).await;
        let hosts = page["hosts"].as_array().unwrap();
        found.extend(
            hosts
                .iter()
                .map(|host| host["id"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["next"].as_str() else {
            break;
        };
        path = format!("/api/v1/hosts?limit=1000&after={next}");
    }
    let all: Vec<String> = (0..10_000).map(|number| format!("host-{number}")).collect();
    assert_eq!(found, all);
}

/// Knows which job is the last one, and ends each answer with events after the first of them.
fn breaks_off(request: &Request) -> Vec<Reply> {
    match request {
        Request::Jobs {
            jobs: Selector::Last,
            ..
        } => vec![Reply::Jobs(vec![bare_job()])],
        Request::Follow(_) => vec![Reply::Events(EventPage {
            upto: 9,
            ..EventPage::default()
        })],
        other => unreachable!("nobody asks this here: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn events_of_the_last_job_stay_those_of_one_job_though_the_master_goes_away() {
    let grid = Scripted::new(breaks_off);
    let request = get("/api/v1/events?job=last");
    let answer = grid.server().oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);

    // Events, a word while nothing comes, and more events.
    let mut body = answer.into_body();
    for _ in 0..3 {
        next(&mut body).await.unwrap().unwrap();
    }

    let this = Some(Selector::Ids(IdSet::from_range(7, 7)));
    let asked = grid.asked.lock().unwrap().clone();
    let followed = asked.iter().filter_map(|request| match request {
        Request::Follow(following) => Some(following.jobs.clone()),
        _ => None,
    });
    let followed: Vec<Option<Selector>> = followed.collect();
    assert!(followed.len() >= 2, "{followed:?}");
    assert!(followed.iter().all(|jobs| *jobs == this), "{followed:?}");
}

/// Tells events of a job until it is shared no more, and those of all jobs until it is asked again.
fn shared_no_more(request: &Request) -> Vec<Reply> {
    let Request::Follow(following) = request else {
        unreachable!("nobody asks this here: {request:?}");
    };
    let page = Reply::Events(EventPage {
        upto: 9,
        ..EventPage::default()
    });
    let what = "the job is shared with you no more";
    let refused = Reply::Refused(Refusal::new(RefusalCode::NotAuthorised, what, "ask ann"));
    match (following.after, &following.jobs) {
        (Some(_), _) => vec![refused],
        (None, Some(_)) => vec![page, refused],
        (None, None) => vec![page],
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_are_refused_from_now_on_break_off() {
    let grid = Scripted::new(shared_no_more);
    // Where the master goes away first, a word comes before it is asked again.
    for (path, good) in [("/api/v1/events?job=7", 1), ("/api/v1/events", 2)] {
        let answer = grid.server().oneshot(get(path)).await.unwrap();
        let mut body = answer.into_body();
        for _ in 0..good {
            next(&mut body).await.unwrap().unwrap();
        }
        assert!(
            next(&mut body).await.is_some_and(|end| end.is_err()),
            "{path}"
        );
    }
}
