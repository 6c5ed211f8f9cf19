//! How long the dynamic programmes of reservation sequences take. Prints times; the best of some
//! rounds counts.
//!
//! Run with `cargo bench -p scheduler --bench limits`.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and its arguments"
)]

use std::time::{Duration, Instant};

use scheduler::reservation::{NamedLaw, RunTimeGrid, adaptive_time_optimal, time_optimal};

fn main() {
    // `cargo test --benches` runs this too: it should only be seen to work then.
    let rounds = if std::env::args().any(|arg| arg == "--bench") {
        9
    } else {
        1
    };

    let time = |work: &dyn Fn() -> f64| {
        let once = |_| {
            let began = Instant::now();
            std::hint::black_box(work());
            began.elapsed()
        };
        (0..rounds).map(once).min().unwrap_or_default()
    };

    let show =
        |what: &str, took: Duration| println!("{what:48} {:10.3} ms", took.as_secs_f64() * 1e3);
    for name in [
        "truncnorm:0,20,8,2",
        "truncnorm:6,16,8,2",
        "exponential:0,16,1",
        "pareto:1,20,2.1",
    ] {
        let law: NamedLaw = name.parse().expect("a law");
        for n in [200, 500] {
            let grid = RunTimeGrid::of(&law, n);
            show(
                &format!("TOptimal   n {n:3}          {name}"),
                time(&|| time_optimal(&grid).cost),
            );
        }

        for (n, zeta) in [(46, 0.1), (46, 0.5), (46, 0.9), (200, 0.5)] {
            let grid = RunTimeGrid::of(&law, n);
            let what = format!("ATOptimal  n {n:3} zeta {zeta:3} {name}");
            show(&what, time(&|| adaptive_time_optimal(&grid, zeta).cost));
        }
    }
}
