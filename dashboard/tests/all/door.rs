//! A grid of any size that exists only in memory, behind the door that pages ask.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use api::{Coming, Door, FoundContent, Pieces, Replies, Who};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request as HttpRequest, StatusCode};
use common::attempt::Stream;
use common::availability::AvailabilityInterval;
use common::content::{BlobHash, Content};
use common::host::HostFacts;
use common::identity::{IdentityState, IdentityView};
use common::selector::Selector;
use common::site::{HostSiteView, SiteStanding, SiteTextView};
use common::token::{JoinToken, Role};
use common::units::Speed;
use common::view::{
    AccuracyView, AttemptState, AttemptView, AvailabilityView, Belief, EstimatesView, ExplainView,
    Forecast, ForetoldView, HostExplainView, HostJobView, HostState, HostView, JobState, JobView,
    OutputView, PromiseState, PromiseStatus, QualityView, TaskCounts, TaskState, TaskView,
    TokenView, WaitView,
};
use common::wire::client::{Reply, Request, Submission};
use common::wire::{Refusal, RefusalCode};
use common::{AttemptId, BlobRef, HostId, IdSet, Incarnation, JobId, Span, TaskId, Time};
use tokio::sync::mpsc;
use tower::ServiceExt;
use uuid::Uuid;

/// The size of a grid, and what its people call things.
pub(crate) struct Size {
    pub(crate) hosts: u32,
    pub(crate) jobs: u32,
    pub(crate) tasks: u32,
    /// A text that is added to every name, reason and output.
    pub(crate) mark: &'static str,
}

/// The grid.
pub(crate) struct Memory {
    size: Size,
    hosts: Vec<HostView>,
    /// The numbers of the tasks of each job.
    numbers: IdSet,
    /// The state of the promise of each job, if they have one.
    pub(crate) promised: Mutex<Option<PromiseState>>,
    /// The number of requests of each kind.
    pub(crate) asked: Mutex<BTreeMap<&'static str, u64>>,
    /// The jobs that were submitted, by the ids of the requests.
    pub(crate) submitted: Mutex<BTreeMap<Uuid, Submission>>,
    /// The content that was sent.
    pub(crate) sent: Mutex<Vec<BlobRef>>,
}

impl Memory {
    pub(crate) fn new(size: Size) -> Arc<Self> {
        Self::with_gone(size, 0)
    }

    /// A grid of which so many hosts, the last ones, are not expected back.
    pub(crate) fn with_gone(size: Size, gone: u32) -> Arc<Self> {
        let numbers = IdSet::from_range(1, size.tasks);
        Self::with(size, gone, numbers)
    }

    /// A grid whose jobs have tasks of these numbers, and so many hosts that are not expected back.
    pub(crate) fn with(size: Size, gone: u32, numbers: IdSet) -> Arc<Self> {
        let mut hosts: Vec<HostView> = (0..size.hosts).map(|n| host(n, size.mark)).collect();
        for host in hosts.iter_mut().rev().take(gone as usize) {
            host.gone = true;
            host.state = HostState::Lost;
        }
        Arc::new(Self {
            size,
            hosts,
            numbers,
            promised: Mutex::default(),
            asked: Mutex::default(),
            submitted: Mutex::default(),
            sent: Mutex::default(),
        })
    }

    fn job(&self, number: u32) -> JobView {
        let tasks = u64::from(self.size.tasks);
        let settled = number.is_multiple_of(5);
        let counts = TaskCounts {
            total: tasks,
            finished: if settled { tasks - 3 } else { tasks / 2 },
            failed: 3,
            running: if settled { 0 } else { tasks / 4 },
            waiting: if settled {
                0
            } else {
                tasks - tasks / 2 - tasks / 4 - 3
            },
            ..TaskCounts::default()
        };
        let promised = *self.promised.lock().expect("nobody panicked");
        let promise = promised.map(|state| PromiseStatus {
            made: at(0),
            deadline: at(3_000),
            finish: at(2_000),
            probability: 0.9,
            probation: false,
            state,
            why: format!("because{}", self.size.mark),
        });

        JobView {
            job: JobId(number),
            name: format!("sweep-{number}{}", self.size.mark),
            user: format!("ada{}", self.size.mark),
            state: if settled {
                JobState::Failed
            } else {
                JobState::Running
            },
            policy: "deskgrid".into(),
            priority: 0,
            needs: String::new(),
            tasks: counts,
            attempts: tasks,
            duplicates: 4,
            submitted: at(0),
            started: Some(at(1)),
            finished: settled.then(|| at(900)),
            predicted: (!settled).then(|| Forecast {
                finish: at(2_000),
                interval: Some((at(1_900), at(2_200))),
            }),
            predicted_makespan: Some(Span::from_secs(1_900)),
            reason: Some(format!("because{}", self.size.mark)),
            promise,
            limits: None,
            starts: None,
            width: None,
            progress: None,
            labels: BTreeSet::new(),
            after: Vec::new(),
            open: false,
        }
    }

    /// Picks tasks of a job; as at the master, to name only such as it has not is a mistake.
    fn pick(&self, job: JobId, tasks: &Selector) -> Result<IdSet, Refusal> {
        let picked = tasks.pick(&self.numbers);
        match tasks {
            Selector::Ids(ids) if picked.is_empty() => {
                let what = format!("job {job} has no task {ids}");
                Err(Refusal::new(RefusalCode::NotFound, what, "name another"))
            }
            _ => Ok(picked),
        }
    }

    fn task(&self, job: JobId, index: u32) -> TaskView {
        let task = TaskId::new(job, index);
        let place = u32::try_from(self.numbers.rank(index)).expect("a number") + 1;
        let state = match place {
            1..=3 => TaskState::Failed,
            n if n > self.size.tasks * 3 / 4 => TaskState::Waiting,
            n if n > self.size.tasks / 2 => TaskState::Running,
            _ => TaskState::Finished,
        };
        let host = index % self.size.hosts.max(1);
        let begun = state != TaskState::Waiting;
        let mut attempts = begun.then(|| attempt(task, state, host, self.size.mark));
        // The second one failed for want of results that agree.
        if let Some(only) = attempts.as_mut().filter(|_| place == 2) {
            only.state = AttemptState::Finished;
            only.belief = Some(Belief::Open);
        }
        TaskView {
            task,
            item: Some(format!("item-{index}{}", self.size.mark)),
            state,
            reason: None,
            attempts: attempts.into_iter().collect(),
            speculation: None,
        }
    }

    fn replies(&self, request: &Request) -> Vec<Result<Reply, Refusal>> {
        let (kind, replies) = match request {
            Request::Hosts { .. } => ("hosts", vec![Reply::Hosts(self.hosts.clone())]),
            Request::Jobs { jobs, states } => {
                let all = IdSet::from_range(1, self.size.jobs);
                let picked = jobs.pick(&all);
                let views = picked.iter().map(|job| self.job(job));
                let views = views.filter(|job| states.is_empty() || states.contains(&job.state));
                ("jobs", vec![Reply::Jobs(views.collect())])
            }
            Request::Tasks { job, tasks, states } => {
                let picked = match self.pick(*job, tasks) {
                    Ok(picked) => picked,
                    Err(refusal) => return vec![Err(refusal)],
                };
                let views = picked.iter().map(|index| self.task(*job, index));
                let views = views.filter(|task| states.is_empty() || states.contains(&task.state));
                let views: Vec<TaskView> = views.collect();
                let pages = views.chunks(500).map(|page| Reply::Tasks(page.to_vec()));
                ("tasks", pages.collect())
            }
            Request::Outputs { job, tasks } => {
                let picked = match self.pick(*job, tasks) {
                    Ok(picked) => picked,
                    Err(refusal) => return vec![Err(refusal)],
                };
                let views = picked
                    .iter()
                    .map(|index| self.output(TaskId::new(*job, index)));
                ("outputs", vec![Reply::Outputs(views.collect())])
            }
            Request::Explain { job } => ("explain", vec![self.explained(*job)]),
            Request::HostExplain { host } => ("host explain", vec![self.host_explained(host)]),
            Request::HostsWait { hosts } => ("waits", vec![Reply::HostsWait(waits_for(*hosts))]),
            Request::Accuracy => ("accuracy", vec![Reply::Accuracy(accuracy())]),
            Request::Estimates { .. } => {
                let one = |number: u32| EstimatesView {
                    user: format!("ada{}", self.size.mark),
                    program: format!("program-{number}{}", self.size.mark),
                    tasks: 10,
                    quality: Some(QualityView {
                        tasks: 10,
                        ratio: (1.1, 0.5, 2.0),
                        qoe: 0.4,
                    }),
                };
                let all = (0..self.size.jobs).map(one).collect();
                ("estimates", vec![Reply::Estimates(all)])
            }
            Request::Availability { hosts, .. } => {
                let host = hosts.first().cloned().unwrap_or_default();
                ("availability", vec![Reply::Availability(week_of(host))])
            }
            Request::TokenList => ("tokens", vec![Reply::Tokens(self.tokens())]),
            Request::TokenCreate { .. } => ("new tokens", vec![self.new_token()]),
            Request::TokenRevoke { .. } => ("revocations", vec![Reply::Tokens(Vec::new())]),
            Request::Identities { .. } => ("identities", vec![Reply::Identities(self.waiting())]),
            Request::Approve { .. } => ("approvals", vec![Reply::Identities(Vec::new())]),
            Request::Site => ("settings", vec![self.settings()]),
            Request::Audit { .. } => ("audit", vec![Reply::Audit(Vec::new())]),
            Request::Submit {
                id, spec, dry_run, ..
            } => ("submissions", vec![self.submit(id.0, spec, *dry_run)]),
            other => {
                let what = format!("{other:?} is nothing that a page asks here");
                return vec![Err(Refusal::new(RefusalCode::Invalid, what, ""))];
            }
        };
        *self
            .asked
            .lock()
            .expect("nobody panicked")
            .entry(kind)
            .or_default() += 1;
        let refused = |reply| match reply {
            Reply::Refused(refusal) => Err(refusal),
            reply => Ok(reply),
        };
        replies.into_iter().map(refused).collect()
    }

    /// Takes a job, once for each id.
    fn submit(&self, id: Uuid, spec: &Submission, dry_run: bool) -> Reply {
        let mut submitted = self.submitted.lock().expect("nobody panicked");
        if submitted.get(&id).is_some_and(|before| before != spec) {
            let what = "another job has this request id";
            return Reply::Refused(Refusal::new(RefusalCode::Conflict, what, ""));
        }
        if !dry_run {
            submitted.insert(id, spec.clone());
        }
        Reply::Submitted {
            job: (!dry_run).then_some(JobId(1)),
            tasks: 1,
            again: false,
            predicted: None,
            promise: None,
            limits: None,
            width: None,
            nowhere: None,
        }
    }

    /// A token with which machines join, and one that acts as somebody.
    fn explained(&self, job: JobId) -> Reply {
        let why = |host: &HostView| {
            let why = format!("reason {}{}", host.id.0 % 40, self.size.mark);
            (host.facts.name.clone(), why)
        };
        Reply::Explained(Box::new(ExplainView {
            job: self.job(job.0),
            waiting: vec![(format!("no slot{}", self.size.mark), "1-9".into())],
            hosts: self.hosts.iter().map(why).collect(),
            duplicates: Vec::new(),
            share: None,
        }))
    }

    fn host_explained(&self, host: &str) -> Reply {
        let host = self.hosts.iter().find(|of| of.facts.name == host);
        let jobs = (1..=self.size.jobs.min(20)).map(|job| HostJobView {
            job: JobId(job),
            waiting: 7_000,
            why: format!("reason of job {job}{}", self.size.mark),
        });
        Reply::HostExplained(Box::new(HostExplainView {
            host: host.expect("it is known").clone(),
            jobs: jobs.collect(),
            more: u64::from(self.size.jobs.saturating_sub(20)),
        }))
    }

    fn tokens(&self) -> Vec<TokenView> {
        let token = |id: u32, speaks_for| TokenView {
            id,
            role: Role::Client,
            name: format!("lab{}", self.size.mark),
            uses_left: 3,
            expires: Time(u64::from(u32::MAX) * 1_000_000),
            revoked: false,
            speaks_for,
        };
        let user = format!("ada{}", self.size.mark);
        vec![token(7, None), token(8, Some(user))]
    }

    fn new_token(&self) -> Reply {
        let token = JoinToken {
            id: 9,
            secret: [9; 16],
            ca_key_hash: [9; 32],
        };
        let view = self.tokens().remove(0);
        Reply::Token(token, view, String::new())
    }

    /// A machine that waits for somebody's word.
    fn waiting(&self) -> Vec<IdentityView> {
        vec![IdentityView {
            name: format!("new{}", self.size.mark),
            role: Role::Worker,
            state: IdentityState::Waiting,
            host: None,
            enrolled: at(0),
            expires: None,
            connections: 0,
        }]
    }

    fn settings(&self) -> Reply {
        let text = SiteTextView {
            scope: format!("host pc{}", self.size.mark),
            text: format!("slots = 1 # {}", self.size.mark),
            by: format!("ada{}", self.size.mark),
            at: Time(1),
        };
        let host = HostSiteView {
            host: format!("pc{}", self.size.mark),
            standing: SiteStanding::Refused,
            answered: Some(Time(1)),
            why: Some(format!("no{}", self.size.mark)),
        };
        Reply::Site(vec![text], vec![host])
    }

    fn output(&self, task: TaskId) -> OutputView {
        let text = format!("line{}\n", self.size.mark);
        let stream = Stream {
            content: Content::Inline(text.into_bytes()),
            dropped: 0,
        };
        OutputView {
            attempt: id(task),
            host: "pc".into(),
            stdout: (stream.clone(), None),
            stderr: (stream, None),
            files: Vec::new(),
            warnings: vec![format!("odd{}", self.size.mark)],
            removed: false,
        }
    }
}

impl Door for Memory {
    fn ask(&self, _: &Who, request: Request) -> Replies {
        let replies = self.replies(&request);
        let (tx, rx) = mpsc::channel(replies.len().max(1));
        for reply in replies {
            tx.try_send(reply).expect("there is room for all");
        }
        rx
    }

    fn get(&self, _: &Who, _: BlobHash, _: u64) -> Coming<'_, Result<FoundContent, Refusal>> {
        unreachable!("every output here is short")
    }

    fn put(&self, _: &Who, blob: BlobRef, _: Pieces) -> Coming<'_, Result<(), Refusal>> {
        self.sent.lock().expect("nobody panicked").push(blob);
        Box::pin(async { Ok(()) })
    }
}

/// A moment of the grid's life, in seconds from its beginning.
fn at(seconds: u64) -> Time {
    Time(1_700_000_000_000_000) + Span::from_secs(seconds)
}

fn id(task: TaskId) -> AttemptId {
    AttemptId {
        task,
        number: 1,
        incarnation: Incarnation(1),
    }
}

fn host(number: u32, mark: &str) -> HostView {
    let name = format!("desk-{number:05}{mark}");
    let state = HostState::ALL[number as usize % HostState::ALL.len()];
    HostView {
        id: HostId(number),
        facts: HostFacts::unknown(name),
        state,
        reason: Some(format!("in use{mark}")),
        gone: false,
        since: at(u64::from(number)),
        heard: Some(at(1_000)),
        cpu_availability: Some(0.8),
        undisturbed_1h: None,
        owner_active: Some(true),
        slots_usable: 4,
        attempts: Vec::new(),
        finished: 12,
        lost: 1,
        belongs_to: Some(format!("lab{mark}")),
        agreed: 0,
        labels: BTreeSet::new(),
    }
}

fn attempt(task: TaskId, state: TaskState, host: u32, mark: &str) -> AttemptView {
    let begin = u64::from(task.index % 900);
    let (state, finished) = match state {
        TaskState::Failed => (AttemptState::Failed, Some(at(begin + 9))),
        TaskState::Running => (AttemptState::Running, None),
        _ => (AttemptState::Finished, Some(at(begin + 30))),
    };
    AttemptView {
        attempt: id(task),
        host: format!("desk-{host:05}{mark}"),
        state,
        duplicate: false,
        assigned: at(begin),
        started: Some(at(begin + 1)),
        finished,
        ran: Span::from_secs(29),
        cpu: Span::from_secs(28),
        suspended: Span::ZERO,
        suspended_since: None,
        exit_code: None,
        reason: Some(format!("first attempt; ended with exit code 3{mark}")),
        started_from: None,
        saved: None,
        checkpoint_problem: None,
        belief: None,
        progress: Some(0.5),
        words: Some(format!("half{mark}")),
    }
}

/// The pages of a grid, for a browser of this user.
pub(crate) fn pages(grid: &Arc<Memory>) -> Router {
    pages_for(grid, Role::Admin)
}

/// The same for a browser with these rights.
pub(crate) fn pages_for(grid: &Arc<Memory>, role: Role) -> Router {
    let who = Who {
        user: "ada".into(),
        role,
        id: Uuid::nil(),
        token: None,
    };
    let pages = dashboard::pages(grid.clone());
    pages.pages.layer(axum::Extension(who))
}

/// Fetches a page: its status, its mark, and its text.
pub(crate) async fn fetch(pages: &Router, path: &str, known: &str) -> (StatusCode, String, String) {
    let request = HttpRequest::get(path)
        .header("if-none-match", known)
        .body(Body::empty())
        .expect("a request");
    let answer = pages.clone().oneshot(request).await.expect("an answer");
    let status = answer.status();
    let mark = answer.headers().get("etag");
    let mark = mark.map_or_else(String::new, |mark| mark.to_str().expect("text").to_owned());
    let body = to_bytes(answer.into_body(), usize::MAX)
        .await
        .expect("a body");
    let text = String::from_utf8(body.to_vec()).expect("UTF-8");
    (status, mark, text)
}

/// Every page that shows something of the grid.
pub(crate) const PAGES: [&str; 18] = [
    "/",
    "/jobs",
    "/jobs?state=open",
    "/jobs?state=failed",
    "/jobs/1",
    "/jobs/5",
    "/jobs/5?state=failed",
    "/jobs/1/why",
    "/jobs/1/tasks/1",
    "/jobs/1/cancel",
    "/hosts",
    "/hosts?state=lost&skip=100",
    "/calendar",
    "/trust",
    "/admin",
    "/admin/token",
    "/admin/tokens/7/revoke",
    "/admin/tokens/8/revoke",
];

/// A wait for this many hosts.
fn waits_for(wanted: u32) -> WaitView {
    WaitView {
        wanted,
        free: 3,
        hosts: 40,
        benefactors: 2,
        median: Some(Span::from_secs(60)),
        mean: Some(Span::from_secs(80)),
        used: Some(Span::from_secs(60)),
        low: Some(Span::from_secs(10)),
        likely: Some(Span::from_secs(60)),
        high: Some(Span::from_secs(600)),
    }
}

/// A thousand predictions of each kind, the most that a master reports.
fn accuracy() -> AccuracyView {
    let one = |n: u64| ForetoldView {
        hosts: 0,
        at: at(n),
        wait: Span::from_secs(n),
        low: Span::from_secs(n / 2),
        high: Span::from_secs(2 * n),
        came: Span::from_secs(if n.is_multiple_of(5) { 3 * n } else { n }),
    };
    let all: Vec<ForetoldView> = (1..=1_000).map(one).collect();
    AccuracyView {
        hosts: all.clone(),
        starts: all.clone(),
        finishes: all,
        open: 3,
    }
}

/// Four weeks of a host whose owner comes and goes every half hour.
fn week_of(host: String) -> AvailabilityView {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = Time(Span::from(now.unwrap_or_default()).0);
    let half = |n: u64| AvailabilityInterval {
        start: Time(now.0 - n * 1_800_000_000),
        end: Time(now.0 - (n - 1) * 1_800_000_000),
        cpu: if n.is_multiple_of(2) { 1.0 } else { 0.0 },
        owner_active: Some(n % 2 == 1),
        reason: None,
    };
    AvailabilityView {
        host,
        speed: Speed::REFERENCE,
        known_since: Some(Time(0)),
        connected: true,
        stretches: (1..=1_344).rev().map(half).collect(),
    }
}
