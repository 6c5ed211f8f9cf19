//! Makes the worker a service of Windows. `deskgrid worker install` and `uninstall` show a plan or
//! carry it out; the service manager calls `run`. The service runs as `LocalService`, an account
//! with few rights that owns nobody's files.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::Notify;
use windows_service::service::{
    Service, ServiceAccess, ServiceAction, ServiceActionType, ServiceControl, ServiceControlAccept,
    ServiceErrorControl, ServiceExitCode, ServiceFailureActions, ServiceFailureResetPeriod,
    ServiceInfo, ServiceStartType, ServiceState, ServiceStatus, ServiceType,
};
use windows_service::service_control_handler::{self, ServiceControlHandlerResult};
use windows_service::service_manager::{ServiceManager, ServiceManagerAccess};
use windows_service::{define_windows_service, service_dispatcher};

use super::login::{Newcomer, identity};
use super::{Context, first_start};
use crate::args::scm::{RunArgs, ServiceArgs};
use crate::args::serve::InstallArgs;
use crate::failure::{Exit, Failure};
use crate::output::note;

/// The account of the service: it has few rights on this PC and none on others.
const ACCOUNT: &str = r"NT AUTHORITY\LocalService";
/// The accounts that may use the service's directory: the system, the administrators and `ACCOUNT`,
/// by number, since their names are translated.
const MAY: [&str; 3] = [
    "*S-1-5-18:(OI)(CI)F",
    "*S-1-5-32-544:(OI)(CI)F",
    "*S-1-5-19:(OI)(CI)F",
];
/// The longest time that the service may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The program that watches a user's session, beside this one; and the entries of programs that the
/// system starts at each logon.
const WATCHER: &str = "deskgrid-watch.exe";
const AT_LOGON: &str = r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Run";
/// The pause before a failed worker is started again. After a day without failure (`A_DAY`) the
/// count of failures starts again.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
const A_DAY: Duration = Duration::from_secs(24 * 3_600);
/// The stack of the worker's thread, in bytes.
const STACK: usize = 8 << 20;
/// The error codes of Windows: the service manager is busy; there is no such service; it does not
/// run.
const LOCKED: i32 = 1_055;
const NO_SUCH_SERVICE: i32 = 1_060;
const NOT_ACTIVE: i32 = 1_062;

/// The paths of a service.
struct ScmPaths {
    service: String,
    /// The directory of the program.
    programs: PathBuf,
    /// The state directory.
    state: PathBuf,
}

#[derive(Serialize)]
struct ScmPlan {
    done: bool,
    service: String,
    writes: Vec<PathBuf>,
    removes: Vec<PathBuf>,
    commands: Vec<String>,
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
    fn steps(&self, words: &[OsString], watched: bool) -> Vec<String> {
        let line: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        vec![
            format!(
                "icacls {} /inheritance:r /grant:r {}",
                self.state.display(),
                MAY.join(" ")
            ),
            format!(
                "create and start the service {} as {ACCOUNT}:",
                self.service
            ),
            format!("  {} {}", self.program().display(), line.join(" ")),
            if watched {
                format!(
                    "start {WATCHER} at each logon, as {} of {AT_LOGON}",
                    self.entry()
                )
            } else {
                format!(
                    "no watcher: there is no {WATCHER} beside this program, so a user who is logged on counts as using the PC"
                )
            },
        ]
    }

    /// Restricts the state directory, which holds the key, to the accounts in `MAY`. Permissions
    /// that Windows would inherit from above are removed.
    fn close(&self) -> Result<(), Failure> {
        let mut command = Command::new("icacls");
        command
            .arg(&self.state)
            .args(["/inheritance:r", "/grant:r"])
            .args(MAY)
            .stdout(Stdio::null());

        let status = command
            .status()
            .map_err(|e| Failure::io("icacls cannot be run", &e))?;
        if status.success() {
            return Ok(());
        }

        let what = format!(
            "icacls could not close {} to others ({status})",
            self.state.display()
        );
        Err(Failure::new(
            Exit::Error,
            "service",
            what,
            "run this from a prompt that was started as administrator",
        ))
    }
}

/// Installs the worker as a service, or shows the plan.
pub(super) async fn install(context: &Context, args: InstallArgs) -> Result<Exit, Failure> {
    let places = ScmPaths::of(&args.service)?;
    if let Some(config) = &args.config {
        // Invalid settings are better found now than when the PC starts.
        worker::Config::load(config)?;
    }

    let words = places.arguments(&args);
    let watcher = watcher_here();
    if args.service.yes {
        let manager =
            manager(ServiceManagerAccess::CONNECT | ServiceManagerAccess::CREATE_SERVICE)?;

        let make = |dir: &Path| fs::create_dir_all(dir).map_err(|e| cannot("make", dir, &e));
        make(&places.state)?;
        places.close()?;

        // Join first: where the master does not accept this PC, no service is made.
        identity(
            &places.state.join("worker").join("identity"),
            context,
            &args.enrol,
            Newcomer::Worker,
        )
        .await?;

        make(&places.programs)?;
        let this =
            std::env::current_exe().map_err(|e| Failure::io("cannot find this program", &e))?;
        copy(&this, &places.program())?;
        if let Some(config) = &args.config {
            copy(config, &places.settings())?;
        }
        if let Some(watcher) = &watcher {
            copy(watcher, &places.watcher())?;
            enter(&places)?;
        }

        create(&manager, &places, words.clone())?;
    }

    let plan = ScmPlan {
        done: args.service.yes,
        writes: [places.program(), places.state.clone()]
            .into_iter()
            .chain(args.config.map(|_| places.settings()))
            .chain(watcher.as_ref().map(|_| places.watcher()))
            .collect(),
        removes: Vec::new(),
        commands: places.steps(&words, watcher.is_some()),
        service: places.service,
    };
    show(context, &plan)
}

/// Returns the watcher's program beside this one, if there is one.
fn watcher_here() -> Option<PathBuf> {
    let this = std::env::current_exe().ok()?;
    Some(this.with_file_name(WATCHER)).filter(|path| path.exists())
}

/// Has the system start the watcher in each session when its user logs on.
fn enter(places: &ScmPaths) -> Result<(), Failure> {
    let line = format!("\"{}\"", places.watcher().display());
    let entry = places.entry();
    let words = [
        "add", AT_LOGON, "/v", &entry, "/t", "REG_SZ", "/d", &line, "/f",
    ];

    let (done, status) = reg(&words)?;
    if done {
        return Ok(());
    }
    let what = format!("reg could not make the watcher's entry ({status})");
    let hint = "run this from a prompt that was started as administrator";
    Err(Failure::new(Exit::Error, "service", what, hint))
}

/// Takes that back; succeeds if there is no such entry.
fn leave(places: &ScmPaths) -> Result<(), Failure> {
    let entry = places.entry();
    let (there, _) = reg(&["query", AT_LOGON, "/v", &entry])?;
    if !there {
        return Ok(());
    }

    let (done, status) = reg(&["delete", AT_LOGON, "/v", &entry, "/f"])?;
    if done {
        return Ok(());
    }
    let what = format!("reg could not remove the watcher's entry ({status})");
    let hint = "run this from a prompt that was started as administrator";
    Err(Failure::new(Exit::Error, "service", what, hint))
}

/// Runs `reg`, which changes the registry; returns whether it succeeded, and its status.
fn reg(words: &[&str]) -> Result<(bool, std::process::ExitStatus), Failure> {
    let mut command = Command::new("reg");
    command
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = command
        .status()
        .map_err(|e| Failure::io("reg cannot be run", &e))?;
    Ok((status.success(), status))
}

/// Removes the service, with the identity, the cache and everything else of the worker.
pub(super) fn uninstall(context: &Context, args: &ServiceArgs) -> Result<Exit, Failure> {
    let places = ScmPaths::of(args)?;
    let there = [places.state.clone(), places.programs.clone()]
        .into_iter()
        .filter(|path| path.exists());
    let plan = ScmPlan {
        done: args.yes,
        writes: Vec::new(),
        removes: there.collect(),
        commands: vec![
            format!(
                "remove {} of {AT_LOGON}, which ends the watchers",
                places.entry()
            ),
            format!("stop and delete the service {}", places.service),
        ],
        service: places.service.clone(),
    };
    if args.yes {
        // Before the service: a watcher that loses it looks whether it is still to start at logon.
        leave(&places)?;
        delete(&places.service)?;
        plan.removes.iter().try_for_each(|dir| remove(dir))?;
    }

    show(context, &plan)
}

fn show(context: &Context, plan: &ScmPlan) -> Result<Exit, Failure> {
    let text = || {
        let paths = |word: &str, paths: &[PathBuf]| -> Vec<String> {
            paths
                .iter()
                .map(|path| format!("{word} {}\n", path.display()))
                .collect()
        };
        let mut lines = [
            paths("write  ", &plan.writes),
            paths("remove ", &plan.removes),
        ]
        .concat();
        lines.extend(plan.commands.iter().map(|command| format!("{command}\n")));

        lines.concat()
    };
    context
        .out
        .show(plan, text, || vec![plan.service.clone()])?;
    if !plan.done {
        note("nothing was changed: --yes does it");
    }

    Ok(Exit::Well)
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::io(format!("cannot {what} {}", path.display()), error)
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    // Installing again from the installed program must not fail.
    if from == to {
        return Ok(());
    }
    fs::copy(from, to)
        .map(|_| ())
        .map_err(|e| cannot("write", to, &e))
}

/// Removes a directory; waits for a file that is still held for a moment.
fn remove(dir: &Path) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE / 6;
    loop {
        match fs::remove_dir_all(dir) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) if Instant::now() > deadline => return Err(cannot("remove", dir, &error)),
            Err(_) => std::thread::sleep(LOOK_EVERY),
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
    Failure::new(
        Exit::Error,
        "service",
        what,
        "run this from a prompt that was started as administrator",
    )
    .because(cause)
}

fn create(
    manager: &ServiceManager,
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

    let access = ServiceAccess::START | ServiceAccess::QUERY_STATUS | ServiceAccess::CHANGE_CONFIG;
    let service = manager.create_service(&info, access).map_err(|e| {
        refused(
            format!(
                "the service {} cannot be made; is it there already?",
                places.service
            ),
            &e,
        )
    })?;

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
            return Err(Failure::new(
                Exit::Error,
                "service",
                what,
                "worker.log in its state directory says more",
            ));
        }

        std::thread::sleep(LOOK_EVERY);
    }
}

/// Stops and deletes the service; succeeds if there is none.
fn delete(name: &str) -> Result<(), Failure> {
    let access = ServiceAccess::STOP | ServiceAccess::QUERY_STATUS | ServiceAccess::DELETE;
    let service = match manager(ServiceManagerAccess::CONNECT)?.open_service(name, access) {
        Err(error) if code(&error) == Some(NO_SUCH_SERVICE) => return Ok(()),
        service => {
            service.map_err(|e| refused(format!("the service {name} cannot be opened"), &e))?
        }
    };
    match service.stop() {
        Err(error) if code(&error) != Some(NOT_ACTIVE) => {
            return Err(refused("the service cannot be stopped", &error));
        }
        _ => until(&service, ServiceState::Stopped)?,
    }

    service
        .delete()
        .map_err(|e| refused(format!("the service {name} cannot be deleted"), &e))
}

/// The arguments of the service: the program knows them, but the service manager calls a function
/// without any.
struct Duty {
    args: RunArgs,
    dir: PathBuf,
}

static DUTY: OnceLock<Duty> = OnceLock::new();

define_windows_service!(service_entry, service_main);

/// Runs as the service until the service manager ends it.
pub(super) fn run(context: &Context, args: RunArgs) -> Result<Exit, Failure> {
    let name = args.service.clone();
    let _ = DUTY.set(Duty {
        args,
        dir: context.state.worker(),
    });
    service_dispatcher::start(name, service_entry).map_err(|error| {
        let hint =
            "this command is for the service manager: run deskgrid worker start, or worker install";
        Failure {
            hint: hint.to_owned(),
            ..refused("this was not started as a service", &error)
        }
    })?;

    Ok(Exit::Well)
}

fn service_main(_: Vec<OsString>) {
    let Some(duty) = DUTY.get() else { return };
    let stop = Arc::new(Notify::new());
    let told = Arc::clone(&stop);
    let handler = move |control| match control {
        ServiceControl::Stop | ServiceControl::Shutdown => {
            told.notify_one();
            ServiceControlHandlerResult::NoError
        }
        ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
        _ => ServiceControlHandlerResult::NotImplemented,
    };
    let status = match service_control_handler::register(&duty.args.service, handler) {
        Ok(status) => status,
        Err(error) => {
            return tracing::error!(%error, "the service manager does not take this service");
        }
    };
    let say = |current_state, exit_code| {
        let controls_accepted = ServiceControlAccept::STOP | ServiceControlAccept::SHUTDOWN;
        let said = status.set_service_status(ServiceStatus {
            service_type: ServiceType::OWN_PROCESS,
            current_state,
            controls_accepted,
            exit_code: ServiceExitCode::Win32(exit_code),
            checkpoint: 0,
            wait_hint: Duration::ZERO,
            process_id: None,
        });
        if let Err(error) = said {
            tracing::error!(%error, "the service manager cannot be told of the service");
        }
    };
    say(ServiceState::Running, 0);

    // The service manager's own thread has a small stack, and a panic on it would end the process
    // without a message.
    let worker = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || work(duty, &stop));
    let worked = worker
        .map_err(|e| Failure::io("cannot start", &e))
        .and_then(|worker| {
            let broken = |_| {
                Failure::new(
                    Exit::Error,
                    "worker",
                    "the worker broke off",
                    "please report worker.log",
                )
            };
            worker.join().map_err(broken).flatten()
        });
    let code = match worked {
        Ok(()) => 0,
        Err(failure) => {
            tracing::error!("{}", failure.text());
            1
        }
    };
    say(ServiceState::Stopped, code);
}

fn work(duty: &Duty, stop: &Notify) -> Result<(), Failure> {
    let args = &duty.args;
    let config = super::worker::settings(args.config.as_deref(), args.slots, args.dedicated)?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Failure::io("cannot start", &e))?;
    runtime.block_on(async {
        let mut stop = std::pin::pin!(stop.notified());
        let home = duty.dir.join("identity");
        let identity = match &args.first_start {
            Some(file) => tokio::select! {
                joined = first_start::identity(&home, file) => joined?,
                () = &mut stop => return Ok(()),
            },
            None => link::Identity::load(&home)?,
        };
        let _end = worker::run(duty.dir.clone(), config, identity, stop).await?;
        Ok(())
    })
}
