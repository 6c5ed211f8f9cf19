//! The end of a master in order, as its workers see it.

use std::time::Duration;

use common::token::Role;

use super::{Master, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_goes_away_spreads_the_return_of_its_workers_by_their_number() {
    let mut spreads = Vec::new();
    for count in [1, 20] {
        let mut master = Master::start().await;
        let mut workers = Vec::new();
        for _ in 0..count {
            let pc = master.enrol(Role::Worker, "pc").await;
            workers.push(master.worker(&pc, Vec::new()).await);
        }
        master.stop().await;

        for worker in &workers {
            within(worker.connection.closed()).await;
            spreads.push(worker.connection.spread());
        }
    }

    let (alone, among) = spreads.split_first().unwrap();
    assert!(*alone > Duration::ZERO, "{alone:?}");
    assert!(among.iter().all(|spread| spread == &among[0]));
    assert!(
        among[0] >= *alone + Duration::from_millis(19),
        "{spreads:?}"
    );
}
