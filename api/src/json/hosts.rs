//! The JSON of hosts.

use std::collections::BTreeSet;

use common::host::Gpu;
use common::needs::Label;
use common::view::{HostState, HostView};
use schemars::JsonSchema;
use serde::Serialize;

use super::{IsoTime, Object, Word, all};

/// A host, as `host info` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HostJson {
    /// Its name, such as `desk-3` of a host.
    pub host: String,
    /// The id that the master gave it, `host-N`.
    pub id: String,
    /// Its state, such as `running`.
    pub state: Word<HostState>,
    /// The reason of its state, where there is more to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether it is not expected back.
    pub gone: bool,
    /// The time since which it has been in its state.
    pub since: IsoTime,
    /// The time of its last message; `null` where there is none.
    pub heard: Option<IsoTime>,
    /// The measured speed of one slot.
    pub speed: f64,
    /// The clock rate of its processor, in MHz.
    pub clock_mhz: u32,
    /// The number of tasks that it runs at a time.
    pub slots: u32,
    /// The number of its slots that its owner lets tasks use now.
    pub slots_usable: u32,
    /// Its logical processors.
    pub cores: u32,
    /// Its main memory, in MiB.
    pub memory_mib: u64,
    /// Its operating system and architecture: `linux x86_64`.
    pub os: String,
    /// Its platform, as jobs name it: `linux-x86_64`.
    pub platform: String,
    /// Its C library, such as `gnu 2.36`.
    pub libc: String,
    /// The processors that its owner lends.
    pub cores_lent: u32,
    /// The memory that its owner lends, in MiB; `null`: no limit.
    pub memory_lent_mib: Option<u32>,
    /// The most memory of one task, in MiB; `null`: no limit.
    pub task_memory_mib: Option<u32>,
    /// The most disk space of one task, in MiB; `null`: no limit.
    pub task_disk_mib: Option<u32>,
    /// Its graphics processors.
    pub gpus: Vec<GpuJson>,
    /// The number of these that its owner lends.
    pub gpus_lent: u32,
    /// Its labels, such as `lab3`.
    pub labels: Vec<String>,
    /// The level at which it confines every task, such as `namespace`.
    pub confinement: String,
    /// The highest level that it can, such as `account`.
    pub confinement_most: String,
    /// Whether tasks that ask for the network get it.
    pub network: bool,
    /// The recent mean part of the processor that tasks could have; `null` where there is none.
    pub cpu_availability: Option<f64>,
    /// The probability that a task that begins there now runs for an hour undisturbed, by what this host and others
    /// did before; `null` while it is away, silent or its owner keeps tasks off.
    pub undisturbed_1h: Option<f64>,
    /// Whether its owner was active lately; `null` where there is none.
    pub owner_active: Option<bool>,
    /// The attempts that it holds.
    pub attempts: Vec<String>,
    /// The number of attempts that it has finished.
    pub finished: u64,
    /// The number of attempts that were lost with it.
    pub lost: u64,
    /// The owner that an admin named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub belongs_to: Option<String>,
    /// The number of its latest results in a row that agreed with others'.
    pub agreed: u32,
}

impl Object for HostView {
    type Json = HostJson;

    fn json(&self) -> HostJson {
        let facts = &self.facts;
        let labels: BTreeSet<&Label> = facts.labels.union(&self.labels).collect();

        HostJson {
            host: facts.name.clone(),
            id: self.id.to_string(),
            state: Word(self.state),
            reason: self.reason.clone(),
            gone: self.gone,
            since: IsoTime(self.since),
            heard: self.heard.map(IsoTime),
            speed: facts.speed.factor(),
            clock_mhz: facts.clock_mhz,
            slots: facts.slots,
            slots_usable: self.slots_usable,
            cores: facts.cores,
            memory_mib: facts.memory_mib,
            os: format!("{} {}", facts.platform.os, facts.platform.arch),
            platform: facts.platform.name(),
            libc: facts.platform.libc.clone(),
            cores_lent: facts.lends.cores,
            memory_lent_mib: limit(facts.lends.memory_mib),
            task_memory_mib: limit(facts.task_memory_mib),
            task_disk_mib: limit(facts.task_disk_mib),
            gpus: all(&facts.gpus),
            gpus_lent: facts.lends.gpus,
            labels: labels.into_iter().map(Label::to_string).collect(),
            confinement: facts.confinement.to_string(),
            confinement_most: facts.confinement_most.to_string(),
            network: facts.network,
            cpu_availability: self.cpu_availability,
            undisturbed_1h: self.undisturbed_1h,
            owner_active: self.owner_active,
            attempts: self.attempts.iter().map(ToString::to_string).collect(),
            finished: self.finished,
            lost: self.lost,
            belongs_to: self.belongs_to.clone(),
            agreed: self.agreed,
        }
    }
}

/// A graphics processor.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GpuJson {
    /// Its name, as its driver says it.
    pub name: String,
    /// Its memory, in MiB; 0 if unknown.
    pub memory_mib: u32,
}

impl Object for Gpu {
    type Json = GpuJson;

    fn json(&self) -> GpuJson {
        GpuJson {
            name: self.name.clone(),
            memory_mib: self.memory_mib,
        }
    }
}

/// Returns a limit in MiB; `None` where there is none.
fn limit(mib: u32) -> Option<u32> {
    (mib != u32::MAX).then_some(mib)
}
