//! Executes `deskgrid trace`, which handles the availability of hosts. Statistics live in
//! `simulator::stats`, formats other than Parquet in `simulator::trace`.

mod convert;
mod parquet;
mod recorded;
mod stats;

use std::path::Path;

use common::Time;
use simulator::trace::{Trace, TraceError};

use super::Context;
use crate::args::TraceCommand;
use crate::args::trace::{PartArgs, Read};
use crate::failure::{Exit, Failure};
use crate::output::when;

/// Executes one verb of `deskgrid trace`.
pub(super) async fn run(context: &Context, command: TraceCommand) -> Result<Exit, Failure> {
    match command {
        TraceCommand::Export(args) => convert::export(context, &args).await,
        TraceCommand::Import(args) => convert::import(context, &args),
        TraceCommand::Stats(args) => stats::run(context, &args).await,
    }
}

/// Reads a trace in one of the formats.
fn read(format: Read, path: &Path) -> Result<Trace, Failure> {
    let (read, hint) = match format {
        Read::Csv => return Trace::read(path).map_err(|why| unusable(&why)),
        Read::Fta => (
            Trace::read_fta(path),
            "lines of event_trace have 9 fields between tabulators: event, component, node, platform, name, type \
             (0 or 1), start, stop (seconds since 1970), end reason; order those of a node by time",
        ),
        Read::Avt => (
            Trace::read_avt(path),
            "each line is: host number-of-intervals up1 down1 ... upn downn, in seconds",
        ),
        Read::Boinc => (
            Trace::read_boinc(path),
            "each line is: seconds-since-1970 event; the file is time_stats_log in BOINC's data directory",
        ),
        Read::Activitywatch => (
            Trace::read_activitywatch(path),
            "in ActivityWatch, open Raw Data and export the bucket aw-watcher-afk as JSON",
        ),
    };

    read.map_err(|why| Failure::usage("the trace cannot be used", hint).because(why))
}

/// The refusal of a trace, with a description of a valid one.
pub(super) fn unusable(why: &TraceError) -> Failure {
    let hint = "a trace is a directory with hosts.csv (host,clock_mhz) and availability.csv \
                (host,start_s,end_s,host_available,cpu_fraction), without gaps; deskgrid trace import makes one of other \
                formats";
    Failure::usage("the trace cannot be used", hint).because(why)
}

/// The refusal of a name that is none of these.
pub(super) fn unknown(what: &str, name: &str, names: &[&str]) -> Failure {
    let hint = format!("one of {}", names.join(", "));
    Failure::usage(format!("there is no {what} `{name}`"), hint)
}

/// Returns the interval of time that was asked for.
fn window(part: &PartArgs) -> Result<(Time, Time), Failure> {
    let now = when::now();
    let since = part.since.map_or(Time(0), |since| since.time(now));
    let until = part.until.map_or(now, |until| until.time(now));

    if since >= until {
        let what = format!(
            "--since {} is not before --until {}",
            when::iso(since),
            when::iso(until)
        );
        return Err(Failure::usage(
            what,
            "give an earlier --since, or a later --until",
        ));
    }

    Ok((since, until))
}

/// Cuts a trace to the interval and the hosts that were asked for.
fn part(mut trace: Trace, part: &PartArgs) -> Result<Trace, Failure> {
    if let Some(name) = part
        .hosts
        .iter()
        .find(|name| trace.hosts.iter().all(|host| host.name != **name))
    {
        let hint = "the names of hosts stand in the trace's own files";
        return Err(Failure::usage(
            format!("the trace has no host `{name}`"),
            hint,
        ));
    }

    if !part.hosts.is_empty() {
        trace.hosts.retain(|host| part.hosts.contains(&host.name));
    }
    if part.since.is_none() && part.until.is_none() {
        return Ok(trace);
    }

    if trace.origin_s == 0 {
        let hint = "its times count from its own start: leave --since and --until out";
        return Err(Failure::usage(
            "nobody knows when this trace was recorded",
            hint,
        ));
    }

    let (since, until) = window(part)?;
    let second = |time: Time| time.secs() - trace.origin_s as f64;
    let cut = trace.between(second(since), second(until));

    if cut.hosts.iter().all(|host| host.segments.is_empty()) {
        return Err(Failure::usage(
            "the trace has nothing in that time",
            "give other times",
        ));
    }

    Ok(cut)
}
