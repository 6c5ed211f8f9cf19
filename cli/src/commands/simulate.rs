//! Executes `deskgrid simulate`: runs jobs on simulated grids, under any policy. The simulation
//! lives in `simulator`.

use std::path::Path;
use std::thread::available_parallelism;

use common::needs::Needs;
use scheduler::policy::Width;
use serde::Serialize;
use simulator::experiment::rows::{Named, rows_csv, summary_csv};
use simulator::experiment::{
    Contender, Day, DaySource, FIRST_DAY, Generated, GridError, JobSize, KONDO_JOBS, Knowledge,
    PolicyGrid, Recorded, RunRow, STARTS_S, Site, Summary, TRAINING_DAYS, summarize,
};
use simulator::platform::sizes::OFFICE;
use simulator::trace::Trace;

use super::Context;
use super::trace::unusable;
use crate::args::simulate::SimulateArgs;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::output::table::Rows;
use crate::submit::nearest;

/// The number of starts on each day.
const STARTS_PER_DAY: usize = 6;
/// The name of the optimal schedule in the list of policies.
const OPTIMAL: &str = "OPTIMAL";

/// The answer of `deskgrid simulate`.
#[derive(Serialize)]
struct SimulateAnswer {
    rows: Vec<RowJson>,
    summary: Vec<SummaryJson>,
}

#[derive(Serialize)]
struct RowJson {
    platform: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    day: u32,
    start_s: f64,
    tasks: u32,
    task_s: f64,
    policy: String,
    makespan_s: Option<f64>,
    optimal_s: Option<f64>,
    ratio: Option<f64>,
    replicas: u32,
    launches: u32,
    cpu_s: f64,
    cpu_waste: f64,
    finished: bool,
}

#[derive(Serialize)]
struct SummaryJson {
    platform: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    policy: String,
    median_makespan_s: Option<f64>,
    geo_ratio: Option<f64>,
    geo_ratio_low: Option<f64>,
    geo_ratio_high: Option<f64>,
    worst_ratio: Option<f64>,
    mean_replicas: f64,
    max_replicas: f64,
    cpu_waste: f64,
    unfinished: usize,
}

/// A source of simulated hosts, with its names.
struct HostSource {
    /// The end of a replayed trace, in seconds since its start.
    end_s: Option<f64>,
    platform: String,
    model: String,
    source: Box<dyn DaySource>,
    knowledge: Option<Knowledge>,
}

/// Executes `deskgrid simulate`.
pub(super) fn run(context: &Context, args: &SimulateArgs) -> Result<Exit, Failure> {
    let contenders = args
        .policy
        .iter()
        .map(|name| contender(name, args.checkpoint))
        .collect::<Result<Vec<_>, _>>()?;
    let places = places(args, &contenders)?;
    let end_s = places.iter().find_map(|place| place.end_s);
    let grid = PolicyGrid {
        sites: places.iter().map(HostSource::site).collect(),
        jobs: jobs(args)?,
        contenders,
        days: days(args, end_s)?,
        needs: args.needs.as_deref().map(needs).transpose()?,
        foretell: false,
        seed: args.seed,
        threads: threads(args.threads),
    };
    let rows = grid.rows().map_err(|error| failed(&error))?;
    let (_, summaries) = summarize(&grid, &rows);
    let summaries: Vec<Summary> = summaries
        .into_iter()
        .filter(|summary| summary.site.is_some())
        .collect();

    if let Some(out) = &args.out {
        files::write_into(out, args.force, |out| {
            write(&out.join("rows.csv"), &rows_csv(&grid, &rows))?;
            write(&out.join("summary.csv"), &summary_csv(&grid, &summaries))
        })?;
    }

    let trace = args.trace.as_ref().map(|dir| dir.display().to_string());
    let answer = SimulateAnswer {
        rows: rows
            .iter()
            .map(|row| row_json(&grid, row, trace.as_ref()))
            .collect(),
        summary: summaries
            .iter()
            .map(|summary| summary_json(&grid, &rows, summary, trace.as_ref()))
            .collect(),
    };
    let text = || text(&answer, context.out.color());
    context.out.show(&answer, text, || {
        answer
            .rows
            .iter()
            .map(|row| seconds(row.makespan_s))
            .collect()
    })?;

    let none = answer.rows.iter().all(|row| !row.finished);
    Ok(if none { Exit::Error } else { Exit::Well })
}

/// Returns the number of threads as given, or one for each processor.
pub fn threads(asked: Option<u32>) -> usize {
    asked.map_or_else(
        || available_parallelism().map_or(1, usize::from),
        |asked| asked as usize,
    )
}

/// The failure of an experiment that could not be made.
pub fn failed(error: &GridError) -> Failure {
    match error {
        GridError::Source { .. } => Failure::usage(
            error.to_string(),
            "correct the trace, or choose another one",
        ),
        GridError::Run { .. } => Failure::usage(error.to_string(), "deskgrid policy list"),
    }
}

/// Writes one output file.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::io(format!("cannot write {}", path.display()), &error))
}

fn contender(name: &str, checkpoint: bool) -> Result<Contender, Failure> {
    if name.eq_ignore_ascii_case(OPTIMAL) {
        return Ok(Contender {
            label: OPTIMAL.to_owned(),
            policy: String::new(),
            checkpoint: false,
        });
    }

    let (row, parameters) = name
        .split_once(':')
        .map_or((name, ""), |(row, _)| (row, &name[row.len()..]));
    match scheduler::policy::parse(name) {
        Ok(policy) if policy.limits.learns() => {
            let what = format!(
                "{} learns limits, and simulated tasks all have the same work",
                policy.name
            );
            Err(Failure::usage(
                what,
                "deskgrid-lab reproduce gainaru runs sequences of limits on jobs of many lengths",
            ))
        }
        Ok(policy) if policy.width != Width::Rigid => {
            let what = format!(
                "{} decides for jobs of many ranks, and simulated tasks have one each",
                policy.name
            );
            Err(Failure::usage(
                what,
                "deskgrid-lab reproduce downey runs such rules on jobs of many ranks, and deskgrid-lab simulate --scenario on a grid of your own",
            ))
        }
        Ok(policy) => {
            let label = format!("{}{parameters}", policy.name);
            Ok(Contender {
                label,
                policy: name.to_owned(),
                checkpoint,
            })
        }
        Err(why) => {
            let names: Vec<&str> = scheduler::catalogue()
                .iter()
                .map(|row| row.name)
                .chain([OPTIMAL])
                .collect();
            let known = names.iter().any(|known| known.eq_ignore_ascii_case(row));
            let hint = match nearest(row, &names).filter(|_| !known) {
                Some(near) => format!(
                    "did you mean {near}? deskgrid policy list shows all of them, and OPTIMAL"
                ),
                None if known => format!("deskgrid policy show {row}"),
                None => "deskgrid policy list, and OPTIMAL".to_owned(),
            };
            Err(Failure::usage(why.to_string(), hint))
        }
    }
}

impl HostSource {
    fn site(&self) -> Site<'_> {
        Site {
            platform: self.platform.clone(),
            model: self.model.clone(),
            source: self.source.as_ref(),
            knowledge: self.knowledge.as_ref(),
        }
    }
}

/// Returns the host sources: a trace, or each platform under each model.
fn places(args: &SimulateArgs, contenders: &[Contender]) -> Result<Vec<HostSource>, Failure> {
    if let Some(dir) = &args.trace {
        return Ok(vec![recorded(args, dir)?]);
    }

    let or = |given: &[String], default: &str| {
        if given.is_empty() {
            vec![default.to_owned()]
        } else {
            given.to_vec()
        }
    };

    // Only policies with reports learn; the others need not wait for it.
    let learns = |who: &&Contender| {
        scheduler::policy::parse(&who.policy).is_ok_and(|policy| policy.reports().is_some())
    };
    let learners: Vec<Contender> = contenders.iter().filter(learns).cloned().collect();
    let mut places = Vec::new();

    for platform in or(&args.platform, "sdsc") {
        for model in or(&args.model, "default") {
            let generated = generated(args, &platform, &model)?;
            let gain = || {
                generated.knowledge(TRAINING_DAYS, &KONDO_JOBS, &learners, threads(args.threads))
            };
            let knowledge = (!learners.is_empty())
                .then(gain)
                .transpose()
                .map_err(|error| failed(&error))?;
            let source = Box::new(generated);
            places.push(HostSource {
                end_s: None,
                platform: platform.clone(),
                model,
                source,
                knowledge,
            });
        }
    }

    Ok(places)
}

fn recorded(args: &SimulateArgs, dir: &Path) -> Result<HostSource, Failure> {
    let mut trace = Recorded(Trace::read(dir).map_err(|why| unusable(&why))?);
    let platform = match args.platform.as_slice() {
        [] => "trace".to_owned(),
        [name] => name.clone(),
        _ => {
            return Err(Failure::usage(
                "a trace has one platform",
                "give one --platform, or none",
            ));
        }
    };

    if !simulator::platform::Platform::NAMES.contains(&platform.as_str()) && platform != "trace" {
        let clocks_mhz = clocks(Path::new(&platform))?;
        if clocks_mhz.len() != trace.0.hosts.len() {
            let what = format!(
                "{platform} has {} hosts, and the trace {}",
                clocks_mhz.len(),
                trace.0.hosts.len()
            );
            return Err(Failure::usage(
                what,
                "each host of the trace needs one clock rate",
            ));
        }

        for (host, clock_mhz) in trace.0.hosts.iter_mut().zip(clocks_mhz) {
            host.clock_mhz = clock_mhz;
        }
    }

    Ok(HostSource {
        end_s: Some(trace.0.end_s()),
        platform,
        model: String::new(),
        source: Box::new(trace),
        knowledge: None,
    })
}

fn generated(args: &SimulateArgs, platform: &str, model: &str) -> Result<Generated, Failure> {
    if simulator::availability::Model::named(model).is_none() {
        let hint = format!(
            "one of {}",
            simulator::availability::Model::NAMES.join(", ")
        );
        return Err(Failure::usage(
            format!("there is no availability model `{model}`"),
            hint,
        ));
    }

    let named = match simulator::platform::Platform::named(platform) {
        Some(_) => Generated::named(platform, model, args.seed, args.hosts as usize),
        None => Generated::of(clocks(Path::new(platform))?, model, args.seed),
    };
    named.ok_or_else(|| {
        Failure::usage(
            format!("there is no platform `{platform}`"),
            "deskgrid simulate --help",
        )
    })
}

/// Reads the clock rates of a hosts.csv, in MHz.
fn clocks(path: &Path) -> Result<Vec<f64>, Failure> {
    if !path.exists() {
        let what = format!("there is no platform and no file `{}`", path.display());
        let hint = format!(
            "one of {}, or a file with a line host,clock_mhz for each host",
            { simulator::platform::Platform::NAMES.join(", ") }
        );
        return Err(Failure::usage(what, hint));
    }

    let bad = |why: simulator::trace::TraceError| {
        Failure::usage(
            format!("the hosts in {} cannot be used", path.display()),
            "a line host,clock_mhz for each host",
        )
        .because(why)
    };
    simulator::trace::read_clocks_mhz(path).map_err(bad)
}

/// Reads the needs of tasks that simulated hosts can meet.
fn needs(text: &str) -> Result<Needs, Failure> {
    let hint = "simulated hosts have up to 16 processors and 64 GiB: --needs cpus=4,mem=4G";
    let needs = Needs::parse([text]).map_err(|why| Failure::usage(why.to_string(), hint))?;

    let counted = Needs {
        takes: needs.takes,
        ..Needs::default()
    };
    if needs != counted || !OFFICE.can_hold(&needs.takes) {
        let what = format!("no simulated host meets `{text}`");
        return Err(Failure::usage(what, hint));
    }

    Ok(needs)
}

fn jobs(args: &SimulateArgs) -> Result<Vec<JobSize>, Failure> {
    if args.size.iter().any(|size| size.0.is_zero()) {
        return Err(Failure::usage("a task must take some time", "--size 5m"));
    }
    let sizes = |tasks: u32| {
        args.size.iter().map(move |size| JobSize {
            tasks,
            work_s: size.0.as_secs_f64(),
        })
    };
    Ok(args.tasks.iter().flat_map(|tasks| sizes(*tasks)).collect())
}

/// Returns the starts of the jobs, day by day. A replayed trace is one day; where it ends before the
/// business hours do, jobs start in its first half.
fn days(args: &SimulateArgs, end_s: Option<f64>) -> Result<Vec<Day>, Failure> {
    let only = if end_s.is_some() { 0 } else { FIRST_DAY };
    let last_s = end_s.unwrap_or(f64::INFINITY);
    if !args.start.is_empty() {
        let sound = |start_s: &f64| start_s.is_finite() && *start_s >= 0.0;
        if !args.start.iter().all(sound) {
            return Err(Failure::usage(
                "a start is a number of seconds, 0 or more",
                "--start 14400,21600",
            ));
        }
        if let Some(late_s) = args.start.iter().find(|start_s| **start_s >= last_s) {
            return Err(Failure::usage(
                format!(
                    "the trace ends {last_s} s after its start, before a job can start at {late_s} s"
                ),
                format!("--start {}", (last_s / 2.0).floor()),
            ));
        }

        return Ok(vec![Day {
            day: only,
            starts_s: args.start.clone(),
        }]);
    }

    let runs = args.runs as usize;
    if last_s < STARTS_S.1 {
        return Ok(vec![Day::random(
            args.seed,
            only,
            runs,
            (0.0, last_s / 2.0),
        )]);
    }
    let per_day = if end_s.is_some() {
        runs
    } else {
        STARTS_PER_DAY
    };
    Ok(Day::spread(args.seed, only, runs, per_day))
}

/// A span for people.
fn people(seconds: f64) -> String {
    common::Span::from_secs_f64(seconds).to_string()
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

fn row_json(grid: &PolicyGrid<'_>, row: &RunRow, trace: Option<&String>) -> RowJson {
    let Named {
        platform,
        model,
        job,
        policy,
    } = Named::of(grid, row.site, row.job, row.contender);

    RowJson {
        platform: platform.to_owned(),
        trace: trace.cloned(),
        model: trace.is_none().then(|| model.to_owned()),
        day: row.day,
        start_s: row.start_s,
        tasks: job.tasks,
        task_s: job.work_s,
        policy: policy.to_owned(),
        makespan_s: row.makespan_s,
        optimal_s: row.optimal_s,
        ratio: row.ratio(),
        replicas: row.replicas,
        launches: row.launches,
        cpu_s: row.cpu_s,
        cpu_waste: row.cpu_waste(),
        finished: row.makespan_s.is_some(),
    }
}

/// The middle one of the makespans of this contender's runs that finished.
fn median_makespan_s(rows: &[RunRow], summary: &Summary) -> Option<f64> {
    let mut makespans: Vec<f64> = rows
        .iter()
        .filter(|row| Some(row.site) == summary.site && row.contender == summary.contender)
        .filter_map(|row| row.makespan_s)
        .collect();
    makespans.sort_by(f64::total_cmp);
    makespans.get(makespans.len() / 2).copied()
}

fn summary_json(
    grid: &PolicyGrid<'_>,
    rows: &[RunRow],
    summary: &Summary,
    trace: Option<&String>,
) -> SummaryJson {
    let site = &grid.sites[summary.site.unwrap_or(0)];
    SummaryJson {
        platform: site.platform.clone(),
        trace: trace.cloned(),
        model: trace.is_none().then(|| site.model.clone()),
        policy: grid.contenders[summary.contender].label.clone(),
        median_makespan_s: median_makespan_s(rows, summary),
        geo_ratio: finite(summary.geo.value),
        geo_ratio_low: summary.geo.ci.map(|ci| ci.low),
        geo_ratio_high: summary.geo.ci.map(|ci| ci.high),
        worst_ratio: finite(summary.worst),
        mean_replicas: summary.mean_replicas,
        max_replicas: summary.max_replicas,
        cpu_waste: summary.cpu_waste,
        unfinished: summary.unfinished,
    }
}

fn seconds(value: Option<f64>) -> String {
    value.map_or_else(|| "unfinished".to_owned(), |value| format!("{value:.3}"))
}

fn text(answer: &SimulateAnswer, color: bool) -> String {
    let headings = [
        "PLATFORM",
        "MODEL",
        "POLICY",
        "MAKESPAN",
        "TIMES OPTIMAL",
        "95 % INTERVAL",
        "WORST",
        "COPIES",
        "CPU WASTE",
        "UNFINISHED",
    ];
    let mut rows = Rows::new(&headings, color);
    let number =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    for row in &answer.summary {
        let interval = match (row.geo_ratio_low, row.geo_ratio_high) {
            (Some(low), Some(high)) => format!("{low:.3} to {high:.3}"),
            _ => "-".to_owned(),
        };

        rows.add([
            row.platform.clone(),
            row.model
                .clone()
                .or_else(|| row.trace.clone())
                .unwrap_or_default(),
            row.policy.clone(),
            row.median_makespan_s.map_or_else(|| "-".to_owned(), people),
            number(row.geo_ratio),
            interval,
            number(row.worst_ratio),
            format!("{:.1} %", 100.0 * row.mean_replicas),
            format!("{:.1} %", 100.0 * row.cpu_waste),
            row.unfinished.to_string(),
        ]);
    }

    rows.text("no runs") + &of_unfinished(&answer.rows)
}

/// Says below the table why runs have no result, and what to do; empty if all have one.
fn of_unfinished(rows: &[RowJson]) -> String {
    let unfinished: Vec<&RowJson> = rows.iter().filter(|row| !row.finished).collect();
    let latest_s = unfinished.iter().map(|row| row.start_s).fold(0.0, f64::max);
    match unfinished.len() {
        0 => String::new(),
        count => format!(
            "\n{count} of {} runs did not finish before their trace ended; the last of them began {} after its start.\n\
             In TIMES OPTIMAL the trace's end counts as theirs. Fewer or shorter tasks (--tasks, --size), an earlier --start or a longer trace may help.\n",
            rows.len(),
            people(latest_s)
        ),
    }
}
