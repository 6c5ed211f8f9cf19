//! Checks this machine: the program, the owner's sensors, confinement, and the disk.

use std::path::{Path, PathBuf};

use common::units::Bytes;
use worker::os::Abilities;
use worker::owner::sensors::{self, SensorSight};
use worker::owner::sight::Sight;

use super::Finding;
#[cfg(unix)]
use crate::args::serve::DoctorArgs;
use crate::state::StateDir;

/// The free space, in bytes, below which there is a note.
const ROOM_NOTE: u64 = 5 << 30;
/// The free space, in bytes, below which something is wrong.
const ROOM_WRONG: u64 = 512 << 20;

/// Names the program; of a machine that `is_new` to every grid, says how it joins one.
pub(super) fn program(state: &StateDir, is_new: bool) -> Vec<Finding> {
    let os = std::env::consts::OS;
    let arch = std::env::consts::ARCH;
    let mut findings = vec![Finding::ok(
        "program",
        format!(
            "deskgrid {}, {os} {arch}",
            common::update::program_version()
        ),
    )];

    if is_new {
        let what = format!(
            "no identity in {}: this machine has not joined a grid with it",
            state.root().display()
        );
        let todo = "name the right directory with --dir, or join: deskgrid worker start, or deskgrid login";
        findings.push(Finding::note("identity", what, todo));
    }

    findings
}

/// Says that sensors and confinement are tried by another account than that of the worker in the state
/// directory; nothing where there is no worker, or it is the same account.
#[cfg(unix)]
pub(super) fn account(state: &StateDir, args: &DoctorArgs) -> Option<Finding> {
    use std::os::unix::fs::MetadataExt;

    let owner = std::fs::metadata(state.worker()).ok()?.uid();
    let caller = rustix::process::geteuid().as_raw();
    (owner != caller).then(|| other_account(state.root(), args, owner, caller))
}

#[cfg(unix)]
fn other_account(dir: &Path, args: &DoctorArgs, owner: u32, caller: u32) -> Finding {
    let dir = dir.display();
    // Without them other sensors and another confinement would be tried.
    let config = args.config.as_deref();
    let config = config.map_or_else(String::new, |file| format!(" --config {}", file.display()));
    let dedicated = if args.dedicated { " --dedicated" } else { "" };
    let what = format!(
        "sensors and confinement are tried here by account {caller}, but the worker in {dir} runs as account {owner}, in a service that may see \
         and do less: for it they may be otherwise"
    );
    let todo = format!(
        "sudo -u '#{owner}' deskgrid --dir {dir} doctor{config}{dedicated} is closer; deskgrid --dir {dir} worker status --why says what the worker itself sees"
    );
    Finding::note("account", what, todo)
}

/// Checks every sensor that the owner's rules heed, with its present value.
pub(super) async fn sensors(config: &worker::Config) -> Vec<Finding> {
    let all = worker::owner::heeded(config);
    if all.is_empty() && !sensors::all(&config.sensors).is_empty() {
        let what = "none is needed: by the settings tasks run whether the owner is there or not";
        return vec![Finding::ok("sensors", what)];
    }
    let patience = config.sensors.patience();
    let views = tokio::task::spawn_blocking(move || sensors::look(all, patience))
        .await
        .unwrap_or_default();

    if views.is_empty() {
        return vec![Finding::wrong(
            "sensors",
            "no sensor looks for the owner here",
            "see [sensors] in the worker's settings",
        )];
    }

    views.iter().map(sensor).collect()
}

fn sensor(view: &SensorSight) -> Finding {
    let check = format!("sensor: {}", view.name);
    let what = sensors::words(&view.sight);
    match view.sight {
        Sight::Seen(_) | Sight::Absent(_) => Finding::ok(check, what),
        Sight::Unknown(_) => {
            // On Windows one switch is for both sensors of the users' sessions.
            let switch = match view.name {
                "input" | "full-screen" => "evdev",
                name => name,
            };
            let todo = format!(
                "tasks wait as long as this is so: let the worker look, or, if something else sees the same, set {switch} = \"off\" in [sensors]"
            );
            Finding::wrong(check, what, todo)
        }
    }
}

/// Checks whether a service here would learn of input in the users' sessions.
#[cfg(windows)]
pub(super) fn watcher() -> Option<Finding> {
    let starts = worker::owner::watcher::starts_beside_this_program()?;
    Some(if starts {
        Finding::ok(
            "watcher",
            "starts at each logon, and tells a service here of input",
        )
    } else {
        let what = "does not start at logon: a service here would take each user who is logged on for present";
        let todo = "if there is to be a service: deskgrid worker install enters it; docs/windows.md says more";
        Finding::note("watcher", what, todo)
    })
}

/// Checks how well tasks can be confined and frozen here, and why not better. The trial runs below
/// a directory that is removed again.
pub(super) async fn abilities(config: &worker::Config) -> Vec<Finding> {
    let found = match tried(config).await {
        Ok(found) => found,
        Err(why) => {
            return vec![Finding::wrong(
                "confinement",
                format!("cannot be tried: {why}"),
                "check that a directory can be made and programs start",
            )];
        }
    };

    let freezers = found
        .freezers
        .iter()
        .map(|way| ability("freezing", &way.what.to_string(), &way.missing, &way.gap));
    let levels = found.levels.iter().map(|level| {
        ability(
            "confinement",
            &level.what.to_string(),
            &level.missing,
            &level.gap,
        )
    });

    let groups = [
        ("memory", &found.no_memory_limit),
        ("processes", &found.no_process_limit),
        ("processor", &found.no_processor_group),
    ];
    let groups = groups.map(|(what, missing)| ability("control group", what, missing, &None));
    let chosen = match worker::in_force(&found, config) {
        Ok((level, account)) => Finding::ok(
            "confinement",
            format!("tasks are confined by {level} and run as {account}"),
        ),
        Err(error) => Finding::wrong(
            "confinement",
            error.to_string(),
            "docs/confinement.md says what each level needs",
        ),
    };

    [chosen]
        .into_iter()
        .chain(levels)
        .chain(freezers)
        .chain(groups)
        .collect()
}

/// Tries out what tasks can be confined and frozen by, or says why that cannot be tried.
async fn tried(config: &worker::Config) -> Result<Abilities, String> {
    let dir = tempfile::tempdir().map_err(|error| format!("no directory for it: {error}"))?;
    let program = std::env::current_exe()
        .map_err(|error| format!("this program cannot be found: {error}"))?;
    worker::os::abilities(program, dir.path(), &config.means())
        .await
        .map_err(|error| error.to_string())
}

/// Checks one level of confinement or one way to freeze. A missing one is worth a note, and wrong
/// only where the configuration asks for it.
fn ability(check: &str, what: &str, missing: &Option<String>, gap: &Option<String>) -> Finding {
    let check = format!("{check}: {what}");
    match (missing, gap) {
        (Some(why), _) => Finding::note(
            check,
            format!("not available: {why}"),
            "docs/confinement.md says what each level needs",
        ),
        (None, Some(gap)) => Finding::note(
            check,
            format!("available, but {gap}"),
            "docs/confinement.md says what each level stops",
        ),
        (None, None) => Finding::ok(check, "available"),
    }
}

/// Checks the store of a master in the state directory; nothing where there is none.
pub(super) fn store(state: &StateDir) -> Option<Finding> {
    let file = state.root().join("master").join("store.sqlite");
    let opened = match std::fs::File::open(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        opened => opened.and_then(|file| file.metadata()),
    };
    let check = "master: store";
    Some(match opened {
        Ok(meta) => Finding::ok(
            check,
            format!(
                "{} in {} can be read; deskgrid master check looks through them",
                Bytes(meta.len()),
                file.display()
            ),
        ),
        Err(error) => Finding::wrong(
            check,
            format!("{} cannot be read: {error}", file.display()),
            "run deskgrid doctor as the account of the master",
        ),
    })
}

/// Checks the disk and the clock that a master in the state directory needs; nothing where there is
/// none.
#[cfg(unix)]
pub(super) fn surroundings(state: &StateDir, config: &master::Config) -> Vec<Finding> {
    if !state.root().join("master").join("store.sqlite").exists() {
        return Vec::new();
    }

    let faults = master::operations::surroundings(state.root(), config);
    if faults.is_empty() {
        let what = "its disk has more room than it keeps for results, and the clock is not behind what its store has seen";
        return vec![Finding::ok("master: surroundings", what)];
    }
    faults
        .into_iter()
        .map(|fault| Finding::wrong("master: surroundings", fault.what, fault.hint))
        .collect()
}

/// Tries the bucket for the content of files out, where there is one: `named` on the command line, in
/// the settings, or that of the master in the state directory.
#[cfg(unix)]
pub(super) async fn bucket(
    state: &StateDir,
    config: &master::Config,
    named: Option<String>,
) -> Vec<Finding> {
    let mut config = config.clone();
    config.content = named.or(config.content);
    let dir = state.root().to_owned();

    // It waits for the storage on its own thread.
    let look = move || master::operations::bucket_fault(&dir, &config);
    let found = tokio::task::spawn_blocking(look).await.unwrap_or_default();
    found
        .into_iter()
        .map(|(place, fault)| match fault {
            None => Finding::ok(
                "content: bucket",
                format!("{place} can be listed, written, read and deleted from"),
            ),
            Some(fault) => Finding::wrong("content: bucket", fault.what, fault.hint),
        })
        .collect()
}

/// Checks the free space on the disk of the state directory.
pub(super) fn disk(state: &StateDir) -> Vec<Finding> {
    let there: Option<PathBuf> = state
        .root()
        .ancestors()
        .find(|dir| dir.is_dir())
        .map(Path::to_owned);
    let Some(dir) = there else { return Vec::new() };
    match link::files::free_bytes(&dir) {
        Ok(free) => vec![room(&dir, free)],
        Err(error) => {
            let what = format!("cannot tell how much room {} has: {error}", dir.display());
            vec![Finding::wrong(
                "disk",
                what,
                "check that the directory can be read",
            )]
        }
    }
}

fn room(dir: &Path, free: u64) -> Finding {
    let what = format!("{} free in {}", Bytes(free), dir.display());
    let todo = "make room; a worker's cache of inputs is bounded by cache_limit_bytes";
    match free {
        free if free < ROOM_WRONG => Finding::wrong("disk", what, todo),
        free if free < ROOM_NOTE => Finding::note("disk", what, todo),
        _ => Finding::ok("disk", what),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;
    use worker::owner::sight::{Reading, Topic};

    #[test]
    fn unreadable_sensors_are_faults_and_absent_ones_are_not() {
        let see = |sight| {
            sensor(&SensorSight {
                name: "evdev",
                topic: Topic::Input,
                sight,
            })
        };
        assert_eq!(
            see(Sight::Seen(Reading::Idle(common::Span::from_secs(3)))).severity,
            Severity::Ok
        );
        assert_eq!(
            see(Sight::Absent("no device".to_owned())).severity,
            Severity::Ok
        );

        let unknown = see(Sight::Unknown("cannot open it".to_owned()));
        assert!(
            unknown.severity == Severity::Wrong
                && unknown
                    .todo
                    .is_some_and(|todo| todo.contains("evdev = \"off\""))
        );
    }

    #[test]
    fn a_means_of_the_system_is_available_or_not() {
        let says = |missing: Option<&str>, gap: Option<&str>| {
            let [missing, gap] = [missing, gap].map(|why| why.map(str::to_owned));
            ability("freezing", "signals", &missing, &gap).what
        };
        assert_eq!(says(None, None), "available");
        assert_eq!(says(Some("no cgroup"), None), "not available: no cgroup");
        assert_eq!(says(None, Some("by name")), "available, but by name");
    }

    #[cfg(unix)]
    #[test]
    fn what_another_account_than_the_workers_tries_is_noted() {
        let plain = DoctorArgs::default();
        let noted = |args: &DoctorArgs| other_account(Path::new("/var/lib/deskgrid"), args, 998, 0);
        let note = noted(&plain);
        assert_eq!(note.severity, Severity::Note);
        assert!(note.what.contains("by account 0"), "{}", note.what);
        let todo = note.todo.unwrap();
        let cure = "sudo -u '#998' deskgrid --dir /var/lib/deskgrid doctor";
        assert!(todo.starts_with(&format!("{cure} is closer")), "{todo}");

        let given = DoctorArgs {
            config: Some("/etc/deskgrid/worker.toml".into()),
            dedicated: true,
            ..DoctorArgs::default()
        };
        let todo = noted(&given).todo.unwrap();
        let cure = format!("{cure} --config /etc/deskgrid/worker.toml --dedicated is closer");
        assert!(todo.starts_with(&cure), "{todo}");

        let place = tempfile::tempdir().unwrap();
        let state = StateDir::at(place.path().to_owned());
        assert_eq!(account(&state, &plain), None, "there is no worker");
        std::fs::create_dir(place.path().join("worker")).unwrap();
        assert_eq!(account(&state, &plain), None, "it is this account's");
    }

    #[test]
    fn a_full_disk_is_wrong() {
        let severities =
            [100 << 30, 1 << 30, 1 << 20].map(|free| room(Path::new("/x"), free).severity);
        assert_eq!(severities, [Severity::Ok, Severity::Note, Severity::Wrong]);
    }
}
