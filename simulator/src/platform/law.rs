//! Laws of clock rates ([`ClockLaw`]), in MHz, and the tables behind them.

use crate::availability::stream::RandomStream;

/// The distribution of clock rates over a platform's hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ClockLaw {
    /// Shares of the hosts, each spread evenly over a range.
    Strata(&'static [Stratum]),
    /// Like `Strata`, then moved and stretched to a mean and a standard deviation within bounds.
    Fitted {
        strata: &'static [Stratum],
        mean: f64,
        sd: f64,
        bounds: (f64, f64),
    },
    /// A normal law.
    Normal { mean: f64, sd: f64 },
    /// Observed clock rates with the number of hosts that have each, from the slowest.
    Seen(&'static [(f64, f64)]),
}

/// A share of the hosts, with the lowest and the highest clock rate in it.
type Stratum = (f64, f64, f64);

/// The law of SDSC. Fixed by the paper: mean 1.2 GHz, standard deviation 0.73 (section 5.1). Many
/// slow hosts and a tail of fast ones.
pub(super) const SDSC: ClockLaw = ClockLaw::Fitted {
    strata: &[
        (0.12, 330.0, 450.0),
        (0.20, 450.0, 700.0),
        (0.18, 700.0, 1_000.0),
        (0.22, 1_380.0, 1_550.0),
        (0.14, 1_550.0, 2_000.0),
        (0.14, 2_000.0, 3_200.0),
    ],
    mean: 1_200.0,
    sd: 730.0,
    bounds: (300.0, 3_060.0),
};

/// The law of the hosts that computed for the search for Mersenne primes.
pub(super) const INTERNET_2004: ClockLaw = ClockLaw::Strata(&[
    (0.05, 25.0, 100.0),
    (0.07, 100.0, 233.0),
    (0.13, 233.0, 400.0),
    (0.20, 400.0, 600.0),
    (0.20, 600.0, 900.0),
    (0.14, 900.0, 1_300.0),
    (0.12, 1_300.0, 2_000.0),
    (0.10, 2_000.0, 3_400.0),
]);

/// The law of two labs together, each with few kinds of hosts.
pub(super) const LRI_WISC: ClockLaw =
    ClockLaw::Seen(&[(600.0, 83.0), (900.0, 122.0), (1_800.0, 15.0)]);

/// Clocks of hosts of Einstein@Home, 2016, with how many hosts have each. Chosen among the public
/// statistics of volunteers' hosts because SETI@home's still count hosts of the nineties, and
/// LHC@home's are of far fewer hosts.
pub(super) const INTERNET_2016: ClockLaw = ClockLaw::Seen(&include!("internet-2016.in"));

/// Fifty desktops of a university's lab, about 2010.
pub(super) const LAB: ClockLaw = ClockLaw::Seen(&[
    (1_800.0, 10.0),
    (1_860.0, 1.0),
    (2_200.0, 3.0),
    (2_330.0, 11.0),
    (2_800.0, 9.0),
    (3_000.0, 16.0),
]);

impl ClockLaw {
    /// The clock rates of `hosts` hosts in ascending order: one from each of as many equal shares
    /// of the law.
    pub(super) fn sorted(&self, stream: &mut RandomStream, hosts: usize) -> Vec<f64> {
        let mut shares = (0..hosts).map(|host| (host as f64 + stream.unit()) / hosts as f64);
        match *self {
            ClockLaw::Strata(strata) => shares.map(|share| in_strata(strata, share)).collect(),
            ClockLaw::Fitted {
                strata,
                mean,
                sd,
                bounds,
            } => {
                let mut clocks: Vec<_> = shares.map(|share| in_strata(strata, share)).collect();
                fit(&mut clocks, mean, sd, bounds);
                clocks
            }
            ClockLaw::Seen(seen) => shares.map(|share| in_table(seen, share)).collect(),
            ClockLaw::Normal { mean, sd } => {
                let _ = shares.by_ref().count();
                let mut clocks: Vec<_> = (0..hosts).map(|_| mean + sd * stream.normal()).collect();
                clocks.sort_by(f64::total_cmp);
                clocks
            }
        }
    }
}

fn in_strata(strata: &[Stratum], share: f64) -> f64 {
    let mut left = share;
    for &(part, from, to) in strata {
        if left < part {
            return from + (to - from) * left / part;
        }
        left -= part;
    }
    strata.last().map_or(0.0, |stratum| stratum.2)
}

fn in_table(seen: &[(f64, f64)], share: f64) -> f64 {
    let mut left = share * seen.iter().map(|(_, count)| count).sum::<f64>();
    for &(clock, count) in seen {
        if left < count {
            return clock;
        }
        left -= count;
    }
    seen.last().map_or(0.0, |(clock, _)| *clock)
}

/// Moves and stretches the clocks to this mean and standard deviation, as closely as the bounds
/// allow.
fn fit(clocks: &mut [f64], mean: f64, sd: f64, (low, high): (f64, f64)) {
    for _ in 0..100 {
        let count = clocks.len() as f64;
        let found_mean = clocks.iter().sum::<f64>() / count;
        let found_sd = (clocks
            .iter()
            .map(|clock| (clock - found_mean).powi(2))
            .sum::<f64>()
            / count)
            .sqrt();
        if found_sd > 0.0 {
            for clock in clocks.iter_mut() {
                *clock = (mean + (*clock - found_mean) * sd / found_sd).clamp(low, high);
            }
        }
    }
}
