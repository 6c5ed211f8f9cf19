//! One attempt from its assignment to its result: a fresh directory, its inputs, its command, its
//! outputs.
//!
//! Each attempt is an async task of its own that follows orders and reports events; `machine`
//! decides which attempt runs when.

mod apart;
mod capture;
pub(crate) mod checkpoint;
mod collect;
mod disk;
mod inputs;
pub(crate) mod live;
mod places;
mod trees;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::attempt::Confined;
use common::checkpoint::{Checkpointing, MAX_FILES, SHORTEST_INTERVAL, Saved, Saving};
use common::progress::{MAX_REPORT, PROGRESS_VARIABLE, ProgressReport};
use common::wire::worker::{Command, StagedInput};
use common::{AttemptId, Outcome, Span};
use link::{Connection, Farewell};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::blocking::{behind, off, yielded};
use crate::cache::{Cache, Pinned};
use crate::config::Config;
use crate::confinement::InForce;
use crate::machine::{AttemptEnding, MachineEvent};
use crate::os::{self, Confines, Launch, Launcher, Process, ProcessStatus, WatcherReport, files};
use crate::seats::{Seat, Seats};
use crate::spool::blobs::Blobs;
use capture::StreamCapture;
use checkpoint::{Bounds, CHECKPOINT_DIR, FetchedState, Keeper, NotRestored};
use collect::{Collected, ExpectedOutputs};
use disk::DiskLimits;
use inputs::{PlacedInput, Placing};
use live::LiveOutput;
use places::SpareDirs;
use trees::PlacedTree;

/// The file in which a program may report its progress; the variable `DESKGRID_PROGRESS` names it.
pub(crate) const PROGRESS_FILE: &str = ".deskgrid-progress";

/// The variables that tell libraries and languages how many threads to compute with: as many as the
/// command has processors.
const THREADS: [&str; 8] = [
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RAYON_NUM_THREADS",
    "GOMAXPROCS",
    "JULIA_NUM_THREADS",
];

/// The variables that tell programs which graphics processors they have, by number; on a host that
/// has some, tasks that asked for none see none.
const GPUS: [&str; 2] = ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"];

/// The number of times that inputs found damaged in the cache are fetched before the attempt fails.
const CACHE_TRIES: u32 = 3;

/// The number of tries to remove a directory that dying tasks of a killed worker still write to,
/// and the pause between them.
const DYING_TRIES: u32 = 100;
const DYING_PAUSE: Duration = Duration::from_millis(20);

/// An order to an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptOrder {
    /// Start the command.
    Start,
    /// Passes an order to the command's process tree.
    Tree(os::ProcessOrder),
    /// Save a checkpoint once the command has ended.
    Save,
    /// Report how much memory the process tree holds.
    Measure,
    /// End in any phase, and keep nothing.
    Drop,
}

/// The resources that all attempts share.
pub(crate) struct Workshop {
    launcher: Launcher,
    cache: Arc<Cache>,
    blobs: Arc<Blobs>,
    master: watch::Receiver<Option<Connection>>,
    root: PathBuf,
    config: Config,
    force: InForce,
    seats: Arc<Seats>,
    serial: AtomicU64,
    spares: SpareDirs,
}

/// A command that was started, and what belongs to it.
struct StartedCommand {
    process: Process,
    keeper: Option<Keeper>,
    seat: Seat,
    confined: Option<Confined>,
}

/// The function that reports an event to the worker's loop.
pub(crate) type Say = Arc<dyn Fn(MachineEvent) + Send + Sync>;

/// The outcome of an attempt that was ordered to end and to keep nothing: nobody reads it.
const DROPPED: Outcome = Outcome::Stopped;

impl Workshop {
    /// Opens a workshop in `root`, and empties it of the remains of a crash.
    pub(crate) fn open(
        root: PathBuf,
        launcher: Launcher,
        cache: Arc<Cache>,
        blobs: Arc<Blobs>,
        master: watch::Receiver<Option<Connection>>,
        (config, gpus): (Config, Option<u32>),
        force: InForce,
    ) -> io::Result<Self> {
        if let Err(error) = empty(&root) {
            tracing::warn!(
                dir = %root.display(),
                %error,
                "what earlier tasks left here cannot be removed, and takes disk: remove it, as root if need be. This worker starts \
                 nevertheless, and tries again at its next start"
            );
        }
        link::files::private_dir(&root)?;
        if os::is_root() {
            files::let_through(&root)?;
        }

        let slots = config.slots_here() as usize;
        Ok(Self {
            launcher,
            cache,
            blobs,
            master,
            root,
            config,
            force,
            seats: Seats::new(slots, os::cores(), gpus),
            serial: AtomicU64::new(0),
            spares: SpareDirs::default(),
        })
    }

    /// Has this sent when the worker dies.
    pub(crate) fn keep_farewell(&self, farewell: Option<Farewell>) {
        self.launcher.keep_farewell(farewell);
    }

    /// Returns the directory for the next attempt, never used before.
    pub(crate) fn next_dir(&self, id: AttemptId) -> PathBuf {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        self.root.join(format!(
            "{}.{}-{}-{serial}",
            id.task.job, id.task.index, id.number
        ))
    }

    /// Runs the attempt, reports its events to `tell`, and removes `dir`.
    pub(crate) async fn attempt<T: From<MachineEvent> + Send + 'static>(
        self: Arc<Self>,
        id: AttemptId,
        command: Box<Command>,
        dir: PathBuf,
        live: Arc<LiveOutput>,
        mut orders: UnboundedReceiver<AttemptOrder>,
        tell: UnboundedSender<T>,
    ) {
        let say: Say = Arc::new(move |event: MachineEvent| drop(tell.send(event.into())));
        let place = (&*dir, &*live);
        let made = self.make(id, *command, place, &mut orders, &say).await;
        let ending = made.unwrap_or_else(AttemptEnding::bare);
        // Also where the command was never started.
        live.close();

        self.spares.clear(dir).await;
        say(MachineEvent::Ended(id, Box::new(ending)));
    }

    async fn make(
        &self,
        id: AttemptId,
        mut command: Command,
        (dir, live): (&Path, &LiveOutput),
        orders: &mut UnboundedReceiver<AttemptOrder>,
        say: &Say,
    ) -> Result<AttemptEnding, Outcome> {
        let outputs = command.outputs.clone();
        let mut wanted = ExpectedOutputs::new(outputs).map_err(Outcome::NotStarted)?;
        let confines = self.force.confines(command.confinement, command.network);
        let mut confines = confines.map_err(Outcome::NotStarted)?;
        self.spares.make(dir).map_err(|error| {
            let why = format!("its directory cannot be made: {error}");
            fault(link::is_full(&error), why, Outcome::NotStarted)
        })?;

        let placing = Placing::of(&command, confines.sharing());
        let mut inputs = std::mem::take(&mut command.inputs);
        let trees = trees::take_from(&mut inputs).map_err(Outcome::NotStarted)?;
        wanted.inputs = self.stage(inputs, placing, dir, orders).await?;
        confines.shown = wanted
            .inputs
            .values()
            .filter_map(PlacedInput::shown)
            .collect();
        // After the files, none of which is to be written through a link.
        wanted.trees = self.stage_trees(trees, &mut confines, dir, orders).await?;

        let checkpoint = command.checkpoint;
        if let Some(Checkpointing { from, .. }) = checkpoint {
            self.restore((id, from), dir, orders, say).await?;
        }

        say(MachineEvent::Staged(id));
        match orders.recv().await {
            Some(AttemptOrder::Start) => {}
            _ => return Err(DROPPED),
        }

        let seat = self.seats.take(command.takes);
        let launch = self.launch(&command, dir, confines, &seat);
        let launched = self
            .launcher
            .launch(&launch, command.keep_stdout, command.keep_stderr);
        let process = launched.await.map_err(|error| {
            Outcome::NotStarted(format!("the worker's helper process failed: {error}"))
        })?;

        let keeper = checkpoint.map(|checkpoint| self.keeper(id, checkpoint, dir, say));
        let started = StartedCommand {
            process,
            keeper,
            seat,
            confined: Confined::of(launch.confines.level, launch.confines.network),
        };
        self.follow(id, started, (dir, live, wanted), orders, say)
            .await
    }

    /// Places the checkpoint that the attempt starts from. What of it is damaged in the cache is
    /// fetched again. If it is unusable, reports that the attempt starts from scratch, and why.
    async fn restore(
        &self,
        (id, from): (AttemptId, Option<Saved>),
        dir: &Path,
        orders: &mut UnboundedReceiver<AttemptOrder>,
        say: &Say,
    ) -> Result<(), Outcome> {
        let dir = dir.join(CHECKPOINT_DIR);
        let mut placed = self.place_state(from, &dir, orders).await?;
        for _ in 1..CACHE_TRIES {
            if !matches!(placed, Ok(Err(NotRestored::Damaged(_)))) {
                break;
            }
            placed = self.place_state(from, &dir, orders).await?;
        }

        // The directory is made in any case, empty where there is no state.
        if let Ok(Err(NotRestored::Unusable(why))) = placed {
            tracing::warn!(attempt = %id, why, "a saved state cannot be used: the attempt starts from scratch");
            say(MachineEvent::Saving(id, 0, Saving::FromScratch(why)));
            placed = FetchedState::default().place(&dir).await;
        }

        match placed {
            Ok(Ok(())) => Ok(()),
            // The state is whole at the master: a host with room can go on from it, or one whose disk is sound.
            Ok(Err(NotRestored::NoRoom(why))) => {
                Err(Outcome::NoRoom(format!("its saved state: {why}")))
            }
            Ok(Err(NotRestored::Damaged(why) | NotRestored::Unusable(why))) => {
                let why = format!("its saved state: {why} in this worker's cache, time and again");
                Err(Outcome::NotStarted(why))
            }
            Err(error) => {
                let why = format!("its checkpoint directory cannot be made: {error}");
                Err(fault(link::is_full(&error), why, Outcome::NotStarted))
            }
        }
    }

    /// Brings a checkpoint to this host and places it; `None` is an empty one.
    async fn place_state(
        &self,
        from: Option<Saved>,
        dir: &Path,
        orders: &mut UnboundedReceiver<AttemptOrder>,
    ) -> Result<io::Result<Result<(), NotRestored>>, Outcome> {
        let bounds = self.bounds_to_restore();
        let fetched = match from {
            None => Ok(FetchedState::default()),
            Some(saved) => {
                let fetch = FetchedState::fetch(&self.cache, &saved, bounds);
                unless_dropped(orders, fetch).await?
            }
        };

        Ok(match fetched {
            Ok(state) => state.place(dir).await,
            Err(why) => Ok(Err(why)),
        })
    }

    fn keeper(
        &self,
        attempt: AttemptId,
        checkpoint: Checkpointing,
        dir: &Path,
        say: &Say,
    ) -> Keeper {
        Keeper::start(checkpoint::Setup {
            attempt,
            dir: dir.to_owned(),
            every: Duration::from(checkpoint.every.max(SHORTEST_INTERVAL)),
            bounds: self.bounds(),
            blobs: Arc::clone(&self.blobs),
            master: self.master.clone(),
            say: Arc::clone(say),
        })
    }

    /// Returns the bounds of a checkpoint that is saved here.
    fn bounds(&self) -> Bounds {
        Bounds {
            bytes: self.config.checkpoint_limit_bytes,
            files: self.config.checkpoint_files_limit.min(MAX_FILES),
        }
    }

    /// Returns the bounds of a checkpoint that is placed here. Another worker may have saved it
    /// within larger ones, so only that counts which a task may have on this disk.
    fn bounds_to_restore(&self) -> Bounds {
        let (bytes, files) = self.config.disk_limits();
        let files = files.and_then(|files| u32::try_from(files).ok());
        Bounds {
            bytes: bytes.unwrap_or(u64::MAX),
            files: files.unwrap_or(MAX_FILES).min(MAX_FILES),
        }
    }

    /// Brings the inputs to this host and places them. Inputs found damaged in the cache are
    /// fetched again.
    async fn stage(
        &self,
        mut inputs: Vec<StagedInput>,
        placing: Placing,
        dir: &Path,
        orders: &mut UnboundedReceiver<AttemptOrder>,
    ) -> Result<BTreeMap<PathBuf, PlacedInput>, Outcome> {
        let mut all = BTreeMap::new();
        for _ in 0..CACHE_TRIES {
            let here = unless_dropped(orders, self.fetch(inputs)).await??;

            // Must run to its end: a copy that is still going would write behind the directory's
            // removal.
            let (placed, damaged) = placing.place(here, dir).await?;
            let named = |input: PlacedInput| (PathBuf::from(input.path.as_str()), input);
            all.extend(placed.into_iter().map(named));
            if damaged.is_empty() {
                return Ok(all);
            }
            inputs = damaged;
        }

        let names: Vec<_> = inputs
            .iter()
            .map(|input| format!("`{}`", input.path))
            .collect();
        let why = format!(
            "its input {} is damaged in this worker's cache, time and again",
            names.join(", ")
        );

        Err(Outcome::NotStarted(why))
    }

    /// Brings trees to this host, places them, and lets the command see them.
    async fn stage_trees(
        &self,
        trees: Vec<StagedInput>,
        confines: &mut Confines,
        dir: &Path,
        orders: &mut UnboundedReceiver<AttemptOrder>,
    ) -> Result<Vec<PlacedTree>, Outcome> {
        let mut all = Vec::with_capacity(trees.len());
        for StagedInput { path, blob, .. } in trees {
            let tree = unless_dropped(orders, self.cache.tree(blob)).await?;
            let tree = tree.map_err(|error| {
                let why = format!("its tree `{path}` {error}");
                fault(error.is_full(), why, Outcome::NotStarted)
            })?;

            let placed = PlacedTree::place(path, tree, confines.tree_sharing(), dir).await?;
            placed.show(confines);
            all.push(placed);
        }
        Ok(all)
    }

    /// Brings the inputs to this host.
    async fn fetch(&self, inputs: Vec<StagedInput>) -> Result<Vec<(Pinned, StagedInput)>, Outcome> {
        let mut here = Vec::with_capacity(inputs.len());
        let mut fetches = JoinSet::new();
        for input in inputs {
            let cache = Arc::clone(&self.cache);
            fetches.spawn(async move { (cache.fetch(input.blob).await, input) });
        }

        while let Some(fetched) = fetches.join_next().await {
            let (pinned, input) = fetched.map_err(|panic| {
                Outcome::NotStarted(format!("its inputs cannot be fetched: {panic}"))
            })?;
            let pinned = pinned.map_err(|error| {
                let why = format!("its input `{}` cannot be fetched: {error}", input.path);
                fault(error.is_full(), why, Outcome::NotStarted)
            })?;
            here.push((pinned, input));
        }

        Ok(here)
    }

    fn launch(&self, command: &Command, dir: &Path, confines: Confines, seat: &Seat) -> Launch {
        let home = dir.to_string_lossy().into_owned();
        let progress = dir.join(PROGRESS_FILE).to_string_lossy().into_owned();
        let ours = [
            ("PATH", self.config.path.clone()),
            ("LANG", self.config.lang.clone()),
            ("TMPDIR", home.clone()),
            ("HOME", home),
            (PROGRESS_VARIABLE, progress),
        ];

        let saves = command.checkpoint.is_some();
        let state = saves.then(|| dir.join(CHECKPOINT_DIR).to_string_lossy().into_owned());
        let state = state.map(|state| ("DESKGRID_CHECKPOINT_DIR", state));
        let threads = THREADS.map(|variable| (variable, seat.threads().to_string()));
        let gpus = GPUS.map(|variable| Some((variable, seat.gpus()?)));
        let ours = ours
            .into_iter()
            .chain(state)
            .chain(threads)
            .chain(gpus.into_iter().flatten())
            .map(|(key, value)| (key.to_owned(), value));
        let env: BTreeMap<String, String> = ours.chain(command.env.iter().cloned()).collect();

        Launch {
            argv: command.argv.clone(),
            env: env.into_iter().collect(),
            dir: dir.as_os_str().to_owned(),
            stdin: command.stdin.as_ref().map(|path| path.as_str().to_owned()),
            processors: seat.processors(),
            limits: self.config.limits_for(command.takes),
            confines,
        }
    }

    /// Follows the command from its start to the end of its tree, and gathers its results.
    async fn follow(
        &self,
        id: AttemptId,
        started: StartedCommand,
        (dir, live, wanted): (&Path, &LiveOutput, ExpectedOutputs),
        orders: &mut UnboundedReceiver<AttemptOrder>,
        say: &Say,
    ) -> Result<AttemptEnding, Outcome> {
        let StartedCommand {
            mut process,
            keeper,
            mut seat,
            confined,
        } = started;
        let limit = self.config.stream_limit_bytes;
        let mut out = StreamCapture::new(process.stdout.take(), Arc::clone(&live.out), limit);
        let mut err = StreamCapture::new(process.stderr.take(), Arc::clone(&live.err), limit);
        let (tree, ended) = watch::channel(false);
        let (end, save) = {
            let pumps = async { tokio::join!(out.pump(ended.clone()), err.pump(ended.clone())) };
            tokio::pin!(pumps);
            let (end, pumped) = {
                let limits = self.disk_limits(&wanted.inputs);
                let over = limits.until_exceeded(dir.to_owned());
                let keeper = keeper.as_ref();
                let end = drive(&mut process, (id, say), keeper, &mut seat, orders, over);
                tokio::pin!(end);
                tokio::select! {
                    biased;
                    _ = &mut pumps => (end.await, true),
                    end = &mut end => (end, false),
                }
            };

            // Before the next command is started in the slot. No time of the disk's counts as the command's.
            drop(seat);
            say(MachineEvent::Exited(id));

            // What the tree has said is kept, however long the disk takes for it.
            if !pumped && !matches!(end.0, End::Dropped) {
                tree.send_replace(true);
                unless_dropped(orders, &mut pumps).await?;
            }

            end
        };

        if let Some(keeper) = keeper.filter(|_| save) {
            keeper.finish().await;
        }

        let (status, cpu, [taken, over]) = match end {
            End::Tree(status, cpu, limits) => (status, cpu, limits),
            End::NotStarted(why) => return Err(Outcome::NotStarted(why)),
            End::Dropped => return Err(DROPPED),
        };
        let mut warning = None;
        let outcome = match (taken, over, status) {
            (Some(taken), ..) => Outcome::OverLimit(taken),
            (None, over, ProcessStatus::Exited(0)) => {
                warning = over.map(|over| format!("a process that it started was ended: {over}"));
                Outcome::Succeeded
            }
            (None, Some(over), _) => Outcome::OverLimit(over),
            (None, None, ProcessStatus::Exited(code)) => Outcome::Exited(code),
            (None, None, ProcessStatus::Signalled(signal)) => Outcome::Signalled(signal),
        };

        let failed = matches!(outcome, Outcome::Exited(_) | Outcome::Signalled(_));
        let mut ending = self.gather(outcome, cpu, (out, err), dir, wanted).await;
        ending.warnings.extend(warning);
        ending.confined = confined.filter(|_| failed);
        Ok(ending)
    }

    /// Returns the limits of the directory in which these inputs are placed.
    fn disk_limits(&self, inputs: &BTreeMap<PathBuf, PlacedInput>) -> DiskLimits {
        let (bytes, files) = self.config.disk_limits();
        let shared = inputs.values().filter_map(PlacedInput::shared);
        DiskLimits {
            bytes,
            files,
            shared: Arc::new(shared.collect()),
        }
    }

    /// Gathers the results of the attempt.
    async fn gather(
        &self,
        outcome: Outcome,
        cpu: Span,
        (out, err): (StreamCapture, StreamCapture),
        dir: &Path,
        wanted: ExpectedOutputs,
    ) -> AttemptEnding {
        let mut ending = AttemptEnding {
            cpu,
            ..AttemptEnding::bare(outcome)
        };
        for (name, capture, stream) in [
            ("standard output", out, &mut ending.stdout),
            ("standard error", err, &mut ending.stderr),
        ] {
            match capture.finish(&self.blobs).await {
                Ok(kept) => *stream = kept,
                Err(error) if ending.outcome.success() => {
                    let why = format!("its {name} could not be kept: {error}");
                    ending.outcome = fault(link::is_full(&error), why, Outcome::BadOutput);
                }
                Err(error) => {
                    tracing::warn!(%error, "the {name} of a failed attempt could not be kept");
                }
            }
        }

        if !wanted.is_empty() {
            let blobs = Arc::clone(&self.blobs);
            let limit = self.config.output_limit_bytes;
            let dir = dir.to_owned();
            let succeeded = ending.outcome.success();
            let disk = self.disk_limits(&wanted.inputs);
            let work = move || match yielded(|| disk.exceeded(&dir)) {
                Some(why) => Collected {
                    problem: succeeded.then_some(Outcome::OverLimit(why)),
                    ..Collected::default()
                },
                None => wanted.collect(&dir, &blobs, limit, succeeded),
            };
            let collected = off(work).await.unwrap_or_else(|error| Collected {
                problem: Some(Outcome::BadOutput(format!(
                    "the outputs could not be collected: {error}"
                ))),
                ..Collected::default()
            });
            ending.outputs = collected.files;
            ending.warnings = collected.warnings;

            ending.outcome = collected.problem.unwrap_or(ending.outcome);
        }

        ending
    }

    /// Releases the blobs that an attempt left in the spool.
    pub(crate) fn discard(&self, ending: &AttemptEnding) {
        let hashes: Vec<_> = ending.blobs().collect();
        if !hashes.is_empty() {
            let blobs = Arc::clone(&self.blobs);
            behind(move || blobs.release(&hashes));
        }
    }
}

/// Does this, unless the attempt is dropped meanwhile.
async fn unless_dropped<T>(
    orders: &mut UnboundedReceiver<AttemptOrder>,
    work: impl Future<Output = T>,
) -> Result<T, Outcome> {
    // A future holds what it is given twice over if it polls that in place.
    let work = Box::pin(work);
    let dropped =
        async { while !matches!(orders.recv().await, Some(AttemptOrder::Drop) | None) {} };
    tokio::select! {
        done = work => Ok(done),
        () = dropped => Err(DROPPED),
    }
}

/// The end of the command's time.
enum End {
    /// Its process tree has ended. The limits are those for which the worker ended it, and for
    /// which the system ended some process of it.
    Tree(ProcessStatus, Span, [Option<String>; 2]),
    /// The command was never started.
    NotStarted(String),
    /// As [`End::Tree`], but the result is not wanted.
    Dropped,
}

/// Passes orders on until the tree has ended, and kills it if `too_much` resolves. Also returns
/// whether a checkpoint is to be saved then.
async fn drive(
    process: &mut Process,
    (id, say): (AttemptId, &Say),
    keeper: Option<&Keeper>,
    seat: &mut Seat,
    orders: &mut UnboundedReceiver<AttemptOrder>,
    too_much: impl Future<Output = String>,
) -> (End, bool) {
    let mut dropped = false;
    let mut still = false;
    let mut frozen = false;
    let mut open = true;
    let mut save = false;
    let mut taken = None;

    tokio::pin!(too_much);
    loop {
        tokio::select! {
            report = process.report() => match report {
                // One that was thawed meanwhile is not.
                WatcherReport::Frozen | WatcherReport::Restless if !still => {}
                WatcherReport::Frozen => {
                    frozen = true;
                    keeper.into_iter().for_each(Keeper::frozen);
                }
                WatcherReport::Restless => {
                    tracing::warn!(attempt = %id, "some of its processes do not stop, although it is to be frozen: they are told again");
                }
                WatcherReport::Holds(bytes) => say(MachineEvent::Measured(id, bytes)),
                _ if dropped => return (End::Dropped, false),
                WatcherReport::Ended { status, cpu, over } => return (End::Tree(status, cpu, [taken, over]), save),
                WatcherReport::NotStarted(why) => return (End::NotStarted(why), false),
            },
            // What is frozen takes no more than it has, and looking for that would cost the owner's disk.
            why = &mut too_much, if taken.is_none() && !frozen => {
                taken = Some(why);
                process.order(os::ProcessOrder::Kill);
            }
            order = orders.recv(), if open => match order {
                Some(AttemptOrder::Tree(order)) => {
                    process.order(order);
                    match order {
                        os::ProcessOrder::Freeze => {
                            still = true;
                            seat.computes(false);
                        }
                        os::ProcessOrder::Thaw => {
                            still = false;
                            frozen = false;
                            seat.computes(true);
                            keeper.into_iter().for_each(Keeper::thawed);
                        }
                        os::ProcessOrder::Terminate | os::ProcessOrder::Kill => {}
                    }
                }
                Some(AttemptOrder::Save) => save = true,
                Some(AttemptOrder::Measure) if process.measure() => {}
                Some(AttemptOrder::Measure) => say(MachineEvent::Measured(id, None)),
                Some(AttemptOrder::Start) => {}
                Some(AttemptOrder::Drop) | None => {
                    dropped = true;
                    open = order.is_some();
                    process.order(os::ProcessOrder::Kill);
                }
            },
        }
    }
}

/// Returns the outcome of an attempt that failed on the worker's side. A full disk is no fault of
/// the task; of other errors `otherwise` makes the outcome.
fn fault(disk_full: bool, why: String, otherwise: fn(String) -> Outcome) -> Outcome {
    if disk_full {
        Outcome::NoRoom(why)
    } else {
        otherwise(why)
    }
}

/// Removes the remains of a crash. The tasks of a killed worker may still be dying, and write
/// meanwhile.
fn empty(root: &Path) -> io::Result<()> {
    let mut tries = DYING_TRIES;
    loop {
        match os::remove_tree(root) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && tries > 0 => {
                tries -= 1;
                std::thread::sleep(DYING_PAUSE);
            }
            done => return done,
        }
    }
}

/// Reads the progress that a program reports in `PROGRESS_FILE`.
pub(crate) fn read_progress(dir: &Path) -> Option<ProgressReport> {
    use std::io::Read;
    let file = files::open_below(dir, Path::new(PROGRESS_FILE)).ok()?;
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    file.take(MAX_REPORT as u64).read_to_end(&mut bytes).ok()?;
    ProgressReport::read(&bytes)
}
