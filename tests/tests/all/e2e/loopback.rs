//! Connections within one machine.

use common::wire::Versions;
use common::wire::client::Request;
use link::{Client, Identity};
use tests::Grid;

/// The requests of a session that is long enough for an end that searches the largest datagram to
/// send some probes.
const REQUESTS: usize = 20;

#[test]
fn neither_end_searches_the_largest_datagram_on_loopback() {
    let grid = Grid::start();
    let state = grid.state("user").join("client");
    let identity = Identity::load(&state).expect("the user is logged in");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");

    let stats = runtime.block_on(async {
        let client = Client::connect(&identity).await.expect("a master");
        for _ in 0..REQUESTS {
            client
                .ask(&Request::Hello(Versions::ours()))
                .await
                .expect("an answer");
        }
        client.connection().quic().stats()
    });

    assert!(stats.path.current_mtu > 6_000, "{stats:?}");
    assert_eq!(stats.path.sent_plpmtud_probes, 0, "by the client");
    // The master's probes are pings; it has no other reason for any.
    assert_eq!(stats.frame_rx.ping, 0, "by the master");
}
