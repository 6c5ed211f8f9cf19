//! The output files of an attempt: found by globs below its directory, checked, and copied into the
//! spool.
//!
//! The process tree has ended before. Only regular files of the attempt's own are collected as
//! files: a symbolic link or a hard link could stand for a file of the owner's. What cannot be a
//! file by itself everywhere goes into an archive (`apart`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use common::attempt::{APART_ARCHIVE, OutputFile};
use common::path::{PortablePath, plain, readable};
use common::units::Bytes;
use common::{Outcome, content};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use walkdir::WalkDir;

use super::PROGRESS_FILE;
use super::apart::{self, ApartFile, ArchiveFile};
use super::checkpoint::CHECKPOINT_DIR;
use super::inputs::PlacedInput;
use super::trees::PlacedTree;
use crate::blocking::yielded;
use crate::os;
use crate::os::files::{self, FileId};
use crate::spool::blobs::Blobs;

/// The space that the list of outputs may take in a completion, in bytes.
const MAX_LIST: usize = 128 * 1024;
/// The largest size of an entry of that list without its path.
const ENTRY: usize = size_of::<content::BlobRef>() + 8;

/// The most warnings that a completion takes, and the most examples in one.
const MOST_WARNINGS: usize = 10;
const EXAMPLES: usize = 4;
/// The longest name of a file that is shown as an example, in bytes.
const MOST_NAME: usize = 200;
/// The longest text about outputs in a completion, in bytes: names may be long, and a message is not.
const MOST_TEXT: usize = 1_000;
const TOO_MANY: &str = "there are too many for one list";
const EMPTY: &str = "a directory with nothing in it";

/// The expected outputs of an attempt.
#[derive(Debug)]
pub(super) struct ExpectedOutputs {
    patterns: Vec<String>,
    /// The path of each pattern that stands for one file or directory, without a slash at the end.
    paths: Vec<Option<String>>,
    set: GlobSet,
    /// The pattern of each glob of the set.
    of: Vec<usize>,
    /// The inputs, which are no outputs while they are as they were placed, but where a pattern is
    /// the very path of one.
    pub inputs: BTreeMap<PathBuf, PlacedInput>,
    /// The trees, of which nothing is an output.
    pub trees: Vec<PlacedTree>,
}

/// The collected files.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub files: Vec<OutputFile>,
    /// The outcome that replaces the success of the command, if something is wrong.
    pub problem: Option<Outcome>,
    /// The outputs that are not kept, or not as they were, in words.
    pub warnings: Vec<String>,
}

/// The files below an attempt's directory that patterns match.
#[derive(Debug, Default)]
struct FoundOutputs {
    found: Vec<FoundFile>,
    apart: Vec<ApartFile>,
    warnings: Vec<String>,
    problem: Option<Outcome>,
    /// The patterns that match something.
    matched: BTreeSet<usize>,
    /// The first files that the task wrote and no pattern matches, and the number of all.
    others: (Vec<String>, usize),
}

impl FoundOutputs {
    /// Records why the task has not succeeded; the first reason counts.
    fn fail(&mut self, why: Outcome) {
        self.problem.get_or_insert(why);
    }

    /// Records a file that is no output; `name` has slashes between its parts, if it is UTF-8.
    fn note_other(&mut self, relative: &Path, name: Option<String>) {
        let (first, all) = &mut self.others;
        *all += 1;
        let name = name.unwrap_or_else(|| relative.to_string_lossy().into_owned());
        let name = format!("`{name}`");
        if first.len() < EXAMPLES && name.len() <= MOST_NAME {
            first.push(name);
        }
    }

    /// Says which files the task wrote beside its outputs, to whoever misses one.
    fn others_in_words(&self) -> String {
        let (first, all) = &self.others;
        let more = match all - first.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        match first.len() {
            0 if *all == 0 => "beside its outputs the task left no files".to_owned(),
            0 => format!("beside its outputs the task left {all} files of long names"),
            _ => format!(
                "beside its outputs the task left {}{more}, which no --output-file names",
                first.join(", ")
            ),
        }
    }

    /// Records an output that is not kept, of which the task has `promised` the very path or not.
    fn lose(&mut self, why: String, promised: bool) {
        if promised {
            self.fail(Outcome::BadOutput(why));
        } else {
            self.warnings.push(format!("{why}: it was not kept"));
        }
    }
}

impl ExpectedOutputs {
    /// Parses the patterns: `*` and `?` do not match a slash, `**` does. A path without them stands
    /// for a file, or for all that lies in a directory.
    pub(super) fn new(patterns: Vec<String>) -> Result<Self, String> {
        let mut set = GlobSetBuilder::new();
        let mut of = Vec::new();
        let patterns: Vec<String> = patterns.into_iter().map(with_slashes).collect();
        let path = |pattern: &String| plain(pattern.trim_end_matches('/'));
        let paths: Vec<Option<String>> = patterns.iter().map(path).collect();

        for (at, pattern) in patterns.iter().enumerate() {
            let bare = pattern.trim_end_matches('/');
            let tree = format!("{bare}/**");
            let all = match (paths[at].is_some(), bare.len() < pattern.len()) {
                (_, true) => vec![tree],
                (true, false) => vec![pattern.clone(), tree],
                (false, false) => vec![pattern.clone()],
            };
            for text in all {
                let glob = GlobBuilder::new(&text).literal_separator(true).build();
                set.add(glob.map_err(|e| format!("its output pattern is invalid: {e}"))?);
                of.push(at);
            }
        }
        let set = set
            .build()
            .map_err(|error| format!("its output patterns make no sense: {error}"))?;
        Ok(Self {
            patterns,
            paths,
            set,
            of,
            inputs: BTreeMap::new(),
            trees: Vec::new(),
        })
    }

    /// Whether no output is expected.
    pub(super) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Moves or copies the matching files into `blobs`, all that can be kept; the copying yields ([`yielded`]). A failed attempt
    /// has no problem, whatever is missing.
    pub(super) fn collect(
        &self,
        dir: &Path,
        blobs: &Blobs,
        limit: u64,
        succeeded: bool,
    ) -> Collected {
        let mut survey = yielded(|| {
            // The attempt may have removed the worker's access rights together with its own.
            files::open_up(dir);
            self.survey(dir, limit)
        });
        let mut files = Vec::with_capacity(survey.found.len());
        for file in std::mem::take(&mut survey.found) {
            match file.store(dir, blobs) {
                Ok(output) => files.push(output),
                Err(why) => survey.fail(why),
            }
        }
        if !survey.apart.is_empty() {
            match keep_apart(dir, &survey.apart, &files, blobs) {
                Ok(archive) => {
                    survey.warnings.push(said_of(&survey.apart, &archive.path));
                    files.push(archive);
                }
                Err(why) => survey.fail(why),
            }
        }

        let missing = (0..self.patterns.len()).find(|at| !survey.matched.contains(at));
        let missing = missing.map(|at| Outcome::MissingOutput(readable(&self.patterns[at])));
        if missing.is_some() && succeeded {
            survey.warnings.insert(0, survey.others_in_words());
        }
        let problem = survey.problem.or(missing);
        let mut warnings = survey.warnings;
        if let Some(why) = problem.as_ref().filter(|_| !succeeded) {
            tracing::info!(%why, "an output of a failed attempt was not collected");
        }
        let more = warnings.len().saturating_sub(MOST_WARNINGS);
        if more > 0 {
            warnings.truncate(MOST_WARNINGS);
            warnings.push(format!("and {more} more outputs were not kept"));
        }
        warnings.iter_mut().for_each(shorten);
        let mut problem = problem.filter(|_| succeeded);
        if let Some(Outcome::BadOutput(why) | Outcome::NoRoom(why)) = &mut problem {
            shorten(why);
        }

        Collected {
            files,
            problem,
            warnings,
        }
    }

    /// Lists the files to collect.
    fn survey(&self, dir: &Path, limit: u64) -> FoundOutputs {
        let mut survey = FoundOutputs::default();
        let mut links = BTreeMap::<FileId, u64>::new();
        let mut names = BTreeSet::new();
        let mut promised = Vec::new();

        for entry in WalkDir::new(dir).min_depth(1).sort_by_file_name() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    let why = format!("the attempt's directory cannot be read: {error}");
                    survey.fail(Outcome::BadOutput(why));
                    continue;
                }
            };
            let relative = entry.path().strip_prefix(dir).unwrap_or(entry.path());
            let meta = match entry.metadata() {
                Ok(meta) => meta,
                Err(error) => {
                    let why = format!("`{}`: {error}", relative.display());
                    survey.fail(Outcome::BadOutput(why));
                    continue;
                }
            };
            if meta.is_file() && files::names_of(&meta) > 1 {
                *links.entry(files::id_of(&meta)).or_default() += 1;
            }

            let name = os::slashed(relative);
            let literal = |at: &usize| {
                let path = self.paths[*at].as_deref();
                path.is_some() && name.as_deref() == path
            };
            // These files are not results, and are handled elsewhere.
            let ours = relative == Path::new(PROGRESS_FILE) || relative.starts_with(CHECKPOINT_DIR);
            if meta.is_dir() {
                let named = (0..self.patterns.len()).filter(literal);
                survey.matched.extend(named);
                if !ours && self.is_in_tree(relative) && is_empty(entry.path()) {
                    survey.apart.push(ApartFile {
                        relative: relative.to_owned(),
                        meta,
                        why: EMPTY.to_owned(),
                    });
                }
                continue;
            }

            let hits: BTreeSet<usize> =
                (self.set.matches(relative).into_iter().map(|at| self.of[at])).collect();
            let literally = hits.iter().any(literal);
            let given = self.is_input(relative, &meta) && !literally
                || meta.is_symlink() && self.is_tree(dir, relative);
            if hits.is_empty() || ours || given {
                if !ours && !given {
                    survey.note_other(relative, name);
                }
                continue;
            }

            survey.matched.extend(hits);
            match FoundFile::check(relative, meta, &mut names) {
                Ok(file) => {
                    survey.found.push(file);
                    promised.push(literally);
                }
                Err(Odd::Apart(file)) => {
                    if literally {
                        survey.fail(Outcome::BadOutput(file.why.clone()));
                    }
                    survey.apart.push(*file);
                }
                Err(Odd::Lost(why)) => survey.lose(why, literally),
            }
        }

        // An input that the task gave another name is the worker's file.
        for input in self.inputs.values() {
            links.insert(input.stamp.0, u64::MAX);
        }
        fit(&mut survey, &promised, &links, limit);
        survey
    }

    /// Whether the path lies in a directory that is an output as a whole.
    fn is_in_tree(&self, relative: &Path) -> bool {
        let hits = self.set.matches(relative).into_iter();
        hits.map(|at| self.of[at])
            .any(|at| self.paths[at].is_some())
    }

    /// Whether the file is an input that the task left as it was.
    fn is_input(&self, relative: &Path, meta: &Metadata) -> bool {
        let stamp = self.inputs.get(relative).map(|input| input.stamp);
        stamp.is_some_and(|stamp| stamp == os::stamp_of(meta))
    }

    /// Whether the path is a link to a tree of the worker's.
    fn is_tree(&self, dir: &Path, relative: &Path) -> bool {
        let links = self.trees.iter().filter_map(PlacedTree::link);
        let mut same = links.filter(|(at, _)| at == relative);
        same.any(|(at, to)| std::fs::read_link(dir.join(at)).is_ok_and(|there| there == to))
    }
}

/// Returns the pattern with slashes in the place of what an item has instead on this system.
fn with_slashes(pattern: String) -> String {
    if cfg!(windows) {
        pattern.replace(r"[\]", "/")
    } else {
        pattern
    }
}

/// Whether nothing lies in a directory.
fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

/// Takes out what is not the attempt's own, and what is too much.
fn fit(survey: &mut FoundOutputs, promised: &[bool], links: &BTreeMap<FileId, u64>, limit: u64) {
    let mut size = (survey.apart.iter().map(ApartFile::size)).fold(0, u64::saturating_add);
    let sizes = survey.found.iter().map(|file| file.meta.len());
    let all = sizes.fold(size, u64::saturating_add);
    let mut list = ENTRY + APART_ARCHIVE.len();
    let found = std::mem::take(&mut survey.found);
    if all > limit {
        let [all, most] = [all, limit].map(Bytes);
        let why = format!("the outputs have {all} together; this worker takes at most {most}");
        survey.fail(Outcome::BadOutput(why));
    }
    if size > limit {
        survey.apart.clear();
        size = 0;
    }

    for (file, promised) in found.into_iter().zip(promised) {
        let here = links.get(&files::id_of(&file.meta)).copied().unwrap_or(1);
        if here < files::names_of(&file.meta) {
            let path = &file.path;
            let why = format!("`{path}` is a hard link to a file outside the attempt's directory");
            survey.lose(why, *promised);
            continue;
        }

        // Of what is too large the files before it are kept.
        let larger = size.saturating_add(file.meta.len());
        if larger > limit {
            continue;
        }
        size = larger;
        let longer = list + file.path.as_str().len() + ENTRY;
        if longer <= MAX_LIST {
            list = longer;
            survey.found.push(file);
        } else {
            survey.apart.push(ApartFile {
                relative: PathBuf::from(file.path.as_str()),
                meta: file.meta,
                why: TOO_MANY.to_owned(),
            });
        }
    }
}

/// Stores the archive of what cannot be kept as files.
fn keep_apart(
    dir: &Path,
    apart: &[ApartFile],
    files: &[OutputFile],
    blobs: &Blobs,
) -> Result<OutputFile, Outcome> {
    let mut name = APART_ARCHIVE.to_owned();
    let taken = |name: &str| {
        let same = |file: &OutputFile| file.path.as_str().eq_ignore_ascii_case(name);
        files.iter().any(same)
    };
    while taken(&name) {
        name.insert(0, '_');
    }

    let stored = || {
        let mut draft = yielded(|| {
            let draft = ArchiveFile::beside(dir)?;
            let mut to = io::BufWriter::with_capacity(256 * 1024, &draft.file);
            apart::write(dir, apart, &mut to)?;
            io::Write::flush(&mut to)?;
            drop(to);
            io::Result::Ok(draft)
        })?;
        blobs.add_yielding(&mut draft.file)
    };
    let failed = |error: io::Error| {
        let why = format!("the outputs for `{name}` could not be copied: {error}");
        super::fault(link::is_full(&error), why, Outcome::BadOutput)
    };
    let blob = stored().map_err(failed)?;
    let path = name
        .parse()
        .map_err(|e| Outcome::BadOutput(format!("{e}")))?;
    Ok(OutputFile {
        path,
        blob,
        executable: false,
    })
}

/// Cuts off what of a text is more than [`MOST_TEXT`].
fn shorten(text: &mut String) {
    if text.len() > MOST_TEXT {
        text.truncate(text.floor_char_boundary(MOST_TEXT));
        text.push('…');
    }
}

/// Says which outputs are in the archive, and why.
fn said_of(apart: &[ApartFile], archive: &PortablePath) -> String {
    let mut whys: Vec<&str> = Vec::new();
    for file in apart {
        if !whys.contains(&file.why.as_str()) && whys.len() < EXAMPLES {
            whys.push(&file.why);
        }
    }
    let count = apart.len();
    let more = if whys.len() == EXAMPLES { ", …" } else { "" };
    format!(
        "{count} of its outputs lie in `{archive}`: {}{more}",
        whys.join(", ")
    )
}

/// The reason why an output is not kept as a file.
enum Odd {
    /// It goes into the archive.
    Apart(Box<ApartFile>),
    /// It has no content that could be kept.
    Lost(String),
}

/// A file to collect.
#[derive(Debug)]
struct FoundFile {
    path: PortablePath,
    meta: Metadata,
}

impl FoundFile {
    /// Checks that the file can be kept as it is; `names` are those of the files before it.
    fn check(relative: &Path, meta: Metadata, names: &mut BTreeSet<String>) -> Result<Self, Odd> {
        let shown = relative.to_string_lossy();
        if !meta.is_file() && !meta.is_symlink() {
            let kind = files::kind_of(&meta);
            return Err(Odd::Lost(format!(
                "`{shown}` is {kind}, not a regular file"
            )));
        }

        let path = match os::slashed(relative).map(|name| name.parse::<PortablePath>()) {
            _ if meta.is_symlink() => {
                Err(format!("`{shown}` is a symbolic link, not a regular file"))
            }
            None => Err(format!("the name {relative:?} is not UTF-8")),
            Some(Err(bad)) => Err(bad.to_string()),
            Some(Ok(path)) if names.insert(path.as_str().to_lowercase()) => Ok(path),
            Some(Ok(path)) => Err(format!(
                "`{path}` differs from another output only in upper and lower case"
            )),
        };
        match path {
            Ok(path) => Ok(Self { path, meta }),
            Err(why) => Err(Odd::Apart(Box::new(ApartFile {
                relative: relative.to_owned(),
                meta,
                why,
            }))),
        }
    }

    fn store(&self, dir: &Path, blobs: &Blobs) -> Result<OutputFile, Outcome> {
        let stored = || {
            let mut file = files::open_below(dir, Path::new(self.path.as_str()))?;
            let meta = file.metadata()?;
            if files::id_of(&meta) != files::id_of(&self.meta) || !meta.is_file() {
                return Err(io::Error::other("it was exchanged while it was collected"));
            }
            let path = Path::new(self.path.as_str());
            blobs.add_moving(&mut file, |file, to| {
                files::moved_for_good(dir, path, file, to)
            })
        };
        let blob = stored().map_err(|error| {
            let why = format!("`{}` could not be copied: {error}", self.path);
            super::fault(link::is_full(&error), why, Outcome::BadOutput)
        })?;

        let executable = files::is_executable(&self.meta);
        Ok(OutputFile {
            path: self.path.clone(),
            blob,
            executable,
        })
    }
}

#[cfg(test)]
mod tests;
