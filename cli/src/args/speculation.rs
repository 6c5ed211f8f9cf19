//! Defines the flags of `deskgrid request`, and the tasks that it names.

use clap::Args;
use common::selector::Selector;

use super::value::OneJob;

/// The examples below the help of `deskgrid request`.
pub(crate) const REQUEST: &str = "\
Examples:
  deskgrid submit --disclose --array 1-50 --input ./try -- ./try %{TASK_ID}
  deskgrid request last.1 --wait            # the first result, once it is there
  deskgrid request last.2-5                 # four more are needed
  deskgrid job cancel last --unrequested    # none of the others is needed

By default unrequested tasks behind every requested one start before those in front of one.";

/// The flags of `deskgrid request`.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    /// A disclosed job, or tasks of it, such as 7, last, 7.1 or last.2-5
    #[arg(value_name = "JOB[.TASKS]")]
    pub what: TaskSelection,
    /// Wait for the results, and print each one's standard output as it comes; exit code 3 if some
    /// failed
    #[arg(long)]
    pub wait: bool,
}

/// A job and some of its tasks, written `JOB` or `JOB.TASKS`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TaskSelection {
    /// The job.
    pub job: OneJob,
    /// The selected tasks of the job.
    pub tasks: Selector,
}

impl std::str::FromStr for TaskSelection {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (job, tasks) = text
            .split_once('.')
            .map_or((text, "all"), |(job, tasks)| (job, tasks));
        let job = job.parse()?;
        Ok(TaskSelection {
            job,
            tasks: tasks.parse().map_err(|why| format!("{why}"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::{IdSet, JobId};

    #[test]
    fn a_job_or_some_of_its_tasks_are_wanted() {
        let parse = |text: &str| text.parse::<TaskSelection>();
        assert_eq!(
            parse("7"),
            Ok(TaskSelection {
                job: OneJob::Id(JobId(7)),
                tasks: Selector::All
            })
        );

        let some = Selector::Ids(IdSet::from_range(2, 5));
        assert_eq!(
            parse("last.2-5"),
            Ok(TaskSelection {
                job: OneJob::Last,
                tasks: some
            })
        );

        assert!(parse("7.x").is_err() && parse("x.1").is_err());
    }
}
