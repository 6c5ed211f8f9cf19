//! What can be wrong with a trace in a directory, with file, line and what to do. What is not here:
//! the checks.

use std::io;
use std::path::PathBuf;

/// Why a trace could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A file cannot be read or written at all.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What a file says cannot be.
    #[error("{}, line {line}: {flaw}", file.display())]
    Flawed {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1 with the header.
        line: usize,
        /// What is wrong there.
        flaw: Flaw,
    },
    /// A host's name would not survive being written.
    #[error(
        "host {0:?} cannot be written: a name must not be empty, nor hold commas, quotation marks or line ends"
    )]
    Unwritable(String),
    /// A host's name would not survive being written between spaces or tabulators.
    #[error(
        "host {0:?} cannot be written in this format: a name must be a word without spaces and tabulators"
    )]
    NotAWord(String),
    /// There is nothing there that the format knows.
    #[error("{}: {why}", path.display())]
    NotThere {
        /// Where it was looked for.
        path: PathBuf,
        /// What is missing.
        why: &'static str,
    },
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Flaw {
    /// The header lacks a column.
    #[error("there is no column `{0}`: the first line must name the columns {1}")]
    NoColumn(&'static str, String),
    /// The header names a column twice.
    #[error("the column `{0}` is named twice")]
    ColumnTwice(&'static str),
    /// The line has more or fewer fields than the header.
    #[error("{found} fields where the header names {expected}")]
    Fields {
        /// What the header has.
        expected: usize,
        /// What the line has.
        found: usize,
    },
    /// A field is in quotation marks, which this format does not have.
    #[error("quotation marks: fields of this format have none, so names must not hold commas")]
    Quoted,
    /// A field that must be a number is none, or not finite.
    #[error("{column} is {text:?}, which is not a finite number")]
    NotANumber {
        /// The field's column.
        column: &'static str,
        /// What it says.
        text: String,
    },
    /// The host has no name.
    #[error("the host has no name")]
    NoName,
    /// The host has been named before.
    #[error("host {host:?} stands here a second time; line {before} has it already")]
    HostTwice {
        /// The host.
        host: String,
        /// Where it was first.
        before: usize,
    },
    /// A clock that no processor has.
    #[error("the clock of host {host:?} is {clock_mhz} MHz: it must be greater than zero")]
    Clock {
        /// The host.
        host: String,
        /// What the file says.
        clock_mhz: f64,
    },
    /// The segments name a host that `hosts.csv` does not have.
    #[error("host {0:?} is not in hosts.csv")]
    UnknownHost(String),
    /// A host has no segments.
    #[error("host {0:?} has no line in availability.csv: say when it was up and down")]
    NoSegments(String),
    /// There are no hosts.
    #[error("no hosts follow the header")]
    NoHosts,
    /// A workload without jobs.
    #[error("the log has no job: lines without a `;` before them are jobs")]
    NoJobs,
    /// A time before the trace's start.
    #[error("{column} is {value}: times count from the trace's start and are not negative")]
    Negative {
        /// Which time.
        column: &'static str,
        /// What it is.
        value: f64,
    },
    /// A time or count that is too large to be one.
    #[error("{column} is {text}, which is too large to be meant")]
    TooLarge {
        /// The field's column.
        column: &'static str,
        /// What it says.
        text: String,
    },
    /// A line that lacks fields.
    #[error("{found} fields where a line of this format has {expected}: is the line cut off?")]
    Short {
        /// What a line has.
        expected: usize,
        /// What this one has.
        found: usize,
    },
    /// An availability interval without its end, or other numbers than were announced.
    #[error(
        "{announced} intervals are announced, and {numbers} times follow: each interval has two"
    )]
    Intervals {
        /// How many intervals the line says that there are.
        announced: usize,
        /// How many numbers follow.
        numbers: usize,
    },
    /// An event that is no availability and nobody's own.
    #[error(
        "event_type is {0:?}: 0 is unavailable, 1 is available, and types of a site's own are above 10000"
    )]
    EventType(String),
    /// A state of an event that is not there.
    #[error("there is no event {event} of node {node}, component {component} in the event trace")]
    NoEvent {
        /// The event.
        event: String,
        /// Its node.
        node: String,
        /// Its component.
        component: String,
    },
    /// A word that the log does not have.
    #[error(
        "{0:?} is no event of this log: known are power_on, power_off, proc_start, proc_stop and net_*"
    )]
    UnknownEvent(String),
    /// An event that is older than the one before it.
    #[error(
        "the event is at {at_s} s, before the last one at {before_s} s: order the lines by time"
    )]
    Unordered {
        /// This one.
        at_s: f64,
        /// The one before.
        before_s: f64,
    },
    /// Text that is no JSON, or JSON of another shape.
    #[error("not an export of ActivityWatch: {0}")]
    Json(String),
    /// A date and time that is none.
    #[error("{0:?} is no date and time such as 2026-03-01T09:30:00Z")]
    NotADate(String),
    /// A status that says neither.
    #[error("status is {0:?}: it must be afk or not-afk")]
    Status(String),
    /// No host has any segment.
    #[error("nothing is said about any host")]
    Nothing,
    /// A segment that ends where it starts, or before.
    #[error("the segment ends at {end_s} s, which is not after its start at {start_s} s")]
    Backwards {
        /// Its start.
        start_s: f64,
        /// Its end.
        end_s: f64,
    },
    /// Nothing is said about a stretch of time.
    #[error("a gap: nothing is said about host {host:?} from {from_s} s to {to_s} s")]
    Gap {
        /// The host.
        host: String,
        /// Where the segment before ends.
        from_s: f64,
        /// Where this one starts.
        to_s: f64,
    },
    /// Two segments speak about the same time.
    #[error(
        "an overlap: the segment of host {host:?} starts at {start_s} s, but the one before ends at {before_s} s; order the segments of a host by time"
    )]
    Overlap {
        /// The host.
        host: String,
        /// Where this segment starts.
        start_s: f64,
        /// Where the one before ends.
        before_s: f64,
    },
    /// Neither up nor down.
    #[error("host_available is {0:?}: it must be 0 or 1")]
    NeitherUpNorDown(String),
    /// A part of the processor that cannot be.
    #[error("cpu_fraction is {0}: it must lie between 0 and 1")]
    Fraction(f64),
}
