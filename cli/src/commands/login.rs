//! Executes `deskgrid login`, and gives any machine its identity.

use std::io::{BufRead, IsTerminal};
use std::path::Path;

use common::token::{JoinToken, Role};
use common::wire::enrol::WantedRole;
use link::error::ONLY_A_RENEWAL;
use link::{Client, Identity, JoiningKey, LinkError};
use serde::Serialize;

use super::Context;
use crate::args::EnrolArgs;
use crate::args::value::JoinWord;
use crate::failure::{Exit, Failure};
use crate::output::note;

#[derive(Serialize)]
struct LoggedIn<'a> {
    master: &'a str,
    name: &'a str,
    role: String,
    new: bool,
    /// Whether an admin has to approve it before the master lets it in.
    awaits_approval: bool,
}

/// Gives this machine the identity of a user, in `StateDir::client`.
pub(super) async fn run(context: &Context, args: EnrolArgs) -> Result<Exit, Failure> {
    let (identity, new) = identity(&context.state.client(), context, &args, Newcomer::User).await?;
    let awaits_approval = new && awaits_approval(&identity).await;
    let link = &identity.link;
    let document = LoggedIn {
        master: &link.master,
        name: &link.name,
        role: link.role.to_string(),
        new,
        awaits_approval,
    };

    let text = || {
        let approval = if awaits_approval {
            format!(
                "an admin has to approve you first: deskgrid identity approve {}\n",
                link.name
            )
        } else {
            String::new()
        };
        format!(
            "you are {} ({}) of the grid at {}\n{approval}",
            link.name, link.role, link.master
        )
    };
    context.show(&document, text, || vec![link.name.clone()])
}

/// Whether the master lets the identity in only once an admin has approved it.
async fn awaits_approval(identity: &Identity) -> bool {
    match Client::connect(identity).await {
        Ok(client) => {
            client.close().await;
            false
        }
        Err(error) => Failure::from(error).code == "not-approved",
    }
}

/// The kind of identity that joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Newcomer {
    /// A person's machine, with the role `client` or `admin`.
    User,
    /// The worker of a host.
    Worker,
    /// A gateway.
    Gateway,
}

impl Newcomer {
    /// Returns the kind of role that it needs.
    fn wanted(self) -> WantedRole {
        match self {
            Newcomer::User => WantedRole::User,
            Newcomer::Worker => WantedRole::Worker,
            Newcomer::Gateway => WantedRole::Gateway,
        }
    }
}

/// Returns the identity in `dir`, or joins as a new one where there is none (or it is to be
/// replaced); and whether it is new.
///
/// # Errors
/// If there is no identity and no token, or the master does not accept the token.
pub(super) async fn identity(
    dir: &Path,
    context: &Context,
    args: &EnrolArgs,
    who: Newcomer,
) -> Result<(Identity, bool), Failure> {
    if Identity::found(dir)? && !args.rejoin {
        if args.join.is_some() || args.join_file.is_some() {
            note(
                "note: this machine has joined before; the token is not used (--rejoin joins again)",
            );
        }
        let identity = Identity::load(dir)?;
        check_role(dir, identity.link.role, who)?;
        return match &args.master {
            Some(master) if *master != identity.link.master => {
                Ok((moved(dir, identity, master, who).await?, false))
            }
            _ => Ok((identity, false)),
        };
    }

    let Some(master) = &args.master else {
        return Err(nobody(dir, who));
    };
    let token = token(args, context.join.as_ref())?;
    let name = args.name.clone().unwrap_or_else(|| own_name(who));
    let key = JoiningKey::kept_in(dir)?;
    let identity = link::enrol_as(master, &token, &key, &name, who.wanted()).await?;
    link::renewal::settle(&identity, dir).await?;
    if let Some(words) = other_name(&name, &identity.link.name) {
        note(&format!("note: {words}"));
    }

    Ok((identity, true))
}

/// Says why the master has given a newcomer another name than the one that was `wished`, if it has.
pub(super) fn other_name(wished: &str, given: &str) -> Option<String> {
    (wished != given).then(|| {
        format!(
            "the name {wished} belongs to another PC or user of this grid, or did (there is one list of both, and no name is given \
             twice): this one is {given}"
        )
    })
}

/// Moves the identity to another address of its grid. The server at the new address must be that
/// grid. A worker or a gateway may start before its master: where nothing answers, it takes the new
/// address all the same, since it works for no other grid.
async fn moved(
    dir: &Path,
    mut identity: Identity,
    master: &str,
    who: Newcomer,
) -> Result<Identity, Failure> {
    let before = std::mem::replace(&mut identity.link.master, master.to_owned());
    match prove_grid(&identity, who).await {
        Ok(()) => {}
        Err(LinkError::Unreachable { .. } | LinkError::Closed(_)) if who != Newcomer::User => {
            note(&format!(
                "note: nothing answers at {master} yet; it takes the place of {before} all the same"
            ));
        }
        Err(error) => return Err(not_moved(error, &before, master, who)),
    }

    // A worker that runs may have renewed the certificate meanwhile.
    let mut identity = Identity::load(dir)?;
    master.clone_into(&mut identity.link.master);
    identity.save(dir)?;
    Ok(identity)
}

/// Connects to the master of the identity, which proves that it is the identity's grid.
async fn prove_grid(identity: &Identity, who: Newcomer) -> Result<(), LinkError> {
    let purpose = match who {
        Newcomer::User => match crate::session::connect(identity).await {
            Ok(client) => {
                client.close().await;
                return Ok(());
            }
            // It is the grid: the next command renews the certificate.
            Err(LinkError::NotAccepted(why)) if why == ONLY_A_RENEWAL => return Ok(()),
            Err(error) => return Err(error),
        },
        Newcomer::Worker => link::Purpose::Worker,
        Newcomer::Gateway => link::Purpose::Gateway,
    };

    // Only the certificates are shown: with more it would replace a running worker.
    match link::connect(identity, purpose).await {
        Ok(connection) => {
            connection.close("only looking").await;
            Ok(())
        }
        Err(LinkError::StandsBy { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn not_moved(error: LinkError, before: &str, master: &str, who: Newcomer) -> Failure {
    let hint = match error {
        LinkError::Unreachable { .. } => format!(
            "check the address; this machine stays logged in at {before}, and `deskgrid login` without --master changes nothing"
        ),
        LinkError::WrongMaster { .. } if who == Newcomer::User => format!(
            "this machine stays logged in at {before}; to join the grid at {master} instead, with a token from its admin: \
             deskgrid login --rejoin --master {master}"
        ),
        LinkError::WrongMaster { .. } => format!(
            "check the address: this PC still belongs to the grid at {before}; to join the grid at {master} instead, with a \
             token from its admin, add --rejoin --join @FILE"
        ),
        error => return error.into(),
    };
    Failure {
        hint,
        ..error.into()
    }
}

/// Refuses an identity for another role, which waiting would not change.
pub(super) fn check_role(dir: &Path, role: Role, who: Newcomer) -> Result<(), Failure> {
    if who.wanted().takes(role) {
        return Ok(());
    }

    let (joins, of) = match who {
        Newcomer::User => ("log in", "client"),
        Newcomer::Worker => ("join", "worker"),
        Newcomer::Gateway => ("join", "gateway"),
    };
    let what = format!("the identity in {} is for a {role}", dir.display());
    let hint = format!("{joins} with a token for a {of}: deskgrid token create --role {of}");
    Err(Failure::new(Exit::NotAuthorised, "wrong-role", what, hint))
}

fn nobody(dir: &Path, who: Newcomer) -> Failure {
    let hint = match who {
        Newcomer::User => {
            "deskgrid login --master HOST:PORT --join @FILE, with a token from the admin"
        }
        Newcomer::Worker => {
            "deskgrid worker start --master HOST:PORT --join @FILE, with a token from the admin"
        }
        Newcomer::Gateway => {
            "deskgrid gateway start --master HOST:PORT --join @FILE, with a token from the admin (deskgrid token create --role gateway)"
        }
    };

    Failure::new(
        Exit::NotAuthorised,
        "no-identity",
        format!("there is no identity in {}", dir.display()),
        hint,
    )
}

/// Gives whoever was refused the command with which it joins as `role` by `start`: again, where `dir` has an identity.
pub(super) fn with_start(failure: Failure, role: Role, start: &str, dir: &Path) -> Failure {
    if failure.code != "not-authorised" {
        return failure;
    }
    let rejoin = match Identity::found(dir) {
        Ok(false) => "",
        _ => "--rejoin ",
    };
    let hint = format!(
        "ask the admin for a new token (deskgrid token create --role {role}), then: deskgrid {start} {rejoin}--master HOST:PORT --join @FILE"
    );
    Failure { hint, ..failure }
}

/// The advice where a token has a typing error.
pub(super) const COPY_WHOLE: &str =
    "copy it whole; or give the file that has it as @FILE; or ask for a new one";

/// Reads the token from the place where it was given; asks for it on a terminal if it was not.
///
/// # Errors
/// If there is nobody to ask, or what was given is not a token.
fn token(args: &EnrolArgs, environment: Option<&JoinWord>) -> Result<JoinToken, Failure> {
    // A variable of a script may be empty: that is no token, and not a wrong one.
    let given = args.join.as_ref().filter(|word| !word.0.is_empty());
    let word = given.or(environment);
    let text = match (&args.join_file, word) {
        (Some(file), _) => in_file(file)?,
        (None, Some(JoinWord(word))) if word == "-" => line_of_input()?,
        (None, Some(JoinWord(word))) => match word.strip_prefix('@') {
            Some(file) => in_file(Path::new(file))?,
            None => word.clone(),
        },
        (None, None) if std::io::stdin().is_terminal() => asked()?,
        (None, None) => return Err(no_token()),
    };

    // The text is not repeated: a token with a typing error is nearly a token.
    let wrong = |error: common::token::BadToken| Failure::usage(error.to_string(), COPY_WHOLE);
    text.parse().map_err(wrong)
}

/// Returns the first line of the file: what `token create` printed has more, on how to use it.
fn in_file(file: &Path) -> Result<String, Failure> {
    let text = crate::files::read_text(file).map_err(|e| {
        Failure::unreadable(format!("cannot read the token in {}", file.display()), &e)
    })?;
    if let Some(warning) = link::files::exposed(file, "the join token") {
        note(&format!("note: {warning}"));
    }
    let first = text.trim_start().lines().next();
    Ok(first.unwrap_or_default().to_owned())
}

fn no_token() -> Failure {
    Failure::new(
        Exit::NotAuthorised,
        "no-token",
        "no join token was given",
        "--join-file FILE, --join - (standard input) or DESKGRID_JOIN, with a token from the admin",
    )
    .because("standard input is no terminal to ask at")
}

fn line_of_input() -> Result<String, Failure> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|e| Failure::io("cannot read the token", &e))?;
    Ok(line)
}

/// The words that ask for a token.
const QUESTION: &str = "join token (from `deskgrid token create`; it is not shown): ";

/// Asks at the terminal, which does not show the answer.
#[cfg(not(unix))]
fn asked() -> Result<String, Failure> {
    eprint!("{QUESTION}");
    let line = line_of_input();
    eprintln!();
    line
}

/// Asks at the terminal, which does not show the answer. Ctrl-C ends the program once the terminal is as it was.
#[cfg(unix)]
fn asked() -> Result<String, Failure> {
    use rustix::process::{Signal, getpid, kill_process};

    // Silent first: it discards typed text, and what follows the question is the answer.
    let silent = Silent::new();
    eprint!("{QUESTION}");
    let line = typed(&mut std::io::stdin().lock(), silent.interrupt());
    eprintln!();
    drop(silent);

    let line = line.map_err(|e| Failure::io("cannot read the token", &e))?;
    line.ok_or_else(|| {
        // What a shell is to see, which ends a script that called this.
        let _ = kill_process(getpid(), Signal::INT);
        let hint = "run the same command again";
        Failure::error("interrupted", "interrupted: nothing has joined", hint)
    })
}

/// Reads a line; `None` if it ends with the character that interrupts.
#[cfg(unix)]
fn typed(from: &mut impl BufRead, interrupt: Option<u8>) -> std::io::Result<Option<String>> {
    let mut line = Vec::new();
    loop {
        let some = match from.fill_buf() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            some => some?,
        };
        let is_last = |byte: &u8| *byte == b'\n' || Some(*byte) == interrupt;
        let Some(at) = some.iter().position(is_last) else {
            let read = some.len();
            line.extend_from_slice(some);
            from.consume(read);
            match read {
                0 => break,
                _ => continue,
            }
        };

        let last = some[at];
        line.extend_from_slice(&some[..at]);
        from.consume(at + 1);
        if last != b'\n' {
            return Ok(None);
        }
        break;
    }

    let not_text = |_| std::io::Error::new(std::io::ErrorKind::InvalidData, "it is not UTF-8");
    String::from_utf8(line).map(Some).map_err(not_text)
}

/// A terminal that does not show typed text until this is dropped. Nothing that is typed ends the program meanwhile, which
/// would leave it so: the character that does (Ctrl-C) ends a line.
#[cfg(unix)]
struct Silent(Option<rustix::termios::Termios>);

#[cfg(unix)]
impl Silent {
    fn new() -> Self {
        use rustix::termios::{
            LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr,
        };

        let before = tcgetattr(std::io::stdin()).ok();
        if let Some(mut silent) = before.clone() {
            silent
                .local_modes
                .remove(LocalModes::ECHO | LocalModes::ISIG);
            let interrupt = silent.special_codes[SpecialCodeIndex::VINTR];
            silent.special_codes[SpecialCodeIndex::VEOL] = interrupt;
            // On a terminal that cannot hide its echo, only somebody at the same screen sees the
            // token.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &silent);
        }
        Self(before)
    }

    /// Returns the character that interrupts, if the terminal has one.
    fn interrupt(&self) -> Option<u8> {
        let before = self.0.as_ref()?;
        let code = before.special_codes[rustix::termios::SpecialCodeIndex::VINTR];
        // These say that there is none: on Linux, and elsewhere.
        (code != 0 && code != 0xff).then_some(code)
    }
}

#[cfg(unix)]
impl Drop for Silent {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = rustix::termios::tcsetattr(
                std::io::stdin(),
                rustix::termios::OptionalActions::Now,
                before,
            );
        }
    }
}

/// Returns the name to join under where none is given.
pub(super) fn own_name(who: Newcomer) -> String {
    let host = || {
        hostname::get().map_or_else(
            |_| "unnamed".to_owned(),
            |name| name.to_string_lossy().into_owned(),
        )
    };

    let user = ["USER", "LOGNAME", "USERNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok());
    match who {
        Newcomer::Worker | Newcomer::Gateway => host(),
        Newcomer::User => user.filter(|user| !user.is_empty()).unwrap_or_else(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_typed_line_ends_where_it_is_interrupted() {
        let read = |bytes: &[u8]| {
            // A piece at a time, as a terminal gives them.
            let mut from = std::io::BufReader::with_capacity(2, bytes);
            typed(&mut from, Some(3)).unwrap()
        };
        assert_eq!(read(b"dg1.x\nmore"), Some("dg1.x".to_owned()));
        assert_eq!(read(b"dg1.x"), Some("dg1.x".to_owned()));
        assert_eq!(read(b""), Some(String::new()));
        assert_eq!(read(b"dg1\x03.x\n"), None);
        assert_eq!(read(b"\x03"), None);
    }

    #[test]
    fn a_token_in_a_file_from_windows_is_the_text_of_its_first_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        for content in ["dg1.x", "\u{feff}dg1.x\r\nhow to use it\r\n", "\n dg1.x\n"] {
            std::fs::write(&file, content).unwrap();
            assert_eq!(in_file(&file).unwrap(), "dg1.x", "{content:?}");
        }
    }
}
