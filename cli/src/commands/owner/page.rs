//! Executes `deskgrid worker page`: serves the owner's page on this machine, for the one who may
//! speak with its worker, until the terminal goes away.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use api::{Coming, HttpBounds, Tickets, Who};
use common::owner::StatusReport;
use common::token::Role;
use dashboard::owner::{NoReport, OwnerDoor, PauseLength};
use tokio::time::Instant;
use worker::control::{self, ControlError, ControlRequest};

use super::{carry_out, failure};
use crate::args::serve::PageArgs;
use crate::commands::Context;
use crate::commands::browser::{WayIn, listen, private_dir};
use crate::failure::{Exit, Failure};

/// Serves until it is stopped.
pub(in crate::commands) async fn page(context: &Context, args: PageArgs) -> Result<Exit, Failure> {
    let dir = context.state.worker();
    match control::ask(&dir, &ControlRequest::Status).await {
        // A worker that was there will come again.
        Err(ControlError::NotRunning(_)) if dir.is_dir() => {}
        asked => drop(asked.map_err(|error| failure(error, &dir))?),
    }

    let private = private_dir()?;
    let (listener, port) = listen(args.port).await?;
    let tickets = Tickets::new(owner(), port).saying(
        "open the address that deskgrid worker page printed; press Enter there for a new one",
    );
    let tickets = Arc::new(tickets);
    let door = Arc::new(ControlDoor {
        dir,
        asked: Mutex::new(Instant::now()),
    });
    let pages = dashboard::owner::pages(door.clone());
    let site = api::site(tickets.clone(), pages);
    tokio::spawn(api::serve(listener, site, HttpBounds::default()));

    let way_in = WayIn {
        context,
        tickets: &tickets,
        socket: None,
        tied: args.tied,
    };
    let opens = (!args.no_open).then_some(private.path());
    way_in
        .stay(opens, door.unused(args.unused.map(|unused| unused.0)))
        .await?;
    Ok(Exit::Well)
}

/// The one who is let in: whoever may speak with the worker.
fn owner() -> Who {
    Who {
        user: "owner".to_owned(),
        role: Role::Client,
        id: uuid::Uuid::nil(),
        token: None,
    }
}

/// The worker behind its control socket.
struct ControlDoor {
    dir: PathBuf,
    /// The last time that the page was asked for.
    asked: Mutex<Instant>,
}

impl ControlDoor {
    fn last_asked(&self) -> Instant {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once nobody has asked for the page for so long.
    async fn unused(&self, patience: Option<Duration>) {
        let Some(patience) = patience else {
            return std::future::pending().await;
        };
        while self.last_asked().elapsed() < patience {
            tokio::time::sleep_until(self.last_asked() + patience).await;
        }
    }

    async fn turn(&self, ask: ControlRequest) -> Result<(), String> {
        let done = carry_out(&self.dir, &ask).await;
        done.map(drop).map_err(|error| told(&self.dir, error))
    }
}

/// Returns the reason of an error in words.
fn told(dir: &std::path::Path, error: ControlError) -> String {
    failure(error, dir).line()
}

impl OwnerDoor for ControlDoor {
    fn look(&self) -> Coming<'_, Result<StatusReport, NoReport>> {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Box::pin(async {
            let asked = control::ask(&self.dir, &ControlRequest::Status).await;
            asked.map_err(|error| match error {
                ControlError::NotRunning(dir) => NoReport::NotRunning(control::paused(&dir)),
                error => NoReport::Unknown(told(&self.dir, error)),
            })
        })
    }

    fn pause(&self, length: PauseLength) -> Coming<'_, Result<(), String>> {
        let end = match length {
            PauseLength::Hour => Some(SystemTime::now() + Duration::from_secs(3_600)),
            PauseLength::Today => {
                Some(UNIX_EPOCH + Duration::from_micros(worker::end_of_today().0))
            }
            PauseLength::Good => None,
        };
        let until = end.map(|end| humantime::format_rfc3339_millis(end).to_string());
        Box::pin(self.turn(ControlRequest::Pause { until }))
    }

    fn resume(&self) -> Coming<'_, Result<(), String>> {
        Box::pin(self.turn(ControlRequest::Resume))
    }
}
