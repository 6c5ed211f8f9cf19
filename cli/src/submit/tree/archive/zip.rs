//! Reads zip archives: stored and deflated entries, with the rights and symbolic links that Info-ZIP
//! writes. Archives of 4 GiB and more, or with a password, are refused.

use std::io::{self, Read, Seek, SeekFrom};

use flate2::Crc;
use flate2::read::DeflateDecoder;

use super::{Directories, broken, trimmed};
use crate::submit::tree::{BadTree, Packer};

/// The longest end of an archive that is searched for its directory: the record and a comment.
const TAIL: u64 = 22 + 0xffff;
/// The beginning of the record at the end, of an entry in the directory, and of an entry.
const END: &[u8; 4] = b"PK\x05\x06";
const ENTRY: &[u8; 4] = b"PK\x01\x02";
const LOCAL: &[u8; 4] = b"PK\x03\x04";
/// The kind of file in Unix's mode bits (`S_IFMT`).
const KIND: u32 = 0o170_000;
const LINK: u32 = 0o120_000;
const DIR: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
/// The longest target of a symbolic link (`LINK`), in bytes.
const MOST_TARGET: u64 = 4_096;

/// An entry of the archive's directory (`ENTRY`).
struct ZipEntry {
    name: Vec<u8>,
    mode: u32,
    encrypted: bool,
    method: u16,
    crc: u32,
    packed: u64,
    size: u64,
    at: u64,
}

/// Adds all that is in the archive to the [`Packer`].
pub(super) fn read(
    from: &mut (impl Read + Seek),
    packer: &mut Packer<'_>,
    dirs: &mut Directories,
) -> Result<(), BadTree> {
    let failed = |packer: &Packer<'_>, error: io::Error| broken(packer, error.to_string());
    let directory = directory(from).map_err(|error| failed(packer, error))?;
    let mut rest = &directory[..];
    while let Some(entry) = take_entry(&mut rest) {
        let entry = entry.map_err(|error| failed(packer, error))?;
        let short = trimmed(&entry.name);
        let kind = entry.mode & KIND;
        if entry.name.ends_with(b"/") || kind == DIR {
            if !short.is_empty() {
                dirs.named(packer.name(short)?);
            }
            continue;
        }

        let path = packer.name(short)?;
        if !matches!(kind, 0 | FILE | LINK) {
            return Err(BadTree::Entry {
                path: packer.whole.to_owned(),
                name: path.to_string(),
                what: "a device, pipe or socket",
            });
        }
        dirs.fill(&path);
        let mut content = entry.content(from).map_err(|error| failed(packer, error))?;
        if kind == LINK {
            let mut target = Vec::new();
            let read = (&mut content).take(MOST_TARGET).read_to_end(&mut target);
            read.map_err(|error| failed(packer, error))?;
            packer.link(path, &target)?;
        } else {
            let marks = (entry.mode & 0o111 != 0, None);
            packer.file(path, marks, (&mut content, entry.size))?;
        }
        if content.crc.sum() != entry.crc || u64::from(content.crc.amount()) != entry.size {
            let name = String::from_utf8_lossy(&entry.name);
            return Err(broken(packer, format!("`{name}` is damaged in it")));
        }
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(broken(packer, "its directory is damaged"))
    }
}

fn wrong(why: &str) -> io::Error {
    io::Error::other(why)
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Reads the directory, which is before the record `END`.
fn directory<R: Read + Seek>(from: &mut R) -> io::Result<Vec<u8>> {
    let length = from.seek(SeekFrom::End(0))?;
    from.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    from.read_to_end(&mut tail)?;
    let at = tail.windows(END.len()).rposition(|window| window == END);
    let at = at.filter(|at| tail.len() - at >= 22);
    let record = &tail[at.ok_or_else(|| wrong("it is no zip archive, or damaged"))?..];

    let (size, begin) = (long(record, 12), long(record, 16));
    if short(record, 10) == u16::MAX || size == u32::MAX || begin == u32::MAX {
        return Err(wrong(
            "it is larger than 4 GiB or has more than 65,534 entries: use tar",
        ));
    }
    from.seek(SeekFrom::Start(begin.into()))?;
    let mut directory = Vec::new();
    from.take(size.into()).read_to_end(&mut directory)?;
    Ok(directory)
}

/// Takes the next [`ZipEntry`] from the directory.
fn take_entry(rest: &mut &[u8]) -> Option<io::Result<ZipEntry>> {
    let record = *rest;
    if record.len() < 46 || !record.starts_with(ENTRY) {
        return None;
    }
    let [name, extra, comment] = [28, 30, 32].map(|at| usize::from(short(record, at)));
    let Some(after) = record.get(46 + name + extra + comment..) else {
        return Some(Err(wrong("its directory is damaged")));
    };
    *rest = after;

    let unix = record[5] == 3;
    let entry = ZipEntry {
        name: record[46..46 + name].to_vec(),
        mode: if unix { long(record, 38) >> 16 } else { 0 },
        encrypted: short(record, 8) & 1 != 0,
        method: short(record, 10),
        crc: long(record, 16),
        packed: long(record, 20).into(),
        size: long(record, 24).into(),
        at: long(record, 42).into(),
    };
    Some(Ok(entry))
}

/// The content of an entry, with the checksum of what was read.
struct Unzipped<R> {
    from: R,
    crc: Crc,
}

impl ZipEntry {
    /// Reads the content from behind its own header.
    fn content<'a, R: Read + Seek>(
        &self,
        from: &'a mut R,
    ) -> io::Result<Unzipped<Box<dyn Read + 'a>>> {
        let name = String::from_utf8_lossy(&self.name);
        if self.encrypted {
            return Err(wrong(&format!("`{name}` has a password")));
        }
        let mut header = [0; 30];
        from.seek(SeekFrom::Start(self.at))?;
        from.read_exact(&mut header)?;
        if !header.starts_with(LOCAL) {
            return Err(wrong(&format!("`{name}` is not where its directory says")));
        }
        let over = i64::from(short(&header, 26)) + i64::from(short(&header, 28));
        from.seek(SeekFrom::Current(over))?;

        let packed = from.take(self.packed);
        let most = self.size + 1;
        let from: Box<dyn Read + 'a> = match self.method {
            0 => Box::new(packed.take(most)),
            8 => Box::new(DeflateDecoder::new(packed).take(most)),
            other => {
                let why =
                    format!("`{name}` is compressed in a way that is not known here ({other})");
                return Err(wrong(&why));
            }
        };
        Ok(Unzipped {
            from,
            crc: Crc::new(),
        })
    }
}

impl<R: Read> Read for Unzipped<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(to)?;
        self.crc.update(&to[..read]);
        Ok(read)
    }
}
