//! Root finding: the time at which a rising function reaches a value.

/// The accuracy, relative to the time or to a second.
const NEAR: f64 = 1e-13;
/// The bound on steps; no bracket needs as many.
const STEPS: u32 = 200;

/// Returns the time (seconds, between these two) at which `function`, which does not fall, reaches
/// `target`: the end of the bracket if it does so only there. It uses false position on a
/// logarithmic scale of time, where lifetimes are nearly straight, with bisections between, so that
/// it converges for any shape.
pub(super) fn reached_s(function: impl Fn(f64) -> f64, target: f64, from_s: f64, to_s: f64) -> f64 {
    let scale_s = 1.0;
    let place = |time_s: f64| (time_s + scale_s).ln();
    let mut low_s = from_s;
    let mut high_s = to_s;
    let mut low = function(low_s) - target;
    let mut high = function(high_s) - target;

    if low >= 0.0 {
        return low_s;
    }
    if high <= 0.0 {
        return high_s;
    }

    let mut last_low = None;
    for step in 0..STEPS {
        if high_s - low_s <= NEAR * high_s.max(1.0) {
            break;
        }

        let a = place(low_s);
        let b = place(high_s);
        let part = if step % 3 == 2 {
            0.5
        } else {
            (-low / (high - low)).clamp(1e-6, 1.0 - 1e-6)
        };
        let middle_s = ((a + part * (b - a)).exp() - scale_s).clamp(low_s, high_s);
        let value = function(middle_s) - target;
        if value.abs() < 1e-14 {
            return middle_s;
        }

        if value < 0.0 {
            low_s = middle_s;
            low = value;
            // The other end stayed: it counts half, so that the next step goes beyond the root
            // (Illinois).
            if last_low == Some(true) {
                high *= 0.5;
            }
            last_low = Some(true);
        } else {
            high_s = middle_s;
            high = value;
            if last_low == Some(false) {
                low *= 0.5;
            }
            last_low = Some(false);
        }
    }

    high_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_found_where_functions_are_smooth_flat_or_jump() {
        let found = reached_s(|t| t * t, 2.0, 0.0, 100.0);
        assert!((found - 2.0_f64.sqrt()).abs() < 1e-8, "{found}");
        let step = reached_s(|t| if t < 1234.5 { 0.0 } else { 1.0 }, 0.5, 0.0, 1e9);
        assert!((step - 1234.5).abs() < 1e-6, "{step}");
        assert_eq!(reached_s(|_| 1.0, 0.5, 3.0, 9.0), 3.0);
        assert_eq!(reached_s(|_| 0.0, 0.5, 3.0, 9.0), 9.0);
    }
}
