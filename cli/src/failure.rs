//! The failure of a command: an exit code, what happened, its cause, and what to do about it.
//!
//! Every crate has error enums of its own; here each is turned into the shape that people and
//! scripts see.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use common::RequestId;
use common::text::printable_lines;
use common::wire::{Refusal, RefusalCode};
use link::LinkError;
use serde_json::{Value, json};

/// The exit codes of `deskgrid`; part of its contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// All is well.
    Well = 0,
    /// deskgrid's own error.
    Error = 1,
    /// A command line, a file or a value makes no sense.
    Usage = 2,
    /// Some tasks failed or were cancelled.
    TasksFailed = 3,
    /// The wait timed out.
    TimedOut = 4,
    /// The job was not admitted.
    Refused = 5,
    /// This identity may not do that, or there is none.
    NotAuthorised = 6,
    /// The master is unreachable.
    Unreachable = 7,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// The code of [`Failure::unread`].
const UNREAD: &str = "unread";

/// The advice where a request is too long: only lists of numbers or names make it so.
pub(crate) const NAME_FEWER: &str = "name fewer at once: a range such as 1-1000 takes as little as one number, and 25,000 separate \
                                     ones fit";

/// The failure of a command, in the words shown to users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code of the program.
    pub exit: Exit,
    /// A word for scripts.
    pub code: &'static str,
    /// The event, in one sentence.
    pub what: String,
    /// The cause, if one is known.
    pub because: Option<String>,
    /// The advice for the user; may be empty.
    pub hint: String,
}

impl Failure {
    /// Creates a failure without a cause of its own.
    pub fn new(
        exit: Exit,
        code: &'static str,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            exit,
            code,
            what: what.into(),
            because: None,
            hint: hint.into(),
        }
    }

    /// Creates a failure of deskgrid's own, [`Exit::Error`], without a cause.
    pub fn error(code: &'static str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Exit::Error, code, what, hint)
    }

    /// Creates a failure about input that makes no sense.
    pub fn usage(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", what, hint)
    }

    /// Creates a failure of a file or another resource of the system.
    pub fn io(what: impl Into<String>, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let hint = match error.kind() {
            ErrorKind::PermissionDenied => {
                "check who may read and write there, or choose another place"
            }
            ErrorKind::StorageFull => "make room on the disk",
            ErrorKind::NotFound => {
                "check the name; relative names start from the directory where you run deskgrid"
            }
            ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
                "a file is in the way: move it, or choose another place"
            }
            ErrorKind::IsADirectory => "name a file: this is a directory",
            ErrorKind::ReadOnlyFilesystem => "choose a place that can be written",
            ErrorKind::AddrInUse => {
                "stop the program that listens there, perhaps another master, or choose another port \
                 (of a master: --listen or --http)"
            }
            ErrorKind::AddrNotAvailable => "name an address of this machine, or 0.0.0.0 for all",
            _ => "",
        };

        Self::error("io", what, hint).because(error)
    }

    /// Creates the failure of what cannot be done to a file or directory.
    pub(crate) fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Self {
        Self::io(format!("cannot {what} {}", path.display()), error)
    }

    /// Creates a failure of a file that the user named and that cannot be read.
    pub fn unreadable(what: impl Into<String>, error: &std::io::Error) -> Self {
        Self {
            exit: Exit::Usage,
            code: "usage",
            ..Self::io(what, error)
        }
    }

    /// Creates the failure of a command that the master's program, which is older, does not know.
    #[cfg(any(feature = "whole", test))]
    pub(crate) fn too_old(what: impl Into<String>) -> Self {
        Self::error("too-old", what, "upgrade the master's deskgrid")
    }

    /// Creates the end of a command that prints on and on, and whose reader has seen enough (`deskgrid events | head`): all is
    /// well, and nobody is left to tell.
    pub(crate) fn unread() -> Self {
        Self::new(Exit::Well, UNREAD, "nobody reads the output any more", "")
    }

    /// Whether this is a [`Failure::unread`].
    pub(crate) fn is_unread(&self) -> bool {
        self.code == UNREAD
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(mut self, cause: impl std::fmt::Display) -> Self {
        self.because = Some(cause.to_string());
        self
    }

    /// Adds the causes that an error names as its sources.
    pub fn caused(self, error: &dyn std::error::Error) -> Self {
        let causes: Vec<String> = std::iter::successors(error.source(), |e| e.source())
            .map(ToString::to_string)
            .collect();
        match &causes[..] {
            [] => self,
            causes => self.because(causes.join(": ")),
        }
    }

    /// Whether a later try, with nothing else changed, may succeed.
    pub fn passing(&self) -> bool {
        matches!(self.code, "unreachable" | "unavailable" | "damaged")
    }

    /// Whether the master is away, or the connection to it: over another one the same may succeed.
    pub(crate) fn is_away(&self) -> bool {
        matches!(self.code, "unreachable" | "unavailable")
    }

    /// Adds how to ask again under the same id where the master may have done it and the answer was
    /// lost, or it could not be taken for now.
    pub(crate) fn of_request(mut self, id: RequestId, then: &str) -> Self {
        let again = format!("run the same command with --request-id {id}: {then}");
        match self.code {
            "unreachable" | "unanswered" => self.hint = again,
            "unavailable" => self.hint = format!("{}; {again}", self.hint),
            _ => {}
        }
        self
    }

    /// The text for people. Names and reasons in it may be of others: nothing of it acts on a terminal.
    pub fn text(&self) -> String {
        let mut out = format!("error: {}\n", self.what);
        if let Some(because) = &self.because {
            let _ = writeln!(out, "because: {because}");
        }
        if !self.hint.is_empty() {
            let _ = writeln!(out, "try: {}", self.hint);
        }
        printable_lines(&out)
    }

    /// The event with its cause, in one line.
    pub(crate) fn line(&self) -> String {
        match &self.because {
            Some(because) => format!("{}: {because}", self.what),
            None => self.what.clone(),
        }
    }

    /// The JSON value for scripts.
    pub fn json(&self) -> Value {
        let message = self.line();
        json!({ "schema": 1, "error": { "code": self.code, "message": message, "hint": self.hint } })
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let (exit, code, hint) = match refusal.code {
            RefusalCode::Version => (
                Exit::Error,
                "version",
                "upgrade the older of the two programs",
            ),
            RefusalCode::NotAuthorised => (
                Exit::NotAuthorised,
                "not-authorised",
                "ask the admin for a token of the right role: deskgrid login",
            ),
            RefusalCode::NotFound => (
                Exit::Error,
                "not-found",
                "deskgrid job list --all shows what there is",
            ),
            RefusalCode::Invalid => (Exit::Usage, "invalid", ""),
            RefusalCode::Conflict => (Exit::Error, "conflict", ""),
            RefusalCode::Unavailable => (Exit::Error, "unavailable", "try again later"),
            RefusalCode::NotAdmitted => (Exit::Refused, "not-admitted", ""),
        };

        let hint = if refusal.hint.is_empty() {
            hint.to_owned()
        } else {
            refusal.hint
        };
        Failure::new(exit, code, refusal.message, hint)
    }
}

impl From<LinkError> for Failure {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Unreachable { master, why } => {
                let hint =
                    "is it running, and is its UDP port open? start it with: deskgrid master start";
                let what = format!("the master at {master} does not answer");
                Failure::new(Exit::Unreachable, "unreachable", what, hint).because(why)
            }
            LinkError::Closed(why) if why.contains("waits for an admin") => {
                let hint = "ask an admin for: deskgrid identity approve NAME";
                let what = "the master does not let this identity in yet";
                Failure::new(Exit::NotAuthorised, "not-approved", what, hint).because(why)
            }
            LinkError::Closed(why) => {
                let what = "the connection to the master ended";
                let hint = "try again; the master's log says more";
                Failure::new(Exit::Unreachable, "unreachable", what, hint).because(why)
            }
            LinkError::StandsBy { master, active } => {
                let hint = match active {
                    Some(active) => format!(
                        "try again in some seconds, if another master is taking over now. The active one was last seen at {active}; who names both \
                         finds it at once: deskgrid login --master {active},{master}"
                    ),
                    None => "try again in some seconds; deskgrid master status asks all masters"
                        .to_owned(),
                };
                let what = format!("the master at {master} stands by");
                Failure::new(Exit::Unreachable, "unavailable", what, hint)
            }
            LinkError::WrongMaster { master, why } => {
                let what = format!(
                    "what answers at {master} is not the master that this identity or token belongs to"
                );
                let hint = match why.contains(link::tls::GATEWAY_NAME) {
                    true => "that is a gateway, which passes workers on: name the master here",
                    false => {
                        "check the address; if the master was set up anew, join again with a new token"
                    }
                };
                Failure::new(Exit::NotAuthorised, "wrong-master", what, hint).because(why)
            }
            LinkError::NotAccepted(why) => {
                let hint = "ask the admin for a new token, then: deskgrid login --rejoin --master HOST:PORT";
                let what = "the master does not accept this identity";
                Failure::new(Exit::NotAuthorised, "not-authorised", what, hint).because(why)
            }
            LinkError::Refused(refusal) => refusal.into(),
            LinkError::File { what, path, source } => {
                Failure::io(format!("{what} {}", path.display()), &source)
            }
            LinkError::NoIdentity { dir } => {
                let what = format!("no identity in {}", dir.display());
                let hint =
                    "deskgrid login --master HOST:PORT (or --dir with the master's own directory)";
                Failure::new(Exit::NotAuthorised, "no-identity", what, hint)
            }
            LinkError::HiddenIdentity { dir, source } => {
                let what = format!("this account may not look into {}", dir.display());
                let hint = "run it as the account to which that belongs (or as root), or name another state directory with --dir";
                Failure::new(Exit::NotAuthorised, "no-permission", what, hint).because(source)
            }
            LinkError::BadIdentity(_) => {
                Failure::new(Exit::NotAuthorised, "bad-identity", error.to_string(), "")
            }
            LinkError::Protocol(_) | LinkError::Unread => {
                let hint = "do both ends run the same version? compare deskgrid --version";
                Failure::error("protocol", error.to_string(), hint)
            }
            LinkError::TooLong => Failure::usage(error.to_string(), NAME_FEWER),
            LinkError::Damaged { .. } => {
                let hint = "try again; a result that stays damaged can be computed again: deskgrid job retry JOB --damaged";
                Failure::error("damaged", error.to_string(), hint)
            }
        }
    }
}

#[cfg(all(not(windows), feature = "whole"))]
impl From<master::MasterError> for Failure {
    fn from(error: master::MasterError) -> Self {
        use master::{MasterError, PgError, StoreError};
        let hint = match error {
            MasterError::Link(error) => return error.into(),
            MasterError::Config(_) => {
                return Failure::usage(
                    error.to_string(),
                    "deskgrid master config prints every setting with its meaning and default",
                );
            }
            MasterError::Unreadable { ref source, .. } => {
                use std::io::ErrorKind;
                // The code tells a service not to try again with the same words: a disk or a mount may answer later.
                let wrong = matches!(
                    source.kind(),
                    ErrorKind::NotFound
                        | ErrorKind::PermissionDenied
                        | ErrorKind::IsADirectory
                        | ErrorKind::NotADirectory
                        | ErrorKind::InvalidData
                );
                let failure = Failure::io(error.to_string(), source);
                let exit = if wrong { Exit::Usage } else { failure.exit };
                return Failure { exit, ..failure };
            }
            MasterError::Certificate { .. } => {
                "name a certificate and its key as PEM in the settings; where they are being renewed, start the master again"
            }
            MasterError::Place { hint, .. } => {
                return Failure::usage(error.to_string(), hint);
            }
            MasterError::Store(StoreError::Postgres(PgError::Address(_))) => {
                return Failure::usage(
                    error.to_string(),
                    "correct it in --store, or in `store` of the settings; without either the store is a file in the master's directory",
                );
            }
            MasterError::Lost(ref lost) => lost.hint(),
            MasterError::Content { fault, .. } => fault.hint(),
            MasterError::Bucket(ref bucket) => bucket.fault.hint(),
            MasterError::Store(StoreError::Full { .. }) => {
                "make room on that disk, then start the master again"
            }
            MasterError::Store(StoreError::Newer { .. }) => {
                "install the deskgrid that wrote it, or a newer one: deskgrid --version says which this one is"
            }
            MasterError::Store(StoreError::Postgres(PgError::WentBack(_))) => {
                "bring the newer state of the database back, then start the master again; or, to go on without what is missing, as on a \
                 backup: deskgrid master start --accept-store"
            }
            MasterError::Store(StoreError::Postgres(PgError::Unfit { .. })) => {
                "do what that says, then start the master again; nothing acknowledged is lost"
            }
            MasterError::Store(StoreError::Postgres(_)) => {
                "see to the database, or to its address (--store, or `store` in the settings); nothing acknowledged is lost"
            }
            MasterError::Clock { .. } => {
                "set the clock (on most systems: timedatectl set-ntp true). If it is right now and was wrong then: \
                 deskgrid master start --accept-clock"
            }
            MasterError::Running { .. } => {
                "stop the other one and wait until its process has ended, or give this one another --dir"
            }
            _ => "the log above says more",
        };

        Failure::error("master", error.to_string(), hint).caused(&error)
    }
}

#[cfg(feature = "whole")]
impl From<gateway::GatewayError> for Failure {
    fn from(error: gateway::GatewayError) -> Self {
        match error {
            gateway::GatewayError::Link(error) => error.into(),
            gateway::GatewayError::InUse(_) => Failure::error("gateway", error.to_string(), ""),
        }
    }
}

#[cfg(feature = "whole")]
impl From<bridge::BridgeError> for Failure {
    fn from(error: bridge::BridgeError) -> Self {
        use bridge::BridgeError;
        let hint = match error {
            BridgeError::Link(error) => return error.into(),
            BridgeError::Worker(error) => return error.into(),
            BridgeError::InUse(_) => "",
            BridgeError::SameGrid => {
                "join the one grid with --join @FILE --rejoin, or name a user of the other one with --user-dir"
            }
            BridgeError::Journal { .. } => {
                "look at the directory and its disk, then start it again"
            }
        };
        Failure::error("bridge", error.to_string(), hint)
    }
}

impl From<worker::WorkerError> for Failure {
    fn from(error: worker::WorkerError) -> Self {
        use worker::WorkerError;
        let hint = match error {
            WorkerError::Content(error) => return error.into(),
            WorkerError::Config { .. } => {
                return Failure::usage(
                    error.to_string(),
                    "deskgrid worker config prints every setting with its meaning and default",
                )
                .caused(&error);
            }
            WorkerError::Unreadable { ref source, .. } => {
                return Failure::unreadable(error.to_string(), source);
            }
            WorkerError::File { ref source, .. } => return Failure::io(error.to_string(), source),
            WorkerError::InUse(_) | WorkerError::Unavailable { .. } => "",
            _ => "the log above says more",
        };

        Failure::error("worker", error.to_string(), hint).caused(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_the_contract() {
        let refused = |code| Failure::from(Refusal::new(code, "m", "")).exit as u8;
        assert_eq!(refused(RefusalCode::NotAuthorised), 6);
        assert_eq!(refused(RefusalCode::NotAdmitted), 5);
        assert_eq!(refused(RefusalCode::NotFound), 1);
        assert_eq!(refused(RefusalCode::Invalid), 2);
        // What is beyond a limit is taken another time: 5 is for deadlines alone.
        assert_eq!(refused(RefusalCode::Conflict), 1);
        assert_eq!(refused(RefusalCode::Unavailable), 1);
        assert_eq!(refused(RefusalCode::Version), 1);
        assert_eq!(Failure::too_old("this master is too old").exit as u8, 1);

        let unreachable = LinkError::Unreachable {
            master: "h:1".into(),
            why: "nobody".into(),
        };
        assert_eq!(Failure::from(unreachable).exit as u8, 7);

        let passing = |error: LinkError| error.passing() && Failure::from(error).passing();
        assert!(passing(LinkError::Closed("gone".into())));
        assert!(Failure::from(LinkError::Closed("gone".into())).is_away());
        // Over another connection it would be as damaged.
        let damaged = || LinkError::Damaged {
            expected: "a".into(),
            found: "b".into(),
        };
        assert!(passing(damaged()) && !Failure::from(damaged()).is_away());
        assert!(passing(LinkError::Refused(Refusal::new(
            RefusalCode::Unavailable,
            "m",
            ""
        ))));
        assert_eq!(
            Failure::from(LinkError::NoIdentity { dir: "x".into() }).exit as u8,
            6
        );
        assert_eq!(
            (
                Exit::Well as u8,
                Exit::Usage as u8,
                Exit::TasksFailed as u8,
                Exit::TimedOut as u8
            ),
            (0, 2, 3, 4)
        );
    }

    #[cfg(all(not(windows), feature = "whole"))]
    #[test]
    fn a_master_that_starts_again_by_itself_does_so_after_what_may_pass() {
        use std::io::ErrorKind;

        let unreadable = |kind: ErrorKind| master::MasterError::Unreadable {
            path: "m.toml".into(),
            source: kind.into(),
        };
        let renewed = master::MasterError::Certificate {
            path: "http.pem".into(),
            why: "no such file".to_owned(),
        };
        let exit = |error: master::MasterError| Failure::from(error).exit;
        assert_eq!(exit(unreadable(ErrorKind::NotFound)), Exit::Usage);
        assert_eq!(exit(unreadable(ErrorKind::TimedOut)), Exit::Error);
        assert_eq!(exit(renewed), Exit::Error);
    }

    #[test]
    fn failures_print_in_both_shapes() {
        let failure = Failure::usage("no such file", "look").because("it is gone");
        assert_eq!(
            failure.text(),
            "error: no such file\nbecause: it is gone\ntry: look\n"
        );
        let want = r#"{"error":{"code":"usage","hint":"look","message":"no such file: it is gone"},"schema":1}"#;
        assert_eq!(failure.json().to_string(), want);
        assert_eq!(Failure::usage("x", "").text(), "error: x\n");
    }

    #[test]
    fn what_others_chose_does_not_act_on_the_terminal_of_who_reads_a_failure() {
        let failure = Failure::usage("a\u{1b}[2Jb", "look:\n  here").because("it\u{7} is\rgone");
        assert_eq!(
            failure.text(),
            "error: a\u{fffd}[2Jb\nbecause: it\u{fffd} is\u{fffd}gone\ntry: look:\n  here\n"
        );
    }

    #[test]
    fn the_masters_own_hint_goes_before_ours() {
        assert_eq!(
            Failure::from(Refusal::new(RefusalCode::NotFound, "m", "its own")).hint,
            "its own"
        );
    }
}
