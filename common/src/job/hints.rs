//! Advice on submissions that make no sense.

use super::BadJob;

impl BadJob {
    /// Says what to ask for instead, with the names of the options of `deskgrid submit`; `None` where the
    /// error itself says all.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            BadJob::Stdin(name) => return Some(format!("--input FILE:{name} --stdin {name}")),
            BadJob::StdinTree(_) => "--input FILE:NAME --stdin NAME",
            BadJob::InputInInput(..) | BadJob::InputTwice(_) => {
                "give one of them another name: --input F:NAME"
            }
            BadJob::TooManyTasks(_) => "submit several jobs",
            BadJob::Needs(_) => "--needs os=linux,cpus=4,mem=4G,gpu=1,label=lab3",
            BadJob::Name => "--name sweep7",
            BadJob::EnvName(_) => "--env NAME=VALUE",
            BadJob::QuorumSize(_) | BadJob::NothingToCompare(_) => "--quorum 2",
            BadJob::QuorumOfStates => "leave --quorum or --checkpoint out",
            BadJob::CheckpointInterval(_) => "--checkpoint 30s",
            BadJob::Mismatch { .. } => {
                "as many of them as tasks; --estimate DUR is one estimate for all tasks"
            }
            BadJob::NoTime(_) | BadJob::NoTimeForAll => "a duration such as 90s or 1h30m",
            BadJob::OpenWith(_) => "leave that or --open out",
            BadJob::AfterTwice(_) => "leave one of the two --after out",
            BadJob::StreamPlatform => "--stdout '%{TASK_ID}.txt', or --stderr likewise",
            BadJob::StreamFileTwice(_) => "--stdout out.txt --stderr err.txt",
            BadJob::StreamName { .. } => {
                "--stdout '%{TASK_ID}.txt', or --stderr likewise: not every item can be in a file's name"
            }
            BadJob::OutputName { .. } => {
                "a path or pattern below the directory in which the task runs, such as out.txt, \
                 '%{TASK_ID}.txt', results/, or '**' for all below it: not every item can be in a file's name; \
                 `job fetch JOB --into DIR` puts it elsewhere here"
            }
            BadJob::Ranks(_) => "--width 8, 4..16 or auto; deskgrid submit --help says more",
            _ => return None,
        };

        Some(hint.to_owned())
    }
}
