//! Executes `deskgrid-lab reproduce`: writes a paper's results beside ours. The experiments and the
//! reports live in `papers`.

use std::path::PathBuf;

use cli::terminal::{Exit, Failure, Output, OutputMode, failed, note, threads, write};
use papers::liars;
use papers::report::kondo::{self, File};
use papers::report::{downey, gainaru, petrou, wozniak};
use serde::Serialize;

use crate::args::{Paper, ReproduceArgs};

#[derive(Serialize)]
struct Answer {
    paper: &'static str,
    out: String,
    files: Vec<String>,
}

/// Executes `deskgrid-lab reproduce`.
pub(super) fn run(out: &Output, args: &ReproduceArgs) -> Result<Exit, Failure> {
    let paper = match args.paper {
        Paper::Kondo => "kondo",
        Paper::Downey => "downey",
        Paper::Gainaru => "gainaru",
        Paper::Wozniak => "wozniak",
        Paper::Petrou => "petrou",
        Paper::Liars => "liars",
    };
    let dir = args.out.clone().unwrap_or_else(|| PathBuf::from(paper));

    // An unusable directory is better found before the work than after it.
    std::fs::create_dir_all(&dir)
        .map_err(|e| Failure::io(format!("cannot make {}", dir.display()), &e))?;
    let talk = out.mode() == OutputMode::Cli;
    let mut say = |what: &str| {
        if talk {
            note(what);
        }
    };
    let files = match args.paper {
        Paper::Kondo => {
            kondo::reproduce(&kondo_study(args), &mut say).map_err(|error| failed(&error))?
        }
        Paper::Gainaru => {
            gainaru::reproduce(&gainaru_study(args), &mut say).map_err(|error| bad_log(&error))?
        }
        Paper::Downey => {
            downey::reproduce(&downey_study(args), &mut say).map_err(|error| bad_log(&error))?
        }
        Paper::Wozniak => wozniak::reproduce(&wozniak_study(args), &mut say),
        Paper::Petrou => petrou::reproduce(&petrou_study(args), &mut say),
        Paper::Liars => liars::report(&liars_study(args), &mut say),
    };

    for File { name, text } in &files {
        write(&dir.join(name), text)?;
    }

    let report = dir.join("report.md").display().to_string();
    let names = files.iter().map(|file| file.name.clone()).collect();
    let answer = Answer {
        paper,
        out: dir.display().to_string(),
        files: names,
    };
    let text = || format!("{} files; read {report}", answer.files.len());
    out.show(&answer, text, || vec![report.clone()])?;

    Ok(Exit::Well)
}

fn bad_log(error: &dyn std::error::Error) -> Failure {
    let hint = "a log has a job on each line, 18 numbers, and comments behind `;` (Standard Workload Format)";
    Failure::usage("the log cannot be used", hint).because(error)
}

fn liars_study(args: &ReproduceArgs) -> liars::Study {
    let study = if args.quick {
        liars::Study::quick(args.seed)
    } else {
        liars::Study::full(args.seed)
    };
    liars::Study {
        crowds: args.runs.unwrap_or(study.crowds),
        ..study
    }
}

fn kondo_study(args: &ReproduceArgs) -> kondo::Study {
    let threads = threads(args.threads);
    let study = if args.quick {
        kondo::Study::quick(args.seed, threads)
    } else {
        kondo::Study::full(args.seed, threads)
    };
    match args.runs {
        Some(runs) => kondo::Study {
            runs: runs as usize,
            side_runs: study.side_runs.min(runs as usize),
            ..study
        },
        None => study,
    }
}

fn gainaru_study(args: &ReproduceArgs) -> gainaru::Study {
    let threads = threads(args.threads);
    let study = if args.quick {
        gainaru::Study::quick(args.seed, threads)
    } else {
        gainaru::Study::full(args.seed, threads)
    };
    gainaru::Study {
        runs: args.runs.map_or(study.runs, |runs| runs as usize),
        log: args.log.clone(),
        ..study
    }
}

fn petrou_study(args: &ReproduceArgs) -> petrou::Study {
    let threads = threads(args.threads);
    let study = if args.quick {
        petrou::Study::quick(args.seed, threads)
    } else {
        petrou::Study::full(args.seed, threads)
    };
    petrou::Study {
        repetitions: args.runs.unwrap_or(study.repetitions),
        ..study
    }
}

fn wozniak_study(args: &ReproduceArgs) -> wozniak::Study {
    let threads = threads(args.threads);
    let study = if args.quick {
        wozniak::Study::quick(args.seed, threads)
    } else {
        wozniak::Study::full(args.seed, threads)
    };
    wozniak::Study {
        repetitions: args.runs.unwrap_or(study.repetitions),
        ..study
    }
}

fn downey_study(args: &ReproduceArgs) -> downey::Study {
    let threads = threads(args.threads);
    let study = if args.quick {
        downey::Study::quick(args.seed, threads)
    } else {
        downey::Study::full(args.seed, threads)
    };
    downey::Study {
        runs: args.runs.unwrap_or(study.runs),
        log: args.log.clone(),
        ..study
    }
}
