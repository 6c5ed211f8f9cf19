//! What whoever asks a worker can rely on, with a loop in its place that answers the same to all.

use std::fs;
use std::pin::pin;

use super::*;

fn report() -> StatusReport {
    serde_json::from_value(serde_json::json!({
        "host": "h",
        "master": "m:1",
        "connected": false,
        "connected_for_s": 2_000.0,
        "not_connected_because": null,
        "decision": "run",
        "reason": null,
        "decided_for_s": 2_000.0,
        "why": [],
        "sensors": [],
        "attempts": [],
        "slots": 3,
        "slots_usable": 3,
        "confinement": "process",
        "version": "1",
    }))
    .unwrap()
}

/// Has something asked of a worker in `dir`; what came of that, and what the loop was told of its
/// switch.
async fn asked<T>(dir: &Path, asking: impl Future<Output = T>) -> (T, Vec<Option<Sight>>) {
    let (tell, mut questions) = tokio::sync::mpsc::unbounded_channel::<ControlQuestion>();
    serve(dir.to_owned(), tell).unwrap();

    let mut asking = pin!(asking);
    let mut switches = Vec::new();
    loop {
        tokio::select! {
            answered = &mut asking => return (answered, switches),
            Some(question) = questions.recv() => {
                switches.push(question.switch);
                question.answer.send(Ok(report())).unwrap();
            }
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_worker_however_far_from_the_root_is_asked_by_its_own_account_only() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let far = dir.path().join("d".repeat(120)).join("e".repeat(120));
    fs::create_dir_all(&far).unwrap();

    // What a killed worker left does no harm.
    fs::write(far.join("control"), "").unwrap();
    let mode = || {
        fs::metadata(far.join("control"))
            .unwrap()
            .permissions()
            .mode()
    };
    let (said, switches) = asked(&far, async {
        (
            ask(&far, &ControlRequest::Status).await.unwrap(),
            mode() & 0o777,
        )
    })
    .await;
    assert_eq!((said.0, said.1, switches), (report(), 0o600, vec![None]));

    let gone = async {
        while far.join("control").exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone)
        .await
        .expect("the socket goes with the worker");
}

#[tokio::test]
async fn many_ask_at_once_and_another_directory_is_another_worker() {
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let at_once = async {
        let here = dir.path();
        let status = ControlRequest::Status;
        let [a, b, c] = [ask(here, &status), ask(here, &status), ask(here, &status)];
        (tokio::join!(a, b, c), ask(other.path(), &status).await)
    };
    let (((a, b, c), elsewhere), switches) = asked(dir.path(), at_once).await;
    assert_eq!(
        [a.unwrap(), b.unwrap(), c.unwrap()],
        [report(), report(), report()]
    );
    assert!(matches!(elsewhere, Err(ControlError::NotRunning(_))) && switches.len() == 3);
}

#[tokio::test]
async fn a_pause_is_a_file_and_the_loop_is_told_of_it_before_it_answers() {
    let dir = tempfile::tempdir().unwrap();
    let until = Some("9998-01-01T00:00:00Z".to_owned());
    let turned = async {
        ask(dir.path(), &ControlRequest::Pause { until })
            .await
            .unwrap();
        let said = fs::read_to_string(dir.path().join(pause::PAUSE_FILE)).unwrap();
        ask(dir.path(), &ControlRequest::Resume).await.unwrap();
        said
    };
    let (said, switches) = asked(dir.path(), turned).await;
    assert_eq!(said, "until 9998-01-01T00:00:00Z\n");

    let paused =
        |sight: &Option<Sight>| matches!(sight, Some(Sight::Seen(Reading::Paused(Some(_)))));
    assert!(
        switches.len() == 2 && paused(&switches[0]) && !paused(&switches[1]),
        "{switches:?}"
    );
    assert!(!dir.path().join(pause::PAUSE_FILE).exists());
}

#[tokio::test]
async fn nonsense_is_refused_in_words_and_turns_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let nonsense = [
        "\n",
        "{}\n",
        "{\"ask\":\"reboot\"}\n",
        "{\"ask\":\"pause\",\"until\":\"tea\"}\n",
    ];
    let speaking = async {
        let mut answers = Vec::new();
        for words in nonsense {
            let (from, mut to) = tokio::io::split(transport::connect(dir.path()).await.unwrap());
            to.write_all(words.as_bytes()).await.unwrap();
            let mut answer = String::new();
            BufReader::new(from).read_line(&mut answer).await.unwrap();
            answers.push(answer);
        }
        answers
    };
    let (answers, switches) = asked(dir.path(), speaking).await;
    assert_eq!(answers.len(), nonsense.len());

    for answer in answers {
        assert!(
            answer.starts_with("{\"answer\":\"refused\",\"why\":\"") && answer.ends_with("}\n"),
            "{answer}"
        );
    }

    assert!(switches.is_empty() && !dir.path().join(pause::PAUSE_FILE).exists());
}

fn waits(why: &str) -> WorkerRest {
    (RestKind::Away, why.to_owned())
}

#[tokio::test]
async fn a_worker_that_does_not_work_yet_says_why_and_makes_room_for_one_that_does() {
    let dir = tempfile::tempdir().unwrap();
    let status = ControlRequest::Status;
    let (_tell, why) = watch::channel(waits("it waits"));
    tokio::select! {
        ended = rest(dir.path(), &why) => panic!("{ended:?}"),
        // The first may come before there is a socket.
        () = async {
            loop {
                match ask(dir.path(), &status).await {
                    Err(ControlError::Resting(kind, why)) => return assert_eq!((kind, why), waits("it waits")),
                    Err(ControlError::NotRunning(_)) => tokio::task::yield_now().await,
                    other => panic!("{other:?}"),
                }
            }
        } => {}
    }

    // A pipe of Windows is there for a moment longer, and then breaks off.
    let said = async {
        loop {
            match ask(dir.path(), &status).await {
                Ok(said) => return said,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    assert_eq!(asked(dir.path(), said).await.0, report());
}

#[tokio::test]
async fn a_worker_that_rests_gives_its_newest_reason_also_beside_one_who_asks_late() {
    let dir = tempfile::tempdir().unwrap();
    let (tell, why) = watch::channel(waits("it waits"));
    let asking = async {
        let late = loop {
            match transport::connect(dir.path()).await {
                Ok(stream) => break stream,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let at_once = ask(dir.path(), &ControlRequest::Status).await;
        assert!(
            matches!(&at_once, Err(ControlError::Resting(_, why)) if why == "it waits"),
            "{at_once:?}"
        );

        tell.send_replace(waits("it tries"));
        say(late, &ControlRequest::Status).await.unwrap()
    };
    tokio::select! {
        ended = rest(dir.path(), &why) => panic!("{ended:?}"),
        said = asking => assert!(said.contains("it tries"), "{said}"),
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_worker_whose_socket_was_replaced_leaves_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let old = transport::Listener::bind(dir.path()).unwrap();
    let _new = transport::Listener::bind(dir.path()).unwrap();
    drop(old);
    assert!(transport::connect(dir.path()).await.is_ok());
}

#[tokio::test]
async fn a_pause_without_a_running_worker_is_stored_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    for dir in [dir.path(), &dir.path().join("never")] {
        assert!(matches!(
            ask(dir, &ControlRequest::Status).await,
            Err(ControlError::NotRunning(_))
        ));
    }

    #[cfg(unix)]
    {
        // A socket that nobody listens to any more.
        drop(std::os::unix::net::UnixListener::bind(dir.path().join("control")).unwrap());
        assert!(matches!(
            ask(dir.path(), &ControlRequest::Status).await,
            Err(ControlError::NotRunning(_))
        ));
    }

    without(dir.path(), &ControlRequest::Pause { until: None }).unwrap();
    assert!(paused(dir.path()).is_some_and(|switch| Path::new(&switch).ends_with("pause")));
    without(dir.path(), &ControlRequest::Resume).unwrap();
    assert_eq!(paused(dir.path()), None);
    assert!(
        without(
            &dir.path().join("never"),
            &ControlRequest::Pause { until: None }
        )
        .is_err()
    );
}
