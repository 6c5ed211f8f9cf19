//! Reproduces Kondo, Chien and Casanova, "Resource Management for Rapid Application Turnaround on
//! Enterprise Desktop Grids" (SC 2004): every heuristic on every platform with every size of job,
//! and this project's policies beside them. The simulation lives in `world` and `experiment`.

mod claims;
mod figures;
mod reference;
mod table;
mod text;

use reference::{
    CONTENDERS, ENTERPRISE, EQUAL, LATER_PLATFORMS, OURS, OURS_KEPT, PLATFORMS, TIMEOUT,
};
use table::ComparisonTable;

use super::{Brief, File};
use simulator::availability::Model;
use simulator::experiment::rows::{rows_csv, summary_csv};
use simulator::experiment::{
    Contender, Day, DaySource, FIRST_DAY, Generated, GridError, HOSTS, JobSize, KONDO_JOBS,
    Knowledge, Measurement, PolicyGrid, Site, SourceError, TRAINING_DAYS,
};
use simulator::figure::Figure;
use simulator::world::{PreparedTrace, Run, RunOutcome, Simulator};

/// The budgets of copies in the frontier, in copies per task.
const BUDGETS: [&str; 7] = ["0", "0.02", "0.05", "0.1", "0.15", "0.3", "100"];
/// The budgets of a quick report.
const FEW_BUDGETS: [&str; 3] = ["0", "0.05", "0.15"];

/// The size of a report: [`Study::full`] or [`Study::quick`].
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// The seed of everything random.
    pub seed: u64,
    /// The number of threads; the report is the same on any number.
    pub threads: usize,
    /// The number of starts of each cell of the main table.
    pub runs: usize,
    /// The number of starts of each cell of the other tables.
    pub side_runs: usize,
    /// The number of starts on one day.
    pub per_day: usize,
    /// The number of days from which schedulers learn.
    pub training_days: u32,
    /// The number of hosts of each platform.
    pub hosts: usize,
    /// The sizes of jobs.
    pub jobs: Vec<JobSize>,
    /// Whether the side tables are shortened.
    pub quick: bool,
}

impl Study {
    /// Returns the study of this size.
    pub fn of(brief: &Brief) -> Self {
        let study = brief.study(Study::quick, Study::full);
        Study {
            runs: brief.runs.map_or(study.runs, |runs| runs as usize),
            side_runs: brief
                .runs
                .map_or(study.side_runs, |runs| study.side_runs.min(runs as usize)),
            ..study
        }
    }

    /// The full report: more than a hundred starts of each cell, like the paper.
    pub fn full(seed: u64, threads: usize) -> Self {
        Study {
            seed,
            threads,
            runs: 120,
            side_runs: 24,
            per_day: 6,
            training_days: TRAINING_DAYS,
            hosts: HOSTS,
            jobs: KONDO_JOBS.to_vec(),
            quick: false,
        }
    }

    /// A shortened report.
    pub fn quick(seed: u64, threads: usize) -> Self {
        Study {
            runs: 12,
            side_runs: 2,
            per_day: 2,
            training_days: 4,
            quick: true,
            ..Study::full(seed, threads)
        }
    }
}

/// The results on which the report is based.
struct KondoResults {
    study: Study,
    main: ComparisonTable,
    /// The readings of EXCL-PRED-DUP with as many copies as EXCL-PRED-TO makes, by job.
    equal: Vec<Measurement>,
    later: ComparisonTable,
    /// The table of each other availability model.
    models: Vec<ComparisonTable>,
    /// The points of the frontier: budget of copies, copies made, geometric mean, and worst cell.
    frontier: Vec<(String, f64, f64, f64)>,
}

/// Makes the report's files. `say` hears the name of each step.
///
/// # Errors
/// If the scheduler refuses a job.
pub fn reproduce(study: &Study, say: &mut dyn FnMut(&str)) -> Result<Vec<File>, GridError> {
    let contenders: Vec<Contender> = CONTENDERS
        .iter()
        .map(|(label, policy, kept)| named(label, policy, *kept))
        .collect();
    let ours: Vec<Contender> = ["FCFS", "PRI-CR", TIMEOUT, OURS]
        .map(Contender::named)
        .to_vec();
    say("the paper's platforms");

    let mut files = Vec::new();
    let main = compare(
        study,
        &PLATFORMS,
        "default",
        &contenders,
        study.runs,
        Some(&mut files),
    )?;

    say("equal copies");
    let equal = equal_copies(study, &main)?;
    say("later platforms");

    let later = compare(
        study,
        &LATER_PLATFORMS,
        "default",
        &ours,
        study.side_runs,
        None,
    )?;

    let mut models = Vec::new();
    for model in Model::NAMES.iter().skip(1) {
        say(&format!("the availability model {model}"));
        models.push(compare(
            study,
            &["sdsc", "lri-wisc"],
            model,
            &ours[1..],
            study.side_runs,
            None,
        )?);
    }

    say("copies and what they bring");
    let frontier = frontier(study)?;
    say("figures");

    let mut drawn = figures::bars(&main, &equal);
    drawn.extend(curves(study)?);
    drawn.push(figures::clocks(study.seed));
    drawn.push(figures::frontier(
        &frontier
            .iter()
            .map(|(_, copies, geo, _)| (*copies, *geo))
            .collect::<Vec<_>>(),
    ));

    drawn.sort_by(|a, b| a.name.cmp(&b.name));
    let findings = KondoResults {
        study: study.clone(),
        main,
        equal,
        later,
        models,
        frontier,
    };
    files.push(File::new("report.md", text::report(&findings, &drawn)));
    files.extend(super::drawn(&drawn));

    Ok(files)
}

fn named(label: &str, policy: &str, kept: bool) -> Contender {
    Contender {
        label: label.to_owned(),
        policy: policy.to_owned(),
        checkpoint: kept,
    }
}

fn generated(study: &Study, platform: &str, model: &str) -> Result<Generated, GridError> {
    let missing = || GridError::Source {
        day: FIRST_DAY,
        site: format!("{platform} ({model})"),
        why: SourceError("there is no platform or no model of this name".to_owned()),
    };
    Generated::named(platform, model, study.seed, study.hosts).ok_or_else(missing)
}

/// Runs every contender with every size of job on these platforms. Adds rows and summaries to
/// `files`, if given.
fn compare(
    study: &Study,
    platforms: &[&str],
    model: &str,
    contenders: &[Contender],
    runs: usize,
    files: Option<&mut Vec<File>>,
) -> Result<ComparisonTable, GridError> {
    let sources: Vec<Generated> = platforms
        .iter()
        .map(|name| generated(study, name, model))
        .collect::<Result<_, _>>()?;
    let learners: Vec<Contender> = contenders
        .iter()
        .filter(|who| learns(who))
        .cloned()
        .collect();
    let learn = |source: &Generated| {
        source.knowledge(study.training_days, &study.jobs, &learners, study.threads)
    };
    let known: Vec<Knowledge> = sources.iter().map(learn).collect::<Result<_, _>>()?;
    let parts = platforms.iter().zip(sources.iter().zip(&known));
    let sites = parts.map(|(platform, (source, knowledge))| Site {
        platform: String::from(*platform),
        model: model.to_owned(),
        source: source as &dyn DaySource,
        knowledge: Some(knowledge),
    });
    let grid = PolicyGrid {
        sites: sites.collect(),
        jobs: study.jobs.clone(),
        contenders: contenders.to_vec(),
        days: Day::spread(study.seed, FIRST_DAY, runs, study.per_day),
        needs: None,
        foretell: true,
        seed: study.seed,
        threads: study.threads,
    };

    let table = ComparisonTable::new(&grid, grid.rows()?);
    if let Some(files) = files {
        files.push(File::new("rows.csv", rows_csv(&grid, &table.rows)));
        let summaries = summary_csv(&grid, &table.summaries);
        files.push(File::new("summary.csv", summaries));
    }

    Ok(table)
}

/// The readings of EXCL-PRED-DUP* in the paper's Figure 11: for each job, EXCL-PRED-DUP with no
/// more copies than EXCL-PRED-TO made.
fn equal_copies(study: &Study, main: &ComparisonTable) -> Result<Vec<Measurement>, GridError> {
    let Some(site) = main.site(ENTERPRISE) else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    for (number, job) in study.jobs.iter().enumerate() {
        let copies = main
            .reading(site, TIMEOUT, number)
            .map_or(0.0, |cell| cell.replicas);
        let who = named(EQUAL, &format!("EXCL-PRED-DUP:copies_max={copies}"), false);
        let study = Study {
            jobs: vec![*job],
            ..study.clone()
        };
        let table = compare(&study, &[ENTERPRISE], "default", &[who], study.runs, None)?;
        all.extend(table.readings.into_iter().map(|cell| Measurement {
            job: number,
            ..cell
        }));
    }

    Ok(all)
}

/// Whether a contender's own past matters: to its decisions, or to the reported predictions.
fn learns(who: &Contender) -> bool {
    COVERED.contains(&&*who.label)
        || scheduler::policy::parse(&who.policy).is_ok_and(|row| row.reports().is_some())
}

/// The results of `deskgrid` with each budget of copies, over all platforms.
fn frontier(study: &Study) -> Result<Vec<(String, f64, f64, f64)>, GridError> {
    let budgets: &[&str] = if study.quick { &FEW_BUDGETS } else { &BUDGETS };
    let policy = |budget: &&str| named(budget, &format!("{OURS}:copies_max={budget}"), false);
    let contenders: Vec<Contender> = budgets.iter().map(policy).collect();
    let platforms: &[&str] = if study.quick {
        &PLATFORMS[..1]
    } else {
        &PLATFORMS
    };
    let table = compare(
        study,
        platforms,
        "default",
        &contenders,
        study.side_runs,
        None,
    )?;
    let point = |budget: &&str| {
        let all = table.summary(None, budget)?;
        Some((
            String::from(*budget),
            all.mean_replicas,
            all.geo.value,
            all.worst,
        ))
    };

    Ok(budgets.iter().filter_map(point).collect())
}

/// Figures 1 and 4, from single runs on the first day.
fn curves(study: &Study) -> Result<[Figure; 2], GridError> {
    let source = generated(study, "sdsc", "default")?;
    let missing = |why| GridError::Source {
        day: FIRST_DAY,
        site: "sdsc".into(),
        why,
    };
    let day = source.day(FIRST_DAY).map_err(missing)?;
    let world = PreparedTrace::new(&day).map_err(GridError::Clock)?;
    let start_s = Day::spread(study.seed, FIRST_DAY, 1, 1)
        .first()
        .map_or(0.0, |day| day.starts_s[0]);
    let mut simulator = Simulator::default();
    let mut one = |policy: &str, tasks| -> Result<RunOutcome, GridError> {
        let run = Run {
            story: true,
            shuffle: Some(study.seed),
            ..Run::new(start_s, tasks, 900.0, policy)
        };
        simulator.run(&world, &run).map_err(|why| GridError::Run {
            policy: policy.to_owned(),
            why,
        })
    };
    let fcfs = [
        (100, one("FCFS", 100)?),
        (200, one("FCFS", 200)?),
        (400, one("FCFS", 400)?),
    ];

    let pri = one("PRI-CR", 400)?;
    Ok([
        figures::completions(&fcfs),
        figures::queue(&world, start_s, 400, &pri),
    ])
}

/// The coverage of the 80 % intervals of a contender's predictions at each stage: predictions that
/// held, and all.
fn coverage(table: &ComparisonTable, label: &str) -> [(usize, usize); 3] {
    let contender = table.contender(label);
    let rows = table
        .rows
        .iter()
        .filter(|row| Some(row.contender) == contender);
    let mut counts = [(0, 0); 3];

    for row in rows {
        for (count, foretold) in counts.iter_mut().zip(row.foretold) {
            if let (Some(foretold), Some(makespan_s)) = (foretold, row.makespan_s) {
                count.0 += usize::from((foretold.low_s..=foretold.high_s).contains(&makespan_s));
                count.1 += 1;
            }
        }
    }

    counts
}

/// The contenders for whose predictions the report shows the `coverage`.
const COVERED: [&str; 4] = ["FCFS", TIMEOUT, OURS, OURS_KEPT];
