//! A worker at the end of a long and bad line, made of the proxy.

use std::time::Duration;

use tests::Grid;

use super::ledger::Ledger;
use super::proxy::{Proxy, Weather};
use super::{seed, worker};

/// A bag computed by one worker behind this weather.
fn behind(weather: Weather, tasks: u64) -> (u64, u64, u64) {
    let mut grid = Grid::start();
    let proxy = Proxy::new(grid.listen().parse().expect("an address"), weather, seed());
    worker(&mut grid, "far", 4).via(&proxy.address()).start();

    let mut ledger = Ledger::new(0.1);
    ledger.submit(&grid, tasks);
    ledger.settle(&grid);

    let (lost, doubled, passed) = proxy.counts();
    println!("{lost} packets lost, {doubled} doubled, {passed} passed");
    assert!(
        passed > 30,
        "the worker did speak through the proxy: {passed}"
    );

    (lost, doubled, passed)
}

#[test]
fn a_line_with_three_hundred_milliseconds_of_delay_carries_everything() {
    let delay = Duration::from_millis(300);
    behind(
        Weather {
            delay,
            jitter: Duration::ZERO,
            loss: 0.0,
            twice: 0.0,
        },
        3,
    );
}

#[test]
fn a_line_that_reorders_loses_and_doubles_carries_everything() {
    let delay = Duration::from_millis(5);
    let jitter = Duration::from_millis(80);
    let (lost, doubled, _) = behind(
        Weather {
            delay,
            jitter,
            loss: 0.1,
            twice: 0.1,
        },
        4,
    );
    assert!(
        lost > 0 && doubled > 0,
        "it was a bad line: {lost} lost, {doubled} doubled"
    );
}
