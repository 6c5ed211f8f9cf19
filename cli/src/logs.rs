//! Logs, on standard error: for people, or as JSON lines.

use tracing_subscriber::EnvFilter;

use crate::args::Global;

/// Starts logging. `serving`: the program serves until it is stopped, and what it does is worth a line.
pub(crate) fn start(global: &Global, serving: bool) {
    let level = match (global.verbose, serving) {
        (0, false) => "warn",
        (0, true) | (1, false) => "info",
        _ => "debug",
    };
    // The libraries below speak up only when something is wrong: their every packet would drown a job's story.
    let usual = format!("{level},quinn=warn,quinn_proto=warn,quinn_udp=error,rustls=warn,hyper=warn,hyper_util=warn");
    let filter = EnvFilter::try_from_env("DESKGRID_LOG").unwrap_or_else(|_| EnvFilter::new(usual));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Fails only if logging was started before, and then it goes on as it was.
    let _ = if global.log_json {
        builder.json().try_init()
    } else {
        let ansi = match global.color {
            clap::ColorChoice::Always => true,
            clap::ColorChoice::Never => false,
            clap::ColorChoice::Auto => std::io::IsTerminal::is_terminal(&std::io::stderr()),
        };
        builder.with_target(false).with_ansi(ansi && std::env::var_os("NO_COLOR").is_none()).try_init()
    };
}
