//! The handling of hosts and attempts that go wrong without being lost.
//!
//! - [`blame`]: a failure is the task's or the host's. Retries go elsewhere; a host with nothing
//!   but failures is benched.
//! - [`stragglers`]: an attempt that is silent, or runs much longer than any of its kind, gets a
//!   copy.
//! - [`quorum`]: results of hosts that are not trusted count once enough of them agree.
//!
//! Lost hosts and their attempts are handled in `handlers::hosts`.

pub(crate) mod blame;
pub(crate) mod quorum;
pub(crate) mod stragglers;
