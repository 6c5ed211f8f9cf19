//! Executes the commands of `deskgrid`, one module for each.

#[cfg(feature = "whole")]
mod account;
#[cfg(feature = "whole")]
mod add;
#[cfg(feature = "whole")]
mod bridge;
#[cfg(feature = "whole")]
mod browser;
#[cfg(feature = "whole")]
mod cat;
mod config;
#[cfg(feature = "whole")]
mod content;
#[cfg(feature = "whole")]
mod dashboard;
#[cfg(feature = "whole")]
mod doctor;
#[cfg(feature = "whole")]
mod events;
#[cfg(feature = "whole")]
mod failures;
#[cfg(feature = "whole")]
mod fetch;
mod first_start;
#[cfg(feature = "whole")]
mod gateway;
#[cfg(feature = "whole")]
mod group;
#[cfg(feature = "whole")]
mod host;
#[cfg(feature = "whole")]
mod host_settings;
#[cfg(feature = "whole")]
mod host_update;
#[cfg(feature = "whole")]
mod identity;
#[cfg(feature = "whole")]
mod job;
#[cfg(feature = "whole")]
mod joblog;
#[cfg(feature = "whole")]
mod judge;
mod login;
#[cfg(feature = "whole")]
mod master;
#[cfg(feature = "whole")]
mod masters;
#[cfg_attr(windows, path = "operations/none.rs")]
#[cfg(feature = "whole")]
mod operations;
mod owner;
#[cfg(feature = "whole")]
mod package;
#[cfg(feature = "whole")]
mod policy;
#[cfg(feature = "whole")]
mod predict;
#[cfg(windows)]
mod scm;
#[cfg(unix)]
mod service;
mod service_plan;
#[cfg(feature = "whole")]
mod simulate;
#[cfg(feature = "whole")]
mod speculation;
#[cfg(feature = "whole")]
mod submit;
#[cfg(feature = "whole")]
mod tail;
#[cfg(feature = "whole")]
mod task;
#[cfg(feature = "whole")]
mod token;
#[cfg(feature = "whole")]
pub(crate) mod top;
#[cfg(feature = "whole")]
mod trace;
#[cfg(feature = "whole")]
mod unconfirmed;
#[cfg(feature = "whole")]
mod width;
mod work;
mod worker;

use std::pin::Pin;

use serde::Serialize;
use tokio::runtime::{Builder, Runtime};

#[cfg(feature = "whole")]
pub(crate) use group::{nothing_is_left, nothing_left};
#[cfg(feature = "whole")]
pub use simulate::{failed, threads, write};
#[cfg(feature = "whole")]
pub(crate) use submit::new_request;

#[cfg(feature = "whole")]
use crate::args::content::ContentCommand;
use crate::args::serve::PageArgs;
use crate::args::value::JoinWord;
#[cfg(feature = "whole")]
use crate::args::{BridgeCommand, Cli, Commands, Deferred, GatewayCommand, MasterCommand};
use crate::args::{Global, WorkerCli, WorkerCommand, WorkerOnly};
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
    pub given_dir: Option<std::path::PathBuf>,
    /// The join token that the environment held.
    pub join: Option<JoinWord>,
    /// The form in which to print.
    pub out: OutputForm,
    /// Serves the owner's page; none in the program for PCs that only work, which a web server
    /// would make larger by a tenth.
    pub page: Option<PageCommand>,
}

impl Context {
    /// Prints the one value of a command that ends well, as [`OutputForm::show`] does.
    ///
    /// # Errors
    /// If standard output cannot be written.
    fn show<T: Serialize>(
        &self,
        json: &T,
        text: impl FnOnce() -> String,
        ids: impl FnOnce() -> Vec<String>,
    ) -> Result<Exit, Failure> {
        self.out.show(json, text, ids)?;
        Ok(Exit::Well)
    }
}

/// A function that executes `deskgrid worker page`.
pub(crate) type PageCommand = for<'a> fn(&'a Context, PageArgs) -> Executing<'a>;
/// A command that is being executed.
type Executing<'a> = Pin<Box<dyn Future<Output = Result<Exit, Failure>> + 'a>>;

/// Executes the command of `cli`.
///
/// # Errors
/// If the command could not be executed.
#[cfg(feature = "whole")]
pub(crate) fn run(cli: Cli, join: Option<JoinWord>) -> Result<Exit, Failure> {
    let Cli { global, command } = cli;
    let serving = matches!(
        command,
        Commands::Master(Deferred(MasterCommand::Start(_)))
            | Commands::Worker(Deferred(WorkerCommand::Start(_)))
            | Commands::Gateway(_)
            | Commands::Bridge(_)
    );
    #[cfg(windows)]
    if let Commands::Worker(Deferred(WorkerCommand::Service(args))) = &command {
        logs::of_service(StateDir::find(global.dir.as_deref())?.root(), &args.service);
    }

    let page: PageCommand = |context, args| Box::pin(owner::page(context, args));
    let context = prepare(global, join, serving, Some(page))?;
    let runtime = match &command {
        Commands::Demo(_) | Commands::Master(_) | Commands::Gateway(_) => runtime(Threads::All)?,
        Commands::Worker(Deferred(command)) => runtime(Threads::of_worker(command))?,
        Commands::Dashboard(_) | Commands::Bridge(_) => runtime(Threads::Two)?,
        _ => runtime(Threads::One)?,
    };
    finish(runtime, dispatch(&context, command))
}

/// Executes the command of a program for PCs that only work.
///
/// # Errors
/// If the command could not be executed.
pub(crate) fn run_worker_only(cli: WorkerCli, join: Option<JoinWord>) -> Result<Exit, Failure> {
    let WorkerCli { global, command } = cli;
    let (WorkerOnly::Plain(command) | WorkerOnly::Worker(command)) = command;
    let serving = matches!(command, WorkerCommand::Start(_));
    #[cfg(windows)]
    if let WorkerCommand::Service(args) = &command {
        logs::of_service(StateDir::find(global.dir.as_deref())?.root(), &args.service);
    }

    let context = prepare(global, join, serving, None)?;
    let runtime = runtime(Threads::of_worker(&command))?;
    finish(runtime, work(&context, command))
}

/// Starts the log and finds the state directory.
fn prepare(
    global: Global,
    join: Option<JoinWord>,
    serving: bool,
    page: Option<PageCommand>,
) -> Result<Context, Failure> {
    logs::start(&global.printing, serving);
    let state = StateDir::find(global.dir.as_deref())?;
    Ok(Context {
        state,
        join,
        out: OutputForm::new(&global.printing),
        page,
        given_dir: global.dir,
    })
}

/// Runs a command to its end.
fn finish(
    runtime: Runtime,
    command: impl Future<Output = Result<Exit, Failure>>,
) -> Result<Exit, Failure> {
    let result = runtime.block_on(async {
        let result = Box::pin(command).await;
        crate::session::goodbye().await;
        result
    });

    // A thread that still reads from a terminal or a slow disk must not delay the end.
    runtime.shutdown_background();
    match result {
        Err(failure) if failure.is_unread() => Ok(failure.exit),
        result => result,
    }
}

#[cfg(feature = "whole")]
async fn dispatch(context: &Context, command: Commands) -> Result<Exit, Failure> {
    match command {
        Commands::Demo(Deferred(args)) => crate::demo::run(&context.out, &args).await,
        Commands::DemoTile(Deferred(args)) => crate::demo::tile::run(&args),
        Commands::Master(Deferred(command)) => of_master(context, command).await,
        Commands::Worker(Deferred(command)) => work(context, command).await,
        Commands::Gateway(Deferred(GatewayCommand::Start(args))) => {
            gateway::start(context, args).await
        }
        Commands::Bridge(Deferred(BridgeCommand::Start(args))) => {
            bridge::start(context, args).await
        }
        Commands::Doctor(Deferred(args)) => doctor::run(context, &args).await,
        Commands::Identity(Deferred(command)) => identity::run(context, command).await,
        Commands::Audit(Deferred(args)) => identity::audit(context, &args).await,
        Commands::Token(Deferred(command)) => token::run(context, command).await,
        Commands::Package(Deferred(args)) => package::run(context, *args).await,
        Commands::Login(Deferred(args)) => login::run(context, args).await,
        Commands::Submit(Deferred(args)) => Box::pin(submit::run(context, *args)).await,
        Commands::Request(Deferred(args)) => speculation::request(context, args).await,
        Commands::Job(Deferred(command)) => job::run(context, command).await,
        Commands::Content(Deferred(ContentCommand::Send(args))) => {
            content::send(context, args).await
        }
        Commands::Task(Deferred(command)) => task::run(context, command).await,
        Commands::Events(Deferred(args)) => events::run(context, args).await,
        Commands::Dashboard(Deferred(args)) => dashboard::run(context, args).await,
        Commands::Top(Deferred(args)) => Box::pin(top::run(context, args)).await,
        Commands::Host(Deferred(command)) => host::run(context, command).await,
        Commands::Account(Deferred(args)) => account::run(context, args).await,
        Commands::Policy(Deferred(command)) => policy::run(context, command),
        Commands::Predict(Deferred(command)) => predict::run(context, &command).await,
        Commands::Simulate(Deferred(args)) => simulate::run(context, &args),
        Commands::Trace(Deferred(command)) => trace::run(context, command).await,
        Commands::Completions { shell } => completions(context, shell),
    }
}

/// Executes a command of the master.
#[cfg(feature = "whole")]
async fn of_master(context: &Context, command: MasterCommand) -> Result<Exit, Failure> {
    match command {
        MasterCommand::Start(args) => master::start(context, args).await,
        MasterCommand::Wait { timeout } => master::wait(context, timeout).await,
        MasterCommand::Status => masters::status(context).await,
        MasterCommand::HandOver => masters::hand_over(context).await,
        MasterCommand::Backup { to, places } => operations::backup(context, &to, places).await,
        MasterCommand::Check { no_content, places } => {
            operations::check(context, places, !no_content)
        }
        MasterCommand::Restore { from } => operations::restore(context, &from).await,
        MasterCommand::Move { to, from } => {
            operations::transfer(context, to.as_deref(), from.as_deref())
        }
        MasterCommand::Config => config::master(context),
        MasterCommand::RotateCa { overlap } => master::rotate_ca(context, overlap),
    }
}

/// Executes a command of the worker.
async fn work(context: &Context, command: WorkerCommand) -> Result<Exit, Failure> {
    match command {
        WorkerCommand::Config { like } => config::worker(context, like),
        WorkerCommand::Start(args) => worker::start(context, args).await,
        WorkerCommand::Status { why } => owner::status(context, why).await,
        WorkerCommand::Pause { lasts } => owner::pause(context, lasts).await,
        WorkerCommand::Resume => owner::resume(context).await,
        WorkerCommand::Page(args) => match context.page {
            Some(page) => page(context, args).await,
            None => Err(no_page()),
        },
        #[cfg(unix)]
        WorkerCommand::Install(args) => service::install(context, *args).await,
        #[cfg(unix)]
        WorkerCommand::Uninstall(args) => service::uninstall(context, &args),
        #[cfg(windows)]
        WorkerCommand::Install(args) => Box::pin(scm::install(context, *args)).await,
        #[cfg(windows)]
        WorkerCommand::Uninstall(args) => scm::uninstall(context, &args),
        #[cfg(windows)]
        WorkerCommand::Service(args) => scm::run(context, args),
    }
}

/// The failure of a program without the page.
fn no_page() -> Failure {
    let what = "this program has the worker's commands alone, without the page";
    let hint = "use `worker status`, `pause` and `resume`, or run `worker page` of the whole deskgrid on this PC";
    Failure::error("no-page", what, hint)
}

/// The number of threads that a command gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Threads {
    One,
    Two,
    /// One for each processor.
    All,
}

impl Threads {
    fn of_worker(command: &WorkerCommand) -> Self {
        match command {
            WorkerCommand::Start(_) => Self::Two,
            _ => Self::One,
        }
    }
}

/// Makes the runtime of a command: one thread where it only asks and prints, several where it
/// serves. A worker gets two on any PC: it must cost its owner little.
fn runtime(threads: Threads) -> Result<Runtime, Failure> {
    let mut builder = match threads {
        Threads::One => Builder::new_current_thread(),
        Threads::Two | Threads::All => Builder::new_multi_thread(),
    };
    if threads == Threads::Two {
        builder.worker_threads(2);
    }

    builder
        .enable_all()
        .build()
        .map_err(|e| Failure::io("cannot start", &e))
}

/// Adds the names of policies to the values that a shell completes. The flags take more than these:
/// parameters, too, and `simulate` a list.
#[cfg(feature = "whole")]
pub(crate) fn with_policies(command: clap::Command) -> clap::Command {
    let shows = command.get_name() == "show";
    let command = command.mut_args(|arg| match arg.get_id().as_str() {
        "policy" => with_names(arg),
        "name" if shows => with_names(arg),
        _ => arg,
    });
    command.mut_subcommands(with_policies)
}

#[cfg(feature = "whole")]
fn with_names(arg: clap::Arg) -> clap::Arg {
    let names = scheduler::catalogue().iter().map(|policy| policy.name);
    arg.value_parser(clap::builder::PossibleValuesParser::new(names))
}

#[cfg(feature = "whole")]
fn completions(context: &Context, shell: clap_complete::Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    let mut command = with_policies(crate::args::whole_command());
    clap_complete::generate(shell, &mut command, "deskgrid", &mut script);
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

/// Runs `work` until it is done or the program is to end. Once [`interrupted`] has been asked, the system's own way to end a
/// program is gone for good: what can take long after it has to be run by this, too.
pub(crate) async fn interruptible<T>(
    work: impl Future<Output = Result<T, Failure>>,
    failure: impl FnOnce() -> Failure,
) -> Result<T, Failure> {
    tokio::select! {
        done = work => done,
        () = interrupted() => Err(failure()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "whole")]
    #[test]
    fn each_shell_completes_the_names_of_policies() {
        for shell in [
            clap_complete::Shell::Bash,
            clap_complete::Shell::Zsh,
            clap_complete::Shell::Fish,
        ] {
            let mut script = Vec::new();
            let mut command = with_policies(crate::args::whole_command());
            clap_complete::generate(shell, &mut command, "deskgrid", &mut script);

            let script = String::from_utf8(script).expect("UTF-8");
            for policy in scheduler::catalogue() {
                // For submit and simulate; most shells complete the argument of policy show, too.
                let times = script.matches(policy.name).count();
                assert!(times >= 2, "{shell}: {} {times} times", policy.name);
            }
        }
    }
}
