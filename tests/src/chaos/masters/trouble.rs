//! What goes wrong with masters and their database, and when.

use ::master::engine::SimulatedStatement;
use common::Span;

use super::world::{HOSTS, TROUBLE, What, World};

/// Something that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// A master stands still, wherever it is.
    Paused(usize),
    /// A master is cut off from the database: requests, answers, or both do not pass.
    CutOff(usize),
    /// All masters are.
    AllCutOff,
    /// A master is cut off from all workers and clients, or from one worker.
    Alone(usize),
    Way(usize, usize),
    /// The process is killed.
    Killed(usize),
    /// Something happens at one of a master's next flights.
    Flight(usize, Fuse),
    /// The database is slow for a master.
    Slow(usize),
    /// The database restarts.
    Restart,
    /// The replica stays behind from now on (asynchronous).
    Behind,
    /// The database dies, and its replica takes its place.
    Failover,
    /// The same, and the master that has the store dies with it (synchronous).
    BothDie,
    /// A master hands over in order.
    Stops(usize),
}

/// What happens at a flight to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fuse {
    KillBefore,
    KillAfter,
    /// The connection breaks before the flight has arrived.
    BreakBefore,
    /// It breaks after that: the answer is lost.
    BreakAfter,
    /// The master stands still before it hears of a commit, or what a sweep asks.
    PauseAtCommit,
    PauseAtSweep,
    /// The database commits, restarts before the replica has confirmed that, and shows what it has.
    Hole,
}

impl World {
    /// Plans all trouble of a run.
    pub(super) fn plan_trouble(&mut self) {
        let every = [6_000, 15_000, 40_000][self.chance.below(3) as usize];
        let mut at = 4_000_000;
        loop {
            at += self.chance.below(2_000 * every);
            if at >= TROUBLE.0 {
                return;
            }
            let trouble = self.draw();
            self.later(Span(at), What::Trouble(trouble));
        }
    }

    fn draw(&mut self) -> Trouble {
        let m = self.chance.below(self.masters.len() as u64) as usize;
        let h = self.chance.below(HOSTS as u64) as usize;
        match self.chance.below(30) {
            0..4 => Trouble::Paused(m),
            4..7 => Trouble::CutOff(m),
            7 => Trouble::AllCutOff,
            8 => Trouble::Alone(m),
            9 => Trouble::Way(m, h),
            10..12 => Trouble::Killed(m),
            12 => Trouble::Flight(m, Fuse::KillBefore),
            13 => Trouble::Flight(m, Fuse::KillAfter),
            14 => Trouble::Flight(m, Fuse::BreakBefore),
            15 => Trouble::Flight(m, Fuse::BreakAfter),
            16..19 | 21 if self.synchronous => Trouble::Flight(m, Fuse::Hole),
            16..19 => Trouble::Behind,
            19 => Trouble::Slow(m),
            20 => Trouble::Restart,
            21 => Trouble::Failover,
            22..24 => Trouble::Flight(m, Fuse::PauseAtCommit),
            24..28 => Trouble::Flight(m, Fuse::PauseAtSweep),
            _ => Trouble::Stops(m),
        }
    }

    /// Something goes wrong.
    pub(super) fn strike(&mut self, trouble: Trouble) {
        if self.now >= TROUBLE || self.calm > self.now {
            return;
        }
        self.tell(format_args!("trouble"), format_args!("{trouble:?}"));
        let now = self.now;
        let long = [1_000, 7_000, 60_000][self.chance.below(3) as usize];
        let span = Span::from_millis(self.chance.between(100, long));
        match trouble {
            Trouble::Paused(m) => {
                let m = self.mostly_active(m);
                self.masters[m].paused = now + span;
                self.trouble_of(m, span);
                self.count("pauses");
            }
            Trouble::CutOff(m) => {
                let m = self.mostly_active(m);
                self.cut_off(m, span);
            }
            Trouble::AllCutOff => {
                for m in 0..self.masters.len() {
                    self.masters[m].cut = (now + span, now + span);
                }
                self.count("cuts of all masters to the database");
            }
            Trouble::Alone(m) => {
                let m = self.mostly_active(m);
                for h in 0..=HOSTS {
                    self.cuts.insert((m, h), now + span);
                }
                self.count("masters cut off from all but the database");
            }
            Trouble::Way(m, h) => {
                self.cuts.insert((m, h), now + span);
            }
            Trouble::Killed(m) => {
                let m = self.mostly_active(m);
                self.kill(m, "killed");
            }
            Trouble::Flight(m, fuse) => {
                let m = self.mostly_active(m);
                let within = match fuse {
                    Fuse::Hole | Fuse::PauseAtSweep => 3,
                    _ => 12,
                };
                self.masters[m].fuse = Some((self.chance.below(within), fuse));
                self.trouble_of(m, Span::from_secs(15));
            }
            Trouble::Slow(m) => {
                let m = self.mostly_active(m);
                self.masters[m].slow = now + span;
                self.trouble_of(m, span);
            }
            Trouble::Restart => self.restart(Span(span.0.min(30_000_000))),
            Trouble::Behind => {
                self.server.copy(now);
                let wait = Span::from_millis(self.chance.between(500, 25_000));
                self.later(wait, What::Trouble(Trouble::Failover));
            }
            Trouble::Failover => self.fail_over(),
            Trouble::BothDie => {
                if let Some(m) = self.active() {
                    self.kill(m, "killed with its database");
                }
                self.fail_over_synchronously();
            }
            Trouble::Stops(m) => {
                let m = self.mostly_active(m);
                self.masters[m].stops = self.masters[m].active.is_some();
            }
        }
    }

    fn active(&self) -> Option<usize> {
        self.holder.filter(|m| self.masters[*m].active.is_some())
    }

    /// This master, or rather the one that has the store.
    fn mostly_active(&mut self, m: usize) -> usize {
        let rather = self.chance.below(3) > 0;
        self.active().filter(|_| rather).unwrap_or(m)
    }

    fn trouble_of(&mut self, m: usize, span: Span) {
        let master = &mut self.masters[m];
        master.troubled = master.troubled.max(self.now + span);
    }

    fn cut_off(&mut self, m: usize, span: Span) {
        let until = self.now + span;
        let (to, from) = match self.chance.below(3) {
            0 => (until, self.now),
            1 => (self.now, until),
            _ => (until, until),
        };
        // One that is cut off for longer, with all others, is not back before them.
        let cut = &mut self.masters[m].cut;
        *cut = (cut.0.max(to), cut.1.max(from));
        self.trouble_of(m, span);
        self.count("cuts to the database");
    }

    /// All sessions end, and the database is away for some time.
    fn restart(&mut self, away: Span) {
        self.server.close_all();
        self.server.down = self.now + away;
        self.count("restarts of the database");
    }

    /// The replica takes the database's place. An asynchronous one may be behind: only as long as the master
    /// that has the store is well, and as the replica knows of it, nothing is lost.
    fn fail_over(&mut self) {
        if self.synchronous {
            return self.fail_over_synchronously();
        }
        let lease = self.server.lease();
        let well = self.active().is_some_and(|m| {
            let master = &self.masters[m];
            let cut = master.cut.0.max(master.cut.1).max(master.troubled);
            master.fuse.is_none() && !master.stops && cut < self.now
        });
        let lacks_takeover = self.server.lacks_takeover();
        let known = self.server.replica.as_ref().is_some_and(|(then, at, _)| {
            let known = then.token == lease.token || lacks_takeover;
            known && self.now.since(*at) < Span::from_secs(40)
        });
        if !well || !known {
            self.server.replica = None;
            return self.restart(Span::from_millis(500));
        }

        let then = self
            .server
            .replica
            .as_ref()
            .filter(|_| !lacks_takeover)
            .map_or(0, |(then, ..)| then.turn);
        let lacks = lease.turn - then;
        self.tell(
            format_args!("database"),
            format_args!("the replica takes its place, {lacks} groups behind, and the takeover: {lacks_takeover}"),
        );
        if lacks_takeover {
            self.leave_alone();
            self.count("takeovers that went back");
        }
        self.server.promote();
        let away = Span::from_millis(self.chance.between(20, 1_500));
        self.restart(away);
        self.calm = self.now + Span::from_secs(12);
        self.count(if lacks > 1 {
            "groups that went back"
        } else {
            "failovers"
        });
    }

    /// The master that has the store is the only one for a while: another one would find the store left to it on a
    /// replica that lacks the takeover, and what is acknowledged would be lost.
    fn leave_alone(&mut self) {
        self.alone = self.now + Span::from_secs(15);
        for m in 0..self.masters.len() {
            if self.holder != Some(m) {
                self.kill(m, "not there when the replica takes over");
            }
        }
    }

    fn fail_over_synchronously(&mut self) {
        let lacks = self.server.replica.is_some();
        self.tell(
            format_args!("database"),
            format_args!("the replica takes its place (lacks the last group: {lacks})"),
        );
        self.server.promote();
        let away = Span::from_millis(self.chance.between(20, 5_000));
        self.restart(away);
        self.count(if lacks {
            "failovers without an unconfirmed group"
        } else {
            "failovers"
        });
    }

    /// A group is committed, and seen, but not yet on the replica. The database may die before it is.
    pub(super) fn fall_into_hole(&mut self, m: usize) {
        self.count("groups seen before they were on the replica");
        self.tell(format_args!("m{m}"), format_args!("falls into the hole"));
        if self.chance.percent(70) {
            // Before the master has found out what became of its group, or after.
            let longest = [8_000, 400_000][self.chance.below(2) as usize];
            let soon = Span(self.chance.below(longest));
            self.later(soon, What::Trouble(Trouble::BothDie));
        }
    }

    /// A master stands still, for longer than others wait.
    pub(super) fn stand_still(&mut self, m: usize) {
        let span = Span::from_millis(self.chance.between(2_000, 45_000));
        self.masters[m].paused = self.now + span;
        self.trouble_of(m, span);
        self.count("pauses in the middle of a group");
    }

    /// What happens at this flight, if anything.
    pub(super) fn burn(&mut self, m: usize, statements: &[SimulatedStatement]) -> Option<Fuse> {
        let (left, fuse) = self.masters[m].fuse?;
        let commits = statements.last().is_some_and(|last| &*last.sql == "COMMIT");
        // What breaks around a commit is what matters; a group that says nothing matters less.
        let counts = match fuse {
            Fuse::Hole => commits && statements.len() > 4,
            Fuse::BreakAfter | Fuse::PauseAtCommit => commits,
            Fuse::PauseAtSweep => {
                let first = statements.first().map_or("", |first| &first.sql);
                first.starts_with("SELECT hash FROM blob_use")
            }
            _ => true,
        };
        if !counts {
            return None;
        }
        self.masters[m].fuse = (left > 0).then(|| (left - 1, fuse));
        (left == 0).then_some(fuse)
    }
}
