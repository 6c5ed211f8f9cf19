//! What a worker records of its host is sent until it is kept.

use common::availability::AvailabilityInterval;

use super::*;

impl Worker {
    /// What it has recorded next.
    async fn recorded(&mut self) -> (u64, Vec<AvailabilityInterval>) {
        self.until(|message| match message {
            ToMaster::Recorded { last, stretches } => Some((last, stretches)),
            _ => None,
        })
        .await
    }
}

pub(super) async fn what_was_recorded_is_sent_until_it_is_kept() {
    let mut master = Master::new();
    let watchful = || Config {
        look_every: ConfigDuration::from_millis(100),
        ..config()
    };
    let (stop, run) = master.start_as(watchful());
    let mut worker = master.welcome(Vec::new()).await;
    let (_, first) = worker.recorded().await;
    assert!(
        !first.is_empty() && first.iter().all(AvailabilityInterval::is_sound),
        "{first:?}"
    );

    // Not acknowledged: the next connection hears it again, and a second worker on the same
    // directory, too.
    worker.connection.close(0u32.into(), b"");
    let mut worker = master.welcome(Vec::new()).await;
    let (_, again) = worker.recorded().await;
    assert_eq!(again[..first.len()], first[..]);
    drop(stop);
    within(run).await.unwrap().unwrap();

    let (_stop, _run) = master.start_as(watchful());
    let mut worker = master.welcome(Vec::new()).await;
    let (last, again) = worker.recorded().await;
    assert_eq!(again[..first.len()], first[..]);

    // One that was sent before it heard that these are kept may be on its way, and waits for its answer.
    let end = again[again.len() - 1].end;
    let (later, next) = loop {
        worker.tell(ToWorker::Kept { last }).await;
        let (later, next) = worker.recorded().await;
        if next[0].start >= end {
            break (later, next);
        }
        assert_eq!(next[..first.len()], first[..]);
    };
    assert!(later > last, "{again:?} {next:?}");
}
