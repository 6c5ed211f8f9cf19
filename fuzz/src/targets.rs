//! What is done with bytes from outside: one function for each reader of them, which panics where
//! the reader does or where what it accepts is not what it should be. cargo-fuzz drives them
//! (`fuzz/fuzz_targets`), and the usual tests do with the kept inputs in `fuzz/corpus`
//! (`tests/tests/all/corpora.rs`). Not here: where the bytes come from.

use std::fs;
use std::path::{Component, Path};

use common::manifest::{MAX_ENTRIES, Manifest};
use common::path::PortablePath;
use common::progress::{MAX_WORDS, ProgressReport};
use common::token::JoinToken;
use common::wire::client::{Reply, Request};
use common::wire::enrol::{Enrol, EnrolReply};
use common::wire::frame::{MAX_FRAME, PREFIX, decode, encode, length};
use common::wire::gateway::{FromGateway, NeedsReply, ToGateway};
use common::wire::peer::PeerGet;
use common::wire::stream::{GetReply, Open, PutReply, TailPart};
use common::wire::worker::{ToMaster, ToWorker};
use serde::Serialize;
use serde::de::DeserializeOwned;
use simulator::trace::{Trace, read_clocks_mhz};

/// A target: its name, and what it does with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets but that of job files, which is apart: it needs the whole program
/// (`fuzz/src/job_file.rs`).
pub const TARGETS: [Target; 8] = [
    ("frame", frame),
    ("message", message),
    ("token", token),
    ("certificate", certificate),
    ("path", path),
    ("manifest", manifest),
    ("progress", progress),
    ("trace", trace),
];

/// A stream of frames of the kind that anybody can send, without a certificate.
pub fn frame(bytes: &[u8]) {
    let mut rest = bytes;
    while let Some((prefix, after)) = rest.split_first_chunk::<PREFIX>() {
        let Ok(length) = length(*prefix) else { return };
        assert!(length <= MAX_FRAME, "a length beyond the limit was taken");
        let Some((body, next)) = after.split_at_checked(length) else {
            return;
        };
        reads_back::<Enrol>(body);
        rest = next;
    }
}

/// One message of each kind; the first byte says which.
pub fn message(bytes: &[u8]) {
    let Some((kind, body)) = bytes.split_first() else {
        return;
    };
    match kind % 14 {
        0 => reads_back::<Enrol>(body),
        1 => reads_back::<EnrolReply>(body),
        2 => reads_back::<Open>(body),
        3 => reads_back::<GetReply>(body),
        4 => reads_back::<PutReply>(body),
        5 => reads_back::<ToMaster>(body),
        6 => reads_back::<ToWorker>(body),
        7 => reads_back::<Request>(body),
        9 => reads_back::<TailPart>(body),
        10 => reads_back::<PeerGet>(body),
        11 => reads_back::<FromGateway>(body),
        12 => reads_back::<ToGateway>(body),
        13 => reads_back::<NeedsReply>(body),
        _ => reads_back::<Reply>(body),
    }
}

/// What decodes can be encoded, and then says the same.
fn reads_back<T: Serialize + DeserializeOwned>(body: &[u8]) {
    let Ok(message) = decode::<T>(body) else {
        return;
    };
    // What is longer when it is written properly may be too long; nothing else may go wrong.
    let Ok(frame) = encode(&message) else { return };
    let again = decode::<T>(&frame[PREFIX..]).expect("what we write we can read");
    assert_eq!(
        encode(&again).expect("as long as before"),
        frame,
        "a message changes by being passed on"
    );
}

/// A join token as somebody typed it.
pub fn token(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(token) = text.parse::<JoinToken>() {
        assert_eq!(
            token.to_string().parse::<JoinToken>().as_ref(),
            Ok(&token),
            "a token changes by being printed"
        );
    }
}

/// A certificate, and who it says somebody is.
pub fn certificate(bytes: &[u8]) {
    if let Ok((name, _)) = link::identity::read_certificate(bytes) {
        let again: link::PeerName = name.to_string().parse().expect("what we print we can read");
        assert_eq!(again, name, "a name changes by being printed");
    }
    let _ = (link::Validity::of(bytes), link::identity::key_hash(bytes));
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = text.parse::<link::PeerName>();
    }
}

/// A name of a file from another machine.
pub fn path(bytes: &[u8]) {
    let Ok(text) = String::from_utf8(bytes.to_vec()) else {
        return;
    };
    let Ok(path) = PortablePath::try_from(text.clone()) else {
        return;
    };
    assert_eq!(path.as_str(), text, "a path changes by being checked");

    let inside = |part: Component<'_>| matches!(part, Component::Normal(_));
    assert!(
        Path::new(&text).components().all(inside),
        "{text:?} leads out of its directory"
    );
    assert!(
        !text.contains(['\\', '\0', ':']),
        "{text:?} means something else on another system"
    );
}

/// The list of a tree, or of a saved state.
pub fn manifest(bytes: &[u8]) {
    let Ok(list) = Manifest::from_bytes(bytes) else {
        assert!(
            Manifest::of_state(bytes).is_err(),
            "no list, but one of a state"
        );
        return;
    };
    let again = list.to_bytes().expect("what we read we can write");
    assert_eq!(
        Manifest::from_bytes(&again).as_ref(),
        Ok(&list),
        "a list changes by being passed on"
    );
    assert!(list.entries() <= MAX_ENTRIES, "{} entries", list.entries());

    let files = list.files.iter().map(|file| file.path.as_str());
    let leaves: Vec<&str> = files
        .chain(list.links.iter().map(|link| link.path.as_str()))
        .collect();
    for leaf in leaves.iter().take(100) {
        let below = format!("{leaf}/").to_lowercase();
        assert!(
            !leaves
                .iter()
                .any(|other| other.to_lowercase().starts_with(&below)),
            "something would be written through {leaf:?}"
        );
    }
    for link in &list.links {
        let mut depth = link.path.as_str().matches('/').count().cast_signed();
        assert!(!link.target.starts_with('/'), "{:?} leads out", link.target);
        for name in link
            .target
            .split('/')
            .filter(|name| !matches!(*name, "" | "."))
        {
            depth += if name == ".." { -1 } else { 1 };
            assert!(depth >= 0, "{:?} leads out of its tree", link.target);
        }
    }
}

/// The bytes that a task wrote as its progress.
pub fn progress(bytes: &[u8]) {
    let Some(ProgressReport { part, words }) = ProgressReport::read(bytes) else {
        return;
    };
    assert!(
        part.is_none_or(|part| (0.0..=1.0).contains(&part)),
        "{part:?} is taken as a part"
    );
    assert!(
        part.is_some() || !words.is_empty(),
        "ignored without a word"
    );
    assert!(
        words.len() <= MAX_WORDS && !words.contains(char::is_control),
        "{words:?} would be shown"
    );
}

/// A trace in one of the formats; the first byte says which.
pub fn trace(bytes: &[u8]) {
    let Some((kind, body)) = bytes.split_first() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("event_trace.tab");
    let write = |name: &str, bytes: &[u8]| {
        fs::write(dir.path().join(name), bytes).expect("a file can be written");
    };
    let read = match kind % 6 {
        0 => {
            write("hosts.csv", b"host,clock_mhz\na,1500\nb,2000\n");
            write("availability.csv", body);
            Trace::read(dir.path())
        }
        1 => {
            write("hosts.csv", body);
            let _ = read_clocks_mhz(&dir.path().join("hosts.csv"));
            return;
        }
        2 => {
            write("event_trace.tab", body);
            Trace::read_fta(&file)
        }
        3 => {
            write("t.avt", body);
            Trace::read_avt(&dir.path().join("t.avt"))
        }
        4 => {
            write("time_stats_log", body);
            Trace::read_boinc(&dir.path().join("time_stats_log"))
        }
        _ => {
            write("t.json", body);
            Trace::read_activitywatch(&dir.path().join("t.json"))
        }
    };

    let Ok(trace) = read else { return };
    for host in &trace.hosts {
        let ordered = host
            .segments
            .windows(2)
            .all(|pair| pair[0].end_s <= pair[1].start_s);
        let sound = host
            .segments
            .iter()
            .all(|s| s.start_s <= s.end_s && (0.0..=1.0).contains(&s.cpu));
        assert!(
            ordered && sound,
            "a trace that cannot be was taken: {:?}",
            host.segments
        );
    }

    let _ = trace.without_gaps();
}
