//! The ways between masters, hosts and clients, and what masters say on them.

use ::master::engine::{Letter, ObjectName};
use common::wire::worker::ToWorker;
use common::{BlobRef, Span, Time};

use super::process::{Answer, Came, Said, Wish};
use super::world::{HOSTS, TODAY, What, World};

impl World {
    /// Whether the way between a master and a host, or all clients, is cut.
    pub(super) fn is_cut(&self, m: usize, h: usize) -> bool {
        self.cuts
            .get(&(m, h))
            .is_some_and(|until| *until > self.now)
    }

    /// The time at which something that is sent now arrives.
    pub(super) fn arrival(&mut self, m: usize, h: usize, to_master: bool) -> Time {
        let cut = self.cuts.get(&(m, h)).copied().unwrap_or_default();
        let at = self.now.max(cut) + Span(self.chance.between(200, 30_000));
        let last = self.order.entry((m, h, to_master)).or_default();
        *last = (*last).max(at);
        *last
    }

    pub(super) fn send_to_master(&mut self, m: usize, h: usize, came: Came) {
        let at = self.arrival(m, h, true);
        self.plan(at, What::ToMaster(m, h, came));
    }

    /// Content is uploaded: it lies in the bucket before the master hears of it.
    pub(super) fn upload(&mut self, m: usize, h: usize, session: u64, blob: BlobRef) {
        self.questions += 1;
        let number = self.questions;
        self.objects.insert(ObjectName {
            hash: blob.hash,
            generation: number.cast_signed(),
        });
        self.uploads.insert(number, (h, session, blob));
        self.send_to_master(m, h, Came::Put(number, blob));
    }

    pub(super) fn delete(&mut self, m: usize, run: u64, name: ObjectName) {
        if self.objects.remove(&name) {
            self.count("objects deleted");
        }
        if self.masters[m].run == run && self.laws.condemn_before_delete {
            self.arrive(m, HOSTS, Came::Deleted(vec![name]));
        }
    }

    pub(super) fn arrive(&mut self, m: usize, h: usize, came: Came) {
        let now = self.now;
        let master = &mut self.masters[m];
        if master.process.is_none() {
            return;
        }
        if let (Some(directory), Came::Put(number, blob)) = (&self.directory, &came) {
            directory.put(*blob, Time(TODAY + now.0));
            let at = self.arrival(m, h, false);
            return self.plan(at, What::Stored(*number, true));
        }
        let session = match &came {
            Came::Open(session, ..) if master.active.is_some() => {
                master.open.insert(*session, (h, now));
                None
            }
            Came::Ask(..) if master.active.is_none() => return,
            Came::Put(..) if master.active.is_none() => return,
            Came::Ask(..) | Came::Put(..) | Came::Deleted(..) => None,
            Came::Open(session, ..) | Came::Word(session, ..) | Came::Closed(session, _) => {
                Some(*session)
            }
        };
        if let Some(session) = session {
            let Some((_, heard)) = master.open.get_mut(&session) else {
                let at = self.arrival(m, h, false);
                return self.plan(at, What::Ended(h, session));
            };
            *heard = now;
            if let Came::Closed(..) = came {
                master.open.remove(&session);
            }
        }
        let master = &mut self.masters[m];
        master.came.push(came);
        if master.waits {
            let run = master.run;
            let wait = Span(self.chance.between(100, 4_000));
            self.later(wait, What::Wake(m, run));
        }
    }

    /// A master speaks: what it says must be its own to say.
    pub(super) fn on_said(&mut self, m: usize, said: Said) -> Result<(), String> {
        if said.letters.is_empty() && said.answers.is_empty() {
            return Ok(());
        }
        let lease = self.server.lease();
        let own = self.masters[m].active.map(|active| i64::from(active.0));
        // Where its takeover is still to be done again nobody else can have the store.
        let only_lacks = self.alone > self.now && own > Some(lease.token);
        if own != Some(lease.token) && !only_lacks {
            return Err(format!(
                "m{m} speaks as {own:?}, though {} has taken the store as {}",
                lease.member, lease.token
            ));
        }

        for (session, letter) in said.letters {
            let Some((h, _)) = self.masters[m].open.get(&session).copied() else {
                continue;
            };
            let at = self.arrival(m, h, false);
            match letter {
                Letter::Says(message) => {
                    self.tell_of(m, h, &message);
                    self.ledger.on_said(h, &message)?;
                    self.plan(at, What::ToHost(h, session, message));
                }
                Letter::Ends => self.plan(at, What::Ended(h, session)),
            }
        }
        for session in said.ended {
            if let Some((h, _)) = self.masters[m].open.remove(&session) {
                let at = self.arrival(m, h, false);
                self.plan(at, What::Ended(h, session));
            }
        }
        for (number, answer) in said.answers {
            if let (Answer::Submitted(job), Some(Wish::Submit(request, _))) =
                (&answer, self.wishes.get(&number))
            {
                self.ledger.on_submitted(*request, *job)?;
            }
            if let (Answer::Whether(forgotten), Some(Wish::Forget(job))) =
                (&answer, self.wishes.get(&number))
            {
                let first = self.asked.get(&number) == Some(&1);
                self.ledger.on_forgotten(*job, *forgotten, first);
            }
            if let (Answer::Whether(stored), Some((h, ..))) = (&answer, self.uploads.get(&number)) {
                let at = self.arrival(m, *h, false);
                self.plan(at, What::Stored(number, *stored));
                continue;
            }
            let at = self.arrival(m, HOSTS, false);
            self.plan(at, What::Answered(number, answer));
        }

        self.masters[m].groups += 1;
        // After a replica took over, what it lacks is written with the next group that has changes.
        let settled = self.calm <= self.now;
        match settled && self.masters[m].groups.is_multiple_of(20) {
            true => self.look(),
            false => Ok(()),
        }
    }

    fn tell_of(&mut self, m: usize, h: usize, message: &ToWorker) {
        let (what, ids) = match message {
            ToWorker::Assign(work) => {
                let ids = work.iter().map(|work| work.attempt.to_string());
                ("gives", ids.collect::<Vec<_>>())
            }
            ToWorker::Acknowledged(ids) => {
                self.count("acknowledgements");
                let ids = ids.iter().map(ToString::to_string);
                ("acknowledges", ids.collect())
            }
            _ => return,
        };
        let ids = ids.join(", ");
        self.tell(format_args!("m{m}"), format_args!("{what} pc-{h} {ids}"));
    }
}
