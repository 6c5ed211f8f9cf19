//! Plans inputs: the local file or tree that each task gets, and the name under which the task finds
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use common::TaskSet;
use common::content::{BlobHash, BlobRef};
use common::ids::{AttemptId, Incarnation, JobId, TaskId};
use common::job::{BadJob, Input, InputKind, InputSource};
use common::needs::Needs;
use common::path::{BadPath, PortablePath};
use common::platform::PlatformName;
use common::template::{Template, TemplateValues};
use common::units::Bytes;

use super::{BuildError, tree};

/// An input whose files are known, but not yet their content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedInput {
    /// The name under which tasks find the file.
    pub name: Template,
    /// The kind of its files.
    pub kind: LocalKind,
    /// The local files that `F` stands for.
    pub files: LocalFiles,
}

/// The kind of the local files of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LocalKind {
    /// Files; any of them may be executed (true), or none.
    Files(bool),
    /// Directories or archives that become trees.
    Trees,
}

/// A local file or tree, to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Local<P> {
    /// A file.
    File(P),
    /// A directory or archive.
    Tree(P),
}

/// The content of a local file or tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LocalContent {
    /// The content of the file, or the list of the tree.
    pub blob: BlobRef,
    /// The parts of the tree.
    pub parts: Vec<BlobRef>,
}

impl LocalContent {
    /// Stands for what nobody has read yet.
    pub(super) const UNKNOWN: Self = Self {
        blob: BlobRef {
            hash: BlobHash([0; 32]),
            size: 0,
        },
        parts: Vec::new(),
    };
}

/// The local files of one input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LocalFiles {
    /// One file that every task reads.
    Shared(PathBuf),
    /// One for each task, in the order of the indices.
    PerTask(Vec<PathBuf>),
    /// One for each platform; the paths in the order of the platforms.
    PerPlatform(Vec<PlatformName>, Vec<PathBuf>),
}

impl PlannedInput {
    /// The local files, shared or one for each task.
    pub(super) fn paths(&self) -> &[PathBuf] {
        match &self.files {
            LocalFiles::Shared(path) => std::slice::from_ref(path),
            LocalFiles::PerTask(paths) | LocalFiles::PerPlatform(_, paths) => paths,
        }
    }

    /// Returns each of its local files or trees.
    pub(super) fn locals(&self) -> impl Iterator<Item = Local<&Path>> {
        self.paths().iter().map(|path| self.local(path))
    }

    fn local<'a>(&self, path: &'a Path) -> Local<&'a Path> {
        match self.kind {
            LocalKind::Files(_) => Local::File(path),
            LocalKind::Trees => Local::Tree(path),
        }
    }

    /// Returns the input with the content of its files, which `content` looks up.
    pub(super) fn filled(&self, content: impl Fn(Local<&Path>) -> LocalContent) -> Input {
        let blob = |path: &Path| content(self.local(path)).blob;
        let kind = match self.kind {
            LocalKind::Files(executable) => InputKind::file(executable),
            LocalKind::Trees => {
                let all = self.locals().flat_map(|local| content(local).parts);
                let parts: BTreeSet<BlobRef> = all.collect();
                let parts = parts.into_iter().collect();
                InputKind::Tree { parts }
            }
        };

        let source = match &self.files {
            LocalFiles::Shared(path) => InputSource::Shared(blob(path)),
            LocalFiles::PerTask(paths) => {
                InputSource::PerTask(paths.iter().map(|path| blob(path)).collect())
            }
            LocalFiles::PerPlatform(platforms, paths) => {
                let blobs = paths.iter().map(|path| blob(path));
                InputSource::PerPlatform(platforms.iter().cloned().zip(blobs).collect())
            }
        };
        Input {
            name: self.name.clone(),
            kind,
            source,
        }
    }
}

/// The most files of a directory that is an input, and the most bytes of their names together: each
/// attempt is told all of them in one message.
const MOST_FILES: usize = 2_000;
const MOST_NAMES: usize = 128 * 1024;

/// Parses each `[PLATFORM=]F[:NAME]` of a file and then of a tree, and checks every one that it stands for. A directory among
/// the files stands for all that lies in it.
pub(super) fn plan_inputs(
    files: &[String],
    trees: &[String],
    tasks: &TaskSet,
) -> Result<Vec<PlannedInput>, BuildError> {
    let files = files.iter().map(|given| (given, false));
    let trees = trees.iter().map(|given| (given, true));
    let mut all = Vec::new();

    for (given, is_tree) in files.chain(trees) {
        let (file, name) = split(given);
        if let Some((platform, build)) = of_platform(given)? {
            let input = plan_input(build, tasks, is_tree)?;
            add_build(given, platform, input, &mut all)?;
        } else if !is_tree && Path::new(file).is_dir() {
            plan_tree(given, Path::new(file), name, tasks, &mut all)?;
        } else {
            all.push(plan_input(given, tasks, is_tree)?);
        }
    }
    Ok(all)
}

/// Splits `PLATFORM=F[:NAME]`, unless the whole names an existing file.
///
/// # Errors
/// If the platform is none that a host can have.
fn of_platform(given: &str) -> Result<Option<(PlatformName, &str)>, BuildError> {
    let platform = given
        .split_once('=')
        .and_then(|(platform, build)| Some((platform.parse::<PlatformName>().ok()?, build)));
    let (file, _) = split(given);
    let Some((platform, build)) = platform.filter(|_| !Path::new(file).exists()) else {
        return Ok(None);
    };

    let known = Needs::parse([format!("platform={platform}").as_str()]);
    known.map_err(BadJob::from)?;
    Ok(Some((platform, build)))
}

/// Adds an input that is for one platform to the builds of that name.
fn add_build(
    given: &str,
    platform: PlatformName,
    input: PlannedInput,
    all: &mut Vec<PlannedInput>,
) -> Result<(), BuildError> {
    let LocalFiles::Shared(path) = input.files else {
        return Err(BuildError::BuildPerTask(given.to_owned()));
    };
    let same = all.iter_mut().find(|other| other.name == input.name);
    let Some(other) = same else {
        all.push(PlannedInput {
            files: LocalFiles::PerPlatform(vec![platform], vec![path]),
            ..input
        });
        return Ok(());
    };

    other.kind = match (other.kind, input.kind) {
        (LocalKind::Trees, LocalKind::Trees) => LocalKind::Trees,
        (LocalKind::Files(one), LocalKind::Files(other)) => LocalKind::Files(one || other),
        _ => return Err(BuildError::BuildKinds(other.name.to_string())),
    };
    match &mut other.files {
        LocalFiles::PerPlatform(platforms, paths) if !platforms.contains(&platform) => {
            platforms.push(platform);
            paths.push(path);
            Ok(())
        }
        LocalFiles::PerPlatform(..) => Err(BuildError::BuildTwice {
            name: other.name.to_string(),
            platform,
        }),
        LocalFiles::Shared(_) | LocalFiles::PerTask(_) => {
            Err(BuildError::BuildAndFile(other.name.to_string()))
        }
    }
}

/// Checks that hosts of some platform have all inputs that are for single platforms.
///
/// # Errors
/// Names the inputs, each with its platforms, if there is none.
pub(super) fn check_platforms(all: &[PlannedInput]) -> Result<(), BuildError> {
    let builds: Vec<(&Template, &[PlatformName])> = all
        .iter()
        .filter_map(|input| match &input.files {
            LocalFiles::PerPlatform(platforms, _) => Some((&input.name, &platforms[..])),
            LocalFiles::Shared(_) | LocalFiles::PerTask(_) => None,
        })
        .collect();
    let everywhere = |platform: &PlatformName| builds.iter().all(|(_, on)| on.contains(platform));
    let Some((_, first)) = builds.first() else {
        return Ok(());
    };
    if first.iter().any(everywhere) {
        return Ok(());
    }

    let names = |on: &[PlatformName]| on.iter().map(ToString::to_string).collect::<Vec<_>>();
    let words = builds
        .iter()
        .map(|(name, on)| format!("{name} is for {}", names(on).join(" and ")));
    Err(BuildError::NoPlatform(words.collect::<Vec<_>>().join(", ")))
}

/// Plans each file of a directory, under the same path below `name`.
fn plan_tree(
    given: &str,
    dir: &Path,
    name: Option<&str>,
    tasks: &TaskSet,
    all: &mut Vec<PlannedInput>,
) -> Result<(), BuildError> {
    let wrong_name = |source: BadPath| BuildError::InputName {
        input: given.to_owned(),
        source,
    };
    let failed = |why: String| BuildError::InputTree {
        path: dir.to_owned(),
        why,
    };
    let root = match name {
        Some(name) => named(name.trim_end_matches('/'), tasks)?,
        None => Template::literal(default_name(dir).map_err(wrong_name)?.as_str()),
    };
    check_names(&root, tasks).map_err(wrong_name)?;
    // Below it the names are the same for each task: what fits below the longest and the deepest fits below all.
    let longest = names_of(&root, tasks).max_by_key(String::len);
    let longest = longest.unwrap_or_else(|| expand(&root, tasks, 0));
    let deepest = names_of(&root, tasks).max_by_key(|name| name.split('/').count());
    let deepest = deepest.unwrap_or_else(|| longest.clone());

    let mut files = 0;
    let mut names = 0;
    for entry in walkdir::WalkDir::new(dir)
        .follow_links(true)
        .sort_by_file_name()
    {
        let entry = entry.map_err(|error| failed(error.to_string()))?;
        if entry.file_type().is_dir() {
            continue;
        }
        let below = entry.path().strip_prefix(dir).unwrap_or(entry.path());
        let below = below
            .to_str()
            .ok_or_else(|| failed(format!("the name {below:?} is not UTF-8")))?;
        let below = below.replace(std::path::MAIN_SEPARATOR, "/");
        for root in [&deepest, &longest] {
            let name = format!("{root}/{below}");
            let fits = name.parse::<PortablePath>();
            fits.map_err(|bad| failed(bad.to_string()))?;
        }

        files += 1;
        names += longest.len() + 1 + below.len();
        if files > MOST_FILES {
            return Err(failed(format!("it has more than {MOST_FILES} files")));
        }
        if names > MOST_NAMES {
            let most = Bytes(MOST_NAMES as u64);
            let why = format!("the names of its files have more than {most} together");
            return Err(failed(why));
        }
        let path = entry.into_path();
        all.push(PlannedInput {
            name: format!("{root}/{}", Template::literal(&below)).parse()?,
            kind: LocalKind::Files(look_at(std::slice::from_ref(&path))?),
            files: LocalFiles::Shared(path),
        });
    }

    if files == 0 {
        return Err(failed("it has no files".to_owned()));
    }
    Ok(())
}

/// Parses `F[:NAME]` of a file or a tree, and checks every one that it stands for.
fn plan_input(given: &str, tasks: &TaskSet, is_tree: bool) -> Result<PlannedInput, BuildError> {
    let (file, name) = split(given);
    // Windows opens such paths, too, and hosts have no others.
    let file = if cfg!(windows) {
        &file.replace('\\', "/")
    } else {
        file
    };
    if file.contains(['*', '?', '[']) && !file.contains("%{") && !Path::new(file).exists() {
        return Err(BuildError::InputPattern { path: file.into() });
    }
    let template: Template = file.parse()?;
    for placeholder in ["JOB_ID", "ATTEMPT_ID", "HOST", "RANK", "WIDTH", "PLATFORM"] {
        if template.mentions(placeholder) {
            return Err(BuildError::InputPlaceholder {
                input: given.to_owned(),
                placeholder,
            });
        }
    }

    if template.mentions("ITEM") && tasks.items.is_empty() {
        return Err(BuildError::NoItem { place: "an input" });
    }

    let files = if template.mentions("ITEM") || template.mentions("TASK_ID") {
        LocalFiles::PerTask(
            tasks
                .ids
                .iter()
                .map(|index| expand(&template, tasks, index).into())
                .collect(),
        )
    } else {
        LocalFiles::Shared(expand(&template, tasks, 0).into())
    };

    let wrong_name = |source: BadPath| BuildError::InputName {
        input: given.to_owned(),
        source,
    };
    let name: Template = match (name, &files) {
        (Some(name), _) => named(name, tasks)?,
        (None, LocalFiles::Shared(path)) => {
            let name = default_name(path).map_err(wrong_name)?;
            Template::literal(if is_tree && !path.is_dir() {
                tree::unpacked_name(name.as_str())
            } else {
                name.as_str()
            })
        }
        (None, LocalFiles::PerTask(_) | LocalFiles::PerPlatform(..)) => template,
    };
    let mut input = PlannedInput {
        name,
        kind: LocalKind::Trees,
        files,
    };
    if let Err(bad) = check_names(&input.name, tasks) {
        // Another name would not help.
        let dir = input.paths().iter().find(|path| !is_tree && path.is_dir());
        return Err(match dir {
            Some(dir) => BuildError::InputDirectory { path: dir.clone() },
            None => wrong_name(bad),
        });
    }
    if is_tree {
        let mut seen = BTreeSet::new();
        for path in input.paths().iter().filter(|path| seen.insert(*path)) {
            tree::look_at(path)?;
        }
    } else {
        input.kind = LocalKind::Files(look_at(input.paths())?);
    }

    Ok(input)
}

/// Reads the NAME of an input.
fn named(name: &str, tasks: &TaskSet) -> Result<Template, BuildError> {
    let name: Template = name.parse()?;
    if name.mentions("ITEM") && tasks.items.is_empty() {
        return Err(BuildError::NoItem {
            place: "an input's name",
        });
    }
    Ok(name)
}

/// Splits `F:NAME` at the last colon, unless the whole names an existing file or directory, or the
/// colon is that of a drive.
pub(super) fn split(given: &str) -> (&str, Option<&str>) {
    let drive = |file: &str, name: &str| file.len() == 1 && name.starts_with(['\\', '/']);
    match given.rsplit_once(':') {
        Some((file, name)) if !file.is_empty() && !name.is_empty() && !drive(file, name) => {
            if !given.contains("%{") && Path::new(given).exists() {
                (given, None)
            } else {
                (file, Some(name))
            }
        }
        _ => (given, None),
    }
}

/// Returns the path itself where it is portable (a leading `./` does not count), else its file
/// name.
fn default_name(path: &Path) -> Result<PortablePath, BadPath> {
    let text = path.to_string_lossy();
    let mut relative = text.trim_end_matches('/');
    while let Some(rest) = relative.strip_prefix("./") {
        relative = rest.trim_start_matches('/');
    }
    let last = || {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    relative.parse().or_else(|_| last().parse())
}

/// Checks that each task can place a file of this name.
fn check_names(name: &Template, tasks: &TaskSet) -> Result<(), BadPath> {
    for name in names_of(name, tasks) {
        name.parse::<PortablePath>()?;
    }
    Ok(())
}

/// Returns what the name is in each task, once if it is the same in all. Placeholders that are known only at the host have a
/// sample value that fits a file name.
fn names_of(name: &Template, tasks: &TaskSet) -> impl Iterator<Item = String> {
    let per_task = name.mentions("ITEM") || name.mentions("TASK_ID");
    let most = if per_task { usize::MAX } else { 1 };
    (tasks.ids.iter().take(most)).map(|index| expand(name, tasks, index))
}

fn expand(template: &Template, tasks: &TaskSet, index: u32) -> String {
    let attempt = AttemptId {
        task: TaskId::new(JobId(1), index),
        number: 1,
        incarnation: Incarnation(1),
    };
    template.expand(&TemplateValues {
        attempt,
        host: "host",
        platform: "linux-x86_64",
        item: tasks.item(index),
        width: None,
    })
}

/// Returns whether any of the files may be executed. Each must be a readable file.
pub(super) fn look_at(paths: &[PathBuf]) -> Result<bool, BuildError> {
    let mut seen: BTreeMap<&Path, bool> = BTreeMap::new();
    for path in paths {
        if seen.contains_key(path.as_path()) {
            continue;
        }

        let unreadable = |source| BuildError::Input {
            path: path.clone(),
            source,
        };

        // Opening a FIFO would block: look before.
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        if metadata.is_dir() {
            return Err(BuildError::InputDirectory { path: path.clone() });
        }
        if !metadata.is_file() {
            return Err(BuildError::InputKind { path: path.clone() });
        }

        File::open(path).map_err(unreadable)?;
        seen.insert(path, executable(path, &metadata));
    }

    Ok(seen.values().any(|executable| *executable))
}

/// Whether a file may be executed on hosts.
#[cfg(unix)]
pub(super) fn executable(_: &Path, metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o111 != 0
}

/// Whether a file may be executed on hosts: this system has no mark of that, so that it counts what its
/// content begins with.
#[cfg(not(unix))]
pub(super) fn executable(path: &Path, _: &std::fs::Metadata) -> bool {
    use std::io::Read;
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(4).read_to_end(&mut start));
    read.is_ok() && begins_program(&start)
}

/// Whether a file that begins like this is a program or a script on systems like Unix.
#[cfg(any(not(unix), test))]
fn begins_program(start: &[u8]) -> bool {
    const PROGRAMS: [&[u8]; 4] = [
        b"\x7fELF",
        b"#!",
        &[0xcf, 0xfa, 0xed, 0xfe],
        &[0xca, 0xfe, 0xba, 0xbe],
    ];
    PROGRAMS.iter().any(|program| start.starts_with(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_scripts_are_known_by_how_they_begin() {
        for program in [&b"\x7fELF\x02"[..], b"#!/bin/sh\n"] {
            assert!(begins_program(program));
        }
        for other in [&b""[..], b"#", b"MZ\x90\0", b"a,b\n"] {
            assert!(!begins_program(other));
        }
    }

    #[test]
    fn names_split_off_at_the_last_colon() {
        assert_eq!(split("a.dat"), ("a.dat", None));
        assert_eq!(split("a.dat:b"), ("a.dat", Some("b")));
        assert_eq!(split("x:y:z"), ("x:y", Some("z")));
        assert_eq!(split("%{ITEM}:in"), ("%{ITEM}", Some("in")));
        assert_eq!(split(r"C:\data"), (r"C:\data", None));
        assert_eq!(split(r"C:\data:in"), (r"C:\data", Some("in")));
    }

    #[test]
    fn a_tree_has_the_name_of_its_directory_or_of_its_archive_without_the_ending() {
        let top = tempfile::tempdir().unwrap();
        std::fs::create_dir(top.path().join("v1.zip")).unwrap();
        std::fs::write(top.path().join("env.tar.gz"), "").unwrap();
        let tasks = TaskSet {
            ids: common::IdSet::from_range(1, 1),
            items: Vec::new(),
        };
        for (file, name) in [("v1.zip", "v1.zip"), ("env.tar.gz", "env")] {
            let given = top.path().join(file).display().to_string();
            let planned = plan_input(&given, &tasks, true).unwrap();
            assert_eq!(planned.name.to_string(), name);
        }
    }

    #[test]
    fn default_names_are_portable() {
        let name = |path: &str| default_name(Path::new(path)).unwrap().to_string();
        assert_eq!(name("dir/a.dat"), "dir/a.dat");
        assert_eq!(name("./dir/a.dat"), "dir/a.dat");
        assert_eq!(name("/abs/a.dat"), "a.dat");
        assert_eq!(name("../up/a.dat"), "a.dat");
        assert!(default_name(Path::new("/abs/what?")).is_err());
    }
}
