//! The files that the process may have open, and how many of them go to whom: what strangers can
//! take of them is bounded, so that the store, content and those who are known always find some.

use link::TunnelLimits;
use rustix::process::{Resource, getrlimit, setrlimit};

/// With fewer the master works, for few.
const FEW: u64 = 4_096;
/// More are of no use, and some systems allow more than a number of tunnels can be.
const ENOUGH: u64 = 1 << 20;

/// How many files go to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileTransfers {
    /// Tunnels over TCP.
    pub(crate) tunnels: TunnelLimits,
    /// Connections over HTTP.
    pub(crate) http: usize,
    /// The same, of one address.
    pub(crate) http_of_one: usize,
    /// Content of users on its way.
    pub(crate) contents: usize,
}

impl FileTransfers {
    /// Raises what the process may have as far as the system lets it, and divides it.
    pub(crate) fn raise() -> Self {
        let mut limits = getrlimit(Resource::Nofile);
        let wanted = limits.maximum.unwrap_or(ENOUGH).min(ENOUGH);
        if limits.current.is_some_and(|current| current < wanted) {
            limits.current = Some(wanted);
            if let Err(error) = setrlimit(Resource::Nofile, limits) {
                tracing::warn!(%error, "the limit of open files could not be raised");
            }
        }

        let most = getrlimit(Resource::Nofile)
            .current
            .unwrap_or(ENOUGH)
            .min(ENOUGH);
        if most < FEW {
            tracing::warn!(
                most,
                "few files may be open: raise the limit (LimitNOFILE=, ulimit -Hn) before many connect over TCP"
            );
        }

        tracing::debug!(most, "files");
        Self::of(usize::try_from(most).unwrap_or(usize::MAX))
    }

    /// Of so many files: half to tunnels, a quarter to content, and the rest to the store and all
    /// else.
    fn of(most: usize) -> Self {
        let part = |of: usize, bound: usize| (most / of).clamp(4, bound);
        let tunnels = TunnelLimits {
            most: most / 2,
            unknown: part(8, 1_024),
            unknown_of_one: part(32, 64),
        };
        Self {
            tunnels,
            http: part(16, 64),
            http_of_one: part(32, 32),
            contents: part(4, 4_096),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_never_get_the_greater_part_of_the_files() {
        for most in [256, 1_024, 4_096, 1 << 20] {
            let files = FileTransfers::of(most);
            assert!(files.tunnels.unknown + files.http <= most / 4, "{files:?}");
            assert!(
                files.tunnels.most + files.http + files.contents <= most * 7 / 8,
                "{files:?}"
            );
        }
    }
}
