//! Where a test's store is: in a file, or in a database where the tests run on a server
//! (`tests/postgres`).

use super::*;

/// A database of a test's own on the server that DESKGRID_TEST_PG names (`tests/postgres`); `None`
/// where it names none, and stores are files.
pub(super) async fn new() -> Option<String> {
    let server = std::env::var("DESKGRID_TEST_PG").ok()?;
    let (client, connection) = tokio_postgres::connect(&server, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let name = format!("grid_{:032x}", rand::random::<u128>());
    let make = format!("CREATE DATABASE {name} TEMPLATE template0");
    client.batch_execute(&make).await.unwrap();
    let (server, _) = server.rsplit_once('/').unwrap();
    Some(format!("{server}/{name}"))
}

/// Whether the tests run on a database: what looks into the store's file is left out then.
pub(super) fn is_used() -> bool {
    std::env::var_os("DESKGRID_TEST_PG").is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_has_ended_has_closed_its_store() {
    if is_used() {
        return; // There is no file to close.
    }
    let mut master = Master::start().await;
    let _worker = master
        .worker(&master.enrol(Role::Worker, "pc").await, Vec::new())
        .await;
    submit(&master.admin().await, 1, &noops(1)).await.unwrap();
    let log = master.dir.path().join("master/store.sqlite-wal");
    assert!(log.exists());
    master.stop().await;
    assert!(!log.exists(), "somebody still has the store open");
}
