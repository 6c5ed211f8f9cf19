//! Medians with their spread, and the table of both engines.

use crate::engine::EngineGrid;

/// Several measurements of one thing.
#[derive(Debug, Clone, Default)]
pub(crate) struct EngineSamples(Vec<f64>);

impl EngineSamples {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// The middle one; not a number if there is none.
    pub(crate) fn middle(&self) -> f64 {
        let sorted = self.sorted();
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// Each divided by the other one of the same round.
    fn over(&self, other: &Self) -> Self {
        self.0
            .iter()
            .zip(&other.0)
            .map(|(one, other)| one / other)
            .collect()
    }

    /// The middle one, with the smallest and the largest.
    fn told(&self, factor: f64) -> String {
        let sorted = self.sorted();
        let number = |value: Option<&f64>| {
            let value = value.map_or(f64::NAN, |value| value * factor);
            let places = if value >= 1_000.0 { 0 } else { 2 };
            format!("{value:.places$}")
        };
        let middle = number(sorted.get(sorted.len() / 2));
        format!(
            "{middle} ({}–{})",
            number(sorted.first()),
            number(sorted.last())
        )
    }
}

impl FromIterator<f64> for EngineSamples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

/// A line of the table: what was measured on each engine.
pub(crate) struct EngineRow {
    title: &'static str,
    unit: &'static str,
    factor: f64,
    engines: Vec<(&'static str, EngineSamples)>,
}

impl EngineRow {
    /// A line without measurements. They are told in this unit, of which one is `factor` parts.
    pub(crate) fn new(
        title: &'static str,
        unit: &'static str,
        factor: f64,
        engines: &[EngineGrid],
    ) -> Self {
        let named = engines
            .iter()
            .map(|engine| (engine.name(), EngineSamples::default()));
        Self {
            title,
            unit,
            factor,
            engines: named.collect(),
        }
    }

    /// Adds a measurement of the engine at this place.
    pub(crate) fn add(&mut self, at: usize, value: f64) {
        self.engines[at].1.push(value);
    }
}

/// Prints the table: medians, with the least and the most.
pub(crate) fn print(rows: &[EngineRow], rounds: u32) {
    println!("| {rounds} rounds | SQLite | PostgreSQL | PostgreSQL to SQLite |");
    println!("|---|---|---|---|");
    for row in rows {
        let mut cells: Vec<String> = row
            .engines
            .iter()
            .map(|(_, of)| of.told(row.factor))
            .collect();
        if let [(_, file), (_, server)] = &row.engines[..]
            && file.middle() > 0.0
        {
            cells.push(server.over(file).told(1.0));
        }
        cells.resize(3, "–".to_owned());
        println!("| {}, {} | {} |", row.title, row.unit, cells.join(" | "));
    }
}
