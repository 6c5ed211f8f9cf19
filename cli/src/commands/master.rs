//! Executes `deskgrid master`.

use std::time::{Duration, Instant};

use link::retry::Backoff;
use serde::Serialize;

use super::Context;
#[cfg(not(windows))]
use super::shutdown;
#[cfg(not(windows))]
use crate::args::serve::Http;
use crate::args::serve::MasterArgs;
use crate::args::value::Dur;
use crate::failure::{Exit, Failure};
use crate::session::Session;

#[derive(Serialize)]
struct Answers<'a> {
    master: &'a str,
}

/// Refuses: a master runs on Linux only.
#[cfg(windows)]
pub(super) async fn start(_: &Context, _: MasterArgs) -> Result<Exit, Failure> {
    let hint = "run it on Linux; workers and users can be on Windows";
    Err(Failure::usage(
        "this program was built for Windows, without the master",
        hint,
    ))
}

/// Serves until it is stopped.
#[cfg(not(windows))]
pub(super) async fn start(context: &Context, args: MasterArgs) -> Result<Exit, Failure> {
    let mut config = super::operations::config(args.config.as_deref())?;
    if let Some(listen) = args.listen {
        config.listen = listen;
    }

    match args.http {
        Some(Http::At(address)) => config.http = Some(address),
        Some(Http::Off) => config.http = None,
        None => {}
    }

    config.record = args.record.or(config.record);
    config.store = args.store.or(config.store);
    config.content = args.content.or(config.content);
    config.accept = master::Accept {
        store: args.accept_store,
        clock: args.accept_clock,
    };
    master::run(context.state.root().to_owned(), config, shutdown(args.tied)).await?;

    Ok(Exit::Well)
}

/// Refuses: a master runs on Linux only.
#[cfg(windows)]
pub(super) fn rotate_ca(_: &Context, _: Dur) -> Result<Exit, Failure> {
    Err(Failure::usage(
        "this program was built for Windows, without the master",
        "run it where the master runs",
    ))
}

/// Makes a new certificate authority.
#[cfg(not(windows))]
pub(super) fn rotate_ca(context: &Context, overlap: Dur) -> Result<Exit, Failure> {
    #[derive(Serialize)]
    struct Rotated {
        overlap_s: f64,
    }
    master::rotate_ca(context.state.root(), overlap.0)?;

    let text = || {
        let span = humantime::format_duration(overlap.0);
        format!(
            "there is a new CA; the one before is trusted for {span} more. Start the master again, and make a new backup: a \
             master that is restored from an older one does not know this CA, and those who have it then could not connect.\n"
        )
    };

    context.show(
        &Rotated {
            overlap_s: overlap.0.as_secs_f64(),
        },
        text,
        Vec::new,
    )
}

/// Waits until the master answers.
pub(super) async fn wait(context: &Context, timeout: Option<Dur>) -> Result<Exit, Failure> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout.0));
    let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let attempt = tokio::time::timeout(
            left.unwrap_or(Duration::from_secs(60)),
            Session::open(&context.state),
        );
        match attempt.await {
            Ok(Ok(session)) => {
                let document = Answers {
                    master: session.master(),
                };
                let text = || format!("the master at {} answers\n", session.master());
                return context.show(&document, text, Vec::new);
            }
            // Before the very first start is complete there is no identity yet; both states pass by
            // themselves.
            Ok(Err(failure))
                if matches!(failure.code, "no-identity" | "unreachable" | "unavailable") =>
            {
                if left.is_some_and(|left| left.is_zero()) {
                    return Err(timed_out(&failure.what));
                }
            }
            Ok(Err(failure)) => return Err(failure),
            Err(_) if deadline.is_none() => {}
            Err(_) => return Err(timed_out("it does not answer")),
        }

        tokio::time::sleep(left.map_or(backoff.delay(), |left| backoff.delay().min(left))).await;
    }
}

fn timed_out(because: &str) -> Failure {
    let hint = "is it running? its log says more; --dir must be the one it was started with";
    Failure::new(
        Exit::TimedOut,
        "timed-out",
        "the master did not answer in time",
        hint,
    )
    .because(because)
}
