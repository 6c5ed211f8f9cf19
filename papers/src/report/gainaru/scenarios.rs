//! The numbers behind the report: the paper's four scenarios, sequences learned from a few runs,
//! and requests that move up.

use scheduler::reservation::{
    BadLaw, Family, NamedLaw, RunTimeGrid, RunTimes, Sequence, adaptive_time_optimal, cost_under,
    time_optimal,
};

use super::absent::{self, Absent};
use super::{Real, Study};
use simulator::availability::stream::RandomStream;
use simulator::batch::{Backfill, BatchJob, BatchOutcome, conservative, filled, rounds};
use simulator::experiment::requests::{
    ADAPTIVE_POINTS, JobDraw, JobGroup, RequestRule, RunMean, TIME_POINTS, WidthLaw, each_run,
    learned,
};

/// The laws of the paper's section 5.2, and Table 1's.
pub(super) const LAWS: [(&str, &str); 5] = [
    ("TruncN[0,20]", "truncnorm:0,20,8,2"),
    ("TruncN[6,16]", "truncnorm:6,16,8,2"),
    ("Beta[0,1]", "beta:0,1,2,2"),
    ("Exp[0,16]", "exponential:0,16,1"),
    ("Pareto[1,20]", "pareto:1,20,2.1"),
];
/// The number of processors of the paper's machine.
const PROCESSORS: u32 = 100;
/// The number of Intrepid's nodes.
const INTREPID: u32 = 40_960;
/// Two weeks, in hours.
const WEEKS_H: f64 = 336.0;
/// The rate of small work on Intrepid, per node (Table 2).
const INTREPID_RATE: f64 = 0.21;
const WIDTHS: [(&str, WidthLaw); 4] = [
    ("Full", WidthLaw::Full),
    ("Half", WidthLaw::Half),
    ("TruncN", WidthLaw::Normal),
    ("Beta", WidthLaw::Beta),
];
/// The numbers of past runs that Neuroscience considers in Figure 4.
const HISTORIES: [u32; 8] = [1, 2, 5, 10, 20, 50, 100, 500];
/// The numbers of runs from which sequences are learned.
pub(super) const LESSONS: [u32; 6] = [5, 10, 20, 50, 100, 200];

/// The results of a way to ask or to schedule.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StrategyResults {
    pub(super) who: &'static str,
    pub(super) utilisation: RunMean,
    /// The mean response time, in hours.
    pub(super) response: RunMean,
    /// The mean response time of large jobs, if there are others.
    pub(super) large: RunMean,
}

impl StrategyResults {
    /// Looks up the results of one way among these.
    pub(super) fn of<'a>(cells: &'a [StrategyResults], who: &str) -> Option<&'a StrategyResults> {
        cells.iter().find(|cell| cell.who == who)
    }
}

/// The results of all scenarios.
pub(super) struct ScenarioResults {
    pub(super) table: Vec<(&'static str, Sequence)>,
    /// Scenario 1: law, widths, cells of HPC, Neuroscience, TOptimal, and ours.
    pub(super) first: Vec<(&'static str, &'static str, Vec<StrategyResults>)>,
    /// The cells of Neuroscience by the number of past runs, and those of HPC and TOptimal.
    pub(super) histories: Vec<(u32, StrategyResults)>,
    pub(super) history_peers: Vec<StrategyResults>,
    /// Scenario 2: percentage of small jobs, cells.
    pub(super) second: Vec<(u32, Vec<StrategyResults>)>,
    /// Scenario 3: rate, cells of HPC, TOptimal, ATOptimal.
    pub(super) third: Vec<(f64, Vec<StrategyResults>)>,
    /// Scenario 4: all jobs submitted together.
    pub(super) fourth: Vec<StrategyResults>,
    /// The cells of scenario 4 with jobs submitted over two weeks.
    pub(super) spread: Vec<StrategyResults>,
    /// The cells of scenario 4 where requests move up when a job ends early.
    pub(super) moving_fourth: Vec<StrategyResults>,
    /// The cells of HPC and TOptimal by law, where requests move up.
    pub(super) moving: Vec<(&'static str, Vec<StrategyResults>)>,
    /// The efficiency of sequences learned from each number of runs, by law.
    pub(super) lessons: Vec<(&'static str, Vec<(u32, RunMean)>)>,
    /// The results for owners' absences.
    pub(super) absent: Absent,
    pub(super) real: Option<Real>,
}

impl ScenarioResults {
    pub(super) fn new(
        study: &Study,
        real: Option<Real>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self, BadLaw> {
        say("Table 1");
        let table = table()?;
        say("scenario 1: sequences at submission");

        let first = first(study)?;
        let (histories, history_peers) = histories(study)?;
        say("scenario 2: speculative backfilling");

        let second = second(study)?;
        say("scenario 3: a stream of small work");

        let third = third(study)?;
        say("scenario 4: two weeks on Intrepid");

        let [fourth, spread, moving_fourth] = fourth(study)?;
        say("where limits pay, and what runs teach");

        let moving = moving(study)?;
        let lessons = lessons(study)?;
        say("owners' absences");

        let absent = absent::measure(study)?;
        Ok(ScenarioResults {
            table,
            first,
            histories,
            history_peers,
            second,
            third,
            fourth,
            spread,
            moving_fourth,
            moving,
            lessons,
            absent,
            real,
        })
    }

    /// Looks up a cell of scenario 1.
    pub(super) fn cell(&self, law: &str, widths: &str, who: &str) -> Option<&StrategyResults> {
        let (.., cells) = self
            .first
            .iter()
            .find(|(l, w, _)| *l == law && *w == widths)?;
        StrategyResults::of(cells, who)
    }
}

fn law(text: &str) -> Result<NamedLaw, BadLaw> {
    text.parse()
}

fn table() -> Result<Vec<(&'static str, Sequence)>, BadLaw> {
    let law = law(LAWS[0].1)?;
    let adaptive = |zeta| adaptive_time_optimal(&RunTimeGrid::of(&law, ADAPTIVE_POINTS), zeta);
    Ok(vec![
        ("Classical HPC", time_optimal(&RunTimeGrid::of(&law, 1))),
        (
            "TOptimal",
            time_optimal(&RunTimeGrid::of(&law, TIME_POINTS)),
        ),
        ("ATOptimal (0.1)", adaptive(0.1)),
        ("ATOptimal (0.5)", adaptive(0.5)),
        ("ATOptimal (0.9)", adaptive(0.9)),
    ])
}

/// The measures of one run: utilisation, response, response of large jobs.
type Measures = (f64, f64, f64);

fn measures(outcome: &BatchOutcome, jobs: &[BatchJob], processors: u32) -> Measures {
    let response = outcome.response(jobs);
    (outcome.utilisation(jobs, processors), response, response)
}

/// A way to ask, with its name.
type NamedRequest = (&'static str, RequestRule);

/// Measures each run with its jobs, whose requests are chosen in one way.
fn cell(
    study: &Study,
    draw: &JobDraw<'_>,
    (who, asking): NamedRequest,
    measure: impl Fn(Vec<BatchJob>) -> Measures + Sync,
) -> StrategyResults {
    let measured = each_run(study.threads, study.runs, |run| {
        measure(draw.jobs(asking, run))
    });
    let mean = |of: fn(&Measures) -> f64| RunMean::of(measured.iter().map(of));
    StrategyResults {
        who,
        utilisation: mean(|m| m.0),
        response: mean(|m| m.1),
        large: mean(|m| m.2),
    }
}

/// Returns the jobs of these kinds on the paper's machine, submitted together.
fn together<'a>(study: &Study, kinds: &'a [JobGroup]) -> JobDraw<'a> {
    JobDraw {
        kinds,
        processors: PROCESSORS,
        within: 0.0,
        seed: study.seed,
    }
}

/// Runs one way of asking in rounds.
fn in_rounds(
    study: &Study,
    draw: &JobDraw<'_>,
    asking: NamedRequest,
    backfill: Backfill,
) -> StrategyResults {
    cell(study, draw, asking, |jobs| {
        let outcome = rounds(&jobs, draw.processors, backfill);
        measures(&outcome, &jobs, draw.processors)
    })
}

/// Runs each way of asking in rounds without backfilling.
fn plain(study: &Study, kinds: &[JobGroup], asks: &[NamedRequest]) -> Vec<StrategyResults> {
    let draw = together(study, kinds);
    let one = |asking: &NamedRequest| in_rounds(study, &draw, *asking, Backfill::Nothing);
    asks.iter().map(one).collect()
}

const HPC: NamedRequest = ("HPC", RequestRule::Longest);
const NEURO: NamedRequest = ("Neuroscience", RequestRule::Recent(10));
const TOPT: NamedRequest = ("TOptimal", RequestRule::TimeOptimal);
/// Our way of asking: no law is known, only as many runs as Neuroscience considers.
const OURS: NamedRequest = ("Learned", RequestRule::Learned(10));

type First = Vec<(&'static str, &'static str, Vec<StrategyResults>)>;

fn first(study: &Study) -> Result<First, BadLaw> {
    let mut all = Vec::new();
    for (name, text) in LAWS {
        for (widths_name, widths) in WIDTHS {
            let kinds = [JobGroup::new(law(text)?, widths, 100)];
            all.push((
                name,
                widths_name,
                plain(study, &kinds, &[HPC, NEURO, TOPT, OURS]),
            ));
        }
    }
    Ok(all)
}

type Histories = (Vec<(u32, StrategyResults)>, Vec<StrategyResults>);

fn histories(study: &Study) -> Result<Histories, BadLaw> {
    let kinds = [JobGroup::new(law(LAWS[1].1)?, WidthLaw::Beta, 100)];
    let draw = together(study, &kinds);
    let one = |runs| {
        let asking = ("Neuroscience", RequestRule::Recent(runs));
        (runs, in_rounds(study, &draw, asking, Backfill::Nothing))
    };
    Ok((
        HISTORIES.into_iter().map(one).collect(),
        plain(study, &kinds, &[HPC, TOPT]),
    ))
}

/// The ways to ask and to backfill gaps in scenarios 2 and 4.
type Strategy = (&'static str, RequestRule, Backfill);

fn filling(study: &Study, draw: &JobDraw<'_>, ways: &[Strategy]) -> Vec<StrategyResults> {
    let one =
        |(who, asking, backfill): &Strategy| in_rounds(study, draw, (*who, *asking), *backfill);
    ways.iter().map(one).collect()
}

fn second(study: &Study) -> Result<Vec<(u32, Vec<StrategyResults>)>, BadLaw> {
    let ways = [
        ("HPC, classic", RequestRule::Longest, Backfill::Fitting),
        (
            "HPC, speculative",
            RequestRule::Longest,
            Backfill::Speculative,
        ),
        (
            "TOptimal, classic",
            RequestRule::TimeOptimal,
            Backfill::Fitting,
        ),
        (
            "TOptimal, speculative",
            RequestRule::TimeOptimal,
            Backfill::Speculative,
        ),
    ];

    let steps: &[u32] = if study.quick {
        &[0, 25, 50, 75, 100]
    } else {
        &[0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    };

    let large = law("truncnorm:1,8,4,2")?;
    let short = law("truncnorm:0,4,1,1")?;
    let one = |percent: &u32| {
        let small = 2 * *percent as usize;
        let kinds = [
            JobGroup::new(large, WidthLaw::Beta, 200 - small),
            JobGroup::new(short, WidthLaw::Beta, small),
        ];
        (*percent, filling(study, &together(study, &kinds), &ways))
    };
    Ok(steps.iter().map(one).collect())
}

fn third(study: &Study) -> Result<Vec<(f64, Vec<StrategyResults>)>, BadLaw> {
    let large = law("truncnorm:1,20,8,2")?;
    // Small jobs have one processor and take a hundredth of a large one's time.
    let small = large.mean() / 100.0;
    let kinds = [JobGroup::new(large, WidthLaw::Beta, 100)];
    let draw = together(study, &kinds);

    let one = |tenths: u32| {
        let zeta = f64::from(tenths) / 10.0;
        let rate = zeta * f64::from(PROCESSORS);
        let measure = |jobs: Vec<BatchJob>| {
            let outcome = rounds(&jobs, PROCESSORS, Backfill::Nothing);
            let stream = filled(&outcome, PROCESSORS, rate);
            let work: f64 = jobs
                .iter()
                .map(|job| f64::from(job.processors) * job.run)
                .sum();
            let large = outcome.response(&jobs);
            let many = stream.work / small;

            let few = jobs.len() as f64;
            let all = (large * few + (stream.wait + small) * many) / (few + many);
            (
                (work + stream.work) / (f64::from(PROCESSORS) * stream.end),
                all,
                large,
            )
        };

        let ways = [HPC, TOPT, ("ATOptimal", RequestRule::Adaptive(zeta))];
        (
            zeta,
            ways.map(|asking| cell(study, &draw, asking, measure))
                .to_vec(),
        )
    };
    Ok((1..=9).map(one).collect())
}

/// The paper's Table 3: three applications, in hours.
fn applications() -> Result<[JobGroup; 3], BadLaw> {
    let minutes = |minutes: f64| minutes / 60.0;
    let fsl = Family::TruncatedNormal {
        mean: minutes(20.0),
        sd: minutes(8.0),
    };

    Ok([
        JobGroup::new(law("truncnorm:11,31,20,8")?, WidthLaw::Beta, 10),
        JobGroup::new(law("truncnorm:1.5,3,1.7,0.5")?, WidthLaw::Beta, 90),
        JobGroup::new(
            NamedLaw::new(fsl, minutes(10.0), minutes(35.0))?,
            WidthLaw::Beta,
            300,
        ),
    ])
}

fn fourth(study: &Study) -> Result<[Vec<StrategyResults>; 3], BadLaw> {
    let kinds = applications()?;
    let draw = JobDraw {
        processors: INTREPID,
        ..together(study, &kinds)
    };
    let spread = JobDraw {
        within: WEEKS_H,
        ..draw.clone()
    };
    let adaptive = RequestRule::Adaptive(INTREPID_RATE);
    let ways = [
        ("HPC, classic", RequestRule::Longest, Backfill::Fitting),
        (
            "HPC, speculative",
            RequestRule::Longest,
            Backfill::Speculative,
        ),
        ("ATOptimal, classic", adaptive, Backfill::Fitting),
        ("ATOptimal, speculative", adaptive, Backfill::Speculative),
    ];

    let moved = [HPC, ("ATOptimal", adaptive)]
        .map(|asking| moving_up(study, &draw, asking))
        .to_vec();
    Ok([
        filling(study, &draw, &ways),
        filling(study, &spread, &ways),
        moved,
    ])
}

/// Runs one way of asking with conservative backfilling, the largest requests first: all requests
/// move up when a job ends early.
fn moving_up(study: &Study, draw: &JobDraw<'_>, asking: NamedRequest) -> StrategyResults {
    cell(study, draw, asking, |mut jobs| {
        let size = |job: &BatchJob| f64::from(job.processors) * job.limit(0);
        jobs.sort_by(|a, b| {
            a.submit
                .total_cmp(&b.submit)
                .then(size(b).total_cmp(&size(a)))
        });

        let outcome = conservative(&jobs, draw.processors);
        measures(&outcome, &jobs, draw.processors)
    })
}

fn moving(study: &Study) -> Result<Vec<(&'static str, Vec<StrategyResults>)>, BadLaw> {
    let one = |(name, text): (&'static str, &str)| {
        let kinds = [JobGroup::new(law(text)?, WidthLaw::Beta, 100)];
        let draw = together(study, &kinds);
        Ok((
            name,
            [HPC, TOPT]
                .map(|asking| moving_up(study, &draw, asking))
                .to_vec(),
        ))
    };
    LAWS.into_iter().map(one).collect()
}

type LessonRows = Vec<(&'static str, Vec<(u32, RunMean)>)>;

fn lessons(study: &Study) -> Result<LessonRows, BadLaw> {
    // Each run stands for several sequences, each learned from its own past runs.
    let pupils = study.runs * if study.quick { 5 } else { 20 };
    let one = |(name, text): (&'static str, &str)| {
        let law = law(text)?;
        let best = time_optimal(&RunTimeGrid::of(&law, TIME_POINTS)).cost;
        let taught = |runs: u32| {
            let efficiencies = each_run(study.threads, pupils, |pupil| {
                let mut stream = RandomStream::new("batch lesson", study.seed, runs, pupil);
                best / cost_under(&learned(&law, runs, &mut stream), &law)
            });
            (runs, RunMean::of(efficiencies))
        };
        Ok((name, LESSONS.map(taught).to_vec()))
    };
    LAWS.into_iter().map(one).collect()
}
