//! The piece of work by which hosts are compared, half of it with integers and half with floating-point
//! numbers. A worker measures the processor time that it takes.

use std::hint::black_box;

use crate::units::REFERENCE_MHZ;

/// Steps of the integer part, and the processor cycles that each takes on the reference host: a
/// xorshift generator (Marsaglia 2003) is three shifts and three exclusive ors, none of which can
/// begin before the one before it is done.
const INTEGER_STEPS: u32 = 3_750_000;
const INTEGER_CYCLES: u32 = 6;
/// Steps of the floating-point part, and the cycles of each: a multiplication and an addition, four
/// cycles each, that wait for one another.
const FLOAT_STEPS: u32 = 2_812_500;
const FLOAT_CYCLES: u32 = 8;
/// The time of one run on the reference host, a dedicated processor at 1,500 MHz: 30 ms, half of it
/// for integers.
pub const REFERENCE_S: f64 = (INTEGER_STEPS as f64 * INTEGER_CYCLES as f64
    + FLOAT_STEPS as f64 * FLOAT_CYCLES as f64)
    / (REFERENCE_MHZ * 1e6);

/// Runs the kernel once.
pub fn run() {
    black_box(integers(black_box(0x9E37_79B9_7F4A_7C15)));
    black_box(floats(black_box(0.5)));
}

fn integers(mut state: u64) -> u64 {
    for _ in 0..INTEGER_STEPS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    state
}

/// Computes a sequence that settles near one, so that no step is slower because of a special
/// number.
fn floats(mut state: f64) -> f64 {
    let factor = black_box(0.999);
    let rest = black_box(0.001);
    for _ in 0..FLOAT_STEPS {
        state = state * factor + rest;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_computes_its_documented_result() {
        assert!((floats(0.5) - 1.0).abs() < 1e-9);
        let mut seen = std::collections::BTreeSet::new();
        assert!(
            (1..100).all(|seed| seen.insert(integers(seed))),
            "a xorshift loses nothing"
        );
        assert!((REFERENCE_S - 0.030).abs() < 1e-12);
    }
}
