//! The people of the simulated world: clients that submit, ask again, cancel and retry, and whoever
//! lets workers in. They repeat each question until they are answered, so the master hears many of
//! them more than once.

use common::job::{CommandSpec, Rules, Work};
use common::needs::{Demand, Needs};
use common::token::{JoinToken, Role};
use common::wire::enrol::WantedRole;
use common::wire::{Refusal, RefusalCode};
use common::{
    After, EndCondition, IdSet, JobId, JobSpec, Ranks, RequestId, Span, SubmitOptions, TaskSet,
    Time,
};
use master::engine::{
    CoreReply, JobAsk, Peer, PeerAsk, Redeemed, Redeeming, Submitting, TokenWish,
};
use uuid::Uuid;

use super::chance::Chance;
use super::net::{End, Packet};
use super::world::{What, World};

/// What is asked of the master.
#[derive(Debug, Clone)]
pub(super) enum Ask {
    /// Take a job.
    Submit(RequestId, Box<Wish>),
    /// Somebody waits for tasks of a disclosed one.
    Request(JobId, IdSet),
    /// Nobody needs what was not requested of one.
    DropRest(JobId),
    /// Stop one.
    Cancel(JobId),
    /// Try failed and cancelled tasks again.
    Retry(JobId, IdSet),
    /// Remove a settled one.
    Forget(JobId),
    /// Make a join token for so many workers.
    Token(u32),
    /// Let a worker in.
    Enrol(JoinToken, [u8; 32]),
}

/// A job that somebody wants to be done.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub(super) spec: JobSpec,
    /// Whether its tasks are only disclosed.
    disclosed: bool,
    /// The jobs that have to end before.
    pub(super) after: Vec<After>,
}

/// An answer.
#[derive(Debug, Clone)]
pub(super) enum Told {
    /// To a submission: its number, and whether the request had been seen before.
    Submitted(Result<(JobId, bool), Refusal>),
    /// To what changes jobs.
    Changed,
    /// To a request for a token.
    Token(JoinToken),
    /// To an enrolment: the identity that the certificate names, or why there is none.
    Enrolled(Result<Peer, &'static str>),
}

impl Ask {
    /// What a client's or joiner's session makes of it.
    pub(super) fn into_core(self) -> ::master::engine::Ask {
        match self {
            Ask::Submit(request, wish) => JobAsk::Submit(Box::new(Submitting {
                request,
                user: "people".to_owned(),
                content: wish.spec.content(),
                spec: wish.spec,
                asked: SubmitOptions {
                    after: wish.after,
                    ..SubmitOptions::default()
                },
                hidden: IdSet::new(),
                disclosed: wish.disclosed,
                dry_run: false,
            }))
            .into(),
            Ask::Request(job, tasks) => JobAsk::Request(job, tasks).into(),
            Ask::DropRest(job) => JobAsk::DropUnrequested(job).into(),
            Ask::Cancel(job) => JobAsk::Cancel(job, None, "somebody".to_owned()).into(),
            Ask::Retry(job, tasks) => JobAsk::Retry {
                job,
                tasks,
                only_failed: false,
            }
            .into(),
            Ask::Forget(job) => JobAsk::Forget(job).into(),
            Ask::Token(uses) => PeerAsk::CreateToken(TokenWish {
                by: "admin".to_owned(),
                role: Role::Worker,
                ttl: Span::from_secs(86_400),
                uses,
                name: "token".to_owned(),
                approval: false,
                speaks_for: None,
                ca_key_hash: [0; 32],
            })
            .into(),
            Ask::Enrol(token, key_hash) => PeerAsk::Redeem(Redeeming {
                from: "somewhere".to_owned(),
                token: token.id,
                secret: token.secret,
                name: "pc".to_owned(),
                key_hash,
                wanted: WantedRole::Any,
                expires: NEVER,
            })
            .into(),
        }
    }
}

impl From<CoreReply> for Told {
    fn from(reply: CoreReply) -> Self {
        match reply {
            CoreReply::Submitted(taken) => {
                Told::Submitted(taken.map(|taken| (taken.job.unwrap_or(JobId(0)), taken.again)))
            }
            CoreReply::Token((token, _)) => Told::Token(token),
            CoreReply::Redeemed(redeemed) => Told::Enrolled(match redeemed {
                Redeemed::Peer(peer) | Redeemed::Waiting(peer) | Redeemed::Again(peer) => Ok(peer),
                Redeemed::Wrong | Redeemed::Unfit(_) => Err("there is no such token"),
                Redeemed::Refused(why) => Err(why),
            }),
            _ => Told::Changed,
        }
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// A client.
    Client(usize),
    /// Whoever lets a worker in.
    Door(usize),
}

/// A question without an answer.
#[derive(Debug)]
pub(super) struct Question {
    who: Who,
    pub(super) ask: Ask,
}

/// When a certificate expires in a world without certificates.
const NEVER: Time = Time(u64::MAX >> 1);
/// How long nobody asks again.
const PATIENCE: Span = Span::from_secs(4);

/// What a job is, beside what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bag,
    Disclosed,
    /// Ranks, on no more hosts than there surely are.
    Ranks(u32, u32),
}

/// A job that does something that can be told from what any other job does, and whether it is only
/// disclosed.
pub(super) fn job(nonce: &str, hosts: u64, chance: &mut Chance) -> (JobSpec, bool) {
    let kind = match chance.below(4) {
        0 => Kind::Disclosed,
        1 => {
            let least = chance.between(1, hosts) as u32;
            Kind::Ranks(least, (least + chance.below(3) as u32).min(hosts as u32))
        }
        _ => Kind::Bag,
    };
    let ids = if let Kind::Ranks(least, _) = kind {
        Ranks::tasks(least)
    } else {
        // Enough of what nobody waits for that others need its places.
        let most = if kind == Kind::Disclosed { 12 } else { 5 };
        IdSet::from_range(1, chance.between(1, most) as u32)
    };

    let does = [
        "compute", "compute", "compute", "files", "files", "flaky", "fail",
    ];
    let does = chance.pick(&does).copied().unwrap_or("compute");
    let argv = [does, nonce, "%{TASK_ID}"].map(|arg| arg.parse().expect("a template"));
    let keeps = kind == Kind::Disclosed && chance.one_in(3);
    let every = keeps.then(|| Span::from_secs(30));
    let command = CommandSpec {
        checkpoint: every,
        ..CommandSpec::new(argv.to_vec())
    };

    let (work, policies): (Work, &[&str]) = match kind {
        Kind::Ranks(least, most) => {
            let said = chance
                .one_in(2)
                .then(|| (Span::from_secs(chance.between(10, 600)), 3.0));
            let work = said.map(|said| said.0);
            let parallelism = said.map(|said| said.1);
            let ranks = Ranks {
                work,
                parallelism,
                ..Ranks::new(least, Some(most))
            };

            (
                Work::Ranks(command, ranks),
                &["AVG", "PRED", "HEUR", "PRICED"],
            )
        }
        Kind::Disclosed => (
            Work::Command(command),
            &["FCFSxNEED", "SRPTxNEED", "FCFSxFCFS"],
        ),
        Kind::Bag if chance.one_in(8) => (Work::Noop, &["deskgrid", "FCFS"]),
        Kind::Bag => (
            Work::Command(command),
            &[
                "deskgrid",
                "deskgrid",
                "FCFS",
                "EXCL-PRED-TO",
                "PRI-HISTORY",
            ],
        ),
    };

    let rules = Rules {
        checkpoint: keeps,
        retries: chance.below(4) as u32,
        max_losses: chance.between(1, 12) as u32,
        timeout: chance
            .one_in(4)
            .then(|| Span::from_secs(chance.between(20, 200))),
        max_fails: chance.one_in(4).then(|| chance.below(3)),
        priority: chance.below(3) as i32,
        policy: chance
            .pick(policies)
            .copied()
            .unwrap_or("deskgrid")
            .to_owned(),
        ..Rules::default()
    };
    let needs = Needs {
        takes: takes(&rules),
        ..Needs::default()
    };
    let rules = Rules { needs, ..rules };

    let tasks = TaskSet {
        ids,
        items: Vec::new(),
    };
    (
        JobSpec {
            name: nonce.to_owned(),
            tasks,
            work,
            rules,
        },
        kind == Kind::Disclosed,
    )
}

/// Returns the `Demand` of tasks under these rules: of four jobs one takes more than a slot, and no
/// more than any worker lends.
fn takes(rules: &Rules) -> Demand {
    if rules.retries != 2 {
        return Demand::PLAIN;
    }
    Demand {
        cores: 2,
        memory_mib: 1_500,
        gpus: rules.max_losses % 2,
    }
}

impl World {
    /// Asks the master until it answers.
    pub(super) fn ask(&mut self, who: Who, ask: Ask) {
        self.next_question += 1;
        let number = self.next_question;
        self.story.tell(
            self.now,
            format_args!("people"),
            format_args!("ask #{number}: {}", words(&ask)),
        );
        self.questions.insert(number, Question { who, ask });
        self.ask_again(number);
    }

    /// Sends a question that has no answer yet.
    pub(super) fn ask_again(&mut self, number: u64) {
        let Some(question) = self.questions.get(&number) else {
            return;
        };
        let packet = Packet::Ask(number, Box::new(question.ask.clone()));
        self.send(self.people_way(), End::Master, &packet);
        self.later(PATIENCE, What::AskAgain(number));
    }

    /// The master has answered. An answer that comes twice is heard once.
    pub(super) fn on_answer(&mut self, number: u64, told: Told) -> Result<(), String> {
        let Some(Question { who, ask }) = self.questions.remove(&number) else {
            return Ok(());
        };
        match (who, ask, told) {
            (_, Ask::Submit(request, wish), Told::Submitted(Ok((job, again)))) => {
                self.story.count("submissions acknowledged");
                self.story.tell(
                    self.now,
                    format_args!("people"),
                    format_args!("{request} is job {job} (again: {again})"),
                );
                self.submitted.insert(job);
                self.after_submission(who, request, *wish, job);
            }
            // What it is to come after may be forgotten, or have failed.
            (_, Ask::Submit(request, wish), Told::Submitted(Err(refusal)))
                if refusal.code != RefusalCode::Conflict && wish.after.is_empty() =>
            {
                return Err(format!("the submission {request} was refused: {refusal}"));
            }
            (Who::Door(worker), Ask::Token(_), Told::Token(token)) => {
                self.later(Span::from_millis(100), What::Knock(worker, token));
            }
            (Who::Door(worker), Ask::Enrol(_, key), Told::Enrolled(answer)) => match answer {
                Ok(admitted) => self.let_in(worker, &admitted, key),
                Err(why) => {
                    self.story.tell(
                        self.now,
                        format_args!("people"),
                        format_args!("worker-{worker} stays out: {why}"),
                    );
                    self.story.count("enrolments refused");
                    self.later(Span::from_secs(1), What::WantToken(worker));
                }
            },
            _ => {}
        }

        Ok(())
    }

    /// What a client may do next with a job.
    fn after_submission(&mut self, who: Who, request: RequestId, wish: Wish, job: JobId) {
        let soon = |chance: &mut Chance| Span::from_secs(chance.between(1, 200));
        if self.healed() {
            return;
        }
        let tasks = wish.spec.tasks.ids.clone();
        if wish.disclosed {
            self.plan_requests(job, &tasks);
        }

        match self.chance.below(12) {
            0 => self.ask(who, Ask::Submit(request, Box::new(wish))),
            1 => {
                // The same request with another body: a mistake, and to be refused as one.
                let mut other = wish;
                "another".clone_into(&mut other.spec.name);
                self.ask(who, Ask::Submit(request, Box::new(other)));
            }
            2 => {
                let wait = soon(&mut self.chance);
                self.later(wait, What::Wish(Ask::Cancel(job)));
            }
            3..6 => {
                let wait = soon(&mut self.chance);
                self.later(wait, What::Wish(Ask::Retry(job, tasks)));
            }
            6 => {
                let wait = soon(&mut self.chance);
                self.later(wait, What::Wish(Ask::Forget(job)));
            }
            _ => {}
        }
    }

    /// Somebody asks for some tasks of a disclosed job, now and then, and may drop the others.
    fn plan_requests(&mut self, job: JobId, tasks: &IdSet) {
        let mut wait = Span::ZERO;
        for _ in 0..self.chance.between(1, 3) {
            wait = wait + Span::from_secs(self.chance.between(1, 120));
            let first = self.chance.between(1, tasks.len()) as u32;
            let wanted = tasks.intersection(&IdSet::from_range(
                first,
                first + self.chance.below(2) as u32,
            ));
            self.later(wait, What::Wish(Ask::Request(job, wanted)));
        }

        if self.chance.one_in(3) {
            wait = wait + Span::from_secs(self.chance.between(1, 60));
            self.later(wait, What::Wish(Ask::DropRest(job)));
        }
    }

    /// A client submits a job of its own.
    pub(super) fn submit(&mut self, client: usize) {
        let number = self.next_question + 1;
        let nonce = format!("c{client}-{number}");
        // Who lies may say that it leaves, and is of no use then.
        let honest = self.workers.iter().filter(|worker| !worker.liar).count() as u64;
        let (spec, disclosed) = job(&nonce, honest, &mut self.chance);
        let request = RequestId(Uuid::from_bytes(self.chance.bytes()));
        let after = if disclosed { Vec::new() } else { self.before() };
        let wish = Wish {
            spec,
            disclosed,
            after,
        };
        self.ask(Who::Client(client), Ask::Submit(request, Box::new(wish)));
    }

    /// Chooses what goes before a job: mostly nothing, else one or two of the latest jobs.
    fn before(&mut self) -> Vec<After> {
        let count = [0, 0, 1, 2][self.chance.below(4) as usize];
        let latest: Vec<JobId> = self.submitted.iter().rev().take(4).copied().collect();
        let mut before = std::collections::BTreeMap::new();
        for _ in 0..count {
            let ok = self.chance.one_in(2);
            if let Some(job) = self.chance.pick(&latest) {
                let how = if ok {
                    EndCondition::Ok
                } else {
                    EndCondition::Any
                };
                before.insert(*job, how);
            }
        }
        let after = before.into_iter();
        after.map(|(job, how)| After { job, how }).collect()
    }

    /// Somebody stands before the door with a token.
    pub(super) fn knock(&mut self, worker: usize, token: &JoinToken) {
        // Tokens get around: another worker may try the same one.
        let friend = self.chance.below(self.workers.len() as u64 * 3) as usize;
        for who in [worker, friend] {
            if self
                .workers
                .get(who)
                .is_some_and(|worker| worker.identity.is_none())
                && !self.is_asking(who)
            {
                let mut key = [0; 32];
                key[..16].copy_from_slice(&self.chance.bytes());
                self.ask(Who::Door(who), Ask::Enrol(token.clone(), key));
            }
            if friend == worker {
                return;
            }
        }
    }

    fn is_asking(&self, worker: usize) -> bool {
        self.questions.values().any(|question| {
            question.who == Who::Door(worker) && matches!(question.ask, Ask::Enrol(..))
        })
    }

    /// Somebody wants a worker to have a token.
    pub(super) fn want_token(&mut self, worker: usize) {
        if self.workers[worker].identity.is_none() {
            let uses = 1 + u32::from(self.chance.one_in(4));
            self.ask(Who::Door(worker), Ask::Token(uses));
        }
    }
}

/// In short.
pub(super) fn words(ask: &Ask) -> String {
    match ask {
        Ask::Submit(request, wish) => {
            let spec = &wish.spec;
            let name = &spec.name;
            let tasks = spec.tasks.ids.len();
            let policy = &spec.rules.policy;
            let what = match spec.work.ranks() {
                Some(Ranks { least, most, .. }) => {
                    format!("ranks on {least} to {} hosts", most.unwrap_or(0))
                }
                None => format!("{tasks} tasks"),
            };
            let how = if wish.disclosed { "disclose" } else { "submit" };
            let after: Vec<String> = wish
                .after
                .iter()
                .map(|after| format!(" after {}:{}", after.job, after.how))
                .collect();
            let after = after.concat();
            format!("{how} {name} with {what} under {policy} as {request}{after}")
        }
        Ask::Request(job, tasks) => format!("request {tasks} of {job}"),
        Ask::DropRest(job) => format!("drop the rest of {job}"),
        Ask::Cancel(job) => format!("cancel {job}"),
        Ask::Retry(job, _) => format!("retry {job}"),
        Ask::Forget(job) => format!("forget {job}"),
        Ask::Token(uses) => format!("a token for {uses}"),
        Ask::Enrol(token, _) => format!("enrol with token {}", token.id),
    }
}

/// When somebody does something, spread over the time of trouble.
pub(super) fn some_time(chance: &mut Chance, until: Time) -> Time {
    Time(chance.below(until.0))
}
