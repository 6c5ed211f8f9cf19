//! Makes the worker a service of Windows. `deskgrid worker install` and `uninstall` show a plan or
//! carry it out; the service manager calls `run`. The service runs as `LocalService`, an account
//! with few rights that owns nobody's files.

mod duty;
mod entries;
mod rights;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use windows_service::service::{
    Service, ServiceAccess, ServiceAction, ServiceActionType, ServiceErrorControl,
    ServiceFailureActions, ServiceFailureResetPeriod, ServiceInfo, ServiceStartType, ServiceState,
    ServiceType,
};
use windows_service::service_manager::{ServiceManager, ServiceManagerAccess};

pub(super) use duty::run;
use rights::RightsStep;

use super::Context;
use super::login::{Newcomer, identity};
use super::service_plan::{ServicePlan, show};
use crate::args::scm::ServiceArgs;
use crate::args::serve::InstallArgs;
use crate::failure::{Exit, Failure};

/// The account of the service: it has few rights on this PC and none on others.
const ACCOUNT: &str = r"NT AUTHORITY\LocalService";
/// The hint where the system denies access.
const AS_ADMIN: &str = "run this from a prompt that was started as administrator";
/// The longest time that the service may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The program that watches a user's session, beside this one.
const WATCHER: &str = "deskgrid-watch.exe";
/// The pause before a failed worker is started again. After a day without failure (`A_DAY`) the
/// count of failures starts again.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
const A_DAY: Duration = Duration::from_secs(24 * 3_600);
/// The error codes of Windows: the service manager is busy; there is no such service; it does not
/// run.
const LOCKED: i32 = 1_055;
const NO_SUCH_SERVICE: i32 = 1_060;
const NOT_ACTIVE: i32 = 1_062;

/// Whether both are the same path to Windows, which does not tell upper from lower case.
fn is_same(one: &Path, other: &Path) -> bool {
    let names = |path: &Path| -> Vec<OsString> {
        path.components()
            .map(|name| name.as_os_str().to_ascii_lowercase())
            .collect()
    };
    names(one) == names(other)
}

/// The paths of a service.
struct ScmPaths {
    service: String,
    /// The directory of the program.
    programs: PathBuf,
    /// The state directory.
    state: PathBuf,
}

impl ScmPaths {
    fn of(args: &ServiceArgs) -> Result<Self, Failure> {
        let service = args.service.clone();
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if service.is_empty() || !service.chars().all(fits) {
            let hint = "use letters, digits, `-` and `_`";
            return Err(Failure::usage(
                format!("`{service}` does not do as a service's name"),
                hint,
            ));
        }

        let below = |variable: &str| {
            let hint = "the system sets it; run this from an ordinary prompt";
            let dir = std::env::var_os(variable).filter(|dir| !dir.is_empty());
            dir.map(|dir| PathBuf::from(dir).join(&service))
                .ok_or_else(|| Failure::usage(format!("the variable {variable} is not set"), hint))
        };
        Ok(Self {
            programs: below("ProgramFiles")?,
            state: below("ProgramData")?,
            service,
        })
    }

    /// Refuses another state directory than the service's own: its rights, its watchers and its removal go by the name
    /// of the service.
    fn check_dir(&self, context: &Context) -> Result<(), Failure> {
        match &context.given_dir {
            Some(dir) if !is_same(dir, &self.state) => Err(Failure::usage(
                format!(
                    "the service {} keeps its state in {}, not in {} (--dir or DESKGRID_DIR)",
                    self.service,
                    self.state.display(),
                    dir.display()
                ),
                "leave --dir out and DESKGRID_DIR unset; --service NAME gives a service directories of its own",
            )),
            _ => Ok(()),
        }
    }

    fn program(&self) -> PathBuf {
        self.programs.join("deskgrid.exe")
    }

    fn watcher(&self) -> PathBuf {
        self.programs.join(WATCHER)
    }

    /// Returns the name of the watcher's entry among the programs that start at logon. The watcher
    /// makes the same name of its directory.
    fn entry(&self) -> String {
        format!("{} watcher", self.service)
    }

    fn settings(&self) -> PathBuf {
        self.state.join("worker.toml")
    }

    /// Returns the arguments of the program on the service's command line.
    fn arguments(&self, args: &InstallArgs) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["--dir".into(), self.state.clone().into()];
        words.extend(["worker", "service", "--service", &self.service].map(OsString::from));
        if let Some(slots) = args.slots {
            words.extend(["--slots".into(), slots.to_string().into()]);
        }
        if args.config.is_some() {
            words.extend(["--config".into(), self.settings().into()]);
        }
        words.extend(args.dedicated.then(|| "--dedicated".into()));
        words
    }

    /// Returns what `install` does beside writing files.
    fn steps(&self, words: &[OsString], watched: bool, rights: &[RightsStep]) -> Vec<String> {
        let line: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let service = &self.service;
        let mut steps: Vec<String> = rights.iter().map(ToString::to_string).collect();
        steps.extend([
            format!("create (or replace) and start the service {service} as {ACCOUNT}:"),
            format!("  {} {}", self.program().display(), line.join(" ")),
        ]);

        steps.extend(entries::steps(self, watched));
        steps
    }
}

/// Installs the worker as a service, or shows the plan.
pub(super) async fn install(context: &Context, args: InstallArgs) -> Result<Exit, Failure> {
    let places = ScmPaths::of(&args.service)?;
    places.check_dir(context)?;
    // Invalid settings are better found now than when the PC starts.
    let settings = args.config.as_deref();
    let settings = settings.map(worker::Config::checked_text).transpose()?;

    let words = places.arguments(&args);
    let watcher = watcher_here();

    let access = ServiceManagerAccess::CONNECT | ServiceManagerAccess::CREATE_SERVICE;
    let manager = args.service.yes.then(|| manager(access)).transpose()?;
    let before = match &manager {
        Some(manager) => open(manager, &places.service, ServiceAccess::all())?,
        // The plan alone needs no rights.
        None => self::manager(ServiceManagerAccess::CONNECT)
            .and_then(|m| open(&m, &places.service, ServiceAccess::QUERY_STATUS))
            .unwrap_or_default(),
    };
    let rights = rights::steps(&places.state, before.is_none() && places.state.exists());
    if let Some(manager) = &manager {
        make(&places.state)?;
        rights::carry_out(&rights)?;
        // Join first: where the master does not accept this PC, no service is made or stopped.
        let home = places.state.join("worker").join("identity");
        identity(&home, context, &args.enrol, Newcomer::Worker).await?;

        entries::add_source(&places)?;
        before.as_ref().map(stop).transpose()?;
        let placed = place(&places, settings.as_deref(), watcher.as_deref());
        if let (Err(_), Some(service)) = (&placed, &before) {
            // Better the worker that was there than none.
            let _ = start(service);
        }
        placed?;
        create(manager, before, &places, words.clone())?;
    }

    let mut writes = vec![places.program(), places.state.clone()];
    writes.extend(settings.map(|_| places.settings()));
    writes.extend(watcher.as_ref().map(|_| places.watcher()));
    let plan = ServicePlan {
        done: args.service.yes,
        writes: shown(&writes),
        commands: places.steps(&words, watcher.is_some(), &rights),
        service: Some(places.service),
        ..ServicePlan::default()
    };
    show(context, &plan)
}

fn shown(paths: &[PathBuf]) -> Vec<String> {
    paths
        .iter()
        .map(|path| path.display().to_string())
        .collect()
}

/// Puts the programs and the settings where the service finds them.
fn place(places: &ScmPaths, settings: Option<&str>, watcher: Option<&Path>) -> Result<(), Failure> {
    make(&places.programs)?;
    let this = std::env::current_exe().map_err(|e| Failure::io("cannot find this program", &e))?;
    copy(&this, &places.program())?;
    if let Some(text) = settings {
        write(text, &places.settings())?;
    }

    if let Some(watcher) = watcher {
        if !same(watcher, &places.watcher()) {
            // Watchers that run end: they are without their service, and not to start at logon.
            entries::remove_watcher(places)?;
            copy(watcher, &places.watcher())?;
        }
        entries::add_watcher(places)?;
    }
    Ok(())
}

fn make(dir: &Path) -> Result<(), Failure> {
    fs::create_dir_all(dir).map_err(|e| Failure::cannot("make", dir, &e))
}

/// Returns the watcher's program beside this one, if there is one.
fn watcher_here() -> Option<PathBuf> {
    let this = std::env::current_exe().ok()?;
    Some(this.with_file_name(WATCHER)).filter(|path| path.exists())
}

/// Removes the service, with the identity, the cache and everything else of the worker.
pub(super) fn uninstall(context: &Context, args: &ServiceArgs) -> Result<Exit, Failure> {
    let places = ScmPaths::of(args)?;
    places.check_dir(context)?;
    let mut there = vec![places.state.clone(), places.programs.clone()];
    there.retain(|path| path.exists());
    if args.yes {
        // Before the service: a watcher that loses it looks whether it is still to start at logon.
        entries::remove_watcher(&places)?;
        delete(&places.service)?;
        entries::remove_source(&places)?;
        there.iter().try_for_each(|dir| remove(dir))?;
    }

    let [watcher, source] = entries::removals(&places);
    let delete = format!("stop and delete the service {}", places.service);
    let plan = ServicePlan {
        done: args.yes,
        removes: shown(&there),
        commands: vec![watcher, delete, source],
        service: Some(places.service),
        ..ServicePlan::default()
    };
    show(context, &plan)
}

/// Whether both files are there with the same content.
fn same(one: &Path, other: &Path) -> bool {
    fs::read(one).is_ok_and(|one| fs::read(other).is_ok_and(|other| one == other))
}

/// Copies a file that differs: one that is there already may be the program that runs this. Where it cannot be copied
/// whole, as on a full disk, the one that is there stays: a service is started by it again.
fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    if same(from, to) {
        return Ok(());
    }

    replace(to, |aside| fs::copy(from, aside).map(drop))
}

/// Writes settings that differ. Where they cannot be written whole, those that are there stay.
fn write(text: &str, to: &Path) -> Result<(), Failure> {
    if fs::read(to).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(());
    }
    replace(to, |aside| fs::write(aside, text))
}

/// Puts what `make` writes aside into the place of a file.
fn replace(to: &Path, make: impl Fn(&Path) -> io::Result<()>) -> Result<(), Failure> {
    let aside = to.with_extension("new");
    let placed = patiently(|| make(&aside)).and_then(|()| patiently(|| fs::rename(&aside, to)));
    if placed.is_err() {
        let _ = fs::remove_file(&aside);
    }
    placed.map_err(|e| Failure::cannot("write", to, &e))
}

/// Removes a directory, if it is there.
fn remove(dir: &Path) -> Result<(), Failure> {
    let gone = |done: io::Result<()>| match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    };
    patiently(|| gone(fs::remove_dir_all(dir))).map_err(|e| Failure::cannot("remove", dir, &e))
}

/// Tries again while a file is still held for a moment.
fn patiently(mut change: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE / 6;
    loop {
        match change() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(LOOK_EVERY),
            done => return done,
        }
    }
}

fn manager(access: ServiceManagerAccess) -> Result<ServiceManager, Failure> {
    ServiceManager::local_computer(None::<&str>, access)
        .map_err(|e| refused("the service manager denies access", &e))
}

fn refused(what: impl Into<String>, error: &windows_service::Error) -> Failure {
    let cause = match error {
        windows_service::Error::Winapi(error) => error.to_string(),
        other => other.to_string(),
    };
    Failure::error("service", what, AS_ADMIN).because(cause)
}

/// Makes the service, or gives the one that was there `before` this program and these words; starts
/// it.
fn create(
    manager: &ServiceManager,
    before: Option<Service>,
    places: &ScmPaths,
    launch_arguments: Vec<OsString>,
) -> Result<(), Failure> {
    let name = OsString::from(&places.service);
    let info = ServiceInfo {
        display_name: format!("{} worker", places.service).into(),
        name,
        service_type: ServiceType::OWN_PROCESS,
        start_type: ServiceStartType::AutoStart,
        error_control: ServiceErrorControl::Normal,
        executable_path: places.program(),
        launch_arguments,
        dependencies: Vec::new(),
        account_name: Some(ACCOUNT.into()),
        account_password: None,
    };

    let made = match before {
        Some(service) => service.change_config(&info).map(|()| service),
        None => manager.create_service(&info, ServiceAccess::all()),
    };
    let name = &places.service;
    let service = made.map_err(|e| refused(format!("the service {name} cannot be made"), &e))?;

    let again = ServiceAction {
        action_type: ServiceActionType::Restart,
        delay: AGAIN_AFTER,
    };
    let actions = ServiceFailureActions {
        reset_period: ServiceFailureResetPeriod::After(A_DAY),
        reboot_msg: None,
        command: None,
        actions: Some(vec![again]),
    };

    // These settings are a convenience: their failure does not fail the installation.
    for error in [
        service
            .set_description("Runs tasks of the deskgrid while this PC's owner does not need it.")
            .err(),
        service.update_failure_actions(actions).err(),
        service
            .set_failure_actions_on_non_crash_failures(true)
            .err(),
    ]
    .into_iter()
    .flatten()
    {
        tracing::info!(%error, "a property of the service could not be set");
    }

    start(&service)?;
    until(&service, ServiceState::Running)
}

/// Starts the service; waits for a service manager that is busy with others, as after a start of
/// the PC.
fn start(service: &Service) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match service.start::<OsString>(&[]) {
            Err(error) if code(&error) == Some(LOCKED) && Instant::now() < deadline => {
                std::thread::sleep(LOOK_EVERY);
            }
            started => {
                return started
                    .map_err(|e| refused("the service is made, but cannot be started", &e));
            }
        }
    }
}

/// Returns the system's code of an error.
fn code(error: &windows_service::Error) -> Option<i32> {
    match error {
        windows_service::Error::Winapi(error) => error.raw_os_error(),
        _ => None,
    }
}

/// Waits until the service is in this state; fails after `PATIENCE`, or if it stops while it should
/// run.
fn until(service: &Service, state: ServiceState) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = service
            .query_status()
            .map_err(|e| refused("the service does not report its state", &e))?
            .current_state;
        if now == state {
            return Ok(());
        }
        if Instant::now() > deadline
            || (state == ServiceState::Running && now == ServiceState::Stopped)
        {
            let what = format!("the service is {now:?}, not {state:?}");
            return Err(Failure::error(
                "service",
                what,
                "worker.log in its state directory says more",
            ));
        }

        std::thread::sleep(LOOK_EVERY);
    }
}

/// Opens the service; `None` if there is none.
fn open(
    manager: &ServiceManager,
    name: &str,
    access: ServiceAccess,
) -> Result<Option<Service>, Failure> {
    match manager.open_service(name, access) {
        Err(error) if code(&error) == Some(NO_SUCH_SERVICE) => Ok(None),
        service => service
            .map(Some)
            .map_err(|e| refused(format!("the service {name} cannot be opened"), &e)),
    }
}

/// Stops the service, if it runs.
fn stop(service: &Service) -> Result<(), Failure> {
    match service.stop() {
        Err(error) if code(&error) != Some(NOT_ACTIVE) => {
            Err(refused("the service cannot be stopped", &error))
        }
        _ => until(service, ServiceState::Stopped),
    }
}

/// Stops and deletes the service; succeeds if there is none.
fn delete(name: &str) -> Result<(), Failure> {
    let Some(service) = open(
        &manager(ServiceManagerAccess::CONNECT)?,
        name,
        ServiceAccess::all(),
    )?
    else {
        return Ok(());
    };
    stop(&service)?;
    service
        .delete()
        .map_err(|e| refused(format!("the service {name} cannot be deleted"), &e))
}
