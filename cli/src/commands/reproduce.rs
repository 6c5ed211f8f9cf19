//! `deskgrid reproduce`: a paper's results beside ours. What is not here: the experiments, and what the report says.

use serde::Serialize;
use simulator::liars;
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
    // Found out before the work, not after it.
    std::fs::create_dir_all(&args.out).map_err(|e| Failure::io(format!("cannot make {}", args.out.display()), &e))?;
    let talk = context.out.mode() == OutputMode::Cli;
    let mut tell = |what: &str| {
        if talk {
            note(what);
        }
    };
    let (paper, files) = match args.paper {
        Paper::Kondo => ("kondo", reproduce(&study(args), &mut tell).map_err(|error| failed(&error))?),
        Paper::Liars => ("liars", liars::report(&doubts(args), &mut tell)),
    };
    for File { name, text } in &files {
        write(&args.out.join(name), text)?;
    }
    let report = args.out.join("report.md").display().to_string();
    let names = files.iter().map(|file| file.name.clone()).collect();
    let answer = Answer { paper, out: args.out.display().to_string(), files: names };
    let text = || format!("{} files; read {report}", answer.files.len());
    context.out.show(&answer, text, || vec![report.clone()])?;
    Ok(Exit::Well)
}

fn doubts(args: &ReproduceArgs) -> liars::Study {
    let study = if args.quick { liars::Study::quick(args.seed) } else { liars::Study::full(args.seed) };
    liars::Study { crowds: args.runs.unwrap_or(study.crowds), ..study }
}

fn study(args: &ReproduceArgs) -> Study {
    let threads = threads(args.threads);
    let study = if args.quick { Study::quick(args.seed, threads) } else { Study::full(args.seed, threads) };
    match args.runs {
        Some(runs) => Study { runs: runs as usize, side_runs: study.side_runs.min(runs as usize), ..study },
        None => study,
    }
}
