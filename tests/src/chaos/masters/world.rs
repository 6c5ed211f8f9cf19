//! One run: masters, their database, hosts and clients, in the order of simulated time. First comes a time of
//! trouble, then everything is mended, and then all must come to an end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Arguments;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::master::SafetyRules;
use ::master::engine::{ObjectName, SimulatedStatement};
use common::job::{CommandSpec, Rules, Work};
use common::wire::worker::ToWorker;
use common::{
    AttemptId, BlobRef, HostId, IdSet, Incarnation, JobId, JobSpec, RequestId, Span, TaskSet, Time,
};
use link::Contents;
use uuid::Uuid;

use super::super::chance::Chance;
use super::super::contents::Shelves;
use super::super::story::Story;
use super::database::Server;
use super::hosts::{Host, SILENCE};
use super::ledger::Ledger;
use super::process::{Answer, Came, Process, Reply, Wish};
use super::trouble::{Fuse, Trouble};

/// The number of hosts.
pub(super) const HOSTS: usize = 3;
/// The wall clock at the beginning of a run, in microseconds.
pub(super) const TODAY: u64 = 1_780_000_000_000_000;
/// How long trouble lasts.
pub(super) const TROUBLE: Time = Time(150 * 1_000_000);
/// By when everything must have ended.
const DEADLINE: Time = Time(TROUBLE.0 + 3_600 * 1_000_000);
/// The number of things that happen in no run.
const MOST: u64 = 100_000;
/// The time without a commit after which a master takes the store.
pub(super) const LEASE: Span = Span::from_secs(5);
/// The time after which a client asks the next master.
const PATIENCE: Span = Span::from_secs(4);

/// What is planned.
#[derive(Debug)]
pub(super) enum What {
    Start(usize),
    /// A process of this run has what it waited for.
    Resume(usize, u64, Reply),
    Connect(usize, u64),
    /// Statements arrive at the database. They wait for others until the time that is given.
    Fly(usize, u64, u64, Vec<SimulatedStatement>, Time),
    /// The database hears that sessions are over.
    Close(Vec<u64>),
    /// A master's next group.
    Wake(usize, u64),
    ToMaster(usize, usize, Came),
    ToHost(usize, u64, Box<ToWorker>),
    /// A session is refused or ended.
    Ended(usize, u64),
    /// The answer to an upload.
    Stored(u64, bool),
    /// An object is deleted, whatever has become of the process of this run that wanted it.
    Delete(usize, u64, ObjectName),
    Answered(u64, Answer),
    AskAgain(u64, usize),
    Submit,
    Forget(JobId),
    Tick(usize),
    Staged(usize, AttemptId),
    Exited(usize, AttemptId, u64, bool),
    Trouble(Trouble),
    Look,
    Heal,
}

/// A machine that may have a master.
pub(super) struct Master {
    pub(super) process: Option<Process>,
    pub(super) run: u64,
    pub(super) ahead: Span,
    pub(super) handed_over: bool,
    /// Its incarnation, while it has the store as far as it knows.
    pub(super) active: Option<Incarnation>,
    /// Whether it waits for something to do, what has come, and whether it is to stop.
    pub(super) waits: bool,
    pub(super) came: Vec<Came>,
    pub(super) stops: bool,
    /// The sessions that it has, with their hosts and when it last heard from each.
    pub(super) open: BTreeMap<u64, (usize, Time)>,
    pub(super) groups: u64,
    /// Until then it stands still.
    pub(super) paused: Time,
    /// Until then requests to the database, or its answers, do not pass.
    pub(super) cut: (Time, Time),
    /// Until then the database is slow for it.
    pub(super) slow: Time,
    /// What happens at one of its next flights.
    pub(super) fuse: Option<(u64, Fuse)>,
    /// The end of its last trouble.
    pub(super) troubled: Time,
    /// Its sessions with the database.
    pub(super) sessions: BTreeSet<u64>,
}

/// The state of everything.
pub(super) struct World {
    pub(super) now: Time,
    pub(super) chance: Chance,
    /// Decides whether a replica stays behind at a takeover.
    pub(super) chance_at_takeover: Chance,
    pub(super) laws: SafetyRules,
    story: Story,
    pub(super) server: Server,
    /// Whether a commit waits for the replica.
    pub(super) synchronous: bool,
    pub(super) masters: Vec<Master>,
    pub(super) hosts: Vec<Host>,
    pub(super) ledger: Ledger,
    pub(super) wishes: BTreeMap<u64, Wish>,
    /// The number of times that each of them was sent to a master.
    pub(super) asked: BTreeMap<u64, u32>,
    pub(super) questions: u64,
    /// The directory for content, if there is one and no bucket.
    pub(super) directory: Option<Shelves>,
    /// The objects in the bucket, and those that are being uploaded, by their numbers.
    pub(super) objects: BTreeSet<ObjectName>,
    pub(super) uploads: BTreeMap<u64, (usize, u64, BlobRef)>,
    pub(super) sessions: u64,
    /// Until when the way between a master and a host, or all clients, is cut.
    pub(super) cuts: BTreeMap<(usize, usize), Time>,
    /// What is sent on a way arrives in its order.
    pub(super) order: BTreeMap<(usize, usize, bool), Time>,
    /// The last master that took the store.
    pub(super) holder: Option<usize>,
    /// Until then nothing else goes wrong.
    pub(super) calm: Time,
    /// Until then the master that has the store is the only one.
    pub(super) alone: Time,
    pub(super) clock: Arc<AtomicU64>,
    plans: BTreeMap<(Time, u64), What>,
    planned: u64,
}

impl World {
    pub(super) fn new(seed: u64, laws: SafetyRules) -> Self {
        let mut chance = Chance::new(seed, 1);
        let count = chance.between(2, 3);
        let directory = chance.one_in(3).then(Shelves::default);
        // Who shares a directory needs clocks that agree.
        let apart = if directory.is_some() {
            1
        } else {
            7_200_000_000
        };
        let masters = (0..count).map(|_| Master {
            process: None,
            run: 0,
            ahead: Span(TODAY + chance.below(apart)),
            handed_over: false,
            active: None,
            waits: false,
            came: Vec::new(),
            stops: false,
            open: BTreeMap::new(),
            groups: 0,
            paused: Time(0),
            cut: (Time(0), Time(0)),
            slow: Time(0),
            fuse: None,
            troubled: Time(0),
            sessions: BTreeSet::new(),
        });
        let masters = masters.collect();
        Self {
            now: Time(0),
            synchronous: chance.one_in(2),
            chance,
            chance_at_takeover: Chance::new(seed, 2),
            laws,
            story: Story::default(),
            server: Server::new(),
            masters,
            hosts: (0..HOSTS).map(|_| Host::new()).collect(),
            ledger: Ledger::default(),
            wishes: BTreeMap::new(),
            asked: BTreeMap::new(),
            questions: 0,
            directory,
            objects: BTreeSet::new(),
            uploads: BTreeMap::new(),
            sessions: 0,
            cuts: BTreeMap::new(),
            order: BTreeMap::new(),
            holder: None,
            calm: Time(0),
            alone: Time(0),
            clock: Arc::default(),
            plans: BTreeMap::new(),
            planned: 0,
        }
    }

    pub(super) fn into_story(self) -> (String, BTreeMap<&'static str, u64>) {
        self.story.into_parts()
    }

    pub(super) fn tell(&mut self, who: Arguments<'_>, what: Arguments<'_>) {
        self.story.tell(self.now, who, what);
    }

    pub(super) fn count(&mut self, what: &'static str) {
        self.story.count(what);
    }

    pub(super) fn later(&mut self, wait: Span, what: What) {
        self.plan(self.now + wait, what);
    }

    pub(super) fn plan(&mut self, at: Time, what: What) {
        self.planned += 1;
        self.plans.insert((at, self.planned), what);
    }

    /// Lives until everything has ended.
    ///
    /// # Errors
    /// Says what has happened that must not, or that not all has ended.
    pub(super) fn live(&mut self) -> Result<(), String> {
        for m in 0..self.masters.len() {
            self.later(Span(m as u64 * 700_000), What::Start(m));
        }
        for h in 0..HOSTS {
            self.later(Span(300_000 * (h as u64 + 1)), What::Tick(h));
        }
        for _ in 0..self.chance.between(6, 16) {
            let at = self.chance.below(TROUBLE.0);
            self.plan(Time(at), What::Submit);
        }
        self.plan_trouble();
        self.plan(TROUBLE, What::Heal);
        self.plan(Time(5_000_000), What::Look);

        while let Some(((at, _), what)) = self.plans.pop_first() {
            self.now = at;
            self.clock.store(at.0, Ordering::Relaxed);
            if at > DEADLINE {
                return Err(self.unfinished());
            }
            if self.planned > MOST {
                return Err(format!("nothing moves but {what:?}"));
            }
            if matches!(what, What::Look) && self.has_ended() {
                return self.look();
            }
            self.happen(what)?;
        }
        Err("nothing is planned any more".to_owned())
    }

    fn happen(&mut self, what: What) -> Result<(), String> {
        match what {
            What::Start(m) => return self.start(m),
            What::Resume(m, run, reply) => return self.resume(m, run, reply),
            What::Connect(m, run) => self.connect(m, run),
            What::Fly(m, run, session, statements, until) => {
                self.fly(m, run, session, statements, until);
            }
            What::Close(sessions) => sessions.into_iter().for_each(|one| self.server.close(one)),
            What::Wake(m, run) => return self.wake(m, run),
            What::ToMaster(m, h, came) => self.arrive(m, h, came),
            What::ToHost(h, session, message) => self.host_hears(h, session, *message),
            What::Ended(h, session) => self.ended_at_host(h, session),
            What::Stored(number, stored) => {
                if let Some((h, session, blob)) = self.uploads.remove(&number) {
                    self.on_stored(h, session, blob, stored);
                }
            }
            What::Delete(m, run, name) => self.delete(m, run, name),
            What::Answered(number, answer) => return self.answered(number, answer),
            What::AskAgain(number, m) => self.ask(number, m),
            What::Submit => self.submit(),
            What::Forget(job) => {
                self.ledger.on_forget(job);
                self.wish(Wish::Forget(job));
            }
            What::Tick(h) => self.tick(h),
            What::Staged(h, id) => self.on_staged(h, id),
            What::Exited(h, id, plan, well) => self.on_exited(h, id, plan, well),
            What::Trouble(trouble) => self.strike(trouble),
            What::Look => self.look_around(),
            What::Heal => self.heal(),
        }
        Ok(())
    }

    fn submit(&mut self) {
        let number = self.questions + 1;
        let argv = ["work", &format!("j{number}"), "%{TASK_ID}"];
        let argv = argv.map(|arg| arg.parse().expect("a template"));
        let spec = JobSpec {
            name: format!("j{number}"),
            tasks: TaskSet {
                ids: IdSet::from_range(1, self.chance.between(1, 5) as u32),
                items: Vec::new(),
            },
            work: Work::Command(CommandSpec::new(argv.to_vec())),
            rules: Rules {
                max_losses: 1_000,
                ..Rules::default()
            },
        };
        let request = RequestId(Uuid::from_bytes(self.chance.bytes()));
        self.wish(Wish::Submit(request, Box::new(spec)));
    }

    fn wish(&mut self, wish: Wish) {
        self.questions += 1;
        let number = self.questions;
        self.wishes.insert(number, wish);
        let first = self.chance.below(self.masters.len() as u64) as usize;
        self.ask(number, first);
    }

    /// A client asks this master, and the next one where no answer comes.
    fn ask(&mut self, number: u64, m: usize) {
        let Some(wish) = self.wishes.get(&number).cloned() else {
            return;
        };
        if !self.is_cut(m, HOSTS) {
            *self.asked.entry(number).or_default() += 1;
            self.send_to_master(m, HOSTS, Came::Ask(number, wish));
        }
        let next = (m + 1) % self.masters.len();
        let wait = if self.masters[m].active.is_some() {
            PATIENCE
        } else {
            Span::from_millis(300)
        };
        self.later(wait, What::AskAgain(number, next));
    }

    fn answered(&mut self, number: u64, answer: Answer) -> Result<(), String> {
        let Some(wish) = self.wishes.remove(&number) else {
            return Ok(());
        };
        match (wish, answer) {
            (Wish::Submit(request, _), Answer::Submitted(job)) => {
                self.tell(
                    format_args!("people"),
                    format_args!("{request} is job {job}"),
                );
                self.count("submissions acknowledged");
                if self.chance.percent(70) {
                    let wait = Span::from_millis(self.chance.between(1_000, 20_000));
                    self.later(wait, What::Forget(job));
                }
                Ok(())
            }
            (Wish::Submit(request, _), Answer::Refused(why)) => Err(format!("{request}: {why}")),
            (Wish::Submit(request, _), answer) => Err(format!("{request}: {answer:?}")),
            (Wish::Forget(_), _) => Ok(()),
        }
    }

    fn look_around(&mut self) {
        self.later(Span::from_secs(5), What::Look);
        for m in 0..self.masters.len() {
            let master = &self.masters[m];
            if master.paused > self.now {
                continue;
            }
            let old = master.open.iter();
            let old = old.filter(|(_, (_, heard))| self.now.since(*heard) > SILENCE);
            let old: Vec<(u64, usize)> = old.map(|(session, (h, _))| (*session, *h)).collect();
            for (session, h) in old {
                self.arrive(m, h, Came::Closed(session, HostId(h as u32 + 1)));
            }
        }
    }

    /// Looks through the store, and for the content that jobs need.
    pub(super) fn look(&self) -> Result<(), String> {
        let is_there = |name: ObjectName| match &self.directory {
            Some(directory) => directory.modified(&name.hash).is_some(),
            None => self.objects.contains(&name),
        };
        self.ledger.look(&self.server.eyes, &is_there)
    }

    fn has_ended(&self) -> bool {
        // A master that has nothing to do notices within its lease that a replica lacks something.
        if self.now < TROUBLE + LEASE || !self.wishes.is_empty() {
            return false;
        }
        let mut active = self.masters.iter().filter_map(|master| master.active);
        let (Some(only), None) = (active.next(), active.next()) else {
            return false;
        };
        let open = "SELECT count(*) FROM job WHERE ended IS NULL";
        let open = self
            .server
            .eyes
            .query_row(open, [], |row| row.get::<_, u32>(0));
        open == Ok(0)
            && self
                .hosts
                .iter()
                .all(|host| host.rests_with() == Some(only))
    }

    fn unfinished(&self) -> String {
        let jobs = "SELECT group_concat(id || ' ' || state) FROM job WHERE ended IS NULL";
        let jobs = self
            .server
            .eyes
            .query_row(jobs, [], |row| row.get::<_, Option<String>>(0));
        let hosts: Vec<_> = self.hosts.iter().map(Host::rests_with).collect();
        let masters: Vec<_> = self.masters.iter().map(|master| master.active).collect();
        format!(
            "an hour after the end of all trouble not everything has ended: jobs {jobs:?}, hosts with {hosts:?}, masters {masters:?}, {:?}",
            self.wishes
        )
    }

    /// Everything is mended.
    fn heal(&mut self) {
        self.tell(format_args!("world"), format_args!("everything is mended"));
        self.cuts.clear();
        self.server.down = self.now;
        for m in 0..self.masters.len() {
            let master = &mut self.masters[m];
            master.paused = self.now;
            master.cut = (self.now, self.now);
            master.slow = self.now;
            master.fuse = None;
        }
    }
}
