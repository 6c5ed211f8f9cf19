//! The work of a job's tasks, as `job info` prints it.

use common::view::WorkView;

use super::{Seconds, form};

form! {
    /// The work of a job's tasks and the rules by which they run, as submitted.
    pub struct WorkJson of WorkView as view {
        /// Program and arguments, with placeholders; empty where tasks run nothing.
        pub command: Vec<String> = view.command.clone(),
        /// The variables of the environment, as `NAME=VALUE`.
        #[serde(skip_serializing_if = "super::none")]
        pub env: Vec<String> = view.env.clone(),
        /// The name of the input that is standard input.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub stdin: Option<String> = view.stdin.clone(),
        /// The names of the inputs; those of directories end in `/`.
        #[serde(skip_serializing_if = "super::none")]
        pub inputs: Vec<String> = view.inputs.clone(),
        /// The expected outputs, as globs.
        #[serde(skip_serializing_if = "super::none")]
        pub outputs: Vec<String> = view.outputs.clone(),
        /// The number of entries above that were cut, since they are many or long.
        #[serde(skip_serializing_if = "is_zero")]
        pub cut: u64 = view.cut,
        /// The interval between checkpoints of a running task.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub checkpoint_s: Option<Seconds> = view.checkpoint.map(Seconds),
        /// The number of times that a task whose attempt failed is tried again.
        pub retries: u32 = view.rules.retries,
        /// The number of hosts that a task may lose before it fails.
        pub max_losses: u32 = view.rules.max_losses,
        /// The number of failed tasks with which the rest is cancelled.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub max_fails: Option<u64> = view.rules.max_fails,
        /// The run time after which an attempt is ended.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub timeout_s: Option<Seconds> = view.rules.timeout.map(Seconds),
        /// The user's estimate of a task, as a run time on a host of speed 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub estimate_s: Option<Seconds> = view.rules.estimate.map(Seconds),
        /// The number of results of a task that must agree.
        pub results: u32 = view.rules.quorum.size,
        /// The rule by which results agree, where several must: `bytes`, `float:PART` or `program`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub compare: Option<String> =
            view.rules.quorum.compares().then(|| view.rules.quorum.compare.to_string()),
        /// Whether hosts that have agreed for long enough are trusted, where several results must agree.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub adaptive: Option<bool> =
            view.rules.quorum.compares().then_some(view.rules.quorum.adaptive),
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
    use crate::json::Object;

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
