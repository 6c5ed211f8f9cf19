//! `deskgrid reproduce`: a paper's results beside ours. What is not here: the experiments, and what the report says.

use serde::Serialize;
use simulator::report::kondo::{File, Study, reproduce};

use super::Context;
use super::simulate::{failed, threads, write};
use crate::args::OutputMode;
use crate::args::research::{Paper, ReproduceArgs};
use crate::failure::{Exit, Failure};
use crate::output::note;

#[derive(Serialize)]
struct Answer {
    paper: &'static str,
    out: String,
    files: Vec<String>,
}

/// Does what was asked for.
pub(super) fn run(context: &Context, args: &ReproduceArgs) -> Result<Exit, Failure> {
    let Paper::Kondo = args.paper;
    let study = study(args);
    // Found out before the work, not after it.
    std::fs::create_dir_all(&args.out).map_err(|e| Failure::io(format!("cannot make {}", args.out.display()), &e))?;
    let talk = context.out.mode() == OutputMode::Cli;
    let files = reproduce(&study, &mut |what| {
        if talk {
            note(what);
        }
    })
    .map_err(|error| failed(&error))?;
    for File { name, text } in &files {
        write(&args.out.join(name), text)?;
    }
    let report = args.out.join("report.md").display().to_string();
    let names = files.iter().map(|file| file.name.clone()).collect();
    let answer = Answer { paper: "kondo", out: args.out.display().to_string(), files: names };
    let text = || format!("{} files; read {report}", answer.files.len());
    context.out.show(&answer, text, || vec![report.clone()])?;
    Ok(Exit::Well)
}

fn study(args: &ReproduceArgs) -> Study {
    let threads = threads(args.threads);
    let study = if args.quick { Study::quick(args.seed, threads) } else { Study::full(args.seed, threads) };
    match args.runs {
        Some(runs) => Study { runs: runs as usize, side_runs: study.side_runs.min(runs as usize), ..study },
        None => study,
    }
}
