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
    let _worker = master.host("pc").await;
    submit(&master.admin().await, 1, &noops(1)).await.unwrap();
    let log = master.dir.path().join("master/store.sqlite-wal");
    assert!(log.exists());
    master.stop().await;
    assert!(!log.exists(), "somebody still has the store open");
}

/// The jobs that there are.
async fn jobs(master: &Master) -> Vec<JobId> {
    let views = job_views(&master.admin().await, Selector::All, Vec::new()).await;
    views.iter().map(|view| view.job).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_moved_out_of_a_database_and_back_and_the_old_one_is_taken_up_by_nobody() {
    use master::StoreMove::{IntoDatabase, IntoFile};
    let mut master = Master::start().await;
    let Some(address) = master.store.clone() else {
        return master.stop().await; // There is no server.
    };
    let moved = |dir: PathBuf, into_file: bool, address: String| async move {
        let work = move || {
            let direction = match into_file {
                true => IntoFile(&address),
                false => IntoDatabase(&address),
            };
            master::transfer(&dir, direction)
        };
        tokio::task::spawn_blocking(work).await.unwrap()
    };
    let dir = master.dir.path().to_owned();
    let file = dir.join("master/store.sqlite");
    submit(&master.admin().await, 1, &noops(3)).await.unwrap();
    let running = moved(dir.clone(), true, address.clone()).await.unwrap_err();
    assert!(
        running.to_string().contains("another master runs"),
        "{running}"
    );
    master.stop().await;

    let told = moved(dir.clone(), true, address.clone()).await.unwrap();
    assert!(
        told.rows > 3 && told.left.contains("deskgrid_moved_"),
        "{told:?}"
    );
    assert!(file.exists());
    master.store = None;
    master.again().await;
    assert_eq!(jobs(&master).await.len(), 1);
    submit(&master.admin().await, 2, &noops(1)).await.unwrap();
    master.stop().await;

    let told = moved(dir.clone(), false, address.clone()).await.unwrap();
    assert!(
        told.left.ends_with("store.sqlite.moved") && !file.exists(),
        "{told:?}"
    );
    let again = moved(dir.clone(), false, address.clone())
        .await
        .unwrap_err();
    assert!(again.to_string().contains("there is no store"), "{again}");
    master.store = Some(address);
    master.again().await;
    let (old, new) = (JobId(1), JobId(2));
    assert_eq!(jobs(&master).await, [old, new]);
    master.host("pc").await;
    master.stop().await;
}
