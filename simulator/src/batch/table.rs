//! A law of run times in a table, for frequent evaluation ([`TabulatedLaw`]).

use scheduler::reservation::{NamedLaw, RunTimes};

/// The number of steps of the table.
const STEPS: u32 = 4_096;

/// A tabulated law: probabilities to about six digits; quantiles come from the law itself.
#[derive(Debug, Clone, PartialEq)]
pub struct TabulatedLaw {
    law: NamedLaw,
    /// The entry of each step: the probability of a shorter or equal run, and the integral of time
    /// times density up to there.
    entries: Vec<(f64, f64)>,
}

impl TabulatedLaw {
    /// Tabulates this law.
    pub fn new(law: NamedLaw) -> Self {
        let (low, high) = law.support();
        let at = |step: u32| low + (high - low) * f64::from(step) / f64::from(STEPS);
        let mut entries = Vec::with_capacity(STEPS as usize + 1);
        let mut time = 0.0;
        for step in 0..=STEPS {
            let upto = law.cdf(at(step));
            if let Some((before, _)) = entries.last() {
                time += (upto - before) * (at(step) + at(step - 1)) / 2.0;
            }
            entries.push((upto, time));
        }
        Self { law, entries }
    }

    /// The law itself.
    pub fn law(&self) -> &NamedLaw {
        &self.law
    }

    fn entry(&self, time: f64) -> (f64, f64) {
        let (low, high) = self.law.support();
        let at = ((time - low) / (high - low)).clamp(0.0, 1.0) * f64::from(STEPS);
        let step = (at as usize).min(self.entries.len() - 2);
        let ((a, x), (b, y), part) = (self.entries[step], self.entries[step + 1], at - step as f64);
        (a + (b - a) * part, x + (y - x) * part)
    }
}

impl RunTimes for TabulatedLaw {
    fn support(&self) -> (f64, f64) {
        self.law.support()
    }

    fn cdf(&self, time: f64) -> f64 {
        self.entry(time).0
    }

    fn partial_mean(&self, from: f64, to: f64) -> f64 {
        (self.entry(to).1 - self.entry(from).1).max(0.0)
    }

    fn quantile(&self, share: f64) -> f64 {
        self.law.quantile(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_agrees_with_its_law() {
        for name in [
            "truncnorm:0,20,8,2",
            "pareto:1,20,2.1",
            "exponential:0,16,1",
        ] {
            let law: NamedLaw = name.parse().unwrap();
            let table = TabulatedLaw::new(law);
            for time in [0.3, 1.7, 5.0, 8.8, 19.0] {
                assert!(
                    (table.cdf(time) - law.cdf(time)).abs() < 1e-5,
                    "{name} at {time}"
                );
                let means = (table.partial_mean(1.0, time), law.partial_mean(1.0, time));
                assert!(
                    (means.0 - means.1).abs() < 1e-5,
                    "{name} up to {time}: {means:?}"
                );
            }
        }
    }
}
