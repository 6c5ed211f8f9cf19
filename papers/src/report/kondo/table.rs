//! The results of one grid, looked up by name ([`ComparisonTable`]).

use simulator::experiment::{
    JobSize, MeasuredNumber, Measurement, PolicyGrid, RunRow, Summary, geometric_mean, summarize,
};

/// The results of a grid, without its traces.
#[derive(Debug, Clone)]
pub(super) struct ComparisonTable {
    /// The names of each site's platform and model.
    pub(super) sites: Vec<(String, String)>,
    pub(super) jobs: Vec<JobSize>,
    pub(super) labels: Vec<String>,
    pub(super) rows: Vec<RunRow>,
    pub(super) readings: Vec<Measurement>,
    pub(super) summaries: Vec<Summary>,
}

impl ComparisonTable {
    pub(super) fn new(grid: &PolicyGrid<'_>, rows: Vec<RunRow>) -> Self {
        let (readings, summaries) = summarize(grid, &rows);
        ComparisonTable {
            sites: grid
                .sites
                .iter()
                .map(|site| (site.platform.clone(), site.model.clone()))
                .collect(),
            jobs: grid.jobs.clone(),
            labels: grid
                .contenders
                .iter()
                .map(|who| who.label.clone())
                .collect(),
            rows,
            readings,
            summaries,
        }
    }

    pub(super) fn contender(&self, label: &str) -> Option<usize> {
        self.labels.iter().position(|known| known == label)
    }

    pub(super) fn site(&self, platform: &str) -> Option<usize> {
        self.sites.iter().position(|(known, _)| known == platform)
    }

    /// The reading of one cell.
    pub(super) fn reading(&self, site: usize, label: &str, job: usize) -> Option<&Measurement> {
        let contender = self.contender(label)?;
        self.readings
            .iter()
            .find(|cell| (cell.site, cell.contender, cell.job) == (site, contender, job))
    }

    /// The readings of a contender on one site (or on all), by job.
    pub(super) fn cells(&self, site: Option<usize>, label: &str) -> Vec<&Measurement> {
        let contender = self.contender(label);
        let fits = |cell: &&Measurement| {
            Some(cell.contender) == contender && site.is_none_or(|site| site == cell.site)
        };
        self.readings.iter().filter(fits).collect()
    }

    /// The summary of a contender over all jobs of one site (or of all).
    pub(super) fn summary(&self, site: Option<usize>, label: &str) -> Option<&Summary> {
        let contender = self.contender(label)?;
        self.summaries
            .iter()
            .find(|summary| (summary.site, summary.contender) == (site, contender))
    }

    /// The geometric mean over all jobs, with its confidence interval.
    pub(super) fn geo(&self, site: Option<usize>, label: &str) -> Option<MeasuredNumber> {
        self.summary(site, label).map(|summary| summary.geo)
    }

    /// The geometric mean over the jobs of `tasks` tasks.
    pub(super) fn geo_of_tasks(&self, site: usize, label: &str, tasks: u32) -> Option<f64> {
        let cells = self.cells(Some(site), label);
        geometric_mean(
            cells
                .iter()
                .filter(|cell| self.jobs[cell.job].tasks == tasks)
                .map(|cell| cell.ratio.value),
        )
    }

    /// The gain of `label` over `than` for jobs of `tasks` tasks, as a part of the latter's time.
    pub(super) fn gain(&self, site: usize, label: &str, than: &str, tasks: u32) -> Option<f64> {
        Some(1.0 - self.geo_of_tasks(site, label, tasks)? / self.geo_of_tasks(site, than, tasks)?)
    }

    /// The place of the job of this size.
    pub(super) fn job(&self, tasks: u32, minutes: f64) -> Option<usize> {
        self.jobs
            .iter()
            .position(|job| (job.tasks, job.work_s) == (tasks, minutes * 60.0))
    }

    /// The ratio of a cell.
    pub(super) fn ratio(
        &self,
        platform: &str,
        label: &str,
        tasks: u32,
        minutes: f64,
    ) -> Option<f64> {
        let site = self.site(platform)?;
        let job = self.job(tasks, minutes)?;
        self.reading(site, label, job).map(|cell| cell.ratio.value)
    }
}

/// The label of a job's size: tasks x minutes.
pub(super) fn size(job: JobSize) -> String {
    format!("{} x {:.0}", job.tasks, job.work_s / 60.0)
}
