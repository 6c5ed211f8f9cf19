//! Outputs that cannot be files by themselves everywhere: symbolic links, empty directories, names
//! that other systems do not know, names that differ only in case, and what is too much for a list.
//! They are kept without loss in one archive, in the format of GNU tar.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::os::files;

/// The unit of an archive, in bytes.
const BLOCK: usize = 512;
/// The longest name that a header holds, in bytes.
const SHORT: usize = 100;
/// The largest size that a header holds in octal digits.
const OCTAL: u64 = 0o77_777_777_777;

/// An output that goes into the archive.
#[derive(Debug)]
pub(super) struct ApartFile {
    pub relative: PathBuf,
    pub meta: Metadata,
    /// The reason, for people.
    pub why: String,
}

impl ApartFile {
    /// Returns the bytes of its content.
    pub(super) fn size(&self) -> u64 {
        if self.meta.is_dir() {
            0
        } else {
            self.meta.len()
        }
    }
}

/// Writes the archive of these files below `dir` to `to`. Times are left out, so that tasks that do
/// the same leave the same.
pub(super) fn write(dir: &Path, all: &[ApartFile], to: &mut impl Write) -> io::Result<()> {
    for one in all {
        let name = bytes_of(&one.relative);
        if one.meta.is_symlink() {
            let target = fs::read_link(dir.join(&one.relative))?;
            header(to, &name, &bytes_of(&target), b'2', 0o777, 0)?;
            continue;
        }
        if one.meta.is_dir() {
            header(to, &[&name[..], b"/"].concat(), &[], b'5', 0o755, 0)?;
            continue;
        }

        let mut file = files::open_below(dir, &one.relative)?;
        let meta = file.metadata()?;
        if files::id_of(&meta) != files::id_of(&one.meta) || !meta.is_file() {
            return Err(io::Error::other("it was exchanged while it was collected"));
        }

        let mode = if files::is_executable(&meta) {
            0o755
        } else {
            0o644
        };
        header(to, &name, &[], b'0', mode, meta.len())?;
        let copied = io::copy(&mut Read::by_ref(&mut file).take(meta.len()), to)?;
        if copied < meta.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        pad(to, copied)?;
    }
    to.write_all(&[0; 2 * BLOCK])
}

/// Returns the bytes of a path, with slashes.
fn bytes_of(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_encoded_bytes().to_vec();
    if cfg!(windows) {
        return bytes
            .iter()
            .map(|b| if *b == b'\\' { b'/' } else { *b })
            .collect();
    }
    bytes
}

fn header(
    to: &mut impl Write,
    name: &[u8],
    link: &[u8],
    kind: u8,
    mode: u32,
    size: u64,
) -> io::Result<()> {
    for (long, kind) in [(name, b'L'), (link, b'K')] {
        if long.len() > SHORT {
            let size = long.len() as u64 + 1;
            to.write_all(&block(b"././@LongLink", &[], kind, 0o644, size))?;
            to.write_all(long)?;
            to.write_all(&[0])?;
            pad(to, size)?;
        }
    }

    to.write_all(&block(name, link, kind, mode, size))
}

/// Returns a header; names are cut to what fits.
fn block(name: &[u8], link: &[u8], kind: u8, mode: u32, size: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &name[..name.len().min(SHORT)]);
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000\x000000000");
    if size <= OCTAL {
        put(124, format!("{size:011o}").as_bytes());
    } else {
        put(124, &[0x80, 0, 0, 0]);
        put(128, &size.to_be_bytes());
    }

    put(136, b"00000000000");
    put(148, b"        ");
    put(156, &[kind]);
    put(157, &link[..link.len().min(SHORT)]);
    put(257, b"ustar  ");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

fn pad(to: &mut impl Write, size: u64) -> io::Result<()> {
    let over = size as usize % BLOCK;
    to.write_all(&[0; BLOCK][..(BLOCK - over) % BLOCK])
}

/// Makes the file in which the archive is written, which is removed with the value.
pub(super) struct ArchiveFile {
    path: PathBuf,
    pub file: File,
}

impl ArchiveFile {
    /// Makes it beside the attempt's directory.
    pub(super) fn beside(dir: &Path) -> io::Result<Self> {
        let path = dir.with_added_extension("apart");
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        Ok(Self { path, file })
    }
}

impl Drop for ArchiveFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
