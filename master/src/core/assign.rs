//! Builds the `Assignment` of one attempt from the job's spec, every placeholder expanded.

use common::attempt::Outcome;
use common::checkpoint::{Checkpointing, Saved};
use common::job::{Capture, CommandSpec, Input, InputKind, JobSpec, Work};
use common::needs::Demand;
use common::path::BadPath;
use common::template::{PLACEHOLDERS, Template, TemplateValues, ValueLengths};
use common::wire::worker::{Assignment, Command, Errand, StagedInput, StagedKind};
use common::{AttemptId, Span};

use super::mail::{FIXED_BYTES, INPUT_BYTES, LENGTH_BYTES, MAX_ASSIGNMENT};

/// The beginning of the names of the variables that each command has.
const OURS: &str = "DESKGRID_";

/// The error for an attempt that cannot be described to its host.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadAssignment {
    /// The name of an input, expanded, is no portable path.
    #[error("input: {0}")]
    Input(#[from] BadPath),
    /// It would take so many bytes, more than [`MAX_ASSIGNMENT`].
    #[error(
        "its command, environment and file names take {0} bytes, and a host is sent {MAX_ASSIGNMENT} at most: put long lists into an input file"
    )]
    TooLong(usize),
}

impl BadAssignment {
    /// Returns the outcome of the attempt, which nobody has executed. No host is to blame for an assignment
    /// that is too long for all of them.
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Input(_) => Outcome::NotStarted(self.to_string()),
            Self::TooLong(_) => Outcome::OverLimit(self.to_string()),
        }
    }
}

/// Builds the `Assignment` of `attempt`, whose task has this position in the order of the indices, on the host of this name and platform, with its time limit, the interval of its
/// reports, and the checkpoint that it starts from.
///
/// # Errors
/// If an input's name, expanded, is no portable path, or the assignment is longer than
/// [`MAX_ASSIGNMENT`].
pub(super) fn assignment(
    spec: &JobSpec,
    (attempt, position): (AttemptId, u64),
    (host, platform): (&str, &str),
    limit: Option<Span>,
    report_every: Option<Span>,
    from: Option<Saved>,
) -> Result<Assignment, BadAssignment> {
    let work = match &spec.work {
        Work::Noop => Errand::Noop,
        Work::Command(command) | Work::Ranks(command, _) => {
            let values = TemplateValues {
                attempt,
                host,
                platform,
                item: spec.tasks.item_at(position),
                width: spec.width(),
            };
            let bytes = command_bytes(command, &values);
            if bytes > MAX_ASSIGNMENT {
                return Err(BadAssignment::TooLong(bytes));
            }

            let checkpoint = command
                .checkpoint
                .map(|every| Checkpointing { every, from });
            let needs = &spec.rules.needs;
            let command = expand(command, &values, position)?;

            Errand::Command(Box::new(Command {
                checkpoint,
                confinement: needs.confinement,
                network: needs.network,
                takes: needs.takes,
                ..command
            }))
        }
    };

    Ok(Assignment {
        attempt,
        limit,
        report_every,
        work,
    })
}

/// Returns an upper bound on the bytes that this command takes in an [`Assignment`] for an attempt with
/// these values, as [`super::mail::assignment_bytes`] counts. Inputs for other platforms count, too.
pub(super) fn command_bytes(command: &CommandSpec, values: &TemplateValues<'_>) -> usize {
    let lengths = values.lengths();
    let escaped = values.escaped_lengths();
    let expanded = |template: &Template, lengths: &ValueLengths| {
        let bytes = template.expanded_bytes(lengths);
        bytes.saturating_add(LENGTH_BYTES)
    };
    let text = |template: &Template| expanded(template, &lengths);

    let ours = PLACEHOLDERS.iter().map(|name| {
        let value = lengths.of(name).saturating_add(LENGTH_BYTES);
        value.saturating_add(OURS.len() + name.len() + LENGTH_BYTES)
    });
    let theirs = command
        .env
        .iter()
        .map(|(name, value)| text(value).saturating_add(name.len() + LENGTH_BYTES));
    let inputs = command
        .inputs
        .iter()
        .map(|input| text(&input.name).saturating_add(INPUT_BYTES));

    let texts = command.argv.iter().chain(&command.stdin).map(text);
    let patterns = command.outputs.iter();
    let patterns = patterns.map(|output| expanded(output, &escaped));
    let all = texts.chain(patterns).chain(ours).chain(theirs);
    let all = all.chain(inputs);
    all.fold(FIXED_BYTES, usize::saturating_add)
}

fn expand(
    spec: &CommandSpec,
    values: &TemplateValues<'_>,
    position: u64,
) -> Result<Command, BadPath> {
    let ours = PLACEHOLDERS
        .iter()
        .map(|name| (format!("{OURS}{name}"), values.value_of(name)));
    let theirs = spec
        .env
        .iter()
        .map(|(name, value)| (name.clone(), value.expand(values)));
    let input = |input: &Input| {
        let path = input.name.expand(values).try_into()?;
        let staged = |blob| StagedInput {
            path,
            blob,
            kind: match input.kind {
                InputKind::File => StagedKind::File,
                InputKind::Program => StagedKind::Program,
                InputKind::Tree { .. } => StagedKind::Tree,
            },
        };
        Ok(input.blob(position, values.platform).map(staged))
    };

    Ok(Command {
        argv: spec.argv.iter().map(|arg| arg.expand(values)).collect(),
        env: ours.chain(theirs).collect(),
        inputs: spec
            .inputs
            .iter()
            .filter_map(|i| input(i).transpose())
            .collect::<Result<_, BadPath>>()?,
        outputs: spec
            .outputs
            .iter()
            .map(|glob| glob.expand_pattern(values))
            .collect(),
        stdin: spec
            .stdin
            .as_ref()
            .map(|name| name.expand(values).try_into())
            .transpose()?,
        keep_stdout: spec.stdout != Capture::Discard,
        keep_stderr: spec.stderr != Capture::Discard,
        checkpoint: None,
        confinement: None,
        network: false,
        takes: Demand::PLAIN,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use common::content::BlobHash;
    use common::job::{InputSource, Rules};
    use common::{BlobRef, IdSet, Incarnation, JobId, TaskId, TaskSet};

    use super::super::mail::assignment_bytes;
    use super::*;

    /// A job of one task with this item and everything that makes an assignment longer.
    fn spec(item: &str) -> JobSpec {
        let template = |text: &str| text.parse::<Template>().unwrap();
        let blob = BlobRef {
            hash: BlobHash([7; 32]),
            size: 5,
        };
        let input = |name: &str, source| Input {
            name: template(name),
            kind: InputKind::File,
            source,
        };
        let mut command = CommandSpec::new(vec![template("run"), template("%{ITEM} 5%% %%{x}")]);
        command.env = vec![("WHERE".to_owned(), template("%{HOST}:%{PLATFORM}"))];
        command.inputs = vec![input("in-%{TASK_ID}", InputSource::Shared(blob))];
        command.outputs = vec![template("out/%{JOB_ID}.%{ATTEMPT_ID}"), template("%{ITEM}")];
        command.stdin = Some(template("in-%{TASK_ID}"));
        let builds = BTreeMap::from([("windows-x86_64".parse().unwrap(), blob)]);
        let build = input("tool", InputSource::PerPlatform(builds));
        command.inputs.push(build);

        JobSpec {
            name: "job".into(),
            tasks: TaskSet {
                ids: IdSet::from_range(12, 12),
                items: vec![item.to_owned()],
            },
            work: Work::Command(command),
            rules: Rules::default(),
        }
    }

    fn assigned(spec: &JobSpec, platform: &str) -> Result<Assignment, BadAssignment> {
        let attempt = AttemptId {
            task: TaskId::new(JobId(7), 12),
            number: 3,
            incarnation: Incarnation(1),
        };
        assignment(spec, (attempt, 0), ("pc9", platform), None, None, None)
    }

    /// The bound on the bytes of the same attempt.
    fn bound(spec: &JobSpec, platform: &str) -> usize {
        let values = TemplateValues {
            attempt: AttemptId {
                task: TaskId::new(JobId(7), 12),
                number: 3,
                incarnation: Incarnation(1),
            },
            host: "pc9",
            platform,
            item: spec.tasks.item_at(0),
            width: None,
        };
        command_bytes(spec.work.command().unwrap(), &values)
    }

    #[test]
    fn the_bound_on_an_assignment_is_what_it_takes_with_all_its_inputs() {
        for item in ["some item", "*?[]{}\\ each is in brackets"] {
            let spec = spec(item);
            let all = assigned(&spec, "windows-x86_64").unwrap();
            assert_eq!(bound(&spec, "windows-x86_64"), assignment_bytes(&all));
            let few = assigned(&spec, "linux-x86_64").unwrap();
            assert!(bound(&spec, "linux-x86_64") > assignment_bytes(&few));
        }
    }

    #[test]
    fn an_attempt_that_no_message_could_describe_fails_by_itself_and_blames_no_host() {
        let fits = spec("");
        let left = MAX_ASSIGNMENT - bound(&fits, "linux-x86_64");
        // The item is in the command, in the environment, and in an output, where a `*` is in brackets.
        assert!(assigned(&spec(&"x".repeat(left / 3)), "linux-x86_64").is_ok());
        assert!(assigned(&spec(&"*".repeat(left / 5)), "linux-x86_64").is_ok());
        assert!(assigned(&spec(&"*".repeat(left / 5 + 1)), "linux-x86_64").is_err());

        let bad = assigned(&spec(&"x".repeat(left / 3 + 1)), "linux-x86_64").unwrap_err();
        let Outcome::OverLimit(why) = bad.outcome() else {
            panic!("{bad:?}");
        };
        assert!(why.contains("102400 at most"), "{why}");
    }
}
