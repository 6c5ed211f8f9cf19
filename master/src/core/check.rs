//! Checks a submission, and tasks that are added to a job, before they are kept.

use common::job::{JobSpec, SubmitOptions};
use common::path::{BadPath, PortablePath, SPECIAL};
use common::ranks::MAX_RANKS;
use common::template::TemplateValues;
use common::wire::{Refusal, RefusalCode};
use common::{AttemptId, Incarnation, JobId, NewTasks, TaskId, TaskSet};
use scheduler::policy::Width;

use super::assign::command_bytes;
use super::mail::MAX_ASSIGNMENT;

/// The longest name of a host: what a worker may ask for, with a number behind it where others have
/// that name.
const LONGEST_HOST: usize = 64 + 1 + 10;
/// The longest name of a platform.
const LONGEST_PLATFORM: usize = 32 + 1 + 32;

/// The advice on a submission whose fault says all.
const SEE_HELP: &str = "deskgrid submit --help says what each option takes";
/// The advice on tasks that are added to a job, whose command and names of files are as they are.
const OTHER_TASKS: &str = "change the item or the number of that task, or leave it out: nothing was added, and the job's \
     command and the names of its files stay as they are";

fn invalid(what: String, hint: &str) -> Refusal {
    Refusal::new(RefusalCode::Invalid, what, hint)
}

/// Checks a submission; takes time in proportion to its list of items.
///
/// # Errors
/// Returns the first fault found.
pub(crate) fn check_spec(spec: &JobSpec, asked: &SubmitOptions) -> Result<(), Refusal> {
    let checked = spec.check().and_then(|()| asked.check(spec));
    checked.map_err(|bad| {
        let hint = bad.hint();
        invalid(bad.to_string(), hint.as_deref().unwrap_or(SEE_HELP))
    })?;

    let policy = scheduler::policy::parse(&spec.rules.policy)
        .map_err(|bad| invalid(bad.to_string(), "see `deskgrid policy list`"))?;
    if spec.work.ranks().is_some() == (policy.width == Width::Rigid) {
        let what = format!(
            "the policy {} and the job's width do not go together",
            policy.name
        );
        let names = scheduler::policy::names(|row| row.width != Width::Rigid);
        let hint = format!(
            "jobs with a width have a policy that decides on widths ({names}), and others have not"
        );
        return Err(invalid(what, &hint));
    }

    check_tasks(spec, &spec.tasks)
}

/// Checks tasks that are to be added to an open job, whose `spec` is as [`Core::open_to`] gives it; takes
/// time in proportion to their items. What the job cannot take besides, [`Core::add`] refuses.
///
/// # Errors
/// Returns the first fault found.
///
/// [`Core::open_to`]: super::Core::open_to
/// [`Core::add`]: super::Core::add
pub(crate) fn check_addition(spec: &JobSpec, tasks: &NewTasks) -> Result<(), Refusal> {
    let Ok(new) = tasks.clone().beside(&spec.tasks) else {
        return Ok(());
    };
    let files = spec.check_files_of(&new);
    files.map_err(|bad| invalid(bad.to_string(), OTHER_TASKS))?;
    check_tasks(spec, &new).map_err(|refusal| invalid(refusal.message, OTHER_TASKS))
}

/// Checks that these tasks of a job, all or those that are added to it, can be assigned to hosts.
fn check_tasks(spec: &JobSpec, tasks: &TaskSet) -> Result<(), Refusal> {
    check_length(spec, tasks)?;
    check_names(spec, tasks)
}

/// Refuses tasks whose assignment could be longer than a host is sent, whatever the numbers of the job
/// and of the attempt are, and wherever it goes.
fn check_length(spec: &JobSpec, tasks: &TaskSet) -> Result<(), Refusal> {
    let Some(command) = spec.work.command() else {
        return Ok(());
    };
    let last = tasks.ids.ranges().last().map_or(0, |(_, last)| last);
    // The ranks of a gang are numbered once it starts.
    let width = spec.work.ranks().map(|_| MAX_RANKS);

    let host = "h".repeat(LONGEST_HOST);
    let platform = "p".repeat(LONGEST_PLATFORM);
    let bytes_with = |item: &str| {
        let values = TemplateValues {
            attempt: AttemptId {
                task: TaskId::new(JobId(u32::MAX), width.unwrap_or(last)),
                number: u32::MAX,
                incarnation: Incarnation(0),
            },
            host: &host,
            platform: &platform,
            item,
            width,
        };
        command_bytes(command, &values)
    };

    let longest = longest(&tasks.items, bytes_with);
    let bytes = bytes_with(longest.map_or("", |(_, item)| item));
    if bytes <= MAX_ASSIGNMENT {
        return Ok(());
    }

    let index = longest.and_then(|(position, _)| tasks.ids.iter().nth(position));
    let index = index.unwrap_or(last);
    let what = format!(
        "task {index}: its command, environment and file names can take {bytes} bytes, with host names of {LONGEST_HOST} bytes and numbers of ten digits, and a host is sent {MAX_ASSIGNMENT} at most"
    );
    Err(invalid(what, "put long lists into an input file"))
}

/// Returns the item that makes the longest assignment, with its position. An output's pattern takes more
/// bytes for a character that is special there, so one of each kind is measured, not every item.
fn longest(items: &[String], bytes_with: impl Fn(&str) -> usize) -> Option<(usize, &str)> {
    let none = bytes_with("");
    let plain = bytes_with("x").saturating_sub(none);
    let special = bytes_with("*").saturating_sub(none);

    let listed = items.iter().map(String::as_str).enumerate();
    listed.max_by_key(|(_, item)| {
        let specials = item.matches(SPECIAL).count();
        let plains = plain.saturating_mul(item.len() - specials);
        plains.saturating_add(special.saturating_mul(specials))
    })
}

/// Refuses tasks with an input whose name, expanded, is no portable path. Names that are the same for
/// all tasks are looked at once.
fn check_names(spec: &JobSpec, tasks: &TaskSet) -> Result<(), Refusal> {
    let command = spec.work.command();
    let inputs = command.map_or(&[][..], |command| &command.inputs);

    for name in inputs.iter().map(|input| &input.name) {
        let numbered = ["TASK_ID", "RANK"].iter().any(|of| name.mentions(of));
        let items_matter = name.mentions("ITEM");
        let alike = if numbered || items_matter {
            usize::MAX
        } else {
            1
        };

        for values in spec.looked_at(tasks, items_matter).take(alike) {
            let path: Result<PortablePath, BadPath> = name.expand(&values).try_into();
            path.map_err(|bad| {
                let hint = "give the input another name: --input FILE:NAME";
                let index = values.attempt.task.index;
                invalid(format!("task {index}: input: {bad}"), hint)
            })?;
        }
    }

    Ok(())
}

#[cfg(test)]
mod tests {
    use common::content::BlobHash;
    use common::job::{CommandSpec, Input, InputKind, InputSource, Rules, Work};
    use common::{BlobRef, IdSet};

    use super::*;

    /// A job of one task, with this item if there is one, and an input of this name.
    fn spec(input: &str, item: Option<&str>) -> JobSpec {
        let mut command = CommandSpec::new(vec!["run".parse().unwrap()]);
        command.inputs = vec![Input {
            name: input.parse().unwrap(),
            kind: InputKind::File,
            source: InputSource::Shared(BlobRef {
                hash: BlobHash([7; 32]),
                size: 5,
            }),
        }];

        JobSpec {
            name: "job".into(),
            tasks: TaskSet {
                ids: IdSet::from_range(1, 1),
                items: item.map(str::to_owned).into_iter().collect(),
            },
            work: Work::Command(command),
            rules: Rules::default(),
        }
    }

    /// The words of the refusal of these tasks; `None` if they can be added.
    fn refused(spec: &JobSpec, tasks: &NewTasks) -> Option<String> {
        let refusal = check_addition(spec, tasks).err()?;
        let advice = "change the item or the number of that task";
        assert!(refusal.hint.starts_with(advice), "{}", refusal.hint);
        Some(refusal.to_string())
    }

    #[test]
    fn a_special_character_counts_with_the_brackets_that_it_gets_in_an_output() {
        let mut listed = spec("in", Some("a"));
        if let Work::Command(command) = &mut listed.work {
            command.outputs = vec!["%{ITEM}*".parse().unwrap(); 10];
        }
        // It is in the environment, too, and in each output three times as long.
        let items = |item: String| NewTasks::Items(vec!["y".repeat(4_000), item, "z".into()]);
        assert_eq!(refused(&listed, &items("x".repeat(9_000))), None);
        assert_eq!(refused(&listed, &items("*".repeat(3_000))), None);
        let why = refused(&listed, &items("*".repeat(3_500))).unwrap();
        assert!(why.contains("task 3:"), "{why}");
    }

    #[test]
    fn the_names_of_outputs_are_checked_when_tasks_are_submitted_or_added() {
        let mut listed = spec("in", Some("a:b"));
        if let Work::Command(command) = &mut listed.work {
            command.outputs = vec!["%{ITEM}.txt".parse().unwrap()];
        }
        let refused_at = check_spec(&listed, &SubmitOptions::default()).unwrap_err();
        assert!(refused_at.to_string().contains("an output of task 1"));
        assert!(
            refused_at.hint.contains("'%{TASK_ID}.txt'"),
            "{refused_at:?}"
        );

        listed.tasks.items = vec!["a".to_owned()];
        assert_eq!(check_spec(&listed, &SubmitOptions::default()), Ok(()));
        let items = |item: &str| NewTasks::Items(vec!["b".to_owned(), item.to_owned()]);
        assert_eq!(refused(&listed, &items("c")), None);
        let why = refused(&listed, &items("c:d")).unwrap();
        assert!(why.contains("an output of task 3"), "{why}");
    }

    #[test]
    fn the_names_of_inputs_are_checked_for_tasks_that_are_added() {
        // The numbers from 100,000 on make the name longer than 255 bytes.
        let numbered = spec(&format!("{}%{{TASK_ID}}", "x".repeat(250)), None);
        let ids = |first, last| NewTasks::Ids(IdSet::from_range(first, last));
        assert_eq!(refused(&numbered, &ids(2, 99_999)), None);
        let why = refused(&numbered, &ids(2, 9_999_999)).unwrap();
        assert!(why.contains("task 9999999: input:"), "{why}");

        let listed = spec("in-%{ITEM}", Some("a"));
        let items = |last: &str| {
            let items = ["b"; 20].into_iter().chain([last, "b"]);
            NewTasks::Items(items.map(str::to_owned).collect())
        };
        assert_eq!(refused(&listed, &items("c")), None);
        let why = refused(&listed, &items("../c")).unwrap();
        assert!(why.contains("task 22: input:"), "{why}");
    }
}
