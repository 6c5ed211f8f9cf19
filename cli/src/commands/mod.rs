//! Executes the commands of `deskgrid`, one module for each.

mod account;
mod cat;
mod config;
mod doctor;
mod failures;
mod fetch;
mod host;
mod identity;
mod job;
mod joblog;
mod judge;
mod login;
mod master;
#[cfg_attr(windows, path = "operations/none.rs")]
mod operations;
mod owner;
mod policy;
mod predict;
#[cfg(windows)]
mod scm;
#[cfg(unix)]
mod service;
mod simulate;
mod speculation;
mod submit;
mod task;
mod token;
mod trace;
mod width;
mod worker;

use clap::CommandFactory;
use tokio::runtime::{Builder, Runtime};

pub use simulate::{failed, threads, write};
pub(crate) use submit::new_request;

use crate::args::value::JoinWord;
use crate::args::{Cli, Commands, MasterCommand, WorkerCommand};
use crate::failure::{Exit, Failure};
use crate::logs;
use crate::output::OutputForm;
use crate::state::StateDir;

/// The settings that every command needs.
#[derive(Debug)]
pub(crate) struct Context {
    /// The state directory.
    pub state: StateDir,
    /// The state directory as the user gave it (`--dir` or `DESKGRID_DIR`), if at all.
    #[cfg(unix)]
    pub given_dir: Option<std::path::PathBuf>,
    /// The join token that the environment held.
    pub join: Option<JoinWord>,
    /// The form in which to print.
    pub out: OutputForm,
}

/// Executes the command of `cli`.
///
/// # Errors
/// If the command could not be executed.
pub(crate) fn run(cli: Cli, join: Option<JoinWord>) -> Result<Exit, Failure> {
    let Cli { global, command } = cli;
    let serving = matches!(
        command,
        Commands::Master(MasterCommand::Start(_)) | Commands::Worker(WorkerCommand::Start(_))
    );
    #[cfg(windows)]
    if matches!(command, Commands::Worker(WorkerCommand::Service(_))) {
        logs::of_service(StateDir::find(global.dir.as_deref())?.root());
    }

    logs::start(&global.printing, serving);
    let state = StateDir::find(global.dir.as_deref())?;
    let context = Context {
        state,
        join,
        out: OutputForm::new(&global.printing),
        #[cfg(unix)]
        given_dir: global.dir,
    };

    let runtime = runtime(&command)?;
    let result = runtime.block_on(async {
        let result = Box::pin(dispatch(&context, command)).await;
        crate::session::goodbye().await;
        result
    });

    // A thread that still reads from a terminal or a slow disk must not delay the end.
    runtime.shutdown_background();
    result
}

async fn dispatch(context: &Context, command: Commands) -> Result<Exit, Failure> {
    match command {
        Commands::Demo(args) => crate::demo::run(&context.out, &args).await,
        Commands::DemoTile(args) => crate::demo::tile::run(&args),
        Commands::Master(MasterCommand::Start(args)) => master::start(context, args).await,
        Commands::Master(MasterCommand::Wait { timeout }) => master::wait(context, timeout).await,
        Commands::Master(MasterCommand::Backup { to }) => operations::backup(context, &to),
        Commands::Master(MasterCommand::Check { no_content }) => {
            operations::check(context, !no_content)
        }
        Commands::Master(MasterCommand::Restore { from }) => operations::restore(context, &from),
        Commands::Master(MasterCommand::Config) => config::master(context),
        Commands::Worker(WorkerCommand::Config { like }) => config::worker(context, like),
        Commands::Worker(WorkerCommand::Start(args)) => worker::start(context, args).await,
        Commands::Worker(WorkerCommand::Status { why }) => owner::status(context, why).await,
        Commands::Worker(WorkerCommand::Pause { lasts }) => owner::pause(context, lasts).await,
        Commands::Worker(WorkerCommand::Resume) => owner::resume(context).await,
        #[cfg(unix)]
        Commands::Worker(WorkerCommand::Install(args)) => service::install(context, *args).await,
        #[cfg(unix)]
        Commands::Worker(WorkerCommand::Uninstall(args)) => service::uninstall(context, &args),
        Commands::Doctor(args) => doctor::run(context, &args).await,
        #[cfg(windows)]
        Commands::Worker(WorkerCommand::Install(args)) => {
            Box::pin(scm::install(context, *args)).await
        }
        #[cfg(windows)]
        Commands::Worker(WorkerCommand::Uninstall(args)) => scm::uninstall(context, &args),
        #[cfg(windows)]
        Commands::Worker(WorkerCommand::Service(args)) => scm::run(context, args),
        Commands::Master(MasterCommand::RotateCa { overlap }) => {
            master::rotate_ca(context, overlap)
        }
        Commands::Identity(command) => identity::run(context, command).await,
        Commands::Audit(args) => identity::audit(context, &args).await,
        Commands::Token(command) => token::run(context, command).await,
        Commands::Login(args) => login::run(context, args).await,
        Commands::Submit(args) => Box::pin(submit::run(context, *args)).await,
        Commands::Request(args) => speculation::request(context, args).await,
        Commands::Job(command) => job::run(context, command).await,
        Commands::Task(command) => task::run(context, command).await,
        Commands::Host(command) => host::run(context, command).await,
        Commands::Account(args) => account::run(context, args).await,
        Commands::Policy(command) => policy::run(context, command),
        Commands::Predict(command) => predict::run(context, &command).await,
        Commands::Simulate(args) => simulate::run(context, &args),
        Commands::Trace(command) => trace::run(context, command).await,
        Commands::Completions { shell } => completions(context, shell),
    }
}

/// Makes the runtime of a command: one thread where it only asks and prints, several where it
/// serves. A worker gets two on any PC: it must cost its owner little.
fn runtime(command: &Commands) -> Result<Runtime, Failure> {
    let mut builder = match command {
        Commands::Demo(_) | Commands::Master(_) | Commands::Worker(WorkerCommand::Start(_)) => {
            Builder::new_multi_thread()
        }
        _ => Builder::new_current_thread(),
    };
    if matches!(command, Commands::Worker(WorkerCommand::Start(_))) {
        builder.worker_threads(2);
    }

    builder
        .enable_all()
        .build()
        .map_err(|e| Failure::io("cannot start", &e))
}

fn completions(context: &Context, shell: clap_complete::Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "deskgrid", &mut script);
    context.out.bytes(&script)?;
    Ok(Exit::Well)
}

/// Returns when the user or the system wants the program to end.
pub(crate) async fn interrupted() {
    #[cfg(unix)]
    if let Ok(mut terminate) =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
    {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        return;
    }
    let _ = tokio::signal::ctrl_c().await;
}

/// Returns when the terminal is gone. Only for programs that are useless without one: a master
/// started with `nohup` must go on.
pub(crate) async fn hung_up() {
    #[cfg(unix)]
    if let Ok(mut hangup) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()) {
        hangup.recv().await;
        return;
    }
    std::future::pending::<()>().await;
}

/// Returns when the program is to shut down; with `tied` also when standard input ends.
pub(crate) async fn shutdown(tied: bool) {
    if !tied {
        return interrupted().await;
    }

    let (tx, rx) = tokio::sync::oneshot::channel::<()>();
    // A thread of its own: a read of standard input cannot be cancelled, and must not delay the
    // runtime's end.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        drop(tx);
    });

    tokio::select! {
        () = interrupted() => {}
        _ = rx => {}
    }
}
