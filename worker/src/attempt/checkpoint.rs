//! Checkpoints of a running command: its checkpoint directory is copied while it does not change,
//! sent to the master, and placed for the next attempt. The content means something only to the
//! command.
//!
//! A command writes a file under another name and renames it. A copy is valid if nothing in the
//! directory changed meanwhile.

mod restore;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use common::checkpoint::{MAX_MANIFEST, Saving};
use common::manifest::{ListedFile, Manifest};
use common::path::PortablePath;
use common::units::Bytes;
use common::{AttemptId, BlobRef};
use link::{Connection, LinkError, UnnamedPuts};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};
use walkdir::WalkDir;

use super::Say;
use crate::machine::MachineEvent;
use crate::os;
use crate::os::files::{self, FileId};
use crate::spool::blobs::{BlobHold, Blobs};
pub(super) use restore::{FetchedState, NotRestored};

/// The directory of a command's checkpoint, below its own directory; the variable
/// `DESKGRID_CHECKPOINT_DIR` names it.
pub(crate) const CHECKPOINT_DIR: &str = ".deskgrid-checkpoint";
/// The number of tries for a copy during which nothing changes, and the pause between them.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(50);
/// The longest time that the last checkpoint of an attempt may take to reach the master.
const LAST: Duration = Duration::from_secs(10);

/// The size limits of a checkpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// The sum of all files, in bytes.
    pub bytes: u64,
    /// The number of files.
    pub files: u32,
}

impl Bounds {
    /// Checks a number of files and bytes; the error says which limit is exceeded.
    fn object(self, files: usize, bytes: u64) -> Result<(), String> {
        if files > self.files as usize {
            return Err(format!(
                "it has more files than the {} that this worker takes",
                self.files
            ));
        }

        if bytes > self.bytes {
            return Err(format!(
                "it has {}; this worker takes at most {}",
                Bytes(bytes),
                Bytes(self.bytes)
            ));
        }

        Ok(())
    }
}

/// The reason why there is no copy.
#[derive(Debug, PartialEq, Eq)]
enum NoCopy {
    /// This state cannot be copied; says why.
    Refused(String),
    /// It changed while it was copied.
    Unsteady,
}

/// A file as seen in one pass over the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SeenFile {
    path: PortablePath,
    id: FileId,
    size: u64,
    modified: Option<SystemTime>,
}

/// A copy of a checkpoint, in the worker's own content store until this is dropped.
struct Copy {
    seen: Vec<SeenFile>,
    blobs: Vec<BlobRef>,
    manifest: BlobRef,
    _hold: BlobHold,
}

/// Lists every file of the checkpoint in the attempt's directory `dir`, in order.
fn survey(dir: &Path, bounds: Bounds) -> Result<Vec<SeenFile>, NoCopy> {
    let root = dir.join(CHECKPOINT_DIR);
    match std::fs::symlink_metadata(&root) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => {
            return Err(NoCopy::Refused(
                "its directory was replaced by something else".to_owned(),
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(NoCopy::Refused(format!(
                "its directory cannot be read: {error}"
            )));
        }
    }

    let mut seen: Vec<SeenFile> = Vec::new();
    let mut bytes = 0u64;
    for entry in WalkDir::new(&root).min_depth(1).sort_by_file_name() {
        let entry = entry.map_err(|error| why(&error.into()))?;
        if entry.file_type().is_dir() {
            continue;
        }
        let relative = entry.path().strip_prefix(&root).unwrap_or(entry.path());
        let meta = entry.metadata().map_err(|error| why(&error.into()))?;
        seen.push(look(relative, &meta).map_err(NoCopy::Refused)?);
        bytes = bytes.saturating_add(meta.len());
        bounds.object(seen.len(), bytes).map_err(NoCopy::Refused)?;
    }

    Ok(seen)
}

/// Turns an error into the reason: a file that vanished was there a moment ago, so the state
/// changed.
fn why(error: &io::Error) -> NoCopy {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => NoCopy::Unsteady,
        _ => NoCopy::Refused(format!("it cannot be read: {error}")),
    }
}

fn look(relative: &Path, meta: &std::fs::Metadata) -> Result<SeenFile, String> {
    let name =
        os::slashed(relative).ok_or_else(|| format!("the name {relative:?} is not UTF-8"))?;

    let path: PortablePath = name.parse().map_err(|error| format!("{error}"))?;
    if !meta.is_file() {
        return Err(format!(
            "`{path}` is {}, not a regular file",
            files::kind_of(meta)
        ));
    }

    // The other name may belong to a file of the owner's.
    if files::names_of(meta) > 1 {
        return Err(format!("`{path}` has a second name (a hard link)"));
    }

    Ok(SeenFile {
        path,
        id: files::id_of(meta),
        size: meta.len(),
        modified: meta.modified().ok(),
    })
}

/// Copies the checkpoint, unless it is empty or equals the copy `before`.
fn copy(
    dir: &Path,
    bounds: Bounds,
    blobs: &Arc<Blobs>,
    before: &[SeenFile],
) -> Result<Option<Copy>, NoCopy> {
    for turn in 0..TRIES {
        if turn > 0 {
            std::thread::sleep(PAUSE);
        }
        match copy_once(dir, bounds, blobs, before) {
            Err(NoCopy::Unsteady) => {}
            done => return done,
        }
    }

    Err(NoCopy::Unsteady)
}

fn copy_once(
    dir: &Path,
    bounds: Bounds,
    blobs: &Arc<Blobs>,
    before: &[SeenFile],
) -> Result<Option<Copy>, NoCopy> {
    let seen = survey(dir, bounds)?;
    if seen.is_empty() || seen == before {
        return Ok(None);
    }

    let mut hold = BlobHold::new(blobs);
    let mut manifest = Manifest::default();
    for file in &seen {
        let relative = Path::new(CHECKPOINT_DIR).join(&file.path);
        let mut open = files::open_below(dir, &relative).map_err(|error| why(&error))?;
        let meta = open.metadata().map_err(|error| why(&error))?;
        if !meta.is_file() || files::id_of(&meta) != file.id || meta.len() != file.size {
            return Err(NoCopy::Unsteady);
        }

        let blob = hold.add(&mut open).map_err(|error| kept(&error))?;
        if blob.size != file.size {
            return Err(NoCopy::Unsteady);
        }

        manifest.files.push(ListedFile {
            path: file.path.clone(),
            blob,
            executable: files::is_executable(&meta),
            modified: None,
        });
    }

    if survey(dir, bounds)? != seen {
        return Err(NoCopy::Unsteady);
    }

    manifest
        .check()
        .map_err(|bad| NoCopy::Refused(bad.to_string()))?;
    let list = manifest
        .to_bytes()
        .map_err(|error| NoCopy::Refused(error.to_string()))?;
    if list.len() as u64 > MAX_MANIFEST {
        return Err(NoCopy::Refused(
            "the names of its files are too long together".to_owned(),
        ));
    }

    let list = hold.add_bytes(&list).map_err(|error| kept(&error))?;
    let blobs = manifest.files.iter().map(|file| file.blob).collect();
    Ok(Some(Copy {
        seen,
        blobs,
        manifest: list,
        _hold: hold,
    }))
}

fn kept(error: &io::Error) -> NoCopy {
    NoCopy::Refused(format!("this worker cannot keep it: {error}"))
}

/// An order to the task that saves checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CheckpointOrder {
    /// The command is frozen: save once, and not again before it is thawed.
    Frozen,
    /// The command is thawed.
    Thawed,
    /// The command has ended: save for the last time.
    Last,
}

/// The handle of a task that saves the checkpoints of a running attempt. Dropping it ends the task.
pub(super) struct Keeper {
    orders: UnboundedSender<CheckpointOrder>,
    task: JoinHandle<()>,
}

/// The parameters of a [`Keeper`].
pub(super) struct Setup {
    pub attempt: AttemptId,
    /// The attempt's directory.
    pub dir: PathBuf,
    pub every: Duration,
    pub bounds: Bounds,
    pub blobs: Arc<Blobs>,
    pub master: watch::Receiver<Option<Connection>>,
    pub say: Say,
}

impl Keeper {
    /// Starts to save checkpoints regularly.
    pub(super) fn start(setup: Setup) -> Self {
        let (orders, inbox) = unbounded_channel();
        let saver = Saver {
            setup,
            sequence: 0,
            shipped: Vec::new(),
            told: None,
            said: None,
            behind: false,
        };
        Self {
            orders,
            task: tokio::spawn(saver.run(inbox)),
        }
    }

    /// Reports that the command is frozen.
    pub(super) fn frozen(&self) {
        let _ = self.orders.send(CheckpointOrder::Frozen);
    }

    /// Reports that the command is thawed.
    pub(super) fn thawed(&self) {
        let _ = self.orders.send(CheckpointOrder::Thawed);
    }

    /// Saves for the last time, after the worker has ended the command. The state reaches the
    /// master only if that takes no longer than `LAST`.
    pub(super) async fn finish(mut self) {
        let _ = self.orders.send(CheckpointOrder::Last);
        if tokio::time::timeout(LAST, &mut self.task).await.is_err() {
            tracing::warn!("the last state of an attempt did not reach the master in time");
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Saver {
    setup: Setup,
    sequence: u32,
    /// The state sent to the master over the present connection. Over a later one it is sent again:
    /// the master may not have been told of it before, and then keeps the content only for a while.
    shipped: Vec<SeenFile>,
    /// The state last reported to the master, and its number.
    told: Option<(u32, BlobRef)>,
    /// The last reported reason why there is no checkpoint.
    said: Option<String>,
    /// Whether a state is to be sent once there is a connection again.
    behind: bool,
}

impl Saver {
    async fn run(mut self, mut orders: UnboundedReceiver<CheckpointOrder>) {
        let every = self.setup.every;
        // The present connection does not count as a change.
        self.setup.master.borrow_and_update();

        let mut ticks = tokio::time::interval_at(Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);

        let mut frozen = false;
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    None => return,
                    Some(CheckpointOrder::Thawed) => {
                        frozen = false;
                        continue;
                    }
                    Some(CheckpointOrder::Frozen) => frozen = true,
                    Some(CheckpointOrder::Last) => return self.save().await,
                },
                _ = ticks.tick(), if !frozen => {}
                changed = self.setup.master.changed(), if self.behind || !self.shipped.is_empty() => {
                    if changed.is_err() {
                        return;
                    }
                    self.shipped.clear();
                },
            }

            self.save().await;
        }
    }

    async fn save(&mut self) {
        self.behind = true;
        if self.setup.master.has_changed().unwrap_or(false) {
            self.shipped.clear();
        }

        let Some(connection) = self.setup.master.borrow_and_update().clone() else {
            return;
        };
        let dir = self.setup.dir.clone();
        let bounds = self.setup.bounds;
        let blobs = Arc::clone(&self.setup.blobs);
        let before = self.shipped.clone();

        let copied = tokio::task::spawn_blocking(move || copy(&dir, bounds, &blobs, &before)).await;
        match copied.unwrap_or_else(|panic| Err(NoCopy::Refused(panic.to_string()))) {
            Ok(None) => self.behind = false,
            Ok(Some(copy)) => self.ship(&connection, copy).await,
            Err(NoCopy::Refused(why)) => self.complain(why),
            Err(NoCopy::Unsteady) => {
                self.complain(
                    "its files change while they are copied; write a file aside, then rename it"
                        .to_owned(),
                );
            }
        }
    }

    /// Sends the copy to the master. If the connection breaks, it is sent again over a later one.
    async fn ship(&mut self, connection: &Connection, copy: Copy) {
        let unnamed = UnnamedPuts::over(connection);
        for blob in copy.blobs.iter().chain([&copy.manifest]) {
            match link::content::put(connection, &self.setup.blobs.path_of(blob), *blob).await {
                Ok(()) => unnamed.add(*blob),
                Err(LinkError::Refused(refusal)) => return self.complain(refusal.message),
                Err(error) => return tracing::debug!(%error, "a state did not reach the master"),
            }
        }

        self.shipped = copy.seen;
        self.said = None;
        self.behind = false;

        // The same state sent again keeps its number.
        if let Some((sequence, manifest)) = self.told
            && (sequence, manifest) == (self.sequence, copy.manifest)
        {
            self.sequence -= 1;
        }
        self.tell(Saving::Complete(copy.manifest));
        self.told = Some((self.sequence, copy.manifest));
    }

    fn complain(&mut self, why: String) {
        self.behind = false;
        if self.said.as_ref() != Some(&why) {
            self.said = Some(why.clone());
            self.tell(Saving::Refused(why));
        }
    }

    fn tell(&mut self, saving: Saving) {
        self.sequence += 1;
        (self.setup.say)(MachineEvent::Saving(
            self.setup.attempt,
            self.sequence,
            saving,
        ));
    }
}
