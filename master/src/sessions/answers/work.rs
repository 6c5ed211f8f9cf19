//! The work of a job's tasks, for people: the command, its files and the rules, as submitted.

use common::JobId;
use common::job::{Input, InputKind, JobSpec};
use common::view::WorkView;
use common::wire::client::Reply;

use super::{Answered, Asker};

/// The most characters of an entry that is shown.
const LONGEST: usize = 1_000;

impl Asker {
    pub(in crate::sessions) async fn work(&self, job: JobId) -> Answered<Reply> {
        self.pick_one(job).await?;
        let spec = self.spec(job).await?;
        Ok(Reply::Work(Box::new(work(&spec))))
    }
}

fn work(spec: &JobSpec) -> WorkView {
    let mut view = WorkView::empty(spec.rules.clone());
    let Some(command) = spec.work.command() else {
        return view;
    };

    let mut cut = 0;
    view.command = shown(command.argv.iter().map(ToString::to_string), &mut cut);
    view.env = shown(
        command
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}")),
        &mut cut,
    );
    view.inputs = shown(command.inputs.iter().map(name), &mut cut);
    view.outputs = shown(command.outputs.iter().map(ToString::to_string), &mut cut);
    view.stdin = command.stdin.as_ref().map(ToString::to_string);
    view.checkpoint = command.checkpoint;
    view.cut = cut;
    view
}

fn name(input: &Input) -> String {
    match input.kind {
        InputKind::Tree { .. } => format!("{}/", input.name),
        InputKind::File | InputKind::Program => input.name.to_string(),
    }
}

/// Returns the first of these, none of them too long; counts in `cut` those that were cut.
fn shown(all: impl ExactSizeIterator<Item = String>, cut: &mut u64) -> Vec<String> {
    *cut += all.len().saturating_sub(WorkView::SHOWN) as u64;
    let shorten = |mut text: String| {
        if let Some((at, _)) = text.char_indices().nth(LONGEST) {
            text.truncate(at);
            text.push_str("...");
            *cut += 1;
        }
        text
    };
    all.take(WorkView::SHOWN).map(shorten).collect()
}
