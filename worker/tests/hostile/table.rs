//! Which act is stopped at which level: what the tests insist on, and what `docs/confinement.md`
//! shows.

use common::host::Confinement;

use Stop::{AsRoot, Contained, No, Yes};

/// What becomes of an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It succeeds.
    No,
    /// It cannot be done where the worker runs as root, and is done where it does not.
    AsRoot,
    /// It cannot be done.
    Yes,
    /// It is begun, and ended or bounded by the worker before it harms.
    Contained,
}

/// A row.
pub(crate) struct Row {
    /// As the hostile program knows it.
    pub act: &'static str,
    /// In words.
    pub what: &'static str,
    /// At each level, the weakest first.
    pub stops: [Stop; 4],
}

const fn row(act: &'static str, what: &'static str, stops: [Stop; 4]) -> Row {
    Row { act, what, stops }
}

/// All of it.
pub(crate) const TABLE: [Row; 32] = [
    row("read-home", "reads the owner's files", [No, Yes, Yes, Yes]),
    row(
        "write-outside",
        "writes outside its directory",
        [No, Yes, Yes, Yes],
    ),
    row(
        "connect-tcp",
        "connects to a port, without leave to use the network",
        [No, Yes, Yes, Yes],
    ),
    row(
        "connect-unix",
        "talks to the owner's programs (a socket in the file system)",
        [No, Yes, Yes, Yes],
    ),
    row(
        "connect-abstract",
        "talks to the owner's programs (an abstract socket)",
        [No, Yes, Yes, Yes],
    ),
    row(
        "read-memory",
        "reads another program's memory",
        [No, Yes, Yes, Yes],
    ),
    row(
        "read-environment",
        "reads another program's environment",
        [No, Yes, Yes, Yes],
    ),
    row(
        "kill-worker",
        "kills the worker or a program of the owner's",
        [No, Yes, Yes, Yes],
    ),
    row(
        "limit-others",
        "limits what another program may use, so that it ends",
        [No, Yes, Yes, Yes],
    ),
    row(
        "slow-others",
        "changes another program's priority or processors",
        [No, Yes, Yes, Yes],
    ),
    row(
        "read-shared-memory",
        "reads another program's shared memory (System V)",
        [No, Yes, Yes, Yes],
    ),
    row(
        "leave-memory",
        "leaves shared memory, queues or semaphores behind",
        [No, Yes, Contained, Contained],
    ),
    row(
        "change-modes",
        "changes modes, times or attributes of the owner's files",
        [No, AsRoot, Yes, Yes],
    ),
    row(
        "watch-files",
        "is told when the owner's files change",
        [No, Yes, Yes, Yes],
    ),
    row(
        "stat-files",
        "learns sizes and times of the owner's files",
        [No, No, Yes, Yes],
    ),
    row(
        "read-command-line",
        "reads another program's command line",
        [No, No, Yes, Yes],
    ),
    row(
        "set-kernel",
        "changes settings of the kernel (as root)",
        [No, Yes, Yes, Yes],
    ),
    row(
        "call-kernel",
        "asks the kernel for what no computation needs",
        [No, Yes, Yes, Yes],
    ),
    row(
        "leave-group",
        "leaves its control group (as root)",
        [No, Yes, Yes, Yes],
    ),
    row(
        "fork-bomb",
        "starts more and more processes",
        [Yes, Yes, Yes, Yes],
    ),
    row(
        "hog-memory",
        "takes more and more memory",
        [Contained, Contained, Contained, Contained],
    ),
    row(
        "ignore-term",
        "does not end when asked to",
        [Contained, Contained, Contained, Contained],
    ),
    row(
        "flood-output",
        "writes without end to its standard output",
        [Contained, Contained, Contained, Contained],
    ),
    row(
        "sparse-file",
        "leaves a file of a terabyte as an output",
        [Contained, Contained, Contained, Contained],
    ),
    row(
        "fill-disk",
        "fills the disk",
        [Contained, Contained, Contained, Contained],
    ),
    row(
        "unlinked-files",
        "fills the disk with files that it has removed",
        [Contained, Contained, Contained, Contained],
    ),
    row(
        "locked-files",
        "fills the disk below a directory that it has locked",
        [Contained, Contained, Contained, Contained],
    ),
    row(
        "many-files",
        "makes a million files",
        [Contained, Contained, Contained, Contained],
    ),
    row(
        "output-symlink",
        "gives a link to the owner's file as its output",
        [Contained, Contained, Contained, Contained],
    ),
    row(
        "output-hard-link",
        "gives a hard link to the owner's file as its output",
        [Contained, Yes, Yes, Yes],
    ),
    row(
        "output-pipe",
        "gives a named pipe as its output",
        [Contained, Contained, Contained, Contained],
    ),
    row(
        "swap-output",
        "exchanges its output while it is collected",
        [Contained, Contained, Contained, Contained],
    ),
];

impl Stop {
    fn word(self) -> &'static str {
        match self {
            No => "no",
            AsRoot => "as root only",
            Yes => "yes",
            Contained => "contained",
        }
    }
}

/// The table as the documentation shows it.
pub(crate) fn text() -> String {
    let levels = Confinement::ALL.map(|level| format!("`{level}`"));
    let mut lines = vec![
        format!("| a task that … | {} |", levels.join(" | ")),
        "|---|---|---|---|---|".to_owned(),
    ];
    lines.extend(TABLE.iter().map(|row| {
        format!(
            "| {} | {} |",
            row.what,
            row.stops.map(Stop::word).join(" | ")
        )
    }));

    lines.join("\n") + "\n"
}
