//! All processes below the calling one: finding, stopping and signalling them to a fixpoint.
//!
//! The caller is a subreaper, so whatever a descendant does (a new session, a double fork) it stays
//! below the caller. Nothing here knows what the processes are for. The walk reads every process's
//! parent from `/proc`: the kernel's own lists of children are not built into every kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};

/// The longest time to freeze a tree: enough for a fork bomb, short against an owner's patience.
const FREEZE_PATIENCE: Duration = Duration::from_secs(2);
/// The number of passes over `/proc` to get one view of it in which every parent is there.
const PASSES: usize = 3;
/// The time that a process that was told to stop may take before it is looked at again.
const SETTLE: Duration = Duration::from_micros(300);

/// A process as one look at `/proc` shows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub pid: Pid,
    state: u8,
}

impl Member {
    /// Whether it has ended and only waits to be reaped.
    pub(super) fn ended(self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Whether it executes nothing and cannot fork.
    fn at_rest(self) -> bool {
        self.ended() || matches!(self.state, b'T' | b't')
    }
}

/// State and parent of a process, if it still exists.
fn look(pid: i32) -> Option<(u8, i32)> {
    let (state, parent, threads) = read_stat(&format!("/proc/{pid}/stat"))?;
    // A process goes on after the end of its first thread for as long as it has others.
    let goes_on = state == b'Z' && threads > 1;
    Some((
        if goes_on {
            state_of_threads(pid)
        } else {
            state
        },
        parent,
    ))
}

/// State, parent and number of threads of a process, or of a thread, as this file has them.
fn read_stat(path: &str) -> Option<(u8, i32, u32)> {
    let stat = fs::read(path).ok()?;
    let fields = fields(&stat)?;
    let state = *fields.first()?.as_bytes().first()?;
    Some((
        state,
        fields.get(1)?.parse().ok()?,
        fields.get(17)?.parse().ok()?,
    ))
}

/// The fields of a `stat` file from the state on. The name before them may hold anything, parentheses
/// included, and is cut to 15 bytes, be it within a character.
pub(super) fn fields(stat: &[u8]) -> Option<Vec<&str>> {
    let end = stat.iter().rposition(|b| *b == b')')?;
    let fields = std::str::from_utf8(stat.get(end + 2..)?).ok()?;
    Some(fields.split(' ').collect())
}

/// The state of a process whose first thread has ended: that of a thread which is not stopped, or
/// stopped if all are.
fn state_of_threads(pid: i32) -> u8 {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let states = threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| {
            let (state, ..) = read_stat(thread.path().join("stat").to_str()?)?;
            Some(state)
        });

    let mut all = b'Z';
    for state in states.filter(|state| !matches!(state, b'Z' | b'X' | b'x')) {
        if !matches!(state, b'T' | b't') {
            return state;
        }
        all = state;
    }
    all
}

/// All processes that one pass over `/proc` shows, by their parents.
struct Snapshot {
    children: BTreeMap<i32, Vec<(i32, u8)>>,
    /// Whether the parent of some process was gone when its turn came: only another pass can show
    /// where it belongs now.
    torn: bool,
}

fn snapshot() -> Snapshot {
    let mut children: BTreeMap<i32, Vec<(i32, u8)>> = BTreeMap::new();
    let mut seen = BTreeSet::from([0]);
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        if let Some((state, parent)) = look(pid) {
            children.entry(parent).or_default().push((pid, state));
            seen.insert(pid);
        }
    }
    let torn = children.keys().any(|parent| !seen.contains(parent));
    Snapshot { children, torn }
}

/// Every process below this one, parents first, without the trees of `spared` children.
pub(super) fn members(spared: &dyn Fn(Pid) -> bool) -> Vec<Member> {
    // Where other users' processes are hidden, every pass looks torn: then the last one has to do.
    let passes = std::iter::repeat_with(snapshot).take(PASSES);
    let Some(Snapshot { children, .. }) = first_whole_or_last(passes) else {
        return Vec::new();
    };
    let me = getpid().as_raw_nonzero().get();
    let mut found: Vec<Member> = Vec::new();

    let mut parents = vec![me];
    while let Some(parent) = parents.pop() {
        for &(child, state) in children.get(&parent).into_iter().flatten() {
            let Some(pid) = Pid::from_raw(child) else {
                continue;
            };
            if parent == me && spared(pid) {
                continue;
            }
            found.push(Member { pid, state });
            parents.push(child);
        }
    }

    found
}

fn first_whole_or_last(passes: impl Iterator<Item = Snapshot>) -> Option<Snapshot> {
    let mut last = None;
    for pass in passes {
        if !pass.torn {
            return Some(pass);
        }
        last = Some(pass);
    }
    last
}

/// Stops every process below this one, until two looks in a row find the same ones, of which none
/// could still execute or fork. One look is not enough: who is listed may leave another that is
/// not, and end or stop before its own turn to be looked at comes. A process that the kernel holds
/// uninterruptibly counts as stopped once it was told: it stops before it executes anything again.
pub(super) fn freeze(spared: &dyn Fn(Pid) -> bool) -> bool {
    let deadline = Instant::now() + FREEZE_PATIENCE;
    let mut told = BTreeSet::new();
    let mut at_rest = None;

    loop {
        let found = members(spared);
        let mut restless = false;
        for member in found.iter().filter(|m| !m.at_rest()) {
            let news = told.insert(member.pid.as_raw_nonzero());
            if news || member.state != b'D' {
                restless = true;
                let _ = kill_process(member.pid, Signal::STOP);
            }
        }

        let now: BTreeSet<_> = found
            .iter()
            .map(|m| (m.pid.as_raw_nonzero(), m.ended()))
            .collect();
        if !restless && at_rest.as_ref() == Some(&now) || Instant::now() > deadline {
            return !restless;
        }

        at_rest = (!restless).then_some(now);
        if restless {
            std::thread::sleep(SETTLE);
        }
    }
}

/// Sends a signal to every process below this one.
pub(super) fn signal(signal: Signal) {
    signal_all(signal, members(&|_| false));
}

fn signal_all(signal: Signal, members: Vec<Member>) {
    for member in members.into_iter().filter(|m| !m.ended()) {
        let _ = kill_process(member.pid, signal);
    }
}

/// Kills every process below this one that a look finds: stopped first, so that none is born
/// meanwhile.
pub(super) fn kill(spared: &dyn Fn(Pid) -> bool) {
    freeze(spared);
    signal_all(Signal::KILL, members(spared));
}
