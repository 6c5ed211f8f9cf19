//! Executes `deskgrid simulate`: runs jobs on simulated grids, under any policy. The simulation
//! lives in `simulator`.

use std::path::Path;
use std::thread::available_parallelism;

use common::needs::Needs;
use scheduler::policy::Width;
use serde::Serialize;
use simulator::availability::{DAY_ENDS_S, Model};
use simulator::experiment::rows::{Named, rows_csv, summary_csv};
use simulator::experiment::{
    Contender, Day, DaySource, FIRST_DAY, Generated, GridError, HOSTS, JobSize, KONDO_JOBS,
    Knowledge, PolicyGrid, Recorded, RunRow, Site, Summary, TRAINING_DAYS, summarize,
};
use simulator::platform::Platform;
use simulator::platform::sizes::OFFICE;
use simulator::trace::Trace;

use super::Context;
use super::trace::{unknown, unusable};
use crate::args::OutputMode;
use crate::args::simulate::SimulateArgs;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::output::note;
use crate::output::table::Rows;
use crate::submit::nearest;

/// The number of starts on each generated day.
const STARTS_PER_DAY: usize = 6;
/// The time that is left after the last start in a trace, in seconds; in a shorter trace than twice
/// this, half of it.
const ROOM_S: f64 = 86_400.0;
/// The names of the files that `--out` takes.
const ROWS: &str = "rows.csv";
const SUMMARY: &str = "summary.csv";
/// The name of the optimal schedule in the list of policies.
const OPTIMAL: &str = "OPTIMAL";

/// The note below the table where tasks checkpoint.
const OF_CHECKPOINTS: &str = "\nOPTIMAL is of tasks that begin anew after an outage, and with --checkpoint they go on: a policy may take less time, and TIMES OPTIMAL be below 1.\n";

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
    /// The end of the trace, or of each generated day, in seconds since its start.
    end_s: f64,
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
    if let Some(out) = &args.out {
        make_ready(context, out, args.force)?;
    }
    let places = places(args, &contenders)?;
    let end_s = places
        .iter()
        .map(|place| place.end_s)
        .fold(f64::INFINITY, f64::min);
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
    let text = || {
        let note = if args.checkpoint { OF_CHECKPOINTS } else { "" };
        text(&answer, context.out.color()) + note
    };
    let shown = context.show(&answer, text, || {
        answer
            .rows
            .iter()
            .map(|row| seconds(row.makespan_s))
            .collect()
    });
    // Only now: where the files cannot be written, hours of work are not lost with them.
    if let Some(out) = &args.out {
        files::write_into(out, args.force, |out| {
            write(&out.join(ROWS), &rows_csv(&grid, &rows))?;
            write(&out.join(SUMMARY), &summary_csv(&grid, &summaries))
        })?;
    }
    shown?;

    let none = answer.rows.iter().all(|row| !row.finished);
    Ok(if none { Exit::Error } else { Exit::Well })
}

/// Finds before the work what would keep its files from being written after it, and says what they may meet.
fn make_ready(context: &Context, out: &Path, force: bool) -> Result<(), Failure> {
    let there = files::ready_for(out, force, &[ROWS, SUMMARY])?;
    if force || context.out.mode() != OutputMode::Cli {
        return Ok(());
    }

    for path in there {
        note(&format!(
            "note: {} is there already, and stays as it is if something else comes out; --force replaces it",
            path.display()
        ));
    }
    Ok(())
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
        GridError::Source { .. } | GridError::Clock(_) => Failure::usage(
            error.to_string(),
            "correct the trace, or choose another one",
        ),
        GridError::Run { .. } => Failure::usage(error.to_string(), "deskgrid policy list"),
    }
}

/// Writes one output file.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| Failure::cannot("write", path, &error))
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
                end_s: DAY_ENDS_S,
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

    if !Platform::NAMES.contains(&platform.as_str()) && platform != "trace" {
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
        end_s: trace.0.end_s(),
        platform,
        model: String::new(),
        source: Box::new(trace),
        knowledge: None,
    })
}

fn generated(args: &SimulateArgs, platform: &str, model: &str) -> Result<Generated, Failure> {
    if Model::named(model).is_none() {
        return Err(unknown("availability model", model, &Model::NAMES));
    }

    let named = match Platform::named(platform) {
        Some(_) => {
            let hosts = args.hosts.map_or(HOSTS, |hosts| hosts as usize);
            Generated::named(platform, model, args.seed, hosts)
        }
        None => {
            let clocks_mhz = clocks(Path::new(platform))?;
            if args.hosts.is_some() {
                return Err(Failure::usage(
                    format!("{platform} says how many hosts there are"),
                    "leave --hosts out, or name a platform",
                ));
            }
            Generated::of(clocks_mhz, model, args.seed)
        }
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
        let names = Platform::NAMES.join(", ");
        let hint = format!("one of {names}, or a file with a line host,clock_mhz for each host");
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

/// Returns the starts of the jobs, day by day: in business hours of generated days, or over a whole
/// trace, which is one day, except where too little of it would follow. `end_s` is the end of the
/// trace, or of each generated day.
fn days(args: &SimulateArgs, end_s: f64) -> Result<Vec<Day>, Failure> {
    let replayed = args.trace.is_some();
    let first = if replayed { 0 } else { FIRST_DAY };
    if !args.start.is_empty() {
        check_starts(&args.start, end_s, replayed)?;
        return Ok(vec![Day {
            day: first,
            starts_s: args.start.clone(),
        }]);
    }

    let runs = args.runs as usize;
    if !replayed {
        return Ok(Day::spread(args.seed, first, runs, STARTS_PER_DAY));
    }
    let latest_s = (end_s / 2.0).max(end_s - ROOM_S);
    Ok(vec![Day::random(args.seed, first, runs, (0.0, latest_s))])
}

/// Refuses starts before the beginning and after the end of what is simulated.
fn check_starts(starts_s: &[f64], end_s: f64, replayed: bool) -> Result<(), Failure> {
    let sound = |start_s: &f64| start_s.is_finite() && *start_s >= 0.0;
    if !starts_s.iter().all(sound) {
        return Err(Failure::usage(
            "a start is a number of seconds, 0 or more",
            "--start 14400,21600",
        ));
    }

    let Some(late_s) = starts_s.iter().find(|start_s| **start_s >= end_s) else {
        return Ok(());
    };
    let what = if replayed {
        "the trace"
    } else {
        "a generated day"
    };
    Err(Failure::usage(
        format!("{what} ends {end_s} s after its start, before a job can start at {late_s} s"),
        format!("--start {}", (end_s / 2.0).floor()),
    ))
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

/// The median of the makespans of this contender's runs; `None` if so many did not finish that it is
/// not known.
fn median_makespan_s(rows: &[RunRow], summary: &Summary) -> Option<f64> {
    let mut makespans: Vec<f64> = rows
        .iter()
        .filter(|row| Some(row.site) == summary.site && row.contender == summary.contender)
        .map(|row| row.makespan_s.unwrap_or(f64::INFINITY))
        .collect();
    makespans.sort_by(f64::total_cmp);

    let middle = |at: usize| makespans.get(at).copied();
    let upper = middle(makespans.len() / 2)?;
    let lower = middle(makespans.len().saturating_sub(1) / 2)?;
    finite(f64::midpoint(lower, upper))
}

fn summary_json(
    grid: &PolicyGrid<'_>,
    rows: &[RunRow],
    summary: &Summary,
    trace: Option<&String>,
) -> SummaryJson {
    let site = &grid.sites[summary.site.unwrap_or(0)];
    let own = |row: &&RunRow| Some(row.site) == summary.site && row.contender == summary.contender;
    let mut done = rows.iter().filter(own).map(|row| row.makespan_s.is_some());
    // Where no run was done in time their ratios are of the trace's end, which is the same for all.
    let any = done.any(|done| done);
    let ratio = |value: f64| finite(value).filter(|_| any);
    SummaryJson {
        platform: site.platform.clone(),
        trace: trace.cloned(),
        model: trace.is_none().then(|| site.model.clone()),
        policy: grid.contenders[summary.contender].label.clone(),
        median_makespan_s: median_makespan_s(rows, summary),
        geo_ratio: ratio(summary.geo.value),
        geo_ratio_low: summary.geo.ci.and_then(|ci| ratio(ci.low)),
        geo_ratio_high: summary.geo.ci.and_then(|ci| ratio(ci.high)),
        worst_ratio: ratio(summary.worst),
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
    let number =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    let row = |row: &SummaryJson| {
        let interval = match (row.geo_ratio_low, row.geo_ratio_high) {
            (Some(low), Some(high)) => format!("{low:.3} to {high:.3}"),
            _ => "-".to_owned(),
        };
        let model = row.model.clone().or_else(|| row.trace.clone());
        let makespan = row.median_makespan_s.map(people);
        [
            ("PLATFORM", row.platform.clone()),
            ("MODEL", model.unwrap_or_default()),
            ("POLICY", row.policy.clone()),
            ("MAKESPAN", makespan.unwrap_or_else(|| "-".to_owned())),
            ("TIMES OPTIMAL", number(row.geo_ratio)),
            ("95 % INTERVAL", interval),
            ("WORST", number(row.worst_ratio)),
            ("COPIES", format!("{:.1} %", 100.0 * row.mean_replicas)),
            ("CPU WASTE", format!("{:.1} %", 100.0 * row.cpu_waste)),
            ("UNFINISHED", row.unfinished.to_string()),
        ]
    };

    let rows = Rows::of(answer.summary.iter().map(row), color);
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
             In TIMES OPTIMAL the trace's end counts as theirs, where other runs of the row did finish. Fewer or shorter tasks (--tasks, --size), an earlier --start or a longer trace may help.\n",
            rows.len(),
            people(latest_s)
        ),
    }
}
