//! What goes wrong in the simulated world, and when. What is not here: what comes of it.

use ::worker::engine::Decision;
use common::host::YieldReason;
use common::{Span, Time};

use super::disk::{self, Fault};
use super::master::DISK;
use super::world::{What, World};

/// Something that goes wrong.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trouble {
    /// The ways to a worker, or of all clients, lose, double and delay packets for a while.
    Storm(usize),
    /// They are cut for a while, in both directions or in one.
    Cut(usize),
    /// The master's disk fails, or its process dies, at one of the next operations.
    MasterDisk,
    /// The master's process is killed.
    MasterKilled,
    /// It ends in order.
    MasterStopped,
    /// Its machine sleeps.
    MasterSleeps,
    /// Its disk is full for a while.
    MasterFull,
    /// Its store is copied.
    Copied,
    /// The copy takes the place of the store.
    Restored,
    /// A worker's disk fails, or its process dies, at one of the next operations.
    WorkerDisk(usize),
    /// A worker's machine loses its power, or its process is killed.
    WorkerKilled(usize),
    /// A worker's machine sleeps.
    WorkerSleeps(usize),
    /// A worker's disk is full for a while.
    WorkerFull(usize),
    /// A worker is set up anew, and needs a token.
    SetUp(usize),
    /// A worker's owner comes or goes.
    Owner(usize),
    /// What was to last a while is over.
    Calm(usize),
    /// There is room on the disks again.
    Room,
}

impl World {
    /// Plans all trouble of a run.
    pub(super) fn plan_trouble(&mut self, until: Time) {
        let copies = self.chance.one_in(3);
        self.copies = copies;
        if copies {
            let copied = self.chance.below(until.0 / 2);
            self.later(Span(copied), What::Trouble(Trouble::Copied));
            let restored = copied + self.chance.below(until.0 / 2);
            self.later(Span(restored), What::Trouble(Trouble::Restored));
        }

        // Some runs are full of trouble, some have hardly any.
        let every = [4_000, 12_000, 30_000, 120_000][self.chance.below(4) as usize];
        let mut at = 0;
        loop {
            at += self.chance.below(2_000 * every);
            if at >= until.0 {
                return;
            }
            let trouble = self.draw();
            self.later(Span(at), What::Trouble(trouble));
        }
    }

    fn draw(&mut self) -> Trouble {
        let ways = self.workers.len() as u64 + 1;
        let way = self.chance.below(ways) as usize;
        let worker = self.chance.below(ways - 1) as usize;

        match self.chance.below(32) {
            0..4 => Trouble::Storm(way),
            4..8 => Trouble::Cut(way),
            8..12 => Trouble::MasterDisk,
            12 => Trouble::MasterKilled,
            13 => Trouble::MasterStopped,
            14 => Trouble::MasterSleeps,
            15 => Trouble::MasterFull,
            16..21 => Trouble::WorkerDisk(worker),
            21..23 => Trouble::WorkerKilled(worker),
            23 => Trouble::WorkerSleeps(worker),
            24..26 => Trouble::WorkerFull(worker),
            26..28 => Trouble::SetUp(worker),
            _ => Trouble::Owner(worker),
        }
    }

    /// Something goes wrong.
    pub(super) fn strike(&mut self, trouble: Trouble) -> Result<(), String> {
        if self.healed() {
            return Ok(());
        }

        self.story.tell(
            self.now,
            format_args!("trouble"),
            format_args!("{trouble:?}"),
        );
        match trouble {
            Trouble::Storm(way) => self.storm(way),
            Trouble::Cut(way) => self.cut(way),
            Trouble::Calm(way) => self.calm(way),
            Trouble::MasterDisk => {
                let at = self.chance.below(25) as u32;
                self.light(DISK, at);
            }
            Trouble::MasterKilled => return self.end_master_if_there("killed"),
            Trouble::MasterStopped => self.stop_master(),
            Trouble::MasterSleeps => {
                let span = Span::from_millis(self.chance.between(500, 200_000));
                self.master.asleep = self.now + span;
                self.story.count("masters asleep");
            }
            Trouble::MasterFull => {
                let room = self.chance.below(60_000) as usize;
                disk::on(DISK, |disk| disk.limit(Some(room)));
                let wait = Span::from_millis(self.chance.between(100, 60_000));
                self.later(wait, What::Trouble(Trouble::Room));
                self.story.count("full disks of the master");
            }
            Trouble::Copied => self.copy_master(),
            Trouble::Restored => self.restore_master(),
            Trouble::WorkerDisk(w) => {
                let at = self.chance.below(6) as u32;
                let name = self.workers[w].disk().to_owned();
                self.light(&name, at);
            }
            Trouble::WorkerKilled(w) => {
                let power = self.chance.one_in(2);
                self.end_worker(w, power, "killed");
            }
            Trouble::WorkerSleeps(w) => {
                let span = Span::from_millis(self.chance.between(500, 600_000));
                self.workers[w].sleep(self.now, span);
                self.story.count("workers asleep");
            }
            Trouble::WorkerFull(w) => {
                let room = self.chance.below(400) as usize;
                disk::on(self.workers[w].disk(), |disk| disk.limit(Some(room)));
                let wait = Span::from_millis(self.chance.between(1_000, 120_000));
                // What it has in memory only is lost with it.
                if self.chance.one_in(2) {
                    self.later(wait, What::Trouble(Trouble::WorkerKilled(w)));
                }
                self.later(wait, What::Trouble(Trouble::Room));
            }
            Trouble::SetUp(w) => self.lose_identity(w),
            Trouble::Room => self.make_room(),
            Trouble::Owner(w) => {
                let reason = YieldReason::InUse;
                let decisions = [
                    Decision::Run,
                    Decision::Freeze(reason),
                    Decision::Yield(reason, 1),
                    Decision::Evict(reason),
                ];
                let decision = self
                    .chance
                    .pick(&decisions)
                    .copied()
                    .unwrap_or(Decision::Run);
                return self.turn_owner(w, decision);
            }
        }

        Ok(())
    }

    /// Has something go wrong with a disk.
    pub(super) fn light(&mut self, name: &str, at: u32) {
        let faults = [
            Fault::DiesBefore,
            Fault::DiesBefore,
            Fault::DiesAfter,
            Fault::Fails,
        ];
        let fault = self
            .chance
            .pick(&faults)
            .copied()
            .unwrap_or(Fault::DiesBefore);
        disk::on(name, |disk| disk.light(at, fault));
    }

    fn end_master_if_there(&mut self, why: &str) -> Result<(), String> {
        if self.master.engine().is_some() {
            self.end_master(why)
        } else {
            Ok(())
        }
    }

    fn storm(&mut self, way: usize) {
        let loss = self.chance.between(5, 60);
        let doubles = self.chance.below(40);
        let slowest = self.chance.between(20, 4_000);
        if let Some(there) = self.net.ways.get_mut(way) {
            there.loss = loss;
            there.doubles = doubles;
            there.slowest_ms = slowest;
        }
        self.story.count("storms");
        let wait = Span::from_millis(self.chance.between(1_000, 120_000));
        self.later(wait, What::Trouble(Trouble::Calm(way)));
    }

    fn cut(&mut self, way: usize) {
        let long = if self.chance.one_in(3) {
            600_000
        } else {
            20_000
        };
        let until = self.now + Span::from_millis(self.chance.between(100, long));
        let both = self.chance.one_in(2);
        let one = self.chance.below(2) as usize;

        if let Some(there) = self.net.ways.get_mut(way) {
            there.cut[one] = until;
            if both {
                there.cut[1 - one] = until;
            }
        }

        self.story.count(if both {
            "ways cut"
        } else {
            "ways cut in one direction"
        });
    }

    fn calm(&mut self, way: usize) {
        if let Some(there) = self.net.ways.get_mut(way) {
            there.loss = 1;
            there.doubles = 1;
            there.slowest_ms = 40;
        }
    }

    fn make_room(&mut self) {
        disk::on(DISK, |disk| disk.limit(None));
        for worker in &self.workers {
            disk::on(worker.disk(), |disk| disk.limit(None));
        }
    }

    /// Everything is mended: from now on all must come to an end.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        self.story
            .tell(self.now, format_args!("trouble"), format_args!("is over"));
        disk::on(DISK, disk::Disk::heal);
        self.master.asleep = self.now;

        for way in 0..self.net.ways.len() {
            self.calm(way);
            self.net.ways[way].cut = [self.now; 2];
        }

        for w in 0..self.workers.len() {
            disk::on(self.workers[w].disk(), disk::Disk::heal);
            self.turn_owner(w, Decision::Run)?;
        }

        Ok(())
    }
}
