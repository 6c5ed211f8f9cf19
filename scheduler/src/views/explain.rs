//! The reasons, in words, why tasks wait and hosts are passed over. The module only reads.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use common::job::{Compare, Quorum};
use common::needs::Needs;
use common::text::plural;
use common::view::HostState;
use common::{HostId, IdSet, JobId, Span, Time};

use crate::faults::stragglers::going;
use crate::gang::width_choice::WidthOffer;
use crate::policy::ordering::Rank;
use crate::protocol::effect::CopyReason;
use crate::state::host::{Host, Presence};
use crate::state::job::{Job, LiveCopy, TaskRecord, waiting};
use crate::state::owner_hours::TooLong;
use crate::state::room::Room;
use crate::state::scheduler::Scheduler;

/// The most reasons that are told why no host qualifies.
const REASONS: usize = 3;

/// The most jobs ahead of another that are named for one reason.
const NAMED: usize = 3;

/// The way out for want of owners.
const SAY_OWNERS: &str =
    "(if some hosts belong to other people, an admin can say so: deskgrid host owner HOST OWNER)";

/// The reasons why a job does not go on faster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Explanation {
    /// Each reason, with the waiting tasks that it holds back.
    pub tasks: Vec<(String, IdSet)>,
    /// Begun tasks that are held up or overdue.
    pub held_up: Vec<HeldUp>,
    /// Each host with the reason why it takes none of the waiting tasks.
    pub hosts: Vec<(HostId, String)>,
}

/// Tasks on one host of which no attempt goes on, or one goes on beyond every run time seen.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldUp {
    /// The host of their latest attempts.
    pub host: HostId,
    /// The reason.
    pub why: CopyReason,
    /// The time for which the first of them has been held up, or has run.
    pub span: Span,
    /// For a silent host, what its silence means.
    pub doubt: Option<Doubt>,
    /// The indices of the tasks.
    pub tasks: IdSet,
}

/// The probability that the attempts of a silent host are lost, and when they are copied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Doubt {
    /// The probability that they are gone.
    pub gone: f64,
    /// The time until idle hosts copy them, if nothing is heard of the host until then.
    pub copied_in: Option<Span>,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lost with a probability of {:.0} %", 100.0 * self.gone)?;
        match self.copied_in {
            Some(Span::ZERO) => write!(f, ", copied as soon as a host is idle"),
            Some(span) => write!(f, ", copied in {span} if a host is idle then"),
            None => Ok(()),
        }
    }
}

impl HeldUp {
    /// Returns the reason in words, with the host's name.
    pub fn words(&self, host: &str) -> String {
        let span = self.span;
        match self.why {
            CopyReason::Suspended(reason) => format!("suspended on {host} ({reason}) for {span}"),
            CopyReason::Frozen => {
                format!("frozen on {host} for {span}, since another task has its slot")
            }
            CopyReason::Suspect => {
                let doubt = self
                    .doubt
                    .map_or_else(String::new, |doubt| format!("; {doubt}"));
                format!("on {host}, of which nothing has been heard for {span}{doubt}")
            }
            CopyReason::Overdue { ran, longest } => {
                format!(
                    "overdue on {host}: it has run for {ran}, where the longest of its kind took {longest} on a host of speed 1"
                )
            }
            why => format!("on {host}, {why}"),
        }
    }
}

/// The reason why a job goes before another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum GoesFirst {
    Promised,
    Requested,
    Preferred,
    Earlier,
}

impl GoesFirst {
    fn of(rank: Rank, behind: Rank) -> Self {
        if rank.promised() && !behind.promised() {
            Self::Promised
        } else if behind.disclosed() && !rank.disclosed() {
            Self::Requested
        } else if rank.priority() > behind.priority() {
            Self::Preferred
        } else {
            Self::Earlier
        }
    }

    /// Returns these jobs with the reason, in words.
    fn words(self, jobs: &[JobId]) -> String {
        let named: Vec<String> = jobs.iter().take(NAMED).map(JobId::to_string).collect();
        let named = named.join(", ");
        let jobs = match jobs.len().saturating_sub(NAMED) {
            0 if jobs.len() == 1 => format!("job {named}"),
            0 => format!("jobs {named}"),
            more => format!("jobs {named} and {more} more"),
        };

        let why = match self {
            Self::Promised => "with a promised end",
            Self::Requested => "with requested tasks",
            Self::Preferred => "of higher priority",
            Self::Earlier => "of earlier arrival",
        };
        format!("{jobs} {why}")
    }
}

impl Scheduler {
    /// Returns the reasons why each waiting task of the job waits, and why each host takes none, at
    /// the time of the last event; `None` where there is no such job.
    pub fn explain(&self, id: JobId) -> Option<Explanation> {
        self.explain_at(id, self.now)
    }

    /// Explains like [`Scheduler::explain`], at a time at which nothing has happened since: what
    /// lasts has gone on until then.
    pub fn explain_at(&self, id: JobId, now: Time) -> Option<Explanation> {
        let job = self.jobs.table.get(&id)?;
        let common = ForAllHosts::new(job);
        let hosts = self.hosts.table.iter();
        Some(Explanation {
            tasks: self.why_tasks_wait(id, job, now),
            held_up: self.held_up(job, now),
            hosts: hosts
                .map(|(id, host)| {
                    let why = self.objection(host, job, &common, now);
                    (id, why.unwrap_or_else(|| host.free_words()))
                })
                .collect(),
        })
    }

    /// Returns why a host takes none of a job's waiting tasks, or no copy of a running one where none waits, as
    /// [`Scheduler::explain_at`] does; `None` where there is no such host or job.
    pub fn explain_host_at(&self, host: HostId, id: JobId, now: Time) -> Option<String> {
        let host = self.hosts.table.get(&host)?;
        let job = self.jobs.table.get(&id)?;
        let common = ForAllHosts::new(job);
        let held = job.waiting() == 0 && !job.after.tasks.is_empty();
        let objection = match held && kind(host) == "ready" {
            true => self.why_unfit(host, job),
            false => self.objection(host, job, &common, now),
        };
        if let Some(why) = objection {
            return Some(why);
        }

        // Nothing of the host's is in the way.
        let tasks = self.why_tasks_wait(id, job, now).into_iter();
        let reasons = std::iter::once(host.free_words()).chain(tasks.map(|(why, _)| why));
        Some(reasons.collect::<Vec<_>>().join("; "))
    }

    /// Returns the reasons why the tasks of a job wait, each with those that it holds back.
    fn why_tasks_wait(&self, id: JobId, job: &Job, now: Time) -> Vec<(String, IdSet)> {
        let job_waiting = waiting(job);
        let mut waiting = job_waiting.clone();
        let mut tasks = Vec::new();
        if !job.after.tasks.is_empty() {
            tasks.extend(self.why_held(id).map(|why| (why, job.after.tasks.clone())));
        }

        if let Some(why) = job.held_back() {
            let (needed, rest) = job.split(&waiting);
            if !rest.is_empty() {
                tasks.push((why.to_owned(), rest));
            }
            waiting = needed;
        }

        if !waiting.is_empty() {
            tasks.extend(self.why_behind(job).map(|why| (why, waiting.clone())));
            let why = self
                .why_nowhere(&job.rules.needs, job.rules.quorum)
                .or_else(|| self.why_together(id, job, now));
            let mut why = why.unwrap_or_else(|| self.why_no_slot());
            if let Some(larger) = job.why_larger() {
                why = format!("{why}; {larger}");
            }
            tasks.push((why, waiting));
        }

        tasks.extend(job.passed_over(&job_waiting));
        tasks.extend(self.made_room(job));
        let compared = job.compared_now();
        if !compared.is_empty() {
            let why = match job.rules.quorum.compare {
                Compare::Program => {
                    "results are there, and wait for a program of yours: deskgrid job judge"
                }
                Compare::Bytes | Compare::Floats(_) => "results are there, and are being compared",
            };
            tasks.push((why.to_owned(), compared));
        }

        for (why, opinions) in self.why_opinions(job) {
            match tasks.iter_mut().find(|(said, _)| *said == why) {
                Some((_, same)) => same.union_with(&opinions),
                None => tasks.push((why, opinions)),
            }
        }
        tasks
    }

    /// Returns the jobs that this one waits for, in words; `None` where it waits for none.
    pub fn why_held(&self, id: JobId) -> Option<String> {
        let mut others = self.predecessors(id);
        let first = others.next()?;
        let (job, left) = (first.job, plural(first.left, "task"));
        let state = match (first.open, first.left) {
            (true, 0) => format!("which is open, without a task left: deskgrid job close {job}"),
            (true, _) => format!("which is open, with {left} left"),
            (false, 1) => format!("of which {left} is left"),
            (false, _) => format!("of which {left} are left"),
        };

        Some(match others.count() {
            0 => format!("waits for job {job}, {state}"),
            more => format!(
                "waits for job {job}, {state}, and for {}",
                plural(more as u64, "more job")
            ),
        })
    }

    /// Returns the begun tasks of which no attempt goes on, or one for too long, by host and
    /// reason.
    fn held_up(&self, job: &Job, now: Time) -> Vec<HeldUp> {
        let mut found: Vec<HeldUp> = Vec::new();
        let hold_up = |copy: &LiveCopy| {
            let host = self.hosts.table.get(&copy.host)?;
            copy.hold_up
                .or_else(|| host.silence(now).map(|_| CopyReason::Suspect))
        };
        let held_up = |record: &TaskRecord| {
            let copy = record.live.iter().last()?;
            let why =
                hold_up(copy).filter(|_| record.live.iter().all(|copy| hold_up(copy).is_some()))?;
            let host = self.hosts.table.get(&copy.host)?;
            let load = host.books.get(&copy.attempt)?;
            let since = match why {
                CopyReason::Suspect => host.parted.unwrap_or(host.silent_since),
                _ => load.suspended_since.unwrap_or(host.owner_since),
            };
            Some((host.id, why, now.since(since)))
        };
        let standing = job
            .records
            .iter()
            .filter_map(|(index, record)| Some((index, held_up(record)?)));
        let benching = self.settings.benching;
        let all = going(job, &self.hosts, &self.foresight, benching, u32::MAX, now);
        let overdue = all.filter_map(|going| {
            let mut live = job.records.get(&going.index)?.live.iter();
            let host = live.find(|copy| copy.hold_up.is_none())?.host;
            let why = going.overdue(job)?;
            Some((going.index, (host, why, Span::from_secs_f64(going.ran_s))))
        });
        for (index, (host, why, span)) in standing.chain(overdue) {
            let doubt = self.doubt_of(job, index, host, why, now);
            let same = |row: &&mut HeldUp| {
                let alike = std::mem::discriminant(&row.why) == std::mem::discriminant(&why);
                row.host == host && alike && row.doubt == doubt
            };
            match found.iter_mut().find(same) {
                Some(row) => drop(row.tasks.insert(index)),
                None => found.push(HeldUp {
                    host,
                    why,
                    span,
                    doubt,
                    tasks: IdSet::from_range(index, index),
                }),
            }
        }

        found
    }

    /// Returns what the host's silence means for a task, where that is why its attempt there is held
    /// up.
    pub(super) fn doubt_of(
        &self,
        job: &Job,
        index: u32,
        host: HostId,
        why: CopyReason,
        now: Time,
    ) -> Option<Doubt> {
        let host = self.hosts.table.get(&host)?;
        let silence = host.silence(now).filter(|_| why == CopyReason::Suspect)?;
        let partings = &self.hosts.index.partings;
        let suspect_at = self.foresight.suspect_at(host, partings, &self.settings);
        let copied_in = suspect_at.since(now);

        let copies = job.gang.is_none() && !job.rules.quorum.compares();
        let copies = copies && job.may_start_again(index);
        Some(Doubt {
            gone: self.foresight.gone(silence),
            copied_in: copies.then_some(copied_in),
        })
    }

    /// Returns the reason why an idle host gets no copy of a task, for a job without waiting tasks.
    fn why_no_copy(&self, job: &Job, now: Time) -> String {
        let none = "no task of the job waits";
        if job.is_held() {
            return "the job's tasks wait for other jobs".to_owned();
        }
        if job.settled() {
            return none.to_owned();
        }
        if job.rules.quorum.compares() {
            return format!("{none}, and none is copied beyond the results that are compared");
        }
        if !job.copies_overdue() {
            let copied = job.policy.replication.describe();
            return format!("{none}; what policy {} copies: {copied}", job.policy.name);
        }
        if job.longest_s().is_none() {
            return format!(
                "{none}, and none is copied before it is known how long they take (try: submit --estimate)"
            );
        }

        match self.overdue_in(job, now).map(|(_, left)| left).min() {
            None => format!(
                "{none}, and those that run have copies, stand still or failed too often to be tried again"
            ),
            Some(left) => format!(
                "{none}, and none is overdue; the first one would be copied in {left} at the latest"
            ),
        }
    }

    /// Returns the jobs that go before this one, in words; `None` if there are none.
    fn why_behind(&self, job: &Job) -> Option<String> {
        if let Some(why) = self.why_yields(job) {
            return Some(why);
        }
        let mut known = BTreeMap::new();
        let mut owners = BTreeMap::new();
        let mut same_slots = |other: JobId| {
            let other = self.jobs.table.get(&other);
            other.is_some_and(|other| {
                let compares = other.rules.quorum.compares();
                // Where its tasks all wait for owners of whom none is left, they want no slot.
                self.wants_same(job, other, &mut known)
                    && (!compares || self.attempts_possible(other, false, &mut owners) > 0)
            })
        };
        if let Some(why) = self.jobs.why_behind_users(job, &mut same_slots) {
            return Some(why);
        }

        let (unpromised, disclosed, user) = job.rank.class();
        let beside = |rank: &Rank| {
            let class = rank.class();
            (class.0, class.1) == (unpromised, disclosed) && class.2 != user
        };
        let mut ahead: BTreeMap<GoesFirst, Vec<JobId>> = BTreeMap::new();
        for rank in self.jobs.lines.waiting.range(..job.rank) {
            if !beside(rank) && same_slots(rank.job) {
                let why = GoesFirst::of(*rank, job.rank);
                ahead.entry(why).or_default().push(rank.job);
            }
        }

        let ahead = ahead.iter().map(|(why, jobs)| why.words(jobs));
        let ahead: Vec<String> = ahead.collect();
        (!ahead.is_empty()).then(|| format!("behind {}", ahead.join(", ")))
    }

    /// Whether some host suits the tasks of both jobs; `known` holds the answers by the other's needs.
    fn wants_same<'a>(
        &self,
        job: &Job,
        other: &'a Job,
        known: &mut BTreeMap<&'a Needs, bool>,
    ) -> bool {
        let needs = &job.rules.needs;
        let others = &other.rules.needs;
        needs == others
            || *known.entry(others).or_insert_with(|| {
                let mut hosts = self.hosts.table.values();
                hosts.any(|host| host.suits(needs) && host.suits(others))
            })
    }

    /// Returns the reasons, in words, why the hosts that are expected to work could never do tasks with
    /// these needs and this quorum; `None` if they could, or no such host is known.
    pub fn why_nowhere(&self, needs: &Needs, quorum: Quorum) -> Option<String> {
        self.why_none_qualifies(needs)
            .or_else(|| self.why_too_few_owners(needs, quorum))
    }

    fn expected_hosts(&self) -> impl Iterator<Item = &Host> {
        let now = self.now;
        let hosts = self.hosts.table.values();
        hosts.filter(move |host| host.is_expected(now))
    }

    /// Returns the reasons why no host could ever run tasks with these needs.
    fn why_none_qualifies(&self, needs: &Needs) -> Option<String> {
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for host in self.expected_hosts() {
            *reasons.entry(needs.missing(&host.offers)?).or_default() += 1;
        }
        let mut reasons: Vec<(String, usize)> = reasons.into_iter().collect();
        reasons.sort_by_key(|(why, hosts)| (Reverse(*hosts), why.clone()));

        let more = match reasons.len().saturating_sub(REASONS) {
            0 => String::new(),
            more => format!("; and {}", plural(more as u64, "other reason")),
        };
        let shown = reasons.iter().take(REASONS);
        let shown: Vec<String> = shown
            .map(|(why, hosts)| format!("{}: {why}", plural(*hosts as u64, "host")))
            .collect();
        (!shown.is_empty()).then(|| format!("no host qualifies; {}{more}", shown.join("; ")))
    }

    /// Returns the lack of owners, in words, where more results must agree than there are owners of
    /// hosts with what the tasks need; `None` where there are enough.
    fn why_too_few_owners(&self, needs: &Needs, quorum: Quorum) -> Option<String> {
        let hosts = self.expected_hosts().filter(|host| host.suits(needs));
        let owners: BTreeSet<HostId> = hosts.map(|host| host.party).collect();
        let size = quorum.size as usize;
        (quorum.compares() && !owners.is_empty() && owners.len() < size).then(|| {
            format!(
                "{size} results of different owners' hosts must agree, and all hosts that qualify belong to {} \
                 {SAY_OWNERS}",
                plural(owners.len() as u64, "owner")
            )
        })
    }

    /// Returns the tasks that wait for another result, each with the reason, in words.
    fn why_opinions(&self, job: &Job) -> Vec<(String, IdSet)> {
        let opinions = job.wants_opinions();
        if !job.rules.quorum.compares() || opinions.is_empty() {
            return Vec::new();
        }
        let stuck = self.without_owners(job);
        let mut possible = opinions.clone();
        possible.subtract(&stuck);
        if possible.is_empty()
            && let Some(why) = self.why_too_few_owners(&job.rules.needs, job.rules.quorum)
        {
            return vec![(why, opinions)];
        }

        let size = job.rules.quorum.size;
        let why =
            format!("another result from a host of another owner is wanted, until {size} agree");
        let none_left =
            format!("; no such host takes work now, or will once its owner leaves {SAY_OWNERS}");

        let mut all = Vec::new();
        for (tasks, end) in [(possible, ""), (stuck, none_left.as_str())] {
            let differing = job.differing(&tasks);
            let mut others = tasks;
            others.subtract(&differing);
            all.push((format!("{why}{end}"), others));
            all.push((format!("the results so far differ; {why}{end}"), differing));
        }
        all.retain(|(_, tasks)| !tasks.is_empty());
        all
    }

    /// Returns the hosts or ranks that a gang waits for, in words.
    fn why_together(&self, id: JobId, job: &Job, now: Time) -> Option<String> {
        let gang = job.gang.as_ref()?;
        if gang.formed.is_some() {
            return Some("a rank of it has lost its host, and no other is free".to_owned());
        }

        let WidthOffer {
            least, free, hosts, ..
        } = self.together(id, now)?.offer?;
        let least = plural(u64::from(least), "host");
        Some(match gang.holdout {
            Some(held) => {
                let left = Span::from_secs_f64(held.left_s(now.secs()));
                format!(
                    "it holds out for {}, of which {free} are free; the others should be in {left}",
                    held.hosts
                )
            }
            None => format!("it needs {least} at once: {free} of {hosts} that will do are free"),
        })
    }

    /// Returns the reason why no slot is free in the whole fleet.
    fn why_no_slot(&self) -> String {
        let mut hosts = self.hosts.table.values();
        if hosts.all(|host| host.presence == Presence::Awaited) {
            return match self.hosts.table.len() {
                0 => "no host has joined".to_owned(),
                awaited => format!(
                    "no host has joined since the master restarted; {} awaited",
                    plural(awaited as u64, "host")
                ),
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

        let owners: Vec<String> = owners
            .iter()
            .map(|(reason, n)| format!("{n} {reason}"))
            .collect();
        let owners = owners.join(", ");
        let counted = |(kind, n): (&&str, &usize)| match *kind {
            "suspended" => format!("{n} suspended ({owners})"),
            kind => format!("{n} {kind}"),
        };

        let hosts: Vec<String> = kinds.iter().map(counted).collect();
        let hosts = hosts.join(", ");

        match kinds.len() {
            1 if let Some(busy) = kinds.get("busy") => {
                let busy = plural(*busy as u64, "host");
                format!("every slot is taken: {busy} busy")
            }
            1 if kinds.contains_key("suspended") => format!("all hosts suspended: {owners}"),
            _ if kinds.contains_key("ready") => {
                format!("the ready hosts are passed over; hosts: {hosts}")
            }
            _ => format!("no slot is free; hosts: {hosts}"),
        }
    }
}

/// The values that are the same for all hosts that a job is explained for.
struct ForAllHosts {
    /// The job's waiting tasks.
    waiting: IdSet,
    /// The reason why idle hosts get no copy.
    no_copy: OnceCell<String>,
}

impl ForAllHosts {
    fn new(job: &Job) -> Self {
        Self {
            waiting: waiting(job),
            no_copy: OnceCell::new(),
        }
    }
}

/// Returns a host's state in one word.
fn kind(host: &Host) -> &'static str {
    match host.state {
        _ if host.presence == Presence::Left => "shut down",
        HostState::Lost => "lost",
        _ if host.presence == Presence::Disconnected => "not connected",
        HostState::Suspect => "suspect",
        _ if host.presence != Presence::Connected => "not connected",
        HostState::Draining => "draining",
        HostState::Suspended => "suspended",
        HostState::Benched => "benched",
        HostState::Busy => "busy",
        HostState::Ready => "ready",
    }
}

impl Scheduler {
    /// Returns what of a host itself does not fit a job, whether or not tasks of it may start.
    fn why_unfit(&self, host: &Host, job: &Job) -> Option<String> {
        if let Some(why) = job.rules.needs.missing(&host.offers) {
            return Some(format!("passed over: {why}"));
        }
        if host.lets_go_on()
            && let Some(why) = self.why_blamed(host, job)
        {
            return Some(format!("passed over: {why}"));
        }

        let why = matches!(kind(host), "busy" | "ready").then(|| host.why_no_room(job))?;
        why.map(|why| format!("{}: {why}", kind(host)))
    }

    /// Returns what keeps a host from the tasks of a job; `None` where it would take one that may start.
    fn objection(&self, host: &Host, job: &Job, common: &ForAllHosts, now: Time) -> Option<String> {
        if let Some(why) = self.why_unfit(host, job) {
            return Some(why);
        }

        let slots = plural(u64::from(host.usable_slots()), "slot");
        let held = plural(host.books.len() as u64, "attempt");
        let why = match (kind(host), host.reason()) {
            ("busy", _) if host.reserved.slots > 0 => {
                let kept = plural(host.reserved.slots, "slot");
                format!("{slots}, {kept} held for jobs of several ranks, {held} held")
            }
            ("busy", _) => format!("busy: {slots}, {held} held"),
            ("ready", _) if job.waiting() == 0 => {
                let why = common.no_copy.get_or_init(|| self.why_no_copy(job, now));
                format!("ready: {why}")
            }
            ("ready", _) if let Some(why) = self.why_too_short(host, job, now) => {
                format!("ready: {why}")
            }
            ("ready", _) => {
                let scene = job.scene(now, &self.settings, &self.hosts);
                let placement = job.policy.placement;
                match placement.objection(&scene, &job.plan, host.speed) {
                    Some(why) => format!("ready: {why}"),
                    None if common
                        .waiting
                        .iter()
                        .any(|index| scene.may_run(index, host.id)) =>
                    {
                        return None;
                    }
                    None => "ready: its owner's hosts have had each task that waits".to_owned(),
                }
            }
            ("draining", _) if host.closing => "draining: its worker is shutting down".to_owned(),
            ("draining", _) => "draining: gets no new work".to_owned(),
            (kind, Some(reason)) => format!("{kind}: {reason}"),
            (kind, None) => kind.to_owned(),
        };
        Some(why)
    }

    /// Returns the reason why a ready host is not lent for long enough, if it is not.
    fn why_too_short(&self, host: &Host, job: &Job, now: Time) -> Option<String> {
        let TooLong { left, takes } = job.too_long_for(host, now, self.settings.start_cost)?;
        Some(format!(
            "its owner's hours lend it for {left} only, and a task should take {takes}"
        ))
    }
}

impl Host {
    /// Says how many of its slots are free.
    fn free_words(&self) -> String {
        let slots = plural(u64::from(self.usable_slots()), "slot");
        format!("ready: {} of {slots} free", self.free_slots())
    }

    /// Returns which of a task's needs it has too little left for now, of a job that needs more than
    /// a slot; `None` where it has enough or lacks slots only.
    fn why_no_room(&self, job: &Job) -> Option<String> {
        if job.demand.is_plain() && self.books.is_plain() {
            return None;
        }
        if self.saved.bars(job.demand) && job.saves != Some(self.id) {
            return Some(
                "its room is saved for a task that needs more of it and comes first".to_owned(),
            );
        }

        let left = self.left_room();
        let wanted = Room::of(job.demand);
        let rows = [
            ("processors", wanted.cores, left.cores, ""),
            ("memory", wanted.memory_mib, left.memory_mib, " MiB"),
            ("GPUs", wanted.gpus, left.gpus, ""),
        ];
        let short: Vec<String> = rows
            .into_iter()
            .filter(|(_, wanted, left, _)| wanted > left)
            .map(|(what, wanted, left, unit)| {
                format!("{wanted}{unit} of {what}, of which {left}{unit} are free")
            })
            .collect();

        let saved = if job.saves == Some(self.id) {
            "; no smaller task gets them"
        } else {
            ""
        };
        (!short.is_empty()).then(|| format!("a task needs {}{saved}", short.join(" and ")))
    }
}
