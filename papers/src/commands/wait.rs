//! Executes `deskgrid-lab predict wait` and `deskgrid-lab predict width`: predicts for a state in a
//! file when a number of hosts will be free at once, and the number that a job should wait for. The
//! predictors live in `scheduler::malleable`.

use std::path::Path;

use cli::terminal::{Exit, Failure, OutputForm, PredictedWait, Rows, WaitInterval, show_wait};
use scheduler::malleable::{Bias, HostHolder, MachineState, Malleable, Speedup, UniformLog};
use scheduler::policy::width::{Soonest, Width, WidthOption, WidthQuestion};
use serde::{Deserialize, Serialize};
use simulator::batch::HELD;

use crate::args::{StateArgs, WidthArgs};

/// The default distribution of lifetimes: uniform-log from e^2 to e^12 seconds.
const LAW: (f64, f64) = (-0.2, 0.1);
/// The most hosts in a file, so that no answer takes long.
const HOSTS: u32 = 1_000_000;

/// A state of the machine, read from a file. Unknown fields are ignored.
#[derive(Debug, Deserialize)]
struct MachineFile {
    /// The distribution of lifetimes: F(t) = b0 + b1 ln t.
    b0: Option<f64>,
    b1: Option<f64>,
    /// The running jobs: the seconds so far, and the number of hosts, of each.
    jobs: Vec<(f64, u32)>,
    /// The number of free hosts.
    #[serde(default)]
    free: u32,
    /// The number of hosts needed beyond the free ones.
    need: Option<u32>,
    /// The number of hosts needed altogether.
    width: Option<u32>,
    /// The job whose width is asked for: seconds on one host (`work_s`), average parallelism, its
    /// variance (`sigma`), and the number of jobs that wait behind it.
    #[serde(rename = "L")]
    work_s: Option<f64>,
    #[serde(rename = "A")]
    parallelism: Option<f64>,
    sigma: Option<f64>,
    #[serde(default)]
    behind: u32,
}

#[derive(Serialize)]
struct WidthJson {
    policy: String,
    n_star: u32,
    q_star: f64,
    r_free: Option<f64>,
    total: f64,
    ways: Vec<WayJson>,
}

#[derive(Serialize)]
struct WayJson {
    hosts: u32,
    wait_s: f64,
    run_s: f64,
    total_s: f64,
}

/// Prints when so many hosts will be free, by the state in a file.
pub(super) fn wait(out: &OutputForm, args: &StateArgs) -> Result<Exit, Failure> {
    let answer = of_file(&args.state, args.width)?;
    show_wait(answer, out, &args.work)?;
    Ok(Exit::Well)
}

fn of_file(file: &Path, width: Option<u32>) -> Result<PredictedWait, Failure> {
    let state = MachineFile::read(file)?;
    let law = state.law(file)?;
    let machine = state.machine(&law);
    let wanted = width
        .or(state.width)
        .or(state.need.map(|need| need.saturating_add(state.free)));
    let wanted = wanted.ok_or_else(|| {
        let what = format!("{} does not say how many hosts are needed", file.display());
        Failure::usage(
            what,
            "give --width N, or a field \"need\" (more than are free) or \"width\" (altogether)",
        )
    })?;
    let wait = machine.wait(wanted);

    let edge = |part: f64| machine.quantile_s(wanted, part);
    Ok(PredictedWait {
        width: wanted,
        need: wanted.saturating_sub(state.free),
        free: state.free,
        hosts: machine.hosts(),
        benefactors: wait.benefactors,
        median_s: wait.median_s,
        mean_s: wait.mean_s,
        used: wait.used_s,
        interval: WaitInterval {
            held: HELD,
            low: edge((1.0 - HELD) / 2.0),
            median: edge(0.5),
            high: edge((1.0 + HELD) / 2.0),
        },
        run_s: None,
        total_s: None,
    })
}

/// Prints the number of hosts that a job should wait for.
pub(super) fn width(out: &OutputForm, args: &WidthArgs) -> Result<Exit, Failure> {
    let state = MachineFile::read(&args.state)?;
    let law = state.law(&args.state)?;
    let machine = state.machine(&law);
    let job = state.job(&args.state)?;
    let rule = rule(&args.policy)?;
    let bias = Bias::default();
    let question = WidthQuestion {
        job: &job,
        least: 1,
        most: job.most().min(machine.hosts()),
        free: state.free,
        behind: state.behind,
        now_s: 0.0,
        held: None,
        bias: &bias,
    };
    let ways = rule.ways(&question, &|least, most| machine.waits_s(least, most));
    let best = rule.best(&question, &ways).copied().ok_or_else(|| {
        let what = format!(
            "{} tells of no host that is or will be free",
            args.state.display()
        );
        Failure::usage(what, "give \"free\" hosts, or \"jobs\" whose hosts will be")
    })?;

    let way = |way: &WidthOption| WayJson {
        hosts: way.hosts,
        wait_s: way.wait_s,
        run_s: way.run_s,
        total_s: way.total_s(),
    };

    let free = state.free.min(question.most);
    let answer = WidthJson {
        policy: args.policy.clone(),
        n_star: best.hosts,
        q_star: best.wait_s,
        r_free: (free > 0).then(|| job.run_s(free)),
        total: best.total_s(),
        ways: ways.iter().map(way).collect(),
    };
    out.show(
        &answer,
        || width_text(&answer, out.color()),
        || vec![answer.n_star.to_string()],
    )?;

    Ok(Exit::Well)
}

fn rule(policy: &str) -> Result<Soonest, Failure> {
    let row = scheduler::policy::parse(policy)
        .map_err(|why| Failure::usage(why.to_string(), "deskgrid policy list"))?;
    match row.width {
        Width::Soonest(rule) => Ok(rule),
        _ => {
            let what = format!(
                "{} does not choose among numbers of hosts by prediction",
                row.name
            );
            let names = scheduler::policy::names(|row| matches!(row.width, Width::Soonest(_)));
            Err(Failure::usage(what, format!("{names}: they do")))
        }
    }
}

fn width_text(answer: &WidthJson, color: bool) -> String {
    let mut rows = Rows::new(&["HOSTS", "WAIT", "RUN", "DONE IN", ""], color);
    for way in &answer.ways {
        let chosen = if way.hosts == answer.n_star {
            "chosen"
        } else {
            ""
        };

        let said = |time_s: f64| format!("{time_s:.1} s");
        rows.add([
            way.hosts.to_string(),
            said(way.wait_s),
            said(way.run_s),
            said(way.total_s),
            chosen.to_owned(),
        ]);
    }

    rows.text("no way to run")
}

impl MachineFile {
    fn read(file: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(file).map_err(|error| {
            Failure::unreadable(format!("cannot read {}", file.display()), &error)
        })?;
        let hint = r#"{"jobs": [[AGE_S, HOSTS], ...], "free": N, "need": N}; see deskgrid-lab predict wait --help"#;
        let state: MachineFile = serde_json::from_str(&text).map_err(|error| {
            Failure::usage(
                format!("{} tells of no state of the machine", file.display()),
                hint,
            )
            .because(error)
        })?;
        let hosts = state
            .jobs
            .iter()
            .fold(state.free, |sum, job| sum.saturating_add(job.1));

        let old = state
            .jobs
            .iter()
            .position(|(age_s, _)| !(age_s.is_finite() && *age_s >= 0.0));
        if let Some(at) = old {
            let what = format!(
                "{}: job {} has run for {} s",
                file.display(),
                at + 1,
                state.jobs[at].0
            );
            return Err(Failure::usage(what, "ages are seconds, not negative"));
        }

        if hosts > HOSTS
            || state
                .need
                .max(state.width)
                .is_some_and(|wanted| wanted > HOSTS)
        {
            let what = format!("{} tells of more than {HOSTS} hosts", file.display());
            return Err(Failure::usage(what, "give fewer"));
        }
        Ok(state)
    }

    fn law(&self, file: &Path) -> Result<UniformLog, Failure> {
        let b0 = self.b0.unwrap_or(LAW.0);
        let b1 = self.b1.unwrap_or(LAW.1);
        UniformLog::new(b0, b1).ok_or_else(|| {
            let what = format!(
                "{}: b0 = {b0} and b1 = {b1} are no law of lifetimes",
                file.display()
            );
            Failure::usage(what, "F(t) = b0 + b1 ln t must rise: b1 above 0")
        })
    }

    fn machine<'a>(&self, law: &'a UniformLog) -> MachineState<'a> {
        let unit = |(age_s, hosts): &(f64, u32)| HostHolder {
            hosts: *hosts,
            age_s: *age_s,
            law,
        };
        MachineState::new(self.free, self.jobs.iter().map(unit).collect())
    }

    fn job(&self, file: &Path) -> Result<Malleable, Failure> {
        let told = self
            .work_s
            .filter(|work_s| work_s.is_finite() && *work_s > 0.0)
            .zip(self.parallelism);
        let job = told.and_then(|(work_s, parallelism)| {
            Some(Malleable {
                work_s,
                speedup: Speedup::new(parallelism, self.sigma.unwrap_or(1.0))?,
            })
        });
        job.ok_or_else(|| {
            let what = format!("{} tells of no job that can run on more or fewer hosts", file.display());
            Failure::usage(
                what,
                r#"give "L" (seconds on one host, above 0), "A" (at least 1) and "sigma" (at least 0)"#,
            )
        })
    }
}
