//! Rows and summaries of an experiment as CSV.

use std::fmt::Write;

use super::{JobSize, PolicyGrid, RunRow, Summary};
use crate::figure::{field, number};

/// The names behind the places in a row.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// The site's platform.
    pub platform: &'a str,
    /// The site's availability model.
    pub model: &'a str,
    /// The job's size.
    pub job: JobSize,
    /// The label of the contender.
    pub policy: &'a str,
}

impl<'a> Named<'a> {
    /// Looks up the names of these places of a grid.
    pub fn of(grid: &'a PolicyGrid<'_>, site: usize, job: usize, contender: usize) -> Self {
        Named {
            platform: &grid.sites[site].platform,
            model: &grid.sites[site].model,
            job: grid.jobs[job],
            policy: &grid.contenders[contender].label,
        }
    }
}

/// The CSV of all runs, one on a line.
pub fn rows_csv(grid: &PolicyGrid<'_>, rows: &[RunRow]) -> String {
    let mut out = String::from(
        "platform,model,day,start_s,tasks,task_s,policy,makespan_s,optimal_s,ratio,launches,replicas,cpu_s,wasted_cpu_s\n",
    );
    for row in rows {
        let Named {
            platform,
            model,
            job,
            policy,
        } = Named::of(grid, row.site, row.job, row.contender);

        let some = |value: Option<f64>| value.map(number).unwrap_or_default();
        let _ = writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            field(platform),
            field(model),
            row.day,
            number(row.start_s),
            job.tasks,
            number(job.work_s),
            field(policy),
            some(row.makespan_s),
            some(row.optimal_s),
            some(row.ratio()),
            row.launches,
            row.replicas,
            number(row.cpu_s),
            number(row.wasted_cpu_s),
        );
    }

    out
}

/// The CSV of all summaries: every contender on a line, for each site and for all together.
pub fn summary_csv(grid: &PolicyGrid<'_>, summaries: &[Summary]) -> String {
    let mut out = String::from(
        "platform,model,policy,geo_ratio,geo_ratio_low,geo_ratio_high,worst_ratio,mean_replicas,max_replicas,cpu_waste,\
         unfinished\n",
    );
    for summary in summaries {
        let site = summary.site.map(|site| &grid.sites[site]);
        let _ = writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{}",
            site.map_or_else(|| "all".to_owned(), |site| field(&site.platform)),
            site.map_or_else(String::new, |site| field(&site.model)),
            field(&grid.contenders[summary.contender].label),
            number(summary.geo.value),
            summary.geo.ci.map(|ci| number(ci.low)).unwrap_or_default(),
            summary.geo.ci.map(|ci| number(ci.high)).unwrap_or_default(),
            number(summary.worst),
            number(summary.mean_replicas),
            number(summary.max_replicas),
            number(summary.cpu_waste),
            summary.unfinished,
        );
    }

    out
}
