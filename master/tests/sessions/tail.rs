//! Looking at the output of running tasks, with scripted workers that show it, or do not.

use common::attempt::StreamKind;
use common::event::Following;
use common::wire::client::{TailFrom, TailNews};
use common::wire::stream::TailPart;
use common::wire::worker::TailOrder;

use super::*;

/// The order to show the output of an attempt.
async fn order(worker: &mut Worker) -> TailOrder {
    loop {
        if let ToWorker::Tail(order) = worker.next().await {
            return order;
        }
    }
}

/// A stream of the output that was ordered by this ticket.
async fn tail(worker: &Worker, ticket: u64) -> Channel {
    let open = Open::Tail { ticket };
    worker.connection.open(&open).await.unwrap()
}

fn part(offset: u64, bytes: &[u8]) -> TailPart {
    TailPart {
        offset,
        bytes: bytes.to_vec(),
    }
}

async fn news(replies: &mut link::client::Replies) -> TailNews {
    match within(replies.next()).await.unwrap() {
        Some(Reply::Tail(news)) => news,
        other => panic!("{other:?}"),
    }
}

fn look(job: JobId) -> Request {
    Request::Tail {
        task: common::TaskId::new(job, 1),
        stream: StreamKind::Stdout,
        from: TailFrom::Start,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_asked_while_somebody_looks_and_its_odd_bytes_harm_nobody() {
    let master = Master::start().await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let mut worker = master.worker(&pc, Vec::new()).await;
    let admin = master.admin().await;
    let (job, _) = submit(&admin, 1, &noops(1)).await.unwrap();
    let attempt = worker.assignments(1).await[0].attempt;
    let mut replies = admin.stream(&look(job)).await.unwrap();

    let first = order(&mut worker).await;
    assert_eq!((first.attempt, first.from), (attempt, Some(0)));
    let ticket = first.ticket;
    let mut shown = tail(&worker, ticket).await;
    shown.tx.send(&part(0, b"abc")).await.unwrap();
    let begins = TailNews::Begins {
        attempt,
        host: "pc".into(),
    };
    assert_eq!(news(&mut replies).await, begins);
    assert_eq!(news(&mut replies).await, TailNews::Part(part(0, b"abc")));

    // What is no part of an output ends the stream; the worker is asked for the rest again.
    shown
        .tx
        .raw()
        .write_all(&[9, 0, 0, 0, 0xff, 0xff])
        .await
        .unwrap();
    shown.tx.finish();
    let again = order(&mut worker).await;
    assert_eq!((again.attempt, again.from), (attempt, Some(3)));
    assert_ne!(again.ticket, ticket);

    // A number that nobody waits for, and one that was used, show nothing to anybody.
    for stale in [ticket, 7] {
        let mut odd = tail(&worker, stale).await;
        within(odd.tx.delivered()).await;
    }
    let ticket = again.ticket;
    let mut shown = tail(&worker, ticket).await;
    shown.tx.send(&part(3, &[b'x'; 65_537])).await.unwrap();
    let third = order(&mut worker).await;
    assert_eq!(third.from, Some(3), "what is too long is not passed on");

    let ticket = third.ticket;
    let mut shown = tail(&worker, ticket).await;
    shown.tx.send(&part(3, b"def")).await.unwrap();
    assert_eq!(news(&mut replies).await, TailNews::Part(part(3, b"def")));

    // Nobody looks any more: the worker is told so.
    drop(replies);
    within(shown.tx.delivered()).await;
    worker.finish(attempt).await;
    let mut replies = admin.stream(&look(job)).await.unwrap();
    assert_eq!(news(&mut replies).await, TailNews::Settled);
    assert!(within(replies.next()).await.unwrap().is_none());
}

async fn refused(replies: &mut link::client::Replies) {
    let error = loop {
        match within(replies.next()).await {
            // A change from before the share ended.
            Ok(Some(Reply::Jobs(_) | Reply::Events(_))) => {}
            Err(error) => break error,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code(&error), RefusalCode::NotFound, "{error}");
    let told = error.to_string();
    assert!(told.contains("is not shared with you any more"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_looks_at_a_job_that_is_shared_no_more_is_told_nothing_further() {
    let master = Master::start().await;
    let mut worker = master.host("pc").await;
    let ann = master.user("ann").await;
    let bob = master.user("bob").await;
    let cid = master.user("cid").await;
    let (job, _) = submit(&ann, 1, &noops(1)).await.unwrap();
    for user in ["bob", "cid"] {
        share(&ann, one(job), user, true).await;
    }
    let attempt = worker.assignments(1).await[0].attempt;

    // Both look at its output, and bob watches it in both ways, too.
    let mut looking = Vec::new();
    for client in [&bob, &cid] {
        let mut replies = client.stream(&look(job)).await.unwrap();
        let ticket = order(&mut worker).await.ticket;
        let mut shown = tail(&worker, ticket).await;
        shown.tx.send(&part(0, b"abc")).await.unwrap();
        assert!(matches!(news(&mut replies).await, TailNews::Begins { .. }));
        assert_eq!(news(&mut replies).await, TailNews::Part(part(0, b"abc")));
        looking.push((replies, shown));
    }
    let mut watching = Vec::new();
    for quiet in [true, false] {
        let watch = Request::Watch {
            jobs: one(job),
            quiet,
            timeout: None,
        };
        let mut replies = bob.stream(&watch).await.unwrap();
        let first = within(replies.next()).await.unwrap();
        assert!(matches!(first, Some(Reply::Jobs(_))), "{first:?}");
        watching.push(replies);
    }

    share(&ann, one(job), "bob", false).await;
    let (mut of_cid, mut shown_to_cid) = looking.pop().unwrap();
    let (mut of_bob, mut shown_to_bob) = looking.pop().unwrap();
    refused(&mut of_bob).await;
    within(shown_to_bob.tx.delivered()).await;
    for replies in &mut watching {
        refused(replies).await;
    }

    shown_to_cid.tx.send(&part(3, b"def")).await.unwrap();
    assert_eq!(news(&mut of_cid).await, TailNews::Part(part(3, b"def")));
    worker.finish(attempt).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_follows_events_of_a_job_that_is_shared_no_more_is_told_so() {
    let master = Master::start().await;
    let ann = master.user("ann").await;
    let bob = master.user("bob").await;
    let (first, _) = submit(&ann, 1, &noops(1)).await.unwrap();
    let (second, _) = submit(&ann, 2, &noops(1)).await.unwrap();
    let both = IdSet::from_range(first.0, second.0);
    let both = Selector::Ids(both);
    share(&ann, both.clone(), "bob", true).await;

    // He follows one of them, both, and all that he may see.
    let mut following = Vec::new();
    for jobs in [Some(one(first)), Some(both.clone()), None] {
        let follow = Request::Follow(Following {
            jobs,
            wait: true,
            ..Following::default()
        });
        let mut replies = bob.stream(&follow).await.unwrap();
        let page = within(replies.next()).await.unwrap();
        assert!(matches!(page, Some(Reply::Events(_))), "{page:?}");
        following.push(replies);
    }
    let mut of_all = following.pop().unwrap();
    let mut of_both = following.pop().unwrap();
    let mut of_first = following.pop().unwrap();

    share(&ann, one(first), "bob", false).await;
    refused(&mut of_first).await;

    // The other job is still shared: its events go on, until that ends too.
    cancel(&ann, one(second)).await;
    for replies in [&mut of_both, &mut of_all] {
        told_of(replies, second).await;
    }
    share(&ann, both, "bob", false).await;
    refused(&mut of_both).await;

    // Whoever follows whatever there is goes on with one's own.
    let (own, _) = submit(&bob, 3, &noops(1)).await.unwrap();
    told_of(&mut of_all, own).await;
}

/// Reads on until an event of this job is told.
async fn told_of(replies: &mut link::client::Replies, job: JobId) {
    loop {
        match within(replies.next()).await {
            Ok(Some(Reply::Events(page))) => {
                if page.events.iter().any(|view| view.event.job() == Some(job)) {
                    return;
                }
            }
            other => panic!("{other:?}"),
        }
    }
}
