//! The plan of a job: its spec, but for the content of its files.

use std::path::{Path, PathBuf};

use common::content::{BlobHash, BlobRef};
use common::job::{
    Capture, CommandSpec, Compare, DEFAULT_MAX_LOSSES, DEFAULT_POLICY, JobSpec, Needs,
    PROMISING_POLICY, Quorum, RANKS_POLICY, Rules, SPECULATIVE_POLICY, WIDTH_POLICY, Work,
};
use common::path::PortablePath;
use common::ranks::MAX_RANKS;
use common::template::{PLACEHOLDERS, Template};
use common::{Asked, IdSet, Ranks, Span, TaskSet, Time};

use super::inputs::{PlannedInput, plan_input};
use super::{BuildError, items, policy};
use crate::args::submit::JobArgs;
use crate::args::value::{Deadline, Dur, Estimates, Limit, Parallelism, Width};

/// A job that makes sense, as far as can be said without the master.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    spec: JobSpec,
    /// What is asked and said beside the spec.
    asked: Asked,
    inputs: Vec<PlannedInput>,
    /// Whether nobody waits for the tasks until they are requested.
    pub disclosed: bool,
    /// What the user may not have meant.
    pub notes: Vec<String>,
}

/// Reads the lists, looks at the files and checks everything that can be checked here.
///
/// # Errors
/// Says the first thing that is wrong.
pub(crate) fn plan(args: &JobArgs) -> Result<Plan, BuildError> {
    disclosable(args)?;
    let (tasks, said) = tasks(args)?;
    let inputs = if args.noop {
        Vec::new()
    } else {
        args.input
            .iter()
            .map(|given| plan_input(given, &tasks))
            .collect::<Result<Vec<_>, _>>()?
    };

    let work = match ranks(args)? {
        Some(ranks) => Work::Ranks(command(args, &tasks)?, ranks),
        None if args.noop => Work::Noop,
        None => Work::Command(command(args, &tasks)?),
    };

    let name = args
        .name
        .clone()
        .unwrap_or_else(|| default_name(&args.command));
    let spec = JobSpec {
        name,
        tasks,
        work,
        rules: rules(args)?,
    };

    let asked = Asked {
        deadline: date(args),
        estimates: estimates(args, said)?,
    };
    let plan = Plan {
        notes: notes(args, &inputs),
        disclosed: args.disclose,
        spec,
        asked,
        inputs,
    };
    let whole = plan.spec(|_| BlobRef {
        hash: BlobHash([0; 32]),
        size: 0,
    });
    whole.check().and_then(|()| plan.asked.check(&whole))?;

    Ok(plan)
}

impl Plan {
    /// Every local file that the job reads, each once.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> = self
            .inputs
            .iter()
            .flat_map(PlannedInput::paths)
            .cloned()
            .collect();
        files.sort();
        files.dedup();
        files
    }

    /// The submission, once the content of each file is known.
    pub(crate) fn spec(&self, blob: impl Fn(&Path) -> BlobRef) -> JobSpec {
        let mut spec = self.spec.clone();
        if let Some(command) = spec.work.command_mut() {
            command.inputs = self
                .inputs
                .iter()
                .map(|input| input.filled(&blob))
                .collect();
        }
        spec
    }

    /// The submission without its files, to ask what would become of it: the files were looked at
    /// here, and the master has not got them.
    pub(crate) fn spec_without_files(&self) -> JobSpec {
        let mut spec = self.spec.clone();
        if let Some(command) = spec.work.command_mut() {
            command.stdin = None;
        }
        spec
    }

    /// What is asked and said beside the spec.
    pub(crate) fn asked(&self) -> &Asked {
        &self.asked
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

/// Whether it can be disclosed, if it is to be. The words of the command line have been looked
/// through, those of a job file have not.
fn disclosable(args: &JobArgs) -> Result<(), BuildError> {
    let others = [
        (args.deadline.is_some(), "a deadline"),
        (args.quorum.is_some(), "a quorum"),
    ];
    match others
        .into_iter()
        .find(|(given, _)| args.disclose && *given)
    {
        Some((_, other)) => Err(BuildError::DiscloseWith(other)),
        None => Ok(()),
    }
}

/// On how many hosts at once, if on several.
fn ranks(args: &JobArgs) -> Result<Option<Ranks>, BuildError> {
    let Some(width) = args.width else {
        let stray = args.work.is_some() || args.parallelism.is_some();
        return if stray {
            Err(BuildError::NoWidth)
        } else {
            Ok(None)
        };
    };

    let others = [
        (args.noop, "--noop"),
        (
            args.array.is_some() || args.each_line.is_some() || args.from_json.is_some(),
            "a list of tasks",
        ),
        (args.disclose, "--disclose"),
        (args.estimate.is_some(), "--estimate"),
    ];
    if let Some((_, other)) = others.into_iter().find(|(given, _)| *given) {
        return Err(BuildError::WidthWith(other));
    }

    let (least, most) = match width {
        Width::Between(least, most) => (least, Some(most)),
        Width::Auto => (1, None),
    };

    let (parallelism, sigma) = args
        .parallelism
        .map_or((None, None), |Parallelism(a, sigma)| (Some(a), sigma));
    Ok(Some(Ranks {
        least,
        most,
        work: args.work.map(Dur::span),
        parallelism,
        sigma,
    }))
}

/// The deadline, where it is a date.
fn date(args: &JobArgs) -> Option<Time> {
    if let Some(Deadline::At(time)) = args.deadline {
        Some(time)
    } else {
        None
    }
}

/// An estimate for each task, or none at all: what is given for all of them goes before what their
/// items say.
fn estimates(args: &JobArgs, said: Vec<Option<Span>>) -> Result<Vec<Span>, BuildError> {
    match &args.estimates {
        Some(Estimates::File(path)) => return items::estimates(path),
        Some(Estimates::Each(each)) => {
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

/// The tasks, and what their items say of how long they take.
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
        // How many there are in the end is known when they start.
        let least = if let Width::Between(least, _) = width {
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
        Some("none") => Ok(Capture::Discard),
        Some(path) => {
            let name = template(path, tasks, "a stream's file name")?;
            neutral(path)
                .parse::<PortablePath>()
                .map_err(|source| BuildError::StreamName { flag, source })?;
            Ok(Capture::File(name))
        }
    }
}

/// The text with a harmless letter for each placeholder.
fn neutral(text: &str) -> String {
    PLACEHOLDERS.iter().fold(text.to_owned(), |text, name| {
        text.replace(&format!("%{{{name}}}"), "x")
    })
}

fn rules(args: &JobArgs) -> Result<Rules, BuildError> {
    let policy = match &args.policy {
        Some(given) => policy::known(given, args.width.is_some())?,
        None if args.width == Some(Width::Auto) => WIDTH_POLICY.to_owned(),
        None if args.width.is_some() => RANKS_POLICY.to_owned(),
        None if args.deadline.is_some() => PROMISING_POLICY.to_owned(),
        None if args.disclose => SPECULATIVE_POLICY.to_owned(),
        None => DEFAULT_POLICY.to_owned(),
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
        needs: Needs {
            confinement: args.confinement,
            network: args.network,
        },
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

/// Why `--timeout auto` sets no limits, if it does not.
pub(crate) fn no_limits(args: &JobArgs) -> Option<&'static str> {
    let learns = || args.policy.as_deref().is_some_and(policy::learns_limits);
    let reserved = args.deadline.is_some() || args.width.is_some();
    let none = args.timeout == Some(Limit::Auto) && !reserved && !learns();
    none.then_some(
        "--timeout auto sets no limits here: they pay only where time is reserved (--deadline, --width); elsewhere a host is given \
         back when its task ends, and what takes long is copied instead",
    )
}

/// The program's file name.
fn default_name(command: &[String]) -> String {
    let program = command.first().map_or("noop", String::as_str);
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let name: String = name.chars().filter(|c| !c.is_control()).take(50).collect();
    if name.is_empty() {
        "job".to_owned()
    } else {
        name
    }
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

    let wanted = program.strip_prefix("./").unwrap_or(program);
    let input = inputs.iter().find(|input| input.name.as_str() == wanted);
    let local = program.contains('/') && !program.starts_with('/') && Path::new(program).is_file();

    if local && input.is_none() {
        let fix = format!("add --input {program}");
        notes.push(format!(
            "`{program}` is a file here, but no input of the job: workers will not have it; {fix}"
        ));
    }

    if input.is_some() && !program.contains('/') {
        notes.push(format!(
            "`{program}` will be looked up in the workers' PATH; to run the input write ./{program}"
        ));
    }

    if let Some(input) = input.filter(|input| cfg!(unix) && !input.executable) {
        notes.push(format!(
            "the program `{}` is not executable here; chmod +x it first",
            input.name
        ));
    }

    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::failure::{Exit, Failure};
    use clap::Parser;
    use common::host::Confinement;
    use common::job::Source;
    use common::template::Values;
    use common::{AttemptId, Incarnation, JobId, TaskId};

    /// What `deskgrid submit` makes of these words, in a directory with some files.
    struct Desk(tempfile::TempDir);

    impl Desk {
        fn new() -> Self {
            let desk = Desk(tempfile::tempdir().unwrap());
            for name in ["a.dat", "b.dat", "c d.dat"] {
                desk.file(name, name);
            }
            desk
        }

        fn file(&self, name: &str, content: &str) -> String {
            let path = self.0.path().join(name);
            std::fs::write(&path, content).unwrap();
            path.display().to_string()
        }

        fn path(&self, name: &str) -> String {
            self.0.path().join(name).display().to_string()
        }

        fn submit(&self, words: &[&str]) -> Result<Plan, Failure> {
            let words = ["deskgrid", "submit"].iter().chain(words);
            let Command::Submit(args) = Cli::try_parse_from(words).unwrap().command else {
                panic!("not a submission")
            };
            let args = match &args.job_file {
                Some(path) => args.job.over(crate::submit::read_job_file(path)?),
                None => args.job,
            };
            Ok(plan(&args)?)
        }

        fn job(&self, words: &[&str]) -> JobSpec {
            self.submit(words)
                .unwrap()
                .spec(|path| link::content::hash_file(path).unwrap())
        }

        fn wrong(&self, words: &[&str]) -> String {
            let failure = self.submit(words).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            failure.text()
        }
    }

    fn command(job: &JobSpec) -> &CommandSpec {
        let Some(command) = job.work.command() else {
            panic!("not a command")
        };
        command
    }

    #[test]
    fn a_bare_command_is_one_task_with_the_usual_rules() {
        let job = Desk::new().job(&["--", "/usr/bin/render", "--fast", "50%"]);
        assert_eq!(
            (job.name.as_str(), job.tasks.ids.to_string().as_str()),
            ("render", "1")
        );
        assert_eq!(
            command(&job)
                .argv
                .iter()
                .map(Template::as_str)
                .collect::<Vec<_>>(),
            ["/usr/bin/render", "--fast", "50%"]
        );

        assert_eq!(job.rules, Rules::default());
        // Flags after the program are the program's.
        assert_eq!(
            command(&Desk::new().job(&["echo", "--name", "x"]))
                .argv
                .len(),
            3
        );
    }

    #[test]
    fn every_flag_reaches_the_job() {
        let desk = Desk::new();
        let a = format!("{}:in", desk.path("a.dat"));
        let words = "--name n --array 1-9:2 --output-file *.csv --stdin in --stdout out/%{TASK_ID} --stderr none --env K=v=%{HOST} \
                     --retries 2 --max-losses 3 --timeout 90s --max-fails 4 --priority -5 --policy fcfs --estimate 1h --checkpoint 30s --confinement namespace --network --input";
        let words: Vec<_> = words
            .split_whitespace()
            .chain([a.as_str(), "--", "run"])
            .collect();
        let job = desk.job(&words);
        assert_eq!((job.name.as_str(), job.tasks.ids.len()), ("n", 5));

        let c = command(&job);
        assert_eq!(
            (c.checkpoint, job.rules.checkpoint),
            (Some(common::Span::from_secs(30)), true)
        );
        assert_eq!(
            job.rules.needs,
            Needs {
                confinement: Some(Confinement::Namespace),
                network: true
            }
        );

        assert_eq!(
            c.inputs[0].source,
            Source::Shared(link::content::hash_bytes(b"a.dat"))
        );
        assert_eq!(
            (c.outputs[0].as_str(), c.stdin.as_ref().unwrap().as_str()),
            ("*.csv", "in")
        );
        assert_eq!(
            (&c.stdout, &c.stderr),
            (
                &Capture::File("out/%{TASK_ID}".parse().unwrap()),
                &Capture::Discard
            )
        );

        assert_eq!(
            (c.env[0].0.as_str(), c.env[0].1.as_str()),
            ("K", "v=%{HOST}")
        );

        let q = desk
            .job(&[
                "--quorum",
                "3",
                "--adaptive",
                "--compare",
                "float:1e-6",
                "run",
            ])
            .rules
            .quorum;
        assert_eq!(
            (q.size, q.adaptive, q.compare),
            (3, true, "float:1e-6".parse().unwrap())
        );

        let r = &job.rules;
        assert_eq!(
            (r.retries, r.max_losses, r.max_fails, r.priority),
            (2, 3, Some(4), -5)
        );
        assert_eq!(
            (
                r.timeout.unwrap().secs(),
                r.estimate.unwrap().secs(),
                r.policy.as_str()
            ),
            (90.0, 3600.0, "FCFS")
        );
    }

    #[test]
    fn what_is_disclosed_has_neither_deadline_nor_quorum_also_where_a_job_file_says_so() {
        let desk = Desk::new();
        let file = desk.file(
            "job.toml",
            "disclose = true\ndeadline = \"2h\"\ncommand = [\"run\"]\n",
        );
        let told = desk.wrong(&["--job-file", &file]);
        assert!(
            told.contains("disclosed (--disclose), or has a deadline"),
            "{told}"
        );

        let file = desk.file("quorum.toml", "quorum = 2\ncommand = [\"run\"]\n");
        let told = desk.wrong(&["--job-file", &file, "--disclose"]);
        assert!(told.contains("or has a quorum"), "{told}");
    }

    #[test]
    fn automatic_limits_are_asked_for_where_a_deadline_reserves_time_and_nowhere_else() {
        let desk = Desk::new();
        let file = desk.file(
            "job.toml",
            "timeout = \"auto\"\ndeadline = \"2h\"\ncommand = [\"run\"]\n",
        );
        for words in [
            &["--timeout", "auto", "--deadline", "2h", "run"][..],
            &["--job-file", &file],
        ] {
            let rules = desk.job(words).rules;
            assert_eq!(
                (rules.policy.as_str(), rules.timeout),
                ("PROMISE:limits=learned", None),
                "{words:?}"
            );
        }

        let plan = desk.submit(&["--timeout", "auto", "run"]).unwrap();
        assert_eq!(plan.spec.rules, Rules::default());
        assert!(
            plan.notes
                .iter()
                .any(|note| note.contains("pay only where time is reserved")),
            "{:?}",
            plan.notes
        );

        let notes = desk
            .submit(&["--timeout", "auto", "--policy", "toptimal", "run"])
            .unwrap()
            .notes;
        assert!(notes.is_empty(), "{notes:?}");
    }

    #[test]
    fn lists_make_one_task_for_each_item() {
        let desk = Desk::new();
        let (lines, json) = (
            desk.file("l", "one\r\n\ntwo words\nthree"),
            desk.file("j", r#"["a", 1, {"x": [2]}]"#),
        );
        let items = |words: &[&str]| desk.job(words).tasks.items;
        assert_eq!(
            items(&["--each-line", &lines, "run", "%{ITEM}"]),
            ["one", "two words", "three"]
        );
        assert_eq!(
            items(&["--from-json", &json, "run"]),
            ["a", "1", r#"{"x":[2]}"#]
        );
        assert!(
            desk.wrong(&["--each-line", &desk.file("e", "\n\n"), "run"])
                .contains("has no items")
        );

        assert!(
            desk.wrong(&["--from-json", &lines, "run"])
                .contains("is not a JSON array")
        );

        let binary = desk.path("bin");
        std::fs::write(&binary, b"ok\n\xff\n").unwrap();
        assert!(
            desk.wrong(&["--each-line", &binary, "run"])
                .contains("line 2 of")
        );
    }

    #[test]
    fn each_task_may_have_an_estimate_of_its_own() {
        let desk = Desk::new();
        let secs = |words: &[&str]| -> Vec<f64> {
            desk.submit(words)
                .unwrap()
                .asked()
                .estimates
                .iter()
                .map(|estimate| estimate.secs())
                .collect()
        };

        let json = desk.file(
            "j",
            r#"[{"x": 1, "estimate": "90s"}, {"estimate": 0.5}, {"x": 2}, "c"]"#,
        );
        assert_eq!(
            secs(&["--from-json", &json, "--estimate", "1m", "run"]),
            [90.0, 0.5, 60.0, 60.0]
        );
        assert_eq!(
            desk.job(&["--from-json", &json, "--estimate", "1m", "run"])
                .tasks
                .items[1],
            r#"{"estimate":0.5}"#
        );

        assert!(
            desk.wrong(&["--from-json", &json, "run"])
                .contains("item 3 has no estimate")
        );

        let times = desk.file("t", "90s\n\n 2m \r\n");
        assert_eq!(
            secs(&["--array", "1-2", "--estimates", &times, "run"]),
            [90.0, 120.0]
        );
        assert!(
            desk.wrong(&["--array", "1-3", "--estimates", &times, "run"])
                .contains("3 tasks but 2 estimates")
        );

        let file = desk.file(
            "job.toml",
            "array = \"4-5\"\nestimates = [\"1s\", \"2s\"]\ncommand = [\"run\"]\n",
        );
        assert_eq!(secs(&["--job-file", &file]), [1.0, 2.0]);
        assert!(
            secs(&["--job-file", &file, "--array", "1-9"]).is_empty(),
            "another bag than the file's"
        );

        let file = desk.file(
            "job.toml",
            &format!("array = \"4-5\"\nestimates = {times:?}\ncommand = [\"run\"]\n"),
        );
        assert_eq!(secs(&["--job-file", &file]), [90.0, 120.0]);
        for (text, at) in [("1m\nsoon\n", "line 2"), ("0s", "line 1"), ("90", "line 1")] {
            let wrong = desk.wrong(&[
                "--array",
                "1-2",
                "--estimates",
                &desk.file("t", text),
                "run",
            ]);
            assert!(wrong.contains(at) && wrong.contains("90s"), "{wrong}");
        }

        for said in ["0", "-1", "1e10", "\"high\"", "[1]", "null"] {
            let json = desk.file(
                "j",
                &format!(r#"[{{"estimate": 1}}, {{"estimate": {said}}}]"#),
            );
            assert!(
                desk.wrong(&["--from-json", &json, "run"])
                    .contains("item 2"),
                "{said}"
            );
        }
    }

    #[test]
    fn a_deadline_that_is_a_date_stays_one() {
        let desk = Desk::new();
        let at = Some(Time(1_900_000_000_000_000));
        let toml = |line: &str| desk.file("job.toml", &format!("{line}\ncommand = [\"run\"]\n"));

        for words in [
            &["--deadline", "2030-03-17T17:46:40Z", "run"][..],
            &["--job-file", &toml("deadline = 2030-03-17T17:46:40Z")],
        ] {
            let plan = desk.submit(words).unwrap();
            let file = |path: &Path| link::content::hash_file(path).unwrap();
            assert_eq!(
                (plan.asked().deadline, plan.spec(file).rules.deadline),
                (at, Some(Span::ZERO)),
                "{words:?}"
            );
        }

        assert_eq!(
            desk.submit(&["--job-file", &toml("deadline = 2030-03-17")])
                .unwrap()
                .asked()
                .deadline
                .map(|at| at.0 % 1_000_000),
            Some(0)
        );

        let plan = desk
            .submit(&["--job-file", &toml("deadline = \"2h\"")])
            .unwrap();
        assert!(plan.asked().is_nothing(), "{plan:?}");

        let wrong = desk.wrong(&["--job-file", &toml("deadline = 5")]);
        assert!(
            wrong.contains("line 1") && wrong.contains("2026-03-01T09:30:00Z"),
            "{wrong}"
        );

        let wrong = desk.wrong(&["--policy", "fcfs", "--deadline", "2h", "run"]);
        assert!(
            wrong.contains("FCFS promises no deadlines") && wrong.contains("PROMISE"),
            "{wrong}"
        );
    }

    #[test]
    fn inputs_are_chosen_for_each_task() {
        let desk = Desk::new();
        let list = desk.file(
            "l",
            &["a.dat", "c d.dat", "a.dat"]
                .map(|name| desk.path(name))
                .join("\n"),
        );
        let plan = desk
            .submit(&[
                "--each-line",
                &list,
                "--input",
                "%{ITEM}:in/%{TASK_ID}.dat",
                "run",
            ])
            .unwrap();
        assert_eq!(plan.files().len(), 2, "each file is uploaded once");

        let job = plan.spec(|path| link::content::hash_file(path).unwrap());
        let input = &command(&job).inputs[0];
        assert_eq!(input.blob(1), Some(link::content::hash_bytes(b"c d.dat")));

        let attempt = AttemptId {
            task: TaskId::new(JobId(1), 2),
            number: 1,
            incarnation: Incarnation(1),
        };
        assert_eq!(
            input.name.expand(&Values {
                attempt,
                host: "h",
                item: "",
                width: None
            }),
            "in/2.dat"
        );

        // Absolute items cannot be names on the worker: the user is told to give one.
        let wrong = desk.wrong(&["--each-line", &list, "--input", "%{ITEM}", "run"]);
        assert!(
            wrong.contains("it is absolute") && wrong.contains("--input '%{ITEM}:in.dat'"),
            "{wrong}"
        );
    }

    #[test]
    fn what_cannot_be_is_said_before_anything_is_sent() {
        let desk = Desk::new();
        let dir = desk.0.path().display().to_string();
        let a = desk.path("a.dat");
        let missing = desk.path("missing");

        for (words, want) in [
            (
                vec!["--input", &missing, "run"],
                "cannot read the input file",
            ),
            (vec!["--input", &dir, "run"], "is not a file"),
            (
                vec!["--input", &a, "--input", &a, "run"],
                "two inputs have the name",
            ),
            (
                vec!["--input", "%{HOST}", "run"],
                "is not known before the task runs",
            ),
            (vec!["--stdin", "x", "run"], "--input FILE:x --stdin x"),
            (vec!["run", "%{ITEM}"], "the job has no items"),
            (vec!["run", "%{TASK}"], "is not a placeholder"),
            (vec!["--policy", "PRICR", "run"], "try: PRI-CR?"),
            (vec!["--output-file", "a[", "run"], "is not a pattern"),
            (vec!["--stdout", "/abs", "run"], "it is absolute"),
            (
                vec!["--env", "A\n=x", "--name", "a\tb", "run"],
                "the job's name",
            ),
            (vec![], "there is nothing to run"),
        ] {
            let text = desk.wrong(&words);
            assert!(text.contains(want), "{words:?}: {text}");
        }
    }

    #[test]
    fn job_files_have_the_names_of_the_flags_and_flags_go_before_them() {
        let desk = Desk::new();
        let text = "array = \"1-10\"\nretries = 3\npriority = 1\ntimeout = \"1m\"\nenv = [\"A=1\"]\ncommand = [\"run\", \"x\"]\n";
        let file = desk.file("job.toml", text);
        let job = desk.job(&["--job-file", &file]);
        assert_eq!(
            (job.tasks.ids.len(), job.rules.retries, job.name.as_str()),
            (10, 3, "run")
        );

        let job = desk.job(&[
            "--job-file",
            &file,
            "--array",
            "1-2",
            "--retries",
            "0",
            "--",
            "other",
        ]);
        assert_eq!(
            (
                job.tasks.ids.len(),
                job.rules.retries,
                job.rules.priority,
                job.name.as_str()
            ),
            (2, 0, 1, "other")
        );

        assert!(matches!(
            desk.job(&["--job-file", &file, "--noop"]).work,
            Work::Noop
        ));

        // A list on the command line takes the place of the file's array.
        let list = desk.file("l", "x\n");
        assert_eq!(
            desk.job(&["--job-file", &file, "--each-line", &list])
                .tasks
                .items,
            ["x"]
        );
    }

    #[test]
    fn bad_job_files_name_the_line_and_the_key() {
        let desk = Desk::new();
        let wrong = |text: &str| desk.wrong(&["--job-file", &desk.file("job.toml", text)]);
        let text = wrong("name = \"x\"\nretires = 3\n");
        assert!(
            text.contains("line 2 of the job file")
                && text.contains("`retires`")
                && text.contains("`retries`"),
            "{text}"
        );

        let text = wrong("command = [\"x\"]\nretries = \"many\"\n");
        assert!(
            text.contains("line 2")
                && text.contains("retries = \"many\"")
                && text.contains("expected u32"),
            "{text}"
        );

        assert!(wrong("timeout = \"soon\"\n").contains("or `auto`"));
        assert!(
            wrong("array = \"1\"\neach-line = \"x\"\ncommand = [\"x\"]\n").contains("choose one")
        );
        assert!(
            desk.wrong(&["--job-file", &desk.path("none")])
                .contains("cannot read the job file")
        );
    }

    #[test]
    fn a_program_that_stays_behind_is_pointed_out() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let program = dir.path().join("prog");
        std::fs::write(&program, "").unwrap();

        let program = program
            .strip_prefix(std::env::current_dir().unwrap())
            .unwrap()
            .display()
            .to_string();
        let notes = |words: &[&str]| Desk::new().submit(words).unwrap().notes.join(" ");
        assert!(notes(&["--", &program]).contains(&format!("add --input {program}")));
        assert!(notes(&["--input", &format!("{program}:p"), "--", "p"]).contains("write ./p"));
        assert!(notes(&["--input", &format!("{program}:p"), "--", "./p"]).contains("chmod +x"));
        assert_eq!(notes(&["--", "/bin/sh"]), "");
    }
}
