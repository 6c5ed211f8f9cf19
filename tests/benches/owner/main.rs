//! What an owner notices of the grid, with a real master, a real worker and real busy tasks on
//! loopback: `cargo bench -p tests --bench owner`, or with `-- --presses 50 --rounds 4`. How long
//! after a key press (synthetic, on Xvfb) every process of every task is frozen, and how much a
//! busy program of the owner loses while tasks run. Needs Xvfb (Debian: xvfb) for the first. Takes
//! the programs of `DESKGRID_BIN_DIR`, or builds them.

mod loss;
mod press;
mod task;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if task::is_asked(&args) {
        return;
    }

    tests::build_release();
    match tests::argument("--presses", 200) {
        0 => {}
        presses => press::measure(presses),
    }

    match tests::argument("--rounds", 10) {
        0 => {}
        rounds => loss::measure(rounds),
    }
}

/// The value below which the part `share` of the sorted values lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted[((sorted.len() as f64 * share).ceil() as usize)
        .saturating_sub(1)
        .min(last)]
}
