//! What whoever asks a worker can rely on, with a loop in its place that answers the same to all.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;

use common::host::{Confinement, HostFacts};
use common::{Span, Speed, Time};

use super::*;
use crate::machine::Machine;
use crate::owner::policy::Policy;
use crate::owner::rules::{Room, Rules};

fn report() -> Report {
    let facts = HostFacts {
        name: "h".to_owned(),
        slots: 3,
        speed: Speed::REFERENCE,
        clock_mhz: 1,
        cores: 3,
        memory_mib: 1,
        os: "test".to_owned(),
        confinement: Confinement::Process,
        confinement_most: Confinement::Process,
        network: true,
    };
    let room = Room { slots: 3, cores: 3, memory: 0, memory_per_task: 0 };
    let policy = Policy::new(Rules::dedicated(), &room, [], Time(0));
    let machine = Machine::new(3, Span::ZERO, None, []);
    let connected = (false, Time(0));
    Shown { host: "h", master: "m:1", facts: &facts, connected, policy: &policy, machine: &machine }
        .report(Time(2_000_000))
}

/// Has something asked of a worker in `dir`; what came of that, and what the loop was told of its switch.
fn asked<T: Send + 'static>(dir: &Path, ask: impl FnOnce(PathBuf) -> T + Send + 'static) -> (T, Vec<Option<Sight>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (tell, mut questions) = tokio::sync::mpsc::unbounded_channel::<Question>();
        serve(dir.to_owned(), tell).unwrap();
        let here = dir.to_owned();
        let mut asking = tokio::task::spawn_blocking(move || ask(here));
        let mut switches = Vec::new();
        loop {
            tokio::select! {
                answered = &mut asking => return (answered.unwrap(), switches),
                Some(question) = questions.recv() => {
                    switches.push(question.switch);
                    question.answer.send(report()).unwrap();
                }
            }
        }
    })
}

#[test]
fn a_worker_however_far_from_the_root_is_asked_by_its_own_account_only() {
    let dir = tempfile::tempdir().unwrap();
    let far = dir.path().join("d".repeat(120)).join("e".repeat(120));
    fs::create_dir_all(&far).unwrap();
    // What a killed worker left does no harm.
    fs::write(far.join("control"), "").unwrap();
    let (said, switches) = asked(&far, |dir| {
        let mode = fs::metadata(dir.join("control")).unwrap().permissions().mode();
        (ask(&dir, &Ask::Status).unwrap(), mode & 0o777)
    });
    assert_eq!((said.0, said.1, switches), (report(), 0o600, vec![None]));
    assert!(!far.join("control").exists(), "the socket goes with the worker");
}

#[test]
fn a_pause_is_a_file_and_the_loop_is_told_of_it_before_it_answers() {
    let dir = tempfile::tempdir().unwrap();
    let until = Some("9998-01-01T00:00:00Z".to_owned());
    let (said, switches) = asked(dir.path(), move |dir| {
        ask(&dir, &Ask::Pause { until }).unwrap();
        let said = fs::read_to_string(dir.join(pause::PAUSE_FILE)).unwrap();
        ask(&dir, &Ask::Resume).unwrap();
        said
    });
    assert_eq!(said, "until 9998-01-01T00:00:00Z\n");
    let paused = |sight: &Option<Sight>| matches!(sight, Some(Sight::Seen(Reading::Paused(Some(_)))));
    assert!(switches.len() == 2 && paused(&switches[0]) && !paused(&switches[1]), "{switches:?}");
    assert!(!dir.path().join(pause::PAUSE_FILE).exists());
}

#[test]
fn nonsense_is_refused_in_words_and_turns_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (answers, switches) = asked(dir.path(), |dir| {
        let words = ["\n", "{}\n", "{\"ask\":\"reboot\"}\n", "{\"ask\":\"pause\",\"until\":\"tea\"}\n", "no end"];
        words.map(|words| {
            let mut stream = transport::connect(&dir, PATIENCE).unwrap();
            stream.write_all(words.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        })
    });
    for answer in answers {
        assert!(answer.starts_with("{\"answer\":\"refused\",\"why\":\"") && answer.ends_with("}\n"), "{answer}");
    }
    assert!(switches.is_empty() && !dir.path().join(pause::PAUSE_FILE).exists());
}

#[test]
fn where_no_worker_runs_that_is_said_and_a_pause_is_made_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    for dir in [dir.path(), &dir.path().join("never")] {
        assert!(matches!(ask(dir, &Ask::Status), Err(ControlError::NotRunning(_))));
    }
    // A socket that nobody listens to any more.
    drop(std::os::unix::net::UnixListener::bind(dir.path().join("control")).unwrap());
    assert!(matches!(ask(dir.path(), &Ask::Status), Err(ControlError::NotRunning(_))));
    without(dir.path(), &Ask::Pause { until: None }).unwrap();
    assert!(paused(dir.path()).is_some_and(|switch| switch.ends_with("/pause")));
    without(dir.path(), &Ask::Resume).unwrap();
    assert_eq!(paused(dir.path()), None);
    assert!(without(&dir.path().join("never"), &Ask::Pause { until: None }).is_err());
}
