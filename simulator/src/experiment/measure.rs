//! Summaries of rows: ratios to the optimum with their confidence intervals, copies and waste.

use std::collections::BTreeMap;

use super::grid::{PolicyGrid, RunRow};
use super::stats::{ConfidenceInterval, bootstrap, geometric_mean};

/// The results of one contender on one site with one job, over all days and starts.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// The place of the site in the grid.
    pub site: usize,
    /// The place of the job in the grid.
    pub job: usize,
    /// The place of the contender in the grid.
    pub contender: usize,
    /// The mean makespan divided by the mean optimal makespan (Kondo et al. 2004, section 4:
    /// "normalized to the mean optimal").
    pub ratio: MeasuredNumber,
    /// The mean makespan, in seconds; an unfinished run counts with the time until its trace ended.
    pub makespan_s: f64,
    /// The mean optimal makespan, in seconds.
    pub optimal_s: f64,
    /// The number of attempts started while another of their task was live, per task.
    pub replicas: f64,
    /// Processor time of attempts that did not deliver their task, divided by all processor time.
    pub cpu_waste: f64,
    /// The number of runs.
    pub runs: usize,
    /// The number of unfinished runs.
    pub unfinished: usize,
}

/// A number with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredNumber {
    /// The measured number; NaN if nothing was measured.
    pub value: f64,
    /// The interval in which it would lie on other days; `None` with fewer than two days.
    pub ci: Option<ConfidenceInterval>,
}

/// The results of one contender on one site (or on all of them), over all jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The place of the site in the grid; `None` for all sites together.
    pub site: Option<usize>,
    /// The place of the contender in the grid.
    pub contender: usize,
    /// The geometric mean of the jobs' ratios.
    pub geo: MeasuredNumber,
    /// The largest ratio of a job.
    pub worst: f64,
    /// The mean of the jobs' replicas.
    pub mean_replicas: f64,
    /// The largest of the jobs' replicas.
    pub max_replicas: f64,
    /// The mean of the jobs' waste of processor time.
    pub cpu_waste: f64,
    /// The number of unfinished runs.
    pub unfinished: usize,
}

/// The sums of one cell on one day.
#[derive(Debug, Clone, Copy, Default)]
struct CellSums {
    makespan_s: f64,
    optimal_s: f64,
}

/// The sums of one cell, day by day in the grid's order.
type Days = Vec<CellSums>;

/// Summarizes rows: returns the readings of every cell, by site, contender and job, and the
/// summaries of every contender, by site; those of all sites together come last.
pub fn summarize(grid: &PolicyGrid<'_>, rows: &[RunRow]) -> (Vec<Measurement>, Vec<Summary>) {
    let mut cells: BTreeMap<(usize, usize, usize), Vec<&RunRow>> = BTreeMap::new();
    for row in rows {
        cells
            .entry((row.site, row.contender, row.job))
            .or_default()
            .push(row);
    }

    let days: BTreeMap<_, Days> = cells
        .iter()
        .map(|(place, rows)| (*place, sums(grid, rows)))
        .collect();
    let readings: Vec<Measurement> = cells
        .iter()
        .map(|(place, rows)| reading(grid, *place, rows, &days[place]))
        .collect();
    let mut summaries = Vec::new();

    for site in (0..grid.sites.len()).map(Some).chain([None]) {
        for contender in 0..grid.contenders.len() {
            summaries.extend(summary(grid, site, contender, &readings, &days));
        }
    }

    (readings, summaries)
}

fn sums(grid: &PolicyGrid<'_>, rows: &[&RunRow]) -> Days {
    let mut days = vec![CellSums::default(); grid.days.len()];
    for row in rows {
        let Some(day) = grid.days.iter().position(|day| day.day == row.day) else {
            continue;
        };
        days[day].makespan_s += counted(row);
        days[day].optimal_s += row.optimal_s.unwrap_or(row.horizon_s);
    }
    days
}

/// The makespan that counts: an unfinished run took at least until the trace's end.
fn counted(row: &RunRow) -> f64 {
    row.makespan_s.unwrap_or(row.horizon_s)
}

/// The mean makespan divided by the mean optimum, over days that were drawn `drawn` times each.
fn ratio(days: &Days, drawn: &[u32]) -> Option<f64> {
    let mut sum = CellSums::default();
    for (day, times) in days.iter().zip(drawn) {
        sum.makespan_s += day.makespan_s * f64::from(*times);
        sum.optimal_s += day.optimal_s * f64::from(*times);
    }
    (sum.optimal_s > 0.0).then(|| sum.makespan_s / sum.optimal_s)
}

fn figure(grid: &PolicyGrid<'_>, statistic: impl Fn(&[u32]) -> Option<f64>) -> MeasuredNumber {
    let value = statistic(&vec![1; grid.days.len()]).unwrap_or(f64::NAN);
    MeasuredNumber {
        value,
        ci: bootstrap(grid.seed, grid.days.len(), statistic),
    }
}

fn reading(
    grid: &PolicyGrid<'_>,
    place: (usize, usize, usize),
    rows: &[&RunRow],
    days: &Days,
) -> Measurement {
    let (site, contender, job) = place;
    let mean = |of: &dyn Fn(&RunRow) -> f64| {
        rows.iter().map(|row| of(row)).sum::<f64>() / rows.len().max(1) as f64
    };
    let cpu_s = mean(&|row| row.cpu_s);

    Measurement {
        site,
        job,
        contender,
        ratio: figure(grid, |drawn| ratio(days, drawn)),
        makespan_s: mean(&counted),
        optimal_s: mean(&|row| row.optimal_s.unwrap_or(row.horizon_s)),
        replicas: mean(&|row| f64::from(row.replicas)) / f64::from(grid.jobs[job].tasks.max(1)),
        cpu_waste: if cpu_s > 0.0 {
            mean(&|row| row.wasted_cpu_s) / cpu_s
        } else {
            0.0
        },
        runs: rows.len(),
        unfinished: rows.iter().filter(|row| row.makespan_s.is_none()).count(),
    }
}

fn summary(
    grid: &PolicyGrid<'_>,
    site: Option<usize>,
    contender: usize,
    readings: &[Measurement],
    days: &BTreeMap<(usize, usize, usize), Days>,
) -> Option<Summary> {
    let wanted = |at: usize| site.is_none_or(|site| site == at);
    let cells: Vec<&Measurement> = readings
        .iter()
        .filter(|reading| reading.contender == contender && wanted(reading.site))
        .collect();
    let own: Vec<&Days> = days
        .iter()
        .filter(|((at, who, _), _)| *who == contender && wanted(*at))
        .map(|(_, days)| days)
        .collect();
    let geo = |drawn: &[u32]| {
        let ratios: Option<Vec<f64>> = own.iter().map(|days| ratio(days, drawn)).collect();
        geometric_mean(ratios?)
    };
    let most = |of: &dyn Fn(&Measurement) -> f64| {
        cells
            .iter()
            .map(|cell| of(cell))
            .fold(f64::NEG_INFINITY, f64::max)
    };

    let mean = |of: &dyn Fn(&Measurement) -> f64| {
        cells.iter().map(|cell| of(cell)).sum::<f64>() / cells.len() as f64
    };
    (!cells.is_empty()).then(|| Summary {
        site,
        contender,
        geo: figure(grid, geo),
        worst: most(&|cell| cell.ratio.value),
        mean_replicas: mean(&|cell| cell.replicas),
        max_replicas: most(&|cell| cell.replicas),
        cpu_waste: mean(&|cell| cell.cpu_waste),
        unfinished: cells.iter().map(|cell| cell.unfinished).sum(),
    })
}
