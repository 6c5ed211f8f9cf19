//! Reads and writes a backup in one file: a tar archive (POSIX ustar) of plain files with short
//! names, which any tar can list and unpack. Sizes beyond 8 GiB are written in base 256, as GNU tar
//! and bsdtar do. It reads only archives that it has written.

use std::io::{self, Read, Seek, SeekFrom, Write};

const BLOCK: usize = 512;
/// The bytes of the name field in a head; a name has fewer.
pub(super) const NAME: usize = 100;
/// The greatest size that fits eleven octal digits, in bytes.
const OCTAL_MOST: u64 = 0o77_777_777_777;

/// One file in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArchiveEntry {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) mode: u32,
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Writes a file's head and the bytes of `body`, which must be as many as the head says.
pub(super) fn append(
    out: &mut impl Write,
    entry: &ArchiveEntry,
    body: &mut impl Read,
) -> io::Result<()> {
    out.write_all(&head(entry)?)?;
    let copied = io::copy(&mut body.take(entry.size), out)?;
    if copied != entry.size {
        return Err(broken("a file became shorter while it was read"));
    }
    out.write_all(&[0; BLOCK][..padding(entry.size)])
}

/// Ends an archive.
pub(super) fn end(out: &mut impl Write) -> io::Result<()> {
    out.write_all(&[0; 2 * BLOCK])
}

/// Whether an archive of `length` bytes breaks off before its end. Only the heads are read.
///
/// # Errors
/// If it cannot be read, or is another archive than those written here.
pub(super) fn breaks_off(from: &mut (impl Read + Seek), length: u64) -> io::Result<bool> {
    let mut at: u64 = 0;
    loop {
        if length.saturating_sub(at) < BLOCK as u64 {
            return Ok(true);
        }
        let Some(entry) = next(from)? else {
            return Ok(false);
        };

        let taken = (BLOCK + padding(entry.size)) as u64;
        at = at.saturating_add(taken).saturating_add(entry.size);
        if at > length {
            return Ok(true);
        }
        from.seek(SeekFrom::Start(at))?;
    }
}

/// Reads the next file's head; `None` at the end of the archive. After it come `size` bytes, then
/// [`skip_padding`].
pub(super) fn next(from: &mut impl Read) -> io::Result<Option<ArchiveEntry>> {
    let mut block = [0; BLOCK];
    from.read_exact(&mut block)
        .map_err(|_| broken("it ends in the middle"))?;
    if block == [0; BLOCK] {
        return Ok(None);
    }
    let sum = octal(&block[148..156]).ok();
    if sum != Some(u64::from(checksum(&block))) || &block[257..262] != b"ustar" {
        let why = "it is no tar archive (a compressed one has to be unpacked first), or a head in it is damaged";
        return Err(broken(why));
    }

    let name = block[..NAME]
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    let name = std::str::from_utf8(name)
        .map_err(|_| broken("a name in it is not UTF-8"))?
        .to_owned();
    if !matches!(block[156], b'0' | 0) {
        return Err(broken("it holds something else than plain files"));
    }

    let size = if block[124] == 0x80 {
        base_256(&block[125..136])?
    } else {
        octal(&block[124..136])?
    };

    let mode =
        u32::try_from(octal(&block[100..108])?).map_err(|_| broken("a mode in it is none"))?;
    Ok(Some(ArchiveEntry { name, size, mode }))
}

/// Skips the padding that fills up a file of this size to whole blocks of `BLOCK` bytes.
pub(super) fn skip_padding(from: &mut impl Read, size: u64) -> io::Result<()> {
    let mut rest = [0; BLOCK];
    from.read_exact(&mut rest[..padding(size)])
        .map_err(|_| broken("it ends in the middle"))
}

fn padding(size: u64) -> usize {
    (BLOCK - (size % BLOCK as u64) as usize) % BLOCK
}

fn head(entry: &ArchiveEntry) -> io::Result<[u8; BLOCK]> {
    let mut block = [0; BLOCK];
    let name = entry.name.as_bytes();
    if name.len() >= NAME {
        return Err(broken("a name is too long for the archive"));
    }

    block[..name.len()].copy_from_slice(name);
    let mut put =
        |at: usize, text: String| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(100, format!("{:07o}", entry.mode));
    put(108, "0000000".to_owned());
    put(116, "0000000".to_owned());
    if entry.size <= OCTAL_MOST {
        put(124, format!("{:011o}", entry.size));
    }

    put(136, "00000000000".to_owned());
    put(148, " ".repeat(8));
    put(156, "0".to_owned());
    put(257, "ustar\0".to_owned() + "00");

    if entry.size > OCTAL_MOST {
        block[124] = 0x80;
        block[128..136].copy_from_slice(&entry.size.to_be_bytes());
    }

    let sum = format!("{:06o}\0 ", checksum(&block));
    block[148..156].copy_from_slice(sum.as_bytes());
    Ok(block)
}

/// The sum of a head's bytes, with its own field taken as blanks.
fn checksum(block: &[u8; BLOCK]) -> u32 {
    let rest = block[..148].iter().chain(&block[156..]);
    rest.map(|byte| u32::from(*byte)).sum::<u32>() + 8 * u32::from(b' ')
}

fn octal(field: &[u8]) -> io::Result<u64> {
    let text = std::str::from_utf8(field)
        .unwrap_or("x")
        .trim_matches(['\0', ' ']);
    u64::from_str_radix(text, 8).map_err(|_| broken("a number in it is none"))
}

fn base_256(field: &[u8]) -> io::Result<u64> {
    let (high, low) = field.split_at(field.len() - 8);
    let low = low
        .try_into()
        .map_err(|_| broken("a number in it is none"))?;
    if high.iter().any(|byte| *byte != 0) {
        Err(broken("a size in it is too large"))
    } else {
        Ok(u64::from_be_bytes(low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_back(bytes: &[u8]) -> io::Result<Vec<(ArchiveEntry, Vec<u8>)>> {
        let mut from = bytes;
        let mut all = Vec::new();
        while let Some(entry) = next(&mut from)? {
            let mut body = vec![0; entry.size as usize];
            from.read_exact(&mut body)?;
            skip_padding(&mut from, entry.size)?;
            all.push((entry, body));
        }
        Ok(all)
    }

    fn written(files: &[(String, Vec<u8>)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, body) in files {
            let entry = ArchiveEntry {
                name: name.clone(),
                size: body.len() as u64,
                mode: 0o600,
            };
            append(&mut out, &entry, &mut &body[..]).unwrap();
        }
        end(&mut out).unwrap();
        out
    }

    proptest! {
        #[test]
        fn a_written_archive_is_read_back(
            files in prop::collection::vec(("[a-z/.]{1,99}", prop::collection::vec(any::<u8>(), 0..1_500)), 0..6)
        ) {
            let found = read_back(&written(&files)).unwrap();
            let found: Vec<_> = found.into_iter().map(|(entry, body)| (entry.name, body)).collect();
            prop_assert_eq!(found, files);
        }

        #[test]
        fn a_head_that_was_changed_or_cut_is_noticed(at in 0usize..512, by in 1u8..255, cut in 0usize..2_000) {
            let files = [("a/file".to_owned(), vec![7; 700])];
            let mut bytes = written(&files);
            let whole = bytes.len();
            bytes[at] = bytes[at].wrapping_add(by);
            // Four bytes of the magic, and fields that an archive leaves empty, may hold anything;
            // the sum covers those too.
            let told = read_back(&bytes);
            prop_assert!(told.is_err() || told.unwrap().len() != 1 || (148..156).contains(&at), "byte {}", at);
            let bytes = written(&files);
            prop_assert!(read_back(&bytes[..cut.min(whole - BLOCK - 1)]).is_err());
        }
    }

    #[test]
    fn sizes_beyond_eight_gib_are_kept() {
        for size in [0, 511, OCTAL_MOST, OCTAL_MOST + 1, 1 << 40] {
            let entry = ArchiveEntry {
                name: "x".to_owned(),
                size,
                mode: 0o644,
            };
            assert_eq!(next(&mut &head(&entry).unwrap()[..]).unwrap(), Some(entry));
        }
    }
}
