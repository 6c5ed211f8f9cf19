//! The fuzz targets with the inputs that are kept for them, and with those inputs damaged as a seed
//! says. What cargo-fuzz finds is added to the inputs; how long it has run is in docs/fuzzing.md.

#[path = "../../../fuzz/src/targets.rs"]
#[allow(dead_code, unreachable_pub)]
mod targets;

#[path = "../../../fuzz/src/job_file.rs"]
#[allow(unreachable_pub)]
mod job_file;

use std::fs;
use std::path::PathBuf;

use common::BlobRef;
use common::content::BlobHash;
use common::manifest::{ListedFile, ListedLink, Manifest};
use common::token::hex;
use proptest::prelude::ProptestConfig;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use targets::{TARGETS, Target};

/// How often each kept input is damaged, where `DESKGRID_DAMAGED` says nothing else.
const DAMAGED: usize = 64;
/// No input is kept that is longer than this, in bytes.
const KEPT_BYTES: usize = 16 * 1024;

fn all() -> impl Iterator<Item = Target> {
    TARGETS
        .into_iter()
        .chain([("job_file", job_file::job_file as fn(&[u8]))])
}

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = super::house::root().join("fuzz/corpus").join(target);
    let mut found: Vec<PathBuf> = fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .flatten()
        .map(|e| e.path())
        .collect();
    found.sort();
    found
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).expect("can be read")))
        .collect()
}

/// Bits turned, bytes taken out, pieces doubled, moved and set to extremes: a few of these at a
/// time.
fn damage(rng: &mut StdRng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.random_range(1..=4) {
        let at = rng.random_range(0..=bytes.len());
        let end = rng.random_range(at..=bytes.len().min(at + 8));
        match rng.random_range(0..6) {
            0 => drop(bytes.drain(at..end)),
            1 => bytes.truncate(at),
            2 => {
                let piece = bytes[at..end].to_vec();
                let to = rng.random_range(0..=bytes.len());
                drop(bytes.splice(to..to, piece));
            }
            3 => bytes.insert(at, rng.random()),
            4 => bytes[at..end].fill([0, 0xff, 0x80, b'9'][rng.random_range(0..4)]),
            _ if at < bytes.len() => bytes[at] ^= 1 << rng.random_range(0..8),
            _ => {}
        }
    }
}

fn every(target: Target) {
    let (name, run) = target;
    let damaged = std::env::var("DESKGRID_DAMAGED")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(DAMAGED);
    let kept = corpus(name);
    assert!(
        kept.len() >= 3,
        "{name}: only {} inputs are kept",
        kept.len()
    );

    let mut rng = StdRng::seed_from_u64(u64::from_le_bytes(*b"deskgrid"));
    for (path, bytes) in kept {
        assert!(
            bytes.len() <= KEPT_BYTES,
            "{}: {} bytes",
            path.display(),
            bytes.len()
        );

        let shown = |bytes: &[u8]| {
            format!(
                "{}: {}",
                path.display(),
                hex(&bytes[..bytes.len().min(2_000)])
            )
        };
        let tried = |bytes: &[u8]| {
            let done = std::panic::catch_unwind(|| run(bytes));
            assert!(done.is_ok(), "{name} fails on {}", shown(bytes));
        };
        tried(&bytes);

        for _ in 0..damaged {
            let mut bytes = bytes.clone();
            damage(&mut rng, &mut bytes);
            tried(&bytes);
        }
    }
}

#[test]
fn every_target_stands_its_kept_inputs_whole_and_damaged() {
    for target in all() {
        every(target);
    }
}

#[test]
fn every_target_stands_random_bytes() {
    let config = ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, b"thirty-two bytes that never vary");
    let mut runner = TestRunner::new_with_rng(config, rng);
    let bytes = proptest::collection::vec(proptest::num::u8::ANY, 0..300);
    let done = runner.run(&bytes, |bytes| {
        for (_, run) in all() {
            run(&bytes);
        }
        Ok(())
    });
    done.unwrap();
}

/// The inputs that need no fuzzer: one of each message, and what each reader should take or refuse.
/// With `DESKGRID_BLESS` they are written; else they must be there.
#[test]
fn the_first_inputs_are_kept() {
    for (target, name, bytes) in firsts() {
        let path = super::house::root()
            .join("fuzz/corpus")
            .join(target)
            .join(name);
        if std::env::var_os("DESKGRID_BLESS").is_some() {
            fs::create_dir_all(path.parent().expect("below the corpus"))
                .expect("a directory can be made");
            fs::write(&path, &bytes).expect("a file can be written");
        }

        let kept = fs::read(&path)
            .unwrap_or_else(|e| panic!("{}: {e}; DESKGRID_BLESS=1 writes it", path.display()));
        assert_eq!(
            kept,
            bytes,
            "{}: DESKGRID_BLESS=1 writes it anew",
            path.display()
        );
    }
}

type Input = (&'static str, String, Vec<u8>);

fn firsts() -> Vec<Input> {
    let families = [
        "enrol",
        "enrol_reply",
        "open",
        "get_reply",
        "put_reply",
        "to_master",
        "to_worker",
        "request",
        "reply",
        "tail",
        "peer",
        "from_gateway",
        "to_gateway",
        "needs_reply",
    ];

    let mut all = Vec::new();
    for (number, line) in (1..).zip(super::house::text("tests/golden/wire.txt").lines()) {
        let (name, digits) = line.split_once(' ').expect("a name and its bytes");
        let frame: Vec<u8> = (0..digits.len() / 2)
            .map(|n| u8::from_str_radix(&digits[2 * n..2 * n + 2], 16).expect("two digits"))
            .collect();
        let (family, _) = name.split_once('.').expect("a family and a name");
        let kind = families
            .iter()
            .position(|f| *f == family)
            .expect("a family that `message` knows");
        let body = [&[u8::try_from(kind).expect("small")][..], &frame[4..]].concat();
        all.push(("message", format!("{number:02}-{name}"), body));

        if family == "enrol" {
            all.push(("frame", name.to_owned(), frame.clone()));
            all.push((
                "frame",
                format!("{name}-twice"),
                [frame.clone(), frame].concat(),
            ));
        }
    }

    for (name, list) in lists() {
        let bytes = list.to_bytes().expect("a list can be written");
        all.push(("manifest", name.to_owned(), bytes));
    }
    all.push(("frame", "huge".to_owned(), u32::MAX.to_le_bytes().to_vec()));
    all.extend(
        texts()
            .into_iter()
            .map(|(target, name, text)| (target, name.to_owned(), text.as_bytes().to_vec())),
    );

    all
}

/// Lists of files: of a state, of a tree, and some that are refused.
fn lists() -> Vec<(&'static str, Manifest)> {
    let file = |path: &str| {
        let hash = BlobHash([7; 32]);
        ListedFile::new(path.parse().expect("a path"), BlobRef { hash, size: 5 })
    };
    let link = |path: &str, target: &str| ListedLink {
        path: path.parse().expect("a path"),
        target: target.to_owned(),
    };
    let state = Manifest::from(vec![file("step"), file("deep/er/table")]);
    let tree = Manifest {
        files: vec![
            ListedFile {
                executable: true,
                modified: Some(1_700_000_000),
                ..file("bin/run")
            },
            file("lib/a.py"),
        ],
        parts: vec![BlobRef {
            hash: BlobHash([8; 32]),
            size: 10,
        }],
        links: vec![link("bin/again", "run"), link("lib/up", "../bin/run")],
        empty: vec!["tmp/none".parse().expect("a path")],
    };
    let out = Manifest {
        links: vec![link("lib/out", "../../etc/passwd")],
        ..tree.clone()
    };
    let through = Manifest {
        links: vec![link("lib", "bin")],
        ..tree.clone()
    };
    vec![
        ("state", state),
        ("tree", tree),
        ("leads-out", out),
        ("through-a-link", through),
    ]
}

fn texts() -> Vec<(&'static str, &'static str, &'static str)> {
    let token = "dg1.7.000102030405060708090a0b0c0d0e0f.\
                 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    let name = "deskgrid://11111111-2222-4333-8444-555555555555/worker/66666666-7777-4888-9999-aaaaaaaaaaaa";
    let fta = "1\t0\t1\t1\t1\t1\t100.0\t200.0\tNULL\n1\t0\t1\t1\t1\t0\t200.0\t300.5\t7\n";
    vec![
        ("token", "whole", token),
        ("token", "short", "dg1.7.00.11"),
        ("token", "no-number", "dg1..00.11"),
        ("certificate", "name", name),
        ("certificate", "other-name", "deskgrid://x/admin/y/z"),
        ("certificate", "not-der", "0\u{82}\u{1}"),
        ("path", "plain", "a/b.txt"),
        ("path", "up", "a/../../b"),
        ("path", "device", "a/nul.txt"),
        ("path", "stream", "a:b\\c"),
        ("progress", "plain", "0.5 half of it\n"),
        ("progress", "no-number", "NaN\u{7}"),
        ("progress", "blank", " \n0.5"),
        (
            "job_file",
            "plain",
            "name = \"x\"\narray = \"1-3\"\ncommand = [\"true\"]\n",
        ),
        ("job_file", "unknown", "colour = \"blue\"\n"),
        ("job_file", "broken", "name = [\n"),
        (
            "trace",
            "csv",
            "\0host,start_s,end_s,host_available,cpu_fraction\na,0,10,1,0.5\nb,0,10,0,0\na,10,20,1,1\n",
        ),
        ("trace", "clocks", "\u{1}host,clock_mhz\na,1500\n"),
        ("trace", "avt", "\u{3}h1 2 0 10 20 30\nh2 1 5 6\n"),
        (
            "trace",
            "boinc",
            "\u{4}1200000000.0 power_on\n1200000100.0 power_off\n",
        ),
        (
            "trace",
            "activitywatch",
            "\u{5}{\"buckets\":{\"a\":{\"type\":\"afkstatus\",\"hostname\":\"h\",\"events\":[{\"timestamp\":\
             \"2026-01-01T00:00:00Z\",\"duration\":5.0,\"data\":{\"status\":\"afk\"}}]}}}",
        ),
        (
            "trace",
            "fta",
            Box::leak(format!("\u{2}{fta}").into_boxed_str()),
        ),
    ]
}
