//! Builds the `Assignment` of one attempt from the job's spec, every placeholder expanded.

use common::checkpoint::{Checkpointing, Saved};
use common::job::{Capture, CommandSpec, Input, InputKind, JobSpec, Work};
use common::needs::Demand;
use common::path::BadPath;
use common::template::{PLACEHOLDERS, TemplateValues};
use common::wire::worker::{Assignment, Command, Errand, StagedInput, StagedKind};
use common::{AttemptId, Span};

/// Builds the `Assignment` of `attempt`, whose task has this position in the order of the indices, on the host of this name and platform, with its time limit, the interval of its
/// reports, and the checkpoint that it starts from.
///
/// # Errors
/// If an input's name, expanded, is no portable path.
pub(super) fn assignment(
    spec: &JobSpec,
    (attempt, position): (AttemptId, u64),
    (host, platform): (&str, &str),
    limit: Option<Span>,
    report_every: Option<Span>,
    from: Option<Saved>,
) -> Result<Assignment, BadPath> {
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

fn expand(
    spec: &CommandSpec,
    values: &TemplateValues<'_>,
    position: u64,
) -> Result<Command, BadPath> {
    let ours = PLACEHOLDERS
        .iter()
        .map(|name| (format!("DESKGRID_{name}"), values.value_of(name)));
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
