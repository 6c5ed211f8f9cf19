//! The way from a master to the database and back, on which requests or answers may stay.

use ::master::engine::{SimulatedAnswer, SimulatedFault, SimulatedStatement};
use common::{Span, Time};

use super::database::{Stopped, fault, lost, takes_over};
use super::process::Reply;
use super::trouble::{Fuse, Trouble};
use super::world::{What, World};

/// A shorter cut only delays what is sent over a connection; a longer one ends it.
const OUTLIVED: Span = Span::from_secs(8);

impl World {
    /// The time that something takes on the way now, which is cut until `until`; `None` if that is longer than a
    /// connection lives.
    pub(super) fn way(&mut self, m: usize, until: Time) -> Option<Span> {
        let slow = self.masters[m].slow > self.now;
        let takes = if slow {
            Span::from_millis(self.chance.between(100, 3_500))
        } else {
            Span(self.chance.between(100, 2_000))
        };
        let cut = until.since(self.now);
        (cut < OUTLIVED).then(|| cut + takes)
    }

    /// The process hears nothing more, and finds out after some time. The server finds out, too.
    pub(super) fn lose(&mut self, m: usize, after: Span, reply: Reply) {
        let sessions = self.masters[m].sessions.iter().copied().collect();
        self.later(after + Span::from_secs(2), What::Close(sessions));
        self.resume_later(m, after, reply);
    }

    pub(super) fn connect(&mut self, m: usize, run: u64) {
        if self.masters[m].run != run {
            return;
        }
        if self.server.down > self.now {
            return self.resume_later(m, Span::from_millis(3), Reply::Connected(Err(lost())));
        }
        let session = self.server.connect(self.now);
        self.masters[m].sessions.insert(session);
        match self.way(m, self.masters[m].cut.1) {
            Some(wait) => self.resume_later(m, wait, Reply::Connected(Ok(session))),
            None => self.lose(m, Span::from_secs(5), Reply::Connected(Err(lost()))),
        }
    }

    pub(super) fn send_off(&mut self, m: usize, session: u64, statements: Vec<SimulatedStatement>) {
        let run = self.masters[m].run;
        let Some(wait) = self.way(m, self.masters[m].cut.0) else {
            return self.lose(m, OUTLIVED, Reply::Flown(Err(lost())));
        };
        let short = statements
            .iter()
            .any(|statement| statement.sql.contains("lock_timeout = '1s'"));
        let patience = Span::from_secs(if short { 1 } else { 5 });
        let until = self.now + wait + patience;
        self.later(wait, What::Fly(m, run, session, statements, until));
    }

    /// Statements have arrived at the database, whatever has become of the process since.
    pub(super) fn fly(
        &mut self,
        m: usize,
        run: u64,
        session: u64,
        statements: Vec<SimulatedStatement>,
        until: Time,
    ) {
        let commits = statements.last().is_some_and(|last| {
            &*last.sql == "COMMIT" || statements.len() == 1 && last.sql.starts_with("UPDATE")
        });
        let fuse = (self.masters[m].run == run)
            .then(|| self.burn(m, &statements))
            .flatten();
        match fuse {
            Some(Fuse::KillBefore) => return self.kill(m, "killed before a flight"),
            Some(Fuse::BreakBefore) => {
                self.server.close(session);
                return self.resume_later(m, Span::from_millis(5), Reply::Flown(Err(lost())));
            }
            Some(Fuse::Hole) => self.server.copy(self.now),
            _ => {}
        }
        let takes_over = statements.iter().any(|one| takes_over(one).is_some());
        if takes_over && !self.synchronous && self.chance_at_takeover.one_in(6) {
            self.server.copy(self.now);
            let soon = Span::from_millis(self.chance_at_takeover.between(500, 8_000));
            self.later(soon, What::Trouble(Trouble::Failover));
        }

        let flown = self.server.fly(session, &statements, self.now);
        let flown = match flown {
            Err(Stopped::Busy) if self.now < until => {
                let again = What::Fly(m, run, session, statements, until);
                return self.later(Span::from_millis(20), again);
            }
            Err(Stopped::Busy) => Err(fault("55P03", "another transaction has the lease")),
            Err(Stopped::Fault(fault)) => Err(fault),
            Ok(answers) => Ok(answers),
        };
        if let Err(fault) = &flown {
            let last = statements.last().map_or("", |last| &last.sql);
            let last: String = last.chars().take(40).collect();
            let (code, words) = (fault.code, fault.words.clone());
            self.tell(
                format_args!("database"),
                format_args!("to m{m}: {words} ({code}), not: {last}"),
            );
        }
        if self.masters[m].run == run {
            self.fly_back(m, session, flown, commits, fuse);
        }
    }

    fn fly_back(
        &mut self,
        m: usize,
        session: u64,
        flown: Result<Vec<SimulatedAnswer>, SimulatedFault>,
        commits: bool,
        fuse: Option<Fuse>,
    ) {
        match fuse {
            Some(Fuse::KillAfter) => return self.kill(m, "killed after a flight"),
            Some(Fuse::BreakAfter | Fuse::Hole) => {
                if fuse == Some(Fuse::Hole) {
                    self.fall_into_hole(m);
                }
                self.count("answers to a commit that were lost");
                self.server.close(session);
                return self.resume_later(m, Span::from_millis(5), Reply::Flown(Err(lost())));
            }
            Some(Fuse::PauseAtCommit) => self.stand_still(m),
            Some(Fuse::PauseAtSweep) => {
                self.count("pauses in the middle of a sweep");
                self.stand_still(m);
            }
            _ => {}
        }
        // Whoever hears of a commit hears that the replica has it, with all before it.
        if commits && flown.is_ok() && self.synchronous {
            self.server.replica = None;
        }
        match self.way(m, self.masters[m].cut.1) {
            Some(wait) => self.resume_later(m, wait, Reply::Flown(flown)),
            None => self.lose(m, OUTLIVED, Reply::Flown(Err(lost()))),
        }
    }
}
