//! An installer as a package for Debian: the plain one with the site's two files among its own. A
//! package is an archive of `ar` with three members; the last two are compressed archives of tar.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::{BadPackage, JOIN, PATTERN, SETTINGS, SiteFiles};

const MAGIC: &[u8] = b"!<arch>\n";
/// The length of the head of a member.
const HEAD: usize = 60;
/// The unit of an archive of tar, in bytes.
const BLOCK: usize = 512;
/// The script that asks before the installation: everything is known.
const NO_QUESTIONS: &[u8] = b"#!/bin/sh\nexit 0\n";

/// A member of the outer archive.
struct ArMember {
    name: String,
    bytes: Vec<u8>,
}

/// Makes the installer of a plain package.
pub(super) fn installer(
    plain: &[u8],
    site: &SiteFiles,
    token: &str,
) -> Result<Vec<u8>, BadPackage> {
    let mut members = members(plain)?;
    for member in &mut members {
        let bytes = std::mem::take(&mut member.bytes);
        member.bytes = match &*member.name {
            "debian-binary" => bytes,
            "control.tar.gz" => repacked(&bytes, |entries| {
                let asks = |entry: &&mut PackedFile| entry.name() == b"config";
                if let Some(script) = entries.iter_mut().find(asks) {
                    script.fill(NO_QUESTIONS.to_vec());
                }
                Ok(())
            })?,
            "data.tar.gz" => repacked(&bytes, |entries| data(entries, site, token))?,
            other => {
                return Err(BadPackage::Form(format!(
                    "it has a member `{other}`; only those of gzip are known"
                )));
            }
        };
    }

    Ok(written(&members))
}

/// Reads the members of an archive of `ar`.
fn members(bytes: &[u8]) -> Result<Vec<ArMember>, BadPackage> {
    let bad = |why: &str| BadPackage::Form(why.to_owned());
    let mut rest = bytes
        .strip_prefix(MAGIC)
        .ok_or_else(|| bad("it is no package for Debian"))?;

    let mut all = Vec::new();
    while !rest.is_empty() {
        let head = rest.get(..HEAD).ok_or_else(|| bad("it is cut short"))?;
        let text = |part: &[u8]| String::from_utf8_lossy(part).trim().to_owned();
        let name = text(&head[..16]).trim_end_matches('/').to_owned();
        let size: usize = text(&head[48..58])
            .parse()
            .map_err(|_| bad("the size of a member is no number"))?;

        let end = HEAD.checked_add(size);
        let content = end.and_then(|end| rest.get(HEAD..end));
        let bytes = content.ok_or_else(|| bad("it is cut short"))?.to_vec();
        // Members begin at even places.
        rest = rest.get(HEAD + size + size % 2..).unwrap_or_default();
        all.push(ArMember { name, bytes });
    }

    Ok(all)
}

/// Writes an archive of `ar`.
fn written(members: &[ArMember]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for ArMember { name, bytes } in members {
        let head = format!(
            "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
            0,
            0,
            0,
            100_644,
            bytes.len()
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(bytes);
        if bytes.len() % 2 == 1 {
            out.push(b'\n');
        }
    }
    out
}

/// An entry of an archive of tar: its head as it stands there, and its content.
#[derive(Clone)]
struct PackedFile {
    head: [u8; BLOCK],
    content: Vec<u8>,
}

impl PackedFile {
    /// The name without the `./` before it.
    fn name(&self) -> &[u8] {
        let name = self.head[..100].split(|byte| *byte == 0).next();
        let name = name.unwrap_or_default();
        name.strip_prefix(b"./").unwrap_or(name)
    }

    /// Gives the entry another content.
    fn fill(&mut self, content: Vec<u8>) {
        self.put(124, &format!("{:011o}\0", content.len()));
        self.content = content;
    }

    /// Writes a field of the head, and the sum of the head's bytes.
    fn put(&mut self, at: usize, text: &str) {
        self.head[at..at + text.len()].copy_from_slice(text.as_bytes());
        self.head[148..156].copy_from_slice(b"        ");
        let sum: u32 = self.head.iter().map(|byte| u32::from(*byte)).sum();
        self.head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}

/// Puts the site's files among those of a package.
fn data(entries: &mut Vec<PackedFile>, site: &SiteFiles, token: &str) -> Result<(), BadPackage> {
    let pattern = entries
        .iter()
        .find(|entry| entry.name() == PATTERN.as_bytes());
    let pattern = pattern.cloned();
    let pattern = pattern.ok_or_else(|| BadPackage::Form(format!("it has no {PATTERN}")))?;

    let file = |name: &str, mode: &str, text: &str| {
        let mut file = pattern.clone();
        file.head[..100].fill(0);
        file.put(0, &format!("./{name}"));
        file.put(100, mode);
        file.fill(text.as_bytes().to_vec());
        file
    };
    let settings = site.settings.as_deref();
    entries.extend(settings.map(|text| file(SETTINGS, "0000644\0", text)));
    entries.push(file(JOIN, "0000600\0", &site.join_file(token)));

    Ok(())
}

/// Writes a compressed archive anew, with its entries as `change` leaves them.
fn repacked(
    bytes: &[u8],
    change: impl FnOnce(&mut Vec<PackedFile>) -> Result<(), BadPackage>,
) -> Result<Vec<u8>, BadPackage> {
    let broken = |error: std::io::Error| BadPackage::Form(error.to_string());
    let mut tar = Vec::new();
    let mut decoder = GzDecoder::new(bytes);
    decoder.read_to_end(&mut tar).map_err(broken)?;
    let mut entries = entries(&tar)?;
    change(&mut entries)?;

    let mut out = GzEncoder::new(Vec::new(), Compression::best());
    for PackedFile { head, content } in &entries {
        let padding = content.len().next_multiple_of(BLOCK) - content.len();
        for part in [&head[..], content, &[0; BLOCK][..padding]] {
            out.write_all(part).map_err(broken)?;
        }
    }
    out.write_all(&[0; 2 * BLOCK]).map_err(broken)?;
    out.finish().map_err(broken)
}

/// Reads the entries of an archive of tar. What stands before an entry, such as a long name, is an
/// entry here.
fn entries(tar: &[u8]) -> Result<Vec<PackedFile>, BadPackage> {
    let bad = || BadPackage::Form("an archive in it is damaged".to_owned());
    let mut all = Vec::new();
    let mut rest = tar;
    while let Some((head, behind)) = rest.split_first_chunk::<BLOCK>() {
        if head.iter().all(|byte| *byte == 0) {
            return Ok(all);
        }

        let digits = String::from_utf8_lossy(&head[124..135]);
        let size = usize::from_str_radix(digits.trim_matches(['\0', ' ']), 8);
        let size = size.map_err(|_| bad())?;
        let content = behind.get(..size).ok_or_else(bad)?.to_vec();
        rest = behind.get(size.next_multiple_of(BLOCK)..).ok_or_else(bad)?;
        all.push(PackedFile {
            head: *head,
            content,
        });
    }

    Err(bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tarred(files: &[(&str, &str)]) -> Vec<u8> {
        let mut empty = GzEncoder::new(Vec::new(), Compression::fast());
        empty.write_all(&[0; 2 * BLOCK]).unwrap();
        let entry = |(path, text): &(&str, &str)| {
            let mut entry = PackedFile {
                head: [0; BLOCK],
                content: Vec::new(),
            };
            entry.put(0, path);
            entry.put(100, "0000644\0");
            entry.fill(text.as_bytes().to_vec());
            entry
        };
        let all = files.iter().map(entry);
        repacked(&empty.finish().unwrap(), |entries| {
            entries.extend(all);
            Ok(())
        })
        .unwrap()
    }

    fn plain() -> Vec<u8> {
        let member = |name: &str, bytes| ArMember {
            name: name.to_owned(),
            bytes,
        };
        let files = [
            ("usr/bin/deskgrid-worker", "program"),
            (PATTERN, "# plain\n"),
        ];
        written(&[
            member("debian-binary", b"2.0\n".to_vec()),
            member("control.tar.gz", tarred(&[("config", "asks\n")])),
            member("data.tar.gz", tarred(&files)),
        ])
    }

    /// The files of a member, each with its mode.
    fn files(package: &[u8], name: &str) -> Vec<(String, String, String)> {
        let members = members(package).unwrap();
        let found = members.iter().find(|member| member.name == name).unwrap();
        let mut tar = Vec::new();
        GzDecoder::new(&*found.bytes).read_to_end(&mut tar).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let all = entries(&tar).unwrap().into_iter();
        all.map(|entry| {
            let mode = text(&entry.head[100..107]);
            (text(entry.name()), mode, text(&entry.content))
        })
        .collect()
    }

    #[test]
    fn a_site_package_has_the_token_for_root_alone_and_the_sites_settings() {
        let site = SiteFiles {
            master: "grid:7411".to_owned(),
            settings: Some("slots = 1\n".to_owned()),
        };
        let made = installer(&plain(), &site, "dg1.secret").unwrap();

        let found = files(&made, "data.tar.gz");
        let program = found.iter().find(|(path, ..)| path.ends_with("worker"));
        assert_eq!(program.unwrap().2, "program");
        let plain = found.iter().find(|(path, ..)| path.ends_with(PATTERN));
        assert_eq!(plain.unwrap().2, "# plain\n");
        let settings = found.iter().find(|(path, ..)| path.ends_with(SETTINGS));
        assert_eq!(settings.unwrap().2, "slots = 1\n");
        let join = found.iter().find(|(path, ..)| path.ends_with(JOIN));
        let (_, mode, text) = join.unwrap();
        assert_eq!(mode, "0000600");
        assert_eq!(text, "master = \"grid:7411\"\ntoken = \"dg1.secret\"\n");

        let control = files(&made, "control.tar.gz");
        assert_eq!(control[0].2.as_bytes(), NO_QUESTIONS);
    }

    #[test]
    fn what_is_no_plain_package_is_refused() {
        let site = SiteFiles {
            master: "grid:7411".to_owned(),
            settings: None,
        };
        let whole = plain();
        for bytes in [&b"no package"[..], &whole[..whole.len() - 10], &whole[..70]] {
            assert!(installer(bytes, &site, "dg1.secret").is_err());
        }
    }
}
