//! The wait for a number of free hosts: Downey's predictors (section 3), with hosts that come and
//! go, and the law of the wait: exact on small machines and where few hosts are needed or may be
//! missing, else by a normal law. The waiting jobs are unknown here.

use statrs::function::erf::erfc;

use super::lifetime::Lifetime;
use super::solve::reached_s;

/// The number of benefactors from which the median predictor is used.
const BENEFACTORS: u32 = 2;
/// The latest time, in seconds, that is ever predicted: 30 years.
const NEVER_S: f64 = 1e9;
/// The number of units of a sample that count one by one; of later ones, groups are this part of those
/// before them.
const ONE_BY_ONE: usize = 64;
/// The number of hosts up to which the law of the number of free ones is computed exactly.
const EXACT: u32 = 256;
/// Beyond that, the number of needed hosts, and of hosts that may be missing, up to which it still is:
/// the normal law is bad there.
const FEW: usize = 32;
/// Beyond that, units of more than this part of the needed hosts are still counted one by one: few of
/// them have no normal law.
const LARGE_PART: usize = 32;
/// The number of points at which a function that may fall is sampled, before the root is searched.
const PLACES: u32 = 96;

/// A holder of hosts that frees them when it ends: a job that runs on them, or the absence of a
/// host.
#[derive(Clone, Copy)]
pub struct HostHolder<'a> {
    /// The number of its hosts.
    pub hosts: u32,
    /// Its age, in seconds.
    pub age_s: f64,
    /// The law of its lifetime.
    pub law: &'a dyn Lifetime,
}

impl<'a> HostHolder<'a> {
    /// Creates the holder of one host.
    pub fn of_one(age_s: f64, law: &'a dyn Lifetime) -> Self {
        Self {
            hosts: 1,
            age_s,
            law,
        }
    }

    /// Returns the quantile `part` of the rest of its lifetime, in seconds; `None` if it never ends.
    pub(crate) fn rest_s(self, part: f64) -> Option<f64> {
        MachineState::new(0, vec![self]).quantile_s(self.hosts, part)
    }
}

/// The hosts as they are now.
#[derive(Clone)]
pub struct MachineState<'a> {
    free: u32,
    /// The units, the largest first, each with the number of units that it stands for.
    units: Vec<(HostHolder<'a>, u32)>,
    /// The law of the time for which hosts stay, if they may leave.
    staying: Option<&'a dyn Lifetime>,
}

/// The predicted wait for a number of free hosts, in seconds from now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wait {
    /// The number of units that could free enough hosts alone.
    pub benefactors: u32,
    /// The median of the time until the first benefactor ends (predictor A); `None` without one.
    pub median_s: Option<f64>,
    /// The time at which the mean number of free hosts suffices (predictor B); `None` if it never
    /// does.
    pub mean_s: Option<f64>,
    /// The one that is used: A if there are two or more benefactors, else B.
    pub used_s: Option<f64>,
}

impl<'a> MachineState<'a> {
    /// Creates a machine of `free` free hosts and these units.
    pub fn new(free: u32, mut units: Vec<HostHolder<'a>>) -> Self {
        // A stable sort: the order of equals has no effect on predictions.
        units.sort_by(|a, b| b.hosts.cmp(&a.hosts).then(a.age_s.total_cmp(&b.age_s)));
        Self {
            free,
            units: units.into_iter().map(|unit| (unit, 1)).collect(),
            staying: None,
        }
    }

    /// Creates a machine of many units, in which some stand for their neighbours. Each list is of units
    /// with laws of one kind, the first to end first: these count one by one, later ones in groups
    /// that grow with the number of those before them.
    pub fn sampled(free: u32, kinds: impl IntoIterator<Item = Vec<HostHolder<'a>>>) -> Self {
        let mut sampled = Vec::new();
        for mut units in kinds {
            units.sort_by(|a, b| b.hosts.cmp(&a.hosts).then(a.age_s.total_cmp(&b.age_s)));
            for mut rest in units.chunk_by(|a, b| a.hosts == b.hosts) {
                let all = rest.len();
                while !rest.is_empty() {
                    let each = ((all - rest.len()) / ONE_BY_ONE).clamp(1, rest.len());
                    let (group, others) = rest.split_at(each);
                    sampled.push((group[each / 2], each as u32));
                    rest = others;
                }
            }
        }

        sampled.sort_by_key(|(unit, _)| std::cmp::Reverse(unit.hosts));
        Self {
            units: sampled,
            ..Self::new(free, Vec::new())
        }
    }

    /// Lets hosts leave again, from now on by this law.
    pub fn leaving(mut self, law: &'a dyn Lifetime) -> Self {
        self.staying = Some(law);
        self
    }

    /// Returns the number of free hosts.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Returns the number of all hosts, absent ones included.
    pub fn hosts(&self) -> u32 {
        self.units.iter().fold(self.free, |sum, (unit, number)| {
            sum.saturating_add(unit.hosts.saturating_mul(*number))
        })
    }

    /// Predicts the wait for this many free hosts.
    pub fn wait(&self, hosts: u32) -> Wait {
        let need = hosts.saturating_sub(self.free);
        if need == 0 {
            return Wait {
                benefactors: 0,
                median_s: Some(0.0),
                mean_s: Some(0.0),
                used_s: Some(0.0),
            };
        }

        let enough_alone = self.enough_alone(need);
        let benefactors = self.benefactors(enough_alone);
        let median_s = self.median_s(enough_alone);
        let mean_s = self.mean_s(hosts, 0.0);
        let used_s = if benefactors >= BENEFACTORS {
            median_s
        } else {
            mean_s
        };

        Wait {
            benefactors,
            median_s,
            mean_s,
            used_s,
        }
    }

    /// Returns the used prediction for each number of hosts from `least` to `most`, in seconds.
    pub fn waits_s(&self, least: u32, most: u32) -> Vec<Option<f64>> {
        let mut medians: Vec<Option<Option<f64>>> = vec![None; self.units.len() + 1];
        let mut earliest_s = 0.0;
        let mut one = |hosts: u32| {
            let need = hosts.saturating_sub(self.free);
            if need == 0 {
                return Some(0.0);
            }

            let enough_alone = self.enough_alone(need);
            if self.benefactors(enough_alone) >= BENEFACTORS {
                return *medians[enough_alone].get_or_insert_with(|| self.median_s(enough_alone));
            }

            let mean_s = self.mean_s(hosts, earliest_s);
            // If hosts never leave, more of them are free no earlier.
            if self.staying.is_none() {
                earliest_s = mean_s.unwrap_or(earliest_s);
            }

            mean_s
        };
        (least..=most).map(&mut one).collect()
    }

    /// Returns the quantile `part` of the wait, by the law of the number of free hosts itself
    /// (equation 8), which needs no enumeration of outcomes. `None` if that many are never free.
    pub fn quantile_s(&self, hosts: u32, part: f64) -> Option<f64> {
        if hosts <= self.free {
            return Some(0.0);
        }
        if hosts > self.hosts() {
            return None;
        }
        self.first_s(|time_s| self.enough(hosts, time_s), part, 0.0)
    }

    /// Returns these quantiles, which rise, for one host more than are free, for two more, and so
    /// on. They are interpolated linearly between the points of a scale, which costs hardly more
    /// than one of them exactly. Hosts are taken to stay.
    pub fn quantiles_s<const N: usize>(&self, parts: [f64; N]) -> Vec<[Option<f64>; N]> {
        let (Some(least), Some(most)) = (parts.first(), parts.last()) else {
            return Vec::new();
        };
        let Some(from_s) = self.quantile_s(self.free + 1, *least) else {
            return Vec::new();
        };

        let to_s = self
            .quantile_s(self.hosts(), *most)
            .map_or(NEVER_S, |most_s| most_s * (1.0 + 1e-9));
        let wider = ((to_s + 1.0) / (from_s + 1.0)).max(1.0);
        let place_s =
            |number: u32| (from_s + 1.0) * wider.powf(f64::from(number) / f64::from(PLACES)) - 1.0;

        let wanted = (self.hosts() - self.free) as usize;
        let at_least = |time_s: f64| {
            let mut law = self.law(wanted, time_s);
            for at in (0..wanted).rev() {
                law[at] += law[at + 1];
            }
            (time_s, law)
        };

        let laws: Vec<(f64, Vec<f64>)> = (0..=PLACES)
            .map(|number| at_least(place_s(number)))
            .collect();

        let between = |hosts: usize, part: f64| {
            let after = laws.partition_point(|(_, law)| law[hosts] < part);
            let (time_s, law) = laws.get(after)?;
            let Some((before_s, before)) = after.checked_sub(1).map(|before| &laws[before]) else {
                return Some(*time_s);
            };
            Some(
                before_s
                    + (part - before[hosts]) / (law[hosts] - before[hosts]) * (time_s - before_s),
            )
        };

        (1..=wanted)
            .map(|hosts| parts.map(|part| between(hosts, part)))
            .collect()
    }

    /// Returns the probability that this many hosts are free at that time.
    fn enough(&self, hosts: u32, time_s: f64) -> f64 {
        let sure = if self.staying.is_none() { self.free } else { 0 };
        let need = hosts.saturating_sub(sure) as usize;
        let missing = self.hosts().saturating_sub(hosts) as usize;
        if self.hosts() <= EXACT || need <= FEW {
            self.law(need, time_s)[need]
        } else if missing <= FEW {
            self.at_most_missing(missing, time_s)
        } else {
            self.enough_roughly(need, time_s)
        }
    }

    /// Returns the probability of each number of hosts that are free at that time, all from `need`
    /// on together; hosts that are free already and stay are not counted.
    fn law(&self, need: usize, time_s: f64) -> Vec<f64> {
        self.count(need, time_s, |free| free)
    }

    /// Returns the probability that at most so many of all hosts are not free at that time.
    fn at_most_missing(&self, most: usize, time_s: f64) -> f64 {
        let law = self.count(most + 1, time_s, |free| 1.0 - free);
        law[..=most].iter().sum()
    }

    /// Returns the probability of each number of hosts that count at that time, all from `most` on
    /// together. Those of a unit count with the probability that `counts` makes of that with which
    /// they are free; hosts that are free already and stay are left out.
    fn count(&self, most: usize, time_s: f64, counts: impl Fn(f64) -> f64) -> Vec<f64> {
        let stay = self.stay(time_s);
        let mut law = vec![0.0; most + 1];
        law[0] = 1.0;
        for _ in 0..self.may_leave() {
            also(&mut law, 1, counts(stay));
        }

        for (unit, number) in &self.units {
            let ended = stay * unit.law.ended(unit.age_s, time_s);
            for _ in 0..*number {
                also(&mut law, unit.hosts as usize, counts(ended));
            }
        }

        law
    }

    /// Returns about the probability that `need` hosts are free at that time; hosts that are free
    /// already and stay are not counted. Beside the large units the number has a normal law, counted
    /// from half a host before. Where the units beside those are single hosts it is off by less than
    /// 0.07.
    fn enough_roughly(&self, need: usize, time_s: f64) -> f64 {
        let stay = self.stay(time_s);
        let of_one = |unit: &HostHolder<'_>| stay * unit.law.ended(unit.age_s, time_s);
        let is_large = |unit: &HostHolder<'_>| unit.hosts as usize > need / LARGE_PART;
        let larger = self.units.partition_point(|(unit, _)| is_large(unit));
        let mut law = vec![0.0; need + 1];
        law[0] = 1.0;
        for (unit, number) in &self.units[..larger] {
            for _ in 0..*number {
                also(&mut law, unit.hosts as usize, of_one(unit));
            }
        }

        let leave = f64::from(self.may_leave());
        let mut mean = leave * stay;
        let mut variance = leave * stay * (1.0 - stay);
        for (unit, number) in &self.units[larger..] {
            let free = of_one(unit);
            let hosts = f64::from(unit.hosts);
            mean += f64::from(*number) * hosts * free;
            variance += f64::from(*number) * hosts * hosts * free * (1.0 - free);
        }

        let parts = law.iter().enumerate().filter(|(_, part)| **part > 0.0);
        parts
            .map(|(large, part)| part * at_least(need - large, mean, variance))
            .sum()
    }

    /// Returns the number of free hosts that may leave.
    fn may_leave(&self) -> u32 {
        if self.staying.is_none() { 0 } else { self.free }
    }

    fn stay(&self, time_s: f64) -> f64 {
        self.staying.map_or(1.0, |law| 1.0 - law.ended(0.0, time_s))
    }

    /// Returns the number of entries of `units`, from the first one, whose units could each free this
    /// many hosts alone.
    fn enough_alone(&self, need: u32) -> usize {
        self.units.partition_point(|(unit, _)| unit.hosts >= need)
    }

    /// Returns the number of units in these first entries.
    fn benefactors(&self, entries: usize) -> u32 {
        let first = self.units.iter().take(entries);
        first.fold(0, |sum, (_, number)| sum.saturating_add(*number))
    }

    fn median_s(&self, entries: usize) -> Option<f64> {
        let units = self
            .units
            .get(..entries)
            .filter(|units| !units.is_empty())?;
        let one_ended = |time_s: f64| {
            let stay = self.stay(time_s);
            1.0 - units
                .iter()
                .map(|(unit, number)| {
                    let goes_on = 1.0 - stay * unit.law.ended(unit.age_s, time_s);
                    goes_on.powi(*number as i32)
                })
                .product::<f64>()
        };
        self.first_s(one_ended, 0.5, 0.0)
    }

    fn mean_s(&self, hosts: u32, earliest_s: f64) -> Option<f64> {
        if self.hosts() < hosts {
            return None;
        }

        let expected = |time_s: f64| {
            let freed: f64 = self
                .units
                .iter()
                .map(|(unit, number)| {
                    let hosts = f64::from(unit.hosts) * f64::from(*number);
                    hosts * unit.law.ended(unit.age_s, time_s)
                })
                .sum();
            self.stay(time_s) * (f64::from(self.free) + freed)
        };

        // The sum may fall short of a whole number by rounding.
        self.first_s(expected, f64::from(hosts) * (1.0 - 1e-13), earliest_s)
    }

    /// Returns the time at which `function` first reaches `target`, not before `earliest_s`.
    fn first_s(&self, function: impl Fn(f64) -> f64, target: f64, earliest_s: f64) -> Option<f64> {
        let longest_s = self
            .units
            .iter()
            .map(|(unit, _)| unit.law.longest_s(unit.age_s))
            .fold(0.0, f64::max);
        let longest_s = longest_s.min(NEVER_S);
        if self.staying.is_none() {
            let reaches = function(longest_s) >= target;
            return reaches.then(|| reached_s(function, target, earliest_s, longest_s));
        }

        let wider = longest_s.max(1.0);
        let mut before_s = 0.0;
        for number in 0..=PLACES {
            let time_s = wider.powf(f64::from(number) / f64::from(PLACES)) - 1.0;
            if function(time_s) >= target {
                return Some(reached_s(function, target, before_s, time_s));
            }
            before_s = time_s;
        }

        None
    }
}

/// Adds `more` to a number of this law with this probability; the last place stands for all numbers
/// beyond.
fn also(law: &mut [f64], more: usize, probability: f64) {
    let last = law.len() - 1;
    for at in (0..last).rev() {
        let moved = law[at] * probability;
        law[at] -= moved;
        law[last.min(at + more)] += moved;
    }
}

/// Returns the probability that a whole number of about this normal law is `least` or more.
fn at_least(least: usize, mean: f64, variance: f64) -> f64 {
    let off = least as f64 - 0.5 - mean;
    if least == 0 || variance <= 0.0 {
        return f64::from(u8::from(least == 0 || off <= 0.0));
    }
    0.5 * erfc(off / (2.0 * variance).sqrt())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lifetimes that end with the same probability in each second.
    struct Memoryless;

    impl Lifetime for Memoryless {
        fn ended(&self, age_s: f64, time_s: f64) -> f64 {
            // The older, the longer it stays.
            -(-time_s / (1.0 + age_s)).exp_m1()
        }

        fn longest_s(&self, age_s: f64) -> f64 {
            40.0 * (1.0 + age_s)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        #[test]
        fn beyond_the_exact_law_the_number_of_free_hosts_has_nearly_the_same(
            ages in prop::collection::vec(1.0..1_000.0_f64, 257..400),
            gangs in prop::collection::vec((1.0..1_000.0_f64, 30_u32..120), 0..3),
            free in 0_u32..20,
            leaves in any::<bool>(),
            need in 0.0..1.0_f64,
        ) {
            let units = ages.iter().map(|age_s| (*age_s, 1)).chain(gangs);
            let units = units.map(|(age_s, hosts)| HostHolder { hosts, age_s, law: &Memoryless });
            let machine = MachineState::new(free, units.collect());
            let machine = if leaves { machine.leaving(&Memoryless) } else { machine };
            let sure = if leaves { 0 } else { free };
            let all = machine.hosts() - sure;
            let need = FEW + 1 + ((all as usize - 2 * FEW - 2) as f64 * need) as usize;

            for time_s in [1.0, 10.0, 50.0, 200.0, 700.0, 3_000.0] {
                let exact = machine.law(need, time_s)[need];
                let found = machine.enough(need as u32 + sure, time_s);
                prop_assert!((found - exact).abs() < 0.07, "{need} of {all} at {time_s}: {found}, not {exact}");

                // Where few may be missing, it is the exact one by another way.
                let most = all as usize - FEW / 2;
                let exact = machine.law(most, time_s)[most];
                let found = machine.enough(most as u32 + sure, time_s);
                prop_assert!((found - exact).abs() < 1e-9, "{most} of {all} at {time_s}: {found}, not {exact}");
            }
        }
    }
}
