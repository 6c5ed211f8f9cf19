//! A job as programs submit it: the names of a job file, with content by its hash instead of files
//! of the submitter's machine. `docs/job-files.md` says what each name means.

mod input;

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use common::date::date;
use common::job::{
    Capture, CommandSpec, Compare, DEFAULT_MAX_LOSSES, Quorum, Rules, Work, usual_policy,
};
use common::needs::{Label, Needs};
use common::ranks::{MAX_RANKS, Widths};
use common::selector::parse_ids;
use common::template::Template;
use common::text::acts;
use common::{After, IdSet, JobSpec, Ranks, Span, SubmitOptions, TaskSet, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};

use self::input::InputBody;
use crate::problem::Problem;

/// A job to be submitted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct JobBody {
    /// Program and arguments; no shell is involved.
    pub command: Vec<String>,
    /// The name of the job; without it that of the program in `command`.
    pub name: Option<String>,
    /// Labels by which the job is found again, such as `sweep7`.
    pub label: Vec<String>,
    /// The jobs that have to end before, as `JOB`, `JOB:ok` or `JOB:any`.
    pub(crate) after: Vec<String>,
    /// Whether tasks can be added until the job is closed.
    open: bool,
    /// One task for each index, such as `1-100`.
    pub array: Option<String>,
    /// One task for each of these; `%{ITEM}` is the text.
    pub items: Vec<String>,
    /// Files and trees that tasks find in their directory, each sent before as `content`.
    input: Vec<Fields<InputBody>>,
    /// The files to bring back, as patterns: `out/*.csv`.
    output_file: Vec<String>,
    /// The name of the `input` that is the tasks' standard input.
    stdin: Option<String>,
    /// The file name that `job fetch` gives standard output, or `none` to drop it.
    stdout: Option<String>,
    /// The file name that `job fetch` gives standard error, or `none` to drop it.
    stderr: Option<String>,
    /// Variables of the tasks' environment, as `NAME=VALUE`.
    env: Vec<String>,
    /// The number of times that a failed task is tried again: `0` if nothing is said.
    pub retries: u32,
    /// The number of attempts of a task that may be lost with their hosts: `10` if nothing is said.
    max_losses: Option<u32>,
    /// The longest run time of one attempt, such as `10m`.
    timeout: Option<String>,
    /// The number of failed tasks beyond which the rest is cancelled.
    max_fails: Option<u64>,
    /// The priority among your own jobs: higher goes first.
    priority: i32,
    /// The policy that places the tasks, such as `PRI-CR`.
    policy: Option<String>,
    /// The run time of a task on a host of speed 1, such as `5m`.
    pub estimate: Option<String>,
    /// An estimate for each task, in the order of the tasks: `5m`.
    estimates: Vec<String>,
    /// The time by which all of it has to be done: a date, or a duration from now (`2h`).
    pub deadline: Option<String>,
    /// The number of hosts that it runs on at once, as several ranks: `8`, `4..16` or `auto`.
    width: Option<String>,
    /// The run time of the whole job on one host of speed 1, with `width`: `6h`.
    work: Option<String>,
    /// The average parallelism, with `width`, perhaps with its variance: `12` or `12:0.5`.
    parallelism: Option<String>,
    /// Whether nobody waits for a task until it is requested.
    pub(crate) disclose: bool,
    /// The interval at which tasks save their state, such as `30s`.
    checkpoint: Option<String>,
    /// The number of results of a task that have to agree: `1` if nothing is said.
    quorum: Option<u32>,
    /// Whether hosts that have agreed for long enough are trusted, with a `quorum`.
    adaptive: bool,
    /// The rule by which results agree: `bytes`, or `float:PART`.
    compare: Option<String>,
    /// The least level of confinement, such as `landlock`.
    confinement: Option<String>,
    /// The needs of each task, such as `cpus=2,mem=4G`.
    pub needs: Vec<String>,
    /// Whether tasks use the network.
    network: bool,
    /// Whether tasks do nothing, without a process.
    noop: bool,
}

/// A `T` that is read from an object: a struct would be read from a list as well. Its schema is that
/// of the `T`.
#[derive(Debug)]
struct Fields<T>(T);

impl<T: JsonSchema> JsonSchema for Fields<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        T::json_schema(schemas)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Fields<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let fields = serde_json::Map::deserialize(from)?;
        let read = serde_json::from_value(fields.into());
        read.map(Fields).map_err(D::Error::custom)
    }
}

/// Reads the text of a name as a `T`.
fn read<T: FromStr>(name: &str, text: &str) -> Result<T, Problem>
where
    T::Err: Display,
{
    text.parse().map_err(|why| wrong(name, &why))
}

/// Reads the text of a name that may be left out.
fn read_if_given<T: FromStr>(name: &str, text: Option<&String>) -> Result<Option<T>, Problem>
where
    T::Err: Display,
{
    text.map(|text| read(name, text)).transpose()
}

fn wrong(name: &str, why: &dyn Display) -> Problem {
    Problem::senseless(
        format!("`{name}`: {why}"),
        "docs/job-files.md explains all names",
    )
}

fn span(name: &str, text: &str) -> Result<Span, Problem> {
    let longest = std::time::Duration::from_secs(100 * 365 * 86_400);
    let read = humantime::parse_duration(text).map_err(|why| wrong(name, &why))?;
    Ok(read.min(longest).into())
}

fn span_if_given(name: &str, text: Option<&String>) -> Result<Option<Span>, Problem> {
    text.map(|text| span(name, text)).transpose()
}

fn spans(name: &str, texts: &[String]) -> Result<Vec<Span>, Problem> {
    texts.iter().map(|text| span(name, text)).collect()
}

/// A deadline: a date, or a span from now.
fn deadline(text: &str) -> Result<(Option<Time>, Span), Problem> {
    if let Some(date) = date(text) {
        return Ok((Some(date), Span::ZERO));
    }
    let neither = "it is neither a date such as 2026-03-01T09:30:00Z nor a duration such as 2h";
    let span = span("deadline", text).map_err(|_| wrong("deadline", &neither))?;
    Ok((None, span))
}

/// Returns the name of a job that was given none: that of its program's file.
pub fn usual_name(command: &[String]) -> String {
    let program = command.first().map_or("noop", String::as_str);
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let name: String = name.chars().filter(|c| !acts(*c)).take(50).collect();
    if name.is_empty() {
        "job".to_owned()
    } else {
        name
    }
}

impl JobBody {
    /// Makes the `JobSpec`, and what is sent beside it. The jobs that have to end before come later.
    ///
    /// # Errors
    /// Names the first thing that makes no sense.
    pub fn job(&self) -> Result<(JobSpec, SubmitOptions), Problem> {
        let ranks = self.ranks()?;
        let tasks = match &ranks {
            Some(ranks) => TaskSet {
                ids: Ranks::tasks(ranks.least.min(MAX_RANKS)),
                items: Vec::new(),
            },
            None => self.tasks()?,
        };
        let work = match (self.noop, self.command.is_empty()) {
            (true, true) => self.nothing()?,
            (true, false) => return Err(wrong("noop", &"a job that does nothing has no command")),
            (false, true) => return Err(wrong("command", &"a job needs a program to run")),
            (false, false) => match ranks {
                Some(ranks) => Work::Ranks(self.command_spec()?, ranks),
                None => Work::Command(self.command_spec()?),
            },
        };
        let (date, _) = self.due()?;
        let labels = self.label.iter().map(|text| read::<Label>("label", text));
        let asked = SubmitOptions {
            deadline: date,
            estimates: spans("estimates", &self.estimates)?,
            labels: labels.collect::<Result<_, _>>()?,
            after: Vec::new(),
            open: self.open,
        };
        let spec = JobSpec {
            name: self
                .name
                .clone()
                .unwrap_or_else(|| usual_name(&self.command)),
            tasks,
            work,
            rules: self.rules()?,
        };

        Ok((spec, asked))
    }

    fn due(&self) -> Result<(Option<Time>, Option<Span>), Problem> {
        match &self.deadline {
            None => Ok((None, None)),
            Some(text) => deadline(text).map(|(date, span)| (date, Some(span))),
        }
    }

    fn tasks(&self) -> Result<TaskSet, Problem> {
        let items = self.items.clone();
        let ids = match (&self.array, items.len()) {
            (Some(_), 1..) => return Err(wrong("items", &"there is an array already")),
            (Some(array), 0) => parse_ids(array).map_err(|why| wrong("array", &why))?,
            (None, 0) => IdSet::from_range(1, 1),
            (None, count) => IdSet::from_range(1, u32::try_from(count).unwrap_or(u32::MAX)),
        };
        Ok(TaskSet { ids, items })
    }

    /// The work of a job that does nothing, and has nothing that it would do it with.
    fn nothing(&self) -> Result<Work, Problem> {
        let others = [
            (!self.input.is_empty(), "input"),
            (!self.output_file.is_empty(), "output-file"),
            (self.stdin.is_some(), "stdin"),
            (self.stdout.is_some(), "stdout"),
            (self.stderr.is_some(), "stderr"),
            (!self.env.is_empty(), "env"),
            (self.checkpoint.is_some(), "checkpoint"),
        ];
        match others.into_iter().find(|(given, _)| *given) {
            Some((_, other)) => Err(wrong(other, &"it is of no use to a job that does nothing")),
            None => Ok(Work::Noop),
        }
    }

    /// The ranks of a job that runs on several hosts at once.
    fn ranks(&self) -> Result<Option<Ranks>, Problem> {
        let Some(width) = &self.width else {
            return match (&self.work, &self.parallelism) {
                (None, None) => Ok(None),
                _ => Err(wrong("width", &"`work` and `parallelism` need a `width`")),
            };
        };
        let others = [
            (self.noop, "noop"),
            (self.array.is_some(), "array"),
            (!self.items.is_empty(), "items"),
            (self.disclose, "disclose"),
            (self.estimate.is_some(), "estimate"),
        ];
        if let Some((_, other)) = others.into_iter().find(|(given, _)| *given) {
            let why = format!("a job with a width cannot have `{other}` as well");
            return Err(wrong("width", &why));
        }

        let width: Widths = read("width", width)?;
        let work = span_if_given("work", self.work.as_ref())?;
        let parallelism = read_if_given("parallelism", self.parallelism.as_ref())?;
        Ok(Some(Ranks::of(width, work, parallelism)))
    }

    fn template(&self, name: &str, text: &str) -> Result<Template, Problem> {
        let template: Template = read(name, text)?;
        if template.mentions("ITEM") && self.items.is_empty() {
            return Err(wrong(name, &"%{ITEM} is of use only where there are items"));
        }
        Ok(template)
    }

    fn command_spec(&self) -> Result<CommandSpec, Problem> {
        let all = |name, texts: &[String]| {
            let templates = texts.iter().map(|text| self.template(name, text));
            templates.collect::<Result<Vec<_>, _>>()
        };
        let mut command = CommandSpec::new(all("command", &self.command)?);
        for pair in &self.env {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| wrong("env", &"a variable reads NAME=VALUE"))?;
            let value = self.template("env", value)?;
            command.env.push((name.to_owned(), value));
        }

        for Fields(input) in &self.input {
            let name = self.template("input", &input.name)?;
            command.inputs.push(input.input(name)?);
        }

        let stdin = self.stdin.as_deref();
        command.outputs = all("output-file", &self.output_file)?;
        command.stdin = stdin.map(|text| self.template("stdin", text)).transpose()?;
        command.stdout = self.capture("stdout", self.stdout.as_deref())?;
        command.stderr = self.capture("stderr", self.stderr.as_deref())?;
        command.checkpoint = span_if_given("checkpoint", self.checkpoint.as_ref())?;
        Ok(command)
    }

    fn capture(&self, name: &str, given: Option<&str>) -> Result<Capture, Problem> {
        match given {
            None => Ok(Capture::Keep),
            Some("none") => Ok(Capture::Discard),
            Some(path) => self.template(name, path).map(Capture::File),
        }
    }

    fn rules(&self) -> Result<Rules, Problem> {
        let compare = read_if_given("compare", self.compare.as_ref())?;
        let width: Option<Widths> = read_if_given("width", self.width.as_ref())?;
        Ok(Rules {
            retries: self.retries,
            max_losses: self.max_losses.unwrap_or(DEFAULT_MAX_LOSSES),
            timeout: span_if_given("timeout", self.timeout.as_ref())?,
            // A rank that has failed for good leaves the others without it.
            max_fails: self.max_fails.or(width.map(|_| 0)),
            priority: self.priority,
            policy: match &self.policy {
                Some(policy) => policy.clone(),
                None => usual_policy(width, self.deadline.is_some(), self.disclose).to_owned(),
            },
            estimate: span_if_given("estimate", self.estimate.as_ref())?,
            checkpoint: self.checkpoint.is_some(),
            needs: self.needs()?,
            quorum: Quorum {
                size: self.quorum.unwrap_or(1),
                adaptive: self.adaptive,
                compare: compare.unwrap_or(Compare::Bytes),
            },
            deadline: self.due()?.1,
        })
    }

    fn needs(&self) -> Result<Needs, Problem> {
        let needs = Needs::parse(self.needs.iter().map(String::as_str));
        Ok(Needs {
            confinement: read_if_given("confinement", self.confinement.as_ref())?,
            network: self.network,
            ..needs.map_err(|why| wrong("needs", &why))?
        })
    }

    /// The jobs that have to end before, where they are named by numbers.
    pub(crate) fn after(&self) -> Result<Vec<After>, Problem> {
        self.after.iter().map(|text| read("after", text)).collect()
    }
}
