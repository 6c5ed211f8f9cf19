//! The work of a job's tasks, as `job info` prints it.

use common::view::WorkView;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Object, Seconds};

/// The work of a job's tasks and the rules by which they run, as submitted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkJson {
    /// Program and arguments, with placeholders; empty where tasks run nothing.
    pub command: Vec<String>,
    /// The variables of the environment, as `NAME=VALUE`.
    #[serde(skip_serializing_if = "super::none")]
    pub env: Vec<String>,
    /// The name of the input that is standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// The names of the inputs; those of directories end in `/`.
    #[serde(skip_serializing_if = "super::none")]
    pub inputs: Vec<String>,
    /// The expected outputs, as globs.
    #[serde(skip_serializing_if = "super::none")]
    pub outputs: Vec<String>,
    /// The number of entries above that were cut, since they are many or long.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut: u64,
    /// The interval between checkpoints of a running task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_s: Option<Seconds>,
    /// The number of times that a task whose attempt failed is tried again.
    pub retries: u32,
    /// The number of hosts that a task may lose before it fails.
    pub max_losses: u32,
    /// The number of failed tasks with which the rest is cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_fails: Option<u64>,
    /// The run time after which an attempt is ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<Seconds>,
    /// The user's estimate of a task, as a run time on a host of speed 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate_s: Option<Seconds>,
    /// The number of results of a task that must agree.
    pub results: u32,
    /// The rule by which results agree, where several must: `bytes`, `float:PART` or `program`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compare: Option<String>,
    /// Whether hosts that have agreed for long enough are trusted, where several results must agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<bool>,
}

impl Object for WorkView {
    type Json = WorkJson;

    fn json(&self) -> WorkJson {
        let quorum = self.rules.quorum;
        let compared = quorum.compares();

        WorkJson {
            command: self.command.clone(),
            env: self.env.clone(),
            stdin: self.stdin.clone(),
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            cut: self.cut,
            checkpoint_s: self.checkpoint.map(Seconds),
            retries: self.rules.retries,
            max_losses: self.rules.max_losses,
            max_fails: self.rules.max_fails,
            timeout_s: self.rules.timeout.map(Seconds),
            estimate_s: self.rules.estimate.map(Seconds),
            results: quorum.size,
            compare: compared.then(|| quorum.compare.to_string()),
            adaptive: compared.then_some(quorum.adaptive),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use common::job::{Compare, Quorum, Rules};

    use super::*;

    #[test]
    fn the_way_of_comparing_is_said_where_results_are_compared() {
        let said = |quorum| {
            let rules = Rules {
                quorum,
                ..Rules::default()
            };
            let work = WorkView::empty(rules);
            let document = serde_json::to_value(work.json()).unwrap();
            ["results", "compare", "adaptive"].map(|name| document[name].to_string())
        };

        assert_eq!(said(Quorum::default()), ["1", "null", "null"]);
        let judged = Quorum {
            size: 3,
            adaptive: false,
            compare: Compare::Program,
        };
        assert_eq!(said(judged), ["3", "\"program\"", "false"]);
    }
}
