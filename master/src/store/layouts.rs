//! Submissions as earlier versions of the store hold them, and how they become present ones. postcard writes fields one
//! after the other and names none, so a field that was added since makes other bytes: each layout that ever lay in a store
//! is kept here as it was. What is not here: the layout of today, which is [`JobSpec`] itself.

use common::Span;
use common::content::BlobHash;
use common::job::{Capture, CommandSpec, Input, JobSpec, Needs, Rules, TaskSet, Work};
use common::template::Template;
use rusqlite::{Transaction, params};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{StoreError, to_postcard};

/// A submission of any layout.
#[derive(Deserialize)]
struct Layout<C, R> {
    name: String,
    tasks: TaskSet,
    work: OldWork<C>,
    rules: R,
}

#[derive(Deserialize)]
enum OldWork<C> {
    Noop,
    Command(C),
}

/// A command before checkpoints.
#[derive(Deserialize)]
struct Command1 {
    argv: Vec<Template>,
    env: Vec<(String, Template)>,
    inputs: Vec<Input>,
    outputs: Vec<Template>,
    stdin: Option<Template>,
    stdout: Capture,
    stderr: Capture,
}

/// A command with checkpoints.
#[derive(Deserialize)]
struct Command2 {
    first: Command1,
    checkpoint: Option<Span>,
}

/// Rules before checkpoints.
#[derive(Deserialize)]
struct Rules1 {
    retries: u32,
    max_losses: u32,
    timeout: Option<Span>,
    max_fails: Option<u64>,
    priority: i32,
    policy: String,
    estimate: Option<Span>,
}

/// Rules with checkpoints.
#[derive(Deserialize)]
struct Rules2 {
    first: Rules1,
    checkpoint: bool,
}

/// Rules with what hosts must offer.
#[derive(Deserialize)]
struct Rules3 {
    second: Rules2,
    needs: Needs,
}

impl From<Command1> for CommandSpec {
    fn from(old: Command1) -> Self {
        let Command1 { argv, env, inputs, outputs, stdin, stdout, stderr } = old;
        CommandSpec { env, inputs, outputs, stdin, stdout, stderr, ..CommandSpec::new(argv) }
    }
}

impl From<Command2> for CommandSpec {
    fn from(old: Command2) -> Self {
        CommandSpec { checkpoint: old.checkpoint, ..old.first.into() }
    }
}

impl From<Rules1> for Rules {
    fn from(old: Rules1) -> Self {
        let Rules1 { retries, max_losses, timeout, max_fails, priority, policy, estimate } = old;
        Rules { retries, max_losses, timeout, max_fails, priority, policy, estimate, ..Rules::default() }
    }
}

impl From<Rules2> for Rules {
    fn from(old: Rules2) -> Self {
        Rules { checkpoint: old.checkpoint, ..old.first.into() }
    }
}

impl From<Rules3> for Rules {
    fn from(old: Rules3) -> Self {
        Rules { needs: old.needs, ..old.second.into() }
    }
}

impl<C: Into<CommandSpec>, R: Into<Rules>> From<Layout<C, R>> for JobSpec {
    fn from(old: Layout<C, R>) -> Self {
        let work = match old.work {
            OldWork::Noop => Work::Noop,
            OldWork::Command(command) => Work::Command(command.into()),
        };
        JobSpec { name: old.name, tasks: old.tasks, work, rules: old.rules.into() }
    }
}

/// Reads a submission that a store of version 1 or 2 holds. Version 1 had several layouts: it is the newest that takes
/// every byte and makes sense.
fn read(bytes: &[u8]) -> Option<JobSpec> {
    None.or_else(|| whole::<Layout<Command2, Rules3>>(bytes))
        .or_else(|| whole::<Layout<Command2, Rules2>>(bytes))
        .or_else(|| whole::<Layout<Command1, Rules2>>(bytes))
        .or_else(|| whole::<Layout<Command1, Rules1>>(bytes))
}

fn whole<T: DeserializeOwned + Into<JobSpec>>(bytes: &[u8]) -> Option<JobSpec> {
    let (old, rest) = postcard::take_from_bytes::<T>(bytes).ok()?;
    let spec: JobSpec = if rest.is_empty() { old.into() } else { return None };
    spec.check().is_ok().then_some(spec)
}

/// Brings every submission of a store of version 1 or 2 into the layout of today. Its hash changes with it, so that a
/// client that repeats a request, and speaks the new layout by then, is told of the same job.
pub(super) fn renew(change: &Transaction<'_>) -> Result<(), StoreError> {
    let mut jobs = change.prepare("SELECT id FROM job ORDER BY id")?;
    let jobs = jobs.query_map([], |row| row.get::<_, u32>(0))?.collect::<Result<Vec<_>, _>>()?;
    for job in jobs {
        let old: Vec<u8> = change.query_row("SELECT spec FROM job WHERE id = ?", [job], |row| row.get(0))?;
        let broken = || StoreError::Content(format!("what was submitted as job {job} has no layout that ever was"));
        let new = to_postcard(&read(&old).ok_or_else(broken)?)?;
        let hash = BlobHash(*blake3::hash(&new).as_bytes());
        change.execute("UPDATE job SET spec = ?, body_hash = ? WHERE id = ?", params![new, hash.0, job])?;
    }
    Ok(())
}
