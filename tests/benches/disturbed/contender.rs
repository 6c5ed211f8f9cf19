//! A run of one case: the bag is submitted, the disturbance comes at its moment, and the end is
//! awaited.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};

use super::network::Network;
use super::plan::{Case, Disturbance, SLOW, STAY_S};

const LOOK: Duration = Duration::from_millis(5);
/// The parts of a job's way at which its predicted end is asked for, and the pause between looks.
pub(crate) const STAGES: [f64; 3] = [0.1, 0.5, 0.9];
const FORECAST_LOOK_S: f64 = 0.2;

/// A look at a job: the part of its tasks that is done, and the interval in which it predicts its
/// end with a probability of 80 %.
pub(crate) struct Forecast {
    pub(crate) done: f64,
    pub(crate) interval: Option<(SystemTime, SystemTime)>,
}

/// The interval of the end that was predicted at each of `STAGES`, in seconds from the actual end;
/// `None` where there was none.
pub(crate) type Intervals = [Option<(f64, f64)>; STAGES.len()];

/// How a run ended.
pub(crate) enum Ended {
    /// All tasks were done after this many seconds.
    After(f64),
    /// It was given up after this many seconds.
    GivenUp(f64),
    Failed(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(s) => write!(f, "{s:.1} s"),
            Self::GivenUp(s) => write!(f, "not done after {s:.0} s"),
            Self::Failed(why) => f.write_str(why.lines().next().unwrap_or("failed")),
        }
    }
}

/// A system with one worker on each host of the network.
pub(crate) trait Contender {
    /// Submits the bag; returns at once.
    fn submit(&mut self, case: &Case) -> Result<(), String>;
    /// Returns whether all tasks are done.
    fn done(&mut self) -> Result<bool, String>;
    /// Looks at the job, if the system predicts its end.
    fn forecast(&mut self) -> Option<Forecast> {
        None
    }
    /// Returns the process of the worker on this host.
    fn worker(&mut self, host: usize) -> u32;
    /// Does what happens when the owner comes, or leaves again.
    fn owner(&mut self, host: usize, at: &Path, comes: bool);
}

/// Runs a case to its end.
pub(crate) fn run(
    contender: &mut dyn Contender,
    case: &Case,
    network: &Network,
) -> (Ended, Intervals) {
    let mut intervals = Intervals::default();
    if let Err(why) = contender.submit(case) {
        return (Ended::Failed(why), intervals);
    }
    let start = Instant::now();
    let passed_s = || start.elapsed().as_secs_f64();

    let mut stopped = Vec::new();
    let mut disturbed = false;
    let mut owner_leaves = None;
    let mut forecasts: [Option<Forecast>; STAGES.len()] = Default::default();
    let mut look_s = 0.0;
    let ended = loop {
        if !disturbed && passed_s() >= case.at_s {
            disturbed = true;
            stopped = disturb(contender, case, network);
            owner_leaves = (case.kind == Disturbance::Owner).then_some(passed_s() + STAY_S);
        }
        if owner_leaves.is_some_and(|at| passed_s() >= at) {
            owner_leaves = None;
            contender.owner(case.host, &network.host_dir(case.host), false);
        }

        let unasked = forecasts.iter().position(Option::is_none);
        if let Some(stage) = unasked.filter(|_| passed_s() >= look_s) {
            look_s = passed_s() + FORECAST_LOOK_S;
            forecasts[stage] = contender
                .forecast()
                .filter(|forecast| forecast.done >= STAGES[stage]);
        }

        match contender.done() {
            Ok(true) => break Ended::After(passed_s()),
            Ok(false) if passed_s() > case.patience_s() => break Ended::GivenUp(passed_s()),
            Ok(false) => std::thread::sleep(LOOK),
            Err(why) => break Ended::Failed(why),
        }
    };

    // What is stopped would not end by itself.
    signal(&stopped, Signal::KILL);
    let now = SystemTime::now();
    let from_now_s = |at: SystemTime| match at.duration_since(now) {
        Ok(later) => later.as_secs_f64(),
        Err(earlier) => -earlier.duration().as_secs_f64(),
    };
    for (interval, forecast) in intervals.iter_mut().zip(forecasts) {
        let found = forecast.and_then(|forecast| forecast.interval);
        *interval = found.map(|(low, high)| (from_now_s(low), from_now_s(high)));
    }
    (ended, intervals)
}

/// Disturbs the host. Returns the processes that were stopped.
fn disturb(contender: &mut dyn Contender, case: &Case, network: &Network) -> Vec<u32> {
    let dir = network.host_dir(case.host);
    let write = |name: &str, text: &str| {
        std::fs::write(dir.join(name), text).expect("the host's directory can be written");
    };
    match case.kind {
        Disturbance::Killed => signal(&below(contender.worker(case.host)), Signal::KILL),
        Disturbance::Stopped => {
            let processes = below(contender.worker(case.host));
            signal(&processes, Signal::STOP);
            return processes;
        }
        Disturbance::Hung => write("hang", ""),
        Disturbance::CutOff => network.cut(case.host),
        Disturbance::Owner => contender.owner(case.host, &dir, true),
        Disturbance::Slow => write("speed", &SLOW.to_string()),
    }
    Vec::new()
}

/// Has the tasks on a host pause, or go on, under a system that knows no owners.
pub(crate) fn pause(at: &Path, comes: bool) {
    let file = at.join("pause");
    let did = match comes {
        true => std::fs::write(file, ""),
        false => std::fs::remove_file(file),
    };
    did.expect("the host's directory can be written");
}

/// Returns this process and all below it.
pub(crate) fn below(top: u32) -> Vec<u32> {
    let stat = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let parent = |pid: u32| -> Option<u32> {
        let text = stat(pid)?;
        text.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let all: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .expect("Linux")
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();

    let mut found = vec![top];
    let mut next = 0;
    while let Some(of) = found.get(next).copied() {
        found.extend(all.iter().filter(|(_, p)| *p == of).map(|(pid, _)| *pid));
        next += 1;
    }
    found
}

pub(crate) fn signal(processes: &[u32], signal: Signal) {
    for pid in processes
        .iter()
        .filter_map(|pid| Pid::from_raw(*pid as i32))
    {
        // Who ended meanwhile needs no signal.
        let _ = kill_process(pid, signal);
    }
}
