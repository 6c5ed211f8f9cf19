//! New programs in the running worker: an offer of the master is checked, its content fetched, and the
//! program tried once no task runs, or tasks have had their time. What may be taken is decided in [`crate::update`].

use std::path::Path;
use std::time::Duration;

use common::BlobRef;
use common::update::{
    SignedUpdate, UpdateAnswer, UpdateKey, UpdateReport, UpdateStanding, UpdateStatement,
};
use common::wire::UPDATE_VERSION;
use common::wire::worker::ToMaster;
use link::LinkError;
use link::retry::Backoff;
use tokio::time::Instant;

use super::{LoopInput, Shell};
use crate::admin;
use crate::config::Config;
use crate::update::{
    ProgramDir, TakenProgram, TakenPrograms, admit, keeper, key_of, other_content, running,
};

/// The bounds of the pauses before a program is fetched again that did not come.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// The end of the work on one offer.
#[derive(Debug)]
pub(super) struct ProgramNews {
    signed: SignedUpdate,
    of: UpdateStatement,
    /// The program is here and can run; or the reason why not, unless the connection was lost.
    outcome: Result<(), Option<String>>,
}

/// The new program of a running worker.
pub(super) struct UpdateDesk {
    config: Config,
    learned: Option<UpdateKey>,
    dir: ProgramDir,
    programs: TakenPrograms,
    /// The offer whose `blob` is being fetched.
    fetching: Option<UpdateStatement>,
    /// The time at which tasks have to make way for a program that is ready; `None`: there is none.
    makes_way_at: Option<Instant>,
    /// Whether the worker leaves for it.
    leaves: bool,
    /// Whether the master that was last reached knows of programs.
    is_understood: bool,
}

impl UpdateDesk {
    /// Reads the [`TakenPrograms`] of earlier runs.
    pub(super) fn open(dir: &Path, own: &Config, learned: Option<UpdateKey>) -> Self {
        let dir = ProgramDir::below(dir);
        Self {
            config: own.clone(),
            learned,
            programs: dir.read(),
            dir,
            fetching: None,
            makes_way_at: None,
            leaves: false,
            is_understood: false,
        }
    }

    /// Returns the time at which tasks have to make way, if it is to come.
    pub(super) fn wakeup(&self) -> Option<Instant> {
        self.makes_way_at.filter(|at| *at > Instant::now())
    }

    /// Returns the words about the program that is tried at the next start.
    fn trial(&self) -> Option<UpdateStatement> {
        let trial = self.programs.trial.as_ref()?;
        UpdateStatement::read(&trial.signed.statement).ok()
    }

    pub(super) fn report(&self) -> UpdateReport {
        let has_key = key_of(&self.config, self.learned).is_ok();
        self.programs.report(self.config.updates, has_key)
    }

    /// Changes what is kept, durably.
    ///
    /// # Errors
    /// If it cannot be written.
    fn change(&mut self, change: impl FnOnce(&mut TakenPrograms)) -> std::io::Result<()> {
        // The keeper writes, too, while this program is on trial.
        let mut programs = self.dir.read();
        change(&mut programs);
        self.dir.write(&programs)?;
        self.programs = programs;
        Ok(())
    }
}

impl Shell {
    /// The worker has reached its master: a program on trial has come up.
    pub(super) fn has_come_up(&mut self, version: u16) {
        let desk = &mut self.update;
        desk.is_understood = version >= UPDATE_VERSION;
        if desk.makes_way_at.is_some() {
            // The master that was just reached is to send no more tasks, either.
            self.say(ToMaster::Closing);
            return;
        }

        let trial = desk.trial();
        let Some(of) = trial.filter(|of| keeper::installed().is_some() && of.version == running())
        else {
            return;
        };

        let confirmed = desk.change(|programs| {
            let same = |taken: &TakenProgram| taken.signed.statement == of.text();
            if programs.trial.as_ref().is_some_and(same) {
                programs.confirm(&of);
            }
        });
        if let Err(error) = confirmed {
            tracing::warn!(%error, "a new program has come up, and that cannot be kept");
            return;
        }
        if desk.is_understood {
            self.answer_update(&of, UpdateStanding::Runs);
        }
    }

    /// Takes an offer, or refuses it.
    pub(super) fn offered(&mut self, signed: SignedUpdate) {
        let desk = &mut self.update;
        let of = match admit(&signed, &desk.config, desk.learned, running()) {
            Ok(of) => of,
            Err(why) => return self.refuse_update(&signed, UpdateStanding::Unwanted, why),
        };

        if of.version == running() {
            return match other_content(&of) {
                None => self.answer_update(&of, UpdateStanding::Runs),
                Some(why) => self.refuse_update(&signed, UpdateStanding::Unwanted, why),
            };
        }
        if let Some(why) = desk.programs.failed(&of.blob.hash) {
            let why = why.to_owned();
            return self.answer_update(&of, UpdateStanding::RolledBack(why));
        }
        if desk.makes_way_at.is_some() {
            // It is about to start a program; it hears of another one then.
            if desk.trial().is_some_and(|ready| ready == of) {
                self.waits_with(&of);
            }
            return;
        }
        if desk.fetching.is_none() {
            self.fetch_program(signed, of);
        }
    }

    /// Fetches a program and looks at it, beside the loop.
    fn fetch_program(&mut self, signed: SignedUpdate, of: UpdateStatement) {
        let Some((uplink, _)) = &self.uplink else {
            return;
        };
        tracing::info!(version = %of.version, bytes = of.blob.size, "fetching a new program");

        let connection = uplink.connection().clone();
        let dir = self.update.dir.clone();
        let tell = self.tell.clone();
        self.update.fetching = Some(of.clone());
        tokio::spawn(async move {
            let outcome = fetch(&connection, &dir, &of).await;
            let _ = tell.send(LoopInput::Program(ProgramNews {
                signed,
                of,
                outcome,
            }));
        });
    }

    /// Puts a program that is here on trial, from the worker's next start on.
    pub(super) fn on_program(&mut self, news: ProgramNews) {
        let ProgramNews {
            signed,
            of,
            outcome,
        } = news;
        self.update.fetching = None;
        let kept = match outcome {
            Ok(()) => {
                let base = keeper::installed().unwrap_or_else(running);
                let kept = self
                    .update
                    .change(|programs| programs.try_next(signed.clone(), &of, base));
                kept.map_err(|error| format!("it cannot be kept: {error}"))
            }
            Err(Some(why)) => Err(why),
            // The master offers it again.
            Err(None) => return,
        };

        match kept {
            Ok(()) => {
                self.update.makes_way_at = Some(Instant::now() + self.update.config.update_wait.0);
                self.waits_with(&of);
            }
            Err(why) => self.refuse_update(&signed, UpdateStanding::Refused, why),
        }
    }

    /// Whether the worker is to leave for a new program: one is ready, the master is there, and no task is
    /// held or they have had their time.
    pub(super) fn makes_way(&mut self) -> bool {
        let Some(at) = self.update.makes_way_at.filter(|_| self.uplink.is_some()) else {
            return false;
        };
        self.update.leaves = self.engine.machine().holds_nothing() || Instant::now() >= at;
        self.update.leaves
    }

    /// Says that a program is ready, and that tasks may still hold the worker: it is not the last word before it leaves.
    fn waits_with(&self, of: &UpdateStatement) {
        self.answer_update(of, UpdateStanding::Ready);
        self.say(ToMaster::Closing);
    }

    /// Whether the worker leaves for a new program now. If so, and nobody has `asked` it to end, that it is ready is its
    /// last word: a master that does not see it again knows why it went.
    pub(super) fn leaves_for_program(&self, asked: bool) -> bool {
        let desk = &self.update;
        if let Some(of) = desk.trial()
            && desk.leaves
            && desk.is_understood
            && !asked
        {
            self.answer_update(&of, UpdateStanding::Ready);
        }
        desk.leaves
    }

    fn refuse_update(
        &self,
        signed: &SignedUpdate,
        standing: fn(String) -> UpdateStanding,
        why: String,
    ) {
        tracing::warn!(target: admin::PROGRAMS, error = %why, "a new program is refused");
        // What cannot even be read names no content to answer for; the master can read it.
        if let Ok(of) = UpdateStatement::read(&signed.statement) {
            self.answer_update(&of, standing(why));
        }
    }

    fn answer_update(&self, of: &UpdateStatement, standing: UpdateStanding) {
        let hash = of.blob.hash;
        self.say(ToMaster::Update(UpdateAnswer { hash, standing }.sound()));
    }
}

/// Brings a program from the master unless it is here, and looks whether it can run.
async fn fetch(
    connection: &link::Connection,
    dir: &ProgramDir,
    of: &UpdateStatement,
) -> Result<(), Option<String>> {
    let at = dir.clone();
    let blob = of.blob;
    let here = tokio::task::spawn_blocking(move || {
        at.make().map_err(|error| error.to_string())?;
        Ok::<_, String>(at.sound(&blob).is_ok())
    });
    let here = here.await.map_err(|_| None)?.map_err(Some)?;
    if !here {
        fetch_content(connection, dir, blob).await?;
    }

    // The bytes that are on the disk now are those that were signed.
    let at = dir.clone();
    let whole = tokio::task::spawn_blocking(move || at.sound(&blob));
    whole.await.map_err(|_| None)?.map_err(Some)?;
    dir.ready(of).await.map_err(Some)
}

/// Brings the content of a program from the master. What passes, such as storage that does not answer the master, is tried
/// again as long as the connection stands: the master offers a program seldom.
async fn fetch_content(
    connection: &link::Connection,
    dir: &ProgramDir,
    blob: BlobRef,
) -> Result<(), Option<String>> {
    let path = dir.path_of(&blob.hash);
    let mut pauses = Backoff::new(PAUSES.0, PAUSES.1);
    loop {
        let Err(error) = link::content::fetch_file(connection, blob, &path).await else {
            return Ok(());
        };
        let refused = matches!(error, LinkError::File { .. } | LinkError::Refused(_));
        if refused && !error.passing() {
            return Err(Some(format!("it could not be fetched: {error}")));
        }

        let pause = pauses.delay();
        tracing::warn!(%error, ?pause, "a new program did not come; trying again");
        if tokio::time::timeout(pause, connection.closed())
            .await
            .is_ok()
        {
            return Err(None);
        }
    }
}
