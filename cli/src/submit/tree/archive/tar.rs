//! Reads tar archives: the old format, POSIX's (ustar and pax) and GNU's.

use std::collections::BTreeSet;
use std::io::{self, Read};

use common::text::legible;

use super::{Directories, broken, trimmed};
use crate::submit::tree::{BadTree, Packer};

/// The unit of a `tar` archive, in bytes.
const BLOCK: usize = 512;
/// The longest name or header in words that is read, in bytes.
const MOST: u64 = 1 << 20;

/// The extensions before an entry's own header, which replace parts of it.
#[derive(Debug, Default)]
struct Said {
    name: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    size: Option<u64>,
    modified: Option<u64>,
    sparse: bool,
}

/// An entry with its header and all that was said before it.
struct TarEntry {
    kind: u8,
    name: Vec<u8>,
    target: Vec<u8>,
    size: u64,
    modified: Option<u64>,
    executable: bool,
}

/// Adds all that is in the archive to the [`Packer`].
pub(super) fn read(
    from: &mut impl Read,
    packer: &mut Packer<'_>,
    dirs: &mut Directories,
) -> Result<(), BadTree> {
    // The files that hard links can name.
    let mut files = BTreeSet::<Vec<u8>>::new();
    while let Some(entry) = next(from, packer)? {
        let other = |what| BadTree::Entry {
            path: packer.whole.to_owned(),
            name: shown(&entry.name),
            what,
        };
        let is_file = matches!(entry.kind, 0 | b'0' | b'7');
        let is_dir = entry.kind == b'5' || is_file && entry.name.ends_with(b"/");
        let short = trimmed(&entry.name);
        if is_dir {
            if !short.is_empty() {
                dirs.named(packer.name(short)?);
            }
            skip(from, entry.size, packer)?;
            continue;
        }

        let path = packer.name(short)?;
        dirs.fill(&path);
        match entry.kind {
            _ if is_file => {
                files.insert(short.to_vec());
                let mut content = from.by_ref().take(entry.size);
                let marks = (entry.executable, entry.modified);
                if packer.file(path, marks, (&mut content, entry.size))? < entry.size {
                    return Err(broken(packer, "it ends in the middle of a file"));
                }
                let over = entry.size.next_multiple_of(BLOCK as u64) - entry.size;
                exactly(from, over, packer)?;
            }
            b'1' => {
                let target = trimmed(&entry.target);
                if !files.contains(target) {
                    let name = shown(&entry.name);
                    let why = format!("`{name}` is a hard link to something that is not before it");
                    return Err(broken(packer, why));
                }
                // The same content under another name, sent once.
                let up = b"../".repeat(path.as_str().matches('/').count());
                packer.link(path, &[&up, target].concat())?;
                skip(from, entry.size, packer)?;
            }
            b'2' => {
                packer.link(path, &entry.target)?;
                skip(from, entry.size, packer)?;
            }
            b'S' => return Err(other("a file with holes")),
            b'3' | b'4' => return Err(other("a device")),
            b'6' => return Err(other("a pipe")),
            _ => return Err(other("of a kind that is not known here")),
        }
    }
    Ok(())
}

fn shown(name: &[u8]) -> String {
    legible(&String::from_utf8_lossy(name), usize::MAX)
}

/// Reads the next [`TarEntry`] up to its content; `None` at the end.
fn next(from: &mut impl Read, packer: &Packer<'_>) -> Result<Option<TarEntry>, BadTree> {
    let mut said = Said::default();
    while let Some(block) = header(from, packer)? {
        let own = number(&block[124..136]);
        let own = own.ok_or_else(|| broken(packer, "a length is invalid"))?;
        let mut kind = block[156];
        if matches!(kind, b'L' | b'K' | b'x' | b'g') {
            let text = text(from, own, packer)?;
            match kind {
                b'L' => said.name = Some(until_zero(&text).to_vec()),
                b'K' => said.target = Some(until_zero(&text).to_vec()),
                b'x' => said.read(&text),
                _ => {}
            }
            continue;
        }

        if said.sparse {
            kind = b'S';
        }
        return Ok(Some(TarEntry {
            kind,
            name: said.name.unwrap_or_else(|| own_name(&block)),
            target: said
                .target
                .unwrap_or_else(|| until_zero(&block[157..257]).to_vec()),
            size: said.size.unwrap_or(own),
            modified: said.modified.or_else(|| number(&block[136..148])),
            executable: number(&block[100..108]).unwrap_or(0) & 0o111 != 0,
        }));
    }
    Ok(None)
}

impl Said {
    /// Reads the records of a pax header: `LENGTH KEY=VALUE` and a newline each.
    fn read(&mut self, mut text: &[u8]) {
        while let Some(space) = text.iter().position(|byte| *byte == b' ') {
            let length = std::str::from_utf8(&text[..space]).ok();
            let length = length.and_then(|length| length.parse::<usize>().ok());
            let parts = length.filter(|length| *length > space);
            let Some((record, rest)) = parts.and_then(|length| text.split_at_checked(length))
            else {
                return;
            };
            text = rest;
            let record = &record[space + 1..];
            let record = record.strip_suffix(b"\n").unwrap_or(record);
            let Some(equals) = record.iter().position(|byte| *byte == b'=') else {
                continue;
            };

            let value = &record[equals + 1..];
            // Of a time only the seconds.
            let whole = value.split(|byte| *byte == b'.').next().unwrap_or_default();
            let number = std::str::from_utf8(whole)
                .ok()
                .and_then(|text| text.parse().ok());
            match &record[..equals] {
                b"path" => self.name = Some(value.to_vec()),
                b"linkpath" => self.target = Some(value.to_vec()),
                b"size" => self.size = number,
                b"mtime" => self.modified = number,
                key if key.starts_with(b"GNU.sparse") => self.sparse = true,
                _ => {}
            }
        }
    }
}

/// Reads the next header; `None` at the end.
fn header(from: &mut impl Read, packer: &Packer<'_>) -> Result<Option<[u8; BLOCK]>, BadTree> {
    let mut block = [0; BLOCK];
    let mut have = 0;
    while have < BLOCK {
        match from.read(&mut block[have..]) {
            // Some programs leave out the empty blocks at the end.
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) => return Err(broken(packer, "it ends in the middle of a header")),
            Ok(n) => have += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(packer, error.to_string())),
        }
    }
    if block.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }

    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    let own: u64 = block[148..156].iter().map(|byte| u64::from(*byte)).sum();
    if number(&block[148..156]) != Some(sum - own + 8 * u64::from(b' ')) {
        return Err(broken(packer, "it is no tar archive, or damaged"));
    }
    Ok(Some(block))
}

/// Returns the name that a header has, `ustar`'s prefix included.
fn own_name(block: &[u8; BLOCK]) -> Vec<u8> {
    let name = until_zero(&block[..100]);
    let prefix = until_zero(&block[345..500]);
    // GNU has other things there, and another magic.
    if block[257..263] == *b"ustar\0" && !prefix.is_empty() {
        [prefix, name].join(&b'/')
    } else {
        name.to_vec()
    }
}

/// Reads octal digits, or a number in GNU's binary form.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        let (high, low) = field.split_last_chunk::<8>()?;
        // Of the shorter fields the first byte is among the eight.
        let positive = high.iter().skip(1).all(|byte| *byte == 0);
        let value = u64::from_be_bytes(*low);
        let value = if high.is_empty() {
            value & !(0x80 << 56)
        } else {
            value
        };
        return (positive && field[0] == 0x80).then_some(value);
    }

    let digits = field
        .iter()
        .copied()
        .filter(|byte| !matches!(byte, 0 | b' '));
    let digits: Vec<u8> = digits.collect();
    if digits.is_empty() {
        return Some(0);
    }
    u64::from_str_radix(std::str::from_utf8(&digits).ok()?, 8).ok()
}

fn until_zero(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn text(from: &mut impl Read, size: u64, packer: &Packer<'_>) -> Result<Vec<u8>, BadTree> {
    if size > MOST {
        return Err(broken(packer, "a name is longer than any can be"));
    }
    let mut text = Vec::new();
    let whole = size.next_multiple_of(BLOCK as u64);
    let read = from.by_ref().take(whole).read_to_end(&mut text);

    match read {
        Ok(read) if read as u64 == whole => {
            text.truncate(size as usize);
            Ok(text)
        }
        Ok(_) => Err(broken(packer, "it ends in the middle of a name")),
        Err(error) => Err(broken(packer, error.to_string())),
    }
}

/// Skips the content of an entry.
fn skip(from: &mut impl Read, size: u64, packer: &Packer<'_>) -> Result<(), BadTree> {
    let whole = size.checked_next_multiple_of(BLOCK as u64);
    exactly(from, whole.unwrap_or(u64::MAX), packer)
}

fn exactly(from: &mut impl Read, bytes: u64, packer: &Packer<'_>) -> Result<(), BadTree> {
    match io::copy(&mut from.by_ref().take(bytes), &mut io::sink()) {
        Ok(read) if read == bytes => Ok(()),
        Ok(_) => Err(broken(packer, "it ends too early")),
        Err(error) => Err(broken(packer, error.to_string())),
    }
}
