//! A worker is told why it gets no new tasks, with `OutOfService`.

use common::wire::SERVICE_VERSION;

use super::*;

impl Worker {
    /// Collects the reasons of each `OutOfService` before the next `Beat`.
    async fn service(&mut self) -> Vec<Option<String>> {
        let came = self.before_next_beat().await.into_iter();
        let told = came.filter_map(|message| match message {
            ToWorker::OutOfService(why) => Some(why),
            _ => None,
        });
        told.collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_worker_is_told_so_at_once_and_at_each_connection_until_it_is_resumed() {
    let mut master = Master::start().await;
    let identity = master.enrol(Role::Worker, "pc").await;
    let mut worker = master.worker(&identity, Vec::new()).await;
    let none: [Option<String>; 0] = [];
    assert_eq!(worker.service().await, none, "it is in service");

    let admin = master.admin().await;
    drain(&admin, "pc", true).await;
    let why = "drained: an admin can end that with 'deskgrid host resume pc'";
    let drained = [Some(why.to_owned())];
    assert_eq!(worker.service().await, drained);
    drain(&admin, "pc", true).await;
    assert_eq!(worker.service().await, none, "it knows");

    // A new session knows nothing, nor does one with a master that started again.
    let mut worker = master.worker(&identity, Vec::new()).await;
    assert_eq!(worker.service().await, drained);
    master.restart_with(|_| ()).await;
    let mut worker = master.worker(&identity, Vec::new()).await;
    assert_eq!(worker.service().await, drained);
    drain(&master.admin().await, "pc", false).await;
    assert_eq!(worker.service().await, [None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_an_earlier_version_is_told_nothing_of_its_service() {
    let master = Master::start().await;
    let identity = master.enrol(Role::Worker, "pc").await;
    let admin = master.admin().await;
    // The session before it did understand.
    drop(master.worker(&identity, Vec::new()).await);
    drain(&admin, "pc", true).await;

    let mut worker = master
        .worker_with(&identity, &hello_before(SERVICE_VERSION))
        .await;
    assert_eq!(worker.service().await, []);
    drain(&admin, "pc", false).await;
    assert_eq!(worker.service().await, []);
}
