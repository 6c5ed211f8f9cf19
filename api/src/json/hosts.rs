//! The JSON of hosts.

use common::host::Gpu;
use common::needs::Label;
use common::view::{HostExplainView, HostJobView, HostState, HostView};

use super::{IsoTime, Word, all, form};

form! {
    /// A host, as `host info` prints it.
    pub struct HostJson of HostView as view {
        /// Its name, such as `desk-3` of a host.
        pub host: String = view.facts.name.clone(),
        /// The id that the master gave it, `host-N`.
        pub id: String = view.id.to_string(),
        /// Its state, such as `running`.
        pub state: Word<HostState> = Word(view.state),
        /// The reason of its state, where there is more to say.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub reason: Option<String> = view.reason.clone(),
        /// Whether it is not expected back.
        pub gone: bool = view.gone,
        /// The time since which it has been in its state.
        pub since: IsoTime = IsoTime(view.since),
        /// The time of its last message; `null` where there is none.
        pub heard: Option<IsoTime> = view.heard.map(IsoTime),
        /// The measured speed of one slot.
        pub speed: f64 = view.facts.speed.factor(),
        /// The clock rate of its processor, in MHz.
        pub clock_mhz: u32 = view.facts.clock_mhz,
        /// The number of tasks that it runs at a time.
        pub slots: u32 = view.facts.slots,
        /// The number of its slots that its owner lets tasks use now.
        pub slots_usable: u32 = view.slots_usable,
        /// Its logical processors.
        pub cores: u32 = view.facts.cores,
        /// Its main memory, in MiB.
        pub memory_mib: u64 = view.facts.memory_mib,
        /// Its operating system and architecture: `linux x86_64`.
        pub os: String = format!("{} {}", view.facts.platform.os, view.facts.platform.arch),
        /// Its platform, as jobs name it: `linux-x86_64`.
        pub platform: String = view.facts.platform.name(),
        /// Its C library, such as `gnu 2.36`.
        pub libc: String = view.facts.platform.libc.clone(),
        /// The processors that its owner lends.
        pub cores_lent: u32 = view.facts.lends.cores,
        /// The memory that its owner lends, in MiB; `null`: no limit.
        pub memory_lent_mib: Option<u32> = limit(view.facts.lends.memory_mib),
        /// The most memory of one task, in MiB; `null`: no limit.
        pub task_memory_mib: Option<u32> = limit(view.facts.task_memory_mib),
        /// The most disk space of one task, in MiB; `null`: no limit.
        pub task_disk_mib: Option<u32> = limit(view.facts.task_disk_mib),
        /// Its graphics processors.
        pub gpus: Vec<GpuJson> = all(&view.facts.gpus),
        /// The number of these that its owner lends.
        pub gpus_lent: u32 = view.facts.lends.gpus,
        /// Its labels, such as `lab3`.
        pub labels: Vec<String> =
            view.facts.labels.union(&view.labels).map(Label::to_string).collect(),
        /// The level at which it confines every task, such as `namespace`.
        pub confinement: String = view.facts.confinement.to_string(),
        /// The highest level that it can, such as `account`.
        pub confinement_most: String = view.facts.confinement_most.to_string(),
        /// Whether tasks that ask for the network get it.
        pub network: bool = view.facts.network,
        /// The recent mean part of the processor that tasks could have; `null` where there is none.
        pub cpu_availability: Option<f64> = view.cpu_availability,
        /// The probability that a task that begins there now runs for an hour undisturbed, by what this host and others
        /// did before; `null` while it is away, silent or its owner keeps tasks off.
        pub undisturbed_1h: Option<f64> = view.undisturbed_1h,
        /// Whether its owner was active lately; `null` where there is none.
        pub owner_active: Option<bool> = view.owner_active,
        /// The attempts that it holds.
        pub attempts: Vec<String> = view.attempts.iter().map(ToString::to_string).collect(),
        /// The number of attempts that it has finished.
        pub finished: u64 = view.finished,
        /// The number of attempts that were lost with it.
        pub lost: u64 = view.lost,
        /// The owner that an admin named.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub belongs_to: Option<String> = view.belongs_to.clone(),
        /// The number of its latest results in a row that agreed with others'.
        pub agreed: u32 = view.agreed,
    }
}

form! {
    /// A host, and why it takes no more tasks.
    pub struct HostExplainJson of HostExplainView as view {
        /// The host.
        #[serde(flatten)]
        pub host: HostJson = view.host.json(),
        /// The unfinished jobs that the asker owns (of all users for an admin), those with waiting tasks first.
        pub jobs: Vec<HostJobJson> = all(&view.jobs),
        /// The number of further ones.
        pub more: u64 = view.more,
    }
}

form! {
    /// The reason why a host takes no more tasks of a job.
    pub struct HostJobJson of HostJobView as view {
        /// The job's number.
        pub job: u32 = view.job.0,
        /// The number of its tasks that wait.
        pub waiting: u64 = view.waiting,
        /// The reason why the host takes none of them, or where none waits no copy of a running one.
        pub reason: String = view.why.clone(),
    }
}

form! {
    /// A graphics processor.
    pub struct GpuJson of Gpu as gpu {
        /// Its name, as its driver says it.
        pub name: String = gpu.name.clone(),
        /// Its memory, in MiB; 0 if unknown.
        pub memory_mib: u32 = gpu.memory_mib,
    }
}

/// Returns a limit in MiB; `None` where there is none.
fn limit(mib: u32) -> Option<u32> {
    (mib != u32::MAX).then_some(mib)
}
