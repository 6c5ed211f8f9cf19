//! Why does each task wait, and why was each host passed over? Answers in words; nothing here decides anything.

use std::collections::BTreeMap;

use common::job::Compare;
use common::view::HostState;
use common::{HostId, IdSet, JobId, Span};

use crate::holdout::WidthOffer;
use crate::host::{Host, Presence};
use crate::job::Job;
use crate::lent::TooLong;
use crate::policy::ordering::Rank;
use crate::scheduler::Scheduler;
use crate::views::waiting;

/// Why a job does not go on faster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Explanation {
    /// Each reason, with the waiting tasks that it holds back.
    pub tasks: Vec<(String, IdSet)>,
    /// Each host with why it takes none of them.
    pub hosts: Vec<(HostId, String)>,
}

impl Scheduler {
    /// Why each waiting task of the job waits, and why each host takes none; nothing where there is no such job.
    pub fn explain(&self, id: JobId) -> Option<Explanation> {
        let job = self.jobs.table.get(&id)?;
        let mut waiting = waiting(job);
        let mut tasks = Vec::new();
        if let Some(why) = job.held_back() {
            let (needed, rest) = job.split(&waiting);
            if !rest.is_empty() {
                tasks.push((why.to_owned(), rest));
            }
            waiting = needed;
        }
        if !waiting.is_empty() {
            tasks.extend(self.why_behind(job).map(|why| (why, waiting.clone())));
            let why = self.why_no_offer(job).or_else(|| self.why_together(id, job));
            tasks.push((why.unwrap_or_else(|| self.why_no_slot()), waiting));
        }
        tasks.extend(self.made_room(job));
        let compared = job.compared_now();
        if !compared.is_empty() {
            let why = match job.rules.quorum.compare {
                Compare::Program => "results are there, and wait for a program of yours: deskgrid job judge",
                Compare::Bytes | Compare::Floats(_) => "results are there, and are being compared",
            };
            tasks.push((why.to_owned(), compared));
        }
        let opinions = job.wants_opinions();
        if !opinions.is_empty() {
            let size = job.rules.quorum.size;
            let why = format!("another result from a host of another owner is wanted, until {size} agree");
            tasks.push((why, opinions));
        }
        let hosts = self.hosts.table.iter().map(|(id, host)| (id, self.why_passed_over(host, job))).collect();
        Some(Explanation { tasks, hosts })
    }

    /// Which jobs go before this one.
    fn why_behind(&self, job: &Job) -> Option<String> {
        if let Some(why) = self.jobs.why_behind_users(job) {
            return Some(why);
        }
        let (unpromised, disclosed, user) = job.rank.class();
        let shared = |rank: &&Rank| {
            let class = rank.class();
            (class.0, class.1) == (unpromised, disclosed) && class.2 != user
        };
        let ahead = self.jobs.lines.waiting.range(..job.rank).filter(|rank| !shared(rank)).count();
        let jobs = plural(ahead, "job");
        (ahead > 0).then(|| format!("behind {jobs} of higher priority or earlier arrival"))
    }

    /// What no host that is known offers, though the job needs it.
    fn why_no_offer(&self, job: &Job) -> Option<String> {
        let mut missing = self.hosts.table.values().map(|host| job.rules.needs.missing(host.offers));
        let first = missing.next()??;
        missing.all(|why| why.is_some()).then(|| format!("no host that is known will do; of the first one: {first}"))
    }

    /// What a job of several ranks waits for.
    fn why_together(&self, id: JobId, job: &Job) -> Option<String> {
        let gang = job.gang.as_ref()?;
        if gang.formed.is_some() {
            return Some("a rank of it has lost its host, and no other is free".to_owned());
        }
        let WidthOffer { least, free, hosts, .. } = self.together(id, self.now)?.offer?;
        let least = plural(least as usize, "host");
        Some(match gang.holdout {
            Some(held) => {
                let left = Span::from_secs_f64(held.left_s(self.now.secs()));
                format!("it holds out for {}, of which {free} are free; the others should be in {left}", held.hosts)
            }
            None => format!("it needs {least} at once: {free} of {hosts} that will do are free"),
        })
    }

    /// Why no slot is free, for the fleet as a whole.
    fn why_no_slot(&self) -> String {
        let joined = self.hosts.table.values().filter(|host| host.presence != Presence::Awaited).count();
        if joined == 0 {
            return match self.hosts.table.len() {
                0 => "no host has joined".to_owned(),
                awaited => {
                    format!("no host has joined since the master restarted; {} awaited", plural(awaited, "host"))
                }
            };
        }
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        let mut owners: BTreeMap<String, usize> = BTreeMap::new();
        for host in self.hosts.table.values() {
            *kinds.entry(kind(host)).or_default() += 1;
            if let (HostState::Suspended, Some(reason)) = (host.state, host.owner.reason()) {
                *owners.entry(reason.to_string()).or_default() += 1;
            }
        }
        let owners: Vec<String> = owners.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
        let owners = owners.join(", ");
        let counted = |(kind, n): (&&str, &usize)| match *kind {
            "suspended" => format!("{n} suspended ({owners})"),
            kind => format!("{n} {kind}"),
        };
        match (kinds.len(), kinds.keys().next().copied().unwrap_or_default()) {
            (1, "busy") => format!("every slot is taken: {} busy", plural(kinds["busy"], "host")),
            (1, "suspended") => format!("all hosts suspended: {owners}"),
            _ if kinds.contains_key("ready") => {
                format!(
                    "the ready hosts are passed over; hosts: {}",
                    kinds.iter().map(counted).collect::<Vec<_>>().join(", ")
                )
            }
            _ => format!("no slot is free; hosts: {}", kinds.iter().map(counted).collect::<Vec<_>>().join(", ")),
        }
    }
}

/// A host's state in one word.
fn kind(host: &Host) -> &'static str {
    match host.state {
        _ if host.presence == Presence::Left => "shut down",
        HostState::Lost => "lost",
        HostState::Suspect => "suspect",
        _ if host.presence != Presence::Connected => "not connected",
        HostState::Draining => "draining",
        HostState::Suspended => "suspended",
        HostState::Busy => "busy",
        HostState::Ready => "ready",
    }
}

impl Scheduler {
    fn why_passed_over(&self, host: &Host, job: &Job) -> String {
        let slots = plural(host.usable_slots() as usize, "slot");
        if let Some(why) = job.rules.needs.missing(host.offers) {
            return format!("passed over: {why}");
        }
        match (kind(host), host.reason()) {
            ("busy", _) if host.reserved > 0 => {
                let kept = plural(host.reserved as usize, "slot");
                format!("{slots}, {kept} held for jobs of several ranks, {} held", plural(host.books.len(), "attempt"))
            }
            ("busy", _) => format!("busy: {slots}, {} held", plural(host.books.len(), "attempt")),
            ("ready", _) if job.waiting() == 0 => "ready: no task of the job waits".to_owned(),
            ("ready", _) if let Some(why) = self.why_too_short(host, job) => format!("ready: {why}"),
            ("ready", _) => {
                let scene = job.scene(self.now, &self.settings, &self.hosts);
                match job.policy.placement.objection(&scene, &job.plan, host) {
                    Some(why) => format!("ready: {why}"),
                    None => format!("ready: {} of {slots} free", host.free_slots()),
                }
            }
            ("draining", _) => "draining: gets no new work".to_owned(),
            (kind, Some(reason)) => format!("{kind}: {reason}"),
            (kind, None) => kind.to_owned(),
        }
    }
}

impl Scheduler {
    /// Why a ready host is not there for long enough.
    fn why_too_short(&self, host: &Host, job: &Job) -> Option<String> {
        let TooLong { left, takes } = job.too_long_for(host, self.now, self.settings.start_cost)?;
        Some(format!("its owner's hours lend it for {left} only, and a task should take {takes}"))
    }
}

fn plural(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
