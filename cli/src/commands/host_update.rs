//! Executes `deskgrid host update`: signs a new program for workers on the admin's machine, sends it to the
//! master, and shows how it goes round. The key never leaves this machine.

use std::io::{Read, Write};
use std::path::Path;

use common::content::BlobRef;
use common::platform::PlatformName;
use common::text::printable;
use common::update::{
    MARK, MAX_PROGRAM, ProgramVersion, RolloutPace, RolloutView, UpdateKey, UpdateOrder,
    UpdateStatement, UpdatesView,
};
use common::wire::UPDATE_VERSION;
use common::wire::client::{Reply, Request};
use link::signing::UpdateSigner;
use serde::Serialize;

use super::Context;
use crate::args::serve::{HostUpdateCommand, UpdateStartArgs};
use crate::failure::{Exit, Failure};
use crate::output::table::Rows;
use crate::output::{note, when};
use crate::session::{Session, answer};

/// The longest version that is looked for behind the mark, in bytes.
const LONGEST_VERSION: usize = 32;

/// Executes one verb of `deskgrid host update`.
pub(super) async fn run(
    context: &Context,
    session: &Session,
    command: HostUpdateCommand,
) -> Result<Exit, Failure> {
    if session.client().version() < UPDATE_VERSION {
        let what = "this master is too old to roll programs out";
        return Err(Failure::too_old(what));
    }

    match command {
        HostUpdateCommand::Key { file } => key(context, session, &file).await,
        HostUpdateCommand::Start(args) => start(context, session, &args).await,
        HostUpdateCommand::Status => {
            let views = order(session, UpdateOrder::Show).await?;
            show(context, &views)
        }
        HostUpdateCommand::Stop { platform } => {
            let views = order(session, UpdateOrder::Stop(platform.unwrap_or_else(here))).await?;
            show(context, &views)
        }
    }
}

async fn order(session: &Session, order: UpdateOrder) -> Result<UpdatesView, Failure> {
    let request = Request::Update(Box::new(order));
    Ok(*answer!(session.one(&request).await?, Reply::Updates)?)
}

/// The platform of this machine.
fn here() -> PlatformName {
    let name = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    name.parse().expect("Rust's names are platforms' names")
}

#[derive(Serialize)]
struct KeyAnswer {
    file: String,
    update_key: UpdateKey,
    made: bool,
}

/// Makes the key if it is not there, and tells the master its public half.
async fn key(context: &Context, session: &Session, file: &Path) -> Result<Exit, Failure> {
    let made = !file.exists();
    if made {
        make_key(file)?;
    }
    let key = read_key(file)?.key();
    order(session, UpdateOrder::Trust(key)).await?;

    let answer = KeyAnswer {
        file: file.display().to_string(),
        update_key: key,
        made,
    };
    let text = || {
        let made = if made { "made" } else { "was there" };
        format!(
            "{} {made}: keep it away from the master, and keep a copy of it\n\
             hosts that join from now on learn the key; for those that have joined, in worker.toml:\n\n  update_key = \"{key}\"\n",
            answer.file
        )
    };
    context.show(&answer, text, || vec![key.to_string()])
}

fn make_key(file: &Path) -> Result<(), Failure> {
    let key = UpdateSigner::make().map_err(|bad| Failure::error("no-key", bad.to_string(), ""))?;
    let written = link::files::create_private(file).and_then(|mut new| {
        let written = new.write_all(&key).and_then(|()| new.sync_all());
        if written.is_err() {
            // A file that holds no key would be in the way of the next one.
            drop(new);
            let _ = std::fs::remove_file(file);
        }
        written
    });
    written.map_err(|error| Failure::cannot("write", file, &error))
}

fn read_key(file: &Path) -> Result<UpdateSigner, Failure> {
    let bytes = std::fs::read(file)
        .map_err(|error| Failure::unreadable(format!("cannot read {}", file.display()), &error))?;
    if let Some(warning) = link::files::exposed(file, "the key for updates") {
        note(&format!("warning: {warning}"));
    }
    UpdateSigner::read(&bytes).map_err(|bad| {
        let shown = file.display();
        let hint = match bytes.is_empty() {
            true => format!("remove that file, and make a key: deskgrid host update key {shown}"),
            false => {
                "name the file of a key, or make one in a new file: deskgrid host update key FILE"
                    .to_owned()
            }
        };
        Failure::usage(format!("{shown} cannot sign updates"), hint).because(bad.to_string())
    })
}

/// Signs a program, sends it, and has the master begin.
async fn start(
    context: &Context,
    session: &Session,
    args: &UpdateStartArgs,
) -> Result<Exit, Failure> {
    let signer = read_key(&args.key)?;
    let (version, blob) = look(&args.program)?;
    let statement = UpdateStatement {
        platform: args.platform.clone().unwrap_or_else(here),
        version,
        blob,
        downgrade: args.downgrade,
    };
    check_platform(&args.program, &statement.platform)?;
    let update = signer.sign(&statement);
    session.client().put_file(&args.program).await?;

    let pace = RolloutPace {
        settle: args.settle.0.into(),
        settle_tasks: args.settle_tasks,
        patience: args.patience.0.into(),
    };
    let dry_run = args.dry_run;
    let begin = UpdateOrder::Start {
        update,
        pace,
        dry_run,
    };
    let views = order(session, begin).await?;
    if dry_run {
        note(&format!(
            "nothing was begun: version {version} for {} is signed as the master and the hosts want it",
            statement.platform.as_str()
        ));
    }
    show(context, &views)
}

/// Reads the version that stands in a program, and its hash.
fn look(program: &Path) -> Result<(ProgramVersion, BlobRef), Failure> {
    let unread = |error: std::io::Error| {
        Failure::unreadable(format!("cannot read {}", program.display()), &error)
    };
    let size = std::fs::metadata(program).map_err(unread)?.len();
    if size > MAX_PROGRAM {
        let what = format!(
            "{} is too large for a program of a worker",
            program.display()
        );
        return Err(Failure::usage(what, "did you mean another file?"));
    }

    let bytes = std::fs::read(program).map_err(unread)?;
    let version = version_in(&bytes).ok_or_else(|| {
        let what = format!(
            "{} is no deskgrid of a version that can be rolled out",
            program.display()
        );
        Failure::usage(what, "give the program itself, not a package of it")
            .because("it has no version in it")
    })?;
    Ok((version, link::content::hash_bytes(&bytes)))
}

/// Finds the version behind the mark. The mark alone stands in a program as well.
fn version_in(bytes: &[u8]) -> Option<ProgramVersion> {
    memchr::memmem::find_iter(bytes, MARK).find_map(|at| {
        let behind = at + MARK.len();
        let end = (behind + LONGEST_VERSION).min(bytes.len());
        let text = String::from_utf8_lossy(&bytes[behind..end]);
        let (version, _) = text.split_once(';')?;
        version.parse().ok()
    })
}

/// Refuses a program of Linux's whose file says another processor than the platform.
fn check_platform(program: &Path, platform: &PlatformName) -> Result<(), Failure> {
    let mut head = [0; 20];
    let read = std::fs::File::open(program).and_then(|mut file| file.read_exact(&mut head));

    let arch = match (&head[..4], u16::from_le_bytes([head[18], head[19]])) {
        (b"\x7fELF", 62) => "x86_64",
        (b"\x7fELF", 183) => "aarch64",
        _ => return Ok(()),
    };
    if read.is_err() || (platform.os() == "linux" && platform.arch() == arch) {
        return Ok(());
    }
    let what = format!(
        "{} is for linux-{arch}, not for {}",
        program.display(),
        platform.as_str()
    );
    Err(Failure::usage(
        what,
        format!("say --platform linux-{arch}, or give another program"),
    ))
}

fn show(context: &Context, views: &UpdatesView) -> Result<Exit, Failure> {
    let platform = |view: &RolloutView| view.platform.as_str().to_owned();
    let platforms = || views.rollouts.iter().map(platform).collect();
    context.show(views, || shown(views, context.out.color()), platforms)
}

fn shown(views: &UpdatesView, color: bool) -> String {
    let mut text = match views.key {
        Some(key) => format!("joining hosts learn the key {key}\n"),
        None => "joining hosts learn no key: deskgrid host update key FILE\n".to_owned(),
    };
    if views.rollouts.is_empty() {
        return text + "no program is rolled out: deskgrid host update start --program F --key F\n";
    }

    let now = when::now();
    for view in &views.rollouts {
        let begun = when::relative(view.at, now);
        text += &format!(
            "\n{} version {}, begun by {} {begun}: {}, {} in a hundred hosts{}\n",
            view.platform.as_str(),
            view.version,
            printable(&view.by),
            view.state,
            view.percent,
            if view.untold == 0 {
                String::new()
            } else {
                format!(", {} not offered it yet", view.untold)
            }
        );
        if !view.why.is_empty() {
            text += &format!("{}\n", printable(&view.why));
        }
        let mut rows = Rows::new(&["HOST", "STATE", "SINCE", "WHY"], color);
        for host in &view.hosts {
            let since = when::relative(host.since, now);
            rows.add([
                host.host.clone(),
                host.state.clone(),
                since,
                host.why.clone(),
            ]);
        }
        text += &rows.text("no host was offered it\n");
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test's panic is its message")]

    use super::*;

    #[test]
    fn a_file_in_which_a_key_was_begun_is_to_be_removed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        std::fs::write(&file, "").unwrap();
        let told = read_key(&file).err().unwrap();
        assert!(told.hint.starts_with("remove that file"), "{told:?}");
        std::fs::write(&file, "something else").unwrap();
        let told = read_key(&file).err().unwrap();
        assert!(told.hint.contains("in a new file"), "{told:?}");

        // One that is there is never written over.
        assert_eq!(make_key(&file).unwrap_err().code, "io");
        assert_eq!(std::fs::read(&file).unwrap(), b"something else");
    }

    #[test]
    fn the_version_of_a_program_is_read_from_its_bytes() {
        let marked = |rest: &str| format!("..{MARK}no;..{MARK}{rest}..").into_bytes();
        assert_eq!(version_in(&marked("1.2.3;")), Some(ProgramVersion(1, 2, 3)));
        assert_eq!(version_in(&marked("1.2.3")), None);
        assert_eq!(version_in(b""), None);
    }
}
