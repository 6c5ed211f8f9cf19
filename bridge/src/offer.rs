//! The facts of the bridge as a host: those of the hosts of the other grid, put together.

use std::collections::BTreeMap;
use std::path::Path;

use common::host::{Confinement, HostFacts};
use common::needs::Capacity;
use common::platform::HostPlatform;
use common::view::{HostState, HostView};
use link::files;

/// The file with the facts of the last time, below the bridge's directory.
const FILE: &str = "facts";

/// Returns the [`HostFacts`] of a host with this name and so many slots that stands for these hosts; `None` if none of
/// them has slots. They are those of the platform that has the most slots: attempts go to no other.
pub(crate) fn facts(name: &str, slots: u32, hosts: &[HostView]) -> Option<HostFacts> {
    let there: Vec<&HostFacts> = hosts
        .iter()
        .filter(|host| !host.gone && host.state != HostState::Lost && host.facts.slots > 0)
        .map(|host| &host.facts)
        .collect();
    let platform = most_common(&there)?;
    let same = |facts: &&&HostFacts| kind(&facts.platform) == kind(&platform);
    let there: Vec<&HostFacts> = there.iter().filter(same).copied().collect();

    let sum = |part: fn(&HostFacts) -> u32| {
        let parts = there.iter().map(|facts| part(facts));
        parts.fold(0, u32::saturating_add)
    };
    let most = |part: fn(&HostFacts) -> u32| there.iter().map(|facts| part(facts)).max();
    let levels = |part: fn(&HostFacts) -> Confinement| there.iter().map(move |facts| part(facts));
    let middle = middle(&there)?;
    Some(HostFacts {
        slots,
        speed: middle.speed,
        clock_mhz: middle.clock_mhz,
        cores: sum(|facts| facts.cores.max(facts.lends.cores)).max(slots),
        // None of its own, so that no attempt is held frozen here: the other grid's jobs cannot be.
        memory_mib: 0,
        confinement: levels(|facts| facts.confinement).min()?,
        confinement_most: levels(|facts| facts.confinement_most).max()?,
        network: there.iter().any(|facts| facts.network),
        lends: Capacity {
            cores: sum(|facts| facts.lends.cores).max(slots),
            memory_mib: sum(|facts| facts.lends.memory_mib),
            gpus: sum(|facts| facts.lends.gpus),
        },
        task_memory_mib: most(|facts| facts.task_memory_mib)?,
        task_disk_mib: most(|facts| facts.task_disk_mib)?,
        platform,
        ..HostFacts::unknown(name.to_owned())
    })
}

/// The parts of a platform that a job can ask for.
fn kind(platform: &HostPlatform) -> (String, String) {
    (platform.name(), platform.libc_kind().to_owned())
}

/// Returns the [`HostPlatform`] with the most slots.
fn most_common(hosts: &[&HostFacts]) -> Option<HostPlatform> {
    let mut slots: BTreeMap<(String, String), (u64, &HostPlatform)> = BTreeMap::new();
    for host in hosts {
        let entry = slots.entry(kind(&host.platform));
        entry.or_insert((0, &host.platform)).0 += u64::from(host.slots);
    }
    slots
        .into_values()
        .max_by_key(|(slots, _)| *slots)
        .map(|(_, platform)| platform.clone())
}

/// Returns the host whose speed is the median of all.
fn middle<'a>(hosts: &[&'a HostFacts]) -> Option<&'a HostFacts> {
    let mut hosts = hosts.to_vec();
    let speed = |host: &&HostFacts| host.speed.factor();
    hosts.sort_by(|a, b| speed(a).total_cmp(&speed(b)));
    hosts.get(hosts.len() / 2).copied()
}

/// Keeps facts for a start while the other grid is away.
pub(crate) fn keep(dir: &Path, facts: &HostFacts) {
    let bytes = postcard::to_stdvec(facts).map_err(std::io::Error::other);
    let path = dir.join(FILE);
    if let Err(error) = bytes.and_then(|bytes| files::write_whole(&path, &bytes, 0o600)) {
        tracing::warn!(path = %path.display(), %error, "what the other grid offers is not kept");
    }
}

/// Returns the facts that were kept, with this name and so many slots.
pub(crate) fn kept(dir: &Path, name: &str, slots: u32) -> Option<HostFacts> {
    let bytes = std::fs::read(dir.join(FILE)).ok()?;
    let facts: HostFacts = postcard::from_bytes(&bytes).ok()?;
    Some(HostFacts {
        name: name.to_owned(),
        slots,
        ..facts
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::{HostId, Speed, Time};

    fn host(name: &str, os: &str, slots: u32, speed: f64) -> HostView {
        let facts = HostFacts {
            slots,
            speed: Speed::new(speed).unwrap(),
            memory_mib: 8_000,
            platform: HostPlatform::new(os, "x86_64", ""),
            lends: Capacity {
                cores: slots,
                memory_mib: 4_000,
                gpus: 1,
            },
            task_memory_mib: 1_000 * slots,
            ..HostFacts::unknown(name.to_owned())
        };
        HostView {
            id: HostId(1),
            facts,
            state: HostState::Ready,
            reason: None,
            gone: false,
            since: Time(0),
            heard: None,
            cpu_availability: None,
            undisturbed_1h: None,
            owner_active: None,
            slots_usable: slots,
            attempts: Vec::new(),
            finished: 0,
            lost: 0,
            belongs_to: None,
            agreed: 0,
            labels: std::collections::BTreeSet::new(),
        }
    }

    #[test]
    fn a_bridge_offers_what_the_hosts_of_the_commonest_platform_do_and_holds_nothing_frozen() {
        let mut hosts = [
            host("a", "windows", 3, 9.0),
            host("b", "linux", 2, 1.0),
            host("c", "linux", 2, 3.0),
            host("d", "linux", 1, 2.0),
            host("e", "windows", 9, 9.0),
        ];
        hosts[4].state = HostState::Lost;
        let offered = facts("bridge", 20, &hosts).unwrap();
        assert_eq!((&offered.platform.os[..], offered.slots), ("linux", 20));
        assert_eq!(offered.speed, Speed::new(2.0).unwrap());
        assert_eq!((offered.lends.memory_mib, offered.lends.gpus), (12_000, 3));
        assert_eq!((offered.task_memory_mib, offered.memory_mib), (2_000, 0));
        assert_eq!(facts("bridge", 20, &hosts[4..]), None);
    }
}
