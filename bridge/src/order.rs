//! An attempt as a job of the other grid: one task, with everything expanded.

use std::collections::{BTreeMap, BTreeSet};

use common::content::BlobHash;
use common::job::{
    Capture, CommandSpec, Input, InputKind, InputSource, JobSpec, Rules, SubmitOptions, TaskSet,
    Work,
};
use common::needs::{Label, Needs};
use common::template::Template;
use common::wire::worker::{Command, Errand, StagedInput, StagedKind};
use common::{AttemptId, BlobRef, IdSet, RequestId};
use uuid::Uuid;

use crate::journal::JournalEntry;

/// The variable that names the grids from which a task came over bridges.
const BRIDGED: &str = "DESKGRID_BRIDGED_FROM";

/// The two grids of a bridge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grids {
    /// The grid that gives attempts.
    pub(crate) from: Uuid,
    /// The grid that runs them.
    pub(crate) to: Uuid,
}

impl Grids {
    /// Returns the id of the submission of an attempt: the same whenever it is submitted.
    pub(crate) fn request(&self, attempt: AttemptId) -> RequestId {
        let mut hasher =
            blake3::Hasher::new_derive_key("deskgrid bridge 2026 request of an attempt");
        hasher.update(self.from.as_bytes());
        let AttemptId {
            task,
            number,
            incarnation,
        } = attempt;
        for part in [task.job.0, task.index, number, incarnation.0] {
            hasher.update(&part.to_le_bytes());
        }

        let mut id = [0; 16];
        id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        RequestId(uuid::Builder::from_custom_bytes(id).into_uuid())
    }
}

/// Returns the [`Command`] of an attempt.
///
/// # Errors
/// Says why the other grid cannot run it.
pub(crate) fn command<'a>(
    entry: &'a JournalEntry,
    grids: &Grids,
) -> Result<&'a Command, &'static str> {
    let Errand::Command(command) = &entry.assignment.work else {
        return Err("a bridge carries commands only");
    };
    let there = grids.to.to_string();
    let mut from = command.env.iter().filter(|(name, _)| name == BRIDGED);
    if from.any(|(_, grids)| grids.split(',').any(|grid| grid == there)) {
        return Err("the task came from the other grid itself, over another bridge");
    }
    Ok(command)
}

/// Makes the [`JobSpec`] of an attempt.
pub(crate) fn job(entry: &JournalEntry, command: &Command, grids: &Grids) -> JobSpec {
    let literal = |text: &String| Template::literal(text);
    let keep = |keep: bool| {
        if keep {
            Capture::Keep
        } else {
            Capture::Discard
        }
    };
    let checkpoint = command.checkpoint.map(|checkpoint| checkpoint.every);
    let mut env: Vec<(String, Template)> = command
        .env
        .iter()
        .filter(|(name, _)| name != BRIDGED)
        .map(|(name, value)| (name.clone(), Template::literal(value)))
        .collect();
    env.push((
        BRIDGED.to_owned(),
        Template::literal(&came_from(command, grids)),
    ));

    let spec = CommandSpec {
        argv: command.argv.iter().map(literal).collect(),
        env,
        inputs: command
            .inputs
            .iter()
            .map(|staged| input(staged, &entry.parts))
            .collect(),
        outputs: command.outputs.iter().map(literal).collect(),
        stdin: command
            .stdin
            .as_ref()
            .map(|path| Template::literal(path.as_str())),
        stdout: keep(command.keep_stdout),
        stderr: keep(command.keep_stderr),
        checkpoint,
    };
    let rules = Rules {
        timeout: entry.assignment.limit,
        checkpoint: checkpoint.is_some(),
        needs: needs(entry, command),
        ..Rules::default()
    };
    JobSpec {
        name: format!("bridge {}", entry.assignment.attempt),
        tasks: TaskSet {
            ids: IdSet::from_range(1, 1),
            items: Vec::new(),
        },
        work: Work::Command(spec),
        rules,
    }
}

/// Returns the [`SubmitOptions`] beside the job: the label by which the bridge follows it.
pub(crate) fn options(label: &Label) -> SubmitOptions {
    SubmitOptions {
        labels: BTreeSet::from([label.clone()]),
        ..SubmitOptions::default()
    }
}

fn needs(entry: &JournalEntry, command: &Command) -> Needs {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Needs {
        confinement: command.confinement,
        network: command.network,
        os: some(&entry.platform.os),
        arch: some(&entry.platform.arch),
        libc: some(entry.platform.libc_kind()),
        takes: command.takes,
        ..Needs::default()
    }
}

/// Returns the grids that a task came from, this one included.
fn came_from(command: &Command, grids: &Grids) -> String {
    let before = command.env.iter().find(|(name, _)| name == BRIDGED);
    match before {
        Some((_, before)) => format!("{before},{}", grids.from),
        None => grids.from.to_string(),
    }
}

fn input(staged: &StagedInput, parts: &BTreeMap<BlobHash, Vec<BlobRef>>) -> Input {
    let StagedInput { path, blob, kind } = staged;
    let kind = match kind {
        StagedKind::File => InputKind::File,
        StagedKind::Program => InputKind::Program,
        StagedKind::Tree => InputKind::Tree {
            parts: parts.get(&blob.hash).cloned().unwrap_or_default(),
        },
    };
    Input {
        name: Template::literal(path.as_str()),
        kind,
        source: InputSource::Shared(*blob),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::needs::Demand;
    use common::platform::HostPlatform;
    use common::template::TemplateValues;
    use common::wire::worker::Assignment;
    use common::{Incarnation, JobId, Span, TaskId};

    fn grids() -> Grids {
        Grids {
            from: Uuid::from_u128(1),
            to: Uuid::from_u128(2),
        }
    }

    fn attempt(number: u32) -> AttemptId {
        AttemptId {
            task: TaskId::new(JobId(7), 3),
            number,
            incarnation: Incarnation(9),
        }
    }

    fn entry(env: &[(&str, &str)]) -> JournalEntry {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let command = Command {
            argv: vec![
                "sh".to_owned(),
                "-c".to_owned(),
                "echo %{JOB_ID} 100%".to_owned(),
            ],
            env: env.iter().map(own).collect(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            stdin: None,
            keep_stdout: true,
            keep_stderr: false,
            checkpoint: None,
            confinement: None,
            network: false,
            takes: Demand::PLAIN,
        };
        JournalEntry {
            assignment: Assignment {
                attempt: attempt(1),
                limit: Some(Span::from_secs(5)),
                report_every: None,
                work: Errand::Command(Box::new(command)),
            },
            platform: HostPlatform::new("linux", "x86_64", "gnu 2.36"),
            parts: BTreeMap::new(),
        }
    }

    #[test]
    fn an_attempt_has_one_request_id_and_no_other_attempt_or_grid_has_it() {
        let id = grids().request(attempt(1));
        assert_eq!(id, grids().request(attempt(1)));
        assert_ne!(id, grids().request(attempt(2)));
        let other = Grids {
            from: Uuid::from_u128(5),
            ..grids()
        };
        assert_ne!(id, other.request(attempt(1)));
    }

    #[test]
    fn a_job_says_what_the_attempt_said_and_expands_nothing_twice() {
        let entry = entry(&[("A", "%{HOST}")]);
        let command = command(&entry, &grids()).unwrap();
        let job = job(&entry, command, &grids());
        job.check().unwrap();
        options(&"bridge-x".parse().unwrap()).check(&job).unwrap();

        let values = TemplateValues {
            attempt: attempt(4),
            host: "h",
            platform: "p",
            item: "",
            width: None,
        };
        let spec = job.work.command().unwrap();
        assert_eq!(spec.argv[2].expand(&values), "echo %{JOB_ID} 100%");
        assert_eq!(spec.env[0].1.expand(&values), "%{HOST}");
        assert_eq!(spec.stderr, Capture::Discard);
        assert_eq!(job.rules.timeout, Some(Span::from_secs(5)));
        assert_eq!(job.rules.needs.libc.as_deref(), Some("gnu"));
    }

    #[test]
    fn a_task_does_not_go_back_to_a_grid_that_it_came_from() {
        let first = entry(&[]);
        let there = job(&first, command(&first, &grids()).unwrap(), &grids());
        let (_, came) = there.work.command().unwrap().env.last().unwrap();
        let back = Grids {
            from: grids().to,
            to: grids().from,
        };
        let again = entry(&[(BRIDGED, came.as_str())]);
        assert!(command(&again, &back).is_err());
        assert!(command(&again, &grids()).is_ok());
    }
}
