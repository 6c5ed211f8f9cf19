//! The plan of a job: its spec, but for the content of its files.

use std::path::{Path, PathBuf};

use common::content::{BlobHash, BlobRef};
use common::job::{Capture, CommandSpec, DEFAULT_MAX_LOSSES, DEFAULT_POLICY, JobSpec, Rules, Work};
use common::path::PortablePath;
use common::template::{PLACEHOLDERS, Template};
use common::{IdSet, TaskSet};

use super::inputs::{PlannedInput, plan_input};
use super::{BuildError, items, policy};
use crate::args::submit::JobArgs;
use crate::args::value::Dur;

/// A job that makes sense, as far as can be said without the master.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    spec: JobSpec,
    inputs: Vec<PlannedInput>,
    /// What the user may not have meant.
    pub notes: Vec<String>,
}

/// Reads the lists, looks at the files and checks everything that can be checked here.
///
/// # Errors
/// Says the first thing that is wrong.
pub(crate) fn plan(args: &JobArgs) -> Result<Plan, BuildError> {
    let tasks = tasks(args)?;
    let inputs = if args.noop {
        Vec::new()
    } else {
        args.input.iter().map(|given| plan_input(given, &tasks)).collect::<Result<Vec<_>, _>>()?
    };
    let work = if args.noop { Work::Noop } else { Work::Command(command(args, &tasks)?) };
    let name = args.name.clone().unwrap_or_else(|| default_name(&args.command));
    let spec = JobSpec { name, tasks, work, rules: rules(args)? };
    let plan = Plan { notes: notes(args, &inputs), spec, inputs };
    plan.spec(|_| BlobRef { hash: BlobHash([0; 32]), size: 0 }).check()?;
    Ok(plan)
}

impl Plan {
    /// Every local file that the job reads, each once.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> = self.inputs.iter().flat_map(PlannedInput::paths).cloned().collect();
        files.sort();
        files.dedup();
        files
    }

    /// The submission, once the content of each file is known.
    pub(crate) fn spec(&self, blob: impl Fn(&Path) -> BlobRef) -> JobSpec {
        let mut spec = self.spec.clone();
        if let Work::Command(command) = &mut spec.work {
            command.inputs = self.inputs.iter().map(|input| input.filled(&blob)).collect();
        }
        spec
    }

    /// How many tasks it has.
    pub(crate) fn tasks(&self) -> u64 {
        self.spec.tasks.ids.len()
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.spec.name
    }
}

fn tasks(args: &JobArgs) -> Result<TaskSet, BuildError> {
    let list = match (&args.array, &args.each_line, &args.from_json) {
        (None, None, None) => return Ok(TaskSet { ids: IdSet::from_range(1, 1), items: Vec::new() }),
        (Some(array), None, None) => return Ok(TaskSet { ids: array.0.clone(), items: Vec::new() }),
        (None, Some(path), None) => items::lines(path)?,
        (None, None, Some(path)) => items::json(path)?,
        _ => return Err(BuildError::TwoBags),
    };
    let last = u32::try_from(list.len()).unwrap_or(u32::MAX);
    Ok(TaskSet { ids: IdSet::from_range(1, last), items: list })
}

fn command(args: &JobArgs, tasks: &TaskSet) -> Result<CommandSpec, BuildError> {
    if args.command.is_empty() {
        return Err(BuildError::NoCommand);
    }
    let templates =
        |texts: &[String], place| texts.iter().map(|text| template(text, tasks, place)).collect::<Result<Vec<_>, _>>();
    let mut command = CommandSpec::new(templates(&args.command, "the command")?);
    for pair in &args.env {
        command.env.push((pair.0.clone(), template(&pair.1, tasks, "the environment")?));
    }
    command.outputs = templates(&args.output_file, "an output file")?;
    for glob in command.outputs.iter().map(Template::as_str) {
        let wrong = |e: globset::Error| BuildError::Glob { glob: glob.to_owned(), why: e.kind().to_string() };
        globset::Glob::new(&neutral(glob)).map_err(wrong)?;
    }
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

fn capture(given: Option<&str>, flag: &'static str, tasks: &TaskSet) -> Result<Capture, BuildError> {
    match given {
        None => Ok(Capture::Keep),
        Some("none") => Ok(Capture::Discard),
        Some(path) => {
            let name = template(path, tasks, "a stream's file name")?;
            neutral(path).parse::<PortablePath>().map_err(|source| BuildError::StreamName { flag, source })?;
            Ok(Capture::File(name))
        }
    }
}

/// The text with a harmless letter for each placeholder.
fn neutral(text: &str) -> String {
    PLACEHOLDERS.iter().fold(text.to_owned(), |text, name| text.replace(&format!("%{{{name}}}"), "x"))
}

fn rules(args: &JobArgs) -> Result<Rules, BuildError> {
    let policy = match &args.policy {
        Some(given) => policy::known(given)?,
        None => DEFAULT_POLICY.to_owned(),
    };
    Ok(Rules {
        retries: args.retries.unwrap_or(0),
        max_losses: args.max_losses.unwrap_or(DEFAULT_MAX_LOSSES),
        timeout: args.timeout.map(|limit| limit.0.into()),
        max_fails: args.max_fails,
        priority: args.priority.unwrap_or(0),
        policy,
        estimate: args.estimate.map(Dur::span),
    })
}

/// The program's file name.
fn default_name(command: &[String]) -> String {
    let program = command.first().map_or("noop", String::as_str);
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let name: String = name.chars().filter(|c| !c.is_control()).take(50).collect();
    if name.is_empty() { "job".to_owned() } else { name }
}

fn notes(args: &JobArgs, inputs: &[PlannedInput]) -> Vec<String> {
    let Some(program) = args.command.first().filter(|_| !args.noop) else { return Vec::new() };
    let mut notes = Vec::new();
    let wanted = program.strip_prefix("./").unwrap_or(program);
    let input = inputs.iter().find(|input| input.name.as_str() == wanted);
    let local = program.contains('/') && !program.starts_with('/') && Path::new(program).is_file();
    if local && input.is_none() {
        let fix = format!("add --input {program}");
        notes.push(format!("`{program}` is a file here, but no input of the job: workers will not have it; {fix}"));
    }
    if input.is_some() && !program.contains('/') {
        notes.push(format!("`{program}` will be looked up in the workers' PATH; to run the input write ./{program}"));
    }
    if let Some(input) = input.filter(|input| cfg!(unix) && !input.executable) {
        notes.push(format!("the program `{}` is not executable here; chmod +x it first", input.name));
    }
    notes
}
