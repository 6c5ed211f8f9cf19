//! Containers that the standard library lacks, each with one purpose and no meaning of its own.
//!
//! - [`dense`]: a map from numbers that were given out one after the other.
//! - [`few`]: a list that mostly has one entry, which lies where the list lies.
//! - [`gathered`]: a set of indices that come nearly in order.
//! - [`heard`]: a table of bounded size that forgets what was not heard of for longest.
//!
//! Nothing here knows of hosts, jobs or time. An iteration goes in the order of keys or of arrival, so
//! that no decision can depend on the order of a hash.

pub(crate) mod dense;
pub(crate) mod few;
pub(crate) mod gathered;
pub(crate) mod heard;
