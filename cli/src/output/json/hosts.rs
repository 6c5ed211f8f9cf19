//! The JSON of hosts, join tokens, identities and the audit log.

use common::identity::{AuditView, IdentityView};
use common::view::{HostView, TokenView};
use serde::ser::SerializeMap;

use super::{Fields, Object};
use crate::output::when::iso;

/// A host, as `host list` and `host info` print it.
impl Object for HostView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        let facts = &self.facts;
        let attempts: Vec<String> = self.attempts.iter().map(ToString::to_string).collect();
        to.field("host", &facts.name);
        to.text("id", self.id);
        to.text("state", self.state);
        to.some("reason", self.reason.as_ref());
        to.field("gone", self.gone);
        to.field("since", iso(self.since));
        to.field("heard", self.heard.map(iso));

        to.field("speed", facts.speed.factor());
        to.field("clock_mhz", facts.clock_mhz);
        to.field("slots", facts.slots);
        to.field("slots_usable", self.slots_usable);
        to.field("cores", facts.cores);
        to.field("memory_mib", facts.memory_mib);
        to.text(
            "os",
            format_args!("{} {}", facts.platform.os, facts.platform.arch),
        );
        to.field("platform", facts.platform.name());
        to.field("libc", &facts.platform.libc);
        to.field("cores_lent", facts.lends.cores);
        to.field("memory_lent_mib", limit(facts.lends.memory_mib));
        to.field("task_memory_mib", limit(facts.task_memory_mib));
        to.field("task_disk_mib", limit(facts.task_disk_mib));
        to.field("gpus", &facts.gpus);
        to.field("gpus_lent", facts.lends.gpus);
        to.field(
            "labels",
            facts.labels.union(&self.labels).collect::<Vec<_>>(),
        );
        to.text("confinement", facts.confinement);
        to.text("confinement_most", facts.confinement_most);
        to.field("network", facts.network);

        to.field("cpu_availability", self.cpu_availability);
        to.field("owner_active", self.owner_active);
        to.field("attempts", attempts);
        to.field("finished", self.finished);
        to.field("lost", self.lost);
        to.some("belongs_to", self.belongs_to.as_ref());
        to.field("agreed", self.agreed);
    }
}

/// Returns a limit in MiB; `None` where there is none.
fn limit(mib: u32) -> Option<u32> {
    (mib != u32::MAX).then_some(mib)
}

/// A join token, without its secret.
impl Object for TokenView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("id", self.id);
        to.text("role", self.role);
        to.field("name", &self.name);
        to.field("uses_left", self.uses_left);
        to.field("expires", iso(self.expires));
        to.field("revoked", self.revoked);
    }
}

/// A join token that was just made, with its secret.
pub(crate) struct NewTokenAnswer<'a>(pub(crate) &'a str, pub(crate) &'a TokenView);

impl Object for NewTokenAnswer<'_> {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("token", self.0);
        self.1.put(to);
    }
}

/// An identity that has joined.
impl Object for IdentityView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("identity", &self.name);
        to.text("role", self.role);
        to.text("state", self.state);
        to.field("host", self.host.map(|host| host.to_string()));
        to.field("enrolled", iso(self.enrolled));
        to.field("expires", self.expires.map(iso));
        to.field("connections", self.connections);
    }
}

/// An entry of the audit log.
impl Object for AuditView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("number", self.number);
        to.field("at", iso(self.at));
        to.field("who", &self.who);
        to.field("what", &self.what);
        to.field("subject", &self.subject);
        to.field("allowed", self.allowed);
        to.field("why", &self.why);
        to.field("count", self.count);
    }
}
