//! Tasks one after the other in the namespaces of one init: what they share is what they cannot
//! write to, and where one has changed anything the next one gets another init.

use common::Content;
use common::attempt::Outcome;

use super::HOSTILE;
use super::door::{Worker, command, sh};

/// The pairs of tasks of which one has to share an init. Others may come too late for it.
const PAIRS: u32 = 100;
/// Tells the number of a task's process: the first one that an init has started is its second
/// process.
const NUMBER: &str = "echo $$";
const FIRST: &str = "2\n";
/// Leaves what outlives processes in a namespace for it.
const SYSTEM_V: &str = "ipcmk -M 1000 -Q -S 1 > /dev/null";
/// Tells everything that a task could find of another one.
const LOOK: &str = "ls -A /tmp /dev/shm /dev/pts; ls -A .. | wc -l; stat -c '%a %u %g %h' /tmp /dev/shm /dev/pts /dev/pts/ptmx; \
                    ulimit -a; ulimit -aH; cat /proc/1/limits; nice; ionice -p $$; ionice -p 1; \
                    cut -d' ' -f 18,19,40,41 /proc/1/stat; grep Cpus_allowed: /proc/1/status; cat /proc/net/unix | wc -l; \
                    cat /proc/sysvipc/* | wc -l; set -- /proc/[0-9]*; echo $#; cat /proc/self/cgroup; hostname";
/// The changes that a task can make to that which it shares with the next one, if it may. The first word says
/// whether it may for certain; capabilities of the init may stand before it.
const CHANGES: [(bool, &str); 10] = [
    (true, "echo x > /tmp/trace"),
    (true, "echo x > /dev/shm/trace"),
    (true, "chmod 777 /tmp"),
    (true, "chmod 700 /dev/shm"),
    (true, "touch -d 2001-01-01 /tmp"),
    (true, "prlimit --pid 1 --nofile=9:9"),
    (true, "prlimit --pid 1 --cpu=1000:1000"),
    (false, "renice -n 7 -p 1 > /dev/null"),
    (false, "ionice -c 3 -p 1"),
    (false, "chmod 600 /dev/pts/ptmx"),
];

/// Tries it, with tasks from this number on.
pub(crate) async fn tasks_in_succession_find_nothing_of_each_other(
    worker: &mut Worker,
    program: &str,
    first: u32,
) {
    let mut tasks = Tasks {
        worker,
        next: first,
    };
    let usual = tasks.succeeds(LOOK).await;
    tasks.have_one_init().await;

    for (may, change) in CHANGES {
        let (outcome, said) = tasks.run(change).await;
        let changed = outcome == Outcome::Succeeded;
        assert!(changed || !may, "{change}: {outcome:?}, {said}");
        let next = tasks.succeeds(NUMBER).await;
        assert!(
            !changed || next == FIRST,
            "the init that `{change}` has changed served another task: {next}"
        );
        assert_eq!(tasks.succeeds(LOOK).await, usual, "after `{change}`");
    }

    tasks.succeeds(SYSTEM_V).await;
    assert_eq!(tasks.succeeds(LOOK).await, usual);

    // A socket that a process holds which outlives the command, and one that nothing holds but itself.
    let name = format!("deskgrid-left-{}", std::process::id());
    let act = |act: &str| format!("{program} {HOSTILE} {act} {name}");
    for leave in ["leave-listening", "leave-in-flight"] {
        tasks.succeeds(&act(leave)).await;
        let (outcome, said) = tasks.run(&act("connect-abstract")).await;
        assert_eq!(
            outcome,
            Outcome::Exited(super::acts::STOPPED),
            "{leave}: {said}"
        );
        assert_eq!(tasks.succeeds(LOOK).await, usual, "{leave}");
    }
}

struct Tasks<'a> {
    worker: &'a mut Worker,
    next: u32,
}

impl Tasks<'_> {
    /// Runs a script as a task; returns how it ended and what it said.
    async fn run(&mut self, script: &str) -> (Outcome, String) {
        self.next += 1;
        let mut work = sh(self.next, "");
        command(&mut work).argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        self.worker.assign(vec![work]).await;
        let done = self.worker.delivered().await.remove(0);
        self.worker.acknowledge(vec![done.attempt]).await;
        let Content::Inline(said) = done.stdout.content else {
            panic!("{script}: too much");
        };
        (done.outcome, String::from_utf8(said).unwrap())
    }

    async fn succeeds(&mut self, script: &str) -> String {
        let (outcome, said) = self.run(script).await;
        assert_eq!(outcome, Outcome::Succeeded, "{script}: {said}");
        said
    }

    /// Tasks in close succession have one init, which is what the rest is about.
    async fn have_one_init(&mut self) {
        for _ in 0..PAIRS {
            self.succeeds(NUMBER).await;
            if self.succeeds(NUMBER).await != FIRST {
                return;
            }
        }
        panic!("no two of {PAIRS} tasks in succession had the same init");
    }
}
