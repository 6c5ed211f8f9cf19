//! Tests of directories and archives that become trees.

use std::collections::BTreeMap;
use std::io::Write;
#[cfg(unix)]
use std::process::Command;

use super::*;

/// An entry of a tree, at its path.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    File(Vec<u8>, bool),
    Link(String),
    Empty,
}

/// Packs a tree, and puts it together again from its list and its parts.
fn unpacked(path: &Path) -> Result<BTreeMap<String, Found>, BadTree> {
    let mut content = Vec::new();
    let mut parts = Vec::new();
    let manifest = pack(path, |part| {
        parts.push(link::content::hash_bytes(&part));
        content.extend(part);
        Ok(())
    })?;
    assert_eq!(manifest.parts, parts);
    let list = encoded(path, &manifest)?;
    assert_eq!(Manifest::from_bytes(&list).as_ref(), Ok(&manifest));

    let mut rest = &content[..];
    let mut found = BTreeMap::new();
    for file in manifest.files {
        let (own, after) = rest.split_at(file.blob.size as usize);
        rest = after;
        assert_eq!(link::content::hash_bytes(own), file.blob);
        found.insert(
            file.path.to_string(),
            Found::File(own.to_vec(), file.executable),
        );
    }
    assert!(rest.is_empty());
    let links = manifest.links.into_iter();
    found.extend(links.map(|link| (link.path.to_string(), Found::Link(link.target))));
    found.extend(
        manifest
            .empty
            .iter()
            .map(|dir| (dir.to_string(), Found::Empty)),
    );
    Ok(found)
}

fn refusal(path: &Path) -> String {
    let failure: crate::failure::Failure =
        super::super::BuildError::from(unpacked(path).expect_err("it is no tree")).into();
    failure.text()
}

fn file(text: &[u8]) -> Found {
    Found::File(text.to_vec(), false)
}

#[cfg(unix)]
fn sample(dir: &Path) -> BTreeMap<String, Found> {
    use std::os::unix::fs::{PermissionsExt, symlink};
    fs::create_dir_all(dir.join("bin")).unwrap();
    fs::create_dir_all(dir.join("lib/none/at/all")).unwrap();
    let large: Vec<u8> = (0..LONGEST + 12_345)
        .map(|n| ((n * n) >> 7) as u8)
        .collect();
    fs::write(dir.join("bin/run"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(dir.join("bin/run"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(dir.join("lib/large"), &large).unwrap();
    fs::write(dir.join("lib/nothing"), "").unwrap();
    let long = ["lib", &"long".repeat(20), &"name".repeat(20)].join("/");
    fs::create_dir_all(dir.join(&long).parent().unwrap()).unwrap();
    fs::write(dir.join(&long), "long name").unwrap();
    symlink("../lib/large", dir.join("bin/large")).unwrap();
    symlink("not-there", dir.join("dangling")).unwrap();
    [
        ("bin/run", Found::File(b"#!/bin/sh\n".to_vec(), true)),
        ("lib/large", file(&large)),
        ("lib/nothing", file(b"")),
        (&long, file(b"long name")),
        ("bin/large", Found::Link("../lib/large".to_owned())),
        ("dangling", Found::Link("not-there".to_owned())),
        ("lib/none/at/all", Found::Empty),
    ]
    .map(|(path, found)| (path.to_owned(), found))
    .into()
}

#[cfg(unix)]
#[test]
fn a_directory_and_archives_of_it_are_the_same_tree() {
    let top = tempfile::tempdir().unwrap();
    let dir = top.path().join("env");
    let expected = sample(&dir);
    assert_eq!(unpacked(&dir).unwrap(), expected);

    for (name, options) in [
        ("gnu.tar", &["--format=gnu"][..]),
        ("pax.tar", &["--format=pax"]),
        ("env.tar.gz", &["-z"]),
        ("env.tgz", &["-z", "--format=ustar"]),
    ] {
        let to = top.path().join(name);
        let mut tar = Command::new("tar");
        tar.args(options)
            .arg("-cf")
            .arg(&to)
            .arg("-C")
            .arg(&dir)
            .arg(".");
        assert!(tar.status().unwrap().success());
        assert_eq!(unpacked(&to).unwrap(), expected, "{name}");
    }
}

#[cfg(unix)]
#[test]
fn a_few_changed_files_leave_most_parts_as_they_were() {
    let top = tempfile::tempdir().unwrap();
    let parts = || pack(top.path(), |_| Ok(())).unwrap().parts;
    for n in 0_u32..3_000 {
        let text: Vec<u8> = (0..4_000_u32)
            .map(|at| (at.wrapping_mul(n + 7) >> 5) as u8)
            .collect();
        fs::write(top.path().join(format!("{n:04}")), text).unwrap();
    }
    let before = parts();
    fs::write(top.path().join("1000"), "shorter now").unwrap();
    let after = parts();
    let same = before.iter().filter(|part| after.contains(part)).count();
    assert!(
        before.len() >= 4 && before.len() <= 7,
        "{} parts",
        before.len()
    );
    assert!(
        same + 2 >= before.len(),
        "{same} of {} are as before",
        before.len()
    );
}

#[test]
fn a_zip_archive_is_a_tree_with_its_rights_and_links() {
    let top = tempfile::tempdir().unwrap();
    let path = top.path().join("env.zip");
    let large = b"again and again ".repeat(10_000);
    let entries: [(&str, u32, &[u8], bool); 5] = [
        ("bin/run", 0o100_755, b"#!/bin/sh\n", false),
        ("bin/link", 0o120_777, b"run", false),
        ("none/", 0o040_755, b"", false),
        ("data", 0o100_644, &large, true),
        ("empty", 0o100_644, b"", false),
    ];
    fs::write(&path, zip_of(&entries)).unwrap();
    let expected = [
        ("bin/run", Found::File(b"#!/bin/sh\n".to_vec(), true)),
        ("bin/link", Found::Link("run".to_owned())),
        ("none", Found::Empty),
        ("data", file(&large)),
        ("empty", file(b"")),
    ];
    let expected = expected
        .map(|(path, found)| (path.to_owned(), found))
        .into();
    assert_eq!(unpacked(&path).unwrap(), expected);

    let mut torn = zip_of(&entries);
    let at = torn
        .windows(4)
        .position(|window| window == b"#!/b")
        .unwrap();
    torn[at] = b'%';
    fs::write(&path, torn).unwrap();
    assert!(refusal(&path).contains("`bin/run` is damaged"));
}

/// An archive as zip programs write it.
fn zip_of(entries: &[(&str, u32, &[u8], bool)]) -> Vec<u8> {
    let (mut body, mut directory) = (Vec::new(), Vec::new());
    for (name, mode, text, deflated) in entries {
        let packed = if *deflated {
            let mut to =
                flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
            to.write_all(text).unwrap();
            to.finish().unwrap()
        } else {
            text.to_vec()
        };
        let mut crc = flate2::Crc::new();
        crc.update(text);
        let method: u16 = if *deflated { 8 } else { 0 };
        let mut common = vec![20, 0, 0, 0];
        common.extend(method.to_le_bytes());
        common.extend([0; 4]);
        for number in [crc.sum(), packed.len() as u32, text.len() as u32] {
            common.extend(number.to_le_bytes());
        }
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);

        let at = body.len() as u32;
        body.extend(b"PK\x03\x04");
        body.extend(&common);
        body.extend(name.bytes());
        body.extend(packed);
        directory.extend(b"PK\x01\x02\x14\x03");
        directory.extend(&common);
        directory.extend([0; 6]);
        directory.extend((mode << 16).to_le_bytes());
        directory.extend(at.to_le_bytes());
        directory.extend(name.bytes());
    }
    let (begin, size) = (body.len() as u32, directory.len() as u32);
    body.extend(directory);
    body.extend(b"PK\x05\x06\0\0\0\0");
    body.extend([(entries.len() as u16).to_le_bytes(); 2].concat());
    body.extend(size.to_le_bytes());
    body.extend(begin.to_le_bytes());
    body.extend([0, 0]);
    body
}

#[cfg(unix)]
#[test]
fn what_cannot_be_in_a_tree_is_refused_with_its_name_and_a_way_out() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    let with = |make: &dyn Fn(&Path)| {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir(top.path().join("d")).unwrap();
        fs::write(top.path().join("d/x"), "x").unwrap();
        make(top.path());
        refusal(top.path())
    };

    let fifo = |dir: &Path| {
        assert!(
            Command::new("mkfifo")
                .arg(dir.join("d/pipe"))
                .status()
                .unwrap()
                .success()
        );
    };
    for (make, said) in [
        (
            &(|dir: &Path| symlink("/etc/passwd", dir.join("d/abs")).unwrap()) as &dyn Fn(&Path),
            ["d/abs", "cp -rL"],
        ),
        (
            &|dir: &Path| symlink("../../x", dir.join("d/up")).unwrap(),
            ["d/up", "--copies"],
        ),
        (&fifo, ["d/pipe", "leave it out"]),
        (
            &|dir: &Path| fs::write(dir.join("d/X"), "X").unwrap(),
            ["upper and lower", "rename it"],
        ),
        (
            &|dir: &Path| fs::create_dir(dir.join("D")).unwrap(),
            ["upper and lower", "rename it"],
        ),
        (
            &|dir: &Path| fs::write(dir.join("a:b"), "").unwrap(),
            ["a:b", "rename it"],
        ),
        (
            &|dir: &Path| fs::write(dir.join(std::ffi::OsStr::from_bytes(b"a\xff")), "").unwrap(),
            ["UTF-8", "rename it"],
        ),
    ] {
        let refused = with(make);
        assert!(
            said.iter().all(|part| refused.contains(part)),
            "{said:?}: {refused}"
        );
    }

    let empty = tempfile::tempdir().unwrap();
    assert!(refusal(empty.path()).contains("is empty"));
}

#[test]
fn archives_that_lie_are_refused() {
    let top = tempfile::tempdir().unwrap();
    let path = top.path().join("a.tar");
    let said = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        refusal(&path)
    };
    assert!(said(b"no tar archive").contains("in the middle of a header"));
    assert!(said(&[7; 512]).contains("no tar archive, or damaged"));
    assert!(said(&header("../../etc/cron.d/x", b'0', 1, "")).contains("portable path"));
    assert!(said(&header("/etc/x", b'0', 1, "")).contains("absolute"));
    assert!(said(&header("x", b'0', 5_000, "")).contains("in the middle of a file"));
    assert!(said(&header("disk", b'4', 0, "")).contains("a device"));
    assert!(said(&header("out", b'2', 0, "../..")).contains("outside the tree"));
    assert!(said(&header("again", b'1', 0, "before")).contains("hard link"));
    // A link, and then a file through it.
    let through = [header("d", b'2', 0, "."), header("d/x", b'0', 0, "")].concat();
    assert!(said(&through).contains("both a directory and something else"));

    // The same content under another name is there once.
    let mut twice = header("deep/one", b'0', 4, "");
    twice.extend(b"text");
    twice.resize(1_024, 0);
    twice.extend(header("other/two", b'1', 0, "deep/one"));
    fs::write(&path, twice).unwrap();
    let expected = [
        ("deep/one".to_owned(), file(b"text")),
        (
            "other/two".to_owned(),
            Found::Link("../deep/one".to_owned()),
        ),
    ];
    assert_eq!(unpacked(&path).unwrap(), expected.into());
}

/// The header of an entry in a tar archive.
fn header(name: &str, kind: u8, size: u64, target: &str) -> Vec<u8> {
    let mut block = [0; 512];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, b"0000644");
    put(124, format!("{size:011o}").as_bytes());
    put(136, b"00000000001");
    put(148, b"        ");
    put(156, &[kind]);
    put(157, target.as_bytes());
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block.to_vec()
}

#[cfg(unix)]
#[test]
fn more_entries_than_there_may_be_are_refused() {
    let mut send = |_: Vec<u8>| Ok(());
    let mut packer = Packer::new(Path::new("whole"), &mut send);
    for n in 0..MAX_ENTRIES {
        packer.empty_dir(format!("{n}").parse().unwrap()).unwrap();
    }
    let one_more = packer.empty_dir("more".parse().unwrap()).unwrap_err();
    let failure: crate::failure::Failure = super::super::BuildError::from(one_more).into();
    assert!(failure.text().contains("200000") && failure.text().contains("--input"));
}

#[test]
fn a_file_that_grows_while_it_is_read_is_refused() {
    let top = tempfile::tempdir().unwrap();
    let path = top.path().join("log");
    fs::write(&path, vec![7; LONGEST + 1]).unwrap();
    // The first part is complete in the midst of the file.
    let packed = pack(top.path(), |_| {
        let mut file = File::options().append(true).open(&path)?;
        file.write_all(b"more")
    });
    let error = packed.expect_err("what was sent is no state that the file ever had");
    assert!(
        matches!(&error, BadTree::Changed(changed) if *changed == path),
        "{error}"
    );
}
