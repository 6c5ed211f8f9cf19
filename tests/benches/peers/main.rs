//! deskgrid beside xargs, GNU parallel, HyperQueue and Dask, in turn, on loopback: `cargo bench -p
//! tests`, or with `-- --rounds 5`; with some of the words `processes`, `noops`, `latency`, `syncs`,
//! `wide` and `queued` it measures that alone. Prints the table of BENCHMARKS.md. Installs the peers
//! from registries where it can; what cannot be measured here says why. Measures the program in
//! `DESKGRID_BIN_DIR` where that is set, else builds and measures the release. Changes nothing
//! outside `target/` and the temporary directory (as root it may install GNU parallel).

mod measure;
mod others;
mod ours;
mod python;
mod report;
mod session;

use std::time::Instant;

use measure::{Cost, Samples, cost, resident, settled_resident};
use others::{Peer, PeerGroups};
use ours::Ours;
use report::{Entry, Row, millis, rate};

/// Processes for each run, as many as the peers' own papers and this project's targets use.
const TRUES: u32 = 2_000;
const NOOPS: u32 = 10_000;
const SINGLES: u32 = 50;
const MILLION: u32 = 1_000_000;
/// What the Python peers can queue in a bearable time.
const QUEUED_BY_PEERS: u32 = 100_000;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let rounds = tests::argument("--rounds", 3);
    tests::build_release();
    let parts = ["processes", "noops", "latency", "syncs", "wide", "queued"];
    let is_all = !parts.iter().any(|part| args.iter().any(|a| a == part));
    let is_wanted = |part: &str| is_all || args.iter().any(|a| a == part);

    let python = python::python();
    let peer = |kind: &str, slots: u32| {
        python
            .clone()
            .and_then(|python| Peer::start(&python, kind, slots))
    };
    let mut rows = Vec::new();

    if parts[..4].iter().copied().any(is_wanted) {
        let mut hq = peer("hyperqueue", 2);
        let mut dask = peer("dask", 2);
        let mut ours = Ours::start(2);
        if is_wanted("processes") {
            rows.push(processes(rounds, &mut hq, &mut dask, &ours));
        }
        if is_wanted("noops") {
            let groups = PeerGroups::of(&[&hq, &dask]);
            rows.push(noops(rounds, &groups, &mut dask, &ours));
        }
        if is_wanted("latency") {
            rows.push(latency(&mut hq, &mut dask, &mut ours));
        }
        if is_wanted("syncs") {
            rows.push(syncs(&ours));
        }
    }

    if is_wanted("wide") {
        rows.push(wide_noops(rounds));
    }
    if is_wanted("queued") {
        rows.push(queued(&peer));
    }
    report::print(&rows, rounds);
}

/// A contender in a row of rates.
struct Contender<'a> {
    who: &'static str,
    /// The server of a peer, which runs meanwhile.
    server: Option<u32>,
    run: Box<dyn FnMut() -> Result<Cost, String> + 'a>,
}

/// Lets each contender run once a round, and reports tasks per second and processor time per task.
fn rates(
    rounds: u32,
    tasks: u32,
    groups: &PeerGroups,
    contenders: Vec<Contender<'_>>,
) -> Vec<Entry> {
    let mut table: Vec<_> = contenders
        .into_iter()
        .map(|c| (c, Samples::default(), Samples::default(), None))
        .collect();
    for round in 1..=rounds {
        for (contender, per_second, cpu, failed) in table.iter_mut().filter(|row| row.3.is_none()) {
            eprintln!(
                "round {round} of {rounds}: {tasks} tasks, {}",
                contender.who
            );
            match groups.alone(contender.server, &mut contender.run) {
                Ok(spent) => {
                    per_second.push(f64::from(tasks) / spent.wall_s);
                    cpu.push(spent.cpu_s / f64::from(tasks));
                }
                Err(why) => *failed = Some(why),
            }
        }
    }

    let entry = |(contender, per_second, cpu, failed): (
        Contender<'_>,
        Samples,
        Samples,
        Option<String>,
    )| {
        let measured = || {
            Some(format!(
                "{}, CPU {} a task",
                rate(&per_second)?,
                millis(&cpu)?
            ))
        };
        Entry {
            who: contender.who,
            what: failed.map_or_else(|| measured().ok_or_else(String::new), Err),
        }
    };
    table.into_iter().map(entry).collect()
}

/// The server of a peer, if that runs.
fn server(peer: &Result<Peer, String>) -> Option<u32> {
    peer.as_ref().ok().map(Peer::server)
}

/// A run of a Python peer, which measures its own time.
fn peer_cost(peer: &mut Result<Peer, String>, what: &str, count: u32) -> Result<Cost, String> {
    let peer = peer.as_mut().map_err(|why| why.clone())?;
    let (seconds, spent) = cost(&peer.processes(), || peer.ask(what, count));
    let wall_s = seconds?.first().copied().ok_or("no time was measured")?;
    Ok(Cost { wall_s, ..spent })
}

fn processes(
    rounds: u32,
    hq: &mut Result<Peer, String>,
    dask: &mut Result<Peer, String>,
    ours: &Ours,
) -> Row {
    let parallel = others::parallel();
    let piped = |program: &'static [&'static str]| {
        let (done, spent) = cost(&[], || others::pipe(program, TRUES));
        done.map(|()| spent)
    };
    let own = || Ok(cost(&ours.processes(), || ours.trues(TRUES)).1);
    let groups = PeerGroups::of(&[hq, dask]);
    let (of_hq, of_dask) = (server(hq), server(dask));
    let parallel = || {
        parallel
            .clone()
            .and_then(|()| piped(&["parallel", "-j2", "true"]))
    };
    let contenders = vec![
        Contender {
            who: "deskgrid",
            server: None,
            run: Box::new(own),
        },
        Contender {
            who: "xargs -P2 -n1",
            server: None,
            run: Box::new(|| piped(&["xargs", "-P2", "-n1", "true"])),
        },
        Contender {
            who: "GNU parallel -j2",
            server: None,
            run: Box::new(parallel),
        },
        Contender {
            who: "HyperQueue 0.27",
            server: of_hq,
            run: Box::new(|| peer_cost(hq, "true", TRUES)),
        },
        Contender {
            who: "Dask 2026.8",
            server: of_dask,
            run: Box::new(|| peer_cost(dask, "true", TRUES)),
        },
    ];
    Row {
        title: "2,000 x `true`, 2 slots",
        target: ">= 0.75 x xargs, CPU <= 1.35 x xargs",
        entries: rates(rounds, TRUES, &groups, contenders),
    }
}

const NO_NOOP: &str =
    "its PyPI build has no no-op worker (elsewhere measured: 919/s at 2 slots, 22,000/s at 1,024)";

fn noops(rounds: u32, groups: &PeerGroups, dask: &mut Result<Peer, String>, ours: &Ours) -> Row {
    let own = || Ok(cost(&ours.processes(), || ours.noops(NOOPS)).1);
    let of_dask = server(dask);
    let contenders = vec![
        Contender {
            who: "deskgrid `--noop`",
            server: None,
            run: Box::new(own),
        },
        Contender {
            who: "Dask, a Python function",
            server: of_dask,
            run: Box::new(|| peer_cost(dask, "noop", NOOPS)),
        },
        Contender {
            who: "HyperQueue 0.27",
            server: None,
            run: Box::new(|| Err(NO_NOOP.to_owned())),
        },
    ];
    Row {
        title: "10,000 no-op tasks, 2 slots",
        target: ">= 20,000/s",
        entries: rates(rounds, NOOPS, groups, contenders),
    }
}

fn wide_noops(rounds: u32) -> Row {
    let ours = Ours::start(1_024);
    let ten = NOOPS;
    let hundred = 10 * NOOPS;
    let own = |count| {
        (0..rounds)
            .map(|_| cost(&ours.processes(), || ours.noops(count)).1)
            .collect::<Vec<_>>()
    };
    let entry = |who, count: u32, spent: Vec<Cost>| {
        let per_second: Samples = spent.iter().map(|c| f64::from(count) / c.wall_s).collect();
        let cpu: Samples = spent.iter().map(|c| c.cpu_s / f64::from(count)).collect();
        let text = rate(&per_second)
            .zip(millis(&cpu))
            .map(|(r, c)| format!("{r}, CPU {c} a task"));
        Entry {
            who,
            what: text.ok_or_else(String::new),
        }
    };
    let entries = vec![
        entry("deskgrid, 10,000 tasks", ten, own(ten)),
        entry("deskgrid, 100,000 tasks", hundred, own(hundred)),
        Entry {
            who: "HyperQueue 0.27",
            what: Err(NO_NOOP.to_owned()),
        },
    ];
    Row {
        title: "no-op tasks, 1,024 slots",
        target: ">= 50,000/s",
        entries,
    }
}

fn latency(hq: &mut Result<Peer, String>, dask: &mut Result<Peer, String>, ours: &mut Ours) -> Row {
    eprintln!("latency of single tasks");
    let groups = PeerGroups::of(&[hq, dask]);
    let of_peer = |peer: &mut Result<Peer, String>| {
        let running = peer.as_mut().map_err(|why| why.clone())?;
        let seconds = groups.alone(Some(running.server()), || running.ask("latency", SINGLES))?;
        millis(&seconds.into_iter().collect()).ok_or_else(String::new)
    };

    let timed = |action: &dyn Fn()| {
        let start = Instant::now();
        action();
        start.elapsed().as_secs_f64()
    };
    let mut singles = |single: &mut dyn FnMut(&mut Ours) -> f64| -> Samples {
        groups.alone(None, || (0..SINGLES).map(|_| single(ours)).collect())
    };
    let command = singles(&mut |ours| timed(&|| ours.submit(&["--wait", "--", "true"])));
    let noop = singles(&mut |ours| timed(&|| ours.submit(&["--noop", "--wait"])));
    let session = singles(&mut |ours| ours.one_in_session(ours::command_true()));
    let session_noop = singles(&mut |ours| ours.one_in_session(common::job::Work::Noop));
    let own = |samples: &Samples| millis(samples).ok_or_else(String::new);
    let entries = vec![
        Entry {
            who: "deskgrid, command line, `true`",
            what: own(&command),
        },
        Entry {
            who: "deskgrid, command line, no-op",
            what: own(&noop),
        },
        Entry {
            who: "deskgrid, open session, `true`",
            what: own(&session),
        },
        Entry {
            who: "deskgrid, open session, no-op",
            what: own(&session_noop),
        },
        Entry {
            who: "HyperQueue, open session, `true`",
            what: of_peer(hq),
        },
        Entry {
            who: "Dask, open session, a Python function",
            what: of_peer(dask),
        },
    ];

    let target = "<= 10 ms through the command line, <= 3 ms in an open session";
    Row {
        title: "one task, submit to result, p50",
        target,
        entries,
    }
}

fn syncs(ours: &Ours) -> Row {
    eprintln!("syncs of files");
    let text = |tasks: u32, action: &dyn Fn()| {
        let [master, worker] = ours.syncs(action)?;
        let each = |n: u64| format!("{n} ({:.4} a task)", n as f64 / f64::from(tasks));
        Ok(format!("master {}, worker {}", each(master), each(worker)))
    };
    let entries = vec![
        Entry {
            who: "deskgrid, 10,000 no-op",
            what: text(NOOPS, &|| ours.noops(NOOPS)),
        },
        Entry {
            who: "deskgrid, 2,000 x `true`",
            what: text(TRUES, &|| ours.trues(TRUES)),
        },
    ];

    let target = "<= 1 fsync per 100 acknowledgements under load";
    Row {
        title: "fsyncs (counted with strace, which slows everything)",
        target,
        entries,
    }
}

fn queued(peer: &dyn Fn(&str, u32) -> Result<Peer, String>) -> Row {
    let of_peer = |kind: &str| {
        eprintln!("{QUEUED_BY_PEERS} queued tasks, {kind}");
        let mut peer = peer(kind, 0)?;
        let before = resident(peer.server());
        let seconds = peer.ask("submit", QUEUED_BY_PEERS)?;
        let each = (settled_resident(peer.server()) - before) / u64::from(QUEUED_BY_PEERS);
        let first = seconds.first().ok_or("no time was measured")?;
        Ok(format!(
            "{first:.2} s for 100,000 (its Python client names each one), {each} B a task"
        ))
    };

    let entries = vec![
        Entry {
            who: "deskgrid, 1,000,000 as one array",
            what: Ok(own_million()),
        },
        Entry {
            who: "HyperQueue, 100,000",
            what: of_peer("hyperqueue"),
        },
        Entry {
            who: "Dask, 100,000",
            what: of_peer("dask"),
        },
    ];

    let target = "submit <= 50 ms, <= 200 B a task queued, restart <= 2 s";
    Row {
        title: "a million queued tasks",
        target,
        entries,
    }
}

fn own_million() -> String {
    eprintln!("{MILLION} queued tasks, deskgrid");
    let mut ours = Ours::start(0);
    let before = settled_resident(ours.grid.master_pid());
    let ((), submit) = cost(&[], || {
        ours.submit(&["--noop", "--array", &format!("1-{MILLION}")]);
    });
    let after = settled_resident(ours.grid.master_pid());

    ours.grid.kill_master();
    let ((), restart) = cost(&[], || ours.grid.start_master());
    let each = after.saturating_sub(before) as f64 / f64::from(MILLION);
    let restarted = settled_resident(ours.grid.master_pid()) as f64 / 1e6;
    format!(
        "submit {:.1} ms (command line), {each:.2} B a task, restart {:.2} s (then {restarted:.0} MB in all)",
        submit.wall_s * 1e3,
        restart.wall_s
    )
}
