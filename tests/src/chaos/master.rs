//! The master's machine in the simulated world: around the real engine its disk, its clock, what
//! has come over the network and waits, and copies of the store from earlier days. What is not
//! here: any decision of the master's.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ::master::engine::{
    CoreReply, Engine, Letter, Peer, PeerAsk, PeerStatus, StoreShadow, UpkeepAsk,
};
use ::master::{Config, StoreError};
use common::content::BlobHash;
use common::settings::ConfigDuration;
use common::wire::worker::{ToMaster, ToWorker};
use common::{BlobRef, HostId, Span, Time};
use scheduler::Parting;
use uuid::Uuid;

use super::audit::Promised;
use super::chance::Chance;
use super::contents::Shelves;
use super::net::{self, End, Frame, Packet};
use super::people::{Ask, Told};
use super::world::{What, World};
use super::{disk, vfs};

/// Its disk's name.
pub(super) const DISK: &str = "master";
/// The store's files, of which a copy is made.
const FILES: [&str; 3] = ["store.sqlite", "store.sqlite-wal", "store.sqlite-journal"];
/// The wall clock at the beginning of a run, in microseconds.
const TODAY: u64 = 1_780_000_000_000_000;

/// What has arrived and is not considered yet.
#[derive(Debug)]
enum Came {
    Open(u64, Uuid, [u8; 32]),
    Word(u64, ToMaster),
    Closed(u64, HostId),
    Ask(u64, Ask),
    Sweep,
}

/// A copy of the store, with what it promised.
struct Copy {
    files: BTreeMap<String, Vec<u8>>,
    contents: BTreeMap<BlobHash, (u64, Time)>,
    promised: Promised,
}

/// The master's machine.
pub(super) struct Node {
    engine: Option<Engine>,
    contents: Shelves,
    config: Config,
    /// How much its clock is ahead of the simulated time.
    ahead: u64,
    /// Counts its runs.
    pub(super) run: u64,
    came: Vec<Came>,
    asked: BTreeMap<u64, Ask>,
    wakeup: Option<Time>,
    pub(super) asleep: Time,
    copy: Option<Copy>,
    groups: u64,
    /// The copy of its store in a database, where one is kept.
    pub(super) shadow: Option<StoreShadow>,
}

/// Whom a certificate names, if it is known and not revoked.
pub(super) fn who(
    engine: &mut Engine,
    id: Uuid,
    key_hash: [u8; 32],
) -> Result<Option<Peer>, StoreError> {
    let shows = PeerAsk::Authenticate(id, key_hash, None);
    Ok(match engine.look(shows)? {
        CoreReply::Standing(PeerStatus::In(peer)) => Some(peer),
        _ => None,
    })
}

impl Node {
    /// A machine on which no master runs yet.
    pub(super) fn new(chance: &mut Chance) -> Self {
        disk::insert(DISK);
        let interval = ConfigDuration::from_secs;
        let lease = chance.between(60, 300);
        let config = Config {
            heartbeat: interval(10),
            suspect_after: interval(25),
            lease: interval(lease),
            content_grace: interval(chance.between(60, 900)),
            ..Config::default()
        };
        Self {
            engine: None,
            contents: Shelves::default(),
            config,
            ahead: TODAY,
            run: 0,
            came: Vec::new(),
            asked: BTreeMap::new(),
            wakeup: None,
            asleep: Time(0),
            copy: None,
            groups: 0,
            shadow: None,
        }
    }

    /// What runs, if it does.
    pub(super) fn engine(&self) -> Option<&Engine> {
        self.engine.as_ref()
    }

    fn clock(&self, now: Time) -> Time {
        Time(now.0 + self.ahead)
    }
}

impl World {
    /// Starts the master on what its disk has.
    pub(super) fn start_master(&mut self) -> Result<(), String> {
        if self.master.engine.is_some() {
            return Ok(());
        }

        self.master.run += 1;
        disk::on(DISK, disk::Disk::revive);

        // The wall clock may have been set meanwhile; it counts only now.
        if self.chance.one_in(4) {
            self.master.ahead += self.chance.below(7_200_000_000);
        } else if self.chance.one_in(4) && !self.copies {
            self.master.ahead -= self.chance.below(3_600_000_000);
        }

        if !self.healed() && self.chance.one_in(6) {
            let at = self.chance.below(12) as u32;
            self.light(DISK, at);
        }

        let now = self.master.clock(self.now);
        let laws = self.laws.master;
        let contents = Arc::new(self.master.contents.clone());

        match Engine::open(
            Path::new("/chaos/master"),
            now,
            &self.master.config,
            contents,
            &disk::Logs,
            laws,
            self.master.shadow.as_ref(),
        ) {
            Ok(engine) => {
                let incarnation = engine.incarnation();
                self.story.tell(
                    self.now,
                    format_args!("master"),
                    format_args!("starts, incarnation {incarnation}"),
                );
                self.story.count("starts of the master");
                self.master.engine = Some(engine);
                self.master_says()?;
                self.look(true)?;
                self.plan_master();
            }
            Err(error) => {
                self.story.tell(
                    self.now,
                    format_args!("master"),
                    format_args!("does not start: {error}"),
                );
                self.story.count("failed starts of the master");
                if !disk::on(DISK, |disk| disk.is_dead()) && self.healed() {
                    return Err(format!("the master does not start: {error}"));
                }
                self.end_master("it did not start")?;
            }
        }

        Ok(())
    }

    /// The master's process is gone, and perhaps the power of its machine with it.
    pub(super) fn end_master(&mut self, why: &str) -> Result<(), String> {
        let power = self.chance.one_in(2);
        self.story.count(if power {
            "masters without power"
        } else {
            "masters killed"
        });
        self.story.tell(
            self.now,
            format_args!("master"),
            format_args!("is gone ({why}, power lost: {power})"),
        );

        // What it has sent before may arrive.
        if self.master.engine.is_some() {
            self.master_says()?;
        }

        disk::on(DISK, disk::Disk::kill);
        self.forget_master();
        if power {
            disk::on(DISK, |disk| disk.lose_power(&mut self.chance));
        }

        let pause = Span::from_millis(self.chance.between(100, 40_000));
        self.later(pause, What::StartMaster);
        Ok(())
    }

    /// Everything that was in its memory is gone.
    fn forget_master(&mut self) {
        self.master.engine = None;
        self.audit.on_master_gone();
        self.master.run += 1;
        vfs::forget_memory(DISK);
        self.master.came.clear();
        self.master.asked.clear();
        self.master.wakeup = None;
        let connections: Vec<u64> = self.net.connections.keys().copied().collect();
        connections
            .into_iter()
            .for_each(|connection| self.net.close(connection, End::Master));
    }

    /// The master ends in order.
    pub(super) fn stop_master(&mut self) {
        if self.master.engine.is_none() {
            return;
        }
        self.story.tell(
            self.now,
            format_args!("master"),
            format_args!("stops in order"),
        );
        self.forget_master();
        let pause = Span::from_millis(self.chance.between(100, 20_000));
        self.later(pause, What::StartMaster);
    }

    /// A copy of the store is made, as it is between two groups of changes.
    pub(super) fn copy_master(&mut self) {
        if self.master.engine.is_none() {
            return;
        }

        let files = disk::on(DISK, |disk| disk.copy(&FILES));
        let contents = self.master.contents.copy();
        let promised = self.audit.promised.clone();

        self.story.tell(
            self.now,
            format_args!("people"),
            format_args!("copy the master's store"),
        );
        self.master.copy = Some(Copy {
            files,
            contents,
            promised,
        });
    }

    /// The store is destroyed, and somebody puts the last copy in its place.
    pub(super) fn restore_master(&mut self) {
        let Some(copy) = self.master.copy.take() else {
            return;
        };
        disk::on(DISK, disk::Disk::kill);
        self.forget_master();
        disk::on(DISK, |disk| disk.restore(&FILES, &copy.files));
        self.master.contents.restore(copy.contents);
        self.audit.promised = copy.promised;

        self.story.tell(
            self.now,
            format_args!("people"),
            format_args!("put a copy of the store in its place"),
        );
        self.story.count("restored copies");

        let pause = Span::from_millis(self.chance.between(100, 20_000));
        self.later(pause, What::StartMaster);
    }

    /// Frames have arrived at the master.
    pub(super) fn on_master_frames(
        &mut self,
        connection: u64,
        frames: Vec<Frame>,
    ) -> Result<(), String> {
        for frame in frames {
            let came = match frame {
                Frame::Open(id, key) => Came::Open(connection, id, key),
                Frame::Word(bytes) => Came::Word(connection, net::read(&bytes)?),
                Frame::Close(_) => {
                    self.close_at_master(connection);
                    return Ok(());
                }
            };
            self.master.came.push(came);
        }

        self.wake_master();
        Ok(())
    }

    /// The master's end of a connection is gone.
    pub(super) fn close_at_master(&mut self, connection: u64) {
        let there = self.net.connections.get(&connection);
        let host = there
            .filter(|there| there.welcome)
            .and_then(|there| there.host.clone());
        self.net.close(connection, End::Master);
        if let Some((host, _)) = host {
            self.master.came.push(Came::Closed(connection, host));
            self.wake_master();
        }
    }

    /// Content has come on a stream of its own.
    pub(super) fn on_put(&mut self, connection: u64, blob: BlobRef) {
        let Some(worker) = self
            .net
            .connections
            .get(&connection)
            .map(|there| there.worker)
        else {
            return;
        };
        if self.master.engine.is_some() && self.net.is_open(connection, End::Master) {
            self.master.contents.put(blob, self.master.clock(self.now));
            self.send(worker, End::Worker, &Packet::Stored(connection, blob));
        }
    }

    /// A question has come.
    pub(super) fn on_ask(&mut self, number: u64, ask: Ask) {
        if self.master.engine.is_some() {
            self.master.came.push(Came::Ask(number, ask));
            self.wake_master();
        }
    }

    /// It is time to sweep.
    pub(super) fn sweep(&mut self) {
        if self.master.engine.is_some() {
            self.master.came.push(Came::Sweep);
            self.wake_master();
        }
    }

    /// What has come is considered soon, together with what comes until then.
    fn wake_master(&mut self) {
        let at = self.now + Span(self.chance.between(100, 4_000));
        self.plan_master_at(at);
    }

    fn plan_master(&mut self) {
        let Some(engine) = &self.master.engine else {
            return;
        };
        let patience = engine
            .patience(self.master.clock(self.now))
            .max(Span(1_000));
        self.plan_master_at(self.now + patience);
    }

    fn plan_master_at(&mut self, at: Time) {
        if self.master.engine.is_some() && self.master.wakeup.is_none_or(|planned| at < planned) {
            self.master.wakeup = Some(at);
            self.later(at.since(self.now), What::Master(self.master.run));
        }
    }

    /// The master does one group of what there is to do.
    pub(super) fn master_group(&mut self) -> Result<(), String> {
        if self.master.wakeup.is_some_and(|at| at > self.now) || self.master.engine.is_none() {
            return Ok(());
        }

        self.master.wakeup = None;
        let idle = self.master.came.is_empty();
        match self.consider() {
            Ok(()) => {
                self.master_says()?;
                self.master.groups += u64::from(!idle);
                if !idle {
                    self.look(self.master.groups.is_multiple_of(20))?;
                }
                self.plan_master();
                Ok(())
            }
            Err(error) => {
                self.story.count("failures of the store");
                self.end_master(&format!("its store: {error}"))
            }
        }
    }

    fn consider(&mut self) -> Result<(), StoreError> {
        let now = self.master.clock(self.now);
        if let Some(engine) = &mut self.master.engine {
            engine.look_at_clock(now)?;
        }
        for came in std::mem::take(&mut self.master.came) {
            self.consider_one(came)?;
        }
        match &mut self.master.engine {
            Some(engine) => engine.finish_group(),
            None => Ok(()),
        }
    }

    fn consider_one(&mut self, came: Came) -> Result<(), StoreError> {
        let now = self.master.clock(self.now);
        let Some(engine) = &mut self.master.engine else {
            return Ok(());
        };
        match came {
            Came::Open(connection, id, key) => {
                if !self.net.is_open(connection, End::Master) {
                    return Ok(());
                }
                match who(engine, id, key)?.and_then(|peer| Some((peer.host?, peer.name))) {
                    Some(host) => {
                        if let Some(there) = self.net.connections.get_mut(&connection) {
                            there.host = Some(host);
                        }
                    }
                    None => self.refuse(connection, true),
                }
            }
            Came::Word(connection, message) => return self.consider_word(connection, message),
            Came::Closed(connection, host) => {
                engine.disconnected(host, connection, Parting::Silent)?;
            }
            Came::Ask(number, ask) => {
                self.audit.on_asked(&ask);
                self.master.asked.insert(number, ask.clone());
                engine.ask(number, ask.into_core())?;
            }
            Came::Sweep => {
                let old = self
                    .master
                    .contents
                    .older_than(self.master.config.content_grace.0, now);
                if let CoreReply::Count(1..) = engine.look(UpkeepAsk::Sweep(old))? {
                    self.story.count("sweeps of content");
                }
            }
        }

        Ok(())
    }

    fn consider_word(&mut self, connection: u64, message: ToMaster) -> Result<(), StoreError> {
        let Some(engine) = &mut self.master.engine else {
            return Ok(());
        };

        // What has come before the connection ended is heard, as in the real master's queue.
        let Some(there) = self.net.connections.get_mut(&connection) else {
            return Ok(());
        };
        let Some((host, name)) = there.host.clone() else {
            return Ok(());
        };
        if !there.open[End::Master as usize] {
            return Ok(());
        }

        if !there.welcome {
            there.welcome = true;
            if let Err(refusal) = engine.greet(host, &name, connection, message)? {
                self.story.tell(
                    self.now,
                    format_args!("master"),
                    format_args!("refuses #{connection}: {refusal}"),
                );
                self.refuse(connection, false);
            }
            return Ok(());
        }

        if let Err(why) = engine.hear(host, connection, message)? {
            engine.disconnected(host, connection, Parting::Closed)?;
            self.story.tell(
                self.now,
                format_args!("master"),
                format_args!("ends #{connection}: {why}"),
            );
            self.story.count("deliveries without their content");
            self.refuse(connection, false);
        }

        Ok(())
    }

    /// Ends a connection from the master's side.
    fn refuse(&mut self, connection: u64, for_good: bool) {
        self.push(connection, End::Worker, Frame::Close(for_good));
        self.net.close(connection, End::Master);
    }

    /// What the master has sent and answered goes out.
    fn master_says(&mut self) -> Result<(), String> {
        let Some(engine) = &mut self.master.engine else {
            return Ok(());
        };
        let letters = engine.letters();
        let answers = engine.replies();

        for (_, letter) in &letters {
            if let Letter::Says(message) = letter {
                self.audit.on_word(message);
                self.audit.on_first(message, engine)?;
            }
        }

        for (connection, letter) in letters {
            match letter {
                Letter::Says(message) => {
                    let worker = self
                        .net
                        .connections
                        .get(&connection)
                        .map(|there| there.worker);
                    if let Some(worker) = worker {
                        self.tell_of(worker, &message);
                        self.audit.on_sent(worker, &message)?;
                    }
                    self.push(connection, End::Worker, net::to_worker(&message));
                }
                Letter::Ends => self.refuse(connection, false),
            }
        }

        for (number, answered) in answers {
            let Some(ask) = self.master.asked.remove(&number) else {
                continue;
            };
            let answered = Told::from(answered);
            self.audit.on_answered(&ask, &answered)?;
            self.send(
                self.people_way(),
                End::Worker,
                &Packet::Answer(number, Box::new(answered)),
            );
        }

        Ok(())
    }

    fn tell_of(&mut self, worker: usize, message: &ToWorker) {
        let now = self.now;
        let list = |ids: &mut dyn Iterator<Item = String>| ids.collect::<Vec<_>>().join(", ");
        match message {
            ToWorker::Assign(work) => {
                let ids = list(&mut work.iter().map(|work| work.attempt.to_string()));
                self.story.tell(
                    now,
                    format_args!("master"),
                    format_args!("gives worker-{worker} {ids}"),
                );
            }
            ToWorker::Acknowledged(ids) => {
                let ids = list(&mut ids.iter().map(ToString::to_string));
                self.story.count("acknowledgements");
                self.story.tell(
                    now,
                    format_args!("master"),
                    format_args!("acknowledges {ids} to worker-{worker}"),
                );
            }
            ToWorker::Stop { attempts, why } | ToWorker::Yield { attempts, why } => {
                let ids = list(&mut attempts.iter().map(ToString::to_string));
                self.story.tell(
                    now,
                    format_args!("master"),
                    format_args!("stops {ids} on worker-{worker}: {why}"),
                );
            }
            ToWorker::AssignTogether(work) => {
                let ids = list(&mut work.iter().map(|work| work.attempt.to_string()));
                let again = work.iter().any(|work| work.attempt.number > 1);
                self.story.count(if again {
                    "ranks started again"
                } else {
                    "ranks started"
                });
                self.story.tell(
                    now,
                    format_args!("master"),
                    format_args!("gives worker-{worker} {ids}, to wait"),
                );
            }
            ToWorker::Begin(attempts) => {
                let ids = list(&mut attempts.iter().map(ToString::to_string));
                self.story.count("ranks begun");
                self.story.tell(
                    now,
                    format_args!("master"),
                    format_args!("has {ids} begin on worker-{worker}"),
                );
            }
            ToWorker::Hold { attempts, frozen } => {
                let ids = list(&mut attempts.iter().map(ToString::to_string));
                let what = if *frozen { "freezes" } else { "lets go on" };
                self.story.count(if *frozen {
                    "frozen attempts"
                } else {
                    "attempts that went on"
                });
                self.story.tell(
                    now,
                    format_args!("master"),
                    format_args!("{what} {ids} on worker-{worker}"),
                );
            }
            _ => {}
        }
    }

    /// Compares what the master counts by differences with its store, which is asked at the end alone.
    pub(super) fn compare_counts(&self) -> Result<(), String> {
        match self.master.engine.as_ref().map(Engine::unused_is_right) {
            Some(Ok(true)) | None => Ok(()),
            Some(Ok(false)) => {
                Err("what counts as unused content is not what the store has".into())
            }
            Some(Err(error)) => Err(format!("the store cannot be read: {error}")),
        }
    }

    /// Looks through the store.
    pub(super) fn look(&mut self, all: bool) -> Result<(), String> {
        match &mut self.master.engine {
            Some(engine) => self.audit.look(engine, &self.master.contents, all),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use disk::Fault;

    /// Starts a master on the disk `d`, and ends it; whether it did start.
    fn start() -> bool {
        let contents = Arc::new(Shelves::default());
        let dir = Path::new("/chaos/d");
        let config = Config::default();
        let engine = Engine::open(
            dir,
            Time(TODAY),
            &config,
            contents,
            &disk::Logs,
            ::master::SafetyRules::KEPT,
            None,
        );
        let started = engine.is_ok();

        drop(engine);
        vfs::forget_memory("d");
        started
    }

    fn store() -> Connection {
        let db = Connection::open("/chaos/d/store.sqlite").unwrap();
        db.pragma_update(None, "synchronous", "FULL").unwrap();
        db
    }

    /// The process that has the store dies, and the power goes with it where there is a chance.
    fn die(power: Option<&mut Chance>) {
        vfs::forget_memory("d");
        disk::on("d", |disk| {
            disk.kill();
            if let Some(chance) = power {
                disk.lose_power(chance);
            }
            disk.revive();
        });
    }

    /// Six rows in one transaction, on pages far from each other.
    fn add(db: &Connection, n: i64) -> rusqlite::Result<()> {
        let rows: String = (0..6)
            .map(|row| {
                format!(
                    "INSERT INTO t VALUES ({}, '{}');",
                    (row * 17 + n) % 97,
                    "x".repeat(1_900)
                )
            })
            .collect();
        db.execute_batch(&format!("BEGIN; {rows} COMMIT;"))
    }

    #[test]
    fn memory_left_by_a_failed_sync_harms_no_start_after_power_loss() {
        vfs::install();
        for (first, second) in (24..60).flat_map(|first| (3..9).map(move |second| (first, second)))
        {
            disk::insert("d");
            assert!(start());

            let db = store();
            db.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)")
                .unwrap();

            let mut kept = (0..8).map(|n| add(&db, n)).filter(Result::is_ok).count() as i64;
            // What the log holds from here on are pages that it did not hold before.
            db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
                .unwrap();
            disk::on("d", |disk| disk.light(first, Fault::Fails));
            kept += (8..12).take_while(|n| add(&db, *n).is_ok()).count() as i64;
            assert!(kept < 12, "nothing went wrong");
            disk::on("d", disk::Disk::kill);

            drop(db);
            die(None);
            disk::on("d", |disk| disk.light(second, Fault::DiesBefore));
            start();
            die(Some(&mut Chance::new(u64::from(first * 12 + second), 0)));

            let story = format!(
                "a sync or write failed at operation {first}, the next start died at {second}"
            );
            assert!(start(), "{story}: the store is damaged");

            let found: i64 = store()
                .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
                .unwrap();
            assert!(
                (6 * kept..=6 * kept + 6).contains(&found),
                "{story}: {kept} times six were there, now {found}"
            );
            die(None);
        }

        disk::clear();
    }
}
