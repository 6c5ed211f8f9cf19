//! The numbers at `/metrics`: one table with the name, kind, unit and meaning of each, and the
//! functions that record them. `docs/metrics.md` lists the same table.

use std::collections::BTreeMap;

use common::view::{HostState, JobState, TaskCounts};
use metrics::Unit;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System};

/// The kind of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows, from the start of the master.
    Counter,
    /// It stands as it is when it is asked for.
    Gauge,
    /// It counts durations by their length.
    Histogram,
}

impl std::fmt::Display for MetricKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        })
    }
}

/// A number at `/metrics`.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name, with the unit at its end.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// The unit, where it has one.
    pub unit: Option<Unit>,
    /// The label that tells its values apart, if there is one.
    pub label: Option<&'static str>,
    /// Its meaning.
    pub about: &'static str,
}

const HOSTS: &str = "deskgrid_hosts";
const SLOTS: &str = "deskgrid_slots";
const JOBS: &str = "deskgrid_jobs";
const TASKS: &str = "deskgrid_tasks";
const DISK_FREE: &str = "deskgrid_disk_free_bytes";
const STORE: &str = "deskgrid_store_bytes";
const USERS: &str = "deskgrid_users";
const INFO: &str = "deskgrid_build_info";
const PROCESSOR: &str = "process_cpu_seconds_total";
const MEMORY: &str = "process_resident_memory_bytes";
const BEGAN: &str = "process_start_time_seconds";
const FILES: &str = "process_open_fds";
const MOST_FILES: &str = "process_max_fds";
/// The jobs that were submitted.
pub(crate) const SUBMITTED: &str = "deskgrid_jobs_submitted_total";
/// The jobs that are settled, by `state`.
pub(crate) const SETTLED: &str = "deskgrid_jobs_settled_total";
/// The tasks that are settled, by `state`.
pub(crate) const TASKS_SETTLED: &str = "deskgrid_tasks_settled_total";
/// The attempts that were started.
pub(crate) const STARTED: &str = "deskgrid_attempts_started_total";
/// The copies among them.
pub(crate) const COPIES: &str = "deskgrid_attempts_copied_total";
/// The attempts that ended, by `state`.
pub(crate) const ENDED: &str = "deskgrid_attempts_ended_total";
/// The commits to the store.
pub(crate) const COMMITS: &str = "deskgrid_commits_total";
/// The length of a commit.
pub(crate) const COMMIT_S: &str = "deskgrid_commit_seconds";
/// The statements that were sent to PostgreSQL for changes.
pub(crate) const STATEMENTS: &str = "deskgrid_store_statements_total";
/// The times that the core has waited for an answer of PostgreSQL's within a group.
pub(crate) const QUESTIONS: &str = "deskgrid_store_questions_total";
/// The groups of changes that were written again, since a replica that took over lacked them.
pub(crate) const WRITTEN_AGAIN: &str = "deskgrid_store_groups_written_again_total";
/// The content that workers were sent, by `by`.
pub(crate) const SENT: &str = "deskgrid_content_sent_bytes_total";
/// The workers that are connected through a gateway, by `gateway`.
pub(crate) const THROUGH: &str = "deskgrid_gateway_workers";
/// The results that were removed since nobody had requested them.
pub(crate) const UNREQUESTED: &str = "deskgrid_unrequested_outputs_removed_total";

/// The upper ends of the ranges in which commits are counted, in seconds.
const COMMIT_RANGES_S: [f64; 12] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
];

const fn gauge(name: &'static str, label: Option<&'static str>, about: &'static str) -> Metric {
    Metric {
        name,
        kind: MetricKind::Gauge,
        unit: None,
        label,
        about,
    }
}

const fn counter(name: &'static str, label: Option<&'static str>, about: &'static str) -> Metric {
    Metric {
        name,
        kind: MetricKind::Counter,
        unit: None,
        label,
        about,
    }
}

const fn in_unit(unit: Unit, metric: Metric) -> Metric {
    Metric {
        unit: Some(unit),
        ..metric
    }
}

/// Every number that the master records.
pub const METRICS: [Metric; 27] = [
    gauge(
        HOSTS,
        Some("state"),
        "Hosts by their state, as `host list` has it.",
    ),
    gauge(
        SLOTS,
        Some("state"),
        "Slots of connected hosts: `busy` run an attempt, `free` are lent and run none, `kept` are not lent by their owner now.",
    ),
    gauge(
        JOBS,
        Some("state"),
        "Jobs that are not settled, by their state.",
    ),
    gauge(
        TASKS,
        Some("state"),
        "Tasks of jobs that are not settled, by their state.",
    ),
    in_unit(
        Unit::Bytes,
        gauge(
            DISK_FREE,
            None,
            "Free space on the disk of the state directory.",
        ),
    ),
    in_unit(
        Unit::Bytes,
        gauge(
            STORE,
            None,
            "Size of the store with its log, without content; in PostgreSQL that of the whole database.",
        ),
    ),
    gauge(
        INFO,
        Some("version"),
        "1; the label names the version of the master.",
    ),
    counter(SUBMITTED, None, "Jobs that were submitted."),
    counter(
        SETTLED,
        Some("state"),
        "Jobs that were settled, by their state.",
    ),
    counter(
        TASKS_SETTLED,
        Some("state"),
        "Tasks that were settled, by their state.",
    ),
    counter(STARTED, None, "Attempts that were given to a host."),
    counter(
        COPIES,
        None,
        "Copies among them: attempts of tasks that ran elsewhere already.",
    ),
    counter(
        ENDED,
        Some("state"),
        "Attempts that ended, by their state; `lost` ones were lost with their host.",
    ),
    counter(COMMITS, None, "Commits to the store."),
    Metric {
        name: COMMIT_S,
        kind: MetricKind::Histogram,
        unit: Some(Unit::Seconds),
        label: None,
        about: "Duration of a commit, which is durable at its end.",
    },
    counter(
        STATEMENTS,
        None,
        "Statements sent to PostgreSQL for changes; 0 with a store in a file.",
    ),
    counter(
        QUESTIONS,
        None,
        "Answers of PostgreSQL's that the core waited for before a commit; 0 with a store in a file.",
    ),
    counter(
        WRITTEN_AGAIN,
        None,
        "Groups of changes that were written to PostgreSQL again, since a replica that took over lacked them.",
    ),
    in_unit(
        Unit::Bytes,
        counter(
            SENT,
            Some("by"),
            "Content that workers were sent, by the `master` or by other `hosts`.",
        ),
    ),
    counter(
        UNREQUESTED,
        None,
        "Results of disclosed tasks that were removed since nobody had requested them.",
    ),
    gauge(
        THROUGH,
        Some("gateway"),
        "Workers that are connected through a gateway.",
    ),
    gauge(USERS, None, "Users with a job that is not settled."),
    in_unit(
        Unit::Seconds,
        counter(PROCESSOR, None, "Processor time of the master."),
    ),
    in_unit(
        Unit::Bytes,
        gauge(MEMORY, None, "Memory of the master that is in use."),
    ),
    in_unit(
        Unit::Seconds,
        gauge(BEGAN, None, "Start of the master, since 1970."),
    ),
    gauge(FILES, None, "Open files and connections of the master."),
    gauge(MOST_FILES, None, "The most that it may have open."),
];

/// The grid as it stands, in numbers.
#[derive(Debug, Clone, Default)]
pub struct GridNumbers {
    /// The hosts by state.
    pub hosts: BTreeMap<HostState, u64>,
    /// The slots of connected hosts.
    pub slots: SlotNumbers,
    /// The jobs that are not settled, by state.
    pub jobs: BTreeMap<JobState, u64>,
    /// Their tasks.
    pub tasks: TaskCounts,
    /// The users whose jobs they are.
    pub users: u64,
}

/// The slots of connected hosts.
#[derive(Debug, Default, Clone, Copy)]
pub struct SlotNumbers {
    /// Slots that run an attempt.
    pub busy: u64,
    /// Slots that are lent and run none.
    pub free: u64,
    /// Slots that are not lent now.
    pub kept: u64,
}

/// Makes the recorder's builder, with ranges for the durations.
pub(crate) fn builder() -> Result<PrometheusBuilder, BuildError> {
    let commits = Matcher::Full(COMMIT_S.to_owned());
    PrometheusBuilder::new().set_buckets_for_metric(commits, &COMMIT_RANGES_S)
}

/// Tells the recorder what each number means, and sets those that have not been counted yet to 0.
pub(crate) fn describe() {
    for metric in METRICS {
        let Metric {
            name, unit, about, ..
        } = metric;
        let unit = unit.unwrap_or(Unit::Count);
        match metric.kind {
            MetricKind::Counter => metrics::describe_counter!(name, unit, about),
            MetricKind::Gauge => metrics::describe_gauge!(name, unit, about),
            MetricKind::Histogram => metrics::describe_histogram!(name, unit, about),
        }
        if metric.kind == MetricKind::Counter && metric.label.is_none() {
            metrics::counter!(name).absolute(0);
        }
    }
    metrics::gauge!(INFO, "version" => common::update::program_version()).set(1.0);
}

/// Records the grid as it stands.
pub(crate) fn record(grid: &GridNumbers) {
    let set = |name: &'static str, label: &'static str, value: String, count: u64| {
        metrics::gauge!(name, label => value).set(count as f64);
    };
    for state in HostState::ALL {
        let count = grid.hosts.get(state).copied().unwrap_or(0);
        set(HOSTS, "state", state.to_string(), count);
    }
    for state in JobState::ALL.iter().filter(|state| !state.settled()) {
        let count = grid.jobs.get(state).copied().unwrap_or(0);
        set(JOBS, "state", state.to_string(), count);
    }

    let SlotNumbers { busy, free, kept } = grid.slots;
    for (state, count) in [("busy", busy), ("free", free), ("kept", kept)] {
        set(SLOTS, "state", state.to_owned(), count);
    }
    for (state, count) in grid.tasks.by_state() {
        set(TASKS, "state", state.to_string(), count);
    }

    metrics::gauge!(USERS).set(grid.users as f64);
}

/// Records the room on the disk of the state directory, and the size of the store, where they are known.
pub(crate) fn record_disk(free: Option<u64>, store: Option<u64>) {
    if let Some(store) = store {
        metrics::gauge!(STORE).set(store as f64);
    }
    if let Some(free) = free {
        metrics::gauge!(DISK_FREE).set(free as f64);
    }
}

/// Records what this process takes.
pub(crate) fn record_process() {
    let (Ok(mut system), Ok(own)) = (System::new(), sysinfo::get_current_pid()) else {
        return;
    };
    let wanted = ProcessRefreshKind::nothing().with_cpu().with_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[own]), false, wanted);
    let Some(process) = system.process(own) else {
        return;
    };

    metrics::counter!(PROCESSOR).absolute(process.accumulated_cpu_time() / 1_000);
    metrics::gauge!(MEMORY).set(process.memory() as f64);
    metrics::gauge!(BEGAN).set(process.start_time() as f64);
    let set = |name: &'static str, files: Option<usize>| {
        if let Some(files) = files {
            metrics::gauge!(name).set(files as f64);
        }
    };
    set(FILES, process.open_files());
    set(MOST_FILES, process.open_files_limit());
}
