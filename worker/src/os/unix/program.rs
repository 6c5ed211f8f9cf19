//! The program of a command: finding it, and explaining to its user why it cannot be executed.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use common::host::Confinement;

#[cfg(target_os = "linux")]
use crate::os::linux::shows;
#[cfg(target_os = "macos")]
use crate::os::macos::shows;
use crate::os::{Confines, Launch};

/// The bytes of a program that the kernel looks at to see its format.
const HEAD: usize = 256;
/// The longest name of a file (`NAME_MAX`), in bytes.
const LONGEST_NAME: usize = 255;
const ELF: &[u8] = b"\x7fELF";
/// The directory where an administrator registers other executable formats.
const OTHER_FORMATS: &str = "/proc/sys/fs/binfmt_misc";

/// Returns the paths at which the program may lie: the one given if that has a slash, else one in each directory
/// of the command's own `PATH`.
pub(in crate::os) fn candidates(launch: &Launch) -> Result<Vec<PathBuf>, String> {
    let name = launch
        .argv
        .first()
        .filter(|name| !name.is_empty())
        .ok_or("the command is empty")?;
    if name.contains('/') {
        return Ok(vec![PathBuf::from(name)]);
    }
    if name.len() > LONGEST_NAME {
        return Err(format!(
            "the name of the program has {} bytes, and no file's name has more than {LONGEST_NAME}",
            name.len()
        ));
    }

    let places = search_path(launch)
        .split(':')
        .filter(|place| place.starts_with('/'));
    Ok(places.map(|place| Path::new(place).join(name)).collect())
}

fn search_path(launch: &Launch) -> &str {
    launch
        .env
        .iter()
        .find(|(key, _)| key == "PATH")
        .map_or("", |(_, value)| value)
}

/// Returns the path of the program: as given if it has a slash, else where this host has it in the command's own
/// `PATH`. May take as long as the file systems that the command names.
pub(in crate::os) fn find(launch: &Launch, dir: &Path) -> Result<PathBuf, String> {
    let candidates = candidates(launch)?;
    let name = &launch.argv[0];
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }

    let may_run = |file: &PathBuf| {
        file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
    };
    candidates.into_iter().find(may_run).ok_or_else(|| {
        let path = search_path(launch);
        let input = dir.join(name);
        let hint = if may_run(&input) {
            format!("; to run the input of that name, say `./{name}`")
        } else if input.is_file() {
            format!(
                "; to run the input of that name, mark it executable (chmod +x) and say `./{name}`"
            )
        } else {
            String::new()
        };
        format!("program `{name}` not found in PATH ({path}){hint}")
    })
}

/// Checks whether a program could be executed on this host, as far as that can be seen from outside
/// the task's namespaces.
fn check(program: &Path, dir: &Path, confines: &Confines) -> io::Result<()> {
    let there = dir.join(program);
    let meta = fs::metadata(&there)?;
    if !meta.is_file() || meta.permissions().mode() & 0o111 == 0 || !shows(confines, dir, &there) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }

    // What may be executed but not read is left to the kernel.
    let Ok(file) = File::open(&there) else {
        return Ok(());
    };
    let mut head = Vec::new();
    file.take(HEAD as u64).read_to_end(&mut head)?;

    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        let interpreter = line
            .split(u8::is_ascii_whitespace)
            .next()
            .unwrap_or_default();
        return fs::metadata(dir.join(std::ffi::OsStr::from_bytes(interpreter))).map(drop);
    }

    if head.starts_with(ELF) || has_other_formats() {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::ENOEXEC))
    }
}

fn has_other_formats() -> bool {
    let known = |name: &std::ffi::OsStr| name == "register" || name == "status";
    fs::read_dir(OTHER_FORMATS)
        .is_ok_and(|names| names.flatten().any(|entry| !known(&entry.file_name())))
}

/// Explains why a program that this host has could not be executed. The host is asked first: the error may be that
/// of another directory of `PATH`, and in namespaces what is not shown looks as if it were not there.
pub(in crate::os) fn why_not(
    launch: &Launch,
    dir: &Path,
    program: &Path,
    error: &io::Error,
) -> String {
    use io::ErrorKind::{NotFound, PermissionDenied};
    let hides = launch.confines.level >= Confinement::Namespace;
    match check(program, dir, &launch.confines) {
        Err(seen) => explain(launch, dir, program, &seen),
        Ok(()) if hides && matches!(error.kind(), NotFound | PermissionDenied) => {
            out_of_sight(launch)
        }
        Ok(()) => explain(launch, dir, program, error),
    }
}

fn explain(launch: &Launch, dir: &Path, program: &Path, error: &io::Error) -> String {
    let name = &launch.argv[0];
    let there = dir.join(program);

    match error.kind() {
        _ if !dir.is_dir() => format!("the attempt's directory {} is not there", dir.display()),
        io::ErrorKind::NotFound if there.exists() => {
            format!("program `{name}` is there, but the interpreter or loader that it names is not")
        }
        io::ErrorKind::NotFound if program.is_absolute() => {
            format!("program `{name}` does not exist on this host")
        }
        io::ErrorKind::NotFound => {
            format!("program `{name}` does not exist below the attempt's directory")
        }
        io::ErrorKind::PermissionDenied if !shows(&launch.confines, dir, &there) => {
            out_of_sight(launch)
        }
        io::ErrorKind::PermissionDenied if program.is_absolute() => {
            format!("program `{name}` may not be executed on this host")
        }
        io::ErrorKind::PermissionDenied => {
            format!(
                "program `{name}` may not be executed: mark an input executable (chmod +x) before you submit it"
            )
        }
        _ if error.raw_os_error() == Some(libc::ENOEXEC) => {
            format!("program `{name}` is not a program of this system and has no `#!` line")
        }
        _ => format!("program `{name}`: {error}"),
    }
}

/// Explains that a program could not be executed which looks fine from outside.
fn out_of_sight(launch: &Launch) -> String {
    let name = &launch.argv[0];
    let level = launch.confines.level;
    format!(
        "program `{name}` or what it needs to start lies outside what tasks see at the level `{level}`: the owner of this host \
         can add its directory to `readable_paths`"
    )
}
