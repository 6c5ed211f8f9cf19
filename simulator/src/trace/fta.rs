//! Tables of the Failure Trace Archive (Javadi, Kondo, Iosup and Epema 2013): fields between
//! tabulators, read by their position. The archive's SQL is not read.

mod read;
mod write;

/// The text of an unknown field.
const NULL: &str = "NULL";
/// Types of events above this are a site's own.
const OWN_TYPES: u64 = 10_000;
