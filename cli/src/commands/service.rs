//! Executes `deskgrid worker install` and `deskgrid worker uninstall`: shows the plan, or carries
//! it out.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Context;
use super::login::{Newcomer, identity};
use super::service_plan::{ServicePlan, show};
use crate::args::serve::{InstallArgs, ServiceArgs};
use crate::failure::{Exit, Failure};
#[cfg(target_os = "macos")]
use crate::launchd::{LaunchdPaths as ServicePaths, dir_of};
use crate::output::note;
use crate::service::{HEAD, SLICE, ServiceFile, ServiceFlags, UNIT, Words, words};
#[cfg(not(target_os = "macos"))]
use crate::service::{Scope, ServicePaths, dir_of};

/// The directories of units that packages install.
const PACKAGED_UNITS: [&str; 2] = ["/usr/lib/systemd/system", "/lib/systemd/system"];
/// The note on what `uninstall --user` leaves as it is: nobody has noted who switched it on first, and other services may
/// count on it by now.
const LINGERS: &str = "note: lingering, which install --user switches on, stays: your account's services run while you are not logged in. If none of \
                       the others needs that: loginctl disable-linger";
/// The list of dpkg that is there while the package is.
const DPKG_LIST: &str = "/var/lib/dpkg/info/deskgrid-worker.list";

/// Installs the worker as a service, or shows the plan.
pub(super) async fn install(context: &Context, args: InstallArgs) -> Result<Exit, Failure> {
    let places = places(context, &args.service)?;
    let root = Root::new(&args.service);
    if let Some(unit) = root.packaged() {
        let hint = format!(
            "its settings are in /etc/deskgrid/worker.toml, and it joins by /etc/deskgrid/join.toml; to have this program in its \
             place, remove the package first: {}",
            root.removal()
        );
        return Err(packaged(&unit, hint));
    }

    let settings = args.config.as_deref();
    let settings = settings.map(worker::Config::checked_text).transpose()?;
    let start = ServiceFlags {
        slots: args.slots,
        settings: settings.is_some(),
        dedicated: args.dedicated,
        page: context.page.is_some(),
    };
    let mut files = places.files(start)?;
    let unit = files.first().map(|file| file.text.clone());

    files.extend(settings.map(|text| ServiceFile {
        path: places.settings(),
        text,
    }));

    let commands = root.commands(places.start());
    if args.service.yes {
        let dir = root.at(&places.dir);
        root.make(&dir)?;

        // Join first: where the master does not accept this host, nothing has been changed.
        let home = dir.join("worker/identity");
        if args.enrol.master.is_none() && !link::Identity::exists(&home) {
            let hint = "name the master and a token: --master HOST:PORT --join @FILE";
            return Err(Failure::usage("this host has not joined a grid yet", hint));
        }

        identity(&home, context, &args.enrol, Newcomer::Worker).await?;
        root.place_program(&places.program())?;
        for file in &files {
            root.write(file)?;
        }

        let mut needed = vec![places.program(), places.dir.join("worker")];
        needed.extend(start.settings.then(|| places.settings()));
        root.note_closed(&needed);
        run_all(&commands)?;
    }

    let mut writes: Vec<String> = files
        .iter()
        .map(|file| shown(&root.at(&file.path)))
        .collect();
    writes.insert(0, shown(&root.at(&places.program())));

    let plan = ServicePlan {
        done: args.service.yes,
        writes,
        commands: lines(&commands),
        unit,
        ..ServicePlan::default()
    };
    show(context, &plan)
}

/// Removes the service: all paths of `ServicePaths::all`, with the worker's identity and cache. Beside a package it removes
/// only what hides the package's service.
pub(super) fn uninstall(context: &Context, args: &ServiceArgs) -> Result<Exit, Failure> {
    let mut places = places(context, args)?;
    let root = Root::new(args);
    let unit = fs::read_to_string(root.at(&places.unit())).unwrap_or_default();
    if let Some(packaged_unit) = root.packaged() {
        if unit.starts_with(HEAD) {
            return uncover(context, args, &places, &root);
        }
        let removal = root.removal();
        return Err(packaged(
            &packaged_unit,
            format!("{removal}; then this command again, if anything is left"),
        ));
    }

    if context.given_dir.is_none() {
        places.dir = dir_of(&unit).unwrap_or(places.dir);
    }

    let there: Vec<PathBuf> = places
        .all()
        .into_iter()
        .map(|path| root.at(&path))
        .filter(|path| path.exists())
        .collect();

    let stop = root.commands(places.stop());
    let forget = root.commands(places.forget());
    let shown = take_away(context, args, &there, (&stop, &forget))?;
    if args.user && args.root.is_none() && !there.is_empty() {
        note(LINGERS);
    }
    Ok(shown)
}

/// Removes the unit, the slice and the program that `install` put before those of a package, whose service takes over. Its
/// settings, its account and its identity are the package's.
fn uncover(
    context: &Context,
    args: &ServiceArgs,
    places: &ServicePaths,
    root: &Root,
) -> Result<Exit, Failure> {
    let unit = places.unit();
    let slice = unit.with_file_name(SLICE);
    let there = [unit, slice, places.program()].map(|path| root.at(&path));
    let there: Vec<PathBuf> = there.into_iter().filter(|path| path.exists()).collect();

    let stop = root.commands(places.stop());
    let start = root.commands(vec![
        words(&["systemctl", "daemon-reload"]),
        words(&["systemctl", "enable", "--now", UNIT]),
    ]);
    take_away(context, args, &there, (&stop, &start))
}

/// Removes these paths between the two lists of commands, or shows that.
fn take_away(
    context: &Context,
    args: &ServiceArgs,
    there: &[PathBuf],
    (before, after): (&[Words], &[Words]),
) -> Result<Exit, Failure> {
    if args.yes && !there.is_empty() {
        // A unit that is gone already need not be stopped, and must not keep the rest from being
        // removed.
        attempt_all(before);
        for path in there {
            remove(path)?;
        }
        attempt_all(after);
    }

    let commands = if there.is_empty() {
        Vec::new()
    } else {
        [lines(before), lines(after)].concat()
    };

    let removes = there.iter().map(|path| shown(path)).collect();
    let plan = ServicePlan {
        done: args.yes,
        removes,
        commands,
        ..ServicePlan::default()
    };
    show(context, &plan)
}

/// Returns the state directory: the given one, or else the usual.
fn state_dir(context: &Context, usual: PathBuf) -> Result<PathBuf, Failure> {
    let dir = context.given_dir.clone().unwrap_or(usual);
    std::path::absolute(&dir)
        .map_err(|e| Failure::io(format!("cannot tell where {} is", dir.display()), &e))
}

#[cfg(target_os = "macos")]
fn places(context: &Context, args: &ServiceArgs) -> Result<ServicePaths, Failure> {
    if args.user {
        let what = "on macOS a worker of your own account cannot be installed: tasks could read and change your files";
        return Err(Failure::usage(
            what,
            "leave --user out and run it with sudo: the service gets an account of its own",
        ));
    }
    let dir = state_dir(context, "/var/db/deskgrid".into())?;
    Ok(ServicePaths { dir })
}

#[cfg(not(target_os = "macos"))]
fn places(context: &Context, args: &ServiceArgs) -> Result<ServicePaths, Failure> {
    let dir = |usual| state_dir(context, usual);
    if !args.user {
        return Ok(ServicePaths {
            scope: Scope::System,
            dir: dir("/var/lib/deskgrid".into())?,
        });
    }

    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let home = variable("HOME").ok_or_else(|| {
        Failure::usage(
            "there is no home directory",
            "set HOME, or leave --user out",
        )
    })?;
    let config = variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
    let data = variable("XDG_DATA_HOME").unwrap_or_else(|| home.join(".local/share"));

    Ok(ServicePaths {
        scope: Scope::User { config, data },
        dir: dir(context.state.root().to_owned())?,
    })
}

/// The root of the plan's paths: this system, or another directory, where no command is run.
struct Root {
    below: Option<PathBuf>,
    /// Whether the service has an account of its own: it needs what is made here, whatever our umask is.
    shared: bool,
}

impl Root {
    fn new(args: &ServiceArgs) -> Self {
        Self {
            below: args.root.clone(),
            shared: !args.user,
        }
    }

    fn at(&self, path: &Path) -> PathBuf {
        match &self.below {
            Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
            None => path.to_owned(),
        }
    }

    /// Returns the unit of the PC's worker that a package has installed, if one has. A unit of ours would hide it, with
    /// a program that no upgrade of the package reaches; what `uninstall` removes the package would miss.
    fn packaged(&self) -> Option<PathBuf> {
        PACKAGED_UNITS
            .iter()
            .map(|dir| self.at(&Path::new(dir).join(UNIT)))
            .find(|unit| self.shared && unit.exists())
    }

    /// Returns the command that removes the package.
    fn removal(&self) -> &'static str {
        if self.at(Path::new(DPKG_LIST)).exists() {
            "sudo apt purge deskgrid-worker"
        } else {
            "sudo dnf remove deskgrid-worker (where a site's script installed it: sudo sh SCRIPT --uninstall)"
        }
    }

    fn commands(&self, commands: Vec<Words>) -> Vec<Words> {
        if self.below.is_some() {
            Vec::new()
        } else {
            commands
        }
    }

    /// Makes a directory, with what is missing above it.
    fn make(&self, dir: &Path) -> Result<(), Failure> {
        let missing: Vec<&Path> = dir
            .ancestors()
            .take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists())
            .collect();
        fs::create_dir_all(dir).map_err(|e| cannot("make", dir, &e))?;
        missing.iter().try_for_each(|made| self.permit(made, 0o755))
    }

    fn make_parent(&self, path: &Path) -> Result<(), Failure> {
        self.make(path.parent().unwrap_or(path))
    }

    /// Lets the service's account use what was made here. What a person installs for himself is for him alone: it
    /// has what his umask leaves.
    fn permit(&self, made: &Path, mode: u32) -> Result<(), Failure> {
        if !self.shared {
            return Ok(());
        }
        fs::set_permissions(made, fs::Permissions::from_mode(mode))
            .map_err(|e| cannot("set the permissions of", made, &e))
    }

    fn write(&self, file: &ServiceFile) -> Result<(), Failure> {
        let path = self.at(&file.path);
        self.make_parent(&path)?;
        let before = fs::metadata(&path).ok();
        if before.as_ref().is_some_and(|before| !before.is_file()) {
            // A unit that is masked is a link to /dev/null.
            return fs::write(&path, &file.text).map_err(|e| cannot("write", &path, &e));
        }

        // What an admin has closed, or put elsewhere by a link, stays so.
        let path = fs::canonicalize(&path).unwrap_or(path);
        let write = |aside: &Path| match &before {
            None => fs::write(aside, &file.text),
            Some(before) => {
                link::files::create_private(aside)?.write_all(file.text.as_bytes())?;
                let made = fs::metadata(aside)?;
                if (made.uid(), made.gid()) != (before.uid(), before.gid()) {
                    chown(aside, Some(before.uid()), Some(before.gid()))?;
                }
                fs::set_permissions(aside, before.permissions())
            }
        };
        link::files::replace(&path, write).map_err(|e| cannot("write", &path, &e))?;
        match before {
            None => self.permit(&path, 0o644),
            Some(_) => Ok(()),
        }
    }

    /// Says which directories above what the service needs keep its account out. They were there before: it is not
    /// for this command to open them.
    fn note_closed(&self, needed: &[PathBuf]) {
        if !self.shared {
            return;
        }

        let above: BTreeSet<&Path> = needed
            .iter()
            .flat_map(|path| path.ancestors().skip(1))
            .filter(|dir| dir.parent().is_some())
            .collect();
        for dir in above.into_iter().map(|dir| self.at(dir)) {
            if let Some(mode) = closed(&dir) {
                let dir = dir.display();
                note(&format!(
                    "note: the service cannot run: its account may not enter {dir} (it was there before, with the mode {mode:o}). \
                     To let it in: chmod o+x {dir}"
                ));
            }
        }
    }

    /// Copies this program aside and then into place, since the old one may be running.
    fn place_program(&self, to: &Path) -> Result<(), Failure> {
        let to = self.at(to);
        let from =
            std::env::current_exe().map_err(|e| Failure::io("cannot find this program", &e))?;
        if fs::canonicalize(&to).ok() == fs::canonicalize(&from).ok() {
            return Ok(());
        }

        self.make_parent(&to)?;
        let copy = |aside: &Path| {
            fs::copy(&from, aside)?;
            fs::set_permissions(aside, fs::Permissions::from_mode(0o755))
        };
        link::files::replace(&to, copy).map_err(|e| cannot("write", &to, &e))
    }
}

fn packaged(unit: &Path, hint: String) -> Failure {
    let what = format!(
        "the worker of this PC is that of a package, whose service is {}: nothing was changed",
        unit.display()
    );
    Failure::error("exists", what, hint)
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    let mut failure = Failure::cannot(what, path, error);
    if error.kind() == std::io::ErrorKind::PermissionDenied {
        failure.hint = if cfg!(target_os = "macos") {
            "run it with sudo".to_owned()
        } else {
            "run it with sudo, or install it for yourself alone with --user".to_owned()
        };
    }
    failure
}

/// Returns the mode of a directory that belongs to us, if others may not enter it. One that belongs to another account
/// or group may be the service's.
fn closed(dir: &Path) -> Option<u32> {
    let meta = fs::metadata(dir).ok()?;
    let mode = meta.mode() & 0o777;
    let of_us = meta.uid() == rustix::process::geteuid().as_raw();
    let by_group = mode & 0o010 != 0 && meta.gid() != rustix::process::getegid().as_raw();
    (of_us && mode & 0o001 == 0 && !by_group).then_some(mode)
}

/// Removes a file or a tree, and then the directories `deskgrid/bin` and `deskgrid` above it if
/// they are empty.
fn remove(path: &Path) -> Result<(), Failure> {
    let gone = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    gone.map_err(|e| cannot("remove", path, &e))?;

    let mut above = path.parent();
    while let Some(dir) =
        above.filter(|dir| dir.ends_with("deskgrid") || dir.ends_with("deskgrid/bin"))
    {
        if fs::remove_dir(dir).is_err() {
            break;
        }

        above = dir.parent();
    }

    Ok(())
}

fn run_all(commands: &[Words]) -> Result<(), Failure> {
    for words in commands {
        let why = match Command::new(&words[0]).args(&words[1..]).output() {
            Ok(output) if output.status.success() => continue,
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };

        let hint = "the files are in place: put right what is wrong and run the rest of the commands, or uninstall";
        return Err(
            Failure::error("command", format!("`{}` failed", words.join(" ")), hint).because(why),
        );
    }

    Ok(())
}

fn attempt_all(commands: &[Words]) {
    for words in commands {
        let done = Command::new(&words[0]).args(&words[1..]).output();
        if !done.is_ok_and(|output| output.status.success()) {
            note(&format!(
                "note: `{}` did not work; going on",
                words.join(" ")
            ));
        }
    }
}

fn lines(commands: &[Words]) -> Vec<String> {
    commands.iter().map(|words| words.join(" ")).collect()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test's panic is its message")]

    use std::io;

    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_whole_stays_as_it_was_and_so_do_its_rights() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root {
            below: Some(dir.path().to_owned()),
            shared: true,
        };
        let write = |text: &str| {
            root.write(&ServiceFile {
                path: "/etc/deskgrid/worker.toml".into(),
                text: text.to_owned(),
            })
        };
        let path = root.at(Path::new("/etc/deskgrid/worker.toml"));
        let mode = || fs::metadata(&path).unwrap().mode() & 0o777;
        let names = || fs::read_dir(path.parent().unwrap()).unwrap().count();
        write("slots = 1").unwrap();
        assert_eq!((mode(), names()), (0o644, 1));

        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write("slots = 2").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "slots = 2");
        assert_eq!((mode(), names()), (0o640, 1));

        // There is no room aside.
        fs::create_dir(path.with_extension("new")).unwrap();
        assert_eq!(write("slots = 3").unwrap_err().code, "io");
        assert_eq!(fs::read_to_string(&path).unwrap(), "slots = 2");
        fs::remove_dir(path.with_extension("new")).unwrap();

        // What is begun aside goes again.
        let full = |aside: &Path| -> io::Result<()> {
            fs::write(aside, "slo")?;
            Err(io::ErrorKind::StorageFull.into())
        };
        let failed = link::files::replace(&path, full).unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(&path).unwrap(), "slots = 2");
        assert_eq!(names(), 1);
    }

    #[test]
    fn settings_that_are_a_link_are_written_where_it_leads_and_a_masked_unit_stays_masked() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root {
            below: Some(dir.path().to_owned()),
            shared: true,
        };
        let at = |name: &str| dir.path().join(name);
        fs::write(at("kept.toml"), "slots = 1").unwrap();
        std::os::unix::fs::symlink(at("kept.toml"), at("worker.toml")).unwrap();
        std::os::unix::fs::symlink("/dev/null", at("unit")).unwrap();
        for name in ["/worker.toml", "/unit"] {
            root.write(&ServiceFile {
                path: name.into(),
                text: "slots = 2".to_owned(),
            })
            .unwrap();
        }

        assert_eq!(fs::read_to_string(at("kept.toml")).unwrap(), "slots = 2");
        for (link, target) in [
            ("worker.toml", at("kept.toml")),
            ("unit", "/dev/null".into()),
        ] {
            assert_eq!(fs::read_link(at(link)).unwrap(), target);
        }
    }
}
