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
pub const NS: [u16; 201] = [
    87, 87, 96, 102, 108, 113, 117, 121, 124, 128, 131, 134, 137, 140, 142, 145, 147, 150, 152,
    154, 156, 159, 161, 163, 165, 167, 169, 171, 173, 175, 177, 179, 180, 182, 184, 186, 188, 190,
    191, 193, 195, 197, 198, 200, 202, 203, 205, 207, 208, 210, 212, 213, 215, 217, 218, 220, 222,
    223, 225, 227, 228, 230, 232, 233, 235, 237, 238, 240, 241, 243, 245, 246, 248, 250, 251, 253,
    255, 256, 258, 260, 262, 263, 265, 267, 268, 270, 272, 274, 275, 277, 279, 281, 282, 284, 286,
    288, 290, 291, 293, 295, 297, 300, 303, 306, 309, 312, 315, 318, 322, 325, 328, 331, 335, 338,
    341, 345, 348, 352, 356, 359, 363, 367, 370, 374, 378, 382, 386, 390, 394, 399, 403, 407, 412,
    416, 421, 425, 430, 435, 440, 445, 450, 455, 460, 465, 471, 476, 482, 488, 494, 500, 506, 513,
    519, 526, 533, 540, 547, 554, 562, 570, 578, 586, 594, 603, 612, 621, 631, 641, 651, 662, 673,
    685, 697, 709, 722, 736, 750, 766, 781, 798, 816, 834, 854, 875, 898, 922, 948, 977, 1008,
    1042, 1080, 1123, 1171, 1226, 1291, 1369, 1465, 1591, 1768, 2058, 3442,
];

/// The run times of `SS-Device`, in seconds.
pub const SS: [u16; 201] = [
    137, 137, 141, 143, 145, 147, 149, 150, 152, 153, 154, 156, 157, 158, 159, 160, 161, 162, 163,
    164, 164, 165, 166, 167, 168, 169, 169, 170, 171, 172, 172, 173, 174, 174, 175, 176, 177, 177,
    178, 179, 179, 180, 181, 181, 182, 183, 183, 184, 184, 185, 186, 186, 187, 188, 188, 189, 190,
    190, 191, 191, 192, 193, 193, 194, 195, 195, 196, 196, 197, 198, 198, 199, 200, 200, 201, 201,
    202, 203, 203, 204, 205, 205, 206, 207, 207, 208, 209, 209, 210, 211, 211, 212, 213, 213, 214,
    215, 215, 216, 217, 217, 218, 219, 220, 220, 221, 222, 223, 224, 224, 225, 226, 227, 228, 229,
    229, 230, 231, 232, 233, 234, 235, 236, 237, 238, 239, 240, 241, 242, 243, 244, 245, 246, 247,
    248, 249, 250, 251, 252, 253, 254, 256, 257, 258, 259, 260, 262, 263, 264, 266, 267, 268, 270,
    271, 273, 274, 276, 277, 279, 280, 282, 284, 286, 287, 289, 291, 293, 295, 297, 299, 301, 304,
    306, 308, 311, 313, 316, 319, 322, 325, 328, 331, 335, 338, 342, 347, 351, 356, 361, 366, 372,
    379, 386, 394, 403, 414, 426, 442, 461, 487, 528, 615,
];

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
