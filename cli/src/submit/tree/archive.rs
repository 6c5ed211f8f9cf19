//! Archives that become trees: tar, tar compressed by gzip, and zip. They are read once from front
//! to back, and nothing is unpacked on this machine.

mod tar;
mod zip;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;

use common::path::PortablePath;
use flate2::read::MultiGzDecoder;

use super::{BadTree, Packer};

/// The form of an archive, by the ending of its name, such as `.tar.gz`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArchiveForm {
    Tar,
    TarGz,
    Zip,
}

const ENDINGS: [(&str, ArchiveForm); 4] = [
    (".tar", ArchiveForm::Tar),
    (".tar.gz", ArchiveForm::TarGz),
    (".tgz", ArchiveForm::TarGz),
    (".zip", ArchiveForm::Zip),
];

impl ArchiveForm {
    /// Returns the form of the archive at a path; `None` if its name is none of an archive.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_lowercase();
        let found = ENDINGS.iter().find(|(ending, _)| {
            name.strip_suffix(ending)
                .is_some_and(|stem| !stem.is_empty())
        });
        found.map(|(_, form)| *form)
    }

    /// Returns a name without the ending of this form.
    pub(super) fn without_ending(self, name: &str) -> &str {
        let ending = ENDINGS.iter().filter(|(_, form)| *form == self);
        let length = ending.map(|(ending, _)| ending.len()).find(|length| {
            let at = name.len().wrapping_sub(*length);
            name.get(at..).is_some_and(|end| {
                ENDINGS
                    .iter()
                    .any(|(ending, _)| end.eq_ignore_ascii_case(ending))
            })
        });
        &name[..name.len() - length.unwrap_or(0)]
    }
}

/// Adds all that is in an archive to the [`Packer`].
pub(super) fn read(form: ArchiveForm, path: &Path, packer: &mut Packer<'_>) -> Result<(), BadTree> {
    let file = File::open(path).map_err(|source| packer.unreadable("", source))?;
    let file = io::BufReader::with_capacity(256 * 1024, file);
    let mut dirs = Directories::default();

    match form {
        ArchiveForm::Tar => tar::read(&mut { file }, packer, &mut dirs)?,
        ArchiveForm::TarGz => {
            let plain = MultiGzDecoder::new(file);
            let mut plain = io::BufReader::with_capacity(256 * 1024, plain);
            tar::read(&mut plain, packer, &mut dirs)?;
        }
        ArchiveForm::Zip => zip::read(&mut { file }, packer, &mut dirs)?,
    }
    dirs.end(packer)
}

/// The directories that an archive names, of which those with nothing in them are kept.
#[derive(Debug, Default)]
struct Directories {
    named: BTreeSet<PortablePath>,
    filled: BTreeSet<String>,
}

impl Directories {
    /// Notes a directory, without a slash at its end.
    fn named(&mut self, path: PortablePath) {
        self.fill(&path);
        self.named.insert(path);
    }

    /// Notes that something lies at a path, and so in its directories.
    fn fill(&mut self, path: &PortablePath) {
        let whole = path.as_str();
        for (end, _) in whole.match_indices('/') {
            if !self.filled.contains(&whole[..end]) {
                self.filled.insert(whole[..end].to_owned());
            }
        }
    }

    fn end(self, packer: &mut Packer<'_>) -> Result<(), BadTree> {
        let named = self.named.into_iter();
        let mut empty = named.filter(|dir| !self.filled.contains(dir.as_str()));
        empty.try_for_each(|dir| packer.empty_dir(dir))
    }
}

/// Removes `./` before a name and slashes behind it; nothing is left of the top directory.
fn trimmed(mut name: &[u8]) -> &[u8] {
    while let Some(rest) = name.strip_prefix(b"./") {
        name = rest;
    }
    while let Some(rest) = name.strip_suffix(b"/") {
        name = rest;
    }
    if name == b"." { b"" } else { name }
}

fn broken(packer: &Packer<'_>, why: impl Into<String>) -> BadTree {
    BadTree::Archive {
        path: packer.whole.to_owned(),
        why: why.into(),
    }
}
