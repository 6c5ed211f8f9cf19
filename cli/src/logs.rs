//! Sets up logging to standard error, as text for people or as JSON lines; that of a service goes
//! to a file, and what an admin must see of it to the system's event log, too.

#[cfg(any(windows, test))]
pub(crate) mod events;
#[cfg(any(windows, test))]
mod service;

use tracing_subscriber::EnvFilter;

use crate::args::Printing;

/// Returns the filter of log lines; `DESKGRID_LOG` replaces it.
fn filter(level: &str) -> EnvFilter {
    // The libraries below log warnings only: a line for every packet would drown a job's story.
    let usual = format!(
        "{level},quinn=warn,quinn_proto=warn,quinn_udp=error,rustls=warn,hyper=warn,hyper_util=warn,\
         object_store=warn"
    );
    EnvFilter::try_from_env("DESKGRID_LOG").unwrap_or_else(|_| EnvFilter::new(usual))
}

/// Starts logging of the service of this name into `worker.log` in `dir`, since it has no standard
/// error, and into the system's event log.
#[cfg(windows)]
pub(crate) fn of_service(dir: &std::path::Path, name: &str) {
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;

    let file = service::ServiceLog::open(&dir.join("worker.log")).ok();
    let file = file.map(|log| {
        tracing_subscriber::fmt::layer()
            .with_target(false)
            .with_ansi(false)
            .with_writer(std::sync::Mutex::new(log))
            .with_filter(filter("info"))
    });

    let source = events::source_of(name);
    let events = events::layer(move |level, id, text| {
        // It stands in the file in any case.
        let _ = worker::admin::report(&source, level, id, text);
    });
    let _ = tracing_subscriber::registry()
        .with(file)
        .with(events)
        .try_init();
}

/// Starts logging. With `serving` (the program serves until it is stopped) the usual level is
/// `info`, else `warn`.
pub(crate) fn start(printing: &Printing, serving: bool) {
    let level = match (printing.verbose, serving) {
        (0, false) => "warn",
        (0, true) | (1, false) => "info",
        _ => "debug",
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(level))
        .with_writer(std::io::stderr);

    // Fails only if logging was started before; then that one continues.
    let _ = if printing.log_json {
        builder.json().try_init()
    } else {
        let ansi = match printing.color {
            clap::ColorChoice::Always => true,
            clap::ColorChoice::Never => false,
            clap::ColorChoice::Auto => std::io::IsTerminal::is_terminal(&std::io::stderr()),
        };
        builder
            .with_target(false)
            .with_ansi(ansi && std::env::var_os("NO_COLOR").is_none())
            .try_init()
    };
}
