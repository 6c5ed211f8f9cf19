//! The guard of the process groups: a process beside the worker, which kills them when the worker dies. It is
//! for systems on which nothing else ties a process to the one that started it.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

/// The worker's end. Dropping it ends the guard, which kills every group that it still has.
pub(crate) struct GroupGuard {
    program: PathBuf,
    post: Mutex<GuardPost>,
}

struct GuardPost {
    child: Child,
    groups: BTreeSet<i32>,
}

impl GroupGuard {
    /// Starts `program` as the guard.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(program: PathBuf) -> io::Result<Self> {
        let post = Mutex::new(GuardPost {
            child: spawn(&program)?,
            groups: BTreeSet::new(),
        });
        Ok(Self { program, post })
    }

    /// Has the guard kill this group when the worker dies.
    pub(crate) fn keep(&self, group: Pid) {
        self.tell('+', group);
    }

    /// Takes that back: nothing is left of the group.
    pub(crate) fn forget(&self, group: Pid) {
        self.tell('-', group);
    }

    fn tell(&self, sign: char, group: Pid) {
        let mut post = self.post.lock().unwrap_or_else(PoisonError::into_inner);
        let line = format!("{sign}{}\n", group.as_raw_nonzero());
        heed(&mut post.groups, line.trim_end());
        if post.say(&line).is_ok() {
            return;
        }

        tracing::warn!("the guard of the tasks' processes is gone; starting another");
        let _ = post.child.wait();
        let all: String = post.groups.iter().map(|id| format!("+{id}\n")).collect();
        let again = spawn(&self.program).and_then(|child| {
            post.child = child;
            post.say(&all)
        });
        if let Err(error) = again {
            tracing::warn!(%error, "tasks would outlive this worker if it were killed");
        }
    }
}

impl GuardPost {
    fn say(&mut self, words: &str) -> io::Result<()> {
        let pipe = self.child.stdin.as_mut();
        pipe.ok_or(io::ErrorKind::BrokenPipe)?
            .write_all(words.as_bytes())
    }
}

impl Drop for GuardPost {
    fn drop(&mut self) {
        // Closes its standard input first.
        let _ = self.child.wait();
    }
}

fn spawn(program: &PathBuf) -> io::Result<Child> {
    // In a group of its own: a service manager kills what is left of the worker's.
    Command::new(program)
        .arg(crate::spawner::ARG)
        .env_clear()
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// Is the guard: hears of groups until `words` end, and kills those that are left.
pub(crate) fn stand(words: impl BufRead) {
    let mut groups = BTreeSet::new();
    for line in words.lines().map_while(Result::ok) {
        heed(&mut groups, &line);
    }

    for group in groups.into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Enters a group, or strikes it out. A group of this process, or of all, is none of a task's.
fn heed(groups: &mut BTreeSet<i32>, line: &str) {
    let Some((sign, id)) = line.split_at_checked(1) else {
        return;
    };
    match (sign, id.parse::<i32>()) {
        ("+", Ok(id)) if id > 1 => drop(groups.insert(id)),
        ("-", Ok(id)) => drop(groups.remove(&id)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_kills_the_groups_that_are_left_and_no_other() {
        let sleeper = || {
            let mut command = Command::new("sleep");
            command.arg("600").process_group(0).spawn().unwrap()
        };
        let (mut left, mut ended) = (sleeper(), sleeper());
        let words = format!(
            "+{}\n+{}\n-{}\n+0\n+1\n+-1\nnonsense\n\n",
            left.id(),
            ended.id(),
            ended.id()
        );
        stand(words.as_bytes());
        let status = left.wait().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9)
        );
        assert!(ended.try_wait().unwrap().is_none());
        ended.kill().unwrap();
        ended.wait().unwrap();
    }
}
