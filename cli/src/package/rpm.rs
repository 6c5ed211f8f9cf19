//! An installer as a package of RPM: the plain one with the site's two files among its own. A package
//! is a lead, a head of sums, a head that describes the files, and a compressed archive of cpio.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use ring::digest::{SHA256, digest};

use super::{BadPackage, JOIN, PATTERN, SETTINGS, SiteFiles};

/// The first bytes of a lead and of a head, and the length of a lead.
const LEAD_MAGIC: &[u8] = b"\xed\xab\xee\xdb";
const HEAD_MAGIC: &[u8] = b"\x8e\xad\xe8\x01\0\0\0\0";
const LEAD: usize = 96;
/// The length of an entry in the index of a head.
const INDEX: usize = 16;
/// The entries that span a whole head: of sums, and of a description.
const SUMS_REGION: u32 = 62;
const REGION: u32 = 63;
/// Kinds of values that are looked at here.
const INT16: u32 = 3;
const INT32: u32 = 4;
const TEXT: u32 = 6;
const BYTES: u32 = 7;

/// Tags of values: of the sums, of the package, and of each file.
const HEAD_SHA256: u32 = 273;
const HEAD_AND_PAYLOAD_SIZE: u32 = 1000;
const ARCHIVE_SIZE: u32 = 1007;
const SIZE: u32 = 1009;
const PAYLOAD_COMPRESSOR: u32 = 1125;
const DIGEST_ALGORITHM: u32 = 5011;
const PAYLOAD_DIGEST: u32 = 5092;
const ARCHIVE_DIGEST: u32 = 5097;
const FILE_SIZES: u32 = 1028;
const FILE_MODES: u32 = 1030;
const FILE_DIGESTS: u32 = 1035;
const FILE_FLAGS: u32 = 1037;
const VERIFY_FLAGS: u32 = 1045;
const INODES: u32 = 1096;
const DIR_INDEXES: u32 = 1116;
const BASE_NAMES: u32 = 1117;
const DIR_NAMES: u32 = 1118;
/// Every tag that has a value for each file.
const OF_FILES: [u32; 20] = [
    FILE_SIZES,
    FILE_MODES,
    1033, // device numbers
    1034, // times
    FILE_DIGESTS,
    1036, // targets of links
    FILE_FLAGS,
    1039, // users
    1040, // groups
    VERIFY_FLAGS,
    1095, // devices
    INODES,
    1097, // languages
    DIR_INDEXES,
    BASE_NAMES,
    1140, // colours
    1141, // classes
    1143, // first needs
    1144, // numbers of needs
    5010, // capabilities
];
/// The number of SHA-256 in OpenPGP, by which sums are named.
const SHA256_IN_PGP: u32 = 8;
/// The flag of a file that may be missing: the worker takes both away.
const MAY_BE_MISSING: u32 = 1 << 3;

/// The values of one tag, each as its bytes in the package.
#[derive(Debug, Clone)]
struct Tagged {
    tag: u32,
    kind: u32,
    values: Vec<Vec<u8>>,
}

/// A file of the site: its name in `/etc/deskgrid`, its mode and its text.
struct AddedFile {
    name: &'static str,
    mode: u16,
    text: String,
}

fn bad(why: &str) -> BadPackage {
    BadPackage::Form(why.to_owned())
}

/// Makes the installer of a plain package.
pub(super) fn installer(
    plain: &[u8],
    site: &SiteFiles,
    token: &str,
) -> Result<Vec<u8>, BadPackage> {
    if !plain.starts_with(LEAD_MAGIC) || plain.len() < LEAD {
        return Err(bad("it is no package of RPM"));
    }

    let (_, sums) = head(&plain[LEAD..])?;
    let described = plain.get(LEAD + sums.next_multiple_of(8)..);
    let described = described.ok_or_else(|| bad("it ends too early"))?;
    let (mut tags, length) = head(described)?;
    let payload = &described[length..];
    if text(&tags, PAYLOAD_COMPRESSOR) != Some("gzip") {
        return Err(bad("its files are not packed by gzip"));
    }

    let mut archive = Vec::new();
    let read = GzDecoder::new(payload).read_to_end(&mut archive);
    read.map_err(|error| BadPackage::Form(error.to_string()))?;

    let file = |path: &'static str, mode, text| AddedFile {
        name: path.rsplit('/').next().unwrap_or(path),
        mode,
        text,
    };
    let mut files = vec![file(JOIN, 0o600, site.join_file(token))];
    let settings = site.settings.clone();
    files.extend(settings.map(|text| file(SETTINGS, 0o644, text)));
    let archive = [describe(&mut tags, &files)?, archive].concat();

    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    let payload = packed.write_all(&archive).and_then(|()| packed.finish());
    let payload = payload.map_err(|error| BadPackage::Form(error.to_string()))?;
    set(&mut tags, PAYLOAD_DIGEST, 0, &ended(&sha256(&payload)))?;
    set(&mut tags, ARCHIVE_DIGEST, 0, &ended(&sha256(&archive)))?;
    let head = written(&tags, REGION);

    let number = |tag, value: usize| Tagged {
        tag,
        kind: INT32,
        values: vec![(value as u32).to_be_bytes().to_vec()],
    };
    let sum = Tagged {
        tag: HEAD_SHA256,
        kind: TEXT,
        values: vec![ended(&sha256(&head))],
    };
    let size = number(HEAD_AND_PAYLOAD_SIZE, head.len() + payload.len());
    let sums = [sum, size, number(ARCHIVE_SIZE, archive.len())];
    let mut sums = written(&sums, SUMS_REGION);
    sums.resize(sums.len().next_multiple_of(8), 0);
    Ok([&plain[..LEAD], &sums, &head, &payload].concat())
}

/// Returns the place of the pattern's file among the files, whose sums are to be of SHA-256.
fn pattern_place(tags: &[Tagged]) -> Result<usize, BadPackage> {
    let algorithm = values(tags, DIGEST_ALGORITHM).first();
    if algorithm.and_then(|value| u32_of(value)) != Some(SHA256_IN_PGP) {
        return Err(bad("the sums of its files are not of SHA-256"));
    }

    let dirs = values(tags, DIR_NAMES);
    let mut files = values(tags, BASE_NAMES)
        .iter()
        .zip(values(tags, DIR_INDEXES));
    let place = files.position(|(name, dir)| {
        let dir = u32_of(dir).and_then(|number| dirs.get(number as usize));
        let path = dir.map(|dir| [&dir[..dir.len() - 1], &name[..name.len() - 1]].concat());
        path.is_some_and(|path| path == format!("/{PATTERN}").into_bytes())
    });
    place.ok_or_else(|| BadPackage::Form(format!("it has no {PATTERN}")))
}

/// Adds the files to the description, before the file that is their pattern, and returns them as
/// archived.
fn describe(tags: &mut [Tagged], files: &[AddedFile]) -> Result<Vec<u8>, BadPackage> {
    let pattern = pattern_place(tags)?;
    let inodes = values(tags, INODES).iter();
    let inode = inodes.filter_map(|value| u32_of(value)).max().unwrap_or(0);
    let count = values(tags, BASE_NAMES).len();

    let mut archive = Vec::new();
    for (number, file) in (0..).zip(files) {
        let place = pattern + number as usize;
        let of_files = tags
            .iter_mut()
            .filter(|tagged| OF_FILES.contains(&tagged.tag));
        for tagged in of_files.filter(|tagged| tagged.values.len() == count + number as usize) {
            let copy = tagged.values[place].clone();
            tagged.values.insert(place, copy);
        }

        let inode = inode + 1 + number;
        let mode = 0o100_000 | file.mode;
        let size = file.text.len() as u32;
        set(tags, BASE_NAMES, place, &ended(file.name))?;
        set(tags, FILE_SIZES, place, &size.to_be_bytes())?;
        set(tags, FILE_MODES, place, &mode.to_be_bytes())?;
        set(
            tags,
            FILE_DIGESTS,
            place,
            &ended(&sha256(file.text.as_bytes())),
        )?;
        set(tags, FILE_FLAGS, place, &MAY_BE_MISSING.to_be_bytes())?;
        set(tags, VERIFY_FLAGS, place, &[0; 4])?;
        set(tags, INODES, place, &inode.to_be_bytes())?;

        let whole = values(tags, SIZE).first().and_then(|value| u32_of(value));
        set(tags, SIZE, 0, &(whole.unwrap_or(0) + size).to_be_bytes())?;
        archive.extend(archived(file, mode, inode));
    }
    Ok(archive)
}

/// Returns a file as an archive of cpio has it.
fn archived(file: &AddedFile, mode: u16, inode: u32) -> Vec<u8> {
    let dir = PATTERN.rsplit_once('/').map_or("", |(dir, _)| dir);
    let name = ended(&format!("./{dir}/{}", file.name));
    let mut out = format!("070701{inode:08x}{mode:08x}{:08x}{:08x}00000001", 0, 0);
    out += &format!(
        "{:08x}{:08x}{:032x}{:08x}{:08x}",
        0,
        file.text.len(),
        0,
        name.len(),
        0
    );

    let mut out = out.into_bytes();
    for part in [&name[..], file.text.as_bytes()] {
        out.extend_from_slice(part);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}

fn sha256(bytes: &[u8]) -> String {
    let sum = digest(&SHA256, bytes);
    sum.as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Returns a text with the byte that ends it.
fn ended(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

fn u32_of(bytes: &[u8]) -> Option<u32> {
    bytes.get(..4)?.try_into().ok().map(u32::from_be_bytes)
}

/// Returns the values of a tag; none where the package does not have it.
fn values(tags: &[Tagged], tag: u32) -> &[Vec<u8>] {
    let found = tags.iter().find(|tagged| tagged.tag == tag);
    found.map_or(&[], |tagged| &tagged.values)
}

fn text(tags: &[Tagged], tag: u32) -> Option<&str> {
    let value = values(tags, tag).first()?;
    std::str::from_utf8(value.strip_suffix(b"\0")?).ok()
}

/// Gives a tag another value at this place.
fn set(tags: &mut [Tagged], tag: u32, place: usize, to: &[u8]) -> Result<(), BadPackage> {
    let tagged = tags.iter_mut().find(|tagged| tagged.tag == tag);
    let value = tagged.and_then(|tagged| tagged.values.get_mut(place));
    let value = value.ok_or_else(|| BadPackage::Form(format!("it has no tag {tag}")))?;
    *value = to.to_vec();
    Ok(())
}

/// The width of values of this kind; `None` for texts, which end by a byte of their own.
fn width(kind: u32) -> Option<usize> {
    match kind {
        0..=2 | BYTES => Some(1),
        INT16 => Some(2),
        INT32 => Some(4),
        5 => Some(8),
        _ => None,
    }
}

/// Reads the head with which `bytes` begin: its values without the one that spans it, and its length.
fn head(bytes: &[u8]) -> Result<(Vec<Tagged>, usize), BadPackage> {
    let cut = || bad("a head in it is damaged");
    let number = |at: usize| bytes.get(at..).and_then(u32_of).map(|n| n as usize);
    if !bytes.starts_with(HEAD_MAGIC) {
        return Err(cut());
    }

    let count = number(8)
        .filter(|count| *count < bytes.len())
        .ok_or_else(cut)?;
    let size = number(12)
        .filter(|size| *size < bytes.len())
        .ok_or_else(cut)?;
    let start = HEAD_MAGIC.len() + 8 + count * INDEX;
    let store = bytes.get(start..start + size).ok_or_else(cut)?;

    let mut all = Vec::new();
    for entry in 0..count {
        let at = HEAD_MAGIC.len() + 8 + entry * INDEX;
        let field = |part: usize| number(at + 4 * part).ok_or_else(cut);
        let (tag, kind) = (field(0)? as u32, field(1)? as u32);
        if tag == REGION || tag == SUMS_REGION {
            continue;
        }

        let mut rest = store.get(field(2)?..).ok_or_else(cut)?;
        let mut values = Vec::new();
        for _ in 0..field(3)? {
            let end = rest.iter().position(|byte| *byte == 0).map(|end| end + 1);
            let long = width(kind).or(end).ok_or_else(cut)?;
            values.push(rest.get(..long).ok_or_else(cut)?.to_vec());
            rest = &rest[long..];
        }
        all.push(Tagged { tag, kind, values });
    }
    Ok((all, start + size))
}

/// Writes a head. The value that spans it comes first in the index and last in the store.
fn written(tags: &[Tagged], region: u32) -> Vec<u8> {
    let mut index = Vec::new();
    let mut store: Vec<u8> = Vec::new();
    for Tagged { tag, kind, values } in tags {
        store.resize(store.len().next_multiple_of(width(*kind).unwrap_or(1)), 0);
        for word in [*tag, *kind, store.len() as u32, values.len() as u32] {
            index.extend(word.to_be_bytes());
        }
        store.extend(values.concat());
    }

    let spans = |offset: u32| {
        let words = [region, BYTES, offset, INDEX as u32];
        words.map(u32::to_be_bytes).concat()
    };
    let count = tags.len() as u32 + 1;
    let first = spans(store.len() as u32);
    store.extend(spans((count * INDEX as u32).wrapping_neg()));
    let counts = [count, store.len() as u32].map(u32::to_be_bytes).concat();
    [HEAD_MAGIC, &counts, &first, &index, &store].concat()
}
