//! The worker as a service that the service manager runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use windows_service::service::{
    ServiceControl, ServiceControlAccept, ServiceExitCode, ServiceState, ServiceStatus, ServiceType,
};
use windows_service::service_control_handler::{self, ServiceControlHandlerResult};
use windows_service::{define_windows_service, service_dispatcher};
use worker::admin;

use super::refused;
use crate::args::scm::RunArgs;
use crate::commands::{Context, first_start, worker as of_worker};
use crate::failure::{Exit, Failure};

/// The stack of the worker's thread, in bytes.
const STACK: usize = 8 << 20;
/// The time that work on files has for its end when the service stops.
const LAST_WORK: Duration = Duration::from_secs(2);

/// The arguments of the service: the program knows them, but the service manager calls a function
/// without any.
struct Duty {
    args: RunArgs,
    dir: PathBuf,
}

static DUTY: OnceLock<Duty> = OnceLock::new();

define_windows_service!(service_entry, service_main);

/// Runs as the service until the service manager ends it.
pub(in crate::commands) fn run(context: &Context, args: RunArgs) -> Result<Exit, Failure> {
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
    let version = common::update::program_version();
    tracing::info!(target: admin::STARTED, version, "the worker's service has started");

    // The service manager's own thread has a small stack, and a panic on it would end the process
    // without a message.
    let worker = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || work(duty, &stop));
    let worked = worker
        .map_err(|e| Failure::io("cannot start", &e))
        .and_then(|worker| {
            let broken =
                |_| Failure::error("worker", "the worker broke off", "please report worker.log");
            worker.join().map_err(broken).flatten()
        });
    let code = match worked {
        Ok(()) => {
            tracing::info!(target: admin::ENDED, "the worker's service has ended, as the system or an administrator asked");
            0
        }
        Err(failure) => {
            tracing::error!(target: admin::ENDED, "the worker's service has ended: {}", failure.text().trim_end());
            1
        }
    };
    say(ServiceState::Stopped, code);
}

fn work(duty: &Duty, stop: &Notify) -> Result<(), Failure> {
    let args = &duty.args;
    let config = of_worker::settings(args.config.as_deref(), args.slots, args.dedicated)?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Failure::io("cannot start", &e))?;

    let ended = runtime.block_on(async {
        let mut stop = std::pin::pin!(stop.notified());
        let home = duty.dir.join("identity");
        let identity = match &args.first_start {
            Some(file) => tokio::select! {
                joined = joins(&duty.dir, &home, file) => joined?,
                () = &mut stop => return Ok(()),
            },
            None => link::Identity::load(&home)?,
        };
        let _end = worker::run(duty.dir.clone(), config, identity, stop).await?;
        Ok(())
    });
    // Work on a file that hangs must not keep the service from stopping.
    runtime.shutdown_timeout(LAST_WORK);
    ended
}

/// Returns the identity, for which it waits until there is a file to join by: a service that ended
/// instead would be started again each minute.
async fn joins(dir: &Path, home: &Path, file: &Path) -> Result<link::Identity, Failure> {
    if !file.exists() && !link::Identity::found(home)? {
        first_start::arrival(dir, file).await;
    }
    first_start::identity(home, file).await
}
