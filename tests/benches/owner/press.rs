//! From a key press to the moment when every process of every task is at rest, and to the last
//! moment at which one of them computed. The two differ on a busy machine: a process that was told
//! to stop rests only when it would have had its turn, but does not compute in it.

use std::time::{Duration, Instant};

use tests::{Display, Grid, eventually};

use super::quantile;
use super::task::{PROCESSES, Process, TASK, monotonic_ns};

/// Tasks at a time.
const SLOTS: usize = 2;
/// How long to look for frozen processes after a press before it counts as never.
const NEVER: Duration = Duration::from_secs(10);
/// How long after the first key the next one is pressed, if tasks are not at rest by then.
const TYPES: Duration = Duration::from_millis(700);
/// How often to look.
const LOOK: Duration = Duration::from_micros(500);

/// The worker's settings: tasks run a second after the last touch, so that many presses fit into
/// minutes; between presses the display is asked twice a second, so that only what it tells by
/// itself can be quicker.
fn settings(display: &str) -> String {
    format!(
        "[owner]\nfirst_watch = \"0s\"\n[owner.input]\nidle = \"1s\"\nresume = \"1s\"\n[owner.load]\nheed = false\n[owner.memory]\nheed = false\n[sensors]\ndisplays = [\"{display}\"]\nevdev = \"off\"\nlogind = \"off\"\n\
         load = \"off\"\nmemory = \"off\"\npower = \"off\"\n"
    )
}

/// Measures and prints.
pub(super) fn measure(presses: u32) {
    let Some(display) = Display::open() else {
        return println!("key press to frozen: not measured, there is no Xvfb (Debian: xvfb)");
    };
    let mut grid = Grid::start();
    grid.worker("pc")
        .slots(SLOTS as u32)
        .config(&settings(display.name()))
        .start();

    let program = std::env::current_exe().expect("this program has a path");
    let input = format!("{}:busy", program.display());
    grid.submit([
        "--array",
        &format!("1-{SLOTS}"),
        "--input",
        &input,
        "--",
        "./busy",
        TASK,
    ]);

    let mark = grid.dir().to_string_lossy().into_owned();
    let mut rest_ms = Vec::new();
    let mut last_ms = Vec::new();

    for press in 1..=presses {
        let processes = eventually("every process runs", Duration::from_secs(120), || {
            let all = Process::all(&mark);
            (all.len() == SLOTS * PROCESSES && all.iter().all(|process| !process.at_rest()))
                .then_some(all)
        });

        // At any moment between two looks of the sensor.
        std::thread::sleep(Duration::from_millis(rand::random_range(0..1_000)));
        let pressed = Instant::now();
        let pressed_ns = monotonic_ns();

        display.press_key();
        let mut typed = pressed;
        while !processes.iter().all(|process| process.at_rest()) && pressed.elapsed() < NEVER {
            std::thread::sleep(LOOK);
            // Whoever came back types on: the tasks are not thawed before they are at rest.
            if typed.elapsed() > TYPES {
                display.press_key();
                typed = Instant::now();
            }
        }

        rest_ms.push(pressed.elapsed().as_secs_f64() * 1e3);
        let used: Vec<u64> = processes.iter().map(|process| process.ticks()).collect();
        std::thread::sleep(Duration::from_millis(100));

        let later: Vec<u64> = processes.iter().map(|process| process.ticks()).collect();
        // Unless it was thawed meanwhile, which it is a second after the press.
        if processes.iter().all(|process| process.at_rest()) {
            assert_eq!(used, later, "what is at rest uses no processor");
        }

        let last = processes
            .iter()
            .map(|process| process.noted_ns())
            .max()
            .unwrap_or(0);
        last_ms.push(last.saturating_sub(pressed_ns) as f64 / 1e6);
        if press % 20 == 0 {
            eprintln!("{press} of {presses} presses");
        }
    }

    for (what, mut took) in [
        ("every process at rest", rest_ms),
        ("the last computing of any", last_ms),
    ] {
        took.sort_by(f64::total_cmp);
        let at = |share| quantile(&took, share);
        println!(
            "key press to {what}, {presses} presses, {SLOTS} tasks of {PROCESSES} processes: p50 {:.1} ms, p90 {:.1} ms, \
             p99 {:.1} ms, longest {:.1} ms",
            at(0.5),
            at(0.9),
            at(0.99),
            at(1.0)
        );
    }
}
