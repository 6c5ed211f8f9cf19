//! Executes `deskgrid-lab reproduce`: writes a paper's results beside ours. The experiments and the
//! reports live in `papers`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cli::terminal::{
    Exit, Failure, OutputForm, OutputMode, failed, note, ready_for, threads, write, write_into,
};
use papers::liars;
use papers::report::{Brief, File, downey, gainaru, kondo, petrou, wozniak};
use serde::Serialize;

use super::bad_log;
use crate::args::{Paper, ReproduceArgs};

const REPORT: &str = "report.md";

#[derive(Serialize)]
struct ReproduceAnswer {
    paper: &'static str,
    out: String,
    files: Vec<String>,
}

/// Executes `deskgrid-lab reproduce`.
pub(super) fn run(out: &OutputForm, args: &ReproduceArgs) -> Result<Exit, Failure> {
    let paper = match args.paper {
        Paper::Kondo => "kondo",
        Paper::Downey => "downey",
        Paper::Gainaru => "gainaru",
        Paper::Wozniak => "wozniak",
        Paper::Petrou => "petrou",
        Paper::Liars => "liars",
    };
    let dir = args.out.clone().unwrap_or_else(|| PathBuf::from(paper));
    let report = dir.join(REPORT);
    check(args, paper, &dir)?;

    let talk = out.mode() == OutputMode::Cli;
    let mut say = |what: &str| {
        if talk {
            note(what);
        }
    };
    let brief = Brief {
        seed: args.seed,
        threads: threads(args.threads),
        quick: args.quick,
        runs: args.runs,
        log: args.log.clone(),
    };
    let files = match args.paper {
        Paper::Kondo => {
            kondo::reproduce(&kondo::Study::of(&brief), &mut say).map_err(|error| failed(&error))?
        }
        Paper::Gainaru => {
            gainaru::reproduce(&gainaru::Study::of(&brief), &mut say).map_err(bad_log)?
        }
        Paper::Downey => {
            downey::reproduce(&downey::Study::of(&brief), &mut say).map_err(bad_log)?
        }
        Paper::Wozniak => wozniak::reproduce(&wozniak::Study::of(&brief), &mut say),
        Paper::Petrou => petrou::reproduce(&petrou::Study::of(&brief), &mut say),
        Paper::Liars => liars::report(&liars::Study::of(&brief), &mut say),
    };

    write_into(&dir, args.force, |aside| {
        files
            .iter()
            .try_for_each(|File { name, text }| write(&aside.join(name), text))
    })?;

    let report = report.display().to_string();
    let answer = ReproduceAnswer {
        paper,
        out: dir.display().to_string(),
        files: files.into_iter().map(|file| file.name).collect(),
    };
    let text = || format!("{} files; read {report}", answer.files.len());
    out.show(&answer, text, || vec![report.clone()])?;

    Ok(Exit::Well)
}

/// Finds before the work what would be in its way after it, or what it would not heed.
fn check(args: &ReproduceArgs, paper: &str, dir: &Path) -> Result<(), Failure> {
    if args.log.is_some() && !matches!(args.paper, Paper::Gainaru | Paper::Downey) {
        return Err(Failure::usage(
            format!("reproduce {paper} reads no log"),
            "leave --log out; gainaru and downey read one",
        ));
    }

    ready_for(dir, args.force, &[REPORT])?;
    match of_another_run(dir)? {
        Some(there) if !args.force => Err(Failure::error(
            "exists",
            format!("{} is there already", there.display()),
            "write into another directory (--out), or use --force",
        )),
        _ => Ok(()),
    }
}

/// Returns the first of the report, the tables and the figures in a directory, of whatever run they are: the names of
/// those that are to come are known only after the work.
fn of_another_run(dir: &Path) -> Result<Option<PathBuf>, Failure> {
    let unread = |error| Failure::io(format!("cannot look into {}", dir.display()), &error);
    let is_ours = |path: &PathBuf| {
        let ending = path.extension().and_then(OsStr::to_str);
        path.file_name() == Some(OsStr::new(REPORT)) || matches!(ending, Some("csv" | "svg"))
    };

    let entries = std::fs::read_dir(dir).map_err(unread)?;
    let paths: std::io::Result<Vec<PathBuf>> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect();
    Ok(paths.map_err(unread)?.into_iter().filter(is_ours).min())
}
