//! Finds the command of a launch on Windows: the program file, its arguments and environment; and
//! explains a failure, for people.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use windows_sys::Win32::Foundation::ERROR_BAD_EXE_FORMAT;

use super::spawn::{FoundCommand, nowhere};
use crate::os::Launch;

/// The endings that a program's name may leave out.
const ENDINGS: [&str; 4] = ["exe", "com", "bat", "cmd"];
/// The variables that the system's own libraries look for in any environment.
const SYSTEM: [&str; 8] = [
    "SystemRoot",
    "SystemDrive",
    "windir",
    "ComSpec",
    "PATHEXT",
    "NUMBER_OF_PROCESSORS",
    "PROCESSOR_ARCHITECTURE",
    "OS",
];
/// The Windows names of the variables that programs expect for `TMPDIR` and `HOME`.
const ALIASES: [(&str, &str); 3] = [
    ("TEMP", "TMPDIR"),
    ("TMP", "TMPDIR"),
    ("USERPROFILE", "HOME"),
];

/// Finds the command and all that it is given but its outputs. The error is for people.
pub(super) fn find(launch: &Launch) -> Result<FoundCommand, String> {
    let dir = PathBuf::from(&launch.dir);
    let name = launch
        .argv
        .first()
        .filter(|name| !name.is_empty())
        .ok_or("the command is empty")?;
    let program = find_program(name, &dir, value(launch, "PATH").unwrap_or(""))?;

    let of_system = SYSTEM
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), std::env::var_os(key)?)));
    let aliases = ALIASES
        .iter()
        .filter_map(|(key, as_in)| Some(((*key).to_owned(), value(launch, as_in)?.into())));
    let own = launch
        .env
        .iter()
        .map(|(key, value)| (key.clone(), value.into()));
    let env = of_system.chain(aliases).chain(own).collect();

    let stdin = match &launch.stdin {
        None => nowhere().map_err(|e| format!("no empty input can be had: {e}"))?,
        Some(name) => {
            let file = File::open(dir.join(name));
            file.map_err(|e| format!("its standard input `{name}` cannot be opened: {e}"))?
                .into()
        }
    };
    Ok(FoundCommand {
        program,
        arguments: launch.argv[1..].to_vec(),
        env,
        dir,
        stdin,
    })
}

fn value<'a>(launch: &'a Launch, key: &str) -> Option<&'a str> {
    launch
        .env
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(key))
        .map(|(_, value)| &**value)
}

/// Returns the path of the program: below the attempt's directory (or as given) if it has a slash
/// of either kind, else found in the command's own `PATH`.
fn find_program(name: &str, dir: &Path, path: &str) -> Result<PathBuf, String> {
    let here = dir.join(name.replace('/', r"\"));
    if name.contains(['/', '\\']) {
        return Ok(complete(&here).unwrap_or(here));
    }

    let places = std::env::split_paths(path).filter(|place| place.is_absolute());
    places
        .filter_map(|place| complete(&place.join(name)))
        .next()
        .ok_or_else(|| {
            let hint = if complete(&here).is_some() {
                format!("; to run the input of that name, say `./{name}`")
            } else {
                String::new()
            };
            format!("program `{name}` not found in PATH ({path}){hint}")
        })
}

/// Returns the file itself if its name has one of `ENDINGS`, else the first file with such an
/// ending, else the file itself.
fn complete(file: &Path) -> Option<PathBuf> {
    let says = file.extension().is_some_and(|end| {
        ENDINGS
            .iter()
            .any(|ending| end.eq_ignore_ascii_case(ending))
    });
    let whole = Some(file.to_owned());
    let others = ENDINGS
        .iter()
        .map(|ending| file.with_added_extension(ending))
        .filter(|_| !says);
    others.chain(whole).find(|file| file.is_file())
}

/// Explains why a command that was found did not start.
pub(super) fn why_not(launch: &Launch, program: &Path, error: &io::Error) -> String {
    let name = &launch.argv[0];
    let dir = Path::new(&launch.dir);
    match error.kind() {
        _ if !dir.is_dir() => format!("the attempt's directory {} is not there", dir.display()),
        _ if error.raw_os_error() == Some(ERROR_BAD_EXE_FORMAT as i32) => {
            format!("program `{name}` is not a program of this system")
        }
        io::ErrorKind::NotFound if program.is_file() => {
            format!("program `{name}` is there, but cannot be loaded: {error}")
        }
        io::ErrorKind::NotFound if program.starts_with(dir) => {
            format!("program `{name}` does not exist below the attempt's directory")
        }
        io::ErrorKind::NotFound => format!("program `{name}` does not exist on this host"),
        io::ErrorKind::InvalidInput => format!("an argument or variable does not do: {error}"),
        _ => format!("program `{name}`: {error}"),
    }
}
