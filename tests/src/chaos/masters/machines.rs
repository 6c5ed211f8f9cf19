//! The machines that may have a master: its process is started, goes on when it has what it waited for, and ends.

use ::master::Config;
use common::settings::ConfigDuration;
use common::{Incarnation, Span};

use super::database::lost;
use super::process::{Call, Process, Reply, Setup, Why};
use super::world::{LEASE, What, World};

/// The time after trouble in which a takeover may be its consequence.
const AFTER: Span = Span::from_secs(15);

impl World {
    pub(super) fn start(&mut self, m: usize) -> Result<(), String> {
        if self.alone > self.now && self.holder != Some(m) {
            self.plan(self.alone, What::Start(m));
            return Ok(());
        }

        let master = &mut self.masters[m];
        if master.process.is_some() {
            return Ok(());
        }
        let interval = ConfigDuration::from_secs;
        master.process = Some(Process::start(Setup {
            id: format!("m{m}"),
            ahead: master.ahead,
            handed_over: master.handed_over,
            directory: self.directory.clone(),
            config: Config {
                heartbeat: interval(10),
                suspect_after: interval(25),
                lease: interval(60),
                takeover_after: interval(LEASE.0 / 1_000_000),
                ..Config::default()
            },
            laws: self.laws,
            now: self.clock.clone(),
        }));
        self.tell(format_args!("m{m}"), format_args!("starts"));
        self.drive(m, None)
    }

    /// The process is gone, at once; its connections may seem to live on for a while.
    pub(super) fn kill(&mut self, m: usize, why: &str) {
        if self.masters[m].process.is_none() {
            return;
        }
        self.tell(format_args!("m{m}"), format_args!("is gone: {why}"));
        self.gone(m);
        let lingers = if self.chance.one_in(3) { 12_000 } else { 1 };
        let sessions = std::mem::take(&mut self.masters[m].sessions);
        let sessions = sessions.into_iter().collect();
        self.later(Span::from_millis(lingers), What::Close(sessions));
        self.masters[m].handed_over = false;
        let pause = Span::from_millis(self.chance.between(100, 30_000));
        self.later(pause, What::Start(m));
    }

    fn gone(&mut self, m: usize) {
        let master = &mut self.masters[m];
        master.process = None;
        master.run += 1;
        master.active = None;
        master.waits = false;
        master.stops = false;
        master.came.clear();
        master.open.clear();
        master.fuse = None;
    }

    pub(super) fn resume(&mut self, m: usize, run: u64, reply: Reply) -> Result<(), String> {
        let master = &self.masters[m];
        if master.run != run {
            return Ok(());
        }
        if master.paused > self.now {
            let at = master.paused;
            self.plan(at, What::Resume(m, run, reply));
            return Ok(());
        }
        self.drive(m, Some(reply))
    }

    pub(super) fn resume_later(&mut self, m: usize, wait: Span, reply: Reply) {
        let run = self.masters[m].run;
        self.later(wait, What::Resume(m, run, reply));
    }

    /// Lets a process run until it waits again.
    fn drive(&mut self, m: usize, mut reply: Option<Reply>) -> Result<(), String> {
        loop {
            let Some(process) = &mut self.masters[m].process else {
                return Ok(());
            };
            if let Some(reply) = reply.take() {
                process.resume(reply);
            }
            let run = self.masters[m].run;
            let call = match &mut self.masters[m].process {
                Some(process) => process.next_call()?,
                None => return Ok(()),
            };
            match call {
                Call::Close(session) => {
                    self.masters[m].sessions.remove(&session);
                    self.server.close(session);
                }
                Call::Delete(name) => {
                    let wait = if self.laws.condemn_before_delete {
                        Span::from_millis(self.chance.below(60_000))
                    } else {
                        Span::ZERO
                    };
                    self.later(wait, What::Delete(m, run, name));
                }
                Call::Said(said) => self.on_said(m, *said)?,
                Call::Connect => {
                    match self.way(m, self.masters[m].cut.0) {
                        Some(wait) => self.later(wait, What::Connect(m, run)),
                        None => self.lose(m, Span::from_secs(5), Reply::Connected(Err(lost()))),
                    }
                    return Ok(());
                }
                Call::Fly(session, statements) => {
                    self.send_off(m, session, statements);
                    return Ok(());
                }
                Call::Sleep(time) => {
                    self.resume_later(m, time, Reply::Go);
                    return Ok(());
                }
                Call::Took(incarnation) => {
                    self.on_took(m, incarnation)?;
                    reply = Some(Reply::Go);
                }
                Call::Idle(patience) => {
                    let master = &mut self.masters[m];
                    master.waits = true;
                    let wait = if master.came.is_empty() {
                        patience
                    } else {
                        Span(1_000)
                    };
                    self.later(wait, What::Wake(m, run));
                    return Ok(());
                }
                Call::Ended(why) => return self.on_ended(m, why),
            }
        }
    }

    pub(super) fn wake(&mut self, m: usize, run: u64) -> Result<(), String> {
        let now = self.now;
        let master = &mut self.masters[m];
        if master.run != run || !master.waits {
            return Ok(());
        }
        if master.paused > now {
            let at = master.paused;
            self.plan(at, What::Wake(m, run));
            return Ok(());
        }
        master.waits = false;
        let reply = if std::mem::take(&mut master.stops) {
            Reply::Stop
        } else {
            Reply::Work(std::mem::take(&mut master.came))
        };
        self.drive(m, Some(reply))
    }

    fn on_took(&mut self, m: usize, incarnation: Incarnation) -> Result<(), String> {
        self.tell(
            format_args!("m{m}"),
            format_args!("has the store, incarnation {incarnation}"),
        );
        self.count("takeovers");
        self.masters[m].active = Some(incarnation);
        self.look()?;

        let before = self.holder.replace(m);
        let Some(before) = before.filter(|before| *before != m) else {
            return Ok(());
        };
        self.count("takeovers by another");
        // A database that was away for all of them takes the store from nobody: its holder is the first to be back.
        let one = &self.masters[before];
        if one.active.is_some() && self.now > one.troubled + AFTER {
            return Err(format!(
                "m{m} took the store from m{before}, which nothing ailed"
            ));
        }
        Ok(())
    }

    fn on_ended(&mut self, m: usize, why: Why) -> Result<(), String> {
        self.tell(format_args!("m{m}"), format_args!("ends: {why:?}"));
        self.gone(m);
        self.masters[m].handed_over = why == Why::Stopped;
        self.later(Span::from_millis(100), What::Start(m));
        match why {
            Why::Stopped => self.count("masters that handed over"),
            Why::TakenOver => self.count("masters that were taken over and woke"),
            // It waited for its database for longer than it waits.
            Why::Other(why)
                if why.contains("cannot be reached") || why.contains("the connection is lost") => {}
            Why::Other(why) => return Err(format!("m{m} ends: {why}")),
        }
        Ok(())
    }
}
