//! Writes those parts of packages that are made from the programs themselves: man pages, completions
//! for shells, and the files of the worker's service. `./release` runs it; nothing of it is shipped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

/// The title above each page.
const MANUAL: &str = "deskgrid";

fn main() -> ExitCode {
    let Some(into) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("error: where to?\ntry: deskgrid-documents DIR");
        return ExitCode::from(2);
    };
    match write_all(&into) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!(
                "error: {} cannot be written\nbecause: {error}",
                into.display()
            );
            ExitCode::FAILURE
        }
    }
}

/// Writes the trees `deskgrid` and `deskgrid-worker`, each as it lies below the root of a machine.
fn write_all(into: &Path) -> io::Result<()> {
    let whole = into.join("deskgrid");
    let mut pages = cli::packaged::whole_command();
    pages.build();
    write_pages(&pages, "1", &whole.join("usr/share/man/man1"))?;
    write_completions(cli::packaged::completed_command(), "deskgrid", &whole)?;

    let worker = into.join("deskgrid-worker");
    let mut pages = cli::packaged::worker_command();
    pages.build();
    write_pages(&pages, "8", &worker.join("usr/share/man/man8"))?;
    write_completions(cli::packaged::worker_command(), "deskgrid-worker", &worker)?;
    for (path, text) in cli::packaged::service_files() {
        write(&worker.join(path), text.as_bytes())?;
    }

    Ok(())
}

/// Writes the page of a command, and those of all below it.
fn write_pages(command: &Command, section: &str, into: &Path) -> io::Result<()> {
    let below = command.get_subcommands();
    for sub in below.filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        write_pages(sub, section, into)?;
    }

    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name());
    let mut page = Vec::new();
    let version = format!("deskgrid {}", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone())
        .section(section)
        .source(version)
        .manual(MANUAL)
        .render(&mut page)?;
    write(&into.join(format!("{name}.{section}")), &page)
}

/// Writes the completions for each shell, where its distribution looks for them.
fn write_completions(mut command: Command, name: &str, root: &Path) -> io::Result<()> {
    let places = [
        (
            Shell::Bash,
            format!("usr/share/bash-completion/completions/{name}"),
        ),
        (
            Shell::Zsh,
            format!("usr/share/zsh/vendor-completions/_{name}"),
        ),
        (
            Shell::Fish,
            format!("usr/share/fish/vendor_completions.d/{name}.fish"),
        ),
    ];
    for (shell, path) in places {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command, name, &mut script);
        write(&root.join(path), &script)?;
    }

    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(path, bytes)
}
