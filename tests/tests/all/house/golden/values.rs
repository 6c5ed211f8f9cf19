//! One value of each message, every field different from its default.

use std::collections::BTreeSet;

use common::attempt::{HeldAttempt, OutputFile, Phase, Spent, Stream, StreamKind};
use common::availability::AvailabilityInterval;
use common::checkpoint::{Checkpointing, Saved, Saving};
use common::content::{BlobHash, BlobRef, Content};
use common::event::{EventPage, EventView, Following, GridEvent, ResultView};
use common::host::{Confinement, Gpu, HostFacts, Loan, OwnerState, Status, YieldReason};
use common::identity::{AuditView, IdentityState, IdentityView};
use common::job::{
    Capture, CommandSpec, Compare, Input, InputKind, InputSource, JobSpec, Quorum, Rules,
    SubmitOptions, TaskSet, Tolerance, Work,
};
use common::needs::{Builds, Capacity, Demand, Label, Needs};
use common::platform::{HostPlatform, PlatformName};
use common::selector::Selector;
use common::token::{JoinToken, Role};
use common::view::{
    AccountView, AccuracyView, AfterView, AttemptState, AttemptView, AvailabilityView, Belief,
    CounterView, DuplicateView, EstimatesView, ExplainView, Forecast, ForetoldView, HostState,
    HostView, JobState, JobView, LimitsView, OutputView, PromiseState, PromiseStatus, PromiseView,
    QualityView, ScalingView, ShareView, SpeculationView, SpreadView, StartView, TaskCounts,
    TaskState, TaskView, TokenView, WaitView, WayView, WidthView,
};
use common::wire::client::{Addition, Reply, Request, Submission, TailFrom, TailNews};
use common::wire::enrol::{Enrol, EnrolReply, WantedRole};
use common::wire::stream::{GetReply, Open, PutReply, TailPart};
use common::wire::worker::{
    Assignment, Command, Delivery, Errand, StagedInput, StagedKind, TailOrder, ToMaster, ToWorker,
};
use common::wire::{Refusal, RefusalCode, Versions};
use common::{
    After, AttemptId, Completion, EndCondition, HostId, IdSet, Incarnation, JobId, NewTasks,
    Outcome, Ranks, RequestId, Span, Speed, TaskId, Time,
};

/// Names each variant by a match that a new variant breaks, and counts them.
macro_rules! variants {
    ($count:ident, $name:ident: $type:ident { $($variant:ident),+ $(,)? }) => {
        pub(super) fn $name(message: &$type) -> &'static str {
            match message { $($type::$variant { .. } => stringify!($variant)),+ }
        }
        pub(super) const $count: usize = [$(stringify!($variant)),+].len();
    };
}

pub(super) use variants;

variants!(ENROL_REPLIES, enrol_reply_name: EnrolReply { Enrolled, Refused, Here, StandsBy, EnrolledWithKey });
variants!(OPENS, open_name: Open { Control, Request, Get, Put, Renew, Tail, RenewProved });
variants!(GET_REPLIES, name_of_get_reply: GetReply { Found, Refused, Waits, At });
variants!(PUT_REPLIES, put_reply_name: PutReply { Resume, Stored, Refused });
variants!(TO_MASTER, to_master_name: ToMaster {
    Hello, Heartbeat, Phases, Delivered, Returned, Owner, Checkpoint, Leaving, Closing, Recorded, Instance, Spent, Lent, Alive, Words,
    Shares, Fetched, Site, Update, Weighed,
});
variants!(TO_WORKER, to_worker_name: ToWorker {
    Welcome, Refused, Assign, Stop, Acknowledged, Beat, Goodbye, Kept, AssignTogether, Begin, Hold, Yield, SendEvery, Tail, Serve, Unserve, Site,
    Update, Anew, OutOfService,
});
variants!(REQUESTS, request_name: Request {
    Hello, Submit, Jobs, Watch, Tasks, Outputs, Cancel, Retry, Recompute, Forget, Explain, Hosts, Drain, Undrain, HostOwner, HostLabels,
    TokenCreate, TokenList, TokenRevoke, Availability, Undecided, Judge, Identities, Approve, Revoke,
    Share, Audit, Estimates, RequestTasks, CancelUnrequested, Account, HostsWait, Accuracy, HostForget,
    Follow, Tail, AddTasks, Close, Masters, HandOver, Site, SiteChange, Update, Running, Work, HostExplain,
});
variants!(REPLIES, reply_name: Reply {
    Welcome, Refused, Submitted, Jobs, Tasks, Outputs, Changed, Explained, Hosts, Token, Tokens, Availability,
    Undecided, Identities, Audit, NotPromised, Estimates, Accounts, HostsWait, Accuracy, Events, Lagged, Tail, Added,
    Masters, Site, Updates, Running, Work, HostExplained,
});

fn forecast() -> Forecast {
    let at = |s: u64| Time(1_700_000_000_000_000 + s);
    Forecast {
        finish: at(3_000_000),
        interval: Some((at(2_000_000), at(5_000_000))),
    }
}

fn promise() -> PromiseView {
    let at = |s: u64| Time(1_700_000_000_000_000 + s);
    let estimates = Some(QualityView {
        tasks: 90,
        ratio: (0.75, 0.5, 1.5),
        qoe: 0.4,
    });

    PromiseView {
        deadline: at(9_000_000),
        finish: at(3_000_000),
        probability: 0.75,
        probation: true,
        estimates,
    }
}

pub(super) fn refusal() -> Refusal {
    Refusal::new(
        RefusalCode::NotFound,
        "there is no job 9",
        "see `deskgrid job list all`",
    )
}

pub(super) fn versions() -> Versions {
    Versions {
        min: 1,
        max: 2,
        program: "0.1.0".into(),
    }
}

fn blob(fill: u8) -> BlobRef {
    BlobRef {
        hash: BlobHash([fill; 32]),
        size: 5_000 + u64::from(fill),
    }
}

fn attempt() -> AttemptId {
    AttemptId {
        task: TaskId::new(JobId(7), 300),
        number: 2,
        incarnation: Incarnation(5),
    }
}

fn ids() -> IdSet {
    [1, 2, 3, 9].into_iter().collect()
}

fn held() -> Vec<HeldAttempt> {
    let other = [
        Phase::Suspended(YieldReason::OnBattery),
        Phase::Ended,
        Phase::Ready,
        Phase::Held,
    ];
    let phases = [Phase::Queued, Phase::Staging, Phase::Running]
        .into_iter()
        .chain(other);

    phases
        .map(|phase| HeldAttempt {
            attempt: attempt(),
            phase,
            ran: Span(1_500_000),
            frozen_for: Span(2_000_000),
            progress: Some(0.25),
        })
        .collect()
}

fn platform(name: &str) -> PlatformName {
    name.parse().expect("a platform")
}

fn demand() -> Demand {
    Demand {
        cores: 4,
        memory_mib: 4_096,
        gpus: 1,
    }
}

fn labels(words: &[&str]) -> BTreeSet<Label> {
    words.iter().filter_map(|word| word.parse().ok()).collect()
}

fn facts() -> HostFacts {
    HostFacts {
        name: "office-12".into(),
        slots: 4,
        speed: Speed::new(1.75).expect("a speed"),
        clock_mhz: 3_200,
        cores: 8,
        memory_mib: 16_000,
        confinement: Confinement::Process,
        confinement_most: Confinement::Landlock,
        network: true,
        platform: HostPlatform::new("linux", "x86_64", "gnu 2.36"),
        lends: Capacity {
            cores: 8,
            memory_mib: 14_400,
            gpus: 1,
        },
        task_memory_mib: u32::MAX,
        task_disk_mib: 16_384,
        gpus: vec![Gpu {
            name: "Tesla T4".into(),
            memory_mib: 15_360,
        }],
        labels: labels(&["lab3"]),
    }
}

fn completion(outcome: Outcome) -> Completion {
    Completion {
        attempt: attempt(),
        outcome,
        ran: Span(2_000_000),
        suspended: Span(3_000),
        cpu: Span(1_900_000),
        stdout: Stream {
            content: Content::Inline(b"hello\n".to_vec()),
            dropped: 0,
        },
        stderr: Stream {
            content: Content::Blob(blob(2)),
            dropped: 17,
        },
        outputs: vec![OutputFile {
            path: path("out/a.txt"),
            blob: blob(3),
            executable: true,
        }],
        warnings: vec!["`pipe` is a named pipe".to_owned()],
        confined: None,
    }
}

fn path(text: &str) -> common::path::PortablePath {
    text.parse().expect("a portable path")
}

fn template(text: &str) -> common::template::Template {
    text.parse().expect("a template")
}

pub(super) fn enrol() -> Enrol {
    Enrol {
        versions: versions(),
        token: 3,
        secret: [0xAB; 16],
        csr: vec![0x30, 0x82],
        name: "office-12".into(),
        wanted: WantedRole::Worker,
    }
}

pub(super) fn opens() -> Vec<Open> {
    vec![
        Open::Control,
        Open::Request,
        super::peers::wish_for(blob(4).hash),
        Open::Put(blob(5)),
        Open::Renew {
            csr: vec![0x30, 0x82],
        },
        Open::Tail { ticket: 1 << 40 },
        super::gateways::renewal(),
    ]
}

pub(super) fn put_replies() -> Vec<PutReply> {
    vec![
        PutReply::Resume(300),
        PutReply::Stored,
        PutReply::Refused(refusal()),
    ]
}

fn status(owner: OwnerState) -> Status {
    Status {
        owner,
        cpu: 0.75,
        up_for: Span(7_200_000_000),
        owner_for: Span(90_000_000),
    }
}

fn checkpoint(saving: Saving) -> ToMaster {
    ToMaster::Checkpoint {
        attempt: attempt(),
        sequence: 3,
        saving,
    }
}

fn saved() -> Saved {
    let taken = Time(1_700_000_002_000_000);
    Saved {
        number: 1,
        sequence: 3,
        taken,
        files: 2,
        bytes: 70_000,
        manifest: blob(11),
    }
}

pub(super) fn to_master() -> Vec<ToMaster> {
    let owner = OwnerState::Present(YieldReason::InUse);
    let outcomes = [
        Outcome::Succeeded,
        Outcome::Exited(3),
        Outcome::Signalled(11),
        Outcome::TimedOut(Span(60_000_000)),
        Outcome::MissingOutput("out.txt".into()),
        Outcome::BadOutput("out.txt is a FIFO".into()),
        Outcome::NotStarted("no such program".into()),
        Outcome::Stopped,
        Outcome::OverLimit("too many files".into()),
        Outcome::ResultLost("a file is damaged".into()),
        Outcome::NoRoom("its input cannot be placed".into()),
    ];
    let delivered = outcomes.map(|outcome| Delivery {
        completion: completion(outcome),
        ago: Span(9_000),
    });

    vec![
        ToMaster::Hello {
            versions: versions(),
            facts: Box::new(facts()),
            status: status(owner),
            held: held(),
        },
        ToMaster::Heartbeat {
            status: status(OwnerState::Away),
            held: held(),
        },
        ToMaster::Phases(held()),
        ToMaster::Delivered(delivered.to_vec()),
        ToMaster::Returned {
            attempts: vec![attempt()],
            why: "the owner is back".into(),
        },
        ToMaster::Owner(owner),
        checkpoint(Saving::Complete(blob(11))),
        checkpoint(Saving::Refused("too large".into())),
        checkpoint(Saving::FromScratch("damaged".into())),
        ToMaster::Leaving,
        ToMaster::Closing,
        ToMaster::Recorded {
            last: 300,
            stretches: stretches(),
        },
        ToMaster::Instance(uuid::Uuid::from_u128(
            0x0123_4567_89ab_cdef_0011_2233_4455_6677,
        )),
        ToMaster::Spent(Spent {
            attempt: attempt(),
            ran: Span(1_500_000),
            suspended: Span(2_000_000),
            cpu: Span(1_250_000),
        }),
        ToMaster::Lent(Some(Loan {
            left: Span(3_600_000_000),
            again: Span(39_600_000_000),
            longest: Span(50_400_000_000),
        })),
        ToMaster::Alive(Span(3_000_000)),
        ToMaster::Words(vec![(attempt(), "reading".into())]),
        super::peers::shares(blob(6).hash),
        super::peers::fetched(blob(7).hash),
        super::site::to_master(),
        super::updates::to_master(),
        super::work::weighed(attempt()),
    ]
}

fn stretches() -> Vec<AvailabilityInterval> {
    let at = |s: u64| Time(1_700_000_000_000_000 + s);
    let away = AvailabilityInterval::of(at(0), at(1_000_000), OwnerState::Away, 0.75);
    vec![
        away,
        AvailabilityInterval::of(
            at(1_000_000),
            at(2_000_000),
            OwnerState::Present(YieldReason::InUse),
            0.0,
        ),
    ]
}

fn availability_view() -> AvailabilityView {
    AvailabilityView {
        host: "office-12".into(),
        speed: Speed::new(1.75).expect("a speed"),
        known_since: Some(Time(1_600_000_000_000_000)),
        connected: true,
        stretches: stretches(),
    }
}

fn command() -> Command {
    Command {
        argv: vec!["sha256sum".into(), "in.bin".into()],
        env: vec![("LANG".into(), "C".into())],
        inputs: vec![StagedInput {
            path: path("env"),
            blob: blob(6),
            kind: StagedKind::Tree,
        }],
        outputs: vec!["*.txt".into()],
        stdin: Some(path("in.bin")),
        keep_stdout: true,
        keep_stderr: false,
        checkpoint: Some(Checkpointing {
            every: Span(30_000_000),
            from: Some(saved()),
        }),
        confinement: Some(Confinement::Namespace),
        network: true,
        takes: demand(),
    }
}

pub(super) fn to_worker() -> Vec<ToWorker> {
    let assign = |work| Assignment {
        attempt: attempt(),
        limit: Some(Span(60_000_000)),
        report_every: Some(Span(5_000_000)),
        work,
    };

    vec![
        ToWorker::Welcome {
            version: 1,
            host: HostId(12),
            name: "office-12".into(),
            incarnation: Incarnation(5),
            heartbeat: Span(60_000_000),
            abandon: vec![attempt()],
        },
        ToWorker::Refused(refusal()),
        ToWorker::Assign(vec![
            assign(Errand::Noop),
            assign(Errand::Command(Box::new(command()))),
        ]),
        ToWorker::Stop {
            attempts: vec![attempt()],
            why: "cancelled".into(),
        },
        ToWorker::Acknowledged(vec![attempt()]),
        ToWorker::Beat {
            abandon: vec![attempt()],
        },
        ToWorker::Goodbye,
        ToWorker::Kept { last: 300 },
        ToWorker::AssignTogether(vec![Assignment {
            attempt: attempt(),
            limit: Some(Span(60_000_000)),
            report_every: None,
            work: Errand::Noop,
        }]),
        ToWorker::Begin(vec![attempt()]),
        ToWorker::Hold {
            attempts: vec![attempt()],
            frozen: true,
        },
        super::work::gives_way(attempt()),
        ToWorker::SendEvery(Span(100_000_000)),
        super::peers::serve(blob(8)),
        ToWorker::Unserve(vec![1 << 45]),
        super::site::to_worker(),
        super::updates::to_worker(),
        ToWorker::Anew,
        ToWorker::Tail(TailOrder {
            attempt: attempt(),
            stream: StreamKind::Stderr,
            from: Some(70_000),
            ticket: 1 << 40,
        }),
        ToWorker::OutOfService(Some("benched: no room".into())),
    ]
}

fn spec() -> JobSpec {
    let mut command = CommandSpec::new(vec![template("sha256sum"), template("%{ITEM}")]);
    command.env = vec![("N".into(), template("%{TASK_ID}"))];
    command.inputs = vec![
        Input {
            name: template("shared"),
            kind: InputKind::Program,
            source: InputSource::Shared(blob(7)),
        },
        Input {
            name: template("%{ITEM}"),
            kind: InputKind::File,
            source: InputSource::PerTask(vec![blob(8), blob(9)]),
        },
        Input {
            name: template("solver"),
            kind: InputKind::Program,
            source: InputSource::PerPlatform([(platform("linux-x86_64"), blob(4))].into()),
        },
        Input {
            name: template("env"),
            source: InputSource::Shared(blob(3)),
            kind: InputKind::Tree {
                parts: vec![blob(5)],
            },
        },
    ];

    command.outputs = vec![template("out.txt")];
    command.stdin = Some(template("shared"));
    command.stdout = Capture::File(template("%{TASK_ID}.out"));
    command.stderr = Capture::Discard;
    command.checkpoint = Some(Span(30_000_000));

    let rules = Rules {
        checkpoint: true,
        retries: 2,
        max_losses: 4,
        timeout: Some(Span(60_000_000)),
        max_fails: Some(10),
        priority: -3,
        policy: "FCFS".into(),
        estimate: Some(Span(30_000_000)),
        needs: Needs {
            confinement: Some(Confinement::Account),
            network: true,
            os: Some("linux".into()),
            arch: Some("x86_64".into()),
            libc: Some("gnu".into()),
            labels: labels(&["lab3", "fast"]),
            disk_mib: 2_048,
            takes: demand(),
            builds: vec![Builds {
                input: "solver".into(),
                platforms: BTreeSet::from([platform("linux-x86_64")]),
            }],
        },
        quorum: Quorum {
            size: 2,
            adaptive: true,
            compare: Compare::Floats(Tolerance::new(1e-6).expect("a part")),
        },
        deadline: Some(Span(7_200_000_000)),
    };

    let tasks = TaskSet {
        ids: IdSet::from_range(1, 2),
        items: vec!["a".into(), "b".into()],
    };
    JobSpec {
        name: "hashes".into(),
        tasks,
        work: Work::Command(command),
        rules,
    }
}

fn asked() -> SubmitOptions {
    SubmitOptions {
        deadline: Some(Time(1_700_000_000_000_000)),
        estimates: vec![Span(90_000_000), Span(5_400_000_000)],
        labels: labels(&["paper", "sweep7"]),
        after: vec![
            After {
                job: JobId(5),
                how: EndCondition::Ok,
            },
            After {
                job: JobId(6),
                how: EndCondition::Any,
            },
        ],
        open: true,
    }
}

fn noop_spec() -> JobSpec {
    let tasks = TaskSet {
        ids: IdSet::from_range(1, 1_000_000),
        items: Vec::new(),
    };
    JobSpec {
        name: "noop".into(),
        tasks,
        work: Work::Noop,
        rules: Rules::default(),
    }
}

fn ranks_spec() -> JobSpec {
    let command = CommandSpec::new(vec![
        template("./solve"),
        template("%{RANK}"),
        template("%{WIDTH}"),
    ]);
    let work = Some(Span(9_000_000));
    let parallelism = Some(12.5);
    let sigma = Some(0.5);
    let ranks = Ranks {
        least: 2,
        most: Some(16),
        work,
        parallelism,
        sigma,
    };

    let tasks = TaskSet {
        ids: Ranks::tasks(2),
        items: Vec::new(),
    };
    let rules = Rules::default();

    JobSpec {
        name: "solve".into(),
        tasks,
        work: Work::Ranks(command, ranks),
        rules,
    }
}

#[expect(clippy::too_many_lines, reason = "one story")]
pub(super) fn requests() -> Vec<Request> {
    let job = JobId(7);
    let tasks = Selector::Ids(ids());
    let id = RequestId(uuid::Uuid::from_u128(
        0x0123_4567_89ab_cdef_0011_2233_4455_6677,
    ));
    let submit = |spec, dry_run| Request::Submit {
        id,
        spec,
        disclosed: false,
        dry_run,
    };
    let add = |tasks, dry_run| Request::AddTasks {
        id,
        job,
        tasks,
        dry_run,
    };
    vec![
        Request::Hello(versions()),
        submit(spec().into(), false),
        submit(noop_spec().into(), true),
        submit(ranks_spec().into(), true),
        submit(Submission::Blob(blob(10)), false),
        Request::Jobs {
            jobs: Selector::All,
            states: JobState::ALL.to_vec(),
        },
        Request::Watch {
            jobs: Selector::Last,
            quiet: true,
            timeout: Some(Span(5_000_000)),
        },
        Request::Tasks {
            job,
            tasks: tasks.clone(),
            states: TaskState::ALL.to_vec(),
        },
        Request::Outputs {
            job,
            tasks: tasks.clone(),
        },
        Request::Cancel {
            jobs: Selector::Ids(ids()),
            tasks: Some(tasks.clone()),
        },
        Request::Retry {
            job,
            tasks: tasks.clone(),
            only_failed: true,
        },
        Request::Recompute { job, tasks },
        Request::Forget {
            jobs: Selector::Ids(ids()),
        },
        Request::Explain { job },
        Request::HostsWait { hosts: 12 },
        Request::Accuracy,
        Request::Follow(Following {
            jobs: Some(Selector::Last),
            hosts: vec!["office-12".into()],
            after: Some(300),
            results: true,
            wait: true,
        }),
        add(
            Addition::Inline(NewTasks::Items(vec!["c".into(), "d".into()])),
            true,
        ),
        add(Addition::Inline(NewTasks::Ids(ids())), false),
        add(Addition::Inline(NewTasks::Next), false),
        add(Addition::Blob(blob(3)), false),
        Request::Close {
            jobs: Selector::Labelled(labels(&["paper", "sweep7"])),
        },
        Request::Masters,
        Request::HandOver,
        Request::Site,
        super::site::change(),
        super::updates::order(),
        Request::Running { job: JobId(7) },
        Request::Work { job: JobId(7) },
        super::work::host_explain(),
        Request::Tail {
            task: attempt().task,
            stream: StreamKind::Stderr,
            from: TailFrom::Byte(attempt(), 70_000),
        },
        Request::Hosts {
            names: vec!["office-12".into()],
        },
        Request::Drain {
            host: "office-12".into(),
        },
        Request::Undrain {
            host: "host-12".into(),
        },
        Request::HostForget {
            host: "office-12".into(),
        },
        Request::Undecided { job: JobId(7) },
        Request::Judge {
            attempt: attempt(),
            agrees: vec![1, 300],
        },
        Request::HostOwner {
            host: "office-12".into(),
            owner: Some("ann".into()),
        },
        Request::HostLabels {
            host: "office-12".into(),
            add: vec!["fast".parse().expect("a label")],
            remove: vec!["slow".parse().expect("a label")],
        },
        Request::TokenCreate {
            role: Role::Client,
            ttl: Span(3_600_000_000),
            uses: 3,
            name: "lab".into(),
            approval: false,
            speaks_for: Some("ann".into()),
        },
        Request::TokenList,
        Request::TokenRevoke { id: 3 },
        Request::Availability {
            hosts: vec!["office-12".into()],
            since: Time(1_700_000_000_000_000),
            until: Time(1_700_000_003_000_000),
        },
        Request::TokenCreate {
            role: Role::Worker,
            ttl: Span(3_600_000_000),
            uses: 3,
            name: "lab".into(),
            approval: true,
            speaks_for: None,
        },
        Request::Identities {
            names: vec!["office-12".into()],
        },
        Request::Approve {
            name: "office-12".into(),
        },
        Request::Revoke {
            name: "office-12".into(),
        },
        Request::Share {
            jobs: Selector::Ids(ids()),
            user: "ada".into(),
            on: true,
        },
        Request::Audit { most: 100 },
        Request::Estimates {
            user: Some("ada".into()),
        },
        Request::Submit {
            id,
            spec: Submission::Blob(blob(17)),
            disclosed: true,
            dry_run: true,
        },
        Request::RequestTasks {
            job: JobId(7),
            tasks: Selector::Ids(ids()),
        },
        Request::CancelUnrequested {
            jobs: Selector::Beyond(100),
        },
        Request::Account {
            user: Some("ada".into()),
            jobs: true,
        },
        submit(Submission::Inline(Box::new(noop_spec()), asked()), true),
    ]
}

fn job_view() -> JobView {
    let tasks = TaskCounts {
        total: 28,
        disclosed: 1,
        waiting: 2,
        running: 3,
        suspended: 4,
        finished: 5,
        failed: 6,
        cancelled: 7,
    };

    JobView {
        job: JobId(7),
        name: "hashes".into(),
        user: "ada".into(),
        state: JobState::Running,
        policy: "PRI-CR".into(),
        priority: 4,
        tasks,
        attempts: 31,
        duplicates: 2,
        submitted: Time(1_700_000_000_000_000),
        started: Some(Time(1_700_000_001_000_000)),
        finished: Some(Time(1_700_000_002_000_000)),
        predicted: Some(forecast()),
        predicted_makespan: Some(Span(2_500_000)),
        reason: Some("no host".into()),
        promise: Some(promise_status()),
        limits: Some(limits()),
        starts: Some(starts()),
        width: Some(width()),
        progress: Some(0.375),
        labels: labels(&["paper", "sweep7"]),
        after: vec![AfterView {
            job: JobId(5),
            how: EndCondition::Any,
            left: Some(12),
        }],
        open: true,
        needs: "cpus=2".into(),
    }
}

fn width() -> WidthView {
    let at = |s: u64| Time(1_700_000_000_000_000 + s);
    let way = |hosts, finish| WayView {
        hosts,
        start: at(2_000_000),
        finish: Some(at(finish)),
    };

    WidthView {
        least: 2,
        most: 16,
        ranks: Some(13),
        formed: Some(at(1)),
        begun: Some(at(2)),
        free: 4,
        hosts: 20,
        behind: 3,
        scaling: Some(ScalingView {
            work: Span(9_000_000),
            parallelism: 12.0,
            sigma: 0.5,
            runs: 7,
        }),
        ways: vec![way(4, 9_000_000), way(13, 5_000_000)],
        chosen: Some(way(13, 5_000_000)),
        why: Some("nothing is known".into()),
    }
}

fn foretold() -> ForetoldView {
    let at = Time(1_700_000_000_000_000);
    let wait = Span(60_000_000);
    ForetoldView {
        hosts: 13,
        at,
        wait,
        low: Span(20_000_000),
        high: Span(90_000_000),
        came: Span(55_000_000),
    }
}

fn promise_status() -> PromiseStatus {
    PromiseStatus {
        made: Time(1_700_000_000_000_000),
        deadline: Time(1_700_000_100_000_000),
        finish: Time(1_700_000_050_000_000),
        probability: 0.75,
        probation: false,
        state: PromiseState::AtRisk,
        why: "it should be done 3s after its deadline".into(),
    }
}

fn limits() -> LimitsView {
    LimitsView {
        runs: 12,
        killed: 1,
        zeta: 0.25,
        limits: vec![Span(10_000_000), Span(60_000_000)],
        done: vec![0.75, 1.0],
        expected: Some(Span(25_000_000)),
        why: Some("nothing is known".into()),
    }
}

fn starts() -> StartView {
    let at = |seconds: u64| Time(1_700_000_000_000_000 + seconds * 1_000_000);
    StartView {
        start: at(60),
        low: at(5),
        high: at(900),
    }
}

fn hosts_wait() -> WaitView {
    let span = |seconds: u64| Some(Span(seconds * 1_000_000));
    let median = span(60);
    let mean = span(90);
    let used = span(60);
    let likely = span(70);
    let low = span(7);
    let high = None;

    WaitView {
        wanted: 12,
        free: 3,
        hosts: 20,
        benefactors: 2,
        median,
        mean,
        used,
        likely,
        low,
        high,
    }
}

fn task_view() -> TaskView {
    let attempt = |state: &AttemptState| AttemptView {
        attempt: attempt(),
        host: "office-12".into(),
        state: *state,
        duplicate: true,
        assigned: Time(1_700_000_000_000_000),
        started: Some(Time(1_700_000_001_000_000)),
        finished: Some(Time(1_700_000_002_000_000)),
        ran: Span(900_000),
        cpu: Span(800_000),
        suspended: Span(100_000),
        suspended_since: Some(Time(1_700_000_001_500_000)),
        exit_code: Some(-1),
        reason: Some("first attempt".into()),
        started_from: Some(saved()),
        saved: Some(saved()),
        checkpoint_problem: Some("too large".into()),
        belief: Some(Belief::Differed),
        progress: Some(0.5),
        words: Some("reading".into()),
    };

    TaskView {
        task: TaskId::new(JobId(7), 300),
        item: Some("a".into()),
        state: TaskState::Suspended,
        reason: Some("in-use".into()),
        attempts: AttemptState::ALL.iter().map(attempt).collect(),
        speculation: Some(SpeculationView {
            disclosed: Time(1_700_000_000_000_000),
            requested: Some(Time(1_700_000_001_000_000)),
            executed: Some(Time(1_700_000_002_000_000)),
            removed: Some(Time(1_700_000_003_000_000)),
        }),
    }
}

fn account_view() -> AccountView {
    let spread = SpreadView {
        mean: 2.5,
        p50: 1.5,
        p90: 3.5,
        p99: 4.5,
    };
    AccountView {
        user: "ada".into(),
        job: Some(JobId(7)),
        tasks: 9,
        requested: 8,
        finished: 7,
        used_s: 60.5,
        billed_s: 50.5,
        free_s: 10.0,
        kept_bytes: 4_096,
        scaled_if_all_billed: Some(1.25),
        scaled_by_waited_for: Some(1.5),
        response_s: Some(spread),
        slowdown: Some(spread),
        share: Some(ShareView {
            slots: 3,
            average: 1.5,
            part: 0.75,
            due: 0.5,
            weight: 2.0,
            most_running: Some(100),
        }),
    }
}

pub(super) fn output_view() -> OutputView {
    let stream = |text: &[u8]| Stream {
        content: Content::Inline(text.to_vec()),
        dropped: 1,
    };
    OutputView {
        attempt: attempt(),
        host: "office-12".into(),
        stdout: (stream(b"out"), Some("1.out".into())),
        stderr: (stream(b"err"), None),
        files: vec![OutputFile {
            path: path("out.txt"),
            blob: blob(11),
            executable: true,
        }],
        warnings: vec!["`pipe` is a named pipe".to_owned()],
        removed: true,
    }
}

fn host_view(state: &HostState) -> HostView {
    HostView {
        id: HostId(12),
        facts: facts(),
        state: *state,
        reason: Some("on-battery".into()),
        gone: false,
        since: Time(1_700_000_000_000_000),
        heard: Some(Time(1_700_000_001_000_000)),
        cpu_availability: Some(0.75),
        undisturbed_1h: Some(0.625),
        owner_active: Some(true),
        slots_usable: 1,
        attempts: vec![attempt()],
        finished: 40,
        lost: 2,
        belongs_to: Some("ann".into()),
        agreed: 12,
        labels: labels(&["fast"]),
    }
}

fn token_view() -> TokenView {
    let name = "lab".into();
    TokenView {
        id: 3,
        role: Role::Admin,
        name,
        uses_left: 2,
        expires: Time(1_700_003_600_000_000),
        revoked: true,
        speaks_for: Some("ann".into()),
    }
}

pub(super) fn replies() -> Vec<Reply> {
    let token = JoinToken {
        id: 3,
        secret: [0xAB; 16],
        ca_key_hash: [0xCD; 32],
    };
    let hosts = vec![("office-12".into(), "suspended: in-use".into())];
    let copy = DuplicateView {
        attempt: attempt(),
        host: "office-7".into(),
        why: "duplicate of attempt 1, which is slow".into(),
    };

    vec![
        Reply::Welcome {
            version: 1,
            role: Role::Client,
            user: "ada".into(),
            incarnation: Incarnation(5),
            now: Time(1_700_000_000_000_000),
        },
        Reply::Refused(refusal()),
        Reply::Submitted {
            job: Some(JobId(7)),
            tasks: 1_000_000,
            again: true,
            predicted: Some(forecast()),
            promise: Some(promise()),
            limits: Some(limits()),
            width: Some(Box::new(width())),
            nowhere: Some("no host qualifies".into()),
        },
        Reply::Jobs(vec![job_view()]),
        Reply::Tasks(vec![task_view()]),
        Reply::Outputs(vec![output_view()]),
        Reply::Changed(vec![(JobId(7), 28)]),
        Reply::Explained(Box::new(ExplainView {
            job: job_view(),
            waiting: vec![("every slot is taken".into(), "1-3,9".into())],
            hosts,
            duplicates: vec![copy],
            share: None,
        })),
        Reply::Hosts(HostState::ALL.iter().map(host_view).collect()),
        super::work::host(host_view(&HostState::Ready)),
        Reply::Token(token, token_view(), "grid.example.org:7411".into()),
        Reply::Tokens(vec![token_view()]),
        super::work::reply(),
        super::work::undecided(),
        Reply::Availability(availability_view()),
        Reply::Identities(
            [
                IdentityState::Active,
                IdentityState::Waiting,
                IdentityState::Revoked,
            ]
            .map(identity_view)
            .into(),
        ),
        Reply::Audit(vec![audit_view()]),
        Reply::NotPromised(Box::new(CounterView {
            why: "its deadline cannot be kept".into(),
            earliest: Some((Time(1_700_000_060_000_000), Span(60_000_000))),
            fits: ids(),
        })),
        Reply::Estimates(vec![EstimatesView {
            user: "ada".into(),
            program: "./simulate".into(),
            tasks: 100,
            quality: promise().estimates,
        }]),
        Reply::Accounts(vec![account_view()]),
        Reply::HostsWait(hosts_wait()),
        Reply::Accuracy(AccuracyView {
            hosts: vec![foretold()],
            starts: vec![foretold()],
            finishes: vec![foretold()],
            open: 2,
        }),
        Reply::Events(events()),
        Reply::Lagged {
            after: 300,
            from: 70_000,
        },
        Reply::Added {
            job: JobId(7),
            range: (101, 103),
            tasks: 3,
            total: 103,
            again: true,
        },
        Reply::Masters(Box::new(super::masters::view())),
        super::updates::running(attempt()),
        Reply::Tail(TailNews::Begins {
            attempt: attempt(),
            host: "office-12".into(),
        }),
        Reply::Tail(TailNews::Part(tail_part())),
        Reply::Tail(TailNews::Waits("it is waiting".into())),
        Reply::Tail(TailNews::Settled),
    ]
}

pub(super) fn tail_part() -> TailPart {
    TailPart {
        offset: 70_000,
        bytes: b"out".to_vec(),
    }
}

/// One event of each kind, the last with a result.
fn events() -> EventPage {
    let (job, host, attempt) = (JobId(7), HostId(12), attempt());
    let why = || "because".to_owned();
    let events = [
        GridEvent::JobSubmitted {
            job,
            user: "ann".into(),
            tasks: 300,
        },
        GridEvent::JobStarted { job },
        GridEvent::JobSettled {
            job,
            state: JobState::Failed,
        },
        GridEvent::JobForgotten {
            job,
            user: "ann".into(),
        },
        GridEvent::TaskAssigned { attempt, host },
        GridEvent::TaskRunning { attempt, host },
        GridEvent::TaskSuspended {
            attempt,
            host,
            why: why(),
        },
        GridEvent::TaskResumed { attempt, host },
        GridEvent::AttemptEnded {
            attempt,
            host,
            state: AttemptState::Lost,
            why: why(),
        },
        GridEvent::TaskFailed {
            task: attempt.task,
            why: why(),
        },
        GridEvent::TasksCancelled {
            job,
            tasks: ids(),
            why: why(),
        },
        GridEvent::TasksReopened { job, tasks: ids() },
        GridEvent::HostChanged {
            host,
            state: HostState::Suspended,
            why: Some(why()),
        },
        GridEvent::TasksAdded { job, tasks: ids() },
        GridEvent::JobClosed { job },
        GridEvent::Restored,
        GridEvent::TaskFinished { attempt, host },
    ];
    let result = |event: &GridEvent| match event {
        GridEvent::TaskFinished { .. } => Some(Box::new(ResultView {
            output: output_view(),
            contents: vec![(blob(11).hash, b"text".to_vec())],
        })),
        _ => None,
    };
    let view = |(seq, event): (u64, GridEvent)| EventView {
        seq,
        at: Time(1_700_000_000_000_000),
        result: result(&event),
        event,
    };
    EventPage {
        events: (300..).zip(events).map(view).collect(),
        hosts: vec![(host, "office-12".into())],
        upto: 320,
    }
}

fn identity_view(state: IdentityState) -> IdentityView {
    let host = Some(HostId(12));
    let enrolled = Time(1_700_000_000_000_000);
    let expires = Some(Time(1_702_592_000_000_000));
    IdentityView {
        name: "office-12".into(),
        role: Role::Worker,
        state,
        host,
        enrolled,
        expires,
        connections: 1,
    }
}

fn audit_view() -> AuditView {
    let at = Time(1_700_000_000_000_000);
    let subject = "token 3".into();
    let why = "the join token was revoked".into();
    AuditView {
        number: 9,
        at,
        who: "192.0.2.7".into(),
        what: "enrol".into(),
        subject,
        allowed: false,
        why,
        count: 4,
    }
}
