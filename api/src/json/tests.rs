//! The JSON of each view, filled in and bare, as it was when scripts began to rely on it. After a
//! change that is meant: `DESKGRID_BLESS=1 cargo test -p cli json`, and look at what changed.

use common::checkpoint::Saved;
use common::content::BlobHash;
use common::host::{Confinement, HostFacts};
use common::needs::Capacity;
use common::platform::HostPlatform;
use common::token::Role;
use common::view::{
    AfterView, AttemptState, AttemptView, Belief, CounterView, DuplicateView, EstimatesView,
    ExplainView, Forecast, HostExplainView, HostJobView, HostState, HostView, JobState, JobView,
    LimitsView, PromiseState, PromiseStatus, PromiseView, QualityView, RunningView, ScalingView,
    ShareView, SpeculationView, StartView, TaskCounts, TaskState, TaskView, TokenView, WayView,
    WidthView,
};
use common::wire::client::Reply;
use common::{
    AttemptId, BlobRef, EndCondition, HostId, IdSet, Incarnation, JobId, Span, Speed, TaskId, Time,
};

use super::*;

const START: Time = Time(1_700_000_000_000_000);

/// Holds documents against the golden file of this name, or writes it.
pub(crate) fn golden(file: &str, documents: &[(&str, String)]) {
    let path = format!("{}/../tests/golden/{file}.txt", env!("CARGO_MANIFEST_DIR"));
    let lines: Vec<String> = documents
        .iter()
        .map(|(name, document)| format!("{name} = {document}\n"))
        .collect();
    if std::env::var_os("DESKGRID_BLESS").is_some() {
        std::fs::write(&path, lines.concat()).unwrap();
    }

    let kept = std::fs::read_to_string(&path).expect("run this test once with DESKGRID_BLESS=1");
    let kept: Vec<&str> = kept.split_inclusive('\n').collect();
    assert_eq!(kept, lines, "{path}");
}

fn json<T: Object>(object: &T) -> String {
    document(&Json(object))
}

/// The moment so many seconds after the start.
fn at(s: u64) -> Time {
    START + Span::from_secs(s)
}

pub(crate) fn bare_job() -> JobView {
    JobView {
        job: JobId(7),
        name: "render".into(),
        user: "ann".into(),
        state: JobState::Waiting,
        policy: "FCFS".into(),
        priority: -2,
        tasks: TaskCounts {
            total: 2,
            waiting: 2,
            ..TaskCounts::default()
        },
        attempts: 0,
        duplicates: 0,
        submitted: START,
        started: None,
        finished: None,
        predicted: None,
        predicted_makespan: None,
        reason: None,
        promise: None,
        limits: None,
        starts: None,
        width: None,
        progress: None,
        labels: std::collections::BTreeSet::new(),
        after: Vec::new(),
        open: false,
        needs: String::new(),
    }
}

fn job() -> JobView {
    let way = |hosts, finish| WayView {
        hosts,
        start: at(30),
        finish,
    };
    JobView {
        state: JobState::Finished,
        attempts: 3,
        duplicates: 1,
        started: Some(at(1)),
        finished: Some(START + Span::from_millis(2_500)),
        predicted: Some(forecast()),
        predicted_makespan: Some(Span::from_secs(2)),
        reason: Some("the rest was cancelled".into()),
        promise: Some(PromiseStatus {
            made: START,
            deadline: at(9),
            finish: at(5),
            probability: 0.9,
            probation: false,
            state: PromiseState::Kept,
            why: "done 6s before its deadline".into(),
        }),
        limits: Some(limits()),
        starts: Some(StartView {
            start: at(20),
            low: at(10),
            high: at(40),
        }),
        width: Some(WidthView {
            least: 2,
            most: 8,
            ranks: Some(4),
            formed: Some(at(3)),
            begun: Some(at(4)),
            free: 5,
            hosts: 9,
            behind: 1,
            scaling: Some(ScalingView {
                work: Span::from_secs(600),
                parallelism: 3.5,
                sigma: 1.25,
                runs: 12,
            }),
            ways: vec![way(2, None), way(4, Some(at(90)))],
            chosen: Some(way(4, Some(at(90)))),
            why: Some("nothing else is known".into()),
        }),
        progress: Some(0.375),
        labels: ["sweep7", "paper"]
            .map(|label| label.parse().unwrap())
            .into(),
        after: vec![
            AfterView {
                job: JobId(5),
                how: EndCondition::Ok,
                left: Some(12),
            },
            AfterView {
                job: JobId(6),
                how: EndCondition::Any,
                left: None,
            },
        ],
        open: true,
        needs: "cpus=2,mem=4G".into(),
        ..bare_job()
    }
}

fn forecast() -> Forecast {
    Forecast {
        finish: at(60),
        interval: Some((at(50), at(80))),
    }
}

fn limits() -> LimitsView {
    LimitsView {
        runs: 30,
        killed: 2,
        zeta: 0.125,
        limits: vec![Span::from_secs(10), Span::from_millis(22_500)],
        done: vec![0.75, 0.95],
        expected: Some(Span::from_secs(14)),
        why: None,
    }
}

fn quality() -> QualityView {
    QualityView {
        tasks: 9,
        ratio: (0.5, 0.25, 2.0),
        qoe: 0.75,
    }
}

fn attempt_id() -> AttemptId {
    AttemptId {
        task: TaskId::new(JobId(7), 3),
        number: 2,
        incarnation: Incarnation(1),
    }
}

fn bare_attempt() -> AttemptView {
    AttemptView {
        attempt: attempt_id(),
        host: "desk-1".into(),
        state: AttemptState::Assigned,
        duplicate: false,
        assigned: START,
        started: None,
        finished: None,
        ran: Span::ZERO,
        cpu: Span::ZERO,
        suspended: Span::ZERO,
        suspended_since: None,
        exit_code: None,
        reason: None,
        started_from: None,
        saved: None,
        checkpoint_problem: None,
        belief: None,
        progress: None,
        words: None,
    }
}

fn attempt() -> AttemptView {
    let saved = |sequence| Saved {
        number: 1,
        sequence,
        taken: at(2),
        files: 2,
        bytes: 300,
        manifest: BlobRef {
            hash: BlobHash([1; 32]),
            size: 70,
        },
    };
    AttemptView {
        state: AttemptState::Suspended,
        duplicate: true,
        started: Some(at(1)),
        finished: Some(at(9)),
        ran: Span::from_millis(1_500),
        cpu: Span::from_secs(1),
        suspended: Span::from_millis(250),
        suspended_since: Some(at(3)),
        exit_code: Some(-1),
        reason: Some("a copy; \"quoted\"".into()),
        started_from: Some(saved(4)),
        saved: Some(saved(5)),
        checkpoint_problem: Some("too large".into()),
        belief: Some(Belief::Differed),
        progress: Some(0.5),
        words: Some("reading".into()),
        ..bare_attempt()
    }
}

fn bare_task() -> TaskView {
    TaskView {
        task: TaskId::new(JobId(7), 3),
        item: None,
        state: TaskState::Waiting,
        reason: None,
        attempts: Vec::new(),
        speculation: None,
    }
}

fn task(requested: Option<Time>) -> TaskView {
    TaskView {
        item: Some("x".into()),
        state: TaskState::Suspended,
        reason: Some("too often".into()),
        attempts: vec![bare_attempt(), attempt()],
        speculation: Some(SpeculationView {
            disclosed: START,
            requested,
            executed: requested.map(|at| at + Span::from_millis(1_250)),
            removed: requested,
        }),
        ..bare_task()
    }
}

pub(crate) fn bare_host() -> HostView {
    let facts = HostFacts {
        name: "desk-1".into(),
        slots: 2,
        speed: Speed::new(1.5).unwrap(),
        clock_mhz: 2_300,
        cores: 4,
        memory_mib: 8_192,
        confinement: Confinement::Process,
        confinement_most: Confinement::Landlock,
        network: true,
        platform: HostPlatform::new("linux", "x86_64", "gnu 2.36"),
        lends: Capacity {
            cores: 4,
            memory_mib: 6_144,
            gpus: 0,
        },
        task_memory_mib: u32::MAX,
        task_disk_mib: 16_384,
        ..HostFacts::unknown(String::new())
    };
    HostView {
        id: HostId(1),
        facts,
        state: HostState::Suspended,
        reason: None,
        gone: false,
        since: START,
        heard: None,
        cpu_availability: None,
        undisturbed_1h: None,
        owner_active: None,
        slots_usable: 0,
        attempts: Vec::new(),
        finished: 4,
        lost: 0,
        belongs_to: None,
        agreed: 12,
        labels: ["lab3".parse().unwrap()].into(),
    }
}

fn host() -> HostView {
    HostView {
        reason: Some("in-use".into()),
        heard: Some(at(5)),
        cpu_availability: Some(0.5),
        undisturbed_1h: Some(0.8),
        owner_active: Some(true),
        attempts: vec![attempt_id()],
        belongs_to: Some("ann".into()),
        ..bare_host()
    }
}

fn token() -> TokenView {
    TokenView {
        id: 3,
        role: Role::Worker,
        name: "floor 3".into(),
        uses_left: 5,
        expires: START,
        revoked: false,
        speaks_for: None,
    }
}

fn running() -> [RunningView; 2] {
    let heard = RunningView {
        attempt: attempt_id(),
        host: "desk-2".into(),
        silent: None,
        gone: 0.0,
        copied_in: None,
    };
    let silent = RunningView {
        silent: Some(Span::from_secs(3)),
        gone: 0.8,
        copied_in: Some(Span::from_millis(500)),
        ..heard.clone()
    };
    [heard, silent]
}

fn host_explained() -> HostExplainView {
    HostExplainView {
        host: bare_host(),
        jobs: vec![HostJobView {
            job: JobId(7),
            waiting: 70_000,
            why: "passed over: it is slow".to_owned(),
        }],
        more: 300,
    }
}

fn explained() -> ExplainView {
    ExplainView {
        job: job(),
        waiting: vec![("no host is ready".into(), "1-3".into())],
        hosts: vec![("desk-1".into(), "its owner is there".into())],
        duplicates: vec![DuplicateView {
            attempt: attempt_id(),
            host: "desk-2".into(),
            why: "a duplicate".into(),
        }],
        share: Some(ShareView {
            slots: 3,
            average: 1.5,
            part: 0.75,
            due: 0.5,
            weight: 2.0,
            most_running: Some(10),
        }),
    }
}

fn bare_submitted() -> SubmitAnswer {
    SubmitAnswer {
        job: Some(JobId(7)),
        tasks: 100,
        ..SubmitAnswer::default()
    }
}

fn submitted() -> SubmitAnswer {
    let promise = PromiseView {
        deadline: at(90),
        finish: at(60),
        probability: 0.875,
        probation: true,
        estimates: Some(quality()),
    };
    SubmitAnswer {
        promise: Some(promise),
        limits: Some(limits()),
        no_limits: Some("not shown where there are limits"),
        width: job().width.map(Box::new),
        predicted: Some(forecast()),
        info: Some(job()),
        ..bare_submitted()
    }
}

fn refused(earliest: Option<(Time, Span)>, fits: IdSet) -> SubmitAnswer {
    let why = "too late".to_owned();
    SubmitAnswer {
        job: None,
        dry_run: true,
        refused_because: Some(why.clone()),
        counter: Some(CounterView {
            why,
            earliest,
            fits,
        }),
        no_limits: Some("nothing is known"),
        ..bare_submitted()
    }
}

#[test]
fn the_json_of_every_view_is_as_it_was() {
    let earliest = Some((at(120), Span::from_secs(120)));
    let fits = IdSet::from_range(1, 40);
    let no_interval = JobView {
        predicted: Some(Forecast {
            interval: None,
            ..forecast()
        }),
        ..bare_job()
    };
    let estimates = |quality| EstimatesView {
        user: "ann".into(),
        program: "render".into(),
        tasks: 12,
        quality,
    };
    let added = Reply::Added {
        job: JobId(7),
        range: (101, 103),
        tasks: 3,
        total: 53,
        again: true,
    };
    let changed = [(JobId(7), 3), (JobId(8), 0)];
    let retried = Retried {
        changed: &changed,
        promise: job().promise,
    };

    golden(
        "json-views",
        &[
            ("job", json(&job())),
            ("job, bare", json(&bare_job())),
            ("jobs", document(&List("jobs", &[job(), bare_job()]))),
            ("prediction", json(&PredictionAnswer(&job()))),
            ("prediction, bare", json(&PredictionAnswer(&bare_job()))),
            (
                "prediction without an interval",
                json(&PredictionAnswer(&no_interval)),
            ),
            ("added", document(&AddJson::of(added, false).unwrap())),
            ("submitted", json(&submitted())),
            ("submitted, bare", json(&bare_submitted())),
            ("submitted, refused", json(&refused(earliest, fits))),
            (
                "submitted, refused, bare",
                json(&refused(None, IdSet::new())),
            ),
            ("task", json(&task(Some(at(8))))),
            ("task, not requested", json(&task(None))),
            ("task, bare", json(&bare_task())),
            (
                "tasks",
                document(&List("tasks", &[task(None), bare_task()])),
            ),
            ("host", json(&host())),
            ("host, bare", json(&bare_host())),
            ("host, explained", json(&host_explained())),
            ("hosts", document(&List("hosts", &[host(), bare_host()]))),
            ("token, new", json(&NewTokenAnswer("dg1.3", &token()))),
            ("token", json(&token())),
            ("tokens", document(&List("tokens", &[token()]))),
            (
                "explained",
                json(&ExplainAnswer(&explained(), Some(&running()))),
            ),
            ("changed", document(&List("jobs", &changed))),
            ("retried, nothing", json(&Retried::default())),
            ("retried", json(&retried)),
            ("estimates", json(&estimates(Some(quality())))),
            ("estimates, bare", json(&estimates(None))),
        ],
    );
}

#[test]
fn the_json_of_events_is_as_it_was() {
    use common::Content;
    use common::attempt::{OutputFile, Stream};
    use common::event::{EventView, GridEvent, ResultView};
    use common::view::OutputView;

    let line = |event: GridEvent, result: Option<ResultView>| {
        let host = event.host().map(|_| "desk-1".to_owned());
        let view = EventView {
            seq: 4_711,
            at: START,
            event,
            result: result.map(Box::new),
        };
        json(&EventLine { view: &view, host })
    };
    let (job, host, attempt) = (JobId(7), HostId(1), attempt_id());
    let text = |bytes: &[u8]| Stream {
        content: Content::Inline(bytes.to_vec()),
        dropped: 0,
    };
    let blob = |fill| BlobRef {
        hash: BlobHash([fill; 32]),
        size: 3,
    };
    let file = |path: &str, fill| OutputFile {
        path: path.parse().unwrap(),
        blob: blob(fill),
        executable: false,
    };
    let result = ResultView {
        output: OutputView {
            attempt,
            host: "desk-1".into(),
            stdout: (text(b"out"), None),
            stderr: (text(b"\xff"), None),
            files: vec![file("a", 1), file("b", 2)],
            warnings: vec!["`p` is a pipe".into()],
            removed: false,
        },
        contents: vec![(BlobHash([1; 32]), b"abc".to_vec())],
    };
    let finished = GridEvent::TaskFinished { attempt, host };
    let submitted = GridEvent::JobSubmitted {
        job,
        user: "ann".into(),
        tasks: 9,
    };
    let cancelled = GridEvent::TasksCancelled {
        job,
        tasks: IdSet::from_range(1, 3),
        why: "asked".into(),
    };
    let changed = GridEvent::HostChanged {
        host,
        state: HostState::Suspended,
        why: Some("in-use".into()),
    };

    golden(
        "json-events",
        &[
            ("submitted", line(submitted, None)),
            ("finished", line(finished.clone(), None)),
            ("finished, with the result", line(finished, Some(result))),
            ("cancelled", line(cancelled, None)),
            ("host", line(changed, None)),
            (
                "tasks-added",
                line(
                    GridEvent::TasksAdded {
                        job: JobId(7),
                        tasks: IdSet::from_range(101, 103),
                    },
                    None,
                ),
            ),
            (
                "job-closed",
                line(GridEvent::JobClosed { job: JobId(7) }, None),
            ),
            ("restored", line(GridEvent::Restored, None)),
            ("lagged", json(&LostEvents { after: 4, from: 9 })),
        ],
    );
}
