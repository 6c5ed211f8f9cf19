//! A master of a simulated world that shares its store with others: it stands by, takes the store when its
//! time has come, and is an [`Engine`] from then on. The lease, the fence and the decision are those of
//! the running program.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use common::content::BlobHash;
use common::{BlobRef, Span, Time};
use link::Contents;

use super::{Engine, UpkeepAsk};
use crate::content_place::{ContentIndex, as_system_time};
use crate::duty::{LeaseDecision, LeaseDuty};
use crate::laws::SafetyRules;
use crate::store::{
    Database, LeaseContender, MasterMember, ObjectName, PgError, SimulatedDatabase, Simulation,
    StoreError, StoreResult,
};
use crate::{Config, MasterError, locked};

/// The objects of the world's bucket that one run of a master counts, by its [`ContentIndex`].
#[derive(Debug)]
struct IndexedContent {
    index: Arc<ContentIndex>,
    /// The object that was asked for last, and where it is deleted at once if no rule forbids that.
    last: Mutex<Option<ObjectName>>,
    deletes: Option<Arc<dyn SimulatedDatabase>>,
}

impl Contents for IndexedContent {
    fn has(&self, blob: &BlobRef) -> bool {
        self.index.has(blob)
    }

    fn modified(&self, hash: &BlobHash) -> Option<SystemTime> {
        let live = self.index.get(hash)?;
        let (hash, generation) = (*hash, live.generation);
        *locked(&self.last) = Some(ObjectName { hash, generation });
        Some(as_system_time(live.counted_on))
    }

    fn remove(&self, hash: &BlobHash) -> io::Result<()> {
        self.index.remove(hash);
        if let (Some(deletes), Some(name)) = (&self.deletes, locked(&self.last).take()) {
            deletes.delete(name);
        }
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<(BlobRef, SystemTime)>> {
        Ok(self.index.list())
    }
}

/// A master that stands by, until `look` makes an [`Engine`] of it.
pub struct StoreContender {
    contender: LeaseContender,
    duty: LeaseDuty,
    clock: SimulatedClock,
    config: Config,
    /// The directory that has the content; `None` where it is in the world's bucket.
    directory: Option<Arc<dyn Contents>>,
    laws: SafetyRules,
}

/// The clock of a master, by the time of its `SimulatedDatabase`.
struct SimulatedClock {
    database: Arc<dyn SimulatedDatabase>,
    ahead: Span,
}

impl SimulatedClock {
    fn now(&self) -> Time {
        self.database.now() + self.ahead
    }
}

impl StoreContender {
    /// The master of the directory with this `id`, whose clock is so far ahead of the time of the
    /// `database`. `handed_over`: it has just given the store to others.
    pub fn new(
        database: Arc<dyn SimulatedDatabase>,
        (id, ahead, handed_over): (&str, Span, bool),
        config: &Config,
        directory: Option<Arc<dyn Contents>>,
        laws: SafetyRules,
    ) -> Self {
        let place = Database::simulated(Simulation {
            database: database.clone(),
            laws,
        })
        .with_lease(config.takeover_after.span());
        let member = MasterMember::here(id.to_owned(), format!("{id}:7411"));
        let clock = SimulatedClock { database, ahead };
        let lease = config.takeover_after.span();
        Self {
            contender: LeaseContender::new(&place, member),
            duty: LeaseDuty::new(id.to_owned(), lease, clock.now(), handed_over),
            clock,
            config: config.clone(),
            directory,
            laws,
        }
    }

    /// Looks at the lease once, and takes the store if its time has come.
    ///
    /// # Errors
    /// If this master can never take the store over.
    pub fn look(&mut self) -> Result<Option<Engine>, MasterError> {
        match self.look_once() {
            Err(MasterError::Store(StoreError::Postgres(error)))
                if error.may_pass() || matches!(error, PgError::TakenOver(_)) =>
            {
                self.duty.saw_nothing();
                Ok(None)
            }
            looked => looked,
        }
    }

    fn look_once(&mut self) -> Result<Option<Engine>, MasterError> {
        let seen = self.contender.look()?;
        if self.duty.saw(self.clock.now(), &seen) == LeaseDecision::StandBy {
            return Ok(None);
        }

        let taken = self.contender.take(&seen, self.clock.now())?;
        let Some(store) = taken else { return Ok(None) };
        let reader = store.reader(Path::new(""));
        let now = self.clock.now();
        let content = match &self.directory {
            Some(directory) => (directory.clone(), None),
            None => {
                let objects = Arc::new(ContentIndex::of(store.live_objects()?));
                let at_once = !self.laws.condemn_before_delete;
                let contents: Arc<dyn Contents> = Arc::new(IndexedContent {
                    index: objects.clone(),
                    last: Mutex::default(),
                    deletes: at_once.then(|| self.clock.database.clone()),
                });
                (contents, Some(objects))
            }
        };
        Engine::on((store, reader), now, &self.config, content, self.laws).map(Some)
    }
}

impl Engine {
    /// Has the core condemn, or remove from a directory, the content that no job needs and that nobody has
    /// counted on for `grace`.
    ///
    /// # Errors
    /// If the store fails.
    pub fn sweep(&mut self, now: Time, grace: Span) -> StoreResult<()> {
        let since = as_system_time(now - grace);
        let mut old = self.contents.list().unwrap_or_default();
        old.retain(|(_, at)| *at <= since);
        self.core.consider(UpkeepAsk::Sweep(old).into(), None)
    }

    /// The objects that may be deleted: those that were condemned before this time, if the database
    /// answers.
    pub fn condemned(&self, before: Time) -> Vec<ObjectName> {
        let condemned = self.reader.condemned_objects(before, 100);
        condemned.unwrap_or_default()
    }
}
