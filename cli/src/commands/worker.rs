//! Executes `deskgrid worker start`.

use std::path::Path;

use common::token::Role;
use worker::WorkerEnd;
use worker::update::keeper::{self, KeeperEnd, ProgramKeeper};

use super::login::{Newcomer, identity, with_start};
use super::{Context, first_start, shutdown};
use crate::args::serve::WorkerArgs;
use crate::failure::{Exit, Failure};

/// Joins the grid if needed, then works until it is stopped.
pub(super) async fn start(context: &Context, args: WorkerArgs) -> Result<Exit, Failure> {
    let dir = context.state.worker();
    worker::repair(&dir);
    let (config, unfit) = match settings(args.config.as_deref(), args.slots, args.dedicated) {
        Ok(config) => (config, None),
        Err(unfit) => match for_keeper(&dir, args.config.as_deref()) {
            Some(config) => (config, Some(unfit)),
            None => return Err(unfit),
        },
    };

    let mut stop = std::pin::pin!(shutdown(args.tied));
    let home = dir.join("identity");
    let as_worker = |failure| with_start(failure, Role::Worker, "worker start", &home);
    let identity = match &args.first_start {
        Some(file) => tokio::select! {
            joined = first_start::identity(&home, file) => joined?,
            () = &mut stop => return Ok(Exit::Well),
        },
        None => {
            let joined = identity(&home, context, &args.enrol, Newcomer::Worker).await;
            joined.map_err(as_worker)?.0
        }
    };
    let keeper = ProgramKeeper::new(
        &dir,
        &config,
        identity.update_key,
        crate::handed::words_without_token(),
    );
    if let Some(ended) = kept(keeper.with_unfit_settings(unfit.is_some()), &mut stop).await {
        return ended;
    }
    if let Some(unfit) = unfit {
        return Err(unfit);
    }
    // A program that ran meanwhile may have renewed it.
    let identity = link::Identity::load(&home)?;
    if !args.dedicated {
        tracing::info!(
            why = "deskgrid worker status --why",
            at_once = "deskgrid worker start --dedicated",
            "tasks run while nobody uses this host"
        );
    }
    let works = worker::run(dir, config, identity, stop).await;
    match works.map_err(|error| as_worker(error.into()))? {
        WorkerEnd::Asked => Ok(Exit::Well),
        WorkerEnd::NewProgram => another_program(),
    }
}

/// Returns what this program needs of settings that it does not understand itself, where one from the master
/// that may run in its place is there to judge them.
fn for_keeper(dir: &Path, file: Option<&Path>) -> Option<worker::Config> {
    if keeper::installed().is_some() || !keeper::has_program(dir) {
        return None;
    }
    worker::Config::load_for_keeper(file?).ok()
}

/// Runs a newer program from the master in place of this one, where there is one that may run; returns how it
/// ended. `None`: this program works itself.
async fn kept(
    keeper: ProgramKeeper,
    stop: impl Future<Output = ()>,
) -> Option<Result<Exit, Failure>> {
    if keeper::tie() {
        return None;
    }

    match keeper.keep(stop).await {
        KeeperEnd::Installed => None,
        KeeperEnd::Ended(0) => Some(Ok(Exit::Well)),
        KeeperEnd::InUse(error) => Some(Err(error.into())),
        KeeperEnd::Ended(code) => std::process::exit(code),
    }
}

/// Starts anew, so that a program from the master is tried: by the keeper, if there is one.
fn another_program() -> Result<Exit, Failure> {
    if keeper::installed().is_some() {
        std::process::exit(keeper::ANOTHER);
    }
    crate::handed::start_anew()
        .map_err(|error| Failure::io("this program cannot start itself anew", &error))
}

/// Returns the settings in a file, or the defaults, with what flags override.
pub(super) fn settings(
    file: Option<&Path>,
    slots: Option<u32>,
    dedicated: bool,
) -> Result<worker::Config, Failure> {
    let mut config = file
        .map(worker::Config::load)
        .transpose()?
        .unwrap_or_default();
    config.slots = slots.unwrap_or(config.slots);
    if dedicated {
        config.owner = dedicated_config()?.owner;
    }

    Ok(config)
}

/// Returns the shipped settings of a PC that nobody sits at.
fn dedicated_config() -> Result<worker::Config, Failure> {
    super::config::DEDICATED
        .parse()
        .map_err(|error: toml::de::Error| Failure::error("internal", error.to_string(), ""))
}
