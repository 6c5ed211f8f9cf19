//! One user asks as fast as it can, another as people do.

use std::time::{Duration, Instant};

use common::selector::Selector;
use common::wire::client::Request;
use link::Client;

use super::{connect, grid, noops, runtime, submit};

/// So many connections the one has who floods, each with as many streams as it is given.
const CONNECTIONS: usize = 64;
/// Requests under way on each of them.
const STREAMS: usize = 12;

/// Times so many requests of each kind, and prints the rows of BENCHMARKS.md.
pub(super) fn run(count: u32) {
    let grid = grid();
    grid.login("flood");

    let runtime = runtime();
    let master = grid.master_pid();
    let (calm, flooded, peak) = runtime.block_on(async {
        let quiet = connect(&grid, "user").await;
        let calm = timed(&quiet, count).await;
        let before = tests::resident(master);
        let mut all = tokio::task::JoinSet::new();

        // All connected before the first asks: from then on this user waits for its own pace.
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            clients.push(connect(&grid, "flood").await);
        }

        for client in &clients {
            for stream in 0..STREAMS {
                all.spawn(ask(client.clone(), stream));
            }
        }

        // The flood has used up what it may take at once.
        tokio::time::sleep(Duration::from_secs(15)).await;
        let flooded = timed(&quiet, count).await;
        let peak = tests::resident(master);

        all.shutdown().await;
        (calm, flooded, (before, peak))
    });
    println!("| request | p50 calm | p50 in a flood | ratio | p95 calm | p95 in a flood |");
    println!("|---|---|---|---|---|---|");

    let mut kept = true;
    for (what, calm, flooded) in [
        ("submit", &calm.0, &flooded.0),
        ("job list", &calm.1, &flooded.1),
    ] {
        let ratio = at(flooded, 0.5) / at(calm, 0.5);
        kept &= ratio <= 2.0;
        println!(
            "| {what} | {:.2} ms | {:.2} ms | {ratio:.2} | {:.2} ms | {:.2} ms |",
            at(calm, 0.5),
            at(flooded, 0.5),
            at(calm, 0.95),
            at(flooded, 0.95)
        );
    }

    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "\nThe master's memory: {:.1} MiB before, {:.1} MiB in the flood.",
        mib(peak.0),
        mib(peak.1)
    );
    println!(
        "p50 within twice its calm value: {}.",
        if kept { "kept" } else { "not kept" }
    );
}

/// Times submissions and lists, each in milliseconds, sorted.
pub(super) async fn timed(client: &Client, count: u32) -> (Vec<f64>, Vec<f64>) {
    let mut submits = Vec::new();
    let mut lists = Vec::new();
    for _ in 0..count {
        let began = Instant::now();
        let job = submit(client, &noops(1)).await;
        submits.push(began.elapsed().as_secs_f64() * 1e3);

        let jobs = Selector::Ids(common::IdSet::from_range(job.0, job.0));
        let began = Instant::now();
        client
            .ask(&Request::Jobs {
                jobs: jobs.clone(),
                states: Vec::new(),
            })
            .await
            .expect("is answered");

        lists.push(began.elapsed().as_secs_f64() * 1e3);
        client
            .ask(&Request::Cancel { jobs, tasks: None })
            .await
            .expect("is cancelled");

        // As people do: not faster than a user may.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    submits.sort_unstable_by(f64::total_cmp);
    lists.sort_unstable_by(f64::total_cmp);
    (submits, lists)
}

pub(super) fn at(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

/// Asks for ever: submissions, lists of everything, and cancellations.
async fn ask(client: Client, stream: usize) {
    loop {
        let asked = match stream % 3 {
            0 => {
                let request = common::RequestId(uuid::Uuid::from_u128(rand::random()));
                let spec = common::wire::client::Submission::from(noops(1));
                client
                    .ask(&Request::Submit {
                        id: request,
                        spec,
                        disclosed: false,
                        dry_run: false,
                    })
                    .await
            }
            1 => {
                client
                    .ask(&Request::Jobs {
                        jobs: Selector::All,
                        states: Vec::new(),
                    })
                    .await
            }
            _ => {
                client
                    .ask(&Request::Cancel {
                        jobs: Selector::All,
                        tasks: None,
                    })
                    .await
            }
        };

        // Refused or not, it goes on; only without a connection it ends.
        if matches!(asked, Err(link::LinkError::Closed(_))) {
            return;
        }
    }
}
