//! Executes `deskgrid job fetch`, which downloads the output files of tasks. Everything is checked
//! before anything is written, and each file is there whole and verified, or not at all.

mod apart;
mod earlier;
mod manifest;
mod unfinished;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apart::UnpackedArchives;
use common::TaskId;
use common::attempt::APART_ARCHIVE;
use common::content::{BlobRef, Content};
use common::path::{BadPath, PortablePath};
use common::selector::Selector;
use common::text::{plural, printable};
use common::view::{JobView, OutputView, TaskState};
use common::wire::RefusalCode;
use earlier::EarlierFiles;
use link::LinkError;
use serde::Serialize;
use unfinished::UnfinishedTasks;

use super::cat::note_removed;
use super::{Context, interruptible};
use crate::args::OutputMode;
use crate::args::value::OneJob;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::output::{OutputForm, json, note};
use crate::parallel;
use crate::session::Session;
use crate::transfer::ShownTransfer;

/// The most notes on outputs that were not kept.
const MOST_NOTES: usize = 10;

/// The destination of the files.
#[derive(Debug)]
pub(super) struct Into {
    /// The directory given with `--into`.
    pub dir: PathBuf,
    /// Whether files that differ are overwritten (`--force`).
    pub force: bool,
    /// Whether the numbers of tasks have leading zeros in the names of their directories.
    pub pad: bool,
    /// The file to which a list of the files is written; `-` is standard output.
    pub manifest: Option<PathBuf>,
}

/// The names of the directories in which the files of tasks are put.
#[derive(Debug, Clone, Copy)]
enum TaskDirs {
    /// All files in one directory: the job has one task, and gets no more.
    None,
    /// One for each task, named by its number, with leading zeros up to this many digits.
    Digits(usize),
}

impl TaskDirs {
    /// Takes the names for a job. They depend neither on which files are there, nor on how many tasks an open job has
    /// so far or had when it was closed: a later fetch is to find the same directories.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    async fn of(
        session: &Session,
        job: &JobView,
        into: &Into,
        earlier: &EarlierFiles,
    ) -> Result<Self, Failure> {
        if job.tasks.total <= 1 && !job.open && !earlier.was_open(&into.dir) {
            return Ok(TaskDirs::None);
        }
        if !into.pad {
            return Ok(TaskDirs::Digits(1));
        }

        if job.open {
            note(&format!(
                "job {} is open: with more tasks --pad may give its directories longer names; without --pad they stay",
                job.job
            ));
        }
        let last = session.tasks(job.job, Selector::Last, Vec::new()).await?;
        let digits = last
            .first()
            .map_or(1, |view| view.task.index.to_string().len());
        Ok(TaskDirs::Digits(digits))
    }

    fn below(self, dir: &Path, task: TaskId) -> PathBuf {
        match self {
            TaskDirs::None => dir.to_owned(),
            TaskDirs::Digits(digits) => dir.join(format!("{:0digits$}", task.index)),
        }
    }
}

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
struct WantedFile {
    task: TaskId,
    path: PathBuf,
    content: Content,
    executable: bool,
    /// Whether it is the [`APART_ARCHIVE`] of a task.
    apart: bool,
}

/// A file that is there already at the path of a [`WantedFile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileThere {
    /// None.
    Nothing,
    /// The same one, which is kept.
    Same,
    /// The entries of the archive, so many, which was unpacked and is not fetched again.
    Unpacked(usize),
    /// One that is replaced: what an earlier attempt left, or `--force`.
    Replaced,
}

impl FileThere {
    /// Whether nothing is fetched.
    fn stays(self) -> bool {
        matches!(self, Self::Same | Self::Unpacked(_))
    }

    /// The number of files, links and directories that came of an archive before.
    fn unpacked(self) -> Option<usize> {
        match self {
            Self::Unpacked(entries) => Some(entries),
            _ => None,
        }
    }
}

impl WantedFile {
    fn blob(&self) -> BlobRef {
        match &self.content {
            Content::Inline(bytes) => link::content::hash_bytes(bytes),
            Content::Blob(blob) => *blob,
        }
    }

    /// The content that is fetched for it, if that is not here already.
    fn fetched(&self) -> Option<&BlobRef> {
        match &self.content {
            Content::Blob(blob) => Some(blob),
            Content::Inline(_) => None,
        }
    }

    /// The path of the file in which its content comes in, if it is fetched.
    fn part(&self) -> Option<PathBuf> {
        let blob = self.fetched()?;
        Some(link::content::part_of(&self.path, blob))
    }
}

#[derive(Serialize)]
struct Fetched {
    job: u32,
    #[serde(serialize_with = "json::path_text")]
    into: PathBuf,
    files: Vec<FetchedFile>,
    /// The numbers of the tasks that have not finished well, by state.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unfinished: BTreeMap<String, String>,
    /// The outputs of these tasks that were not kept, or not as files by themselves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<FetchedWarning>,
}

#[derive(Clone, Serialize)]
struct FetchedWarning {
    task: String,
    warning: String,
    /// The name of the [`APART_ARCHIVE`] that it is about.
    #[serde(skip)]
    archive: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
struct FetchedFile {
    task: String,
    /// The state of the task.
    state: String,
    #[serde(flatten, serialize_with = "json::path_fields")]
    path: PathBuf,
    bytes: u64,
    /// Whether the same file existed before.
    kept: bool,
    /// The number of files, links and directories that were unpacked from it. It is removed then.
    #[serde(skip_serializing_if = "Option::is_none")]
    unpacked: Option<usize>,
    /// The target of a symbolic link, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
}

/// Fetches the outputs of some tasks of a job. The exit code says whether all of them have finished.
pub(super) async fn run(
    context: &Context,
    session: &Session,
    job: OneJob,
    into: Into,
    tasks: Selector,
) -> Result<Exit, Failure> {
    if let Some(list) = &into.manifest {
        manifest::check_form(list, context.out.mode())?;
    }
    let job = session.job(job).await?;
    session.note_beyond(job.job, &tasks).await?;
    // Before the outputs: what a task leaves after this look may be there, but is not promised.
    let unfinished = UnfinishedTasks::of(session, &job, &tasks).await?;
    let outputs = outputs_of(session, &job, tasks.clone()).await?;
    note_removed(session, &outputs).await?;

    let mut earlier = EarlierFiles::of(&context.state, &job);
    let dirs = TaskDirs::of(session, &job, &into, &earlier).await?;
    let (wanted, unplaced) = wanted(&outputs, &into.dir, dirs);
    if wanted.is_empty() && unplaced.is_empty() {
        note(&nothing_of(&job, &outputs));
    }
    if job.open && !wanted.is_empty() {
        earlier.add_open(&into.dir);
    }

    let left = left_in(&wanted, &into.dir, dirs);
    let (planned, mut earlier) = look(wanted, into.force, earlier).await?;
    let file = |(wanted, there): &(WantedFile, FileThere)| FetchedFile {
        task: wanted.task.to_string(),
        state: unfinished.state_of(wanted.task).to_string(),
        path: wanted.path.clone(),
        bytes: wanted.content.size(),
        kept: there.stays(),
        unpacked: there.unpacked(),
        link: None,
    };
    let mut document = Fetched {
        job: job.job.0,
        into: into.dir.clone(),
        files: planned.iter().map(file).collect(),
        unfinished: unfinished.by_state(),
        warnings: (outputs.iter().flat_map(warned)).chain(unplaced).collect(),
    };
    if let Some(file) = &into.manifest {
        manifest::check(file, &document.files, into.force)?;
    }
    // An archive whose parts all find their places is no loss.
    let warnings = document.warnings.iter().cloned();
    let (apart, lost): (Vec<_>, Vec<_>) = warnings.partition(|warned| warned.archive.is_some());
    tell(&lost);
    let kept: usize = (planned.iter().filter(|(_, there)| there.stays()))
        .map(|(_, there)| there.unpacked().unwrap_or(1))
        .sum();
    let replaced = |(_, there): &&(_, FileThere)| *there == FileThere::Replaced;
    let replaced = planned.iter().filter(replaced).count();
    let archives: Vec<(usize, WantedFile)> = (planned.iter().enumerate())
        .filter(|(_, (file, there))| file.apart && there.unpacked().is_none())
        .map(|(at, (file, _))| (at, file.clone()))
        .collect();

    let mut parts = parts_there(&planned, &earlier);

    remember(&mut earlier, &planned, &unfinished);
    let new = planned.into_iter().filter(|(_, there)| !there.stays());
    let new: Vec<WantedFile> = new.map(|(file, _)| file).collect();
    let blobs = new.iter().filter_map(WantedFile::fetched);
    let bytes = blobs.map(|blob| blob.size).sum();
    let transfer = ShownTransfer {
        verb: "fetched",
        total: Some(bytes),
        shown: context.out.mode() == OutputMode::Cli && bytes > 0,
        left: "not all files are there",
    };
    transfer.run(session.client(), bring(session, new)).await?;
    earlier.save();
    // Only now is in a directory what a note says to be there.
    for line in unfinished.notes(&job, &tasks, &left) {
        note(&line);
    }
    let finishing = async {
        let mut failure = None;
        let any_unpacked = !archives.is_empty();
        for (at, archive) in archives {
            let stays = unfinished.state_of(archive.task) == TaskState::Finished;
            match unpack(archive, stays, into.force, &mut earlier, &mut parts).await {
                Ok(entries) => document.files[at].unpacked = entries,
                // The archives of other tasks are unpacked all the same.
                Err(first) => drop(failure.get_or_insert(first)),
            }
        }
        if any_unpacked {
            earlier.save();
        }
        parts.tell_left();
        tell(left_apart(apart, &document.files).as_slice());
        if let Some(file) = &into.manifest {
            let items = session.tasks(job.job, tasks, Vec::new()).await?;
            let files = manifest::listed(&document.files, &parts.parts);
            manifest::check(file, &files, into.force)?;
            manifest::write(file, &files, &items, &context.out)?;
        }
        failure.map_or(Ok(()), Err)
    };
    interruptible(finishing, || transfer.interruption(bytes)).await?;
    document.show(&into, &context.out, (kept, replaced))?;
    Ok(unfinished.exit())
}

impl Fetched {
    /// Prints the outcome, beside the list where that has standard output; of the `files` so many were `there`
    /// already, and so many replaced.
    fn show(
        &self,
        into: &Into,
        out: &OutputForm,
        (there, replaced): (usize, usize),
    ) -> Result<(), Failure> {
        let text = || self.summary(there, replaced);
        if !into.manifest.as_deref().is_some_and(manifest::is_stdout) {
            return out.show(self, text, || vec![self.job.to_string()]);
        }

        if out.mode() == OutputMode::Cli {
            note(text().trim_end());
        }
        Ok(())
    }

    /// Returns a line for people; of the `files` so many were there already, and so many replaced.
    fn summary(&self, kept: usize, replaced: usize) -> String {
        let there = |number: usize, what: &str| match number {
            0 => String::new(),
            1 => format!("; 1 was {what}"),
            number => format!("; {number} were {what}"),
        };
        let fetched: usize = (self.files.iter())
            .map(|file| file.unpacked.unwrap_or(1))
            .sum();
        let there = there(kept, "already there") + &there(replaced, "replaced");
        let files = plural(fetched as u64, "file");
        format!(
            "job {}: {files} in {}{there}\n",
            self.job,
            self.into.display()
        )
    }
}

/// Asks for the outputs of tasks. What they printed is left out where it gets no file: of many tasks that would be much.
async fn outputs_of(
    session: &Session,
    job: &JobView,
    tasks: Selector,
) -> Result<Vec<OutputView>, Failure> {
    let mut pages = session.output_pages(job.job, tasks);
    let mut all = Vec::new();
    while let Some(page) = pages.page().await? {
        all.extend(page.into_iter().map(without_unnamed));
    }
    Ok(all)
}

/// Puts references in the place of what a task printed and what gets no file.
fn without_unnamed(mut output: OutputView) -> OutputView {
    for (stream, name) in [&mut output.stdout, &mut output.stderr] {
        if let (Content::Inline(bytes), None) = (&stream.content, name) {
            stream.content = Content::Blob(link::content::hash_bytes(bytes));
        }
    }
    output
}

/// Stores that files of unfinished tasks are fetched, beside what they replace: the fetch may be interrupted.
/// What they replace is taken out then, and so are those of finished tasks, which stay as they are: that is to
/// be stored once all of them are there.
fn remember(
    earlier: &mut EarlierFiles,
    planned: &[(WantedFile, FileThere)],
    unfinished: &UnfinishedTasks,
) {
    let others = || {
        let files = planned.iter().map(|(file, _)| file);
        files.filter(|file| unfinished.state_of(file.task) != TaskState::Finished)
    };
    for file in others() {
        earlier.add(&file.path, file.blob());
    }
    earlier.save();

    for (file, _) in planned {
        earlier.remove(&file.path);
    }
    for file in others() {
        earlier.add(&file.path, file.blob());
    }
}

/// Returns what came of each archive that was unpacked before, by the archive's path.
fn parts_there(planned: &[(WantedFile, FileThere)], earlier: &EarlierFiles) -> UnpackedArchives {
    let unpacked = planned
        .iter()
        .filter(|(_, there)| there.unpacked().is_some());
    let parts = unpacked
        .filter_map(|(file, _)| Some((file.path.clone(), earlier.entries_of(&file.path)?.clone())));
    UnpackedArchives {
        parts: parts.collect(),
        left: Vec::new(),
    }
}

/// Returns the directory of each task that left files.
fn left_in(wanted: &[WantedFile], dir: &Path, dirs: TaskDirs) -> BTreeMap<TaskId, PathBuf> {
    let place = |file: &WantedFile| (file.task, dirs.below(dir, file.task));
    wanted.iter().map(place).collect()
}

/// Unpacks an [`APART_ARCHIVE`], where this system has such names, and stores what came of it; a later fetch
/// replaces that, unless it `stays`. Adds what came of it to `parts`. Returns the number of entries if all have
/// their places.
async fn unpack(
    archive: WantedFile,
    stays: bool,
    force: bool,
    earlier: &mut EarlierFiles,
    parts: &mut UnpackedArchives,
) -> Result<Option<usize>, Failure> {
    let mut known = std::mem::take(earlier);
    let path = archive.path.clone();
    let work = tokio::task::spawn_blocking(move || {
        let may_replace = |path: &Path, there: &BlobRef| force || known.has(path, there);
        let unpacked = apart::unpack(&archive.path, &may_replace);
        if let Ok(unpacked) = &unpacked {
            known.add_unpacked(&archive.path, archive.blob(), unpacked, stays);
        }
        (unpacked, known)
    });
    let (unpacked, known) = work.await.map_err(|error| parallel::interrupted(&error))?;
    *earlier = known;
    let unpacked = unpacked.map_err(|error| Failure::cannot("unpack", &path, &error))?;

    let made = unpacked.is_whole().then_some(unpacked.made.len());
    let other = unpacked.differ.first().map(|path| differs(path));
    parts.add(path, unpacked);
    other.map_or(Ok(made), Err)
}

/// Says why there is nothing to fetch.
fn nothing_of(job: &JobView, outputs: &[OutputView]) -> String {
    let id = job.job;
    let printed = |output: &OutputView| {
        let streams = [&output.stdout, &output.stderr];
        streams.iter().any(|(stream, _)| stream.content.size() > 0)
    };

    if job.tasks.settled() < job.tasks.total {
        format!(
            "no task of job {id} has left a file yet; deskgrid task list {id} shows how far they are"
        )
    } else if outputs.iter().any(printed) {
        format!(
            "the tasks of job {id} left no files, they only printed: deskgrid job cat {id} stdout shows that, and submit \
             --stdout FILE makes files of it"
        )
    } else {
        format!(
            "the tasks of job {id} left no files: submit --output-file says which to keep; deskgrid task list {id} shows how \
             they ended"
        )
    }
}

/// Returns what was not kept of one output.
fn warned(output: &OutputView) -> impl Iterator<Item = FetchedWarning> {
    output.warnings.iter().map(|warning| FetchedWarning {
        task: output.attempt.task.to_string(),
        warning: warning.clone(),
        archive: output
            .files
            .iter()
            .map(|file| file.path.to_string())
            .find(|name| is_archive(name) && tells_of(warning, name)),
    })
}

/// Prints what was not kept, or not as files by themselves.
fn tell(warnings: &[FetchedWarning]) {
    for warned in warnings.iter().take(MOST_NOTES) {
        // In one line: a name with a line break must not look like a word of ours.
        note(&format!(
            "task {}: {}",
            warned.task,
            printable(&warned.warning)
        ));
    }
    let more = warnings.len().saturating_sub(MOST_NOTES);
    if more > 0 {
        note(&format!(
            "{more} more tasks left such outputs: deskgrid task info JOB.TASK"
        ));
    }
}

/// Returns the first of the warnings about archives that were not unpacked as a whole.
fn left_apart(warnings: Vec<FetchedWarning>, files: &[FetchedFile]) -> Option<FetchedWarning> {
    let unpacked: BTreeSet<&str> = files
        .iter()
        .filter(|file| file.unpacked.is_some())
        .map(|file| file.task.as_str())
        .collect();
    let left = |warned: &FetchedWarning| !unpacked.contains(warned.task.as_str());
    warnings.into_iter().find(left)
}

/// Whether a worker's warning says that outputs lie in this archive. Others may quote a task's own file of that
/// name.
fn tells_of(warning: &str, archive: &str) -> bool {
    let of = format!("of its outputs lie in `{archive}`: ");
    warning
        .split_once(' ')
        .is_some_and(|(count, rest)| count.parse::<u64>().is_ok() && rest.starts_with(&of))
}

/// Whether a file of this name can be an [`APART_ARCHIVE`].
fn is_archive(name: &str) -> bool {
    name.trim_start_matches('_') == APART_ARCHIVE
}

/// Returns every file of the outputs, with its path below `dir`, and what has no place there.
fn wanted(
    outputs: &[OutputView],
    dir: &Path,
    dirs: TaskDirs,
) -> (Vec<WantedFile>, Vec<FetchedWarning>) {
    let mut all = BTreeMap::new();
    let mut left = Vec::new();

    for output in outputs {
        let task = output.attempt.task;
        let base = dirs.below(dir, task);
        let mut leave = |warning: String| {
            left.push(FetchedWarning {
                task: task.to_string(),
                warning,
                archive: None,
            });
        };

        for file in &output.files {
            let name = file.path.as_str();
            let path = base.join(&file.path);
            let apart = is_archive(name) && output.warnings.iter().any(|said| tells_of(said, name));
            let Entry::Vacant(free) = all.entry(path.clone()) else {
                leave(format!("it left `{name}` twice: only one is fetched"));
                continue;
            };
            free.insert(WantedFile {
                task,
                path,
                content: Content::Blob(file.blob),
                executable: file.executable,
                apart,
            });
        }

        for (what, (stream, name)) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            let Some(name) = name else { continue };
            match place_of_stream(&all, &base, name) {
                Ok(path) => {
                    let file = WantedFile {
                        task,
                        path: path.clone(),
                        content: stream.content.clone(),
                        executable: false,
                        apart: false,
                    };
                    all.insert(path, file);
                }
                Err(why) => leave(format!(
                    "its {what} is not fetched: {why}; deskgrid job cat {} {what} {} shows it",
                    task.job, task.index
                )),
            }
        }
    }

    (all.into_values().collect(), left)
}

/// Returns the path of the file of a stream, or says why it can be nowhere below `base`: the name has
/// the task's item in it, and a pattern may have brought an output to the same place.
fn place_of_stream(
    all: &BTreeMap<PathBuf, WantedFile>,
    base: &Path,
    name: &str,
) -> Result<PathBuf, String> {
    let name: PortablePath = name.parse().map_err(|bad: BadPath| bad.to_string())?;
    let path = base.join(&name);

    let mut behind = all.range(path.clone()..);
    let taken = behind
        .next()
        .is_some_and(|(other, _)| other.starts_with(&path));
    let inside_a_file = path.ancestors().skip(1).any(|dir| all.contains_key(dir));
    if taken || inside_a_file {
        return Err(format!(
            "another file of the task has the place of `{name}`"
        ));
    }
    Ok(path)
}

/// Returns each file with what is there already, and `earlier` again. What differs is refused, unless
/// it is of an earlier attempt and unchanged, or with `force`.
async fn look(
    wanted: Vec<WantedFile>,
    force: bool,
    earlier: EarlierFiles,
) -> Result<(Vec<(WantedFile, FileThere)>, EarlierFiles), Failure> {
    let work = tokio::task::spawn_blocking(move || {
        let mut planned = Vec::with_capacity(wanted.len());
        for file in wanted {
            let there = there(&file, force, &earlier)?;
            planned.push((file, there));
        }

        Ok((planned, earlier))
    });
    work.await.map_err(|error| parallel::interrupted(&error))?
}

fn there(wanted: &WantedFile, force: bool, earlier: &EarlierFiles) -> Result<FileThere, Failure> {
    let path = &wanted.path;
    let found = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let unpacked = earlier.unpacked(path, &wanted.blob());
            return Ok(unpacked.map_or(FileThere::Nothing, FileThere::Unpacked));
        }
        Err(error) => return Err(Failure::cannot("look at", path, &error)),
        Ok(metadata) if !metadata.is_file() => None,
        Ok(_) => Some(link::content::hash_file(path)?),
    };

    match found {
        Some(found) if found == wanted.blob() => {
            // A fetch may have been interrupted between the content and its permissions.
            if wanted.executable {
                let _ = files::permit(path, true);
            }
            Ok(FileThere::Same)
        }
        Some(found) if earlier.has(path, &found) => Ok(FileThere::Replaced),
        _ if force => Ok(FileThere::Replaced),
        _ => Err(differs(path)),
    }
}

/// Returns the failure of a fetch that would overwrite a file of the user's.
fn differs(path: &Path) -> Failure {
    Failure::error(
        "exists",
        format!(
            "{} is there already and differs",
            printable(&path.to_string_lossy())
        ),
        "fetch into another directory, or use --force",
    )
}

/// Writes everything that one attempt left into `dir`, which is empty: its files, and its standard
/// output as `stdout`.
pub(super) async fn lay_out(
    session: &Session,
    output: &OutputView,
    dir: &Path,
) -> Result<(), Failure> {
    let mut output = output.clone();
    output.stdout.1 = Some("stdout".to_owned());
    output.stderr.1 = None;

    let (wanted, unplaced) = wanted(&[output], dir, TaskDirs::None);
    if let Some(FetchedWarning { task, warning, .. }) = unplaced.first() {
        return Err(Failure::error(
            "same-name",
            format!("task {task}: {warning}"),
            "submit with another name for its output: `stdout` stands for what it printed here",
        ));
    }
    bring(session, wanted).await
}

async fn bring(session: &Session, new: Vec<WantedFile>) -> Result<(), Failure> {
    let parts: Vec<PathBuf> = new.iter().filter_map(WantedFile::part).collect();
    let is_full = Arc::new(AtomicBool::new(false));
    let one = |file: WantedFile| {
        let session = session.clone();
        let is_full = is_full.clone();
        async move {
            // What is begun now would stay behind.
            if is_full.load(Ordering::Relaxed) {
                return Ok(());
            }
            bring_one(&session, &file, &is_full).await
        }
    };
    let brought = parallel::each(new, one).await.map(drop);

    // Other interrupted transfers go on later from their parts. These would keep the disk full, of a user
    // who may choose another one.
    if is_full.load(Ordering::Relaxed) {
        for part in parts {
            let _ = std::fs::remove_file(part);
        }
    }
    brought
}

/// Adds to the failure of a damaged or lost output the hint how to recompute it.
fn not_whole(error: LinkError) -> Failure {
    let lost = match &error {
        LinkError::Damaged { .. } => true,
        LinkError::Refused(refusal) => refusal.code == RefusalCode::NotFound,
        _ => false,
    };

    let mut failure = Failure::from(error);
    if lost {
        failure.hint = "have it computed again: deskgrid job retry JOB --damaged".to_owned();
    }
    failure
}

/// Brings a file, and notes whether the disk is full.
async fn bring_one(
    session: &Session,
    file: &WantedFile,
    is_full: &AtomicBool,
) -> Result<(), Failure> {
    let look = |full: bool| {
        is_full.fetch_or(full, Ordering::Relaxed);
    };
    let cannot = |error: &std::io::Error| {
        look(link::is_full(error));
        Failure::cannot("write", &file.path, error)
    };
    let parent = file.path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).map_err(|error| cannot(&error))?;

    match &file.content {
        Content::Blob(blob) => session
            .client()
            .fetch(*blob, &file.path)
            .await
            .inspect_err(|error| look(error.is_full()))
            .map_err(not_whole)?,
        Content::Inline(bytes) => {
            let mut whole =
                tempfile::NamedTempFile::new_in(parent).map_err(|error| cannot(&error))?;
            std::io::Write::write_all(&mut whole, bytes).map_err(|error| cannot(&error))?;
            whole
                .persist(&file.path)
                .map_err(|error| cannot(&error.error))?;
        }
    }

    files::permit(&file.path, file.executable).map_err(|error| cannot(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::attempt::{OutputFile, Stream};
    use common::{AttemptId, Incarnation, JobId};

    fn output(index: u32, path: &str, stdout: Option<&str>) -> OutputView {
        let attempt = AttemptId {
            task: TaskId::new(JobId(1), index),
            number: 1,
            incarnation: Incarnation(1),
        };
        let blob = link::content::hash_bytes(b"content");
        let files = vec![OutputFile {
            path: path.parse().unwrap(),
            blob,
            executable: true,
        }];
        let stream = |name: Option<&str>| (Stream::default(), name.map(str::to_owned));

        OutputView {
            attempt,
            host: "h".into(),
            stdout: stream(stdout),
            stderr: stream(None),
            files,
            warnings: Vec::new(),
            removed: false,
        }
    }

    #[test]
    fn only_the_warning_about_an_archive_makes_a_file_one() {
        let name = "deskgrid-apart.tar";
        assert!(tells_of(
            "2 of its outputs lie in `deskgrid-apart.tar`: a link, a pipe",
            name
        ));
        for quoting in [
            "`x:`deskgrid-apart.tar``: it has a colon",
            "`2 of its outputs lie in `deskgrid-apart.tar`: a link`: it has a colon",
            "2 of its outputs lie in `_deskgrid-apart.tar`: a link",
        ] {
            assert!(!tells_of(quoting, name), "{quoting}");
        }
    }

    #[test]
    fn files_lie_below_their_task_where_there_are_several() {
        let paths = |dirs| {
            let (wanted, _) = wanted(&[output(3, "a/b", Some("log"))], Path::new("d"), dirs);
            wanted.into_iter().map(|w| w.path).collect::<Vec<_>>()
        };
        let digits = TaskDirs::Digits;
        assert_eq!(
            paths(digits(1)),
            [Path::new("d/3/a/b"), Path::new("d/3/log")]
        );
        assert_eq!(
            paths(digits(3)),
            [Path::new("d/003/a/b"), Path::new("d/003/log")]
        );
        assert_eq!(
            paths(TaskDirs::None),
            [Path::new("d/a/b"), Path::new("d/log")]
        );
    }

    #[test]
    fn a_stream_without_a_place_of_its_own_is_left_out_alone() {
        for name in ["../../.bashrc", "/abs", "", "a/b", "a", "a/b/c"] {
            let outputs = [output(3, "a/b", Some(name)), output(4, "a/b", Some("log"))];
            let (wanted, left) = wanted(&outputs, Path::new("d"), TaskDirs::Digits(1));
            let paths: Vec<_> = wanted.into_iter().map(|file| file.path).collect();
            let rest = ["d/3/a/b", "d/4/a/b", "d/4/log"].map(PathBuf::from);
            assert_eq!(paths, rest, "{name}");

            let [FetchedWarning { task, warning, .. }] = &left[..] else {
                panic!("{name}: {} are left out", left.len());
            };
            assert_eq!(task, "1.3");
            let shown = "deskgrid job cat 1 stdout 3";
            assert!(
                warning.contains(&format!("`{name}`")) && warning.contains(shown),
                "{warning}"
            );
        }
    }

    #[test]
    fn what_was_printed_and_gets_no_file_is_not_kept_in_memory() {
        let mut printed = output(1, "out", Some("log"));
        for (stream, _) in [&mut printed.stdout, &mut printed.stderr] {
            stream.content = Content::Inline(b"text".to_vec());
        }
        let kept = without_unnamed(printed.clone());
        assert_eq!(kept.stdout, printed.stdout);
        let reference = link::content::hash_bytes(b"text");
        assert_eq!(kept.stderr.0.content, Content::Blob(reference));
        assert_eq!(kept.files, printed.files);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_there_already_becomes_executable_as_its_result_is() {
        use std::os::unix::fs::PermissionsExt;

        let dir = tempfile::tempdir().unwrap();
        let (mut wanted, _) = wanted(&[output(1, "run", None)], dir.path(), TaskDirs::None);
        std::fs::write(&wanted[0].path, "content").unwrap();
        for executable in [false, true] {
            wanted[0].executable = executable;
            let looked = there(&wanted[0], false, &EarlierFiles::default());
            assert_eq!(looked.unwrap(), FileThere::Same);
            let mode = std::fs::metadata(&wanted[0].path).unwrap().permissions();
            assert_eq!(mode.mode() & 0o100 != 0, executable);
        }
    }

    #[test]
    fn a_differing_file_is_overwritten_only_if_forced_or_of_an_earlier_attempt() {
        let dir = tempfile::tempdir().unwrap();
        let file = &wanted(&[output(1, "out", None)], dir.path(), TaskDirs::None).0[0];
        let looked = |force, earlier: &EarlierFiles| there(file, force, earlier);
        let mut earlier = EarlierFiles::default();
        assert_eq!(looked(false, &earlier).unwrap(), FileThere::Nothing);

        std::fs::write(&file.path, "content").unwrap();
        assert_eq!(looked(false, &earlier).unwrap(), FileThere::Same);
        std::fs::write(&file.path, "mine").unwrap();
        assert_eq!(looked(false, &earlier).unwrap_err().code, "exists");
        assert_eq!(looked(true, &earlier).unwrap(), FileThere::Replaced);

        earlier.add(
            &file.path,
            link::content::hash_bytes(b"of an earlier attempt"),
        );
        assert_eq!(looked(false, &earlier).unwrap_err().code, "exists");
        std::fs::write(&file.path, "of an earlier attempt").unwrap();
        assert_eq!(looked(false, &earlier).unwrap(), FileThere::Replaced);
        earlier.remove(&file.path);
        assert_eq!(looked(false, &earlier).unwrap_err().code, "exists");
    }
}
