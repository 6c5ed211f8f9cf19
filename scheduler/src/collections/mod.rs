//! Containers that the standard library lacks, each for one purpose.
//!
//! - [`dense`]: a map from numbers that were given out one after the other.
//! - [`gathered`]: a set of indices that come nearly in order.
//! - [`heard`]: a table of bounded size that forgets the entry not observed for longest.
//!
//! Hosts, jobs and time are unknown here. Iteration goes in the order of keys or of arrival, so
//! that no decision can depend on the order of a hash.

pub(crate) mod dense;
pub(crate) mod gathered;
pub(crate) mod heard;
