//! Plans a job: its `JobSpec`, but for the content of its files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use common::job::{
    BadJob, Capture, CommandSpec, Compare, DEFAULT_MAX_LOSSES, JobSpec, Quorum, Rules, Work,
    usual_policy,
};
use common::needs::Needs;
use common::path::{PortablePath, is_inside};
use common::ranks::{MAX_RANKS, Widths};
use common::template::{PLACEHOLDERS, Template};
use common::{After, IdSet, NewTasks, Ranks, Span, SubmitOptions, TaskSet, Time};

use super::inputs::{Local, LocalContent, LocalKind, PlannedInput, check_platforms, plan_inputs};
use super::{BuildError, items, policy};
use crate::args::submit::JobArgs;
use crate::args::value::{Deadline, Dur, EstimatesArg, Limit};

/// The most files that are named because they are no inputs.
const MOST_FILES: usize = 3;
/// The word for no file, where a file is named for a task's `stdout` or `stderr`.
const NO_FILE: &str = "none";

/// A job that is valid as far as can be checked without the master.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SubmitPlan {
    spec: JobSpec,
    /// The date of a deadline and the estimates of single tasks, sent beside the spec.
    asked: SubmitOptions,
    inputs: Vec<PlannedInput>,
    /// Whether the tasks are disclosed: nobody waits for them until they are requested.
    pub disclosed: bool,
    /// Notes for the user about options that may be a mistake.
    pub notes: Vec<String>,
}

/// Reads the lists, looks at the files and checks everything that can be checked here.
///
/// # Errors
/// The first error that is found.
pub(crate) fn plan(args: &JobArgs) -> Result<SubmitPlan, BuildError> {
    disclosable(args)?;
    openable(args)?;
    idle(args)?;
    let (tasks, said) = tasks(args)?;
    let inputs = plan_inputs(&args.input, &args.input_tree, &tasks)?;
    check_platforms(&inputs)?;

    let work = match ranks(args)? {
        Some(ranks) => Work::Ranks(command(args, &tasks)?, ranks),
        None if args.noop => Work::Noop,
        None => Work::Command(command(args, &tasks)?),
    };

    let name = args
        .name
        .clone()
        .unwrap_or_else(|| api::usual_name(&args.command));
    let spec = JobSpec {
        name,
        tasks,
        work,
        rules: rules(args)?,
    };

    let asked = SubmitOptions {
        deadline: date(args),
        estimates: estimates(args, said)?,
        labels: args.label.iter().cloned().collect(),
        // Which jobs these are is looked up once the master is there.
        after: Vec::new(),
        open: args.open,
    };
    let plan = SubmitPlan {
        notes: notes(args, &inputs),
        disclosed: args.disclose,
        spec,
        asked,
        inputs,
    };
    let whole = plan.spec(|_| LocalContent::UNKNOWN);
    whole.check().and_then(|()| plan.asked.check(&whole))?;

    Ok(plan)
}

impl SubmitPlan {
    /// Returns every local file and tree that the job reads, each once.
    pub(super) fn locals(&self) -> Vec<Local<PathBuf>> {
        let all = self.inputs.iter().flat_map(PlannedInput::locals);
        let owned = |local| match local {
            Local::File(path) => Local::File(Path::to_owned(path)),
            Local::Tree(path) => Local::Tree(Path::to_owned(path)),
        };
        let all: BTreeSet<_> = all.map(owned).collect();
        all.into_iter().collect()
    }

    /// Returns the complete spec; `content` gives the content of each file and tree.
    pub(super) fn spec(&self, content: impl Fn(Local<&Path>) -> LocalContent) -> JobSpec {
        let mut spec = self.spec.clone();
        if let Some(command) = spec.work.command_mut() {
            command.inputs = self
                .inputs
                .iter()
                .map(|input| input.filled(&content))
                .collect();
        }
        spec
    }

    /// Returns the spec without its files, for a dry run: the files were checked here, and the
    /// master does not have them.
    pub(crate) fn spec_without_files(&self) -> JobSpec {
        let mut spec = self.spec.clone();
        if let Some(command) = spec.work.command_mut() {
            command.stdin = None;
        }
        spec
    }

    /// Sets the jobs that have to end before it starts.
    ///
    /// # Errors
    /// If they are too many, or one is named twice.
    pub(crate) fn start_after(&mut self, after: Vec<After>) -> Result<(), BuildError> {
        self.asked.after = after;
        Ok(self.asked.check(&self.spec)?)
    }

    /// Returns the date of a deadline and the estimates of single tasks, sent beside the spec.
    pub(crate) fn asked(&self) -> &SubmitOptions {
        &self.asked
    }

    /// Says when its disclosed tasks run, to stand behind a predicted end; nothing of other tasks.
    pub(crate) fn proviso(&self) -> &'static str {
        match (self.disclosed, self.waits_for_requests()) {
            (false, _) => "",
            (true, true) => "; its tasks start once they are requested (deskgrid request)",
            (true, false) => {
                "; its tasks run while none that somebody waits for would use their slots (deskgrid request makes them go first)"
            }
        }
    }

    /// Whether its tasks are disclosed, and its policy starts none before it is requested.
    pub(crate) fn waits_for_requests(&self) -> bool {
        self.disclosed && policy::holds_disclosed(&self.spec.rules.policy)
    }

    /// Whether it says how long its tasks take.
    pub(crate) fn estimated(&self) -> bool {
        self.spec.rules.estimate.is_some() || !self.asked.estimates.is_empty()
    }

    /// The quorum: how many results of each task must agree.
    pub(crate) fn quorum(&self) -> Quorum {
        self.spec.rules.quorum
    }

    /// The number of tasks.
    pub(crate) fn tasks(&self) -> u64 {
        self.spec.tasks.ids.len()
    }

    /// The job's name.
    pub(crate) fn name(&self) -> &str {
        &self.spec.name
    }
}

/// Returns the name of the first of these that is given.
fn first(options: &[(bool, &'static str)]) -> Option<&'static str> {
    let found = options.iter().find(|(given, _)| *given);
    found.map(|(_, name)| *name)
}

/// Checks that a job with `disclose` has no option that excludes it. `clap` has checked the command
/// line, but not the job file.
fn disclosable(args: &JobArgs) -> Result<(), BuildError> {
    let other = first(&[
        (!args.after.is_empty(), "jobs that it waits for"),
        (args.deadline.is_some(), "a deadline"),
        (args.quorum.is_some(), "a quorum"),
    ]);
    match other.filter(|_| args.disclose) {
        Some(other) => Err(BuildError::DiscloseWith(other)),
        None => Ok(()),
    }
}

/// Checks the same of a job with `open`.
fn openable(args: &JobArgs) -> Result<(), BuildError> {
    let other = first(&[
        (args.deadline.is_some(), "a deadline"),
        (args.width.is_some(), "several ranks"),
        (args.disclose, "disclosed tasks"),
        (args.estimates.is_some(), "an estimate for each task"),
    ]);
    match other.filter(|_| args.open) {
        Some(other) => Err(BadJob::OpenWith(other).into()),
        None => Ok(()),
    }
}

/// Checks that a job whose tasks do nothing has nothing that they would do it with: it would be left
/// out in silence.
fn idle(args: &JobArgs) -> Result<(), BuildError> {
    let inputs = !args.input.is_empty() || !args.input_tree.is_empty();
    let mut streams = args.stdout.iter().chain(&args.stderr);
    let prints = streams.any(|name| name != NO_FILE);
    let other = first(&[
        (!args.command.is_empty(), "a command"),
        (inputs, "input files"),
        (!args.output_file.is_empty(), "output files"),
        (args.stdin.is_some(), "standard input"),
        (prints, "files for what it prints"),
        (!args.env.is_empty(), "an environment"),
        (args.checkpoint.is_some(), "checkpoints"),
    ]);
    match other.filter(|_| args.noop) {
        Some(other) => Err(BuildError::NoopWith(other)),
        None => Ok(()),
    }
}

/// Returns the tasks that are to be added to an open job.
///
/// # Errors
/// If the options say more than that.
pub(crate) fn new_tasks(args: &JobArgs) -> Result<NewTasks, BuildError> {
    let rest = JobArgs {
        array: None,
        each_line: None,
        from_json: None,
        ..args.clone()
    };
    if rest != JobArgs::default() {
        return Err(BuildError::NotItsOwnWork);
    }
    if (&args.array, &args.each_line, &args.from_json) == (&None, &None, &None) {
        return Ok(NewTasks::Next);
    }

    let (tasks, said) = tasks(args)?;
    if said.iter().any(Option::is_some) {
        return Err(BadJob::OpenWith("an estimate for each task").into());
    }
    let new = if tasks.items.is_empty() {
        NewTasks::Ids(tasks.ids)
    } else {
        NewTasks::Items(tasks.items)
    };
    new.check()?;
    Ok(new)
}

/// Returns the range of widths and the scaling of a job of several ranks, or `None` of any other
/// job.
fn ranks(args: &JobArgs) -> Result<Option<Ranks>, BuildError> {
    let Some(width) = args.width else {
        return match args.work.is_some() || args.parallelism.is_some() {
            true => Err(BuildError::NoWidth),
            false => Ok(None),
        };
    };

    let list = args.array.is_some() || args.each_line.is_some() || args.from_json.is_some();
    let other = first(&[
        (args.noop, "--noop"),
        (list, "a list of tasks"),
        (args.disclose, "--disclose"),
        (args.estimate.is_some(), "--estimate"),
    ]);
    if let Some(other) = other {
        return Err(BuildError::WidthWith(other));
    }

    let work = args.work.map(Dur::span);
    Ok(Some(Ranks::of(width, work, args.parallelism)))
}

/// Returns the deadline if it is a date, and not a duration.
fn date(args: &JobArgs) -> Option<Time> {
    match args.deadline? {
        Deadline::At(time) => Some(time),
        Deadline::In(_) => None,
    }
}

/// Returns an estimate for each task, or none at all: `--estimates` goes before the items' own
/// estimates.
fn estimates(args: &JobArgs, said: Vec<Option<Span>>) -> Result<Vec<Span>, BuildError> {
    match &args.estimates {
        Some(EstimatesArg::File(path)) => return items::estimates(path),
        Some(EstimatesArg::Each(each)) => {
            return Ok(each.iter().map(|estimate| estimate.span()).collect());
        }
        None if said.iter().all(Option::is_none) => return Ok(Vec::new()),
        None => {}
    }

    let other = args.estimate.map(Dur::span);
    (1..)
        .zip(said)
        .map(|(item, said)| said.or(other).ok_or(BuildError::NoEstimate(item)))
        .collect()
}

/// Returns the tasks, and the estimates that their items carry.
fn tasks(args: &JobArgs) -> Result<(TaskSet, Vec<Option<Span>>), BuildError> {
    let all = |ids| {
        Ok((
            TaskSet {
                ids,
                items: Vec::new(),
            },
            Vec::new(),
        ))
    };

    if let Some(width) = args.width {
        // The final width is known only when the ranks start.
        let least = if let Widths::Between(least, _) = width {
            least
        } else {
            1
        };
        return all(Ranks::tasks(least.min(MAX_RANKS)));
    }

    let (list, said) = match (&args.array, &args.each_line, &args.from_json) {
        (None, None, None) => return all(IdSet::from_range(1, 1)),
        (Some(array), None, None) => return all(array.0.clone()),
        (None, Some(path), None) => (items::lines(path)?, Vec::new()),
        (None, None, Some(path)) => items::json(path)?,
        _ => return Err(BuildError::TwoBags),
    };
    let last = u32::try_from(list.len()).unwrap_or(u32::MAX);

    Ok((
        TaskSet {
            ids: IdSet::from_range(1, last),
            items: list,
        },
        said,
    ))
}

fn command(args: &JobArgs, tasks: &TaskSet) -> Result<CommandSpec, BuildError> {
    if args.command.is_empty() {
        return Err(BuildError::NoCommand);
    }

    let templates = |texts: &[String], place| {
        texts
            .iter()
            .map(|text| template(text, tasks, place))
            .collect::<Result<Vec<_>, _>>()
    };
    let mut command = CommandSpec::new(templates(&args.command, "the command")?);
    for pair in &args.env {
        command
            .env
            .push((pair.0.clone(), template(&pair.1, tasks, "the environment")?));
    }

    command.outputs = templates(&args.output_file, "an output file")?;
    for glob in command.outputs.iter().map(Template::as_str) {
        let wrong = |e: globset::Error| BuildError::Glob {
            glob: glob.to_owned(),
            why: e.kind().to_string(),
        };
        globset::Glob::new(&neutral(glob)).map_err(wrong)?;
    }

    command.checkpoint = args.checkpoint.map(Dur::span);
    command.stdin = args.stdin.as_deref().map(str::parse).transpose()?;
    command.stdout = capture(args.stdout.as_deref(), "stdout", tasks)?;
    command.stderr = capture(args.stderr.as_deref(), "stderr", tasks)?;
    Ok(command)
}

fn template(text: &str, tasks: &TaskSet, place: &'static str) -> Result<Template, BuildError> {
    let template: Template = text.parse()?;
    if template.mentions("ITEM") && tasks.items.is_empty() {
        return Err(BuildError::NoItem { place });
    }
    Ok(template)
}

fn capture(
    given: Option<&str>,
    flag: &'static str,
    tasks: &TaskSet,
) -> Result<Capture, BuildError> {
    match given {
        None => Ok(Capture::Keep),
        Some(NO_FILE) => Ok(Capture::Discard),
        Some(path) => {
            let name = template(path, tasks, "a stream's file name")?;
            neutral(path)
                .parse::<PortablePath>()
                .map_err(|source| BuildError::StreamName { flag, source })?;
            Ok(Capture::File(name))
        }
    }
}

/// Replaces each placeholder in the text by a harmless letter.
fn neutral(text: &str) -> String {
    PLACEHOLDERS.iter().fold(text.to_owned(), |text, name| {
        text.replace(&format!("%{{{name}}}"), "x")
    })
}

fn rules(args: &JobArgs) -> Result<Rules, BuildError> {
    let policy = match &args.policy {
        Some(given) => policy::known(given, args.width.is_some())?,
        None => usual_policy(args.width, args.deadline.is_some(), args.disclose).to_owned(),
    };

    let reserved = args.deadline.is_some() || args.width.is_some();
    let learned = args.timeout == Some(Limit::Auto) && reserved;
    if let Some(name) = policy::promises_nothing(&policy).filter(|_| args.deadline.is_some()) {
        return Err(BuildError::NoPromises(name));
    }

    let policy = if learned {
        policy::with_learned_limits(policy)
    } else {
        policy
    };

    Ok(Rules {
        retries: args.retries.unwrap_or(0),
        max_losses: args.max_losses.unwrap_or(DEFAULT_MAX_LOSSES),
        timeout: match args.timeout {
            Some(Limit::Fixed(limit)) => Some(limit.into()),
            Some(Limit::Auto) | None => None,
        },
        // A rank that has failed for good leaves the others without it.
        max_fails: args.max_fails.or(args.width.map(|_| 0)),
        priority: args.priority.unwrap_or(0),
        policy,
        estimate: args.estimate.map(Dur::span),
        checkpoint: args.checkpoint.is_some(),
        needs: needs(args)?,
        quorum: Quorum {
            size: args.quorum.unwrap_or(1),
            adaptive: args.adaptive,
            compare: args.compare.map_or(Compare::Bytes, |how| how.0),
        },
        deadline: args.deadline.map(|deadline| match deadline {
            Deadline::At(_) => Span::ZERO,
            Deadline::In(duration) => duration.into(),
        }),
    })
}

/// Reads what each `--needs` asks for.
fn needs(args: &JobArgs) -> Result<Needs, BuildError> {
    let texts = args.needs.iter().map(|text| text.0.as_str());
    Ok(Needs {
        confinement: args.confinement,
        network: args.network,
        ..Needs::parse(texts).map_err(BadJob::from)?
    })
}

/// Explains why `--timeout auto` sets no limits here, if it sets none.
pub(crate) fn no_limits(args: &JobArgs) -> Option<&'static str> {
    let learns = || args.policy.as_deref().is_some_and(policy::learns_limits);
    let reserved = args.deadline.is_some() || args.width.is_some();
    let none = args.timeout == Some(Limit::Auto) && !reserved && !learns();
    none.then_some(
        "--timeout auto sets no limits here: they pay only where time is reserved (--deadline, --width); elsewhere a host is given \
         back when its task ends, and what takes long is copied instead",
    )
}

fn notes(args: &JobArgs, inputs: &[PlannedInput]) -> Vec<String> {
    let mut notes: Vec<String> = no_limits(args).map(str::to_owned).into_iter().collect();
    let Some(program) = args.command.first().filter(|_| !args.noop) else {
        return notes;
    };
    if args.compare.is_some_and(|how| how.0 == Compare::Program) {
        notes.push(
            "its results wait until you say which agree: deskgrid job judge JOB -- CMD".to_owned(),
        );
    }

    notes.extend(stays_behind(args, inputs));

    let wanted = program.strip_prefix("./").unwrap_or(program);
    let input = inputs.iter().find(|input| input.name.as_str() == wanted);

    if input.is_some() && !program.contains('/') {
        notes.push(format!(
            "`{program}` will be looked up in the workers' PATH; to run the input write ./{program}"
        ));
    }

    if let Some(input) = input.filter(|input| cfg!(unix) && input.kind == LocalKind::Files(false)) {
        notes.push(format!(
            "the program `{}` is not executable here; chmod +x it first",
            input.name
        ));
    }

    notes
}

/// Names the words of the command that are files here, and that no task will have.
fn stays_behind(args: &JobArgs, inputs: &[PlannedInput]) -> Vec<String> {
    let made: Vec<&String> = (args.output_file.iter())
        .chain(&args.stdout)
        .chain(&args.stderr)
        .collect();
    let behind = |at: usize, word: &String| {
        let wanted = word.strip_prefix("./").unwrap_or(word);
        let is_input = inputs.iter().any(|input| match input.kind {
            LocalKind::Trees => is_inside(wanted, input.name.as_str()),
            LocalKind::Files(_) => input.name.as_str() == wanted,
        });
        let is_made = made.iter().any(|name| **name == wanted);
        let is_installed = at == 0 && !word.contains('/') && in_search_path(word);
        !is_input
            && !is_made
            && !is_installed
            && !word.starts_with('/')
            && Path::new(word).is_file()
    };

    let words = args.command.iter().enumerate();
    let behind: Vec<_> = words.filter(|(at, word)| behind(*at, word)).collect();
    let note = |(at, word): &(usize, &String)| {
        let fix = match (at, word.contains('/')) {
            (0, false) if is_job_file(word) => format!("try: deskgrid submit --job-file {word}"),
            (0, false) => format!("add --input {word} and write ./{word}"),
            _ => format!("add --input {word}"),
        };
        format!("`{word}` is a file here, but no input of the job: workers will not have it; {fix}")
    };
    let mut notes: Vec<String> = behind.iter().take(MOST_FILES).map(note).collect();
    let more = behind.len().saturating_sub(MOST_FILES);
    if more > 0 {
        notes.push(format!(
            "{more} more words of the command are files here, but no inputs of the job"
        ));
    }
    notes
}

/// Whether a program of this name would be found in this machine's `PATH`.
fn in_search_path(program: &str) -> bool {
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&dirs).any(|dir| dir.join(program).is_file())
}

fn is_job_file(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|ext| ext.eq_ignore_ascii_case("toml"))
}

#[cfg(test)]
mod tests;
