//! The errors of reading and writing traces ([`TraceError`], [`Flaw`]), each with file, line and
//! advice.

use std::io;
use std::path::{Path, PathBuf};

/// The reasons why a trace could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A file cannot be read or written at all.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The contents of a file are invalid.
    #[error("{}, line {line}: {flaw}", file.display())]
    Flawed {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1 with the header.
        line: usize,
        /// The [`Flaw`] of the line.
        flaw: Flaw,
    },
    /// A host's name that would be misread after writing: it is empty, or has commas, quotation
    /// marks or line ends.
    #[error(
        "host {0:?} cannot be written: a name must not be empty, nor hold commas, quotation marks or line ends"
    )]
    Unwritable(String),
    /// A host's name with spaces or tabulators, in a format that separates fields by them.
    #[error(
        "host {0:?} cannot be written in this format: a name must be a word without spaces and tabulators"
    )]
    NotAWord(String),
    /// The path holds no files of the format.
    #[error("{}: {why}", path.display())]
    NotThere {
        /// The path that was searched.
        path: PathBuf,
        /// The thing that is missing.
        why: &'static str,
    },
}

impl TraceError {
    /// Returns a function that tells why this file cannot be read or written at all.
    pub(crate) fn io(file: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| TraceError::Io {
            file: file.to_owned(),
            source,
        }
    }

    /// Creates the error of a line, counted from 1.
    pub(crate) fn flawed(file: &Path, line: usize, flaw: Flaw) -> Self {
        let file = file.to_owned();
        TraceError::Flawed { file, line, flaw }
    }
}

/// The flaws of a line.
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
        /// The number of fields of the header.
        expected: usize,
        /// The number of fields of the line.
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
        /// The field's text.
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
        /// The line that names it first.
        before: usize,
    },
    /// A clock rate that no processor has.
    #[error(
        "the clock of host {host:?} is {clock_mhz} MHz: it must lie between 0.001 and 500000; convert it if it is in another unit"
    )]
    Clock {
        /// The host.
        host: String,
        /// The clock rate in the file.
        clock_mhz: f64,
    },
    /// A segment of a host that `hosts.csv` does not have.
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
        /// The column of the time.
        column: &'static str,
        /// The time in the file.
        value: f64,
    },
    /// A time or count that is too large to be one.
    #[error("{column} is {text}, which is too large to be meant")]
    TooLarge {
        /// The field's column.
        column: &'static str,
        /// The field's text.
        text: String,
    },
    /// A line with too few fields.
    #[error("{found} fields where a line of this format has {expected}: is the line cut off?")]
    Short {
        /// The number of fields that a line needs.
        expected: usize,
        /// The number of fields of this line.
        found: usize,
    },
    /// An availability interval without an end, or a count of intervals that differs from the
    /// announced one.
    #[error(
        "{announced} intervals are announced, and {numbers} times follow: each interval has two"
    )]
    Intervals {
        /// The announced number of intervals.
        announced: usize,
        /// The number of times that follow.
        numbers: usize,
    },
    /// An event that is neither availability nor a type of a site's own.
    #[error(
        "event_type is {0:?}: 0 is unavailable, 1 is available, and types of a site's own are above 10000"
    )]
    EventType(String),
    /// A state that refers to an unknown event.
    #[error("there is no event {event} of node {node}, component {component} in the event trace")]
    NoEvent {
        /// The event.
        event: String,
        /// The node of the event.
        node: String,
        /// The component of the event.
        component: String,
    },
    /// A word that is no event of the log.
    #[error(
        "{0:?} is no event of this log: known are power_on, power_off, proc_start, proc_stop and net_*"
    )]
    UnknownEvent(String),
    /// An event that is earlier than the one before it.
    #[error(
        "the event is at {at_s} s, before the last one at {before_s} s: order the lines by time"
    )]
    Unordered {
        /// The time of this event, in seconds.
        at_s: f64,
        /// The time of the event before, in seconds.
        before_s: f64,
    },
    /// Invalid JSON, or JSON of another shape.
    #[error("not an export of ActivityWatch: {0}")]
    Json(String),
    /// Text that is no date and time.
    #[error("{0:?} is no date and time such as 2026-03-01T09:30:00Z")]
    NotADate(String),
    /// A status that is neither of the two known ones.
    #[error("status is {0:?}: it must be afk or not-afk")]
    Status(String),
    /// No host has any segment.
    #[error("nothing is said about any host")]
    Nothing,
    /// A segment that ends where it starts, or before.
    #[error("the segment ends at {end_s} s, which is not after its start at {start_s} s")]
    Backwards {
        /// The start of the segment.
        start_s: f64,
        /// The end of the segment.
        end_s: f64,
    },
    /// A gap between two segments.
    #[error("a gap: nothing is said about host {host:?} from {from_s} s to {to_s} s")]
    Gap {
        /// The host.
        host: String,
        /// The end of the segment before.
        from_s: f64,
        /// The start of this segment.
        to_s: f64,
    },
    /// Two segments that overlap.
    #[error(
        "an overlap: the segment of host {host:?} starts at {start_s} s, but the one before ends at {before_s} s; order the segments of a host by time"
    )]
    Overlap {
        /// The host.
        host: String,
        /// The start of this segment.
        start_s: f64,
        /// The end of the segment before.
        before_s: f64,
    },
    /// A `host_available` that is neither up nor down.
    #[error("host_available is {0:?}: it must be 0 or 1")]
    NeitherUpNorDown(String),
    /// A part of the processor outside 0 to 1.
    #[error("cpu_fraction is {0}: it must lie between 0 and 1")]
    Fraction(f64),
}
