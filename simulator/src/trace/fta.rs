//! Tables of the Failure Trace Archive (Javadi, Kondo, Iosup and Epema 2013): fields between
//! tabulators, read by their position. What is not here: their SQL.

mod read;
mod write;

/// What stands where nothing is known.
const NULL: &str = "NULL";
/// Types of events above this are a site's own.
const OWN_TYPES: u64 = 10_000;
