//! Traces for tests: made by hand, or read from the shared days where those are present.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use simulator::trace::{Segment, Trace, TracedHost};
use simulator::world::PreparedTrace;

/// Start and end in seconds, and the part of the processor; negative where the host is down.
pub(crate) type Piece = (f64, f64, f64);

/// A trace of hosts with these clock rates (MHz) and pieces.
pub(crate) fn trace(hosts: &[(f64, &[Piece])]) -> Trace {
    let segment = |&(start_s, end_s, cpu): &Piece| Segment {
        start_s,
        end_s,
        up: cpu >= 0.0,
        cpu: cpu.max(0.0),
    };

    let host = |(number, (clock_mhz, pieces)): (usize, &(f64, &[Piece]))| {
        TracedHost::new(
            format!("h{number}"),
            *clock_mhz,
            pieces.iter().map(segment).collect(),
        )
    };
    Trace {
        hosts: hosts.iter().enumerate().map(host).collect(),
        ..Trace::default()
    }
}

/// The world of such a trace.
pub(crate) fn prepared(hosts: &[(f64, &[Piece])]) -> PreparedTrace {
    PreparedTrace::new(&trace(hosts)).expect("clock rates that hosts have")
}

/// A host that is there for itself.
pub(crate) fn always() -> [Piece; 1] {
    [(0.0, 100_000.0, 1.0)]
}

/// One of the shared days, which lie beside the project or where `DESKGRID_SHARED` says; none where
/// they are not present.
pub(crate) fn shared_day(name: &str) -> Option<Trace> {
    let shared = std::env::var_os("DESKGRID_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
        PathBuf::from,
    );
    let top = shared.join("data/availability").join(name);
    let read = |file: &str| std::fs::read_to_string(top.join(file));
    let (Ok(hosts), Ok(segments)) = (read("hosts.csv"), read("availability.csv")) else {
        println!("skipped: {} is not there", top.display());
        return None;
    };

    let mut found: BTreeMap<String, TracedHost> = BTreeMap::new();
    for line in hosts.lines().skip(1) {
        let (name, clock) = line.split_once(',').expect("host,clock_mhz");
        let clock_mhz = clock.parse().expect("a clock rate");
        let host = TracedHost::new(name, clock_mhz, Vec::new());
        found.insert(name.to_owned(), host);
    }

    for line in segments.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse::<f64>().expect("a number");
        let segment = Segment {
            start_s: number(1),
            end_s: number(2),
            up: fields[3] == "1",
            cpu: number(4),
        };

        found
            .get_mut(fields[0])
            .expect("a known host")
            .segments
            .push(segment);
    }

    Some(Trace {
        hosts: found.into_values().collect(),
        ..Trace::default()
    })
}
