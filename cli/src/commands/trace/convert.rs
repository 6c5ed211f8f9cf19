//! Executes `deskgrid trace export` and `trace import`.

use std::path::Path;

use serde::Serialize;
use simulator::trace::{Trace, TraceError};

use super::super::Context;
use super::{parquet, part, read, recorded};
use crate::args::trace::{ExportArgs, ImportArgs, TraceFormat};
use crate::failure::{Exit, Failure};
use crate::files;
use crate::output::when;

/// The answer: the written trace.
#[derive(Serialize)]
struct ConvertAnswer {
    format: &'static str,
    out: String,
    hosts: usize,
    segments: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
}

/// Writes the master's record, or an existing trace, in another format.
pub(super) async fn export(context: &Context, args: &ExportArgs) -> Result<Exit, Failure> {
    let trace = match &args.from {
        Some(path) => part(read(args.from_format, path)?, &args.part)?,
        None => recorded::trace(context, &args.part).await?,
    };
    write(&trace, args.format, &args.out, args.force)?;
    tell(context, &trace, args.format, &args.out)
}

/// Converts a foreign trace to hosts.csv and availability.csv.
pub(super) fn import(context: &Context, args: &ImportArgs) -> Result<Exit, Failure> {
    let trace = read(args.format, &args.path)?;
    write(&trace, TraceFormat::Csv, &args.out, args.force)?;
    tell(context, &trace, TraceFormat::Csv, &args.out)
}

fn write(trace: &Trace, format: TraceFormat, out: &Path, force: bool) -> Result<(), Failure> {
    files::write_into(out, force, |aside| write_format(trace, format, aside))
}

fn write_format(trace: &Trace, format: TraceFormat, out: &Path) -> Result<(), Failure> {
    let unwritable = |why: TraceError| match why {
        TraceError::Io { file, source } => Failure::cannot("write", &file, &source),
        why => Failure::usage(
            "the trace cannot be written",
            "choose another format, or --hosts",
        )
        .because(why),
    };

    let written = match format {
        TraceFormat::Fta => trace.write_fta(out),
        TraceFormat::Avt => trace.write_avt(&out.join("availability.avt")),
        TraceFormat::Simgrid => trace.write_simgrid(out),
        TraceFormat::Csv => trace.write(out),
        TraceFormat::Parquet => {
            let file = out.join("availability.parquet");
            return parquet::write(trace, &file).map_err(|why| {
                let what = format!("cannot write {}", file.display());
                Failure::error("io", what, "is there room on the disk?").because(why)
            });
        }
    };
    written.map_err(unwritable)
}

fn tell(
    context: &Context,
    trace: &Trace,
    format: TraceFormat,
    out: &Path,
) -> Result<Exit, Failure> {
    let at = |s: f64| {
        let micros = trace.origin_s as f64 * 1e6 + s * 1e6;
        (trace.origin_s != 0).then(|| when::iso(common::Time(micros.max(0.0) as u64)))
    };
    let answer = ConvertAnswer {
        format: format.word(),
        out: out.display().to_string(),
        hosts: trace.hosts.len(),
        segments: trace.hosts.iter().map(|host| host.segments.len()).sum(),
        since: at(0.0),
        until: at(trace.end_s()),
    };

    let text = || {
        let ConvertAnswer {
            hosts,
            segments,
            out,
            ..
        } = &answer;
        format!("{hosts} hosts with {segments} segments are in {out}")
    };
    context.show(&answer, text, || vec![answer.out.clone()])
}
