//! Computation time devices (Wozniak et al., Table 1): the run times of each kind of task
//! ([`Device`]). The paper states four figures of each and publishes no data; the run times here
//! are invented to match those figures.
//!
//! `SumDevice` is the sum of five inputs between 0 and 9, which matches. For `PolyDevice` no
//! polynomial with whole coefficients and uniform inputs was found that has all four figures; it is
//! a sum of two powers of one input. The other two are tables of 201 equally likely run times,
//! exact in all four figures.

use simulator::availability::stream::RandomStream;

/// A device of the paper's Table 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// The device `SumDevice`.
    Sum,
    /// The device `PolyDevice`.
    Poly,
    /// `SS-Device`: the simulation of a processor.
    Ss,
    /// `NS-Device`: the simulation of a network.
    Ns,
}

/// The four figures of a device in Table 1, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// The median.
    pub median_s: f64,
    /// The mean.
    pub mean_s: f64,
    /// The minimum.
    pub min_s: f64,
    /// The maximum.
    pub max_s: f64,
}

impl Device {
    /// All devices, in the order of Table 1.
    pub const ALL: [Device; 4] = [Device::Sum, Device::Poly, Device::Ss, Device::Ns];

    /// The paper's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Device::Sum => "SumDevice",
            Device::Poly => "PolyDevice",
            Device::Ss => "SS-Device",
            Device::Ns => "NS-Device",
        }
    }

    /// The figures in Table 1.
    pub fn table_1(self) -> Figures {
        let [median_s, mean_s, min_s, max_s] = match self {
            Device::Sum => [22.0, 22.0, 0.0, 45.0],
            Device::Poly => [123.0, 198.0, 0.0, 804.0],
            Device::Ss => [218.0, 237.0, 137.0, 615.0],
            Device::Ns => [297.0, 426.0, 87.0, 3442.0],
        };
        Figures {
            median_s,
            mean_s,
            min_s,
            max_s,
        }
    }

    /// Draws the run time of a task, in seconds.
    pub(crate) fn draw(self, stream: &mut RandomStream) -> f64 {
        let entry =
            |table: &[u16; 201], unit: f64| f64::from(table[((unit * 201.0) as usize).min(200)]);
        match self {
            Device::Sum => (0..5)
                .map(|_| (stream.unit() * 10.0).floor().min(9.0))
                .sum(),
            Device::Poly => poly(stream.unit()),
            Device::Ss => entry(&SS, stream.unit()),
            Device::Ns => entry(&NS, stream.unit()),
        }
    }
}

/// The run time of `PolyDevice` for an input between 0 and 1.
fn poly(input: f64) -> f64 {
    804.0 * (0.2801 * input + 0.7199 * input.powf(5.75))
}

/// The interval of estimates that satisfy the paper's equation 1, |est - c| / est <= Q, for a task
/// that takes `takes_s`. The third number is the largest estimate of group B.
pub fn estimate_interval(takes_s: f64, qoe: f64) -> (f64, f64, f64) {
    (takes_s / (1.0 + qoe), takes_s / (1.0 - qoe), takes_s)
}

/// The run times of `NS-Device`, in seconds.
pub const NS: [u16; 201] = include!("ns-device.in");

/// The run times of `SS-Device`, in seconds.
pub const SS: [u16; 201] = include!("ss-device.in");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_has_the_figures_of_table_1() {
        for device in Device::ALL {
            let mut stream = RandomStream::new("devices", 1, 0, 0);
            let mut drawn: Vec<f64> = (0..40_000).map(|_| device.draw(&mut stream)).collect();
            drawn.sort_by(f64::total_cmp);

            let Figures {
                median_s,
                mean_s,
                min_s,
                max_s,
            } = device.table_1();

            let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
            let near = |found: f64, told: f64| (found - told).abs() <= 0.03 * told + 1.0;
            assert!(
                near(drawn[drawn.len() / 2], median_s) && near(mean, mean_s),
                "{device:?}: {mean}"
            );
            assert!(
                drawn[0] >= min_s && drawn[drawn.len() - 1] <= max_s,
                "{device:?}"
            );

            // The ends of a sum are rare.
            let end = |found: f64, told: f64| (found - told).abs() <= 0.03 * told + 3.0;
            assert!(
                end(drawn[0], min_s) && end(drawn[drawn.len() - 1], max_s),
                "{device:?}"
            );
        }
    }

    #[test]
    fn the_tables_are_exact() {
        for (table, device) in [(NS, Device::Ns), (SS, Device::Ss)] {
            let told = device.table_1();
            let mean = table.iter().map(|value| f64::from(*value)).sum::<f64>() / 201.0;
            assert!(table.is_sorted());
            assert!((mean - told.mean_s).abs() < 0.5, "{mean}");
            let ends = [table[0], table[100], table[200]].map(f64::from);
            assert_eq!(ends, [told.min_s, told.median_s, told.max_s]);
        }
    }
}
